//! Long texts and byte strings, a piece at a time.
//!
//! Functions and casts go through values of up to 256 MB, which takes seconds. They do that in
//! pieces of 16 KB, with a poll between two of them when it is time: see [`crate::pulse`].
//!
//! Invariants: pieces come in their order, and together they are the whole; a piece of a text is a
//! text. A text of no bytes has no pieces.

use compact_str::CompactString;

use crate::error::Result;
use crate::pulse;

/// Bytes of a piece.
const PIECE_BYTES: usize = 16 << 10;

/// What something does with each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It copies, counts or compares many at once: dozens in a unit of work.
    Copied,
    /// It looks at each: a few in a unit of work.
    Read,
    /// It computes with each.
    Computed,
}

impl Pace {
    fn units(self, bytes: usize) -> usize {
        match self {
            Self::Copied => bytes / 32,
            Self::Read => bytes / 8,
            Self::Computed => bytes / 2,
        }
    }
}

/// Counts the work of going through a value in one go, which has to be short: use it where many
/// bytes are dealt with at once.
///
/// # Errors
/// The statement was cancelled.
#[inline]
pub fn pass(bytes: usize, pace: Pace) -> Result<()> {
    pulse::work(pace.units(bytes))
}

/// The pieces of a text.
pub fn of_text(text: &str, pace: Pace) -> impl Iterator<Item = Result<&str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        rest = after;
        Some(pass(piece.len(), pace).map(|()| piece))
    })
}

/// The pieces of a text, the last one first.
pub fn of_text_backward(text: &str, pace: Pace) -> impl Iterator<Item = Result<&str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (before, piece) = rest.split_at(rest.ceil_char_boundary(rest.len().saturating_sub(PIECE_BYTES)));
        rest = before;
        Some(pass(piece.len(), pace).map(|()| piece))
    })
}

/// The pieces of a byte string; all but the last are of a length that is a multiple of 3, 4 and 8.
pub fn of_bytes(bytes: &[u8], pace: Pace) -> impl Iterator<Item = Result<&[u8]>> {
    const BYTES: usize = PIECE_BYTES / 24 * 24;
    bytes.chunks(BYTES).map(move |piece| pass(piece.len(), pace).map(|()| piece))
}

/// How many bytes at the beginning are all of a kind.
///
/// # Errors
/// The statement was cancelled.
pub fn count_at_start(bytes: &[u8], is_one: impl Fn(u8) -> bool) -> Result<usize> {
    let mut count = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        pass(piece.len(), Pace::Read)?;
        let found = piece.iter().take_while(|&&byte| is_one(byte)).count();
        count += found;
        if found < piece.len() {
            break;
        }
    }
    Ok(count)
}

/// How many bytes at the end are all of a kind.
///
/// # Errors
/// The statement was cancelled.
pub fn count_at_end(bytes: &[u8], is_one: impl Fn(u8) -> bool) -> Result<usize> {
    let mut count = 0;
    for piece in bytes.rchunks(PIECE_BYTES) {
        pass(piece.len(), Pace::Read)?;
        let found = piece.iter().rev().take_while(|&&byte| is_one(byte)).count();
        count += found;
        if found < piece.len() {
            break;
        }
    }
    Ok(count)
}

/// Appends a text.
pub fn push(out: &mut CompactString, text: &str) -> Result<()> {
    for piece in of_text(text, Pace::Copied) {
        out.push_str(piece?);
    }
    Ok(())
}

/// A text whose characters are put in the place of another's.
pub fn map(text: &str, mut each: impl FnMut(char) -> Option<char>) -> Result<CompactString> {
    let mut out = CompactString::with_capacity(text.len());
    for piece in of_text(text, Pace::Computed) {
        out.extend(piece?.chars().filter_map(&mut each));
    }
    Ok(out)
}

