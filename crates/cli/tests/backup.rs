//! `colibri backup` of a database that is served and written to, and `colibri restore`: what comes
//! out is a state that there was, with everything in it that had been acknowledged before.

#![allow(clippy::unwrap_used, reason = "tests")]

mod served;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use served::Served;

const WRITERS: u64 = 3;

fn colibri(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_colibri")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The result of a query on a database without a server.
fn value(dir: &Path, sql: &str) -> String {
    let output = colibri(&["sql", text(dir), "--format", "csv", "-c", sql]);
    output.lines().last().unwrap().to_owned()
}

/// Transfers of one writer until told to stop, each counted when it is acknowledged.
fn write(server: &Served, writer: u64, stop: &Arc<AtomicBool>, done: &Arc<[AtomicU64]>) -> std::thread::JoinHandle<()> {
    let (mut client, stop, done) = (server.connect("postgres"), Arc::clone(stop), Arc::clone(done));
    std::thread::spawn(move || {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let (from, to) = (number % 50, number * 7 % 50);
            let transfer = format!(
                "UPDATE accounts SET balance = balance - 3 WHERE id = {from}; \
                 UPDATE accounts SET balance = balance + 3 WHERE id = {to}; \
                 INSERT INTO history VALUES ({writer}, {number}, repeat('x', {}))",
                number % 500
            );
            client.run(&transfer).unwrap();
            done[writer as usize].store(number, Ordering::Release);
        }
    })
}

/// Checks that a restored state is one that there was; how many transfers of each writer it has.
fn transfers(dir: &Path) -> Vec<u64> {
    assert!(colibri(&["check", text(dir)]).contains(": no problems"), "the restored database is damaged");
    assert_eq!(value(dir, "SELECT sum(balance) FROM accounts"), "0", "half a transfer");
    let counts = (0..WRITERS).map(|writer| {
        let gaps = format!("SELECT count(*) - coalesce(max(number), 0) FROM history WHERE writer = {writer}");
        assert_eq!(value(dir, &gaps), "0", "a transfer of writer {writer} is missing in between");
        value(dir, &format!("SELECT count(*) FROM history WHERE writer = {writer}")).parse().unwrap()
    });
    counts.collect()
}

#[test]
fn a_database_is_backed_up_while_it_is_written_to_and_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("birds");
    let database = served.join("databases/postgres");
    let server = Served::start(&served);
    let mut client = server.connect("postgres");
    client.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int)").unwrap();
    client.run("INSERT INTO accounts SELECT n, 0 FROM generate_series(0, 49) n").unwrap();
    client.run("CREATE TABLE history (writer int, number int, note text, PRIMARY KEY (writer, number))").unwrap();
    client.run("CREATE INDEX ON history (number)").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let done: Arc<[AtomicU64]> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let writers: Vec<_> = (0..WRITERS).map(|writer| write(&server, writer, &stop, &done)).collect();
    // A full one and three that follow it, each of another moment.
    let mut chain: Vec<String> = Vec::new();
    let mut before = vec![0; WRITERS as usize];
    for at in 0..4 {
        std::thread::sleep(Duration::from_millis(300));
        let acknowledged: Vec<u64> = done.iter().map(|count| count.load(Ordering::Acquire)).collect();
        let file = dir.path().join(format!("{at}.backup"));
        let mut args = vec!["backup".to_owned(), text(&database).to_owned(), text(&file).to_owned()];
        if let Some(since) = chain.last() {
            args.extend(["--since".to_owned(), since.clone()]);
        }
        colibri(&args.iter().map(String::as_str).collect::<Vec<_>>());
        chain.push(text(&file).to_owned());
        let restored = dir.path().join(format!("restored-{at}"));
        let mut args = vec!["restore", text(&restored)];
        args.extend(chain.iter().map(String::as_str));
        colibri(&args);
        let found = transfers(&restored);
        for (writer, &count) in found.iter().enumerate() {
            let (least, most) = (acknowledged[writer], done[writer].load(Ordering::Acquire) + 1);
            assert!((least..=most).contains(&count), "writer {writer}: {count} transfers, not {least} to {most}");
            assert!(count >= before[writer], "writer {writer}: an older state than the last one");
        }
        before = found;
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(before.iter().sum::<u64>() > 0, "nothing was written");
    // Without writers, the last backup equals the database, row by row.
    drop(client);
    server.end();
    let last = dir.path().join("last.backup");
    colibri(&["backup", text(&database), text(&last), "--since", chain.last().unwrap()]);
    chain.push(text(&last).to_owned());
    let restored = dir.path().join("restored");
    let mut args = vec!["restore", text(&restored)];
    args.extend(chain.iter().map(String::as_str));
    colibri(&args);
    assert_eq!(colibri(&["dump", text(&restored), "--sql"]), colibri(&["dump", text(&database), "--sql"]));
    // And it can be served.
    let again = dir.path().join("again");
    std::fs::create_dir_all(again.join("databases")).unwrap();
    std::fs::rename(&restored, again.join("databases/postgres")).unwrap();
    let server = Served::start(&again);
    let total = done.iter().map(|count| count.load(Ordering::Acquire)).sum::<u64>();
    assert_eq!(server.connect("postgres").run("SELECT count(*) FROM history").unwrap(), [total.to_string()]);
}

/// Bug: a backup held the last steady point, up to 30 seconds old, and of a server just started
/// nothing at all. Consequence: rows that had been acknowledged before the backup began were in no
/// backup. Fix: a backup makes a steady point first, also of a database that another process
/// serves.
#[test]
fn a_backup_of_a_running_server_holds_what_was_acknowledged_before_it_began() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("birds");
    let database = served.join("databases/postgres");
    let server = Served::start(&served);
    let mut client = server.connect("postgres");
    let mut chain: Vec<String> = Vec::new();
    for at in 0..5 {
        let sql = if at == 0 { "CREATE TABLE t (n int)".to_owned() } else { format!("INSERT INTO t VALUES ({at})") };
        client.run(&sql).unwrap();
        let file = dir.path().join(format!("{at}.backup"));
        let mut args = vec!["backup", text(&database), text(&file)];
        if let Some(since) = chain.last() {
            args.extend(["--since", since]);
        }
        let said = colibri(&args);
        assert!(!said.contains("note"), "{said}");
        chain.push(text(&file).to_owned());
        // A full one of the same moment, and the chain, hold the same.
        let full = dir.path().join(format!("full-{at}.backup"));
        colibri(&["backup", text(&database), text(&full)]);
        let restored = dir.path().join(format!("restored-{at}"));
        let mut args = vec!["restore", text(&restored)];
        args.extend(chain.iter().map(String::as_str));
        colibri(&args);
        let again = dir.path().join(format!("again-{at}"));
        colibri(&["restore", text(&again), text(&full)]);
        for restored in [&restored, &again] {
            assert_eq!(value(restored, "SELECT count(*) FROM t"), at.to_string(), "{}", restored.display());
        }
        // The server goes on undisturbed.
        client.run("SELECT 1").unwrap();
    }
}
