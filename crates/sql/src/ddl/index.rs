//! CREATE INDEX.

use std::sync::Arc;

use colibri_catalog::Tokenized;
use colibri_catalog::{Change, Column, Index, IndexColumn, Table};
use colibri_types::tokens::{self, TokenClass};
use colibri_types::{Category, ColumnType, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::constraint::{KEY_COLUMNS_MAX, refuse_unindexable};
use super::partitions::expect_whole_key;
use crate::bind::{self, fold};
use crate::exec::constraints::validate;
use crate::session::TransactionState;

impl Session {
    pub(super) fn create_index(&mut self, create: &ast::CreateIndex) -> Result<()> {
        // `ON t (a + 1)`: an expression that is not a function call needs parentheses of its own.
        if create.columns.iter().any(|column| matches!(column.column.expr, ast::Expr::BinaryOp { .. })) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: an expression wants parentheses"));
        }
        super::whole::create_index(create)?;
        if create.concurrently && self.state() != TransactionState::Idle {
            let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
            return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        let method = create.using.as_ref().map(|using| using.to_string().to_ascii_lowercase());
        if let Some(method) = &method {
            let has_bloom = self.catalog().extensions().any(|extension| extension.name == "bloom");
            check_method(method, create, has_bloom)?;
        }
        let table = self.find_table(&create.table_name)?;
        self.expect_not_in_use(&table, "CREATE INDEX")?;
        if create.concurrently && table.partitioned.is_some() {
            let message = format!("cannot create index on partitioned table \"{}\" concurrently", table.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let mut columns = Vec::with_capacity(create.columns.len());
        let mut names = Vec::new();
        let mut tokens = Vec::new();
        let mut changed = (*table).clone();
        let inverted = method.as_deref().filter(|method| matches!(*method, "gin" | "gist"));
        // What GiST does with ranges, and with other values that have an order, a tree by their order
        // does.
        let is_ordered = inverted == Some("gist") && self.is_gist_of_ordered(&mut changed.clone(), create)?;
        let inverted = inverted.filter(|_| !is_ordered);
        for column in &create.columns {
            let by = match &column.operator_class {
                _ if inverted.is_some() || is_ordered => IndexedBy::Bytes,
                Some(class) if class.to_string().ends_with("_pattern_ops") => {
                    self.expect_pattern_class(&changed, &column.column.expr, class)?;
                    IndexedBy::Bytes
                }
                _ if create.unique => IndexedBy::Equality,
                _ => IndexedBy::Order,
            };
            let (place, name) = self.index_part(&mut changed, &column.column.expr, by)?;
            let ty = changed.columns[place].ty.ty;
            let (descending, nulls_first) = bind::sort_key_options(&column.column.options)?;
            match inverted {
                Some(method) => {
                    let ordered = column.column.options.sort.is_some() || column.column.options.nulls_first.is_some();
                    tokens.push(self.token_class(method, ty, column.operator_class.as_ref(), ordered)?);
                }
                None if is_sort_key(&changed, place) => {
                    check_operator_class(column.operator_class.as_ref(), Type::Text)?
                }
                None => check_operator_class(column.operator_class.as_ref(), ty)?,
            }
            names.push(name.to_string());
            columns.push(IndexColumn { column: place, descending, nulls_first });
        }
        let places: Vec<usize> = columns.iter().map(|part: &IndexColumn| part.column).collect();
        if inverted.is_none() {
            refuse_unindexable(&changed, &places)?;
        }
        if create.unique {
            expect_whole_key(&changed, &places, "UNIQUE")?;
        }
        if columns.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let include = self.included(&table, &create.include)?;
        names.extend(include.iter().map(|&column| table.columns[column].name.to_string()));
        let name = match &create.name {
            Some(name) => {
                let (_, name) = bind::qualified(name)?;
                if create.if_not_exists && self.catalog().relation(&table.schema, &name).is_some() {
                    self.notice_existing("relation", &name);
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
        let (id, space) = (self.new_id_in(&table.schema)?, self.new_id_in(&table.schema)?);
        let predicate = create.predicate.as_ref().map(|condition| self.index_predicate(&mut changed, condition));
        let index = Index {
            predicate: predicate.transpose()?,
            nulls_not_distinct: create.nulls_distinct == Some(false),
            method: method.filter(|method| method != "btree").map(CompactString::from),
            tokens,
            include,
            ..Index::plain(id, name, space, columns, create.unique)
        };
        changed.renew_layout();
        let changed = Arc::new(changed);
        self.build_index(&changed, &index)?;
        let mut changed = (*changed).clone();
        changed.indexes.push(Arc::new(index));
        self.change(vec![Change::PutTable(changed)])?;
        // With ONLY, the partitions' parts come by ALTER INDEX … ATTACH PARTITION.
        if create.r#async { Ok(()) } else { self.index_partitions(table.id, id) }
    }

    /// Whether a GiST index is one by the order of its columns: ranges, and types that `btree_gist`
    /// brings. One of nothing but ranges is by their tokens, as far as these can be measured.
    fn is_gist_of_ordered(&self, table: &mut Table, create: &ast::CreateIndex) -> Result<bool> {
        let mut are_measured = true;
        for column in &create.columns {
            let (place, _) = self.index_part(table, &column.column.expr, IndexedBy::Bytes)?;
            let ty = table.columns[place].ty.ty;
            let of_tokens = tokens::default_class("gist", ty);
            let is_taken = ty.bounds().is_some() || of_tokens.is_none();
            if !is_taken || column.operator_class.is_some() || !self.has_gist_class(ty) {
                return Ok(false);
            }
            are_measured &= of_tokens.is_some();
        }
        Ok(!are_measured)
    }

    /// Whether GiST has an operator class for a type that its order serves.
    pub(super) fn has_gist_class(&self, ty: Type) -> bool {
        let has_btree_gist = || self.catalog().extensions().any(|known| known.name == "btree_gist");
        ty.bounds().is_some() || colibri_types::key::is_indexable(ty) && has_btree_gist()
    }

    /// The column of a table that a part of an index is on, and what it is called in the index'
    /// name. A new column stands for an expression.
    pub(super) fn index_part(
        &self,
        table: &mut Table,
        expr: &ast::Expr,
        by: IndexedBy,
    ) -> Result<(usize, CompactString)> {
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            let place = table
                .column(&name)
                .ok_or_else(|| Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist")))?;
            return Ok((self.sort_key_of(table, place, by)?, name));
        }
        let text = self.stored_text(bare(expr))?;
        let ty = self.with_binder("", |binder| match by {
            IndexedBy::Bytes => Ok(binder.index_expr(&text, table)?.ty),
            IndexedBy::Equality | IndexedBy::Order => Ok(binder.index_key(&text, table)?.ty),
        })?;
        let name = bind::index_column_name(expr);
        Ok((stands_for(table, text, ty, &name), name))
    }

    /// The column that an index is on for another one: that itself, or one that stands for its sort key.
    pub(super) fn sort_key_of(&self, table: &mut Table, place: usize, by: IndexedBy) -> Result<usize> {
        let column = &table.columns[place];
        let collation = column.collation.as_deref().unwrap_or("default");
        let Some(order) = bind::collation::order_of(self.catalog(), collation) else { return Ok(place) };
        // Texts that are equal by a deterministic collation have the same bytes.
        let is_needed = match by {
            IndexedBy::Bytes => false,
            IndexedBy::Equality => !order.deterministic,
            IndexedBy::Order => true,
        };
        if !is_needed || !bind::collation::has_order(column.ty.ty) {
            return Ok(place);
        }
        let (text, name) = (colibri_types::functions::quote_identifier(&column.name), column.name.clone());
        let ty = self.with_binder("", |binder| Ok(binder.index_key(&text, table)?.ty))?;
        Ok(stands_for(table, text, ty, &name))
    }

    /// Refuses an index for patterns of texts that are equal by a nondeterministic collation.
    fn expect_pattern_class(&self, table: &Table, expr: &ast::Expr, class: &ast::ObjectName) -> Result<()> {
        let ast::Expr::Identifier(ident) = expr else { return Ok(()) };
        let Some(place) = table.column(&fold(ident)) else { return Ok(()) };
        let collation = table.columns[place].collation.as_deref().unwrap_or("default");
        match bind::collation::order_of(self.catalog(), collation) {
            Some(order) if !order.deterministic => {
                let (_, class) = bind::qualified(class)?;
                let message = format!("nondeterministic collations are not supported for operator class \"{class}\"");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            _ => Ok(()),
        }
    }

    /// How the values of a column of an inverted index are taken apart.
    fn token_class(&self, method: &str, ty: Type, name: Option<&ast::ObjectName>, ordered: bool) -> Result<Tokenized> {
        let is_there = |class: &&'static TokenClass| {
            let has = |name: &str| self.catalog().extensions().any(|known| known.name == name);
            class.extension.is_none_or(has)
        };
        let no_such = |message: String| Error::new(SqlState::NO_SUCH_OBJECT, message);
        if let Some(element) = ty.element().filter(|element| !colibri_types::key::is_indexable(*element)) {
            let message = format!("could not identify a comparison function for type {}", element.sql_name());
            return Err(Error::new(SqlState::NO_SUCH_FUNCTION, message));
        }
        let class = match name {
            None => tokens::default_class(method, ty).filter(is_there).ok_or_else(|| {
                let ty = ty.sql_name();
                no_such(format!("data type {ty} has no default operator class for access method \"{method}\""))
                    .hint("You must specify an operator class for the index or define a default operator class for the data type.")
            })?,
            Some(name) => {
                let (_, name) = bind::qualified(name)?;
                // `btree_gin` has a class for each type, under the names that these have elsewhere.
                let scalar = || {
                    let class = tokens::default_class(method, ty).filter(|class| class.name == tokens::SCALAR)?;
                    (own_class(ty) == name).then_some(class)
                };
                let class = tokens::class(method, &name).filter(is_there).or_else(|| scalar().filter(is_there));
                class.ok_or_else(|| {
                    no_such(format!("operator class \"{name}\" does not exist for access method \"{method}\""))
                })?
            }
        };
        expect_taken(class, ty)?;
        if ordered {
            let message = format!("access method \"{method}\" does not support ASC/DESC options");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(Tokenized(class))
    }

    pub(super) fn index_predicate(&self, table: &mut Table, condition: &ast::Expr) -> Result<usize> {
        let text = self.stored_text(bare(condition))?;
        self.with_binder("", |binder| binder.index_predicate(&text, table))?;
        Ok(stands_for(table, text, Type::Bool.into(), ""))
    }

    /// Gives the columns that stand for expressions of a table's indexes the types that these have
    /// by now.
    pub(super) fn retype_expressions(&self, table: &mut Table) -> Result<()> {
        let expressions: Vec<(usize, String)> =
            table.expressions().map(|(place, text)| (place, text.to_owned())).collect();
        for (place, text) in expressions {
            let is_condition = table.indexes.iter().any(|index| index.predicate == Some(place));
            let ty = self.with_binder("", |binder| match is_condition {
                true => binder.index_predicate(&text, table).map(|_| Type::Bool.into()),
                false if is_sort_key(table, place) => Ok(binder.index_key(&text, table)?.ty),
                false => Ok(binder.index_expr(&text, table)?.ty),
            })?;
            table.columns[place].ty = ty;
        }
        for index in &table.indexes {
            if index.is_inverted() {
                for (part, class) in index.columns.iter().zip(&index.tokens) {
                    expect_taken(class.0, table.columns[part.column].ty.ty)?;
                }
            } else {
                let places: Vec<usize> = index.columns.iter().map(|part| part.column).collect();
                refuse_unindexable(table, &places)?;
            }
        }
        Ok(())
    }

    /// The columns of INCLUDE. The catalogue has them, entries have not: rows are found by their keys.
    pub(super) fn included(&self, table: &Table, columns: &[ast::Ident]) -> Result<Vec<usize>> {
        let place = |ident: &ast::Ident| {
            let name = fold(ident);
            let no_such = || Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist"));
            table.column(&name).ok_or_else(no_such)
        };
        columns.iter().map(place).collect()
    }

    pub(super) fn build_index(&mut self, table: &Arc<Table>, index: &Index) -> Result<()> {
        let expressions = self.with_binder("", |binder| binder.index_expressions(table))?;
        self.with_context(|txn, cx| validate::backfill_index(txn, cx, (table, index), &expressions))
    }
}

/// What an index compares texts by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexedBy {
    /// Their bytes, whatever their collation.
    Bytes,
    /// What finds those that are equal: no order of others is asked for.
    Equality,
    /// Their collation.
    Order,
}

/// Whether a column stands for what may be a sort key.
fn is_sort_key(table: &Table, place: usize) -> bool {
    let column = &table.columns[place];
    column.expression.is_some() && column.ty.ty.element().unwrap_or(column.ty.ty) == Type::Bytea
}

/// Refuses a column of a type that an operator class does not take.
fn expect_taken(class: &TokenClass, ty: Type) -> Result<()> {
    if (class.takes)(ty) {
        return Ok(());
    }
    let message = format!("operator class \"{}\" does not accept data type {}", class.name, ty.sql_name());
    Err(Error::new(SqlState::TYPE_MISMATCH, message))
}

/// An expression without the parentheses around it.
fn bare(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The column of a table that stands for an expression, which may be a new one.
fn stands_for(table: &mut Table, text: String, ty: ColumnType, name: &str) -> usize {
    let is_it = |column: &Column| column.expression.as_ref() == Some(&text) && column.ty == ty;
    let known = table.columns.iter().position(is_it);
    known.unwrap_or_else(|| {
        table.columns.push(Column::of_expression(name, ty, text));
        table.columns.len() - 1
    })
}

/// Refuses an access method that cannot be served by a tree, and what PostgreSQL's own refuses.
fn check_method(method: &str, create: &ast::CreateIndex, has_bloom: bool) -> Result<()> {
    let refused = |what: &str| {
        let message = format!("access method \"{method}\" does not support {what}");
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    match method {
        "hash" if create.unique => refused("unique indexes"),
        "hash" if create.columns.len() > 1 => refused("multicolumn indexes"),
        "bloom" if !has_bloom => {
            Err(Error::new(SqlState::NO_SUCH_OBJECT, "access method \"bloom\" does not exist".to_owned()))
        }
        "hash" | "brin" | "bloom" if !create.include.is_empty() => refused("included columns"),
        "brin" | "bloom" if create.unique => refused("unique indexes"),
        "gin" | "gist" if create.unique => refused("unique indexes"),
        "gin" if !create.include.is_empty() => refused("included columns"),
        "btree" | "hash" | "brin" | "bloom" | "gin" | "gist" => Ok(()),
        "spgist" => Err(Error::unsupported(format_args!("an index of type {}", method.to_ascii_uppercase()))),
        _ => Err(Error::new(SqlState::NO_SUCH_OBJECT, format!("access method \"{method}\" does not exist"))),
    }
}

/// Refuses an operator class that would order a column in another way than its type does.
fn check_operator_class(class: Option<&ast::ObjectName>, ty: Type) -> Result<()> {
    let Some(class) = class else { return Ok(()) };
    let (_, name) = bind::qualified(class)?;
    let no_such = |what: &str| Error::new(SqlState::NO_SUCH_OBJECT, format!("operator class \"{name}\" {what}"));
    // Texts are ordered by their bytes, so patterns need no operator class of their own.
    let of_texts = ["text_ops", "text_pattern_ops", "varchar_ops", "varchar_pattern_ops", "bpchar_ops"];
    if of_texts.contains(&name.as_str()) || name == "bpchar_pattern_ops" {
        return match ty.category() {
            Category::String => Ok(()),
            _ => {
                let message = format!("operator class \"{name}\" does not accept data type {ty}");
                Err(Error::new(SqlState::TYPE_MISMATCH, message))
            }
        };
    }
    // What orders addresses has two names.
    let is_own = name == own_class(ty)
        || ty == Type::Citext && name == "citext_pattern_ops"
        || ty == Type::Hstore && name == "hash_hstore_ops"
        || matches!(ty, Type::Inet | Type::Cidr) && name == "cidr_ops";
    if is_own { Ok(()) } else { Err(no_such("does not exist for access method \"btree\"")) }
}

/// The operator class that columns of a type have.
fn own_class(ty: Type) -> &'static str {
    match ty {
        Type::Text | Type::Varchar => "text_ops",
        Type::Int2 => "int2_ops",
        Type::Int4 => "int4_ops",
        Type::Int8 => "int8_ops",
        Type::Float4 => "float4_ops",
        Type::Float8 => "float8_ops",
        Type::Numeric => "numeric_ops",
        Type::Bool => "bool_ops",
        Type::Date => "date_ops",
        Type::Timestamp => "timestamp_ops",
        Type::TimestampTz => "timestamptz_ops",
        Type::Uuid => "uuid_ops",
        Type::Jsonb => "jsonb_ops",
        Type::Bytea => "bytea_ops",
        Type::Inet => "inet_ops",
        Type::Cidr => "inet_ops",
        Type::MacAddr => "macaddr_ops",
        Type::MacAddr8 => "macaddr8_ops",
        Type::TsVector => "tsvector_ops",
        Type::TsQuery => "tsquery_ops",
        Type::Citext => "citext_ops",
        Type::Hstore => "btree_hstore_ops",
        Type::Ltree => "ltree_ops",
        Type::Vector => "vector_ops",
        Type::Bit => "bit_ops",
        Type::VarBit => "varbit_ops",
        Type::TimeTz => "timetz_ops",
        Type::Money => "money_ops",
        Type::Xid8 => "xid8_ops",
        Type::PgLsn => "pg_lsn_ops",
        Type::Tid => "tid_ops",
        ty if ty.is_range() => "range_ops",
        ty if ty.is_multirange() => "multirange_ops",
        _ => "",
    }
}
