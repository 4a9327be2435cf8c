//! `colibri compact`: makes a database's file as short as it can be, while others use it.

use std::io::{self, IsTerminal as _, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use colibri::Compaction;
use serde_json::json;

use crate::database::open_beside_others;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::{counted, size};

/// How often it is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// Move what is in a database to the start of its file, and give the rest of the file back
///
/// Others read and write meanwhile. A file is compacted by itself as well when writers are quiet and a sixth
/// of it is free. What branches share stays where it is. For a server's database, run VACUUM FULL in it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri compact birds")]
pub(crate) struct CompactArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &CompactArgs) -> Result<()> {
    let failure = |error| Failure::engine(&args.dir)(error);
    let db = open_beside_others(&args.dir, &args.key)?;
    let page_size = u64::from(db.page_size());
    let bytes = |pages: u64| pages * page_size;
    let before = db.stat().map_err(failure)?.file_bytes;
    let tells = io::stderr().is_terminal() && !args.json;
    let mut told = Instant::now();
    let done = db.compact(|now: &Compaction| {
        if tells && told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            // A failed write to standard error is no reason to stop.
            _ = write!(io::stderr(), "\r{} moved ", size(bytes(now.moved)));
        }
        ControlFlow::Continue(())
    });
    if tells {
        _ = write!(io::stderr(), "\r");
    }
    let done = done.map_err(failure)?;
    let after = db.stat().map_err(failure)?.file_bytes;
    db.close().map_err(failure)?;
    let mut out = io::stdout().lock();
    if args.json {
        let report = json!({
            "dir": args.dir.display().to_string(),
            "bytes_before": before,
            "bytes": after,
            "bytes_in_use": bytes(done.pages_in_use.into()),
            "pages_moved": done.moved,
        });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {}, before {}; {} moved",
        args.dir.display(),
        size(after),
        size(before),
        counted(done.moved, "page", "pages"),
    )?;
    Ok(())
}
