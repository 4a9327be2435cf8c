//! Decimals of any length: exact arithmetic on a big integer and a scale.
//!
//! ```text
//! value = mantissa / 10^scale
//! ```
//! What is computed here may be longer than a `Numeric` is allowed to be; [`Wide::finish`] refuses
//! that. Work is counted by the words of the operands, so that computing with long ones polls, and
//! can be cancelled between two operations. One operation on the longest takes some milliseconds.

use std::cmp::Ordering;
use std::sync::Arc;

use dashu_int::ops::{BitTest, DivRem, Gcd, SquareRootRem, UnsignedAbs};
use dashu_int::{IBig, Sign, UBig};

use super::small::{self, Small};
use super::{DIGITS_BEFORE_MAX, Form, Large, Numeric, SCALE_MAX, overflow};
use crate::error::Result;
use crate::pulse;

/// Work that multiplying takes for a word of the longer operand, in units of [`pulse`].
const UNITS_PER_WORD: usize = 20;
/// The same for dividing, and for reading and writing digits.
const UNITS_PER_WORD_DIVIDED: usize = 100;

/// A decimal of any length.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    pub(super) mantissa: IBig,
    pub(super) scale: u32,
}

fn words(value: &UBig) -> usize {
    value.as_words().len()
}

/// Counts a multiplication by what has so many words.
pub(super) fn charge(words: usize) -> Result<()> {
    pulse::work(1 + words * UNITS_PER_WORD)
}

/// Counts a division of what has so many words.
pub(super) fn charge_division(words: usize) -> Result<()> {
    pulse::work(1 + words * UNITS_PER_WORD_DIVIDED)
}

/// Ten to a power.
pub(super) fn power_of_ten(exponent: u32) -> UBig {
    match small::power_of_ten(exponent) {
        Some(power) => UBig::from(power),
        None => UBig::from(5u8).pow(exponent as usize) << exponent as usize,
    }
}

/// The logarithm of what is not zero to base 10, as close as a float is.
pub(super) fn log10(value: &UBig) -> f64 {
    let drop = value.bit_len().saturating_sub(64);
    let top = u64::try_from(&(value >> drop)).unwrap_or(u64::MAX);
    (top as f64).log10() + drop as f64 * std::f64::consts::LOG10_2
}

/// How many decimal digits it has, 0 for zero.
pub(super) fn digit_count(value: &UBig) -> u32 {
    if value.is_zero() {
        return 0;
    }
    if let Ok(value) = u128::try_from(value) {
        return small::digit_count(value);
    }
    let log = log10(value);
    // The float is off by less than this; where that leaves two answers, the power decides.
    let (low, high) = ((log - 1e-6).floor() as u32, (log + 1e-6).floor() as u32);
    if low == high || *value >= power_of_ten(high) { high + 1 } else { low + 1 }
}

/// The quotient of magnitudes, rounded half up.
pub(super) fn divide_rounded(dividend: &UBig, divisor: &UBig) -> Result<UBig> {
    charge_division(words(dividend))?;
    let (quotient, rest) = dividend.div_rem(divisor);
    Ok(if (rest << 1usize) >= *divisor { quotient + 1u8 } else { quotient })
}

impl Wide {
    pub(super) fn new(negative: bool, magnitude: UBig, scale: u32) -> Self {
        let sign = if negative { Sign::Negative } else { Sign::Positive };
        Self { mantissa: IBig::from_parts(sign, magnitude), scale }
    }

    pub(super) fn of_small(value: Small) -> Self {
        Self { mantissa: IBig::from(value.mantissa()), scale: u32::from(value.scale()) }
    }

    pub(super) fn is_negative(&self) -> bool {
        self.mantissa.sign() == Sign::Negative
    }

    pub(super) fn is_zero(&self) -> bool {
        self.mantissa.is_zero()
    }

    pub(super) fn magnitude(&self) -> UBig {
        (&self.mantissa).unsigned_abs()
    }

    pub(super) fn words(&self) -> usize {
        self.mantissa.as_sign_words().1.len()
    }

    /// As a value.
    ///
    /// # Errors
    /// 22003 if it has more digits than a value can have.
    pub(super) fn finish(self) -> Result<Numeric> {
        self.check_bounds()?;
        Ok(self.keep())
    }

