//! Functions that only a session can compute.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_txn::Transaction;
use compact_str::CompactString;

use super::activity::Presence;
use super::advisory::{self, Advisory};
use super::engine::Engine;
use super::settings::{Around, Settings};
use crate::catalog::{Catalog, ObjectId, Relation, Sequence, Table, parse_name};
use crate::cluster::{Authority, Cluster, ObjectKind, Privileges, RoleId};
use crate::error::{Error, Result, SqlState};
use crate::exec::SessionCalls;
use crate::value::Datum;

/// What a session knows besides its transaction.
pub(super) struct Own {
    pub(super) engine: Arc<Engine>,
    pub(super) number: i32,
    pub(super) presence: Arc<Presence>,
    /// The server around; without one the user is a superuser, alone.
    pub(super) cluster: Option<Arc<dyn Cluster>>,
    /// As whom the session is.
    pub(super) session_user: RoleId,
    /// The same, by name.
    pub(super) session_name: CompactString,
    /// Who it was that logged in, whatever SET SESSION AUTHORIZATION says.
    pub(super) login_role: RoleId,
    pub(super) login: CompactString,
    /// As whom statements run, by name: the same unless SET ROLE says otherwise.
    pub(super) user: CompactString,
    /// What the user may do, as of this version of the cluster.
    pub(super) authority: Arc<Authority>,
    pub(super) cluster_version: u64,
    pub(super) settings: Settings,
    /// The catalogue as the transaction at hand sees it, or the last one saw it.
    pub(super) catalog: Arc<Catalog>,
    pub(super) search_path: Vec<CompactString>,
    /// What `nextval` gave last for each sequence.
    pub(super) current: HashMap<ObjectId, i64>,
    pub(super) last: Option<ObjectId>,
    /// Changes of settings made by `set_config`.
    pub(super) settings_changed: bool,
    /// Sequences that go back to their start if the transaction commits.
    pub(super) restarted: HashMap<ObjectId, Restarted>,
    pub(super) advisory: Advisory,
}

/// A sequence that a transaction has set back: nobody else uses the values that it gives until the transaction commits.
pub(super) struct Restarted {
    sequence: Arc<Sequence>,
    first: i64,
    /// What it gave last.
    last: Option<i64>,
}

impl Restarted {
    pub(super) fn new(sequence: &Arc<Sequence>, at: Option<i64>) -> Self {
        Self { sequence: Arc::clone(sequence), first: at.unwrap_or(sequence.start), last: None }
    }

    fn next_value(&mut self) -> Result<i64> {
        let next = match self.last {
            None => self.first,
            Some(last) => super::engine::after(&self.sequence, last)?,
        };
        self.last = Some(next);
        Ok(next)
    }

    pub(super) fn keep(self, engine: &Engine) -> Result<()> {
        engine.set_value(&self.sequence, self.last.unwrap_or(self.first), self.last.is_some())
    }
}

impl Own {
    /// A setting's value, as SHOW gives it.
    pub(crate) fn show(&self, name: &str) -> Result<String> {
        self.settings.show(name, &self.around())
    }

    /// What settings are read with.
    pub(super) fn around(&self) -> Around<'_> {
        Around { server: self.cluster.as_deref(), is_superuser: self.authority.is_superuser() }
    }

    /// Refuses whoever has none of some privileges on a sequence.
    fn expect_any(&self, sequence: &Sequence, any: Privileges) -> Result<()> {
        let has = self.authority.privileges(ObjectKind::Sequence, sequence.owner, sequence.acl.as_ref());
        if has.common(any).is_empty() { Err(Error::denied("sequence", &sequence.name)) } else { Ok(()) }
    }

    fn sequence(&self, name: &Datum) -> Result<Arc<Sequence>> {
        let Datum::Text(text) = name else { return Err(Error::internal("a sequence's name is not text")) };
        let found = parse_name(text).and_then(|name| self.catalog.find(&name, &self.search_path).cloned());
        match found {
            Some(Relation::Sequence(sequence)) => Ok(sequence),
            Some(_) => Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{text}\" is not a sequence"))),
            None => Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{text}\" does not exist"))),
        }
    }
}

