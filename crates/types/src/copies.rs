//! Copies of long values, made a piece at a time: see [`crate::pieces`].

use compact_str::CompactString;

use crate::error::Result;
use crate::value::Datum;
use crate::{pieces, pulse};

/// Values that are copied between two polls.
const VALUES_AT_ONCE: usize = 1024;

/// A copy of a text as a value.
///
/// # Errors
/// The statement was cancelled.
pub fn copy(text: &str) -> Result<Datum> {
    let mut out = CompactString::with_capacity(text.len());
    pieces::push(&mut out, text)?;
    Ok(Datum::Text(out))
}

/// Appends copies of values.
///
/// # Errors
/// The statement was cancelled.
pub fn extend(out: &mut Vec<Datum>, values: &[Datum]) -> Result<()> {
    out.reserve(values.len());
    for piece in values.chunks(VALUES_AT_ONCE) {
        out.extend_from_slice(piece);
        pulse::work(piece.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn copies_are_the_same_however_long() {
        for count in [0, 1, 3_000, 30_000] {
            let text = "a\u{e9}".repeat(count);
            assert_eq!(copy(&text).unwrap(), Datum::text(&text));
            let values: Vec<Datum> = (0..count).map(|number| Datum::Int(number as i64)).collect();
            let mut out = vec![Datum::Null];
            extend(&mut out, &values).unwrap();
            assert_eq!(out[1..], values);
        }
    }
}
