//! Values as clients send and receive them, whose texts are in the client's encoding.

use crate::encoding::Encoding;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn values_have_their_texts_converted_and_nothing_else() {
        let latin = Encoding::named("LATIN1").unwrap();
        let there_and_back = |ty: Type, format: Format, bytes: &[u8], expected: Option<&[u8]>| {
            let encoded = encode_value(latin, ty, format, bytes).unwrap();
            assert_eq!(encoded.as_deref(), expected, "{ty} {bytes:?}");
            if let Some(encoded) = encoded {
                assert_eq!(
                    decode_value(latin, ty, format, &encoded).unwrap().as_deref(),
                    Some(bytes),
                    "{ty} {bytes:?}"
                );
            }
        };
        let text = "\u{e9}".as_bytes();
        for ty in [Type::Text, Type::Varchar, Type::Name, Type::Json, Type::Citext] {
            there_and_back(ty, Format::Binary, text, Some(b"\xe9"));
            there_and_back(ty, Format::Text, text, Some(b"\xe9"));
        }
        there_and_back(Type::Jsonb, Format::Binary, b"\x01\"\xc3\xa9\"", Some(b"\x01\"\xe9\""));
        there_and_back(Type::Int4, Format::Binary, &[0, 0, 0xc3, 0xa9], None);
        there_and_back(Type::Bytea, Format::Binary, text, None);
        there_and_back(Type::Text, Format::Text, b"plain", None);
        let texts = b"\0\0\0\x01\0\0\0\x01\0\0\0\x19\0\0\0\x03\0\0\0\x01\0\0\0\x02\xc3\xa9\xff\xff\xff\xff\0\0\0\x01a";
        let latins = b"\0\0\0\x01\0\0\0\x01\0\0\0\x19\0\0\0\x03\0\0\0\x01\0\0\0\x01\xe9\xff\xff\xff\xff\0\0\0\x01a";
        there_and_back(Type::Text.array_of(), Format::Binary, texts, Some(latins));
        there_and_back(Type::Int4.array_of(), Format::Binary, texts, None);
        // What is no array is left to who reads it.
        for cut in 0..texts.len() {
            let _ = encode_value(latin, Type::Text.array_of(), Format::Binary, &texts[..cut]).unwrap();
        }
    }
}