    /// As a value, whatever its length.
    pub(super) fn keep(self) -> Numeric {
        let small = i128::try_from(&self.mantissa).ok().and_then(|mantissa| Small::checked(mantissa, self.scale));
        Numeric(match small {
            Some(small) => Form::Small(small),
            None => Form::Large(Large::Finite(Arc::new(self))),
        })
    }

    /// # Errors
    /// As [`Wide::finish`].
    pub(super) fn check_bounds(&self) -> Result<()> {
        if self.scale > SCALE_MAX {
            return Err(overflow());
        }
        let digits_max = DIGITS_BEFORE_MAX + self.scale;
        // A digit has more than three bits, and less than four.
        let bits = (&self.mantissa).unsigned_abs().bit_len() as u64;
        if bits > u64::from(digits_max) * 3 && digit_count(&self.magnitude()) > digits_max {
            return Err(overflow());
        }
        Ok(())
    }

    /// The mantissas of both with the scale of the finer one, and that scale.
    fn aligned(&self, other: &Self) -> Result<(IBig, IBig, u32)> {
        charge(self.words().max(other.words()) + (self.scale.abs_diff(other.scale) / 16) as usize)?;
        let up = |value: &Self, scale: u32| match scale - value.scale {
            0 => value.mantissa.clone(),
            shift => &value.mantissa * IBig::from(power_of_ten(shift)),
        };
        let scale = self.scale.max(other.scale);
        Ok((up(self, scale), up(other, scale), scale))
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Ok(Self { mantissa: a + b, scale })
    }

    pub(super) fn sub(&self, other: &Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Ok(Self { mantissa: a - b, scale })
    }

    pub(super) fn mul(&self, other: &Self) -> Result<Self> {
        charge(self.words().max(other.words()))?;
        Ok(Self { mantissa: &self.mantissa * &other.mantissa, scale: self.scale + other.scale })
    }

    /// The quotient by what is not zero, rounded half away from zero.
    pub(super) fn div_to_scale(&self, divisor: &Self, scale: u32) -> Result<Self> {
        let shift = i64::from(scale) + i64::from(divisor.scale) - i64::from(self.scale);
        let power = power_of_ten(shift.unsigned_abs() as u32);
        charge(self.words().max(divisor.words()).max(words(&power)))?;
        let (mut dividend, mut below) = (self.magnitude(), divisor.magnitude());
        if shift >= 0 {
            dividend *= power;
        } else {
            below *= power;
        }
        Ok(Self::new(self.is_negative() != divisor.is_negative(), divide_rounded(&dividend, &below)?, scale))
    }

    /// The quotient by what is not zero, without its fraction.
    pub(super) fn div_truncated(&self, divisor: &Self) -> Result<Self> {
        let (a, b, _) = self.aligned(divisor)?;
        charge_division(self.words())?;
        Ok(Self { mantissa: a / b, scale: 0 })
    }

    /// The rest of the division by what is not zero, with the sign of `self`.
    pub(super) fn rem(&self, divisor: &Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(divisor)?;
        charge_division(self.words())?;
        Ok(Self { mantissa: a % b, scale })
    }

    /// As [`Small::cut`].
    pub(super) fn cut(&self, digits: i32, rounds: bool) -> Result<Self> {
        let drop = self.scale as i32 - digits;
        let scale = digits.max(0) as u32;
        let power = power_of_ten(drop.unsigned_abs());
        charge(self.words().max(words(&power)))?;
        let magnitude = self.magnitude();
        let magnitude = if drop <= 0 {
            magnitude * power
        } else {
            let short = if rounds {
                divide_rounded(&magnitude, &power)?
            } else {
                charge_division(words(&magnitude))?;
                magnitude / power
            };
            if digits < 0 { short * power_of_ten(digits.unsigned_abs()) } else { short }
        };
        Ok(Self::new(self.is_negative(), magnitude, scale))
    }

