//! Keys: values as bytes that sort as the values do.
//!
//! ```text
//! column        := [marker] value                        a key is its columns, one after the other
//! marker        := 01, or for NULL 00 (first) or 02 (last); left out where a column is NOT NULL
//! bool          := 00 or 01
//! smallint, integer, bigint, date, time, timestamp
//!               := 2, 4 or 8 bytes, big-endian, the sign bit flipped
//! oid           := 4 bytes, big-endian
//! real, double  := 4 or 8 bytes, big-endian; all bits flipped if negative, else the sign bit
//! text, bytea   := bytes 00      where 00 is written 01 01, and 01 is written 01 02
//! bit, varbit   := as bytea: see `bits`
//! uuid          := 16 bytes
//! numeric       := 80 for zero, else exponent digits 00   (all bits flipped if negative)
//!                | FF 00 for Infinity | FF 01 for NaN | 00 FF for -Infinity
//!   exponent    := with p, the power of 100 that the first digit counts:
//!                  B3 + p, of one byte, for p from -50 to 74
//!                  FE p, of two bytes, big-endian, above that
//!                  81 01 (p + 10000), of two bytes, big-endian, below it
//!   digits      := digits in base 100, each plus one, none at the end zero
//! jsonb         := bytes 00, as text has them; which bytes, is in `jsonb::order`
//! timetz        := the time at Greenwich and seconds west of it: 8 and 4 bytes, big-endian, the
//!                  sign bits flipped
//! interval      := its length as 10 bytes, big-endian, the sign bit flipped
//! enum          := the place of its label, as a bigint
//! money, xid8, pg_lsn, tid := as a bigint: see `money` and `positions`
//! tsvector, tsquery, inet, cidr, macaddr, macaddr8
//!               := bytes 00, as text has them; which bytes, is in `text_search` and `network`
//! composites    := bytes 00, as text has them: the columns of a key, one for each field, ascending,
//!                  NULLs last, with markers
//! ranges        := bytes 00, as text has them; which bytes, is in `ranges`
//! citext        := as text, in lower case
//! hstore        := bytes 00, as text has them; which bytes, is in `hstore`
//! ```
//! A descending column's value has all bits flipped; its marker has not.
//!
//! Invariants: for two values of a type, the order of the bytes is that of `operators::compare`,
//! equal values have equal bytes, and no value's encoding is the beginning of another's, so that
//! the order of several columns' bytes is the order of the columns. ON DISK: none of this may
//! change.

use compact_str::CompactString;
use smallvec::SmallVec;

use crate::datetime::TimeTz;
use crate::error::{Error, Result, SqlState};
use crate::numeric::{KeyDigits, KeyForm, Numeric};
use crate::ranges;
use crate::text_search::Query;
use crate::types::Type;
use crate::value::Datum;

/// A key's bytes.
pub type Key = SmallVec<[u8; 32]>;

const NULL_FIRST: u8 = 0;
/// What the bytes of a column begin with that may have NULLs, where it has none.
pub const NOT_NULL: u8 = 1;
const NULL_LAST: u8 = 2;

const NUMERIC_ZERO: u8 = 0x80;
/// The exponent byte of a positive number whose first digit counts hundredths to the power of 50.
const NUMERIC_LEAST: u8 = 0x81;
const NUMERIC_EXPONENT_MIN: i32 = -50;
const NUMERIC_EXPONENT_MAX: i32 = 74;
/// Before the exponents that are above those, and the infinities.
const NUMERIC_LONG: u8 = 0xfe;
const NUMERIC_SPECIAL: u8 = 0xff;
const INFINITY: u8 = 0;
const NAN: u8 = 1;
/// Behind [`NUMERIC_LEAST`], where the first digit of others is: an exponent below those follows.
const NUMERIC_TINY: u8 = 1;
const NUMERIC_TINY_BIAS: i32 = 10_000;

#[cold]
fn malformed(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("malformed key: {what}"))
}

/// Whether `decode` gives back exactly what was encoded, for every value of the type. A numeric
/// loses how many zeros its fraction ends with, a float the sign of zero, an interval its form, a
/// `tsquery` its weights, a `citext` its case.
#[must_use]
pub fn is_exact(ty: Type) -> bool {
    !matches!(
        ty,
        Type::Composite(_)
            | Type::NumRange
            | Type::NumMultirange
            | Type::Range(_)
            | Type::Numeric
            | Type::Float4
            | Type::Float8
            | Type::Interval
            | Type::Void
            | Type::Jsonb
            | Type::TsQuery
            | Type::Citext
    ) && is_indexable(ty)
}

