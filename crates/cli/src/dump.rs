//! `colibri dump`: tables as text, in the format of LMDB's `mdb_dump`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use colibri::{Database, dump};

use crate::database::open_to_read;
use crate::failure::{Failure, Result};

/// Write tables as text, in the format of LMDB's mdb_dump
///
/// The text is the database as of one moment, whatever writers do meanwhile. `colibri load` and mdb_load read it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri dump birds --table wingbeats --output wingbeats.dump\n  \
                        colibri dump birds | gzip > birds.dump.gz")]
pub(crate) struct DumpArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Table to write; may be given more than once [default: all tables]
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,
    /// File to make [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    let db = open_to_read(&args.dir)?;
    match &args.output {
        Some(path) => write_file(&db, args, path),
        None => write_to(&db, args, &mut io::stdout().lock()),
    }
}

/// A file that holds the whole dump, on disk, or no file.
fn write_file(db: &Database, args: &DumpArgs, path: &Path) -> Result<()> {
    // Never over an existing file: it may be the last good dump.
    let mut file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::Exists { path: path.to_owned() });
        }
        Err(source) => return Err(Failure::io("cannot create", path)(source)),
    };
    let outcome =
        write_to(db, args, &mut file).and_then(|()| file.sync_all().map_err(Failure::io("cannot flush", path)));
    if outcome.is_err() {
        // The outcome says what went wrong; that the rest of the file stays as well would not help anybody.
        let _ = fs::remove_file(path);
    }
    outcome
}

fn write_to(db: &Database, args: &DumpArgs, out: &mut dyn io::Write) -> Result<()> {
    let names: Vec<&str> = args.tables.iter().map(String::as_str).collect();
    let tables = (!names.is_empty()).then_some(&names[..]);
    let snapshot = db.read().map_err(Failure::engine(&args.dir))?;
    dump::dump(&snapshot, tables, out).map_err(Failure::engine(&args.dir))
}
