//! Statements that are not plans: transactions, settings, prepared statements, EXPLAIN, changes of the catalogue.

use std::sync::Arc;

use colibri_catalog::store_error::InSql as _;
use colibri_txn::Transaction;
use colibri_types::{Datum, Error, Result, SqlState, Type, cast::CastContext, pulse, text_io};
use compact_str::CompactString;
use sqlparser::ast::{self, Statement};

use super::block::{CommitStep, NamedSavepoint};
use super::settings::Modes;
use super::step::Ends;
use super::{Answer, Completion, Prepared, ResultColumn, Rows, Session, Severity, TransactionState, whole};
use crate::bind::{fold, name_parts};
use crate::ddl;
use crate::exec::{Context, Execution, Step};
use crate::explain::{self, ExplainOptions, Watched};
use crate::plan::Fragment;

/// Whether a statement begins or ends transactions, or needs none.
pub(super) fn is_control(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Deallocate { .. }
            | Statement::Discard { .. }
    )
}

/// Whether a statement runs within a transaction, but not as a plan.
pub(super) fn is_utility(statement: &Statement) -> bool {
    matches!(statement, Statement::Explain { .. } | Statement::Prepare { .. } | Statement::Execute { .. })
        || ddl::is_ddl(statement)
}

/// Whether a utility changes something.
pub(super) fn writes(statement: &Statement) -> bool {
    match statement {
        Statement::Explain { statement: inner, .. } => may_lock(statement) && super::plans::writes_rows(inner),
        Statement::Execute { .. } => true,
        other => ddl::is_ddl(other),
    }
}

/// Whether a utility runs a query, which may lock rows and cannot run in a transaction that only reads then.
pub(super) fn may_lock(statement: &Statement) -> bool {
    let Statement::Explain { analyze, options, .. } = statement else { return false };
    let given = options.iter().flatten().rfind(|option| fold(&option.name).starts_with("analy"));
    given.map_or(*analyze, is_on)
}

/// Whether an option of EXPLAIN is on.
fn is_on(option: &ast::UtilityOption) -> bool {
    match &option.arg {
        None => true,
        Some(arg) => !["off", "false", "0"].contains(&arg.to_string().to_ascii_lowercase().as_str()),
    }
}

/// Whether a statement may end a failed block.
pub(super) fn ends_block(statement: &Statement) -> bool {
    matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. })
}

/// PostgreSQL's command tag.
pub(super) fn tag(statement: &Statement) -> &'static str {
    match statement {
        Statement::Commit { .. } => "COMMIT",
        Statement::Rollback { .. } => "ROLLBACK",
        Statement::Savepoint { .. } => "SAVEPOINT",
        Statement::ReleaseSavepoint { .. } => "RELEASE",
        Statement::Deallocate { .. } => "DEALLOCATE",
        Statement::Discard { object_type } => match object_type {
            ast::DiscardObject::ALL => "DISCARD ALL",
            ast::DiscardObject::PLANS => "DISCARD PLANS",
            ast::DiscardObject::SEQUENCES => "DISCARD SEQUENCES",
            ast::DiscardObject::TEMP => "DISCARD TEMP",
        },
        Statement::Explain { .. } => "EXPLAIN",
        Statement::Prepare { .. } => "PREPARE",
        Statement::Execute { .. } => "EXECUTE",
        other => ddl::tag(other),
    }
}

/// Prepared statements that execute each other, at most.
const EXECUTE_DEPTH_MAX: u32 = 16;

fn done(tag: &str) -> Completion {
    Completion { tag: tag.into(), ticket: None }
}

fn no_block() -> Error {
    Error::new(SqlState::NO_ACTIVE_TRANSACTION, "there is no transaction in progress")
}

fn only_in_block(what: &str) -> Error {
    Error::new(SqlState::NO_ACTIVE_TRANSACTION, format!("{what} can only be used in transaction blocks"))
}

fn text_rows(lines: impl IntoIterator<Item = String>) -> Rows {
    let mut rows = Rows::default();
    for line in lines {
        rows.push(std::iter::once(Datum::text(&line)));
    }
    rows
}

