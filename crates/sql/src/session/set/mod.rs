//! Running SET, RESET, SHOW and BEGIN: settings of the session, and modes of its transaction.
//!
//! These statements need no transaction and begin none, so the modes of the transaction can still
//! be set after them.
//!
//! Invariants
//! - The session's user, and the role that statements run as, follow from the settings
//!   `session_authorization` and `role`. So they are rolled back with the other settings
//!   ([`Session::heed_roles`]).
//! - The modes of a transaction are in its [`Block`](super::block::Block); the functions of the
//!   session see a copy of them.

use colibri_catalog::{Catalog, ObjectId, cluster::RoleId};
use colibri_syntax::tree::{self, Given, Setting, To};
use colibri_types::{Datum, Error, Result, SqlState, Type, functions::quote_identifier};
use compact_str::CompactString;

use super::settings::{self, Modes};
use super::{Completion, ResultColumn, Rows, Session, Severity, TransactionState};

fn active(message: &str) -> Error {
    Error::new(SqlState::ACTIVE_TRANSACTION, message)
}

/// The text of values that were given for a setting.
///
/// # Errors
/// 22023 for several values of a setting that has one; 42704 and 42602 if there is no such setting.
pub(crate) fn flatten(name: &str, values: &[Given]) -> Result<String> {
    let (is_list, quotes) = settings::takes_list(&name.to_ascii_lowercase())?;
    if values.len() > 1 && !is_list {
        return Err(Error::new(SqlState::BAD_PARAMETER, format!("SET {name} takes only one argument")));
    }
    let part = |value: &Given| match value {
        Given::Text(text) if quotes => quote_identifier(text),
        Given::Text(text) | Given::Number(text) => text.clone(),
    };
    Ok(values.iter().map(part).collect::<Vec<_>>().join(", "))
}

/// What a transaction is told to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Level(settings::Level),
    ReadOnly(bool),
    Deferrable(bool),
}

impl Mode {
    fn of(written: &[tree::Mode]) -> Result<Vec<Self>> {
        let mode = |mode: &tree::Mode| {
            Ok(match *mode {
                tree::Mode::Level(level) => Self::Level(settings::Level::named(level.name())?),
                tree::Mode::ReadOnly(read_only) => Self::ReadOnly(read_only),
                tree::Mode::Deferrable(deferrable) => Self::Deferrable(deferrable),
            })
        };
        written.iter().map(mode).collect()
    }
}

/// The columns of what a statement about settings gives.
pub(super) fn columns(statement: &Setting, session: &Session) -> Vec<ResultColumn> {
    let column = |name: &str| ResultColumn { name: name.into(), ty: Type::Text.into(), origin: None };
    match statement {
        Setting::ShowAll => ["name", "setting", "description"].map(column).into(),
        Setting::Show(name) => vec![column(&session.own.settings.shown_name(name))],
        _ => Vec::new(),
    }
}

impl Session {
    /// Runs a statement; the rows of SHOW.
    pub(super) fn set_statement(&mut self, statement: &Setting) -> Result<(Rows, Completion)> {
        let mut rows = Rows::default();
        match statement {
            Setting::Show(name) => rows.push([Datum::text(&self.own.show(name)?)].into_iter()),
            Setting::ShowAll => {
                for (name, value) in self.own.settings.all(&self.own.around()) {
                    rows.push([Datum::text(name), Datum::text(&value), Datum::text("")].into_iter());
                }
            }
            Setting::Set { name, to, local } => self.set(name, to, *local)?,
            Setting::Reset(name) => self.reset(name)?,
            Setting::ResetAll => {
                self.own.settings.reset_all();
                self.settings_set();
            }
            Setting::Transaction(modes) => {
                self.warn_outside_block("SET TRANSACTION");
                if self.state == TransactionState::Open {
                    self.modes(&Mode::of(modes)?)?;
                }
            }
            Setting::Characteristics { modes, local } => self.set_characteristics(&Mode::of(modes)?, *local)?,
            Setting::Constraints { names, deferred } => self.set_constraints(names.as_deref(), *deferred)?,
            Setting::Snapshot => {
                self.warn_outside_block("SET TRANSACTION");
                return Err(Error::unsupported("SET TRANSACTION SNAPSHOT"));
            }
        }
        Ok((rows, Completion { tag: statement.tag().into(), ticket: None }))
    }

