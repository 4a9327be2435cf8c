//! Workloads, durability modes, and which workloads run at the same time.
//!
//! Invariants
//! - [`Workload::ALL`] is ioarena's fixed order.
//! - An operation is a transaction for `set`, `crud`, `delete` and `get`, a quad for `batch` and a
//!   `next` for `iterate`; `crud` and `batch` therefore compare directly.
//!
//! Not here: how an engine implements a mode (its own module in `targets` says).

use std::fmt;

use clap::ValueEnum;

/// What is done over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Workload {
    /// Insert a record, one transaction each.
    Set,
    /// Five hundred (`--batch`) CRUD quads in one transaction; a latency sample is a batch, an
    /// operation a quad.
    Batch,
    /// SET b, SET a, DELETE b, GET a in one transaction: n transactions leave n records.
    Crud,
    /// Delete a record of a prefilled key space, one transaction each.
    Delete,
    /// Walk over a prefilled key space in key order, in one read transaction.
    Iterate,
    /// Read a record of a prefilled key space, one read transaction each.
    Get,
}

impl Workload {
    /// All workloads, in the order in which they run.
    pub const ALL: [Self; 6] = [Self::Set, Self::Batch, Self::Crud, Self::Delete, Self::Iterate, Self::Get];

    /// Whether readers run it; writers run the others.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Iterate | Self::Get)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Set => "set",
            Self::Batch => "batch",
            Self::Crud => "crud",
            Self::Delete => "delete",
            Self::Iterate => "iterate",
            Self::Get => "get",
        })
    }
}

/// What a commit waits for. The modes are equal in what a commit waits for, not in what a power
/// loss takes: each result's notes say that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Mode {
    /// The disk: nothing is lost.
    Sync,
    /// Nothing, but what is lost is bounded where the engine has a bound.
    Lazy,
    /// Nothing at all.
    Nosync,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sync => "sync",
            Self::Lazy => "lazy",
            Self::Nosync => "nosync",
        })
    }
}

/// What runs at one time: readers, writers, or both at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) read: Option<Workload>,
    pub(crate) readers: u32,
    pub(crate) write: Option<Workload>,
    pub(crate) writers: u32,
    /// Operations a second that all writers together shall do, in open loop; `None` is closed loop.
    pub(crate) rate: Option<f64>,
}

impl Step {
    /// Whether its cost depends on the number of records that are there before. `set` starts with
    /// an empty database, and reads have a key space of their own.
    pub(crate) fn builds_on_records(&self) -> bool {
        matches!(self.write, Some(Workload::Batch | Workload::Crud | Workload::Delete))
    }
}

/// Steps that share a database: reads leave it as it was, so they need not fill it again; anything
/// else gets a fresh directory, so that a result does not depend on which other workloads were
/// asked for.
pub(crate) type Pass = Vec<Step>;

/// The passes for these workloads and threads, in ioarena's order. No threads at all means one
/// thread, which runs each workload in turn.
pub(crate) fn passes(workloads: &[Workload], readers: u32, writers: u32) -> Vec<Pass> {
    let chosen = |read: bool| Workload::ALL.into_iter().filter(move |w| w.is_read() == read && workloads.contains(w));
    let alone = readers == 0 && writers == 0;
    let (readers, writers) = if alone { (1, 1) } else { (readers, writers) };
    let write_step = |write| Step { read: None, readers: 0, write: Some(write), writers, rate: None };
    let read_step = |read| Step { read: Some(read), readers, write: None, writers: 0, rate: None };
    if !alone && readers > 0 && writers > 0 {
        return chosen(false)
            .flat_map(|write| {
                chosen(true)
                    .map(move |read| vec![Step { read: Some(read), readers, write: Some(write), writers, rate: None }])
            })
            .collect();
    }
    let mut passes: Vec<Pass> = Vec::new();
    if writers > 0 {
        passes.extend(chosen(false).map(|write| vec![write_step(write)]));
    }
    if readers > 0 {
        passes.push(chosen(true).map(read_step).collect());
    }
    passes.retain(|pass| !pass.is_empty());
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_runs_everything_in_order_and_reads_share_a_database() {
        let passes = passes(&Workload::ALL, 0, 0);
        let order: Vec<_> = passes.iter().flatten().map(|step| step.read.or(step.write).unwrap()).collect();
        assert_eq!(order, Workload::ALL);
        assert_eq!(passes.len(), 5);
        assert!(passes.iter().flatten().all(|step| step.readers + step.writers == 1));
    }

    #[test]
    fn readers_and_writers_together_run_each_pair() {
        let passes = passes(&[Workload::Get, Workload::Crud, Workload::Set], 2, 1);
        assert_eq!(passes.len(), 2);
        assert!(passes.iter().flatten().all(|step| step.readers == 2 && step.writers == 1));
        assert_eq!(passes[0][0].write, Some(Workload::Set));
        assert_eq!(passes[1][0].read, Some(Workload::Get));
    }

    #[test]
    fn readers_alone_leave_the_write_workloads_out() {
        assert_eq!(passes(&Workload::ALL, 2, 0).concat().len(), 2);
        assert_eq!(passes(&Workload::ALL, 0, 2).concat().len(), 4);
        assert!(passes(&[Workload::Set], 2, 0).is_empty());
    }
}
