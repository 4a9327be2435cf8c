//! The server around a session: its databases, roles and other sessions.
//!
//! A database by itself has none of it: there the user is a superuser, alone, and the only database is the engine's. A
//! server implements [`Cluster`] and gives it to its sessions ([`crate::Session::in_cluster`]).
//!
//! Roles, and grants on databases, belong to the cluster; grants on what is in a database (schemas, tables, sequences,
//! views) live in its catalogue and are transactional like the rest of it. Both refer to roles by number, and a number is
//! never given twice: what a dropped role was granted is nobody's.
//!
//! Changes of the cluster are not part of a transaction: they happen at once, and no ROLLBACK takes them back.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, SqlState};

/// A role's number.
pub type RoleId = u32;

/// The superuser that is there from the beginning; owns what was made without a cluster.
pub const BOOTSTRAP_ROLE: RoleId = 10;

/// `pg_database_owner`: whoever owns the database at hand is a member.
pub const DATABASE_OWNER_ROLE: RoleId = 6171;

/// Everybody: the grantee that PUBLIC is.
pub const PUBLIC_ROLE: RoleId = 0;

/// The first number that roles made by users get.
const FIRST_USER_ROLE: RoleId = 16_384;

/// What a session asks of the server around it.
///
/// Methods are called within statements, on the thread that runs them: they answer from memory, but for those that
/// change something, which may wait for the disk.
pub trait Cluster: Send + Sync {
    /// All databases, in the order of their numbers.
    fn databases(&self) -> Vec<DatabaseInfo>;

    /// Makes an empty database. It is durable on return.
    ///
    /// # Errors
    /// 42P04 if there is one of that name, 42602 if the name cannot be one; of the disk.
    fn create_database(&self, name: &str, owner: RoleId) -> Result<()>;

    /// Drops a database; with `force` sessions connected to it are ended first.
    ///
    /// # Errors
    /// 3D000 if there is none, 55006 if somebody is connected to it; of the disk.
    fn drop_database(&self, name: &str, force: bool) -> Result<()>;

    /// Gives a database another name.
    ///
    /// # Errors
    /// 3D000, 42P04, 55006 as above; of the disk.
    fn rename_database(&self, from: &str, to: &str) -> Result<()>;

    /// Changes a database's owner, grants or limits (not its name or number). It is durable on return.
    ///
    /// # Errors
    /// 3D000 if there is none; what `change` gives; of the disk.
    fn change_database(&self, name: &str, change: &mut dyn FnMut(&mut DatabaseInfo) -> Result<()>) -> Result<()>;

    /// The roles as they are now.
    fn roles(&self) -> Arc<Roles>;

    /// A number that is another one after each change of roles or databases: sessions ask for it once per statement, so it
    /// has to be cheap.
    fn version(&self) -> u64;

    /// Changes roles, one change at a time. It is durable on return.
    ///
    /// # Errors
    /// What `change` gives, and then nothing is changed; of the disk.
    fn change_roles(&self, change: &mut dyn FnMut(&mut Roles) -> Result<()>) -> Result<()>;

    /// The SCRAM-SHA-256 verifier of a password, as PostgreSQL keeps it (`SCRAM-SHA-256$4096:…`).
    ///
    /// # Errors
    /// If the system gives no randomness.
    fn verifier(&self, password: &str) -> Result<String>;

    /// Everybody who is connected, to whichever database.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// Cancels what a session is doing; false if there is no such session.
    fn cancel(&self, pid: i32) -> bool;

    /// Ends a session; false if there is none.
    fn terminate(&self, pid: i32) -> bool;

    /// A setting of the server (`max_connections`, `port`, `listen_addresses`, `data_directory`, …), as SHOW gives it.
    fn setting(&self, name: &str) -> Option<String>;

    /// When the server started, in microseconds since 2000-01-01 00:00 UTC.
    fn started_us(&self) -> i64;
}

