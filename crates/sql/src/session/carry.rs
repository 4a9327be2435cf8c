//! A session that goes on at another server of a cluster: what it is besides its transaction, in a
//! form that the other server makes the same session of.
//!
//! Carried are settings with their sources, the roles that it is (they are settings), prepared
//! statements, what `currval` and `lastval` give, and its last commit. Plans are made anew.
//!
//! Not carried, so a session that has one of these stays where it is ([`Stays`]): an open
//! transaction, cursors that outlive theirs, temporary objects, channels that it listens to, and
//! advisory locks, which the other server may have given to somebody else by then.
//!
//! Invariant: whatever a client can see of its session between two transactions is the same behind
//! [`Session::take_in`], but for the session's number, and for prepared statements whose tables are
//! gone: they are forgotten.

use colibri_catalog::ObjectId;
use colibri_storage::TxnId;
use serde::{Deserialize, Serialize};

use super::settings::CarriedSettings;
use super::{Session, TransactionState};

/// A session between transactions, as it is sent to another server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Carried {
    settings: CarriedSettings,
    /// Prepared statements that have names.
    pub statements: Vec<CarriedStatement>,
    /// What `currval` gives.
    sequences: Vec<(ObjectId, i64)>,
    /// The sequence that `lastval` is of.
    last_sequence: Option<ObjectId>,
    last_commit: Option<u64>,
}

/// A prepared statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedStatement {
    /// Its name.
    pub name: String,
    /// Its text; of one that was made by PREPARE, the text of that.
    pub text: String,
    /// The numbers of its parameters' types.
    pub types: Vec<u32>,
    /// It was made by PREPARE.
    pub from_sql: bool,
}

/// Why a session cannot go on elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stays {
    /// It is in a transaction.
    InTransaction,
    /// It has cursors that outlive their transaction.
    HasCursors,
    /// It has advisory locks.
    HasLocks,
    /// It listens, and would miss notifications meanwhile.
    Listens,
    /// It has temporary objects, which are on this server alone.
    HasTemporaryObjects,
}

impl Session {
    /// What the session is, for another server.
    ///
    /// # Errors
    /// [`Stays`]
    pub fn carry(&self) -> Result<Carried, Stays> {
        if self.state != TransactionState::Idle || self.txn.is_some() {
            return Err(Stays::InTransaction);
        }
        if self.own.advisory.outlives_transactions() {
            return Err(Stays::HasLocks);
        }
        if self.own.notifications.listens() {
            return Err(Stays::Listens);
        }
        if !self.cursors.is_empty() {
            return Err(Stays::HasCursors);
        }
        if self.has_temporary_objects() {
            return Err(Stays::HasTemporaryObjects);
        }
        let listed = self.listed.prepared.lock();
        let statements = listed.iter().map(|listed| CarriedStatement {
            name: listed.name.to_string(),
            text: listed.statement.to_string(),
            types: listed.types.iter().map(|ty| ty.oid()).collect(),
            from_sql: listed.from_sql,
        });
        Ok(Carried {
            settings: self.own.settings.carried(),
            statements: statements.collect(),
            sequences: self.own.current.iter().map(|(&id, &value)| (id, value)).collect(),
            last_sequence: self.own.last,
            last_commit: self.own.last_commit.map(|txn| txn.0),
        })
    }

    /// Has the session cancelled by a flag that others know already.
    pub fn set_cancel_flag(&mut self, flag: std::sync::Arc<std::sync::atomic::AtomicBool>) {
        self.cancel = flag;
        self.pulse = None;
    }

