//! Any bytes as pages: a small database with branches is damaged, its pages are sealed again as if they were
//! whole, and everything is read and some of it written. Errors are right answers here, and so are
//! wrong values; panics, reads out of bounds and endless work are not.

#![no_main]

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use colibri_storage::{Checksums, Database, Durability, Options, Result, TableKind, View, WriteTxn};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const PAGE_SIZE: usize = 4096;
/// So many entries are read of one range: damaged counts may promise any number.
const ENTRIES_MAX: usize = 200;
/// More changes than this make inputs slow and no better.
const WRITES_MAX: usize = 40;

#[derive(Arbitrary, Debug)]
struct Input {
    checksums: u8,
    image: Image,
    edits: Vec<Edit>,
    /// Whether damaged pages get a right checksum.
    sealed: bool,
    writes: Vec<Write>,
}

#[derive(Arbitrary, Debug)]
enum Image {
    /// A database with every kind of table.
    Template,
    /// Just these bytes.
    Raw(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Edit {
    page: u8,
    action: Action,
}

#[derive(Arbitrary, Debug)]
enum Action {
    /// Bytes anywhere in the page.
    Bytes { at: u16, bytes: Vec<u8> },
    /// A number in the header or behind it.
    Field { at: u8, value: u16 },
    /// A number anywhere, for page numbers and lengths.
    Number { at: u16, value: u32 },
    /// Another page, under this one's number or under its own.
    CopyOf { page: u8, renumbered: bool },
    /// The file ends here.
    Cut,
}

#[derive(Arbitrary, Debug)]
enum Write {
    Put { table: u8, key: u8, len: u16 },
    Delete { table: u8, key: u8 },
    DeleteRange { table: u8, low: u8, high: u8 },
    Append { table: u8, count: u8 },
    Clear { table: u8 },
    Drop { table: u8 },
    Nested { keep: bool },
    Commit,
    Sync,
    Check,
    Copy { compact: bool },
    Branch,
    Switch { which: u8 },
    DropBranch { which: u8 },
    ResetBranch { which: u8 },
    Reap,
    Diff { which: u8 },
}

/// Branches of the template and those that are made.
const BRANCHES: [&str; 4] = ["main", "first", "second", "made"];

const TABLES: [(&str, TableKind); 4] = [
    ("plain", TableKind::Plain),
    ("multi", TableKind::Multi),
    ("integer", TableKind::Integer),
    ("deep", TableKind::Plain),
];

fn key(table: u8, n: u8) -> Vec<u8> {
    match table % 4 {
        2 => u64::from(n).to_be_bytes().to_vec(),
        3 => [&b"long keys make for deep trees "[..], &[b'x'; 600], &[n]].concat(),
        _ if n.is_multiple_of(3) => format!("key {n:03}").into_bytes(),
        _ => vec![n; usize::from(n) + 1],
    }
}

fn options() -> Options {
    Options::new().durability(Durability::NoSync).size_max(1 << 25).readers_max(8)
}

/// The data file of a small database: every kind of table, large values, three levels, free pages.
fn template() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let fill = || -> Result<()> {
            let db = Database::open(dir.path(), &options())?;
            let mut txn = db.write()?;
            for (index, (name, kind)) in TABLES.into_iter().enumerate() {
                let table = txn.create_table(name, kind)?;
                for n in 0..if name == "deep" { 40 } else { 24 } {
                    let len = if kind == TableKind::Multi { 20 } else { 150 };
                    txn.put(&table, &key(index as u8, n), &vec![n; len])?;
                    if kind == TableKind::Multi {
                        txn.put(&table, &key(index as u8, n), b"another")?;
                    }
                }
            }
            let plain = txn.table("plain")?;
            txn.put(&plain, b"large", &[7; 6000])?;
            txn.put(&plain, b"gone", &[8; 20000])?;
            txn.commit()?;
            db.sync()?;
            let mut txn = db.write()?;
            txn.delete(&plain, b"gone")?;
            txn.commit()?;
            let first = db.branch(BRANCHES[1])?;
            for (db, from) in [(&first, 0), (&db, 5)] {
                let mut txn = db.write()?;
                for n in from..from + 9 {
                    txn.put(&plain, &key(0, n), b"changed")?;
                }
                txn.put(&plain, b"large", &[9; 7000])?;
                txn.commit()?;
            }
            let second = first.branch(BRANCHES[2])?;
            let mut txn = second.write()?;
            txn.drop_table(&txn.table("multi")?)?;
            txn.commit()?;
            drop((first, second));
            db.close()
        };
        fill().expect("a database can be made");
        std::fs::read(dir.path().join("data")).expect("it can be read")
    })
}