/// A database of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseInfo {
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    pub owner: RoleId,
    /// Whether anybody may connect.
    #[serde(default = "yes")]
    pub allow_connections: bool,
    /// How many sessions may be connected to it, -1 for any number.
    #[serde(default = "unlimited")]
    pub connection_limit: i32,
    /// Who may do what; `None` is what PostgreSQL gives by default: everybody may connect.
    #[serde(default)]
    pub acl: Option<Acl>,
}

/// A session, as `pg_stat_activity` shows it.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its number, which cancels it.
    pub pid: i32,
    /// The database that it is connected to.
    pub database: CompactString,
    /// As whom it logged in.
    pub user: CompactString,
    /// What the client calls itself.
    pub application_name: CompactString,
    /// Where the client is; `None` for a Unix socket.
    pub client: Option<SocketAddr>,
    /// What it is doing.
    pub state: SessionState,
    /// What it waits for, if it does.
    pub waits_for: Option<Waits>,
    /// The statement at work, or the last one.
    pub query: String,
    /// When it connected; these are in microseconds since 2000-01-01 00:00 UTC.
    pub connected_us: i64,
    /// When its transaction began, if it is in one.
    pub transaction_us: Option<i64>,
    /// When the statement at work, or the last one, began.
    pub query_us: Option<i64>,
    /// When its state changed.
    pub state_us: i64,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Running a statement.
    Active,
    /// Waiting for its client.
    Idle,
    /// The same, in a transaction block.
    IdleInTransaction,
    /// The same, in a block in which a statement has failed.
    IdleInFailedTransaction,
}

impl SessionState {
    /// As `pg_stat_activity` says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// The client: its next message, or room for more of the answer.
    Client,
    /// A lock that somebody else has.
    Lock,
    /// Its commit to be durable.
    Durability,
}

impl Waits {
    /// `wait_event_type` and `wait_event` of `pg_stat_activity`.
    #[must_use]
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::Client => ("Client", "ClientRead"),
            Self::Lock => ("Lock", "tuple"),
            Self::Durability => ("IO", "WALSync"),
        }
    }
}

fn yes() -> bool {
    true
}

fn unlimited() -> i32 {
    -1
}

// ---- roles ----

/// A role: a user, a group, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its number.
    pub oid: RoleId,
    /// Its name.
    pub name: CompactString,
    /// May do everything.
    #[serde(default)]
    pub superuser: bool,
    /// Has the privileges of roles that it is a member of without asking for them.
    #[serde(default = "yes")]
    pub inherit: bool,
    /// May make roles.
    #[serde(default)]
    pub createrole: bool,
    /// May make databases.
    #[serde(default)]
    pub createdb: bool,
    /// May connect.
    #[serde(default)]
    pub login: bool,
    /// How many sessions it may have, -1 for any number.
    #[serde(default = "unlimited")]
    pub connection_limit: i32,
    /// What a password is checked with: `SCRAM-SHA-256$…`.
    #[serde(default)]
    pub verifier: Option<String>,
    /// Until when the password is good, in microseconds since 2000-01-01 00:00 UTC.
    #[serde(default)]
    pub valid_until_us: Option<i64>,
    /// Groups that it is a member of.
    #[serde(default)]
    pub member_of: Vec<Membership>,
}

/// A role's membership in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group.
    pub group: RoleId,
    /// Who made it a member.
    pub grantor: RoleId,
    /// Whether it may make others members.
    pub admin: bool,
}

impl Role {
    /// A role that may do nothing yet.
    #[must_use]
    pub fn new(oid: RoleId, name: &str) -> Self {
        Self {
            oid,
            name: name.into(),
            superuser: false,
            inherit: true,
            createrole: false,
            createdb: false,
            login: false,
            connection_limit: -1,
            verifier: None,
            valid_until_us: None,
            member_of: Vec::new(),
        }
    }

