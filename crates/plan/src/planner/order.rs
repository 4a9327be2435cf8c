//! The order that rows come in, and the one that a query wants.
//!
//! Rows that come in all of the order wanted are not sorted. Those that come in the order of its
//! first columns are sorted part by part, as far as they are read: with a LIMIT that is not far.

use colibri_catalog::{Index, Table};
use colibri_txn::Direction;
use colibri_types::Type;
use colibri_types::aggregates::Aggregate;

use super::Sizes;
use super::access::SORT_COST;
use super::judge::left_by;
use super::query::constant_limit;
use crate::expr::{CompareOp, Expr, walk};
use crate::logical::{Distinct, From, Group, Join, Query, Relation, Select, Source};
use crate::plan::SortKey;

/// A column that rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) column: usize,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
    /// The column has no NULLs, so where they would go does not matter.
    pub(super) not_null: bool,
}

/// Columns of the wide row that have the same values in all rows, since a condition says so: each
/// with the first one of those. Rows that are ordered by one of them are ordered by all.
#[derive(Debug, Default)]
pub(super) struct EqualColumns(Vec<(usize, usize)>);

impl EqualColumns {
    /// Of all rows of a SELECT.
    pub(super) fn of(select: &Select) -> Self {
        let mut equal = Self::default();
        select.filter.iter().for_each(|condition| equal.note(condition));
        if let Some(from) = &select.from {
            from.for_each_kept_condition(&mut |condition| equal.note(condition));
            equal.note_partners(from);
        }
        equal
    }

    /// Notes what rows have in common with the partners that semi joins find for them.
    fn note_partners(&mut self, from: &From) {
        match from {
            From::Join { kind: Join::Semi, left, on, .. } => {
                on.iter().for_each(|condition| self.note(condition));
                self.note_partners(left);
            }
            From::Join { kind: Join::Anti, left, .. } => self.note_partners(left),
            _ => {}
        }
    }

    fn note(&mut self, condition: &Expr) {
        match condition {
            Expr::And(all) => all.iter().for_each(|condition| self.note(condition)),
            Expr::Compare { op: CompareOp::Eq, left, right } => {
                if let (Expr::Column(left), Expr::Column(right)) = (&**left, &**right) {
                    let (one, other) = (self.first(*left), self.first(*right));
                    let (first, later) = (one.min(other), one.max(other));
                    self.0.iter_mut().filter(|(_, known)| *known == later).for_each(|(_, known)| *known = first);
                    self.0.extend([(*left, first), (*right, first)]);
                }
            }
            _ => {}
        }
    }

    /// The first one of those that a column is equal to.
    fn first(&self, column: usize) -> usize {
        self.0.iter().find(|(known, _)| *known == column).map_or(column, |(_, first)| *first)
    }

    fn are(&self, one: usize, other: usize) -> bool {
        one == other || self.first(one) == self.first(other)
    }
}

/// The order that would spare a sort: its first keys, as far as they are columns of the wide row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'o> {
    pub(super) columns: &'o [Ordered],
    /// What else the columns may be.
    pub(super) equal: &'o EqualColumns,
    /// More keys follow, which are no columns of these rows: rows in the order of all `columns` still
    /// have to be sorted.
    pub(super) goes_on: bool,
    /// The order is wanted for groups, or for different rows: it costs no sort of the rows if these
    /// come in another one.
    pub(super) of_groups: bool,
    /// Reading in this order can be given up when it takes too long: see [`crate::plan::Node::FirstRows`].
    pub(super) can_give_up: bool,
}

/// How the order that rows come in fits the one that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    No,
    /// The rows are ordered by this many leading columns of the wanted order.
    Part(usize),
    Whole,
}

