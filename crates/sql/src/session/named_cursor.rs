//! DECLARE, FETCH, MOVE, CLOSE: queries whose rows a block takes piece by piece.
//!
//! ```text
//! DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH|WITHOUT HOLD] FOR query
//! FETCH|MOVE [direction] [FROM|IN] name
//! CLOSE name|ALL
//! UPDATE|DELETE … WHERE CURRENT OF name
//! ```
//!
//! A cursor is a running statement whose steps only FETCH runs: it runs as far as its rows are
//! fetched. Rows that it has given are dropped if it cannot scroll back: see [`scroll`].
//!
//! Portals of the protocol are cursors, too, if their rows are fetched in pieces, or a statement
//! could name them: see [`portal`].
//!
//! Invariants
//! - A cursor sees neither what its transaction writes after DECLARE nor, in READ COMMITTED, a
//!   later snapshot: before a statement that would change that, it is run to its end
//!   ([`Session::settle_cursors`]). So a rollback of its transaction's own writes does not concern
//!   a cursor that is not at its end.
//! - Cursors end with their block, and with ROLLBACK TO an older savepoint. Those WITH HOLD are run
//!   to their ends before their block commits, and consist of rows from then on: see [`hold`].

mod current_row;
mod hold;
mod portal;
mod scroll;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_syntax::tree::{self, Statement};
use colibri_txn::{CommitTicket, Isolation};
use colibri_types::{Datum, Error, Result, SqlState, Type};
use compact_str::{CompactString, format_compact};
use sqlparser::ast;

use super::drive::{fetch_now, sleep_now, wait_now};
use super::plans::{Command, Kind, Recipe};
use super::step::Stage;
use super::{Completion, Prepared, Progress, ResultColumn, Rows, Running, Session, TransactionState};
use crate::exec::KeptRows;
use crate::surroundings::CursorInfo;

pub(super) use colibri_syntax::tree::Goal;
pub use portal::with_count;
use scroll::Scroll;

const NO_SUCH_CURSOR: SqlState = SqlState("34000");
const DUPLICATE_CURSOR: SqlState = SqlState("42P03");

/// Portals of FETCH that take rows from each other, at most.
const FETCH_DEPTH_MAX: u32 = 16;

/// A statement about cursors.
pub(super) enum CursorStatement {
    Declare {
        name: CompactString,
        scroll: Scroll,
        binary: bool,
        hold: bool,
        query: Arc<Prepared>,
    },
    Fetch {
        name: CompactString,
        goal: Goal,
        moves: bool,
        /// The cursor was there when it was prepared: its columns are known, be they none.
        is_known: bool,
    },
    /// `None`: all.
    Close {
        name: Option<CompactString>,
    },
}

/// A cursor of a block.
pub(super) struct OpenCursor {
    prepared: Arc<Prepared>,
    /// What its rows came from, and where their keys are in them: as it was planned last.
    planned: Arc<Prepared>,
    /// Until it is at its end.
    running: Option<Running>,
    /// The command tag, once it is at its end.
    tag: CompactString,
    /// Rows that were not given yet; with `scroll`, all that there were. Those that memory has no
    /// room for are on disk.
    rows: KeptRows,
    /// How many rows came in front of `rows`.
    before: u64,
    /// 0 in front of the first row, a row's number on it, one more than there are behind the last.
    at: u64,
    scroll: Scroll,
    binary: bool,
    has_failed: bool,
    /// WITH HOLD.
    holds: bool,
    /// Its block has committed.
    is_held: bool,
    /// When what it gives may be told, if it was its transaction by itself.
    ticket: Option<CommitTicket>,
    /// Cursors that were declared before it, in this session.
    serial: u64,
}

