//! Clients of a cluster under faults: what each of them tries, what it is told, and what of that
//! has to be there in the end.
//!
//! | client | tries | checked in the end |
//! | --- | --- | --- |
//! | writer | one row a statement | acknowledged rows are there, refused ones are not |
//! | pipeline | three texts without waiting, the middle one of two rows; or two statements and one Sync | the same, of each text; what belongs together is there together |
//! | definer | a table with a row, by one statement | acknowledged tables are there, with their row, refused ones are not |
//! | reader | what a writer has written | at once: never less than was acknowledged, in a session that may write |

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::Client;

/// Machines' addresses and ports.
pub(super) type Places = [(String, u16)];

pub(super) const WRITERS: u64 = 4;

/// What writers were told, and what they have tried.
#[derive(Default)]
pub(super) struct Seen {
    tried: [AtomicU64; WRITERS as usize],
    pub(super) acknowledged: [AtomicU64; WRITERS as usize],
    pub(super) reads: AtomicU64,
    pub(super) is_over: AtomicBool,
}

/// What became of a writer's rows.
#[derive(Default)]
pub(super) struct Told {
    pub(super) acknowledged: BTreeSet<u64>,
    pub(super) not_made: BTreeSet<u64>,
    pub(super) unknown: BTreeSet<u64>,
}

impl Told {
    fn note(&mut self, n: u64, became: Result<(), Fate>) {
        let set = match became {
            Ok(()) => &mut self.acknowledged,
            Err(Fate::NotMade) => &mut self.not_made,
            Err(Fate::Unknown) => &mut self.unknown,
        };
        set.insert(n);
    }

    /// Compares with what there is in the end.
    pub(super) fn check(&self, there: &BTreeSet<u64>, whose: &str) {
        let lost: Vec<_> = self.acknowledged.difference(there).collect();
        assert!(lost.is_empty(), "{whose}: lost: {lost:?}");
        let invented: Vec<_> = self.not_made.intersection(there).collect();
        assert!(invented.is_empty(), "{whose}: told as not made, and there: {invented:?}");
        let known = |n: &u64| self.acknowledged.contains(n) || self.unknown.contains(n);
        assert!(there.iter().all(known), "{whose}: nobody knows of some of these: {there:?}");
    }
}

/// What a client was told of a commit.
enum Fate {
    NotMade,
    Unknown,
}

fn fate(code: &str) -> Fate {
    match code {
        // Nobody knows, or the connection was gone before an answer.
        "" | "40003" | "08006" | "57P02" => Fate::Unknown,
        _ => Fate::NotMade,
    }
}

/// A client that is connected to some machine; `None` when it is over.
fn connected<'c>(
    client: &'c mut Option<Client>,
    machines: &Places,
    at: &mut usize,
    seen: &Seen,
) -> Option<&'c mut Client> {
    while client.is_none() && !seen.is_over.load(Ordering::Relaxed) {
        *at += 1;
        let (address, port) = &machines[*at % machines.len()];
        *client = Client::connect_to(address, *port, "postgres", "", Duration::from_secs(12)).ok();
        if client.is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    client.as_mut()
}

