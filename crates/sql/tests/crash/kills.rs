//! A process whose sessions run SQL is killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Options};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{SESSIONS, SETUP, done, look, one_move};

const DIR: &str = "COLIBRI_SQL_CRASH_DIR";

/// Opens a database whose log is small, so that steady points are made often.
pub(super) fn open(dir: &Path) -> Arc<Engine> {
    Engine::open(Database::open(dir, &Options::new().log_bytes(256 << 10)).unwrap()).unwrap()
}

/// Moves money until the process is killed.
#[test]
#[ignore = "a process that another test kills"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let engine = open(Path::new(&dir));
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let engine = &engine;
            scope.spawn(move || {
                let mut session = Session::new(engine, "postgres");
                let mut n = done(&mut session, number);
                let mut rng = StdRng::seed_from_u64(number as u64 * 1_000_003 + n as u64);
                loop {
                    if let Some(given) = one_move(&mut session, &mut rng, number, n) {
                        n += 1;
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "done {number} {n} {given}").unwrap();
                    }
                }
            });
        }
    });
}

fn kill_and_look(seed: u64, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    Session::new(&open(dir.path()), "postgres").run(SETUP).unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut acknowledged = vec![Vec::new(); SESSIONS];
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kills::child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut lines = Vec::new();
            for line in out.lines().map_while(Result::ok) {
                // The first word may come behind the test's name.
                if let Some(at) = line.find("done ") {
                    let words: Vec<i64> = line[at + 5..].split(' ').map_while(|word| word.parse().ok()).collect();
                    if let [number, n, given] = words[..] {
                        lines.push((number as usize, n as usize, given));
                    }
                }
            }
            lines
        });
        std::thread::sleep(Duration::from_millis(rng.random_range(50..300)));
        let what = format!("seed {seed}, round {round}");
        assert!(child.try_wait().unwrap().is_none(), "{what}: the child has ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        for (number, n, given) in reader.join().unwrap() {
            let numbers = &mut acknowledged[number];
            // What was committed and could not be told any more, in an earlier round.
            numbers.resize(numbers.len().max(n), -1);
            numbers[n - 1] = given;
        }
        look(&open(dir.path()), &acknowledged, &what);
    }
    assert!(
        acknowledged.iter().flatten().any(|&given| given >= 0),
        "every child was killed before it had done anything"
    );
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    kill_and_look(1, 20);
}

#[test]
#[ignore = "hundreds of kills: minutes"]
fn what_was_acknowledged_survives_many_kills() {
    for seed in 2..12 {
        kill_and_look(seed, 40);
    }
}
