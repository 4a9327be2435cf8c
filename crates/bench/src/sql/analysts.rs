//! What analysts and TPC-C did to each other: part of a result.

use serde::{Deserialize, Serialize};

use crate::measure::format::{align, significant};

/// Analysts beside TPC-C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Analysts {
    pub(crate) count: u32,
    pub(crate) queries: Vec<AnalystQuery>,
    /// The medians of all queries that were answered in both cases, added up.
    pub(crate) alone_ms: f64,
    pub(crate) beside_ms: f64,
    /// Of TPC-C without analysts.
    pub(crate) throughput_alone_per_s: f64,
    pub(crate) p99_alone_us: f64,
    pub(crate) failures: Vec<String>,
}

/// A query of analysts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AnalystQuery {
    pub(crate) name: String,
    pub(crate) alone_count: usize,
    pub(crate) beside_count: usize,
    /// Medians.
    pub(crate) alone_ms: Option<f64>,
    pub(crate) beside_ms: Option<f64>,
}

impl Analysts {
    /// The table: a heading and rows.
    pub(crate) fn table(&self) -> Vec<Vec<String>> {
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
        let ratio = |alone: Option<f64>, beside: Option<f64>| shown(alone.zip(beside).map(|(a, b)| b / a.max(1e-9)));
        let heading = ["query of analysts", "alone ms", "times", "beside TPC-C ms", "times", "ratio"];
        let mut lines = vec![heading.map(str::to_owned).to_vec()];
        lines.extend(self.queries.iter().map(|query| {
            vec![
                query.name.clone(),
                shown(query.alone_ms),
                query.alone_count.to_string(),
                shown(query.beside_ms),
                query.beside_count.to_string(),
                ratio(query.alone_ms, query.beside_ms),
            ]
        }));
        let (alone, beside) = (Some(self.alone_ms), Some(self.beside_ms));
        let sum = |count: fn(&AnalystQuery) -> usize| self.queries.iter().map(count).sum::<usize>().to_string();
        lines.push(vec![
            "all".to_owned(),
            shown(alone),
            sum(|query| query.alone_count),
            shown(beside),
            sum(|query| query.beside_count),
            ratio(alone, beside),
        ]);
        lines
    }

    /// What TPC-C keeps, and failures.
    pub(crate) fn remarks(&self, throughput_per_s: f64, p99_us: f64) -> Vec<String> {
        let ms = |us: f64| significant(us / 1e3);
        let kept = throughput_per_s / self.throughput_alone_per_s.max(1e-9) * 100.0;
        let mut lines = vec![format!(
            "beside {} TPC-C keeps {} % of its throughput: {} transactions/s, and {} alone; p99 {} ms, and {} alone",
            people(self.count),
            significant(kept),
            significant(throughput_per_s),
            significant(self.throughput_alone_per_s),
            ms(p99_us),
            ms(self.p99_alone_us)
        )];
        lines.extend(self.failures.iter().map(|failure| format!("a query FAILED: {failure}")));
        lines
    }

    /// For a terminal.
    pub(crate) fn text(&self, throughput_per_s: f64, p99_us: f64) -> String {
        format!("{}\n{}", self.remarks(throughput_per_s, p99_us).join("\n"), align(&self.table(), 1))
    }
}

/// So many analysts, in words.
pub(crate) fn people(count: u32) -> String {
    if count == 1 { "one analyst".to_owned() } else { format!("{count} analysts") }
}
