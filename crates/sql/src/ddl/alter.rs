//! ALTER.

use std::collections::HashSet;
use std::sync::Arc;

use colibri_catalog::{Change, Check, ForeignKey, Relation, ReplicaIdentity, Sequence, Table, store_error::InSql as _};
use colibri_syntax::tree::IdentityChange;
use colibri_syntax::tree::ViewChange;
use colibri_txn::SpaceId;
use colibri_types::{Error, Result, SqlState, Type, cast::CastContext};
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation};

use super::constraint::{column_constraint, has_constraint};
use super::create::{Draft, refuse_system_column};
use super::drop::Cascade;
use super::renamed::Renamed;
use super::{Session, identity, storage, whole};
use crate::bind::{self, fold};
use crate::exec::constraints::validate;
use crate::expr::Expr;
use crate::session::Severity;

/// What a change of a table does to its rows.
enum Work {
    /// Nothing.
    None,
    /// All rows are written anew, each of the new columns from these expressions over the old row.
    Rewrite(Vec<Expr>),
}

fn no_such_column(table: &Table, name: &str) -> Error {
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
    Error::new(SqlState::NO_SUCH_COLUMN, message)
}

/// System columns exist in PostgreSQL, but cannot be changed.
fn no_column_to_alter(table: &Table, name: &str) -> Error {
    match refuse_system_column(name) {
        Ok(()) => no_such_column(table, name),
        Err(_) => Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot alter system column \"{name}\"")),
    }
}

/// The order of the actions of ALTER TABLE: drops come first, so that new objects can have the old
/// names; properties of a column come after changes of its type. Actions of the same rank run in
/// the order in which they are written.
fn rank(operation: &AlterTableOperation) -> u8 {
    match operation {
        AlterTableOperation::DropColumn { .. } | AlterTableOperation::DropConstraint { .. } => 0,
        AlterTableOperation::AlterColumn { op, .. } => match op {
            AlterColumnOperation::DropNotNull | AlterColumnOperation::DropDefault => 0,
            AlterColumnOperation::SetDataType { .. } => 1,
            AlterColumnOperation::SetNotNull => 3,
            AlterColumnOperation::SetDefault { .. } => 5,
            AlterColumnOperation::AddGenerated { sequence_options, .. } => {
                match identity::change_of(sequence_options.as_deref()) {
                    Ok(IdentityChange::Drop { .. }) => 0,
                    Ok(IdentityChange::Add { .. }) => 5,
                    _ => 6,
                }
            }
        },
        AlterTableOperation::AddColumn { .. } => 2,
        AlterTableOperation::AddConstraint { constraint, .. } => match constraint {
            ast::TableConstraint::PrimaryKey(_)
            | ast::TableConstraint::Unique(_)
            | ast::TableConstraint::Exclude(_) => 4,
            _ => 5,
        },
        _ => 6,
    }
}

/// What a change of a table is if it is one of a view.
fn change_of_view(operation: &AlterTableOperation) -> Option<ViewChange> {
    match operation {
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            Some(ViewChange::RenameColumn { column: fold(old_column_name), to: fold(new_column_name) })
        }
        AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDefault { value } } => {
            Some(ViewChange::SetDefault { column: fold(column_name), value: Box::new(value.clone()) })
        }
        AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::DropDefault } => {
            Some(ViewChange::DropDefault { column: fold(column_name) })
        }
        _ => None,
    }
}

