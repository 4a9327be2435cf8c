//! Which operators join.
//!
//! Inner joins are taken apart into relations and conditions, and put together again: in the order
//! that the pass `join_order` has chosen, if it has; or else greedily, the smallest relation first,
//! then the one that makes the cheapest join. A left join that stands below other joins, a semi or
//! an anti join takes its turn with the inner ones, once all that its conditions look at is there.
//! Other outer joins keep their place. A semi join by equalities with few values is an inner join
//! with the different ones of these, where that lets a table's rows be looked up.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_txn::Direction;
use colibri_types::{Error, Result, SqlState, pulse};

use super::access::{LOOKUP_COST, Path, SEEK_COST, SORT_COST, Wanted};
use super::adaptive::adaptive;
use super::cost::ordered;
use super::join_order::values_of;
use super::lateral::{AskedRows, OuterValues, rows_of_calls};
use super::order::{Fit, Order};
use super::relation::{gated, is_constant};
use super::sorted_first::Costed;
use super::system::{SYSTEM_SEEK_COST, SystemWanted};
use super::values_first::{FEW_ROWS, Leads, order_of_values};
use super::{Planned, Planner, Sizes, filtered};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::{From, Join, Relation, Source};
use crate::plan::{JoinKind, KeyedId, Node};

/// What looking for a way to join a part takes, in units of work.
pub(super) const UNITS_PER_METHOD: usize = 500;

/// What putting a row into a hash table costs, in rows looked at.
pub(super) const HASH_COST: f64 = 1.5;
/// What looking for a row in a hash table costs that few rows are found in.
pub(super) const PROBE_COST: f64 = 0.3;
/// A side is only put in place of the other, whose order is lost by that, if it is larger by this
/// factor.
pub(super) const KEPT_RATIO: f64 = 2.0;
/// What part of its rows a semi or an anti join leaves.
pub(super) const PARTNER_SHARE: f64 = 0.5;
/// No semi or anti join is taken to leave less than this, or more than the rest.
const LEAST_SHARE: f64 = 0.001;

/// What is known about FROM as a whole.
pub(super) struct Tables<'q> {
    pub(super) relations: &'q [Relation],
    /// For each relation, its columns that are needed above FROM.
    pub(super) needed: &'q [Vec<usize>],
    /// The order that would spare a sort.
    pub(super) order: Order<'q>,
    /// How many rows are taken at most, if a LIMIT says so.
    pub(super) limit: Option<f64>,
    /// The same, for the run, if each row of the only relation is one of the query's.
    pub(super) top: Option<&'q Expr>,
    /// Whether the run may choose between two orders of the joins.
    pub(super) chooses: bool,
    /// A LIMIT ends the join at hand early: not all rows of its outer side are read.
    pub(super) ends_early: bool,
}

/// So many rows are looked up rather than read with all others of a large table.
pub(super) const FEW_LOOKUPS: f64 = 1_000.0;
/// A LIMIT may take this many times as many rows of a join's outer side as it gives.
const LIMIT_SLACK: f64 = 10.0;
/// The same, where the outer side was sorted: its rows come in an order of their own.
const SORTED_SLACK: f64 = 3.0;

/// A part of FROM that inner, left, semi and anti joins put together.
#[derive(Clone)]
pub(super) struct Item<'q> {
    pub(super) from: &'q From,
    pub(super) columns: Columns,
    /// Conditions on this part alone.
    pub(super) conditions: Vec<Expr>,
    /// How it is joined: [`JoinKind::Inner`], [`JoinKind::Left`], [`JoinKind::Semi`] or
    /// [`JoinKind::Anti`].
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
    pub(super) fn inner(from: &'q From, relations: &[Relation]) -> Self {
        let columns = columns_of(from, relations);
        let conditions = match from {
            From::Relation(index) => relations[*index].filter.clone(),
            From::Join { .. } => Vec::new(),
        };
        let (on, keys) = (Vec::new(), Vec::new());
        Self { from, columns, conditions, kind: JoinKind::Inner, on, keys, kept: None }
    }

    /// A part that an outer join may add NULLs for, with the conditions of ON.
    fn left(from: &'q From, on: &[Expr], relations: &[Relation]) -> Self {
        let mut item = Self { kind: JoinKind::Left, ..Self::inner(from, relations) };
        let on = on.iter().cloned().flat_map(rewrite::conjuncts);
        let (own, on): (Vec<Expr>, Vec<Expr>) = on.partition(|condition| item.is_of_partner(condition));
        item.conditions.extend(own);
        Self { on, ..item }
    }

    pub(super) fn is_inner(&self) -> bool {
        self.kind == JoinKind::Inner
    }

    /// Whether it only tells which rows of the others stay.
    fn is_filter(&self) -> bool {
        matches!(self.kind, JoinKind::Semi | JoinKind::Anti)
    }

    /// Whether a condition of ON tells which rows of it are partners at all.
    fn is_of_partner(&self, condition: &Expr) -> bool {
        is_constant(condition) || self.columns.has_all(condition) && self.columns.has_any(condition)
    }
}

