//! The tokens of arrays: their elements, as keys of indexes have them.
//!
//! ```text
//! token := 01 element's bytes       see `key`
//!        | 02                       an element that is NULL
//!        | 03                       the array has no elements
//! ```
//! ON DISK: none of this may change.

use super::{Query, Tokens};
use crate::array::Array;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::key::{self, Key};
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

const ELEMENT: u8 = 1;
const NULL: u8 = 2;
const EMPTY: u8 = 3;

pub(super) struct Elements;

fn array(value: &Datum) -> Result<&Array> {
    match value {
        Datum::Array(array) => Ok(array),
        _ => Err(Error::internal("an index of arrays has a value that is none")),
    }
}

/// The token of an element of an array.
pub(super) fn token(ty: Type, value: &Datum) -> Key {
    if value.is_null() {
        return Key::from_slice(&[NULL]);
    }
    let mut token = Key::from_slice(&[ELEMENT]);
    key::encode(ty.element().unwrap_or(ty), value, false, false, true, &mut token);
    token
}

impl Tokens for Elements {
    fn of_value(&self, ty: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let values = array(value)?.values();
        if values.is_empty() {
            out(&[EMPTY]);
        }
        for value in values {
            pulse::work(2)?;
            out(&token(ty, value));
        }
        Ok(())
    }

    fn query(&self, ty: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        let values = array(operand)?.values();
        pulse::work(values.len())?;
        let has_null = values.iter().any(Datum::is_null);
        let known = || values.iter().filter(|value| !value.is_null()).map(|value| Query::Token(token(ty, value)));
        let empty = || Query::token(&[EMPTY]);
        Ok(match operator {
            "&&" => Query::any_of(known()),
            // NULL is in no array.
            "@>" if has_null => Query::Nothing,
            "@>" => Query::all_of(known()),
            "<@" => Query::any_of(known().chain([empty()])),
            "=" if values.is_empty() => empty(),
            "=" => Query::all_of(values.iter().map(|value| Query::Token(token(ty, value)))),
            _ => Query::All,
        })
    }
}
