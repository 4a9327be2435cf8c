//! The bytes of `numeric`: of what is not small in rows and documents, of all in PostgreSQL's
//! binary form, and the digits that keys have.
//!
//! ```text
//! stored large := kind [scale magnitude]
//!   kind       := 00 NaN | 01 Infinity | 02 -Infinity | 03 above zero | 04 below zero
//!   scale      := 2 bytes, little-endian
//!   magnitude  := little-endian, as many bytes as it has
//! wire         := count weight sign scale group ...         2 bytes each, big-endian
//!   sign       := 0000 | 4000 negative | C000 NaN | D000 Infinity | F000 -Infinity
//!   group      := four digits; the first counts 10,000^weight
//! ```
//! ON DISK: the stored form never changes.

use std::sync::Arc;

use dashu_int::UBig;

use super::wide::Wide;
use super::{Form, Large, Numeric, SMALL_DIGITS_MAX, overflow};
use crate::error::{Error, Result, SqlState};

/// Instead of the scale of a small value: the stored form of a large one follows. ON DISK.
pub const LARGE_SCALE: u8 = 127;

// ON DISK: never renumber.
const NAN: u8 = 0;
const INFINITY: u8 = 1;
const NEGATIVE_INFINITY: u8 = 2;
const POSITIVE: u8 = 3;
const NEGATIVE: u8 = 4;

const WIRE_NEGATIVE: u16 = 0x4000;
const WIRE_NAN: u16 = 0xC000;
const WIRE_INFINITY: u16 = 0xD000;
const WIRE_NEGATIVE_INFINITY: u16 = 0xF000;
/// The scale that PostgreSQL sends with an infinity.
const WIRE_INFINITE_SCALE: u16 = 32;
const WIRE_SCALE_MAX: u16 = 0x3fff;

/// The digits of a value that is neither zero nor special, for keys.
pub(crate) struct KeyDigits {
    pub(crate) negative: bool,
    /// The power of 100 that the first digit counts.
    pub(crate) exponent: i32,
    /// In base 100, the first and the last not zero.
    pub(crate) digits: Vec<u8>,
}

/// What a key has of a value that is not small.
pub(crate) enum KeyForm {
    Zero,
    Digits(KeyDigits),
    Infinity,
    NegativeInfinity,
    NaN,
}

/// Values in PostgreSQL's binary form.
pub enum Wire {}

impl Numeric {
    /// Appends the stored form of what is not small; nothing of what is.
    pub fn write_large(&self, out: &mut Vec<u8>) {
        let Form::Large(large) = &self.0 else { return };
        match large {
            Large::NaN => out.push(NAN),
            Large::Infinity => out.push(INFINITY),
            Large::NegativeInfinity => out.push(NEGATIVE_INFINITY),
            Large::Finite(wide) => {
                out.push(if wide.is_negative() { NEGATIVE } else { POSITIVE });
                out.extend_from_slice(&(wide.scale as u16).to_le_bytes());
                out.extend_from_slice(&wide.magnitude().to_le_bytes());
            }
        }
    }

    /// Reads a stored form, which is all of `bytes`. `None` if they are none.
    #[must_use]
    pub fn read_large(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let negative = match kind {
            NAN if rest.is_empty() => return Some(Self::NAN),
            INFINITY if rest.is_empty() => return Some(Self::INFINITY),
            NEGATIVE_INFINITY if rest.is_empty() => return Some(Self::NEGATIVE_INFINITY),
            POSITIVE => false,
            NEGATIVE => true,
            _ => return None,
        };
        let (scale, magnitude) = rest.split_first_chunk::<2>()?;
        let scale = u32::from(u16::from_le_bytes(*scale));
        let value = Self::of_large(negative, UBig::from_le_bytes(magnitude), scale).ok()?;
        // What is small has its own form.
        matches!(value.0, Form::Large(_)).then_some(value)
    }

