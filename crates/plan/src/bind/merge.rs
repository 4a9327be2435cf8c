//! Binding MERGE.
//!
//! The target and the source are one join: of the rows that have no partner in the target, its
//! columns are NULL. What an action looks at is over the wide row, in which the target comes first.
//! WHEN NOT MATCHED does not see the target's columns.

use std::sync::Arc;

use colibri_catalog::{Table, cluster::Authority, cluster::Privileges};
use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{self, Spanned};

use super::elements::Target;
use super::logical::{From, Join, Relation};
use super::view_target::Writing;
use super::write::{BoundValue, Overriding, is_default};
use super::{Binder, Scope, name_span, rewrite, whole};
use crate::expr::Expr;
use crate::plan::{CheckedRow, RowChecks};

/// `MERGE`: into the first relation.
pub struct BoundMerge {
    pub table: Arc<Table>,
    pub relations: Vec<Relation>,
    pub from: From,
    pub actions: Vec<BoundAction>,
}

/// `WHEN … THEN …`
pub struct BoundAction {
    /// Whether it is for rows that have a partner in the target.
    pub is_matched: bool,
    /// Over the wide row, as all expressions are.
    pub condition: Option<Expr>,
    pub what: BoundWhat,
    /// What row-level security demands.
    pub security: RowChecks,
}

pub enum BoundWhat {
    Nothing,
    Delete,
    Update(Vec<(usize, BoundValue)>),
    /// For each of the table's columns, what it gets; and the columns that are given something.
    Insert {
        values: Vec<Expr>,
        columns: Vec<usize>,
    },
}