    fn warn_outside_block(&mut self, what: &str) {
        if self.is_outside_block() && !self.is_in_body() {
            let message = format!("{what} can only be used in transaction blocks");
            self.notice(Severity::Warning, SqlState::NO_ACTIVE_TRANSACTION, message);
        }
    }

    // ---- settings ----

    fn set(&mut self, name: &str, to: &To, local: bool) -> Result<()> {
        if local {
            self.warn_outside_block("SET LOCAL");
        }
        let text = match to {
            To::Default => None,
            To::Current => {
                self.own.show(name)?;
                return Ok(());
            }
            To::Values(values) => Some(flatten(name, values)?),
        };
        self.set_value(name, text.as_deref(), local)
    }

    fn reset(&mut self, name: &str) -> Result<()> {
        if name.eq_ignore_ascii_case("transaction_isolation") {
            self.warn_outside_block("RESET TRANSACTION");
        }
        self.set_value(name, None, false)
    }

    /// Sets a setting to a text, or to its default. SET LOCAL outside of a block checks the value
    /// and has no effect. In a function it has effect until the statement ends that calls it.
    fn set_value(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        if let Some(mode) = self.mode_named(name, value)? {
            return if self.state == TransactionState::Open { self.modes(&[mode]) } else { Ok(()) };
        }
        let is_checked_only = local && self.state == TransactionState::Idle && !self.is_in_body();
        let before = is_checked_only.then(|| self.own.settings.clone());
        let set = self.own.set(name, value, local);
        match before {
            Some(before) => self.own.settings.go_back_to(before),
            None => self.settings_set(),
        }
        set
    }

    /// The value of a setting that is a mode of the current transaction.
    fn mode_named(&self, name: &str, value: Option<&str>) -> Result<Option<Mode>> {
        let default = self.own.settings.hot().modes();
        let flag = |name: &str, default: bool| match value.map(settings::parse_bool) {
            None => Ok(default),
            Some(Some(on)) => Ok(on),
            Some(None) => {
                let message = format!("parameter \"{name}\" requires a Boolean value");
                Err(Error::new(SqlState::BAD_PARAMETER, message))
            }
        };
        Ok(Some(match name.to_ascii_lowercase().as_str() {
            "transaction_isolation" => Mode::Level(match value {
                Some(value) => settings::Level::named(value)?,
                None => default.level,
            }),
            "transaction_read_only" => Mode::ReadOnly(flag(name, default.read_only)?),
            "transaction_deferrable" => Mode::Deferrable(flag(name, default.deferrable)?),
            _ => return Ok(None),
        }))
    }

    fn set_characteristics(&mut self, modes: &[Mode], local: bool) -> Result<()> {
        if local {
            self.warn_outside_block("SET LOCAL");
        }
        for mode in modes {
            let flag = |on: bool| if on { "on" } else { "off" };
            let (name, value) = match *mode {
                Mode::Level(level) => ("default_transaction_isolation", level.name()),
                Mode::ReadOnly(on) => ("default_transaction_read_only", flag(on)),
                Mode::Deferrable(on) => ("default_transaction_deferrable", flag(on)),
            };
            self.set_value(name, Some(value), local)?;
        }
        Ok(())
    }

    // ---- transactions ----

    pub(super) fn begin(&mut self, modes: &[tree::Mode]) -> Result<()> {
        let modes = Mode::of(modes)?;
        if self.state == TransactionState::Idle {
            let default = self.own.settings.hot().modes();
            self.open_block(default);
        } else if !std::mem::take(&mut self.block.implicit) {
            let message = "there is already a transaction in progress";
            self.notice(Severity::Warning, SqlState::ACTIVE_TRANSACTION, message);
        }
        let begun = self.modes(&modes);
        if begun.is_err() {
            self.fail_block();
        }
        begun
    }

