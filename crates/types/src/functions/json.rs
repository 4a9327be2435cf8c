//! JSON, as far as clients ask for it: values as JSON, and objects and arrays of them.
//!
//! What a value is as JSON goes by its type: the binder chooses the function of that type, or has a
//! value that is a text in JSON made a text first.

use std::borrow::Cow;

use super::{Function, check_length, document, f, text};
use crate::array::Array;
use crate::cast;
use crate::datetime;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::json_text::write_quoted;
use crate::jsonb::{self, Item, JsonbRef, Node};
use crate::pulse;
use crate::row::Row;
use crate::text_io;
use crate::types::Type::{
    self, AnyArray, Bool, Date, Float4, Float8, Int8, Json, Jsonb, Numeric, Record, Text, Timestamp, TimestampTz,
};
use crate::value::Datum;

/// What writing a value takes at the least, in units of work.
const UNITS_PER_VALUE: usize = 8;

/// A date or a moment in the form of ISO 8601, which JSON's readers expect.
fn iso(ty: Type, value: &Datum, env: &Env) -> String {
    let mut text = String::new();
    match value {
        Datum::Date(date) => datetime::write_date(*date, &mut text),
        Datum::Timestamp(instant) if ty == TimestampTz => datetime::write_timestamptz(*instant, &env.zone, &mut text),
        Datum::Timestamp(local) => datetime::write_timestamp(*local, &mut text),
        _ => text_io::write(ty, value, env, &mut text),
    }
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
pub(crate) fn write_value(ty: Type, value: &Datum, env: &Env, out: &mut String) -> Result<()> {
    pulse::work(UNITS_PER_VALUE)?;
    match (ty, value) {
        (_, Datum::Null) => out.push_str("null"),
        (_, Datum::Bool(value)) => out.push_str(if *value { "true" } else { "false" }),
        (Type::Int2 | Type::Int4 | Int8, _) => text_io::write(ty, value, env, out),
        (Numeric, Datum::Numeric(number)) if number.is_finite() => number.write(out),
        // NaN and the infinities are no numbers in JSON.
        (Float4 | Float8, Datum::Float(number)) if number.is_finite() => text_io::write(ty, value, env, out),
        (Json, Datum::Text(json)) => out.push_str(json),
        (_, Datum::Jsonb(value)) => jsonb::write(JsonbRef::new(value), out)?,
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

pub(super) fn array_of(value: &Datum) -> Result<&Array> {
    match value {
        Datum::Array(array) => Ok(array),
        other => Err(Error::internal(format_args!("an array is {other:?}"))),
    }
}

/// That a key is no scalar.
#[cold]
fn not_scalar() -> Error {
    Error::new(SqlState::BAD_PARAMETER, "key value must be scalar, not array, composite, or json")
}

/// Appends a value that is JSON already as a key.
fn write_key(json: &str, out: &mut String) -> Result<()> {
    if json.starts_with(['[', '{']) {
        return Err(not_scalar());
    }
    if json.starts_with('"') {
        out.push_str(json);
        return Ok(());
    }
    write_quoted(json, out)
}

/// What an object's key is that a value of a type becomes.
pub(crate) fn key_of(ty: Type, value: &Datum, env: &Env) -> Result<String> {
    if matches!(ty, Json | Jsonb) || matches!(value, Datum::Array(_) | Datum::Row(_)) {
        return Err(not_scalar());
    }
    Ok(match (ty, value) {
        (_, Datum::Bool(value)) => value.to_string(),
        (Date | Timestamp | TimestampTz, _) => iso(ty, value, env),
        _ => {
            let mut text = String::new();
            text_io::write(ty, value, env, &mut text);
            text
        }
    })
}

/// `json_build_object`: keys and values in turns, all of them JSON already.
fn object(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut out = String::from("{");
    for (index, pair) in args.chunks(2).enumerate() {
        pulse::work(UNITS_PER_VALUE)?;
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
        pulse::work(UNITS_PER_VALUE)?;
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(if value.is_null() { "null" } else { text(value)? });
        check_length(out.len())?;
    }
    out.push(']');
    Ok(Datum::Text(out.into()))
}

/// `jsonb_build_object`: keys and values in turns, all of them `jsonb` already.
fn binary_object(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut members = Vec::with_capacity(args.len() / 2);
    for (index, pair) in args.chunks(2).enumerate() {
        pulse::work(UNITS_PER_VALUE)?;
        let [key, value] = pair else { return Err(Error::internal("a key without a value")) };
        if key.is_null() {
            let message = format!("argument {}: key must not be null", 2 * index + 1);
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        let key = match document(key)?.node()? {
            Node::String(text) => Cow::Borrowed(text),
            Node::Number(number) => Cow::Owned(number.to_string()),
            Node::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
            Node::Null => Cow::Borrowed("null"),
            Node::Array(_) | Node::Object(_) => return Err(not_scalar()),
        };
        members.push((key, part_or_null(value)?));
    }
    Item::Object(members).datum()
}

/// `jsonb_build_array`: of values that are `jsonb` already.
fn binary_list(args: &[&Datum], _: &Env) -> Result<Datum> {
    Item::Array(args.iter().map(|value| part_or_null(value)).collect::<Result<_>>()?).datum()
}

fn part_or_null(value: &Datum) -> Result<Item<'_>> {
    pulse::work(UNITS_PER_VALUE)?;
    if value.is_null() { Ok(Item::Null) } else { Ok(Item::Part(document(value)?)) }
}

/// A value of a type as a part of `jsonb`.
pub(crate) fn item(ty: Type, value: &Datum, env: &Env) -> Result<Item<'static>> {
    pulse::work(UNITS_PER_VALUE)?;
    let written = |value: &Datum| {
        let mut text = String::new();
        text_io::write(ty, value, env, &mut text);
        text
    };
    Ok(match (ty, value) {
        (_, Datum::Null) => Item::Null,
        (_, Datum::Bool(value)) => Item::Bool(*value),
        (Type::Int2 | Type::Int4 | Int8, Datum::Int(value)) => Item::Number((*value).into()),
        (_, Datum::Numeric(value)) if value.is_finite() => Item::Number(value.clone()),
        (_, Datum::Numeric(value)) => Item::String(value.to_string().into()),
        (Float4 | Float8, Datum::Float(number)) if number.is_finite() => {
            Item::Number(crate::numeric::Numeric::parse(&written(value))?)
        }
        (Json, Datum::Text(json)) => jsonb::parse(json)?,
        (_, Datum::Jsonb(_)) => jsonb::parse(&written(value))?,
        (Date | Timestamp | TimestampTz, _) => Item::String(iso(ty, value, env).into()),
        (_, Datum::Array(array)) => {
            let lengths: Vec<usize> = array.dimensions().iter().map(|dimension| dimension.length).collect();
            items_of(array.element(), array.values(), &lengths, env)?
        }
        (_, Datum::Row(row)) => {
            let member = |(name, ty, value): (&str, crate::types::ColumnType, &Datum)| {
                let padded = (ty.ty == Type::Char).then(|| cast::pad_char(value, ty.modifier));
                let item = item(ty.ty, padded.as_ref().unwrap_or(value), env)?;
                Ok((Cow::Owned(name.to_owned()), item))
            };
            Item::Object(row.fields().map(member).collect::<Result<_>>()?)
        }
        _ => Item::String(written(value).into()),
    })
}

fn items_of(element: Type, values: &[Datum], lengths: &[usize], env: &Env) -> Result<Item<'static>> {
    Ok(Item::Array(match lengths {
        [] => Vec::new(),
        [_] => values.iter().map(|value| item(element, value, env)).collect::<Result<_>>()?,
        [first, inner @ ..] => values
            .chunks(values.len() / first.max(&1))
            .map(|part| items_of(element, part, inner, env))
            .collect::<Result<_>>()?,
    }))
}

fn binary_of_type(ty: Type, args: &[&Datum], env: &Env) -> Result<Datum> {
    match args[0] {
        Datum::Jsonb(_) => Ok(args[0].clone()),
        value => item(ty, value, env)?.datum(),
    }
}

/// The keys and values that an array of both has: in turns, or as pairs.
fn pairs(name: &str, array: &Array) -> Result<Vec<(String, Option<String>)>> {
    let wrong = |message: &str| Err(Error::new(SqlState("2202E"), message));
    match array.dimensions() {
        [] => {}
        [only] if only.length % 2 == 1 => return wrong("array must have even number of elements"),
        [_] => {}
        [_, two] if two.length == 2 => {}
        [_, _] => return wrong("array must have two columns"),
        _ => return wrong("wrong number of array subscripts"),
    }
    let values = array.values();
    values
        .chunks(2)
        .map(|pair| match pair {
            [Datum::Null, _] => Err(null_key()),
            [key, value] => Ok((text(key)?.to_owned(), optional(value)?)),
            _ => Err(Error::internal(format_args!("a pair of {name}"))),
        })
        .collect()
}

#[cold]
fn null_key() -> Error {
    Error::new(SqlState::NULL_NOT_ALLOWED, "null value not allowed for object key")
}

fn optional(value: &Datum) -> Result<Option<String>> {
    if value.is_null() { Ok(None) } else { Ok(Some(text(value)?.to_owned())) }
}

/// The same of two arrays.
fn zipped(keys: &Array, values: &Array) -> Result<Vec<(String, Option<String>)>> {
    if keys.dimensions().len() > 1 || values.dimensions().len() > 1 {
        return Err(Error::new(SqlState("2202E"), "wrong number of array subscripts"));
    }
    if keys.values().len() != values.values().len() {
        return Err(Error::new(SqlState("2202E"), "mismatched array dimensions"));
    }
    let pair = |(key, value): (&Datum, &Datum)| {
        if key.is_null() { Err(null_key()) } else { Ok((text(key)?.to_owned(), optional(value)?)) }
    };
    keys.values().iter().zip(values.values()).map(pair).collect()
}

fn pairs_of(args: &[&Datum]) -> Result<Vec<(String, Option<String>)>> {
    match args {
        [keys, values] => zipped(array_of(keys)?, array_of(values)?),
        _ => pairs("json_object", array_of(args[0])?),
    }
}

/// `json_object(text[])`, `json_object(keys, values)`
fn object_of_texts(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut out = String::from("{");
    for (index, (key, value)) in pairs_of(args)?.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        write_quoted(key, &mut out)?;
        out.push_str(" : ");
        match value {
            Some(value) => write_quoted(value, &mut out)?,
            None => out.push_str("null"),
        }
        check_length(out.len())?;
    }
    out.push('}');
    Ok(Datum::Text(out.into()))
}

