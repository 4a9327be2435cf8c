//! Changes of a partitioned table, as changes of each of the tables that have its rows.

use std::sync::Arc;

use colibri_types::{Error, Result};

use crate::bind::WrittenTree;
use crate::expr::Expr;
use crate::plan::partitions::{Leaf, Tree};
use crate::plan::{
    Arbiter, AssignedValue, Assignment, ConflictAction, Delete, Insert, Node, OnConflict, RowChecks, TreeChange, Update,
};

/// Calls something for each column of a tree's rows that a change needs: all of them.
pub(super) fn for_each_column(tree: &Tree, need: &mut dyn FnMut(usize)) {
    tree.root.live_columns().for_each(|(column, _)| need(column));
    need(tree.root.columns.len());
    need(tree.leaf_column());
}

fn no_source() -> Node {
    Node::Values { rows: [].into() }
}

fn own(leaf: &Leaf, exprs: Option<&[Expr]>) -> Option<Vec<Expr>> {
    let of_leaf = |expr: &Expr| {
        let mut expr = expr.clone();
        leaf.own(&mut expr);
        expr
    };
    exprs.map(|exprs| exprs.iter().map(of_leaf).collect())
}

fn own_checks(leaf: &Leaf, checks: &RowChecks) -> RowChecks {
    checks.mapped(|expr| {
        let mut expr = expr.clone();
        leaf.own(&mut expr);
        expr
    })
}

/// Assignments to columns of the root as those to columns of a leaf, whose values `own` makes.
fn assignments(leaf: &Leaf, all: &[Assignment], own: &dyn Fn(&Expr) -> Expr) -> Vec<Assignment> {
    let of_leaf = |assignment: &Assignment| {
        let column = leaf.columns.get(assignment.column).copied().flatten()?;
        let value = match &assignment.value {
            AssignedValue::Expr(expr) => AssignedValue::Expr(own(expr)),
            AssignedValue::Generated(expr) => AssignedValue::Generated(own(expr)),
            AssignedValue::Add { amount, function } => AssignedValue::Add { amount: own(amount), function },
        };
        Some(Assignment { column, value })
    };
    all.iter().filter_map(of_leaf).collect()
}

/// ON CONFLICT of a leaf.
fn conflict(tree: &Tree, leaf: &Leaf, conflict: &OnConflict) -> Result<OnConflict> {
    let missing = || Error::internal("a partition lacks an index of its table");
    let arbiter = |arbiter: &Arbiter| {
        Ok(match arbiter {
            Arbiter::Key => Arbiter::Key,
            Arbiter::Index(index) => {
                let own = leaf.indexes.iter().find(|(root, _)| *root == index.id).ok_or_else(missing)?;
                Arbiter::Index(Arc::clone(&own.1))
            }
        })
    };
    let width = tree.root.columns.len();
    // The row in the way, then the proposed one.
    let own = |expr: &Expr| {
        let mut expr = expr.clone();
        crate::expr::walk::substitute(&mut expr, &|place| match place.checked_sub(width) {
            None => leaf.column(place, 0),
            Some(place) => leaf.column(place, leaf.table.columns.len()),
        });
        expr
    };
    let action = match &conflict.action {
        ConflictAction::Nothing => ConflictAction::Nothing,
        ConflictAction::Update { assignments: all, condition } => {
            ConflictAction::Update { assignments: assignments(leaf, all, &own), condition: condition.as_ref().map(own) }
        }
    };
    Ok(OnConflict { arbiters: conflict.arbiters.iter().map(arbiter).collect::<Result<_>>()?, action })
}

pub(super) fn inserts(
    written: WrittenTree,
    on_conflict: Option<&OnConflict>,
    (returning, security): (Option<&[Expr]>, &RowChecks),
) -> Result<TreeChange<Insert>> {
    let WrittenTree { tree, rules } = written;
    let of_leaf = |(leaf, rules): (&Leaf, _)| {
        Ok(Arc::new(Insert {
            table: Arc::clone(&leaf.table),
            source: no_source(),
            on_conflict: on_conflict.map(|one| conflict(&tree, leaf, one)).transpose()?,
            returning: own(leaf, returning),
            rules,
            security: own_checks(leaf, security),
            tree: None,
        }))
    };
    let leaves = tree.leaves.iter().zip(rules).map(of_leaf).collect::<Result<_>>()?;
    Ok(TreeChange { tree, leaves })
}

pub(super) fn updates(
    written: WrittenTree,
    all: &[Assignment],
    (returning, security): (Option<&[Expr]>, &RowChecks),
) -> TreeChange<Update> {
    let WrittenTree { tree, rules } = written;
    let of_leaf = |(leaf, rules): (&Leaf, _)| {
        let of_row = |expr: &Expr| {
            let mut expr = expr.clone();
            leaf.own(&mut expr);
            expr
        };
        Arc::new(Update {
            table: Arc::clone(&leaf.table),
            source: no_source(),
            assignments: assignments(leaf, all, &of_row),
            returning: own(leaf, returning),
            rules,
            security: own_checks(leaf, security),
            tree: None,
        })
    };
    let leaves = tree.leaves.iter().zip(rules).map(of_leaf).collect();
    TreeChange { tree, leaves }
}

pub(super) fn deletes(written: WrittenTree, returning: Option<&[Expr]>) -> TreeChange<Delete> {
    let WrittenTree { tree, rules } = written;
    let of_leaf = |(leaf, rules): (&Leaf, _)| {
        Arc::new(Delete {
            table: Arc::clone(&leaf.table),
            source: no_source(),
            returning: own(leaf, returning),
            rules,
            tree: None,
        })
    };
    let leaves = tree.leaves.iter().zip(rules).map(of_leaf).collect();
    TreeChange { tree, leaves }
}
