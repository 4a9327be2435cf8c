//! Series: entries whose keys are the same bytes and a number, so that new ones go behind all
//! others.
//!
//! ```text
//! key     := prefix number
//! number  := 8 bytes, big-endian, the sign bit flipped     1 is the first that is given out
//! ```
//! A transaction does not choose the number of an entry that it appends: the leader of the queue of
//! commits gives it the next one. So two transactions that append to a series neither wait for each
//! other nor conflict, the numbers have the order of the commits, and none is missing below the
//! last: a reader that has seen a number has seen all that will ever be below it.
//!
//! Until the commit an appended entry is among the transaction's writes under a *place-holder*: the
//! prefix and a number above all that are given out, which rises with each change of the
//! transaction. So going back to a savepoint and the order of the entries need nothing of their
//! own. Reads do not see place-holders.
//!
//! Invariants: the last entry of a series is never cut off, so a number is never given out twice as
//! long as nobody deletes entries one by one.

use std::ops::Bound;

use colibri_storage::View;

use crate::error::{Error, Result};
use crate::store::{Key, KeyRange};

/// Bytes of a number.
pub const NUMBER_BYTES: usize = 8;
/// The highest number that is given out.
pub const NUMBER_MAX: i64 = i64::MAX - (1 << 32);

/// The key of an entry of a series.
#[must_use]
pub fn key(prefix: &[u8], number: i64) -> Key {
    let mut key = Key::from_slice(prefix);
    key.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
    key
}

/// The prefix and the number of an entry's key; `None` if the key is too short for one.
#[must_use]
pub fn split(key: &[u8]) -> Option<(&[u8], i64)> {
    let (prefix, number) = key.split_last_chunk::<NUMBER_BYTES>()?;
    Some((prefix, i64::from_be_bytes(*number) ^ i64::MIN))
}

/// The entries of a series from one number to another, both included.
#[must_use]
pub fn range(prefix: &[u8], numbers: std::ops::RangeInclusive<i64>) -> KeyRange {
    KeyRange { low: Bound::Included(key(prefix, *numbers.start())), high: Bound::Included(key(prefix, *numbers.end())) }
}

/// The key under which a change number so much keeps an entry that is appended.
pub(crate) fn place_holder(prefix: &[u8], change: usize) -> Key {
    key(prefix, NUMBER_MAX + 1 + i64::from(u32::try_from(change).unwrap_or(u32::MAX - 1)))
}

/// The key under which the writes have that a series is cut.
pub(crate) fn cut_mark(prefix: &[u8]) -> Key {
    key(prefix, i64::MIN)
}

/// The prefix in the key of a place-holder or a mark, which were made here.
pub(crate) fn prefix_of(key: &[u8]) -> &[u8] {
    split(key).map_or(key, |(prefix, _)| prefix)
}

/// The highest number in a series; 0 if it has no entries.
pub(crate) fn last_number(view: &View<'_>, prefix: &[u8]) -> Result<i64> {
    let mut cursor = view.cursor();
    if !cursor.seek_before(&key(prefix, NUMBER_MAX + 1))? {
        return Ok(0);
    }
    match split(cursor.key()) {
        Some((found, number)) if found == prefix => Ok(number.max(0)),
        _ => Ok(0),
    }
}

/// The number of the first of `count` entries that are appended behind `last`.
pub(crate) fn first_of(last: i64, count: usize) -> Result<i64> {
    let end = i64::try_from(count).ok().and_then(|count| last.checked_add(count));
    if end.is_some_and(|end| end <= NUMBER_MAX) { Ok(last + 1) } else { Err(Error::SeriesFull) }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_numbers_and_give_them_back() {
        let numbers = [i64::MIN, -1, 0, 1, 255, 256, NUMBER_MAX, NUMBER_MAX + 1, i64::MAX];
        for pair in numbers.windows(2) {
            assert!(key(b"p", pair[0]) < key(b"p", pair[1]), "{pair:?}");
        }
        for number in numbers {
            assert_eq!(split(&key(b"prefix", number)), Some((&b"prefix"[..], number)));
        }
        assert_eq!(split(b"short"), None);
    }

    #[test]
    fn place_holders_are_above_all_numbers_and_in_the_order_of_changes() {
        let made = [0, 1, u32::MAX as usize - 1].map(|change| place_holder(b"p", change));
        assert!(key(b"p", NUMBER_MAX) < made[0] && made[0] < made[1] && made[1] < made[2]);
        assert!(cut_mark(b"p") < key(b"p", i64::MIN + 1));
    }

    #[test]
    fn a_series_without_numbers_left_is_full() {
        assert_eq!(first_of(0, 1).ok(), Some(1));
        assert_eq!(first_of(NUMBER_MAX - 2, 2).ok(), Some(NUMBER_MAX - 1));
        assert!(matches!(first_of(NUMBER_MAX - 2, 3), Err(Error::SeriesFull)));
        assert!(matches!(first_of(i64::MAX, 1), Err(Error::SeriesFull)));
    }
}
