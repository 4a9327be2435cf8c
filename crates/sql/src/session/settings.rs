//! Settings of a session: SET, SHOW, RESET, and the lists of them.
//!
//! A setting has the value that was SET, else the session's default, else the server's, else that in the table below. SHOW,
//! `current_setting` and `pg_settings` all ask `Settings::given`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use colibri_txn::Isolation;
use compact_str::CompactString;

use crate::cluster::Cluster;
use crate::error::{Error, Result, SqlState};

/// A setting that there is.
struct Known {
    name: &'static str,
    default: &'static str,
    /// How a value is checked and brought into its usual form.
    kind: Kind,
}

enum Kind {
    Text,
    Bool,
    /// In milliseconds.
    Duration,
    Integer(i64, i64),
    /// In kilobytes.
    Memory,
    OneOf(&'static [&'static str]),
    Dates,
    Zone,
    /// Cannot be set.
    Fixed,
    /// Likewise, and there is none of it without a server.
    OfServer,
}

const ISOLATIONS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

const KNOWN: &[Known] = &[
    Known { name: "application_name", default: "", kind: Kind::Text },
    Known { name: "bytea_output", default: "hex", kind: Kind::OneOf(&["hex"]) },
    Known { name: "check_function_bodies", default: "on", kind: Kind::Bool },
    Known {
        name: "client_encoding",
        default: "UTF8",
        kind: Kind::OneOf(&["UTF8", "UTF-8", "utf8", "unicode", "SQL_ASCII"]),
    },
    Known { name: "client_min_messages", default: "notice", kind: Kind::Text },
    // When a statement that takes long goes on in the pool for work that nobody waits for; 0 for never. Heeded by servers.
    Known { name: "colibri.batch_after", default: "10", kind: Kind::Duration },
    Known { name: "colibri.priority", default: "user", kind: Kind::OneOf(&["user", "batch"]) },
    Known { name: "data_directory", default: "", kind: Kind::OfServer },
    Known { name: "datestyle", default: "ISO, MDY", kind: Kind::Dates },
    Known { name: "default_table_access_method", default: "heap", kind: Kind::OneOf(&["heap"]) },
    Known { name: "default_tablespace", default: "", kind: Kind::Text },
    Known { name: "default_transaction_deferrable", default: "off", kind: Kind::Bool },
    Known { name: "default_transaction_isolation", default: "serializable", kind: Kind::OneOf(ISOLATIONS) },
    Known { name: "default_transaction_read_only", default: "off", kind: Kind::Bool },
    // The planner heeds none of these: they are taken for the sake of programs that set them.
    Known { name: "enable_bitmapscan", default: "on", kind: Kind::Bool },
    Known { name: "enable_hashagg", default: "on", kind: Kind::Bool },
    Known { name: "enable_hashjoin", default: "on", kind: Kind::Bool },
    Known { name: "enable_indexonlyscan", default: "on", kind: Kind::Bool },
    Known { name: "enable_indexscan", default: "on", kind: Kind::Bool },
    Known { name: "enable_material", default: "on", kind: Kind::Bool },
    Known { name: "enable_mergejoin", default: "on", kind: Kind::Bool },
    Known { name: "enable_nestloop", default: "on", kind: Kind::Bool },
    Known { name: "enable_seqscan", default: "on", kind: Kind::Bool },
    Known { name: "enable_sort", default: "on", kind: Kind::Bool },
    Known { name: "extra_float_digits", default: "1", kind: Kind::Integer(-15, 3) },
    Known { name: "idle_in_transaction_session_timeout", default: "0", kind: Kind::Duration },
    Known { name: "in_hot_standby", default: "off", kind: Kind::Fixed },
    Known { name: "integer_datetimes", default: "on", kind: Kind::Fixed },
    Known { name: "intervalstyle", default: "postgres", kind: Kind::OneOf(&["postgres"]) },
    Known { name: "is_superuser", default: "on", kind: Kind::Fixed },
    Known { name: "jit", default: "off", kind: Kind::Bool },
    Known { name: "lc_collate", default: "C", kind: Kind::Fixed },
    Known { name: "lc_ctype", default: "C.UTF-8", kind: Kind::Fixed },
    Known { name: "lc_messages", default: "C", kind: Kind::Text },
    Known { name: "lc_monetary", default: "C", kind: Kind::Text },
    Known { name: "lc_numeric", default: "C", kind: Kind::Text },
    Known { name: "lc_time", default: "C", kind: Kind::Text },
    Known { name: "listen_addresses", default: "", kind: Kind::OfServer },
    Known { name: "lock_timeout", default: "0", kind: Kind::Duration },
    Known { name: "max_connections", default: "100", kind: Kind::Fixed },
    Known { name: "max_identifier_length", default: "63", kind: Kind::Fixed },
    Known { name: "max_index_keys", default: "32", kind: Kind::Fixed },
    Known { name: "port", default: "", kind: Kind::OfServer },
    Known { name: "row_security", default: "on", kind: Kind::Bool },
    Known { name: "search_path", default: "\"$user\", public", kind: Kind::Text },
    Known { name: "server_encoding", default: "UTF8", kind: Kind::Fixed },
    Known { name: "server_version", default: crate::session::SERVER_VERSION, kind: Kind::Fixed },
    Known { name: "server_version_num", default: "150000", kind: Kind::Fixed },
    Known { name: "ssl", default: "", kind: Kind::OfServer },
    Known { name: "standard_conforming_strings", default: "on", kind: Kind::OneOf(&["on"]) },
    Known { name: "statement_timeout", default: "0", kind: Kind::Duration },
    Known { name: "synchronous_commit", default: "on", kind: Kind::Text },
    Known { name: "timezone", default: "UTC", kind: Kind::Zone },
    Known { name: "transaction_deferrable", default: "off", kind: Kind::Bool },
    Known { name: "transaction_isolation", default: "serializable", kind: Kind::OneOf(ISOLATIONS) },
    Known { name: "transaction_read_only", default: "off", kind: Kind::Bool },
    Known { name: "unix_socket_directories", default: "", kind: Kind::OfServer },
    Known { name: "work_mem", default: "262144", kind: Kind::Memory },
    Known { name: "xmloption", default: "content", kind: Kind::Text },
];

