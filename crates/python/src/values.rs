//! Values between SQL and Python.
//!
//! | SQL | Python |
//! | --- | --- |
//! | `boolean`, integers, floats, `numeric` | bool, int, float, decimal.Decimal |
//! | `text`, `varchar`, `char`, enums, and every type not listed | str |
//! | `bytea` | bytes |
//! | `date`, `time`, `timestamp` | datetime.date, .time, .datetime without a time zone |
//! | `timestamptz` | datetime.datetime in UTC |
//! | `interval` | datetime.timedelta; a month is 30 days, and a year 365 |
//! | `uuid` | uuid.UUID |
//! | `json`, `jsonb` | what json.loads gives |
//! | arrays, rows | list |

use std::borrow::Cow;

use colibri::sql::{Date, Error, Interval, Numeric, RowBlock, SqlState, Time, Timestamp, TimestampTz, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::failure::exception;

const JSON_OIDS: [u32; 2] = [114, 3802];
const TIMETZ_OID: u32 = 1266;
/// 0001-01-01 is day 1 of Python, and this is 2000-01-01.
const ORDINAL_2000: i64 = 730_120;
const DAY_US: i64 = 86_400_000_000;

/// What values are made with, looked up once.
struct Makers {
    decimal: Py<PyType>,
    date: Py<PyType>,
    time: Py<PyType>,
    datetime: Py<PyType>,
    timedelta: Py<PyType>,
    uuid: Py<PyType>,
    json_loads: Py<PyAny>,
    json_dumps: Py<PyAny>,
    utc: Py<PyAny>,
    date_from_ordinal: Py<PyAny>,
    epoch: Py<PyAny>,
    epoch_utc: Py<PyAny>,
}

static MAKERS: PyOnceLock<Makers> = PyOnceLock::new();

fn makers(py: Python<'_>) -> PyResult<&'static Makers> {
    MAKERS.get_or_try_init(py, || {
        let class = |module: &str, name: &str| -> PyResult<Py<PyType>> {
            Ok(py.import(module)?.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let (json, datetime) = (py.import("json")?, class("datetime", "datetime")?);
        let utc = class("datetime", "timezone")?.bind(py).getattr("utc")?;
        let date = class("datetime", "date")?;
        let epoch = datetime.bind(py).call1((2000, 1, 1))?.unbind();
        let epoch_utc = datetime.bind(py).call1((2000, 1, 1, 0, 0, 0, 0, &utc))?.unbind();
        Ok(Makers {
            decimal: class("decimal", "Decimal")?,
            date_from_ordinal: date.bind(py).getattr("fromordinal")?.unbind(),
            date,
            time: class("datetime", "time")?,
            datetime,
            timedelta: class("datetime", "timedelta")?,
            uuid: class("uuid", "UUID")?,
            json_loads: json.getattr("loads")?.unbind(),
            json_dumps: json.getattr("dumps")?.unbind(),
            utc: utc.unbind(),
            epoch,
            epoch_utc,
        })
    })
}

// ---- from Python ----

fn unfit(value: &Bound<'_, PyAny>) -> PyErr {
    let class = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a value of type {class} is no parameter of a statement"))
}

/// A value of Python as a parameter.
pub(crate) fn to_sql(value: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    // The common classes, exactly; what derives from them comes below.
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Ok(Value::Text(Cow::Owned(text.to_cow()?.into_owned())));
    }
    if let Ok(truth) = value.cast_exact::<PyBool>() {
        return Ok(Value::Bool(truth.is_true()));
    }
    if let Ok(number) = value.cast_exact::<PyInt>() {
        return int_to_sql(number);
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Ok(Value::Bytes(Cow::Owned(bytes.as_bytes().to_vec())));
    }
    other_to_sql(value)
}

fn int_to_sql(number: &Bound<'_, PyInt>) -> PyResult<Value<'static>> {
    match number.extract::<i64>() {
        Ok(number) => Ok(Value::Int(number)),
        Err(_) => numeric(&number.str()?),
    }
}

fn numeric(text: &Bound<'_, PyString>) -> PyResult<Value<'static>> {
    Ok(Value::Numeric(Numeric::parse(&text.to_cow()?).map_err(|error| exception(&error))?))
}

fn other_to_sql(value: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    let py = value.py();
    let makers = makers(py)?;
    let is = |class: &Py<PyType>| value.is_instance(class.bind(py));
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(Value::Array(list.iter().map(|value| to_sql(&value)).collect::<PyResult<_>>()?));
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return Ok(Value::Array(tuple.iter().map(|value| to_sql(&value)).collect::<PyResult<_>>()?));
    }
    if value.is_instance_of::<PyDict>() {
        let text: String = makers.json_dumps.bind(py).call1((value,))?.extract()?;
        return Ok(Value::Text(Cow::Owned(text)));
    }
    if is(&makers.decimal)? {
        return numeric(&value.str()?);
    }
    // A datetime is a date, too.
    if is(&makers.datetime)? {
        return datetime_to_sql(value, makers);
    }
    if is(&makers.date)? {
        let ordinal: i64 = value.call_method0("toordinal")?.extract()?;
        return Ok(Value::Date(Date::from_days((ordinal - ORDINAL_2000) as i32)));
    }
    if is(&makers.time)? {
        if !value.getattr("tzinfo")?.is_none() {
            return Ok(Value::Text(Cow::Owned(value.call_method0("isoformat")?.extract()?)));
        }
        let part = |name: &str| -> PyResult<u32> { value.getattr(name)?.extract() };
        let (hour, minute, second) = (part("hour")? as u8, part("minute")? as u8, part("second")? as u8);
        let time = Time::from_hms_micro(hour, minute, second, part("microsecond")?);
        return time.map(Value::Time).ok_or_else(|| unfit(value));
    }
    if is(&makers.timedelta)? {
        let (days, micros) = parts_of_delta(value)?;
        let days = i32::try_from(days).map_err(|_| unfit(value))?;
        return Ok(Value::Interval(Interval { months: 0, days, micros }));
    }
    if is(&makers.uuid)? {
        let bytes: [u8; 16] = value.getattr("bytes")?.extract()?;
        return Ok(Value::Uuid(bytes));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Value::Bytes(Cow::Owned(bytes.to_vec())));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Value::Bytes(Cow::Owned(bytes.as_bytes().to_vec())));
    }
    if value.hasattr("tobytes")? && value.hasattr("nbytes")? {
        // A memoryview.
        let bytes = value.call_method0("tobytes")?;
        return Ok(Value::Bytes(Cow::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec())));
    }
    if value.hasattr("__colibri__")? {
        // Wrappers of this package, such as Json.
        return to_sql(&value.call_method0("__colibri__")?);
    }
    // Members of enums are what they stand for.
    if value.hasattr("_value_")? {
        return to_sql(&value.getattr("value")?);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::Text(Cow::Owned(text.to_cow()?.into_owned())));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return int_to_sql(number);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    let module: String = value.get_type().getattr("__module__")?.extract()?;
    if module == "ipaddress" {
        return Ok(Value::Text(Cow::Owned(value.str()?.to_cow()?.into_owned())));
    }
    Err(unfit(value))
}

/// Days and microseconds of a timedelta.
fn parts_of_delta(value: &Bound<'_, PyAny>) -> PyResult<(i64, i64)> {
    let part = |name: &str| -> PyResult<i64> { value.getattr(name)?.extract() };
    Ok((part("days")?, part("seconds")? * 1_000_000 + part("microseconds")?))
}

fn datetime_to_sql(value: &Bound<'_, PyAny>, makers: &Makers) -> PyResult<Value<'static>> {
    let py = value.py();
    let has_zone = !value.call_method0("utcoffset")?.is_none();
    let epoch = if has_zone { &makers.epoch_utc } else { &makers.epoch };
    let (days, micros) = parts_of_delta(&value.sub(epoch.bind(py))?)?;
    let micros = days * DAY_US + micros;
    Ok(if has_zone {
        Value::TimestampTz(TimestampTz::from_micros(micros))
    } else {
        Value::Timestamp(Timestamp::from_micros(micros))
    })
}

// ---- to Python ----

fn beyond(what: &str) -> PyErr {
    exception(
        &Error::new(SqlState::DATETIME_OVERFLOW, format!("{what} is beyond what Python's dates reach"))
            .hint("Cast the column to text."),
    )
}

/// A value of a row as one of Python; with `json_is_text` JSON as it is written.
pub(crate) fn from_block<'py>(
    py: Python<'py>,
    block: &RowBlock,
    row: usize,
    column: usize,
    json_is_text: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let value = block.value(row, column).unwrap_or(Value::Null);
    if let Value::Text(text) = &value {
        match block.columns()[column].type_oid() {
            oid if JSON_OIDS.contains(&oid) && !json_is_text => {
                return makers(py)?.json_loads.bind(py).call1((&**text,));
            }
            TIMETZ_OID => return zoned_time(py, text),
            _ => {}
        }
    }
    from_sql(py, value)
}

/// A `timetz` as PostgreSQL writes it, such as `12:30:00.5+02`, as a time with that distance from UTC.
fn zoned_time<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    let (clock, zone) = text.split_at(text.rfind(['+', '-']).unwrap_or(text.len()));
    if clock.starts_with("24") {
        return Err(beyond("the time 24:00"));
    }
    // Older versions of Python read all digits or none.
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let minutes = if zone.len() == 3 { ":00" } else { "" };
    let whole = format!("{clock}.{fraction:0<6}{zone}{minutes}");
    makers(py)?.time.bind(py).call_method1("fromisoformat", (whole,))
}

