//! The order and kind of joins.
//!
//! Inner joins are taken apart into relations and conditions, and put together again greedily: the
//! smallest relation first, then whichever makes the cheapest join. Outer joins keep their place. A
//! semi or an anti join takes its turn with the inner ones, once all that its conditions look at is
//! there. A semi join by equalities with few values is an inner join with the different ones of
//! these, where that lets a table's rows be looked up.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_txn::Direction;
use colibri_types::{Error, Result, SqlState, pulse};

use super::access::{SEEK_COST, Wanted, satisfies};
use super::cost::ordered;
use super::lateral::rows_of_calls;
use super::relation::{SYSTEM_ROWS, gated, is_constant};
use super::values_first::{FEW_ROWS, Leads};
use super::{Ordered, Planned, Planner, filtered};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::{From, Join, Relation, Source};
use crate::plan::{JoinKind, KeyedId, Node};

/// What looking for a way to join a part takes, in units of work.
pub(super) const UNITS_PER_METHOD: usize = 500;

/// What putting a row into a hash table costs, in rows looked at.
pub(super) const HASH_COST: f64 = 1.5;
/// A side is only put in place of the other, whose order is lost by that, if it is larger by this factor.
const KEPT_RATIO: f64 = 2.0;
/// What part of its rows a semi or an anti join leaves.
const PARTNER_SHARE: f64 = 0.5;
/// An equality is guessed to leave one pair in this number of the larger side's rows.
const JOIN_SELECTIVITY: f64 = 1.0;

/// What is known about FROM as a whole.
pub(super) struct Tables<'q> {
    pub(super) relations: &'q [Relation],
    /// For each relation, its columns that are needed above FROM.
    pub(super) needed: &'q [Vec<usize>],
    /// The order that would spare a sort, as columns of the wide row.
    pub(super) order: &'q [Ordered],
    /// How many rows are taken at most, if a LIMIT says so.
    pub(super) limit: Option<f64>,
    /// Whether the run may choose between two orders of the joins.
    pub(super) chooses: bool,
}

/// So many rows are looked up rather than read with all others of a large table.
const FEW_LOOKUPS: f64 = 1_000.0;
/// A LIMIT may take this many times as many rows of a join's outer side as it gives.
const LIMIT_SLACK: f64 = 10.0;

/// A part of FROM that inner, semi and anti joins put together.
#[derive(Clone)]
pub(super) struct Item<'q> {
    pub(super) from: &'q From,
    pub(super) columns: Columns,
    /// Conditions on this part alone.
    pub(super) conditions: Vec<Expr>,
    /// How it is joined: [`JoinKind::Inner`], [`JoinKind::Semi`] or [`JoinKind::Anti`].
    pub(super) kind: JoinKind,
    /// Conditions that make a row of this part a partner, where it is no inner join.
    pub(super) on: Vec<Expr>,
    /// It gives each combination of values in these columns once, and nothing else; if there are
    /// any.
    pub(super) keys: Vec<usize>,
    /// Where the rows with these are kept, once the run has found them to be few.
    pub(super) kept: Option<(Arc<Node>, KeyedId)>,
}

impl<'q> Item<'q> {
    fn inner(from: &'q From, relations: &[Relation]) -> Self {
        let columns = columns_of(from, relations);
        let (conditions, on, keys) = (Vec::new(), Vec::new(), Vec::new());
        Self { from, columns, conditions, kind: JoinKind::Inner, on, keys, kept: None }
    }

    pub(super) fn is_inner(&self) -> bool {
        self.kind == JoinKind::Inner
    }
}

/// Ranges of the wide row.
#[derive(Clone, Default)]
pub(super) struct Columns(Vec<(usize, usize)>);

impl Columns {
    pub(super) fn has(&self, column: usize) -> bool {
        self.0.iter().any(|&(low, high)| (low..high).contains(&column))
    }

    fn has_all(&self, expr: &Expr) -> bool {
        let mut all = true;
        rewrite::for_each_column(expr, &mut |column| all = all && self.has(column));
        all
    }

    pub(super) fn has_any(&self, expr: &Expr) -> bool {
        let mut any = false;
        rewrite::for_each_column(expr, &mut |column| any = any || self.has(column));
        any
    }

