//! Paths of `ltree`: itself, and what is above it.
//!
//! ```text
//! itself := 00 path
//! above  := 01 path         of the path and of its ancestors, of 64 labels at most
//! ```

use super::{Query, Tokens};
use crate::env::Env;
use crate::error::Result;
use crate::key::Key;
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

pub(super) struct Ancestors;

/// Deeper paths are found by their first labels.
const LABELS_MAX: usize = 64;

fn token(kind: u8, path: &str) -> Key {
    let mut token = Key::from_slice(&[kind]);
    token.extend_from_slice(path.as_bytes());
    token
}

/// A path's ancestors and the path, but not what is too deep.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.take(LABELS_MAX).map(|end| &path[..end])
}

impl Tokens for Ancestors {
    fn of_value(&self, _: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Datum::Text(path) = value else { return Ok(()) };
        out(&token(0, path));
        for ancestor in ancestors(path) {
            pulse::work(1)?;
            out(&token(1, ancestor));
        }
        Ok(())
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        Ok(match (operator, operand) {
            ("<@", Datum::Text(path)) if path.is_empty() => Query::All,
            ("<@", Datum::Text(path)) => Query::Token(token(1, ancestors(path).last().unwrap_or_default())),
            // A deep path has ancestors that are not listed.
            ("@>", Datum::Text(path)) if path.bytes().filter(|&byte| byte == b'.').count() < LABELS_MAX => {
                let all = ancestors(path).chain([""]);
                Query::any_of(all.map(|ancestor| Query::Token(token(0, ancestor))))
            }
            _ => Query::All,
        })
    }
}
