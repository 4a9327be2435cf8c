//! Settings of a session: values of SET and SET LOCAL, defaults, and the lists of settings.
//!
//! The value of a setting is that of SET LOCAL in the current transaction, else that of SET, else
//! the session's default, else the server's, else that of the table ([`known`]). SHOW,
//! `current_setting` and `pg_settings` all ask `Settings::given`.
//!
//! Savepoints and transactions keep copies, which share their maps with the settings they come
//! from. A rollback puts a copy back in place ([`Settings::go_back_to`]), and a commit drops local
//! values ([`Settings::forget_local`]). RELEASE has nothing to do.
//!
//! Invariants: `hot` agrees with the values. A name that a program has made up is known until the
//! session ends, even after a rollback: as in PostgreSQL its value is empty then, and reading it is
//! no error.

mod known;
mod read_after;
mod shared_map;
mod value;

use std::collections::HashSet;
use std::time::Duration;

use colibri_catalog::{cluster::Cluster, cluster::DefaultBy};
use colibri_txn::Isolation;
use colibri_types::{Error, Result, SqlState, pulse};
use compact_str::CompactString;

use crate::exec::MemoryLimits;
use crate::surroundings::{Names as _, SearchPath};
use known::{KNOWN, Kind, Known};
use shared_map::SharedMap;

pub(crate) use read_after::ReadAfter;
pub(crate) use value::{names, parse_bool};

/// The cost of resolving a name of the search path, in units of [`pulse`].
const UNITS_PER_NAME: usize = 20;

/// The values of all settings that are not at their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    values: SharedMap<String>,
    /// Values of SET LOCAL; `None` is the default.
    local: Option<SharedMap<Option<String>>>,
    /// Defaults of this session: what RESET goes back to.
    defaults: Option<SharedMap<SessionDefault>>,
    /// Names that programs made up, in lower case, each with its first spelling.
    custom: Option<SharedMap<CompactString>>,
    hot: Hot,
}

/// The context for settings whose values are kept elsewhere.
pub(crate) struct Around<'a> {
    pub(crate) server: Option<&'a dyn Cluster>,
    /// Whether statements run as a superuser.
    pub(crate) is_superuser: bool,
    /// The modes of the current transaction; `None` between transactions.
    pub(crate) modes: Option<Modes>,
    /// The session's user.
    pub(crate) session_user: &'a str,
    /// Whether another machine leads the database.
    pub(crate) is_standby: bool,
}

/// The modes of a transaction, as SET TRANSACTION names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) level: Level,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    /// Whether the client chose the level, so that it is not only the default.
    pub(crate) level_is_asked: bool,
}

/// The name of an isolation level: more of them than there are kinds of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level(u8);

impl Level {
    /// # Errors
    /// 22023 if there is no such level.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let at = known::ISOLATIONS.iter().position(|level| level.eq_ignore_ascii_case(name));
        at.map(|at| Self(at as u8)).ok_or_else(|| {
            let message = format!("invalid value for parameter \"transaction_isolation\": \"{name}\"");
            let hint = format!("Available values: {}.", known::ISOLATIONS.join(", "));
            Error::new(SqlState::BAD_PARAMETER, message).hint(hint)
        })
    }

    pub(crate) fn name(self) -> &'static str {
        known::ISOLATIONS[usize::from(self.0)]
    }

    pub(crate) fn is_serializable(self) -> bool {
        self == Self::default()
    }

    /// The isolation that it stands for here.
    pub(crate) fn isolation(self) -> Isolation {
        match self.name() {
            "read committed" | "read uncommitted" => Isolation::ReadCommitted,
            "repeatable read" => Isolation::Snapshot,
            _ => Isolation::Serializable,
        }
    }
}

impl Default for Level {
    /// `serializable`
    fn default() -> Self {
        Self(0)
    }
}

/// The session's default of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SessionDefault {
    value: String,
    by: DefaultBy,
}

/// The settings of a session that goes on elsewhere, under the names that are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct CarriedSettings {
    /// What the session has set, as it is stored.
    values: Vec<(String, String)>,
    /// The session's defaults, and where they come from.
    defaults: Vec<(String, String, DefaultBy)>,
}

/// Where a setting's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    By(DefaultBy),
    Session,
}

impl Source {
    /// As `pg_settings` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::By(DefaultBy::Server) => "command line",
            Self::By(DefaultBy::AllRoles) => "global",
            Self::By(DefaultBy::Database) => "database",
            Self::By(DefaultBy::Role) => "user",
            Self::By(DefaultBy::RoleInDatabase) => "database user",
            Self::By(DefaultBy::Client) => "client",
            Self::Session => "session",
        }
    }
}

