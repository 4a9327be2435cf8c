//! Values as bytes that say themselves what they are: rows of operators have no types. Temporary
//! files and other processes of the same version get them.
//!
//! A byte for the kind, then as many bytes as the kind has: fixed ones little-endian, texts and
//! byte strings behind their length (seven bits a byte, the lowest first), an array's values one by
//! one.
//!
//! Invariants: what is read is the same in value and form as what was written. Bytes that nobody
//! has written are an error.

use std::sync::Arc;

use colibri_types::{
    Array, ColumnType, Datum, Dimension, Error, Interval, Modifier, Numeric, Result, Row, RowType, SqlState, Type,
    datetime::TimeTz, pulse,
};
use compact_str::CompactString;

// Not on disk for longer than a statement: these may be numbered anew.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT_1: u8 = 3;
const INT_4: u8 = 4;
const INT_8: u8 = 5;
const FLOAT: u8 = 6;
const NUMERIC_8: u8 = 7;
const NUMERIC_16: u8 = 8;
const TEXT: u8 = 9;
const BYTES: u8 = 10;
const DATE: u8 = 11;
const TIME: u8 = 12;
const TIMESTAMP: u8 = 13;
const INTERVAL: u8 = 14;
const UUID: u8 = 15;
const ARRAY: u8 = 16;
const ROW: u8 = 17;
const JSONB: u8 = 18;
const NUMERIC_LARGE: u8 = 19;
const TIME_TZ: u8 = 20;
const QUERY: u8 = 21;
const RANGE: u8 = 22;
const CITEXT: u8 = 23;

/// Bytes that are copied in a unit of work.
const COPIED_PER_UNIT: usize = 64;

#[cold]
fn damaged() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "the bytes of a value are damaged")
}

fn put_length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Appends a value.
pub fn write(value: &Datum, out: &mut Vec<u8>) {
    let mut put = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend_from_slice(bytes);
    };
    match value {
        Datum::Null => put(NULL, &[]),
        Datum::Bool(value) => put(if *value { TRUE } else { FALSE }, &[]),
        Datum::Int(value) => {
            if let Ok(value) = i8::try_from(*value) {
                put(INT_1, &value.to_le_bytes());
            } else if let Ok(value) = i32::try_from(*value) {
                put(INT_4, &value.to_le_bytes());
            } else {
                put(INT_8, &value.to_le_bytes());
            }
        }
        Datum::Float(value) => put(FLOAT, &value.to_bits().to_le_bytes()),
        Datum::Numeric(value) => {
            let Some((mantissa, scale)) = value.small() else {
                let mut bytes = Vec::new();
                value.write_large(&mut bytes);
                put_bytes(NUMERIC_LARGE, &bytes, out);
                return;
            };
            match i64::try_from(mantissa) {
                Ok(mantissa) => put(NUMERIC_8, &mantissa.to_le_bytes()),
                Err(_) => put(NUMERIC_16, &mantissa.to_le_bytes()),
            }
            out.push(scale);
        }
        Datum::Text(value) => put_bytes(TEXT, value.as_bytes(), out),
        Datum::Bytes(value) => put_bytes(BYTES, value, out),
        Datum::Date(value) => put(DATE, &value.to_le_bytes()),
        Datum::Time(value) => put(TIME, &value.to_le_bytes()),
        Datum::TimeTz(value) => {
            put(TIME_TZ, &value.micros.to_le_bytes());
            out.extend_from_slice(&value.west_s.to_le_bytes());
        }
        Datum::Timestamp(value) => put(TIMESTAMP, &value.to_le_bytes()),
        Datum::Interval(value) => {
            put(INTERVAL, &value.months.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.micros.to_le_bytes());
        }
        Datum::Uuid(value) => put(UUID, value),
        Datum::Array(value) => write_array(value, out),
        Datum::Row(value) => write_row(value, out),
        Datum::Jsonb(value) => put_bytes(JSONB, value, out),
        Datum::Query(value) => put_bytes(QUERY, value, out),
        Datum::Range(value) => put_bytes(RANGE, value, out),
        Datum::Citext(value) => put_bytes(CITEXT, value.as_bytes(), out),
    }
}

fn put_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    put_length(bytes.len(), out);
    out.extend_from_slice(bytes);
    pulse::note(bytes.len() / COPIED_PER_UNIT);
}

