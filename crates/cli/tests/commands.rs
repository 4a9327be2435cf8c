//! The built binary, end to end: what a person types, and what comes back.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use colibri::{Database, Durability, Options, TableKind};

/// A directory that goes away, to run the command in.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// With a database `birds` of all table kinds.
    fn with_birds() -> Self {
        let place = Self::new();
        make_birds(&place.path("birds")).expect("a database");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
        command.args(words.split_whitespace()).current_dir(self.0.path());
        command
    }

    fn run(&self, words: &str) -> Outcome {
        Outcome::of(self.command(words).stdin(Stdio::null()).output().expect("the command starts"))
    }

    fn run_with_input(&self, words: &str, input: &str) -> Outcome {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        // A command that refuses its input early closes the pipe; its own words are what counts.
        let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        Outcome::of(child.wait_with_output().expect("the command ends"))
    }

    /// Runs what must succeed; gives standard output.
    #[track_caller]
    fn run_well(&self, words: &str) -> String {
        let outcome = self.run(words);
        assert_eq!(outcome.code, 0, "{words}: {}", outcome.errors);
        outcome.text
    }

    /// Runs what must fail with one line that contains `expected`.
    #[track_caller]
    fn check_fails(&self, words: &str, expected: &str) {
        check_failed(&self.run(words), expected);
    }
}

struct Outcome {
    code: i32,
    text: String,
    errors: String,
}

impl Outcome {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended the command"),
            text: String::from_utf8(output.stdout).expect("UTF-8"),
            errors: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

#[track_caller]
fn check_failed(outcome: &Outcome, expected: &str) {
    assert_eq!(outcome.code, 1, "{}", outcome.errors);
    let lines: Vec<_> = outcome.errors.lines().collect();
    assert!(matches!(&lines[..], [line] if line.starts_with("colibri: ")), "not one line: {}", outcome.errors);
    assert!(outcome.errors.contains(expected), "{:?} does not say {expected:?}", outcome.errors);
}

fn make_birds(dir: &Path) -> colibri::Result<()> {
    let db = Database::open(dir, &Options::new())?;
    let mut txn = db.write()?;
    let names = txn.create_table("names", TableKind::Plain)?;
    for number in 0..5_000_u32 {
        txn.put(&names, format!("bird {number:04}").as_bytes(), &number.to_le_bytes())?;
    }
    txn.put(&names, b"large", &[7; 50_000])?;
    let flowers = txn.create_table("flowers", TableKind::Multi)?;
    txn.put(&flowers, b"colubris", b"salvia")?;
    txn.put(&flowers, b"colubris", b"campsis")?;
    let rings = txn.create_table("rings", TableKind::Integer)?;
    txn.put(&rings, &300_u64.to_be_bytes(), b"banded")?;
    txn.commit()?;
    db.close()
}

/// What a crash of the system would leave of a database that is open.
fn copy_as_crashed(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for name in ["data", "log.0", "log.1"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).expect("a copy");
        }
    }
}

fn put_bird(db: &Database, name: &str) {
    let mut txn = db.write().expect("a transaction");
    let names = txn.table("names").expect("a table");
    txn.put(&names, name.as_bytes(), b"new").expect("room");
    txn.commit().expect("a commit");
}

/// The names in a directory.
fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort_unstable();
    names
}

fn parse(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[test]
fn check_finds_a_sound_database_clean() {
    let place = Place::with_birds();
    let text = place.run_well("check birds");
    assert!(text.starts_with("birds: no problems\n  5,004 entries in 3 tables, "), "{text}");
    let report = parse(&place.run_well("check --json birds"));
    assert_eq!((report["clean"].as_bool(), report["entries"].as_u64()), (Some(true), Some(5_004)));
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(0));
}

#[test]
fn check_lists_the_damage_and_fails() {
    let place = Place::with_birds();
    let data = place.path("birds/data");
    let mut bytes = fs::read(&data).expect("the data file");
    // Past the two meta pages, in every page, so that whatever is in use is hit.
    for page in bytes.chunks_mut(4096).skip(2) {
        if let Some(byte) = page.get_mut(2_000) {
            *byte ^= 0x40;
        }
    }
    fs::write(&data, bytes).expect("the data file");
    let outcome = place.run("check birds");
    assert_eq!(outcome.code, 1, "{}", outcome.errors);
    assert!(outcome.errors.starts_with("colibri: "), "{}", outcome.errors);
    assert!(outcome.text.contains("  problem: ") || outcome.errors.contains("corrupted"), "{}", outcome.text);
    assert!(outcome.errors.contains("restore a backup"), "{}", outcome.errors);
}

