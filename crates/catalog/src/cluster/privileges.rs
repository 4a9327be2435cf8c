//! Privileges, the lists that grant them, and the privileges of a role.

use std::collections::HashSet;
use std::fmt::Write;

use colibri_types::{Error, Result, SqlState};
use serde::{Deserialize, Serialize};

use super::roles::quoted_role;
use super::{BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, PUBLIC_ROLE, RoleId, Roles};

/// The role that a statement runs as, with the roles whose privileges it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The role.
    pub role: RoleId,
    superuser: bool,
    /// Row-level security does not hold for it.
    bypasses_security: bool,
    /// Roles whose privileges it has, itself among them.
    has: HashSet<RoleId>,
}

impl Authority {
    /// The authority of a superuser.
    #[must_use]
    pub fn superuser() -> Self {
        Self { role: BOOTSTRAP_ROLE, superuser: true, bypasses_security: true, has: HashSet::new() }
    }

    /// A role's, in a database that belongs to `owner`.
    #[must_use]
    pub fn of(roles: &Roles, role: RoleId, owner: RoleId) -> Self {
        let superuser = roles.get(role).is_some_and(|role| role.superuser);
        let bypasses_security = superuser || roles.get(role).is_some_and(|role| role.bypassrls);
        Self { role, superuser, bypasses_security, has: in_database_of(owner, roles, role).into_iter().collect() }
    }

    /// The number of roles whose privileges it has.
    #[must_use]
    pub fn role_count(&self) -> usize {
        self.has.len()
    }

    /// Whether it may do everything.
    #[must_use]
    pub fn is_superuser(&self) -> bool {
        self.superuser
    }

    /// Whether the role skips row-level security on all tables: superusers and `BYPASSRLS`.
    #[must_use]
    pub fn bypasses_security(&self) -> bool {
        self.bypasses_security
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

    /// All privileges that it has on the object.
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
        let granted = acl.0.iter().filter(mine).fold(Privileges::NONE, |sum, grant| sum.with(grant.privileges));
        granted.with(self.of_predefined_roles(kind))
    }

    /// What members of `pg_read_all_data` and `pg_write_all_data` may do to all objects of a kind.
    fn of_predefined_roles(&self, kind: ObjectKind) -> Privileges {
        let (reads, writes) =
            (self.has.contains(&super::roles::READ_ALL_DATA), self.has.contains(&super::roles::WRITE_ALL_DATA));
        let mut all = Privileges::NONE;
        match kind {
            ObjectKind::Table | ObjectKind::Sequence if reads => all = all.with(Privileges::SELECT),
            ObjectKind::Schema if reads || writes => all = all.with(Privileges::USAGE),
            _ => {}
        }
        if writes && matches!(kind, ObjectKind::Table) {
            all = all.with(Privileges::INSERT).with(Privileges::UPDATE).with(Privileges::DELETE);
        }
        all
    }

    /// The privileges that it may grant to others.
    #[must_use]
    pub fn grantable(&self, kind: ObjectKind, owner: RoleId, acl: Option<&Acl>) -> Privileges {
        acl.map_or_else(|| self.grantable_of(owner, &Acl::default()), |acl| self.grantable_of(owner, acl))
            .common(kind.all())
    }

    fn grantable_of(&self, owner: RoleId, acl: &Acl) -> Privileges {
        if self.has_role(owner) { Privileges::ALL } else { acl.options(|grantee| self.has.contains(&grantee)) }
    }
}

/// A role and those whose privileges it has in a database that belongs to `owner`, nearest first.
fn in_database_of(owner: RoleId, roles: &Roles, role: RoleId) -> Vec<RoleId> {
    let mut has = roles.inherited_by(role);
    if has.contains(&owner) && !has.contains(&DATABASE_OWNER_ROLE) {
        has.push(DATABASE_OWNER_ROLE);
    }
    has
}

/// What grant options depend on: the roles, and the owners of the object and of its database.
#[derive(Debug, Clone, Copy)]
pub struct Parties<'a> {
    /// All roles.
    pub roles: &'a Roles,
    /// The owner of the database.
    pub database_owner: RoleId,
    /// The owner of the object. Owners may always grant, whatever the list says.
    pub owner: RoleId,
}

