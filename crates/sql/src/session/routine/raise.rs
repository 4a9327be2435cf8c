//! RAISE, ASSERT and GET DIAGNOSTICS.

use colibri_syntax::plpgsql::{Condition, Expr, Level, Raise, Target};
use colibri_types::{Datum, Error, Result, SqlState, Type, text_io};
use compact_str::CompactString;

use super::super::Severity;
use super::conditions;
use super::run::Activation;

/// What RAISE and its options say.
#[derive(Default)]
struct Said {
    state: Option<String>,
    /// The name of the condition, which is the message if there is no other.
    condition: Option<String>,
    message: Option<String>,
    detail: Option<String>,
    hint: Option<String>,
    column: Option<String>,
    constraint: Option<String>,
    data_type: Option<String>,
    table: Option<String>,
    schema: Option<String>,
}

impl Activation<'_> {
    /// The text of a value.
    pub(super) fn text_of(&mut self, expr: &Expr) -> Result<Option<String>> {
        let (value, ty) = self.value(expr, None)?;
        if value.is_null() {
            return Ok(None);
        }
        let value = match ty.ty {
            Type::Char => colibri_types::cast::pad_char(&value, ty.modifier),
            _ => value,
        };
        Ok(Some(text_io::written(ty.ty, &value, self.session.env())?.into()))
    }

    pub(super) fn raise(&mut self, raise: &Raise) -> Result<()> {
        if raise.is_bare {
            return Err(self.handled.last().cloned().ok_or_else(|| {
                Error::new(SqlState("0Z002"), "RAISE without parameters cannot be used outside an exception handler")
            })?);
        }
        let mut said = Said::default();
        match &raise.condition {
            Some(Condition::State(state)) => {
                said.state = Some(state.clone());
                said.condition = Some(state.clone());
            }
            Some(Condition::Named(name)) => {
                let Some(code) = conditions::codes(name).next() else {
                    let message = format!("unrecognized exception condition \"{name}\"");
                    return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                };
                said.state = Some(code.to_owned());
                said.condition = Some(name.to_string());
            }
            None => {}
        }
        if let Some((format, args)) = &raise.format {
            let mut message = String::new();
            let mut args = args.iter();
            let mut rest = format.chars().peekable();
            while let Some(c) = rest.next() {
                if c != '%' {
                    message.push(c);
                } else if rest.peek() == Some(&'%') {
                    rest.next();
                    message.push('%');
                } else if let Some(arg) = args.next() {
                    message.push_str(&self.text_of(arg)?.unwrap_or_else(|| "<NULL>".to_owned()));
                }
            }
            said.message = Some(message);
        }
        for (option, value) in &raise.options {
            self.raise_option(&mut said, option, value)?;
        }
        let default = if raise.level == Level::Exception { "P0001" } else { "00000" };
        let state = said.state.as_deref().unwrap_or(match raise.level {
            Level::Warning => "01000",
            _ => default,
        });
        let message = said.message.or(said.condition).unwrap_or_else(|| state.to_owned());
        let mut error = Error::new(SqlState::of(state), message);
        if let Some(detail) = said.detail {
            error = error.detail(detail);
        }
        if let Some(hint) = said.hint {
            error = error.hint(hint);
        }
        error = error.with_names(said.schema, said.table, said.column, said.data_type, said.constraint);
        let severity = match raise.level {
            Level::Exception => return Err(error),
            Level::Debug => Severity::Debug,
            Level::Log => Severity::Log,
            Level::Info => Severity::Info,
            Level::Notice => Severity::Notice,
            Level::Warning => Severity::Warning,
        };
        let context = self.context_here();
        self.session.notice_report(severity, error.within(context));
        Ok(())
    }

    fn raise_option(&mut self, said: &mut Said, option: &CompactString, value: &Expr) -> Result<()> {
        let Some(text) = self.text_of(value)? else {
            return Err(Error::new(SqlState::NULL_NOT_ALLOWED, "RAISE statement option cannot be null"));
        };
        let set = match option.as_str() {
            "errcode" => {
                if said.state.is_some() {
                    return Err(already_specified(option));
                }
                let is_code = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
                said.state = Some(match conditions::codes(&text).next() {
                    Some(code) => code.to_owned(),
                    None if is_code => text.clone(),
                    None => {
                        let message = format!("unrecognized exception condition \"{text}\"");
                        return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                    }
                });
                said.condition = Some(text);
                return Ok(());
            }
            "message" => &mut said.message,
            "detail" => &mut said.detail,
            "hint" => &mut said.hint,
            "column" => &mut said.column,
            "constraint" => &mut said.constraint,
            "datatype" => &mut said.data_type,
            "table" => &mut said.table,
            _ => &mut said.schema,
        };
        if set.replace(text).is_some() {
            return Err(already_specified(option));
        }
        Ok(())
    }

    pub(super) fn assert(&mut self, condition: &Expr, message: Option<&Expr>) -> Result<()> {
        let is_on = self.session.setting("plpgsql.check_asserts").map_or(true, |value| value != "off");
        if !is_on || self.condition(condition)? {
            return Ok(());
        }
        let message = match message {
            Some(message) => self.text_of(message)?,
            None => None,
        };
        Err(Error::new(SqlState("P0004"), message.unwrap_or_else(|| "assertion failed".to_owned())))
    }

    pub(super) fn get_diagnostics(&mut self, stacked: bool, items: &[(Target, CompactString)]) -> Result<()> {
        let error = match (stacked, self.handled.last()) {
            (true, None) => {
                let message = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
                return Err(Error::new(SqlState("0Z002"), message));
            }
            (_, error) => error.cloned(),
        };
        for (target, item) in items {
            let (value, ty) = if stacked {
                let error = error.as_ref().map(Error::report);
                let text = |text: Option<&str>| Datum::text(text.unwrap_or(""));
                let value = error.map_or(Datum::Null, |report| match item.as_str() {
                    "returned_sqlstate" => text(Some(report.state.0)),
                    "message_text" => text(Some(&report.message)),
                    "pg_exception_detail" => text(report.detail.as_deref()),
                    "pg_exception_hint" => text(report.hint.as_deref()),
                    "pg_exception_context" => text(report.context.as_deref()),
                    "column_name" => text(report.column.as_deref()),
                    "constraint_name" => text(report.constraint.as_deref()),
                    "pg_datatype_name" => text(report.data_type.as_deref()),
                    "table_name" => text(report.table.as_deref()),
                    _ => text(report.schema.as_deref()),
                });
                (value, Type::Text)
            } else {
                match item.as_str() {
                    "row_count" => (Datum::Int(self.row_count as i64), Type::Int8),
                    "pg_routine_oid" => (Datum::Int(i64::from(self.routine_number())), Type::Oid),
                    _ => (Datum::text(&self.context_here()), Type::Text),
                }
            };
            self.assign(target, value, ty.into())?;
        }
        Ok(())
    }
}

fn already_specified(option: &str) -> Error {
    let message = format!("RAISE option already specified: {}", option.to_ascii_uppercase());
    Error::new(SqlState::SYNTAX_ERROR, message)
}
