//! `colibri check`: verifies everything there is to verify about a database.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use colibri::CheckReport;
use serde_json::json;

use crate::database::open_to_read;
use crate::failure::{Failure, Result};
use crate::number::{counted, grouped};

/// Verify a database: every page, every order, every count
///
/// Works while others use the database. The exit code is 1 if there are problems; each is listed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri check birds && cp -r birds /backup/")]
pub(crate) struct CheckArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    let db = open_to_read(&args.dir)?;
    let report = db.check().map_err(Failure::engine(&args.dir))?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(args, &report))?;
    } else {
        print(args, &report, &mut out)?;
    }
    match report.is_clean() {
        true => Ok(()),
        false => Err(Failure::Damaged { dir: args.dir.clone() }),
    }
}

fn as_json(args: &CheckArgs, report: &CheckReport) -> serde_json::Value {
    json!({
        "dir": args.dir.display().to_string(),
        "clean": report.is_clean(),
        "txn": report.txn.0,
        "tables": report.tables,
        "entries": report.entries,
        "pages_reached": report.pages_reached,
        "pages_free": report.pages_free,
        "problems": report.problems,
    })
}

fn print(args: &CheckArgs, report: &CheckReport, out: &mut impl Write) -> io::Result<()> {
    let verdict = match report.problems.len() as u64 {
        0 => "no problems".to_owned(),
        problems => counted(problems, "problem", "problems"),
    };
    writeln!(out, "{}: {verdict}", args.dir.display())?;
    for problem in &report.problems {
        writeln!(out, "  problem: {problem}")?;
    }
    writeln!(
        out,
        "  {} in {}, {} in use, {} free, as of transaction {}",
        counted(report.entries, "entry", "entries"),
        counted(report.tables, "table", "tables"),
        counted(report.pages_reached, "page", "pages"),
        grouped(report.pages_free),
        report.txn,
    )
}