/// Values that each statement needs, parsed once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    /// `default_transaction_isolation`
    pub(crate) level: Level,
    /// The same, as an isolation.
    pub(crate) isolation: Isolation,
    /// Whether it was set.
    pub(crate) level_is_asked: bool,
    /// `default_transaction_read_only`
    pub(crate) is_read_only: bool,
    /// `default_transaction_deferrable`
    pub(crate) is_deferrable: bool,
    /// `work_mem`, `hash_mem_multiplier`, `temp_file_limit`
    pub(crate) memory: MemoryLimits,
    /// `statement_timeout`
    pub(crate) statement_timeout: Option<Duration>,
    /// `colibri.read_after`
    pub(crate) read_after: ReadAfter,
    /// `session_replication_role` is `replica`.
    pub(crate) replicates: bool,
    /// `max_parallel_workers_per_gather` and `max_parallel_workers` are above 0.
    pub(crate) may_have_helpers: bool,
    /// `colibri.columns`
    pub(crate) uses_columns: bool,
}

impl Hot {
    /// The default modes of a transaction.
    pub(crate) fn modes(&self) -> Modes {
        Modes {
            level: self.level,
            read_only: self.is_read_only,
            deferrable: self.is_deferrable,
            level_is_asked: self.level_is_asked,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings =
            Self { values: SharedMap::default(), local: None, defaults: None, custom: None, hot: Hot::default() };
        settings.read_hot();
        settings
    }
}

fn no_such(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// Whether a name is one that programs may make up: two words or more with dots between them.
fn is_custom(name: &str) -> Result<bool> {
    if !name.contains('.') {
        return Ok(false);
    }
    let is_word = |part: &str| {
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        part.starts_with(begins) && part.chars().all(|c| begins(c) || c.is_ascii_digit() || c == '$')
    };
    if name.split('.').all(is_word) {
        return Ok(true);
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    let detail = "Custom parameter names must be two or more simple identifiers separated by dots.";
    Err(Error::new(SqlState::BAD_NAME, message).detail(detail))
}

/// Checks a value of a setting, whose name is in lower case, and whether the user may set it. Gives
/// the value as it is stored.
///
/// # Errors
/// 42704 if there is no such setting, 42602 for an impossible name, 42501, and those of
/// [`value::usual`].
pub(crate) fn checked(name: &str, value: &str, is_superuser: bool) -> Result<String> {
    match Known::find(name) {
        Some(known) => {
            if known.of_superusers && !is_superuser {
                let message = format!("permission denied to set parameter \"{name}\"");
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            value::usual(known, value)
        }
        None if is_custom(name)? => Ok(value.to_owned()),
        None => Err(no_such(name)),
    }
}

/// Whether SET takes several values for a setting. Values that are no plain names are then quoted.
///
/// # Errors
/// As [`checked`], of the name.
pub(crate) fn takes_list(name: &str) -> Result<(bool, bool)> {
    match Known::find(name) {
        Some(known) => Ok((known.is_list(), matches!(known.kind, Kind::Names))),
        None if is_custom(name)? => Ok((false, false)),
        None => Err(no_such(name)),
    }
}

impl Settings {
    pub(crate) fn hot(&self) -> &Hot {
        &self.hot
    }

    fn read_hot(&mut self) {
        let level = Level::named(self.text("default_transaction_isolation")).unwrap_or_default();
        self.hot = Hot {
            level,
            isolation: level.isolation(),
            level_is_asked: self.own("default_transaction_isolation").is_some(),
            is_read_only: self.raw("default_transaction_read_only") == Some("on"),
            is_deferrable: self.raw("default_transaction_deferrable") == Some("on"),
            memory: self.memory_limits(),
            statement_timeout: self.duration("statement_timeout"),
            read_after: ReadAfter::of(self.text("colibri.read_after")),
            replicates: self.raw("session_replication_role") == Some("replica"),
            may_have_helpers: ["max_parallel_workers_per_gather", "max_parallel_workers"]
                .into_iter()
                .all(|name| self.raw(name) != Some("0")),
            uses_columns: self.raw("colibri.columns") != Some("off"),
        };
    }

    fn memory_limits(&self) -> MemoryLimits {
        let number = |name: &str| self.raw(name).and_then(|raw| raw.parse::<i64>().ok());
        let work_bytes = usize::try_from(number("work_mem").unwrap_or(262_144) << 10).unwrap_or(usize::MAX);
        let multiplier = self.raw("hash_mem_multiplier").and_then(|raw| raw.parse::<f64>().ok()).unwrap_or(2.0);
        MemoryLimits {
            work_bytes,
            hash_bytes: (work_bytes as f64 * multiplier) as usize,
            // -1 is no limit.
            temp_bytes_max: number("temp_file_limit")
                .and_then(|limit| u64::try_from(limit << 10).ok())
                .unwrap_or(u64::MAX),
        }
    }

    /// The value of a setting that the session itself keeps.
    fn raw(&self, name: &str) -> Option<&str> {
        match self.own(name) {
            Some((value, _)) => Some(value),
            None => Known::find(name).map(|known| known.default),
        }
    }

    fn own(&self, name: &str) -> Option<(&str, Source)> {
        match self.local.as_ref().and_then(|local| local.get(name)) {
            Some(Some(value)) => return Some((value, Source::Session)),
            Some(None) => return self.default_of(name),
            None => {}
        }
        match self.values.get(name) {
            Some(value) => Some((value, Source::Session)),
            None => self.default_of(name),
        }
    }

    fn default_of(&self, name: &str) -> Option<(&str, Source)> {
        let default = self.defaults.as_ref()?.get(name)?;
        Some((&default.value, Source::By(default.by)))
    }

    /// A value as it is stored, and its source; `None` if there is no such setting.
    fn given(&self, name: &str, around: &Around<'_>) -> Option<(String, Source)> {
        if around.is_standby
            && ["default_transaction_read_only", "in_hot_standby", "transaction_read_only"].contains(&name)
        {
            return Some(("on".to_owned(), Source::By(DefaultBy::Server)));
        }
        if let Some(modes) = mode_shown(name, around.modes.unwrap_or_else(|| self.hot.modes())) {
            return Some((modes.to_owned(), Source::Default));
        }
        match self.own(name) {
            Some((value, source)) if name != "session_authorization" => Some((value.to_owned(), source)),
            _ if self.is_made_up(name) => Some((String::new(), Source::Default)),
            _ => of_surroundings(name, around),
        }
    }

    fn is_made_up(&self, name: &str) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.contains_key(name))
    }

    /// As SHOW gives it.
    pub(crate) fn show(&self, name: &str, around: &Around<'_>) -> Result<String> {
        let lower = name.to_ascii_lowercase();
        let (raw, _) = self.given(&lower, around).ok_or_else(|| no_such(name))?;
        Ok(match Known::find(&lower) {
            Some(known) => value::show(known, &raw),
            None => raw,
        })
    }

    /// A setting's name as SHOW writes it.
    pub(crate) fn shown_name(&self, name: &str) -> CompactString {
        let lower = CompactString::new(name.to_ascii_lowercase());
        match (Known::find(&lower), &self.custom) {
            (Some(known), _) => known.shown.into(),
            (None, Some(custom)) => custom.get(&lower).cloned().unwrap_or(lower),
            (None, None) => lower,
        }
    }

    /// All settings but those that programs have made up, as SHOW ALL gives them.
    pub(crate) fn all(&self, around: &Around<'_>) -> Vec<(&'static str, String)> {
        let hidden = |known: &Known| matches!(known.kind, Kind::Role);
        let shown = |known: &Known| Some((known.shown, self.show(known.name, around).ok()?));
        KNOWN.iter().filter(|known| !hidden(known)).filter_map(shown).collect()
    }

    /// All settings that have a meaning here, as `pg_settings` gives them.
    fn listed(&self, around: &Around<'_>) -> Vec<Listed> {
        let list = |known: &Known| {
            let (value, source) = self.given(known.name, around)?;
            let default = self.default_of(known.name).map(|(value, _)| value.to_owned());
            let default = default.or_else(|| Some(of_surroundings(known.name, around)?.0))?;
            let (kind, unit) = match known.kind {
                Kind::Bool | Kind::OnlyBool(_) => ("bool", None),
                Kind::Integer(_, _, unit) => ("integer", unit.shown()),
                Kind::Real(_, _, unit) => ("real", unit.shown()),
                Kind::OneOf(..) => ("enum", None),
                Kind::Mode if known.name == "transaction_isolation" => ("enum", None),
                Kind::Mode => ("bool", None),
                // A setting that cannot be set has no rule for its values, so its type is that of
                // its value.
                Kind::Fixed | Kind::OfServer if matches!(&*value, "on" | "off") => ("bool", None),
                Kind::Fixed | Kind::OfServer if value.parse::<i64>().is_ok() => ("integer", None),
                _ => ("string", None),
            };
            let context = match known.kind {
                Kind::Fixed | Kind::OfServer => "internal",
                _ if known.of_superusers => "superuser",
                _ => "user",
            };
            let (min, max) = match known.kind {
                Kind::Integer(min, max, _) => (Some(min.to_string()), Some(max.to_string())),
                Kind::Real(min, max, _) => (Some(value::general(min)), Some(value::general(max))),
                _ => (None, None),
            };
            let words = match known.kind {
                Kind::OneOf(here, _) => Some(value::told(known, here)),
                _ => None,
            };
            Some(Listed { name: known.shown, value, default, source, unit, kind, context, min, max, words })
        };
        KNOWN.iter().filter(|known| !matches!(known.kind, Kind::Role)).filter_map(list).collect()
    }

    /// Sets a checked value; `None` for the default. `local`: until the transaction ends.
    pub(crate) fn put(&mut self, name: &str, value: Option<String>, local: bool) {
        let lower = CompactString::new(name.to_ascii_lowercase());
        if Known::find(&lower).is_none() && !self.is_made_up(&lower) {
            self.custom.get_or_insert_default().insert(lower.clone(), name.into());
        }
        if local {
            self.local.get_or_insert_default().insert(lower, value);
        } else {
            // SET replaces a local value.
            self.forget_local_of(&lower);
            match value {
                Some(value) => self.values.insert(lower, value),
                None => self.values.remove(&lower),
            }
        }
        self.read_hot();
    }

    fn forget_local_of(&mut self, name: &str) {
        if let Some(local) = &mut self.local {
            local.remove(name);
        }
    }

    /// Checks a value and sets it.
    ///
    /// # Errors
    /// As [`checked`].
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, local: bool, is_superuser: bool) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        if Known::find(&lower).is_none() {
            // What is no name is told as it was written.
            is_custom(name)?;
        }
        let value = match value {
            Some(value) => Some(self.merged(&lower, value, checked(&lower, value, is_superuser)?)?),
            // A setting that cannot be set cannot be RESET.
            None => match Known::find(&lower) {
                Some(known) if known.of_superusers || matches!(known.kind, Kind::Fixed | Kind::OfServer) => {
                    checked(&lower, known.default, is_superuser).map(|_| None)?
                }
                Some(_) => None,
                None if is_custom(&lower)? => None,
                None => return Err(no_such(name)),
            },
        };
        self.put(name, value, local);
        Ok(())
    }

