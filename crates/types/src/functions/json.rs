//! JSON, as far as clients ask for it: values as JSON, and objects and arrays of them.
//!
//! What a value is as JSON goes by its type: the binder chooses the function of that type, or has a
//! value that is a text in JSON made a text first.

use super::{Function, check_length, f, text};
use crate::array::Array;
use crate::cast;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::row::Row;
use crate::text_io;
use crate::types::Type::{
    self, AnyArray, Bool, Date, Float4, Float8, Int8, Json, Numeric, Record, Text, Timestamp, TimestampTz,
};
use crate::value::Datum;

/// What writing a value takes at the least, in units of work.
const UNITS_PER_VALUE: usize = 8;

fn write_quoted(text: &str, out: &mut String) -> Result<()> {
    out.push('"');
    for piece in pieces::of_text(text, Pace::Computed) {
        let quoted = serde_json::to_string(piece?).map_err(Error::internal)?;
        out.push_str(&quoted[1..quoted.len() - 1]);
    }
    out.push('"');
    Ok(())
}

/// A date or a moment in the form of ISO 8601, which JSON's readers expect.
fn iso(ty: Type, value: &Datum, env: &Env) -> String {
    let mut text = String::new();
    text_io::write(ty, value, env, &mut text);
    let era = if text.ends_with(" BC") { text.split_off(text.len() - 3) } else { String::new() };
    if let Some(blank) = text.find(' ') {
        text.replace_range(blank..=blank, "T");
        // A zone has minutes, too.
        let zone = text.rfind(['+', '-']).filter(|&at| at > blank && ty == TimestampTz);
        if zone.is_some_and(|at| text.len() - at == "+00".len()) {
            text.push_str(":00");
        }
    }
    text + &era
}

/// Appends a value of a type.
fn write_value(ty: Type, value: &Datum, env: &Env, out: &mut String) -> Result<()> {
    pulse::work(UNITS_PER_VALUE)?;
    match (ty, value) {
        (_, Datum::Null) => out.push_str("null"),
        (_, Datum::Bool(value)) => out.push_str(if *value { "true" } else { "false" }),
        (Type::Int2 | Type::Int4 | Int8 | Numeric, _) => text_io::write(ty, value, env, out),
        // NaN and the infinities are no numbers in JSON.
        (Float4 | Float8, Datum::Float(number)) if number.is_finite() => text_io::write(ty, value, env, out),
        (Json, Datum::Text(json)) => out.push_str(json),
        (Date | Timestamp | TimestampTz, _) => write_quoted(&iso(ty, value, env), out)?,
        (_, Datum::Array(array)) => write_array(array, "", env, out)?,
        (_, Datum::Row(row)) => write_row(row, "", env, out)?,
        (_, Datum::Text(text)) => write_quoted(text, out)?,
        _ => {
            let mut text = String::new();
            text_io::write(ty, value, env, &mut text);
            write_quoted(&text, out)?;
        }
    }
    check_length(out.len())
}

/// Appends an array, one dimension within the other. `between` stands behind the outermost commas.
fn write_array(array: &Array, between: &str, env: &Env, out: &mut String) -> Result<()> {
    let lengths: Vec<usize> = array.dimensions().iter().map(|dimension| dimension.length).collect();
    if lengths.is_empty() {
        out.push_str("[]");
        return Ok(());
    }
    // How many values an array of each dimension has.
    let sizes: Vec<usize> = (0..lengths.len()).map(|at| lengths[at..].iter().product()).collect();
    let outermost = sizes.get(1).copied().unwrap_or(1);
    for (at, value) in array.values().iter().enumerate() {
        let opened = sizes.iter().filter(|&&size| at % size == 0).count();
        if at > 0 {
            out.push(',');
            out.push_str(if at % outermost == 0 { between } else { "" });
        }
        out.extend(std::iter::repeat_n('[', opened));
        write_value(array.element(), value, env, out)?;
        let closed = sizes.iter().filter(|&&size| (at + 1) % size == 0).count();
        out.extend(std::iter::repeat_n(']', closed));
    }
    Ok(())
}

/// Appends a row as an object. `between` stands behind the commas.
fn write_row(row: &Row, between: &str, env: &Env, out: &mut String) -> Result<()> {
    out.push('{');
    for (index, (name, ty, value)) in row.fields().enumerate() {
        if index > 0 {
            out.push(',');
            out.push_str(between);
        }
        write_quoted(name, out)?;
        out.push(':');
        match ty.ty {
            Type::Char => write_value(ty.ty, &cast::pad_char(value, ty.modifier), env, out)?,
            _ => write_value(ty.ty, value, env, out)?,
        }
    }
    out.push('}');
    Ok(())
}

/// `row_to_json(row [, pretty])`
fn row_to_json(args: &[&Datum], env: &Env) -> Result<Datum> {
    let between = if matches!(args.get(1), Some(Datum::Bool(true))) { "\n " } else { "" };
    let Datum::Row(row) = args[0] else {
        return Err(Error::internal(format_args!("a row is {:?}", args[0])));
    };
    let mut out = String::new();
    write_row(row, between, env, &mut out)?;
    Ok(Datum::Text(out.into()))
}

fn of_type(ty: Type, args: &[&Datum], env: &Env) -> Result<Datum> {
    let mut out = String::new();
    write_value(ty, args[0], env, &mut out)?;
    Ok(Datum::Text(out.into()))
}