    /// A superuser who may log in.
    #[must_use]
    pub fn superuser(oid: RoleId, name: &str) -> Self {
        Self { superuser: true, createrole: true, createdb: true, login: true, ..Self::new(oid, name) }
    }
}

/// All roles of a cluster.
///
/// Invariants: names and numbers are unique; numbers are never given again; no role is, by whatever way, a member of
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    by_oid: BTreeMap<RoleId, Role>,
    next_oid: RoleId,
}

impl Roles {
    /// The roles of a new cluster: a superuser of this name, and `pg_database_owner`.
    #[must_use]
    pub fn new(superuser: &str) -> Self {
        let first = [Role::superuser(BOOTSTRAP_ROLE, superuser), Role::new(DATABASE_OWNER_ROLE, "pg_database_owner")];
        Self { by_oid: first.into_iter().map(|role| (role.oid, role)).collect(), next_oid: FIRST_USER_ROLE }
    }

    /// All, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.by_oid.values()
    }

    /// A role by its number.
    #[must_use]
    pub fn get(&self, oid: RoleId) -> Option<&Role> {
        self.by_oid.get(&oid)
    }

    /// A role by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Role> {
        self.by_oid.values().find(|role| role.name == name)
    }

    /// A role's name, as `pg_get_userbyid` gives it.
    #[must_use]
    pub fn name_of(&self, oid: RoleId) -> CompactString {
        match self.get(oid) {
            Some(role) => role.name.clone(),
            None => compact_str::format_compact!("unknown (OID={oid})"),
        }
    }

    /// The role of a name, or the error that there is none.
    ///
    /// # Errors
    /// 42704.
    pub fn expect(&self, name: &str) -> Result<&Role> {
        self.named(name).ok_or_else(|| Error::new(SqlState::NO_SUCH_OBJECT, format!("role \"{name}\" does not exist")))
    }

    /// A role to be changed: everything but its number and its name.
    ///
    /// # Errors
    /// 42704.
    pub fn expect_mut(&mut self, name: &str) -> Result<&mut Role> {
        let oid = self.expect(name)?.oid;
        self.by_oid.get_mut(&oid).ok_or_else(|| Error::internal("a role has no entry"))
    }

    /// Adds a role, and gives it its number.
    ///
    /// # Errors
    /// 42710 if there is one of that name; 42939 for names kept by the system.
    pub fn add(&mut self, role: Role) -> Result<RoleId> {
        self.expect_free(&role.name)?;
        let oid = self.next_oid;
        self.next_oid += 1;
        self.by_oid.insert(oid, Role { oid, ..role });
        Ok(oid)
    }

    /// Gives a role another name.
    ///
    /// # Errors
    /// 42704, 42710, 42939.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let oid = self.expect(from)?.oid;
        self.expect_free(to)?;
        if let Some(role) = self.by_oid.get_mut(&oid) {
            role.name = to.into();
        }
        Ok(())
    }

    /// Drops a role, and its memberships.
    ///
    /// # Errors
    /// 42704; 2BP01 for roles that the system needs.
    pub fn remove(&mut self, name: &str) -> Result<RoleId> {
        let oid = self.expect(name)?.oid;
        if oid < FIRST_USER_ROLE {
            let message = format!("cannot drop role {name} because it is required by the database system");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message));
        }
        self.by_oid.remove(&oid);
        for role in self.by_oid.values_mut() {
            role.member_of.retain(|membership| membership.group != oid);
        }
        Ok(oid)
    }

    fn expect_free(&self, name: &str) -> Result<()> {
        if name.starts_with("pg_") || name == "public" || name == "none" {
            let message = format!("role name \"{name}\" is reserved");
            return Err(Error::new(SqlState("42939"), message));
        }
        if self.named(name).is_some() {
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        Ok(())
    }

    /// Makes a role a member of another.
    ///
    /// # Errors
    /// 0LP01 if that would go round in a circle.
    pub fn add_member(&mut self, group: RoleId, member: RoleId, grantor: RoleId, admin: bool) -> Result<()> {
        if group == member || self.groups_of(group).contains(&member) {
            let message = format!("role \"{}\" is a member of role \"{}\"", self.name_of(group), self.name_of(member));
            return Err(Error::new(SqlState("0LP01"), message));
        }
        let Some(role) = self.by_oid.get_mut(&member) else { return Ok(()) };
        match role.member_of.iter_mut().find(|known| known.group == group) {
            Some(known) => known.admin |= admin,
            None => role.member_of.push(Membership { group, grantor, admin }),
        }
        Ok(())
    }

    /// Ends a membership, or only the right to make others members.
    pub fn remove_member(&mut self, group: RoleId, member: RoleId, only_admin: bool) {
        let Some(role) = self.by_oid.get_mut(&member) else { return };
        if only_admin {
            role.member_of.iter_mut().filter(|known| known.group == group).for_each(|known| known.admin = false);
        } else {
            role.member_of.retain(|known| known.group != group);
        }
    }

    /// A role, and all that it is a member of, directly or not.
    #[must_use]
    pub fn groups_of(&self, role: RoleId) -> HashSet<RoleId> {
        self.reachable(role, |_| true)
    }

    /// The same, but only through roles that inherit: whose privileges it has.
    fn inherited_by(&self, role: RoleId) -> HashSet<RoleId> {
        self.reachable(role, |role| role.inherit)
    }

    fn reachable(&self, from: RoleId, passes: impl Fn(&Role) -> bool) -> HashSet<RoleId> {
        let mut found = HashSet::from([from]);
        let mut open = vec![from];
        while let Some(oid) = open.pop() {
            let groups = self.get(oid).filter(|role| passes(role)).map_or(&[][..], |role| &role.member_of);
            open.extend(groups.iter().map(|known| known.group).filter(|&group| found.insert(group)));
        }
        found
    }
}

