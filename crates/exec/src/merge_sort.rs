//! Sorting that polls, for lists so long, or comparisons so slow, that nobody else could run
//! meanwhile.
//!
//! ```text
//! | piece, sorted by the library | piece | piece | ...      merged two by two, until one is left
//! ```
//! A comparison that gave an arbitrary answer, in order to break a sort off, would be a false
//! order, at which the library's sort may panic. So the library sorts short pieces, to their ends,
//! and between them and within merging [`pulse::work`] may break off: what the list holds then is
//! lost.
//!
//! Invariants: items that compare as equal keep their order.

use std::cmp::Ordering;

use colibri_types::{Result, pulse};

/// Items that the library sorts in one go where a comparison is a few dozen nanoseconds.
pub(crate) const PIECE: usize = 8_192;
/// Where a comparison may be long, so few of them are made between two polls.
pub(crate) const PIECE_OF_LONG: usize = 32;

/// What moving an item to its place in a longer piece takes, in units of work.
const UNITS_PER_MOVE: usize = 2;

/// Sorts a list, in pieces of a given length.
///
/// # Errors
/// The statement was cancelled. The list is empty then.
pub(crate) fn sort<T: Default>(
    items: &mut Vec<T>,
    piece: usize,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<()> {
    let mut from = std::mem::take(items);
    for piece in from.chunks_mut(piece) {
        piece.sort_by(&mut compare);
        pulse::work(piece.len() * UNITS_PER_MOVE)?;
    }
    let mut width = piece;
    let mut into = Vec::new();
    while width < from.len() {
        into.reserve_exact(from.len());
        for pair in from.chunks_mut(2 * width) {
            let (left, right) = pair.split_at_mut(width.min(pair.len()));
            merge(left, right, &mut into, &mut compare)?;
        }
        std::mem::swap(&mut from, &mut into);
        into.clear();
        width *= 2;
    }
    *items = from;
    Ok(())
}

/// Appends two sorted pieces in order, taking their items out.
fn merge<T: Default>(
    left: &mut [T],
    right: &mut [T],
    into: &mut Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Ordering,
) -> Result<()> {
    let (mut left, mut right) = (left.iter_mut(), right.iter_mut());
    let (mut first, mut second) = (left.next(), right.next());
    loop {
        pulse::work(UNITS_PER_MOVE)?;
        match (&mut first, &mut second) {
            (Some(a), Some(b)) if compare(a, b).is_le() => {
                into.push(std::mem::take(*a));
                first = left.next();
            }
            (_, Some(b)) => {
                into.push(std::mem::take(*b));
                second = right.next();
            }
            (Some(a), None) => {
                into.push(std::mem::take(*a));
                first = left.next();
            }
            (None, None) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use colibri_types::pulse::Pulse;

    #[test]
    fn every_length_is_sorted_and_equal_items_keep_their_order() {
        let mut random = fastrand::Rng::with_seed(7);
        for count in (0..70).chain([1_000, 5_003]) {
            for piece in [1, 2, 8, PIECE_OF_LONG, PIECE] {
                let mut items: Vec<(u32, usize)> = (0..count).map(|at| (random.u32(0..40), at)).collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                sort(&mut items, piece, |a, b| a.0.cmp(&b.0)).unwrap();
                assert_eq!(items, expected, "{count} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_sort_that_is_cancelled_ends_with_an_error_and_no_panic() {
        let cancel = Arc::new(AtomicBool::new(true));
        let at_work = Pulse::new(None, &cancel).begin();
        let mut items: Vec<u64> = (0..50_000).map(|at| at * 7_919 % 50_000).collect();
        let compare = |a: &u64, b: &u64| {
            pulse::note(1_000);
            a.cmp(b)
        };
        assert!(sort(&mut items, PIECE_OF_LONG, compare).is_err());
        assert!(items.is_empty());
        at_work.end();
    }
}
