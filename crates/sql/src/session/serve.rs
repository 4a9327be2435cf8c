//! The interface for a server besides running statements: blocks that the protocol begins and ends,
//! notices, settings from the client's startup message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use colibri_catalog::cluster::DefaultBy;
use colibri_syntax::Statement;
use colibri_types::{Datum, Error, Result, SqlState};

use super::plans::Command;
use super::settings::ReadAfter;
use super::step::Stage;
use super::{Prepared, Running, Session, TransactionState};
use crate::admin;
use crate::surroundings::PreparedInfo;

/// The severity of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// DEBUG: for who looks for mistakes.
    Debug,
    /// LOG: for who looks after the server.
    Log,
    /// NOTICE: information.
    Notice,
    /// WARNING: probably not what was meant.
    Warning,
    /// INFO: what was asked for, whatever `client_min_messages` says.
    Info,
}

impl Severity {
    /// PostgreSQL's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Log => "LOG",
            Self::Info => "INFO",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        }
    }
}

/// A message of a statement that is not an error.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The severity.
    pub severity: Severity,
    /// The message.
    pub report: Error,
}

fn bad_token(what: &str) -> Error {
    let hint =
        "SELECT colibri_commit_token() gives the token of a session's last commit. RESET colibri.read_after ends this.";
    Error::new(SqlState::BAD_PARAMETER, format!("the value of colibri.read_after {what}")).hint(hint)
}

/// The most notices that are kept until they are taken.
const NOTICES_MAX: usize = 100;

impl Session {
    /// Prepares a text with parameters in place of its literals, so that it shares its plan with
    /// texts of the same shape. Gives the literals' values, too. `None` if the text has to be
    /// prepared as it is.
    pub fn prepare_simple(&mut self, text: &str) -> Option<(Arc<Prepared>, Vec<Datum>)> {
        self.prepare_lifted(text)
    }

    /// The statements of a text, which end with semicolons. If there are several, all of them are
    /// parsed, so that no statement runs of a text with a mistake further down.
    ///
    /// # Errors
    /// 42601 if a literal or a comment does not end, or one of several statements cannot be parsed.
    pub fn split(text: &str) -> Result<Vec<&str>> {
        // One semicolon at the end, or none, is one statement, whatever is in it.
        let trimmed = text.trim_ascii();
        match memchr::memchr(b';', trimmed.as_bytes()) {
            None if !trimmed.is_empty() => return Ok(vec![text]),
            Some(at) if at > 0 && at + 1 == trimmed.len() => return Ok(vec![text]),
            _ => {}
        }
        let scanned = crate::statement::scan(text)?;
        if let Some(only) = scanned.only_part() {
            return Ok(vec![only]);
        }
        match scanned.is_deep() {
            true => crate::statement::on_deep_stack(|| scanned.parse_parts()),
            false => scanned.parse_parts(),
        }
    }

