//! `pg_dump`, `pg_dumpall` and `pg_restore` of PostgreSQL 15 on Colibri: a database of everything
//! that Colibri has is dumped in each format, restored into Colibri and into PostgreSQL, and
//! compared object by object. PostgreSQL's own dump of the same database says what there should be.
//!
//! Without PostgreSQL 15 the tests pass visibly without testing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod served;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use served::Served;
use served::postgres::{PROGRAMS, Postgres};

const ROLES: &str = include_str!("foreign/roles.sql");
const EVERYTHING: &str = include_str!("foreign/everything.sql");

/// What Colibri accepts and ignores, so that no dump of Colibri has it.
const IGNORED: [&str; 3] = [
    " WITH (security_barrier='true')",
    "ALTER TABLE ONLY app.people ALTER COLUMN name SET STATISTICS 500;",
    "WITH (fillfactor='70')",
];

/// A server that PostgreSQL's programs can be pointed at.
struct Place {
    host: String,
    port: String,
}

impl Place {
    fn colibri(server: &Served) -> Self {
        Self { host: server.address.ip().to_string(), port: server.address.port().to_string() }
    }

    fn postgres(server: &Postgres) -> Self {
        Self { host: server.host(), port: "5432".to_owned() }
    }

    fn run(&self, program: &str, args: &[&str], input: &str) -> String {
        let mut child = Command::new(format!("{PROGRAMS}/{program}"))
            .args(["-h", &self.host, "-p", &self.port, "-U", "postgres"])
            .args(args)
            .env("PGTZ", "UTC")
            .env("PGOPTIONS", "-c default_transaction_isolation=repeatable\\ read")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || _ = stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a script, which must not fail anywhere.
    fn load(&self, database: &str, sql: &str) {
        self.run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-f", "-"], sql);
    }

    fn ask(&self, database: &str, sql: &str) -> String {
        self.run("psql", &["-X", "-At", "-d", database, "-c", sql], "")
    }

    fn dump(&self, database: &str) -> Objects {
        objects(&self.run("pg_dump", &[database], ""))
    }
}

/// The objects of a dump: what the comment in front of each says, and its SQL.
type Objects = BTreeMap<String, String>;

fn objects(dump: &str) -> Objects {
    let mut found = Objects::new();
    let mut name = String::new();
    for line in dump.lines() {
        if let Some(header) = line.strip_prefix("-- Name: ").or_else(|| line.strip_prefix("-- Data for Name: ")) {
            name = line[3..].to_owned();
            assert!(!found.contains_key(&name), "two objects: {header}");
            found.insert(name.clone(), String::new());
        } else if !line.is_empty()
            && line != "--"
            && !line.starts_with("\\restrict")
            && !line.starts_with("\\unrestrict")
            && !line.starts_with("-- Dumped ")
            && !line.starts_with("-- PostgreSQL database")
            && !name.is_empty()
        {
            // What a session sets in front of an object depends on the object before it.
            if !line.starts_with("SET default_") {
                found.get_mut(&name).unwrap().push_str(&format!("{line}\n"));
            }
        }
    }
    for (name, sql) in &mut found {
        if name.starts_with("Data for ") {
            let mut lines: Vec<&str> = sql.lines().collect();
            lines.sort_unstable();
            *sql = lines.join("\n");
        }
    }
    found
}

fn without_ignored(objects: Objects) -> Objects {
    let without = |mut sql: String| {
        for ignored in IGNORED {
            sql = sql.replace(ignored, "");
        }
        // Each dump puts the condition of a trigger in parentheses once more.
        let sql = sql.replace("WHEN (((", "WHEN ((").replace("))) EXECUTE", ")) EXECUTE");
        sql.replace("\n)\n;", "\n);").replace("CREATE UNLOGGED", "CREATE").replace("\n\n", "\n")
    };
    objects.into_iter().map(|(name, sql)| (name, without(sql))).collect()
}

#[track_caller]
fn assert_same(what: &str, found: &Objects, expected: &Objects) {
    let mut differences = String::new();
    for (name, sql) in expected {
        match found.get(name) {
            None => differences.push_str(&format!("missing: {name}\n")),
            Some(found) if found != sql => {
                differences.push_str(&format!("{name}\n--- expected\n{sql}--- found\n{found}\n"));
            }
            Some(_) => {}
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        differences.push_str(&format!("not expected: {name}\n"));
    }
    assert!(differences.is_empty(), "{what}:\n{differences}");
}

#[test]
fn what_pg_dump_writes_in_each_format_restores_into_colibri_and_into_postgresql() {
    let Some(postgres) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(&dir.path().join("server"));
    let (ours, theirs) = (Place::colibri(&served), Place::postgres(&postgres));
    for place in [&ours, &theirs] {
        place.load("postgres", ROLES);
        place.ask("postgres", "CREATE DATABASE everything");
        place.load("everything", EVERYTHING);
    }
    let (of_ours, of_theirs) = (ours.dump("everything"), without_ignored(theirs.dump("everything")));
    assert_eq!(of_ours.keys().collect::<Vec<_>>(), of_theirs.keys().collect::<Vec<_>>());

    for (format, letter) in [("plain", "p"), ("custom", "c"), ("directory", "d"), ("tar", "t")] {
        let file = dir.path().join(format);
        let file = file.to_str().unwrap();
        ours.run("pg_dump", &["-F", letter, "-f", file, "everything"], "");
        for (place, expected) in [(&ours, &of_ours), (&theirs, &of_theirs)] {
            place.ask("postgres", &format!("CREATE DATABASE {format}"));
            if letter == "p" {
                place.load(format, &std::fs::read_to_string(file).unwrap());
            } else {
                place.run("pg_restore", &["-e", "-d", format, file], "");
            }
            assert_same(format, &without_ignored(place.dump(format)), expected);
        }
    }

    // What PostgreSQL writes of its own database comes to the same.
    let text = theirs.run("pg_dump", &["everything"], "");
    ours.ask("postgres", "CREATE DATABASE from_theirs");
    ours.load("from_theirs", &text);
    let text = ours.run("pg_dump", &["from_theirs"], "");
    theirs.ask("postgres", "CREATE DATABASE and_back");
    theirs.load("and_back", &text);
    assert_same("there and back", &without_ignored(theirs.dump("and_back")), &of_theirs);
}

#[test]
fn parts_of_a_database_are_dumped_and_restored() {
    let Some(_postgres) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(&dir.path().join("server"));
    let ours = Place::colibri(&served);
    ours.load("postgres", ROLES);
    ours.load("postgres", EVERYTHING);
    let all = ours.dump("postgres");

    let schema = objects(&ours.run("pg_dump", &["--schema-only", "postgres"], ""));
    assert!(schema.keys().all(|name| !name.starts_with("Data for ")));
    let data = objects(&ours.run("pg_dump", &["--data-only", "postgres"], ""));
    assert!(data.keys().any(|name| name.starts_with("Data for Name: people;")));
    let mut both = schema;
    both.extend(data);
    // To refresh materialized views is neither.
    let mut expected = all.clone();
    expected.retain(|name, _| !name.contains("MATERIALIZED VIEW DATA"));
    assert_same("schema and data", &both, &expected);

    let one = objects(&ours.run("pg_dump", &["--table", "app.nokey", "postgres"], ""));
    assert!(one.keys().all(|name| name.contains("nokey")), "{:?}", one.keys());
    let text = ours.run("pg_dump", &["--inserts", "--table", "app.nokey", "postgres"], "");
    assert!(text.contains("INSERT INTO app.nokey VALUES (1, NULL);"), "{text}");

    // Several processes read one state, and several restore.
    let file = dir.path().join("parallel");
    let file = file.to_str().unwrap();
    ours.run("pg_dump", &["-F", "d", "-f", file, "postgres"], "");
    ours.ask("postgres", "CREATE DATABASE parallel");
    ours.run("pg_restore", &["-e", "-j", "3", "-d", "parallel", file], "");
    assert_same("restored in parallel", &without_ignored(ours.dump("parallel")), &without_ignored(all.clone()));
}

#[test]
fn what_pg_dumpall_writes_makes_the_same_server() {
    let Some(_postgres) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str| Served::start(&Path::new(dir.path()).join(name));
    let (first, second) = (start("first"), start("second"));
    let (first, second) = (Place::colibri(&first), (Place::colibri(&second), second));
    first.load("postgres", ROLES);
    first.ask("postgres", "CREATE DATABASE everything");
    first.load("everything", EVERYTHING);
    let dump = |place: &Place| {
        let text = place.run("pg_dumpall", &[], "");
        let kept = |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
        let text = text.lines().filter(kept).collect::<Vec<_>>().join("\n");
        // Each dump puts the condition of a trigger in parentheses once more.
        text.replace("WHEN (((", "WHEN ((").replace("))) EXECUTE", ")) EXECUTE")
    };
    let text = dump(&first);
    // The users that a server begins with are there.
    let is_there = |line: &&str| *line != "CREATE ROLE postgres;" && !line.starts_with("CREATE ROLE root;");
    let script = text.lines().filter(is_there).collect::<Vec<_>>().join("\n");
    // Superusers have it without being told.
    let script = script.replace(" NOBYPASSRLS", "").replace(" BYPASSRLS", "");
    second.0.load("postgres", &script);
    assert_eq!(dump(&second.0), text);
}