impl Session {
    pub(super) fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<()> {
        whole::alter_table(alter)?;
        if alter.table_type.is_none()
            && let [operation] = &alter.operations[..]
            && let Some(Relation::View(view)) = self.find_relation(&alter.name)?
            && !view.materialized
            && let Some(change) = change_of_view(operation)
        {
            return self.alter_view(&[view.schema.clone(), view.name.clone()], false, &change);
        }
        // What is wrong with a text comes before what is not there.
        for operation in &alter.operations {
            if let AlterTableOperation::AlterColumn { op, .. } = operation
                && let AlterColumnOperation::AddGenerated { sequence_options, .. } = op
                && let Some(text) = identity::text_of(sequence_options.as_deref())?
                && !storage::is_of_column(text)
            {
                identity::change_of(sequence_options.as_deref())?;
            }
        }
        if alter.if_exists && self.find_relation(&alter.name)?.is_none() {
            let (_, name) = bind::qualified(&alter.name)?;
            self.notice_missing("relation", &name);
            return Ok(());
        }
        // Columns are renamed whatever relation it is, as in PostgreSQL.
        let renames = matches!(alter.operations[..], [AlterTableOperation::RenameColumn { .. }]);
        if alter.table_type.is_some()
            && !renames
            && let Some(found) = self.find_relation(&alter.name)?
            && found.kind() != "materialized view"
        {
            let (_, name) = bind::qualified(&alter.name)?;
            let message = format!("\"{name}\" is not a materialized view");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let mut operations: Vec<&AlterTableOperation> = alter.operations.iter().collect();
        operations.sort_by_key(|operation| rank(operation));
        // What rows may be written in: the space they are in, and how many generations it had.
        let mut written = None;
        for operation in operations {
            let table = self.find_table(&alter.name)?;
            let is_renamed = matches!(
                operation,
                AlterTableOperation::RenameColumn { .. } | AlterTableOperation::RenameConstraint { .. }
            );
            if !is_renamed {
                self.expect_not_in_use(&table, "ALTER TABLE")?;
            }
            let (space, generations) = *written.get_or_insert((table.space, table.generations.len()));
            self.expect_alterable_partition(&table, operation, alter.only)?;
            self.expect_alterable_heir(&table, operation, alter.only)?;
            self.alter_one(&table, operation)?;
            self.alter_partitions(&table, operation, alter.only)?;
            self.alter_heirs(&table, operation, alter.only)?;
            let changed = self.current(table.id)?;
            if changed.space != space {
                written = Some((changed.space, changed.generations.len()));
            } else {
                self.forget_generations(&changed, generations)?;
            }
        }
        Ok(())
    }

    /// Leaves out the generations that only this statement knows, and has written no row in, but
    /// for the newest.
    ///
    /// Bug: each column of one ALTER TABLE left a generation of rows behind. Consequence: the list
    /// of their columns grew with the third power of the columns added, and 800 took 13 seconds.
    /// Fix: no row can be of those between the first and the last.
    fn forget_generations(&mut self, table: &Table, written: usize) -> Result<()> {
        if table.generations.len() <= written + 1 {
            return Ok(());
        }
        let mut changed = table.clone();
        let newest = changed.generations.pop();
        changed.generations.truncate(written);
        changed.generations.extend(newest);
        changed.renew_layout();
        self.change(vec![Change::PutTable(changed)])
    }

    pub(crate) fn rename_relation(&mut self, name: &ast::ObjectName, to: &ast::ObjectName) -> Result<()> {
        let (_, to) = bind::qualified(to)?;
        let found = self.find_relation(name)?.ok_or_else(|| bind::no_such_relation(name))?;
        self.expect_owner_of(&found)?;
        let free = |session: &Self, schema: &str| session.expect_free(schema, &to);
        match found {
            Relation::Table(table) => {
                self.lock_table(&table)?;
                free(self, &table.schema)?;
                let renamed = Renamed::Relation(&to);
                let views = self.views_with_renamed(table.id, (&table.schema, &table.name), &renamed)?;
                let rules = self.rules_with_renamed(table.id, (&table.schema, &table.name), &renamed, None)?;
                let mut changed = (*table).clone();
                changed.name = to.clone();
                let mut changes = self.view_of(&changed);
                changes.push(Change::PutTable(changed));
                changes.extend(rules.iter().cloned().map(Change::PutRule));
                self.change_with_views(views, changes, "renaming a table")?;
                self.expect_rules_bound(&rules, "renaming a table")
            }
            Relation::View(view) => {
                free(self, &view.schema)?;
                let renamed = Renamed::Relation(&to);
                let views = self.views_with_renamed(view.id, (&view.schema, &view.name), &renamed)?;
                let rules = self.rules_with_renamed(view.id, (&view.schema, &view.name), &renamed, None)?;
                let mut changed = (*view).clone();
                changed.name = to.clone();
                let mut changes = vec![Change::PutView(changed)];
                changes.extend(rules.iter().cloned().map(Change::PutRule));
                self.change_with_views(views, changes, "renaming a view")?;
                self.expect_rules_bound(&rules, "renaming a view")
            }
            Relation::Sequence(sequence) => {
                free(self, &sequence.schema)?;
                self.rename_sequence(&sequence, (&sequence.schema, &to))
            }
            Relation::Index(table, index) => self.rename_index(table, &index.name, &to),
            Relation::PrimaryKey(table) => {
                let name = self
                    .catalog()
                    .table(table)
                    .and_then(|table| table.primary_key.as_ref())
                    .map(|key| key.name.clone());
                self.rename_index(table, &name.unwrap_or_default(), &to)
            }
        }
    }

    pub(super) fn rename_sequence(&mut self, sequence: &colibri_catalog::Sequence, to: (&str, &str)) -> Result<()> {
        let mut changed = sequence.clone();
        (changed.schema, changed.name) = (to.0.into(), to.1.into());
        let mut changes = vec![Change::PutSequence(changed)];
        // Defaults contain the sequence's name, those of domains as well.
        changes.extend(self.domains_with_sequence_renamed(sequence, to));
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        for table in tables {
            let mut renamed = None;
            for (at, column) in table.columns.iter().enumerate() {
                if let Some(default) = &column.default
                    && let Some(default) = bind::stored::with_sequence_renamed(default, sequence, to)
                {
                    renamed.get_or_insert_with(|| (*table).clone()).columns[at].default = Some(default);
                }
            }
            if let Some(renamed) = renamed {
                self.lock_table(&table)?;
                changes.push(Change::PutTable(renamed));
            }
        }
        self.change(changes)
    }

    fn rename_index(&mut self, table: u32, from: &str, to: &str) -> Result<()> {
        let table = self.catalog().table(table).cloned().ok_or_else(|| Error::internal("an index has no table"))?;
        self.lock_table(&table)?;
        self.expect_free(&table.schema, to)?;
        let mut changed = (*table).clone();
        for index in &mut changed.indexes {
            if index.name == from {
                Arc::make_mut(index).name = to.into();
            }
        }
        if let Some(key) = &mut changed.primary_key
            && key.name == from
        {
            key.name = to.into();
        }
        self.change(vec![Change::PutTable(changed)])
    }

    pub(super) fn alter_one(&mut self, table: &Arc<Table>, operation: &AlterTableOperation) -> Result<()> {
        self.expect_alterable(table, operation)?;
        let mut draft = self.draft(table);
        match operation {
            AlterTableOperation::AddColumn { column_keyword: _, if_not_exists, column_def, column_position } => {
                if column_position.is_some() {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: a column comes last"));
                }
                let name = fold(&column_def.name);
                if *if_not_exists && table.column(&name).is_some() {
                    let message = format!("column \"{name}\" of relation \"{}\" already exists, skipping", table.name);
                    self.notice(Severity::Notice, SqlState::DUPLICATE_COLUMN, message);
                    return Ok(());
                }
                self.add_column(table, draft, column_def)
            }
            AlterTableOperation::DropColumn { has_column_keyword: _, column_names, if_exists, drop_behavior } => {
                let mut cascade = Cascade::new(*drop_behavior == Some(ast::DropBehavior::Cascade));
                for name in column_names {
                    self.drop_column(&table.id, &fold(name), *if_exists, &mut cascade)?;
                }
                self.tell_cascade(cascade);
                Ok(())
            }
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                self.add_constraint_to(&mut draft, constraint)?;
                if *not_valid {
                    draft.table.checks[table.checks.len()..].iter_mut().for_each(|check| check.not_valid = true);
                    draft.table.foreign_keys[table.foreign_keys.len()..]
                        .iter_mut()
                        .for_each(|key| key.not_valid = true);
                }
                self.finish_constraint(table, draft)
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let name = fold(name);
                if !has_constraint(table, &name) {
                    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
                    if *if_exists {
                        self.notice_skipped(&message);
                        return Ok(());
                    }
                    return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                }
                let mut cascade = Cascade::new(*drop_behavior == Some(ast::DropBehavior::Cascade));
                self.drop_constraint(table, &name, &mut cascade)?;
                self.tell_cascade(cascade);
                Ok(())
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(table, &fold(old_column_name), &fold(new_column_name))
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(table, &fold(old_name), &fold(new_name))
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = fold(column_name);
                let place = table.column(&name).ok_or_else(|| no_column_to_alter(table, &name))?;
                self.alter_column(table, draft, place, op)
            }
            // OWNER TO as the only action is a statement of its own: see `admin`.
            AlterTableOperation::OwnerTo { .. } => Err(Error::unsupported("OWNER TO together with other changes")),
            AlterTableOperation::ReplicaIdentity { identity } => {
                let replica_identity = match identity {
                    ast::ReplicaIdentity::Nothing => ReplicaIdentity::Nothing,
                    ast::ReplicaIdentity::Full => ReplicaIdentity::Full,
                    ast::ReplicaIdentity::Default => ReplicaIdentity::Default,
                    ast::ReplicaIdentity::Index(index) => {
                        ReplicaIdentity::Index(self.replica_index(table, &fold(index))?)
                    }
                };
                self.change(vec![Change::PutTable(Table { replica_identity, ..draft.table })])
            }
            AlterTableOperation::SetOptionsParens { options } => self.set_table_options(draft, options),
            AlterTableOperation::SetTblProperties { table_properties } => {
                self.reset_table_options(draft, table_properties)
            }
            AlterTableOperation::EnableRowLevelSecurity => self.set_row_security(draft, |it| it.enabled = true),
            AlterTableOperation::DisableRowLevelSecurity => self.set_row_security(draft, |it| it.enabled = false),
            AlterTableOperation::ForceRowLevelSecurity => self.set_row_security(draft, |it| it.forced = true),
            AlterTableOperation::NoForceRowLevelSecurity => self.set_row_security(draft, |it| it.forced = false),
            AlterTableOperation::SetLogged | AlterTableOperation::SetUnlogged => Ok(()),
            AlterTableOperation::ValidateConstraint { name } => self.validate_constraint(table, draft, &fold(name)),
            AlterTableOperation::ModifyColumn { .. } | AlterTableOperation::ChangeColumn { .. } => {
                Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: ALTER COLUMN … TYPE changes a column"))
            }
            other => Err(Error::unsupported(format_args!("ALTER TABLE {other}"))),
        }
    }

