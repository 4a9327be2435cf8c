//! The same histories with branches: a forest of databases instead of one.
//!
//! A state is what all branches hold. Branches are made, changed, reset and dropped, what was
//! dropped is reaped in the background and now and then at once, and processes die in the middle of
//! each.

use super::*;

/// The contents of each branch, by name.
type Forest = BTreeMap<String, Contents>;

/// How many states of the past were found in wrecks.
static GONE_BACK: AtomicU64 = AtomicU64::new(0);

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

fn new_forest() -> Forest {
    Forest::from([("main".to_owned(), Contents::new())])
}

/// What all branches hold in one visible state.
fn forest_of(db: &Database) -> Forest {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let before = db.readable_txn();
        let read = || -> Result<Forest> {
            let names = db.branches()?.into_iter().map(|info| info.name);
            names.map(|name| Ok((name.clone(), contents(&db.open_branch(&name)?.read()?)))).collect()
        };
        match read() {
            Ok(forest) if db.readable_txn() == before => return forest,
            // Another state has become visible meanwhile.
            Ok(_) | Err(Error::NoSuchBranch { .. }) => {}
            Err(e) => panic!("a forest: {e}"),
        }
        assert!(Instant::now() < deadline, "there is no state that stays");
    }
}

/// One change to the forest, waited for or not. The model changes first: the process may be killed
/// behind the commit.
fn grow(db: &Database, rng: &mut StdRng, forest: &mut Forest) -> Result<Option<Ticket>> {
    let names: Vec<String> = forest.keys().cloned().collect();
    let any = |rng: &mut StdRng| names[rng.random_range(0..names.len())].clone();
    let name = any(rng);
    let branch = || db.open_branch(&name);
    match rng.random_range(0..20) {
        0..3 => {
            let Some(new) = NAMES.iter().find(|new| !forest.contains_key(**new)) else { return Ok(None) };
            let branch = branch()?;
            forest.insert((*new).to_owned(), forest[&name].clone());
            branch.branch(new)?;
        }
        3..5 if name != "main" => {
            forest.remove(&name);
            db.drop_branch(&name)?;
        }
        5 => {
            let other = any(rng);
            let branch = branch()?;
            forest.insert(other.clone(), forest[&name].clone());
            branch.reset_branch(&other)?;
        }
        6 if rng.random_bool(0.3) => _ = db.reap_branches()?,
        _ => {
            let contents = forest.get_mut(&name).expect("it was chosen");
            return change(&branch()?, rng, contents).map(Some);
        }
    }
    Ok(None)
}

/// A history of what all branches hold.
struct Growth {
    on: Processes<Forest>,
    /// Snapshots of branches, with the commit and the branch that each sees.
    snapshots: Vec<(Snapshot<'static>, usize, String)>,
}

impl Growth {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = MODES[rng.random_range(0..4)];
        let rarity = Rarity { in_sync: 60, otherwise: 8 };
        Self { on: Processes::new(rng, mode, &rarity, None, new_forest()), snapshots: Vec::new() }
    }

    fn commit(&mut self) -> Result<()> {
        let process = self.on.any();
        let mut next = self.on.newest();
        let ticket = grow(&self.on.open[process], &mut self.on.rng, &mut next)?;
        let is_change = ticket.is_some();
        self.on.states.committed.push(next);
        if let Some(ticket) = ticket
            && !(self.on.mode == Durability::Sync && self.on.rng.random_bool(0.3))
        {
            ticket.wait()?;
            if self.on.is_sync() {
                self.on.acknowledge_all();
            }
        } else if !is_change && self.on.is_sync() {
            // A change of the forest that was waited for, or none, which proves nothing.
            let process = self.on.any();
            self.on.open[process].ticket(TxnId(u64::MAX)).wait()?;
            self.on.acknowledge_all();
        }
        Ok(())
    }

    fn look(&mut self) {
        let process = self.on.any();
        let found = forest_of(&self.on.open[process]);
        let seen = self.on.see(&found);
        let names: Vec<&String> = found.keys().collect();
        let name = names[self.on.rng.random_range(0..names.len())].clone();
        let branch = self.on.open[process].open_branch(&name).expect("it was seen");
        let snapshot = branch.read_owned().expect("a snapshot");
        if self.snapshots.len() < 4 && contents(&snapshot) == found[&name] {
            self.snapshots.push((snapshot, seen, name));
        }
    }

    fn drop_snapshots(&mut self) {
        for (snapshot, seen, name) in self.snapshots.drain(..) {
            assert!(contents(&snapshot) == self.on.states.committed[seen][&name], "a snapshot has changed");
        }
    }

    fn die(&mut self) {
        self.drop_snapshots();
        let process = self.on.any();
        let process = self.on.open.swap_remove(process);
        let mut next = self.on.newest();
        if self.on.rng.random_bool(0.7) {
            let operations = self.on.rng.random_range(1..12);
            let (disk, rng) = (self.on.disk.clone(), &mut self.on.rng);
            let done = disk.kill_during(operations, || match rng.random_range(0..6) {
                0 => process.sync(),
                5 => process.compact(|_| ControlFlow::Continue(())).map(|_| ()),
                1 => process.reap_branches().map(|_| ()),
                _ => grow(&process, rng, &mut next).and_then(|ticket| ticket.map_or(Ok(()), |t| t.wait().map(|_| ()))),
            });
            done.transpose().expect("a commit or a steady point");
        }
        process.die();
        self.on.disk.state.lock().counts.deaths += 1;
        self.on.open();
        let process = self.on.any();
        // The next writer goes on from the newest state, and makes it visible.
        drop(self.on.open[process].write().expect("a transaction"));
        self.on.open[process].ticket(TxnId(u64::MAX)).wait().expect("it becomes durable");
        let found = forest_of(&self.on.open[process]);
        self.on.take_over(&found, next);
        if self.on.rng.random() {
            self.look();
        }
    }

