//! What statements cost in process: `cargo run --release -p colibri-sql --example cost -- DIR
//! [PART…]`, with the parts `point`, `wide`, `tables`, `scan` (all of them without any), and
//! `versus`, which asks a PostgreSQL the same as `scan`: the one that `psql` connects to, so set
//! PGHOST, PGUSER, PGDATABASE.
//!
//! CPU time is that of the thread, by the system's clock for it, so that flushes and neighbours do
//! not count.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use colibri_sql::{Datum, Engine, Prepared, Progress, Rows, Session};
use colibri_storage::{Database, Durability, Options};

fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Address space: what tools that count instructions can bear.
const SIZE_MAX: u64 = 8 << 30;

fn open(dir: &std::path::Path, durability: Durability) -> Arc<Engine> {
    std::fs::create_dir_all(dir).unwrap();
    Engine::open(Database::open(dir, &Options::new().durability(durability).size_max(SIZE_MAX)).unwrap()).unwrap()
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

/// Reads of rows of 1 KB by a text, as YCSB has them: stepped as a server does, rows taken into the
/// same memory.
fn wide(dir: &std::path::Path) {
    const ROWS: u32 = 100_000;
    let engine = open(&dir.join("wide"), Durability::Lazy { bytes: 64 << 20, period: Duration::from_secs(10) });
    let mut session = Session::new(&engine, "bench");
    let fields = |text: &dyn Fn(u32) -> String| (0..10).map(text).collect::<Vec<_>>().join(", ");
    let (columns, types) = (fields(&|n| format!("f{n}")), fields(&|n| format!("f{n} varchar(100) NOT NULL")));
    session.run(&format!("CREATE TABLE IF NOT EXISTS t (k varchar(64) PRIMARY KEY, {types})")).unwrap();
    let values = fields(&|n| format!("substr(repeat(md5((n * 10 + {n})::text), 4), 1, 100)"));
    if session.run("SELECT count(*) FROM t").unwrap()[0].rows.row(0)[0] != Datum::Int(i64::from(ROWS)) {
        let numbers = format!("generate_series(1000000000000, 1000000000000 + {}) AS g(n)", ROWS - 1);
        session.run(&format!("INSERT INTO t SELECT 'user' || n, {values} FROM {numbers}")).unwrap();
    }
    let select = session.prepare(&format!("SELECT {columns} FROM t WHERE k = $1"), &[]).unwrap();
    let mut rows = Rows::default();
    for (what, spread) in [("of 100,000", ROWS), ("of 100, from caches", 100)] {
        let ns = per_run(10_000, |index| {
            let number = u64::from(index.wrapping_mul(2_654_435_761) % spread) + 1_000_000_000_000;
            read_wide(&mut session, &select, &format!("user{number}"), &mut rows);
        });
        println!("prepared select of a row of ten texts, {what}: {:.2} us of CPU", ns / 1e3);
    }
}

/// By itself, for counting instructions: `valgrind --tool=callgrind
/// --toggle-collect='*read_wide*'`.
#[inline(never)]
fn read_wide(session: &mut Session, select: &Arc<Prepared>, key: &str, rows: &mut Rows) {
    let mut running = session.start(select, vec![Datum::text(key)]).unwrap();
    loop {
        match session.step(&mut running, rows, 4_096).unwrap() {
            Progress::Rows => {
                let Datum::Text(last) = &rows.row(0)[9] else { panic!("a text") };
                assert_eq!((rows.len(), last.len()), (1, 100));
                rows.clear();
            }
            Progress::Done(completion) => {
                assert_eq!(completion.tag, "SELECT 1");
                return;
            }
            Progress::Yield | Progress::Wait(_) | Progress::Fetch(_) | Progress::Sleep(_) | Progress::Commits(_) => {
                panic!("nobody is in the way")
            }
        }
    }
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

/// Tables of 1 M rows, of 100,000 and again of 1 M, in statements of 100,000 rows.
fn load(mut run: impl FnMut(&str)) {
    run("DROP TABLE IF EXISTS a");
    run("DROP TABLE IF EXISTS b");
    run("DROP TABLE IF EXISTS d");
    run("CREATE TABLE a (id int PRIMARY KEY, k int, v int, n numeric(12,2), r int, t text)");
    run("CREATE TABLE b (id int PRIMARY KEY, name text)");
    run("CREATE TABLE d (id int PRIMARY KEY, r int, w int)");
    run("INSERT INTO b SELECT n, 'name ' || n FROM generate_series(0, 99999) AS g(n)");
    for part in 0..10 {
        let numbers = format!("generate_series({}, {}) AS g(n)", part * 100_000, part * 100_000 + 99_999);
        // `r` goes through all numbers below a million, in an order far from that of the keys.
        run(&format!(
            "INSERT INTO a SELECT n, n % 1000, n % 100, n % 1000, n::bigint * 618033 % 1000000, 'text ' || n \
             FROM {numbers}"
        ));
        run(&format!("INSERT INTO d SELECT n, n::bigint * 414217 % 1000000, n % 77 FROM {numbers}"));
    }
}

/// What is asked of them.
const QUERIES: [&str; 14] = [
    "SELECT count(*) FROM a",
    "SELECT sum(v) FROM a",
    "SELECT sum(n) FROM a",
    "SELECT k, count(*), sum(v) FROM a GROUP BY k",
    "SELECT count(*), sum(c), sum(s) FROM (SELECT r, count(*) AS c, sum(v) AS s FROM a GROUP BY r) AS g",
    "SELECT count(*), sum(c) FROM (SELECT t, count(*) AS c FROM a GROUP BY t) AS g",
    "SELECT count(*) FROM a WHERE v < 50 AND t LIKE '%9'",
    "SELECT count(*) FROM a WHERE t LIKE '%99%'",
    "SELECT count(*), min(b.name) FROM a JOIN b ON b.id = a.k * 100",
    "SELECT count(*), min(b.name) FROM a JOIN b ON b.id = a.r / 10",
    "SELECT count(*), min(d.w) FROM a JOIN d ON d.r = a.r",
    "SELECT count(*), min(a.t) FROM a JOIN d ON d.r = a.r",
    "SELECT * FROM a ORDER BY t LIMIT 10",
    "SELECT id FROM a ORDER BY n DESC, r LIMIT 10",
];

fn scan(dir: &std::path::Path) {
    let engine = open(&dir.join("scan"), Durability::NoSync);
    let mut session = Session::new(&engine, "bench");
    session.run("SET work_mem = '1GB'").unwrap();
    load(|text| {
        session.run(text).unwrap();
    });
    for text in QUERIES {
        let ms = median((0..5).map(|_| own_ms(&mut session, text)).collect());
        println!("{ms:9.3} ms of CPU  {text}");
    }
}

fn own_ms(session: &mut Session, text: &str) -> f64 {
    let prepared = session.prepare(text, &[]).unwrap();
    let before = thread_cpu();
    session.execute(&prepared, Vec::new()).unwrap();
    (thread_cpu() - before).as_secs_f64() * 1e3
}

/// A session of PostgreSQL, by its shell.
struct Postgres {
    input: std::process::ChildStdin,
    output: std::io::BufReader<std::process::ChildStdout>,
    /// Of the server's process.
    pid: u32,
}

impl Postgres {
    /// With what PGHOST and the like say.
    #[expect(clippy::zombie_processes, reason = "it ends with its input, when this program does")]
    fn connect() -> Self {
        let mut child = std::process::Command::new("psql")
            .args(["-XqAt", "-v", "ON_ERROR_STOP=1"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut session = Self { input, output, pid: 0 };
        session.pid = session.run("SELECT pg_backend_pid()")[0].parse().unwrap();
        session
    }

    fn run(&mut self, text: &str) -> Vec<String> {
        use std::io::{BufRead, Write};
        writeln!(self.input, "{text};\n\\echo done").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "PostgreSQL has gone");
            match line.trim_end_matches(['\r', '\n']) {
                "done" => return lines,
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The CPU time of its process, by the scheduler's clock.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).unwrap();
        Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
    }
}

/// The queries here and in PostgreSQL, in turns: medians of eleven rounds.
fn versus(dir: &std::path::Path) {
    let engine = open(&dir.join("versus"), Durability::NoSync);
    let mut session = Session::new(&engine, "bench");
    session.run("SET work_mem = '1GB'").unwrap();
    load(|text| {
        session.run(text).unwrap();
    });
    let mut postgres = Postgres::connect();
    load(|text| {
        postgres.run(text);
    });
    postgres.run("VACUUM ANALYZE");
    for setting in ["work_mem = '1GB'", "max_parallel_workers_per_gather = 0", "jit = off"] {
        postgres.run(&format!("SET {setting}"));
    }
    println!("| query | Colibri, ms of CPU | PostgreSQL, ms of CPU | share |\n| --- | ---: | ---: | ---: |");
    for text in QUERIES {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for round in 0..12 {
            let own = own_ms(&mut session, text);
            let before = postgres.cpu();
            postgres.run(text);
            let theirs = (postgres.cpu() - before).as_secs_f64() * 1e3;
            if round > 0 {
                here.push(own);
                there.push(theirs);
            }
        }
        let (here, there) = (median(here), median(there));
        println!("| `{text}` | {here:.3} | {there:.3} | {:.2} |", here / there);
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
    if chosen("wide") {
        wide(&dir);
    }
    if chosen("tables") {
        tables(&dir);
    }
    if chosen("scan") {
        scan(&dir);
    }
    // Not among all of them: it needs a PostgreSQL.
    if parts.iter().any(|part| part == "versus") {
        versus(&dir);
    }
}
