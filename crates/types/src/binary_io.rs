//! Values in PostgreSQL's binary format: what its functions `typsend` and `typreceive` write and
//! read.
//!
//! Everything is big-endian. Dates and timestamps count from 2000-01-01, as here. A numeric is a
//! list of digits in base 10,000 with a weight; an interval is microseconds, days, months.

use compact_str::CompactString;

use crate::cast;
use crate::datetime;
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval};
use crate::network;
use crate::numeric::Numeric;
use crate::text_io::check_text;
use crate::text_search;
use crate::types::{Modifier, Type};
use crate::value::Datum;

#[cold]
fn bad_length() -> Error {
    Error::new(SqlState::BAD_BINARY, "incorrect binary data format")
}

/// A value ends before all of it is there.
#[cold]
pub fn too_short() -> Error {
    Error::new(SqlState("08P01"), "insufficient data left in message")
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| if bytes.len() < N { too_short() } else { bad_length() })
}

/// The version of the form that `jsonb` and `jsonpath` have: a byte, and a text behind it.
const VERSION: u8 = 1;

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|_| Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\""))
}

/// The text behind a version.
fn versioned(ty: Type, bytes: &[u8]) -> Result<&str> {
    match bytes.split_first() {
        Some((&VERSION, text)) => utf8(text),
        Some((version, _)) => Err(Error::internal(format_args!("unsupported {ty} version number {version}"))),
        None => Err(too_short()),
    }
}

/// Reads a value of a type.
///
/// # Errors
/// 08P01 if there are too few bytes, 22P03 if they are not of the type's form, 22003 or 22008 if
/// they name a value out of range, 22021 for text that is not UTF-8.
pub fn parse_binary(ty: Type, bytes: &[u8]) -> Result<Datum> {
    if ty.is_array() {
        return crate::array::parse_binary(ty, bytes);
    }
    if let Type::Enum(of) = ty {
        let label = utf8(bytes)?;
        check_text(label)?;
        return of.place_of(label).map(Datum::Int);
    }
    Ok(match ty.base() {
        Type::Bool => Datum::Bool(exactly::<1>(bytes)?[0] != 0),
        Type::Int2 => Datum::Int(i64::from(i16::from_be_bytes(exactly(bytes)?))),
        Type::Int4 => Datum::Int(i64::from(i32::from_be_bytes(exactly(bytes)?))),
        Type::Oid => Datum::Int(i64::from(u32::from_be_bytes(exactly(bytes)?))),
        Type::Int8 => Datum::Int(i64::from_be_bytes(exactly(bytes)?)),
        Type::Float4 => Datum::Float(f64::from(f32::from_be_bytes(exactly(bytes)?))),
        Type::Float8 => Datum::Float(f64::from_be_bytes(exactly(bytes)?)),
        Type::Numeric => Datum::Numeric(parse_numeric(bytes)?),
        Type::Unknown | Type::Text | Type::Varchar | Type::Char | Type::Name => {
            let text = if ty == Type::JsonPath { versioned(ty, bytes)? } else { utf8(bytes)? };
            check_text(text)?;
            match ty {
                Type::Char => Datum::text(text.trim_end_matches(' ')),
                Type::Name => Datum::Text(CompactString::new(cast::cut_name(text))),
                Type::Json => {
                    crate::json_text::validate(text)?;
                    Datum::text(text)
                }
                Type::JsonPath => Datum::Text(crate::jsonpath::canonical(text)?.into()),
                _ => Datum::text(text),
            }
        }
        Type::Bytea => Datum::Bytes(match ty {
            Type::TsVector => text_search::receive_vector(bytes)?,
            Type::Inet | Type::Cidr => network::Address::parse_binary(ty, bytes)?.to_bytes(),
            Type::MacAddr => exactly::<6>(bytes)?.into(),
            // One of six bytes becomes one of eight.
            Type::MacAddr8 if bytes.len() == 6 => network::Mac(exactly(bytes)?).widened().0.into(),
            Type::MacAddr8 => exactly::<8>(bytes)?.into(),
            _ => bytes.into(),
        }),
        Type::TsQuery => Datum::Query(text_search::receive_query(bytes)?),
        Type::Date => match i32::from_be_bytes(exactly(bytes)?) {
            infinity @ (i32::MIN | i32::MAX) => Datum::Date(infinity),
            date => Datum::Date(datetime::checked_date(i64::from(date))?),
        },
        Type::Time => match i64::from_be_bytes(exactly(bytes)?) {
            time @ 0..=DAY_US => Datum::Time(time),
            _ => return Err(Error::new(SqlState::DATETIME_OVERFLOW, "time out of range")),
        },
        Type::Timestamp | Type::TimestampTz => match i64::from_be_bytes(exactly(bytes)?) {
            infinity @ (i64::MIN | i64::MAX) => Datum::Timestamp(infinity),
            timestamp => Datum::Timestamp(datetime::checked_timestamp(i128::from(timestamp))?),
        },
        Type::Interval => {
            let all: [u8; 16] = exactly(bytes)?;
            let (micros, rest) = all.split_at(8);
            let (days, months) = rest.split_at(4);
            Datum::Interval(Interval {
                months: i32::from_be_bytes(exactly(months)?),
                days: i32::from_be_bytes(exactly(days)?),
                micros: i64::from_be_bytes(exactly(micros)?),
            })
        }
        Type::Jsonb => {
            let text = versioned(ty, bytes)?;
            check_text(text)?;
            crate::jsonb::parse(text)?.datum()?
        }
        Type::Uuid => Datum::Uuid(exactly(bytes)?),
        _ => return Err(Error::unsupported(format_args!("reading a value of type {ty}"))),
    })
}

