//! How many rows joins give, and the order of inner joins that costs least.
//!
//! An equality between two columns leaves one pair in as many as the column with more values has: a
//! unique one as many as its table has rows, one at the beginning of an index as many as the index
//! tells. Several equalities of the same two parts leave no fewer pairs than a unique key among
//! them does.
//!
//! Where few parts are joined, all orders are looked at in which each part is joined to those
//! before it by a condition: the cheapest order of each set of parts is the cheapest one of a
//! smaller set with one part more, since how many rows a set gives does not depend on its order.
//! A part that a left join adds NULLs for comes behind those that its conditions look at. More parts
//! are joined greedily (see `joins`), and so are parts of which a LIMIT takes few rows.

use colibri_types::{Error, Result, pulse};

use super::joins::{
    Columns, FEW_LOOKUPS, Item, Method, Tables, UNITS_PER_METHOD, columns_of, equality, hand_out, needed_inside,
    needed_with, take_apart,
};
use super::order::{EqualColumns, Order, limit_of_rows, wanted_order};
use super::query::needed_above;
use super::relation::is_constant;
use super::{Asked, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{From, Join, Relation, Select, Source};
use crate::plan::JoinKind;

/// Two parts can be joined in either order (see `joins`).
const PARTS_MIN: usize = 3;
/// So many parts are joined in the best of all orders at the most: twice the time for each more.
const PARTS_MAX: usize = 8;
/// What part of the pairs a condition leaves that is no equality.
const OTHER_SELECTIVITY: f64 = 0.3;

/// The cheapest way to join a set of parts.
#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    /// The part that comes last.
    last: usize,
}

/// A condition on several parts: which, as bits.
struct Across<'e> {
    parts: usize,
    condition: &'e Expr,
}

/// Puts the parts of inner joins into the order that costs least.
pub(super) fn order_joins(planner: &mut Planner<'_>, select: &mut Select, asked: &Asked<'_>) -> Result<()> {
    if select.relations.len() < PARTS_MIN || planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    let Some(mut from) = select.from.take() else { return Ok(()) };
    planner.samples.set(true);
    let mut columns = Vec::new();
    let equal = EqualColumns::of(select);
    let order =
        asked.query.map_or(Order::ANY, |query| wanted_order((query, select), &equal, &mut columns, planner.sizes));
    let tables = Tables {
        relations: &select.relations,
        needed: &needed_above(select, asked.columns),
        order,
        limit: asked.query.and_then(|query| limit_of_rows(query, select, &order, planner.sizes)),
        top: None,
        chooses: false,
        ends_early: false,
    };
    let needed = needed_inside(&tables);
    let mut filter = std::mem::take(&mut select.filter);
    let ordered = planner.order(&mut from, &mut filter, &Tables { needed: &needed, ..tables });
    (select.from, select.filter) = (Some(from), filter);
    ordered
}

/// A part of FROM that is joined to others: by an inner join, or by a left one with these
/// conditions.
struct Part {
    from: From,
    left_on: Option<Vec<Expr>>,
}

/// The parts of inner joins, as [`take_apart`] finds them.
fn take_parts(from: From, parts: &mut Vec<Option<Part>>) {
    let (kept, other, left_on) = match from {
        From::Join { kind: Join::Inner | Join::InnerInOrder, left, right, .. } => {
            take_parts(*left, parts);
            return take_parts(*right, parts);
        }
        From::Join { kind: Join::Left, left, right, on } => (left, right, on),
        From::Join { kind: Join::Right, left, right, on } => (right, left, on),
        from => return parts.push(Some(Part { from, left_on: None })),
    };
    take_parts(*kept, parts);
    parts.push(Some(Part { from: *other, left_on: Some(left_on) }));
}

