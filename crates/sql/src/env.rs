//! What a pure function may know of the session that calls it.
//!
//! Functions see values and an [`Env`], nothing else: no transaction. What they may know of the catalogue, as of the
//! statement's beginning, and of the server are the [`Surroundings`]. What changes something (sequences, settings) is the
//! session's business.

use std::sync::{Arc, LazyLock};

use compact_str::CompactString;

use crate::catalog::Catalog;
use crate::cluster::{self, Authority, Cluster, Roles};
use crate::datetime::Zone;
use crate::session::{Engine, Modes, Settings};
use crate::types::Type;

/// The surroundings of an expression: fixed while one statement runs.
#[derive(Debug, Clone)]
pub struct Env {
    /// When the transaction began, in microseconds since 2000-01-01 00:00 UTC: `now()`.
    pub transaction_us: i64,
    /// When the statement came in, in microseconds since 2000-01-01 00:00 UTC: `statement_timestamp()`.
    pub statement_us: i64,
    /// The session's time zone.
    pub zone: Zone,
    /// Who is logged in.
    pub user: CompactString,
    /// The database's name.
    pub database: CompactString,
    /// The first schema of the search path.
    pub schema: CompactString,
    /// The setting `extra_float_digits`: above 0, the shortest digits that name a float exactly.
    pub extra_float_digits: i32,
    /// The catalogue and the server, if there is a session.
    pub(crate) surroundings: Option<Arc<Surroundings>>,
    /// Cursors of the transaction at hand, for `pg_cursors`.
    pub(crate) cursors: Vec<CursorInfo>,
    /// Statements that the session has prepared, for `pg_prepared_statements`.
    pub(crate) prepared: Vec<PreparedInfo>,
}

/// A statement that was prepared under a name.
#[derive(Debug, Clone)]
pub(crate) struct PreparedInfo {
    pub(crate) name: CompactString,
    pub(crate) statement: Arc<str>,
    pub(crate) types: Vec<Type>,
    /// By PREPARE, not by the protocol.
    pub(crate) from_sql: bool,
    /// When, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) prepared_us: i64,
}

/// A cursor that was declared.
#[derive(Debug, Clone)]
pub(crate) struct CursorInfo {
    pub(crate) name: CompactString,
    pub(crate) statement: String,
    pub(crate) is_binary: bool,
    pub(crate) is_scrollable: bool,
    pub(crate) is_holdable: bool,
    /// When, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) declared_us: i64,
}

/// The catalogue and the server around a session: made anew when one of them changes.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) catalog: Arc<Catalog>,
    /// Schemas that names are looked up in.
    pub(crate) search_path: Vec<CompactString>,
    pub(crate) engine: Option<Arc<Engine>>,
    pub(crate) cluster: Option<Arc<dyn Cluster>>,
    /// Without a cluster, the session's user alone.
    pub(crate) roles: Option<Arc<Roles>>,
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) settings: Settings,
    /// What the block at hand is like.
    pub(crate) modes: Option<Modes>,
    /// The session's number.
    pub(crate) pid: i32,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("pid", &self.pid).finish_non_exhaustive()
    }
}

static NOTHING: LazyLock<Surroundings> = LazyLock::new(Surroundings::default);

impl Env {
    /// What names mean; without a session, nothing.
    pub(crate) fn names(&self) -> &Surroundings {
        self.surroundings.as_deref().unwrap_or(&NOTHING)
    }
}

impl Surroundings {
    /// The roles there are.
    pub(crate) fn roles(&self) -> Arc<Roles> {
        match (&self.roles, &self.cluster) {
            (_, Some(cluster)) => cluster.roles(),
            (Some(roles), None) => Arc::clone(roles),
            (None, None) => Arc::new(Roles::new("colibri")),
        }
    }

    /// The databases there are.
    pub(crate) fn databases(&self) -> Vec<cluster::DatabaseInfo> {
        match (&self.cluster, &self.engine) {
            (Some(cluster), _) => cluster.databases(),
            (None, Some(engine)) => vec![cluster::DatabaseInfo {
                oid: 5,
                name: engine.name().into(),
                owner: cluster::BOOTSTRAP_ROLE,
                allow_connections: true,
                connection_limit: -1,
                acl: None,
                comment: None,
            }],
            (None, None) => Vec::new(),
        }
    }
}

impl Default for Env {
    fn default() -> Self {
        Self {
            transaction_us: 0,
            statement_us: 0,
            zone: Zone::Utc,
            user: CompactString::const_new("colibri"),
            database: CompactString::const_new("colibri"),
            schema: CompactString::const_new("public"),
            extra_float_digits: 1,
            surroundings: None,
            cursors: Vec::new(),
            prepared: Vec::new(),
        }
    }
}

/// The wall clock, in microseconds since 2000-01-01 00:00 UTC.
#[must_use]
pub fn clock_us() -> i64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    unix.as_micros() as i64 - crate::datetime::UNIX_EPOCH_TO_2000_US
}
