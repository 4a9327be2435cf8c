//! Entries that are numbered when the transaction commits: dense, in the order of commits, without
//! conflicts between those who append; cut off at the front; exactly once with what is made of
//! them, also if the process is killed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use colibri_storage::{Database, Options};
use colibri_txn::{
    ColumnSet, Direction, Error, IfLocked, Interruption, KeyRange, LocalStore, LockMode, Space, SpaceId, Store,
    Transaction, series,
};
use common::{Short, begin, key, open, read_committed, read_only, rows, write};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The space of the series.
fn messages() -> Space {
    Space::of_keys(SpaceId(7))
}

fn with_messages() -> common::TestStore {
    let store = open();
    let mut txn = begin(&store, write());
    txn.create_space(messages().id).unwrap();
    txn.commit().unwrap().wait().unwrap();
    store
}

fn list(txn: &mut impl Transaction, range: &KeyRange) -> Vec<(i64, Vec<u8>)> {
    let mut found = Vec::new();
    txn.scan(&messages(), range, Direction::Forward, ColumnSet::ALL, usize::MAX, &mut |key, value| {
        found.push((series::split(key).unwrap().1, value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

fn all_of(prefix: &[u8]) -> KeyRange {
    series::range(prefix, 1..=series::NUMBER_MAX)
}

fn texts(txn: &mut impl Transaction, prefix: &[u8]) -> Vec<(i64, String)> {
    list(txn, &all_of(prefix)).into_iter().map(|(number, value)| (number, String::from_utf8(value).unwrap())).collect()
}

fn append(store: &LocalStore, prefix: &[u8], values: &[&str]) {
    let mut txn = begin(store, write());
    for value in values {
        txn.append(&messages(), prefix, value.as_bytes()).unwrap();
    }
    txn.commit().unwrap().wait().unwrap();
}

fn named(names: &[(i64, &str)]) -> Vec<(i64, String)> {
    names.iter().map(|&(number, name)| (number, name.to_owned())).collect()
}

#[test]
fn two_that_append_do_not_conflict_and_are_numbered_in_the_order_of_commits() {
    let store = with_messages();
    let (mut one, mut other) = (begin(&store, write()), begin(&store, write()));
    one.append(&messages(), b"p", b"one 1").unwrap();
    other.append(&messages(), b"p", b"other 1").unwrap();
    other.append(&messages(), b"q", b"other 2").unwrap();
    one.append(&messages(), b"p", b"one 2").unwrap();
    other.commit().unwrap().wait().unwrap();
    one.commit().unwrap().wait().unwrap();
    let mut txn = begin(&store, read_only());
    assert_eq!(texts(&mut txn, b"p"), named(&[(1, "other 1"), (2, "one 1"), (3, "one 2")]));
    assert_eq!(texts(&mut txn, b"q"), named(&[(1, "other 2")]));
}

#[test]
fn a_transaction_does_not_see_what_it_appends() {
    let store = with_messages();
    append(&store, b"p", &["a"]);
    let mut txn = begin(&store, write());
    txn.append(&messages(), b"p", b"b").unwrap();
    assert_eq!(texts(&mut txn, b"p"), named(&[(1, "a")]));
    assert_eq!(txn.count(&messages(), &all_of(b"p")).unwrap(), 1);
    assert_eq!(txn.count(&messages(), &KeyRange::all()).unwrap(), 1);
}

#[test]
fn what_is_rolled_back_leaves_no_gap() {
    let store = with_messages();
    append(&store, b"p", &["a"]);
    let mut txn = begin(&store, write());
    txn.append(&messages(), b"p", b"b").unwrap();
    let savepoint = txn.savepoint();
    txn.append(&messages(), b"p", b"never").unwrap();
    txn.rollback_to(savepoint).unwrap();
    txn.append(&messages(), b"p", b"c").unwrap();
    txn.commit().unwrap().wait().unwrap();
    drop({
        let mut txn = begin(&store, write());
        txn.append(&messages(), b"p", b"never").unwrap();
        txn
    });
    append(&store, b"p", &["d"]);
    let mut txn = begin(&store, read_only());
    assert_eq!(texts(&mut txn, b"p"), named(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]));
}

#[test]
fn entries_go_behind_those_with_numbers_of_their_own_also_of_the_same_transaction() {
    let store = with_messages();
    let mut txn = begin(&store, write());
    txn.put(&messages(), &series::key(b"p", 41), b"41").unwrap();
    txn.append(&messages(), b"p", b"42").unwrap();
    txn.put(&messages(), &series::key(b"q", 7), b"another series").unwrap();
    txn.commit().unwrap().wait().unwrap();
    append(&store, b"p", &["43"]);
    append(&store, b"o", &["first"]);
    // And into a space that the transaction makes.
    let made = Space::of_keys(SpaceId(8));
    let mut txn = begin(&store, write());
    txn.create_space(made.id).unwrap();
    txn.load(&made, vec![(series::key(b"p", 5), b"loaded".to_vec())]).unwrap();
    txn.append(&made, b"p", b"6").unwrap();
    txn.commit().unwrap().wait().unwrap();
    let mut txn = begin(&store, read_only());
    assert_eq!(texts(&mut txn, b"p"), named(&[(41, "41"), (42, "42"), (43, "43")]));
    assert_eq!(texts(&mut txn, b"o"), named(&[(1, "first")]));
    assert_eq!(txn.get(&made, &series::key(b"p", 6), ColumnSet::ALL).unwrap(), Some(&b"6"[..]));
}

#[test]
fn a_full_series_refuses_the_commit_and_nothing_else() {
    let store = with_messages();
    let mut txn = begin(&store, write());
    txn.put(&messages(), &series::key(b"p", series::NUMBER_MAX), b"last").unwrap();
    txn.commit().unwrap().wait().unwrap();
    let mut txn = begin(&store, write());
    txn.append(&messages(), b"p", b"one more").unwrap();
    txn.append(&messages(), b"q", b"with it").unwrap();
    assert!(matches!(txn.commit(), Err(Error::SeriesFull)));
    append(&store, b"q", &["fits"]);
    let mut txn = begin(&store, read_only());
    assert_eq!(texts(&mut txn, b"q"), named(&[(1, "fits")]));
}

#[test]
fn who_has_read_to_the_end_conflicts_and_who_has_read_what_is_there_does_not() {
    let store = with_messages();
    append(&store, b"p", &["a", "b"]);
    for (to_the_end, conflicts) in [(true, true), (false, false)] {
        let mut reader = begin(&store, write());
        let last = reader.edge(&messages(), &all_of(b"p"), Direction::Backward).unwrap().unwrap();
        let last = series::split(&last.0).unwrap().1;
        let high = if to_the_end { series::NUMBER_MAX } else { last };
        assert_eq!(list(&mut reader, &series::range(b"p", 1..=high)).len(), last as usize);
        reader.put(&rows(), &key(1), &common::Row::default().encode()).unwrap();
        append(&store, b"p", &["more"]);
        assert_eq!(matches!(reader.commit(), Err(Error::Conflict { .. })), conflicts);
    }
    // One entry that was looked for and not there yet.
    let mut reader = begin(&store, write());
    assert_eq!(reader.get(&messages(), &series::key(b"p", 5), ColumnSet::ALL).unwrap(), None);
    reader.put(&rows(), &key(1), &common::Row::default().encode()).unwrap();
    append(&store, b"p", &["number 5"]);
    assert!(matches!(reader.commit(), Err(Error::Conflict { .. })));
}

#[test]
fn cutting_keeps_the_last_entry_and_numbers_go_on() {
    let store = with_messages();
    for round in 0..40 {
        let values: Vec<String> = (0..100).map(|n| format!("{round} {n} {}", "x".repeat(100))).collect();
        append(&store, b"p", &values.iter().map(String::as_str).collect::<Vec<_>>());
    }
    append(&store, b"q", &["untouched"]);
    let cut = |below: i64, more: bool| {
        let mut txn = begin(&store, write());
        txn.cut(&messages(), b"p", below).unwrap();
        if more {
            txn.append(&messages(), b"p", b"behind").unwrap();
        }
        assert!(!list(&mut txn, &all_of(b"p")).is_empty(), "it still sees them");
        txn.commit().unwrap().wait().unwrap();
        let mut txn = begin(&store, read_only());
        let left = list(&mut txn, &all_of(b"p"));
        (left[0].0, left[left.len() - 1].0, left.len())
    };
    assert_eq!(cut(1001, false), (1001, 4000, 3000));
    assert_eq!(cut(5, false), (1001, 4000, 3000), "they are gone already");
    assert_eq!(cut(i64::MAX, false), (4000, 4000, 1));
    assert_eq!(cut(i64::MAX, true), (4000, 4001, 2), "the last one is that before the transaction's own");
    assert_eq!(texts(&mut begin(&store, read_only()), b"q"), named(&[(1, "untouched")]));
    store.database().check().unwrap();
}

#[test]
fn a_transaction_that_has_appended_cannot_be_prepared() {
    let store = with_messages();
    store.set_prepared_max(4);
    let mut txn: Box<dyn Transaction> = Box::new(begin(&store, write()));
    txn.append(&messages(), b"p", b"a").unwrap();
    assert!(matches!(txn.begin_to_prepare(), Err(Error::SeriesUsed)));
}

#[test]
fn a_prepared_reader_of_a_series_keeps_others_from_appending() {
    let store = with_messages();
    store.set_prepared_max(4);
    append(&store, b"p", &["a"]);
    let mut txn: Box<dyn Transaction> = Box::new(begin(&store, write()));
    let mut count = 0;
    // Up to a number that comes before every place-holder.
    txn.scan(&messages(), &series::range(b"p", 1..=10), Direction::Forward, ColumnSet::ALL, 100, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    txn.put(&rows(), &key(1), &common::Row::default().encode()).unwrap();
    txn.begin_to_prepare().unwrap();
    txn.prepare("reader", Vec::new()).unwrap().wait().unwrap().wait().unwrap();
    let mut txn = begin(&store, write());
    txn.append(&messages(), b"p", b"b").unwrap();
    assert!(matches!(txn.commit(), Err(Error::HeldByPrepared { .. })));
    append(&store, b"q", &["elsewhere"]);
    store.finish_prepared("reader", true).unwrap().wait().unwrap().wait().unwrap();
    append(&store, b"p", &["b"]);
    assert_eq!(count, 1);
}

/// Threads that append, cut and roll back, at both levels; every number is there once, and the
/// entries of each thread are in the order in which it has committed them.
#[test]
fn numbers_are_dense_and_the_entries_of_each_writer_in_order_under_random_threads() {
    const WRITERS: u64 = 4;
    let store = with_messages();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(writer);
                let mut next = HashMap::new();
                for _ in 0..300 {
                    let how = if rng.random_bool(0.5) { write() } else { read_committed() };
                    let mut txn = begin(store, how);
                    let mut after = next.clone();
                    for _ in 0..rng.random_range(1..6) {
                        let prefix = [b"p", b"q"][rng.random_range(0..2)];
                        let n: &mut u64 = after.entry(prefix).or_insert(0);
                        let savepoint = txn.savepoint();
                        txn.append(&messages(), prefix, format!("{writer} {n}").as_bytes()).unwrap();
                        if rng.random_bool(0.2) {
                            txn.rollback_to(savepoint).unwrap();
                        } else {
                            *n += 1;
                        }
                    }
                    if rng.random_bool(0.8) {
                        _ = txn.commit().unwrap();
                        next = after;
                    }
                }
            });
        }
    });
    let mut txn = begin(&store, read_only());
    for prefix in [b"p", b"q"] {
        let found = texts(&mut txn, prefix);
        assert!(found.len() > 300);
        let mut next: HashMap<String, u64> = HashMap::new();
        for (at, (number, text)) in (1..).zip(&found) {
            assert_eq!(*number, at);
            let (writer, n) = text.split_once(' ').unwrap();
            let expected = next.entry(writer.to_owned()).or_insert(0);
            assert_eq!(n.parse::<u64>().unwrap(), *expected, "writer {writer} at {number}");
            *expected += 1;
        }
    }
    store.database().check().unwrap();
}

