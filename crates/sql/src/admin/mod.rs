//! Roles, databases, privileges, owners, comments, upkeep: statements about the cluster and about
//! privileges.
//!
//! What belongs to the cluster (roles, databases) changes at once, and stays changed even if the
//! transaction is rolled back; what belongs to a database (owners, privileges on tables, comments)
//! changes with the transaction, like its tables.
//!
//! Invariants: privileges are checked before anything is changed; a refusal says no more than the
//! name that was given.

mod comments;
mod databases;
mod default_privileges;
mod grants;
mod owned_others;
mod roles;
mod sequences;
mod settings;
mod upkeep;

use std::sync::Arc;

use colibri_catalog::{
    Catalog, Relation, catalog_space,
    cluster::{Authority, Cluster, ObjectKind, Privileges, RoleId},
    store_error::InSql as _,
    table_key,
};
use colibri_syntax::tree::{Admin, Object, ObjectKind as Kind, RoleName, Routines, TableLock, Upkeep};
use colibri_txn::{IfLocked, LockMode};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast;

use crate::session::{Session, TransactionState};

/// Whether a statement changes something.
pub(crate) fn writes(statement: &Admin) -> bool {
    !matches!(statement, Admin::Upkeep(_) | Admin::Checkpoint | Admin::Lock { .. })
        && !runs_body(statement)
        && !is_about_channels(statement)
}

/// LISTEN, UNLISTEN and NOTIFY: what they do is a part of the transaction, and in no table.
pub(crate) fn is_about_channels(statement: &Admin) -> bool {
    matches!(statement, Admin::Listen(_) | Admin::Unlisten(_) | Admin::Notify { .. })
}

/// Whether a statement runs a body.
pub(crate) fn runs_body(statement: &Admin) -> bool {
    matches!(statement, Admin::Routines(statement) if matches!(**statement, Routines::Do { .. }))
}

/// Whether a statement changes what belongs to the server and not to the database.
pub(crate) fn is_of_server(statement: &Admin) -> bool {
    matches!(
        statement,
        Admin::CreateRole { .. }
            | Admin::AlterRole { .. }
            | Admin::RenameRole { .. }
            | Admin::DropRoles { .. }
            | Admin::AlterGroup { .. }
            | Admin::GrantRoles { .. }
            | Admin::CreateDatabase { .. }
            | Admin::DropDatabase { .. }
            | Admin::RenameDatabase { .. }
            | Admin::ResetDatabase { .. }
            | Admin::AlterDatabase { .. }
            | Admin::Settings { .. }
    )
}

/// Whether a statement may wait for others without saying so: for sessions that are to end.
pub(crate) fn may_block(statement: &Admin) -> bool {
    matches!(
        statement,
        Admin::CreateDatabase { .. }
            | Admin::DropDatabase { .. }
            | Admin::RenameDatabase { .. }
            | Admin::ResetDatabase { .. }
            | Admin::Upkeep(Upkeep::Vacuum { full: true, .. })
    )
}

/// Whether a statement may not run in a transaction block, since it cannot be taken back.
pub(crate) fn runs_alone(statement: &Admin) -> bool {
    match statement {
        Admin::CreateDatabase { .. } | Admin::DropDatabase { .. } | Admin::ResetDatabase { .. } => true,
        Admin::Upkeep(upkeep) => upkeep::runs_alone(upkeep),
        _ => false,
    }
}

/// Whether LOCK TABLE keeps others from writing. The other modes keep nobody from anything that
/// would not be seen at the commit anyway.
fn excludes_writers(mode: TableLock) -> bool {
    !matches!(mode, TableLock::AccessShare | TableLock::RowShare | TableLock::RowExclusive)
}

