//! Trigrams: what texts have in common that look alike, as `pg_trgm` has them.
//!
//! ```text
//! word    := letters and digits in a row, in lower case
//! trigram := three characters in a row of a word with two blanks before and one behind it
//! token   := the trigram's three bytes; of one with other characters than ASCII, three bytes of a
//!            checksum of its UTF-8
//! ```
//! ON DISK: none of this may change. The checksum is PostgreSQL's, so that `show_trgm` shows the
//! same.

use std::sync::OnceLock;

use super::{Query, Tokens, pattern};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::key::Key;
use crate::letters;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

/// A trigram.
pub type Trigram = [u8; 3];

pub(super) const OPERATORS: &[&str] = &["%", "%>", "%>>", "~~", "~~*", "~", "~*", "="];

pub(super) fn takes(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar)
}

/// Trigrams that are gathered before those that are the same are made one.
const TRIGRAMS_AT_ONCE: usize = 1 << 16;
/// Trigrams that are looked up between two chances for others.
const KINDS_AT_ONCE: usize = 1 << 12;
/// The longest text of which every trigram is kept in its place.
const WORDS_BYTES_MAX: usize = 1 << 24;

/// Whether a word begins or ends with a trigram.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Edge {
    begins: bool,
    ends: bool,
}

/// A text in the form that its trigrams are taken of.
fn folded(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces::of_text(text, Pace::Computed) {
        out.extend(piece?.chars().map(letters::lower));
    }
    Ok(out)
}

/// Calls `visit` with the trigrams of a text in their order, as often as they come, and whether words
/// begin or end there.
fn for_each(text: &str, visit: &mut dyn FnMut(Trigram, Edge)) -> Result<()> {
    // The last two characters of the word at hand.
    let mut before: Option<[char; 2]> = None;
    for piece in pieces::of_text(text, Pace::Computed) {
        for c in piece?.chars().map(letters::lower) {
            match (before, letters::is_alnum(c)) {
                (Some([one, two]), true) => {
                    visit(packed([one, two, c]), Edge::default());
                    before = Some([two, c]);
                }
                (None, true) => {
                    visit(packed([' ', ' ', c]), Edge { begins: true, ends: false });
                    before = Some([' ', c]);
                }
                (Some([one, two]), false) => {
                    visit(packed([one, two, ' ']), Edge { begins: false, ends: true });
                    before = None;
                }
                (None, false) => {}
            }
        }
    }
    if let Some([one, two]) = before {
        visit(packed([one, two, ' ']), Edge { begins: false, ends: true });
    }
    Ok(())
}

/// The trigrams of a word in lower case, with blanks where it is known to begin and to end.
pub(super) fn of_word(word: &str, begins: bool, ends: bool, out: &mut Vec<Trigram>) {
    let blanks = |count: usize| std::iter::repeat_n(' ', count);
    let padded = blanks(if begins { 2 } else { 0 }).chain(word.chars()).chain(blanks(usize::from(ends)));
    let (mut one, mut two) = (None, None);
    for three in padded {
        if let (Some(one), Some(two)) = (one, two) {
            out.push(packed([one, two, three]));
        }
        (one, two) = (two, Some(three));
    }
}

fn packed(characters: [char; 3]) -> Trigram {
    if characters.iter().all(char::is_ascii) {
        return characters.map(|c| c as u8);
    }
    let mut bytes = [0; 12];
    let mut length = 0;
    for c in characters {
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    let [a, b, c, _] = checksum(&bytes[..length]).to_le_bytes();
    [a, b, c]
}

/// A checksum with the table of the reflected polynomial, but shifted the other way.
fn checksum(bytes: &[u8]) -> u32 {
    static TABLE: OnceLock<[u32; 256]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|at| {
            (0..8).fold(at as u32, |entry, _| if entry & 1 == 1 { entry >> 1 ^ 0xedb8_8320 } else { entry >> 1 })
        })
    });
    !bytes.iter().fold(u32::MAX, |sum, &byte| table[usize::from((sum >> 24) as u8 ^ byte)] ^ sum << 8)
}

