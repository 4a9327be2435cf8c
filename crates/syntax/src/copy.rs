//! COPY, whose options PostgreSQL has written in three ways over time.
//!
//! ```text
//! COPY [BINARY] table [(column, …)] FROM|TO {STDIN|STDOUT|'file'} [[USING] DELIMITERS 'x'] [WITH] options [WHERE condition]
//! COPY (query) TO {STDOUT|'file'} [WITH] options
//!
//! options   (FORMAT csv, HEADER match, FORCE_QUOTE (a, b), …)
//!         | BINARY | FREEZE | CSV | HEADER | {DELIMITER|NULL|QUOTE|ESCAPE} [AS] 'x' | ENCODING 'x'
//!         | FORCE {QUOTE {*|a, b}|NOT NULL a, b|NULL a, b} …
//! ```
//!
//! An option that makes no sense is told unless there is a mistake further down.

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Copy, CopyColumns, CopyFormat, CopyHeader, CopyOptions, CopySource, Name};

/// The value of an option in parentheses.
enum Value {
    None,
    Text(String),
    Star,
    List(Vec<Name>),
}

#[cold]
fn syntax(message: impl Into<String>) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

#[cold]
fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

/// Sets what may be given once.
fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(syntax("conflicting or redundant options")),
    }
}

impl Parser<'_> {
    pub(crate) fn copy(&mut self) -> Result<Copy> {
        self.expect(K::Copy)?;
        let mut options = CopyOptions::default();
        let (source, is_to) = if self.eat_kind(Kind::LeftParen) {
            let query = self.inner()?;
            self.expect_kind(Kind::RightParen)?;
            self.expect(K::To)?;
            (CopySource::Query(Box::new(query)), true)
        } else {
            // A table may be called so.
            let is_table = matches!(self.kind_behind(1), Kind::LeftParen | Kind::Period | Kind::Key(K::From | K::To));
            if !is_table && self.eat(K::Binary) {
                options.format = Some(CopyFormat::Binary);
            }
            let name = self.qualified()?;
            let columns = self.maybe_in_parens(Self::folded)?;
            let way = self.eat_any(&[K::From, K::To]).ok_or_else(|| self.wrong())?;
            (CopySource::Table { name, columns }, way == 1)
        };
        let is_table = matches!(source, CopySource::Table { .. });
        let file = self.copy_end()?;
        if is_table {
            let is_using = self.eat(K::Using);
            if self.eat(K::Delimiters) {
                options.delimiter = Some(self.string()?);
            } else if is_using {
                return Err(self.wrong());
            }
        }
        self.eat(K::With);
        if self.kind() == Kind::LeftParen {
            self.in_parens(|parser| parser.copy_option(&mut options))?;
        } else {
            while self.old_copy_option(&mut options)? {}
        }
        let token = self.peek();
        let condition = if is_table && self.eat(K::Where) { Some(self.expr()?) } else { None };
        if is_to && condition.is_some() {
            let error =
                syntax("WHERE clause not allowed with COPY TO").hint("Try the COPY (SELECT ... WHERE ...) TO variant.");
            self.note_error(self.error_at(token, error));
        }
        Ok(Copy { source, is_to, file, options, condition })
    }

    /// Where rows come from or go to: a file of the server, or the caller's affair. PostgreSQL takes
    /// either word for either way.
    fn copy_end(&mut self) -> Result<Option<String>> {
        let token = self.peek();
        let is_program = self.eat(K::Program);
        if self.eat_any(&[K::Stdin, K::Stdout]).is_some() {
            if is_program {
                self.note_error(self.error_at(token, syntax("STDIN/STDOUT not allowed with PROGRAM")));
            }
            return Ok(None);
        }
        let file = self.string()?;
        if !is_program {
            return Ok(Some(file));
        }
        let error = Error::unsupported("COPY with a program of the server")
            .hint("Use COPY FROM STDIN or COPY TO STDOUT; in colibri sql, \\copy.");
        self.note_error(error);
        Ok(None)
    }

    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.note_error(error);
        }
    }

    /// An option of those without parentheses, if one comes next.
    fn old_copy_option(&mut self, options: &mut CopyOptions) -> Result<bool> {
        let token = self.peek();
        let done = match token.kind {
            Kind::Key(K::Delimiter | K::Null | K::Quote | K::Escape) => {
                self.next();
                self.eat(K::As);
                let text = self.string()?;
                let place = match token.kind {
                    Kind::Key(K::Delimiter) => &mut options.delimiter,
                    Kind::Key(K::Null) => &mut options.null,
                    Kind::Key(K::Quote) => &mut options.quote,
                    _ => &mut options.escape,
                };
                once(place, text)
            }
            Kind::Key(K::Binary) => {
                self.next();
                once(&mut options.format, CopyFormat::Binary)
            }
            Kind::Key(K::Csv) => {
                self.next();
                once(&mut options.format, CopyFormat::Csv)
            }
            Kind::Key(K::Header) => {
                self.next();
                once(&mut options.header, CopyHeader::Line)
            }
            Kind::Key(K::Freeze) => {
                self.next();
                once(&mut options.freeze, true)
            }
            Kind::Key(K::Encoding) => {
                self.next();
                once(&mut options.encoding, self.string()?)
            }
            Kind::Key(K::Force) => {
                self.next();
                self.old_force(options)?
            }
            _ => return Ok(false),
        };
        self.note(done);
        Ok(true)
    }

    fn old_force(&mut self, options: &mut CopyOptions) -> Result<Result<()>> {
        if self.eat(K::Quote) {
            let all = self.eat_kind(Kind::Star);
            let columns = if all { CopyColumns::All } else { CopyColumns::Named(self.list(Self::folded)?) };
            return Ok(once(&mut options.force_quote, columns));
        }
        let place = if self.eat_all(&[K::Not, K::Null]) {
            &mut options.force_not_null
        } else if self.eat(K::Null) {
            &mut options.force_null
        } else {
            return Err(self.wrong());
        };
        Ok(once(place, CopyColumns::Named(self.list(Self::folded)?)))
    }

    /// An option of those in parentheses.
    fn copy_option(&mut self, options: &mut CopyOptions) -> Result<()> {
        let name = self.folded_label()?;
        let value = self.copy_value()?;
        let done = options.take(&name, value);
        self.note(done);
        Ok(())
    }

    fn copy_value(&mut self) -> Result<Value> {
        Ok(match self.kind() {
            Kind::Comma | Kind::RightParen => Value::None,
            Kind::Star => {
                self.next();
                Value::Star
            }
            Kind::LeftParen => Value::List(self.in_parens(Self::folded_label)?),
            kind if Self::is_label(kind) => Value::Text(self.folded_label()?.into()),
            Kind::Plus | Kind::Minus | Kind::Integer | Kind::Decimal => Value::Text(self.signed_text()?),
            _ => Value::Text(self.string()?),
        })
    }
}

