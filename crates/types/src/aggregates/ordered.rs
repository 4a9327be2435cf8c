//! Ordered-set and hypothetical aggregates: `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`.
//!
//! A row's arguments are the values of WITHIN GROUP first, and the direct ones behind them, which are
//! the same in all rows. Rows come in the order that WITHIN GROUP says, where that matters.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Aggregate, State, a, wrong};
use crate::error::{Error, Result, SqlState};
use crate::interval::Interval;
use crate::operators::compare;
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

/// Values of a group, and the fraction, or the fractions, of them that is asked for. They come in
/// order, or in any order; then the ones that are asked for are put in their places in the end.
#[derive(Debug, Clone, Default)]
pub struct Percentile {
    values: Vec<Datum>,
    fractions: Datum,
    comes_in_any_order: bool,
    /// Places that have the values that they have in ascending order.
    placed: BTreeSet<usize>,
}

/// No more values than this are put in order one by one.
const FEW_VALUES: usize = 16;
/// Values that are looked at between two polls.
const VALUES_PER_POLL: usize = 256;

impl Percentile {
    /// Of values that come in any order, and are to be ascending.
    fn of_any_order() -> Self {
        Self { comes_in_any_order: true, ..Self::default() }
    }

    /// Whether the outcome is the same in whichever order values come.
    pub(super) fn comes_in_any_order(&self) -> bool {
        self.comes_in_any_order
    }

    /// Takes in the values of another one.
    pub(super) fn combine(&mut self, other: &Self) {
        self.values.extend_from_slice(&other.values);
        if self.fractions.is_null() {
            self.fractions = other.fractions.clone();
        }
    }

    /// The value at a place in ascending order.
    fn at(&mut self, place: usize) -> Result<&Datum> {
        if self.comes_in_any_order && !self.placed.contains(&place) {
            // What stands between two values in their places is between them.
            let low = self.placed.range(..place).next_back().map_or(0, |before| before + 1);
            let high = self.placed.range(place..).next().copied().unwrap_or(self.values.len());
            put_in_place(&mut self.values[low..high], place - low)?;
            self.placed.insert(place);
        }
        Ok(&self.values[place])
    }

    pub(super) fn add(&mut self, args: &[&Datum]) -> Result<()> {
        let [value, fractions] = args else { return Err(Error::internal("a percentile without a fraction")) };
        if self.fractions.is_null() {
            self.fractions = (*fractions).clone();
        }
        if !value.is_null() {
            self.values.push((*value).clone());
        }
        Ok(())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Datum>()
    }

    /// With values in between, or those that there are.
    pub(super) fn finish(&mut self, is_continuous: bool) -> Result<Datum> {
        let (fractions, has_none) = (std::mem::take(&mut self.fractions), self.values.is_empty());
        let mut at = |fraction: &Datum| match fraction {
            Datum::Float(fraction) if !(0.0..=1.0).contains(fraction) => {
                let message = format!("percentile value {fraction} is not between 0 and 1");
                Err(Error::new(SqlState::OUT_OF_RANGE, message))
            }
            Datum::Float(_) if self.values.is_empty() => Ok(Datum::Null),
            Datum::Float(fraction) if is_continuous => self.between(*fraction),
            Datum::Float(fraction) => {
                let rank = (fraction * self.values.len() as f64).ceil().max(1.0) as usize;
                self.at(rank.min(self.values.len()) - 1).cloned()
            }
            _ => Ok(Datum::Null),
        };
        match &fractions {
            Datum::Array(_) if has_none => Ok(Datum::Null),
            Datum::Array(fractions) => {
                let found = fractions.values().iter().map(at).collect::<Result<Vec<Datum>>>()?;
                Ok(Datum::Array(Arc::new(fractions.with_values(Type::Unknown, found))))
            }
            fraction => at(fraction),
        }
    }

    fn between(&mut self, fraction: f64) -> Result<Datum> {
        let place = fraction * (self.values.len() - 1) as f64;
        let share = place - place.floor();
        let below = self.at(place.floor() as usize)?.clone();
        if share == 0.0 {
            return Ok(below);
        }
        match (&below, self.at(place.ceil() as usize)?) {
            (Datum::Float(below), Datum::Float(above)) => Ok(Datum::Float(below + share * (above - below))),
            (Datum::Interval(below), Datum::Interval(above)) => {
                let difference: Interval = above.sub(*below)?;
                Ok(Datum::Interval(below.add(difference.mul(share)?)?))
            }
            (value, _) => Err(wrong(value)),
        }
    }
}