impl Session {
    /// Runs a statement, within the transaction at hand.
    pub(crate) fn administer(&mut self, statement: &Admin) -> Result<()> {
        if runs_alone(statement) && self.state() != TransactionState::Idle {
            let message = format!("{} cannot run inside a transaction block", statement.tag());
            return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        match statement {
            Admin::SetSchema { object, if_exists, schema } => self.set_schema(object, *if_exists, schema),
            Admin::AlterIndex { index, if_exists, options, column } => {
                self.alter_index(index, *if_exists, options, *column)
            }
            Admin::CreateSchemaWith { schema, elements } => self.create_schema_with(schema, elements),
            Admin::CreateRole { name, options } => self.create_role(name, options),
            Admin::AlterRole { role, options } => self.alter_role(role, options),
            Admin::RenameRole { name, to } => self.rename_role(name, to),
            Admin::DropRoles { names, if_exists } => self.drop_roles(names, *if_exists),
            Admin::AlterGroup { role, members, add } => {
                let group = self.role_name(role)?;
                self.grant_roles(&[group], members, false, !add, None)
            }
            Admin::GrantRoles { roles, to, admin, revoke, by } => {
                self.grant_roles(roles, to, *admin, *revoke, by.as_ref())
            }
            Admin::CreateDatabase { name, options } => self.create_database(name, options),
            Admin::DropDatabase { name, if_exists, force } => self.drop_database(name, *if_exists, *force),
            Admin::RenameDatabase { name, to } => self.rename_database(name, to),
            Admin::ResetDatabase { name, to, as_of, force } => self.reset_database(name, to, as_of.as_ref(), *force),
            Admin::AlterDatabase { name, options } => self.alter_database(name, options),
            Admin::Settings { of, change } => self.change_settings(of, change),
            Admin::Grant { granting, on, to } => self.grant(granting, on, to),
            Admin::DefaultPrivileges { roles, schemas, granting, object, to } => {
                self.alter_default_privileges(roles, schemas, granting, *object, to)
            }
            Admin::Owner { object, if_exists, to } => self.change_owner(object, *if_exists, to),
            Admin::ReassignOwned { from, to } => self.reassign_owned(from, to),
            Admin::DropOwned { roles, cascade } => self.drop_owned(roles, *cascade),
            Admin::Comment { object, text } => self.comment_on(object, text.clone()),
            Admin::Upkeep(upkeep) => self.upkeep(upkeep),
            Admin::Checkpoint => self.checkpoint(),
            Admin::Listen(channel) => self.listen(channel),
            Admin::Unlisten(channel) => {
                self.unlisten(channel.as_ref());
                Ok(())
            }
            Admin::Notify { channel, payload } => self.notify(channel, payload),
            Admin::Lock { tables, mode, nowait } => self.lock_tables(tables, *mode, *nowait),
            Admin::CreateSequence { name, temporary, if_not_exists, options } => {
                self.create_sequence(name, *temporary, *if_not_exists, options)
            }
            Admin::AlterSequence { name, if_exists, options } => self.alter_sequence(name, *if_exists, options),
            Admin::AlterView { name, if_exists, change } => self.alter_view(name, *if_exists, change),
            Admin::RenameRelation { object, if_exists, to } => self.rename_one_relation(object, *if_exists, to),
            Admin::CreateEnum { name, labels } => self.create_enum(name, labels),
            Admin::CreateRange { name, options } => self.create_range(name, options),
            Admin::CreateComposite { name, fields } => self.create_composite(name, fields),
            Admin::AlterType { name, change } => self.alter_user_type(name, change),
            Admin::DropTypes { names, if_exists, cascade, domains } => {
                self.drop_types(names, *if_exists, *cascade, *domains)
            }
            Admin::CreateDomain { name, data_type, options } => self.create_domain(name, data_type, options),
            Admin::Refresh { name, concurrently, with_data } => self.refresh(name, *concurrently, *with_data),
            Admin::ChangePartitions { table, if_exists, change } => self.change_partitions(table, *if_exists, change),
            Admin::AttachIndex { index, partition } => self.attach_index(index, partition),
            Admin::AlterDomain { name, change } => self.alter_domain(name, change),
            Admin::CreateExtension { name, if_not_exists, schema, version, cascade: _ } => {
                self.create_extension(name, *if_not_exists, schema.as_ref(), version.as_ref())
            }
            Admin::AlterExtension { name, change } => self.alter_extension(name, change),
            Admin::DropExtensions { names, if_exists, cascade } => self.drop_extensions(names, *if_exists, *cascade),
            Admin::Routines(statement) => self.about_routines(statement),
            Admin::Policies(statement) => self.about_policies(statement),
            Admin::Collations(statement) => self.about_collations(statement),
            Admin::Statistics(statement) => self.about_statistics(statement),
            Admin::TextSearch(statement) => self.about_text_search(statement),
        }
    }

    /// The server around the session; an error if there is none.
    fn server(&self, what: &str) -> Result<Arc<dyn Cluster>> {
        self.cluster().ok_or_else(|| {
            Error::unsupported(format_args!("{what} in a database that is open without a server"))
                .hint("Roles and databases belong to a server: colibri serve.")
        })
    }

    /// A role's number.
    pub(crate) fn actor(&self, actor: &RoleName) -> Result<RoleId> {
        match actor {
            RoleName::Current => Ok(self.role()),
            RoleName::Session => Ok(self.session_role()),
            RoleName::Named(name) => self.all_roles().expect(name).map(|role| role.oid),
        }
    }

    /// The object that a name refers to, if it exists. 0A000 if the name begins with another
    /// database.
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

    fn role_name(&self, actor: &RoleName) -> Result<CompactString> {
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
            Kind::MaterializedView => relation.kind() == "materialized view",
            // ALTER INDEX may rename any relation, as in older versions of PostgreSQL.
            _ => true,
        };
        if !fits {
            let kind = match object.kind {
                Kind::View => "view",
                Kind::MaterializedView => "materialized view",
                _ => "sequence",
            };
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a {kind}")));
        }
        let quoted = |part: &str| ast::Ident::with_quote('"', part);
        let name: Vec<ast::Ident> = object.name.iter().map(|part| quoted(part)).collect();
        self.rename_relation(&ast::ObjectName::from(name), &ast::ObjectName::from(vec![quoted(to)]))
    }

