//! What statements cost in process: `cargo run --release -p colibri-sql --example cost -- DIR [PART…]`, with the parts
//! `point`, `tables`, `hot`, `scan` (all of them without any).
//!
//! CPU time is that of the thread, by the system's clock for it, so that flushes and neighbours do not count.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use colibri_sql::{Datum, Engine, Session};
use colibri_storage::{Database, Durability, Options};

fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn open(dir: &std::path::Path, durability: Durability) -> Arc<Engine> {
    std::fs::create_dir_all(dir).unwrap();
    Engine::open(Database::open(dir, &Options::new().durability(durability)).unwrap()).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of CPU for one of many runs: the median of eleven rounds.
fn per_run(rounds: u32, mut run: impl FnMut(u32)) -> f64 {
    for index in 0..rounds {
        run(index);
    }
    let measured = (0..11).map(|_| {
        let before = thread_cpu();
        for index in 0..rounds {
            run(index);
        }
        (thread_cpu() - before).as_nanos() as f64 / f64::from(rounds)
    });
    median(measured.collect())
}

fn point(dir: &std::path::Path) {
    let engine = open(&dir.join("point"), Durability::Lazy { bytes: 64 << 20, period: Duration::from_secs(10) });
    let mut session = Session::new(&engine, "bench");
    session.run("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric(12,2))").unwrap();
    session.run("INSERT INTO t SELECT n, n % 1000, 'row ' || n, n FROM generate_series(0, 99999) AS g(n)").unwrap();
    let select = session.prepare("SELECT a, b FROM t WHERE id = $1", &[]).unwrap();
    let key = |index: u32| vec![Datum::Int(i64::from(index.wrapping_mul(2_654_435_761) % 100_000))];
    let ns = per_run(50_000, |index| {
        let answer = session.execute(&select, key(index)).unwrap();
        assert_eq!(answer.rows.len(), 1);
    });
    println!("prepared point select: {:.2} us of CPU", ns / 1e3);
    let update = session.prepare("UPDATE t SET a = $2 WHERE id = $1", &[]).unwrap();
    let ns = per_run(20_000, |index| {
        let mut params = key(index);
        params.push(Datum::Int(i64::from(index)));
        session.execute(&update, params).unwrap();
    });
    println!("prepared point update, lazy: {:.2} us of CPU", ns / 1e3);
    let add = session.prepare("UPDATE t SET c = c + 1.25 WHERE id = $1", &[]).unwrap();
    let ns = per_run(20_000, |index| {
        session.execute(&add, key(index)).unwrap();
    });
    println!("prepared point addition, lazy: {:.2} us of CPU", ns / 1e3);
    let insert = session.prepare("INSERT INTO t VALUES ($1, 1, 'x', 2) ON CONFLICT DO NOTHING", &[]).unwrap();
    let mut next = 1_000_000;
    let ns = per_run(20_000, |_| {
        next += 1;
        session.execute(&insert, vec![Datum::Int(next)]).unwrap();
    });
    println!("prepared insert, lazy: {:.2} us of CPU", ns / 1e3);
    let range = session.prepare("SELECT id, b FROM t WHERE id >= $1 ORDER BY id LIMIT 10", &[]).unwrap();
    let ns = per_run(20_000, |index| {
        session.execute(&range, key(index)).unwrap();
    });
    println!("prepared range of 10: {:.2} us of CPU", ns / 1e3);
    let ns = per_run(5_000, |index| {
        session.run(&format!("SELECT a, b FROM t WHERE id = {}", index % 1000)).unwrap();
    });
    println!("point select as text: {:.2} us of CPU", ns / 1e3);
    let count = session.prepare("SELECT count(*) FROM t", &[]).unwrap();
    let ns = per_run(5_000, |_| {
        session.execute(&count, Vec::new()).unwrap();
    });
    println!("count(*): {:.2} us of CPU", ns / 1e3);
}

fn tables(dir: &std::path::Path) {
    let dir = dir.join("tables");
    {
        let engine = open(&dir, Durability::Sync);
        let mut session = Session::new(&engine, "bench");
        let mut text = String::from("BEGIN;");
        for number in 0..1_000 {
            text += &format!(
                "CREATE TABLE IF NOT EXISTS t{number} (id int PRIMARY KEY, a int NOT NULL DEFAULT 5, b text, \
                 c numeric(12,2) CHECK (c > 0), d timestamp DEFAULT now(), UNIQUE (a, b));"
            );
        }
        text += "COMMIT";
        session.run(&text).unwrap();
        drop(session);
    }
    let measured = (0..11).map(|_| {
        let started = Instant::now();
        let engine = open(&dir, Durability::Sync);
        let mut session = Session::new(&engine, "bench");
        assert_eq!(session.run("SELECT * FROM t999").unwrap()[0].rows.len(), 0);
        started.elapsed().as_secs_f64() * 1e3
    });
    println!("open with 1,000 tables and one query: {:.2} ms", median(measured.collect()));
}

fn hot(dir: &std::path::Path) {
    let engine = open(&dir.join("hot"), Durability::Sync);
    let mut session = Session::new(&engine, "bench");
    session
        .run("DROP TABLE IF EXISTS h; CREATE TABLE h (id int PRIMARY KEY, c bigint); INSERT INTO h VALUES (1, 0)")
        .unwrap();
    let rate = |sessions: u32| {
        let until = Instant::now() + Duration::from_secs(2);
        let done: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..sessions)
                .map(|_| {
                    let engine = Arc::clone(&engine);
                    scope.spawn(move || {
                        let mut session = Session::new(&engine, "bench");
                        let update = session.prepare("UPDATE h SET c = c + 1 WHERE id = 1", &[]).unwrap();
                        let mut done = 0;
                        while Instant::now() < until {
                            session.execute(&update, Vec::new()).unwrap();
                            done += 1;
                        }
                        done
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        done as f64 / 2.0
    };
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let (one, eight) = (rate(1), rate(8));
        println!("hot row: 1 session {one:.0}/s, 8 sessions {eight:.0}/s, {:.2} times", eight / one);
        ratios.push(eight / one);
    }
    println!("hot row, median: {:.2} times", median(ratios));
}

fn scan(dir: &std::path::Path) {
    let engine = open(&dir.join("scan"), Durability::NoSync);
    let mut session = Session::new(&engine, "bench");
    session
        .run(
            "DROP TABLE IF EXISTS a; DROP TABLE IF EXISTS b;
             CREATE TABLE a (id int PRIMARY KEY, k int, v int, n numeric(12,2), t text);
             CREATE TABLE b (id int PRIMARY KEY, name text);
             INSERT INTO b SELECT n, 'name ' || n FROM generate_series(0, 99999) AS g(n)",
        )
        .unwrap();
    for part in 0..10 {
        session
            .run(&format!(
                "INSERT INTO a SELECT n, n % 1000, n % 100, n % 1000, 'text ' || n \
                 FROM generate_series({}, {}) AS g(n)",
                part * 100_000,
                part * 100_000 + 99_999
            ))
            .unwrap();
    }
    for text in [
        "SELECT count(*) FROM a",
        "SELECT sum(v) FROM a",
        "SELECT sum(n) FROM a",
        "SELECT k, count(*), sum(v) FROM a GROUP BY k",
        "SELECT count(*) FROM a WHERE v < 50 AND t LIKE '%9'",
        "SELECT count(*), min(b.name) FROM a JOIN b ON b.id = a.k * 100",
        "SELECT * FROM a ORDER BY t LIMIT 10",
    ] {
        let prepared = session.prepare(text, &[]).unwrap();
        let measured = (0..5).map(|_| {
            let before = thread_cpu();
            session.execute(&prepared, Vec::new()).unwrap();
            (thread_cpu() - before).as_secs_f64() * 1e3
        });
        println!("{:9.3} ms of CPU  {text}", median(measured.collect()));
    }
}

fn main() {
    let mut args = std::env::args_os().skip(1);
    let dir = std::path::PathBuf::from(args.next().expect("a directory"));
    let parts: Vec<String> = args.map(|part| part.to_string_lossy().into_owned()).collect();
    let chosen = |part: &str| parts.is_empty() || parts.iter().any(|chosen| chosen == part);
    if chosen("point") {
        point(&dir);
    }
    if chosen("tables") {
        tables(&dir);
    }
    if chosen("hot") {
        hot(&dir);
    }
    if chosen("scan") {
        scan(&dir);
    }
}
