//! The functions of C for values: parameters, and columns of the current row.
#![allow(unsafe_code, reason = "names that programs of C link to")]

use std::borrow::Cow;
use std::ffi::{c_char, c_int};

use embedded::sql::{Date, Error, FromSql, Interval, SqlState, Time, Timestamp, TimestampTz, Value};

use super::statement::{STATEMENTS, Stmt};
use crate::fault::{self, Fault, OK, Result};
use crate::handles::Handle;
use crate::pointers::{bytes, give, give_if_wanted, guard, text, wanted};

/// `colibri_interval`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ColibriInterval {
    months: i32,
    days: i32,
    micros: i64,
}

/// From 1970-01-01, where C counts from, to 2000-01-01, where PostgreSQL does.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

fn beyond() -> Fault {
    Error::new(SqlState::DATETIME_OVERFLOW, "the date is out of range").into()
}

/// Days as the library counts them; the ends of the range are the infinities.
fn days_from_c(days: i32) -> Result<i32> {
    match days {
        i32::MIN | i32::MAX => Ok(days),
        _ => days.checked_sub(EPOCH_DAYS).filter(|days| *days != i32::MIN).ok_or_else(beyond),
    }
}

fn days_to_c(days: i32) -> Result<i32> {
    match days {
        i32::MIN | i32::MAX => Ok(days),
        _ => days.checked_add(EPOCH_DAYS).filter(|days| *days != i32::MAX).ok_or_else(beyond),
    }
}

fn micros_from_c(micros: i64) -> Result<i64> {
    match micros {
        i64::MIN | i64::MAX => Ok(micros),
        _ => micros.checked_sub(EPOCH_US).filter(|micros| *micros != i64::MIN).ok_or_else(beyond),
    }
}

fn micros_to_c(micros: i64) -> Result<i64> {
    match micros {
        i64::MIN | i64::MAX => Ok(micros),
        _ => micros.checked_add(EPOCH_US).filter(|micros| *micros != i64::MAX).ok_or_else(beyond),
    }
}

fn bind(statement: *mut Stmt, number: u32, value: impl FnOnce() -> Result<Value<'static>>) -> c_int {
    guard(|| {
        let value = value()?;
        STATEMENTS.with(Handle::of(statement), |statement| statement.bind(number, value))?;
        Ok(OK)
    })
}

/// Reads a column as a type of the library's, and hands it over as one of C.
fn get<T: for<'a> FromSql<'a>, C: Default>(
    statement: *mut Stmt,
    column: u32,
    out: *mut C,
    to_c: impl FnOnce(T) -> Result<C>,
) -> c_int {
    guard(|| {
        wanted(out)?;
        match STATEMENTS.with(Handle::of(statement), |statement| statement.get::<T>(column))? {
            None => {
                give(out, C::default())?;
                Ok(fault::IS_NULL)
            }
            Some(value) => {
                give(out, to_c(value)?)?;
                Ok(OK)
            }
        }
    })
}

