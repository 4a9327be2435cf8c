//! Partitioned tables: each of the tables that have rows is read in its own best way, those that can
//! have none of the rows that are wanted are left out.
//!
//! What conditions say of a partition's key leaves partitions out while the plan is made, if the
//! values are known then. If they are known when the statement runs, or when an outer row is there, a
//! condition without columns stands in front of the partition, and is looked at before its first row.
//!
//! While a leaf is planned, its columns are those from [`FAR`] on, where no relation has any.

use std::sync::Arc;

use colibri_catalog::PartitionStrategy;
use colibri_types::{Datum, Type, operators};

use super::access::{Cheapest, SEEK_COST, Wanted};
use super::joins::{Columns, Tables};
use super::lateral::OuterValues;
use super::order::{Fit, Order, Ordered};
use super::query::aggregated;
use super::relation::gated;
use super::{Layout, Planned, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr, Test};
use crate::plan::partitions::{Bound, Edge, Leaf, Router, Target, Tree};
use crate::plan::{AggregateCall, Node, SortKey};

/// Where the columns of a leaf begin while it is planned.
const FAR: usize = 1 << 40;

/// Values of a list that are looked at one by one at most: beyond that, it leaves nothing out.
const LIST_MAX: usize = 1_000;

/// A leaf with so many rows may be read for the least or the greatest value in it.
const READ_ROWS_MAX: f64 = 1_000.0;

/// Whether a partition has rows that are wanted.
#[derive(Debug, Clone)]
enum May {
    No,
    Yes,
    /// If this is true, which has no columns of the tree.
    If(Expr),
}

impl May {
    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Yes => other(),
            Self::If(one) => match other() {
                Self::No => Self::No,
                Self::Yes => Self::If(one),
                Self::If(other) => Self::If(Expr::And(vec![one, other])),
            },
        }
    }

    fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => Self::Yes,
            Self::No => other(),
            Self::If(one) => match other() {
                Self::Yes => Self::Yes,
                Self::No => Self::If(one),
                Self::If(other) => Self::If(Expr::Or(vec![one, other])),
            },
        }
    }
}

/// What conditions say of a column of a key.
#[derive(Debug, Default)]
struct Facts {
    /// It is one of these. NULL is none of them.
    values: Option<Vec<Expr>>,
    null: bool,
    not_null: bool,
    /// Bounds, and whether they themselves are meant.
    low: Vec<(Expr, bool)>,
    high: Vec<(Expr, bool)>,
}

/// Whether a value stands in this way to another one.
fn compared(op: CompareOp, value: &Expr, other: &Datum) -> May {
    match value {
        Expr::Const(Datum::Null) => May::No,
        Expr::Const(value) => {
            let order = operators::compare(value, other);
            let holds = match op {
                CompareOp::Eq => order.is_eq(),
                CompareOp::Ne => order.is_ne(),
                CompareOp::Lt => order.is_lt(),
                CompareOp::Le => order.is_le(),
                CompareOp::Gt => order.is_gt(),
                CompareOp::Ge => order.is_ge(),
            };
            if holds { May::Yes } else { May::No }
        }
        value => {
            let right = Box::new(Expr::Const(other.clone()));
            May::If(Expr::Compare { op, left: Box::new(value.clone()), right })
        }
    }
}

impl Facts {
    fn is_nothing(&self) -> bool {
        self.values.is_none() && !self.null && !self.not_null && self.low.is_empty() && self.high.is_empty()
    }