/// Sends several texts, or several statements, without waiting for answers between them. Numbers
/// that belong together are `n` and `n + 1`, with an even `n`.
pub(super) fn pipeline(machines: &Places, seen: &Seen) -> Told {
    let mut told = Told::default();
    let (mut client, mut at) = (None, 1);
    for round in 0.. {
        if seen.is_over.load(Ordering::Relaxed) {
            break;
        }
        let Some(connected) = connected(&mut client, machines, &mut at, seen) else { break };
        let first = round * 6;
        let one = |n: u64| format!("INSERT INTO pipelined VALUES ({n})");
        let two = |n: u64| format!("INSERT INTO pipelined VALUES ({n}), ({})", n + 1);
        let answers = if round % 2 == 0 {
            let texts = [two(first), two(first + 2), two(first + 4)];
            connected.run_all(&texts.each_ref().map(String::as_str))
        } else {
            // One transaction of the extended protocol: all of it, or nothing.
            let done = connected.execute_all(&[&one(first), &one(first + 1)]);
            vec![done.map(drop)]
        };
        let is_over = answers.iter().any(Result::is_err);
        for (pair, answer) in answers.into_iter().enumerate() {
            for n in [first + 2 * pair as u64, first + 2 * pair as u64 + 1] {
                let became = answer.as_ref().copied().map_err(|error| fate(&error.code));
                told.note(n, became);
            }
        }
        if is_over {
            client = None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    told
}

/// Makes tables, each with a row.
pub(super) fn define(machines: &Places, seen: &Seen) -> Told {
    let mut told = Told::default();
    let (mut client, mut at) = (None, 2);
    for n in 1.. {
        if seen.is_over.load(Ordering::Relaxed) {
            break;
        }
        let Some(connected) = connected(&mut client, machines, &mut at, seen) else { break };
        match connected.run(&format!("CREATE TABLE defined_{n} AS SELECT {n} AS n")) {
            Ok(_) => told.note(n, Ok(())),
            Err(error) => {
                told.note(n, Err(fate(&error.code)));
                client = None;
            }
        }
        std::thread::sleep(Duration::from_millis(150));
    }
    told
}

/// Compares what pipelines and definers were told with what a node has.
pub(super) fn check_others(client: &mut Client, pipelined: &Told, defined: &Told, whose: &str) -> Option<()> {
    let numbers = |rows: Vec<String>| -> BTreeSet<u64> { rows.iter().map(|row| row.parse().unwrap()).collect() };
    let rows = client.run("SELECT n FROM pipelined").ok()?;
    let there = numbers(rows.clone());
    assert_eq!(rows.len(), there.len(), "{whose}: twice in a pipeline");
    pipelined.check(&there, &format!("{whose}, pipelines"));
    let single: Vec<_> = there.iter().filter(|n| !there.contains(&(*n ^ 1))).collect();
    assert!(single.is_empty(), "{whose}: without what belongs to it: {single:?}");
    let tables = client
        .run("SELECT substr(relname, 9) FROM pg_class WHERE relname LIKE 'defined\\_%' AND relkind = 'r'")
        .ok()?;
    let there = numbers(tables);
    defined.check(&there, &format!("{whose}, definitions"));
    for n in there {
        assert_eq!(client.run(&format!("SELECT n FROM defined_{n}")).ok()?, [n.to_string()], "{whose}");
    }
    Some(())
}

/// Writes numbers that ascend, each once, at whichever machine lets it.
pub(super) fn write(machines: &Places, writer: u64, seen: &Seen) -> Told {
    let mut told = Told::default();
    let (mut client, mut at) = (None, writer as usize);
    for n in 1.. {
        if seen.is_over.load(Ordering::Relaxed) {
            break;
        }
        let Some(connected) = connected(&mut client, machines, &mut at, seen) else { break };
        seen.tried[writer as usize].store(n, Ordering::SeqCst);
        match connected.run(&format!("INSERT INTO t VALUES ({writer}, {n})")) {
            Ok(_) => {
                seen.acknowledged[writer as usize].store(n, Ordering::SeqCst);
                told.note(n, Ok(()));
            }
            Err(error) => {
                told.note(n, Err(fate(&error.code)));
                client = None;
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    told
}

/// Reads what writers have written, in sessions that may write: what was acknowledged before has to
/// be there, and what was not tried has not.
pub(super) fn read(machines: &Places, first: usize, seen: &Seen) {
    let (mut client, mut at) = (None, first);
    let mut writer = 0;
    while !seen.is_over.load(Ordering::Relaxed) {
        let Some(connected) = &mut client else {
            at += 1;
            let (address, port) = &machines[at % machines.len()];
            client = Client::connect_to(address, *port, "postgres", "", Duration::from_secs(12)).ok();
            if client.is_none() {
                std::thread::sleep(Duration::from_millis(30));
            }
            continue;
        };
        writer = (writer + 1) % WRITERS;
        let before = seen.acknowledged[writer as usize].load(Ordering::SeqCst);
        let query = format!(
            "SELECT (SELECT coalesce(max(n), 0) FROM t WHERE w = {writer}) || ' ' || pg_is_in_recovery()::text"
        );
        match connected.run(&query) {
            Ok(rows) => {
                let (n, is_standby) = rows[0].split_once(' ').unwrap();
                let n: u64 = n.parse().unwrap();
                let after = seen.tried[writer as usize].load(Ordering::SeqCst);
                assert!(n <= after, "{n} of writer {writer} was not tried yet: {after}");
                if is_standby == "false" {
                    assert!(
                        n >= before,
                        "an outdated read: {n} of writer {writer}, of which {before} was acknowledged"
                    );
                    seen.reads.fetch_add(1, Ordering::Relaxed);
                } else {
                    // What a standby shows may be a little old; it looks elsewhere.
                    client = None;
                }
            }
            Err(_) => client = None,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
