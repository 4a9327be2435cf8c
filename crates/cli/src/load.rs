//! `colibri load`: tables from text, Colibri's own dumps and those of LMDB's `mdb_dump`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use colibri::dump::{self, LoadOptions, LoadReport};
use colibri::{Database, Options};

use crate::database::open;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::counted;

/// Load tables from the text that `colibri dump` or LMDB's mdb_dump wrote
///
/// Makes the database if there is none, encrypted if a key is given. All of the input is loaded, or nothing. Entries whose key
/// exists are replaced.
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
    /// Page size of a new database in bytes, from 4096 to 65536: larger pages take longer keys
    /// [default: 4096]
    #[arg(long, value_name = "BYTES")]
    page_size: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
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
    let mut options = args.key.add_to(Options::new())?;
    if let Some(bytes) = args.page_size {
        options = options.page_size(bytes);
    }
    let mut load_options = LoadOptions::new();
    if let Some(name) = &args.table {
        load_options = load_options.table(name);
    }
    let made = Made::by_opening(&args.dir);
    let db = open(&args.dir, &options)?;
    match dump::load(&db, input, &load_options) {
        Ok(report) => {
            db.close().map_err(Failure::engine(&args.dir))?;
            Ok(report)
        }
        Err(source) => {
            made.take_back(db);
            Err(failure(args, source))
        }
    }
}

fn failure(args: &LoadArgs, source: colibri::Error) -> Failure {
    let input = args.input.as_ref().map_or("standard input".to_owned(), |path| path.display().to_string());
    match &source {
        colibri::Error::InvalidDump { .. } => Failure::Input { input, source },
        colibri::Error::Io { path, .. } if path == Path::new("the dump") => Failure::Input { input, source },
        _ => Failure::engine(&args.dir)(source),
    }
}

/// The files and directories that come into being when a database is opened that is not there yet.
struct Made {
    files: Vec<PathBuf>,
    dirs: Vec<PathBuf>,
}

impl Made {
    fn by_opening(dir: &Path) -> Self {
        if dir.join("data").exists() {
            return Self { files: Vec::new(), dirs: Vec::new() };
        }
        let files = ["data", "lock"].map(|name| dir.join(name)).into_iter().filter(|file| !file.exists()).collect();
        let missing = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        Self { files, dirs: missing.map(Path::to_owned).collect() }
    }

    /// Nothing was loaded: removes what opening made, if no other process has written to it
    /// meanwhile.
    fn take_back(self, db: Database) {
        let untouched = db.stat().is_ok_and(|stat| stat.txn.0 == 0);
        drop(db);
        if untouched {
            // What cannot be removed does no harm, and the command has another error to report.
            self.files.iter().for_each(|file| _ = fs::remove_file(file));
            self.dirs.iter().for_each(|dir| _ = fs::remove_dir(dir));
        }
    }
}
