//! Arrays: values of one type in up to six dimensions, and how they are written and read.
//!
//! ```text
//! binary := dimensions: i32 | has NULLs: i32 | element type: u32 | (length: i32, lower bound: i32) … | (bytes: i32, value) …
//! ```
//! Everything is big-endian; the bytes of NULL are -1. This is PostgreSQL's binary format. ON DISK:
//! rows hold arrays in it.
//!
//! Invariants: there are as many values as the dimensions' lengths multiplied, and none without
//! dimensions; values are in row-major order, each of the element type or NULL.

use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::binary_io;
use crate::cast::{self, CastContext};
use crate::composite_values;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::letters::{is_blank_char, trim, trim_end, trim_start};
use crate::operators;
use crate::pulse;
use crate::text_io;
use crate::types::{Modifier, Type};
use crate::value::Datum;

mod assignment;

/// Dimensions at most, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;
/// What reading, writing or converting a value takes at the least, in units of work.
const UNITS_PER_VALUE: usize = 8;
/// Values that are let go of between two polls.
const DROPPED_AT_ONCE: usize = 4096;
/// Values at most.
const VALUES_MAX: usize = (1 << 27) - 1;

/// An array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    element: Type,
    dimensions: SmallVec<[Dimension; 1]>,
    values: Vec<Datum>,
}

/// One dimension of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimension {
    /// How many values there are.
    pub length: usize,
    /// The subscript of the first; 1 unless somebody wants it otherwise.
    pub lower: i32,
}

impl Dimension {
    /// The subscript of the last value.
    #[must_use]
    pub fn upper(&self) -> i64 {
        i64::from(self.lower) + self.length as i64 - 1
    }
}

#[cold]
fn malformed(text: &str, detail: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("malformed array literal: \"{text}\"")).detail(detail)
}

#[cold]
fn bad_binary() -> Error {
    Error::new(SqlState::BAD_BINARY, "incorrect binary data format")
}

impl Array {
    /// One dimension of values, counted from 1.
    #[must_use]
    pub fn new(element: Type, values: Vec<Datum>) -> Self {
        Self::counted_from(element, values, 1)
    }

    /// One dimension of values, counted from `lower`.
    #[must_use]
    pub fn counted_from(element: Type, values: Vec<Datum>, lower: i32) -> Self {
        let mut dimensions = SmallVec::new();
        if !values.is_empty() {
            dimensions.push(Dimension { length: values.len(), lower });
        }
        Self { element, dimensions, values }
    }

    /// What has these dimensions; `None` if there cannot be such an array.
    #[must_use]
    pub fn of_parts(element: Type, dimensions: &[Dimension], values: Vec<Datum>) -> Option<Self> {
        let count = dimensions.iter().try_fold(1usize, |count, dimension| count.checked_mul(dimension.length))?;
        let count = if dimensions.is_empty() { 0 } else { count };
        let fits = dimensions.len() <= DIMENSIONS_MAX && count == values.len();
        fits.then(|| Self { element, dimensions: dimensions.into(), values })
    }