/// A text in another case: of ASCII in one go, and otherwise each character by itself.
pub fn with_case(text: &str, ascii: impl Fn(&mut str), mut each: impl FnMut(char) -> char) -> Result<CompactString> {
    let mut out = CompactString::with_capacity(text.len());
    for piece in of_text(text, Pace::Computed) {
        let piece = piece?;
        if piece.is_ascii() {
            let start = out.len();
            out.push_str(piece);
            ascii(&mut out[start..]);
        } else {
            out.extend(piece.chars().map(&mut each));
        }
    }
    Ok(out)
}

/// How many characters a text has.
pub fn char_count(text: &str) -> Result<usize> {
    of_text(text, Pace::Copied).map(|piece| Ok(count_in(piece?))).sum()
}

fn count_in(piece: &str) -> usize {
    if piece.is_ascii() { piece.len() } else { piece.chars().count() }
}

/// The byte at which a character, counted from 0, begins; the end if there are not as many.
pub fn byte_of_char(text: &str, index: usize) -> Result<usize> {
    let (mut left, mut at) = (index, 0);
    for piece in of_text(text, Pace::Copied) {
        let piece = piece?;
        let count = count_in(piece);
        if left < count && count == piece.len() {
            return Ok(at + left);
        }
        if left < count {
            return Ok(at + piece.char_indices().nth(left).map_or(piece.len(), |(at, _)| at));
        }
        left -= count;
        at += piece.len();
    }
    Ok(text.len())
}

/// A text without the blanks at its end.
pub fn without_blanks_at_end(text: &str) -> Result<&str> {
    let blanks = count_at_end(text.as_bytes(), |byte| byte == b' ')?;
    Ok(&text[..text.len() - blanks])
}

/// Bytes of a part that are looked for at once; what follows them is compared where they are found.
const HEAD_BYTES: usize = 4096;

/// Texts up to this many bytes are gone through without a [`Needle`].
const SHORT_BYTES: usize = 128;

/// A part that is looked for in texts.
pub struct Needle<'n> {
    head: memchr::memmem::Finder<'n>,
    rest: &'n [u8],
}

impl<'n> Needle<'n> {
    /// Of bytes that are looked for.
    pub fn new(part: &'n (impl AsRef<[u8]> + ?Sized)) -> Self {
        let (head, rest) = part.as_ref().split_at(part.as_ref().len().min(HEAD_BYTES));
        Self { head: memchr::memmem::Finder::new(head), rest }
    }

    /// Where it first is in a text, from a byte on.
    pub fn find(&self, text: &[u8], from: usize) -> Result<Option<usize>> {
        let mut at = from;
        while let Some(found) = self.find_head(text, at)? {
            let behind = found + self.head.needle().len();
            match text.get(behind..behind + self.rest.len()) {
                None => return Ok(None),
                Some(there) if is_equal(there, self.rest)? => return Ok(Some(found)),
                Some(_) => at = found + 1,
            }
        }
        Ok(None)
    }

    /// In windows, each of which overlaps the next by a head less a byte.
    fn find_head(&self, text: &[u8], from: usize) -> Result<Option<usize>> {
        let overlap = self.head.needle().len().saturating_sub(1);
        let mut at = from;
        loop {
            let end = text.len().min(at.saturating_add(PIECE_BYTES + overlap));
            let Some(piece) = text.get(at..end) else { return Ok(None) };
            if let Some(found) = self.head.find(piece) {
                pass(found, Pace::Copied)?;
                return Ok(Some(at + found));
            }
            pass(piece.len(), Pace::Copied)?;
            if end == text.len() {
                return Ok(None);
            }
            at += PIECE_BYTES;
        }
    }
}

fn is_equal(a: &[u8], b: &[u8]) -> Result<bool> {
    for (a, b) in a.chunks(PIECE_BYTES).zip(b.chunks(PIECE_BYTES)) {
        pass(a.len(), Pace::Copied)?;
        if a != b {
            return Ok(false);
        }
    }
    Ok(a.len() == b.len())
}

