//! Histories that must survive a disk that loses, reorders and tears what was not flushed, fails,
//! and fills up.
//!
//! A crash keeps any subset of what the disk (`simulation`) was told and did not flush: so data may
//! be there without its meta page, a meta page without its data, and either in parts. Crashes
//! happen where it hurts: before, during and after flushes.
//!
//! A history is what one or two processes do: commits that wait until they are durable and commits
//! that do not, snapshots, steady points, one that goes on where the other did not wait, deaths of
//! a process, a full disk, closing and opening again.
//!
//! Not here: loss of what was flushed, which only a backup helps against; and read errors under the
//! map, which are a signal and end the process.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::simulation::{Counts, LeftOut, SimDisk, Wreck};
use crate::{
    AsOf, Database, Durability, EncryptionKey, Error, FreeSpace, Options, Result, Retention, Snapshot, TableKind,
    Ticket, TxnId, View,
};

mod branches;
mod encrypted;

/// The contents of the one table after a commit.
type Contents = BTreeMap<u32, Vec<u8>>;

const POLICIES: [FreeSpace; 4] = [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest, FreeSpace::Append];
const LAZY_BYTES: u64 = 64 << 10;
/// Pages that compactions of all histories have moved.
static MOVED: AtomicU64 = AtomicU64::new(0);
const MODES: [Durability; 4] = [
    Durability::Sync,
    Durability::SyncNoLog,
    Durability::Lazy { bytes: LAZY_BYTES, period: Duration::MAX },
    Durability::NoSync,
];

fn options(mode: Durability, policy: FreeSpace) -> Options {
    // Some keep what was for a moment, whatever the others do.
    let keeps = mode == Durability::Sync && matches!(policy, FreeSpace::Fifo | FreeSpace::Lowest);
    let retention = keeps.then(|| Retention::new(Duration::from_millis(50)).bytes_max(1 << 20));
    Options::new().durability(mode).free_space(policy).log_bytes(64 << 10).readers_max(16).retention(retention)
}

fn entries(view: &View<'_>) -> Contents {
    view.range(..)
        .expect("a range")
        .map(|entry| {
            let (key, value) = entry.expect("an entry");
            (u32::from_be_bytes(key[..4].try_into().expect("four bytes")), value.to_vec())
        })
        .collect()
}

fn contents(snapshot: &Snapshot<'_>) -> Contents {
    let Ok(table) = snapshot.table("table") else { return Contents::new() };
    entries(&snapshot.view(&table).expect("the table"))
}

fn newest(db: &Database) -> Contents {
    contents(&db.read().expect("a snapshot"))
}

/// One transaction, not waited for: a few changes to the table, now and then many. `contents`
/// become what they are if it succeeds.
fn change(db: &Database, rng: &mut StdRng, contents: &mut Contents) -> Result<Ticket> {
    let mut txn = db.write()?;
    let table = txn.create_table("table", TableKind::Plain)?;
    let mut after = contents.clone();
    let many = rng.random_ratio(1, 15);
    if rng.random_ratio(1, 40) {
        // Room for policies that give it back.
        let low = rng.random_range(0..3_000_u32);
        txn.delete_range(&table, &low.to_be_bytes()[..]..&3_000_u32.to_be_bytes()[..])?;
        after.retain(|key, _| *key < low || *key >= 3_000);
    }
    for _ in 0..rng.random_range(0..if many { 2_000 } else { 6 }) {
        let key = rng.random_range(0..3_000_u32);
        if rng.random_bool(0.6) {
            let byte: u8 = rng.random();
            let bytes = match rng.random_range(0..50) {
                // In pages of its own, in a leaf of several pages, in either.
                0 => 8_000,
                1 => 9_000,
                2..6 => rng.random_range(300..5_000),
                _ => rng.random_range(0..60),
            };
            let mut value = vec![byte; bytes];
            if let Some(old) = after.get(&key).filter(|old| !old.is_empty() && byte.is_multiple_of(2)) {
                // The same but for one byte: the log tells the difference, if it is not too short
                // for that.
                value.clone_from(old);
                value[usize::from(byte) % old.len()] ^= 1;
            }
            txn.put(&table, &key.to_be_bytes(), &value)?;
            after.insert(key, value);
        } else {
            txn.delete(&table, &key.to_be_bytes())?;
            after.remove(&key);
        }
    }
    // An empty transaction is none; a stamp makes sure there is one.
    let stamp = rng.random::<[u8; 8]>().to_vec();
    txn.put(&table, &u32::MAX.to_be_bytes(), &stamp)?;
    after.insert(u32::MAX, stamp);
    *contents = after;
    txn.commit_ticket()
}

/// The states that a database went through.
struct States<T = Contents> {
    /// After each commit; the first is the empty database.
    committed: Vec<T>,
    /// Commits whose process died before anybody could see them, with the numbers they would have
    /// had. A crash may bring them back, until others with the same numbers are there.
    unseen: Vec<(usize, T)>,
}

impl States {
    fn new() -> Self {
        Self::of(Contents::new())
    }
}

impl<T: PartialEq> States<T> {
    fn of(first: T) -> Self {
        Self { committed: vec![first], unseen: Vec::new() }
    }

    fn newest(&self) -> usize {
        self.committed.len() - 1
    }

