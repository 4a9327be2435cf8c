//! Values in PostgreSQL's binary format: what its functions `typsend` and `typreceive` write and
//! read.
//!
//! Everything is big-endian. Dates and timestamps count from 2000-01-01, as here. A numeric is a
//! list of digits in base 10,000 with a weight; an interval is microseconds, days, months.

use compact_str::CompactString;

use crate::cast;
use crate::datetime;
pub use crate::error::too_short;
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval};
use crate::network;
use crate::numeric::Wire;
use crate::text_io::check_text;
use crate::text_search;
use crate::types::{Category, Modifier, Type};
use crate::value::Datum;

#[cold]
fn bad_length() -> Error {
    Error::new(SqlState::BAD_BINARY, "incorrect binary data format")
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
    if let Type::Composite(of) = ty {
        return crate::composite_values::parse_binary(of, bytes);
    }
    Ok(match ty.base() {
        Type::Bool => Datum::Bool(exactly::<1>(bytes)?[0] != 0),
        Type::Int2 => Datum::Int(i64::from(i16::from_be_bytes(exactly(bytes)?))),
        Type::Int4 => Datum::Int(i64::from(i32::from_be_bytes(exactly(bytes)?))),
        Type::Oid => Datum::Int(i64::from(u32::from_be_bytes(exactly(bytes)?))),
        Type::Int8 if matches!(ty, Type::Xid8 | Type::PgLsn | Type::Tid) => {
            let short = bytes.len() < if ty == Type::Tid { 6 } else { 8 };
            let value = crate::positions::parse_binary(ty, bytes);
            Datum::Int(value.ok_or_else(|| if short { too_short() } else { bad_length() })?)
        }
        Type::Int8 => Datum::Int(i64::from_be_bytes(exactly(bytes)?)),
        Type::Float4 => Datum::Float(f64::from(f32::from_be_bytes(exactly(bytes)?))),
        Type::Float8 => Datum::Float(f64::from_be_bytes(exactly(bytes)?)),
        Type::Numeric => Datum::Numeric(Wire::parse(bytes)?),
        Type::Text if matches!(ty, Type::PgSnapshot | Type::TxidSnapshot) => {
            Datum::text(&crate::snapshots::Snapshot::receive(ty, bytes)?.to_string())
        }
        Type::Unknown | Type::Text | Type::Varchar | Type::Char | Type::Name => {
            let is_versioned = matches!(ty, Type::JsonPath | Type::Ltree | Type::Lquery | Type::Ltxtquery);
            let text = if is_versioned { versioned(ty, bytes)? } else { utf8(bytes)? };
            check_text(text)?;
            match ty {
                Type::Char => Datum::text(text.trim_end_matches(' ')),
                Type::Name => Datum::Text(CompactString::new(cast::cut_name(text))),
                Type::Json => {
                    crate::json_text::validate(text)?;
                    Datum::text(text)
                }
                Type::JsonPath => Datum::Text(crate::jsonpath::canonical(text)?.into()),
                Type::Xml => Datum::Text(crate::xml::parse(text, crate::xml::Kind::Content)?.into()),
                Type::Ltree | Type::Lquery | Type::Ltxtquery => crate::ltree::read(ty, text)?,
                Type::IntQuery => Datum::text(&crate::int_query::IntQuery::parse(text)?.shown()),
                _ => Datum::text(text),
            }
        }
        Type::Bytea if ty.category() == Category::BitString => crate::bits::parse_binary(bytes)?,
        Type::Citext => {
            let text = utf8(bytes)?;
            check_text(text)?;
            Datum::Citext(text.into())
        }
        Type::Bytea => Datum::Bytes(match ty {
            Type::Hstore => crate::hstore::receive(bytes)?,
            Type::Vector => crate::vector::receive(bytes)?,
            Type::TsVector => text_search::receive_vector(bytes)?,
            Type::Inet | Type::Cidr => network::Address::parse_binary(ty, bytes)?.to_bytes(),
            Type::MacAddr => exactly::<6>(bytes)?.into(),
            // One of six bytes becomes one of eight.
            Type::MacAddr8 if bytes.len() == 6 => network::Mac(exactly(bytes)?).widened().0.into(),
            Type::MacAddr8 => exactly::<8>(bytes)?.into(),
            ty if ty.is_geometric() => crate::geometry::receive(ty, bytes)?.into(),
            _ => bytes.into(),
        }),
        Type::TsQuery => Datum::Query(text_search::receive_query(bytes)?),
        ty if ty.bounds().is_some() => return crate::ranges::parse_binary(ty, bytes),
        Type::Date => match i32::from_be_bytes(exactly(bytes)?) {
            infinity @ (i32::MIN | i32::MAX) => Datum::Date(infinity),
            date => Datum::Date(datetime::checked_date(i64::from(date))?),
        },
        Type::Time => match i64::from_be_bytes(exactly(bytes)?) {
            time @ 0..=DAY_US => Datum::Time(time),
            _ => return Err(Error::new(SqlState::DATETIME_OVERFLOW, "time out of range")),
        },
        Type::TimeTz => {
            let all: [u8; 12] = exactly(bytes)?;
            let (micros, west) = all.split_at(8);
            let (micros, west_s) = (i64::from_be_bytes(exactly(micros)?), i32::from_be_bytes(exactly(west)?));
            Datum::TimeTz(datetime::TimeTz::checked(micros, west_s)?)
        }
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
            Type::Int8 if matches!(ty, Type::Xid8 | Type::PgLsn | Type::Tid) => {
                crate::positions::write_binary(ty, *value, out);
            }
            Type::Int2 => out.extend_from_slice(&(*value as i16).to_be_bytes()),
            Type::Int4 | Type::Oid => out.extend_from_slice(&(*value as i32).to_be_bytes()),
            _ => out.extend_from_slice(&value.to_be_bytes()),
        },
        Datum::Float(value) if ty == Type::Float4 => out.extend_from_slice(&(*value as f32).to_be_bytes()),
        Datum::Float(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => Wire::write(value, out),
        Datum::Text(text) if matches!(ty, Type::PgSnapshot | Type::TxidSnapshot) => {
            // A value has the form that was read.
            if let Ok(snapshot) = crate::snapshots::Snapshot::parse(ty, text) {
                snapshot.send(out);
            }
        }
        Datum::Text(text) => {
            if matches!(ty, Type::JsonPath | Type::Ltree | Type::Lquery | Type::Ltxtquery) {
                out.push(VERSION);
            }
            out.extend_from_slice(text.as_bytes());
            if let (Type::Char, Some(chars_max)) = (ty, modifier.chars_max()) {
                let missing = chars_max.saturating_sub(text.chars().count());
                out.resize(out.len() + missing, b' ');
            }
        }
        Datum::Citext(text) => out.extend_from_slice(text.as_bytes()),
        Datum::Bytes(bytes) => match ty {
            Type::Hstore => crate::hstore::Hstore::new(bytes).write_binary(out),
            Type::Vector => crate::vector::Vector::new(bytes).write_binary(out),
            Type::TsVector => text_search::Vector::new(bytes).write_binary(out),
            Type::Inet | Type::Cidr => network::Address::from_bytes(bytes).write_binary(ty == Type::Cidr, out),
            Type::Bit | Type::VarBit => crate::bits::write_binary(crate::bits::Bits::new(bytes), out),
            _ => out.extend_from_slice(bytes),
        },
        Datum::Query(bytes) => text_search::Query::from_bytes(bytes).write_binary(out),
        Datum::Range(bytes) => crate::ranges::write_binary(ty, bytes, out),
        Datum::Date(date) => out.extend_from_slice(&date.to_be_bytes()),
        Datum::Time(us) | Datum::Timestamp(us) => out.extend_from_slice(&us.to_be_bytes()),
        Datum::TimeTz(time) => {
            out.extend_from_slice(&time.micros.to_be_bytes());
            out.extend_from_slice(&time.west_s.to_be_bytes());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::Numeric;
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
            Wire::write(&Numeric::parse(text).unwrap(), &mut bytes);
            let words: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|word| u16::from_be_bytes(*word)).collect();
            assert_eq!(words, expected, "{text}");
        };
        check("0", &[0, 0, 0, 0]);
        check("0.00", &[0, 0, 0, 2]);
        check("1", &[1, 0, 0, 0, 1]);
        check("-12345.678", &[3, 1, 0x4000, 3, 1, 2345, 6780]);
        check("10000", &[1, 1, 0, 0, 1]);
        check("0.00001", &[1, 0xfffe, 0, 5, 1000]);
        check("1.50", &[2, 0, 0, 2, 1, 5000]);
        check("1e40", &[1, 10, 0, 0, 1]);
        check("1e-110", &[1, 0xffe4, 0, 110, 100]);
        check(
            "-123456789012345678901234567890123456789.5",
            &[11, 9, 0x4000, 1, 123, 4567, 8901, 2345, 6789, 123, 4567, 8901, 2345, 6789, 5000],
        );
        check("NaN", &[0, 0, 0xc000, 0]);
        check("Infinity", &[0, 0, 0xd000, 32]);
        check("-Infinity", &[0, 0, 0xf000, 32]);
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