/// Ranges of the wide row.
#[derive(Clone, Default)]
pub(super) struct Columns(Vec<(usize, usize)>);

impl Columns {
    pub(super) fn of(relation: &Relation) -> Self {
        Self(vec![(relation.base, relation.base + relation.width)])
    }

    pub(super) fn has(&self, column: usize) -> bool {
        self.0.iter().any(|&(low, high)| (low..high).contains(&column))
    }

    pub(super) fn has_all(&self, expr: &Expr) -> bool {
        let mut all = true;
        rewrite::for_each_column(expr, &mut |column| all = all && self.has(column));
        all
    }

    pub(super) fn has_any(&self, expr: &Expr) -> bool {
        let mut any = false;
        rewrite::for_each_column(expr, &mut |column| any = any || self.has(column));
        any
    }

    pub(super) fn with(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect())
    }
}

pub(super) fn columns_of(from: &From, relations: &[Relation]) -> Columns {
    match from {
        From::Relation(index) => Columns::of(&relations[*index]),
        From::Join { kind: Join::Semi | Join::Anti, left, .. } => columns_of(left, relations),
        From::Join { left, right, .. } => columns_of(left, relations).with(&columns_of(right, relations)),
    }
}

/// Takes FROM apart into what is joined, and conditions.
pub(super) fn take_apart<'q>(
    from: &'q From,
    relations: &[Relation],
    items: &mut Vec<Item<'q>>,
    conditions: &mut Vec<Expr>,
) {
    match from {
        From::Join { kind: Join::Inner | Join::InnerInOrder, left, right, on } => {
            take_apart_below(left, relations, items, conditions);
            take_apart_below(right, relations, items, conditions);
            conditions.extend(on.iter().cloned());
        }
        From::Join { kind: kind @ (Join::Semi | Join::Anti), left, right, on } => {
            take_apart_below(left, relations, items, conditions);
            let kind = if *kind == Join::Semi { JoinKind::Semi } else { JoinKind::Anti };
            items.push(Item { kind, on: on.clone(), ..Item::inner(right, relations) });
        }
        other => items.push(Item::inner(other, relations)),
    }
}

/// The same of what stands below other joins: where no condition of these looks at the side of a
/// left join that may be NULL, it makes no difference which of the two comes first, and where one
/// does, it is asked of the rows of both.
fn take_apart_below<'q>(from: &'q From, relations: &[Relation], items: &mut Vec<Item<'q>>, conditions: &mut Vec<Expr>) {
    let (kept, other, on) = match from {
        From::Join { kind: Join::Left, left, right, on } => (left, right, on),
        From::Join { kind: Join::Right, left, right, on } => (right, left, on),
        other => return take_apart(other, relations, items, conditions),
    };
    take_apart_below(kept, relations, items, conditions);
    items.push(Item::left(other, on, relations));
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