/// The trigrams of a text, in order, each once.
///
/// # Errors
/// The statement was cancelled.
pub fn of_text(text: &str) -> Result<Vec<Trigram>> {
    let mut trigrams: Vec<Trigram> = Vec::new();
    let mut room = TRIGRAMS_AT_ONCE;
    let distinct = |trigrams: &mut Vec<Trigram>| {
        trigrams.sort_unstable_by_key(order);
        trigrams.dedup();
    };
    for_each(text, &mut |trigram, _| {
        trigrams.push(trigram);
        if trigrams.len() == room {
            distinct(&mut trigrams);
            room = trigrams.len() + TRIGRAMS_AT_ONCE;
        }
    })?;
    pulse::work(trigrams.len())?;
    distinct(&mut trigrams);
    Ok(trigrams)
}

/// The order of PostgreSQL, whose bytes have a sign.
fn order(trigram: &Trigram) -> [i8; 3] {
    trigram.map(|byte| byte as i8)
}

/// As `show_trgm` shows a trigram.
#[must_use]
pub fn shown(trigram: Trigram) -> String {
    let is_shown = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b' ';
    match trigram {
        [a, b, c] if !trigram.iter().all(is_shown) => format!("0x{a:02x}{b:02x}{c:02x}"),
        trigram => trigram.iter().map(|&byte| char::from(byte)).collect(),
    }
}

fn share(common: usize, one: usize, other: usize) -> f32 {
    common as f32 / (one + other - common) as f32
}

/// How many of two texts' trigrams they have in common, from 0 to 1.
///
/// # Errors
/// The statement was cancelled.
pub fn similarity(one: &str, other: &str) -> Result<f32> {
    let (one, other) = (of_text(one)?, of_text(other)?);
    if one.is_empty() || other.is_empty() {
        return Ok(0.0);
    }
    let (mut at, mut common) = (0, 0);
    for trigram in &one {
        while other.get(at).is_some_and(|other| order(other) < order(trigram)) {
            at += 1;
        }
        common += usize::from(other.get(at) == Some(trigram));
    }
    pulse::work(one.len() + other.len())?;
    Ok(share(common, one.len(), other.len()))
}

/// The greatest similarity between a text's trigrams and a part of another text: of trigrams in a
/// row, or of whole words if `is_strict`.
///
/// # Errors
/// The text is too long (54000); the statement was cancelled.
pub fn word_similarity(wanted: &str, text: &str, is_strict: bool) -> Result<f32> {
    if text.len() > WORDS_BYTES_MAX {
        let message = format!("a text of {} bytes is too long for its words to be compared", text.len());
        return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
    }
    let wanted = of_text(wanted)?;
    let (mut trigrams, mut edges) = (Vec::new(), Vec::new());
    for_each(text, &mut |trigram, edge| {
        trigrams.push(trigram);
        edges.push(edge);
    })?;
    // Bug: all trigrams were sorted at once. Consequence: a text of 16 MB could not be cancelled for
    // 150 ms. Fix: they are sorted part by part.
    let kinds = of_text(text)?;
    // Which of the text's trigrams are wanted.
    let mut is_wanted = vec![false; kinds.len()];
    for trigram in &wanted {
        if let Ok(at) = kinds.binary_search_by_key(&order(trigram), order) {
            is_wanted[at] = true;
        }
    }
    let kind_of = |trigram: &Trigram| kinds.binary_search_by_key(&order(trigram), order).unwrap_or_default();
    let mut row: Vec<usize> = Vec::with_capacity(trigrams.len());
    for part in trigrams.chunks(KINDS_AT_ONCE) {
        pulse::work(part.len() * 8)?;
        row.extend(part.iter().map(kind_of));
    }
    let part = Parts { row: &row, edges: &edges, is_wanted: &is_wanted, wanted: wanted.len(), is_strict };
    part.most_alike()
}

