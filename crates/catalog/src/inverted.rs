//! The entries of inverted indexes: one for each token of each column of a row.
//!
//! ```text
//! entry: key   = the column's place in the index: 1 byte | token, with an end as a key's text | row's key
//!        value = nothing
//! ```
//! So the rows that have a token are a range, in the order of their own keys.
//!
//! Invariants: a row has an entry for each token of its values, once, and no others; a value without
//! tokens, such as NULL, has none. ON DISK: the entries of old files stay readable.

use std::ops::Bound;

use colibri_txn::{Key, KeyRange};
use colibri_types::{Datum, Result, Type, key};

use crate::objects::{Index, Table};
use crate::record;

/// The entries of a row in an inverted index, in order.
///
/// # Errors
/// An entry is too long; a value's bytes are damaged; the statement was cancelled.
pub fn entries(table: &Table, index: &Index, row: &[Datum], row_key: &[u8]) -> Result<Vec<Key>> {
    let mut entries = Vec::new();
    if !record::has_entry(index, row) {
        return Ok(entries);
    }
    for (place, (part, class)) in index.columns.iter().zip(&index.tokens).enumerate() {
        let ty = table.columns[part.column].ty.ty;
        for token in class.0.of_value(ty, &row[part.column])? {
            let mut entry = with_token(place, &token);
            record::finish_entry(index, &mut entry, row_key)?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// What the entries of a token of a column begin with.
#[must_use]
pub fn with_token(place: usize, token: &[u8]) -> Key {
    let mut entry = Key::from_slice(&[place as u8]);
    key::encode(Type::Bytea, &Datum::Bytes(token.into()), false, false, true, &mut entry);
    entry
}

/// The entries of all tokens of a column that begin so.
#[must_use]
pub fn range_of_prefix(place: usize, prefix: &[u8]) -> KeyRange {
    let mut low = with_token(place, prefix);
    low.pop();
    let high = key::prefix_end(&low).map_or(Bound::Unbounded, Bound::Excluded);
    KeyRange { low: Bound::Included(low), high }
}

/// The entries of all tokens of a column between two, which are among them.
#[must_use]
pub fn range_between(place: usize, low: &[u8], high: &[u8]) -> KeyRange {
    let high = key::prefix_end(&with_token(place, high)).map_or(Bound::Unbounded, Bound::Excluded);
    KeyRange { low: Bound::Included(with_token(place, low)), high }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::record::behind_token;

    #[test]
    fn an_entry_gives_the_rows_key_whatever_the_token_is() {
        for token in [&b""[..], b"\0", b"a\0b", b"\x01\x02", b"abc"] {
            let mut entry = with_token(3, token);
            assert_eq!(behind_token(&entry).unwrap(), b"");
            entry.extend_from_slice(b"\0key");
            assert_eq!(behind_token(&entry).unwrap(), b"\0key");
            let range = range_of_prefix(3, &token[..token.len() / 2]);
            assert!(matches!(&range.low, Bound::Included(low) if *low <= entry));
            assert!(matches!(&range.high, Bound::Excluded(high) if *high > entry));
        }
        assert!(behind_token(b"").is_err() && behind_token(b"\x01abc").is_err());
    }
}
