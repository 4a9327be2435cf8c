//! Statistics of a whole database.

use crate::check::table_stats;
use crate::db::Database;
use crate::page::TxnId;
use crate::snapshot::Snapshot;
use crate::space::Space;
use crate::{Result, TableStat};

/// Size and shape of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseStat {
    /// Page size in bytes.
    pub page_size: u32,
    /// Version of the file format, as of the last steady point.
    pub format_version: u32,
    /// The newest committed transaction.
    pub txn: TxnId,
    /// The newest transaction that a crash of the system cannot take: by the log or by a steady
    /// point.
    pub durable_txn: TxnId,
    /// The last steady point.
    pub steady_txn: TxnId,
    /// The length of the data file in bytes.
    pub file_bytes: u64,
    /// Disk space behind the data file in bytes: less than its length where free pages were given
    /// back.
    pub disk_bytes: u64,
    /// Pages up to the last one that was ever used, meta pages included.
    pub pages: u64,
    /// Free pages among them, as of the last steady point.
    pub free_pages: u64,
    /// Flushes of the log by this opening of the database.
    pub log_flushes: u64,
    /// Live snapshots of all processes.
    pub readers: u32,
    /// The tables, by name.
    pub tables: Vec<(String, TableStat)>,
}

impl Database {
    /// Size and shape of the database now.
    pub fn stat(&self) -> Result<DatabaseStat> {
        let core = &self.0.core;
        let readers = self.readers().len() as u32;
        // Pinned, so that the free map is not taken or cut off while it is read.
        let (steady, meta, free) = Snapshot::steady(self.0.main(), |meta| Space::load(&core.pager, meta))?;
        let free = free?;
        drop(steady);
        let root = core.shared.root();
        Ok(DatabaseStat {
            page_size: self.page_size(),
            format_version: meta.version,
            txn: root.txn,
            durable_txn: if core.shared.is_logged() { core.shared.visible() } else { core.shared.steady() },
            steady_txn: core.shared.steady(),
            file_bytes: core.pager.disk().allocated(),
            disk_bytes: core.pager.disk().occupied()?,
            pages: u64::from(root.page_count.max(meta.page_count)),
            free_pages: u64::from(free.free_at_steady().len()),
            log_flushes: core.log.flushes(),
            readers,
            tables: table_stats(self)?,
        })
    }
}
