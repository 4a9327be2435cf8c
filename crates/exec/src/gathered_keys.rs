//! Keys of rows that indexes have found, in the order of the rows' table.

use colibri_txn::Key;
use colibri_types::{Result, pulse};
use smallvec::SmallVec;

use super::merge_sort;

/// The most entries that one call of [`colibri_txn::Transaction::scan`] visits.
pub(super) const VISITED_MAX: usize = 4096;

/// Keys of rows. As long as they are short, each is a number: its bytes, and how many these are. The
/// order of the numbers is that of the keys, and they are sorted in a fraction of the time.
pub(super) enum Keys {
    /// Integers, dates, and pairs of small ones.
    Short(Vec<u128>),
    /// UUIDs.
    Middle(Vec<[u64; 3]>),
    Any(Vec<Key>),
}

/// A key as a number.
trait Packed: Ord + Copy + Default {
    /// `None` if the key is too long.
    fn pack(key: &[u8]) -> Option<Self>;
    fn unpack(self) -> Key;
}

impl Packed for u128 {
    fn pack(key: &[u8]) -> Option<Self> {
        packed::<16>(key).map(Self::from_be_bytes)
    }

    fn unpack(self) -> Key {
        unpacked(&self.to_be_bytes())
    }
}

impl Packed for [u64; 3] {
    fn pack(key: &[u8]) -> Option<Self> {
        let bytes: [u8; 24] = packed(key)?;
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        Some(words)
    }

    fn unpack(self) -> Key {
        let mut bytes = [0; 24];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self) {
            *bytes = word.to_be_bytes();
        }
        unpacked(&bytes)
    }
}

/// A key, and its length in the last byte.
fn packed<const BYTES: usize>(key: &[u8]) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    bytes.get_mut(..key.len()).filter(|_| key.len() < BYTES)?.copy_from_slice(key);
    bytes[BYTES - 1] = key.len() as u8;
    Some(bytes)
}

fn unpacked(bytes: &[u8]) -> Key {
    let length = bytes.last().map_or(0, |&length| usize::from(length));
    Key::from_slice(&bytes[..length])
}

impl Default for Keys {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(keys) => keys.len(),
            Self::Middle(keys) => keys.len(),
            Self::Any(keys) => keys.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn bytes(&self) -> usize {
        // They become keys in the end.
        let packed = match self {
            Self::Short(_) => size_of::<u128>(),
            Self::Middle(_) => size_of::<[u64; 3]>(),
            Self::Any(_) => 0,
        };
        self.len() * (packed + size_of::<Key>())
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        loop {
            match self {
                Self::Short(keys) => match Packed::pack(key) {
                    Some(key) => return keys.push(key),
                    None => *self = Self::Middle(keys.iter().filter_map(|key| Packed::pack(&key.unpack())).collect()),
                },
                Self::Middle(keys) => match Packed::pack(key) {
                    Some(key) => return keys.push(key),
                    None => *self = Self::Any(keys.iter().map(|key| key.unpack()).collect()),
                },
                Self::Any(keys) => return keys.push(Key::from_slice(key)),
            }
        }
    }

    /// In order, each once.
    pub(super) fn sorted(mut self) -> Result<Self> {
        match &mut self {
            Self::Short(keys) => sort(keys)?,
            Self::Middle(keys) => sort(keys)?,
            Self::Any(keys) => sort(keys)?,
        }
        Ok(self)
    }

    /// The keys that were added at least `count` times: sorted, without duplicates.
    pub(super) fn sorted_at_least(mut self, count: usize) -> Result<Self> {
        if count <= 1 {
            return self.sorted();
        }
        match &mut self {
            Self::Short(keys) => keep_repeated(keys, count)?,
            Self::Middle(keys) => keep_repeated(keys, count)?,
            Self::Any(keys) => keep_repeated(keys, count)?,
        }
        Ok(self)
    }

    /// Adds others.
    pub(super) fn append(&mut self, other: Self) {
        match (&mut *self, other) {
            (this, other) if this.is_empty() => *this = other,
            (Self::Short(keys), Self::Short(others)) => keys.extend(others),
            (Self::Middle(keys), Self::Middle(others)) => keys.extend(others),
            (this, others) => others.unpacked().iter().for_each(|key| this.push(key)),
        }
    }

    /// Those that are in both of two that are in order.
    pub(super) fn common(self, other: Self) -> Self {
        match (self, other) {
            (Self::Short(keys), Self::Short(other)) => Self::Short(common(keys, &other)),
            (Self::Middle(keys), Self::Middle(other)) => Self::Middle(common(keys, &other)),
            (keys, other) => Self::Any(common(keys.unpacked().into_vec(), &other.unpacked())),
        }
    }

    pub(super) fn unpacked(self) -> SmallVec<[Key; 1]> {
        match self {
            Self::Short(keys) => keys.into_iter().map(Packed::unpack).collect(),
            Self::Middle(keys) => keys.into_iter().map(Packed::unpack).collect(),
            Self::Any(keys) => keys.into(),
        }
    }
}

/// Sorts keys, and leaves each of them once.
fn sort<T: Ord + Default>(keys: &mut Vec<T>) -> Result<()> {
    merge_sort::sort(keys, merge_sort::PIECE, |one, other| one.cmp(other))?;
    keys.dedup();
    Ok(())
}

/// Sorts keys, and leaves each of them once that is there as often as `count`.
fn keep_repeated<T: Ord + Default>(keys: &mut Vec<T>, count: usize) -> Result<()> {
    merge_sort::sort(keys, merge_sort::PIECE, |one, other| one.cmp(other))?;
    let (mut kept, mut start) = (0, 0);
    while start < keys.len() {
        pulse::work(1)?;
        let same = keys[start..].iter().take_while(|key| **key == keys[start]).count();
        if same >= count {
            keys.swap(kept, start);
            kept += 1;
        }
        start += same;
    }
    keys.truncate(kept);
    Ok(())
}

fn common<T: Ord>(mut keys: Vec<T>, other: &[T]) -> Vec<T> {
    let mut at = 0;
    keys.retain(|key| {
        while other.get(at).is_some_and(|other| other < key) {
            at += 1;
        }
        other.get(at) == Some(key)
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_keep_their_order() {
        let texts: &[&[u8]] = &[
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"a\0b",
            b"ab",
            b"0123456789abcde",
            b"0123456789abcdef",
            b"0123456789abcdef0123456",
            b"0123456789abcdef01234567",
        ];
        for longest in 0..=24 {
            let mut keys = Keys::default();
            let mut expected: Vec<Key> = Vec::new();
            for text in texts.iter().filter(|text| text.len() <= longest).chain([&&b"a"[..]]) {
                keys.push(text);
                expected.push(Key::from_slice(text));
            }
            expected.sort();
            expected.dedup();
            assert_eq!(matches!(keys, Keys::Short(_)), longest < 16);
            assert_eq!(matches!(keys, Keys::Any(_)), longest == 24);
            let mut others = Keys::default();
            expected.iter().step_by(2).for_each(|key| others.push(key));
            let sorted = keys.sorted().unwrap();
            let common = others.sorted().unwrap().common(sorted);
            let half: Vec<Key> = expected.into_iter().step_by(2).collect();
            assert_eq!(common.unpacked().into_vec(), half);
        }
    }
}
