//! CREATE.

use colibri_catalog::{
    COLUMNS_MAX, Change, Column, Identity, OnCommit, Schema, Sequence, Table,
    cluster::{ObjectKind, Privileges},
    store_error::InSql as _,
};
use colibri_txn::SpaceId;
use colibri_types::{ColumnType, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast::{self, ColumnOption, TableConstraint};

use super::composites::expect_no_row_type;
use super::constraint::column_constraint;
use super::storage::topic_of;
use super::{Session, compression, identity, storage};
use crate::bind::collation::Collation;
use crate::bind::types::serial_type;
use crate::bind::{self, fold, name_parts};

/// A table that is being created.
pub(super) struct Draft {
    pub(super) table: Table,
    /// Sequences that its columns own, each with its position if that is not its start.
    pub(super) sequences: Vec<(Sequence, Option<i64>)>,
    /// Names of indexes and constraints given so far.
    pub(super) names: Vec<CompactString>,
    /// Defaults that name what is not there yet, with the places of their columns.
    pub(super) put_off: Vec<(usize, ast::Expr)>,
}

impl Session {
    pub(super) fn create_table(&mut self, create: &ast::CreateTable) -> Result<String> {
        super::whole::create_table(create)?;
        let columns = create.columns.iter().map(|column| &column.name);
        for ident in name_parts(&create.name)?.into_iter().chain(columns) {
            bind::check_name("", ident)?;
        }
        let (schema, name) = self.new_name_of(&create.name, create.temporary)?;
        let on_commit = Self::on_commit(create, &schema)?;
        if create.if_not_exists && self.catalog().relation(&schema, &name).is_some() {
            self.notice_existing("relation", &name);
            let tag = if create.query.is_some() { "CREATE TABLE AS" } else { "CREATE TABLE" };
            return Ok(tag.to_owned());
        }
        self.expect_free(&schema, &name)?;
        self.expect_no_type(&schema, &name)?;
        if let Some(query) = &create.query {
            if create.partition_by.is_some() {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"AS\""));
            }
            if topic_of(storage::with_options(&create.table_options)?, None)?.is_some() {
                return Err(Error::unsupported("CREATE TABLE AS for a topic"));
            }
            let prepared = self.query_of_execute(query)?;
            let query = prepared.as_ref().unwrap_or(&**query);
            return self.create_table_as(create, (schema, name, on_commit), query);
        }
        let options = storage::with_options(&create.table_options)?;
        let (topic, compression) = (topic_of(options, None)?, storage::compression_of(options)?);
        let table = Table { on_commit, topic, compression, ..self.new_table(schema, name.clone(), Vec::new())? };
        let mut draft = Draft { table, sequences: Vec::new(), names: vec![name], put_off: Vec::new() };
        let mut likes = Vec::new();
        let parent = match &create.partition_of {
            Some(parent) => Some(self.columns_of_parent(&mut draft, parent)?),
            None => None,
        };
        let parents = self.columns_of_parents(&mut draft, create)?;
        // Where the next column stands if none of the elements is inherited.
        let mut at = 0;
        for column in &create.columns {
            match (&parent, colibri_syntax::liked_table(column)) {
                (Some(_), _) => self.refine_column(&mut draft, column)?,
                (None, Some(table)) => {
                    let like = self.columns_like(&mut draft, table, &mut at)?;
                    likes.push(like);
                }
                (None, None) => {
                    self.merge_column(&mut draft, column, at)?;
                    at += 1;
                }
            }
        }
        self.expect_no_conflict(&draft.table)?;
        self.check_put_off(&mut draft)?;
        self.check_generated(&draft.table)?;
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
        for like in &likes {
            rest.extend(self.constraints_like(&mut draft, like)?);
        }
        if let Some(by) = &create.partition_by {
            self.partition_by(&mut draft, by)?;
        }
        if let (Some(parent), Some(bound)) = (&parent, &create.for_values) {
            self.become_partition(&mut draft, parent, bound)?;
        }
        rest.sort_by_key(|constraint| match constraint {
            TableConstraint::PrimaryKey(_) => 0,
            TableConstraint::Unique(_) | TableConstraint::Exclude(_) => 1,
            TableConstraint::Check(_) => 2,
            _ => 3,
        });
        draft.table.renew_generation();
        for constraint in &rest {
            self.add_constraint_to(&mut draft, constraint)?;
        }
        if let Some(parent) = &parent {
            self.inherit_keys(&mut draft, parent)?;
        }
        draft.table.generations.clear();
        draft.table.renew_generation();
        let Draft { table, sequences, .. } = draft;
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.create_space(SpaceId(table.space)).in_sql()?;
            for index in &table.indexes {
                txn.create_space(SpaceId(index.space)).in_sql()?;
            }
        }
        let id = table.id;
        self.put_sequences(sequences, vec![Change::PutTable(table)])?;
        if let Some(parent) = &parent {
            self.add_to_parent(parent.id, id)?;
        }
        self.add_to_parents(&parents, id)?;
        for like in &likes {
            self.indexes_and_comments_like(id, like)?;
        }
        Ok("CREATE TABLE".to_owned())
    }

    fn create_table_as(
        &mut self,
        create: &ast::CreateTable,
        (schema, name, on_commit): (CompactString, CompactString, Option<OnCommit>),
        query: &ast::Query,
    ) -> Result<String> {
        let is_name = |column: &ast::ColumnDef| {
            let ast::ColumnDef { name: _, data_type, options } = column;
            let is_mark = matches!(data_type, ast::DataType::Custom(name, _) if bind::name_parts(name).is_ok_and(|parts| matches!(parts[..], [part] if part.value == crate::statement::ANY_TYPE_MARK)));
            is_mark && options.is_empty()
        };
        if !create.columns.iter().all(is_name) || !create.constraints.is_empty() {
            let message = "syntax error: CREATE TABLE AS takes names of columns only";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let statement = ast::Statement::Query(Box::new(query.clone()));
        let fragment = self.plan_inner("", &statement, &[])?.fragment;
        if create.columns.len() > fragment.columns.len() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let collations: Vec<Collation> = self.with_binder("", |binder| {
            Ok(binder.query(query)?.columns.into_iter().map(|column| column.collation).collect())
        })?;
        let mut columns = Vec::with_capacity(fragment.columns.len());
        for (index, column) in fragment.columns.iter().enumerate() {
            let name = match create.columns.get(index) {
                Some(named) => fold(&named.name),
                None => column.name.clone(),
            };
            let ty = if column.ty.ty == Type::Unknown { Type::Text.into() } else { column.ty };
            refuse_system_column(&name)?;
            if !ty.ty.is_storable() {
                let message = format!("column \"{name}\" has pseudo-type {ty}");
                return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
            }
            expect_no_row_type(ty)?;
            let collation = collations.get(index).cloned().unwrap_or_default();
            if collation.is_open() {
                let message = format!("no collation was derived for column \"{name}\" with collatable type {}", ty.ty);
                return Err(Error::new(SqlState("42P22"), message));
            }
            columns.push(Column { collation: collation.name(), ..new_column(name, ty) });
        }
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].iter().any(|other| other.name == column.name) {
                return Err(duplicate_column(&column.name));
            }
        }
        let compression = storage::compression_of(storage::with_options(&create.table_options)?)?;
        let mut table = Table { on_commit, compression, ..self.new_table(schema, name.clone(), columns)? };
        table.renew_generation();
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.create_space(SpaceId(table.space)).in_sql()?;
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

    /// A new table that the session's role owns, with new object numbers, without keys and
    /// constraints, not yet in the catalogue.
    pub(super) fn new_table(
        &mut self,
        schema: CompactString,
        name: CompactString,
        columns: Vec<Column>,
    ) -> Result<Table> {
        let (id, space) = (self.new_id_in(&schema)?, self.new_id_in(&schema)?);
        let acl = self.catalog().privileges_of_new('r', self.role(), Some(&schema));
        Ok(Table {
            id,
            schema,
            name,
            space,
            columns,
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            generations: colibri_catalog::Generations::default(),
            owner: self.role(),
            acl,
            column_acls: colibri_catalog::ColumnAcls::new(),
            materialized: None,
            domains_changed: 0,
            on_commit: None,
            triggers: Vec::new(),
            references_off: false,
            security: colibri_catalog::RowSecurity::default(),
            partitioned: None,
            partition_of: None,
            inherits: Vec::new(),
            replica_identity: colibri_catalog::ReplicaIdentity::Default,
            children: Vec::new(),
            topic: None,
            compression: None,
            layout: None,
        })
    }

    /// Adds a column without its constraints.
    pub(super) fn add_column_to(&mut self, draft: &mut Draft, definition: &ast::ColumnDef) -> Result<()> {
        let name = fold(&definition.name);
        if draft.table.column(&name).is_some() {
            return Err(duplicate_column(&name));
        }
        refuse_system_column(&name)?;
        if draft.table.columns.len() >= COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let serial = serial_type(&definition.data_type);
        let ty = match serial {
            Some(ty) => ty.into(),
            None => self.usable_type_named(&definition.data_type)?,
        };
        if !ty.ty.is_storable() {
            let message = format!("column \"{name}\" has pseudo-type {ty}");
            return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
        }
        expect_no_row_type(ty)?;
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
                    if column.identity.is_some() {
                        let message = format!(
                            "both default and identity specified for column \"{}\" of table \"{}\"",
                            column.name, draft.table.name
                        );
                        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                    }
                    if column.default.is_some() {
                        let message = format!("multiple default values specified for column \"{}\"", column.name);
                        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                    }
                    let checked = match self.checked_default(expr, &column) {
                        // It may name a sequence that the table brings along.
                        Err(error) if error.state() == SqlState::NO_SUCH_TABLE && !draft.sequences.is_empty() => {
                            self.put_sequences(std::mem::take(&mut draft.sequences), Vec::new())?;
                            self.checked_default(expr, &column)
                        }
                        checked => checked,
                    };
                    column.default = match checked {
                        // Or one that a later column brings along.
                        Err(error) if error.state() == SqlState::NO_SUCH_TABLE => {
                            draft.put_off.push((place, expr.clone()));
                            Some(expr.to_string())
                        }
                        checked => checked?,
                    };
                }
                ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr: None,
                    generation_expr_mode: None,
                    generated_keyword: true,
                } => {
                    let twice = match (column.identity, &column.default) {
                        (Some(_), _) => Some("multiple identity specifications"),
                        (None, Some(_)) => Some("both default and identity specified"),
                        (None, None) => None,
                    };
                    if let Some(twice) = twice {
                        let message =
                            format!("{twice} for column \"{}\" of table \"{}\"", column.name, draft.table.name);
                        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                    }
                    column.not_null = true;
                    let kind = match generated_as {
                        ast::GeneratedAs::Always => Identity::Always,
                        _ => Identity::ByDefault,
                    };
                    let options = identity::options_of(sequence_options.as_deref())?;
                    self.make_identity(draft, &mut column, place, kind, &options)?;
                }
                ColumnOption::Generated { generation_expr: Some(expr), .. } => {
                    let both = match (column.identity, &column.default) {
                        (Some(_), _) => Some("both identity and generation expression"),
                        (None, Some(_)) => Some("both default and generation expression"),
                        (None, None) => None,
                    };
                    if let Some(both) = both {
                        let of = format!("for column \"{}\" of table \"{}\"", column.name, draft.table.name);
                        return Err(Error::new(SqlState::SYNTAX_ERROR, format!("{both} specified {of}")));
                    }
                    column.generated = Some(self.stored_text(expr)?);
                }
                ColumnOption::Generated { .. } => return Err(Error::unsupported("such a generated column")),
                ColumnOption::PrimaryKey(_)
                | ColumnOption::Unique(_)
                | ColumnOption::ForeignKey(_)
                | ColumnOption::Check(_) => {}
                ColumnOption::Collation(_) if column.collation.is_some() => {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "multiple COLLATE clauses not allowed"));
                }
                ColumnOption::Options(options) => column.storage = compression::declared(&column, options)?,
                ColumnOption::Collation(name) => {
                    column.collation = self.column_collation(name, column.ty.ty)?;
                }
                other => return Err(Error::unsupported(format_args!("the column option {other}"))),
            }
        }
        if !definition.options.iter().any(|option| matches!(option.option, ColumnOption::Collation(_))) {
            column.collation = self.catalog().domain_of(ty).and_then(|ty| ty.domain()?.collation.clone());
        }
        if nullable && column.not_null {
            let message = format!(
                "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{}\"",
                column.name, draft.table.name
            );
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        draft.table.columns.push(column);
        Ok(())
    }

    /// Checks what generated columns are computed of: any of the table's columns.
    pub(super) fn check_generated(&self, table: &Table) -> Result<()> {
        for (place, column) in table.live_columns() {
            if let Some(text) = &column.generated {
                self.with_binder("", |binder| binder.generated_expr(text, table, place))?;
            }
        }
        Ok(())
    }

    /// Checks the defaults that name what was not there when their columns were added.
    pub(super) fn check_put_off(&mut self, draft: &mut Draft) -> Result<()> {
        if draft.put_off.is_empty() {
            return Ok(());
        }
        self.put_sequences(std::mem::take(&mut draft.sequences), Vec::new())?;
        for (place, expr) in std::mem::take(&mut draft.put_off) {
            draft.table.columns[place].default = self.checked_default(&expr, &draft.table.columns[place])?;
        }
        Ok(())
    }

    /// Checks a default, and gives the text that the catalogue stores.
    pub(super) fn checked_default(&mut self, expr: &ast::Expr, column: &Column) -> Result<Option<String>> {
        // The domain of a column may have a default, which the column's own hides.
        let is_null = matches!(expr, ast::Expr::Value(value) if value.value == ast::Value::Null);
        if is_null && column.ty.domain.is_none() {
            return Ok(None);
        }
        let text = self.with_binder("", |binder| {
            let (bound, text) = binder.stored_default(expr, &column.name, column.ty)?;
            if bind::rewrite::any(&bound, &|expr| matches!(expr, crate::expr::Expr::Subquery(_))) {
                let message = "cannot use subquery in DEFAULT expression";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Ok(text)
        })?;
        Ok(Some(text))
    }

    pub(super) fn draft(&self, table: &Table) -> Draft {
        Draft { table: table.clone(), sequences: Vec::new(), names: Vec::new(), put_off: Vec::new() }
    }

    pub(super) fn create_schema(&mut self, given: &ast::SchemaName, if_not_exists: bool) -> Result<()> {
        let name = match given {
            ast::SchemaName::Simple(name) | ast::SchemaName::NamedAuthorization(name, _) => {
                fold(name_parts(name)?.last().ok_or_else(|| Error::internal("a name has no parts"))?)
            }
            ast::SchemaName::UnnamedAuthorization(name) => fold(name),
        };
        let owner = match given {
            ast::SchemaName::Simple(_) => None,
            ast::SchemaName::NamedAuthorization(_, owner) | ast::SchemaName::UnnamedAuthorization(owner) => {
                Some(fold(owner))
            }
        };
        if self.catalog().schema(&name).is_some() {
            if if_not_exists {
                self.notice_existing("schema", &name);
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
        let id = self.new_id_in(&name)?;
        let mut schema = Schema::new(id, name.clone(), self.role());
        schema.acl = self.catalog().privileges_of_new('n', self.role(), None).or(schema.acl);
        self.change(vec![Change::PutSchema(schema)])?;
        match owner {
            None => Ok(()),
            Some(owner) => self.give_schema(name, owner),
        }
    }
}

pub(super) fn new_column(name: CompactString, ty: ColumnType) -> Column {
    let (default, missing, identity, collation) = (None, None, None, None);
    Column {
        name,
        ty,
        not_null: false,
        default,
        missing,
        identity,
        dropped: false,
        collation,
        generated: None,
        expression: None,
        inherited_only: false,
        storage: colibri_catalog::ColumnStorage::default(),
    }
}

/// Refuses the name of a system column.
pub(super) fn refuse_system_column(name: &str) -> Result<()> {
    if ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"].contains(&name) {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
    }
    Ok(())
}

pub(super) fn duplicate_column(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
}
