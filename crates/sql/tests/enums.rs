//! Enums and extensions beyond one session: after the database was opened again, after transactions
//! that were rolled back or lost, for plans and sessions that knew an older state of a type, and
//! through random additions of labels between others, with rows, keys and indexes there.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use colibri_sql::wire::{self, Format};
use colibri_sql::{Copy, Datum, Engine, Env, Session, Type};
use colibri_storage::{Database, Durability, Options};

fn open(dir: &Path) -> Arc<Engine> {
    Engine::open(Database::open(dir, &Options::new().durability(Durability::NoSync)).unwrap()).unwrap()
}

fn session(engine: &Arc<Engine>) -> Session {
    Session::new(engine, "postgres")
}

/// The rows of a query, each with bars between its values.
fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let answers = session.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let cell = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
    let rows = answers.last().unwrap().text_rows(session);
    rows.into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

fn code(session: &mut Session, text: &str) -> &'static str {
    session.run(text).unwrap_err().state().0
}

const SETUP: &str = "
    CREATE SCHEMA app;
    CREATE TYPE app.level AS ENUM ('low', 'high');
    CREATE TABLE t (id int PRIMARY KEY, level app.level DEFAULT 'high'::app.level, levels app.level[], dropped app.level[]);
    INSERT INTO t VALUES (1, 'low', '{high,low}', '{low}'), (2, DEFAULT, NULL, NULL);
    CREATE INDEX ON t (level DESC);
    CREATE TABLE keyed (level app.level PRIMARY KEY);
    INSERT INTO keyed VALUES ('high'), ('low');
    ALTER TYPE app.level ADD VALUE 'middle' AFTER 'low';
    INSERT INTO t (id, level, levels) VALUES (3, 'middle', '{middle}');
    ALTER TABLE t ADD COLUMN added app.level DEFAULT 'middle';
    ALTER TYPE app.level RENAME VALUE 'middle' TO 'mid';
    CREATE TYPE gone AS ENUM ('a');
    ALTER TABLE t ADD COLUMN gone gone[] DEFAULT '{a}';
    UPDATE t SET levels[1] = 'low' WHERE id = 1;
    DROP TYPE gone CASCADE;
    ALTER TABLE t DROP COLUMN dropped;
    CREATE EXTENSION pgcrypto;
    COMMENT ON TYPE app.level IS 'how much';
";

#[test]
fn what_was_defined_is_there_after_the_database_was_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    session(&open(dir.path())).run(SETUP).unwrap();
    for _ in 0..2 {
        let engine = open(dir.path());
        assert_eq!(engine.check().unwrap(), Vec::<String>::new());
        let mut session = session(&engine);
        assert_eq!(
            rows(&mut session, "SELECT * FROM t ORDER BY level, id"),
            ["1|low|{low,low}|mid", "3|mid|{mid}|mid", "2|high|NULL|mid"]
        );
        assert_eq!(rows(&mut session, "SELECT level FROM keyed WHERE level < 'high'"), ["low"]);
        assert_eq!(rows(&mut session, "SELECT id FROM t WHERE level = 'mid'"), ["3"]);
        assert_eq!(rows(&mut session, "SELECT enum_range(NULL::app.level)"), ["{low,mid,high}"]);
        assert_eq!(rows(&mut session, "SELECT extname FROM pg_extension ORDER BY 1"), ["pgcrypto", "plpgsql"]);
        assert_eq!(rows(&mut session, "SELECT obj_description('app.level'::regtype, 'pg_type')"), ["how much"]);
        assert_eq!(code(&mut session, "SELECT 'a'::gone"), "42704");
        assert_eq!(code(&mut session, "INSERT INTO t VALUES (4, 'middle')"), "22P02");
        session.run("BEGIN; INSERT INTO t VALUES (4); DELETE FROM t WHERE level = 'high'; ROLLBACK").unwrap();
    }
    let engine = open(dir.path());
    let mut session = session(&engine);
    session.run("DROP TYPE app.level CASCADE").unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY id"), ["1", "2", "3"]);
    drop(session);
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(engine.check().unwrap(), Vec::<String>::new());
    assert_eq!(rows(&mut self::session(&engine), "SELECT count(*) FROM pg_enum"), ["0"]);
}

