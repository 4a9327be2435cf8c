//! Roots, powers, exponentials and logarithms of `numeric`, in binary fixed point with as many bits
//! as the result needs.
//!
//! The scale of a result is PostgreSQL's: at least 16 significant digits, no fewer digits than the
//! arguments show, and at most 1000 behind the point. There are [`GUARD_BITS`] more bits than the
//! result has digits, so that results are rounded correctly but for ties that no bounded precision
//! could tell.
//!
//! Magnitudes are bounded before anything is computed: results have at most 2,612 digits before the
//! point (whole powers: 131,072). The longest series take some 100 ms, and poll at every term.

use std::sync::Mutex;

use dashu_int::ops::{BitTest, SquareRoot, UnsignedAbs};
use dashu_int::{IBig, Sign, UBig};

use super::wide::{self, Wide, charge, charge_division};
use super::{
    DIGITS_BEFORE_MAX, Form, Large, Numeric, RESULT_SCALE_MAX, SIGNIFICANT_DIGITS_MIN, Seen, division_by_zero, overflow,
};
use crate::error::{Error, Result, SqlState};

/// Bits behind those that a result needs.
const GUARD_BITS: usize = 96;
/// Bits of a decimal digit, and a little more.
const BITS_PER_DIGIT: f64 = 3.322;
/// Exponents of e beyond this overflow, or vanish.
const EXPONENT_MAX: f64 = 6000.0;
/// As PostgreSQL has it, so that scales are estimated alike.
#[expect(clippy::approx_constant, reason = "fewer digits than the type holds, on purpose")]
const LOG10_E: f64 = 0.434_294_481_903_252;
const LN_10: f64 = std::f64::consts::LN_10;

fn bits_of_digits(digits: i64) -> usize {
    (digits.max(0) as f64 * BITS_PER_DIGIT).ceil() as usize
}

/// A number in fixed point: `value / 2^bits`.
#[derive(Debug, Clone)]
struct Fixed {
    value: IBig,
    bits: usize,
}

/// The sum of `y^(2k+1) / (2k+1)`: the inverse hyperbolic tangent of 1 / divisor.
fn atanh_of_inverse(divisor: u32, bits: usize) -> Result<IBig> {
    let mut power = (IBig::ONE << bits) / divisor;
    let (mut sum, square, mut count) = (power.clone(), u64::from(divisor) * u64::from(divisor), 1u32);
    loop {
        charge(1 + bits / 512)?;
        power /= square;
        count += 2;
        if power.is_zero() {
            return Ok(sum);
        }
        sum += &power / count;
    }
}

/// The logarithm of 2, with at least as many bits as were ever asked for.
static LN_2: Mutex<Option<Fixed>> = Mutex::new(None);

fn ln_2(bits: usize) -> Result<IBig> {
    let known = LN_2.lock().ok().and_then(|known| known.clone());
    if let Some(known) = known.filter(|known| known.bits >= bits) {
        return Ok(known.value >> (known.bits - bits));
    }
    // A few bits more for the ends of the series.
    let inner = bits.max(1024) + 32;
    let value =
        atanh_of_inverse(26, inner)? * 18 - atanh_of_inverse(4801, inner)? * 2 + atanh_of_inverse(8749, inner)? * 8;
    let value = Fixed { value: value >> 32usize, bits: inner - 32 };
    let result = &value.value >> (value.bits - bits);
    if let Ok(mut known) = LN_2.lock()
        && known.as_ref().is_none_or(|known| known.bits < value.bits)
    {
        *known = Some(value);
    }
    Ok(result)
}

impl Fixed {
    fn of_wide(value: &Wide, bits: usize) -> Result<Self> {
        let power = wide::power_of_ten(value.scale);
        charge_division(value.words() + bits / 64)?;
        Ok(Self { value: (&value.mantissa << bits) / IBig::from(power), bits })
    }

    fn words(&self) -> usize {
        self.value.as_sign_words().1.len()
    }

    fn mul(&self, other: &Self) -> Result<Self> {
        charge(self.words().max(other.words()))?;
        Ok(Self { value: (&self.value * &other.value) >> self.bits, bits: self.bits })
    }

