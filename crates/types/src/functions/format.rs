//! Text made of values: quoting, `format`, and pictures of numbers.

use compact_str::CompactString;

use super::number_picture;
use super::{Function, check_length, f, float, int, number, text};
use crate::error::{Error, Result, SqlState};
use crate::letters;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::types::Type::{self, Float4, Float8, Int4, Int8, Text};
use crate::value::Datum;

const NUM: Type = Type::Numeric;

/// An identifier, in quotes if it needs them.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    let plain = name
        .bytes()
        .enumerate()
        .all(|(at, byte)| byte.is_ascii_lowercase() || byte == b'_' || (at > 0 && (byte.is_ascii_digit())));
    if plain && !name.is_empty() && !crate::keywords::needs_quotes(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal.
#[must_use]
pub(super) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// A text with each of some characters written twice, between quotes.
fn quoted(text: &str, quote: char, is_doubled: impl Fn(char) -> bool) -> Result<CompactString> {
    let mut out = CompactString::with_capacity(text.len() + 2);
    out.push(quote);
    for piece in pieces::of_text(text, Pace::Computed) {
        for c in piece?.chars() {
            if is_doubled(c) {
                out.push(c);
            }
            out.push(c);
        }
    }
    out.push(quote);
    Ok(out)
}

/// As [`quote_literal`], for texts of any length.
fn literal(text: &str) -> Result<CompactString> {
    if text.len() <= LENGTH_OF_LONG {
        return Ok(CompactString::from(letters::trim_start(&quote_literal(text))));
    }
    let has_backslash = memchr::memchr(b'\\', text.as_bytes()).is_some();
    let mut out = CompactString::from(if has_backslash { "E" } else { "" });
    pieces::push(&mut out, &quoted(text, '\'', |c| c == '\'' || c == '\\')?)?;
    Ok(out)
}

/// As [`quote_identifier`], for texts of any length.
fn identifier(text: &str) -> Result<CompactString> {
    if text.len() <= LENGTH_OF_LONG {
        return Ok(CompactString::from(quote_identifier(text)));
    }
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let mut plain = !text.as_bytes()[0].is_ascii_digit();
    for piece in pieces::of_text(text, Pace::Read) {
        plain = plain && piece?.bytes().all(is_plain);
    }
    if plain { Ok(CompactString::from(text)) } else { quoted(text, '"', |c| c == '"') }
}

/// Bytes from which a text is long.
const LENGTH_OF_LONG: usize = 16 << 10;

/// The width that an argument of `format` says.
fn format_width(arg: &Datum) -> Result<i64> {
    if arg.is_null() {
        return Ok(0);
    }
    let text = letters::trim(text(arg)?);
    let bad = || Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type integer: \"{text}\""));
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let value = text.parse::<i32>();
    value.map(i64::from).map_err(|_| Error::new(SqlState::OUT_OF_RANGE, format!("value \"{text}\" is out of range")))
}

