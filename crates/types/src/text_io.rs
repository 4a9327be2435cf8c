//! Values as text: what PostgreSQL's input and output functions read and write.

use compact_str::CompactString;

use crate::cast::{self, CastContext};
use crate::datetime;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
pub use crate::float_text::write_float4;
use crate::float_text::write_float8;
use crate::interval::Interval;
use crate::letters::{push_ascii, trim};
use crate::network;
use crate::numeric::Numeric;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::text_search;
use crate::types::{Category, Modifier, Type};
use crate::value::Datum;
use crate::xml;

#[cold]
fn bad_syntax(ty: Type, text: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type {ty}: \"{text}\""))
}

#[cold]
fn out_of_range(ty: Type, text: &str) -> Error {
    Error::new(SqlState::OUT_OF_RANGE, format!("value \"{text}\" is out of range for type {ty}"))
}

/// Reads a value as PostgreSQL's input function of the type does, and fits it to the modifier as
/// assignment does.
pub fn parse(ty: Type, modifier: Modifier, text: &str, env: &Env) -> Result<Datum> {
    if ty.is_array() {
        return crate::array::parse(ty, modifier, text, env);
    }
    if let Type::Enum(of) = ty {
        return of.place_of(text).map(Datum::Int);
    }
    if let Type::Composite(of) = ty {
        return crate::composite_values::parse(of, text, env);
    }
    let value = match ty.base() {
        Type::Oid if ty.is_reg() => Datum::Int(env.object_number(ty, text)?.into()),
        Type::Bool => parse_bool(text).map(Datum::Bool).ok_or_else(|| bad_syntax(ty, text))?,
        Type::Int8 if ty == Type::Money => Datum::Int(crate::money::parse(text)?),
        Type::Int8 if ty != Type::Int8 => Datum::Int(crate::positions::parse(ty, text)?),
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => parse_int(ty.base(), text)?,
        Type::Float4 | Type::Float8 => Datum::Float(parse_float(ty, text)?),
        Type::Numeric => Datum::Numeric(Numeric::parse(text)?),
        Type::Varchar | Type::Text | Type::Unknown => {
            check_text(text)?;
            match ty {
                Type::InternalChar => Datum::Text(one_byte(text)),
                Type::Json => {
                    crate::json_text::validate(text)?;
                    crate::copies::copy(text)?
                }
                Type::JsonPath => Datum::Text(crate::jsonpath::canonical(text)?.into()),
                Type::Xml => {
                    let kind = if env.xml_is_document { xml::Kind::Document } else { xml::Kind::Content };
                    Datum::Text(xml::parse(text, kind)?.into())
                }
                Type::Ltree | Type::Lquery | Type::Ltxtquery => crate::ltree::read(ty, text)?,
                Type::IntQuery => Datum::text(&crate::int_query::IntQuery::parse(text)?.shown()),
                Type::PgSnapshot | Type::TxidSnapshot => {
                    Datum::text(&crate::snapshots::Snapshot::parse(ty, text)?.to_string())
                }
                _ => crate::copies::copy(text)?,
            }
        }
        Type::Char => {
            check_text(text)?;
            // Without a length, blanks at the end still do not count.
            crate::copies::copy(if modifier == Modifier::NONE { pieces::without_blanks_at_end(text)? } else { text })?
        }
        Type::Name => {
            check_text(text)?;
            Datum::text(cast::cut_name(text))
        }
        Type::Bytea if ty.category() == Category::BitString => return crate::bits::parse(ty, modifier, text),
        Type::Citext => {
            check_text(text)?;
            Datum::Citext(text.into())
        }
        Type::Bytea => Datum::Bytes(match ty {
            Type::Hstore => {
                check_text(text)?;
                crate::hstore::parse(text)?
            }
            Type::Vector => {
                check_text(text)?;
                crate::vector::parse(text)?
            }
            Type::TsVector => {
                check_text(text)?;
                text_search::read_vector(text)?
            }
            Type::Inet | Type::Cidr => network::Address::parse(ty, text)?.to_bytes(),
            Type::MacAddr => network::Mac::parse(text)?.0.into(),
            Type::MacAddr8 => network::Mac8::parse(text)?.0.into(),
            ty if ty.is_geometric() => crate::geometry::read(ty, text)?.into(),
            _ => parse_bytea(text)?.into(),
        }),
        Type::TsQuery => {
            check_text(text)?;
            Datum::Query(text_search::read_query(text)?.to_bytes()?)
        }
        ty if ty.bounds().is_some() => return crate::ranges::parse(ty, text, env),
        Type::Date => Datum::Date(datetime::parse_date(text, env)?),
        Type::Time => Datum::Time(datetime::parse_time(text, env)?),
        Type::TimeTz => Datum::TimeTz(datetime::parse_time_tz(text, env)?),
        Type::Timestamp => Datum::Timestamp(datetime::parse_timestamp(text, env)?),
        Type::TimestampTz => Datum::Timestamp(datetime::parse_timestamptz(text, env)?),
        Type::Interval => Datum::Interval(Interval::parse_styled(text, modifier.interval_parts().0, env.intervals)?),
        Type::Jsonb => {
            check_text(text)?;
            crate::jsonb::parse(text)?.datum()?
        }
        Type::Uuid => Datum::Uuid(parse_uuid(text).ok_or_else(|| bad_syntax(ty, text))?),
        Type::Record => {
            let message = "input of anonymous composite types is not implemented";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        _ => {
            let message = format!("cannot accept a value of type {ty}");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    };
    if modifier == Modifier::NONE {
        return Ok(value);
    }
    cast::apply_modifier(value, ty, modifier, CastContext::Assignment)
}

/// Texts have no character of number zero.
pub fn check_text(text: &str) -> Result<()> {
    pieces::pass(text.len(), Pace::Copied)?;
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    Ok(())
}

fn parse_bool(text: &str) -> Option<bool> {
    let text = trim(text);
    let is = |word: &str, length_min: usize| {
        text.len() >= length_min
            && text.len() <= word.len()
            && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
    };
    match () {
        () if is("true", 1) || is("yes", 1) || is("on", 2) || is("1", 1) => Some(true),
        () if is("false", 1) || is("no", 1) || is("off", 2) || is("0", 1) => Some(false),
        () => None,
    }
}

fn parse_int(ty: Type, text: &str) -> Result<Datum> {
    let trimmed = trim(text).as_bytes();
    let (negative, digits) = match trimmed {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, trimmed),
    };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return Err(bad_syntax(ty, text));
    }
    let least = match ty {
        Type::Int2 => i64::from(i16::MIN),
        Type::Int4 => i64::from(i32::MIN),
        _ => i64::MIN,
    };
    let mut value = 0i64;
    // Too many digits are said before what is wrong behind them.
    for digit in &digits[..length] {
        // Towards the negative, which has one number more.
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_sub(i64::from(digit - b'0')))
            .filter(|&value| value >= least)
            .ok_or_else(|| out_of_range(ty, text))?;
    }
    if length < digits.len() {
        return Err(bad_syntax(ty, text));
    }
    if !negative {
        value = value.checked_neg().ok_or_else(|| out_of_range(ty, text))?;
    }
    cast::int_in_range(value, ty).map_err(|_| out_of_range(ty, text))
}

