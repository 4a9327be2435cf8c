//! Tasks on few threads, for latency: every thread serves every pool, by priority and with
//! guaranteed shares, and nothing wakes up when there is nothing to do.
//!
//! ```
//! use std::time::Duration;
//! use colibri_runtime::{Pool, Runtime, sleep, spawn};
//!
//! let runtime = Runtime::new()?;
//! let sum = runtime.block_on(async {
//!     let parts: Vec<_> = (0..10).map(|part| spawn(Pool::System, async move { part * part })).collect();
//!     let mut sum = 0;
//!     for part in parts {
//!         sum += part.await.expect("it neither panics nor is cancelled");
//!     }
//!     sleep(Duration::from_millis(1)).await;
//!     sum
//! });
//! assert_eq!(sum, 285);
//! let report = runtime.shutdown(Duration::from_secs(1));
//! assert_eq!(report.cancelled, 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The life of a task
//!
//! [`spawn`] makes it (`task`) and puts it into a lane of its [`Pool`] (`lanes`). A thread at a
//! task boundary takes it when its turn has come (`worker`, `shares`), and runs it until it waits:
//! for a socket or a timer (`reactor`, `timer_driver`), or for another task, whose wake-up puts it
//! into a lane again. A thread that finds no task watches for events for up to 80 µs if the last
//! ones came as soon. Then it sleeps: one thread waits on the descriptor that tells of all events,
//! and the others are parked on a condition variable until one is called; while tasks are long, all
//! of them wait on the descriptor (`idle`).
//!
//! # What it does not do
//!
//! - Interrupt a task. Long ones ask [`budget::is_over`], or move to [`Pool::Batch`]. A task in the
//!   middle of a step that cannot yield says so with [`budget::in_long_step`], and another thread
//!   takes over what its thread would do (`stand_in`).
//! - Run anywhere but on Linux: it lets all sleepers wait on one `epoll` descriptor.

mod actor;
mod blocking;
pub mod budget;
mod counters;
mod cpus;
mod give_way;
mod idle;
mod lanes;
mod mailbox;
#[cfg(all(test, feature = "loom"))]
mod models;
pub mod net;
mod ping;
mod placement;
mod pool;
mod reactor;
mod runtime;
mod shared;
mod shares;
mod shutdown;
mod signal;
mod stand_in;
mod sync;
mod task;
mod time;
mod timer_driver;
mod timers;
mod worker;

pub use actor::{Actor, ActorOptions, GivenUp};
pub use counters::{AtomicHistogram, Counters, Histogram, PoolCounters};
pub use cpus::{Cpus, NotCpus};
pub use mailbox::{Inbox, Mailbox, Send, SendError, WhenFull, mailbox};
pub use pool::Pool;
pub use runtime::{Builder, Handle, Runtime, spawn, spawn_blocking, stopping};
pub use shared::PanicReport;
pub use shutdown::ShutdownReport;
pub use task::{JoinError, JoinHandle, Panic};
pub use time::{Sleep, TimedOut, Timeout, sleep, sleep_until, timeout};
