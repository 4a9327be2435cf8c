//! Object numbers as names, and back: the types `regclass`, `regtype`, `regproc`, `regoper`,
//! `regnamespace`, `regrole` and their kin.
//!
//! A number that nothing has is written as a number; a name is written with its schema unless it
//! would be found without.
//!
//! A name is read as SQL reads it: up to three parts, of which the first of three is the database
//! at hand. What is not found is an error where a value is read (`'x'::regclass`), and NULL for
//! `to_regclass` and its kin, which take names alone.

use std::fmt::Write;
use std::sync::Arc;

use colibri_catalog::{NAME_TEXT_BYTES_MAX, ObjectId, Relation, Table, parse_name};
use colibri_types::text_search::{Configuration, Dictionary};
use colibri_types::{
    ColumnType, Error, Modifier, Result, SqlState, Type,
    env::{Surround, number_itself},
    letters,
};
use compact_str::CompactString;

use super::PG_CATALOG;
use crate::surroundings::Surroundings;
pub(crate) use colibri_types::functions::quote_identifier as quoted;

/// A relation by its number: of the user, or of the system.
#[derive(Clone)]
pub(crate) enum Found {
    User { schema: CompactString, name: CompactString, relation: Relation },
    System(&'static super::SystemTable),
}

impl Found {
    pub(crate) fn schema(&self) -> &str {
        match self {
            Self::User { schema, .. } => schema,
            Self::System(table) => table.schema,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::User { name, .. } => name,
            Self::System(table) => table.name,
        }
    }
}

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    Number(ObjectId),
    Nothing,
    /// Nothing, since there is no such schema.
    NoSchema(CompactString),
    /// Any of several.
    Several,
}

impl Surroundings {
    /// What has a number.
    pub(crate) fn relation(&self, id: ObjectId) -> Option<Found> {
        if let Some(table) = super::table_numbered(id) {
            return Some(Found::System(table));
        }
        let (schema, name, relation) = self.catalog.relation_numbered(id)?;
        Some(Found::User { schema, name, relation })
    }

    /// A table by number.
    pub(crate) fn table(&self, id: ObjectId) -> Option<&std::sync::Arc<Table>> {
        self.catalog.table(id)
    }

    /// Whether a relation is found without its schema.
    pub(crate) fn is_visible(&self, found: &Found) -> bool {
        match found {
            Found::System(table) => {
                table.schema == "pg_catalog" || self.search_path.iter().any(|schema| schema == table.schema)
            }
            Found::User { schema, name, .. } => {
                super::table("pg_catalog", name).is_none()
                    && self.search_path.iter().find(|path| self.catalog.relation(path, name).is_some()) == Some(schema)
            }
        }
    }

    /// A relation's name, with its schema unless it is found without.
    pub(crate) fn relation_name(&self, id: ObjectId) -> Option<String> {
        let found = self.relation(id)?;
        Some(if self.is_visible(&found) {
            quoted(found.name())
        } else {
            format!("{}.{}", quoted(found.schema()), quoted(found.name()))
        })
    }

    /// A type's name, with its schema unless it is found without.
    pub(crate) fn type_name(&self, number: u32) -> Option<String> {
        match super::types::relation_of(number) {
            Some((relation, is_array)) => {
                self.columns_of(relation)?;
                let brackets = if is_array { "[]" } else { "" };
                self.relation_name(relation).map(|name| format!("{name}{brackets}"))
            }
            None => {
                if let Some(ty) = Type::from_oid(number).filter(|ty| ty.extension().is_some()) {
                    return Some(self.extension_type_name(ty));
                }
                let known = Type::from_oid(number).map(Type::sql_name);
                let known = known.or_else(|| super::procedures::pseudo_type_numbered(number)).map(str::to_owned);
                known.or_else(|| self.user_type_name(number))
            }
        }
    }

    /// The name of a type of an extension, or of arrays of it.
    fn extension_type_name(&self, ty: Type) -> String {
        let schema = self.catalog.extensions().find(|known| Some(known.name.as_str()) == ty.extension());
        match schema.map(|extension| &extension.schema) {
            Some(schema) if !self.is_extension_type_visible(ty) => format!("{}.{ty}", quoted(schema)),
            _ => ty.to_string(),
        }
    }

