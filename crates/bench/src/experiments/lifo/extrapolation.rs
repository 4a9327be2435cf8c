//! The size of the original, which is not measured, from the tree of a smaller one.

use super::report::{CacheRow, NOTE, Row, fewer, note};
use super::{Case, KEY_BYTES, LogUse, Measured, PAGE_BYTES};
use crate::measure::environment::Environment;

/// The largest size of the original, 42 times its next.
pub(super) const EXTRAPOLATED_RECORDS: u64 = 130_691_232;

/// The largest size, from the tree of a smaller one.
pub(super) fn extrapolated(case: &Case, lifo: &Measured, environment: &Environment) -> Row {
    let stat = &lifo.stat;
    let leaves_now = stat.leaf_pages as f64;
    let leaves = leaves_now * EXTRAPOLATED_RECORDS as f64 / case.records as f64;
    // Children of a branch: what makes the measured number of branches of the measured number of
    // leaves.
    let children = 1.0 + (stat.leaf_pages.max(2) - 1) as f64 / stat.branch_pages.max(1) as f64;
    let levels = levels(leaves, children);
    // Beside the table's levels: the catalogue, the meta page, now and then the free map.
    let others = lifo.pages_per_txn - f64::from(stat.depth);
    let data_pages = levels.iter().sum::<f64>() as u64;
    let depth = levels.len() as u32;
    let log = case.log == LogUse::With;
    let with_log = log.then(|| WithLog::new(case, lifo, &self::levels(leaves_now, children), levels.clone()));
    let pages_per_txn = with_log.as_ref().map_or(levels.len() as f64 + others, |with_log| with_log.pages_per_txn);
    let caches = case.cache_mb.map(|cache_mb| {
        let cache_pages = (cache_mb << 20) as f64 / PAGE_BYTES as f64;
        let [fifo, lifo] = match &with_log {
            Some(with_log) => with_log.disk_per_txn(cache_pages),
            None => [pages_per_txn - 1.0, lifo_misses(&levels, cache_pages)],
        };
        CacheRow { cache_mb, fifo, lifo, fewer: fewer(fifo, lifo) }
    });
    Row {
        bench: "lifo",
        record: case.record,
        records: EXTRAPOLATED_RECORDS,
        key_bytes: KEY_BYTES,
        value_bytes: case.value_bytes,
        page_bytes: PAGE_BYTES,
        free: case.free,
        log,
        extrapolated: true,
        data_pages,
        depth,
        pages_per_txn,
        log_blocks_per_txn: lifo.log_blocks_per_txn,
        txns_per_steady_point: with_log.map_or(1.0, |with_log| with_log.txns_per_steady_point),
        caches: caches.to_vec(),
        warm_up_txns: 0,
        txns: 0,
        notes: format!("{}; {}; {NOTE}", extrapolation(log), note(log)),
        env: environment.clone(),
    }
}

pub(super) fn extrapolation(log: bool) -> &'static str {
    match log {
        false => {
            "without log, extrapolated from the line before it, not measured: the same number of records a leaf and of \
             children a branch; FIFO misses the cache with all but the meta page; LIFO misses it with the part of a \
             level of the tree that the cache does not hold beside the levels above"
        }
        true => {
            "with log, extrapolated from the line before it, not measured: the same tree, records in the log as long, \
             and of each level the pages that as many random changes touch as there are to a steady point; FIFO \
             misses the cache with all but the meta page; LIFO hits it with what was written so few steady points \
             ago that all written since fits the cache; a block of the log is missed where two steady points do not"
        }
    }
}

/// How many of the pages that a transaction rewrites, one on each level, the cache does not hold.
/// The levels come from the leaves upwards; what is higher is written more often, and so stays.
pub(super) fn lifo_misses(levels: &[f64], cache_pages: f64) -> f64 {
    let mut left = cache_pages;
    let mut misses = 0.0;
    for pages in levels.iter().rev() {
        misses += (1.0 - left / pages).max(0.0);
        left = (left - pages).max(0.0);
    }
    misses
}

/// Pages on each level of a tree, from the leaves upwards.
pub(super) fn levels(leaves: f64, children: f64) -> Vec<f64> {
    let mut levels = vec![leaves];
    while levels[levels.len() - 1] > 1.0 {
        levels.push((levels[levels.len() - 1] / children).ceil());
    }
    levels
}

/// How many pages of each level `txns` changes of random records touch.
fn touched(levels: &[f64], txns: f64) -> Vec<f64> {
    levels.iter().map(|pages| pages * (1.0 - (1.0 - 1.0 / pages).powf(txns))).collect()
}

/// A size that is not measured, with log.
struct WithLog {
    levels: Vec<f64>,
    txns_per_steady_point: f64,
    pages_per_txn: f64,
    /// Blocks of the log per transaction, those written several times counted once.
    new_log_blocks_per_txn: f64,
}

impl WithLog {
    fn new(case: &Case, lifo: &Measured, measured: &[f64], levels: Vec<f64>) -> Self {
        let sum = |levels: &[f64]| levels.iter().sum::<f64>();
        let growth = case.log_limit(sum(&levels)) / case.log_limit(sum(measured));
        let txns = lifo.txns_per_steady_point * growth;
        let touched_then = sum(&touched(measured, lifo.txns_per_steady_point)) / lifo.txns_per_steady_point;
        let touched_now = sum(&touched(&levels, txns)) / txns;
        Self {
            levels,
            txns_per_steady_point: txns,
            pages_per_txn: lifo.pages_per_txn * touched_now / touched_then,
            // A record that begins anywhere touches one block, and one more for each block of its
            // length.
            new_log_blocks_per_txn: (lifo.log_blocks_per_txn - 1.0).max(0.0),
        }
    }

    /// Disk operations per transaction with FIFO and with LIFO.
    fn disk_per_txn(&self, cache_pages: f64) -> [f64; 2] {
        let txns = self.txns_per_steady_point;
        let blocks = (self.pages_per_txn + self.new_log_blocks_per_txn) * txns;
        // How many times all that one steady point and its log write fits the cache.
        let periods = cache_pages / blocks;
        // The two files of the log take turns.
        let log = if periods < 2.0 { self.new_log_blocks_per_txn } else { 0.0 };
        let pages = self.pages_per_txn - 1.0 / txns;
        let touched = touched(&self.levels, txns);
        let misses = self.levels.iter().zip(&touched).map(|(pages, touched)| {
            // A page that is freed now, and taken by the next steady point, was written by one of
            // those before.
            let rests = (1.0 - touched / pages).max(0.0);
            if periods > 1.0 { touched * rests.powf(periods - 1.0) } else { *touched }
        });
        let share = misses.sum::<f64>() / touched.iter().sum::<f64>();
        [pages + log, pages * share + log]
    }
}