// ---- kills ----

const DIR: &str = "COLIBRI_TXN_SERIES_DIR";
const WRITERS: u32 = 2;

fn open_at(dir: &Path) -> LocalStore {
    LocalStore::new(Database::open(dir, &Options::new().log_bytes(256 << 10)).unwrap())
}

/// Two threads append; a third one adds up what they have appended, and notes in the same
/// transaction how far it is. Now and then it cuts off what is done.
#[test]
#[ignore = "a process that another test kills"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = open_at(Path::new(&dir));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let mut n = begin(store, read_only()).a(10 + writer as u16);
                loop {
                    let mut txn = begin(store, write());
                    for _ in 0..3 {
                        n += 1;
                        txn.append(&messages(), b"p", format!("{writer} {n}").as_bytes()).unwrap();
                    }
                    txn.set(10 + writer as u16, n);
                    txn.commit().unwrap().wait().unwrap();
                    writeln!(std::io::stdout().lock(), "done {writer} {n}").unwrap();
                }
            });
        }
        let store = &store;
        scope.spawn(move || {
            loop {
                consume(store);
            }
        });
    });
}

fn consume(store: &LocalStore) {
    let mut txn = begin(store, write());
    let statement = txn.begin_statement().unwrap();
    loop {
        match txn.lock(&rows(), &key(1), LockMode::Exclusive, IfLocked::Wait) {
            Ok(()) => break,
            Err(Error::Interrupted(Interruption::Stale)) => txn.restart(statement).unwrap(),
            Err(e) => panic!("{e}"),
        }
    }
    let row = txn.row(1, common::A.union(common::B)).unwrap().unwrap();
    let last = txn.edge(&messages(), &all_of(b"p"), Direction::Backward).unwrap();
    let last = last.map_or(0, |(key, _)| series::split(&key).unwrap().1);
    if last == row.a {
        return;
    }
    let found = texts_between(&mut txn, row.a + 1, last);
    assert_eq!(found.len() as i64, last - row.a, "what was not consumed is all there");
    let row = common::Row { a: last, b: row.b + sum(&found) };
    txn.put(&rows(), &key(1), &row.encode()).unwrap();
    txn.cut(&messages(), b"p", last - 20).unwrap();
    txn.commit().unwrap().wait().unwrap();
}

