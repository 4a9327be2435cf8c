//! The storage engine of Colibri: a copy-on-write B+tree on a memory map.
//!
//! One writer, any number of readers in any number of processes, nobody waits for a reader. `ls` is
//! the architecture:
//!
//! | module | holds |
//! | --- | --- |
//! | `db`, `recovery` | opening, finding the newest state, closing |
//! | `steady`, `flusher` | steady points, and the background thread that makes them |
//! | `log` | the redo log |
//! | `agreement`, `agreed` | commits that other machines agree on; what callers do about it |
//! | `snapshot`, `view`, `cursor`, `diff` | reading |
//! | `txn`, `workspace`, `ticket` | writing |
//! | `catalog`, `composite` | tables, and keys with many values |
//! | `branch`, `forest`, `reap` | branches: what callers do with them; which there are; giving back their pages |
//! | `root`, `tree`, `node` | where trees and states start; the B+tree and its pages |
//! | `space`, `page_set` | free pages, in memory and on disk |
//! | `reclaim`, `slow_readers` | reclaiming pages; what is done about snapshots that hold them back |
//! | `page_file` | the data file of a copy in the making |
//! | `page`, `meta` | the formats of pages and of the two meta pages |
//! | `pager`, `disk`, `lock_file` | the map, the data file, the lock file: here lives `unsafe` |
//! | `encryption`, `encrypted_disk` | keys and the cipher; plain pages in memory over sealed ones in a file |
//! | `simulation` | a disk in memory that crashes and fails, for tests (feature `simulation`) |
//! | `walk`, `check`, `stat`, `copy`, `backup`, `dump`, `trace` | tools |

mod agreed;
mod agreement;
mod ahead;
mod backup;
mod branch;
mod catalog;
mod check;
mod cold;
mod compact;
mod composite;
mod copy;
#[cfg(test)]
mod crash;
mod cursor;
mod db;
mod diff;
mod disk;
pub mod dump;
mod encrypted_disk;
mod encryption;
mod error;
mod flusher;
mod forest;
mod lock_file;
mod log;
mod meta;
mod node;
mod options;
mod page;
mod page_bits;
mod page_file;
mod page_set;
mod pager;
mod past;
mod reap;
mod reclaim;
mod recovery;
mod root;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod slow_readers;
mod snapshot;
mod space;
mod stat;
mod steady;
mod sync;
mod ticket;
mod trace;
mod tree;
mod txn;
mod view;
mod walk;
mod workspace;

pub use agreed::{CommitRecord, split_records};
pub use agreement::{Admission, Fate, Proposer};
pub use backup::{BackupInfo, restore, restore_encrypted, restore_replica, verify_backup, verify_encrypted_backup};
pub use branch::{BranchInfo, BranchStat};
pub use catalog::{Table, TableKind};
pub use check::CheckReport;
pub use compact::Compaction;
pub use copy::CopyReport;
pub use cursor::Cursor;
pub use db::Database;
pub use diff::{Both, DiffVisit};
pub use encryption::{ENCRYPTION_KEY_BYTES, EncryptionKey, TransientCipher, TransientSeal};
pub use error::{Error, Result};
pub use forest::{BRANCH_NAME_BYTES_MAX, BranchId};
pub use lock_file::ReaderInfo;
pub use meta::FORMAT_VERSION;
pub use node::Key;
pub use options::{Checksums, Durability, FileNames, FreeSpace, Options, PAGE_SIZE_MAX, PAGE_SIZE_MIN, Retention};
pub use page::{PageId, TxnId};
pub use past::{AsOf, PastInfo};
pub use recovery::Recovery;
pub use slow_readers::{AskSlowReader, ReaderLimits, SlowReaderAnswer, SlowReaders};
pub use snapshot::{OpenTable, ParkedSnapshot, Reading, Snapshot};
pub use stat::DatabaseStat;
pub use ticket::Ticket;
pub use trace::{WriteKind, WriteTrace};
pub use txn::{Nested, VALUE_BYTES_MAX, WriteTxn};
pub use view::{Range, TableStat, Value, View};
