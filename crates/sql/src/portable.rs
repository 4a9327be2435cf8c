//! Rows for another process: values whose meaning does not depend on what this process knows.
//!
//! The other process runs the same version, so values go in the form that temporary files have
//! ([`write_value`]). What only this process can read is replaced on the way:
//!
//! | here | there |
//! | --- | --- |
//! | an enum's value, a place among its labels | text: the label |
//! | a value of a range type that a user has made | text |
//! | a composite type's value | a row, `record`, of fields with names |
//! | a number of an object (`regclass` and its kin) | the number; its name goes along ([`Names`]) |
//!
//! Invariants: a value and its portable form have the same text, and are the same value for whoever
//! reads rows of the library.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use colibri_exec::{ValueBytes, write_value};
use colibri_types::datetime::{DateStyle, IntervalStyle, zone_of_shown};
use colibri_types::env::Surround;
use colibri_types::text_search::{Configuration, Dictionary};
use colibri_types::{
    Array, ColumnType, CompactString, Datum, Env, Error, Modifier, Result, Row, RowType, SqlState, Type, text_io,
};

use crate::session::{Rows, Session};

/// The settings by which values become texts, in the order in which they are told.
const SHOWN: [&str; 5] = ["TimeZone", "DateStyle", "IntervalStyle", "extra_float_digits", "bytea_output"];

/// The type that values of a type have in another process.
#[must_use]
pub fn portable_type(ty: ColumnType) -> ColumnType {
    match portable(ty.ty) {
        same if same == ty.ty => ty.base(),
        other => other.into(),
    }
}

fn portable(ty: Type) -> Type {
    match ty {
        Type::Enum(_) | Type::Range(_) => Type::Text,
        Type::Composite(_) => Type::Record,
        _ => match ty.element() {
            Some(element) if element.is_of_user() => portable(element).array().unwrap_or(ty),
            _ => ty,
        },
    }
}

/// Whether values of a type may hold something that is replaced.
fn may_differ(ty: Type) -> bool {
    ty.of_user().is_some() || ty.is_row() || ty.element().is_some_and(|element| element.is_row())
}

fn portable_value<'v>(value: &'v Datum, ty: Type, env: &Env) -> Result<Cow<'v, Datum>> {
    Ok(match value {
        Datum::Null => Cow::Borrowed(value),
        Datum::Row(row) => {
            let (mut fields, mut values) = (Vec::new(), Vec::new());
            for (name, ty, value) in row.fields() {
                fields.push((CompactString::new(name), portable_type(ty)));
                values.push(portable_value(value, ty.ty, env)?.into_owned());
            }
            let ty = RowType { oid: Type::Record.oid(), name: row.ty().name.clone(), fields };
            Cow::Owned(Datum::Row(Arc::new(Row::new(Arc::new(ty), values))))
        }
        Datum::Array(array) if may_differ(array.element()) => {
            let element = array.element();
            let values = array.values().iter().map(|value| portable_value(value, element, env).map(Cow::into_owned));
            let values = values.collect::<Result<Vec<_>>>()?;
            let array = Array::of_parts(portable(element), array.dimensions(), values);
            let array = array.ok_or_else(|| Error::internal("an array has lost values"))?;
            Cow::Owned(Datum::Array(Arc::new(array)))
        }
        _ if ty.is_of_user() => Cow::Owned(Datum::Text(text_io::written(ty, value, env)?)),
        _ => Cow::Borrowed(value),
    })
}

/// Appends rows of these columns, from one on.
///
/// ```text
/// rows  := width: u32 | count: u32 | values, row by row | names
/// names := count: u32 | (type: u32, number: u32, bytes: u32, name) …
/// ```
///
/// # Errors
/// A value has no text.
pub fn write_rows(rows: &Rows, from: usize, columns: &[ColumnType], env: &Env, out: &mut Vec<u8>) -> Result<()> {
    put_u32(columns.len(), out);
    put_u32(rows.len() - from, out);
    let differ: Vec<bool> = columns.iter().map(|column| may_differ(column.ty)).collect();
    let named: Vec<usize> =
        (0..columns.len()).filter(|&at| columns[at].ty.is_reg() || columns[at].ty.item().is_reg()).collect();
    let mut names = HashMap::new();
    for index in from..rows.len() {
        let row = rows.row(index);
        for (at, value) in row.iter().enumerate() {
            if differ[at] {
                write_value(&*portable_value(value, columns[at].ty, env)?, out);
            } else {
                write_value(value, out);
            }
        }
        for &at in &named {
            note_names(&row[at], columns[at].ty.item(), env, &mut names);
        }
    }
    put_u32(names.len(), out);
    for ((ty, number), name) in names {
        out.extend_from_slice(&u32::to_le_bytes(ty));
        out.extend_from_slice(&u32::to_le_bytes(number));
        put_u32(name.len(), out);
        out.extend_from_slice(name.as_bytes());
    }
    Ok(())
}

