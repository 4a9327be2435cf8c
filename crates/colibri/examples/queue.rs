//! A queue of jobs in a table, for any number of workers: `cargo run --example queue`.
//!
//! `FOR UPDATE SKIP LOCKED` gives each worker the oldest job that no other has at the moment,
//! without waiting. A job leaves the table in the transaction that does it: when a worker fails,
//! its job is there again at once, and when the machine does, after the next start.

use std::sync::atomic::{AtomicU32, Ordering};

use colibri::sql::{Connection, Database, Error, Isolation, Result, TransactionOptions};

const JOBS: i64 = 60;
const WORKERS: u32 = 4;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path())?;
    let mut conn = db.connect();
    conn.batch(
        "CREATE TABLE jobs (id bigserial PRIMARY KEY, flower text NOT NULL);
         CREATE TABLE done (job bigint PRIMARY KEY, worker int NOT NULL)",
    )?;
    conn.execute(
        "INSERT INTO jobs (flower) SELECT 'flower ' || n FROM generate_series(1, $1::bigint) AS s (n)",
        (JOBS,),
    )?;

    let failures = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn({
                    let (db, failures) = (&db, &failures);
                    move || work(db, worker, failures)
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no thread panics"))
    })?;

    // Each job was done once, also those that failed at first.
    let count = |conn: &mut Connection, sql| conn.query_row(sql, ())?.get::<_, i64>(0);
    assert_eq!(count(&mut conn, "SELECT count(*) FROM jobs")?, 0);
    assert_eq!(count(&mut conn, "SELECT count(*) FROM done")?, JOBS);
    assert!(failures.into_inner() > 0);
    for row in conn.query("SELECT worker, count(*) AS jobs FROM done GROUP BY worker ORDER BY worker", ())? {
        println!("worker {} did {} jobs", row.get::<_, i32>("worker")?, row.get::<_, i64>("jobs")?);
    }
    Ok(())
}

/// Why a job was not done.
#[derive(Debug)]
enum Failed {
    Database(Error),
    Flower,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

/// Does jobs until there is none.
fn work(db: &Database, worker: u32, failures: &AtomicU32) -> Result<()> {
    let mut conn = db.connect();
    // The queue changes all the time and nothing is concluded from it: a serializable transaction
    // would be run again for each job that another worker takes meanwhile.
    let options = TransactionOptions::new().isolation(Isolation::ReadCommitted);
    loop {
        let outcome = conn.transaction_with(&options, |tx| {
            let job = tx.query_opt("SELECT id, flower FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", ())?;
            let Some(job) = job else { return Ok(false) };
            let id: i64 = job.get("id")?;
            tx.execute("DELETE FROM jobs WHERE id = $1", (id,))?;
            // Here the job is done. Now and then that goes wrong, and the job goes back to the
            // queue.
            if id % 20 == 0 && failures.fetch_add(1, Ordering::Relaxed) < 3 {
                return Err(Failed::Flower);
            }
            tx.execute("INSERT INTO done VALUES ($1, $2)", (id, worker as i32))?;
            Ok(true)
        });
        match outcome {
            Ok(true) | Err(Failed::Flower) => {}
            // Empty, but for what others are at and may yet give back; they do that themselves
            // then.
            Ok(false) => return Ok(()),
            Err(Failed::Database(error)) => return Err(error),
        }
    }
}

#[test]
fn it_runs() {
    main().expect("it runs to its end");
}