/// Reads a float as C's `strtod` does.
pub fn parse_float(ty: Type, text: &str) -> Result<f64> {
    let trimmed = trim(text);
    let out_of_range = || Error::new(SqlState::OUT_OF_RANGE, format!("\"{trimmed}\" is out of range for type {ty}"));
    if let Some(value) = hexadecimal(trimmed) {
        let value = if ty == Type::Float4 { f64::from(value as f32) } else { value };
        return if value.is_infinite() { Err(out_of_range()) } else { Ok(value) };
    }
    // A number that is out of range is told before what stands behind it.
    let Ok(wide) = trimmed.parse::<f64>() else {
        let number = number_in_front(trimmed);
        if number.is_empty() || number.len() == trimmed.len() {
            return Err(bad_syntax(ty, text));
        }
        let is_out_of_range = |error: &Error| error.state() == SqlState::OUT_OF_RANGE;
        return Err(parse_float(ty, number).err().filter(is_out_of_range).unwrap_or_else(|| bad_syntax(ty, text)));
    };
    let value = if ty == Type::Float4 { trimmed.parse::<f32>().map_or(wide, f64::from) } else { wide };
    let names_infinity = trimmed.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'n'));
    let digits = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let vanished = value == 0.0 && digits.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if (value.is_infinite() && !names_infinity) || vanished {
        return Err(out_of_range());
    }
    Ok(value)
}

