//! The way to a table's rows: which key or index, and which range of it.

use std::sync::Arc;

use colibri_catalog::{Index, Table};
use colibri_txn::{ColumnSet, Direction};
use colibri_types::{Datum, Type, collation, prefix::PatternKind};

use super::first_rows::{self, Instead};
use super::order::{self, Fit, Order, Ordered};
use super::{Layout, Planned, Planner, Rewrites, Sizes, filtered};
use crate::bind::rewrite;
use crate::expr::implied::{Implied, implied};
use crate::expr::{CompareOp, Expr, Test};
use crate::plan::{Access, Inclusive, KeyPart, KeyRanges, Node, Scan};

/// What finding a key costs, in rows looked at.
pub(super) const SEEK_COST: f64 = 4.0;
/// What reading an entry costs of an index that holds all columns asked for.
const COVERED_COST: f64 = 0.9;
/// What looking up an index entry's row costs.
pub(super) const LOOKUP_COST: f64 = 3.0;
/// What looking up a row costs whose key is near the one before, so that both are on one page.
const NEAR_LOOKUP_COST: f64 = 0.5;
/// Rows are near each other if at most this many rows of the table come for each of them.
const NEAR: f64 = 32.0;
/// What putting a row's key in order costs.
const KEY_SORT_COST: f64 = 0.5;
/// Of indexes that find fewer rows none is asked together with others.
const GATHERED_MIN: f64 = 500.0;
/// So many indexes are tried together at most.
const GATHERED_WAYS_MAX: usize = 4;
/// What finding the next value of a column that is skipped costs: a look for it, and one for what
/// is below it.
const VALUE_COST: f64 = 20.0;
/// In tables of fewer rows nothing is skipped.
pub(super) const SKIPPED_ROWS_MIN: f64 = 1_000.0;
/// What sorting a row costs, for each time that the rows can be halved.
pub(super) const SORT_COST: f64 = 0.3;
/// How many times as far as on average a scan in order is taken to go until it has found enough
/// rows.
const LATE: f64 = 5.0;
/// Where every way to a table's rows costs that much, some rows are looked at to judge conditions.
const SAMPLED_COST_MIN: f64 = 5_000.0;
/// What part of the rows a range on one side leaves.
const RANGE_SELECTIVITY: f64 = 0.3;
/// Of one that begins or ends at values of other rows: half of all, on average over these.
const ROWS_RANGE_SELECTIVITY: f64 = 0.5;
/// What part of the rows a range between two values leaves.
const BETWEEN_SELECTIVITY: f64 = 0.01;

/// What a condition says about one column of a table.
#[derive(Debug, Clone)]
pub(super) enum Sarg {
    Eq(Expr),
    In(Vec<Expr>),
    AnyOf(Expr),
    Null,
    NotNull,
    Low(Expr, Inclusive),
    High(Expr, Inclusive),
    /// It begins with what all that matches a pattern begins with.
    Starts(PatternKind, Expr),
}

/// A condition that a key can take over.
#[derive(Debug, Clone)]
pub(super) struct Sargable {
    /// The table's column.
    pub(super) column: usize,
    pub(super) sarg: Sarg,
    /// Which condition it is.
    pub(super) condition: usize,
}

/// A way that was looked at.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// `None`: the primary key, or all rows.
    pub(super) index: Option<Arc<Index>>,
    pub(super) ranges: KeyRanges,
    /// Ways whose keys are gathered; there is neither an index nor a range then.
    pub(super) gathered: Vec<Access>,
    /// Rows have to be found by all of these.
    pub(super) by_all: bool,
    /// Conditions that the ranges take over.
    pub(super) taken: Vec<usize>,
    /// Conditions that the number of rows heeds: these, and those that ranges follow from.
    pub(super) counted: Vec<usize>,
    /// Rows that the ranges hold.
    pub(super) rows: f64,
    pub(super) cost: f64,
    /// What of that comes before the first row.
    pub(super) start_cost: f64,
    /// Everything asked for is in the index.
    pub(super) covering: bool,
    /// What the rows are ordered by, as columns of the table, read forward.
    pub(super) order: Vec<Ordered>,
    /// At most one row is found.
    pub(super) unique: bool,
    /// Columns of the table that have one value in all rows found.
    pub(super) fixed: Vec<usize>,
}

impl Path {
    /// The way as operators take it.
    pub(super) fn access(self, covering: bool) -> Access {
        let Self { index, ranges, gathered, by_all, .. } = self;
        match index {
            _ if !gathered.is_empty() => Access::Gathered { parts: gathered, by_all },
            None => Access::Key { ranges },
            Some(index) => Access::Index { index, ranges, covering },
        }
    }

    /// The way as a part of what is gathered.
    fn part(mut self) -> Access {
        match self.gathered.pop() {
            Some(way) if self.gathered.is_empty() => way,
            way => {
                self.gathered.extend(way);
                self.access(true)
            }
        }
    }

    /// Whether it goes by tokens.
    pub(super) fn is_inverted(&self) -> bool {
        matches!(self.gathered[..], [Access::Inverted { .. }])
    }

    /// Whether reading all rows until there are as many as wanted, of those `found` in all, costs less
    /// than gathering keys. Of keys that ordered indexes find there is a way that gathers none.
    fn start_is_late(&self, wanted: f64, found: f64, all_rows: f64) -> bool {
        let is_inverted = |part: &Access| matches!(part, Access::Inverted { .. });
        !self.gathered.iter().any(is_inverted) || wanted * all_rows / found.max(1.0) < self.start_cost
    }

