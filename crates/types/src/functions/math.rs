//! Mathematics.

use super::{Function, f, float, int, number};
use crate::error::{Error, Result, SqlState};
use crate::numeric::Numeric;
use crate::types::Type::{self, Float8, Int4, Int8};
use crate::value::Datum;

const NUM: Type = Type::Numeric;

#[cold]
pub(super) fn input_out_of_range() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "input is out of range")
}

/// A result, if it is finite or the argument was not.
fn finite(result: f64, argument: f64) -> Result<Datum> {
    if result.is_infinite() && argument.is_finite() {
        return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(Datum::Float(result))
}

/// A result of a function that infinity is no argument of.
fn of_finite(argument: f64, compute: fn(f64) -> f64) -> Result<Datum> {
    if argument.is_infinite() { Err(input_out_of_range()) } else { finite(compute(argument), argument) }
}

/// A result of a function whose arguments are from -1 to 1; what is no number stays that.
pub(super) fn of_unit_interval(argument: f64, compute: fn(f64) -> f64) -> Result<Datum> {
    if argument.abs() > 1.0 { Err(input_out_of_range()) } else { Ok(Datum::Float(compute(argument))) }
}

fn check_logarithm(sign: i32) -> Result<()> {
    match sign {
        0 => Err(Error::new(SqlState::BAD_LOGARITHM, "cannot take logarithm of zero")),
        ..0 => Err(Error::new(SqlState::BAD_LOGARITHM, "cannot take logarithm of a negative number")),
        _ => Ok(()),
    }
}

fn logarithm(value: f64, compute: fn(f64) -> f64) -> Result<Datum> {
    check_logarithm(if value == 0.0 {
        0
    } else if value < 0.0 {
        -1
    } else {
        1
    })?;
    Ok(Datum::Float(compute(value)))
}

fn square_root(value: f64) -> Result<Datum> {
    if value < 0.0 {
        return Err(Error::new(SqlState::BAD_POWER, "cannot take square root of a negative number"));
    }
    Ok(Datum::Float(value.sqrt()))
}

fn power(base: f64, exponent: f64) -> Result<Datum> {
    if base == 0.0 && exponent < 0.0 {
        return Err(Error::new(SqlState::BAD_POWER, "zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(Error::new(
            SqlState::BAD_POWER,
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let result = base.powf(exponent);
    if result == 0.0 && base != 0.0 && base.is_finite() && exponent.is_finite() {
        return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"));
    }
    if exponent.is_infinite() { Ok(Datum::Float(result)) } else { finite(result, base) }
}

fn exponential(value: f64) -> Result<Datum> {
    let result = value.exp();
    if result == 0.0 && value.is_finite() {
        return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"));
    }
    finite(result, value)
}

fn greatest_divisor(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn gcd(a: i64, b: i64, ty: Type) -> Result<Datum> {
    let out = || Error::new(SqlState::OUT_OF_RANGE, format!("{ty} out of range"));
    let value = i64::try_from(greatest_divisor(a, b)).map_err(|_| out())?;
    crate::cast::int_in_range(value, ty)
}

fn lcm(a: i64, b: i64, ty: Type) -> Result<Datum> {
    let out = || Error::new(SqlState::OUT_OF_RANGE, format!("{ty} out of range"));
    if a == 0 || b == 0 {
        return Ok(Datum::Int(0));
    }
    let multiple = u128::from(a.unsigned_abs() / greatest_divisor(a, b)) * u128::from(b.unsigned_abs());
    crate::cast::int_in_range(i64::try_from(multiple).map_err(|_| out())?, ty)
}

fn bucket_count(count: i64) -> Result<i64> {
    if count <= 0 {
        return Err(Error::new(SqlState("2201G"), "count must be greater than zero"));
    }
    Ok(count)
}

fn equal_bounds() -> Error {
    Error::new(SqlState("2201G"), "lower bound cannot equal upper bound")
}

fn bucket_out_of_range() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "integer out of range")
}

fn float_bucket(value: f64, low: f64, high: f64, count: i64) -> Result<Datum> {
    let count = bucket_count(count)?;
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(Error::new(SqlState("2201G"), "operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(Error::new(SqlState("2201G"), "lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(equal_bounds());
    }
    let (before, after) = if low < high { (value < low, value >= high) } else { (value > low, value <= high) };
    let bucket = if before {
        0
    } else if after {
        count + 1
    } else {
        let (from, width) = ((value - low).abs(), (high - low).abs());
        // In this order, so that values at an edge are rounded to the same side as in PostgreSQL.
        let place = if (count as f64 * from).is_finite() && width.is_finite() {
            count as f64 * from / width
        } else {
            (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) * count as f64
        };
        ((place + 1.0) as i64).min(count)
    };
    i32::try_from(bucket).map(|bucket| Datum::Int(i64::from(bucket))).map_err(|_| bucket_out_of_range())
}

fn numeric_bucket(value: &Numeric, low: &Numeric, high: &Numeric, count: i64) -> Result<Datum> {
    let count = bucket_count(count)?;
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(Error::new(SqlState("2201G"), "operand, lower bound, and upper bound cannot be NaN"));
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(Error::new(SqlState("2201G"), "lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(equal_bounds());
    }
    let (before, after) = if low < high { (value < low, value >= high) } else { (value > low, value <= high) };
    let bucket = if before {
        0
    } else if after {
        count + 1
    } else {
        // As in PostgreSQL, a quotient that is rounded up to the next bucket is in that.
        let scaled = value.sub(low)?.mul(&Numeric::from(count))?;
        scaled.div(&high.sub(low)?)?.floor()?.to_i64_rounded().unwrap_or(count) + 1
    };
    i32::try_from(bucket).map(|bucket| Datum::Int(i64::from(bucket))).map_err(|_| bucket_out_of_range())
}

/// A scale, of what has one.
fn scale_of(value: &Numeric) -> Datum {
    if value.is_finite() { Datum::Int(i64::from(value.scale())) } else { Datum::Null }
}

fn digits(value: i64) -> i32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

pub(super) const TABLE: &[Function] = &[
    f("@", &[NUM], NUM, |a, _| Ok(Datum::Numeric(number(a[0])?.abs()))),
    f("sign", &[Float8], Float8, |a, _| {
        let value = float(a[0])?;
        Ok(Datum::Float(if value > 0.0 {
            1.0
        } else if value < 0.0 {
            -1.0
        } else {
            0.0
        }))
    }),
    f("sign", &[NUM], NUM, |a, _| Ok(Datum::Numeric(number(a[0])?.sign()))),
    f("ceil", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.ceil()))),
    f("ceil", &[NUM], NUM, |a, _| number(a[0])?.ceil().map(Datum::Numeric)),
    f("ceiling", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.ceil()))),
    f("ceiling", &[NUM], NUM, |a, _| number(a[0])?.ceil().map(Datum::Numeric)),
    f("floor", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.floor()))),
    f("floor", &[NUM], NUM, |a, _| number(a[0])?.floor().map(Datum::Numeric)),
    f("round", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.round_ties_even()))),
    f("round", &[NUM], NUM, |a, _| number(a[0])?.round(0).map(Datum::Numeric)),
    f("round", &[NUM, Int4], NUM, |a, _| number(a[0])?.round(digits(int(a[1])?)).map(Datum::Numeric)),
    f("trunc", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.trunc()))),
    f("trunc", &[NUM], NUM, |a, _| number(a[0])?.trunc(0).map(Datum::Numeric)),
    f("trunc", &[NUM, Int4], NUM, |a, _| number(a[0])?.trunc(digits(int(a[1])?)).map(Datum::Numeric)),
    f("sqrt", &[Float8], Float8, |a, _| square_root(float(a[0])?)),
    f("sqrt", &[NUM], NUM, |a, _| number(a[0])?.sqrt().map(Datum::Numeric)),
    f("|/", &[Float8], Float8, |a, _| square_root(float(a[0])?)),
    f("cbrt", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.cbrt()))),
    f("||/", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.cbrt()))),
    f("exp", &[Float8], Float8, |a, _| exponential(float(a[0])?)),
    f("exp", &[NUM], NUM, |a, _| number(a[0])?.exp().map(Datum::Numeric)),
    f("ln", &[Float8], Float8, |a, _| logarithm(float(a[0])?, f64::ln)),
    f("ln", &[NUM], NUM, |a, _| {
        check_logarithm(number(a[0])?.signum())?;
        number(a[0])?.ln().map(Datum::Numeric)
    }),
    f("log", &[Float8], Float8, |a, _| logarithm(float(a[0])?, f64::log10)),
    f("log10", &[Float8], Float8, |a, _| logarithm(float(a[0])?, f64::log10)),
    f("log", &[NUM], NUM, |a, _| {
        check_logarithm(number(a[0])?.signum())?;
        number(a[0])?.log(&Numeric::from(10i64)).map(Datum::Numeric)
    }),
    f("log10", &[NUM], NUM, |a, _| {
        check_logarithm(number(a[0])?.signum())?;
        number(a[0])?.log(&Numeric::from(10i64)).map(Datum::Numeric)
    }),
    f("log", &[NUM, NUM], NUM, |a, _| {
        let (base, value) = (number(a[0])?, number(a[1])?);
        if base.is_nan() || value.is_nan() {
            return Ok(Datum::Numeric(Numeric::NAN));
        }
        check_logarithm(base.signum())?;
        check_logarithm(value.signum())?;
        value.log(base).map(Datum::Numeric)
    }),
    f("power", &[Float8, Float8], Float8, |a, _| power(float(a[0])?, float(a[1])?)),
    f("dpow", &[Float8, Float8], Float8, |a, _| power(float(a[0])?, float(a[1])?)),
    f("pow", &[Float8, Float8], Float8, |a, _| power(float(a[0])?, float(a[1])?)),
    f("^", &[Float8, Float8], Float8, |a, _| power(float(a[0])?, float(a[1])?)),
    f("power", &[NUM, NUM], NUM, |a, _| number(a[0])?.power(number(a[1])?).map(Datum::Numeric)),
    f("pow", &[NUM, NUM], NUM, |a, _| number(a[0])?.power(number(a[1])?).map(Datum::Numeric)),
    f("^", &[NUM, NUM], NUM, |a, _| number(a[0])?.power(number(a[1])?).map(Datum::Numeric)),
    f("div", &[NUM, NUM], NUM, |a, _| number(a[0])?.div_truncated(number(a[1])?).map(Datum::Numeric)),
    f("gcd", &[Int4, Int4], Int4, |a, _| gcd(int(a[0])?, int(a[1])?, Int4)),
    f("gcd", &[Int8, Int8], Int8, |a, _| gcd(int(a[0])?, int(a[1])?, Int8)),
    f("gcd", &[NUM, NUM], NUM, |a, _| number(a[0])?.gcd(number(a[1])?).map(Datum::Numeric)),
    f("lcm", &[Int4, Int4], Int4, |a, _| lcm(int(a[0])?, int(a[1])?, Int4)),
    f("lcm", &[Int8, Int8], Int8, |a, _| lcm(int(a[0])?, int(a[1])?, Int8)),
    f("lcm", &[NUM, NUM], NUM, |a, _| number(a[0])?.lcm(number(a[1])?).map(Datum::Numeric)),
    f("factorial", &[Int8], NUM, |a, _| Numeric::factorial(int(a[0])?).map(Datum::Numeric)),
    f("scale", &[NUM], Int4, |a, _| Ok(scale_of(number(a[0])?))),
    f("min_scale", &[NUM], Int4, |a, _| Ok(scale_of(&number(a[0])?.trim_scale()))),
    f("trim_scale", &[NUM], NUM, |a, _| Ok(Datum::Numeric(number(a[0])?.trim_scale()))),
    f("width_bucket", &[Float8, Float8, Float8, Int4], Int4, |a, _| {
        float_bucket(float(a[0])?, float(a[1])?, float(a[2])?, int(a[3])?)
    }),
    f("width_bucket", &[NUM, NUM, NUM, Int4], Int4, |a, _| {
        numeric_bucket(number(a[0])?, number(a[1])?, number(a[2])?, int(a[3])?)
    }),
    f("pi", &[], Float8, |_, _| Ok(Datum::Float(std::f64::consts::PI))),
    f("degrees", &[Float8], Float8, |a, _| finite(float(a[0])?.to_degrees(), float(a[0])?)),
    f("radians", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.to_radians()))),
    f("sin", &[Float8], Float8, |a, _| of_finite(float(a[0])?, f64::sin)),
    f("cos", &[Float8], Float8, |a, _| of_finite(float(a[0])?, f64::cos)),
    f("tan", &[Float8], Float8, |a, _| of_finite(float(a[0])?, f64::tan)),
    f("cot", &[Float8], Float8, |a, _| {
        let value = float(a[0])?;
        if value.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float(1.0 / value.tan())) }
    }),
    f("asin", &[Float8], Float8, |a, _| of_unit_interval(float(a[0])?, f64::asin)),
    f("acos", &[Float8], Float8, |a, _| of_unit_interval(float(a[0])?, f64::acos)),
    f("atan", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.atan()))),
    f("atan2", &[Float8, Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.atan2(float(a[1])?)))),
    f("sinh", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.sinh()))),
    f("cosh", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.cosh()))),
    f("tanh", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.tanh()))),
    f("asinh", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.asinh()))),
    f("acosh", &[Float8], Float8, |a, _| {
        let value = float(a[0])?;
        if value < 1.0 { Err(input_out_of_range()) } else { Ok(Datum::Float(value.acosh())) }
    }),
    f("atanh", &[Float8], Float8, |a, _| of_unit_interval(float(a[0])?, f64::atanh)),
];
