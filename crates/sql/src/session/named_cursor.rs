//! DECLARE, FETCH, MOVE, CLOSE: queries whose rows a block takes piece by piece.
//!
//! ```text
//! DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITHOUT HOLD] FOR query
//! FETCH|MOVE [direction] [FROM|IN] name
//! CLOSE name|ALL
//! ```
//!
//! A cursor is a statement at work that nobody steps on with but FETCH: it runs as far as its rows are asked for. What it
//! has given is forgotten unless it was declared with SCROLL.
//!
//! Invariants
//! - A cursor sees neither what its transaction writes after DECLARE nor, in READ COMMITTED, a later snapshot: before a
//!   statement that would let it, it is run to its end ([`Session::settle_cursors`]). So one that is not at its end has
//!   nothing of its own transaction's to take back.
//! - Cursors end with their block, and those that a savepoint is older than with ROLLBACK TO it.

use std::sync::Arc;

use colibri_txn::Isolation;
use compact_str::CompactString;
use sqlparser::tokenizer::Token;

use super::plans::{Command, Kind};
use super::{Completion, Prepared, Progress, ResultColumn, Rows, Running, Session, Stage, TransactionState};
use crate::env::CursorInfo;
use crate::error::{Error, Result, SqlState};
use crate::exec::datum_bytes;
use crate::types::Type;

const NO_SUCH_CURSOR: SqlState = SqlState("34000");
const DUPLICATE_CURSOR: SqlState = SqlState("42P03");

/// A statement about cursors.
pub(super) enum CursorStatement {
    Declare {
        name: CompactString,
        scroll: bool,
        binary: bool,
        query: Arc<Prepared>,
    },
    Fetch {
        name: CompactString,
        goal: Goal,
        moves: bool,
    },
    /// `None`: all.
    Close {
        name: Option<CompactString>,
    },
}

/// Which rows FETCH gives, and where it leaves the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// So many from here on; `u64::MAX` for all.
    Forward(u64),
    Backward(u64),
    /// The one with this number, from 1 on; from the end if negative.
    Absolute(i64),
    Relative(i64),
}

/// A statement about cursors as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The query begins at this byte.
    Declare {
        name: CompactString,
        scroll: bool,
        binary: bool,
        query: usize,
    },
    Fetch {
        name: CompactString,
        goal: Goal,
        moves: bool,
    },
    Close {
        name: Option<CompactString>,
    },
}

/// A cursor of a block.
pub(super) struct OpenCursor {
    prepared: Arc<Prepared>,
    /// Until it is at its end.
    running: Option<Running>,
    /// Rows that were not given yet; with `scroll`, all that there were.
    rows: Rows,
    /// How many rows came in front of `rows`.
    before: u64,
    /// 0 in front of the first row, a row's number on it, one more than there are behind the last.
    at: u64,
    scroll: bool,
    binary: bool,
    has_failed: bool,
    /// Cursors that were declared before it, in this session.
    serial: u64,
    kept_bytes: usize,
}

/// A FETCH at work.
pub(super) struct Fetch {
    name: CompactString,
    goal: Goal,
    moves: bool,
    given: u64,
    is_done: bool,
}

// ---- reading ----

/// Reads a statement if it is about cursors.
///
/// # Errors
/// 42601 if it begins like one and goes on otherwise.
pub(super) fn parse(text: &str) -> Result<Option<Parsed>> {
    let first = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_known = ["declare", "fetch", "move", "close"].iter().any(|word| word.eq_ignore_ascii_case(first));
    // A comment in front hides the first word.
    if !first.is_empty() && !is_known {
        return Ok(None);
    }
    let tokens = crate::statement::placed_tokens(text)?;
    let mut reader = Reader { tokens: &tokens, at: 0, end: text.len() };
    let parsed = if reader.eat("DECLARE") {
        return reader.declare().map(Some);
    } else if reader.eat("FETCH") {
        reader.fetch(false)?
    } else if reader.eat("MOVE") {
        reader.fetch(true)?
    } else if reader.eat("CLOSE") {
        Parsed::Close { name: if reader.eat("ALL") { None } else { Some(reader.name()?) } }
    } else {
        return Ok(None);
    };
    while reader.eat_token(&Token::SemiColon) {}
    match reader.peek() {
        None => Ok(Some(parsed)),
        Some(_) => Err(reader.syntax()),
    }
}

