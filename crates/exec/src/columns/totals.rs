//! What calls of aggregates remember of groups while these are in vectors.
//!
//! Invariants: a state that is made of a total is the one that the same rows would have made one by
//! one. Sums are of 128 bits, so no batch overflows them; calls that ask for the same sums share
//! them.

use colibri_types::aggregates::State;
use colibri_types::column_vector::{ColumnVector, Lanes, Word};
use colibri_types::{Datum, Env, Error, Numeric, Result};

use crate::plan::AggregateCall;
use crate::plan::columns::{Call, Register};

/// A value for each group.
enum Total {
    /// Rows, or values that are not NULL.
    Count(Vec<i64>),
    /// The sum, and how many values. Of numerics, their scale.
    Sum { scale: Option<u8>, sums: Vec<(i128, i64)> },
    /// The least or the greatest, if there is a value. Of numerics, their scale.
    Extreme { greatest: bool, scale: Option<u8>, word: Word, values: Vec<Option<i64>> },
    /// Anything else.
    States { start: fn() -> State, states: Vec<State> },
}

/// What a total is of.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Of {
    filter: Option<Register>,
    input: Option<Register>,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Count,
    Sum,
    Least,
    Greatest,
    /// Of the call in this place alone.
    State(usize),
}

/// The totals of all calls.
pub(super) struct Totals {
    of: Vec<Of>,
    totals: Vec<Total>,
    /// Each call's total.
    of_calls: Vec<usize>,
}

