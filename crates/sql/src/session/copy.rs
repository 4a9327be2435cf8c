//! COPY: `COPY … FROM STDIN` takes bytes, `COPY … TO STDOUT` gives them. Where they come from and go to is the caller's
//! affair: a file, a client.
//!
//! Rows that have come are written in batches, each behind a savepoint: one that has to wait for a lock is taken back
//! alone. Outside a transaction block the whole COPY is one transaction; since its bytes are gone, it does not run again
//! by itself after a conflict at the commit (40001).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_catalog::{
    self, Relation, Table, catalog_space,
    cluster::Privileges,
    store_error,
    store_error::{InSql as _, Pause},
    table_key,
};
use colibri_txn::{Begin, ColumnSet, CommitTicket, IfLocked, LockMode, LockWait, Transaction};
use colibri_types::{Error, Result, SqlState, env, functions::quote_identifier, pulse, text_io};
use compact_str::{CompactString, format_compact};
use sqlparser::ast;

use super::block::in_failed_block;
use super::drive::{sleep_now, wait_now};
use super::serve::in_text;
use super::{Completion, Progress, Rows, Running, Session, TransactionState};
use crate::bind::Binder;
use crate::copy::{self, CopyColumn, CopyFormat, CopyIn, CopyOut, CopyRequest, Source};
use crate::expr::Expr;
use crate::plan::TableRules;

/// A COPY that has begun.
pub enum Copy {
    /// `COPY … FROM STDIN`: wants [`Session::copy_data`], then [`Session::copy_end`].
    From(CopyFrom),
    /// `COPY … TO STDOUT`: wants [`Session::copy_step`].
    To(CopyTo),
}

/// `COPY … FROM STDIN` at work.
pub struct CopyFrom {
    copy: CopyIn,
    implicit: bool,
    is_over: bool,
    columns: usize,
    binary: bool,
}

/// `COPY … TO STDOUT` at work.
pub struct CopyTo {
    out: CopyOut,
    running: Running,
    rows: Rows,
    count: u64,
    started: bool,
    columns: usize,
    binary: bool,
}

impl CopyFrom {
    /// How many columns the data have.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether the data are in the binary format.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.binary
    }
}

impl CopyTo {
    /// Whether the rows that it has just given may be told only once it is done and its ticket is due.
    #[must_use]
    pub fn holds_rows(&self) -> bool {
        self.running.holds_rows()
    }

    /// How many columns the data have.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether the data are in the binary format.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.binary
    }
}

impl Session {
    /// Begins a COPY.
    ///
    /// # Errors
    /// Those of preparing a statement; 42601 if the text is another statement.
    pub fn copy(&mut self, text: &str) -> Result<Copy> {
        self.cancel.store(false, Ordering::Relaxed);
        let begun = self.begin_copy(text);
        if begun.is_err() {
            self.copy_failed(self.state == TransactionState::Idle);
        }
        begun
    }

    /// Whether a text is one COPY statement, or means to be.
    #[must_use]
    pub fn is_copy(text: &str) -> bool {
        !matches!(copy::parse_statement(text), Ok(None))
    }

    /// Reads a COPY for its mistakes alone.
    ///
    /// # Errors
    /// 42601 and others if it has some; 25P02 in a block that has failed.
    pub fn check_copy(&self, text: &str) -> Result<()> {
        copy::parse_statement(text)?;
        self.check_not_failed()
    }

