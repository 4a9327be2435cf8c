//! DuckDB and SQLite by their packages for Python: a process beside this one has the database, and
//! answers requests that are lines of JSON.
//!
//! ```text
//! → {"sql": "SELECT …"}                              ← {"rows": [["1", null], …], "affected": 1}
//! → {"copy": "t (a, b)", "file": "…"}                ← {"rows": [], "affected": 600}
//!                                                    ← {"error": "…"}
//! ```
//!
//! Neither is linked, so the command stays small, and who has no such package reads why there are
//! no figures. The time of a request over pipes is part of what is measured; it is a tenth of a
//! millisecond.
//!
//! Invariants
//! - One request at a time: all sessions share the process, and a transaction belongs to whoever
//!   has begun it. So one client at a time may use it.
//! - A request that takes too long ends the process. The next one starts another on the same file.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;

use crate::sql::target::{Batch, Boxed, Connection, Failure, Place, Session, Table, Target};

/// What answers.
const SERVER: &str = include_str!("outer/server.py");
const PYTHON: &str = "python3";
/// What a request may take unless `SET statement_timeout` says something else.
const LIMIT_DEFAULT: Duration = Duration::from_secs(3600);

/// Whose package it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    DuckDb,
    Sqlite,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::Sqlite => "sqlite",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::Sqlite => "sqlite3",
        }
    }
}

/// A database of another process.
pub(crate) struct Outer {
    engine: Engine,
    dir: PathBuf,
    about: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    engine: Engine,
    file: PathBuf,
    process: Option<Process>,
    limit: Duration,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

#[derive(Deserialize)]
struct Answered {
    #[serde(default)]
    rows: Vec<Vec<Option<String>>>,
    #[serde(default)]
    affected: u64,
    error: Option<String>,
}

impl Outer {
    /// Opens a database in a directory, or makes one there.
    ///
    /// # Errors
    /// That there is no Python, or no such package.
    pub(crate) fn open(engine: Engine, dir: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(dir).map_err(|e| Failure::sql("58030", format!("{}: {e}", dir.display())))?;
        let file = dir.join(format!("data.{}", engine.name()));
        let mut shared = Shared { engine, file, process: None, limit: LIMIT_DEFAULT };
        let version = shared.ask(&serde_json::json!({ "version": true }))?;
        let version = version.rows.into_iter().flatten().next().flatten().unwrap_or_default();
        let about = match engine {
            Engine::DuckDb => format!("DuckDB {version} of {PYTHON}, in a file, its own settings"),
            Engine::Sqlite => format!("SQLite {version} of {PYTHON}, WAL, cache of 1 GiB, amounts in floating point"),
        };
        Ok(Self { engine, dir: dir.to_owned(), about, shared: Arc::new(Mutex::new(shared)) })
    }
}

impl Shared {
    fn start(&self) -> Result<Process, Failure> {
        let broken = |what: String| Failure::connection(false, what);
        let mut child = Command::new(PYTHON)
            .args(["-c", SERVER, self.engine.name()])
            .arg(&self.file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| broken(format!("{PYTHON} cannot be run ({e}); {} is reached by it", self.engine.name())))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("a process without pipes".to_owned()));
        };
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(answers).lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Process { child, requests, answers: receiver })
    }

    /// One request and its answer.
    fn ask(&mut self, request: &serde_json::Value) -> Result<Answered, Failure> {
        if self.process.is_none() {
            self.process = Some(self.start()?);
        }
        let Some(process) = &mut self.process else { return Err(Failure::connection(false, "it has ended")) };
        let sent = writeln!(process.requests, "{request}").and_then(|()| process.requests.flush());
        let answer = match sent {
            Ok(()) => process.answers.recv_timeout(self.limit),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        let broken = |what: String| Failure::connection(false, what);
        match answer {
            Ok(Ok(line)) => {
                let answered: Answered =
                    serde_json::from_str(&line).map_err(|e| broken(format!("an answer that cannot be read: {e}")))?;
                match answered.error {
                    None => Ok(answered),
                    Some(error) => Err(Failure::sql("XX000", error)),
                }
            }
            Ok(Err(error)) => Err(broken(error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                self.stop();
                Err(Failure::timed_out(false, self.limit))
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.stop();
                let package = self.engine.package();
                Err(broken(format!("it has ended: does `{PYTHON} -c 'import {package}'` succeed?")))
            }
        }
    }

    fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            _ = process.child.kill();
            _ = process.child.wait();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Target for Outer {
    fn name(&self) -> String {
        self.engine.name().to_owned()
    }

    fn about(&self) -> Boxed<'_, String> {
        let about = self.about.clone();
        Box::pin(async move { about })
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn connect<'a>(&'a self, statements: &'a [String]) -> Boxed<'a, Result<Session, Failure>> {
        Box::pin(async move {
            match statements.is_empty() {
                true => Ok(Session::new(Piped { shared: Arc::clone(&self.shared), dir: self.dir.clone(), copy: None })),
                false => Err(Failure::answer("statements cannot be prepared here")),
            }
        })
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }

    fn pid(&self) -> Option<u32> {
        self.shared.lock().process.as_ref().map(|process| process.child.id())
    }

    fn sessions_max(&self) -> u32 {
        1
    }
}

struct Piped {
    shared: Arc<Mutex<Shared>>,
    dir: PathBuf,
    /// The table and its columns, and the rows so far.
    copy: Option<(String, Vec<u8>)>,
}

impl Piped {
    fn run(&self, sql: &str) -> Result<Table, Failure> {
        let mut shared = self.shared.lock();
        let mut batch = Batch::default();
        let mut writer = batch.begin_answer();
        if let Some(limit) = sql.strip_prefix("SET statement_timeout = ") {
            let limit = limit.parse().map_err(|_| Failure::answer("a time limit is a number of milliseconds"))?;
            shared.limit = Duration::from_millis(limit);
        } else if let Some(sql) = in_its_words(shared.engine, sql) {
            let answered = shared.ask(&serde_json::json!({ "sql": sql }))?;
            for row in &answered.rows {
                for cell in row {
                    match cell {
                        None => writer.cell(crate::sql::target::Cell::Null),
                        Some(text) => match text.parse() {
                            // What a count is read from.
                            Ok(value) => writer.cell(crate::sql::target::Cell::Int(value)),
                            Err(_) => writer.text(text.as_bytes()),
                        },
                    }
                }
                writer.end_row(row.len());
            }
            writer.affected(answered.affected);
        }
        Ok(Table::new(batch))
    }
}

impl Connection for Piped {
    fn poll_run(&mut self, _cx: &mut Context<'_>, _batch: &mut Batch) -> Poll<Result<(), Failure>> {
        Poll::Ready(Err(Failure::answer("statements cannot be prepared here")))
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn query<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<Table, Failure>> {
        Box::pin(async move { self.run(sql) })
    }

    fn copy_begin<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let into = sql.strip_prefix("COPY ").and_then(|rest| rest.strip_suffix(" FROM STDIN"));
            let into = into.ok_or_else(|| Failure::answer("a COPY of another form"))?;
            self.copy = Some((into.to_owned(), Vec::new()));
            Ok(())
        })
    }

    fn copy_data<'a>(&'a mut self, bytes: &'a [u8]) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let (_, rows) = self.copy.as_mut().ok_or_else(|| Failure::answer("no COPY is under way"))?;
            rows.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn copy_end(&mut self) -> Boxed<'_, Result<u64, Failure>> {
        Box::pin(async move {
            let (into, rows) = self.copy.take().ok_or_else(|| Failure::answer("no COPY is under way"))?;
            let file = self.dir.join("rows.tsv");
            std::fs::write(&file, rows).map_err(|e| Failure::sql("58030", format!("{}: {e}", file.display())))?;
            let answered = self.shared.lock().ask(&serde_json::json!({ "copy": into, "file": file }));
            _ = std::fs::remove_file(&file);
            Ok(answered?.affected)
        })
    }
}

