//! Whether a document matches a query.
//!
//! Nodes are answered in their order, operands before operators. Where a phrase is above a node, its
//! answer has the places where it matches; a place is that of the last word, and `width` says how
//! many places before it the first one stands.
//!
//! A word whose positions were stripped may stand anywhere: within a phrase the answer is *maybe*,
//! which the phrase makes a no.

use super::query::{Node, Operand, Operator, Query};
use super::vector::{Entry, Vector};
use crate::error::Result;
use crate::pulse;

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    No,
    Maybe,
    Yes,
}

/// Where a node matches, for one that is within a phrase.
#[derive(Debug, Clone)]
struct Places {
    answer: Answer,
    /// In ascending order.
    places: Vec<u32>,
    /// Whether it matches everywhere but at these places.
    is_negated: bool,
    width: u32,
}

impl Places {
    fn of(answer: Answer) -> Self {
        Self { answer, places: Vec::new(), is_negated: false, width: 0 }
    }
}

enum Found {
    Plain(Answer),
    Placed(Places),
}

impl Found {
    fn answer(&self) -> Answer {
        match self {
            Self::Plain(answer) => *answer,
            Self::Placed(places) => places.answer,
        }
    }
}

/// What finds an operand in a document: the operand, its place among the query's nodes, and where
/// to put the places of the word if they matter. The answer is yes where there are places.
pub(super) type Find<'f> = dyn FnMut(&Operand, u32, Option<&mut Vec<u32>>) -> Answer + 'f;

/// Which nodes are within a phrase: where they match matters.
fn placed(query: &Query) -> Vec<bool> {
    let nodes = query.nodes();
    let mut is_placed = vec![false; nodes.len()];
    for (at, node) in nodes.iter().enumerate().rev() {
        match node {
            Node::Join(operator, left, right) => {
                let below = is_placed[at] || matches!(operator, Operator::Phrase(_));
                (is_placed[*left as usize], is_placed[*right as usize]) = (below, below);
            }
            Node::Not(inner) => is_placed[*inner as usize] = is_placed[at],
            Node::Lexeme(_) | Node::Stop => {}
        }
    }
    is_placed
}

/// Whether a query matches, by what finds its operands.
pub(super) fn matches(query: &Query, find: &mut Find<'_>) -> Result<bool> {
    let nodes = query.nodes();
    let is_placed = placed(query);
    let mut found: Vec<Found> = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        pulse::work(2)?;
        let is_placed = is_placed[at];
        let answer = match node {
            Node::Stop => Found::Plain(Answer::No),
            Node::Lexeme(operand) if is_placed => {
                let mut places = Vec::new();
                let answer = find(operand, at as u32, Some(&mut places));
                pulse::work(places.len() / 4)?;
                Found::Placed(Places { places, ..Places::of(answer) })
            }
            Node::Lexeme(operand) => Found::Plain(find(operand, at as u32, None)),
            Node::Not(inner) => negated(&found[*inner as usize]),
            Node::Join(operator, left, right) => {
                let (left, right) = (&found[*left as usize], &found[*right as usize]);
                match (left, right) {
                    (Found::Placed(left), Found::Placed(right)) => {
                        pulse::work((left.places.len() + right.places.len()) / 4)?;
                        let joined = joined(*operator, left, right);
                        if is_placed {
                            Found::Placed(joined)
                        } else {
                            // The topmost phrase: what may match does not.
                            let is_match = joined.answer == Answer::Yes;
                            Found::Plain(if is_match { Answer::Yes } else { Answer::No })
                        }
                    }
                    _ => Found::Plain(plain(*operator, left.answer(), right.answer())),
                }
            }
        };
        found.push(answer);
    }
    Ok(found.last().is_some_and(|root| root.answer() != Answer::No))
}

fn plain(operator: Operator, left: Answer, right: Answer) -> Answer {
    let (worse, better) = if (left as u8) < right as u8 { (left, right) } else { (right, left) };
    if operator == Operator::Or { better } else { worse }
}

fn negated(inner: &Found) -> Found {
    match inner {
        Found::Plain(answer) => Found::Plain(match answer {
            Answer::No => Answer::Yes,
            Answer::Maybe => Answer::Maybe,
            Answer::Yes => Answer::No,
        }),
        Found::Placed(inner) => Found::Placed(match inner.answer {
            Answer::Maybe => Places::of(Answer::Maybe),
            Answer::No => Places { is_negated: true, width: inner.width, ..Places::of(Answer::Yes) },
            Answer::Yes if inner.places.is_empty() => Places { width: inner.width, ..Places::of(Answer::No) },
            Answer::Yes => Places { is_negated: !inner.is_negated, ..inner.clone() },
        }),
    }
}

