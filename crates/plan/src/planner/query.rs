//! Planning a query above FROM.

use std::sync::Arc;

use colibri_txn::Direction;
use colibri_types::{Datum, Result, Type, functions::ON_VALUES, pulse};

use super::access::{Path, Wanted};
use super::cost::{is_dear, is_query_per_row};
use super::joins::{Tables, add_needed};
use super::order::{
    EqualColumns, Order, is_presorted, is_unseen, limit_of_rows, presorted_groups, presorted_keys, wanted_order,
};
use super::windows::with_windows;
use super::{Asked, Layout, Ordered, Planned, Planner, Rewrites, filtered};
use crate::bind::CursorRows;
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{Body, Distinct, Extra, Group, Query, Recursive, Relation, Select, Source};
use crate::plan::parallel;
use crate::plan::partitions::Tree;
use crate::plan::{Access, AggregateCall, JoinKind, LockTarget, Node, SortKey};

/// What planning a query takes, in units of the pulse.
const UNITS_PER_QUERY: usize = 500;

/// How many columns a query's body gives, those for its order included.
pub(super) fn width(query: &Query) -> usize {
    match &query.body {
        Body::Select(select) => select.output.len() + lock_columns(query, select).iter().map(Vec::len).sum::<usize>(),
        _ => query.columns.len(),
    }
}

/// For each relation whose rows are locked or marked, the places of its key in the wide row.
fn lock_columns(query: &Query, select: &Select) -> Vec<Vec<usize>> {
    let locked = |relation: &Relation| query.is_marked || locks(query, relation);
    select
        .relations
        .iter()
        .map(|relation| match &relation.source {
            Source::Table(table) if locked(relation) => match table.key_columns() {
                [] => vec![relation.base + table.columns.len()],
                key => key.iter().map(|column| relation.base + column).collect(),
            },
            Source::Tree(tree) if locked(relation) => {
                key_of_tree(tree).into_iter().map(|column| relation.base + column).collect()
            }
            _ => Vec::new(),
        })
        .collect()
}

/// The columns of a tree's rows that its leaves' keys consist of: the number and the leaf, then
/// columns of primary keys.
fn key_of_tree(tree: &Tree) -> Vec<usize> {
    let mut columns = vec![tree.root.columns.len(), tree.leaf_column()];
    for leaf in &tree.leaves {
        for &key in leaf.table.key_columns() {
            let place = leaf.columns.iter().position(|own| *own == Some(key));
            columns.extend(place.filter(|place| !columns.contains(place)));
        }
    }
    columns
}

/// The rows of a tree's leaves that are to be locked, whose keys' columns are from a place on.
fn targets_of_tree(tree: &Tree, place: usize) -> impl Iterator<Item = LockTarget> {
    let columns = key_of_tree(tree);
    tree.leaves.iter().filter_map(move |leaf| {
        let at = |key: &usize| {
            let of_root = leaf.columns.iter().position(|own| *own == Some(*key))?;
            columns.iter().position(|column| *column == of_root).map(|at| place + at)
        };
        let key = match leaf.table.key_columns() {
            [] => Some(vec![place]),
            key => key.iter().map(at).collect(),
        };
        Some(LockTarget {
            table: std::sync::Arc::clone(&leaf.table),
            key: key?,
            only: Some((place + 1, leaf.table.id)),
        })
    })
}

/// Whether a query locks the rows of a relation.
fn locks(query: &Query, relation: &Relation) -> bool {
    query.locks.iter().any(|lock| lock.of.is_empty() || lock.of.contains(&relation.name))
}

/// Where the keys of the rows of a cursor's tables are in its rows: of the tables that are locked,
/// or of the only one if the plan does nothing but read it.
pub fn cursor_rows(query: &Query, root: &Node) -> CursorRows {
    let mut rows = CursorRows { locks: !query.locks.is_empty(), tables: Vec::new() };
    let Body::Select(select) = &query.body else { return rows };
    let is_wanted = |relation: &Relation| if rows.locks { locks(query, relation) } else { is_read_through(root) };
    let mut place = select.output.len();
    for (relation, key) in select.relations.iter().zip(lock_columns(query, select)) {
        if let Source::Table(table) = &relation.source
            && !key.is_empty()
            && is_wanted(relation)
        {
            rows.tables.push((table.id, (place..place + key.len()).collect()));
        }
        place += key.len();
    }
    rows
}

/// Whether rows of a table come as they are read.
fn is_read_through(node: &Node) -> bool {
    match node {
        Node::Scan(_) => true,
        Node::Filter { input, .. } | Node::Project { input, .. } | Node::Limit { input, .. } => is_read_through(input),
        Node::FirstRows { in_order, .. } => is_read_through(in_order),
        _ => false,
    }
}

