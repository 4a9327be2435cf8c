//! The operators on numbers: sums, products, bits.

use super::{Function, f, float, int, number};
use crate::cast::{int_in_range, to_float4};
use crate::error::{Error, Result, SqlState};
use crate::numeric::division_by_zero;
use crate::types::Type::{self, Float4, Float8, Int2, Int4, Int8, Numeric};
use crate::value::Datum;

#[cold]
fn bigint_out_of_range() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "bigint out of range")
}

#[cold]
fn overflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow")
}

#[cold]
fn underflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value out of range: underflow")
}

#[inline]
fn wide(value: Option<i64>) -> Result<Datum> {
    value.map(Datum::Int).ok_or_else(bigint_out_of_range)
}

/// A sum or difference: infinite only if an operand is.
#[inline]
fn sum(a: f64, b: f64, result: f64) -> Result<f64> {
    if result.is_infinite() && a.is_finite() && b.is_finite() { Err(overflow()) } else { Ok(result) }
}

fn product(a: f64, b: f64) -> Result<f64> {
    let result = a * b;
    if result == 0.0 && a != 0.0 && b != 0.0 {
        return Err(underflow());
    }
    sum(a, b, result)
}

fn quotient(a: f64, b: f64) -> Result<f64> {
    if b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    let result = a / b;
    if result == 0.0 && a != 0.0 && b.is_finite() {
        return Err(underflow());
    }
    if result.is_infinite() && a.is_finite() { Err(overflow()) } else { Ok(result) }
}

fn narrow(result: f64, a: f64, b: f64) -> Result<Datum> {
    // The double may hold what the real does not.
    if a.is_finite() && b.is_finite() {
        to_float4(result).map(Datum::Float)
    } else {
        Ok(Datum::Float(f64::from(result as f32)))
    }
}

fn divide(a: i64, b: i64, ty: Type) -> Result<Datum> {
    if b == 0 {
        return Err(division_by_zero());
    }
    int_in_range(a.checked_div(b).ok_or_else(bigint_out_of_range)?, ty)
}

fn remainder(a: i64, b: i64) -> Result<Datum> {
    if b == 0 {
        return Err(division_by_zero());
    }
    Ok(Datum::Int(a.wrapping_rem(b)))
}

macro_rules! integers {
    ($($ty:ident $bits:literal $rust:ty;)*) => {
        [$(
            f("+", &[$ty, $ty], $ty, |a, _| int_in_range_add(int(a[0])?, int(a[1])?, $ty)),
            f("-", &[$ty, $ty], $ty, |a, _| int_in_range_sub(int(a[0])?, int(a[1])?, $ty)),
            f("*", &[$ty, $ty], $ty, |a, _| int_in_range_mul(int(a[0])?, int(a[1])?, $ty)),
            f("/", &[$ty, $ty], $ty, |a, _| divide(int(a[0])?, int(a[1])?, $ty)),
            f("%", &[$ty, $ty], $ty, |a, _| remainder(int(a[0])?, int(a[1])?)),
            f("mod", &[$ty, $ty], $ty, |a, _| remainder(int(a[0])?, int(a[1])?)),
            f("+", &[$ty], $ty, |a, _| Ok(a[0].clone())),
            f("-", &[$ty], $ty, |a, _| int_in_range_sub(0, int(a[0])?, $ty)),
            f("@", &[$ty], $ty, |a, _| int_in_range(int(a[0])?.checked_abs().ok_or_else(bigint_out_of_range)?, $ty)),
            f("abs", &[$ty], $ty, |a, _| int_in_range(int(a[0])?.checked_abs().ok_or_else(bigint_out_of_range)?, $ty)),
            f("&", &[$ty, $ty], $ty, |a, _| Ok(Datum::Int(int(a[0])? & int(a[1])?))),
            f("|", &[$ty, $ty], $ty, |a, _| Ok(Datum::Int(int(a[0])? | int(a[1])?))),
            f("#", &[$ty, $ty], $ty, |a, _| Ok(Datum::Int(int(a[0])? ^ int(a[1])?))),
            f("~", &[$ty], $ty, |a, _| Ok(Datum::Int(!int(a[0])?))),
            // As the processor does it, the count is taken modulo the width; smallint is shifted as
            // integer.
            f("<<", &[$ty, Int4], $ty, |a, _| {
                Ok(Datum::Int(i64::from((int(a[0])? << (int(a[1])? & ($bits - 1))) as $rust)))
            }),
            f(">>", &[$ty, Int4], $ty, |a, _| Ok(Datum::Int(int(a[0])? >> (int(a[1])? & ($bits - 1))))),
        )*]
    };
}

#[inline]
fn int_in_range_add(a: i64, b: i64, ty: Type) -> Result<Datum> {
    if ty == Int8 { wide(a.checked_add(b)) } else { int_in_range(a + b, ty) }
}

#[inline]
fn int_in_range_sub(a: i64, b: i64, ty: Type) -> Result<Datum> {
    if ty == Int8 { wide(a.checked_sub(b)) } else { int_in_range(a - b, ty) }
}

