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
    let db = Database::open(dir, options).map_err(Failure::engine(dir))?;
    let recovery = db.recovery();
    if recovery.transactions > 0 {
        let transactions = counted(recovery.transactions, "transaction", "transactions");
        eprintln!("recovered: {transactions} from {} of log", size(recovery.log_bytes));
    }
    Ok(db)
}