/// The values of all settings that are not at their defaults.
///
/// Invariant: `hot` says what the values say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    values: Arc<BTreeMap<CompactString, String>>,
    /// Defaults of this session: what RESET goes back to.
    defaults: Option<Arc<BTreeMap<CompactString, SessionDefault>>>,
    hot: Hot,
}

/// What settings are read with that are not the session's to keep.
pub(crate) struct Around<'a> {
    pub(crate) server: Option<&'a dyn Cluster>,
    /// Whether statements run as a superuser.
    pub(crate) is_superuser: bool,
}

/// What a session's setting is unless it is SET.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SessionDefault {
    value: String,
    by: DefaultBy,
}

/// Who says what a session's setting is unless it is SET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultBy {
    /// The server, of all sessions.
    Server,
    /// The client, as it connects.
    Client,
}

/// Where a setting's value comes from, as `pg_settings` calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    /// The server, of itself or of all sessions.
    Server,
    Client,
    Session,
}

impl Source {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Server => "command line",
            Self::Client => "client",
            Self::Session => "session",
        }
    }
}

/// What every statement asks for, read once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    /// `default_transaction_isolation`
    pub(crate) isolation: Isolation,
    /// `default_transaction_read_only`
    pub(crate) is_read_only: bool,
    /// `work_mem`: bytes that a statement may keep in memory.
    pub(crate) work_bytes: usize,
    /// `statement_timeout`
    pub(crate) statement_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self { values: Arc::default(), defaults: None, hot: Hot::default() };
        settings.read_hot();
        settings
    }
}

fn known(name: &str) -> Option<&'static Known> {
    KNOWN.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| &KNOWN[at])
}

