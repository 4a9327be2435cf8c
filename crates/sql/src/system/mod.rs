//! The system's own tables, `pg_catalog` and `information_schema`: rows made from the catalogue when somebody asks.
//!
//! Which there are and which columns they have is in `tables.txt`, as PostgreSQL 15 has them: name, number, kind, columns.
//! Those without rows here have none because there is nothing of that kind (policies, publications, foreign tables, …).
//!
//! | file | has |
//! | --- | --- |
//! | `relations` | schemas, relations, columns, indexes, constraints, sequences |
//! | `types` | types, collations, access methods, operator classes |
//! | `procedures` | functions, and those that types have |
//! | `roles` | roles, databases, tablespaces |
//! | `operators` | operators, casts, and the operators that indexes go by |
//! | `statistics` | statistics of what is not counted, or not there |
//! | `activity` | sessions, locks, statistics, settings |
//! | `standard` | `information_schema` |
//! | `describe` | definitions as SQL: `pg_get_indexdef` and its kin |
//! | `names` | object numbers as names and back: `regclass` and its kin |
//!
//! Invariants: an object has the number that it has in the catalogue; system tables have PostgreSQL's. A statement sees one
//! state of the catalogue, that of its transaction; figures (rows, pages) are of the newest durable state, and reading them
//! makes a transaction depend on nothing.

mod activity;
pub(crate) mod describe;
pub(crate) mod functions;
pub(crate) mod names;
mod operators;
pub(crate) mod procedures;
mod relations;
mod roles;
mod standard;
mod statistics;
pub(crate) mod types;
mod zones;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use relations::class_of as class_of_comment;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

/// The number of the schema `pg_catalog`.
pub(crate) const PG_CATALOG: u32 = 11;
/// The number of the schema `information_schema`.
pub(crate) const INFORMATION_SCHEMA: u32 = 13_223;

/// A system table.
pub(crate) struct SystemTable {
    pub(crate) oid: u32,
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) is_view: bool,
    /// It is read by calling it.
    pub(crate) is_function: bool,
    pub(crate) columns: Vec<(&'static str, Type)>,
    rows: Option<Fill>,
}

impl std::fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// Makes the rows of a table.
type Fill = fn(&Env, &mut Rows) -> Result<()>;

/// What describing an object takes, in units of work.
const UNITS_PER_OBJECT: usize = 100;

/// Rows in the making.
pub(crate) struct Rows {
    width: usize,
    /// Whether rows may end before the last columns.
    is_padded: bool,
    cells: Vec<Datum>,
}

impl Rows {
    /// Adds a row: a value for each column, in order. Where that is allowed, the last ones may be missing: they are NULL. Polls, as
    /// there may be very many objects; see [`crate::pulse`].
    fn push<const N: usize>(&mut self, row: [Datum; N]) -> Result<()> {
        debug_assert!(self.width == N || (self.is_padded && N < self.width), "a value for each column");
        self.cells.extend(row);
        self.cells.resize(self.cells.len().next_multiple_of(self.width), Datum::Null);
        pulse::work(UNITS_PER_OBJECT)
    }
}

impl SystemTable {
    /// The number of the schema.
    pub(crate) fn namespace(&self) -> u32 {
        if self.schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA }
    }

    /// All values, row after row.
    pub(crate) fn cells(&self, env: &Env) -> Result<Vec<Datum>> {
        let is_padded = statistics::FILLS.iter().any(|(name, _)| *name == self.name);
        let mut rows = Rows { width: self.columns.len(), is_padded, cells: Vec::new() };
        if let Some(fill) = self.rows {
            fill(env, &mut rows)?;
        }
        if !rows.cells.len().is_multiple_of(self.columns.len()) {
            return Err(Error::internal(format_args!("rows of {self:?} have another width than it")));
        }
        Ok(rows.cells)
    }
}

const ALL_FILLS: [&[(&str, Fill)]; 8] = [
    relations::FILLS,
    types::FILLS,
    roles::FILLS,
    activity::FILLS,
    standard::FILLS,
    operators::FILLS,
    statistics::FILLS,
    zones::FILLS,
];

