//! SQLite: `CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID`, a connection per session,
//! statements prepared once, a write-ahead log in every mode.
//!
//! Single operations run without BEGIN and COMMIT, which SQLite then implies, as that is faster.
//!
//! Not here: other journal modes, and the exclusive locking mode, which one process with one
//! connection could use.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::engine::Mode;
use crate::engine::targets::{Config, EntryVisitor, Session, Target, TargetName, TxnBody, ValueVisitor, WriteOps};
use crate::measure::{Error, Result};

const SET: &str = "INSERT OR REPLACE INTO kv (k, v) VALUES (?1, ?2)";
const DELETE: &str = "DELETE FROM kv WHERE k = ?1";
const GET: &str = "SELECT v FROM kv WHERE k = ?1";
const WALK: &str = "SELECT k, v FROM kv ORDER BY k";

/// How long a writer waits for another writer. It is longer than any checkpoint.
const BUSY_TIMEOUT: Duration = Duration::from_secs(600);

struct Sqlite {
    path: PathBuf,
    mode: Mode,
    page_bytes: u32,
    /// Keeps the database open between sessions, and makes the checkpoints that `sync` asks for.
    keeper: Mutex<Connection>,
}

fn failed(error: rusqlite::Error) -> Error {
    Error::engine(TargetName::Sqlite, error)
}

pub(super) fn open(dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    let path = dir.join("data.sqlite");
    let keeper = connect(&path, config.mode, config.page_bytes)?;
    keeper.execute_batch("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID").map_err(failed)?;
    Ok(Box::new(Sqlite { path, mode: config.mode, page_bytes: config.page_bytes, keeper: Mutex::new(keeper) }))
}

fn connect(path: &Path, mode: Mode, page_bytes: u32) -> Result<Connection> {
    let connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    let synchronous = match mode {
        Mode::Sync => "FULL",
        Mode::Lazy => "NORMAL",
        Mode::Nosync => "OFF",
    };
    let set_up = format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
         PRAGMA cache_size = -262144; PRAGMA mmap_size = 2147418112;"
    );
    connection.execute_batch(&set_up).map_err(failed)?;
    Ok(connection)
}

impl Target for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession { connection: connect(&self.path, self.mode, self.page_bytes)? }))
    }

    fn sync(&self) -> Result<()> {
        let keeper = self.keeper.lock().expect("nothing panics while it is held");
        keeper.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(failed)?;
        if self.mode == Mode::Nosync {
            let file = std::fs::File::open(&self.path).and_then(|file| file.sync_all());
            file.map_err(|error| Error::io("cannot sync", &self.path, error))?;
        }
        Ok(())
    }

    fn notes(&self) -> String {
        match self.mode {
            Mode::Sync => "SQLite WAL, synchronous=FULL; cache of 256 MiB a connection, mapped reads",
            Mode::Lazy => {
                "SQLite WAL, synchronous=NORMAL, synced per checkpoint (1,000 pages of log); a power loss rolls back \
                 to what the log holds; cache of 256 MiB a connection, mapped reads"
            }
            Mode::Nosync => {
                "SQLite WAL, synchronous=OFF: a power loss may corrupt the database (not crash-safe); cache of \
                 256 MiB a connection, mapped reads"
            }
        }
        .to_owned()
    }
}

struct SqliteSession {
    connection: Connection,
}

impl Session for SqliteSession {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        let txn = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        body(&mut SqliteOps { connection: &txn })?;
        txn.commit().map_err(failed)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        SqliteOps { connection: &self.connection }.set(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        SqliteOps { connection: &self.connection }.delete(key)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        SqliteOps { connection: &self.connection }.get(key, visit)
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        let txn = self.connection.transaction().map_err(failed)?;
        let mut statement = txn.prepare_cached(WALK).map_err(failed)?;
        loop {
            let mut is_empty = true;
            let mut rows = statement.query(()).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let blob = |column| row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from);
                is_empty = false;
                if !visit(blob(0).map_err(failed)?, blob(1).map_err(failed)?) {
                    return Ok(());
                }
            }
            if is_empty {
                return Ok(());
            }
        }
    }
}

struct SqliteOps<'c> {
    connection: &'c Connection,
}

impl WriteOps for SqliteOps<'_> {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut statement = self.connection.prepare_cached(SET).map_err(failed)?;
        statement.execute((key, value)).map_err(failed)?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(DELETE).map_err(failed)?;
        Ok(statement.execute((key,)).map_err(failed)? > 0)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(GET).map_err(failed)?;
        let mut found = |row: &rusqlite::Row<'_>| {
            visit(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?);
            Ok(())
        };
        Ok(statement.query_row((key,), &mut found).optional().map_err(failed)?.is_some())
    }
}