    /// As [`Session::split`], but with polling: others run meanwhile, and a cancel ends it.
    ///
    /// # Errors
    /// As [`Session::split`], and 57014.
    pub fn split_at_work<'t>(&mut self, text: &'t str) -> Result<Vec<&'t str>> {
        if !self.canceled_early {
            self.cancel.store(false, Ordering::Relaxed);
        }
        if let Some(parts) = self.known_parts(text) {
            return Ok(parts);
        }
        let parts = self.at_work(|_| Self::split(text));
        // A cancel that comes after the last check is for the statement that is prepared next.
        self.canceled_early = parts.is_ok() && self.cancel.load(Ordering::Relaxed);
        parts
    }

    /// Begins a block that nobody has asked for: the statements that come until
    /// [`Session::end_implicit_block`] are one transaction, unless one of them begins or ends a
    /// block by itself. Does nothing within a block.
    pub fn begin_implicit_block(&mut self) {
        if self.state == TransactionState::Idle {
            self.open_block(self.own.settings.hot().modes());
            self.block.implicit = true;
        }
        self.block.pipelined = false;
    }

    /// The same for statements between two Syncs. They are one transaction, but not in a block for
    /// statements that need one.
    pub fn begin_pipeline(&mut self) {
        if self.state == TransactionState::Idle {
            self.begin_implicit_block();
            self.block.pipelined = true;
        }
    }

    /// Whether statements that need a block are told that there is none.
    pub(crate) fn is_outside_block(&self) -> bool {
        self.state == TransactionState::Idle || self.block.implicit && self.block.pipelined
    }

    /// Whether the current block was begun by [`Session::begin_implicit_block`].
    #[must_use]
    pub fn is_in_implicit_block(&self) -> bool {
        self.state != TransactionState::Idle && self.block.implicit
    }

    /// A COMMIT for the block that [`Session::begin_implicit_block`] has begun, to be run in steps.
    /// It rolls a failed block back. `None` if there is no such block.
    ///
    /// # Errors
    /// Those of preparing a COMMIT.
    pub fn end_implicit_block(&mut self) -> Result<Option<Running>> {
        if !self.is_in_implicit_block() {
            return Ok(None);
        }
        let commit = self.prepare("COMMIT", &[])?;
        // The block is marked as ending: a COMMIT from the client would get a warning.
        self.block.implicit = false;
        Ok(Some(self.at_start(&commit, Vec::new())))
    }

    /// Rolls back the current block, implicit or not, so that all of it can be run again. The next
    /// transaction sees the newest state. Pending notices are dropped.
    pub fn take_back_block(&mut self) {
        drop(self.abort_txn());
        self.end_block(false);
        self.notices.clear();
        self.repeats = true;
    }

    /// Ends a statement with an error from outside: a time limit, a cancellation while it waited.
    /// As after its own errors, it is rolled back, and a block around it has failed.
    pub fn fail(&mut self, running: &mut Running) {
        if !matches!(running.stage, Stage::Over) {
            self.statement_failed(running);
        }
    }

    /// A statement that was prepared under a name, by the protocol or by PREPARE.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.named.get(name)
    }

    /// Keeps a prepared statement under a name.
    ///
    /// # Errors
    /// 42P05 if there is one of that name.
    pub fn keep_named(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        if self.named.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_PREPARED, message));
        }
        self.list_prepared(name, prepared.text(), &prepared, false);
        self.named.insert(name.into(), prepared);
        Ok(())
    }

    /// Lists a statement in `pg_prepared_statements`.
    pub(super) fn list_prepared(&mut self, name: &str, text: &str, prepared: &Prepared, from_sql: bool) {
        self.listed.prepared.lock().push(PreparedInfo {
            name: name.into(),
            statement: text.into(),
            types: prepared.param_types(),
            from_sql,
            prepared_us: colibri_types::clock_us(),
        });
    }

    /// Forgets a prepared statement, if there is one of that name.
    pub fn forget_named(&mut self, name: &str) {
        if self.named.remove(name).is_some() {
            self.listed.prepared.lock().retain(|listed| listed.name != name);
        }
    }

    /// Forgets all prepared statements.
    pub(super) fn forget_all_named(&mut self) {
        self.named.clear();
        self.listed.prepared.lock().clear();
    }

    /// Marks the current block, if there is one, as failed.
    pub fn fail_block(&mut self) {
        if self.state == TransactionState::Open {
            self.block_has_failed();
        }
    }

    /// A limit such as `statement_timeout`; `None` if there is none.
    #[must_use]
    pub fn time_limit(&self, setting: &str) -> Option<Duration> {
        self.own.settings.duration(setting)
    }

    /// The transaction that `colibri.read_after` asks for, while the next transaction would not see
    /// it.
    ///
    /// # Errors
    /// 22023 if the setting is no token, or one of another database.
    pub fn is_to_see(&self) -> Result<Option<colibri_storage::TxnId>> {
        let ReadAfter::Txn { database, txn } = self.own.settings.hot().read_after else {
            return match self.own.settings.hot().read_after {
                ReadAfter::Unknown => Err(bad_token("is no token of a commit")),
                _ => Ok(None),
            };
        };
        if self.txn.is_some() {
            return Ok(None);
        }
        if database != self.own.database_number() {
            return Err(bad_token("is of another database"));
        }
        let sees = self.own.engine.local_store().map(|store| store.database().readable_txn());
        Ok(sees.filter(|sees| sees.0 < txn).map(|_| colibri_storage::TxnId(txn)))
    }

    /// Whether the next transaction may have to wait: see [`Session::is_to_see`].
    #[must_use]
    pub fn reads_after_a_commit(&self) -> bool {
        self.own.settings.hot().read_after != ReadAfter::None
    }

    /// A number that changes whenever settings may have changed.
    #[must_use]
    pub fn settings_version(&self) -> u32 {
        self.settings_version
    }

    /// Sets the session's default of a setting, which RESET goes back to.
    ///
    /// # Errors
    /// 42704 if there is no such setting, 22023 for a wrong value, 55P02 if it cannot be set.
    pub fn set_default(&mut self, name: &str, value: &str, by: DefaultBy) -> Result<()> {
        if by == DefaultBy::Client {
            self.expect_setting(name, Some(value))?;
        }
        self.own.settings.set_default(name, value, by)?;
        self.settings_set();
        Ok(())
    }

    /// The notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn notice(&mut self, severity: Severity, state: SqlState, message: impl Into<String>) {
        self.notice_report(severity, Error::new(state, message));
    }

    pub(crate) fn notice_report(&mut self, severity: Severity, report: Error) {
        let least = self.own.settings.text("client_min_messages");
        let is_told = match severity {
            Severity::Debug => least.starts_with("debug"),
            Severity::Log => least.starts_with("debug") || least == "log",
            _ => true,
        };
        if is_told && self.notices.len() < NOTICES_MAX {
            self.notices.push(Notice { severity, report });
        }
    }
}

