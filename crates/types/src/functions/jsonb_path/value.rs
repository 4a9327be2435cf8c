//! The values that a path goes through: parts of documents in place, and what is computed.

use std::borrow::Cow;

use super::moment::Moment;
use crate::error::Result;
use crate::jsonb::{Item, JsonbRef, List, Map, Node};
use crate::numeric::Numeric;

/// A value on the way.
#[derive(Debug, Clone)]
pub(super) enum Value<'v> {
    Part(JsonbRef<'v>),
    Null,
    Bool(bool),
    Number(Numeric),
    String(Cow<'v, str>),
    Moment(Moment),
}

/// What a value is.
pub(super) enum Seen<'v> {
    Null,
    Bool(bool),
    Number(Numeric),
    String(&'v str),
    Array(List<'v>),
    Object(Map<'v>),
    Moment(Moment),
}

/// A value that is kept to be compared: of arrays and objects nothing is.
#[derive(Debug, Clone)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Moment(Moment),
    Container,
}

impl Value<'_> {
    pub(super) fn seen(&self) -> Result<Seen<'_>> {
        Ok(match self {
            Self::Part(part) => match part.node()? {
                Node::Null => Seen::Null,
                Node::Bool(value) => Seen::Bool(value),
                Node::Number(value) => Seen::Number(value),
                Node::String(value) => Seen::String(value),
                Node::Array(list) => Seen::Array(list),
                Node::Object(map) => Seen::Object(map),
            },
            Self::Null => Seen::Null,
            Self::Bool(value) => Seen::Bool(*value),
            Self::Number(value) => Seen::Number(value.clone()),
            Self::String(value) => Seen::String(value),
            Self::Moment(value) => Seen::Moment(*value),
        })
    }

    /// As a part of a document that is being made.
    pub(super) fn item(&self) -> Item<'_> {
        match self {
            Self::Part(part) => Item::Part(*part),
            Self::Null => Item::Null,
            Self::Bool(value) => Item::Bool(*value),
            Self::Number(value) => Item::Number(value.clone()),
            Self::String(value) => Item::String(Cow::Borrowed(value)),
            Self::Moment(value) => Item::String(value.text().into()),
        }
    }

    pub(super) fn scalar(&self) -> Result<Scalar> {
        Ok(match self.seen()? {
            Seen::Null => Scalar::Null,
            Seen::Bool(value) => Scalar::Bool(value),
            Seen::Number(value) => Scalar::Number(value),
            Seen::String(value) => Scalar::String(value.to_owned()),
            Seen::Moment(value) => Scalar::Moment(value),
            Seen::Array(_) | Seen::Object(_) => Scalar::Container,
        })
    }

    /// What `.type()` says.
    pub(super) fn type_name(&self) -> Result<&'static str> {
        Ok(match self.seen()? {
            Seen::Null => "null",
            Seen::Bool(_) => "boolean",
            Seen::Number(_) => "number",
            Seen::String(_) => "string",
            Seen::Array(_) => "array",
            Seen::Object(_) => "object",
            Seen::Moment(value) => value.type_name(),
        })
    }
}
