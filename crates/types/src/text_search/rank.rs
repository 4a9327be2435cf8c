//! How well a document matches a query: `ts_rank` by how often and how near each other its words
//! stand, `ts_rank_cd` by how short the stretches of text are that match it.
//!
//! The arithmetic is PostgreSQL's, down to where a number is single and where double.

use super::execute::{Answer, matches};
use super::query::{Node, Operand, Operator, Query};
use super::vector::{Entry, Position, Vector};
use crate::error::Result;
use crate::pulse;

/// What a word of each weight counts, unless it is said: of `D`, `C`, `B` and `A`.
pub const DEFAULT_WEIGHTS: [f32; 4] = [0.1, 0.2, 0.4, 1.0];

const BY_LOG_LENGTH: i64 = 0x01;
const BY_LENGTH: i64 = 0x02;
const BY_DISTANCE: i64 = 0x04;
const BY_WORDS: i64 = 0x08;
const BY_LOG_WORDS: i64 = 0x10;
const TO_ONE: i64 = 0x20;

/// The place that a word without one is taken to have, and how far such words are from each other.
const NOWHERE: u16 = (1 << 14) - 1;
const FAR: i32 = 1 << 14;

fn nearness(distance: i32) -> f32 {
    if distance > 100 {
        return 1e-30;
    }
    (1.0 / (1.005 + 0.05 * f64::exp(f64::from(distance as f32) / 1.5 - 2.0))) as f32
}

/// Words of a document, each counted as often as it has positions, or once.
fn length_of(entries: &[Entry<'_>]) -> usize {
    entries.iter().map(|entry| entry.position_count().max(1)).sum()
}

/// The lexemes of a document that an operand is.
fn found<'e, 'v>(entries: &'e [Entry<'v>], operand: &Operand) -> &'e [Entry<'v>] {
    let lexeme = operand.lexeme.as_bytes();
    let begin = entries.partition_point(|entry| entry.bytes() < lexeme);
    let is_met = |entry: &Entry<'_>| {
        if operand.is_prefix { entry.bytes().starts_with(lexeme) } else { entry.bytes() == lexeme }
    };
    let count = entries[begin..].iter().take_while(|entry| is_met(entry)).count();
    &entries[begin..begin + count]
}

/// The operands of a query by lexeme, each lexeme once: of equal ones the one that PostgreSQL has
/// first in its list.
fn distinct_operands(query: &Query) -> Vec<&Operand> {
    let mut operands: Vec<&Operand> = query.operands().collect();
    operands.reverse();
    operands.sort_by(|a, b| a.lexeme.cmp(&b.lexeme));
    operands.dedup_by(|a, b| a.lexeme == b.lexeme);
    operands
}

/// `ts_rank`: `weights` are those of `D`, `C`, `B` and `A`; `norm` is the sum of PostgreSQL's bits.
///
/// # Errors
/// 57014 if the statement was cancelled.
pub fn rank(weights: &[f32; 4], vector: Vector<'_>, query: &Query, norm: i64) -> Result<f32> {
    let entries = vector.list()?;
    if entries.is_empty() || query.is_empty() {
        return Ok(0.0);
    }
    let operands = distinct_operands(query);
    let is_and = matches!(query.nodes().last(), Some(Node::Join(Operator::And | Operator::Phrase(_), ..)));
    let mut rank = if is_and && operands.len() > 1 {
        rank_of_all(weights, &entries, &operands)?
    } else {
        rank_of_any(weights, &entries, &operands)?
    };
    if rank < 0.0 {
        rank = 1e-20;
    }
    if norm & BY_LOG_LENGTH != 0 {
        rank = (f64::from(rank) / (((length_of(&entries) + 1) as f64).ln() / 2.0_f64.ln())) as f32;
    }
    if norm & BY_LENGTH != 0 {
        rank /= length_of(&entries) as f32;
    }
    if norm & BY_WORDS != 0 {
        rank /= entries.len() as f32;
    }
    if norm & BY_LOG_WORDS != 0 {
        rank = (f64::from(rank) / (((entries.len() + 1) as f64).ln() / 2.0_f64.ln())) as f32;
    }
    if norm & TO_ONE != 0 {
        rank /= rank + 1.0;
    }
    Ok(rank)
}

