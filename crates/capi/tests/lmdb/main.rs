//! Our library beside LMDB: the same calls, the same answers; and programs that use it.
//!
//! `COLIBRI_TEST_SEEDS=FROM..TO` says which sequences are carried out: a million of them are the
//! long form of the test.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bindings;
mod library;
mod programs;
mod sequence;

use library::Library;
use sequence::{Answer, Call, FIRST, GET_CURRENT, Kind, LAST, NEXT, Sequence, Side};

/// Sequences with one pair of environments.
const SEQUENCES_PER_ENV: u64 = 200;

fn run(seeds: std::ops::Range<u64>) {
    let compiled = tempfile::tempdir().unwrap();
    let Some(theirs) = library::lmdb(compiled.path()) else {
        eprintln!("not run: liblmdb.so.0 is not installed or too old, and its sources are not there (cargo fetch)");
        return;
    };
    assert!(theirs.patch_version() >= library::PATCH_MIN, "LMDB 0.9.{} is too old", theirs.patch_version());
    let ours = Library::load(&library::ours()).unwrap();
    let mut seed = seeds.start;
    while seed < seeds.end {
        let dir = tempfile::tempdir().unwrap();
        let mut sides = [Side::open(&ours, &dir.path().join("ours")), Side::open(&theirs, &dir.path().join("theirs"))];
        for _ in 0..SEQUENCES_PER_ENV.min(seeds.end - seed) {
            compare(&mut sides, seed);
            seed += 1;
        }
        sides.into_iter().for_each(Side::close);
    }
}