pub(crate) fn from_sql<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Real(value) => real(value).into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(text) => PyString::new(py, &text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Value::Numeric(value) => {
            let mut text = String::new();
            value.write(&mut text);
            makers(py)?.decimal.bind(py).call1((text,))?
        }
        Value::Date(date) => {
            let ordinal = i64::from(date.days()) + ORDINAL_2000;
            if !date.is_finite() || !(1..=3_652_059).contains(&ordinal) {
                return Err(beyond("the date"));
            }
            makers(py)?.date_from_ordinal.bind(py).call1((ordinal,))?
        }
        Value::Time(time) => {
            let (hour, minute, second, micro) = time.hms_micro();
            if hour == 24 {
                return Err(beyond("the time 24:00"));
            }
            makers(py)?.time.bind(py).call1((hour, minute, second, micro))?
        }
        Value::Timestamp(moment) => datetime(py, moment.micros(), moment.is_finite(), false)?,
        Value::TimestampTz(moment) => datetime(py, moment.micros(), moment.is_finite(), true)?,
        Value::Interval(Interval { months, days, micros }) => {
            let (years, months) = (i64::from(months / 12), i64::from(months % 12));
            let days = i64::from(days) + 365 * years + 30 * months;
            makers(py)?.timedelta.bind(py).call1((days, 0, micros))?
        }
        Value::Uuid(bytes) => {
            let named = PyDict::new(py);
            named.set_item("bytes", PyBytes::new(py, &bytes))?;
            makers(py)?.uuid.bind(py).call((), Some(&named))?
        }
        Value::Array(values) => {
            let values = values.into_iter().map(|value| from_sql(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, values)?.into_any()
        }
        _ => return Err(PyTypeError::new_err("a value of a type that this package does not know")),
    })
}

/// A float of 32 bits as the nearest short one of 64: 0.1 stays 0.1.
fn real(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

fn datetime(py: Python<'_>, micros: i64, is_finite: bool, has_zone: bool) -> PyResult<Bound<'_, PyAny>> {
    let makers = makers(py)?;
    let ordinal = micros.div_euclid(DAY_US) + ORDINAL_2000;
    if !is_finite || !(1..=3_652_059).contains(&ordinal) {
        return Err(beyond("the time"));
    }
    let (year, month, day) =
        Date::from_days((ordinal - ORDINAL_2000) as i32).ymd().ok_or_else(|| beyond("the time"))?;
    let of_day = micros.rem_euclid(DAY_US);
    let (seconds, micro) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let class = makers.datetime.bind(py);
    if has_zone {
        class.call1((year, month, day, hour, minute, second, micro, &makers.utc))
    } else {
        class.call1((year, month, day, hour, minute, second, micro))
    }
}
