//! `colibri sql`: SQL on a database of this machine, typed in or from scripts.
//!
//! | file | holds |
//! | --- | --- |
//! | `shell` | statements and commands, one after the other; what they print |
//! | `input` | where they come from: a terminal, a script, the command line |
//! | `scan` | where a statement ends |
//! | `commands` | what begins with a backslash |
//! | `describe` | `\d` and its kin |
//! | `transfer` | COPY and `\copy` |
//! | `table`, `format`, `report` | results for people, results for programs, errors |

mod commands;
mod describe;
mod format;
mod input;
mod report;
mod scan;
mod shell;
mod table;
mod transfer;

use std::fs::File;
use std::io::{self, BufReader, Cursor, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use colibri::sql::engine::Session;
use colibri::{Durability, Options, sql};

use crate::database::{ensure_for_sql, open};
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::version;
use format::Format;
use input::{Editor, Reader};
use shell::{Place, Ran, Shell, Stop};

/// Run SQL: a shell, or the statements of -c, of a script, of standard input
///
/// Makes the database if there is none, encrypted if a key is given. If a process has it open already, the statements run there.
/// Statements end with a semicolon; \? lists the commands of the shell. Ctrl-C ends a statement, \q
/// or Ctrl-D the shell.
///
/// As in psql, scripts and standard input go on after an error, and the exit code is 0; with `-v
/// ON_ERROR_STOP=1` they end there, and it is 3. A text of -c ends at its first error, and the exit
/// code is 1 if the last text failed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  colibri sql birds\n  \
                        colibri sql birds -c 'CREATE TABLE t (a int)' -c 'INSERT INTO t VALUES (1)'\n  \
                        colibri sql birds --format csv -c 'SELECT * FROM t' > t.csv\n  \
                        colibri sql birds -f schema.sql\n  \
                        echo 'SELECT 1;' | colibri sql birds --format json")]
pub(crate) struct SqlArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Statements or one backslash command to run; may be given more than once
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "files")]
    commands: Vec<String>,
    /// Script to run, - for standard input; may be given more than once
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Variable of the shell: ON_ERROR_STOP=1 ends scripts at their first error
    #[arg(short = 'v', long = "set", visible_alias = "variable", value_name = "NAME=VALUE", value_parser = variable)]
    on_error_stop: Vec<bool>,
    /// How results are written
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// What a commit waits for
    #[arg(long, value_enum, default_value = "sync")]
    durability: Mode,
    /// The name that current_user gives
    #[arg(short = 'U', long, value_name = "NAME", default_value = "colibri")]
    user: String,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Its record in the log on disk
    Sync,
    /// Its pages on disk: no log
    #[value(name = "sync-no-log")]
    SyncNoLog,
    /// Nothing; on disk within a second or so
    Lazy,
    /// Nothing; on disk when the command ends
    #[value(name = "nosync")]
    NoSync,
}

impl Mode {
    fn durability(self) -> Durability {
        match self {
            Self::Sync => Durability::Sync,
            Self::SyncNoLog => Durability::SyncNoLog,
            Self::Lazy => Durability::LAZY,
            Self::NoSync => Durability::NoSync,
        }
    }
}

/// Codes that tell which kind of input had an error, as psql's do.
const COMMAND_FAILED: u8 = 1;
const SCRIPT_FAILED: u8 = 3;

pub(crate) fn run(args: &SqlArgs) -> Result<()> {
    // Scripts first: one that is missing must not leave a new, empty database.
    let mut scripts = Vec::with_capacity(args.files.len());
    for path in &args.files {
        scripts.push((path, if path == Path::new("-") { None } else { Some(open_script(path)?) }));
    }
    ensure_for_sql(&args.dir)?;
    let key = args.key.read()?;
    let is_encrypted = key.is_some();
    let options = Options::new().durability(args.durability.durability()).encryption_key(key);
    let failed = |source| Failure::Sql { dir: args.dir.clone(), source: Box::new(source) };
    let db = match open(&args.dir, &options) {
        // Its statements run in the process that has it open.
        Err(Failure::Engine { source: colibri::Error::EncryptedInUse { .. }, .. }) if is_encrypted => {
            sql::Database::open_with(&args.dir, &options).map_err(failed)?
        }
        storage => sql::Database::with_storage(storage?).map_err(failed)?,
    };
    let is_terminal = args.commands.is_empty() && scripts.is_empty() && io::stdin().is_terminal();
    let mut shell = Shell::new(&db, &args.user, args.format, is_terminal)?;
    shell.on_error_stop = args.on_error_stop.last().copied().unwrap_or(false);
    let result = if is_terminal {
        greet(&args.dir)?;
        shell.run(&mut Editor::new(shell.name())?)
    } else if !args.commands.is_empty() {
        run_texts(&mut shell, &args.commands)
    } else if scripts.is_empty() {
        shell.run(&mut Reader::new(Some("<stdin>".to_owned()), io::stdin().lock()))
    } else {
        scripts.into_iter().try_for_each(|(path, script)| match script {
            Some(script) => shell.run(&mut Reader::new(Some(path.display().to_string()), script)),
            None => shell.run(&mut Reader::new(Some("<stdin>".to_owned()), io::stdin().lock())),
        })
    };
    drop(shell);
    // What the mode has left for later is written now, where it can be told that it failed.
    if db.is_owner() {
        let storage = db.storage().map_err(failed)?;
        storage.sync().map_err(Failure::engine(&args.dir))?;
    }
    match result {
        Ok(()) | Err(Stop::Quit) => Ok(()),
        Err(Stop::Output(error)) => Err(error.into()),
        Err(Stop::Failed) if args.commands.is_empty() => Err(Failure::Told { code: SCRIPT_FAILED }),
        Err(Stop::Failed) => Err(Failure::Told { code: COMMAND_FAILED }),
    }
}

/// `NAME=VALUE`
fn variable(text: &str) -> std::result::Result<bool, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    commands::on_error_stop(name, value)
}

/// Runs the texts of -c, each to its first error; what the last one came to.
fn run_texts(shell: &mut Shell, texts: &[String]) -> Ran {
    let mut last = Ok(());
    for text in texts {
        last = match understood(text) {
            Ok(()) => shell.run(&mut Reader::new(None, Cursor::new(text.as_bytes()))),
            Err(error) => shell.failed(&error, text, &Place { name: None, line: 1 }, false),
        };
        match &last {
            Err(Stop::Failed) if !shell.on_error_stop && !shell.is_interrupted() => {}
            Err(_) => break,
            Ok(()) => {}
        }
    }
    last
}

/// Reads all statements of a text for mistakes before any of them runs. Commands of the shell are
/// its own to read.
fn understood(text: &str) -> sql::Result<()> {
    let (mut rest, mut scanner) = (text, scan::Scanner::default());
    loop {
        match scanner.find(rest) {
            // What follows may be data.
            scan::Found::Semicolon(end) if Session::is_copy(&rest[..end]) => return Ok(()),
            scan::Found::Semicolon(end) => (rest, scanner) = (&rest[end + 1..], scan::Scanner::default()),
            scan::Found::Backslash(_) => return Ok(()),
            scan::Found::End => return Session::split(text).map(drop),
        }
    }
}

fn open_script(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(Failure::io("cannot open", path))?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(Failure::io("cannot read", path)(io::ErrorKind::IsADirectory.into()));
    }
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn greet(dir: &Path) -> io::Result<()> {
    let version = &*version::TEXT;
    writeln!(io::stdout(), "colibri {version}, {}. Type \\? for help, \\q to quit.\n", dir.display())
}
