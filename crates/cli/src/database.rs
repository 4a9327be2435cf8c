//! Opening the database that a command works on.

use std::io;
use std::path::{Path, PathBuf};

use colibri::{Database, Durability, EncryptionKey, Options};

use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::{counted, size};

/// Opens an existing database read-only, whatever the durability mode of its writers.
pub(crate) fn open_to_read(dir: &Path, key: &KeyArgs) -> Result<Database> {
    open(dir, &key.add_to(Options::new().read_only(true).create(false))?)
}

/// Opens an existing database to back it up. A backup begins with a steady point, so that it holds
/// all that was acknowledged before, and only those who may write can make one. With read
/// permission alone, or beside a node of a cluster, the backup waits until one is made.
pub(crate) fn open_to_back_up(dir: &Path, key: Option<EncryptionKey>) -> Result<Database> {
    let options = Options::new().create(false).encryption_key(key);
    // All processes that commit have to agree on whether commits go to the log. This one commits
    // nothing, so it accepts both.
    match open(dir, &options) {
        Err(Failure::Engine { source: colibri::Error::DurabilityDiffers { .. }, .. }) => {
            match open(dir, &options.clone().durability(Durability::NoSync)) {
                // A node of a cluster has it open, beside which nobody else may write.
                Err(Failure::Engine { source: colibri::Error::DurabilityDiffers { .. }, .. }) => {
                    open(dir, &options.read_only(true))
                }
                opened => opened,
            }
        }
        Err(Failure::Engine { source: colibri::Error::Io { ref source, .. }, .. }) if is_refusal(source) => {
            open(dir, &options.read_only(true))
        }
        opened => opened,
    }
}

/// Opens an existing database to change it, whatever the durability mode of others that have it
/// open. What was committed is on disk after [`Database::sync`].
pub(crate) fn open_beside_others(dir: &Path, key: &KeyArgs) -> Result<Database> {
    let options = key.add_to(Options::new().create(false))?;
    match open(dir, &options) {
        Err(Failure::Engine { source: colibri::Error::DurabilityDiffers { .. }, .. }) => {
            open(dir, &options.durability(Durability::NoSync))
        }
        opened => opened,
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Opens a database, and reports if that needed a recovery.
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

/// Refuses a server's directory, and directories beside its databases or inside of one. Otherwise a
/// new, empty database would be made there.
fn ensure_not_of_a_server(dir: &Path) -> Result<()> {
    if is_database(dir) {
        return Ok(());
    }
    let path = resolved(dir);
    for outer in path.ancestors() {
        // The nearest directory of a known kind decides.
        if is_of_a_server(outer) {
            return match path.parent() == Some(&outer.join("databases")) {
                true => Ok(()),
                false => Err(of_a_server(if outer == path { dir } else { outer })),
            };
        }
        if is_database(outer) {
            return Err(Failure::InADatabase { dir: dir.to_owned(), database: outer.to_owned() });
        }
    }
    Ok(())
}

fn of_a_server(dir: &Path) -> Failure {
    let entries = dir.join("databases").read_dir().into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Failure::OfAServer { dir: dir.to_owned(), names }
}

/// The absolute path without symbolic links and `..`, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolve = |outer: &Path| Some(outer.canonicalize().ok()?.join(absolute.strip_prefix(outer).ok()?));
    absolute.ancestors().find_map(resolve).unwrap_or(absolute.clone())
}

/// Refuses the directory in which a server keeps what is common to its databases: it is no database
/// for SQL.
pub(crate) fn ensure_for_sql(dir: &Path) -> Result<()> {
    let path = resolved(dir);
    match path.parent() {
        Some(server) if path.ends_with("cluster") && is_of_a_server(server) => Err(of_a_server(server)),
        _ => Ok(()),
    }
}

/// Whether there is a database in a directory.
pub(crate) fn is_database(dir: &Path) -> bool {
    dir.join("data").is_file()
}

/// Whether a directory is that of a server.
pub(crate) fn is_of_a_server(dir: &Path) -> bool {
    is_database(&dir.join("cluster")) && dir.join("databases").is_dir()
}
