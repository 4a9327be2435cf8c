//! The state of a session besides its transaction: its user, its settings, the catalogue as it saw
//! it last; and the functions that only a session can compute.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_catalog::{
    Catalog, ObjectId, Relation, Sequence, Table, Timing,
    cluster::{Authority, Cluster, ObjectKind, Privileges, RoleId},
    parse_name,
};
use colibri_storage::TxnId;
use colibri_txn::{Capabilities, Transaction};
use colibri_types::{Datum, Env, Error, Result, SqlState, pulse};
use compact_str::CompactString;

use super::activity::Presence;
use super::advisory::{self, Advisory};
use super::deferral::Deferral;
use super::engine::{Access, Engine};
use super::notifications::Notifications;
use super::sequences::OwnSequences;
use super::settings::{Around, Modes, Settings, parse_bool};
use super::temporary::Temporary;
use crate::exec::parallel::Helpers;
use crate::exec::{Deferred, SessionCalls, TriggerCall};
use crate::expr::RoutineCall;
use crate::surroundings::SearchPath;

/// The number of a database that is open without a server.
const DATABASE_ALONE: u32 = 5;

/// The state of a session besides its transaction.
pub(super) struct Own {
    pub(super) engine: Arc<Engine>,
    /// What the store can do, here so that sessions do not share the look for it.
    pub(super) capabilities: Capabilities,
    pub(super) number: i32,
    pub(super) presence: Arc<Presence>,
    /// The server around; without one the user is a superuser, alone.
    pub(super) cluster: Option<Arc<dyn Cluster>>,
    /// The session's user.
    pub(super) session_user: RoleId,
    /// The session's user by name.
    pub(super) session_name: CompactString,
    /// The user that logged in; SET SESSION AUTHORIZATION does not change it.
    pub(super) login_role: RoleId,
    pub(super) login: CompactString,
    /// The role that statements run as, by name: the session's user unless SET ROLE chose another.
    pub(super) user: CompactString,
    /// What the user may do, as of this version of the cluster.
    pub(super) authority: Arc<Authority>,
    pub(super) cluster_version: u64,
    pub(super) settings: Settings,
    /// The catalogue as the current transaction sees it, or as the last one saw it.
    pub(super) catalog: Arc<Catalog>,
    pub(super) search_path: SearchPath,
    /// What `nextval` gave last for each sequence.
    pub(super) current: HashMap<ObjectId, i64>,
    pub(super) last: Option<ObjectId>,
    /// The modes of the current block, with changes by `set_config`; `None` between blocks.
    pub(super) modes: Option<Modes>,
    /// Changes of settings made by `set_config`.
    pub(super) settings_changed: bool,
    /// Settings as they were before the current statement changed them.
    pub(super) settings_before: Option<Settings>,
    /// Numbers of roles that the session has been, or wanted to be.
    pub(super) role_numbers: HashMap<CompactString, RoleId>,
    pub(super) advisory: Advisory,
    /// Sequences that the current transaction has created, changed or restarted.
    pub(super) own_sequences: OwnSequences,
    /// What it has if it has made temporary objects.
    pub(super) temporary: Option<Box<Temporary>>,
    /// Whether the current statement may not write.
    pub(super) read_only: bool,
    pub(super) deferral: Deferral,
    pub(super) notifications: Notifications,
    /// The session's last commit.
    pub(super) last_commit: Option<TxnId>,
    /// Who may help with long statements.
    pub(super) helpers: Option<Arc<dyn Helpers>>,
    /// What functions of users run in, while a plan is at work that calls some.
    pub(super) shell: Option<Box<super::Session>>,
    pub(super) calls: super::routine::Calls,
}

impl Own {
    /// In the place of this one, while it is elsewhere: nobody asks it for anything.
    pub(super) fn stand_in(&self) -> Self {
        Self {
            engine: Arc::clone(&self.engine),
            capabilities: self.capabilities,
            number: self.number,
            presence: Arc::clone(&self.presence),
            cluster: self.cluster.clone(),
            session_user: self.session_user,
            session_name: self.session_name.clone(),
            login_role: self.login_role,
            login: self.login.clone(),
            user: self.user.clone(),
            authority: Arc::clone(&self.authority),
            cluster_version: self.cluster_version,
            settings: self.settings.clone(),
            catalog: Arc::default(),
            search_path: Arc::clone(&self.search_path),
            current: HashMap::new(),
            last: None,
            modes: None,
            settings_changed: false,
            settings_before: None,
            role_numbers: HashMap::new(),
            advisory: Advisory::default(),
            own_sequences: HashMap::new(),
            temporary: None,
            read_only: false,
            deferral: Deferral::default(),
            notifications: Notifications::default(),
            last_commit: None,
            helpers: None,
            shell: None,
            calls: super::routine::Calls::default(),
        }
    }

