//! Roles and databases, which belong to the cluster.

use colibri_catalog::cluster::{Authority, DATABASE_OWNER_ROLE, DatabaseInfo, NewDatabase, Role, Roles, Template};
use colibri_syntax::tree::{AsOf, DatabaseOption, RoleName, RoleOption};
use colibri_types::{Error, Result, SqlState};

use super::{databases, may_become};
use crate::session::{Session, Severity};

/// A role's options, looked up and ready to be set.
struct Wanted {
    options: Vec<RoleOption>,
    /// The verifier that passwords are checked with.
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
                RoleOption::BypassRls(on) => role.bypassrls = on,
                RoleOption::Replication(on) => role.replication = on,
                RoleOption::ConnectionLimit(limit) => role.connection_limit = limit,
                _ => {}
            }
        }
        if let Some(verifier) = &self.verifier {
            role.verifier.clone_from(verifier);
        }
        if let Some(until) = self.valid_until_us {
            role.valid_until_us = Some(until);
        }
    }

    /// Memberships that the options name: group, member, whether with the admin option.
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

/// Whether a password is an MD5 hash, as PostgreSQL before 14 kept them.
fn is_md5(password: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    password.strip_prefix("md5").is_some_and(|sum| sum.len() == 32 && sum.bytes().all(digit))
}

/// Whether a role may create and change roles that are not superusers.
fn may_create_roles(authority: &Authority, roles: &Roles) -> bool {
    authority.is_superuser() || roles.get(authority.role).is_some_and(|role| role.createrole)
}

/// 42501 unless the current role may change the members of a group.
fn expect_may_admit(authority: &Authority, roles: &Roles, group: &Role) -> Result<()> {
    if authority.is_superuser() {
        return Ok(());
    }
    if group.superuser {
        return Err(denied("must be superuser to alter superusers"));
    }
    if may_create_roles(authority, roles) || roles.is_admin_of(authority.role, group.oid) {
        return Ok(());
    }
    Err(denied(&format!("must have admin option on role \"{}\"", group.name)))
}

/// Refuses explicit members of pg_database_owner, whose only member is the owner of the database,
/// and refuses it as a member.
fn expect_takes_members(group: &Role, members: &[u32], may_be_by: bool) -> Result<()> {
    const OWNER: &str = "pg_database_owner";
    if group.oid == DATABASE_OWNER_ROLE {
        return Err(Error::new(SqlState::INTERNAL, format!("role \"{OWNER}\" cannot have explicit members")));
    }
    if !may_be_by {
        return Err(denied("must be superuser to set grantor"));
    }
    if members.contains(&DATABASE_OWNER_ROLE) {
        let message = format!("role \"{OWNER}\" cannot be a member of any role");
        return Err(Error::new(SqlState::INTERNAL, message));
    }
    Ok(())
}

/// 42501 if a role that is no superuser adds a member to a superuser's role.
fn expect_may_join(authority: &Authority, roles: &Roles, memberships: &[(String, String, bool)]) -> Result<()> {
    for (group, _, _) in memberships {
        if let Some(group) = roles.named(group) {
            expect_may_admit(authority, roles, group)?;
            expect_takes_members(group, &[], true)?;
        }
    }
    Ok(())
}

fn add_members(roles: &mut Roles, memberships: &[(String, String, bool)], grantor: u32) -> Result<()> {
    for (group, member, admin) in memberships {
        let (group, member) = (roles.expect(group)?.oid, roles.expect(member)?.oid);
        roles.add_member(group, member, grantor, *admin)?;
    }
    Ok(())
}