/// `format`: `%s`, `%I`, `%L`, with a position (`%2$s`), a width (`%10s`, `%*s`) and `-` for the
/// left.
fn format(a: &[&Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let picture = text(a[0])?;
    let too_few = || Error::new(SqlState::BAD_PARAMETER, "too few arguments for format()");
    let mut out = String::new();
    let mut next = 1;
    let mut chars = picture.chars().peekable();
    while let Some(c) = chars.next() {
        pulse::work(1)?;
        if c != '%' {
            out.push(c);
            continue;
        }
        let unterminated = || {
            Error::new(SqlState::BAD_PARAMETER, "unterminated format() type specifier")
                .hint("For a single \"%\" use \"%%\".")
        };
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let digits = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Result<Option<i64>> {
            let mut value = None;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                let sum = value.unwrap_or(0i64) * 10 + i64::from(digit);
                if sum > i64::from(i32::MAX) {
                    return Err(Error::new(SqlState::OUT_OF_RANGE, "number is out of range"));
                }
                value = Some(sum);
            }
            Ok(value)
        };
        let argument_0 = || {
            let message = "format specifies argument 0, but arguments are numbered from 1";
            Error::new(SqlState::BAD_PARAMETER, message)
        };
        let (mut position, mut width_from) = (None, None);
        let mut width = digits(&mut chars)?;
        if width.is_some() && chars.next_if_eq(&'$').is_some() {
            position = width.take();
            if position == Some(0) {
                return Err(argument_0());
            }
        }
        let mut at_left = false;
        if width.is_none() {
            while chars.next_if_eq(&'-').is_some() {
                at_left = true;
            }
            if chars.next_if_eq(&'*').is_some() {
                // The width is an argument: the next one (0), or one with a position.
                width_from = Some(match digits(&mut chars)? {
                    Some(_) if chars.peek().is_none() => return Err(unterminated()),
                    Some(_) if chars.peek() != Some(&'$') => {
                        let message = "width argument position must be ended by \"$\"";
                        return Err(Error::new(SqlState::BAD_PARAMETER, message));
                    }
                    Some(0) => return Err(argument_0()),
                    Some(index) => {
                        chars.next();
                        index as usize
                    }
                    None => 0,
                });
            } else {
                width = digits(&mut chars)?;
            }
        }
        let kind = chars.next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(Error::new(
                SqlState::BAD_PARAMETER,
                format!("unrecognized format() type specifier \"{kind}\""),
            )
            .hint("For a single \"%\" use \"%%\"."));
        }
        if let Some(index) = width_from {
            let index = if index == 0 { next } else { index };
            next = index + 1;
            let value = format_width(a.get(index).ok_or_else(too_few)?)?;
            at_left |= value < 0;
            width = Some(value.abs());
        }
        let index = match position {
            Some(position) => position as usize,
            None => {
                next += 1;
                next - 1
            }
        };
        // What comes without a position goes on after one with a position.
        next = index + 1;
        let arg = a.get(index).ok_or_else(too_few)?;
        let shown: CompactString = match kind {
            's' if arg.is_null() => CompactString::default(),
            's' => CompactString::new(text(arg)?),
            'L' if arg.is_null() => CompactString::const_new("NULL"),
            'L' => literal(text(arg)?)?,
            _ if arg.is_null() => {
                return Err(Error::new(
                    SqlState::NULL_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            _ => identifier(text(arg)?)?,
        };
        let missing = (width.unwrap_or(0).max(0) as usize).saturating_sub(pieces::char_count(&shown)?);
        check_length(out.len() + shown.len() + missing)?;
        if at_left {
            out.push_str(&shown);
        }
        let mut left = missing;
        while left > 0 {
            let some = left.min(LENGTH_OF_LONG);
            pieces::pass(some, Pace::Computed)?;
            out.extend(std::iter::repeat_n(' ', some));
            left -= some;
        }
        if !at_left {
            out.push_str(&shown);
        }
    }
    Ok(Datum::Text(CompactString::from(out)))
}

/// `format(text, VARIADIC array)`: of no array it is as of an empty one.
pub static FORMAT_OF_ARRAY: Function = f("format", &[Text, Text.array_of()], Text, |a, _| {
    let values = match a[1] {
        Datum::Array(array) => array.values(),
        _ => &[],
    };
    format(&a[..1].iter().copied().chain(values).collect::<Vec<_>>())
})
.called_on_null()
.stable();

pub(super) const TABLE: &[Function] = &[
    f("quote_ident", &[Text], Text, |a, _| identifier(text(a[0])?).map(Datum::Text)),
    f("quote_literal", &[Text], Text, |a, _| literal(text(a[0])?).map(Datum::Text)),
    f("quote_nullable", &[Text], Text, |a, _| {
        if a[0].is_null() { Ok(Datum::text("NULL")) } else { literal(text(a[0])?).map(Datum::Text) }
    })
    .called_on_null(),
    f("format", &[Text], Text, |a, _| format(a)).variadic().called_on_null().stable(),
    f("to_char", &[Int4, Text], Text, |a, _| {
        number_picture::integer_to_char(int(a[0])?, true, text(a[1])?).map(|text| Datum::text(&text))
    })
    .stable(),
    f("to_char", &[Int8, Text], Text, |a, _| {
        number_picture::integer_to_char(int(a[0])?, false, text(a[1])?).map(|text| Datum::text(&text))
    })
    .stable(),
    f("to_char", &[NUM, Text], Text, |a, _| {
        number_picture::to_char(number(a[0])?, text(a[1])?).map(|text| Datum::text(&text))
    })
    .stable(),
    f("to_char", &[Float4, Text], Text, |a, _| {
        number_picture::float_to_char(float(a[0])?, f32::DIGITS as usize, text(a[1])?).map(|text| Datum::text(&text))
    })
    .stable(),
    f("to_char", &[Float8, Text], Text, |a, _| {
        number_picture::float_to_char(float(a[0])?, f64::DIGITS as usize, text(a[1])?).map(|text| Datum::text(&text))
    })
    .stable(),
    f("to_number", &[Text, Text], NUM, |a, _| {
        let value = number_picture::to_number(text(a[0])?, text(a[1])?)?;
        Ok(value.map_or(Datum::Null, Datum::Numeric))
    })
    .stable(),
];
