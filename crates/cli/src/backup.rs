//! `colibri backup`: a database, or what has changed in it since an earlier backup, as one file.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use colibri::{BackupInfo, Database, EncryptionKey, TxnId, verify_encrypted_backup};

use crate::database::open_to_back_up;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::new_file;
use crate::number::{counted, grouped};

/// How long to wait for another process's steady point.
const STEADY_WITHIN: Duration = Duration::from_secs(60);

/// Back up a database to a new file, while others go on using it
///
/// With --since the file has only what has changed since an earlier backup, full or not; restoring
/// takes the full backup and all that follow it. A backup holds all that was acknowledged before it
/// began. One of an encrypted
/// database is encrypted with the same key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri backup birds monday.backup\n  \
                        colibri backup birds tuesday.backup --since monday.backup\n  \
                        colibri restore birds-again monday.backup tuesday.backup")]
pub(crate) struct BackupArgs {
    /// Directory of the database
    dir: PathBuf,
    /// File to make
    file: PathBuf,
    /// Earlier backup that this one adds to [default: none, for a full backup]
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &BackupArgs) -> Result<()> {
    let key = args.key.read()?;
    let keys: Vec<EncryptionKey> = key.iter().cloned().collect();
    let since = args.since.as_deref().map(|path| verify(path, &keys)).transpose()?;
    let db = open_to_back_up(&args.dir, key)?;
    let acknowledged = db.newest_txn();
    let info = new_file::make(&args.file, |out| {
        await_steady(&db, acknowledged, &args.dir)?;
        db.backup(since.as_ref(), out).map_err(|error| match (error, &args.since) {
            (source @ colibri::Error::BackupMismatch { .. }, Some(file)) => {
                Failure::Backup { file: file.clone(), source }
            }
            (error, _) => Failure::backup(&args.file, &args.dir)(error),
        })
    })?;
    writeln!(io::stdout(), "{}: {}", args.file.display(), summary(&info))?;
    Ok(())
}

/// If this process may not make a steady point, waits until one contains all acknowledged commits.
/// By default the writing process makes one at least every 30 seconds.
fn await_steady(db: &Database, acknowledged: TxnId, dir: &Path) -> Result<()> {
    let begun = Instant::now();
    // If this process may make a steady point, the backup does.
    while db.stat().map_err(Failure::engine(dir))?.steady_txn < acknowledged && db.is_read_only() {
        if begun.elapsed() > STEADY_WITHIN {
            return Err(Failure::NoSteadyPoint { dir: dir.to_owned() });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Reads a backup whole, and describes it.
pub(crate) fn verify(path: &Path, keys: &[EncryptionKey]) -> Result<BackupInfo> {
    let file = File::open(path).map_err(Failure::io("cannot open", path))?;
    verify_encrypted_backup(&mut BufReader::with_capacity(1 << 20, file), keys).map_err(Failure::backup(path, path))
}

/// What a backup holds, in a few words.
pub(crate) fn summary(info: &BackupInfo) -> String {
    let since = info.since.map_or(String::new(), |since| format!(" changed since transaction {since}"));
    let pages = counted(info.pages, "page", "pages");
    format!("{pages}{since}, {} bytes, as of transaction {}", grouped(info.bytes), info.txn)
}
