//! Which process has a directory open: an advisory lock on a file in it, which goes away with the
//! process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use colibri_types::{Error, Result, SqlState};

/// The file that says which process has a database open for SQL.
const SQL_LOCK_FILE: &str = "sql.lock";
/// PostgreSQL's `object_in_use`.
const IN_USE: SqlState = SqlState("55006");

/// The lock, until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// The lock that whoever opens a database for SQL has to have: its sessions share locks and
    /// counters in memory.
    ///
    /// # Errors
    /// 55006 if it is taken, saying by whom; 58030 of the file system.
    pub fn for_sql(dir: &Path) -> Result<Self> {
        Self::take(&dir.join(SQL_LOCK_FILE), |who| Self::taken_error(dir, who))
    }

    /// The same; `None` if another process has it, with that process' number, if it is known.
    ///
    /// # Errors
    /// 55006 if this process has it, 58030 of the file system.
    pub fn try_for_sql(dir: &Path) -> Result<std::result::Result<Self, Option<u32>>> {
        match Self::try_take(&dir.join(SQL_LOCK_FILE))? {
            Ok(lock) => Ok(Ok(lock)),
            Err(owner) if owner == std::process::id().to_string() => Err(Self::taken_error(dir, "by this process")),
            Err(owner) => Ok(Err(owner.parse().ok())),
        }
    }

    /// Whether a directory has been opened for SQL before.
    #[must_use]
    pub fn has_been_taken(dir: &Path) -> bool {
        dir.join(SQL_LOCK_FILE).exists()
    }

    /// The error for a directory that is open for SQL already.
    #[must_use]
    pub fn taken_error(dir: &Path, who: &str) -> Error {
        Error::new(IN_USE, format!("{} is open for SQL {who}", dir.display())).hint(
            "If that is a server, connect to it with a client, or else end it; `colibri backup` copies the database \
             meanwhile.",
        )
    }

    /// Takes the lock on a file, and writes this process' number into it; `taken` makes an error of
    /// who has it.
    ///
    /// # Errors
    /// What `taken` gives, 58030 of the file system.
    pub fn take(path: &Path, taken: impl FnOnce(&str) -> Error) -> Result<Self> {
        Self::try_take(path)?.map_err(|owner| {
            taken(&match owner.as_str() {
                "" => "by another process".to_owned(),
                owner if owner == std::process::id().to_string() => "by this process".to_owned(),
                owner => format!("by process {owner}"),
            })
        })
    }

    /// The lock, or the number of the process that has it as the file tells it.
    fn try_take(path: &Path) -> Result<std::result::Result<Self, String>> {
        let failed = |error: std::io::Error| Error::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()));
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Only to say who it is: if that cannot be read, the message says less.
                _ = file.read_to_string(&mut owner);
                return Ok(Err(colibri_types::letters::trim(&owner).to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let write = |file: &mut File| -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(failed)?;
        Ok(Ok(Self { _file: file }))
    }
}
