//! Strings of bits.

use super::{Function, bytes, check_length, f, int};
use crate::bits::{Bits, Builder};
use crate::error::{Error, Result, SqlState};
use crate::types::Type::{Bit, Int4, Int8, VarBit};
use crate::value::Datum;

const BAD_SUBSTRING: SqlState = SqlState("22011");

fn bits(value: &Datum) -> Result<Bits<'_>> {
    bytes(value).map(Bits::new)
}

fn combine(args: &[&Datum], name: &str, operation: fn(u8, u8) -> u8) -> Result<Datum> {
    combined(bits(args[0])?, bits(args[1])?, operation, name)
}

/// What an operation makes of the bits of two strings; `name` is what it does with them.
///
/// # Errors
/// 22026 for strings of different lengths.
pub(crate) fn combined(a: Bits<'_>, b: Bits<'_>, operation: fn(u8, u8) -> u8, name: &str) -> Result<Datum> {
    if a.len() != b.len() {
        return Err(Error::new(SqlState("22026"), format!("cannot {name} bit strings of different sizes")));
    }
    a.combined(b, operation)
}

/// Moved so many places to the left, zeros coming in; below zero, to the right.
fn shifted(value: &Datum, places: i64) -> Result<Datum> {
    let bits = bits(value)?;
    let length = bits.len();
    let count = usize::try_from(places.unsigned_abs()).unwrap_or(length).min(length);
    let zeros = std::iter::repeat_n(false, count);
    let mut out = Builder::for_bits(length);
    if places >= 0 {
        out.extend(bits.part(count, length).chain(zeros))?;
    } else {
        out.extend(zeros.chain(bits.part(0, length - count)))?;
    }
    Ok(out.finish())
}

