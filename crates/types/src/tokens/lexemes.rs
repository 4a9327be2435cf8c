//! Lexemes of `tsvector`: those that a `tsquery` asks for. Where they stand, and with which weights,
//! is left to the condition.

use super::{Query, Tokens};
use crate::env::Env;
use crate::error::Result;
use crate::pulse;
use crate::text_search::{Node, Operator, Query as TextQuery, lexemes_of};
use crate::types::Type;
use crate::value::Datum;

pub(super) struct Lexemes;

/// How deep a query may be nested; a deeper part says nothing.
const DEPTH_MAX: u32 = 64;

impl Tokens for Lexemes {
    fn of_value(&self, _: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Datum::Bytes(bytes) = value else { return Ok(()) };
        for lexeme in lexemes_of(bytes) {
            pulse::work(1)?;
            out(lexeme.as_bytes());
        }
        Ok(())
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        let (Datum::Query(bytes), "@@" | "@@@") = (operand, operator) else { return Ok(Query::All) };
        let query = TextQuery::from_bytes(bytes);
        // What each node asks for, and how deep it is.
        let mut asked: Vec<(Query, u32)> = Vec::with_capacity(query.nodes().len());
        for node in query.nodes() {
            pulse::work(1)?;
            let mut taken = |at: u32| {
                asked.get_mut(at as usize).map_or((Query::All, 0), |asked| std::mem::replace(asked, (Query::All, 0)))
            };
            let of_node = match node {
                Node::Lexeme(operand) if operand.is_prefix => (Query::Prefix(operand.lexeme.as_bytes().into()), 1),
                Node::Lexeme(operand) => (Query::token(operand.lexeme.as_bytes()), 1),
                Node::Stop | Node::Not(_) => (Query::All, 1),
                Node::Join(operator, left, right) => {
                    let ((left, left_depth), (right, right_depth)) = (taken(*left), taken(*right));
                    let depth = left_depth.max(right_depth) + 1;
                    let joined = match operator {
                        _ if depth > DEPTH_MAX => Query::All,
                        Operator::Or => Query::any_of([left, right]),
                        Operator::And | Operator::Phrase(_) => Query::all_of([left, right]),
                    };
                    let depth = if joined == Query::All { 1 } else { depth };
                    (joined, depth)
                }
            };
            asked.push(of_node);
        }
        // A query without nodes matches nothing.
        Ok(asked.pop().map_or(Query::Nothing, |(query, _)| query))
    }
}
