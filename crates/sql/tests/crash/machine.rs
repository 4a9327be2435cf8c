//! The machine crashes under sessions side by side: a simulated disk keeps, of what was not
//! flushed, any subset of sectors.

use std::sync::Mutex;

use colibri_sql::{Engine, Session};
use colibri_storage::simulation::SimDisk;
use colibri_storage::{Durability, Options};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{SESSIONS, SETUP, done, look, one_move};

/// Moves of each session.
const MOVES: i64 = 25;
/// A crash at one in so many occasions: four for each flush of the log.
const RARITY: u32 = 8;

/// Runs a history; how many crashes there were.
fn crash_and_look(seed: u64, durability: Durability) -> usize {
    let options = Options::new().durability(durability).log_bytes(64 << 10);
    let disk = SimDisk::of_new(seed, RARITY);
    let engine = Engine::open(disk.open(&options).unwrap()).unwrap();
    Session::new(&engine, "postgres").run(SETUP).unwrap();
    drop(disk.take_wrecks());
    // Session, place in it, and the number that it was given, in the order in which they were told.
    let told = Mutex::new(Vec::<(usize, usize, i64)>::new());
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let (engine, disk, told) = (&engine, &disk, &told);
            scope.spawn(move || {
                let mut session = Session::new(engine, "postgres");
                let mut rng = StdRng::seed_from_u64(seed * 1_000 + number as u64);
                let mut n = 0;
                while n < MOVES {
                    if let Some(given) = one_move(&mut session, &mut rng, number, n) {
                        let mut told = told.lock().unwrap();
                        told.push((number, n as usize, given));
                        disk.acknowledge(told.len() as u64);
                        n += 1;
                    }
                }
            });
        }
    });
    let told = told.into_inner().unwrap();
    let wrecks = disk.take_wrecks();
    for (at, wreck) in wrecks.iter().enumerate() {
        let mut acknowledged = vec![Vec::new(); SESSIONS];
        for &(number, n, given) in &told[..wreck.acknowledged() as usize] {
            assert_eq!(acknowledged[number].len(), n);
            acknowledged[number].push(given);
        }
        let what = format!("seed {seed}, {durability:?}, crash {at}");
        let left = SimDisk::of_wreck(wreck, seed);
        let engine = Engine::open(left.open(&options).unwrap()).unwrap();
        look(&engine, &acknowledged, &what);
        // Work goes on, and another crash does not take it back.
        let mut session = Session::new(&engine, "postgres");
        let number = at % SESSIONS;
        let n = done(&mut session, number);
        let mut rng = StdRng::seed_from_u64(at as u64);
        let given = one_move(&mut session, &mut rng, number, n).expect("nobody else is there");
        acknowledged[number].resize(n as usize, -1);
        acknowledged[number].push(given);
        let again = SimDisk::of_wreck(&left.durable(), seed);
        look(&Engine::open(again.open(&options).unwrap()).unwrap(), &acknowledged, &format!("{what}, and another"));
    }
    wrecks.len()
}

#[test]
fn what_was_acknowledged_survives_a_crash_of_the_machine() {
    let wrecks = crash_and_look(1, Durability::Sync) + crash_and_look(2, Durability::SyncNoLog);
    assert!(wrecks > 20, "only {wrecks} crashes");
}

#[test]
#[ignore = "thousands of crashes: minutes"]
fn what_was_acknowledged_survives_many_crashes_of_the_machine() {
    let mut rng = StdRng::seed_from_u64(1);
    let wrecks: usize = (10..100)
        .map(|seed| crash_and_look(seed, if rng.random_bool(0.7) { Durability::Sync } else { Durability::SyncNoLog }))
        .sum();
    println!("{wrecks} crashes");
}
