//! What a row has to obey on its own: NOT NULL, CHECK, and uniqueness; and how violations are
//! reported.
//!
//! Foreign keys are in [`references`] and `actions`, rows that were there before a constraint in
//! [`validate`].
//!
//! Invariants: messages, details and codes are PostgreSQL's. A transaction that writes a unique key
//! first takes the key's lock exclusively, and then looks whether the key is there. (The lock is that
//! of the row's key in the table's space, or of the indexed columns' bytes in the index' space.) So
//! of two transactions that write the same key at once one waits for the other.

mod actions;
pub mod deferred;
pub(super) mod exclusion;
pub mod expressions;
pub mod references;
pub(crate) mod security;
#[cfg(test)]
mod tests;
pub mod validate;

use std::fmt::Write as _;
use std::ops::ControlFlow;

use colibri_catalog::{Column, Index, Table, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, IfLocked, Key, LockMode, Space, Transaction};
use colibri_types::functions::quote_identifier;
use colibri_types::{Datum, Env, Error, Result, SqlState, Type, cast, text_io};

use super::Exec;
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::expr::walk;
use crate::plan::partitions::{Router, Target, Tree};
use crate::plan::{Access, Node, TableRules};
use smallvec::SmallVec;

/// Bytes of a value that a detail shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Appends a value as details of errors show it.
fn write_value(table: &Table, column: usize, value: &Datum, env: &Env, out: &mut String) {
    let ty = table.columns[column].ty;
    match (value, ty.ty) {
        (Datum::Null, _) => out.push_str("null"),
        (_, Type::Char) => text_io::write(ty.ty, &cast::pad_char(value, ty.modifier), env, out),
        _ => text_io::write(ty.ty, value, env, out),
    }
}

/// `Failing row contains (1, null).`
pub(super) fn failing_row(table: &Table, row: &[Datum], env: &Env) -> String {
    let mut text = String::from("Failing row contains (");
    let mut shown = String::new();
    for (at, (column, _)) in table.live_columns().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        shown.clear();
        write_value(table, column, &row[column], env, &mut shown);
        if shown.len() > SHOWN_BYTES_MAX {
            let end = (0..=SHOWN_BYTES_MAX).rev().find(|&end| shown.is_char_boundary(end)).unwrap_or(0);
            shown.truncate(end);
            shown.push_str("...");
        }
        text.push_str(&shown);
    }
    text.push_str(").");
    text
}

/// The column that an index's column shows in messages: that of the text whose sort key it has, if the
/// row has that, and otherwise itself.
fn column_shown(table: &Table, place: usize, row: &[Datum]) -> usize {
    let column = &table.columns[place];
    let Some(expression) = column.expression.as_deref().filter(|_| column.ty.ty == Type::Bytea) else { return place };
    let is_it =
        |known: &Column| !known.dropped && known.expression.is_none() && quote_identifier(&known.name) == *expression;
    let found = table.columns.iter().position(is_it);
    found.filter(|&found| row.get(found).is_some_and(|value| !value.is_null())).unwrap_or(place)
}

/// `Key (a, b)=(1, 2)`
pub(super) fn key_text<'a>(
    table: &Table,
    columns: impl Iterator<Item = usize> + Clone,
    values: impl Iterator<Item = &'a Datum>,
    env: &Env,
) -> String {
    let mut text = String::from("Key (");
    for (at, column) in columns.clone().enumerate() {
        let separator = if at > 0 { ", " } else { "" };
        // Writing to a string cannot fail.
        let column = &table.columns[column];
        let _ = write!(text, "{separator}{}", column.expression.as_deref().unwrap_or(&column.name));
    }
    text.push_str(")=(");
    for (at, (column, value)) in columns.zip(values).enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        write_value(table, column, value, env, &mut text);
    }
    text.push(')');
    text
}

/// `null value in column "a" of relation "t" violates not-null constraint`
#[cold]
pub(super) fn null_violation(table: &Table, column: usize, row: &[Datum], env: &Env) -> Error {
    let name = &table.columns[column].name;
    let message =
        format!("null value in column \"{name}\" of relation \"{}\" violates not-null constraint", table.name);
    Error::new(SqlState::NOT_NULL_VIOLATION, message).detail(failing_row(table, row, env)).about(
        &table.schema,
        &table.name,
        Some(name),
        None,
    )
}

