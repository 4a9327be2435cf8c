//! The characters of a pattern, sorted into classes that it does not tell apart, and texts as lists
//! of classes.

use std::collections::HashMap;
use std::rc::Rc;

use super::sets::{CharSet, Class};
use super::tree::{Ast, Place};
use crate::error::Result;
use crate::pieces::{self, Pace};

/// Which characters a pattern tells apart.
#[derive(Debug)]
pub(super) struct Classes {
    ascii: [u16; 128],
    /// The first character of each range beyond ASCII, and its class.
    ranges: Vec<(u32, u16)>,
    /// Of each class: is it part of words, is it the line break.
    pub is_word: Vec<bool>,
    pub is_newline: Vec<bool>,
    /// Of each set: which classes it holds.
    members: HashMap<*const CharSet, Vec<bool>>,
}

fn gather(ast: &Ast, sets: &mut Vec<Rc<CharSet>>, needs_words: &mut bool) {
    match ast {
        Ast::Empty => {}
        Ast::Set(set) => sets.push(set.clone()),
        Ast::Place(place) => {
            *needs_words |= matches!(place, Place::WordBegin | Place::WordEnd | Place::WordEdge | Place::NoWordEdge);
        }
        Ast::Look { inner, .. } | Ast::Repeat { inner, .. } => gather(inner, sets, needs_words),
        Ast::Concat(parts) | Ast::Alt(parts) => parts.iter().for_each(|part| gather(part, sets, needs_words)),
    }
}

impl Classes {
    /// The classes that some expressions tell apart.
    pub(super) fn new(asts: &[Rc<Ast>]) -> Self {
        let mut sets = Vec::new();
        let mut needs_words = false;
        asts.iter().for_each(|ast| gather(ast, &mut sets, &mut needs_words));
        sets.sort_by_key(Rc::as_ptr);
        sets.dedup_by_key(|set| Rc::as_ptr(set));
        let newline = CharSet::one(u32::from('\n'));
        let none = CharSet::default();
        let words = if needs_words { Class::Word.set() } else { &none };
        let all: Vec<&CharSet> = [&newline, words].into_iter().chain(sets.iter().map(|set| &**set)).collect();
        // A change of each set at the beginning of a range, and behind its end.
        let mut changes: Vec<(u32, usize)> = Vec::new();
        for (index, set) in all.iter().enumerate() {
            for &(from, to) in set.ranges() {
                changes.extend([(from, index), (to + 1, index)]);
            }
        }
        changes.sort_unstable();
        let mut signature = vec![0u64; all.len().div_ceil(64)];
        let mut known: HashMap<Vec<u64>, u16> = HashMap::new();
        let mut signatures: Vec<Vec<u64>> = Vec::new();
        let mut ranges: Vec<(u32, u16)> = Vec::new();
        let mut at = 0;
        let mut from = 0;
        loop {
            while at < changes.len() && changes[at].0 == from {
                signature[changes[at].1 / 64] ^= 1 << (changes[at].1 % 64);
                at += 1;
            }
            let class = *known.entry(signature.clone()).or_insert_with(|| {
                signatures.push(signature.clone());
                (signatures.len() - 1) as u16
            });
            ranges.push((from, class));
            match changes.get(at) {
                Some(&(next, _)) => from = next,
                None => break,
            }
        }
        let member = |index: usize| -> Vec<bool> {
            signatures.iter().map(|signature| signature[index / 64] >> (index % 64) & 1 == 1).collect()
        };
        let mut out = Self {
            ascii: [0; 128],
            is_newline: member(0),
            is_word: member(1),
            members: sets.iter().enumerate().map(|(index, set)| (Rc::as_ptr(set), member(index + 2))).collect(),
            ranges,
        };
        for c in 0..128 {
            out.ascii[c as usize] = out.look_up(c);
        }
        out
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.is_word.len()
    }

    fn look_up(&self, c: u32) -> u16 {
        let at = self.ranges.partition_point(|&(from, _)| from <= c);
        self.ranges[at.saturating_sub(1)].1
    }

    #[inline]
    pub(super) fn of(&self, c: char) -> u16 {
        match self.ascii.get(c as usize) {
            Some(&class) => class,
            None => self.look_up(u32::from(c)),
        }
    }

    /// Which classes a set holds.
    pub(super) fn members(&self, set: &Rc<CharSet>) -> Vec<bool> {
        self.members.get(&Rc::as_ptr(set)).cloned().unwrap_or_else(|| vec![false; self.count()])
    }
}

/// A text as a pattern sees it. Places in it are counted in characters.
#[derive(Debug)]
pub(super) struct Subject<'text> {
    pub text: &'text str,
    pub classes: Vec<u16>,
    /// The first byte of every 64th character, unless all are ASCII.
    marks: Vec<usize>,
}

impl<'text> Subject<'text> {
    pub(super) fn new(text: &'text str, classes: &Classes) -> Result<Self> {
        let is_ascii = text.is_ascii();
        let mut ids: Vec<u16> = Vec::with_capacity(text.len());
        let (mut marks, mut piece_at) = (Vec::new(), 0);
        for piece in pieces::of_text(text, Pace::Computed) {
            let piece = piece?;
            if is_ascii {
                ids.extend(piece.bytes().map(|byte| classes.ascii[usize::from(byte)]));
                continue;
            }
            for (byte, c) in piece.char_indices() {
                if ids.len().is_multiple_of(64) {
                    marks.push(piece_at + byte);
                }
                ids.push(classes.of(c));
            }
            piece_at += piece.len();
        }
        Ok(Self { text, classes: ids, marks })
    }

    /// How many characters it has.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// The byte at which a character begins.
    pub(super) fn byte(&self, at: usize) -> usize {
        if self.marks.is_empty() {
            return at.min(self.text.len());
        }
        let Some(&mark) = self.marks.get(at / 64) else { return self.text.len() };
        self.text[mark..].char_indices().nth(at % 64).map_or(self.text.len(), |(byte, _)| mark + byte)
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> &'text str {
        &self.text[self.byte(from)..self.byte(to)]
    }
}
