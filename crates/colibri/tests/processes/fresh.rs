//! Fresh copies of a database in process.

use colibri::sql::{Connection, Database};
use colibri::{Durability, Options};

use super::child::Process;

fn count(conn: &mut Connection, sql: &str) -> i64 {
    conn.query_row(sql, ()).unwrap().get(0).unwrap()
}

fn branches(db: &Database) -> usize {
    db.storage().unwrap().branches().unwrap().len()
}

#[test]
fn each_copy_begins_as_the_template_and_goes_with_its_last_user() {
    let dir = tempfile::tempdir().unwrap();
    let template = Database::open_with(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut conn = template.connect();
    conn.batch("CREATE TABLE t (id serial PRIMARY KEY, x int UNIQUE); INSERT INTO t (x) VALUES (1), (2)").unwrap();
    conn.batch("BEGIN; INSERT INTO t (x) VALUES (3)").unwrap();
    let (one, two) = (template.fresh().unwrap(), template.fresh().unwrap());
    conn.batch("COMMIT").unwrap();
    assert_eq!(branches(&template), 3);
    for (db, x) in [(&one, 10), (&two, 20)] {
        let mut conn = db.connect();
        assert_eq!(count(&mut conn, "SELECT count(*) FROM t"), 2, "what was not committed is not there");
        conn.execute("INSERT INTO t (x) VALUES ($1), ($1 + 1)", (x,)).unwrap();
        conn.batch("ALTER TABLE t ADD c text DEFAULT 'new'; CREATE TABLE u (a int)").unwrap();
        assert_eq!(conn.execute("INSERT INTO t (x) VALUES (1)", ()).unwrap_err().state().0, "23505");
    }
    // A copy of a copy; and the first one ends while that and a connection go on.
    let third = one.fresh().unwrap();
    let mut last = one.connect();
    drop(one);
    assert_eq!(count(&mut third.connect(), "SELECT sum(x)::bigint FROM t"), 1 + 2 + 10 + 11);
    third.connect().batch("DELETE FROM t").unwrap();
    assert_eq!(count(&mut last, "SELECT count(*) FROM t WHERE c = 'new'"), 4);
    assert_eq!(count(&mut conn, "SELECT count(*) FROM t"), 3);
    assert_eq!(branches(&template), 4);
    drop((two, last));
    // What the third one was made of lasts as long as that does.
    assert_eq!(branches(&template), 3);
    drop(third);
    assert_eq!(branches(&template), 1);
    assert_eq!(count(&mut conn, "SELECT count(*) FROM t"), 3);
}

#[test]
fn a_copy_keeps_its_template_open() {
    let dir = tempfile::tempdir().unwrap();
    let template = Database::open(dir.path()).unwrap();
    template.connect().batch("CREATE TABLE t (x int)").unwrap();
    let fresh = template.fresh().unwrap();
    drop(template);
    assert_eq!(Database::open(dir.path()).unwrap_err().state().0, "55006");
    assert_eq!(count(&mut fresh.connect(), "SELECT count(*) FROM t"), 0);
    drop(fresh);
    assert_eq!(branches(&Database::open(dir.path()).unwrap()), 1);
}

#[test]
fn copies_of_a_killed_process_go_and_other_branches_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Process::open(dir.path());
    assert_eq!(owner.ask("CREATE TABLE t (x int)"), "ok ");
    assert_eq!(owner.ask("fresh"), "fresh");
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.fresh().unwrap_err().state().0, "0A000", "a guest");
    drop(db.storage().unwrap().branch("kept").unwrap());
    assert_eq!(branches(&db), 3);
    owner.kill();
    assert_eq!(count(&mut db.connect(), "SELECT count(*) FROM t"), 0);
    let names: Vec<_> = db.storage().unwrap().branches().unwrap().into_iter().map(|branch| branch.name).collect();
    assert_eq!(names, ["main", "kept"]);
}

#[test]
fn copies_are_used_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let template = Database::open_with(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    template.connect().batch("CREATE TABLE t (x int); INSERT INTO t SELECT generate_series(1, 100)").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let template = &template;
            scope.spawn(move || {
                for round in 0..20 {
                    let fresh = template.fresh().unwrap();
                    let mut conn = fresh.connect();
                    conn.execute("UPDATE t SET x = x * $1", (thread * 100 + round,)).unwrap();
                    assert_eq!(
                        count(&mut conn, "SELECT sum(x)::bigint FROM t"),
                        5050 * i64::from(thread * 100 + round)
                    );
                }
            });
        }
    });
    assert_eq!(branches(&template), 1);
    assert_eq!(count(&mut template.connect(), "SELECT sum(x)::bigint FROM t"), 5050);
}
