//! What a SELECT is after each pass that has changed it: `passes/queries.txt` holds queries, each
//! with its SELECTs below it as the planner came to them, first as they were bound.
//! `COLIBRI_REWRITE=1 cargo test -p colibri-sql --test passes` writes them anew; look at what has
//! changed.

#![allow(clippy::unwrap_used, reason = "tests")]

use colibri_plan::planner::passes::seen;
use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};

#[test]
fn passes_rewrite_queries() {
    const SETUP: &str = "CREATE TABLE u (id int PRIMARY KEY, org int, name text);
        CREATE TABLE o (id int PRIMARY KEY, uid int, st text, v int); CREATE INDEX ON o (uid);
        CREATE TABLE n (k int, v int); INSERT INTO n SELECT g, g FROM generate_series(1, 1000) g;
        CREATE TABLE p (id int PRIMARY KEY, uid int UNIQUE, x int NOT NULL); CREATE SEQUENCE s;
        CREATE VIEW all_of_u AS SELECT u.id, u.name, p.x, u.org * 2 AS twice FROM u LEFT JOIN p ON p.uid = u.id";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/passes/queries.txt");
    let golden = std::fs::read_to_string(path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "postgres");
    session.run(SETUP).unwrap();
    let mut found = Vec::new();
    for block in golden.trim_end_matches('\n').split("\n\n") {
        let query = block.lines().next().unwrap();
        seen::watch();
        session.run(&format!("EXPLAIN {query}")).unwrap();
        found.push(format!("{query}\n{}", colibri_types::letters::trim_end(&seen::watched())));
    }
    if std::env::var_os("COLIBRI_REWRITE").is_some() {
        std::fs::write(path, found.join("\n\n") + "\n").unwrap();
        return;
    }
    for (found, block) in found.iter().zip(golden.trim_end_matches('\n').split("\n\n")) {
        assert_eq!(found, block, "a pass makes something else of a query");
    }
}
