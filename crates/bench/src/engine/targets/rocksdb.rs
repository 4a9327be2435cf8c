//! RocksDB with optimistic transactions, which give the isolation that every other engine here has.
//!
//! Single operations go without a transaction object, as a single write is one by itself. Deletes
//! are blind: an LSM engine does not check whether the key exists, so this target always reports
//! that it did. The audit after a workload notices if it did not.
//!
//! Not here: compression (values are incompressible), column families, a page size.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, DBPinnableSlice, OptimisticTransactionDB, OptimisticTransactionOptions, Options,
    Transaction, WaitForCompactOptions, WriteOptions,
};

use crate::engine::Mode;
use crate::engine::targets::{Config, EntryVisitor, Session, Target, TargetName, TxnBody, ValueVisitor, WriteOps};
use crate::measure::{Error, Result};

const CACHE_BYTES: usize = 1 << 30;
const BLOOM_BITS_PER_KEY: f64 = 10.0;

struct Rocks {
    database: OptimisticTransactionDB,
    mode: Mode,
}

fn failed(error: rocksdb::Error) -> Error {
    Error::engine(TargetName::Rocksdb, error)
}

pub(super) fn open(dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
    blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.increase_parallelism(
        std::thread::available_parallelism().map_or(1, |cores| i32::try_from(cores.get()).unwrap_or(1)),
    );
    let database = OptimisticTransactionDB::open(&options, dir).map_err(failed)?;
    Ok(Box::new(Rocks { database, mode: config.mode }))
}

impl Target for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let mut write_options = WriteOptions::default();
        write_options.set_sync(self.mode == Mode::Sync);
        write_options.disable_wal(self.mode == Mode::Nosync);
        Ok(Box::new(RocksSession { database: &self.database, write_options }))
    }

    fn sync(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.database.flush_wal(true).map_err(failed)?;
        self.database.flush().map_err(failed)?;
        self.database.wait_for_compact(&options).map_err(failed)
    }

    fn notes(&self) -> String {
        let mode = match self.mode {
            Mode::Sync => "sync=1",
            Mode::Lazy => "sync=0 with a log and no bound; a power loss rolls back to what the log holds",
            Mode::Nosync => "no log; a power loss rolls back to the last flush",
        };
        format!(
            "RocksDB {mode}; optimistic transactions, blind deletes, block cache of 1 GiB, bloom filters, no compression"
        )
    }
}

struct RocksSession<'a> {
    database: &'a OptimisticTransactionDB,
    write_options: WriteOptions,
}

fn visited(value: Option<DBPinnableSlice<'_>>, visit: ValueVisitor<'_>) -> bool {
    value.map(|value| visit(&value)).is_some()
}

impl Session for RocksSession<'_> {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        let txn = self.database.transaction_opt(&self.write_options, &OptimisticTransactionOptions::default());
        let mut ops = RocksOps { txn };
        body(&mut ops)?;
        ops.txn.commit().map_err(failed)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.database.put_opt(key, value, &self.write_options).map_err(failed)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.database.delete_opt(key, &self.write_options).map_err(failed)?;
        Ok(true)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        Ok(visited(self.database.get_pinned(key).map_err(failed)?, visit))
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        let mut cursor = self.database.raw_iterator();
        loop {
            cursor.seek_to_first();
            if !cursor.valid() {
                return cursor.status().map_err(failed);
            }
            while let Some((key, value)) = cursor.item() {
                if !visit(key, value) {
                    return Ok(());
                }
                cursor.next();
            }
            cursor.status().map_err(failed)?;
        }
    }
}

struct RocksOps<'a> {
    txn: Transaction<'a, OptimisticTransactionDB>,
}

impl WriteOps for RocksOps<'_> {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.put(key, value).map_err(failed)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.txn.delete(key).map_err(failed)?;
        Ok(true)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        Ok(visited(self.txn.get_pinned(key).map_err(failed)?, visit))
    }
}