    /// A checked value, with what it does not name as it is now.
    fn merged(&self, name: &str, value: &str, checked: String) -> Result<String> {
        match Known::find(name) {
            Some(known) if matches!(known.kind, Kind::Dates) => value::date_style(known, value, self.text(name)),
            _ => Ok(checked),
        }
    }

    /// Sets the session's default, unless it was set from a source of higher rank.
    pub(crate) fn set_default(&mut self, name: &str, value: &str, by: DefaultBy) -> Result<()> {
        let lower = CompactString::new(name.to_ascii_lowercase());
        let value = self.merged(&lower, value, checked(&lower, value, true)?)?;
        if self.defaults.as_ref().and_then(|defaults| defaults.get(&lower)).is_some_and(|known| known.by > by) {
            return Ok(());
        }
        if Known::find(&lower).is_none() && !self.is_made_up(&lower) {
            self.custom.get_or_insert_default().insert(lower.clone(), name.into());
        }
        self.defaults.get_or_insert_default().insert(lower, SessionDefault { value, by });
        self.read_hot();
        Ok(())
    }

    /// Sets all to their defaults, except the session's user and the modes of its transaction.
    pub(crate) fn reset_all(&mut self) {
        let stays = |name: &str| Known::find(name).is_some_and(Known::outlives_reset_all);
        self.values.retain(stays);
        if let Some(local) = &mut self.local {
            local.retain(stays);
        }
        self.read_hot();
    }