impl CopyOptions {
    /// Takes an option of those in parentheses.
    fn take(&mut self, name: &str, value: Value) -> Result<()> {
        let text = |value: Value| match value {
            Value::Text(text) => Ok(text),
            Value::None => Err(syntax(format!("{name} requires a parameter"))),
            Value::Star => Ok("*".to_owned()),
            Value::List(columns) => Ok(columns.join(", ")),
        };
        match name {
            "format" => {
                let format = match text(value)?.as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => return Err(bad(format!("COPY format \"{other}\" not recognized"))),
                };
                once(&mut self.format, format)
            }
            "freeze" => once(&mut self.freeze, boolean("freeze", &value)?),
            "delimiter" => once(&mut self.delimiter, text(value)?),
            "null" => once(&mut self.null, text(value)?),
            "header" => once(&mut self.header, header(&value)?),
            "quote" => once(&mut self.quote, text(value)?),
            "escape" => once(&mut self.escape, text(value)?),
            "encoding" => once(&mut self.encoding, text(value)?),
            "force_quote" | "force_not_null" | "force_null" => {
                let columns = match value {
                    Value::Star if name == "force_quote" => CopyColumns::All,
                    Value::List(columns) => CopyColumns::Named(columns),
                    _ => return Err(bad(format!("argument to option \"{name}\" must be a list of column names"))),
                };
                let place = match name {
                    "force_quote" => &mut self.force_quote,
                    "force_not_null" => &mut self.force_not_null,
                    _ => &mut self.force_null,
                };
                once(place, columns)
            }
            other => Err(syntax(format!("option \"{other}\" not recognized"))),
        }
    }
}

fn boolean(name: &str, value: &Value) -> Result<bool> {
    let text = match value {
        Value::None => return Ok(true),
        Value::Text(text) => text.to_ascii_lowercase(),
        _ => String::new(),
    };
    match text.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(syntax(format!("{name} requires a Boolean value"))),
    }
}

fn header(value: &Value) -> Result<CopyHeader> {
    match value {
        Value::Text(text) if text.eq_ignore_ascii_case("match") => Ok(CopyHeader::Match),
        value => match boolean("header", value) {
            Ok(true) => Ok(CopyHeader::Line),
            Ok(false) => Ok(CopyHeader::None),
            Err(_) => Err(syntax("header requires a Boolean value or \"match\"")),
        },
    }
}