    /// Begins a block.
    pub(super) fn open_block(&mut self, modes: Modes) {
        self.own.deferral.is_in_block = true;
        self.block.modes = modes;
        self.block.modes_at_first = modes;
        self.block.settings_before = Some(self.own.settings.clone());
        self.own.modes = Some(modes);
        self.state = TransactionState::Open;
    }

    /// Changes modes of the current transaction, as far as they may still change: all of them, or
    /// none.
    pub(super) fn modes(&mut self, modes: &[Mode]) -> Result<()> {
        let before = self.block.modes;
        let taken = self.take_modes(modes);
        if taken.is_err() {
            self.be_read_only(before.read_only);
            self.block.modes = before;
            self.own.modes = Some(before);
        }
        taken
    }

    fn take_modes(&mut self, modes: &[Mode]) -> Result<()> {
        for mode in modes {
            match *mode {
                Mode::Level(level) if level == self.block.modes.level => self.block.modes.level_is_asked = true,
                Mode::Level(_) if self.block.used => {
                    return Err(active("SET TRANSACTION ISOLATION LEVEL must be called before any query"));
                }
                Mode::Level(_) if !self.block.savepoints.is_empty() => {
                    return Err(active("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"));
                }
                Mode::Level(level) => {
                    self.block.modes.level = level;
                    self.block.modes.level_is_asked = true;
                    // A transaction that a released savepoint has begun is of the other kind, and
                    // empty.
                    self.txn = None;
                }
                Mode::ReadOnly(read_only) => self.set_read_only(read_only)?,
                Mode::Deferrable(_) if !self.block.savepoints.is_empty() => {
                    return Err(active("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"));
                }
                Mode::Deferrable(_) if self.block.used => {
                    return Err(active("SET TRANSACTION [NOT] DEFERRABLE must be called before any query"));
                }
                Mode::Deferrable(deferrable) => self.block.modes.deferrable = deferrable,
            }
        }
        self.own.modes = Some(self.block.modes);
        self.settings_version = self.settings_version.wrapping_add(1);
        Ok(())
    }

