//! Rows out of JSON: elements, members and keys of what is in it, and rows of a type whose fields
//! are an object's members.

use std::sync::Arc;

use super::json_access::{part, part_text, raw_text};
use super::jsonb_path::queried;
use super::{Function, Volatility, document, text};
use crate::array::{Array, Dimension};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::json_text::{self, Kind};
use crate::jsonb::{self, JsonbRef, Node};
use crate::pulse;
use crate::row::{Row, RowType};
use crate::text_io;
use crate::types::{ColumnType, Type};
use crate::value::Datum;

/// What a function gives rows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonRows {
    /// `json_array_elements`, as JSON or as text.
    Elements {
        /// Whether as text.
        as_text: bool,
    },
    /// `json_each`: rows of a key and a value, as JSON or as text.
    Members {
        /// Whether as text.
        as_text: bool,
    },
    /// `json_object_keys`
    Keys,
    /// `jsonb_path_query`, with time zones or without.
    Query {
        /// Whether the session's time zone counts.
        with_zone: bool,
    },
    /// `json_populate_recordset` and `json_to_recordset`: an empty row of the type, one whose values
    /// are there unless the object has others, or NULL, and the array.
    Records,
}

/// The rows that a function gives. None of the arguments is NULL, but for the second of
/// [`JsonRows::Records`].
///
/// # Errors
/// 22023 if the value is not of the kind that the function takes.
pub fn json_rows(rows: JsonRows, args: &[Datum], env: &Env) -> Result<Vec<Datum>> {
    let wrong = |message: String| Err(Error::new(SqlState::BAD_PARAMETER, message));
    let [value, rest @ ..] = args else { return Err(Error::internal("rows of nothing")) };
    match (rows, value) {
        (JsonRows::Query { with_zone }, _) => queried(&args.iter().collect::<Vec<_>>(), with_zone, env),
        (JsonRows::Records, Datum::Row(template)) => match rest {
            [base, json] => records(template.ty(), base, json, env),
            _ => Err(Error::internal("records of nothing")),
        },
        (JsonRows::Elements { as_text }, Datum::Jsonb(_)) => match document(value)?.node()? {
            Node::Array(list) if as_text => list.iter().map(|element| part_text(Some(element))).collect(),
            Node::Array(list) => list.iter().map(|element| part(Some(element))).collect(),
            Node::Object(_) => wrong("cannot extract elements from an object".to_owned()),
            _ => wrong("cannot extract elements from a scalar".to_owned()),
        },
        (JsonRows::Elements { as_text }, value) => {
            let json = text(value)?;
            let name = if as_text { "json_array_elements_text" } else { "json_array_elements" };
            match json_text::kind(json) {
                Kind::Array => {
                    json_text::elements(json, as_text)?.into_iter().map(|json| raw_part(json, as_text)).collect()
                }
                Kind::Object => wrong(format!("cannot call {name} on a non-array")),
                _ => wrong(format!("cannot call {name} on a scalar")),
            }
        }
        (JsonRows::Members { as_text }, value) => {
            let ty = Arc::new(member_type(matches!(value, Datum::Jsonb(_)), as_text));
            let pair =
                |key: &str, value| Datum::Row(Arc::new(Row::new(Arc::clone(&ty), vec![Datum::text(key), value])));
            if let Datum::Jsonb(_) = value {
                let name = if as_text { "jsonb_each_text" } else { "jsonb_each" };
                let Node::Object(map) = document(value)?.node()? else {
                    return wrong(format!("cannot call {name} on a non-object"));
                };
                let value = |value| if as_text { part_text(Some(value)) } else { part(Some(value)) };
                return map.iter().map(|(key, inner)| Ok(pair(key, value(inner)?))).collect();
            }
            let json = text(value)?;
            match json_text::kind(json) {
                Kind::Object => {
                    let members = json_text::members(json)?.into_iter();
                    members.map(|(key, inner)| Ok(pair(&key, raw_part(inner, as_text)?))).collect()
                }
                Kind::Array => wrong("cannot deconstruct an array as an object".to_owned()),
                _ => wrong("cannot deconstruct a scalar".to_owned()),
            }
        }
        (JsonRows::Keys, Datum::Jsonb(_)) => match document(value)?.node()? {
            Node::Object(map) => Ok(map.iter().map(|(key, _)| Datum::text(key)).collect()),
            Node::Array(_) => wrong("cannot call jsonb_object_keys on an array".to_owned()),
            _ => wrong("cannot call jsonb_object_keys on a scalar".to_owned()),
        },
        (JsonRows::Keys, value) => {
            let json = text(value)?;
            match json_text::kind(json) {
                Kind::Object => Ok(json_text::members(json)?.iter().map(|(key, _)| Datum::text(key)).collect()),
                Kind::Array => wrong("cannot call json_object_keys on an array".to_owned()),
                _ => wrong("cannot call json_object_keys on a scalar".to_owned()),
            }
        }
        (JsonRows::Records, _) => Err(Error::internal("records of no type")),
    }
}

