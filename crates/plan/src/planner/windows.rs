//! Functions over windows: which windows are computed first, and what rows are sorted by.
//!
//! ```text
//! Window (a, b)       a window whose order is the start of the one before needs no sort
//!   Window (a, b, c)
//!     Sort (a, b, c)
//!       Project       what windows and calls look at, as columns behind those of the row
//! ```
//! Rows that come in the order of a window are not sorted, and those that come in the order of its
//! first columns are sorted part by part. So a LIMIT on running sums reads few rows.
//!
//! FROM is asked for its rows in the order that the first window needs, so that an index may spare
//! the sort.
//!
//! Where no two rows are equal in the order, a frame that ends with the rows that are equal to the
//! one at hand ends with that row, and nothing has to be kept.
//!
//! Windows are computed in PostgreSQL's order, so that rows that nothing else puts in order come as
//! they do there.

use std::cmp::Ordering;

use colibri_types::Datum;

use super::order::{self, Ordered};
use super::query::Places;
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::{Distinct, Extra, Query, Select, Source, Window};
use crate::plan::{Exprs, FrameUnits, Most, Node, SortKey, WindowCall};

/// Calls over the same window.
struct Group {
    /// Columns.
    partition: Vec<usize>,
    order: Vec<SortKey>,
    /// By their places among the extras.
    calls: Vec<(usize, WindowCall)>,
    /// What rows are sorted by, each with the number that the query gave it.
    sorted_by: Vec<(usize, SortKey)>,
}

/// The node with what the windows among `used` give behind its columns. The node's rows come in the
/// order of `given`, which are columns of these.
pub(super) fn with_windows(
    node: Node,
    query: &Query,
    select: &Select,
    places: &mut Places,
    used: &[usize],
    given: &[Ordered],
) -> Node {
    let windows: Vec<(usize, &Window)> = used
        .iter()
        .filter_map(|&at| match &select.extras[at] {
            Extra::Window(window) => Some((at, &**window)),
            Extra::Rows(..) => None,
        })
        .collect();
    if windows.is_empty() {
        return node;
    }
    let mut columns = Columns { first: places.width(), computed: Vec::new() };
    let groups = groups(query, select, places, &mut columns, &windows);
    let mut node = columns.projected(node);
    places.widen(columns.computed.len());
    let mut sorted: Option<Vec<SortKey>> = None;
    for group in groups {
        let keys: Vec<SortKey> = group.sorted_by.into_iter().map(|(_, key)| key).collect();
        let common = match &sorted {
            None => given.iter().zip(&keys).take_while(|(given, key)| gives(given, key)).count(),
            Some(sorted) => sorted.iter().zip(&keys).take_while(|(a, b)| same_key(a, b)).count(),
        };
        if common < keys.len() {
            node = Node::Sort { input: Box::new(node), keys: keys.clone().into(), top: None, presorted: common };
            sorted = Some(keys);
        }
        group.calls.iter().for_each(|(at, _)| places.push(*at));
        let calls = group.calls.into_iter().map(|(_, call)| call).collect();
        node =
            Node::Window { input: Box::new(node), partition: group.partition.into(), order: group.order.into(), calls };
    }
    node
}

/// Calls over the same windows together, in the order in which they are computed. Expressions that
/// they look at become columns.
fn groups(
    query: &Query,
    select: &Select,
    places: &Places,
    columns: &mut Columns,
    windows: &[(usize, &Window)],
) -> Vec<Group> {
    let mut numbered = numbered_keys(query, select, places);
    let mut groups: Vec<Group> = Vec::new();
    for &(at, window) in windows {
        let mut call = columns.call(&window.call, places);
        if call.frame.is_up_to_the_row() && no_two_are_equal(select, window) {
            call.frame.units = FrameUnits::Rows;
        }
        let mut order = places.bind_keys(&window.order);
        order.iter_mut().for_each(|key| columns.make_column(&mut key.expr));
        let mut partition = Vec::with_capacity(window.partition.len());
        for by in &window.partition {
            // What is the same for all rows makes no partitions.
            let by = places.bind(by);
            if !matches!(by, Expr::Const(_)) {
                partition.push(columns.column(by));
            }
        }
        let same = |group: &&mut Group| group.partition == partition && rewrite::same_order(&group.order, &order);
        if let Some(group) = groups.iter_mut().find(same) {
            group.calls.push((at, call));
            continue;
        }
        let mut sorted_by = sorted_by(&partition, &order, &mut numbered);
        sorted_by.retain(|(_, key)| !is_one_value(key, select, places));
        groups.push(Group { partition, order, calls: vec![(at, call)], sorted_by });
    }
    groups.sort_by(compare);
    // Windows that are computed later need the rows that a bound leaves out.
    if let [_, _, ..] = &groups[..] {
        groups.iter_mut().flat_map(|group| &mut group.calls).for_each(|(_, call)| call.most = None);
    }
    groups
}

