//! COPY: `COPY … FROM STDIN` takes bytes, `COPY … TO STDOUT` gives them. Where they come from and go to is the caller's
//! affair: a file, a client.
//!
//! Rows that have come are written in batches, each behind a savepoint: one that has to wait for a lock is taken back
//! alone. Outside a transaction block the whole COPY is one transaction; since its bytes are gone, it does not run again
//! by itself after a conflict at the commit (40001).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_txn::{Begin, ColumnSet, CommitTicket, IfLocked, LockMode, LockWait, Transaction};
use compact_str::{CompactString, format_compact};
use sqlparser::ast;

use super::block::in_failed_block;
use super::drive::wait_now;
use super::{Completion, Progress, Rows, Running, Session, TransactionState};
use crate::bind::{Binder, fold, name_parts};
use crate::catalog::{self, Table, catalog_space, table_key};
use crate::cluster::Privileges;
use crate::copy::{CopyColumn, CopyFormat, CopyIn, CopyOptions, CopyOut, Header};
use crate::env;
use crate::error::{Error, Pause, Result, SqlState};
use crate::expr::Expr;
use crate::plan::TableRules;
use crate::pulse;
use crate::text_io;

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

    /// Whether a text is one COPY statement.
    #[must_use]
    pub fn is_copy(text: &str) -> bool {
        matches!(crate::statement::parse(text).as_deref(), Ok([ast::Statement::Copy { .. }]))
    }

    fn begin_copy(&mut self, text: &str) -> Result<Copy> {
        let mut statements = crate::statement::parse(text)?;
        let (Some(ast::Statement::Copy { source, to, target, options, legacy_options, values: _ }), true) =
            (statements.pop(), statements.is_empty())
        else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "a COPY statement was expected"));
        };
        if !to {
            self.settle_cursors_now()?;
        }
        if self.state == TransactionState::Failed {
            return Err(in_failed_block());
        }
        let wrong_end = match &target {
            ast::CopyTarget::Stdin => to,
            ast::CopyTarget::Stdout => !to,
            _ => {
                return Err(Error::unsupported("COPY with a file or a program of the server")
                    .hint("Use COPY FROM STDIN or COPY TO STDOUT; in colibri sql, \\copy."));
            }
        };
        if wrong_end {
            let message = if to { "COPY TO needs STDOUT" } else { "COPY FROM needs STDIN" };
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let wanted = Wanted::read(&options, &legacy_options)?;
        if to { self.begin_copy_to(&source, wanted) } else { self.begin_copy_from(&source, wanted) }
    }

    fn begin_copy_from(&mut self, source: &ast::CopySource, wanted: Wanted) -> Result<Copy> {
        let ast::CopySource::Table { table_name, columns } = source else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "COPY FROM takes a table"));
        };
        let implicit = self.state == TransactionState::Idle;
        let begin = if implicit {
            let read_only = self.own.settings.hot().is_read_only;
            Begin { isolation: self.default_isolation(), read_only, newest: true }
        } else {
            Begin { isolation: self.block.isolation, read_only: self.block.read_only, newest: false }
        };
        if begin.read_only {
            let message = "cannot execute COPY FROM in a read-only transaction";
            return Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message));
        }
        self.block.used = true;
        self.ensure_txn(begin, env::clock_us())?;
        let bound = self.with_binder("", |binder| bind_copy_from(binder, table_name, columns))?;
        let (table, rules, places, defaults, used) = bound;
        let options = wanted.options(&|name| {
            let place = table.column(name).ok_or_else(|| no_such_column(name, &table.name))?;
            places.iter().position(|&copied| copied == place).ok_or_else(|| not_copied(name))
        })?;
        let binary = options.format == CopyFormat::Binary;
        let count = places.len();
        let copy = CopyIn::new(&table, &rules, places, defaults, options);
        self.depend_on(&used, table.id)?;
        Ok(Copy::From(CopyFrom { copy, implicit, is_over: false, columns: count, binary }))
    }

    /// Makes the transaction depend on tables being as they are now.
    fn depend_on(&mut self, used: &[u32], target: u32) -> Result<()> {
        loop {
            let Some(txn) = &mut self.txn else { return Err(Error::internal("COPY has no transaction")) };
            let savepoint = txn.begin_statement()?;
            let space = catalog_space();
            // Before the lock, which is had only if what was read of the table is as it was.
            txn.get(&space, &table_key(target), ColumnSet::ALL)?;
            let locked = txn.lock(&space, &table_key(target), LockMode::Add, IfLocked::Wait);
            match locked.map_err(Error::from) {
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
                txn.get(&catalog_space(), &catalog::table_key(id), ColumnSet::ALL)?;
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
            self.state = TransactionState::Failed;
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
            let savepoint = txn.begin_statement()?;
            match self.with_context(|txn, cx| copy.copy.flush(txn, cx)) {
                Ok(()) => return Ok(None),
                Err(error) => {
                    let wait = pause_of(error)?;
                    let txn = self.txn.as_mut().ok_or_else(|| Error::internal("COPY has no transaction"))?;
                    txn.restart(savepoint)?;
                    self.block.depends.clear();
                    if wait.is_some() {
                        return Ok(wait);
                    }
                }
            }
        }
    }

    fn begin_copy_to(&mut self, source: &ast::CopySource, wanted: Wanted) -> Result<Copy> {
        let (query, table) = match source {
            ast::CopySource::Query(query) => (query.to_string(), None),
            ast::CopySource::Table { table_name, columns } => {
                let list = if columns.is_empty() {
                    "*".to_owned()
                } else {
                    columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                };
                (format!("SELECT {list} FROM {table_name}"), Some(table_name))
            }
        };
        // Positions would be those of a text that nobody has written.
        let prepared = self.prepare(&query, &[]).map_err(|error| match table {
            Some(_) => error.without_position(),
            None => error,
        })?;
        let Some(columns) = prepared.columns() else {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "COPY query must have a RETURNING clause"));
        };
        let options = wanted
            .options(&|name| columns.iter().position(|column| column.name == name).ok_or_else(|| not_copied(name)))?;
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
    match error.pause() {
        None => Err(error),
        Some(Pause::Stale) => Ok(None),
        Some(Pause::Wait(wait)) => Ok(wait.lock().take()),
    }
}

