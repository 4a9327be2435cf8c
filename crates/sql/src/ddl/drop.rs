//! DROP and TRUNCATE.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use colibri_txn::{SpaceId, Transaction};
use compact_str::CompactString;
use sqlparser::ast::{self, ObjectType};

use super::{Session, no_such};
use crate::bind::{self, fold, name_parts};
use crate::catalog::{Change, Relation, Table, View};
use crate::cluster::{ObjectKind, Privileges};
use crate::error::{Error, Result, SqlState};
use crate::store_error::InSql as _;

fn depended_on(what: &str, details: &[String]) -> Error {
    Error::new(SqlState::DEPENDENT_OBJECTS, format!("cannot drop {what} because other objects depend on it"))
        .detail(details.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

impl Session {
    pub(super) fn drop_objects(
        &mut self,
        object_type: ObjectType,
        if_exists: bool,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<()> {
        if object_type == ObjectType::Schema {
            for name in names {
                self.drop_schema(name, if_exists, cascade)?;
            }
            return Ok(());
        }
        let kind = match object_type {
            ObjectType::Table => "table",
            ObjectType::Index => "index",
            ObjectType::Sequence => "sequence",
            ObjectType::View => "view",
            other => return Err(Error::unsupported(format_args!("DROP {other}"))),
        };
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            match self.find_relation(name)? {
                None if if_exists => {}
                None => return Err(no_such(kind, name)),
                Some(relation) if relation.kind() != kind => {
                    let name = fold(name_parts(name)?.last().ok_or_else(|| Error::internal("a name has no parts"))?);
                    let article = if kind == "index" { "an" } else { "a" };
                    let error = Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {article} {kind}"));
                    let hint = format!(
                        "Use DROP {} to remove {} {}.",
                        relation.kind().to_ascii_uppercase(),
                        if relation.kind() == "index" { "an" } else { "a" },
                        relation.kind()
                    );
                    return Err(error.hint(hint));
                }
                Some(relation) => {
                    self.expect_owner_of(&relation)?;
                    found.push(relation);
                }
            }
        }
        // Objects dropped together may depend on each other.
        let together: Vec<u32> = found
            .iter()
            .filter_map(|relation| match relation {
                Relation::Table(table) => Some(table.id),
                Relation::View(view) => Some(view.id),
                _ => None,
            })
            .collect();
        for relation in found {
            match relation {
                Relation::Table(table) => self.drop_table(table.id, cascade, &together)?,
                Relation::View(view) => {
                    if self.catalog().views().any(|other| other.id == view.id) {
                        self.drop_view_with(&view, cascade, &together)?;
                    }
                }
                Relation::Sequence(sequence) => self.drop_sequence(sequence.id, cascade)?,
                Relation::Index(table, index) => {
                    let table =
                        self.catalog().table(table).cloned().ok_or_else(|| Error::internal("an index has no table"))?;
                    self.lock_table(&table)?;
                    if index.constraint {
                        return Err(required_by_constraint(&table, &index.name));
                    }
                    let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
                    let others = crate::bind::unique_on(&table, &columns).len() > 1;
                    if index.unique && !others {
                        self.release_references(&table, &columns, &index.name, cascade)?;
                    }
                    self.drop_index_of(table.id, &index.name)?;
                }
                Relation::PrimaryKey(table) => {
                    let table =
                        self.catalog().table(table).cloned().ok_or_else(|| Error::internal("an index has no table"))?;
                    let name = table.primary_key.as_ref().map(|key| key.name.clone()).unwrap_or_default();
                    return Err(required_by_constraint(&table, &name));
                }
            }
        }
        Ok(())
    }

    fn release_references(&mut self, table: &Arc<Table>, columns: &[usize], index: &str, cascade: bool) -> Result<()> {
        let same =
            |target: &[usize]| target.len() == columns.len() && target.iter().all(|column| columns.contains(column));
        let sources: Vec<Arc<Table>> = self.catalog().referring_to(table.id).cloned().collect();
        for source in sources {
            let mut changed = (*source).clone();
            changed.foreign_keys.retain(|key| !(key.target == table.id && same(&key.target_columns)));
            if changed.foreign_keys.len() < source.foreign_keys.len() {
                if !cascade {
                    return Err(depended_on(
                        &format!("index {index}"),
                        &[format!("a foreign key of table {} depends on index {index}", source.name)],
                    ));
                }
                self.change(vec![Change::PutTable(changed)])?;
            }
        }
        Ok(())
    }

    fn drop_table(&mut self, id: u32, cascade: bool, together: &[u32]) -> Result<()> {
        let Some(table) = self.catalog().table(id).cloned() else { return Ok(()) };
        self.lock_table(&table)?;
        let mut details = Vec::new();
        let sources: Vec<Arc<Table>> =
            self.catalog().referring_to(id).filter(|source| source.id != id).cloned().collect();
        for source in sources.iter().filter(|source| !together.contains(&source.id)) {
            for key in source.foreign_keys.iter().filter(|key| key.target == id) {
                details
                    .push(format!("constraint {} on table {} depends on table {}", key.name, source.name, table.name));
            }
        }
        let views: Vec<Arc<View>> = self.catalog().views().filter(|view| view.reads.contains(&id)).cloned().collect();
        for view in views.iter().filter(|view| !together.contains(&view.id)) {
            details.push(format!("view {} depends on table {}", view.name, table.name));
        }
        if !cascade && !details.is_empty() {
            return Err(depended_on(&format!("table {}", table.name), &details));
        }
        for source in sources {
            self.lock_table(&source)?;
            let Some(current) = self.catalog().table(source.id) else { continue };
            let mut changed = (**current).clone();
            changed.foreign_keys.retain(|key| key.target != id);
            self.change(vec![Change::PutTable(changed)])?;
        }
        for view in views {
            self.drop_view_with(&view, true, together)?;
        }
        let owned: Vec<u32> = self
            .catalog()
            .sequences()
            .filter(|sequence| sequence.owned_by.is_some_and(|(owner, _)| owner == id))
            .map(|sequence| sequence.id)
            .collect();
        self.expect_not_in_use(&table, "DROP TABLE")?;
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.drop_space(SpaceId(table.space)).in_sql()?;
            for index in &table.indexes {
                txn.drop_space(SpaceId(index.space)).in_sql()?;
            }
        }
        let mut changes = vec![Change::DropTable(id)];
        changes.extend(owned.into_iter().map(Change::DropSequence));
        self.change(changes)
    }

    pub(super) fn drop_view(&mut self, view: &View, cascade: bool) -> Result<()> {
        self.drop_view_with(view, cascade, &[])
    }

    /// Drops a view with those that read it, however many lie on top of each other.
    ///
    /// Bug: each view was dropped by dropping those that read it first. Consequence: views that read each other in a circle,
    /// or thousands one on top of the other, took all of the stack, and the server with it. Fix: they are found one after
    /// the other, each once, and dropped together.
    fn drop_view_with(&mut self, view: &View, cascade: bool, together: &[u32]) -> Result<()> {
        let mut readers: HashMap<u32, Vec<(u32, CompactString)>> = HashMap::new();
        for other in self.catalog().views() {
            for &read in &other.reads {
                readers.entry(read).or_default().push((other.id, other.name.clone()));
            }
        }
        let mut found = vec![(view.id, view.name.clone())];
        let mut known = HashSet::from([view.id]);
        let mut next = 0;
        let mut details = Vec::new();
        while let Some((id, name)) = found.get(next).cloned() {
            next += 1;
            for other in readers.get(&id).into_iter().flatten() {
                if !known.insert(other.0) {
                    continue;
                }
                if !together.contains(&other.0) {
                    details.push(format!("view {} depends on view {name}", other.1));
                }
                found.push(other.clone());
            }
        }
        if !cascade && !details.is_empty() {
            return Err(depended_on(&format!("view {}", view.name), &details));
        }
        self.change(found.iter().rev().map(|&(id, _)| Change::DropView(id)).collect())
    }

    fn drop_sequence(&mut self, id: u32, cascade: bool) -> Result<()> {
        let Some(sequence) = self.catalog().sequences().find(|sequence| sequence.id == id).cloned() else {
            return Ok(());
        };
        // Bug: a default used a sequence if its text had the name in it somewhere. Consequence: dropping a sequence `s` was refused for
        // each `nextval('t_id_seq')`, and with CASCADE took those defaults with it. Fix: the name that it is given is read.
        let uses = |default: &Option<String>| {
            default.as_ref().is_some_and(|default| bind::stored::uses_sequence(default, &sequence))
        };
        let users: Vec<Arc<Table>> = self
            .catalog()
            .tables()
            .filter(|table| table.columns.iter().any(|column| uses(&column.default)))
            .cloned()
            .collect();
        for table in users {
            let mut changed = (*table).clone();
            for column in &mut changed.columns {
                if uses(&column.default) {
                    if column.identity.is_some() {
                        let message = format!(
                            "cannot drop sequence {} because column {} of table {} requires it",
                            sequence.name, column.name, table.name
                        );
                        return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message));
                    }
                    if !cascade {
                        let detail = format!(
                            "default value for column {} of table {} depends on sequence {}",
                            column.name, table.name, sequence.name
                        );
                        return Err(depended_on(&format!("sequence {}", sequence.name), &[detail]));
                    }
                    column.default = None;
                }
            }
            self.lock_table(&table)?;
            self.change(vec![Change::PutTable(changed)])?;
        }
        self.change(vec![Change::DropSequence(id)])
    }

    fn drop_schema(&mut self, name: &ast::ObjectName, if_exists: bool, cascade: bool) -> Result<()> {
        let folded: CompactString =
            fold(name_parts(name)?.last().ok_or_else(|| Error::internal("a name has no parts"))?);
        if self.catalog().schema(&folded).is_none() {
            return if if_exists { Ok(()) } else { Err(no_such("schema", name)) };
        }
        if let Some(schema) = self.catalog().schema(&folded) {
            self.expect_owner(schema.owner, "schema", &folded)?;
        }
        let relations: Vec<Relation> =
            self.catalog().relations(&folded).map(|(_, relation)| relation.clone()).collect();
        if !cascade && !relations.is_empty() {
            let details: Vec<String> = relations
                .iter()
                .filter_map(|relation| match relation {
                    Relation::Table(table) => Some(format!("table {folded}.{} depends on schema {folded}", table.name)),
                    Relation::View(view) => Some(format!("view {folded}.{} depends on schema {folded}", view.name)),
                    Relation::Sequence(sequence) => {
                        Some(format!("sequence {folded}.{} depends on schema {folded}", sequence.name))
                    }
                    _ => None,
                })
                .collect();
            return Err(depended_on(&format!("schema {folded}"), &details));
        }
        for relation in &relations {
            match relation {
                Relation::Table(table) => self.drop_table(table.id, true, &[])?,
                Relation::View(view) if self.catalog().views().any(|other| other.id == view.id) => {
                    self.drop_view(view, true)?;
                }
                _ => {}
            }
        }
        for relation in &relations {
            if let Relation::Sequence(sequence) = relation {
                self.drop_sequence(sequence.id, true)?;
            }
        }
        self.change(vec![Change::DropSchema(folded)])
    }

    /// A table whose rows somebody may take away all together.
    fn truncated_table(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let table = self.with_binder("", |binder| binder.table(name))?;
        if !self.authority().may(Privileges::TRUNCATE, ObjectKind::Table, table.owner, table.acl.as_ref()) {
            return Err(Error::denied("table", &table.name));
        }
        self.lock_table(&table)?;
        self.expect_not_in_use(&table, "TRUNCATE")?;
        Ok(table)
    }

    pub(super) fn truncate(&mut self, truncate: &ast::Truncate) -> Result<()> {
        super::whole::truncate(truncate)?;
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for target in &truncate.table_names {
            let table = self.truncated_table(&target.name)?;
            if tables.iter().all(|known| known.id != table.id) {
                tables.push(table);
            }
        }
        let cascade = truncate.cascade == Some(ast::CascadeOption::Cascade);
        let mut next = 0;
        while let Some(table) = tables.get(next).cloned() {
            next += 1;
            let sources: Vec<Arc<Table>> = self.catalog().referring_to(table.id).cloned().collect();
            for source in sources {
                if tables.iter().any(|known| known.id == source.id) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{}\" references \"{}\".", source.name, table.name);
                    let hint =
                        format!("Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.", source.name);
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail).hint(hint));
                }
                self.lock_table(&source)?;
                self.expect_not_in_use(&source, "TRUNCATE")?;
                tables.push(source);
            }
        }
        let restart = truncate.identity == Some(ast::TruncateIdentityOption::Restart);
        for table in tables {
            // New spaces in place of the old ones: so it is undone as easily as it is done.
            let mut changed = (*table).clone();
            changed.space = self.new_id()?;
            for index in &mut changed.indexes {
                let id = self.new_id()?;
                Arc::make_mut(index).space = id;
            }
            {
                let (_, txn) = self.catalog_and_txn()?;
                txn.create_space(SpaceId(changed.space)).in_sql()?;
                txn.drop_space(SpaceId(table.space)).in_sql()?;
                for (new, old) in changed.indexes.iter().zip(&table.indexes) {
                    txn.create_space(SpaceId(new.space)).in_sql()?;
                    txn.drop_space(SpaceId(old.space)).in_sql()?;
                }
            }
            self.change(vec![Change::PutTable(changed)])?;
            if restart {
                let owned: Vec<Arc<crate::catalog::Sequence>> = self
                    .catalog()
                    .sequences()
                    .filter(|sequence| sequence.owned_by.is_some_and(|(owner, _)| owner == table.id))
                    .cloned()
                    .collect();
                for sequence in owned {
                    self.restart_sequence(&sequence, None);
                }
            }
        }
        Ok(())
    }
}

fn required_by_constraint(table: &Table, name: &str) -> Error {
    let message = format!("cannot drop index {name} because constraint {name} on table {} requires it", table.name);
    Error::new(SqlState::DEPENDENT_OBJECTS, message)
        .hint(format!("You can drop constraint {name} on table {} instead.", table.name))
}
