//! Pairs of `hstore`: its keys, and its keys with their values.
//!
//! ```text
//! key  := 00 key
//! pair := 01 key 00 value   |   02 key, of a value that is NULL
//! ```

use super::{Query, Tokens};
use crate::env::Env;
use crate::error::Result;
use crate::hstore::{Hstore, Pair};
use crate::key::Key;
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

pub(super) struct Pairs;

fn key_token(key: &str) -> Key {
    let mut token = Key::from_slice(&[0]);
    token.extend_from_slice(key.as_bytes());
    token
}

fn pair_token((key, value): Pair<'_>) -> Key {
    let mut token = Key::from_slice(&[if value.is_some() { 1 } else { 2 }]);
    token.extend_from_slice(key.as_bytes());
    if let Some(value) = value {
        token.push(0);
        token.extend_from_slice(value.as_bytes());
    }
    token
}

/// The keys that an array names.
fn keys(operand: &Datum) -> Vec<Query> {
    let Datum::Array(array) = operand else { return Vec::new() };
    let of_text = |value: &Datum| match value {
        Datum::Text(key) => Some(Query::Token(key_token(key))),
        _ => None,
    };
    array.values().iter().filter_map(of_text).collect()
}

impl Tokens for Pairs {
    fn of_value(&self, _: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Datum::Bytes(bytes) = value else { return Ok(()) };
        for pair in Hstore::new(bytes).pairs() {
            pulse::work(1)?;
            out(&key_token(pair.0));
            out(&pair_token(pair));
        }
        Ok(())
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        Ok(match (operator, operand) {
            ("@>", Datum::Bytes(bytes)) => {
                Query::all_of(Hstore::new(bytes).pairs().map(|pair| Query::Token(pair_token(pair))))
            }
            ("?", Datum::Text(key)) => Query::Token(key_token(key)),
            ("?|", operand) => Query::any_of(keys(operand)),
            ("?&", operand) => Query::all_of(keys(operand)),
            _ => Query::All,
        })
    }
}
