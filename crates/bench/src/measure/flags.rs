//! Flags that several benchmarks have, and what is checked of any.

use crate::measure::{Error, Result};

/// Where databases are made unless `--dir` says otherwise.
pub(crate) const DIR_DEFAULT: &str = "colibri-bench-data";

/// Refuses a flag whose value is out of range.
pub(crate) fn check_range(flag: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::usage(format!("{flag} is {value}, but must be from {min} to {max}")))
}

/// The items of a list, each once, in their order.
pub(crate) fn without_repeats<T: Copy + PartialEq>(items: &[T]) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(*item);
        }
    }
    kept
}