/// The decimal number at the beginning of a text; empty if there is none.
fn number_in_front(text: &str) -> &str {
    let bytes = text.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = |from: usize| from + usize::from(matches!(bytes.get(from), Some(b'+' | b'-')));
    let begin = sign(0);
    let mut end = digits(begin);
    let mut count = end - begin;
    if bytes.get(end) == Some(&b'.') {
        let behind = digits(end + 1);
        count += behind - end - 1;
        end = behind;
    }
    if count == 0 {
        return "";
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let from = sign(end + 1);
        let behind = digits(from);
        end = if behind > from { behind } else { end };
    }
    &text[..end]
}

/// A float of hexadecimal digits, as in C: `0x1.8p3` is 12. Digits behind the 24th that counts do
/// not change the value.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
    let (digits, exponent) = match digits.find(['p', 'P']) {
        Some(at) => (&digits[..at], digits[at + 1..].parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    if before.is_empty() && behind.is_empty() {
        return None;
    }
    let (mut value, mut power) = (0_u128, i64::from(exponent));
    for (at, digit) in before.chars().chain(behind.chars()).enumerate() {
        let digit = u128::from(digit.to_digit(16)?);
        let has_room = value >> 96 == 0;
        // What there is no room for only says that there is more.
        value = if has_room { value << 4 | digit } else { value | u128::from(digit != 0) };
        power += if at < before.len() { i64::from(!has_room) * 4 } else { -4 * i64::from(has_room) };
    }
    if value == 0 {
        return Some(0.0 * sign);
    }
    // In two steps, so that neither leaves what a float can be before the other has come.
    let power = i32::try_from(power.clamp(-4_000, 4_000)).ok()?;
    Some(sign * value as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2))
}

/// Reads `\x` and hexadecimal digits, or text with `\\` and octal escapes.
pub fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    let bad = || Error::new(SqlState::BAD_TEXT, "invalid input syntax for type bytea");
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        pulse::work(1)?;
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return Err(bad()),
        }
    }
    Ok(out)
}

/// Reads hexadecimal digits, with blanks between bytes.
pub fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for piece in pieces::of_text(text, Pace::Computed) {
        for c in piece?.chars() {
            if high.is_none() && matches!(c, ' ' | '\t' | '\n' | '\r') {
                continue;
            }
            let digit = c
                .to_digit(16)
                .ok_or_else(|| Error::new(SqlState::BAD_PARAMETER, format!("invalid hexadecimal digit: \"{c}\"")))?
                as u8;
            match high.take() {
                Some(high) => out.push(high << 4 | digit),
                None => high = Some(digit),
            }
        }
    }
    if high.is_some() {
        return Err(Error::new(SqlState::BAD_PARAMETER, "invalid hexadecimal data: odd number of digits"));
    }
    Ok(out)
}