/// Whether a condition says that all rows have the same value in the column of a key.
fn is_one_value(key: &SortKey, select: &Select, places: &Places) -> bool {
    let Expr::Column(column) = key.expr else { return false };
    select.group.is_none() && places.of_wide_row(column).is_some_and(|column| order::is_fixed(select, column))
}

/// What the rows of FROM are wanted in the order of for windows over them.
pub(super) struct WantedByWindows {
    /// Columns of the wide row.
    pub(super) columns: Vec<Ordered>,
    /// More keys follow, which are no columns of these rows.
    pub(super) goes_on: bool,
    /// All windows are over rows in this order, or in that of its first columns, and so is what the
    /// query wants. None of them looks at rows behind the one at hand.
    pub(super) ends_early: bool,
    /// The most rows that are looked at, as far as the windows say so.
    pub(super) most: Option<f64>,
}

/// The order that spares the sort for the window that is computed first, or for that and the query's
/// order, if this has more keys (`order`: columns of the wide row).
pub(super) fn wanted_by_windows(query: &Query, select: &Select, order: &[Ordered]) -> Option<WantedByWindows> {
    let windows = select.extras.iter().enumerate().filter_map(|(at, extra)| match extra {
        Extra::Window(window) => Some((at, &**window)),
        Extra::Rows(..) => None,
    });
    let windows: Vec<(usize, &Window)> = windows.collect();
    if windows.is_empty() || select.group.is_some() {
        return None;
    }
    let width = select.relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
    let mut computed = Columns { first: width, computed: Vec::new() };
    let groups = groups(query, select, &Places::of_wide_row_itself(), &mut computed, &windows);
    let as_ordered = |key: &SortKey| match key.expr {
        Expr::Column(column) if column < width => {
            let (descending, nulls_first) = (key.descending, key.nulls_first);
            Some(Ordered { column, descending, nulls_first, not_null: false })
        }
        _ => None,
    };
    let keys = |group: &Group| -> (Vec<Ordered>, bool) {
        let columns: Vec<Ordered> = group.sorted_by.iter().map_while(|(_, key)| as_ordered(key)).collect();
        let goes_on = columns.len() < group.sorted_by.len();
        (columns, goes_on)
    };
    let (mut columns, goes_on) = keys(groups.first()?);
    if !goes_on && order.starts_with(&columns) {
        columns = order.to_vec();
    }
    let is_in_order = |group: &Group| {
        let (own, goes_on) = keys(group);
        !goes_on && columns.starts_with(&own)
    };
    let looks_back = |group: &Group| group.calls.iter().all(|(_, call)| call.looks_back_only());
    let ends_early = columns.starts_with(order)
        && matches!(select.distinct, Distinct::No)
        && groups.iter().all(|group| is_in_order(group) && looks_back(group));
    let most = match &groups[..] {
        [group] if ends_early && group.partition.is_empty() => {
            let most = group.calls.iter().filter_map(|(_, call)| call.most.as_ref()?.constant());
            most.min_by(f64::total_cmp)
        }
        _ => None,
    };
    Some(WantedByWindows { columns, goes_on, ends_early, most })
}