/// An error in a part of a text, with its position in the whole text.
pub(super) fn in_text(error: Error, text: &str, part: &str) -> Error {
    let before = part.as_ptr().addr() - text.as_ptr().addr();
    match error.report().position {
        Some(position) if before > 0 => error.moved_to(position + text[..before].chars().count() as u32),
        _ => error,
    }
}

impl Prepared {
    /// Whether it ends in one step, independent of the budget: changes of the catalogue, and
    /// statements that run another statement. It polls on the way (see
    /// [`Session::set_long_work_hook`]); without a hook it should not run on a thread that others
    /// need.
    #[must_use]
    pub fn ignores_budget(&self) -> bool {
        match &self.command {
            Command::Utility(statement) => match &**statement {
                Statement::Prepare(_) => false,
                Statement::Explain(explain) => explain.analyze,
                _ => true,
            },
            Command::Admin(statement) => admin::may_block(statement),
            _ => false,
        }
    }

    /// Whether it may run again after a rollback, as though for the first time. A statement that
    /// changes something outside of the transaction cannot be repeated: roles, databases, prepared
    /// statements.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match &self.command {
            Command::Empty | Command::Plan { .. } | Command::Set(_) | Command::Cursor(_) => true,
            Command::Utility(statement) => !matches!(&**statement, Statement::Prepare(_)),
            Command::Control(statement) => {
                matches!(&**statement, Statement::Transaction(_)) && super::two_phase::of(statement).is_none()
            }
            Command::Admin(statement) => admin::is_about_channels(statement),
            Command::Copy => false,
        }
    }

    /// Whether it is a COPY, which [`Session::copy`] runs.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.command, Command::Copy)
    }

    /// Whether it is a query that changes and locks nothing.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        !self.writes && !self.locks && matches!(self.command, Command::Plan { .. })
    }
}

impl Running {
    /// Whether the rows of the last step may be sent only when the statement is done and its ticket
    /// is due. These rows are complete.
    #[must_use]
    pub fn holds_rows(&self) -> bool {
        matches!(self.stage, Stage::Giving(_))
    }

