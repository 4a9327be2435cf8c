//! As whom a session is, as whom its statements run (SET ROLE), and what that role may do.
//!
//! Invariant: authority is looked up again with the first statement after the cluster has changed.

use std::sync::Arc;

use super::{Engine, Session, TransactionState};
use crate::cluster::{self, Authority, Cluster, RoleId};
use crate::error::Result;

impl Session {
    /// A session on a database of a cluster, of a user whose name is proven. `pid` is the number by which it is cancelled.
    ///
    /// # Errors
    /// As [`cluster::admit`].
    pub fn in_cluster(engine: &Arc<Engine>, cluster: &Arc<dyn Cluster>, user: &str, pid: i32) -> Result<Self> {
        let (role, _) = cluster::admit(&**cluster, user, engine.name())?;
        let mut session = Self::with_number(engine, user, pid);
        session.own.cluster = Some(Arc::clone(cluster));
        session.own.session_user = role;
        session.own.login_role = role;
        session.renew_authority(role);
        Ok(session)
    }

    /// Looks up again what a role may do.
    pub(super) fn renew_authority(&mut self, role: RoleId) {
        let Some(cluster) = &self.own.cluster else { return };
        // Before looking: what changes meanwhile is looked up once more.
        let version = cluster.version();
        let owner = cluster.databases().into_iter().find(|known| known.name == self.own.engine.name());
        let owner = owner.map_or(cluster::BOOTSTRAP_ROLE, |database| database.owner);
        let roles = cluster.roles();
        self.own.authority = Arc::new(Authority::of(&roles, role, owner));
        self.own.user = roles.name_of(role);
        self.own.cluster_version = version;
        // `is_superuser` may be another.
        self.settings_version = self.settings_version.wrapping_add(1);
        self.env.user = self.own.user.clone();
        self.env.surroundings = None;
    }

    /// As whom statements run.
    pub(crate) fn role(&self) -> RoleId {
        self.own.authority.role
    }

    /// What the user may do.
    pub(crate) fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.own.authority)
    }

    /// As whom the session is.
    pub(crate) fn session_role(&self) -> RoleId {
        self.own.session_user
    }

    /// The server around.
    pub(crate) fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.own.cluster.clone()
    }

    /// The roles there are; without a server, the user alone.
    pub(crate) fn all_roles(&self) -> Arc<cluster::Roles> {
        match &self.own.cluster {
            Some(cluster) => cluster.roles(),
            None => Arc::new(cluster::Roles::new(&self.own.login)),
        }
    }

    /// The database at hand, as the server knows it.
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
        })
    }

    /// Whether whoever logged in is a superuser.
    pub(crate) fn logged_in_as_superuser(&self) -> bool {
        let roles = self.all_roles();
        self.own.cluster.is_none() || roles.get(self.own.login_role).is_some_and(|role| role.superuser)
    }

    /// Runs statements as another role from now on, `local`: until the block ends.
    pub(crate) fn become_role(&mut self, role: RoleId, local: bool) -> Result<()> {
        if local && self.state == TransactionState::Idle {
            return Ok(());
        }
        if self.state != TransactionState::Idle {
            let before = self.block.role_before.map_or(self.role(), |(role, _)| role);
            self.block.role_before = Some((before, local));
        }
        self.renew_authority(role);
        self.settings_set();
        Ok(())
    }

    /// Makes the session one of another role; `None`: of whoever logged in.
    pub(crate) fn become_session(&mut self, user: Option<(RoleId, &str)>) -> Result<()> {
        self.own.session_user = user.map_or(self.own.login_role, |(role, _)| role);
        self.own.session_name = user.map_or_else(|| self.own.login.clone(), |(_, name)| name.into());
        self.become_role(self.own.session_user, false)
    }
}