    /// Whether a type of an extension is found without its schema.
    pub(crate) fn is_extension_type_visible(&self, ty: Type) -> bool {
        crate::bind::extension_type(&self.catalog, None, ty.inner_name(), &self.search_path).is_some()
    }

    /// The name of a type that a user has defined, or of arrays of it.
    fn user_type_name(&self, number: u32) -> Option<String> {
        let (found, is_array) = self.catalog.user_type_of(number)?;
        let name = if self.is_type_visible(found) {
            quoted(&found.name)
        } else {
            format!("{}.{}", quoted(&found.schema), quoted(&found.name))
        };
        Some(if is_array { format!("{name}[]") } else { name })
    }

    /// Whether a type is found without its schema.
    pub(crate) fn is_type_visible(&self, ty: &colibri_catalog::UserType) -> bool {
        let is_hidden = Type::all().any(|known| known.extension().is_none() && known.inner_name() == ty.name);
        !is_hidden && self.catalog.find_type(None, &ty.name, &self.search_path).is_some_and(|found| found.id == ty.id)
    }

    /// The type that a text names, as `format_type` writes it or in any other way that SQL knows.
    fn type_named(&self, text: &str) -> Option<ColumnType> {
        if text.len() > NAME_TEXT_BYTES_MAX {
            return None;
        }
        let parsed = crate::statement::parse_type(text).ok()?;
        let names = crate::bind::TypeNames {
            database: self.engine.as_ref().map_or("", |engine| engine.name()),
            catalog: &self.catalog,
            search_path: &self.search_path,
        };
        names.find(&parsed).ok()
    }

    /// The type of a relation's rows, by the relation's name; with `_` in front that of arrays of
    /// them.
    fn row_type_number(&self, parts: &[CompactString]) -> Result<Option<u32>> {
        if let Some(relation) = self.relation_number(parts)?.filter(|&id| self.columns_of(id).is_some()) {
            return Ok(Some(super::types::row_type(relation)).filter(|&number| number != 0));
        }
        let Some((name, schema)) = parts.split_last() else { return Ok(None) };
        let Some(name) = name.strip_prefix('_') else { return Ok(None) };
        let relation: Vec<CompactString> = schema.iter().cloned().chain([name.into()]).collect();
        let relation = self.relation_number(&relation)?.filter(|&id| self.columns_of(id).is_some());
        Ok(relation.map(super::types::row_array_type).filter(|&number| number != 0))
    }

    /// The names of the columns of what has rows: of each, unless it was dropped.
    pub(crate) fn columns_of(&self, id: ObjectId) -> Option<Vec<Option<CompactString>>> {
        match self.relation(id)? {
            Found::System(table) => Some(table.columns.iter().map(|(name, _)| Some((*name).into())).collect()),
            Found::User { relation: Relation::Table(table), .. } => {
                let name = |column: &colibri_catalog::Column| (!column.dropped).then(|| column.name.clone());
                Some(table.columns.iter().map(name).collect())
            }
            Found::User { relation: Relation::View(view), .. } => {
                Some(view.columns.iter().cloned().map(Some).collect())
            }
            Found::User { .. } => None,
        }
    }

    /// The number of the schema that an extension is in.
    pub(crate) fn schema_of_extension(&self, extension: &str) -> Option<ObjectId> {
        let found = self.catalog.extensions().find(|known| known.name == extension)?;
        self.schema_number(&found.schema)
    }

    /// The number of a schema.
    pub(crate) fn schema_number(&self, name: &str) -> Option<ObjectId> {
        match name {
            "pg_catalog" => Some(PG_CATALOG),
            "information_schema" => Some(super::INFORMATION_SCHEMA),
            _ => self.catalog.schema(name).map(|schema| schema.id),
        }
    }

    /// The name of a schema.
    pub(crate) fn schema_name(&self, id: ObjectId) -> Option<CompactString> {
        match id {
            PG_CATALOG => Some("pg_catalog".into()),
            super::INFORMATION_SCHEMA => Some("information_schema".into()),
            _ => self.catalog.schemas().find(|schema| schema.id == id).map(|schema| schema.name.clone()),
        }
    }

