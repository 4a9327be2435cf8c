//! Row-level security: which policies a statement is subject to, and what becomes of it.
//!
//! A table that is read becomes a query with the policies' conditions, a *barrier*. Conditions from
//! outside go into it only if they cannot tell of rows that the policies hide
//! ([`is_leakproof`]); it becomes a part of the SELECT around it only if all conditions there are
//! such. The rows that UPDATE and DELETE look for are those of the table itself: what could tell of
//! hidden rows is evaluated there only where the policies' conditions are true.
//!
//! What is written is checked by the operator that writes it ([`RowChecks`]).
//!
//! Whose policies they are: those of the user, or of the owner of the view that names the table.
//! Queries inside of policies have the same rights, and are subject to policies themselves.
//!
//! Invariants: a plan that has to do with a table of this kind is no other session's, and is made
//! anew when the role or `row_security` changes.

use std::sync::Arc;

use colibri_catalog::cluster::{Authority, PUBLIC_ROLE, RoleId};
use colibri_catalog::{Policy, Table};
use colibri_types::{Datum, Error, Modifier, Result, SqlState, Type};
use sqlparser::ast::VisitMut as _;

use super::logical::{Body, Column, Distinct, From, Query, Relation, Select, Source};
use super::{Binder, Frame, Scope, rewrite, stored};
use crate::expr::Expr;
use crate::plan::{CheckedRow, RowCheck, RowChecks};

/// Who a statement runs as.
pub trait Rights {
    /// The rights of a role, or of the user.
    fn authority(&self, role: Option<RoleId>) -> Arc<Authority>;

    /// The setting `row_security`.
    fn row_security(&self) -> bool;
}

/// Policies that hold for somebody.
#[derive(Default)]
pub(super) struct Policies {
    permissive: Vec<Arc<Policy>>,
    restrictive: Vec<Arc<Policy>>,
}

/// Whether evaluating an expression tells nothing of a row but by its value: it cannot fail, and
/// does nothing else.
pub fn is_leakproof(expr: &Expr) -> bool {
    let cannot_fail = |from: Type, to: Type| {
        matches!(
            (from, to),
            (Type::Varchar | Type::Text | Type::Name, Type::Text | Type::Varchar)
                | (Type::Int2, Type::Int4 | Type::Int8)
                | (Type::Int4, Type::Int8)
        )
    };
    !rewrite::any(expr, &|part| {
        !matches!(
            part,
            Expr::Cast { from, to, .. } if to.domain.is_none() && to.modifier == Modifier::NONE && cannot_fail(*from, to.ty)
        ) && !matches!(
            part,
            Expr::Const(_)
                | Expr::Param(_)
                | Expr::Arg(_)
                | Expr::Column(_)
                | Expr::Compare { .. }
                | Expr::CompareRows { .. }
                | Expr::And(_)
                | Expr::Or(_)
                | Expr::Not(_)
                | Expr::IsNull { .. }
                | Expr::IsBool { .. }
                | Expr::Coalesce(_)
                | Expr::InList { .. }
                | Expr::Array { .. }
                | Expr::AnyOf { test: crate::expr::Test::Compare(_), .. }
        )
    })
}

