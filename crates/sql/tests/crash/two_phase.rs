//! Prepared transactions: what was prepared stays prepared, and what has ended stays ended, whether
//! the process is killed or the machine crashes.
//!
//! A session works through numbered steps: it prepares a transaction, then ends it, and so on. What
//! a crash leaves is what one of the steps from the last acknowledged one on has left: the model
//! says what that is. A transaction that is still prepared then keeps its rows locked, and can be
//! ended either way.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use colibri_sql::{Engine, Session};
use colibri_storage::simulation::SimDisk;
use colibri_storage::{Durability, Options};

use super::int;
use super::kills::open;

const DIR: &str = "COLIBRI_SQL_TWO_PHASE_DIR";

const SETUP: &str = "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
    CREATE TABLE nokey (step int);
    CREATE TABLE done (step int PRIMARY KEY, name text UNIQUE);
    CREATE TABLE last (step int);
    INSERT INTO last VALUES (0);
    INSERT INTO account SELECT g, 1000 FROM generate_series(1, 4) AS g";

/// How transaction `n` ends.
fn commits(n: i64) -> bool {
    n % 3 != 0
}

/// Step `2n` prepares transaction `n`, and step `2n + 1` ends it.
fn step(session: &mut Session, step: i64) {
    let n = step / 2;
    if step % 2 == 1 {
        let verb = if commits(n) { "COMMIT" } else { "ROLLBACK" };
        session.run(&format!("{verb} PREPARED 'txn {n}'")).unwrap();
        return;
    }
    let level = ["SERIALIZABLE", "READ COMMITTED", "REPEATABLE READ"][(n % 3) as usize];
    let extra = match n % 5 {
        1 => format!("CREATE TABLE made_{n} (a int PRIMARY KEY); INSERT INTO made_{n} VALUES (1);"),
        2 => format!("DROP TABLE IF EXISTS made_{};", n - 1),
        _ => String::new(),
    };
    session
        .run(&format!(
            "BEGIN ISOLATION LEVEL {level};
             UPDATE account SET balance = balance - 7 WHERE id = 1;
             UPDATE account SET balance = balance + 7 WHERE id = {};
             INSERT INTO nokey VALUES ({n}); INSERT INTO done VALUES ({n}, 'n{n}'); {extra}
             PREPARE TRANSACTION 'txn {n}'",
            n % 3 + 2
        ))
        .unwrap();
}

/// The number of committed transactions of those before `n`.
fn committed_before(n: i64) -> i64 {
    (0..n).filter(|&n| commits(n)).count() as i64
}

/// Looks at what a crash has left, and goes on with the transaction that is prepared, if there is
/// one. Gives the next step.
fn look(engine: &Arc<Engine>, acknowledged: i64, what: &str) -> i64 {
    assert_eq!(engine.check().unwrap(), Vec::<String>::new(), "{what}");
    engine.set_prepared_max(2);
    let mut session = Session::new(engine, "postgres");
    let count = |session: &mut Session, query: &str| int(session, query);
    let prepared = session.run("SELECT gid FROM pg_prepared_xacts").unwrap();
    let prepared = prepared[0].text_rows(&session);
    let rows = count(&mut session, "SELECT count(*) FROM done");
    assert_eq!(count(&mut session, "SELECT sum(balance) FROM account"), 4000, "{what}");
    assert_eq!(count(&mut session, "SELECT count(*) FROM nokey"), rows, "{what}");
    assert_eq!(count(&mut session, "SELECT balance FROM account WHERE id = 1"), 1000 - 7 * rows, "{what}");
    let next = match &prepared[..] {
        [] => {
            // It is between two transactions: behind the one that was acknowledged, or the next one.
            let all: Vec<i64> = (0..).map(|n| 2 * n).skip_while(|&step| step < acknowledged).take(2).collect();
            let fits = |&&step: &&i64| committed_before(step / 2) == rows;
            *all.iter().find(fits).unwrap_or_else(|| panic!("{what}: {rows} rows behind step {acknowledged}"))
        }
        [row] => {
            let name = row[0].clone().unwrap();
            let n: i64 = name.strip_prefix("txn ").unwrap().parse().unwrap();
            assert!(2 * n + 1 >= acknowledged, "{what}: {name} was ended before step {acknowledged}");
            assert_eq!(committed_before(n), rows, "{what}: {name}");
            session.run("SET lock_timeout = '5ms'").unwrap();
            for held in ["UPDATE account SET balance = 0 WHERE id = 1", &format!("INSERT INTO done VALUES ({n}, 'x')")]
            {
                let error = session.run(held).unwrap_err();
                assert!(["55P03", "40001"].contains(&error.state().0), "{what}: {held}: {error}");
            }
            session
                .run(
                    "UPDATE last SET step = step + 1; INSERT INTO nokey VALUES (-1); DELETE FROM nokey WHERE step = -1",
                )
                .unwrap();
            step(&mut session, 2 * n + 1);
            2 * n + 2
        }
        more => panic!("{what}: {more:?}"),
    };
    let rows = count(&mut session, "SELECT count(*) FROM done");
    assert_eq!(rows, committed_before(next / 2), "{what}");
    assert_eq!(count(&mut session, "SELECT count(*) FROM nokey"), rows, "{what}");
    assert_eq!(engine.check().unwrap(), Vec::<String>::new(), "{what}");
    next
}