impl Session {
    pub(super) fn control(&mut self, statement: &Statement) -> Result<Completion> {
        self.check_chain(statement)?;
        whole::control(statement)?;
        match statement {
            Statement::Commit { chain, .. } => Ok(self.end_without_commit(*chain)),
            Statement::Rollback { chain, savepoint: None } => {
                let modes = self.modes_of_chained();
                let was_open = self.state != TransactionState::Idle;
                if !was_open || self.block.implicit {
                    self.warn_of_no_block();
                }
                let ticket = self.abort_txn();
                self.end_block(false);
                if *chain && was_open {
                    self.open_block(modes);
                }
                Ok(Completion { tag: "ROLLBACK".into(), ticket })
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                self.rollback_to(&fold(name))?;
                Ok(done("ROLLBACK"))
            }
            Statement::Savepoint { name } => {
                if self.state != TransactionState::Open || self.block.implicit {
                    return Err(only_in_block("SAVEPOINT"));
                }
                self.ensure_block_txn()?;
                let Some(txn) = &self.txn else { return Err(only_in_block("SAVEPOINT")) };
                let savepoint = NamedSavepoint {
                    name: fold(name),
                    savepoint: txn.savepoint(),
                    catalog: Arc::clone(&self.own.catalog),
                    catalog_changed: self.block.catalog_changed,
                    own_sequences: self.own.own_sequences.clone(),
                    settings: self.own.settings.clone(),
                    read_only: self.block.modes.read_only,
                    cursor_serial: self.cursor_serial,
                    advisory: self.own.advisory.transaction_counts(),
                };
                self.block.savepoints.push(savepoint);
                Ok(done("SAVEPOINT"))
            }
            Statement::ReleaseSavepoint { name } => {
                if self.state != TransactionState::Open || self.block.implicit {
                    return Err(only_in_block("RELEASE SAVEPOINT"));
                }
                let at = self.find_savepoint(&fold(name))?;
                let read_only = self.block.savepoints[at].read_only;
                self.block.savepoints.truncate(at);
                self.be_read_only(read_only);
                Ok(done("RELEASE"))
            }
            Statement::Deallocate { name, .. } => {
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
                    self.forget_all_named();
                    return Ok(done("DEALLOCATE ALL"));
                }
                let name = fold(name);
                if !self.named.contains_key(&name) {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    return Err(Error::new(SqlState::NO_SUCH_PREPARED, message));
                }
                self.forget_named(&name);
                Ok(done("DEALLOCATE"))
            }
            Statement::Discard { object_type } => {
                self.discard(object_type)?;
                Ok(done(tag(statement)))
            }
            _ => Err(Error::internal("not a statement about transactions")),
        }
    }

    /// Throws away what the session has gathered.
    fn discard(&mut self, what: &ast::DiscardObject) -> Result<()> {
        match what {
            ast::DiscardObject::PLANS => self.discard_plans(),
            ast::DiscardObject::SEQUENCES => self.discard_sequences(),
            // There are no temporary tables.
            ast::DiscardObject::TEMP => {}
            ast::DiscardObject::ALL => {
                if self.state != TransactionState::Idle {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
                }
                self.forget_all_named();
                self.forget_all_cursors();
                self.own.settings.reset_all();
                self.own.settings.put("session_authorization", None, false);
                self.own.settings.put("role", None, false);
                self.discard_sequences();
                self.discard_plans();
                self.settings_set();
                self.own.advisory.unlock_all();
                self.end_advisory_statement();
            }
        }
        Ok(())
    }

    /// Refuses AND CHAIN where there is no block that another could follow.
    fn check_chain(&self, statement: &Statement) -> Result<()> {
        let is_in_block = self.state != TransactionState::Idle && !self.block.implicit;
        match statement {
            Statement::Commit { chain: true, .. } if !is_in_block => Err(only_in_block("COMMIT AND CHAIN")),
            Statement::Rollback { chain: true, savepoint: None } if !is_in_block => {
                Err(only_in_block("ROLLBACK AND CHAIN"))
            }
            _ => Ok(()),
        }
    }

    fn warn_of_no_block(&mut self) {
        let message = "there is no transaction in progress";
        self.notice(Severity::Warning, SqlState::NO_ACTIVE_TRANSACTION, message);
    }

    fn ensure_block_txn(&mut self) -> Result<()> {
        let begin = self.begin_of_block();
        self.ensure_txn(begin, self.env.statement_us)
    }

    /// The modes of the block that AND CHAIN puts in the place of one that is rolled back: without
    /// what was said behind its savepoints.
    fn modes_of_chained(&self) -> Modes {
        let mut modes = self.block.modes;
        if let Some(first) = self.block.savepoints.first() {
            modes.read_only = first.read_only;
        }
        modes
    }

    /// What a COMMIT ends, if there is something to commit.
    pub(super) fn ends_open_block(&mut self, statement: &Statement) -> Option<Ends> {
        let Statement::Commit { chain, .. } = statement else { return None };
        if self.state != TransactionState::Open || *chain && self.block.implicit {
            return None;
        }
        if self.block.implicit {
            self.warn_of_no_block();
        }
        Some(Ends::Block { chain: *chain })
    }

    /// Commits the block at hand, or goes on with that.
    pub(super) fn commit_block(&mut self, chain: bool) -> Result<CommitStep> {
        let modes = self.block.modes;
        let step = self.commit_step();
        match &step {
            Ok(CommitStep::Waits(_)) => {}
            Ok(CommitStep::Ended(_)) => {
                self.end_block(true);
                if chain {
                    self.open_block(modes);
                }
            }
            Err(_) => self.end_block(false),
        }
        step
    }

    /// A COMMIT without a block, or of one that has failed.
    fn end_without_commit(&mut self, chain: bool) -> Completion {
        if self.state == TransactionState::Idle {
            self.warn_of_no_block();
            return done("COMMIT");
        }
        let modes = self.modes_of_chained();
        let ticket = self.abort_txn();
        self.end_block(false);
        if chain {
            self.open_block(modes);
        }
        Completion { tag: "ROLLBACK".into(), ticket }
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.block
            .savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| Error::new(SqlState::NO_SUCH_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        if self.state == TransactionState::Idle || self.block.implicit {
            return Err(only_in_block("ROLLBACK TO SAVEPOINT"));
        }
        let at = self.find_savepoint(name)?;
        self.block.savepoints.truncate(at + 1);
        let savepoint = &self.block.savepoints[at];
        let settings = savepoint.settings.clone();
        let (serial, read_only) = (savepoint.cursor_serial, savepoint.read_only);
        let advisory = savepoint.advisory.clone();
        let own_sequences = savepoint.own_sequences.clone();
        let (to, catalog, changed) = (savepoint.savepoint, Arc::clone(&savepoint.catalog), savepoint.catalog_changed);
        let txn = self.txn.as_mut().ok_or_else(no_block)?;
        txn.rollback_to(to).in_sql()?;
        self.drop_cursors_after(serial);
        self.own.advisory.set_transaction_counts(&advisory);
        self.own.catalog = catalog;
        self.own.take_back_sequences(own_sequences)?;
        self.block.catalog_changed = changed;
        self.state = TransactionState::Open;
        self.own.settings.go_back_to(settings);
        self.be_read_only(read_only);
        self.settings_set();
        Ok(())
    }

    // ---- within a transaction ----

    /// The columns of what a utility gives.
    pub(super) fn utility_columns(&mut self, statement: &Statement) -> Result<Vec<ResultColumn>> {
        Ok(match statement {
            Statement::Explain { options, format, .. } => {
                vec![Explained::column(options.as_deref().unwrap_or_default(), format.as_ref())]
            }
            // One that is not there may be when it is run.
            Statement::Execute { name: Some(name), .. } => match self.named_statement(name) {
                Ok(prepared) => prepared.columns.clone(),
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        })
    }

    /// The statement that EXECUTE runs; `None` for any other.
    pub(super) fn executed(&self, prepared: &Prepared) -> Result<Option<Arc<Prepared>>> {
        match &prepared.command {
            super::plans::Command::Utility(statement) => match &**statement {
                Statement::Execute { name: Some(name), .. } => self.named_statement(name).map(Some),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn named_statement(&self, name: &ast::ObjectName) -> Result<Arc<Prepared>> {
        let name = fold(name_parts(name)?.last().ok_or_else(|| Error::internal("a name has no parts"))?);
        self.named.get(&name).cloned().ok_or_else(|| {
            Error::new(SqlState::NO_SUCH_PREPARED, format!("prepared statement \"{name}\" does not exist"))
        })
    }

    pub(super) fn utility(
        &mut self,
        text: &str,
        statement: &Statement,
        params: &[Datum],
    ) -> Result<(Rows, CompactString)> {
        whole::utility(statement)?;
        match statement {
            Statement::Explain { .. } => self.explain(statement, params),
            Statement::Prepare { name, data_types, statement } => {
                let name = fold(name);
                if self.named.contains_key(&name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(Error::new(SqlState::DUPLICATE_PREPARED, message));
                }
                let mut types = Vec::with_capacity(data_types.len());
                for data_type in data_types {
                    types.push(Some(self.type_named(data_type)?.ty));
                }
                if !matches!(
                    **statement,
                    Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
                ) {
                    return Err(Error::new(
                        SqlState::SYNTAX_ERROR,
                        format!("syntax error: cannot prepare {statement}"),
                    ));
                }
                let prepared = self.prepare_in_txn(crate::statement::text_prepared(text)?, &types)?;
                self.list_prepared(&name, text, &prepared, true);
                self.named.insert(name, prepared);
                Ok((Rows::default(), "PREPARE".into()))
            }
            Statement::Execute { name: Some(name), parameters, .. } => {
                let prepared = self.named_statement(name)?;
                let params = self.execute_params(name, &prepared, parameters)?;
                self.execute_named(&prepared, params)
            }
            ddl => {
                let tag = self.ddl(ddl)?;
                Ok((Rows::default(), tag.into()))
            }
        }
    }

    /// EXECUTE: within the statement at hand.
    fn execute_named(&mut self, prepared: &Arc<Prepared>, mut params: Vec<Datum>) -> Result<(Rows, CompactString)> {
        let prepared = self.renewed(prepared)?.unwrap_or_else(|| Arc::clone(prepared));
        if let Some(current_of) = &prepared.current_of {
            params.extend(self.current_row(current_of)?);
        }
        match &prepared.command {
            super::plans::Command::Plan { fragment, .. } => {
                self.depend(&prepared)?;
                let mut execution = Execution::new(fragment);
                let mut rows = Rows::default();
                let count = self.run_to_end(&mut execution, fragment, &params, Some(&mut rows))?;
                let affected = execution.affected().unwrap_or(count);
                execution.retire(fragment);
                Ok((rows, prepared.completed(affected)))
            }
            super::plans::Command::Utility(statement) => {
                // An EXECUTE that was prepared under the name that it executes has no end.
                if self.execute_depth >= EXECUTE_DEPTH_MAX {
                    return Err(crate::statement::too_deep());
                }
                self.execute_depth += 1;
                let done = self.utility(prepared.text(), &statement.clone(), &params);
                self.execute_depth -= 1;
                done
            }
            _ => Err(Error::unsupported("a prepared statement about transactions")),
        }
    }

    /// The values that EXECUTE gives to parameters.
    fn execute_params(
        &mut self,
        name: &ast::ObjectName,
        prepared: &Prepared,
        exprs: &[ast::Expr],
    ) -> Result<Vec<Datum>> {
        if exprs.len() != prepared.params.len() {
            let name = name_parts(name)?.last().map(|name| fold(name)).unwrap_or_default();
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!("Expected {} parameters but got {}.", prepared.params.len(), exprs.len());
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).detail(detail));
        }
        let mut params = Vec::with_capacity(exprs.len());
        for (expr, &ty) in exprs.iter().zip(&prepared.params) {
            let bound = self.with_binder("", |binder| {
                let bound = binder.execute_parameter(expr)?;
                let from = bound.ty.ty;
                binder.coerce(bound, ty.into(), CastContext::Assignment, sqlparser::tokenizer::Span::empty()).map_err(
                    |error| {
                        if error.state() != SqlState::CANNOT_COERCE {
                            return error;
                        }
                        let message = format!("parameter of type {from} cannot be coerced to the expected type {ty}");
                        Error::new(SqlState::TYPE_MISMATCH, message)
                            .hint("You will need to rewrite or cast the expression.")
                    },
                )
            })?;
            params.push(self.evaluate(bound)?);
        }
        Ok(params)
    }

    /// Evaluates an expression that takes nothing from a row.
    pub(crate) fn evaluate(&mut self, expr: crate::expr::Expr) -> Result<Datum> {
        let root = crate::plan::Node::Values { rows: vec![vec![expr]] };
        let column = crate::plan::OutputColumn { name: "value".into(), ty: Type::Text.into(), origin: None };
        let fragment = crate::plan::Fragment::new(root, 0, vec![column]);
        let mut execution = Execution::new(&fragment);
        let mut rows = Rows::default();
        self.run_to_end(&mut execution, &fragment, &[], Some(&mut rows))?;
        Ok(rows.iter().next().and_then(|row| row.first().cloned()).unwrap_or_default())
    }

    /// Runs operators within the statement at hand; gives how many rows they gave, and these if
    /// anybody wants them.
    fn run_to_end(
        &mut self,
        execution: &mut Execution,
        fragment: &Fragment,
        params: &[Datum],
        mut rows: Option<&mut Rows>,
    ) -> Result<u64> {
        let mut count = 0;
        let mut batch = crate::exec::Batch::default();
        loop {
            self.memory.set_limits(self.own.settings.hot().memory);
            let Some(txn) = &mut self.txn else { return Err(Error::internal("a statement has no transaction")) };
            let mut cx = Context {
                env: &self.env,
                params,
                session: &mut self.own,
                cancel: &self.cancel,
                memory: &self.memory,
                budget_rows: pulse::ROWS_AT_ONCE,
            };
            let step = execution.step(fragment, txn, &mut cx, &mut batch)?;
            pulse::rows_done(pulse::ROWS_AT_ONCE - cx.budget_rows)?;
            match step {
                Step::Rows => {
                    for index in 0..batch.rows() {
                        if let Some(rows) = &mut rows {
                            rows.push(batch.row_mut(index).iter_mut().map(std::mem::take));
                        }
                    }
                    count += batch.rows() as u64;
                }
                Step::Yield => {}
                Step::Done => return Ok(count),
            }
        }
    }

    /// INSERT INTO a table what a query gives; how many rows those were.
    pub(crate) fn insert_query(&mut self, table: &ast::ObjectName, query: &ast::Query) -> Result<u64> {
        let text = format!("INSERT INTO {table} SELECT 1");
        let mut statement = crate::statement::parse(&text)?.pop().ok_or_else(|| Error::internal("no statement"))?;
        // The query itself: of its text, the mending of tokens may have left something that is no SQL.
        if let Statement::Insert(insert) = &mut statement {
            insert.source = Some(Box::new(query.clone()));
        }
        let (fragment, _) = self.plan_inner("", &statement, &[])?;
        let mut execution = Execution::new(&fragment);
        self.run_to_end(&mut execution, &fragment, &[], None)?;
        Ok(execution.affected().unwrap_or(0))
    }

    fn explain(&mut self, statement: &Statement, params: &[Datum]) -> Result<(Rows, CompactString)> {
        if let Statement::Explain { statement, .. } = statement
            && ddl::is_ddl(statement)
            && !matches!(&**statement, Statement::CreateTable(create) if create.query.is_some())
        {
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: cannot explain {statement}")));
        }
        let Statement::Explain { analyze, verbose, statement, options, format, .. } = statement else {
            return Err(Error::internal("not EXPLAIN"));
        };
        let Explained { show, analyze, summary, is_json } =
            Explained::of(*analyze, *verbose, options.as_deref().unwrap_or_default(), format.as_ref())?;
        whole::utility(statement)?;
        let (mut inner, mut types, mut given) = (None, Vec::new(), None);
        if let Statement::Execute { name: Some(name), parameters, .. } = &**statement {
            let prepared = self.named_statement(name)?;
            given = Some(self.execute_params(name, &prepared, parameters)?);
            types = prepared.params().iter().copied().map(Some).collect();
            inner = crate::statement::parse(prepared.text())?.pop();
        }
        let params = given.as_deref().unwrap_or(params);
        let began = std::time::Instant::now();
        let (fragment, _) = self.plan_inner("", inner.as_ref().unwrap_or(statement), &types)?;
        let planning = ("Planning Time", began.elapsed().as_secs_f64() * 1e3);
        let (mut execution, mut times) = (None, vec![planning]);
        if analyze {
            let began = std::time::Instant::now();
            let running = execution.insert(Execution::new_watched(&fragment));
            self.run_to_end(running, &fragment, params, None)?;
            times.push(("Execution Time", began.elapsed().as_secs_f64() * 1e3));
        }
        times.retain(|_| summary);
        let watched = execution.as_ref().map(|execution| execution as &dyn Watched);
        let lines = if is_json {
            vec![explain::explain_json(&fragment, watched, show, &times)]
        } else {
            let mut lines = explain::explain(&fragment, watched, show);
            lines.extend(times.iter().map(|(name, ms)| format!("{name}: {ms:.3} ms")));
            lines
        };
        Ok((text_rows(lines), "EXPLAIN".into()))
    }
}

/// What EXPLAIN was told to do.
struct Explained {
    show: ExplainOptions,
    analyze: bool,
    /// How long it took, behind the plan.
    summary: bool,
    is_json: bool,
}

impl Explained {
    fn of(
        analyze: bool,
        verbose: bool,
        options: &[ast::UtilityOption],
        format: Option<&ast::AnalyzeFormatKind>,
    ) -> Result<Self> {
        let unsupported = || Error::unsupported("EXPLAIN with a format other than text and JSON");
        let is_json = match format {
            None => false,
            Some(ast::AnalyzeFormatKind::Keyword(kind) | ast::AnalyzeFormatKind::Assignment(kind)) => match kind {
                ast::AnalyzeFormat::TEXT => false,
                ast::AnalyzeFormat::JSON => true,
                _ => return Err(unsupported()),
            },
        };
        let show = ExplainOptions { verbose, ..ExplainOptions::default() };
        let mut explained = Self { show, analyze, summary: false, is_json };
        let (mut summary, mut timing, mut wal) = (None, None, false);
        for option in options {
            let on = || is_on(option);
            match fold(&option.name).as_str() {
                "analyze" | "analyse" => explained.analyze = on(),
                "verbose" => explained.show.verbose = on(),
                "costs" => explained.show.costs = on(),
                "timing" => timing = Some(on()),
                "summary" => summary = Some(on()),
                "wal" => wal = on(),
                "format" => {
                    let name = option.arg.as_ref().map(ToString::to_string).unwrap_or_default();
                    explained.is_json = match name.trim_matches('\'').to_ascii_lowercase().as_str() {
                        "text" => false,
                        "json" => true,
                        "xml" | "yaml" => return Err(unsupported()),
                        other => {
                            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
                            return Err(Error::new(SqlState::BAD_PARAMETER, message));
                        }
                    };
                }
                // There is nothing of the kind to be shown.
                "buffers" | "settings" => _ = on(),
                other => {
                    let message = format!("unrecognized EXPLAIN option \"{other}\"");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        for (name, wanted) in [("WAL", wal), ("TIMING", timing == Some(true))] {
            if wanted && !explained.analyze {
                let message = format!("EXPLAIN option {name} requires ANALYZE");
                return Err(Error::new(SqlState::BAD_PARAMETER, message));
            }
        }
        explained.show.timing = timing.unwrap_or(true);
        explained.summary = summary.unwrap_or(explained.analyze);
        Ok(explained)
    }

    /// The type of what it gives.
    fn column(options: &[ast::UtilityOption], format: Option<&ast::AnalyzeFormatKind>) -> ResultColumn {
        let is_json = Self::of(true, false, options, format).is_ok_and(|explained| explained.is_json);
        let ty = if is_json { Type::Json } else { Type::Text };
        ResultColumn { name: "QUERY PLAN".into(), ty: ty.into(), origin: None }
    }
}

impl Answer {
    /// The rows as text, in PostgreSQL's output format; NULL is `None`.
    #[must_use]
    pub fn text_rows(&self, session: &Session) -> Vec<Vec<Option<String>>> {
        let text = |value: &Datum, column: &ResultColumn| {
            (!value.is_null()).then(|| {
                let mut out = String::new();
                let padded = colibri_types::cast::pad_char(value, column.ty.modifier);
                let value = if column.ty.ty == Type::Char { &padded } else { value };
                text_io::write(column.ty.ty, value, session.env(), &mut out);
                out
            })
        };
        self.rows
            .iter()
            .map(|row| row.iter().zip(&self.columns).map(|(value, column)| text(value, column)).collect())
            .collect()
    }
}
