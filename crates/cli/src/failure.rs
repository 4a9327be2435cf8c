//! Why a command failed, in one line that says what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use colibri_bench::measure;

use crate::number::counted;

/// The outcome of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The engine refused, on the database in `dir`.
    #[error("{}", explain(source, dir))]
    Engine { dir: PathBuf, source: colibri::Error },
    /// The text to load is wrong. It is loaded whole or not at all.
    #[error("{input}: {source}; nothing was loaded")]
    Input { input: String, source: colibri::Error },
    /// `check` found problems; they have been printed.
    #[error("{dir} is damaged: restore a backup, or save what can be read with `colibri dump --table NAME {dir}`", dir = dir.display())]
    Damaged { dir: PathBuf },
    /// `check` found that a backup cannot be restored; the problem has been printed.
    #[error("{file} cannot be restored: use another copy of it, or make a new full backup with `colibri backup`", file = file.display())]
    DamagedBackup { file: PathBuf },
    /// The writer of the database makes no steady points, and this process may not make one.
    #[error("{dir} has commits that no backup can hold yet: run the command as a user who may write there, or give the SQL command CHECKPOINT first", dir = dir.display())]
    NoSteadyPoint { dir: PathBuf },
    /// A backup is damaged, or does not fit.
    #[error("{file}: {source}{}", backup_advice(source), file = file.display())]
    Backup { file: PathBuf, source: colibri::Error },
    /// The main branch is what SQL and `serve` use, which keep parts of it in memory.
    #[error("{dir}: the main branch cannot be reset", dir = dir.display())]
    MainBranch { dir: PathBuf },
    /// What is to be written exists.
    #[error("{path} exists: choose a new name, or remove it first", path = path.display())]
    Exists { path: PathBuf },
    /// A table that SQL may know was asked of the engine, which knows others.
    #[error(
        "the engine has no table {name:?} in {dir}, which is a database for SQL: `colibri dump {dir} --sql --table {name}` writes a table \
         of SQL, and `colibri stat {dir}` lists the engine's",
        dir = dir.display()
    )]
    NoTableOfTheEngine { dir: PathBuf, name: String },
    /// A table that is to be dumped is not one of SQL's.
    #[error(
        "there is no table {name:?} in {dir}: `colibri sql {dir} -c '\\dt'` lists the tables",
        dir = dir.display()
    )]
    NoTableOfSql { dir: PathBuf, name: String },
    /// The directory of a server, which has databases in it and is none.
    #[error(
        "{dir} is the directory of a server, which keeps each database in {dir}/databases/NAME{}: give one of these, or connect to the server",
        list(names),
        dir = dir.display()
    )]
    OfAServer { dir: PathBuf, names: Vec<String> },
    /// A new database in the directory of another.
    #[error(
        "{dir} would be in the directory of the database {database}: give that one, or a directory elsewhere",
        dir = dir.display(),
        database = database.display()
    )]
    InADatabase { dir: PathBuf, database: PathBuf },
    /// A database where a server's directory has to be.
    #[error(
        "{dir} is one database, and a server's directory holds several: make a new directory with `databases` in it, move {dir} there, \
         and serve the new one",
        dir = dir.display()
    )]
    OneDatabase { dir: PathBuf },
    /// What was given for a server's roles has none.
    #[error("no roles can be read from {dir}: {source}; give the `cluster` in a server's directory", dir = dir.display())]
    NoRoles { dir: PathBuf, source: colibri_server::ServeError },
    /// `colibri bench cluster` cannot go on.
    #[error("bench cluster: {0}")]
    BenchCluster(String),
    /// `colibri cluster` without the address of one.
    #[error("which cluster? give --cluster etcd://HOST:PORT/NAME")]
    NoCluster,
    /// A server without an address to listen at.
    #[error("nobody could connect: give --listen an address, or --socket a directory")]
    ListensNowhere,
    /// What has to be a directory is something else.
    #[error("{path} is not a directory, and a database is one: check the path", path = path.display())]
    NotADirectory { path: PathBuf },
    /// `doctor` found problems; they have been printed.
    #[error(
        "{dir} is no place for a database yet: {} above, each with what to do about it",
        counted(*problems, "problem", "problems"),
        dir = dir.display()
    )]
    Unfit { dir: PathBuf, problems: u64 },
    /// The operating system refused something that the command did itself.
    #[error("{action} {path}: {source}", path = path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A key cannot be read from where it was said to be.
    #[error("{place}: {reason}")]
    Key { place: String, reason: String },
    /// `rekey` without both keys.
    #[error("which keys? give --key-file and --new-key-file, or the like with -fd and -command")]
    NoKey,
    /// Standard output does not take the results.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// The database in `dir` cannot be used for SQL.
    #[error("{source}{}", source.report().hint.as_ref().map_or(String::new(), |hint| format!(". {hint}")))]
    Sql { dir: PathBuf, source: Box<colibri::sql::Error> },
    /// Statements failed, which was said where they did.
    #[error("a statement failed")]
    Told { code: u8 },
    /// The server does not start.
    #[error("{source}{}", serve_advice(source))]
    Serve {
        #[from]
        source: colibri_server::ServeError,
    },
    /// The benchmark failed, or its results are not valid.
    #[error(transparent)]
    Bench(#[from] measure::Error),
}