/// As whom a statement runs, and whose privileges it has.
#[derive(Debug, Clone)]
pub struct Authority {
    /// The role.
    pub role: RoleId,
    superuser: bool,
    /// Roles whose privileges it has, itself among them.
    has: HashSet<RoleId>,
}

impl Authority {
    /// Whoever may do everything.
    #[must_use]
    pub fn superuser() -> Self {
        Self { role: BOOTSTRAP_ROLE, superuser: true, has: HashSet::new() }
    }

    /// A role's, in a database that belongs to `owner`.
    #[must_use]
    pub fn of(roles: &Roles, role: RoleId, owner: RoleId) -> Self {
        let superuser = roles.get(role).is_some_and(|role| role.superuser);
        let mut has = roles.inherited_by(role);
        if has.contains(&owner) {
            has.insert(DATABASE_OWNER_ROLE);
        }
        Self { role, superuser, has }
    }

    /// Whether it may do everything.
    #[must_use]
    pub fn is_superuser(&self) -> bool {
        self.superuser
    }

    /// Whether it has a role's privileges, as an owner has to.
    #[must_use]
    pub fn has_role(&self, role: RoleId) -> bool {
        self.superuser || self.has.contains(&role)
    }

    /// Whether it may do all that `wanted` says to what belongs to `owner` with these grants.
    #[must_use]
    pub fn may(&self, wanted: Privileges, kind: ObjectKind, owner: RoleId, acl: Option<&Acl>) -> bool {
        wanted.without(self.privileges(kind, owner, acl)).is_empty()
    }

    /// All it may do.
    #[must_use]
    pub fn privileges(&self, kind: ObjectKind, owner: RoleId, acl: Option<&Acl>) -> Privileges {
        if self.superuser {
            return kind.all();
        }
        let default;
        let acl = match acl {
            Some(acl) => acl,
            None => {
                default = Acl::default_of(kind, owner);
                &default
            }
        };
        let mine = |grant: &&Grant| grant.grantee == PUBLIC_ROLE || self.has.contains(&grant.grantee);
        acl.0.iter().filter(mine).fold(Privileges::NONE, |sum, grant| sum.with(grant.privileges))
    }

