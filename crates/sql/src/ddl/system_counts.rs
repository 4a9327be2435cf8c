//! `UPDATE pg_class SET reltuples = …`: what a superuser says of the sizes of relations.
//!
//! PostgreSQL keeps such numbers until the next ANALYZE. Here they are counted as they are asked
//! for, so a number that was set is as good as forgotten at once: the statement is checked, gives
//! the number of rows that it is about, and changes nothing.

use colibri_types::{Error, Result};
use sqlparser::ast::{self, Statement};

use super::Session;
use crate::bind::{fold, name_parts};

/// The columns of `pg_class` that estimate sizes.
const COUNTS: [(&str, &str); 3] = [("reltuples", "real"), ("relpages", "integer"), ("relallvisible", "integer")];

fn is_pg_class(relation: &ast::TableFactor) -> bool {
    let ast::TableFactor::Table { name, args: None, .. } = relation else { return false };
    let parts = name_parts(name).unwrap_or_default();
    match &parts[..] {
        [name] => fold(name) == "pg_class",
        [schema, name] => fold(schema) == "pg_catalog" && fold(name) == "pg_class",
        _ => false,
    }
}

/// The type of the column that an assignment is about, if it is one of the estimates.
fn type_of_count(assignment: &ast::Assignment) -> Option<&'static str> {
    let ast::AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
    let parts = name_parts(name).ok()?;
    let [column] = &parts[..] else { return None };
    COUNTS.iter().find(|(known, _)| fold(column) == *known).map(|(_, ty)| *ty)
}

/// Whether a statement sets nothing but such numbers.
pub(super) fn is_about(statement: &Statement) -> bool {
    let Statement::Update(update) = statement else { return false };
    is_pg_class(&update.table.relation)
        && update.table.joins.is_empty()
        && update.from.is_none()
        && update.returning.is_none()
        && update.assignments.iter().all(|assignment| type_of_count(assignment).is_some())
}

impl Session {
    /// Checks the statement; gives its command tag.
    pub(super) fn set_system_counts(&mut self, update: &ast::Update) -> Result<String> {
        if !self.authority().is_superuser() {
            return Err(Error::denied("table", "pg_class"));
        }
        let mut query = crate::statement::parse_query("SELECT 1 FROM pg_catalog.pg_class")?;
        if let ast::SetExpr::Select(select) = &mut *query.body {
            select.from = vec![update.table.clone()];
            select.selection.clone_from(&update.selection);
            for assignment in &update.assignments {
                let ty = type_of_count(assignment).unwrap_or("real");
                let cast = crate::statement::parse_query(&format!("SELECT 1::{ty}"))?;
                let ast::SetExpr::Select(cast) = *cast.body else { continue };
                let mut items = cast.projection;
                if let Some(ast::SelectItem::UnnamedExpr(ast::Expr::Cast { expr, .. })) = items.first_mut() {
                    **expr = ast::Expr::Nested(Box::new(assignment.value.clone()));
                }
                select.projection.extend(items);
            }
        }
        let rows = self.count_rows(&query)?;
        Ok(format!("UPDATE {rows}"))
    }
}