    /// A setting's value, as SHOW gives it.
    pub(crate) fn show(&self, name: &str) -> Result<String> {
        self.settings.show(name, &self.around())
    }

    /// The context that settings are read with.
    pub(super) fn around(&self) -> Around<'_> {
        Around {
            server: self.cluster.as_deref(),
            is_superuser: self.authority.is_superuser(),
            modes: self.modes,
            session_user: &self.session_name,
            is_standby: self.engine.is_standby(),
        }
    }

    /// Names the session's last commit, for `colibri.read_after` on another machine.
    fn commit_token(&self) -> Datum {
        let Some(txn) = self.last_commit else { return Datum::Null };
        Datum::text(&format!("{}/{:x}", self.database_number(), txn.0))
    }

    /// The search path without the schema of temporary objects, unless the setting names that: new
    /// objects go to the first of these.
    pub(super) fn creation_path(&self) -> &[CompactString] {
        match (&*self.search_path, &self.temporary) {
            ([first, rest @ ..], Some(temporary))
                if first == temporary.schema_name() && !self.settings.text("search_path").contains("pg_temp") =>
            {
                rest
            }
            (path, _) => path,
        }
    }

    /// The number of the session's database.
    pub(super) fn database_number(&self) -> u32 {
        let all = self.cluster.as_ref().map(|cluster| cluster.databases()).unwrap_or_default();
        let own = all.iter().find(|database| database.name == self.engine.name());
        own.map_or(DATABASE_ALONE, |database| database.oid)
    }

    /// Refuses a statement that writes.
    pub(super) fn refusal(&self, message: String) -> Error {
        let error = Error::new(SqlState::READ_ONLY_TRANSACTION, message);
        if !self.engine.is_standby() {
            return error;
        }
        match self.cluster.as_ref().and_then(|cluster| cluster.leader_of(self.engine.name())) {
            Some(leader) => error.hint(format!("This server is a standby. {leader} leads the database.")),
            None => error.hint("This server is a standby, and no server leads the database now."),
        }
    }

    /// Refuses a statement that writes where those that have to agree on commits have no room.
    pub(super) fn expect_room(&self) -> Result<()> {
        if self.engine.access() != Access::NoRoom {
            return Ok(());
        }
        Err(Error::new(SqlState::DISK_FULL, "the cluster's log has no room: nothing can be written until it has")
            .hint("Nine tenths of etcd's quota are used. Compact and defragment etcd, or raise its quota (--quota-backend-bytes). If it has an alarm, disarm it then (etcdctl alarm disarm)."))
    }

    /// `set_config` with its arguments; gives the setting's new value.
    fn set_config(&mut self, args: &[Datum]) -> Result<Datum> {
        let Some(Datum::Text(name)) = args.first() else {
            return Err(Error::new(SqlState("22004"), "SET requires parameter name"));
        };
        let value = match args.get(1) {
            Some(Datum::Text(value)) => Some(value.as_str()),
            _ => None,
        };
        let local = matches!(args.get(2), Some(Datum::Bool(true)));
        if !self.set_mode(name, value)? {
            if self.settings_before.is_none() {
                self.settings_before = Some(self.settings.clone());
            }
            self.set(name, value, local)?;
        }
        self.settings_changed = true;
        Ok(Datum::text(&self.show(name)?))
    }

    /// `set_limit` of `pg_trgm`; gives the new limit.
    fn set_limit(&mut self, limit: &Datum) -> Result<Datum> {
        let mut text = String::new();
        if let Datum::Float(limit) = limit {
            colibri_types::text_io::write_float4(*limit as f32, 1, &mut text);
        }
        let set = ["pg_trgm.similarity_threshold", &text].map(Datum::text);
        self.set_config(&[set[0].clone(), set[1].clone(), Datum::Bool(false)])?;
        Ok(limit.clone())
    }

    /// Sets a mode of the current transaction, which has run a query already: this one. False if
    /// the setting is no mode.
    fn set_mode(&mut self, name: &str, value: Option<&str>) -> Result<bool> {
        let active = |message| Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        let default = self.settings.hot().modes();
        let mut modes = self.modes.unwrap_or(default);
        match name.to_ascii_lowercase().as_str() {
            "transaction_isolation" => {
                let level = value.map_or(Ok(default.level), super::settings::Level::named)?;
                if level != modes.level {
                    return active("SET TRANSACTION ISOLATION LEVEL must be called before any query");
                }
            }
            "transaction_deferrable" => {
                return active("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
            }
            "transaction_read_only" => {
                let read_only = value.map_or(Some(default.read_only), parse_bool).ok_or_else(|| {
                    let message = "parameter \"transaction_read_only\" requires a Boolean value";
                    Error::new(SqlState::BAD_PARAMETER, message)
                })?;
                if modes.read_only && !read_only {
                    return active("transaction read-write mode must be set before any query");
                }
                modes.read_only = read_only;
                if self.modes.is_some() {
                    self.modes = Some(modes);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// 42501 unless the current role has one of some privileges on a sequence.
    fn expect_any(&self, sequence: &Sequence, any: Privileges) -> Result<()> {
        let has = self.authority.privileges(ObjectKind::Sequence, sequence.owner, sequence.acl.as_ref());
        if has.common(any).is_empty() { Err(Error::denied("sequence", &sequence.name)) } else { Ok(()) }
    }

    /// The parts of the name in a text. Of three parts the first is this database's name.
    fn relation(&self, text: &str) -> Result<Option<Relation>> {
        let parts = parse_name(text).ok_or_else(|| Error::new(SqlState::BAD_NAME, "invalid name syntax"))?;
        let parts = match &parts[..] {
            [database, rest @ ..] if rest.len() == 2 => {
                crate::bind::expect_database(self.engine.name(), database, || parts.join("."))?;
                rest
            }
            all => all,
        };
        if let [schema, _] = parts
            && !crate::system::is_system_schema(schema)
            && self.catalog.schema(schema).is_none()
        {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
        }
        Ok(self.catalog.find(parts, &self.search_path).cloned())
    }

    fn sequence(&self, name: &Datum) -> Result<Arc<Sequence>> {
        let Datum::Text(text) = name else { return Err(Error::internal("a sequence's name is not text")) };
        // Digits alone are a relation's number; a dash means no relation.
        if let Ok(number) = if text == "-" { Ok(0) } else { text.parse::<u32>() } {
            return self
                .catalog
                .sequence(number)
                .cloned()
                .ok_or_else(|| Error::new(SqlState("XX000"), format!("could not open relation with OID {number}")));
        }
        let found = self.relation(text)?;
        match found {
            Some(Relation::Sequence(sequence)) => Ok(sequence),
            Some(_) => Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{text}\" is not a sequence"))),
            None => Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{text}\" does not exist"))),
        }
    }
}

