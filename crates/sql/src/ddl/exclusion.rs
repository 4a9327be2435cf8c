//! EXCLUDE: constraints that keep two rows from having equal values in some columns and overlapping
//! ranges in another. How rows are held against it is in `exec`'s `constraints::exclusion`.
//!
//! Invariant: of the index of such a constraint, the columns that are compared as equal are in front,
//! and the ranges behind them; there is one column of ranges at most.

use std::sync::Arc;

use colibri_catalog::{Excluded, Index, IndexColumn};
use colibri_types::{Error, Result, SqlState, Type};
use sqlparser::ast;

use super::Session;
use super::constraint::{KEY_COLUMNS_MAX, refuse_unindexable};
use super::create::Draft;
use super::index::IndexedBy;

impl Session {
    pub(super) fn add_exclusion(&mut self, draft: &mut Draft, exclude: &ast::ExcludeConstraint) -> Result<()> {
        if draft.table.partitioned.is_some() {
            let message = "exclusion constraints are not supported on partitioned tables";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let ast::ExcludeConstraint { name, index_method, elements, include, where_clause, characteristics } = exclude;
        let method =
            index_method.as_ref().map_or_else(|| "btree".to_owned(), |method| method.value.to_ascii_lowercase());
        match method.as_str() {
            "gist" | "btree" | "hash" => {}
            "spgist" => return Err(Error::unsupported("an exclusion constraint with SPGIST")),
            "gin" | "brin" => {
                let message = format!("access method \"{method}\" does not support exclusion constraints");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ => {
                let message = format!("access method \"{method}\" does not exist");
                return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
            }
        }
        if characteristics.is_some_and(|found| found.deferrable == Some(true) || found.initially.is_some()) {
            return Err(Error::unsupported("a deferrable exclusion constraint"));
        }
        let include = self.included(&draft.table, include)?;
        let mut exclusion = Vec::with_capacity(elements.len());
        let (mut equal, mut overlapping) = (Vec::new(), Vec::new());
        let mut parts = vec![draft.table.name.to_string()];
        for ast::ExcludeConstraintElement { column, operator } in elements {
            let (place, name) = self.index_part(&mut draft.table, &column.column.expr, IndexedBy::Bytes)?;
            parts.push(name.to_string());
            let ty = draft.table.columns[place].ty.ty;
            let operator = match operator {
                ast::ExcludeConstraintOperator::Token(symbol) => symbol.clone(),
                ast::ExcludeConstraintOperator::PGOperator(parts) => parts.last().cloned().unwrap_or_default(),
            };
            self.expect_excludable(&method, ty, &operator)?;
            let part = IndexColumn { column: place, descending: false, nulls_first: false };
            if operator == "=" {
                equal.push(part)
            } else {
                overlapping.push(part)
            }
            exclusion.push(Excluded { column: place, operator: operator.into() });
        }
        if overlapping.len() > 1 {
            return Err(Error::unsupported("an exclusion constraint with several columns of ranges"));
        }
        let columns: Vec<IndexColumn> = equal.into_iter().chain(overlapping).collect();
        let places: Vec<usize> = columns.iter().map(|part| part.column).collect();
        refuse_unindexable(&draft.table, &places)?;
        if columns.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let predicate =
            where_clause.as_ref().map(|condition| self.index_predicate(&mut draft.table, condition)).transpose()?;
        parts.extend(include.iter().map(|&column| draft.table.columns[column].name.to_string()));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let name = self.constraint_name(draft, name.as_ref(), &parts, "excl")?;
        self.expect_free(&draft.table.schema, &name)?;
        let (id, space) = (self.new_id()?, self.new_id()?);
        draft.names.push(name.clone());
        let plain = Index::plain(id, name, space, columns, false);
        let method = Some(method).filter(|method| method != "btree").map(Into::into);
        draft.table.indexes.push(Arc::new(Index { constraint: true, predicate, method, exclusion, include, ..plain }));
        Ok(())
    }

    /// Refuses a comparison that is not kept up here, or that the type does not have.
    fn expect_excludable(&self, method: &str, ty: Type, operator: &str) -> Result<()> {
        if method == "gist" && !self.has_gist_class(ty) {
            let message = format!("data type {ty} has no default operator class for access method \"gist\"");
            return Err(Error::new(SqlState::NO_SUCH_OBJECT, message).hint(
                "You must specify an operator class for the index or define a default operator class for the data type.",
            ));
        }
        match operator {
            "=" => Ok(()),
            "&&" if method == "gist" && ty.is_range() => Ok(()),
            "&&" if method == "gist" && ty.is_multirange() => {
                Err(Error::unsupported("an exclusion constraint on multiranges with &&"))
            }
            _ => Err(Error::unsupported(format_args!("an exclusion constraint on {ty} with {operator}"))),
        }
    }
}