fn texts_between(txn: &mut impl Transaction, from: i64, to: i64) -> Vec<String> {
    let found = list(txn, &series::range(b"p", from..=to));
    found.into_iter().map(|(_, value)| String::from_utf8(value).unwrap()).collect()
}

fn sum(texts: &[String]) -> i64 {
    texts.iter().map(|text| text.split_once(' ').unwrap().1.parse::<i64>().unwrap()).sum()
}

fn kill_and_look(seed: u64, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path());
    let mut txn = begin(&store, write());
    txn.create_space(rows().id).unwrap();
    txn.create_space(messages().id).unwrap();
    for row in [1, 10, 11] {
        txn.set(row, 0);
    }
    txn.commit().unwrap().wait().unwrap();
    drop(store);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut acknowledged_ever = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut acknowledged = [0_i64; WRITERS as usize];
            for line in out.lines().map_while(Result::ok) {
                let words: Vec<_> = line.split(' ').collect();
                if let ["done", writer, n] = words[..] {
                    acknowledged[writer.parse::<usize>().unwrap()] = n.parse().unwrap();
                }
            }
            acknowledged
        });
        std::thread::sleep(Duration::from_millis(rng.random_range(30..200)));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap();
        acknowledged_ever += acknowledged.iter().sum::<i64>();
        let store = open_at(dir.path());
        consume(&store);
        let mut txn = begin(&store, read_only());
        let mut total = 0;
        for writer in 0..WRITERS as u16 {
            let n = txn.a(10 + writer);
            assert!(n >= acknowledged[usize::from(writer)], "seed {seed}, round {round}: a lost message");
            total += n * (n + 1) / 2;
        }
        let counted = txn.row(1, common::A.union(common::B)).unwrap().unwrap();
        assert_eq!(counted.b, total, "seed {seed}, round {round}: a message consumed twice, or never");
        store.database().check().unwrap();
    }
    assert!(acknowledged_ever > 0, "every child was killed before it had done anything");
}

#[test]
fn no_message_is_lost_or_consumed_twice_when_the_process_is_killed() {
    kill_and_look(1, 5);
}

#[test]
#[ignore = "many kills: minutes"]
fn no_message_is_lost_or_consumed_twice_by_many_kills() {
    for seed in 0..20 {
        kill_and_look(seed, 30);
    }
}
