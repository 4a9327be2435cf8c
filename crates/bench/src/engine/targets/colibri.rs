//! Colibri itself, with its redo log, without, and encrypted, through its public interface and with its
//! defaults: one `Plain` table, a snapshot per read.
//!
//! Not here: anything an application could not do. Each read opens and drops a snapshot, which is
//! the cheapest way that the interface offers.

use std::path::Path;
use std::sync::Arc;

use colibri::{Database, Durability, ENCRYPTION_KEY_BYTES, EncryptionKey, Options, Table, TableKind, WriteTxn};

use crate::engine::Mode;
use crate::engine::targets::{
    CheckSummary, Config, EntryVisitor, Session, Target, TargetName, TxnBody, ValueVisitor, WriteOps,
};
use crate::engine::trace::Printer;
use crate::measure::{Error, Result};

/// It protects nothing, and costs what any other does.
const KEY: [u8; ENCRYPTION_KEY_BYTES] = [7; ENCRYPTION_KEY_BYTES];

struct Colibri {
    database: Database,
    table: Table,
    durability: Durability,
    /// Declared after the database, so that it is dropped, and prints its summary, once the
    /// database is closed.
    _printer: Option<Arc<Printer>>,
}

fn failed(error: colibri::Error) -> Error {
    Error::engine(TargetName::Colibri, error)
}

pub(super) fn open(name: TargetName, dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    let durability = match config.mode {
        Mode::Sync if name == TargetName::ColibriNolog => Durability::SyncNoLog,
        Mode::Sync => Durability::Sync,
        Mode::Lazy => Durability::LAZY,
        Mode::Nosync => Durability::NoSync,
    };
    let mut options = Options::new().page_size(config.page_bytes).durability(durability);
    if name == TargetName::ColibriEncrypted {
        options = options.encryption_key(EncryptionKey::new(KEY));
    }
    let printer = config.trace_flush.then(|| Arc::new(Printer::new(format!("{name} {}", config.mode))));
    if let Some(printer) = &printer {
        let printer = Arc::clone(printer);
        options = options.trace_writes(move |trace| printer.print(trace));
    }
    let database = Database::open(dir, &options).map_err(failed)?;
    let mut txn = database.write().map_err(failed)?;
    let table = txn.create_table("kv", TableKind::Plain).map_err(failed)?;
    txn.commit().map_err(failed)?;
    Ok(Box::new(Colibri { database, table, durability, _printer: printer }))
}

impl Target for Colibri {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ColibriSession { database: &self.database, table: &self.table }))
    }

    fn sync(&self) -> Result<()> {
        self.database.sync().map_err(failed)
    }

    fn check(&self) -> Result<Option<CheckSummary>> {
        let report = self.database.check().map_err(failed)?;
        Ok(Some(CheckSummary { entries: report.entries, pages: report.pages_reached, problems: report.problems }))
    }

    fn notes(&self) -> String {
        let encrypted = if self.database.is_encrypted() { "; encrypted" } else { "" };
        let what = match self.durability {
            Durability::Sync => "every commit's log record on disk; steady points in the background; page checksums on",
            Durability::SyncNoLog => "every commit a steady point on disk, no log; page checksums on",
            Durability::Lazy { .. } => {
                "steady point per 64 MiB or 1 s in the background; a power loss rolls back to the last one; page checksums on"
            }
            Durability::NoSync => {
                "steady points on sync and close only; a power loss rolls back to the last one; page checksums on"
            }
            Durability::Agreed => "a commit waits until others have agreed on its record; page checksums on",
        };
        format!("{what}{encrypted}")
    }
}

struct ColibriSession<'a> {
    database: &'a Database,
    table: &'a Table,
}

impl Session for ColibriSession<'_> {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        let mut ops = ColibriOps { txn: self.database.write().map_err(failed)?, table: self.table };
        body(&mut ops)?;
        ops.txn.commit().map_err(failed)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        let snapshot = self.database.read().map_err(failed)?;
        let value = snapshot.get(self.table, key).map_err(failed)?;
        Ok(value.map(visit).is_some())
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        let snapshot = self.database.read().map_err(failed)?;
        let mut cursor = snapshot.view(self.table).map_err(failed)?.cursor();
        while cursor.first().map_err(failed)? {
            loop {
                if !visit(cursor.key(), cursor.value().map_err(failed)?) {
                    return Ok(());
                }
                if !cursor.next().map_err(failed)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

struct ColibriOps<'a> {
    txn: WriteTxn,
    table: &'a Table,
}

impl WriteOps for ColibriOps<'_> {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.put(self.table, key, value).map_err(failed)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.txn.delete(self.table, key).map_err(failed)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        let value = self.txn.get(self.table, key).map_err(failed)?;
        Ok(value.map(visit).is_some())
    }
}