/// A LIMIT that is known.
pub(super) fn constant_limit(query: &Query) -> Option<f64> {
    let value = |expr: &Option<Expr>| match expr {
        None => Some(0.0),
        Some(Expr::Const(Datum::Int(value))) => Some(*value as f64),
        Some(_) => None,
    };
    query.limit.as_ref().filter(|_| !query.with_ties)?;
    // A parameter is most often small.
    Some(value(&query.limit).unwrap_or(100.0) + value(&query.offset).unwrap_or(100.0))
}

/// For each relation of a SELECT, its columns that are looked at above FROM, `locked` ones among
/// them.
pub(super) fn needed_above(select: &Select, locked: &[usize]) -> Vec<Vec<usize>> {
    let mut needed = vec![Vec::new(); select.relations.len()];
    let mut need = |expr: &Expr| {
        rewrite::for_each_column(expr, &mut |place| add_needed(&select.relations, &mut needed, place));
    };
    match &select.group {
        None => select.output.iter().chain(select.extras.iter().flat_map(Extra::exprs)).for_each(&mut need),
        Some(group) => {
            select.grouped_rows.iter().flat_map(|(_, extra)| extra.exprs()).for_each(&mut need);
            group.keys.iter().for_each(&mut need);
            for call in &group.calls {
                call.args.iter().chain(&call.filter).for_each(&mut need);
                call.order.iter().for_each(|key| need(&key.expr));
            }
        }
    }
    locked.iter().for_each(|&place| need(&Expr::Column(place)));
    needed
}