/// The type of the rows that [`JsonRows::Members`] gives.
#[must_use]
pub fn member_type(is_binary: bool, as_text: bool) -> RowType {
    let value = match (as_text, is_binary) {
        (true, _) => Type::Text,
        (false, true) => Type::Jsonb,
        (false, false) => Type::Json,
    };
    let fields = vec![("key".into(), Type::Text.into()), ("value".into(), value.into())];
    RowType { oid: Type::Record.oid(), name: "record".into(), fields }
}

fn raw_part(json: &str, as_text: bool) -> Result<Datum> {
    if as_text { raw_text(Some(json)) } else { crate::copies::copy(json) }
}

/// A value of either type, that becomes one of another.
#[derive(Clone, Copy)]
enum Source<'s> {
    Text(&'s str),
    Binary(JsonbRef<'s>),
}

impl<'s> Source<'s> {
    fn of(value: &'s Datum) -> Result<Self> {
        Ok(match value {
            Datum::Jsonb(_) => Self::Binary(document(value)?),
            value => Self::Text(json_text::trimmed(text(value)?)),
        })
    }

    fn kind(self) -> Result<Kind> {
        Ok(match self {
            Self::Text(json) => json_text::kind(json),
            Self::Binary(value) => match value.node()? {
                Node::Null => Kind::Null,
                Node::Bool(_) => Kind::Bool,
                Node::Number(_) => Kind::Number,
                Node::String(_) => Kind::String,
                Node::Array(_) => Kind::Array,
                Node::Object(_) => Kind::Object,
            },
        })
    }

    fn elements(self) -> Result<Vec<Self>> {
        Ok(match self {
            Self::Text(json) => json_text::elements(json, true)?.into_iter().map(Self::Text).collect(),
            Self::Binary(value) => match value.node()? {
                Node::Array(list) => list.iter().map(Self::Binary).collect(),
                _ => Vec::new(),
            },
        })
    }

    fn member(self, name: &str) -> Result<Option<Self>> {
        Ok(match self {
            Self::Text(json) => json_text::member(json, name)?.map(Self::Text),
            Self::Binary(value) => match value.node()? {
                Node::Object(map) => map.get(name).map(Self::Binary),
                _ => None,
            },
        })
    }

    /// As JSON, or as what a string is.
    fn text(self, as_json: bool) -> Result<String> {
        match self {
            Self::Text(json) if as_json => Ok(json.to_owned()),
            Self::Text(json) => Ok(json_text::text_of(json)?.unwrap_or_default().into_owned()),
            Self::Binary(value) => match value.node()? {
                Node::String(text) if !as_json => Ok(text.to_owned()),
                _ => {
                    let mut out = String::new();
                    jsonb::write(value, &mut out)?;
                    Ok(out)
                }
            },
        }
    }
}

/// A value as one of a column's type. Of a row, what the object does not have is that of `base`,
/// the row that was there.
fn value_of(ty: ColumnType, base: &Datum, source: Source<'_>, key: &str, env: &Env) -> Result<Datum> {
    pulse::work(10)?;
    let kind = source.kind()?;
    if kind == Kind::Null {
        return Ok(Datum::Null);
    }
    if let (Type::Array(_), false) = (ty.ty, kind == Kind::String) {
        return array(ty, source, key, env);
    }
    if let (Type::Composite(of), false) = (ty.ty, kind == Kind::String) {
        return record(of.row_type(), base, source, env);
    }
    if let (Type::Jsonb, Source::Binary(value)) = (ty.ty, source) {
        return part(Some(value));
    }
    let text = source.text(matches!(ty.ty, Type::Json | Type::Jsonb))?;
    text_io::parse(ty.ty, ty.modifier, &text, env)
}

/// What is being put into an array, from the outermost dimension inwards.
struct Elements<'e> {
    ty: ColumnType,
    key: &'e str,
    env: &'e Env,
    lengths: Vec<usize>,
    values: Vec<Datum>,
    /// How many dimensions there are, once an element that is none has told.
    is_known: bool,
}

fn array(ty: ColumnType, source: Source<'_>, key: &str, env: &Env) -> Result<Datum> {
    let element = ty.ty.element().unwrap_or(Type::Text);
    let ty = ColumnType::new(element, ty.modifier);
    if source.kind()? != Kind::Array {
        return Err(expected_array(key, &[]));
    }
    let mut all = Elements { ty, key, env, lengths: Vec::new(), values: Vec::new(), is_known: false };
    all.put(source, &mut Vec::new())?;
    if all.values.is_empty() {
        return Ok(Datum::Array(Arc::new(Array::new(element, Vec::new()))));
    }
    let dimensions: Vec<Dimension> = all.lengths.iter().map(|&length| Dimension { length, lower: 1 }).collect();
    Array::of_parts(element, &dimensions, all.values)
        .map(|array| Datum::Array(Arc::new(array)))
        .ok_or_else(malformed_array)
}