#[test]
fn changes_that_are_rolled_back_or_lost_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut one = session(&engine);
    one.run("CREATE TYPE m AS ENUM ('a', 'c'); CREATE TABLE t (x m); INSERT INTO t VALUES ('c'), ('a')").unwrap();
    one.run("BEGIN; ALTER TYPE m ADD VALUE 'b' BEFORE 'c'; ALTER TYPE m RENAME VALUE 'a' TO 'z'").unwrap();
    one.run("INSERT INTO t VALUES ('b')").unwrap();
    assert_eq!(rows(&mut one, "SELECT x FROM t ORDER BY x"), ["z", "b", "c"]);
    // Others see nothing of it.
    let mut two = session(&engine);
    assert_eq!(rows(&mut two, "SELECT x FROM t ORDER BY x"), ["a", "c"]);
    assert_eq!(code(&mut two, "SELECT 'b'::m"), "22P02");
    one.run("SAVEPOINT s; DROP TYPE m CASCADE; ROLLBACK TO s").unwrap();
    assert_eq!(rows(&mut one, "SELECT x FROM t ORDER BY x"), ["z", "b", "c"]);
    one.run("ROLLBACK").unwrap();
    assert_eq!(rows(&mut one, "SELECT x FROM t ORDER BY x"), ["a", "c"]);
    assert_eq!(rows(&mut one, "SELECT enum_range(NULL::m)"), ["{a,c}"]);
    // What is not committed is lost with its session.
    one.run("BEGIN; CREATE TYPE n AS ENUM ('a'); ALTER TYPE m ADD VALUE 'd'").unwrap();
    drop((one, two));
    drop(engine);
    let engine = open(dir.path());
    let mut session = session(&engine);
    assert_eq!(rows(&mut session, "SELECT enum_range(NULL::m)"), ["{a,c}"]);
    assert_eq!(code(&mut session, "SELECT 'a'::n"), "42704");
}

#[test]
fn plans_and_parameters_follow_the_newest_labels() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut two) = (session(&engine), session(&engine));
    one.run("CREATE TYPE m AS ENUM ('a', 'c'); CREATE TABLE t (x m PRIMARY KEY); INSERT INTO t VALUES ('c'), ('a')")
        .unwrap();
    one.run(
        "PREPARE put (m) AS INSERT INTO t VALUES ($1); PREPARE range (m) AS SELECT x FROM t WHERE x >= $1 ORDER BY x",
    )
    .unwrap();
    assert_eq!(rows(&mut one, "EXECUTE range ('c')"), ["c"]);
    let prepared = one.prepare("SELECT x FROM t WHERE x = $1", &[]).unwrap();
    let [Type::Enum(_)] = prepared.params() else { panic!("{:?}", prepared.params()) };
    two.run("ALTER TYPE m ADD VALUE 'b' BEFORE 'c'; INSERT INTO t VALUES ('b')").unwrap();
    assert_eq!(rows(&mut one, "EXECUTE range ('b')"), ["b", "c"]);
    two.run("ALTER TYPE m ADD VALUE 'd'").unwrap();
    one.run("EXECUTE put ('d')").unwrap();
    assert_eq!(rows(&mut two, "SELECT x FROM t ORDER BY x"), ["a", "b", "c", "d"]);
    two.run("ALTER TYPE m RENAME VALUE 'd' TO 'e'").unwrap();
    assert_eq!(rows(&mut one, "EXECUTE range ('b')"), ["b", "c", "e"]);
}

#[test]
fn clients_send_and_get_labels_in_both_formats() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = session(&engine);
    session.run("CREATE TYPE m AS ENUM ('one', 'two')").unwrap();
    let of = |session: &mut Session, text: &str| session.prepare(text, &[]).unwrap().columns().unwrap()[0].ty;
    let (ty, array) = (of(&mut session, "SELECT 'two'::m"), of(&mut session, "SELECT '{two,one}'::m[]"));
    let env = Env::default();
    for format in [Format::Text, Format::Binary] {
        let value = wire::read(ty.ty, format, b"two", &env).unwrap();
        assert!(matches!(value, Datum::Int(_)));
        let mut out = Vec::new();
        wire::write(ty, format, &value, &env, &mut String::new(), &mut out);
        assert_eq!(out, b"two");
        assert_eq!(wire::read(ty.ty, format, b"three", &env).unwrap_err().state().0, "22P02");
        let both = wire::read(array.ty, Format::Text, b"{two,one}", &env).unwrap();
        let mut out = Vec::new();
        wire::write(array, format, &both, &env, &mut String::new(), &mut out);
        assert_eq!(wire::read(array.ty, format, &out, &env).unwrap(), both);
        if format == Format::Binary {
            assert_eq!(&out[8..12], &ty.ty.oid().to_be_bytes());
            assert!(out.ends_with(b"\0\0\0\x03one"));
        }
    }
}

