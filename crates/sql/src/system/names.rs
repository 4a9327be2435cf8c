//! Object numbers as names, and back: the types `regclass`, `regtype`, `regproc`, `regnamespace` and `regrole`.
//!
//! A number that nothing has is written as a number; a name is written with its schema unless it would be found without.

use std::fmt::Write;

use compact_str::CompactString;

use super::PG_CATALOG;
use crate::catalog::{ObjectId, Relation, Table, parse_name};
use crate::env::Surroundings;
use crate::error::{Error, Result, SqlState};
pub(crate) use crate::functions::quote_identifier as quoted;
use crate::letters;
use crate::types::{ColumnType, Modifier, Type};
use crate::value::Datum;

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

    fn relation_number(&self, parts: &[CompactString]) -> Option<ObjectId> {
        let system = match parts {
            [name] => super::table("pg_catalog", name)
                .or_else(|| self.search_path.iter().find_map(|schema| super::table(schema, name))),
            [schema, name] => super::table(schema, name),
            _ => None,
        };
        match system {
            Some(table) => Some(table.oid),
            None => self.catalog.find(parts, &self.search_path).and_then(|found| self.catalog.number_of(found)),
        }
    }

    /// The number that a name means, `None` if nothing has it.
    pub(crate) fn find_number(&self, ty: Type, text: &str) -> Option<ObjectId> {
        let trimmed = letters::trim_name(text);
        if trimmed == "-" {
            return Some(0);
        }
        if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
            return trimmed.parse().ok();
        }
        if ty == Type::RegType {
            return type_named(trimmed).map(|ty| ty.ty.oid());
        }
        let name = if ty == Type::RegProcedure { trimmed.split('(').next().unwrap_or_default() } else { trimmed };
        let parts = parse_name(name)?;
        match ty {
            Type::RegClass => self.relation_number(&parts),
            Type::RegNamespace => self.schema_number(parts.last()?),
            Type::RegRole => Some(self.roles().named(parts.last()?)?.oid),
            _ => super::types::function_number(parts.last()?),
        }
    }

    /// Reads a value of one of these types.
    pub(crate) fn number_of(&self, ty: Type, text: &str) -> Result<Datum> {
        if let Some(number) = self.find_number(ty, text) {
            return Ok(Datum::Int(number.into()));
        }
        let text = letters::trim_name(text);
        Err(match ty {
            Type::RegClass => match parse_name(text) {
                Some(parts) => {
                    Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{}\" does not exist", parts.join(".")))
                }
                None => Error::new(SqlState::BAD_NAME, "invalid name syntax"),
            },
            Type::RegType => Error::new(SqlState::NO_SUCH_OBJECT, format!("type \"{text}\" does not exist")),
            Type::RegNamespace => Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{text}\" does not exist")),
            Type::RegRole => Error::new(SqlState::NO_SUCH_OBJECT, format!("role \"{text}\" does not exist")),
            _ => Error::new(SqlState::NO_SUCH_FUNCTION, format!("function \"{text}\" does not exist")),
        })
    }

    /// Writes a value of one of these types.
    pub(crate) fn write_name(&self, ty: Type, number: ObjectId, out: &mut String) {
        if number == 0 {
            out.push('-');
            return;
        }
        let name = match ty {
            Type::RegClass => self.relation_name(number),
            Type::RegType => Type::from_oid(number).map(|ty| ty.sql_name().to_owned()),
            Type::RegNamespace => self.schema_name(number).map(|name| quoted(&name)),
            Type::RegRole => self.roles().get(number).map(|role| quoted(&role.name)),
            Type::RegProcedure => super::types::function_signature(number),
            _ => super::types::function_name(number).map(str::to_owned),
        };
        match name {
            Some(name) => out.push_str(&name),
            // Writing to a string cannot fail.
            None => _ = write!(out, "{number}"),
        }
    }
}

/// The type that a text names, as `format_type` writes it or in any other way that SQL knows.
pub(crate) fn type_named(text: &str) -> Option<ColumnType> {
    crate::statement::parse_type(text).ok().and_then(|parsed| crate::bind::bind_type(&parsed).ok())
}

/// A type with its modifier as SQL writes it.
pub(crate) fn format_type(oid: u32, modifier: Option<i32>) -> CompactString {
    let Some(ty) = Type::from_oid(oid) else {
        return if oid == 0 { "-".into() } else { "???".into() };
    };
    // Without a modifier, character is a name that means something else.
    if let (Type::Char, Some(-1)) = (ty, modifier) {
        return "bpchar".into();
    }
    compact_str::format_compact!("{}", ColumnType { ty, modifier: Modifier(modifier.unwrap_or(-1)) })
}