fn crash_and_look(seed: u64, durability: Durability) -> usize {
    const STEPS: i64 = 60;
    let options = Options::new().durability(durability).log_bytes(64 << 10);
    let disk = SimDisk::of_new(seed, 2);
    let engine = Engine::open(disk.open(&options).unwrap()).unwrap();
    engine.set_prepared_max(2);
    let mut session = Session::new(&engine, "postgres");
    session.run(SETUP).unwrap();
    drop(disk.take_wrecks());
    for number in 0..STEPS {
        step(&mut session, number);
        disk.acknowledge(number as u64 + 1);
    }
    let wrecks = disk.take_wrecks();
    for (at, wreck) in wrecks.iter().enumerate() {
        let what = format!("seed {seed}, {durability:?}, crash {at}");
        let left = SimDisk::of_wreck(wreck, seed);
        let next = look(&Engine::open(left.open(&options).unwrap()).unwrap(), wreck.acknowledged() as i64, &what);
        let again = SimDisk::of_wreck(&left.durable(), seed);
        look(&Engine::open(again.open(&options).unwrap()).unwrap(), next, &format!("{what}, and another"));
    }
    wrecks.len()
}

#[test]
fn prepared_transactions_survive_a_crash_of_the_machine() {
    let wrecks = crash_and_look(1, Durability::Sync) + crash_and_look(2, Durability::SyncNoLog);
    assert!(wrecks > 20, "only {wrecks} crashes");
}

/// Prepares transactions and ends them until the process is killed.
#[test]
#[ignore = "a process that another test kills"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let engine = open(Path::new(&dir));
    let mut next = look(&engine, 0.max(std::env::var("COLIBRI_STEP").unwrap().parse().unwrap()), "the child");
    let mut session = Session::new(&engine, "postgres");
    loop {
        step(&mut session, next);
        next += 1;
        writeln!(std::io::stdout(), "step {next}").unwrap();
    }
}

#[test]
fn prepared_transactions_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    Session::new(&open(dir.path()), "postgres").run(SETUP).unwrap();
    let mut acknowledged = 0;
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["two_phase::child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .env("COLIBRI_STEP", acknowledged.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let steps = out.lines().map_while(Result::ok);
            let number = |line: String| line[line.find("step ")? + 5..].parse::<i64>().ok();
            steps.filter_map(number).last()
        });
        std::thread::sleep(Duration::from_millis(150 + 37 * round));
        assert!(child.try_wait().unwrap().is_none(), "round {round}: the child has ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = acknowledged.max(reader.join().unwrap().unwrap_or(0));
        acknowledged = look(&open(dir.path()), acknowledged, &format!("round {round}"));
    }
    assert!(acknowledged > 10, "only {acknowledged} steps");
}
