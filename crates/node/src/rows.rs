//! Rows as JSON.
//!
//! V8 reads JSON faster than Node-API makes objects one by one, and the text is written on a thread
//! of the pool. Values that JSON has are written as such; of the others it has a form that
//! `lib/values.js` reads, by the kind of the column, which both sides have a table of:
//!
//! | SQL | JSON |
//! | --- | --- |
//! | `boolean`, `smallint`, `integer`, `oid` | true, false, a number |
//! | `bigint` | a string of digits |
//! | `real`, `double precision` | a number; a string for `NaN`, `Infinity`, `-Infinity` |
//! | `bytea` | a string of hexadecimal digits |
//! | `timestamp`, `timestamptz` | milliseconds since 1970; a string for the infinite ones |
//! | `interval` | months, days, seconds, microseconds |
//! | `json`, `jsonb` | itself |
//! | arrays of these | arrays |
//! | every other type | a string, as PostgreSQL writes it |
//!
//! In the form `Text` every value is a string, as a client of PostgreSQL gets it.

use std::fmt::Write as _;

use colibri::sql::{Column, Connection, RowBlock, Value};

/// Milliseconds from 1970 to 2000, where time begins in PostgreSQL.
const EPOCH_MS: i64 = 946_684_800_000;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Objects by the names of columns.
    Objects,
    /// Arrays.
    Arrays,
    /// Arrays of texts, as a client of PostgreSQL gets them.
    Text,
}

impl Form {
    pub(crate) fn of(number: u32) -> Self {
        match number {
            0 => Self::Objects,
            1 => Self::Arrays,
            _ => Self::Text,
        }
    }
}

/// How values of a type are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Int8,
    Json,
    /// As PostgreSQL writes it.
    Text,
    Array(&'static Kind),
}

/// The kind of a type, by PostgreSQL's number of it.
fn kind_of(oid: u32) -> Kind {
    match oid {
        // bool, int2, int4, oid, float4, float8, bytea, timestamp, timestamptz, interval
        16 | 21 | 23 | 26 | 700 | 701 | 17 | 1114 | 1184 | 1186 => Kind::Plain,
        20 => Kind::Int8,
        114 | 3802 => Kind::Json,
        // Arrays of these, and of text, varchar, char, name, numeric, uuid
        1000 | 1005 | 1007 | 1028 | 1021 | 1022 | 1001 | 1115 | 1185 | 1187 => Kind::Array(&Kind::Plain),
        1009 | 1015 | 1014 | 1003 | 1231 | 2951 => Kind::Array(&Kind::Plain),
        1016 => Kind::Array(&Kind::Int8),
        199 | 3807 => Kind::Array(&Kind::Json),
        // text, varchar, char, name, numeric, uuid have the same form either way.
        25 | 1043 | 1042 | 19 | 1700 | 2950 => Kind::Plain,
        _ => Kind::Text,
    }
}

/// Appends a string of JSON.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            byte => _ = write!(out, "\\u{byte:04x}"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends the columns: name, number and name of the type of each.
pub(crate) fn write_columns(out: &mut String, columns: &[Column]) {
    out.push('[');
    for (place, column) in columns.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push('[');
        write_string(out, column.name());
        _ = write!(out, ",{},", column.type_oid());
        write_string(out, column.type_name());
        out.push(']');
    }
    out.push(']');
}

/// Writes rows of one statement, whose columns stay the same.
pub(crate) struct Writer {
    form: Form,
    kinds: Vec<Kind>,
    /// What stands before the value of each column.
    before: Vec<String>,
    text: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(form: Form, columns: &[Column]) -> Self {
        let before = columns.iter().enumerate().map(|(place, column)| {
            let mut before = String::from(if place > 0 { "," } else { "" });
            if form == Form::Objects {
                write_string(&mut before, column.name());
                before.push(':');
            }
            before
        });
        Self {
            form,
            kinds: columns.iter().map(|column| kind_of(column.type_oid())).collect(),
            before: before.collect(),
            text: Vec::new(),
        }
    }