/// `duplicate key value violates unique constraint "t_pkey"`, by the primary key (`None`) or an
/// index.
#[cold]
pub(super) fn duplicate(table: &Table, index: Option<&Index>, row: &[Datum], env: &Env) -> Error {
    let (name, columns) = unique_columns(table, index);
    let columns = columns.iter().map(|&column| column_shown(table, column, row));
    let key = key_text(table, columns.clone(), columns.map(|column| &row[column]), env);
    Error::new(SqlState::UNIQUE_VIOLATION, format!("duplicate key value violates unique constraint \"{name}\""))
        .detail(format!("{key} already exists."))
        .about(&table.schema, &table.name, None, Some(name))
}

/// `could not create unique index "i"`
#[cold]
pub(super) fn duplicate_in_old_rows(table: &Table, index: Option<&Index>, row: &[Datum], env: &Env) -> Error {
    let (name, columns) = unique_columns(table, index);
    let columns = columns.iter().map(|&column| column_shown(table, column, row));
    let key = key_text(table, columns.clone(), columns.map(|column| &row[column]), env);
    Error::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{name}\""))
        .detail(format!("{key} is duplicated."))
        .about(&table.schema, &table.name, None, Some(name))
}

fn unique_columns<'a>(table: &'a Table, index: Option<&'a Index>) -> (&'a str, Vec<usize>) {
    match (index, &table.primary_key) {
        (Some(index), _) => (&index.name, index.columns.iter().map(|part| part.column).collect()),
        (None, Some(primary)) => (&primary.name, primary.columns.clone()),
        (None, None) => ("", Vec::new()),
    }
}

/// Whether a column has a value in every row.
#[inline]
pub(super) fn takes_no_null(table: &Table, column: usize) -> bool {
    table.columns[column].not_null || table.key_columns().contains(&column)
}

/// NOT NULL of a row's columns, of which the first that is violated is told.
#[inline]
pub(super) fn check_not_null(table: &Table, row: &[Datum], env: &Env) -> Result<()> {
    for (column, (value, definition)) in row.iter().zip(&table.columns).enumerate() {
        if value.is_null() && takes_no_null(table, column) && !definition.dropped {
            return Err(null_violation(table, column, row, env));
        }
    }
    Ok(())
}

/// One CHECK of a row.
pub(super) fn check_condition(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    rules: &TableRules,
    check: usize,
    row: &[Datum],
) -> Result<()> {
    let (name, condition) = &rules.checks[check];
    if condition.truth(&mut ex.scope(), row)? == Some(false) {
        let by_view = check >= rules.of_views;
        return Err(if by_view { view_violation } else { check_violation }(table, name, row, ex.cx.env));
    }
    Ok(())
}

#[cold]
fn view_violation(table: &Table, view: &str, row: &[Datum], env: &Env) -> Error {
    let message = format!("new row violates check option for view \"{view}\"");
    Error::new(SqlState("44000"), message).detail(failing_row(table, row, env))
}

#[cold]
fn check_violation(table: &Table, name: &str, row: &[Datum], env: &Env) -> Error {
    let message = format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
    Error::new(SqlState::CHECK_VIOLATION, message).detail(failing_row(table, row, env)).about(
        &table.schema,
        &table.name,
        None,
        Some(name),
    )
}

