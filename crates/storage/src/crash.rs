//! A disk that loses, reorders and tears what was not flushed, and the histories that must survive it.
//!
//! The disk keeps two images: memory, which the engine maps, and what is durable. A flush brings one to the other. A
//! crash keeps, of all sectors of 512 bytes that differ, any subset: so data may be there without its meta page, a meta
//! page without its data, and either in parts. Crashes happen where it hurts: before, during and after flushes.
//!
//! Not here: loss of what was flushed, which only a backup helps against.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::disk::Disk;
use crate::log::LogFile;
use crate::{Database, Durability, Error, FreeSpace, Options, Result, TableKind};

const SECTOR_BYTES: usize = 512;
const RESERVED_BYTES: u64 = 32 << 20;

/// What a crash left on the disk, and which commits had been acknowledged as durable by then.
struct Wreck {
    image: Vec<u8>,
    logs: [Vec<u8>; 2],
    acknowledged: u64,
}

/// A file of the log: what was written, and what of it was flushed.
#[derive(Default, Clone)]
struct LogState {
    memory: Vec<u8>,
    durable: Vec<u8>,
}

struct State {
    durable: Vec<u8>,
    logs: [LogState; 2],
    rng: StdRng,
    wrecks: Vec<Wreck>,
    /// A wreck is kept at one in so many occasions.
    rarity: u32,
    /// Flushes until one fails.
    flushes_left: u64,
    /// Sectors without disk space behind them: nothing may be written there.
    holes: BTreeSet<u64>,
    /// How often space was given back.
    punches: u64,
}

/// The disk, and the test's hold on it.
#[derive(Clone)]
struct SimDisk {
    memory: Arc<Memory>,
    state: Arc<Mutex<State>>,
    allocated: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
}

struct Memory(NonNull<u8>);

// SAFETY: plain memory, unmapped when the last owner goes; the tests use it from one thread at a time.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `SimDisk::new` with this length.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), RESERVED_BYTES as usize) };
    }
}

impl SimDisk {
    fn new(image: &[u8], logs: &[Vec<u8>; 2], seed: u64, rarity: u32) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), RESERVED_BYTES as usize, protection, MapFlags::PRIVATE) };
        let base: NonNull<u8> = NonNull::new(base.expect("memory for a test").cast()).expect("mmap gives no null");
        // SAFETY: the image is shorter than the mapping, which nobody else knows yet.
        unsafe { base.as_ptr().copy_from_nonoverlapping(image.as_ptr(), image.len()) };
        let state = State {
            durable: image.to_vec(),
            logs: logs.clone().map(|bytes| LogState { memory: bytes.clone(), durable: bytes }),
            rng: StdRng::seed_from_u64(seed),
            wrecks: Vec::new(),
            rarity,
            flushes_left: u64::MAX,
            holes: BTreeSet::new(),
            punches: 0,
        };
        Self {
            memory: Arc::new(Memory(base)),
            state: Arc::new(Mutex::new(state)),
            allocated: Arc::new(AtomicU64::new(image.len() as u64)),
            acknowledged: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A new database.
    fn of_new(seed: u64, rarity: u32) -> Self {
        Self::new(&Database::image_of_new(4096), &Default::default(), seed, rarity)
    }

    fn open(&self, durability: Durability, free_space: FreeSpace) -> Result<Database> {
        let options = Options::new().durability(durability).free_space(free_space).log_bytes(64 << 10);
        let logs = [0, 1].map(|file| Box::new(SimLog { disk: self.clone(), file }) as Box<dyn LogFile>);
        Database::on_disk(Box::new(self.clone()), logs, &options, 4096)
    }

    fn memory(&self) -> &[u8] {
        // SAFETY: below the mapping's length; the engine does not write while the disk is asked to do something.
        unsafe { std::slice::from_raw_parts(self.memory.0.as_ptr(), self.allocated() as usize) }
    }

    /// What a crash now might leave.
    fn wreck(&self, state: &mut State) -> Wreck {
        let memory = self.memory();
        let mut image = state.durable.clone();
        // The length of the file is metadata with a fate of its own.
        if image.len() < memory.len() && state.rng.random_bool(0.7) {
            image.resize(memory.len(), 0);
        }
        keep_some(&mut image, memory, &mut state.rng);
        let mut logs = state.logs.clone().map(|log| log.durable);
        for (log, kept) in state.logs.iter().zip(&mut logs) {
            if kept.len() < log.memory.len() && state.rng.random_bool(0.7) {
                kept.resize(log.memory.len(), 0);
            }
            keep_some(kept, &log.memory, &mut state.rng);
        }
        Wreck { image, logs, acknowledged: self.acknowledged.load(Ordering::Relaxed) }
    }

    fn maybe_crash(&self, state: &mut State) {
        let rarity = state.rarity;
        if state.rng.random_ratio(1, rarity) {
            let wreck = self.wreck(state);
            state.wrecks.push(wreck);
        }
    }
}

