//! Values as clients send and receive them, whose texts are in the client's encoding.

use super::Encoding;
use crate::error::{Error, Result};
use crate::types::Type;
use crate::wire::Format;

/// Where texts are in the binary form of a type.
enum Texts {
    /// It has none, or none that is converted.
    Nowhere,
    /// All of it is one, behind this many bytes.
    From(usize),
    /// It is an array, whose elements have the form of this type.
    Elements(Type),
}

fn texts_in(ty: Type) -> Texts {
    if ty.is_enum() {
        return Texts::From(0);
    }
    if let Some(element) = ty.element() {
        return match texts_in(element) {
            Texts::Nowhere => Texts::Nowhere,
            _ => Texts::Elements(element),
        };
    }
    match ty {
        Type::JsonPath | Type::Ltree | Type::Lquery | Type::Ltxtquery | Type::Jsonb => Texts::From(1),
        Type::PgSnapshot | Type::TxidSnapshot => Texts::Nowhere,
        Type::Citext => Texts::From(0),
        ty if matches!(ty.base(), Type::Unknown | Type::Text | Type::Varchar | Type::Char | Type::Name) => {
            Texts::From(0)
        }
        _ => Texts::Nowhere,
    }
}

/// The value with its texts as `convert` gives them; `None` if they are the same. Values in text
/// form are texts.
fn converted(
    ty: Type,
    format: Format,
    bytes: &[u8],
    convert: &impl Fn(&[u8]) -> Result<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    if bytes.is_ascii() && format == Format::Text {
        return Ok(None);
    }
    let texts = match format {
        Format::Text => Texts::From(0),
        Format::Binary => texts_in(ty),
    };
    match texts {
        Texts::Nowhere => Ok(None),
        Texts::From(start) => match bytes.split_at_checked(start) {
            Some((head, text)) if !text.is_ascii() => Ok(Some([head, &convert(text)?].concat())),
            _ => Ok(None),
        },
        Texts::Elements(element) => Ok(array(element, bytes, convert)?),
    }
}

/// An array in binary form: dimensions, whether there are NULLs, the type of elements; a length and
/// a lower bound a dimension; a length and its bytes an element. What is not of this form is left as
/// it is, for the one who reads it to refuse.
fn array(element: Type, bytes: &[u8], convert: &impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    let number = |at: usize| Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let Some(dimensions) = number(0).and_then(|count| usize::try_from(count).ok()) else { return Ok(None) };
    let Some(start) = dimensions.checked_mul(8).map(|of_dimensions| of_dimensions + 12) else { return Ok(None) };
    let Some(head) = bytes.get(..start) else { return Ok(None) };
    let mut out = head.to_vec();
    let mut at = start;
    while at < bytes.len() {
        let Some(length) = number(at) else { return Ok(None) };
        let length_bytes = &bytes[at..at + 4];
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            // NULL.
            out.extend_from_slice(length_bytes);
            continue;
        };
        let Some(value) = at.checked_add(length).and_then(|end| bytes.get(at..end)) else { return Ok(None) };
        at += length;
        let new = converted(element, Format::Binary, value, convert)?;
        let value = new.as_deref().unwrap_or(value);
        let length = i32::try_from(value.len()).map_err(Error::internal)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(value);
    }
    Ok(Some(out))
}

/// A value of a client as it is with its texts in UTF-8; `None` if it is the same.
///
/// # Errors
/// As [`Encoding::decode`].
pub fn decode_value(encoding: Encoding, ty: Type, format: Format, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    converted(ty, format, bytes, &|text| Ok(encoding.decode(text)?.into_owned().into_bytes()))
}

/// A value for a client, with its texts in its encoding; `None` if it is the same. Texts in composite
/// values, ranges, `hstore` and `tsvector` in binary form stay UTF-8.
///
/// # Errors
/// As [`Encoding::encode`].
pub fn encode_value(encoding: Encoding, ty: Type, format: Format, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    converted(ty, format, bytes, &|text| match std::str::from_utf8(text) {
        Ok(text) => Ok(encoding.encode(text)?.into_owned()),
        Err(_) => Ok(text.to_vec()),
    })
}