    /// Arrays of equal dimensions as one with a dimension more; values that are no arrays, or are
    /// the catalogue's vectors, as one of one dimension.
    ///
    /// # Errors
    /// 2202E if the dimensions differ, 54000 if they are too many.
    pub fn of_values(element: Type, values: Vec<Datum>) -> Result<Self> {
        let first = match values.first() {
            Some(Datum::Array(first)) if !matches!(element, Type::Int2Vector | Type::OidVector) => first,
            _ => return Ok(Self::new(element, values)),
        };
        let (inner, count) = (first.dimensions.clone(), values.len());
        let mut all = Vec::with_capacity(count * first.values.len());
        for value in values {
            match value {
                Datum::Array(part) if part.dimensions == inner => crate::copies::extend(&mut all, &part.values)?,
                _ => return Err(not_rectangular()),
            }
        }
        if inner.len() >= DIMENSIONS_MAX {
            let message = format!("number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
        }
        if all.is_empty() {
            return Ok(Self::new(element, all));
        }
        let mut dimensions = SmallVec::with_capacity(inner.len() + 1);
        dimensions.push(Dimension { length: count, lower: 1 });
        dimensions.extend(inner);
        Ok(Self { element, dimensions, values: all })
    }

    /// Two arrays, of which neither is empty, one behind the other. One that has a dimension less
    /// than the other becomes its first or last part.
    ///
    /// # Errors
    /// 2202E if the parts do not have the same dimensions.
    pub fn followed_by(&self, other: &Self) -> Result<Self> {
        let (left, right) = (&self.dimensions[..], &other.dimensions[..]);
        let (outer, whole, part) = match left.len().cmp(&right.len()) {
            Ordering::Equal => (left[0].length + right[0].length, left, &right[1..]),
            Ordering::Less => (right[0].length + 1, right, left),
            Ordering::Greater => (left[0].length + 1, left, right),
        };
        if whole[1..] != *part {
            return Err(Error::new(SqlState("2202E"), "cannot concatenate incompatible arrays"));
        }
        let mut dimensions: SmallVec<[Dimension; 1]> = SmallVec::from_slice(whole);
        dimensions[0].length = outer;
        let mut values = Vec::with_capacity(self.values.len() + other.values.len());
        crate::copies::extend(&mut values, &self.values)?;
        crate::copies::extend(&mut values, &other.values)?;
        Ok(Self { element: self.element, dimensions, values })
    }

    /// The type of the values.
    #[must_use]
    pub fn element(&self) -> Type {
        self.element
    }

    /// The dimensions; an empty array has none.
    #[must_use]
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// All values, the last dimension's side by side.
    #[must_use]
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// The value at a subscript for each dimension; `None` if there is none there.
    #[must_use]
    pub fn get(&self, subscripts: &[i64]) -> Option<&Datum> {
        if subscripts.len() != self.dimensions.len() {
            return None;
        }
        let mut at = 0;
        for (dimension, &subscript) in self.dimensions.iter().zip(subscripts) {
            let offset = usize::try_from(subscript - i64::from(dimension.lower)).ok()?;
            if offset >= dimension.length {
                return None;
            }
            at = at * dimension.length + offset;
        }
        self.values.get(at)
    }

    /// The values between two subscripts for each of the first dimensions, counted from 1; where a
    /// subscript is missing, from the first or to the last. What is not there is left out.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn slice(&self, bounds: &[(Option<i64>, Option<i64>)]) -> Result<Self> {
        let none = || Self::new(self.element, Vec::new());
        if self.dimensions.is_empty() || bounds.len() > self.dimensions.len() {
            return Ok(none());
        }
        let mut ranges: SmallVec<[(usize, usize); 1]> = SmallVec::new();
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let (lower, upper) = bounds.get(at).copied().unwrap_or_default();
            let first = i64::from(dimension.lower);
            let lower = lower.map_or(first, |lower| lower.max(first));
            let upper = upper.map_or(dimension.upper(), |upper| upper.min(dimension.upper()));
            match (usize::try_from(lower - first), usize::try_from(upper - lower + 1)) {
                (Ok(from), Ok(length)) if length > 0 => ranges.push((from, length)),
                _ => return Ok(none()),
            }
        }
        // The places of the values so far, of which each becomes one for each value of the next
        // dimension.
        let mut places = vec![0];
        for (dimension, &(from, length)) in self.dimensions.iter().zip(&ranges) {
            let mut inner = Vec::with_capacity(places.len() * length);
            for place in places {
                pulse::work(length)?;
                inner.extend((from..from + length).map(|offset| place * dimension.length + offset));
            }
            places = inner;
        }
        let mut values = Vec::with_capacity(places.len());
        for place in places {
            pulse::work(UNITS_PER_VALUE)?;
            values.push(self.values[place].clone());
        }
        let dimensions = ranges.iter().map(|&(_, length)| Dimension { length, lower: 1 }).collect();
        Ok(Self { element: self.element, dimensions, values })
    }

    /// As many copies of a value as the dimensions ask for.
    ///
    /// # Errors
    /// 54000 if there are too many dimensions or values, or a subscript is beyond an integer.
    pub fn filled(element: Type, value: &Datum, dimensions: SmallVec<[Dimension; 1]>) -> Result<Self> {
        let too_large = |message: String| Error::new(SqlState::PROGRAM_LIMIT, message);
        if dimensions.len() > DIMENSIONS_MAX {
            let count = dimensions.len();
            return Err(too_large(format!(
                "number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
            )));
        }
        let mut count = 1_usize;
        for dimension in &dimensions {
            count = count.saturating_mul(dimension.length);
            if count > VALUES_MAX {
                return Err(too_large(format!("array size exceeds the maximum allowed ({VALUES_MAX})")));
            }
        }
        if dimensions.is_empty() || count == 0 {
            return Ok(Self::new(element, Vec::new()));
        }
        if let Some(beyond) = dimensions.iter().find(|dimension| dimension.upper() >= i64::from(i32::MAX)) {
            return Err(too_large(format!("array lower bound is too large: {}", beyond.lower)));
        }
        let mut values = Vec::new();
        while values.len() < count {
            pulse::work(1)?;
            values.push(value.clone());
        }
        Ok(Self { element, dimensions, values })
    }

    /// The order: by values, then by how many, then by dimensions.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        for (a, b) in self.values.iter().zip(&other.values) {
            pulse::note(1);
            // NULL is above everything in an array.
            let order = match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => operators::compare(a, b),
            };
            if order.is_ne() {
                return order;
            }
        }
        let shape = |array: &Self| {
            let lengths: SmallVec<[(usize, i32); 1]> =
                array.dimensions.iter().map(|dimension| (dimension.length, dimension.lower)).collect();
            (array.values.len(), lengths)
        };
        shape(self).cmp(&shape(other))
    }

    /// With other values, of another type, in the same dimensions.
    pub fn with_values(&self, element: Type, values: Vec<Datum>) -> Self {
        Self { element, dimensions: self.dimensions.clone(), values }
    }

    /// With each value put in the place of another.
    pub fn map(&self, value: impl Fn(&Datum) -> Result<Datum>) -> Result<Self> {
        let mut values = Vec::with_capacity(self.values.len());
        for old in &self.values {
            pulse::work(UNITS_PER_VALUE)?;
            values.push(value(old)?);
        }
        Ok(self.with_values(self.element, values))
    }

    /// To an array of another type, value by value.
    ///
    /// # Errors
    /// Those of casting a value.
    pub fn cast(&self, from: Type, to: Type, env: &Env) -> Result<Datum> {
        let Some(element) = to.element() else { return Ok(Datum::Array(Arc::new(self.clone()))) };
        if self.element == Type::Unknown {
            // Made where the type was not at hand: the values are of it already.
            return Ok(Datum::Array(Arc::new(self.with_values(element, self.values.clone()))));
        }
        let from = from.element().unwrap_or(self.element);
        let mut values = Vec::with_capacity(self.values.len());
        for value in &self.values {
            pulse::work(UNITS_PER_VALUE)?;
            values.push(cast::cast(value, from, element, Modifier::NONE, CastContext::Explicit, env)?);
        }
        Ok(Datum::Array(Arc::new(self.with_values(element, values))))
    }

    /// Appends its text: `{1,2,NULL}`; of the vectors of the catalogue `1 2`. Ends early if the
    /// statement was cancelled: see [`pulse::note`].
    pub fn write(&self, ty: Type, env: &Env, out: &mut String) {
        match ty {
            Type::Int2Vector | Type::OidVector => self.write_between(" ", env, out),
            _ => self.write_braces(env, out),
        }
    }

    fn write_between(&self, separator: &str, env: &Env, out: &mut String) {
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                out.push_str(separator);
            }
            text_io::write(self.element, value, env, out);
            if pulse::note(UNITS_PER_VALUE) {
                return;
            }
        }
    }

    fn write_braces(&self, env: &Env, out: &mut String) {
        if self.dimensions.is_empty() {
            out.push_str("{}");
            return;
        }
        if self.dimensions.iter().any(|dimension| dimension.lower != 1) {
            for dimension in &self.dimensions {
                out.push_str(&format!("[{}:{}]", dimension.lower, dimension.upper()));
            }
            out.push('=');
        }
        self.write_level(0, 0, env, out);
    }

    /// Writes a dimension from a value on; gives the value behind it.
    fn write_level(&self, level: usize, from: usize, env: &Env, out: &mut String) -> usize {
        let mut at = from;
        out.push('{');
        for index in 0..self.dimensions[level].length {
            if index > 0 {
                out.push(delimiter(self.element));
            }
            if level + 1 < self.dimensions.len() {
                at = self.write_level(level + 1, at, env, out);
            } else {
                write_element(self.element, &self.values[at], env, out);
                at += 1;
                if pulse::note(UNITS_PER_VALUE) {
                    return at;
                }
            }
        }
        out.push('}');
        at
    }

    /// Appends it in the binary format.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        self.write_binary_of(self.element, binary_io::write_binary, out);
    }

    /// Appends it in the form that rows have: the binary format, but that of enums it has numbers,
    /// which stay when labels get other texts.
    pub fn write_stored(&self, out: &mut Vec<u8>) {
        match self.element {
            Type::Enum(_) => self.write_binary_of(Type::Int8, binary_io::write_binary, out),
            // Which type it is, the column says.
            of @ Type::Composite(_) => {
                let write =
                    |_, _, value: &Datum, out: &mut Vec<u8>| composite_values::write_stored_value(of, value, out);
                self.write_binary_of(Type::Record, write, out);
            }
            element => self.write_binary_of(element, binary_io::write_binary, out),
        }
    }

    fn write_binary_of(&self, element: Type, write: impl Fn(Type, Modifier, &Datum, &mut Vec<u8>), out: &mut Vec<u8>) {
        let has_null = self.values.iter().any(Datum::is_null);
        out.extend_from_slice(&(self.dimensions.len() as i32).to_be_bytes());
        out.extend_from_slice(&i32::from(has_null).to_be_bytes());
        out.extend_from_slice(&element.oid().to_be_bytes());
        for dimension in &self.dimensions {
            out.extend_from_slice(&(dimension.length as i32).to_be_bytes());
            out.extend_from_slice(&dimension.lower.to_be_bytes());
        }
        for value in &self.values {
            pulse::note(UNITS_PER_VALUE);
            let length_at = out.len();
            out.extend_from_slice(&(-1i32).to_be_bytes());
            if !value.is_null() {
                write(element, Modifier::NONE, value, out);
                let length = (out.len() - length_at - 4) as i32;
                out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    }

    /// Reads it from the form that rows have. If it is of a type that a user has defined, that has to
    /// be told.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub fn read_stored(bytes: &[u8], of: Option<Type>) -> Result<Self> {
        let Some(of) = of else { return Self::read(bytes) };
        let stored_as = if of.is_enum() { Type::Int8 } else { Type::Record };
        let read = |_, bytes: &[u8]| composite_values::read_stored_value(of, bytes);
        let mut array = Self::read_of(bytes, None, read)?;
        if array.element != stored_as {
            return Err(bad_binary());
        }
        array.element = of;
        Ok(array)
    }

    /// Reads it from the binary format, whatever its element type is, if every database has that.
    ///
    /// # Errors
    /// 08P01 if there are too few bytes, 22P03 if they are of no array.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        Self::read_of(bytes, None, binary_io::parse_binary)
    }

    fn read_of(mut bytes: &[u8], of: Option<Type>, read: impl Fn(Type, &[u8]) -> Result<Datum>) -> Result<Self> {
        let bytes = &mut bytes;
        let dimension_count = usize::try_from(take_i32(bytes)?).ok().filter(|&count| count <= DIMENSIONS_MAX);
        let dimension_count = dimension_count.ok_or_else(bad_binary)?;
        take_i32(bytes)?;
        let number = take_i32(bytes)? as u32;
        let element = match of.filter(|of| of.oid() == number) {
            Some(of) => Some(of),
            // Of an array of a domain, clients name the domain: its values are those of the type.
            None if number >= FIRST_OF_USERS => of.filter(|of| of.of_user().is_none()),
            None => Type::from_oid(number).filter(|ty| ty.array().is_some()),
        };
        let element = element.ok_or_else(bad_binary)?;
        let mut dimensions = SmallVec::new();
        let mut count = usize::from(dimension_count > 0);
        for _ in 0..dimension_count {
            let length = usize::try_from(take_i32(bytes)?).map_err(|_| bad_binary())?;
            let lower = take_i32(bytes)?;
            count = count.checked_mul(length).filter(|&count| count <= VALUES_MAX).ok_or_else(bad_binary)?;
            dimensions.push(Dimension { length, lower });
        }
        // Each value has a length of four bytes at least.
        if count > bytes.len() / 4 {
            return Err(binary_io::too_short());
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            pulse::work(UNITS_PER_VALUE)?;
            let length = take_i32(bytes)?;
            values.push(match usize::try_from(length) {
                Ok(length) if length <= bytes.len() => {
                    let (value, rest) = bytes.split_at(length);
                    *bytes = rest;
                    read(element, value)?
                }
                Err(_) if length == -1 => Datum::Null,
                _ => return Err(bad_binary()),
            });
        }
        if !bytes.is_empty() {
            return Err(bad_binary());
        }
        if count == 0 {
            dimensions.clear();
        }
        Ok(Self { element, dimensions, values })
    }
}