impl SessionCalls for Own {
    fn next_value(&mut self, sequence: &Sequence) -> Result<i64> {
        self.take_value(sequence)
    }

    fn next_row_number(&mut self, txn: &mut dyn Transaction, table: &Table) -> Result<i64> {
        self.new_row_number(txn, table)
    }

    fn is_deferred(&self, constraint: ObjectId, timing: Timing) -> bool {
        self.deferral.is_deferred(constraint, timing, self.calls.is_at_work())
    }

    fn is_trigger_deferred(&self, constraint: ObjectId, timing: Timing) -> bool {
        self.deferral.is_deferred(constraint, timing, true)
    }

    fn replicates(&self) -> bool {
        self.settings.hot().replicates
    }

    fn defer(&mut self, checks: Vec<Deferred>) {
        self.deferral.defer(checks);
    }

    fn uses_columns(&self) -> bool {
        self.settings.hot().uses_columns
    }

    fn helpers(&self) -> Option<Arc<dyn Helpers>> {
        let helpers = self.helpers.as_ref().filter(|_| self.settings.hot().may_have_helpers)?;
        Some(Arc::clone(helpers))
    }

    fn call_routine(
        &mut self,
        txn: &mut dyn Transaction,
        env: &Env,
        call: &Arc<RoutineCall>,
        args: Vec<Datum>,
    ) -> Result<Datum> {
        self.call_within_plan(txn, env, |session| session.run_routine(call, args))
    }

    fn call_trigger(&mut self, txn: &mut dyn Transaction, env: &Env, call: &TriggerCall<'_>) -> Result<Datum> {
        self.call_within_plan(txn, env, |session| session.run_trigger(call))
    }

    fn has_put(&mut self, txn: &mut dyn Transaction, topic: &Table, partitions: &[i64]) -> Result<()> {
        self.put_messages(txn, topic, partitions)
    }

