//! `colibri diff`: what differs between two branches.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;

use clap::Args;
use colibri::{Snapshot, Table, TableKind};
use serde_json::json;

use crate::columns;
use crate::database::open_to_read;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::number::grouped;

/// Show what differs between two branches of a database
///
/// Costs about as many pages as differ: what the two share is left out. Tables are those of the
/// engine.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri diff birds main trial\n  colibri diff --keys birds main trial")]
pub(crate) struct DiffArgs {
    /// Directory of the database
    dir: PathBuf,
    /// A branch; `main` is the one that every database has
    one: String,
    /// The branch to compare it with
    other: String,
    /// List each key that differs, too: `-` is only in the first branch, `+` only in the other, `~`
    /// has another value
    #[arg(long)]
    keys: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "keys")]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// How a table differs.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    only_one: u64,
    only_other: u64,
    changed: u64,
}

pub(crate) fn run(args: &DiffArgs) -> Result<()> {
    let db = open_to_read(&args.dir, &args.key)?;
    let failure = |e| Failure::engine(&args.dir)(e);
    let open = || {
        let (one, other) = (db.open_branch(&args.one)?, db.open_branch(&args.other)?);
        db.read_branches(&[&one, &other])
    };
    let snapshots = open().map_err(&failure)?;
    let [one, other] = &snapshots[..] else { unreachable!("one snapshot for each branch") };
    let mut out = io::stdout().lock();
    let mut tables: BTreeMap<String, [Option<Table>; 2]> = BTreeMap::new();
    for (side, snapshot) in [one, other].into_iter().enumerate() {
        for table in snapshot.tables().map_err(&failure)? {
            let name = table.name().to_owned();
            tables.entry(name).or_default()[side] = Some(table);
        }
    }
    let mut found = Vec::new();
    for (name, tables) in &tables {
        let mut closed = None;
        let mut counts = Counts::default();
        let visit = &mut |key: &[u8], before: bool, after: bool| {
            let (count, sign) = match (before, after) {
                (true, false) => (&mut counts.only_one, '-'),
                (false, true) => (&mut counts.only_other, '+'),
                _ => (&mut counts.changed, '~'),
            };
            *count += 1;
            if args.keys {
                let written = writeln!(out, "{sign} {} {}", name.escape_debug(), key.escape_ascii());
                closed = written.err();
            }
            if closed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        compare(one, other, tables, visit).map_err(&failure)?;
        if let Some(e) = closed {
            return Err(e.into());
        }
        if counts.only_one + counts.only_other + counts.changed > 0 || tables.iter().any(Option::is_none) {
            found.push((name, tables, counts));
        }
    }
    if args.json {
        let table = |(name, tables, counts): &(&String, &[Option<Table>; 2], Counts)| {
            json!({
                "name": name,
                "in_one": tables[0].is_some(),
                "in_other": tables[1].is_some(),
                "only_one": counts.only_one,
                "only_other": counts.only_other,
                "changed": counts.changed,
            })
        };
        let tables: Vec<_> = found.iter().map(table).collect();
        writeln!(out, "{}", json!({ "one": args.one, "other": args.other, "tables": tables }))?;
        return Ok(());
    }
    if found.is_empty() {
        writeln!(out, "no difference")?;
        return Ok(());
    }
    let head =
        ["table".to_owned(), format!("only in {}", args.one), format!("only in {}", args.other), "changed".to_owned()];
    let row = |(name, _, counts): &(&String, &[Option<Table>; 2], Counts)| {
        [name.escape_debug().to_string(), grouped(counts.only_one), grouped(counts.only_other), grouped(counts.changed)]
    };
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(found.iter().map(row)).collect();
    columns::print(&rows, 1, &mut out)?;
    Ok(())
}

/// Told of a key that differs, and on which sides it is.
type OnKey<'v> = &'v mut dyn FnMut(&[u8], bool, bool) -> ControlFlow<()>;

fn compare(
    one: &Snapshot<'_>,
    other: &Snapshot<'_>,
    tables: &[Option<Table>; 2],
    visit: OnKey<'_>,
) -> colibri::Result<()> {
    match tables {
        [Some(a), Some(b)] if a.kind() == b.kind() && a.kind() != TableKind::Multi => {
            let (before, after) = (one.view(a)?, other.view(b)?);
            before.diff(&after, Bound::Unbounded, Bound::Unbounded, &mut |key, before, after| {
                visit(key, before.is_some(), after.is_some())
            })
        }
        [Some(a), Some(b)] if a.kind() == b.kind() && one.view(a)?.is_same_tree(&other.view(b)?) => Ok(()),
        _ => merge(one, other, tables, visit),
    }
}

/// Compares all entries of two tables, pair by pair.
fn merge(
    one: &Snapshot<'_>,
    other: &Snapshot<'_>,
    tables: &[Option<Table>; 2],
    visit: OnKey<'_>,
) -> colibri::Result<()> {
    let (mut one, mut other) = (Entries::of(one, tables[0].as_ref())?, Entries::of(other, tables[1].as_ref())?);
    let (mut a, mut b) = (one.next()?, other.next()?);
    loop {
        let (key, before, after) = match (a, b) {
            (None, None) => return Ok(()),
            (Some(x), Some(y)) if x == y => {
                (a, b) = (one.next()?, other.next()?);
                continue;
            }
            (Some(x), y) if y.as_ref().is_none_or(|y| x < *y) => {
                (a, b) = (one.next()?, y);
                (x.0, true, false)
            }
            (x, Some(y)) => {
                (a, b) = (x, other.next()?);
                (y.0, false, true)
            }
            (Some(_), None) => unreachable!("nothing is less than an entry that is not there"),
        };
        if visit(&key, before, after).is_break() {
            return Ok(());
        }
    }
}

/// The entries of a table, in order; none of a table that is not there.
struct Entries<'s>(Option<colibri::Range<'s>>);

impl<'s> Entries<'s> {
    fn of(snapshot: &'s Snapshot<'_>, table: Option<&Table>) -> colibri::Result<Self> {
        table.map(|table| snapshot.view(table)?.range(..)).transpose().map(Self)
    }

    fn next(&mut self) -> colibri::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = self.0.as_mut().and_then(Iterator::next).transpose()?;
        Ok(next.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}