impl Drop for Array {
    /// Many values are let go of in pieces, so that others get their chance in between.
    fn drop(&mut self) {
        while self.values.len() > DROPPED_AT_ONCE {
            self.values.truncate(self.values.len() - DROPPED_AT_ONCE);
            pulse::note(DROPPED_AT_ONCE);
        }
    }
}

#[cold]
fn not_rectangular() -> Error {
    let message = "multidimensional arrays must have array expressions with matching dimensions";
    Error::new(SqlState("2202E"), message)
}

fn take_i32(bytes: &mut &[u8]) -> Result<i32> {
    let (first, rest) = bytes.split_first_chunk::<4>().ok_or_else(binary_io::too_short)?;
    *bytes = rest;
    Ok(i32::from_be_bytes(*first))
}

/// What stands between two elements of a type in an array's text. There are commas in a box.
fn delimiter(element: Type) -> char {
    if element == Type::Box { ';' } else { ',' }
}

fn write_element(ty: Type, value: &Datum, env: &Env, out: &mut String) {
    if value.is_null() {
        out.push_str("NULL");
        return;
    }
    let start = out.len();
    text_io::write(ty, value, env, out);
    let text = &out[start..];
    let delimiter = delimiter(ty);
    let special = |c: char| c == delimiter || matches!(c, '{' | '}' | '"' | '\\' | '\x0b') || c.is_ascii_whitespace();
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
        return;
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    out.truncate(start);
    out.push('"');
    out.push_str(&quoted);
    out.push('"');
}

