//! `numeric`: exact decimals of up to 131,072 digits before the point and 16,383 behind it, NaN and
//! the infinities.
//!
//! ```text
//! small    := mantissa / 10^scale     |mantissa| < 10^38   scale <= 100     two words and a byte
//! large    := mantissa / 10^scale     what is not small    scale <= 16,383  shared, on the heap
//! special  := NaN | Infinity | -Infinity
//! ```
//! The scale is how many digits are shown after the point: 1.0 and 1.00 are equal, but print as
//! they came. Results have PostgreSQL's scales, rounded half away from zero.
//!
//! Invariants: what can be small is: two values of different forms are never identical. What has
//! more digits than the type allows is error 22003, never a wrong digit. NaN equals itself and is
//! above everything else.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dashu_int::{IBig, UBig};

use crate::error::{Error, Result, SqlState};
use crate::pulse;

mod bytes;
mod small;
mod transcendental;
mod wide;

pub(crate) use bytes::{KeyDigits, KeyForm};
pub use bytes::{LARGE_SCALE, Wire};
use small::Small;
use wide::Wide;

/// The most digits of a value that takes no memory besides its own.
pub const SMALL_DIGITS_MAX: u32 = small::DIGITS_MAX;
/// The most digits behind the point of such a value.
pub const SMALL_SCALE_MAX: u32 = small::SCALE_MAX;
/// The most digits before the point.
pub const DIGITS_BEFORE_MAX: u32 = 131_072;
/// The most digits after the point.
pub const SCALE_MAX: u32 = 16_383;
/// The most digits of `numeric(p, s)`.
pub const PRECISION_MAX: u16 = 1000;
/// PostgreSQL's least number of significant digits of an inexact result.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;
/// PostgreSQL's greatest scale of one.
const RESULT_SCALE_MAX: i32 = 1000;
/// Of this and greater numbers the factorial has too many digits.
const FACTORIAL_END: i64 = 32_178;

/// An exact decimal, NaN or an infinity.
#[derive(Clone)]
pub struct Numeric(Form);

#[derive(Clone)]
enum Form {
    Small(Small),
    Large(Large),
}

/// What is not small.
#[derive(Clone)]
enum Large {
    Finite(Arc<Wide>),
    Infinity,
    NegativeInfinity,
    NaN,
}

const _: () = assert!(size_of::<Numeric>() == 24);

/// What has too many digits.
#[cold]
fn overflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value overflows numeric format")
}

/// A finite value, or what another is instead.
enum Seen<'a> {
    Finite(std::borrow::Cow<'a, Wide>),
    Infinite { negative: bool },
    NaN,
}

impl Numeric {
    /// Zero.
    pub const ZERO: Self = Self(Form::Small(Small::raw(0, 0)));
    /// One.
    pub const ONE: Self = Self(Form::Small(Small::raw(1, 0)));
    /// What is no number.
    pub const NAN: Self = Self(Form::Large(Large::NaN));
    /// Above all numbers.
    pub const INFINITY: Self = Self(Form::Large(Large::Infinity));
    /// Below all numbers.
    pub const NEGATIVE_INFINITY: Self = Self(Form::Large(Large::NegativeInfinity));

    /// `mantissa / 10^scale`. Panics unless both are within the bounds of a small value.
    #[must_use]
    #[track_caller]
    pub fn new(mantissa: i128, scale: u8) -> Self {
        Self(Form::Small(Small::checked(mantissa, u32::from(scale)).expect("within bounds")))
    }

    /// `mantissa / 10^scale`.
    ///
    /// # Errors
    /// 22003 for a scale above [`SCALE_MAX`].
    #[inline]
    pub fn checked(mantissa: i128, scale: u32) -> Result<Self> {
        match Small::checked(mantissa, scale) {
            Some(small) => Ok(Self(Form::Small(small))),
            None => Wide { mantissa: IBig::from(mantissa), scale }.finish(),
        }
    }

    /// All its digits as one integer and how many of them are behind the point, of a value that
    /// takes no memory besides its own.
    #[inline]
    #[must_use]
    pub fn small(&self) -> Option<(i128, u8)> {
        match &self.0 {
            Form::Small(small) => Some((small.mantissa(), small.scale())),
            Form::Large(_) => None,
        }
    }

    /// How many of the digits are after the point; none of NaN and the infinities.
    #[inline]
    #[must_use]
    pub fn scale(&self) -> u16 {
        match &self.0 {
            Form::Small(small) => u16::from(small.scale()),
            Form::Large(Large::Finite(wide)) => wide.scale as u16,
            Form::Large(_) => 0,
        }
    }

