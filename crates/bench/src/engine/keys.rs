//! Keys in pseudo-random order, values that follow from their key, and the check that a read
//! returned the right one.
//!
//! ```text
//! serial number ── + seed ── scramble in `width` bits ──┬─ 6 bits a character, from the top ──▶ | key         |
//!                                                       └─ a second scramble fills what is left ▶ |     filler |
//! key ── fingerprint (64 bits) ── one word after another ──▶ | value |
//! ```
//!
//! Invariants
//! - Two serial numbers below [`KeySpace::serials_max`] never give the same key: each step of the
//!   scramble can be undone, and all of its bits are in the key.
//! - A key's characters are `'0'..='o'`, 64 in a row, so that the order of keys is the order of
//!   scrambled numbers.
//! - A value depends on its key alone, so that a read is verified without knowing the serial
//!   number.
//!
//! Cost: a few nanoseconds a key, as there is no table, no division and no branch that depends on
//! data.
//!
//! Not here: skewed access. Every key is as likely as every other, which is the hardest case for a
//! cache.

/// Shortest key that can be asked for, in bytes.
pub(crate) const KEY_BYTES_MIN: usize = 4;
/// Longest key that can be asked for, in bytes: what every engine here accepts (LMDB's limit is
/// 511).
pub(crate) const KEY_BYTES_MAX: usize = 511;

/// Bits that one character of a key carries.
const CHARACTER_BITS: u32 = 6;
/// Characters in a 64-bit word of the rendered key.
const WORD_CHARACTERS: usize = 8;

/// Renders serial numbers as keys of one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySpace {
    key_bytes: usize,
    width_bits: u32,
    seed: u64,
}

impl KeySpace {
    /// Keys of `key_bytes` (from [`KEY_BYTES_MIN`] to [`KEY_BYTES_MAX`]); another seed gives
    /// another order.
    pub(crate) fn new(key_bytes: usize, seed: u64) -> Self {
        assert!((KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key_bytes), "the plan checks the key size");
        let width_bits = u32::try_from(key_bytes).map_or(u64::BITS, |bytes| (bytes * CHARACTER_BITS).min(u64::BITS));
        Self { key_bytes, width_bits, seed: mix(seed) }
    }

    /// How many different keys there are: serial numbers are below this.
    pub(crate) fn serials_max(&self) -> u128 {
        1 << self.width_bits
    }

    /// Writes the key of `serial` over `key`, which has the length of this key space.
    #[inline]
    pub(crate) fn write_key(&self, serial: u64, key: &mut [u8]) {
        debug_assert_eq!(key.len(), self.key_bytes);
        let scrambled = self.scramble(serial);
        let top_aligned = scrambled << (u64::BITS - self.width_bits);
        let mut filler = mix(scrambled);
        let first = render(top_aligned >> 16);
        let second = render((top_aligned & 0xffff) << 32 | filler >> 32);
        let mut words = key.chunks_mut(WORD_CHARACTERS);
        for word in [first, second] {
            if let Some(chunk) = words.next() {
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
        }
        for chunk in words {
            filler = mix(filler);
            chunk.copy_from_slice(&render(filler >> 16)[..chunk.len()]);
        }
    }

    /// A bijection on numbers of `width_bits`: adding, multiplying by an odd number and folding the
    /// upper half onto the lower one can each be undone.
    #[inline]
    fn scramble(&self, serial: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.width_bits);
        let half = self.width_bits / 2;
        let mut x = serial.wrapping_add(self.seed) & mask;
        for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0x9e37_79b9_7f4a_7c15] {
            x ^= x >> half;
            x = x.wrapping_mul(multiplier) & mask;
        }
        x ^ x >> half
    }
}

/// Spreads the low 48 bits of `bits` over 8 characters, the highest first.
#[inline]
fn render(bits: u64) -> [u8; WORD_CHARACTERS] {
    let x = (bits & 0x0000_ffff_ff00_0000) << 8 | bits & 0x0000_0000_00ff_ffff;
    let x = (x & 0x00ff_f000_00ff_f000) << 4 | x & 0x0000_0fff_0000_0fff;
    let x = (x & 0x0fc0_0fc0_0fc0_0fc0) << 2 | x & 0x003f_003f_003f_003f;
    (x + 0x3030_3030_3030_3030).to_be_bytes()
}

