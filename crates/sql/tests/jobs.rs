//! A queue of jobs in a table, taken with `FOR UPDATE SKIP LOCKED`: what a take looks at depends on
//! how many workers there are, and not on how many jobs were done before.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use clients::{Client, READ_COMMITTED, TestDatabase};

const TAKE: &str = "SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";

fn with_jobs(count: u32) -> TestDatabase {
    TestDatabase::new(&format!(
        "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, args text NOT NULL);
         INSERT INTO jobs (args) SELECT 'job ' || n FROM generate_series(1, {count}) AS s (n)"
    ))
}

/// Rows that the scan of a take gives, in a block that is taken back.
fn looked_at(db: &TestDatabase) -> u64 {
    let mut client = db.begun(READ_COMMITTED);
    let plan = client.ok(&format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {TAKE}"));
    client.ok("ROLLBACK");
    let scan = plan.iter().find(|line| line.contains("Scan")).unwrap();
    let (_, rows) = scan.split_once("rows=").unwrap();
    rows.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn take(client: &mut Client) -> i64 {
    client.ok(READ_COMMITTED);
    client.ok(TAKE)[0].parse().unwrap()
}

#[test]
fn a_take_looks_at_the_jobs_of_other_workers_and_at_its_own() {
    let db = with_jobs(100);
    assert_eq!(looked_at(&db), 1);
    let mut workers: Vec<Client> = (0..8).map(|_| db.client()).collect();
    for (worker, job) in workers.iter_mut().zip(1..) {
        assert_eq!(take(worker), job);
    }
    assert_eq!(looked_at(&db), 9);
    // The second is done first, and the first fails.
    workers[1].ok("DELETE FROM jobs WHERE id = 2");
    workers[1].ok("COMMIT");
    workers[0].ok("ROLLBACK");
    assert_eq!(take(&mut workers[0]), 1);
    assert_eq!(take(&mut workers[1]), 9);
    assert_eq!(looked_at(&db), 9);
}

#[test]
fn jobs_that_are_done_leave_nothing_to_step_over() {
    let db = with_jobs(5000);
    let mut worker = db.client();
    // A reader from before keeps the old states, which a take does not meet.
    let mut reader = db.begun("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(reader.ok("SELECT count(*) FROM jobs"), ["5000"]);
    for job in 1..=1000 {
        assert_eq!(take(&mut worker), job);
        worker.ok(&format!("DELETE FROM jobs WHERE id = {job}"));
        worker.ok("COMMIT");
    }
    worker.ok("DELETE FROM jobs WHERE id < 4900");
    assert_eq!(looked_at(&db), 1);
    assert_eq!(take(&mut worker), 4900);
    assert_eq!(reader.ok("SELECT count(*) FROM jobs"), ["5000"]);
}