    /// What it may grant to others.
    #[must_use]
    pub fn grantable(&self, kind: ObjectKind, owner: RoleId, acl: Option<&Acl>) -> Privileges {
        if self.has_role(owner) {
            return kind.all();
        }
        let grants = acl.map_or(&[][..], |acl| &acl.0);
        let mine = grants.iter().filter(|grant| self.has.contains(&grant.grantee));
        mine.fold(Privileges::NONE, |sum, grant| sum.with(grant.grantable))
    }
}

// ---- grants ----

/// What privileges can be granted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A database.
    Database,
    /// A schema.
    Schema,
    /// A table or view.
    Table,
    /// A sequence.
    Sequence,
}

impl ObjectKind {
    /// All that can be granted.
    #[must_use]
    pub fn all(self) -> Privileges {
        match self {
            Self::Database => Privileges::CREATE.with(Privileges::TEMPORARY).with(Privileges::CONNECT),
            Self::Schema => Privileges::USAGE.with(Privileges::CREATE),
            Self::Table => Privileges(0x7f),
            Self::Sequence => Privileges::USAGE.with(Privileges::SELECT).with(Privileges::UPDATE),
        }
    }
}

/// A set of privileges.
// ON DISK: never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Privileges(u16);

impl Privileges {
    /// None.
    pub const NONE: Self = Self(0);
    /// `INSERT`
    pub const INSERT: Self = Self(1);
    /// `SELECT`
    pub const SELECT: Self = Self(1 << 1);
    /// `UPDATE`
    pub const UPDATE: Self = Self(1 << 2);
    /// `DELETE`
    pub const DELETE: Self = Self(1 << 3);
    /// `TRUNCATE`
    pub const TRUNCATE: Self = Self(1 << 4);
    /// `REFERENCES`
    pub const REFERENCES: Self = Self(1 << 5);
    /// `TRIGGER`
    pub const TRIGGER: Self = Self(1 << 6);
    /// `EXECUTE`
    pub const EXECUTE: Self = Self(1 << 7);
    /// `USAGE`
    pub const USAGE: Self = Self(1 << 8);
    /// `CREATE`
    pub const CREATE: Self = Self(1 << 9);
    /// `TEMPORARY`
    pub const TEMPORARY: Self = Self(1 << 10);
    /// `CONNECT`
    pub const CONNECT: Self = Self(1 << 11);

    /// Name and letter of each, in the order of their bits.
    const NAMES: [(&'static str, char); 12] = [
        ("INSERT", 'a'),
        ("SELECT", 'r'),
        ("UPDATE", 'w'),
        ("DELETE", 'd'),
        ("TRUNCATE", 'D'),
        ("REFERENCES", 'x'),
        ("TRIGGER", 't'),
        ("EXECUTE", 'X'),
        ("USAGE", 'U'),
        ("CREATE", 'C'),
        ("TEMPORARY", 'T'),
        ("CONNECT", 'c'),
    ];

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that the other has not.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those that both have.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The privilege of a name, in whichever case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { name };
        Self::NAMES.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)).map(|bit| Self(1 << bit))
    }

    /// The names of those that it has.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, (name, _))| *name)
    }
}

/// Who may do what to an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Acl(pub Vec<Grant>);

/// Privileges that one role has from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who may; [`PUBLIC_ROLE`] is everybody.
    pub grantee: RoleId,
    /// Who said so.
    pub grantor: RoleId,
    /// What.
    pub privileges: Privileges,
    /// What it may grant to others.
    #[serde(default)]
    pub grantable: Privileges,
}

