//! Keys and values as bytes that sort as LMDB sorts them.
//!
//! Colibri's keys sort as bytes. A key of `MDB_REVERSEKEY`, or an integer of this machine, becomes
//! one that does by turning its bytes around. A pair of key and value (`MDB_DUPSORT`) becomes one
//! key: the key with each zero byte as `00 ff`, the terminator `00 00`, the value. So pairs sort by
//! key and then by value, and what the values of a key have in common is stored once a page.

use super::abi::db_flag;

/// Whether the bytes of a key, or of a value, are turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) reversed: bool,
}

impl Order {
    pub(crate) fn of_keys(flags: u32) -> Self {
        let integers = flags & db_flag::INTEGERKEY != 0 && cfg!(target_endian = "little");
        Self { reversed: integers || flags & db_flag::REVERSEKEY != 0 }
    }

    pub(crate) fn of_values(flags: u32) -> Self {
        let integers = flags & db_flag::INTEGERDUP != 0 && cfg!(target_endian = "little");
        Self { reversed: integers || flags & db_flag::REVERSEDUP != 0 }
    }

    /// Appends bytes in the order in which they sort. The same call leads back.
    pub(crate) fn turn_onto(self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.reversed { out.extend(bytes.iter().rev()) } else { out.extend_from_slice(bytes) }
    }

    /// How two keys or values compare.
    pub(crate) fn compare(self, one: &[u8], other: &[u8]) -> std::cmp::Ordering {
        if self.reversed { one.iter().rev().cmp(other.iter().rev()) } else { one.cmp(other) }
    }
}

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const TERMINATOR: [u8; 2] = [ESCAPE, 0x00];
/// Follows all values of a key and precedes the next key.
const AFTER: [u8; 2] = [ESCAPE, 0x01];

fn escape_onto(order: Order, key: &[u8], out: &mut Vec<u8>) {
    let mut push = |byte: u8| {
        out.push(byte);
        if byte == ESCAPE {
            out.push(ESCAPED_ZERO);
        }
    };
    if order.reversed { key.iter().rev().copied().for_each(&mut push) } else { key.iter().copied().for_each(push) }
}

/// The beginning of all pairs of a key.
pub(crate) fn pair_prefix_onto(order: Order, key: &[u8], out: &mut Vec<u8>) {
    escape_onto(order, key, out);
    out.extend_from_slice(&TERMINATOR);
}

/// Where the value begins in a pair. `None` if it is malformed.
pub(crate) fn value_at(pair: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += pair.get(at..)?.iter().position(|&byte| byte == ESCAPE)?;
        match *pair.get(at + 1)? {
            0x00 => return Some(at + 2),
            ESCAPED_ZERO => at += 2,
            _ => return None,
        }
    }
}

/// Turns the beginning of a pair into the bound behind all pairs of its key.
pub(crate) fn make_bound_after(prefix: &mut Vec<u8>) {
    let kept = prefix.len() - TERMINATOR.len();
    prefix.truncate(kept);
    prefix.extend_from_slice(&AFTER);
}

/// Writes the key of a pair's beginning as the program knows it. Gives its length; `out` has room
/// for `prefix.len()` bytes.
pub(crate) fn key_of_prefix(order: Order, prefix: &[u8], out: &mut [u8]) -> usize {
    let escaped = &prefix[..prefix.len() - TERMINATOR.len()];
    let mut len = 0;
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        out[len] = byte;
        len += 1;
        if byte == ESCAPE {
            bytes.next();
        }
    }
    if order.reversed {
        out[..len].reverse();
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    fn random_bytes(rng: &mut StdRng) -> Vec<u8> {
        let alphabet = [0, 1, 0xfe, 0xff];
        (0..rng.random_range(1..6)).map(|_| alphabet[rng.random_range(0..alphabet.len())]).collect()
    }

    #[test]
    fn pairs_sort_as_key_and_value_and_lead_back() {
        let mut rng = StdRng::seed_from_u64(7);
        for reversed in [false, true] {
            let order = Order { reversed };
            for _ in 0..20_000 {
                let pair = |rng: &mut StdRng| (random_bytes(rng), random_bytes(rng));
                let (a, b) = (pair(&mut rng), pair(&mut rng));
                let encode = |(key, value): &(Vec<u8>, Vec<u8>)| {
                    let mut out = Vec::new();
                    pair_prefix_onto(order, key, &mut out);
                    order.turn_onto(value, &mut out);
                    out
                };
                let (x, y) = (encode(&a), encode(&b));
                let expected = order.compare(&a.0, &b.0).then(order.compare(&a.1, &b.1));
                assert_eq!(x.cmp(&y), expected, "{a:?} {b:?}");
                let at = value_at(&x).unwrap();
                let mut key = vec![0; at];
                let len = key_of_prefix(order, &x[..at], &mut key);
                assert_eq!(&key[..len], a.0);
                let mut value = Vec::new();
                order.turn_onto(&x[at..], &mut value);
                assert_eq!(value, a.1);
                let mut after = x[..at].to_vec();
                make_bound_after(&mut after);
                assert!(after > x);
                if order.compare(&b.0, &a.0).is_gt() {
                    assert!(after < y);
                }
            }
        }
    }
}
