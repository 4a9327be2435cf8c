//! Another process: this test's binary once more, which does what it is told line by line.
//!
//! | line | answer |
//! | --- | --- |
//! | `connect` | `owner`, or `guest of PID`: a new connection, in place of the old one |
//! | a statement | `ok` and its rows, `a,b;c,d`; or `error STATE text` |
//! | `add N` | `ok` after N transactions that each add one to `counters`, run again after conflicts |
//! | `fresh` | `fresh`: a fresh copy, which stays until the process ends |
//! | `close` | `ok`: connection and database |

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use colibri::sql::{Connection, Database, Error, Next};

const DIRECTORY: &str = "COLIBRI_TEST_DIRECTORY";
/// Instead of a process with a database: one that has the lock and another version.
const OTHER_VERSION: &str = "COLIBRI_TEST_OTHER_VERSION";

/// Not a test by itself: what another process runs.
#[test]
fn as_another_process() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let dir = Path::new(&dir);
    if std::env::var_os(OTHER_VERSION).is_some() {
        return be_of_another_version(dir);
    }
    let mut database = Some(Database::open(dir).unwrap());
    let mut connection = None;
    let mut copies = Vec::new();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        match (line.as_str(), line.strip_prefix("add ")) {
            ("connect", _) => {
                let new = connection.insert(database.as_ref().unwrap().connect());
                match new.owner() {
                    None => println!("owner"),
                    Some(owner) => println!("guest of {owner}"),
                }
            }
            ("fresh", _) => {
                copies.push(database.as_ref().unwrap().fresh().unwrap());
                println!("fresh");
            }
            ("close", _) => {
                drop(connection.take());
                drop(database.take());
                println!("ok");
            }
            (_, Some(count)) => {
                let connection = connection.get_or_insert_with(|| database.as_ref().unwrap().connect());
                for _ in 0..count.parse().unwrap() {
                    let added = connection.transaction(|tx| -> Result<(), Error> {
                        let count: i64 = tx.query_row("SELECT n FROM counters", ())?.get(0)?;
                        tx.execute("UPDATE counters SET n = $1", (count + 1,)).map(drop)
                    });
                    // Ten attempts may be too few for so many at a time.
                    if let Err(error) = added {
                        assert_eq!(error.state().0, "40001");
                        _ = connection.execute("UPDATE counters SET n = n + 1", ()).unwrap();
                    }
                }
                println!("ok");
            }
            (sql, _) => {
                let connection = connection.get_or_insert_with(|| database.as_ref().unwrap().connect());
                match rows_of(connection, sql) {
                    Ok(rows) => println!("ok {rows}"),
                    Err(error) => println!("error {} {error}", error.state().0),
                }
            }
        }
    }
}

fn rows_of(connection: &mut Connection, sql: &str) -> Result<String, Error> {
    let statement = connection.prepare(sql)?;
    connection.start(&statement, ())?;
    let mut rows = Vec::new();
    while let Next::Rows(block) = connection.next_block()? {
        for row in 0..block.len() {
            let mut line = Vec::new();
            for column in 0..block.columns().len() {
                if column > 0 {
                    line.push(b',');
                }
                block.write_text(row, column, connection, &mut line);
            }
            rows.push(String::from_utf8(line).unwrap());
        }
    }
    Ok(rows.join(";"))
}

/// Holds the lock, and answers as another version of the library does.
fn be_of_another_version(dir: &Path) {
    use std::io::Read;
    let _lock = colibri::sql::engine::DirectoryLock::for_sql(dir).unwrap();
    _ = std::fs::remove_file(dir.join("sql.sock"));
    let listener = std::os::unix::net::UnixListener::bind(dir.join("sql.sock")).unwrap();
    println!("ready");
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"colibri sql\n\x07\x009.9.9/9\x03").unwrap();
    }
}

/// Another process, until it is dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn open(dir: &Path) -> Self {
        Self::start(dir, |_| {})
    }

    pub(crate) fn of_another_version(dir: &Path) -> Self {
        Self::start(dir, |command| _ = command.env(OTHER_VERSION, "1"))
    }

    fn start(dir: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child::as_another_process", "--nocapture"])
            .env(DIRECTORY, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut process = Self { child, input, output };
        while process.hear() != "ready" {}
        process
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended");
        line.trim_end_matches('\n').to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    /// `kill -9`
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
