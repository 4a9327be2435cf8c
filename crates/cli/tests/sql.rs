//! `colibri sql`, end to end: what a person or a script types, and what comes back.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// A directory that goes away, to run the command in; the database is `birds`.
struct Place(tempfile::TempDir);

struct Outcome {
    code: i32,
    text: String,
    errors: String,
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn with_table() -> Self {
        let place = Self::new();
        place.well(&["-c", "CREATE TABLE t (id int PRIMARY KEY, name text, weight numeric(6,2))"]);
        place.well(&["-c", "INSERT INTO t VALUES (1, 'bee', 1.95), (2, NULL, 20), (3, 'a,\"b\"', NULL)"]);
        place
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
        command.args(["sql", "birds"]).args(args).current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run_with(&self, args: &[&str], input: &str) -> Outcome {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the command starts");
        // One that stops early does not read all of it.
        _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("the command ends");
        Outcome {
            code: output.status.code().expect("no signal ended it"),
            text: String::from_utf8(output.stdout).expect("UTF-8"),
            errors: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// What must succeed; gives standard output.
    #[track_caller]
    fn well(&self, args: &[&str]) -> String {
        self.well_with(args, "")
    }

    #[track_caller]
    fn well_with(&self, args: &[&str], input: &str) -> String {
        let outcome = self.run_with(args, input);
        assert_eq!((outcome.code, outcome.errors.as_str()), (0, ""), "{args:?}: {}", outcome.text);
        outcome.text
    }

    #[track_caller]
    fn check_fails(&self, args: &[&str], input: &str, code: i32, errors: &str) {
        let outcome = self.run_with(args, input);
        assert_eq!((outcome.code, outcome.errors.as_str()), (code, errors));
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("room");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).expect("it is there")
    }
}

#[test]
fn results_are_aligned_as_psql_does() {
    let place = Place::with_table();
    let expected = " id | name  | weight \n----+-------+--------\n  1 | bee   |   1.95\n  2 |       |  20.00\n  \
                    3 | a,\"b\" |       \n(3 rows)\n\n";
    assert_eq!(place.well(&["-c", "SELECT * FROM t ORDER BY id"]), expected);
    let expanded = place.well_with(&[], "\\x\nSELECT id, name FROM t WHERE id < 3;");
    assert_eq!(expanded, "-[ RECORD 1 ]\nid   | 1\nname | bee\n-[ RECORD 2 ]\nid   | 2\nname |\n\n");
    assert_eq!(place.well(&["-c", "UPDATE t SET name = 'x' WHERE id = 2"]), "UPDATE 1\n");
}

#[test]
fn results_for_programs_are_csv_and_json() {
    let place = Place::with_table();
    let query = "SELECT * FROM t ORDER BY id";
    let csv = place.well(&["--format", "csv", "-c", query]);
    assert_eq!(csv, "id,name,weight\n1,bee,1.95\n2,,20.00\n3,\"a,\"\"b\"\"\",\n");
    let json = place.well(&["--format", "json", "-c", query]);
    let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let expected = serde_json::json!([
        {"id": 1, "name": "bee", "weight": 1.95},
        {"id": 2, "name": null, "weight": 20.00},
        {"id": 3, "name": "a,\"b\"", "weight": null},
    ]);
    assert_eq!(rows, expected);
    assert_eq!(place.well(&["--format", "json", "-c", "SELECT 1 WHERE false"]), "[]\n");
    assert_eq!(place.well(&["--format", "csv", "-c", "SELECT 1 AS a WHERE false"]), "a\n");
    assert_eq!(place.well(&["--format", "csv", "-c", "DELETE FROM t"]), "");
}

#[test]
fn errors_say_where_and_why() {
    let place = Place::with_table();
    let errors = "ERROR:  column \"nme\" does not exist\nLINE 1: SELECT nme FROM t\n               ^\n";
    place.check_fails(&["-c", "SELECT nme FROM t"], "", 1, errors);
    let errors =
        "ERROR:  duplicate key value violates unique constraint \"t_pkey\"\nDETAIL:  Key (id)=(1) already exists.\n";
    place.check_fails(&["-c", "INSERT INTO t VALUES (1)"], "", 1, errors);
    let script = "-- a comment\nSELECT 1;\n\nSELECT\n  2/0;\n\\nonsense\nSELECT x;";
    let errors = "<stdin>:4: ERROR:  division by zero\n\
                  <stdin>:6: invalid command \\nonsense: \\? lists those that there are\n\
                  <stdin>:7: ERROR:  column \"x\" does not exist\nLINE 1: SELECT x\n               ^\n";
    place.check_fails(&[], script, 0, errors);
}

/// As psql does, which goes on unless ON_ERROR_STOP is set. Bug: the shell kept notices to itself.
/// Consequence: the user did not see what `DROP … CASCADE` dropped. Fix: they come as psql prints
/// them.
#[test]
fn notices_and_warnings_are_printed_with_their_place() {
    let place = Place::with_table();
    let script = "CREATE VIEW v AS SELECT id FROM t;\nDROP TABLE t CASCADE;\nCOMMIT;\n";
    let outcome = place.run_with(&[], script);
    assert_eq!((outcome.code, outcome.text.as_str()), (0, "CREATE VIEW\nDROP TABLE\nCOMMIT\n"));
    let expected =
        "<stdin>:2: NOTICE:  drop cascades to view v\n<stdin>:3: WARNING:  there is no transaction in progress\n";
    assert_eq!(outcome.errors, expected);
}

#[test]
fn scripts_go_on_after_an_error_unless_told_to_stop() {
    let place = Place::with_table();
    let kept = |count: u32, what: &str| {
        let text = place.well(&["--format", "csv", "-c", "SELECT count(*) FROM t"]);
        assert_eq!(text, format!("count\n{count}\n"), "{what}");
    };
    let script = "SELECT 2/0;\nDELETE FROM t WHERE id = 1;\n";
    let errors = |name: &str| format!("{name}:1: ERROR:  division by zero\n");
    place.write("script.sql", script);
    place.check_fails(&["-v", "ON_ERROR_STOP=1", "-f", "script.sql"], "", 3, &errors("script.sql"));
    place.check_fails(&["--set", "ON_ERROR_STOP=on"], script, 3, &errors("<stdin>"));
    place.check_fails(
        &["-f", "-"],
        &format!("\\set ON_ERROR_STOP on\n{script}"),
        3,
        "<stdin>:2: ERROR:  division by zero\n",
    );
    place.write("outer.sql", "\\i script.sql\nDELETE FROM t WHERE id = 2;\n");
    place.check_fails(&["-v", "ON_ERROR_STOP=1", "-f", "outer.sql"], "", 3, &errors("script.sql"));
    kept(3, "nothing was deleted");
    place.check_fails(&["-v", "ON_ERROR_STOP=0", "-f", "outer.sql"], "", 0, &errors("script.sql"));
    kept(1, "both scripts went on");
    // COPY in a transaction that has failed: its rows are rows, and no statements.
    let copy = "BEGIN;\nSELECT 1/0;\nCOPY t FROM STDIN;\nROLLBACK;\n\\.\n";
    let failed = "ERROR:  current transaction is aborted, commands ignored until end of transaction block\n";
    let errors = format!("<stdin>:2: ERROR:  division by zero\n<stdin>:3: {failed}");
    place.check_fails(&[], &format!("{copy}ROLLBACK;\nDELETE FROM t;"), 0, &errors);
    kept(0, "it went on behind COPY");
    // Rows that are wrong are left out to the end of their list.
    let copy = "COPY t FROM STDIN;\nx\ty\tz\n7\tseven\t7\nDELETE FROM t;\n\\.\nINSERT INTO t VALUES (8);\n";
    let errors = "<stdin>:1: ERROR:  invalid input syntax for type integer: \"x\"\n\
                  CONTEXT:  COPY t, line 1, column id: \"x\"\n";
    place.check_fails(&[], copy, 0, errors);
    kept(1, "only what stands behind the rows");
    let outcome = place.run_with(&["-v", "VERBOSITY=terse", "-c", "SELECT 1"], "");
    assert_eq!(outcome.code, 2);
    assert!(outcome.errors.contains("unknown variable \"VERBOSITY\": there is ON_ERROR_STOP"), "{}", outcome.errors);
}

#[test]
fn a_text_of_c_ends_at_its_first_error_and_the_last_text_tells() {
    let place = Place::with_table();
    let error = "ERROR:  division by zero\n";
    place.check_fails(&["-c", "SELECT 1/0; DELETE FROM t"], "", 1, error);
    place.check_fails(&["-c", "SELECT 1/0", "-c", "DELETE FROM t WHERE id = 1"], "", 0, error);
    place.check_fails(&["-v", "ON_ERROR_STOP=1", "-c", "SELECT 1/0", "-c", "DELETE FROM t"], "", 1, error);
    let text = place.well(&["--format", "csv", "-c", "SELECT count(*) FROM t"]);
    assert_eq!(text, "count\n2\n");
}

#[test]
fn a_script_that_is_missing_leaves_no_database() {
    let place = Place::new();
    let outcome = place.run_with(&["-f", "missing.sql"], "");
    assert_eq!(outcome.code, 1);
    assert!(outcome.errors.contains("cannot open missing.sql"), "{}", outcome.errors);
    assert!(!place.0.path().join("birds").exists());
}

#[test]
fn statements_end_at_semicolons_and_the_last_needs_none() {
    let place = Place::new();
    let text = place.well_with(&["--format", "csv"], "SELECT ';' AS a; SELECT\n$$x;\ny$$ AS b; /* ; */ SELECT 3 AS c");
    assert_eq!(text, "a\n;\nb\n\"x;\ny\"\nc\n3\n");
    assert_eq!(
        place.well_with(&["--format", "csv"], "SELECT 1 AS a \\g\nSELECT 2 AS b;\n\\q\nSELECT 3;"),
        "a\n1\nb\n2\n"
    );
}

/// As in psql: row by row, NULL is none, and what fails ends nothing but a script that is told so.
#[test]
fn values_of_a_query_are_run_as_statements() {
    let place = Place::with_table();
    let script = "SELECT format('INSERT INTO t VALUES (%s)', n), CASE WHEN n = 11 THEN 'SELECT max(id) AS m FROM t;' END\n\
                  FROM generate_series(10, 11) AS s(n) ORDER BY n \\gexec\nSELECT count(*) FROM t;\n";
    assert_eq!(place.well_with(&["--format", "csv"], script), "m\n11\ncount\n5\n");
    let script = "\nSELECT 'SELECT 1/0' AS a, 'SELECT ''on'' AS b; SELECT 2 AS c' AS d \\gexec\nSELECT 'x' WHERE false \\gexec\n";
    let errors = "<stdin>:2: ERROR:  division by zero\n";
    let outcome = place.run_with(&["--format", "csv"], script);
    assert_eq!((outcome.code, outcome.errors.as_str(), outcome.text.as_str()), (0, errors, "b\non\nc\n2\n"));
    place.check_fails(&["-v", "ON_ERROR_STOP=1"], script, 3, errors);
    place.check_fails(
        &["-c", "SELECT nothing \\gexec"],
        "",
        1,
        "ERROR:  column \"nothing\" does not exist\nLINE 1: SELECT nothing\n               ^\n",
    );
}

#[test]
fn rows_go_to_files_and_come_back() {
    let place = Place::with_table();
    assert_eq!(place.well(&["-c", "\\copy t to 'rows.csv' with (format csv, header)"]), "COPY 3\n");
    assert_eq!(place.read("rows.csv"), "id,name,weight\n1,bee,1.95\n2,,20.00\n3,\"a,\"\"b\"\"\",\n");
    place.well(&["-c", "DELETE FROM t"]);
    assert_eq!(place.well(&["-c", "\\copy t from rows.csv with (format csv, header)"]), "COPY 3\n");
    let text = place.well(&["-c", "\\copy (SELECT id, name FROM t ORDER BY id) to stdout"]);
    assert_eq!(text, "1\tbee\n2\t\\N\n3\ta,\"b\"\n");

    place.write("wrong.csv", "7,x,1\n8,y,heavy\n");
    let errors = "ERROR:  invalid input syntax for type numeric: \"heavy\"\n\
                  CONTEXT:  COPY t, line 2, column weight: \"heavy\"\n";
    place.check_fails(&["-c", "\\copy t from wrong.csv csv"], "", 1, errors);
    place.check_fails(&["-c", "\\copy t from no.csv"], "", 1, "no.csv: No such file or directory (os error 2)\n");
    assert!(place.well(&["-c", "SELECT count(*) FROM t"]).contains("     3\n"), "all rows or none");
}

#[test]
fn a_script_can_hold_rows() {
    let place = Place::with_table();
    let script = "BEGIN;\nCOPY t FROM STDIN;\n4\tfour\t4\n5\t\\N\t\\N\n\\.\nCOMMIT;\nSELECT count(*) FROM t;\n";
    let text = place.well_with(&["--format", "csv"], script);
    assert_eq!(text, "count\n5\n");
    place.write("outer.sql", "\\i inner.sql\n\\echo done\n");
    place.write("inner.sql", "SELECT 1 AS inner;\n");
    assert_eq!(place.well(&["--format", "csv", "-f", "outer.sql"]), "inner\n1\ndone\n");
}

#[test]
fn the_catalogue_can_be_looked_at() {
    let place = Place::with_table();
    place.well(&["-c", "CREATE TABLE s (t_id int REFERENCES t ON DELETE CASCADE, n int UNIQUE CHECK (n > 0)); CREATE VIEW v AS SELECT id FROM t"]);
    let tables = place.well(&["-c", "\\dt"]);
    assert!(tables.contains(" public | s    | table\n") && !tables.contains("view"), "{tables}");
    let table = place.well(&["-c", "\\d s"]);
    for part in [
        "Table \"public.s\"",
        " t_id   | integer |",
        "\"s_n_key\" UNIQUE CONSTRAINT, btree (n)",
        "\"s_n_check\" CHECK (n > 0)",
        "\"s_t_id_fkey\" FOREIGN KEY (t_id) REFERENCES t(id) ON DELETE CASCADE",
    ] {
        assert!(table.contains(part), "{table}");
    }
    assert!(place.well(&["-c", "\\d t"]).contains("TABLE \"s\" CONSTRAINT \"s_t_id_fkey\""));
    assert!(place.well(&["-c", "\\d v"]).contains("SELECT id FROM public.t"));
    place.check_fails(&["-c", "\\d nothing"], "", 1, "Did not find any relation named \"nothing\".\n");
}

#[test]
fn a_second_process_works_beside_the_first() {
    let place = Place::with_table();
    let mut first = place.command(&[]).stdin(Stdio::piped()).spawn().expect("the command starts");
    let mut stdin = first.stdin.take().expect("it is piped");
    writeln!(stdin, "CREATE TABLE of_first (a int PRIMARY KEY, b text);").expect("it reads");
    // Its answer shows that it has the database open.
    let mut answer = [0; 1];
    std::io::Read::read_exact(first.stdout.as_mut().expect("it is piped"), &mut answer).expect("an answer");
    assert_eq!(place.well(&["-c", "INSERT INTO of_first VALUES (1, 'x')"]), "INSERT 0 1\n");
    let outcome = place.run_with(&[], "COPY of_first FROM STDIN;\n2\ty\n3\t\\N\n\\.\nSELECT count(*) FROM of_first;\n");
    assert_eq!((outcome.code, outcome.errors.as_str()), (0, ""));
    assert!(outcome.text.starts_with("COPY 2\n"), "{}", outcome.text);
    assert_eq!(place.well(&["--format", "csv", "-c", "TABLE of_first"]), "a,b\n1,x\n2,y\n3,\n");
    assert!(place.well(&["--format", "json", "-c", "SELECT a FROM of_first"]).starts_with("[{\"a\": 1}"));
    assert!(place.well(&["-c", "\\dt"]).contains("of_first"));
    assert!(place.well(&["-c", "\\d of_first"]).contains("\"of_first_pkey\" PRIMARY KEY, btree (a)"));
    place.check_fails(&["-c", "SELECT 1 / 0"], "", 1, "ERROR:  division by zero\n");

    check_interrupt(&place);

    drop(stdin);
    assert!(first.wait().expect("it ends").success());
    place.well(&["-c", "SELECT 1"]);
}

/// A server has the lock, and lets no process in but clients.
#[test]
fn a_database_that_lets_nobody_in_is_refused() {
    let place = Place::with_table();
    let lock = colibri::sql::engine::DirectoryLock::for_sql(&place.0.path().join("birds")).expect("nobody has it");
    let outcome = place.run_with(&["-c", "SELECT 1"], "");
    assert_eq!(outcome.code, 1);
    assert!(outcome.errors.contains(&format!("open for SQL by process {}", std::process::id())), "{}", outcome.errors);
    for way_out in ["connect to it with a client", "end it", "`colibri backup`"] {
        assert!(outcome.errors.contains(way_out), "{}", outcome.errors);
    }
    drop(lock);
    place.well(&["-c", "SELECT 1"]);
}

/// SIGINT cancels a statement without end, and the command says so.
fn check_interrupt(place: &Place) {
    let child = place.command(&["-c", "SELECT count(*) FROM generate_series(1, 1000000000000)"]).spawn();
    let child = child.expect("the command starts");
    std::thread::sleep(std::time::Duration::from_millis(700));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "ERROR:  canceling statement due to user request\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_interrupt_ends_the_statement() {
    let place = Place::new();
    check_interrupt(&place);
}