/// The same as `jsonb`.
fn binary_object_of_texts(args: &[&Datum], _: &Env) -> Result<Datum> {
    let item = |value: Option<String>| value.map_or(Item::Null, |value| Item::String(value.into()));
    let members = pairs_of(args)?.into_iter().map(|(key, value)| (key.into(), item(value)));
    Item::Object(members.collect()).datum()
}

/// The values of an array, as the arguments that a function of any number of them would have.
fn arguments_of(args: &[&Datum], of_json: bool, env: &Env) -> Result<Vec<Datum>> {
    let array = array_of(args[0])?;
    let value = |value: &Datum| match (value, of_json) {
        (Datum::Null, _) => Ok(Datum::Null),
        (value, true) => of_type(array.element(), &[value], env),
        (value, false) => binary_of_type(array.element(), &[value], env),
    };
    array.values().iter().map(value).collect()
}

fn of_array(args: &[&Datum], is_object: bool, of_json: bool, env: &Env) -> Result<Datum> {
    let values = arguments_of(args, of_json, env)?;
    let values: Vec<&Datum> = values.iter().collect();
    if is_object && values.len() % 2 == 1 {
        let name = if of_json { "json_build_object" } else { "jsonb_build_object" };
        return Err(Error::new(SqlState::BAD_PARAMETER, "argument list must have even number of elements")
            .hint(format!("The arguments of {name}() must consist of alternating keys and values.")));
    }
    match (is_object, of_json) {
        (true, true) => object(&values, env),
        (true, false) => binary_object(&values, env),
        (false, true) => list(&values, env),
        (false, false) => binary_list(&values, env),
    }
}

