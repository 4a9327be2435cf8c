//! `tsvector`: the lexemes of a document, sorted, each with its positions.
//!
//! ```text
//! vector    := size count entry*
//! size      := 4 bytes, big-endian: what PostgreSQL's form of the value takes
//! count     := 4 bytes, big-endian
//! entry     := 00 lexeme 00 positions       with positions
//!            | 01 lexeme 00                 without
//! positions := count position*              2 bytes each, big-endian, all bits flipped
//! position  := place << 2 | weight
//! ```
//! ON DISK: this is how rows and keys hold the value. PostgreSQL compares by sizes first, and then
//! entry by entry; what has positions, more of them, or later ones, comes first. These bytes sort in
//! that order.
//!
//! Invariants: lexemes are sorted bytewise and differ; positions ascend and differ; there are 256 of
//! a lexeme at most, and none is beyond 16,383.

use std::cmp::Ordering;

use crate::error::{Error, Result, SqlState, too_short};
use crate::pulse;
use crate::text_search::query_text::Reader;

/// A lexeme has fewer bytes.
pub const LEXEME_BYTES_MAX: usize = 2047;
/// The last place that a position tells: later ones are taken for it.
const PLACE_MAX: u16 = (1 << 14) - 1;
/// Positions of a lexeme in a value; in what a text is made into, one less.
pub(super) const POSITIONS_MAX: usize = 256;
/// Bytes that all lexemes and positions of a value may take in PostgreSQL's form.
pub(super) const TEXT_BYTES_MAX: usize = (1 << 20) - 1;

const HEADER_BYTES: usize = 8;

/// Where a lexeme stands, from 1 on, and its weight, from 0 (`D`) to 3 (`A`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u16);

impl Position {
    /// Of a place, which is cut to the last one that can be told, and a weight.
    #[must_use]
    pub fn new(place: usize, weight: u8) -> Self {
        let place = u16::try_from(place).unwrap_or(PLACE_MAX).min(PLACE_MAX);
        Self(place << 2 | u16::from(weight & 3))
    }

    /// The place.
    #[must_use]
    pub fn place(self) -> u16 {
        self.0 >> 2
    }

    /// The weight: 3 for `A`, 0 for `D`.
    #[must_use]
    pub fn weight(self) -> u8 {
        (self.0 & 3) as u8
    }

    /// The same place with another weight.
    #[must_use]
    pub fn with_weight(self, weight: u8) -> Self {
        Self(self.0 & !3 | u16::from(weight & 3))
    }

    pub(super) fn is_last(self) -> bool {
        self.place() == PLACE_MAX
    }

    /// As PostgreSQL has it in memory and sends it.
    fn to_wire(self) -> u16 {
        u16::from(self.weight()) << 14 | self.place()
    }

    fn from_wire(wire: u16) -> Self {
        Self(wire.rotate_left(2))
    }
}

/// A lexeme of a value, where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'v> {
    bytes: &'v [u8],
    /// As stored.
    positions: &'v [[u8; 2]],
    has_positions: bool,
}

impl<'v> Entry<'v> {
    /// The lexeme; empty if its bytes are damaged.
    #[must_use]
    pub fn lexeme(&self) -> &'v str {
        std::str::from_utf8(self.bytes).unwrap_or_default()
    }

    /// The lexeme's bytes.
    #[must_use]
    pub fn bytes(&self) -> &'v [u8] {
        self.bytes
    }

    /// Its positions, in ascending order.
    pub fn positions(&self) -> impl DoubleEndedIterator<Item = Position> + ExactSizeIterator + use<'v> {
        self.positions.iter().map(|stored| Position(!u16::from_be_bytes(*stored)))
    }

    /// How many positions it has.
    #[must_use]
    pub fn position_count(&self) -> usize {
        self.positions.len()
    }

    /// Whether it has positions.
    #[must_use]
    pub fn has_positions(&self) -> bool {
        self.has_positions
    }
}

/// A value in its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Vector<'v>(&'v [u8]);

impl<'v> Vector<'v> {
    /// The value with these bytes.
    #[must_use]
    pub fn new(bytes: &'v [u8]) -> Self {
        Self(bytes)
    }