    /// The statement that it runs.
    #[must_use]
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::session::{Completion, Engine};

    fn session() -> (tempfile::TempDir, Session) {
        let dir = tempfile::tempdir().unwrap();
        let database = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new()).unwrap();
        let engine = Engine::open(database).unwrap();
        let mut session = Session::new(&engine, "me");
        session.run("CREATE TABLE t (a int PRIMARY KEY)").unwrap();
        (dir, session)
    }

    fn end_block(session: &mut Session) -> Completion {
        let mut running = session.end_implicit_block().unwrap().unwrap();
        match session.step(&mut running, &mut crate::Rows::default(), 1).unwrap() {
            crate::Progress::Done(completion) => completion,
            _ => panic!("nobody else commits"),
        }
    }

    fn count(session: &mut Session) -> String {
        let answers = session.run("SELECT count(*) FROM t").unwrap();
        answers[0].text_rows(session)[0][0].clone().unwrap()
    }

    #[test]
    fn statements_of_an_implicit_block_are_one_transaction() {
        let (_dir, mut session) = session();
        session.begin_implicit_block();
        session.run("INSERT INTO t VALUES (1)").unwrap();
        session.run("INSERT INTO t VALUES (1)").unwrap_err();
        assert_eq!(session.state(), TransactionState::Failed);
        end_block(&mut session);
        assert_eq!(session.state(), TransactionState::Idle);
        assert_eq!(count(&mut session), "0");
        session.begin_implicit_block();
        session.run("INSERT INTO t VALUES (1)").unwrap();
        session.run("INSERT INTO t VALUES (2)").unwrap();
        end_block(&mut session).ticket.unwrap().wait().unwrap();
        assert_eq!(count(&mut session), "2");
    }

    /// Bug: EXECUTE kept all rows in memory, and ran to its end within one step. Consequence: a
    /// prepared statement with many rows took memory for all of them, beside others' work. Fix: the
    /// prepared statement runs in EXECUTE's place.
    #[test]
    fn rows_of_execute_come_as_they_are_made() {
        let (_dir, mut session) = session();
        session.run("PREPARE p (int) AS SELECT i FROM generate_series(1, $1) i").unwrap();
        let prepared = session.prepare("EXECUTE p (1000000)", &[]).unwrap();
        let mut running = session.start(&prepared, Vec::new()).unwrap();
        let (mut count, mut out) = (0, crate::Rows::default());
        let completion = loop {
            match session.step(&mut running, &mut out, 1_000).unwrap() {
                crate::Progress::Rows => {
                    assert!(out.len() <= 2_000, "{} rows at once", out.len());
                    count += out.len();
                    out.clear();
                }
                crate::Progress::Yield => {}
                crate::Progress::Done(completion) => break completion,
                _ => panic!("nobody else is there"),
            }
        };
        assert_eq!((count, completion.tag.as_str()), (1_000_000, "SELECT 1000000"));
    }

    #[test]
    fn begin_makes_an_implicit_block_one_that_stays() {
        let (_dir, mut session) = session();
        session.begin_implicit_block();
        session.run("INSERT INTO t VALUES (1)").unwrap();
        session.run("BEGIN").unwrap();
        assert!(session.end_implicit_block().unwrap().is_none());
        assert_eq!(session.state(), TransactionState::Open);
        session.run("ROLLBACK").unwrap();
        assert_eq!(count(&mut session), "0");
        session.begin_implicit_block();
        assert_eq!(session.run("SAVEPOINT s").unwrap_err().state().0, "25P01");
    }

    /// Bug: DROP … CASCADE, TRUNCATE … CASCADE, IF EXISTS and IF NOT EXISTS said nothing of what
    /// they took along or skipped. Consequence: the user did not learn what was dropped. Fix: they
    /// give notices, in PostgreSQL's words and order.
    #[test]
    fn what_goes_along_and_what_is_skipped_is_told() {
        let (_dir, mut session) = session();
        let mut said = |text: &str| {
            session.run(text).unwrap();
            let notices = session.take_notices();
            let shown = notices.iter().map(|notice| {
                let report = notice.report.report();
                let detail = report.detail.as_deref().map(|detail| format!(" ({})", detail.replace('\n', ", ")));
                format!("{}: {}{}", notice.report.state().0, report.message, detail.unwrap_or_default())
            });
            shown.collect::<Vec<_>>().join("; ")
        };
        said("CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (a int PRIMARY KEY REFERENCES p)");
        said("CREATE TABLE e (a int REFERENCES c); CREATE VIEW v AS SELECT * FROM p; CREATE VIEW w AS SELECT * FROM v");
        assert_eq!(
            said("TRUNCATE p CASCADE"),
            "00000: truncate cascades to table \"c\"; 00000: truncate cascades to table \"e\""
        );
        assert_eq!(said("BEGIN; DROP VIEW v CASCADE; ROLLBACK"), "00000: drop cascades to view w");
        assert_eq!(
            said("DROP TABLE p CASCADE"),
            "00000: drop cascades to 3 other objects (drop cascades to constraint c_a_fkey on table c, \
             drop cascades to view v, drop cascades to view w)"
        );
        for (text, expected) in [
            ("DROP TABLE IF EXISTS p", "00000: table \"p\" does not exist, skipping"),
            ("DROP TABLE IF EXISTS s.p", "00000: schema \"s\" does not exist, skipping"),
            ("CREATE TABLE IF NOT EXISTS c (a int)", "42P07: relation \"c\" already exists, skipping"),
            ("CREATE SCHEMA IF NOT EXISTS public", "42P06: schema \"public\" already exists, skipping"),
            ("ALTER TABLE IF EXISTS p ADD a int", "00000: relation \"p\" does not exist, skipping"),
            ("ALTER TABLE c ADD IF NOT EXISTS a int", "42701: column \"a\" of relation \"c\" already exists, skipping"),
            ("ALTER TABLE c DROP IF EXISTS b", "00000: column \"b\" of relation \"c\" does not exist, skipping"),
            ("ALTER SEQUENCE IF EXISTS q RESTART", "00000: relation \"q\" does not exist, skipping"),
        ] {
            assert_eq!(said(text), expected);
        }
    }

    #[test]
    fn a_second_begin_and_a_commit_of_nothing_are_warned_of() {
        let (_dir, mut session) = session();
        session.run("COMMIT").unwrap();
        session.run("BEGIN; BEGIN").unwrap();
        let notices = session.take_notices();
        let said: Vec<_> = notices.iter().map(|notice| (notice.report.state().0, notice.severity)).collect();
        assert_eq!(said, [("25P01", Severity::Warning), ("25001", Severity::Warning)]);
        assert!(session.take_notices().is_empty());
    }

    #[test]
    fn reset_goes_back_to_what_the_client_has_brought() {
        let (_dir, mut session) = session();
        session.set_default("TimeZone", "Europe/Berlin", DefaultBy::Client).unwrap();
        session.run("SET timezone = 'UTC'").unwrap();
        session.run("RESET timezone").unwrap();
        assert_eq!(session.setting("timezone").unwrap(), "Europe/Berlin");
        session.run("RESET ALL").unwrap();
        assert_eq!(session.setting("timezone").unwrap(), "Europe/Berlin");
        assert_eq!(session.set_default("no_such_thing", "1", DefaultBy::Client).unwrap_err().state().0, "42704");
    }

    #[test]
    fn a_text_is_split_at_semicolons_that_are_no_literal() {
        assert_eq!(Session::split(" SELECT 1 ; ").unwrap(), [" SELECT 1 ; "]);
        assert_eq!(Session::split("SELECT 1").unwrap(), ["SELECT 1"]);
        assert_eq!(Session::split("SELECT ';'; SELECT 2").unwrap(), ["SELECT ';'", "SELECT 2"]);
        assert!(Session::split(" ; ").unwrap().is_empty());
        assert!(Session::split("").unwrap().is_empty());
    }
}
