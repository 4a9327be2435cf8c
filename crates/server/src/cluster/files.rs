//! Files: the directories of databases that are in use, each opened once however many databases are
//! in it.
//!
//! A database is the main branch of a file, or another branch of the file of the database after whose
//! model it was made. All of them share the file's log, its flushes and its lock.
//!
//! Invariants
//! - A directory is opened by one use at a time, and closed when the last use of it ends.
//! - The lock of an entry may be held while the disk is waited for; the lock of the map may not.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use colibri_sql::{DirectoryLock, InSql as _, Result};
use colibri_storage::{Database, Options};
use parking_lot::Mutex;

/// All files that were used since the start, by the names of their directories.
#[derive(Default)]
pub(super) struct Files(Mutex<HashMap<Box<str>, Arc<File>>>);

/// A file.
#[derive(Default)]
struct File(Mutex<Option<Open>>);

struct Open {
    database: Database,
    /// Of the directory: no other process has a database in it open.
    lock: DirectoryLock,
    uses: usize,
}

/// The right to use a file. It stays open until the last one ends.
pub(crate) struct FileUse {
    file: Arc<File>,
    /// There until the use ends.
    database: Option<Database>,
}

impl Files {
    /// The file in a directory, opened unless it is. `first` is called with a file that was just
    /// opened, before anybody else uses it.
    ///
    /// # Errors
    /// 55006 if another process has it open; of the disk; the error of `first`.
    pub(super) fn open(
        &self,
        name: &str,
        path: &Path,
        options: &Options,
        first: impl FnOnce(&Database) -> Result<()>,
    ) -> Result<FileUse> {
        let file = Arc::clone(self.0.lock().entry(name.into()).or_default());
        let mut open = file.0.lock();
        let database = match &mut *open {
            Some(open) => {
                open.uses += 1;
                open.database.clone()
            }
            None => {
                let database = Database::open(path, options).in_sql()?;
                let lock = DirectoryLock::for_sql(path)?;
                first(&database)?;
                *open = Some(Open { database: database.clone(), lock, uses: 1 });
                database
            }
        };
        drop(open);
        Ok(FileUse { file, database: Some(database) })
    }

    /// Forgets a directory that is not used and is about to get another name, or to go.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

impl FileUse {
    /// The main branch.
    pub(super) fn main(&self) -> &Database {
        self.database.as_ref().expect("it is there until the use ends")
    }

    /// The main branch, or the one of a name.
    ///
    /// # Errors
    /// Of the storage: there is no such branch.
    pub(super) fn branch(&self, name: Option<&str>) -> Result<Database> {
        match name {
            Some(name) => self.main().open_branch(name).in_sql(),
            None => Ok(self.main().clone()),
        }
    }

    /// Ends the use. If it is the last one, the file gets its final steady point.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn end(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        // Before the file is closed: a handle keeps it open.
        if self.database.take().is_none() {
            return Ok(());
        }
        let mut open = self.file.0.lock();
        let Some(state) = &mut *open else { return Ok(()) };
        state.uses -= 1;
        if state.uses > 0 {
            return Ok(());
        }
        // The lock of the directory is let go after the file is closed.
        let Some(Open { database, lock: _lock, .. }) = open.take() else { return Ok(()) };
        database.close().in_sql()
    }
}

impl Drop for FileUse {
    fn drop(&mut self) {
        // The next opening reports the error, too.
        _ = self.release();
    }
}
