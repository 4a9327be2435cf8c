//! Privileges and owners of the objects of a database.
//!
//! Invariants: a role grants only privileges that it holds with the grant option; REVOKE removes
//! only grants of its grantor; a role that loses the grant option loses the grants that it made.

use std::collections::BTreeMap;
use std::sync::Arc;

use colibri_catalog::{
    Catalog, Change, ColumnAcls, DefaultPrivileges, Relation, Schema, Sequence, Table, UserType, View,
    cluster::{Acl, Authority, BOOTSTRAP_ROLE, Dependents, Grant, ObjectKind, PUBLIC_ROLE, Parties},
    cluster::{Privileges, RoleId},
};
use colibri_syntax::tree::{Granting, Object, ObjectKind as Kind, On, RoleName};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::{may_become, no_such_schema};
use crate::session::{Session, Severity};

const NOT_GRANTED: SqlState = SqlState("01007");
const NOT_REVOKED: SqlState = SqlState("01006");

/// Something that has an owner and grants.
#[derive(Clone)]
enum Owned {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    Schema(Arc<Schema>),
    Type(Arc<UserType>),
}

impl Owned {
    fn kind(&self) -> ObjectKind {
        match self {
            Self::Table(_) | Self::View(_) => ObjectKind::Table,
            Self::Sequence(_) => ObjectKind::Sequence,
            Self::Schema(_) => ObjectKind::Schema,
            Self::Type(_) => ObjectKind::Type,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::View(_) => "view",
            Self::Sequence(_) => "sequence",
            Self::Schema(_) => "schema",
            Self::Type(_) => "type",
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Table(table) => &table.name,
            Self::View(view) => &view.name,
            Self::Sequence(sequence) => &sequence.name,
            Self::Schema(schema) => &schema.name,
            Self::Type(ty) => &ty.name,
        }
    }

    fn owner(&self) -> RoleId {
        match self {
            Self::Table(table) => table.owner,
            Self::View(view) => view.owner,
            Self::Sequence(sequence) => sequence.owner,
            Self::Schema(schema) => schema.owner,
            Self::Type(ty) => ty.owner,
        }
    }

    fn acl(&self) -> Option<&Acl> {
        match self {
            Self::Table(table) => table.acl.as_ref(),
            Self::View(view) => view.acl.as_ref(),
            Self::Sequence(sequence) => sequence.acl.as_ref(),
            Self::Schema(schema) => schema.acl.as_ref(),
            Self::Type(ty) => ty.acl.as_ref(),
        }
    }

    /// Whether both are the same object.
    fn is(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.id() == other.id()
    }

    fn id(&self) -> u32 {
        match self {
            Self::Table(table) => table.id,
            Self::View(view) => view.id,
            Self::Sequence(sequence) => sequence.id,
            Self::Schema(schema) => schema.id,
            Self::Type(ty) => ty.id,
        }
    }

    /// Its columns, those of the system in front, as PostgreSQL goes through them.
    fn columns(&self) -> Vec<CompactString> {
        const SYSTEM: [&str; 6] = ["tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"];
        let system = SYSTEM.into_iter().map(CompactString::const_new);
        match self {
            Self::Table(table) => system.chain(table.live_columns().map(|(_, column)| column.name.clone())).collect(),
            Self::Sequence(_) => {
                system.chain(["last_value", "log_cnt", "is_called"].map(CompactString::const_new)).collect()
            }
            Self::View(view) => view.columns.clone(),
            Self::Schema(_) | Self::Type(_) => Vec::new(),
        }
    }

    /// The privileges on its columns.
    fn column_acls(&self) -> ColumnAcls {
        match self {
            Self::Table(table) => table.column_acls.clone(),
            Self::View(view) => view.column_acls.clone(),
            Self::Sequence(_) | Self::Schema(_) | Self::Type(_) => ColumnAcls::new(),
        }
    }

    /// The place of a column.
    fn column(&self, name: &str) -> Option<usize> {
        match self {
            Self::Table(table) => table.column(name),
            Self::View(view) => view.columns.iter().position(|column| column == name),
            Self::Sequence(_) | Self::Schema(_) | Self::Type(_) => None,
        }
    }

    /// The name of a column, by its place.
    fn column_name(&self, place: usize) -> CompactString {
        match self {
            Self::Table(table) => table.columns.get(place).map(|column| column.name.clone()),
            Self::View(view) => view.columns.get(place).cloned(),
            Self::Sequence(_) | Self::Schema(_) | Self::Type(_) => None,
        }
        .unwrap_or_default()
    }

