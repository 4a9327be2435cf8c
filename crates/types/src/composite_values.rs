//! Values of composite types: read from texts and bytes, converted, and as rows of tables hold them.
//!
//! ```text
//! stored := count: u16 | { number: u16, bytes: u32, value } …      little-endian
//! ```
//! A row holds its fields by their numbers, those that are NULL left out. So a field that was added
//! later is NULL in it, and one that was dropped is passed over. Values are in the form that arrays
//! have them in.
//! ON DISK: none of this may change.

use std::sync::Arc;

use crate::binary_io;
use crate::composites::CompositeType;
use crate::env::Env;
use crate::error::{Error, Result, SqlState, too_short};
use crate::pulse;
use crate::quoted::Reader;
use crate::row::Row;
use crate::text_io;
use crate::types::{Modifier, Type};
use crate::value::Datum;

/// What reading or writing a field takes at the least, in units of work.
const UNITS_PER_FIELD: usize = 8;

/// A row of a type.
fn row_of(of: CompositeType, values: Vec<Datum>) -> Datum {
    Datum::Row(Arc::new(Row::new(Arc::clone(of.row_type()), values)))
}

/// A row of another type as one of this.
///
/// # Errors
/// 42846 if it has another number of fields, or a field cannot be converted; the errors of
/// converting fields.
pub(crate) fn of_row(of: CompositeType, row: &Row, context: crate::cast::CastContext, env: &Env) -> Result<Datum> {
    let wrong = |detail: String| {
        let message = format!("cannot cast type record to {}", of.sql_name());
        Error::new(SqlState::CANNOT_COERCE, message).detail(detail)
    };
    match row.values().len().cmp(&of.fields().len()) {
        std::cmp::Ordering::Less => return Err(wrong("Input has too few columns.".into())),
        std::cmp::Ordering::Greater => return Err(wrong("Input has too many columns.".into())),
        std::cmp::Ordering::Equal => {}
    }
    let mut values = Vec::with_capacity(row.values().len());
    for (at, ((_, from, value), field)) in row.fields().zip(of.fields()).enumerate() {
        pulse::work(UNITS_PER_FIELD)?;
        let to = field.ty;
        if from.ty != to.ty && crate::cast::cast_context(from.ty, to.ty).is_none_or(|weakest| weakest > context) {
            return Err(wrong(format!("Cannot cast type {} to {} in column {}.", from.ty, to.ty, at + 1)));
        }
        let is_as_wanted = from.ty == to.ty && from.modifier == to.modifier;
        values.push(match is_as_wanted {
            true => value.clone(),
            false => crate::cast::cast(value, from.ty, to.ty, to.modifier, context, env)?,
        });
    }
    Ok(row_of(of, values))
}

/// Reads a value from its text, `(1,"a b",)`.
///
/// # Errors
/// 22P02 if the text is of no row of so many fields, and the errors of the fields' types.
pub(crate) fn parse(of: CompositeType, text: &str, env: &Env) -> Result<Datum> {
    text_io::check_text(text)?;
    let wrong =
        |detail: &str| Error::new(SqlState::BAD_TEXT, format!("malformed record literal: \"{text}\"")).detail(detail);
    let mut reader = Reader::new(text);
    reader.skip_blanks();
    if !reader.eat(b'(') {
        return Err(wrong("Missing left parenthesis."));
    }
    let mut values = Vec::with_capacity(of.fields().len());
    for (at, field) in of.fields().iter().enumerate() {
        if at > 0 && !reader.eat(b',') {
            return Err(wrong("Too few columns."));
        }
        let found = reader.item(b",)")?.ok_or_else(|| wrong("Unexpected end of input."))?;
        values.push(match found {
            Some(found) => text_io::parse(field.ty.ty, field.ty.modifier, &found, env)?,
            None => Datum::Null,
        });
    }
    if !reader.eat(b')') {
        return Err(wrong("Too many columns."));
    }
    reader.skip_blanks();
    if reader.peek().is_some() {
        return Err(wrong("Junk after right parenthesis."));
    }
    Ok(row_of(of, values))
}

/// Reads a value from a client.
///
/// # Errors
/// 42804 for fields of other types or another number of them, and those of the fields.
pub(crate) fn parse_binary(of: CompositeType, mut input: &[u8]) -> Result<Datum> {
    let mismatch = |message: String| Error::new(SqlState::TYPE_MISMATCH, message);
    let count = i32::from_be_bytes(*take(&mut input)?);
    if usize::try_from(count).ok() != Some(of.fields().len()) {
        return Err(mismatch(format!("wrong number of columns: {count}, expected {}", of.fields().len())));
    }
    let mut values = Vec::with_capacity(of.fields().len());
    for (at, field) in of.fields().iter().enumerate() {
        pulse::work(UNITS_PER_FIELD)?;
        let found = u32::from_be_bytes(*take(&mut input)?);
        let expected = field.ty.oid();
        if found != expected {
            let name = Type::from_oid(found).map_or("???", Type::sql_name);
            return Err(mismatch(format!(
                "binary data has type {found} ({name}) instead of expected {expected} ({}) in record column {}",
                field.ty.sql_name(),
                at + 1
            )));
        }
        let length = i32::from_be_bytes(*take(&mut input)?);
        if length == -1 {
            values.push(Datum::Null);
            continue;
        }
        let split = usize::try_from(length).ok().and_then(|length| input.split_at_checked(length));
        let (bytes, rest) = split.ok_or_else(too_short)?;
        input = rest;
        let value = binary_io::parse_binary(field.ty.ty, bytes)?;
        values.push(match field.ty.modifier {
            Modifier::NONE => value,
            modifier => {
                crate::cast::apply_modifier(value, field.ty.ty, modifier, crate::cast::CastContext::Assignment)?
            }
        });
    }
    match input {
        [] => Ok(row_of(of, values)),
        _ => Err(Error::new(SqlState::BAD_BINARY, "incorrect binary data format")),
    }
}

