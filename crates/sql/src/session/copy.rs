//! COPY: `COPY … FROM STDIN` takes bytes, `COPY … TO STDOUT` gives them. The caller connects them
//! with a file or a client.
//!
//! Rows that have come are written in batches, each after a savepoint: a batch that has to wait for
//! a lock is rolled back alone. Outside a transaction block the whole COPY is one transaction;
//! since its bytes are gone, it is not repeated after a conflict at the commit (40001).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{
    self, Relation, Table, Trigger, TriggerTime, catalog_space,
    cluster::Privileges,
    store_error,
    store_error::{InSql as _, Pause},
    table_key,
};
use colibri_syntax::tree::{self, CopySource, Statement};
use colibri_txn::{Begin, ColumnSet, CommitTicket, IfLocked, LockMode, LockWait, StoreWait};
use colibri_types::{Error, Result, SqlState, env, functions::quote_identifier, pulse, text_io};
use compact_str::{CompactString, format_compact};
use sqlparser::ast;

use super::drive::{fetch_now, sleep_now, wait_now};
use super::plans::several_statements;
use super::{Completion, Prepared, Progress, Rows, Running, Session, TransactionState};
use crate::bind::{Binder, WrittenTree};
use crate::copy::{CopyColumn, CopyFormat, CopyIn, CopyOptions, CopyOut};
use crate::expr::Expr;
use crate::plan::TableRules;
use crate::statement::Scanned;

/// A COPY that has begun.
pub enum Copy {
    /// `COPY … FROM STDIN`: call [`Session::copy_data`], then [`Session::copy_end`].
    From(CopyFrom),
    /// `COPY … TO STDOUT`: call [`Session::copy_step`].
    To(CopyTo),
}

/// `COPY … FROM STDIN` at work.
pub struct CopyFrom {
    copy: CopyIn,
    file: Option<String>,
    implicit: bool,
    is_over: bool,
    columns: usize,
    binary: bool,
}

/// `COPY … TO STDOUT` at work.
pub struct CopyTo {
    out: CopyOut,
    file: Option<String>,
    running: Running,
    rows: Rows,
    count: u64,
    started: bool,
    columns: usize,
    binary: bool,
}

/// A COPY that is read, and whose query is planned.
struct CopyRequest {
    source: Source,
    is_to: bool,
    file: Option<String>,
    options: tree::CopyOptions,
    condition: Option<ast::Expr>,
}

/// What is copied.
enum Source {
    Table { name: Vec<CompactString>, columns: Vec<CompactString> },
    Query(Arc<Prepared>),
}

impl CopyFrom {
    /// The file on the server's machine from which the data come; `None`: the client sends them.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The number of columns of the data.
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
    /// The file on the server's machine to which the data go; `None`: the client gets them.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Whether the rows of the last step may be sent to the client only when the COPY is done and
    /// its ticket is due.
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

/// What a COPY waits for before it takes more data.
pub enum Awaited {
    /// A lock.
    Lock(LockWait),
    /// Entries on their way.
    Fetch(StoreWait),
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

    /// Whether a text begins like a COPY.
    #[must_use]
    pub fn is_copy(text: &str) -> bool {
        colibri_syntax::is_copy(text)
    }

    fn begin_copy(&mut self, text: &str) -> Result<Copy> {
        let request =
            self.at_work(|session| session.by_depth(text, |session, scanned| session.read_copy(text, scanned)))?;
        if request.is_to {
            return self.begin_copy_to(&request);
        }
        self.settle_cursors_now()?;
        self.begin_copy_from(text, &request)
    }