    /// The number of the commit that gave these contents.
    fn find(&self, contents: &T) -> usize {
        let unseen = || self.unseen.iter().find(|(_, state)| state == contents).map(|&(number, _)| number);
        let found = self.committed.iter().rposition(|state| state == contents).or_else(unseen);
        found.expect("the state is that of some commit")
    }
}

/// The processes of a history, the disk that they share, and what is known of its contents, which are
/// of type `T`.
struct Processes<T> {
    rng: StdRng,
    mode: Durability,
    disk: SimDisk,
    states: States<T>,
    open: Vec<Database>,
    /// The key that the database is encrypted with. Then there is one process.
    key: Option<EncryptionKey>,
}

/// In how many operations the disk crashes once.
struct Rarity {
    /// Where commits are on disk when they return.
    in_sync: u32,
    otherwise: u32,
}

impl<T: PartialEq + Clone> Processes<T> {
    /// One or two processes.
    fn new(rng: StdRng, mode: Durability, rarity: &Rarity, left_out: Option<LeftOut>, first: T) -> Self {
        Self::with_key(rng, mode, rarity, left_out, first, None)
    }

    fn with_key(
        mut rng: StdRng,
        mode: Durability,
        rarity: &Rarity,
        left_out: Option<LeftOut>,
        first: T,
        key: Option<EncryptionKey>,
    ) -> Self {
        let rarity = if is_sync(mode) { rarity.in_sync } else { rarity.otherwise };
        let disk = SimDisk::of_new_encrypted(rng.random(), rarity, key.as_ref());
        disk.leave_out(left_out);
        let mut processes = Self { rng, mode, disk, states: States::of(first), open: Vec::new(), key };
        let count = processes.rng.random_range(1..3);
        for _ in 0..if processes.key.is_some() { 1 } else { count } {
            processes.open();
        }
        processes
    }

    /// Whether what a commit or a snapshot gives back is on disk.
    fn is_sync(&self) -> bool {
        is_sync(self.mode)
    }

    /// Everything committed is durable.
    fn acknowledge_all(&self) {
        self.disk.acknowledge(self.states.newest() as u64);
    }

    fn open(&mut self) {
        let policy = POLICIES[self.rng.random_range(0..4)];
        let options = options(self.mode, policy).encryption_key(self.key.clone());
        self.open.push(self.disk.open(&options).expect("the database opens"));
    }

    /// The number of one of them.
    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.open.len())
    }

    fn newest(&self) -> T {
        self.states.committed[self.states.newest()].clone()
    }

    fn sync(&mut self) {
        let process = self.any();
        self.open[process].sync().expect("a steady point");
        self.acknowledge_all();
    }

    /// The number of the commit that a snapshot has seen. What was seen does not go away.
    fn see(&mut self, found: &T) -> usize {
        let seen = self.states.find(found);
        assert!(seen as u64 >= self.disk.acknowledged() || !self.is_sync());
        if self.is_sync() {
            self.disk.acknowledge(seen as u64);
            if self.rng.random_bool(0.3) {
                self.disk.crash();
            }
        }
        seen
    }

    /// After a process died that tried to commit `next`: the next writer goes on from `found`.
    fn take_over(&mut self, found: &T, next: T) {
        if self.key.is_some() && self.mode != Durability::Sync && *found != self.newest() && *found != next {
            // What it had in memory of its own went with it, but for what was steady.
            let left = self.states.find(found);
            assert!(left as u64 >= self.disk.acknowledged(), "an acknowledged commit went with its process");
            self.states.committed.truncate(left + 1);
            return;
        }
        if *found != self.newest() {
            assert!(*found == next, "a commit went with its process");
            self.states.committed.push(next);
        } else if *found != next {
            self.states.unseen.push((self.states.newest() + 1, next));
        }
    }

    /// One process ends as it should, and another comes.
    fn reopen(&mut self) {
        let process = self.any();
        self.open.swap_remove(process).close().expect("closing");
        self.acknowledge_all();
        if self.rng.random_bool(0.3) {
            self.disk.crash();
        }
        self.open();
    }

    /// Closes all, and looks at the wrecks there were on the way and at `more` of the end.
    fn end(mut self, more: u32, inspect: fn(&Wreck, &States<T>, Durability, &mut StdRng) -> Counts) -> Counts {
        for process in std::mem::take(&mut self.open) {
            process.close().expect("closing");
        }
        self.acknowledge_all();
        for _ in 0..more {
            self.disk.crash();
        }
        let wrecks = self.disk.take_wrecks();
        let mut counts = self.disk.counts();
        counts.wrecks += wrecks.len();
        for wreck in &wrecks {
            counts += inspect(wreck, &self.states, self.mode, &mut self.rng);
        }
        counts
    }
}

fn is_sync(mode: Durability) -> bool {
    matches!(mode, Durability::Sync | Durability::SyncNoLog)
}

/// A history of one database's contents.
struct History {
    on: Processes<Contents>,
    /// Snapshots, with the commit that each sees.
    snapshots: Vec<(Snapshot<'static>, usize)>,
}

impl History {
    fn new(seed: u64, left_out: Option<LeftOut>) -> Self {
        Self::with_key(seed, left_out, None)
    }

    fn with_key(seed: u64, left_out: Option<LeftOut>, key: Option<EncryptionKey>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = match left_out {
            Some(LeftOut::Log | LeftOut::LogOfOthers) => Durability::Sync,
            _ => MODES[rng.random_range(0..4)],
        };
        let rarity = Rarity { in_sync: 40, otherwise: 6 };
        let on = Processes::with_key(rng, mode, &rarity, left_out, Contents::new(), key);
        Self { on, snapshots: Vec::new() }
    }