#[test]
fn stat_shows_every_table() {
    let place = Place::with_birds();
    let text = place.run_well("stat birds");
    for line in ["names   plain      5,001", "flowers multi          2", "rings   integer        1"] {
        assert!(text.contains(line), "{text}");
    }
    let stat = parse(&place.run_well("stat birds --json"));
    assert_eq!((stat["page_size"].as_u64(), stat["readers"].as_u64()), (Some(4096), Some(0)));
    let names: Vec<_> = stat["tables"].as_array().expect("tables").iter().map(|table| &table["name"]).collect();
    assert_eq!(names, ["flowers", "names", "rings"]);
}

#[test]
fn copies_hold_what_the_original_held() {
    let place = Place::with_birds();
    let original = place.run_well("dump birds");
    for (flag, dest) in [("", "copy"), ("--compact", "compact")] {
        place.run_well(&format!("copy {flag} birds {dest}"));
        place.run_well(&format!("check {dest}"));
        assert_eq!(place.run_well(&format!("dump {dest}")), original);
    }
    let bytes = |name| fs::metadata(place.path(name)).expect("the data file").len();
    assert!(bytes("compact/data") <= bytes("birds/data"));
}

#[test]
fn a_database_is_compacted_beside_others_that_use_it() {
    let place = Place::with_birds();
    let db = Database::open(place.path("birds"), &Options::new()).expect("the database");
    let mut txn = db.write().expect("a transaction");
    let table = txn.create_table("many", TableKind::Plain).expect("a table");
    for key in 0..60_000_u32 {
        txn.put(&table, &key.to_be_bytes(), &[1; 200]).expect("a put");
    }
    txn.commit().expect("a commit");
    let mut txn = db.write().expect("a transaction");
    for key in (0..60_000_u32).filter(|key| key % 10 != 0) {
        txn.delete(&table, &key.to_be_bytes()).expect("a deletion");
    }
    txn.commit().expect("a commit");
    let dump = place.run_well("dump birds");
    let report = parse(&place.run_well("compact birds --json"));
    let bytes = |name: &str| report[name].as_u64().expect("a number");
    assert!(bytes("bytes") * 2 < bytes("bytes_before") && bytes("pages_moved") > 100, "{report}");
    assert!(bytes("bytes_in_use") <= bytes("bytes"), "{report}");
    assert_eq!(place.run_well("dump birds"), dump);
    // Who has it open goes on.
    let mut txn = db.write().expect("a transaction");
    txn.put(&table, b"more", b"more").expect("a put");
    txn.commit().expect("a commit");
    drop(db);
    assert!(place.run_well("compact birds").contains("birds: "));
    place.run_well("check birds");
}

