//! Decimals of at most 38 digits, in two words and a byte: the form of nearly all values.
//!
//! ```text
//! value = mantissa / 10^scale      |mantissa| < 10^38      scale <= 100
//! ```
//! Every operation gives `None` where its exact result does not have this form: the caller then
//! computes with [`super::wide::Wide`].
//!
//! Invariants: both bounds hold for every `Small`. What has this form is never kept in the other.

use std::cmp::Ordering;
use std::hash::Hasher;
use std::num::NonZeroU8;

/// The most digits of a mantissa.
pub(super) const DIGITS_MAX: u32 = 38;
/// The most digits behind the point.
pub(super) const SCALE_MAX: u32 = 100;
/// Every mantissa is below this.
pub(super) const MANTISSA_END: u128 = 10u128.pow(DIGITS_MAX);

/// Two halves of the mantissa keep the alignment, and so every value's size, at 8 bytes. The scale
/// is kept plus one: the zero tells a `Numeric` of the other form.
#[derive(Clone, Copy)]
pub(super) struct Small {
    high: i64,
    low: u64,
    scale_and_one: NonZeroU8,
}

const _: () = assert!(size_of::<Small>() == 24);

/// Ten to the power of `exponent`, if that is at most 38.
#[inline]
pub(super) fn power_of_ten(exponent: u32) -> Option<u128> {
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
pub(super) fn digit_count(value: u128) -> u32 {
    value.checked_ilog10().map_or(0, |log| log + 1)
}

impl Small {
    #[inline]
    pub(super) const fn raw(mantissa: i128, scale: u8) -> Self {
        let scale_and_one = match NonZeroU8::new(scale.wrapping_add(1)) {
            Some(scale_and_one) => scale_and_one,
            None => NonZeroU8::MIN,
        };
        Self { high: (mantissa >> 64) as i64, low: mantissa as u64, scale_and_one }
    }

    #[inline]
    pub(super) fn checked(mantissa: i128, scale: u32) -> Option<Self> {
        (mantissa.unsigned_abs() < MANTISSA_END && scale <= SCALE_MAX).then(|| Self::raw(mantissa, scale as u8))
    }

    fn of_magnitude(negative: bool, magnitude: u128, scale: u32) -> Option<Self> {
        if magnitude >= MANTISSA_END {
            return None;
        }
        let mantissa = magnitude as i128;
        Self::checked(if negative { -mantissa } else { mantissa }, scale)
    }

    #[inline]
    pub(super) const fn mantissa(self) -> i128 {
        ((self.high as i128) << 64) | self.low as i128
    }

    #[inline]
    pub(super) const fn scale(self) -> u8 {
        self.scale_and_one.get() - 1
    }

    fn wide_scale(self) -> u32 {
        u32::from(self.scale())
    }

    #[inline]
    pub(super) fn is_negative(self) -> bool {
        self.high < 0
    }

    pub(super) fn negate(self) -> Self {
        Self::raw(-self.mantissa(), self.scale())
    }

    #[inline]
    pub(super) fn add(self, other: Self) -> Option<Self> {
        if self.scale_and_one == other.scale_and_one {
            // Two mantissas below 10^38 add up without overflow of 128 bits.
            return Self::checked(self.mantissa() + other.mantissa(), self.wide_scale());
        }
        let (fine, coarse) = if self.scale_and_one > other.scale_and_one { (self, other) } else { (other, self) };
        let power = power_of_ten(u32::from(fine.scale() - coarse.scale()))?;
        let wide = coarse.mantissa().checked_mul(power as i128)?;
        Self::checked(wide.checked_add(fine.mantissa())?, fine.wide_scale())
    }

    #[inline]
    pub(super) fn mul(self, other: Self) -> Option<Self> {
        Self::checked(self.mantissa().checked_mul(other.mantissa())?, self.wide_scale() + other.wide_scale())
    }

    /// Without the zeros at the end of the fraction.
    pub(super) fn trim_scale(self) -> Self {
        let (mut mantissa, mut scale) = (self.mantissa(), self.scale());
        while scale > 0 && mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale - 1);
        }
        Self::raw(mantissa, scale)
    }

    /// As [`super::Numeric::first_group`].
    pub(super) fn first_group(self) -> (i32, u32) {
        let magnitude = self.mantissa().unsigned_abs();
        if magnitude == 0 {
            return (0, 0);
        }
        let exponent = digit_count(magnitude) as i32 - 1 - i32::from(self.scale());
        let weight = exponent.div_euclid(4);
        // The group has the digits from 10^(4 * weight) up.
        let drop = i32::from(self.scale()) + 4 * weight;
        let first = if drop >= 0 {
            power_of_ten(drop as u32).map_or(0, |power| magnitude / power)
        } else {
            power_of_ten(drop.unsigned_abs()).map_or(0, |power| magnitude * power)
        };
        (weight, first as u32)
    }

    /// The quotient by what is not zero, rounded to `scale` digits behind the point.
    pub(super) fn div_to_scale(self, divisor: Self, scale: u32) -> Option<Self> {
        let below = divisor.mantissa().unsigned_abs();
        let magnitude = self.mantissa().unsigned_abs();
        let (mut quotient, mut rest) = (magnitude / below, magnitude % below);
        // How many more digits the quotient of the mantissas needs; below zero, some too many.
        let mut digits = i64::from(scale) + i64::from(divisor.scale()) - i64::from(self.scale());
        while digits > 0 && (quotient != 0 || rest != 0) {
            let step = digits.min(i64::from(DIGITS_MAX)) as u32;
            let power = power_of_ten(step)?;
            let (high, low) = multiply_wide(rest, power);
            let (next, left) = divide_wide(high, low, below);
            quotient = quotient.checked_mul(power)?.checked_add(next)?;
            (rest, digits) = (left, digits - i64::from(step));
        }
        if digits < 0 {
            let power = power_of_ten(digits.unsigned_abs() as u32).unwrap_or(u128::MAX);
            quotient = quotient / power + u128::from(quotient % power >= power.div_ceil(2));
        } else if rest >= below - rest {
            quotient += 1;
        }
        Self::of_magnitude(self.is_negative() != divisor.is_negative(), quotient, scale)
    }

    /// The rest of the division by what is not zero, with the sign of `self`.
    pub(super) fn rem(self, divisor: Self) -> Option<Self> {
        let scale = u32::from(self.scale().max(divisor.scale()));
        let shift = |value: Self| power_of_ten(scale - value.wide_scale());
        let magnitude = self.mantissa().unsigned_abs();
        let below = divisor.mantissa().unsigned_abs();
        let rest = match (shift(self), shift(divisor)) {
            (Some(up), Some(below_up)) => match below.checked_mul(below_up) {
                Some(below) => {
                    let (high, low) = multiply_wide(magnitude, up);
                    divide_wide(high % below, low, below).1
                }
                // The divisor is above all that the dividend can be.
                None => magnitude.checked_mul(up)?,
            },
            (Some(up), None) => magnitude.checked_mul(up)?,
            (None, _) => return None,
        };
        Self::of_magnitude(self.is_negative(), rest, scale)
    }

    /// With `digits` behind the point (before it, if negative), and what is cut off rounded half
    /// away from zero if `rounds`.
    pub(super) fn cut(self, digits: i32, rounds: bool) -> Option<Self> {
        let drop = i32::from(self.scale()) - digits;
        let magnitude = self.mantissa().unsigned_abs();
        let scale = digits.max(0) as u32;
        if drop <= 0 {
            let power = power_of_ten(drop.unsigned_abs()).or((magnitude == 0).then_some(1))?;
            return Self::of_magnitude(self.is_negative(), magnitude.checked_mul(power)?, scale);
        }
        let short = power_of_ten(drop as u32)
            .map_or(0, |power| magnitude / power + u128::from(rounds && magnitude % power >= power.div_ceil(2)));
        let up = if short == 0 { 1 } else { power_of_ten(digits.min(0).unsigned_abs())? };
        Self::of_magnitude(self.is_negative(), short.checked_mul(up)?, scale)
    }

    #[inline]
    pub(super) fn cmp(self, other: Self) -> Ordering {
        let (a, b) = (self.mantissa(), other.mantissa());
        if self.scale_and_one == other.scale_and_one {
            return a.cmp(&b);
        }
        if self.scale_and_one > other.scale_and_one {
            return other.cmp(self).reverse();
        }
        let shift = u32::from(other.scale() - self.scale());
        match power_of_ten(shift).and_then(|power| a.checked_mul(power as i128)) {
            Some(a) => a.cmp(&b),
            None if a == 0 => 0.cmp(&b),
            // Beyond all that b can be.
            None => a.cmp(&0),
        }
    }

    pub(super) fn hash<H: Hasher>(self, state: &mut H) {
        let (mut mantissa, mut scale) = (self.mantissa(), self.scale());
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

    pub(super) fn to_f64(self) -> f64 {
        let mantissa = self.mantissa();
        // Both operands are exact here, so the quotient is rounded once.
        if mantissa.unsigned_abs() < 1 << 53 && self.scale() <= 22 {
            return mantissa as f64 / 10f64.powi(i32::from(self.scale()));
        }
        format!("{mantissa}e-{}", self.scale()).parse().unwrap_or(f64::NAN)
    }

    pub(super) fn write(self, out: &mut String) {
        use std::fmt::Write;
        let (mantissa, scale) = (self.mantissa(), usize::from(self.scale()));
        if mantissa < 0 {
            out.push('-');
        }
        let start = out.len();
        // Writing to a string cannot fail.
        let _ = match u64::try_from(mantissa.unsigned_abs()) {
            Ok(small) => write!(out, "{small:0width$}", width = scale + 1),
            Err(_) => write!(out, "{:0width$}", mantissa.unsigned_abs(), width = scale + 1),
        };
        if scale > 0 {
            let point = out.len() - scale;
            debug_assert!(point > start, "a digit before the point");
            out.insert(point, '.');
        }
    }
}