impl Binder<'_> {
    /// Binds MERGE.
    pub(super) fn merge_statement(&mut self, merge: &ast::Merge) -> Result<BoundMerge> {
        whole::merge(merge)?;
        self.frame().scopes.push(Scope { no_calls: "MERGE WHEN conditions", ..Scope::default() });
        let bound = self.noting_target(|binder| binder.merge_in_scope(merge));
        self.frame().scopes.pop();
        bound
    }

    fn merge_in_scope(&mut self, merge: &ast::Merge) -> Result<BoundMerge> {
        check_reachable(&merge.clauses)?;
        if let ast::TableFactor::Table { name, .. } = &merge.table
            && let Some(colibri_catalog::Relation::View(view)) = self.relation(name)?
        {
            let message = format!("cannot execute MERGE on relation \"{}\"", view.name);
            let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            let error = error.detail("This operation is not supported for views.".to_owned());
            return Err(self.place(name_span(name), error));
        }
        let mut relations = Vec::new();
        let (table, target) = self.target(&merge.table, Writing::Update, &mut relations)?;
        if table.is_tree() {
            return Err(Error::unsupported("MERGE into a table that has partitions or heirs"));
        }
        // The source does not see the target.
        self.scope().tables[0].visible = false;
        let source = self.joined_factor(&merge.source, &mut relations)?;
        let scope = self.scope();
        let name = scope.tables[0].name.clone();
        if scope.tables[1..].iter().any(|table| table.visible && table.name == name) {
            let error = Error::new(SqlState::DUPLICATE_ALIAS, format!("name \"{name}\" specified more than once"))
                .detail("The name is used both as MERGE target table and data source.".to_owned());
            return Err(self.place(merge.source.span(), error));
        }
        scope.tables[0].visible = true;
        self.scope().no_calls = "JOIN conditions";
        let on = rewrite::conjuncts(self.condition(&merge.on, "JOIN/ON")?);
        let subject = self.subject_to(&table)?;
        let mut actions = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            let mut action = self.merge_action(&table, clause)?;
            if let Some(authority) = &subject {
                action.security = self.merge_checks(&table, authority, &action.what)?;
            }
            actions.push(action);
        }
        self.need_for_merge(&table, &actions);
        let has_unmatched = actions.iter().any(|action| !action.is_matched);
        let kind = if has_unmatched { Join::Right } else { Join::Inner };
        // Rows that policies hide are no partners.
        let on = match &subject {
            Some(authority) => {
                let width = relations[0].width;
                Self::behind_policies(self.policy_filter(&table, authority, 'r')?, on, width)
            }
            None => on,
        };
        let from = From::Join { kind, left: Box::new(target), right: Box::new(source), on };
        Ok(BoundMerge { table, relations, from, actions })
    }

    fn merge_checks(&mut self, table: &Table, authority: &Authority, what: &BoundWhat) -> Result<RowChecks> {
        let mut checks = RowChecks::default();
        match what {
            BoundWhat::Nothing => {}
            BoundWhat::Insert { .. } => {
                checks.insert = self.policy_checks(table, authority, ('a', CheckedRow::New, false))?;
            }
            BoundWhat::Update(_) => {
                checks.existing = self.policy_checks(table, authority, ('w', CheckedRow::Target, true))?;
                checks.update = self.update_checks(table, authority, true)?;
            }
            BoundWhat::Delete => {
                checks.existing = self.policy_checks(table, authority, ('d', CheckedRow::Target, true))?;
            }
        }
        Ok(checks)
    }

    /// The source, which may be a join that is not in parentheses.
    fn joined_factor(&mut self, source: &ast::TableFactor, relations: &mut Vec<Relation>) -> Result<From> {
        match source {
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => self.joins(table_with_joins, relations),
            _ => self.factor(source, relations),
        }
    }

    fn need_for_merge(&mut self, table: &Table, actions: &[BoundAction]) {
        for action in actions {
            let (privilege, columns) = match &action.what {
                BoundWhat::Nothing => continue,
                BoundWhat::Delete => (Privileges::DELETE, Vec::new()),
                BoundWhat::Update(assignments) => {
                    (Privileges::UPDATE, assignments.iter().map(|(column, _)| *column).collect())
                }
                BoundWhat::Insert { columns, .. } => (Privileges::INSERT, columns.clone()),
            };
            match privilege {
                Privileges::DELETE => self.need(table.id, &table.schema, privilege),
                _ => self.need_columns(table.id, &table.schema, privilege, columns),
            }
        }
        if let Some(read) = self.target_read.clone() {
            self.need_if_read(table.id, &table.schema, &read);
        }
    }

    fn merge_action(&mut self, table: &Arc<Table>, clause: &ast::MergeClause) -> Result<BoundAction> {
        let is_matched = clause.clause_kind == ast::MergeClauseKind::Matched;
        let scope = self.scope();
        scope.tables[0].visible = is_matched;
        scope.no_calls = "MERGE WHEN conditions";
        let condition = clause.predicate.as_ref().map(|condition| self.condition(condition, "WHEN")).transpose()?;
        let what = match &clause.action {
            ast::MergeAction::DoNothing { .. } => BoundWhat::Nothing,
            ast::MergeAction::Delete { .. } => BoundWhat::Delete,
            ast::MergeAction::Update(ast::MergeUpdateExpr { kind: ast::MergeUpdateKind::Set(assignments), .. }) => {
                self.scope().no_calls = "UPDATE";
                BoundWhat::Update(self.assignments(table, assignments)?)
            }
            ast::MergeAction::Update(_) => return Err(Error::unsupported("UPDATE * in MERGE")),
            ast::MergeAction::Insert(insert) => {
                self.scope().no_calls = "VALUES";
                let (values, columns) = self.merge_insert(table, insert)?;
                BoundWhat::Insert { values, columns }
            }
        };
        self.scope().tables[0].visible = true;
        Ok(BoundAction { is_matched, condition, what, security: RowChecks::default() })
    }

    fn merge_insert(&mut self, table: &Arc<Table>, insert: &ast::MergeInsertExpr) -> Result<(Vec<Expr>, Vec<usize>)> {
        let targets = self.insert_targets(table, &insert.columns)?;
        let explicit = !insert.columns.is_empty();
        let mut values = self.default_row(table, &targets)?;
        let overriding = match &insert.insert_predicate {
            Some(ast::Expr::Identifier(ident)) if ident.value == "system" => Overriding::System,
            Some(_) => Overriding::User,
            None => Overriding::No,
        };
        let ast::MergeInsertKind::Values(ast::Values { rows, .. }) = &insert.kind else {
            return Ok((values, Vec::new()));
        };
        let given: &[ast::Expr] = rows.first().map_or(&[], |row| &row.content);
        let wrong = |message| Error::new(SqlState::SYNTAX_ERROR, message);
        if given.len() > targets.len() {
            let error = wrong("INSERT has more expressions than target columns");
            return Err(self.place(given[targets.len()].span(), error));
        }
        if explicit && given.len() < targets.len() {
            return Err(wrong("INSERT has more target columns than expressions"));
        }
        for (expr, (place, target)) in given.iter().zip(&targets) {
            let place = *place;
            if let (true, Some(target)) = (is_default(expr), target.as_ref().filter(|target| Target::is_part(target))) {
                return Err(self.default_of_part(target));
            }
            let is_ignored = overriding == Overriding::User && table.columns[place].identity.is_some();
            if is_ignored || is_default(expr) {
                continue;
            }
            self.refuse_generated(table, place, overriding)?;
            let bound = self.expr(expr)?;
            let value = self.value_for(table, place, target, bound, expr.span())?;
            self.put(table, place, target, value, &mut values)?;
        }
        let columns = targets.iter().take(given.len()).map(|(place, _)| *place).collect();
        Ok((values, columns))
    }
}

/// Refuses what stands behind a clause that always applies.
fn check_reachable(clauses: &[ast::MergeClause]) -> Result<()> {
    for (number, clause) in clauses.iter().enumerate() {
        let is_final =
            |before: &ast::MergeClause| before.clause_kind == clause.clause_kind && before.predicate.is_none();
        if clauses[..number].iter().any(is_final) {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(())
}
