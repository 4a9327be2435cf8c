//! Constraints of tables: keys, CHECK, foreign keys.

use std::sync::Arc;

use colibri_catalog::{
    Check, Excluded, ForeignKey, Index, IndexColumn, PrimaryKey, ReferenceAction, Table,
    cluster::{ObjectKind, PUBLIC_ROLE, Privileges},
};
use colibri_types::{Error, Result, SqlState, Type, cast::CastContext};
use compact_str::CompactString;
use sqlparser::ast::{self, ColumnOption, TableConstraint};

use super::create::Draft;
use super::index::IndexedBy;
use super::partitions::expect_whole_key;
use super::{Session, whole};
use crate::bind::{self, fold, unique_on};

/// The most columns of a key or an index.
pub(super) const KEY_COLUMNS_MAX: usize = 32;

/// The error for a column that INCLUDE of a key names.
fn named_in_key(error: Error) -> Error {
    let message = error.report().message.replace(" does not exist", " named in key does not exist");
    Error::new(error.state(), message)
}

impl Session {
    pub(super) fn key_columns(&self, table: &Table, columns: &[ast::IndexColumn]) -> Result<Vec<usize>> {
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            let ast::Expr::Identifier(ident) = &column.column.expr else {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "a key consists of columns"));
            };
            let name = fold(ident);
            let place = table.column(&name).ok_or_else(|| {
                Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" named in key does not exist"))
            })?;
            if places.contains(&place) {
                let message = format!("column \"{name}\" appears twice in a key");
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
            }
            places.push(place);
        }
        refuse_unindexable(table, &places)?;
        if places.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        Ok(places)
    }

    pub(super) fn constraint_name(
        &self,
        draft: &Draft,
        given: Option<&ast::Ident>,
        parts: &[&str],
        suffix: &str,
    ) -> Result<CompactString> {
        match given {
            None => Ok(self.free_name(&draft.table.schema, parts, suffix, &draft.names)),
            Some(name) => {
                let name = fold(name);
                if has_constraint(&draft.table, &name) {
                    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", draft.table.name);
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                }
                Ok(name)
            }
        }
    }

    /// Adds a constraint. The caller checks the existing rows.
    pub(super) fn add_constraint_to(&mut self, draft: &mut Draft, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                whole::primary_key(key)?;
                let include = self.included(&draft.table, &key.include).map_err(named_in_key)?;
                if draft.table.primary_key.is_some() {
                    let message = format!("multiple primary keys for table \"{}\" are not allowed", draft.table.name);
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                }
                let columns = self.key_columns(&draft.table, &key.columns)?;
                expect_whole_key(&draft.table, &columns, "PRIMARY KEY")?;
                for &column in &columns {
                    if self.sort_key_of(&mut draft.table.clone(), column, IndexedBy::Equality)? != column {
                        return Err(Error::unsupported("a primary key with a nondeterministic collation"));
                    }
                }
                let table_name = draft.table.name.clone();
                let name = self.constraint_name(draft, key.name.as_ref(), &[&table_name], "pkey")?;
                self.expect_free(&draft.table.schema, &name)?;
                for &column in &columns {
                    draft.table.columns[column].not_null = true;
                }
                let id = self.new_id_in(&draft.table.schema)?;
                draft.names.push(name.clone());
                draft.table.primary_key = Some(PrimaryKey { id, name, columns, parent: None, include });
            }
            TableConstraint::Unique(unique) => {
                whole::unique(unique)?;
                let include = self.included(&draft.table, &unique.include).map_err(named_in_key)?;
                let columns = self.key_columns(&draft.table, &unique.columns)?;
                expect_whole_key(&draft.table, &columns, "UNIQUE")?;
                let mut parts = vec![draft.table.name.to_string()];
                let all = columns.iter().chain(&include);
                parts.extend(all.map(|&column| draft.table.columns[column].name.to_string()));
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                // An index is a relation: its name clashes as one.
                if let Some(name) = &unique.name
                    && draft.table.indexes.iter().any(|index| index.name == fold(name))
                {
                    let message = format!("relation \"{}\" already exists", fold(name));
                    return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
                }
                let name = self.constraint_name(draft, unique.name.as_ref(), &parts, "key")?;
                self.expect_free(&draft.table.schema, &name)?;
                let (id, space) = (self.new_id_in(&draft.table.schema)?, self.new_id_in(&draft.table.schema)?);
                draft.names.push(name.clone());
                let mut columns = columns;
                for column in &mut columns {
                    *column = self.sort_key_of(&mut draft.table, *column, IndexedBy::Equality)?;
                }
                let columns =
                    columns.into_iter().map(|column| IndexColumn { column, descending: false, nulls_first: false });
                let nulls_not_distinct = unique.nulls_distinct == ast::NullsDistinctOption::NotDistinct;
                let timing = whole::timing(unique.characteristics.as_ref())?;
                let deferrable_key = !timing.is_fixed();
                if deferrable_key && nulls_not_distinct {
                    return Err(Error::unsupported("a deferrable constraint UNIQUE NULLS NOT DISTINCT"));
                }
                if deferrable_key && (draft.table.partitioned.is_some() || draft.table.partition_of.is_some()) {
                    return Err(Error::unsupported("a deferrable constraint UNIQUE of a partitioned table"));
                }
                let plain = Index::plain(id, name, space, columns.collect(), !deferrable_key);
                let as_equal = |part: &IndexColumn| Excluded { column: part.column, operator: "=".into() };
                let exclusion = if deferrable_key { plain.columns.iter().map(as_equal).collect() } else { Vec::new() };
                let index =
                    Index { constraint: true, nulls_not_distinct, include, exclusion, timing, deferrable_key, ..plain };
                draft.table.indexes.push(Arc::new(index));
            }
            TableConstraint::Check(check) => {
                whole::check(check)?;
                if check.no_inherit && draft.table.partitioned.is_some() {
                    let message =
                        format!("cannot add NO INHERIT constraint to partitioned table \"{}\"", draft.table.name);
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                }
                let text = self.stored_text(&check.expr)?;
                let columns = self.with_binder("", |binder| {
                    let bound = binder.check_expr(&text, &draft.table)?;
                    let mut columns = Vec::new();
                    bind::rewrite::for_each_column(&bound, &mut |column| {
                        if !columns.contains(&column) {
                            columns.push(column);
                        }
                    });
                    Ok(columns)
                })?;
                let mut parts = vec![draft.table.name.to_string()];
                if let [column] = columns[..] {
                    parts.push(draft.table.columns[column].name.to_string());
                }
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                let taken: Vec<CompactString> = draft.table.checks.iter().map(|check| check.name.clone()).collect();
                draft.names.extend(taken);
                if let Some(name) = check.name.as_ref().map(fold)
                    && self.merge_check(&mut draft.table, &name, &text, check.no_inherit)?
                {
                    return Ok(());
                }
                let name = self.constraint_name(draft, check.name.as_ref(), &parts, "check")?;
                let id = self.new_id_in(&draft.table.schema)?;
                draft.table.checks.push(Check {
                    id,
                    name,
                    condition: text,
                    no_inherit: check.no_inherit,
                    not_valid: false,
                    inherited: false,
                    declared: false,
                });
            }
            TableConstraint::ForeignKey(key) => self.add_foreign_key(draft, key)?,
            TableConstraint::Exclude(exclude) => self.add_exclusion(draft, exclude)?,
            other => return Err(Error::unsupported(format_args!("the constraint {other}"))),
        }
        Ok(())
    }

    /// 42501 unless the user may refer to columns of a table.
    fn expect_may_refer(&self, target: &Table, columns: &[usize]) -> Result<()> {
        let authority = self.authority();
        let wanted = Privileges::REFERENCES;
        let may_on = |column: &usize| {
            let acl = target.column_acls.get(column);
            acl.is_some_and(|acl| authority.may(wanted, ObjectKind::Table, PUBLIC_ROLE, Some(acl)))
        };
        let may = authority.may(wanted, ObjectKind::Table, target.owner, target.acl.as_ref());
        if may || columns.iter().all(may_on) { Ok(()) } else { Err(Error::denied("table", &target.name)) }
    }

    fn add_foreign_key(&mut self, draft: &mut Draft, key: &ast::ForeignKeyConstraint) -> Result<()> {
        whole::foreign_key(key)?;
        let mut columns = Vec::with_capacity(key.columns.len());
        for column in &key.columns {
            let name = fold(column);
            columns.push(draft.table.column(&name).ok_or_else(|| {
                let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
                Error::new(SqlState::NO_SUCH_COLUMN, message)
            })?);
        }
        let mut delete_columns = Vec::new();
        let is_mark = |ident: &ast::Ident| ident.value == colibri_syntax::DELETE_COLUMNS_MARK;
        let end = key.referred_columns.iter().position(is_mark);
        let (referred, deleted) = key.referred_columns.split_at(end.unwrap_or(key.referred_columns.len()));
        for name in deleted.iter().skip(1).map(fold) {
            let Some(place) = draft.table.column(&name) else {
                let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
                return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
            };
            if !columns.contains(&place) {
                let message =
                    format!("column \"{name}\" referenced in ON DELETE SET action must be part of foreign key");
                return Err(Error::new(SqlState::BAD_COLUMN_REFERENCE, message));
            }
            if !delete_columns.contains(&place) {
                delete_columns.push(place);
            }
        }
        let (schema, target_name) = bind::in_database(self.engine().name(), &key.foreign_table)?;
        let is_self = target_name == draft.table.name
            && schema.as_ref().is_none_or(|schema| *schema == draft.table.schema)
            && self.catalog().table(draft.table.id).is_none();
        let target = if is_self {
            Arc::new(draft.table.clone())
        } else {
            let target = self.with_binder("", |binder| binder.table(&key.foreign_table))?;
            if target.materialized.is_some() {
                let message = format!("referenced relation \"{}\" is not a table", target.name);
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Self::expect_same_persistence(&draft.table, &target)?;
            if target.id != draft.table.id {
                self.lock_table(&target)?;
            }
            if target.id == draft.table.id { Arc::new(draft.table.clone()) } else { target }
        };
        let target_columns = if referred.is_empty() {
            if target.primary_key.is_none() {
                let message = format!("there is no primary key for referenced table \"{}\"", target.name);
                return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
            }
            target.key_columns().to_vec()
        } else {
            let mut places = Vec::with_capacity(referred.len());
            for column in referred {
                let name = fold(column);
                places.push(target.column(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                })?);
            }
            places
        };
        if !is_self {
            self.expect_may_refer(&target, &target_columns)?;
        }
        if columns.len() != target_columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(Error::new(SqlState::BAD_FOREIGN_KEY, message));
        }
        if unique_on(&target, &target_columns).is_empty() {
            let message =
                format!("there is no unique constraint matching given keys for referenced table \"{}\"", target.name);
            return Err(Error::new(SqlState::BAD_FOREIGN_KEY, message));
        }
        let mut parts = vec![draft.table.name.to_string()];
        parts.extend(columns.iter().map(|&column| draft.table.columns[column].name.to_string()));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let mut taken = draft.names.clone();
        taken.extend(draft.table.foreign_keys.iter().map(|key| key.name.clone()));
        let name = match &key.name {
            Some(_) => self.constraint_name(draft, key.name.as_ref(), &parts, "fkey")?,
            None => self.free_name(&draft.table.schema, &parts, "fkey", &taken),
        };
        for (&column, &target_column) in columns.iter().zip(&target_columns) {
            let (from, to) = (draft.table.columns[column].ty.ty, target.columns[target_column].ty.ty);
            if !may_refer(from, to) {
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {from} and {to}.",
                    draft.table.columns[column].name, target.columns[target_column].name
                );
                return Err(Error::new(SqlState::TYPE_MISMATCH, message).detail(detail));
            }
        }
        let id = self.new_id_in(&draft.table.schema)?;
        draft.table.foreign_keys.push(ForeignKey {
            id,
            name,
            columns,
            target: target.id,
            target_columns,
            on_delete: reference_action(key.on_delete),
            on_update: reference_action(key.on_update),
            delete_columns,
            not_valid: false,
            timing: whole::timing(key.characteristics.as_ref())?,
            match_full: key.match_kind == Some(ast::ConstraintReferenceMatchKind::Full),
            parent: None,
        });
        Ok(())
    }
}