impl Planner<'_> {
    pub(super) fn query(&mut self, query: &Query) -> Result<Node> {
        pulse::work(UNITS_PER_QUERY)?;
        let (node, presorted) = match &query.body {
            Body::Values(rows) => {
                let mut rows = rows.clone();
                rows.iter_mut().flatten().try_for_each(|value| self.prepare(value))?;
                (Node::Values { rows: rows.into() }, 0)
            }
            Body::Set { op, all, left, right } => (self.set((*op, *all), left, right, self.first_rows_of(query))?, 0),
            Body::Recursive(terms) => (self.recursive(terms)?, 0),
            Body::GroupingSets(grouping) => {
                let (input, sets) = (Box::new(self.query(&grouping.input)?), grouping.sets.clone().into());
                (Node::GroupingSets { input, sets }, 0)
            }
            Body::Select(select) => {
                // Its wide row is another one.
                let provided = std::mem::take(&mut self.provided);
                // Of the relations that were written: passes add others.
                let locked = lock_columns(query, select).concat();
                let mut select = select.clone();
                self.rewrite(&mut select, &Asked { columns: &locked, query: Some(query) })?;
                self.limit_read_query(query, &mut select);
                let planned = self.select(query, &select, &locked);
                self.provided = provided;
                planned?
            }
        };
        let (mut limit, mut offset) = (query.limit.clone(), query.offset.clone());
        limit.iter_mut().chain(&mut offset).try_for_each(|count| self.prepare(count))?;
        let sorts = presorted < query.order.len();
        let (mut node, late) = match &query.body {
            Body::Select(select) => match &select.distinct {
                _ if query.with_ties => (node, None),
                Distinct::No if sorts => put_off(node, query, &[]),
                Distinct::On(places) if !query.order.is_empty() => put_off(node, query, places),
                _ => (node, None),
            },
            _ => (node, None),
        };
        let width = match (&node, &late, &query.body) {
            (Node::Project { exprs, .. }, Some(_), _) => exprs.len(),
            (_, _, Body::Select(select)) => select.output.len(),
            _ => 0,
        };
        if sorts {
            let top = top_of(&limit, &offset);
            // A row that another transaction has locked may be skipped, and DISTINCT ON leaves rows
            // out: then more are needed than LIMIT says.
            let leaves_out = matches!(&query.body, Body::Select(select) if matches!(select.distinct, Distinct::On(_)));
            let top = if query.locks.is_empty() && !leaves_out && !query.with_ties { top } else { None };
            node = Node::Sort { input: Box::new(node), keys: query.order.clone().into(), top, presorted };
            if self.pays_to_divide(&node) {
                node = Node::Parallel { input: Arc::new(node) };
            }
        }
        if let Body::Select(select) = &query.body
            && let Distinct::On(places) = &select.distinct
        {
            node = distinct_on(node, places, width);
        }
        if let Some(exprs) = late {
            node = Node::Project { input: Box::new(node), exprs: exprs.into() };
        }
        if let Body::Select(select) = &query.body {
            node = self.locks(query, select, node);
        }
        if limit.is_some() || offset.is_some() {
            let ties = query.order.iter().filter(|_| query.with_ties).filter_map(|key| match key.expr {
                Expr::Column(column) => Some(column),
                _ => None,
            });
            let ties = ties.collect();
            node = Node::Limit { input: Box::new(node), limit, offset, ties };
        }
        Ok(node)
    }

    /// How many rows a query wants, if it takes each that FROM gives.
    fn rows_wanted(&mut self, query: &Query, select: &Select) -> Result<Option<Expr>> {
        let takes_each = matches!(select.distinct, Distinct::No) && select.group.is_none() && select.extras.is_empty();
        if !takes_each || !query.locks.is_empty() || query.order.is_empty() || query.with_ties {
            return Ok(None);
        }
        let (mut limit, mut offset) = (query.limit.clone(), query.offset.clone());
        limit.iter_mut().chain(&mut offset).try_for_each(|count| self.prepare(count))?;
        Ok(top_of(&limit, &offset))
    }

    fn locks(&self, query: &Query, select: &Select, node: Node) -> Node {
        let columns = lock_columns(query, select);
        let mut node = node;
        for lock in &query.locks {
            let mut place = select.output.len();
            let mut targets = Vec::new();
            for (relation, key) in select.relations.iter().zip(&columns) {
                let is_meant = lock.of.is_empty() || lock.of.contains(&relation.name);
                match &relation.source {
                    Source::Table(table) if is_meant => {
                        let key = (place..place + key.len()).collect();
                        targets.push(LockTarget { table: std::sync::Arc::clone(table), key, only: None });
                    }
                    Source::Tree(tree) if is_meant => targets.extend(targets_of_tree(tree, place)),
                    _ => {}
                }
                place += key.len();
            }
            node = Node::LockRows {
                input: Box::new(node),
                targets: targets.into(),
                mode: lock.mode,
                if_locked: lock.if_locked,
            };
        }
        node
    }

    fn recursive(&mut self, terms: &Recursive) -> Result<Node> {
        let columns = terms.first.columns.len();
        let first = Box::new(self.side(&terms.first, columns)?);
        let again = Box::new(self.side(&terms.again, columns)?);
        Ok(Node::Recursive { id: terms.id, name: terms.name.clone(), all: terms.all, columns, first, again })
    }

    /// Plans a SELECT; and how many keys of the query's order its rows come in the order of.
    fn select(&mut self, query: &Query, select: &Select, locked: &[usize]) -> Result<(Node, usize)> {
        let filter = select.filter.clone();
        let Some(from) = &select.from else {
            let one = filtered(Node::Values { rows: [Vec::new()].into() }, filter);
            let node = match &select.group {
                Some(group) => grouped(group, with_grouped_rows(one, &Layout::default(), select), &[]),
                None => one,
            };
            return Ok(different(listed(node, query, select), query, select, (0, false)));
        };
        let rewrites = self.sizes.rewrites();
        let equal = EqualColumns::of(select);
        let sizes = self.sizes;
        let presorted = |given: &[Ordered]| match presorted_keys((query, select), &equal, given, sizes) {
            presorted if presorted < query.order.len() && rewrites == Rewrites::None => 0,
            presorted => presorted,
        };
        if let Some(group) = &select.group {
            let one_row = self.shortcut(select, group).map(|node| (node, Vec::new()));
            if let Some((node, order)) = one_row.or_else(|| self.groups_from_key(select, group)) {
                let node = listed(filtered(node, having(group)), query, select);
                return Ok(different(node, query, select, (presorted(&order), false)));
            }
        }
        if locked.is_empty()
            && let Some((node, order)) = self.different_from_key(select)
        {
            return Ok((node, presorted(&order)));
        }
        let needed = needed_above(select, locked);
        let mut columns = Vec::new();
        let order = wanted_order((query, select), &equal, &mut columns, sizes);
        let mut limit = limit_of_rows(query, select, &order, self.sizes);
        let by_windows = match rewrites {
            Rewrites::None => None,
            _ => super::windows::wanted_by_windows(query, select, order.columns),
        };
        let order = match &by_windows {
            Some(wanted) => {
                let all = (!order.goes_on && wanted.ends_early).then(|| constant_limit(query)).flatten();
                limit = all.into_iter().chain(wanted.most).min_by(f64::total_cmp);
                Order { columns: &wanted.columns, goes_on: wanted.goes_on, of_groups: false, ..order }
            }
            None => order,
        };
        let top = self.rows_wanted(query, select)?;
        let top = top.as_ref();
        let relations = &select.relations;
        let tables = Tables { relations, needed: &needed, order, limit, top, chooses: true, ends_early: false };
        let unseen = rewrites != Rewrites::None && select.group.as_ref().is_some_and(is_unseen);
        let outer = std::mem::replace(&mut self.order_is_unseen, unseen);
        let planned = self.from(from, filter, &tables);
        self.order_is_unseen = outer;
        let planned = planned?;
        if let Some(group) = &select.group {
            let keys = if rewrites == Rewrites::None { Vec::new() } else { presorted_groups(group, &planned.order) };
            let in_order = presorted(&planned.order[..keys.len()]);
            let helps_more = rewrites == Rewrites::Paying && self.helps_more(select, group, &planned.node);
            let rows = with_grouped_rows(planned.node, &planned.layout, select);
            let ends_early = in_order > 0 && query.limit.is_some();
            let gives_order_up = !keys.is_empty() && !ends_early && helps_more;
            let mut node = self.grouped(group, rows, if gives_order_up { &[] } else { &keys });
            let presorted = match gives_order_up && is_helped(&node) {
                true => 0,
                false => {
                    set_presorted(&mut node, keys.into());
                    in_order
                }
            };
            return Ok(different(listed(node, query, select), query, select, (presorted, false)));
        }
        let presorted = presorted(&planned.order);
        // A LIMIT on different rows takes fewer than all.
        let ends_early =
            is_presorted(query, select, presorted, sizes) && limit.is_some_and(|limit| limit < planned.rows);
        let in_place = |by: &Ordered| Some(Ordered { column: planned.layout.place(by.column)?, ..*by });
        let given = planned.order.iter().filter(|_| rewrites != Rewrites::None).map_while(in_place).collect::<Vec<_>>();
        let (node, mut exprs) = with_extras(planned.node, query, select, Places::of_rows(&planned.layout), &given);
        let planned = Planned { node, ..planned };
        exprs.extend(locked.iter().map(|&place| planned.layout.bind(Expr::Column(place))));
        let same = select.extras.is_empty()
            && exprs.len() == planned.layout.0.len()
            && exprs.iter().enumerate().all(|(index, expr)| matches!(expr, Expr::Column(column) if *column == index));
        let node =
            if same { planned.node } else { Node::Project { input: Box::new(planned.node), exprs: exprs.into() } };
        Ok(different(node, query, select, (presorted, ends_early)))
    }

    /// `count(*)` of ranges of keys, and `min` or `max` at their ends, without visiting the rows
    /// between: a row of each call by itself, side by side.
    fn shortcut(&mut self, select: &Select, group: &Group) -> Option<Node> {
        if !group.keys.is_empty() {
            return None;
        }
        let mut all: Option<Node> = None;
        for call in &group.calls {
            let node = self.shortcut_of(select, call, group.calls.len())?;
            all = Some(match all.take() {
                None => node,
                Some(outer) => Node::NestedLoop {
                    kind: JoinKind::Inner,
                    outer: Box::new(outer),
                    inner: Box::new(node),
                    first_slot: self.slots,
                    args: [].into(),
                    on: None,
                    inner_width: 1,
                },
            });
        }
        all
    }

    /// One row with what a call gives, one of some calls.
    fn shortcut_of(&mut self, select: &Select, call: &AggregateCall, calls: usize) -> Option<Node> {
        let [relation] = &select.relations[..] else { return None };
        if call.distinct || call.filter.is_some() || !call.order.is_empty() {
            return None;
        }
        let all = select.filter.iter().chain(&relation.filter);
        let conditions: Vec<Expr> = all.cloned().flat_map(rewrite::conjuncts).collect();
        let column = match &call.args[..] {
            [] => None,
            [Expr::Column(column)] => Some(*column),
            _ => return None,
        };
        let table = match &relation.source {
            Source::Table(table) => table,
            Source::Tree(tree) if matches!(call.aggregate.name, "min" | "max") => {
                return self.ends_of_leaves((tree, relation.base), &conditions, (call, calls), column?);
            }
            _ => return None,
        };
        match (call.aggregate.name, column) {
            ("count", None) => {
                let wanted = Wanted::alone((table, relation.base), &[], &conditions, self.sizes);
                // Each range is counted once; a range of NULLs does not exist in the primary key.
                let exact = |path: &Path| path.taken.len() == conditions.len();
                let path = wanted.paths(self.sizes).into_iter().find(exact)?;
                let access = match path.index {
                    None => Access::Key { ranges: path.ranges },
                    Some(index) => Access::Index { index, ranges: path.ranges, covering: true },
                };
                Some(Node::CountRange { table: std::sync::Arc::clone(table), access: access.into() })
            }
            ("min" | "max", Some(column)) => {
                self.end_of_range((table, relation.base), conditions, (call, calls), column)
            }
            _ => None,
        }
    }

    /// `min` or `max` of a column: what the first row gives of a way whose rows come in the
    /// column's order. All conditions are ranges of that way, or few rows are looked at until one
    /// fulfils the others.
    pub(super) fn end_of_range(
        &mut self,
        (table, base): (&std::sync::Arc<colibri_catalog::Table>, usize),
        mut conditions: Vec<Expr>,
        (call, calls): (&AggregateCall, usize),
        column: usize,
    ) -> Option<Node> {
        if !table.columns[column].not_null {
            conditions.push(Expr::IsNull { input: Box::new(Expr::Column(base + column)), negated: true });
        }
        let needed = [column];
        let wanted = Wanted::alone((table, base), &needed, &conditions, self.sizes);
        let descending = call.aggregate.name == "max";
        let is_first = |path: &Path| path.order.first().is_some_and(|first| first.column == column);
        let ends_there = |path: &Path| path.taken.len() == conditions.len() && is_first(path);
        let found = wanted.paths(self.sizes).into_iter().find(ends_there);
        let all_cost = match &found {
            None if self.sizes.rewrites() != Rewrites::None => self.cheapest(&wanted, &Order::ANY, None).cost,
            _ => 0.0,
        };
        if found.is_none() && !conditions.iter().all(|c| rewrite::is_pure(c) && !rewrite::is_volatile(c)) {
            return None;
        }
        let columns = [Ordered { column, descending, nulls_first: descending, not_null: true }];
        let order = Order { columns: &columns, can_give_up: true, ..Order::ANY };
        let (path, instead) = match found {
            Some(path) => (path, None),
            None => {
                let cheapest = self.cheapest(&wanted, &order, Some(1.0));
                let in_order = is_first(&cheapest.path) && !cheapest.path.fixed.contains(&column);
                if !in_order || cheapest.cost * calls as f64 >= all_cost {
                    return None;
                }
                (cheapest.path, cheapest.instead)
            }
        };
        let forward = path.order[0].descending == descending;
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let scanned = self.scan(&wanted, path, direction, &|expr| expr);
        let top = Expr::Const(Datum::Int(1));
        let scanned = match instead {
            Some(instead) => self.first_rows(&wanted, &order, (scanned, instead), &top),
            None => scanned,
        };
        let one = Node::Limit {
            input: Box::new(scanned.node),
            limit: Some(Expr::Const(Datum::Int(1))),
            offset: None,
            ties: [].into(),
        };
        Some(aggregated(call.clone(), one, &scanned.layout))
    }
}