/// Whether keys may have columns of the type: not yet of arrays, nor of rows with arrays.
#[must_use]
pub fn is_indexable(ty: Type) -> bool {
    if let Type::Composite(of) = ty {
        return of.is_ordered();
    }
    !ty.is_array() && ty.is_ordered()
}

/// Appends a column's value, of type `ty` or NULL. `not_null_column` leaves out the marker: the
/// value must not be NULL.
#[inline]
pub fn encode(ty: Type, value: &Datum, descending: bool, nulls_first: bool, not_null_column: bool, out: &mut Key) {
    if value.is_null() {
        debug_assert!(!not_null_column, "a column without markers has no NULLs");
        out.push(if nulls_first { NULL_FIRST } else { NULL_LAST });
        return;
    }
    if !not_null_column {
        out.push(NOT_NULL);
    }
    let start = out.len();
    encode_ascending(ty, value, out);
    if descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

fn encode_ascending(ty: Type, value: &Datum, out: &mut Key) {
    match value {
        Datum::Int(value) => match ty.base() {
            Type::Int4 => out.extend_from_slice(&(*value as u32 ^ 1 << 31).to_be_bytes()),
            Type::Int2 => out.extend_from_slice(&(*value as u16 ^ 1 << 15).to_be_bytes()),
            Type::Oid => out.extend_from_slice(&(*value as u32).to_be_bytes()),
            _ => out.extend_from_slice(&(*value as u64 ^ 1 << 63).to_be_bytes()),
        },
        Datum::Time(value) | Datum::Timestamp(value) => {
            out.extend_from_slice(&(*value as u64 ^ 1 << 63).to_be_bytes());
        }
        Datum::TimeTz(value) => {
            out.extend_from_slice(&(value.at_greenwich() as u64 ^ 1 << 63).to_be_bytes());
            out.extend_from_slice(&(value.west_s as u32 ^ 1 << 31).to_be_bytes());
        }
        Datum::Date(value) => out.extend_from_slice(&(*value as u32 ^ 1 << 31).to_be_bytes()),
        Datum::Text(value) => encode_bytes(value.as_bytes(), out),
        Datum::Bytes(value) => encode_bytes(value, out),
        Datum::Query(value) => encode_bytes(Query::compared(value), out),
        Datum::Range(value) => encode_bytes(ranges::compared(value), out),
        Datum::Citext(value) => encode_bytes(crate::citext::folded(value).as_bytes(), out),
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Uuid(value) => out.extend_from_slice(value),
        Datum::Float(value) => {
            // One form for zero and one for NaN, which is then above infinity.
            let value = if value.is_nan() { f64::NAN } else { *value + 0.0 };
            if ty == Type::Float4 {
                let bits = (value as f32).to_bits();
                let mask = if bits >> 31 == 1 && !value.is_nan() { u32::MAX } else { 1 << 31 };
                let bits = if value.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { bits };
                out.extend_from_slice(&(bits ^ mask).to_be_bytes());
            } else {
                let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { value.to_bits() };
                let mask = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
                out.extend_from_slice(&(bits ^ mask).to_be_bytes());
            }
        }
        Datum::Numeric(value) => encode_numeric(value, out),
        Datum::Interval(value) => {
            // At most 73 bits and a sign.
            let bytes = (value.length_us() as u128 ^ 1 << 79).to_be_bytes();
            out.extend_from_slice(&bytes[6..]);
        }
        Datum::Jsonb(value) => {
            let mut bytes = Key::new();
            crate::jsonb::encode_key(value, encode_numeric, &mut bytes);
            encode_bytes(&bytes, out);
        }
        Datum::Row(row) => {
            let mut bytes = Key::new();
            for (_, ty, value) in row.fields() {
                encode(ty.ty, value, false, false, false, &mut bytes);
            }
            encode_bytes(&bytes, out);
        }
        Datum::Array(_) => debug_assert!(false, "no key has an array"),
        Datum::Null => debug_assert!(false, "NULL has been dealt with"),
    }
}

fn encode_bytes(bytes: &[u8], out: &mut Key) {
    if bytes.iter().fold(true, |plain, &byte| plain & (byte > 1)) {
        out.extend_from_slice(bytes);
    } else {
        for &byte in bytes {
            if byte > 1 {
                out.push(byte);
            } else {
                out.extend_from_slice(&[1, byte + 1]);
            }
        }
    }
    out.push(0);
}

/// As [`encode_numeric`] of what is not small, or has an exponent that is not.
#[cold]
fn encode_large_numeric(value: &Numeric, out: &mut Key) {
    let key = match value.key_form() {
        KeyForm::Zero => return out.push(NUMERIC_ZERO),
        KeyForm::Infinity => return out.extend_from_slice(&[NUMERIC_SPECIAL, INFINITY]),
        KeyForm::NegativeInfinity => return out.extend_from_slice(&[!NUMERIC_SPECIAL, !INFINITY]),
        KeyForm::NaN => return out.extend_from_slice(&[NUMERIC_SPECIAL, NAN]),
        KeyForm::Digits(key) => key,
    };
    let start = out.len();
    if key.exponent > NUMERIC_EXPONENT_MAX {
        out.push(NUMERIC_LONG);
        out.extend_from_slice(&(key.exponent as u16).to_be_bytes());
    } else if key.exponent < NUMERIC_EXPONENT_MIN {
        out.extend_from_slice(&[NUMERIC_LEAST, NUMERIC_TINY]);
        out.extend_from_slice(&((key.exponent + NUMERIC_TINY_BIAS) as u16).to_be_bytes());
    } else {
        out.push((i32::from(NUMERIC_LEAST) + key.exponent - NUMERIC_EXPONENT_MIN) as u8);
    }
    out.extend(key.digits.iter().map(|digit| digit + 1));
    out.push(0);
    if key.negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

pub(crate) fn encode_numeric(value: &Numeric, out: &mut Key) {
    let Some((mantissa, scale)) = value.small() else { return encode_large_numeric(value, out) };
    if mantissa == 0 {
        out.push(NUMERIC_ZERO);
        return;
    }
    let (mut rest, mut scale) = (mantissa.unsigned_abs(), i32::from(scale));
    // 38 digits are at most 20 digits in base 100, here from the last to the first.
    let mut digits = [0u8; 20];
    let mut count = 0;
    if scale % 2 == 1 {
        (digits[0], rest, scale, count) = ((rest % 10) as u8 * 10, rest / 10, scale + 1, 1);
    }
    while rest > u128::from(u64::MAX) {
        (digits[count], rest) = ((rest % 100) as u8, rest / 100);
        count += 1;
    }
    let mut rest = rest as u64;
    while rest > 0 {
        (digits[count], rest) = ((rest % 100) as u8, rest / 100);
        count += 1;
    }
    let exponent = count as i32 - 1 - scale / 2;
    let last = digits.iter().position(|&digit| digit != 0).unwrap_or(0);
    let flip = if mantissa < 0 { u8::MAX } else { 0 };
    out.push((i32::from(NUMERIC_LEAST) + exponent - NUMERIC_EXPONENT_MIN) as u8 ^ flip);
    for &digit in digits[last..count].iter().rev() {
        out.push((digit + 1) ^ flip);
    }
    out.push(flip);
}

/// Reads a value back and moves `input` behind it. Of the types that are not [`is_exact`], a
/// numeric comes back without zeros at the end of its fraction, a float without the sign of zero,
/// and an interval, `jsonb`, `tsquery` and `citext` not at all.
pub fn decode(
    ty: Type,
    descending: bool,
    nulls_first: bool,
    not_null_column: bool,
    input: &mut &[u8],
) -> Result<Datum> {
    if !not_null_column {
        let (&marker, rest) = input.split_first().ok_or_else(|| malformed("no marker"))?;
        *input = rest;
        match marker {
            NOT_NULL => {}
            NULL_FIRST if nulls_first => return Ok(Datum::Null),
            NULL_LAST if !nulls_first => return Ok(Datum::Null),
            _ => return Err(malformed("unknown marker")),
        }
    }
    let flip = if descending { u8::MAX } else { 0 };
    Ok(match ty.base() {
        Type::Bool => match take::<1>(input, flip)?[0] {
            0 => Datum::Bool(false),
            1 => Datum::Bool(true),
            _ => return Err(malformed("neither true nor false")),
        },
        Type::Int2 => Datum::Int(i64::from((u16::from_be_bytes(take(input, flip)?) ^ 1 << 15) as i16)),
        Type::Int4 => Datum::Int(i64::from((u32::from_be_bytes(take(input, flip)?) ^ 1 << 31) as i32)),
        Type::Oid => Datum::Int(i64::from(u32::from_be_bytes(take(input, flip)?))),
        Type::Int8 => Datum::Int(decode_i64(input, flip)?),
        Type::Time => Datum::Time(decode_i64(input, flip)?),
        Type::TimeTz => {
            let at_greenwich = decode_i64(input, flip)?;
            let west_s = (u32::from_be_bytes(take(input, flip)?) ^ 1 << 31) as i32;
            let micros = at_greenwich.checked_sub(i64::from(west_s) * 1_000_000);
            Datum::TimeTz(TimeTz { micros: micros.ok_or_else(|| malformed("time"))?, west_s })
        }
        Type::Timestamp | Type::TimestampTz => Datum::Timestamp(decode_i64(input, flip)?),
        Type::Date => Datum::Date((u32::from_be_bytes(take(input, flip)?) ^ 1 << 31) as i32),
        Type::Float4 => {
            let bits = u32::from_be_bytes(take(input, flip)?);
            let mask = if bits >> 31 == 1 { 1 << 31 } else { u32::MAX };
            Datum::Float(f64::from(f32::from_bits(bits ^ mask)))
        }
        Type::Float8 => {
            let bits = u64::from_be_bytes(take(input, flip)?);
            let mask = if bits >> 63 == 1 { 1 << 63 } else { u64::MAX };
            Datum::Float(f64::from_bits(bits ^ mask))
        }
        Type::Uuid => Datum::Uuid(take(input, flip)?),
        Type::Char | Type::Varchar | Type::Text | Type::Name | Type::Unknown => {
            let bytes = decode_bytes(input, flip)?;
            Datum::Text(CompactString::from_utf8(bytes).map_err(|_| malformed("not UTF-8"))?)
        }
        Type::Bytea => Datum::Bytes(decode_bytes(input, flip)?.into_vec().into_boxed_slice()),
        Type::Numeric => Datum::Numeric(decode_numeric(input, flip)?),
        ty if ty.bounds().is_some() => ranges::of_key(&decode_bytes(input, flip)?),
        _ => return Err(Error::internal(format!("the type {ty} cannot be read from a key"))),
    })
}

fn take<const N: usize>(input: &mut &[u8], flip: u8) -> Result<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk::<N>().ok_or_else(|| malformed("too short"))?;
    *input = rest;
    Ok(bytes.map(|byte| byte ^ flip))
}

fn decode_i64(input: &mut &[u8], flip: u8) -> Result<i64> {
    Ok((u64::from_be_bytes(take(input, flip)?) ^ 1 << 63) as i64)
}

fn decode_bytes(input: &mut &[u8], flip: u8) -> Result<SmallVec<[u8; 64]>> {
    let end = memchr::memchr(flip, input).ok_or_else(|| malformed("no end"))?;
    if flip == 0 && memchr::memchr(1, &input[..end]).is_none() {
        let bytes = SmallVec::from_slice(&input[..end]);
        *input = &input[end + 1..];
        return Ok(bytes);
    }
    let mut bytes = SmallVec::with_capacity(end);
    let mut escaped = false;
    for &byte in &input[..end] {
        match (byte ^ flip, escaped) {
            (1, false) => escaped = true,
            (byte @ (1 | 2), true) => {
                bytes.push(byte - 1);
                escaped = false;
            }
            (_, true) => return Err(malformed("unknown escape")),
            (byte, false) => bytes.push(byte),
        }
    }
    if escaped {
        return Err(malformed("unknown escape"));
    }
    *input = &input[end + 1..];
    Ok(bytes)
}

fn decode_numeric(input: &mut &[u8], flip: u8) -> Result<Numeric> {
    let [first] = take::<1>(input, flip)?;
    if first == NUMERIC_ZERO {
        return Ok(Numeric::ZERO);
    }
    let negative = first < NUMERIC_ZERO;
    let flip = if negative { !flip } else { flip };
    let first = if negative { !first } else { first };
    let mut exponent = i32::from(first) - i32::from(NUMERIC_LEAST) + NUMERIC_EXPONENT_MIN;
    match first {
        NUMERIC_SPECIAL => {
            return match take::<1>(input, flip)?[0] {
                INFINITY if negative => Ok(Numeric::NEGATIVE_INFINITY),
                INFINITY => Ok(Numeric::INFINITY),
                NAN if !negative => Ok(Numeric::NAN),
                _ => Err(malformed("numeric")),
            };
        }
        NUMERIC_LONG => exponent = i32::from(u16::from_be_bytes(take(input, flip)?)),
        NUMERIC_LEAST if input.first() == Some(&(NUMERIC_TINY ^ flip)) => {
            *input = &input[1..];
            exponent = i32::from(u16::from_be_bytes(take(input, flip)?)) - NUMERIC_TINY_BIAS;
        }
        NUMERIC_ZERO => return Err(malformed("numeric")),
        _ => {}
    }
    // Most digits fit here.
    let mut digits: SmallVec<[u8; 20]> = SmallVec::new();
    loop {
        match take::<1>(input, flip)?[0] {
            0 => break,
            digit @ 1..=100 => digits.push(digit - 1),
            _ => return Err(malformed("numeric digit")),
        }
    }
    if !matches!((digits.first(), digits.last()), (Some(1..), Some(1..))) {
        return Err(malformed("numeric digits"));
    }
    if digits.len() <= 18 && (-50..=17).contains(&exponent) {
        let mantissa = digits.iter().fold(0i128, |mantissa, &digit| mantissa * 100 + i128::from(digit));
        // The value is mantissa * 100^(exponent - count + 1).
        let (mut mantissa, mut scale) = (mantissa, 2 * (digits.len() as i32 - 1 - exponent));
        if scale > 0 && mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale - 1);
        }
        while scale < 0 {
            (mantissa, scale) = (mantissa * 100, scale + 2);
        }
        let mantissa = if negative { -mantissa } else { mantissa };
        return Numeric::checked(mantissa, scale as u32).map_err(|_| malformed("numeric digits"));
    }
    let key = KeyDigits { negative, exponent, digits: digits.into_vec() };
    Numeric::of_key_digits(&key).map_err(|_| malformed("numeric digits"))
}