    /// Rounded to `scale` digits behind the point.
    fn to_numeric(&self, scale: u32) -> Result<Numeric> {
        charge(self.words() + scale as usize / 16)?;
        let magnitude = (&self.value).unsigned_abs() * wide::power_of_ten(scale);
        // A hair above one half: an exact tie may have come out just below.
        let hair = self.bits.saturating_sub(GUARD_BITS / 2 + scale as usize / 4);
        let half = (UBig::ONE << (self.bits - 1)) + (UBig::ONE << hair.min(self.bits / 2));
        Numeric::of_large(self.value.sign() == Sign::Negative, (magnitude + half) >> self.bits, scale)
    }

    /// The natural logarithm of a positive number; the error is below `2^-(bits - 16)`.
    fn ln(value: &Wide, bits: usize) -> Result<Self> {
        // Each root that is taken first halves what the series is of.
        let roots = (bits as f64).sqrt() as usize / 4 + 4;
        let inner = bits + roots + 32;
        let (mantissa, divisor) = (value.magnitude(), wide::power_of_ten(value.scale));
        charge_division(value.words() + inner / 64)?;
        // value = part * 2^exponent, with part from 1/2 to 2
        let exponent = mantissa.bit_len() as i64 - divisor.bit_len() as i64;
        let shift = inner as i64 - exponent;
        let mut part = if shift >= 0 {
            (mantissa << shift as usize) / divisor
        } else {
            mantissa / (divisor << shift.unsigned_abs() as usize)
        };
        for _ in 0..roots {
            charge_division(inner / 64)?;
            part = (part << inner).sqrt();
        }
        let (part, one) = (IBig::from(part), IBig::ONE << inner);
        charge_division(inner / 64)?;
        let y = Self { value: ((&part - &one) << inner) / (&part + &one), bits: inner };
        // The logarithm is twice the inverse hyperbolic tangent.
        let square = y.mul(&y)?;
        let (mut sum, mut power, mut count) = (y.value.clone(), y, 1u32);
        loop {
            power = power.mul(&square)?;
            count += 2;
            let term = &power.value / count;
            if term.is_zero() || term == IBig::NEG_ONE {
                break;
            }
            sum += term;
        }
        let ln = (sum << (roots + 1)) + ln_2(inner)? * exponent;
        Ok(Self { value: ln >> (inner - bits), bits })
    }

    /// e to the power of it, which is at most [`EXPONENT_MAX`]; in as many bits.
    fn exp(&self) -> Result<Self> {
        let halvings = (self.bits as f64).sqrt() as usize / 2 + 4;
        let inner = self.bits + halvings + 32;
        let value = &self.value << (inner - self.bits);
        let ln_2 = ln_2(inner)?;
        charge_division(inner / 64)?;
        let exponent = &value / &ln_2;
        let exponent = i64::try_from(&exponent).map_err(|_| overflow())?;
        let small = Self { value: (value - ln_2 * exponent) >> halvings, bits: inner };
        let one = IBig::ONE << inner;
        let (mut sum, mut term, mut count) = (one.clone(), Self { value: one, bits: inner }, 0u32);
        loop {
            count += 1;
            term = term.mul(&small)?;
            term.value /= count;
            if term.value.is_zero() || term.value == IBig::NEG_ONE {
                break;
            }
            sum += &term.value;
        }
        let mut sum = Self { value: sum, bits: inner };
        for _ in 0..halvings {
            sum = sum.mul(&sum)?;
        }
        let shift = (inner - self.bits) as i64 - exponent;
        let value = if shift >= 0 { sum.value >> shift as usize } else { sum.value << shift.unsigned_abs() as usize };
        Ok(Self { value, bits: self.bits })
    }

    /// Its exponential, rounded to `scale` digits behind the point; `about` is roughly what it is.
    fn exp_to_scale(exponent: impl FnOnce(usize) -> Result<Self>, about: f64, scale: u32) -> Result<Numeric> {
        // An error in the exponent is multiplied by the result.
        let whole_bits = (about.max(0.0) * std::f64::consts::LOG2_E).ceil() as usize;
        exponent(bits_of_digits(i64::from(scale)) + whole_bits + GUARD_BITS)?.exp()?.to_numeric(scale)
    }
}

fn to_scale(scale: i32, of: &[&Numeric]) -> u32 {
    let shown = of.iter().map(|value| i32::from(value.scale())).max().unwrap_or(0);
    scale.max(shown).clamp(0, RESULT_SCALE_MAX) as u32
}

fn zero_to_scale(scale: u32) -> Result<Numeric> {
    Numeric::checked(0, scale)
}

