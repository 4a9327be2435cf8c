//! Semi joins that begin with the values that are asked for.
//!
//! `id IN (SELECT …)` with few different values is an inner join with these: they are taken once
//! each, and the rows of the table are looked up by them. Where the planner cannot know that they
//! are few, and they would all go into a hash table otherwise, the plan has both orders of the
//! joins, and the run chooses (see [`Node::Choice`]).

use std::sync::Arc;

use colibri_types::{Result, pulse};

use super::access::{Path, SEEK_COST, Wanted};
use super::join_order::values_of;
use super::joins::{HASH_COST, Item, Method, Tables, UNITS_PER_METHOD, equality};
use super::order::{Fit, Order, Ordered};
use super::system::{SYSTEM_SEEK_COST, SystemWanted};
use super::{Layout, Planned, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::walk::uses_slots;
use crate::logical::{From, Source};
use crate::plan::{JoinKind, KeyedId, Node, SortKey};

/// Whether the values of a semi join are looked up first.
pub(super) enum Leads {
    No,
    /// In these columns.
    Always(Vec<usize>),
    /// If there are no more of them than that.
    IfFew(Vec<usize>, usize),
}

/// The order in which a part gives the values of its one key, if rows in that order need not be
/// sorted.
pub(super) fn order_of_values(item: &Item<'_>, tables: &Tables<'_>) -> Option<Ordered> {
    let From::Relation(index) = item.from else { return None };
    let relation = &tables.relations[*index];
    let ordered = *tables.order.of_relation(relation).first()?;
    let ordered = Ordered { column: relation.base + ordered.column, ..ordered };
    (item.keys.is_empty() || item.keys == [ordered.column]).then_some(ordered)
}

/// A table of fewer rows is read without looking for what leads to some of them.
const CHOICE_ROWS_MIN: f64 = 1_000.0;

/// The run chooses only if the planner expects fewer values than the largest number that counts as
/// few, times this.
const MANY_RATIO: f64 = 1.2;

/// How many values are few where all rewrites are tried.
const FEW_TRIED: usize = 3;
/// How many values are expected where there are few.
pub(super) const FEW_ROWS: f64 = 10.0;

impl Planner<'_> {
    /// Plans a part by itself.
    pub(super) fn part(&mut self, item: &Item<'_>, tables: &Tables<'_>) -> Result<Planned> {
        if item.keys.is_empty() {
            return self.item(item.from, item.conditions.clone(), tables);
        }
        if let Some((input, id)) = &item.kept {
            let (id, input, width) = (*id, Arc::clone(input), item.keys.len());
            let node = Node::Keyed { id, input, width, keys: [].into(), looked_at_max: u64::MAX };
            return Ok(Planned { node, layout: Layout(item.keys.clone()), rows: FEW_ROWS, order: Vec::new() });
        }
        let ordered: Vec<Ordered> = order_of_values(item, tables).into_iter().collect();
        let order = if ordered.is_empty() { Order::ANY } else { Order { columns: &ordered, ..Order::ANY } };
        let planned = self.item(item.from, item.conditions.clone(), &Tables { order, limit: None, ..*tables })?;
        let is_ordered = !ordered.is_empty() && order.fit(&planned.order) == Fit::Whole;
        let keys: Vec<Expr> = item.keys.iter().map(|&key| planned.layout.bind(Expr::Column(key))).collect();
        let is_all = keys.len() == planned.layout.0.len();
        let in_place = |(place, key): (usize, &Expr)| matches!(key, Expr::Column(column) if *column == place);
        let node = if is_all && keys.iter().enumerate().all(in_place) {
            planned.node
        } else {
            Node::Project { input: Box::new(planned.node), exprs: keys.into() }
        };
        let (node, order) = match &ordered[..] {
            _ if is_ordered => (node, ordered),
            // Few of the rows that are found by the values are read, so these are sorted instead.
            &[Ordered { descending, nulls_first, .. }] if tables.limit.is_some() => {
                let key = SortKey { expr: Expr::Column(0), descending, nulls_first };
                (Node::Sort { input: Box::new(node), keys: [key].into(), top: None, presorted: 0 }, ordered)
            }
            _ => (node, Vec::new()),
        };
        let node = Node::Distinct { input: Box::new(node), columns: item.keys.len(), sorted: !order.is_empty() };
        Ok(Planned { node, layout: Layout(item.keys.clone()), rows: planned.rows, order })
    }

    /// Whether a semi join's different values are few enough to look up by each of them the rows of
    /// the table that they are compared with. Where they are too many by what the planner knows,
    /// and would all be put into a hash table, the run may find out.
    #[inline(never)]
    pub(super) fn leads(&self, at: usize, items: &[Item<'_>], estimates: &[f64], tables: &Tables<'_>) -> Result<Leads> {
        let (semi, values) = (&items[at], estimates[at]);
        if semi.kind != JoinKind::Semi || semi.on.is_empty() {
            return Ok(Leads::No);
        }
        let mut keys = Vec::new();
        for condition in &semi.on {
            let own = |expr: &Expr| matches!(expr, Expr::Column(column) if semi.columns.has(*column));
            let others = |expr: &Expr| !semi.columns.has_any(expr);
            match equality(condition, &others, &own) {
                Some((_, Expr::Column(key))) => keys.push(key),
                _ => return Ok(Leads::No),
            }
        }
        for (place, item) in items.iter().enumerate().filter(|(_, item)| item.is_inner()) {
            pulse::work(UNITS_PER_METHOD)?;
            let From::Relation(index) = item.from else { continue };
            let conditions: Vec<Expr> = item.conditions.iter().chain(&semi.on).cloned().collect();
            let (base, columns) = (tables.relations[*index].base, &tables.needed[*index][..]);
            let table = match &tables.relations[*index].source {
                Source::Table(table) => table,
                Source::System { table, .. } => {
                    let known = |column| semi.columns.has(column);
                    let by_values = SystemWanted::with(self, (table, base), &conditions, &known);
                    let scan = SystemWanted::alone(self, (table, base), &item.conditions).rows_found();
                    if let Some((mut by, found)) = by_values.cheapest()
                        && by.any(|condition| semi.columns.has_any(condition))
                        && values * (HASH_COST + SYSTEM_SEEK_COST + found) < scan
                    {
                        return Ok(Leads::Always(keys));
                    }
                    continue;
                }
                _ => continue,
            };
            let by_values = Wanted {
                table,
                base,
                columns,
                conditions: &conditions,
                known: &|column| semi.columns.has(column),
                expressions: self.sizes.expressions(table),
            };
            let uses_values = |path: &Path| path.taken.iter().any(|&taken| semi.columns.has_any(&conditions[taken]));
            let lookup = by_values.paths(self.sizes).into_iter().filter(uses_values).map(|path| path.cost);
            let Some(lookup) = lookup.min_by(f64::total_cmp) else { continue };
            let alone = Wanted { known: &|_| false, ..by_values.with(&item.conditions) };
            let columns = tables.order.of_relation(&tables.relations[*index]);
            // As many rows are read as have so many partners among them.
            let share = self.left_by_partners(JoinKind::Semi, &semi.on, values, tables);
            let limit = tables.limit.map(|limit| limit / share);
            let scan = self.cheapest(&alone, &tables.order.over(&columns), limit).cost;
            let each = HASH_COST + SEEK_COST + lookup;
            // In the order that is wanted, no more of the values are looked up than give enough rows.
            if let Some(limit) = tables.limit.filter(|_| order_of_values(semi, tables).is_some() && keys.len() == 1) {
                let seen = limit / share;
                let probed = self.method(seen, &item.columns, semi, &[], values, tables).0;
                if values * HASH_COST + limit.min(values) * (SEEK_COST + lookup) < scan + probed {
                    return Ok(Leads::Always(keys));
                }
            }
            let chooses = tables.chooses
                && self.may_have_two_ways()
                && tables.limit.is_none()
                && self.is_independent(semi, tables);
            if self.sizes.rewrites() == Rewrites::All {
                let tries = chooses && semi.conditions.is_empty();
                return Ok(if tries { Leads::IfFew(keys, FEW_TRIED) } else { Leads::Always(keys) });
            }
            if values * each < scan {
                return Ok(Leads::Always(keys));
            }
            let is_hashed = || {
                let columns = &item.columns;
                self.method(estimates[place], columns, semi, &[], values, tables).1 == Method::Hash
            };
            let few = scan / each;
            let may_be_few = self.different(&keys, values, tables).is_none_or(|different| different < few * MANY_RATIO);
            if chooses && scan >= CHOICE_ROWS_MIN && may_be_few && is_hashed() {
                return Ok(Leads::IfFew(keys, few as usize));
            }
        }
        Ok(Leads::No)
    }

    /// About how many different values some rows have in a column, if an index tells how many the
    /// whole table has. They are taken to come up alike often.
    fn different(&self, keys: &[usize], rows: f64, tables: &Tables<'_>) -> Option<f64> {
        let [key] = keys else { return None };
        let all = values_of(self, &Expr::Column(*key), tables)?;
        Some(all * (1.0 - (-rows / all).exp()))
    }

    /// Whether a part gives the same rows whenever it is run.
    fn is_independent(&self, item: &Item<'_>, tables: &Tables<'_>) -> bool {
        let From::Relation(index) = item.from else { return false };
        let is_free = match &tables.relations[*index].source {
            Source::Table(_) | Source::Tree(_) => true,
            Source::Query(query) => !rewrite::query_uses_args(query),
            _ => false,
        };
        is_free && !item.conditions.iter().chain(&item.on).any(uses_slots)
    }

    /// Joins both ways, of which the run chooses one: led by a semi join's different values if
    /// there are few of them, and as if nobody had asked if not.
    #[inline(never)]
    pub(super) fn choice(
        &mut self,
        items: Vec<Item<'_>>,
        across: Vec<Expr>,
        at: usize,
        keys: Vec<usize>,
        few_max: usize,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        let tables = &Tables { chooses: false, ..*tables };
        let leading = Item { keys: keys.clone(), kind: JoinKind::Inner, ..items[at].clone() };
        let (id, input) = (KeyedId::next(), Arc::new(self.part(&leading, tables)?.node));
        let kept =
            Node::Keyed { id, input: Arc::clone(&input), width: keys.len(), keys: [].into(), looked_at_max: u64::MAX };
        let mut led = items.clone();
        let mut across_led = across.clone();
        across_led.append(&mut led[at].on);
        led[at] = Item { kept: Some((input, id)), on: Vec::new(), ..leading };
        let few = self.in_two_ways(|planner| planner.join_all(led, across_led, None, tables))?;
        let many = self.in_two_ways(|planner| planner.join_all(items, across, None, tables))?;
        let layout = Layout(many.layout.0.iter().copied().filter(|&one| few.layout.place(one).is_some()).collect());
        let rows = many.rows;
        let give = |planned: Planned| {
            let exprs = layout.0.iter().map(|&column| planned.layout.bind(Expr::Column(column))).collect();
            Box::new(Node::Project { input: Box::new(planned.node), exprs })
        };
        let (few, many) = (give(few), give(many));
        let node = Node::Choice { few_max, kept: Box::new(kept), few, many };
        Ok(Planned { node, layout, rows, order: Vec::new() })
    }
}
