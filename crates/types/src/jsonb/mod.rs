//! `jsonb`: JSON as bytes whose fields are found without reading the rest.
//!
//! ```text
//! node    := tag [depth count ends data]
//! null    := 00
//! false   := 01
//! true    := 02
//! number  := 03 scale mantissa               mantissa: the fewest bytes, two's complement, little-endian
//!          | 03 7F stored large              of more than 38 digits, as `numeric::bytes` has it
//! string  := 04 UTF-8
//! array   := 05|width depth count end ... node ...
//! object  := 06|width depth count key-end ... value-end ... key ... node ...
//! ```
//! - A node does not say where it ends: whoever holds it knows, the row or the array around it.
//! - width, in bits 4 and 5 of the tag: 00 says that count and ends have 1 byte each, 10 2 bytes
//!   and 20 4 bytes, little-endian. It is the least that all of them fit.
//! - depth is how many arrays and objects are inside each other at the most, this one included: an
//!   empty one has 1.
//! - An end counts from the beginning of what it is an end of: of the elements, the keys, or the
//!   values.
//! - Keys are sorted by length, then by bytes, and none is there twice.
//!
//! Invariants: nodes are the same bytes wherever they stand, so that parts are copied as they are.
//! Equal documents whose numbers have equal scales have equal bytes. No bytes make a reader panic or
//! go deeper than 255: what is malformed is an error when its node is looked at. ON DISK: none of
//! this may change.

use std::cmp::Ordering;

use crate::error::{Error, Result, SqlState};
use crate::numeric::{LARGE_SCALE, Numeric, SMALL_DIGITS_MAX, SMALL_SCALE_MAX};

mod build;
mod order;
mod text;

pub use build::{Item, too_deep};
pub(crate) use order::compare_nodes;
pub use order::{compare, encode_key, hash};
pub use text::{parse, write, write_pretty};

/// Arrays and objects inside each other, at most.
pub const DEPTH_MAX: usize = 250;

// ON DISK: never renumber.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;
/// The bits of a tag that are the kind.
const KIND: u8 = 0x0f;
/// Where the width is in a tag.
const WIDTH_SHIFT: u32 = 4;

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("malformed jsonb: {what}"))
}

/// A value of JSON, or a part of one, in place.
#[derive(Debug, Clone, Copy)]
pub struct JsonbRef<'a> {
    bytes: &'a [u8],
    /// How deep it may be.
    depth_max: u8,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Node<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(&'a str),
    /// An array.
    Array(List<'a>),
    /// An object.
    Object(Map<'a>),
}

/// What an array and an object have in common: ends, and what they are ends of.
#[derive(Debug, Clone, Copy)]
struct Table<'a> {
    count: usize,
    width: usize,
    ends: &'a [u8],
    data: &'a [u8],
    depth: u8,
}

/// An array.
#[derive(Debug, Clone, Copy)]
pub struct List<'a>(Table<'a>);

/// An object.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    table: Table<'a>,
    /// Where the values begin in the data.
    values_start: usize,
}

impl<'a> JsonbRef<'a> {
    /// The value that bytes are.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth_max: u8::MAX }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How many arrays and objects are inside each other.
    #[must_use]
    pub fn depth(self) -> usize {
        match self.bytes {
            [tag, depth, ..] if matches!(tag & KIND, ARRAY | OBJECT) => usize::from(*depth),
            _ => 0,
        }
    }

    /// What it is. Of an array or an object this looks at the head alone.
    ///
    /// # Errors
    /// XX001 for bytes that are none.
    pub fn node(self) -> Result<Node<'a>> {
        let Some((&tag, rest)) = self.bytes.split_first() else { return Err(damaged("no value")) };
        Ok(match (tag & KIND, rest) {
            (NULL, []) => Node::Null,
            (FALSE, []) => Node::Bool(false),
            (TRUE, []) => Node::Bool(true),
            (NUMBER, [scale, mantissa @ ..]) => Node::Number(number(*scale, mantissa)?),
            (STRING, text) => Node::String(std::str::from_utf8(text).map_err(|_| damaged("not UTF-8"))?),
            (ARRAY, rest) => Node::Array(List(self.table(tag, rest, 1)?)),
            (OBJECT, rest) => {
                let table = self.table(tag, rest, 2)?;
                let values_start = if table.count == 0 { 0 } else { table.end(table.count - 1) };
                Node::Object(Map { table, values_start })
            }
            _ => return Err(damaged("unknown kind")),
        })
    }

    fn table(self, tag: u8, rest: &'a [u8], ends_each: usize) -> Result<Table<'a>> {
        let width = match tag >> WIDTH_SHIFT {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return Err(damaged("unknown width")),
        };
        let Some((&depth, rest)) = rest.split_first() else { return Err(damaged("no depth")) };
        if depth > self.depth_max || depth == 0 {
            return Err(damaged("depth"));
        }
        let (count, rest) = rest.split_at_checked(width).ok_or_else(|| damaged("no count"))?;
        let count = read_number(count);
        let ends = count.checked_mul(width * ends_each).ok_or_else(|| damaged("count"))?;
        let (ends, data) = rest.split_at_checked(ends).ok_or_else(|| damaged("too short"))?;
        Ok(Table { count, width, ends, data, depth })
    }
}

