//! Types for tables whose rows are made from the catalogue when they are read. The list of these
//! tables is elsewhere.
//!
//! Rows that were made may be kept, for as long as [`Lasting`] says, and shared by all who read
//! them. Where rows of a few relations are asked for, only these may be made ([`Rows::wants`]). A
//! table has keys: columns by whose values its rows are looked up ([`MadeRows::find`]),
//! instead of all of them being read. The order by a key is made when a row is first looked up by it.
//!
//! Invariants: rows that are found come in the order of the table. A cell that changes while the
//! catalogue stays the same (a figure) is NULL in kept rows, and filled in for each reader
//! ([`Fresh`]).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use colibri_types::{Datum, Env, Error, Result, Type, prefix::Prefix, pulse};

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
    /// For how long its rows are right once they are made.
    pub lasting: Lasting,
    /// The columns by which rows are looked up.
    pub keys: Vec<SystemKey>,
    /// About how many rows it has, for the planner.
    pub rows_expected: f64,
    /// The cells that are filled in for each reader.
    pub fresh: Option<Fresh>,
    /// Where rows come from: those that are kept, or new ones by [`SystemTable::make`].
    pub find: FindRows,
}

/// For how long rows of a system table are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// For a statement: they tell of sessions, of figures or of settings.
    Statement,
    /// While the catalogue and the roles are the same, for readers who have the same rights and look
    /// names up in the same schemas.
    Reader,
    /// While the catalogue and the roles are the same, for all.
    Catalog,
}

/// A column by which rows are looked up, alone or together with a second one. They have numbers or
/// texts that are equal if their bytes are.
#[derive(Debug, Clone, Copy)]
pub struct SystemKey {
    /// The column's place.
    pub column: usize,
    /// About how many rows have the same value.
    pub rows_alike: f64,
    /// The place of another column: about one row has the same values in both.
    pub second: Option<usize>,
}

/// Cells that are not kept with a row.
#[derive(Clone, Copy)]
pub struct Fresh {
    /// Their columns.
    pub columns: &'static [usize],
    /// Fills them in: takes the row as it is kept, and the row that is given.
    pub fill: fn(&Env, &[Datum], &mut [Datum]) -> Result<()>,
}

/// Values of a key by which rows are looked up.
#[derive(Debug, Clone, Copy)]
pub struct WantedRows<'v> {
    /// The place of the key.
    pub key: usize,
    /// Values of its first column.
    pub values: &'v [Datum],
}

/// Finds the rows of a table, or makes them: all of them or, where some are wanted, at least these.
pub type FindRows = fn(&SystemTable, &Env, Option<WantedRows<'_>>) -> Result<Arc<MadeRows>>;

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
    /// The relations whose rows are wanted; `None`: all.
    relations: Option<Vec<u32>>,
    cells: Vec<Datum>,
}

impl Rows {
    /// The relations whose rows are wanted, by number; `None`: all. Indexes go with their tables. Rows
    /// of others do no harm.
    #[must_use]
    pub fn relations(&self) -> Option<&[u32]> {
        self.relations.as_deref()
    }

    /// Whether the rows of a relation are wanted.
    #[must_use]
    pub fn wants(&self, relation: u32) -> bool {
        self.relations.as_ref().is_none_or(|wanted| wanted.contains(&relation))
    }

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

    /// Makes all rows, or those of some relations.
    ///
    /// # Errors
    /// Of making them; that a statement was cancelled meanwhile.
    pub fn make(&self, env: &Env, relations: Option<Vec<u32>>) -> Result<Arc<MadeRows>> {
        let is_whole = relations.is_none();
        let mut rows = Rows { width: self.columns.len(), is_padded: self.is_padded, relations, cells: Vec::new() };
        if let Some(fill) = self.rows {
            fill(env, &mut rows)?;
        }
        if !rows.cells.len().is_multiple_of(self.columns.len()) {
            return Err(Error::internal(format_args!("rows of {self:?} have another width than it")));
        }
        Ok(Arc::new(MadeRows::new(self, rows.cells, is_whole)))
    }
}

/// The rows of a table, as they were made.
#[derive(Debug)]
pub struct MadeRows {
    /// All rows of the table.
    is_whole: bool,
    width: usize,
    cells: Vec<Datum>,
    /// For each key of the table, the numbers of the rows in the order of its values. Rows with NULL
    /// in its first column are left out, and rows with equal values come in the order of the table.
    by_key: Vec<(SystemKey, OnceLock<Vec<u32>>)>,
}

/// A value that rows are looked up by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue<'v> {
    Number(i64),
    Text(&'v str),
}

impl<'v> KeyValue<'v> {
    fn of(value: &'v Datum) -> Option<Self> {
        match value {
            Datum::Int(number) => Some(Self::Number(*number)),
            Datum::Text(text) => Some(Self::Text(text)),
            _ => None,
        }
    }
}

