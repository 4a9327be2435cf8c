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
use sequence::{Sequence, Side};

/// Sequences with one pair of environments.
const SEQUENCES_PER_ENV: u64 = 200;

fn run(seeds: std::ops::Range<u64>) {
    let Some(theirs) = library::lmdb() else {
        eprintln!("not run: liblmdb.so.0 is not installed");
        return;
    };
    // Cursors of older ones do not see all that others remove.
    let patch = theirs.patch_version();
    if patch < 30 {
        eprintln!("not run: liblmdb.so.0 is LMDB 0.9.{patch}; COLIBRI_TEST_LIBLMDB may name one from 0.9.30 on");
        return;
    }
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
