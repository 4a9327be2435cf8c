//! Opening the database that a command works on.

use std::path::Path;

use colibri::{Database, Options};

use crate::failure::{Failure, Result};
use crate::number::{counted, size};

/// Opens an existing database without the right to change it: whatever the durability of those who write to it.
pub(crate) fn open_to_read(dir: &Path) -> Result<Database> {
    open(dir, &Options::new().read_only(true).create(false))
}

/// Opens a database, and tells if that took more than looking at it.
pub(crate) fn open(dir: &Path, options: &Options) -> Result<Database> {
    ensure_not_of_a_server(dir)?;
    let db = Database::open(dir, options).map_err(Failure::engine(dir))?;
    let recovery = db.recovery();
    if recovery.transactions > 0 {
        let transactions = counted(recovery.transactions, "transaction", "transactions");
        eprintln!("recovered: {transactions} from {} of log", size(recovery.log_bytes));
    }
    Ok(db)
}

/// A server's directory is not a database. One would be made in it, and be empty, to somebody's surprise.
fn ensure_not_of_a_server(dir: &Path) -> Result<()> {
    if is_database(dir) || !is_of_a_server(dir) {
        return Ok(());
    }
    let entries = dir.join("databases").read_dir().into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Err(Failure::OfAServer { dir: dir.to_owned(), names })
}

/// Whether there is a database in a directory.
pub(crate) fn is_database(dir: &Path) -> bool {
    dir.join("data").exists()
}

/// Whether a directory is that of a server.
pub(crate) fn is_of_a_server(dir: &Path) -> bool {
    is_database(&dir.join("cluster")) && dir.join("databases").is_dir()
}
