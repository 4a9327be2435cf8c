//! The tokens of arrays of integers for the operator classes of `intarray`: those of any arrays, by
//! which conditions of the type `query_int` are found, too.

use super::{Query, Tokens, array};
use crate::env::Env;
use crate::error::Result;
use crate::int_query::IntQuery;
use crate::types::Type;
use crate::value::Datum;

pub(super) struct Integers;

impl Tokens for Integers {
    fn of_value(&self, ty: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        array::Elements.of_value(ty, value, out)
    }

    fn query(&self, ty: Type, operator: &str, operand: &Datum, env: &Env) -> Result<Query> {
        let ("@@", Datum::Text(condition)) = (operator, operand) else {
            return array::Elements.query(ty, operator, operand, env);
        };
        // What is not in an array says nothing of its tokens.
        IntQuery::parse(condition)?.fold(
            |value| Ok(Query::Token(array::token(ty, &Datum::Int(i64::from(value))))),
            |_| Query::All,
            |left, right| Query::all_of([left, right]),
            |left, right| Query::any_of([left, right]),
        )
    }
}
