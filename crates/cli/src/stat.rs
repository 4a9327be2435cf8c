//! `colibri stat`: the size and shape of a database and of its tables.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use colibri::sql::engine::cluster::storage_time_text;
use colibri::{BranchStat, DatabaseStat, PastInfo, TableKind, TableStat};
use serde_json::json;

use crate::branch;
use crate::columns;
use crate::database::open_to_read;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::grouped;

/// Show the size and shape of a database and of its tables
///
/// Tables are those of the engine. Those of a database for SQL are its catalogue, `s0`, and one for
/// the rows of each table and one for each index.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri stat birds\n  colibri stat --json birds")]
pub(crate) struct StatArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &StatArgs) -> Result<()> {
    let db = open_to_read(&args.dir, &args.key)?;
    let stat = db.stat().map_err(Failure::engine(&args.dir))?;
    let branches = branch::stats_of(&db).map_err(Failure::engine(&args.dir))?;
    let past = db.past().map_err(Failure::engine(&args.dir))?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(args, &stat, &branches, &past))?;
    } else {
        print(args, &stat, &branches, &past, &mut out)?;
    }
    Ok(())
}

fn as_json(args: &StatArgs, stat: &DatabaseStat, branches: &[BranchStat], past: &PastInfo) -> serde_json::Value {
    let table = |(name, table): &(String, TableStat)| {
        json!({
            "name": name,
            "kind": kind_word(table.kind),
            "entries": table.entries,
            "depth": table.depth,
            "leaf_pages": table.leaf_pages,
            "branch_pages": table.branch_pages,
            "overflow_pages": table.overflow_pages,
        })
    };
    json!({
        "dir": args.dir.display().to_string(),
        "format_version": stat.format_version,
        "page_size": stat.page_size,
        "file_bytes": stat.file_bytes,
        "disk_bytes": stat.disk_bytes,
        "pages": stat.pages,
        "free_pages": stat.free_pages,
        "txn": stat.txn.0,
        "durable_txn": stat.durable_txn.0,
        "steady_txn": stat.steady_txn.0,
        "readers": stat.readers,
        "tables": stat.tables.iter().map(table).collect::<Vec<_>>(),
        "branches": branches.iter().map(branch::as_json).collect::<Vec<_>>(),
        "past": past.since.map(|(txn, time)| json!({
            "since_txn": txn.0,
            "since_time": storage_time_text(time),
            "states": past.points,
            "state_bytes": past.state_bytes,
            "history_bytes": past.history_bytes,
        })),
    })
}

fn print(
    args: &StatArgs,
    stat: &DatabaseStat,
    branches: &[BranchStat],
    past: &PastInfo,
    out: &mut impl Write,
) -> io::Result<()> {
    let facts = [
        ("directory", args.dir.display().to_string()),
        ("format", format!("version {}, pages of {} bytes", stat.format_version, grouped(stat.page_size.into()))),
        ("file", format!("{} bytes, {} of them on disk", grouped(stat.file_bytes), grouped(stat.disk_bytes))),
        ("pages", format!("{}, {} of them free", grouped(stat.pages), grouped(stat.free_pages))),
        ("transaction", format!("{}, durable up to {}, steady up to {}", stat.txn, stat.durable_txn, stat.steady_txn)),
        ("readers", grouped(stat.readers.into())),
    ];
    for (name, fact) in facts {
        writeln!(out, "{name:<12} {fact}")?;
    }
    if let Some((txn, time)) = past.since {
        let (states, history) = (grouped(past.state_bytes), grouped(past.history_bytes));
        let since = format!("kept from transaction {txn}, {}, on", storage_time_text(time));
        writeln!(out, "{:<12} {since}: {} states, {states} bytes; records, {history} bytes", "past", past.points)?;
    }
    if stat.tables.is_empty() {
        writeln!(out, "tables       none")?;
    } else {
        writeln!(out)?;
        let head = ["table", "kind", "entries", "depth", "leaves", "branches", "overflow"].map(str::to_owned);
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(stat.tables.iter().map(row)).collect();
        columns::print(&rows, 2, out)?;
    }
    if !branches.is_empty() {
        writeln!(out)?;
        branch::print(branches, out)?;
    }
    Ok(())
}

fn row((name, table): &(String, TableStat)) -> [String; 7] {
    [
        // A name may hold any character; a table in a terminal may not.
        name.escape_debug().to_string(),
        kind_word(table.kind).to_owned(),
        grouped(table.entries),
        table.depth.to_string(),
        grouped(table.leaf_pages),
        grouped(table.branch_pages),
        grouped(table.overflow_pages),
    ]
}

fn kind_word(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Plain => "plain",
        TableKind::Multi => "multi",
        TableKind::Integer => "integer",
    }
}
