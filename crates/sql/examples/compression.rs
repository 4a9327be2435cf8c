//! What compression of long values costs and saves: `cargo run --release -p colibri-sql --example
//! compression -- DIR`. Rows with a document of JSON, or of random bytes, are loaded and read.
//!
//! | column | meaning |
//! | --- | --- |
//! | file | bytes of the closed file, over the documents' bytes without compression |
//! | log | bytes of the log, over the same |
//! | write, read, skip | CPU time of the thread for a row, in microseconds: to insert it, to read its document, to read the number beside it |

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use colibri_sql::{Datum, Engine, Session};
use colibri_storage::{Database, Durability, Options};

const WORDS: [&str; 24] = [
    "order",
    "street",
    "Berlin",
    "customer",
    "delivery",
    "invoice",
    "paid",
    "open",
    "Anna",
    "Schmidt",
    "colour",
    "green",
    "quantity",
    "warehouse",
    "north",
    "parcel",
    "return",
    "garden",
    "chair",
    "table",
    "lamp",
    "express",
    "note",
    "comment",
];
/// Bytes of documents in a table, about.
const TABLE_BYTES: usize = 16 << 20;

fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A document as applications have them: objects of the same keys with values that differ.
fn json(random: &mut fastrand::Rng, bytes: usize) -> String {
    let mut word = || *random.choice(&WORDS).unwrap();
    let mut text = format!("{{\"customer\": \"{} {}\", \"items\": [", word(), word());
    while text.len() + 100 < bytes {
        let (name, note) = (random.choice(&WORDS).unwrap(), random.choice(&WORDS).unwrap());
        let (sku, price, quantity) = (random.u32(..), random.u16(..), random.u8(1..9));
        text += &format!(
            "{{\"sku\": \"{sku:08x}\", \"name\": \"{name}\", \"cents\": {price}, \"count\": {quantity}, \"note\": \"{note}\"}}, "
        );
    }
    text + "null]}"
}

fn measure(dir: &std::path::Path, kind: &str, bytes: usize, method: &str) {
    _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).unwrap();
    let log_bytes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&log_bytes);
    let options = Options::new().durability(Durability::Sync).trace_writes(move |trace| {
        let log = trace.log.as_ref().map_or(0, |(_, range)| range.end - range.start);
        counted.fetch_add(log, Ordering::Relaxed);
    });
    let engine = Engine::open(Database::open(dir, &options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "bench");
    let ty = if kind == "json" { "jsonb" } else { "bytea" };
    let table = format!("CREATE TABLE docs (id int PRIMARY KEY, n int, d {ty}) WITH (compression = {method})");
    session.run(&table).unwrap();
    let insert = session.prepare(&format!("INSERT INTO docs VALUES ($1, $1, $2::text::{ty})"), &[]).unwrap();
    let rows = TABLE_BYTES / bytes;
    let mut random = fastrand::Rng::with_seed(1);
    let (mut documents, mut write) = (0, Duration::ZERO);
    // A transaction is as large as a load's.
    for start in (0..rows).step_by(100) {
        session.run("BEGIN").unwrap();
        for id in start..rows.min(start + 100) {
            let text = match kind {
                "json" => json(&mut random, bytes),
                _ => (0..bytes).fold("\\x".to_owned(), |text, _| text + &format!("{:02x}", random.u8(..))),
            };
            documents += if kind == "json" { text.len() } else { text.len() / 2 - 1 };
            let before = thread_cpu();
            session.execute(&insert, vec![Datum::Int(id as i64), Datum::text(&text)]).unwrap();
            write += thread_cpu() - before;
        }
        session.run("COMMIT").unwrap();
    }
    let timed = |session: &mut Session, query: &str| {
        let prepared = session.prepare(query, &[]).unwrap();
        let runs = (0..5).map(|_| {
            let before = thread_cpu();
            session.execute(&prepared, Vec::new()).unwrap();
            thread_cpu() - before
        });
        runs.min().unwrap().as_secs_f64() * 1e6 / rows as f64
    };
    let function = if kind == "json" { "max(jsonb_typeof(d))" } else { "max(length(d))" };
    let read = timed(&mut session, &format!("SELECT {function} FROM docs WHERE n >= 0"));
    let skip = timed(&mut session, "SELECT count(*) FROM docs WHERE n >= 0");
    drop((session, insert, engine));
    let file = std::fs::metadata(dir.join("data")).unwrap().len();
    let of_documents = |bytes: u64| bytes as f64 / documents as f64;
    println!(
        "| {kind} | {bytes} | {method} | {:.3} | {:.3} | {:.2} | {read:.2} | {skip:.3} |",
        of_documents(file),
        of_documents(log_bytes.load(Ordering::Relaxed)),
        write.as_secs_f64() * 1e6 / rows as f64,
    );
}

fn main() {
    let dir = std::env::args().nth(1).expect("a directory that may be deleted");
    println!("| documents | bytes | compression | file | log | write | read | skip |");
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |");
    for kind in ["json", "random"] {
        for bytes in [300, 500, 700, 1_000, 2_000, 10_000, 100_000] {
            for method in ["none", "lz4"] {
                measure(&std::path::Path::new(&dir).join("compression"), kind, bytes, method);
            }
        }
    }
}
