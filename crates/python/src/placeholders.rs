//! `%s` and `%(name)s` as `$1`, `$2`, …
//!
//! As with psycopg: where there are parameters, `%s` takes the next one and `%(name)s` the one of
//! that name, and `%%` is a percent sign, everywhere in the text. A text without `%` that has
//! parameters is left as it is, with `$1` and so on. A text without parameters is left as it is.

use colibri::sql::{Error, Result, SqlState};

/// A statement as the engine takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Converted {
    pub(crate) sql: String,
    pub(crate) params: Wanted,
}

/// What the parameters are taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A sequence, in order: so many `%s` are in the text. There may be `$1` and others besides.
    Places(usize),
    /// A mapping: the names, in order.
    Names(Vec<String>),
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

/// Converts a text that comes with parameters.
///
/// # Errors
/// 42601 for a `%` that is none of the three, and for both kinds in one text.
pub(crate) fn convert(text: &str) -> Result<Converted> {
    if !text.contains('%') {
        return Ok(Converted { sql: text.to_owned(), params: Wanted::Places(0) });
    }
    let mut sql = String::with_capacity(text.len() + 8);
    let (mut names, mut places): (Vec<String>, usize) = (Vec::new(), 0);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        sql.push_str(before);
        if let Some(behind) = after.strip_prefix('%') {
            sql.push('%');
            rest = behind;
        } else if let Some(behind) = after.strip_prefix(['s', 'b', 't']) {
            places += 1;
            sql.push_str(&format!("${places}"));
            rest = behind;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|named| named.split_once(')')) {
            rest = behind.strip_prefix(['s', 'b', 't']).ok_or_else(|| {
                bad(format!("a placeholder is written %({name})s")).hint("Write %% for a percent sign.")
            })?;
            let number = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            sql.push_str(&format!("${}", number + 1));
        } else {
            return Err(bad("a % that is no placeholder").hint("Write %% for a percent sign."));
        }
    }
    sql.push_str(rest);
    match (names.is_empty(), places) {
        (false, 1..) => Err(bad("%s and %(name)s do not go together in one statement")),
        (false, 0) => Ok(Converted { sql, params: Wanted::Names(names) }),
        (true, places) => Ok(Converted { sql, params: Wanted::Places(places) }),
    }
}