fn note_names(value: &Datum, ty: Type, env: &Env, names: &mut HashMap<(u32, u32), String>) {
    match value {
        Datum::Int(number) => {
            names.entry((ty.oid(), *number as u32)).or_insert_with(|| {
                let mut name = String::new();
                env.write_object(ty, *number as u32, &mut name);
                name
            });
        }
        Datum::Array(array) => array.values().iter().for_each(|value| note_names(value, ty, env, names)),
        _ => {}
    }
}

fn put_u32(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

#[cold]
fn damaged() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "rows of another process are damaged")
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32> {
    let (taken, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    *bytes = rest;
    Ok(u32::from_le_bytes(*taken))
}

/// Reads what [`write_rows`] has written, and takes note of the names.
///
/// # Errors
/// XX001 if these are other bytes.
pub fn read_rows(bytes: &[u8], names: &Names) -> Result<Rows> {
    let mut rest = bytes;
    let (width, count) = (take_u32(&mut rest)? as usize, take_u32(&mut rest)? as usize);
    let cells = width.checked_mul(count).filter(|&cells| cells <= rest.len()).ok_or_else(damaged)?;
    let mut values = ValueBytes(rest);
    let cells = (0..cells).map(|_| values.read()).collect::<Result<Vec<_>>>()?;
    let mut rest = values.0;
    for _ in 0..take_u32(&mut rest)? {
        let key = (take_u32(&mut rest)?, take_u32(&mut rest)?);
        let length = take_u32(&mut rest)? as usize;
        let (name, behind) = rest.split_at_checked(length).ok_or_else(damaged)?;
        names.note(key, std::str::from_utf8(name).map_err(|_| damaged())?);
        rest = behind;
    }
    Ok(Rows::of_cells(width, count, cells))
}

/// Names of objects that came along with rows: what stands around a session of another process.
#[derive(Debug, Default)]
pub struct Names {
    known: Mutex<HashMap<(u32, u32), Box<str>>>,
}

impl Names {
    fn note(&self, key: (u32, u32), name: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, name.into());
    }
}

impl Surround for Names {
    fn number_of(&self, _ty: Type, name: &str) -> Result<u32> {
        Err(Error::new(SqlState::NO_SUCH_OBJECT, format!("\"{name}\" is a name in another process")))
    }

    fn write_name(&self, ty: Type, number: u32, out: &mut String) {
        match self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&(ty.oid(), number)) {
            Some(name) => out.push_str(name),
            None => out.push_str(&number.to_string()),
        }
    }

    fn search_configuration(&self, _number: u32) -> Option<Arc<Configuration>> {
        None
    }

    fn search_dictionary(&self, _number: u32) -> Option<Dictionary> {
        None
    }
}

/// What another process has to know to write values as texts as a session does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSettings([String; SHOWN.len()]);

impl ShownSettings {
    /// Those of a session.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        Self(SHOWN.map(|name| session.setting(name).unwrap_or_default()))
    }

    /// Their values, in an order of its own.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.0
    }

    /// From what [`ShownSettings::values`] gave.
    #[must_use]
    pub fn from_values(values: Vec<String>) -> Option<Self> {
        values.try_into().ok().map(Self)
    }

    /// Surroundings in which values have these settings' texts.
    #[must_use]
    pub fn env(&self, names: &Arc<Names>) -> Env {
        let [zone, dates, intervals, float_digits, bytea] = &self.0;
        let mut env = Env::default();
        env.zone = zone_of_shown(zone).unwrap_or(env.zone);
        let words: Vec<String> = dates.split(',').map(|word| word.trim_ascii().to_owned()).collect();
        env.dates = DateStyle::default().with_words(&words).unwrap_or_default();
        env.intervals = IntervalStyle::named(intervals);
        env.extra_float_digits = float_digits.parse().unwrap_or(env.extra_float_digits);
        env.escapes_bytes = bytea == "escape";
        env.surroundings = Some(Arc::<Names>::clone(names));
        env
    }
}

/// A column's type from the numbers by which another process of the same version tells it.
#[must_use]
pub fn column_type_of(code: u32, modifier: i32) -> Option<ColumnType> {
    Type::from_code(code).map(|ty| ColumnType::new(ty, Modifier(modifier)))
}
