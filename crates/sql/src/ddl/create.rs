//! CREATE.

use std::sync::Arc;

use colibri_txn::{SpaceId, Transaction};
use compact_str::CompactString;
use sqlparser::ast::{self, ColumnOption, TableConstraint};

use super::Session;
use crate::bind::logical;
use crate::bind::types::serial_type;
use crate::bind::{self, bind_type, fold, name_parts, unique_on};
use crate::catalog::{
    COLUMNS_MAX, Change, Check, Column, ForeignKey, Identity, Index, IndexColumn, ObjectId, PrimaryKey, Relation,
    Schema, Sequence, Table, View,
};
use crate::cluster::{ObjectKind, Privileges, RoleId};
use crate::error::{Error, Result, SqlState};
use crate::exec::constraints::validate;
use crate::plan::ReferenceAction;
use crate::types::{ColumnType, Type};

/// Columns of a key or an index at most.
pub(super) const KEY_COLUMNS_MAX: usize = 32;

/// A table in the making.
pub(super) struct Draft {
    pub(super) table: Table,
    /// Sequences that its columns own.
    sequences: Vec<Sequence>,
    /// Names of indexes and constraints given so far.
    pub(super) names: Vec<CompactString>,
}

pub(super) fn reference_action(action: Option<ast::ReferentialAction>) -> ReferenceAction {
    match action {
        None | Some(ast::ReferentialAction::NoAction) => ReferenceAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferenceAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferenceAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferenceAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferenceAction::SetDefault,
    }
}

