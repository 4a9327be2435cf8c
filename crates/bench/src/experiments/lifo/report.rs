//! The results of the experiment: rows, table, picture.

use serde::Serialize;

use super::extrapolation::extrapolation;
use super::{CACHE_MB, Case, KEY_BYTES, LogUse, Measured, PAGE_BYTES};
use crate::measure::environment::Environment;
use crate::measure::format::{align, significant, whole};
use crate::measure::output::{self, say};
use crate::measure::plot::{Panel, Plot, Shape};

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) bench: &'static str,
    /// "small", or "page" for records with a page each.
    pub(super) record: &'static str,
    pub(super) records: u64,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    pub(super) page_bytes: u64,
    /// Free pages, as a multiple of those in use.
    pub(super) free: u32,
    /// Whether transactions went to the log.
    pub(super) log: bool,
    pub(super) extrapolated: bool,
    /// Pages of the table, all levels and values.
    pub(super) data_pages: u64,
    pub(super) depth: u32,
    /// Pages rewritten per transaction, meta page included; without log the same under both
    /// policies, with log those of LIFO.
    pub(super) pages_per_txn: f64,
    /// Blocks of the log written per transaction, one written again counted again.
    pub(super) log_blocks_per_txn: f64,
    pub(super) txns_per_steady_point: f64,
    pub(super) caches: Vec<CacheRow>,
    pub(super) warm_up_txns: u64,
    pub(super) txns: u64,
    pub(super) notes: String,
    pub(super) env: Environment,
}

/// Disk operations behind one cache.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CacheRow {
    pub(super) cache_mb: u64,
    /// Blocks the disk wrote per transaction.
    pub(super) fifo: f64,
    pub(super) lifo: f64,
    /// How many times fewer they are with LIFO; `None` where it has none.
    pub(super) fewer: Option<f64>,
}

pub(super) fn row(case: &Case, fifo: &Measured, lifo: &Measured, environment: &Environment) -> Row {
    let caches = [0, 1].map(|index| {
        let (fifo, lifo) = (fifo.disk_per_txn[index], lifo.disk_per_txn[index]);
        CacheRow { cache_mb: case.cache_mb[index], fifo, lifo, fewer: fewer(fifo, lifo) }
    });
    Row {
        bench: "lifo",
        record: case.record,
        records: case.records,
        key_bytes: KEY_BYTES,
        value_bytes: case.value_bytes,
        page_bytes: PAGE_BYTES,
        free: case.free,
        log: case.log == LogUse::With,
        extrapolated: false,
        data_pages: lifo.stat.leaf_pages + lifo.stat.branch_pages + lifo.stat.overflow_pages,
        depth: lifo.stat.depth,
        pages_per_txn: lifo.pages_per_txn,
        log_blocks_per_txn: lifo.log_blocks_per_txn,
        txns_per_steady_point: lifo.txns_per_steady_point,
        caches: caches.to_vec(),
        warm_up_txns: lifo.warm_up_txns,
        txns: lifo.txns,
        notes: format!("{}; {NOTE}", note(case.log == LogUse::With)),
        env: environment.clone(),
    }
}

pub(super) fn fewer(fifo: f64, lifo: f64) -> Option<f64> {
    (lifo > 0.0).then(|| fifo / lifo)
}

pub(super) const NOTE: &str =
    "a disk operation is one block of 4 KiB that the simulated cache writes back, neighbours not joined";

pub(super) fn note(log: bool) -> &'static str {
    match log {
        false => "without log: every transaction is a steady point that writes its pages and one meta page",
        true => {
            "with log: every transaction writes its record, steady points in the background write pages and one meta \
             page"
        }
    }
}

pub(super) fn print(environment: &Environment, rows: &[Row]) {
    output::print_heading(environment);
    say!("\n{}", table(rows));
    say!(
        "note: FIFO, LIFO: blocks a transaction that the disk below the cache writes; fewer: FIFO / LIFO, - without any"
    );
    for log in [false, true] {
        if rows.iter().any(|row| row.log == log) {
            say!("note: {}", note(log));
        }
    }
    say!("note: {NOTE}");
    say!("note: free pages: {} times those in use", rows.first().map_or(0, |row| row.free));
    for log in [false, true] {
        if rows.iter().any(|row| row.extrapolated && row.log == log) {
            say!("note: *: {}", extrapolation(log));
        }
    }
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut headings: Vec<String> =
        ["record", "log", "records", "data MB", "depth", "pages/txn", "log blocks/txn"].map(str::to_owned).to_vec();
    for mb in CACHE_MB {
        headings.extend([format!("{mb} MB: FIFO"), "LIFO".to_owned(), "fewer".to_owned()]);
    }
    let mut cells = vec![headings];
    for row in rows {
        let mark = if row.extrapolated { "*" } else { "" };
        let log = if row.log { "with" } else { "without" };
        let mut line = vec![row.record.to_owned(), log.to_owned(), format!("{}{mark}", whole(row.records as f64))];
        line.push(significant((row.data_pages * PAGE_BYTES) as f64 / 1e6));
        line.push(row.depth.to_string());
        line.extend([row.pages_per_txn, row.log_blocks_per_txn].map(significant));
        for cache in &row.caches {
            line.extend([format!("{:.3}", cache.fifo), format!("{:.3}", cache.lifo)]);
            line.push(cache.fewer.map_or("-".to_owned(), |times| format!("{times:.2}x")));
        }
        cells.push(line);
    }
    align(&cells, 2)
}

pub(super) fn plot(rows: &[Row]) -> Plot {
    let name = |row: &Row| {
        let mark = if row.extrapolated { "*" } else { "" };
        let kind = if row.record == "page" { "\nof a page" } else { "" };
        format!("{}{mark}{kind}", whole(row.records as f64))
    };
    let mut panels = Vec::new();
    for log in [LogUse::Without, LogUse::With] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.log == (log == LogUse::With)).collect();
        if rows.is_empty() {
            continue;
        }
        let log_name = log.name();
        let mut panel = |title: String, series: Vec<(&str, Vec<f64>)>| {
            panels.push(Panel {
                title,
                shape: Shape::Bars(rows.iter().map(|row| name(row)).collect()),
                logarithmic: false,
                series: series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
            });
        };
        let of = |of: fn(&Row) -> f64| rows.iter().map(|row| of(row)).collect::<Vec<_>>();
        let mut blocks = vec![("pages", of(|row| row.pages_per_txn))];
        if log == LogUse::With {
            blocks.push(("log", of(|row| row.log_blocks_per_txn)));
        }
        panel(format!("{log_name}: blocks of 4 KiB written a transaction, by LIFO"), blocks);
        for (index, mb) in CACHE_MB.iter().enumerate() {
            let of = |of: fn(&CacheRow) -> f64| rows.iter().map(|row| of(&row.caches[index])).collect::<Vec<_>>();
            let series = vec![("FIFO", of(|cache| cache.fifo)), ("LIFO", of(|cache| cache.lifo))];
            panel(format!("{log_name}: disk operations a transaction behind a cache of {mb} MB"), series);
        }
    }
    Plot { title: "FIFO and LIFO behind a write-back cache (* extrapolated)".to_owned(), panels }
}