/// Where an operator's row has what the expressions of a SELECT look at.
pub(super) struct Places {
    /// Columns of the wide row; `None` if the row is a group's, whose keys are in their places.
    columns: Option<Layout>,
    /// Where what the aggregates give begins.
    aggregates: usize,
    /// Columns of extras, by their places in the SELECT.
    extras: Vec<(usize, usize)>,
    width: usize,
}

impl Places {
    fn of_rows(layout: &Layout) -> Self {
        Self { columns: Some(layout.clone()), aggregates: 0, extras: Vec::new(), width: layout.0.len() }
    }

    fn of_group(group: &Group) -> Self {
        let aggregates = group.keys.len();
        Self { columns: None, aggregates, extras: Vec::new(), width: aggregates + group.calls.len() }
    }

    fn of_select(select: &Select) -> Self {
        select.group.as_ref().map_or_else(|| Self::of_rows(&Layout::default()), Self::of_group)
    }

    /// Of the wide row itself.
    pub(super) fn of_wide_row_itself() -> Self {
        Self { columns: None, aggregates: 0, extras: Vec::new(), width: 0 }
    }

    /// The column of the wide row that a column of the row is.
    pub(super) fn of_wide_row(&self, column: usize) -> Option<usize> {
        match &self.columns {
            Some(layout) => layout.0.get(column).copied(),
            None => Some(column),
        }
    }

