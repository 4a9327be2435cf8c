//! The stack that deep statements take, and the door to their grammar ([`colibri_syntax`]).
//!
//! Invariant: whatever the catalogue keeps as text is shallow.

pub(crate) use colibri_plan::deep_stack::{EXPRESSIONS_MAX, is_on_deep_stack, on_deep_stack};
pub(crate) use colibri_syntax::{
    ANY_TYPE_MARK, IDENTITY_MARK, Scanned, parse, parse_expr, parse_identity_change, parse_identity_options,
    parse_query, parse_type, scan, too_deep,
};
use colibri_syntax::{Statement, ast};
use colibri_types::{Error, Result};

/// One statement about rows or relations that the database itself has written.
pub(crate) fn parse_relational(text: &str) -> Result<ast::Statement> {
    match parse(text)?.pop() {
        Some(Statement::Relational(statement)) => Ok(*statement),
        _ => Err(Error::internal("a statement of the database's own is no other one")),
    }
}
