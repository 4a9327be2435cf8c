//! Numbers by which PostgreSQL names transactions, places of the log, and places of rows: `xid8`,
//! `pg_lsn`, `tid`.
//!
//! ```text
//! xid8, pg_lsn := a number of 64 bits without a sign, its first bit flipped
//! tid          := block * 65536 + offset
//! ```
//! So all of them are kept, compared, hashed and put into keys as a `bigint` is.

use std::fmt::Write;

use crate::error::{Error, Result, SqlState};
use crate::letters::is_blank;
use crate::numeric::Numeric;
use crate::types::Type;

const FLIPPED: u64 = 1 << 63;

#[cold]
fn bad_syntax(ty: Type, text: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type {ty}: \"{text}\""))
}

/// A number without a sign, as it is kept.
#[must_use]
pub const fn of_u64(number: u64) -> i64 {
    (number ^ FLIPPED) as i64
}

/// The number without a sign that is kept so.
#[must_use]
pub const fn to_u64(kept: i64) -> u64 {
    kept as u64 ^ FLIPPED
}

/// Reads a number as C's `strtoull` does: with a sign, of base 16 behind `0x` and 8 behind `0`; what
/// is no digit ends it.
fn parse_xid8(text: &str) -> u64 {
    let text = text.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (radix, digits) = match hexadecimal.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit())) {
        Some(rest) => (16, rest),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let mut number = Some(0u64);
    for digit in digits.chars().map_while(|c| c.to_digit(radix)) {
        number = number.and_then(|number| number.checked_mul(radix.into())?.checked_add(digit.into()));
    }
    // Of what is too large the sign does not count.
    number.map_or(u64::MAX, |number| if negative { number.wrapping_neg() } else { number })
}

/// `X/X`, each of up to eight hexadecimal digits.
fn parse_lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let half = |digits: &str| {
        let fits = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| u64::from_str_radix(digits, 16).ok())?
    };
    Some(half(high)? << 32 | half(low)?)
}

/// `(block,offset)`
fn parse_tid(text: &str) -> Option<i64> {
    let inner = text.strip_prefix('(')?;
    let (block, rest) = inner.split_once(',')?;
    let (offset, _) = rest.split_once(')')?;
    let block: i64 = block.trim_start_matches(' ').parse().ok()?;
    let offset: u16 = offset.trim_start_matches(' ').parse().ok()?;
    let block = u32::try_from(block).or_else(|_| i32::try_from(block).map(|block| block as u32)).ok()?;
    Some(i64::from(block) << 16 | i64::from(offset))
}

/// Reads a value of one of the types.
///
/// # Errors
/// 22P02 for texts that are none.
pub fn parse(ty: Type, text: &str) -> Result<i64> {
    match ty {
        Type::Xid8 => Ok(of_u64(parse_xid8(text))),
        Type::PgLsn => parse_lsn(text).map(of_u64).ok_or_else(|| bad_syntax(ty, text)),
        _ => parse_tid(text).ok_or_else(|| bad_syntax(ty, text)),
    }
}

/// Appends a value's text.
pub fn write(ty: Type, kept: i64, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match ty {
        Type::Xid8 => write!(out, "{}", to_u64(kept)),
        Type::PgLsn => write!(out, "{:X}/{:X}", to_u64(kept) >> 32, to_u64(kept) as u32),
        _ => write!(out, "({},{})", kept >> 16, kept as u16),
    };
}

/// Reads PostgreSQL's binary form: eight bytes, or six of a `tid`. `None` if they are none.
#[must_use]
pub fn parse_binary(ty: Type, bytes: &[u8]) -> Option<i64> {
    match ty {
        Type::Tid => {
            let (block, offset) = bytes.split_first_chunk::<4>()?;
            let offset = u16::from_be_bytes(offset.try_into().ok()?);
            Some(i64::from(u32::from_be_bytes(*block)) << 16 | i64::from(offset))
        }
        _ => Some(of_u64(u64::from_be_bytes(bytes.try_into().ok()?))),
    }
}

/// Appends PostgreSQL's binary form.
pub fn write_binary(ty: Type, kept: i64, out: &mut Vec<u8>) {
    match ty {
        Type::Tid => {
            out.extend_from_slice(&((kept >> 16) as u32).to_be_bytes());
            out.extend_from_slice(&(kept as u16).to_be_bytes());
        }
        _ => out.extend_from_slice(&to_u64(kept).to_be_bytes()),
    }
}

/// How far a place of the log is behind another.
///
/// # Errors
/// None: every distance is a number.
pub fn lsn_distance(to: i64, from: i64) -> Result<Numeric> {
    Ok(Numeric::from(i128::from(to_u64(to)) - i128::from(to_u64(from))))
}

/// The place of the log that a number is.
///
/// # Errors
/// 22023 outside of what places there are, 0A000 for NaN.
pub fn lsn_of(number: &Numeric) -> Result<i64> {
    if !number.is_finite() {
        let what = if number.is_nan() { "NaN" } else { "infinity" };
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to pg_lsn")));
    }
    let place = number.to_i128_rounded().and_then(|place| u64::try_from(place).ok());
    place.map(of_u64).ok_or_else(out_of_range)
}

#[cold]
fn out_of_range() -> Error {
    Error::new(SqlState::BAD_PARAMETER, "pg_lsn out of range")
}

/// A place of the log so many bytes further.
///
/// # Errors
/// 22023 outside of what places there are, 0A000 for NaN.
pub fn lsn_add(from: i64, bytes: &Numeric, subtracts: bool) -> Result<i64> {
    if bytes.is_nan() {
        let message = if subtracts { "cannot subtract NaN from pg_lsn" } else { "cannot add NaN to pg_lsn" };
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let from = Numeric::from(i128::from(to_u64(from)));
    let place = if subtracts { from.sub(bytes)? } else { from.add(bytes)? };
    let place = place.to_i128_rounded().and_then(|place| u64::try_from(place).ok());
    place.map(of_u64).ok_or_else(out_of_range)
}