/// Has a window stop where what a condition wants of it has been given, if the condition is one on
/// a call that never falls. The condition has still to be asked.
pub(super) fn note_most(select: &mut Select, condition: &Expr) {
    let Expr::Compare { op, left, right } = condition else { return };
    let (column, value, is_excluded) = match (op, &**left, &**right) {
        (CompareOp::Le | CompareOp::Eq, Expr::Column(column), value) => (*column, value, false),
        (CompareOp::Ge | CompareOp::Eq, value, Expr::Column(column)) => (*column, value, false),
        (CompareOp::Lt, Expr::Column(column), value) | (CompareOp::Gt, value, Expr::Column(column)) => {
            (*column, value, true)
        }
        _ => return,
    };
    // A value of a row outside would make other rows of what may be read for all of these.
    let is_known = matches!(value, Expr::Const(_) | Expr::Param(_));
    let (Some(Expr::Extra(at)), true, Distinct::No) = (select.output.get(column), is_known, &select.distinct) else {
        return;
    };
    if let Some(Extra::Window(window)) = select.extras.get_mut(*at)
        && window.call.never_falls()
    {
        window.call.most = Some(Most { value: value.clone(), is_excluded });
    }
}

/// Whether rows that come in the order of a column are sorted by a key.
fn gives(given: &Ordered, key: &SortKey) -> bool {
    matches!(key.expr, Expr::Column(column) if column == given.column)
        && key.descending == given.descending
        && (given.not_null || key.nulls_first == given.nulls_first)
}

/// Whether all rows differ in the columns of a window: these hold a unique key without NULLs.
fn no_two_are_equal(select: &Select, window: &Window) -> bool {
    let ([relation], None, []) = (&select.relations[..], &select.group, &select.grouped_rows[..]) else { return false };
    let Source::Table(table) = &relation.source else { return false };
    let exprs = || window.partition.iter().chain(window.order.iter().map(|key| &key.expr));
    let is_held =
        |&column: &usize| exprs().any(|expr| matches!(expr, Expr::Column(own) if *own == relation.base + column));
    let by_index = |index: &std::sync::Arc<colibri_catalog::Index>| {
        let is_held =
            |of_key: &colibri_catalog::IndexColumn| is_held(&of_key.column) && table.columns[of_key.column].not_null;
        index.unique && index.columns.iter().all(is_held)
    };
    let key = table.key_columns();
    !key.is_empty() && key.iter().all(is_held) || table.plain_indexes().any(by_index)
}

/// Whether a LIMIT on a SELECT with windows ends the reading of its rows: no window looks at rows
/// behind the one at hand, and the rows that are given first are the first ones of each window.
pub(super) fn end_early(query: &Query, select: &Select) -> bool {
    let mut order = query.order.iter().map_while(|key| match key.expr {
        Expr::Column(place) => select.output.get(place).map(|expr| SortKey { expr: expr.clone(), ..key.clone() }),
        _ => None,
    });
    let order: Vec<SortKey> = order.by_ref().collect();
    select.extras.iter().all(|extra| match extra {
        Extra::Rows(..) => true,
        Extra::Window(window) => {
            let looks_back = window.call.looks_back_only()
                || window.call.function.is_running()
                    && window.call.frame.is_up_to_the_row()
                    && no_two_are_equal(select, window);
            looks_back
                && window.partition.is_empty()
                && window.order.len() <= order.len()
                && window.order.iter().zip(&order).all(|(own, wanted)| same_key(own, wanted))
        }
    })
}

/// How many keys of a query's order, from the first, rows come in the order of that windows were
/// computed over; `None` if these were not sorted for it.
pub(super) fn presorted(query: &Query, node: &Node) -> Option<usize> {
    let Node::Project { input, exprs } = node else { return None };
    let mut below = &**input;
    while let Node::Expand { input, .. } | Node::Window { input, .. } = below {
        below = input;
    }
    let Node::Sort { keys, .. } = below else { return None };
    let is_given = |(wanted, given): &(&SortKey, &SortKey)| {
        let Expr::Column(place) = wanted.expr else { return false };
        let given_by = exprs.get(place);
        given_by.is_some_and(|expr| same_key(&SortKey { expr: expr.clone(), ..(*wanted).clone() }, given))
    };
    Some(query.order.iter().zip(keys.iter()).take_while(is_given).count())
}

fn same_key(a: &SortKey, b: &SortKey) -> bool {
    let is_same = matches!((&a.expr, &b.expr), (Expr::Column(a), Expr::Column(b)) if a == b);
    is_same && a.descending == b.descending && a.nulls_first == b.nulls_first
}

/// Columns behind those of a row, for what is computed of it.
struct Columns {
    first: usize,
    computed: Vec<Expr>,
}