    /// Whether it is neither NaN nor an infinity.
    #[inline]
    #[must_use]
    pub fn is_finite(&self) -> bool {
        matches!(&self.0, Form::Small(_) | Form::Large(Large::Finite(_)))
    }

    /// Whether it is NaN.
    #[must_use]
    pub fn is_nan(&self) -> bool {
        matches!(&self.0, Form::Large(Large::NaN))
    }

    /// Bytes that it holds besides its own size.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Large(Large::Finite(wide)) => size_of::<Wide>() + 16 + wide.words() * 8,
            _ => 0,
        }
    }

    fn infinity(negative: bool) -> Self {
        if negative { Self::NEGATIVE_INFINITY } else { Self::INFINITY }
    }

    fn of_large(negative: bool, magnitude: UBig, scale: u32) -> Result<Self> {
        Wide::new(negative, magnitude, scale).finish()
    }

    fn seen(&self) -> Seen<'_> {
        use std::borrow::Cow;
        match &self.0 {
            Form::Small(small) => Seen::Finite(Cow::Owned(Wide::of_small(*small))),
            Form::Large(Large::Finite(wide)) => Seen::Finite(Cow::Borrowed(wide)),
            Form::Large(Large::Infinity) => Seen::Infinite { negative: false },
            Form::Large(Large::NegativeInfinity) => Seen::Infinite { negative: true },
            Form::Large(Large::NaN) => Seen::NaN,
        }
    }

    /// -1, 0 or 1; 1 for NaN, which is above zero.
    #[must_use]
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Form::Small(small) => small.mantissa().signum() as i32,
            Form::Large(Large::Finite(wide)) if wide.is_zero() => 0,
            Form::Large(Large::Finite(wide)) if wide.is_negative() => -1,
            Form::Large(Large::NegativeInfinity) => -1,
            Form::Large(_) => 1,
        }
    }

    /// -1, 0 or 1 as a value, NaN for NaN.
    #[must_use]
    pub fn sign(&self) -> Self {
        if self.is_nan() { Self::NAN } else { Self::from(i64::from(self.signum())) }
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// The negated value.
    #[must_use]
    pub fn negate(&self) -> Self {
        Self(match &self.0 {
            Form::Small(small) => Form::Small(small.negate()),
            Form::Large(Large::Finite(wide)) => {
                let negated = Wide { mantissa: -wide.mantissa.clone(), scale: wide.scale };
                Form::Large(Large::Finite(Arc::new(negated)))
            }
            Form::Large(Large::Infinity) => Form::Large(Large::NegativeInfinity),
            Form::Large(Large::NegativeInfinity) => Form::Large(Large::Infinity),
            Form::Large(Large::NaN) => Form::Large(Large::NaN),
        })
    }

    /// The value without its sign.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.signum() < 0 { self.negate() } else { self.clone() }
    }

    /// `self + other`
    ///
    /// # Errors
    /// 22003 if the result has too many digits, as everything below.
    #[inline]
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &other.0)
            && let Some(sum) = a.add(*b)
        {
            return Ok(Self(Form::Small(sum)));
        }
        self.add_large(other)
    }

    #[cold]
    fn add_large(&self, other: &Self) -> Result<Self> {
        match (self.seen(), other.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => a.add(&b)?.finish(),
            (Seen::NaN, _) | (_, Seen::NaN) => Ok(Self::NAN),
            (Seen::Infinite { negative: a }, Seen::Infinite { negative: b }) if a != b => Ok(Self::NAN),
            (Seen::Infinite { negative }, _) | (_, Seen::Infinite { negative }) => Ok(Self::infinity(negative)),
        }
    }

    /// `self - other`
    #[inline]
    pub fn sub(&self, other: &Self) -> Result<Self> {
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &other.0)
            && let Some(difference) = a.add(b.negate())
        {
            return Ok(Self(Form::Small(difference)));
        }
        if let (Seen::Finite(a), Seen::Finite(b)) = (self.seen(), other.seen()) {
            return a.sub(&b)?.finish();
        }
        self.add_large(&other.negate())
    }

    /// `self * other`
    #[inline]
    pub fn mul(&self, other: &Self) -> Result<Self> {
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &other.0)
            && let Some(product) = a.mul(*b)
        {
            return Ok(Self(Form::Small(product)));
        }
        self.mul_large(other)
    }

    #[cold]
    fn mul_large(&self, other: &Self) -> Result<Self> {
        match (self.seen(), other.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => {
                let product = a.mul(&b)?;
                if product.scale > SCALE_MAX { product.cut(SCALE_MAX as i32, true)? } else { product }.finish()
            }
            (Seen::NaN, _) | (_, Seen::NaN) => Ok(Self::NAN),
            _ => Ok(match self.signum() * other.signum() {
                0 => Self::NAN,
                sign => Self::infinity(sign < 0),
            }),
        }
    }

    /// `self + other`, which may have more digits than a value can have: for sums that go on.
    pub(crate) fn add_unbounded(&self, other: &Self) -> Result<Self> {
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &other.0)
            && let Some(sum) = a.add(*b)
        {
            return Ok(Self(Form::Small(sum)));
        }
        match (self.seen(), other.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => Ok(a.add(&b)?.keep()),
            _ => self.add_large(other),
        }
    }

    /// `self * other`, as [`Numeric::add_unbounded`].
    pub(crate) fn mul_unbounded(&self, other: &Self) -> Result<Self> {
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &other.0)
            && let Some(product) = a.mul(*b)
        {
            return Ok(Self(Form::Small(product)));
        }
        match (self.seen(), other.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => Ok(a.mul(&b)?.keep()),
            _ => self.mul_large(other),
        }
    }

    /// What was computed without bounds.
    ///
    /// # Errors
    /// 22003 if it has more digits than a value can have.
    pub(crate) fn bounded(self) -> Result<Self> {
        if let Form::Large(Large::Finite(wide)) = &self.0 {
            wide.check_bounds()?;
        }
        Ok(self)
    }

    /// The position and value of the first digit in base 10,000, in which PostgreSQL computes: its
    /// results' scales depend on it.
    fn first_group(&self) -> (i32, u32) {
        match &self.0 {
            Form::Small(small) => small.first_group(),
            Form::Large(Large::Finite(wide)) => wide.first_group(),
            Form::Large(_) => (0, 0),
        }
    }

    /// How many digits after the point PostgreSQL gives a quotient.
    fn quotient_scale(&self, divisor: &Self) -> u32 {
        let ((weight, first), (divisor_weight, divisor_first)) = (self.first_group(), divisor.first_group());
        let weight = weight - divisor_weight - i32::from(first <= divisor_first);
        let scale = SIGNIFICANT_DIGITS_MIN - weight * 4;
        let scale = scale.max(i32::from(self.scale())).max(i32::from(divisor.scale()));
        scale.clamp(0, RESULT_SCALE_MAX) as u32
    }

    /// What a division by `divisor` gives unless both are finite, and the divisor is not zero.
    fn divide_special(&self, divisor: &Self) -> Result<Option<Self>> {
        Ok(match (&self.0, &divisor.0) {
            (Form::Large(Large::NaN), _) | (_, Form::Large(Large::NaN)) => Some(Self::NAN),
            _ if divisor.is_zero() => return Err(division_by_zero()),
            _ => match (self.is_finite(), divisor.is_finite()) {
                (true, true) => None,
                (true, false) => Some(Self::ZERO),
                (false, false) => Some(Self::NAN),
                (false, true) => Some(Self::infinity(self.signum() != divisor.signum())),
            },
        })
    }

    /// `self / divisor`
    ///
    /// # Errors
    /// 22012 for zero as divisor.
    pub fn div(&self, divisor: &Self) -> Result<Self> {
        if let Some(special) = self.divide_special(divisor)? {
            return Ok(special);
        }
        self.div_to_scale(divisor, self.quotient_scale(divisor))
    }

    /// `self / divisor`, rounded to `scale` digits after the point.
    ///
    /// # Errors
    /// As [`Numeric::div`].
    pub fn div_to_scale(&self, divisor: &Self, scale: u32) -> Result<Self> {
        if let Some(special) = self.divide_special(divisor)? {
            return Ok(special);
        }
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &divisor.0)
            && let Some(quotient) = a.div_to_scale(*b, scale)
        {
            return Ok(Self(Form::Small(quotient)));
        }
        match (self.seen(), divisor.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => a.div_to_scale(&b, scale)?.finish(),
            _ => Ok(Self::NAN),
        }
    }

    /// The quotient without its fraction: `div(self, divisor)`.
    ///
    /// # Errors
    /// As [`Numeric::div`].
    pub fn div_truncated(&self, divisor: &Self) -> Result<Self> {
        if let Some(special) = self.divide_special(divisor)? {
            return Ok(special);
        }
        match (self.seen(), divisor.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => a.div_truncated(&b)?.finish(),
            _ => Ok(Self::NAN),
        }
    }

    /// The rest of the division towards zero, with the sign of `self`: `self % divisor`.
    ///
    /// # Errors
    /// As [`Numeric::div`].
    pub fn rem(&self, divisor: &Self) -> Result<Self> {
        match self.divide_special(divisor)? {
            None => {}
            Some(special) if special.is_nan() => return Ok(special),
            Some(_) => return Ok(if self.is_finite() { self.clone() } else { Self::NAN }),
        }
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &divisor.0)
            && let Some(rest) = a.rem(*b)
        {
            return Ok(Self(Form::Small(rest)));
        }
        match (self.seen(), divisor.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => a.rem(&b)?.finish(),
            _ => Ok(Self::NAN),
        }
    }

    /// The greatest common divisor.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn gcd(&self, other: &Self) -> Result<Self> {
        match (self.seen(), other.seen()) {
            (Seen::Finite(a), Seen::Finite(b)) => a.gcd(&b)?.finish(),
            _ => Ok(Self::NAN),
        }
    }

    /// The least common multiple.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn lcm(&self, other: &Self) -> Result<Self> {
        let scale = i32::from(self.scale().max(other.scale()));
        if !self.is_finite() || !other.is_finite() {
            return Ok(Self::NAN);
        }
        if self.is_zero() || other.is_zero() {
            return Self::ZERO.round(scale);
        }
        self.div_truncated(&self.gcd(other)?)?.mul(other)?.abs().round(scale)
    }

    /// The product of all whole numbers up to one.
    ///
    /// # Errors
    /// 22003 for a negative one, and if the product has too many digits.
    pub fn factorial(of: i64) -> Result<Self> {
        match of {
            ..0 => Err(Error::new(SqlState::OUT_OF_RANGE, "factorial of a negative number is undefined")),
            0..FACTORIAL_END => Self::of_large(false, wide::factorial(of as u32)?, 0),
            FACTORIAL_END.. => Err(overflow()),
        }
    }

    /// Rounded half away from zero to `digits` after the point (before it, if negative), which are
    /// then its scale.
    pub fn round(&self, digits: i32) -> Result<Self> {
        self.cut(digits, true)
    }

    /// Cut to `digits` after the point (before it, if negative).
    pub fn trunc(&self, digits: i32) -> Result<Self> {
        self.cut(digits, false)
    }

    fn cut(&self, digits: i32, rounds: bool) -> Result<Self> {
        let digits = digits.clamp(-(DIGITS_BEFORE_MAX as i32) - 1, SCALE_MAX as i32);
        if let Form::Small(small) = &self.0
            && let Some(cut) = small.cut(digits, rounds)
        {
            return Ok(Self(Form::Small(cut)));
        }
        match self.seen() {
            Seen::Finite(wide) => wide.cut(digits, rounds)?.finish(),
            _ => Ok(self.clone()),
        }
    }

    /// The least whole number that is not below.
    pub fn ceil(&self) -> Result<Self> {
        let whole = self.trunc(0)?;
        if whole < *self { whole.add(&Self::ONE) } else { Ok(whole) }
    }

    /// The greatest whole number that is not above.
    pub fn floor(&self) -> Result<Self> {
        let whole = self.trunc(0)?;
        if whole > *self { whole.sub(&Self::ONE) } else { Ok(whole) }
    }

    /// Eight bytes for sorting: what has fewer of them is less, and what has as many may be anything.
    /// They hold the greatest multiple of 2^-16 that is not above the value, up to ±2^46.
    #[must_use]
    pub fn order_head(&self) -> u64 {
        const WHOLE_END: i128 = 1 << 46;
        const FRACTION_BITS: u32 = 16;
        /// A multiple of 2^-16 has no more digits behind the point; more of a value decide nothing.
        const DIGITS_MAX: u32 = 33;
        let end = (WHOLE_END << FRACTION_BITS) as i64;
        let head = match &self.0 {
            Form::Small(small) => {
                let (mut mantissa, mut scale) = (small.mantissa(), u32::from(small.scale()));
                if scale > DIGITS_MAX {
                    let too_many = small::power_of_ten(scale - DIGITS_MAX).map_or(i128::MAX, |power| power as i128);
                    (mantissa, scale) = (mantissa.div_euclid(too_many), DIGITS_MAX);
                }
                let power = small::power_of_ten(scale).map_or(i128::MAX, |power| power as i128);
                match (i64::try_from(mantissa), i64::try_from(power)) {
                    (Ok(mantissa), Ok(power)) if i128::from(mantissa.unsigned_abs()) < WHOLE_END => {
                        (mantissa << FRACTION_BITS).div_euclid(power)
                    }
                    _ => match mantissa.div_euclid(power) {
                        whole if whole >= WHOLE_END => end,
                        whole if whole < -WHOLE_END => -end,
                        whole => {
                            let fraction = (mantissa.rem_euclid(power) << FRACTION_BITS) / power;
                            ((whole << FRACTION_BITS) + fraction) as i64
                        }
                    },
                }
            }
            Form::Large(Large::Finite(_)) => {
                let parts = Self::from(1_i64 << FRACTION_BITS);
                let found = self.mul(&parts).and_then(|scaled| scaled.floor()).ok();
                match found.and_then(|floor| floor.to_i128_rounded()) {
                    Some(floor) => floor.clamp(i128::from(-end), i128::from(end)) as i64,
                    None if self.signum() < 0 => -end,
                    None => end,
                }
            }
            Form::Large(Large::NegativeInfinity) => i64::MIN,
            Form::Large(Large::Infinity | Large::NaN) => i64::MAX,
        };
        head as u64 ^ 1 << 63
    }

    /// How many digits are before the point; below zero, how many zeros are behind it.
    fn digits_before(&self) -> i32 {
        match &self.0 {
            Form::Small(small) => small::digit_count(small.mantissa().unsigned_abs()) as i32 - i32::from(small.scale()),
            Form::Large(Large::Finite(wide)) => wide::digit_count(&wide.magnitude()) as i32 - wide.scale as i32,
            Form::Large(_) => 0,
        }
    }

    /// Rounded to `scale` digits after the point, if it then has at most `precision` digits:
    /// `numeric(precision, scale)`.
    ///
    /// # Errors
    /// 22003 if it has more, or is infinite.
    #[inline]
    pub fn with_precision(self, precision: u16, scale: i16) -> Result<Self> {
        if let Form::Small(small) = &self.0
            && i16::from(small.scale()) == scale
        {
            // The common case: a value that was made for its column.
            let fits =
                small::power_of_ten(u32::from(precision)).is_none_or(|end| small.mantissa().unsigned_abs() < end);
            return if fits { Ok(self) } else { Err(field_overflow(precision, scale)) };
        }
        if !self.is_finite() {
            return if self.is_nan() { Ok(self) } else { Err(infinite_field(precision, scale)) };
        }
        let value = self.round(i32::from(scale))?;
        if value.digits_before() > i32::from(precision) - i32::from(scale) && !value.is_zero() {
            return Err(field_overflow(precision, scale));
        }
        Ok(value)
    }

    /// Without zeros at the end of the fraction.
    #[must_use]
    pub fn trim_scale(&self) -> Self {
        match &self.0 {
            Form::Small(small) => Self(Form::Small(small.trim_scale())),
            Form::Large(Large::Finite(wide)) => wide.trim_scale().finish().unwrap_or_else(|_| self.clone()),
            Form::Large(_) => self.clone(),
        }
    }

    /// The nearest whole number, if there is one and an `i128` holds it.
    #[must_use]
    pub fn to_i128_rounded(&self) -> Option<i128> {
        match self.round(0).ok()?.0 {
            Form::Small(whole) => Some(whole.mantissa()),
            Form::Large(Large::Finite(whole)) => i128::try_from(&whole.mantissa).ok(),
            Form::Large(_) => None,
        }
    }

    /// The nearest whole number, if an `i64` holds it.
    #[must_use]
    pub fn to_i64_rounded(&self) -> Option<i64> {
        i64::try_from(self.to_i128_rounded()?).ok()
    }

    /// The nearest float; infinite if it is beyond all of them.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Form::Small(small) => small.to_f64(),
            Form::Large(Large::Finite(wide)) => wide.to_f64(),
            Form::Large(Large::Infinity) => f64::INFINITY,
            Form::Large(Large::NegativeInfinity) => f64::NEG_INFINITY,
            Form::Large(Large::NaN) => f64::NAN,
        }
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
            return Ok(if value.is_nan() { Self::NAN } else { Self::infinity(value < 0.0) });
        }
        // The digits have zeros at the end that `%g` would not show.
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        Self::parse(&format!("{digits}e{exponent}"))
    }

    /// Reads a decimal as PostgreSQL does: blanks around it, a sign, digits, a point, an exponent;
    /// or `NaN`, `Infinity`, `inf`.
    ///
    /// # Errors
    /// 22P02 for other texts, 22003 for too many digits.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type numeric: \"{text}\""));
        let all = crate::letters::trim(text).as_bytes();
        let (negative, bytes) = match all {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, all),
        };
        if bytes.first().is_some_and(u8::is_ascii_alphabetic) {
            return match bytes {
                _ if all.eq_ignore_ascii_case(b"nan") => Ok(Self::NAN),
                _ if bytes.eq_ignore_ascii_case(b"infinity") => Ok(Self::infinity(negative)),
                _ if bytes.eq_ignore_ascii_case(b"inf") => Ok(Self::infinity(negative)),
                _ => Err(bad()),
            };
        }
        pulse::work(bytes.len() / 16)?;
        let digits_from = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let point = digits_from(0);
        let (whole, fraction, end) = if bytes.get(point) == Some(&b'.') {
            let end = digits_from(point + 1);
            (&bytes[..point], &bytes[point + 1..end], end)
        } else {
            (&bytes[..point], &[][..], point)
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(bad());
        }
        let exponent = match bytes.get(end) {
            Some(b'e' | b'E') => parse_exponent(&bytes[end + 1..], bad)?,
            Some(_) => return Err(bad()),
            None => 0,
        };
        of_digits(negative, whole, fraction, exponent)
    }

    /// Appends its text.
    pub fn write(&self, out: &mut String) {
        match &self.0 {
            Form::Small(small) => small.write(out),
            Form::Large(Large::Finite(wide)) => wide.write(out),
            Form::Large(Large::Infinity) => out.push_str("Infinity"),
            Form::Large(Large::NegativeInfinity) => out.push_str("-Infinity"),
            Form::Large(Large::NaN) => out.push_str("NaN"),
        }
    }
}

