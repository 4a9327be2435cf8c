//! The tokens of documents. There are two kinds of them.
//!
//! `jsonb_ops` has a token for each key and each scalar, wherever it is:
//! ```text
//! token := 01 text       a key, or a string among the elements of an array or alone
//!        | 02            null
//!        | 03 00|01      a boolean
//!        | 04 number     see `key`
//!        | 05 text       a string that is the value of a key
//! ```
//! `jsonb_path_ops` has one for each scalar with the keys that lead to it; arrays are no part of the
//! way:
//! ```text
//! token := 8 bytes       a hash of the keys, and of the scalar as above
//! ```
//! ON DISK: none of this may change.

use super::{Hash, Query, Tokens, json_path};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::jsonb::{JsonbRef, Node};
use crate::key::{self, Key};
use crate::numeric::Numeric;
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

const KEY: u8 = 1;
const NULL: u8 = 2;
const BOOL: u8 = 3;
const NUMBER: u8 = 4;
const STRING: u8 = 5;

fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(text) => Ok(text),
        other => Err(Error::internal(format_args!("{other:?} where a text is expected"))),
    }
}

fn document(value: &Datum) -> Result<JsonbRef<'_>> {
    match value {
        Datum::Jsonb(bytes) => Ok(JsonbRef::new(bytes)),
        other => Err(Error::internal(format_args!("{other:?} where a document is expected"))),
    }
}

/// A scalar of JSON.
#[derive(Debug, Clone)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(Numeric),
    String(&'a str),
}

impl<'a> Scalar<'a> {
    fn of(node: Node<'a>) -> Option<Self> {
        Some(match node {
            Node::Null => Self::Null,
            Node::Bool(value) => Self::Bool(value),
            Node::Number(value) => Self::Number(value),
            Node::String(value) => Self::String(value),
            Node::Array(_) | Node::Object(_) => return None,
        })
    }

    fn token(&self, is_key: bool) -> Key {
        let tagged = |tag: u8, bytes: &[u8]| {
            let mut token = Key::from_slice(&[tag]);
            token.extend_from_slice(bytes);
            token
        };
        match self {
            Self::Null => tagged(NULL, &[]),
            Self::Bool(value) => tagged(BOOL, &[u8::from(*value)]),
            Self::Number(value) => {
                let mut token = Key::from_slice(&[NUMBER]);
                key::encode_numeric(value, &mut token);
                token
            }
            Self::String(value) => tagged(if is_key { KEY } else { STRING }, value.as_bytes()),
        }
    }
}

/// Where a value is: under a key, or among elements, or alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Key,
    Array,
}

/// `jsonb_ops`
pub(super) struct Parts;

/// Documents are as deep as `jsonb` lets them be.
fn parts(value: JsonbRef<'_>, under: Under, out: &mut dyn FnMut(&[u8])) -> Result<()> {
    pulse::work(2)?;
    match value.node()? {
        Node::Array(list) => list.iter().try_for_each(|element| parts(element, Under::Array, out)),
        Node::Object(map) => map.iter().try_for_each(|(key, value)| {
            out(&Scalar::String(key).token(true));
            parts(value, Under::Key, out)
        }),
        node => {
            let token = Scalar::of(node).map(|scalar| scalar.token(under == Under::Array));
            token.iter().for_each(|token| out(token));
            Ok(())
        }
    }
}

impl Parts {
    fn all_parts(value: JsonbRef<'_>) -> Result<Query> {
        let mut tokens = Vec::new();
        parts(value, Under::Array, &mut |token| tokens.push(Query::token(token)))?;
        Ok(Query::all_of(tokens))
    }
}

/// The keys that `?|` and `?&` ask for.
fn keys(operand: &Datum) -> Result<Vec<Query>> {
    let Datum::Array(array) = operand else { return Ok(Vec::new()) };
    pulse::work(array.values().len())?;
    let keys = array.values().iter().filter(|key| !key.is_null());
    keys.map(|key| Ok(Query::Token(Scalar::String(text(key)?).token(true)))).collect()
}

impl Tokens for Parts {
    fn of_value(&self, _: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        parts(document(value)?, Under::Array, out)
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        Ok(match operator {
            "@>" => Self::all_parts(document(operand)?)?,
            "?" => Query::Token(Scalar::String(text(operand)?).token(true)),
            "?|" => Query::any_of(keys(operand)?),
            "?&" => Query::all_of(keys(operand)?),
            "@?" => json_path::exists(self, text(operand)?)?,
            "@@" => json_path::is_true(self, text(operand)?)?,
            _ => Query::All,
        })
    }
}

impl json_path::Ways for Parts {
    type Way = ();

    fn root(&self) {}

    fn member(&self, (): &(), key: &str) -> ((), Query) {
        ((), Query::Token(Scalar::String(key).token(true)))
    }

    fn value(&self, (): &(), value: Scalar<'_>) -> Query {
        // It may be an element as well.
        Query::any_of([Query::Token(value.token(false)), Query::Token(value.token(true))])
    }

    fn anywhere(&self) -> Option<()> {
        Some(())
    }
}

/// `jsonb_path_ops`
pub(super) struct Paths;

fn paths(value: JsonbRef<'_>, way: Hash, out: &mut dyn FnMut(&[u8])) -> Result<()> {
    pulse::work(2)?;
    match value.node()? {
        Node::Array(list) => list.iter().try_for_each(|element| paths(element, way, out)),
        Node::Object(map) => map.iter().try_for_each(|(key, value)| paths(value, way.with(key.as_bytes()), out)),
        node => {
            if let Some(scalar) = Scalar::of(node) {
                out(&end_of(way, scalar));
            }
            Ok(())
        }
    }
}

fn end_of(way: Hash, scalar: Scalar<'_>) -> [u8; 8] {
    way.with(&scalar.token(false)).0.to_be_bytes()
}

impl Tokens for Paths {
    fn of_value(&self, _: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        paths(document(value)?, Hash::default(), out)
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        Ok(match operator {
            "@>" => {
                let mut tokens = Vec::new();
                paths(document(operand)?, Hash::default(), &mut |token| tokens.push(Query::token(token)))?;
                Query::all_of(tokens)
            }
            "@?" => json_path::exists(self, text(operand)?)?,
            "@@" => json_path::is_true(self, text(operand)?)?,
            _ => Query::All,
        })
    }
}

impl json_path::Ways for Paths {
    type Way = Hash;

    fn root(&self) -> Hash {
        Hash::default()
    }

    fn member(&self, way: &Hash, key: &str) -> (Hash, Query) {
        (way.with(key.as_bytes()), Query::All)
    }

    fn value(&self, way: &Hash, value: Scalar<'_>) -> Query {
        Query::token(&end_of(*way, value))
    }

    fn anywhere(&self) -> Option<Hash> {
        None
    }
}