struct Reader<'t> {
    tokens: &'t [(Token, usize)],
    at: usize,
    end: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn syntax(&self) -> Error {
        let message = match self.peek() {
            None => "syntax error at end of input".to_owned(),
            Some(token) => format!("syntax error at or near \"{token}\""),
        };
        Error::new(SqlState::SYNTAX_ERROR, message)
    }

    fn eat(&mut self, word: &str) -> bool {
        let fits = matches!(self.peek(), Some(Token::Word(found)) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word));
        self.at += usize::from(fits);
        fits
    }

    fn eat_token(&mut self, token: &Token) -> bool {
        let fits = self.peek() == Some(token);
        self.at += usize::from(fits);
        fits
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.eat(word) { Ok(()) } else { Err(self.syntax()) }
    }

    fn name(&mut self) -> Result<CompactString> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let name = crate::admin::folded(word);
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.syntax()),
        }
    }

    fn declare(mut self) -> Result<Parsed> {
        let name = self.name()?;
        let (mut scroll, mut binary) = (false, false);
        loop {
            if self.eat("BINARY") {
                binary = true;
            } else if self.eat("SCROLL") {
                scroll = true;
            } else if self.eat("NO") {
                self.expect("SCROLL")?;
            } else if !self.eat("INSENSITIVE") && !self.eat("ASENSITIVE") {
                break;
            }
        }
        self.expect("CURSOR")?;
        if self.eat("WITHOUT") {
            self.expect("HOLD")?;
        } else if self.eat("WITH") {
            self.expect("HOLD")?;
            return Err(Error::unsupported("a cursor that outlives its transaction (WITH HOLD)"));
        }
        self.expect("FOR")?;
        let query = self.tokens.get(self.at).map_or(self.end, |&(_, at)| at);
        Ok(Parsed::Declare { name, scroll, binary, query })
    }

    fn fetch(&mut self, moves: bool) -> Result<Parsed> {
        let goal = self.goal()?;
        if !self.eat("FROM") {
            self.eat("IN");
        }
        Ok(Parsed::Fetch { name: self.name()?, goal, moves })
    }

    fn goal(&mut self) -> Result<Goal> {
        // Each of these is a cursor's name as well, if nothing follows.
        let is_name =
            self.tokens.len() - self.at == 1 || matches!(self.tokens.get(self.at + 1), Some((Token::SemiColon, _)));
        if is_name {
            return Ok(Goal::Forward(1));
        }
        Ok(if self.eat("NEXT") {
            Goal::Forward(1)
        } else if self.eat("PRIOR") {
            Goal::Backward(1)
        } else if self.eat("FIRST") {
            Goal::Absolute(1)
        } else if self.eat("LAST") {
            Goal::Absolute(-1)
        } else if self.eat("ABSOLUTE") {
            Goal::Absolute(self.number()?.ok_or_else(|| self.syntax())?)
        } else if self.eat("RELATIVE") {
            Goal::Relative(self.number()?.ok_or_else(|| self.syntax())?)
        } else if self.eat("ALL") {
            Goal::Forward(u64::MAX)
        } else if self.eat("FORWARD") {
            self.count(false)?
        } else if self.eat("BACKWARD") {
            self.count(true)?
        } else {
            match self.number()? {
                Some(count) => Goal::of(count),
                None => Goal::Forward(1),
            }
        })
    }

    fn count(&mut self, backward: bool) -> Result<Goal> {
        if self.eat("ALL") {
            return Ok(if backward { Goal::Backward(u64::MAX) } else { Goal::Forward(u64::MAX) });
        }
        let count = self.number()?.unwrap_or(1);
        Ok(Goal::of(if backward { -count } else { count }))
    }

    fn number(&mut self) -> Result<Option<i64>> {
        let start = self.at;
        let negative = self.eat_token(&Token::Minus);
        if !negative {
            self.eat_token(&Token::Plus);
        }
        let Some(Token::Number(digits, _)) = self.peek() else {
            return if self.at == start { Ok(None) } else { Err(self.syntax()) };
        };
        // As in PostgreSQL a count has 32 bits.
        let number = digits.parse::<i32>().map_err(|_| self.syntax())?;
        self.at += 1;
        Ok(Some(if negative { -i64::from(number) } else { number.into() }))
    }
}

