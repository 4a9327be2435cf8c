//! The system's own tables, `pg_catalog` and `information_schema`: rows made from the catalogue
//! when a query reads them.
//!
//! The list of tables is `tables.txt`, as PostgreSQL 15 has them: name, number, kind, columns.
//! Those without rows here have none because there is nothing of that kind (publications,
//! foreign tables, …).
//!
//! | file | has |
//! | --- | --- |
//! | `relations` | schemas, relations, columns, indexes, constraints, sequences |
//! | `depends` | which object needs which others; the rights that system tables were made with |
//! | `types` | types, collations, access methods, operator classes |
//! | `procedures` | functions, and those that types have |
//! | `routines` | functions of users, triggers |
//! | `roles` | roles, databases, tablespaces |
//! | `operators` | operators, casts, and the operators that indexes go by |
//! | `statistics` | statistics of what is not counted, or not there |
//! | `activity` | sessions, locks, statistics, settings |
//! | `standard` | `information_schema` |
//! | `default_privileges` | privileges on objects to come |
//! | `describe` | definitions as SQL: `pg_get_indexdef` and its kin |
//! | `extended_statistics` | what CREATE STATISTICS has made |
//! | `extensions` | extensions |
//! | `policies` | policies of row-level security |
//! | `partitions` | partitioned tables and partitions |
//! | `names` | object numbers as names and back: `regclass` and its kin |
//! | `kept` | how long rows are right once they are made, and the rows that are kept |
//!
//! Invariants: an object has the number that it has in the catalogue; system tables have
//! PostgreSQL's. A statement sees one state of the catalogue, that of its transaction; figures
//! (rows, pages) are of the newest durable state, and reading them makes a transaction depend on
//! nothing.

pub(crate) mod activity;
mod default_privileges;
mod depends;
pub(crate) mod describe;
pub(crate) mod extended_statistics;
pub(crate) mod extensions;
pub(crate) mod functions;
pub(crate) mod kept;
pub(crate) mod names;
pub(crate) mod operators;
pub(crate) mod partitions;
pub(crate) mod policies;
pub(crate) mod procedures;
pub(crate) mod relations;
mod roles;
pub(crate) mod routines;
pub(crate) mod search;
mod search_templates;
mod standard;
mod standard_routines;
mod statistics;
pub(crate) mod types;
mod zones;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use relations::class_of as class_of_comment;
pub(crate) use search_templates::dictionary_of;

use colibri_catalog::system_tables::{Fill, Fresh, Rows, SystemTable, SystemTables};
pub(crate) use colibri_catalog::system_tables::{INFORMATION_SCHEMA, PG_CATALOG, is_system_schema};
use colibri_types::{Datum, Type};
use kept::Traits;

const ALL_FILLS: [&[(&str, Fill)]; 17] = [
    depends::FILLS,
    routines::FILLS,
    relations::FILLS,
    types::FILLS,
    roles::FILLS,
    activity::FILLS,
    standard::FILLS,
    standard_routines::FILLS,
    operators::FILLS,
    statistics::FILLS,
    zones::FILLS,
    extensions::FILLS,
    search::FILLS,
    partitions::FILLS,
    policies::FILLS,
    default_privileges::FILLS,
    extended_statistics::FILLS,
];

/// All system tables.
pub(crate) static TABLES: LazyLock<SystemTables> = LazyLock::new(|| {
    let fills: HashMap<&str, Fill> = ALL_FILLS.into_iter().flatten().copied().collect();
    let declared = include_str!("tables.txt").lines().map(|line| declared(line, &fills));
    SystemTables::new(declared.collect::<Option<_>>().expect("the list of tables is well-formed"))
});