/// A statement in the words of the engine. `None` for what it has no need of.
fn in_its_words(engine: Engine, sql: &str) -> Option<String> {
    match (engine, sql) {
        (Engine::DuckDb, sql) if sql.starts_with("VACUUM ") || sql.starts_with("ANALYZE ") => None,
        (Engine::Sqlite, sql) if sql.starts_with("VACUUM ") => None,
        (Engine::DuckDb, sql) => Some(sql.to_owned()),
        (Engine::Sqlite, sql) => Some(in_sqlite(sql)),
    }
}

/// Amounts that queries compute, and SQLite would compute in floating point, where 0.06 - 0.01 is
/// less than 0.05.
const AMOUNTS: [(&str, &str); 2] = [("0.06 - 0.01", "0.05"), ("0.06 + 0.01", "0.07")];

/// SQLite has dates as texts, and functions for what others have words for.
fn in_sqlite(sql: &str) -> String {
    let sql = AMOUNTS.iter().fold(sql.to_owned(), |sql, (computed, amount)| sql.replace(computed, amount));
    let mut out = String::new();
    let mut rest = sql.as_str();
    while let Some(at) = ["date '", "timestamp '", "extract(", "substring(", "date_trunc("]
        .iter()
        .filter_map(|word| rest.find(word))
        .min()
    {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (made, length) = day(rest)
            .or_else(|| part_of_date(rest))
            .or_else(|| substring(rest))
            .or_else(|| minute(rest))
            .unwrap_or_else(|| {
                let word = rest.find(['\'', '(']).unwrap_or(0) + 1;
                (rest[..word].to_owned(), word)
            });
        out.push_str(&made);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// `date '…'`, perhaps with `± interval 'n' unit` behind it: what it becomes, and its length.
fn day(text: &str) -> Option<(String, usize)> {
    let (word, rest) = text.split_once('\'')?;
    if !["date ", "timestamp "].contains(&word) {
        return None;
    }
    let (day, behind) = rest.split_once('\'')?;
    let moved = || {
        let rest = behind.strip_prefix(' ')?;
        let sign = rest.chars().next().filter(|&sign| sign == '+' || sign == '-')?;
        let (count, rest) = rest[1..].strip_prefix(" interval '")?.split_once("' ")?;
        let unit = rest.split(|letter: char| !letter.is_ascii_alphabetic()).next()?;
        Some((format!("date('{day}', '{sign}{count} {unit}')"), text.len() - rest.len() + unit.len()))
    };
    Some(moved().unwrap_or_else(|| (format!("'{day}'"), text.len() - behind.len())))
}

/// `extract(part FROM x)`.
fn part_of_date(text: &str) -> Option<(String, usize)> {
    let (part, rest) = text.strip_prefix("extract(")?.split_once(" FROM ")?;
    let (value, behind) = rest.split_once(')')?;
    let letter = match part {
        "year" => "%Y",
        "month" => "%m",
        "day" => "%d",
        "hour" => "%H",
        "minute" => "%M",
        _ => return None,
    };
    Some((format!("CAST(strftime('{letter}', {value}) AS integer)"), text.len() - behind.len()))
}

/// `date_trunc('minute', x)`.
fn minute(text: &str) -> Option<(String, usize)> {
    let (value, behind) = text.strip_prefix("date_trunc('minute', ")?.split_once(')')?;
    Some((format!("strftime('%Y-%m-%d %H:%M:00', {value})"), text.len() - behind.len()))
}

/// `substring(x FROM a FOR b)`.
fn substring(text: &str) -> Option<(String, usize)> {
    let (inner, behind) = text.strip_prefix("substring(")?.split_once(')')?;
    let (value, places) = inner.split_once(" FROM ")?;
    let (first, count) = places.split_once(" FOR ")?;
    Some((format!("substr({value}, {first}, {count})"), text.len() - behind.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_put_into_the_words_of_sqlite() {
        assert_eq!(
            in_sqlite("x >= date '1994-01-01' AND x < date '1994-01-01' + interval '1' year AND y"),
            "x >= '1994-01-01' AND x < date('1994-01-01', '+1 year') AND y"
        );
        assert_eq!(
            in_sqlite("SELECT extract(year FROM o_orderdate), substring(c_phone FROM 1 FOR 2) FROM t"),
            "SELECT CAST(strftime('%Y', o_orderdate) AS integer), substr(c_phone, 1, 2) FROM t"
        );
        assert_eq!(
            in_sqlite("date_trunc('minute', event_time) AS m"),
            "strftime('%Y-%m-%d %H:%M:00', event_time) AS m"
        );
        assert_eq!(in_sqlite("date('now')"), "date('now')");
        assert_eq!(in_its_words(Engine::DuckDb, "VACUUM t"), None);
    }

    /// SQLite is part of Python, DuckDB is where somebody has installed it. Without Python there is
    /// nothing to test but the error.
    #[test]
    fn a_database_of_another_process_is_loaded_and_asked() {
        for engine in [Engine::Sqlite, Engine::DuckDb] {
            let dir = tempfile::tempdir().unwrap();
            let outer = match Outer::open(engine, dir.path()) {
                Ok(outer) => outer,
                Err(failure) => {
                    assert!(failure.message().contains(PYTHON), "{failure}");
                    continue;
                }
            };
            let runtime = crate::sql::driver::runtime(1).unwrap();
            runtime.block_on(async {
                let mut session = outer.connect(&[]).await.unwrap();
                session.query("CREATE TABLE t (a int, b text, c decimal(15, 2))").await.unwrap();
                session.copy_begin("COPY t (a, b, c) FROM STDIN").await.unwrap();
                session.copy_data(b"1\tone \"and\" more\t0.50\n2\t\\N\t7.25\n").await.unwrap();
                assert_eq!(session.copy_end().await.unwrap(), 2);
                assert_eq!(session.count("SELECT count(*) FROM t WHERE b IS NULL").await.unwrap(), 1);
                let table = session.query("SELECT b FROM t WHERE a = 1").await.unwrap();
                assert_eq!(table.answer().text(0, 0), Some(&b"one \"and\" more"[..]));
                assert!(session.query("SELECT nothing FROM nowhere").await.is_err());

                session.query("SET statement_timeout = 50").await.unwrap();
                let long = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 1000000000) \
                            SELECT count(*) FROM r";
                assert!(session.query(long).await.unwrap_err().is_timeout());
                session.query("SET statement_timeout = 60000").await.unwrap();
                assert_eq!(session.count("SELECT count(*) FROM t").await.unwrap(), 2, "what was committed is there");
            });
        }
    }
}
