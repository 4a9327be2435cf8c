//! Texts of dates, times and intervals, cut into fields by the look of their characters; and the
//! numbers in them.

use smallvec::SmallVec;

use super::parse::{Fault, Parsed};
use super::words;
use crate::letters::{is_blank, trim_start};

/// The looks of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Digits.
    Number,
    /// Digits or a word, and more behind a mark: `2024-05-06`.
    Date,
    /// Digits and colons.
    Time,
    /// A number with a sign, perhaps with colons.
    Offset,
    /// Letters.
    Word,
    /// A word with a sign: `-infinity`.
    Signed,
}

/// A field and its text, in lower case and without blanks.
pub(super) type Fields = SmallVec<[(Look, String); 8]>;

/// How many fields a text may have.
const FIELDS_MAX: usize = 25;

/// Cuts a text into fields, which may have `bytes_max` characters together, each with one behind
/// it.
pub fn fields(text: &str, bytes_max: usize) -> Parsed<Fields> {
    let bytes = text.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let skip = |mut index: usize, fits: &dyn Fn(u8) -> bool| {
        while index < bytes.len() && fits(bytes[index]) {
            index += 1;
        }
        index
    };
    let digit = |byte: u8| byte.is_ascii_digit();
    let mut fields = Fields::new();
    let mut used = 0;
    let mut start = 0;
    while start < bytes.len() {
        let byte = bytes[start];
        if is_blank(byte) {
            start += 1;
            continue;
        }
        if fields.len() >= FIELDS_MAX {
            return Err(Fault::Syntax);
        }
        let mut end = start + 1;
        let mut sign = "";
        let look = if digit(byte) {
            end = skip(end, &digit);
            match at(end) {
                b':' => {
                    end = skip(end, &|byte| digit(byte) || byte == b':' || byte == b'.');
                    Look::Time
                }
                delimiter @ (b'-' | b'/' | b'.') => {
                    end += 1;
                    if digit(at(end)) {
                        end = skip(end, &digit);
                        let mut look = if delimiter == b'.' { Look::Number } else { Look::Date };
                        if at(end) == delimiter {
                            end = skip(end, &|byte| digit(byte) || byte == delimiter);
                            look = Look::Date;
                        }
                        look
                    } else {
                        end = skip(end, &|byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                        Look::Date
                    }
                }
                _ => Look::Number,
            }
        } else if byte == b'.' {
            end = skip(end, &digit);
            Look::Number
        } else if byte.is_ascii_alphabetic() {
            end = skip(end, &|byte| byte.is_ascii_alphabetic());
            // A date, or the name of a zone.
            let joins = matches!(at(end), b'-' | b'/' | b'.')
                || ((at(end) == b'+' || digit(at(end)))
                    && words::word(&text[start..end].to_ascii_lowercase()).is_none());
            if joins {
                end = skip(end, &|byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
                Look::Date
            } else {
                Look::Word
            }
        } else if byte == b'+' || byte == b'-' {
            sign = if byte == b'+' { "+" } else { "-" };
            start = skip(end, &is_blank);
            end = start;
            if digit(at(end)) {
                end = skip(end, &|byte| digit(byte) || b":.-".contains(&byte));
                Look::Offset
            } else if at(end).is_ascii_alphabetic() {
                end = skip(end, &|byte| byte.is_ascii_alphabetic());
                Look::Signed
            } else {
                return Err(Fault::Syntax);
            }
        } else if byte.is_ascii_punctuation() {
            start += 1;
            continue;
        } else {
            return Err(Fault::Syntax);
        };
        let field = format!("{sign}{}", text[start..end].to_ascii_lowercase());
        used += field.len() + 1;
        if used > bytes_max {
            return Err(Fault::Syntax);
        }
        fields.push((look, field));
        start = end;
    }
    Ok(fields)
}

/// The whole number that a text begins with, behind blanks; 0 if it begins with none. And the rest.
pub fn leading_integer(text: &str) -> Parsed<(i64, &str)> {
    let text = trim_start(text);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let length = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return Ok((0, text));
    }
    let signed = &text[..text.len() - unsigned.len() + length];
    let value = signed.parse().map_err(|_| Fault::Range)?;
    Ok((value, &unsigned[length..]))
}

/// The same, of what must fit an `integer`.
pub(super) fn leading_int(text: &str) -> Parsed<(i64, &str)> {
    let (value, rest) = leading_integer(text)?;
    i32::try_from(value).map(|_| (value, rest)).map_err(|_| Fault::Range)
}

/// The digits of a text as a number, whatever is behind them; too many digits make some number.
pub(super) fn digits_value(text: &str) -> i64 {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    i64::from(text[..length].parse::<i64>().unwrap_or(i64::MAX) as i32)
}

/// The value of `.123`, which must end the text.
pub fn fraction(text: &str) -> Parsed<f64> {
    let digits = &text[1..];
    if digits.is_empty() {
        return Ok(0.0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    format!("0{text}").parse().map_err(|_| Fault::Syntax)
}

/// The same as microseconds of a second.
pub(super) fn fraction_us(text: &str) -> Parsed<i64> {
    Ok((fraction(text)? * 1_000_000.0).round_ties_even() as i64)
}