#[cold]
fn malformed_array() -> Error {
    Error::new(SqlState::BAD_TEXT, "malformed JSON array")
        .detail("Multidimensional arrays must have sub-arrays with matching dimensions.")
}

#[cold]
fn expected_array(key: &str, places: &[usize]) -> Error {
    let place: String = places.iter().map(|place| format!("[{place}]")).collect();
    Error::new(SqlState::BAD_TEXT, "expected JSON array").hint(match place.as_str() {
        "" => format!("See the value of key \"{key}\"."),
        place => format!("See the array element {place} of key \"{key}\"."),
    })
}

impl Elements<'_> {
    /// Puts in what an array has, which stands at these places of those around it.
    fn put(&mut self, source: Source<'_>, places: &mut Vec<usize>) -> Result<()> {
        /// Dimensions that an array may have.
        const DIMENSIONS_MAX: usize = 6;
        let depth = places.len();
        let elements = source.elements()?;
        match self.lengths.get(depth) {
            Some(&length) if length != elements.len() => return Err(malformed_array()),
            Some(_) => {}
            None if self.is_known || depth == DIMENSIONS_MAX => return Err(malformed_array()),
            None => self.lengths.push(elements.len()),
        }
        for (at, element) in elements.into_iter().enumerate() {
            let is_inner = depth + 1 < self.lengths.len();
            let kind = element.kind()?;
            if kind == Kind::Array && (is_inner || !self.is_known) {
                places.push(at);
                self.put(element, places)?;
                places.pop();
                continue;
            }
            if is_inner {
                places.push(at);
                return Err(expected_array(self.key, places));
            }
            self.is_known = true;
            self.values.push(value_of(self.ty, &Datum::Null, element, self.key, self.env)?);
        }
        Ok(())
    }
}

/// A row of a type whose values are an object's, or else those of another row.
fn record(ty: &Arc<RowType>, base: &Datum, source: Source<'_>, env: &Env) -> Result<Datum> {
    match source.kind()? {
        Kind::Object => {}
        Kind::Array => {
            return Err(Error::new(SqlState::BAD_PARAMETER, "cannot call populate_composite on an array"));
        }
        _ => return Err(Error::new(SqlState::BAD_PARAMETER, "cannot call populate_composite on a scalar")),
    }
    let base = if let Datum::Row(base) = base { base.values() } else { &[] };
    let value = |(at, (name, ty)): (usize, &(compact_str::CompactString, ColumnType))| match source.member(name)? {
        Some(found) => value_of(*ty, base.get(at).unwrap_or(&Datum::Null), found, name, env),
        None => Ok(base.get(at).cloned().unwrap_or_default()),
    };
    let values = ty.fields.iter().enumerate().map(value).collect::<Result<Vec<_>>>()?;
    Ok(Datum::Row(Arc::new(Row::new(Arc::clone(ty), values))))
}

fn records(ty: &Arc<RowType>, base: &Datum, json: &Datum, env: &Env) -> Result<Vec<Datum>> {
    let name = "populate_recordset";
    let source = Source::of(json)?;
    let is_text = matches!(source, Source::Text(_));
    match source.kind()? {
        Kind::Array => {}
        Kind::Object => {
            let message = format!("cannot call {name} on an object");
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        _ => {
            let message = format!("cannot call {name} on a scalar");
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
    }
    let row = |element: Source<'_>| {
        if element.kind()? == Kind::Object {
            return record(ty, base, element, env);
        }
        let message = match is_text {
            true => format!("cannot call {name} on a scalar"),
            false => format!("argument of {name} must be an array of objects"),
        };
        Err(Error::new(SqlState::BAD_PARAMETER, message))
    };
    source.elements()?.into_iter().map(row).collect()
}

/// `json_populate_record` and `json_to_record`: see [`POPULATE`].
fn populate(args: &[&Datum], env: &Env) -> Result<Datum> {
    match args {
        [_, base, Datum::Null] => Ok((*base).clone()),
        [Datum::Row(template), base, json] => record(template.ty(), base, Source::of(json)?, env),
        _ => Err(Error::internal("a record of no type")),
    }
}

/// What the binder makes `json_populate_record` and `json_to_record` of: an empty row of the type,
/// a row whose values stay unless the object has others, or NULL, and the object, or NULL.
pub const POPULATE: Function = Function {
    name: ".populate",
    args: &[Type::Record, Type::Record, Type::Void],
    variadic: false,
    result: Type::Record,
    strict: false,
    volatility: Volatility::Stable,
    extension: None,
    eval: populate,
};