    /// How many lexemes it has.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| u32::from_be_bytes(bytes) as usize)
    }

    /// Whether it has no lexeme.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Its lexemes, in order. What is damaged ends them early.
    pub fn entries(self) -> impl Iterator<Item = Entry<'v>> {
        let mut rest = self.0.get(HEADER_BYTES..).unwrap_or_default();
        std::iter::from_fn(move || next_entry(&mut rest))
    }

    /// Polls, for a way through all of it.
    pub(super) fn count_work(self) -> Result<()> {
        pulse::work(self.0.len() / 8)
    }

    /// All entries, to be searched.
    pub(super) fn list(self) -> Result<Vec<Entry<'v>>> {
        self.count_work()?;
        Ok(self.entries().collect())
    }

    /// The last place of any lexeme; 0 if none has a position.
    #[must_use]
    pub fn last_place(self) -> u16 {
        self.entries().filter_map(|entry| entry.positions().next_back()).map(Position::place).max().unwrap_or(0)
    }

    /// Appends the value as text: `'cat':3,5A 'dog'`.
    pub fn write(self, out: &mut String) {
        for (at, entry) in self.entries().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            write_quoted(entry.lexeme(), out);
            for (at, position) in entry.positions().enumerate() {
                out.push(if at == 0 { ':' } else { ',' });
                // Writing to a string cannot fail.
                let _ = std::fmt::Write::write_fmt(out, format_args!("{}", position.place()));
                out.push_str(["", "C", "B", "A"][usize::from(position.weight())]);
            }
        }
    }

    /// Appends PostgreSQL's binary form: the count, and of each lexeme its text, a zero, the count of
    /// its positions, and these.
    pub fn write_binary(self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut count = 0_u32;
        out.extend_from_slice(&[0; 4]);
        for entry in self.entries() {
            count += 1;
            out.extend_from_slice(entry.bytes);
            out.push(0);
            out.extend_from_slice(&(entry.positions.len() as u16).to_be_bytes());
            for position in entry.positions() {
                out.extend_from_slice(&position.to_wire().to_be_bytes());
            }
        }
        out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    }
}

fn next_entry<'v>(rest: &mut &'v [u8]) -> Option<Entry<'v>> {
    let (&marker, behind) = rest.split_first()?;
    let end = memchr::memchr(0, behind)?;
    let (bytes, behind) = (&behind[..end], &behind[end + 1..]);
    let has_positions = marker == 0;
    let (positions, behind): (&[[u8; 2]], _) = if has_positions {
        let (count, behind) = behind.split_first_chunk::<2>()?;
        let (positions, behind) = behind.split_at_checked(2 * usize::from(!u16::from_be_bytes(*count)))?;
        (positions.as_chunks().0, behind)
    } else {
        (&[], behind)
    };
    *rest = behind;
    Some(Entry { bytes, positions, has_positions })
}

