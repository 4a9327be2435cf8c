//! The catalogue and the server around a session, as of a statement's beginning: what functions of
//! the catalogue see.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use colibri_catalog::{
    Catalog, ObjectId, Sequence, cluster,
    cluster::{Authority, Cluster, Roles},
};
use colibri_types::{ColumnType, Env, Result};
use compact_str::CompactString;
use parking_lot::Mutex;

use crate::session::{Engine, Modes, OwnSequence, Settings, TemporaryPlaces};

/// The schemas that are looked through for a name without one, in this order. Statements keep it:
/// there may be many.
pub(crate) type SearchPath = Arc<[CompactString]>;

/// A statement that was prepared under a name.
#[derive(Debug, Clone)]
pub(crate) struct PreparedInfo {
    pub(crate) name: CompactString,
    pub(crate) statement: Arc<str>,
    pub(crate) types: Vec<ColumnType>,
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
    pub(crate) search_path: SearchPath,
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
    /// Where its temporary sequences stand.
    pub(crate) temporary_places: TemporaryPlaces,
    /// What it has open.
    pub(crate) listed: Arc<Listed>,
}

/// What a session has open, for `pg_cursors` and `pg_prepared_statements`.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) cursors: Mutex<Vec<CursorInfo>>,
    pub(crate) prepared: Mutex<Vec<PreparedInfo>>,
    /// What its transaction has done to sequences.
    pub(crate) sequences: Mutex<HashMap<ObjectId, Arc<OwnSequence>>>,
}

impl Surroundings {
    /// A sequence's value, and whether it has given it, as the transaction at hand sees it.
    ///
    /// Bug: the catalogue showed where a sequence stands for all. Consequence: a transaction that
    /// had set one back did not see that. Fix: what the transaction has done is asked first.
    pub(crate) fn sequence_state(&self, sequence: &Sequence) -> Result<Option<(i64, bool)>> {
        let own = self.listed.sequences.lock().get(&sequence.id).and_then(|own| own.apart());
        match (own, &self.engine) {
            (Some(own), _) => Ok(Some(own)),
            (None, _) if colibri_catalog::temporary::is_temporary(sequence.id) => {
                let place = self.temporary_places.lock().get(&sequence.id).copied();
                Ok(Some(place.map_or((sequence.start, false), |place| (place.value, place.called))))
            }
            (None, Some(engine)) => engine.sequence_state(sequence).map(Some),
            (None, None) => Ok(None),
        }
    }
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("pid", &self.pid).finish_non_exhaustive()
    }
}

static NOTHING: LazyLock<Surroundings> = LazyLock::new(Surroundings::default);

/// What functions of the catalogue find around them.
pub(crate) trait Names {
    /// What names mean; without a session, nothing.
    fn names(&self) -> &Surroundings;
}

impl Names for Env {
    fn names(&self) -> &Surroundings {
        let around: Option<&dyn Any> = self.surroundings.as_deref().map(|around| around as _);
        around.and_then(|around| around.downcast_ref()).unwrap_or(&NOTHING)
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
                locale: engine.database_locale(),
                is_template: false,
            }],
            (None, None) => Vec::new(),
        }
    }
}
