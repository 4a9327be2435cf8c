//! Percentiles as results have them.
//!
//! Not here: what a sample is and when it begins, which depends on the workload.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies in microseconds; all zero if there is no sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Samples.
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// Those of samples in nanoseconds.
    pub(crate) fn of(histogram_ns: &Histogram<u64>) -> Self {
        if histogram_ns.is_empty() {
            return Self::default();
        }
        let us = |quantile: f64| histogram_ns.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram_ns.len(),
            mean: histogram_ns.mean() / 1e3,
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p999: us(0.999),
            max: histogram_ns.max() as f64 / 1e3,
        }
    }
}
