//! CREATE VIEW.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, ObjectId, Relation, View};
use colibri_syntax::tree::ViewChange;
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::create::duplicate_column;
use super::renamed::Renamed;
use super::storage;
use crate::bind::{Writing, fold, logical, name_parts};
use crate::session::Severity;

impl Session {
    pub(super) fn create_view(&mut self, create: &ast::CreateView) -> Result<()> {
        super::whole::create_view(create)?;
        let recursive;
        let create_query = if create.secure {
            recursive = recursive_query(create)?;
            &recursive
        } else {
            &*create.query
        };
        let temporary = self.reads_temporary(create_query)?;
        let (schema, name) = self.new_name_of(&create.name, create.temporary || temporary)?;
        if temporary && !create.temporary && !self.is_named_temporary(&create.name)? {
            let message = format!("view \"{name}\" will be a temporary view");
            self.notice(Severity::Notice, SqlState("00000"), message);
        }
        let existing = self.catalog().relation(&schema, &name).cloned();
        let old = match existing {
            None => {
                self.expect_no_type(&schema, &name)?;
                None
            }
            Some(Relation::View(view)) if create.or_replace => {
                self.expect_owner(view.owner, "view", &view.name)?;
                Some(view)
            }
            Some(_) => {
                return Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
            }
        };
        if changes_rows(create_query) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: a view is a query"));
        }
        let with = create_query.with.iter().flat_map(|with| &with.cte_tables);
        if with.into_iter().any(|part| changes_rows(&part.query)) {
            let message = "views must not contain data-modifying statements in WITH";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let (columns, query, reads) = self.with_binder("", |binder| {
            binder.ignores_policies = true;
            let (query, text) = binder.stored_query(create_query)?;
            binder.forget_reads();
            if !binder.params.is_empty() {
                return Err(Error::new(SqlState::NO_SUCH_PARAMETER, "there is no parameter $1"));
            }
            Ok((query.columns, text, std::mem::take(&mut binder.used)))
        })?;
        if create.columns.len() > columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        if let Some(column) = columns.iter().find(|column| matches!(column.ty.ty, Type::Record | Type::Void)) {
            let message = format!("column \"{}\" has pseudo-type {}", column.name, column.ty.ty);
            return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
        }
        if let Some(column) = columns.iter().find(|column| column.collation.is_open()) {
            let message = format!("could not determine which collation to use for view column \"{}\"", column.name);
            return Err(Error::new(SqlState("42P22"), message));
        }
        let named = |(index, column): (usize, &logical::Column)| {
            create.columns.get(index).map_or(column.name.clone(), |given| fold(&given.name))
        };
        let names: Vec<CompactString> = columns.iter().enumerate().map(named).collect();
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(duplicate_column(name));
            }
        }
        if let Some(old) = &old {
            // One that reads itself has no types to keep.
            let of_old = |binder: &mut crate::bind::Binder<'_>| {
                binder.ignores_policies = true;
                let columns = binder.view(old)?.columns;
                binder.forget_reads();
                Ok(columns)
            };
            let before = match self.with_binder("", of_old) {
                Err(error) if error.state() == SqlState::BAD_OBJECT_DEFINITION => Vec::new(),
                before => before?,
            };
            if names.len() < old.columns.len() {
                return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, "cannot drop columns from view"));
            }
            for (index, (old_name, new_name)) in old.columns.iter().zip(&names).enumerate() {
                if new_name != old_name {
                    let message = format!("cannot change name of view column \"{old_name}\" to \"{new_name}\"");
                    let hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message).hint(hint));
                }
                if let (Some(old), Some(new)) = (before.get(index), columns.get(index))
                    && old.ty != new.ty
                {
                    let message =
                        format!("cannot change data type of view column \"{old_name}\" from {} to {}", old.ty, new.ty);
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                }
            }
        }
        let id = match &old {
            Some(view) => view.id,
            None => self.new_id_in(&schema)?,
        };
        let mut reads: Vec<ObjectId> = reads;
        reads.sort_unstable();
        reads.dedup();
        let (owner, acl, triggers) = match &old {
            Some(old) => (old.owner, old.acl.clone(), old.triggers.clone()),
            None => (self.role(), self.catalog().privileges_of_new('r', self.role(), Some(&schema)), Vec::new()),
        };
        let column_acls = old.as_ref().map(|old| old.column_acls.clone()).unwrap_or_default();
        let options = storage::view_options(storage::with_options(&create.options)?)?;
        let view = View {
            id,
            schema,
            name,
            columns: names,
            query,
            reads,
            materialized: false,
            check_option: options.check_option.flatten(),
            defaults: old.map(|old| old.defaults.clone()).unwrap_or_default(),
            invoker: options.invoker.unwrap_or(false),
            column_acls,
            owner,
            acl,
            triggers,
        };
        if create.secure && view.check_option.is_some() {
            let message = "WITH CHECK OPTION not supported on recursive views";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.expect_checkable(&view)?;
        self.change(vec![Change::PutView(view)])
    }

    /// Refuses WITH CHECK OPTION of a view that cannot be written to.
    fn expect_checkable(&self, view: &View) -> Result<()> {
        if view.check_option.is_none() {
            return Ok(());
        }
        let view = Arc::new(view.clone());
        let found = self.with_binder("", |binder| {
            // Whoever makes the view need not be allowed to write to it.
            let found = binder.view_target(&view, Writing::Insert).map(drop);
            binder.needs.clear();
            found
        });
        match found {
            Err(error) if error.state() == SqlState::NOT_IN_PREREQUISITE_STATE => {
                let message = "WITH CHECK OPTION is supported only on automatically updatable views";
                let why = error.report().detail.clone().unwrap_or_default();
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(why))
            }
            found => found,
        }
    }

    /// ALTER VIEW.
    pub(crate) fn alter_view(&mut self, name: &[CompactString], if_exists: bool, change: &ViewChange) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let shown = name.last().cloned().unwrap_or_default();
        let view = match self.find_relation(&super::user_types::object_name(name))? {
            Some(Relation::View(view)) => view,
            Some(_) => {
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a view")));
            }
            None if if_exists => {
                self.notice_missing("relation", &shown);
                return Ok(());
            }
            None => {
                return Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{shown}\" does not exist")));
            }
        };
        self.expect_owner(view.owner, "view", &view.name)?;
        let mut changed = (*view).clone();
        let place = |column: &CompactString| {
            view.columns.iter().position(|known| known == column).ok_or_else(|| {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", view.name);
                Error::new(SqlState::NO_SUCH_COLUMN, message)
            })
        };
        match change {
            ViewChange::SetDefault { column, value } => {
                let place = place(column)?;
                let types = self.with_binder("", |binder| {
                    let columns = binder.view(&view)?.columns;
                    Ok(columns.into_iter().map(|column| column.ty).collect::<Vec<_>>())
                })?;
                let ty = types.get(place).copied().ok_or_else(|| Error::internal("a view lacks a column"))?;
                match self.checked_default(value, &super::create::new_column(column.clone(), ty))? {
                    Some(text) => _ = changed.defaults.insert(place, text),
                    None => _ = changed.defaults.remove(&place),
                }
            }
            ViewChange::RenameColumn { column, to } => {
                let place = place(column)?;
                if view.columns.contains(to) {
                    let message = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
                    return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
                }
                super::create::refuse_system_column(to)?;
                let old = Renamed::Columns(view.columns.clone());
                let views = self.views_with_renamed(view.id, (&view.schema, &view.name), &old)?;
                let rules = self.rules_with_renamed(view.id, (&view.schema, &view.name), &old, Some((column, to)))?;
                changed.columns[place].clone_from(to);
                let mut changes = vec![Change::PutView(changed)];
                changes.extend(rules.iter().cloned().map(Change::PutRule));
                self.change_with_views(views, changes, "renaming a column")?;
                return self.expect_rules_bound(&rules, "renaming a column");
            }
            ViewChange::DropDefault { column } => _ = changed.defaults.remove(&place(column)?),
            ViewChange::SetOptions(options) => {
                let options = storage::view_options(options)?;
                if let Some(check_option) = options.check_option {
                    changed.check_option = check_option;
                }
                changed.invoker = options.invoker.unwrap_or(changed.invoker);
                self.expect_checkable(&changed)?;
            }
            ViewChange::ResetOptions(options) => {
                for option in options {
                    if let ast::SqlOption::KeyValue { key, .. } = option {
                        match fold(key).as_str() {
                            "check_option" => changed.check_option = None,
                            "security_invoker" => changed.invoker = false,
                            _ => {}
                        }
                    }
                }
            }
        }
        self.change(vec![Change::PutView(changed)])
    }
}

/// The query of `CREATE RECURSIVE VIEW name (columns) AS …`, which may read the view.
fn recursive_query(create: &ast::CreateView) -> Result<ast::Query> {
    let ident = name_parts(&create.name)?.last().map(|ident| ident.to_string()).unwrap_or_default();
    let columns: Vec<String> = create.columns.iter().map(|column| column.name.to_string()).collect();
    if columns.is_empty() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: a recursive view needs a list of columns"));
    }
    let (columns, query) = (columns.join(", "), &create.query);
    crate::statement::parse_query(&format!(
        "WITH RECURSIVE {ident} ({columns}) AS ({query}) SELECT {columns} FROM {ident}"
    ))
}

/// Whether INSERT, UPDATE, DELETE or MERGE stands where a query does.
pub(super) fn changes_rows(query: &ast::Query) -> bool {
    matches!(
        &*query.body,
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_)
    )
}