impl Parties<'_> {
    fn authority(&self, role: RoleId) -> Authority {
        Authority::of(self.roles, role, self.database_owner)
    }
}

/// What happens to grants by a role that loses the grant option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependents {
    /// They prevent the REVOKE: RESTRICT.
    Refuse,
    /// They are revoked, too: CASCADE.
    TakeBack,
}

/// Kinds of objects with privileges.
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
    /// A function or procedure.
    Function,
    /// A type.
    Type,
}

impl ObjectKind {
    /// All that can be granted.
    #[must_use]
    pub fn all(self) -> Privileges {
        match self {
            Self::Database => Privileges::CREATE.with(Privileges::TEMPORARY).with(Privileges::CONNECT),
            Self::Schema => Privileges::USAGE.with(Privileges::CREATE),
            Self::Table => Privileges(0x7f),
            Self::Function => Privileges::EXECUTE,
            Self::Type => Privileges::USAGE,
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
    /// All that there are.
    pub const ALL: Self = Self(0xfff);
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

    /// Those of tables that columns can have, too.
    pub const OF_COLUMNS: Self = Self::INSERT.with(Self::SELECT).with(Self::UPDATE).with(Self::REFERENCES);

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

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The privilege of a name, in whichever case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { name };
        Self::NAMES.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)).map(|bit| Self(1 << bit))
    }

    /// The letters of those that it has.
    pub fn letters(self) -> impl Iterator<Item = char> {
        Self::NAMES.iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, (_, letter))| *letter)
    }

    /// The names of those that it has.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, (name, _))| *name)
    }
}

/// The privileges on an object: PostgreSQL's access control list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Acl(pub Vec<Grant>);

/// Privileges that one role has from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The grantee; [`PUBLIC_ROLE`] stands for all roles.
    pub grantee: RoleId,
    /// The grantor.
    pub grantor: RoleId,
    /// The privileges.
    pub privileges: Privileges,
    /// The privileges with the grant option.
    #[serde(default)]
    pub grantable: Privileges,
}

impl Grant {
    /// An entry without grant options.
    #[must_use]
    pub const fn plain(grantee: RoleId, grantor: RoleId, privileges: Privileges) -> Self {
        Self { grantee, grantor, privileges, grantable: Privileges::NONE }
    }

    fn is_between_those_of(&self, other: &Self) -> bool {
        self.grantee == other.grantee && self.grantor == other.grantor
    }
}

impl Acl {
    /// The default privileges, before any GRANT or REVOKE.
    #[must_use]
    pub fn default_of(kind: ObjectKind, owner: RoleId) -> Self {
        let all = Grant { grantee: owner, grantor: owner, privileges: kind.all(), grantable: Privileges::NONE };
        let public = match kind {
            ObjectKind::Database => Privileges::TEMPORARY.with(Privileges::CONNECT),
            ObjectKind::Function => Privileges::EXECUTE,
            ObjectKind::Type => Privileges::USAGE,
            _ => Privileges::NONE,
        };
        let mut grants = Vec::with_capacity(2);
        if !public.is_empty() {
            grants.push(Grant { grantee: PUBLIC_ROLE, privileges: public, ..all });
        }
        grants.push(all);
        Self(grants)
    }

    /// Adds privileges without a check.
    pub fn add(&mut self, grant: Grant) {
        match self.0.iter_mut().find(|known| known.is_between_those_of(&grant)) {
            Some(known) => {
                known.privileges = known.privileges.with(grant.privileges);
                known.grantable = known.grantable.with(grant.grantable);
            }
            None => self.0.push(grant),
        }
    }

    /// Adds privileges.
    ///
    /// # Errors
    /// 0LP01 if a grant option would go back to a role from which the grantor has it.
    pub fn grant(&mut self, parties: &Parties<'_>, grant: Grant) -> Result<()> {
        if !grant.grantable.is_empty() && grant.grantor != parties.owner {
            self.expect_no_circle(parties, &grant)?;
        }
        self.add(grant);
        Ok(())
    }