/// The conditions of the last inner join of a part, and the columns that these may look at.
fn last_inner<'f>(from: &'f mut From, relations: &[Relation]) -> Option<(&'f mut Vec<Expr>, Columns)> {
    let columns = columns_of(from, relations);
    match from {
        From::Join { kind: Join::Left, left, .. } => last_inner(left, relations),
        From::Join { kind: Join::Inner | Join::InnerInOrder, on, .. } => Some((on, columns)),
        _ => None,
    }
}

impl Planner<'_> {
    /// Orders the joins of a part of FROM. Conditions over it on several parts go to the joins.
    fn order(&mut self, from: &mut From, conditions: &mut Vec<Expr>, tables: &Tables<'_>) -> Result<()> {
        let From::Join { kind, left, right, on } = &mut *from else { return Ok(()) };
        let needed = needed_with(tables, on.iter().chain(&*conditions));
        let other = Tables { needed: &needed, order: Order::ANY, limit: None, ..*tables };
        // Each row of the side that an outer join keeps gives one at least.
        let keeps = matches!(kind, Join::Left | Join::Right) && conditions.is_empty();
        let kept = if keeps { Tables { needed: &needed, ..*tables } } else { Tables { ..other } };
        let (kept_side, other_side) = if *kind == Join::Right { (right, left) } else { (left, right) };
        // A join inside a row of inner joins is one of them.
        let is_inner = *kind == Join::Inner;
        for (side, tables) in [(kept_side, &kept), (other_side, &other)] {
            if is_inner {
                self.order_parts(side, tables)?;
            } else {
                self.order_part(side, tables)?;
            }
        }
        if is_inner { self.order_inner(from, conditions, tables) } else { Ok(()) }
    }

    /// Orders what is joined inside the parts of inner joins.
    fn order_parts(&mut self, from: &mut From, tables: &Tables<'_>) -> Result<()> {
        match from {
            From::Join { kind: Join::Inner, left, right, .. } => {
                self.order_parts(left, tables)?;
                self.order_parts(right, tables)
            }
            From::Join { kind: Join::Left, left: kept, right: other, .. }
            | From::Join { kind: Join::Right, left: other, right: kept, .. } => {
                self.order_parts(kept, tables)?;
                self.order_part(other, tables)
            }
            part => self.order_part(part, tables),
        }
    }

    /// Orders what is joined inside a part.
    fn order_part(&mut self, part: &mut From, tables: &Tables<'_>) -> Result<()> {
        let mut conditions = Vec::new();
        let before = part.clone();
        self.order(part, &mut conditions, tables)?;
        // Conditions of inner joins belong to these, whatever left joins come behind them.
        match last_inner(part, tables.relations) {
            Some((on, columns)) if conditions.iter().all(|condition| columns.has_all(condition)) => {
                on.append(&mut conditions);
            }
            _ if conditions.is_empty() => {}
            _ => *part = before,
        }
        Ok(())
    }

    /// Orders inner joins, if it pays and their parts can come in any order. Conditions that are
    /// left are about one part, or about none.
    fn order_inner(&mut self, from: &mut From, conditions: &mut Vec<Expr>, tables: &Tables<'_>) -> Result<()> {
        let (mut items, mut all) = (Vec::new(), conditions.clone());
        take_apart(from, tables.relations, &mut items, &mut all);
        if !(PARTS_MIN..=PARTS_MAX).contains(&items.len()) {
            return Ok(());
        }
        let all: Vec<Expr> = all.into_iter().flat_map(rewrite::conjuncts).collect();
        let (mut left, all): (Vec<Expr>, Vec<Expr>) = all.into_iter().partition(is_constant);
        let filters: Vec<usize> = items.iter().map(|item| item.conditions.len()).collect();
        let across = hand_out(all, &mut items);
        let needed = needed_with(tables, &across);
        let tables = &Tables { needed: &needed, ..*tables };
        let estimates: Vec<f64> = items.iter().map(|item| self.estimate(item, tables)).collect();
        let first = self.smallest(&items, &estimates, tables)?;
        if tables.limit.is_some() && self.in_order(&items, &estimates, first, tables).is_none() {
            // Which rows come first, and how few may be enough, nobody has looked at.
            return Ok(());
        }
        let Some(order) = self.best_order(&items, &estimates, &across, tables)? else { return Ok(()) };
        for (item, filters) in items.iter_mut().zip(filters) {
            left.extend(item.conditions.drain(filters..));
        }
        let columns: Vec<Columns> = items.into_iter().map(|item| item.columns).collect();
        let mut parts = Vec::new();
        take_parts(std::mem::replace(from, From::Relation(0)), &mut parts);
        let mut part = |at: usize| parts[at].take().ok_or_else(|| Error::internal("a part of FROM is joined twice"));
        let mut rest = across;
        let mut joined = columns[order[0]].clone();
        *from = part(order[0])?.from;
        for &next in &order[1..] {
            joined = joined.with(&columns[next]);
            let left = Box::new(std::mem::replace(from, From::Relation(0)));
            let Part { from: right, left_on } = part(next)?;
            let (kind, on) = match left_on {
                Some(on) => (Join::Left, on),
                None => {
                    let (on, later) = rest.into_iter().partition(|condition| joined.has_all(condition));
                    rest = later;
                    (Join::InnerInOrder, on)
                }
            };
            *from = From::Join { kind, left, right: Box::new(right), on };
        }
        left.append(&mut rest);
        *conditions = left;
        Ok(())
    }

    /// The part with the fewest rows that depends on no other one.
    pub(super) fn smallest(&self, items: &[Item<'_>], estimates: &[f64], tables: &Tables<'_>) -> Result<usize> {
        (0..items.len())
            .filter(|&item| items[item].is_inner() && self.taken(items[item].from, tables.relations).is_empty())
            .min_by(|&a, &b| estimates[a].total_cmp(&estimates[b]))
            .ok_or_else(|| Error::internal("every part of FROM depends on another"))
    }

    /// The order of the parts that costs least, if it pays to look for it and they can come in any
    /// order.
    pub(super) fn best_order(
        &self,
        items: &[Item<'_>],
        estimates: &[f64],
        across: &[Expr],
        tables: &Tables<'_>,
    ) -> Result<Option<Vec<usize>>> {
        let count = items.len();
        if !(PARTS_MIN..=PARTS_MAX).contains(&count) || self.sizes.rewrites() == Rewrites::None {
            return Ok(None);
        }
        let Some(takes_from) = self.parts_taken_from(items, tables) else { return Ok(None) };
        let parts_of = |condition: &Expr| {
            let looks_at = |(at, item): (usize, &Item<'_>)| usize::from(item.columns.has_any(condition)) << at;
            items.iter().enumerate().map(looks_at).sum()
        };
        // What a left join's conditions look at comes before it, and something does.
        let behind: Vec<Option<usize>> = (0..count)
            .map(|at| {
                let on = &items[at].on;
                let parts = on.iter().fold(0, |parts, condition| parts | parts_of(condition)) & !(1 << at);
                (!items[at].is_inner()).then_some(parts)
            })
            .collect();
        let across: Vec<Across<'_>> =
            across.iter().map(|condition| Across { parts: parts_of(condition), condition }).collect();
        let conditions: Vec<Expr> = across.iter().map(|across| across.condition.clone()).collect();
        let read_costs: Vec<f64> =
            items.iter().zip(estimates).map(|(item, &estimate)| self.scan_cost(item, estimate, tables)).collect();
        let all = (1 << count) - 1;
        let mut rows = vec![1.0; all + 1];
        let mut columns = vec![Columns::default(); all + 1];
        let mut best: Vec<Option<Best>> = vec![None; all + 1];
        for set in 1..=all {
            let last = set.ilog2() as usize;
            let rest = set & !(1 << last);
            columns[set] = columns[rest].with(&items[last].columns);
            rows[set] = match rest {
                0 => {
                    if items[last].is_inner() && takes_from[last] == 0 {
                        best[set] = Some(Best { cost: self.alone(&items[last], estimates[last], tables).0, last });
                    }
                    estimates[last]
                }
                // Each row is there once at least.
                _ if behind[last].is_some() => {
                    let on: Vec<&Expr> = items[last].on.iter().collect();
                    let partners = estimates[last] * self.left_of_pairs(&on, &items[last], estimates[last], tables);
                    rows[rest] * partners.max(1.0)
                }
                _ => {
                    let now =
                        across.iter().filter(|across| across.parts & !set == 0 && across.parts & (1 << last) != 0);
                    let now: Vec<&Expr> = now.map(|across| across.condition).collect();
                    rows[rest] * estimates[last] * self.left_of_pairs(&now, &items[last], estimates[last], tables)
                }
            }
            .max(1.0);
        }
        for set in 1..all {
            let Some(Best { cost, .. }) = best[set] else { continue };
            let is_joined = |item: usize| {
                let with = set | 1 << item;
                behind[item].is_some()
                    || takes_from[item] != 0
                    || across.iter().any(|across| {
                        across.parts & !with == 0 && across.parts & (1 << item) != 0 && across.parts & set != 0
                    })
            };
            let others = || {
                let is_ready = |item: &usize| (behind[*item].unwrap_or(0) | takes_from[*item]) & !set == 0;
                (0..count).filter(|item| set & 1 << item == 0).filter(is_ready)
            };
            let any_joined = others().any(is_joined);
            for item in others().filter(|&item| !any_joined || is_joined(item)) {
                pulse::work(UNITS_PER_METHOD)?;
                let with = set | 1 << item;
                let (more, method) =
                    self.method(rows[set], &columns[set], &items[item], &conditions, estimates[item], tables);
                // All of it is read once, whatever it is joined to; against many look-ups `method`
                // does not count that.
                let read = match method {
                    Method::Hash | Method::Loop if rows[set] > FEW_LOOKUPS => read_costs[item] - estimates[item],
                    _ => 0.0,
                };
                let cost = cost + more + read;
                if best[with].is_none_or(|known| cost < known.cost) {
                    best[with] = Some(Best { cost, last: item });
                }
            }
        }
        let mut order = Vec::with_capacity(count);
        let mut set = all;
        while let Some(Best { last, .. }) = best[set].filter(|_| set != 0) {
            order.push(last);
            set &= !(1 << last);
        }
        order.reverse();
        Ok((order.len() == count).then_some(order))
    }

    /// From which others each part takes values, as bits: functions and LATERAL queries come behind
    /// these. `None` if parts cannot come in any order even so.
    ///
    /// Bug: where a function took values of another part, orders were not compared, and the
    /// smallest part came first. Consequence: `FROM issues i, unnest(i.watchers) w JOIN users u ON
    /// u.id = w` put each user beside each issue, and took hours. Fix: a part comes behind those
    /// that it takes values from, which counts as being joined to them.
    fn parts_taken_from(&self, items: &[Item<'_>], tables: &Tables<'_>) -> Option<Vec<usize>> {
        let part_of = |column: usize| items.iter().position(|item| item.columns.has(column));
        let parts = |item: &Item<'_>| {
            let taken = self.taken(item.from, tables.relations);
            let can_come = item.is_inner() || item.kind == JoinKind::Left && taken.is_empty();
            can_come.then_some(())?;
            taken.into_iter().try_fold(0, |parts, column| Some(parts | 1 << part_of(column)?))
        };
        items.iter().map(parts).collect()
    }

    /// What part of the pairs of rows conditions leave, of a part that is joined to others.
    pub(super) fn left_of_pairs(&self, on: &[&Expr], item: &Item<'_>, estimate: f64, tables: &Tables<'_>) -> f64 {
        let is_own = |expr: &Expr| item.columns.has_any(expr) && item.columns.has_all(expr);
        let is_others = |expr: &Expr| !item.columns.has_any(expr) && !rewrite::depends_on_no_row(expr);
        let mut left = 1.0;
        let (mut others, mut own) = (Vec::new(), Vec::new());
        for condition in on {
            match equality(condition, &is_others, &is_own) {
                Some((other, mine)) => {
                    let values = [&other, &mine].map(|side| values_of(self, side, tables));
                    let values = values
                        .into_iter()
                        .flatten()
                        .fold(None, |most: Option<f64>, values| Some(most.map_or(values, |most| most.max(values))));
                    left /= values.unwrap_or(estimate).max(1.0);
                    others.push(other);
                    own.push(mine);
                }
                None => left *= OTHER_SELECTIVITY,
            }
        }
        let unique = [unique_rows(self, &own, tables), unique_rows(self, &others, tables)];
        match unique.into_iter().flatten().reduce(f64::max) {
            Some(rows) if !own.is_empty() => left.max(1.0 / rows.max(1.0)),
            _ => left,
        }
    }
}

/// The relation that a column is of, and its place there.
fn relation_of<'r>(column: &Expr, relations: &'r [Relation]) -> Option<(&'r Relation, usize)> {
    let inner = match column {
        Expr::Cast { input, .. } => &**input,
        other => other,
    };
    let Expr::Column(place) = inner else { return None };
    relations.iter().find_map(|relation| {
        let column = place.checked_sub(relation.base).filter(|&column| column < relation.width)?;
        Some((relation, column))
    })
}

/// How many different values a column of a table has, as far as keys and indexes tell.
pub(super) fn values_of(planner: &Planner<'_>, column: &Expr, tables: &Tables<'_>) -> Option<f64> {
    let (relation, column) = relation_of(column, tables.relations)?;
    let table = match &relation.source {
        Source::Table(table) => table,
        Source::System { table, .. } => {
            let key = table.keys.iter().find(|key| key.column == column)?;
            return Some((table.rows_expected / key.rows_alike).max(1.0));
        }
        _ => return None,
    };
    let rows = planner.sizes.rows(table).max(1.0);
    if table.key_columns() == [column] {
        return Some(rows);
    }
    let mut known = None;
    let indexes =
        table.plain_indexes().filter(|index| index.columns.first().is_some_and(|first| first.column == column));
    for index in indexes {
        if index.unique && index.columns.len() == 1 {
            return Some(rows);
        }
        known = known.or(Some(&**index));
    }
    let by_key = table.key_columns().first() == Some(&column);
    let index = match known {
        Some(index) => Some(index),
        None if by_key => None,
        None => return None,
    };
    let alike = planner.sizes.rows_alike(table, index, 1)?;
    Some((rows / alike.per_value.max(1.0)).max(1.0))
}

/// How many rows the table has of which the columns hold a unique key.
fn unique_rows(planner: &Planner<'_>, columns: &[Expr], tables: &Tables<'_>) -> Option<f64> {
    let mut places = Vec::new();
    let mut of = None;
    for column in columns {
        let (relation, column) = relation_of(column, tables.relations)?;
        if *of.get_or_insert(relation.base) != relation.base {
            return None;
        }
        places.push(column);
    }
    let relation = tables.relations.iter().find(|relation| Some(relation.base) == of)?;
    let Source::Table(table) = &relation.source else { return None };
    let is_held = |mut key: std::slice::Iter<'_, usize>| key.len() > 0 && key.all(|column| places.contains(column));
    let by_index = |index: &std::sync::Arc<colibri_catalog::Index>| {
        let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
        index.unique && is_held(columns.iter())
    };
    (is_held(table.key_columns().iter()) || table.plain_indexes().any(by_index))
        .then(|| planner.sizes.rows(table).max(1.0))
}
