//! Privileges and owners of what is in a database.

use std::sync::Arc;

use compact_str::CompactString;

use super::{Actor, Kind, Object, On, may_become, no_such_schema};
use crate::catalog::{Catalog, Change, Relation, Schema, Sequence, Table, View};
use crate::cluster::{Acl, ObjectKind, PUBLIC_ROLE, Privileges, RoleId};
use crate::error::{Error, Result, SqlState};
use crate::session::Session;

/// Something that has an owner and grants.
#[derive(Clone)]
enum Owned {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    Schema(Arc<Schema>),
}

impl Owned {
    fn kind(&self) -> ObjectKind {
        match self {
            Self::Table(_) | Self::View(_) => ObjectKind::Table,
            Self::Sequence(_) => ObjectKind::Sequence,
            Self::Schema(_) => ObjectKind::Schema,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::View(_) => "view",
            Self::Sequence(_) => "sequence",
            Self::Schema(_) => "schema",
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Table(table) => &table.name,
            Self::View(view) => &view.name,
            Self::Sequence(sequence) => &sequence.name,
            Self::Schema(schema) => &schema.name,
        }
    }

    fn owner(&self) -> RoleId {
        match self {
            Self::Table(table) => table.owner,
            Self::View(view) => view.owner,
            Self::Sequence(sequence) => sequence.owner,
            Self::Schema(schema) => schema.owner,
        }
    }

    fn acl(&self) -> Option<&Acl> {
        match self {
            Self::Table(table) => table.acl.as_ref(),
            Self::View(view) => view.acl.as_ref(),
            Self::Sequence(sequence) => sequence.acl.as_ref(),
            Self::Schema(schema) => schema.acl.as_ref(),
        }
    }

    /// With another owner and other grants.
    fn changed(&self, owner: RoleId, acl: Option<Acl>) -> Change {
        match self {
            Self::Table(table) => Change::PutTable(Table { owner, acl, ..(**table).clone() }),
            Self::View(view) => Change::PutView(View { owner, acl, ..(**view).clone() }),
            Self::Sequence(sequence) => Change::PutSequence(Sequence { owner, acl, ..(**sequence).clone() }),
            Self::Schema(schema) => Change::PutSchema(Schema { owner, acl, ..(**schema).clone() }),
        }
    }
}

/// The privileges of a list; `None` is all that there are.
fn privileges(names: Option<&[CompactString]>, kind: ObjectKind, word: &str) -> Result<Privileges> {
    let Some(names) = names else { return Ok(kind.all()) };
    names.iter().try_fold(Privileges::NONE, |sum, name| {
        let Some(privilege) = Privileges::named(name) else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("unrecognized privilege type \"{name}\"")));
        };
        if !privilege.without(kind.all()).is_empty() {
            let message = format!("invalid privilege type {} for {word}", name.to_ascii_uppercase());
            return Err(Error::new(SqlState("0LP01"), message));
        }
        Ok(sum.with(privilege))
    })
}

