//! DROP and TRUNCATE.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use colibri_catalog::{
    Change, Relation, Routine, Sequence, Table, TriggerTime, UserType, View,
    cluster::{ObjectKind, Privileges},
    store_error::InSql as _,
};
use colibri_txn::SpaceId;
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast::{self, ObjectType};

use super::{Session, no_such};
use crate::bind::{self, fold, in_database, name_parts};
use crate::session::Severity;

pub(super) fn depended_on(what: &str, details: &[String]) -> Error {
    Error::new(SqlState::DEPENDENT_OBJECTS, format!("cannot drop {what} because other objects depend on it"))
        .detail(details.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Whether what depends on an object may go with it, and what does.
pub(super) struct Cascade {
    allowed: bool,
    /// Descriptions, in the order of the messages.
    along: Vec<String>,
}

impl Cascade {
    pub(super) fn new(allowed: bool) -> Self {
        Self { allowed, along: Vec::new() }
    }

    pub(super) fn allows(&self) -> bool {
        self.allowed
    }

    pub(super) fn takes(&mut self, what: String) {
        self.along.push(what);
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.along.append(&mut other.along);
    }
}

/// A view that reads an object, directly or by other views.
pub(super) struct Reader {
    pub(super) view: Arc<View>,
    /// What it reads directly: the object itself, or a view on it.
    pub(super) reads: u32,
}

impl Session {
    /// Reports what was dropped together with an object.
    pub(super) fn tell_cascade(&mut self, cascade: Cascade) {
        /// The most lines in a message to the client.
        const TOLD_MAX: usize = 100;
        let along = cascade.along;
        let severity = Severity::Notice;
        match &along[..] {
            [] => {}
            [one] => self.notice(severity, SqlState("00000"), format!("drop cascades to {one}")),
            several => {
                let lines = several.iter().take(TOLD_MAX).map(|what| format!("drop cascades to {what}"));
                let mut detail = lines.collect::<Vec<_>>().join("\n");
                match several.len().saturating_sub(TOLD_MAX) {
                    0 => {}
                    1 => detail += "\nand 1 other object (see server log for list)",
                    more => detail += &format!("\nand {more} other objects (see server log for list)"),
                }
                let message = format!("drop cascades to {} other objects", several.len());
                let report = Error::new(SqlState("00000"), message).detail(detail);
                self.notice_report(severity, report);
            }
        }
    }

    /// A relation's name as a message has it: with its schema where the name alone would not find
    /// it.
    pub(super) fn shown(&self, schema: &str, name: &str) -> String {
        let path = self.search_path();
        let found = path.iter().find(|within| self.catalog().relation(within, name).is_some());
        let quote = colibri_types::functions::quote_identifier;
        if found.is_some_and(|found| found == schema) {
            return quote(name);
        }
        format!("{}.{}", quote(schema), quote(name))
    }

    pub(super) fn described(&self, relation: &Relation) -> String {
        let (schema, name) = match relation {
            Relation::Table(table) => (&table.schema, &table.name),
            Relation::View(view) => (&view.schema, &view.name),
            Relation::Sequence(sequence) => (&sequence.schema, &sequence.name),
            Relation::Index(table, index) => match self.catalog().table(*table) {
                Some(table) => (&table.schema, &index.name),
                None => return format!("index {}", index.name),
            },
            Relation::PrimaryKey(table) => match self.catalog().table(*table) {
                Some(table) => (&table.schema, table.primary_key.as_ref().map_or(&table.name, |key| &key.name)),
                None => return "index".to_owned(),
            },
        };
        format!("{} {}", relation.kind(), self.shown(schema, name))
    }

    pub(super) fn described_table(&self, table: &Table) -> String {
        let kind = if table.materialized.is_some() { "materialized view" } else { "table" };
        format!("{kind} {}", self.shown(&table.schema, &table.name))
    }

    pub(super) fn described_view(&self, view: &View) -> String {
        let kind = if view.materialized { "materialized view" } else { "view" };
        format!("{kind} {}", self.shown(&view.schema, &view.name))
    }

    /// A constraint, as a message has it.
    pub(super) fn described_constraint(&self, name: &str, table: &Table) -> String {
        format!("constraint {name} on {}", self.described_table(table))
    }

    fn described_default(&self, column: &str, table: &Table) -> String {
        format!("default value for column {column} of {}", self.described_table(table))
    }

    /// The views that read a table or a view, at first hand or by each other, each once: older ones
    /// first, each before those that read it.
    ///
    /// Bug: each view was dropped by dropping those that read it first. Consequence: views that
    /// read each other in a circle, or thousands one on top of the other, took all of the stack,
    /// and the server with it. Fix: they are found one after the other, each once, and dropped
    /// together.
    pub(super) fn readers_of(&self, id: u32) -> Vec<Reader> {
        let mut direct: HashMap<u32, Vec<Arc<View>>> = HashMap::new();
        for view in self.catalog().views() {
            // The views that a view reads include those that it reads by other views. So the
            // younger ones are enough, and come first.
            let mut reads = view.reads.clone();
            reads.sort_unstable_by_key(|&read| std::cmp::Reverse(read));
            reads.dedup();
            let mut by_way: HashSet<u32> = HashSet::new();
            for read in reads {
                if !by_way.contains(&read) {
                    direct.entry(read).or_default().push(Arc::clone(view));
                }
                by_way.extend(self.catalog().view(read).iter().flat_map(|view| &view.reads));
            }
        }
        for views in direct.values_mut() {
            views.sort_by_key(|view| view.id);
        }
        let mut known = HashSet::from([id]);
        let mut found = Vec::new();
        // For each relation on the search's path, the readers that are left to visit, youngest
        // first.
        let mut path: Vec<(Option<Reader>, u32, Vec<Arc<View>>)> =
            vec![(None, id, direct.remove(&id).unwrap_or_default())];
        while let Some((_, reads, left)) = path.last_mut() {
            let reads = *reads;
            match left.pop() {
                Some(view) if known.insert(view.id) => {
                    let below = direct.remove(&view.id).unwrap_or_default();
                    let number = view.id;
                    path.push((Some(Reader { view, reads }), number, below));
                }
                Some(_) => {}
                None => found.extend(path.pop().and_then(|(reader, ..)| reader)),
            }
        }
        found.reverse();
        found
    }

    /// The objects that depend on a relation, each with what it depends on, without those that are
    /// dropped anyway.
    fn dependents(&self, relation: &Relation, together: &[u32]) -> Result<Vec<(String, String)>> {
        let described = self.described(relation);
        let id = match relation {
            Relation::Table(table) => table.id,
            Relation::View(view) => view.id,
            Relation::Sequence(sequence) => {
                let defaults = self.defaults_of(sequence).into_iter();
                let of_tables = defaults.map(|(_, default)| (default, described.clone()));
                return Ok(of_tables.chain(self.types_told(sequence, together)?).collect());
            }
            Relation::Index(..) | Relation::PrimaryKey(_) => return Ok(Vec::new()),
        };
        // Older ones first: a constraint and a default are taken to be as old as their table.
        let mut found: Vec<(u32, (String, String))> = Vec::new();
        if let Relation::Table(_) = relation {
            for sequence in self.owned_by(id) {
                let described = self.described(&Relation::Sequence(Arc::clone(&sequence)));
                let defaults = self.defaults_of(&sequence).into_iter();
                let others = defaults.filter(|((user, _), _)| *user != id && !together.contains(user));
                found.extend(others.map(|((user, _), default)| (user, (default, described.clone()))));
                found.extend(self.types_told(&sequence, together)?.into_iter().map(|told| (sequence.id, told)));
            }
            let heirs = self.catalog().table(id).map(|table| table.children.clone()).unwrap_or_default();
            for heir in heirs.into_iter().filter(|heir| !together.contains(heir)) {
                let Some(heir) = self.catalog().table(heir) else { continue };
                found.push((heir.id, (self.described_table(heir), described.clone())));
            }
            let sources = self.catalog().referring_to(id);
            for source in sources.filter(|source| source.id != id && !together.contains(&source.id)) {
                let keys = source.foreign_keys.iter().filter(|key| key.target == id);
                let keys = keys.map(|key| (self.described_constraint(&key.name, source), described.clone()));
                found.extend(keys.map(|key| (source.id, key)));
            }
        }
        for routine in self.catalog().routines().filter(|routine| routine.uses_type(id)) {
            let what = format!("{} {}", routine.kind(), self.routine_text(routine));
            found.push((routine.id, (what, described.clone())));
        }
        let readers = self.readers_of(id);
        // Those of views that read it go with these.
        let goes = |relation: u32| {
            relation == id || together.contains(&relation) || readers.iter().any(|reader| reader.view.id == relation)
        };
        for rule in self.rules_naming(id).iter().filter(|rule| !goes(rule.relation)) {
            found.push((rule.id, (self.described_rule(rule), described.clone())));
        }
        // Each with the view that reads the relation directly; `None` if that view is dropped
        // anyway and reports its own readers.
        let mut roots: HashMap<u32, Option<(u32, &Reader)>> = HashMap::new();
        for reader in &readers {
            let view = &reader.view;
            let root = match roots.get(&reader.reads) {
                _ if together.contains(&view.id) => None,
                Some(root) => root.map(|(root, _)| (root, reader)),
                None => Some((view.id, reader)),
            };
            if let Some((root, _)) = root {
                let on = roots.get(&reader.reads).copied().flatten().map(|(_, read)| self.described_view(&read.view));
                found.push((root, (self.described_view(view), on.unwrap_or_else(|| described.clone()))));
            }
            roots.insert(view.id, root);
        }
        found.sort_by_key(|(age, _)| *age);
        Ok(found.into_iter().map(|(_, dependent)| dependent).collect())
    }

    /// The columns whose defaults use a sequence, and these defaults as messages describe them.
    pub(super) fn defaults_of(&self, sequence: &Sequence) -> Vec<((u32, usize), String)> {
        let mut found = Vec::new();
        for (user, columns) in self.users_of(sequence) {
            for place in columns {
                found.push(((user.id, place), self.described_default(&user.columns[place].name, &user)));
            }
        }
        found
    }

    fn owned_by(&self, table: u32) -> Vec<Arc<Sequence>> {
        let sequences = self.catalog().sequences();
        sequences.filter(|sequence| sequence.owned_by.is_some_and(|(owner, _)| owner == table)).cloned().collect()
    }

    /// 2BP01 if other objects depend on the relations and are not to be dropped with them.
    fn expect_independent(&self, relations: &[Relation], together: &[u32], cascade: bool) -> Result<()> {
        relations.iter().try_for_each(|relation| self.expect_no_identity(relation))?;
        if cascade {
            return Ok(());
        }
        let mut known = HashSet::new();
        let mut of_each = Vec::new();
        for relation in relations {
            let dependents = self.dependents(relation, together)?.into_iter();
            let new = dependents.filter(|(what, _)| known.insert(what.clone()));
            of_each.push(new.map(|(what, on)| format!("{what} depends on {on}")).collect::<Vec<_>>());
        }
        let details: Vec<String> = of_each.into_iter().rev().flatten().collect();
        match relations {
            _ if details.is_empty() => Ok(()),
            [one] => Err(depended_on(&self.described(one), &details)),
            _ => {
                let message = "cannot drop desired object(s) because other objects depend on them";
                Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                    .detail(details.join("\n"))
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."))
            }
        }
    }

    /// Refuses to drop a sequence that an identity column takes its values from: only the column
    /// can go.
    fn expect_no_identity(&self, relation: &Relation) -> Result<()> {
        let Relation::Sequence(sequence) = relation else { return Ok(()) };
        for (table, columns) in self.users_of(sequence) {
            let identity = columns.iter().map(|&place| &table.columns[place]).find(|column| column.identity.is_some());
            if let Some(column) = identity {
                let (described, name, table) = (self.described(relation), &column.name, self.described_table(&table));
                let message = format!("cannot drop {described} because column {name} of {table} requires it");
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                    .hint(format!("You can drop column {name} of {table} instead.")));
            }
        }
        Ok(())
    }

    pub(super) fn drop_objects(
        &mut self,
        object_type: ObjectType,
        if_exists: bool,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<()> {
        if object_type == ObjectType::Schema {
            let mut all = Vec::new();
            for name in names {
                let mut one = Cascade::new(cascade);
                self.drop_schema(name, if_exists, &mut one)?;
                all.push(one.along);
            }
            self.tell_cascade(Cascade { allowed: cascade, along: all.into_iter().rev().flatten().collect() });
            return Ok(());
        }
        let kind = match object_type {
            ObjectType::Table => "table",
            ObjectType::Index => "index",
            ObjectType::Sequence => "sequence",
            ObjectType::View => "view",
            ObjectType::MaterializedView => "materialized view",
            other => return Err(Error::unsupported(format_args!("DROP {other}"))),
        };
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            match self.find_relation(name)? {
                None if self.is_of_system(name)? => return Err(bind::no_change_of_system(&last_part(name)?)),
                None => match self.expect_schema_of(name) {
                    Ok(()) if if_exists => self.notice_missing(kind, &last_part(name)?),
                    Ok(()) => {
                        return Err(no_such(kind, &ast::ObjectName(name.0.last().cloned().into_iter().collect())));
                    }
                    Err(error) if if_exists => self.notice_skipped(&error.report().message),
                    Err(error) => return Err(error),
                },
                Some(relation) if relation.kind() != kind => {
                    let name = last_part(name)?;
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
            .flat_map(|relation| match relation {
                Relation::Table(table) if table.partitioned.is_some() => self.catalog().partition_tree(table.id),
                Relation::Table(table) => vec![table.id],
                Relation::View(view) => vec![view.id],
                _ => Vec::new(),
            })
            .collect();
        self.expect_independent(&found, &together, cascade)?;
        let mut all = Vec::new();
        for relation in found {
            let mut one = Cascade::new(cascade);
            let cascade = &mut one;
            match relation {
                Relation::Table(table) => self.drop_table(table.id, cascade, &together)?,
                Relation::View(view) => {
                    if self.catalog().views().any(|other| other.id == view.id) {
                        self.drop_view(&view, cascade, &together)?;
                    }
                }
                Relation::Sequence(sequence) => self.drop_sequence(sequence.id, cascade)?,
                Relation::Index(table, index) => {
                    let table =
                        self.catalog().table(table).cloned().ok_or_else(|| Error::internal("an index has no table"))?;
                    self.lock_table(&table)?;
                    self.expect_no_plan(&table, &index.name, "DROP INDEX")?;
                    if index.constraint {
                        return Err(self.required_by_constraint(&table, &index.name));
                    }
                    self.expect_no_parent_index(&index)?;
                    let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
                    let others = crate::bind::unique_on(&table, &columns).len() > 1;
                    if index.unique && !others {
                        self.release_references(&table, &columns, &index.name, cascade)?;
                    }
                    self.drop_index_parts(table.id, index.id)?;
                    self.drop_index_of(table.id, &index.name)?;
                }
                Relation::PrimaryKey(table) => {
                    let table =
                        self.catalog().table(table).cloned().ok_or_else(|| Error::internal("an index has no table"))?;
                    let name = table.primary_key.as_ref().map(|key| key.name.clone()).unwrap_or_default();
                    return Err(self.required_by_constraint(&table, &name));
                }
            }
            all.push(one.along);
        }
        self.tell_cascade(Cascade { allowed: cascade, along: all.into_iter().rev().flatten().collect() });
        Ok(())
    }

    /// Refuses what DROP INDEX CONCURRENTLY cannot do. Dropping an index waits for no more than those
    /// who write to its table, with the word or without.
    pub(super) fn expect_droppable_concurrently(&self, names: &[ast::ObjectName], cascade: bool) -> Result<()> {
        const WHAT: &str = "DROP INDEX CONCURRENTLY";
        if self.state() != crate::session::TransactionState::Idle {
            let message = format!("{WHAT} cannot run inside a transaction block");
            return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        let [name] = names else {
            let message = format!("{WHAT} does not support dropping multiple objects");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        if cascade {
            let message = format!("{WHAT} does not support CASCADE");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if let Some(Relation::Index(table, index)) = self.find_relation(name)?
            && self.catalog().table(table).is_some_and(|table| table.partitioned.is_some())
        {
            let message = format!("cannot drop partitioned index \"{}\" concurrently", index.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(())
    }

    fn is_of_system(&self, name: &ast::ObjectName) -> Result<bool> {
        let (schema, name) = in_database(self.engine().name(), name)?;
        Ok(crate::system::table(schema.as_deref().unwrap_or("pg_catalog"), &name).is_some())
    }

    /// Checks that the schema of a name exists.
    fn expect_schema_of(&self, name: &ast::ObjectName) -> Result<()> {
        match in_database(self.engine().name(), name)?.0 {
            Some(schema) if self.catalog().schema(&schema).is_none() && !crate::system::is_system_schema(&schema) => {
                Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")))
            }
            _ => Ok(()),
        }
    }

    fn release_references(
        &mut self,
        table: &Arc<Table>,
        columns: &[usize],
        index: &str,
        cascade: &mut Cascade,
    ) -> Result<()> {
        let same =
            |target: &[usize]| target.len() == columns.len() && target.iter().all(|column| columns.contains(column));
        let sources: Vec<Arc<Table>> = self.catalog().referring_to(table.id).cloned().collect();
        for source in sources {
            let mut changed = (*source).clone();
            let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut changed.foreign_keys)
                .into_iter()
                .partition(|key| key.target == table.id && same(&key.target_columns));
            changed.foreign_keys = kept;
            if !gone.is_empty() {
                let gone = gone.iter().map(|key| self.described_constraint(&key.name, &source));
                let gone: Vec<String> = gone.collect();
                if !cascade.allowed {
                    let details: Vec<String> =
                        gone.iter().map(|key| format!("{key} depends on index {index}")).collect();
                    return Err(depended_on(&format!("index {index}"), &details));
                }
                cascade.along.extend(gone);
                self.change(vec![Change::PutTable(changed)])?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_table(&mut self, id: u32, cascade: &mut Cascade, together: &[u32]) -> Result<()> {
        let Some(table) = self.catalog().table(id).cloned() else { return Ok(()) };
        self.lock_table(&table)?;
        // Partitions go with their table.
        let with_it: Vec<u32> = together.iter().copied().chain([id]).collect();
        for partition in table.partitioned.iter().flat_map(|partitioned| partitioned.partitions.clone()) {
            self.drop_table(partition, cascade, &with_it)?;
        }
        let table = self.current(id)?;
        let relation = [Relation::Table(Arc::clone(&table))];
        self.expect_independent(&relation, together, cascade.allowed)?;
        // So do those that inherit from it, which are told like everything that depends on it.
        for child in table.children.clone() {
            let mut below = Cascade::new(true);
            self.drop_table(child, &mut below, &with_it)?;
            if !together.contains(&child) {
                cascade.along.append(&mut below.along);
            }
        }
        let table = self.current(id)?;
        let relation = [Relation::Table(Arc::clone(&table))];
        self.release_partition(&table, cascade, together)?;
        cascade.along.extend(self.dependents(&relation[0], together)?.into_iter().map(|(what, _)| what));
        let owned = self.owned_by(id);
        let sources: Vec<Arc<Table>> =
            self.catalog().referring_to(id).filter(|source| source.id != id).cloned().collect();
        let readers = self.readers_of(id);
        for source in sources {
            self.lock_table(&source)?;
            let Some(current) = self.catalog().table(source.id) else { continue };
            let mut changed = (**current).clone();
            changed.foreign_keys.retain(|key| key.target != id);
            self.change(vec![Change::PutTable(changed)])?;
        }
        self.drop_views(&readers.iter().rev().map(|reader| Arc::clone(&reader.view)).collect::<Vec<_>>())?;
        let what = if table.materialized.is_some() { "DROP MATERIALIZED VIEW" } else { "DROP TABLE" };
        self.expect_not_in_use(&table, what)?;
        self.leave_parent(&table)?;
        self.leave_parents(&table)?;
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.drop_space(SpaceId(table.space)).in_sql()?;
            for index in &table.indexes {
                txn.drop_space(SpaceId(index.space)).in_sql()?;
            }
        }
        let mut changes = self.without_routines_of(id);
        changes.extend(self.rules_naming(id).iter().map(|rule| Change::DropRule(rule.id)));
        changes.push(Change::DropTable(id));
        if table.materialized.is_some() {
            changes.push(Change::DropView(id));
        }
        for sequence in owned {
            self.forget_defaults(&sequence, |user, _| user == id)?;
            changes.push(Change::DropSequence(sequence.id));
        }
        self.change(changes)
    }

    /// Foreign keys that refer to the table that a partition belongs to go with the partition, unless
    /// that goes as well.
    fn release_partition(&mut self, table: &Arc<Table>, cascade: &mut Cascade, together: &[u32]) -> Result<()> {
        let ancestors = self.catalog().partition_ancestors(table);
        if ancestors.iter().any(|id| together.contains(id)) {
            return Ok(());
        }
        let sources = ancestors.iter().flat_map(|&id| self.catalog().referring_to(id));
        let sources: Vec<Arc<Table>> = sources.filter(|source| !together.contains(&source.id)).cloned().collect();
        let own = self.catalog().partition_tree(ancestors.last().copied().unwrap_or(table.id));
        for source in sources {
            let is_meant = |key: &&colibri_catalog::ForeignKey| ancestors.contains(&key.target);
            if own.contains(&source.id) || !source.foreign_keys.iter().any(|key| is_meant(&key)) {
                continue;
            }
            let names = source.foreign_keys.iter().filter(is_meant);
            let described: Vec<String> = names.map(|key| self.described_constraint(&key.name, &source)).collect();
            if !cascade.allowed {
                let on = self.described_table(table);
                let details: Vec<String> = described.iter().map(|what| format!("{what} depends on {on}")).collect();
                return Err(depended_on(&on, &details));
            }
            cascade.along.extend(described);
            self.lock_table(&source)?;
            let mut changed = (*self.current(source.id)?).clone();
            changed.foreign_keys.retain(|key| !ancestors.contains(&key.target));
            self.change(vec![Change::PutTable(changed)])?;
        }
        Ok(())
    }

    /// Removes the defaults that use a sequence, except those of columns that are dropped anyway.
    pub(super) fn forget_defaults(&mut self, sequence: &Sequence, goes: impl Fn(u32, usize) -> bool) -> Result<()> {
        self.forget_in_domains(sequence, &mut Cascade::new(true))?;
        for (table, mut columns) in self.users_of(sequence) {
            columns.retain(|&place| !goes(table.id, place));
            if columns.is_empty() {
                continue;
            }
            self.lock_table(&table)?;
            let mut changed = (*table).clone();
            columns.into_iter().for_each(|place| changed.columns[place].default = None);
            self.change(vec![Change::PutTable(changed)])?;
        }
        Ok(())
    }

    /// Drops a view together with the views that read it, at any depth.
    pub(super) fn drop_view(&mut self, view: &Arc<View>, cascade: &mut Cascade, together: &[u32]) -> Result<()> {
        if view.materialized {
            return self.drop_table(view.id, cascade, together);
        }
        let relation = [Relation::View(Arc::clone(view))];
        self.expect_independent(&relation, together, cascade.allowed)?;
        cascade.along.extend(self.dependents(&relation[0], together)?.into_iter().map(|(what, _)| what));
        let mut views = vec![Arc::clone(view)];
        views.extend(self.readers_of(view.id).into_iter().map(|reader| reader.view));
        views.reverse();
        self.drop_views(&views)
    }

    /// The tables with columns whose defaults take their numbers from a sequence.
    ///
    /// Bug: a default used a sequence if its text had the name in it somewhere. Consequence:
    /// dropping a sequence `s` was refused for each `nextval('t_id_seq')`, and with CASCADE took
    /// those defaults with it. Fix: the name that it is given is read.
    fn users_of(&self, sequence: &Sequence) -> Vec<(Arc<Table>, Vec<usize>)> {
        let uses = |default: &Option<String>| {
            default.as_ref().is_some_and(|default| bind::stored::uses_sequence(default, sequence))
        };
        let users = self.catalog().tables().map(|table| {
            let columns = table.columns.iter().enumerate().filter(|(_, column)| uses(&column.default));
            (Arc::clone(table), columns.map(|(place, _)| place).collect::<Vec<_>>())
        });
        let mut users: Vec<_> = users.filter(|(_, columns)| !columns.is_empty()).collect();
        users.sort_by_key(|(table, _)| table.id);
        users
    }

    pub(super) fn drop_sequence(&mut self, id: u32, cascade: &mut Cascade) -> Result<()> {
        let Some(sequence) = self.catalog().sequences().find(|sequence| sequence.id == id).cloned() else {
            return Ok(());
        };
        let relation = [Relation::Sequence(Arc::clone(&sequence))];
        self.expect_independent(&relation, &[], cascade.allowed)?;
        let users = self.users_of(&sequence);
        for (table, columns) in users {
            let mut changed = (*table).clone();
            for place in columns {
                let column = &mut changed.columns[place];
                column.default = None;
                cascade.along.push(self.described_default(&column.name, &table));
            }
            self.lock_table(&table)?;
            self.change(vec![Change::PutTable(changed)])?;
        }
        // Bug: domains were not looked at. Consequence: every later row without a value for a column
        // of one failed. Fix: a domain goes with the sequence of its default, as in PostgreSQL.
        self.forget_in_domains(&sequence, cascade)?;
        self.change(vec![Change::DropSequence(id)])
    }

    fn drop_schema(&mut self, name: &ast::ObjectName, if_exists: bool, cascade: &mut Cascade) -> Result<()> {
        let folded = last_part(name)?;
        if self.catalog().schema(&folded).is_none() {
            if if_exists {
                self.notice_missing("schema", &folded);
                return Ok(());
            }
            return Err(no_such("schema", name));
        }
        if let Some(schema) = self.catalog().schema(&folded) {
            self.expect_owner(schema.owner, "schema", &folded)?;
        }
        let mut relations: Vec<(u32, Relation)> = Vec::new();
        for (_, relation) in self.catalog().relations(&folded) {
            match relation {
                Relation::Table(table) => relations.push((table.id, relation.clone())),
                Relation::View(view) => relations.push((view.id, relation.clone())),
                // Other constraints are dropped together with their table.
                Relation::Sequence(sequence) if sequence.owned_by.is_none() => {
                    relations.push((sequence.id, relation.clone()));
                }
                _ => {}
            }
        }
        relations.sort_by_key(|(id, _)| *id);
        let mut types: Vec<Arc<UserType>> = self.catalog().types().cloned().collect();
        // Members go with their extension.
        let is_member = |id: u32| self.catalog().extension_of(id).is_some();
        types.retain(|ty| ty.schema == folded && !is_member(ty.id));
        let is_own = |one: &&Arc<Routine>| one.schema == folded && !is_member(one.id);
        let routines: Vec<_> = self.catalog().routines().filter(is_own).cloned().collect();
        let extensions: Vec<_> = self.catalog().extensions().filter(|one| one.schema == folded).cloned().collect();
        let of_types = types.iter().map(|ty| ty.id);
        let together: Vec<u32> = relations.iter().map(|(id, _)| *id).chain(of_types).collect();
        let described: Vec<String> = relations.iter().map(|(_, relation)| self.described(relation)).collect();
        // All messages come before the first object is dropped.
        let mut told: Vec<(String, String)> = Vec::new();
        for ((_, relation), described) in relations.iter().zip(described) {
            told.push((described, format!("schema {folded}")));
            told.extend(self.dependents(relation, &together)?);
        }
        for ty in &types {
            told.push((self.described_type(ty), format!("schema {folded}")));
        }
        for routine in &routines {
            told.push((format!("{} {}", routine.kind(), self.routine_text(routine)), format!("schema {folded}")));
        }
        for extension in &extensions {
            told.push((
                format!("extension {}", crate::system::names::quoted(&extension.name)),
                format!("schema {folded}"),
            ));
        }
        let operators: Vec<_> = self.catalog().operators().filter(|one| one.schema == folded).cloned().collect();
        for operator in &operators {
            told.push((self.described_operator(operator), format!("schema {folded}")));
        }
        told.extend(self.told_of_schema(&folded).into_iter().map(|what| (what, format!("schema {folded}"))));
        if !cascade.allowed && !told.is_empty() {
            let details: Vec<String> = told.iter().map(|(what, on)| format!("{what} depends on {on}")).collect();
            return Err(depended_on(&format!("schema {folded}"), &details));
        }
        cascade.along.extend(told.into_iter().map(|(what, _)| what));
        let quiet = &mut Cascade::new(true);
        self.drop_operators(&operators, quiet)?;
        for (_, relation) in &relations {
            match relation {
                Relation::Table(table) => self.drop_table(table.id, quiet, &together)?,
                Relation::View(view) if self.catalog().view(view.id).is_some() => {
                    self.drop_view(view, quiet, &together)?;
                }
                Relation::Sequence(sequence) => self.drop_sequence(sequence.id, quiet)?,
                _ => {}
            }
        }
        types.sort_by_key(|ty| std::cmp::Reverse(ty.id));
        for ty in types {
            self.drop_type(&ty, &together, quiet)?;
        }
        for routine in &routines {
            if self.catalog().routine(routine.id).is_some() {
                self.drop_routine(routine, quiet)?;
            }
        }
        for extension in &extensions {
            self.drop_extension(extension, cascade)?;
        }
        self.drop_others_of_schema(&folded)?;
        let schema = self.catalog().schema(&folded).map(|schema| schema.id);
        let in_it = self.catalog().default_privileges().filter(|one| one.schema.is_some() && one.schema == schema);
        let mut changes: Vec<Change> = in_it.map(|one| Change::DropDefaultPrivileges(one.id)).collect();
        changes.push(Change::DropSchema(folded));
        self.change(changes)
    }

    /// Locks a table for TRUNCATE.
    fn expect_may_truncate(&mut self, table: &Table) -> Result<()> {
        if !self.authority().may(Privileges::TRUNCATE, ObjectKind::Table, table.owner, table.acl.as_ref()) {
            return Err(Error::denied("table", &table.name));
        }
        self.lock_table(table)?;
        self.expect_not_in_use(table, "TRUNCATE")
    }

    pub(super) fn truncate(&mut self, truncate: &ast::Truncate) -> Result<()> {
        super::whole::truncate(truncate)?;
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for target in &truncate.table_names {
            let table = self.with_binder("", |binder| binder.table(&target.name))?;
            if table.materialized.is_some() {
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", table.name)));
            }
            if table.as_topic().is_some() {
                return Err(crate::bind::messages_stay(&table));
            }
            self.expect_may_truncate(&table)?;
            if target.only && table.partitioned.is_some() {
                let message = "cannot truncate only a partitioned table";
                let hint = "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.";
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
            }
            let parts = if target.only { vec![table.id] } else { self.catalog().partition_tree(table.id) };
            for id in parts {
                let part = self.current(id)?;
                if part.id != table.id {
                    self.lock_table(&part)?;
                    self.expect_not_in_use(&part, "TRUNCATE")?;
                }
                if tables.iter().all(|known| known.id != part.id) {
                    tables.push(part);
                }
            }
        }
        let cascade = truncate.cascade == Some(ast::CascadeOption::Cascade);
        let mut next = 0;
        while let Some(table) = tables.get(next).cloned() {
            next += 1;
            let mut targets = self.catalog().partition_ancestors(&table);
            targets.push(table.id);
            let sources = targets.iter().flat_map(|&id| self.catalog().referring_to(id));
            let sources: Vec<Arc<Table>> = sources.cloned().collect();
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
                let message = format!("truncate cascades to table \"{}\"", source.name);
                self.notice(Severity::Notice, SqlState("00000"), message);
                self.expect_may_truncate(&source)?;
                tables.push(source);
            }
        }
        let restart = truncate.identity == Some(ast::TruncateIdentityOption::Restart);
        for table in &tables {
            self.fire_truncate(table, TriggerTime::Before)?;
        }
        for table in &tables {
            // Triggers may have changed it.
            let table = &self.current(table.id)?;
            // The table gets new, empty spaces. A rollback puts the old ones back.
            let mut changed = (**table).clone();
            self.replace_spaces(table, &mut changed)?;
            self.change(vec![Change::PutTable(changed)])?;
            if restart {
                let owned: Vec<Arc<colibri_catalog::Sequence>> = self
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
        for table in &tables {
            let table = self.current(table.id)?;
            self.fire_truncate(&table, TriggerTime::After)?;
        }
        Ok(())
    }
}

fn last_part(name: &ast::ObjectName) -> Result<CompactString> {
    Ok(fold(name_parts(name)?.last().ok_or_else(|| Error::internal("a name has no parts"))?))
}

impl Session {
    fn required_by_constraint(&self, table: &Table, name: &str) -> Error {
        let of = self.described_table(table);
        let index = self.shown(&table.schema, name);
        let message = format!("cannot drop index {index} because constraint {name} on {of} requires it");
        Error::new(SqlState::DEPENDENT_OBJECTS, message)
            .hint(format!("You can drop constraint {name} on {of} instead."))
    }
}
