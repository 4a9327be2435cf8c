//! `colibri load`: tables from text, Colibri's own dumps and those of LMDB's `mdb_dump`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use colibri::dump::{self, LoadOptions, LoadReport};
use colibri::{Database, Options};

use crate::failure::{Failure, Result};
use crate::number::counted;

/// Load tables from the text that `colibri dump` or LMDB's mdb_dump wrote
///
/// Makes the database if there is none. All of the input is loaded, or nothing. Entries whose key exists are
/// replaced.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  mdb_dump -a lmdb-dir | colibri load birds\n  colibri load birds --input birds.dump"
)]
pub(crate) struct LoadArgs {
    /// Directory of the database
    dir: PathBuf,
    /// File to read [default: standard input]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Table for a database without a name, as mdb_dump without -a and -s writes it [default: main]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Page size of a new database in bytes, from 4096 to 65536: larger pages take longer keys [default: 4096]
    #[arg(long, value_name = "BYTES")]
    page_size: Option<u32>,
}

pub(crate) fn run(args: &LoadArgs) -> Result<()> {
    // The input first: a missing file must not leave a new, empty database.
    let mut input: Box<dyn BufRead> = match &args.input {
        Some(path) => {
            let file = File::open(path).map_err(Failure::io("cannot open", path))?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        }
        None => {
            if io::stdin().is_terminal() {
                eprintln!("reading a dump from the terminal; end it with Ctrl-D");
            }
            Box::new(io::stdin().lock())
        }
    };
    let report = load(args, &mut *input)?;
    for note in &report.notes {
        eprintln!("colibri: note: {note}");
    }
    writeln!(
        io::stdout(),
        "{}: loaded {} into {}",
        args.dir.display(),
        counted(report.entries, "entry", "entries"),
        counted(report.tables, "table", "tables"),
    )?;
    Ok(())
}

fn load(args: &LoadArgs, input: &mut dyn BufRead) -> Result<LoadReport> {
    let mut options = Options::new();
    if let Some(bytes) = args.page_size {
        options = options.page_size(bytes);
    }
    let mut load_options = LoadOptions::new();
    if let Some(name) = &args.table {
        load_options = load_options.table(name);
    }
    let db = Database::open(&args.dir, &options).map_err(Failure::engine(&args.dir))?;
    let report = dump::load(&db, input, &load_options).map_err(|source| match source {
        colibri::Error::InvalidDump { .. } => {
            let input = args.input.as_ref().map_or("standard input".to_owned(), |path| path.display().to_string());
            Failure::Input { input, source }
        }
        source => Failure::engine(&args.dir)(source),
    })?;
    db.close().map_err(Failure::engine(&args.dir))?;
    Ok(report)
}
