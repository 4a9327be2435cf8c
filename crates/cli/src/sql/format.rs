//! Results for programs: CSV and JSON, a piece at a time.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::ValueEnum;
use colibri::sql::Column;
use colibri::sql::engine::Type;

use super::table::Cell;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    Table,
    /// A line of names, then a line for each row; NULL is empty, an empty text is ""
    Csv,
    /// An array of objects for each statement that gives rows
    Json,
}

pub(crate) fn csv_header(columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
    let names = columns.iter().map(|column| Some(column.name().to_owned())).collect::<Vec<_>>();
    csv_row(&names, out)
}

pub(crate) fn csv_row(row: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    for (at, cell) in row.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell.as_deref() {
            None => {}
            Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            }
            Some(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// A row as an object. Numbers are numbers, with all their digits; what JSON has no number for is a
/// string.
pub(crate) fn json_row(columns: &[Column], row: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::from("{");
    for (at, (column, cell)) in columns.iter().zip(row).enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        _ = write!(text, "{}: ", serde_json::Value::from(column.name()));
        match (cell.as_deref(), Type::from_oid(column.type_oid()).unwrap_or(Type::Text)) {
            (None, _) => text.push_str("null"),
            (Some(value), Type::Bool) => text.push_str(if value == "t" { "true" } else { "false" }),
            (
                Some(value),
                Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid | Type::Float4 | Type::Float8 | Type::Numeric,
            ) if value.ends_with(|c: char| c.is_ascii_digit()) => text.push_str(value),
            (Some(value), _) => _ = write!(text, "{}", serde_json::Value::from(value)),
        }
    }
    text.push('}');
    out.write_all(text.as_bytes())
}
