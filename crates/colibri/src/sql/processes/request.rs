//! What a guest asks of the owner.

use std::borrow::Cow;

use colibri_sql::{Datum, ValueBytes, write_value};

use super::frame::{Reader, Writer, damaged};
use crate::sql::value::{Params, Value};
use crate::sql::{Date, Error, Result, Time, Timestamp, TimestampTz};

/// Kinds of requests. They may be numbered anew with every version: both sides have the same.
const PREPARE: u8 = 0;
const RUN: u8 = 1;
const MANY: u8 = 2;
const MORE: u8 = 3;
const STOP: u8 = 4;
const BATCH: u8 = 5;
const SETTING: u8 = 6;
const NOTIFICATIONS: u8 = 7;
const COPY: u8 = 8;
const COPY_DATA: u8 = 9;
const COPY_END: u8 = 10;
const COPY_NEXT: u8 = 11;
const COPY_CANCEL: u8 = 12;

/// A request.
#[derive(Debug, PartialEq)]
pub(in crate::sql) enum Request<'r> {
    /// To say what a statement's parameters and columns are.
    Prepare(&'r str),
    /// To run a statement, and give its first rows.
    Run(&'r str, Vec<Value<'static>>),
    /// To run a statement once for each of these.
    Many(&'r str, Vec<Vec<Value<'static>>>),
    /// To give the next rows of what runs.
    More,
    /// To end what runs.
    Stop,
    /// To run all statements of a text.
    Batch(&'r str),
    /// To give a setting's value.
    Setting(&'r str),
    /// To give the notifications that have arrived.
    Notifications,
    /// To begin a COPY.
    Copy(&'r str),
    /// To take data of a COPY.
    CopyData(&'r [u8]),
    /// To end a COPY FROM.
    CopyEnd,
    /// To give data of a COPY TO.
    CopyNext,
    /// To end a COPY early.
    CopyCancel,
}

/// Kinds of values: those that a value of SQL is not enough for.
const PLAIN: u8 = 0;
const REAL: u8 = 1;
const TIMESTAMP_TZ: u8 = 2;
const ARRAY: u8 = 3;

fn put_value(value: Value<'_>, out: &mut Writer) {
    let (kind, datum) = match value {
        Value::Array(values) => {
            out.u8(ARRAY);
            out.count(values.len());
            values.into_iter().for_each(|value| put_value(value, out));
            return;
        }
        Value::Null => (PLAIN, Datum::Null),
        Value::Bool(value) => (PLAIN, Datum::Bool(value)),
        Value::Int(value) => (PLAIN, Datum::Int(value)),
        Value::Real(value) => (REAL, Datum::Float(value.into())),
        Value::Float(value) => (PLAIN, Datum::Float(value)),
        Value::Numeric(value) => (PLAIN, Datum::Numeric(value)),
        Value::Text(value) => (PLAIN, Datum::text(&value)),
        Value::Bytes(value) => (PLAIN, Datum::Bytes(value.into_owned().into())),
        Value::Date(value) => (PLAIN, Datum::Date(value.days())),
        Value::Time(value) => (PLAIN, Datum::Time(value.micros_of_day())),
        Value::Timestamp(value) => (PLAIN, Datum::Timestamp(value.micros())),
        Value::TimestampTz(value) => (TIMESTAMP_TZ, Datum::Timestamp(value.micros())),
        Value::Interval(value) => (PLAIN, Datum::Interval(value)),
        Value::Uuid(value) => (PLAIN, Datum::Uuid(value)),
    };
    out.u8(kind);
    write_value(&datum, out.raw());
}

fn take_value(from: &mut Reader<'_>) -> Result<Value<'static>> {
    let kind = from.u8()?;
    if kind == ARRAY {
        let count = from.count()?;
        return (0..count).map(|_| take_value(from)).collect::<Result<_>>().map(Value::Array);
    }
    let mut bytes = ValueBytes(from.0);
    let datum = bytes.read()?;
    from.0 = bytes.0;
    Ok(match (kind, datum) {
        (PLAIN, Datum::Null) => Value::Null,
        (PLAIN, Datum::Bool(value)) => Value::Bool(value),
        (PLAIN, Datum::Int(value)) => Value::Int(value),
        (REAL, Datum::Float(value)) => Value::Real(value as f32),
        (PLAIN, Datum::Float(value)) => Value::Float(value),
        (PLAIN, Datum::Numeric(value)) => Value::Numeric(value),
        (PLAIN, Datum::Text(value)) => Value::Text(Cow::Owned(value.into())),
        (PLAIN, Datum::Bytes(value)) => Value::Bytes(Cow::Owned(value.into())),
        (PLAIN, Datum::Date(value)) => Value::Date(Date::from_days(value)),
        (PLAIN, Datum::Time(value)) => Value::Time(Time::from_micros_of_day(value)),
        (PLAIN, Datum::Timestamp(value)) => Value::Timestamp(Timestamp::from_micros(value)),
        (TIMESTAMP_TZ, Datum::Timestamp(value)) => Value::TimestampTz(TimestampTz::from_micros(value)),
        (PLAIN, Datum::Interval(value)) => Value::Interval(value),
        (PLAIN, Datum::Uuid(value)) => Value::Uuid(value),
        _ => return Err(damaged()),
    })
}

fn put_params(params: &impl Params, out: &mut Writer) -> Result<()> {
    let at = out.raw().len();
    out.u32(0);
    let mut count = 0u32;
    params.each(&mut |param| {
        count += 1;
        put_value(param.to_sql(), out);
        Ok(())
    })?;
    out.raw()[at..at + 4].copy_from_slice(&count.to_le_bytes());
    Ok(())
}

fn take_params(from: &mut Reader<'_>) -> Result<Vec<Value<'static>>> {
    let count = from.count()?;
    (0..count).map(|_| take_value(from)).collect()
}

/// The frame of [`Request::Run`].
pub(super) fn run(sql: &str, params: &impl Params) -> Result<Vec<u8>> {
    let mut out = Writer::new(RUN);
    out.text(sql);
    put_params(params, &mut out)?;
    out.finish()
}

/// The frame of [`Request::Many`].
pub(super) fn many<P: Params>(sql: &str, rows: &[P]) -> Result<Vec<u8>> {
    let mut out = Writer::new(MANY);
    out.text(sql);
    out.count(rows.len());
    rows.iter().try_for_each(|params| put_params(params, &mut out))?;
    out.finish()
}

impl<'r> Request<'r> {
    /// As a frame.
    pub(super) fn frame(&self) -> Result<Vec<u8>> {
        let plain = |kind| Writer::new(kind);
        let with = |kind, bytes: &[u8]| {
            let mut out = Writer::new(kind);
            out.bytes(bytes);
            out
        };
        match self {
            Self::Run(sql, params) => return run(sql, params),
            Self::Many(sql, rows) => return many(sql, rows),
            Self::Prepare(sql) => with(PREPARE, sql.as_bytes()),
            Self::Batch(sql) => with(BATCH, sql.as_bytes()),
            Self::Setting(name) => with(SETTING, name.as_bytes()),
            Self::Copy(sql) => with(COPY, sql.as_bytes()),
            Self::CopyData(bytes) => with(COPY_DATA, bytes),
            Self::More => plain(MORE),
            Self::Stop => plain(STOP),
            Self::Notifications => plain(NOTIFICATIONS),
            Self::CopyEnd => plain(COPY_END),
            Self::CopyNext => plain(COPY_NEXT),
            Self::CopyCancel => plain(COPY_CANCEL),
        }
        .finish()
    }

    /// From a frame without its length.
    ///
    /// # Errors
    /// 08P01 if it is none.
    pub(super) fn read(frame: &'r [u8]) -> Result<Self> {
        let mut from = Reader(frame);
        let request = match from.u8()? {
            PREPARE => Self::Prepare(from.text()?),
            RUN => Self::Run(from.text()?, take_params(&mut from)?),
            MANY => {
                let sql = from.text()?;
                let count = from.count()?;
                Self::Many(sql, (0..count).map(|_| take_params(&mut from)).collect::<Result<_>>()?)
            }
            MORE => Self::More,
            STOP => Self::Stop,
            BATCH => Self::Batch(from.text()?),
            SETTING => Self::Setting(from.text()?),
            NOTIFICATIONS => Self::Notifications,
            COPY => Self::Copy(from.text()?),
            COPY_DATA => Self::CopyData(from.bytes()?),
            COPY_END => Self::CopyEnd,
            COPY_NEXT => Self::CopyNext,
            COPY_CANCEL => Self::CopyCancel,
            _ => return Err(damaged()),
        };
        if from.0.is_empty() { Ok(request) } else { Err(damaged()) }
    }
}

/// The error of a request that the owner has got, perhaps, and not answered. `is_in_block`: within a
/// transaction block, of which nothing but its end commits.
#[cold]
pub(super) fn lost(frame: &[u8], is_in_block: bool) -> Error {
    let ends_block = || match Request::read(frame.get(4..).unwrap_or_default()) {
        Ok(Request::Run(sql, _)) => !["select", "insert", "update", "delete", "with", "values"]
            .iter()
            .any(|word| sql.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))),
        Ok(Request::Batch(_)) => true,
        _ => false,
    };
    let commits = match frame.get(4) {
        Some(&(RUN | MANY | MORE | BATCH | COPY_END)) => !is_in_block || ends_block(),
        _ => false,
    };
    if !commits {
        return owner_gone();
    }
    Error::new(
        colibri_sql::SqlState::COMMIT_UNKNOWN,
        "the process that had the database open has ended, or closed it, while the statement was running",
    )
    .detail(
        "Whether a commit that was under way has happened is not known. What had not begun to commit is rolled back.",
    )
    .hint("Connect again, and look.")
}

/// The error of everything that is asked of an owner that is gone.
#[cold]
pub(super) fn owner_gone() -> Error {
    Error::new(colibri_sql::SqlState("08006"), "the process that had the database open has ended, or closed it")
        .detail("An open transaction of this connection is rolled back.")
        .hint("Connect again: one of the processes that are left opens the database then.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Interval, Numeric};

    #[test]
    fn what_is_asked_is_read_again_and_nothing_else_is_taken_for_it() {
        let values = || {
            vec![
                Value::Null,
                Value::Bool(true),
                Value::Int(-1),
                Value::Real(0.1),
                Value::Float(0.1),
                Value::Numeric(Numeric::parse("12345678901234567890123456789012345678901234567890.1").unwrap()),
                Value::from("é"),
                Value::Bytes(Cow::Owned(vec![0, 255])),
                Value::Date(Date::from_days(1)),
                Value::Time(Time::from_micros_of_day(2)),
                Value::Timestamp(Timestamp::from_micros(3)),
                Value::TimestampTz(TimestampTz::from_micros(3)),
                Value::Interval(Interval { months: 1, days: 2, micros: 3 }),
                Value::Uuid([7; 16]),
                Value::Array(vec![Value::Array(vec![Value::Int(1)]), Value::Null, Value::from("a")]),
            ]
        };
        for request in [
            Request::Prepare("SELECT 1"),
            Request::Run("SELECT $1", values()),
            Request::Many("INSERT", vec![values(), Vec::new()]),
            Request::More,
            Request::Stop,
            Request::Batch(""),
            Request::Setting("a"),
            Request::Notifications,
            Request::Copy("COPY"),
            Request::CopyData(&[0, 1]),
            Request::CopyEnd,
            Request::CopyNext,
            Request::CopyCancel,
        ] {
            let frame = request.frame().unwrap();
            assert_eq!(u32::from_le_bytes(*frame.first_chunk().unwrap()) as usize, frame.len() - 4);
            assert_eq!(Request::read(&frame[4..]).unwrap(), request);
            for end in 4..frame.len() {
                let error = Request::read(&frame[4..end]).expect_err("it is cut off");
                assert!(["08P01", "XX001"].contains(&error.state().0), "{error}");
            }
        }
    }
}
