//! `colibri check`: verifies everything there is to verify about a database, or about backups.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use colibri::{BackupInfo, CheckReport, EncryptionKey};
use serde_json::json;

use crate::backup;
use crate::database::open_to_read;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::{counted, grouped};

/// Verify a database: every page, every order, every count
///
/// Works while others use the database. The exit code is 1 if there are problems; each is listed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri check birds && colibri backup birds monday.backup\n  \
                        colibri check --backup monday.backup tuesday.backup")]
pub(crate) struct CheckArgs {
    /// Directory of the database
    #[arg(required_unless_present = "backups")]
    dir: Option<PathBuf>,
    /// Verify backups instead: each by itself, and that each adds to the one before it
    #[arg(long = "backup", value_name = "FILE", num_args = 1.., conflicts_with = "dir")]
    backups: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    match &args.dir {
        Some(dir) => check_database(dir, args),
        None => check_backups(args),
    }
}

fn check_database(dir: &Path, args: &CheckArgs) -> Result<()> {
    let db = open_to_read(dir, &args.key)?;
    let report = db.check().map_err(Failure::engine(dir))?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(dir, &report))?;
    } else {
        print(dir, &report, &mut out)?;
    }
    match report.is_clean() {
        true => Ok(()),
        false => Err(Failure::Damaged { dir: dir.to_owned() }),
    }
}

fn as_json(dir: &Path, report: &CheckReport) -> serde_json::Value {
    json!({
        "dir": dir.display().to_string(),
        "clean": report.is_clean(),
        "txn": report.txn.0,
        "branches": report.branches,
        "tables": report.tables,
        "entries": report.entries,
        "pages_reached": report.pages_reached,
        "pages_free": report.free_checked.then_some(report.pages_free),
        "problems": report.problems,
    })
}

fn print(dir: &Path, report: &CheckReport, out: &mut impl Write) -> io::Result<()> {
    let verdict = match report.problems.len() as u64 {
        0 => "no problems".to_owned(),
        problems => counted(problems, "problem", "problems"),
    };
    writeln!(out, "{}: {verdict}", dir.display())?;
    for problem in &report.problems {
        writeln!(out, "  problem: {problem}")?;
    }
    writeln!(
        out,
        "  {} in {}, {} in use, {}, as of transaction {}",
        counted(report.entries, "entry", "entries"),
        counted(report.tables, "table", "tables"),
        counted(report.pages_reached, "page", "pages"),
        match report.free_checked {
            true => format!("{} free", grouped(report.pages_free)),
            false => "free space not verified (this state is newer than the last steady point)".to_owned(),
        },
        report.txn,
    )
}

/// What was found in a backup.
struct Found<'a> {
    path: &'a Path,
    info: Option<BackupInfo>,
    problem: Option<String>,
}

fn check_backups(args: &CheckArgs) -> Result<()> {
    let (paths, json) = (&args.backups, args.json);
    let keys: Vec<EncryptionKey> = args.key.read()?.into_iter().collect();
    let mut found: Vec<Found<'_>> = Vec::with_capacity(paths.len());
    for path in paths {
        let before = found.last().and_then(|found| found.info);
        let (info, problem) = match backup::verify(path, &keys) {
            Ok(info) => (Some(info), before.and_then(|before| misfit(&before, &info)).map(str::to_owned)),
            Err(Failure::Backup { source, .. }) => (None, Some(source.to_string())),
            Err(failure) => return Err(failure),
        };
        found.push(Found { path, info, problem });
    }
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", backups_as_json(&found))?;
    } else {
        found.iter().try_for_each(|found| print_backup(found, &mut out))?;
    }
    match found.iter().find(|found| found.problem.is_some()) {
        None => Ok(()),
        Some(found) => Err(Failure::DamagedBackup { file: found.path.to_owned() }),
    }
}

/// Why a backup does not add to the one before it.
fn misfit(before: &BackupInfo, info: &BackupInfo) -> Option<&'static str> {
    if info.database_id != before.database_id {
        Some("it is of another database than the one before it")
    } else if !info.adds_to(before) {
        Some("it does not add to the one before it")
    } else {
        None
    }
}

fn backups_as_json(found: &[Found<'_>]) -> serde_json::Value {
    let backup = |found: &Found<'_>| {
        json!({
            "file": found.path.display().to_string(),
            "since": found.info.and_then(|info| info.since).map(|since| since.0),
            "txn": found.info.map(|info| info.txn.0),
            "pages": found.info.map(|info| info.pages),
            "bytes": found.info.map(|info| info.bytes),
            "problem": found.problem,
        })
    };
    json!({
        "clean": found.iter().all(|found| found.problem.is_none()),
        "backups": found.iter().map(backup).collect::<Vec<_>>(),
    })
}

fn print_backup(found: &Found<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {}", found.path.display(), found.problem.as_ref().map_or("no problems", |_| "1 problem"))?;
    if let Some(problem) = &found.problem {
        writeln!(out, "  problem: {problem}")?;
    }
    found.info.iter().try_for_each(|info| writeln!(out, "  {}", backup::summary(info)))
}