    fn commit(&mut self) -> Result<()> {
        let process = self.on.any();
        let mut next = self.on.newest();
        let ticket = change(&self.on.open[process], &mut self.on.rng, &mut next)?;
        self.on.states.committed.push(next);
        if self.on.mode == Durability::Sync && self.on.rng.random_bool(0.3) {
            // Nobody waits; what somebody sees is another matter.
            return Ok(());
        }
        ticket.wait()?;
        if self.on.is_sync() {
            self.on.acknowledge_all();
        }
        Ok(())
    }

    /// In `Lazy` mode, commits until a steady point has to come, and waits for it.
    fn outrun(&mut self) {
        let process = self.on.any();
        let steady = |db: &Database| db.stat().expect("figures").steady_txn;
        let before = steady(&self.on.open[process]);
        // Each takes pages that no other of them takes.
        let mut commits = Vec::new();
        for key in 0..=(LAZY_BYTES / 4096) as u32 {
            let mut next = self.on.newest();
            let value = vec![key as u8; 5_000];
            let mut txn = self.on.open[process].write().expect("a transaction");
            let table = txn.create_table("table", TableKind::Plain).expect("the table");
            txn.put(&table, &key.to_be_bytes(), &value).expect("a put");
            let txn = txn.commit().expect("a commit");
            next.insert(key, value);
            self.on.states.committed.push(next);
            commits.push((txn, self.on.states.newest()));
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while steady(&self.on.open[process]) == before {
            assert!(Instant::now() < deadline, "no steady point after {LAZY_BYTES} bytes");
            std::thread::yield_now();
        }
        let now = steady(&self.on.open[process]);
        if let Some((_, commit)) = commits.iter().rfind(|(txn, _)| *txn <= now) {
            self.on.disk.acknowledge(*commit as u64);
        }
        self.on.disk.crash();
    }

    /// Looks at the newest state that a process sees.
    fn look(&mut self) {
        let process = self.on.any();
        let snapshot = self.on.open[process].read_owned().expect("a snapshot");
        let found = contents(&snapshot);
        let seen = self.on.see(&found);
        assert!(self.on.is_sync() || seen == self.on.states.newest());
        if self.snapshots.len() < 4 {
            self.snapshots.push((snapshot, seen));
        }
    }

    /// One process commits and does not wait; the next to write makes that durable, and shows it.
    fn hand_over(&mut self) {
        let [first, .., next_to_write] = &self.on.open[..] else { return };
        let mut next = self.on.newest();
        drop(change(first, &mut self.on.rng, &mut next).expect("a commit"));
        drop(next_to_write.write().expect("a transaction"));
        assert!(newest(next_to_write) == next);
        self.on.states.committed.push(next);
        if self.on.is_sync() {
            self.on.acknowledge_all();
        }
        self.on.disk.crash();
    }

    fn drop_snapshots(&mut self) {
        for (snapshot, seen) in self.snapshots.drain(..) {
            assert!(contents(&snapshot) == self.on.states.committed[seen], "a snapshot has changed");
        }
    }

    /// One process is killed, at rest or in the middle of something, and another comes. Nothing is
    /// lost, durable or not.
    fn die(&mut self) {
        self.drop_snapshots();
        let process = self.on.any();
        let process = self.on.open.swap_remove(process);
        let mut next = self.on.newest();
        if self.on.rng.random_bool(0.6) {
            let operations = self.on.rng.random_range(1..12);
            let what = self.on.rng.random_range(0..10);
            let (disk, rng) = (self.on.disk.clone(), &mut self.on.rng);
            let done = disk.kill_during(operations, || match what {
                0..6 => change(&process, rng, &mut next).and_then(Ticket::wait).map(|_| ()),
                6..8 => process.compact(|_| ControlFlow::Continue(())).map(|_| ()),
                _ => process.sync(),
            });
            done.transpose().expect("a commit or a steady point");
        }
        process.die();
        self.on.disk.state.lock().counts.deaths += 1;
        self.on.open();
        // The next writer goes on from the newest state, seen or not.
        let process = self.on.any();
        let mut txn = self.on.open[process].write().expect("a transaction");
        let table = txn.create_table("table", TableKind::Plain).expect("the table");
        let found = entries(&txn.view(&table).expect("the table"));
        drop(txn);
        self.on.take_over(&found, next);
        // Whatever the dead left in memory only, those who go on rely on it.
        if self.on.rng.random() {
            self.look();
        }
        for _ in 0..self.on.rng.random_range(0..3) {
            self.commit().expect("a commit");
            self.on.disk.crash();
        }
    }

    fn reopen(&mut self) {
        self.drop_snapshots();
        self.on.reopen();
    }

    /// Pages are moved, with crashes in between, to the end or not.
    fn compact(&mut self) {
        let process = self.on.any();
        let (disk, rng) = (self.on.disk.clone(), &mut self.on.rng);
        let done = self.on.open[process].compact(|_| {
            if rng.random_bool(0.3) {
                disk.crash();
            }
            if rng.random_bool(0.1) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        MOVED.fetch_add(done.expect("a compaction").moved, Ordering::Relaxed);
        self.on.acknowledge_all();
    }

    /// The disk fills up, and has room again later.
    fn fill(&mut self) {
        let room = self.on.rng.random_range(0..100_000);
        self.on.disk.limit_room(Some(room));
        for _ in 0..10 {
            match self.commit() {
                Ok(()) => {}
                Err(Error::DiskFull { .. }) => {
                    let process = self.on.any();
                    let snapshot = self.on.open[process].read().expect("a snapshot on a full disk");
                    let found = contents(&snapshot);
                    self.on.states.find(&found);
                }
                Err(e) => panic!("{e}"),
            }
        }
        let process = self.on.any();
        let process = &self.on.open[process];
        let done = match self.on.rng.random() {
            true => process.compact(|_| ControlFlow::Continue(())).map(|_| ()),
            false => process.sync(),
        };
        match done {
            Ok(()) => self.on.acknowledge_all(),
            Err(Error::DiskFull { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        self.on.disk.limit_room(None);
    }

    fn step(&mut self) {
        match self.on.rng.random_range(0..100) {
            0..9 => self.on.sync(),
            9..17 => self.look(),
            17..20 => self.drop_snapshots(),
            20..23 => self.die(),
            23..26 => self.reopen(),
            26..28 => self.fill(),
            28..29 if matches!(self.on.mode, Durability::Lazy { .. }) => self.outrun(),
            28..30 => self.hand_over(),
            30..33 => self.compact(),
            _ => self.commit().expect("a commit"),
        }
    }

    fn end(mut self) -> Counts {
        self.drop_snapshots();
        let is_encrypted = self.on.key.is_some();
        self.on.end(3, if is_encrypted { encrypted::inspect } else { inspect })
    }
}

/// Runs a history on a disk that crashes at many places, and looks at each wreck.
fn run(seed: u64, left_out: Option<LeftOut>) -> Counts {
    run_with_key(seed, left_out, None)
}

fn run_with_key(seed: u64, left_out: Option<LeftOut>, key: Option<EncryptionKey>) -> Counts {
    println!("COLIBRI_SEED={seed}");
    let mut history = History::with_key(seed, left_out, key);
    for _ in 0..history.on.rng.random_range(1..150) {
        history.step();
    }
    history.end()
}

/// Tries to open what a crash left where that may fail half way. Nothing is lost by trying.
fn open_in_vain(disk: SimDisk, wreck: &Wreck, options: &Options, rng: &mut StdRng) -> SimDisk {
    let flush_fails = match rng.random_range(0..4) {
        0 => {
            disk.state.lock().reads_left = rng.random_range(1..3);
            false
        }
        1 => {
            disk.limit_room(Some(rng.random_range(0..60_000)));
            false
        }
        2 => {
            disk.state.lock().flushes_left = rng.random_range(1..9);
            true
        }
        _ => false,
    };
    match disk.open(options) {
        Ok(db) => db.die(),
        Err(Error::Io { .. } | Error::DiskFull { .. } | Error::Poisoned) => disk.state.lock().counts.in_vain += 1,
        Err(e) => panic!("{e:?}"),
    }
    disk.recover_from_faults();
    if !flush_fails {
        return disk;
    }
    // What memory says after a failed flush is not what is on disk.
    let mut durable = disk.durable();
    durable.acknowledged = wreck.acknowledged;
    SimDisk::of_wreck(&durable, rng.random())
}

/// Opens what a crash left: everything acknowledged is there, nothing is half there, and work goes
/// on.
fn inspect(wreck: &Wreck, states: &States, mode: Durability, rng: &mut StdRng) -> Counts {
    inspect_with_key(wreck, states, mode, rng, None)
}

fn inspect_with_key(
    wreck: &Wreck,
    states: &States,
    mode: Durability,
    rng: &mut StdRng,
    key: Option<EncryptionKey>,
) -> Counts {
    let mut disk = SimDisk::of_wreck(wreck, rng.random());
    // What one policy left, another goes on with.
    let options = options(mode, POLICIES[rng.random_range(0..4)]).encryption_key(key);
    if rng.random_ratio(1, 2) {
        disk = open_in_vain(disk, wreck, &options, rng);
    }
    let db = disk.open(&options).expect("a database opens after a crash");
    let mut found = newest(&db);
    let index = states.find(&found);
    assert!(index as u64 >= wreck.acknowledged, "commit {} was acknowledged, {index} is there", wreck.acknowledged);
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "a report: {report:#?}");
    for _ in 0..3 {
        let ticket = change(&db, rng, &mut found).expect("a commit after a crash");
        ticket.wait().expect("it becomes durable");
    }
    assert!(newest(&db) == found);
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "a report: {report:#?}");
    drop(db);
    disk.counts()
}

/// Bug: who played the death of a process left the mark of its steady point. Consequence: who
/// wanted to write waited for that, a thread of the dead for who wanted to write, and the end of
/// the dead for its thread: a history hung, once in a hundred. Fix: a thread that dies lets go of
/// what is its own.
#[test]
fn who_dies_during_a_steady_point_is_in_nobodys_way() {
    for operations in 1.. {
        let disk = SimDisk::of_new(0, u32::MAX);
        let options = options(Durability::NoSync, FreeSpace::Lifo);
        let [dying, other] = [0, 1].map(|_| disk.open(&options).expect("it opens"));
        drop(change(&dying, &mut StdRng::seed_from_u64(0), &mut Contents::new()).expect("a commit"));
        if disk.kill_during(operations, || dying.sync()).is_some() {
            assert!(operations > 3, "a steady point asks more than this of the disk");
            break;
        }
        let (done, ended) = std::sync::mpsc::channel();
        let writer = |db: &Database| {
            let (db, done) = (db.clone(), done.clone());
            std::thread::spawn(move || done.send(db.write().map(drop).is_ok()).expect("somebody waits"))
        };
        let mut threads = vec![writer(&other)];
        // It may have to wait for the steady point; with the lock, for which a thread of the dead
        // comes then.
        std::thread::sleep(Duration::from_millis(20));
        threads.push(writer(&dying));
        std::thread::sleep(Duration::from_millis(20));
        dying.die();
        for _ in 0..2 {
            ended.recv_timeout(Duration::from_secs(20)).expect("nobody waits for the dead");
        }
        threads.into_iter().for_each(|thread| thread.join().expect("a thread ends"));
    }
}

#[test]
fn a_crash_at_any_flush_loses_nothing_acknowledged() {
    if let Some(seed) = std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, None);
        return;
    }
    let mut counts = Counts::default();
    (0..150).for_each(|seed| counts += run(seed, None));
    println!("{counts:?}");
    assert!(counts.wrecks > 2500 && counts.punches > 100, "the histories do not show what they are for: {counts:?}");
    assert!(counts.deaths > 50 && counts.refusals > 50 && counts.in_vain > 50, "nor do they show this: {counts:?}");
    let moved = MOVED.load(Ordering::Relaxed);
    assert!(moved > 10_000, "compactions moved {moved} pages");
}

/// Kernels on ARM64 may map 16 or 64 KiB as one. Bug: the space of free pages was given back that
/// share such a piece with pages in use. Consequence: the kernel had to find room for them when a
/// neighbour was written, and killed the process if there was none. Fix: whole pieces are given
/// back, and backed again, which the disk looks at with each flush.
#[test]
fn a_crash_loses_nothing_acknowledged_where_the_kernel_maps_several_pages_as_one() {
    for granule in [16 << 10, 64 << 10] {
        let mut counts = Counts::default();
        for seed in 0..60 {
            println!("COLIBRI_SEED={seed}, {granule} bytes");
            let mut history = History::new(seed, None);
            history.on.disk.map_in(granule);
            for _ in 0..history.on.rng.random_range(1..150) {
                history.step();
            }
            counts += history.end();
        }
        assert!(counts.punches > 20, "nothing was given back: {counts:?}");
    }
}

/// The test above can fail: a piece that has disk space in part is noticed.
#[test]
#[should_panic(expected = "have no disk space")]
fn space_given_back_behind_a_part_of_what_the_kernel_maps_as_one_is_noticed() {
    use crate::disk::Disk;
    let disk = SimDisk::of_new(1, u32::MAX);
    disk.map_in(16 << 10);
    disk.grow(64 << 10).expect("room");
    disk.punch(16 << 10, 16 << 10).expect("a punch");
    disk.sync().expect("a whole piece may go");
    disk.punch(36 << 10, 4 << 10).expect("a punch");
    let _ = disk.sync();
}

/// The file gets shorter while the database is open, under processes that take turns, snapshots and
/// crashes.
#[test]
fn a_crash_while_the_file_gets_shorter_loses_nothing_acknowledged() {
    let mut counts = Counts::default();
    let mut cuts = 0;
    for seed in 0..30 {
        println!("COLIBRI_SEED={seed}");
        let mut history = History::new(seed, None);
        for round in 0..4_u32 {
            let process = history.on.any();
            let mut next = history.on.states.committed[history.on.states.newest()].clone();
            let mut txn = history.on.open[process].write().expect("a transaction");
            let table = txn.create_table("table", TableKind::Plain).expect("the table");
            for key in 0..3_000_u32 {
                let value = vec![round as u8; 100];
                txn.put(&table, &key.to_be_bytes(), &value).expect("a put");
                next.insert(key, value);
            }
            txn.commit().expect("a commit");
            history.on.states.committed.push(next.clone());
            let mut txn = history.on.open[process].write().expect("a transaction");
            txn.delete_range(&table, &200_u32.to_be_bytes()[..]..&3_000_u32.to_be_bytes()[..]).expect("a deletion");
            next.retain(|key, _| *key < 200 || *key >= 3_000);
            txn.commit().expect("a commit");
            history.on.states.committed.push(next);
            for _ in 0..60 {
                let process = history.on.any();
                let mut next = history.on.states.committed[history.on.states.newest()].clone();
                let mut txn = history.on.open[process].write().expect("a transaction");
                for _ in 0..3 {
                    let (key, value) = (history.on.rng.random_range(0..200_u32), vec![history.on.rng.random(); 100]);
                    txn.put(&table, &key.to_be_bytes(), &value).expect("a put");
                    next.insert(key, value);
                }
                txn.commit().expect("a commit");
                history.on.states.committed.push(next);
                if history.on.is_sync() {
                    // Now, and not after a death: a commit that dies with its process is nobody's
                    // promise.
                    history.on.acknowledge_all();
                }
                match history.on.rng.random_range(0..20) {
                    0..4 => {
                        history.on.open[process].sync().expect("a steady point");
                        history.on.acknowledge_all();
                    }
                    4 => history.look(),
                    5 => history.drop_snapshots(),
                    6 => history.die(),
                    7 => history.on.disk.crash(),
                    _ => {}
                }
            }
            history.drop_snapshots();
        }
        cuts += history.on.disk.state.lock().counts.shrinks;
        counts += history.end();
    }
    println!("{counts:?}, cut off {cuts} times before closing");
    assert!(cuts > 30 && counts.wrecks > 300, "the histories do not show what they are for: {cuts}, {counts:?}");
}

#[test]
#[ignore = "a long campaign: cargo test --release -p colibri-storage crash -- --ignored"]
fn many_crashes_lose_nothing_acknowledged() {
    let start: u64 = rand::rng().random();
    let (mut seed, mut counts) = (start, Counts::default());
    while counts.wrecks < 200_000 {
        counts += run(seed, None);
        seed = seed.wrapping_add(1);
    }
    println!("{counts:?} in {} histories", seed.wrapping_sub(start));
}

/// A database in `Sync` mode with some hundred commits that only the log holds.
fn logged_commits(rng: &mut StdRng) -> (Wreck, States) {
    let disk = SimDisk::of_new(rng.random(), u32::MAX);
    let options = options(Durability::Sync, FreeSpace::Lifo).log_bytes(1 << 30);
    let db = disk.open(&options).expect("a new database opens");
    let mut states = States::new();
    for _ in 0..300 {
        let mut next = states.committed[states.newest()].clone();
        change(&db, rng, &mut next).and_then(Ticket::wait).expect("a commit");
        states.committed.push(next);
    }
    disk.acknowledge(states.newest() as u64);
    let wreck = disk.durable();
    db.die();
    (wreck, states)
}

/// Bug: a database whose recovery failed was closed like any other. Consequence: closing deleted
/// the log that could not be read, or not be carried out for lack of room, and with it all that was
/// committed since the last steady point. Fix: what was not recovered is left as it is.
///
/// Bug: what a process had carried out again before it died was taken for all there was.
/// Consequence: the rest of the log was written over. Fix: recovery goes on behind the newest root,
/// whoever left it.
///
/// Bug: a steady point in the background, due because the log was long, could come in the middle of
/// recovery. Consequence: after another crash the rest of the log was not found. Fix: the
/// background waits.
#[test]
fn recovery_that_fails_half_way_loses_nothing() {
    let mut rng = StdRng::seed_from_u64(1);
    let (wreck, states) = logged_commits(&mut rng);
    let options = options(Durability::Sync, FreeSpace::Lifo);
    let mut failures = 0;
    for attempt in 0..60 {
        let disk = SimDisk::of_wreck(&wreck, attempt);
        match attempt % 2 {
            0 => disk.state.lock().reads_left = 1 + attempt / 10,
            _ => disk.limit_room(Some(attempt * 10_000)),
        }
        let Err(e) = disk.open(&options) else { continue };
        assert!(matches!(e, Error::Io { .. } | Error::DiskFull { .. }), "{e}");
        failures += 1;
        disk.recover_from_faults();
        // The system crashes, too, or it does not.
        let crashed = SimDisk::of_wreck(&disk.durable(), attempt);
        for disk in [crashed, disk] {
            let db = disk.open(&options).expect("the database opens");
            assert_eq!(states.find(&newest(&db)), states.newest(), "attempt {attempt}");
        }
    }
    assert!(failures > 10, "only {failures} attempts failed");
}

/// What one process did not wait for, another makes durable before it shows it: as the next to
/// write, and as the next to open.
#[test]
fn what_another_process_shows_is_durable() {
    for dies in [false, true] {
        let mut rng = StdRng::seed_from_u64(2);
        let disk = SimDisk::of_new(2, u32::MAX);
        let options = options(Durability::Sync, FreeSpace::Lifo);
        let mut first = Some(disk.open(&options).expect("a new database opens"));
        let mut next = Contents::new();
        let ticket = change(first.as_ref().expect("open"), &mut rng, &mut next).expect("a commit");
        assert!(!ticket.is_durable());
        drop(ticket);
        if dies {
            first.take().expect("open").die();
        }
        let second = disk.open(&options).expect("the database opens");
        if !dies {
            drop(second.write().expect("a transaction"));
        }
        assert!(newest(&second) == next);
        let crashed = SimDisk::of_wreck(&disk.durable(), 2).open(&options).expect("the database opens after a crash");
        assert!(newest(&crashed) == next, "what was seen is gone");
    }
}

/// The tests can fail: an engine that left out a flush of any kind would be found out.
#[test]
fn a_flush_left_out_is_noticed() {
    for left_out in [LeftOut::Log, LeftOut::LogOfOthers, LeftOut::Pages, LeftOut::Meta] {
        let noticed = |seed: &u64| {
            let Err(cause) = std::panic::catch_unwind(|| run(*seed, Some(left_out))) else { return false };
            let message = cause.downcast_ref::<String>().map_or("", String::as_str);
            // What the histories look for, and not something else that went wrong.
            let loss = ["was acknowledged", "Corrupted", "the state is that of some commit", "report"];
            assert!(loss.iter().any(|loss| message.contains(loss)), "another failure: {message}");
            true
        };
        let seed = (0..100).find(noticed);
        println!("{left_out:?} left out: noticed in history {seed:?}");
        assert!(seed.is_some(), "{left_out:?} can be left out, and nobody notices");
    }
}

#[test]
fn a_crash_while_closing_or_behind_it_loses_nothing() {
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = MODES[seed as usize % MODES.len()];
        let disk = SimDisk::of_new(seed, 2);
        let db = disk.open(&options(mode, FreeSpace::Lifo)).expect("a new database opens");
        let mut states = States::new();
        for _ in 0..3 {
            // So many pages that what the meta page says of them is longer than a sector.
            let mut next = states.committed[states.newest()].clone();
            let mut txn = db.write().expect("a transaction");
            let table = txn.create_table("table", TableKind::Plain).expect("the table");
            for key in 0..1_500_u32 {
                let value = vec![rng.random(); 100];
                txn.put(&table, &key.to_be_bytes(), &value).expect("a put");
                next.insert(key, value);
            }
            txn.commit().expect("a commit");
            states.committed.push(next);
        }
        db.sync().expect("a steady point");
        disk.acknowledge(states.newest() as u64);
        disk.state.lock().wrecks.clear();
        db.close().expect("closing");
        (0..5).for_each(|_| disk.crash());
        let wrecks = disk.take_wrecks();
        for wreck in &wrecks {
            inspect(wreck, &states, mode, &mut rng);
        }
    }
}

#[test]
fn a_failed_flush_poisons_the_handle_and_the_next_opening_is_intact() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = MODES[rng.random_range(0..4)];
        let policy = POLICIES[rng.random_range(0..4)];
        let sync = matches!(mode, Durability::Sync | Durability::SyncNoLog);
        let disk = SimDisk::of_new(seed, u32::MAX);
        let db = disk.open(&options(mode, policy)).expect("a new database opens");
        disk.state.lock().flushes_left = rng.random_range(1..20);
        let mut states = States::new();
        let failure = loop {
            let mut next = states.committed[states.newest()].clone();
            let committed = change(&db, &mut rng, &mut next).and_then(Ticket::wait);
            // One that failed may have reached the disk all the same.
            states.committed.push(next);
            if let Err(e) = committed {
                break e;
            }
            if !sync && let Err(e) = db.sync() {
                break e;
            }
            disk.acknowledge(states.newest() as u64);
        };
        // The failed flush may have been the background thread's.
        let in_background = matches!(mode, Durability::Sync | Durability::Lazy { .. });
        let poisoned = in_background && matches!(failure, Error::Poisoned);
        assert!(poisoned || matches!(failure, Error::Io { .. }), "{failure}");
        assert!(matches!(db.write().err(), Some(Error::Poisoned)));
        assert!(matches!(db.sync().err(), Some(Error::Poisoned)));
        // Readers go on with what they had.
        let seen = newest(&db);
        assert!(states.find(&seen) as u64 >= disk.acknowledged());
        drop(db);
        inspect(&disk.durable(), &states, mode, &mut rng);
    }
}