struct Tables {
    all: Vec<SystemTable>,
    by_name: HashMap<(&'static str, &'static str), usize>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let fills: HashMap<&str, Fill> = ALL_FILLS.into_iter().flatten().copied().collect();
    let all: Vec<SystemTable> = include_str!("tables.txt")
        .lines()
        .map(|line| declared(line, &fills).expect("the list of tables is well-formed"))
        .collect();
    let by_name = all.iter().enumerate().map(|(at, table)| ((table.schema, table.name), at)).collect();
    Tables { all, by_name }
});

/// A line of the list: `schema.name number kind column:type …`.
fn declared(line: &'static str, fills: &HashMap<&str, Fill>) -> Option<SystemTable> {
    let mut words = line.split(' ');
    let full = words.next()?;
    let (schema, name) = full.split_once('.')?;
    let oid = words.next()?.parse().ok()?;
    // What is called as a function (`f`) is listed nowhere.
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
    Some(SystemTable { oid, schema, name, is_view, is_function, columns, rows: fills.get(name).copied() })
}

fn inner_type(name: &str) -> Option<Type> {
    Type::ALL.into_iter().find(|ty| ty.inner_name() == name)
}

/// A system table by name.
pub(crate) fn table(schema: &str, name: &str) -> Option<&'static SystemTable> {
    found(schema, name).filter(|table| !table.is_function)
}

/// What is read by calling it, by name.
pub(crate) fn function(name: &str) -> Option<&'static SystemTable> {
    found("pg_catalog", name).filter(|table| table.is_function)
}

fn found(schema: &str, name: &str) -> Option<&'static SystemTable> {
    TABLES.by_name.get(&(schema, name)).map(|&at| &TABLES.all[at])
}

/// A system table by number.
pub(crate) fn table_numbered(oid: u32) -> Option<&'static SystemTable> {
    TABLES.all.iter().find(|table| table.oid == oid)
}

/// All system tables.
pub(crate) fn tables() -> impl Iterator<Item = &'static SystemTable> {
    TABLES.all.iter().filter(|table| !table.is_function)
}

/// Whether a schema is the system's.
pub(crate) fn is_system_schema(name: &str) -> bool {
    matches!(name, "pg_catalog" | "information_schema")
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
    Datum::Array(std::sync::Arc::new(crate::array::Array::new(element, values.into_iter().collect())))
}

/// A vector of the catalogue, counted from 0.
fn vector(element: Type, values: impl IntoIterator<Item = Datum>) -> Datum {
    let array = crate::array::Array::counted_from(element, values.into_iter().collect(), 0);
    Datum::Array(std::sync::Arc::new(array))
}

/// As `information_schema` says yes and no.
fn yes_or_no(value: bool) -> Datum {
    text(if value { "YES" } else { "NO" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::surroundings::Surroundings;

    #[test]
    fn tables_have_names_and_numbers_of_their_own_and_every_fill_has_a_table() {
        let mut oids: Vec<u32> = TABLES.all.iter().map(|table| table.oid).collect();
        oids.sort_unstable();
        oids.dedup();
        assert_eq!(oids.len(), TABLES.all.len());
        assert_eq!(TABLES.by_name.len(), TABLES.all.len());
        let filled = TABLES.all.iter().filter(|table| table.rows.is_some()).count();
        assert_eq!(filled, ALL_FILLS.iter().map(|fills| fills.len()).sum::<usize>());
    }

    #[test]
    fn rows_are_as_wide_as_their_tables() {
        let authority = Some(std::sync::Arc::new(crate::cluster::Authority::superuser()));
        let surroundings = Surroundings { authority, ..Default::default() };
        let env = Env { surroundings: Some(std::sync::Arc::new(surroundings)), ..Env::default() };
        for table in tables() {
            assert!(table.cells(&env).unwrap().len().is_multiple_of(table.columns.len()), "{table:?}");
        }
    }
}