    fn with(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect())
    }
}

pub(super) fn columns_of(from: &From, relations: &[Relation]) -> Columns {
    match from {
        From::Relation(index) => {
            let relation = &relations[*index];
            Columns(vec![(relation.base, relation.base + relation.width)])
        }
        From::Join { kind: Join::Semi | Join::Anti, left, .. } => columns_of(left, relations),
        From::Join { left, right, .. } => columns_of(left, relations).with(&columns_of(right, relations)),
    }
}

fn take_apart<'q>(from: &'q From, relations: &[Relation], items: &mut Vec<Item<'q>>, conditions: &mut Vec<Expr>) {
    match from {
        From::Join { kind: Join::Inner, left, right, on } => {
            take_apart(left, relations, items, conditions);
            take_apart(right, relations, items, conditions);
            conditions.extend(on.iter().cloned());
        }
        From::Join { kind: kind @ (Join::Semi | Join::Anti), left, right, on } => {
            take_apart(left, relations, items, conditions);
            let kind = if *kind == Join::Semi { JoinKind::Semi } else { JoinKind::Anti };
            let mut item = Item { kind, ..Item::inner(right, relations) };
            for condition in on.iter().cloned().flat_map(rewrite::conjuncts) {
                let is_own = item.columns.has_any(&condition);
                if is_own && item.columns.has_all(&condition) {
                    item.conditions.push(condition);
                } else if !is_own && kind == JoinKind::Semi {
                    // A row for which it is not true has no partner.
                    conditions.push(condition);
                } else {
                    item.on.push(condition);
                }
            }
            items.push(item);
        }
        other => items.push(Item::inner(other, relations)),
    }
}

/// The two sides of an equality between what is known on the left and what is known on the right.
pub(super) fn equality(
    condition: &Expr,
    left: &dyn Fn(&Expr) -> bool,
    right: &dyn Fn(&Expr) -> bool,
) -> Option<(Expr, Expr)> {
    let Expr::Compare { op: CompareOp::Eq, left: a, right: b } = condition else { return None };
    if !rewrite::is_pure(condition) || rewrite::is_volatile(condition) {
        return None;
    }
    if left(a) && right(b) {
        Some(((**a).clone(), (**b).clone()))
    } else if left(b) && right(a) {
        Some(((**b).clone(), (**a).clone()))
    } else {
        None
    }
}

/// Whether a condition is not true when all of the columns are NULL: then an outer join whose NULLs it would see might as
/// well be an inner join.
fn refuses_nulls(condition: &Expr, columns: &Columns) -> bool {
    let strict = |expr: &Expr| strict_in(expr, columns);
    match condition {
        Expr::Compare { left, right, .. } => strict(left) || strict(right),
        Expr::InList { input, negated: false, .. } => strict(input),
        Expr::IsNull { input, negated: true } => strict(input),
        Expr::And(all) => all.iter().any(|condition| refuses_nulls(condition, columns)),
        Expr::Or(any) => any.iter().all(|condition| refuses_nulls(condition, columns)),
        other => strict_in(other, columns) && !matches!(other, Expr::Column(_)),
    }
}

fn strict_in(expr: &Expr, columns: &Columns) -> bool {
    match expr {
        Expr::Column(column) => columns.has(*column),
        Expr::Cast { input, .. } => strict_in(input, columns),
        Expr::Call { function, args } => function.strict && args.iter().any(|arg| strict_in(arg, columns)),
        _ => false,
    }
}

