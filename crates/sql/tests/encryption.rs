//! SQL on an encrypted database: nothing that a session stores, sorts or keeps for itself is in a
//! file as it is, with a name or without.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, EncryptionKey, Options};

const MARK: &str = "something to find";

/// The files below a directory that this process has open or that have a name, and that hold the mark.
fn files_with_mark(dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap();
    let mut found = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let link = entry.unwrap().path();
        // The directory that is being read is among them.
        let Ok(target) = fs::read_link(&link) else { continue };
        if !target.starts_with(&dir) {
            continue;
        }
        let Ok(file) = fs::File::open(&link) else { continue };
        if !file.metadata().unwrap().is_file() {
            continue;
        }
        seen += 1;
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        if bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes()) {
            found.push(target.display().to_string());
        }
    }
    assert!(seen > 2, "the data file, the lock file, and what there is beside");
    found
}

/// Fills tables, sorts more than fits into memory, and keeps rows for itself. Gives the files with
/// the mark while all of that is there.
fn work(options: &Options) -> (Vec<String>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(Database::open(dir.path(), options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "u");
    session.run("CREATE TABLE birds (number int PRIMARY KEY, note text); CREATE INDEX ON birds (note)").unwrap();
    let fill =
        format!("SELECT n, '{MARK} ' || md5(n::text) || repeat(' {MARK}', n % 9) FROM generate_series(1, 60000) n");
    session.run(&format!("INSERT INTO birds {fill}")).unwrap();
    session.run(&format!("CREATE TEMP TABLE own (number int, note text); INSERT INTO own {fill}")).unwrap();
    session.run("SET work_mem = '64kB'; SET hash_mem_multiplier = 1").unwrap();
    session.run("BEGIN; DECLARE sorted CURSOR FOR SELECT * FROM birds ORDER BY md5(note), number").unwrap();
    let first = session.run("FETCH 3 FROM sorted").unwrap();
    assert_eq!(first.last().unwrap().rows.len(), 3);
    let files = engine.temp_files();
    assert!(files.open > 0 && files.files > 0, "nothing went to disk: {files:?}");
    let found = files_with_mark(dir.path());
    // All of it comes back as it was.
    let count = |session: &mut Session, text: &str| {
        let answers = session.run(text).unwrap();
        format!("{:?}", answers.last().unwrap().rows)
    };
    let rest = session.run("FETCH ALL FROM sorted").unwrap();
    assert_eq!(rest.last().unwrap().rows.len(), 59_997);
    session.run("COMMIT").unwrap();
    let both = "SELECT count(*) FROM birds b JOIN own o ON o.note = b.note WHERE o.number = b.number";
    assert_eq!(count(&mut session, both), count(&mut session, "SELECT 60000::bigint"));
    let groups = "SELECT count(*) FROM (SELECT note, count(*) FROM own GROUP BY note) g";
    assert_eq!(count(&mut session, groups), count(&mut session, "SELECT 60000::bigint"));
    drop(session);
    (found, files.files)
}

#[test]
fn nothing_that_a_session_stores_or_puts_away_is_in_a_file_as_it_is() {
    let key = EncryptionKey::random().unwrap();
    let (found, _) = work(&Options::new().encryption_key(key));
    assert_eq!(found, [""; 0]);
    // The search finds what is plain: the data, the log, and what has no name.
    let (found, _) = work(&Options::new());
    assert!(found.iter().any(|path| path.ends_with("/data")), "{found:?}");
    assert!(found.iter().filter(|path| path.ends_with(" (deleted)")).count() > 1, "{found:?}");
}
