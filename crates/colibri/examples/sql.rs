//! SQL in a program, without a server: `cargo run --example sql`.
//!
//! Typed rows, a prepared statement, a transaction that runs again after a conflict, errors by
//! their code.

use colibri::sql::{Database, Error, Result};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path())?;
    let mut conn = db.connect(); // as many as there are threads
    conn.batch(
        "CREATE TABLE feeders (id int PRIMARY KEY, place text NOT NULL, nectar_ml int NOT NULL CHECK (nectar_ml >= 0));
         CREATE TABLE visits (id serial PRIMARY KEY, feeder int NOT NULL REFERENCES feeders, ml int NOT NULL);
         INSERT INTO feeders VALUES (1, 'porch', 500), (2, 'garden', 40)",
    )?;

    // Four threads, one transaction a visit: what is drunk is taken from the feeder, or neither
    // happens.
    std::thread::scope(|scope| {
        let birds: Vec<_> = (0..4).map(|_| scope.spawn(|| visit_often(&db, 1, 10))).collect();
        birds.into_iter().try_for_each(|bird| bird.join().expect("no thread panics"))
    })?;
    let left: i32 = conn.query_row("SELECT nectar_ml FROM feeders WHERE id = $1", (1,))?.get(0)?;
    assert_eq!(left, 500 - 4 * 10 * 5);

    // The code says what happened; the report has the constraint, the table, a hint.
    let error = drink(&mut conn, 2, 50).expect_err("there are 40 ml");
    println!("{} ({})", error, error.state().0);
    assert_eq!(error.report().constraint.as_deref(), Some("feeders_nectar_ml_check"));

    for row in conn.query(
        "SELECT place, count(visits.id) AS visits, coalesce(sum(ml), 0) AS ml
         FROM feeders LEFT JOIN visits ON feeder = feeders.id GROUP BY place ORDER BY place",
        (),
    )? {
        println!(
            "{:<8}{:>4} visits, {:>4} ml",
            row.get::<_, &str>("place")?,
            row.get::<_, i64>("visits")?,
            row.get::<_, i64>("ml")?
        );
    }
    Ok(())
}

fn visit_often(db: &Database, feeder: i32, visits: u32) -> Result<()> {
    let mut conn = db.connect();
    (0..visits).try_for_each(|_| drink(&mut conn, feeder, 5))
}

/// The closure runs again after a conflict, so it does nothing but ask the database.
fn drink(conn: &mut colibri::sql::Connection, feeder: i32, ml: i32) -> Result<()> {
    conn.transaction(|tx| {
        tx.execute("UPDATE feeders SET nectar_ml = nectar_ml - $2 WHERE id = $1", (feeder, ml))?;
        tx.execute("INSERT INTO visits (feeder, ml) VALUES ($1, $2)", (feeder, ml))?;
        Ok::<_, Error>(())
    })
}

#[test]
fn it_runs() {
    main().expect("it runs to its end");
}
