//! What all benchmarks use. It depends on no engine and no workload.
//!
//! | module | holds |
//! | --- | --- |
//! | `error` | what can go wrong |
//! | `flags`, `workplace` | flags that benchmarks share; the directory that databases are made in |
//! | `environment`, `mounts` | the machine and the build that a result is of |
//! | `cost`, `accounts`, `process_tree`, `energy` | what the operating system knows of processor time, bytes, memory and energy |
//! | `memory_limit` | a limit on the memory of processes, for data larger than it |
//! | `schedule`, `random` | arrivals in open loop; numbers that a seed repeats |
//! | `bootstrap`, `latency` | medians with confidence intervals; latencies as percentiles |
//! | `format`, `plot` | numbers, tables and charts |
//! | `output`, `progress` | result files, standard output and standard error |

pub(crate) mod accounts;
pub(crate) mod bootstrap;
pub(crate) mod cost;
pub(crate) mod energy;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod flags;
pub(crate) mod format;
pub(crate) mod latency;
pub(crate) mod memory_limit;
pub mod mounts;
pub(crate) mod output;
pub(crate) mod plot;
pub(crate) mod process_tree;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod schedule;
pub(crate) mod workplace;

pub use error::{Error, Result};
