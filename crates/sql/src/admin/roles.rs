//! Roles and databases: what belongs to the cluster.

use super::{Actor, RoleOption, may_become};
use crate::cluster::{Authority, DatabaseInfo, Role, Roles};
use crate::error::{Error, Result, SqlState};
use crate::session::Session;

/// A role's options, looked up and ready to be set.
struct Wanted {
    options: Vec<RoleOption>,
    /// What the password is checked with.
    verifier: Option<Option<String>>,
    valid_until_us: Option<i64>,
}

fn denied(message: &str) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

fn no_such_database(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist"))
}

impl Wanted {
    fn apply(&self, role: &mut Role) {
        for option in &self.options {
            match *option {
                RoleOption::Superuser(on) => role.superuser = on,
                RoleOption::CreateDb(on) => role.createdb = on,
                RoleOption::CreateRole(on) => role.createrole = on,
                RoleOption::Inherit(on) => role.inherit = on,
                RoleOption::Login(on) => role.login = on,
                RoleOption::ConnectionLimit(limit) => role.connection_limit = limit,
                _ => {}
            }
        }
        if let Some(verifier) = &self.verifier {
            role.verifier.clone_from(verifier);
        }
        if let Some(until) = self.valid_until_us {
            role.valid_until_us = (until != i64::MAX).then_some(until);
        }
    }

    /// Memberships that the options speak of: group, member, whether with the right to make others members.
    fn memberships(&self, name: &str) -> Vec<(String, String, bool)> {
        let mut all = Vec::new();
        for option in &self.options {
            match option {
                RoleOption::InRoles(groups) => {
                    all.extend(groups.iter().map(|group| (group.to_string(), name.to_owned(), false)));
                }
                RoleOption::Members(members) => {
                    all.extend(members.iter().map(|member| (name.to_owned(), member.to_string(), false)));
                }
                RoleOption::Admins(members) => {
                    all.extend(members.iter().map(|member| (name.to_owned(), member.to_string(), true)));
                }
                _ => {}
            }
        }
        all
    }

    fn makes_superuser(&self) -> bool {
        self.options.iter().any(|option| matches!(option, RoleOption::Superuser(true)))
    }
}

/// Whether somebody may make and change roles that are not superusers.
fn may_create_roles(authority: &Authority, roles: &Roles) -> bool {
    authority.is_superuser() || roles.get(authority.role).is_some_and(|role| role.createrole)
}

fn add_members(roles: &mut Roles, memberships: &[(String, String, bool)], grantor: u32) -> Result<()> {
    for (group, member, admin) in memberships {
        let (group, member) = (roles.expect(group)?.oid, roles.expect(member)?.oid);
        roles.add_member(group, member, grantor, *admin)?;
    }
    Ok(())
}

impl Session {
    fn wanted(&self, options: &[RoleOption]) -> Result<Wanted> {
        let (mut verifier, mut valid_until_us) = (None, None);
        for option in options {
            match option {
                RoleOption::Password(None) => verifier = Some(None),
                RoleOption::Password(Some(password)) => {
                    // What is a verifier already stays as it is: dumps have them.
                    let made = if password.starts_with("SCRAM-SHA-256$") {
                        password.clone()
                    } else {
                        self.server("a password")?.verifier(password)?
                    };
                    verifier = Some(Some(made));
                }
                RoleOption::ValidUntil(text) => {
                    valid_until_us = Some(crate::datetime::parse_timestamptz(text, self.env())?);
                }
                RoleOption::Unknown(what, true) => return Err(Error::unsupported(what)),
                _ => {}
            }
        }
        Ok(Wanted { options: options.to_vec(), verifier, valid_until_us })
    }

    pub(super) fn create_role(&mut self, name: &str, options: &[RoleOption]) -> Result<()> {
        let cluster = self.server("a role")?;
        let authority = self.authority();
        if !may_create_roles(&authority, &cluster.roles()) {
            return Err(denied("permission denied to create role"));
        }
        let wanted = self.wanted(options)?;
        if wanted.makes_superuser() && !authority.is_superuser() {
            return Err(denied("must be superuser to create superusers"));
        }
        let memberships = wanted.memberships(name);
        cluster.change_roles(&mut |roles| {
            let mut role = Role::new(0, name);
            wanted.apply(&mut role);
            roles.add(role)?;
            add_members(roles, &memberships, authority.role)
        })
    }