#[test]
fn rows_and_keys_stay_in_order_whatever_labels_are_added() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path());
    let mut session = session(&engine);
    session
        .run("CREATE TYPE m AS ENUM ('l0'); CREATE TABLE k (x m PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY, x m)")
        .unwrap();
    session.run("CREATE INDEX ON t (x); CREATE INDEX ON t (x DESC, id); INSERT INTO k VALUES ('l0')").unwrap();
    let mut labels = vec!["l0".to_owned()];
    for number in 1..60 {
        let at = random.usize(..labels.len());
        let (word, to) = if random.bool() { ("BEFORE", at) } else { ("AFTER", at + 1) };
        session.run(&format!("ALTER TYPE m ADD VALUE 'l{number}' {word} '{}'", labels[at])).unwrap();
        labels.insert(to, format!("l{number}"));
        session.run(&format!("INSERT INTO k VALUES ('l{number}')")).unwrap();
        let other = &labels[random.usize(..labels.len())];
        session.run(&format!("INSERT INTO t VALUES ({number}, '{other}')")).unwrap();
        if number % 20 == 0 {
            drop(session);
            drop(engine);
            engine = open(dir.path());
            session = self::session(&engine);
        }
        assert_eq!(rows(&mut session, "SELECT x FROM k ORDER BY x"), labels);
        let low = random.usize(..labels.len());
        let mut above = rows(&mut session, &format!("SELECT x FROM t WHERE x >= '{}' ORDER BY x, id", labels[low]));
        let place = |label: &String| labels.iter().position(|known| known == label).unwrap();
        assert!(above.iter().map(place).is_sorted() && above.iter().map(place).all(|place| place >= low));
        let down = rows(&mut session, &format!("SELECT x FROM t WHERE x >= '{}' ORDER BY x DESC, id", labels[low]));
        above.reverse();
        assert_eq!(above, down);
    }
    assert_eq!(engine.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_gap_that_is_full_is_told_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = session(&engine);
    session.run("CREATE TYPE m AS ENUM ('first', 'last')").unwrap();
    let mut count = 0;
    let failed = loop {
        match session.run(&format!("ALTER TYPE m ADD VALUE 'l{count}' BEFORE 'last'")) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((failed.state().0, count), ("54000", 44));
    assert_eq!(rows(&mut session, "SELECT count(*) FROM pg_enum"), ["46"]);
    session.run("ALTER TYPE m ADD VALUE 'behind' AFTER 'last'").unwrap();
}

/// Bug: rows were written with the columns that were known when the statement was prepared.
/// Consequence: a label that was added since was shown as a number, and nothing in binary form. Fix:
/// rows are written with the labels that the session sees.
#[test]
fn rows_of_prepared_statements_and_cursors_have_the_newest_labels() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut two) = (session(&engine), session(&engine));
    one.run("CREATE TYPE m AS ENUM ('a', 'c'); CREATE TABLE t (x m, y m[]); INSERT INTO t VALUES ('a', '{c}')")
        .unwrap();
    let prepared = one.prepare("SELECT x, y FROM t ORDER BY x", &[]).unwrap();
    let returning = one.prepare("INSERT INTO t VALUES ($1, ARRAY[$1]) RETURNING x, y", &[]).unwrap();
    one.run("PREPARE p AS SELECT x, y FROM t ORDER BY x").unwrap();
    let execute = one.prepare("EXECUTE p", &[]).unwrap();
    let shown = |session: &mut Session, prepared, params| {
        let answer = session.execute(prepared, params).unwrap();
        let rows = answer.text_rows(session);
        rows.into_iter()
            .map(|row| row.into_iter().map(Option::unwrap).collect::<Vec<_>>().join("|"))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut one, &prepared, vec![]), ["a|{c}"]);
    two.run("ALTER TYPE m ADD VALUE 'b' BEFORE 'c'; INSERT INTO t VALUES ('b', '{b,a}')").unwrap();
    assert_eq!(shown(&mut one, &prepared, vec![]), ["a|{c}", "b|{b,a}"]);
    assert_eq!(shown(&mut one, &execute, vec![]), ["a|{c}", "b|{b,a}"]);
    two.run("ALTER TYPE m RENAME VALUE 'b' TO 'bee'").unwrap();
    assert_eq!(shown(&mut one, &prepared, vec![]), ["a|{c}", "bee|{bee,a}"]);
    assert_eq!(shown(&mut one, &execute, vec![]), ["a|{c}", "bee|{bee,a}"]);
    two.run("ALTER TYPE m ADD VALUE 'd'").unwrap();
    let types = one.current_types(returning.params()).unwrap().into_owned();
    let Type::Enum(of) = types[0] else { panic!("{types:?}") };
    let last = Datum::Int(of.place_of("d").unwrap());
    assert_eq!(shown(&mut one, &returning, vec![last]), ["d|{d}"]);
    // In the block that changes the type.
    one.run("BEGIN; DECLARE c CURSOR FOR SELECT x FROM t ORDER BY x").unwrap();
    let fetch = one.prepare("FETCH 2 FROM c", &[]).unwrap();
    assert_eq!(shown(&mut one, &fetch, vec![]), ["a", "bee"]);
    one.run("ALTER TYPE m RENAME VALUE 'd' TO 'end'").unwrap();
    assert_eq!(shown(&mut one, &fetch, vec![]), ["end"]);
    assert_eq!(shown(&mut one, &prepared, vec![])[2], "end|{end}");
    one.run("ROLLBACK").unwrap();
    assert_eq!(shown(&mut one, &prepared, vec![])[2], "d|{d}");
}