impl Binder<'_> {
    /// The rights that a table's policies are applied to; `None` if the policies do not apply to the user.
    pub(super) fn subject_to(&mut self, table: &Table) -> Result<Option<Arc<Authority>>> {
        if !table.security.enabled || self.ignores_policies {
            return Ok(None);
        }
        self.is_personal = true;
        let Some(rights) = self.sizes.rights() else { return Ok(None) };
        let authority = rights.authority(self.by);
        let is_owner = authority.has_role(table.owner);
        if authority.bypasses_security() || is_owner && !table.security.forced {
            return Ok(None);
        }
        if !rights.row_security() {
            let message = format!("query would be affected by row-level security policy for table \"{}\"", table.name);
            let error = Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
            return Err(match is_owner {
                true => error
                    .hint("To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY."),
                false => error,
            });
        }
        Ok(Some(authority))
    }

    /// Refuses COPY FROM into a table if its policies apply to the user.
    pub fn expect_no_policies(&mut self, table: &Table) -> Result<()> {
        if self.subject_to(table)?.is_none() {
            return Ok(());
        }
        let message = "COPY FROM not supported with row-level security";
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("Use INSERT statements instead."))
    }

    /// The condition of a policy over a row of its table.
    pub fn policy_condition(&mut self, text: &str, table: &Table) -> Result<Expr> {
        if self.policies.contains(&table.id) {
            let message = format!("infinite recursion detected in policy for relation \"{}\"", table.name);
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        let parsed = colibri_syntax::parse_expr(text)?;
        let search_path = std::mem::replace(&mut self.search_path, &stored::SEARCH_PATH);
        let meanings = self.meanings.take();
        let text = std::mem::take(&mut self.text);
        let is_stored = std::mem::replace(&mut self.is_stored, true);
        let bound = self.over_policy_row(table, |binder| binder.condition(&parsed, "POLICY"));
        self.is_stored = is_stored;
        self.text = text;
        self.meanings = meanings;
        self.search_path = search_path;
        bound
    }

    /// The users' operators in a text of the catalogue that sees a row of a table.
    ///
    /// # Errors
    /// It cannot be bound.
    pub fn operators_in(&mut self, text: &str, table: &Table) -> Result<Vec<u32>> {
        let parsed = colibri_syntax::parse_expr(text)?;
        let search_path = std::mem::replace(&mut self.search_path, &stored::SEARCH_PATH);
        let is_stored = std::mem::replace(&mut self.is_stored, true);
        let bound = self.over_policy_row(table, |binder| binder.expr(&parsed).map(drop));
        self.is_stored = is_stored;
        self.search_path = search_path;
        self.needs.clear();
        bound?;
        Ok(std::mem::take(&mut self.used_operators))
    }

    /// Binds something that sees a row of a table and nothing else.
    fn over_policy_row<T>(&mut self, table: &Table, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let with = std::mem::take(&mut self.with);
        let frames = std::mem::replace(&mut self.frames, vec![Frame::default()]);
        let variables = self.variables.take();
        let target_view = self.target_view.take();
        let is_outermost = std::mem::replace(&mut self.is_outermost, false);
        self.policies.push(table.id);
        self.frame().scopes.push(Scope { no_calls: "policy expressions", ..Scope::default() });
        self.scope_for_table(table, &table.name.clone(), false);
        let bound = bind(self);
        self.policies.pop();
        self.is_outermost = is_outermost;
        self.target_view = target_view;
        self.variables = variables;
        self.frames = frames;
        self.with = with;
        bound
    }

    /// The text of a new policy's condition as it is kept, with names written out.
    pub fn stored_policy(&mut self, text: &str, table: &Table) -> Result<String> {
        let parsed = colibri_syntax::parse_expr(text)?;
        self.over_policy_row(table, |binder| binder.condition(&parsed, "POLICY"))?;
        let ((), meanings) = self
            .noting(|binder| binder.over_policy_row(table, |binder| binder.condition(&parsed, "POLICY").map(drop)))?;
        let mut written = parsed;
        let _ = written.visit(&mut stored::Writer { meanings });
        self.qualify_types(&mut written);
        let text = written.to_string();
        self.policy_condition(&text, table)?;
        Ok(text)
    }

    fn policies_of(table: &Table, authority: &Authority, command: char) -> Policies {
        let mut policies = Policies::default();
        for policy in &table.security.policies {
            let is_for = |&role: &RoleId| role == PUBLIC_ROLE || authority.has_role(role);
            if !(policy.command == '*' || policy.command == command) || !policy.roles.iter().any(is_for) {
                continue;
            }
            match policy.permissive {
                true => policies.permissive.push(Arc::clone(policy)),
                false => policies.restrictive.push(Arc::clone(policy)),
            }
        }
        policies
    }

    /// The conditions by which rows are there for a command: those of USING.
    pub(super) fn policy_filter(&mut self, table: &Table, authority: &Authority, command: char) -> Result<Vec<Expr>> {
        let Policies { permissive, restrictive } = Self::policies_of(table, authority, command);
        let mut all = Vec::new();
        for policy in restrictive {
            if let Some(text) = &policy.using {
                all.extend(rewrite::conjuncts(self.policy_condition(text, table)?));
            }
        }
        all.extend(rewrite::conjuncts(self.any_of(table, permissive.iter().map(|policy| policy.using.as_deref()))?));
        Ok(all)
    }

    /// What one of some policies allows. Those without a condition allow nothing.
    fn any_of<'p>(&mut self, table: &Table, texts: impl Iterator<Item = Option<&'p str>>) -> Result<Expr> {
        let mut any = Vec::new();
        for text in texts.flatten() {
            any.push(self.policy_condition(text, table)?);
        }
        Ok(match any.len() {
            0 => Expr::Const(Datum::Bool(false)),
            1 => any.swap_remove(0),
            _ => Expr::Or(any),
        })
    }

    /// What rows have to fulfil that a command writes, or finds: with `by_using` the conditions of
    /// USING, and otherwise those of WITH CHECK, or of USING where there is none.
    pub(super) fn policy_checks(
        &mut self,
        table: &Table,
        authority: &Authority,
        (command, of, by_using): (char, CheckedRow, bool),
    ) -> Result<Vec<RowCheck>> {
        let Policies { permissive, restrictive } = Self::policies_of(table, authority, command);
        let text = |policy: &Policy| match (by_using, &policy.check) {
            (false, Some(check)) => Some(check.clone()),
            _ => policy.using.clone(),
        };
        let has_any = permissive.iter().any(|policy| text(policy).is_some());
        let texts: Vec<Option<String>> = permissive.iter().map(|policy| text(policy)).collect();
        let condition = self.any_of(table, texts.iter().map(Option::as_deref))?;
        let check = |policy, condition| RowCheck { of, table: table.name.clone(), policy, of_view: false, condition };
        let mut checks = vec![check(None, condition)];
        for policy in restrictive.iter().filter(|_| has_any) {
            if let Some(text) = text(policy) {
                let condition = self.policy_condition(&text, table)?;
                checks.push(check(Some(policy.name.clone()), condition));
            }
        }
        Ok(checks)
    }

    /// The query that stands for a table that is read: its rows as far as policies show them.
    pub(super) fn barrier(
        &mut self,
        table: &Arc<Table>,
        source: Source,
        authority: &Authority,
        columns: &[Column],
    ) -> Result<Source> {
        let filter = self.policy_filter(table, authority, 'r')?;
        let width = columns.len();
        let output = |at: usize| match table.columns.get(at) {
            Some(column) if column.dropped => Expr::Const(Datum::Null),
            _ => Expr::Column(at),
        };
        let select = Select {
            relations: vec![Relation::new(0, width, source, table.name.clone())],
            from: Some(From::Relation(0)),
            filter,
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output: (0..width).map(output).collect(),
            distinct: Distinct::No,
        };
        let mut query = Query::plain(Body::Select(Box::new(select)), columns.to_vec());
        query.barrier = Some(Arc::clone(table));
        Ok(Source::Query(Box::new(query)))
    }

    /// Has the relation that was added last, a barrier, look like its table to names.
    pub(super) fn looks_like_table(&mut self, table: &Table) {
        if let Some(last) = self.scope().tables.last_mut() {
            last.oid = Some(table.id);
            last.marker = super::from::marker(table).map(|place| last.base + place);
            last.row_name = table.name.clone();
        }
    }

    /// Rows behind a barrier are locked: they have to be there for UPDATE as well.
    pub(super) fn lock_behind_barrier(&mut self, query: &mut Query) -> Result<()> {
        let Some(table) = query.barrier.clone() else { return Ok(()) };
        let Some(authority) = self.subject_to(&table)? else { return Ok(()) };
        let filter = self.policy_filter(&table, &authority, 'w')?;
        if let Body::Select(select) = &mut query.body {
            select.filter.extend(filter);
        }
        Ok(())
    }

    /// The conditions of a statement that changes or deletes rows, behind those of policies:
    /// whatever could tell of a hidden row is looked at only of others.
    pub(super) fn behind_policies(policies: Vec<Expr>, conditions: Vec<Expr>, width: usize) -> Vec<Expr> {
        let shown = rewrite::conjunction(policies.clone());
        let mut all = policies;
        for condition in conditions {
            let mut is_about_row = false;
            rewrite::for_each_column(&condition, &mut |column| is_about_row |= column < width);
            all.push(match &shown {
                Some(shown) if is_about_row && !is_leakproof(&condition) => Expr::Case {
                    arms: vec![(shown.clone(), condition)],
                    otherwise: Box::new(Expr::Const(Datum::Bool(false))),
                },
                _ => condition,
            });
        }
        all
    }

    /// What is checked of the rows of an UPDATE, or of what ON CONFLICT and MERGE change.
    pub(super) fn update_checks(&mut self, table: &Table, authority: &Authority, reads: bool) -> Result<Vec<RowCheck>> {
        let mut checks = self.policy_checks(table, authority, ('w', CheckedRow::New, false))?;
        if reads {
            checks.extend(self.policy_checks(table, authority, ('r', CheckedRow::New, true))?);
        }
        Ok(checks)
    }

    /// What is checked of the rows of an INSERT.
    pub(super) fn insert_checks(
        &mut self,
        table: &Table,
        authority: &Authority,
        (reads, updates): (bool, bool),
    ) -> Result<RowChecks> {
        let mut insert = self.policy_checks(table, authority, ('a', CheckedRow::New, false))?;
        if reads {
            insert.extend(self.policy_checks(table, authority, ('r', CheckedRow::New, true))?);
        }
        let mut checks = RowChecks { insert, ..RowChecks::default() };
        if updates {
            checks.existing = self.policy_checks(table, authority, ('w', CheckedRow::InTheWay, true))?;
            if reads {
                checks.existing.extend(self.policy_checks(table, authority, ('r', CheckedRow::InTheWay, true))?);
            }
            checks.update = self.update_checks(table, authority, reads)?;
        }
        Ok(checks)
    }
}
