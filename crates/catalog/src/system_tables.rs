//! Types for tables whose rows are made from the catalogue when they are read. The list of these
//! tables is elsewhere.

use std::collections::HashMap;

use colibri_types::{Datum, Env, Error, Result, Type, pulse};

/// The number of the schema `pg_catalog`.
pub const PG_CATALOG: u32 = 11;
/// The number of the schema `information_schema`.
pub const INFORMATION_SCHEMA: u32 = 13_223;

/// A system table.
pub struct SystemTable {
    /// Its number.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether it is listed as a view.
    pub is_view: bool,
    /// It is read by calling it.
    pub is_function: bool,
    /// Names and types of its columns.
    pub columns: Vec<(&'static str, Type)>,
    /// Whether rows may end before the last columns, which are NULL then.
    pub is_padded: bool,
    /// Makes its rows; without, it has none.
    pub rows: Option<Fill>,
}

impl std::fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// Makes the rows of a table.
pub type Fill = fn(&Env, &mut Rows) -> Result<()>;

/// The cost of describing an object, in units of work.
const UNITS_PER_OBJECT: usize = 100;

/// Rows that are being made.
pub struct Rows {
    width: usize,
    /// Whether rows may end before the last columns.
    is_padded: bool,
    cells: Vec<Datum>,
}

impl Rows {
    /// Adds a row: a value for each column, in order. Where that is allowed, the last ones may be
    /// missing: they are NULL. Polls, as there may be very many objects; see
    /// [`colibri_types::pulse`].
    pub fn push<const N: usize>(&mut self, row: [Datum; N]) -> Result<()> {
        debug_assert!(self.width == N || (self.is_padded && N < self.width), "a value for each column");
        self.cells.extend(row);
        self.cells.resize(self.cells.len().next_multiple_of(self.width), Datum::Null);
        pulse::work(UNITS_PER_OBJECT)
    }
}

impl SystemTable {
    /// The number of the schema.
    pub fn namespace(&self) -> u32 {
        if self.schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA }
    }

    /// All values, row after row.
    pub fn cells(&self, env: &Env) -> Result<Vec<Datum>> {
        let mut rows = Rows { width: self.columns.len(), is_padded: self.is_padded, cells: Vec::new() };
        if let Some(fill) = self.rows {
            fill(env, &mut rows)?;
        }
        if !rows.cells.len().is_multiple_of(self.columns.len()) {
            return Err(Error::internal(format_args!("rows of {self:?} have another width than it")));
        }
        Ok(rows.cells)
    }
}

/// All system tables.
#[derive(Debug)]
pub struct SystemTables {
    all: Vec<SystemTable>,
    by_name: HashMap<(&'static str, &'static str), usize>,
}

impl SystemTables {
    /// Those of a list.
    pub fn new(all: Vec<SystemTable>) -> Self {
        let by_name = all.iter().enumerate().map(|(at, table)| ((table.schema, table.name), at)).collect();
        Self { all, by_name }
    }

    fn found(&self, schema: &str, name: &str) -> Option<&SystemTable> {
        self.by_name.get(&(schema, name)).map(|&at| &self.all[at])
    }

    /// One by name.
    pub fn table(&self, schema: &str, name: &str) -> Option<&SystemTable> {
        self.found(schema, name).filter(|table| !table.is_function)
    }

    /// A table function by name.
    pub fn function(&self, name: &str) -> Option<&SystemTable> {
        self.found("pg_catalog", name).filter(|table| table.is_function)
    }

    /// A table or table function by number.
    pub fn numbered(&self, oid: u32) -> Option<&SystemTable> {
        self.all.iter().find(|table| table.oid == oid)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &SystemTable> {
        self.all.iter().filter(|table| !table.is_function)
    }

    /// All tables and table functions.
    pub fn with_functions(&self) -> &[SystemTable] {
        &self.all
    }
}

/// Whether a schema is the system's.
pub fn is_system_schema(name: &str) -> bool {
    matches!(name, "pg_catalog" | "information_schema")
}
