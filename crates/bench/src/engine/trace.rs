//! What Colibri wrote, from its write trace: sums, and the lines of `--trace-flush`.
//!
//! Invariants
//! - The meta page that ends each steady point, and the redo log, are not pages of the trace and
//!   not in any sum here.
//!
//! Not here: what the disk did with it.

use std::fmt;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use colibri::{WriteKind, WriteTrace};

/// Sums over commits or steady points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) count: u64,
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
    pub(crate) ranges: u64,
    pub(crate) leaves: u64,
    pub(crate) branches: u64,
    pub(crate) overflow: u64,
    pub(crate) free_map: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, trace: &WriteTrace) {
        self.count += 1;
        self.pages += trace.pages();
        self.bytes += trace.bytes();
        self.ranges += trace.ranges.len() as u64;
        self.leaves += trace.leaves;
        self.branches += trace.branches;
        self.overflow += trace.overflow;
        self.free_map += trace.free_map;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, bytes, ranges, leaves, branches, overflow, free_map, .. } = self;
        write!(
            f,
            "{pages} pages, {} KB, {ranges} ranges, {leaves} leaves, {branches} branches, {overflow} overflow, \
             {free_map} free map",
            bytes >> 10
        )
    }
}

/// Prints a line for each commit and each steady point of a database, and their sums when dropped.
pub(crate) struct Printer {
    database: String,
    sums: Mutex<[Totals; 2]>,
}

impl Printer {
    /// `name` is the database's name in the printed lines.
    pub(crate) fn new(database: String) -> Self {
        Self { database, sums: Mutex::default() }
    }

    pub(crate) fn print(&self, trace: &WriteTrace) {
        self.say(format_args!("{trace}"));
        let index = usize::from(trace.kind == WriteKind::Steady);
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)[index].add(trace);
    }

    fn say(&self, line: fmt::Arguments<'_>) {
        // The reader of the pipe has closed it; the benchmark goes on.
        let _ = writeln!(std::io::stdout().lock(), "{}: {line}", self.database);
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        let [commits, steady] = *self.sums.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.say(format_args!(
            "summary: {} commits: {commits}; {} steady points: {steady}",
            commits.count, steady.count
        ));
    }
}

#[cfg(test)]
mod tests {
    use colibri::TxnId;

    use super::*;

    #[test]
    fn sums_count_what_the_traces_say() {
        let trace = WriteTrace {
            kind: WriteKind::Steady,
            txn: TxnId(7),
            page_size: 4096,
            ranges: vec![(2, 3), (9, 1)],
            leaves: 2,
            branches: 1,
            overflow: 0,
            free_map: 1,
            log: None,
        };
        let mut sums = Totals::default();
        sums.add(&trace);
        sums.add(&trace);
        assert_eq!(sums.to_string(), "8 pages, 32 KB, 4 ranges, 4 leaves, 2 branches, 0 overflow, 2 free map");
        assert_eq!(sums.count, 2);
    }
}