impl Planner<'_> {
    /// Plans FROM with the conditions of WHERE.
    pub(super) fn from(&mut self, from: &From, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        if tables.relations.len() > 1 {
            self.samples.set(true);
        }
        let needed = needed_inside(tables);
        let tables = &Tables { needed: &needed, ..*tables };
        let mut items = Vec::new();
        let mut conditions: Vec<Expr> = conditions;
        take_apart(from, tables.relations, &mut items, &mut conditions);
        let conditions: Vec<Expr> = conditions.into_iter().flat_map(rewrite::conjuncts).collect();
        // What depends on no row comes before everything else, which is not looked at where it is
        // false.
        let (constant, conditions): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_constant);
        let across = hand_out(conditions, &mut items);
        if let [item] = &mut items[..]
            && item.is_inner()
        {
            let conditions = std::mem::take(&mut item.conditions);
            let planned = self.item(item.from, conditions, tables)?;
            return Ok(gated(self.finish(planned, across), constant));
        }
        let order = matches!(from, From::Join { kind: Join::InnerInOrder, .. }).then(|| (0..items.len()).collect());
        Ok(gated(self.join_all(items, across, order, tables)?, constant))
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

    /// Joins parts: in an order, if there is one already.
    #[inline(never)]
    pub(super) fn join_all(
        &mut self,
        mut items: Vec<Item<'_>>,
        mut across: Vec<Expr>,
        order: Option<Vec<usize>>,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        // What each part needs to give: what is needed above, and what conditions across parts look
        // at.
        let needed = needed_with(tables, across.iter().chain(items.iter().flat_map(|item| &item.on)));
        let tables = &Tables { needed: &needed, ..*tables };
        let estimates: Vec<f64> = items.iter().map(|item| self.estimate(item, tables)).collect();
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
        let first = self.smallest(&items, &estimates, tables)?;
        let in_order = self.in_order(&items, &estimates, first, tables);
        // Semi joins have become inner ones here, of which the pass that orders joins did not know.
        let has_led = items.iter().any(|item| !item.keys.is_empty());
        let order = match order {
            None if has_led && (tables.limit.is_none() || in_order.is_some()) => {
                self.best_order(&items, &estimates, &across, tables)?
            }
            order => order,
        };
        let order = order.unwrap_or_else(|| vec![first]);
        if in_order.is_none() && (tables.limit.is_none() || tables.order.columns.is_empty()) {
            return Ok(self.one_after_another(&order, false, items, &estimates, across, tables)?.1);
        }
        let again = || (items.clone(), across.clone());
        let (items_again, across_again) = again();
        let smallest_first = self.in_two_ways(|planner| {
            let tables = Tables { limit: None, ..*tables };
            planner.one_after_another(&order, false, items_again, &estimates, across_again, &tables)
        })?;
        if in_order == Some(order[0]) && tables.order.fit(&smallest_first.1.order) != Fit::No {
            return Ok(self.one_after_another(&order[..1], false, items, &estimates, across, tables)?.1);
        }
        let (cost, all) = smallest_first;
        let mut best = (cost + tables.order.sort_cost(all.rows, all.rows), all);
        if let Some(in_order) = in_order {
            let (items, across) = again();
            best = self.or_in_order(best, in_order, items, &estimates, across, tables)?;
        }
        Ok(self.or_sorted_first(best, items, &estimates, across, tables)?.1)
    }

    /// The part whose table has an order that spares the sort in front of a LIMIT.
    pub(super) fn in_order(
        &self,
        items: &[Item<'_>],
        estimates: &[f64],
        first: usize,
        tables: &Tables<'_>,
    ) -> Option<usize> {
        tables.limit?;
        tables.order.columns.first()?;
        let gives = |&at: &usize| self.gives_order(at, &items[at], first, tables);
        (0..items.len()).filter(gives).min_by(|&one, &other| estimates[one].total_cmp(&estimates[other]))
    }

    /// Whether a part is a table that has the order wanted, or its first columns.
    fn gives_order(&self, at: usize, item: &Item<'_>, first: usize, tables: &Tables<'_>) -> bool {
        if !item.keys.is_empty() {
            return item.kept.is_none() && order_of_values(item, tables).is_some();
        }
        let From::Relation(index) = item.from else { return false };
        let Source::Table(table) = &tables.relations[*index].source else { return false };
        let is_possible = item.is_inner() && (self.may_have_two_ways() || first == at);
        let columns = tables.order.of_relation(&tables.relations[*index]);
        if !is_possible || columns.is_empty() {
            return false;
        }
        let wanted = by_itself(table, *index, item, (tables, self.sizes));
        let order = tables.order.over(&columns);
        let gives = |path: &Path| {
            let left = columns.iter().filter(|ordered| !path.fixed.contains(&ordered.column));
            let left = Order { columns: &left.copied().collect::<Vec<_>>(), ..order };
            path.unique || left.fit_either_way(&path.order).0 != Fit::No
        };
        wanted.paths(self.sizes).iter().any(gives)
    }

    /// The cheaper one of two ways to the first rows in an order: all rows are joined, the smallest
    /// part first, and then sorted; or the part that has the order comes first, and no more of it
    /// is read than gives as many rows as are wanted.
    fn or_in_order(
        &mut self,
        (all_cost, all): Costed,
        in_order: usize,
        items: Vec<Item<'_>>,
        estimates: &[f64],
        across: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Costed> {
        let Some(limit) = tables.limit else { return Ok((all_cost, all)) };
        let per_row = (estimates[in_order] / all.rows.max(1.0)).max(1.0);
        let tables = &Tables { limit: Some(limit * per_row), ..*tables };
        let (cost, planned) = self
            .in_two_ways(|planner| planner.one_after_another(&[in_order], false, items, estimates, across, tables))?;
        let is_in_order = tables.order.fit(&planned.order) != Fit::No;
        Ok(if is_in_order && cost < all_cost { (cost, planned) } else { (all_cost, all) })
    }

    /// Joins the parts: first those in the order given, one at least, then each time the one that
    /// is cheapest to join; and what all that costs. The first one may be sorted before.
    pub(super) fn one_after_another(
        &mut self,
        order: &[usize],
        sorts_first: bool,
        mut items: Vec<Item<'_>>,
        estimates: &[f64],
        mut across: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<(f64, Planned)> {
        let single = Tables { order: Order::ANY, limit: None, ..*tables };
        let taken: Vec<Vec<usize>> = items.iter().map(|item| self.taken(item.from, tables.relations)).collect();
        let (&first, order) = order.split_first().ok_or_else(|| Error::internal("no part of FROM is the first"))?;
        let mut order = order.iter().copied();
        let mut left: Vec<usize> = (0..items.len()).filter(|&item| item != first).collect();
        // Only the first one's order can last to the end.
        let of_first = if sorts_first { &single } else { tables };
        let (mut all_cost, mut taken_alone) = self.alone(&items[first], estimates[first], of_first);
        let mut planned = self.part(&items[first], of_first)?;
        if sorts_first {
            planned = self.sorted(planned, &items[first], tables);
            all_cost += estimates[first] * estimates[first].max(2.0).log2() * SORT_COST;
            taken_alone = tables.limit;
        }
        let mut columns = items[first].columns.clone();
        // A LIMIT ends the join as soon as it has enough, if nothing has to be sorted before.
        let is_limited = tables.order.fit(&planned.order) != Fit::No;
        // What is sorted first comes as it would on average.
        let slack = if sorts_first { SORTED_SLACK } else { LIMIT_SLACK };
        let wanted = taken_alone.filter(|_| is_limited).map(|taken| taken * slack);
        let single = Tables { ends_early: wanted.is_some_and(|wanted| wanted < planned.rows), ..single };
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
            // So is what the conditions of a semi, an anti or a left join look at.
            let sees = |item: &Item<'_>| {
                let both = columns.with(&item.columns);
                item.on.iter().all(|condition| both.has_all(condition))
            };
            let ready: Vec<usize> = left
                .iter()
                .copied()
                .filter(|&item| taken[item].iter().all(|&column| columns.has(column)) && sees(&items[item]))
                .collect();
            let given = order.next();
            let candidates: Vec<usize> = match (given, ready.iter().copied().filter(|&item| connected(item)).collect())
            {
                (Some(given), _) => vec![given],
                (None, connected) if !Vec::is_empty(&connected) => connected,
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
            let (cost, next, method) =
                best.ok_or_else(|| Error::internal("parts of FROM depend on each other in a circle"))?;
            all_cost += cost;
            left.retain(|&item| item != next);
            let joined = columns.with(&items[next].columns);
            if !items[next].is_inner() {
                let on = std::mem::take(&mut items[next].on);
                let kind = items[next].kind;
                planned = self.join(kind, planned, &columns, &items[next], on, method, &single)?;
                if kind == JoinKind::Left {
                    let (ready, rest): (Vec<Expr>, Vec<Expr>) =
                        across.into_iter().partition(|condition| joined.has_all(condition));
                    (across, columns) = (rest, joined);
                    planned = self.finish(planned, ready);
                }
                continue;
            }
            let (ready, rest): (Vec<Expr>, Vec<Expr>) =
                across.into_iter().partition(|condition| joined.has_all(condition));
            across = rest;
            planned = self.join(JoinKind::Inner, planned, &columns, &items[next], ready, method, &single)?;
            columns = joined;
        }
        Ok((all_cost, self.finish(planned, across)))
    }

    /// What reading a part takes that is the first one: as much of it as is wanted, in the order
    /// that is wanted. And how many rows are read, if a limit ends that.
    pub(super) fn alone(&self, item: &Item<'_>, estimate: f64, tables: &Tables<'_>) -> (f64, Option<f64>) {
        let table = match item.from {
            From::Relation(index) => match &tables.relations[*index].source {
                Source::Table(table) => Some((*index, table)),
                _ => None,
            },
            From::Join { .. } => None,
        };
        let Some((index, table)) = table else { return (estimate, tables.limit) };
        let columns = tables.order.of_relation(&tables.relations[index]);
        let wanted = by_itself(table, index, item, (tables, self.sizes));
        let cheapest = self.cheapest(&wanted, &tables.order.over(&columns), tables.limit);
        if !item.keys.is_empty() && cheapest.taken.is_none() {
            // All values are found and sorted, and then taken one by one.
            return (cheapest.cost + estimate * HASH_COST, tables.limit);
        }
        (cheapest.cost, cheapest.taken)
    }

    /// About how many rows a part gives.
    pub(super) fn estimate(&self, item: &Item<'_>, tables: &Tables<'_>) -> f64 {
        if item.kept.is_some() {
            return FEW_ROWS;
        }
        let index = match item.from {
            From::Relation(index) => index,
            From::Join { kind, left, right, .. } => {
                let side = |from| {
                    let mut side = Item::inner(from, tables.relations);
                    let own = |condition: &&Expr| side.columns.has_all(condition) && side.columns.has_any(condition);
                    side.conditions = item.conditions.iter().filter(own).cloned().collect();
                    self.estimate(&side, tables)
                };
                // Most rows are taken to have one partner.
                return match kind {
                    Join::Left | Join::Semi | Join::Anti => side(left),
                    Join::Right => side(right),
                    Join::Inner | Join::InnerInOrder => side(left).min(side(right)),
                    Join::Full => side(left) + side(right),
                };
            }
        };
        let relation = &tables.relations[*index];
        match &relation.source {
            Source::Table(table) => {
                let wanted = by_itself(table, *index, item, (tables, self.sizes));
                let path = self.cheapest(&wanted, &Order::ANY, None).path;
                (path.rows * self.left_of(&wanted, &path)).max(1.0)
            }
            Source::Tree(tree) => self.rows_of_tree((tree, relation.base), &item.conditions),
            Source::Functions { calls, .. } => rows_of_calls(calls),
            Source::System { table, .. } => {
                SystemWanted::alone(self, (table, relation.base), &item.conditions).rows_left()
            }
            Source::Lateral { .. } | Source::Working { .. } | Source::Keyed { .. } => 10.0,
            Source::Query(_) | Source::Shared { .. } | Source::Part { .. } => self.all_rows_of(relation),
        }
    }

    /// What finding all rows of a part costs, by itself.
    pub(super) fn scan_cost(&self, item: &Item<'_>, estimate: f64, tables: &Tables<'_>) -> f64 {
        let From::Relation(index) = item.from else { return estimate };
        let relation = &tables.relations[*index];
        let table = match &relation.source {
            Source::Table(table) => table,
            Source::System { table, .. } => {
                return SystemWanted::alone(self, (table, relation.base), &item.conditions).rows_found();
            }
            _ => return estimate,
        };
        (self.cheapest(&by_itself(table, *index, item, (tables, self.sizes)), &Order::ANY, None).cost - SEEK_COST)
            .max(estimate)
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
        let seen = if item.is_filter() { 0.5 } else { 1.0 };
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
            // Of inner joins the smaller side is the one to keep.
            let cost = if item.is_inner() && estimate > rows * KEPT_RATIO {
                scan + estimate * PROBE_COST + rows * HASH_COST
            } else {
                (scan - estimate) + estimate * HASH_COST + rows * HASH_COST
            };
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
                expressions: self.sizes.expressions(table),
            };
            for path in wanted.paths(self.sizes) {
                // Conditions that tokens or alternatives answer are asked again, and so are not taken over.
                let asked_of_outer = |&asked: &usize| columns.has_any(&conditions[asked]);
                let uses_outer = path.ranges.skipped == 0 && path.counted.iter().any(asked_of_outer);
                let is_first_found = item.is_filter() && path.taken.len() == conditions.len();
                let each = if is_first_found { SEEK_COST + 1.0 + LOOKUP_COST } else { path.cost * seen };
                let cost = rows * (SEEK_COST + each);
                if (uses_outer || item.is_filter()) && cost < best.0 {
                    best = (cost, Method::Index);
                }
            }
        }
        if let From::Relation(index) = item.from
            && let Source::System { table, .. } = &tables.relations[*index].source
            && item.keys.is_empty()
        {
            let conditions: Vec<Expr> = item.conditions.iter().chain(across.iter().filter(usable)).cloned().collect();
            let known = |column| columns.has(column);
            let of_table = (*table, tables.relations[*index].base);
            if let Some((mut by, found)) = SystemWanted::with(self, of_table, &conditions, &known).cheapest()
                && (by.any(|condition| columns.has_any(condition)) || item.is_filter())
            {
                let cost = rows * (SYSTEM_SEEK_COST + found * seen);
                if cost < best.0 {
                    best = (cost, Method::Index);
                }
            }
        }
        if let From::Relation(index) = item.from
            && let Source::Tree(tree) = &tables.relations[*index].source
            && item.keys.is_empty()
        {
            let mut conditions = item.conditions.clone();
            conditions.extend(across.iter().filter(usable).cloned());
            let of_tree = (&**tree, tables.relations[*index].base);
            let (each, helps) = self.tree_lookup_cost(of_tree, &tables.needed[*index], &conditions, columns);
            let cost = rows * (SEEK_COST + each * seen);
            if helps && cost < best.0 {
                best = (cost, Method::Index);
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
        match self.changes_after(kind, (&outer, columns), inner, &on, method, tables) {
            Some(after) => self.adaptive_join(kind, outer, columns, inner, on, (method, after), tables),
            None => self.join_by(kind, outer, columns, inner, on, method, tables),
        }
    }

    /// The same in one way.
    #[expect(clippy::too_many_arguments, reason = "both sides and their conditions")]
    pub(super) fn join_by(
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
            && let Source::Table(_) | Source::Tree(_) | Source::System { .. } = &tables.relations[*index].source
        {
            return self.index_join(kind, outer, columns, *index, inner.conditions.clone(), on, tables);
        }
        if method == Method::Lateral {
            return self.lateral_join(kind, outer, inner.from, inner.conditions.clone(), on, tables);
        }
        let is_hashed = matches!(method, Method::Hash | Method::HashInOrder);
        if is_hashed && let Some(keys) = self.merge_keys(kind, (&outer, columns), inner, &on, tables) {
            return self.merge_join(kind, outer, inner, on, &keys, tables);
        }
        let right = self.part(inner, tables)?;
        if is_hashed
            && kind != JoinKind::Full
            && let Some((per_row, rows)) = self.asked_per_row((&outer, columns), (inner, &right), &on, tables)?
        {
            return match rows {
                AskedRows::All => Ok(per_row.join(kind, outer)),
                AskedRows::First(after) => adaptive(outer, after, !tables.ends_early, |first, rest| {
                    // Asking keeps the order of the rows, which is counted on where a LIMIT ends the join.
                    let method = if tables.ends_early { Method::HashInOrder } else { method };
                    let many = self.hash_join((kind, method), rest, columns, (inner, right), on, tables)?;
                    Ok((per_row.join(kind, first), many))
                }),
            };
        }
        self.hash_join((kind, method), outer, columns, (inner, right), on, tables)
    }

    /// Keeps the rows of one side by their keys.
    fn hash_join(
        &mut self,
        (kind, method): (JoinKind, Method),
        outer: Planned,
        columns: &Columns,
        (inner, mut right): (&Item<'_>, Planned),
        on: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        let share = self.left_of_pairs(&on.iter().collect::<Vec<_>>(), inner, right.rows, tables);
        let pairs = on.clone();
        let (mut outer, mut columns, mut inner_columns) = (outer, columns, &inner.columns);
        if kind == JoinKind::Inner && method == Method::Hash && right.rows > outer.rows * KEPT_RATIO {
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
        let rows = outer.rows * right.rows * share;
        let (rows, layout) = match kind {
            JoinKind::Inner => (rows.max(1.0), layout),
            JoinKind::Semi | JoinKind::Anti => {
                ((outer.rows * self.left_by_partners(kind, &pairs, right.rows, tables)).max(1.0), outer.layout)
            }
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
            left_keys: left_keys.into(),
            right_keys: right_keys.into(),
            on: ordered(rest).map(Arc::new),
            left_width,
            right_width,
        };
        Ok(Planned { node, layout, rows, order })
    }

    /// What part of the rows a semi or an anti join leaves, by conditions on the rows and on as many
    /// partners: each of these is a partner for the rows of one value.
    pub(super) fn left_by_partners(&self, kind: JoinKind, on: &[Expr], partners: f64, tables: &Tables<'_>) -> f64 {
        let values = on.iter().filter_map(|condition| match condition {
            Expr::Compare { op: CompareOp::Eq, left, right } => {
                let sides = [left, right].into_iter().filter_map(|side| values_of(self, side, tables));
                sides.reduce(f64::max)
            }
            _ => None,
        });
        values.reduce(f64::max).map_or(PARTNER_SHARE, |values| share_with_partner(kind, partners / values))
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
        // All conditions go to the inner scan: a row that fails them is no partner, for outer joins
        // too.
        let inner_columns = Columns::of(relation);
        let mut conditions = inner_conditions;
        let mut late = Vec::new();
        for condition in on {
            // What a query takes from the outer row is in slots.
            let asks_per_row = |part: &Expr| {
                let Expr::Subquery(subquery) = part else { return false };
                subquery.args.iter().any(|arg| inner_columns.has_any(arg))
            };
            if !rewrite::any(&condition, &asks_per_row) && inner_columns.has_any(&condition) {
                conditions.push(condition);
            } else {
                late.push(condition);
            }
        }
        let first_slot = self.slots;
        let values = OuterValues::new(columns, &outer.layout, first_slot);
        let (found, scanned) = match &relation.source {
            Source::Table(table) => {
                let wanted = Wanted {
                    table,
                    base: relation.base,
                    columns: &tables.needed[inner],
                    conditions: &conditions,
                    known: &|column| columns.has(column),
                    expressions: self.sizes.expressions(table),
                };
                let path = wanted
                    .paths(self.sizes)
                    .into_iter()
                    .min_by(|a, b| a.cost.total_cmp(&b.cost))
                    .ok_or_else(|| Error::internal("a table has no path"))?;
                let found = path.rows * self.left_of(&wanted, &path);
                (found, self.scan(&wanted, path, Direction::Forward, &|expr| values.in_slots(expr)))
            }
            Source::Tree(tree) => {
                let asked = (&**tree, relation.base);
                let scanned = self.tree_lookup(asked, &tables.needed[inner], &conditions, (columns, &values));
                (scanned.rows, scanned)
            }
            Source::System { table, .. } => {
                let known = |column| columns.has(column);
                let wanted = SystemWanted::with(self, (table, relation.base), &conditions, &known);
                let scanned = wanted.scan(&tables.needed[inner], &|expr| values.in_slots(expr));
                (scanned.rows, scanned)
            }
            _ => return Err(Error::internal("an index join needs a table")),
        };
        let args = values.into_args();
        self.slots += args.len();
        let layout = outer.layout.joined(&scanned.layout);
        let on = late.into_iter().map(|condition| layout.bind(condition)).collect();
        let (rows, layout) = match kind {
            JoinKind::Semi | JoinKind::Anti => {
                let share = share_with_partner(kind, found);
                ((outer.rows * share).max(1.0), outer.layout)
            }
            _ => ((outer.rows * scanned.rows).max(1.0), layout),
        };
        let node = Node::NestedLoop {
            kind,
            outer: Box::new(outer.node),
            inner_width: scanned.layout.0.len(),
            inner: Box::new(scanned.node),
            first_slot,
            args: args.into(),
            on: ordered(on).map(Arc::new),
        };
        Ok(Planned { node, layout, rows, order: outer.order })
    }

    /// A part that is not an inner join: a relation, or an outer join.
    pub(super) fn item(&mut self, from: &From, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        match from {
            From::Relation(index) => self.relation(*index, conditions, tables),
            From::Join { kind: Join::Inner | Join::InnerInOrder | Join::Semi | Join::Anti, .. } => {
                self.from(from, conditions, tables)
            }
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
        let needed = needed_with(tables, on.iter().chain(&conditions));
        let limited = &Tables { needed: &needed, ..*tables };
        let tables = &Tables { limit: None, ..*limited };
        let inner_tables = &Tables { order: Order::ANY, ..*tables };
        let kept = Item::inner(left, tables.relations).conditions;
        // Each row on the left gives one at least, so no more of them are read than a LIMIT says.
        let outer = match kind {
            Join::Left if conditions.is_empty() => self.item(left, kept, limited)?,
            Join::Left => self.item(left, kept, tables)?,
            _ => self.item(left, kept, inner_tables)?,
        };
        let is_limited = kind == Join::Left && conditions.is_empty() && tables.order.fit(&outer.order) != Fit::No;
        let taken =
            if is_limited { self.alone(&Item::inner(left, tables.relations), outer.rows, limited).1 } else { None };
        let outer_rows = taken.map_or(outer.rows, |taken| taken.min(outer.rows));
        let (item, method) = if kind == Join::Full {
            let on = on.iter().cloned().flat_map(rewrite::conjuncts).collect();
            (Item { kind: JoinKind::Full, on, ..Item::inner(right, tables.relations) }, Method::Hash)
        } else {
            let item = Item::left(right, on, tables.relations);
            let estimate = self.estimate(&item, tables);
            let method = self.method(outer_rows, &left_columns, &item, &[], estimate, tables).1;
            (item, method)
        };
        let inner_tables = &Tables { ends_early: outer_rows < outer.rows, ..*inner_tables };
        let planned = self.join(item.kind, outer, &left_columns, &item, item.on.clone(), method, inner_tables)?;
        Ok(self.finish(planned, conditions))
    }
}

/// The share of rows that a semi or an anti join leaves. `partners` is the average number of partners
/// of a row.
fn share_with_partner(kind: JoinKind, partners: f64) -> f64 {
    let with = partners.clamp(LEAST_SHARE, 1.0 - LEAST_SHARE);
    if kind == JoinKind::Anti { 1.0 - with } else { with }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Hash,
    /// The same, and rows come in the order of the outer side.
    HashInOrder,
    Index,
    Loop,
    /// The part looks at the outer row.
    Lateral,
}

/// What is asked of a table that is read by itself, for its conditions.
pub(super) fn by_itself<'w>(
    table: &'w Arc<Table>,
    index: usize,
    item: &'w Item<'_>,
    (tables, sizes): (&'w Tables<'_>, &dyn Sizes),
) -> Wanted<'w> {
    let (base, columns) = (tables.relations[index].base, &tables.needed[index]);
    Wanted {
        table,
        base,
        columns,
        conditions: &item.conditions,
        known: &|_| false,
        expressions: sizes.expressions(table),
    }
}

/// What each relation has to give: what functions and LATERAL queries look at is needed from
/// whatever stands before them.
pub(super) fn needed_inside(tables: &Tables<'_>) -> Vec<Vec<usize>> {
    needed_with(tables, tables.relations.iter().flat_map(|relation| relation.source.taken()))
}

/// Gives conditions to the parts that they are about; what is about several of them is left.
pub(super) fn hand_out(conditions: Vec<Expr>, items: &mut [Item<'_>]) -> Vec<Expr> {
    let has_filters = items.iter().any(Item::is_filter);
    let mut across = Vec::new();
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
    across
}

/// What each relation has to give, with the columns that conditions look at.
pub(super) fn needed_with<'e>(tables: &Tables<'_>, conditions: impl IntoIterator<Item = &'e Expr>) -> Vec<Vec<usize>> {
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