    /// Reads a COPY, and plans the query that it copies.
    fn read_copy(&mut self, text: &str, scanned: Scanned<'_>) -> Result<CopyRequest> {
        let mut statements = scanned.parse()?;
        if statements.len() > 1 {
            return Err(several_statements());
        }
        let Some(Statement::Copy(copy)) = statements.pop() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "a COPY statement was expected"));
        };
        self.check_not_failed()?;
        let tree::Copy { source, is_to, file, options, condition } = *copy;
        if let Some(file) = &file {
            self.check_file(file, is_to)?;
        }
        if condition.is_some() && crate::statement::is_on_deep_stack() {
            return Err(crate::statement::too_deep());
        }
        let source = match source {
            CopySource::Table { name, columns } => Source::Table { name, columns },
            CopySource::Query(query) => {
                let preparing = self.begin_preparing()?;
                let prepared = self.prepare_inner(text, &query, &[]);
                self.end_preparing(preparing);
                Source::Query(prepared.inspect_err(|_| self.fail_block())?)
            }
        };
        Ok(CopyRequest { source, is_to, file, options, condition })
    }

    /// Whether the user may have the server read or write a file.
    fn check_file(&self, file: &str, is_to: bool) -> Result<()> {
        if self.own.cluster.is_none() {
            return Err(Error::unsupported("COPY with a file outside of a server")
                .hint("Use COPY FROM STDIN or COPY TO STDOUT; in colibri sql, \\copy."));
        }
        if !self.own.authority.is_superuser() {
            let (role, what) = if is_to { ("pg_write_server_files", "to") } else { ("pg_read_server_files", "from") };
            let message = format!("must be superuser or have privileges of the {role} role to COPY {what} a file");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."));
        }
        if is_to && !file.starts_with('/') {
            return Err(Error::new(SqlState::BAD_NAME, "relative path not allowed for COPY to file"));
        }
        Ok(())
    }

    fn begin_copy_from(&mut self, text: &str, request: &CopyRequest) -> Result<Copy> {
        let Source::Table { name, columns } = &request.source else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "COPY FROM takes a table"));
        };
        let implicit = self.state == TransactionState::Idle;
        let begin = if implicit {
            let read_only = self.own.settings.hot().is_read_only || self.own.engine.is_standby();
            Begin { isolation: self.own.settings.hot().isolation, read_only, newest: true }
        } else {
            self.begin_of_block()
        };
        self.block.used = true;
        self.ensure_txn(begin, env::clock_us())?;
        let inserts =
            |trigger: &Arc<Trigger>| trigger.timing == TriggerTime::InsteadOf && trigger.events & Trigger::INSERT != 0;
        if let Some(Relation::View(view)) = self.relation_named(name)?
            && !view.triggers.iter().any(inserts)
        {
            let message = format!("cannot copy to view \"{}\"", view.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."));
        }
        let condition = request.condition.as_ref();
        let bound = self.with_binder(text, |binder| bind_copy_from(binder, name, columns, condition))?;
        let BoundCopy { table, rules, tree, places, defaults, condition, used } = bound;
        if !is_temporary(table.id) {
            if begin.read_only {
                return Err(self.own.refusal("cannot execute COPY FROM in a read-only transaction".to_owned()));
            }
            self.own.expect_room()?;
        }
        let count = places.len();
        let options = CopyOptions::of(&request.options, false, self.env.client_encoding, count, &|name| {
            let place = table.column(name).ok_or_else(|| no_such_column(name, &table.name))?;
            Ok(places.iter().position(|&copied| copied == place))
        })?;
        let binary = options.format == CopyFormat::Binary;
        let copy = CopyIn::new(&table, (&rules, tree.as_ref()), places, defaults, condition, options);
        self.depend_on(&used, table.id)?;
        for leaf in tree.iter().flat_map(|written| &written.tree.leaves) {
            self.depend_on(&[], leaf.table.id)?;
        }
        Ok(Copy::From(CopyFrom { copy, file: request.file.clone(), implicit, is_over: false, columns: count, binary }))
    }

    /// Makes the transaction depend on the present definitions of tables.
    fn depend_on(&mut self, used: &[u32], target: u32) -> Result<()> {
        loop {
            let Some(txn) = &mut self.txn else { return Err(Error::internal("COPY has no transaction")) };
            let savepoint = txn.begin_statement().in_sql()?;
            let space = catalog_space();
            // Before the lock: it is granted only if the definition that was read is unchanged.
            let read = txn.depend(&space, &table_key(target), ColumnSet::ALL);
            let locked = read.and_then(|()| txn.lock(&space, &table_key(target), LockMode::Add, IfLocked::Wait));
            match locked.in_sql() {
                Ok(()) => break,
                Err(error) => {
                    let wait = pause_of(error)?;
                    if let Some(wait) = wait {
                        self.wait_now(wait)?;
                    }
                    let version = self.own.catalog.version;
                    self.take_back_to(savepoint)?;
                    if self.own.catalog.version != version {
                        return Err(store_error::not_serializable().detail("The table was changed."));
                    }
                }
            }
        }
        if let Some(txn) = &mut self.txn {
            for &id in used.iter().filter(|&&id| id != target) {
                store_error::fetched_now(|| txn.depend(&catalog_space(), &table_key(id), ColumnSet::ALL).in_sql())?;
            }
        }
        Ok(())
    }

    /// Takes a piece of the data, and waits for locks that its rows need.
    ///
    /// # Errors
    /// The data are malformed, or a row cannot be inserted. The COPY has ended then, and is rolled
    /// back.
    pub fn copy_data(&mut self, copy: &mut CopyFrom, bytes: &[u8]) -> Result<()> {
        let mut waits = self.copy_push(copy, bytes)?;
        while let Some(wait) = waits {
            self.copy_wait(copy, wait)?;
            waits = self.copy_push(copy, &[])?;
        }
        Ok(())
    }

    /// As [`Session::copy_data`], without waiting: if it gives something to wait for, wait, and
    /// call it again with no bytes.
    ///
    /// # Errors
    /// As [`Session::copy_data`].
    pub fn copy_push(&mut self, copy: &mut CopyFrom, bytes: &[u8]) -> Result<Option<Awaited>> {
        let result = self.at_work(|session| match copy.copy.push(bytes, &session.env) {
            Ok(()) if copy.copy.is_full() => session.copy_flush(copy),
            Ok(()) => Ok(None),
            Err(error) => Err(error),
        });
        result.inspect_err(|_| self.end_copy(copy))
    }

    /// Ends the data, and waits until they are durable, unless a block is open.
    ///
    /// # Errors
    /// As [`Session::copy_data`], and those of a commit.
    pub fn copy_end(&mut self, copy: &mut CopyFrom) -> Result<CompactString> {
        loop {
            match self.copy_finish(copy)? {
                Progress::Wait(wait) => self.copy_wait(copy, Awaited::Lock(wait))?,
                Progress::Fetch(wait) => self.copy_wait(copy, Awaited::Fetch(wait))?,
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
        match self.copy_flush(copy)? {
            Some(Awaited::Lock(wait)) => return Ok(Progress::Wait(wait)),
            Some(Awaited::Fetch(wait)) => return Ok(Progress::Fetch(wait)),
            None => {}
        }
        let rows = match self.with_context(|txn, cx| copy.copy.finish(txn, cx)) {
            Ok(rows) => rows,
            Err(error) => match store_error::pause(&error) {
                Some(Pause::Fetch(wait)) => return Ok(Progress::Fetch(wait.clone())),
                _ => return Err(store_error::as_failure(error)),
            },
        };
        let mut ticket = None;
        if copy.implicit {
            while let Some(progress) = self.settle_all()? {
                match progress {
                    Progress::Wait(wait) => self.wait_now(Awaited::Lock(wait))?,
                    Progress::Fetch(wait) => self.wait_now(Awaited::Fetch(wait))?,
                    _ => {}
                }
            }
            ticket = self.commit_now()?;
            self.end_block(true);
        }
        copy.is_over = true;
        Ok(Progress::Done(Completion { tag: format_compact!("COPY {rows}"), ticket }))
    }

    /// Cancels a COPY: it is rolled back, and a block around it has failed.
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

    fn wait_now(&self, wait: Awaited) -> Result<()> {
        match wait {
            Awaited::Lock(wait) => wait_now(wait, &self.own.settings, &self.cancel),
            Awaited::Fetch(wait) => fetch_now(&wait, &self.cancel),
        }
    }

    fn copy_wait(&mut self, copy: &mut CopyFrom, wait: Awaited) -> Result<()> {
        self.wait_now(wait).inspect_err(|_| self.end_copy(copy))
    }

    /// Writes the rows that have come. If it has to wait, gives what to wait for before the next
    /// attempt.
    fn copy_flush(&mut self, copy: &mut CopyFrom) -> Result<Option<Awaited>> {
        if copy.is_over {
            return Err(Error::internal("the COPY is over"));
        }
        loop {
            let Some(txn) = &mut self.txn else { return Err(Error::internal("COPY has no transaction")) };
            let savepoint = txn.begin_statement().in_sql()?;
            match self.with_context(|txn, cx| copy.copy.flush(txn, cx)) {
                Ok(()) => {
                    // Rows come from a client meanwhile, so the work cannot be suspended.
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

    fn begin_copy_to(&mut self, request: &CopyRequest) -> Result<Copy> {
        let (prepared, table) = match &request.source {
            Source::Query(prepared) => (Ok(Arc::clone(prepared)), None),
            Source::Table { name, columns } => {
                let written = |parts: &[CompactString], between: &str| {
                    parts.iter().map(|part| quote_identifier(part)).collect::<Vec<_>>().join(between)
                };
                let list = match self.copied_columns(name)? {
                    Some(copied) if columns.is_empty() => written(&copied, ", "),
                    _ if columns.is_empty() => "*".to_owned(),
                    _ => written(columns, ", "),
                };
                // Rows of tables that inherit from this one are theirs.
                let query = format!("SELECT {list} FROM ONLY {}", written(name, "."));
                // Positions would be those of a text that nobody has written.
                let prepared = self.prepare(&query, &[]).map_err(Error::without_position);
                (prepared, Some((name, columns)))
            }
        };
        if let Some((name, columns)) = table {
            self.check_copied(name, columns)?;
        }
        let prepared = prepared?;
        let Some(columns) = prepared.columns() else {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "COPY query must have a RETURNING clause"));
        };
        let options = CopyOptions::of(&request.options, true, self.env.client_encoding, columns.len(), &|name| {
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
            file: request.file.clone(),
            running,
            rows: Rows::default(),
            count: 0,
            started: false,
            columns: count,
            binary,
        }))
    }

    /// The columns that COPY TO writes of a table, if these are not all: it leaves out what is
    /// generated of others, as COPY FROM does.
    fn copied_columns(&self, name: &[CompactString]) -> Result<Option<Vec<CompactString>>> {
        let Some(Relation::Table(table)) = self.relation_named(name)? else { return Ok(None) };
        let has_generated = table.live_columns().any(|(_, column)| column.generated.is_some());
        let copied = table.live_columns().filter(|(_, column)| column.generated.is_none());
        Ok(has_generated.then(|| copied.map(|(_, column)| column.name.clone()).collect()))
    }

    /// Refuses to copy into anything but a table, to copy a column twice, and to copy what is
    /// generated.
    fn check_copied(&self, name: &[CompactString], columns: &[CompactString]) -> Result<()> {
        let refuse = |kind: &str, name: &str| {
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot copy from {kind} \"{name}\""))
                .hint("Try the COPY (SELECT ...) TO variant."))
        };
        match self.relation_named(name)? {
            Some(Relation::View(view)) => return refuse("view", &view.name),
            Some(Relation::Table(table)) if table.partitioned.is_some() => {
                return refuse("partitioned table", &table.name);
            }
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
            if let Some(Relation::Table(table)) = self.relation_named(name)?
                && table.column(column).is_some_and(|place| table.columns[place].generated.is_some())
            {
                return Err(generated_in_copy(column));
            }
        }
        Ok(())
    }

    /// Continues a COPY TO: appends to `out`, and gives the result of the step. `Rows` means that
    /// there are bytes.
    ///
    /// # Errors
    /// Those of the query.
    pub fn copy_step(&mut self, copy: &mut CopyTo, out: &mut Vec<u8>, budget_rows: i64) -> Result<Progress> {
        self.copy_rows(copy, out, &mut Vec::new(), budget_rows)
    }

    /// As [`Session::copy_step`]; adds to `ends` where in `out` each row ends, for a protocol that
    /// sends rows one by one. The header of the binary format belongs to the first row; the trailer
    /// is by itself.
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
        if !copy.started && !matches!(progress, Progress::Wait(_) | Progress::Fetch(_)) {
            copy.started = true;
            let before = out.len();
            if let Err(error) = copy.out.start(out) {
                self.fail(&mut copy.running);
                return Err(error);
            }
            if !copy.binary && out.len() > before {
                ends.push(out.len());
            }
        }
        if !copy.rows.is_empty() {
            // A type may have got labels since the query was prepared.
            copy.out.for_each_type(|ty| *ty = self.current_type(*ty));
        }
        for row in copy.rows.iter() {
            let mut written = copy.out.write_row(row, &self.env, out);
            if row.iter().any(text_io::is_long) {
                written = written.and_then(|()| pulse::check());
            }
            if let Err(error) = written {
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

    /// Waits for the next bytes of a COPY TO, and appends them to `out`. At the end gives the
    /// command tag; there may be bytes with it.
    ///
    /// # Errors
    /// Those of the query. The COPY has ended then.
    pub fn copy_fetch(&mut self, copy: &mut CopyTo, out: &mut Vec<u8>) -> Result<Option<CompactString>> {
        loop {
            let waited = match self.copy_step(copy, out, super::BUDGET_ROWS)? {
                Progress::Done(completion) => {
                    // No rows are passed on before what was read is durable.
                    if let Some(ticket) = completion.ticket {
                        self.wait_durable(ticket)?;
                    }
                    return Ok(Some(completion.tag));
                }
                Progress::Wait(wait) => wait_now(wait, &self.own.settings, &self.cancel),
                Progress::Fetch(wait) => fetch_now(&wait, &self.cancel),
                Progress::Sleep(until) => sleep_now(until, None, &self.cancel),
                Progress::Commits(turn) => {
                    turn.wait();
                    Ok(())
                }
                Progress::Rows | Progress::Yield if out.is_empty() => Ok(()),
                Progress::Rows | Progress::Yield => return Ok(None),
            };
            if let Err(error) = waited {
                self.abandon_copy(copy)?;
                return Err(error);
            }
        }
    }

    /// Runs a COPY TO to its end, and passes bytes on as they come.
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
            let finished = self.copy_fetch(copy, &mut bytes)?;
            if let Err(error) = take(&bytes) {
                self.abandon_copy(copy)?;
                return Err(error);
            }
            bytes.clear();
            if let Some(tag) = finished {
                return Ok(tag);
            }
        }
    }

    /// Cancels a COPY TO.
    ///
    /// # Errors
    /// Those of [`Session::abandon`].
    pub fn abandon_copy(&mut self, copy: &mut CopyTo) -> Result<Option<CommitTicket>> {
        self.abandon(&mut copy.running)
    }
}

