//! `numeric`: exact decimals of at most 38 significant digits.
//!
//! ```text
//! value = mantissa / 10^scale      |mantissa| < 10^38      scale <= 100
//! ```
//! The scale is how many digits are shown after the point: 1.0 and 1.00 are equal, but print as
//! they came. Results have PostgreSQL's scales, rounded half away from zero.
//!
//! Invariants: both bounds hold for every `Numeric`. What does not fit them is error 22003, never a
//! wrong digit: zeros at the end of the fraction are dropped first, as that changes the form only.
//! NaN and the infinities are not supported.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::error::{Error, Result, SqlState};

mod transcendental;

/// The most significant digits that a value has.
pub const DIGITS_MAX: u32 = 38;
/// The most digits after the point.
pub const SCALE_MAX: u32 = 100;
/// Every mantissa is below this.
const MANTISSA_END: u128 = 10u128.pow(DIGITS_MAX);
/// PostgreSQL's least number of significant digits of an inexact result.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;

/// An exact decimal; two halves of the mantissa keep its alignment, and so every value's size, at 8
/// bytes.
#[derive(Clone, Copy)]
pub struct Numeric {
    high: i64,
    low: u64,
    scale: u8,
}

const _: () = assert!(size_of::<Numeric>() == 24);

/// What does not fit.
#[cold]
fn overflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value overflows numeric format")
        .detail("Values of type numeric have at most 38 significant digits.")
}

/// Ten to the power of `exponent`, if that is at most 38.
#[inline]
fn power_of_ten(exponent: u32) -> Option<u128> {
    const POWERS: [u128; 39] = {
        let mut powers = [1u128; 39];
        let mut at = 1;
        while at < 39 {
            powers[at] = powers[at - 1] * 10;
            at += 1;
        }
        powers
    };
    POWERS.get(exponent as usize).copied()
}

/// The product of two 128-bit numbers: high half, low half.
fn multiply_wide(a: u128, b: u128) -> (u128, u128) {
    const HALF: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & HALF, b >> 64, b & HALF);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let (middle, carry) = middle.overflowing_add(a_low * b_high);
    let high = a_high * b_high + (middle >> 64) + (u128::from(carry) << 64);
    (high, (middle << 64) | (low & HALF))
}

