//! Encrypted databases by the command line: all commands that open one take its key, and say what is
//! missing without it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod served;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use served::Served;

const MARK: &str = "something to find";

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_colibri")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn colibri(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    text(&output)
}

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{args:?}: {}", text(&output));
    text(&output)
}

/// A command with a key in front of its other arguments: `check --backup` takes as many files as
/// follow it.
fn with_key<'a>(command: &[&'a str], file: &'a str) -> Vec<&'a str> {
    [&command[..1], &["--key-file", file], &command[1..]].concat()
}

/// A file with a key that its owner alone can read.
fn key_file(dir: &Path, name: &str, byte: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, byte.repeat(32)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn holds_mark(path: &Path) -> bool {
    fs::read(path).unwrap().windows(MARK.len()).any(|window| window == MARK.as_bytes())
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false if path.is_file() => files.push(path),
            false => {}
        }
    }
    files
}

#[test]
fn every_command_works_on_an_encrypted_database_with_its_key_and_none_without() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (key, other) = (key_file(dir.path(), "key", "0a"), key_file(dir.path(), "other", "0b"));
    let birds = at("birds");
    let statement =
        format!("CREATE TABLE t (a int, b text); INSERT INTO t SELECT n, '{MARK}' FROM generate_series(1, 999) n");
    colibri(&["sql", &birds, "--key-file", &key, "-c", &statement]);
    let count = ["--format", "csv", "-c", "SELECT count(*) FROM t WHERE b <> ''"];
    let counted = |dir: &str, key: &[&str]| colibri(&[&["sql", dir], key, &count].concat());
    assert!(counted(&birds, &["--key-file", &key]).contains("999"));
    let command = format!("cat {key}");
    assert!(counted(&birds, &["--key-command", &command]).contains("999"));

    let (made, copied, compact) = (at("made"), at("copied"), at("compact"));
    let (monday, tuesday, dump) = (at("monday"), at("tuesday"), at("dump"));
    let commands: [&[&str]; 14] = [
        &["check", &birds],
        &["stat", &birds],
        &["readers", &birds],
        &["branch", &birds, "trial"],
        &["branch", &birds],
        &["diff", &birds, "main", "trial"],
        &["branch", &birds, "trial", "--drop"],
        &["compact", &birds],
        &["copy", &birds, &copied],
        &["copy", "--compact", &birds, &compact],
        &["backup", &birds, &monday],
        &["backup", &birds, &tuesday, "--since", &monday],
        &["restore", &made, &monday, &tuesday],
        &["check", "--backup", &monday, &tuesday],
    ];
    for command in commands {
        assert!(refused(command).contains("is encrypted"), "{command:?}: {}", refused(command));
        let wrong = refused(&with_key(command, &other));
        assert!(wrong.contains("the key does not open"), "{command:?}: {wrong}");
        colibri(&with_key(command, &key));
    }
    for made in [&made, &copied, &compact] {
        assert!(counted(made, &["--key-file", &key]).contains("999"));
        assert!(refused(&["check", made]).contains("is encrypted"));
    }
    let plain = files_below(dir.path()).into_iter().filter(|path| holds_mark(path)).collect::<Vec<_>>();
    assert!(plain.is_empty(), "{plain:?}");

    // A dump is text.
    assert!(refused(&["dump", &birds, "--sql"]).contains("is encrypted"));
    colibri(&["dump", &birds, "--sql", "--output", &dump, "--key-file", &key]);
    assert!(holds_mark(Path::new(&dump)));
    let (engine_dump, loaded) = (at("engine.dump"), at("loaded"));
    colibri(&["dump", &birds, "--output", &engine_dump, "--key-file", &key]);
    colibri(&["load", &loaded, "--input", &engine_dump, "--key-file", &other]);
    assert!(counted(&loaded, &["--key-file", &other]).contains("999"));

    // And a plain database has no key.
    let plain = at("plain");
    colibri(&["sql", &plain, "-c", "CREATE TABLE t (a int)"]);
    assert!(refused(&["check", &plain, "--key-file", &key]).contains("is not encrypted"));
    assert!(refused(&["restore", &at("none"), &monday]).contains("is encrypted"));
}