/// `array_to_json(array [, pretty])`
fn array_to_json(args: &[&Datum], env: &Env) -> Result<Datum> {
    let between = if matches!(args.get(1), Some(Datum::Bool(true))) { "\n " } else { "" };
    let mut out = String::new();
    write_array(array_of(args[0])?, between, env, &mut out)?;
    Ok(Datum::Text(out.into()))
}

fn array_of(value: &Datum) -> Result<&Array> {
    match value {
        Datum::Array(array) => Ok(array),
        other => Err(Error::internal(format_args!("an array is {other:?}"))),
    }
}

/// Appends a value that is JSON already as a key.
fn write_key(json: &str, out: &mut String) -> Result<()> {
    if json.starts_with(['[', '{']) {
        let message = "key value must be scalar, not array, composite, or json";
        return Err(Error::new(SqlState::BAD_PARAMETER, message));
    }
    if json.starts_with('"') {
        out.push_str(json);
        return Ok(());
    }
    write_quoted(json, out)
}

/// `json_build_object`: keys and values in turns, all of them JSON already.
fn object(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut out = String::from("{");
    for (index, pair) in args.chunks(2).enumerate() {
        let [key, value] = pair else { return Err(Error::internal("a key without a value")) };
        if index > 0 {
            out.push_str(", ");
        }
        if key.is_null() {
            let message = format!("argument {} cannot be null", 2 * index + 1);
            return Err(Error::new(SqlState::BAD_PARAMETER, message).hint("Object keys should be text."));
        }
        write_key(text(key)?, &mut out)?;
        out.push_str(" : ");
        out.push_str(if value.is_null() { "null" } else { text(value)? });
        check_length(out.len())?;
    }
    out.push('}');
    Ok(Datum::Text(out.into()))
}

/// `json_build_array`: of values that are JSON already.
fn list(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut out = String::from("[");
    for (index, value) in args.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(if value.is_null() { "null" } else { text(value)? });
        check_length(out.len())?;
    }
    out.push(']');
    Ok(Datum::Text(out.into()))
}

/// `json_agg`: of the values that the rows of a group have given.
fn list_of_rows(args: &[&Datum], env: &Env) -> Result<Datum> {
    let values = array_of(args[0])?;
    let mut out = String::from("[");
    for (index, value) in values.values().iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
            // Rows and arrays begin lines of their own.
            out.push_str(if matches!(value, Datum::Row(_) | Datum::Array(_)) { "\n " } else { "" });
        }
        write_value(values.element(), value, env, &mut out)?;
    }
    out.push(']');
    Ok(Datum::Text(out.into()))
}

/// `json_object_agg`: of the keys and values that the rows of a group have given.
fn object_of_rows(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (keys, values) = (array_of(args[0])?, array_of(args[1])?);
    let mut out = String::from("{ ");
    let mut json = String::new();
    for (index, (key, value)) in keys.values().iter().zip(values.values()).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if key.is_null() {
            return Err(Error::new(SqlState::BAD_PARAMETER, "field name must not be null"));
        }
        json.clear();
        write_value(keys.element(), key, env, &mut json)?;
        write_key(&json, &mut out)?;
        out.push_str(" : ");
        write_value(values.element(), value, env, &mut out)?;
    }
    out.push_str(" }");
    Ok(Datum::Text(out.into()))
}

/// The functions that the binder makes the aggregates `json_agg` and `json_object_agg` of: they
/// take arrays.
pub const LIST_OF_ROWS: &str = ".json_agg";
/// See [`LIST_OF_ROWS`].
pub const OBJECT_OF_ROWS: &str = ".json_object_agg";

pub(super) const TABLE: &[Function] = &[
    f("to_json", &[Text], Json, |a, env| of_type(Text, a, env)),
    f("to_json", &[Bool], Json, |a, env| of_type(Bool, a, env)),
    f("to_json", &[Int8], Json, |a, env| of_type(Int8, a, env)),
    f("to_json", &[Float4], Json, |a, env| of_type(Float4, a, env)),
    f("to_json", &[Float8], Json, |a, env| of_type(Float8, a, env)),
    f("to_json", &[Numeric], Json, |a, env| of_type(Numeric, a, env)),
    f("to_json", &[Date], Json, |a, env| of_type(Date, a, env)),
    f("to_json", &[Timestamp], Json, |a, env| of_type(Timestamp, a, env)),
    f("to_json", &[TimestampTz], Json, |a, env| of_type(TimestampTz, a, env)).stable(),
    f("to_json", &[AnyArray], Json, array_to_json).stable(),
    f("to_json", &[Record], Json, row_to_json).stable(),
    f("row_to_json", &[Record], Json, row_to_json).stable(),
    f("row_to_json", &[Record, Bool], Json, row_to_json).stable(),
    f("array_to_json", &[AnyArray], Json, array_to_json).stable(),
    f("array_to_json", &[AnyArray, Bool], Json, array_to_json).stable(),
    f("json_build_object", &[Json], Json, object).variadic().called_on_null(),
    f("json_build_array", &[Json], Json, list).variadic().called_on_null(),
    f(LIST_OF_ROWS, &[AnyArray], Json, list_of_rows).stable(),
    f(OBJECT_OF_ROWS, &[AnyArray, AnyArray], Json, object_of_rows).stable(),
];