impl Order<'_> {
    /// Rows may come in any order.
    pub(super) const ANY: Order<'static> =
        Order { columns: &[], equal: &EqualColumns(Vec::new()), goes_on: false, of_groups: false, can_give_up: false };

    pub(super) fn is_any(&self) -> bool {
        self.columns.is_empty() && !self.goes_on
    }

    /// The same order, as far as it is about one relation, with columns as that numbers them.
    pub(super) fn over<'c>(&self, columns: &'c [Ordered]) -> Order<'c> {
        let goes_on = self.goes_on || columns.len() < self.columns.len();
        Order { columns, goes_on, ..Order { of_groups: self.of_groups, ..Order::ANY } }
    }

    /// What of it is about a relation, as columns of that.
    pub(super) fn of_relation(&self, relation: &Relation) -> Vec<Ordered> {
        let columns = relation.base..relation.base + relation.width;
        let own = |ordered: &Ordered| {
            let is_it = |&column: &usize| columns.contains(&column) && self.equal.are(column, ordered.column);
            let known = self.equal.0.iter().map(|(column, _)| *column);
            let column = std::iter::once(ordered.column).chain(known).find(is_it)?;
            Some(Ordered { column: column - relation.base, ..*ordered })
        };
        self.columns.iter().map_while(own).collect()
    }

    /// The cost of sorting rows into this order. `alike` is the average number of rows that are equal
    /// in the columns by which they are ordered already.
    pub(super) fn sort_cost(&self, rows: f64, alike: f64) -> f64 {
        if self.is_any() || self.of_groups { 0.0 } else { rows * alike.min(rows).max(2.0).log2() * SORT_COST }
    }

    /// How rows fit that come in an order, read forward.
    pub(super) fn fit(&self, given: &[Ordered]) -> Fit {
        if self.is_any() {
            return Fit::Whole;
        }
        match in_order(given, self.columns, self.equal) {
            0 => Fit::No,
            columns if columns == self.columns.len() && !self.goes_on => Fit::Whole,
            columns => Fit::Part(columns),
        }
    }

    /// How rows fit that come in an order, perhaps read backward.
    pub(super) fn fit_either_way(&self, given: &[Ordered]) -> (Fit, Direction) {
        let backward: Vec<Ordered> = given.iter().map(|ordered| ordered.reversed()).collect();
        match (self.fit(given), self.fit(&backward)) {
            (Fit::No, fit) if fit != Fit::No => (fit, Direction::Backward),
            (fit, _) => (fit, Direction::Forward),
        }
    }
}

impl Ordered {
    pub(super) fn reversed(self) -> Self {
        Self { descending: !self.descending, nulls_first: !self.nulls_first, ..self }
    }

    /// Whether rows that come in this order come in a wanted one.
    fn gives(&self, wanted: &Self, equal: &EqualColumns) -> bool {
        equal.are(self.column, wanted.column)
            && self.descending == wanted.descending
            && (self.not_null || self.nulls_first == wanted.nulls_first)
    }
}

/// In the order of how many of the columns wanted, from the first, rows come.
fn in_order(given: &[Ordered], wanted: &[Ordered], equal: &EqualColumns) -> usize {
    wanted.iter().zip(given).take_while(|(wanted, given)| given.gives(wanted, equal)).count()
}

/// What the first columns of a key order rows by, as columns of the wide row.
pub(super) fn order_of_key(table: &Table, index: Option<&Index>, columns: usize, base: usize) -> Vec<Ordered> {
    let ordered = |column: usize, descending, nulls_first, not_null| Ordered {
        column: base + column,
        descending,
        nulls_first,
        not_null,
    };
    let of_index = |index: &Index| {
        let not_null = |column: usize| table.columns[column].not_null;
        let of_key = index.columns.iter().take(columns);
        of_key.map(|key| ordered(key.column, key.descending, key.nulls_first, not_null(key.column))).collect()
    };
    let of_table = || table.key_columns().iter().take(columns).map(|&key| ordered(key, false, false, true)).collect();
    index.map_or_else(of_table, of_index)
}

/// About how many rows of a table are equal in the first columns of a key, for who goes from one value
/// to the next.
pub(super) fn rows_alike(sizes: &dyn Sizes, table: &Table, index: Option<&Index>, columns: usize) -> f64 {
    let of_key = index.map_or(table.key_columns().len(), |index| index.columns.len());
    let is_unique = columns > of_key || columns == of_key && index.is_none_or(|index| index.unique);
    if is_unique {
        return 1.0;
    }
    sizes.rows_alike(table, index, columns).map_or(1.0, |alike| alike.per_value)
}

