//! The user of a session, the role that its statements run as (SET ROLE), and what that role may
//! do.
//!
//! Invariant: authority is looked up again with the first statement after the cluster has changed.

use std::sync::Arc;

use colibri_catalog::{
    cluster,
    cluster::{Authority, Cluster, RoleId},
};
use colibri_types::Result;

use super::{Engine, Session};

impl Session {
    /// A session of an authenticated user on a database of a cluster. `pid` is the number by which
    /// it is cancelled.
    ///
    /// # Errors
    /// As [`cluster::admit`].
    pub fn in_cluster(engine: &Arc<Engine>, cluster: &Arc<dyn Cluster>, user: &str, pid: i32) -> Result<Self> {
        let (role, database) = cluster::admit(&**cluster, user, engine.name())?;
        let mut session = Self::with_number(engine, user, pid);
        session.own.cluster = Some(Arc::clone(cluster));
        session.own.session_user = role;
        session.own.login_role = role;
        session.renew_authority(role);
        session.heed_kept_settings(database.oid, role);
        Ok(session)
    }

    /// Looks up again what a role may do.
    pub(super) fn renew_authority(&mut self, role: RoleId) {
        let Some(cluster) = &self.own.cluster else { return };
        // The version is read first: a change during the look-up makes it happen once more.
        let version = cluster.version();
        let owner = cluster.databases().into_iter().find(|known| known.name == self.own.engine.name());
        let owner = owner.map_or(cluster::BOOTSTRAP_ROLE, |database| database.owner);
        let roles = cluster.roles();
        self.own.authority = Arc::new(Authority::of(&roles, role, owner));
        self.own.user = roles.name_of(role);
        self.own.cluster_version = version;
        // `is_superuser` may have changed.
        self.settings_version = self.settings_version.wrapping_add(1);
        self.env.user = self.own.user.clone();
        self.env.surroundings = None;
    }

    /// The role that statements run as.
    pub(crate) fn role(&self) -> RoleId {
        self.own.authority.role
    }

    /// What the user may do.
    pub(crate) fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.own.authority)
    }

    /// The session's user.
    pub(crate) fn session_role(&self) -> RoleId {
        self.own.session_user
    }

    /// The server around the session, if there is one.
    pub(crate) fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.own.cluster.clone()
    }

    /// All roles; without a server, the user alone.
    pub(crate) fn all_roles(&self) -> Arc<cluster::Roles> {
        match &self.own.cluster {
            Some(cluster) => cluster.roles(),
            None => Arc::new(cluster::Roles::new(&self.own.login)),
        }
    }

    /// The session's database, as the server knows it.
    pub(crate) fn own_database_info(&self) -> cluster::DatabaseInfo {
        let all = self.own.cluster.as_ref().map(|cluster| cluster.databases()).unwrap_or_default();
        let name = self.own.engine.name();
        all.into_iter().find(|database| database.name == name).unwrap_or_else(|| cluster::DatabaseInfo {
            oid: 5,
            name: name.into(),
            owner: cluster::BOOTSTRAP_ROLE,
            allow_connections: true,
            connection_limit: -1,
            acl: None,
            comment: None,
            locale: self.own.engine.database_locale(),
            is_template: false,
        })
    }
}
