//! Keys with many values: one tree entry for each key and value.
//!
//! The tree's key is the escaped key, a terminator, and the value; its value is empty. In the key a
//! zero byte becomes `00 ff`, and the terminator is `00 00`, so entries sort by key and then by
//! value, whatever bytes either has. What the values of a key have in common, the key above all, is
//! stored once a page like any common prefix; counting, ranks and moves among values are those of
//! the one tree.

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const TERMINATOR: [u8; 2] = [ESCAPE, 0x00];
/// Follows every value of a key and precedes the next key.
const AFTER: [u8; 2] = [ESCAPE, 0x01];

fn escape_onto(key: &[u8], out: &mut Vec<u8>) {
    for &byte in key {
        out.push(byte);
        if byte == ESCAPE {
            out.push(ESCAPED_ZERO);
        }
    }
}

/// The tree's key for a key and a value.
pub(crate) fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + value.len() + 4);
    escape_onto(key, &mut out);
    out.extend_from_slice(&TERMINATOR);
    out.extend_from_slice(value);
    out
}

/// The smallest tree key that a key's values can have.
pub(crate) fn first_of(key: &[u8]) -> Vec<u8> {
    encode(key, &[])
}

/// A bound that lies behind all values of a key and before the next key.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 4);
    escape_onto(key, &mut out);
    out.extend_from_slice(&AFTER);
    out
}

/// Splits a tree key: writes the key to `key` and returns where the value starts, or `None` if it
/// is malformed.
pub(crate) fn decode(bytes: &[u8], key: &mut Vec<u8>) -> Option<usize> {
    key.clear();
    let mut at = 0;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        if byte != ESCAPE {
            key.push(byte);
            continue;
        }
        match *bytes.get(at)? {
            ESCAPED_ZERO => key.push(ESCAPE),
            0x00 => return Some(at + 1),
            _ => return None,
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    fn random_bytes(rng: &mut StdRng) -> Vec<u8> {
        let alphabet = [0, 1, 0xfe, 0xff];
        (0..rng.random_range(0..5)).map(|_| alphabet[rng.random_range(0..alphabet.len())]).collect()
    }

    #[test]
    fn composite_keys_sort_as_pairs_and_decode_to_them() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..20_000 {
            let a = (random_bytes(&mut rng), random_bytes(&mut rng));
            let b = (random_bytes(&mut rng), random_bytes(&mut rng));
            let (x, y) = (encode(&a.0, &a.1), encode(&b.0, &b.1));
            assert_eq!(a.cmp(&b), x.cmp(&y), "{a:?} {b:?}");
            let mut key = Vec::new();
            let at = decode(&x, &mut key).expect("what was encoded decodes");
            assert_eq!((key.as_slice(), &x[at..]), (a.0.as_slice(), a.1.as_slice()));
            assert!(after(&a.0) > x && first_of(&a.0) <= x);
            if b.0 > a.0 {
                assert!(after(&a.0) < y);
            }
        }
    }
}