/// Bug: the log asked for twice the space it needed, however full the disk was. Consequence:
/// commits were refused for want of room for the data while the log had room that it did not use.
/// Fix: it asks for more than it needs only where there is much; where it finds none at all, a
/// steady point takes its place.
#[test]
fn a_log_on_a_nearly_full_disk_leaves_the_room_to_the_data() {
    let mut rng = StdRng::seed_from_u64(3);
    for room in (300_000..3_000_000).step_by(300_000) {
        let disk = SimDisk::of_new(room, u32::MAX);
        let db = disk.open(&options(Durability::Sync, FreeSpace::Lifo).log_bytes(1 << 30)).expect("a new database");
        disk.limit_room(Some(room));
        let mut kept = Contents::new();
        let mut put = |key: u32| {
            let value: Vec<u8> = (0..rng.random_range(100..500)).map(|_| rng.random()).collect();
            let mut txn = db.write()?;
            let table = txn.create_table("table", TableKind::Plain)?;
            txn.put(&table, &key.to_be_bytes(), &value)?;
            txn.commit()?;
            kept.insert(key, value);
            Ok(())
        };
        let refusal = (0..).find_map(|key| put(key).err());
        assert!(matches!(refusal, Some(Error::DiskFull { .. })), "{refusal:?}");
        let (log, ahead) = (disk.log_bytes(), disk.log_bytes_ahead());
        assert!(log > 0 && ahead <= crate::log::FILL_BYTES, "{room}: the log has {log} bytes, and {ahead} ahead");
        disk.acknowledge(kept.len() as u64);
        assert!(newest(&db) == kept);
        let crashed = SimDisk::of_wreck(&disk.durable(), room);
        assert!(newest(&crashed.open(&options(Durability::Sync, FreeSpace::Lifo)).expect("it opens")) == kept);
    }
}