/// Appends a lexeme in quotes.
pub(super) fn write_quoted(lexeme: &str, out: &mut String) {
    out.push('\'');
    for c in lexeme.chars() {
        if matches!(c, '\'' | '\\') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('\'');
}

/// The lexemes of a stored `tsvector`, sorted and without positions: the tokens that an index has
/// of it.
pub fn lexemes_of(bytes: &[u8]) -> impl Iterator<Item = &str> {
    Vector::new(bytes).entries().map(|entry| entry.lexeme())
}

/// A value in the making: words in any order, the same ones any number of times.
#[derive(Debug, Default)]
pub struct VectorBuilder {
    words: Vec<(String, Positions)>,
}

/// The positions of a word; `None` if it has none.
type Positions = Option<Vec<Position>>;

impl VectorBuilder {
    /// Adds a word without positions.
    pub fn push(&mut self, word: impl Into<String>) {
        self.words.push((word.into(), None));
    }

    /// Adds a word with positions.
    pub fn push_at(&mut self, word: impl Into<String>, positions: Vec<Position>) {
        self.words.push((word.into(), Some(positions)));
    }

    /// Adds a word at one position.
    pub fn push_once(&mut self, word: impl Into<String>, position: Position) {
        self.push_at(word, vec![position]);
    }

    /// The value: equal words become one, with all their positions, of which the first 256 are kept.
    ///
    /// # Errors
    /// 54000 if it takes a megabyte.
    pub fn finish(self) -> Result<Box<[u8]>> {
        self.finish_with(POSITIONS_MAX)
    }

    pub(super) fn finish_with(mut self, positions_max: usize) -> Result<Box<[u8]>> {
        pulse::work(self.words.len() * 8)?;
        self.words.sort_by(|a, b| a.0.cmp(&b.0));
        let mut merged: Vec<(String, Positions)> = Vec::with_capacity(self.words.len());
        for (word, positions) in self.words {
            match merged.last_mut().filter(|last| last.0 == word) {
                None => merged.push((word, positions)),
                Some((_, had)) => match (had, positions) {
                    (Some(had), Some(positions)) => had.extend(positions),
                    (had @ None, positions) => *had = positions,
                    (Some(_), None) => {}
                },
            }
        }
        pulse::work(merged.len() * 8)?;
        for positions in merged.iter_mut().filter_map(|(_, positions)| positions.as_mut()) {
            unite(positions, positions_max);
        }
        encode(&merged)
    }
}

/// Sorts positions, takes the greatest weight of each place, and leaves out what is too much.
fn unite(positions: &mut Vec<Position>, positions_max: usize) {
    positions.sort_by(|a, b| a.place().cmp(&b.place()).then(b.weight().cmp(&a.weight())));
    positions.dedup_by_key(|position| position.place());
    positions.truncate(positions_max);
}

fn encode(words: &[(String, Positions)]) -> Result<Box<[u8]>> {
    let mut out = vec![0; HEADER_BYTES];
    let mut text_bytes = 0_usize;
    for (word, positions) in words {
        out.push(u8::from(positions.is_none()));
        out.extend_from_slice(word.as_bytes());
        out.push(0);
        text_bytes += word.len();
        if let Some(positions) = positions {
            text_bytes = text_bytes.next_multiple_of(2) + 2 + 2 * positions.len();
            out.extend_from_slice(&(!(positions.len() as u16)).to_be_bytes());
            for position in positions {
                out.extend_from_slice(&(!position.0).to_be_bytes());
            }
        }
    }
    if text_bytes > TEXT_BYTES_MAX {
        return Err(too_long(text_bytes));
    }
    let size = (HEADER_BYTES + 4 * words.len() + text_bytes) as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out[4..8].copy_from_slice(&(words.len() as u32).to_be_bytes());
    Ok(out.into_boxed_slice())
}

#[cold]
fn too_long(bytes: usize) -> Error {
    let message = format!("string is too long for tsvector ({bytes} bytes, max {TEXT_BYTES_MAX} bytes)");
    Error::new(SqlState("54000"), message)
}

/// Reads a value as text.
///
/// # Errors
/// 42601 if it is not one, 54000 if a word or the value is too long.
pub fn read(text: &str) -> Result<Box<[u8]>> {
    let mut reader = Reader::of_vector(text);
    let mut builder = VectorBuilder::default();
    let mut bytes = 0;
    while let Some((word, positions)) = reader.word()? {
        pulse::work(word.len() + positions.len())?;
        if word.len() >= LEXEME_BYTES_MAX {
            let message = format!("word is too long ({} bytes, max {} bytes)", word.len(), LEXEME_BYTES_MAX - 1);
            return Err(Error::new(SqlState("54000"), message));
        }
        // Counted before equal words become one, as in PostgreSQL.
        if bytes > TEXT_BYTES_MAX {
            return Err(too_long(bytes));
        }
        bytes += word.len();
        if positions.is_empty() { builder.push(word) } else { builder.push_at(word, positions) }
    }
    builder.finish()
}

/// Reads PostgreSQL's binary form.
///
/// # Errors
/// 08P01 or XX000 if it is not one, 22021 for text that is not UTF-8.
pub fn read_binary(mut bytes: &[u8]) -> Result<Box<[u8]>> {
    let bad = |what: &str| Err(Error::internal(what));
    let (count, rest) = bytes.split_first_chunk::<4>().ok_or_else(too_short)?;
    let count = u32::from_be_bytes(*count) as usize;
    if count > 1 << 28 {
        return bad("invalid size of tsvector");
    }
    bytes = rest;
    let mut words: Vec<(String, Positions)> = Vec::new();
    for _ in 0..count {
        let end = memchr::memchr(0, bytes).ok_or_else(|| Error::new(SqlState("08P01"), "invalid string in message"))?;
        let word = std::str::from_utf8(&bytes[..end])
            .map_err(|_| Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\""))?;
        if word.len() > LEXEME_BYTES_MAX {
            return bad("invalid tsvector: lexeme too long");
        }
        let (positions, rest) = bytes[end + 1..].split_first_chunk::<2>().ok_or_else(too_short)?;
        let positions = usize::from(u16::from_be_bytes(*positions));
        if positions > POSITIONS_MAX {
            return bad("unexpected number of tsvector positions");
        }
        let (stored, rest) = rest.split_at_checked(2 * positions).ok_or_else(too_short)?;
        bytes = rest;
        let positions: Vec<Position> =
            stored.as_chunks().0.iter().map(|stored| Position::from_wire(u16::from_be_bytes(*stored))).collect();
        if positions.windows(2).any(|pair| pair[0].place() >= pair[1].place()) {
            return bad("position information is misordered");
        }
        words.push((word.to_owned(), Some(positions).filter(|positions| !positions.is_empty())));
        pulse::work(word.len() + 8)?;
    }
    if !bytes.is_empty() {
        return Err(Error::new(SqlState::BAD_BINARY, "incorrect binary data format"));
    }
    VectorBuilder { words }.finish()
}