    fn add_column(&mut self, table: &Arc<Table>, mut draft: Draft, definition: &ast::ColumnDef) -> Result<()> {
        let name = fold(&definition.name);
        if table.column(&name).is_some() {
            let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        self.add_column_to(&mut draft, definition)?;
        self.check_put_off(&mut draft)?;
        self.check_generated(&draft.table)?;
        let place = draft.table.columns.len() - 1;
        let sequences = std::mem::take(&mut draft.sequences);
        if !sequences.is_empty() {
            self.put_sequences(sequences, Vec::new())?;
        }
        // The value that existing rows get. A constant is stored in the catalogue; anything else is
        // written into each row.
        let mut work = Work::None;
        if let Some(text) = draft.table.columns[place].generated.clone() {
            let bound = self.with_binder("", |binder| binder.generated_expr(&text, &draft.table, place))?;
            let mut map: Vec<Expr> = (0..place).map(Expr::Column).collect();
            map.push(bound);
            work = Work::Rewrite(map);
        }
        if let Some(default) = draft.table.columns[place].default.clone() {
            let column = &draft.table.columns[place];
            let ty = column.ty;
            let mut bound = self.with_binder("", |binder| binder.default_expr(&default, &column.name, ty))?;
            if ty.domain.is_some() && self.row_count(table)? == 0 {
                // No row has it, so nothing is refused.
                bound = self.with_binder("", |binder| binder.default_expr(&default, "", ty.base()))?;
            }
            work = self.fill_column(&mut draft.table, place, bound)?;
        }
        if matches!(work, Work::None) {
            work = self.fill_domain_column(table, &mut draft.table, place)?;
        }
        let not_null = std::mem::take(&mut draft.table.columns[place].not_null);
        let has_value = draft.table.columns[place].missing.is_some() || matches!(work, Work::Rewrite(_));
        draft.table.renew_generation();
        if not_null {
            draft.table.columns[place].not_null = true;
            if !has_value && self.row_count(table)? > 0 {
                let message = format!(
                    "column \"{}\" of relation \"{}\" contains null values",
                    draft.table.columns[place].name, table.name
                );
                return Err(Error::new(SqlState::NOT_NULL_VIOLATION, message).about(
                    &table.schema,
                    &table.name,
                    Some(&draft.table.columns[place].name),
                    None,
                ));
            }
        }
        self.put_changed(table, draft.table, work)?;
        // The constraints of the column definition are added one by one.
        for option in &definition.options {
            if let Some(constraint) = column_constraint(definition, option)? {
                let current = self.current(table.id)?;
                let mut draft = self.draft(&current);
                self.add_constraint_to(&mut draft, &constraint)?;
                self.finish_constraint(&current, draft)?;
            }
        }
        Ok(())
    }

    /// What rows have in a new column of a domain for which the column says nothing itself: the
    /// domain's default, or NULL, which the domain may refuse. Without rows nothing is looked at.
    fn fill_domain_column(&mut self, old: &Arc<Table>, new: &mut Table, place: usize) -> Result<Work> {
        let column = &new.columns[place];
        if column.ty.domain.is_none() || column.generated.is_some() || column.missing.is_some() {
            return Ok(Work::None);
        }
        if column.default.is_some() || self.row_count(old)? == 0 {
            return Ok(Work::None);
        }
        let bound = self.with_binder("", |binder| binder.column_default(new, place))?;
        self.fill_column(new, place, bound)
    }

    /// Gives the rows that there are their value of a new column: one that is the same for all is
    /// kept by the table, others are written into each row.
    ///
    /// Bug: the default of a domain was always taken to be the same for all. Consequence: all rows
    /// got one number of a sequence, one random value. Fix: this is for defaults of either kind.
    fn fill_column(&mut self, new: &mut Table, place: usize, bound: Expr) -> Result<Work> {
        if !bind::rewrite::is_pure(&bound) || bind::rewrite::is_volatile(&bound) {
            let mut map: Vec<Expr> = (0..place).map(Expr::Column).collect();
            map.push(bound);
            return Ok(Work::Rewrite(map));
        }
        let value = self.evaluate(bound)?;
        if !value.is_null() {
            let mut text = String::new();
            colibri_types::text_io::write(new.columns[place].ty.ty, &value, self.env(), &mut text);
            new.columns[place].missing = Some(text);
        }
        Ok(Work::None)
    }

    pub(super) fn current(&self, id: u32) -> Result<Arc<Table>> {
        self.catalog().table(id).cloned().ok_or_else(|| Error::internal("a table vanished while it was changed"))
    }

    fn row_count(&mut self, table: &Table) -> Result<u64> {
        let (_, txn) = self.catalog_and_txn()?;
        txn.count(&table.space(), &colibri_catalog::record::whole_range()).in_sql()
    }

    /// Gives a table and its indexes the numbers of spaces that are not made yet.
    fn renew_spaces(&mut self, table: &mut Table) -> Result<()> {
        table.space = self.new_id_in(&table.schema)?;
        for index in &mut table.indexes {
            let id = self.new_id_in(&table.schema)?;
            Arc::make_mut(index).space = id;
        }
        Ok(())
    }

    /// Gives a changed table, and its indexes, new and empty spaces in the place of those of the old
    /// one.
    pub(super) fn replace_spaces(&mut self, old: &Table, changed: &mut Table) -> Result<()> {
        self.renew_spaces(changed)?;
        let (_, txn) = self.catalog_and_txn()?;
        txn.create_space(SpaceId(changed.space)).in_sql()?;
        txn.drop_space(SpaceId(old.space)).in_sql()?;
        for (new, old) in changed.indexes.iter().zip(&old.indexes) {
            txn.create_space(SpaceId(new.space)).in_sql()?;
            txn.drop_space(SpaceId(old.space)).in_sql()?;
        }
        Ok(())
    }

    /// Puts a changed table into the catalogue, its rows written anew if need be.
    fn put_changed(&mut self, old: &Arc<Table>, mut new: Table, work: Work) -> Result<()> {
        let Work::Rewrite(map) = work else {
            new.renew_generation();
            return self.change(vec![Change::PutTable(new)]);
        };
        self.renew_spaces(&mut new)?;
        new.generations.clear();
        new.renew_generation();
        // Rewritten rows have all columns, so no stored defaults are needed.
        for column in &mut new.columns {
            column.missing = None;
        }
        let shared = Arc::new(new.clone());
        let expressions = self.with_binder("", |binder| binder.index_expressions(&shared))?;
        self.with_context(|txn, cx| {
            // Before rows are written: tables without a primary key read the last row's number from
            // the space.
            txn.create_space(SpaceId(new.space)).in_sql()?;
            validate::rewrite_table(txn, cx, old, &new, (&map, &expressions))?;
            txn.drop_space(SpaceId(old.space)).in_sql()?;
            for index in &old.indexes {
                if new.indexes.iter().all(|kept| kept.space != index.space) {
                    txn.drop_space(SpaceId(index.space)).in_sql()?;
                }
            }
            Ok(())
        })?;
        self.change(vec![Change::PutTable(new)])
    }

    /// Checks a new constraint against the existing rows, and puts the table with it into the
    /// catalogue.
    pub(super) fn finish_constraint(&mut self, table: &Arc<Table>, draft: Draft) -> Result<()> {
        let mut new = draft.table;
        if new.primary_key.is_some() && table.primary_key.is_none() {
            for &column in new.key_columns().to_vec().iter() {
                self.with_context(|txn, cx| validate::validate_not_null(txn, cx, table, column))?;
            }
            let map = (0..new.columns.len()).map(Expr::Column).collect();
            return self.put_changed(table, new, Work::Rewrite(map));
        }
        let added: Vec<_> = new.indexes.iter().skip(table.indexes.len()).cloned().collect();
        for index in &added {
            if index.is_exclusion() {
                // Its expressions are columns of the new table.
                let mut with_expressions = (**table).clone();
                with_expressions.columns = new.columns.clone();
                with_expressions.renew_layout();
                self.build_index(&Arc::new(with_expressions), index)?;
                continue;
            }
            self.build_index(table, index)?;
        }
        for check in new.checks[table.checks.len()..].iter().filter(|check| !check.not_valid) {
            self.check_rows(table, check)?;
        }
        new.renew_layout();
        let shared = Arc::new(new.clone());
        for key in new.foreign_keys[table.foreign_keys.len()..].iter().filter(|key| !key.not_valid) {
            self.check_references(table, &shared, key)?;
        }
        self.change(vec![Change::PutTable(new)])
    }

    pub(super) fn check_rows(&mut self, table: &Arc<Table>, check: &Check) -> Result<()> {
        let condition = self.with_binder("", |binder| binder.check_expr(&check.condition, table))?;
        self.with_context(|txn, cx| validate::validate_check(txn, cx, table, &check.name, &condition))
    }

    /// Holds the rows of a table against a foreign key that the table as it will be has.
    pub(super) fn check_references(&mut self, table: &Arc<Table>, new: &Arc<Table>, key: &ForeignKey) -> Result<()> {
        let rule = self.with_binder("", |binder| binder.foreign_key_rule(new, key))?;
        self.with_context(|txn, cx| validate::validate_foreign_key(txn, cx, table, &rule))
    }

    /// `VALIDATE CONSTRAINT`: the rows that were there before a NOT VALID constraint are checked.
    fn validate_constraint(&mut self, table: &Arc<Table>, mut draft: Draft, name: &str) -> Result<()> {
        if let Some(at) = table.checks.iter().position(|check| check.name == name) {
            if !table.checks[at].not_valid {
                return Ok(());
            }
            self.check_rows(table, &table.checks[at])?;
            draft.table.checks[at].not_valid = false;
        } else if let Some(at) = table.foreign_keys.iter().position(|key| key.name == name) {
            if !table.foreign_keys[at].not_valid {
                return Ok(());
            }
            self.check_references(table, table, &table.foreign_keys[at])?;
            draft.table.foreign_keys[at].not_valid = false;
        } else if has_constraint(table, name) {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                table.name
            );
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        } else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
        }
        draft.table.renew_layout();
        self.change(vec![Change::PutTable(draft.table)])
    }

    /// Foreign keys of other tables that refer to a key of this one.
    fn referring(&self, table: &Table, columns: &[usize]) -> Vec<(Arc<Table>, compact_str::CompactString)> {
        let same =
            |target: &[usize]| target.len() == columns.len() && target.iter().all(|column| columns.contains(column));
        self.catalog()
            .referring_to(table.id)
            .flat_map(|source| {
                let keys = source.foreign_keys.iter().filter(|key| key.target == table.id && same(&key.target_columns));
                keys.map(|key| (Arc::clone(source), key.name.clone())).collect::<Vec<_>>()
            })
            .collect()
    }

    pub(super) fn drop_constraint(&mut self, table: &Arc<Table>, name: &str, cascade: &mut Cascade) -> Result<()> {
        let key_columns = match &table.primary_key {
            Some(key) if key.name == name => Some(key.columns.clone()),
            _ => table
                .indexes
                .iter()
                .find(|index| index.constraint && index.name == name)
                .map(|index| index.columns.iter().map(|column| column.column).collect()),
        };
        if let Some(columns) = key_columns {
            let others = bind::unique_on(table, &columns).len() > 1;
            let referring = if others { Vec::new() } else { self.referring(table, &columns) };
            if !referring.is_empty() && !cascade.allows() {
                let of = self.described_table(table);
                let message = format!("cannot drop constraint {name} on {of} because other objects depend on it");
                let constraints = referring.iter().map(|(source, key)| self.described_constraint(key, source));
                let details: Vec<String> = constraints.map(|key| format!("{key} depends on index {name}")).collect();
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                    .detail(details.join("\n"))
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            for (source, key) in referring {
                let source = self.current(source.id)?;
                if source.id != table.id {
                    cascade.takes(self.described_constraint(&key, &source));
                }
                self.lock_table(&source)?;
                let mut changed = (*source).clone();
                changed.foreign_keys.retain(|other| other.name != key);
                self.change(vec![Change::PutTable(changed)])?;
            }
        }
        let table = &self.current(table.id)?;
        let mut changed = (**table).clone();
        changed.checks.retain(|check| check.name != name);
        changed.foreign_keys.retain(|key| key.name != name);
        if let Some(at) = changed.indexes.iter().position(|index| index.constraint && index.name == name) {
            let index = changed.remove_index(at);
            let (_, txn) = self.catalog_and_txn()?;
            txn.drop_space(SpaceId(index.space)).in_sql()?;
        }
        if changed.primary_key.as_ref().is_some_and(|key| key.name == name) {
            // Rows are stored in the order of the primary key. Without it they get numbers.
            changed.primary_key = None;
            let map = (0..changed.columns.len()).map(Expr::Column).collect();
            self.put_changed(table, changed, Work::Rewrite(map))?;
            return self.drop_views_that_need_key(table, name, cascade);
        }
        self.change(vec![Change::PutTable(changed)])
    }

    /// A view that groups by a primary key may select other columns, as the key determines them.
    /// Without the key its query is an error.
    fn drop_views_that_need_key(&mut self, table: &Table, name: &str, cascade: &mut Cascade) -> Result<()> {
        let views: Vec<_> = self.catalog().views().filter(|view| view.reads.contains(&table.id)).cloned().collect();
        for view in views {
            match self.with_binder("", |binder| binder.view(&view).map(|_| ())) {
                Err(error) if error.state() == SqlState::GROUPING_ERROR => {}
                _ => continue,
            }
            if !cascade.allows() {
                let of = self.described_table(table);
                let message = format!("cannot drop constraint {name} on {of} because other objects depend on it");
                let detail = format!("{} depends on constraint {name} on {of}", self.described_view(&view));
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                    .detail(detail)
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            if self.catalog().views().any(|other| other.id == view.id) {
                cascade.takes(self.described_view(&view));
                self.drop_view(&view, cascade, &[])?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_column(&mut self, id: &u32, name: &str, if_exists: bool, cascade: &mut Cascade) -> Result<()> {
        let table = self.current(*id)?;
        let Some(place) = table.column(name) else {
            let error = no_such_column(&table, name);
            if !if_exists {
                return Err(error);
            }
            self.notice_skipped(&error.report().message);
            return Ok(());
        };
        let mut generated = self.generated_of(&table, place)?;
        if cascade.allows() && !generated.is_empty() {
            for name in generated.drain(..) {
                cascade.takes(format!(
                    "column {} of {}",
                    crate::system::names::quoted(&name),
                    self.described_table(&table)
                ));
                self.drop_column(id, &name, true, cascade)?;
            }
        }
        let table = self.current(*id)?;
        // A view that does not use the column is unaffected, unless it reads a view that does.
        let mut taken = HashSet::new();
        let mut views = Vec::new();
        for reader in self.readers_of(table.id) {
            let view = reader.view;
            if mentions(&view.query, name) || view.reads.iter().any(|read| taken.contains(read)) {
                taken.insert(view.id);
                views.push((view, reader.reads));
            }
        }
        let owned: Vec<Arc<Sequence>> = self
            .catalog()
            .sequences()
            .filter(|sequence| sequence.owned_by == Some((table.id, place)))
            .cloned()
            .collect();
        let mut details: Vec<String> = Vec::new();
        let mut defaults = Vec::new();
        for sequence in &owned {
            let described = self.described(&Relation::Sequence(Arc::clone(sequence)));
            for (user, default) in self.defaults_of(sequence) {
                if user != (table.id, place) {
                    details.push(format!("{default} depends on {described}"));
                    defaults.push(default);
                }
            }
            for (what, on) in self.types_told(sequence, &[])? {
                details.push(format!("{what} depends on {on}"));
                defaults.push(what);
            }
        }
        let on = format!("column {name} of {}", self.described_table(&table));
        for (view, reads) in &views {
            let other = views.iter().find(|(other, _)| other.id == *reads);
            let on = other.map_or_else(|| on.clone(), |(other, _)| self.described_view(other));
            details.push(format!("{} depends on {on}", self.described_view(view)));
        }
        let triggers = self.triggers_on_column(&table, place)?;
        for trigger in &triggers {
            details.push(format!("trigger {trigger} on {} depends on {on}", self.described_table(&table)));
        }
        let rules = self.rules_on_column(table.id, name);
        for rule in &rules {
            details.push(format!("{} depends on {on}", self.described_rule(rule)));
        }
        let policies = self.policies_on_column(&table, place)?;
        for policy in &policies {
            details.push(format!("policy {policy} on {} depends on {on}", self.described_table(&table)));
        }
        for generated in generated {
            details.push(format!("column {generated} of {} depends on {on}", self.described_table(&table)));
        }
        let views: Vec<_> = views.into_iter().map(|(view, _)| view).collect();
        for source in self.catalog().referring_to(table.id) {
            let is_own = |key: &&colibri_catalog::ForeignKey| source.id == table.id && key.columns.contains(&place);
            let keys = source.foreign_keys.iter().filter(|key| key.target == table.id);
            for key in keys.filter(|key| key.target_columns.contains(&place) && !is_own(key)) {
                details.push(format!("{} depends on {on}", self.described_constraint(&key.name, source)));
            }
        }
        if !cascade.allows() && !details.is_empty() {
            let message = format!("cannot drop {on} because other objects depend on it");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                .detail(details.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        defaults.into_iter().for_each(|default| cascade.takes(default));
        for rule in &rules {
            cascade.takes(self.described_rule(rule));
        }
        let statistics = self.without_statistics_on(&table, place, name);
        self.change(rules.iter().map(|rule| Change::DropRule(rule.id)).chain(statistics).collect())?;
        if !policies.is_empty() {
            let mut changed = (*table).clone();
            changed.security.policies.retain(|policy| !policies.contains(&policy.name));
            self.change(vec![Change::PutTable(changed)])?;
            for policy in policies {
                cascade.takes(format!("policy {policy} on {}", self.described_table(&table)));
            }
        }
        if !triggers.is_empty() {
            let mut changed = (*self.current(table.id)?).clone();
            changed.triggers.retain(|trigger| !triggers.contains(&trigger.name));
            self.change(vec![Change::PutTable(changed)])?;
            for trigger in triggers {
                cascade.takes(format!("trigger {trigger} on {}", self.described_table(&table)));
            }
        }
        for sequence in &owned {
            self.forget_defaults(sequence, |user, column| (user, column) == (table.id, place))?;
        }
        let mut with_views = Cascade::new(true);
        views.iter().for_each(|view| with_views.takes(self.described_view(view)));
        self.change(views.iter().rev().map(|view| Change::DropView(view.id)).collect())?;
        // Constraints with the column are dropped together with it.
        let mut names = Vec::new();
        let is_included = table.primary_key.as_ref().is_some_and(|key| key.include.contains(&place));
        if table.key_columns().contains(&place) || is_included {
            names.extend(table.primary_key.as_ref().map(|key| key.name.clone()));
        }
        let mut indexes = Vec::new();
        let expressions = self.with_binder("", |binder| binder.index_expressions(&table))?;
        for index in &table.indexes {
            if crate::plan::columns_of_index(index, &expressions).contains(&place) || index.include.contains(&place) {
                if index.constraint { names.push(index.name.clone()) } else { indexes.push(index.name.clone()) }
            }
        }
        for check in &table.checks {
            let mut used = false;
            let bound = self.with_binder("", |binder| binder.check_expr(&check.condition, &table))?;
            bind::rewrite::for_each_column(&bound, &mut |column| used = used || column == place);
            if used {
                names.push(check.name.clone());
            }
        }
        let keys = table.foreign_keys.iter().filter(|key| key.columns.contains(&place));
        names.extend(keys.map(|key| key.name.clone()));
        for constraint in names {
            let current = self.current(table.id)?;
            self.drop_constraint(&current, &constraint, cascade)?;
        }
        for index in indexes {
            self.drop_index_of(table.id, &index)?;
        }
        cascade.append(with_views);
        let mut changed = (*self.current(table.id)?).clone();
        changed.column_acls.remove(&place);
        let column = &mut changed.columns[place];
        column.dropped = true;
        column.ty = column.ty.base();
        // Rows keep what they have of it, also when the type is gone.
        column.ty.ty = match (column.ty.ty, column.ty.ty.of_user()) {
            (ty, None) => ty,
            (_, Some(Type::Composite(_))) => Type::Bytea,
            (Type::Array(_), Some(_)) => Type::Int8.array_of(),
            (_, Some(_)) => Type::Int8,
        };
        column.name = compact_str::CompactString::default();
        column.not_null = false;
        column.default = None;
        column.missing = None;
        column.identity = None;
        column.generated = None;
        column.inherited_only = false;
        changed.renew_generation();
        let mut changes = vec![Change::PutTable(changed)];
        changes.extend(owned.iter().map(|sequence| Change::DropSequence(sequence.id)));
        self.change(changes)
    }

    /// The names of the columns that are computed of another one.
    fn generated_of(&self, table: &Table, place: usize) -> Result<Vec<compact_str::CompactString>> {
        let mut found = Vec::new();
        for (at, column) in table.live_columns() {
            let Some(text) = &column.generated else { continue };
            let bound = self.with_binder("", |binder| binder.generated_expr(text, table, at))?;
            let mut is_used = false;
            bind::rewrite::for_each_column(&bound, &mut |other| is_used = is_used || other == place);
            if is_used {
                found.push(column.name.clone());
            }
        }
        Ok(found)
    }

    fn rename_column(&mut self, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
        let place = table
            .column(from)
            .ok_or_else(|| Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{from}\" does not exist")))?;
        if table.column(to).is_some() {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        refuse_system_column(to)?;
        let old = Renamed::Columns(table.live_columns().map(|(_, column)| column.name.clone()).collect());
        let views = self.views_with_renamed(table.id, (&table.schema, &table.name), &old)?;
        let rules = self.rules_with_renamed(table.id, (&table.schema, &table.name), &old, Some((from, to)))?;
        let mut changed = (**table).clone();
        changed.columns[place].name = to.into();
        for check in &mut changed.checks {
            check.condition = rename_in(&check.condition, from, to)?;
        }
        for policy in &mut changed.security.policies {
            let policy = Arc::make_mut(policy);
            for text in [&mut policy.using, &mut policy.check].into_iter().flatten() {
                *text = rename_in(text, from, to)?;
            }
        }
        for trigger in &mut changed.triggers {
            if let Some(when) = &trigger.when {
                let when = rename_in(when, from, to)?;
                Arc::make_mut(trigger).when = Some(when);
            }
        }
        for column in &mut changed.columns {
            for text in [&mut column.expression, &mut column.generated].into_iter().flatten() {
                *text = rename_in(text, from, to)?;
            }
        }
        let mut changes = self.view_of(&changed);
        changes.push(Change::PutTable(changed));
        changes.extend(rules.iter().cloned().map(Change::PutRule));
        changes.extend(self.statistics_with_renamed(table, &|text| rename_in(text, from, to))?);
        self.change_with_views(views, changes, "renaming a column")?;
        self.expect_rules_bound(&rules, "renaming a column")
    }

    fn rename_constraint(&mut self, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
        if !has_constraint(table, from) {
            let message = format!("constraint \"{from}\" for table \"{}\" does not exist", table.name);
            return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
        }
        if has_constraint(table, to) {
            let message = format!("constraint \"{to}\" for relation \"{}\" already exists", table.name);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let is_index = table.primary_key.as_ref().is_some_and(|key| key.name == from)
            || table.indexes.iter().any(|index| index.name == from);
        if is_index {
            return self.rename_index(table.id, from, to);
        }
        let mut changed = (**table).clone();
        changed.checks.iter_mut().filter(|check| check.name == from).for_each(|check| check.name = to.into());
        changed.foreign_keys.iter_mut().filter(|key| key.name == from).for_each(|key| key.name = to.into());
        self.change(vec![Change::PutTable(changed)])
    }

    fn alter_column(
        &mut self,
        table: &Arc<Table>,
        mut draft: Draft,
        place: usize,
        operation: &AlterColumnOperation,
    ) -> Result<()> {
        match operation {
            AlterColumnOperation::SetNotNull => {
                self.with_context(|txn, cx| validate::validate_not_null(txn, cx, table, place))?;
                draft.table.columns[place].not_null = true;
            }
            AlterColumnOperation::DropNotNull => {
                let column = &mut draft.table.columns[place];
                if column.identity.is_some() {
                    let message =
                        format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name);
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
                if table.key_columns().contains(&place) {
                    let message = format!("column \"{}\" is in a primary key", column.name);
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                }
                column.not_null = false;
            }
            AlterColumnOperation::SetDefault { value } => {
                let column = draft.table.columns[place].clone();
                if column.identity.is_some() {
                    let message =
                        format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name);
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
                draft.table.columns[place].default = self.checked_default(value, &column)?;
            }
            AlterColumnOperation::DropDefault => {
                let column = &mut draft.table.columns[place];
                if column.identity.is_some() {
                    let message =
                        format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name);
                    let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message).hint(hint));
                }
                column.default = None;
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                return self.alter_type(table, draft, place, data_type, using.as_ref());
            }
            AlterColumnOperation::AddGenerated { generated_as: _, sequence_options } => {
                if let Some(text) = identity::text_of(sequence_options.as_deref())?
                    && let Some(changed) = storage::changed_storage(text, &table.columns[place])
                {
                    return self.set_column_storage(draft, place, changed?);
                }
                let change = identity::change_of(sequence_options.as_deref())?;
                return self.change_identity(table, place, &change);
            }
        }
        self.change(vec![Change::PutTable(draft.table)])
    }

    fn alter_type(
        &mut self,
        table: &Arc<Table>,
        mut draft: Draft,
        place: usize,
        data_type: &ast::DataType,
        using: Option<&ast::Expr>,
    ) -> Result<()> {
        let to = self.usable_type_named(data_type)?;
        let column = table.columns[place].clone();
        let reader =
            self.catalog().views().find(|view| view.reads.contains(&table.id) && mentions(&view.query, &column.name));
        if let Some(view) = reader {
            let message = "cannot alter type of a column used by a view or rule";
            let on = self.described_view(view);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail(format!("rule _RETURN on {on} depends on column \"{}\"", column.name)));
        }
        if let Some(generated) = self.generated_of(table, place)?.first() {
            let message = "cannot alter type of a column used by a generated column";
            let detail = format!("Column \"{}\" is used by generated column \"{generated}\".", column.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
        }
        let value = self.with_binder("", |binder| match using {
            Some(using) => {
                let bound = binder.table_expr(using, table)?;
                binder.coerce(bound, to, CastContext::Assignment, sqlparser::tokenizer::Span::empty())
            }
            None => {
                let allowed = colibri_types::cast::cast_context(column.ty.ty, to.ty)
                    .is_some_and(|weakest| weakest <= CastContext::Assignment)
                    || column.ty.ty == to.ty;
                if !allowed {
                    let message = format!("column \"{}\" cannot be cast automatically to type {}", column.name, to.ty);
                    let hint = format!("You might need to specify \"USING {}::{}\".", column.name, to);
                    return Err(Error::new(SqlState::TYPE_MISMATCH, message).hint(hint));
                }
                let bound = bind::Bound::new(Expr::Column(place), column.ty);
                binder.coerce(bound, to, CastContext::Assignment, sqlparser::tokenizer::Span::empty())
            }
        })?;
        if column.identity.is_some() {
            self.alter_identity_type(table, place, to.ty)?;
        }
        let changed = &mut draft.table.columns[place];
        changed.ty = to;
        changed.collation = None;
        changed.missing = None;
        changed.storage = colibri_catalog::ColumnStorage::default();
        if let Some(default) = changed.default.clone() {
            let name = changed.name.clone();
            let casts = colibri_types::cast::cast_context(column.ty.ty, to.ty);
            if column.ty.ty != to.ty && casts.is_none_or(|weakest| weakest > CastContext::Assignment) {
                let message = format!("default for column \"{name}\" cannot be cast automatically to type {}", to.ty);
                return Err(Error::new(SqlState::TYPE_MISMATCH, message));
            }
            self.with_binder("", |binder| binder.default_expr(&default, &name, to))?;
        }
        for check in &draft.table.checks {
            self.with_binder("", |binder| binder.check_expr(&check.condition, &draft.table))?;
        }
        self.retype_expressions(&mut draft.table)?;
        let mut map: Vec<Expr> = (0..table.columns.len()).map(Expr::Column).collect();
        map[place] = value;
        self.put_changed(table, draft.table, Work::Rewrite(map))
    }

    pub(super) fn drop_index_of(&mut self, table: u32, name: &str) -> Result<()> {
        let table = self.current(table)?;
        let mut changed = (*table).clone();
        if let Some(at) = changed.indexes.iter().position(|index| index.name == name) {
            let index = changed.remove_index(at);
            let (_, txn) = self.catalog_and_txn()?;
            txn.drop_space(SpaceId(index.space)).in_sql()?;
        }
        self.change(vec![Change::PutTable(changed)])
    }
}

/// Whether a view's query may name the object. It may answer yes for a query that does not.
fn mentions(query: &str, name: &str) -> bool {
    query.contains('*') || query.to_ascii_lowercase().contains(&name.replace('"', "\"\"").to_ascii_lowercase())
}

/// Renames a column in an expression that the catalogue stores as text.
fn rename_in(text: &str, from: &str, to: &str) -> Result<String> {
    let mut expr = crate::statement::parse_expr(text)?;
    let _ = ast::visit_expressions_mut(&mut expr, |inner: &mut ast::Expr| {
        let ident = match inner {
            ast::Expr::Identifier(ident) => Some(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(ident) = ident.filter(|ident| fold(ident) == from) {
            let is_plain = crate::system::names::quoted(to) == to;
            *ident = if is_plain { ast::Ident::new(to) } else { ast::Ident::with_quote('"', to) };
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Ok(expr.to_string())
}