/// The parts of a text that are compared with what is wanted.
struct Parts<'p> {
    row: &'p [usize],
    edges: &'p [Edge],
    is_wanted: &'p [bool],
    wanted: usize,
    is_strict: bool,
}

impl Parts<'_> {
    /// A part grows on its right, and shrinks on its left as long as that makes it more alike.
    fn most_alike(&self) -> Result<f32> {
        let mut last_at: Vec<Option<usize>> = vec![None; self.is_wanted.len()];
        let mut lower: Option<usize> = self.is_strict.then_some(0);
        // Different trigrams of the part, and those of them that are wanted.
        let (mut different, mut common) = (0, 0);
        let mut best = 0.0_f32;
        for (at, &kind) in self.row.iter().enumerate() {
            pulse::work(1)?;
            if lower.is_some() || self.is_wanted[kind] {
                if last_at[kind].is_none() {
                    different += 1;
                    common += usize::from(self.is_wanted[kind]);
                }
                last_at[kind] = Some(at);
            }
            let is_end = if self.is_strict { self.edges[at].ends } else { self.is_wanted[kind] };
            if !is_end {
                continue;
            }
            let begin = *lower.get_or_insert_with(|| {
                different = 1;
                at
            });
            let mut alike = share(common, self.wanted, different);
            let (mut kept, mut kept_different, mut kept_common) = (begin, different, common);
            let (mut now_different, mut now_common) = (different, common);
            for start in begin..=at {
                pulse::work(1)?;
                if !self.is_strict || self.edges[start].begins {
                    let shorter = share(now_common, self.wanted, now_different);
                    if shorter > alike {
                        alike = shorter;
                        (kept, kept_different, kept_common) = (start, now_different, now_common);
                    }
                }
                let kind = self.row[start];
                if last_at[kind] == Some(start) {
                    now_different -= 1;
                    now_common -= usize::from(self.is_wanted[kind]);
                }
            }
            (different, common) = (kept_different, kept_common);
            lower = Some(kept);
            best = best.max(alike);
            for (start, &kind) in self.row.iter().enumerate().take(kept).skip(begin) {
                if last_at[kind] == Some(start) {
                    last_at[kind] = None;
                }
            }
        }
        Ok(best)
    }
}

/// An operator class of texts.
pub(super) struct Trigrams;

impl Tokens for Trigrams {
    fn of_value(&self, _: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Datum::Text(text) = value else { return Ok(()) };
        of_text(text)?.iter().for_each(|trigram| out(trigram));
        Ok(())
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, env: &Env) -> Result<Query> {
        let Datum::Text(operand) = operand else { return Ok(Query::All) };
        let limits = &env.trigram_thresholds;
        Ok(match operator {
            "=" => Query::all_of(of_text(operand)?.iter().map(|trigram| Query::token(trigram))),
            "~~" => pattern::of_like(operand)?,
            "~~*" => pattern::of_like(&folded(operand)?)?,
            "~" => pattern::of_regular(operand, false)?,
            "~*" => pattern::of_regular(operand, true)?,
            "%" => some_of(operand, limits.similarity)?,
            "%>" => some_of(operand, limits.word_similarity)?,
            "%>>" => some_of(operand, limits.strict_word_similarity)?,
            _ => Query::All,
        })
    }
}

/// The share of a text's trigrams that another one has to have: as what is alike is divided by more
/// than these, it has as many at least.
fn some_of(text: &str, limit: f64) -> Result<Query> {
    let trigrams = of_text(text)?;
    if limit <= 0.0 {
        return Ok(Query::All);
    }
    let suffices = |count: &usize| f64::from(*count as f32 / trigrams.len() as f32) >= limit;
    let Some(count) = (1..=trigrams.len()).find(suffices) else { return Ok(Query::Nothing) };
    Ok(Query::at_least(count, trigrams.iter().map(|trigram| Key::from_slice(trigram)).collect()))
}