/// Divides (high, low) by `divisor`, which is above `high`: quotient and remainder.
fn divide_wide(high: u128, low: u128, divisor: u128) -> (u128, u128) {
    debug_assert!(high < divisor, "the quotient fits 128 bits");
    if high == 0 {
        return (low / divisor, low % divisor);
    }
    let (mut rest, mut quotient) = (high, 0u128);
    for bit in (0..128).rev() {
        let carry = rest >> 127 == 1;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry || rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    (quotient, rest)
}

/// The number of decimal digits, 0 for zero.
fn digit_count(value: u128) -> u32 {
    value.checked_ilog10().map_or(0, |log| log + 1)
}

#[expect(clippy::should_implement_trait, reason = "these can fail")]
impl Numeric {
    /// Zero.
    pub const ZERO: Self = Self { high: 0, low: 0, scale: 0 };
    /// One.
    pub const ONE: Self = Self { high: 0, low: 1, scale: 0 };

    /// `mantissa / 10^scale`. Panics unless both are within their bounds.
    #[must_use]
    #[track_caller]
    pub fn new(mantissa: i128, scale: u8) -> Self {
        assert!(mantissa.unsigned_abs() < MANTISSA_END && u32::from(scale) <= SCALE_MAX, "within bounds");
        Self::raw(mantissa, scale)
    }

    #[inline]
    const fn raw(mantissa: i128, scale: u8) -> Self {
        Self { high: (mantissa >> 64) as i64, low: mantissa as u64, scale }
    }

    /// `mantissa / 10^scale`, if it fits; zeros at the end of the fraction may go.
    #[inline]
    pub fn checked(mantissa: i128, scale: u32) -> Result<Self> {
        if mantissa.unsigned_abs() < MANTISSA_END && scale <= SCALE_MAX {
            return Ok(Self::raw(mantissa, scale as u8));
        }
        Self::fit(mantissa < 0, 0, mantissa.unsigned_abs(), scale)
    }

    /// As `checked`, from a 256-bit mantissa.
    fn fit(negative: bool, mut high: u128, mut low: u128, mut scale: u32) -> Result<Self> {
        while high != 0 || low >= MANTISSA_END || scale > SCALE_MAX {
            let (quotient_high, rest) = (high / 10, high % 10);
            let (quotient_low, rest) = divide_wide(rest, low, 10);
            if scale == 0 || rest != 0 {
                return Err(overflow());
            }
            (high, low, scale) = (quotient_high, quotient_low, scale - 1);
        }
        let mantissa = low as i128;
        Ok(Self::raw(if negative { -mantissa } else { mantissa }, scale as u8))
    }

    /// All its digits as one integer.
    #[inline]
    #[must_use]
    pub const fn mantissa(self) -> i128 {
        ((self.high as i128) << 64) | self.low as i128
    }

    /// How many of the digits are after the point.
    #[inline]
    #[must_use]
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn signum(self) -> i32 {
        self.mantissa().signum() as i32
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.high == 0 && self.low == 0
    }

    /// The negated value.
    #[must_use]
    pub fn negate(self) -> Self {
        Self::raw(-self.mantissa(), self.scale)
    }

    /// The value without its sign.
    #[must_use]
    pub fn abs(self) -> Self {
        Self::raw(self.mantissa().abs(), self.scale)
    }

    /// `self + other`
    #[inline]
    pub fn add(self, other: Self) -> Result<Self> {
        if self.scale == other.scale {
            // Two mantissas below 10^38 add up without overflow of 128 bits.
            return Self::checked(self.mantissa() + other.mantissa(), u32::from(self.scale));
        }
        let (fine, coarse) = if self.scale > other.scale { (self, other) } else { (other, self) };
        let shift = u32::from(fine.scale - coarse.scale);
        let wide = power_of_ten(shift).and_then(|power| coarse.mantissa().checked_mul(power as i128));
        match wide.and_then(|wide| wide.checked_add(fine.mantissa())) {
            Some(sum) => Self::checked(sum, u32::from(fine.scale)),
            None => {
                // Only zeros at the end of the finer one can make it fit.
                let fine = fine.with_fewest_digits(coarse.scale);
                if fine.scale >= self.scale.max(other.scale) { Err(overflow()) } else { fine.add(coarse) }
            }
        }
    }

    /// Without the zeros at the end of the fraction, but with at least `scale_min` digits after the
    /// point.
    fn with_fewest_digits(self, scale_min: u8) -> Self {
        let (mut mantissa, mut scale) = (self.mantissa(), self.scale);
        while scale > scale_min && mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale - 1);
        }
        Self::raw(mantissa, scale)
    }

    /// `self - other`
    #[inline]
    pub fn sub(self, other: Self) -> Result<Self> {
        self.add(other.negate())
    }

    /// `self * other`
    pub fn mul(self, other: Self) -> Result<Self> {
        let scale = u32::from(self.scale) + u32::from(other.scale);
        if let Some(product) = self.mantissa().checked_mul(other.mantissa()) {
            return Self::checked(product, scale);
        }
        let (high, low) = multiply_wide(self.mantissa().unsigned_abs(), other.mantissa().unsigned_abs());
        Self::fit((self.high < 0) != (other.high < 0), high, low, scale)
    }

    /// The position and value of the first digit in base 10,000, in which PostgreSQL computes: its
    /// results' scales depend on it.
    fn first_group(self) -> (i32, u32) {
        let magnitude = self.mantissa().unsigned_abs();
        if magnitude == 0 {
            return (0, 0);
        }
        let exponent = digit_count(magnitude) as i32 - 1 - i32::from(self.scale);
        let weight = exponent.div_euclid(4);
        // The group has the digits from 10^(4 * weight) up.
        let drop = i32::from(self.scale) + 4 * weight;
        let first = if drop >= 0 {
            power_of_ten(drop as u32).map_or(0, |power| magnitude / power)
        } else {
            power_of_ten(drop.unsigned_abs()).map_or(0, |power| magnitude * power)
        };
        (weight, first as u32)
    }

    /// How many digits after the point PostgreSQL gives a quotient.
    fn quotient_scale(self, divisor: Self) -> u32 {
        let ((weight, first), (divisor_weight, divisor_first)) = (self.first_group(), divisor.first_group());
        let weight = weight - divisor_weight - i32::from(first <= divisor_first);
        let scale = SIGNIFICANT_DIGITS_MIN - weight * 4;
        scale.max(i32::from(self.scale)).max(i32::from(divisor.scale)).max(0) as u32
    }

    /// `self / divisor`
    pub fn div(self, divisor: Self) -> Result<Self> {
        if divisor.is_zero() {
            return Err(division_by_zero());
        }
        self.div_to_scale(divisor, self.quotient_scale(divisor))
    }

    /// `self / divisor`, rounded to `scale` digits after the point.
    pub fn div_to_scale(self, divisor: Self, scale: u32) -> Result<Self> {
        if divisor.is_zero() {
            return Err(division_by_zero());
        }
        let negative = (self.high < 0) != (divisor.high < 0);
        let below = divisor.mantissa().unsigned_abs();
        let magnitude = self.mantissa().unsigned_abs();
        let (mut quotient, mut rest) = (magnitude / below, magnitude % below);
        // How many more digits the quotient of the mantissas needs; below zero, some too many.
        let mut digits = i64::from(scale) + i64::from(divisor.scale) - i64::from(self.scale);
        while digits > 0 && (quotient != 0 || rest != 0) {
            let step = digits.min(i64::from(DIGITS_MAX)) as u32;
            let power = power_of_ten(step).ok_or_else(overflow)?;
            let (high, low) = multiply_wide(rest, power);
            let (next, left) = divide_wide(high, low, below);
            quotient = quotient.checked_mul(power).and_then(|wide| wide.checked_add(next)).ok_or_else(overflow)?;
            (rest, digits) = (left, digits - i64::from(step));
        }
        if digits < 0 {
            let power = power_of_ten(digits.unsigned_abs() as u32).unwrap_or(u128::MAX);
            quotient = quotient / power + u128::from(quotient % power >= power.div_ceil(2));
        } else if rest >= below - rest {
            quotient += 1;
        }
        Self::fit(negative, 0, quotient, scale)
    }

    /// The quotient without its fraction: `div(self, divisor)`.
    pub fn div_truncated(self, divisor: Self) -> Result<Self> {
        let rest = self.rem(divisor)?;
        self.sub(rest)?.div_to_scale(divisor, 0)
    }

    /// The rest of the division towards zero, with the sign of `self`: `self % divisor`.
    pub fn rem(self, divisor: Self) -> Result<Self> {
        if divisor.is_zero() {
            return Err(division_by_zero());
        }
        let scale = u32::from(self.scale.max(divisor.scale));
        let shift = |value: Self| power_of_ten(scale - u32::from(value.scale));
        let magnitude = self.mantissa().unsigned_abs();
        let below = divisor.mantissa().unsigned_abs();
        let rest = match (shift(self), shift(divisor)) {
            (Some(up), Some(below_up)) => match below.checked_mul(below_up) {
                Some(below) => {
                    let (high, low) = multiply_wide(magnitude, up);
                    divide_wide(high % below, low, below).1
                }
                // The divisor is above all that the dividend can be.
                None => magnitude.checked_mul(up).ok_or_else(overflow)?,
            },
            (Some(up), None) => magnitude.checked_mul(up).ok_or_else(overflow)?,
            (None, _) => {
                // Digit by digit: the dividend's shift is beyond 10^38.
                let mut rest = magnitude % below;
                for _ in 0..scale - u32::from(self.scale) {
                    let (high, low) = multiply_wide(rest, 10);
                    rest = divide_wide(high, low, below).1;
                }
                rest
            }
        };
        Self::fit(self.high < 0, 0, rest, scale)
    }

    /// Rounded half away from zero to `digits` after the point (before it, if negative), which are
    /// then its scale.
    pub fn round(self, digits: i32) -> Result<Self> {
        self.cut(digits, |magnitude, power| magnitude / power + u128::from(magnitude % power >= power.div_ceil(2)))
    }

    /// Cut to `digits` after the point (before it, if negative).
    pub fn trunc(self, digits: i32) -> Result<Self> {
        self.cut(digits, |magnitude, power| magnitude / power)
    }

    fn cut(self, digits: i32, shorten: fn(u128, u128) -> u128) -> Result<Self> {
        let digits = digits.clamp(-(SCALE_MAX as i32), 1000);
        let drop = i32::from(self.scale) - digits;
        let magnitude = self.mantissa().unsigned_abs();
        let scale = digits.max(0) as u32;
        if drop <= 0 {
            let wide = power_of_ten(drop.unsigned_abs()).and_then(|power| magnitude.checked_mul(power));
            return match wide {
                Some(wide) if wide < MANTISSA_END && scale <= SCALE_MAX => Self::fit(self.high < 0, 0, wide, scale),
                _ if magnitude == 0 => Ok(Self::raw(0, scale.min(SCALE_MAX) as u8)),
                // More zeros than fit: as many as do.
                _ => {
                    let room = DIGITS_MAX - digit_count(magnitude);
                    let scale = (u32::from(self.scale) + room).min(SCALE_MAX);
                    let power = power_of_ten(scale - u32::from(self.scale)).ok_or_else(overflow)?;
                    Self::fit(self.high < 0, 0, magnitude * power, scale)
                }
            };
        }
        let short = power_of_ten(drop as u32).map_or(0, |power| shorten(magnitude, power));
        let up = if digits < 0 { power_of_ten(digits.unsigned_abs()) } else { Some(1) };
        let wide = match (short, up) {
            (0, _) => 0,
            (short, Some(up)) => short.checked_mul(up).ok_or_else(overflow)?,
            _ => return Err(overflow()),
        };
        Self::fit(self.high < 0, 0, wide, scale)
    }

    /// The least whole number that is not below.
    pub fn ceil(self) -> Result<Self> {
        let whole = self.trunc(0)?;
        if whole < self { whole.add(Self::ONE) } else { Ok(whole) }
    }

    /// The greatest whole number that is not above.
    pub fn floor(self) -> Result<Self> {
        let whole = self.trunc(0)?;
        if whole > self { whole.sub(Self::ONE) } else { Ok(whole) }
    }

    /// Rounded to `scale` digits after the point, if it then has at most `precision` digits:
    /// `numeric(precision, scale)`.
    #[inline]
    pub fn with_precision(self, precision: u16, scale: u16) -> Result<Self> {
        let value = if u16::from(self.scale) == scale { self } else { self.round(i32::from(scale))? };
        let digits = digit_count(value.mantissa().unsigned_abs());
        // A scale that was cut short for want of digits leaves fewer of them for the whole part,
        // too.
        let whole_max = i32::from(precision) - i32::from(scale);
        if digits as i32 - i32::from(value.scale) > whole_max && !value.is_zero() {
            return Err(field_overflow(precision, scale));
        }
        Ok(value)
    }

    /// With zeros at the end of the fraction up to `scale` digits after the point, as many as fit.
    #[inline]
    pub fn with_zeros(self, scale: u8) -> Result<Self> {
        if self.scale < scale { self.round(i32::from(scale)) } else { Ok(self) }
    }

    /// Without zeros at the end of the fraction.
    #[must_use]
    pub fn trim_scale(self) -> Self {
        self.with_fewest_digits(0)
    }

    /// The nearest whole number, if an `i128` holds it (any does).
    #[must_use]
    pub fn to_i128_rounded(self) -> i128 {
        match self.round(0) {
            Ok(whole) => whole.mantissa(),
            Err(_) => self.mantissa(),
        }
    }

    /// The nearest whole number, if an `i64` holds it.
    #[must_use]
    pub fn to_i64_rounded(self) -> Option<i64> {
        i64::try_from(self.to_i128_rounded()).ok()
    }

    /// The nearest float.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        let mantissa = self.mantissa();
        // Both operands are exact here, so the quotient is rounded once.
        if mantissa.unsigned_abs() < 1 << 53 && self.scale <= 22 {
            return mantissa as f64 / 10f64.powi(i32::from(self.scale));
        }
        format!("{mantissa}e-{}", self.scale).parse().unwrap_or(f64::NAN)
    }

    /// The decimal that a float shows with 15 digits, as PostgreSQL converts it.
    pub fn from_f64(value: f64) -> Result<Self> {
        Self::from_float_text(value, &format!("{value:.14e}"))
    }

    /// The decimal that a float shows with 6 digits, as PostgreSQL converts a `real`.
    pub fn from_f32(value: f32) -> Result<Self> {
        Self::from_float_text(f64::from(value), &format!("{value:.5e}"))
    }

    fn from_float_text(value: f64, text: &str) -> Result<Self> {
        if !value.is_finite() {
            return Err(no_special_values());
        }
        // The digits have zeros at the end that `%g` would not show.
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        Self::parse(&format!("{digits}e{exponent}"))
    }

    /// Reads a decimal as PostgreSQL does: blanks around it, a sign, digits, a point, an exponent.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type numeric: \"{text}\""));
        let bytes = crate::letters::trim(text).as_bytes();
        let (negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        if [&b"nan"[..], b"infinity", b"inf"].iter().any(|name| bytes.eq_ignore_ascii_case(name)) {
            return Err(no_special_values());
        }
        let mut mantissa = 0u128;
        let (mut scale, mut zeros, mut seen, mut point) = (0i64, 0i64, false, false);
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    scale += i64::from(point);
                    // Zeros wait until a digit follows: at the end of a fraction they may be more
                    // than fit.
                    if byte == b'0' {
                        zeros += i64::from(mantissa != 0);
                    } else {
                        let power = u32::try_from(zeros + 1).ok().and_then(power_of_ten).ok_or_else(overflow)?;
                        mantissa = mantissa
                            .checked_mul(power)
                            .and_then(|wide| wide.checked_add(u128::from(byte - b'0')))
                            .filter(|&mantissa| mantissa < MANTISSA_END)
                            .ok_or_else(overflow)?;
                        zeros = 0;
                    }
                }
                b'.' if !point => point = true,
                _ => break,
            }
            at += 1;
        }
        if !seen {
            return Err(bad());
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            // As C reads a number, with blanks before it.
            let exponent = &bytes[at + 1..];
            let blanks = exponent.iter().take_while(|&&byte| crate::letters::is_blank(byte)).count();
            let (below, digits) = match &exponent[blanks..] {
                [b'-', rest @ ..] => (true, rest),
                [b'+', rest @ ..] => (false, rest),
                rest => (false, rest),
            };
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(bad());
            }
            let exponent = digits
                .iter()
                .try_fold(0i64, |sum, digit| Some(sum * 10 + i64::from(digit - b'0')).filter(|&sum| sum < 1 << 30))
                .ok_or_else(overflow)?;
            scale += if below { exponent } else { -exponent };
        } else if at != bytes.len() {
            return Err(bad());
        }
        // The value is mantissa * 10^zeros / 10^scale: give it as many of its zeros as fit.
        if mantissa == 0 {
            return Ok(Self::raw(0, scale.clamp(0, i64::from(SCALE_MAX)) as u8));
        }
        let room = i64::from(DIGITS_MAX - digit_count(mantissa));
        let wanted = zeros - scale.min(0);
        let needed = (zeros - scale).max(0);
        if needed > room || scale - zeros > i64::from(SCALE_MAX) {
            return Err(overflow());
        }
        let take = wanted.min(room).min(i64::from(SCALE_MAX) + zeros - scale);
        let power = power_of_ten(take as u32).ok_or_else(overflow)?;
        Self::fit(negative, 0, mantissa * power, (scale - zeros + take) as u32)
    }

    /// Appends its text.
    pub fn write(self, out: &mut String) {
        use fmt::Write;
        let mantissa = self.mantissa();
        if mantissa < 0 {
            out.push('-');
        }
        let start = out.len();
        // Writing to a string cannot fail.
        let _ = match u64::try_from(mantissa.unsigned_abs()) {
            Ok(small) => write!(out, "{small:0width$}", width = usize::from(self.scale) + 1),
            Err(_) => write!(out, "{:0width$}", mantissa.unsigned_abs(), width = usize::from(self.scale) + 1),
        };
        if self.scale > 0 {
            let point = out.len() - usize::from(self.scale);
            debug_assert!(point > start, "a digit before the point");
            out.insert(point, '.');
        }
    }
}