    /// The number of a relation that a name means; `None` if there is none.
    ///
    /// # Errors
    /// 0A000 for another database's, 42601 for names of more than three parts.
    pub(crate) fn relation_number(&self, parts: &[CompactString]) -> Result<Option<ObjectId>> {
        let parts = self.here(parts, "relation")?;
        let system = match parts {
            [name] => super::table("pg_catalog", name)
                .or_else(|| self.search_path.iter().find_map(|schema| super::table(schema, name))),
            [schema, name] => super::table(schema, name),
            _ => None,
        };
        Ok(match system {
            Some(table) => Some(table.oid),
            None => self.catalog.find(parts, &self.search_path).and_then(|found| self.catalog.number_of(found)),
        })
    }

    /// A name without the database, which has to be the one at hand.
    fn here<'a>(&self, parts: &'a [CompactString], what: &str) -> Result<&'a [CompactString]> {
        match parts {
            [_] | [_, _] => Ok(parts),
            [database, rest @ ..] if rest.len() == 2 => {
                if self.engine.as_ref().is_some_and(|engine| engine.name() == database.as_str()) {
                    return Ok(rest);
                }
                let quote = if what == "relation" { "\"" } else { "" };
                let name = parts.join(".");
                let message = format!("cross-database references are not implemented: {quote}{name}{quote}");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            _ => {
                let message = format!("improper {what} name (too many dotted names): {}", parts.join("."));
                Err(Error::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    /// What a name means.
    ///
    /// # Errors
    /// It is not of the form of a name; it is one of another database.
    pub(crate) fn look_up(&self, ty: Type, text: &str) -> Result<Meaning> {
        if text.len() > NAME_TEXT_BYTES_MAX {
            return Ok(Meaning::Nothing);
        }
        match ty {
            Type::RegType => self.type_meant(text),
            Type::RegProcedure => self.signature_meant(text),
            Type::RegOper => self.operator_meant(text, |_| true),
            Type::RegOperator => self.operator_signature_meant(text),
            _ => {
                let parts = parse_name(text).ok_or_else(|| Error::new(SqlState::BAD_NAME, "invalid name syntax"))?;
                match ty {
                    Type::RegClass => self.relation_meant(&parts),
                    Type::RegNamespace | Type::RegRole => match &parts[..] {
                        [name] if ty == Type::RegRole => {
                            Ok(self.roles().named(name).map_or(Meaning::Nothing, |role| Meaning::Number(role.oid)))
                        }
                        [name] => Ok(self.schema_number(name).map_or(Meaning::Nothing, Meaning::Number)),
                        _ => Err(Error::new(SqlState::BAD_NAME, "invalid name syntax")),
                    },
                    Type::RegConfig | Type::RegDictionary => {
                        let parts = self.here(&parts, "qualified")?;
                        let found = super::search::number_named(&self.catalog, &self.search_path, ty, parts);
                        Ok(found.map_or_else(|| self.nothing_in(parts), Meaning::Number))
                    }
                    _ => self.function_meant(&parts, |_| true),
                }
            }
        }
    }

    fn relation_meant(&self, parts: &[CompactString]) -> Result<Meaning> {
        Ok(match self.relation_number(parts)? {
            Some(number) => Meaning::Number(number),
            None => self.nothing_in(parts),
        })
    }

    /// Why a name with these parts means nothing: its schema may be what there is not.
    fn nothing_in(&self, parts: &[CompactString]) -> Meaning {
        match parts {
            [.., schema, _] if self.schema_number(schema).is_none() => Meaning::NoSchema(schema.clone()),
            _ => Meaning::Nothing,
        }
    }

    /// The function of a name, among those that fit. All of them are in `pg_catalog`.
    fn function_meant(&self, parts: &[CompactString], fits: impl Fn(&[u32]) -> bool) -> Result<Meaning> {
        let parts = self.here(parts, "qualified")?;
        let ([name] | [_, name]) = parts else { return Ok(Meaning::Nothing) };
        let schema = if let [schema, _] = parts { Some(schema.as_str()) } else { None };
        let own = super::routines::named(self, schema, name);
        let mut own = own.iter().filter(|(_, args)| fits(args));
        if let (Some((number, _)), next) = (own.next(), own.next()) {
            return Ok(if next.is_some() { Meaning::Several } else { Meaning::Number(*number) });
        }
        if matches!(parts, [schema, _] if schema != "pg_catalog") {
            return Ok(self.nothing_in(parts));
        }
        let mut found = super::procedures::named(name).filter(|(_, args)| fits(args));
        Ok(match (found.next(), found.next()) {
            (None, _) => Meaning::Nothing,
            (Some((number, _)), None) => Meaning::Number(number),
            _ => Meaning::Several,
        })
    }

    /// The function of exactly a signature, `abs(numeric)`.
    fn signature_meant(&self, text: &str) -> Result<Meaning> {
        let (name, arguments) = parts_of_signature(text)?;
        let parts = parse_name(name).ok_or_else(|| Error::new(SqlState::BAD_NAME, "invalid name syntax"))?;
        let wanted =
            arguments.into_iter().map(|argument| self.argument_number(argument)).collect::<Result<Vec<_>>>()?;
        self.function_meant(&parts, |args| args == wanted)
    }

    fn argument_number(&self, text: &str) -> Result<u32> {
        match self.argument_meant(text)? {
            Meaning::Number(number) => Ok(number),
            _ => Err(no_such_type(text)),
        }
    }

    /// The operator of a name, among those whose operands fit. All of them are in `pg_catalog`.
    fn operator_meant(&self, text: &str, fits: impl Fn(&[u32; 2]) -> bool) -> Result<Meaning> {
        let text = letters::trim_name(text);
        let bad_name = || Error::new(SqlState::BAD_NAME, "invalid name syntax");
        let name = match text.rsplit_once('.') {
            None => text,
            Some((schema, name)) => match &parse_name(schema).ok_or_else(bad_name)?[..] {
                [schema] if schema == "pg_catalog" => name,
                [schema] if self.schema_number(schema).is_none() => return Ok(Meaning::NoSchema(schema.clone())),
                _ => return Ok(Meaning::Nothing),
            },
        };
        let mut found = super::operators::named(name).filter(|operator| fits(&operator.operands));
        Ok(match (found.next(), found.next()) {
            (None, _) => Meaning::Nothing,
            (Some(operator), None) => Meaning::Number(operator.number),
            _ => Meaning::Several,
        })
    }

    /// The operator of exactly a signature, `+(integer,integer)`; an operand that it has not is
    /// `NONE`.
    fn operator_signature_meant(&self, text: &str) -> Result<Meaning> {
        let (name, arguments) = parts_of_signature(text)?;
        let number = |text: &str| match text.eq_ignore_ascii_case("none") {
            true => Ok(0),
            false => self.argument_number(text),
        };
        let wanted = match arguments[..] {
            [left, right] => [number(left)?, number(right)?],
            [_] => {
                let hint = "Use NONE to denote the missing argument of a unary operator.";
                return Err(Error::new(SqlState("42P02"), "missing argument").hint(hint));
            }
            _ => {
                let hint = "Provide two argument types for operator.";
                return Err(Error::new(SqlState("54023"), "too many arguments").hint(hint));
            }
        };
        self.operator_meant(name, |operands| *operands == wanted)
    }

    /// An operator with the types of its operands, or by its name alone: with its schema if others
    /// have that, too.
    fn operator_name(&self, ty: Type, number: u32) -> Option<String> {
        let operator = super::operators::numbered(number)?;
        if ty == Type::RegOper {
            let is_only = super::operators::named(operator.name).nth(1).is_none();
            return Some(format!("{}{}", if is_only { "" } else { "pg_catalog." }, operator.name));
        }
        let operand = |number: u32| match number {
            0 => "NONE".to_owned(),
            _ => self.type_name(number).unwrap_or_else(|| "???".to_owned()),
        };
        let [left, right] = operator.operands.map(operand);
        Some(format!("{}({left},{right})", operator.name))
    }

    fn argument_meant(&self, text: &str) -> Result<Meaning> {
        // These are no types that a column or a cast could have.
        if let Some(number) = super::procedures::pseudo_type_named(letters::trim_name(text)) {
            return Ok(Meaning::Number(number));
        }
        self.type_meant(text)
    }

    /// The type that a text names: in any way that SQL knows, or by the name that the catalogue has
    /// for it.
    fn type_meant(&self, text: &str) -> Result<Meaning> {
        let text = letters::trim_name(text);
        // A vertical tab is no blank of SQL's grammar, nor of a name without quotes.
        if text.contains('\x0b') && !text.contains('"') {
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{text}\"")));
        }
        if let Some(row_type) = text.strip_suffix("[]")
            && self.type_named(text).is_none()
        {
            return Ok(match self.type_meant(row_type)? {
                Meaning::Number(number) => match super::types::relation_of(number) {
                    Some((relation, false)) => Meaning::Number(super::types::row_array_type(relation)),
                    _ => Meaning::Nothing,
                },
                other => other,
            });
        }
        if let Some(parts) = parse_name(text)
            && parts.len() > 1
        {
            let parts = self.here(&parts, "qualified")?;
            if let [schema, name] = parts {
                let is_named = |ty: &Type| ty.extension().is_none() && ty.inner_name() == name.as_str();
                let known = Type::all().find(is_named);
                return Ok(match known {
                    Some(ty) if schema == "pg_catalog" => Meaning::Number(ty.oid()),
                    None if schema == "pg_catalog" => {
                        super::procedures::pseudo_type_named(name).map_or(Meaning::Nothing, Meaning::Number)
                    }
                    _ => match self.row_type_number(parts)? {
                        Some(number) => Meaning::Number(number),
                        None => match self.type_named(text) {
                            Some(ty) => Meaning::Number(ty.oid()),
                            None => self.nothing_in(parts),
                        },
                    },
                });
            }
        }
        if let Some(ty) = self.type_named(text) {
            return Ok(Meaning::Number(ty.oid()));
        }
        if let Some(number) = super::procedures::pseudo_type_named(text.strip_prefix("pg_catalog.").unwrap_or(text)) {
            return Ok(Meaning::Number(number));
        }
        if let Some(parts) = parse_name(text) {
            let known = Type::all().find(|ty| ty.extension().is_none() && [ty.inner_name()] == parts[..]);
            if let Some(ty) = known {
                return Ok(Meaning::Number(ty.oid()));
            }
            if let Some(number) = self.row_type_number(&parts)? {
                return Ok(Meaning::Number(number));
            }
        }
        match crate::statement::parse_type(text) {
            Ok(_) => Ok(Meaning::Nothing),
            Err(_) => Err(Error::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{text}\""))),
        }
    }

    /// The number that a text means where one is read: a number, a name, or `-` for none. `None` if
    /// nothing has the name.
    pub(crate) fn find_number(&self, ty: Type, text: &str) -> Option<ObjectId> {
        number_itself(ty, text).unwrap_or_else(|| self.named(ty, text)).ok()
    }

    /// The number of what a name means.
    ///
    /// # Errors
    /// Nothing, or more than one thing, has the name; and as [`Surroundings::look_up`].
    pub(crate) fn named(&self, ty: Type, text: &str) -> Result<ObjectId> {
        let what = match ty {
            Type::RegClass => "relation",
            Type::RegNamespace => "schema",
            Type::RegRole => "role",
            Type::RegOper | Type::RegOperator => "operator",
            Type::RegConfig => "text search configuration",
            Type::RegDictionary => "text search dictionary",
            _ => "function",
        };
        let state = match ty {
            Type::RegClass => SqlState::NO_SUCH_TABLE,
            Type::RegNamespace => SqlState::NO_SUCH_SCHEMA,
            Type::RegRole | Type::RegConfig | Type::RegDictionary => SqlState::NO_SUCH_OBJECT,
            _ => SqlState::NO_SUCH_FUNCTION,
        };
        Err(match self.look_up(ty, text)? {
            Meaning::Number(number) => return Ok(number),
            Meaning::NoSchema(schema) => {
                Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist"))
            }
            Meaning::Several => {
                let text = if ty == Type::RegOper { text.to_owned() } else { format!("\"{text}\"") };
                Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one {what} named {text}"))
            }
            Meaning::Nothing if ty == Type::RegType => no_such_type(text),
            Meaning::Nothing if what == "operator" => Error::new(state, format!("operator does not exist: {text}")),
            Meaning::Nothing => {
                let shown = parse_name(text).map_or_else(|| text.to_owned(), |parts| parts.join("."));
                Error::new(state, format!("{what} \"{shown}\" does not exist"))
            }
        })
    }
}