impl Node<'_> {
    /// What it is called in a message about a cast.
    pub(crate) fn cast_name(&self) -> &'static str {
        match self {
            Self::Number(_) => "numeric",
            other => other.type_name(),
        }
    }

    /// What `jsonb_typeof` says.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// A number of up to four bytes.
fn read_number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn number(scale: u8, mantissa: &[u8]) -> Result<Numeric> {
    /// The first number whose digits are too many.
    const END: u128 = 10_u128.pow(SMALL_DIGITS_MAX);
    if scale == LARGE_SCALE {
        return Numeric::read_large(mantissa).filter(Numeric::is_finite).ok_or_else(|| damaged("number"));
    }
    if mantissa.is_empty() || mantissa.len() > 16 || u32::from(scale) > SMALL_SCALE_MAX {
        return Err(damaged("number"));
    }
    let sign = if mantissa.last().is_some_and(|&byte| byte >= 0x80) { u8::MAX } else { 0 };
    let mut bytes = [sign; 16];
    bytes[..mantissa.len()].copy_from_slice(mantissa);
    let mantissa = i128::from_le_bytes(bytes);
    if mantissa.unsigned_abs() >= END {
        return Err(damaged("number"));
    }
    Ok(Numeric::new(mantissa, scale))
}

impl<'a> Table<'a> {
    /// The end at a place.
    fn end(&self, at: usize) -> usize {
        self.ends.get(at * self.width..(at + 1) * self.width).map_or(0, read_number)
    }

    /// The bytes that end at a place, of those that begin at the place `first`, whose data begins at
    /// `from`. Nothing, if the ends are malformed.
    fn slice(&self, at: usize, first: usize, from: usize) -> &'a [u8] {
        let start = if at == first { 0 } else { self.end(at - 1) };
        let end = self.end(at);
        match (from.checked_add(start), from.checked_add(end)) {
            (Some(start), Some(end)) => self.data.get(start..end).unwrap_or(&[]),
            _ => &[],
        }
    }

    fn inside(&self, bytes: &'a [u8]) -> JsonbRef<'a> {
        JsonbRef { bytes, depth_max: self.depth - 1 }
    }
}

impl<'a> List<'a> {
    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// The element at a place.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<JsonbRef<'a>> {
        (at < self.0.count).then(|| self.0.inside(self.0.slice(at, 0, 0)))
    }

    /// The element at a place, which counts from the end if it is negative.
    #[must_use]
    pub fn at(&self, place: i64) -> Option<JsonbRef<'a>> {
        let count = self.0.count as i64;
        let place = if place < 0 { place.checked_add(count)? } else { place };
        self.get(usize::try_from(place).ok()?)
    }

    /// Its elements.
    pub fn iter(self) -> impl Iterator<Item = JsonbRef<'a>> {
        (0..self.0.count).map(move |at| self.0.inside(self.0.slice(at, 0, 0)))
    }
}

/// The order of the keys of an object.
pub(crate) fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl<'a> Map<'a> {
    /// How many members it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.count
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.count == 0
    }

    fn key_bytes(&self, at: usize) -> &'a [u8] {
        self.table.slice(at, 0, 0)
    }

    /// The key at a place.
    #[must_use]
    pub fn key(&self, at: usize) -> &'a str {
        std::str::from_utf8(self.key_bytes(at)).unwrap_or_default()
    }

    /// The value at a place, which the object has.
    #[must_use]
    pub fn value(&self, at: usize) -> JsonbRef<'a> {
        self.table.inside(self.table.slice(self.table.count + at, self.table.count, self.values_start))
    }

    /// The place of a key: by halves.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<usize> {
        let (mut from, mut to) = (0, self.table.count);
        while from < to {
            let middle = from + (to - from) / 2;
            match compare_keys(self.key_bytes(middle), key.as_bytes()) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<JsonbRef<'a>> {
        self.find(key).map(|at| self.value(at))
    }

    /// Its members.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, JsonbRef<'a>)> {
        (0..self.table.count).map(move |at| (self.key(at), self.value(at)))
    }
}

#[cfg(test)]
mod tests;