impl Acl {
    /// What holds where nothing was granted or revoked.
    #[must_use]
    pub fn default_of(kind: ObjectKind, owner: RoleId) -> Self {
        let all = Grant { grantee: owner, grantor: owner, privileges: kind.all(), grantable: Privileges::NONE };
        let public = match kind {
            ObjectKind::Database => Privileges::TEMPORARY.with(Privileges::CONNECT),
            _ => Privileges::NONE,
        };
        let mut grants = Vec::with_capacity(2);
        if !public.is_empty() {
            grants.push(Grant { grantee: PUBLIC_ROLE, privileges: public, ..all });
        }
        grants.push(all);
        Self(grants)
    }

    /// Adds privileges.
    pub fn grant(&mut self, grantee: RoleId, grantor: RoleId, privileges: Privileges, grantable: bool) {
        let option = if grantable { privileges } else { Privileges::NONE };
        match self.0.iter_mut().find(|grant| grant.grantee == grantee && grant.grantor == grantor) {
            Some(grant) => {
                grant.privileges = grant.privileges.with(privileges);
                grant.grantable = grant.grantable.with(option);
            }
            None => self.0.push(Grant { grantee, grantor, privileges, grantable: option }),
        }
    }

    /// Takes privileges back, whoever gave them; or only the right to grant them.
    pub fn revoke(&mut self, grantee: RoleId, privileges: Privileges, only_option: bool) {
        for grant in self.0.iter_mut().filter(|grant| grant.grantee == grantee) {
            grant.grantable = grant.grantable.without(privileges);
            if !only_option {
                grant.privileges = grant.privileges.without(privileges);
            }
        }
        self.0.retain(|grant| !grant.privileges.is_empty());
    }

    /// What a former owner had is the new one's.
    pub fn change_owner(&mut self, from: RoleId, to: RoleId) {
        for grant in &mut self.0 {
            for role in [&mut grant.grantee, &mut grant.grantor] {
                if *role == from {
                    *role = to;
                }
            }
        }
    }

    /// Whether a role is named in it.
    #[must_use]
    pub fn mentions(&self, role: RoleId) -> bool {
        self.0.iter().any(|grant| grant.grantee == role || grant.grantor == role)
    }

    /// As PostgreSQL writes its items: `alice=arw/bob`.
    #[must_use]
    pub fn items(&self, roles: &Roles) -> Vec<String> {
        let name = |oid| quoted_role(&roles.name_of(oid));
        let item = |grant: &Grant| {
            let mut item = if grant.grantee == PUBLIC_ROLE { String::new() } else { name(grant.grantee) };
            item.push('=');
            for (bit, (_, letter)) in Privileges::NAMES.iter().enumerate() {
                if grant.privileges.0 & 1 << bit != 0 {
                    item.push(*letter);
                    if grant.grantable.0 & 1 << bit != 0 {
                        item.push('*');
                    }
                }
            }
            _ = write!(item, "/{}", name(grant.grantor));
            item
        };
        self.0.iter().map(item).collect()
    }
}