/// A FETCH at work.
pub(super) struct Fetch {
    name: CompactString,
    goal: Goal,
    moves: bool,
    given: u64,
    is_done: bool,
    /// The protocol asked for the rows, and the tag is the one of the portal's own statement.
    by_protocol: bool,
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

fn duplicate_cursor(name: &str) -> Error {
    Error::new(DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists"))
}

fn no_such_cursor(name: &str) -> Error {
    Error::new(NO_SUCH_CURSOR, format!("cursor \"{name}\" does not exist"))
}

impl Session {
    /// Makes a statement about cursors ready to run, in the transaction at hand.
    pub(super) fn prepare_cursor(
        &mut self,
        text: &str,
        statement: &Statement,
        types: &[Option<Type>],
    ) -> Result<Recipe> {
        let mut prepared = self.bare(text, Command::Empty);
        let statement = match statement {
            Statement::Declare(declare) => {
                let no_query = || Error::new(SqlState::SYNTAX_ERROR, "a cursor is for a query");
                let &tree::Declare { scroll, binary, hold, insensitive, ref query, .. } = &**declare;
                if !matches!(query.statement, ast::Statement::Query(_)) {
                    return Err(no_query());
                }
                let query = self.prepare_inner_marked(text, query, types)?;
                let Command::Plan { kind: Kind::Select, fragment } = &query.command else { return Err(no_query()) };
                if query.writes {
                    let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                query.check_constants()?;
                let locks = query.cursor_rows.as_ref().is_some_and(|rows| rows.locks);
                let scroll = Scroll::of(scroll, locks, &fragment.root);
                let name = declare.name.clone();
                if locks {
                    scroll::check_locks(hold, scroll, insensitive)?;
                }
                prepared.params.clone_from(&query.params);
                CursorStatement::Declare { name, scroll, binary, hold, query }
            }
            Statement::Fetch(fetch) => {
                let tree::Fetch { name, goal, moves } = fetch.clone();
                // One that is not there may be when it is run.
                let known = self.cursors.get(&name).filter(|_| !moves);
                if let Some(cursor) = known {
                    prepared.columns.clone_from(&cursor.prepared.columns);
                    prepared.is_binary = cursor.binary;
                }
                let is_known = known.is_some_and(|cursor| cursor.prepared.columns().is_some());
                CursorStatement::Fetch { name, goal, moves, is_known }
            }
            Statement::Close(name) => CursorStatement::Close { name: name.clone() },
            _ => return Err(Error::internal("not a statement about cursors")),
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
        if self.cursors.is_empty() {
            return;
        }
        self.cursors.remove(name);
        self.list_cursors();
    }

    /// Closes those whose serial number is above a given one.
    pub(super) fn drop_cursors_after(&mut self, serial: u64) {
        self.cursors.retain(|_, cursor| cursor.outlives(serial));
        self.own.calls.close_cursors_after(serial);
        self.list_cursors();
    }

    /// Closes all of them.
    pub(super) fn forget_all_cursors(&mut self) {
        self.cursors.clear();
        self.own.calls.close_cursors();
        self.listed.cursors.lock().clear();
    }

    /// Lists no cursor that there is no more.
    fn list_cursors(&mut self) {
        self.listed.cursors.lock().retain(|listed| self.cursors.contains_key(&listed.name));
    }

    // ---- running ----

    /// Runs a statement about cursors; a FETCH goes on step by step.
    pub(super) fn cursor_statement(&mut self, running: &mut Running) -> Result<Option<Completion>> {
        let prepared = Arc::clone(&running.prepared);
        let Command::Cursor(statement) = &prepared.command else {
            return Err(Error::internal("not a statement about cursors"));
        };
        match statement {
            CursorStatement::Declare { name, scroll, binary, hold, query } => {
                if self.is_outside_block() && !hold {
                    let message = "DECLARE CURSOR can only be used in transaction blocks";
                    return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
                }
                if self.cursors.contains_key(name) {
                    return Err(duplicate_cursor(name));
                }
                // The statement has them still, to be run again with.
                let inner = self.at_start(query, running.params.clone());
                let mut cursor = OpenCursor::new(query, Some(inner));
                (cursor.scroll, cursor.binary, cursor.holds) = (*scroll, *binary, *hold);
                self.add_cursor(name.clone(), cursor, prepared.text());
                if self.state == TransactionState::Idle {
                    running.stage = Stage::Hold;
                    return Ok(None);
                }
            }
            CursorStatement::Fetch { name, goal, moves, .. } => {
                let cursor = self.cursors.get(name).ok_or_else(|| no_such_cursor(name))?;
                cursor.expect_rows()?;
                let types = |columns: &[ResultColumn]| columns.iter().map(|column| column.ty).collect::<Vec<_>>();
                if !moves && types(&cursor.prepared.columns) != types(&prepared.columns) {
                    let message = "cached plan must not change result type";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let goal = cursor.reachable(*goal, *moves);
                if let (Err(_), Some(cursor)) = (&goal, self.cursors.get_mut(name)) {
                    // Nothing goes on with what was refused once.
                    cursor.has_failed = true;
                }
                let goal = goal?;
                running.stage = Stage::Fetch(Fetch::new(name.clone(), goal, *moves));
                return Ok(None);
            }
            CursorStatement::Close { name: None } => self.forget_all_cursors(),
            CursorStatement::Close { name: Some(name) } => {
                self.cursors.remove(name).ok_or_else(|| no_such_cursor(name))?;
                self.list_cursors();
            }
        }
        Ok(Some(Completion { tag: prepared.tag().into(), ticket: None }))
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
            // What has no plan has all of its effects, and its rows, before it gives the first.
            if cursor.has_plan() || cursor.running.is_none() {
                let before = fetch.given;
                fetch.is_done = cursor.give(fetch, out)?;
                if fetch.given > before && !fetch.moves {
                    return Ok(Some(Progress::Rows));
                }
                if fetch.is_done {
                    return Ok(None);
                }
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
        // A FETCH may be of a portal of a FETCH, and so on.
        let is_inside = !matches!(running.prepared.command, Command::Plan { .. });
        if is_inside && self.fetch_depth >= FETCH_DEPTH_MAX {
            return Err(crate::statement::too_deep());
        }
        let mut came = std::mem::take(&mut self.cursor_rows);
        self.fetch_depth += u32::from(is_inside);
        let progress = self.advance(running, &mut came, budget_rows);
        self.fetch_depth -= u32::from(is_inside);
        let progress = progress?;
        cursor.planned = Arc::clone(&running.prepared);
        for row in 0..came.len() {
            cursor.rows.push(&self.memory, came.row_mut(row))?;
        }
        self.cursor_rows = came.emptied();
        match progress {
            Progress::Rows => Ok(None),
            Progress::Done(completion) => {
                cursor.running = None;
                (cursor.tag, cursor.ticket) = (completion.tag, completion.ticket);
                Ok(None)
            }
            waits => Ok(Some(waits)),
        }
    }

    /// Whether a statement that is about to begin would show in what cursors give later.
    pub(super) fn disturbs_cursors(&self, running: &Running) -> bool {
        match running.prepared.command {
            Command::Cursor(_) | Command::Control(_) | Command::Set(_) => false,
            _ => running.prepared.writes || self.block.modes.level.isolation() == Isolation::ReadCommitted,
        }
    }

    /// Refuses to change a table that an open cursor reads, whether it is at its end or not. What
    /// is held reads nothing.
    ///
    /// # Errors
    /// 55006.
    pub(crate) fn expect_not_in_use(&self, table: &Table, what: &str) -> Result<()> {
        let reads =
            |cursor: &OpenCursor| !cursor.is_held && !cursor.prepared.writes && cursor.planned.used.contains(&table.id);
        if !self.cursors.values().any(|cursor| reads(cursor)) && !self.own.calls.is_in_use(table.id) {
            return self.expect_checked(table, what);
        }
        let name = &table.name;
        let message = format!("cannot {what} \"{name}\" because it is being used by active queries in this session");
        Err(Error::new(SqlState("55006"), message))
    }

    /// 55006 if a plan that calls the body at hand reads or writes a table, of which something with
    /// this name is to be changed.
    pub(crate) fn expect_no_plan(&self, table: &Table, name: &str, what: &str) -> Result<()> {
        if !self.own.calls.is_in_use(table.id) {
            return Ok(());
        }
        let message = format!("cannot {what} \"{name}\" because it is being used by active queries in this session");
        Err(Error::new(SqlState("55006"), message))
    }

    /// Runs cursors on towards their ends, a batch of one of them at a time. `None` when all are
    /// there.
    pub(super) fn settle_cursors(&mut self, budget_rows: i64) -> Result<Option<Progress>> {
        self.settle(budget_rows, |_| true)
    }

    /// As [`Session::settle_cursors`], for some of them.
    fn settle(&mut self, budget_rows: i64, which: impl Fn(&OpenCursor) -> bool) -> Result<Option<Progress>> {
        // What writes, or has effects of another kind, has them when it is asked for rows.
        let waits = |cursor: &OpenCursor| {
            let is_at_start = matches!(&cursor.running, Some(running) if matches!(running.stage, Stage::Begin));
            let does_something = cursor.prepared.has_side_effects || !cursor.has_plan();
            cursor.prepared.writes || does_something && is_at_start && !cursor.holds
        };
        let is_open =
            |cursor: &OpenCursor| cursor.running.is_some() && !cursor.has_failed && !waits(cursor) && which(cursor);
        let open = self.cursors.iter().find(|(_, cursor)| is_open(cursor)).map(|(name, _)| name.clone());
        let Some((name, mut cursor)) = open.and_then(|name| self.cursors.remove_entry(&name)) else { return Ok(None) };
        let pulled = self.pull(&mut cursor, budget_rows);
        cursor.has_failed |= pulled.is_err();
        self.cursors.insert(name, cursor);
        Ok(Some(pulled?.unwrap_or(Progress::Yield)))
    }
}

/// The budget of a step, in rows, when a thread that may wait runs a cursor to its end.
const SETTLE_ROWS: i64 = 1 << 20;

impl Session {
    /// Runs all cursors to their ends, waiting for what they wait for.
    pub(super) fn settle_cursors_now(&mut self) -> Result<()> {
        loop {
            match self.settle_cursors(SETTLE_ROWS)? {
                None => return Ok(()),
                Some(Progress::Wait(wait)) => wait_now(wait, &self.own.settings, &self.cancel)?,
                Some(Progress::Fetch(wait)) => fetch_now(&wait, &self.cancel)?,
                Some(Progress::Sleep(until)) => sleep_now(until, None, &self.cancel)?,
                Some(_) => {}
            }
        }
    }
}

impl Fetch {
    fn new(name: CompactString, goal: Goal, moves: bool) -> Self {
        Self { name, goal, moves, given: 0, is_done: false, by_protocol: false }
    }
}

impl Session {
    /// The command tag of a FETCH that is done.
    pub(super) fn tag_of(&self, fetch: &Fetch) -> CompactString {
        match self.cursors.get(&fetch.name) {
            Some(cursor) if fetch.by_protocol => cursor.portal_tag(fetch.given),
            _ => format_compact!("{} {}", if fetch.moves { "MOVE" } else { "FETCH" }, fetch.given),
        }
    }

    fn add_cursor(&mut self, name: CompactString, mut cursor: OpenCursor, statement: &str) {
        self.cursor_serial += 1;
        cursor.serial = self.cursor_serial;
        self.listed.cursors.lock().push(CursorInfo {
            name: name.clone(),
            statement: statement.to_owned(),
            is_binary: cursor.binary,
            is_scrollable: cursor.scroll.keeps(),
            is_holdable: cursor.holds,
            declared_us: self.env.statement_us,
        });
        self.cursors.insert(name, Box::new(cursor));
    }
}

impl OpenCursor {
    fn new(prepared: &Arc<Prepared>, running: Option<Running>) -> Self {
        Self {
            prepared: Arc::clone(prepared),
            planned: Arc::clone(prepared),
            running,
            tag: CompactString::default(),
            rows: KeptRows::default(),
            before: 0,
            at: 0,
            scroll: Scroll::No,
            binary: false,
            has_failed: false,
            holds: false,
            is_held: false,
            ticket: None,
            serial: 0,
        }
    }

    /// Refuses a portal of a statement that gives no rows, as PostgreSQL does.
    fn expect_rows(&self) -> Result<()> {
        if self.prepared.columns().is_some() {
            return Ok(());
        }
        Err(Error::new(SqlState::INTERNAL, "unsupported portal strategy"))
    }

    fn has_plan(&self) -> bool {
        matches!(self.prepared.command, Command::Plan { .. })
    }

    /// Rows that there are so far.
    fn count(&self) -> u64 {
        self.before + self.rows.len() as u64
    }

    /// Gives what it has of what is wanted; whether that was all.
    fn give(&mut self, fetch: &mut Fetch, out: &mut Rows) -> Result<bool> {
        match fetch.goal {
            Goal::Forward(mut left) => {
                while left > 0 {
                    if !self.go_on() {
                        fetch.goal = Goal::Forward(left);
                        return Ok(self.running.is_none());
                    }
                    self.show(fetch, out)?;
                    left -= 1;
                }
                Ok(true)
            }
            Goal::Backward(mut left) => {
                while left > 0 && self.at > 1 {
                    self.at -= 1;
                    left -= 1;
                    self.show(fetch, out)?;
                }
                if left > 0 {
                    self.at = 0;
                }
                Ok(true)
            }
            Goal::Absolute(number) if number < 0 => {
                if self.running.is_some() {
                    return Ok(false);
                }
                self.at = (self.count() + 1).saturating_sub(number.unsigned_abs());
                self.show(fetch, out)?;
                Ok(true)
            }
            Goal::Absolute(number) => {
                let number = number.unsigned_abs();
                if self.scroll.keeps() {
                    if number > self.count() && self.running.is_some() {
                        return Ok(false);
                    }
                    self.at = number.min(self.count() + 1);
                } else {
                    while self.at < number {
                        if !self.go_on() {
                            return Ok(self.running.is_none());
                        }
                    }
                }
                self.show(fetch, out)?;
                Ok(true)
            }
            Goal::Relative(_) => {
                self.show(fetch, out)?;
                Ok(true)
            }
        }
    }

    /// Goes to the next row, or behind the last one if there is none; whether there is one so far.
    fn go_on(&mut self) -> bool {
        // What lies behind it is of no use any more.
        if !self.scroll.keeps() && self.at == self.count() && !self.rows.is_empty() {
            self.before += self.rows.len() as u64;
            self.rows.again();
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
    fn show(&mut self, fetch: &mut Fetch, out: &mut Rows) -> Result<()> {
        if self.at <= self.before || self.at > self.count() {
            return Ok(());
        }
        fetch.given += 1;
        if fetch.moves {
            return Ok(());
        }
        let mut row = vec![Datum::Null; self.rows.width()];
        let width = self.prepared.columns.len().min(row.len());
        // Where there are keys they stay, for WHERE CURRENT OF.
        let takes = !self.scroll.keeps() && width == row.len();
        self.rows.read((self.at - self.before - 1) as usize, &mut row, takes)?;
        out.push_exchanged(&mut row[..width]);
        Ok(())
    }
}