impl Columns {
    /// The column that has what an expression gives.
    fn column(&mut self, expr: Expr) -> usize {
        if let Expr::Column(column) = expr {
            return column;
        }
        let known = if rewrite::is_volatile(&expr) {
            None
        } else {
            self.computed.iter().position(|known| rewrite::same(known, &expr))
        };
        self.first
            + known.unwrap_or_else(|| {
                self.computed.push(expr);
                self.computed.len() - 1
            })
    }

    fn make_column(&mut self, expr: &mut Expr) {
        let value = std::mem::replace(expr, Expr::Const(Datum::Null));
        *expr = Expr::Column(self.column(value));
    }

    /// A call over columns, and over what is the same for all rows.
    fn call(&mut self, call: &WindowCall, places: &Places) -> WindowCall {
        let mut call = call.clone();
        call.exprs_mut().for_each(|expr| places.bind_in_place(expr));
        // Arguments are of no interest, and may fail, where the filter leaves a row out.
        if let Some(filter) = &call.filter {
            for arg in call.args.iter_mut().filter(|arg| !is_fixed(arg) && !matches!(arg, Expr::Column(_))) {
                let value = std::mem::replace(arg, Expr::Const(Datum::Null));
                let arms = vec![(filter.clone(), value)];
                *arg = Expr::Case { arms, otherwise: Box::new(Expr::Const(Datum::Null)) };
            }
        }
        call.exprs_mut().filter(|expr| !is_fixed(expr)).for_each(|expr| self.make_column(expr));
        call
    }

    /// A node's rows with the columns behind them.
    fn projected(&self, node: Node) -> Node {
        if self.computed.is_empty() {
            return node;
        }
        let exprs: Exprs = (0..self.first).map(Expr::Column).chain(self.computed.iter().cloned()).collect();
        Node::Project { input: Box::new(node), exprs }
    }
}

/// Whether an expression is the same for all rows, and found without looking at anything else.
fn is_fixed(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(_) | Expr::Param(_) | Expr::Arg(_))
}

/// The keys of the query's order and of its groups, as far as they are columns: PostgreSQL numbers
/// them before those of windows.
fn numbered_keys(query: &Query, select: &Select, places: &Places) -> Vec<usize> {
    let mut numbered = Vec::new();
    let has_extras = |expr: &Expr| !rewrite::extras_in(expr).is_empty();
    for key in &query.order {
        if let Expr::Column(place) = key.expr
            && let Some(expr) = select.output.get(place).filter(|expr| !has_extras(expr))
            && let Expr::Column(column) = places.bind(expr)
        {
            numbered.push(column);
        }
    }
    numbered.extend(0..select.group.as_ref().map_or(0, |group| group.keys.len()));
    numbered
}

/// What rows are sorted by for a window: no column twice.
fn sorted_by(partition: &[usize], order: &[SortKey], numbered: &mut Vec<usize>) -> Vec<(usize, SortKey)> {
    let together = |&column: &usize| SortKey { expr: Expr::Column(column), descending: false, nulls_first: false };
    let mut number = |key: &SortKey| {
        let Expr::Column(column) = key.expr else { return usize::MAX };
        numbered.iter().position(|known| *known == column).unwrap_or_else(|| {
            numbered.push(column);
            numbered.len() - 1
        })
    };
    let of_order: Vec<(usize, SortKey)> = order.iter().map(|key| (number(key), key.clone())).collect();
    let mut keys: Vec<(usize, SortKey)> = Vec::new();
    for key in partition.iter().map(together).map(|key| (number(&key), key)).chain(of_order) {
        if !keys.iter().any(|(known, _)| *known == key.0) {
            keys.push(key);
        }
    }
    keys
}

/// Which of two windows comes first: those with the same first keys come side by side, the one with
/// more keys before the others.
fn compare(a: &Group, b: &Group) -> Ordering {
    for ((a_number, a), (b_number, b)) in a.sorted_by.iter().zip(&b.sorted_by) {
        let order = b_number.cmp(a_number);
        let order = order.then(b.descending.cmp(&a.descending)).then(b.nulls_first.cmp(&a.nulls_first));
        if order.is_ne() {
            return order;
        }
    }
    b.sorted_by.len().cmp(&a.sorted_by.len())
}