/// A key of a query's order.
enum Key {
    /// A condition fixes it to one value.
    Fixed,
    Column(Ordered),
    /// No column of the wide row.
    Other,
}

/// Whether a condition fixes a column of the wide row to one value.
pub(super) fn is_fixed(select: &Select, column: usize) -> bool {
    select.filter.iter().chain(select.kept_conditions()).any(|condition| {
        let Expr::Compare { op: CompareOp::Eq, left, right } = condition else { return false };
        let is_column = |expr: &Expr| matches!(expr, Expr::Column(other) if *other == column);
        let is_value = |expr: &Expr| matches!(expr, Expr::Const(_) | Expr::Param(_) | Expr::Arg(_));
        (is_column(left) && is_value(right)) || (is_column(right) && is_value(left))
    })
}

/// The keys of a query's order.
fn keys<'q>(query: &'q Query, select: &'q Select, sizes: &'q dyn Sizes) -> impl Iterator<Item = Key> + 'q {
    let key = move |key: &SortKey| {
        let ordered = |column: usize| {
            Key::Column(Ordered { column, descending: key.descending, nulls_first: key.nulls_first, not_null: false })
        };
        let Expr::Column(output) = key.expr else { return Key::Other };
        let of_rows = match (select.output.get(output), &select.group) {
            (Some(Expr::Column(key)), Some(group)) => group.keys.get(*key),
            (output, _) => output,
        };
        match of_rows {
            // It has one value in all rows.
            Some(Expr::Const(_) | Expr::Param(_) | Expr::Arg(_)) => Key::Fixed,
            Some(Expr::Column(column)) if is_fixed(select, *column) => Key::Fixed,
            Some(Expr::Column(column)) => ordered(*column),
            Some(expr) => stands_for(expr, select, sizes).map_or(Key::Other, ordered),
            None => Key::Other,
        }
    };
    query.order.iter().map(key)
}

/// The column of the wide row that stands for an expression of an index.
fn stands_for(expr: &Expr, select: &Select, sizes: &dyn Sizes) -> Option<usize> {
    select.relations.iter().find_map(|relation| {
        let Source::Table(table) = &relation.source else { return None };
        let expressions = table.expressions().next().map(|_| sizes.expressions(table))?;
        let is_it = |(_, known): &&(usize, Expr)| walk::same(&super::access::over_wide_row(known, relation.base), expr);
        expressions.iter().find(is_it).map(|(column, _)| relation.base + column)
    })
}

/// The order that the rows of FROM are wanted in, without columns that a condition fixes to one
/// value. Puts its columns into `columns`.
pub(super) fn wanted_order<'c>(
    (query, select): (&Query, &Select),
    equal: &'c EqualColumns,
    columns: &'c mut Vec<Ordered>,
    sizes: &dyn Sizes,
) -> Order<'c> {
    let mut goes_on = false;
    for key in keys(query, select, sizes) {
        match key {
            Key::Fixed => {}
            Key::Column(ordered) => columns.push(ordered),
            Key::Other => {
                goes_on = true;
                break;
            }
        }
    }
    let of_groups = select.group.is_some() || matches!(select.distinct, Distinct::All(_));
    // Without a LIMIT all rows become groups, whatever order they come in.
    if of_groups && constant_limit(query).is_none() {
        return Order::ANY;
    }
    Order { columns, equal, goes_on, of_groups, can_give_up: false }
}

/// How many keys of a query's order, from the first, its rows come in the order of, if those of FROM
/// come in a given one.
pub(super) fn presorted_keys(
    (query, select): (&Query, &Select),
    equal: &EqualColumns,
    given: &[Ordered],
    sizes: &dyn Sizes,
) -> usize {
    let mut given = given.iter();
    let is_given = |key: &Key| match key {
        Key::Fixed => true,
        Key::Column(wanted) => given.next().is_some_and(|given| given.gives(wanted, equal)),
        Key::Other => false,
    };
    keys(query, select, sizes).take_while(is_given).count()
}

