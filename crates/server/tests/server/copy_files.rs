//! COPY from and to files of the server's machine.

use std::fs;

use super::support::Server;

#[test]
fn copy_writes_and_reads_files_of_the_server_as_a_client_would() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut wire = server.connect();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).display().to_string();
    wire.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    wire.run("INSERT INTO t SELECT g, repeat('x', g % 100) FROM generate_series(1, 20000) g");
    for (number, options) in ["", "(FORMAT csv, HEADER)", "(FORMAT binary)"].into_iter().enumerate() {
        let path = file(&format!("rows{number}"));
        fs::write(&path, "what was there before, and is longer than nothing").unwrap();
        assert_eq!(wire.run(&format!("COPY t TO '{path}' {options}")).tags, ["COPY 20000"], "{options}");
        wire.run("CREATE TABLE back (a int PRIMARY KEY, b text)");
        // By the extended protocol, too.
        let answer = wire.prepared(&format!("COPY back FROM '{path}' {options}"), &[]).unwrap();
        assert_eq!(answer.tags, ["COPY 20000"], "{options}");
        assert_eq!(wire.value("SELECT count(*) FROM (TABLE t EXCEPT TABLE back) d"), "0", "{options}");
        wire.run("DROP TABLE back");
    }
    assert!(fs::read_to_string(file("rows1")).unwrap().starts_with("a,b\n1,x\n2,xx\n"));
    assert_eq!(wire.run(&format!("COPY (SELECT 1 WHERE false) TO '{}'", file("none"))).tags, ["COPY 0"]);
    assert_eq!(fs::read(file("none")).unwrap(), b"");
    // In a block, with what the block has written.
    wire.run("BEGIN");
    wire.run("INSERT INTO t VALUES (0, 'new')");
    wire.run(&format!("COPY (SELECT * FROM t WHERE a = 0) TO '{}'", file("one")));
    wire.run("ROLLBACK");
    assert_eq!(fs::read(file("one")).unwrap(), b"0\tnew\n");
}

#[test]
fn files_that_cannot_be_used_are_told_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int)");
    wire.run("CREATE ROLE alice LOGIN");
    wire.run("GRANT ALL ON t TO alice");
    let files = tempfile::tempdir().unwrap();
    let (missing, directory) = (files.path().join("missing").display().to_string(), files.path().display().to_string());
    let told = wire.query(&format!("COPY t FROM '{missing}'")).unwrap_err();
    let message = format!("could not open file \"{missing}\" for reading: No such file or directory");
    assert_eq!((told.code(), told.message()), ("58P01", &*message));
    for (text, code) in [
        (format!("COPY t FROM '{directory}'"), "42809"),
        (format!("COPY t TO '{directory}'"), "42809"),
        (format!("COPY t TO '{missing}/below'"), "58P01"),
        ("COPY t TO 'relative'".to_owned(), "42602"),
        ("COPY t FROM PROGRAM 'true'".to_owned(), "0A000"),
        (format!("COPY nothing FROM '{missing}'"), "42P01"),
    ] {
        assert_eq!(wire.query(&text).unwrap_err().code(), code, "{text}");
    }
    assert!(wire.query("COPY t TO '/dev/full'").is_ok(), "of no rows");
    wire.run("INSERT INTO t SELECT generate_series(1, 1000)");
    assert_eq!(wire.query("COPY t TO '/dev/full'").unwrap_err().code(), "53100");
    // A mistake in the middle of a file is told with its line, and no row stays.
    let wrong = files.path().join("wrong").display().to_string();
    fs::write(&wrong, "1\n2\nthree\n").unwrap();
    wire.run("BEGIN");
    assert_eq!(wire.query(&format!("COPY t FROM '{wrong}'")).unwrap_err().code(), "22P02");
    assert_eq!(wire.query("SELECT 1").unwrap_err().code(), "25P02");
    wire.run("ROLLBACK");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "1000");
    let mut alice = server.connect_as("alice", "postgres").unwrap();
    for text in [format!("COPY t FROM '{wrong}'"), format!("COPY t TO '{wrong}'")] {
        assert_eq!(alice.query(&text).unwrap_err().code(), "42501", "{text}");
    }
    assert_eq!(fs::read(&wrong).unwrap(), b"1\n2\nthree\n", "and it is not emptied");
}
