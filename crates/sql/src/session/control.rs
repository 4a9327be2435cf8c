//! Statements that are not plans: transactions, settings, prepared statements, EXPLAIN, changes of
//! the catalogue.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::store_error::InSql as _;
use colibri_syntax::tree::{self, Discard, Statement, Transaction};
use colibri_types::{ColumnType, Datum, Error, Result, SqlState, Type, cast::CastContext, pulse, text_io};
use compact_str::CompactString;
use sqlparser::ast;

use super::block::{CommitStep, NamedSavepoint};
use super::settings::Modes;
use super::step::Ends;
use super::{Answer, Completion, Prepared, ResultColumn, Rows, Session, Severity, TransactionState};
use crate::ddl;
use crate::exec::{Context, Execution, Outcome};
use crate::explain::{self, ExplainOptions, Watched};

/// Whether a utility changes something.
pub(super) fn writes(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(explain) => {
            may_lock(statement)
                && !matches!(&explain.statement, Statement::Relational(inner) if !super::plans::writes_rows(inner))
        }
        Statement::Execute(_) => true,
        Statement::Relational(statement) => ddl::is_ddl(statement),
        _ => false,
    }
}

/// Whether a utility runs a query, which may lock rows and cannot run in a transaction that only
/// reads then.
pub(super) fn may_lock(statement: &Statement) -> bool {
    let Statement::Explain(explain) = statement else { return false };
    let given = explain.options.iter().rfind(|option| option.name.starts_with("analy"));
    given.map_or(explain.analyze, tree::ExplainOption::is_on)
}

/// Whether a statement may end a failed block.
pub(super) fn ends_block(statement: &Statement) -> bool {
    let Statement::Transaction(transaction) = statement else { return false };
    matches!(
        transaction,
        Transaction::Commit { .. }
            | Transaction::Rollback { .. }
            | Transaction::RollbackTo(_)
            | Transaction::Prepare(_)
    )
}

/// PostgreSQL's command tag.
pub(super) fn tag(statement: &Statement) -> &'static str {
    match statement {
        Statement::Transaction(transaction) => transaction.tag(),
        Statement::Deallocate(_) => "DEALLOCATE",
        Statement::Discard(what) => what.tag(),
        Statement::Explain(_) => "EXPLAIN",
        Statement::Prepare(_) => "PREPARE",
        Statement::Execute(_) => "EXECUTE",
        Statement::Call(_) => "CALL",
        Statement::Relational(statement) => ddl::tag(statement),
        _ => "",
    }
}

/// Prepared statements that execute each other, at most.
pub(super) const EXECUTE_DEPTH_MAX: u32 = 16;

fn done(tag: &str) -> Completion {
    Completion { tag: tag.into(), ticket: None }
}

fn no_select() -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT")
}