    pub(super) fn alter_role(&mut self, actor: &Actor, options: &[RoleOption]) -> Result<()> {
        let cluster = self.server("a role")?;
        let authority = self.authority();
        let oid = self.actor(actor)?;
        let wanted = self.wanted(options)?;
        let roles = cluster.roles();
        let role = roles.get(oid).ok_or_else(|| Error::new(SqlState::NO_SUCH_OBJECT, "role does not exist"))?;
        let touches_superuser =
            role.superuser || wanted.options.iter().any(|option| matches!(option, RoleOption::Superuser(_)));
        // Everybody may change their own password, and nothing else.
        let own_password =
            oid == authority.role && wanted.options.iter().all(|option| matches!(option, RoleOption::Password(_)));
        if touches_superuser && !authority.is_superuser() && !(own_password && role.superuser) {
            return Err(denied("must be superuser to alter superuser roles or change superuser attribute"));
        }
        if !may_create_roles(&authority, &roles) && !own_password {
            return Err(denied("permission denied"));
        }
        let (name, memberships) = (role.name.clone(), wanted.memberships(&role.name));
        cluster.change_roles(&mut |roles| {
            wanted.apply(roles.expect_mut(&name)?);
            add_members(roles, &memberships, authority.role)
        })
    }

    pub(super) fn rename_role(&mut self, name: &str, to: &str) -> Result<()> {
        let cluster = self.server("a role")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        let role = roles.expect(name)?;
        if role.oid == self.session_role() {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "session user cannot be renamed"));
        }
        if !may_create_roles(&authority, &roles) || (role.superuser && !authority.is_superuser()) {
            return Err(denied("permission denied to rename role"));
        }
        cluster.change_roles(&mut |roles| roles.rename(name, to))
    }

    pub(super) fn drop_roles(&mut self, names: &[compact_str::CompactString], if_exists: bool) -> Result<()> {
        let cluster = self.server("a role")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        if !may_create_roles(&authority, &roles) {
            return Err(denied("permission denied to drop role"));
        }
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            match roles.named(name) {
                None if if_exists => {}
                None => roles.expect(name).map(|_| ())?,
                Some(role) => found.push(role.clone()),
            }
        }
        for role in &found {
            if role.oid == authority.role || role.oid == self.session_role() {
                return Err(Error::new(SqlState("55006"), "current user cannot be dropped"));
            }
            if role.superuser && !authority.is_superuser() {
                return Err(denied("must be superuser to drop superusers"));
            }
            let mut details = self.belongings(role.oid);
            for database in cluster.databases() {
                if database.owner == role.oid {
                    details.push(format!("owner of database {}", database.name));
                } else if database.acl.as_ref().is_some_and(|acl| acl.mentions(role.oid)) {
                    details.push(format!("privileges for database {}", database.name));
                }
            }
            if !details.is_empty() {
                let message = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message).detail(details.join("\n")));
            }
        }
        cluster.change_roles(&mut |roles| found.iter().try_for_each(|role| roles.remove(&role.name).map(|_| ())))
    }

    pub(super) fn grant_roles(
        &mut self,
        groups: &[compact_str::CompactString],
        to: &[Actor],
        admin: bool,
        revoke: bool,
    ) -> Result<()> {
        let cluster = self.server("a role")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        let members = to.iter().map(|actor| self.actor(actor)).collect::<Result<Vec<_>>>()?;
        let mut numbers = Vec::with_capacity(groups.len());
        for name in groups {
            let group = roles.expect(name)?;
            let own = roles.get(authority.role);
            let admits =
                own.is_some_and(|role| role.member_of.iter().any(|known| known.group == group.oid && known.admin));
            let may =
                authority.is_superuser() || admits || (!group.superuser && own.is_some_and(|role| role.createrole));
            if !may {
                return Err(denied(&format!("must have admin option on role \"{name}\"")));
            }
            numbers.push(group.oid);
        }
        cluster.change_roles(&mut |roles| {
            for &group in &numbers {
                for &member in &members {
                    if revoke {
                        roles.remove_member(group, member, admin);
                    } else {
                        roles.add_member(group, member, authority.role, admin)?;
                    }
                }
            }
            Ok(())
        })
    }

    // ---- databases ----

    pub(super) fn create_database(&mut self, name: &str, owner: Option<&Actor>) -> Result<()> {
        let cluster = self.server("CREATE DATABASE")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        if !(authority.is_superuser() || roles.get(authority.role).is_some_and(|role| role.createdb)) {
            return Err(denied("permission denied to create database"));
        }
        let owner = owner.map_or(Ok(authority.role), |owner| self.actor(owner))?;
        if !may_become(&authority, &roles, owner) {
            return Err(denied(&format!("must be member of role \"{}\"", roles.name_of(owner))));
        }
        cluster.create_database(name, owner)
    }

    fn own_database(&self, name: &str) -> Result<DatabaseInfo> {
        let cluster = self.server("a database")?;
        let found = cluster.databases().into_iter().find(|database| database.name == name);
        let database = found.ok_or_else(|| no_such_database(name))?;
        self.expect_owner(database.owner, "database", name)?;
        Ok(database)
    }

    pub(super) fn drop_database(&mut self, name: &str, if_exists: bool, force: bool) -> Result<()> {
        let cluster = self.server("DROP DATABASE")?;
        match self.own_database(name) {
            Err(error) if if_exists && error.state() == SqlState::NO_SUCH_DATABASE => return Ok(()),
            found => found?,
        };
        if name == self.engine().name() {
            return Err(Error::new(SqlState("55006"), "cannot drop the currently open database"));
        }
        cluster.drop_database(name, force, &self.cancel_flag())
    }

    pub(super) fn rename_database(&mut self, name: &str, to: &str) -> Result<()> {
        let cluster = self.server("ALTER DATABASE")?;
        self.own_database(name)?;
        if name == self.engine().name() {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "current database cannot be renamed"));
        }
        cluster.rename_database(name, to, &self.cancel_flag())
    }

    pub(super) fn alter_database(&mut self, name: &str, limit: Option<i32>, allow: Option<bool>) -> Result<()> {
        let cluster = self.server("ALTER DATABASE")?;
        self.own_database(name)?;
        cluster.change_database(name, &mut |database| {
            database.connection_limit = limit.unwrap_or(database.connection_limit);
            database.allow_connections = allow.unwrap_or(database.allow_connections);
            Ok(())
        })
    }

    pub(super) fn change_database_owner(&mut self, name: &str, to: u32) -> Result<()> {
        let cluster = self.server("ALTER DATABASE")?;
        self.own_database(name)?;
        let (authority, roles) = (self.authority(), cluster.roles());
        if !may_become(&authority, &roles, to) {
            return Err(denied(&format!("must be member of role \"{}\"", roles.name_of(to))));
        }
        cluster.change_database(name, &mut |database| {
            if let Some(acl) = &mut database.acl {
                acl.change_owner(database.owner, to);
            }
            database.owner = to;
            Ok(())
        })
    }

    // ---- as whom ----

    pub(super) fn set_role(&mut self, to: Option<&str>, local: bool) -> Result<()> {
        let Some(name) = to else { return self.become_role(self.session_role(), local) };
        let roles = self.all_roles();
        let role = roles.expect(name)?.oid;
        let login = self.session_role();
        let may = roles.get(login).is_none_or(|role| role.superuser) || roles.groups_of(login).contains(&role);
        if !may {
            return Err(denied(&format!("permission denied to set role \"{name}\"")));
        }
        self.become_role(role, local)
    }

    pub(super) fn set_session_authorization(&mut self, to: Option<&str>) -> Result<()> {
        let Some(name) = to else { return self.become_session(None) };
        let role = self.all_roles().expect(name)?.oid;
        if role != self.session_role() && !self.logged_in_as_superuser() {
            return Err(denied("permission denied to set session authorization"));
        }
        self.become_session(Some((role, name)))
    }
}