impl Planner<'_> {
    /// Plans FROM with the conditions of WHERE.
    pub(super) fn from(&mut self, from: &From, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        // What functions and LATERAL queries look at is needed from whatever stands before them.
        let needed = needed_with(tables, tables.relations.iter().flat_map(|relation| relation.source.taken()));
        let tables = &Tables { needed: &needed, ..*tables };
        let mut items = Vec::new();
        let mut conditions: Vec<Expr> = conditions;
        take_apart(from, tables.relations, &mut items, &mut conditions);
        let mut conditions: Vec<Expr> = conditions.into_iter().flat_map(rewrite::conjuncts).collect();
        // Equalities that follow from others: what equals a constant makes its equals equal to it.
        add_implied(&mut conditions);
        let mut across = Vec::new();
        // What depends on no row comes before everything else, which is not looked at where it is false.
        let (constant, conditions): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_constant);
        let has_filters = items.iter().any(|item| !item.is_inner());
        for condition in conditions {
            // A query for each row is asked of those that semi and anti joins leave.
            if has_filters && super::cost::is_query_per_row(&condition) {
                across.push(condition);
                continue;
            }
            let own = items.iter().position(|item| item.is_inner() && item.columns.has_all(&condition));
            match own {
                Some(item) if items[item].columns.has_any(&condition) => items[item].conditions.push(condition),
                _ => across.push(condition),
            }
        }
        if let [item] = &mut items[..]
            && item.is_inner()
        {
            let conditions = std::mem::take(&mut item.conditions);
            let planned = self.item(item.from, conditions, tables)?;
            return Ok(gated(self.finish(planned, across), constant));
        }
        Ok(gated(self.join_all(items, across, tables)?, constant))
    }

    /// Conditions that are left, over a node that has all columns.
    fn finish(&self, planned: Planned, conditions: Vec<Expr>) -> Planned {
        if conditions.is_empty() {
            return planned;
        }
        let rows = (planned.rows * 0.5).max(1.0);
        let bound = conditions.into_iter().map(|condition| planned.layout.bind(condition)).collect();
        Planned { node: filtered(planned.node, bound), rows, ..planned }
    }

    #[inline(never)]
    pub(super) fn join_all(
        &mut self,
        mut items: Vec<Item<'_>>,
        mut across: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        // What each part needs to give: what is needed above, and what conditions across parts look at.
        let needed = needed_with(tables, across.iter().chain(items.iter().flat_map(|item| &item.on)));
        let tables = &Tables { needed: &needed, ..*tables };
        let single = Tables { order: &[], limit: None, ..*tables };
        let mut estimates = Vec::with_capacity(items.len());
        for item in &items {
            estimates.push(self.estimate(item, tables));
        }
        for at in 0..items.len() {
            match self.leads(at, &items, &estimates, tables)? {
                Leads::No => {}
                Leads::Always(keys) => {
                    (items[at].kind, items[at].keys) = (JoinKind::Inner, keys);
                    across.append(&mut items[at].on);
                }
                Leads::IfFew(keys, few) => return self.choice(items, across, at, keys, few, tables),
            }
        }
        let mut left: Vec<usize> = (0..items.len()).collect();
        let taken: Vec<Vec<usize>> = items.iter().map(|item| self.taken(item.from, tables.relations)).collect();
        let first = left
            .iter()
            .copied()
            .filter(|&item| items[item].is_inner() && taken[item].is_empty())
            .min_by(|&a, &b| estimates[a].total_cmp(&estimates[b]))
            .ok_or_else(|| Error::internal("every part of FROM depends on another"))?;
        left.retain(|&item| item != first);
        // Only the first one's order can last to the end.
        let mut planned = self.part(&items[first], tables)?;
        let mut columns = items[first].columns.clone();
        // A LIMIT ends the join as soon as it has enough, if nothing has to be sorted before.
        let is_limited = tables.order.is_empty() || satisfies(&planned.order, tables.order) == Some(Direction::Forward);
        let wanted = if is_limited { tables.limit.map(|limit| limit * LIMIT_SLACK) } else { None };
        while !left.is_empty() {
            let connected = |item: usize| {
                let on = if items[item].is_inner() { &across } else { &items[item].on };
                on.iter().any(|condition| {
                    columns.has_any(condition)
                        && items[item].columns.has_any(condition)
                        && columns.with(&items[item].columns).has_all(condition)
                })
            };
            // What is LATERAL comes behind all that it looks at.
            // So is what a semi or an anti join's conditions look at.
            let sees = |item: &Item<'_>| {
                let both = columns.with(&item.columns);
                item.on.iter().all(|condition| both.has_all(condition))
            };
            let ready: Vec<usize> = left
                .iter()
                .copied()
                .filter(|&item| taken[item].iter().all(|&column| columns.has(column)) && sees(&items[item]))
                .collect();
            let candidates: Vec<usize> = match ready.iter().copied().filter(|&item| connected(item)).collect::<Vec<_>>()
            {
                connected if !connected.is_empty() => connected,
                _ => ready,
            };
            let mut best: Option<(f64, usize, Method)> = None;
            for &candidate in &candidates {
                pulse::work(UNITS_PER_METHOD)?;
                let item = &items[candidate];
                let rows = wanted.map_or(planned.rows, |wanted| wanted.min(planned.rows));
                let (cost, method) = self.method(rows, &columns, item, &across, estimates[candidate], tables);
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, candidate, method));
                }
            }
            let (_, next, method) =
                best.ok_or_else(|| Error::internal("parts of FROM depend on each other in a circle"))?;
            left.retain(|&item| item != next);
            if !items[next].is_inner() {
                let on = std::mem::take(&mut items[next].on);
                let kind = items[next].kind;
                planned = self.join(kind, planned, &columns, &items[next], on, method, &single)?;
                continue;
            }
            let joined = columns.with(&items[next].columns);
            let (ready, rest): (Vec<Expr>, Vec<Expr>) =
                across.into_iter().partition(|condition| joined.has_all(condition));
            across = rest;
            planned = self.join(JoinKind::Inner, planned, &columns, &items[next], ready, method, &single)?;
            columns = joined;
        }
        Ok(self.finish(planned, across))
    }

    /// About how many rows a part gives.
    fn estimate(&self, item: &Item<'_>, tables: &Tables<'_>) -> f64 {
        if item.kept.is_some() {
            return FEW_ROWS;
        }
        let From::Relation(index) = item.from else { return 10_000.0 };
        let relation = &tables.relations[*index];
        match &relation.source {
            Source::Table(table) => {
                let (path, _) = self.cheapest(&by_itself(table, *index, item, tables), &[], None);
                let weight = item.conditions.iter().map(super::access::weight).sum::<usize>();
                let left = weight.saturating_sub(path.taken.len());
                (path.rows * 0.3f64.powi(left.min(3) as i32)).max(1.0)
            }
            Source::Functions { calls, .. } => rows_of_calls(calls),
            Source::System { .. } => SYSTEM_ROWS,
            Source::Lateral { .. } | Source::Working { .. } | Source::Keyed { .. } => 10.0,
            Source::Query(_) | Source::Shared { .. } => self.all_rows_of(relation),
        }
    }

    /// What finding all rows of a part costs, by itself.
    fn scan_cost(&self, item: &Item<'_>, estimate: f64, tables: &Tables<'_>) -> f64 {
        let From::Relation(index) = item.from else { return estimate };
        let relation = &tables.relations[*index];
        let Source::Table(table) = &relation.source else { return estimate };
        (self.cheapest_cost(&by_itself(table, *index, item, tables), &[], None).0 - SEEK_COST).max(estimate)
    }

    /// How a part is best joined to what there is, and what that costs.
    pub(super) fn method(
        &self,
        rows: f64,
        columns: &Columns,
        item: &Item<'_>,
        across: &[Expr],
        estimate: f64,
        tables: &Tables<'_>,
    ) -> (f64, Method) {
        let across = if item.is_inner() { across } else { &item.on };
        let usable = |condition: &&Expr| columns.with(&item.columns).has_all(condition);
        if !self.taken(item.from, tables.relations).is_empty() {
            return (rows * (SEEK_COST + estimate), Method::Lateral);
        }
        // A semi or an anti join has seen enough with the first partner.
        let seen = if item.is_inner() { 1.0 } else { 0.5 };
        let equalities = across
            .iter()
            .filter(usable)
            .filter(|condition| {
                equality(condition, &|expr| columns.has_any(expr) && columns.has_all(expr), &|expr| {
                    item.columns.has_any(expr) && item.columns.has_all(expr)
                })
                .is_some()
            })
            .count();
        // Reading the part counts against looking up few rows of it. Against many it does not:
        // where these turn out to be far more than was guessed, a hash table costs what it costs.
        let scan = if rows <= FEW_LOOKUPS { self.scan_cost(item, estimate, tables) } else { estimate };
        let mut best = if equalities > 0 {
            let cost = (scan - estimate) + estimate * HASH_COST + rows * HASH_COST;
            (cost, Method::Hash)
        } else {
            (scan + rows * estimate.max(1.0) * seen, Method::Loop)
        };
        if let From::Relation(index) = item.from
            && let Source::Table(table) = &tables.relations[*index].source
            && item.keys.is_empty()
        {
            let mut conditions = item.conditions.clone();
            conditions.extend(across.iter().filter(usable).cloned());
            let wanted = Wanted {
                table,
                base: tables.relations[*index].base,
                columns: &tables.needed[*index],
                conditions: &conditions,
                known: &|column| columns.has(column),
            };
            for path in wanted.paths(self.sizes) {
                let uses_outer = path.taken.iter().any(|&taken| columns.has_any(&conditions[taken]));
                let cost = rows * (SEEK_COST + path.cost * seen);
                if (uses_outer || !item.is_inner()) && cost < best.0 {
                    best = (cost, Method::Index);
                }
            }
        }
        best
    }

    /// Joins a part to what there is.
    #[expect(clippy::too_many_arguments, reason = "both sides and their conditions")]
    fn join(
        &mut self,
        kind: JoinKind,
        outer: Planned,
        columns: &Columns,
        inner: &Item<'_>,
        on: Vec<Expr>,
        method: Method,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        if let (Method::Index, From::Relation(index)) = (method, inner.from)
            && let Source::Table(_) = &tables.relations[*index].source
        {
            return self.index_join(kind, outer, columns, *index, inner.conditions.clone(), on, tables);
        }
        if method == Method::Lateral {
            return self.lateral_join(kind, outer, inner.from, inner.conditions.clone(), on, tables);
        }
        let mut right = self.part(inner, tables)?;
        let (mut outer, mut columns, mut inner_columns) = (outer, columns, &inner.columns);
        if kind == JoinKind::Inner && matches!(method, Method::Hash) && right.rows > outer.rows * KEPT_RATIO {
            // The smaller side is the one to keep in a hash table.
            std::mem::swap(&mut outer, &mut right);
            std::mem::swap(&mut columns, &mut inner_columns);
        }
        let layout = outer.layout.joined(&right.layout);
        let mut left_keys = Vec::new();
        let mut right_keys = Vec::new();
        let mut rest = Vec::new();
        for condition in on {
            let sides = equality(&condition, &|expr| columns.has_any(expr) && columns.has_all(expr), &|expr| {
                inner_columns.has_any(expr) && inner_columns.has_all(expr)
            });
            match sides {
                Some((left, right_side)) => {
                    left_keys.push(outer.layout.bind(left));
                    right_keys.push(right.layout.bind(right_side));
                }
                None => rest.push(layout.bind(condition)),
            }
        }
        let (left_width, right_width) = (outer.layout.0.len(), right.layout.0.len());
        let pairs = outer.rows * right.rows;
        let rows = if left_keys.is_empty() {
            pairs * 0.3f64.powi(rest.len().min(3) as i32)
        } else {
            pairs * JOIN_SELECTIVITY / outer.rows.max(right.rows).max(1.0)
        };
        let (rows, layout) = match kind {
            JoinKind::Inner => (rows.max(1.0), layout),
            JoinKind::Semi | JoinKind::Anti => (outer.rows * PARTNER_SHARE, outer.layout),
            JoinKind::Left | JoinKind::Right | JoinKind::Full => (rows.max(outer.rows), layout),
        };
        let order = if matches!(kind, JoinKind::Right | JoinKind::Full) { Vec::new() } else { outer.order };
        let (left, right_node) = (Box::new(outer.node), Box::new(right.node));
        if left_keys.is_empty() && kind == JoinKind::Full {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions",
            ));
        }
        // Without keys the table is only a place to keep the right side in.
        let node = Node::HashJoin {
            kind,
            left,
            right: right_node,
            left_keys,
            right_keys,
            on: ordered(rest),
            left_width,
            right_width,
        };
        Ok(Planned { node, layout, rows, order })
    }

    /// A nested loop whose inner side is found by values of the outer row.
    #[expect(clippy::too_many_arguments, reason = "both sides, their columns and their conditions")]
    fn index_join(
        &mut self,
        kind: JoinKind,
        outer: Planned,
        columns: &Columns,
        inner: usize,
        inner_conditions: Vec<Expr>,
        on: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        let relation = &tables.relations[inner];
        let Source::Table(table) = &relation.source else {
            return Err(Error::internal("an index join needs a table"));
        };
        // All conditions go to the inner scan: a row that fails them is no partner, for outer joins too.
        let inner_columns = Columns(vec![(relation.base, relation.base + relation.width)]);
        let mut conditions = inner_conditions;
        let mut late = Vec::new();
        for condition in on {
            if rewrite::is_pure(&condition) && inner_columns.has_any(&condition) {
                conditions.push(condition);
            } else {
                late.push(condition);
            }
        }
        let wanted = Wanted {
            table,
            base: relation.base,
            columns: &tables.needed[inner],
            conditions: &conditions,
            known: &|column| columns.has(column),
        };
        let path = wanted
            .paths(self.sizes)
            .into_iter()
            .min_by(|a, b| a.cost.total_cmp(&b.cost))
            .ok_or_else(|| Error::internal("a table has no path"))?;
        // Values of the outer row go to slots.
        let first_slot = self.slots;
        let args = std::cell::RefCell::new(Vec::<Expr>::new());
        let slots = |mut expr: Expr| {
            rewrite::substitute(&mut expr, &|column| {
                if !columns.has(column) {
                    return Expr::Column(column);
                }
                let place = outer.layout.place(column).unwrap_or_default();
                let mut args = args.borrow_mut();
                let same = args.iter().position(|arg| matches!(arg, Expr::Column(other) if *other == place));
                let slot = same.unwrap_or_else(|| {
                    args.push(Expr::Column(place));
                    args.len() - 1
                });
                Expr::Arg(first_slot + slot)
            });
            expr
        };
        let scanned = self.scan(&wanted, path, Direction::Forward, &slots);
        let args = args.into_inner();
        self.slots += args.len();
        let layout = outer.layout.joined(&scanned.layout);
        let on = late.into_iter().map(|condition| layout.bind(condition)).collect();
        let (rows, layout) = match kind {
            JoinKind::Semi | JoinKind::Anti => ((outer.rows * PARTNER_SHARE).max(1.0), outer.layout),
            _ => ((outer.rows * scanned.rows).max(1.0), layout),
        };
        let node = Node::NestedLoop {
            kind,
            outer: Box::new(outer.node),
            inner_width: scanned.layout.0.len(),
            inner: Box::new(scanned.node),
            first_slot,
            args,
            on: ordered(on),
        };
        Ok(Planned { node, layout, rows, order: outer.order })
    }

    /// A part that is not an inner join: a relation, or an outer join.
    pub(super) fn item(&mut self, from: &From, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        match from {
            From::Relation(index) => self.relation(*index, conditions, tables),
            From::Join { kind: Join::Inner | Join::Semi | Join::Anti, .. } => self.from(from, conditions, tables),
            From::Join { kind, left, right, on } => self.outer_join(*kind, left, right, on, conditions, tables),
        }
    }

    fn outer_join(
        &mut self,
        kind: Join,
        left: &From,
        right: &From,
        on: &[Expr],
        conditions: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        let (left, right, kind) = if kind == Join::Right { (right, left, Join::Left) } else { (left, right, kind) };
        let left_columns = columns_of(left, tables.relations);
        let right_columns = columns_of(right, tables.relations);
        let on: Vec<Expr> = on.iter().cloned().flat_map(rewrite::conjuncts).collect();
        let needed = needed_with(tables, on.iter().chain(&conditions));
        let tables = &Tables { needed: &needed, order: tables.order, limit: None, ..*tables };
        let inner_tables = &Tables { order: &[], ..*tables };
        if kind == Join::Left && conditions.iter().any(|condition| refuses_nulls(condition, &right_columns)) {
            let mut items = Vec::new();
            let mut all = Vec::new();
            take_apart(left, tables.relations, &mut items, &mut all);
            take_apart(right, tables.relations, &mut items, &mut all);
            all.extend(on);
            all.extend(conditions);
            return self.join_parts(items, all, tables);
        }
        // WHERE may filter the side whose rows all stay before they are joined; ON may filter the other side.
        let (pushed, above): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(|condition| {
            kind == Join::Left && left_columns.has_all(condition) && left_columns.has_any(condition)
        });
        let (inner_only, on): (Vec<Expr>, Vec<Expr>) = on.into_iter().partition(|condition| {
            kind == Join::Left
                && (is_constant(condition) || right_columns.has_all(condition) && right_columns.has_any(condition))
        });
        let outer = self.item(left, pushed, if kind == Join::Left { tables } else { inner_tables })?;
        let item = Item { conditions: inner_only, ..Item::inner(right, tables.relations) };
        let estimate = self.estimate(&item, tables);
        let method = match kind {
            Join::Full => Method::Hash,
            _ => self.method(outer.rows, &left_columns, &item, &on, estimate, tables).1,
        };
        let kind = if kind == Join::Full { JoinKind::Full } else { JoinKind::Left };
        let planned = self.join(kind, outer, &left_columns, &item, on, method, inner_tables)?;
        Ok(self.finish(planned, above))
    }

    fn join_parts(&mut self, mut items: Vec<Item<'_>>, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        let mut across = Vec::new();
        for condition in conditions.into_iter().flat_map(rewrite::conjuncts) {
            let is_own = |item: &&mut Item<'_>| {
                item.is_inner() && item.columns.has_all(&condition) && item.columns.has_any(&condition)
            };
            match items.iter_mut().find(is_own) {
                Some(item) => item.conditions.push(condition),
                None => across.push(condition),
            }
        }
        self.join_all(items, across, tables)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Hash,
    Index,
    Loop,
    /// The part looks at the outer row.
    Lateral,
}

