//! CREATE INDEX.

use std::sync::Arc;

use colibri_catalog::{Change, Index, IndexColumn, Table};
use colibri_types::{Category, Error, Result, SqlState, Type};
use sqlparser::ast;

use super::Session;
use super::constraint::{KEY_COLUMNS_MAX, refuse_unindexable};
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
        self.expect_not_in_use(&table, "CREATE INDEX")?;
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
            check_operator_class(column.operator_class.as_ref(), table.columns[place].ty.ty)?;
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
        self.check_included(&table, &create.include)?;
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
        let (id, space) = (self.new_id()?, self.new_id()?);
        let index = Index { id, name, space, columns, unique: create.unique, constraint: false };
        self.build_index(&table, &index)?;
        let mut changed = (*table).clone();
        changed.indexes.push(Arc::new(index));
        self.change(vec![Change::PutTable(changed)])
    }

    /// Checks that the columns of INCLUDE exist. They are not stored: rows are found by their keys.
    pub(super) fn check_included(&self, table: &Table, columns: &[ast::Ident]) -> Result<()> {
        match columns.iter().map(fold).find(|name| table.column(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist"))),
        }
    }

    pub(super) fn build_index(&mut self, table: &Table, index: &Index) -> Result<()> {
        self.with_context(|txn, cx| validate::backfill_index(txn, cx, table, index))
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
    let own = match ty {
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
        _ => "",
    };
    if name == own { Ok(()) } else { Err(no_such("does not exist for access method \"btree\"")) }
}
