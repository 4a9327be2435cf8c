//! `citext`: texts that are compared without case.
//!
//! A value is kept as it was written ([`crate::Datum::Citext`]); what is compared, hashed and put
//! into keys is its form in lower case, character by character as the function `lower` has it.
//!
//! Invariant: [`compare`], [`hash`] and the bytes of [`folded`] agree. ON DISK: keys have the bytes
//! of [`folded`].

use std::cmp::Ordering;
use std::hash::Hasher;

use crate::letters;

fn lower(c: char) -> char {
    if c.is_ascii() { c.to_ascii_lowercase() } else { letters::lower(c) }
}

/// The order of two texts in lower case, by the numbers of their characters.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    a.chars().map(lower).cmp(b.chars().map(lower))
}

/// Feeds a text to a hasher, so that texts that are equal without case hash alike.
pub fn hash(text: &str, hasher: &mut impl Hasher) {
    for c in text.chars() {
        hasher.write_u32(lower(c).into());
    }
    hasher.write_u8(u8::MAX);
}

/// A text in lower case.
#[must_use]
pub fn folded(text: &str) -> String {
    text.chars().map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_bytes_in_lower_case() {
        let texts = ["", "a", "A", "b", "B", "Ä", "ä", "ab", "AB", "Ab", "\u{130}", "i", "ß", "z", "_", "Straße"];
        for a in texts {
            for b in texts {
                assert_eq!(compare(a, b), folded(a).as_bytes().cmp(folded(b).as_bytes()), "{a} {b}");
            }
        }
    }
}
