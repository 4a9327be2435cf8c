//! Trigonometric functions of angles in degrees, exact where the exact result is a whole number or
//! a half.
//!
//! An angle is brought into the first quadrant. There a sine of at most 30 degrees, and a cosine of
//! at most 60, is divided by the computed value at its end and multiplied by one half: so the ends
//! are exact whatever the machine's functions round to. Inverse functions do the same.

use super::math::{input_out_of_range, of_unit_interval};
use super::{Function, f, float};
use crate::error::Result;
use crate::types::Type::Float8;
use crate::value::Datum;

/// The sine of 0 to 30 degrees.
fn small_sine(degrees: f64) -> f64 {
    degrees.to_radians().sin() / 30_f64.to_radians().sin() / 2.0
}

/// The cosine of 0 to 60 degrees.
fn large_cosine(degrees: f64) -> f64 {
    1.0 - (1.0 - degrees.to_radians().cos()) / (1.0 - 60_f64.to_radians().cos()) / 2.0
}

/// The sine of 0 to 90 degrees.
fn quadrant_sine(degrees: f64) -> f64 {
    if degrees <= 30.0 { small_sine(degrees) } else { large_cosine(90.0 - degrees) }
}

/// The cosine of 0 to 90 degrees.
fn quadrant_cosine(degrees: f64) -> f64 {
    if degrees <= 60.0 { large_cosine(degrees) } else { small_sine(90.0 - degrees) }
}

/// An angle in the first quadrant.
struct Angle {
    degrees: f64,
    sine_is_negative: bool,
    cosine_is_negative: bool,
}

impl Angle {
    fn new(degrees: f64) -> Result<Self> {
        if degrees.is_infinite() {
            return Err(input_out_of_range());
        }
        let within = degrees % 360.0;
        // A zero keeps its sign.
        let (mut sine_is_negative, mut degrees) = if within < 0.0 { (true, -within) } else { (false, within) };
        if degrees > 180.0 {
            (sine_is_negative, degrees) = (!sine_is_negative, 360.0 - degrees);
        }
        let cosine_is_negative = degrees > 90.0;
        if cosine_is_negative {
            degrees = 180.0 - degrees;
        }
        Ok(Self { degrees, sine_is_negative, cosine_is_negative })
    }

    fn sine(&self) -> f64 {
        signed(quadrant_sine(self.degrees), self.sine_is_negative)
    }

    fn cosine(&self) -> f64 {
        signed(quadrant_cosine(self.degrees), self.cosine_is_negative)
    }

    fn tangent(&self) -> f64 {
        let tangent = quadrant_sine(self.degrees) / quadrant_cosine(self.degrees);
        let at_45 = quadrant_sine(45.0) / quadrant_cosine(45.0);
        self.signed_quotient(tangent / at_45)
    }

    fn cotangent(&self) -> f64 {
        let cotangent = quadrant_cosine(self.degrees) / quadrant_sine(self.degrees);
        let at_45 = quadrant_cosine(45.0) / quadrant_sine(45.0);
        self.signed_quotient(cotangent / at_45)
    }

    /// With the sign of a quotient of sine and cosine. A zero has none.
    fn signed_quotient(&self, value: f64) -> f64 {
        if value == 0.0 { 0.0 } else { signed(value, self.sine_is_negative != self.cosine_is_negative) }
    }
}

fn signed(value: f64, is_negative: bool) -> f64 {
    if is_negative { -value } else { value }
}

/// The angle of a sine from 0 to 1.
fn angle_of_sine(sine: f64) -> f64 {
    if sine <= 0.5 { sine.asin() / 0.5_f64.asin() * 30.0 } else { 90.0 - sine.acos() / 0.5_f64.acos() * 60.0 }
}

/// The angle of a cosine from 0 to 1.
fn angle_of_cosine(cosine: f64) -> f64 {
    if cosine <= 0.5 { 90.0 - cosine.asin() / 0.5_f64.asin() * 30.0 } else { cosine.acos() / 0.5_f64.acos() * 60.0 }
}

fn in_degrees(radians: f64) -> Result<Datum> {
    Ok(Datum::Float(radians / 1_f64.atan() * 45.0))
}

pub(super) const TABLE: &[Function] = &[
    f("sind", &[Float8], Float8, |a, _| Ok(Datum::Float(Angle::new(float(a[0])?)?.sine()))),
    f("cosd", &[Float8], Float8, |a, _| Ok(Datum::Float(Angle::new(float(a[0])?)?.cosine()))),
    f("tand", &[Float8], Float8, |a, _| Ok(Datum::Float(Angle::new(float(a[0])?)?.tangent()))),
    f("cotd", &[Float8], Float8, |a, _| Ok(Datum::Float(Angle::new(float(a[0])?)?.cotangent()))),
    f("asind", &[Float8], Float8, |a, _| {
        of_unit_interval(float(a[0])?, |sine| signed(angle_of_sine(sine.abs()), sine < 0.0))
    }),
    f("acosd", &[Float8], Float8, |a, _| {
        of_unit_interval(float(a[0])?, |cosine| {
            if cosine < 0.0 { 90.0 + angle_of_sine(-cosine) } else { angle_of_cosine(cosine) }
        })
    }),
    f("atand", &[Float8], Float8, |a, _| in_degrees(float(a[0])?.atan())),
    f("atan2d", &[Float8, Float8], Float8, |a, _| in_degrees(float(a[0])?.atan2(float(a[1])?))),
];