fn positions_or(entry: &Entry<'_>, nowhere: Position) -> Vec<Position> {
    if entry.has_positions() { entry.positions().collect() } else { vec![nowhere] }
}

fn rank_of_all(weights: &[f32; 4], entries: &[Entry<'_>], operands: &[&Operand]) -> Result<f32> {
    let nowhere = Position::new(usize::from(NOWHERE), 0);
    let weight_of = |at: &Position| weights[usize::from(at.weight())];
    // The positions of each operand that was met; of a prefix those of its last lexeme.
    let mut met: Vec<Option<(Vec<Position>, bool)>> = vec![None; operands.len()];
    let mut rank = -1.0_f32;
    for (index, operand) in operands.iter().enumerate() {
        for entry in found(entries, operand) {
            let here = positions_or(entry, nowhere);
            let is_nowhere = !entry.has_positions();
            for (there, was_nowhere) in met[..index].iter().flatten() {
                pulse::work(here.len() * there.len() * 4)?;
                for a in &here {
                    for b in there {
                        let mut distance = (i32::from(a.place()) - i32::from(b.place())).abs();
                        if distance == 0 && !(is_nowhere || *was_nowhere) {
                            continue;
                        }
                        if distance == 0 {
                            distance = FAR;
                        }
                        let product = weight_of(a) * weight_of(b) * nearness(distance);
                        let weight = f64::from(product).sqrt() as f32;
                        rank = if rank < 0.0 {
                            weight
                        } else {
                            (1.0 - (1.0 - f64::from(rank)) * (1.0 - f64::from(weight))) as f32
                        };
                    }
                }
            }
            met[index] = Some((here, is_nowhere));
        }
    }
    Ok(rank)
}

fn rank_of_any(weights: &[f32; 4], entries: &[Entry<'_>], operands: &[&Operand]) -> Result<f32> {
    let nowhere = Position::new(0, 0);
    let mut rank = 0.0_f32;
    for operand in operands {
        for entry in found(entries, operand) {
            let (mut sum, mut best, mut best_at) = (0.0_f32, -1.0_f32, 0);
            let positions = positions_or(entry, nowhere);
            pulse::work(positions.len())?;
            for (at, position) in positions.iter().enumerate() {
                let weight = weights[usize::from(position.weight())];
                sum += weight / ((at + 1) * (at + 1)) as f32;
                if weight > best {
                    (best, best_at) = (weight, at);
                }
            }
            let above = best + sum - best / ((best_at + 1) * (best_at + 1)) as f32;
            rank = (f64::from(rank) + f64::from(above) / 1.644_934_066_85) as f32;
        }
    }
    Ok(rank / operands.len() as f32)
}

/// A place of a document where operands of a query stand.
struct Place {
    position: Position,
    /// Which nodes of the query.
    operands: Vec<u32>,
}

/// Places where operands stand, in order.
fn places(entries: &[Entry<'_>], query: &Query) -> Result<Vec<Place>> {
    let mut all: Vec<(u16, u8, usize, u32)> = Vec::new();
    let first = entries.as_ptr() as usize;
    for (node, operand) in query.nodes().iter().enumerate() {
        let Node::Lexeme(operand) = operand else { continue };
        for entry in found(entries, operand) {
            let number = (std::ptr::from_ref(entry) as usize - first) / size_of::<Entry<'_>>();
            pulse::work(entry.position_count())?;
            for position in entry.positions() {
                if operand.weights == 0 || operand.weights >> position.weight() & 1 == 1 {
                    all.push((position.place(), position.weight(), number, node as u32));
                }
            }
        }
    }
    pulse::work(all.len() * 4)?;
    all.sort_unstable();
    let mut places: Vec<Place> = Vec::new();
    let mut last = None;
    for (place, weight, entry, node) in all {
        let key = (place, weight, entry);
        match places.last_mut() {
            Some(same) if last == Some(key) => same.operands.push(node),
            _ => places.push(Place { position: Position::new(usize::from(place), weight), operands: vec![node] }),
        }
        last = Some(key);
    }
    Ok(places)
}

/// Whether a query matches some places of a document: of each node, where it stands there.
struct Window {
    /// By node, in ascending order.
    at: Vec<Vec<u32>>,
}

impl Window {
    fn clear(&mut self) {
        self.at.iter_mut().for_each(Vec::clear);
    }

    /// Adds a place before or behind all that are there.
    fn add(&mut self, place: &Place, is_before: bool) {
        let number = u32::from(place.position.place());
        for &node in &place.operands {
            let had = &mut self.at[node as usize];
            if is_before && had.first() != Some(&number) {
                had.insert(0, number);
            } else if !is_before && had.last() != Some(&number) {
                had.push(number);
            }
        }
    }

    fn is_match(&self, query: &Query) -> Result<bool> {
        matches(query, &mut |_, node, places| {
            let had = &self.at[node as usize];
            if had.is_empty() {
                return Answer::No;
            }
            if let Some(places) = places {
                places.extend_from_slice(had);
            }
            Answer::Yes
        })
    }
}

/// `ts_rank_cd`: as [`rank`].
///
/// # Errors
/// 57014 if the statement was cancelled.
pub fn rank_by_cover(weights: &[f32; 4], vector: Vector<'_>, query: &Query, norm: i64) -> Result<f32> {
    let inverted = weights.map(|weight| 1.0 / f64::from(weight));
    let entries = vector.list()?;
    let places = places(&entries, query)?;
    if places.is_empty() {
        return Ok(0.0);
    }
    let mut window = Window { at: vec![Vec::new(); query.nodes().len()] };
    let (mut rank, mut distances, mut middle_before, mut covers) = (0.0_f64, 0.0_f64, 0.0_f64, 0_usize);
    let mut from = 0;
    'covers: while from < places.len() {
        // The first place up to which the text matches, and the last one from which it does.
        window.clear();
        let end = 'end: {
            for (at, place) in places.iter().enumerate().skip(from) {
                window.add(place, false);
                if window.is_match(query)? {
                    break 'end at;
                }
            }
            break 'covers;
        };
        if places[end].position.place() == 0 {
            break;
        }
        window.clear();
        let mut begin = None;
        for at in (from..=end).rev() {
            window.add(&places[at], true);
            if window.is_match(query)? {
                begin = Some(at);
                break;
            }
        }
        let Some(begin) = begin else {
            from += 1;
            continue;
        };
        let (first, last) = (places[begin].position.place(), places[end].position.place());
        if first > last {
            from += 1;
            continue;
        }
        from = begin + 1;
        let words = end - begin;
        let sum: f64 = places[begin..=end].iter().map(|place| inverted[usize::from(place.position.weight())]).sum();
        let noise = i64::from(last - first) - words as i64;
        let noise = if noise < 0 { words as i64 / 2 } else { noise };
        rank += (words + 1) as f64 / sum / (1 + noise) as f64;
        let middle = f64::from(u32::from(first) + u32::from(last)) / 2.0;
        if covers > 0 && middle > middle_before {
            distances += 1.0 / (middle - middle_before);
        }
        middle_before = middle;
        covers += 1;
    }
    if norm & BY_LOG_LENGTH != 0 {
        rank /= ((length_of(&entries) + 1) as f64).ln();
    }
    if norm & BY_LENGTH != 0 {
        rank /= length_of(&entries) as f64;
    }
    if norm & BY_DISTANCE != 0 && covers > 0 && distances > 0.0 {
        rank /= covers as f64 / distances;
    }
    if norm & BY_WORDS != 0 {
        rank /= entries.len() as f64;
    }
    if norm & BY_LOG_WORDS != 0 {
        rank /= ((entries.len() + 1) as f64).ln() / 2.0_f64.ln();
    }
    if norm & TO_ONE != 0 {
        rank /= rank + 1.0;
    }
    Ok(rank as f32)
}