/// Where a part first is in a text, from a byte on.
pub fn find(text: &[u8], part: &[u8], from: usize) -> Result<Option<usize>> {
    match (text.get(from..), part) {
        // A needle takes longer to make than a short text to be gone through.
        (Some(rest @ [_, ..]), [first, ..]) if rest.len() <= SHORT_BYTES => {
            let mut starts = memchr::memchr_iter(*first, rest);
            pass(rest.len(), Pace::Read)?;
            Ok(starts.find(|&start| rest[start..].starts_with(part)).map(|start| from + start))
        }
        _ => Needle::new(part).find(text, from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_and_texts() {
        let text = "a\u{e9}\u{20ac}\u{1f600}".repeat(PIECE_BYTES / 7);
        let forward: Vec<&str> = of_text(&text, Pace::Read).collect::<Result<_>>().unwrap();
        assert!(forward.len() > 1);
        assert_eq!(forward.concat(), text);
        let mut backward: Vec<&str> = of_text_backward(&text, Pace::Read).collect::<Result<_>>().unwrap();
        backward.reverse();
        assert_eq!(backward.concat(), text);
        let bytes: Vec<&[u8]> = of_bytes(text.as_bytes(), Pace::Read).collect::<Result<_>>().unwrap();
        assert_eq!(bytes.concat(), text.as_bytes());
        assert!(bytes[..bytes.len() - 1].iter().all(|piece| piece.len() % 24 == 0));
        assert_eq!(of_text("", Pace::Read).count() + of_text_backward("", Pace::Read).count(), 0);
        assert_eq!(char_count(&text).unwrap(), text.chars().count());
        for index in [0, 1, 5_000, 6_553, 6_554, 9_000, 9_363, 9_364, 1_000_000] {
            let expected = text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
            assert_eq!(byte_of_char(&text, index).unwrap(), expected, "{index}");
        }
        assert_eq!(map(&text, |c| (c != 'a').then_some(c)).unwrap(), text.replace('a', ""));
    }

    #[test]
    fn ascii_has_the_case_of_each_character() {
        for text in
            ["", "Zebra_09[`{@", "\u{c4}rger in der ZEIT", &"aB\u{e9}".repeat(PIECE_BYTES), &"xY".repeat(PIECE_BYTES)]
        {
            let cased = with_case(text, str::make_ascii_uppercase, crate::letters::upper).unwrap();
            assert_eq!(cased, text.chars().map(crate::letters::upper).collect::<String>());
        }
        for byte in 0..128 {
            let c = char::from(byte);
            assert_eq!(crate::letters::lower(c), char::from(byte.to_ascii_lowercase()));
            assert_eq!(crate::letters::upper(c), char::from(byte.to_ascii_uppercase()));
        }
    }

    #[test]
    fn parts_are_found_across_the_edges_of_windows() {
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..3_000 {
            let is_short = round % 10 > 0;
            let (text_max, part_max) = if is_short { (2 * SHORT_BYTES, 6) } else { (3 * PIECE_BYTES, 40) };
            let text: Vec<u8> = (0..random.usize(0..text_max)).map(|_| random.u8(b'a'..=b'b')).collect();
            let length = random.usize(0..part_max);
            let part: Vec<u8> = (0..length).map(|_| random.u8(b'a'..=b'b')).collect();
            let from = random.usize(0..text.len() + 2);
            let expected = text.get(from..).and_then(|rest| memchr::memmem::find(rest, &part)).map(|at| from + at);
            assert_eq!(find(&text, &part, from).unwrap(), expected);
        }
        let mut text = vec![b'x'; 3 * PIECE_BYTES];
        let part = vec![b'y'; PIECE_BYTES + 7];
        let at = PIECE_BYTES - 3;
        text[at..at + part.len()].copy_from_slice(&part);
        assert_eq!(find(&text, &part, 0).unwrap(), Some(at));
        assert_eq!(find(&text, &part, at + 1).unwrap(), None);
        // The head is there twice, and the first time something else follows.
        let (head, part) = (vec![b'z'; 5_000], [vec![b'z'; 5_000], b"end".to_vec()].concat());
        let text = [head, b"not".to_vec(), part.clone()].concat();
        assert_eq!(find(&text, &part, 0).unwrap(), memchr::memmem::find(&text, &part));
    }
}