/// What stands behind the `e` of a number, with blanks before it as C reads one.
fn parse_exponent(bytes: &[u8], bad: impl Fn() -> Error) -> Result<i64> {
    let blanks = bytes.iter().take_while(|&&byte| crate::letters::is_blank(byte)).count();
    let (below, digits) = match &bytes[blanks..] {
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
    Ok(if below { -exponent } else { exponent })
}

/// The value of digits before and behind the point, times a power of ten.
fn of_digits(negative: bool, whole: &[u8], fraction: &[u8], exponent: i64) -> Result<Numeric> {
    let scale = fraction.len() as i64 - exponent;
    if scale > i64::from(SCALE_MAX) {
        return Err(overflow());
    }
    let digits = || whole.iter().chain(fraction).copied().skip_while(|&digit| digit == b'0');
    let count = digits().count() as i64;
    let zeros = if count == 0 { 0 } else { (-scale).max(0) };
    let scale = scale.max(0);
    if count + zeros - scale > i64::from(DIGITS_BEFORE_MAX) {
        return Err(overflow());
    }
    if count + zeros <= i64::from(SMALL_DIGITS_MAX) && scale <= i64::from(SMALL_SCALE_MAX) {
        let zeros = std::iter::repeat_n(b'0', zeros as usize);
        // In 64 bits for as long as possible.
        let (mut low, mut mantissa) = (0u64, 0i128);
        for (at, digit) in digits().chain(zeros).enumerate() {
            match at {
                0..19 => {
                    low = low * 10 + u64::from(digit - b'0');
                    mantissa = i128::from(low);
                }
                _ => mantissa = mantissa * 10 + i128::from(digit - b'0'),
            }
        }
        return Numeric::checked(if negative { -mantissa } else { mantissa }, scale as u32);
    }
    wide::charge_division((count + zeros) as usize / 16)?;
    let text: Vec<u8> = digits().collect();
    let text = str::from_utf8(&text).map_err(|_| Error::internal("digits are ASCII"))?;
    let magnitude = match text {
        "" => UBig::ZERO,
        text => UBig::from_str_radix(text, 10).map_err(|_| Error::internal("digits are a number"))?,
    };
    let magnitude = if zeros > 0 { magnitude * wide::power_of_ten(zeros as u32) } else { magnitude };
    Numeric::of_large(negative, magnitude, scale as u32)
}

/// `22012`
#[cold]
pub fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

#[cold]
fn field_overflow(precision: u16, scale: i16) -> Error {
    let whole = i32::from(precision) - i32::from(scale);
    let bound = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
    Error::new(SqlState::OUT_OF_RANGE, "numeric field overflow").detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

#[cold]
fn infinite_field(precision: u16, scale: i16) -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "numeric field overflow")
        .detail(format!("A field with precision {precision}, scale {scale} cannot hold an infinite value."))
}

