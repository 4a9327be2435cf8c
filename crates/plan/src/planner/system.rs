//! Tables of the system: which of their keys rows are looked up by.
//!
//! A system table has no statistics. What is known of it stands with its list of keys: about how
//! many rows it has, and how many of them have the same value in a key. A key's values are compared
//! by their bytes, which is right for numbers and for texts of one kind; a condition that compares
//! them after any other cast finds no key. The conditions are asked again of the rows found.

use std::sync::Arc;

use colibri_catalog::system_tables::SystemTable;
use colibri_types::{Datum, Type, prefix::PatternKind};

use super::judge::left_by;
use super::{Layout, Planned, Planner, Rewrites, filtered};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr, Test};
use crate::plan::{KeyPart, Node, SystemLookup, SystemValues};

/// What looking rows up by a value costs, in rows looked at.
pub(super) const SYSTEM_SEEK_COST: f64 = 2.0;
/// About how many values an array has that is not known yet.
const ARRAY_VALUES: f64 = 10.0;

/// What is asked of a system table.
pub(super) struct SystemWanted<'a> {
    table: &'static SystemTable,
    /// Where its columns begin in the wide row.
    base: usize,
    /// Conditions over the wide row, on this table's columns and on values known before.
    conditions: &'a [Expr],
    /// Columns of the wide row that are known before: an outer side's.
    known: &'a dyn Fn(usize) -> bool,
    /// Rows may be looked up.
    uses_keys: bool,
}

/// What part of the rows have texts that begin as a pattern does.
const START_SELECTIVITY: f64 = 0.02;

/// Values that a condition wants in a key, and about how many rows have them.
struct Found {
    condition: usize,
    key: usize,
    values: SystemValues,
    /// The condition on the key's second column, and the values that it wants.
    second: Option<(usize, KeyPart)>,
    rows: f64,
}

impl Found {
    /// The conditions that are met by what is found.
    fn conditions(&self) -> impl Iterator<Item = usize> + use<> {
        [Some(self.condition), self.second.as_ref().map(|(condition, _)| *condition)].into_iter().flatten()
    }
}