/// A steady point in place of the log's record needs no more room than there was before the log
/// asked for some.
#[test]
fn where_the_log_finds_no_room_a_steady_point_takes_its_place() {
    let disk = SimDisk::of_new(4, u32::MAX);
    let db = disk.open(&options(Durability::Sync, FreeSpace::Lifo).log_bytes(1 << 30)).expect("a new database");
    let mut kept = Contents::new();
    let mut rng = StdRng::seed_from_u64(4);
    // Free pages for the commits to come, none of which adds a record.
    for _ in 0..50 {
        change(&db, &mut rng, &mut kept).and_then(Ticket::wait).expect("a commit");
    }
    db.sync().expect("a steady point");
    let steady = db.stat().expect("figures").steady_txn;
    disk.limit_room(Some(crate::log::FILL_BYTES - 1));
    let filled = disk.log_bytes();
    for _ in 0..2_000 {
        let stamp = rng.random::<[u8; 8]>().to_vec();
        let mut txn = db.write().expect("a transaction");
        let table = txn.table("table").expect("the table");
        txn.put(&table, &u32::MAX.to_be_bytes(), &stamp).expect("a put");
        kept.insert(u32::MAX, stamp);
        txn.commit().expect("a commit where there is no room for the log");
    }
    assert_eq!(disk.log_bytes(), filled, "the log found room");
    assert!(db.stat().expect("figures").steady_txn > steady, "no steady point took its place");
    let crashed = SimDisk::of_wreck(&disk.durable(), 4);
    assert!(newest(&crashed.open(&options(Durability::Sync, FreeSpace::Lifo)).expect("it opens")) == kept);
}