    fn begin_copy(&mut self, text: &str) -> Result<Copy> {
        let Some(request) = copy::parse_statement(text)? else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "a COPY statement was expected"));
        };
        if self.state == TransactionState::Failed {
            return Err(in_failed_block());
        }
        if request.is_to {
            return self.begin_copy_to(text, &request);
        }
        self.settle_cursors_now()?;
        self.begin_copy_from(text, &request)
    }

    fn begin_copy_from(&mut self, text: &str, request: &CopyRequest) -> Result<Copy> {
        let Source::Table { name, columns } = &request.source else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "COPY FROM takes a table"));
        };
        let implicit = self.state == TransactionState::Idle;
        let begin = if implicit {
            let read_only = self.own.settings.hot().is_read_only;
            Begin { isolation: self.own.settings.hot().isolation, read_only, newest: true }
        } else {
            self.begin_of_block()
        };
        if begin.read_only {
            let message = "cannot execute COPY FROM in a read-only transaction";
            return Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message));
        }
        self.block.used = true;
        self.ensure_txn(begin, env::clock_us())?;
        if let Some(Relation::View(view)) = self.relation_named(name)? {
            let message = format!("cannot copy to view \"{}\"", view.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."));
        }
        let condition = request.condition.clone().map(|bytes| &text[bytes]);
        let bound = self.with_binder("", |binder| bind_copy_from(binder, name, columns, condition))?;
        let BoundCopy { table, rules, places, defaults, condition, used } = bound;
        let count = places.len();
        let options = request.options(count, &|name| {
            let place = table.column(name).ok_or_else(|| no_such_column(name, &table.name))?;
            Ok(places.iter().position(|&copied| copied == place))
        })?;
        let binary = options.format == CopyFormat::Binary;
        let copy = CopyIn::new(&table, &rules, places, defaults, condition, options);
        self.depend_on(&used, table.id)?;
        Ok(Copy::From(CopyFrom { copy, implicit, is_over: false, columns: count, binary }))
    }

    /// Makes the transaction depend on tables being as they are now.
    fn depend_on(&mut self, used: &[u32], target: u32) -> Result<()> {
        loop {
            let Some(txn) = &mut self.txn else { return Err(Error::internal("COPY has no transaction")) };
            let savepoint = txn.begin_statement().in_sql()?;
            let space = catalog_space();
            // Before the lock, which is had only if what was read of the table is as it was.
            txn.get(&space, &table_key(target), ColumnSet::ALL).in_sql()?;
            let locked = txn.lock(&space, &table_key(target), LockMode::Add, IfLocked::Wait);
            match locked.in_sql() {
                Ok(_) => break,
                Err(error) => {
                    let wait = pause_of(error)?;
                    if let Some(wait) = wait {
                        wait_now(wait, &self.own.settings, &self.cancel)?;
                    }
                    let version = self.own.catalog.version;
                    self.take_back_to(savepoint)?;
                    if self.own.catalog.version != version {
                        return Err(Error::new(
                            SqlState::SERIALIZATION_FAILURE,
                            "could not serialize access due to concurrent update",
                        )
                        .detail("The table was changed.")
                        .hint("The transaction might succeed if retried."));
                    }
                }
            }
        }
        if let Some(txn) = &mut self.txn {
            for &id in used.iter().filter(|&&id| id != target) {
                txn.get(&catalog_space(), &colibri_catalog::table_key(id), ColumnSet::ALL).in_sql()?;
            }
        }
        Ok(())
    }

    /// Takes a piece of the data, and waits for locks that its rows need.
    ///
    /// # Errors
    /// The data are malformed, or a row cannot be inserted. The COPY is over then, and taken back.
    pub fn copy_data(&mut self, copy: &mut CopyFrom, bytes: &[u8]) -> Result<()> {
        let mut waits = self.copy_push(copy, bytes)?;
        while let Some(wait) = waits {
            self.copy_wait(copy, wait)?;
            waits = self.copy_push(copy, &[])?;
        }
        Ok(())
    }

    /// As [`Session::copy_data`], without waiting: if it gives something to wait for, do that, and go on with no bytes.
    ///
    /// # Errors
    /// As [`Session::copy_data`].
    pub fn copy_push(&mut self, copy: &mut CopyFrom, bytes: &[u8]) -> Result<Option<LockWait>> {
        let result = self.at_work(|session| match copy.copy.push(bytes, &session.env) {
            Ok(()) if copy.copy.is_full() => session.copy_flush(copy),
            Ok(()) => Ok(None),
            Err(error) => Err(error),
        });
        result.inspect_err(|_| self.end_copy(copy))
    }

    /// Says that the data are complete, and waits until they are durable, unless a block is open.
    ///
    /// # Errors
    /// As [`Session::copy_data`], and those of a commit.
    pub fn copy_end(&mut self, copy: &mut CopyFrom) -> Result<CompactString> {
        loop {
            match self.copy_finish(copy)? {
                Progress::Wait(wait) => self.copy_wait(copy, wait)?,
                Progress::Done(completion) => {
                    if let Some(ticket) = completion.ticket {
                        self.wait_durable(ticket)?;
                    }
                    return Ok(completion.tag);
                }
                Progress::Sleep(until) => sleep_now(until, None, &self.cancel).inspect_err(|_| self.end_copy(copy))?,
                Progress::Commits(turn) => turn.wait(),
                Progress::Rows | Progress::Yield => {}
            }
        }
    }

    /// As [`Session::copy_end`], without waiting: gives `Wait` or `Done`.
    ///
    /// # Errors
    /// As [`Session::copy_end`].
    pub fn copy_finish(&mut self, copy: &mut CopyFrom) -> Result<Progress> {
        let finished = self.at_work(|session| session.try_copy_finish(copy));
        if finished.is_err() {
            self.end_copy(copy);
        }
        finished
    }

    fn try_copy_finish(&mut self, copy: &mut CopyFrom) -> Result<Progress> {
        if copy.is_over {
            return Err(Error::internal("the COPY is over"));
        }
        copy.copy.end(&self.env)?;
        if let Some(wait) = self.copy_flush(copy)? {
            return Ok(Progress::Wait(wait));
        }
        let rows = self.with_context(|txn, cx| copy.copy.finish(txn, cx)).map_err(not_to_be_waited_for)?;
        let mut ticket = None;
        if copy.implicit {
            ticket = self.commit_now()?;
            self.end_block(true);
        }
        copy.is_over = true;
        Ok(Progress::Done(Completion { tag: format_compact!("COPY {rows}"), ticket }))
    }

    /// Gives a COPY up: nothing of it stays, and a block that it is in has failed.
    pub fn copy_cancel(&mut self, copy: &mut CopyFrom) {
        self.end_copy(copy);
    }

    fn end_copy(&mut self, copy: &mut CopyFrom) {
        if !std::mem::replace(&mut copy.is_over, true) {
            self.copy_failed(copy.implicit);
        }
    }

    fn copy_failed(&mut self, implicit: bool) {
        if implicit {
            drop(self.abort_txn());
            self.end_block(false);
        } else if self.state == TransactionState::Open {
            self.block_has_failed();
        }
    }

    fn copy_wait(&mut self, copy: &mut CopyFrom, wait: LockWait) -> Result<()> {
        wait_now(wait, &self.own.settings, &self.cancel).inspect_err(|_| self.end_copy(copy))
    }

    /// Writes the rows that have come; gives what to wait for before that is tried again.
    fn copy_flush(&mut self, copy: &mut CopyFrom) -> Result<Option<LockWait>> {
        if copy.is_over {
            return Err(Error::internal("the COPY is over"));
        }
        loop {
            let Some(txn) = &mut self.txn else { return Err(Error::internal("COPY has no transaction")) };
            let savepoint = txn.begin_statement().in_sql()?;
            match self.with_context(|txn, cx| copy.copy.flush(txn, cx)) {
                Ok(()) => {
                    // Rows come from a client meanwhile: there is nothing that could be put aside.
                    pulse::sleep_here()?;
                    return Ok(None);
                }
                Err(error) => {
                    let wait = pause_of(error)?;
                    let txn = self.txn.as_mut().ok_or_else(|| Error::internal("COPY has no transaction"))?;
                    txn.restart(savepoint).in_sql()?;
                    self.block.depends.clear();
                    if wait.is_some() {
                        return Ok(wait);
                    }
                }
            }
        }
    }

    fn begin_copy_to(&mut self, text: &str, request: &CopyRequest) -> Result<Copy> {
        let (query, table) = match &request.source {
            Source::Query(bytes) => (text[bytes.clone()].to_owned(), None),
            Source::Table { name, columns } => {
                let written = |parts: &[CompactString], between: &str| {
                    parts.iter().map(|part| quote_identifier(part)).collect::<Vec<_>>().join(between)
                };
                let list = if columns.is_empty() { "*".to_owned() } else { written(columns, ", ") };
                (format!("SELECT {list} FROM {}", written(name, ".")), Some((name, columns)))
            }
        };
        let prepared = self.prepare(&query, &[]);
        if let Some((name, columns)) = table {
            self.check_copied(name, columns)?;
        }
        let prepared = prepared.map_err(|error| match (&request.source, table) {
            (Source::Query(bytes), _) => in_text(error, text, &text[bytes.clone()]),
            // Positions would be those of a text that nobody has written.
            _ => error.without_position(),
        })?;
        let Some(columns) = prepared.columns() else {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "COPY query must have a RETURNING clause"));
        };
        let options = request.options(columns.len(), &|name| {
            let place = columns.iter().position(|column| column.name == name);
            let is_known = match table {
                Some((table, _)) => self.relation_named(table)?.is_some_and(|found| match found {
                    Relation::Table(table) => table.column(name).is_some(),
                    _ => false,
                }),
                None => false,
            };
            match place {
                None if !is_known => {
                    let of = table.and_then(|(parts, _)| parts.last()).map(|table| format!(" of relation \"{table}\""));
                    let message = format!("column \"{name}\"{} does not exist", of.unwrap_or_default());
                    Err(Error::new(SqlState::NO_SUCH_COLUMN, message))
                }
                place => Ok(place),
            }
        })?;
        let described: Vec<CopyColumn> =
            columns.iter().map(|column| CopyColumn { name: column.name.to_string(), ty: column.ty }).collect();
        let (count, binary) = (described.len(), options.format == CopyFormat::Binary);
        let running = self.start(&prepared, Vec::new())?;
        Ok(Copy::To(CopyTo {
            out: CopyOut::new(options, described),
            running,
            rows: Rows::default(),
            count: 0,
            started: false,
            columns: count,
            binary,
        }))
    }

    /// Refuses to copy what is no table, and a column twice.
    fn check_copied(&self, name: &[CompactString], columns: &[CompactString]) -> Result<()> {
        let refuse = |kind: &str, name: &str| {
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot copy from {kind} \"{name}\""))
                .hint("Try the COPY (SELECT ...) TO variant."))
        };
        match self.relation_named(name)? {
            Some(Relation::View(view)) => return refuse("view", &view.name),
            Some(Relation::Sequence(sequence)) => {
                let message = format!("cannot copy from sequence \"{}\"", sequence.name);
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => {}
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].contains(column) {
                let message = format!("column \"{column}\" specified more than once");
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        Ok(())
    }

    /// Goes on with a COPY TO: appends to `out`, and says what the step came to. `Rows` means that there are bytes.
    ///
    /// # Errors
    /// Those of the query.
    pub fn copy_step(&mut self, copy: &mut CopyTo, out: &mut Vec<u8>, budget_rows: i64) -> Result<Progress> {
        self.copy_rows(copy, out, &mut Vec::new(), budget_rows)
    }

    /// As [`Session::copy_step`]; adds to `ends` where in `out` each row ends, for a protocol that sends rows one by one. What
    /// the binary format begins with belongs to the row behind it, what it ends with is by itself.
    ///
    /// # Errors
    /// Those of the query.
    pub fn copy_rows(
        &mut self,
        copy: &mut CopyTo,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
        budget_rows: i64,
    ) -> Result<Progress> {
        self.at_work(|session| session.copy_rows_on(copy, out, ends, budget_rows))
    }

    fn copy_rows_on(
        &mut self,
        copy: &mut CopyTo,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
        budget_rows: i64,
    ) -> Result<Progress> {
        let progress = self.step(&mut copy.running, &mut copy.rows, budget_rows)?;
        if !copy.started && !matches!(progress, Progress::Wait(_)) {
            copy.started = true;
            let before = out.len();
            copy.out.start(out);
            if !copy.binary && out.len() > before {
                ends.push(out.len());
            }
        }
        for row in copy.rows.iter() {
            copy.out.write_row(row, &self.env, out);
            if row.iter().any(text_io::is_long)
                && let Err(error) = pulse::check()
            {
                self.fail(&mut copy.running);
                return Err(error);
            }
            ends.push(out.len());
        }
        copy.count += copy.rows.len() as u64;
        copy.rows.clear();
        Ok(match progress {
            Progress::Done(Completion { ticket, .. }) => {
                let before = out.len();
                copy.out.finish(out);
                if out.len() > before {
                    ends.push(out.len());
                }
                Progress::Done(Completion { tag: format_compact!("COPY {}", copy.count), ticket })
            }
            other => other,
        })
    }

    /// Ends a COPY TO with an error that is not its own, as [`Session::fail`] does.
    pub fn fail_copy(&mut self, copy: &mut CopyTo) {
        self.fail(&mut copy.running);
    }

    /// Runs a COPY TO to its end, handing on bytes as they come.
    ///
    /// # Errors
    /// Those of the query, and what `take` gives.
    pub fn copy_drive(
        &mut self,
        copy: &mut CopyTo,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<CompactString> {
        let mut bytes = Vec::new();
        loop {
            let progress = self.copy_step(copy, &mut bytes, super::BUDGET_ROWS)?;
            let (taken, finished) = match progress {
                Progress::Done(completion) => {
                    // Nobody is told before what was read is durable.
                    if let Some(ticket) = completion.ticket {
                        self.wait_durable(ticket)?;
                    }
                    (take(&bytes), Some(completion.tag))
                }
                Progress::Wait(wait) => (wait_now(wait, &self.own.settings, &self.cancel), None),
                Progress::Sleep(until) => (sleep_now(until, None, &self.cancel), None),
                Progress::Commits(turn) => {
                    turn.wait();
                    (Ok(()), None)
                }
                Progress::Rows | Progress::Yield => (take(&bytes), None),
            };
            bytes.clear();
            if let Err(error) = taken {
                self.abandon_copy(copy)?;
                return Err(error);
            }
            if let Some(tag) = finished {
                return Ok(tag);
            }
        }
    }

    /// Gives a COPY TO up.
    ///
    /// # Errors
    /// Those of [`Session::abandon`].
    pub fn abandon_copy(&mut self, copy: &mut CopyTo) -> Result<Option<CommitTicket>> {
        self.abandon(&mut copy.running)
    }
}

/// What an error that says to wait or to try again asks to wait for. Others are handed on.
fn pause_of(error: Error) -> Result<Option<LockWait>> {
    match store_error::pause(&error) {
        None => Err(error),
        Some(Pause::Stale) => Ok(None),
        Some(Pause::Wait(wait)) => Ok(wait.lock().take()),
    }
}

fn not_to_be_waited_for(error: Error) -> Error {
    match store_error::pause(&error) {
        None => error,
        Some(_) => Error::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
            .hint("The transaction might succeed if retried."),
    }
}

fn no_such_column(name: &str, table: &str) -> Error {
    Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" of relation \"{table}\" does not exist"))
}