fn write_array(array: &Array, out: &mut Vec<u8>) {
    out.push(ARRAY);
    out.extend_from_slice(&array.element().code().to_le_bytes());
    put_length(array.dimensions().len(), out);
    for dimension in array.dimensions() {
        put_length(dimension.length, out);
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    for value in array.values() {
        write(value, out);
        pulse::note(1);
    }
}

fn write_row(row: &Row, out: &mut Vec<u8>) {
    out.push(ROW);
    out.extend_from_slice(&row.ty().oid.to_le_bytes());
    let put_text = |text: &str, out: &mut Vec<u8>| {
        put_length(text.len(), out);
        out.extend_from_slice(text.as_bytes());
    };
    put_text(&row.ty().name, out);
    put_length(row.values().len(), out);
    for (name, ty, value) in row.fields() {
        put_text(name, out);
        out.extend_from_slice(&ty.ty.code().to_le_bytes());
        out.extend_from_slice(&ty.modifier.0.to_le_bytes());
        write(value, out);
        pulse::note(1);
    }
}

/// What is left of the bytes of values.
pub struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn length(&mut self) -> Result<usize> {
        let mut length = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let [byte] = self.take()?;
            length |= usize::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(length);
            }
        }
        Err(damaged())
    }

    fn slice(&mut self) -> Result<&'b [u8]> {
        let length = self.length()?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        pulse::note(length / COPIED_PER_UNIT);
        Ok(taken)
    }

    /// The next value.
    ///
    /// # Errors
    /// XX001 if these are not bytes that [`write()`] has written.
    #[inline]
    pub fn read(&mut self) -> Result<Datum> {
        let [kind] = self.take()?;
        Ok(match kind {
            NULL => Datum::Null,
            FALSE => Datum::Bool(false),
            TRUE => Datum::Bool(true),
            INT_1 => Datum::Int(i64::from(i8::from_le_bytes(self.take()?))),
            INT_4 => Datum::Int(i64::from(i32::from_le_bytes(self.take()?))),
            INT_8 => Datum::Int(i64::from_le_bytes(self.take()?)),
            FLOAT => Datum::Float(f64::from_bits(u64::from_le_bytes(self.take()?))),
            NUMERIC_8 => {
                let mantissa = i64::from_le_bytes(self.take()?);
                self.numeric(mantissa.into())?
            }
            NUMERIC_16 => {
                let mantissa = i128::from_le_bytes(self.take()?);
                self.numeric(mantissa)?
            }
            NUMERIC_LARGE => Datum::Numeric(Numeric::read_large(self.slice()?).ok_or_else(damaged)?),
            TEXT => Datum::Text(CompactString::from_utf8(self.slice()?).map_err(|_| damaged())?),
            BYTES => Datum::Bytes(self.slice()?.into()),
            DATE => Datum::Date(i32::from_le_bytes(self.take()?)),
            TIME => Datum::Time(i64::from_le_bytes(self.take()?)),
            TIME_TZ => Datum::TimeTz(TimeTz {
                micros: i64::from_le_bytes(self.take()?),
                west_s: i32::from_le_bytes(self.take()?),
            }),
            TIMESTAMP => Datum::Timestamp(i64::from_le_bytes(self.take()?)),
            INTERVAL => Datum::Interval(Interval {
                months: i32::from_le_bytes(self.take()?),
                days: i32::from_le_bytes(self.take()?),
                micros: i64::from_le_bytes(self.take()?),
            }),
            UUID => Datum::Uuid(self.take()?),
            ARRAY => self.array()?,
            ROW => self.row()?,
            JSONB => Datum::Jsonb(self.slice()?.into()),
            QUERY => Datum::Query(self.slice()?.into()),
            RANGE => Datum::Range(self.slice()?.into()),
            CITEXT => Datum::Citext(CompactString::from_utf8(self.slice()?).map_err(|_| damaged())?),
            _ => return Err(damaged()),
        })
    }

    fn numeric(&mut self, mantissa: i128) -> Result<Datum> {
        let [scale] = self.take()?;
        Ok(Datum::Numeric(Numeric::checked(mantissa, scale.into()).map_err(|_| damaged())?))
    }

    fn text(&mut self) -> Result<CompactString> {
        CompactString::from_utf8(self.slice()?).map_err(|_| damaged())
    }

    fn row(&mut self) -> Result<Datum> {
        let (oid, name) = (u32::from_le_bytes(self.take()?), self.text()?);
        let count = self.length()?;
        // A value takes a byte at the least.
        if count > self.0.len() {
            return Err(damaged());
        }
        let (mut fields, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            let name = self.text()?;
            let ty = Type::from_code(u32::from_le_bytes(self.take()?)).ok_or_else(damaged)?;
            let modifier = Modifier(i32::from_le_bytes(self.take()?));
            fields.push((name, ColumnType::new(ty, modifier)));
            values.push(self.read()?);
            pulse::note(1);
        }
        Ok(Datum::Row(Arc::new(Row::new(Arc::new(RowType { oid, name, fields }), values))))
    }

    fn array(&mut self) -> Result<Datum> {
        let element = Type::from_code(u32::from_le_bytes(self.take()?)).ok_or_else(damaged)?;
        let mut dimensions = Vec::new();
        let mut count = 1usize;
        for _ in 0..self.length()? {
            let (length, lower) = (self.length()?, i32::from_le_bytes(self.take()?));
            count = count.checked_mul(length).ok_or_else(damaged)?;
            dimensions.push(Dimension { length, lower });
        }
        let count = if dimensions.is_empty() { 0 } else { count };
        // A value takes a byte at the least.
        if count > self.0.len() {
            return Err(damaged());
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(self.read()?);
            pulse::note(1);
        }
        let array = Array::of_parts(element, &dimensions, values).ok_or_else(damaged)?;
        Ok(Datum::Array(Arc::new(array)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colibri_types::value::random::{random_datum, same};

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is_taken_for_it() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in Type::ALL.into_iter().filter(|ty| *ty != Type::Void) {
            for _ in 0..200 {
                let value = if random.u8(..10) == 0 { Datum::Null } else { random_datum(ty, &mut random) };
                let mut bytes = Vec::new();
                write(&value, &mut bytes);
                let mut left = Bytes(&bytes);
                let back = left.read().unwrap();
                assert!(same(&back, &value) && left.0.is_empty(), "{ty}: {value:?} {back:?}");
                for end in 0..bytes.len() {
                    let cut = Bytes(&bytes[..end]).read();
                    assert!(cut.is_err_and(|error| error.state() == SqlState::DATA_CORRUPTED), "{value:?} to {end}");
                }
                // Other bytes are another value or an error.
                let at = random.usize(..bytes.len());
                bytes[at] ^= 1 << random.u8(..8);
                let _ = Bytes(&bytes).read();
            }
        }
    }
}