    /// The name of the schema that it is in.
    fn schema(&self) -> Option<&str> {
        match self {
            Self::Table(table) => Some(&table.schema),
            Self::View(view) => Some(&view.schema),
            Self::Sequence(sequence) => Some(&sequence.schema),
            Self::Type(ty) => Some(&ty.schema),
            Self::Schema(_) => None,
        }
    }

    /// The object with another owner and other grants.
    fn changed(&self, owner: RoleId, acl: Option<Acl>, column_acls: ColumnAcls) -> Change {
        match self {
            Self::Table(table) => Change::PutTable(Table { owner, acl, column_acls, ..(**table).clone() }),
            Self::View(view) => Change::PutView(View { owner, acl, column_acls, ..(**view).clone() }),
            Self::Sequence(sequence) => Change::PutSequence(Sequence { owner, acl, ..(**sequence).clone() }),
            Self::Schema(schema) => Change::PutSchema(Schema { owner, acl, ..(**schema).clone() }),
            Self::Type(ty) => Change::PutType(UserType { owner, acl, ..(**ty).clone() }),
        }
    }
}

/// The privileges that a statement's words name, for any kind of object.
pub(super) fn named(names: &[CompactString]) -> Result<Privileges> {
    names.iter().try_fold(Privileges::NONE, |sum, name| {
        Privileges::named(name).map(|privilege| sum.with(privilege)).ok_or_else(|| {
            Error::new(SqlState::SYNTAX_ERROR, format!("unrecognized privilege type \"{}\"", name.to_ascii_lowercase()))
        })
    })
}

pub(super) fn invalid(privileges: Privileges, word: &str) -> Error {
    let name = privileges.names().next().unwrap_or_default();
    Error::new(SqlState::INVALID_GRANT_OPERATION, format!("invalid privilege type {name} for {word}"))
}

/// The wanted privileges that exist for the kind of object; `None` wants all. Gives a warning if
/// some are left out.
fn privileges_on(object: &Owned, wanted: Option<Privileges>) -> Result<(Privileges, Option<Error>)> {
    let all = object.kind().all();
    let Some(wanted) = wanted else { return Ok((all, None)) };
    let others = wanted.without(all);
    if others.is_empty() {
        return Ok((wanted, None));
    }
    // A sequence may be named as a table. Privileges that only tables have are then left out.
    if object.kind() == ObjectKind::Sequence && others.without(ObjectKind::Table.all()).is_empty() {
        let message = format!("sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges", object.name());
        return Ok((wanted.common(all), Some(Error::new(SqlState::INVALID_GRANT_OPERATION, message))));
    }
    Err(invalid(others, object.word()))
}

/// The columns of an object that a statement names, with the privileges that it names of each.
fn columns_wanted(object: &Owned, granting: &Granting) -> Result<BTreeMap<usize, Privileges>> {
    let mut wanted = BTreeMap::new();
    if granting.columns.is_empty() {
        return Ok(wanted);
    }
    if !matches!(object, Owned::Table(_) | Owned::View(_)) {
        let message = "column privileges are only valid for relations";
        return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
    }
    for (privilege, columns) in &granting.columns {
        let privileges = match privilege {
            None => Privileges::OF_COLUMNS,
            Some(name) => named(std::slice::from_ref(name))?,
        };
        let others = privileges.without(Privileges::OF_COLUMNS);
        if !others.is_empty() {
            return Err(invalid(others, "column"));
        }
        for name in columns {
            let column = object.column(name).ok_or_else(|| {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", object.name());
                Error::new(SqlState::NO_SUCH_COLUMN, message)
            })?;
            let known: &mut Privileges = wanted.entry(column).or_default();
            *known = known.with(privileges);
        }
    }
    Ok(wanted)
}

/// The change that a statement makes to one object's list.
struct ListChange<'a> {
    granting: &'a Granting,
    grantees: &'a [RoleId],
    parties: Parties<'a>,
    /// The role that runs the statement.
    role: RoleId,
    kind: ObjectKind,
    word: &'static str,
    name: &'a str,
}