/// The logarithm of a positive number, roughly: its sign, and the decimal logarithm of its
/// magnitude, which may be less than a float can be.
#[derive(Clone, Copy)]
struct Rough {
    negative: bool,
    log10: f64,
}

impl Rough {
    fn of_float(value: f64) -> Self {
        Self { negative: value < 0.0, log10: value.abs().log10() }
    }

    fn ln(value: &Wide) -> Result<Self> {
        let log10 = wide::log10(&value.magnitude()) - f64::from(value.scale);
        if log10.abs() > 0.05 {
            return Ok(Self::of_float(log10 * LN_10));
        }
        // Near one the logarithm is about the distance from it.
        let distance = value.sub(&Wide { mantissa: IBig::ONE, scale: 0 })?;
        if distance.is_zero() {
            return Ok(Self { negative: false, log10: f64::NEG_INFINITY });
        }
        let log10 = wide::log10(&distance.magnitude()) - f64::from(distance.scale);
        if log10 < -100.0 {
            return Ok(Self { negative: distance.is_negative(), log10 });
        }
        Ok(Self::of_float(distance.to_f64().ln_1p()))
    }

    /// Multiplied by a number; beyond 10^12 as far as the sign tells.
    fn times(self, factor: &Wide) -> f64 {
        if factor.is_zero() {
            return 0.0;
        }
        let log10 = self.log10 + wide::log10(&factor.magnitude()) - f64::from(factor.scale);
        let magnitude = 10f64.powf(log10.min(12.0));
        if self.negative == factor.is_negative() { magnitude } else { -magnitude }
    }
}

/// `mantissa * 10^-scale`, rounded to so many digits.
struct Rounded {
    mantissa: UBig,
    scale: i64,
    digits_max: u32,
}

impl Rounded {
    fn times(&self, other: &Self) -> Result<Self> {
        charge(self.mantissa.as_words().len().max(other.mantissa.as_words().len()))?;
        let (mut mantissa, mut scale) = (&self.mantissa * &other.mantissa, self.scale + other.scale);
        // Every digit has more than three bits.
        if mantissa.bit_len() > 3 * self.digits_max as usize {
            let drop = wide::digit_count(&mantissa).saturating_sub(self.digits_max);
            if drop > 0 {
                mantissa = wide::divide_rounded(&mantissa, &wide::power_of_ten(drop))?;
                scale -= i64::from(drop);
            }
        }
        Ok(Self { mantissa, scale, digits_max: self.digits_max })
    }
}

impl Wide {
    /// To the power of a whole number, rounded to `scale` digits behind the point. `about` is
    /// roughly the decimal logarithm of the result.
    fn power(&self, exponent: i32, about: f64, scale: u32) -> Result<Numeric> {
        let digits_max = (about + f64::from(scale)).max(0.0) as u32 + 32;
        let mut base = Rounded { mantissa: self.magnitude(), scale: i64::from(self.scale), digits_max };
        let mut power = Rounded { mantissa: UBig::ONE, scale: 0, digits_max };
        let mut rest = exponent.unsigned_abs();
        while rest > 0 {
            if rest & 1 == 1 {
                power = power.times(&base)?;
            }
            rest >>= 1;
            if rest > 0 {
                base = base.times(&base)?;
            }
        }
        let negative = self.is_negative() && exponent % 2 != 0;
        let magnitude = if exponent < 0 {
            // 1 / (mantissa / 10^scale), in units of 10^-scale of the result.
            let shift = i64::from(scale) + power.scale;
            if shift < 0 {
                UBig::ZERO
            } else {
                wide::divide_rounded(&wide::power_of_ten(shift as u32), &power.mantissa)?
            }
        } else {
            let shift = i64::from(scale) - power.scale;
            let ten = wide::power_of_ten(u32::try_from(shift.unsigned_abs()).map_err(|_| overflow())?);
            charge(ten.as_words().len().max(power.mantissa.as_words().len()))?;
            if shift >= 0 { power.mantissa * ten } else { wide::divide_rounded(&power.mantissa, &ten)? }
        };
        Numeric::of_large(negative, magnitude, scale)
    }
}

