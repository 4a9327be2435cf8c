//! `hstore`: texts, or NULL, by their keys.
//!
//! A value is bytes:
//! ```text
//! | keys and values, in turn | 00 | count u32 | end u32, 1 if NULL | ... |
//!                                             two of these for each pair: of the key, of the value
//! ```
//! All integers are big-endian; an end counts from the first key's beginning.
//!
//! Invariants: keys are sorted by their length, then by their bytes, and each is there once. The
//! order of values is that of their bytes, as PostgreSQL has it. ON DISK: none of this may change.

use std::cmp::Ordering;

use crate::error::{Error, Result, SqlState};
use crate::json_text;
use crate::jsonb::Item;
use crate::letters::is_blank_char;
use crate::numeric::Numeric;
use crate::pulse;
use crate::value::Datum;

/// Bytes of the end of a text, and of whether it is NULL.
const END_BYTES: usize = 5;

/// A key, and its value or NULL.
pub type Pair<'a> = (&'a str, Option<&'a str>);

/// A value where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Hstore<'a> {
    texts: &'a str,
    ends: &'a [u8],
}

impl<'a> Hstore<'a> {
    /// The value with these bytes. Of damaged bytes it is empty.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::checked(bytes).unwrap_or(Self { texts: "", ends: &[] })
    }

    fn checked(bytes: &'a [u8]) -> Option<Self> {
        let end = memchr::memchr(0, bytes)?;
        let texts = std::str::from_utf8(&bytes[..end]).ok()?;
        let (count, ends) = bytes[end + 1..].split_first_chunk()?;
        let count = u32::from_be_bytes(*count) as usize;
        (ends.len() == count.checked_mul(2 * END_BYTES)?).then_some(Self { texts, ends })
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(self) -> usize {
        self.ends.len() / (2 * END_BYTES)
    }

    /// Whether it has no pair.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.ends.is_empty()
    }

    /// Where the text of a number ends, and whether it is NULL.
    fn end(self, at: usize) -> (usize, bool) {
        match self.ends.get(at * END_BYTES..).and_then(|ends| ends.first_chunk::<END_BYTES>()) {
            Some(&[a, b, c, d, null]) => (u32::from_be_bytes([a, b, c, d]) as usize, null != 0),
            None => (0, true),
        }
    }

    fn text(self, at: usize) -> Option<&'a str> {
        let start = if at == 0 { 0 } else { self.end(at - 1).0 };
        match self.end(at) {
            (_, true) => None,
            (end, false) => Some(self.texts.get(start..end).unwrap_or_default()),
        }
    }

    /// A pair by its place.
    #[must_use]
    pub fn pair(self, at: usize) -> Pair<'a> {
        (self.text(2 * at).unwrap_or_default(), self.text(2 * at + 1))
    }

    /// The pairs in the order of their keys.
    pub fn pairs(self) -> impl Iterator<Item = Pair<'a>> {
        (0..self.len()).map(move |at| self.pair(at))
    }

    /// The value of a key: `None` if it is not there.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Option<&'a str>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (found, value) = self.pair(middle);
            match compare_keys(found, key) {
                Ordering::Equal => return Some(value),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Whether it has all pairs of another.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn contains(self, other: Self) -> Result<bool> {
        pulse::work(other.len())?;
        Ok(other.pairs().all(|(key, value)| self.get(key) == Some(value)))
    }

    /// Appends its text.
    pub fn write(self, out: &mut String) {
        for (at, (key, value)) in self.pairs().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            write_quoted(key, out);
            out.push_str("=>");
            match value {
                Some(value) => write_quoted(value, out),
                None => out.push_str("NULL"),
            }
        }
    }

    /// Appends its bytes as clients have them.
    pub fn write_binary(self, out: &mut Vec<u8>) {
        let put = |text: &str, out: &mut Vec<u8>| {
            out.extend_from_slice(&(text.len() as i32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        };
        out.extend_from_slice(&(self.len() as i32).to_be_bytes());
        for (key, value) in self.pairs() {
            put(key, out);
            match value {
                Some(value) => put(value, out),
                None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
    }

    /// As `json`. If it is `loose`, values that look like booleans and numbers become such.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn to_json(self, loose: bool) -> Result<String> {
        let mut out = String::from("{");
        for (at, (key, value)) in self.pairs().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            json_text::write_quoted(key, &mut out)?;
            out.push_str(": ");
            match value {
                None => out.push_str("null"),
                Some("t") if loose => out.push_str("true"),
                Some("f") if loose => out.push_str("false"),
                Some(value) if loose && is_json_number(value) => out.push_str(value),
                Some(value) => json_text::write_quoted(value, &mut out)?,
            }
        }
        out.push('}');
        Ok(out)
    }

    /// The same as `jsonb`.
    ///
    /// # Errors
    /// It is too large, or the statement was cancelled.
    pub fn to_jsonb(self, loose: bool) -> Result<Datum> {
        let item = |value: Option<&'a str>| -> Result<Item<'a>> {
            Ok(match value {
                None => Item::Null,
                Some("t") if loose => Item::Bool(true),
                Some("f") if loose => Item::Bool(false),
                Some(value) if loose && is_json_number(value) => Item::Number(Numeric::parse(value)?),
                Some(value) => Item::String(value.into()),
            })
        };
        let members = self.pairs().map(|(key, value)| Ok((key.into(), item(value)?)));
        Item::Object(members.collect::<Result<Vec<_>>>()?).datum()
    }
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Whether a text is a number of JSON.
fn is_json_number(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.strip_prefix('-').unwrap_or(text);
    let count = digits(rest);
    if count == 0 || count > 1 && rest.starts_with('0') {
        return false;
    }
    let mut rest = &rest[count..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(exponent);
        if count == 0 {
            return false;
        }
        rest = &exponent[count..];
    }
    rest.is_empty()
}

/// The order of keys: short ones first.
fn compare_keys(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// The bytes of pairs in any order; of those with the same key the first one stays.
///
/// # Errors
/// 54000 if there are too many; the statement was cancelled.
pub fn of_pairs(mut pairs: Vec<Pair<'_>>) -> Result<Box<[u8]>> {
    pulse::work(pairs.len())?;
    pairs.sort_by(|a, b| compare_keys(a.0, b.0));
    pairs.dedup_by(|later, first| later.0 == first.0);
    let texts = || pairs.iter().flat_map(|&(key, value)| [Some(key), value]);
    let bytes: usize = texts().flatten().map(str::len).sum();
    if bytes > i32::MAX as usize {
        return Err(Error::new(SqlState::PROGRAM_LIMIT, "the texts of an hstore are too long together"));
    }
    let mut out = Vec::with_capacity(bytes + 5 + 2 * END_BYTES * pairs.len());
    texts().flatten().for_each(|text| out.extend_from_slice(text.as_bytes()));
    out.push(0);
    out.extend_from_slice(&(pairs.len() as u32).to_be_bytes());
    let mut end = 0;
    for text in texts() {
        end += text.map_or(0, str::len) as u32;
        out.extend_from_slice(&end.to_be_bytes());
        out.push(u8::from(text.is_none()));
    }
    Ok(out.into())
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(SqlState("XX000"), message.into())
}

fn unexpected_end() -> Error {
    malformed("Unexpected end of string")
}

/// The text of an `hstore`, where it is being read.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek()
            && is_blank_char(c)
        {
            self.at += c.len_utf8();
        }
    }

    fn unexpected(&self, c: char) -> Error {
        malformed(format!("Syntax error near \"{c}\" at position {}", self.at))
    }

    /// A key or a value, and whether it stood in quotes; `None` at the end.
    fn word(&mut self, is_key: bool) -> Result<Option<(String, bool)>> {
        self.skip_blanks();
        let mut word = String::new();
        let quoted = match self.peek() {
            None => return Ok(None),
            Some('"') => {
                self.at += 1;
                true
            }
            Some(c @ '=') if is_key => return Err(self.unexpected(c)),
            Some(_) => false,
        };
        let mut is_first = true;
        loop {
            pulse::work(1)?;
            let Some(mut c) = self.peek() else {
                return if quoted { Err(unexpected_end()) } else { Ok(Some((word, false))) };
            };
            let ends = match c {
                '"' if quoted => {
                    self.at += 1;
                    true
                }
                '=' if !quoted && is_key => true,
                ',' if !quoted && !is_key && !is_first => true,
                c if !quoted && is_blank_char(c) => true,
                _ => false,
            };
            if ends {
                return Ok(Some((word, quoted)));
            }
            self.at += c.len_utf8();
            if c == '\\' {
                c = self.peek().ok_or_else(unexpected_end)?;
                self.at += c.len_utf8();
            }
            word.push(c);
            is_first = false;
        }
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        match self.peek() {
            Some(c) if c == wanted => {
                self.at += 1;
                Ok(())
            }
            Some(c) => Err(self.unexpected(c)),
            None => Err(unexpected_end()),
        }
    }
}

/// Reads a value's text.
///
/// # Errors
/// It has another form.
pub fn parse(text: &str) -> Result<Box<[u8]>> {
    let mut reader = Reader { text, at: 0 };
    let mut pairs: Vec<(String, Option<String>)> = Vec::new();
    while let Some((key, _)) = reader.word(true)? {
        reader.skip_blanks();
        reader.expect('=')?;
        reader.expect('>')?;
        let (value, quoted) = reader.word(false)?.ok_or_else(unexpected_end)?;
        let is_null = !quoted && value.eq_ignore_ascii_case("null");
        pairs.push((key, (!is_null).then_some(value)));
        reader.skip_blanks();
        match reader.peek() {
            None => break,
            Some(_) => reader.expect(',')?,
        }
    }
    of_pairs(pairs.iter().map(|(key, value)| (&**key, value.as_deref())).collect())
}

/// Reads a value that a client sends.
///
/// # Errors
/// 22004 for a key that is NULL, 22021 for what is no text, 08P01 for bytes of another form.
pub fn receive(mut bytes: &[u8]) -> Result<Box<[u8]>> {
    let count = take_length(&mut bytes)?;
    let left = bytes.len();
    if count < 0 || count as usize > left {
        let message = format!("number of pairs ({count}) exceeds the maximum allowed ({left})");
        return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
    }
    let mut pairs = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let key = take_text(&mut bytes)?;
        let key = key.ok_or_else(|| Error::new(SqlState("22004"), "null value not allowed for hstore key"))?;
        pairs.push((key, take_text(&mut bytes)?));
    }
    if bytes.is_empty() { of_pairs(pairs) } else { Err(bad_binary()) }
}