    fn call(&mut self, txn: &mut dyn Transaction, name: &str, args: &[Datum]) -> Result<Datum> {
        if name == "set_config" {
            return self.set_config(args);
        }
        if name == "pg_notify" {
            let text = |at: usize| match args.get(at) {
                Some(Datum::Text(text)) => text.as_str(),
                _ => "",
            };
            self.notify(text(0), text(1))?;
            return Ok(Datum::text(""));
        }
        if args.first().is_some_and(Datum::is_null) {
            return Ok(Datum::Null);
        }
        if let Some(answer) = self.call_of_topics(txn, name, args) {
            return answer;
        }
        let text = |at: usize| match args.get(at) {
            Some(Datum::Text(text)) => text.as_str(),
            _ => "",
        };
        Ok(match name {
            "set_limit" => self.set_limit(&args[0])?,
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
                let last = self.last.and_then(|id| self.catalog.sequences().find(|sequence| sequence.id == id));
                let value = last.and_then(|last| Some((last, *self.current.get(&last.id)?)));
                let (sequence, value) = value.ok_or_else(|| {
                    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "lastval is not yet defined in this session")
                })?;
                self.expect_any(sequence, Privileges::USAGE.with(Privileges::SELECT))?;
                Datum::Int(value)
            }
            "setval" => {
                let sequence = self.sequence(&args[0])?;
                let called = match args.get(2) {
                    None => true,
                    Some(Datum::Bool(called)) => *called,
                    Some(_) => return Ok(Datum::Null),
                };
                let Datum::Int(value) = args[1] else { return Ok(Datum::Null) };
                self.expect_any(&sequence, Privileges::UPDATE)?;
                self.set_value(&sequence, value, called)?;
                Datum::Int(value)
            }
            "pg_trigger_depth" => Datum::Int(self.calls.triggers().into()),
            "current_user" => Datum::Text(self.user.clone()),
            "session_user" => Datum::Text(self.session_name.clone()),
            "current_database" => Datum::text(self.engine.name()),
            "current_schema" => match self.creation_path().iter().find(|schema| {
                colibri_catalog::system_tables::is_system_schema(schema) || self.catalog.schema(schema).is_some()
            }) {
                Some(schema) => Datum::Text(schema.clone()),
                None => Datum::Null,
            },
            "pg_listening_channels" => self.listening_channels(),
            "pg_notification_queue_usage" => self.notification_queue_usage(),
            "version" => Datum::text(super::VERSION),
            "colibri_commit_token" => self.commit_token(),
            "pg_backend_pid" => Datum::Int(self.number.into()),
            "current_setting" if matches!(args.get(1), Some(Datum::Null)) => Datum::Null,
            "current_setting" => match self.show(text(0)) {
                Ok(value) => Datum::text(&value),
                Err(_) if matches!(args.get(1), Some(Datum::Bool(true))) => Datum::Null,
                Err(error) => return Err(error),
            },
            "txid_current" | "pg_current_xact_id" => Datum::Int(self.engine.store.newest_txn().0 as i64),
            "pg_get_serial_sequence" => {
                let no_column = |relation: &str| {
                    let message = format!("column \"{}\" of relation \"{relation}\" does not exist", text(1));
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                };
                let no_sequence =
                    |is_column, relation| if is_column { Ok(Datum::Null) } else { Err(no_column(relation)) };
                let table = match self.relation(text(0))? {
                    Some(Relation::Table(table)) => table,
                    Some(Relation::View(view)) => {
                        return no_sequence(view.columns.iter().any(|column| column == text(1)), &view.name);
                    }
                    Some(Relation::Sequence(sequence)) => {
                        let is_column = ["last_value", "log_cnt", "is_called"].contains(&text(1));
                        return no_sequence(is_column, &sequence.name);
                    }
                    _ => {
                        let message = format!("relation \"{}\" does not exist", text(0));
                        return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
                    }
                };
                let column = table.column(text(1)).ok_or_else(|| no_column(&table.name))?;
                // Of several the column's own one, which came with it.
                let default = table.columns[column].default.as_deref();
                let is_own = |sequence: &Sequence| {
                    default.is_some_and(|default| crate::bind::stored::uses_sequence(default, sequence))
                };
                let owned = self
                    .catalog
                    .sequences()
                    .inspect(|_| pulse::look())
                    .filter(|sequence| sequence.owned_by == Some((table.id, column)))
                    .min_by_key(|sequence| (!is_own(sequence), sequence.id));
                match owned {
                    Some(sequence) => {
                        Datum::text(&crate::system::describe::qualified(&sequence.schema, &sequence.name))
                    }
                    None => Datum::Null,
                }
            }
            name if advisory::is_advisory(name) => {
                let called = self.advisory.call(&self.engine, self.presence.transaction(), name, args);
                self.presence.locks_as(self.advisory.owner());
                called?
            }
            "pg_column_compression" | "pg_column_size" => self.stored_form(txn, name, args)?,
            other => return Err(Error::internal(format_args!("no session function is called {other}"))),
        })
    }
}
