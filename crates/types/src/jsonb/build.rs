//! Making `jsonb`: a tree of new values and of parts of old ones, which are copied as they are.

use std::borrow::Cow;
use std::sync::Arc;

use super::{ARRAY, DEPTH_MAX, FALSE, JsonbRef, NULL, NUMBER, OBJECT, STRING, TRUE, WIDTH_SHIFT, compare_keys};
use crate::error::{Error, Result, SqlState};
use crate::numeric::{LARGE_SCALE, Numeric};
use crate::pulse;

/// Bytes that the parts of an array or an object have together, at most.
const BYTES_MAX: usize = (1 << 28) - 1;
/// Bytes that are copied in a unit of work.
const BYTES_PER_UNIT: usize = 64;

/// A value of JSON that is being made.
#[derive(Debug, Clone)]
pub enum Item<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Item<'a>>),
    /// An object: of members with the same key the last one stays.
    Object(Vec<(Cow<'a, str>, Item<'a>)>),
    /// What is there already.
    Part(JsonbRef<'a>),
}

/// More arrays and objects inside each other than there may be.
#[cold]
#[must_use]
pub fn too_deep() -> Error {
    Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("JSON may have {DEPTH_MAX} arrays and objects inside each other at most."))
}

#[cold]
fn too_large(what: &str) -> Error {
    let message = format!("total size of jsonb {what} exceeds the maximum of {BYTES_MAX} bytes");
    Error::new(SqlState::PROGRAM_LIMIT, message)
}

impl Item<'_> {
    /// Its bytes.
    ///
    /// # Errors
    /// 54000 if it is too large, 54001 if it is too deep.
    pub fn bytes(self) -> Result<Arc<[u8]>> {
        let mut out = Vec::new();
        self.encode(&mut out)?;
        Ok(Arc::from(out))
    }

    /// Appends its bytes; gives how deep it is.
    pub(super) fn encode(self, out: &mut Vec<u8>) -> Result<usize> {
        pulse::work(4)?;
        match self {
            Self::Null => out.push(NULL),
            Self::Bool(value) => out.push(if value { TRUE } else { FALSE }),
            Self::Number(value) => {
                let Some((mantissa, scale)) = value.small() else {
                    out.extend_from_slice(&[NUMBER, LARGE_SCALE]);
                    value.write_large(out);
                    return Ok(0);
                };
                out.extend_from_slice(&[NUMBER, scale]);
                let bytes = mantissa.to_le_bytes();
                let sign = if mantissa < 0 { u8::MAX } else { 0 };
                // As many as tell the sign, too.
                let mut count = 16;
                while count > 1 && bytes[count - 1] == sign && (bytes[count - 2] ^ sign) < 0x80 {
                    count -= 1;
                }
                out.extend_from_slice(&bytes[..count]);
            }
            Self::String(text) => {
                out.push(STRING);
                copy(text.as_bytes(), out)?;
            }
            Self::Part(part) => {
                copy(part.bytes(), out)?;
                return Ok(part.depth());
            }
            Self::Array(items) => {
                let (mut data, mut ends, mut depth) = (Vec::new(), Vec::with_capacity(items.len()), 0);
                for item in items {
                    depth = depth.max(item.encode(&mut data)?);
                    ends.push(data.len());
                    expect_fits(data.len(), "array elements")?;
                }
                return put_table(ARRAY, ends.len(), &ends, depth, &[&data], out);
            }
            Self::Object(mut members) => {
                members.sort_by(|(a, _), (b, _)| {
                    pulse::note(1);
                    compare_keys(a.as_bytes(), b.as_bytes())
                });
                let (mut keys, mut data) = (Vec::new(), Vec::new());
                let (mut ends, mut value_ends) = (Vec::with_capacity(2 * members.len()), Vec::new());
                let mut depth = 0;
                let mut members = members.into_iter().peekable();
                while let Some((key, value)) = members.next() {
                    if members.peek().is_some_and(|(next, _)| *next == key) {
                        continue;
                    }
                    copy(key.as_bytes(), &mut keys)?;
                    ends.push(keys.len());
                    depth = depth.max(value.encode(&mut data)?);
                    value_ends.push(data.len());
                    expect_fits(keys.len() + data.len(), "object elements")?;
                }
                let count = ends.len();
                ends.append(&mut value_ends);
                return put_table(OBJECT, count, &ends, depth, &[&keys, &data], out);
            }
        }
        Ok(0)
    }
}

fn expect_fits(bytes: usize, what: &str) -> Result<()> {
    if bytes > BYTES_MAX { Err(too_large(what)) } else { Ok(()) }
}

fn copy(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    pulse::work(bytes.len() / BYTES_PER_UNIT)?;
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends an array or an object, `depth` being that of what is inside; gives its own.
fn put_table(kind: u8, count: usize, ends: &[usize], depth: usize, data: &[&[u8]], out: &mut Vec<u8>) -> Result<usize> {
    let depth = depth + 1;
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    let largest = ends.iter().copied().max().unwrap_or(0).max(count);
    let (tag, width) = match largest {
        0..=0xff => (kind, 1),
        0x100..=0xffff => (kind | 1 << WIDTH_SHIFT, 2),
        _ => (kind | 2 << WIDTH_SHIFT, 4),
    };
    out.extend_from_slice(&[tag, depth as u8]);
    for number in std::iter::once(&count).chain(ends) {
        out.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    pulse::work(ends.len())?;
    for part in data {
        copy(part, out)?;
    }
    Ok(depth)
}

impl<'a> From<JsonbRef<'a>> for Item<'a> {
    fn from(part: JsonbRef<'a>) -> Self {
        Self::Part(part)
    }
}