/// Reads 32 hexadecimal digits, with hyphens after any group of four, perhaps in braces.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut uuid = [0; 16];
    let mut digits = 0usize;
    let mut after_hyphen = true;
    for byte in inner.bytes() {
        if byte == b'-' {
            if after_hyphen || !digits.is_multiple_of(4) || digits == 32 {
                return None;
            }
            after_hyphen = true;
            continue;
        }
        let digit = (byte as char).to_digit(16)? as u8;
        *uuid.get_mut(digits / 2)? |= if digits.is_multiple_of(2) { digit << 4 } else { digit };
        digits += 1;
        after_hyphen = false;
    }
    (digits == 32).then_some(uuid)
}

/// A value's text, by itself.
///
/// # Errors
/// The statement was cancelled, which ends [`write()`] early.
pub fn written(ty: Type, value: &Datum, env: &Env) -> Result<CompactString> {
    let mut text = String::new();
    write(ty, value, env, &mut text);
    if is_long(value) {
        pulse::check()?;
    }
    Ok(text.into())
}

/// Whether writing a value may end early.
pub fn is_long(value: &Datum) -> bool {
    match value {
        Datum::Text(text) | Datum::Citext(text) => text.len() >= LONG_BYTES,
        Datum::Bytes(bytes) | Datum::Query(bytes) | Datum::Range(bytes) => bytes.len() >= LONG_BYTES,
        Datum::Array(array) => !array.values().is_empty(),
        Datum::Row(row) => !row.values().is_empty(),
        Datum::Jsonb(bytes) => bytes.len() >= LONG_BYTES,
        _ => false,
    }
}

/// Bytes of a value from which writing it polls.
const LONG_BYTES: usize = 8 << 10;

/// Appends a value's text as PostgreSQL's output function of the type gives it; NULL has none.
pub fn write(ty: Type, value: &Datum, env: &Env, out: &mut String) {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Datum::Int(value) if ty.is_reg() => env.write_object(ty, *value as u32, out),
        Datum::Int(value) if ty == Type::Money => crate::money::write(*value, out),
        Datum::Int(value) if matches!(ty, Type::Xid8 | Type::PgLsn | Type::Tid) => {
            crate::positions::write(ty, *value, out);
        }
        Datum::Int(value) => {
            if let Type::Enum(of) = ty
                && let Some(label) = of.label_at(*value)
            {
                out.push_str(label);
                return;
            }
            out.push_str(itoa::Buffer::new().format(*value));
        }
        Datum::Float(value) if ty == Type::Float4 => write_float4(*value as f32, env.extra_float_digits, out),
        Datum::Float(value) => write_float8(*value, env.extra_float_digits, out),
        Datum::Numeric(value) => value.write(out),
        Datum::Text(text) | Datum::Citext(text) => out.push_str(text),
        Datum::Bytes(bytes) if ty.category() == Category::BitString => crate::bits::Bits::new(bytes).write(out),
        Datum::Bytes(bytes) if ty != Type::Bytea && ty.base() == Type::Bytea => write_packed(ty, bytes, env, out),
        Datum::Bytes(bytes) if env.escapes_bytes => write_escaped(bytes, out),
        Datum::Bytes(bytes) => {
            out.push_str("\\x");
            write_hex(bytes, out);
        }
        // What was cancelled ends early: the next poll says so.
        Datum::Query(bytes) => drop(text_search::Query::from_bytes(bytes).write(out)),
        Datum::Range(bytes) => crate::ranges::write(ty, bytes, env, out),
        Datum::Date(date) => env.dates.write_date(*date, out),
        Datum::Time(time) => datetime::write_time(*time, out),
        Datum::TimeTz(time) => time.write(out),
        Datum::Timestamp(timestamp) if ty == Type::TimestampTz => {
            env.dates.write_timestamptz(*timestamp, &env.zone, out)
        }
        Datum::Timestamp(timestamp) => env.dates.write_timestamp(*timestamp, out),
        Datum::Interval(interval) => env.intervals.write(*interval, out),
        Datum::Array(array) => array.write(ty, env, out),
        Datum::Row(row) => row.write(env, out),
        Datum::Jsonb(bytes) => {
            // What is malformed ends the text early: an expression that looks at it says so.
            let _ = crate::jsonb::write(crate::jsonb::JsonbRef::new(bytes), out);
        }
        Datum::Uuid(uuid) => {
            let mut text = [b'-'; 36];
            let mut at = 0;
            for (index, &byte) in uuid.iter().enumerate() {
                at += usize::from(matches!(index, 4 | 6 | 8 | 10));
                text[at..at + 2].copy_from_slice(&hex(byte));
                at += 2;
            }
            push_ascii(&text, out);
        }
    }
}