impl Goal {
    fn of(count: i64) -> Self {
        if count < 0 { Self::Backward(count.unsigned_abs()) } else { Self::Forward(count.unsigned_abs()) }
    }
}

// ---- preparing ----

impl CursorStatement {
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::Declare { .. } => "DECLARE CURSOR",
            Self::Fetch { moves: false, .. } => "FETCH",
            Self::Fetch { moves: true, .. } => "MOVE",
            Self::Close { name: None } => "CLOSE CURSOR ALL",
            Self::Close { .. } => "CLOSE CURSOR",
        }
    }
}

fn no_such_cursor(name: &str) -> Error {
    Error::new(NO_SUCH_CURSOR, format!("cursor \"{name}\" does not exist"))
}

impl Session {
    /// Makes a statement about cursors ready to run, in the transaction at hand.
    pub(super) fn prepare_cursor(&mut self, text: &str, parsed: Parsed, types: &[Option<Type>]) -> Result<Prepared> {
        let mut prepared = self.bare(text, Command::Empty);
        let statement = match parsed {
            Parsed::Declare { name, scroll, binary, query } => {
                let in_text = |error: Error| match error.report().position {
                    Some(position) => error.moved_to(position + text[..query].chars().count() as u32),
                    None => error,
                };
                let query = self.prepare_in_txn(&text[query..], types).map_err(in_text)?;
                if !matches!(query.command, Command::Plan { kind: Kind::Select, .. }) {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "a cursor is for a query"));
                }
                prepared.params.clone_from(&query.params);
                CursorStatement::Declare { name, scroll, binary, query }
            }
            Parsed::Fetch { name, goal, moves } => {
                let cursor = self.cursors.get(&name).ok_or_else(|| no_such_cursor(&name))?;
                if !moves {
                    prepared.columns.clone_from(&cursor.prepared.columns);
                    prepared.is_binary = cursor.binary;
                }
                CursorStatement::Fetch { name, goal, moves }
            }
            Parsed::Close { name } => CursorStatement::Close { name },
        };
        prepared.command = Command::Cursor(statement);
        Ok(prepared)
    }

    /// The columns of a cursor of the block at hand.
    #[must_use]
    pub fn cursor_columns(&self, name: &str) -> Option<&[ResultColumn]> {
        self.cursors.get(name).map(|cursor| &cursor.prepared.columns[..])
    }

    /// Closes a cursor, if there is one of that name.
    pub fn drop_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
        self.list_cursors();
    }

    /// Closes those that were declared after so many others.
    pub(super) fn drop_cursors_after(&mut self, serial: u64) {
        self.cursors.retain(|_, cursor| cursor.serial <= serial);
        self.list_cursors();
    }

    pub(super) fn forget_cursors(&mut self) {
        self.cursors.clear();
        self.env.cursors.clear();
    }

    /// Lists no cursor that there is no more.
    fn list_cursors(&mut self) {
        self.env.cursors.retain(|listed| self.cursors.contains_key(&listed.name));
    }

    // ---- running ----

    /// Runs a statement about cursors; a FETCH goes on step by step.
    pub(super) fn cursor_statement(&mut self, running: &mut Running) -> Result<Option<Completion>> {
        let prepared = Arc::clone(&running.prepared);
        let Command::Cursor(statement) = &prepared.command else {
            return Err(Error::internal("not a statement about cursors"));
        };
        match statement {
            CursorStatement::Declare { name, scroll, binary, query } => {
                if self.state == TransactionState::Idle {
                    let message = "DECLARE CURSOR can only be used in transaction blocks";
                    return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
                }
                if self.cursors.contains_key(name) {
                    return Err(Error::new(DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
                }
                let inner = self.at_start(query, std::mem::take(&mut running.params));
                self.cursor_serial += 1;
                let cursor = OpenCursor {
                    prepared: Arc::clone(query),
                    running: Some(inner),
                    rows: Rows::default(),
                    before: 0,
                    at: 0,
                    scroll: *scroll,
                    binary: *binary,
                    has_failed: false,
                    serial: self.cursor_serial,
                    kept_bytes: 0,
                };
                self.cursors.insert(name.clone(), Box::new(cursor));
                self.env.cursors.push(CursorInfo {
                    name: name.clone(),
                    statement: prepared.text().to_owned(),
                    is_binary: *binary,
                    is_scrollable: *scroll,
                    declared_us: self.env.statement_us,
                });
            }
            CursorStatement::Fetch { name, goal, moves } => {
                let cursor = self.cursors.get(name).ok_or_else(|| no_such_cursor(name))?;
                let types = |columns: &[ResultColumn]| columns.iter().map(|column| column.ty).collect::<Vec<_>>();
                if !moves && types(&cursor.prepared.columns) != types(&prepared.columns) {
                    let message = "cached plan must not change result type";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let goal = cursor.reachable(*goal)?;
                running.stage =
                    Stage::Fetch(Fetch { name: name.clone(), goal, moves: *moves, given: 0, is_done: false });
                return Ok(None);
            }
            CursorStatement::Close { name: None } => self.forget_cursors(),
            CursorStatement::Close { name: Some(name) } => {
                self.cursors.remove(name).ok_or_else(|| no_such_cursor(name))?;
                self.list_cursors();
            }
        }
        Ok(Some(Completion { tag: prepared.tag().to_owned(), ticket: None }))
    }

    /// Goes on with a FETCH; `None` when it is done.
    pub(super) fn fetch_on(&mut self, fetch: &mut Fetch, out: &mut Rows, budget_rows: i64) -> Result<Option<Progress>> {
        if fetch.is_done {
            return Ok(None);
        }
        let mut cursor = self.cursors.remove(&fetch.name).ok_or_else(|| no_such_cursor(&fetch.name))?;
        let done = self.fetch_from(&mut cursor, fetch, out, budget_rows);
        cursor.has_failed |= done.is_err();
        self.cursors.insert(fetch.name.clone(), cursor);
        done
    }

    fn fetch_from(
        &mut self,
        cursor: &mut OpenCursor,
        fetch: &mut Fetch,
        out: &mut Rows,
        budget_rows: i64,
    ) -> Result<Option<Progress>> {
        if cursor.has_failed {
            let message = format!("portal \"{}\" cannot be run", fetch.name);
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
        }
        let mut has_pulled = false;
        loop {
            let before = fetch.given;
            fetch.is_done = cursor.give(fetch, out);
            if fetch.given > before && !fetch.moves {
                return Ok(Some(Progress::Rows));
            }
            if fetch.is_done {
                return Ok(None);
            }
            // What has a long way to go to its first row stops like any other statement.
            if std::mem::replace(&mut has_pulled, true) {
                return Ok(Some(Progress::Yield));
            }
            if let Some(progress) = self.pull(cursor, budget_rows)? {
                return Ok(Some(progress));
            }
        }
    }

    /// Steps on with a cursor's query. `None`: it has more rows now, or is at its end.
    fn pull(&mut self, cursor: &mut OpenCursor, budget_rows: i64) -> Result<Option<Progress>> {
        let Some(running) = &mut cursor.running else { return Ok(None) };
        let known = cursor.rows.len();
        let progress = self.advance(running, &mut cursor.rows, budget_rows)?;
        if cursor.scroll {
            let came = cursor.rows.iter().skip(known);
            cursor.kept_bytes += came.flatten().map(datum_bytes).sum::<usize>();
            self.check_kept(cursor)?;
        }
        match progress {
            Progress::Rows => Ok(None),
            Progress::Done(_) => {
                cursor.running = None;
                Ok(None)
            }
            waits => Ok(Some(waits)),
        }
    }

    fn check_kept(&self, cursor: &OpenCursor) -> Result<()> {
        let bytes_max = self.own.settings.hot().work_bytes;
        if cursor.kept_bytes <= bytes_max {
            return Ok(());
        }
        Err(Error::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(format!("Rows of a cursor that have to be kept need more than {bytes_max} bytes."))
            .hint("Rows are kept by SCROLL, and when the transaction writes something before all of them are fetched."))
    }

    /// Whether a statement that is about to begin would show in what cursors give later.
    pub(super) fn disturbs_cursors(&self, running: &Running) -> bool {
        match running.prepared.command {
            Command::Cursor(_) | Command::Control(_) => false,
            _ => running.prepared.writes || self.block.isolation == Isolation::ReadCommitted,
        }
    }

    /// Runs cursors on towards their ends, a batch of one of them at a time. `None` when all are there.
    pub(super) fn settle_cursors(&mut self, budget_rows: i64) -> Result<Option<Progress>> {
        let is_open = |cursor: &OpenCursor| cursor.running.is_some() && !cursor.has_failed;
        let open = self.cursors.iter().find(|(_, cursor)| is_open(cursor)).map(|(name, _)| name.clone());
        let Some((name, mut cursor)) = open.and_then(|name| self.cursors.remove_entry(&name)) else { return Ok(None) };
        let known = cursor.rows.len();
        let pulled = self.pull(&mut cursor, budget_rows);
        if !cursor.scroll {
            cursor.kept_bytes += cursor.rows.iter().skip(known).flatten().map(datum_bytes).sum::<usize>();
        }
        let pulled = pulled.and_then(|progress| self.check_kept(&cursor).map(|()| progress));
        cursor.has_failed |= pulled.is_err();
        self.cursors.insert(name, cursor);
        Ok(Some(pulled?.unwrap_or(Progress::Yield)))
    }
}

/// How far a cursor that is to be kept is run at once, by who may wait.
const SETTLE_ROWS: i64 = 1 << 20;

impl Session {
    /// Runs all cursors to their ends, waiting for what they wait for.
    pub(super) fn settle_cursors_now(&mut self) -> Result<()> {
        loop {
            match self.settle_cursors(SETTLE_ROWS)? {
                None => return Ok(()),
                Some(Progress::Wait(wait)) => super::wait_now(wait, &self.own.settings, &self.cancel)?,
                Some(_) => {}
            }
        }
    }
}

impl Fetch {
    pub(super) fn tag(&self) -> String {
        format!("{} {}", if self.moves { "MOVE" } else { "FETCH" }, self.given)
    }
}

impl OpenCursor {
    /// The goal, counted from where the cursor is now.
    fn reachable(&self, goal: Goal) -> Result<Goal> {
        let goal = match goal {
            Goal::Relative(0) | Goal::Backward(0) | Goal::Forward(0) => Goal::Relative(0),
            Goal::Relative(by) => Goal::Absolute((self.at as i64).saturating_add(by).max(0)),
            other => other,
        };
        let is_ahead = match goal {
            Goal::Forward(_) => true,
            Goal::Absolute(number) => number > self.at as i64,
            Goal::Backward(_) | Goal::Relative(_) => false,
        };
        if !is_ahead && !self.scroll {
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
                .hint("Declare it with SCROLL option to enable backward scan."));
        }
        Ok(goal)
    }

    /// Rows that there are so far.
    fn count(&self) -> u64 {
        self.before + self.rows.len() as u64
    }

    /// Gives what it has of what is wanted; whether that was all.
    fn give(&mut self, fetch: &mut Fetch, out: &mut Rows) -> bool {
        match fetch.goal {
            Goal::Forward(mut left) => {
                while left > 0 {
                    if !self.go_on() {
                        fetch.goal = Goal::Forward(left);
                        return self.running.is_none();
                    }
                    self.show(fetch, out);
                    left -= 1;
                }
                true
            }
            Goal::Backward(mut left) => {
                while left > 0 && self.at > 1 {
                    self.at -= 1;
                    left -= 1;
                    self.show(fetch, out);
                }
                if left > 0 {
                    self.at = 0;
                }
                true
            }
            Goal::Absolute(number) if number < 0 => {
                if self.running.is_some() {
                    return false;
                }
                self.at = (self.count() + 1).saturating_sub(number.unsigned_abs());
                self.show(fetch, out);
                true
            }
            Goal::Absolute(number) => {
                let number = number.unsigned_abs();
                if self.scroll {
                    if number > self.count() && self.running.is_some() {
                        return false;
                    }
                    self.at = number.min(self.count() + 1);
                } else {
                    while self.at < number {
                        if !self.go_on() {
                            return self.running.is_none();
                        }
                    }
                }
                self.show(fetch, out);
                true
            }
            Goal::Relative(_) => {
                self.show(fetch, out);
                true
            }
        }
    }

    /// Goes to the next row, or behind the last one if there is none; whether there is one so far.
    fn go_on(&mut self) -> bool {
        // What lies behind it is of no use any more.
        if !self.scroll && self.at == self.count() && !self.rows.is_empty() {
            self.before += self.rows.len() as u64;
            self.rows.clear();
            self.kept_bytes = 0;
        }
        if self.at < self.count() {
            self.at += 1;
            return true;
        }
        if self.running.is_none() {
            self.at = self.count() + 1;
        }
        false
    }

    /// Gives the row that the cursor is on, if it is on one.
    fn show(&mut self, fetch: &mut Fetch, out: &mut Rows) {
        if self.at <= self.before || self.at > self.count() {
            return;
        }
        fetch.given += 1;
        if fetch.moves {
            return;
        }
        let row = self.rows.row_mut((self.at - self.before - 1) as usize);
        if self.scroll {
            out.push(row.iter().cloned());
        } else {
            out.push(row.iter_mut().map(std::mem::take));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::session::Engine;

    fn session(rows: u32) -> (tempfile::TempDir, Arc<Engine>, Session) {
        let dir = tempfile::tempdir().unwrap();
        let database = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new()).unwrap();
        let engine = Engine::open(database).unwrap();
        let mut session = Session::new(&engine, "me");
        session.run("CREATE TABLE t (a int PRIMARY KEY)").unwrap();
        session.run(&format!("INSERT INTO t SELECT * FROM generate_series(1, {rows})")).unwrap();
        (dir, engine, session)
    }

    /// What a statement gives, as text: its rows and its tag.
    fn said(session: &mut Session, sql: &str) -> String {
        let answer = match session.run(sql) {
            Ok(mut answers) => answers.pop().unwrap(),
            Err(error) => return error.state().0.to_owned(),
        };
        let rows = answer.text_rows(session);
        let mut values: Vec<String> = rows.into_iter().map(|mut row| row.remove(0).unwrap_or_default()).collect();
        values.push(answer.tag);
        values.join(" ")
    }

    fn check(session: &mut Session, cases: &[(&str, &str)]) {
        for (sql, expected) in cases {
            assert_eq!(said(session, sql), *expected, "{sql}");
        }
    }

    #[test]
    fn a_cursor_gives_rows_forward_as_they_are_asked_for() {
        let (_dir, _engine, mut session) = session(5);
        check(
            &mut session,
            &[
                ("DECLARE c CURSOR FOR SELECT a FROM t", "25P01"),
                ("FETCH c", "34000"),
                ("BEGIN", "BEGIN"),
                ("DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "DECLARE CURSOR"),
                ("FETCH c", "1 FETCH 1"),
                ("FETCH NEXT FROM c", "2 FETCH 1"),
                (
                    "SELECT name || statement FROM pg_cursors",
                    "cDECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a SELECT 1",
                ),
                ("MOVE 1 IN c", "MOVE 1"),
                ("FETCH FORWARD 1 FROM c", "4 FETCH 1"),
                ("FETCH ALL FROM c", "5 FETCH 1"),
                ("FETCH c", "FETCH 0"),
                ("MOVE FORWARD ALL IN c", "MOVE 0"),
                ("CLOSE c", "CLOSE CURSOR"),
                ("DECLARE c CURSOR FOR VALUES (1), (2)", "DECLARE CURSOR"),
                ("FETCH ABSOLUTE 2 FROM c", "2 FETCH 1"),
                ("CLOSE ALL", "CLOSE CURSOR ALL"),
                ("SELECT name FROM pg_cursors", "SELECT 0"),
                ("DECLARE c CURSOR FOR SELECT 1", "DECLARE CURSOR"),
                ("COMMIT", "COMMIT"),
                ("BEGIN", "BEGIN"),
                ("FETCH c", "34000"),
                ("ROLLBACK", "ROLLBACK"),
                ("BEGIN", "BEGIN"),
                ("DECLARE c CURSOR FOR SELECT a FROM t", "DECLARE CURSOR"),
                ("DECLARE c CURSOR FOR SELECT a FROM t", "42P03"),
                ("ROLLBACK", "ROLLBACK"),
                ("BEGIN", "BEGIN"),
                ("DECLARE c CURSOR FOR SELECT a FROM t", "DECLARE CURSOR"),
                ("FETCH BACKWARD 1 FROM c", "55000"),
                ("ROLLBACK", "ROLLBACK"),
                ("BEGIN", "BEGIN"),
                ("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t", "0A000"),
                ("ROLLBACK", "ROLLBACK"),
                ("BEGIN", "BEGIN"),
                ("DECLARE c CURSOR FOR DELETE FROM t", "42601"),
                ("ROLLBACK", "ROLLBACK"),
            ],
        );
    }

    #[test]
    fn a_scrolling_cursor_goes_both_ways() {
        let (_dir, _engine, mut session) = session(4);
        check(
            &mut session,
            &[
                ("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "DECLARE CURSOR"),
                ("FETCH PRIOR FROM c", "FETCH 0"),
                ("FETCH 2 FROM c", "1 2 FETCH 2"),
                ("FETCH RELATIVE 0 FROM c", "2 FETCH 1"),
                ("FETCH PRIOR FROM c", "1 FETCH 1"),
                ("FETCH LAST FROM c", "4 FETCH 1"),
                ("FETCH c", "FETCH 0"),
                ("FETCH BACKWARD 2 FROM c", "4 3 FETCH 2"),
                ("FETCH FIRST FROM c", "1 FETCH 1"),
                ("FETCH ABSOLUTE -2 FROM c", "3 FETCH 1"),
                ("FETCH RELATIVE -1 FROM c", "2 FETCH 1"),
                ("FETCH BACKWARD ALL FROM c", "1 FETCH 1"),
                ("FETCH ABSOLUTE 9 FROM c", "FETCH 0"),
                ("FETCH -1 FROM c", "4 FETCH 1"),
                ("FETCH ABSOLUTE -9 FROM c", "FETCH 0"),
                ("FETCH NEXT c", "1 FETCH 1"),
                ("COMMIT", "COMMIT"),
            ],
        );
    }

    #[test]
    fn a_cursor_reads_no_further_than_it_is_fetched() {
        let (_dir, _engine, mut session) = session(1);
        session.run("BEGIN; DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 1000000000000) AS g").unwrap();
        check(&mut session, &[("FETCH 3 FROM c", "1 2 3 FETCH 3"), ("FETCH c", "4 FETCH 1")]);
        assert!(session.cursors["c"].rows.len() <= 4_096, "a batch of rows at the most");
        // Its end would be a long way off.
        session.run("CLOSE c; COMMIT").unwrap();
    }

    #[test]
    fn a_cursor_sees_nothing_that_its_transaction_writes_later() {
        let (_dir, engine, mut session) = session(3_000);
        for level in ["SERIALIZABLE", "READ COMMITTED"] {
            session
                .run(&format!("BEGIN ISOLATION LEVEL {level}; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a"))
                .unwrap();
            session.run("DECLARE d CURSOR FOR SELECT count(*) FROM t").unwrap();
            check(&mut session, &[("FETCH 2 FROM c", "1 2 FETCH 2")]);
            session.run("DELETE FROM t WHERE a > 5; INSERT INTO t VALUES (10000)").unwrap();
            check(
                &mut session,
                &[
                    ("MOVE 2000 IN c", "MOVE 2000"),
                    ("FETCH 1 FROM c", "2003 FETCH 1"),
                    ("MOVE ALL IN c", "MOVE 997"),
                    ("FETCH d", "3000 FETCH 1"),
                    ("SELECT count(*) FROM t", "6 SELECT 1"),
                    ("ROLLBACK", "ROLLBACK"),
                ],
            );
        }
        let mut other = Session::new(&engine, "other");
        session
            .run("BEGIN ISOLATION LEVEL READ COMMITTED; DECLARE c CURSOR FOR SELECT count(*) FROM t; SELECT 1")
            .unwrap();
        other.run("DELETE FROM t WHERE a = 1").unwrap();
        check(
            &mut session,
            &[("SELECT count(*) FROM t", "2999 SELECT 1"), ("FETCH c", "3000 FETCH 1"), ("ROLLBACK", "ROLLBACK")],
        );
    }

    #[test]
    fn cursors_end_with_the_savepoint_that_they_are_younger_than() {
        let (_dir, _engine, mut session) = session(3);
        check(
            &mut session,
            &[
                (
                    "BEGIN; DECLARE old CURSOR FOR SELECT a FROM t; SAVEPOINT s; DECLARE young CURSOR FOR SELECT a FROM t",
                    "DECLARE CURSOR",
                ),
                ("INSERT INTO t VALUES (9)", "INSERT 0 1"),
                ("FETCH young", "1 FETCH 1"),
                ("SELECT 1/0", "22012"),
                ("FETCH old", "25P02"),
                ("ROLLBACK TO s", "ROLLBACK"),
                ("FETCH ALL FROM old", "1 2 3 FETCH 3"),
                ("FETCH young", "34000"),
                ("ROLLBACK", "ROLLBACK"),
            ],
        );
        // A query that fails half way takes back nothing that was done meanwhile.
        check(
            &mut session,
            &[
                (
                    "BEGIN; INSERT INTO t VALUES (10); DECLARE c CURSOR FOR SELECT 1 / (a - 3) FROM t WHERE a < 4",
                    "DECLARE CURSOR",
                ),
                ("SAVEPOINT s", "SAVEPOINT"),
                ("FETCH ALL FROM c", "22012"),
                ("ROLLBACK TO s", "ROLLBACK"),
                ("FETCH c", "55000"),
                ("ROLLBACK TO s", "ROLLBACK"),
                ("SELECT count(*) FROM t", "4 SELECT 1"),
                ("ROLLBACK", "ROLLBACK"),
            ],
        );
    }

    #[test]
    fn rows_that_have_to_be_kept_have_a_limit() {
        let (_dir, _engine, mut session) = session(10);
        session.run("SET work_mem = '1MB'; BEGIN").unwrap();
        session.run("DECLARE c SCROLL CURSOR FOR SELECT repeat('x', 1000) FROM generate_series(1, 10000)").unwrap();
        assert_eq!(session.run("MOVE ALL IN c").unwrap_err().state().0, "53200");
        session.run("ROLLBACK; BEGIN").unwrap();
        session.run("DECLARE c CURSOR FOR SELECT repeat('x', 1000) FROM generate_series(1, 10000)").unwrap();
        assert_eq!(session.run("FETCH ALL FROM c").unwrap()[0].rows.len(), 10_000);
        session.run("CLOSE c; DECLARE c CURSOR FOR SELECT repeat('x', 1000) FROM generate_series(1, 10000)").unwrap();
        assert_eq!(session.run("DELETE FROM t").unwrap_err().state().0, "53200");
        session.run("ROLLBACK").unwrap();
    }

    #[test]
    fn directions_are_read_as_postgresql_reads_them() {
        let goal = |text: &str| match parse(text).unwrap() {
            Some(Parsed::Fetch { goal, name, .. }) => (goal, name.to_string()),
            other => panic!("{text}: {other:?}"),
        };
        let c = || "c".to_owned();
        assert_eq!(goal("FETCH c"), (Goal::Forward(1), c()));
        assert_eq!(goal("FETCH next"), (Goal::Forward(1), "next".to_owned()));
        assert_eq!(goal("FETCH FROM c;"), (Goal::Forward(1), c()));
        assert_eq!(goal("fetch forward all in \"C d\""), (Goal::Forward(u64::MAX), "C d".to_owned()));
        assert_eq!(goal("FETCH -3 c"), (Goal::Backward(3), c()));
        assert_eq!(goal("MOVE BACKWARD -3 FROM c"), (Goal::Forward(3), c()));
        assert_eq!(goal("FETCH RELATIVE +2 c"), (Goal::Relative(2), c()));
        for wrong in [
            "FETCH",
            "FETCH 1",
            "FETCH ABSOLUTE c",
            "CLOSE",
            "CLOSE a b",
            "DECLARE c FOR SELECT 1",
            "FETCH 99999999999 c",
        ] {
            assert_eq!(parse(wrong).unwrap_err().state().0, "42601", "{wrong}");
        }
        assert_eq!(parse("SELECT 1").unwrap(), None);
        let text = "/* x */ DECLARE c BINARY CURSOR FOR SELECT 'ä'";
        let Some(Parsed::Declare { query, binary: true, scroll: false, .. }) = parse(text).unwrap() else { panic!() };
        assert_eq!(&text[query..], "SELECT 'ä'");
    }
}
