//! What shapes came to: a table, the worst first, and how many are worse than they may be.

use std::time::Duration;

use serde::Serialize;

use super::file::Shape;
use super::measure::Outcome;
use crate::measure::output::say;

/// What a shape came to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    source: &'static str,
    shape: String,
    /// Runs on the target.
    runs: usize,
    /// Milliseconds of the median run.
    ms: Option<f64>,
    beside_ms: Option<f64>,
    /// The former as a multiple of the latter.
    ratio: Option<f64>,
    /// Whether both gave the same answers.
    is_same: Option<bool>,
    error: Option<String>,
    beside_error: Option<String>,
}

impl Row {
    pub(super) fn new(shape: &Shape, outcomes: &[Outcome]) -> Self {
        let ms = |outcome: &Outcome| outcome.median().map(|median| median.as_secs_f64() * 1e3);
        let own = &outcomes[0];
        let beside = outcomes.get(1);
        let both_ran = |beside: &&Outcome| own.failure.is_none() && beside.failure.is_none();
        let (own_ms, beside_ms) = (ms(own), beside.and_then(ms));
        Self {
            source: shape.source,
            shape: shape.name.clone(),
            runs: own.took.len(),
            ms: own_ms,
            beside_ms,
            ratio: own_ms.zip(beside_ms).map(|(own, beside)| own / beside),
            is_same: beside.filter(both_ran).map(|beside| own.agrees(beside)),
            error: own.failure.clone(),
            beside_error: beside.and_then(|beside| beside.failure.clone()),
        }
    }

    /// Whether it is not as it should be: it failed, it gave other answers, or it took more than so
    /// many times what it took beside.
    fn is_bad(&self, ratio_max: Option<f64>) -> bool {
        let is_slow = self.ratio.zip(ratio_max).is_some_and(|(ratio, max)| ratio > max);
        self.error.is_some() || self.is_same == Some(false) || is_slow
    }

    /// For the order of the table: failures first, then other answers, then by ratio or time.
    fn badness(&self) -> (bool, bool, f64) {
        (self.error.is_some(), self.is_same == Some(false), self.ratio.or(self.ms).unwrap_or_default())
    }

    fn line(&self) -> String {
        let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
        let ratio = self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let notes = [
            self.error.as_ref().map(|error| format!("failed: {}", short(error))),
            self.beside_error.as_ref().map(|error| format!("failed beside: {}", short(error))),
            (self.is_same == Some(false)).then(|| "OTHER ANSWERS".to_owned()),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        let title = format!("{}: {}", self.source, self.shape);
        let line =
            format!("{title:<58} {:>10} {:>10} {ratio:>8}  {}", ms(self.ms), ms(self.beside_ms), notes.join("; "));
        line.trim_end().to_owned()
    }
}

fn short(error: &str) -> String {
    error.chars().take(90).collect()
}

/// How many of the shapes are not as they should be.
pub(super) fn bad(rows: &[Row], ratio_max: Option<f64>) -> usize {
    rows.iter().filter(|row| row.is_bad(ratio_max)).count()
}

/// Prints the table, the worst first, and what it comes to.
pub(super) fn print(rows: &[Row], names: &[String], ratio_max: Option<f64>) {
    for (label, name) in ["target", "beside"].iter().zip(names) {
        say!("{label}:  {name}");
    }
    say!("");
    say!("{:<58} {:>10} {:>10} {:>8}", "shape, the worst first", "target ms", "beside ms", "ratio");
    let mut sorted: Vec<&Row> = rows.iter().collect();
    let by = |row: &&Row| row.badness();
    sorted.sort_by(|one, other| by(other).partial_cmp(&by(one)).unwrap_or(std::cmp::Ordering::Equal));
    for row in sorted {
        say!("{}", row.line());
    }
    say!("");
    say!("{}", summary(rows, ratio_max));
}

fn summary(rows: &[Row], ratio_max: Option<f64>) -> String {
    let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let failed = count(&|row| row.error.is_some());
    let differ = count(&|row| row.is_same == Some(false));
    let mut parts =
        vec![format!("{} shape{}", rows.len(), if rows.len() == 1 { "" } else { "s" }), format!("{failed} failed")];
    let mut ratios: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
    if !ratios.is_empty() {
        ratios.sort_by(f64::total_cmp);
        parts.push(format!("{differ} with other answers"));
        parts.push(format!("median ratio {:.2}", ratios[ratios.len() / 2]));
        parts.push(format!("worst {:.2}", ratios[ratios.len() - 1]));
        let slower = |than: f64| ratios.iter().filter(|&&ratio| ratio > than).count();
        let than = ratio_max.unwrap_or(1.2);
        parts.push(format!("{} above {than}", slower(than)));
    }
    parts.join(", ")
}

/// A round trip with nothing to do, for comparison: what no shape can be faster than.
pub(super) fn floor(rows: &[Row]) -> Option<Duration> {
    let ms = rows.iter().find(|row| row.shape == "select a constant")?.ms?;
    Some(Duration::from_secs_f64(ms / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ms: f64, beside_ms: f64, is_same: bool, error: Option<&str>) -> Row {
        Row {
            source: "any",
            shape: "one".to_owned(),
            runs: 3,
            ms: Some(ms),
            beside_ms: Some(beside_ms),
            ratio: Some(ms / beside_ms),
            is_same: Some(is_same),
            error: error.map(str::to_owned),
            beside_error: None,
        }
    }

    #[test]
    fn slow_shapes_other_answers_and_failures_are_bad() {
        let rows = [
            row(1.0, 1.0, true, None),
            row(3.0, 1.0, true, None),
            row(1.0, 2.0, false, None),
            row(1.0, 2.0, true, Some("0A000: not yet")),
        ];
        assert_eq!((bad(&rows, Some(1.2)), bad(&rows, None)), (3, 2));
        assert_eq!(
            summary(&rows, None),
            "4 shapes, 1 failed, 1 with other answers, median ratio 1.00, worst 3.00, 1 above 1.2"
        );
        assert!(rows[2].line().ends_with("OTHER ANSWERS"));
    }
}
