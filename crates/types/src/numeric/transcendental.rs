//! Roots, powers, exponentials and logarithms of `numeric`, in binary fixed point of
//! [`FRACTION_BITS`] bits.
//!
//! The scale of a result is PostgreSQL's: at least 16 significant digits, and no fewer digits than
//! the arguments show. The fixed point has more than twice the digits that a `Numeric` can have, so
//! that results are rounded correctly but for ties that no bounded precision could tell.

use std::cmp::Ordering;
use std::sync::LazyLock;

use super::{DIGITS_MAX, Numeric, SCALE_MAX, SIGNIFICANT_DIGITS_MIN, overflow};
use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// Bits after the binary point.
const FRACTION_BITS: usize = 448;
/// As PostgreSQL has it, so that scales are estimated alike.
#[expect(clippy::approx_constant, reason = "fewer digits than the type holds, on purpose")]
const LOG10_E: f64 = 0.434_294_481_903_252;
const LN_10: f64 = std::f64::consts::LN_10;

/// A natural number of any size, in 32-bit digits from the least, none at the end zero.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl Natural {
    fn from_u128(value: u128) -> Self {
        Self((0..4).map(|index| (value >> (32 * index)) as u32).collect()).trimmed()
    }

    fn one_shifted(bits: usize) -> Self {
        Self::from_u128(1).shift_left(bits)
    }

    fn power_of_ten(exponent: u32) -> Self {
        let mut power = Self::from_u128(1);
        for _ in 0..exponent {
            power = power.mul_small(10);
        }
        power
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |last| self.0.len() * 32 - last.leading_zeros() as usize)
    }

    fn to_u128(&self) -> Option<u128> {
        (self.0.len() <= 4).then(|| self.0.iter().rev().fold(0, |sum, &digit| sum << 32 | u128::from(digit)))
    }

    fn add(&self, other: &Self) -> Self {
        let mut carry = 0u64;
        let mut sum: Vec<u32> = (0..self.0.len().max(other.0.len()))
            .map(|index| {
                let digit = |number: &Self| u64::from(number.0.get(index).copied().unwrap_or(0));
                carry += digit(self) + digit(other);
                let low = carry as u32;
                carry >>= 32;
                low
            })
            .collect();
        sum.push(carry as u32);
        Self(sum).trimmed()
    }

    /// `self - other`, which is not above `self`.
    fn sub(&self, other: &Self) -> Self {
        let mut borrow = 0i64;
        let difference = (0..self.0.len())
            .map(|index| {
                borrow += i64::from(self.0[index]) - i64::from(other.0.get(index).copied().unwrap_or(0));
                let low = borrow as u32;
                borrow >>= 32;
                low
            })
            .collect();
        debug_assert_eq!(borrow, 0, "nothing below zero");
        Self(difference).trimmed()
    }

    fn mul(&self, other: &Self) -> Self {
        let mut product = vec![0u32; self.0.len() + other.0.len()];
        for (at, &digit) in self.0.iter().enumerate() {
            let mut carry = 0u64;
            for (index, &factor) in other.0.iter().enumerate() {
                carry += u64::from(digit) * u64::from(factor) + u64::from(product[at + index]);
                product[at + index] = carry as u32;
                carry >>= 32;
            }
            product[at + other.0.len()] = carry as u32;
        }
        Self(product).trimmed()
    }

    fn mul_small(&self, factor: u32) -> Self {
        self.mul(&Self(vec![factor]).trimmed())
    }

    fn div_small(&self, divisor: u32) -> Self {
        let mut rest = 0u64;
        let mut quotient = self.0.clone();
        for digit in quotient.iter_mut().rev() {
            rest = rest << 32 | u64::from(*digit);
            *digit = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        Self(quotient).trimmed()
    }

    fn shift_left(&self, bits: usize) -> Self {
        let (digits, bits) = (bits / 32, bits % 32);
        let mut out = vec![0; digits];
        let mut carry = 0u32;
        for &digit in &self.0 {
            out.push(digit << bits | carry);
            carry = if bits == 0 { 0 } else { digit >> (32 - bits) };
        }
        out.push(carry);
        Self(out).trimmed()
    }

    fn shift_right(&self, bits: usize) -> Self {
        let (digits, bits) = (bits / 32, bits % 32);
        let rest = self.0.get(digits..).unwrap_or_default();
        let out = (0..rest.len())
            .map(|index| {
                let above = rest.get(index + 1).copied().unwrap_or(0);
                rest[index] >> bits | if bits == 0 { 0 } else { above << (32 - bits) }
            })
            .collect();
        Self(out).trimmed()
    }

    /// The quotient without its fraction, a bit at a time.
    fn div(&self, divisor: &Self) -> Self {
        let mut quotient = Self(vec![0; self.0.len()]);
        let mut rest = Self(Vec::new());
        for bit in (0..self.bits()).rev() {
            rest = rest.shift_left(1);
            if self.0[bit / 32] >> (bit % 32) & 1 != 0 {
                rest = rest.add(&Self(vec![1]));
            }
            if rest.cmp(divisor) != Ordering::Less {
                rest = rest.sub(divisor);
                quotient.0[bit / 32] |= 1 << (bit % 32);
            }
        }
        quotient.trimmed()
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// The greatest number whose square is not above.
    fn square_root(&self) -> Self {
        let mut root = Self(Vec::new());
        for bit in (0..=self.bits().div_ceil(2)).rev() {
            let candidate = root.add(&Self::one_shifted(bit));
            if candidate.mul(&candidate).cmp(self) != Ordering::Greater {
                root = candidate;
            }
        }
        root
    }
}

/// What a logarithm, a power or a root takes, in units of work: a series of long multiplications.
const UNITS_PER_SERIES: usize = 10_000;

/// A number in fixed point.
#[derive(Debug, Clone)]
struct Fixed {
    negative: bool,
    magnitude: Natural,
}

impl Fixed {
    fn new(negative: bool, magnitude: Natural) -> Self {
        Self { negative: negative && !magnitude.is_zero(), magnitude }
    }

    fn from_numeric(value: Numeric) -> Self {
        let magnitude = Natural::from_u128(value.mantissa().unsigned_abs()).shift_left(FRACTION_BITS);
        Self::new(value.signum() < 0, magnitude.div(&Natural::power_of_ten(u32::from(value.scale()))))
    }

    fn from_i64(value: i64) -> Self {
        Self::new(value < 0, Natural::from_u128(u128::from(value.unsigned_abs())).shift_left(FRACTION_BITS))
    }

    fn negate(&self) -> Self {
        Self::new(!self.negative, self.magnitude.clone())
    }

    fn add(&self, other: &Self) -> Self {
        if self.negative == other.negative {
            return Self::new(self.negative, self.magnitude.add(&other.magnitude));
        }
        match self.magnitude.cmp(&other.magnitude) {
            Ordering::Less => Self::new(other.negative, other.magnitude.sub(&self.magnitude)),
            _ => Self::new(self.negative, self.magnitude.sub(&other.magnitude)),
        }
    }

    fn sub(&self, other: &Self) -> Self {
        self.add(&other.negate())
    }

    fn mul(&self, other: &Self) -> Self {
        Self::new(self.negative != other.negative, self.magnitude.mul(&other.magnitude).shift_right(FRACTION_BITS))
    }

    fn div(&self, other: &Self) -> Self {
        Self::new(self.negative != other.negative, self.magnitude.shift_left(FRACTION_BITS).div(&other.magnitude))
    }

    fn to_f64(&self) -> f64 {
        let drop = self.magnitude.bits().saturating_sub(64);
        let top = self.magnitude.shift_right(drop).to_u128().unwrap_or(0) as f64;
        let value = top * 2f64.powi(drop as i32 - FRACTION_BITS as i32);
        if self.negative { -value } else { value }
    }

    /// Rounded to `scale` digits after the point.
    fn to_numeric(&self, scale: u32) -> Result<Numeric> {
        if scale > SCALE_MAX {
            return Err(overflow());
        }
        let scaled = self.magnitude.mul(&Natural::power_of_ten(scale));
        // A hair above one half: an exact tie may have come out just below.
        let half = Natural::one_shifted(FRACTION_BITS - 1).add(&Natural::one_shifted(FRACTION_BITS - 150));
        let rounded = scaled.add(&half).shift_right(FRACTION_BITS).to_u128().ok_or_else(overflow)?;
        Numeric::fit(self.negative, 0, rounded, scale)
    }

    /// Half the logarithm of (1 + y) / (1 - y), for y well below 1.
    fn atanh(y: &Self) -> Self {
        let square = y.mul(y);
        let (mut sum, mut power, mut divisor) = (y.clone(), y.clone(), 1u32);
        loop {
            power = power.mul(&square);
            divisor += 2;
            let term = Self::new(power.negative, power.magnitude.div_small(divisor));
            if term.magnitude.is_zero() {
                return sum;
            }
            sum = sum.add(&term);
        }
    }

    /// The natural logarithm of a positive number.
    fn ln(value: Numeric) -> Self {
        let mantissa = Natural::from_u128(value.mantissa().unsigned_abs());
        let divisor = Natural::power_of_ten(u32::from(value.scale()));
        // value = part * 2^exponent, with part from 1/2 to 2
        let exponent = mantissa.bits() as i64 - divisor.bits() as i64;
        let shift = FRACTION_BITS as i64 - exponent;
        let part = if shift >= 0 {
            mantissa.shift_left(shift as usize).div(&divisor)
        } else {
            mantissa.div(&divisor.shift_left(shift.unsigned_abs() as usize))
        };
        let part = Self::new(false, part);
        let one = Self::from_i64(1);
        let y = part.sub(&one).div(&part.add(&one));
        let twice = |value: &Self| value.add(value);
        twice(&Self::atanh(&y)).add(&LN_2.mul(&Self::from_i64(exponent)))
    }

    /// e to the power of it, if that is below 10^39.
    fn exp(&self) -> Result<Self> {
        let approximate = self.to_f64();
        if approximate > f64::from(DIGITS_MAX + 1) * LN_10 {
            return Err(overflow());
        }
        if approximate < -f64::from(SCALE_MAX + 20) * LN_10 {
            return Ok(Self::from_i64(0));
        }
        const HALVINGS: usize = 12;
        let exponent = (approximate / std::f64::consts::LN_2).round() as i64;
        let rest = self.sub(&LN_2.mul(&Self::from_i64(exponent)));
        let small = Self::new(rest.negative, rest.magnitude.shift_right(HALVINGS));
        let (mut sum, mut term, mut count) = (Self::from_i64(1), Self::from_i64(1), 0u32);
        loop {
            count += 1;
            term = term.mul(&small);
            term.magnitude = term.magnitude.div_small(count);
            if term.magnitude.is_zero() {
                break;
            }
            sum = sum.add(&term);
        }
        for _ in 0..HALVINGS {
            sum = sum.mul(&sum);
        }
        let magnitude = if exponent >= 0 {
            sum.magnitude.shift_left(exponent as usize)
        } else {
            sum.magnitude.shift_right(exponent.unsigned_abs() as usize)
        };
        Ok(Self::new(false, magnitude))
    }
}

static LN_2: LazyLock<Fixed> = LazyLock::new(|| {
    let third = Fixed::from_i64(1).div(&Fixed::from_i64(3));
    let half = Fixed::atanh(&third);
    half.add(&half)
});

impl Numeric {
    /// PostgreSQL's estimate of the decimal weight of its logarithm.
    fn ln_weight(self) -> Result<i32> {
        let (low, high) = (Self::new(9, 1), Self::new(11, 1));
        if self >= low && self <= high {
            let (weight, first) = self.sub(Self::ONE)?.abs().first_group();
            return Ok(if first == 0 { 0 } else { weight * 4 + first.ilog10() as i32 });
        }
        let ln = self.approximate_log10() * LN_10;
        Ok(ln.abs().log10() as i32)
    }

    /// Its decimal logarithm, roughly.
    fn approximate_log10(self) -> f64 {
        (self.mantissa().unsigned_abs() as f64).log10() - f64::from(self.scale)
    }

    fn clamp_scale(self, scale: i32) -> u32 {
        scale.max(i32::from(self.scale)).max(0) as u32
    }

    /// The square root.
    ///
    /// # Errors
    /// 2201F for a negative number.
    pub fn sqrt(self) -> Result<Self> {
        let (weight, _) = self.first_group();
        let root_weight = if weight >= 0 { weight * 2 + 1 } else { 1 - (1 - weight * 4) / 2 };
        self.sqrt_to_scale(self.clamp_scale(SIGNIFICANT_DIGITS_MIN - root_weight))
    }

    /// The square root, rounded to `scale` digits after the point.
    ///
    /// # Errors
    /// 2201F for a negative number.
    pub fn sqrt_to_scale(self, scale: u32) -> Result<Self> {
        pulse::work(UNITS_PER_SERIES)?;
        if self.signum() < 0 {
            return Err(Error::new(SqlState::BAD_POWER, "cannot take square root of a negative number"));
        }
        if scale > SCALE_MAX {
            return Err(overflow());
        }
        let mantissa = Natural::from_u128(self.mantissa().unsigned_abs());
        let shift = 2 * scale as i32 - i32::from(self.scale);
        let square = if shift >= 0 {
            mantissa.mul(&Natural::power_of_ten(shift as u32))
        } else {
            mantissa.div(&Natural::power_of_ten(shift.unsigned_abs()))
        };
        let root = square.square_root();
        // (root + 1/2)^2 = root^2 + root + 1/4
        let up = square.sub(&root.mul(&root)).cmp(&root) == Ordering::Greater;
        let root = root.to_u128().ok_or_else(overflow)?;
        Self::fit(false, 0, root + u128::from(up), scale)
    }

    /// e to the power of it.
    ///
    /// # Errors
    /// 22003 if the result does not fit.
    pub fn exp(self) -> Result<Self> {
        pulse::work(UNITS_PER_SERIES)?;
        let scale = self.clamp_scale(SIGNIFICANT_DIGITS_MIN - (self.to_f64() * LOG10_E).clamp(-1000.0, 1000.0) as i32);
        Fixed::from_numeric(self).exp()?.to_numeric(scale)
    }

    /// The natural logarithm of a positive number.
    ///
    /// # Errors
    /// 22003 if the result does not fit.
    pub fn ln(self) -> Result<Self> {
        pulse::work(UNITS_PER_SERIES)?;
        debug_assert!(self.signum() > 0, "the caller has checked the sign");
        let scale = self.clamp_scale(SIGNIFICANT_DIGITS_MIN - self.ln_weight()?);
        Fixed::ln(self).to_numeric(scale)
    }

    /// The logarithm of a positive number to a positive base other than 1.
    ///
    /// # Errors
    /// 22003 if the result does not fit.
    pub fn log(self, base: Self) -> Result<Self> {
        pulse::work(UNITS_PER_SERIES)?;
        debug_assert!(self.signum() > 0 && base.signum() > 0, "the caller has checked the signs");
        let weight = self.ln_weight()? - base.ln_weight()?;
        let scale = base.clamp_scale(SIGNIFICANT_DIGITS_MIN - weight).max(u32::from(self.scale));
        Fixed::ln(self).div(&Fixed::ln(base)).to_numeric(scale)
    }

    /// The power.
    ///
    /// # Errors
    /// 2201F for zero to a negative power, or a negative number to a fraction; 22003 if the result
    /// does not fit.
    pub fn power(self, exponent: Self) -> Result<Self> {
        pulse::work(UNITS_PER_SERIES)?;
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
        let small_whole = i32::try_from(whole.mantissa()).ok().filter(|_| is_whole);
        if self.is_zero() && small_whole.is_none() {
            return Ok(Self::raw(0, SIGNIFICANT_DIGITS_MIN as u8));
        }
        let log10 = if self.is_zero() { 0.0 } else { self.approximate_log10() * exponent.to_f64() };
        // Of a whole power PostgreSQL shows a fixed number of digits.
        let scale = match small_whole {
            Some(_) => SIGNIFICANT_DIGITS_MIN,
            None => SIGNIFICANT_DIGITS_MIN - log10.clamp(-2000.0, 2000.0) as i32,
        };
        let scale = self.clamp_scale(scale).max(u32::from(exponent.scale));
        match small_whole {
            Some(0) => return Self::ONE.round(scale as i32),
            Some(1) => return self.round(scale as i32),
            Some(-1) => return Self::ONE.div_to_scale(self, scale),
            _ if self.is_zero() => return Self::ZERO.round(scale as i32),
            _ => {}
        }
        let negative = self.signum() < 0 && is_whole && whole.mantissa() % 2 != 0;
        let power = Fixed::from_numeric(exponent).mul(&Fixed::ln(self.abs())).exp()?;
        Fixed::new(negative, power.magnitude).to_numeric(scale)
    }
}
