//! Parts of JSON, and what it contains: `->`, `#>`, `@>`, `?` and their functions.
//!
//! A part of `jsonb` is found in its bytes and copied; nothing else is read. A part of `json` is
//! found by going through the text, and is given as it is written there.

use std::sync::Arc;

use super::json::array_of;
use super::{Function, document, f, int, text};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::json_text::{self, Kind};
use crate::jsonb::{self, JsonbRef, Node};
use crate::pulse;
use crate::types::Type::{self, Bool, Int4, Json, Jsonb, Text};
use crate::value::Datum;

const TEXTS: Type = Text.array_of();

/// A part of `jsonb` as a value.
pub(super) fn part(part: Option<JsonbRef<'_>>) -> Result<Datum> {
    let Some(part) = part else { return Ok(Datum::Null) };
    pulse::work(part.bytes().len() / 64)?;
    Ok(Datum::Jsonb(Arc::from(part.bytes())))
}

/// A part of `jsonb` as `->>` gives it.
pub(super) fn part_text(part: Option<JsonbRef<'_>>) -> Result<Datum> {
    let Some(part) = part else { return Ok(Datum::Null) };
    Ok(match part.node()? {
        Node::Null => Datum::Null,
        Node::String(text) => crate::copies::copy(text)?,
        _ => {
            let mut text = String::new();
            jsonb::write(part, &mut text)?;
            Datum::Text(text.into())
        }
    })
}

fn raw(part: Option<&str>) -> Result<Datum> {
    part.map_or(Ok(Datum::Null), crate::copies::copy)
}

pub(super) fn raw_text(part: Option<&str>) -> Result<Datum> {
    let Some(part) = part else { return Ok(Datum::Null) };
    json_text::text_of(part)?.map_or(Ok(Datum::Null), |text| crate::copies::copy(&text))
}

fn field<'a>(value: &'a Datum, key: &Datum) -> Result<Option<JsonbRef<'a>>> {
    Ok(match document(value)?.node()? {
        Node::Object(map) => map.get(text(key)?),
        _ => None,
    })
}

fn element<'a>(value: &'a Datum, at: &Datum) -> Result<Option<JsonbRef<'a>>> {
    let document = document(value)?;
    let at = int(at)?;
    Ok(match document.node()? {
        Node::Array(list) => list.at(at),
        Node::Object(_) => None,
        // As in PostgreSQL, what is no part of anything is an array of itself.
        _ => matches!(at, 0 | -1).then_some(document),
    })
}

fn raw_element(json: &str, at: i64) -> Result<Option<&str>> {
    let list = json_text::elements(json, true)?;
    let at = if at < 0 { at + list.len() as i64 } else { at };
    Ok(usize::try_from(at).ok().and_then(|at| list.get(at).copied()))
}

/// The place that a step of a path names.
pub(super) fn place(step: &str) -> Option<i64> {
    let digits = crate::letters::trim_start(step);
    let number: i64 = digits.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(digits).parse().ok()?;
    i32::try_from(number).ok().map(i64::from)
}

/// The steps of a path; `None` if one of them is NULL.
fn steps(path: &Datum) -> Result<Option<Vec<&str>>> {
    let values = array_of(path)?.values();
    if values.iter().any(Datum::is_null) {
        return Ok(None);
    }
    values.iter().map(text).collect::<Result<_>>().map(Some)
}

fn descend<'a>(value: &'a Datum, path: &[&str]) -> Result<Option<JsonbRef<'a>>> {
    let mut at = document(value)?;
    for step in path {
        let inner = match at.node()? {
            Node::Object(map) => map.get(step),
            Node::Array(list) => place(step).and_then(|place| list.at(place)),
            _ => None,
        };
        let Some(inner) = inner else { return Ok(None) };
        at = inner;
    }
    Ok(Some(at))
}

fn raw_descend<'a>(json: &'a str, path: &[&str]) -> Result<Option<&'a str>> {
    let mut at = json_text::trimmed(json);
    for step in path {
        let inner = match json_text::kind(at) {
            Kind::Object => json_text::member(at, step)?,
            Kind::Array => match place(step) {
                Some(place) => raw_element(at, place)?,
                None => None,
            },
            _ => None,
        };
        let Some(inner) = inner else { return Ok(None) };
        at = inner;
    }
    Ok(Some(at))
}

fn raw_field(args: &[&Datum]) -> Result<Option<String>> {
    Ok(json_text::member(text(args[0])?, text(args[1])?)?.map(str::to_owned))
}

/// Calls with the steps of a path, unless one of them is NULL.
fn along(args: &[&Datum], find: impl Fn(&Datum, &[&str]) -> Result<Datum>) -> Result<Datum> {
    steps(args[1])?.map_or(Ok(Datum::Null), |steps| find(args[0], &steps))
}