impl MadeRows {
    fn new(table: &SystemTable, cells: Vec<Datum>, is_whole: bool) -> Self {
        let by_key = table.keys.iter().map(|&key| (key, OnceLock::new())).collect();
        Self { is_whole, width: table.columns.len(), cells, by_key }
    }

    /// Whether these are all rows of the table.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len() / self.width
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A row by its number, from 0 on.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    pub fn row(&self, number: usize) -> &[Datum] {
        &self.cells[number * self.width..][..self.width]
    }

    /// About how many bytes they take: those of long texts and arrays are not counted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.cells.len() * size_of::<Datum>()
    }

    /// Adds the numbers of the rows that have a value in a key, and if one is given another value in
    /// its second column; `false` if rows cannot be looked up by such values. Nothing is equal to
    /// NULL. Without a second value the rows come in the order of that column, and otherwise in the
    /// table's.
    ///
    /// # Errors
    /// That the statement was cancelled.
    pub fn find(&self, key: usize, value: &Datum, second: Option<&Datum>, found: &mut Vec<u32>) -> Result<bool> {
        if value.is_null() || second.is_some_and(Datum::is_null) {
            return Ok(true);
        }
        let (Some((key, order)), Some(value)) = (self.ordered_by(key)?, KeyValue::of(value)) else {
            return Ok(false);
        };
        let second = match (second, key.second) {
            (None, _) => None,
            (Some(second), Some(column)) if let Some(second) = KeyValue::of(second) => Some((column, second)),
            (Some(_), _) => return Ok(false),
        };
        let compared = |&row: &u32| {
            let row = self.row(row as usize);
            let first = KeyValue::of(&row[key.column]).cmp(&Some(value));
            match &second {
                Some((column, second)) => first.then_with(|| KeyValue::of(&row[*column]).cmp(&Some(*second))),
                None => first,
            }
        };
        let first = order.partition_point(|row| compared(row) == Ordering::Less);
        found.extend(order[first..].iter().take_while(|row| compared(row) == Ordering::Equal));
        Ok(true)
    }

    /// Adds the numbers of the rows whose texts in a key begin with a prefix, or are equal to it if it
    /// is whole, in the order of the texts; `false` if rows cannot be looked up by it.
    ///
    /// # Errors
    /// That the statement was cancelled.
    pub fn find_texts(&self, key: usize, prefix: &Prefix, found: &mut Vec<u32>) -> Result<bool> {
        if prefix.text.is_empty() && !prefix.is_whole {
            return Ok(false);
        }
        let Some((key, order)) = self.ordered_by(key)? else { return Ok(false) };
        let text = |&row: &u32| match &self.row(row as usize)[key.column] {
            Datum::Text(text) => Some(&**text),
            _ => None,
        };
        // Numbers, which no key has beside texts, would come in front of these.
        let first = order.partition_point(|row| text(row).is_none_or(|text| text < &*prefix.text));
        let matches = |text: &str| text.starts_with(&prefix.text) && !(prefix.is_whole && text != prefix.text);
        found.extend(order[first..].iter().take_while(|row| text(row).is_some_and(matches)));
        Ok(true)
    }

    /// A key, and its rows in the order of the key; `None` if there is no such key.
    fn ordered_by(&self, key: usize) -> Result<Option<(SystemKey, &[u32])>> {
        let Some((key, order)) = self.by_key.get(key) else { return Ok(None) };
        // Made outside of the cell, as it polls.
        let order = match order.get() {
            Some(order) => order,
            None => {
                let made = self.order_by(*key)?;
                order.get_or_init(|| made)
            }
        };
        Ok(Some((*key, order)))
    }

    fn order_by(&self, key: SystemKey) -> Result<Vec<u32>> {
        let value = |row: u32| KeyValue::of(&self.row(row as usize)[key.column]);
        let second = |row: u32| key.second.and_then(|column| KeyValue::of(&self.row(row as usize)[column]));
        let count = u32::try_from(self.len()).map_err(|_| Error::internal("a system table has too many rows"))?;
        pulse::work(self.len())?;
        let mut order: Vec<u32> = (0..count).filter(|&row| value(row).is_some()).collect();
        order.sort_by(|&one, &other| value(one).cmp(&value(other)).then_with(|| second(one).cmp(&second(other))));
        Ok(order)
    }
}

/// All system tables.
#[derive(Debug)]
pub struct SystemTables {
    all: Vec<SystemTable>,
    by_name: HashMap<(&'static str, &'static str), usize>,
    by_number: HashMap<u32, usize>,
}

impl SystemTables {
    /// Those of a list.
    pub fn new(all: Vec<SystemTable>) -> Self {
        let by_name = all.iter().enumerate().map(|(at, table)| ((table.schema, table.name), at)).collect();
        let by_number = all.iter().enumerate().map(|(at, table)| (table.oid, at)).collect();
        Self { all, by_name, by_number }
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
        self.by_number.get(&oid).map(|&at| &self.all[at])
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