impl Failure {
    pub(crate) fn engine(dir: &Path) -> impl FnOnce(colibri::Error) -> Self {
        |source| Self::Engine { dir: dir.to_owned(), source }
    }

    /// What the engine says about a backup in `file`, or about the database in `dir`.
    pub(crate) fn backup(file: &Path, dir: &Path) -> impl FnOnce(colibri::Error) -> Self {
        |error| match error {
            colibri::Error::Io { action, path, source } if path == Path::new("the backup") => {
                Self::io(action, file)(source)
            }
            source @ (colibri::Error::BackupDamaged { .. } | colibri::Error::BackupMismatch { .. }) => {
                Self::Backup { file: file.to_owned(), source }
            }
            source => Self::engine(dir)(source),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether the only failure is that the reader of standard output has gone.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        match self {
            Self::Output(source) | Self::Engine { source: colibri::Error::Io { source, .. }, .. } => {
                source.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Bench(measure::Error::Usage { .. } | measure::Error::NotCompiledIn { .. })
            | Self::ListensNowhere
            | Self::NoKey
            | Self::NoCluster => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Names in brackets, a few of them.
fn list(names: &[String]) -> String {
    const NAMES_MAX: usize = 5;
    let mut shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>();
    if names.len() > NAMES_MAX {
        shown.push("…".to_owned());
    }
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}

/// What to do about a server that does not start, where its own words leave that open.
fn serve_advice(error: &colibri_server::ServeError) -> &'static str {
    match error {
        colibri_server::ServeError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            ": somebody listens there; end them, or choose another address (--listen, --metrics, --socket)"
        }
        colibri_server::ServeError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrNotAvailable => {
            ": this machine does not have that address; `ip address` shows those that it has"
        }
        colibri_server::ServeError::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            ": choose a port from 1024 on, or a directory that you may write to"
        }
        colibri_server::ServeError::Listen { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            ": no socket can be made there; give --socket a directory that exists"
        }
        _ => "",
    }
}

/// What went wrong in the engine, in words of the command line, and what to do about it.
fn explain(error: &colibri::Error, dir: &Path) -> String {
    match error {
        colibri::Error::PageSizeMismatch { found, .. } => {
            let dir = dir.display();
            format!("{dir} has pages of {found} bytes: leave --page-size out, or load into a new directory")
        }
        colibri::Error::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
            format!("{} is not a directory, and a database is one: check the path", dir.display())
        }
        colibri::Error::Io { source, path, .. }
            if source.kind() == io::ErrorKind::IsADirectory && path.ends_with("data") =>
        {
            let dir = dir.display();
            format!("there is no database in {dir}, whose `data` is a directory{MAKES_A_DATABASE}")
        }
        // The names of options are those of flags, with another line between words.
        colibri::Error::InvalidOption { option, reason } => format!("--{} {reason}", option.replace('_', "-")),
        colibri::Error::DurabilityDiffers { .. } => {
            format!(
                "{} is open in a process that writes without the log: run the command again once it has ended",
                dir.display()
            )
        }
        colibri::Error::NeedsRecovery { .. } => {
            let dir = dir.display();
            format!(
                "{dir} was not closed and has to recover, which writes to it: run the command where that is permitted"
            )
        }
        error => format!("{error}{}", advice(error, dir)),
    }
}

/// What to do about a backup.
fn backup_advice(error: &colibri::Error) -> &'static str {
    match error {
        colibri::Error::BackupDamaged { .. } => ": use another copy of it, or make a new full backup",
        colibri::Error::BackupMismatch { .. } => {
            "; an incremental backup adds to one of the same database: give a full one and those that add to it, in order"
        }
        _ => "",
    }
}

const MAKES_A_DATABASE: &str = ": check the path; `colibri sql` and `colibri load` make a new database";

/// What to do about an error of the engine, where its own words leave that open.
fn advice(error: &colibri::Error, dir: &Path) -> String {
    let dir = dir.display();
    match error {
        colibri::Error::NotFound { path } if path.join("data.mdb").exists() => {
            format!(", but one of LMDB: `mdb_dump -a {dir} | colibri load NEW_DIR` takes it over")
        }
        colibri::Error::NotFound { .. } => MAKES_A_DATABASE.to_owned(),
        colibri::Error::Corrupted { .. } => {
            format!(": restore a backup, or save other tables with `colibri dump --table NAME {dir}`")
        }
        colibri::Error::NoSuchTable { .. } => format!(": `colibri stat {dir}` lists the tables"),
        colibri::Error::NotADatabase { .. } => format!("{MAKES_A_DATABASE}. If it was one, restore a backup"),
        colibri::Error::KeyMissing { .. } => " with --key-file, --key-fd or --key-command".to_owned(),
        colibri::Error::EncryptedInUse { .. } => {
            format!(": end it first, or use SQL, `colibri sql {dir}`, whose statements run there")
        }
        colibri::Error::DiskFull { .. } => "; make room and run the command again".to_owned(),
        _ => String::new(),
    }
}