/// Whether some of the first keys of a query's order are columns that rows come in the order of.
pub(super) fn is_presorted(query: &Query, select: &Select, presorted: usize, sizes: &dyn Sizes) -> bool {
    keys(query, select, sizes).take(presorted).any(|key| matches!(key, Key::Column(_)))
}

/// Whether groups are the same in whatever order their rows come: none of their aggregates keeps
/// values in the order of the rows, or rounds sums.
pub(super) fn is_unseen(group: &Group) -> bool {
    // `first` is taken of what is the same in all rows of a group.
    const BY_VALUE: [&str; 11] =
        ["count", "min", "max", "sum", "avg", "bool_and", "bool_or", "every", "bit_and", "bit_or", "first"];
    let rounds = |ty: Type| matches!(ty, Type::Float4 | Type::Float8 | Type::Interval);
    group.calls.iter().all(|call| {
        let Aggregate { name, args, result, .. } = *call.aggregate;
        let sums = matches!(name, "sum" | "avg");
        BY_VALUE.contains(&name) && !(sums && (rounds(result) || args.iter().any(|&arg| rounds(arg))))
    })
}

/// How many of the first columns of an order are keys of groups, and which keys these are.
pub(super) fn presorted_groups(group: &Group, given: &[Ordered]) -> Vec<usize> {
    let is_it = |key: &Expr, ordered: &Ordered| matches!(key, Expr::Column(column) if *column == ordered.column);
    given.iter().map_while(|ordered| group.keys.iter().position(|key| is_it(key, ordered))).collect()
}

/// How many rows of FROM are taken at the most, if a LIMIT says so: of one that counts groups, or
/// different rows, about how many make as many of these.
/// Windows over rows that are not grouped are left to [`super::windows::wanted_by_windows`].
pub(super) fn limit_of_rows(query: &Query, select: &Select, order: &Order<'_>, sizes: &dyn Sizes) -> Option<f64> {
    let limit = constant_limit(query)?;
    match &select.group {
        _ if !super::windows::end_early(query, select) => None,
        _ if !order.of_groups => Some(limit),
        Some(group) if group.keys.is_empty() => None,
        group => {
            let left = if group.as_ref().is_some_and(|group| group.having.is_some()) { left_by(1) } else { 1.0 };
            Some(limit / left * rows_alike_in(order, select, sizes)?)
        }
    }
}

/// About how many rows of a table are equal in the first columns of an order, if a key begins with
/// these, or with one column or more of which conditions tell the value and these.
fn rows_alike_in(order: &Order<'_>, select: &Select, sizes: &dyn Sizes) -> Option<f64> {
    order.columns.first()?;
    let of_relation = |relation: &Relation| rows_alike_of(order, relation, sizes);
    select.relations.iter().filter_map(of_relation).reduce(f64::max)
}

fn rows_alike_of(order: &Order<'_>, relation: &Relation, sizes: &dyn Sizes) -> Option<f64> {
    let Source::Table(table) = &relation.source else { return None };
    let wanted: Vec<usize> = order.of_relation(relation).iter().map(|ordered| ordered.column).collect();
    let alike = |index: Option<&Index>| {
        let key: Vec<usize> = match index {
            Some(index) => index.columns.iter().map(|column| column.column).collect(),
            None => table.key_columns().to_vec(),
        };
        let before = key.iter().position(|column| Some(column) == wanted.first())?;
        let columns = key[before..].iter().zip(&wanted).take_while(|(of_key, wanted)| of_key == wanted).count();
        Some(rows_alike(sizes, table, index, before + columns))
    };
    let plain = table.plain_indexes().map(|index| alike(Some(index)));
    let of_all_rows = std::iter::once(alike(None)).chain(plain).flatten().reduce(f64::min);
    // An index of some rows knows how many of these are equal.
    let of_some = || table.indexes.iter().filter(|index| index.predicate.is_some() && !index.is_inverted());
    of_all_rows.or_else(|| of_some().filter_map(|index| alike(Some(index))).reduce(f64::min))
}
