//! Numbers for integers that lie close together: an array with a place for each integer between the
//! least and the greatest, where a hash table would be twice as large and at random places.
//!
//! ```text
//! first       first + 1   first + 2   …
//! | number+1 | 0 (none) | number+1 | …
//! ```
//! Keys that a sequence has drawn are like that. Looking one up is one load, and keys that are near
//! each other are near each other in memory.
//!
//! Invariants: there are at most [`SPARSE_MAX`] places for each integer that was expected, twice as
//! many with room to grow: no more bytes than a hash table takes.

/// Of fewer integers a hash table fits the processor's cache.
const COUNT_MIN: usize = if cfg!(test) { 64 } else { 2048 };

/// Places for each integer.
const SPARSE_MAX: usize = 8;

/// An array of the numbers of integers.
pub(super) struct Direct {
    first: i64,
    /// The number plus one; 0 if there is none.
    numbers: Vec<u32>,
}

/// The least and the greatest of some integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    least: i64,
    greatest: i64,
}

impl Default for Bounds {
    /// Of none.
    fn default() -> Self {
        Self { least: i64::MAX, greatest: i64::MIN }
    }
}

impl Bounds {
    /// Takes an integer in.
    #[inline]
    pub(super) fn add(&mut self, integer: i64) {
        self.least = self.least.min(integer);
        self.greatest = self.greatest.max(integer);
    }

    /// The length of an array that has a place for each integer from the least to the greatest.
    /// `None` if a hash table of `count` integers is better: there are too few of them, or they lie
    /// too far from each other.
    pub(super) fn places(self, count: usize) -> Option<usize> {
        if count < COUNT_MIN || self.least > self.greatest {
            return None;
        }
        let between = usize::try_from(self.greatest.abs_diff(self.least)).ok()?;
        (between < count.saturating_mul(SPARSE_MAX)).then(|| between + 1)
    }

    /// These bounds widened to hold `next`, and then to twice their width. The room is added above
    /// if `next` is above the old bounds, below if it is below, and else at both ends.
    fn with_room(mut self, next: i64) -> Self {
        let old = self;
        self.add(next);
        let between = i64::try_from(self.greatest.abs_diff(self.least)).unwrap_or(i64::MAX);
        let (below, above) = match () {
            () if next > old.greatest => (0, between),
            () if next < old.least => (between, 0),
            () => (between / 2, between / 2),
        };
        Self { least: self.least.saturating_sub(below), greatest: self.greatest.saturating_add(above) }
    }
}

impl Direct {
    /// An empty array for `count` integers, of which `next` is one, with room for more. `None` if a
    /// hash table is better: see [`Bounds::places`].
    pub(super) fn growing(bounds: Bounds, next: i64, count: usize) -> Option<Self> {
        let mut all = bounds;
        all.add(next);
        all.places(count)?;
        let Bounds { least, greatest } = bounds.with_room(next);
        let between = usize::try_from(greatest.abs_diff(least)).ok()?;
        Some(Self { first: least, numbers: vec![0; between + 1] })
    }

    /// An empty array for `count` integers within the bounds. `None` if a hash table is better: see
    /// [`Bounds::places`].
    pub(super) fn fixed(bounds: Bounds, count: usize) -> Option<Self> {
        Some(Self { first: bounds.least, numbers: vec![0; bounds.places(count)?] })
    }

    /// How many integers have a place.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<u32>()
    }

    #[inline]
    fn at(&self, integer: i64) -> usize {
        // An integer below the first one becomes larger than any array.
        usize::try_from(integer.wrapping_sub(self.first) as u64).unwrap_or(usize::MAX)
    }

    /// The number of an integer plus one; 0 if it has none.
    #[inline]
    pub(super) fn get(&self, integer: i64) -> u32 {
        self.numbers.get(self.at(integer)).copied().unwrap_or(0)
    }

    /// The place of an integer's number plus one, if there is a place for it.
    #[inline]
    pub(super) fn place(&mut self, integer: i64) -> Option<&mut u32> {
        let at = self.at(integer);
        self.numbers.get_mut(at)
    }

    /// The integers from the place `start` to the place `end` that have a number, with these plus
    /// one.
    pub(super) fn some(&self, start: usize, end: usize) -> impl Iterator<Item = (i64, u32)> {
        let numbered = self.numbers[start..end].iter().zip(start..).filter(|(number, _)| **number != 0);
        numbered.map(|(number, at)| (self.first.wrapping_add(at as i64), *number))
    }

    /// Lets go of places, so that `left` are left: these integers are not to be found any more.
    pub(super) fn truncate(&mut self, left: usize) {
        self.numbers.truncate(left);
        self.numbers.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(integers: &[i64]) -> Bounds {
        let mut bounds = Bounds::default();
        integers.iter().for_each(|integer| bounds.add(*integer));
        bounds
    }

    #[test]
    fn integers_far_from_each_other_get_no_array() {
        assert_eq!(bounds(&[]).places(1_000_000), None);
        assert_eq!(bounds(&[5, -6]).places(COUNT_MIN), Some(12));
        assert_eq!(bounds(&[5, -6]).places(COUNT_MIN - 1), None);
        let most = (COUNT_MIN * SPARSE_MAX) as i64;
        assert_eq!(bounds(&[1, most]).places(COUNT_MIN), Some(most as usize));
        assert_eq!(bounds(&[0, most]).places(COUNT_MIN), None);
        assert_eq!(bounds(&[i64::MIN, i64::MAX]).places(usize::MAX), None);
    }

    #[test]
    fn room_is_where_integers_come() {
        let known = bounds(&[1000, 1099]);
        let ends = |next| {
            let direct = Direct::growing(known, next, COUNT_MIN).unwrap();
            (direct.first, direct.first + direct.len() as i64 - 1)
        };
        assert_eq!(ends(1100), (1000, 1200));
        assert_eq!(ends(999), (899, 1099));
        assert_eq!(ends(1050), (951, 1148));
    }

    #[test]
    fn the_ends_of_all_integers_have_places() {
        for (low, high) in [(i64::MIN, i64::MIN + 99), (i64::MAX - 99, i64::MAX)] {
            for next in [low, high, low + 7] {
                let mut direct = Direct::growing(bounds(&[low + 3, high - 3]), next, COUNT_MIN).unwrap();
                *direct.place(next).unwrap() = 7;
                assert_eq!(direct.get(next), 7);
                assert_eq!(direct.some(0, direct.len()).collect::<Vec<_>>(), [(next, 7)]);
                let far = if low == i64::MIN { i64::MAX } else { i64::MIN };
                assert!(direct.place(far).is_none());
                assert_eq!((direct.get(far), direct.get(0)), (0, 0));
            }
        }
    }
}