impl Totals {
    pub(super) fn new(calls: &[AggregateCall], planned: &[Call]) -> Self {
        let (mut of, mut totals, mut of_calls) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (call, planned)) in calls.iter().zip(planned).enumerate() {
            let start = call.aggregate.start;
            let what = match start() {
                State::CountRows(_) | State::Count(_) => What::Count,
                State::SumInt(_)
                | State::SumBigint(..)
                | State::AvgInt(..)
                | State::SumNumeric(..)
                | State::AvgNumeric(..) => What::Sum,
                State::Min(_) if is_counted(call) => What::Least,
                State::Max(_) if is_counted(call) => What::Greatest,
                _ => What::State(place),
            };
            let wanted = Of { filter: planned.filter, input: planned.input, what };
            let at = of.iter().position(|known| *known == wanted).unwrap_or_else(|| {
                of.push(wanted);
                totals.push(match what {
                    What::Count => Total::Count(Vec::new()),
                    What::Sum => Total::Sum { scale: None, sums: Vec::new() },
                    What::Least | What::Greatest => Total::Extreme {
                        greatest: what == What::Greatest,
                        scale: None,
                        word: Word::Int,
                        values: Vec::new(),
                    },
                    What::State(_) => Total::States { start, states: Vec::new() },
                });
                totals.len() - 1
            });
            of_calls.push(at);
        }
        Self { of, totals, of_calls }
    }

    /// Each total's condition and argument.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (Option<Register>, Option<Register>)> {
        self.of.iter().map(|of| (of.filter, of.input))
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let of_one = |total: &Total| match total {
            Total::Count(counts) => counts.capacity() * size_of::<i64>(),
            Total::Sum { sums, .. } => sums.capacity() * size_of::<(i128, i64)>(),
            Total::Extreme { values, .. } => values.capacity() * size_of::<Option<i64>>(),
            Total::States { states, .. } => states.iter().map(|state| size_of::<State>() + state.heap_bytes()).sum(),
        };
        self.totals.iter().map(of_one).sum()
    }

    /// Without groups, and with the memory.
    pub(super) fn clear(&mut self) {
        for total in &mut self.totals {
            match total {
                Total::Count(counts) => counts.clear(),
                Total::Sum { scale, sums } => {
                    *scale = None;
                    sums.clear();
                }
                Total::Extreme { scale, values, .. } => {
                    *scale = None;
                    values.clear();
                }
                Total::States { states, .. } => states.clear(),
            }
        }
    }

    /// Whether totals take in batches with such arguments: each total's.
    pub(super) fn take<'a>(&self, inputs: impl Iterator<Item = Option<&'a ColumnVector>>) -> bool {
        // Where all values are NULL nothing is taken in.
        let is_empty =
            |input: &ColumnVector| input.nulls().len() == input.len() && input.nulls().iter().all(|null| *null);
        self.totals.iter().zip(inputs).all(|(total, input)| match (total, input.map(ColumnVector::lanes)) {
            _ if input.is_some_and(is_empty) => true,
            (Total::Sum { scale: known, .. }, Some(Lanes::Decimals(scale, _))) => {
                known.is_none_or(|known| known == *scale)
            }
            (Total::Sum { .. }, Some(Lanes::Words(Word::Int, _))) => true,
            (Total::Sum { .. }, _) => false,
            (Total::Extreme { scale: known, .. }, Some(Lanes::Decimals(scale, _))) => {
                known.is_none_or(|known| known == *scale)
            }
            (Total::Extreme { .. }, Some(Lanes::Words(..))) => true,
            (Total::Extreme { .. }, _) => false,
            _ => true,
        })
    }

    /// Takes a batch into a total: its argument, the condition of the rows that are taken in, and
    /// their groups, of which there are `groups`.
    ///
    /// # Errors
    /// Of the states' updates.
    pub(super) fn update(
        &mut self,
        at: usize,
        input: Option<&ColumnVector>,
        filter: Option<&ColumnVector>,
        (numbers, groups): (&[u32], usize),
        env: &Env,
    ) -> Result<()> {
        let filtered: Vec<(u32, u32)>;
        let is_in = |row: usize| match filter {
            Some(filter) => matches!(filter.lanes(), Lanes::Truths(truths) if truths[row]) && !filter.is_null(row),
            None => true,
        };
        // Rows that are taken in, with their groups: all of them, or those that are neither left
        // out nor NULL.
        let nulls = input.map_or(&[][..], ColumnVector::nulls);
        let rows = if filter.is_none() && nulls.is_empty() {
            Rows::All(numbers)
        } else {
            let wanted = (0..numbers.len()).filter(|&row| is_in(row) && (nulls.is_empty() || !nulls[row]));
            filtered = wanted.map(|row| (row as u32, numbers[row])).collect();
            Rows::Some(&filtered)
        };
        match (&mut self.totals[at], input.map(ColumnVector::lanes)) {
            (Total::Count(counts), _) => {
                counts.resize(groups, 0);
                if let (Rows::All(numbers), 1) = (rows, groups) {
                    counts[0] += numbers.len() as i64;
                } else {
                    rows.for_each(|_, number| counts[number] += 1);
                }
            }
            (Total::Sum { scale, sums }, Some(Lanes::Words(_, words) | Lanes::Decimals(_, words))) => {
                if let Some(Lanes::Decimals(of_batch, _)) = input.map(ColumnVector::lanes)
                    && !rows.is_empty()
                {
                    *scale = Some(*of_batch);
                }
                sums.resize(groups, (0, 0));
                if let (Rows::All(numbers), 1) = (rows, groups) {
                    let sum: i128 = words.iter().map(|&word| i128::from(word)).sum();
                    sums[0].0 += sum;
                    sums[0].1 += numbers.len() as i64;
                } else {
                    rows.for_each(|row, number| {
                        let (sum, count) = &mut sums[number];
                        *sum += i128::from(words[row]);
                        *count += 1;
                    });
                }
            }
            (Total::Extreme { greatest, scale, word, values }, Some(lanes)) => {
                let words = match lanes {
                    Lanes::Words(of_batch, words) => {
                        *word = *of_batch;
                        words
                    }
                    Lanes::Decimals(of_batch, words) => {
                        if !rows.is_empty() {
                            *scale = Some(*of_batch);
                        }
                        words
                    }
                    _ => return Err(wrong()),
                };
                values.resize(groups, None);
                let greatest = *greatest;
                rows.for_each(|row, number| {
                    let (new, best) = (words[row], &mut values[number]);
                    *best = Some(best.map_or(new, |best| if greatest { best.max(new) } else { best.min(new) }));
                });
            }
            (Total::States { start, states }, Some(_)) => {
                states.resize_with(groups, start);
                let Some(input) = input else { return Err(wrong()) };
                rows.try_for_each(|row, number| states[number].update(&[&input.datum(row)], env))?;
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// The states of a group's calls.
    pub(super) fn states(&self, number: usize, calls: &[AggregateCall], out: &mut Vec<State>) -> Result<()> {
        out.clear();
        for (call, &at) in calls.iter().zip(&self.of_calls) {
            let mut state = (call.aggregate.start)();
            match &self.totals[at] {
                Total::Count(counts) => match &mut state {
                    State::CountRows(count) | State::Count(count) => *count = counts[number],
                    _ => return Err(wrong()),
                },
                Total::Sum { scale, sums } => {
                    let (sum, count) = sums[number];
                    set_sum(&mut state, sum, count, scale.unwrap_or(0))?;
                }
                Total::Extreme { scale, word, values, .. } => {
                    if let (Some(value), State::Min(best) | State::Max(best)) = (values[number], &mut state) {
                        *best = match scale {
                            Some(scale) => Datum::Numeric(Numeric::new(i128::from(value), *scale)),
                            None => word.datum(value),
                        };
                    }
                }
                Total::States { states, .. } => state = states[number].clone(),
            }
            out.push(state);
        }
        Ok(())
    }
}

fn set_sum(state: &mut State, of_all: i128, rows: i64, scale: u8) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    match state {
        State::SumInt(sum) => {
            let word = i64::try_from(of_all).map_err(|_| colibri_types::aggregates::bigint_out_of_range())?;
            *sum = Some(word);
        }
        State::SumBigint(sum, any) => (*sum, *any) = (of_all, true),
        State::AvgInt(sum, count) => (*sum, *count) = (of_all, rows),
        State::SumNumeric(sum, any) => (*sum, *any) = (Numeric::checked(of_all, scale.into())?, true),
        State::AvgNumeric(sum, count) => (*sum, *count) = (Numeric::checked(of_all, scale.into())?, rows),
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Whether the least and the greatest of a call's values are found among words: equal ones look
/// alike.
fn is_counted(call: &AggregateCall) -> bool {
    use colibri_types::Type;
    call.aggregate.args.iter().all(|ty| {
        matches!(
            ty,
            Type::Int2
                | Type::Int4
                | Type::Int8
                | Type::Oid
                | Type::Date
                | Type::Time
                | Type::Timestamp
                | Type::TimestampTz
                | Type::Numeric
        )
    })
}

/// Rows with their groups.
#[derive(Clone, Copy)]
enum Rows<'a> {
    /// Row by row.
    All(&'a [u32]),
    /// Of each pair the row and the group.
    Some(&'a [(u32, u32)]),
}

impl Rows<'_> {
    fn is_empty(self) -> bool {
        match self {
            Self::All(numbers) => numbers.is_empty(),
            Self::Some(pairs) => pairs.is_empty(),
        }
    }

    #[inline]
    fn for_each(self, mut act: impl FnMut(usize, usize)) {
        match self {
            Self::All(numbers) => numbers.iter().enumerate().for_each(|(row, &number)| act(row, number as usize)),
            Self::Some(pairs) => pairs.iter().for_each(|&(row, number)| act(row as usize, number as usize)),
        }
    }

    fn try_for_each(self, mut act: impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
        match self {
            Self::All(numbers) => numbers.iter().enumerate().try_for_each(|(row, &number)| act(row, number as usize)),
            Self::Some(pairs) => pairs.iter().try_for_each(|&(row, number)| act(row as usize, number as usize)),
        }
    }
}

#[cold]
fn wrong() -> Error {
    Error::internal("an aggregate on column vectors was fed with something else")
}