impl<'a> SystemWanted<'a> {
    /// What is asked of a table that is read by itself.
    pub(super) fn alone(
        planner: &Planner<'_>,
        (table, base): (&'static SystemTable, usize),
        conditions: &'a [Expr],
    ) -> Self {
        Self::with(planner, (table, base), conditions, &|_| false)
    }

    /// What is asked of one where some columns of the wide row are known before.
    pub(super) fn with(
        planner: &Planner<'_>,
        (table, base): (&'static SystemTable, usize),
        conditions: &'a [Expr],
        known: &'a dyn Fn(usize) -> bool,
    ) -> Self {
        Self { table, base, conditions, known, uses_keys: planner.sizes.rewrites() != Rewrites::None }
    }

    /// The conditions that rows are best looked up by, and about how many are found; `None` if all of
    /// them have to be read.
    pub(super) fn cheapest(&self) -> Option<(impl Iterator<Item = &'a Expr> + use<'a>, f64)> {
        let found = self.best()?;
        let conditions = self.conditions;
        Some((found.conditions().map(|at| &conditions[at]), found.rows))
    }

    /// About how many rows are looked at.
    pub(super) fn rows_found(&self) -> f64 {
        self.best().map_or(self.table.rows_expected, |found| found.rows)
    }

    /// About how many of these fulfil all conditions.
    pub(super) fn rows_left(&self) -> f64 {
        let best = self.best();
        let others = self.conditions.len() - best.iter().flat_map(Found::conditions).count();
        (best.map_or(self.table.rows_expected, |found| found.rows) * left_by(others)).max(1.0)
    }

    /// How rows are looked up, the values changed by `changed`.
    pub(super) fn lookup(&self, changed: &dyn Fn(Expr) -> Expr) -> Option<Arc<SystemLookup>> {
        let Found { key, values, second, rows, .. } = self.best()?;
        let changed_part = |part| match part {
            KeyPart::Eq(value) => KeyPart::Eq(changed(value)),
            KeyPart::AnyOf(array) => KeyPart::AnyOf(changed(array)),
            KeyPart::In(list) => KeyPart::In(list.into_iter().map(changed).collect()),
            KeyPart::Null => KeyPart::Null,
        };
        let values = match values {
            SystemValues::Are(part) => SystemValues::Are(changed_part(part)),
            SystemValues::Start(kind, pattern) => SystemValues::Start(kind, changed(pattern)),
        };
        let second = second.map(|(_, part)| changed_part(part));
        Some(Arc::new(SystemLookup { key, values, second, rows }))
    }

    /// Rows that fulfil all conditions, values from outside changed by `changed`; with the columns
    /// that are `needed` and those that conditions look at.
    pub(super) fn scan(&self, needed: &[usize], changed: &dyn Fn(Expr) -> Expr) -> Planned {
        let mut columns = needed.to_vec();
        let mut add = |place: usize| {
            if let Some(column) = place.checked_sub(self.base).filter(|&column| column < self.table.columns.len()) {
                columns.push(column);
            }
        };
        self.conditions.iter().for_each(|condition| rewrite::for_each_column(condition, &mut add));
        columns.sort_unstable();
        columns.dedup();
        let layout = Layout(columns.iter().map(|column| self.base + column).collect());
        let node = Node::System { table: self.table, columns: columns.into(), lookup: self.lookup(changed) };
        let bound = self.conditions.iter().map(|condition| layout.bind(changed(condition.clone()))).collect();
        Planned { node: filtered(node, bound), layout, rows: self.rows_left(), order: Vec::new() }
    }

    fn best(&self) -> Option<Found> {
        if !self.uses_keys {
            return None;
        }
        let found = self.conditions.iter().enumerate().filter_map(|(at, condition)| self.found_by(at, condition));
        found.map(|found| self.with_second(found)).min_by(|one, other| one.rows.total_cmp(&other.rows))
    }

    /// The values that a condition wants in a column, where these are known, and about how many they
    /// are.
    fn wanted_by<'e>(&self, condition: &'e Expr) -> Option<(&'e Expr, KeyPart, f64)> {
        match condition {
            Expr::Compare { op: CompareOp::Eq, left, right } => [(left, right), (right, left)]
                .into_iter()
                .find(|(_, value)| self.is_known(value))
                .map(|(column, value)| (&**column, KeyPart::Eq((**value).clone()), 1.0)),
            Expr::InList { input, list, negated: false, .. } if list.iter().all(|item| self.is_known(item)) => {
                Some((input, KeyPart::In(list.clone()), list.len() as f64))
            }
            Expr::AnyOf { test: Test::Compare(CompareOp::Eq), left, array, all: false } if self.is_known(array) => {
                let count = match &**array {
                    Expr::Const(Datum::Array(array)) => array.values().len() as f64,
                    _ => ARRAY_VALUES,
                };
                Some((left, KeyPart::AnyOf((**array).clone()), count))
            }
            _ => None,
        }
    }

    /// The same with the values of the key's second column, if a condition wants some.
    fn with_second(&self, mut found: Found) -> Found {
        let key = self.table.keys[found.key];
        let (Some(second), SystemValues::Are(_)) = (key.second, &found.values) else { return found };
        let others = self.conditions.iter().enumerate().filter(|(at, _)| *at != found.condition);
        let of_second = others.filter_map(|(at, condition)| {
            let (column, values, count) = self.wanted_by(condition)?;
            (self.column(column)? == second).then_some((at, values, count))
        });
        if let Some((at, values, count)) = of_second.min_by(|one, other| one.2.total_cmp(&other.2)) {
            found.rows = (found.rows / key.rows_alike * count).max(1.0).min(found.rows);
            found.second = Some((at, values));
        }
        found
    }

    fn found_by(&self, at: usize, condition: &Expr) -> Option<Found> {
        match condition {
            Expr::Call { function, args } => {
                let (Some(kind), [column, pattern]) = (PatternKind::of(function.name), &args[..]) else { return None };
                if !self.is_known(pattern) {
                    return None;
                }
                let key = self.key(column)?;
                if !self.table.columns[self.table.keys[key].column].1.is_text() {
                    return None;
                }
                let rows = match pattern {
                    Expr::Const(Datum::Text(pattern)) => match kind.prefix(pattern) {
                        prefix if prefix.is_whole => self.table.keys[key].rows_alike,
                        prefix if prefix.text.is_empty() => return None,
                        _ => self.table.rows_expected * START_SELECTIVITY,
                    },
                    _ => self.table.rows_expected * START_SELECTIVITY,
                };
                let values = SystemValues::Start(kind, pattern.clone());
                Some(Found { condition: at, key, values, second: None, rows })
            }
            condition => {
                let (column, values, count) = self.wanted_by(condition)?;
                let key = self.key(column)?;
                let rows = (count * self.table.keys[key].rows_alike).min(self.table.rows_expected);
                Some(Found { condition: at, key, values: SystemValues::Are(values), second: None, rows })
            }
        }
    }

    /// The key whose first column an expression is.
    fn key(&self, expr: &Expr) -> Option<usize> {
        let column = self.column(expr)?;
        self.table.keys.iter().position(|key| key.column == column)
    }

    /// The column that an expression is, but for casts that keep its bytes.
    fn column(&self, expr: &Expr) -> Option<usize> {
        let mut inner = expr;
        while let Expr::Cast { input, from, to, .. } = inner {
            if to.modifier.0 >= 0 || !keeps_bytes(*from, to.ty) {
                return None;
            }
            inner = input;
        }
        let Expr::Column(place) = inner else { return None };
        place.checked_sub(self.base).filter(|&column| column < self.table.columns.len())
    }

    /// Whether a value is known before the first row is read.
    fn is_known(&self, expr: &Expr) -> bool {
        let mut known = !rewrite::is_volatile(expr) && rewrite::queries_depend_on_no_row(expr);
        rewrite::for_each_column(expr, &mut |column| known = known && (self.known)(column));
        known
    }
}

/// Whether a cast gives the same bytes, and so two values that are equal before it are equal behind
/// it, and the other way round.
fn keeps_bytes(from: Type, to: Type) -> bool {
    let is_plain = |ty: Type| matches!(ty, Type::Name | Type::Text | Type::Varchar);
    let is_object = |ty: Type| ty == Type::Oid || ty.is_reg();
    from == to
        || from.is_integer() && to.is_integer()
        || is_plain(from) && is_plain(to)
        || is_object(from) && (is_object(to) || to == Type::Int8)
}
