//! What runs the tasks of a sequence: the runtime with shared threads, the same with dedicated
//! ones, or tokio.
//!
//! ```text
//! shared N      one runtime, N threads, all pools
//! common N      one runtime, N threads, all tasks in one pool, in the order of their arrival
//! split N       two runtimes: N - 1 threads for all but batch, in the order of their arrival, and one for batch
//! tokio N       tokio's runtime of many threads with N of them
//! ```
//!
//! `common` is what the published system did before on two CPUs and fewer, `split` the improvement
//! that it tried.

use std::future::Future;
use std::path::Path;

use clap::ValueEnum;
use colibri_runtime::{Builder, Handle, Pool, Runtime, budget};

use crate::experiments::threads::simulator::Threads;
use crate::measure::{Error, Result};

/// Which threads serve which pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Every thread serves every pool, by priority.
    Shared,
    /// Every thread takes whatever came first.
    Common,
    /// One thread for batch tasks; the others take whatever else came first.
    Split,
    /// The multi-thread runtime of tokio.
    #[cfg(feature = "rivals")]
    Tokio,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Common => "common",
            Self::Split => "split",
            #[cfg(feature = "rivals")]
            Self::Tokio => "tokio",
        }
    }

    /// Whether it can be had with this number of threads.
    pub(super) fn is_possible(self, threads: usize) -> bool {
        self != Self::Split || threads > 1
    }

    /// The same in the simulator.
    pub(super) fn simulated(self, threads: usize) -> Threads {
        match self {
            Self::Shared => Threads::Shared(threads),
            Self::Split => Threads::Dedicated(vec![(threads - 1, Pool::ALL[..3].to_vec()), (1, vec![Pool::Batch])]),
            _ => Threads::Dedicated(vec![(threads, Pool::ALL.to_vec())]),
        }
    }
}

/// Threads that run tasks, until it is dropped.
pub(super) struct Executor {
    threads: usize,
    kind: Kind,
}

enum Kind {
    Colibri {
        runtimes: Vec<Runtime>,
        /// Whether tasks keep their pools.
        by_priority: bool,
    },
    #[cfg(feature = "rivals")]
    Tokio(tokio::runtime::Runtime),
}

/// What tasks spawn others with.
#[derive(Clone)]
pub(super) enum Spawner {
    Colibri {
        /// For all pools but batch, and for batch.
        handles: [Handle; 2],
        by_priority: bool,
    },
    #[cfg(feature = "rivals")]
    Tokio(tokio::runtime::Handle),
}

impl Executor {
    pub(super) fn new(layout: Layout, threads: usize) -> Result<Self> {
        let failed = |error| Error::io("cannot make", Path::new("a runtime"), error);
        let make = |threads: usize| Builder::new().threads(threads).ping(None).build().map_err(failed);
        let kind = match layout {
            Layout::Shared => Kind::Colibri { runtimes: vec![make(threads)?], by_priority: true },
            Layout::Common => Kind::Colibri { runtimes: vec![make(threads)?], by_priority: false },
            Layout::Split => Kind::Colibri { runtimes: vec![make(threads - 1)?, make(1)?], by_priority: false },
            #[cfg(feature = "rivals")]
            Layout::Tokio => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                Kind::Tokio(builder.worker_threads(threads).enable_all().build().map_err(failed)?)
            }
        };
        Ok(Self { threads, kind })
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn spawner(&self) -> Spawner {
        match &self.kind {
            Kind::Colibri { runtimes, by_priority } => {
                let handle = |runtime: Option<&Runtime>| runtime.expect("there is one").handle().clone();
                Spawner::Colibri {
                    handles: [handle(runtimes.first()), handle(runtimes.last())],
                    by_priority: *by_priority,
                }
            }
            #[cfg(feature = "rivals")]
            Kind::Tokio(runtime) => Spawner::Tokio(runtime.handle().clone()),
        }
    }
}

impl Spawner {
    pub(super) fn spawn(&self, pool: Pool, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Colibri { handles, by_priority } => {
                let handle = &handles[usize::from(pool == Pool::Batch)];
                drop(handle.spawn(if *by_priority { pool } else { Pool::User }, task));
            }
            #[cfg(feature = "rivals")]
            Self::Tokio(handle) => drop(handle.spawn(task)),
        }
    }

    /// Lets other tasks run.
    pub(super) async fn yield_now(&self) {
        match self {
            Self::Colibri { .. } => budget::yield_now().await,
            #[cfg(feature = "rivals")]
            Self::Tokio(_) => tokio::task::yield_now().await,
        }
    }
}