/// Puts the value that belongs at a place in ascending order there, those before it in front of it
/// and those behind it behind it.
fn put_in_place(values: &mut [Datum], place: usize) -> Result<()> {
    let (mut low, mut high) = (0, values.len());
    let mut random = values.len() as u64;
    while high - low > FEW_VALUES {
        let mut any = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            low + (random >> 33) as usize % (high - low)
        };
        // The middle one of three.
        let mut three = [any(), any(), any()];
        three.sort_by(|&one, &other| compare(&values[one], &values[other]));
        let pivot = values[three[1]].clone();
        // before `less`: less than it; `less..at`: equal to it; `at..greater`: not looked at yet
        let (mut less, mut at, mut greater) = (low, low, high);
        while at < greater {
            if (at + high - greater).is_multiple_of(VALUES_PER_POLL) {
                pulse::work(VALUES_PER_POLL)?;
            }
            match compare(&values[at], &pivot) {
                Ordering::Less => {
                    values.swap(less, at);
                    (less, at) = (less + 1, at + 1);
                }
                Ordering::Equal => at += 1,
                Ordering::Greater => {
                    greater -= 1;
                    values.swap(at, greater);
                }
            }
        }
        match place {
            place if place < less => high = less,
            place if place >= greater => low = greater,
            _ => return Ok(()),
        }
    }
    values[low..high].sort_by(compare);
    Ok(())
}

/// The value that most rows have, in order: the first of several.
#[derive(Debug, Clone, Default)]
pub struct Mode {
    most: (u64, Datum),
    last: (u64, Datum),
}

impl Mode {
    pub(super) fn add(&mut self, value: &Datum) {
        let is_same = self.last.0 > 0 && compare(value, &self.last.1).is_eq();
        if is_same {
            self.last.0 += 1;
        } else {
            self.last = (1, value.clone());
        }
        if self.last.0 > self.most.0 {
            self.most = self.last.clone();
        }
    }

    pub(super) fn finish(&mut self) -> Datum {
        std::mem::take(&mut self.most.1)
    }
}

/// What is asked of the place that a row would have among those of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// `rank`
    Rank,
    /// `dense_rank`
    Dense,
    /// `percent_rank`
    Percent,
    /// `cume_dist`
    Cumulative,
}

/// How many rows come before a hypothetical one.
#[derive(Debug, Clone)]
pub struct Hypothetical {
    rank: Rank,
    rows: u64,
    before: u64,
    equal: u64,
    /// Different ones among those before, if rows come in order.
    different: u64,
    last: Vec<Datum>,
}

/// Of a key of WITHIN GROUP, in the number behind the arguments: it is descending.
pub const DESCENDING: i64 = 1;
/// Its NULLs come first.
pub const NULLS_FIRST: i64 = 2;
/// How many bits a key has.
pub const KEY_BITS: usize = 2;
/// The most keys of WITHIN GROUP of a hypothetical aggregate.
pub const KEYS_MAX: usize = 31;

impl Hypothetical {
    fn new(rank: Rank) -> Self {
        Self { rank, rows: 0, before: 0, equal: 0, different: 0, last: Vec::new() }
    }