/// Which places of two lists are kept: those of the left one only, of the right one only, of both.
#[derive(Clone, Copy)]
struct Keep {
    left: bool,
    right: bool,
    both: bool,
}

const ALL: Keep = Keep { left: true, right: true, both: true };
const BOTH: Keep = Keep { left: false, right: false, both: true };
const LEFT: Keep = Keep { left: true, right: false, both: false };
const RIGHT: Keep = Keep { left: false, right: true, both: false };

fn joined(operator: Operator, left: &Places, right: &Places) -> Places {
    let is_or = operator == Operator::Or;
    let none = left.answer == Answer::No && right.answer == Answer::No;
    let one = left.answer == Answer::No || right.answer == Answer::No;
    if none || one && !is_or {
        return Places::of(Answer::No);
    }
    if left.answer == Answer::Maybe || right.answer == Answer::Maybe {
        return Places::of(Answer::Maybe);
    }
    // The width of what does not match means nothing.
    let width_of = |side: &Places| if side.answer == Answer::No { 0 } else { side.width };
    let (left_width, right_width) = (width_of(left), width_of(right));
    let (left_shift, right_shift, width) = match operator {
        Operator::Phrase(distance) => {
            let distance = u32::from(distance);
            (distance + right_width, 0, distance + left_width + right_width)
        }
        Operator::And | Operator::Or => {
            let width = left_width.max(right_width);
            (width - left_width, width - right_width, width)
        }
    };
    let (keep, is_negated) = match (is_or, left.is_negated, right.is_negated) {
        (false, true, true) => (ALL, true),
        (false, true, false) => (RIGHT, false),
        (false, false, true) => (LEFT, false),
        (false, false, false) => (BOTH, false),
        (true, true, true) => (BOTH, true),
        (true, true, false) => (LEFT, true),
        (true, false, true) => (RIGHT, true),
        (true, false, false) => (ALL, false),
    };
    let places = merged(&left.places, left_shift, &right.places, right_shift, keep);
    let answer = if is_negated || !places.is_empty() { Answer::Yes } else { Answer::No };
    Places { answer, places, is_negated, width }
}

fn merged(left: &[u32], left_shift: u32, right: &[u32], right_shift: u32, keep: Keep) -> Vec<u32> {
    let mut places = Vec::new();
    let (mut left, mut right) =
        (left.iter().map(|at| at + left_shift).peekable(), right.iter().map(|at| at + right_shift).peekable());
    loop {
        let (place, is_kept) = match (left.peek().copied(), right.peek().copied()) {
            (None, None) => break,
            (Some(a), Some(b)) if a == b => {
                left.next();
                right.next();
                (a, keep.both)
            }
            (Some(a), b) if b.is_none_or(|b| a < b) => {
                left.next();
                (a, keep.left)
            }
            (_, Some(b)) => {
                right.next();
                (b, keep.right)
            }
            (Some(_), None) => break,
        };
        if is_kept && place > 0 {
            places.push(place);
        }
    }
    places
}

/// A document's lexemes, to be searched.
struct Document<'v>(Vec<Entry<'v>>);

impl Document<'_> {
    /// The answer of one lexeme, and its places.
    fn of_entry(entry: &Entry<'_>, operand: &Operand, places: Option<&mut Vec<u32>>) -> Answer {
        if !entry.has_positions() {
            // Whatever weights are asked for.
            return if places.is_some() { Answer::Maybe } else { Answer::Yes };
        }
        let mut counting =
            entry.positions().filter(|at| operand.weights == 0 || operand.weights >> at.weight() & 1 == 1);
        match places {
            None if operand.weights == 0 => Answer::Yes,
            None => {
                if counting.next().is_some() {
                    Answer::Yes
                } else {
                    Answer::No
                }
            }
            Some(places) => {
                let before = places.len();
                places.extend(counting.map(|at| u32::from(at.place())));
                if places.len() > before { Answer::Yes } else { Answer::No }
            }
        }
    }

    fn find(&self, operand: &Operand, mut places: Option<&mut Vec<u32>>) -> Answer {
        let lexeme = operand.lexeme.as_bytes();
        let begin = self.0.partition_point(|entry| entry.bytes() < lexeme);
        if !operand.is_prefix {
            return match self.0.get(begin).filter(|entry| entry.bytes() == lexeme) {
                Some(entry) => Self::of_entry(entry, operand, places),
                None => Answer::No,
            };
        }
        let mut answer = Answer::No;
        for entry in self.0[begin..].iter().take_while(|entry| entry.bytes().starts_with(lexeme)) {
            match (Self::of_entry(entry, operand, places.as_deref_mut()), &mut places) {
                (Answer::No, _) => {}
                (Answer::Maybe, Some(places)) => {
                    places.clear();
                    return Answer::Maybe;
                }
                (found, Some(_)) => answer = found,
                (found, None) => return found,
            }
        }
        if let Some(places) = places {
            places.sort_unstable();
            places.dedup();
        }
        answer
    }
}