    fn set_read_only(&mut self, read_only: bool) -> Result<()> {
        if !read_only && self.own.engine.is_standby() {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot set transaction read-write mode during recovery",
            ));
        }
        if !read_only && self.block.modes.read_only {
            if !self.block.savepoints.is_empty() {
                return Err(active("cannot set transaction read-write mode inside a read-only transaction"));
            }
            if self.block.used {
                return Err(active("transaction read-write mode must be set before any query"));
            }
        }
        self.be_read_only(read_only);
        Ok(())
    }

    /// Makes the current transaction read-only or read-write.
    pub(super) fn be_read_only(&mut self, read_only: bool) {
        self.block.modes.read_only = read_only;
        self.own.modes = Some(self.block.modes);
        if let Some(txn) = &mut self.txn {
            txn.set_read_only(read_only);
        }
    }

    /// Applies the modes of the current transaction that `set_config` has set.
    pub(super) fn heed_modes(&mut self) {
        if let (Some(modes), true) = (self.own.modes, self.state != TransactionState::Idle)
            && modes.read_only != self.block.modes.read_only
        {
            self.be_read_only(modes.read_only);
        }
    }

    fn set_constraints(&mut self, names: Option<&[Vec<CompactString>]>, deferred: bool) -> Result<()> {
        self.warn_outside_block("SET CONSTRAINTS");
        let constraints = self.constraints_named(names, deferred)?;
        self.defer_constraints(constraints.as_deref(), deferred);
        Ok(())
    }

    /// The constraints that SET CONSTRAINTS names which are not checked at once always; `None`: all
    /// of them.
    pub(super) fn constraints_named(
        &mut self,
        names: Option<&[Vec<CompactString>]>,
        deferred: bool,
    ) -> Result<Option<Vec<ObjectId>>> {
        let Some(names) = names else { return Ok(None) };
        self.see_catalog()?;
        let catalog = &self.own.catalog;
        let mut found = Vec::new();
        for name in names {
            let (constraint, schema) = name.split_last().ok_or_else(|| Error::internal("a name has no parts"))?;
            let schemas = match schema.last() {
                Some(schema) if catalog.schema(schema).is_none() => {
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
                }
                Some(schema) => std::slice::from_ref(schema),
                None => &*self.own.search_path,
            };
            let before = found.len();
            let keys = catalog.tables().filter(|table| schemas.contains(&table.schema));
            let keys = keys.flat_map(|table| &table.foreign_keys);
            found.extend(keys.filter(|key| key.name == *constraint && !key.timing.is_fixed()).map(|key| key.id));
            let keys = catalog.tables().filter(|table| schemas.contains(&table.schema));
            let keys = keys.flat_map(|table| &table.indexes).filter(|index| !index.timing.is_fixed());
            found.extend(keys.filter(|index| index.name == *constraint).map(|index| index.id));
            let triggers = catalog.tables().filter(|table| schemas.contains(&table.schema));
            let triggers = triggers.flat_map(|table| &table.triggers).filter(|trigger| trigger.is_constraint);
            found.extend(
                triggers
                    .filter(|trigger| trigger.name == *constraint && !trigger.deferral.is_fixed())
                    .map(|trigger| trigger.id),
            );
            if found.len() > before {
                continue;
            }
            let (state, wrong) = match has_constraint(catalog, schemas, constraint) {
                true if !deferred => continue,
                true => (SqlState::WRONG_OBJECT_TYPE, "is not deferrable"),
                false => (SqlState::NO_SUCH_OBJECT, "does not exist"),
            };
            return Err(Error::new(state, format!("constraint \"{constraint}\" {wrong}")));
        }
        Ok(Some(found))
    }

    // ---- kept for those who log in ----

    /// Refuses a wrong value of a setting, and a setting that the user may not set.
    pub(crate) fn expect_setting(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if self.mode_named(name, value)?.is_some() {
            let message = format!("parameter \"{name}\" cannot be set for those who log in");
            return Err(Error::new(SqlState("55P02"), message).hint("Set default_transaction_… instead."));
        }
        // Checked on a copy of the settings.
        let before = self.own.settings.clone();
        let tried = self.own.set(name, value, true);
        self.own.settings.go_back_to(before);
        tried
    }

    /// A setting's name as SHOW writes it.
    pub(crate) fn shown_setting(&self, name: &str) -> CompactString {
        self.own.settings.shown_name(name)
    }

    /// Applies the settings that the server stores for the session's role and database. Values that
    /// are no longer possible give a warning and are left out.
    pub(super) fn heed_kept_settings(&mut self, database: u32, role: RoleId) {
        let Some(cluster) = self.cluster() else { return };
        let kept = cluster.kept_settings();
        for (name, value, by) in kept.of(database, role) {
            let known = match name {
                "role" if value != "none" => self.own.look_up_role(value, false),
                _ => Ok(()),
            };
            if let Err(error) = known.and_then(|()| self.own.settings.set_default(name, value, by)) {
                self.notice(Severity::Warning, error.state(), error.report().message.clone());
            }
        }
        self.settings_set();
    }

    // ---- who the session is ----

    /// Makes the session's user, and the role that statements run as, those of the settings.
    pub(super) fn heed_roles(&mut self) {
        // The rights are those of a function's owner, and no setting changes them there.
        if self.own.calls.has_definer() {
            return;
        }
        let login = (self.own.login_role, self.own.login.clone());
        let named = CompactString::new(self.own.settings.text("session_authorization"));
        let (session, name) = match self.own.known_role(&named) {
            Some(role) => (role, named),
            None => login,
        };
        let named = CompactString::new(self.own.settings.text("role"));
        let role = match named.as_str() {
            "none" => session,
            name => self.own.known_role(name).unwrap_or(session),
        };
        self.own.session_user = session;
        self.own.session_name = name;
        if role != self.role() {
            self.renew_authority(role);
        }
    }
}