fn compare(sides: &mut [Side<'_>; 2], seed: u64) {
    let sequence = Sequence::new(seed);
    let is_shown = std::env::var_os("COLIBRI_TEST_SHOW").is_some();
    let kinds = &sequence.kinds;
    sides.iter_mut().for_each(|side| side.begin(kinds));
    let mut done = Vec::new();
    for call in &sequence.calls {
        if is_shown {
            eprintln!("{call:?}");
        }
        let [ours, theirs] = sides.each_mut().map(|side| side.carry_out(call, kinds));
        if ours.is_some() || theirs.is_some() {
            done.push(call);
        }
        if ours != theirs {
            for call in &done {
                eprintln!("{}", brief(call));
            }
            panic!("seed {seed}, databases {kinds:x?}\nours   {}\ntheirs {}", brief(&ours), brief(&theirs));
        }
    }
    sides.iter_mut().for_each(Side::end);
}

fn brief(what: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    let mut listed = 0;
    for part in format!("{what:02x?}").split_inclusive(", ") {
        listed = if part.trim_end_matches(", ").len() == 2 { listed + 1 } else { 0 };
        if listed < 24 {
            text.push_str(part);
        } else if listed == 24 {
            text.push_str("… ");
        }
    }
    text
}

#[test]
fn random_sequences_of_calls_get_the_answers_of_lmdb() {
    let seeds = std::env::var("COLIBRI_TEST_SEEDS").unwrap_or_else(|_| "0..3000".to_owned());
    let (from, to) = seeds.split_once("..").expect("COLIBRI_TEST_SEEDS=FROM..TO");
    run(from.parse().unwrap()..to.parse().unwrap());
}

/// What our library answers to calls with one database, in a new environment.
fn answers_of<const N: usize>(flags: u32, calls: [Call; N]) -> [Option<Answer>; N] {
    let ours = Library::load(&library::ours()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut side = Side::open(&ours, &dir.path().join("env"));
    let kinds = [Kind { flags, own_order: false, has_pages: false }];
    side.begin(&kinds);
    let answers = calls.map(|call| side.carry_out(&call, &kinds));
    side.end();
    side.close();
    answers
}

fn go(cursor: usize, to: u32) -> Call {
    Call::Move { cursor, to, key: Vec::new(), value: Vec::new() }
}

fn put(key: &str, value: &str) -> Call {
    Call::Put { db: 0, key: key.into(), value: value.into(), flags: 0 }
}

/// Bug: `MDB_GET_CURRENT` left a cursor in front of the entry that followed a removed one.
///
/// Consequence: a program that removed an entry, looked at the current one and went on with
/// `MDB_NEXT` got that one twice. LMDB gives the one behind it.
///
/// Fix: what gives an entry puts the cursor on it.
#[test]
fn the_current_entry_after_a_removal_is_not_given_again_as_the_next() {
    let several = sequence::DUPSORT;
    // With one value a key, and with several: what follows is another key's, or the same key's.
    for (flags, entries) in [(0, ["a1", "b2", "c3"]), (several, ["a1", "b2", "c3"]), (several, ["a1", "a2", "a3"])] {
        let add = |entry: &str| put(&entry[..1], &entry[1..]);
        let answers = answers_of(
            flags,
            [
                Call::Begin,
                add(entries[0]),
                add(entries[1]),
                add(entries[2]),
                Call::CursorOpen { cursor: 0, db: 0 },
                go(0, FIRST),
                Call::CursorDel { cursor: 0, flags: 0 },
                go(0, GET_CURRENT),
                go(0, NEXT),
            ],
        );
        let [.., current, next] = answers.map(Option::unwrap);
        assert_eq!(current.value.as_deref(), Some(&entries[1].as_bytes()[1..]), "{entries:?}");
        assert_eq!(next.value.as_deref(), Some(&entries[2].as_bytes()[1..]), "{entries:?}");
    }
}

/// Bug: a cursor behind the last entry stayed there when others removed the entries before it.
///
/// Consequence: it told that there is no entry where one of LMDB's, whose table is empty, stands
/// nowhere: `MDB_NOTFOUND` for `EINVAL`. Sequence 6347.
///
/// Fix: what empties a table leaves all its cursors nowhere.
#[test]
fn a_cursor_behind_the_last_entry_stands_nowhere_when_the_table_is_emptied() {
    for flags in [0, sequence::DUPSORT] {
        let answers = answers_of(
            flags,
            [
                Call::Begin,
                put("a", "1"),
                put("b", "1"),
                Call::CursorOpen { cursor: 0, db: 0 },
                Call::CursorOpen { cursor: 1, db: 0 },
                go(0, LAST),
                Call::CursorDel { cursor: 0, flags: 0 },
                go(0, GET_CURRENT),
                go(1, FIRST),
                Call::CursorDel { cursor: 1, flags: 0 },
                go(0, GET_CURRENT),
                go(0, NEXT),
            ],
        );
        let codes = answers.map(|answer| answer.map(|answer| answer.code));
        assert_eq!(codes[7], Some(-30798), "behind the last entry: MDB_NOTFOUND");
        assert_eq!(codes[10..], [Some(libc::EINVAL), Some(-30798)], "nowhere, and nothing is next: {codes:?}");
    }
}

/// Bug: a cursor behind the last value of its key removed the value before it.
///
/// Consequence: a program that removed the last value twice lost two values, and LMDB's refuses the
/// second removal. Sequence 8200.
///
/// Fix: there is nothing to remove where such a cursor stands, unless all values of the key are meant.
#[test]
fn behind_the_last_value_of_a_key_there_is_nothing_to_remove() {
    let answers = answers_of(
        sequence::DUPSORT,
        [
            Call::Begin,
            put("a", "1"),
            put("a", "2"),
            put("a", "3"),
            Call::CursorOpen { cursor: 0, db: 0 },
            go(0, LAST),
            Call::CursorDel { cursor: 0, flags: 0 },
            Call::CursorDel { cursor: 0, flags: 0 },
            go(0, FIRST),
            Call::Count { cursor: 0 },
        ],
    );
    let [.., first, second, _, count] = answers.map(Option::unwrap);
    assert_eq!((first.code, second.code), (0, -30798), "the second removal: MDB_NOTFOUND");
    assert_eq!(count.number, 2, "two values are left");
}