/// Appends a value; NULL has no bytes. The modifier tells how many blanks `char(n)` ends with.
pub fn write_binary(ty: Type, modifier: Modifier, value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int(value) => match ty.base() {
            Type::Int8 if ty.is_enum() => {
                let label = ty.enum_within().and_then(|of| of.label_at(*value));
                out.extend_from_slice(label.unwrap_or_default().as_bytes());
            }
            Type::Int2 => out.extend_from_slice(&(*value as i16).to_be_bytes()),
            Type::Int4 | Type::Oid => out.extend_from_slice(&(*value as i32).to_be_bytes()),
            _ => out.extend_from_slice(&value.to_be_bytes()),
        },
        Datum::Float(value) if ty == Type::Float4 => out.extend_from_slice(&(*value as f32).to_be_bytes()),
        Datum::Float(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => write_numeric(*value, out),
        Datum::Text(text) => {
            if ty == Type::JsonPath {
                out.push(VERSION);
            }
            out.extend_from_slice(text.as_bytes());
            if let (Type::Char, Some(chars_max)) = (ty, modifier.chars_max()) {
                let missing = chars_max.saturating_sub(text.chars().count());
                out.resize(out.len() + missing, b' ');
            }
        }
        Datum::Bytes(bytes) => match ty {
            Type::TsVector => text_search::Vector::new(bytes).write_binary(out),
            Type::Inet | Type::Cidr => network::Address::from_bytes(bytes).write_binary(ty == Type::Cidr, out),
            _ => out.extend_from_slice(bytes),
        },
        Datum::Query(bytes) => text_search::Query::from_bytes(bytes).write_binary(out),
        Datum::Date(date) => out.extend_from_slice(&date.to_be_bytes()),
        Datum::Time(us) | Datum::Timestamp(us) => out.extend_from_slice(&us.to_be_bytes()),
        Datum::Interval(interval) => {
            out.extend_from_slice(&interval.micros.to_be_bytes());
            out.extend_from_slice(&interval.days.to_be_bytes());
            out.extend_from_slice(&interval.months.to_be_bytes());
        }
        Datum::Uuid(uuid) => out.extend_from_slice(uuid),
        Datum::Array(array) => array.write_binary(out),
        Datum::Row(row) => row.write_binary(out),
        Datum::Jsonb(bytes) => {
            let mut text = String::new();
            // As in text, what is malformed ends early.
            let _ = crate::jsonb::write(crate::jsonb::JsonbRef::new(bytes), &mut text);
            out.push(VERSION);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

const NUMERIC_NEGATIVE: u16 = 0x4000;

/// `| digit count | weight | sign | scale | digits in base 10,000 |`, each 16 bits.
fn write_numeric(value: Numeric, out: &mut Vec<u8>) {
    let mantissa = value.mantissa();
    let scale = u32::from(value.scale());
    let mut rest = mantissa.unsigned_abs();
    // 38 digits and the alignment of the fraction fill at most 11 groups.
    let mut groups = [0u16; 12];
    let mut count = 0;
    // The last group's digits are those that the scale leaves over.
    let partial = scale % 4;
    if partial != 0 {
        let unit = 10u128.pow(partial);
        groups[0] = ((rest % unit) as u16) * 10u16.pow(4 - partial);
        (rest, count) = (rest / unit, 1);
    }
    while rest > 0 {
        (groups[count], rest) = ((rest % 10_000) as u16, rest / 10_000);
        count += 1;
    }
    while count > 0 && groups[count - 1] == 0 {
        count -= 1;
    }
    let first = groups[..count].iter().position(|&group| group != 0).unwrap_or(count);
    let weight = count as i32 - 1 - scale.div_ceil(4) as i32;
    let digits = &groups[first..count];
    out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
    out.extend_from_slice(&(if digits.is_empty() { 0 } else { weight as i16 }).to_be_bytes());
    out.extend_from_slice(&if mantissa < 0 { NUMERIC_NEGATIVE } else { 0 }.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
    for digit in digits.iter().rev() {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

fn parse_numeric(bytes: &[u8]) -> Result<Numeric> {
    let (words, rest) = bytes.as_chunks::<2>();
    let word = |index: usize| words.get(index).map(|word| u16::from_be_bytes(*word)).ok_or_else(too_short);
    let (count, weight, sign, scale) = (usize::from(word(0)?), word(1)? as i16, word(2)?, word(3)?);
    if words.len() < count + 4 {
        return Err(too_short());
    }
    if !rest.is_empty() || words.len() != count + 4 {
        return Err(bad_length());
    }
    let negative = match sign {
        0 => false,
        NUMERIC_NEGATIVE => true,
        0xC000 | 0xD000 | 0xF000 => return Err(Error::unsupported("NaN or infinity as a value of type numeric")),
        _ => return Err(Error::new(SqlState::BAD_BINARY, "invalid sign in external \"numeric\" value")),
    };
    if scale > 0x3fff {
        return Err(Error::new(SqlState::BAD_BINARY, "invalid scale in external \"numeric\" value"));
    }
    let digits = &words[4..];
    // Zeros around the digits count for nothing.
    let first = digits.iter().position(|digit| *digit != [0, 0]).unwrap_or(count);
    let last = digits.iter().rposition(|digit| *digit != [0, 0]).map_or(first, |last| last + 1);
    let mut mantissa = 0i128;
    for digit in &digits[first..last] {
        let digit = u16::from_be_bytes(*digit);
        if digit >= 10_000 {
            return Err(Error::new(SqlState::BAD_BINARY, "invalid digit in external \"numeric\" value"));
        }
        mantissa = mantissa
            .checked_mul(10_000)
            .and_then(|wide| wide.checked_add(i128::from(digit)))
            .ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "value overflows numeric format"))?;
    }
    if negative {
        mantissa = -mantissa;
    }
    // The value is mantissa * 10,000^exponent.
    let exponent = i32::from(weight) - last as i32 + 1;
    let mut text = format!("{mantissa}e{}", exponent * 4);
    if mantissa == 0 {
        text = "0".to_owned();
    }
    Numeric::parse(&text)?.trunc(i32::from(scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::{random_datum, same};

    #[test]
    fn values_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in Type::all().filter(|ty| ty.is_storable()) {
            for _ in 0..5_000 {
                let value = random_datum(ty, &mut random);
                let mut bytes = Vec::new();
                write_binary(ty, Modifier::NONE, &value, &mut bytes);
                // Texts with zeros, and dates beyond the calendar, are refused on the way back.
                let Ok(back) = parse_binary(ty, &bytes) else { continue };
                assert!(same(&back, &value) || ty == Type::Char, "{ty} {value:?} {back:?}");
            }
        }
    }

    #[test]
    fn numerics_are_as_postgresql_sends_them() {
        let check = |text: &str, expected: &[u16]| {
            let mut bytes = Vec::new();
            write_numeric(Numeric::parse(text).unwrap(), &mut bytes);
            let words: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|word| u16::from_be_bytes(*word)).collect();
            assert_eq!(words, expected, "{text}");
        };
        check("0", &[0, 0, 0, 0]);
        check("0.00", &[0, 0, 0, 2]);
        check("1", &[1, 0, 0, 0, 1]);
        check("-12345.678", &[3, 1, NUMERIC_NEGATIVE, 3, 1, 2345, 6780]);
        check("10000", &[1, 1, 0, 0, 1]);
        check("0.00001", &[1, 0xfffe, 0, 5, 1000]);
        check("1.50", &[2, 0, 0, 2, 1, 5000]);
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200_000 {
            let bytes: Vec<u8> = (0..random.usize(..24))
                .map(|_| *random.choice(&[0, 0, 1, 4, 255, random.clone().u8(..)]).unwrap())
                .collect();
            let ty = Type::ALL[random.usize(..Type::ALL.len())];
            let _ = parse_binary(ty, &bytes);
        }
    }
}