/// A query of more operands is looked for in a list of all lexemes.
const OPERANDS_MAX: usize = 8;

/// Where the few operands of a query stand in a document, found on one way through it.
struct Occurrences<'v> {
    /// Nodes of the query, with what stands for them.
    found: [Option<(u32, Entry<'v>)>; OPERANDS_MAX],
}

impl<'v> Occurrences<'v> {
    /// `None` if there are too many operands, or some that stand for all lexemes that begin so.
    fn of(vector: Vector<'v>, query: &Query) -> Result<Option<Self>> {
        let mut wanted: [(&[u8], u32); OPERANDS_MAX] = [(&[], 0); OPERANDS_MAX];
        let mut count = 0;
        for (node, operand) in query.nodes().iter().enumerate() {
            let Node::Lexeme(operand) = operand else { continue };
            if operand.is_prefix || count == OPERANDS_MAX {
                return Ok(None);
            }
            wanted[count] = (operand.lexeme.as_bytes(), node as u32);
            count += 1;
        }
        let wanted = &mut wanted[..count];
        wanted.sort_unstable();
        vector.count_work()?;
        let mut found = [None; OPERANDS_MAX];
        let mut at = 0;
        for entry in vector.entries() {
            while let Some((lexeme, node)) = wanted.get(at).filter(|(lexeme, _)| *lexeme <= entry.bytes()) {
                if *lexeme == entry.bytes() {
                    found[at] = Some((*node, entry));
                }
                at += 1;
            }
            if at == wanted.len() {
                break;
            }
        }
        Ok(Some(Self { found }))
    }

    fn answer(&self, operand: &Operand, node: u32, places: Option<&mut Vec<u32>>) -> Answer {
        match self.found.iter().flatten().find(|(known, _)| *known == node) {
            Some((_, entry)) => Document::of_entry(entry, operand, places),
            None => Answer::No,
        }
    }
}

/// Whether a document matches a query: `@@`.
///
/// # Errors
/// 57014 if the statement was cancelled.
pub fn is_match(vector: Vector<'_>, query: &Query) -> Result<bool> {
    if let Some(found) = Occurrences::of(vector, query)? {
        return matches(query, &mut |operand, node, places| found.answer(operand, node, places));
    }
    let document = Document(vector.list()?);
    matches(query, &mut |operand, _, places| document.find(operand, places))
}

/// Whether a document with some lexemes can match a query, where positions and weights are not
/// known: `has` says whether it has the lexeme, or one with the prefix. False means that it cannot.
#[must_use]
pub fn lexemes_match(query: &Query, mut has: impl FnMut(&str, bool) -> bool) -> bool {
    let mut found: Vec<Answer> = Vec::with_capacity(query.nodes().len());
    let is_placed = placed(query);
    for (at, node) in query.nodes().iter().enumerate() {
        let answer = match node {
            Node::Stop => Answer::No,
            Node::Lexeme(operand) => match has(&operand.lexeme, operand.is_prefix) {
                // Within a phrase a word that is there need not be where it is asked for.
                true if operand.weights == 0 && !is_placed[at] => Answer::Yes,
                true => Answer::Maybe,
                false => Answer::No,
            },
            Node::Not(inner) => match found[*inner as usize] {
                Answer::No => Answer::Yes,
                Answer::Maybe => Answer::Maybe,
                Answer::Yes => Answer::No,
            },
            Node::Join(Operator::Phrase(_), left, right) => {
                match plain(Operator::And, found[*left as usize], found[*right as usize]) {
                    Answer::Yes => Answer::Maybe,
                    other => other,
                }
            }
            Node::Join(operator, left, right) => plain(*operator, found[*left as usize], found[*right as usize]),
        };
        found.push(answer);
    }
    found.last().is_some_and(|root| *root != Answer::No)
}