    /// The row's values, the hypothetical row's, and how each is ordered.
    pub(super) fn add(&mut self, args: &[&Datum]) -> Result<()> {
        let Some((Datum::Int(order), values)) = args.split_last() else {
            return Err(Error::internal("a hypothetical aggregate without an order"));
        };
        let (row, hypothetical) = values.split_at(values.len() / 2);
        self.rows += 1;
        match compare_rows(row, hypothetical, *order) {
            Ordering::Less => {
                self.before += 1;
                let is_same = self.last.len() == row.len()
                    && compare_rows(row, &self.last.iter().collect::<Vec<_>>(), *order).is_eq();
                if !is_same && self.rank == Rank::Dense {
                    self.different += 1;
                    self.last = row.iter().map(|&value| value.clone()).collect();
                }
            }
            Ordering::Equal => self.equal += 1,
            Ordering::Greater => {}
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> Datum {
        match self.rank {
            Rank::Rank => Datum::Int(self.before as i64 + 1),
            Rank::Dense => Datum::Int(self.different as i64 + 1),
            Rank::Percent if self.rows == 0 => Datum::Float(0.0),
            Rank::Percent => Datum::Float(self.before as f64 / self.rows as f64),
            Rank::Cumulative => Datum::Float((self.before + self.equal + 1) as f64 / (self.rows + 1) as f64),
        }
    }
}

fn compare_rows(row: &[&Datum], other: &[&Datum], order: i64) -> Ordering {
    for (at, (value, other)) in row.iter().zip(other).enumerate() {
        let bits = order >> (at * KEY_BITS);
        let ordering = match (value.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if bits & NULLS_FIRST != 0 => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if bits & NULLS_FIRST != 0 => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if bits & DESCENDING != 0 => compare(other, value),
            (false, false) => compare(value, other),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Whether a name is one of an aggregate that needs WITHIN GROUP, whatever else it may be.
#[must_use]
pub fn is_ordered_set(name: &str) -> bool {
    matches!(name, "percentile_cont" | "percentile_disc" | "mode")
}

/// Whether a name is one of an aggregate of a hypothetical row, with WITHIN GROUP.
#[must_use]
pub fn is_hypothetical(name: &str) -> bool {
    matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist")
}

/// The aggregate of a name, for values of this type in WITHIN GROUP, given one fraction or an array of
/// them. Its arguments are of the types that it says. With `is_ascending` a percentile's values may
/// come in any order.
#[must_use]
pub fn ordered_set(name: &str, of_interval: bool, many: bool, is_ascending: bool) -> Option<&'static Aggregate> {
    fn continuous() -> State {
        State::Percentile(true, Box::default())
    }
    fn discrete() -> State {
        State::Percentile(false, Box::default())
    }
    fn continuous_of_any_order() -> State {
        State::Percentile(true, Box::new(Percentile::of_any_order()))
    }
    fn discrete_of_any_order() -> State {
        State::Percentile(false, Box::new(Percentile::of_any_order()))
    }
    if is_ascending {
        return Some(match (name, of_interval, many) {
            ("percentile_cont", false, false) => {
                const { &a("percentile_cont", &[Type::Float8, Type::Float8], Type::Float8, continuous_of_any_order) }
            }
            ("percentile_cont", true, false) => {
                const { &a("percentile_cont", &[Type::Interval, Type::Float8], Type::Interval, continuous_of_any_order) }
            }
            ("percentile_cont", false, true) => {
                const { &a("percentile_cont", &[Type::Float8, Type::AnyArray], Type::AnyArray, continuous_of_any_order) }
            }
            ("percentile_cont", true, true) => {
                const { &a("percentile_cont", &[Type::Interval, Type::AnyArray], Type::AnyArray, continuous_of_any_order) }
            }
            ("percentile_disc", _, false) => {
                const { &a("percentile_disc", &[Type::Void, Type::Float8], Type::AnyElement, discrete_of_any_order) }
            }
            ("percentile_disc", _, true) => {
                const { &a("percentile_disc", &[Type::Void, Type::AnyArray], Type::AnyArray, discrete_of_any_order) }
            }
            _ => return None,
        });
    }
    Some(match (name, of_interval, many) {
        ("percentile_cont", false, false) => {
            const { &a("percentile_cont", &[Type::Float8, Type::Float8], Type::Float8, continuous) }
        }
        ("percentile_cont", true, false) => {
            const { &a("percentile_cont", &[Type::Interval, Type::Float8], Type::Interval, continuous) }
        }
        ("percentile_cont", false, true) => {
            const { &a("percentile_cont", &[Type::Float8, Type::AnyArray], Type::AnyArray, continuous) }
        }
        ("percentile_cont", true, true) => {
            const { &a("percentile_cont", &[Type::Interval, Type::AnyArray], Type::AnyArray, continuous) }
        }
        ("percentile_disc", _, false) => {
            const { &a("percentile_disc", &[Type::Void, Type::Float8], Type::AnyElement, discrete) }
        }
        ("percentile_disc", _, true) => {
            const { &a("percentile_disc", &[Type::Void, Type::AnyArray], Type::AnyArray, discrete) }
        }
        ("mode", ..) => const { &a("mode", &[Type::Void], Type::AnyElement, || State::Mode(Box::default())) },
        _ => return None,
    })
}

/// The aggregate of a hypothetical row. It takes the values of WITHIN GROUP, those of the row, and a
/// number that says how they are ordered.
#[must_use]
pub fn hypothetical(name: &str) -> Option<&'static Aggregate> {
    macro_rules! of {
        ($name:literal, $result:ident, $rank:ident) => {
            const { &a($name, &[], Type::$result, || State::Hypothetical(Box::new(Hypothetical::new(Rank::$rank)))) }
        };
    }
    Some(match name {
        "rank" => of!("rank", Int8, Rank),
        "dense_rank" => of!("dense_rank", Int8, Dense),
        "percent_rank" => of!("percent_rank", Float8, Percent),
        "cume_dist" => of!("cume_dist", Float8, Cumulative),
        _ => return None,
    })
}