    fn note(&mut self, condition: &Expr, key: &Expr, is_known: &dyn Fn(&Expr) -> bool) {
        let is_key = |expr: &Expr| match expr {
            Expr::Cast { input, from, to, .. } if same_keys(*from, to.ty) && to.modifier.0 < 0 => {
                rewrite::same(input, key)
            }
            expr => rewrite::same(expr, key),
        };
        match condition {
            Expr::Compare { op, left, right } => {
                for (op, column, value) in [(*op, left, right), (op.flipped(), right, left)] {
                    if !is_key(column) || !is_known(value) {
                        continue;
                    }
                    let value = (**value).clone();
                    match op {
                        CompareOp::Eq if self.values.is_none() => self.values = Some(vec![value]),
                        CompareOp::Eq | CompareOp::Ne => {}
                        CompareOp::Lt => self.high.push((value, false)),
                        CompareOp::Le => self.high.push((value, true)),
                        CompareOp::Gt => self.low.push((value, false)),
                        CompareOp::Ge => self.low.push((value, true)),
                    }
                    break;
                }
            }
            Expr::InList { input, list, negated: false, .. }
                if is_key(input) && self.values.is_none() && list.iter().all(is_known) =>
            {
                self.values = (list.len() <= LIST_MAX).then(|| list.clone());
            }
            Expr::AnyOf { test: Test::Compare(CompareOp::Eq), left, array, all: false }
                if is_key(left) && self.values.is_none() =>
            {
                if let Expr::Const(Datum::Array(array)) = &**array
                    && array.values().len() <= LIST_MAX
                {
                    let values = array.values().iter().map(|value| Expr::Const(value.clone()));
                    self.values = Some(values.collect());
                }
            }
            Expr::IsNull { input, negated } if is_key(input) => {
                if *negated {
                    self.not_null = true
                } else {
                    self.null = true
                }
            }
            _ => {}
        }
    }

    /// Whether some value that is wanted is above a value, or equal to it.
    fn reaches_up_to(&self, edge: &Datum, beyond: &dyn Fn() -> May) -> May {
        if self.null {
            return May::No;
        }
        if let Some(values) = &self.values {
            let of_one = |value: &Expr| {
                compared(CompareOp::Gt, value, edge).or(|| compared(CompareOp::Eq, value, edge).and(beyond))
            };
            return values.iter().fold(May::No, |found, value| found.or(|| of_one(value)));
        }
        self.high.iter().fold(May::Yes, |found, (high, _)| found.and(|| compared(CompareOp::Ge, high, edge)))
    }

    /// Whether some value that is wanted is below a value, or equal to it.
    fn reaches_down_to(&self, edge: &Datum, is_last: bool, beyond: &dyn Fn() -> May) -> May {
        if self.null {
            return May::No;
        }
        if let Some(values) = &self.values {
            let of_one = |value: &Expr| {
                compared(CompareOp::Lt, value, edge).or(|| compared(CompareOp::Eq, value, edge).and(beyond))
            };
            return values.iter().fold(May::No, |found, value| found.or(|| of_one(value)));
        }
        let op = if is_last { CompareOp::Lt } else { CompareOp::Le };
        self.low.iter().fold(May::Yes, |found, (low, _)| found.and(|| compared(op, low, edge)))
    }

    /// Whether a value, or NULL, may be wanted.
    fn may_be(&self, value: &Datum) -> May {
        if value.is_null() {
            let says_value = self.values.is_some() || self.not_null || !self.low.is_empty() || !self.high.is_empty();
            return if says_value { May::No } else { May::Yes };
        }
        if self.null {
            return May::No;
        }
        let mut may = match &self.values {
            None => May::Yes,
            Some(values) => values.iter().fold(May::No, |found, one| found.or(|| compared(CompareOp::Eq, one, value))),
        };
        for (bounds, or_equal, strict) in
            [(&self.low, CompareOp::Le, CompareOp::Lt), (&self.high, CompareOp::Ge, CompareOp::Gt)]
        {
            for (bound, inclusive) in bounds {
                may = may.and(|| compared(if *inclusive { or_equal } else { strict }, bound, value));
            }
        }
        may
    }

    /// The values that it may have, if these are known.
    fn constants(&self) -> Option<Vec<Datum>> {
        if self.null {
            return Some(vec![Datum::Null]);
        }
        let values = self.values.as_ref()?.iter();
        values.map(|value| if let Expr::Const(value) = value { Some(value.clone()) } else { None }).collect()
    }
}

/// Whether values of two types are compared with each other as they are.
fn same_keys(one: Type, other: Type) -> bool {
    one == other || (one.is_integer() && other.is_integer()) || (one.is_text() && other.is_text())
}