/// A line of the list: `schema.name number kind column:type …`.
fn declared(line: &'static str, fills: &HashMap<&str, Fill>) -> Option<SystemTable> {
    let mut words = line.split(' ');
    let full = words.next()?;
    let (schema, name) = full.split_once('.')?;
    let oid = words.next()?.parse().ok()?;
    // Tables that are called as functions (`f`) are not listed.
    let kind = words.next()?;
    let (is_view, is_function) = (kind != "r", kind == "f");
    let columns = words.map(|word| {
        let (name, ty) = word.split_once(':')?;
        let ty = match ty.strip_prefix('_') {
            Some(element) => inner_type(element)?.array()?,
            None => inner_type(ty)?,
        };
        Some((name, ty))
    });
    let columns = columns.collect::<Option<Vec<_>>>()?;
    let is_padded = statistics::FILLS.iter().any(|(known, _)| *known == name);
    let rows = fills.get(name).copied();
    let Traits { lasting, keys, rows_expected, fresh } = kept::traits_of(schema, name, &columns);
    let find = kept::find;
    Some(SystemTable {
        oid,
        schema,
        name,
        is_view,
        is_function,
        columns,
        is_padded,
        rows,
        lasting,
        keys,
        rows_expected,
        fresh,
        find,
    })
}

fn inner_type(name: &str) -> Option<Type> {
    Type::ALL.into_iter().find(|ty| ty.inner_name() == name)
}

/// A system table by name.
pub(crate) fn table(schema: &str, name: &str) -> Option<&'static SystemTable> {
    TABLES.table(schema, name)
}

/// A system table by number.
pub(crate) fn table_numbered(oid: u32) -> Option<&'static SystemTable> {
    TABLES.numbered(oid)
}

/// All system tables.
pub(crate) fn tables() -> impl Iterator<Item = &'static SystemTable> {
    TABLES.iter()
}

// ---- values ----

const NULL: Datum = Datum::Null;

fn oid(number: u32) -> Datum {
    Datum::Int(number.into())
}

fn int(value: impl Into<i64>) -> Datum {
    Datum::Int(value.into())
}

fn flag(value: bool) -> Datum {
    Datum::Bool(value)
}

fn text(value: &str) -> Datum {
    Datum::text(value)
}

fn text_or_null(value: Option<&str>) -> Datum {
    value.map_or(NULL, Datum::text)
}

fn array(element: Type, values: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(std::sync::Arc::new(colibri_types::Array::new(element, values.into_iter().collect())))
}

/// A vector of the catalogue, counted from 0.
fn vector(element: Type, values: impl IntoIterator<Item = Datum>) -> Datum {
    let array = colibri_types::Array::counted_from(element, values.into_iter().collect(), 0);
    Datum::Array(std::sync::Arc::new(array))
}

/// A boolean in the words of `information_schema`: YES or NO.
fn yes_or_no(value: bool) -> Datum {
    text(if value { "YES" } else { "NO" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::surroundings::Surroundings;
    use colibri_types::Env;

    #[test]
    fn tables_have_names_and_numbers_of_their_own_and_every_fill_has_a_table() {
        let mut oids: Vec<u32> = TABLES.with_functions().iter().map(|table| table.oid).collect();
        oids.sort_unstable();
        oids.dedup();
        assert_eq!(oids.len(), TABLES.with_functions().len());
        let names: std::collections::HashSet<_> =
            TABLES.with_functions().iter().map(|table| (table.schema, table.name)).collect();
        assert_eq!(names.len(), TABLES.with_functions().len());
        let filled = TABLES.with_functions().iter().filter(|table| table.rows.is_some()).count();
        assert_eq!(filled, ALL_FILLS.iter().map(|fills| fills.len()).sum::<usize>());
    }

    #[test]
    fn rows_are_as_wide_as_their_tables() {
        let authority = Some(std::sync::Arc::new(colibri_catalog::cluster::Authority::superuser()));
        let surroundings = Surroundings { authority, ..Default::default() };
        let env = Env { surroundings: Some(std::sync::Arc::new(surroundings)), ..Env::default() };
        for table in tables() {
            table.make(&env, None).unwrap_or_else(|error| panic!("{table:?}: {error}"));
        }
    }
}
