//! The one door for texts: whatever a statement is, it is read here.
//!
//! Most of the grammar is `colibri-syntax`'s. Settings, roles and privileges, cursors and COPY have
//! trees of their own; which of them reads a text, its first words tell.

use colibri_types::Result;

use super::serve::in_text;
use super::{named_cursor, set};
use crate::statement::Scanned;
use crate::{admin, copy};

/// A statement that is read, or whose tokens are.
pub(super) enum Parsed<'t> {
    Set(set::SetStatement),
    Admin(admin::Statement),
    Cursor(named_cursor::Parsed),
    /// Everything else: its depth tells on which stack it is to be parsed.
    Other(Scanned<'t>),
}

/// Reads a statement that can be prepared.
///
/// # Errors
/// 42601 and what else may be wrong with a text.
pub(super) fn parse(text: &str) -> Result<Parsed<'_>> {
    if let Some(statement) = set::parse(text)? {
        return Ok(Parsed::Set(statement));
    }
    if let Some(statement) = admin::parse(text)? {
        return Ok(Parsed::Admin(statement));
    }
    if let Some(statement) = named_cursor::parse(text)? {
        return Ok(Parsed::Cursor(statement));
    }
    crate::statement::scan(text).map(Parsed::Other)
}

/// Reads a statement for its mistakes alone, COPY too.
///
/// # Errors
/// As [`parse`]; positions are those in all of the text.
pub(super) fn check(text: &str) -> Result<()> {
    if let Some(request) = copy::parse_statement(text)? {
        return match request.source {
            copy::Source::Query(bytes) => {
                let query = &text[bytes];
                check(query).map_err(|error| in_text(error, text, query))
            }
            copy::Source::Table { .. } => Ok(()),
        };
    }
    match parse(text)? {
        Parsed::Set(_) | Parsed::Admin(_) => Ok(()),
        Parsed::Cursor(named_cursor::Parsed::Declare { query, .. }) => {
            let query = &text[query..];
            let scanned = crate::statement::scan(query);
            scanned.and_then(check_tree).map_err(|error| in_text(error, text, query))
        }
        Parsed::Cursor(_) => Ok(()),
        Parsed::Other(scanned) => check_tree(scanned),
    }
}

fn check_tree(scanned: Scanned<'_>) -> Result<()> {
    if scanned.is_deep() {
        return crate::statement::on_deep_stack(|| scanned.parse().map(drop));
    }
    scanned.parse().map(drop)
}