impl Surround for Surroundings {
    fn number_of(&self, ty: Type, name: &str) -> Result<u32> {
        self.named(ty, name)
    }

    fn write_name(&self, ty: Type, number: u32, out: &mut String) {
        let name = match ty {
            Type::RegClass => self.relation_name(number),
            Type::RegType => self.type_name(number),
            Type::RegNamespace => self.schema_name(number).map(|name| quoted(&name)),
            Type::RegRole => self.roles().get(number).map(|role| quoted(&role.name)),
            Type::RegProcedure => {
                super::routines::signature(self, number).or_else(|| super::procedures::signature(number))
            }
            Type::RegOper | Type::RegOperator => self.operator_name(ty, number),
            Type::RegConfig | Type::RegDictionary => {
                super::search::shown_name(&self.catalog, &self.search_path, ty, number)
            }
            _ => super::routines::name(self, number).or_else(|| super::procedures::name_of(number).map(quoted)),
        };
        match name {
            Some(name) => out.push_str(&name),
            // Writing to a string cannot fail.
            None => _ = write!(out, "{number}"),
        }
    }

    fn search_configuration(&self, number: u32) -> Option<Arc<Configuration>> {
        super::search::configuration(&self.catalog, number).map(Arc::new)
    }

    fn search_dictionary(&self, number: u32) -> Option<Dictionary> {
        super::search::dictionary(&self.catalog, number)
    }
}