    /// Notes that the next column of the row is that of an extra.
    pub(super) fn push(&mut self, extra: usize) {
        self.extras.push((extra, self.width));
        self.width += 1;
    }

    /// How many columns the row has.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Notes that columns come behind those of the row.
    pub(super) fn widen(&mut self, columns: usize) {
        self.width += columns;
    }

    /// An expression of the SELECT as one over the operator's row.
    pub(super) fn bind(&self, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        self.bind_in_place(&mut expr);
        expr
    }

    pub(super) fn bind_in_place(&self, expr: &mut Expr) {
        match expr {
            Expr::Column(column) => {
                if let Some(columns) = &self.columns {
                    *column = columns.place(*column).expect("the planner asks for every column that is needed above");
                }
            }
            Expr::Aggregate(call) => *expr = Expr::Column(self.aggregates + *call),
            Expr::Extra(extra) => {
                let known = self.extras.iter().find(|(other, _)| other == extra);
                *expr = Expr::Column(known.expect("extras come before what looks at them").1);
            }
            other => rewrite::for_each_child_mut(other, &mut |child| self.bind_in_place(child)),
        }
    }

    pub(super) fn bind_keys(&self, keys: &[SortKey]) -> Vec<SortKey> {
        keys.iter().map(|key| SortKey { expr: self.bind(&key.expr), ..key.clone() }).collect()
    }
}

