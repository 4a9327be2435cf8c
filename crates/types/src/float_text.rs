//! Floats as text.
//!
//! The digits are the fewest that are read as the value again, as PostgreSQL 12 and later write
//! them. Ryu finds them, as there; the few values for which PostgreSQL chooses other digits than
//! ryu are looked at one by one.

use std::fmt::Write as _;

/// Appends a double: its shortest digits, or `15 + extra_float_digits` significant ones if that
/// setting is not above 0.
pub(crate) fn write_float8(value: f64, extra_float_digits: i32, out: &mut String) {
    if write_special_float(value, out) {
        return;
    }
    if extra_float_digits > 0 {
        let above = f64::from_bits(value.abs().to_bits() + 1);
        let unit = above - value.abs();
        let decimal = if may_be_halfway(value, unit) {
            Decimal::of(&shortest(value, unit, format!("{value:e}"), |text| text.parse() == Ok(value)))
        } else {
            Decimal::of(ryu::Buffer::new().format_finite(value))
        };
        decimal.write(15, out);
    } else {
        write_general(value, (15 + extra_float_digits).max(1) as usize, out);
    }
}

/// Appends a real.
pub fn write_float4(value: f32, extra_float_digits: i32, out: &mut String) {
    if write_special_float(f64::from(value), out) {
        return;
    }
    if extra_float_digits > 0 {
        let above = f64::from(f32::from_bits(value.abs().to_bits() + 1));
        let wide = f64::from(value);
        let unit = above - wide.abs();
        let decimal = if may_be_halfway(wide, unit) {
            Decimal::of(&shortest(wide, unit, format!("{value:e}"), |text| text.parse() == Ok(value)))
        } else {
            Decimal::of(ryu::Buffer::new().format_finite(value))
        };
        decimal.write(6, out);
    } else {
        write_general(f64::from(value), (6 + extra_float_digits).max(1) as usize, out);
    }
}

fn write_special_float(value: f64, out: &mut String) -> bool {
    let name = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => return false,
    };
    out.push_str(name);
    true
}

/// Whether the shortest decimal may be halfway to a neighbour, `unit` away: only numbers with few or
/// no bits after the point have decimals of so few digits there.
fn may_be_halfway(value: f64, unit: f64) -> bool {
    unit.is_finite() && unit >= 1.0 / 512.0 && value.abs() < 1e30
}

/// The shortest digits as PostgreSQL finds them: rounded half to even, and never exactly halfway to
/// a neighbour, which other algorithms allow. `unit` is the distance to the next float. `is_value`
/// says whether digits are read as the value.
fn shortest(value: f64, unit: f64, digits: String, is_value: impl Fn(&str) -> bool) -> String {
    let count = digits.bytes().take_while(|&byte| byte != b'e').filter(u8::is_ascii_digit).count();
    for places in count - 1..17 {
        let mut candidate = format!("{value:.places$e}");
        // Bug: the nearest decimal with the digits asked for was taken without a look at what it is
        // read as. Consequence: a power of two, whose lower neighbour is nearer than its upper one,
        // was written as that neighbour. Fix: then it is not it.
        if !is_value(&candidate) {
            candidate.clone_from(&digits);
        }
        if !is_halfway(&candidate, value.abs(), unit) {
            return candidate;
        }
    }
    digits
}