    /// What reading its keys alone costs.
    fn gather_cost(&self) -> f64 {
        SEEK_COST + self.rows
    }
}

/// The way that costs least.
#[derive(Debug)]
pub(super) struct Cheapest {
    /// What it costs in the order that is wanted, and under the limit.
    pub(super) cost: f64,
    pub(super) path: Path,
    pub(super) direction: Direction,
    /// About how many rows it is followed for, where a limit ends it.
    pub(super) taken: Option<f64>,
    /// What is read if the rows that are wanted come late.
    pub(super) instead: Option<Instead>,
}

/// What is asked of a table.
pub(super) struct Wanted<'w> {
    pub(super) table: &'w Arc<Table>,
    /// Where its columns begin in the wide row.
    pub(super) base: usize,
    /// Its columns that are needed above.
    pub(super) columns: &'w [usize],
    /// Conditions over the wide row, on this table's columns and on values known before.
    pub(super) conditions: &'w [Expr],
    /// Columns of the wide row that are known before: an outer side's.
    pub(super) known: &'w dyn Fn(usize) -> bool,
    /// What columns of the table stand for, of which indexes are made.
    pub(super) expressions: Arc<[(usize, Expr)]>,
}

/// About how many values an array has that is not known yet.
const ARRAY_VALUES: f64 = 10.0;

/// Whether a column of a type is found by the bytes of another type's value: `varchar` by `text`,
/// `integer` by `bigint`.
fn same_keys(column: Type, value: Type) -> bool {
    column == value || (column.is_integer() && value.is_integer()) || (column.is_text() && value.is_text())
}

/// The sort key of a text by a collation.
fn sort_key(order: &Datum, text: Expr) -> Expr {
    Expr::Call { function: &collation::KEY, args: vec![Expr::Const(order.clone()), text] }
}

