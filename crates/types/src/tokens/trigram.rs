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
use crate::error::Result;
use crate::functions::text;
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

/// From where on texts count as alike: the settings `pg_trgm.*`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// `%`
    pub similarity: f64,
    /// `<%` and `%>`
    pub word_similarity: f64,
    /// `<<%` and `%>>`
    pub strict_word_similarity: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { similarity: 0.3, word_similarity: 0.6, strict_word_similarity: 0.5 }
    }
}

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

/// The trigrams of a text in their order, as often as they come, with whether words begin or end
/// there.
fn in_order(text: &str) -> Result<(Vec<Trigram>, Vec<Edge>)> {
    let (mut trigrams, mut edges) = (Vec::new(), Vec::new());
    for word in folded(text)?.split(|c| !letters::is_alnum(c)).filter(|word| !word.is_empty()) {
        pulse::work(word.len())?;
        let first = trigrams.len();
        of_word(word, true, true, &mut trigrams);
        edges.resize(trigrams.len(), Edge::default());
        if let [begin, ..] = &mut edges[first..] {
            begin.begins = true;
        }
        if let [.., end] = &mut edges[first..] {
            end.ends = true;
        }
    }
    Ok((trigrams, edges))
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
    let (mut trigrams, _) = in_order(text)?;
    // The order of bytes with a sign.
    trigrams.sort_unstable_by_key(|trigram| trigram.map(|byte| byte as i8));
    trigrams.dedup();
    Ok(trigrams)
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
    let order = |trigram: &Trigram| trigram.map(|byte| byte as i8);
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
/// The statement was cancelled.
pub fn word_similarity(wanted: &str, text: &str, is_strict: bool) -> Result<f32> {
    let wanted = of_text(wanted)?;
    let (trigrams, edges) = in_order(text)?;
    let mut kinds = trigrams.clone();
    kinds.sort_unstable();
    kinds.dedup();
    pulse::work(trigrams.len() * 4)?;
    // Which of the text's trigrams are wanted.
    let mut is_wanted = vec![false; kinds.len()];
    for trigram in &wanted {
        if let Ok(at) = kinds.binary_search(trigram) {
            is_wanted[at] = true;
        }
    }
    let kind_of = |trigram: &Trigram| kinds.binary_search(trigram).unwrap_or_default();
    let row: Vec<usize> = trigrams.iter().map(kind_of).collect();
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
        of_text(text(value)?)?.iter().for_each(|trigram| out(trigram));
        Ok(())
    }

    fn query(&self, _: Type, operator: &str, operand: &Datum, env: &Env) -> Result<Query> {
        let operand = text(operand)?;
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