    /// What the session has set, and its defaults with their sources, under the names that are shown.
    pub(crate) fn carried(&self) -> CarriedSettings {
        let shown = |name: &CompactString| self.shown_name(name).to_string();
        let values = self.values.keys().filter_map(|name| Some((shown(name), self.values.get(name)?.clone())));
        let defaults = self
            .defaults
            .iter()
            .flat_map(|defaults| defaults.keys().filter_map(|name| Some((name, defaults.get(name)?))));
        // The server's own follow from the machine that it runs on.
        let defaults = defaults.filter(|(_, default)| default.by != DefaultBy::Server);
        let defaults = defaults.map(|(name, default)| (shown(name), default.value.clone(), default.by));
        CarriedSettings { values: values.collect(), defaults: defaults.collect() }
    }

    /// Takes what [`Settings::carried`] has given elsewhere. The values were checked there.
    pub(crate) fn take_in(&mut self, carried: &CarriedSettings) {
        for (name, value, by) in &carried.defaults {
            let lower = CompactString::new(name.to_ascii_lowercase());
            if Known::find(&lower).is_none() {
                self.custom.get_or_insert_default().insert(lower.clone(), name.as_str().into());
            }
            let default = SessionDefault { value: value.clone(), by: *by };
            self.defaults.get_or_insert_default().insert(lower, default);
        }
        for (name, value) in &carried.values {
            self.put(name, Some(value.clone()), false);
        }
        self.read_hot();
    }