/// How often a process is killed in the middle of something, each time a little later.
const DEATHS: u64 = 14;

/// Bug: who took over looked at who pins what, and only then made the newest state visible that a
/// dead writer had made durable and had not published. Consequence: whoever took a snapshot in
/// between saw the state before that, unknown to the writer, which used its pages. Fix: visible
/// first. Here the look waits at the gate, where dead readers are let go.
#[test]
fn who_comes_while_the_writing_is_taken_over_sees_the_newest_state() {
    let mut unpublished = 0;
    for operations in 1..DEATHS {
        let mut rng = StdRng::seed_from_u64(operations);
        let disk = SimDisk::of_new(operations, u32::MAX);
        let options = options(Durability::SyncNoLog, FreeSpace::Lifo);
        let [dying, heir, third] = [(); 3].map(|()| disk.open(&options).expect("the database opens"));
        let mut before = Contents::new();
        for _ in 0..5 {
            change(&dying, &mut rng, &mut before).and_then(Ticket::wait).expect("a commit");
        }
        // Older than the steady point to come, so that the heir asks whether its process lives.
        let old = third.read_owned().expect("a snapshot");
        let mut after = before.clone();
        disk.kill_during(operations, || change(&dying, &mut rng, &mut after).and_then(Ticket::wait).map(|_| ()));
        dying.die();
        let core = &heir.0.core;
        let (on_disk, _) = core.newest_meta(TxnId(u64::MAX)).expect("a meta page");
        if on_disk.txn <= core.shared.root().txn {
            continue;
        }
        unpublished += 1;
        let gate = third.0.core.shared.close_gate().expect("the gate");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut rng = StdRng::seed_from_u64(77);
                let mut contents = after.clone();
                for _ in 0..20 {
                    change(&heir, &mut rng, &mut contents).and_then(Ticket::wait).expect("a commit");
                }
                contents
            });
            let deadline = Instant::now() + Duration::from_secs(20);
            let seen = loop {
                let snapshot = third.read_owned().expect("a snapshot");
                if snapshot.txn() >= on_disk.txn {
                    break snapshot;
                }
                assert!(
                    Instant::now() < deadline,
                    "the newest state is not visible when the heir looks at the readers"
                );
                std::thread::yield_now();
            };
            assert!(!writer.is_finished());
            drop(gate);
            let newer = writer.join().expect("the heir");
            assert!(contents(&seen) == after && contents(&old) == before, "a snapshot has changed");
            assert!(newest(&third) == newer);
        });
        assert!(heir.check().expect("a check").is_clean());
    }
    assert!(unpublished > 0, "no death came between the last flush and publishing");
}