fn joined(parts: &[Bits<'_>]) -> Result<Datum> {
    let length = parts.iter().map(|part| part.len()).sum();
    check_length(length / 8)?;
    let mut out = Builder::for_bits(length);
    for part in parts {
        out.extend(part.iter())?;
    }
    Ok(out.finish())
}

/// The part from a place, counted from 1, on; of so many bits, or to the end.
fn substring(value: &Datum, from: i64, count: Option<i64>) -> Result<Datum> {
    let bits = bits(value)?;
    let length = bits.len() as i64;
    let end = match count {
        Some(count) if count < 0 => return Err(Error::new(BAD_SUBSTRING, "negative substring length not allowed")),
        Some(count) => (from + count).min(length + 1),
        None => length + 1,
    };
    let from = from.max(1);
    let mut out = Builder::default();
    if from < end {
        out.extend(bits.part(from as usize - 1, (end - from) as usize))?;
    }
    Ok(out.finish())
}

fn overlay(args: &[&Datum], from: i64, count: i64) -> Result<Datum> {
    if from <= 0 {
        return Err(Error::new(BAD_SUBSTRING, "negative substring length not allowed"));
    }
    let behind = from + count;
    if i32::try_from(behind).is_err() {
        return Err(Error::new(SqlState::OUT_OF_RANGE, "integer out of range"));
    }
    let (before, after) = (substring(args[0], 1, Some(from - 1))?, substring(args[0], behind, None)?);
    joined(&[bits(&before)?, bits(args[1])?, bits(&after)?])
}

/// Where the first string is in the second, counted from 1; 0 if nowhere.
fn position(part: &Datum, value: &Datum) -> Result<Datum> {
    let (part, value) = (bits(part)?, bits(value)?);
    let (length, part_length) = (value.len(), part.len());
    if length == 0 || part_length > length {
        return Ok(Datum::Int(0));
    }
    let wanted: Vec<bool> = part.iter().collect();
    let all: Vec<bool> = value.iter().collect();
    for at in 0..=length - part_length {
        crate::pulse::work(1)?;
        // Long beginnings that agree take long.
        let mut pieces = wanted.chunks(4096).zip(all[at..].chunks(4096));
        let agrees = loop {
            match pieces.next() {
                None => break true,
                Some((a, b)) if a == &b[..a.len().min(b.len())] => crate::pulse::work(a.len() / 64)?,
                Some(_) => break false,
            }
        };
        if agrees {
            return Ok(Datum::Int(at as i64 + 1));
        }
    }
    Ok(Datum::Int(0))
}

fn place(at: i64, bits: Bits<'_>) -> Result<usize> {
    usize::try_from(at).ok().filter(|&at| at < bits.len()).ok_or_else(|| {
        let last = bits.len() as i64 - 1;
        Error::new(SqlState("2202E"), format!("bit index {at} out of valid range (0..{last})"))
    })
}

fn set(args: &[&Datum]) -> Result<Datum> {
    let (bits, at, new) = (bits(args[0])?, int(args[1])?, int(args[2])?);
    let at = place(at, bits)?;
    if !matches!(new, 0 | 1) {
        return Err(Error::new(SqlState::BAD_PARAMETER, "new bit must be 0 or 1"));
    }
    let mut out = Builder::for_bits(bits.len());
    out.extend(bits.iter().enumerate().map(|(index, bit)| if index == at { new == 1 } else { bit }))?;
    Ok(out.finish())
}

pub(super) const TABLE: &[Function] = &[
    f("&", &[Bit, Bit], Bit, |a, _| combine(a, "AND", |a, b| a & b)),
    f("|", &[Bit, Bit], Bit, |a, _| combine(a, "OR", |a, b| a | b)),
    f("#", &[Bit, Bit], Bit, |a, _| combine(a, "XOR", |a, b| a ^ b)),
    f("bitand", &[Bit, Bit], Bit, |a, _| combine(a, "AND", |a, b| a & b)),
    f("bitor", &[Bit, Bit], Bit, |a, _| combine(a, "OR", |a, b| a | b)),
    f("bitxor", &[Bit, Bit], Bit, |a, _| combine(a, "XOR", |a, b| a ^ b)),
    f("~", &[Bit], Bit, |a, _| bits(a[0])?.negated()),
    f("bitnot", &[Bit], Bit, |a, _| bits(a[0])?.negated()),
    f("<<", &[Bit, Int4], Bit, |a, _| shifted(a[0], int(a[1])?)),
    f(">>", &[Bit, Int4], Bit, |a, _| shifted(a[0], -int(a[1])?)),
    f("bitshiftleft", &[Bit, Int4], Bit, |a, _| shifted(a[0], int(a[1])?)),
    f("bitshiftright", &[Bit, Int4], Bit, |a, _| shifted(a[0], -int(a[1])?)),
    f("||", &[VarBit, VarBit], VarBit, |a, _| joined(&[bits(a[0])?, bits(a[1])?])),
    f("bitcat", &[VarBit, VarBit], VarBit, |a, _| joined(&[bits(a[0])?, bits(a[1])?])),
    f("length", &[Bit], Int4, |a, _| Ok(Datum::Int(bits(a[0])?.len() as i64))),
    f("bit_length", &[Bit], Int4, |a, _| Ok(Datum::Int(bits(a[0])?.len() as i64))),
    f("octet_length", &[Bit], Int4, |a, _| Ok(Datum::Int(bits(a[0])?.len().div_ceil(8) as i64))),
    f("bit_count", &[Bit], Int8, |a, _| bits(a[0])?.count_ones().map(Datum::Int)),
    f("get_bit", &[Bit, Int4], Int4, |a, _| {
        let bits = bits(a[0])?;
        Ok(Datum::Int(i64::from(bits.get(place(int(a[1])?, bits)?).unwrap_or(false))))
    }),
    f("set_bit", &[Bit, Int4, Int4], Bit, |a, _| set(a)),
    f("position", &[Bit, Bit], Int4, |a, _| position(a[1], a[0])),
    f("substring", &[Bit, Int4], Bit, |a, _| substring(a[0], int(a[1])?, None)),
    f("substring", &[Bit, Int4, Int4], Bit, |a, _| substring(a[0], int(a[1])?, Some(int(a[2])?))),
    f("overlay", &[Bit, Bit, Int4], Bit, |a, _| {
        let count = bits(a[1])?.len() as i64;
        overlay(a, int(a[2])?, count)
    }),
    f("overlay", &[Bit, Bit, Int4, Int4], Bit, |a, _| overlay(a, int(a[2])?, int(a[3])?)),
];