/// What COPY FROM needs to know of its table.
struct BoundCopy {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    places: Vec<usize>,
    defaults: Vec<(usize, Expr)>,
    condition: Option<Expr>,
    used: Vec<u32>,
}

fn bind_copy_from(
    binder: &mut Binder<'_>,
    name: &[CompactString],
    columns: &[CompactString],
    condition: Option<&str>,
) -> Result<BoundCopy> {
    let parts = name.iter().map(|part| ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', part.as_str())));
    let name = ast::ObjectName(parts.collect());
    let table = binder.table(&name).map_err(Error::without_position)?;
    binder.need(table.id, &table.schema, Privileges::INSERT);
    let mut places: Vec<usize> = Vec::new();
    for name in columns {
        let place = table.column(name).ok_or_else(|| no_such_column(name, &table.name))?;
        if places.contains(&place) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(place);
    }
    if columns.is_empty() {
        places = table.live_columns().map(|(place, _)| place).collect();
    }
    let mut defaults = Vec::new();
    for (place, column) in table.live_columns() {
        if !places.contains(&place) && column.default.is_some() {
            defaults.push((place, binder.column_default(&table, place)?));
        }
    }
    let condition = condition.map(|text| binder.copy_condition(text, &table)).transpose()?;
    let rules = binder.rules(&table)?;
    Ok(BoundCopy { table, rules, places, defaults, condition, used: binder.used.clone() })
}