    /// Makes a new session of the same user what another one was, but for its prepared statements:
    /// these are prepared as they were at first, since what keeps them is not all here.
    pub fn take_in(&mut self, carried: &Carried) {
        self.own.settings.take_in(&carried.settings);
        self.own.current = carried.sequences.iter().copied().collect();
        self.own.last = carried.last_sequence;
        self.own.last_commit = carried.last_commit.map(TxnId);
        self.settings_set();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use colibri_catalog::cluster::DefaultBy;

    use super::*;
    use crate::session::Engine;

    fn rows(session: &mut Session, sql: &str) -> Vec<String> {
        let answers = session.run(sql).unwrap();
        let rows = answers.last().unwrap().text_rows(session);
        rows.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect()
    }

    #[test]
    fn a_session_is_the_same_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let database = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new()).unwrap();
        let engine = Engine::open(database).unwrap();
        let mut one = Session::new(&engine, "me");
        one.set_default("application_name", "app", DefaultBy::Client).unwrap();
        one.set_default("work_mem", "5MB", DefaultBy::Server).unwrap();
        one.run("CREATE SEQUENCE s; SELECT nextval('s'); SELECT nextval('s')").unwrap();
        one.run("SET statement_timeout = '77s'; SET \"My\".\"own\" = 'x y'; SET search_path = pg_catalog, public")
            .unwrap();
        one.run("SET datestyle = german; SET timezone = 'Asia/Tokyo'; PREPARE p (int) AS SELECT $1 + 1").unwrap();
        let protocol = one.prepare("SELECT $1::date", &[]).unwrap();
        one.keep_named("q", protocol).unwrap();
        let carried = one.carry().unwrap();
        let json = serde_json::to_vec(&carried).unwrap();
        let carried: Carried = serde_json::from_slice(&json).unwrap();
        let names: Vec<_> = carried.statements.iter().map(|it| (&*it.name, &*it.types, it.from_sql)).collect();
        assert_eq!(names, [("p", &[23][..], true), ("q", &[1082], false)]);

        let mut other = Session::new(&engine, "me");
        other.set_default("work_mem", "6MB", DefaultBy::Server).unwrap();
        other.take_in(&carried);
        for sql in [
            "SHOW application_name",
            "SHOW statement_timeout",
            "SELECT current_setting('my.own')",
            "SHOW search_path",
            "SELECT now()::date::text = to_char(now(), 'DD.MM.YYYY')",
            "SHOW timezone",
            "SELECT currval('s')",
            "SELECT lastval()",
            "SELECT colibri_commit_token()",
            "RESET application_name; SHOW application_name",
        ] {
            assert_eq!(rows(&mut one, sql), rows(&mut other, sql), "{sql}");
        }
        assert_eq!(rows(&mut other, "SHOW work_mem"), ["6MB"], "what depends on the machine is its own");
        // Carried once more it is the same.
        for statement in &carried.statements {
            match statement.from_sql {
                true => _ = other.run(&statement.text).unwrap(),
                false => {
                    let prepared = other.prepare(&statement.text, &[]).unwrap();
                    other.keep_named(&statement.name, prepared).unwrap();
                }
            }
        }
        assert_eq!(rows(&mut other, "EXECUTE p (6)"), ["7"]);
        other.run("SET application_name = ''; RESET application_name").unwrap();
        assert_eq!(other.carry().unwrap(), carried);
    }

    #[test]
    fn what_cannot_be_carried_keeps_a_session_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let database = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new()).unwrap();
        let engine = Engine::open(database).unwrap();
        let mut session = Session::new(&engine, "me");
        for (sql, stays, undo) in [
            ("BEGIN", Stays::InTransaction, "ROLLBACK"),
            ("SELECT pg_advisory_lock(7)", Stays::HasLocks, "SELECT pg_advisory_unlock(7)"),
            ("LISTEN a", Stays::Listens, "UNLISTEN a"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", Stays::HasCursors, "CLOSE c"),
            ("CREATE TEMP TABLE t (a int)", Stays::HasTemporaryObjects, "DROP TABLE t"),
            ("CREATE TEMP SEQUENCE s", Stays::HasTemporaryObjects, "DISCARD TEMP"),
        ] {
            session.run(sql).unwrap();
            assert_eq!(session.carry(), Err(stays), "{sql}");
            session.run(undo).unwrap();
            session.carry().unwrap();
        }
    }
}