/// Whether a decimal is exactly halfway between a float and a neighbour; all are below 10^30.
fn is_halfway(decimal: &str, value: f64, unit: f64) -> bool {
    let (mantissa, exponent) = decimal.split_once('e').unwrap_or((decimal, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let places = digits.len() as i32 - 1;
    let exponent = exponent.parse::<i32>().unwrap_or(0) - places;
    let Ok(digits) = digits.parse::<u128>() else { return false };
    // All in units of 2^-10, in which values, distances and halves of distances are whole here.
    let (scaled, divisor) = match exponent {
        0..=29 => (digits.checked_mul(10u128.pow(exponent as u32)).and_then(|wide| wide.checked_mul(1024)), 1),
        -20..0 => (digits.checked_mul(1024), 10u128.pow(exponent.unsigned_abs())),
        _ => return false,
    };
    let Some(scaled) = scaled.filter(|scaled| scaled % divisor == 0).map(|scaled| scaled / divisor) else {
        return false;
    };
    let (value, half) = ((value * 1024.0) as u128, (unit * 512.0) as u128);
    scaled.abs_diff(value) == half
}

/// Appends `%.{digits}g`.
fn write_general(value: f64, digits: usize, out: &mut String) {
    Decimal::of(&format!("{value:.*e}", digits - 1)).write(digits as i32, out);
}

/// Digits that a float can have: 17 decide a double, and `extra_float_digits` asks for 15 at most.
const DIGITS_MAX: usize = 24;

/// `d.ddd × 10^exponent`, without zeros at the end.
struct Decimal {
    is_negative: bool,
    digits: [u8; DIGITS_MAX],
    count: usize,
    exponent: i32,
}

impl Decimal {
    /// Of a text such as `-0.0012`, `120.0` or `1.2e-3`.
    fn of(text: &str) -> Self {
        let mut decimal = Self { is_negative: false, digits: [b'0'; DIGITS_MAX], count: 0, exponent: 0 };
        // Digits before the point, counted from the first that is not 0; those behind it that come
        // before this one count the other way.
        let (mut whole, mut is_behind) = (0, false);
        for (at, &byte) in text.as_bytes().iter().enumerate() {
            match byte {
                b'-' => decimal.is_negative = true,
                b'.' => is_behind = true,
                b'0' if decimal.count == 0 => whole -= i32::from(is_behind),
                b'0'..=b'9' => {
                    if let Some(place) = decimal.digits.get_mut(decimal.count) {
                        *place = byte;
                        decimal.count += 1;
                    }
                    whole += i32::from(!is_behind);
                }
                _ => {
                    decimal.exponent = text[at + 1..].parse().unwrap_or(0);
                    break;
                }
            }
        }
        if decimal.count == 0 {
            (decimal.count, decimal.exponent) = (1, 0);
            return decimal;
        }
        decimal.exponent += whole - 1;
        while decimal.count > 1 && decimal.digits[decimal.count - 1] == b'0' {
            decimal.count -= 1;
        }
        decimal
    }

    /// Appends it: with an exponent if that is below -4 or at least `exponent_end`.
    fn write(&self, exponent_end: i32, out: &mut String) {
        let Self { is_negative, ref digits, count, exponent } = *self;
        if is_negative {
            out.push('-');
        }
        // What is written are digits.
        let text = |digits| std::str::from_utf8(digits).unwrap_or_default();
        let digits = text(&digits[..count]);
        if exponent < -4 || exponent >= exponent_end {
            out.push_str(&digits[..1]);
            if count > 1 {
                out.push('.');
                out.push_str(&digits[1..]);
            }
            // Writing to a string cannot fail.
            let _ = write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs());
        } else if exponent < 0 {
            out.push_str(&"0.0000"[..exponent.unsigned_abs() as usize + 1]);
            out.push_str(digits);
        } else {
            let whole = exponent as usize + 1;
            if count <= whole {
                out.push_str(digits);
                out.extend(std::iter::repeat_n('0', whole - count));
            } else {
                out.push_str(&digits[..whole]);
                out.push('.');
                out.push_str(&digits[whole..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_read_as_what_they_were() {
        for exponent in -20..100 {
            for sign in [1.0, -1.0] {
                let (real, double) = (sign as f32 * 2_f32.powi(exponent), sign * 2_f64.powi(exponent));
                let (mut of_real, mut of_double) = (String::new(), String::new());
                write_float4(real, 1, &mut of_real);
                write_float8(double, 1, &mut of_double);
                assert_eq!(of_real.parse(), Ok(real), "{exponent}");
                assert_eq!(of_double.parse(), Ok(double), "{exponent}");
            }
        }
        let mut text = String::new();
        write_float4(2_f32.powi(90), 1, &mut text);
        assert_eq!(text, "1.2379401e+27");
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let mut random = fastrand::Rng::with_seed(7);
        let written = |value: f64| {
            let mut out = String::new();
            write_float8(value, 1, &mut out);
            out
        };
        for _ in 0..100_000 {
            let value = match random.u8(0..4) {
                0 => f64::from_bits(random.u64(..)),
                1 => f64::from(random.i32(..)) / 1000.0,
                2 => random.f64() * 10_f64.powi(random.i32(-8..18)),
                _ => f64::from(random.i16(..)),
            };
            if !value.is_finite() {
                continue;
            }
            let text = written(value);
            assert_eq!(text.parse().map(f64::to_bits), Ok(value.to_bits()), "{text}");
            let digits = |text: &str| {
                let mantissa = text.split('e').next().unwrap_or_default();
                let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
                digits.trim_start_matches('0').trim_end_matches('0').len()
            };
            let unit = f64::from_bits(value.abs().to_bits() + 1) - value.abs();
            if !may_be_halfway(value, unit) {
                assert_eq!(digits(&text), digits(&format!("{value:e}")), "{text}");
            }
            let exponent: i32 = format!("{value:e}").split_once('e').map_or(0, |(_, e)| e.parse().unwrap());
            assert_eq!(text.contains('e'), !(-4..15).contains(&exponent), "{text}");
        }
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (-1.5e-300, "-1.5e-300"),
            (100.0, "100"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(written(value), text);
        }
    }
}
