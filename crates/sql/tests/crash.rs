//! A process whose sessions run SQL is killed: what it acknowledged is there, nothing is there by half, tables and indexes
//! fit together, and no sequence gives a value twice.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use colibri_sql::{Datum, Engine, Session};
use colibri_storage::{Database, Options};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DIR: &str = "COLIBRI_SQL_CRASH_DIR";
const SESSIONS: usize = 4;

/// Money moves between accounts, and each move has two entries and a place in its session's ledger.
const SETUP: &str = "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, moves int NOT NULL DEFAULT 0);
    CREATE INDEX by_balance ON account (balance);
    CREATE TABLE entry (id bigserial PRIMARY KEY, account int NOT NULL REFERENCES account, amount bigint NOT NULL);
    CREATE INDEX by_account ON entry (account, id DESC);
    CREATE TABLE ledger (session int, n int, number bigint NOT NULL UNIQUE, note text, PRIMARY KEY (session, n));
    CREATE TABLE nokey (session int, n int);
    CREATE SEQUENCE numbers;
    INSERT INTO account SELECT g, 1000 FROM generate_series(1, 20) AS g";

fn open(dir: &Path) -> Arc<Engine> {
    Engine::open(Database::open(dir, &Options::new().log_bytes(256 << 10)).unwrap()).unwrap()
}

fn int(session: &mut Session, query: &str) -> i64 {
    let answers = session.run(query).unwrap();
    match answers[0].rows.row(0)[0] {
        Datum::Int(value) => value,
        Datum::Numeric(value) => value.to_string().parse().unwrap(),
        ref other => panic!("{query}: {other:?}"),
    }
}

fn done(session: &mut Session, number: usize) -> i64 {
    int(session, &format!("SELECT count(*) FROM ledger WHERE session = {number}"))
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

/// One transaction; the number that it was given, if it committed.
fn one_move(session: &mut Session, rng: &mut StdRng, number: usize, n: i64) -> Option<i64> {
    let (from, to) = (rng.random_range(1..=20), rng.random_range(1..=20));
    let amount = rng.random_range(1..50);
    let level = if rng.random() { "SERIALIZABLE" } else { "READ COMMITTED" };
    let extra = match rng.random_range(0..40) {
        0 => format!(
            "CREATE TABLE made_{number}_{n} (a int PRIMARY KEY, b text UNIQUE); INSERT INTO made_{number}_{n} VALUES (1, 'x')"
        ),
        1 => format!("CREATE INDEX made_{number}_{n} ON entry (amount)"),
        2 => "DROP INDEX IF EXISTS by_balance".to_owned(),
        3 => "CREATE INDEX IF NOT EXISTS by_balance ON account (balance)".to_owned(),
        4 => format!("ALTER TABLE ledger ADD COLUMN c_{number}_{n} int DEFAULT {n}"),
        5 => "TRUNCATE nokey".to_owned(),
        6..=12 => format!("DELETE FROM nokey WHERE n < {n}"),
        _ => format!("INSERT INTO nokey VALUES ({number}, {n})"),
    };
    let text = format!(
        "BEGIN ISOLATION LEVEL {level};
         UPDATE account SET balance = balance - {amount}, moves = moves + 1 WHERE id = {from};
         UPDATE account SET balance = balance + {amount}, moves = moves + 1 WHERE id = {to};
         INSERT INTO entry (account, amount) VALUES ({from}, -{amount}), ({to}, {amount});
         {extra};
         INSERT INTO ledger (session, n, number, note) VALUES ({number}, {n}, nextval('numbers'), repeat('x', {amount} * 10)) RETURNING number"
    );
    let given = session.run(&text).and_then(|answers| {
        let given = match answers.last().unwrap().rows.row(0)[0] {
            Datum::Int(given) => given,
            ref other => panic!("{other:?}"),
        };
        session.run("COMMIT").map(|_| given)
    });
    match given {
        Ok(given) => Some(given),
        Err(error) => {
            assert!(error.is_retryable(), "{}: {error}: {text}", error.state().0);
            session.run("ROLLBACK").unwrap();
            None
        }
    }
}

fn look(dir: &Path, acknowledged: &[Vec<i64>], what: &str) -> i64 {
    let engine = open(dir);
    let mut session = Session::new(&engine, "postgres");
    for (number, numbers) in acknowledged.iter().enumerate() {
        for (n, given) in numbers.iter().enumerate() {
            let query =
                format!("SELECT count(*) FROM ledger WHERE session = {number} AND n = {n} AND number = {given}");
            if *given >= 0 {
                assert_eq!(int(&mut session, &query), 1, "{what}: move {n} of session {number} is lost");
            }
        }
        let count = done(&mut session, number);
        let gaps = format!("SELECT count(*) FROM ledger WHERE session = {number} AND n >= {count}");
        assert_eq!(int(&mut session, &gaps), 0, "{what}: session {number} has a gap");
        assert!(count >= numbers.len() as i64, "{what}: {count} of {} acknowledged", numbers.len());
    }
    let moves = int(&mut session, "SELECT count(*) FROM ledger");
    assert_eq!(int(&mut session, "SELECT sum(balance) FROM account"), 20_000, "{what}");
    assert_eq!(int(&mut session, "SELECT sum(moves) FROM account"), 2 * moves, "{what}");
    assert_eq!(int(&mut session, "SELECT count(*) FROM entry"), 2 * moves, "{what}");
    let wrong = "SELECT count(*) FROM account WHERE balance <> 1000 + coalesce((SELECT sum(amount) FROM entry WHERE account = account.id), 0)";
    assert_eq!(int(&mut session, wrong), 0, "{what}");
    let (findings, none) = (engine.check().unwrap(), Vec::<String>::new());
    assert_eq!(findings, none, "{what}");
    engine.store().database().check().unwrap();
    // No value that somebody was told of comes again.
    let highest = int(&mut session, "SELECT coalesce(max(number), 0) FROM ledger");
    let told = acknowledged.iter().flatten().copied().max().unwrap_or(0);
    assert!(int(&mut session, "SELECT nextval('numbers')") > highest.max(told), "{what}");
    moves
}

fn kill_and_look(seed: u64, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    Session::new(&open(dir.path()), "postgres").run(SETUP).unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut acknowledged = vec![Vec::new(); SESSIONS];
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
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
        look(dir.path(), &acknowledged, &what);
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