    /// What a key has of it.
    pub(crate) fn key_form(&self) -> KeyForm {
        let wide = match &self.0 {
            Form::Small(small) => Arc::new(Wide::of_small(*small)),
            Form::Large(Large::Finite(wide)) => Arc::clone(wide),
            Form::Large(Large::Infinity) => return KeyForm::Infinity,
            Form::Large(Large::NegativeInfinity) => return KeyForm::NegativeInfinity,
            Form::Large(Large::NaN) => return KeyForm::NaN,
        };
        if wide.is_zero() {
            return KeyForm::Zero;
        }
        let mut text = wide.digits();
        let mut scale = wide.scale as i32;
        if scale % 2 == 1 {
            text.push('0');
            scale += 1;
        }
        if text.len() % 2 == 1 {
            text.insert(0, '0');
        }
        let all = text.as_bytes().as_chunks::<2>().0;
        let first = all.iter().position(|pair| pair != b"00").unwrap_or(0);
        let last = all.iter().rposition(|pair| pair != b"00").unwrap_or(0);
        let digits = all[first..=last].iter().map(|[ten, one]| (ten - b'0') * 10 + (one - b'0')).collect();
        let exponent = (all.len() - 1 - first) as i32 - scale / 2;
        KeyForm::Digits(KeyDigits { negative: wide.is_negative(), exponent, digits })
    }

    /// The value of a key's digits: the first is not zero, and counts 100 to the power of the
    /// exponent. Without zeros at the end of the fraction.
    pub(crate) fn of_key_digits(key: &KeyDigits) -> Result<Self> {
        let mut text: Vec<u8> = key.digits.iter().flat_map(|digit| [b'0' + digit / 10, b'0' + digit % 10]).collect();
        let mut exponent = 2 * (i64::from(key.exponent) + 1 - key.digits.len() as i64);
        if exponent < 0 && text.last() == Some(&b'0') {
            text.pop();
            exponent += 1;
        }
        super::of_digits(key.negative, &text, &[], exponent)
    }
}

impl Wire {
    /// Appends a value.
    pub fn write(value: &Numeric, out: &mut Vec<u8>) {
        let mut put = |words: &[u16]| words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        match &value.0 {
            Form::Small(small) => Self::write_small(small.mantissa(), u32::from(small.scale()), out),
            Form::Large(Large::NaN) => put(&[0, 0, WIRE_NAN, 0]),
            Form::Large(Large::Infinity) => put(&[0, 0, WIRE_INFINITY, WIRE_INFINITE_SCALE]),
            Form::Large(Large::NegativeInfinity) => put(&[0, 0, WIRE_NEGATIVE_INFINITY, WIRE_INFINITE_SCALE]),
            Form::Large(Large::Finite(wide)) => {
                let digits = wide.digits();
                let point = digits.len() - wide.scale as usize;
                let lead = (4 - point % 4) % 4;
                let end = (4 - wide.scale as usize % 4) % 4;
                let text = "0".repeat(lead) + &digits + &"0".repeat(end);
                let groups: Vec<u16> = text
                    .as_bytes()
                    .chunks(4)
                    .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
                    .collect();
                let first = groups.iter().position(|&group| group != 0).unwrap_or(groups.len());
                let last = groups.iter().rposition(|&group| group != 0).map_or(first, |last| last + 1);
                let weight = (point + lead) as i32 / 4 - 1 - first as i32;
                let weight = if first == groups.len() { 0 } else { weight as i16 as u16 };
                let sign = if wide.is_negative() { WIRE_NEGATIVE } else { 0 };
                put(&[(last - first) as u16, weight, sign, wide.scale as u16]);
                put(&groups[first..last]);
            }
        }
    }

