//! `colibri copy`: a database as of one moment, in a new directory, while writers go on.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::database::open_to_read;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::{counted, grouped};

/// Copy a database as of now to a new directory, while others go on using it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri copy --compact birds /backup/birds")]
pub(crate) struct CopyArgs {
    /// Write full pages and no free space: smaller, but slower to make
    #[arg(long)]
    compact: bool,
    /// Copy this branch alone, as the main one of the copy [default: all branches]
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Directory of the database
    dir: PathBuf,
    /// Directory to make
    dest: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &CopyArgs) -> Result<()> {
    // Before anything is opened: a copy must never touch what is already there.
    if !is_free(&args.dest)? {
        return Err(Failure::Exists { path: args.dest.clone() });
    }
    let mut db = open_to_read(&args.dir, &args.key)?;
    if let Some(branch) = &args.branch {
        db = db.open_branch(branch).map_err(Failure::engine(&args.dir))?;
    }
    let report = db.copy_to(&args.dest, args.compact).map_err(Failure::engine(&args.dir))?;
    writeln!(
        io::stdout(),
        "{}: {}, {} bytes, as of transaction {}",
        args.dest.display(),
        counted(report.pages, "page", "pages"),
        grouped(report.bytes),
        report.txn,
    )?;
    Ok(())
}

/// Whether `dest` is missing or an empty directory.
pub(crate) fn is_free(dest: &Path) -> Result<bool> {
    match dest.read_dir() {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && dest.exists() => Ok(false),
        Err(source) => Err(Failure::io("cannot look into", dest)(source)),
    }
}
