//! `colibri branch`: databases of their own inside one, which share what none of them has changed.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use colibri::sql::engine::Env;
use colibri::sql::engine::cluster::storage_time;
use colibri::{AsOf, BranchStat, Database, TxnId};
use serde_json::json;

use crate::columns;
use crate::database::{open_beside_others, open_to_read};
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::grouped;

/// List the branches of a database, or make, reset or drop one
///
/// A branch starts as another one is and shares with it what neither has changed, so making one
/// takes a few pages, whatever the size. Branches are those of the engine: `colibri sql` uses the main
/// one, and a server makes one for `CREATE DATABASE … TEMPLATE …`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri branch birds trial\n  colibri branch birds trial-2 --from trial\n  \
                        colibri diff birds main trial\n  colibri branch birds trial --drop")]
pub(crate) struct BranchArgs {
    /// Directory of the database
    dir: PathBuf,
    /// The branch to make; without it, all are listed
    name: Option<String>,
    /// The branch that it is made from, or reset to
    #[arg(long, value_name = "BRANCH", default_value = "main", requires = "name")]
    from: String,
    /// Throw away what the branch has, and start it anew
    #[arg(long, requires = "name", conflicts_with = "drop")]
    reset: bool,
    /// As the branch was at this time (UTC, unless it says otherwise), if states of the past are kept
    #[arg(long, value_name = "TIME", requires = "name", conflicts_with = "drop", value_parser = time)]
    as_of: Option<i64>,
    /// As the branch was when this transaction had committed
    #[arg(long, value_name = "N", requires = "name", conflicts_with_all = ["drop", "as_of"])]
    as_of_transaction: Option<u64>,
    /// Drop the branch and give its pages back
    #[arg(long, requires = "name", conflicts_with = "from")]
    drop: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["name"])]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// A time, in microseconds since 1970-01-01 in UTC.
fn time(text: &str) -> std::result::Result<i64, String> {
    storage_time(text, &Env::default()).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &BranchArgs) -> Result<()> {
    let failure = Failure::engine(&args.dir);
    let Some(name) = &args.name else { return list(args) };
    if args.reset && name == "main" {
        return Err(Failure::MainBranch { dir: args.dir.clone() });
    }
    let db = open_beside_others(&args.dir, &args.key)?;
    let done = || -> colibri::Result<()> {
        if args.drop {
            db.drop_branch(name)?;
            db.reap_branches()?;
        } else {
            let from = db.open_branch(&args.from)?;
            let as_of = args.as_of.map(AsOf::Time).or(args.as_of_transaction.map(|txn| AsOf::Transaction(TxnId(txn))));
            match (args.reset, as_of) {
                (true, None) => from.reset_branch(name)?,
                (true, Some(as_of)) => from.reset_branch_as_of(name, as_of)?,
                (false, None) => drop(from.branch(name)?),
                (false, Some(as_of)) => drop(from.branch_as_of(name, as_of)?),
            }
            if args.reset {
                db.reap_branches()?;
            }
        }
        // Where commits do not go to the log, they are on disk after this.
        db.sync()?;
        db.close()
    };
    done().map_err(failure)
}

fn list(args: &BranchArgs) -> Result<()> {
    let db = open_to_read(&args.dir, &args.key)?;
    let stats = db.branch_stats().map_err(Failure::engine(&args.dir))?;
    let mut out = io::stdout().lock();
    if args.json {
        let branches: Vec<_> = stats.iter().map(as_json).collect();
        writeln!(out, "{}", json!({ "dir": args.dir.display().to_string(), "branches": branches }))?;
        return Ok(());
    }
    print(&stats, &mut out)?;
    Ok(())
}

/// The branches of a database, if there is another than the main one.
pub(crate) fn stats_of(db: &Database) -> colibri::Result<Vec<BranchStat>> {
    let stats = db.branch_stats()?;
    Ok(if stats.len() > 1 { stats } else { Vec::new() })
}

pub(crate) fn as_json(stat: &BranchStat) -> serde_json::Value {
    json!({
        "name": stat.info.name,
        "origin": stat.info.origin,
        "made": stat.info.made.0,
        "tables": stat.tables,
        "entries": stat.entries,
        "own_bytes": stat.own_bytes,
        "shared_bytes": stat.shared_bytes,
    })
}

pub(crate) fn print(stats: &[BranchStat], out: &mut impl Write) -> io::Result<()> {
    let head = ["branch", "made from", "tables", "entries", "own bytes", "shared bytes"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(stats.iter().map(row)).collect();
    columns::print(&rows, 2, out)
}

fn row(stat: &BranchStat) -> [String; 6] {
    [
        // A name may hold any character; a table in a terminal may not.
        stat.info.name.escape_debug().to_string(),
        stat.info.origin.as_deref().unwrap_or("-").escape_debug().to_string(),
        grouped(stat.tables),
        grouped(stat.entries),
        grouped(stat.own_bytes),
        grouped(stat.shared_bytes),
    ]
}
