//! TABLESAMPLE: whether a row belongs to a sample.
//!
//! A row is taken if a hash of its key and of a seed is among the lowest ones, as many of them as
//! the percentage says. So a sample is the same with the same seed, as long as the rows are.

use std::hash::{DefaultHasher, Hasher as _};

use super::{Function, f};
use crate::operators::hash_datum;
use crate::{Datum, Error, Result, SqlState, Type};

/// Takes a percentage, a seed, and the values of the row's key. It is found by no name.
pub static TABLESAMPLE: Function =
    f("tablesample", &[], Type::Bool, |args, _| Ok(Datum::Bool(is_taken(args)?))).called_on_null();

fn is_taken(args: &[&Datum]) -> Result<bool> {
    let [percentage, seed, key @ ..] = args else { return Err(Error::internal("a sample without a percentage")) };
    let share = share_of(percentage)?;
    if seed.is_null() {
        return Err(Error::new(SqlState("2202G"), "TABLESAMPLE REPEATABLE parameter cannot be null"));
    }
    let mut hasher = DefaultHasher::new();
    hash_datum(seed, &mut hasher);
    key.iter().for_each(|value| hash_datum(value, &mut hasher));
    // As a number from 0 to less than 1.
    let place = (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64;
    Ok(place < share)
}

/// A percentage as a share of 1.
fn share_of(percentage: &Datum) -> Result<f64> {
    match percentage {
        Datum::Float(percentage) if (0.0..=100.0).contains(percentage) => Ok(percentage / 100.0),
        Datum::Float(_) => Err(Error::new(SqlState("2202H"), "sample percentage must be between 0 and 100")),
        Datum::Null => Err(Error::new(SqlState("2202H"), "TABLESAMPLE parameter cannot be null")),
        _ => Err(Error::internal("a percentage is no number")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn taken(percentage: f64, seed: i64) -> Vec<i64> {
        let is_taken =
            |key: &i64| super::is_taken(&[&Datum::Float(percentage), &Datum::Int(seed), &Datum::Int(*key)]).unwrap();
        (0..10_000).filter(is_taken).collect()
    }

    #[test]
    fn a_sample_is_as_large_as_it_was_asked_for_and_the_same_again() {
        for percentage in [0.0, 1.0, 50.0, 99.0, 100.0] {
            let expected = 100.0 * percentage;
            let found = taken(percentage, 7);
            assert!((found.len() as f64 - expected).abs() <= 200.0, "{percentage}: {}", found.len());
            assert_eq!(found, taken(percentage, 7));
        }
        assert_ne!(taken(50.0, 7), taken(50.0, 8));
    }
}