fn has_constraint(catalog: &Catalog, schemas: &[CompactString], name: &str) -> bool {
    let of_table = |table: &&std::sync::Arc<colibri_catalog::Table>| {
        let unique = table.indexes.iter().any(|index| index.name == name);
        let key = table.primary_key.iter().any(|key| key.name == name);
        let check = table.checks.iter().any(|check| check.name == name);
        let trigger = table.triggers.iter().any(|trigger| trigger.is_constraint && trigger.name == name);
        schemas.contains(&table.schema)
            && (unique || key || check || trigger || table.foreign_keys.iter().any(|key| key.name == name))
    };
    catalog.tables().any(|table| of_table(&table))
}

impl super::own::Own {
    /// Sets a setting of the session: a checked value, or the default.
    ///
    /// # Errors
    /// As [`settings::Settings::set`]; for roles 22023 and 42501.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let is_superuser = self.authority.is_superuser();
        let lower = name.to_ascii_lowercase();
        if self.calls.has_definer() && matches!(&*lower, "role" | "session_authorization") {
            let message = format!("cannot set parameter \"{lower}\" within security-definer function");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        match &*lower {
            "role" => {
                if let Some(name) = value.filter(|name| *name != "none") {
                    self.look_up_role(name, false)?;
                }
                self.settings.put("role", value.map(str::to_owned), local);
            }
            "session_authorization" => {
                if let Some(name) = value {
                    self.look_up_role(name, true)?;
                }
                self.settings.put("session_authorization", value.map(str::to_owned), local);
                self.settings.put("role", Some("none".to_owned()), local);
            }
            "default_text_search_config" => {
                if let Some(value) = value
                    && crate::system::search::number_of_setting(&self.catalog, &self.search_path, value).is_none()
                {
                    let message = format!("invalid value for parameter \"{lower}\": \"{value}\"");
                    return Err(Error::new(SqlState::BAD_PARAMETER, message));
                }
                self.settings.set(name, value, local, is_superuser)?;
            }
            _ => self.settings.set(name, value, local, is_superuser)?,
        }
        Ok(())
    }

    /// All roles; without a server, the user alone.
    fn roles(&self) -> std::sync::Arc<colibri_catalog::cluster::Roles> {
        match &self.cluster {
            Some(cluster) => cluster.roles(),
            None => std::sync::Arc::new(colibri_catalog::cluster::Roles::new(&self.login)),
        }
    }

    /// The number of a role as the session looked it up before, not that of a later role with the
    /// same name.
    fn known_role(&mut self, name: &str) -> Option<RoleId> {
        if name.is_empty() {
            return None;
        }
        if let Some(&known) = self.role_numbers.get(name) {
            return Some(known);
        }
        let number = self.roles().named(name)?.oid;
        self.role_numbers.insert(name.into(), number);
        Some(number)
    }

    /// Looks up the role of a SET ROLE or SET SESSION AUTHORIZATION, and checks that the session
    /// may become it.
    fn look_up_role(&mut self, name: &str, session: bool) -> Result<()> {
        let roles = self.roles();
        let Some(role) = roles.named(name) else {
            return Err(Error::new(SqlState::BAD_PARAMETER, format!("role \"{name}\" does not exist")));
        };
        let is_superuser = |role| roles.get(role).is_none_or(|role| role.superuser);
        let (may, what) = if session {
            let may = role.oid == self.login_role || self.cluster.is_none() || is_superuser(self.login_role);
            (may, "set session authorization".to_owned())
        } else {
            let user = self.session_user;
            let may = is_superuser(user) || roles.groups_of(user).contains(&role.oid);
            (may, format!("set role \"{name}\""))
        };
        if !may {
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to {what}")));
        }
        self.role_numbers.insert(name.into(), role.oid);
        Ok(())
    }
}