/// The same of a path whose steps are arguments.
fn along_all(args: &[&Datum], find: impl Fn(&Datum, &[&str]) -> Result<Datum>) -> Result<Datum> {
    let steps: Vec<&str> = args[1..].iter().map(|step| text(step)).collect::<Result<_>>()?;
    find(args[0], &steps)
}

fn json_path(value: &Datum, path: &[&str]) -> Result<Datum> {
    raw(raw_descend(text(value)?, path)?)
}

fn json_path_text(value: &Datum, path: &[&str]) -> Result<Datum> {
    raw_text(raw_descend(text(value)?, path)?)
}

fn jsonb_path(value: &Datum, path: &[&str]) -> Result<Datum> {
    part(descend(value, path)?)
}

fn jsonb_path_text(value: &Datum, path: &[&str]) -> Result<Datum> {
    part_text(descend(value, path)?)
}

/// A subscript of `jsonb`: steps that are texts.
fn subscript(args: &[&Datum], _: &Env) -> Result<Datum> {
    along_all(args, jsonb_path)
}

fn json_typeof(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::text(match json_text::kind(text(args[0])?) {
        Kind::Null => "null",
        Kind::Bool => "boolean",
        Kind::Number => "number",
        Kind::String => "string",
        Kind::Array => "array",
        Kind::Object => "object",
    }))
}

fn no_length(is_object: bool) -> Error {
    let what = if is_object { "a non-array" } else { "a scalar" };
    Error::new(SqlState::BAD_PARAMETER, format!("cannot get array length of {what}"))
}

fn json_length(args: &[&Datum], _: &Env) -> Result<Datum> {
    let json = text(args[0])?;
    match json_text::kind(json) {
        Kind::Array => Ok(Datum::Int(json_text::elements(json, false)?.len() as i64)),
        kind => Err(no_length(kind == Kind::Object)),
    }
}

fn jsonb_length(args: &[&Datum], _: &Env) -> Result<Datum> {
    match document(args[0])?.node()? {
        Node::Array(list) => Ok(Datum::Int(list.len() as i64)),
        node => Err(no_length(matches!(node, Node::Object(_)))),
    }
}

/// Whether a value has a key, or a string among its elements, or is that string.
pub(super) fn has(value: JsonbRef<'_>, key: &str) -> Result<bool> {
    Ok(match value.node()? {
        Node::Object(map) => map.find(key).is_some(),
        Node::Array(list) => {
            for element in list.iter() {
                pulse::work(1)?;
                if matches!(element.node()?, Node::String(text) if text == key) {
                    return Ok(true);
                }
            }
            false
        }
        Node::String(text) => text == key,
        _ => false,
    })
}

fn has_some(args: &[&Datum], all: bool) -> Result<Datum> {
    let document = document(args[0])?;
    for key in array_of(args[1])?.values() {
        if !key.is_null() && has(document, text(key)?)? != all {
            return Ok(Datum::Bool(!all));
        }
    }
    Ok(Datum::Bool(all))
}

/// Whether one value is in another: each member of an object with its value, each element of an
/// array somewhere, scalars as they are.
fn contains(outer: Node<'_>, inner: Node<'_>) -> Result<bool> {
    pulse::work(1)?;
    Ok(match (outer, inner) {
        (Node::Object(outer), Node::Object(inner)) => {
            if outer.len() < inner.len() {
                return Ok(false);
            }
            for (key, value) in inner.iter() {
                let Some(found) = outer.get(key) else { return Ok(false) };
                if !contains(found.node()?, value.node()?)? {
                    return Ok(false);
                }
            }
            true
        }
        (Node::Array(outer), Node::Array(inner)) => {
            for value in inner.iter() {
                if !is_element(outer, value.node()?)? {
                    return Ok(false);
                }
            }
            true
        }
        (Node::Object(_) | Node::Array(_), _) | (_, Node::Object(_) | Node::Array(_)) => false,
        (outer, inner) => jsonb::compare_nodes(outer, inner).is_eq(),
    })
}

