//! PostgreSQL's texts of syntax errors, and positions.

use colibri_types::{Error, SqlState};

/// A syntax error of a part of a text.
pub(crate) fn error_near(text: &str, start: usize, end: usize, what: &str) -> Error {
    let near = &text[start..end];
    Error::new(SqlState::SYNTAX_ERROR, format!("{what} at or near \"{near}\"")).at(position(text, start))
}

/// The position of a byte as errors tell it: in characters, from 1 on.
pub(crate) fn position(text: &str, byte: usize) -> u32 {
    text[..byte].chars().count() as u32 + 1
}

/// The error that a text ends too early; the byte is where.
pub(crate) fn at_end(text: &str, byte: usize) -> Error {
    let error = Error::new(SqlState::SYNTAX_ERROR, "syntax error at end of input");
    error.at(position(text, byte))
}