fn may_be_above(low: &[Edge], facts: &[Facts], at: usize) -> May {
    match (low.get(at), facts.get(at)) {
        (None, _) | (_, None) | (Some(Edge::Min), _) => May::Yes,
        (Some(Edge::Max), _) => May::No,
        (Some(Edge::Value(edge)), Some(facts_of)) => facts_of.reaches_up_to(edge, &|| may_be_above(low, facts, at + 1)),
    }
}

fn may_be_below(high: &[Edge], facts: &[Facts], at: usize) -> May {
    match (high.get(at), facts.get(at)) {
        (None, _) | (_, None) | (Some(Edge::Min), _) => May::No,
        (Some(Edge::Max), _) => May::Yes,
        (Some(Edge::Value(edge)), Some(facts_of)) => {
            facts_of.reaches_down_to(edge, at + 1 == high.len(), &|| may_be_below(high, facts, at + 1))
        }
    }
}

/// Keys that are looked at one by one at most.
const KEYS_MAX: usize = 4_096;

/// The keys that conditions leave, if these are known and few.
fn known_keys(facts: &[Facts]) -> Option<Vec<Vec<Datum>>> {
    let mut keys = vec![Vec::new()];
    for facts in facts {
        let values = facts.constants()?;
        if keys.len() * values.len() > KEYS_MAX {
            return None;
        }
        let with = |key: &Vec<Datum>| {
            let key = key.clone();
            values.iter().map(move |value| key.iter().cloned().chain([value.clone()]).collect::<Vec<Datum>>())
        };
        keys = keys.iter().flat_map(with).collect();
    }
    Some(keys)
}

/// Which children of a router may have rows that are wanted.
fn wanted_children(router: &Router, facts: &[Facts]) -> Vec<May> {
    // Of keys that are known it is known where they are.
    if let Some(keys) = known_keys(facts) {
        let mut found = vec![May::No; router.children.len()];
        for key in keys {
            // A value that is compared with NULL finds nothing.
            let asks_null = key.iter().zip(facts).any(|(value, facts)| value.is_null() && !facts.null);
            if let Some(place) = router.find(&key).filter(|_| !asks_null) {
                found[place] = May::Yes;
            }
        }
        return found;
    }
    let of_child = |bound: &Bound| match bound {
        Bound::Range(low, high) => may_be_above(low, facts, 0).and(|| may_be_below(high, facts, 0)),
        Bound::List(values) => match facts.first() {
            Some(facts) => values.iter().fold(May::No, |found, value| found.or(|| facts.may_be(value))),
            None => May::Yes,
        },
        Bound::Hash(..) | Bound::Default => May::Yes,
    };
    let mut found: Vec<May> = router.children.iter().map(|child| of_child(&child.bound)).collect();
    // One value is either in another partition or in the default one.
    let is_one = facts.len() == 1 && facts[0].values.as_ref().is_some_and(|values| values.len() == 1);
    if let (true, Some(default)) = (is_one && router.strategy != PartitionStrategy::Hash, router.default) {
        let others = found.iter().enumerate().filter(|(at, _)| *at != default).map(|(_, may)| may.clone());
        found[default] = match others.fold(May::No, |found, may| found.or(|| may)) {
            May::No => May::Yes,
            May::Yes => May::No,
            May::If(other) => May::If(Expr::IsBool { input: Box::new(other), value: Some(true), negated: true }),
        };
    }
    found
}

