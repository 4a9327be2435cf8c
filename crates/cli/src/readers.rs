//! `colibri readers`: who holds a snapshot of a database, and how old it is.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use colibri::ReaderInfo;
use serde_json::json;

use crate::columns;
use crate::database::open_to_read;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::grouped;

/// List the live snapshots of all processes, oldest first
///
/// An old snapshot keeps the pages that it sees from being used again, so that the file grows. The
/// bytes that it holds are those of the pages that it sees and the newest state does not, counted
/// now. A page that several snapshots see counts for each, so this is the most that one of them can
/// set free; `-` if it has gone meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri readers birds\n  colibri readers --json birds")]
pub(crate) struct ReadersArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &ReadersArgs) -> Result<()> {
    let db = open_to_read(&args.dir, &args.key)?;
    let mut readers = db.readers();
    readers.sort_by_key(|reader| (reader.txn, std::cmp::Reverse(reader.age)));
    let mut last = None;
    for reader in &mut readers {
        reader.bytes_held = match last {
            Some((txn, held @ Some(_))) if txn == reader.txn => held,
            _ => db.bytes_held(reader).map_err(Failure::engine(&args.dir))?,
        };
        last = Some((reader.txn, reader.bytes_held));
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(args, &readers))?;
    } else if readers.is_empty() {
        writeln!(out, "{}: no readers", args.dir.display())?;
    } else {
        let head = ["process", "thread", "transaction", "lag", "age", "bytes held", "parked"].map(str::to_owned);
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(readers.iter().map(row)).collect();
        columns::print(&rows, 0, &mut out)?;
    }
    Ok(())
}

fn as_json(args: &ReadersArgs, readers: &[ReaderInfo]) -> serde_json::Value {
    let reader = |reader: &ReaderInfo| {
        json!({
            "process": reader.process,
            "thread": reader.thread,
            "txn": reader.txn.0,
            "lag": reader.lag,
            "age_ms": reader.age.as_millis() as u64,
            "bytes_held": reader.bytes_held,
            "parked": reader.parked,
        })
    };
    json!({
        "dir": args.dir.display().to_string(),
        "readers": readers.iter().map(reader).collect::<Vec<_>>(),
    })
}

fn row(reader: &ReaderInfo) -> [String; 7] {
    [
        reader.process.to_string(),
        reader.thread.to_string(),
        reader.txn.to_string(),
        grouped(reader.lag),
        format!("{:.1} s", reader.age.as_secs_f64()),
        reader.bytes_held.map_or("-".to_owned(), grouped),
        if reader.parked { "yes" } else { "no" }.to_owned(),
    ]
}