/// Bug: a backup was of the newest meta page that could be read, which a steady point under way had
/// written and not flushed. Consequence: a crash took that state back, and the next backup left out
/// what other transactions of the same numbers had changed. Fix: none is newer than the last steady
/// point that is known to be on disk.
#[test]
fn a_backup_is_of_a_state_that_no_crash_takes_back() {
    let mut unflushed = 0;
    for operations in 1..DEATHS {
        let mut rng = StdRng::seed_from_u64(operations);
        let disk = SimDisk::of_new(operations, u32::MAX);
        let options = options(Durability::NoSync, FreeSpace::Lifo);
        let [dying, reader] = [false, true].map(|read_only| disk.open(&options.clone().read_only(read_only)));
        let (dying, reader) = (dying.expect("the database opens"), reader.expect("the database opens"));
        let mut states = States::new();
        for round in 0..8 {
            let mut next = states.committed[states.newest()].clone();
            drop(change(&dying, &mut rng, &mut next).expect("a commit"));
            states.committed.push(next);
            if round == 3 {
                dying.sync().expect("a steady point");
            }
        }
        disk.kill_during(operations, || dying.sync());
        dying.die();
        let (newest_meta, _) = reader.0.core.newest_meta(TxnId(u64::MAX)).expect("a meta page");
        let mut bytes = Vec::new();
        let info = reader.backup(None, &mut bytes).expect("a backup");
        let crashed = SimDisk::of_wreck(&disk.durable(), operations).open(&options).expect("it opens after a crash");
        let left = crashed.stat().expect("figures").txn;
        assert!(info.txn <= left, "a backup of transaction {}, and {left} is what a crash leaves", info.txn);
        unflushed += u32::from(newest_meta.txn > left);
    }
    assert!(unflushed > 0, "no death came between writing the meta page and flushing it");
}