impl Session {
    fn owned(&self, object: &Object) -> Result<Owned> {
        if object.kind == Kind::Schema {
            let name = object.name.last().cloned().unwrap_or_default();
            return self.catalog().schema(&name).cloned().map(Owned::Schema).ok_or_else(|| no_such_schema(&name));
        }
        match self.expect_relation(&object.name)? {
            Relation::Table(table) => Ok(Owned::Table(table)),
            Relation::View(view) => Ok(Owned::View(view)),
            Relation::Sequence(sequence) => Ok(Owned::Sequence(sequence)),
            other => {
                let name = object.name.last().cloned().unwrap_or_default();
                let message = format!("\"{name}\" is an {}", other.kind());
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// What privileges are granted on.
    fn all_of(&self, on: &On) -> Result<Vec<Owned>> {
        match on {
            On::Objects(objects) => objects.iter().map(|object| self.owned(object)).collect(),
            On::AllIn { schemas, sequences } => {
                let mut all = Vec::new();
                for schema in schemas {
                    self.catalog().schema(schema).ok_or_else(|| no_such_schema(schema))?;
                    for (_, relation) in self.catalog().relations(schema) {
                        match relation {
                            Relation::Table(table) if !sequences => all.push(Owned::Table(Arc::clone(table))),
                            Relation::View(view) if !sequences => all.push(Owned::View(Arc::clone(view))),
                            Relation::Sequence(sequence) if *sequences => {
                                all.push(Owned::Sequence(Arc::clone(sequence)));
                            }
                            _ => {}
                        }
                    }
                }
                Ok(all)
            }
        }
    }

    pub(super) fn grant(
        &mut self,
        names: Option<&[CompactString]>,
        on: &On,
        to: &[Option<Actor>],
        option: bool,
        revoke: bool,
    ) -> Result<()> {
        let public = |actor: &Option<Actor>| actor.as_ref().map_or(Ok(PUBLIC_ROLE), |actor| self.actor(actor));
        let grantees = to.iter().map(public).collect::<Result<Vec<RoleId>>>()?;
        if option && !revoke && grantees.contains(&PUBLIC_ROLE) {
            let message = "grant options can only be granted to roles";
            return Err(Error::new(SqlState("0LP01"), message));
        }
        if let On::Objects(objects) = on
            && objects.iter().any(|object| object.kind == Kind::Database)
        {
            return self.grant_on_databases(names, objects, &grantees, option, revoke);
        }
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut changes = Vec::new();
        for object in self.all_of(on)? {
            let wanted = privileges(names, object.kind(), object.word())?;
            let given = self.may_grant(&object, wanted, names.is_none())?;
            let (kind, owner) = (object.kind(), object.owner());
            let mut acl = object.acl().cloned().unwrap_or_else(|| Acl::default_of(kind, owner));
            change_acl(&mut acl, &grantees, self.grantor(owner), given, option, revoke);
            changes.push(object.changed(owner, Some(acl)));
        }
        if changes.is_empty() { Ok(()) } else { self.change(changes) }
    }

    /// As whom privileges on something are granted: whoever has its owner's role grants as the owner.
    fn grantor(&self, owner: RoleId) -> RoleId {
        let authority = self.authority();
        if authority.has_role(owner) { owner } else { authority.role }
    }

    /// What of the privileges somebody may grant; nothing is an error.
    fn may_grant(&self, object: &Owned, wanted: Privileges, all: bool) -> Result<Privileges> {
        let grantable = self.authority().grantable(object.kind(), object.owner(), object.acl());
        let given = wanted.common(grantable);
        if given.is_empty() || (!all && given != wanted) {
            return Err(Error::denied(object.word(), object.name()));
        }
        Ok(given)
    }

    fn grant_on_databases(
        &mut self,
        names: Option<&[CompactString]>,
        objects: &[Object],
        grantees: &[RoleId],
        option: bool,
        revoke: bool,
    ) -> Result<()> {
        let cluster = self.server("privileges on a database")?;
        let wanted = privileges(names, ObjectKind::Database, "database")?;
        for object in objects {
            let name = object.name.last().cloned().unwrap_or_default();
            let Some(database) = cluster.databases().into_iter().find(|database| database.name == name) else {
                return Err(Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist")));
            };
            let grantable = self.authority().grantable(ObjectKind::Database, database.owner, database.acl.as_ref());
            let given = wanted.common(grantable);
            if given.is_empty() {
                return Err(Error::denied("database", &name));
            }
            let grantor = self.grantor(database.owner);
            cluster.change_database(&name, &mut |database| {
                let owner = database.owner;
                let acl = database.acl.get_or_insert_with(|| Acl::default_of(ObjectKind::Database, owner));
                change_acl(acl, grantees, grantor, given, option, revoke);
                Ok(())
            })?;
        }
        Ok(())
    }

    // ---- owners ----

    pub(super) fn change_owner(&mut self, object: &Object, if_exists: bool, to: &Actor) -> Result<()> {
        let to = self.actor(to)?;
        if object.kind == Kind::Database {
            let name = object.name.last().cloned().unwrap_or_default();
            return self.change_database_owner(&name, to);
        }
        let found = match self.owned(object) {
            Err(error) if if_exists && error.state() == SqlState::NO_SUCH_TABLE => return Ok(()),
            found => found?,
        };
        self.expect_owner(found.owner(), found.word(), found.name())?;
        let (authority, roles) = (self.authority(), self.all_roles());
        if !may_become(&authority, &roles, to) {
            let message = format!("must be member of role \"{}\"", roles.name_of(to));
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut all = vec![found.clone()];
        // What a table's columns own goes with it.
        if let Owned::Table(table) = &found {
            let own = |sequence: &&Arc<Sequence>| sequence.owned_by.is_some_and(|(owner, _)| owner == table.id);
            all.extend(self.catalog().sequences().filter(own).cloned().map(Owned::Sequence));
        }
        self.give(&all, to)
    }

    fn give(&mut self, objects: &[Owned], to: RoleId) -> Result<()> {
        let given = |object: &Owned| {
            let mut acl = object.acl().cloned();
            if let Some(acl) = &mut acl {
                acl.change_owner(object.owner(), to);
            }
            object.changed(to, acl)
        };
        let changes: Vec<Change> = objects.iter().map(given).collect();
        if changes.is_empty() { Ok(()) } else { self.change(changes) }
    }

    /// Everything in the database that has an owner.
    fn everything(&self) -> Vec<Owned> {
        let catalog = self.catalog();
        let mut all: Vec<Owned> = catalog.tables().cloned().map(Owned::Table).collect();
        all.extend(catalog.views().cloned().map(Owned::View));
        all.extend(catalog.sequences().cloned().map(Owned::Sequence));
        all.extend(catalog.schemas().cloned().map(Owned::Schema));
        all
    }

    /// What belongs to a role, or is granted to it, in this database; in words.
    pub(super) fn belongings(&self, role: RoleId) -> Vec<String> {
        let mut found: Vec<String> = self
            .everything()
            .iter()
            .filter_map(|object| {
                if object.owner() == role {
                    Some(format!("owner of {} {}", object.word(), object.name()))
                } else if object.acl().is_some_and(|acl| acl.mentions(role)) {
                    Some(format!("privileges for {} {}", object.word(), object.name()))
                } else {
                    None
                }
            })
            .collect();
        found.sort();
        found
    }

    fn expect_has(&self, roles: &[RoleId]) -> Result<()> {
        let authority = self.authority();
        if roles.iter().all(|&role| authority.has_role(role)) {
            return Ok(());
        }
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to reassign objects"))
    }

    pub(super) fn reassign_owned(&mut self, from: &[Actor], to: &Actor) -> Result<()> {
        let from = from.iter().map(|actor| self.actor(actor)).collect::<Result<Vec<_>>>()?;
        let to = self.actor(to)?;
        self.expect_has(&from)?;
        self.expect_has(&[to])?;
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut all = self.everything();
        all.retain(|object| from.contains(&object.owner()));
        self.give(&all, to)
    }

    pub(super) fn drop_owned(&mut self, roles: &[Actor], cascade: bool) -> Result<()> {
        let roles = roles.iter().map(|actor| self.actor(actor)).collect::<Result<Vec<_>>>()?;
        self.expect_has(&roles)?;
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let everything = self.everything();
        let mut changes = Vec::new();
        for object in everything.iter().filter(|object| !roles.contains(&object.owner())) {
            let Some(mut acl) = object.acl().cloned() else { continue };
            if roles.iter().any(|&role| acl.mentions(role)) {
                acl.0.retain(|grant| !roles.contains(&grant.grantee) && !roles.contains(&grant.grantor));
                changes.push(object.changed(object.owner(), Some(acl)));
            }
        }
        if !changes.is_empty() {
            self.change(changes)?;
        }
        for object in everything.iter().filter(|object| roles.contains(&object.owner())) {
            self.drop_one(object, cascade)?;
        }
        Ok(())
    }

    fn drop_one(&mut self, object: &Owned, cascade: bool) -> Result<()> {
        let quoted = crate::functions::quote_identifier;
        let (kind, name) = match object {
            Owned::Table(table) => ("TABLE", format!("{}.{}", quoted(&table.schema), quoted(&table.name))),
            Owned::View(view) => ("VIEW", format!("{}.{}", quoted(&view.schema), quoted(&view.name))),
            Owned::Sequence(sequence) => {
                ("SEQUENCE", format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name)))
            }
            Owned::Schema(schema) => ("SCHEMA", quoted(&schema.name)),
        };
        // Some have gone with others.
        let text = format!("DROP {kind} IF EXISTS {name}{}", if cascade { " CASCADE" } else { "" });
        match crate::statement::parse(&text)?.pop() {
            Some(statement) => self.ddl(&statement).map(|_| ()),
            None => Err(Error::internal("a DROP was not read back")),
        }
    }
}

fn change_acl(acl: &mut Acl, grantees: &[RoleId], grantor: RoleId, given: Privileges, option: bool, revoke: bool) {
    for &grantee in grantees {
        if revoke {
            acl.revoke(grantee, given, option);
        } else {
            acl.grant(grantee, grantor, given, option);
        }
    }
}
