//! Conditions that are alternatives of each other.
//!
//! What all alternatives have in common is asked once, and may find rows by a key or join two
//! tables: `(a = b AND x) OR (a = b AND y)` is `a = b AND (x OR y)`. And what they say of one
//! relation each, that relation can be asked by itself: of `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND
//! b.y = 4)` it follows that `a.x = 1 OR a.x = 3`.
//!
//! Invariant: nothing that gives another value each time, or may fail, is asked once more.

use colibri_types::Result;

use super::constants::may_fail;
use super::{Asked, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::walk::varies;
use crate::logical::{From, Relation, Select};

/// The pass.
pub(super) fn factor(planner: &mut Planner<'_>, select: &mut Select, _asked: &Asked<'_>) -> Result<()> {
    if planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    factor_all(&mut select.filter);
    if select.relations.len() > 1 {
        let implied: Vec<Expr> = select.filter.iter().flat_map(|one| implied_by(one, &select.relations)).collect();
        select.filter.extend(implied);
    }
    if let Some(from) = &mut select.from {
        factor_from(from);
    }
    Ok(())
}

fn factor_from(from: &mut From) {
    if let From::Join { left, right, on, .. } = from {
        factor_all(on);
        factor_from(left);
        factor_from(right);
    }
}

fn factor_all(conditions: &mut Vec<Expr>) {
    for condition in std::mem::take(conditions) {
        match condition {
            Expr::Or(any) => factor_alternatives(any, conditions),
            Expr::And(all) => {
                let mut all = all;
                factor_all(&mut all);
                conditions.extend(all);
            }
            other => conditions.push(other),
        }
    }
}

fn factor_alternatives(any: Vec<Expr>, conditions: &mut Vec<Expr>) {
    let mut alternatives: Vec<Vec<Expr>> = any.into_iter().map(rewrite::conjuncts).collect();
    let is_in = |all: &[Expr], part: &Expr| all.iter().any(|other| rewrite::same(other, part));
    let (first, rest) = alternatives.split_first().map_or((&[][..], &[][..]), |(first, rest)| (&first[..], rest));
    let is_common = |part: &&Expr| !varies(part) && rest.iter().all(|all| is_in(all, part));
    let common: Vec<Expr> = first.iter().filter(is_common).cloned().collect();
    if !common.is_empty() {
        alternatives.iter_mut().for_each(|all| all.retain(|part| !is_in(&common, part)));
    }
    conditions.extend(common);
    // An alternative that asks for nothing else is enough.
    if alternatives.iter().all(|all| !all.is_empty()) {
        conditions.push(Expr::Or(alternatives.into_iter().filter_map(rewrite::conjunction).collect()));
    }
}

/// What follows from alternatives for each relation alone.
fn implied_by(condition: &Expr, relations: &[Relation]) -> Vec<Expr> {
    let Expr::Or(any) = condition else { return Vec::new() };
    let alternatives: Vec<Vec<Expr>> = any.iter().cloned().map(rewrite::conjuncts).collect();
    let mut implied = Vec::new();
    for relation in relations {
        let is_own = |part: &&Expr| {
            let (mut all, mut any) = (true, false);
            rewrite::for_each_column(part, &mut |column| {
                let inside = (relation.base..relation.base + relation.width).contains(&column);
                (all, any) = (all && inside, any || inside);
            });
            all && any && rewrite::is_pure(part) && !varies(part) && !may_fail(part)
        };
        let of_relation = |all: &Vec<Expr>| rewrite::conjunction(all.iter().filter(is_own).cloned().collect());
        let parts: Option<Vec<Expr>> = alternatives.iter().map(of_relation).collect();
        let says_all = alternatives.iter().all(|all| all.iter().all(|part| is_own(&part)));
        if let (Some(parts), false) = (parts, says_all) {
            implied.push(Expr::Or(parts));
        }
    }
    implied
}
