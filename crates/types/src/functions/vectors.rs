//! The functions and operators of the extension `vector`. What a value is made of is in
//! `crate::vector`.
//!
//! Sums are made of reals of 4 bytes, as in the extension for PostgreSQL.

use super::{Function, bytes, f, int};
use crate::bits;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::operators;
use crate::types::Type;
use crate::types::Type::{Bit, Bool, Float8, Int4, Vector as V};
use crate::value::Datum;
use crate::vector::{self, Vector, overflow};

fn of(value: &Datum) -> Result<Vector<'_>> {
    bytes(value).map(Vector::new)
}

fn made(elements: Vec<f32>) -> Result<Datum> {
    vector::of_elements(elements.into_iter()).map(Datum::Bytes)
}

fn float(value: f64) -> Result<Datum> {
    Ok(Datum::Float(value))
}

fn squares(a: &[&Datum]) -> Result<f64> {
    let [sum] = of(a[0])?.sums(of(a[1])?, |one, other| [(one - other) * (one - other)])?;
    Ok(f64::from(sum))
}

fn product(a: &[&Datum]) -> Result<f64> {
    let [sum] = of(a[0])?.sums(of(a[1])?, |one, other| [one * other])?;
    Ok(f64::from(sum))
}

fn distance(a: &[&Datum], _: &Env) -> Result<Datum> {
    float(squares(a)?.sqrt())
}

fn negative_product(a: &[&Datum], _: &Env) -> Result<Datum> {
    float(-product(a)?)
}

fn cosine_distance(a: &[&Datum], _: &Env) -> Result<Datum> {
    let sums = of(a[0])?.sums(of(a[1])?, |one, other| [one * other, one * one, other * other])?;
    let [product, one, other] = sums.map(f64::from);
    float(1.0 - (product / (one * other).sqrt()).clamp(-1.0, 1.0))
}

fn taxicab_distance(a: &[&Datum], _: &Env) -> Result<Datum> {
    let [sum] = of(a[0])?.sums(of(a[1])?, |one, other| [(one - other).abs()])?;
    float(f64::from(sum))
}

fn spherical_distance(a: &[&Datum], _: &Env) -> Result<Datum> {
    float(product(a)?.clamp(-1.0, 1.0).acos() / std::f64::consts::PI)
}

/// Two vectors, element by element.
fn combined(a: &[&Datum], of_two: impl Fn(f32, f32) -> Result<f32>) -> Result<Datum> {
    let (one, other) = (of(a[0])?, of(a[1])?);
    one.expect_as_long(other)?;
    made(one.elements().zip(other.elements()).map(|(one, other)| of_two(one, other)).collect::<Result<_>>()?)
}

fn finite(value: f32) -> Result<f32> {
    if value.is_infinite() { Err(overflow()) } else { Ok(value) }
}

fn add(a: &[&Datum], _: &Env) -> Result<Datum> {
    combined(a, |one, other| finite(one + other))
}

fn subtract(a: &[&Datum], _: &Env) -> Result<Datum> {
    combined(a, |one, other| finite(one - other))
}

fn multiply(a: &[&Datum], _: &Env) -> Result<Datum> {
    combined(a, |one, other| {
        let product = finite(one * other)?;
        if product == 0.0 && one != 0.0 && other != 0.0 {
            return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"));
        }
        Ok(product)
    })
}

fn join(a: &[&Datum], _: &Env) -> Result<Datum> {
    made(of(a[0])?.elements().chain(of(a[1])?.elements()).collect())
}

fn normalized(a: &[&Datum], _: &Env) -> Result<Datum> {
    let vector = of(a[0])?;
    let norm = vector.norm();
    if norm == 0.0 {
        return Ok(a[0].clone());
    }
    let elements = vector.elements().map(|element| finite((f64::from(element) / norm) as f32));
    made(elements.collect::<Result<_>>()?)
}

fn signs(a: &[&Datum], _: &Env) -> Result<Datum> {
    let vector = of(a[0])?;
    let mut bits = bits::Builder::for_bits(vector.count());
    bits.extend(vector.elements().map(|element| element > 0.0))?;
    Ok(bits.finish())
}

fn part(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (vector, start, count) = (of(a[0])?, int(a[1])?, int(a[2])?);
    let end = if count < 1 { start } else { (start + count).min(vector.count() as i64 + 1) };
    let start = start.max(1);
    let elements = vector.elements().skip((start - 1) as usize).take((end - start).max(0) as usize);
    made(elements.collect())
}

macro_rules! compared {
    ($test:ident) => {
        |a, _| Ok(Datum::Bool(operators::compare(a[0], a[1]).$test()))
    };
}

const TWO: &[Type] = &[V, V];

pub(super) const TABLE: &[Function] = &[
    f("<->", TWO, Float8, distance),
    f("<#>", TWO, Float8, negative_product),
    f("<=>", TWO, Float8, cosine_distance),
    f("<+>", TWO, Float8, taxicab_distance),
    f("+", TWO, V, add),
    f("-", TWO, V, subtract),
    f("*", TWO, V, multiply),
    f("||", TWO, V, join),
    f("l2_distance", TWO, Float8, distance),
    f("inner_product", TWO, Float8, |a, _| float(product(a)?)),
    f("cosine_distance", TWO, Float8, cosine_distance),
    f("l1_distance", TWO, Float8, taxicab_distance),
    f("vector_dims", &[V], Int4, |a, _| Ok(Datum::Int(of(a[0])?.count() as i64))),
    f("vector_norm", &[V], Float8, |a, _| float(of(a[0])?.norm())),
    f("l2_normalize", &[V], V, normalized),
    f("binary_quantize", &[V], Bit, signs),
    f("subvector", &[V, Int4, Int4], V, part),
    f("vector_add", TWO, V, add),
    f("vector_sub", TWO, V, subtract),
    f("vector_mul", TWO, V, multiply),
    f("vector_concat", TWO, V, join),
    f("vector_lt", TWO, Bool, compared!(is_lt)),
    f("vector_le", TWO, Bool, compared!(is_le)),
    f("vector_eq", TWO, Bool, compared!(is_eq)),
    f("vector_ne", TWO, Bool, compared!(is_ne)),
    f("vector_ge", TWO, Bool, compared!(is_ge)),
    f("vector_gt", TWO, Bool, compared!(is_gt)),
    f("vector_cmp", TWO, Int4, |a, _| Ok(Datum::Int(operators::compare(a[0], a[1]) as i64))),
    f("vector_l2_squared_distance", TWO, Float8, |a, _| float(squares(a)?)),
    f("vector_negative_inner_product", TWO, Float8, negative_product),
    f("vector_spherical_distance", TWO, Float8, spherical_distance),
];