fn bad_binary() -> Error {
    Error::new(SqlState("22P03"), "incorrect binary data format in hstore")
}

fn take_length(bytes: &mut &[u8]) -> Result<i32> {
    let (length, rest) = bytes.split_first_chunk().ok_or_else(bad_binary)?;
    *bytes = rest;
    Ok(i32::from_be_bytes(*length))
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a str>> {
    let Ok(length) = usize::try_from(take_length(bytes)?) else { return Ok(None) };
    let (text, rest) = bytes.split_at_checked(length).ok_or_else(bad_binary)?;
    *bytes = rest;
    let not_text = || Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\"");
    let text = std::str::from_utf8(text).map_err(|_| not_text())?;
    crate::text_io::check_text(text)?;
    Ok(Some(text))
}

fn wrong_subscripts(message: &str) -> Error {
    Error::new(SqlState("2202E"), message)
}

fn null_key() -> Error {
    Error::new(SqlState("22004"), "null value not allowed for hstore key")
}

fn text_or_null(value: &Datum) -> Result<Option<&str>> {
    match value {
        Datum::Null => Ok(None),
        Datum::Text(text) | Datum::Citext(text) => Ok(Some(text)),
        other => Err(Error::internal(format_args!("a text was expected, not {other:?}"))),
    }
}