/// What to wait for, if an error asks to wait or to try again. Other errors are returned.
fn pause_of(error: Error) -> Result<Option<Awaited>> {
    match store_error::pause(&error) {
        None => Err(error),
        Some(Pause::Stale) => Ok(None),
        Some(Pause::Wait(wait)) => Ok(wait.lock().take().map(Awaited::Lock)),
        Some(Pause::Fetch(wait) | Pause::FetchAnew(wait)) => Ok(Some(Awaited::Fetch(wait.clone()))),
    }
}

fn no_such_column(name: &str, table: &str) -> Error {
    Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" of relation \"{table}\" does not exist"))
}

/// The columns and defaults of the table of a COPY FROM.
struct BoundCopy {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    tree: Option<WrittenTree>,
    places: Vec<usize>,
    defaults: Vec<(usize, Expr)>,
    condition: Option<Expr>,
    used: Vec<u32>,
}

#[cold]
fn generated_in_copy(column: &str) -> Error {
    Error::new(SqlState::BAD_COLUMN_REFERENCE, format!("column \"{column}\" is a generated column"))
        .detail("Generated columns cannot be used in COPY.")
}

fn bind_copy_from(
    binder: &mut Binder<'_>,
    name: &[CompactString],
    columns: &[CompactString],
    condition: Option<&ast::Expr>,
) -> Result<BoundCopy> {
    let parts = name.iter().map(|part| ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', part.as_str())));
    let name = ast::ObjectName(parts.collect());
    let view = match binder.relation(&name)? {
        Some(Relation::View(view)) if !view.materialized => Some(Arc::clone(view)),
        _ => None,
    };
    let table = match view {
        Some(view) => Arc::new(binder.view_as_table(&view)?),
        None => binder.table(&name).map_err(Error::without_position)?,
    };
    if table.materialized.is_some() {
        let message = format!("cannot copy to materialized view \"{}\"", table.name);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    binder.expect_no_policies(&table)?;
    let mut places: Vec<usize> = Vec::new();
    for name in columns {
        let place = table.column(name).ok_or_else(|| no_such_column(name, &table.name))?;
        if table.columns[place].generated.is_some() {
            return Err(generated_in_copy(name));
        }
        if places.contains(&place) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(place);
    }
    if columns.is_empty() {
        let columns = table.live_columns().filter(|(_, column)| column.generated.is_none());
        places = columns.map(|(place, _)| place).collect();
    }
    binder.need_columns(table.id, &table.schema, Privileges::INSERT, places.clone());
    let mut defaults = Vec::new();
    for (place, column) in table.live_columns() {
        if !places.contains(&place)
            && (column.default.is_some() || column.ty.domain.is_some() && column.generated.is_none())
        {
            defaults.push((place, binder.column_default(&table, place)?));
        }
    }
    let condition = condition.map(|condition| binder.copy_condition(condition, &table)).transpose()?;
    let rules = binder.rules(&table)?;
    let tree = binder.inserted_tree(&table)?;
    Ok(BoundCopy { table, rules, tree, places, defaults, condition, used: binder.used.clone() })
}