/// Turns a column constraint into a table constraint.
pub(super) fn column_constraint(
    column: &ast::ColumnDef,
    option: &ast::ColumnOptionDef,
) -> Result<Option<TableConstraint>> {
    let index_column = || {
        vec![ast::IndexColumn {
            column: ast::OrderByExpr {
                expr: ast::Expr::Identifier(column.name.clone()),
                options: ast::OrderByOptions { sort: None, nulls_first: None },
                with_fill: None,
            },
            operator_class: None,
        }]
    };
    Ok(Some(match &option.option {
        ColumnOption::PrimaryKey(key) => TableConstraint::PrimaryKey(ast::PrimaryKeyConstraint {
            name: option.name.clone().or_else(|| key.name.clone()),
            columns: index_column(),
            ..key.clone()
        }),
        ColumnOption::Unique(unique) => TableConstraint::Unique(ast::UniqueConstraint {
            name: option.name.clone().or_else(|| unique.name.clone()),
            columns: index_column(),
            ..unique.clone()
        }),
        ColumnOption::Check(check) => TableConstraint::Check(ast::CheckConstraint {
            name: option.name.clone().or_else(|| check.name.clone()),
            ..check.clone()
        }),
        ColumnOption::ForeignKey(key) => TableConstraint::ForeignKey(ast::ForeignKeyConstraint {
            name: option.name.clone().or_else(|| key.name.clone()),
            columns: vec![column.name.clone()],
            ..key.clone()
        }),
        _ => return Ok(None),
    }))
}

