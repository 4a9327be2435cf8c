//! Roles, databases, privileges, owners, comments, upkeep: statements about the cluster and about who may do what.
//!
//! What belongs to the cluster (roles, databases) changes at once, and stays changed whatever becomes of the transaction;
//! what belongs to a database (owners, privileges on tables, comments) changes with the transaction, like its tables.
//!
//! Invariants: nothing changes before it is known that whoever asks may do so; what is refused says no more than the name
//! that was given.

mod comments;
mod grants;
mod parse;
mod roles;
mod sequences;
mod settings;
mod upkeep;

use std::sync::Arc;

use colibri_catalog::{
    Catalog, Relation, catalog_space,
    cluster::{Authority, Cluster, Dependents, ObjectKind, Privileges, RoleId},
    store_error::InSql as _,
    table_key,
};
use colibri_txn::{IfLocked, LockMode, Transaction};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast;

use crate::ddl::SequenceOption;
use crate::session::{Session, TransactionState};

pub(crate) use parse::{parse, parse_identity_change, parse_identity_options};
pub(crate) use settings::{SettingChange, SettingsOf};

/// A statement of these.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    CreateRole {
        name: CompactString,
        options: Vec<RoleOption>,
    },
    AlterRole {
        role: Actor,
        options: Vec<RoleOption>,
    },
    RenameRole {
        name: CompactString,
        to: CompactString,
    },
    DropRoles {
        names: Vec<Actor>,
        if_exists: bool,
    },
    /// `ALTER GROUP … ADD|DROP USER …`
    AlterGroup {
        role: Actor,
        members: Vec<Actor>,
        add: bool,
    },
    GrantRoles {
        roles: Vec<CompactString>,
        to: Vec<Actor>,
        admin: bool,
        revoke: bool,
        /// Who is said to do it, if not the user.
        by: Option<Actor>,
    },
    CreateDatabase {
        name: CompactString,
        owner: Option<Actor>,
        limit: Option<i32>,
        allow: Option<bool>,
    },
    DropDatabase {
        name: CompactString,
        if_exists: bool,
        force: bool,
    },
    RenameDatabase {
        name: CompactString,
        to: CompactString,
    },
    AlterDatabase {
        name: CompactString,
        limit: Option<i32>,
        allow: Option<bool>,
    },
    Settings {
        of: SettingsOf,
        change: SettingChange,
    },
    /// `to` is `None` for PUBLIC.
    Grant {
        granting: Granting,
        on: On,
        to: Vec<Option<Actor>>,
    },
    Owner {
        object: Object,
        if_exists: bool,
        to: Actor,
    },
    ReassignOwned {
        from: Vec<Actor>,
        to: Actor,
    },
    DropOwned {
        roles: Vec<Actor>,
        cascade: bool,
    },
    Comment {
        object: Object,
        text: Option<String>,
    },
    /// Nothing to do, but the tables have to be there. `alone`: not in a block.
    Upkeep {
        tag: &'static str,
        what: upkeep::Upkeep,
        alone: bool,
    },
    Checkpoint,
    Lock {
        tables: Vec<Vec<CompactString>>,
        strength: LockTable,
        nowait: bool,
    },
    DiscardPlans,
    DiscardSequences,
    CreateSequence {
        name: Vec<CompactString>,
        if_not_exists: bool,
        options: Vec<SequenceOption>,
    },
    AlterSequence {
        name: Vec<CompactString>,
        if_exists: bool,
        options: Vec<SequenceOption>,
    },
    /// `ALTER {TABLE | VIEW | INDEX | SEQUENCE} name RENAME TO name`
    RenameRelation {
        object: Object,
        if_exists: bool,
        to: CompactString,
    },
}

/// Whom a statement means.
#[derive(Debug, Clone)]
pub(crate) enum Actor {
    Named(CompactString),
    Current,
    Session,
}

