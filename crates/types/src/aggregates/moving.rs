//! Aggregates over frames that move: rows come in at one end and go out at the other.
//!
//! What is counted and summed exactly is taken off again. Of others nobody knows what they were
//! without a row: they start over.

use super::{Aggregate, State};
use crate::env::Env;
use crate::error::Result;
use crate::value::Datum;

/// An aggregate of the rows that are in a frame.
#[derive(Debug, Clone)]
pub struct Moving {
    start: fn() -> State,
    state: State,
    /// Values that are in it, NULLs left out.
    values: u64,
    /// How many of them have as many digits behind the point as any.
    longest: u64,
}

impl Moving {
    /// Of no rows.
    #[must_use]
    pub fn new(aggregate: &Aggregate) -> Self {
        Self { start: aggregate.start, state: (aggregate.start)(), values: 0, longest: 0 }
    }

    /// Of no rows again.
    pub fn start_over(&mut self) {
        (self.state, self.values, self.longest) = ((self.start)(), 0, 0);
    }

    /// Whether a row can be taken out of it.
    #[must_use]
    pub fn can_remove(&self) -> bool {
        matches!(
            self.state,
            State::CountRows(_)
                | State::Count(_)
                | State::SumInt(_)
                | State::SumBigint(..)
                | State::AvgInt(..)
                | State::SumNumeric(..)
                | State::AvgNumeric(..)
                | State::Ints(..)
                | State::SumInterval(_)
                | State::AvgInterval(..)
        )
    }

    /// Takes in a row's arguments.
    ///
    /// # Errors
    /// As [`State::update`].
    #[inline]
    pub fn add(&mut self, args: &[&Datum], env: &Env) -> Result<()> {
        if let Some(value) = args.first()
            && !value.is_null()
        {
            self.values += 1;
            if let (State::SumNumeric(..) | State::AvgNumeric(..), Datum::Numeric(value)) = (&self.state, value) {
                match value.scale().cmp(&self.scale()) {
                    std::cmp::Ordering::Less if self.values > 1 => {}
                    std::cmp::Ordering::Equal => self.longest += 1,
                    _ => self.longest = 1,
                }
            }
        }
        self.state.update(args, env)
    }

    /// Most digits behind the point of a value.
    fn scale(&self) -> u16 {
        match &self.state {
            State::SumNumeric(sum, _) | State::AvgNumeric(sum, _) => sum.scale(),
            _ => 0,
        }
    }

    /// Takes out the arguments of a row that was taken in; `false` if that cannot be, and it has to
    /// start over.
    #[must_use]
    pub fn remove(&mut self, args: &[&Datum]) -> bool {
        let value = match (&mut self.state, args) {
            (State::CountRows(count), _) => {
                *count -= 1;
                return true;
            }
            (_, [value, ..]) if !value.is_null() => *value,
            _ => return true,
        };
        self.values = self.values.saturating_sub(1);
        if self.values == 0 {
            self.start_over();
            return true;
        }
        if let (State::SumNumeric(..) | State::AvgNumeric(..), Datum::Numeric(value)) = (&self.state, value)
            && value.scale() == self.scale()
        {
            self.longest -= 1;
            if self.longest == 0 {
                return false;
            }
        }
        self.subtract(value).is_some()
    }

    fn subtract(&mut self, value: &Datum) -> Option<()> {
        match (&mut self.state, value) {
            (State::Count(count), _) => *count -= 1,
            (State::SumInt(Some(sum)), Datum::Int(value)) => *sum = sum.checked_sub(*value)?,
            (State::SumBigint(sum, _), Datum::Int(value)) => *sum -= i128::from(*value),
            (State::AvgInt(sum, count), Datum::Int(value)) => {
                *sum -= i128::from(*value);
                *count -= 1;
            }
            // What is infinite or NaN does not go away again.
            (State::SumNumeric(sum, _) | State::AvgNumeric(sum, _), _) if !sum.is_finite() => return None,
            (State::SumNumeric(sum, _), Datum::Numeric(value)) => *sum = sum.add_unbounded(&value.negate()).ok()?,
            (State::AvgNumeric(sum, count), Datum::Numeric(value)) => {
                *sum = sum.add_unbounded(&value.negate()).ok()?;
                *count -= 1;
            }
            (State::Ints(_, sums), Datum::Int(value)) => {
                let (count, sum, squares) = &mut **sums;
                let value = i128::from(*value);
                *count -= 1;
                *sum -= value;
                *squares -= value * value;
            }
            (State::SumInterval(Some(sum)), Datum::Interval(value)) => *sum = sum.sub(*value).ok()?,
            (State::AvgInterval(sum, count), Datum::Interval(value)) => {
                *sum = sum.sub(*value).ok()?;
                *count -= 1;
            }
            _ => return None,
        }
        Some(())
    }

    /// What the aggregate gives of the rows that are in it.
    ///
    /// # Errors
    /// As [`State::finish`].
    pub fn value(&self) -> Result<Datum> {
        self.state.clone().finish()
    }

    /// Bytes that it holds besides its own size.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.state.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;
    use crate::numeric::Numeric;

    /// Rows that come and go leave what those that stay give by themselves.
    #[test]
    fn what_is_left_is_as_if_the_others_had_never_been_there() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let env = Env::default();
        for (name, of) in [("sum", 0), ("sum", 3), ("avg", 3), ("avg", 1), ("count", 1), ("var_samp", 1), ("sum", 2)] {
            let aggregate = &named(name)[of];
            let is_numeric = aggregate.args.first() == Some(&crate::types::Type::Numeric);
            let mut value = || match random.u8(..10) {
                0 | 1 => Datum::Null,
                _ if is_numeric => Datum::Numeric(Numeric::new(random.i128(-5000..5000), random.u8(..4))),
                _ => Datum::Int(random.i64(-1000..1000)),
            };
            let values: Vec<Datum> = (0..300).map(|_| value()).collect();
            let mut moving = Moving::new(aggregate);
            assert!(moving.can_remove());
            let (mut from, mut to, mut removed) = (0, 0, 0);
            while to < values.len() {
                moving.add(&[&values[to]], &env).unwrap();
                to += 1;
                if to % 3 != 0 {
                    let went = moving.remove(&[&values[from]]);
                    from += 1;
                    removed += usize::from(went);
                    if !went {
                        moving.start_over();
                        values[from..to].iter().for_each(|value| moving.add(&[value], &env).unwrap());
                    }
                }
                let mut plain = (aggregate.start)();
                values[from..to].iter().for_each(|value| plain.update(&[value], &env).unwrap());
                let (moving, plain) = (moving.value().unwrap(), plain.finish().unwrap());
                let text = |value: &Datum| format!("{value:?}");
                assert_eq!(text(&moving), text(&plain), "{name} of rows {from} to {to}");
            }
            assert!(removed > 100, "{removed}");
        }
    }
}