    /// Whether no value was set in either since one was cloned from the other.
    pub(crate) fn are_still(&self, other: &Self) -> bool {
        fn is_still<V: Clone>(one: &Option<SharedMap<V>>, other: &Option<SharedMap<V>>) -> bool {
            match (one, other) {
                (Some(one), Some(other)) => one.is_still(other),
                (None, None) => true,
                _ => false,
            }
        }
        self.values.is_still(&other.values)
            && is_still(&self.defaults, &other.defaults)
            && is_still(&self.local, &other.local)
    }

    /// Undoes the changes since a copy was made.
    pub(crate) fn go_back_to(&mut self, before: Self) {
        let custom = self.custom.take();
        *self = before;
        self.custom = custom;
    }

    /// Drops the values of SET LOCAL at the end of the transaction. Gives whether there were any.
    pub(crate) fn forget_local(&mut self) -> bool {
        let had = self.local.take().is_some();
        if had {
            self.read_hot();
        }
        had
    }

    /// Whether there are values of SET LOCAL.
    pub(crate) fn has_local(&self) -> bool {
        self.local.is_some()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.raw(name).unwrap_or_default()
    }

    /// A time limit; `None` if there is none.
    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        match self.raw(name).and_then(|raw| raw.parse().ok()) {
            None | Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
        }
    }

    /// The schemas of the search path, for a user.
    pub(crate) fn search_path(&self, user: &str) -> SearchPath {
        let mut path = Vec::new();
        let mut known = HashSet::new();
        for name in names(self.text("search_path")).unwrap_or_default() {
            pulse::note(UNITS_PER_NAME);
            let mut name = if name == "$user" { user.into() } else { CompactString::from(name) };
            while name.len() > colibri_catalog::NAME_BYTES_MAX {
                name.pop();
            }
            if !name.is_empty() && known.insert(name.clone()) {
                path.push(name);
            }
        }
        path.into()
    }
}

/// A mode of a transaction, as SHOW gives it.
fn mode_shown(name: &str, modes: Modes) -> Option<&'static str> {
    let flag = |on| if on { "on" } else { "off" };
    match name {
        "transaction_isolation" => Some(modes.level.name()),
        "transaction_read_only" => Some(flag(modes.read_only)),
        "transaction_deferrable" => Some(flag(modes.deferrable)),
        _ => None,
    }
}

/// The default of a setting.
fn of_surroundings(name: &str, around: &Around<'_>) -> Option<(String, Source)> {
    let known = Known::find(name)?;
    match known.name {
        "is_superuser" => {
            return Some((if around.is_superuser { "on" } else { "off" }.to_owned(), Source::Default));
        }
        "session_authorization" => return Some((around.session_user.to_owned(), Source::Default)),
        _ => {}
    }
    match around.server.and_then(|server| server.setting(name)) {
        Some(value) => Some((value, Source::By(DefaultBy::Server))),
        None if matches!(known.kind, Kind::OfServer) => None,
        None => Some((known.default.to_owned(), Source::Default)),
    }
}

/// A setting as `pg_settings` lists it.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// The value that RESET goes back to.
    pub(crate) default: String,
    pub(crate) source: Source,
    pub(crate) unit: Option<&'static str>,
    /// `bool`, `integer`, `real`, `enum` or `string`
    pub(crate) kind: &'static str,
    /// Who may set it; `internal` means that it cannot be set.
    pub(crate) context: &'static str,
    /// The least and the greatest number that it may be.
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    /// The words that it may be.
    pub(crate) words: Option<Vec<&'static str>>,
}

/// All settings of the current session, for `pg_settings`.
pub(crate) fn for_catalog(env: &colibri_types::Env) -> Vec<Listed> {
    let names = env.names();
    let is_superuser = names.authority.as_ref().is_none_or(|authority| authority.is_superuser());
    let (server, modes) = (names.cluster.as_deref(), names.modes);
    let is_standby = names.engine.as_ref().is_some_and(|engine| engine.is_standby());
    names.settings.listed(&Around { server, is_superuser, modes, session_user: &env.user, is_standby })
}

#[cfg(test)]
mod tests;
