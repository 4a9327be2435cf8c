//! `COMMENT ON` tables, views, sequences, indexes, columns, constraints, schemas, databases and
//! roles.
//!
//! Comments on databases and roles belong to the cluster, and change at once; the others are part
//! of the catalogue.

use colibri_catalog::{CONSTRAINT_COMMENT, Catalog, Change, ObjectId, Relation};
use colibri_syntax::tree::{Object, ObjectKind as Kind};
use colibri_types::{Error, Result, SqlState};

use super::no_such_schema;
use crate::session::Session;

impl Session {
    pub(super) fn comment_on(&mut self, object: &Object, text: Option<String>) -> Result<()> {
        let text = text.filter(|text| !text.is_empty());
        let name = object.name.last().cloned().unwrap_or_default();
        let (id, part) = match object.kind {
            Kind::Database => return self.comment_on_database(&name, text.as_deref()),
            Kind::Role => return self.comment_on_role(&name, text.as_deref()),
            Kind::Schema => {
                let schema = self.catalog().schema(&name).cloned().ok_or_else(|| no_such_schema(&name))?;
                self.expect_owner(schema.owner, "schema", &name)?;
                (schema.id, 0)
            }
            Kind::Type => {
                let found = self.expect_user_type(&object.name)?;
                (found.id, 0)
            }
            Kind::Domain => {
                self.expect_domain(&object.name)?;
                (self.expect_user_type(&object.name)?.id, 0)
            }
            Kind::DomainConstraint => (self.domain_constraint(&object.name)?, CONSTRAINT_COMMENT),
            Kind::Extension => (self.expect_extension(&name)?, 0),
            Kind::Column | Kind::Constraint => self.part_of(object)?,
            Kind::Relation | Kind::Table | Kind::View | Kind::MaterializedView | Kind::Index | Kind::Sequence => {
                let relation = self.expect_relation(&object.name)?;
                expect_kind(&relation, object.kind, &name)?;
                self.expect_owner_of(&relation)?;
                let id =
                    self.catalog().number_of(&relation).ok_or_else(|| Error::internal("a relation has no number"))?;
                (id, 0)
            }
        };
        Catalog::lock(self.catalog_and_txn()?.1)?;
        self.change(vec![Change::Comment(id, part, text)])
    }

    /// The key of a comment on a column or a constraint: the object's number and the place within
    /// it.
    fn part_of(&self, object: &Object) -> Result<(ObjectId, i32)> {
        let (part, name) = object.name.split_last().ok_or_else(|| Error::internal("a name has no parts"))?;
        let shown = name.last().cloned().unwrap_or_default();
        let no_column = || {
            let message = format!("column \"{part}\" of relation \"{shown}\" does not exist");
            Error::new(SqlState::NO_SUCH_COLUMN, message)
        };
        if object.kind == Kind::Column
            && self.relation_named(name)?.is_none()
            && let Some(ty) = self.find_user_type(name)?
            && let Some(composite) = ty.composite()
        {
            self.expect_owner(ty.owner, "relation", &ty.name)?;
            let field = composite.fields.iter().find(|field| field.name == *part).ok_or_else(no_column)?;
            return Ok((composite.relation, i32::from(field.number)));
        }
        let relation = self.expect_relation(name)?;
        if object.kind == Kind::Column {
            if !matches!(relation, Relation::Table(_) | Relation::View(_)) {
                let message = format!("cannot set comment on relation \"{shown}\"");
                let detail = format!("This operation is not supported for {}.", plural(&relation));
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail));
            }
            self.expect_owner_of(&relation)?;
            let found = match &relation {
                Relation::Table(table) => table.column(part).map(|at| (table.id, at)),
                Relation::View(view) => view.columns.iter().position(|known| known == part).map(|at| (view.id, at)),
                _ => None,
            };
            return found.map(|(id, at)| (id, at as i32 + 1)).ok_or_else(no_column);
        }
        self.expect_owner_of(&relation)?;
        let found = match &relation {
            Relation::Table(table) => {
                let key = table.primary_key.iter().find(|key| key.name == *part).map(|key| key.id);
                let is_constraint = |index: &&std::sync::Arc<colibri_catalog::Index>| index.constraint;
                let indexes = table.indexes.iter().filter(is_constraint);
                let index = indexes.filter(|index| index.name == *part).map(|index| index.id).next();
                let check = table.checks.iter().find(|check| check.name == *part).map(|check| check.id);
                let foreign = table.foreign_keys.iter().find(|key| key.name == *part).map(|key| key.id);
                key.or(index).or(check).or(foreign)
            }
            _ => None,
        };
        found.map(|id| (id, CONSTRAINT_COMMENT)).ok_or_else(|| {
            let message = format!("constraint \"{part}\" for table \"{shown}\" does not exist");
            Error::new(SqlState::NO_SUCH_OBJECT, message)
        })
    }

    fn comment_on_database(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        let cluster = self.server("a comment on a database")?;
        self.own_database(name)?;
        cluster.change_database(name, &mut |database| {
            database.comment = text.map(str::to_owned);
            Ok(())
        })
    }

    fn comment_on_role(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        let cluster = self.server("a comment on a role")?;
        let (authority, roles) = (self.authority(), cluster.roles());
        let role = roles.expect(name)?;
        let may = authority.is_superuser()
            || (!role.superuser && roles.get(authority.role).is_some_and(|role| role.createrole));
        if !may {
            let message = if role.superuser {
                "must be superuser to comment on superuser roles".to_owned()
            } else {
                "must have CREATEROLE privilege".to_owned()
            };
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        cluster.change_roles(&mut |roles| {
            roles.expect_mut(name)?.comment = text.map(str::to_owned);
            Ok(())
        })
    }
}

fn plural(relation: &Relation) -> &'static str {
    match relation {
        Relation::Sequence(_) => "sequences",
        Relation::Index(..) | Relation::PrimaryKey(_) => "indexes",
        Relation::Table(table) if table.materialized.is_some() => "materialized views",
        Relation::Table(_) => "tables",
        Relation::View(_) => "views",
    }
}

/// Refuses a relation of another kind than the one said.
fn expect_kind(relation: &Relation, kind: Kind, name: &str) -> Result<()> {
    let (is_it, what) = match kind {
        Kind::Table => (relation.kind() == "table", "a table"),
        Kind::MaterializedView => (relation.kind() == "materialized view", "a materialized view"),
        Kind::View => (matches!(relation, Relation::View(_)), "a view"),
        Kind::Index => (matches!(relation, Relation::Index(..) | Relation::PrimaryKey(_)), "an index"),
        Kind::Sequence => (matches!(relation, Relation::Sequence(_)), "a sequence"),
        _ => (true, ""),
    };
    if is_it { Ok(()) } else { Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {what}"))) }
}
