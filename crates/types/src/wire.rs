//! Values as clients send and receive them: text or binary, by PostgreSQL's input, output, receive
//! and send functions.

use crate::binary_io;
use crate::cast;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::text_io;
use crate::types::{ColumnType, Modifier, Type};
use crate::value::Datum;

/// Whether values are text or binary: PostgreSQL's format codes 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// What people read.
    #[default]
    Text,
    /// What programs read: big-endian, as the type's send function gives it.
    Binary,
}

/// Appends a value that is not NULL. `scratch` is room that is used and left empty.
pub fn write(ty: ColumnType, format: Format, value: &Datum, env: &Env, scratch: &mut String, out: &mut Vec<u8>) {
    if format == Format::Binary {
        return binary_io::write_binary(ty.ty, ty.modifier, value, out);
    }
    match value {
        Datum::Text(text) if ty.ty != Type::Char => out.extend_from_slice(text.as_bytes()),
        // Object numbers of some types, and values of enums, are written as names.
        Datum::Int(value) if !ty.ty.is_named_number() => write_int(*value, out),
        value => {
            match ty.ty {
                of if cast::is_padded(of) => text_io::write(ty.ty, &cast::pad_char(value, ty.modifier), env, scratch),
                _ => text_io::write(ty.ty, value, env, scratch),
            }
            out.extend_from_slice(scratch.as_bytes());
            scratch.clear();
        }
    }
}

/// Reads a value of a type, for a parameter.
///
/// # Errors
/// 22P02, 22003 and others if it is none of the type; 08P01 if its bytes in binary form are too few
/// and 22P03 if they are not of the type's form; 22021 if text is not UTF-8.
pub fn read(ty: Type, format: Format, bytes: &[u8], env: &Env) -> Result<Datum> {
    if format == Format::Binary {
        return binary_io::parse_binary(ty, bytes);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\"")
            .detail("A parameter in text format is not UTF-8.")
    })?;
    text_io::parse(ty, Modifier::NONE, text, env)
}

/// Appends a number in decimal digits.
fn write_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        from -= 1;
        digits[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        from -= 1;
        digits[from] = b'-';
    }
    out.extend_from_slice(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::{random_datum, same};

    #[test]
    fn numbers_are_written_in_full() {
        for value in [0, 1, -1, 10, -10, i64::MAX, i64::MIN, 1_234_567_890] {
            let mut out = Vec::new();
            write_int(value, &mut out);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let env = Env::default();
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut compared = 0;
        // Random texts are longer than the one character of "char".
        let kept = |ty: &Type| !matches!(ty, Type::Void | Type::Char | Type::InternalChar);
        for ty in Type::ALL.into_iter().filter(kept) {
            for format in [Format::Text, Format::Binary] {
                for _ in 0..500 {
                    let (value, mut scratch, mut out) = (random_datum(ty, &mut random), String::new(), Vec::new());
                    write(ty.into(), format, &value, &env, &mut scratch, &mut out);
                    assert!(scratch.is_empty());
                    // Texts with zeros, and dates beyond the calendar, are refused on the way back.
                    let Ok(back) = read(ty, format, &out, &env) else { continue };
                    // Text does not tell one NaN from another.
                    let both_nan =
                        matches!((&back, &value), (Datum::Float(a), Datum::Float(b)) if a.is_nan() && b.is_nan());
                    assert!(both_nan || same(&back, &value), "{ty} {value:?} {back:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 10_000);
    }

    #[test]
    fn an_object_is_written_by_its_name() {
        let written = |format| {
            let (mut scratch, mut out) = (String::new(), Vec::new());
            write(Type::RegType.into(), format, &Datum::Int(23), &Env::default(), &mut scratch, &mut out);
            out
        };
        assert_eq!(written(Format::Text), b"integer");
        assert_eq!(written(Format::Binary), 23_u32.to_be_bytes());
    }

    #[test]
    fn a_char_has_its_blanks_in_both_formats() {
        let ty = ColumnType::new(Type::Char, Modifier::length(5));
        for format in [Format::Text, Format::Binary] {
            let mut out = Vec::new();
            write(ty, format, &Datum::text("ab"), &Env::default(), &mut String::new(), &mut out);
            assert_eq!(out, b"ab   ");
        }
    }
}
