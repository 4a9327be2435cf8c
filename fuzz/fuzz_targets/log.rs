//! Any bytes as a log: the records of a small database are damaged, and chained again as if they
//! were whole. Opening carries out what they say or refuses to; either way the database is sound.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use colibri_storage::{Database, Error, Options, TableKind};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// From `docs/FORMAT.md`: where a meta page says where the log begins, and what a record looks
/// like.
const AT_TXN: usize = 8;
const AT_LOG: usize = 136;
const RECORD_HEADER_BYTES: usize = 24;
const RECORD_BYTES_MAX: usize = 1 << 20;

const TABLES: [(&str, TableKind); 3] =
    [("plain", TableKind::Plain), ("multi", TableKind::Multi), ("integer", TableKind::Integer)];
const COMMITS: u64 = 12;

#[derive(Arbitrary, Debug)]
struct Input {
    log: Log,
    /// Whether the records get checksums that match, and numbers that follow each other.
    chained: bool,
}

#[derive(Arbitrary, Debug)]
enum Log {
    /// The records of a database, changed.
    Records(Vec<Edit>),
    /// Records that say just this.
    Made(Vec<Vec<u8>>),
    /// Just these bytes.
    Raw(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Edit {
    record: u8,
    action: Action,
}

#[derive(Arbitrary, Debug)]
enum Action {
    Bytes { at: u16, bytes: Vec<u8> },
    Number { at: u16, value: u32 },
    /// The operations of another record behind these.
    Join { record: u8 },
    Cut { at: u16 },
    Remove,
    Repeat,
    Swap { record: u8 },
}

/// A database as a crash leaves it: the files, and its records without their headers.
struct Template {
    data: Vec<u8>,
    file: usize,
    offset: usize,
    chain: u64,
    txn: u64,
    records: Vec<Vec<u8>>,
}

fn options() -> Options {
    Options::new().log_bytes(1 << 40).log_period(Duration::MAX).size_max(1 << 26).readers_max(8)
}

fn key(kind: TableKind, n: u64) -> Vec<u8> {
    if kind == TableKind::Integer { n.to_be_bytes().to_vec() } else { format!("key {n:03}").into_bytes() }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let db = Database::open(dir.path(), &options()).expect("a new database");
        for commit in 0..=COMMITS {
            let mut txn = db.write().expect("a transaction");
            for (name, kind) in TABLES {
                let table = txn.create_table(name, kind).expect("a table");
                for n in commit * 3..commit * 3 + 5 {
                    txn.put(&table, &key(kind, n), &vec![n as u8; n as usize]).expect("a put");
                }
                match commit % 6 {
                    2 => _ = txn.delete(&table, &key(kind, commit)).expect("a delete"),
                    3 if kind == TableKind::Multi => {
                        let value = vec![commit as u8; commit as usize];
                        _ = txn.delete_value(&table, &key(kind, commit), &value).expect("a delete");
                    }
                    4 => _ = txn.delete_range(&table, &key(kind, 0)[..]..&key(kind, 4)[..]).expect("a range delete"),
                    5 => txn.clear_table(&table).expect("a table cleared"),
                    _ => {}
                }
            }
            txn.commit().expect("a commit");
            if commit == 0 {
                // The log has to begin behind something.
                db.sync().expect("a steady point");
            }
        }
        let data = std::fs::read(dir.path().join("data")).expect("the data");
        let page_size = db.page_size() as usize;
        let meta = [&data[..page_size], &data[page_size..]].into_iter().max_by_key(|meta| word(meta, AT_TXN));
        let meta = meta.expect("two meta pages");
        let (offset, chain) = (word(meta, AT_LOG) as usize, word(meta, AT_LOG + 8));
        let file = meta[AT_LOG + 16] as usize;
        let log = std::fs::read(dir.path().join(["log.0", "log.1"][file])).expect("the log");
        let (mut at, mut records) = (offset, Vec::new());
        while word(&log, at) != 0 {
            let length = word(&log, at + 8) as u32 as usize;
            records.push(log[at + RECORD_HEADER_BYTES..at + length].to_vec());
            at += length;
        }
        assert_eq!(records.len() as u64, COMMITS);
        Template { file, offset, chain, txn: word(meta, AT_TXN), records, data: data.clone() }
    })
}

