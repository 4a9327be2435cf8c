//! Byte strings: parts, text encodings, hashes.
//!
//! What goes through a byte string does so a piece at a time, and polls: see [`pieces`].

use md5::{Digest, Md5};

use super::{Function, bytes, check_length, f, int, text};
use crate::encoding::Encoding;
use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::text_io::{check_text, parse_bytea, parse_hex, write_hex};
use crate::types::Type::{Bytea, Int4, Int8, Text};
use crate::value::Datum;

fn boxed(bytes: impl Into<Box<[u8]>>) -> Result<Datum> {
    Ok(Datum::Bytes(bytes.into()))
}

fn hex(bytes: &[u8]) -> Result<Datum> {
    let mut out = String::with_capacity(bytes.len() * 2);
    for piece in pieces::of_bytes(bytes, Pace::Computed) {
        write_hex(piece?, &mut out);
    }
    Ok(Datum::Text(out.into()))
}

/// The bytes of two or three byte strings side by side.
fn joined(parts: &[&[u8]]) -> Result<Datum> {
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        for piece in pieces::of_bytes(part, Pace::Copied) {
            out.extend_from_slice(piece?);
        }
    }
    boxed(out)
}

/// The hash of a byte string.
pub(super) fn hashed<D: Digest>(bytes: &[u8]) -> Result<md5::digest::Output<D>> {
    let mut hash = D::new();
    for piece in pieces::of_bytes(bytes, Pace::Computed) {
        hash.update(piece?);
    }
    Ok(hash.finalize())
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode_base64(bytes: &[u8]) -> Result<String> {
    let mut out = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 57 + 4);
    let mut column = 0;
    for piece in pieces::of_bytes(bytes, Pace::Computed) {
        for chunk in piece?.chunks(3) {
            if column == 76 {
                out.push('\n');
                column = 0;
            }
            let word = chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
            for index in 0..4 {
                if index <= chunk.len() {
                    out.push(char::from(BASE64[(word >> (18 - 6 * index) & 63) as usize]));
                } else {
                    out.push('=');
                }
            }
            column += 4;
        }
    }
    Ok(out)
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut count, mut padding) = (0u32, 0, 0);
    for piece in pieces::of_text(text, Pace::Computed) {
        for c in piece?.chars() {
            if matches!(c, ' ' | '\t' | '\n' | '\r') {
                continue;
            }
            let sextet = if c == '=' {
                if padding == 0 && count < 2 || padding == 2 {
                    return Err(Error::new(SqlState::BAD_PARAMETER, "unexpected \"=\" while decoding base64 sequence"));
                }
                padding += 1;
                0
            } else {
                match BASE64.iter().position(|&byte| char::from(byte) == c) {
                    Some(sextet) if padding == 0 => sextet as u32,
                    _ => {
                        return Err(Error::new(
                            SqlState::BAD_PARAMETER,
                            format!("invalid symbol \"{c}\" found while decoding base64 sequence"),
                        ));
                    }
                }
            };
            (word, count) = (word << 6 | sextet, count + 1);
            if count == 4 {
                let all = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
                out.extend_from_slice(&all[..3 - padding]);
                (word, count) = (0, 0);
                if padding > 0 {
                    // Only blanks may follow; anything else begins a new group, as PostgreSQL has
                    // it.
                    padding = 0;
                }
            }
        }
    }
    if count != 0 {
        return Err(Error::new(SqlState::BAD_PARAMETER, "invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn encode_escape(bytes: &[u8]) -> Result<String> {
    use std::fmt::Write;
    let mut out = String::with_capacity(bytes.len());
    for piece in pieces::of_bytes(bytes, Pace::Computed) {
        for &byte in piece? {
            match byte {
                b'\\' => out.push_str("\\\\"),
                1..=127 => out.push(char::from(byte)),
                _ => {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
        }
    }
    Ok(out)
}

#[cold]
fn unknown_encoding(name: &str) -> Error {
    Error::new(SqlState::BAD_PARAMETER, format!("unrecognized encoding: \"{name}\""))
}

fn encode(bytes: &[u8], form: &str) -> Result<Datum> {
    match form.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes),
        "base64" => Ok(Datum::Text(encode_base64(bytes)?.into())),
        "escape" => Ok(Datum::Text(encode_escape(bytes)?.into())),
        _ => Err(unknown_encoding(form)),
    }
}

fn decode(text: &str, form: &str) -> Result<Datum> {
    match form.to_ascii_lowercase().as_str() {
        "hex" => boxed(parse_hex(text)?),
        "base64" => boxed(decode_base64(text)?),
        "escape" if text.starts_with("\\x") => {
            Err(Error::new(SqlState::BAD_TEXT, "invalid input syntax for type bytea"))
        }
        "escape" => boxed(parse_bytea(text)?),
        _ => Err(unknown_encoding(form)),
    }
}

/// The encoding of a name that a function was given for its source or destination.
fn encoding_named(name: &str, role: &str) -> Result<Encoding> {
    let unknown = || Error::new(SqlState::BAD_PARAMETER, format!("invalid {role} encoding name \"{name}\""));
    let encoding = Encoding::named(name).ok_or_else(unknown)?;
    encoding.expect_converted()?;
    Ok(encoding)
}

/// `convert_from`: the text that bytes are.
fn convert_from(bytes: &[u8], encoding: Encoding) -> Result<Datum> {
    let text = encoding.decode(bytes)?;
    check_text(&text)?;
    crate::copies::copy(&text)
}

/// `convert`: from one encoding to another.
fn convert(bytes: &[u8], from: Encoding, to: Encoding) -> Result<Datum> {
    if from == Encoding::SQL_ASCII || to == Encoding::SQL_ASCII {
        return joined(&[bytes]);
    }
    joined(&[&*to.encode(&from.decode(bytes)?)?])
}

/// Bytes with a part replaced: `length` of them from the place `start`, counted from 1.
fn overlay(whole: &[u8], new: &[u8], start: i64, length: i64) -> Result<Datum> {
    if start <= 0 {
        return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let after = start.checked_add(length).ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "integer out of range"))?;
    let place = |number: i64| usize::try_from(number - 1).unwrap_or(0).min(whole.len());
    joined(&[&whole[..place(start)], new, &whole[place(after)..]])
}

/// The bytes from `start` (counted from 1), `count` of them if that is given.
fn substring(bytes: &[u8], start: i64, count: Option<i64>) -> Result<Datum> {
    let end = match count {
        Some(..0) => return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")),
        Some(count) => start.saturating_add(count),
        None => i64::MAX,
    };
    let length = bytes.len() as i64;
    let from = (start - 1).clamp(0, length);
    let to = end.saturating_sub(1).clamp(from, length);
    joined(&[&bytes[from as usize..to as usize]])
}

fn byte_index(bytes: &[u8], index: i64) -> Result<usize> {
    usize::try_from(index).ok().filter(|&at| at < bytes.len()).ok_or_else(|| {
        Error::new(SqlState("2202E"), format!("index {index} out of valid range, 0..{}", bytes.len() as i64 - 1))
    })
}

fn bit_index(bytes: &[u8], index: i64) -> Result<(usize, u32)> {
    match usize::try_from(index / 8).ok().filter(|&at| index >= 0 && at < bytes.len()) {
        Some(at) => Ok((at, (index % 8) as u32)),
        None => Err(Error::new(
            SqlState("2202E"),
            format!("index {index} out of valid range, 0..{}", bytes.len() as i64 * 8 - 1),
        )),
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Result<Datum> {
    Ok(Datum::Int(pieces::find(bytes, part, 0)?.map_or(0, |at| at as i64 + 1)))
}

fn trim(bytes: &[u8], set: &[u8], left: bool, right: bool) -> Result<Datum> {
    let mut is_in_set = [false; 256];
    set.iter().for_each(|&byte| is_in_set[usize::from(byte)] = true);
    pieces::pass(bytes.len() + set.len(), Pace::Copied)?;
    let is_kept = |&byte: &u8| !is_in_set[usize::from(byte)];
    let from = if left { bytes.iter().position(is_kept).unwrap_or(bytes.len()) } else { 0 };
    let rest = &bytes[from..];
    let to = if right { rest.iter().rposition(is_kept).map_or(0, |at| at + 1) } else { rest.len() };
    joined(&[&rest[..to]])
}

pub(super) const TABLE: &[Function] = &[
    f("||", &[Bytea, Bytea], Bytea, |a, _| {
        check_length(bytes(a[0])?.len() + bytes(a[1])?.len())?;
        joined(&[bytes(a[0])?, bytes(a[1])?])
    }),
    f("length", &[Bytea], Int4, |a, _| Ok(Datum::Int(bytes(a[0])?.len() as i64))),
    f("octet_length", &[Bytea], Int4, |a, _| Ok(Datum::Int(bytes(a[0])?.len() as i64))),
    f("bit_length", &[Bytea], Int4, |a, _| Ok(Datum::Int(bytes(a[0])?.len() as i64 * 8))),
    f("bit_count", &[Bytea], Int8, |a, _| {
        let count = |piece: Result<&[u8]>| {
            piece.map(|piece| piece.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>())
        };
        pieces::of_bytes(bytes(a[0])?, Pace::Read).map(count).sum::<Result<i64>>().map(Datum::Int)
    }),
    f("substring", &[Bytea, Int4], Bytea, |a, _| substring(bytes(a[0])?, int(a[1])?, None)),
    f("substring", &[Bytea, Int4, Int4], Bytea, |a, _| substring(bytes(a[0])?, int(a[1])?, Some(int(a[2])?))),
    f("substr", &[Bytea, Int4], Bytea, |a, _| substring(bytes(a[0])?, int(a[1])?, None)),
    f("substr", &[Bytea, Int4, Int4], Bytea, |a, _| substring(bytes(a[0])?, int(a[1])?, Some(int(a[2])?))),
    f("overlay", &[Bytea, Bytea, Int4], Bytea, |a, _| {
        overlay(bytes(a[0])?, bytes(a[1])?, int(a[2])?, bytes(a[1])?.len() as i64)
    }),
    f("overlay", &[Bytea, Bytea, Int4, Int4], Bytea, |a, _| {
        overlay(bytes(a[0])?, bytes(a[1])?, int(a[2])?, int(a[3])?)
    }),
    f("strpos", &[Bytea, Bytea], Int4, |a, _| find(bytes(a[0])?, bytes(a[1])?)),
    f("position", &[Bytea, Bytea], Int4, |a, _| find(bytes(a[0])?, bytes(a[1])?)),
    f("btrim", &[Bytea, Bytea], Bytea, |a, _| trim(bytes(a[0])?, bytes(a[1])?, true, true)),
    f("ltrim", &[Bytea, Bytea], Bytea, |a, _| trim(bytes(a[0])?, bytes(a[1])?, true, false)),
    f("rtrim", &[Bytea, Bytea], Bytea, |a, _| trim(bytes(a[0])?, bytes(a[1])?, false, true)),
    f("get_byte", &[Bytea, Int4], Int4, |a, _| {
        let all = bytes(a[0])?;
        Ok(Datum::Int(i64::from(all[byte_index(all, int(a[1])?)?])))
    }),
    f("set_byte", &[Bytea, Int4, Int4], Bytea, |a, _| {
        let mut all = bytes(a[0])?.to_vec();
        let at = byte_index(&all, int(a[1])?)?;
        all[at] = int(a[2])? as u8;
        boxed(all)
    }),
    f("get_bit", &[Bytea, Int8], Int4, |a, _| {
        let all = bytes(a[0])?;
        let (at, bit) = bit_index(all, int(a[1])?)?;
        Ok(Datum::Int(i64::from(all[at] >> bit & 1)))
    }),
    f("set_bit", &[Bytea, Int8, Int4], Bytea, |a, _| {
        let mut all = bytes(a[0])?.to_vec();
        let (at, bit) = bit_index(&all, int(a[1])?)?;
        match int(a[2])? {
            0 => all[at] &= !(1 << bit),
            1 => all[at] |= 1 << bit,
            _ => return Err(Error::new(SqlState::BAD_PARAMETER, "new bit must be 0 or 1")),
        }
        boxed(all)
    }),
    f("encode", &[Bytea, Text], Text, |a, _| encode(bytes(a[0])?, text(a[1])?)),
    f("decode", &[Text, Text], Bytea, |a, _| decode(text(a[0])?, text(a[1])?)),
    f("convert_from", &[Bytea, Text], Text, |a, _| convert_from(bytes(a[0])?, encoding_named(text(a[1])?, "source")?)),
    f("convert_to", &[Text, Text], Bytea, |a, _| {
        joined(&[&*encoding_named(text(a[1])?, "destination")?.encode(text(a[0])?)?])
    }),
    f("convert", &[Bytea, Text, Text], Bytea, |a, _| {
        let (from, to) = (encoding_named(text(a[1])?, "source")?, encoding_named(text(a[2])?, "destination")?);
        convert(bytes(a[0])?, from, to)
    }),
    f("md5", &[Text], Text, |a, _| hex(hashed::<Md5>(text(a[0])?.as_bytes())?.as_slice())),
    f("md5", &[Bytea], Text, |a, _| hex(hashed::<Md5>(bytes(a[0])?)?.as_slice())),
    f("sha224", &[Bytea], Bytea, |a, _| boxed(hashed::<sha2::Sha224>(bytes(a[0])?)?.as_slice())),
    f("sha256", &[Bytea], Bytea, |a, _| boxed(hashed::<sha2::Sha256>(bytes(a[0])?)?.as_slice())),
    f("sha384", &[Bytea], Bytea, |a, _| boxed(hashed::<sha2::Sha384>(bytes(a[0])?)?.as_slice())),
    f("sha512", &[Bytea], Bytea, |a, _| boxed(hashed::<sha2::Sha512>(bytes(a[0])?)?.as_slice())),
];