/// Brings some sectors of what is durable to what is in memory.
fn keep_some(durable: &mut [u8], memory: &[u8], rng: &mut StdRng) {
    let chance = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0][rng.random_range(0..6)];
    for (old, new) in durable.chunks_mut(SECTOR_BYTES).zip(memory.chunks(SECTOR_BYTES)) {
        if old != new && rng.random_bool(chance) {
            old.copy_from_slice(&new[..old.len()]);
        }
    }
}

/// A file of the log on the simulated disk.
struct SimLog {
    disk: SimDisk,
    file: usize,
}

impl LogFile for SimLog {
    fn allocated(&self) -> u64 {
        self.disk.state.lock().logs[self.file].memory.len() as u64
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let mut state = self.disk.state.lock();
        let memory = &mut state.logs[self.file].memory;
        let length = memory.len().max((bytes as usize).next_multiple_of(SECTOR_BYTES));
        memory.resize(length, 0);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.state.lock();
        self.disk.maybe_crash(&mut state);
        state.logs[self.file].memory[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.disk.maybe_crash(&mut state);
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let state = self.disk.state.lock();
        let rest = state.logs[self.file].memory.get(offset as usize..).unwrap_or_default();
        let got = rest.len().min(bytes.len());
        bytes[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.disk.state.lock();
        self.disk.maybe_crash(&mut state);
        state.flushes_left = state.flushes_left.saturating_sub(1);
        if state.flushes_left == 0 {
            let wreck = self.disk.wreck(&mut state);
            for (log, kept) in state.logs.iter_mut().zip(wreck.logs) {
                log.durable = kept;
            }
            return Err(Error::io("cannot flush", "simulated", std::io::Error::other("the disk said no")));
        }
        let log = &mut state.logs[self.file];
        log.durable.clone_from(&log.memory);
        Ok(())
    }

    fn remove(&self) {
        self.disk.state.lock().logs[self.file] = LogState::default();
    }
}

impl Disk for SimDisk {
    fn map(&self) -> (NonNull<u8>, u64) {
        (self.memory.0, RESERVED_BYTES)
    }

    fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    fn occupied(&self) -> Result<u64> {
        Ok(self.allocated() - (self.state.lock().holes.len() * SECTOR_BYTES) as u64)
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        if bytes > RESERVED_BYTES {
            return Err(Error::DiskFull { path: "simulated".into(), bytes_wanted: bytes });
        }
        self.allocated.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(offset + bytes <= self.allocated());
        state.holes.retain(|hole| !(offset..offset + bytes).contains(hole));
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        let range = offset as usize..(offset + bytes) as usize;
        // SAFETY: the range lies within the mapping, and nobody refers to free pages.
        unsafe { self.memory.0.as_ptr().add(range.start).write_bytes(0, range.len()) };
        // It takes effect at once or with the next flush.
        if state.rng.random_bool(0.5) {
            state.durable[range].fill(0);
        }
        state.punches += 1;
        state.holes.extend((offset..offset + bytes).step_by(SECTOR_BYTES));
        self.maybe_crash(&mut state);
        Ok(())
    }

    fn populate(&self, _offset: u64, _bytes: u64) {}

    fn write_out(&self, _offset: u64, _bytes: u64, _wait: bool) {}

    fn shrink(&self, bytes: u64) -> Result<()> {
        let old = self.allocated.swap(bytes, Ordering::Relaxed);
        // SAFETY: the range lies within the mapping, and the engine refers to nothing behind its page count.
        unsafe { self.memory.0.as_ptr().add(bytes as usize).write_bytes(0, (old - bytes) as usize) };
        let mut state = self.state.lock();
        state.durable.truncate(bytes as usize);
        state.holes.retain(|&hole| hole < bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.maybe_crash(&mut self.state.lock());
        // SAFETY: meta pages lie within the mapping, and nobody holds a reference to them meanwhile.
        unsafe { self.memory.0.as_ptr().add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.maybe_crash(&mut self.state.lock());
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        state.flushes_left = state.flushes_left.saturating_sub(1);
        if state.flushes_left == 0 {
            // A failed flush has written some of it.
            let wreck = self.wreck(&mut state);
            state.durable = wreck.image;
            return Err(Error::io("cannot flush", "simulated", std::io::Error::other("the disk said no")));
        }
        for &hole in &state.holes {
            let sector = &self.memory()[hole as usize..][..SECTOR_BYTES];
            assert!(sector.iter().all(|&byte| byte == 0), "written without disk space at {hole}");
        }
        state.durable.clear();
        state.durable.extend_from_slice(self.memory());
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("simulated")
    }
}

/// The contents of the one table after a commit.
type Contents = BTreeMap<u32, Vec<u8>>;

const POLICIES: [FreeSpace; 4] = [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest, FreeSpace::Append];
const MODES: [Durability; 3] = [Durability::Sync, Durability::SyncNoLog, Durability::NoSync];

fn contents(db: &Database) -> Contents {
    let snapshot = db.read().expect("a snapshot");
    let Ok(table) = snapshot.table("table") else { return Contents::new() };
    let view = snapshot.view(&table).expect("the table");
    view.range(..)
        .expect("a range")
        .map(|entry| {
            let (key, value) = entry.expect("an entry");
            (u32::from_be_bytes(key[..4].try_into().expect("four bytes")), value.to_vec())
        })
        .collect()
}

/// One commit: a few changes to the table, now and then many.
fn change(db: &Database, rng: &mut StdRng, contents: &mut Contents) -> Result<()> {
    let mut txn = db.write()?;
    let table = txn.create_table("table", TableKind::Plain)?;
    let mut after = contents.clone();
    let many = rng.random_ratio(1, 15);
    for _ in 0..rng.random_range(0..if many { 2_000 } else { 6 }) {
        let key = rng.random_range(0..3_000_u32);
        if rng.random_bool(0.6) {
            let value = vec![rng.random(); if rng.random_ratio(1, 50) { 9_000 } else { rng.random_range(0..60) }];
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
    txn.commit()?;
    *contents = after;
    Ok(())
}

/// Runs a history on a disk that crashes at many places, and looks at each wreck. Returns how many wrecks those were
/// and how often space was given back.
fn run(seed: u64) -> (usize, u64) {
    println!("COLIBRI_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mode = MODES[rng.random_range(0..3)];
    let policy = POLICIES[rng.random_range(0..4)];
    let sync = mode != Durability::NoSync;
    let disk = SimDisk::of_new(rng.random(), if sync { 40 } else { 6 });
    let db = disk.open(mode, policy).expect("a new database opens");
    let mut states = vec![Contents::new()];
    for _ in 0..rng.random_range(1..150) {
        let mut next = states[states.len() - 1].clone();
        change(&db, &mut rng, &mut next).expect("a commit");
        states.push(next);
        let steady = rng.random_ratio(1, 8);
        if steady {
            db.sync().expect("a steady point");
        }
        if sync || steady {
            disk.acknowledged.store(states.len() as u64 - 1, Ordering::Relaxed);
        }
    }
    db.close().expect("closing");
    let wrecks = std::mem::take(&mut disk.state.lock().wrecks);
    for wreck in &wrecks {
        inspect(wreck, &states, mode, &mut rng);
    }
    let punches = disk.state.lock().punches;
    (wrecks.len(), punches)
}

/// Opens what a crash left: everything acknowledged is there, nothing is half there, and work goes on.
fn inspect(wreck: &Wreck, states: &[Contents], mode: Durability, rng: &mut StdRng) {
    let disk = SimDisk::new(&wreck.image, &wreck.logs, rng.random(), u32::MAX);
    // What one policy left, another goes on with.
    let db = disk.open(mode, POLICIES[rng.random_range(0..4)]).expect("a database opens after a crash");
    let mut found = contents(&db);
    let index = states.iter().rposition(|state| *state == found).expect("the state is that of some commit");
    assert!(index as u64 >= wreck.acknowledged, "commit {} was acknowledged, {index} is there", wreck.acknowledged);
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "{report:#?}");
    for _ in 0..3 {
        change(&db, rng, &mut found).expect("a commit after a crash");
    }
    assert_eq!(contents(&db), found);
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_crash_at_any_flush_loses_nothing_acknowledged() {
    if let Some(seed) = std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed);
        return;
    }
    let (wrecks, punches) = (0..150).map(run).fold((0, 0), |sum, (wrecks, punches)| (sum.0 + wrecks, sum.1 + punches));
    println!("{wrecks} wrecks, space given back {punches} times");
    assert!(wrecks > 1000 && punches > 100, "the histories do not show what they are for");
}

#[test]
#[ignore = "a long campaign: cargo test --release -p colibri-storage crash -- --ignored"]
fn many_crashes_lose_nothing_acknowledged() {
    let start: u64 = rand::rng().random();
    let (mut seed, mut crashes) = (start, 0);
    while crashes < 200_000 {
        crashes += run(seed).0;
        seed = seed.wrapping_add(1);
    }
    println!("{crashes} crashes in {} histories", seed.wrapping_sub(start));
}

#[test]
fn a_failed_flush_poisons_the_handle_and_the_next_opening_is_intact() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = MODES[rng.random_range(0..3)];
        let policy = POLICIES[rng.random_range(0..4)];
        let sync = mode != Durability::NoSync;
        let disk = SimDisk::of_new(seed, u32::MAX);
        let db = disk.open(mode, policy).expect("a new database opens");
        disk.state.lock().flushes_left = rng.random_range(1..20);
        let mut states = vec![Contents::new()];
        let mut acknowledged = 0;
        let failure = loop {
            let mut next = states[states.len() - 1].clone();
            let copy = rng.clone();
            if let Err(e) = change(&db, &mut rng, &mut next) {
                // The commit may have reached the disk all the same: run it against a database that keeps it.
                let twin = SimDisk::of_new(seed, u32::MAX).open(Durability::NoSync, policy).expect("a twin");
                change(&twin, &mut copy.clone(), &mut next).expect("a commit that does not fail");
                states.push(next);
                break e;
            }
            states.push(next);
            if !sync && let Err(e) = db.sync() {
                break e;
            }
            acknowledged = states.len() - 1;
        };
        // With a log, the failed flush may have been the background thread's.
        let poisoned = mode == Durability::Sync && matches!(failure, Error::Poisoned);
        assert!(poisoned || matches!(failure, Error::Io { .. }), "{failure}");
        assert!(matches!(db.write().err(), Some(Error::Poisoned)));
        assert!(matches!(db.sync().err(), Some(Error::Poisoned)));
        // Readers go on with what they had.
        let seen = contents(&db);
        assert!(states[acknowledged..].contains(&seen));
        drop(db);
        let image = disk.state.lock().durable.clone();
        let logs = disk.state.lock().logs.clone().map(|log| log.durable);
        let wreck = Wreck { image, logs, acknowledged: acknowledged as u64 };
        inspect(&wreck, &states, mode, &mut rng);
    }
}