    /// The grantor has to have the right to grant without what the grantee would pass on.
    fn expect_no_circle(&self, parties: &Parties<'_>, grant: &Grant) -> Result<()> {
        let mut without = self.clone();
        let passes_on = |known: &&Grant| known.grantee == grant.grantee && !known.grantable.is_empty();
        while let Some(known) = without.0.iter().find(passes_on).copied() {
            without.revoke(parties, known, Dependents::TakeBack)?;
        }
        let own = parties.authority(grant.grantor).grantable_of(parties.owner, &without);
        if grant.grantable.without(own).is_empty() {
            return Ok(());
        }
        let message = "grant options cannot be granted back to your own grantor";
        Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message))
    }

    /// Revokes privileges that one role has from another. A role that loses a grant option loses
    /// the grants that it made with it.
    ///
    /// # Errors
    /// 2BP01 if there are dependent grants, and `dependents` says to refuse them. The list may be
    /// half changed then.
    pub fn revoke(&mut self, parties: &Parties<'_>, taken: Grant, dependents: Dependents) -> Result<()> {
        // Roles that lost a grant option. Chains may be long, so this is a loop and no recursion.
        let mut losers = vec![(taken.grantee, self.take(&taken))];
        while let Some((role, lost)) = losers.pop() {
            if lost.is_empty() || role == parties.owner {
                continue;
            }
            let lost = lost.without(parties.authority(role).grantable_of(parties.owner, self));
            let by_it = |known: &&Grant| known.grantor == role && !known.privileges.common(lost).is_empty();
            let Some(dependent) = self.0.iter().find(by_it).copied() else { continue };
            if dependents == Dependents::Refuse {
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS, "dependent privileges exist")
                    .hint("Use CASCADE to revoke them too."));
            }
            losers.push((role, lost));
            let also_taken = Grant { privileges: lost, grantable: lost, ..dependent };
            losers.push((dependent.grantee, self.take(&also_taken)));
        }
        Ok(())
    }

    /// Removes an entry's privileges; gives those that its grantee can no longer grant.
    fn take(&mut self, taken: &Grant) -> Privileges {
        let Some(place) = self.0.iter().position(|known| known.is_between_those_of(taken)) else {
            return Privileges::NONE;
        };
        let entry = &mut self.0[place];
        let before = entry.grantable;
        entry.privileges = entry.privileges.without(taken.privileges);
        entry.grantable = entry.grantable.without(taken.grantable);
        let lost = before.without(entry.grantable);
        if entry.privileges.is_empty() && entry.grantable.is_empty() {
            self.0.remove(place);
        }
        lost
    }

    /// The grantor for which a role grants or revokes `wanted`, and the part of it that this
    /// grantor may grant. Owners and superusers act as the owner; others as the first of their
    /// roles that may grant all of it, or else the most.
    #[must_use]
    pub fn best_grantor(&self, parties: &Parties<'_>, role: RoleId, wanted: Privileges) -> (RoleId, Privileges) {
        if role == parties.owner || parties.roles.get(role).is_some_and(|role| role.superuser) {
            return (parties.owner, wanted);
        }
        let mut best = (role, Privileges::NONE);
        for candidate in in_database_of(parties.database_owner, parties.roles, role) {
            let may = if candidate == parties.owner {
                wanted
            } else {
                self.options(|grantee| grantee == candidate).common(wanted)
            };
            if may == wanted {
                return (candidate, may);
            }
            if may.count() > best.1.count() {
                best = (candidate, may);
            }
        }
        best
    }

    /// The grant options of some grantees.
    fn options(&self, whose: impl Fn(RoleId) -> bool) -> Privileges {
        let theirs = self.0.iter().filter(|grant| whose(grant.grantee));
        theirs.fold(Privileges::NONE, |sum, grant| sum.with(grant.grantable))
    }

    /// Privileges and grants of the former owner become those of the new one.
    pub fn change_owner(&mut self, from: RoleId, to: RoleId) {
        for mut grant in std::mem::take(&mut self.0) {
            for role in [&mut grant.grantee, &mut grant.grantor] {
                if *role == from {
                    *role = to;
                }
            }
            self.add(grant);
        }
    }

    /// Whether both have the same entries, in whichever order.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|grant| other.0.contains(grant))
    }

    /// Both lists.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        other.0.iter().for_each(|grant| merged.add(*grant));
        merged
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