#[inline]
fn int_in_range_mul(a: i64, b: i64, ty: Type) -> Result<Datum> {
    if ty == Int8 { wide(a.checked_mul(b)) } else { int_in_range(a * b, ty) }
}

const INTEGERS: [Function; 48] = integers! {
    Int2 32 i16;
    Int4 32 i32;
    Int8 64 i64;
};

const OTHERS: [Function; 34] = [
    f("+", &[Float4, Float8], Float8, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        sum(a, b, a + b).map(Datum::Float)
    }),
    f("-", &[Float4, Float8], Float8, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        sum(a, b, a - b).map(Datum::Float)
    }),
    f("*", &[Float4, Float8], Float8, |a, _| product(float(a[0])?, float(a[1])?).map(Datum::Float)),
    f("/", &[Float4, Float8], Float8, |a, _| quotient(float(a[0])?, float(a[1])?).map(Datum::Float)),
    f("+", &[Float8, Float4], Float8, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        sum(a, b, a + b).map(Datum::Float)
    }),
    f("-", &[Float8, Float4], Float8, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        sum(a, b, a - b).map(Datum::Float)
    }),
    f("*", &[Float8, Float4], Float8, |a, _| product(float(a[0])?, float(a[1])?).map(Datum::Float)),
    f("/", &[Float8, Float4], Float8, |a, _| quotient(float(a[0])?, float(a[1])?).map(Datum::Float)),
    f("@", &[Float4], Float4, |a, _| Ok(Datum::Float(float(a[0])?.abs()))),
    f("+", &[Float8, Float8], Float8, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        sum(a, b, a + b).map(Datum::Float)
    }),
    f("-", &[Float8, Float8], Float8, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        sum(a, b, a - b).map(Datum::Float)
    }),
    f("*", &[Float8, Float8], Float8, |a, _| product(float(a[0])?, float(a[1])?).map(Datum::Float)),
    f("/", &[Float8, Float8], Float8, |a, _| quotient(float(a[0])?, float(a[1])?).map(Datum::Float)),
    f("+", &[Float8], Float8, |a, _| Ok(a[0].clone())),
    f("-", &[Float8], Float8, |a, _| Ok(Datum::Float(-float(a[0])?))),
    f("@", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.abs()))),
    f("abs", &[Float8], Float8, |a, _| Ok(Datum::Float(float(a[0])?.abs()))),
    f("+", &[Float4, Float4], Float4, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        narrow(if a + b == 0.0 { 0.0 } else { a + b }, a, b)
    }),
    f("-", &[Float4, Float4], Float4, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        narrow(a - b, a, b)
    }),
    f("*", &[Float4, Float4], Float4, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        narrow(a * b, a, b)
    }),
    f("/", &[Float4, Float4], Float4, |a, _| {
        let (a, b) = (float(a[0])?, float(a[1])?);
        narrow(quotient(a, b)?, a, b)
    }),
    f("+", &[Float4], Float4, |a, _| Ok(a[0].clone())),
    f("-", &[Float4], Float4, |a, _| Ok(Datum::Float(-float(a[0])?))),
    f("abs", &[Float4], Float4, |a, _| Ok(Datum::Float(float(a[0])?.abs()))),
    f("+", &[Numeric, Numeric], Numeric, |a, _| number(a[0])?.add(number(a[1])?).map(Datum::Numeric)),
    f("-", &[Numeric, Numeric], Numeric, |a, _| number(a[0])?.sub(number(a[1])?).map(Datum::Numeric)),
    f("*", &[Numeric, Numeric], Numeric, |a, _| number(a[0])?.mul(number(a[1])?).map(Datum::Numeric)),
    f("/", &[Numeric, Numeric], Numeric, |a, _| number(a[0])?.div(number(a[1])?).map(Datum::Numeric)),
    f("%", &[Numeric, Numeric], Numeric, |a, _| number(a[0])?.rem(number(a[1])?).map(Datum::Numeric)),
    f("mod", &[Numeric, Numeric], Numeric, |a, _| number(a[0])?.rem(number(a[1])?).map(Datum::Numeric)),
    f("+", &[Numeric], Numeric, |a, _| Ok(a[0].clone())),
    f("-", &[Numeric], Numeric, |a, _| Ok(Datum::Numeric(number(a[0])?.negate()))),
    f("numeric_inc", &[Numeric], Numeric, |a, _| number(a[0])?.add(&crate::numeric::Numeric::ONE).map(Datum::Numeric)),
    f("abs", &[Numeric], Numeric, |a, _| Ok(Datum::Numeric(number(a[0])?.abs()))),
];

pub(super) const TABLE: &[Function] = &{
    let mut all = [INTEGERS[0]; INTEGERS.len() + OTHERS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < INTEGERS.len() { INTEGERS[at] } else { OTHERS[at - INTEGERS.len()] };
        at += 1;
    }
    all
};