/// The value of `hstore(text[])`: keys and values in turn, or pairs of them.
///
/// # Errors
/// 2202E for an array of another form, 22004 for a key that is NULL.
pub fn of_array(value: &Datum) -> Result<Datum> {
    let Datum::Array(array) = value else { return Err(Error::internal("an hstore of no array")) };
    match array.dimensions() {
        [] => {}
        [one] if one.length % 2 == 0 => {}
        [_] => return Err(wrong_subscripts("array must have even number of elements")),
        [_, two] if two.length == 2 => {}
        [_, _] => return Err(wrong_subscripts("array must have two columns")),
        _ => return Err(wrong_subscripts("wrong number of array subscripts")),
    }
    let mut pairs = Vec::with_capacity(array.values().len() / 2);
    for pair in array.values().chunks_exact(2) {
        pairs.push((text_or_null(&pair[0])?.ok_or_else(null_key)?, text_or_null(&pair[1])?));
    }
    Ok(Datum::Bytes(of_pairs(pairs)?))
}

/// The value of `hstore(text[], text[])`: keys, and their values if there are any.
///
/// # Errors
/// 2202E for arrays of other forms, 22004 for a key that is NULL.
pub fn of_arrays(keys: &Datum, values: &Datum) -> Result<Datum> {
    let Datum::Array(keys) = keys else { return Ok(Datum::Null) };
    let values = match values {
        Datum::Array(values) => Some(values),
        _ => None,
    };
    let is_flat = |array: &crate::Array| array.dimensions().len() <= 1;
    if !is_flat(keys) || values.is_some_and(|values| !is_flat(values)) {
        return Err(wrong_subscripts("wrong number of array subscripts"));
    }
    let bounds = |array: &crate::Array| array.dimensions().first().map(|one| (one.lower, one.length));
    if let Some(values) = values
        && (bounds(keys) != bounds(values))
    {
        return Err(wrong_subscripts("arrays must have same bounds"));
    }
    let mut pairs = Vec::with_capacity(keys.values().len());
    for (at, key) in keys.values().iter().enumerate() {
        let value = values.and_then(|values| values.values().get(at)).map_or(Ok(None), text_or_null)?;
        pairs.push((text_or_null(key)?.ok_or_else(null_key)?, value));
    }
    Ok(Datum::Bytes(of_pairs(pairs)?))
}
