//! A set of page numbers as a bitmap, with what makes searching it cheap when it is large.
//!
//! ```text
//! summary  | 1 0 1 … |            a bit for each word that is not zero
//! words    | w w w … | w w … |    a bit for each page
//! ```
//!
//! Invariants:
//! 1. A bit of `summary` is set exactly if its word is not zero.
//! 2. All words of `summary` before `low` are zero.
//! 3. `len` counts the bits of `words`.
//!
//! Cost: adding, removing and looking up take a few memory accesses. Finding the lowest page passes
//! over a word of the summary for each 4096 pages. A search for a run looks at a bounded number of
//! words.

/// A set of page numbers as a bitmap.
#[derive(Default, Clone)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    summary: Vec<u64>,
    len: u32,
    low: usize,
    /// The word where the next search for a run begins, in a set that is not searched as a whole.
    rover: usize,
}

impl PageSet {
    /// A set from a bitmap, lowest bit first.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        let words: Vec<u64> = bytes.chunks(8).map(word).collect();
        let mut set = Self { summary: vec![0; words.len().div_ceil(64)], words, ..Self::default() };
        for (index, word) in set.words.iter().enumerate().filter(|(_, word)| **word != 0) {
            set.summary[index / 64] |= 1 << (index % 64);
            set.len += word.count_ones();
        }
        set
    }

    /// Writes the bitmap, with zeros behind it. No page of the set lies beyond `bytes`.
    pub(crate) fn to_bytes(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        for (chunk, word) in bytes.chunks_mut(8).zip(&self.words) {
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        self.words.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Adds a page; `false` if it was there.
    pub(crate) fn insert(&mut self, page: u32) -> bool {
        let index = page as usize / 64;
        if index >= self.words.len() {
            self.words.resize((index + 1).next_power_of_two().max(16), 0);
            self.summary.resize(self.words.len().div_ceil(64), 0);
        }
        let word = &mut self.words[index];
        if *word == 0 {
            self.summary[index / 64] |= 1 << (index % 64);
            self.low = self.low.min(index / 64);
        }
        let bit = 1 << (page % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u32::from(new);
        new
    }

    /// Removes a page; `false` if it was not there.
    pub(crate) fn remove(&mut self, page: u32) -> bool {
        let index = page as usize / 64;
        let Some(word) = self.words.get_mut(index) else { return false };
        let bit = 1 << (page % 64);
        if *word & bit == 0 {
            return false;
        }
        *word &= !bit;
        if *word == 0 {
            self.summary[index / 64] &= !(1 << (index % 64));
        }
        self.len -= 1;
        true
    }

    pub(crate) fn set(&mut self, page: u32, present: bool) -> bool {
        if present { self.insert(page) } else { self.remove(page) }
    }

    pub(crate) fn toggle(&mut self, page: u32) {
        if !self.insert(page) {
            self.remove(page);
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The page behind the last one, or 0.
    pub(crate) fn end(&self) -> u32 {
        let last = self.words.iter().rposition(|&word| word != 0);
        last.map_or(0, |index| (index as u32 + 1) * 64 - self.words[index].leading_zeros())
    }

    /// The pages from `64 * index` on, lowest bit first.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        count_words(1);
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Removes all pages from `end` on.
    pub(crate) fn truncate(&mut self, end: u32) {
        let (index, bits) = (end as usize / 64, end % 64);
        let Some(gone) = self.words.get(index..) else { return };
        self.len -= gone.iter().map(|word| word.count_ones()).sum::<u32>();
        let kept = gone.first().map_or(0, |word| word & ((1 << bits) - 1));
        self.words.truncate(index + 1);
        self.summary.truncate(self.words.len().div_ceil(64));
        if let Some(last) = self.words.get_mut(index) {
            *last = kept;
            self.len += kept.count_ones();
            let summary = &mut self.summary[index / 64];
            *summary &= (1 << (index % 64)) - 1;
            *summary |= u64::from(kept != 0) << (index % 64);
        }
    }

    /// The lowest page. Remembers how far it searched.
    pub(crate) fn lowest(&mut self) -> Option<u32> {
        while let Some(&summary) = self.summary.get(self.low) {
            count_words(1);
            if summary != 0 {
                let index = self.low * 64 + summary.trailing_zeros() as usize;
                return Some(index as u32 * 64 + self.words[index].trailing_zeros());
            }
            self.low += 1;
        }
        None
    }

    /// The first word from an index on that is not zero.
    fn next_word(&self, from: usize) -> Option<usize> {
        let mut at = from / 64;
        let mut summary = *self.summary.get(at)? & u64::MAX << (from % 64);
        count_words(1);
        while summary == 0 {
            count_words(1);
            at += 1;
            summary = *self.summary.get(at)?;
        }
        Some(at * 64 + summary.trailing_zeros() as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (mut index, mut next, mut word) = (0, self.low * 64, 0_u64);
        std::iter::from_fn(move || {
            if word == 0 {
                index = self.next_word(next)?;
                next = index + 1;
                word = self.words[index];
            }
            let bit = word.trailing_zeros();
            word &= word - 1;
            Some(index as u32 * 64 + bit)
        })
    }

    /// The pages as runs of neighbours: first page and length.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut pages = self.iter().peekable();
        std::iter::from_fn(move || {
            let start = pages.next()?;
            let mut length = 1;
            while pages.next_if_eq(&(start + length)).is_some() {
                length += 1;
            }
            Some((start, length))
        })
    }

    /// The first of `count` neighbouring pages. Looks at `words_max` words that have pages. A set
    /// of no more words is searched as a whole, from the start. In a larger one a search begins
    /// where the last one ended, so that all of it is searched in turn.
    pub(crate) fn find_run(&mut self, count: u32, words_max: usize) -> Option<u32> {
        let mut wrapped = self.words.len() <= words_max;
        let mut index = if wrapped { 0 } else { self.rover };
        // How many neighbouring pages end with the word before `index`.
        let mut length = 0;
        for _ in 0..words_max {
            let Some(next) = self.next_word(index) else {
                if wrapped {
                    break;
                }
                (wrapped, index, length) = (true, 0, 0);
                continue;
            };
            if next != index {
                length = 0;
            }
            let word = self.words[next];
            let first = next as u32 * 64;
            let start = match length + word.trailing_ones() {
                reached if reached >= count => Some(first - length),
                _ => run_in_word(word, count).map(|bit| first + bit),
            };
            if start.is_some() {
                self.rover = next;
                return start;
            }
            length = if word == u64::MAX { length + 64 } else { word.leading_ones() };
            index = next + 1;
        }
        // The next search must not begin inside a run.
        self.rover = index.saturating_sub(length.div_ceil(64) as usize);
        None
    }
}

/// Counts, for tests, the words that a search looks at.
#[inline]
fn count_words(_words: u64) {
    #[cfg(test)]
    WORDS.set(WORDS.get() + _words);
}

#[cfg(test)]
thread_local! {
    /// Words of bitmaps and summaries that this thread has looked at in searches.
    pub(crate) static WORDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The first bit of `count` set bits in a row.
fn run_in_word(word: u64, count: u32) -> Option<u32> {
    if count > 64 {
        return None;
    }
    // Each bit of `starts` says that `length` set bits begin there.
    let (mut starts, mut length) = (word, 1);
    while length < count && starts != 0 {
        let step = length.min(count - length);
        starts &= starts >> step;
        length += step;
    }
    (starts != 0).then(|| starts.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// The first run by the plainest of means.
    fn first_run(model: &BTreeSet<u32>, count: u32) -> Option<u32> {
        model.iter().copied().find(|&start| (start..start + count).all(|page| model.contains(&page)))
    }

    #[test]
    fn random_changes_match_a_set() {
        for seed in 0..60 {
            println!("COLIBRI_SEED={seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let space = [70, 600, 20_000][rng.random_range(0..3)];
            let (mut set, mut model) = (PageSet::default(), BTreeSet::new());
            for _ in 0..400 {
                let start = rng.random_range(0..space);
                let present = rng.random_bool(0.5);
                for page in start..start + rng.random_range(1..90) {
                    let changed = if present { model.insert(page) } else { model.remove(&page) };
                    assert_eq!(set.set(page, present), changed);
                }
                assert_eq!(set.lowest(), model.first().copied());
                assert_eq!(set.len() as usize, model.len());
                assert_eq!(set.contains(start), model.contains(&start));
                let count = [1, 2, 7, 64, 65, 130, 300][rng.random_range(0..7)];
                assert_eq!(set.find_run(count, usize::MAX), first_run(&model, count), "{count} pages");
            }
            let mut bytes = vec![0xff; set.end().div_ceil(8) as usize + 3];
            set.to_bytes(&mut bytes);
            let mut again = PageSet::from_bytes(&bytes);
            assert!(again.iter().eq(model.iter().copied()));
            assert_eq!((again.len(), again.lowest(), again.end()), (set.len(), set.lowest(), set.end()));
            assert_eq!(set.end(), model.last().map_or(0, |page| page + 1));
            for end in [set.end() + 1, space - 3, space / 2, 130, 64, 0] {
                again.truncate(end);
                model.split_off(&end);
                assert!(again.iter().eq(model.iter().copied()));
                assert_eq!((again.len() as usize, again.lowest()), (model.len(), model.first().copied()));
                if end > 0 {
                    assert_eq!(again.insert(end - 1), model.insert(end - 1));
                }
            }
            let model: BTreeSet<u32> = set.iter().collect();
            assert_eq!(set.runs().map(|(_, length)| length).sum::<u32>(), set.len());
            assert!(set.runs().flat_map(|(start, length)| start..start + length).eq(model));
        }
    }

    #[test]
    fn a_bounded_search_comes_to_every_run_in_turn() {
        let mut set = PageSet::default();
        (0..64 * 1000).step_by(2).for_each(|page| _ = set.insert(page));
        (30_000..30_200).for_each(|page| _ = set.insert(page));
        let (mut searches, mut found) = (1, set.find_run(150, 20));
        while found.is_none() {
            searches += 1;
            found = set.find_run(150, 20);
        }
        assert_eq!(found, Some(30_000));
        assert!(searches <= 1 + 30_000 / 64 / 16, "{searches}");
        // What comes before where it is now is found after the end.
        (30_000..30_200).for_each(|page| _ = set.remove(page));
        (100..300).for_each(|page| _ = set.insert(page));
        assert!((0..100).any(|_| set.find_run(150, 20) == Some(100)));
    }

    #[test]
    fn searching_ten_million_scattered_pages_stays_cheap() {
        let mut set = PageSet::default();
        (0..20_000_000).step_by(2).for_each(|page| _ = set.insert(page));
        let started = std::time::Instant::now();
        for _ in 0..1000 {
            assert_eq!(set.find_run(2, 1024), None);
        }
        // Looking at all of them each time takes seconds.
        assert!(started.elapsed().as_millis() < 1000, "{:?}", started.elapsed());
        for page in (0..19_999_998).step_by(2) {
            assert_eq!(set.lowest(), Some(page));
            set.remove(page);
        }
        let started = std::time::Instant::now();
        for _ in 0..1000 {
            set.insert(5);
            assert_eq!(set.lowest(), Some(5));
            set.remove(5);
            assert_eq!(set.lowest(), Some(19_999_998));
        }
        assert!(started.elapsed().as_millis() < 1000, "{:?}", started.elapsed());
    }
}