/// What is asked of a table that is read by itself, for its conditions.
fn by_itself<'w>(table: &'w Arc<Table>, index: usize, item: &'w Item<'_>, tables: &'w Tables<'_>) -> Wanted<'w> {
    let (base, columns) = (tables.relations[index].base, &tables.needed[index]);
    Wanted { table, base, columns, conditions: &item.conditions, known: &|_| false }
}

/// What each relation has to give, with the columns that conditions look at.
fn needed_with<'e>(tables: &Tables<'_>, conditions: impl IntoIterator<Item = &'e Expr>) -> Vec<Vec<usize>> {
    let mut needed = tables.needed.to_vec();
    for condition in conditions {
        rewrite::for_each_column(condition, &mut |place| add_needed(tables.relations, &mut needed, place));
    }
    needed
}

pub(super) fn add_needed(relations: &[Relation], needed: &mut [Vec<usize>], place: usize) {
    for (relation, needed) in relations.iter().zip(needed) {
        if let Some(column) = place.checked_sub(relation.base).filter(|&column| column < relation.width)
            && !needed.contains(&column)
        {
            needed.push(column);
            needed.sort_unstable();
        }
    }
}

/// `a = b AND a = 1` says `b = 1` as well: then each side can be found by its own key.
fn add_implied(conditions: &mut Vec<Expr>) {
    let is_value = |expr: &Expr| {
        matches!(expr, Expr::Const(value) if !value.is_null()) || matches!(expr, Expr::Param(_) | Expr::Arg(_))
    };
    let mut constants: Vec<(usize, Expr)> = Vec::new();
    let mut equal: Vec<(usize, usize)> = Vec::new();
    for condition in conditions.iter() {
        let Expr::Compare { op: CompareOp::Eq, left, right } = condition else { continue };
        match (&**left, &**right) {
            (Expr::Column(a), Expr::Column(b)) => equal.push((*a, *b)),
            (Expr::Column(column), value) | (value, Expr::Column(column)) if is_value(value) => {
                constants.push((*column, value.clone()));
            }
            _ => {}
        }
    }
    let mut next = 0;
    while next < constants.len() {
        let (column, value) = constants[next].clone();
        next += 1;
        for &(a, b) in &equal {
            let other = if a == column {
                b
            } else if b == column {
                a
            } else {
                continue;
            };
            if constants.iter().any(|(known, _)| *known == other) {
                continue;
            }
            constants.push((other, value.clone()));
            conditions.push(Expr::Compare {
                op: CompareOp::Eq,
                left: Box::new(Expr::Column(other)),
                right: Box::new(value.clone()),
            });
        }
    }
}
