//! Roles and their memberships.

use std::collections::{BTreeMap, HashMap, HashSet};

use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::{BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, FIRST_USER_ROLE, RoleId};

/// A role: a user, a group, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its number.
    pub oid: RoleId,
    /// Its name.
    pub name: CompactString,
    /// Superuser.
    #[serde(default)]
    pub superuser: bool,
    /// INHERIT: has the privileges of its groups without SET ROLE.
    #[serde(default = "yes")]
    pub inherit: bool,
    /// May create roles.
    #[serde(default)]
    pub createrole: bool,
    /// May create databases.
    #[serde(default)]
    pub createdb: bool,
    /// May log in.
    #[serde(default)]
    pub login: bool,
    /// REPLICATION: may copy the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replication: bool,
    /// BYPASSRLS: row-level security does not hold for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bypassrls: bool,
    /// The most sessions, -1 for any number.
    #[serde(default = "unlimited")]
    pub connection_limit: i32,
    /// The verifier of its password: `SCRAM-SHA-256$…`.
    #[serde(default)]
    pub verifier: Option<String>,
    /// The time until which the password is valid, in microseconds since 2000-01-01 00:00 UTC.
    #[serde(default)]
    pub valid_until_us: Option<i64>,
    /// Groups that it is a member of.
    #[serde(default)]
    pub member_of: Vec<Membership>,
    /// Its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A role's membership in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group.
    pub group: RoleId,
    /// The grantor of the membership.
    pub grantor: RoleId,
    /// ADMIN OPTION: whether it may make others members.
    pub admin: bool,
}

impl Role {
    /// A role without attributes.
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
            replication: false,
            bypassrls: false,
            connection_limit: -1,
            verifier: None,
            valid_until_us: None,
            member_of: Vec::new(),
            comment: None,
        }
    }

    /// A superuser who may log in.
    #[must_use]
    pub fn superuser(oid: RoleId, name: &str) -> Self {
        Self { superuser: true, createrole: true, createdb: true, login: true, ..Self::new(oid, name) }
    }
}

/// `pg_read_all_data`: reads all tables.
pub(super) const READ_ALL_DATA: RoleId = 6181;
/// `pg_write_all_data`: writes to all tables.
pub(super) const WRITE_ALL_DATA: RoleId = 6182;
const MONITOR: RoleId = 3373;
const READ_ALL_SETTINGS: RoleId = 3374;
const READ_ALL_STATS: RoleId = 3375;
const STAT_SCAN_TABLES: RoleId = 3377;
/// `pg_signal_backend`: may end other sessions and what they do.
pub const SIGNAL_BACKEND: RoleId = 4200;
/// `pg_checkpoint`: may do CHECKPOINT.
pub const CHECKPOINT: RoleId = 4544;

