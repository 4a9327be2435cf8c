//! `colibri restore`: a new database from a full backup and those that add to it.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use colibri::EncryptionKey;

use crate::copy::is_free;
use crate::failure::{Failure, Result};
use crate::key::{KeyArgs, Source};
use crate::number::{counted, grouped};

/// Restore a database from a full backup and the incremental ones that follow it
///
/// The database is made in a new directory, and everything in it is verified before it becomes one.
/// `colibri check --backup` verifies backups without restoring them.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri restore birds-again monday.backup tuesday.backup")]
pub(crate) struct RestoreArgs {
    /// Directory to make
    dest: PathBuf,
    /// Backups: a full one, then each that adds to the one before it
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
    /// File with a key that the database had before, which some of the backups have; may be given more
    /// than once
    #[arg(long = "old-key-file", value_name = "FILE")]
    old_key_files: Vec<PathBuf>,
}

/// A backup that is being read, and says so.
struct Input {
    file: BufReader<File>,
    index: usize,
    current: Rc<Cell<usize>>,
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.current.set(self.index);
        self.file.read(bytes)
    }
}

pub(crate) fn run(args: &RestoreArgs) -> Result<()> {
    // Before anything is made: a database must never be mixed with what is already there.
    if !is_free(&args.dest)? {
        return Err(Failure::Exists { path: args.dest.clone() });
    }
    // Which backup an error is about.
    let current = Rc::new(Cell::new(0));
    let mut inputs: Vec<Box<dyn Read>> = Vec::with_capacity(args.files.len());
    for (index, path) in args.files.iter().enumerate() {
        let file = File::open(path).map_err(Failure::io("cannot open", path))?;
        let file = BufReader::with_capacity(1 << 20, file);
        inputs.push(Box::new(Input { file, index, current: Rc::clone(&current) }));
    }
    let mut keys: Vec<EncryptionKey> = args.key.read()?.into_iter().collect();
    for path in &args.old_key_files {
        keys.push(Source::File(path).read()?);
    }
    let restored = colibri::restore_encrypted(&mut inputs, &args.dest, &keys);
    let info = restored.map_err(|e| Failure::backup(&args.files[current.get()], &args.dest)(e))?;
    let data = args.dest.join("data");
    let bytes = fs::metadata(&data).map_err(Failure::io("cannot read the size of", &data))?.len();
    writeln!(
        io::stdout(),
        "{}: restored from {}, {} bytes, as of transaction {}",
        args.dest.display(),
        counted(args.files.len() as u64, "backup", "backups"),
        grouped(bytes),
        info.txn,
    )?;
    Ok(())
}