/// Groups of rows, as far as HAVING wants them. The rows come in the order of the keys at
/// `presorted`.
/// One row with what a call gives of all rows.
pub(super) fn aggregated(call: AggregateCall, rows: Node, layout: &Layout) -> Node {
    let group = Group { keys: Vec::new(), calls: vec![call], always: Vec::new(), having: None };
    grouped(&group, (rows, Places::of_rows(layout)), &[])
}

fn grouped(group: &Group, (input, places): (Node, Places), presorted: &[usize]) -> Node {
    let bind = |exprs: &[Expr]| exprs.iter().map(|expr| places.bind(expr)).collect::<Vec<_>>();
    let call = |call: &AggregateCall| AggregateCall {
        aggregate: call.aggregate,
        args: bind(&call.args),
        distinct: call.distinct,
        filter: call.filter.as_ref().map(|filter| places.bind(filter)),
        order: places.bind_keys(&call.order),
    };
    let (keys, calls) = (bind(&group.keys), group.calls.iter().map(call).collect());
    let (input, keys, presorted) = (Box::new(input), keys.into(), presorted.into());
    let always = group.always.clone().into();
    filtered(Node::Aggregate { input, keys, calls, presorted, always }, having(group))
}

/// Work, in rows looked at, from which on it pays that threads help.
const DIVIDED_WORK_MIN: f64 = 20_000.0;
/// The work of what each thread makes for itself is at most one part in so many.
const REPEATED_PARTS: f64 = 4.0;
/// An index has few groups if its groups have at least this many rows on average.
const ROWS_OF_FEW_GROUPS: f64 = 4.0;

impl Planner<'_> {
    /// As [`grouped`]; threads may help if there is much to look at.
    fn grouped(&self, group: &Group, rows: (Node, Places), presorted: &[usize]) -> Node {
        self.helped(grouped(group, rows, presorted))
    }

    /// Whether help with groups is worth more than that their rows come in order: an index gives many
    /// rows of few groups, as far as it can tell.
    fn helps_more(&self, select: &Select, group: &Group, rows: &Node) -> bool {
        let [relation] = &select.relations[..] else { return false };
        let Some(scan) = parallel::driving_scan(rows) else { return false };
        let Access::Index { index, .. } = &scan.access else { return false };
        let place = |key: &Expr| match key {
            Expr::Column(column) => index.columns.iter().position(|ordered| relation.base + ordered.column == *column),
            _ => None,
        };
        let Some(places) = group.keys.iter().map(place).collect::<Option<Vec<_>>>() else { return false };
        let columns = places.into_iter().max().map_or(0, |last| last + 1);
        self.groups_of_key(&scan.table, Some(index), columns) * ROWS_OF_FEW_GROUPS <= scan.rows
    }

    fn helped(&self, node: Node) -> Node {
        match node {
            Node::Filter { input, condition } => Node::Filter { input: Box::new(self.helped(*input)), condition },
            Node::Aggregate { .. } if self.pays_to_divide(&node) => Node::Parallel { input: Arc::new(node) },
            node => node,
        }
    }

    fn pays_to_divide(&self, node: &Node) -> bool {
        match self.sizes.rewrites() {
            _ if parallel::divided_by(node).is_none() => return false,
            Rewrites::None => return false,
            Rewrites::All => return true,
            Rewrites::Paying => {}
        }
        let (_, work) = self.work(node);
        let repeated: f64 = parallel::repeated(node).into_iter().map(|node| self.work(node).1).sum();
        work >= DIVIDED_WORK_MIN && repeated * REPEATED_PARTS <= work
    }
}