#[test]
fn a_key_comes_from_where_it_is_said_to_be_or_the_command_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let birds = dir.path().join("birds").to_str().unwrap().to_owned();
    let key = key_file(dir.path(), "key", "0a");
    colibri(&["sql", &birds, "--key-file", &key, "-c", "CREATE TABLE t (a int)"]);
    // A descriptor, here standard input.
    let mut child = Command::new(env!("CARGO_BIN_EXE_colibri"))
        .args(["check", &birds, "--key-fd", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&[0x0a; 32]).unwrap();
    assert!(child.wait().unwrap().success());

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(&["check", &birds, "--key-file", &key]);
    assert!(said.contains("chmod 600") && !said.contains("0a0a"), "{said}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refused(&["check", &birds, "--key-file", "/nowhere"]).contains("/nowhere"));
    let said = refused(&["check", &birds, "--key-command", "echo a password"]);
    assert!(said.contains("32 bytes") && !said.contains("echo a password:  a password"), "{said}");
    assert!(refused(&["check", &birds, "--key-command", "exit 3"]).contains("exit status: 3"));
    let both = run(&["check", &birds, "--key-file", &key, "--key-command", "true"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both));
    let missing = run(&["rekey", &birds, "--key-file", &key]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing));
}

#[test]
fn the_key_of_a_database_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (key_file(dir.path(), "old", "0a"), key_file(dir.path(), "new", "0b"));
    let (birds, monday, tuesday, again) = (at("birds"), at("monday"), at("tuesday"), at("again"));
    colibri(&["sql", &birds, "--key-file", &old, "-c", "CREATE TABLE t (a int)"]);
    colibri(&["backup", &birds, &monday, "--key-file", &old]);
    let rekey = ["rekey", &birds, "--key-file", &old, "--new-key-file", &new];
    assert!(colibri(&rekey).contains("its key was replaced"));
    // Interrupted before it could say so, it is run again.
    assert!(colibri(&rekey).contains("has the new key already"));
    assert!(refused(&["check", &birds, "--key-file", &old]).contains("the key does not open"));
    colibri(&["check", &birds, "--key-file", &new]);
    colibri(&["sql", &birds, "--key-file", &new, "-c", "INSERT INTO t VALUES (1)"]);
    colibri(&["backup", &birds, &tuesday, "--key-file", &new]);
    assert!(refused(&["restore", &again, &monday, "--key-file", &new]).contains("the key does not open"));
    colibri(&["restore", &again, &monday, "--key-file", &new, "--old-key-file", &old]);
    colibri(&["check", &again, "--key-file", &old]);
}

#[test]
fn a_server_whose_directory_was_made_with_a_key_has_nothing_plain() {
    let dir = tempfile::tempdir().unwrap();
    let nest = dir.path().join("nest");
    let (key, new) = (key_file(dir.path(), "key", "0a"), key_file(dir.path(), "new", "0b"));
    let server = Served::start_with(&nest, &["--key-file", &key]);
    let mut client = server.connect("postgres");
    client.run(&format!("CREATE ROLE \"{MARK}\" LOGIN PASSWORD '{MARK}'")).unwrap();
    client
        .run(&format!("CREATE TABLE t (a int, b text); INSERT INTO t SELECT n, '{MARK}' FROM generate_series(1, 99) n"))
        .unwrap();
    client.run("CREATE DATABASE other").unwrap();
    client.run("CREATE DATABASE branch TEMPLATE other").unwrap();
    let mut there = server.connect_to("postgres", "other");
    there.run(&format!("CREATE TABLE u (b text); INSERT INTO u VALUES ('{MARK}')")).unwrap();
    // Beside the server nobody opens what it has open.
    let postgres = nest.join("databases/postgres").to_str().unwrap().to_owned();
    assert!(refused(&["check", &postgres, "--key-file", &key]).contains("one process at a time"));
    drop((client, there));
    // Killed.
    drop(server);
    let plain = files_below(&nest).into_iter().filter(|path| holds_mark(path)).collect::<Vec<_>>();
    assert!(plain.is_empty(), "{plain:?}");

    // Nothing is lost by that.
    let nest_text = nest.to_str().unwrap();
    let said = refused(&["serve", nest_text, "--listen", "127.0.0.1:0"]);
    assert!(said.contains("is encrypted") && said.contains("--key-file"), "{said}");
    assert!(refused(&["serve", nest_text, "--listen", "127.0.0.1:0", "--key-file", &new]).contains("does not open"));
    let server = Served::start_with(&nest, &["--key-file", &key]);
    let mut client = server.connect("postgres");
    assert_eq!(client.run("SELECT count(*) FROM t").unwrap(), ["99"]);
    drop(client);
    server.end();
    let said = colibri(&["rekey", nest_text, "--key-file", &key, "--new-key-file", &new]);
    assert!(said.contains("keys were replaced"), "{said}");
    let server = Served::start_with(&nest, &["--key-file", &new]);
    let mut client = server.connect_to("postgres", "other");
    assert_eq!(client.run("SELECT count(*) FROM u").unwrap(), ["1"]);
}