/// What a role may be told to be.
#[derive(Debug, Clone)]
pub(crate) enum RoleOption {
    Superuser(bool),
    CreateDb(bool),
    CreateRole(bool),
    Inherit(bool),
    Login(bool),
    ConnectionLimit(i32),
    /// `None` takes it away.
    Password(Option<String>),
    ValidUntil(String),
    InRoles(Vec<CompactString>),
    Members(Vec<CompactString>),
    Admins(Vec<CompactString>),
    /// One that there is no such thing for here; NO… is what holds.
    Unknown(&'static str, bool),
}

/// How privileges are granted, or taken back.
#[derive(Debug, Clone)]
pub(crate) struct Granting {
    /// By name; `None` for all.
    pub(crate) privileges: Option<Vec<CompactString>>,
    /// WITH GRANT OPTION; or only the right to grant is taken back.
    pub(crate) option: bool,
    pub(crate) revoke: bool,
    /// Who is said to do it.
    pub(crate) by: Option<Actor>,
    pub(crate) dependents: Dependents,
}

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table, view, sequence or index.
    Relation,
    View,
    Index,
    Sequence,
    Schema,
    Database,
    Role,
    /// A table, said to be one.
    Table,
    /// The last part of the name is the column's.
    Column,
    /// The last part of the name is the constraint's.
    Constraint,
}

/// An object by name.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: Vec<CompactString>,
}

/// What privileges are granted on.
#[derive(Debug, Clone)]
pub(crate) enum On {
    Objects(Vec<Object>),
    AllIn { schemas: Vec<CompactString>, sequences: bool },
}

/// How strongly `LOCK TABLE` locks, as far as there are such locks here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockTable {
    /// Against nothing that would not be seen at the commit anyway.
    Nothing,
    /// Against whoever writes.
    Exclusive,
}

impl Statement {
    /// PostgreSQL's command tag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::CreateRole { .. } => "CREATE ROLE",
            Self::AlterRole { .. } | Self::RenameRole { .. } | Self::AlterGroup { .. } => "ALTER ROLE",
            Self::DropRoles { .. } => "DROP ROLE",
            Self::GrantRoles { revoke: false, .. } => "GRANT ROLE",
            Self::GrantRoles { revoke: true, .. } => "REVOKE ROLE",
            Self::CreateDatabase { .. } => "CREATE DATABASE",
            Self::DropDatabase { .. } => "DROP DATABASE",
            Self::RenameDatabase { .. } | Self::AlterDatabase { .. } => "ALTER DATABASE",
            Self::Settings { of, .. } if of.is_database => "ALTER DATABASE",
            Self::Settings { .. } => "ALTER ROLE",
            Self::Grant { granting, .. } => {
                if granting.revoke {
                    "REVOKE"
                } else {
                    "GRANT"
                }
            }
            Self::Owner { object, .. } | Self::RenameRelation { object, .. } => match object.kind {
                Kind::Database => "ALTER DATABASE",
                Kind::Schema => "ALTER SCHEMA",
                Kind::Sequence => "ALTER SEQUENCE",
                Kind::View => "ALTER VIEW",
                Kind::Index => "ALTER INDEX",
                _ => "ALTER TABLE",
            },
            Self::ReassignOwned { .. } => "REASSIGN OWNED",
            Self::DropOwned { .. } => "DROP OWNED",
            Self::Comment { .. } => "COMMENT",
            Self::Upkeep { tag, .. } => tag,
            Self::Checkpoint => "CHECKPOINT",
            Self::Lock { .. } => "LOCK TABLE",
            Self::DiscardPlans => "DISCARD PLANS",
            Self::DiscardSequences => "DISCARD SEQUENCES",
            Self::CreateSequence { .. } => "CREATE SEQUENCE",
            Self::AlterSequence { .. } => "ALTER SEQUENCE",
        }
    }

    /// Whether it changes something.
    pub(crate) fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Upkeep { .. } | Self::Checkpoint | Self::Lock { .. } | Self::DiscardPlans | Self::DiscardSequences
        )
    }

    /// Whether it may wait for others without saying so: for sessions that are to end.
    pub(crate) fn may_block(&self) -> bool {
        matches!(self, Self::CreateDatabase { .. } | Self::DropDatabase { .. } | Self::RenameDatabase { .. })
    }

    /// Whether it may not run in a transaction block, since it cannot be taken back.
    pub(crate) fn runs_alone(&self) -> bool {
        match self {
            Self::CreateDatabase { .. } | Self::DropDatabase { .. } => true,
            Self::Upkeep { alone, .. } => *alone,
            _ => false,
        }
    }
}