impl Numeric {
    fn finite(&self) -> Option<std::borrow::Cow<'_, Wide>> {
        match self.seen() {
            Seen::Finite(wide) => Some(wide),
            _ => None,
        }
    }

    /// PostgreSQL's estimate of the decimal weight of its logarithm.
    fn ln_weight(&self, wide: &Wide) -> Result<i32> {
        let (low, high) = (Self::new(9, 1), Self::new(11, 1));
        if *self >= low && *self <= high {
            let (weight, first) = self.sub(&Self::ONE)?.first_group();
            return Ok(if first == 0 { 0 } else { weight * 4 + first.ilog10() as i32 });
        }
        let ln = (wide::log10(&wide.magnitude()) - f64::from(wide.scale)) * LN_10;
        Ok(ln.abs().log10() as i32)
    }

    /// The square root.
    ///
    /// # Errors
    /// 2201F for a negative number.
    pub fn sqrt(&self) -> Result<Self> {
        let (weight, _) = self.first_group();
        let root_weight = if weight >= 0 { weight * 2 + 1 } else { 1 - (1 - weight * 4) / 2 };
        self.sqrt_to_scale(to_scale(SIGNIFICANT_DIGITS_MIN - root_weight, &[self]))
    }

    /// The square root, rounded to `scale` digits after the point.
    ///
    /// # Errors
    /// 2201F for a negative number.
    pub fn sqrt_to_scale(&self, scale: u32) -> Result<Self> {
        if self.signum() < 0 {
            return Err(Error::new(SqlState::BAD_POWER, "cannot take square root of a negative number"));
        }
        match self.finite() {
            Some(wide) => wide.sqrt_to_scale(scale)?.finish(),
            None => Ok(self.clone()),
        }
    }

    /// e to the power of it.
    ///
    /// # Errors
    /// 22003 if the result has too many digits.
    pub fn exp(&self) -> Result<Self> {
        let wide = match &self.0 {
            Form::Large(Large::NegativeInfinity) => return Ok(Self::ZERO),
            _ => match self.finite() {
                Some(wide) => wide,
                None => return Ok(self.clone()),
            },
        };
        let about = self.to_f64();
        let scale = to_scale(SIGNIFICANT_DIGITS_MIN - (about * LOG10_E).clamp(-2000.0, 2000.0) as i32, &[self]);
        if about.abs() >= EXPONENT_MAX {
            return if about > 0.0 { Err(overflow()) } else { zero_to_scale(scale) };
        }
        Fixed::exp_to_scale(|bits| Fixed::of_wide(&wide, bits), about, scale)
    }

    /// The natural logarithm of a positive number.
    ///
    /// # Errors
    /// 22003 if the result has too many digits.
    pub fn ln(&self) -> Result<Self> {
        debug_assert!(self.signum() > 0, "the caller has checked the sign");
        let Some(wide) = self.finite() else { return Ok(self.clone()) };
        let scale = to_scale(SIGNIFICANT_DIGITS_MIN - self.ln_weight(&wide)?, &[self]);
        Fixed::ln(&wide, bits_of_digits(i64::from(scale)) + GUARD_BITS)?.to_numeric(scale)
    }

    /// The logarithm of a positive number to a positive base.
    ///
    /// # Errors
    /// 22012 for the base 1; 22003 if the result has too many digits.
    pub fn log(&self, base: &Self) -> Result<Self> {
        debug_assert!(self.signum() > 0 && base.signum() > 0, "the caller has checked the signs");
        let (value, below) = match (self.finite(), base.finite()) {
            (Some(value), Some(below)) => (value, below),
            _ if self.is_nan() || base.is_nan() => return Ok(Self::NAN),
            (None, None) => return Ok(Self::NAN),
            (None, Some(_)) => return Ok(Self::INFINITY),
            (Some(_), None) => return Ok(Self::ZERO),
        };
        if *base == Self::ONE {
            return Err(division_by_zero());
        }
        let (weight, base_weight) = (self.ln_weight(&value)?, base.ln_weight(&below)?);
        let scale = to_scale(SIGNIFICANT_DIGITS_MIN - (weight - base_weight), &[base, self]);
        // So many digits of both logarithms count, from the first that is not zero.
        let digits = i64::from(scale) + i64::from((weight - base_weight).max(0)) + 2;
        let bits = bits_of_digits(digits + i64::from(-weight.min(base_weight).min(0)) + 2) + GUARD_BITS;
        let (dividend, divisor) = (Fixed::ln(&value, bits)?, Fixed::ln(&below, bits)?);
        charge_division(bits / 32)?;
        Fixed { value: (dividend.value << bits) / divisor.value, bits }.to_numeric(scale)
    }

    /// The power.
    ///
    /// # Errors
    /// 2201F for zero to a negative power, or a negative number to a fraction; 22003 if the result
    /// has too many digits.
    pub fn power(&self, exponent: &Self) -> Result<Self> {
        if self.is_nan() || exponent.is_nan() {
            let is_one = exponent.is_zero() || *self == Self::ONE;
            return Ok(if is_one { Self::ONE } else { Self::NAN });
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(Error::new(SqlState::BAD_POWER, "zero raised to a negative power is undefined"));
        }
        let whole = exponent.trim_scale();
        let is_whole = whole.scale() == 0;
        if self.signum() < 0 && !is_whole {
            return Err(Error::new(
                SqlState::BAD_POWER,
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        let is_odd = || -> Result<bool> { Ok(is_whole && !whole.rem(&Self::from(2i64))?.is_zero()) };
        let (base, by) = match (self.finite(), exponent.finite()) {
            (Some(base), Some(by)) => (base, by),
            _ => return self.infinite_power(exponent, is_odd),
        };
        if let Some(small) = whole.to_i128_rounded().filter(|_| is_whole).and_then(|whole| i32::try_from(whole).ok()) {
            return self.whole_power(&base, small);
        }
        if self.is_zero() {
            return zero_to_scale(SIGNIFICANT_DIGITS_MIN as u32);
        }
        let magnitude = Wide::new(false, base.magnitude(), base.scale);
        let rough = Rough::ln(&magnitude)?;
        let about = rough.times(&by);
        if about.abs() > EXPONENT_MAX / 2.0 * 2.01 {
            return if about > 0.0 { Err(overflow()) } else { zero_to_scale(RESULT_SCALE_MAX as u32) };
        }
        let scale = to_scale(SIGNIFICANT_DIGITS_MIN - (about * LOG10_E) as i32, &[self, exponent]);
        // An error in the logarithm is multiplied by the exponent.
        let by_bits = by.magnitude().bit_len().saturating_sub((f64::from(by.scale) * 3.32) as usize);
        let power = Fixed::exp_to_scale(
            |bits| {
                let ln = Fixed::ln(&magnitude, bits + by_bits + 16)?;
                charge_division(by.words() + ln.words())?;
                let product = &ln.value * &by.mantissa / IBig::from(wide::power_of_ten(by.scale));
                Ok(Fixed { value: product >> (by_bits + 16), bits })
            },
            about,
            scale,
        )?;
        Ok(if self.signum() < 0 && is_odd()? { power.negate() } else { power })
    }

    /// The power to a small whole number.
    fn whole_power(&self, base: &Wide, whole: i32) -> Result<Self> {
        // Of a whole power PostgreSQL shows a fixed number of digits.
        let scale = to_scale(SIGNIFICANT_DIGITS_MIN, &[self]);
        match whole {
            0 => return Self::ONE.round(scale as i32),
            1 => return self.round(scale as i32),
            -1 => return Self::ONE.div_to_scale(self, scale),
            2 => return self.mul(self)?.round(scale as i32),
            _ if base.is_zero() => return zero_to_scale(scale),
            _ => {}
        }
        let log10 = wide::log10(&base.magnitude()) - f64::from(base.scale);
        let about = f64::from(whole) * log10;
        if about > f64::from(DIGITS_BEFORE_MAX) + 1.0 {
            return Err(overflow());
        }
        if about + 1.0 < -f64::from(scale) {
            return zero_to_scale(scale);
        }
        base.power(whole, about.abs(), scale)
    }

    /// The power, if one of both is infinite and none is NaN, by the rules that POSIX has for
    /// floats.
    fn infinite_power(&self, exponent: &Self, is_odd: impl Fn() -> Result<bool>) -> Result<Self> {
        if *self == Self::ONE || exponent.is_zero() {
            return Ok(Self::ONE);
        }
        if self.is_zero() {
            return Ok(Self::ZERO);
        }
        let rises = exponent.signum() > 0;
        if !exponent.is_finite() {
            let magnitude = self.abs();
            return Ok(match magnitude.cmp(&Self::ONE) {
                std::cmp::Ordering::Equal => Self::ONE,
                order if order.is_gt() == rises => Self::INFINITY,
                _ => Self::ZERO,
            });
        }
        if !rises {
            return Ok(Self::ZERO);
        }
        Ok(Self::infinity(self.signum() < 0 && is_odd()?))
    }
}