impl SessionCalls for Own {
    fn next_value(&mut self, sequence: &Sequence) -> Result<i64> {
        let value = match self.restarted.get_mut(&sequence.id) {
            Some(restarted) => restarted.next_value()?,
            None => self.engine.next_value(sequence)?,
        };
        self.current.insert(sequence.id, value);
        self.last = Some(sequence.id);
        Ok(value)
    }

    fn next_row_number(&mut self, txn: &mut dyn Transaction, table: &Table) -> Result<i64> {
        self.engine.next_row_number(txn, table)
    }

    fn call(&mut self, _txn: &mut dyn Transaction, name: &str, args: &[Datum]) -> Result<Datum> {
        if args.first().is_some_and(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let text = |at: usize| match args.get(at) {
            Some(Datum::Text(text)) => text.as_str(),
            _ => "",
        };
        Ok(match name {
            "nextval" => {
                let sequence = self.sequence(&args[0])?;
                self.expect_any(&sequence, Privileges::USAGE.with(Privileges::UPDATE))?;
                Datum::Int(self.next_value(&sequence)?)
            }
            "currval" => {
                let sequence = self.sequence(&args[0])?;
                self.expect_any(&sequence, Privileges::USAGE.with(Privileges::SELECT))?;
                let value = self.current.get(&sequence.id).copied().ok_or_else(|| {
                    let message =
                        format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name);
                    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message)
                })?;
                Datum::Int(value)
            }
            "lastval" => {
                let value = self.last.and_then(|id| self.current.get(&id).copied()).ok_or_else(|| {
                    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "lastval is not yet defined in this session")
                })?;
                Datum::Int(value)
            }
            "setval" => {
                let sequence = self.sequence(&args[0])?;
                let (Datum::Int(value), called) = (&args[1], !matches!(args.get(2), Some(Datum::Bool(false)))) else {
                    return Ok(Datum::Null);
                };
                self.expect_any(&sequence, Privileges::UPDATE)?;
                self.engine.set_value(&sequence, *value, called)?;
                if called {
                    self.current.insert(sequence.id, *value);
                    self.last = Some(sequence.id);
                }
                Datum::Int(*value)
            }
            "current_user" => Datum::Text(self.user.clone()),
            "session_user" => Datum::Text(self.session_name.clone()),
            "current_database" => Datum::text(self.engine.name()),
            "current_schema" => match self.search_path.iter().find(|schema| self.catalog.schema(schema).is_some()) {
                Some(schema) => Datum::Text(schema.clone()),
                None => Datum::Null,
            },
            "version" => Datum::text(super::VERSION),
            "pg_backend_pid" => Datum::Int(self.number.into()),
            "current_setting" => match self.show(text(0)) {
                Ok(value) => Datum::text(&value),
                Err(_) if matches!(args.get(1), Some(Datum::Bool(true))) => Datum::Null,
                Err(error) => return Err(error),
            },
            "set_config" => {
                self.settings.set(text(0), Some(text(1)))?;
                self.settings_changed = true;
                Datum::text(&self.show(text(0))?)
            }
            "txid_current" | "pg_current_xact_id" => Datum::Int(self.engine.store.newest_txn().0 as i64),
            "pg_database_size" => {
                let data = self.engine.store.database().path().join("data");
                Datum::Int(std::fs::metadata(data).map_or(0, |data| data.len() as i64))
            }
            "pg_get_serial_sequence" => {
                let found = parse_name(text(0)).and_then(|name| self.catalog.find(&name, &self.search_path).cloned());
                let Some(Relation::Table(table)) = found else {
                    return Err(Error::new(
                        SqlState::NO_SUCH_TABLE,
                        format!("relation \"{}\" does not exist", text(0)),
                    ));
                };
                let column = table.column(text(1)).ok_or_else(|| {
                    let message = format!("column \"{}\" of relation \"{}\" does not exist", text(1), table.name);
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                })?;
                let owned = self.catalog.sequences().find(|sequence| sequence.owned_by == Some((table.id, column)));
                match owned {
                    Some(sequence) => Datum::text(&format!("{}.{}", sequence.schema, sequence.name)),
                    None => Datum::Null,
                }
            }
            name if advisory::is_advisory(name) => {
                let called = self.advisory.call(&self.engine, self.presence.transaction(), name, args);
                self.presence.locks_as(self.advisory.owner());
                called?
            }
            other => return Err(Error::internal(format_args!("no session function is called {other}"))),
        })
    }
}
