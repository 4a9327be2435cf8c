use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::{Options, TableKind, WriteTxn};

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;
/// What all branches hold, by name.
type Model = BTreeMap<String, Contents>;

const HOUR: Duration = Duration::from_secs(3600);

/// A clock that the test moves.
#[derive(Clone)]
struct TestClock(Arc<AtomicI64>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_000_000)))
    }

    fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn pass(&self, time: Duration) -> i64 {
        let micros = time.as_micros() as i64;
        self.0.fetch_add(micros, Ordering::SeqCst) + micros
    }

    fn options(&self, retention: impl Into<Option<Retention>>) -> Options {
        let clock = self.clone();
        Options::new().log_bytes(64 << 10).retention(retention).clock(move || clock.now())
    }
}

fn contents(db: &Database) -> Contents {
    let snapshot = db.read().unwrap();
    let tables = snapshot.tables().unwrap();
    let rows = |table| snapshot.view(&table).unwrap().range(..).unwrap().map(Result::unwrap);
    tables
        .into_iter()
        .map(|table| (table.name().to_owned(), rows(table).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()))
        .collect()
}

fn expect_clean(db: &Database) {
    let report = db.check().unwrap();
    assert!(report.is_clean() && report.free_checked, "{:#?}", report.problems);
}

/// Changes some rows and tables, here and in the model.
fn change(txn: &mut WriteTxn, rng: &mut StdRng, contents: &mut Contents) {
    let name = format!("table{}", rng.random_range(0..3));
    if rng.random_bool(0.04) && contents.remove(&name).is_some() {
        let table = txn.table(&name).unwrap();
        txn.drop_table(&table).unwrap();
        return;
    }
    let table = txn.create_table(&name, TableKind::Plain).unwrap();
    let rows = contents.entry(name).or_default();
    // Now and then more than a record may have: such a transaction is a steady point.
    let (count, bytes) = if rng.random_bool(0.02) { (40, 30_000) } else { (rng.random_range(1..12), 200) };
    for _ in 0..count {
        let key = rng.random_range(0..600_u32).to_be_bytes();
        if rng.random_bool(0.2) {
            assert_eq!(txn.delete(&table, &key).unwrap(), rows.remove(&key[..]).is_some());
        } else {
            let value = vec![rng.random(); rng.random_range(1..=bytes)];
            txn.put(&table, &key, &value).unwrap();
            rows.insert(key.to_vec(), value);
        }
    }
    if rng.random_bool(0.05) {
        let (low, high) = (100_u32.to_be_bytes(), rng.random_range(100..200_u32).to_be_bytes());
        txn.delete_range(&table, &low[..]..&high[..]).unwrap();
        rows.retain(|key, _| key[..] < low[..] || key[..] >= high[..]);
    }
}

/// A database and what it held at each transaction.
struct History {
    dir: tempfile::TempDir,
    clock: TestClock,
    rng: StdRng,
    db: Option<Database>,
    now: Model,
    /// What all branches held at a transaction, and when it was committed.
    then: BTreeMap<u64, (i64, Model)>,
    /// The transactions that made or reset each branch of a name, which nothing before is told of.
    since: BTreeMap<String, u64>,
}

impl History {
    fn new(seed: u64) -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
        let db = Database::open(dir.path(), &clock.options(Retention::new(HOUR))).unwrap();
        let now = Model::from([("main".to_owned(), Contents::new())]);
        let then = BTreeMap::from([(db.newest_txn().0, (clock.now(), now.clone()))]);
        let since = BTreeMap::from([("main".to_owned(), 0)]);
        Self { dir, clock, rng: StdRng::seed_from_u64(seed), db: Some(db), now, then, since }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    fn any(&mut self) -> String {
        let index = self.rng.random_range(0..self.now.len());
        self.now.keys().nth(index).unwrap().clone()
    }

