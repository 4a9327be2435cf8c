//! The passes: what becomes of a SELECT between binding and the choice of operators.
//!
//! Each pass rewrites the clauses of one SELECT. The planner goes through a statement's queries
//! from the outermost inwards, and has the passes go over each when it comes to it: then those
//! around it have said which of its columns they need, and have handed their conditions in.
//!
//! Invariant: whatever a pass makes gives the same rows and the same errors as what was there
//! before, for each row that is asked for.

use colibri_types::Result;

use super::alternatives::factor;
use super::decorrelate::decorrelate;
use super::group_keys::shorten_group_keys;
use super::join_order::order_joins;
use super::outer_joins::reduce_outer_joins;
use super::prune::prune_columns;
use super::pull_up::pull_up_queries;
use super::push_filters::push_filters;
use super::{Asked, Planner};
use crate::bind::rewrite;
use crate::expr::{Expr, Inner};
use crate::logical::Select;

pub mod seen;

/// Rewrites a SELECT.
type Pass = fn(&mut Planner<'_>, &mut Select, &Asked<'_>) -> Result<()>;

/// All passes, in their order.
pub(super) const PASSES: &[(&str, Pass)] = &[
    ("pull up queries", pull_up_queries),
    ("fold", fold),
    ("factor", factor),
    ("decorrelate", decorrelate),
    ("reduce outer joins", reduce_outer_joins),
    ("push filters", push_filters),
    ("shorten group keys", shorten_group_keys),
    ("prune columns", prune_columns),
    ("lower", lower),
    ("order joins", order_joins),
];

/// Expressions of constants are computed, conditions that decide or say nothing are left out.
fn fold(planner: &mut Planner<'_>, select: &mut Select, asked: &Asked<'_>) -> Result<()> {
    planner.simplify_select(select, asked.query);
    Ok(())
}

/// Queries that are left inside expressions are planned.
fn lower(planner: &mut Planner<'_>, select: &mut Select, _asked: &Asked<'_>) -> Result<()> {
    let mut lowered = Ok(());
    select.for_each_expr_mut(&mut |expr| {
        if lowered.is_ok() {
            lowered = planner.lower(expr);
        }
    });
    lowered
}

impl Planner<'_> {
    /// Has all passes go over a SELECT.
    pub(super) fn rewrite(&mut self, select: &mut Select, asked: &Asked<'_>) -> Result<()> {
        seen::note(None, select);
        for pass in PASSES {
            (pass.1)(self, select, asked)?;
            seen::note(Some(pass.0), select);
        }
        Ok(())
    }

    /// What the passes do to an expression that stands in no SELECT.
    pub(super) fn prepare(&mut self, expr: &mut Expr) -> Result<()> {
        self.simplify(expr);
        self.lower(expr)
    }

    /// Plans the queries inside an expression.
    pub(super) fn lower(&mut self, expr: &mut Expr) -> Result<()> {
        let mut lowered = Ok(());
        rewrite::for_each_child_mut(expr, &mut |child| {
            if lowered.is_ok() {
                lowered = self.lower(child);
            }
        });
        lowered?;
        let Expr::Subquery(subquery) = expr else { return Ok(()) };
        let Inner::Logical(query) = &subquery.query else { return Ok(()) };
        // Copies of an expression have one plan.
        let fragment = match self.lowered.get(&subquery.id) {
            Some(fragment) => std::sync::Arc::clone(fragment),
            None => {
                let fragment = std::sync::Arc::new(self.inside(query, subquery.args.len())?);
                self.lowered.insert(subquery.id, std::sync::Arc::clone(&fragment));
                fragment
            }
        };
        self.is_of_literals |= fragment.is_of_literals;
        if let (None, Some(error)) = (&self.fails, &fragment.fails) {
            self.fails = Some(error.clone());
        }
        subquery.query = Inner::Planned(fragment);
        Ok(())
    }
}