impl Planner<'_> {
    /// The leaves that may have rows which fulfil conditions over the wide row, each with what else
    /// has to be true, which is over columns that are known before.
    fn wanted_leaves(
        &self,
        (tree, base): (&Tree, usize),
        conditions: &[Expr],
        known: &dyn Fn(usize) -> bool,
    ) -> Vec<(usize, Vec<Expr>)> {
        let own = |condition: &Expr| {
            let mut condition = condition.clone();
            let places = base..base + tree.width();
            rewrite::map_columns(&mut condition, &|place| {
                if places.contains(&place) { FAR + (place - base) } else { place }
            });
            condition
        };
        let conditions: Vec<Expr> = conditions.iter().map(own).collect();
        let mut found = Vec::new();
        if tree.routers.is_empty() {
            // Each table that inherits may have any rows.
            found.extend((0..tree.leaves.len()).map(|leaf| (leaf, Vec::new())));
        } else {
            self.collect_leaves(tree, 0, &conditions, known, &mut Vec::new(), &mut found);
        }
        found.sort_by_key(|(leaf, _)| *leaf);
        found
    }

    fn collect_leaves(
        &self,
        tree: &Tree,
        router: usize,
        conditions: &[Expr],
        known: &dyn Fn(usize) -> bool,
        gates: &mut Vec<Expr>,
        found: &mut Vec<(usize, Vec<Expr>)>,
    ) {
        let of_router = &tree.routers[router];
        for (may, target) in self.children_for(&of_router.router, conditions, known).into_iter().zip(&of_router.targets)
        {
            let before = gates.len();
            match may {
                May::No => continue,
                May::Yes => {}
                May::If(gate) => gates.push(gate),
            }
            match *target {
                Target::Leaf(leaf) => found.push((leaf, gates.clone())),
                Target::Router(router) => self.collect_leaves(tree, router, conditions, known, gates, found),
            }
            gates.truncate(before);
        }
    }

    /// What conditions leave of a router's children.
    fn children_for(&self, router: &Router, conditions: &[Expr], known: &dyn Fn(usize) -> bool) -> Vec<May> {
        let is_known = |expr: &Expr| {
            let mut is = !rewrite::is_volatile(expr) && rewrite::queries_depend_on_no_row(expr);
            rewrite::for_each_column(expr, &mut |column| is = is && column < FAR && known(column));
            is
        };
        let facts: Vec<Facts> = router
            .keys
            .iter()
            .map(|key| {
                let mut expr = key.expr.clone();
                rewrite::map_columns(&mut expr, &|place| FAR + place);
                let mut facts = Facts::default();
                conditions.iter().for_each(|condition| facts.note(condition, &expr, &is_known));
                facts
            })
            .collect();
        let mut left = if facts.iter().all(Facts::is_nothing) {
            vec![May::Yes; router.children.len()]
        } else {
            wanted_children(router, &facts)
        };
        for condition in conditions {
            let Expr::Or(alternatives) = condition else { continue };
            if alternatives.len() > LIST_MAX {
                continue;
            }
            let mut any = vec![false; left.len()];
            for alternative in alternatives {
                let all = rewrite::conjuncts(alternative.clone());
                for (any, may) in any.iter_mut().zip(self.children_for(router, &all, known)) {
                    *any |= !matches!(may, May::No);
                }
            }
            for (left, any) in left.iter_mut().zip(any) {
                if !any {
                    *left = May::No;
                }
            }
        }
        left
    }

    /// Conditions over the wide row, and columns of the tree, as a leaf has them.
    fn of_leaf(
        tree: &Tree,
        leaf: &Leaf,
        base: usize,
        conditions: &[Expr],
        columns: &[usize],
    ) -> (Vec<Expr>, Vec<usize>) {
        let places = base..base + tree.width();
        let own = |condition: &Expr| {
            let mut condition = condition.clone();
            rewrite::substitute(&mut condition, &|place| {
                if places.contains(&place) { leaf.column(place - base, FAR) } else { Expr::Column(place) }
            });
            condition
        };
        let column = |&column: &usize| match leaf.column(column, 0) {
            Expr::Column(column) => Some(column),
            _ => None,
        };
        (conditions.iter().map(own).collect(), columns.iter().filter_map(column).collect())
    }

    /// About how many rows of a tree fulfil conditions.
    pub(super) fn rows_of_tree(&self, (tree, base): (&Tree, usize), conditions: &[Expr]) -> f64 {
        let mut rows = 0.0;
        for (leaf, gates) in self.wanted_leaves((tree, base), conditions, &|_| false) {
            let leaf = &tree.leaves[leaf];
            let (conditions, _) = Self::of_leaf(tree, leaf, base, conditions, &[]);
            let wanted = Wanted::alone((&leaf.table, FAR), &[], &conditions, self.sizes);
            let path = self.cheapest(&wanted, &Order::ANY, None).path;
            let found = path.rows * self.left_of(&wanted, &path);
            // Of those that wait for a value, one has it.
            rows = if gates.is_empty() { rows + found } else { f64::max(rows, found) };
        }
        rows.max(1.0)
    }

    /// About how many rows a tree has.
    pub(super) fn all_rows_of_tree(&self, tree: &Tree) -> f64 {
        tree.leaves.iter().map(|leaf| self.sizes.rows(&leaf.table)).sum::<f64>().max(1.0)
    }

    /// A leaf's rows, as rows with some of the tree's columns.
    #[expect(clippy::too_many_arguments, reason = "what is asked of a table, and what of the tree")]
    fn leaf(
        &self,
        (tree, base): (&Tree, usize),
        leaf: &Leaf,
        needed: &[usize],
        conditions: &[Expr],
        known: &dyn Fn(usize) -> bool,
        (order, limit): (&Order<'_>, Option<f64>),
        bind: &dyn Fn(Expr) -> Expr,
    ) -> Planned {
        let (conditions, columns) = Self::of_leaf(tree, leaf, base, conditions, needed);
        let wanted = Wanted {
            table: &leaf.table,
            base: FAR,
            columns: &columns,
            conditions: &conditions,
            known: &|column| column < FAR && known(column),
            expressions: self.sizes.expressions(&leaf.table),
        };
        let own = |ordered: &Ordered| match leaf.column(ordered.column, 0) {
            Expr::Column(column) => Some(Ordered { column, ..*ordered }),
            _ => None,
        };
        let ordered: Vec<Ordered> = order.columns.iter().map_while(own).collect();
        let Cheapest { path, direction, .. } = self.cheapest(&wanted, &order.over(&ordered), limit);
        let planned = self.scan(&wanted, path, direction, bind);
        let Planned { node, layout, rows, order } = planned;
        let expr = |&column: &usize| match leaf.column(column, FAR) {
            Expr::Column(place) => layout.place(place).map_or(Expr::Const(Datum::Null), Expr::Column),
            constant => constant,
        };
        let exprs: Vec<Expr> = needed.iter().map(expr).collect();
        let is_same = exprs.len() == layout.0.len()
            && exprs.iter().enumerate().all(|(at, expr)| matches!(expr, Expr::Column(column) if *column == at));
        let node = match is_same {
            true => node,
            false => Node::Project { input: Box::new(node), exprs: exprs.into() },
        };
        let of_tree = |ordered: &Ordered| {
            let column = ordered.column.checked_sub(FAR)?;
            let place = leaf.columns.iter().position(|own| *own == Some(column))?;
            needed.contains(&place).then_some(Ordered { column: base + place, ..*ordered })
        };
        let order = order.iter().map_while(of_tree).collect();
        Planned { node, layout: Layout(needed.iter().map(|column| base + column).collect()), rows, order }
    }

    /// Leaves one after the other, as they are given. They have the same columns.
    fn appended(base: usize, needed: &[usize], mut parts: Vec<Planned>, order: Vec<Ordered>) -> Planned {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        let layout = Layout(needed.iter().map(|column| base + column).collect());
        if parts.is_empty() {
            let nothing = Box::new(Node::Values { rows: [Vec::new()].into() });
            let none = Node::Filter { input: nothing, condition: Arc::new(Expr::Const(Datum::Bool(false))) };
            let exprs = needed.iter().map(|_| Expr::Const(Datum::Null)).collect();
            return Planned {
                node: Node::Project { input: Box::new(none), exprs },
                layout,
                rows: 1.0,
                order: Vec::new(),
            };
        }
        let rows = parts.iter().map(|part| part.rows).sum();
        Planned {
            node: Node::Append { inputs: parts.into_iter().map(|part| part.node).collect() },
            layout,
            rows,
            order,
        }
    }

    /// A partitioned table that is read by itself.
    pub(super) fn tree(&mut self, (tree, index): (&Tree, usize), conditions: &[Expr], tables: &Tables<'_>) -> Planned {
        let relation = &tables.relations[index];
        let (base, needed) = (relation.base, sorted(&tables.needed[index]));
        let columns = tables.order.of_relation(relation);
        let order = tables.order.over(&columns);
        let leaves = self.wanted_leaves((tree, base), conditions, &|_| false);
        let places: Vec<usize> = leaves.iter().map(|(leaf, _)| *leaf).collect();
        let mut parts: Vec<Planned> = Vec::with_capacity(leaves.len());
        for (leaf, gates) in leaves {
            let asked = (&order, tables.limit);
            let part =
                self.leaf((tree, base), &tree.leaves[leaf], &needed, conditions, &|_| false, asked, &|expr| expr);
            let part = if places.len() > 1 { self.first_of_leaf(part, tables) } else { part };
            parts.push(gated(part, gates));
        }
        let order = match columns.first() {
            Some(first) => order_of_ranges(tree, &places, base, first, &parts),
            None => Vec::new(),
        };
        if order.first().is_some_and(|first| first.descending) {
            parts.reverse();
        }
        Self::appended(base, &needed, parts, order)
    }

    /// The first rows of a leaf in the order that the query wants, where these are all that it takes:
    /// the first ones of the tree are among them.
    fn first_of_leaf(&self, part: Planned, tables: &Tables<'_>) -> Planned {
        let order = &tables.order;
        let Some(top) = tables.top.filter(|_| tables.relations.len() == 1 && !order.is_any()) else { return part };
        if order.goes_on || order.of_groups || self.sizes.rewrites() == Rewrites::None {
            return part;
        }
        let key = |wanted: &Ordered| {
            let expr = Expr::Column(part.layout.place(wanted.column)?);
            Some(SortKey { expr, descending: wanted.descending, nulls_first: wanted.nulls_first })
        };
        let Some(keys) = order.columns.iter().map(key).collect::<Option<Vec<_>>>() else { return part };
        let presorted = match order.fit(&part.order) {
            Fit::Whole => {
                let (limit, offset, ties) = (Some(top.clone()), None, [].into());
                return Planned { node: Node::Limit { input: Box::new(part.node), limit, offset, ties }, ..part };
            }
            Fit::Part(columns) => columns,
            Fit::No => 0,
        };
        let node = Node::Sort { input: Box::new(part.node), keys: keys.into(), top: Some(top.clone()), presorted };
        Planned { node, order: order.columns.to_vec(), ..part }
    }

    /// `min` or `max` of a column of a tree: that of what it is in each leaf, which a key of the
    /// leaf has at its end. Small leaves are read.
    pub(super) fn ends_of_leaves(
        &mut self,
        (tree, base): (&Tree, usize),
        conditions: &[Expr],
        (call, calls): (&AggregateCall, usize),
        column: usize,
    ) -> Option<Node> {
        let of_column = |column: usize| AggregateCall { args: vec![Expr::Column(column)], ..call.clone() };
        let needed = [column.checked_sub(base)?];
        let mut ends = Vec::new();
        for (leaf, gates) in self.wanted_leaves((tree, base), conditions, &|_| false) {
            let leaf = &tree.leaves[leaf];
            let (own, own_column) = Self::of_leaf(tree, leaf, base, conditions, &needed);
            let [own_column] = own_column[..] else { return None };
            let at_end = self.end_of_range((&leaf.table, FAR), own, (&of_column(FAR + own_column), calls), own_column);
            let node = match at_end {
                Some(node) => node,
                None if self.sizes.rows(&leaf.table) <= READ_ROWS_MAX => {
                    let asked = (&Order::ANY, None);
                    let rows = self.leaf((tree, base), leaf, &needed, conditions, &|_| false, asked, &|expr| expr);
                    aggregated(call.clone(), rows.node, &rows.layout)
                }
                None => return None,
            };
            let one = Planned { node, layout: Layout(vec![column]), rows: 1.0, order: Vec::new() };
            ends.push(gated(one, gates));
        }
        let Planned { node, layout, .. } = Self::appended(base, &needed, ends, Vec::new());
        Some(aggregated(of_column(column), node, &layout))
    }

    /// What finding the partners of one row in a tree costs, and whether values of that row help.
    pub(super) fn tree_lookup_cost(
        &self,
        (tree, base): (&Tree, usize),
        needed: &[usize],
        conditions: &[Expr],
        columns: &Columns,
    ) -> (f64, bool) {
        let known = |column: usize| columns.has(column);
        let (mut always, mut one_of, mut helps) = (0.0, 0.0_f64, false);
        for (leaf, gates) in self.wanted_leaves((tree, base), conditions, &known) {
            let leaf = &tree.leaves[leaf];
            let (own, own_columns) = Self::of_leaf(tree, leaf, base, conditions, needed);
            let wanted = Wanted {
                table: &leaf.table,
                base: FAR,
                columns: &own_columns,
                conditions: &own,
                known: &|column| column < FAR && known(column),
                expressions: self.sizes.expressions(&leaf.table),
            };
            let best = wanted.paths(self.sizes).into_iter().min_by(|one, other| one.cost.total_cmp(&other.cost));
            let Some(path) = best else { continue };
            helps |= !gates.is_empty() || path.taken.iter().any(|&taken| columns.has_any(&own[taken]));
            match gates.is_empty() {
                true => always += SEEK_COST + path.cost,
                false => one_of = (one_of + 0.5).max(path.cost),
            }
        }
        (always + one_of, helps)
    }

    /// The inner side of a nested loop: the partners of one row, whose values are in slots.
    pub(super) fn tree_lookup(
        &self,
        (tree, base): (&Tree, usize),
        needed: &[usize],
        conditions: &[Expr],
        (columns, values): (&Columns, &OuterValues<'_>),
    ) -> Planned {
        let needed = sorted(needed);
        let known = |column: usize| columns.has(column);
        let mut parts = Vec::new();
        for (leaf, gates) in self.wanted_leaves((tree, base), conditions, &known) {
            let leaf = &tree.leaves[leaf];
            let in_slots = |expr: Expr| values.in_slots(expr);
            let part = self.leaf((tree, base), leaf, &needed, conditions, &known, (&Order::ANY, None), &in_slots);
            parts.push(gated(part, gates.into_iter().map(in_slots).collect()));
        }
        Self::appended(base, &needed, parts, Vec::new())
    }
}

fn sorted(columns: &[usize]) -> Vec<usize> {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The order of leaves that are read one after the other in the order of their ranges, or against
/// it: where the leaves' own orders begin with the key's first column.
fn order_of_ranges(tree: &Tree, leaves: &[usize], base: usize, first: &Ordered, parts: &[Planned]) -> Vec<Ordered> {
    let Some(root) = tree.routers.first() else { return Vec::new() };
    let key = root.router.keys.first().map(|key| &key.expr);
    let is_by_key = root.router.strategy == PartitionStrategy::Range
        && matches!(key, Some(Expr::Column(column)) if *column == first.column);
    let is_range = |&leaf: &usize| {
        let is_it = |target: &Target| matches!(target, Target::Leaf(other) if *other == leaf);
        let place = root.targets.iter().position(is_it);
        place.is_some_and(|place| matches!(root.router.children[place].bound, Bound::Range(..)))
    };
    if parts.len() > 1 && !(is_by_key && leaves.iter().all(is_range)) {
        return Vec::new();
    }
    let Some(one) = parts.first() else { return Vec::new() };
    if parts.len() == 1 {
        return one.order.clone();
    }
    let same = |at: usize| parts.iter().all(|part| part.order.get(at) == one.order.get(at));
    let columns = (0..one.order.len()).take_while(|&at| same(at)).count();
    let begins = one.order.first().is_some_and(|ordered| ordered.column == base + first.column);
    // Ranges of several columns may have the first one's values in common.
    let columns = if root.router.keys.len() > 1 { columns.min(1) } else { columns };
    if begins { one.order[..columns].to_vec() } else { Vec::new() }
}
