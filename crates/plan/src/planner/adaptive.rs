//! Joins that change over to another way when they have met many rows (see `exec`'s
//! `adaptive_join`).
//!
//! A join that looks rows up in an index changes over to a hash table when it has looked up as many
//! as that would have cost: whatever the number of rows turns out to be, the join costs twice the
//! cheaper way at the most. A join by a hash table of rows whose number is a guess looks the first
//! ones up, as many as cost a small part of it: where these are all, the table is not read.

use std::sync::Arc;

use super::access::{LOOKUP_COST, SEEK_COST, Wanted};
use super::joins::{Columns, HASH_COST, Item, KEPT_RATIO, Method, PROBE_COST, Tables, equality};
use super::{Layout, Planned, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{From, Source};
use crate::plan::{Access, JoinKind, KeyPart, KeyRanges, Node, RestId, Scan};

/// What part of a hash join's cost looking up its first rows may add.
const FIRST_SHARE: f64 = 0.03;
/// If these are fewer, none is looked up first.
const FIRST_MIN: f64 = 4.0;
/// A join that was planned as look-ups keeps to them until it has met this many times the expected
/// rows.
const SURPRISE: f64 = 2.0;
/// Rows that are looked up first in tests that make all rewrites.
const AFTER_TRIED: u64 = 2;

impl Planner<'_> {
    /// After how many outer rows a join changes over from looking rows up to a hash table, if it
    /// pays to be able to.
    pub(super) fn changes_after(
        &self,
        kind: JoinKind,
        (outer, columns): (&Planned, &Columns),
        inner: &Item<'_>,
        on: &[Expr],
        method: Method,
        tables: &Tables<'_>,
    ) -> Option<u64> {
        let rewrites = self.sizes.rewrites();
        let From::Relation(index) = inner.from else { return None };
        let relation = &tables.relations[*index];
        let Source::Table(table) = &relation.source else { return None };
        let can_be_both = matches!(method, Method::Index | Method::Hash)
            && !matches!(kind, JoinKind::Right | JoinKind::Full)
            && inner.keys.is_empty();
        if rewrites == Rewrites::None || !can_be_both || gives_one_at_most(&outer.node) {
            return None;
        }
        let is_plain = |condition: &Expr| {
            rewrite::is_pure(condition) && !rewrite::is_volatile(condition) && !super::constants::may_fail(condition)
        };
        if !inner.conditions.iter().chain(on).all(is_plain) {
            return None;
        }
        let of_outer = |expr: &Expr| columns.has_any(expr) && columns.has_all(expr);
        let of_inner = |expr: &Expr| inner.columns.has_any(expr) && inner.columns.has_all(expr);
        if !on.iter().any(|condition| equality(condition, &of_outer, &of_inner).is_some()) {
            return None;
        }
        let conditions: Vec<Expr> = inner.conditions.iter().chain(on).cloned().collect();
        let wanted = Wanted {
            table,
            base: relation.base,
            columns: &tables.needed[*index],
            conditions: &conditions,
            known: &|column| columns.has(column),
            expressions: self.sizes.expressions(table),
        };
        let is_filter = matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let lookup = wanted
            .paths(self.sizes)
            .into_iter()
            .filter(|path| path.taken.iter().any(|&taken| columns.has_any(&conditions[taken])))
            .map(|path| if is_filter { path.cost.min(SEEK_COST + 1.0 + LOOKUP_COST) } else { path.cost })
            .min_by(f64::total_cmp)?;
        if rewrites == Rewrites::All {
            return Some(AFTER_TRIED);
        }
        let estimate = self.estimate(inner, tables);
        let scan = self.scan_cost(inner, estimate, tables);
        let may_be_probed = kind == JoinKind::Inner && method == Method::Hash;
        let is_probed = may_be_probed && estimate > outer.rows * KEPT_RATIO;
        let hash = scan + estimate * if is_probed { PROBE_COST } else { HASH_COST };
        let each = SEEK_COST + lookup;
        let after = match method {
            Method::Index => (hash / each).max(outer.rows * SURPRISE),
            _ => hash / each * FIRST_SHARE,
        };
        if method == Method::Hash && after < FIRST_MIN {
            return None;
        }
        let is_possible = match &outer.node {
            Node::Scan(scan) => match method {
                Method::Index => after < self.sizes.rows(&scan.table),
                // All rows of a table: their number is known.
                _ => scan.filter.is_some() || !is_everything(scan),
            },
            _ => true,
        };
        (is_possible && after < u64::MAX as f64).then_some(after as u64)
    }

    /// A join that changes over after a number of outer rows.
    #[expect(clippy::too_many_arguments, reason = "both sides and their conditions")]
    pub(super) fn adaptive_join(
        &mut self,
        kind: JoinKind,
        outer: Planned,
        columns: &Columns,
        inner: &Item<'_>,
        on: Vec<Expr>,
        (method, after): (Method, u64),
        tables: &Tables<'_>,
    ) -> colibri_types::Result<Planned> {
        adaptive(outer, after, method == Method::Hash, |first, rest| {
            let few = self.join_by(kind, first, columns, inner, on.clone(), Method::Index, tables)?;
            // Look-ups keep the order, which is counted on where these are expected.
            let hash = if method == Method::Index { Method::HashInOrder } else { Method::Hash };
            Ok((few, self.join_by(kind, rest, columns, inner, on, hash, tables)?))
        })
    }

    /// After how many outer rows a join changes over from asking for their partners one by one, which
    /// costs `each`, to a hash table, which costs `once`; if it pays to be able to.
    pub(super) fn asked_first(
        &self,
        (outer, on): (&Planned, &[Expr]),
        (each, once): (f64, f64),
        ends_early: bool,
    ) -> Option<u64> {
        let is_plain = |condition: &Expr| {
            rewrite::is_pure(condition) && !rewrite::is_volatile(condition) && !super::constants::may_fail(condition)
        };
        if gives_one_at_most(&outer.node) || !on.iter().all(is_plain) {
            return None;
        }
        if self.sizes.rewrites() == Rewrites::All {
            return Some(AFTER_TRIED);
        }
        // All rows of a table: their number is known.
        let is_known = matches!(&outer.node, Node::Scan(scan) if scan.filter.is_none() && is_everything(scan));
        let after = once / each * if ends_early { 1.0 } else { FIRST_SHARE };
        (after >= FIRST_MIN && (ends_early || !is_known) && after < u64::MAX as f64).then_some(after as u64)
    }
}