impl ListChange<'_> {
    /// Changes the list; gives the warning that goes with it, if one does.
    ///
    /// # Errors
    /// 42501 if the role has no privilege on the object at all, 0LP01, 2BP01.
    fn make(&self, acl: &mut Acl, wanted: Privileges) -> Result<Option<Error>> {
        let (grantor, grantable) = acl.best_grantor(&self.parties, self.role, wanted);
        if grantable.is_empty() && !wanted.is_empty() {
            // A role with any privilege on the object gets a warning that nothing was granted, not
            // an error.
            let authority = Authority::of(self.parties.roles, grantor, self.parties.database_owner);
            if authority.privileges(self.kind, self.parties.owner, Some(acl)).is_empty() {
                return Err(Error::denied(self.word, self.name));
            }
        }
        self.apply(acl, grantor, grantable)?;
        Ok(self.warning(wanted, grantable))
    }

    fn apply(&self, acl: &mut Acl, grantor: RoleId, grantable: Privileges) -> Result<()> {
        let (revoke, option) = (self.granting.revoke, self.granting.option);
        for &grantee in self.grantees {
            if option && !revoke && grantee == PUBLIC_ROLE {
                let message = "grant options can only be granted to roles";
                return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
            }
            // A plain REVOKE takes both; GRANT OPTION FOR takes the right to grant alone.
            let privileges = if revoke && option { Privileges::NONE } else { grantable };
            let options = if revoke || option { grantable } else { Privileges::NONE };
            let grant = Grant { grantee, grantor, privileges, grantable: options };
            if revoke {
                let dependents = if self.granting.cascade { Dependents::TakeBack } else { Dependents::Refuse };
                acl.revoke(&self.parties, grant, dependents)?;
            } else if !grantable.is_empty() {
                acl.grant(&self.parties, grant)?;
            }
        }
        Ok(())
    }

    /// REVOKE on a table in its effect on columns, which have no privileges of their own here: it
    /// warns and refuses for each column as for the table. `acl` is the list before the change.
    ///
    /// # Errors
    /// 42501 if the role has none of the privileges that columns can have.
    fn warn_of_columns(&self, acl: &Acl, wanted: Privileges, columns: &[CompactString]) -> Result<Vec<Error>> {
        let wanted = wanted.common(Privileges::OF_COLUMNS);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (grantor, grantable) = acl.best_grantor(&self.parties, self.role, wanted);
        if grantable.is_empty() {
            let authority = Authority::of(self.parties.roles, grantor, self.parties.database_owner);
            let has = authority.privileges(self.kind, self.parties.owner, Some(acl));
            if let (true, Some(column)) = (has.common(Privileges::OF_COLUMNS).is_empty(), columns.first()) {
                let message = format!("permission denied for column \"{column}\" of relation \"{}\"", self.name);
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
        } else if grantable == wanted || wanted == Privileges::OF_COLUMNS {
            return Ok(Vec::new());
        }
        let how_many = if grantable.is_empty() { "no" } else { "not all" };
        let warning = |column: &CompactString| {
            let name = self.name;
            let message =
                format!("{how_many} privileges could be revoked for column \"{column}\" of relation \"{name}\"");
            Error::new(NOT_REVOKED, message)
        };
        Ok(columns.iter().map(warning).collect())
    }

    /// Changes the list of a column of a relation with this list, as [`ListChange::make`] does.
    ///
    /// # Errors
    /// As [`ListChange::make`].
    fn make_on_column(
        &self,
        acl: &mut Acl,
        of_relation: &Acl,
        wanted: Privileges,
        column: &str,
    ) -> Result<Option<Error>> {
        let merged = of_relation.merged(acl);
        let (grantor, grantable) = merged.best_grantor(&self.parties, self.role, wanted);
        if grantable.is_empty() && !wanted.is_empty() {
            let authority = Authority::of(self.parties.roles, grantor, self.parties.database_owner);
            let has = authority.privileges(self.kind, self.parties.owner, Some(&merged));
            if has.common(Privileges::OF_COLUMNS).is_empty() {
                let message = format!("permission denied for column \"{column}\" of relation \"{}\"", self.name);
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        self.apply(acl, grantor, grantable)?;
        let warning = self.warning_of(wanted, grantable, &format!("column \"{column}\" of relation \"{}\"", self.name));
        Ok(warning)
    }

    fn warning(&self, wanted: Privileges, grantable: Privileges) -> Option<Error> {
        self.warning_of(wanted, grantable, &format!("\"{}\"", self.name))
    }

    fn warning_of(&self, wanted: Privileges, grantable: Privileges, what: &str) -> Option<Error> {
        let not_all = if wanted == grantable {
            return None;
        } else if grantable.is_empty() {
            "no"
        } else if self.granting.privileges.is_some() {
            "not all"
        } else {
            return None;
        };
        let (state, done) =
            if self.granting.revoke { (NOT_REVOKED, "could be revoked") } else { (NOT_GRANTED, "were granted") };
        Some(Error::new(state, format!("{not_all} privileges {done} for {what}")))
    }
}

impl Session {
    fn owned(&self, object: &Object) -> Result<Owned> {
        if object.kind == Kind::Schema {
            let name = object.name.last().cloned().unwrap_or_default();
            if crate::system::is_system_schema(&name) {
                return Err(Error::unsupported("a change of who may use the system's own schemas"));
            }
            return self.catalog().schema(&name).cloned().map(Owned::Schema).ok_or_else(|| no_such_schema(&name));
        }
        let found = match self.expect_relation(&object.name) {
            Err(_) if self.is_system_relation(&object.name) => {
                return Err(Error::unsupported("a change of who may use the system's own tables"));
            }
            found => found?,
        };
        if object.kind == Kind::Sequence && !matches!(found, Relation::Sequence(_)) {
            let message = format!("\"{}\" is not a sequence", object.name.last().cloned().unwrap_or_default());
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        match found {
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
                    let mut relations: Vec<_> = self.catalog().relations(schema).collect();
                    relations.sort_by_key(|(name, _)| *name);
                    for (_, relation) in relations {
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

    fn is_system_relation(&self, name: &[CompactString]) -> bool {
        match name {
            [name] => crate::system::table("pg_catalog", name).is_some(),
            [schema, name] => crate::system::table(schema, name).is_some(),
            _ => false,
        }
    }

    pub(super) fn grant(&mut self, granting: &Granting, on: &On, to: &[Option<RoleName>]) -> Result<()> {
        if let Some(by) = &granting.by
            && self.actor(by)? != self.role()
        {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "grantor must be current user"));
        }
        let is_other = |object: &Object| matches!(object.kind, Kind::Database | Kind::Type | Kind::Domain);
        if let On::Objects(objects) = on
            && objects.iter().any(is_other)
            && !granting.columns.is_empty()
        {
            let message = "column privileges are only valid for relations";
            return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        if let On::Objects(objects) = on
            && objects.iter().any(|object| object.kind == Kind::Database)
        {
            return self.grant_on_databases(granting, objects, to);
        }
        if let On::Objects(objects) = on
            && objects.iter().any(|object| matches!(object.kind, Kind::Type | Kind::Domain))
        {
            return self.grant_on_types(granting, objects, to);
        }
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let objects = self.all_of(on)?;
        let grantees = self.grantees(to)?;
        let wanted = granting.privileges.as_deref().map(named).transpose()?;
        self.change_lists(granting, &objects, &grantees, wanted)
    }

    pub(super) fn grantees(&self, to: &[Option<RoleName>]) -> Result<Vec<RoleId>> {
        let number = |actor: &Option<RoleName>| actor.as_ref().map_or(Ok(PUBLIC_ROLE), |actor| self.actor(actor));
        to.iter().map(number).collect()
    }

    /// Changes the lists of some objects; `None` stands for all privileges of each kind of object.
    fn change_lists(
        &mut self,
        granting: &Granting,
        objects: &[Owned],
        grantees: &[RoleId],
        wanted: Option<Privileges>,
    ) -> Result<()> {
        let (roles, database_owner, role) = (self.all_roles(), self.own_database_info().owner, self.role());
        let mut changes: Vec<(Owned, Option<Acl>, ColumnAcls)> = Vec::new();
        for object in objects {
            let on_columns = columns_wanted(object, granting)?;
            let (wanted, warning) = privileges_on(object, wanted)?;
            if let Some(warning) = warning {
                self.notice_error(warning);
            }
            let (kind, owner) = (object.kind(), object.owner());
            let parties = Parties { roles: &roles, database_owner, owner };
            let change =
                ListChange { granting, grantees, parties, role, kind, word: object.word(), name: object.name() };
            // The same object may be named twice.
            let place = changes.iter().position(|(known, ..)| known.is(object)).unwrap_or_else(|| {
                changes.push((object.clone(), object.acl().cloned(), object.column_acls()));
                changes.len() - 1
            });
            let (_, acl, column_acls) = &mut changes[place];
            let before = acl.clone().unwrap_or_else(|| Acl::default_of(kind, owner));
            let mut warnings = Vec::new();
            if !wanted.is_empty() || on_columns.is_empty() {
                let acl = acl.get_or_insert_with(|| before.clone());
                warnings.extend(change.make(acl, wanted)?);
                if granting.revoke {
                    warnings.extend(change.warn_of_columns(&before, wanted, &object.columns())?);
                    // What is taken back of all columns is taken back of each.
                    for (column, acl) in column_acls.iter_mut() {
                        let wanted = wanted.common(Privileges::OF_COLUMNS);
                        change.make_on_column(acl, &before, wanted, &object.column_name(*column))?;
                    }
                }
            }
            for (column, wanted) in on_columns {
                let acl = column_acls.entry(column).or_default();
                warnings.extend(change.make_on_column(acl, &before, wanted, &object.column_name(column))?);
            }
            column_acls.retain(|_, acl| !acl.0.is_empty());
            warnings.into_iter().for_each(|warning| self.notice_error(warning));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let changed = |(object, acl, columns): (Owned, _, _)| object.changed(object.owner(), acl, columns);
        self.change(changes.into_iter().map(changed).collect())
    }

    fn notice_error(&mut self, warning: Error) {
        self.notice(Severity::Warning, warning.state(), warning.to_string());
    }

    fn grant_on_databases(&mut self, granting: &Granting, objects: &[Object], to: &[Option<RoleName>]) -> Result<()> {
        let cluster = self.server("privileges on a database")?;
        for object in objects {
            let name = object.name.last().cloned().unwrap_or_default();
            if !cluster.databases().iter().any(|database| database.name == name) {
                return Err(Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist")));
            }
        }
        let grantees = self.grantees(to)?;
        let wanted = granting.privileges.as_deref().map_or(Ok(ObjectKind::Database.all()), named)?;
        let invalid_ones = wanted.without(ObjectKind::Database.all());
        if !invalid_ones.is_empty() {
            return Err(invalid(invalid_ones, "database"));
        }
        for object in objects {
            let name = object.name.last().cloned().unwrap_or_default();
            self.change_database_list(granting, &name, &grantees, wanted)?;
        }
        Ok(())
    }

    /// Privileges on types. Everybody may use those that are built in.
    fn grant_on_types(&mut self, granting: &Granting, objects: &[Object], to: &[Option<RoleName>]) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut found = Vec::new();
        for object in objects {
            match object.kind {
                Kind::Domain => self.expect_domain(&object.name)?,
                _ => self.expect_type(&object.name)?,
            }
            match self.find_user_type(&object.name) {
                Ok(ty) => found.extend(ty.map(Owned::Type)),
                // It is built in.
                Err(error) if error.state() == SqlState::DEPENDENT_OBJECTS => {}
                Err(error) => return Err(error),
            }
        }
        let grantees = self.grantees(to)?;
        let wanted = granting.privileges.as_deref().map_or(Ok(Privileges::USAGE), named)?;
        let invalid_ones = wanted.without(Privileges::USAGE);
        if !invalid_ones.is_empty() {
            let is_domain = objects.iter().any(|object| object.kind == Kind::Domain);
            return Err(invalid(invalid_ones, if is_domain { "domain" } else { "type" }));
        }
        self.change_lists(granting, &found, &grantees, Some(wanted))
    }

    fn change_database_list(
        &mut self,
        granting: &Granting,
        name: &str,
        grantees: &[RoleId],
        wanted: Privileges,
    ) -> Result<()> {
        let cluster = self.server("privileges on a database")?;
        let (roles, role, database_owner) = (self.all_roles(), self.role(), self.own_database_info().owner);
        let mut warning = None;
        cluster.change_database(name, &mut |database| {
            let owner = database.owner;
            let mut acl = database.acl.clone().unwrap_or_else(|| Acl::default_of(ObjectKind::Database, owner));
            let parties = Parties { roles: &roles, database_owner, owner };
            let kind = ObjectKind::Database;
            let change = ListChange { granting, grantees, parties, role, kind, word: "database", name };
            warning = change.make(&mut acl, wanted)?;
            database.acl = Some(acl);
            Ok(())
        })?;
        if let Some(warning) = warning {
            self.notice_error(warning);
        }
        Ok(())
    }

    // ---- owners ----

    pub(super) fn change_owner(&mut self, object: &Object, if_exists: bool, to: &RoleName) -> Result<()> {
        let to = self.actor(to)?;
        if object.kind == Kind::Database {
            let name = object.name.last().cloned().unwrap_or_default();
            return self.change_database_owner(&name, to);
        }
        let name = object.name.last().cloned().unwrap_or_default();
        let relation = if object.kind == Kind::Schema { None } else { Some(self.expect_relation(&object.name)) };
        match relation {
            Some(Err(error)) if if_exists && error.state() == SqlState::NO_SUCH_TABLE => {
                let message = format!("relation \"{name}\" does not exist, skipping");
                self.notice(Severity::Notice, SqlState("00000"), message);
                return Ok(());
            }
            Some(Ok(Relation::Index(..) | Relation::PrimaryKey(_)))
                if matches!(object.kind, Kind::Relation | Kind::Index) =>
            {
                let message = format!("cannot change owner of index \"{name}\"");
                self.notice(Severity::Warning, SqlState::WRONG_OBJECT_TYPE, message);
                return Ok(());
            }
            _ => {}
        }
        let found = self.owned(object)?;
        let is_meant = match object.kind {
            Kind::View => matches!(found, Owned::View(_)),
            Kind::MaterializedView => matches!(&found, Owned::Table(table) if table.materialized.is_some()),
            Kind::Index => false,
            _ => true,
        };
        if !is_meant {
            let wanted = match object.kind {
                Kind::View => "a view",
                Kind::MaterializedView => "a materialized view",
                _ => "an index",
            };
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {wanted}")));
        }
        // The owner stays the same, so no privilege is needed.
        if matches!(found, Owned::Schema(_)) && found.owner() == to {
            return Ok(());
        }
        self.expect_owner(found.owner(), found.word(), found.name())?;
        if let Owned::Sequence(sequence) = &found
            && let Some(table) = sequence.owned_by.and_then(|(table, _)| self.catalog().table(table))
        {
            let message = format!("cannot change owner of sequence \"{}\"", sequence.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name)));
        }
        self.expect_may_receive(&found, to)?;
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let all = self.with_own_sequences(vec![found]);
        self.give(&all, to)
    }

    /// Refuses a new owner that the current role is not a member of, and one that may not create
    /// objects in the object's schema.
    fn expect_may_receive(&self, object: &Owned, to: RoleId) -> Result<()> {
        let (authority, roles) = (self.authority(), self.all_roles());
        if authority.is_superuser() || object.owner() == to {
            return Ok(());
        }
        if !may_become(&authority, &roles, to) {
            let message = format!("must be member of role \"{}\"", roles.name_of(to));
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let database = self.own_database_info();
        let receiver = Authority::of(&roles, to, database.owner);
        match object.schema() {
            Some(schema) => {
                let may = self.catalog().schema(schema).is_none_or(|found| {
                    receiver.may(Privileges::CREATE, ObjectKind::Schema, found.owner, found.acl.as_ref())
                });
                if may { Ok(()) } else { Err(Error::denied("schema", schema)) }
            }
            None => {
                let may =
                    authority.may(Privileges::CREATE, ObjectKind::Database, database.owner, database.acl.as_ref());
                if may { Ok(()) } else { Err(Error::denied("database", &database.name)) }
            }
        }
    }

    /// Sequences that belong to columns change their owner together with the table.
    fn with_own_sequences(&self, mut all: Vec<Owned>) -> Vec<Owned> {
        let tables: Vec<u32> = all.iter().filter(|found| matches!(found, Owned::Table(_))).map(Owned::id).collect();
        for sequence in self.catalog().sequences() {
            let is_own = sequence.owned_by.is_some_and(|(table, _)| tables.contains(&table));
            let found = Owned::Sequence(Arc::clone(sequence));
            if is_own && !all.iter().any(|known| known.is(&found)) {
                all.push(found);
            }
        }
        all
    }

    fn give(&mut self, objects: &[Owned], to: RoleId) -> Result<()> {
        let given = |object: &Owned| {
            let mut acl = object.acl().cloned();
            if let Some(acl) = &mut acl {
                acl.change_owner(object.owner(), to);
            }
            let mut column_acls = object.column_acls();
            column_acls.values_mut().for_each(|acl| acl.change_owner(object.owner(), to));
            object.changed(to, acl, column_acls)
        };
        let changes: Vec<Change> = objects.iter().map(given).collect();
        if changes.is_empty() { Ok(()) } else { self.change(changes) }
    }

    /// Everything in the database that has an owner.
    fn everything(&self) -> Vec<Owned> {
        let catalog = self.catalog();
        let mut all: Vec<Owned> = catalog.tables().cloned().map(Owned::Table).collect();
        all.extend(catalog.views().filter(|view| !view.materialized).cloned().map(Owned::View));
        all.extend(catalog.sequences().cloned().map(Owned::Sequence));
        all.extend(catalog.schemas().cloned().map(Owned::Schema));
        all
    }

    /// Describes what belongs to a role, or is granted to it, in this database.
    pub(super) fn belongings(&self, role: RoleId) -> Vec<String> {
        let mut found: Vec<String> = self
            .everything()
            .iter()
            .filter_map(|object| {
                if object.owner() == role {
                    Some(format!("owner of {} {}", object.word(), object.name()))
                } else if object.acl().is_some_and(|acl| acl.mentions(role))
                    || object.column_acls().values().any(|acl| acl.mentions(role))
                {
                    Some(format!("privileges for {} {}", object.word(), object.name()))
                } else {
                    None
                }
            })
            .collect();
        for table in self.catalog().tables() {
            let named = table.security.policies.iter().filter(|policy| policy.roles.contains(&role));
            found.extend(named.map(|policy| format!("target of policy {} on table {}", policy.name, table.name)));
        }
        let types = self.catalog().types().filter(|ty| ty.owner != role);
        let granted = types.filter(|ty| ty.acl.as_ref().is_some_and(|acl| acl.mentions(role)));
        found.extend(granted.map(|ty| format!("privileges for type {}", ty.name)));
        let roles = self.all_roles();
        for one in self.catalog().default_privileges() {
            let what = match one.object {
                'S' => "sequences",
                'f' => "functions",
                'T' => "types",
                'n' => "schemas",
                _ => "relations",
            };
            let schema = self.catalog().schemas().find(|schema| Some(schema.id) == one.schema);
            let place = schema.map(|schema| format!(" in schema {}", schema.name)).unwrap_or_default();
            let whose =
                format!("default privileges on new {what} belonging to role {}{place}", roles.name_of(one.role));
            if one.role == role {
                found.push(format!("owner of {whose}"));
            } else if one.acl.mentions(role) {
                found.push(format!("privileges for {whose}"));
            }
        }
        let types = self.catalog().types().filter(|ty| ty.owner == role);
        found.extend(types.map(|ty| format!("owner of type {}", ty.name)));
        found.extend(self.other_belongings(role));
        found.sort();
        found
    }

    /// The roles that a statement about what they own names, if whoever asks has all of them.
    /// `act`: `drop objects`.
    fn owners(&self, actors: &[RoleName], act: &str) -> Result<Vec<RoleId>> {
        let roles = actors.iter().map(|actor| self.actor(actor)).collect::<Result<Vec<_>>>()?;
        self.expect_has(&roles, act)?;
        if roles.contains(&BOOTSTRAP_ROLE) {
            let what = if act == "drop objects" { act } else { "reassign ownership of objects" };
            let name = self.all_roles().name_of(BOOTSTRAP_ROLE);
            let message =
                format!("cannot {what} owned by role {name} because they are required by the database system");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message));
        }
        Ok(roles)
    }

    fn expect_has(&self, roles: &[RoleId], act: &str) -> Result<()> {
        let authority = self.authority();
        if roles.iter().all(|&role| authority.has_role(role)) {
            return Ok(());
        }
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to {act}")))
    }

    pub(super) fn reassign_owned(&mut self, from: &[RoleName], to: &RoleName) -> Result<()> {
        let from = self.owners(from, "reassign objects")?;
        let to = self.actor(to)?;
        self.expect_has(&[to], "reassign objects")?;
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut all = self.everything();
        all.retain(|object| from.contains(&object.owner()));
        let all = self.with_own_sequences(all);
        self.give(&all, to)?;
        let mut types: Vec<Arc<UserType>> = self.catalog().types().cloned().collect();
        types.retain(|ty| from.contains(&ty.owner));
        for ty in types {
            self.give_type(&ty, to)?;
        }
        self.reassign_others(&from, to)?;
        // Databases have owners, too, not only the current one.
        let Some(cluster) = self.cluster() else { return Ok(()) };
        for database in cluster.databases().iter().filter(|database| from.contains(&database.owner)) {
            self.give_database(&database.name, to)?;
        }
        Ok(())
    }

    pub(super) fn drop_owned(&mut self, roles: &[RoleName], cascade: bool) -> Result<()> {
        let roles = self.owners(roles, "drop objects")?;
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let everything = self.everything();
        let all =
            Granting { privileges: None, columns: Vec::new(), option: false, revoke: true, by: None, cascade: true };
        let is_grantee = |acl: Option<&Acl>, role| acl.is_some_and(|acl| acl.0.iter().any(|g| g.grantee == role));
        for &role in &roles {
            let others = everything.iter().filter(|object| !roles.contains(&object.owner()));
            let is_granted = |object: &&Owned| {
                is_grantee(object.acl(), role) || object.column_acls().values().any(|acl| is_grantee(Some(acl), role))
            };
            let granted: Vec<Owned> = others.filter(is_granted).cloned().collect();
            // The list is read again, as it was changed for another role before.
            let granted: Vec<Owned> = granted.iter().filter_map(|object| self.as_it_is(object)).collect();
            self.change_lists(&all, &granted, &[role], None)?;
            let types = self.catalog().types().filter(|ty| !roles.contains(&ty.owner));
            let granted: Vec<Owned> =
                types.filter(|ty| is_grantee(ty.acl.as_ref(), role)).cloned().map(Owned::Type).collect();
            self.change_lists(&all, &granted, &[role], None)?;
            let databases = self.cluster().map(|cluster| cluster.databases()).unwrap_or_default();
            for database in databases {
                if database.owner != role && is_grantee(database.acl.as_ref(), role) {
                    self.change_database_list(&all, &database.name, &[role], ObjectKind::Database.all())?;
                }
            }
        }
        self.revoke_of_routines(&roles)?;
        self.take_out_of_policies(&roles)?;
        self.forget_default_privileges(&roles)?;
        for object in everything.iter().filter(|object| roles.contains(&object.owner())) {
            self.drop_one(object, cascade)?;
        }
        let mut types: Vec<Arc<UserType>> = self.catalog().types().cloned().collect();
        types.retain(|ty| roles.contains(&ty.owner));
        for ty in types {
            self.drop_types(&[vec![ty.schema.clone(), ty.name.clone()]], true, cascade, false)?;
        }
        self.drop_others(&roles, cascade)
    }

    /// What some roles have said of objects to come is forgotten, and what others have granted them.
    fn forget_default_privileges(&mut self, roles: &[RoleId]) -> Result<()> {
        let mut changes = Vec::new();
        for one in self.catalog().default_privileges() {
            let mut acl = one.acl.clone();
            acl.0.retain(|grant| !roles.contains(&grant.grantee));
            let usual = match one.schema {
                None => Acl::default_of(DefaultPrivileges::kind(one.object), one.role),
                Some(_) => Acl::default(),
            };
            if roles.contains(&one.role) || acl != one.acl && acl.is_same(&usual) {
                changes.push(Change::DropDefaultPrivileges(one.id));
            } else if acl != one.acl {
                changes.push(Change::PutDefaultPrivileges(DefaultPrivileges { acl, ..one.clone() }));
            }
        }
        if changes.is_empty() { Ok(()) } else { self.change(changes) }
    }

    /// Policies are no more for some roles; those for nobody else are dropped.
    fn take_out_of_policies(&mut self, roles: &[RoleId]) -> Result<()> {
        let mut changes = Vec::new();
        for table in self.catalog().tables() {
            let mut security = table.security.clone();
            for policy in &mut security.policies {
                if policy.roles.iter().any(|role| roles.contains(role)) {
                    Arc::make_mut(policy).roles.retain(|role| !roles.contains(role));
                }
            }
            security.policies.retain(|policy| !policy.roles.is_empty());
            if security != table.security {
                changes.push(Change::PutTable(Table { security, ..(**table).clone() }));
            }
        }
        if changes.is_empty() { Ok(()) } else { self.change(changes) }
    }

    /// An object as the catalogue has it now.
    fn as_it_is(&self, object: &Owned) -> Option<Owned> {
        let catalog = self.catalog();
        match object {
            Owned::Table(table) => catalog.table(table.id).cloned().map(Owned::Table),
            Owned::View(view) => catalog.view(view.id).cloned().map(Owned::View),
            Owned::Sequence(sequence) => catalog.sequence(sequence.id).cloned().map(Owned::Sequence),
            Owned::Schema(schema) => catalog.schema(&schema.name).cloned().map(Owned::Schema),
            Owned::Type(ty) => catalog.types().find(|known| known.id == ty.id).cloned().map(Owned::Type),
        }
    }

    fn drop_one(&mut self, object: &Owned, cascade: bool) -> Result<()> {
        let quoted = colibri_types::functions::quote_identifier;
        let (kind, name) = match object {
            Owned::Table(table) => (
                if table.materialized.is_some() { "MATERIALIZED VIEW" } else { "TABLE" },
                format!("{}.{}", quoted(&table.schema), quoted(&table.name)),
            ),
            Owned::View(view) => ("VIEW", format!("{}.{}", quoted(&view.schema), quoted(&view.name))),
            Owned::Sequence(sequence) => {
                ("SEQUENCE", format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name)))
            }
            Owned::Schema(schema) => ("SCHEMA", quoted(&schema.name)),
            Owned::Type(ty) => ("TYPE", format!("{}.{}", quoted(&ty.schema), quoted(&ty.name))),
        };
        // Some objects were dropped together with others.
        let text = format!("DROP {kind} IF EXISTS {name}{}", if cascade { " CASCADE" } else { "" });
        self.ddl(&crate::statement::parse_relational(&text)?).map(|_| ())
    }
}
