//! The hash that rows of hash-partitioned tables are divided by.
//!
//! It is PostgreSQL's, so that a row goes to the partition that it goes to there, and a dump of one
//! partition can be loaded into the partition of the same name. The mixing is Bob Jenkins' lookup3,
//! which is in the public domain.
//!
//! Invariant: what a row's hash is never changes: rows are found by it.

use crate::types::Type;
use crate::value::Datum;

/// The seed of every hash of a partition's key.
// ON DISK: never renumber.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Whether a type's values can be the key of a hash-partitioned table.
#[must_use]
pub fn is_hashable(ty: Type) -> bool {
    matches!(
        ty,
        Type::Int2
            | Type::Int4
            | Type::Int8
            | Type::Oid
            | Type::Bool
            | Type::Date
            | Type::Timestamp
            | Type::TimestampTz
            | Type::Time
            | Type::Float4
            | Type::Float8
            | Type::Text
            | Type::Varchar
            | Type::Char
            | Type::Name
            | Type::Citext
            | Type::Bytea
            | Type::Uuid
    )
}

/// The hash of a key: of each of its columns the type and the value. NULLs leave it as it is.
#[must_use]
pub fn of_key<'v>(key: impl IntoIterator<Item = (Type, &'v Datum)>) -> u64 {
    key.into_iter().filter(|(_, value)| !value.is_null()).fold(0, |hash: u64, (ty, value)| {
        let added = of_value(ty, value).wrapping_add(0x49a0_f4dd_15e5_a8e3);
        hash ^ added.wrapping_add(hash << 54).wrapping_add(hash >> 7)
    })
}

fn of_value(ty: Type, value: &Datum) -> u64 {
    hash_extended(ty, value, SEED)
}

/// What PostgreSQL's hash functions of types with a seed give, for the types that
/// `functions::behind` lists.
#[must_use]
pub fn hash_extended(ty: Type, value: &Datum, seed: u64) -> u64 {
    match value {
        Datum::Int(value) if matches!(ty, Type::Int8 | Type::PgLsn) => of_int8(*value, seed),
        Datum::Int(value) => of_word(*value as u32, seed),
        Datum::Bool(value) => of_word(u32::from(*value), seed),
        Datum::Date(days) => of_word(*days as u32, seed),
        Datum::Timestamp(value) | Datum::Time(value) => of_int8(*value, seed),
        Datum::Float(value) if *value == 0.0 => seed,
        Datum::Float(value) if value.is_nan() => of_bytes(&f64::NAN.to_le_bytes(), seed),
        Datum::Float(value) => of_bytes(&value.to_le_bytes(), seed),
        Datum::Text(text) if ty == Type::InternalChar => {
            of_word(text.bytes().next().map_or(0, |byte| i32::from(byte as i8) as u32), seed)
        }
        Datum::Text(text) => of_bytes(text.as_bytes(), seed),
        Datum::Citext(text) => of_bytes(crate::citext::folded(text).as_bytes(), seed),
        Datum::Bytes(bytes) => of_bytes(bytes, seed),
        Datum::Uuid(bytes) => of_bytes(bytes, seed),
        _ => 0,
    }
}

/// The same without a seed.
#[must_use]
pub fn hash(ty: Type, value: &Datum) -> i32 {
    hash_extended(ty, value, 0) as u32 as i32
}

/// Of a number of 64 bits: one that a narrower type has, too, hashes as there.
fn of_int8(value: i64, seed: u64) -> u64 {
    let high = (value >> 32) as u32;
    of_word(value as u32 ^ if value >= 0 { high } else { !high }, seed)
}

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(bytes: usize, seed: u64) -> Self {
        let start = 0x9e37_79b9_u32.wrapping_add(bytes as u32).wrapping_add(3_923_095);
        let mut state = Self { a: start, b: start, c: start };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    fn mix(&mut self) {
        let Self { a, b, c } = self;
        for (rotation, turn) in [4, 6, 8, 16, 19, 4].into_iter().zip([0, 1, 2].into_iter().cycle()) {
            let (x, y, z): (&mut u32, &mut u32, &mut u32) = match turn {
                0 => (&mut *a, &mut *c, &mut *b),
                1 => (&mut *b, &mut *a, &mut *c),
                _ => (&mut *c, &mut *b, &mut *a),
            };
            *x = x.wrapping_sub(*y);
            *x ^= y.rotate_left(rotation);
            *y = y.wrapping_add(*z);
        }
    }

    fn finish(mut self) -> u64 {
        let Self { a, b, c } = &mut self;
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
        u64::from(*b) << 32 | u64::from(*c)
    }
}

fn of_word(word: u32, seed: u64) -> u64 {
    let mut state = State::new(4, seed);
    state.a = state.a.wrapping_add(word);
    state.finish()
}

fn of_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len(), seed);
    let word =
        |part: &[u8]| part.iter().enumerate().fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (8 * at));
    let mut parts = bytes.chunks_exact(12);
    for part in &mut parts {
        state.a = state.a.wrapping_add(word(&part[..4]));
        state.b = state.b.wrapping_add(word(&part[4..8]));
        state.c = state.c.wrapping_add(word(&part[8..]));
        state.mix();
    }
    let rest = parts.remainder();
    let part = |from: usize| rest.get(from..(from + 4).min(rest.len())).map_or(0, word);
    state.a = state.a.wrapping_add(part(0));
    state.b = state.b.wrapping_add(part(4));
    // The lowest byte is the length's.
    state.c = state.c.wrapping_add(part(8) << 8);
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: [i64; 7] = [
        5_968_994_663_651_403_477,
        -4_482_100_988_868_492_312,
        5_200_946_836_330_972_598,
        -5_700_645_584_453_517_373,
        1_551_002_018_851_372_083,
        -8_699_738_442_285_490_013,
        -2_826_383_321_045_882_978,
    ];

    /// What PostgreSQL 15 gives for `hash…extended(value, 8816678312871386365)`.
    #[test]
    fn hashes_are_those_of_postgresql() {
        let of = |ty, value: Datum| of_value(ty, &value) as i64;
        let uuid = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        let found = [
            of(Type::Int4, Datum::Int(1)),
            of(Type::Int8, Datum::Int(-5_000_000_000)),
            of(Type::Text, Datum::text("partition")),
            of(Type::Text, Datum::text("")),
            of(Type::Text, Datum::text("twelve bytes")),
            of(Type::Uuid, Datum::Uuid(uuid)),
            of(Type::Float8, Datum::Float(1.5)),
        ];
        assert_eq!(found, EXPECTED);
    }

    #[test]
    fn nulls_do_not_count() {
        let (one, null) = (Datum::Int(1), Datum::Null);
        let with = of_key([(Type::Int4, &one), (Type::Text, &null)]);
        assert_eq!(with, of_key([(Type::Int4, &one)]));
        assert_eq!(of_key([(Type::Text, &null)]), 0);
    }

    #[test]
    fn a_number_hashes_alike_in_both_widths() {
        for number in [0, 7, -7, i64::from(i32::MIN)] {
            let value = Datum::Int(number);
            assert_eq!(of_value(Type::Int4, &value), of_value(Type::Int8, &value), "{number}");
        }
    }
}
