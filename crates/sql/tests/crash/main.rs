//! What SQL leaves when the process is killed, or the machine crashes: what was acknowledged is
//! there, nothing is there by half, tables and indexes fit together, and no sequence gives a value
//! twice.
//!
//! | file | holds |
//! | --- | --- |
//! | `kills` | a process that is killed, on a real file system |
//! | `machine` | sessions side by side on a simulated disk that loses, reorders and tears what was not flushed |
//! | `states` | random statements, changes of the catalogue included, on that disk: each crash leaves one of the committed states |
//! | `two_phase` | prepared transactions: both kinds of crash |
//!
//! Here is what sessions of the first two do, and how what they leave is looked at.

#![allow(clippy::unwrap_used, reason = "tests")]

mod kills;
mod machine;
mod states;
mod two_phase;

use std::sync::Arc;

use colibri_sql::{Datum, Engine, Session};
use rand::Rng;
use rand::rngs::StdRng;

const SESSIONS: usize = 4;

/// Money moves between accounts, and each move has two entries and a place in its session's ledger.
const SETUP: &str = "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, moves int NOT NULL DEFAULT 0);
    CREATE INDEX by_balance ON account (balance);
    CREATE TABLE entry (id bigserial PRIMARY KEY, account int NOT NULL REFERENCES account, amount bigint NOT NULL);
    CREATE INDEX by_account ON entry (account, id DESC);
    CREATE TABLE ledger (session int, n int, number bigint NOT NULL UNIQUE, note text, PRIMARY KEY (session, n))
        WITH (compression = lz4);
    CREATE TABLE nokey (session int, n int);
    CREATE SEQUENCE numbers;
    INSERT INTO account SELECT g, 1000 FROM generate_series(1, 20) AS g";

fn int(session: &mut Session, query: &str) -> i64 {
    let answers = session.run(query).unwrap();
    match &answers[0].rows.row(0)[0] {
        Datum::Int(value) => *value,
        Datum::Numeric(value) => value.to_string().parse().unwrap(),
        other => panic!("{query}: {other:?}"),
    }
}

fn done(session: &mut Session, number: usize) -> i64 {
    int(session, &format!("SELECT count(*) FROM ledger WHERE session = {number}"))
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
         INSERT INTO ledger (session, n, number, note) VALUES ({number}, {n}, nextval('numbers'), repeat('x', {amount} * 40)) RETURNING number"
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

/// Looks at what a crash left: for each session, the numbers of the moves that were acknowledged,
/// -1 where that is not known.
fn look(engine: &Arc<Engine>, acknowledged: &[Vec<i64>], what: &str) -> i64 {
    let mut session = Session::new(engine, "postgres");
    for (number, numbers) in acknowledged.iter().enumerate() {
        for (n, given) in numbers.iter().enumerate() {
            let query =
                format!("SELECT count(*) FROM ledger WHERE session = {number} AND n = {n} AND number = {given}");
            if *given >= 0 {
                assert_eq!(int(&mut session, &query), 1, "{what}: move {n} of session {number} is lost");
            }
        }
        // Most of the notes are long enough to be compressed.
        let wrong =
            format!("SELECT count(*) FROM ledger WHERE session = {number} AND note <> repeat('x', length(note))");
        assert_eq!(int(&mut session, &wrong), 0, "{what}: session {number} has a damaged note");
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
    check(engine, what);
    // No value that somebody was told of comes again.
    let highest = int(&mut session, "SELECT coalesce(max(number), 0) FROM ledger");
    let told = acknowledged.iter().flatten().copied().max().unwrap_or(0);
    assert!(int(&mut session, "SELECT nextval('numbers')") > highest.max(told), "{what}");
    moves
}

/// Tables and their indexes fit together, and so do the pages that they are on.
fn check(engine: &Engine, what: &str) {
    let (findings, none) = (engine.check().unwrap(), Vec::<String>::new());
    assert_eq!(findings, none, "{what}");
    let report = engine.local_store().unwrap().database().check().unwrap();
    assert!(report.is_clean(), "{what}: {report:?}");
}