/// The smallest key above all keys that begin with `prefix`; `None` if there is none, as after `FF
/// FF`.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = Key::from_slice(&prefix[..=last]);
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;
    use crate::interval::Interval;
    use crate::operators::compare;
    use crate::value::random::random_datum;

    const TYPES: [Type; 32] = [
        Type::Citext,
        Type::Hstore,
        Type::Int4Range,
        Type::NumRange,
        Type::DateMultirange,
        Type::TimeTz,
        Type::Money,
        Type::Xid8,
        Type::PgLsn,
        Type::Tid,
        Type::Bit,
        Type::VarBit,
        Type::Jsonb,
        Type::Bool,
        Type::Int2,
        Type::Int4,
        Type::Int8,
        Type::Float4,
        Type::Float8,
        Type::Numeric,
        Type::Char,
        Type::Varchar,
        Type::Text,
        Type::Name,
        Type::Bytea,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::TimestampTz,
        Type::Interval,
        Type::Uuid,
        Type::Oid,
    ];

    fn key(ty: Type, value: &Datum, descending: bool) -> Key {
        let mut out = Key::new();
        encode(ty, value, descending, true, true, &mut out);
        out
    }

    #[test]
    fn bytes_sort_as_values_do() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in TYPES {
            for _ in 0..20_000 {
                let (a, b) = (random_datum(ty, &mut random), random_datum(ty, &mut random));
                let expected = compare(&a, &b);
                assert_eq!(key(ty, &a, false).cmp(&key(ty, &b, false)), expected, "{ty} {a:?} {b:?}");
                assert_eq!(key(ty, &a, true).cmp(&key(ty, &b, true)), expected.reverse(), "{ty} {a:?} {b:?}");
                if expected != Ordering::Equal {
                    assert!(!key(ty, &a, false).starts_with(&key(ty, &b, false)), "{ty} {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn the_bytes_never_change() {
        let numeric = |text| Datum::Numeric(Numeric::parse(text).unwrap());
        let cases: [(Type, Datum, &[u8]); 24] = [
            (Type::Bool, Datum::Bool(true), &[1]),
            (Type::Int2, Datum::Int(-2), &[0x7f, 0xfe]),
            (Type::Int4, Datum::Int(7), &[0x80, 0, 0, 7]),
            (Type::Int8, Datum::Int(-1), &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (Type::Oid, Datum::Int(7), &[0, 0, 0, 7]),
            (Type::Float4, Datum::Float(1.0), &[0xbf, 0x80, 0, 0]),
            (Type::Float8, Datum::Float(-2.0), &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (Type::Text, Datum::text("a\0b\x01"), &[b'a', 1, 1, b'b', 1, 2, 0]),
            (Type::Bytea, Datum::Bytes([2].into()), &[2, 0]),
            (Type::Date, Datum::Date(1), &[0x80, 0, 0, 1]),
            (Type::TimestampTz, Datum::Timestamp(1), &[0x80, 0, 0, 0, 0, 0, 0, 1]),
            (Type::Uuid, Datum::Uuid([9; 16]), &[9; 16]),
            (
                Type::Interval,
                Datum::Interval(Interval { months: 0, days: 0, micros: 1 }),
                &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            ),
            (Type::Numeric, numeric("0.00"), &[0x80]),
            (Type::Numeric, numeric("12.5"), &[0xb3, 13, 51, 0]),
            (Type::Numeric, numeric("-1200"), &[!0xb4, !13, !0]),
            (Type::Numeric, numeric("5e40"), &[0xc7, 6, 0]),
            (Type::Numeric, numeric("3e150"), &[0xfe, 0, 75, 4, 0]),
            (Type::Numeric, numeric("-3e150"), &[!0xfe, !0, !75, !4, !0]),
            (Type::Numeric, numeric("7e-102"), &[0x81, 1, 0x26, 0xdd, 8, 0]),
            (Type::Numeric, numeric("7e-100"), &[0x81, 8, 0]),
            (Type::Numeric, numeric("Infinity"), &[0xff, 0]),
            (Type::Numeric, numeric("NaN"), &[0xff, 1]),
            (Type::Numeric, numeric("-Infinity"), &[0, 0xff]),
        ];
        for (ty, value, bytes) in cases {
            let mut out = Key::new();
            encode(ty, &value, false, true, true, &mut out);
            assert_eq!(&out[..], bytes, "{ty} {value:?}");
        }
        let nullable = |value: &Datum, descending, nulls_first| {
            let mut out = Key::new();
            encode(Type::Int4, value, descending, nulls_first, false, &mut out);
            out.to_vec()
        };
        assert_eq!(nullable(&Datum::Int(7), true, false), [1, 0x7f, 0xff, 0xff, 0xf8]);
        assert_eq!(nullable(&Datum::Null, false, true), [0]);
        assert_eq!(nullable(&Datum::Null, true, false), [2]);
    }

    #[test]
    fn values_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in TYPES.into_iter().filter(|&ty| !matches!(ty, Type::Interval | Type::Jsonb | Type::Citext)) {
            for _ in 0..20_000 {
                let value = if random.u8(..) < 20 { Datum::Null } else { random_datum(ty, &mut random) };
                let (descending, nulls_first) = (random.bool(), random.bool());
                let mut out = Key::new();
                encode(ty, &value, descending, nulls_first, false, &mut out);
                out.extend_from_slice(b"\x01\xffrest");
                let mut input = &out[..];
                let decoded = decode(ty, descending, nulls_first, false, &mut input).unwrap();
                assert_eq!(input, b"\x01\xffrest");
                if is_exact(ty) {
                    assert_eq!(decoded, value, "{ty}");
                } else if !value.is_null() {
                    assert_eq!(compare(&decoded, &value), Ordering::Equal, "{ty} {value:?}");
                }
            }
        }
    }

    #[test]
    fn nulls_go_where_they_should() {
        let one = Datum::Int(1);
        for descending in [false, true] {
            for nulls_first in [false, true] {
                let (mut null, mut value) = (Key::new(), Key::new());
                encode(Type::Int4, &Datum::Null, descending, nulls_first, false, &mut null);
                encode(Type::Int4, &one, descending, nulls_first, false, &mut value);
                assert_eq!(null < value, nulls_first);
            }
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let ty = Type::ALL[random.usize(..Type::ALL.len())];
            let _ = decode(ty, random.bool(), random.bool(), random.bool(), &mut &bytes[..]);
        }
    }

    #[test]
    fn prefix_end_is_above_every_key_with_the_prefix() {
        assert_eq!(prefix_end(b"ab").unwrap().as_slice(), b"ac");
        assert_eq!(prefix_end(b"a\xff\xff").unwrap().as_slice(), b"b");
        assert!(prefix_end(b"\xff\xff").is_none());
        assert!(prefix_end(b"").is_none());
    }

    #[test]
    fn intervals_at_the_limits_keep_their_order() {
        let least = Interval { months: i32::MIN, days: i32::MIN, micros: i64::MIN };
        let most = Interval { months: i32::MAX, days: i32::MAX, micros: i64::MAX };
        let key = |interval| key(Type::Interval, &Datum::Interval(interval), false);
        assert!(key(least) < key(Interval::default()));
        assert!(key(Interval::default()) < key(most));
    }
}
