//! Opening the database that a command works on.

use std::path::Path;

use colibri::{Database, Options};

use crate::failure::{Failure, Result};

/// Opens an existing database without the right to change it.
pub(crate) fn open_to_read(dir: &Path) -> Result<Database> {
    Database::open(dir, &Options::new().read_only(true).create(false)).map_err(Failure::engine(dir))
}