fn refuse_deferrable(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<()> {
    match characteristics {
        Some(
            ast::ConstraintCharacteristics { deferrable: Some(true), .. }
            | ast::ConstraintCharacteristics { initially: Some(ast::DeferrableInitial::Deferred), .. },
        ) => Err(Error::unsupported("a deferrable constraint")),
        _ => Ok(()),
    }
}

impl Session {
    pub(super) fn create_table(&mut self, create: &ast::CreateTable) -> Result<String> {
        if create.partition_of.is_some() || create.partition_by.is_some() || create.inherits.is_some() {
            return Err(Error::unsupported("a partitioned or inherited table"));
        }
        if create.temporary {
            return Err(Error::unsupported("a temporary table"));
        }
        if create.temporary {
            return Err(Error::unsupported("a temporary table"));
        }
        let columns = create.columns.iter().map(|column| &column.name);
        for ident in name_parts(&create.name)?.into_iter().chain(columns) {
            bind::check_name("", ident)?;
        }
        let (schema, name) = self.new_name(&create.name)?;
        if create.if_not_exists && self.catalog().relation(&schema, &name).is_some() {
            return Ok("CREATE TABLE".to_owned());
        }
        self.expect_free(&schema, &name)?;
        if let Some(query) = &create.query {
            return self.create_table_as(create, schema, name, query);
        }
        let id = self.new_id()?;
        let space = self.new_id()?;
        let table = Table {
            id,
            schema,
            name: name.clone(),
            space,
            columns: Vec::new(),
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            generations: Vec::new(),
            owner: self.role(),
            acl: None,
            layout: None,
        };
        let mut draft = Draft { table, sequences: Vec::new(), names: vec![name] };
        if let Some(ast::CreateTableLikeKind::Parenthesized(like) | ast::CreateTableLikeKind::Plain(like)) =
            &create.like
        {
            let source = self.with_binder("", |binder| binder.table(&like.name))?;
            for (_, column) in source.live_columns() {
                draft.table.columns.push(Column { default: None, missing: None, identity: None, ..column.clone() });
            }
        }
        for column in &create.columns {
            self.add_column_to(&mut draft, column)?;
        }
        // Keys first: foreign keys may refer to the table itself.
        let mut rest: Vec<TableConstraint> = Vec::new();
        for column in &create.columns {
            for option in &column.options {
                if let Some(constraint) = column_constraint(column, option)? {
                    rest.push(constraint);
                }
            }
        }
        rest.extend(create.constraints.iter().cloned());
        rest.sort_by_key(|constraint| match constraint {
            TableConstraint::PrimaryKey(_) => 0,
            TableConstraint::Unique(_) => 1,
            TableConstraint::Check(_) => 2,
            _ => 3,
        });
        draft.table.renew_generation();
        for constraint in &rest {
            self.add_constraint_to(&mut draft, constraint)?;
        }
        draft.table.generations.clear();
        draft.table.renew_generation();
        let Draft { table, sequences, .. } = draft;
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.create_space(SpaceId(table.space))?;
            for index in &table.indexes {
                txn.create_space(SpaceId(index.space))?;
            }
        }
        let mut changes: Vec<Change> = sequences.into_iter().map(Change::PutSequence).collect();
        changes.push(Change::PutTable(table));
        self.change(changes)?;
        Ok("CREATE TABLE".to_owned())
    }

    fn create_table_as(
        &mut self,
        create: &ast::CreateTable,
        schema: CompactString,
        name: CompactString,
        query: &ast::Query,
    ) -> Result<String> {
        let statement = ast::Statement::Query(Box::new(query.clone()));
        let (fragment, _) = self.plan_inner("", &statement, &[])?;
        if create.columns.len() > fragment.columns.len() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let mut columns = Vec::with_capacity(fragment.columns.len());
        for (index, column) in fragment.columns.iter().enumerate() {
            let name = match create.columns.get(index) {
                Some(named) => fold(&named.name),
                None => column.name.clone(),
            };
            let ty = if column.ty.ty == Type::Unknown { Type::Text.into() } else { column.ty };
            columns.push(new_column(name, ty));
        }
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].iter().any(|other| other.name == column.name) {
                return Err(duplicate_column(&column.name));
            }
        }
        let id = self.new_id()?;
        let space = self.new_id()?;
        let mut table = Table {
            id,
            schema,
            name: name.clone(),
            space,
            columns,
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            generations: Vec::new(),
            owner: self.role(),
            acl: None,
            layout: None,
        };
        table.renew_generation();
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.create_space(SpaceId(space))?;
        }
        let full = ast::ObjectName(vec![
            ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', table.schema.as_str())),
            ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', name.as_str())),
        ]);
        self.change(vec![Change::PutTable(table)])?;
        if create.with_data.as_ref().is_some_and(|with| !with.data) {
            return Ok("CREATE TABLE AS".to_owned());
        }
        let rows = self.insert_query(&full, query)?;
        Ok(format!("SELECT {rows}"))
    }

    /// Adds a column; its constraints come apart.
    pub(super) fn add_column_to(&mut self, draft: &mut Draft, definition: &ast::ColumnDef) -> Result<()> {
        let name = fold(&definition.name);
        if draft.table.column(&name).is_some() {
            return Err(duplicate_column(&name));
        }
        if draft.table.columns.len() >= COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let serial = serial_type(&definition.data_type);
        let ty = match serial {
            Some(ty) => ty.into(),
            None => bind_type(&definition.data_type)?,
        };
        if !ty.ty.is_storable() {
            let message = format!("column \"{name}\" has pseudo-type {ty}");
            return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
        }
        let mut column = new_column(name, ty);
        let place = draft.table.columns.len();
        if let Some(ty) = serial {
            column.not_null = true;
            self.own_sequence(draft, &mut column, place, ty, &[])?;
        }
        let mut nullable = false;
        for option in &definition.options {
            match &option.option {
                ColumnOption::Null => nullable = true,
                ColumnOption::NotNull => column.not_null = true,
                ColumnOption::Default(expr) => {
                    if column.default.is_some() {
                        let message = format!("multiple default values specified for column \"{}\"", column.name);
                        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                    }
                    column.default = self.checked_default(expr, &column)?;
                }
                ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                    if !matches!(column.ty.ty, Type::Int2 | Type::Int4 | Type::Int8) {
                        let message = "identity column type must be smallint, integer, or bigint";
                        return Err(Error::new(SqlState::BAD_PARAMETER, message));
                    }
                    if column.default.is_some() {
                        let message = format!("both default and identity specified for column \"{}\"", column.name);
                        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                    }
                    column.not_null = true;
                    let ty = column.ty.ty;
                    self.own_sequence(draft, &mut column, place, ty, sequence_options.as_deref().unwrap_or_default())?;
                    column.identity = Some(match generated_as {
                        ast::GeneratedAs::Always => Identity::Always,
                        _ => Identity::ByDefault,
                    });
                }
                ColumnOption::Generated { .. } => return Err(Error::unsupported("a generated column")),
                ColumnOption::PrimaryKey(_)
                | ColumnOption::Unique(_)
                | ColumnOption::ForeignKey(_)
                | ColumnOption::Check(_) => {}
                ColumnOption::Collation(name) => {
                    let name = name.to_string();
                    if !["\"C\"", "\"POSIX\"", "\"default\"", "C", "POSIX"].contains(&name.as_str()) {
                        let message = format!("collation {name} for encoding \"UTF8\" does not exist");
                        return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                    }
                }
                other => return Err(Error::unsupported(format_args!("the column option {other}"))),
            }
        }
        if nullable && column.not_null {
            let message = format!("conflicting NULL/NOT NULL declarations for column \"{}\"", column.name);
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        draft.table.columns.push(column);
        Ok(())
    }

    /// A default as the catalogue keeps it, after seeing that it can be one.
    pub(super) fn checked_default(&mut self, expr: &ast::Expr, column: &Column) -> Result<Option<String>> {
        if matches!(expr, ast::Expr::Value(value) if value.value == ast::Value::Null) {
            return Ok(None);
        }
        let text = expr.to_string();
        self.with_binder("", |binder| {
            let bound = binder.default_expr(&text, &column.name, column.ty)?;
            if bind::rewrite::any(&bound, &|expr| matches!(expr, crate::expr::Expr::Subquery(_))) {
                let message = "cannot use subquery in DEFAULT expression";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Ok(())
        })?;
        Ok(Some(text))
    }

    fn own_sequence(
        &mut self,
        draft: &mut Draft,
        column: &mut Column,
        place: usize,
        ty: Type,
        options: &[ast::SequenceOptions],
    ) -> Result<()> {
        let table = &draft.table;
        let name = self.free_name(&table.schema, &[&table.name, &column.name], "seq", &draft.names);
        let id = self.new_id()?;
        let sequence =
            new_sequence(id, table.schema.clone(), name.clone(), ty, options, Some((table.id, place)), table.owner)?;
        column.default = Some(format!("nextval('{}')", quoted_name(&sequence.schema, &sequence.name)));
        draft.names.push(name);
        draft.sequences.push(sequence);
        Ok(())
    }

    /// Sequences of a draft that is not a new table.
    pub(super) fn take_sequences(draft: &mut Draft) -> Vec<Change> {
        std::mem::take(&mut draft.sequences).into_iter().map(Change::PutSequence).collect()
    }

    pub(super) fn draft(&self, table: &Table) -> Draft {
        Draft { table: table.clone(), sequences: Vec::new(), names: Vec::new() }
    }

    fn key_columns(&self, table: &Table, columns: &[ast::IndexColumn]) -> Result<Vec<usize>> {
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

    fn constraint_name(
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

    /// Adds a constraint. What it needs of existing rows is checked by the caller.
    pub(super) fn add_constraint_to(&mut self, draft: &mut Draft, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse_deferrable(key.characteristics.as_ref())?;
                if draft.table.primary_key.is_some() {
                    let message = format!("multiple primary keys for table \"{}\" are not allowed", draft.table.name);
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                }
                let columns = self.key_columns(&draft.table, &key.columns)?;
                let table_name = draft.table.name.clone();
                let name = self.constraint_name(draft, key.name.as_ref(), &[&table_name], "pkey")?;
                self.expect_free(&draft.table.schema, &name)?;
                for &column in &columns {
                    draft.table.columns[column].not_null = true;
                }
                let id = self.new_id()?;
                draft.names.push(name.clone());
                draft.table.primary_key = Some(PrimaryKey { id, name, columns });
            }
            TableConstraint::Unique(unique) => {
                refuse_deferrable(unique.characteristics.as_ref())?;
                if unique.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
                    return Err(Error::unsupported("NULLS NOT DISTINCT"));
                }
                let columns = self.key_columns(&draft.table, &unique.columns)?;
                let mut parts = vec![draft.table.name.to_string()];
                parts.extend(columns.iter().map(|&column| draft.table.columns[column].name.to_string()));
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
                let (id, space) = (self.new_id()?, self.new_id()?);
                draft.names.push(name.clone());
                let columns =
                    columns.into_iter().map(|column| IndexColumn { column, descending: false, nulls_first: false });
                let index = Index { id, name, space, columns: columns.collect(), unique: true, constraint: true };
                draft.table.indexes.push(Arc::new(index));
            }
            TableConstraint::Check(check) => {
                let text = check.expr.to_string();
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
                let name = self.constraint_name(draft, check.name.as_ref(), &parts, "check")?;
                let id = self.new_id()?;
                draft.table.checks.push(Check { id, name, condition: text });
            }
            TableConstraint::ForeignKey(key) => self.add_foreign_key(draft, key)?,
            other => return Err(Error::unsupported(format_args!("the constraint {other}"))),
        }
        Ok(())
    }

    fn add_foreign_key(&mut self, draft: &mut Draft, key: &ast::ForeignKeyConstraint) -> Result<()> {
        refuse_deferrable(key.characteristics.as_ref())?;
        if matches!(
            key.match_kind,
            Some(ast::ConstraintReferenceMatchKind::Full | ast::ConstraintReferenceMatchKind::Partial)
        ) {
            return Err(Error::unsupported("MATCH FULL and MATCH PARTIAL"));
        }
        let mut columns = Vec::with_capacity(key.columns.len());
        for column in &key.columns {
            let name = fold(column);
            columns.push(draft.table.column(&name).ok_or_else(|| {
                let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
                Error::new(SqlState::NO_SUCH_COLUMN, message)
            })?);
        }
        let (schema, target_name) = bind::qualified(&key.foreign_table)?;
        let is_self = target_name == draft.table.name
            && schema.as_ref().is_none_or(|schema| *schema == draft.table.schema)
            && self.catalog().table(draft.table.id).is_none();
        let target = if is_self {
            Arc::new(draft.table.clone())
        } else {
            let target = self.with_binder("", |binder| binder.table(&key.foreign_table))?;
            let may =
                self.authority().may(Privileges::REFERENCES, ObjectKind::Table, target.owner, target.acl.as_ref());
            if !may {
                return Err(Error::denied("table", &target.name));
            }
            if target.id != draft.table.id {
                self.lock_table(&target)?;
            }
            if target.id == draft.table.id { Arc::new(draft.table.clone()) } else { target }
        };
        let target_columns = if key.referred_columns.is_empty() {
            if target.primary_key.is_none() {
                let message = format!("there is no primary key for referenced table \"{}\"", target.name);
                return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
            }
            target.key_columns().to_vec()
        } else {
            let mut places = Vec::with_capacity(key.referred_columns.len());
            for column in &key.referred_columns {
                let name = fold(column);
                places.push(target.column(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                })?);
            }
            places
        };
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
            if crate::resolve::comparison_type(from, to).is_none() {
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {from} and {to}.",
                    draft.table.columns[column].name, target.columns[target_column].name
                );
                return Err(Error::new(SqlState::TYPE_MISMATCH, message).detail(detail));
            }
        }
        let id = self.new_id()?;
        draft.table.foreign_keys.push(ForeignKey {
            id,
            name,
            columns,
            target: target.id,
            target_columns,
            on_delete: reference_action(key.on_delete),
            on_update: reference_action(key.on_update),
        });
        Ok(())
    }

    pub(super) fn create_index(&mut self, create: &ast::CreateIndex) -> Result<()> {
        // `ON t (a + 1)`: an expression that is no call wants parentheses of its own.
        if create.columns.iter().any(|column| matches!(column.column.expr, ast::Expr::BinaryOp { .. })) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: an expression wants parentheses"));
        }
        if create.predicate.is_some() {
            return Err(Error::unsupported("a partial index"));
        }
        if create.nulls_distinct == Some(false) {
            return Err(Error::unsupported("NULLS NOT DISTINCT"));
        }
        if let Some(using) = &create.using
            && !using.to_string().eq_ignore_ascii_case("btree")
        {
            let known = ["hash", "gist", "gin", "brin", "spgist"]
                .iter()
                .any(|known| using.to_string().eq_ignore_ascii_case(known));
            if !known {
                let message = format!("access method \"{}\" does not exist", using.to_string().to_ascii_lowercase());
                return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
            }
            return Err(Error::unsupported(format_args!("an index of type {using}")));
        }
        let table = self.find_table(&create.table_name)?;
        let mut columns = Vec::with_capacity(create.columns.len());
        let mut names = Vec::new();
        for column in &create.columns {
            let ast::Expr::Identifier(ident) = &column.column.expr else {
                return Err(Error::unsupported("an index on an expression"));
            };
            let name = fold(ident);
            let place = table
                .column(&name)
                .ok_or_else(|| Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist")))?;
            let (descending, nulls_first) = bind::sort_key_options(&column.column.options)?;
            names.push(name.to_string());
            columns.push(IndexColumn { column: place, descending, nulls_first });
        }
        let places: Vec<usize> = columns.iter().map(|part: &IndexColumn| part.column).collect();
        refuse_unindexable(&table, &places)?;
        if columns.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let name = match &create.name {
            Some(name) => {
                let (_, name) = bind::qualified(name)?;
                if create.if_not_exists && self.catalog().relation(&table.schema, &name).is_some() {
                    return Ok(());
                }
                name
            }
            None => {
                let mut parts = vec![table.name.as_str()];
                parts.extend(names.iter().map(String::as_str));
                self.free_name(&table.schema, &parts, "idx", &[])
            }
        };
        self.expect_free(&table.schema, &name)?;
        let (id, space) = (self.new_id()?, self.new_id()?);
        let index = Index { id, name, space, columns, unique: create.unique, constraint: false };
        self.build_index(&table, &index)?;
        let mut changed = (*table).clone();
        changed.indexes.push(Arc::new(index));
        self.change(vec![Change::PutTable(changed)])
    }

    pub(super) fn build_index(&mut self, table: &Table, index: &Index) -> Result<()> {
        self.with_context(|txn, cx| validate::backfill_index(txn, cx, table, index))
    }

    pub(super) fn create_sequence(
        &mut self,
        if_not_exists: bool,
        name: &ast::ObjectName,
        data_type: Option<&ast::DataType>,
        options: &[ast::SequenceOptions],
        owned_by: Option<&ast::ObjectName>,
    ) -> Result<()> {
        let (schema, name) = self.new_name(name)?;
        if if_not_exists && self.catalog().relation(&schema, &name).is_some() {
            return Ok(());
        }
        self.expect_free(&schema, &name)?;
        let ty = data_type.map(bind_type).transpose()?.map_or(Type::Int8, |ty| ty.ty);
        let owned_by = match owned_by {
            Some(owner) if !owner.to_string().eq_ignore_ascii_case("none") => {
                let mut parts = owner.0.clone();
                let column = match parts.pop() {
                    Some(ast::ObjectNamePart::Identifier(column)) => fold(&column),
                    _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")),
                };
                let table = self.find_table(&ast::ObjectName(parts))?;
                let place = table.column(&column).ok_or_else(|| {
                    let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                })?;
                Some((table.id, place))
            }
            _ => None,
        };
        let id = self.new_id()?;
        let sequence = new_sequence(id, schema, name, ty, options, owned_by, self.role())?;
        self.change(vec![Change::PutSequence(sequence)])
    }

    pub(super) fn create_schema(&mut self, name: &ast::SchemaName, if_not_exists: bool) -> Result<()> {
        let name = match name {
            ast::SchemaName::Simple(name) | ast::SchemaName::NamedAuthorization(name, _) => {
                fold(name_parts(name)?.last().ok_or_else(|| Error::internal("a name has no parts"))?)
            }
            ast::SchemaName::UnnamedAuthorization(name) => fold(name),
        };
        if self.catalog().schema(&name).is_some() {
            if if_not_exists {
                return Ok(());
            }
            return Err(Error::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
        }
        if name.starts_with("pg_") || name == "information_schema" {
            let message = format!("unacceptable schema name \"{name}\"");
            return Err(
                Error::new(SqlState("42939"), message).detail("The prefix \"pg_\" is reserved for system schemas.")
            );
        }
        let database = self.own_database_info();
        if !self.authority().may(Privileges::CREATE, ObjectKind::Database, database.owner, database.acl.as_ref()) {
            return Err(Error::denied("database", &database.name));
        }
        let id = self.new_id()?;
        self.change(vec![Change::PutSchema(Schema::new(id, name, self.role()))])
    }

    pub(super) fn create_view(&mut self, create: &ast::CreateView) -> Result<()> {
        if create.materialized {
            return Err(Error::unsupported("a materialized view"));
        }
        let (schema, name) = self.new_name(&create.name)?;
        let existing = self.catalog().relation(&schema, &name).cloned();
        let old = match existing {
            None => None,
            Some(Relation::View(view)) if create.or_replace => {
                self.expect_owner(view.owner, "view", &view.name)?;
                Some(view)
            }
            Some(_) if create.if_not_exists => return Ok(()),
            Some(_) => {
                return Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
            }
        };
        if matches!(
            &*create.query.body,
            ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_)
        ) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: a view is a query"));
        }
        let (columns, reads) = self.with_binder("", |binder| {
            let query = binder.query(&create.query)?;
            Ok((query.columns, std::mem::take(&mut binder.used)))
        })?;
        if create.columns.len() > columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
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
            let before =
                self.with_binder("", |binder| Ok(binder.query(&crate::statement::parse_query(&old.query)?)?.columns))?;
            for (old, new) in before.iter().zip(&columns) {
                if old.ty != new.ty {
                    let message = format!(
                        "cannot change data type of view column \"{}\" from {} to {}",
                        old.name, old.ty, new.ty
                    );
                    return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                }
            }
            for (index, old_name) in old.columns.iter().enumerate() {
                match names.get(index) {
                    None => {
                        return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, "cannot drop columns from view"));
                    }
                    Some(new) if new != old_name => {
                        let message = format!("cannot change name of view column \"{old_name}\" to \"{new}\"");
                        return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
                    }
                    Some(_) => {}
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
        let (owner, acl) = match &old {
            Some(old) => (old.owner, old.acl.clone()),
            None => (self.role(), None),
        };
        let query = create.query.to_string();
        let view = View { id, schema, name, columns: names, query, reads, owner, acl };
        self.change(vec![Change::PutView(view)])
    }
}