/// A join that changes over to another way after a number of outer rows: `join` makes both ways, of
/// the first rows and of the rest. `expects_more`: most runs are taken to come to the second one.
pub(super) fn adaptive(
    outer: Planned,
    after: u64,
    expects_more: bool,
    join: impl FnOnce(Planned, Planned) -> colibri_types::Result<(Planned, Planned)>,
) -> colibri_types::Result<Planned> {
    let Planned { node, layout, rows, order } = outer;
    let (rest, outer) = (RestId::next(), Arc::new(node));
    let read = || Planned {
        node: Node::Rest { id: rest, outer: Arc::clone(&outer), rows },
        layout: layout.clone(),
        rows,
        order: order.clone(),
    };
    let (few, many) = join(read(), read())?;
    let given = Layout(many.layout.0.iter().copied().filter(|&column| few.layout.place(column).is_some()).collect());
    let rows = if expects_more { many.rows } else { few.rows };
    // Whichever side the hash table keeps, the rows' order is that of the other one.
    let order = if many.order == order { order } else { Vec::new() };
    let (few, many) = (Box::new(arranged(few, &given)), Box::new(arranged(many, &given)));
    let node = Node::AdaptiveJoin { rest, after, expects_more, outer, few, many };
    Ok(Planned { node, layout: given, rows, order })
}

/// A node's columns in another arrangement.
fn arranged(planned: Planned, wanted: &Layout) -> Node {
    if planned.layout.0 == wanted.0 {
        return planned.node;
    }
    let exprs = wanted.0.iter().map(|&column| planned.layout.bind(Expr::Column(column))).collect();
    Node::Project { input: Box::new(planned.node), exprs }
}

fn is_everything(scan: &Scan) -> bool {
    !matches!(scan.access, Access::Gathered { .. }) && scan.access.ranges().all(KeyRanges::is_everything)
}

/// Whether a node gives one row at the most, whatever the tables hold.
fn gives_one_at_most(node: &Node) -> bool {
    match node {
        Node::Scan(scan) => {
            let finds_one = |ranges: &KeyRanges, columns: usize| {
                let all = ranges.prefix.len() == columns && ranges.skipped == 0 && ranges.alternatives.is_empty();
                columns > 0 && all && ranges.prefix.iter().all(|part| matches!(part, KeyPart::Eq(_)))
            };
            match &scan.access {
                Access::Key { ranges } => finds_one(ranges, scan.table.key_columns().len()),
                Access::Index { index, ranges, .. } => index.unique && finds_one(ranges, index.columns.len()),
                Access::Gathered { .. } | Access::Inverted { .. } => false,
            }
        }
        Node::Values { rows } => rows.len() <= 1,
        Node::Aggregate { keys, .. } => keys.is_empty(),
        Node::Parallel { input } => gives_one_at_most(input),
        Node::Filter { input, .. } | Node::Project { input, .. } | Node::Sort { input, .. } => gives_one_at_most(input),
        Node::NestedLoop { kind, outer, inner, .. } => {
            let is_filter = matches!(kind, JoinKind::Semi | JoinKind::Anti);
            gives_one_at_most(outer) && (is_filter || gives_one_at_most(inner))
        }
        _ => false,
    }
}