impl From<i64> for Numeric {
    #[inline]
    fn from(value: i64) -> Self {
        Self(Form::Small(Small::raw(i128::from(value), 0)))
    }
}

impl From<i128> for Numeric {
    fn from(value: i128) -> Self {
        match Small::checked(value, 0) {
            Some(small) => Self(Form::Small(small)),
            None => Self(Form::Large(Large::Finite(Arc::new(Wide { mantissa: IBig::from(value), scale: 0 })))),
        }
    }
}

impl Ord for Numeric {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Form::Small(a), Form::Small(b)) => a.cmp(*b),
            _ => self.cmp_large(other),
        }
    }
}

impl Numeric {
    #[cold]
    fn cmp_large(&self, other: &Self) -> Ordering {
        if let (Seen::Finite(a), Seen::Finite(b)) = (self.seen(), other.seen()) {
            return a.cmp(&b);
        }
        let place = |value: &Self| match &value.0 {
            Form::Large(Large::NegativeInfinity) => 0,
            Form::Small(_) | Form::Large(Large::Finite(_)) => 1,
            Form::Large(Large::Infinity) => 2,
            Form::Large(Large::NaN) => 3,
        };
        place(self).cmp(&place(other))
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
        match &self.0 {
            Form::Small(small) => small.hash(state),
            Form::Large(Large::Finite(_)) => match self.trim_scale().0 {
                // Equal to a small one, but for zeros.
                Form::Small(small) => small.hash(state),
                Form::Large(Large::Finite(wide)) => {
                    state.write_u32(wide.scale);
                    state.write(&wide.mantissa.to_le_bytes());
                }
                Form::Large(_) => {}
            },
            Form::Large(Large::Infinity) => state.write_u8(1),
            Form::Large(Large::NegativeInfinity) => state.write_u8(2),
            Form::Large(Large::NaN) => state.write_u8(3),
        }
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

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;
    use crate::types::Type;
    use crate::value::{Datum, random::random_datum};

    fn n(text: &str) -> Numeric {
        Numeric::parse(text).unwrap()
    }

    fn random(random: &mut fastrand::Rng) -> Numeric {
        match random_datum(Type::Numeric, random) {
            // Sums and quotients of the longest take long.
            Datum::Numeric(value) if value.heap_bytes() < 1000 => value,
            _ => Numeric::from(random.i64(-9..9)),
        }
    }

    fn identical(a: &Numeric, b: &Numeric) -> bool {
        a == b && a.scale() == b.scale() && a.small().is_some() == b.small().is_some()
    }

    #[test]
    fn heads_are_in_the_order_of_the_values() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut values: Vec<Numeric> = (0..3_000).map(|_| random(&mut rng)).collect();
        for _ in 0..3_000 {
            // Near each other and near the bounds, with few digits and with many.
            let scale = rng.u32(0..45);
            let mantissa = match rng.u32(0..4) {
                0 => i128::from(rng.i64(-70_000..70_000)),
                1 => i128::from(rng.i64(..)),
                2 => rng.i128(..) / 10,
                _ => (1_i128 << rng.u32(30..80)) * i128::from(rng.i32(-2..3)) + i128::from(rng.i32(-2..3)),
            };
            values.extend(Numeric::checked(mantissa, scale));
        }
        values.extend(["NaN", "Infinity", "-Infinity", "1e200", "-1e200", "1e-200", "-1e-200", "0"].map(n));
        values.sort();
        for pair in values.windows(2) {
            let (low, high) = (pair[0].order_head(), pair[1].order_head());
            assert!(low <= high && (pair[0] < pair[1] || low == high), "{} {}", pair[0], pair[1]);
        }
        assert!(n("1.5").order_head() < n("1.6").order_head());
    }