// ---- parameters ----

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_null(statement: *mut Stmt, number: u32) -> c_int {
    bind(statement, number, || Ok(Value::Null))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_clear_bindings(statement: *mut Stmt) -> c_int {
    guard(|| {
        STATEMENTS.with(Handle::of(statement), |statement| {
            statement.clear_bindings();
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_bool(statement: *mut Stmt, number: u32, value: bool) -> c_int {
    bind(statement, number, || Ok(Value::Bool(value)))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_int16(statement: *mut Stmt, number: u32, value: i16) -> c_int {
    bind(statement, number, || Ok(Value::Int(value.into())))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_int32(statement: *mut Stmt, number: u32, value: i32) -> c_int {
    bind(statement, number, || Ok(Value::Int(value.into())))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_int64(statement: *mut Stmt, number: u32, value: i64) -> c_int {
    bind(statement, number, || Ok(Value::Int(value)))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_float(statement: *mut Stmt, number: u32, value: f32) -> c_int {
    bind(statement, number, || Ok(Value::Real(value)))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_double(statement: *mut Stmt, number: u32, value: f64) -> c_int {
    bind(statement, number, || Ok(Value::Float(value)))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_text(statement: *mut Stmt, number: u32, value: *const c_char, length: usize) -> c_int {
    bind(statement, number, || Ok(Value::Text(Cow::Owned(text(value, length)?.to_owned()))))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_bytes(statement: *mut Stmt, number: u32, value: *const u8, length: usize) -> c_int {
    bind(statement, number, || Ok(Value::Bytes(Cow::Owned(bytes(value, length)?.to_vec()))))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_date(statement: *mut Stmt, number: u32, days: i32) -> c_int {
    bind(statement, number, || Ok(Value::Date(Date::from_days(days_from_c(days)?))))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_time(statement: *mut Stmt, number: u32, micros: i64) -> c_int {
    bind(statement, number, || {
        let time = Time::from_micros(micros).ok_or_else(beyond)?;
        Ok(Value::Time(time))
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_timestamp(statement: *mut Stmt, number: u32, micros: i64) -> c_int {
    bind(statement, number, || Ok(Value::Timestamp(Timestamp::from_micros(micros_from_c(micros)?))))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_timestamptz(statement: *mut Stmt, number: u32, micros: i64) -> c_int {
    bind(statement, number, || Ok(Value::TimestampTz(TimestampTz::from_micros(micros_from_c(micros)?))))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_interval(statement: *mut Stmt, number: u32, value: ColibriInterval) -> c_int {
    let ColibriInterval { months, days, micros } = value;
    bind(statement, number, || Ok(Value::Interval(Interval { months, days, micros })))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_bind_uuid(statement: *mut Stmt, number: u32, value: *const u8) -> c_int {
    bind(statement, number, || {
        let uuid = bytes(value, 16)?.try_into().map_err(|_| Fault::Misuse("a UUID has 16 bytes"))?;
        Ok(Value::Uuid(uuid))
    })
}

// ---- columns of the current row ----

#[unsafe(no_mangle)]
extern "C" fn colibri_is_null(statement: *mut Stmt, column: u32, is_null: *mut bool) -> c_int {
    guard(|| {
        let found =
            STATEMENTS.with(Handle::of(statement), |statement| Ok(matches!(statement.value(column)?, Value::Null)))?;
        give(is_null, found)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_bool(statement: *mut Stmt, column: u32, value: *mut bool) -> c_int {
    get(statement, column, value, |found: bool| Ok(found))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_int16(statement: *mut Stmt, column: u32, value: *mut i16) -> c_int {
    get(statement, column, value, |found: i16| Ok(found))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_int32(statement: *mut Stmt, column: u32, value: *mut i32) -> c_int {
    get(statement, column, value, |found: i32| Ok(found))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_int64(statement: *mut Stmt, column: u32, value: *mut i64) -> c_int {
    get(statement, column, value, |found: i64| Ok(found))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_float(statement: *mut Stmt, column: u32, value: *mut f32) -> c_int {
    get(statement, column, value, |found: f32| Ok(found))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_double(statement: *mut Stmt, column: u32, value: *mut f64) -> c_int {
    get(statement, column, value, |found: f64| Ok(found))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_text(
    statement: *mut Stmt,
    column: u32,
    value: *mut *const c_char,
    length: *mut usize,
) -> c_int {
    guard(|| {
        wanted(value)?;
        STATEMENTS.with(Handle::of(statement), |statement| {
            let found = statement.text(column)?;
            give(value, found.map_or(std::ptr::null(), |text| text.as_ptr().cast()))?;
            give_if_wanted(length, found.map_or(0, |text| text.len() - 1));
            Ok(if found.is_some() { OK } else { fault::IS_NULL })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_bytes(statement: *mut Stmt, column: u32, value: *mut *const u8, length: *mut usize) -> c_int {
    guard(|| {
        wanted(value)?;
        wanted(length)?;
        STATEMENTS.with(Handle::of(statement), |statement| {
            let found: Option<&[u8]> = statement.get(column)?;
            give(value, found.map_or(std::ptr::null(), <[u8]>::as_ptr))?;
            give(length, found.map_or(0, <[u8]>::len))?;
            Ok(if found.is_some() { OK } else { fault::IS_NULL })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_date(statement: *mut Stmt, column: u32, days: *mut i32) -> c_int {
    get(statement, column, days, |found: Date| days_to_c(found.days()))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_time(statement: *mut Stmt, column: u32, micros: *mut i64) -> c_int {
    get(statement, column, micros, |found: Time| Ok(found.micros_of_day()))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_timestamp(statement: *mut Stmt, column: u32, micros: *mut i64) -> c_int {
    get(statement, column, micros, |found: Timestamp| micros_to_c(found.micros()))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_timestamptz(statement: *mut Stmt, column: u32, micros: *mut i64) -> c_int {
    get(statement, column, micros, |found: TimestampTz| micros_to_c(found.micros()))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_interval(statement: *mut Stmt, column: u32, value: *mut ColibriInterval) -> c_int {
    get(statement, column, value, |found: Interval| {
        Ok(ColibriInterval { months: found.months, days: found.days, micros: found.micros })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_get_uuid(statement: *mut Stmt, column: u32, value: *mut [u8; 16]) -> c_int {
    get(statement, column, value, |found: [u8; 16]| Ok(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_microseconds_count_from_1970_and_keep_the_infinities() {
        assert_eq!(days_to_c(0).unwrap(), 10_957);
        assert_eq!(days_from_c(0).unwrap(), -10_957);
        assert_eq!(micros_to_c(0).unwrap(), 946_684_800_000_000);
        for days in [i32::MIN, -1, 0, 1, i32::MAX] {
            assert_eq!(days_from_c(days_to_c(days).unwrap()).unwrap(), days);
        }
        for micros in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert_eq!(micros_from_c(micros_to_c(micros).unwrap()).unwrap(), micros);
        }
        // The last decades that PostgreSQL knows are none of C's.
        assert!(micros_to_c(i64::MAX - 1).is_err() && days_to_c(i32::MAX - 1).is_err());
    }
}