/// Whether a row goes to the partition that it is written to.
pub(super) fn is_in_partition(ex: &mut Exec<'_, '_>, rules: &TableRules, row: &[Datum]) -> Result<bool> {
    for (router, child) in &rules.partition {
        if find_partition(ex, router, row)? != Some(*child) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The child of a partitioned table that a row goes to.
pub(super) fn find_partition(ex: &mut Exec<'_, '_>, router: &Router, row: &[Datum]) -> Result<Option<usize>> {
    let mut key: SmallVec<[Datum; 2]> = SmallVec::new();
    for column in &router.keys {
        key.push(column.expr.eval_owned(&mut ex.scope(), row)?);
    }
    Ok(router.find(&key))
}

/// The key of a partitioned table that a row has: `(a, b) = (1, 2)`.
#[cold]
pub(super) fn key_values_text(ex: &mut Exec<'_, '_>, router: &Router, row: &[Datum]) -> Result<String> {
    let names: Vec<&str> = router.keys.iter().map(|key| key.name.as_str()).collect();
    let mut values = Vec::new();
    for key in &router.keys {
        let value = key.expr.eval_owned(&mut ex.scope(), row)?;
        let mut text = String::new();
        match &value {
            Datum::Null => text.push_str("null"),
            value => text_io::write(key.ty.ty, value, ex.cx.env, &mut text),
        }
        values.push(text);
    }
    Ok(format!("({}) = ({})", names.join(", "), values.join(", ")))
}

/// The leaf that a row goes to, which begins with the columns of the root; or the router that has no
/// child for it.
pub(super) fn find_leaf(
    ex: &mut Exec<'_, '_>,
    tree: &Tree,
    row: &[Datum],
) -> Result<std::result::Result<usize, usize>> {
    let mut at = 0;
    loop {
        let of_router = tree.routers.get(at).ok_or_else(|| Error::internal("a tree has no router"))?;
        match find_partition(ex, &of_router.router, row)?.and_then(|place| of_router.targets.get(place)) {
            Some(Target::Leaf(leaf)) => return Ok(Ok(*leaf)),
            Some(Target::Router(below)) => at = *below,
            None => return Ok(Err(at)),
        }
    }
}

/// 23514: a row belongs into another partition.
#[cold]
pub(super) fn partition_violation(table: &Table, row: &[Datum], env: &Env) -> Error {
    let message = format!("new row for relation \"{}\" violates partition constraint", table.name);
    Error::new(SqlState::CHECK_VIOLATION, message).detail(failing_row(table, row, env)).about(
        &table.schema,
        &table.name,
        None,
        None,
    )
}

/// The first entry that begins with a prefix, if there is one. The transaction depends on the
/// answer.
pub(super) fn find_entry(txn: &mut dyn Transaction, space: &Space, prefix: &[u8]) -> Result<Option<Key>> {
    let range = record::prefix_range(Key::from_slice(prefix));
    let mut found = None;
    txn.scan(space, &range, Direction::Forward, ColumnSet::NONE, 1, &mut |key, _| {
        found = Some(Key::from_slice(key));
        ControlFlow::Break(())
    })
    .in_sql()?;
    Ok(found)
}

/// Locks what a row of a unique index has to have for itself, and fails if another row has it.
#[inline]
pub(super) fn claim_index_values(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    index: &Index,
    values: &[u8],
    row: &[Datum],
) -> Result<()> {
    let space = index.space();
    ex.txn.lock(&space, values, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
    let Some(entry) = find_entry(ex.txn, &space, values)? else { return Ok(()) };
    // Bug: the row counted although another transaction was about to delete it, or to change its value.
    // Consequence: what would have been free a moment later was a duplicate. Fix: that one's end is waited
    // for, after which the statement begins anew if the row has changed.
    let key = Key::from_slice(record::split_index_entry(table, index, &entry)?);
    ex.txn.lock(&table.space(), &key, LockMode::KeyShare, IfLocked::Wait).in_sql()?;
    Err(duplicate(table, Some(index), row, ex.cx.env))
}

/// Locks a row's key, and fails if there is such a row. Hidden numbers are new, always.
#[inline]
pub(super) fn claim_key(ex: &mut Exec<'_, '_>, table: &Table, space: &Space, key: &[u8], row: &[Datum]) -> Result<()> {
    if table.primary_key.is_none() {
        return Ok(());
    }
    ex.txn.lock(space, key, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
    if ex.txn.get(space, key, ColumnSet::NONE).in_sql()?.is_some() {
        return Err(duplicate(table, None, row, ex.cx.env));
    }
    Ok(())
}

/// Whether an expression looks at one of the columns for which `is_meant` says so.
pub(super) fn looks_at(expr: &Expr, is_meant: &dyn Fn(usize) -> bool) -> bool {
    walk::any(expr, &|part| matches!(part, Expr::Column(column) if is_meant(*column)))
}

/// Whether evaluating an expression may read a table.
pub(super) fn has_query(expr: &Expr) -> bool {
    walk::any(expr, &|part| match part {
        Expr::Subquery(_) | Expr::Session { .. } => true,
        Expr::Domain { rules, .. } => rules.asks_session,
        _ => false,
    })
}

/// Whether a source's rows may depend on what is written to a table while they are read.
pub(super) fn reads_table(node: &Node, table: &Table) -> bool {
    reads(node, table, true, &mut Vec::new())
}

/// The same; shared queries that were `seen` do not. What is run `once` is run when the first row
/// is asked for.
///
/// Bug: the inner side of a nested loop was taken to have read all of its input with its first row
/// if it was an aggregate or a sort. Consequence: `INSERT INTO t SELECT … FROM x, LATERAL (SELECT
/// count(*) FROM t …)` counted the rows that it had put in itself. Fix: what is run again for each
/// outer row reads again.
fn reads(node: &Node, table: &Table, once: bool, seen: &mut Vec<usize>) -> bool {
    let mut all = |nodes: &[&Node]| nodes.iter().any(|node| reads(node, table, once, seen));
    match node {
        Node::Values { rows } => rows.len() > 1 && rows.iter().flatten().any(reads_anything),
        Node::Series { args, .. } => args.iter().any(reads_anything),
        // Working rows come from a recursive query, whose terms are looked at where it stands.
        // So do the outer rows of a join.
        Node::Working { .. } | Node::Rest { .. } => false,
        Node::System { lookup, .. } => {
            let mut any = false;
            lookup.iter().for_each(|lookup| lookup.for_each_value(&mut |value| any |= reads_anything(value)));
            any
        }
        Node::Expand { input, calls } => {
            calls.iter().flat_map(|(_, args)| args).any(reads_anything) || reads(input, table, once, seen)
        }
        // It looks at columns.
        Node::Window { input, .. } => reads(input, table, once, seen),
        Node::Scan(scan) => scan.table.id == table.id,
        Node::CountRange { table: counted, .. } => counted.id == table.id,
        Node::GroupScan(scan) => scan.table.id == table.id,
        Node::Filter { input, condition } => reads_anything(condition) || reads(input, table, once, seen),
        Node::Project { input, exprs } => exprs.iter().any(reads_anything) || reads(input, table, once, seen),
        Node::NestedLoop { outer, inner, args, on, .. } => {
            args.iter().chain(on.as_deref()).any(reads_anything)
                || reads(outer, table, once, seen)
                || reads(inner, table, false, seen)
        }
        Node::HashJoin { left, right, left_keys, right_keys, on, .. } => {
            left_keys.iter().chain(right_keys.iter()).chain(on.as_deref()).any(reads_anything) || all(&[left, right])
        }
        Node::MergeJoin { left, right, on, .. } => on.as_deref().is_some_and(reads_anything) || all(&[left, right]),
        // A sort or a grouping of all rows has read all of its input when it gives the first one.
        //
        // Bug: those that go part by part were taken for such. Consequence: `INSERT INTO t SELECT …
        // FROM t GROUP BY <key of t>` read what it had put in itself, and did not end. Fix: they are
        // looked into.
        Node::Parallel { input } => reads(input, table, once, seen),
        Node::Sort { presorted: 0, .. } if once => false,
        Node::Aggregate { presorted, .. } if once && presorted.is_empty() => false,
        Node::Sort { input, keys, .. } => {
            keys.iter().map(|key| &key.expr).any(reads_anything) || reads(input, table, once, seen)
        }
        Node::Aggregate { input, keys, calls, .. } => {
            let args = calls.iter().flat_map(|call| call.args.iter().chain(&call.filter));
            keys.iter().chain(args).any(reads_anything) || reads(input, table, once, seen)
        }
        Node::Keyed { input, .. } => reads(input, table, once, seen),
        Node::Switch { plain, by_key, .. } => all(&[plain, by_key]),
        Node::FirstRows { in_order, sorted, .. } => all(&[in_order, sorted]),
        Node::Choice { few, many, .. } => all(&[few, many]),
        Node::AdaptiveJoin { outer, few, many, .. } => all(&[outer, few, many]),
        Node::Distinct { input, .. } | Node::Limit { input, .. } => reads(input, table, once, seen),
        Node::GroupingSets { input, .. } => reads(input, table, once, seen),
        Node::Append { inputs } => inputs.iter().any(|input| reads(input, table, once, seen)),
        Node::SetOp { left, right, .. } => all(&[left, right]),
        Node::Recursive { first, again, .. } => all(&[first, again]),
        Node::Shared { id, input } => {
            let is_new = !seen.contains(id);
            if is_new {
                seen.push(*id);
            }
            is_new && reads(input, table, once, seen)
        }
        Node::LockRows { .. } | Node::Insert(_) | Node::Update(_) | Node::Delete(_) => true,
        Node::Merge(_) | Node::Parts { .. } => true,
    }
}

/// Which tables a query inside an expression reads is not looked for.
fn reads_anything(expr: &Expr) -> bool {
    walk::any(expr, &|part| matches!(part, Expr::Subquery(_)))
}

/// Whether a source visits a table's rows one after the other by its own scan alone, so that
/// changing rows it has already given cannot change what it gives next. `moves` are columns whose
/// changes move a row in its order.
pub(super) fn is_plain_scan(node: &Node, table: &Table, moves: &dyn Fn(usize) -> bool) -> bool {
    match node {
        Node::Scan(scan) => {
            scan.table.id == table.id
                && match &scan.access {
                    Access::Key { .. } | Access::Gathered { .. } | Access::Inverted { .. } => {
                        !table.key_columns().iter().any(|&column| moves(column))
                    }
                    Access::Index { index, .. } => !index.columns.iter().any(|part| moves(part.column)),
                }
        }
        Node::Filter { input, condition } => !reads_anything(condition) && is_plain_scan(input, table, moves),
        Node::Project { input, exprs } => !exprs.iter().any(reads_anything) && is_plain_scan(input, table, moves),
        _ => false,
    }
}