    fn step(&mut self) {
        self.clock.pass(Duration::from_millis(self.rng.random_range(1..900)));
        let name = self.any();
        let branch = self.db().open_branch(&name).unwrap();
        match self.rng.random_range(0..100) {
            0..4 => self.db().sync().unwrap(),
            4..7 => {
                let new = format!("branch{}", self.rng.random_range(0..4));
                if !self.now.contains_key(&new) {
                    drop(branch.branch(&new).unwrap());
                    self.now.insert(new.clone(), self.now[&name].clone());
                    self.since.insert(new, self.db().newest_txn().0);
                }
            }
            7..9 if name != "main" => {
                self.db().drop_branch(&name).unwrap();
                self.now.remove(&name);
                self.since.remove(&name);
            }
            9 => {
                let other = self.any();
                branch.reset_branch(&other).unwrap();
                self.now.insert(other, self.now[&name].clone());
            }
            10 => _ = self.db().reap_branches().unwrap(),
            11 => _ = self.db().compact(|_| std::ops::ControlFlow::Continue(())).unwrap(),
            12 => {
                drop(branch);
                let db = self.db.take().unwrap();
                match self.rng.random() {
                    true => db.close().unwrap(),
                    false => db.die(),
                }
                self.db = Some(Database::open(self.dir.path(), &self.clock.options(Retention::new(HOUR))).unwrap());
                return;
            }
            _ => {
                let mut txn = branch.write().unwrap();
                change(&mut txn, &mut self.rng, self.now.get_mut(&name).unwrap());
                txn.commit().unwrap();
            }
        }
        drop(branch);
        let newest = self.db().newest_txn().0;
        // The time of a step that commits nothing is not the transaction's.
        self.then.entry(newest).or_insert((self.clock.now(), self.now.clone()));
    }

    /// Compares a state of the past of each branch.
    fn compare(&self, txn: u64) {
        let (time, model) = &self.then[&txn];
        let next = self.then.range(txn + 1..).next().map_or(i64::MAX, |(_, (time, _))| *time);
        for (name, &since) in &self.since {
            let branch = self.db().open_branch(name).unwrap();
            let mut as_of = vec![AsOf::Transaction(TxnId(txn))];
            // One time may be that of several transactions.
            if next > *time {
                as_of.push(AsOf::Time(if txn.is_multiple_of(2) { *time } else { (next - 1).min(self.clock.now()) }));
            }
            for as_of in as_of {
                let made = branch.branch_as_of("then", as_of);
                if txn < since {
                    assert!(matches!(made, Err(Error::NotKept { .. })), "{name} at {as_of:?}: {:?}", made.err());
                    continue;
                }
                let made = made.unwrap_or_else(|e| panic!("{name} at {as_of:?}, {txn}: {e:?}"));
                assert!(contents(&made) == model[name], "{name} at {as_of:?}, which is {txn}");
                self.db().drop_branch("then").unwrap();
            }
        }
    }
}

#[test]
fn each_transaction_of_a_random_history_can_be_gone_back_to() {
    for seed in 0..3 {
        let mut history = History::new(seed);
        for step in 0..110 {
            history.step();
            if step % 20 == 0 {
                expect_clean(history.db());
            }
        }
        let all: BTreeSet<u64> = history.then.keys().copied().collect();
        let from = *all.iter().next_back().unwrap();
        for txn in all {
            history.compare(txn);
        }
        history.db().reap_branches().unwrap();
        expect_clean(history.db());
        let end = contents(history.db());
        assert!(end == history.now["main"], "seed {seed}: the newest state has changed");
        assert!(history.db().newest_txn().0 > from);
        // All of it is free again when it is given up.
        history.db().set_retention(None).unwrap();
        history.db().forget_past().unwrap();
        history.db().reap_branches().unwrap();
        expect_clean(history.db());
        assert_eq!(history.db().past().unwrap(), PastInfo::default());
    }
}

fn put(db: &Database, key: u32, value: &[u8]) -> TxnId {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    txn.put(&table, &key.to_be_bytes(), value).unwrap();
    txn.commit().unwrap()
}

fn get(db: &Database, key: u32) -> Option<Vec<u8>> {
    let snapshot = db.read().unwrap();
    let table = snapshot.table("table").ok()?;
    snapshot.get(&table, &key.to_be_bytes()).unwrap().map(<[u8]>::to_vec)
}