fn no_such_prepared(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_PREPARED, format!("prepared statement \"{name}\" does not exist"))
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
        match statement {
            Statement::Transaction(transaction) => self.transaction(transaction),
            Statement::Deallocate(None) => {
                self.forget_all_named();
                Ok(done("DEALLOCATE ALL"))
            }
            Statement::Deallocate(Some(name)) => {
                if !self.named.contains_key(name) {
                    return Err(no_such_prepared(name));
                }
                self.forget_named(name);
                Ok(done("DEALLOCATE"))
            }
            Statement::Discard(what) => {
                self.discard(*what)?;
                Ok(done(what.tag()))
            }
            _ => Err(Error::internal("not a statement about transactions")),
        }
    }

    fn transaction(&mut self, transaction: &Transaction) -> Result<Completion> {
        self.check_chain(transaction)?;
        match transaction {
            Transaction::Begin { modes, .. } => {
                self.begin(modes)?;
                Ok(done(transaction.tag()))
            }
            Transaction::Commit { chain } => Ok(self.end_without_commit(*chain)),
            Transaction::Prepare(_) => {
                if self.state == TransactionState::Idle || self.block.implicit {
                    self.warn_of_no_block();
                }
                let ticket = self.abort_txn();
                self.end_block(false);
                Ok(Completion { tag: "ROLLBACK".into(), ticket })
            }
            Transaction::CommitPrepared(_) | Transaction::RollbackPrepared(_) => {
                Err(Error::internal("a prepared transaction is ended elsewhere"))
            }
            Transaction::Rollback { chain } => {
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
            Transaction::RollbackTo(name) => {
                self.rollback_to(name)?;
                Ok(done("ROLLBACK"))
            }
            Transaction::Savepoint(name) => {
                if self.state != TransactionState::Open || self.block.implicit {
                    return Err(only_in_block("SAVEPOINT"));
                }
                self.ensure_block_txn()?;
                let savepoint = self.savepoint_here(name.clone()).ok_or_else(|| only_in_block("SAVEPOINT"))?;
                self.block.savepoints.push(savepoint);
                Ok(done("SAVEPOINT"))
            }
            Transaction::Release(name) => {
                if self.state != TransactionState::Open || self.block.implicit {
                    return Err(only_in_block("RELEASE SAVEPOINT"));
                }
                let at = self.find_savepoint(name)?;
                let read_only = self.block.savepoints[at].read_only;
                self.block.savepoints.truncate(at);
                self.be_read_only(read_only);
                Ok(done("RELEASE"))
            }
        }
    }

    /// The state of the transaction, to go back to; `None` if there is no transaction.
    pub(super) fn savepoint_here(&self, name: CompactString) -> Option<NamedSavepoint> {
        Some(NamedSavepoint {
            name,
            savepoint: self.txn.as_ref()?.savepoint(),
            catalog: Arc::clone(&self.own.catalog),
            catalog_changed: self.block.catalog_changed,
            temporary_changed: self.block.temporary_changed,
            own_sequences: self.own.own_sequences.clone(),
            settings: self.own.settings.clone(),
            read_only: self.block.modes.read_only,
            cursor_serial: self.cursor_serial,
            advisory: self.own.advisory.transaction_counts(),
            deferral: self.own.deferral.mark(),
            notifications: self.own.notifications.mark(),
        })
    }

    /// Throws away what the session has gathered.
    fn discard(&mut self, what: Discard) -> Result<()> {
        match what {
            Discard::Plans => self.discard_plans(),
            Discard::Sequences => self.discard_sequences(),
            Discard::Temp => self.discard_temporary()?,
            Discard::All => {
                if self.state != TransactionState::Idle {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
                }
                self.forget_all_named();
                self.forget_all_cursors();
                self.own.settings.reset_all();
                self.own.settings.put("session_authorization", None, false);
                self.own.settings.put("role", None, false);
                self.discard_temporary()?;
                self.discard_sequences();
                self.discard_plans();
                self.settings_set();
                self.own.notifications.unlisten_all();
                self.own.advisory.unlock_all();
                self.end_advisory_statement();
            }
        }
        Ok(())
    }

    /// Refuses AND CHAIN where there is no block that another could follow.
    fn check_chain(&self, transaction: &Transaction) -> Result<()> {
        let is_in_block = self.state != TransactionState::Idle && !self.block.implicit;
        match transaction {
            Transaction::Commit { chain: true } if !is_in_block => Err(only_in_block("COMMIT AND CHAIN")),
            Transaction::Rollback { chain: true } if !is_in_block => Err(only_in_block("ROLLBACK AND CHAIN")),
            _ => Ok(()),
        }
    }

    fn warn_of_no_block(&mut self) {
        let message = "there is no transaction in progress";
        self.notice(Severity::Warning, SqlState::NO_ACTIVE_TRANSACTION, message);
    }

    pub(super) fn ensure_block_txn(&mut self) -> Result<()> {
        let begin = self.begin_of_block();
        self.ensure_txn(begin, self.env.statement_us)
    }

    /// The modes of the block that ROLLBACK AND CHAIN begins: without changes after savepoints of
    /// the old one.
    fn modes_of_chained(&self) -> Modes {
        let mut modes = self.block.modes;
        if let Some(first) = self.block.savepoints.first() {
            modes.read_only = first.read_only;
        }
        modes
    }

    /// The block that a COMMIT ends, if there is something to commit.
    pub(super) fn ends_open_block(&mut self, statement: &Statement) -> Option<Ends> {
        let Statement::Transaction(Transaction::Commit { chain }) = statement else { return None };
        if self.state != TransactionState::Open || *chain && self.block.implicit {
            return None;
        }
        if self.block.implicit {
            self.warn_of_no_block();
        }
        Some(Ends::Block { chain: *chain })
    }

    /// Commits the current block, or continues a commit.
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
        let deferral = savepoint.deferral.clone();
        let notifications = savepoint.notifications;
        let (to, catalog) = (savepoint.savepoint, Arc::clone(&savepoint.catalog));
        let changed = (savepoint.catalog_changed, savepoint.temporary_changed);
        let txn = self.txn.as_mut().ok_or_else(no_block)?;
        txn.rollback_to(to).in_sql()?;
        self.drop_cursors_after(serial);
        self.own.advisory.set_transaction_counts(&advisory);
        self.own.catalog = catalog;
        self.own.calls.serial += 1;
        self.own.deferral.go_back_to(deferral);
        self.own.notifications.go_back_to(notifications);
        self.own.take_back_sequences(own_sequences)?;
        (self.block.catalog_changed, self.block.temporary_changed) = changed;
        self.state = TransactionState::Open;
        self.own.settings.go_back_to(settings);
        self.be_read_only(read_only);
        self.settings_set();
        Ok(())
    }

    // ---- within a transaction ----

    /// The columns of a utility's rows.
    pub(super) fn utility_columns(&mut self, statement: &Statement) -> Result<Vec<ResultColumn>> {
        Ok(match statement {
            Statement::Explain(explain) => vec![Explained::column(&explain.options)],
            // One that is not there may be when it is run.
            Statement::Execute(execute) => match self.named_statement(&execute.name) {
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
                Statement::Execute(execute) => self.named_statement(&execute.name).map(Some),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The statement that EXECUTE runs, with its parameters. It runs in EXECUTE's place, so that
    /// its rows go out as they come. It may be another EXECUTE, if it was prepared by the protocol.
    pub(super) fn executed_with(&mut self, prepared: &Prepared) -> Result<Option<(Arc<Prepared>, Vec<Datum>)>> {
        let super::plans::Command::Utility(statement) = &prepared.command else { return Ok(None) };
        let Statement::Execute(execute) = &**statement else { return Ok(None) };
        let named = self.named_statement(&execute.name)?;
        let params = self.execute_params(execute, &named)?;
        let executed = self.renewed(&named, &params)?.unwrap_or(named);
        match executed.command {
            super::plans::Command::Plan { .. } | super::plans::Command::Utility(_) => Ok(Some((executed, params))),
            _ => Err(Error::unsupported("a prepared statement about transactions")),
        }
    }

    fn named_statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.named.get(name).cloned().ok_or_else(|| no_such_prepared(name))
    }

    pub(super) fn utility(
        &mut self,
        prepared: &Prepared,
        statement: &Statement,
        params: &[Datum],
    ) -> Result<(Rows, CompactString)> {
        match statement {
            Statement::Explain(explain) => self.explain(prepared, explain, params),
            Statement::Prepare(prepare) => {
                self.prepare_named(&prepared.text, prepare)?;
                Ok((Rows::default(), "PREPARE".into()))
            }
            Statement::Call(call) => Ok((self.run_call(call, params)?, "CALL".into())),
            Statement::Relational(statement) => {
                let tag = self.ddl(statement)?;
                Ok((Rows::default(), tag.into()))
            }
            _ => Err(Error::internal("not a statement within a transaction")),
        }
    }

    fn prepare_named(&mut self, text: &str, prepare: &tree::Prepare) -> Result<()> {
        let tree::Prepare { name, types, inner } = prepare;
        if self.named.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_PREPARED, message));
        }
        let mut given = Vec::with_capacity(types.len());
        let mut domains = Vec::new();
        for (at, data_type) in types.iter().enumerate() {
            let ty = self.type_named(data_type)?;
            given.push(Some(ty.ty));
            if ty.domain.is_some() {
                domains.push((at, ty, data_type));
            }
        }
        if ddl::is_ddl(&inner.statement) {
            let message = format!("syntax error: cannot prepare {}", inner.statement);
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let prepared = if domains.is_empty() {
            self.prepare_inner(text, inner, &given)?
        } else {
            self.prepare_over_domains(text, &inner.statement, &domains, given)?
        };
        self.list_prepared(name, text, &prepared, true);
        self.named.insert(name.clone(), prepared);
        Ok(())
    }

    /// Prepares a statement some of whose parameters are declared as of domains: each is cast to its
    /// domain wherever it stands, also in the text that the statement is planned from later.
    ///
    /// Bug: parameters lost their domains. Consequence: EXECUTE gave values that no domain allows.
    /// Fix: what a parameter is cast to first is its type, a domain included.
    fn prepare_over_domains(
        &mut self,
        text: &str,
        statement: &ast::Statement,
        domains: &[(usize, ColumnType, &ast::DataType)],
        mut given: Vec<Option<Type>>,
    ) -> Result<Arc<Prepared>> {
        let mut statement = statement.clone();
        _ = ast::visit_expressions_mut(&mut statement, |expr| {
            if let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) = expr
                && let Some(at) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
                && let Some((at, _, data_type)) = domains.iter().find(|(declared, ..)| declared + 1 == at)
            {
                given[*at] = None;
                let value = Box::new(ast::Expr::Nested(Box::new(expr.clone())));
                let data_type = (*data_type).clone();
                let kind = ast::CastKind::DoubleColon;
                *expr = ast::Expr::Nested(Box::new(ast::Expr::Cast { kind, expr: value, data_type, format: None }));
            }
            ControlFlow::<()>::Continue(())
        });
        let own_text = statement.to_string();
        let domains: Vec<(usize, ColumnType)> = domains.iter().map(|&(at, ty, _)| (at, ty)).collect();
        self.prepare_declared(text, &own_text, &statement, &given, &domains)
    }

    /// The query of a prepared statement that a query marks (see [`colibri_syntax::EXECUTE_MARK`]),
    /// with the values of its parameters in their places; `None` of other queries.
    ///
    /// # Errors
    /// 26000 if there is no such statement, 42809 if it is no SELECT.
    pub(crate) fn query_of_execute(&mut self, query: &ast::Query) -> Result<Option<ast::Query>> {
        let ast::SetExpr::Select(select) = &*query.body else { return Ok(None) };
        let [from] = &select.from[..] else { return Ok(None) };
        let ast::TableFactor::Table { name, args: Some(args), .. } = &from.relation else { return Ok(None) };
        let Some(ast::ObjectNamePart::Identifier(marked)) = name.0.first() else { return Ok(None) };
        let Some(name) = marked.value.strip_prefix(colibri_syntax::EXECUTE_MARK) else { return Ok(None) };
        let given = args.args.iter().filter_map(|arg| match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        });
        let execute = tree::Execute { name: name.into(), parameters: given.collect() };
        let prepared = self.named_statement(name)?;
        let params = self.execute_params(&execute, &prepared)?;
        let read = crate::statement::parse(prepared.text())?.pop();
        let Some(Statement::Relational(statement)) = read else { return Err(no_select()) };
        let ast::Statement::Query(mut inner) = *statement else { return Err(no_select()) };
        let mut values = Vec::with_capacity(params.len());
        for (value, ty) in params.iter().zip(&prepared.params) {
            let text = if value.is_null() { "NULL".to_owned() } else { self.literal_of(*ty, value) };
            values.push(crate::statement::parse_expr(&format!("CAST({text} AS {ty})"))?);
        }
        _ = ast::visit_expressions_mut(&mut *inner, |expr| {
            if let ast::Expr::Value(value) = expr
                && let ast::Value::Placeholder(number) = &value.value
                && let Some(at) = number.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok())
                && let Some(known) = at.checked_sub(1).and_then(|at| values.get(at))
            {
                *expr = known.clone();
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(Some(*inner))
    }

    /// A value as a string constant.
    fn literal_of(&self, ty: Type, value: &Datum) -> String {
        let mut text = String::new();
        text_io::write(ty, value, self.env(), &mut text);
        format!("'{}'", text.replace('\'', "''"))
    }

    /// The values that EXECUTE gives to parameters.
    fn execute_params(&mut self, execute: &tree::Execute, prepared: &Prepared) -> Result<Vec<Datum>> {
        let tree::Execute { name, parameters: exprs } = execute;
        if exprs.len() != prepared.params.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!("Expected {} parameters but got {}.", prepared.params.len(), exprs.len());
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).detail(detail));
        }
        let mut params = Vec::with_capacity(exprs.len());
        for (expr, &ty) in exprs.iter().zip(&prepared.params) {
            let ty = crate::bind::types::current_type(&self.own.catalog, ty)?;
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

    /// Evaluates an expression without columns.
    pub(crate) fn evaluate(&mut self, expr: crate::expr::Expr) -> Result<Datum> {
        // Bug: a parameter was looked for among none. Consequence: EXECUTE p ($1) ended the session.
        // Fix: it is an error.
        if crate::bind::rewrite::any(&expr, &|part| matches!(part, crate::expr::Expr::Param(_))) {
            return Err(Error::new(SqlState::NO_SUCH_PARAMETER, "there is no parameter $1"));
        }
        self.evaluate_with(expr, &[])
    }

    /// The same with parameters.
    pub(super) fn evaluate_with(&mut self, expr: crate::expr::Expr, params: &[Datum]) -> Result<Datum> {
        let root = crate::plan::Node::Values { rows: [vec![expr]].into() };
        let column = crate::plan::OutputColumn { name: "value".into(), ty: Type::Text.into(), origin: None };
        let fragment = crate::plan::Fragment::new(root, 0, vec![column]);
        let mut execution = Execution::new(&fragment);
        let mut rows = Rows::default();
        self.run_to_end(&mut execution, params, Some(&mut rows))?;
        Ok(rows.iter().next().and_then(|row| row.first().cloned()).unwrap_or_default())
    }

    /// Runs operators within the current statement. Gives the number of their rows, and the rows if
    /// the caller wants them.
    fn run_to_end(&mut self, execution: &mut Execution, params: &[Datum], mut rows: Option<&mut Rows>) -> Result<u64> {
        let mut count = 0;
        let mut batch = crate::exec::Batch::default();
        loop {
            self.memory.set_limits(self.own.settings.hot().memory);
            // What it calls is not known here.
            let mut lent = self.lend()?;
            let txn: &mut dyn colibri_txn::Transaction = &mut lent;
            let mut cx = Context {
                env: &self.env,
                params,
                session: &mut self.own,
                cancel: &self.cancel,
                memory: &self.memory,
                budget_rows: pulse::ROWS_AT_ONCE,
            };
            let outcome = execution.step(txn, &mut cx, &mut batch);
            let left = cx.budget_rows;
            self.take_back_lent(lent);
            let outcome = outcome?;
            pulse::rows_done(pulse::ROWS_AT_ONCE - left)?;
            match outcome {
                Outcome::Interrupted(pause) => return Err(Error::interruption(pause)),
                Outcome::Rows => {
                    for index in 0..batch.rows() {
                        if let Some(rows) = &mut rows {
                            rows.push(batch.row_mut(index).iter_mut().map(std::mem::take));
                        }
                    }
                    count += batch.rows() as u64;
                }
                Outcome::Yield => {}
                Outcome::Done => return Ok(count),
            }
        }
    }

    /// Inserts the rows of a query into a table; gives their number.
    /// The same of a query that the catalogue holds: names mean what they meant when it was made.
    pub(crate) fn insert_stored_query(&mut self, table: &ast::ObjectName, query: &ast::Query) -> Result<u64> {
        let path = std::mem::replace(&mut self.own.search_path, crate::bind::stored::search_path());
        let inserted = self.insert_query(table, query);
        self.own.search_path = path;
        inserted
    }

    /// Runs a query within the current statement; gives the number of its rows.
    pub(crate) fn count_rows(&mut self, query: &ast::Query) -> Result<u64> {
        let statement = ast::Statement::Query(Box::new(query.clone()));
        let fragment = self.plan_inner("", &statement, &[])?.fragment;
        let mut execution = Execution::new(&fragment);
        self.run_to_end(&mut execution, &[], None)
    }

    pub(crate) fn insert_query(&mut self, table: &ast::ObjectName, query: &ast::Query) -> Result<u64> {
        let mut statement = crate::statement::parse_relational(&format!("INSERT INTO {table} SELECT 1"))?;
        let mut query = query.clone();
        // Parts that write stand in front of all of a statement.
        let writes = super::plans::writes_rows(&ast::Statement::Query(Box::new(query.clone())));
        let with = if writes { query.with.take() } else { None };
        // The query itself: its text may have marks in it that nobody can write.
        if let ast::Statement::Insert(insert) = &mut statement {
            insert.source = Some(Box::new(query));
        }
        if with.is_some() {
            let mut outer = colibri_syntax::parse_query("SELECT 1")?;
            outer.with = with;
            *outer.body = ast::SetExpr::Insert(statement);
            statement = ast::Statement::Query(Box::new(outer));
        }
        let fragment = self.plan_inner("", &statement, &[])?.fragment;
        let mut execution = Execution::new(&fragment);
        self.run_to_end(&mut execution, &[], None)?;
        Ok(execution.affected().unwrap_or(0))
    }

    fn explain(
        &mut self,
        explaining: &Prepared,
        explain: &tree::Explain,
        params: &[Datum],
    ) -> Result<(Rows, CompactString)> {
        let Explained { show, analyze, summary, is_json } =
            Explained::of(explain.analyze, explain.verbose, &explain.options)?;
        let mut made_of = None;
        if let Statement::Relational(inner) = &explain.statement
            && ddl::is_ddl(inner)
        {
            let Some(query) = ddl::query_of(inner) else {
                return Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: cannot explain {inner}")));
            };
            if analyze {
                return Err(Error::unsupported("EXPLAIN ANALYZE of a statement that creates a table"));
            }
            made_of = Some(ast::Statement::Query(Box::new(query.clone())));
        }
        let show = ExplainOptions { columns: self.own.settings.hot().uses_columns, ..show };
        let mut types: Vec<Option<Type>> = explaining.params().iter().copied().map(Some).collect();
        let (mut executed, mut given) = (None, None);
        if let Statement::Execute(execute) = &explain.statement {
            let prepared = self.named_statement(&execute.name)?;
            given = Some(self.execute_params(execute, &prepared)?);
            types = prepared.params().iter().copied().map(Some).collect();
            // The plan that EXECUTE would run.
            if let Some(given) = &given {
                let for_params = if self.has_variant(&prepared, given) { given.clone() } else { Vec::new() };
                (self.plans.for_params, self.plans.decided) = (for_params, self.decided(&prepared, given));
            }
            let mut read = crate::statement::parse(prepared.text())?;
            executed = read.pop().map(|statement| (statement, prepared));
        }
        let (text, statement) = match &executed {
            Some((statement, prepared)) => (prepared.text(), statement),
            None => (explaining.text(), &explain.statement),
        };
        let Statement::Relational(statement) = statement else {
            return Err(Error::unsupported("EXPLAIN of a statement that reads and changes no rows"));
        };
        let statement = made_of.as_ref().unwrap_or(statement);
        if given.is_none() {
            self.plans.for_params = params.to_vec();
        }
        let began = std::time::Instant::now();
        let planned = self.plan_inner(text, statement, &types);
        (self.plans.for_params, self.plans.decided) = (Vec::new(), Vec::new());
        let planned = planned?;
        let fragment = planned.fragment;
        let mut params = given.unwrap_or_else(|| params.to_vec());
        if let (Some(of), true) = (&planned.current_of, analyze) {
            params.truncate(planned.params.len());
            params.extend(self.current_row(of)?);
        }
        let planning = ("Planning Time", began.elapsed().as_secs_f64() * 1e3);
        let (mut execution, mut times) = (None, vec![planning]);
        if analyze {
            let began = std::time::Instant::now();
            let running = execution.insert(Execution::new_watched(&fragment));
            self.run_to_end(running, &params, None)?;
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

/// The options of EXPLAIN.
struct Explained {
    show: ExplainOptions,
    analyze: bool,
    /// Prints times after the plan.
    summary: bool,
    is_json: bool,
}

impl Explained {
    fn of(analyze: bool, verbose: bool, options: &[tree::ExplainOption]) -> Result<Self> {
        let show = ExplainOptions { verbose, ..ExplainOptions::default() };
        let mut explained = Self { show, analyze, summary: false, is_json: false };
        let (mut summary, mut timing, mut wal) = (None, None, false);
        for option in options {
            let on = || option.is_on();
            match option.name.as_str() {
                "analyze" | "analyse" => explained.analyze = on(),
                "verbose" => explained.show.verbose = on(),
                "costs" => explained.show.costs = on(),
                "timing" => timing = Some(on()),
                "summary" => summary = Some(on()),
                "wal" => wal = on(),
                "format" => {
                    let name = option.value.as_deref().unwrap_or_default();
                    explained.is_json = match name.to_ascii_lowercase().as_str() {
                        "text" => false,
                        "json" => true,
                        "xml" | "yaml" => {
                            return Err(Error::unsupported("EXPLAIN with a format other than text and JSON"));
                        }
                        other => {
                            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
                            return Err(Error::new(SqlState::BAD_PARAMETER, message));
                        }
                    };
                }
                // These options have nothing to show here.
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
    fn column(options: &[tree::ExplainOption]) -> ResultColumn {
        let is_json = Self::of(true, false, options).is_ok_and(|explained| explained.is_json);
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
                let value = if colibri_types::cast::is_padded(column.ty.ty) { &padded } else { value };
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
