//! Rows as values: `ROW (1, 'a')`, and a table's whole row. A row brings its type, so that whoever
//! shows, compares or keeps one needs nothing else.
//!
//! ```text
//! binary := count: i32 | (type: u32, bytes: i32, value) …
//! ```
//! Everything is big-endian; the bytes of NULL are -1. This is PostgreSQL's binary format.
//!
//! Invariants: a row has as many values as its type has fields, each of its field's type or NULL.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::binary_io;
use crate::cast;
pub use crate::composites::RowType;
use crate::env::Env;
use crate::operators;
use crate::pulse;
use crate::text_io;
use crate::types::{ColumnType, Type};
use crate::value::Datum;

/// What reading, writing or comparing a value takes at the least, in units of work.
const UNITS_PER_VALUE: usize = 8;

/// The numbers of the types of relations' rows begin here: PostgreSQL has none so large.
pub const ROW_TYPES: u32 = 1 << 29;

/// The numbers of the types of arrays of such rows begin here.
pub const ROW_ARRAYS: u32 = 2 * ROW_TYPES;

/// The numbers of temporary objects, and of the types of their rows, have this bit.
const TEMPORARY: u32 = 1 << 31;

/// The number of the type of a relation's rows; 0 for what has none.
///
/// Bug: temporary relations had none. Consequence: the catalogue kept a function that returned rows
/// of one with a type of the number 0, and could not be read again. Fix: they have numbers as well.
#[must_use]
pub fn row_type(relation: u32) -> u32 {
    if relation & !TEMPORARY < ROW_TYPES { ROW_TYPES + relation } else { 0 }
}

/// The number of the type of arrays of a relation's rows; 0 for what has none.
#[must_use]
pub fn row_array(relation: u32) -> u32 {
    if relation & !TEMPORARY < ROW_TYPES { ROW_ARRAYS + relation } else { 0 }
}

/// The relation whose rows a type is of, and whether it is the type of arrays of them.
#[must_use]
pub fn relation_of(ty: u32) -> Option<(u32, bool)> {
    let (temporary, number) = (ty & TEMPORARY, ty & !TEMPORARY);
    match number.checked_sub(ROW_TYPES)? {
        relation if relation < ROW_TYPES => Some((temporary | relation, false)),
        array => Some((temporary | (array - ROW_TYPES), true)).filter(|_| array - ROW_TYPES < ROW_TYPES),
    }
}

/// A row.
#[derive(Debug, PartialEq)]
pub struct Row {
    ty: Arc<RowType>,
    values: Box<[Datum]>,
}

impl Row {
    /// A row of a type; values beyond its fields are left out, missing ones are NULL.
    #[must_use]
    pub fn new(ty: Arc<RowType>, mut values: Vec<Datum>) -> Self {
        values.resize(ty.fields.len(), Datum::Null);
        Self { ty, values: values.into() }
    }

    /// What it is of.
    #[must_use]
    pub fn ty(&self) -> &Arc<RowType> {
        &self.ty
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// Each value with its name and type.
    pub fn fields(&self) -> impl Iterator<Item = (&str, ColumnType, &Datum)> {
        self.ty.fields.iter().zip(&self.values).map(|((name, ty), value)| (name.as_str(), *ty, value))
    }

    /// Appends its text, `(1,"a b",)`: NULL is nothing, and what could be taken for something else
    /// is quoted. Ends early if the statement was cancelled: see [`pulse::note`].
    pub fn write(&self, env: &Env, out: &mut String) {
        let mut shown = String::new();
        out.push('(');
        for (index, (_, ty, value)) in self.fields().enumerate() {
            if index > 0 {
                out.push(',');
            }
            if pulse::note(UNITS_PER_VALUE) {
                return;
            }
            if value.is_null() {
                continue;
            }
            shown.clear();
            match ty.ty {
                of if cast::is_padded(of) => {
                    text_io::write(ty.ty, &cast::pad_char(value, ty.modifier), env, &mut shown)
                }
                _ => text_io::write(ty.ty, value, env, &mut shown),
            }
            let is_special =
                |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace() || c == '\x0b';
            if !shown.is_empty() && !shown.contains(is_special) {
                out.push_str(&shown);
                continue;
            }
            out.push('"');
            for c in shown.chars() {
                if matches!(c, '"' | '\\') {
                    out.push(c);
                }
                out.push(c);
            }
            out.push('"');
        }
        out.push(')');
    }

    /// Appends its bytes for clients.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.values.len() as i32).to_be_bytes());
        for (_, ty, value) in self.fields() {
            pulse::note(UNITS_PER_VALUE);
            let oid = match (ty.ty, value) {
                (Type::Record, Datum::Row(row)) => row.ty.oid,
                _ => ty.oid(),
            };
            out.extend_from_slice(&oid.to_be_bytes());
            if value.is_null() {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            binary_io::write_binary(ty.ty, ty.modifier, value, out);
            let bytes = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&bytes.to_be_bytes());
        }
    }

    /// The order: by values, NULL above all others; then by how many.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        for (a, b) in self.values.iter().zip(&other.values) {
            pulse::note(1);
            let order = match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => operators::compare(a, b),
            };
            if order.is_ne() {
                return order;
            }
        }
        self.values.len().cmp(&other.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: Vec<Datum>) -> Row {
        let types = [Type::Int4, Type::Text, Type::Bool].into_iter().map(ColumnType::from);
        Row::new(Arc::new(RowType::of_values(types)), values)
    }

    #[test]
    fn a_text_quotes_what_could_be_taken_for_something_else() {
        let written = |text: &str| {
            let mut out = String::new();
            row(vec![Datum::Int(1), Datum::text(text), Datum::Null]).write(&Env::default(), &mut out);
            out
        };
        assert_eq!(written("a"), "(1,a,)");
        assert_eq!(written(""), "(1,\"\",)");
        assert_eq!(written("a b"), "(1,\"a b\",)");
        assert_eq!(written("a\"\\(,"), "(1,\"a\"\"\\\\(,\",)");
    }

    #[test]
    fn nulls_are_equal_and_above_all_values() {
        let of = |value: Datum| row(vec![Datum::Int(1), value, Datum::Bool(true)]);
        assert_eq!(of(Datum::Null).compare(&of(Datum::Null)), Ordering::Equal);
        assert_eq!(of(Datum::Null).compare(&of(Datum::text("z"))), Ordering::Greater);
        assert_eq!(of(Datum::text("a")).compare(&of(Datum::text("b"))), Ordering::Less);
    }
}
