//! Hundreds of databases, opened, closed and opened again in one process, with the program's
//! allocator: what each costs.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rustix::process::{Resource, getrlimit, setrlimit};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DATABASES: usize = 500;
const BYTES_EACH_MAX: u64 = 1 << 20;

/// Bytes of memory that this process has now, mapped files included.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Opens each, and has it do what a session's first minute does.
fn open_all(dir: &Path, first: bool) -> Vec<Arc<Engine>> {
    let options = Options::new().durability(Durability::NoSync);
    let open = |number| {
        let database = Database::open(dir.join(format!("d{number}")), &options).unwrap();
        let engine = Engine::open(database).unwrap();
        let mut session = Session::new(&engine, "postgres");
        if first {
            session.run("CREATE TABLE t (id int PRIMARY KEY, v text)").unwrap();
        }
        session.run("INSERT INTO t SELECT coalesce(max(id), 0) + 1, 'one' FROM t").unwrap();
        let rows = session.run("SELECT count(*) FROM t").unwrap();
        assert_eq!(rows[0].text_rows(&session)[0][0].as_deref(), Some(if first { "1" } else { "2" }));
        engine
    };
    (0..DATABASES).map(open).collect()
}

/// Bug: two bits for each page that a database could have lay in memory of the allocator's, zeroed.
/// Fresh memory is zero and costs nothing; memory that a closed database had used was cleared.
/// Consequence: each database opened from then on took 72 MB, and hundreds that a server opens and
/// closes as they are needed took all there is. Fix: a mapping of their own. And each reserved 1
/// TiB of addresses, so that there were none left for the 130th: now the next one always finds
/// some.
#[test]
fn five_hundred_databases_opened_again_take_no_more_than_a_megabyte_each() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let before = resident_bytes();
    for first in [true, false] {
        let open = open_all(dir.path(), first);
        assert_eq!(open.len(), DATABASES);
        let each = resident_bytes().saturating_sub(before) / DATABASES as u64;
        println!("{each} bytes for each of {DATABASES} databases, {}", if first { "new" } else { "opened again" });
        assert!(each <= BYTES_EACH_MAX, "{each} bytes for each database");
    }
}