    /// Without the zeros at the end of the fraction.
    pub(super) fn trim_scale(&self) -> Self {
        let mut trimmed = self.clone();
        // By ever smaller powers, each of which goes once at the most, or not at all.
        let zeros_max = self.magnitude().trailing_zeros().unwrap_or(self.scale as usize) as u32;
        let mut step = zeros_max.min(self.scale);
        step = if step == 0 { 0 } else { step.next_power_of_two() };
        while step > 0 {
            if step <= trimmed.scale {
                pulse::note(self.words() * UNITS_PER_WORD_DIVIDED);
                let (quotient, rest) = (&trimmed.mantissa).div_rem(&IBig::from(power_of_ten(step)));
                if rest.is_zero() {
                    trimmed = Self { mantissa: quotient, scale: trimmed.scale - step };
                    continue;
                }
            }
            step /= 2;
        }
        trimmed
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.mantissa.sign(), other.mantissa.sign());
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return if b == Sign::Negative { Ordering::Greater } else { Ordering::Less },
            (false, true) => return if a == Sign::Negative { Ordering::Less } else { Ordering::Greater },
            (false, false) if a != b => {
                return if a == Sign::Negative { Ordering::Less } else { Ordering::Greater };
            }
            _ => {}
        }
        pulse::note(1 + self.words().max(other.words()) * UNITS_PER_WORD / 4);
        let shift = self.scale.abs_diff(other.scale);
        if shift == 0 {
            return self.mantissa.cmp(&other.mantissa);
        }
        pulse::note(shift as usize);
        let power = IBig::from(power_of_ten(shift));
        if self.scale < other.scale {
            (&self.mantissa * power).cmp(&other.mantissa)
        } else {
            self.mantissa.cmp(&(&other.mantissa * power))
        }
    }

    /// As [`Numeric::first_group`].
    pub(super) fn first_group(&self) -> (i32, u32) {
        let magnitude = self.magnitude();
        if magnitude.is_zero() {
            return (0, 0);
        }
        let exponent = digit_count(&magnitude) as i32 - 1 - self.scale as i32;
        let weight = exponent.div_euclid(4);
        let drop = self.scale as i32 + 4 * weight;
        let power = power_of_ten(drop.unsigned_abs());
        let first = if drop >= 0 { magnitude / power } else { magnitude * power };
        (weight, u32::try_from(&first).unwrap_or(0))
    }

    /// The greatest common divisor, with the scale of the finer one.
    pub(super) fn gcd(&self, other: &Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other)?;
        let (a, b) = (a.unsigned_abs(), b.unsigned_abs());
        let length = words(&a).max(words(&b));
        // The library's way is quadratic.
        charge_division(length + length * length / 100)?;
        let divisor = if a.is_zero() {
            b
        } else if b.is_zero() {
            a
        } else {
            (&a).gcd(&b)
        };
        Ok(Self::new(false, divisor, scale))
    }

    /// The square root of what is not negative, rounded to `scale` digits behind the point.
    pub(super) fn sqrt_to_scale(&self, scale: u32) -> Result<Self> {
        let shift = 2 * i64::from(scale) - i64::from(self.scale);
        let power = power_of_ten(shift.unsigned_abs() as u32);
        charge_division(self.words() + words(&power))?;
        // Twice the root of x is the root of 4x; its last bit is what rounds.
        let square =
            if shift >= 0 { (self.magnitude() * power) << 2usize } else { (self.magnitude() << 2usize) / power };
        let (twice, _) = square.sqrt_rem();
        Ok(Self::new(false, (twice + 1u8) >> 1usize, scale))
    }

    pub(super) fn to_f64(&self) -> f64 {
        pulse::note(self.words() * UNITS_PER_WORD_DIVIDED);
        format!("{}e-{}", self.mantissa, self.scale).parse().unwrap_or(f64::NAN)
    }

    /// Its digits, at least as many as there are behind the point and one more.
    pub(super) fn digits(&self) -> String {
        pulse::note(self.words() * UNITS_PER_WORD_DIVIDED);
        let digits = self.magnitude().to_string();
        let missing = (self.scale as usize + 1).saturating_sub(digits.len());
        if missing == 0 { digits } else { "0".repeat(missing) + &digits }
    }

    pub(super) fn write(&self, out: &mut String) {
        let digits = self.digits();
        if self.is_negative() {
            out.push('-');
        }
        let point = digits.len() - self.scale as usize;
        out.push_str(&digits[..point]);
        if self.scale > 0 {
            out.push('.');
            out.push_str(&digits[point..]);
        }
    }
}

/// `n!`, as a product of products of similar lengths.
pub(super) fn factorial(n: u32) -> Result<UBig> {
    fn product(from: u64, to: u64) -> Result<UBig> {
        if to - from <= 8 {
            return Ok((from..=to).fold(UBig::ONE, |product, factor| product * factor));
        }
        let middle = from.midpoint(to);
        let (low, high) = (product(from, middle)?, product(middle + 1, to)?);
        charge(words(&low).max(words(&high)))?;
        Ok(low * high)
    }
    if n < 2 { Ok(UBig::ONE) } else { product(2, u64::from(n)) }
}