#[test]
fn copy_gives_labels_that_were_added_since_it_was_planned() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut two) = (session(&engine), session(&engine));
    one.run("CREATE TYPE m AS ENUM ('a', 'b'); CREATE TABLE t (x m)").unwrap();
    let Copy::To(mut copy) = one.copy("COPY (SELECT x, ARRAY[x] FROM t ORDER BY x) TO STDOUT").unwrap() else {
        panic!("COPY TO")
    };
    two.run("ALTER TYPE m ADD VALUE 'c' BEFORE 'b'; INSERT INTO t VALUES ('c'), ('b')").unwrap();
    let mut out = Vec::new();
    one.copy_drive(&mut copy, &mut |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    assert_eq!(String::from_utf8_lossy(&out), "c\t{c}\nb\t{b}\n");
}

#[test]
fn types_that_others_have_made_are_found_by_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut two) = (session(&engine), session(&engine));
    assert_eq!(rows(&mut one, "SELECT 1"), ["1"]);
    two.run("CREATE TYPE m AS ENUM ('a')").unwrap();
    let number = |session: &mut Session, text: &str| rows(session, text)[0].parse::<u32>().unwrap();
    let ty = number(&mut two, "SELECT oid FROM pg_type WHERE typname = 'm'");
    let array = number(&mut two, "SELECT typarray FROM pg_type WHERE typname = 'm'");
    assert!(matches!(one.type_numbered(ty).unwrap(), Some(Type::Enum(_))));
    two.run("CREATE TYPE n AS ENUM ('a')").unwrap();
    assert!(one.type_numbered(array).unwrap().is_some_and(|ty| ty.is_array()));
    assert_eq!(one.type_numbered(array + 1000).unwrap(), None);
    assert_eq!(one.type_numbered(9).unwrap(), None);
}

/// Bug: each label of a new type was compared with all before it, without a look at the time.
/// Consequence: a type of many labels held the catalogue's lock for minutes, past
/// `statement_timeout`. Fix: labels are found by hashes.
#[test]
fn a_type_of_many_labels_is_made_in_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = session(&engine);
    let labels =
        (0..60_000).map(|at| format!("'a label that begins as others do {at}'")).collect::<Vec<_>>().join(", ");
    let began = std::time::Instant::now();
    session.run(&format!("CREATE TYPE m AS ENUM ({labels})")).unwrap();
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    assert_eq!(rows(&mut session, "SELECT count(*) FROM pg_enum"), ["60000"]);
    assert_eq!(
        code(&mut session, &format!("CREATE TYPE n AS ENUM ({labels}, 'a label that begins as others do 7')")),
        "23505"
    );
}

#[test]
fn labels_are_renamed_in_views_over_views_and_with_quotes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = session(&engine);
    session
        .run(
            "CREATE TYPE m AS ENUM ('a', 'b'); CREATE TABLE t (x m CHECK (x IN ('a', 'b')), y text);
             INSERT INTO t VALUES ('a', 'a');
             CREATE VIEW v AS SELECT x, y FROM t WHERE x IN (SELECT x FROM t WHERE x = 'a') AND y = 'a';
             CREATE VIEW w AS SELECT * FROM v WHERE x = ANY ('{a}')",
        )
        .unwrap();
    session.run("ALTER TYPE m RENAME VALUE 'a' TO 'it''s \"1\"'").unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM w"), ["it's \"1\"|a"]);
    session.run("INSERT INTO t VALUES ('it''s \"1\"', 'b')").unwrap();
    session.run("ALTER TYPE m RENAME VALUE 'it''s \"1\"' TO 'a'").unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM w"), ["a|a"]);
}