/// The finalizer of SplitMix64: a bijection on 64 bits in which each bit of the input changes about
/// half of the output.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Sixty-four bits of a key: from its first 8 bytes and its last 8, which is where the keys of a
/// space differ.
#[inline]
fn fingerprint(key: &[u8]) -> u64 {
    let (head, tail) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => (key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    mix(head ^ tail.rotate_left(29))
}

/// Writes the value that belongs to `key` over `value`.
#[inline]
pub(crate) fn write_value(key: &[u8], value: &mut [u8]) {
    let mut word = fingerprint(key);
    for chunk in value.chunks_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        word = word.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Whether `value` has the length and the first 8 bytes of the value that belongs to `key`.
#[inline]
pub(crate) fn is_value_of(key: &[u8], value: &[u8], value_bytes: usize) -> bool {
    if value.len() != value_bytes {
        return false;
    }
    let expected = fingerprint(key).to_le_bytes();
    match value.first_chunk::<8>() {
        Some(head) => *head == expected,
        None => *value == expected[..value.len()],
    }
}

/// The serial numbers `0..count`, each once, in an order that does not depend on the order of
/// insertion.
///
/// It steps by a number near the golden section of `count` that shares no factor with it, and
/// starts over when it comes to the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stride {
    at: u64,
    step: u64,
    count: u64,
}

impl Stride {
    /// Starts at `start`, so that several readers of one key space are at different places.
    pub(crate) fn new(count: u64, start: u64) -> Self {
        assert!(count > 0, "the plan checks that there is at least one record");
        let golden = u64::try_from(u128::from(count) * 618_033_989 / 1_000_000_000).expect("less than count");
        let step = (golden.max(1)..)
            .find(|step| greatest_common_divisor(*step, count) == 1)
            .expect("1 or a prime is in reach");
        Self { at: start % count, step: step % count, count }
    }

    /// The next serial number.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let serial = self.at;
        let room = self.count - self.step;
        self.at = if self.at >= room { self.at - room } else { self.at + self.step };
        serial
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(space: &KeySpace, serial: u64) -> Vec<u8> {
        let mut key = vec![0; space.key_bytes];
        space.write_key(serial, &mut key);
        key
    }

    #[test]
    fn all_keys_of_a_small_space_differ() {
        let space = KeySpace { width_bits: 16, ..KeySpace::new(4, 7) };
        let seen: HashSet<u64> = (0..1 << 16).map(|serial| space.scramble(serial)).collect();
        assert_eq!(seen.len(), 1 << 16);
        assert!(seen.iter().all(|x| *x < 1 << 16));
    }

    #[test]
    fn keys_of_every_size_are_printable_and_differ() {
        for key_bytes in (KEY_BYTES_MIN..=64).chain([255, KEY_BYTES_MAX]) {
            let space = KeySpace::new(key_bytes, 42);
            let last = u64::try_from(space.serials_max() - 1).unwrap();
            let mut seen = HashSet::new();
            let mut stride = Stride::new(last, 0);
            let spread = (0..2_000).map(|_| stride.next());
            for serial in (0..2_000).chain(spread).chain(last - 999..=last).collect::<HashSet<_>>() {
                let key = key(&space, serial);
                assert_eq!(key.len(), key_bytes);
                assert!(key.iter().all(|byte| (b'0'..=b'o').contains(byte)), "{key:?}");
                assert!(seen.insert(key), "size {key_bytes}, serial {serial}");
            }
        }
    }

    #[test]
    fn the_characters_beyond_the_width_are_filler_not_identity() {
        let long = KeySpace::new(64, 1);
        let short = KeySpace::new(11, 1);
        let heads: HashSet<_> = (0..50_000).map(|serial| key(&long, serial)[..11].to_vec()).collect();
        assert_eq!(heads.len(), 50_000);
        assert_eq!(key(&long, 3)[..11], key(&short, 3)[..]);
    }

    #[test]
    fn key_order_is_not_insertion_order() {
        let space = KeySpace::new(16, 42);
        let ascents = (0..10_000).filter(|serial| key(&space, *serial) < key(&space, serial + 1)).count();
        assert!((4_700..5_300).contains(&ascents), "{ascents}");
    }

    #[test]
    fn another_seed_gives_another_order() {
        assert_ne!(key(&KeySpace::new(16, 1), 0), key(&KeySpace::new(16, 2), 0));
    }

    #[test]
    fn verification_catches_a_wrong_value() {
        let space = KeySpace::new(16, 42);
        for value_bytes in [1, 7, 8, 32, 1000] {
            let (this, other) = (key(&space, 1), key(&space, 2));
            let mut value = vec![0; value_bytes];
            write_value(&this, &mut value);
            assert!(is_value_of(&this, &value, value_bytes));
            assert!(value_bytes < 4 || !is_value_of(&other, &value, value_bytes));
            assert!(!is_value_of(&this, &value[1..], value_bytes));
            value[0] ^= 1;
            assert!(!is_value_of(&this, &value, value_bytes));
        }
    }

    #[test]
    fn a_stride_visits_each_serial_once_a_round() {
        for count in [1, 2, 3, 10, 1000, 1024, 65_537] {
            let mut stride = Stride::new(count, count / 3);
            for _ in 0..2 {
                let seen: HashSet<u64> = (0..count).map(|_| stride.next()).collect();
                assert_eq!(seen.len() as u64, count);
                assert!(seen.iter().all(|serial| *serial < count));
            }
        }
    }
}