/// The number of the first type that a user has made.
const FIRST_OF_USERS: u32 = 16_384;

/// Reads an array of a type from the binary format.
pub fn parse_binary(ty: Type, bytes: &[u8]) -> Result<Datum> {
    let array = Array::read_of(bytes, ty.element(), binary_io::parse_binary)?;
    match ty.element() {
        Some(element) if element != array.element => {
            let message = format!("wrong element type in an array: {} instead of {element}", array.element);
            Err(Error::new(SqlState::TYPE_MISMATCH, message))
        }
        Some(_) => Ok(Datum::Array(Arc::new(array))),
        None => Err(Error::unsupported(format_args!("reading a value of type {ty}"))),
    }
}

#[cold]
fn too_many_dimensions() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, "number of array dimensions exceeds the maximum allowed (6)")
}

/// What stands last in an array's text, for [`is_too_deep`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Opened,
    Closed,
    CommaBehindLevel,
    CommaBehindValue,
    Value,
    Quote,
    Quoted,
}

/// Whether the braces of a text nest too deep before anything else is wrong with them. Elements are
/// counted level by level: arrays side by side that differ in length are wrong as well.
fn is_too_deep(text: &str, delimiter: char) -> bool {
    use Last::{Closed, CommaBehindLevel, CommaBehindValue, Nothing, Opened, Quote, Quoted, Value};
    let mut last = Nothing;
    let mut level = 0;
    let (mut counts, mut before) = ([1; DIMENSIONS_MAX], [0; DIMENSIONS_MAX]);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if pulse::note(1) {
            return false;
        }
        let is_behind_value = matches!(last, Value | Quoted | Closed);
        last = match c {
            '\\' if matches!(last, Opened | Value | Quote | CommaBehindValue) && chars.next().is_some() => {
                if last == Quote { Quote } else { Value }
            }
            '\\' => return false,
            '"' if last == Quote => Quoted,
            '"' if matches!(last, Opened | CommaBehindValue) => Quote,
            '"' => return false,
            _ if last == Quote => Quote,
            '{' if matches!(last, Nothing | Opened | CommaBehindLevel) => {
                if level == DIMENSIONS_MAX {
                    return true;
                }
                level += 1;
                Opened
            }
            '}' if is_behind_value || last == Opened && level == 1 => {
                level -= 1;
                if level == 0 || before[level] != 0 && before[level] != counts[level] {
                    return false;
                }
                (before[level], counts[level]) = (counts[level], 1);
                Closed
            }
            c if c == delimiter && is_behind_value => {
                counts[level - 1] += 1;
                if last == Closed { CommaBehindLevel } else { CommaBehindValue }
            }
            '{' | '}' => return false,
            c if c == delimiter => return false,
            c if is_blank_char(c) => last,
            _ if matches!(last, Opened | Value | CommaBehindValue) => Value,
            _ => return false,
        };
    }
    false
}