impl<'w> Wanted<'w> {
    /// What is asked of a table that is read by itself.
    pub(super) fn alone(
        (table, base): (&'w Arc<Table>, usize),
        columns: &'w [usize],
        conditions: &'w [Expr],
        sizes: &dyn Sizes,
    ) -> Self {
        let expressions = sizes.expressions(table);
        Self { table, base, columns, conditions, known: &|_| false, expressions }
    }
}

impl Wanted<'_> {
    pub(super) fn rows_of<'e>(&self, expr: &'e Expr) -> Option<(usize, &'e Expr)> {
        let inner = match expr {
            Expr::Cast { input, from, to, .. } if same_keys(*from, to.ty) && to.modifier.0 < 0 => &**input,
            other => other,
        };
        let Expr::Column(place) = inner else { return Some((self.expression(inner)?, inner)) };
        let column = place.checked_sub(self.base).filter(|&column| column < self.table.columns.len())?;
        Some((column, inner))
    }

    /// The table's column that stands for an expression.
    fn expression(&self, expr: &Expr) -> Option<usize> {
        let stands_for = |(_, known): &&(usize, Expr)| match self.base {
            0 => rewrite::same(known, expr),
            base => rewrite::same(&over_wide_row(known, base), expr),
        };
        self.expressions.iter().find(stands_for).map(|(column, _)| *column)
    }

    /// Which conditions say that only rows are wanted which have entries in an index; `None` if
    /// others may be wanted, too.
    fn limited_to(&self, index: &Index) -> Option<Implied> {
        let Some(column) = index.predicate else { return Some(Implied::default()) };
        let (_, condition) = self.expressions.iter().find(|(known, _)| *known == column)?;
        implied(self.conditions, &over_wide_row(condition, self.base))
    }

    /// The indexes that have entries for all rows that are wanted, and none for the primary key.
    fn keys(&self) -> impl Iterator<Item = Option<&Arc<Index>>> {
        let usable = |index: &&Arc<Index>| !index.is_inverted() && self.is_usable(index);
        std::iter::once(None).chain(self.table.indexes.iter().filter(usable).map(Some))
    }

    /// Whether an index has entries for all rows that are wanted.
    pub(super) fn is_usable(&self, index: &Index) -> bool {
        index.predicate.is_none() || self.limited_to(index).is_some()
    }

    /// Columns of rows that a column of an index is made of.
    fn made_of(&self, column: usize) -> Vec<usize> {
        match self.expressions.iter().find(|(known, _)| *known == column) {
            None => vec![column],
            Some((_, expression)) => {
                let mut columns = Vec::new();
                rewrite::for_each_column(expression, &mut |column| columns.push(column));
                columns
            }
        }
    }

    /// Whether a value is known before the table is read: what queries and the session give is
    /// asked for before the first row is. A query may take what is known of other rows.
    pub(super) fn is_known(&self, expr: &Expr) -> bool {
        let mut known = !rewrite::is_volatile(expr);
        rewrite::for_each_column(expr, &mut |column| known = known && (self.known)(column));
        known
    }

    /// The same with other conditions.
    pub(super) fn with<'w>(&'w self, conditions: &'w [Expr]) -> Wanted<'w> {
        Wanted { conditions, expressions: Arc::clone(&self.expressions), ..*self }
    }

    pub(super) fn sargable(&self) -> Vec<Sargable> {
        let mut found = Vec::new();
        for (condition, expr) in self.conditions.iter().enumerate() {
            let mut add = |column, sarg| found.push(Sargable { column, sarg, condition });
            match expr {
                Expr::Compare { op, left, right } => {
                    let sides = [(*op, left, right), (op.flipped(), right, left)];
                    for (op, column, value) in sides {
                        if op == CompareOp::Eq && self.is_known(value) {
                            for (key, order) in self.sort_keys_of(column) {
                                add(key, Sarg::Eq(sort_key(&order, (**value).clone())));
                            }
                        }
                        let Some((column, _)) = self.rows_of(column) else { continue };
                        if !self.is_known(value) {
                            continue;
                        }
                        let value = (**value).clone();
                        match op {
                            CompareOp::Eq => add(column, Sarg::Eq(value)),
                            CompareOp::Lt => add(column, Sarg::High(value, Inclusive(false))),
                            CompareOp::Le => add(column, Sarg::High(value, Inclusive(true))),
                            CompareOp::Gt => add(column, Sarg::Low(value, Inclusive(false))),
                            CompareOp::Ge => add(column, Sarg::Low(value, Inclusive(true))),
                            CompareOp::Ne => {}
                        }
                        break;
                    }
                }
                Expr::InList { input, list, negated: false, .. } => {
                    if list.iter().all(|item| self.is_known(item)) {
                        for (key, order) in self.sort_keys_of(input) {
                            let keys = list.iter().map(|item| sort_key(&order, item.clone()));
                            add(key, Sarg::In(keys.collect()));
                        }
                    }
                    if let Some((column, _)) = self.rows_of(input)
                        && list.iter().all(|item| self.is_known(item))
                    {
                        add(column, Sarg::In(list.clone()));
                    }
                }
                Expr::AnyOf { test: Test::Compare(CompareOp::Eq), left, array, all: false } => {
                    if let Some((column, _)) = self.rows_of(left)
                        && self.is_known(array)
                    {
                        add(column, Sarg::AnyOf((**array).clone()));
                    }
                }
                Expr::IsNull { input, negated: false } => {
                    if let Some((column, _)) = self.rows_of(input) {
                        add(column, Sarg::Null);
                    }
                }
                Expr::IsNull { input, negated: true } => {
                    if let Some((column, _)) = self.rows_of(input) {
                        add(column, Sarg::NotNull);
                    }
                }
                // A column of booleans is a condition by itself.
                Expr::Column(_) => {
                    if let Some((column, _)) = self.rows_of(expr) {
                        add(column, Sarg::Eq(Expr::Const(Datum::Bool(true))));
                    }
                }
                Expr::Not(input) => {
                    if let Some((column, _)) = self.rows_of(input).filter(|_| matches!(**input, Expr::Column(_))) {
                        add(column, Sarg::Eq(Expr::Const(Datum::Bool(false))));
                    }
                }
                Expr::IsBool { input, value, negated: false } => {
                    if let Some((column, _)) = self.rows_of(input) {
                        add(column, value.map_or(Sarg::Null, |value| Sarg::Eq(Expr::Const(Datum::Bool(value)))));
                    }
                }
                Expr::Call { function, args } => {
                    if let (Some(kind), [column, pattern]) = (PatternKind::of(function.name), &args[..])
                        && let Some((column, _)) = self.rows_of(column)
                        && matches!(self.table.columns[column].ty.ty, Type::Text | Type::Varchar)
                        && self.is_known(pattern)
                    {
                        add(column, Sarg::Starts(kind, pattern.clone()));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The columns that stand for sort keys of an expression which equal texts alone have, with their
    /// collations.
    fn sort_keys_of(&self, text: &Expr) -> Vec<(usize, Datum)> {
        let bare = match text {
            Expr::Cast { input, from, to, .. } if same_keys(*from, to.ty) && to.modifier.0 < 0 => &**input,
            other => other,
        };
        let key = |(column, known): &(usize, Expr)| {
            let Expr::Call { function, args } = known else { return None };
            let [Expr::Const(order), of] = &args[..] else { return None };
            if !std::ptr::eq(*function, &collation::KEY) || !collation::Spec::is_deterministic(order) {
                return None;
            }
            let of = match of {
                Expr::Cast { input, from, to, .. } if same_keys(*from, to.ty) && to.modifier.0 < 0 => &**input,
                other => other,
            };
            let is_it = rewrite::same(&over_wide_row(of, self.base), bare);
            is_it.then(|| (*column, order.clone()))
        };
        self.expressions.iter().filter_map(key).collect()
    }

    /// The path by a key's columns. `skipped`: how many values the first one has, which may be any
    /// of them.
    fn path(&self, index: Option<&Arc<Index>>, skipped: Option<f64>, sargable: &[Sargable], sizes: &dyn Sizes) -> Path {
        let rows = match index.filter(|index| index.predicate.is_some()) {
            Some(index) => sizes.entries(index).max(1.0),
            None => sizes.rows(self.table).max(1.0),
        };
        let values = skipped.unwrap_or(1.0);
        let skipped = usize::from(skipped.is_some());
        let key = self.key(index).split_off(skipped);
        let mut ranges = KeyRanges { skipped, ..KeyRanges::default() };
        let (mut taken, mut counted) = (Vec::new(), Vec::new());
        let mut equal = 0;
        let mut fan_out = 1.0;
        for &(column, ..) in &key {
            let of_column = || sargable.iter().filter(|sargable| sargable.column == column);
            let part = of_column()
                .find_map(|found| match &found.sarg {
                    Sarg::Eq(value) => Some((found, KeyPart::Eq(value.clone()))),
                    _ => None,
                })
                .or_else(|| {
                    of_column().find_map(|found| match &found.sarg {
                        Sarg::In(list) => Some((found, KeyPart::In(list.clone()))),
                        Sarg::AnyOf(array) => Some((found, KeyPart::AnyOf(array.clone()))),
                        Sarg::Null if index.is_some() => Some((found, KeyPart::Null)),
                        _ => None,
                    })
                });
            let Some((found, part)) = part else { break };
            fan_out *= match &part {
                KeyPart::In(list) => list.len().max(1) as f64,
                KeyPart::AnyOf(Expr::Const(Datum::Array(array))) => array.values().len().max(1) as f64,
                KeyPart::AnyOf(_) => ARRAY_VALUES,
                KeyPart::Eq(_) | KeyPart::Null => 1.0,
            };
            taken.push(found.condition);
            ranges.prefix.push(part);
            equal += 1;
        }
        let mut sides = 0;
        if let Some(&(column, ..)) = key.get(equal) {
            let starts = sargable.iter().find_map(|found| match &found.sarg {
                Sarg::Starts(kind, pattern) if found.column == column => {
                    counted.push(found.condition);
                    Some((*kind, pattern.clone()))
                }
                _ => None,
            });
            // The pattern itself is still looked at for each row.
            sides = if starts.is_some() { 2 } else { 0 };
            ranges.starts = starts;
        }
        if let Some(&(column, ..)) = key.get(equal)
            && ranges.starts.is_none()
        {
            for found in sargable.iter().filter(|sargable| sargable.column == column) {
                match &found.sarg {
                    Sarg::Low(value, inclusive) if ranges.low.is_none() => {
                        ranges.low = Some((value.clone(), *inclusive))
                    }
                    Sarg::High(value, inclusive) if ranges.high.is_none() => {
                        ranges.high = Some((value.clone(), *inclusive));
                    }
                    _ => continue,
                }
                sides += 1;
                taken.push(found.condition);
            }
        }
        if let (Some(&(column, ..)), Some(_)) = (key.get(equal), index) {
            let not_null = |found: &&Sargable| found.column == column && matches!(found.sarg, Sarg::NotNull);
            // Every other range leaves NULLs out, too.
            ranges.not_null = ranges.is_unbounded() && sargable.iter().any(|found| not_null(&found));
            taken.extend(sargable.iter().filter(not_null).map(|found| found.condition));
        }
        // NULLs are not equal: there may be any number of them.
        let has_null = ranges.prefix.iter().any(|part| matches!(part, KeyPart::Null));
        let is_unique = skipped == 0 && index.is_none_or(|index| index.unique) && !key.is_empty() && !has_null;
        let whole = equal == key.len() && !key.is_empty();
        let mut found = match equal {
            0 => rows,
            _ if whole && is_unique => fan_out,
            _ => {
                let alike = sizes.rows_alike(self.table, index.map(|index| &**index), skipped + equal);
                // What other rows ask for is most often each value once, as what is skipped is.
                let is_each_once = skipped > 0 || ranges.prefix.iter().any(is_of_other_rows);
                let alike = alike.map(|alike| if is_each_once { alike.per_value } else { alike.as_a_row });
                (alike.unwrap_or(1.0) * values * fan_out).min(rows)
            }
        };
        let has_column = |bound: &Option<(Expr, Inclusive)>| {
            bound.iter().any(|(value, _)| rewrite::any(value, &|part| matches!(part, Expr::Column(_))))
        };
        found *= match sides {
            0 => 1.0,
            1 if has_column(&ranges.low) || has_column(&ranges.high) => ROWS_RANGE_SELECTIVITY,
            1 => RANGE_SELECTIVITY,
            _ => BETWEEN_SELECTIVITY,
        };
        if !(ranges.is_everything() || whole && is_unique || skipped > 0) {
            found = sizes.rows_in(self.table, index, &ranges, found).min(rows);
        }
        let is_list = |part: &KeyPart| matches!(part, KeyPart::In(_) | KeyPart::AnyOf(_));
        let has_in = ranges.prefix.iter().any(is_list);
        // The ranges are visited in the order of their keys, so several values of a column come in
        // order, too.
        let same = ranges.prefix.iter().take_while(|part| !is_list(part)).count();
        let order = self.key_order(index).split_off(if skipped > 0 { 0 } else { same });
        let covering = index.is_some_and(|index| self.is_covered_by(index));
        let each = cost_of_entry(index.is_some(), covering);
        let seeks = match skipped {
            0 => SEEK_COST * fan_out,
            _ => values * (VALUE_COST + SEEK_COST * (fan_out - 1.0)),
        };
        let cost = seeks + found * each;
        if let Some(implied) = index.and_then(|index| self.limited_to(index)) {
            taken.extend(implied.same);
            counted.extend(implied.stronger);
        }
        taken.sort_unstable();
        taken.dedup();
        counted.extend(&taken);
        if skipped > 0 {
            // What is left of the key behind very many values becomes one range.
            taken.clear();
        }
        let fixed = key.iter().zip(&ranges.prefix);
        let fixed = fixed.filter(|(_, part)| !is_list(part) && skipped == 0).map(|(key, _)| key.0).collect();
        Path {
            fixed,
            index: index.cloned(),
            gathered: Vec::new(),
            by_all: false,
            start_cost: 0.0,
            unique: whole && is_unique && !has_in,
            ranges,
            taken,
            counted,
            rows: found,
            cost,
            covering,
            order,
        }
    }

    /// The path by a key whose first column may have any value, if the conditions say something
    /// about the second one; they are still looked at for each row. `None` if there are many values
    /// of the first one, or the conditions say something about it.
    fn path_skipping(&self, index: Option<&Arc<Index>>, sargable: &[Sargable], sizes: &dyn Sizes) -> Option<Path> {
        let key = self.key(index);
        let (&(first, ..), &(second, ..)) = (key.first()?, key.get(1)?);
        // That it is not NULL leaves it free to be any value.
        let says = |found: &Sargable| !matches!(found.sarg, Sarg::NotNull);
        let is_said_of = |column| sargable.iter().any(|found| found.column == column && says(found));
        if is_said_of(first) || !is_said_of(second) {
            return None;
        }
        let rows = sizes.rows(self.table);
        let alike = sizes.rows_alike(self.table, index.map(|index| &**index), 1)?;
        let values = (rows / alike.per_value.max(1.0)).max(1.0);
        if values * VALUE_COST >= rows {
            return None;
        }
        let path = self.path(index, Some(values), sargable, sizes);
        let says_something = !path.ranges.prefix.is_empty() || !path.ranges.is_unbounded();
        says_something.then_some(path)
    }

    /// Whether an index' entries give all columns asked for, exactly.
    fn is_covered_by(&self, index: &Index) -> bool {
        let in_entry = |column: usize| {
            let ty = self.table.columns.get(column).map(|column| column.ty.ty);
            let Some(ty) = ty else { return self.table.primary_key.is_none() };
            let in_index = index.columns.iter().any(|of_index| of_index.column == column);
            (in_index || self.table.key_columns().contains(&column)) && colibri_types::key::is_exact(ty)
        };
        let mut covered = self.columns.iter().all(|&column| in_entry(column));
        // What all entries fulfil is not looked at.
        let said = self.limited_to(index).map(|implied| implied.same).unwrap_or_default();
        let looked_at = self.conditions.iter().enumerate().filter(|(at, _)| !said.contains(at));
        for (_, condition) in looked_at {
            rewrite::for_each_column(condition, &mut |place| {
                if let Some(column) = place.checked_sub(self.base).filter(|&column| column <= self.table.columns.len())
                {
                    covered = covered && ((self.known)(place) || in_entry(column));
                }
            });
        }
        covered
    }

    /// All ways, with what each costs.
    pub(super) fn paths(&self, sizes: &dyn Sizes) -> Vec<Path> {
        let sargable = self.sargable();
        let keys = || self.keys();
        let mut paths: Vec<Path> = keys().map(|index| self.path(index, None, &sargable, sizes)).collect();
        paths.extend(self.paths_inverted(sizes));
        if sizes.rows(self.table) >= SKIPPED_ROWS_MIN {
            paths.extend(keys().filter_map(|index| self.path_skipping(index, &sargable, sizes)));
        }
        for (at, condition) in self.conditions.iter().enumerate() {
            let Some(alternatives) = alternatives_of(condition) else { continue };
            let counted = |path| Path { counted: vec![at], ..path };
            paths.extend(self.path_of_each(&alternatives, &sargable, sizes).map(counted));
            let by_any = keys().filter_map(|index| self.path_of_any(index, &alternatives, &sargable, sizes));
            paths.extend(by_any.map(counted));
        }
        paths
    }

    /// Paths that look up the rows which one index or several find in the order of their own keys. (One index alone, if rows share pages:
    /// otherwise sorting their keys costs as much as it saves.)
    fn paths_gathered(&self, paths: &[Path], sizes: &dyn Sizes) -> Vec<Path> {
        let rewrites = sizes.rewrites();
        if rewrites == Rewrites::None {
            return Vec::new();
        }
        let tries = rewrites == Rewrites::All;
        let is_one = |path: &&Path| {
            let by_range = path.index.is_some() && path.ranges.skipped == 0 && !path.ranges.is_everything();
            (by_range || path.is_inverted()) && !path.covering && !path.unique && (tries || path.rows >= GATHERED_MIN)
        };
        let mut ways: Vec<&Path> = paths.iter().filter(is_one).collect();
        ways.sort_by(|one, other| one.rows.total_cmp(&other.rows));
        ways.truncate(GATHERED_WAYS_MAX);
        let rows = sizes.rows(self.table).max(1.0);
        // What a way's ranges say is true of each row that it finds. What all entries of an index of
        // some rows fulfil is looked at again, as it may be of columns that ranges say nothing of.
        let taken = |ways: &[&Path]| -> Vec<usize> {
            let is_exact = |way: &&&Path| way.index.as_ref().is_some_and(|index| index.predicate.is_none());
            ways.iter().filter(is_exact).flat_map(|way| way.taken.iter().copied()).collect()
        };
        let gathered = |ways: &[&Path]| {
            let share: f64 = ways.iter().map(|way| way.rows / rows).product();
            let start_cost: f64 = ways.iter().map(|way| way.gather_cost() + way.rows * KEY_SORT_COST).sum();
            let found = (rows * share).max(1.0);
            Path {
                index: None,
                ranges: KeyRanges::default(),
                gathered: ways.iter().map(|way| (*way).clone().part()).collect(),
                by_all: ways.len() > 1,
                taken: taken(ways),
                // Of how many rows fulfil the conditions of several ways, samples know more.
                counted: ways[0].counted.clone(),
                rows: ways[0].rows,
                cost: if tries { 0.0 } else { start_cost + found * (1.0 + lookup_in_order(found, rows)) },
                start_cost: if tries { 0.0 } else { start_cost },
                covering: false,
                order: self.key_order(None),
                unique: false,
                fixed: ways.iter().flat_map(|way| way.fixed.iter().copied()).collect(),
            }
        };
        let mut found = Vec::new();
        for (at, first) in ways.iter().enumerate() {
            let mut together = vec![*first];
            let alone = gathered(&together);
            let mut best = (!tries && alone.cost < first.cost).then(|| alone.clone());
            for other in &ways[at + 1..] {
                // What two ways say of the same condition, they do not say twice.
                let says = |way: &&Path| other.counted.iter().any(|condition| way.counted.contains(condition));
                if together.iter().any(says) {
                    continue;
                }
                together.push(other);
                let with = gathered(&together);
                let before = best.as_ref().map_or(first.cost, |best: &Path| best.cost);
                if with.cost < before {
                    best = Some(with);
                } else {
                    together.pop();
                }
            }
            found.extend(best.or_else(|| tries.then_some(alone)));
        }
        found
    }

    /// The path by the ranges of several alternatives, of which each says something about the key;
    /// the condition itself is still looked at for each row.
    fn path_of_any(
        &self,
        index: Option<&Arc<Index>>,
        alternatives: &[Vec<Expr>],
        sargable: &[Sargable],
        sizes: &dyn Sizes,
    ) -> Option<Path> {
        let mut whole: Option<Path> = None;
        for conditions in alternatives {
            // What holds for all of them comes first: where both give values, these are the same
            // for all.
            let of_this = self.with(conditions).sargable();
            let together: Vec<Sargable> = sargable.iter().cloned().chain(of_this).collect();
            let path = self.path(index, None, &together, sizes);
            if path.ranges.is_everything() {
                return None;
            }
            match &mut whole {
                None => whole = Some(Path { ranges: KeyRanges::default(), taken: Vec::new(), unique: false, ..path }),
                Some(whole) => {
                    whole.rows += path.rows;
                    whole.cost += path.cost;
                    whole.fixed.retain(|column| path.fixed.contains(column));
                }
            }
            whole.as_mut()?.ranges.alternatives.push(path.ranges);
        }
        let mut whole = whole?;
        let is_fixed = |column: &usize| {
            sargable.iter().any(|of_all| of_all.column == *column && matches!(of_all.sarg, Sarg::Eq(_)))
        };
        whole.fixed.retain(is_fixed);
        // The ranges are visited in the order of their keys. Columns that have one value in all of
        // them say nothing about it.
        let order = self.key_order(index);
        let same = order.iter().take_while(|ordered| whole.fixed.contains(&ordered.column)).count();
        whole.order = order[same..].to_vec();
        Some(whole)
    }

    /// The path by the keys that the best way of each alternative finds; the condition itself is
    /// still looked at for each row.
    fn path_of_each(&self, alternatives: &[Vec<Expr>], sargable: &[Sargable], sizes: &dyn Sizes) -> Option<Path> {
        if alternatives.len() > UNION_MAX {
            return None;
        }
        let mut parts: Vec<Path> = Vec::new();
        for conditions in alternatives {
            let of_this = self.with(conditions).sargable();
            let together: Vec<Sargable> = sargable.iter().cloned().chain(of_this).collect();
            let ways = self
                .keys()
                .map(|index| self.path(index, None, &together, sizes))
                .filter(|way| !way.ranges.is_everything())
                .chain(self.with(conditions).paths_inverted(sizes));
            parts.push(ways.min_by(|one, other| one.gather_cost().total_cmp(&other.gather_cost()))?);
        }
        let rows: f64 = parts.iter().map(|part| part.rows).sum();
        let gathering: f64 = parts.iter().map(Path::gather_cost).sum();
        Some(Path {
            index: None,
            ranges: KeyRanges::default(),
            taken: Vec::new(),
            counted: Vec::new(),
            rows,
            cost: gathering + rows * (1.0 + lookup_in_order(rows, sizes.rows(self.table))),
            covering: false,
            order: self.key_order(None),
            unique: false,
            fixed: Vec::new(),
            start_cost: gathering,
            gathered: parts.into_iter().map(Path::part).collect(),
            by_all: false,
        })
    }

    /// About how many rows are equal in the first columns of the order that a path gives.
    fn rows_alike(&self, path: &Path, columns: usize, sizes: &dyn Sizes) -> f64 {
        let index = path.index.as_ref();
        let first = path.order.first().map(|first| first.column);
        let before = self.key(index).iter().position(|(column, ..)| Some(*column) == first).unwrap_or(0);
        order::rows_alike(sizes, self.table, index.map(|index| &**index), before + columns)
    }

    /// What a key's entries are ordered by: those of an index end with the row's key.
    pub(super) fn key_order(&self, index: Option<&Arc<Index>>) -> Vec<Ordered> {
        let ordered = |(column, descending, nulls_first): (usize, bool, bool)| Ordered {
            column,
            descending,
            nulls_first,
            not_null: index.is_none() || self.table.columns[column].not_null,
        };
        let mut order: Vec<Ordered> = self.key(index).into_iter().map(ordered).collect();
        for &column in self.table.key_columns() {
            if order.iter().all(|ordered| ordered.column != column) {
                order.push(Ordered { column, descending: false, nulls_first: false, not_null: true });
            }
        }
        order
    }

    /// A key's columns: each with whether it is descending, and has NULLs first.
    fn key(&self, index: Option<&Arc<Index>>) -> Vec<(usize, bool, bool)> {
        match index {
            Some(index) => {
                index.columns.iter().map(|column| (column.column, column.descending, column.nulls_first)).collect()
            }
            None => self.table.key_columns().iter().map(|&column| (column, false, false)).collect(),
        }
    }
}

/// What reading an entry and its row costs.
pub(super) fn cost_of_entry(is_index: bool, covering: bool) -> f64 {
    match (is_index, covering) {
        (_, true) => COVERED_COST,
        (false, false) => 1.0,
        (true, false) => 1.0 + LOOKUP_COST,
    }
}

/// What looking up each of some rows costs, in the order of their keys.
pub(super) fn lookup_in_order(rows: f64, of: f64) -> f64 {
    if rows * NEAR >= of { NEAR_LOOKUP_COST } else { LOOKUP_COST }
}

/// Ways that one condition is divided among at most.
const UNION_MAX: usize = 64;

/// Alternatives of one condition at most: more are not looked at one by one.
const ALTERNATIVES_MAX: usize = 4_096;

/// What a condition is an OR of, each as conditions that all hold: `(a, b) IN ((1, 2), …)`, which
/// has become one, and rows that are compared, `(a, b) > (1, 2)`, as well.
fn alternatives_of(condition: &Expr) -> Option<Vec<Vec<Expr>>> {
    match condition {
        Expr::Or(all) if all.len() <= ALTERNATIVES_MAX => Some(all.iter().cloned().map(rewrite::conjuncts).collect()),
        Expr::CompareRows { op, left, right } if left.len() == right.len() => {
            let strict = match op {
                CompareOp::Lt | CompareOp::Le => CompareOp::Lt,
                CompareOp::Gt | CompareOp::Ge => CompareOp::Gt,
                CompareOp::Eq | CompareOp::Ne => return None,
            };
            let compare = |op, at: usize| {
                let (left, right) = (Box::new(left[at].clone()), Box::new(right[at].clone()));
                Expr::Compare { op, left, right }
            };
            let alternative = |at: usize| {
                let op = if at + 1 == left.len() { *op } else { strict };
                (0..at).map(|before| compare(CompareOp::Eq, before)).chain([compare(op, at)]).collect()
            };
            Some((0..left.len()).map(alternative).collect())
        }
        _ => None,
    }
}

impl Planner<'_> {
    /// The cheapest way, given the order that would spare a sort and how many rows are taken at
    /// most.
    pub(super) fn cheapest(&self, wanted: &Wanted<'_>, order: &Order<'_>, limit: Option<f64>) -> Cheapest {
        let mut paths = wanted.paths(self.sizes);
        if paths.iter().all(|path| path.cost >= SAMPLED_COST_MIN) && self.sizes.rewrites() == Rewrites::Paying {
            self.samples.set(true);
        }
        paths.iter_mut().filter(|path| path.ranges.skipped > 0).for_each(|path| self.judge_skipping(wanted, path));
        paths.extend(wanted.paths_gathered(&paths, self.sizes));
        let found = self.rows_of_all(wanted, &paths);
        let all_rows = self.sizes.rows(wanted.table);
        let rewrites = self.sizes.rewrites();
        let can_give_up = rewrites != Rewrites::None && first_rows::can_give_up(order, limit);
        let mut best: Option<Cheapest> = None;
        // What may be followed for too long, and with what this costs at the worst.
        let mut tried: Option<(Cheapest, f64)> = None;
        for path in paths {
            // Reading all of an index is of use for its order, or for being smaller than the table
            // where nobody sees the order: else rows come as the table has them.
            let is_partial = path.index.as_ref().is_some_and(|index| index.predicate.is_some());
            let is_whole = path.ranges.is_everything() && path.gathered.is_empty() && !is_partial;
            let columns: Vec<Ordered> =
                order.columns.iter().filter(|ordered| !path.fixed.contains(&ordered.column)).copied().collect();
            let is_fixed = columns.is_empty();
            let (fit, direction) = match path.unique {
                true => (Fit::Whole, Direction::Forward),
                false => Order { columns: &columns, ..*order }.fit_either_way(&path.order),
            };
            let is_of_use = match fit {
                Fit::No => false,
                Fit::Part(_) => limit.is_some(),
                Fit::Whole => !is_fixed,
            };
            let is_smaller = self.order_is_unseen && path.covering;
            if path.index.is_some() && is_whole && !(is_of_use || is_smaller) {
                continue;
            }
            // In an order that the conditions say nothing about, rows that fulfil them may all come
            // late.
            let may_be_late = is_whole && !wanted.conditions.is_empty();
            let late = match (may_be_late, can_give_up) {
                (false, _) => 1.0,
                (true, false) => LATE,
                (true, true) => first_rows::LATE,
            };
            // The first rows come when all keys are there.
            let comes_late = |limit: f64| limit < found && path.start_is_late(limit, found, all_rows);
            if order.is_any() && !path.gathered.is_empty() && limit.is_some_and(comes_late) {
                continue;
            }
            let share = |taken: f64| (late * taken / found).min(1.0);
            let part_of_cost = |taken: f64| path.start_cost + (path.cost - path.start_cost) * share(taken) + SEEK_COST;
            let (mut cost, mut taken) = (path.cost, None);
            match fit {
                Fit::Whole => {
                    taken = limit.filter(|_| order.is_any() || !is_fixed);
                    if let Some(taken) = taken.filter(|_| !is_fixed) {
                        cost = part_of_cost(taken);
                    }
                }
                Fit::Part(columns) => {
                    let alike = wanted.rows_alike(&path, columns, self.sizes);
                    let matching = (alike * found / path.rows.max(1.0)).clamp(1.0, found);
                    taken = limit.map(|limit| limit + matching);
                    if let Some(taken) = taken {
                        cost = part_of_cost(taken);
                    }
                    cost += order.sort_cost(taken.unwrap_or(found).min(found), matching);
                }
                Fit::No => cost += order.sort_cost(path.rows, path.rows),
            }
            let all = path.cost;
            let found = Cheapest { cost, path, direction, taken, instead: None };
            if may_be_late && can_give_up && fit == Fit::Whole {
                if tried.as_ref().is_none_or(|(best, _)| cost < best.cost) {
                    tried = Some((found, all));
                }
            } else if best.as_ref().is_none_or(|best| cost < best.cost) {
                best = Some(found);
            }
        }
        first_rows::chosen(best, tried, rewrites)
    }

    /// A scan of a table with its conditions. `bind` turns values over known columns into what the
    /// scan is given.
    pub(super) fn scan(
        &self,
        wanted: &Wanted<'_>,
        path: Path,
        direction: Direction,
        bind: &dyn Fn(Expr) -> Expr,
    ) -> Planned {
        let Wanted { table, base, .. } = *wanted;
        let share = self.left_of(wanted, &path);
        let left: Vec<&Expr> = wanted
            .conditions
            .iter()
            .enumerate()
            .filter(|(index, _)| !path.taken.contains(index))
            .map(|(_, expr)| expr)
            .collect();
        let mut columns: Vec<usize> = wanted.columns.to_vec();
        for condition in &left {
            rewrite::for_each_column(condition, &mut |place| {
                if let Some(column) = place.checked_sub(base).filter(|&column| column <= table.columns.len())
                    && !(wanted.known)(place)
                    && !columns.contains(&column)
                {
                    columns.push(column);
                }
            });
        }
        columns.sort_unstable();
        let layout = Layout(columns.iter().map(|column| base + column).collect());
        let mut pure = Vec::new();
        let mut impure = Vec::new();
        for condition in left {
            let mut condition = bind(condition.clone());
            rewrite::map_columns(&mut condition, &|place| {
                layout.place(place).expect("the condition's columns were added above")
            });
            if rewrite::is_pure(&condition) && !rewrite::is_volatile(&condition) {
                pure.push(condition);
            } else {
                impure.push(condition);
            }
        }
        // What may fail waits for cheaper conditions that take a query to know.
        let cost = super::cost::of_condition;
        if let Some(cheapest) = impure.iter().map(cost).min_by(f64::total_cmp) {
            let waits = |condition: &Expr| cost(condition) > cheapest && super::constants::may_fail(condition);
            let (later, now): (Vec<Expr>, Vec<Expr>) = pure.into_iter().partition(waits);
            pure = now;
            impure.extend(later);
        }
        let rows = (path.rows * share).max(if path.unique { 0.5 } else { 1.0 });
        let mut depends: ColumnSet = columns.iter().copied().filter(|&column| column < table.columns.len()).collect();
        for sargable in wanted.sargable().iter().filter(|sargable| path.taken.contains(&sargable.condition)) {
            wanted.made_of(sargable.column).into_iter().for_each(|column| depends.insert(column));
        }
        if let Some(condition) = path.index.as_ref().and_then(|index| index.predicate) {
            wanted.made_of(condition).into_iter().for_each(|column| depends.insert(column));
        }
        let order = path.order.iter().map(|ordered| Ordered { column: base + ordered.column, ..*ordered });
        let order = match direction {
            Direction::Forward => order.collect(),
            Direction::Backward => order.map(Ordered::reversed).collect(),
        };
        let covering = path.covering;
        let mut access = path.access(covering);
        bind_access(&mut access, bind);
        let scan = Scan {
            table: Arc::clone(table),
            columns,
            access,
            direction,
            filter: super::cost::ordered(pure),
            depends,
            rows,
        };
        Planned { node: filtered(Node::Scan(Arc::new(scan)), impure), layout, rows, order }
    }
}

/// An expression over a table's columns as one over the wide row.
pub(super) fn over_wide_row(expr: &Expr, base: usize) -> Expr {
    let mut expr = expr.clone();
    rewrite::map_columns(&mut expr, &|column| base + column);
    expr
}

/// Whether a part of a key is equal to a value of a row of another table, or of a query around.
fn is_of_other_rows(part: &KeyPart) -> bool {
    matches!(part, KeyPart::Eq(value) if rewrite::any(value, &|part| matches!(part, Expr::Column(_) | Expr::Arg(_))))
}

/// Turns the values that an access compares keys with into what the scan is given.
fn bind_access(access: &mut Access, bind: &dyn Fn(Expr) -> Expr) {
    match access {
        Access::Key { ranges } | Access::Index { ranges, .. } => bind_ranges(ranges, bind),
        Access::Gathered { parts, .. } => parts.iter_mut().for_each(|part| bind_access(part, bind)),
        Access::Inverted { conditions, .. } => conditions.iter_mut().for_each(|condition| {
            condition.operand = bind(std::mem::replace(&mut condition.operand, Expr::Const(Datum::Null)));
        }),
    }
}

pub(super) fn bind_ranges(ranges: &mut KeyRanges, bind: &dyn Fn(Expr) -> Expr) {
    ranges.for_each_value_mut(&mut |value| *value = bind(std::mem::replace(value, Expr::Const(Datum::Null))));
}