impl Session {
    fn wanted(&mut self, options: &[RoleOption]) -> Result<Wanted> {
        let (mut verifier, mut valid_until_us) = (None, None);
        for option in options {
            match option {
                RoleOption::Password(None) => verifier = Some(None),
                RoleOption::Password(Some(password)) => {
                    if is_md5(password) {
                        return Err(Error::unsupported("a password that is kept as its MD5 sum"));
                    }
                    let made = self.server("a password")?.verifier(password)?;
                    if made.is_none() {
                        let message = "empty string is not a valid password, clearing password";
                        self.notice(Severity::Notice, SqlState("00000"), message);
                    }
                    verifier = Some(made);
                }
                RoleOption::ValidUntil(text) => {
                    valid_until_us = Some(colibri_types::datetime::parse_timestamptz(text, self.env())?);
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
        if wanted.options.contains(&RoleOption::Replication(true)) && !authority.is_superuser() {
            return Err(denied("must be superuser to create replication users"));
        }
        if wanted.options.contains(&RoleOption::BypassRls(true)) && !authority.is_superuser() {
            return Err(denied("must be superuser to create bypassrls users"));
        }
        let memberships = wanted.memberships(name);
        expect_may_join(&authority, &cluster.roles(), &memberships)?;
        cluster.change_roles(&mut |roles| {
            let mut role = Role::new(0, name);
            wanted.apply(&mut role);
            roles.add(role)?;
            add_members(roles, &memberships, authority.role)
        })
    }

    pub(super) fn alter_role(&mut self, actor: &RoleName, options: &[RoleOption]) -> Result<()> {
        let cluster = self.server("a role")?;
        let authority = self.authority();
        let oid = self.actor(actor)?;
        let wanted = self.wanted(options)?;
        let roles = cluster.roles();
        let role = roles.get(oid).ok_or_else(|| Error::new(SqlState::NO_SUCH_OBJECT, "role does not exist"))?;
        let touches_superuser =
            role.superuser || wanted.options.iter().any(|option| matches!(option, RoleOption::Superuser(_)));
        // A role may change its own password, and nothing else.
        let own_password =
            oid == authority.role && wanted.options.iter().all(|option| matches!(option, RoleOption::Password(_)));
        if touches_superuser && !authority.is_superuser() && !(own_password && role.superuser) {
            return Err(denied("must be superuser to alter superuser roles or change superuser attribute"));
        }
        let replicates = |option: &RoleOption| matches!(option, RoleOption::Replication(_));
        if (role.replication || wanted.options.iter().any(replicates)) && !authority.is_superuser() && !own_password {
            return Err(denied("must be superuser to alter replication roles or change replication attribute"));
        }
        let bypasses = |option: &RoleOption| matches!(option, RoleOption::BypassRls(_));
        if wanted.options.iter().any(bypasses) && !authority.is_superuser() {
            return Err(denied("must be superuser to change bypassrls attribute"));
        }
        if !may_create_roles(&authority, &roles) && !own_password {
            return Err(denied("permission denied"));
        }
        let (name, memberships) = (role.name.clone(), wanted.memberships(&role.name));
        expect_may_join(&authority, &roles, &memberships)?;
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

    pub(super) fn drop_roles(&mut self, names: &[RoleName], if_exists: bool) -> Result<()> {
        let cluster = self.server("a role")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        if !may_create_roles(&authority, &roles) {
            return Err(denied("permission denied to drop role"));
        }
        // Bug: a standby looked at what it had applied. Consequence: a role that owned something by
        // then was dropped, and dumps failed. Fix: only who leads the database knows what it owns.
        if self.engine().is_standby() {
            return Err(self.refusal("cannot execute DROP ROLE on a standby".to_owned()));
        }
        let mut found: Vec<Role> = Vec::with_capacity(names.len());
        for name in names {
            let RoleName::Named(name) = name else {
                return Err(Error::new(SqlState::BAD_PARAMETER, "cannot use special role specifier in DROP ROLE"));
            };
            match roles.named(name).filter(|role| !found.iter().any(|known| known.oid == role.oid)) {
                None if if_exists => {
                    let message = format!("role \"{name}\" does not exist, skipping");
                    self.notice(Severity::Notice, SqlState("00000"), message);
                }
                None => return Err(Error::new(SqlState::NO_SUCH_OBJECT, format!("role \"{name}\" does not exist"))),
                Some(role) => found.push(role.clone()),
            }
        }
        for role in &found {
            self.expect_droppable(role)?;
        }
        cluster.change_roles(&mut |roles| found.iter().try_for_each(|role| roles.remove(&role.name).map(|_| ())))?;
        cluster.change_settings(&mut |kept| {
            found.iter().for_each(|role| kept.forget_role(role.oid));
            Ok(())
        })
    }

    /// Refuses to drop the current role, a superuser's role unless the user is one, and roles that
    /// own or are granted something.
    fn expect_droppable(&self, role: &Role) -> Result<()> {
        let (cluster, authority) = (self.server("a role")?, self.authority());
        for (which, is_it) in [("current", authority.role), ("session", self.session_role())] {
            if role.oid == is_it {
                return Err(Error::new(SqlState("55006"), format!("{which} user cannot be dropped")));
            }
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
        if details.is_empty() {
            return Ok(());
        }
        let message = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
        Err(Error::new(SqlState::DEPENDENT_OBJECTS, message).detail(details.join("\n")))
    }

    pub(super) fn grant_roles(
        &mut self,
        groups: &[compact_str::CompactString],
        to: &[RoleName],
        admin: bool,
        revoke: bool,
        by: Option<&RoleName>,
    ) -> Result<()> {
        let cluster = self.server("a role")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        let grantor = by.map_or(Ok(authority.role), |by| self.actor(by))?;
        let members = to.iter().map(|actor| self.actor(actor)).collect::<Result<Vec<_>>>()?;
        let mut numbers = Vec::with_capacity(groups.len());
        for name in groups {
            let group = roles.expect(name)?;
            expect_may_admit(&authority, &roles, group)?;
            if !revoke {
                expect_takes_members(group, &members, grantor == authority.role || authority.is_superuser())?;
            }
            numbers.push(group.oid);
        }
        let mut unchanged = Vec::new();
        cluster.change_roles(&mut |roles| {
            let same = if revoke {
                let pairs = numbers.iter().flat_map(|&group| members.iter().map(move |&member| (group, member)));
                pairs.filter(|&(group, member)| !roles.remove_member(group, member, admin)).collect()
            } else {
                roles.add_members(&numbers, &members, grantor, admin)?
            };
            unchanged = same.into_iter().map(|(group, member)| (roles.name_of(member), roles.name_of(group))).collect();
            Ok(())
        })?;
        for (member, group) in unchanged {
            if revoke {
                let message = format!("role \"{member}\" is not a member of role \"{group}\"");
                self.notice(Severity::Warning, SqlState("01000"), message);
            } else {
                let message = format!("role \"{member}\" is already a member of role \"{group}\"");
                self.notice(Severity::Notice, SqlState("00000"), message);
            }
        }
        Ok(())
    }

    // ---- databases ----

    pub(super) fn create_database(&mut self, name: &str, options: &[DatabaseOption]) -> Result<()> {
        let mut wanted = databases::Wanted::of(options, self.env())?;
        let cluster = self.server("CREATE DATABASE")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        if !(authority.is_superuser() || roles.get(authority.role).is_some_and(|role| role.createdb)) {
            return Err(denied("permission denied to create database"));
        }
        let owner = wanted.owner.map_or(Ok(authority.role), |owner| self.actor(owner))?;
        if !may_become(&authority, &roles, owner) {
            return Err(denied(&format!("must be member of role \"{}\"", roles.name_of(owner))));
        }
        let mut how = NewDatabase::of(owner);
        if let Some((model, template)) = wanted.template(&cluster.databases())? {
            if !(model.is_template || authority.has_role(model.owner)) {
                return Err(denied(&format!("permission denied to copy database \"{}\"", model.name)));
            }
            how.template = Some(template);
        }
        how.connection_limit = wanted.limit.unwrap_or(how.connection_limit);
        how.allow_connections = wanted.allow.unwrap_or(how.allow_connections);
        how.is_template = wanted.is_template.unwrap_or(false);
        how.locale = wanted.locale;
        cluster.create_database(name, how)
    }

    /// Throws the changes of a database away. What it gets is another one's, so its owner has to be
    /// allowed to copy that.
    pub(super) fn reset_database(&mut self, name: &str, to: &str, as_of: Option<&AsOf>, force: bool) -> Result<()> {
        let as_of = as_of.map(|as_of| databases::state_of(as_of, self.env())).transpose()?;
        let cluster = self.server("ALTER DATABASE")?;
        self.own_database(name)?;
        let all = cluster.databases();
        let model = all.iter().find(|database| database.name == to).ok_or_else(|| no_such_database(to))?;
        if !(model.is_template || self.authority().has_role(model.owner)) {
            return Err(denied(&format!("permission denied to copy database \"{to}\"")));
        }
        if name == self.engine().name() {
            return Err(Error::new(SqlState("55006"), "cannot reset the currently open database"));
        }
        let to = Template { name: to.into(), copies: false, as_of };
        cluster.reset_database(name, &to, force, &self.cancel_flag())
    }

    pub(super) fn own_database(&self, name: &str) -> Result<DatabaseInfo> {
        let cluster = self.server("a database")?;
        let found = cluster.databases().into_iter().find(|database| database.name == name);
        let database = found.ok_or_else(|| no_such_database(name))?;
        self.expect_owner(database.owner, "database", name)?;
        Ok(database)
    }

    pub(super) fn drop_database(&mut self, name: &str, if_exists: bool, force: bool) -> Result<()> {
        let cluster = self.server("DROP DATABASE")?;
        let found = match self.own_database(name) {
            Err(error) if if_exists && error.state() == SqlState::NO_SUCH_DATABASE => {
                self.notice_missing("database", name);
                return Ok(());
            }
            found => found?,
        };
        if name == self.engine().name() {
            return Err(Error::new(SqlState("55006"), "cannot drop the currently open database"));
        }
        if found.is_template {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot drop a template database"));
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

    pub(super) fn alter_database(&mut self, name: &str, options: &[DatabaseOption]) -> Result<()> {
        let databases::Wanted { limit, allow, is_template, .. } = databases::Wanted::of(options, self.env())?;
        let cluster = self.server("ALTER DATABASE")?;
        self.own_database(name)?;
        cluster.change_database(name, &mut |database| {
            database.connection_limit = limit.unwrap_or(database.connection_limit);
            database.allow_connections = allow.unwrap_or(database.allow_connections);
            database.is_template = is_template.unwrap_or(database.is_template);
            Ok(())
        })
    }

    pub(super) fn change_database_owner(&mut self, name: &str, to: u32) -> Result<()> {
        let cluster = self.server("ALTER DATABASE")?;
        // A statement that changes nothing needs no privilege.
        if cluster.databases().iter().any(|database| database.name == name && database.owner == to) {
            return Ok(());
        }
        self.own_database(name)?;
        let (authority, roles) = (self.authority(), cluster.roles());
        if !may_become(&authority, &roles, to) {
            return Err(denied(&format!("must be member of role \"{}\"", roles.name_of(to))));
        }
        if !(authority.is_superuser() || roles.get(authority.role).is_some_and(|role| role.createdb)) {
            return Err(denied("permission denied to change owner of database"));
        }
        self.give_database(name, to)
    }

    pub(super) fn give_database(&self, name: &str, to: u32) -> Result<()> {
        self.server("ALTER DATABASE")?.change_database(name, &mut |database| {
            if let Some(acl) = &mut database.acl {
                acl.change_owner(database.owner, to);
            }
            database.owner = to;
            Ok(())
        })
    }
}