fn quoted_role(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Whether a role may connect to a database: to be asked when somebody logs in, once their name is proven.
///
/// # Errors
/// 28000 for a role that is not there or may not log in, 3D000, 55000, 42501.
pub fn admit(cluster: &dyn Cluster, user: &str, database: &str) -> Result<(RoleId, DatabaseInfo)> {
    const NOT_ADMITTED: SqlState = SqlState("28000");
    let roles = cluster.roles();
    let Some(role) = roles.named(user) else {
        return Err(Error::new(NOT_ADMITTED, format!("role \"{user}\" does not exist")));
    };
    if !role.login {
        return Err(Error::new(NOT_ADMITTED, format!("role \"{user}\" is not permitted to log in")));
    }
    let Some(info) = cluster.databases().into_iter().find(|known| known.name == database) else {
        let message = format!("database \"{database}\" does not exist");
        return Err(Error::new(SqlState::NO_SUCH_DATABASE, message));
    };
    if !info.allow_connections {
        let message = format!("database \"{database}\" is not currently accepting connections");
        return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
    }
    let authority = Authority::of(&roles, role.oid, info.owner);
    if !authority.may(Privileges::CONNECT, ObjectKind::Database, info.owner, info.acl.as_ref()) {
        let message = format!("permission denied for database \"{database}\"");
        return Err(
            Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message).detail("User does not have CONNECT privilege.")
        );
    }
    Ok((role.oid, info))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn privileges_come_from_grants_to_the_role_to_its_groups_and_to_everybody() {
        let mut roles = Roles::new("root");
        let alice = roles.add(Role::new(0, "alice")).unwrap();
        let staff = roles.add(Role::new(0, "staff")).unwrap();
        roles.add_member(staff, alice, BOOTSTRAP_ROLE, false).unwrap();
        let mut acl = Acl::default_of(ObjectKind::Table, BOOTSTRAP_ROLE);
        acl.grant(staff, BOOTSTRAP_ROLE, Privileges::SELECT, false);
        acl.grant(PUBLIC_ROLE, BOOTSTRAP_ROLE, Privileges::INSERT, false);
        acl.grant(alice, BOOTSTRAP_ROLE, Privileges::UPDATE, true);
        let authority = |roles: &Roles, role| Authority::of(roles, role, BOOTSTRAP_ROLE);
        let has = |roles: &Roles, role| {
            let privileges = authority(roles, role).privileges(ObjectKind::Table, BOOTSTRAP_ROLE, Some(&acl));
            privileges.names().collect::<Vec<_>>()
        };
        assert_eq!(has(&roles, alice), ["INSERT", "SELECT", "UPDATE"]);
        assert_eq!(has(&roles, staff), ["INSERT", "SELECT"]);
        assert_eq!(has(&roles, BOOTSTRAP_ROLE).len(), 7);
        assert_eq!(acl.items(&roles), ["root=arwdDxt/root", "staff=r/root", "=a/root", "alice=w*/root"]);
        roles.expect_mut("alice").unwrap().inherit = false;
        assert_eq!(has(&roles, alice), ["INSERT", "UPDATE"]);
        roles.remove("staff").unwrap();
        assert_eq!(has(&roles, alice), ["INSERT", "UPDATE"]);
    }

    #[test]
    fn no_role_is_a_member_of_itself_by_whatever_way() {
        let mut roles = Roles::new("root");
        let ids: Vec<_> = ["a", "b", "c"].map(|name| roles.add(Role::new(0, name)).unwrap()).into();
        roles.add_member(ids[1], ids[0], BOOTSTRAP_ROLE, false).unwrap();
        roles.add_member(ids[2], ids[1], BOOTSTRAP_ROLE, false).unwrap();
        assert_eq!(roles.add_member(ids[0], ids[2], BOOTSTRAP_ROLE, false).unwrap_err().state().0, "0LP01");
        assert_eq!(roles.groups_of(ids[0]).len(), 3);
    }

    #[test]
    fn numbers_and_names_of_roles_are_not_given_twice() {
        let mut roles = Roles::new("root");
        let first = roles.add(Role::new(0, "a")).unwrap();
        assert_eq!(roles.add(Role::new(0, "a")).unwrap_err().state().0, "42710");
        assert_eq!(roles.add(Role::new(0, "pg_x")).unwrap_err().state().0, "42939");
        roles.remove("a").unwrap();
        assert_ne!(roles.add(Role::new(0, "a")).unwrap(), first);
        assert!(roles.remove("root").is_err());
    }

    #[test]
    fn who_owned_an_object_before_has_nothing_left() {
        let mut roles = Roles::new("root");
        let alice = roles.add(Role::new(0, "alice")).unwrap();
        let mut acl = Acl::default_of(ObjectKind::Table, BOOTSTRAP_ROLE);
        acl.change_owner(BOOTSTRAP_ROLE, alice);
        assert_eq!(acl.items(&roles), ["alice=arwdDxt/alice"]);
        acl.revoke(alice, ObjectKind::Table.all(), false);
        assert_eq!(acl.0, []);
    }
}
