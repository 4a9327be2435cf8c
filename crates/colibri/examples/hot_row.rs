//! How many durable commits a second one row takes, from one session and from eight, as threads and
//! as tasks: `cargo run --release -p colibri-db --example hot_row -- DIR`, in which it leaves a
//! database.
//!
//! `c = c + 1` is evaluated at the commit, so sessions are not in each other's way; what they share
//! is flushes.

#![allow(clippy::unwrap_used, reason = "an example")]

use std::time::{Duration, Instant};

use colibri::sql::Database;
use colibri_runtime::{Pool, Runtime, spawn};

const UPDATE: &str = "UPDATE hot SET c = c + 1 WHERE id = 1";
const SESSIONS: u64 = 8;
const ROUNDS: usize = 5;
const SECONDS: u64 = 2;

/// Commits until then from as many threads as there are sessions.
fn from_threads(db: &Database, sessions: u64, until: Instant) -> u64 {
    let run = || {
        let mut conn = db.connect();
        let update = conn.prepare(UPDATE).unwrap();
        let mut done = 0;
        while Instant::now() < until {
            assert_eq!(conn.execute(&update, ()).unwrap(), 1);
            done += 1;
        }
        done
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..sessions).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// The same from tasks, on as many threads as there are cores.
fn from_tasks(runtime: &Runtime, db: &Database, sessions: u64, until: Instant) -> u64 {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..sessions)
            .map(|_| {
                let mut conn = db.connect_async();
                spawn(Pool::User, async move {
                    let update = conn.prepare(UPDATE).unwrap();
                    let mut done = 0;
                    while Instant::now() < until {
                        assert_eq!(conn.execute(&update, ()).await.unwrap(), 1);
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            done += task.await.unwrap();
        }
        done
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let dir = std::env::args().nth(1).expect("a directory");
    let db = Database::open(dir).unwrap();
    let mut conn = db.connect();
    conn.execute("DROP TABLE IF EXISTS hot", ()).unwrap();
    conn.execute("CREATE TABLE hot (id int PRIMARY KEY, c bigint)", ()).unwrap();
    conn.execute("INSERT INTO hot VALUES (1, 0)", ()).unwrap();
    let runtime = Runtime::new().unwrap();
    let mut all = 0;
    for (what, tasks) in [("threads", false), ("tasks", true)] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let [one, many] = [1, SESSIONS].map(|sessions| {
                let until = Instant::now() + Duration::from_secs(SECONDS);
                let done = match tasks {
                    true => from_tasks(&runtime, &db, sessions, until),
                    false => from_threads(&db, sessions, until),
                };
                all += done;
                done as f64 / SECONDS as f64
            });
            println!("{what}: 1 session {one:.0}/s, {SESSIONS} sessions {many:.0}/s, {:.2} times", many / one);
            ratios.push(many / one);
        }
        println!("{what}: median {:.2} times", median(ratios));
    }
    let row = conn.query_row("SELECT c FROM hot", ()).unwrap();
    assert_eq!(row.get::<_, i64>(0).unwrap(), all as i64, "every commit counts once");
    runtime.shutdown(Duration::from_secs(1));
}