fn is_element(list: jsonb::List<'_>, value: Node<'_>) -> Result<bool> {
    for element in list.iter() {
        if contains(element.node()?, value.clone())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same of whole documents, where an array may contain a scalar.
fn document_contains(outer: &Datum, inner: &Datum) -> Result<Datum> {
    let (outer, inner) = (document(outer)?.node()?, document(inner)?.node()?);
    let is_scalar = !matches!(inner, Node::Array(_) | Node::Object(_));
    Ok(Datum::Bool(match outer {
        Node::Array(list) if is_scalar => is_element(list, inner)?,
        outer => contains(outer, inner)?,
    }))
}

const fn named(name: &'static str, of: &Function) -> Function {
    Function { name, ..*of }
}

const JSON_FIELD: Function = f("->", &[Json, Text], Json, |a, _| raw(raw_field(a)?.as_deref()));
const JSON_FIELD_TEXT: Function = f("->>", &[Json, Text], Text, |a, _| raw_text(raw_field(a)?.as_deref()));
const JSON_ELEMENT: Function = f("->", &[Json, Int4], Json, |a, _| raw(raw_element(text(a[0])?, int(a[1])?)?));
const JSON_ELEMENT_TEXT: Function =
    f("->>", &[Json, Int4], Text, |a, _| raw_text(raw_element(text(a[0])?, int(a[1])?)?));
const JSONB_FIELD: Function = f("->", &[Jsonb, Text], Jsonb, |a, _| part(field(a[0], a[1])?));
const JSONB_FIELD_TEXT: Function = f("->>", &[Jsonb, Text], Text, |a, _| part_text(field(a[0], a[1])?));
const JSONB_ELEMENT: Function = f("->", &[Jsonb, Int4], Jsonb, |a, _| part(element(a[0], a[1])?));
const JSONB_ELEMENT_TEXT: Function = f("->>", &[Jsonb, Int4], Text, |a, _| part_text(element(a[0], a[1])?));
const CONTAINS: Function = f("@>", &[Jsonb, Jsonb], Bool, |a, _| document_contains(a[0], a[1]));
const CONTAINED: Function = f("<@", &[Jsonb, Jsonb], Bool, |a, _| document_contains(a[1], a[0]));
const EXISTS: Function = f("?", &[Jsonb, Text], Bool, |a, _| Ok(Datum::Bool(has(document(a[0])?, text(a[1])?)?)));
const EXISTS_ANY: Function = f("?|", &[Jsonb, TEXTS], Bool, |a, _| has_some(a, false));
const EXISTS_ALL: Function = f("?&", &[Jsonb, TEXTS], Bool, |a, _| has_some(a, true));

pub(super) const TABLE: &[Function] = &[
    JSON_FIELD,
    JSON_FIELD_TEXT,
    JSON_ELEMENT,
    JSON_ELEMENT_TEXT,
    JSONB_FIELD,
    JSONB_FIELD_TEXT,
    JSONB_ELEMENT,
    JSONB_ELEMENT_TEXT,
    CONTAINS,
    CONTAINED,
    EXISTS,
    EXISTS_ANY,
    EXISTS_ALL,
    named("json_object_field", &JSON_FIELD),
    named("json_object_field_text", &JSON_FIELD_TEXT),
    named("json_array_element", &JSON_ELEMENT),
    named("json_array_element_text", &JSON_ELEMENT_TEXT),
    named("jsonb_object_field", &JSONB_FIELD),
    named("jsonb_object_field_text", &JSONB_FIELD_TEXT),
    named("jsonb_array_element", &JSONB_ELEMENT),
    named("jsonb_array_element_text", &JSONB_ELEMENT_TEXT),
    named("jsonb_contains", &CONTAINS),
    named("jsonb_contained", &CONTAINED),
    named("jsonb_exists", &EXISTS),
    named("jsonb_exists_any", &EXISTS_ANY),
    named("jsonb_exists_all", &EXISTS_ALL),
    f("#>", &[Json, TEXTS], Json, |a, _| along(a, json_path)),
    f("#>>", &[Json, TEXTS], Text, |a, _| along(a, json_path_text)),
    f("#>", &[Jsonb, TEXTS], Jsonb, |a, _| along(a, jsonb_path)),
    f("#>>", &[Jsonb, TEXTS], Text, |a, _| along(a, jsonb_path_text)),
    f("json_extract_path", &[Json, Text], Json, |a, _| along_all(a, json_path)).variadic(),
    f("json_extract_path_text", &[Json, Text], Text, |a, _| along_all(a, json_path_text)).variadic(),
    f("jsonb_extract_path", &[Jsonb, Text], Jsonb, |a, _| along_all(a, jsonb_path)).variadic(),
    f("jsonb_extract_path_text", &[Jsonb, Text], Text, |a, _| along_all(a, jsonb_path_text)).variadic(),
    f(".jsonb_subscript", &[Jsonb, Text], Jsonb, subscript).variadic(),
    f("json_typeof", &[Json], Text, json_typeof),
    f("jsonb_typeof", &[Jsonb], Text, |a, _| Ok(Datum::text(document(a[0])?.node()?.type_name()))),
    f("json_array_length", &[Json], Int4, json_length),
    f("jsonb_array_length", &[Jsonb], Int4, jsonb_length),
];
