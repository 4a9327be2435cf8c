//! Any text as SQL, a statement a line, over a small schema: rows or an error, never a panic, an
//! error that says that we are at fault, or endless work; whatever was done, tables and indexes fit
//! together.

#![no_main]

use std::sync::atomic::Ordering;

use colibri_sql::{Engine, Lifting, Progress, Rows, Session};
use colibri_storage::{Database, Durability, Options};
use libfuzzer_sys::fuzz_target;

const SCHEMA: &str = "SET work_mem = '16MB'; SET statement_timeout = 0;
    CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE, c numeric(6,2) CHECK (c < 1000), d timestamptz DEFAULT now(), e bigint);
    CREATE INDEX i ON t (c DESC, e); CREATE TABLE u (id serial PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE, f bool, g bytea);
    CREATE VIEW v AS SELECT a, count(u.id) AS n FROM t LEFT JOIN u ON u.t = a GROUP BY a; CREATE SEQUENCE s;
    INSERT INTO t SELECT g, 'x' || g, g / 3.0, '2024-02-29', g * 100 FROM generate_series(1, 20) AS g;
    INSERT INTO u (t, f, g) SELECT g, g % 2 = 0, '\\x00' FROM generate_series(1, 10) AS g";
/// Rows that a statement may look at before it is cancelled.
const BUDGET_ROWS: i64 = 20_000;

fn run(session: &mut Session, text: &str) {
    if Session::is_copy(text) {
        return;
    }
    let started = session.prepare(text, &[]).and_then(|prepared| session.start(&prepared, Vec::new()));
    let failed = match started {
        Err(error) => Some(error),
        Ok(mut running) => {
            let mut slices = 0;
            loop {
                match session.step(&mut running, &mut Rows::default(), BUDGET_ROWS / 4) {
                    Ok(Progress::Done(_)) => break None,
                    Ok(Progress::Wait(_) | Progress::Fetch(_) | Progress::Commits(_)) => panic!("{text}: there is nobody to wait for"),
                    Ok(_) => slices += 1,
                    Err(error) => break Some(error),
                }
                if slices > 4 {
                    session.cancel_flag().store(true, Ordering::Relaxed);
                }
                assert!(slices < 1_000, "{text}: a statement that is cancelled goes on");
            }
        }
    };
    if let Some(error) = failed {
        let code = error.state().0;
        assert!(!code.starts_with("XX"), "{text}: {code}: {error}");
    }
}

fuzz_target!(|input: (bool, &str)| {
    let (lifts, text) = input;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().durability(Durability::NoSync);
    let engine =
        Engine::open(Database::open(dir.path(), &options).expect("a new database opens")).expect("and is empty");
    let mut session = Session::new(&engine, "postgres");
    session.run(SCHEMA).expect("the schema is right");
    session.set_lifting(if lifts { Lifting::Always } else { Lifting::Never });
    text.lines().take(20).for_each(|line| run(&mut session, line));
    // A block that is open ends with its session.
    drop(session);
    assert_eq!(engine.check().expect("the database can be read"), [""; 0]);
});