/// A byte's lower-case hexadecimal digits.
fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Appends the text of a value whose bytes are a form of its own.
fn write_packed(ty: Type, bytes: &[u8], env: &Env, out: &mut String) {
    match ty {
        ty if ty.is_geometric() => crate::geometry::write(ty, bytes, env, out),
        Type::Hstore => crate::hstore::Hstore::new(bytes).write(out),
        Type::Vector => crate::vector::Vector::new(bytes).write(out),
        Type::TsVector => text_search::Vector::new(bytes).write(out),
        Type::MacAddr => network::Mac::from_bytes(bytes).write(out),
        Type::MacAddr8 => network::Mac8::from_bytes(bytes).write(out),
        _ => network::Address::from_bytes(bytes).write(ty == Type::Cidr, out),
    }
}

/// The byte that a value of the type `"char"` is.
pub(crate) fn byte_of_char(value: &str) -> u8 {
    match value.strip_prefix('\\').filter(|digits| !digits.is_empty()) {
        Some(octal) => u8::from_str_radix(octal, 8).unwrap_or_default(),
        None => value.as_bytes().first().copied().unwrap_or_default(),
    }
}

/// The first byte of a text, or the one that it names in octal behind a backslash, as the type
/// `"char"` shows it: in octal where it is not ASCII, and zero as nothing.
fn one_byte(text: &str) -> CompactString {
    let digit = |byte: u8| matches!(byte, b'0'..=b'7').then(|| u32::from(byte - b'0'));
    let named = match *text.as_bytes() {
        [b'\\', a, b, c] => digit(a).zip(digit(b)).zip(digit(c)).map(|((a, b), c)| (a << 6 | b << 3 | c) as u8),
        _ => None,
    };
    shown_byte(named.or_else(|| text.as_bytes().first().copied()).unwrap_or(0))
}

/// A value of the type `"char"`, which is a byte.
pub(crate) fn shown_byte(byte: u8) -> CompactString {
    match byte {
        0 => CompactString::default(),
        0x80.. => format!("\\{byte:03o}").into(),
        _ => CompactString::from_iter([char::from(byte)]),
    }
}

/// Appends bytes as `bytea_output = escape` has them: what is not printable ASCII in octal, and
/// backslashes twice.
pub(crate) fn write_escaped(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                out.push('\\');
                out.extend([byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| char::from(b'0' + digit)));
            }
        }
    }
}

/// Appends lower-case hexadecimal digits. Ends early if the statement was cancelled: see
/// [`pulse::note`].
pub fn write_hex(bytes: &[u8], out: &mut String) {
    const AT_ONCE: usize = 8 << 10;
    const CHUNK: usize = 64;
    out.reserve(bytes.len() * 2);
    for piece in bytes.chunks(AT_ONCE) {
        for chunk in piece.chunks(CHUNK) {
            let mut text = [[0; 2]; CHUNK];
            for (digits, &byte) in text.iter_mut().zip(chunk) {
                *digits = hex(byte);
            }
            push_ascii(text[..chunk.len()].as_flattened(), out);
        }
        if piece.len() == AT_ONCE && pulse::note(AT_ONCE / 2) {
            return;
        }
    }
}