fn no_such(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn invalid(name: &str, value: &str) -> Error {
    Error::new(SqlState::BAD_PARAMETER, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

fn parse_bool(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// How dates are written and read: in one style only.
fn is_utf8(encoding: &str) -> bool {
    let letters = encoding.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    letters.eq(*b"utf8")
}

fn date_style(value: &str) -> Result<String> {
    for part in value.split(',') {
        match part.trim().to_ascii_lowercase().as_str() {
            "iso" | "mdy" | "us" | "noneuro" | "noneuropean" | "default" => {}
            "dmy" | "euro" | "european" | "ymd" | "sql" | "postgres" | "german" => {
                return Err(Error::unsupported(format_args!("DateStyle {part}")));
            }
            _ => return Err(invalid("DateStyle", value)),
        }
    }
    Ok("ISO, MDY".to_owned())
}

/// A number with a unit, in the smallest unit.
fn parse_with_unit(text: &str, units: &[(&str, f64)], base: f64) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim();
    let factor = if unit.is_empty() { base } else { units.iter().find(|(name, _)| *name == unit)?.1 };
    let value = (number * factor / base).round();
    (value >= 0.0 && value <= f64::from(i32::MAX)).then_some(value as i64)
}

const TIMES: &[(&str, f64)] =
    &[("us", 0.001), ("ms", 1.0), ("s", 1_000.0), ("min", 60_000.0), ("h", 3_600_000.0), ("d", 86_400_000.0)];
const SIZES: &[(&str, f64)] =
    &[("B", 1.0 / 1024.0), ("kB", 1.0), ("MB", 1024.0), ("GB", 1024.0 * 1024.0), ("TB", 1024.0 * 1024.0 * 1024.0)];

fn show_time(ms: i64) -> String {
    match ms {
        0 => "0".to_owned(),
        ms if ms % 86_400_000 == 0 => format!("{}d", ms / 86_400_000),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

fn show_size(kilobytes: i64) -> String {
    match kilobytes {
        kb if kb % (1 << 20) == 0 && kb > 0 => format!("{}GB", kb >> 20),
        kb if kb % (1 << 10) == 0 && kb > 0 => format!("{}MB", kb >> 10),
        kb => format!("{kb}kB"),
    }
}

/// Checks a value, and brings it into its usual form.
fn usual(name: &str, value: &str) -> Result<String> {
    let Some(known) = known(name) else {
        // A name with a dot is a program's own.
        return if name.contains('.') { Ok(value.to_owned()) } else { Err(no_such(name)) };
    };
    Ok(match &known.kind {
        Kind::Text => value.to_owned(),
        Kind::Bool => match parse_bool(value) {
            Some(true) => "on".to_owned(),
            Some(false) => "off".to_owned(),
            None => {
                let message = format!("parameter \"{}\" requires a Boolean value", known.name);
                return Err(Error::new(SqlState::BAD_PARAMETER, message));
            }
        },
        Kind::Duration => parse_with_unit(value, TIMES, 1.0).ok_or_else(|| invalid(known.name, value))?.to_string(),
        Kind::Memory => parse_with_unit(value, SIZES, 1.0).ok_or_else(|| invalid(known.name, value))?.to_string(),
        Kind::Integer(min, max) => {
            let number: i64 = value.trim().parse().map_err(|_| invalid(known.name, value))?;
            if !(*min..=*max).contains(&number) {
                let message =
                    format!("{number} is outside the valid range for parameter \"{}\" ({min} .. {max})", known.name);
                return Err(Error::new(SqlState::BAD_PARAMETER, message));
            }
            number.to_string()
        }
        Kind::OneOf(_) if known.name == "bytea_output" && value.eq_ignore_ascii_case("escape") => {
            return Err(Error::unsupported("bytea_output escape"));
        }
        // A driver puts the name into quotes; PostgreSQL looks at nothing but its letters and digits.
        Kind::OneOf(_) if known.name == "client_encoding" && is_utf8(value) => "UTF8".to_owned(),
        Kind::OneOf(choices) => choices
            .iter()
            .find(|choice| choice.eq_ignore_ascii_case(value))
            .map(|choice| if known.name == "client_encoding" { "UTF8".to_owned() } else { (*choice).to_owned() })
            .ok_or_else(|| invalid(known.name, value))?,
        Kind::Dates => date_style(value)?,
        Kind::Zone => {
            crate::datetime::Zone::parse(value).map_err(|_| invalid("TimeZone", value))?;
            value.to_owned()
        }
        Kind::Fixed | Kind::OfServer => {
            let message = format!("parameter \"{}\" cannot be changed", known.name);
            return Err(Error::new(SqlState("55P02"), message));
        }
    })
}

impl Settings {
    pub(crate) fn hot(&self) -> &Hot {
        &self.hot
    }

    fn read_hot(&mut self) {
        self.hot = Hot {
            isolation: super::block::isolation_of(self.text("default_transaction_isolation")),
            is_read_only: self.raw("default_transaction_read_only") == Some("on"),
            work_bytes: self.raw("work_mem").and_then(|raw| raw.parse::<usize>().ok()).unwrap_or(262_144) << 10,
            statement_timeout: self.duration("statement_timeout"),
        };
    }

    /// What the session itself knows of a setting.
    fn raw(&self, name: &str) -> Option<&str> {
        match self.own(name) {
            Some((value, _)) => Some(value),
            None => known(name).map(|known| known.default),
        }
    }

    fn own(&self, name: &str) -> Option<(&str, Source)> {
        match self.values.get(name) {
            Some(value) => Some((value, Source::Session)),
            None => self.default_of(name),
        }
    }

    fn default_of(&self, name: &str) -> Option<(&str, Source)> {
        let default = self.defaults.as_ref()?.get(name)?;
        let source = match default.by {
            DefaultBy::Server => Source::Server,
            DefaultBy::Client => Source::Client,
        };
        Some((&default.value, source))
    }

    /// A value in the smallest unit, and where it comes from; `None` if there is no such setting.
    fn given(&self, name: &str, around: &Around<'_>) -> Option<(String, Source)> {
        let own = self.own(name).map(|(value, source)| (value.to_owned(), source));
        own.or_else(|| of_surroundings(name, around))
    }

    /// As SHOW gives it.
    pub(crate) fn show(&self, name: &str, around: &Around<'_>) -> Result<String> {
        let name = name.to_ascii_lowercase();
        let (raw, _) = self.given(&name, around).ok_or_else(|| no_such(&name))?;
        Ok(match known(&name).map(|known| &known.kind) {
            Some(Kind::Duration) => show_time(raw.parse().unwrap_or(0)),
            Some(Kind::Memory) => show_size(raw.parse().unwrap_or(0)),
            _ => raw,
        })
    }

    /// All settings, as SHOW ALL gives them.
    pub(crate) fn all(&self, around: &Around<'_>) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = KNOWN
            .iter()
            .filter_map(|known| Some((known.name.to_owned(), self.show(known.name, around).ok()?)))
            .collect();
        let custom = self.values.iter().filter(|(name, _)| known(name).is_none());
        all.extend(custom.map(|(name, value)| (name.to_string(), value.clone())));
        all
    }

    /// All settings that have a meaning here, as `pg_settings` gives them.
    fn listed(&self, around: &Around<'_>) -> Vec<Listed> {
        let list = |known: &Known| {
            let (value, source) = self.given(known.name, around)?;
            let default = self.default_of(known.name).map(|(value, _)| value.to_owned());
            let default = default.or_else(|| Some(of_surroundings(known.name, around)?.0))?;
            let (kind, unit) = match known.kind {
                Kind::Bool => ("bool", None),
                Kind::Duration => ("integer", Some("ms")),
                Kind::Memory => ("integer", Some("kB")),
                Kind::Integer(..) => ("integer", None),
                Kind::OneOf(_) => ("enum", None),
                // What cannot be set has no rule for its values: they tell.
                Kind::Fixed | Kind::OfServer if matches!(&*value, "on" | "off") => ("bool", None),
                Kind::Fixed | Kind::OfServer if value.parse::<i64>().is_ok() => ("integer", None),
                _ => ("string", None),
            };
            let fixed = matches!(known.kind, Kind::Fixed | Kind::OfServer);
            Some(Listed { name: known.name, value, default, source, unit, kind, fixed })
        };
        KNOWN.iter().filter_map(list).collect()
    }

    /// Sets a value; `None` for the default.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_lowercase();
        match value {
            Some(value) => {
                let usual = usual(&name, value)?;
                Arc::make_mut(&mut self.values).insert(name.into(), usual);
            }
            None if known(&name).is_none() && !name.contains('.') => return Err(no_such(&name)),
            None => _ = Arc::make_mut(&mut self.values).remove(name.as_str()),
        }
        self.read_hot();
        Ok(())
    }

    /// Sets what RESET goes back to.
    pub(crate) fn set_default(&mut self, name: &str, value: &str, by: DefaultBy) -> Result<()> {
        let name = name.to_ascii_lowercase();
        let value = usual(&name, value)?;
        Arc::make_mut(self.defaults.get_or_insert_default()).insert(name.into(), SessionDefault { value, by });
        self.read_hot();
        Ok(())
    }

    /// Sets all to their defaults.
    pub(crate) fn reset_all(&mut self) {
        self.values = Arc::default();
        self.read_hot();
    }

    /// Whether nothing was set since these were cloned from others, or others from these.
    pub(crate) fn are_still(&self, other: &Self) -> bool {
        let defaults = |settings: &Self| settings.defaults.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.values, &other.values) && defaults(self) == defaults(other)
    }

    /// Takes one setting's value from elsewhere.
    pub(crate) fn restore(&mut self, from: &Self, name: &str) {
        let values = Arc::make_mut(&mut self.values);
        match from.values.get(name) {
            Some(value) => _ = values.insert(name.into(), value.clone()),
            None => _ = values.remove(name),
        }
        self.read_hot();
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

    /// The schemas looked through, for a user.
    pub(crate) fn search_path(&self, user: &str) -> Vec<CompactString> {
        let mut path = Vec::new();
        for part in self.text("search_path").split(',') {
            let part = part.trim();
            let name = match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
                Some(quoted) => CompactString::new(quoted),
                None => CompactString::new(part.trim_matches('\'').to_lowercase()),
            };
            let name = if name == "$user" { user.into() } else { name };
            if !name.is_empty() && !path.contains(&name) {
                path.push(name);
            }
        }
        path
    }
}

/// What a setting is that no session has changed.
fn of_surroundings(name: &str, around: &Around<'_>) -> Option<(String, Source)> {
    let known = known(name)?;
    if known.name == "is_superuser" {
        return Some((if around.is_superuser { "on" } else { "off" }.to_owned(), Source::Default));
    }
    match around.server.and_then(|server| server.setting(name)) {
        Some(value) => Some((value, Source::Server)),
        None if matches!(known.kind, Kind::OfServer) => None,
        None => Some((known.default.to_owned(), Source::Default)),
    }
}

/// A setting as `pg_settings` lists it.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// What RESET goes back to.
    pub(crate) default: String,
    pub(crate) source: Source,
    pub(crate) unit: Option<&'static str>,
    /// `bool`, `integer`, `enum` or `string`
    pub(crate) kind: &'static str,
    /// It cannot be set.
    pub(crate) fixed: bool,
}

/// All settings of the session around, for `pg_settings`.
pub(crate) fn for_catalog(env: &crate::env::Env) -> Vec<Listed> {
    let names = env.names();
    let is_superuser = names.authority.as_ref().is_none_or(|authority| authority.is_superuser());
    names.settings.listed(&Around { server: names.cluster.as_deref(), is_superuser })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Without a server the user is a superuser.
    const ALONE: Around<'static> = Around { server: None, is_superuser: true };

    #[test]
    fn settings_are_listed_in_order() {
        assert!(KNOWN.is_sorted_by_key(|known| known.name));
    }

    #[test]
    fn what_statements_ask_for_follows_every_change() {
        let mut settings = Settings::default();
        let first = *settings.hot();
        assert_eq!((first.isolation, first.is_read_only), (Isolation::Serializable, false));
        assert_eq!((first.work_bytes, first.statement_timeout), (256 << 20, None));
        settings.set("default_transaction_isolation", Some("read committed")).unwrap();
        settings.set("default_transaction_read_only", Some("yes")).unwrap();
        settings.set("work_mem", Some("1MB")).unwrap();
        settings.set("statement_timeout", Some("5s")).unwrap();
        let all = *settings.hot();
        assert_eq!((all.isolation, all.is_read_only), (Isolation::ReadCommitted, true));
        assert_eq!((all.work_bytes, all.statement_timeout), (1 << 20, Some(Duration::from_secs(5))));
        let before = settings.clone();
        settings.set("work_mem", None).unwrap();
        assert_eq!(settings.hot().work_bytes, first.work_bytes);
        settings.restore(&before, "work_mem");
        assert_eq!(settings.hot().work_bytes, 1 << 20);
        settings.set_default("work_mem", "2MB", DefaultBy::Server).unwrap();
        settings.reset_all();
        assert_eq!(*settings.hot(), Hot { work_bytes: 2 << 20, ..first });
    }

    #[test]
    fn values_take_their_usual_form() {
        let mut settings = Settings::default();
        settings.set("statement_timeout", Some("2min")).unwrap();
        assert_eq!(settings.show("Statement_Timeout", &ALONE).unwrap(), "2min");
        assert_eq!(settings.duration("statement_timeout"), Some(Duration::from_secs(120)));
        settings.set("row_security", Some("FALSE")).unwrap();
        assert_eq!(settings.show("row_security", &ALONE).unwrap(), "off");
        settings.set("search_path", Some("a, \"B\", $user")).unwrap();
        assert_eq!(settings.search_path("me"), ["a", "B", "me"]);
        assert!(settings.set("no_such_thing", Some("1")).is_err());
        assert!(settings.set("server_version", Some("1")).is_err());
        assert!(settings.set("port", Some("1")).is_err());
        assert!(settings.set("extra_float_digits", Some("9")).is_err());
    }
}
