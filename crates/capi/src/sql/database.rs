//! A directory that is open for SQL.

use std::path::Path;

use embedded::Durability;
use embedded::sql::Database;

use crate::fault::{Fault, Result};
use crate::fork::OfProcess;
use crate::handles::{Handle, Handles};

/// `colibri_options`. ABI: fields are only added, at the end; `size` says how many there are.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ColibriOptions {
    size: usize,
    durability: u32,
    must_exist: u32,
    size_max: u64,
}

/// `colibri_db`
pub(crate) struct Db {
    database: OfProcess<Database>,
}

pub(crate) static DATABASES: Handles<Db> = Handles::new(1);

impl ColibriOptions {
    /// As options of the storage.
    pub(crate) fn of_storage(given: Option<Self>) -> Result<embedded::Options> {
        let options = embedded::Options::new();
        let Some(given) = given else { return Ok(options) };
        if given.size != size_of::<Self>() {
            return Err(Fault::Misuse("colibri_options has a size that this library does not know"));
        }
        let options = match given.durability {
            0 => options,
            1 => options.durability(Durability::LAZY),
            2 => options.durability(Durability::NoSync),
            _ => return Err(Fault::Misuse("colibri_options has a durability that this library does not know")),
        };
        let options = options.create(given.must_exist == 0);
        Ok(if given.size_max == 0 { options } else { options.size_max(given.size_max) })
    }
}

impl Db {
    pub(crate) fn open(dir: &Path, options: Option<ColibriOptions>) -> Result<Self> {
        Ok(Self::of(Database::open_with(dir, &ColibriOptions::of_storage(options)?)?))
    }

    pub(crate) fn of(database: Database) -> Self {
        Self { database: OfProcess::new(database) }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if let Some(database) = self.database.of_parent() {
            database.leave_to_parent();
        }
    }
}

/// The database of a handle, which other threads may use meanwhile.
pub(crate) fn database_of(db: Handle<Db>) -> Result<Database> {
    DATABASES.copy_of(db, |db| Ok(db.database.get()?.clone()))
}
