//! redb: one table of byte strings.
//!
//! Lazy has no background sync in redb; the committing writer makes an immediate commit once a
//! second instead, which bounds the loss by time as Colibri's default does, though not by bytes.
//!
//! Not here: a choice of page size (redb's is fixed at 4 KiB), and its own check, which wants the
//! database for itself.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::engine::Mode;
use crate::engine::targets::{Config, EntryVisitor, Session, Target, TargetName, TxnBody, ValueVisitor, WriteOps};
use crate::measure::{Error, Result};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("kv");
/// Time after which a lazy commit is made durable.
const LAZY_PERIOD: Duration = Duration::from_secs(1);

struct Redb {
    database: Database,
    mode: Mode,
    last_durable: Mutex<Instant>,
}

fn failed(error: impl Into<redb::Error>) -> Error {
    Error::engine(TargetName::Redb, error.into())
}

pub(super) fn open(dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    let database = Database::create(dir.join("data.redb")).map_err(failed)?;
    let target = Redb { database, mode: config.mode, last_durable: Mutex::new(Instant::now()) };
    target.sync()?;
    Ok(Box::new(target))
}

impl Redb {
    fn durability_now(&self) -> Durability {
        match self.mode {
            Mode::Sync => Durability::Immediate,
            Mode::Nosync => Durability::None,
            Mode::Lazy => {
                let mut last = self.last_durable.lock().expect("nothing panics while it is held");
                if last.elapsed() < LAZY_PERIOD {
                    return Durability::None;
                }
                *last = Instant::now();
                Durability::Immediate
            }
        }
    }
}

impl Target for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { target: self }))
    }

    fn sync(&self) -> Result<()> {
        let txn = self.database.begin_write().map_err(failed)?;
        txn.open_table(TABLE).map_err(failed)?;
        txn.commit().map_err(failed)
    }

    fn notes(&self) -> String {
        match self.mode {
            Mode::Sync => "redb Durability::Immediate; cache of 1 GiB",
            Mode::Lazy => "redb Durability::None, the first commit after 1 s Immediate; a power loss rolls back to that; cache of 1 GiB",
            Mode::Nosync => "redb Durability::None; a power loss rolls back to the last sync; cache of 1 GiB",
        }
        .to_owned()
    }
}

struct RedbSession<'a> {
    target: &'a Redb,
}

impl Session for RedbSession<'_> {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        let mut txn = self.target.database.begin_write().map_err(failed)?;
        txn.set_durability(self.target.durability_now()).map_err(failed)?;
        body(&mut RedbOps { table: txn.open_table(TABLE).map_err(failed)? })?;
        txn.commit().map_err(failed)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        let txn = self.target.database.begin_read().map_err(failed)?;
        let table = txn.open_table(TABLE).map_err(failed)?;
        let value = table.get(key).map_err(failed)?;
        Ok(value.map(|value| visit(value.value())).is_some())
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        let txn = self.target.database.begin_read().map_err(failed)?;
        let table = txn.open_table(TABLE).map_err(failed)?;
        loop {
            let mut is_empty = true;
            for entry in table.iter().map_err(failed)? {
                let (key, value) = entry.map_err(failed)?;
                is_empty = false;
                if !visit(key.value(), value.value()) {
                    return Ok(());
                }
            }
            if is_empty {
                return Ok(());
            }
        }
    }
}

struct RedbOps<'t> {
    table: Table<'t, &'static [u8], &'static [u8]>,
}

impl WriteOps for RedbOps<'_> {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.table.insert(key, value).map_err(failed)?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.table.remove(key).map_err(failed)?.is_some())
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        let value = self.table.get(key).map_err(failed)?;
        Ok(value.map(|value| visit(value.value())).is_some())
    }
}