/// `22012`
#[cold]
pub fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

#[cold]
fn no_special_values() -> Error {
    Error::unsupported("NaN or infinity as a value of type numeric")
}

#[cold]
fn field_overflow(precision: u16, scale: u16) -> Error {
    let whole = i32::from(precision) - i32::from(scale);
    let bound = if whole > 0 { format!("10^{whole}") } else { "1".to_owned() };
    Error::new(SqlState::OUT_OF_RANGE, "numeric field overflow").detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

impl From<i64> for Numeric {
    #[inline]
    fn from(value: i64) -> Self {
        Self::raw(i128::from(value), 0)
    }
}

impl Ord for Numeric {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.mantissa(), other.mantissa());
        if self.scale == other.scale {
            return a.cmp(&b);
        }
        if self.scale > other.scale {
            return other.cmp(self).reverse();
        }
        let shift = u32::from(other.scale - self.scale);
        match power_of_ten(shift).and_then(|power| a.checked_mul(power as i128)) {
            Some(a) => a.cmp(&b),
            None if a == 0 => 0.cmp(&b),
            // Beyond all that b can be.
            None => a.cmp(&0),
        }
    }
}

impl PartialOrd for Numeric {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (mut mantissa, mut scale) = (self.mantissa(), self.scale);
        // In 64 bits for as long as possible: divisions of 128 bits are calls.
        if let Ok(small) = i64::try_from(mantissa) {
            let mut small = small;
            while scale > 0 && small % 10 == 0 {
                (small, scale) = (small / 10, scale - 1);
            }
            mantissa = i128::from(small);
        } else {
            while scale > 0 && mantissa % 10 == 0 {
                (mantissa, scale) = (mantissa / 10, scale - 1);
            }
        }
        state.write_i64(mantissa as i64);
        state.write_i64((mantissa >> 64) as i64 ^ (i64::from(scale) << 32));
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