fn no_such_type(text: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("type \"{text}\" does not exist"))
}

/// Name and arguments of `name(argument, …)`.
fn parts_of_signature(text: &str) -> Result<(&str, Vec<&str>)> {
    let wrong = |message| Error::new(SqlState::BAD_TEXT, message);
    let (name, arguments) = split_signature(text).ok_or_else(|| wrong("expected a left parenthesis"))?;
    let arguments = arguments.trim_end_matches(letters::is_name_blank);
    let arguments = arguments.strip_suffix(')').ok_or_else(|| wrong("expected a right parenthesis"))?;
    let arguments = split_arguments(arguments).ok_or_else(|| wrong("improper type name"))?;
    Ok((name, arguments))
}

/// Name and arguments of `name(arguments)`, at the first parenthesis that is not within quotes.
fn split_signature(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let at = text.find(|c| {
        quoted ^= c == '"';
        c == '(' && !quoted
    })?;
    Some((&text[..at], &text[at + 1..]))
}

/// The arguments between commas that are neither within quotes nor within parentheses; `None` if
/// one is empty.
fn split_arguments(text: &str) -> Option<Vec<&str>> {
    if letters::trim_name(text).is_empty() {
        return Some(Vec::new());
    }
    let (mut quoted, mut depth) = (false, 0_i32);
    let is_comma = |c| {
        quoted ^= c == '"';
        depth += if quoted { 0 } else { i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']')) };
        c == ',' && !quoted && depth == 0
    };
    let all: Vec<&str> = text.split(is_comma).map(letters::trim_name).collect();
    if all.iter().any(|argument| argument.is_empty()) { None } else { Some(all) }
}

/// A type with its modifier as SQL writes it.
pub(crate) fn format_type(names: &Surroundings, oid: u32, modifier: Option<i32>) -> CompactString {
    let Some(ty) = Type::from_oid(oid) else {
        let row_type = names.type_name(oid).map(Into::into);
        return row_type.unwrap_or_else(|| if oid == 0 { "-".into() } else { "???".into() });
    };
    if ty.extension().is_some() {
        let name = names.type_name(oid).unwrap_or_default();
        return match (modifier, ty) {
            (Some(count @ 0..), Type::Vector) => compact_str::format_compact!("{name}({count})"),
            (Some(count @ 0..), ty) if ty == Type::Vector.array_of() => {
                let element = name.strip_suffix("[]").unwrap_or(&name);
                compact_str::format_compact!("{element}({count})[]")
            }
            _ => name.into(),
        };
    }
    // Without a modifier, character is a name that means something else.
    if let (Type::Char, Some(-1)) = (ty, modifier) {
        return "bpchar".into();
    }
    compact_str::format_compact!("{}", ColumnType::new(ty, Modifier(modifier.unwrap_or(-1))))
}