#[test]
fn branches_are_made_compared_reset_and_dropped() {
    let place = Place::with_birds();
    let original = place.run_well("dump birds");
    place.run_well("branch birds trial");
    place.run_well("branch birds second --from trial");
    assert_eq!(place.run_well("diff birds main trial"), "no difference\n");
    let db = Database::open(place.path("birds"), &Options::new()).expect("the database");
    let trial = db.open_branch("trial").expect("the branch");
    let mut txn = trial.write().expect("a transaction");
    let names = txn.table("names").expect("a table");
    txn.put(&names, b"another", b"bird").expect("a put");
    let flowers = txn.table("flowers").expect("a table");
    txn.clear_table(&flowers).expect("a table cleared");
    txn.commit().expect("a commit");
    // The commands work beside the process that has the database open.
    let text = place.run_well("diff birds main trial");
    let has_row = |row: [&str; 4]| text.lines().any(|line| line.split(' ').filter(|word| !word.is_empty()).eq(row));
    assert!(has_row(["flowers", "2", "0", "0"]), "{text}");
    assert!(has_row(["names", "0", "1", "0"]), "{text}");
    assert!(place.run_well("diff --keys birds main trial").contains("+ names another\n"));
    let found = parse(&place.run_well("diff --json birds trial main"));
    assert_eq!(
        (found["tables"][0]["only_other"].as_u64(), found["tables"][1]["only_one"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(place.run_well("dump birds"), original);
    assert_ne!(place.run_well("dump birds --branch trial"), original);
    drop((trial, db));

    let stat = parse(&place.run_well("stat birds --json"));
    let branches = stat["branches"].as_array().expect("branches");
    let row = |branch: &serde_json::Value| {
        (branch["name"].as_str().map(str::to_owned), branch["origin"].as_str().map(str::to_owned))
    };
    let rows: Vec<(Option<String>, Option<String>)> = branches.iter().map(row).collect();
    let expected = [("main", None), ("second", Some("trial")), ("trial", Some("main"))];
    let expected: Vec<_> = expected.map(|(name, origin)| (Some(name.to_owned()), origin.map(str::to_owned))).into();
    assert_eq!(rows, expected);
    let own = |at: usize| branches[at]["own_bytes"].as_u64().expect("bytes");
    assert!(own(1) == 0 && own(2) > 0, "{branches:?}");
    assert!(place.run_well("branch birds").contains("trial  main"), "{}", place.run_well("branch birds"));
    place.run_well("copy birds all");
    place.run_well("copy --branch trial birds alone");
    assert_eq!(place.run_well("dump all --branch trial"), place.run_well("dump alone"));
    place.run_well("branch birds trial --reset");
    assert_eq!(place.run_well("dump birds --branch trial"), original);
    for name in ["trial", "second"] {
        place.run_well(&format!("branch birds {name} --drop"));
    }
    assert_eq!(parse(&place.run_well("branch birds --json"))["branches"].as_array().expect("branches").len(), 1);
    place.run_well("check birds");
    place.check_fails("branch birds trial --drop", "no branch \"trial\"");
    place.check_fails("branch birds main --reset --from main", "main branch cannot be reset");
    place.check_fails("diff birds main trial", "no branch \"trial\"");
}

#[test]
fn copy_touches_nothing_that_exists() {
    let place = Place::with_birds();
    fs::create_dir(place.path("full")).expect("a directory");
    fs::write(place.path("full/notes"), "mine").expect("a file");
    fs::write(place.path("file"), "mine").expect("a file");
    place.check_fails("copy birds full", "full exists");
    place.check_fails("copy birds file", "file exists");
    place.check_fails("copy birds birds", "birds exists");
    assert_eq!(fs::read_dir(place.path("full")).expect("a directory").count(), 1);
    fs::create_dir(place.path("empty")).expect("a directory");
    place.run_well("copy birds empty");
    place.run_well("check empty");
}

#[test]
fn reading_commands_work_while_another_process_writes() {
    let place = Place::with_birds();
    let before = place.run_well("dump birds");
    let db = Database::open(place.path("birds"), &Options::new()).expect("the database");
    let mut txn = db.write().expect("a transaction");
    let names = txn.table("names").expect("a table");
    for number in 0..20_000_u32 {
        txn.put(&names, &number.to_be_bytes(), b"not committed").expect("room");
    }
    place.run_well("check birds");
    place.run_well("stat birds");
    place.run_well("copy birds copy");
    place.run_well("copy --compact birds compact");
    assert_eq!(place.run_well("dump birds"), before);
    txn.commit().expect("a commit");

    assert!(place.run_well("check birds").contains("25,004 entries"));
    for copy in ["copy", "compact"] {
        place.run_well(&format!("check {copy}"));
        assert_eq!(place.run_well(&format!("dump {copy}")), before);
    }
}

#[test]
fn backups_restore_to_what_was_there() {
    let place = Place::with_birds();
    let monday = place.run_well("dump birds");
    let text = place.run_well("backup birds monday.backup");
    assert!(text.starts_with("monday.backup: ") && text.contains(" pages, ") && !text.contains("since"), "{text}");
    place.run_with_input("load birds", "VERSION=3\ndatabase=names\nHEADER=END\n 61\n 62\nDATA=END\n");
    let text = place.run_well("backup birds tuesday.backup --since monday.backup");
    assert!(text.starts_with("tuesday.backup: ") && text.contains(" changed since transaction 1, "), "{text}");
    let bytes = |name| fs::metadata(place.path(name)).expect("a backup").len();
    assert!(bytes("tuesday.backup") < bytes("monday.backup") / 4);

    let text = place.run_well("restore again monday.backup");
    assert!(text.starts_with("again: restored from 1 backup, ") && text.ends_with(", as of transaction 1\n"), "{text}");
    assert_eq!(place.run_well("dump again"), monday);
    place.run_well("restore below/newer monday.backup tuesday.backup");
    place.run_well("check below/newer");
    assert_eq!(names_in(&place.path("below/newer")), ["data", "lock"]);
    assert_eq!(place.run_well("dump below/newer"), place.run_well("dump birds"));
    assert_eq!(names_in(&place.path("")), ["again", "below", "birds", "monday.backup", "tuesday.backup"]);
}

#[test]
fn a_backup_touches_nothing_that_exists_and_leaves_nothing_if_it_fails() {
    let place = Place::with_birds();
    make_birds(&place.path("others")).expect("a database");
    place.run_well("backup others others.backup");
    fs::write(place.path("notes"), "mine").expect("a file");
    let before = names_in(&place.path(""));
    place.check_fails("backup birds notes", "notes exists");
    place.check_fails("backup birds birds", "birds exists");
    place.check_fails("backup missing new.backup", "there is no database in missing");
    place.check_fails("backup birds below/new.backup", "cannot create below/new.backup");
    place.check_fails("backup birds new.backup --since missing", "cannot open missing");
    place.check_fails("backup birds new.backup --since notes", "notes: the backup is damaged");
    place.check_fails("backup birds new.backup --since others.backup", "others.backup: the backups do not fit");
    let data = place.path("birds/data");
    let mut bytes = fs::read(&data).expect("the data file");
    bytes.chunks_mut(4096).skip(2).for_each(|page| page[1_000] ^= 0x40);
    fs::write(&data, bytes).expect("the data file");
    place.check_fails("backup birds new.backup", "corrupted");
    assert_eq!(names_in(&place.path("")), before);
    assert_eq!(fs::read_to_string(place.path("notes")).expect("the file"), "mine");
}

#[test]
fn a_restore_touches_nothing_that_exists_and_leaves_nothing_if_it_fails() {
    let place = Place::with_birds();
    make_birds(&place.path("others")).expect("a database");
    place.run_well("backup others others.backup");
    place.run_well("backup birds full.backup");
    place.run_with_input("load birds", "VERSION=3\ndatabase=names\nHEADER=END\n 61\n 62\nDATA=END\n");
    place.run_well("backup birds more.backup --since full.backup");
    let mut bytes = fs::read(place.path("more.backup")).expect("the backup");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(place.path("damaged.backup"), &bytes).expect("a file");
    fs::write(place.path("short.backup"), &bytes[..middle]).expect("a file");
    fs::create_dir(place.path("full")).expect("a directory");
    fs::write(place.path("full/notes"), "mine").expect("a file");
    let before = names_in(&place.path(""));
    place.check_fails("restore full full.backup", "full exists");
    place.check_fails("restore birds full.backup", "birds exists");
    place.check_fails("restore notes/full missing", "cannot open missing");
    place.check_fails("restore new/below full.backup damaged.backup", "damaged.backup: the backup is damaged: ");
    place.check_fails("restore new full.backup short.backup", "short.backup: the backup is damaged: it ends too early");
    place.check_fails("restore new more.backup", "more.backup: the backups do not fit: the first is not a full");
    place.check_fails("restore new full.backup others.backup", "others.backup: the backups do not fit: they are of");
    assert_eq!(names_in(&place.path("")), before);
    assert_eq!(names_in(&place.path("full")), ["notes"]);
    assert_eq!(place.run("restore new").code, 2);
}

#[test]
fn check_verifies_backups() {
    let place = Place::with_birds();
    place.run_well("backup birds full.backup");
    place.run_with_input("load birds", "VERSION=3\ndatabase=names\nHEADER=END\n 61\n 62\nDATA=END\n");
    place.run_well("backup birds more.backup --since full.backup");
    let text = place.run_well("check --backup full.backup more.backup");
    assert!(text.starts_with("full.backup: no problems\n  "), "{text}");
    assert!(text.contains("more.backup: no problems\n  ") && text.contains("since transaction 1,"), "{text}");
    let report = parse(&place.run_well("check --json --backup more.backup"));
    assert_eq!((report["clean"].as_bool(), report["backups"][0]["since"].as_u64()), (Some(true), Some(1)));

    let outcome = place.run("check --backup more.backup full.backup");
    check_failed(&outcome, "full.backup cannot be restored");
    assert!(outcome.text.contains("full.backup: 1 problem\n  problem: it does not add to the one"), "{}", outcome.text);
    let mut bytes = fs::read(place.path("full.backup")).expect("the backup");
    bytes[5_000] ^= 1;
    fs::write(place.path("full.backup"), bytes).expect("the backup");
    let outcome = place.run("check --backup full.backup");
    check_failed(&outcome, "full.backup cannot be restored");
    assert!(outcome.text.contains("the checksum of a page does not match"), "{}", outcome.text);
    assert_eq!(place.run("check").code, 2);
    assert_eq!(place.run("check birds --backup full.backup").code, 2);
}

#[test]
fn every_command_works_while_another_process_has_the_database_open() {
    for durability in [Durability::Sync, Durability::SyncNoLog, Durability::LAZY, Durability::NoSync] {
        let place = Place::with_birds();
        let options = Options::new().durability(durability).log_period(std::time::Duration::MAX);
        let db = Database::open(place.path("birds"), &options).expect("the database");
        // Only the log has it, or nothing on disk does.
        put_bird(&db, "colibri");
        let snapshot = db.read().expect("a snapshot");
        let report = place.run_well("check birds");
        assert!(report.contains("5,005 entries"), "{durability:?}: {report}");
        assert!(place.run_well("stat birds").contains("5,002"));
        assert!(place.run_well("dump birds --table names").contains("636f6c69627269"));
        place.run_well("copy birds copy");
        place.run_well("copy --compact birds compact");
        for copy in ["copy", "compact"] {
            assert!(place.run_well(&format!("check {copy}")).contains("5,005 entries"));
        }
        assert!(place.run_well("readers birds").contains(&std::process::id().to_string()));
        place.run_well("backup birds full.backup");
        put_bird(&db, "another colibri");
        db.sync().expect("a steady point");
        place.run_well("backup birds more.backup --since full.backup");
        place.run_well("restore again full.backup more.backup");
        assert!(place.run_well("check again").contains("5,006 entries"));

        let loaded = place.run_with_input("load birds", "VERSION=3\nHEADER=END\n 61\n 61\nDATA=END\n");
        match durability {
            Durability::Sync => assert_eq!(loaded.code, 0, "{}", loaded.errors),
            _ => check_failed(&loaded, "birds is open in a process that writes without the log: run the command again"),
        }
        drop(snapshot);
        put_bird(&db, "yet another");
        db.close().expect("the end");
        place.run_well("check birds");
    }
}

#[test]
fn readers_lists_every_live_snapshot() {
    let place = Place::with_birds();
    assert_eq!(place.run_well("readers birds"), "birds: no readers\n");
    let db = Database::open(place.path("birds"), &Options::new()).expect("the database");
    let old = db.read_owned().expect("a snapshot").park();
    put_bird(&db, "colibri");
    put_bird(&db, "another colibri");
    let new = db.read().expect("a snapshot");
    let text = place.run_well("readers birds");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let process = std::process::id().to_string();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], ["process", "thread", "transaction", "lag", "age", "bytes", "held", "parked"]);
    let (old_txn, new_txn) = (old.txn().to_string(), new.txn().to_string());
    assert_eq!((lines[1][0], lines[1][2], lines[1][3]), (&*process, &*old_txn, "2"));
    assert_eq!((lines[2][0], lines[2][2], lines[2][3]), (&*process, &*new_txn, "0"));
    // What the process knows that wrote last; the newest snapshot holds nothing back.
    let held = db.readers().iter().find(|reader| reader.txn == old.txn()).and_then(|reader| reader.bytes_held);
    let held = held.expect("the writer's figure");
    assert!(held >= 2 * 4096);
    assert_eq!((lines[1][6].replace(',', ""), lines[1][7]), (held.to_string(), "yes"), "{text}");
    assert_eq!(&lines[2][6..], ["0", "no"], "{text}");
    let report = parse(&place.run_well("readers --json birds"));
    let readers = report["readers"].as_array().expect("readers");
    assert_eq!(readers.len(), 2);
    assert_eq!(readers[0]["txn"].as_u64(), Some(old.txn().0));
    assert_eq!((readers[0]["parked"].as_bool(), readers[0]["lag"].as_u64()), (Some(true), Some(2)));
    assert_eq!((readers[0]["bytes_held"].as_u64(), readers[1]["bytes_held"].as_u64()), (Some(held), Some(0)));
    assert!(readers[0]["age_ms"].is_u64(), "{report}");
    drop((old, new));
    assert_eq!(place.run_well("readers birds"), "birds: no readers\n");
}

#[test]
fn opening_after_a_crash_says_what_it_does() {
    let place = Place::with_birds();
    let options = Options::new().log_period(std::time::Duration::MAX);
    let db = Database::open(place.path("birds"), &options).expect("the database");
    (0..30).for_each(|n| put_bird(&db, &format!("colibri {n}")));
    let commands = ["check", "stat", "dump", "readers"];
    for command in commands {
        copy_as_crashed(&place.path("birds"), &place.path(command));
        let outcome = place.run(&format!("{command} {command}"));
        assert_eq!(outcome.code, 0, "{}", outcome.errors);
        assert!(outcome.errors.starts_with("recovered: 30 transactions from "), "{command}: {:?}", outcome.errors);
        assert!(outcome.errors.ends_with(" of log\n"), "{command}: {:?}", outcome.errors);
        assert_eq!(place.run(&format!("{command} {command}")).errors, "", "once");
        assert!(place.run_well(&format!("check {command}")).contains("5,034 entries"));
    }
    copy_as_crashed(&place.path("birds"), &place.path("load"));
    let loaded = place.run_with_input("load load", "VERSION=3\nHEADER=END\n 61\n 61\nDATA=END\n");
    assert_eq!((loaded.code, loaded.errors.lines().count()), (0, 1), "{}", loaded.errors);
    assert!(loaded.errors.starts_with("recovered: 30 transactions"), "{}", loaded.errors);
    copy_as_crashed(&place.path("birds"), &place.path("backup"));
    assert!(place.run("backup backup full.backup").errors.starts_with("recovered: 30 "));
    place.run_well("restore again full.backup");
    assert!(place.run_well("check again").contains("5,034 entries"));
}

#[test]
fn a_dump_loads_to_the_same_database() {
    let place = Place::with_birds();
    place.run_well("dump birds --output birds.dump");
    assert_eq!(place.run_well("load again --input birds.dump"), "again: loaded 5,004 entries into 3 tables\n");
    place.run_well("check again");
    assert_eq!(place.run_well("dump again"), place.run_well("dump birds"));
    place.check_fails("dump birds --output birds.dump", "birds.dump exists");
    place.run_well("dump birds --table rings --table flowers --output some.dump");
    let some = fs::read_to_string(place.path("some.dump")).expect("the dump");
    assert!(some.contains("database=rings") && some.contains("database=flowers") && !some.contains("database=names"));
}

#[test]
fn a_dump_of_lmdb_loads_from_standard_input() {
    let place = Place::new();
    let dump = include_str!("../../storage/tests/data/lmdb-0.9.24-all.dump");
    let outcome = place.run_with_input("load birds", dump);
    assert_eq!(
        (outcome.code, outcome.text.as_str()),
        (0, "birds: loaded 18 entries into 6 tables\n"),
        "{}",
        outcome.errors
    );
    let stat = place.run_well("stat birds");
    assert!(stat.contains("flowers by bird multi"), "{stat}");

    let main = include_str!("../../storage/tests/data/lmdb-0.9.24-main.dump");
    let outcome = place.run_with_input("load birds --table top", main);
    assert!(outcome.errors.contains("colibri: note: 6 entries of table \"top\""), "{}", outcome.errors);
    assert_eq!(outcome.code, 0);
}

#[test]
fn a_damaged_dump_loads_nothing_and_names_its_line() {
    let place = Place::with_birds();
    let before = place.run_well("dump birds");
    fs::write(place.path("bad.dump"), "VERSION=3\nHEADER=END\n 61\n 6\nDATA=END\n").expect("a file");
    place.check_fails("load birds --input bad.dump", "bad.dump: line 4: ");
    check_failed(
        &place.run_with_input("load birds", "hello\n"),
        "standard input: line 1: a dump starts with VERSION=3",
    );
    check_failed(&place.run_with_input("load birds", ""), "the input is empty");
    assert_eq!(place.run_well("dump birds"), before);
    place.check_fails("load new --input missing.dump", "cannot open missing.dump");
    assert!(!place.path("new").exists(), "a missing input left a database behind");
}

/// Bug: a refused input left the database that was made for it, empty. Consequence: the next
/// command found a database where there should have been none. Fix: what the command made goes with
/// what it did not load.
#[test]
fn a_refused_input_leaves_nothing_behind_and_takes_nothing_away() {
    let place = Place::with_birds();
    let inputs = ["", "hello\n", "VERSION=3\nHEADER=END\n 61\n 6\nDATA=END\n", "VERSION=3\nHEADER=END\n 61\n 61\n"];
    for input in inputs {
        for new in ["new", "new/below/it"] {
            check_failed(&place.run_with_input(&format!("load {new}"), input), "standard input: line ");
            assert!(!place.path("new").exists(), "{input:?} left something in {new}");
        }
        // A directory that was there stays, with what was in it.
        fs::create_dir_all(place.path("notes")).expect("a directory");
        fs::write(place.path("notes/text"), "keep this").expect("a file");
        check_failed(&place.run_with_input("load notes", input), "standard input: line ");
        check_failed(&place.run_with_input("load notes/below", input), "standard input: line ");
        let names: Vec<_> =
            fs::read_dir(place.path("notes")).expect("it").map(|entry| entry.expect("it").path()).collect();
        assert_eq!(names, [place.path("notes/text")]);
        // So does a database, also one that has nothing in it.
        check_failed(&place.run_with_input("load birds", input), "standard input: line ");
        assert!(place.run_well("check birds").contains("5,004 entries"));
        drop(Database::open(place.path("empty"), &Options::new()).expect("a database"));
        check_failed(&place.run_with_input("load empty", input), "standard input: line ");
        place.run_well("check empty");
    }
    place.check_fails("load new --input birds", "birds: cannot read the dump: Is a directory");
    assert!(!place.path("new").exists());
    assert_eq!(place.run_with_input("load new", "VERSION=3\nHEADER=END\n 61\n 61\nDATA=END\n").code, 0);
}

#[test]
fn long_keys_load_into_larger_pages() {
    let place = Place::new();
    let dump = format!("VERSION=3\nHEADER=END\n {}\n 76\nDATA=END\n", "6b".repeat(2_000));
    check_failed(&place.run_with_input("load small", &dump), "larger pages");
    let outcome = place.run_with_input("load large --page-size 16384", &dump);
    assert_eq!(outcome.code, 0, "{}", outcome.errors);
    check_failed(&place.run_with_input("load large --page-size 4096", &dump), "pages of 16384 bytes");
    check_failed(&place.run_with_input("load other --page-size 5000", &dump), "--page-size must be a power of two");
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let place = Place::with_birds();
    let mut command = place.command("dump birds");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn wrong_directories_say_what_is_wrong() {
    let place = Place::new();
    for command in ["check", "stat", "dump"] {
        place.check_fails(&format!("{command} missing"), "there is no database in missing: check the path");
    }
    place.check_fails("copy missing dest", "there is no database in missing");
    assert!(!place.path("missing").exists() && !place.path("dest").exists());

    fs::create_dir(place.path("text")).expect("a directory");
    fs::write(place.path("text/data"), "no database\n".repeat(2_000)).expect("a file");
    fs::write(place.path("file"), "no database\n").expect("a file");
    fs::create_dir(place.path("empty")).expect("a directory");
    fs::create_dir(place.path("lmdb")).expect("a directory");
    fs::write(place.path("lmdb/data.mdb"), "").expect("a file");
    for command in ["check", "stat", "dump", "load"] {
        place.check_fails(&format!("{command} text"), "not a Colibri database: it has no meta page: check the path");
        place.check_fails(&format!("{command} file"), "file is not a directory, and a database is one");
    }
    place.check_fails("copy lmdb file/below", "cannot look into file/below");
    place.check_fails("check empty", "there is no database in empty");
    place.check_fails("check lmdb", "mdb_dump -a lmdb | colibri load");
    assert_eq!(fs::read_dir(place.path("empty")).expect("a directory").count(), 0);
}

#[test]
fn a_missing_table_says_where_the_names_are() {
    let place = Place::with_birds();
    place.check_fails("dump birds --table nests", "there is no table \"nests\": `colibri stat birds` lists");
    place.check_fails("dump birds --table nests --output nests.dump", "no table");
    assert!(!place.path("nests.dump").exists(), "a failed dump left its file behind");
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let place = Place::new();
    for words in
        ["", "fly", "check", "copy birds", "check birds --fast", "bench", "bench kv --n many", "bench kv --n 0"]
    {
        let outcome = place.run(words);
        assert_eq!(outcome.code, 2, "{words}: {}", outcome.errors);
    }
    place.check_fails("bench kv --json missing/results.json", "cannot write missing/results.json");
    assert!(place.run("chekc").errors.contains("check"), "no suggestion for a typing error");
    assert!(place.run_well("--version").starts_with("colibri "));
}

#[test]
fn a_small_benchmark_runs_and_its_results_parse() {
    let place = Place::new();
    let text = place.run_well("bench kv --n 1000 --modes lazy,nosync --dir data --json results.json");
    assert!(text.contains("crud"), "{text}");
    let results = parse(&fs::read_to_string(place.path("results.json")).expect("the results"));
    let results = results.as_array().expect("an array of results");
    assert_eq!(results.len(), 12, "six workloads in two modes");
    for result in results {
        assert_eq!(result["valid"].as_bool(), Some(true), "{result}");
        assert_eq!((&result["bench"], &result["target"]), (&"kv".into(), &"colibri".into()));
        assert!(result["ops_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
        assert!(result["latency_us"]["p99"].is_number() && result["cost"].is_object() && result["env"].is_object());
    }
    assert!(!place.path("data").exists(), "the benchmark left its databases behind");
}

/// A server's directory has databases in it and looks like one; an empty database made in it would
/// hide them.
#[test]
fn databases_and_directories_of_servers_are_told_apart() {
    let place = Place::with_birds();
    for dir in ["nest/cluster", "nest/databases/postgres", "nest/databases/birds"] {
        make_birds(&place.path(dir)).expect("a database");
    }
    let before = fs::read_dir(place.path("nest")).expect("a directory").count();
    for words in
        ["sql nest -c SELECT", "check nest", "stat nest", "load nest --input birds", "copy nest new", "backup nest new"]
    {
        place.check_fails(words, "nest/databases/NAME (birds, postgres)");
    }
    assert_eq!(fs::read_dir(place.path("nest")).expect("a directory").count(), before, "nothing was made in it");
    place.run_well("check nest/databases/birds");
    for dir in ["nest/birds", "nest/databases", "nest/cluster", "nest/cluster/../birds", "nest/databases/../new/birds"]
    {
        place.check_fails(&format!("sql {dir} -c SELECT"), "nest/databases/NAME (birds, postgres)");
    }
    for dir in ["nest/databases/birds/birds", "nest/cluster/birds", "birds/eggs/blue"] {
        place.check_fails(&format!("sql {dir} -c SELECT"), "would be in the directory of the database");
    }
    assert_eq!(fs::read_dir(place.path("nest/databases")).expect("a directory").count(), 2, "nothing was made in it");
    // One beside the others is for the server's next start; one that `..` leads out of the
    // directory to is nothing to it.
    for dir in ["nest/databases/new", "nest/../outside"] {
        place.run_well(&format!("sql {dir} -c VALUES(1)"));
    }

    place.check_fails("serve birds --listen 127.0.0.1:0", "birds is one database");
    assert!(!place.path("birds/cluster").exists());
    fs::write(place.path("notes"), "").expect("a file");
    place.check_fails("serve notes --listen 127.0.0.1:0", "notes is not a directory");
}

#[test]
fn a_server_that_nobody_could_reach_does_not_start() {
    let place = Place::new();
    let outcome = place.run("serve nest --listen none");
    assert_eq!(outcome.code, 2);
    assert!(outcome.errors.contains("--socket"), "{}", outcome.errors);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    place.check_fails(&format!("serve nest --listen {address}"), "somebody listens there");
    place.check_fails(&format!("serve nest --listen 127.0.0.1:0 --metrics {address}"), "somebody listens there");
    place.check_fails("serve nest --listen 0.0.0.0:0", "give --auth scram-sha-256");
    assert!(!place.path("nest").exists(), "nothing is made for a server that cannot start");
    fs::create_dir(place.path("notes")).expect("a directory");
    fs::write(place.path("notes/today"), "").expect("a file");
    place.check_fails("serve notes --listen 127.0.0.1:0", "holds other things (today). Give an empty directory");
    assert_eq!(fs::read_dir(place.path("notes")).expect("a directory").count(), 1, "nothing was made in it");
}

#[test]
fn a_server_names_the_file_that_it_does_not_find() {
    let place = Place::new();
    let words = "serve nest --listen 127.0.0.1:0 --tls-cert no.crt --tls-key no.key";
    place.check_fails(words, "cannot read the certificate no.crt");
    let words = "serve nest --listen 127.0.0.1:0 --auth scram-sha-256 --password-file no.txt";
    place.check_fails(words, "cannot take a password from no.txt");
    assert!(!place.path("nest").exists(), "nothing is made for a server that cannot start");
}

#[test]
fn a_table_of_sql_is_dumped_as_sql_or_refused_with_the_way_to_it() {
    let place = Place::new();
    place.run_with_input("sql birds", "CREATE TABLE wingbeats (hz int); INSERT INTO wingbeats VALUES (50);");
    place.check_fails("dump birds --table wingbeats", "`colibri dump birds --sql --table wingbeats`");
    assert!(
        place.run_well("dump birds --sql --table wingbeats").contains("COPY public.wingbeats (hz) FROM stdin;\n50\n")
    );
    place
        .check_fails("dump birds --sql --table nothing --output nothing.sql", "there is no table \"nothing\" in birds");
    assert!(!place.path("nothing.sql").exists());
    place.check_fails("dump birds --sql --roles birds", "no roles can be read from birds");
}

#[test]
fn a_directory_that_is_called_data_makes_no_database_of_the_one_it_is_in() {
    let place = Place::new();
    fs::create_dir(place.path("data")).expect("a directory");
    assert!(place.run_well("sql birds --format csv -c VALUES(1)").contains('1'));
    place.run_well("check birds");
    place.check_fails("check .", "there is no database in .");
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let place = Place::with_birds();
    for words in
        ["--help", "--version", "check birds", "stat birds", "dump birds", "bench lifo --records 42 --json rows"]
    {
        let full = fs::File::options().write(true).open("/dev/full").expect("the device");
        let output = place.command(words).stdout(full).stderr(Stdio::piped()).output().expect("the command starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {errors}");
        assert!(errors.contains("No space left"), "{words}: {errors}");
    }
    assert!(place.path("rows").exists(), "what was measured is kept");
    // Where nothing at all can be said, the exit code says it.
    let full = || fs::File::options().write(true).open("/dev/full").expect("the device");
    let status = place.command("check nothing").stdout(full()).stderr(full()).status().expect("the command starts");
    assert_eq!(status.code(), Some(1));
}