    fn write_small(mantissa: i128, scale: u32, out: &mut Vec<u8>) {
        let mut rest = mantissa.unsigned_abs();
        // 38 digits and the alignment of the fraction fill at most 11 groups.
        let mut groups = [0u16; 12];
        let mut count = 0;
        // The last group's digits are those that the scale leaves over.
        let partial = scale % 4;
        if partial != 0 {
            let unit = 10u128.pow(partial);
            groups[0] = ((rest % unit) as u16) * 10u16.pow(4 - partial);
            (rest, count) = (rest / unit, 1);
        }
        while rest > 0 {
            (groups[count], rest) = ((rest % 10_000) as u16, rest / 10_000);
            count += 1;
        }
        while count > 0 && groups[count - 1] == 0 {
            count -= 1;
        }
        let first = groups[..count].iter().position(|&group| group != 0).unwrap_or(count);
        let weight = count as i32 - 1 - scale.div_ceil(4) as i32;
        let digits = &groups[first..count];
        out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
        out.extend_from_slice(&(if digits.is_empty() { 0 } else { weight as i16 }).to_be_bytes());
        out.extend_from_slice(&if mantissa < 0 { WIRE_NEGATIVE } else { 0 }.to_be_bytes());
        out.extend_from_slice(&(scale as u16).to_be_bytes());
        for digit in digits.iter().rev() {
            out.extend_from_slice(&digit.to_be_bytes());
        }
    }

    /// Reads a value: digits behind those that the scale allows are cut off.
    ///
    /// # Errors
    /// 08P01 if there are too few bytes, 22P03 if they are not of this form, 22003 for too many
    /// digits.
    pub fn parse(bytes: &[u8]) -> Result<Numeric> {
        let bad = |message: &str| Error::new(SqlState::BAD_BINARY, message);
        let too_short = crate::error::too_short;
        let (words, rest) = bytes.as_chunks::<2>();
        let word = |index: usize| words.get(index).map(|word| u16::from_be_bytes(*word)).ok_or_else(too_short);
        let (count, weight, sign, scale) = (usize::from(word(0)?), word(1)? as i16, word(2)?, word(3)?);
        if words.len() < count + 4 {
            return Err(too_short());
        }
        if !rest.is_empty() || words.len() != count + 4 {
            return Err(bad("incorrect binary data format"));
        }
        let negative = match sign {
            0 => false,
            WIRE_NEGATIVE => true,
            WIRE_NAN => return Ok(Numeric::NAN),
            WIRE_INFINITY => return Ok(Numeric::INFINITY),
            WIRE_NEGATIVE_INFINITY => return Ok(Numeric::NEGATIVE_INFINITY),
            _ => return Err(bad("invalid sign in external \"numeric\" value")),
        };
        if scale > WIRE_SCALE_MAX {
            return Err(bad("invalid scale in external \"numeric\" value"));
        }
        // The digits from the first group's first to the last that the scale allows.
        let length = 4 * (i64::from(weight) + 1) + i64::from(scale);
        let (mut digits, mut mantissa) = (Vec::new(), 0i128);
        let is_short = length <= i64::from(SMALL_DIGITS_MAX);
        for group in &words[4..] {
            let group = u16::from_be_bytes(*group);
            if group >= 10_000 {
                return Err(bad("invalid digit in external \"numeric\" value"));
            }
            let group = [group / 1000, group / 100 % 10, group / 10 % 10, group % 10];
            digits.extend(group.map(|digit| b'0' + digit as u8));
        }
        let length = usize::try_from(length).unwrap_or(0);
        if length > digits.len() + super::DIGITS_BEFORE_MAX as usize + super::SCALE_MAX as usize {
            return Err(overflow());
        }
        digits.resize(length, b'0');
        if is_short && u32::from(scale) <= super::SMALL_SCALE_MAX {
            for digit in &digits {
                mantissa = mantissa * 10 + i128::from(digit - b'0');
            }
            return Numeric::checked(if negative { -mantissa } else { mantissa }, u32::from(scale));
        }
        super::of_digits(negative, &digits, &[], -i64::from(scale))
    }
}
