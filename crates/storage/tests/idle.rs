//! An idle database does nothing: no thread wakes up, and nothing is read or written, in any mode.
//!
//! A child process for each case opens a database, commits, waits until all is on disk that will
//! be, and then waits for its parent. The parent counts from outside, so that measuring does not
//! wake anybody.

#![allow(clippy::unwrap_used)]

mod child;

use std::fs;
use std::time::Duration;

use child::{Child, Role};
use colibri_storage::{Database, Durability, Options, TableKind};

/// How long nothing may happen.
const IDLE: Duration = Duration::from_secs(10);
/// How long the last commit may take to settle: several periods of the flusher.
const SETTLING: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_millis(50);

/// Case, mode, whether a snapshot is held.
const CASES: [(&str, Durability, bool); 10] = [
    ("sync", Durability::Sync, false),
    ("sync, with a snapshot", Durability::Sync, true),
    ("sync without log", Durability::SyncNoLog, false),
    ("sync without log, with a snapshot", Durability::SyncNoLog, true),
    ("lazy by time", Durability::Lazy { bytes: u64::MAX, period: PERIOD }, false),
    ("lazy by time, with a snapshot", Durability::Lazy { bytes: u64::MAX, period: PERIOD }, true),
    ("lazy by bytes", Durability::Lazy { bytes: 1, period: Duration::MAX }, false),
    ("lazy by bytes, with a snapshot", Durability::Lazy { bytes: 1, period: Duration::MAX }, true),
    ("nosync", Durability::NoSync, false),
    ("nosync, with a snapshot", Durability::NoSync, true),
];
/// These are not idle, and must be seen not to be.
const TICKING: &str = "a thread that ticks";
const WRITING: &str = "a thread that writes";

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    let case = CASES.into_iter().find(|(name, ..)| *name == role.name);
    let (_, durability, with_snapshot) = case.unwrap_or(("", Durability::Sync, false));
    let db = Database::open(&role.dir, &Options::new().durability(durability).log_period(PERIOD)).unwrap();
    let mut snapshot = None;
    for n in 0..50_u64 {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Integer).unwrap();
        txn.put(&table, &n.to_be_bytes(), &[n as u8; 500]).unwrap();
        txn.commit().unwrap();
        // One that is older than the last commit.
        if with_snapshot && n == 25 {
            snapshot = Some(db.read().unwrap());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if role.name == TICKING || role.name == WRITING {
        let (path, writes) = (role.dir.join("ticks"), role.name == WRITING);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(IDLE / 5);
                if writes {
                    fs::write(&path, "tick").unwrap();
                }
            }
        });
    }
    // However long the disk takes.
    while matches!(durability, Durability::Lazy { .. } | Durability::Sync) && db.stat().unwrap().steady_txn.0 < 50 {
        std::thread::sleep(PERIOD);
    }
    std::thread::sleep(SETTLING);
    role.say("settled");
    // Until the parent has counted.
    assert_eq!(role.hear(), None);
    assert_eq!(snapshot.map(|snapshot| snapshot.txn().0), with_snapshot.then_some(26));
}

/// What a process has done so far, all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Activity {
    threads: usize,
    /// How often a thread gave up its processor to wait for something, so how often one has woken
    /// up.
    waits: u64,
    /// System calls that read and write, and bytes written to disk.
    reads: u64,
    writes: u64,
    bytes_written: u64,
}

impl Activity {
    fn of(child: &Child) -> Self {
        let process = format!("/proc/{}", child.pid());
        let field = |text: &str, name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel counts it");
            line.trim().parse().unwrap()
        };
        let tasks: Vec<_> = fs::read_dir(format!("{process}/task")).unwrap().map(|task| task.unwrap().path()).collect();
        let waits = tasks
            .iter()
            .map(|task| field(&fs::read_to_string(task.join("status")).unwrap(), "voluntary_ctxt_switches:"));
        let io = fs::read_to_string(format!("{process}/io")).unwrap();
        Self {
            threads: tasks.len(),
            waits: waits.sum(),
            reads: field(&io, "syscr:"),
            writes: field(&io, "syscw:"),
            bytes_written: field(&io, "write_bytes:"),
        }
    }
}

#[test]
fn an_idle_database_wakes_nobody_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<&str> = CASES.iter().map(|(name, ..)| *name).chain([TICKING, WRITING]).collect();
    let mut children: Vec<Child> = names.iter().map(|name| Child::start(name, &dir.path().join(name))).collect();
    for child in &mut children {
        assert_eq!(child.hear(), "settled");
    }
    // What it takes to go to sleep after the last word.
    std::thread::sleep(SETTLING / 2);
    let before: Vec<Activity> = children.iter().map(Activity::of).collect();
    std::thread::sleep(IDLE);
    let after: Vec<Activity> = children.iter().map(Activity::of).collect();
    let at = names.iter().position(|name| *name == "nosync").unwrap();
    let threads_without = before[at].threads;
    for (child, name) in children.into_iter().zip(&names) {
        let at = names.iter().position(|other| other == name).unwrap();
        let (before, after) = (before[at], after[at]);
        if *name == TICKING || *name == WRITING {
            assert!(after.waits >= before.waits + 4, "{name} was not seen: {before:?}, {after:?}");
            assert_eq!(after.writes > before.writes, *name == WRITING, "{name}: {before:?}, {after:?}");
            drop(child);
            continue;
        }
        assert_eq!(before, after, "{name}: this happened in {IDLE:?} in which nothing should");
        // The database's own thread in `Lazy` and `Sync` mode, none in the others.
        let own_threads = before.threads - threads_without;
        assert_eq!(own_threads, usize::from(!name.starts_with("nosync") && !name.contains("without")), "{name}");
        child.finish();
    }
}