/// Both values, the places of the second behind all of the first.
///
/// # Errors
/// 54000 if that is too much.
pub fn joined(a: Vector<'_>, b: Vector<'_>) -> Result<Box<[u8]>> {
    let shift = usize::from(a.last_place());
    let mut words: Vec<(String, Positions)> = Vec::new();
    let moved = |entry: &Entry<'_>, had: &mut Vec<Position>| {
        for position in entry.positions() {
            if had.len() >= POSITIONS_MAX || had.last().is_some_and(|last| last.is_last()) {
                break;
            }
            had.push(Position::new(usize::from(position.place()) + shift, position.weight()));
        }
    };
    let (a, b) = (a.list()?, b.list()?);
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.bytes.cmp(b.bytes),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let a = if order.is_le() { left.next() } else { None };
        let b = if order.is_ge() { right.next() } else { None };
        let mut positions: Vec<Position> = a.map(|entry| entry.positions().collect()).unwrap_or_default();
        if let Some(b) = b {
            moved(b, &mut positions);
        }
        let lexeme = a.or(b).map(Entry::lexeme).unwrap_or_default();
        words.push((lexeme.to_owned(), Some(positions).filter(|positions| !positions.is_empty())));
    }
    encode(&words)
}

/// The value with each lexeme as `change` has it, which gives its positions, or leaves it out.
///
/// # Errors
/// As `change`.
pub fn changed(
    vector: Vector<'_>,
    mut change: impl FnMut(&Entry<'_>) -> Result<Option<Vec<Position>>>,
) -> Result<Box<[u8]>> {
    let mut words: Vec<(String, Positions)> = Vec::new();
    for entry in vector.list()? {
        if let Some(positions) = change(&entry)? {
            words.push((entry.lexeme().to_owned(), Some(positions).filter(|positions| !positions.is_empty())));
        }
    }
    encode(&words)
}

/// A weight by its letter.
#[must_use]
pub fn weight_named(letter: char) -> Option<u8> {
    match letter {
        'A' | 'a' => Some(3),
        'B' | 'b' => Some(2),
        'C' | 'c' => Some(1),
        'D' | 'd' => Some(0),
        _ => None,
    }
}

/// The letter of a weight.
#[must_use]
pub fn weight_letter(weight: u8) -> &'static str {
    ["D", "C", "B", "A"][usize::from(weight & 3)]
}