/// A constraint that stands behind a column, as one of the table.
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

fn new_column(name: CompactString, ty: ColumnType) -> Column {
    Column { name, ty, not_null: false, default: None, missing: None, identity: None, dropped: false }
}

/// Refuses columns of types that keys cannot have.
fn refuse_unindexable(table: &Table, places: &[usize]) -> Result<()> {
    match places.iter().map(|&place| table.columns[place].ty.ty).find(|&ty| !crate::key::is_indexable(ty)) {
        Some(ty) => Err(Error::unsupported(format_args!("a key or an index on a column of type {ty}"))),
        None => Ok(()),
    }
}

pub(super) fn duplicate_column(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
}

pub(super) fn has_constraint(table: &Table, name: &str) -> bool {
    table.primary_key.as_ref().is_some_and(|key| key.name == name)
        || table.indexes.iter().any(|index| index.constraint && index.name == name)
        || table.checks.iter().any(|check| check.name == name)
        || table.foreign_keys.iter().any(|key| key.name == name)
}

/// A name that can be read again, in a text in single quotes.
fn quoted_name(schema: &str, name: &str) -> String {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\"")).replace('\'', "''");
    format!("{}.{}", quote(schema), quote(name))
}

fn sequence_number(expr: &ast::Expr) -> Result<i64> {
    expr.to_string()
        .replace(' ', "")
        .parse()
        .map_err(|_| Error::new(SqlState::SYNTAX_ERROR, format!("a sequence's option is a number, not {expr}")))
}

