//! Putting states together that have taken in different rows of a group.

use super::{Result, State, bigint_out_of_range};
use crate::env::Env;

impl State {
    /// Whether states of this kind can be put together, with the same outcome whichever rows each of
    /// them has taken in. Sums of floats have another one: each sum is rounded.
    #[must_use]
    pub fn combines(&self) -> bool {
        if let Self::Percentile(_, percentile) = self {
            return percentile.comes_in_any_order();
        }
        matches!(
            self,
            Self::CountRows(_)
                | Self::Count(_)
                | Self::SumInt(_)
                | Self::SumBigint(..)
                | Self::AvgInt(..)
                | Self::SumNumeric(..)
                | Self::AvgNumeric(..)
                | Self::Min(_)
                | Self::Max(_)
                | Self::First(_)
                | Self::And(_)
                | Self::Or(_)
        )
    }

    /// Takes in all rows that another state of the same kind has taken in. Both kinds are among
    /// those that [`State::combines`].
    ///
    /// # Errors
    /// As [`State::update`].
    pub fn combine(&mut self, other: &Self, env: &Env) -> Result<()> {
        match (&mut *self, other) {
            (Self::CountRows(count), Self::CountRows(more)) | (Self::Count(count), Self::Count(more)) => *count += more,
            (Self::SumInt(sum), Self::SumInt(Some(more))) => {
                *sum = Some(sum.unwrap_or(0).checked_add(*more).ok_or_else(bigint_out_of_range)?);
            }
            (Self::SumBigint(sum, any), Self::SumBigint(more, has)) => {
                *sum += more;
                *any |= has;
            }
            (Self::AvgInt(sum, count), Self::AvgInt(more, rows)) => {
                *sum += more;
                *count += rows;
            }
            (Self::SumNumeric(sum, any), Self::SumNumeric(more, has)) if *has => {
                *sum = if *any { sum.add_unbounded(more)? } else { more.clone() };
                *any = true;
            }
            (Self::AvgNumeric(sum, count), Self::AvgNumeric(more, rows)) if *rows > 0 => {
                *sum = sum.add_unbounded(more)?;
                *count += rows;
            }
            (Self::Percentile(_, percentile), Self::Percentile(_, more)) => percentile.combine(more),
            (Self::And(all), Self::And(Some(more))) => *all = Some(all.unwrap_or(true) & more),
            (Self::Or(any), Self::Or(Some(more))) => *any = Some(any.unwrap_or(false) | more),
            (Self::Min(_), Self::Min(value))
            | (Self::Max(_), Self::Max(value))
            | (Self::First(_), Self::First(value)) => {
                self.update(&[value], env)?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregates::{NAMES, named};
    use crate::{Datum, Numeric, Type};

    /// All values in one state, and the same in two that are put together, wherever they are split.
    #[test]
    fn states_put_together_give_what_one_state_gives() {
        let ints: Vec<Datum> = [5, -3, 0, 9, 9, -7, 2].map(Datum::Int).to_vec();
        let numerics: Vec<Datum> = [(150, 2), (-25, 1), (7, 0), (1_000, 3)]
            .map(|(units, scale)| Datum::Numeric(Numeric::new(units, scale)))
            .to_vec();
        let bools = [true, false, true].map(Datum::Bool).to_vec();
        let texts = ["b", "a", "c"].map(Datum::text).to_vec();
        let mut tried = 0;
        for aggregate in NAMES.iter().flat_map(|name| named(name)) {
            if !(aggregate.start)().combines() {
                continue;
            }
            let values = match aggregate.args.first() {
                Some(Type::Int2 | Type::Int4 | Type::Int8) | None => &ints,
                Some(Type::Numeric) => &numerics,
                Some(Type::Bool) => &bools,
                Some(Type::Text) => &texts,
                _ => continue,
            };
            let mut values = values.clone();
            values.insert(1, Datum::Null);
            let env = Env::default();
            let state_of = |values: &[Datum]| {
                let mut state = (aggregate.start)();
                for value in values {
                    state.update(&[value], &env).unwrap();
                }
                state
            };
            let whole = state_of(&values).finish().unwrap();
            for at in 0..=values.len() {
                let (first, second) = values.split_at(at);
                let mut state = state_of(first);
                state.combine(&state_of(second), &env).unwrap();
                assert_eq!(
                    format!("{:?}", state.finish().unwrap()),
                    format!("{whole:?}"),
                    "{} at {at}",
                    aggregate.name
                );
            }
            tried += 1;
        }
        assert!(tried >= 12, "{tried}");
    }

    #[test]
    fn a_sum_that_is_too_large_is_an_error() {
        let env = Env::default();
        let mut sum = State::SumInt(Some(i64::MAX));
        assert!(sum.combine(&State::SumInt(Some(1)), &env).is_err());
        assert!(!State::SumFloat(None).combines());
    }
}