fn is_helped(node: &Node) -> bool {
    match node {
        Node::Filter { input, .. } => is_helped(input),
        node => matches!(node, Node::Parallel { .. }),
    }
}

/// Says of a grouping that is not divided which of its keys rows come in the order of.
fn set_presorted(node: &mut Node, keys: Arc<[usize]>) {
    match node {
        Node::Filter { input, .. } => set_presorted(input, keys),
        Node::Aggregate { presorted, .. } => *presorted = keys,
        _ => {}
    }
}

/// HAVING over the group's row.
fn having(group: &Group) -> Vec<Expr> {
    let places = Places::of_group(group);
    group.having.iter().map(|condition| places.bind(condition)).collect()
}

/// The SELECT list over groups, or over the only row where there is no FROM.
fn listed(node: Node, query: &Query, select: &Select) -> Node {
    let (node, exprs) = with_extras(node, query, select, Places::of_select(select), &[]);
    Node::Project { input: Box::new(node), exprs: exprs.into() }
}

/// What the SELECT list has of several rows, as columns behind a node's: the node, and the list's
/// expressions over its row.
/// The node's rows come in the order of `given`, which are columns of these.
fn with_extras(node: Node, query: &Query, select: &Select, mut places: Places, given: &[Ordered]) -> (Node, Vec<Expr>) {
    // Those that the list asks for, and those that these are called on.
    let mut used: Vec<usize> = Vec::new();
    let mut asked: Vec<usize> = select.output.iter().flat_map(rewrite::extras_in).collect();
    while let Some(at) = asked.pop() {
        if !used.contains(&at) {
            used.push(at);
            asked.extend(select.extras[at].exprs().into_iter().flat_map(rewrite::extras_in));
        }
    }
    used.sort_unstable();
    // Windows are computed first.
    let node = with_windows(node, query, select, &mut places, &used, given);
    let rows = used.iter().map(|&at| (at, &select.extras[at])).filter(|(_, extra)| matches!(extra, Extra::Rows(..)));
    let node = expanded(node, &mut places, rows.collect());
    let exprs = select.output.iter().map(|expr| places.bind(expr)).collect();
    (node, exprs)
}

/// Rows with what functions give behind them. A function that is called on what another one gives
/// comes behind that one.
fn expanded(node: Node, places: &mut Places, mut calls: Vec<(usize, &Extra)>) -> Node {
    let mut node = node;
    while !calls.is_empty() {
        let waits = |extra: &Extra| {
            let inside = extra.exprs().into_iter().flat_map(rewrite::extras_in);
            inside.into_iter().any(|at| calls.iter().any(|(other, _)| *other == at))
        };
        let (later, now): (Vec<_>, Vec<_>) = calls.iter().copied().partition(|(_, extra)| waits(extra));
        let mut ready = Vec::with_capacity(now.len());
        for (_, extra) in &now {
            if let Extra::Rows(series, args) = extra {
                ready.push((*series, args.iter().map(|arg| places.bind(arg)).collect()));
            }
        }
        now.iter().for_each(|(at, _)| places.push(*at));
        node = Node::Expand { input: Box::new(node), calls: ready.into() };
        calls = later;
    }
    node
}

/// The rows that are grouped, where functions among the keys multiply them.
fn with_grouped_rows(node: Node, layout: &Layout, select: &Select) -> (Node, Places) {
    let mut places = Places::of_rows(layout);
    let calls = select.grouped_rows.iter().map(|(at, extra)| (*at, extra)).collect();
    let node = expanded(node, &mut places, calls);
    (node, places)
}

