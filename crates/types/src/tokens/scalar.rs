//! Values that are not taken apart, beside others in an index of several columns: the token is the
//! value, as keys of indexes have it.

use super::{Query, Tokens};
use crate::env::Env;
use crate::error::Result;
use crate::key::{self, Key};
use crate::types::Type;
use crate::value::Datum;

pub(super) struct Value;

pub(super) fn takes(ty: Type) -> bool {
    ty.is_storable() && key::is_indexable(ty) && ty != Type::Jsonb
}

fn token(ty: Type, value: &Datum) -> Key {
    let mut token = Key::new();
    key::encode(ty, value, false, false, true, &mut token);
    token
}

impl Tokens for Value {
    fn of_value(&self, ty: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        out(&token(ty, value));
        Ok(())
    }

    fn query(&self, ty: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        Ok(match operator {
            "=" => Query::Token(token(ty, operand)),
            _ => Query::All,
        })
    }
}
