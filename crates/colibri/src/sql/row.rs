//! Rows: values by the place or the name of their column.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use colibri_sql::{Prepared, ResultColumn, Session, SqlState};

use super::value::{FromSql, Value};
use super::{Error, Result};

/// A column of a statement's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    type_name: String,
    oid: u32,
    /// Its values' type as they are in this process.
    pub(crate) column: ResultColumn,
}

impl Column {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type's name in SQL, with its modifier: `numeric(10,2)`.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// PostgreSQL's number of its type.
    #[must_use]
    pub fn type_oid(&self) -> u32 {
        self.oid
    }

    /// One of rows that come from another process.
    pub(super) fn of_other_process(name: &str, type_name: &str, oid: u32, column: ResultColumn) -> Self {
        Self { name: name.to_owned(), type_name: type_name.to_owned(), oid, column }
    }
}

/// The columns of a statement, none if it gives no rows.
pub(crate) fn columns_of(prepared: &Prepared) -> Arc<[Column]> {
    prepared.columns().unwrap_or_default().iter().map(column).collect()
}

/// The columns as rows of them are to be read now: types that users have defined may have changed
/// since the statement was prepared.
pub(crate) fn renew_columns(columns: &mut Arc<[Column]>, session: &Session) {
    let known: Vec<ResultColumn> = columns.iter().map(|column| column.column.clone()).collect();
    if let Cow::Owned(renewed) = session.renewed_columns(&known) {
        *columns = renewed.iter().map(column).collect();
    }
}

fn column(column: &ResultColumn) -> Column {
    Column {
        name: column.name.to_string(),
        type_name: column.ty.to_string(),
        oid: column.ty.ty.oid(),
        column: column.clone(),
    }
}

/// Rows that came together.
pub(crate) struct Block {
    pub(crate) columns: Arc<[Column]>,
    pub(crate) rows: colibri_sql::Rows,
}

/// A row.
///
/// Rows that came together share memory, which is free again when the last of them is dropped.
#[derive(Clone)]
pub struct Row {
    block: Arc<Block>,
    index: usize,
}

/// A column of a row: its place from 0, or its name.
pub trait ColumnIndex: fmt::Display {
    /// Its place.
    fn place(&self, columns: &[Column]) -> Option<usize>;
}

impl ColumnIndex for usize {
    fn place(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl ColumnIndex for str {
    fn place(&self, columns: &[Column]) -> Option<usize> {
        columns.iter().position(|column| column.name == self)
    }
}

impl<I: ColumnIndex + ?Sized> ColumnIndex for &I {
    fn place(&self, columns: &[Column]) -> Option<usize> {
        (**self).place(columns)
    }
}

impl Row {
    pub(crate) fn new(block: &Arc<Block>, index: usize) -> Self {
        Self { block: Arc::clone(block), index }
    }

    /// The value of a column, by its place from 0 or its name.
    ///
    /// # Errors
    /// 42703 if there is no such column, 22002 if it is NULL and `T` is no `Option`, 42804 if `T`
    /// does not hold such a value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// let row = db.connect().query_row("SELECT 7 AS id, 'Ada' AS name, NULL::int AS age", ())?;
    /// assert_eq!(row.get::<_, i32>("id")?, 7);
    /// assert_eq!(row.get::<_, &str>(1)?, "Ada");
    /// assert_eq!(row.get::<_, Option<i32>>("age")?, None);
    /// assert_eq!(row.get::<_, i32>("age").unwrap_err().state().0, "22002");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get<'a, I: ColumnIndex, T: FromSql<'a>>(&'a self, column: I) -> Result<T> {
        let columns = self.columns();
        let place = column.place(columns).ok_or_else(|| {
            let there = columns.iter().map(Column::name).collect::<Vec<_>>().join(", ");
            Error::new(SqlState::NO_SUCH_COLUMN, format!("the row has no column {column}"))
                .detail(format!("It has these: {there}."))
        })?;
        let value = Value::of(&self.block.rows.row(self.index)[place], columns[place].column.ty.ty);
        T::from_sql(value).map_err(|value| misfit::<T>(&columns[place], &value))
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.block.columns
    }

    /// How many columns it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.block.columns.len()
    }

    /// Whether it has no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cold]
fn misfit<T>(column: &Column, value: &Value<'_>) -> Error {
    let (name, wanted) = (&column.name, std::any::type_name::<T>());
    if *value == Value::Null {
        return Error::new(SqlState("22002"), format!("column \"{name}\" is NULL, which {wanted} does not hold"))
            .hint("Take an Option.");
    }
    let message = format!("column \"{name}\" of type {} has a value that {wanted} does not hold", column.type_name);
    Error::new(SqlState::TYPE_MISMATCH, message)
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (column, value) in self.columns().iter().zip(self.block.rows.row(self.index)) {
            map.entry(&column.name, &Value::of(value, column.column.ty.ty));
        }
        map.finish()
    }
}
