//! Serializable transactions for many sessions, over a store of ordered keys.
//!
//! A session begins a transaction, reads from its snapshot, keeps its writes to itself and commits.
//! Nobody waits for a reader, and no call waits: see [`store`] for what is promised. `ls` is the
//! architecture:
//!
//! | module | holds |
//! | --- | --- |
//! | `store`, `columns`, `outcome`, `error` | the interface: [`Store`], [`Transaction`], why a call cannot go on now, what goes wrong |
//! | `local` | the store on the storage engine of this process |
//! | `transaction` | its transactions: reads merged with own writes, savepoints, snapshots that move forward |
//! | `opened` | the tables that it has found |
//! | `fetching` | waiting for pages from the disk beside the thread of a session |
//! | `merge` | scans over stored entries and own writes |
//! | `reads`, `validate` | what a transaction has read, and whether it still holds |
//! | `recent` | which rows were written lately, so that others need not be compared |
//! | `write`, `changes` | a change of a key; the changes of a space, with indexes that are made when they are needed |
//! | `writes` | what it is going to write, and how that is undone |
//! | `locks` | row locks in the order of arrival, and deadlocks |
//! | `queue` | the queue of commits: a leader commits for all who wait, with or without a thread |
//! | `prepared` | transactions that wait, over crashes, to be told whether to commit |
//! | `apply` | one transaction of a commit: check everything, then write |
//! | `ticket` | waiting for a commit to become durable |
//! | `memory` | a store in memory, for tests (feature `test-store`) |
//! | `series` | entries that are numbered when the transaction commits |
//! | `temporary` | temporary spaces of sessions, in a store beside the database |
//! | `long_work` | a hook that is called before long work |
//! | `sync` | locks, or those of a test's scheduler |
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use colibri_txn::{Begin, ColumnSet, LocalStore, Space, SpaceId, Transaction};
//! let db = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new())?;
//! let store = LocalStore::new(db);
//! let birds = Space::new(SpaceId(1));
//! let mut txn = store.begin(Begin::default())?;
//! txn.create_space(birds.id)?;
//! txn.put(&birds, b"colibri", b"80 beats a second")?;
//! txn.commit()?.wait()?;
//!
//! let mut txn = store.begin(Begin { read_only: true, ..Begin::default() })?;
//! assert_eq!(txn.get(&birds, b"colibri", ColumnSet::ALL)?, Some(&b"80 beats a second"[..]));
//! # Ok::<(), colibri_txn::Error>(())
//! ```

mod apply;
mod changes;
mod columns;
mod commit;
mod error;
mod fetching;
mod local;
mod locks;
mod long_work;
#[cfg(feature = "test-store")]
mod memory;
mod merge;
mod opened;
mod outcome;
mod prepared;
mod queue;
mod reads;
mod recent;
pub mod series;
pub mod store;
mod sync;
mod temporary;
mod ticket;
mod transaction;
mod validate;
mod write;
mod writes;

pub use colibri_storage::TxnId;
pub use columns::ColumnSet;
pub use commit::{AtCommit, Commit, CommitTurn, PendingCommit, QueuedCommit, Turn};
pub use error::{Error, Result};
pub use local::LocalStore;
pub use locks::{LockInfo, LockName, LockWait, OwnerId, SessionLocks};
#[cfg(feature = "test-store")]
pub use memory::{MemoryOptions, MemoryStore};
pub use outcome::{Interruption, StoreDone, StoreWait};
pub use reads::ForkReads;
pub use store::{
    Begin, Capabilities, Counters, Direction, Found, IfLocked, Isolation, Key, KeyRange, LockMode, Patch, PatchError,
    PreparedInfo, Remains, RowLayout, Savepoint, Skipped, Space, SpaceId, SpaceSize, Store, Transaction, Visit,
};
pub use temporary::{FIRST_TEMPORARY, TemporarySpaces, WithTemporary};
pub use ticket::{CommitTicket, Committed};
pub use transaction::{LocalRemains, LocalTransaction};