fn not_to_be_waited_for(error: Error) -> Error {
    match error.pause() {
        None => error,
        Some(_) => Error::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
            .hint("The transaction might succeed if retried."),
    }
}

fn no_such_column(name: &str, table: &str) -> Error {
    Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" of relation \"{table}\" does not exist"))
}

fn not_copied(name: &str) -> Error {
    Error::new(SqlState::BAD_COLUMN_REFERENCE, format!("column \"{name}\" is not copied"))
}

type BoundCopy = (Arc<Table>, Arc<TableRules>, Vec<usize>, Vec<(usize, Expr)>, Vec<u32>);

fn bind_copy_from(binder: &mut Binder<'_>, name: &ast::ObjectName, columns: &[ast::Ident]) -> Result<BoundCopy> {
    _ = name_parts(name)?;
    let table = binder.table(name).map_err(Error::without_position)?;
    binder.need(table.id, &table.schema, Privileges::INSERT);
    let mut places: Vec<usize> = Vec::new();
    for ident in columns {
        let name = fold(ident);
        let place = table.column(&name).ok_or_else(|| no_such_column(&name, &table.name))?;
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
    let rules = binder.rules(&table)?;
    Ok((table, rules, places, defaults, binder.used.clone()))
}

/// The options as they were written, before the columns are known.
#[derive(Default)]
struct Wanted {
    format: Option<CopyFormat>,
    delimiter: Option<char>,
    null: Option<String>,
    header: bool,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Vec<ast::Ident>,
    force_not_null: Vec<ast::Ident>,
    force_null: Vec<ast::Ident>,
}

impl Wanted {
    fn read(options: &[ast::CopyOption], legacy: &[ast::CopyLegacyOption]) -> Result<Self> {
        let mut wanted = Self::default();
        for option in options {
            match option {
                ast::CopyOption::Format(name) => wanted.format = Some(format_named(&fold(name))?),
                ast::CopyOption::Delimiter(delimiter) => wanted.delimiter = Some(*delimiter),
                ast::CopyOption::Null(null) => wanted.null = Some(null.clone()),
                ast::CopyOption::Header(header) => wanted.header = *header,
                ast::CopyOption::Quote(quote) => wanted.quote = Some(*quote),
                ast::CopyOption::Escape(escape) => wanted.escape = Some(*escape),
                ast::CopyOption::ForceQuote(columns) => wanted.force_quote.clone_from(columns),
                ast::CopyOption::ForceNotNull(columns) => wanted.force_not_null.clone_from(columns),
                ast::CopyOption::ForceNull(columns) => wanted.force_null.clone_from(columns),
                // All there is, all of it visible to nobody before the commit.
                ast::CopyOption::Freeze(_) => {}
                ast::CopyOption::Encoding(name) => {
                    if !["utf8", "utf-8", "unicode"].contains(&name.to_ascii_lowercase().as_str()) {
                        return Err(Error::unsupported(format_args!("COPY in the encoding {name}")));
                    }
                }
            }
        }
        for option in legacy {
            match option {
                ast::CopyLegacyOption::Binary => wanted.format = Some(CopyFormat::Binary),
                ast::CopyLegacyOption::Delimiter(delimiter) => wanted.delimiter = Some(*delimiter),
                ast::CopyLegacyOption::Null(null) => wanted.null = Some(null.clone()),
                ast::CopyLegacyOption::Header => wanted.header = true,
                ast::CopyLegacyOption::Csv(options) => {
                    wanted.format = Some(CopyFormat::Csv);
                    for option in options {
                        match option {
                            ast::CopyLegacyCsvOption::Header => wanted.header = true,
                            ast::CopyLegacyCsvOption::Quote(quote) => wanted.quote = Some(*quote),
                            ast::CopyLegacyCsvOption::Escape(escape) => wanted.escape = Some(*escape),
                            ast::CopyLegacyCsvOption::ForceQuote(columns) => wanted.force_quote.clone_from(columns),
                            ast::CopyLegacyCsvOption::ForceNotNull(columns) => {
                                wanted.force_not_null.clone_from(columns);
                            }
                        }
                    }
                }
                other => return Err(Error::unsupported(format_args!("the option {other} of COPY"))),
            }
        }
        Ok(wanted)
    }

    fn options(self, place: &dyn Fn(&str) -> Result<usize>) -> Result<CopyOptions> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let mut options = CopyOptions::new(format);
        let only_csv = |given: bool, what: &str| match given && format != CopyFormat::Csv {
            true => Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("COPY {what} available only in CSV mode"))),
            false => Ok(()),
        };
        only_csv(self.quote.is_some(), "quote")?;
        only_csv(self.escape.is_some(), "escape")?;
        only_csv(!self.force_quote.is_empty(), "force quote")?;
        only_csv(!self.force_not_null.is_empty(), "force not null")?;
        only_csv(!self.force_null.is_empty(), "force null")?;
        if format == CopyFormat::Binary {
            let refuse = |given: bool, what: &str| match given {
                true => Err(Error::new(SqlState::SYNTAX_ERROR, format!("cannot specify {what} in BINARY mode"))),
                false => Ok(()),
            };
            refuse(self.delimiter.is_some(), "DELIMITER")?;
            refuse(self.null.is_some(), "NULL")?;
        }
        let byte = |character: Option<char>, otherwise: u8, what: &str| match character.map(u8::try_from) {
            None => Ok(otherwise),
            Some(Ok(byte)) if byte.is_ascii() => Ok(byte),
            Some(_) => {
                let message = format!("COPY {what} must be a single one-byte character");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        };
        options.delimiter = byte(self.delimiter, options.delimiter, "delimiter")?;
        options.quote = byte(self.quote, options.quote, "quote")?;
        // The character that escapes is the one that quotes, unless it is given.
        options.escape = byte(self.escape, options.quote, "escape")?;
        if let Some(null) = self.null {
            options.null = null;
        }
        if self.header {
            options.header = Header::Line;
        }
        let places = |columns: &[ast::Ident]| -> Result<Vec<bool>> {
            let mut flags = Vec::new();
            for column in columns {
                let place = place(&fold(column))?;
                if flags.len() <= place {
                    flags.resize(place + 1, false);
                }
                flags[place] = true;
            }
            Ok(flags)
        };
        options.force_quote = places(&self.force_quote)?;
        options.force_not_null = places(&self.force_not_null)?;
        options.force_null = places(&self.force_null)?;
        options.check()?;
        Ok(options)
    }
}

fn format_named(name: &str) -> Result<CopyFormat> {
    Ok(match name {
        "text" => CopyFormat::Text,
        "csv" => CopyFormat::Csv,
        "binary" => CopyFormat::Binary,
        other => {
            return Err(Error::new(SqlState::BAD_PARAMETER, format!("COPY format \"{other}\" not recognized")));
        }
    })
}