/// The type that a sequence is declared with.
pub(crate) fn sequence_type(declared: &ast::DataType) -> Result<Type> {
    bind_type(declared).map(|declared| declared.ty)
}

/// Where a sequence's values lie; `None` is as far as its type goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceBounds {
    pub(crate) ty: Type,
    pub(crate) increment: i64,
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl SequenceBounds {
    /// The smallest value, the largest, and the first, which is the one at the beginning if `start` does not say.
    ///
    /// # Errors
    /// 22023 if they contradict each other.
    pub(crate) fn check(self, start: Option<i64>) -> Result<(i64, i64, i64)> {
        let Self { ty, increment, min, max } = self;
        let bad = |message: String| Error::new(SqlState::BAD_PARAMETER, message);
        let (type_min, type_max) = match ty {
            Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Type::Int8 => (i64::MIN, i64::MAX),
            _ => return Err(bad("sequence type must be smallint, integer, or bigint".to_owned())),
        };
        if increment == 0 {
            return Err(bad("INCREMENT must not be zero".to_owned()));
        }
        let min = min.unwrap_or(if increment > 0 { 1 } else { type_min });
        let max = max.unwrap_or(if increment > 0 { type_max } else { -1 });
        if min < type_min {
            return Err(bad(format!("MINVALUE ({min}) is out of range for sequence data type {ty}")));
        }
        if max > type_max {
            return Err(bad(format!("MAXVALUE ({max}) is out of range for sequence data type {ty}")));
        }
        if min >= max {
            return Err(bad(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = start.unwrap_or(if increment > 0 { min } else { max });
        if start < min {
            return Err(bad(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
        }
        if start > max {
            return Err(bad(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
        }
        Ok((min, max, start))
    }
}

fn new_sequence(
    id: ObjectId,
    schema: CompactString,
    name: CompactString,
    ty: Type,
    options: &[ast::SequenceOptions],
    owned_by: Option<(ObjectId, usize)>,
    owner: RoleId,
) -> Result<Sequence> {
    let (mut increment, mut min, mut max, mut start, mut cycle) = (1, None, None, None, false);
    for option in options {
        match option {
            ast::SequenceOptions::IncrementBy(by, _) => increment = sequence_number(by)?,
            ast::SequenceOptions::MinValue(value) => min = value.as_ref().map(sequence_number).transpose()?,
            ast::SequenceOptions::MaxValue(value) => max = value.as_ref().map(sequence_number).transpose()?,
            ast::SequenceOptions::StartWith(value, _) => start = Some(sequence_number(value)?),
            ast::SequenceOptions::Cache(_) => {}
            // The parser says whether NO was there.
            ast::SequenceOptions::Cycle(no) => cycle = !no,
        }
    }
    let (min, max, start) = SequenceBounds { ty, increment, min, max }.check(start)?;
    Ok(Sequence { id, schema, name, type_oid: ty.oid(), start, increment, min, max, cycle, owned_by, owner, acl: None })
}