/// Bug: `SELECT nextval('s') FROM t ORDER BY x LIMIT 3` took a value for each row of the table, in
/// the order of the table. Consequence: the three rows had values out of order, and the others were
/// lost. Fix: what gives another value each time is evaluated behind the sort, for rows that are
/// given; what the rows are sorted by, or told apart by (`keys`), is not.
///
/// The same goes for queries that are asked for each row and for functions that take long, where a
/// LIMIT leaves out rows. (Bug: not for functions. Consequence: for ten documents in an order the
/// headlines of all that match were made. Fix: as PostgreSQL has it.)
///
/// Gives the projection without such expressions, behind whose columns stands what they need, and
/// what is to be projected behind the sort.
fn put_off(node: Node, query: &Query, keys: &[usize]) -> (Node, Option<Vec<Expr>>) {
    let Node::Project { input, exprs } = node else { return (node, None) };
    let is_key = |place: usize| {
        keys.contains(&place)
            || query
                .order
                .iter()
                .any(|key| rewrite::any(&key.expr, &|part| matches!(part, Expr::Column(column) if *column == place)))
    };
    // A LIMIT gives few of the rows, and what takes long would be in vain for each of the others.
    let is_asked_late = |expr: &Expr| query.limit.is_some() && (is_query_per_row(expr) || is_dear(expr));
    let is_late = |(place, expr): (usize, &Expr)| (rewrite::is_volatile(expr) || is_asked_late(expr)) && !is_key(place);
    if !exprs.iter().enumerate().any(is_late) {
        return (Node::Project { input, exprs }, None);
    }
    let (mut early, mut late) = (exprs.to_vec(), Vec::with_capacity(exprs.len()));
    for (place, mut expr) in exprs.iter().cloned().enumerate() {
        if !is_late((place, &expr)) {
            late.push(Expr::Column(place));
            continue;
        }
        early[place] = Expr::Const(Datum::Null);
        rewrite::for_each_column(&expr, &mut |column| {
            if !early.iter().any(|known| matches!(known, Expr::Column(other) if *other == column)) {
                early.push(Expr::Column(column));
            }
        });
        rewrite::map_columns(&mut expr, &|column| {
            let is_it = |known: &Expr| matches!(known, Expr::Column(other) if *other == column);
            early.iter().position(is_it).expect("what the expression needs was added above")
        });
        late.push(expr);
    }
    (Node::Project { input, exprs: early.into() }, Some(late))
}

/// The output's different rows, if DISTINCT asks for these. Gives how many keys of the query's order
/// they come in the order of, if all rows come in that of so many. With `ends_early` equal rows are
/// put side by side, so that a LIMIT ends it.
fn different(node: Node, query: &Query, select: &Select, (presorted, ends_early): (usize, bool)) -> (Node, usize) {
    let has_windows = select.extras.iter().any(|extra| matches!(extra, Extra::Window(_)));
    // Windows leave rows in the order in which they come.
    let presorted = match super::windows::presorted(query, &node) {
        Some(by_windows) if has_windows => by_windows,
        _ => presorted,
    };
    let ends_early = ends_early && !has_windows;
    match select.distinct {
        Distinct::All(columns) if ends_early && presorted > 0 => {
            (different_in_order(node, query, columns, presorted), query.order.len())
        }
        // Rows that memory has no room for are looked at later.
        Distinct::All(columns) => (Node::Distinct { input: Box::new(node), columns, sorted: false }, 0),
        Distinct::No | Distinct::On(_) => (node, presorted),
    }
}

/// The different ones of rows that come in the order of a query's first keys, in its order: those
/// that are equal are put side by side.
fn different_in_order(node: Node, query: &Query, columns: usize, presorted: usize) -> Node {
    let mut keys = query.order.clone();
    for column in 0..columns {
        if !keys.iter().any(|key| matches!(key.expr, Expr::Column(other) if other == column)) {
            keys.push(SortKey { expr: Expr::Column(column), descending: false, nulls_first: false });
        }
    }
    let node = match presorted == keys.len() {
        true => node,
        false => Node::Sort { input: Box::new(node), keys: keys.into(), top: None, presorted },
    };
    Node::Distinct { input: Box::new(node), columns, sorted: true }
}

/// The first of the rows that are equal in some columns: these are put in front, and taken off
/// again.
fn distinct_on(node: Node, places: &[usize], width: usize) -> Node {
    let front = places.iter().copied().chain(0..width).map(Expr::Column).collect();
    let node = Node::Project { input: Box::new(node), exprs: front };
    let node = Node::Distinct { input: Box::new(node), columns: places.len(), sorted: true };
    Node::Project { input: Box::new(node), exprs: (places.len()..places.len() + width).map(Expr::Column).collect() }
}

/// How many rows there are to be before the last one that LIMIT lets through, and with it.
pub(super) fn top_of(limit: &Option<Expr>, offset: &Option<Expr>) -> Option<Expr> {
    match (limit, offset) {
        (None, _) => None,
        (Some(limit), None) => Some(limit.clone()),
        (Some(limit), Some(offset)) => sum(limit, offset),
    }
}

fn sum(limit: &Expr, offset: &Expr) -> Option<Expr> {
    if let (Expr::Const(Datum::Int(limit)), Expr::Const(Datum::Int(offset))) = (limit, offset) {
        return limit.checked_add(*offset).map(|sum| Expr::Const(Datum::Int(sum)));
    }
    let function = ON_VALUES.operator("+", Some(Type::Int8), Type::Int8).ok()?;
    Some(Expr::Call { function, args: vec![limit.clone(), offset.clone()] })
}