    /// `CREATE SCHEMA … AUTHORIZATION`: the schema is the role's from its beginning.
    pub(crate) fn give_schema(&mut self, name: CompactString, owner: CompactString) -> Result<()> {
        let to = match owner.as_str() {
            "current_user" | "current_role" => RoleName::Current,
            "session_user" => RoleName::Session,
            _ => RoleName::Named(owner),
        };
        self.change_owner(&Object { kind: Kind::Schema, name: vec![name] }, false, &to)
    }

    fn checkpoint(&mut self) -> Result<()> {
        if !self.authority().has_role(colibri_catalog::cluster::CHECKPOINT) {
            let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        match self.engine().local_store() {
            Some(store) => store.database().sync().in_sql(),
            // What has committed elsewhere is durable there.
            None => Ok(()),
        }
    }

    fn lock_tables(&mut self, tables: &[Vec<CompactString>], mode: TableLock, nowait: bool) -> Result<()> {
        if self.is_outside_block() {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
        }
        for name in tables {
            let relation = self.expect_relation(name)?;
            self.lock_relation(&relation, mode, nowait, &self.authority(), 0)?;
        }
        Ok(())
    }

    /// Locks a table; or a view, and what it reads, with its owner's rights.
    fn lock_relation(
        &mut self,
        relation: &Relation,
        mode: TableLock,
        nowait: bool,
        authority: &Authority,
        depth: usize,
    ) -> Result<()> {
        /// Views below views: no view reads itself, so this is not met.
        const DEPTH_MAX: usize = 1000;
        let wanted = if excludes_writers(mode) {
            Privileges::UPDATE.with(Privileges::DELETE).with(Privileges::TRUNCATE)
        } else {
            Privileges::SELECT
        };
        match relation {
            Relation::Table(table) if table.materialized.is_none() => {
                let has = authority.privileges(ObjectKind::Table, table.owner, table.acl.as_ref());
                if has.common(wanted).is_empty() {
                    return Err(Error::denied("table", &table.name));
                }
                if excludes_writers(mode) {
                    let if_locked = if nowait { IfLocked::Refuse } else { IfLocked::Wait };
                    let (_, txn) = self.catalog_and_txn()?;
                    // In a read-only transaction as well, as in PostgreSQL: nothing is written.
                    let read_only = txn.begun().read_only;
                    txn.set_read_only(false);
                    let locked = txn.lock(&catalog_space(), &table_key(table.id), LockMode::Exclusive, if_locked);
                    txn.set_read_only(read_only);
                    locked.in_sql()?;
                }
                Ok(())
            }
            Relation::View(view) if !view.materialized && depth < DEPTH_MAX => {
                let has = authority.privileges(ObjectKind::Table, view.owner, view.acl.as_ref());
                if has.common(wanted).is_empty() {
                    return Err(Error::denied("view", &view.name));
                }
                let owner = if view.invoker { None } else { Some(view.owner) };
                let below = match owner {
                    Some(owner) => Authority::of(&self.all_roles(), owner, self.own_database_info().owner),
                    None => authority.clone(),
                };
                for &id in &view.reads {
                    let found = self.catalog().table(id).cloned().map(Relation::Table);
                    let found = found.or_else(|| self.catalog().view(id).cloned().map(Relation::View));
                    if let Some(found) = found {
                        self.lock_relation(&found, mode, nowait, &below, depth + 1)?;
                    }
                }
                Ok(())
            }
            Relation::Table(table) => Err(not_lockable(&table.name, "materialized views")),
            Relation::View(view) => Err(not_lockable(&view.name, "materialized views")),
            Relation::Sequence(sequence) => Err(not_lockable(&sequence.name, "sequences")),
            Relation::Index(_, index) => Err(not_lockable(&index.name, "indexes")),
            Relation::PrimaryKey(table) => {
                let name =
                    self.catalog().table(*table).and_then(|table| Some(table.primary_key.as_ref()?.name.clone()));
                Err(not_lockable(&name.unwrap_or_default(), "indexes"))
            }
        }
    }

    // ---- who may ----

    /// 42501 unless the current role owns the object.
    pub(crate) fn expect_owner(&self, owner: RoleId, kind: &str, name: &str) -> Result<()> {
        if self.authority().has_role(owner) { Ok(()) } else { Err(Error::not_owner(kind, name)) }
    }

    /// 42501 unless the current role owns the relation.
    pub(crate) fn expect_owner_of(&self, relation: &Relation) -> Result<()> {
        match relation {
            Relation::Table(table) => self.expect_owner(table.owner, relation.kind(), &table.name),
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

    /// 42501 unless the current role may create objects in the schema.
    pub(crate) fn expect_may_create_in(&self, schema: &str) -> Result<()> {
        let Some(found) = self.catalog().schema(schema) else { return Ok(()) };
        let may = self.authority().may(Privileges::CREATE, ObjectKind::Schema, found.owner, found.acl.as_ref());
        if may { Ok(()) } else { Err(Error::denied("schema", schema)) }
    }
}

/// 42809: only tables and views are locked.
fn not_lockable(name: &str, kind: &str) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot lock relation \"{name}\""))
        .detail(format!("This operation is not supported for {kind}."))
}

fn no_such_schema(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{name}\" does not exist"))
}

/// Whether a role may give objects to another role: it has to be a member of it.
fn may_become(authority: &Authority, roles: &colibri_catalog::cluster::Roles, role: RoleId) -> bool {
    authority.is_superuser() || roles.groups_of(authority.role).contains(&role)
}