    /// What small values give, they give as large ones, too.
    #[test]
    fn both_forms_compute_alike() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let (a, b) = (random(&mut rng), random(&mut rng));
            let (Seen::Finite(wide_a), Seen::Finite(wide_b)) = (a.seen(), b.seen()) else { continue };
            let check = |found: Result<Numeric>, expected: Result<Wide>, what: &str| match (
                found,
                expected.and_then(Wide::finish),
            ) {
                (Ok(found), Ok(expected)) => {
                    assert!(identical(&found, &expected), "{a} {what} {b}: {found} {expected}")
                }
                (found, expected) => assert!(found.is_err() && expected.is_err(), "{a} {what} {b}"),
            };
            check(a.add(&b), wide_a.add(&wide_b), "+");
            check(a.sub(&b), wide_a.sub(&wide_b), "-");
            let product = wide_a.mul(&wide_b).and_then(|product| match product.scale {
                scale if scale > SCALE_MAX => product.cut(SCALE_MAX as i32, true),
                _ => Ok(product),
            });
            check(a.mul(&b), product, "*");
            let digits = rng.i32(-60..120);
            check(a.round(digits), wide_a.cut(digits, true), "round");
            check(a.trunc(digits), wide_a.cut(digits, false), "trunc");
            assert_eq!(a.cmp(&b), wide_a.cmp(&wide_b), "{a} {b}");
            assert_eq!(a.first_group(), wide_a.first_group(), "{a}");
            if !b.is_zero() {
                check(a.rem(&b), wide_a.rem(&wide_b), "%");
                let scale = rng.u32(..130);
                check(a.div_to_scale(&b, scale), wide_a.div_to_scale(&wide_b, scale), "/");
            }
        }
    }

    #[test]
    fn texts_and_bytes_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let value = random(&mut rng);
            assert!(identical(&n(&value.to_string()), &value), "{value}");
            let mut bytes = Vec::new();
            Wire::write(&value, &mut bytes);
            assert!(identical(&Wire::parse(&bytes).unwrap(), &value), "{value} {bytes:?}");
            bytes.clear();
            value.write_large(&mut bytes);
            assert_eq!(bytes.is_empty(), value.small().is_some());
            if !bytes.is_empty() {
                assert!(identical(&Numeric::read_large(&bytes).unwrap(), &value), "{value}");
            }
        }
    }

    #[test]
    fn equal_values_hash_alike() {
        let hash = |value: &Numeric| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            hasher.finish()
        };
        for (a, b) in [("1", "1.0"), ("1", &format!("1.{}", "0".repeat(200))), ("1e50", "1e50"), ("0", "0e-300")] {
            assert_eq!(n(a), n(b));
            assert_eq!(hash(&n(a)), hash(&n(b)), "{a} {b}");
        }
        let long = format!("{}.5", "7".repeat(60));
        assert_eq!(hash(&n(&long)), hash(&n(&format!("{long}{}", "0".repeat(70)))));
    }

    #[test]
    fn what_is_no_number_is_above_all_that_are() {
        let order = ["-Infinity", "-1e1000", "-1", "0", "1e-1000", "1", "1e1000", "Infinity", "NaN"];
        for (a, left) in order.iter().enumerate() {
            for (b, right) in order.iter().enumerate() {
                assert_eq!(n(left).cmp(&n(right)), a.cmp(&b), "{left} {right}");
            }
        }
    }

    /// Powers, roots and logarithms undo each other, in as many digits as are shown.
    #[test]
    fn inexact_functions_undo_each_other() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..300 {
            let scale = rng.i32(20..300);
            let value = n(&format!("{}.{}", rng.u64(1..1000), rng.u64(..))).round(scale).unwrap();
            let close = |found: &Numeric, expected: &Numeric, digits: i32, what: &str| {
                let distance = found.sub(expected).unwrap().abs();
                let bound = Numeric::ONE.div_to_scale(&n(&format!("1e{digits}")), digits as u32).unwrap();
                assert!(distance <= bound, "{what} of {value}: {found} {expected}");
            };
            close(&value.ln().unwrap().exp().unwrap(), &value, scale - 4, "exp(ln)");
            let root = value.sqrt().unwrap();
            close(&root.mul(&root).unwrap(), &value, scale - 3, "sqrt");
            let cube = value.power(&n("3")).unwrap();
            close(&cube, &value.mul(&value).unwrap().mul(&value).unwrap(), scale - 1, "power 3");
            let halves = value.power(&n(&format!("0.5{}", "0".repeat(scale as usize)))).unwrap();
            close(&halves, &root, scale - 3, "power 0.5");
            close(&n("1000").log(&n(&format!("10.{}", "0".repeat(scale as usize)))).unwrap(), &n("3"), scale, "log");
        }
    }
}