    /// Appends a row.
    pub(crate) fn write_row(&mut self, out: &mut String, block: &RowBlock, row: usize, connection: &Connection) {
        let (open, close) = if self.form == Form::Objects { ('{', '}') } else { ('[', ']') };
        out.push(open);
        for column in 0..self.kinds.len() {
            out.push_str(&self.before[column]);
            let kind = self.kinds[column];
            if self.form == Form::Text || kind == Kind::Text {
                self.write_text(out, block, row, column, connection);
            } else {
                let value = block.value(row, column).unwrap_or(Value::Null);
                if !write_value(out, &value, kind) {
                    self.write_text(out, block, row, column, connection);
                }
            }
        }
        out.push(close);
    }

    fn write_text(&mut self, out: &mut String, block: &RowBlock, row: usize, column: usize, connection: &Connection) {
        self.text.clear();
        match block.write_text(row, column, connection, &mut self.text) {
            true => write_string(out, &String::from_utf8_lossy(&self.text)),
            false => out.push_str("null"),
        }
    }
}

/// Appends a value; `false`, and nothing is appended, if it has no form of its own.
fn write_value(out: &mut String, value: &Value<'_>, kind: Kind) -> bool {
    match (value, kind) {
        (Value::Null, _) => out.push_str("null"),
        (Value::Array(values), Kind::Array(element)) => {
            out.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                // Dimensions are arrays of arrays.
                let kind = if matches!(value, Value::Array(_)) { kind } else { *element };
                if !write_value(out, value, kind) {
                    out.push_str("null");
                }
            }
            out.push(']');
        }
        (Value::Bool(value), _) => out.push_str(if *value { "true" } else { "false" }),
        (Value::Int(value), Kind::Int8) => _ = write!(out, "\"{value}\""),
        (Value::Int(value), _) => _ = write!(out, "{value}"),
        (Value::Real(value), _) if value.is_finite() => _ = write!(out, "{value}"),
        (Value::Float(value), _) if value.is_finite() => _ = write!(out, "{value:?}"),
        (Value::Real(value), _) => write_infinite(out, f64::from(*value)),
        (Value::Float(value), _) => write_infinite(out, *value),
        (Value::Text(text), Kind::Json) => out.push_str(text),
        (Value::Text(text), _) => write_string(out, text),
        (Value::Bytes(bytes), _) => {
            out.push('"');
            bytes.iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
            out.push('"');
        }
        (Value::Numeric(number), _) => {
            out.push('"');
            number.write(out);
            out.push('"');
        }
        (Value::Timestamp(moment), _) => write_moment(out, moment.micros(), moment.is_finite()),
        (Value::TimestampTz(moment), _) => write_moment(out, moment.micros(), moment.is_finite()),
        (Value::Interval(interval), _) => {
            let (seconds, micros) = (interval.micros / 1_000_000, interval.micros % 1_000_000);
            _ = write!(out, "[{},{},{seconds},{micros}]", interval.months, interval.days);
        }
        (Value::Uuid(bytes), _) => {
            out.push('"');
            for (place, byte) in bytes.iter().enumerate() {
                if matches!(place, 4 | 6 | 8 | 10) {
                    out.push('-');
                }
                _ = write!(out, "{byte:02x}");
            }
            out.push('"');
        }
        _ => return false,
    }
    true
}

fn write_infinite(out: &mut String, value: f64) {
    out.push_str(match value {
        value if value.is_nan() => "\"NaN\"",
        value if value > 0.0 => "\"Infinity\"",
        _ => "\"-Infinity\"",
    });
}

fn write_moment(out: &mut String, micros: i64, is_finite: bool) {
    match is_finite {
        true => _ = write!(out, "{}", micros.div_euclid(1_000) + EPOCH_MS),
        false => write_infinite(out, if micros > 0 { f64::INFINITY } else { f64::NEG_INFINITY }),
    }
}