fn take<'a, const N: usize>(input: &mut &'a [u8]) -> Result<&'a [u8; N]> {
    let (bytes, rest) = input.split_first_chunk::<N>().ok_or_else(too_short)?;
    *input = rest;
    Ok(bytes)
}

/// Appends a row of the type in the form that rows of tables have.
pub fn write_stored(of: CompositeType, row: &Row, out: &mut Vec<u8>) {
    let count = row.values().iter().filter(|value| !value.is_null()).count() as u16;
    out.extend_from_slice(&count.to_le_bytes());
    for (field, value) in of.fields().iter().zip(row.values()).filter(|(_, value)| !value.is_null()) {
        pulse::note(UNITS_PER_FIELD);
        out.extend_from_slice(&field.number.to_le_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        write_stored_value(field.ty.ty, value, out);
        let bytes = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
    }
}

/// Appends a value within a row or an array, in the form that rows of tables have.
pub(crate) fn write_stored_value(ty: Type, value: &Datum, out: &mut Vec<u8>) {
    match (ty, value) {
        (Type::Enum(_), value) => binary_io::write_binary(Type::Int8, Modifier::NONE, value, out),
        (Type::Composite(of), Datum::Row(row)) => write_stored(of, row, out),
        (_, Datum::Array(array)) => array.write_stored(out),
        (ty, value) => binary_io::write_binary(ty, Modifier::NONE, value, out),
    }
}

#[cold]
fn damaged() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "malformed row value")
}

/// Reads a row from the form that rows of tables have.
///
/// # Errors
/// XX001 if the bytes are of no row, and the errors of reading values from bytes.
pub fn read_stored(of: CompositeType, mut input: &[u8]) -> Result<Datum> {
    let take_u16 = |input: &mut &[u8]| {
        let (bytes, rest) = input.split_first_chunk::<2>().ok_or_else(damaged)?;
        *input = rest;
        Ok::<u16, Error>(u16::from_le_bytes(*bytes))
    };
    let mut values = vec![Datum::Null; of.fields().len()];
    for _ in 0..take_u16(&mut input)? {
        pulse::work(UNITS_PER_FIELD)?;
        let number = take_u16(&mut input)?;
        let (length, rest) = input.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(damaged)?;
        input = rest;
        if let Some(at) = of.fields().iter().position(|field| field.number == number) {
            values[at] = read_stored_value(of.fields()[at].ty.ty, bytes)?;
        }
    }
    if input.is_empty() { Ok(row_of(of, values)) } else { Err(damaged()) }
}

/// Reads a value within a row or an array from the form that rows of tables have.
pub(crate) fn read_stored_value(ty: Type, bytes: &[u8]) -> Result<Datum> {
    match ty {
        Type::Enum(_) => binary_io::parse_binary(Type::Int8, bytes),
        Type::Composite(of) => read_stored(of, bytes),
        Type::Array(element) => {
            let element = element.ty();
            crate::array::Array::read_stored(bytes, Some(element).filter(|ty| ty.is_of_user()))
                .map(|array| Datum::Array(Arc::new(array)))
        }
        ty => binary_io::parse_binary(ty, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composites::{CompositeContent, CompositeField};

    fn field(number: u16, name: &str, ty: Type) -> CompositeField {
        CompositeField { number, name: name.into(), ty: ty.into() }
    }

    fn of(oid: u32, fields: Vec<CompositeField>) -> CompositeType {
        CompositeType::of(CompositeContent { oid, array_oid: oid + 1, name: "Pair".into(), fields })
    }

    #[test]
    fn fields_come_and_go_and_rows_stay() {
        let old = of(95_010, vec![field(1, "a", Type::Int4), field(2, "b", Type::Text)]);
        let value = parse(old, "(7,\"x y\")", &Env::default()).unwrap();
        let Datum::Row(row) = &value else { panic!("a row") };
        let mut bytes = Vec::new();
        write_stored(old, row, &mut bytes);
        let new = of(95_010, vec![field(2, "b", Type::Text), field(3, "c", Type::Bool)]);
        let Datum::Row(row) = read_stored(new, &bytes).unwrap() else { panic!("a row") };
        assert_eq!(row.values(), [Datum::text("x y"), Datum::Null]);
        assert_eq!(read_stored(old, &bytes).unwrap(), value);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
            let _ = read_stored(old, &bytes);
            let _ = parse_binary(old, &bytes);
        }
    }
}