fn seal(image: &mut [u8], page: usize) {
    let at = page * PAGE_SIZE;
    let word = |at: usize| u32::from_le_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]]);
    let pages = if matches!(image[at + 20], 4 | 5) { word(at + 24) as usize } else { 1 };
    let end = at.saturating_add(pages.saturating_mul(PAGE_SIZE));
    if pages > 0 && end <= image.len() {
        let checksum = xxh3_64_with_seed(&image[at + 8..end], u64::from(word(at + 16)));
        image[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn damaged(input: &Input) -> Vec<u8> {
    let mut image = match &input.image {
        Image::Template => template().to_vec(),
        Image::Raw(bytes) => bytes.clone(),
    };
    for edit in &input.edits {
        let pages = image.len() / PAGE_SIZE;
        if pages == 0 {
            break;
        }
        let page = usize::from(edit.page) % pages;
        let start = page * PAGE_SIZE;
        match &edit.action {
            Action::Bytes { at, bytes } => {
                let at = start + usize::from(*at) % PAGE_SIZE;
                let end = (at + bytes.len()).min(start + PAGE_SIZE);
                image[at..end].copy_from_slice(&bytes[..end - at]);
            }
            Action::Field { at, value } => {
                let at = start + usize::from(*at);
                image[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
            Action::Number { at, value } => {
                let at = start + usize::from(*at) % (PAGE_SIZE - 3);
                image[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            Action::CopyOf { page: from, renumbered } => {
                let from = usize::from(*from) % pages * PAGE_SIZE;
                image.copy_within(from..from + PAGE_SIZE, start);
                if *renumbered {
                    image[start + 16..start + 20].copy_from_slice(&(page as u32).to_le_bytes());
                }
            }
            Action::Cut => image.truncate(start),
        }
        if input.sealed && start < image.len() {
            seal(&mut image, page);
        }
    }
    image
}

fn read_table(view: &View<'_>) -> Result<()> {
    let _ = view.stat();
    for entry in view.range(..)?.take(ENTRIES_MAX) {
        let _ = entry?.1.len();
    }
    Ok(())
}

fn read_more(view: &View<'_>, table: u8) -> Result<()> {
    for entry in view.range(..)?.rev().take(ENTRIES_MAX) {
        let _ = entry?.1.len();
    }
    for n in [0, 1, 7, 12, 200] {
        let key = key(table, n);
        let _ = view.get(&key);
        let _ = view.contains(&key);
        let _ = view.rank(&key);
        let _ = view.count((Bound::Excluded(key.as_slice()), Bound::Unbounded));
        let _ = view.nth(u64::from(n) * 3);
        if let Ok(values) = view.values(&key) {
            values.take(ENTRIES_MAX).for_each(drop);
        }
        let mut cursor = view.cursor();
        let _ = cursor.seek_before(&key)? && cursor.next_key()? && cursor.last_value()? && cursor.prev()?;
        let _ = cursor.value();
        let _ = cursor.seek_value(&key, b"another")? && cursor.next_value()?;
    }
    Ok(())
}

fn read_all(db: &Database) -> Result<()> {
    let _ = db.branches();
    let _ = db.branch_stats();
    for name in BRANCHES {
        if let Ok(branch) = db.open_branch(name) {
            let _ = read_branch(&branch);
        }
    }
    Ok(())
}

fn read_branch(db: &Database) -> Result<()> {
    let snapshot = db.read()?;
    let _ = snapshot.tables();
    for (index, (name, _)) in TABLES.into_iter().enumerate() {
        if let Ok(table) = snapshot.table(name)
            && let Ok(view) = snapshot.view(&table)
        {
            let _ = read_table(&view);
            let _ = read_more(&view, index as u8);
        }
    }
    Ok(())
}

fn write_one(txn: &mut WriteTxn, write: &Write) -> Result<()> {
    let open = |txn: &WriteTxn, table: u8| txn.table(TABLES[usize::from(table) % 4].0);
    match *write {
        Write::Put { table, key: n, len } => {
            let to = open(txn, table)?;
            txn.put(&to, &key(table, n), &vec![n; usize::from(len) % 9000])
        }
        Write::Delete { table, key: n } => {
            let from = open(txn, table)?;
            txn.delete(&from, &key(table, n)).map(drop)
        }
        Write::DeleteRange { table, low, high } => {
            let from = open(txn, table)?;
            let (low, high) = (key(table, low.min(high)), key(table, low.max(high)));
            txn.delete_range(&from, low.as_slice()..high.as_slice()).map(drop)
        }
        Write::Append { table, count } => {
            let to = open(txn, table)?;
            let entries = (0..u64::from(count)).map(|n| ((u64::MAX - 255 + n).to_be_bytes(), [3; 40]));
            txn.load_sorted(&to, entries).map(drop)
        }
        Write::Clear { table } => {
            let table = open(txn, table)?;
            txn.clear_table(&table)
        }
        Write::Drop { table } => {
            let table = open(txn, table)?;
            txn.drop_table(&table)
        }
        _ => Ok(()),
    }
}

/// Compares two branches, table by table.
fn diff(one: &Database, other: &Database) -> Result<()> {
    let snapshots = one.read_branches(&[one, other])?;
    for table in snapshots[0].tables()? {
        let (before, after) = (snapshots[0].view(&table)?, snapshots[1].view(&table)?);
        let mut left = ENTRIES_MAX;
        let _ = before.diff(&after, Bound::Unbounded, Bound::Unbounded, &mut |_, _, _| {
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    Ok(())
}

fn write_all(file: &Database, writes: &[Write], copies: &Path) -> Result<()> {
    let mut writes = writes.iter().take(WRITES_MAX);
    let mut copied = false;
    let mut db = file.clone();
    let mut txn = db.write()?;
    while let Some(write) = writes.next() {
        match write {
            Write::Nested { keep } => {
                let mut nested = txn.nested();
                for write in writes.by_ref().take(3) {
                    let _ = write_one(&mut nested, write);
                }
                if *keep {
                    nested.commit();
                }
            }
            Write::Commit
            | Write::Sync
            | Write::Check
            | Write::Copy { .. }
            | Write::Branch
            | Write::Switch { .. }
            | Write::DropBranch { .. }
            | Write::ResetBranch { .. }
            | Write::Reap
            | Write::Diff { .. } => {
                let _ = txn.commit();
                match write {
                    Write::Sync => _ = db.sync(),
                    Write::Check => _ = db.check(),
                    // Once is enough: it costs as much as all the rest.
                    Write::Copy { compact } if !copied => {
                        copied = true;
                        let _ = db.copy_to(copies, *compact);
                        let _ = std::fs::remove_dir_all(copies);
                    }
                    Write::Branch => _ = db.branch(BRANCHES[3]),
                    Write::DropBranch { which } => _ = file.drop_branch(BRANCHES[usize::from(which % 4)]),
                    Write::ResetBranch { which } => _ = db.reset_branch(BRANCHES[usize::from(which % 4)]),
                    Write::Reap => _ = file.reap_branches(),
                    Write::Switch { which } | Write::Diff { which } => {
                        if let Ok(branch) = file.open_branch(BRANCHES[usize::from(which % 4)]) {
                            match write {
                                Write::Diff { .. } => _ = diff(&db, &branch),
                                _ => db = branch,
                            }
                        }
                    }
                    _ => {}
                }
                if db.read().is_err() {
                    db = file.clone();
                }
                txn = db.write()?;
            }
            write => _ = write_one(&mut txn, write),
        }
    }
    txn.commit().map(drop)
}

fn run(input: &Input) -> Result<()> {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| tempfile::tempdir().expect("a directory")).path();
    let image = damaged(input);
    let _ = std::fs::remove_file(dir.join("lock"));
    std::fs::write(dir.join("data"), &image).expect("a file can be written");
    let checksums = [Checksums::FirstTouch, Checksums::Always, Checksums::Never][usize::from(input.checksums % 3)];
    let db = Database::open(dir, &options().checksums(checksums).create(false))?;
    let _ = read_all(&db);
    let _ = db.stat();
    let report = db.check();
    let _ = write_all(&db, &input.writes, &dir.join("copy"));
    let _ = read_all(&db);
    drop(report);
    let _ = db.check();
    db.close()
}

fuzz_target!(|input: Input| {
    let _ = run(&input);
});