fn edit(records: &mut Vec<Vec<u8>>, Edit { record, action }: &Edit) {
    if records.is_empty() {
        return;
    }
    let index = usize::from(*record) % records.len();
    let other = |record: u8| usize::from(record) % records.len();
    let place = |at: u16, record: &[u8]| usize::from(at) % (record.len() + 1);
    match action {
        Action::Bytes { at, bytes } => {
            let at = place(*at, &records[index]);
            records[index].iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = *new);
        }
        Action::Number { at, value } => {
            let at = place(*at, &records[index]);
            records[index].iter_mut().skip(at).zip(value.to_le_bytes()).for_each(|(old, new)| *old = new);
        }
        Action::Join { record } => {
            let more = records[other(*record)].clone();
            // Not ever more: joining doubles.
            if records[index].len() + more.len() < RECORD_BYTES_MAX {
                records[index].extend(more);
            }
        }
        Action::Cut { at } => {
            let at = place(*at, &records[index]);
            records[index].truncate(at);
        }
        Action::Remove => _ = records.remove(index),
        Action::Repeat => {
            let again = records[index].clone();
            records.insert(index, again);
        }
        Action::Swap { record } => {
            let other = other(*record);
            records.swap(index, other);
        }
    }
}

/// The records one behind the other; `chained` if they belong there.
fn write_log(template: &Template, records: &[Vec<u8>], chained: bool) -> Vec<u8> {
    let mut log = vec![0; template.offset];
    let mut chain = template.chain;
    for (n, operations) in records.iter().enumerate() {
        let length = (RECORD_HEADER_BYTES + operations.len()).next_multiple_of(8);
        let mut record = vec![0; length];
        record[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        record[16..24].copy_from_slice(&(template.txn + 1 + n as u64).to_le_bytes());
        record[RECORD_HEADER_BYTES..][..operations.len()].copy_from_slice(operations);
        if chained {
            chain = xxh3_64_with_seed(&record[8..], chain);
            record[..8].copy_from_slice(&chain.to_le_bytes());
        }
        log.extend(record);
    }
    log.resize(log.len().next_multiple_of(4096) + 4096, 0);
    log
}

fn look(db: &Database) {
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "{:#?}", report.problems);
    let snapshot = db.read().expect("a snapshot");
    for table in snapshot.tables().expect("the tables") {
        for entry in snapshot.view(&table).expect("a view").range(..).expect("a range") {
            entry.expect("an entry");
        }
    }
}

fn open(dir: &Path) -> Option<Database> {
    match Database::open(dir, &options()) {
        Ok(db) => Some(db),
        Err(Error::Corrupted { .. } | Error::NoSuchTable { .. } | Error::TableExists { .. }) => None,
        // What a record says may be what no caller may say.
        Err(e @ (Error::Io { .. } | Error::Poisoned | Error::NotADatabase { .. })) => panic!("{e}"),
        Err(_) => None,
    }
}

fn run(input: &Input) {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| tempfile::tempdir().expect("a directory")).path();
    let template = template();
    let log = match &input.log {
        Log::Records(edits) => {
            let mut records = template.records.clone();
            edits.iter().take(20).for_each(|change| edit(&mut records, change));
            write_log(template, &records, input.chained)
        }
        Log::Made(records) => write_log(template, records, input.chained),
        Log::Raw(bytes) => [&vec![0; template.offset], bytes.as_slice()].concat(),
    };
    for file in ["lock", "log.0", "log.1"] {
        let _ = std::fs::remove_file(dir.join(file));
    }
    std::fs::write(dir.join("data"), &template.data).expect("the data written");
    std::fs::write(dir.join(["log.0", "log.1"][template.file]), log).expect("the log written");
    let Some(db) = open(dir) else {
        // Refusing changes nothing: the next opening refuses for the same reason.
        assert!(open(dir).is_none(), "it was refused and then opened");
        return;
    };
    if !input.chained {
        assert_eq!(db.recovery().transactions, 0, "records without a chain count");
    }
    look(&db);
    let mut txn = db.write().expect("a transaction");
    let table = txn.create_table("after the crash", TableKind::Plain).expect("a table");
    txn.put(&table, b"key", b"value").expect("a put");
    txn.commit().expect("a commit");
    db.close().expect("closing");
    look(&open(dir).expect("the database again"));
}

fuzz_target!(|input: Input| run(&input));