/// Reads an array's text.
pub fn parse(ty: Type, modifier: Modifier, text: &str, env: &Env) -> Result<Datum> {
    let Some(element) = ty.element() else {
        let message = format!("cannot accept a value of type {ty}");
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    if matches!(ty, Type::Int2Vector | Type::OidVector) {
        // Any blanks may stand before a number, but a smallint ends with a space.
        let ends_otherwise = |pair: &[u8]| pair[0].is_ascii_digit() && matches!(pair[1], b'\t'..=b'\r');
        if ty == Type::Int2Vector && text.as_bytes().windows(2).any(ends_otherwise) {
            let message = format!("invalid input syntax for type smallint: \"{text}\"");
            return Err(Error::new(SqlState("22P02"), message));
        }
        let values: Result<Vec<Datum>> =
            text.split_ascii_whitespace().map(|part| text_io::parse(element, Modifier::NONE, part, env)).collect();
        return Ok(Datum::Array(Arc::new(Array::counted_from(element, values?, 0))));
    }
    let delimiter = delimiter(element);
    let mut reader = Reader { whole: text, rest: trim(text), delimiter };
    let lowers = reader.bounds()?;
    if is_too_deep(trim_start(reader.rest), delimiter) {
        return Err(too_many_dimensions());
    }
    // What is wrong with the braces is said before what is wrong with a value.
    let mut texts = Vec::new();
    let mut lengths: SmallVec<[Option<usize>; 2]> = SmallVec::new();
    reader.level(0, &mut lengths, &mut texts)?;
    if !trim(reader.rest).is_empty() {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    if texts.is_empty() && lowers.is_none() {
        return Ok(Datum::Array(Arc::new(Array::new(element, Vec::new()))));
    }
    let mut dimensions: SmallVec<[Dimension; 1]> =
        lengths.iter().map(|length| Dimension { length: length.unwrap_or(0), lower: 1 }).collect();
    if let Some(lowers) = lowers {
        let fits = lowers.len() == dimensions.len()
            && lowers
                .iter()
                .zip(&dimensions)
                .all(|(bounds, dimension)| i64::from(bounds.1) - i64::from(bounds.0) + 1 == dimension.length as i64);
        if !fits {
            return Err(malformed(text, "Specified array dimensions do not match array contents."));
        }
        if let Some((lower, _)) = lowers.iter().find(|(_, upper)| *upper == i32::MAX) {
            let message = format!("array lower bound is too large: {lower}");
            return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
        }
        dimensions.iter_mut().zip(&lowers).for_each(|(dimension, bounds)| dimension.lower = bounds.0);
    }
    let read = |text: Option<String>| match text {
        None => Ok(Datum::Null),
        Some(text) => {
            pulse::work(UNITS_PER_VALUE)?;
            text_io::parse(element, modifier, &text, env)
        }
    };
    let values = texts.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(Datum::Array(Arc::new(Array { element, dimensions, values })))
}

struct Reader<'t> {
    whole: &'t str,
    rest: &'t str,
    /// What stands between two elements.
    delimiter: char,
}

impl<'t> Reader<'t> {
    fn fail<T>(&self, detail: &str) -> Result<T> {
        Err(malformed(self.whole, detail))
    }

    /// `[2:4][0:1]=` in front.
    fn bounds(&mut self) -> Result<Option<Vec<(i32, i32)>>> {
        let mut found = Vec::new();
        while let Some(rest) = trim_start(self.rest).strip_prefix('[') {
            if found.len() == DIMENSIONS_MAX {
                return Err(too_many_dimensions());
            }
            let Some((bounds, rest)) = rest.split_once(']') else {
                return self.fail("Missing \"]\" after array dimensions.");
            };
            // One number is the upper bound.
            let (lower, upper) = match bounds.split_once(':') {
                Some((lower, upper)) => (self.bound(lower)?, self.bound(upper)?),
                None => (1, self.bound(bounds)?),
            };
            if upper < lower {
                let message = "upper bound cannot be less than lower bound";
                return Err(Error::new(SqlState("2202E"), message));
            }
            found.push((lower, upper));
            self.rest = rest;
        }
        if found.is_empty() {
            return Ok(None);
        }
        let Some(rest) = trim_start(self.rest).strip_prefix('=') else {
            return self.fail("Missing \"=\" after array dimensions.");
        };
        self.rest = trim_start(rest);
        Ok(Some(found))
    }

    /// A bound: digits and signs, without blanks. Signs behind the number are of no meaning.
    fn bound(&self, text: &str) -> Result<i32> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-')) {
            return self.fail("\"[\" must introduce explicitly-specified array dimensions.");
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let length = text.len() - unsigned.len() + unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let number = &text[..length];
        // A sign alone is 0.
        if number.bytes().all(|byte| !byte.is_ascii_digit()) {
            return Ok(0);
        }
        // What is too large for an integer loses its upper bits.
        Ok(number.parse::<i64>().unwrap_or(i64::MAX) as i32)
    }

    /// Reads `{…}`.
    fn level(
        &mut self,
        level: usize,
        lengths: &mut SmallVec<[Option<usize>; 2]>,
        values: &mut Vec<Option<String>>,
    ) -> Result<()> {
        let Some(rest) = self.rest.strip_prefix('{') else {
            return self.fail("Array value must start with \"{\" or dimension information.");
        };
        // That it is too deep would have been told before: something else is wrong in front.
        if level >= DIMENSIONS_MAX {
            return self.fail("Unexpected \"{\" character.");
        }
        self.rest = trim_start(rest);
        if lengths.len() == level {
            lengths.push(None);
        }
        let mut count = 0;
        if let Some(rest) = self.rest.strip_prefix('}') {
            // Only the whole can be empty: what is in an array has as many elements as its like.
            if level > 0 {
                return self.fail("Unexpected \"}\" character.");
            }
            self.rest = rest;
            return Ok(());
        }
        loop {
            let nested = self.rest.starts_with('{');
            if nested != (lengths.len() > level + 1) && (count > 0 || !values.is_empty()) {
                return self.fail("Multidimensional arrays must have sub-arrays with matching dimensions.");
            }
            if nested {
                self.level(level + 1, lengths, values)?;
            } else {
                let value = self.value()?;
                values.push(value);
            }
            count += 1;
            self.rest = trim_start(self.rest);
            match self.rest.chars().next() {
                Some(c) if c == self.delimiter => self.rest = trim_start(&self.rest[1..]),
                Some('}') => {
                    self.rest = &self.rest[1..];
                    break;
                }
                Some(c) => return self.fail(&format!("Unexpected \"{c}\" character.")),
                None => return self.fail("Unexpected end of input."),
            }
        }
        match lengths[level] {
            Some(length) if length != count => {
                self.fail("Multidimensional arrays must have sub-arrays with matching dimensions.")
            }
            _ => {
                lengths[level] = Some(count);
                Ok(())
            }
        }
    }

    /// An element's text, `None` for NULL.
    fn value(&mut self) -> Result<Option<String>> {
        pulse::work(UNITS_PER_VALUE)?;
        let mut text = String::new();
        let quoted = self.rest.starts_with('"');
        let mut chars = self.rest.char_indices();
        if quoted {
            chars.next();
        }
        // What was escaped stays even if it is a blank at the end.
        let mut keep = 0;
        let end = loop {
            let Some((at, c)) = chars.next() else { return self.fail("Unexpected end of input.") };
            pulse::work(1)?;
            match c {
                '\\' => {
                    let Some((_, escaped)) = chars.next() else { return self.fail("Unexpected end of input.") };
                    text.push(escaped);
                    keep = text.len();
                }
                '"' if quoted => break at + 1,
                '"' => return self.fail("Incorrectly quoted array element."),
                '}' if !quoted => break at,
                c if c == self.delimiter && !quoted => break at,
                '{' if !quoted => return self.fail("Unexpected \"{\" character."),
                c => text.push(c),
            }
        };
        self.rest = &self.rest[end..];
        if !quoted {
            let length = trim_end(&text).len().max(keep);
            text.truncate(length);
            if text.is_empty() {
                let message = format!("Unexpected \"{}\" or \"}}\" character.", self.delimiter);
                return self.fail(&message);
            }
            if keep == 0 && text.eq_ignore_ascii_case("null") {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn round_trip(ty: Type, text: &str) -> String {
        let env = Env::default();
        let value = parse(ty, Modifier::NONE, text, &env).unwrap();
        let mut bytes = Vec::new();
        binary_io::write_binary(ty, Modifier::NONE, &value, &mut bytes);
        let Datum::Array(array) = &value else { panic!("{value:?}") };
        assert_eq!(**array, Array::read(&bytes).unwrap(), "{text}");
        let mut out = String::new();
        array.write(ty, &env, &mut out);
        out
    }

    #[test]
    fn arrays_are_written_as_they_are_read() {
        let ints = Type::Int4.array_of();
        let texts = Type::Text.array_of();
        for text in ["{}", "{1,2,3}", "{1,NULL}", "{{1,2},{3,4}}", "[0:2]={1,2,3}", "[-1:0][2:3]={{1,2},{3,4}}"] {
            assert_eq!(round_trip(ints, text), text);
        }
        assert_eq!(
            round_trip(texts, r#"{ a , "b c", "NULL" , null,"","\"",\\ }"#),
            r#"{a,"b c","NULL",NULL,"","\"","\\"}"#
        );
        assert_eq!(round_trip(Type::Int2Vector, "1 2"), "1 2");
        assert!(parse(ints, Modifier::NONE, "{{},{}}", &Env::default()).is_err());
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let env = Env::default();
        for text in
            ["", "1,2", "{1,2", "{1}x", "{1,,2}", "{1,{2}}", "{{1},2}", "{{1},{2,3}}", "[1:2]={1}", "{a}", "{\"1}"]
        {
            let error = parse(Type::Int4.array_of(), Modifier::NONE, text, &env).unwrap_err();
            assert_eq!(error.state(), SqlState::BAD_TEXT, "{text}");
        }
    }

    #[test]
    fn any_bytes_are_an_array_or_refused() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut good = Vec::new();
        Array::new(Type::Int4, vec![Datum::Int(1), Datum::Null]).write_binary(&mut good);
        for _ in 0..100_000 {
            let mut bytes = good.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            let _ = Array::read(&bytes);
        }
    }
}