fn reference_action(action: Option<ast::ReferentialAction>) -> ReferenceAction {
    match action {
        None | Some(ast::ReferentialAction::NoAction) => ReferenceAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferenceAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferenceAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferenceAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferenceAction::SetDefault,
    }
}

/// Whether a column of one type may refer to a key of another: PostgreSQL compares them by an
/// operator of the key's index, which accepts types of the same family, and types with an implicit
/// cast to the key's type.
fn may_refer(from: Type, key: Type) -> bool {
    let families: [&[Type]; 4] = [
        &[Type::Int2, Type::Int4, Type::Int8],
        &[Type::Float4, Type::Float8],
        &[Type::Date, Type::Timestamp, Type::TimestampTz],
        &[Type::Text, Type::Varchar, Type::Char, Type::Name],
    ];
    from == key
        || families.iter().any(|family| family.contains(&from) && family.contains(&key))
        || colibri_types::cast::cast_context(from, key) == Some(CastContext::Implicit)
}

/// Refuses columns of types that keys cannot have.
pub(super) fn refuse_unindexable(table: &Table, places: &[usize]) -> Result<()> {
    match places.iter().map(|&place| table.columns[place].ty.ty).find(|&ty| !colibri_types::key::is_indexable(ty)) {
        Some(ty) if !ty.is_ordered() => {
            let message = format!("data type {ty} has no default operator class for access method \"btree\"");
            Err(Error::new(SqlState::NO_SUCH_OBJECT, message).hint(
                "You must specify an operator class for the index or define a default operator class for the data type.",
            ))
        }
        Some(ty) => Err(Error::unsupported(format_args!("a key or an index on a column of type {ty}"))),
        None => Ok(()),
    }
}

pub(super) fn has_constraint(table: &Table, name: &str) -> bool {
    table.primary_key.as_ref().is_some_and(|key| key.name == name)
        || table.indexes.iter().any(|index| index.constraint && index.name == name)
        || table.checks.iter().any(|check| check.name == name)
        || table.foreign_keys.iter().any(|key| key.name == name)
}