impl Session {
    /// Runs a statement, within the transaction at hand.
    pub(crate) fn administer(&mut self, statement: &Statement) -> Result<()> {
        if statement.runs_alone() && self.state() != TransactionState::Idle {
            let message = format!("{} cannot run inside a transaction block", statement.tag());
            return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        match statement {
            Statement::CreateRole { name, options } => self.create_role(name, options),
            Statement::AlterRole { role, options } => self.alter_role(role, options),
            Statement::RenameRole { name, to } => self.rename_role(name, to),
            Statement::DropRoles { names, if_exists } => self.drop_roles(names, *if_exists),
            Statement::AlterGroup { role, members, add } => {
                let group = self.role_name(role)?;
                self.grant_roles(&[group], members, false, !add, None)
            }
            Statement::GrantRoles { roles, to, admin, revoke, by } => {
                self.grant_roles(roles, to, *admin, *revoke, by.as_ref())
            }
            Statement::CreateDatabase { name, owner, limit, allow } => {
                self.create_database(name, owner.as_ref(), *limit, *allow)
            }
            Statement::DropDatabase { name, if_exists, force } => self.drop_database(name, *if_exists, *force),
            Statement::RenameDatabase { name, to } => self.rename_database(name, to),
            Statement::AlterDatabase { name, limit, allow } => self.alter_database(name, *limit, *allow),
            Statement::Settings { of, change } => self.change_settings(of, change),
            Statement::Grant { granting, on, to } => self.grant(granting, on, to),
            Statement::Owner { object, if_exists, to } => self.change_owner(object, *if_exists, to),
            Statement::ReassignOwned { from, to } => self.reassign_owned(from, to),
            Statement::DropOwned { roles, cascade } => self.drop_owned(roles, *cascade),
            Statement::Comment { object, text } => self.comment_on(object, text.clone()),
            Statement::Upkeep { tag, what, .. } => self.upkeep(tag, what),
            Statement::Checkpoint => self.checkpoint(),
            Statement::Lock { tables, strength, nowait } => self.lock_tables(tables, *strength, *nowait),
            Statement::DiscardPlans => {
                self.discard_plans();
                Ok(())
            }
            Statement::DiscardSequences => {
                self.discard_sequences();
                Ok(())
            }
            Statement::CreateSequence { name, if_not_exists, options } => {
                self.create_sequence(name, *if_not_exists, options)
            }
            Statement::AlterSequence { name, if_exists, options } => self.alter_sequence(name, *if_exists, options),
            Statement::RenameRelation { object, if_exists, to } => self.rename_one_relation(object, *if_exists, to),
        }
    }

    /// The server around, for what only a server has.
    fn server(&self, what: &str) -> Result<Arc<dyn Cluster>> {
        self.cluster().ok_or_else(|| {
            Error::unsupported(format_args!("{what} in a database that is open without a server"))
                .hint("Roles and databases belong to a server: colibri serve.")
        })
    }

    /// A role's number.
    fn actor(&self, actor: &Actor) -> Result<RoleId> {
        match actor {
            Actor::Current => Ok(self.role()),
            Actor::Session => Ok(self.session_role()),
            Actor::Named(name) => self.all_roles().expect(name).map(|role| role.oid),
        }
    }

    /// What a name means, if anything. 0A000 if it says that it is another database's.
    pub(crate) fn relation_named(&self, name: &[CompactString]) -> Result<Option<&Relation>> {
        let within = match name {
            [database, rest @ ..] if rest.len() == 2 => {
                crate::bind::expect_database(self.engine().name(), database, || name.join("."))?;
                rest
            }
            all => all,
        };
        Ok(self.catalog().find(within, self.search_path()))
    }

    fn role_name(&self, actor: &Actor) -> Result<CompactString> {
        let oid = self.actor(actor)?;
        let roles = self.all_roles();
        let role = roles.get(oid).ok_or_else(|| Error::new(SqlState::NO_SUCH_OBJECT, "role does not exist"))?;
        Ok(role.name.clone())
    }

    fn expect_relation(&self, name: &[CompactString]) -> Result<Relation> {
        self.relation_named(name)?.cloned().ok_or_else(|| {
            Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{}\" does not exist", name.join(".")))
        })
    }

    fn rename_one_relation(&mut self, object: &Object, if_exists: bool, to: &str) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let shown = object.name.last().map_or("", |name| name.as_str());
        if if_exists && self.relation_named(&object.name)?.is_none() {
            self.notice_missing("relation", shown);
            return Ok(());
        }
        let relation = self.expect_relation(&object.name)?;
        self.expect_owner_of(&relation)?;
        let fits = match object.kind {
            Kind::View => matches!(relation, Relation::View(_)),
            Kind::Sequence => matches!(relation, Relation::Sequence(_)),
            // What is renamed as an index may be anything, as in older versions of PostgreSQL.
            _ => true,
        };
        if !fits {
            let kind = if object.kind == Kind::View { "view" } else { "sequence" };
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a {kind}")));
        }
        let quoted = |part: &str| ast::Ident::with_quote('"', part);
        let name: Vec<ast::Ident> = object.name.iter().map(|part| quoted(part)).collect();
        self.rename_relation(&ast::ObjectName::from(name), &ast::ObjectName::from(vec![quoted(to)]))
    }

    /// `CREATE SCHEMA … AUTHORIZATION`: the schema is the role's from its beginning.
    pub(crate) fn give_schema(&mut self, name: CompactString, owner: CompactString) -> Result<()> {
        let to = match owner.as_str() {
            "current_user" | "current_role" => Actor::Current,
            "session_user" => Actor::Session,
            _ => Actor::Named(owner),
        };
        self.change_owner(&Object { kind: Kind::Schema, name: vec![name] }, false, &to)
    }

    fn checkpoint(&mut self) -> Result<()> {
        if !self.authority().is_superuser() {
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, "must be superuser to do CHECKPOINT"));
        }
        self.engine().store().database().sync().in_sql()
    }

    fn lock_tables(&mut self, tables: &[Vec<CompactString>], strength: LockTable, nowait: bool) -> Result<()> {
        if self.is_outside_block() {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
        }
        for name in tables {
            let table = match self.expect_relation(name)? {
                Relation::Table(table) => table,
                other => {
                    let shown = name.last().cloned().unwrap_or_default();
                    let message = format!("cannot lock relation \"{shown}\": it is a {}", other.kind());
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            };
            let wanted = if strength == LockTable::Nothing {
                Privileges::SELECT
            } else {
                Privileges::UPDATE.with(Privileges::DELETE).with(Privileges::TRUNCATE)
            };
            let has = self.authority().privileges(ObjectKind::Table, table.owner, table.acl.as_ref());
            if has.common(wanted).is_empty() {
                return Err(Error::denied("table", &table.name));
            }
            if strength == LockTable::Exclusive {
                let if_locked = if nowait { IfLocked::Refuse } else { IfLocked::Wait };
                let (_, txn) = self.catalog_and_txn()?;
                txn.lock(&catalog_space(), &table_key(table.id), LockMode::Exclusive, if_locked).in_sql()?;
            }
        }
        Ok(())
    }

    // ---- who may ----

    /// Refuses whoever does not own something.
    pub(crate) fn expect_owner(&self, owner: RoleId, kind: &str, name: &str) -> Result<()> {
        if self.authority().has_role(owner) { Ok(()) } else { Err(Error::not_owner(kind, name)) }
    }

    /// Refuses whoever does not own a relation.
    pub(crate) fn expect_owner_of(&self, relation: &Relation) -> Result<()> {
        match relation {
            Relation::Table(table) => self.expect_owner(table.owner, "table", &table.name),
            Relation::View(view) => self.expect_owner(view.owner, "view", &view.name),
            Relation::Sequence(sequence) => self.expect_owner(sequence.owner, "sequence", &sequence.name),
            Relation::Index(table, index) => {
                let owner =
                    self.catalog().table(*table).map_or(colibri_catalog::cluster::BOOTSTRAP_ROLE, |table| table.owner);
                self.expect_owner(owner, "index", &index.name)
            }
            Relation::PrimaryKey(table) => match self.catalog().table(*table) {
                Some(table) => self.expect_owner(table.owner, "index", &table.name),
                None => Ok(()),
            },
        }
    }

    /// Refuses whoever may not make things in a schema.
    pub(crate) fn expect_may_create_in(&self, schema: &str) -> Result<()> {
        let Some(found) = self.catalog().schema(schema) else { return Ok(()) };
        let may = self.authority().may(Privileges::CREATE, ObjectKind::Schema, found.owner, found.acl.as_ref());
        if may { Ok(()) } else { Err(Error::denied("schema", schema)) }
    }
}

fn no_such_schema(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{name}\" does not exist"))
}

/// Whether somebody may hand things over to a role: whoever has it.
fn may_become(authority: &Authority, roles: &colibri_catalog::cluster::Roles, role: RoleId) -> bool {
    authority.is_superuser() || roles.groups_of(authority.role).contains(&role)
}