#[test]
fn states_go_when_they_are_too_old_and_something_has_changed() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let db = Database::open(dir.path(), &clock.options(Retention::new(HOUR))).unwrap();
    (0..4_000).for_each(|key| _ = put(&db, key, &[1; 200]));
    let mut times = Vec::new();
    for round in 0..12_u8 {
        clock.pass(HOUR / 6);
        (0..4_000).step_by(40).for_each(|key| _ = put(&db, key, &[round; 200]));
        times.push(clock.now());
        db.sync().unwrap();
    }
    let past = db.past().unwrap();
    assert!(past.since.unwrap().1 <= clock.now() - HOUR.as_micros() as i64, "the hour is not kept: {past:?}");
    assert!((7..=8).contains(&past.points), "{past:?}");
    assert!(past.state_bytes > 100 * 4096 && past.history_bytes > 0, "{past:?}");
    for (round, &time) in times.iter().enumerate().skip(6) {
        let then = db.branch_as_of("then", AsOf::Time(time)).unwrap();
        assert_eq!(get(&then, 40), Some(vec![round as u8; 200]));
        db.drop_branch("then").unwrap();
    }
    let refusal = db.branch_as_of("then", AsOf::Time(times[2])).unwrap_err();
    assert!(matches!(refusal, Error::NotKept { since } if since == db.past().unwrap().since), "{refusal:?}");
    // Nothing changes, and nothing goes.
    clock.pass(3 * HOUR);
    db.sync().unwrap();
    assert!(db.past().unwrap().points >= 7);
    let before = db.check().unwrap().pages_free;
    put(&db, 1, b"new");
    db.sync().unwrap();
    db.reap_branches().unwrap();
    assert!(db.past().unwrap().points <= 3, "{:?}", db.past());
    expect_clean(&db);
    assert!(db.check().unwrap().pages_free > before + 500, "their pages are free");
}

#[test]
fn states_go_before_their_time_when_they_take_too_much() {
    const BYTES_MAX: u64 = 2 << 20;
    let (dir, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let retention = Retention::new(HOUR).bytes_max(BYTES_MAX);
    let db = Database::open(dir.path(), &clock.options(retention)).unwrap();
    for round in 0..60_u8 {
        clock.pass(Duration::from_secs(1));
        (0..4_000).step_by(40).for_each(|key| _ = put(&db, key, &[round; 400]));
        db.sync().unwrap();
    }
    let past = db.past().unwrap();
    assert!(past.cut_short > 0 && past.points > 2, "{past:?}");
    assert!(past.state_bytes + past.history_bytes <= BYTES_MAX, "{past:?}");
    db.reap_branches().unwrap();
    expect_clean(&db);
    let pages = db.stat().unwrap();
    assert!((pages.pages - pages.free_pages) * 4096 < 3 * BYTES_MAX, "the pages of the past are given back: {pages:?}");
}

#[test]
fn what_is_not_kept_or_still_to_come_is_refused() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let db = Database::open(dir.path(), &clock.options(None)).unwrap();
    let first = put(&db, 1, b"one");
    let refusal = db.branch_as_of("then", AsOf::Transaction(first)).unwrap_err();
    assert!(matches!(refusal, Error::NotKept { since: None }), "{refusal:?}");
    assert_eq!(refusal.to_string(), "the state is not there: no states of the past are kept");

    db.set_retention(Some(Retention::new(HOUR))).unwrap();
    clock.pass(Duration::from_secs(1));
    let second = put(&db, 1, b"two");
    let third = put(&db, 1, b"three");
    let refusal = db.branch_as_of("then", AsOf::Time(0)).unwrap_err();
    assert!(matches!(refusal, Error::NotKept { since: Some((since, 1_000_000)) } if since == first), "{refusal:?}");
    assert_eq!(refusal.to_string(), format!("the state is not there: states are kept from transaction {first} on"));
    for as_of in [AsOf::Time(clock.now() + 1), AsOf::Transaction(TxnId(third.0 + 100))] {
        let refusal = db.branch_as_of("then", as_of).unwrap_err();
        assert!(matches!(refusal, Error::StillToCome { .. }), "{refusal:?}");
    }
    for (txn, value) in [(first, &b"one"[..]), (second, b"two"), (third, b"three")] {
        let then = db.branch_as_of("then", AsOf::Transaction(txn)).unwrap();
        assert_eq!(get(&then, 1).as_deref(), Some(value));
        db.drop_branch("then").unwrap();
    }
    assert!(matches!(db.branch_as_of("main", AsOf::Transaction(second)), Err(Error::BranchExists { .. })));
    assert!(matches!(db.reset_branch_as_of("none", AsOf::Transaction(second)), Err(Error::NoSuchBranch { .. })));
    // The branch that goes back may be the one itself, and forward again.
    for (txn, value) in [(first, &b"one"[..]), (third, b"three"), (second, b"two")] {
        db.reset_branch_as_of("main", AsOf::Transaction(txn)).unwrap();
        assert_eq!(get(&db, 1).as_deref(), Some(value));
    }
    expect_clean(&db);
    let lazy = Options::new().durability(Durability::LAZY).retention(Retention::new(HOUR));
    let refusal = Database::open(dir.path().join("lazy"), &lazy).unwrap_err();
    assert!(matches!(refusal, Error::InvalidOption { option: "retention", .. }), "{refusal:?}");
}

