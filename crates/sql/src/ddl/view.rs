//! CREATE VIEW.

use colibri_catalog::{Change, ObjectId, Relation, View};
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::create::duplicate_column;
use crate::bind::{fold, logical, name_parts};

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
        let (schema, name) = self.new_name(&create.name)?;
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
            let (query, text) = binder.stored_query(create_query)?;
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
            let before = match self.with_binder("", |binder| Ok(binder.view(old)?.columns)) {
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
            None => self.new_id()?,
        };
        let mut reads: Vec<ObjectId> = reads;
        reads.sort_unstable();
        reads.dedup();
        let (owner, acl, triggers) = match &old {
            Some(old) => (old.owner, old.acl.clone(), old.triggers.clone()),
            None => (self.role(), None, Vec::new()),
        };
        let view = View { id, schema, name, columns: names, query, reads, materialized: false, owner, acl, triggers };
        self.change(vec![Change::PutView(view)])
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