const TEXTS: Type = Text.array_of();

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
    f("to_json", &[Jsonb], Json, |a, env| of_type(Jsonb, a, env)),
    f("to_json", &[AnyArray], Json, array_to_json).stable(),
    f("to_json", &[Record], Json, row_to_json).stable(),
    f("to_jsonb", &[Text], Jsonb, |a, env| binary_of_type(Text, a, env)),
    f("to_jsonb", &[Bool], Jsonb, |a, env| binary_of_type(Bool, a, env)),
    f("to_jsonb", &[Int8], Jsonb, |a, env| binary_of_type(Int8, a, env)),
    f("to_jsonb", &[Float4], Jsonb, |a, env| binary_of_type(Float4, a, env)),
    f("to_jsonb", &[Float8], Jsonb, |a, env| binary_of_type(Float8, a, env)),
    f("to_jsonb", &[Numeric], Jsonb, |a, env| binary_of_type(Numeric, a, env)),
    f("to_jsonb", &[Date], Jsonb, |a, env| binary_of_type(Date, a, env)),
    f("to_jsonb", &[Timestamp], Jsonb, |a, env| binary_of_type(Timestamp, a, env)),
    f("to_jsonb", &[TimestampTz], Jsonb, |a, env| binary_of_type(TimestampTz, a, env)).stable(),
    f("to_jsonb", &[Json], Jsonb, |a, env| binary_of_type(Json, a, env)),
    f("to_jsonb", &[AnyArray], Jsonb, |a, env| binary_of_type(AnyArray, a, env)).stable(),
    f("to_jsonb", &[Record], Jsonb, |a, env| binary_of_type(Record, a, env)).stable(),
    f("row_to_json", &[Record], Json, row_to_json).stable(),
    f("row_to_json", &[Record, Bool], Json, row_to_json).stable(),
    f("array_to_json", &[AnyArray], Json, array_to_json).stable(),
    f("array_to_json", &[AnyArray, Bool], Json, array_to_json).stable(),
    f("json_build_object", &[Json], Json, object).variadic().called_on_null().stable(),
    f("json_build_array", &[Json], Json, list).variadic().called_on_null().stable(),
    f("jsonb_build_object", &[Jsonb], Jsonb, binary_object).variadic().called_on_null().stable(),
    f("jsonb_build_array", &[Jsonb], Jsonb, binary_list).variadic().called_on_null().stable(),
    f(".json_build_object", &[AnyArray], Json, |a, env| of_array(a, true, true, env)).stable(),
    f(".json_build_array", &[AnyArray], Json, |a, env| of_array(a, false, true, env)).stable(),
    f(".jsonb_build_object", &[AnyArray], Jsonb, |a, env| of_array(a, true, false, env)).stable(),
    f(".jsonb_build_array", &[AnyArray], Jsonb, |a, env| of_array(a, false, false, env)).stable(),
    f("json_object", &[TEXTS], Json, object_of_texts),
    f("json_object", &[TEXTS, TEXTS], Json, object_of_texts),
    f("jsonb_object", &[TEXTS], Jsonb, binary_object_of_texts),
    f("jsonb_object", &[TEXTS, TEXTS], Jsonb, binary_object_of_texts),
];