    fn reopen(&mut self) {
        self.drop_snapshots();
        self.on.reopen();
    }

    fn fill(&mut self) {
        self.on.disk.limit_room(Some(self.on.rng.random_range(0..100_000)));
        for _ in 0..10 {
            match self.commit() {
                Ok(()) | Err(Error::DiskFull { .. }) => {}
                Err(e) => panic!("{e}"),
            }
            let process = self.on.any();
            let found = forest_of(&self.on.open[process]);
            self.on.states.find(&found);
        }
        self.on.disk.limit_room(None);
    }

    fn check(&mut self) {
        let process = self.on.any();
        let report = self.on.open[process].check().expect("a check");
        assert!(report.is_clean(), "a report: {report:#?}");
        self.on.acknowledge_all();
    }

    fn compact(&mut self) {
        let process = self.on.any();
        let disk = self.on.disk.clone();
        let done = self.on.open[process].compact(|_| {
            disk.crash();
            ControlFlow::Continue(())
        });
        MOVED.fetch_add(done.expect("a compaction").moved, Ordering::Relaxed);
        self.on.acknowledge_all();
    }

    fn step(&mut self) {
        match self.on.rng.random_range(0..100) {
            0..8 => self.on.sync(),
            8..14 => self.look(),
            14..17 => self.drop_snapshots(),
            17..21 => self.die(),
            21..24 => self.reopen(),
            24..26 => self.fill(),
            26..28 => self.check(),
            28..32 => self.compact(),
            _ => self.commit().expect("a commit"),
        }
    }

    fn end(mut self) -> Counts {
        self.drop_snapshots();
        self.on.end(0, inspect)
    }
}

fn run(seed: u64, steps: std::ops::Range<u32>) -> Counts {
    println!("COLIBRI_SEED={seed}");
    let mut growth = Growth::new(seed);
    for _ in 0..growth.on.rng.random_range(steps) {
        growth.step();
    }
    growth.end()
}

fn inspect(wreck: &Wreck, states: &States<Forest>, mode: Durability, rng: &mut StdRng) -> Counts {
    let mut disk = SimDisk::of_wreck(wreck, rng.random());
    let options = options(mode, POLICIES[rng.random_range(0..4)]);
    if rng.random_ratio(1, 3) {
        disk = open_in_vain(disk, wreck, &options, rng);
    }
    let db = disk.open(&options).expect("a database opens after a crash");
    let mut found = forest_of(&db);
    let index = states.find(&found);
    assert!(index as u64 >= wreck.acknowledged, "commit {} was acknowledged, {index} is there", wreck.acknowledged);
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "a report: {report:#?}");
    go_back(&db, states, rng);
    for _ in 0..3 {
        if let Some(ticket) = grow(&db, rng, &mut found).expect("a commit after a crash") {
            ticket.wait().expect("it becomes durable");
        }
    }
    assert!(forest_of(&db) == found);
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "a report: {report:#?}");
    drop(db);
    disk.counts()
}

/// What is kept of the past is what was, or is known to be missing.
fn go_back(db: &Database, states: &States<Forest>, rng: &mut StdRng) {
    let past = db.past().expect("what is kept");
    let Some((since, _)) = past.since else { return };
    let newest = db.newest_txn();
    for _ in 0..4 {
        let txn = TxnId(rng.random_range(since.0..=newest.0));
        match db.branch_as_of("then", AsOf::Transaction(txn)) {
            Ok(then) => {
                let then = contents(&then.read().expect("a snapshot"));
                assert!(states.committed.iter().any(|state| state["main"] == then), "transaction {txn} never was");
                GONE_BACK.fetch_add(1, Ordering::Relaxed);
                db.drop_branch("then").expect("it is dropped");
            }
            Err(Error::PastMissing { .. } | Error::NotKept { .. }) => {}
            Err(e) => panic!("transaction {txn}: {e:?}"),
        }
    }
    db.reap_branches().expect("what was dropped is reaped");
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "a report: {report:#?}");
}

#[test]
fn a_crash_with_branches_loses_nothing_acknowledged() {
    if let Some(seed) = std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, 1..100);
        return;
    }
    let mut counts = Counts::default();
    (0..60).for_each(|seed| counts += run(seed, 1..100));
    println!("{counts:?}");
    assert!(counts.wrecks > 300 && counts.deaths > 50, "the histories do not show what they are for: {counts:?}");
    assert!(GONE_BACK.load(Ordering::Relaxed) > 20, "no wreck had a past");
}

#[test]
#[ignore = "a long campaign: cargo test --release -p colibri-storage crash -- --ignored"]
fn many_crashes_with_branches_lose_nothing_acknowledged() {
    let start: u64 = rand::rng().random();
    let (mut seed, mut counts) = (start, Counts::default());
    while counts.wrecks < 50_000 {
        counts += run(seed, 1..200);
        seed = seed.wrapping_add(1);
    }
    println!("{counts:?} in {} histories", seed.wrapping_sub(start));
}
