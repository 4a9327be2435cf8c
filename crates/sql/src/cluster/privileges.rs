//! Who may do what: privileges, the lists that grant them, and what a role has of them.

use std::collections::HashSet;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::roles::quoted_role;
use super::{BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, PUBLIC_ROLE, RoleId, Roles};

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