/// The roles that every cluster has, with PostgreSQL's numbers.
const PREDEFINED: [(RoleId, &str); 12] = [
    (DATABASE_OWNER_ROLE, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (MONITOR, "pg_monitor"),
    (READ_ALL_SETTINGS, "pg_read_all_settings"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (STAT_SCAN_TABLES, "pg_stat_scan_tables"),
    (4569, "pg_read_server_files"),
    (4570, "pg_write_server_files"),
    (4571, "pg_execute_server_program"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
    (CHECKPOINT, "pg_checkpoint"),
];

/// A predefined role, with its memberships.
fn predefined(oid: RoleId, name: &str) -> Role {
    let mut role = Role::new(oid, name);
    if oid == MONITOR {
        let groups = [READ_ALL_SETTINGS, READ_ALL_STATS, STAT_SCAN_TABLES];
        role.member_of = groups.map(|group| Membership { group, grantor: BOOTSTRAP_ROLE, admin: false }).to_vec();
    }
    role
}

/// Roles as they are kept. Clusters of older versions have fewer predefined ones.
#[derive(Deserialize)]
struct Kept {
    by_oid: BTreeMap<RoleId, Role>,
    next_oid: RoleId,
}

impl From<Kept> for Roles {
    fn from(kept: Kept) -> Self {
        let mut roles = Self { by_oid: kept.by_oid, next_oid: kept.next_oid };
        for (oid, name) in PREDEFINED {
            roles.by_oid.entry(oid).or_insert_with(|| predefined(oid, name));
        }
        roles
    }
}

/// All roles of a cluster.
///
/// Invariants: names and numbers are unique; numbers are never given again; no role is, by whatever
/// way, a member of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub struct Roles {
    by_oid: BTreeMap<RoleId, Role>,
    next_oid: RoleId,
}

impl Roles {
    /// The roles of a new cluster: a superuser of this name, and the predefined ones.
    #[must_use]
    pub fn new(superuser: &str) -> Self {
        let first = Role::superuser(BOOTSTRAP_ROLE, superuser);
        Kept { by_oid: [(BOOTSTRAP_ROLE, first)].into(), next_oid: FIRST_USER_ROLE }.into()
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

    /// Makes a role a member of another; says whether that has changed something.
    ///
    /// # Errors
    /// 0LP01 if that would go round in a circle.
    pub fn add_member(&mut self, group: RoleId, member: RoleId, grantor: RoleId, admin: bool) -> Result<bool> {
        if group == member || self.groups_of(group).contains(&member) {
            return Err(self.circle(group, member));
        }
        let Some(role) = self.by_oid.get_mut(&member) else { return Ok(false) };
        match role.member_of.iter_mut().find(|known| known.group == group) {
            Some(known) if admin && !known.admin => *known = Membership { group, grantor, admin },
            Some(_) => return Ok(false),
            None => role.member_of.push(Membership { group, grantor, admin }),
        }
        Ok(true)
    }

    /// Makes each of some roles a member of each of some groups; gives the memberships that existed
    /// before, group and member, in order.
    ///
    /// # Errors
    /// As [`Roles::add_member`], of the first pair that would close a circle.
    pub fn add_members(
        &mut self,
        groups: &[RoleId],
        members: &[RoleId],
        grantor: RoleId,
        admin: bool,
    ) -> Result<Vec<(RoleId, RoleId)>> {
        if let Some((group, member)) = self.circle_among(groups, members) {
            return Err(self.circle(group, member));
        }
        let groups_now = |member: RoleId| -> HashMap<RoleId, usize> {
            let memberships = self.get(member).map_or(&[][..], |role| &role.member_of);
            memberships.iter().enumerate().map(|(place, known)| (known.group, place)).collect()
        };
        // By member: the same one may be named twice.
        let mut known: HashMap<RoleId, HashMap<RoleId, usize>> =
            members.iter().map(|&member| (member, groups_now(member))).collect();
        let mut unchanged = Vec::new();
        for &group in groups {
            for &member in members {
                let (Some(role), Some(known)) = (self.by_oid.get_mut(&member), known.get_mut(&member)) else {
                    continue;
                };
                match known.get(&group).map(|&place| &mut role.member_of[place]) {
                    Some(membership) if admin && !membership.admin => {
                        *membership = Membership { group, grantor, admin };
                    }
                    Some(_) => unchanged.push((group, member)),
                    None => {
                        known.insert(group, role.member_of.len());
                        role.member_of.push(Membership { group, grantor, admin });
                    }
                }
            }
        }
        Ok(unchanged)
    }

    /// The first of some groups, with the first of its new members, that the group is a member of
    /// already. Each role is looked at once, however many groups lead to it.
    fn circle_among(&self, groups: &[RoleId], members: &[RoleId]) -> Option<(RoleId, RoleId)> {
        let new_members: HashSet<RoleId> = members.iter().copied().collect();
        // From these groups no new member can be reached.
        let mut seen = HashSet::new();
        let reaches = |group: RoleId, seen: &mut HashSet<RoleId>| {
            let mut next = vec![group];
            while let Some(role) = next.pop() {
                if new_members.contains(&role) {
                    return true;
                }
                if seen.insert(role) {
                    next.extend(self.get(role).into_iter().flat_map(|role| &role.member_of).map(|known| known.group));
                }
            }
            false
        };
        let group = groups.iter().copied().find(|&group| reaches(group, &mut seen))?;
        let above = self.groups_of(group);
        members.iter().copied().find(|member| above.contains(member)).map(|member| (group, member))
    }

    fn circle(&self, group: RoleId, member: RoleId) -> Error {
        let message = format!("role \"{}\" is a member of role \"{}\"", self.name_of(group), self.name_of(member));
        Error::new(SqlState("0LP01"), message)
    }

    /// Ends a membership, or only its ADMIN OPTION; gives whether there was one.
    pub fn remove_member(&mut self, group: RoleId, member: RoleId, only_admin: bool) -> bool {
        let Some(role) = self.by_oid.get_mut(&member) else { return false };
        let Some(place) = role.member_of.iter().position(|known| known.group == group) else { return false };
        if only_admin {
            role.member_of[place].admin = false;
        } else {
            role.member_of.remove(place);
        }
        true
    }

    /// A role, and all that it is a member of, directly or not.
    #[must_use]
    pub fn groups_of(&self, role: RoleId) -> HashSet<RoleId> {
        self.reachable(role, |_| true).into_iter().collect()
    }

    /// Whether a role may make others members of a group: itself or one of its groups has the group
    /// with ADMIN OPTION.
    #[must_use]
    pub fn is_admin_of(&self, role: RoleId, group: RoleId) -> bool {
        let admits = |role: &Role| role.member_of.iter().any(|known| known.group == group && known.admin);
        role != group && self.reachable(role, |_| true).into_iter().any(|role| self.get(role).is_some_and(admits))
    }

    /// A role and those whose privileges it has, nearest first: reached only through roles that
    /// inherit.
    pub(super) fn inherited_by(&self, role: RoleId) -> Vec<RoleId> {
        self.reachable(role, |role| role.inherit)
    }

    fn reachable(&self, from: RoleId, passes: impl Fn(&Role) -> bool) -> Vec<RoleId> {
        let mut seen = HashSet::from([from]);
        let mut found = vec![from];
        let mut at = 0;
        while let Some(role) = found.get(at).copied() {
            let memberships = self.get(role).filter(|role| passes(role)).map_or(&[][..], |role| &role.member_of);
            let mut groups: Vec<RoleId> = memberships.iter().map(|known| known.group).collect();
            groups.sort_unstable();
            found.extend(groups.into_iter().filter(|&group| seen.insert(group)));
            at += 1;
        }
        found
    }
}

/// A role's name as it is written in lists of privileges.
pub fn quoted_role(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn unlimited() -> i32 {
    -1
}
