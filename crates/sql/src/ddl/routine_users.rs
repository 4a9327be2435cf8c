//! What calls a routine in texts of the catalogue: what goes with it, and what is renamed with it.
//!
//! Invariant: no index, generated column, key of a partitioned table or condition of a domain calls
//! a function that is not there.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::store_error::InSql as _;
use colibri_catalog::{Change, Index, Routine, Table, UserTypeKind, View};
use colibri_txn::SpaceId;
use colibri_types::Result;
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::Cascade;
use crate::bind::stored::UNSAID_SCHEMA;

/// Something that cannot be without a routine.
pub(super) enum User {
    Index(u32, CompactString),
    Column(u32, CompactString),
    Table(u32),
    /// A condition of a domain.
    Condition(u32, CompactString),
}

/// Whether an expression calls a routine.
pub(crate) fn calls_in_expression(text: &str, routine: &Routine) -> bool {
    if !mentions(text, routine) {
        return false;
    }
    let Ok(expr) = crate::statement::parse_expr(text) else { return false };
    let mut found = false;
    _ = ast::visit_expressions(&expr, |expr| {
        found |= is_call_of(expr, routine);
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Whether a query calls a routine, in its expressions or in FROM.
pub(crate) fn calls_in_query(text: &str, routine: &Routine) -> bool {
    let Ok(query) = crate::statement::parse_query(text) else { return false };
    let mut found = false;
    _ = ast::visit_expressions(&query, |expr| {
        found |= is_call_of(expr, routine);
        ControlFlow::<()>::Continue(())
    });
    _ = ast::visit_relations(&query, |name| {
        found |= is_name_of(name, routine);
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Whether a text may name a routine. It may answer yes for one that does not.
fn mentions(text: &str, routine: &Routine) -> bool {
    text.to_ascii_lowercase().contains(routine.name.to_ascii_lowercase().as_str())
}

fn is_call_of(expr: &ast::Expr, routine: &Routine) -> bool {
    matches!(expr, ast::Expr::Function(function) if is_name_of(&function.name, routine))
}

fn is_name_of(name: &ast::ObjectName, routine: &Routine) -> bool {
    match crate::bind::qualified(name) {
        Ok((schema, name)) => {
            // What has no schema in a text of the catalogue is in this one.
            let schema = schema.unwrap_or_else(|| UNSAID_SCHEMA.into());
            schema == routine.schema && name == routine.name
        }
        Err(_) => false,
    }
}

/// The name of a routine as texts of the catalogue have it.
fn name_of(routine: &Routine) -> ast::ObjectName {
    let ident = |name: &str| match crate::system::names::quoted(name) == name {
        true => ast::Ident::new(name),
        false => ast::Ident::with_quote('"', name),
    };
    match routine.schema == UNSAID_SCHEMA {
        true => ast::ObjectName::from(vec![ident(&routine.name)]),
        false => ast::ObjectName::from(vec![ident(&routine.schema), ident(&routine.name)]),
    }
}

/// An expression with calls of a routine by its new name; `None` if it calls it nowhere.
fn renamed_expression(text: &str, old: &Routine, new: &Routine) -> Result<Option<String>> {
    if !calls_in_expression(text, old) {
        return Ok(None);
    }
    let mut expr = crate::statement::parse_expr(text)?;
    _ = ast::visit_expressions_mut(&mut expr, |inner: &mut ast::Expr| {
        if let ast::Expr::Function(function) = inner
            && is_name_of(&function.name, old)
        {
            function.name = name_of(new);
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(Some(expr.to_string()))
}

/// The same of a query.
fn renamed_query(text: &str, old: &Routine, new: &Routine) -> Result<Option<String>> {
    if !mentions(text, old) || !calls_in_query(text, old) {
        return Ok(None);
    }
    let mut query = crate::statement::parse_query(text)?;
    _ = ast::visit_expressions_mut(&mut query, |inner: &mut ast::Expr| {
        if let ast::Expr::Function(function) = inner
            && is_name_of(&function.name, old)
        {
            function.name = name_of(new);
        }
        ControlFlow::<()>::Continue(())
    });
    _ = ast::visit_relations_mut(&mut query, |name| {
        if is_name_of(name, old) {
            *name = name_of(new);
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(Some(query.to_string()))
}

impl Session {
    /// What cannot be without a routine, with what it is called in messages.
    pub(super) fn bound_to_routine(&mut self, routine: &Routine) -> Vec<(String, User)> {
        let mut users = Vec::new();
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        for table in tables {
            for (place, column) in table.columns.iter().enumerate() {
                let calls =
                    |text: &Option<String>| text.as_deref().is_some_and(|text| calls_in_expression(text, routine));
                if !column.dropped && calls(&column.generated) {
                    let described = format!("column {} of {}", column.name, self.described_table(&table));
                    users.push((described, User::Column(table.id, column.name.clone())));
                }
                if !calls(&column.expression) {
                    continue;
                }
                if table.partitioned.as_ref().is_some_and(|partitioned| partitioned.keys.contains(&place)) {
                    users.push((self.described_table(&table), User::Table(table.id)));
                }
                for index in table.indexes.iter().filter(|index| index.parent.is_none()) {
                    let is_part =
                        index.predicate == Some(place) || index.columns.iter().any(|part| part.column == place);
                    let described = format!("index {}", self.shown(&table.schema, &index.name));
                    if is_part && !users.iter().any(|(known, _)| *known == described) {
                        users.push((described, User::Index(table.id, index.name.clone())));
                    }
                }
            }
        }
        for ty in self.catalog().types() {
            let UserTypeKind::Domain(domain) = &ty.kind else { continue };
            for check in domain.checks.iter().filter(|check| calls_in_expression(&check.condition, routine)) {
                users.push((format!("constraint {}", check.name), User::Condition(ty.id, check.name.clone())));
            }
        }
        users
    }

    /// Drops what cannot be without a routine.
    pub(super) fn drop_bound(&mut self, user: User) -> Result<()> {
        let mut quiet = Cascade::new(true);
        match user {
            User::Index(table, name) => {
                let Some(known) = self.catalog().table(table).cloned() else { return Ok(()) };
                self.lock_table(&known)?;
                if let Some(index) = known.indexes.iter().find(|index| index.name == name) {
                    self.drop_index_parts(table, index.id)?;
                }
                self.drop_index_of(table, &name)
            }
            User::Column(table, name) if self.catalog().table(table).is_some() => {
                self.drop_column(&table, &name, true, &mut quiet)
            }
            User::Table(table) => self.drop_table(table, &mut quiet, &[]),
            User::Condition(domain, name) => {
                let Some(known) = self.catalog().types().find(|ty| ty.id == domain).cloned() else {
                    return Ok(());
                };
                let mut changed = (*known).clone();
                if let UserTypeKind::Domain(domain) = &mut changed.kind {
                    domain.checks.retain(|check| check.name != name);
                }
                self.change(vec![Change::PutType(changed)])
            }
            User::Column(..) => Ok(()),
        }
    }

    /// Makes the indexes anew that call a routine, which is another one now: what it gave for their
    /// entries may not be what it gives for the same rows from now on.
    pub(super) fn renew_indexes_of(&mut self, routine: &Routine) -> Result<()> {
        for (_, user) in self.bound_to_routine(routine) {
            let User::Index(table, name) = user else { continue };
            let Some(root) = self.catalog().table(table).cloned() else { continue };
            let Some(index) = root.indexes.iter().find(|index| index.name == name).map(|index| index.id) else {
                continue;
            };
            for part in self.catalog().partition_tree(table) {
                self.renew_index(part, index)?;
            }
        }
        Ok(())
    }

    /// The same of one table: an index, or its part in it.
    fn renew_index(&mut self, table: u32, index: u32) -> Result<()> {
        let table = self.current(table)?;
        if table.partitioned.is_some() {
            return Ok(());
        }
        self.lock_table(&table)?;
        let is_meant = |known: &&Arc<Index>| known.id == index || known.parent == Some(index);
        let Some(known) = table.indexes.iter().find(is_meant).cloned() else { return Ok(()) };
        let renewed = Index { space: self.new_id()?, ..(*known).clone() };
        let (_, txn) = self.catalog_and_txn()?;
        txn.drop_space(SpaceId(known.space)).in_sql()?;
        self.build_index(&table, &renewed)?;
        let mut changed = (*table).clone();
        for own in changed.indexes.iter_mut().filter(|own| own.id == known.id) {
            *own = Arc::new(renewed.clone());
        }
        self.change(vec![Change::PutTable(changed)])
    }

    /// What changes in the catalogue's texts when a routine gets another name or schema.
    pub(super) fn renamed_in_texts(&self, old: &Routine, new: &Routine) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for table in self.catalog().tables() {
            let mut changed: Option<Table> = None;
            for (place, column) in table.columns.iter().enumerate() {
                for (which, text) in [&column.default, &column.generated, &column.expression].into_iter().enumerate() {
                    let Some(text) = text else { continue };
                    let Some(renamed) = renamed_expression(text, old, new)? else { continue };
                    let column = &mut changed.get_or_insert_with(|| (**table).clone()).columns[place];
                    let text = match which {
                        0 => &mut column.default,
                        1 => &mut column.generated,
                        _ => &mut column.expression,
                    };
                    *text = Some(renamed);
                }
            }
            for (place, check) in table.checks.iter().enumerate() {
                if let Some(renamed) = renamed_expression(&check.condition, old, new)? {
                    changed.get_or_insert_with(|| (**table).clone()).checks[place].condition = renamed;
                }
            }
            for (place, trigger) in table.triggers.iter().enumerate() {
                if let Some(when) = &trigger.when
                    && let Some(renamed) = renamed_expression(when, old, new)?
                {
                    let triggers = &mut changed.get_or_insert_with(|| (**table).clone()).triggers;
                    Arc::make_mut(&mut triggers[place]).when = Some(renamed);
                }
            }
            changes.extend(changed.map(Change::PutTable));
        }
        for view in self.catalog().views() {
            if let Some(query) = renamed_query(&view.query, old, new)? {
                changes.push(Change::PutView(View { query, ..(**view).clone() }));
            }
        }
        for ty in self.catalog().types() {
            let UserTypeKind::Domain(domain) = &ty.kind else { continue };
            let mut domain = domain.clone();
            let mut is_changed = false;
            for check in &mut domain.checks {
                if let Some(renamed) = renamed_expression(&check.condition, old, new)? {
                    (check.condition, is_changed) = (renamed, true);
                }
            }
            if is_changed {
                let mut changed = (**ty).clone();
                changed.kind = UserTypeKind::Domain(domain);
                changes.push(Change::PutType(changed));
            }
        }
        let quote = colibri_types::functions::quote_identifier;
        let written = |routine: &Routine| format!("{}.{}", quote(&routine.schema), quote(&routine.name));
        for aggregate in self.aggregates_of(old) {
            let mut changed = (*aggregate).clone();
            if let Some(parts) = &mut changed.aggregate {
                if parts.transition == written(old) {
                    parts.transition = written(new);
                }
                if parts.finish.as_ref() == Some(&written(old)) {
                    parts.finish = Some(written(new));
                }
            }
            changes.push(Change::PutRoutine(changed));
        }
        Ok(changes)
    }
}