/// A process that keeps nothing writes beside one that does, and makes steady points.
#[test]
fn what_another_process_did_not_keep_is_missing_and_nothing_is_told_wrongly() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let keeper = Database::open(dir.path(), &clock.options(Retention::new(HOUR))).unwrap();
    let other = Database::open(dir.path(), &clock.options(None)).unwrap();
    let before = put(&keeper, 1, b"before");
    let seen = put(&other, 1, b"seen");
    keeper.sync().unwrap();
    let lost = put(&other, 1, b"lost");
    other.sync().unwrap();
    let last = put(&other, 1, b"last");
    other.sync().unwrap();
    let after = put(&keeper, 1, b"after");
    for (txn, value) in [(before, &b"before"[..]), (seen, b"seen"), (after, b"after")] {
        let then = keeper.branch_as_of("then", AsOf::Transaction(txn)).unwrap();
        assert_eq!(get(&then, 1).as_deref(), Some(value), "{txn}");
        keeper.drop_branch("then").unwrap();
    }
    for txn in [lost, last] {
        let made = keeper.branch_as_of("then", AsOf::Transaction(txn));
        match made {
            Err(Error::PastMissing { .. }) => {}
            Ok(then) => assert_eq!(get(&then, 1).as_deref(), Some(if txn == lost { &b"lost"[..] } else { b"last" })),
            Err(e) => panic!("{e:?}"),
        }
        _ = keeper.drop_branch("then");
    }
    let made = keeper.branch_as_of("then", AsOf::Transaction(lost));
    assert!(matches!(made, Err(Error::PastMissing { .. })), "{:?}", made.err());
    expect_clean(&keeper);
}

#[test]
fn copies_and_backups_have_the_past_and_compact_copies_do_not() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let db = Database::open(dir.path().join("db"), &clock.options(Retention::new(HOUR))).unwrap();
    let then = put(&db, 1, b"then");
    (0..300).for_each(|key| _ = put(&db, key, b"now"));
    db.sync().unwrap();
    let mut backup = Vec::new();
    db.backup(None, &mut backup).unwrap();
    crate::restore(&mut [Box::new(&backup.leak()[..])], dir.path().join("restored")).unwrap();
    db.copy_to(dir.path().join("copy"), false).unwrap();
    db.copy_to(dir.path().join("compact"), true).unwrap();
    for name in ["restored", "copy"] {
        let copy = Database::open(dir.path().join(name), &clock.options(None)).unwrap();
        assert_eq!(copy.past().unwrap().since, db.past().unwrap().since, "{name}");
        assert_eq!(get(&copy.branch_as_of("b", AsOf::Transaction(then)).unwrap(), 1).unwrap(), b"then", "{name}");
        expect_clean(&copy);
        assert_eq!(copy.stat().unwrap().format_version, 4);
    }
    let compact = Database::open(dir.path().join("compact"), &clock.options(None)).unwrap();
    assert_eq!(compact.past().unwrap(), PastInfo::default());
    expect_clean(&compact);
    compact.sync().unwrap();
    assert_eq!(compact.stat().unwrap().format_version, 3);
}

#[test]
fn without_a_retention_records_and_files_are_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new()).unwrap();
    put(&db, 1, b"value");
    let before = db.0.core.shared.root().log.offset;
    let mut txn = db.write().unwrap();
    let table = txn.table("table").unwrap();
    txn.put(&table, b"key", b"other").unwrap();
    txn.commit().unwrap();
    // A header of 24 bytes, the table's name with 3 more, a put with 7 more; a multiple of 8.
    let length = (24 + (3 + 5) + (7 + 3 + 5_u64)).next_multiple_of(8);
    assert_eq!(db.0.core.shared.root().log.offset - before, length);
    db.sync().unwrap();
    assert_eq!(db.0.core.shared.root().forest, PageId::NONE);
    assert_eq!(db.stat().unwrap().format_version, 3);
    drop(db.branch("branch").unwrap());
    let forest =
        |pager: &crate::pager::Pager, bounds, _: &Root, forest: &crate::forest::Forest| forest.has_past(pager, bounds);
    assert!(!db.forest(forest).unwrap());
}
