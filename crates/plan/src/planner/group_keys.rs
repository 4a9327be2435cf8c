//! Keys of groups that follow from others.
//!
//! `GROUP BY u.id, u.name, u.email` groups by `u.id`, since rows with the same primary key have
//! the same name and the same address. What follows is neither hashed nor compared: it is taken
//! from any row of the group. Object-relational mappers write such lists with all columns of a
//! table.
//!
//! A key follows from the others if it is a column of a table of which they hold a unique key
//! without NULLs, or a column that has to be equal to one that is known. This goes on from table to
//! table.
//!
//! Invariant: of what is equal, but not the same (`1.0` and `1.00`), the group shows what its first
//! row has, as it did before.

use std::collections::HashSet;

use colibri_types::{Result, aggregates};

use super::{Asked, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::{Group, Relation, Select, Source};
use crate::plan::AggregateCall;

/// More keys are left as they are: each is looked at for each.
const KEYS_MAX: usize = 64;

/// Takes keys that follow from others out of GROUP BY.
pub(super) fn shorten_group_keys(planner: &mut Planner<'_>, select: &mut Select, _asked: &Asked<'_>) -> Result<()> {
    let Some(group) = &select.group else { return Ok(()) };
    let is_short = !(2..=KEYS_MAX).contains(&group.keys.len());
    let is_fixed = !select.grouped_rows.is_empty() || !group.always.is_empty();
    if is_short || is_fixed || planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    let following = following(group, &Known::of(select));
    if !following.is_empty() {
        take_out(select, &following);
    }
    Ok(())
}

/// What follows from what, in all rows of FROM.
struct Known {
    /// Columns of the wide row that have the same values in no two rows of a relation, and what
    /// they say: where its columns begin, and where they end.
    keys: Vec<(Vec<usize>, (usize, usize))>,
    /// Columns that are equal.
    pairs: Vec<(usize, usize)>,
}

impl Known {
    fn of(select: &Select) -> Self {
        let mut known = Self { keys: Vec::new(), pairs: Vec::new() };
        select.relations.iter().for_each(|relation| known.note_relation(relation));
        select.filter.iter().for_each(|condition| known.note(condition));
        if let Some(from) = &select.from {
            from.for_each_kept_condition(&mut |condition| known.note(condition));
        }
        known
    }

    /// Notes the keys of a relation. Where an outer join adds a row of NULLs, its key is NULL too.
    fn note_relation(&mut self, relation: &Relation) {
        let Source::Table(table) = &relation.source else { return };
        let range = (relation.base, relation.base + relation.width);
        let mut note = |columns: &mut dyn Iterator<Item = usize>| {
            let columns: Vec<usize> = columns.collect();
            if !columns.is_empty() && columns.iter().all(|&column| table.columns[column].not_null) {
                self.keys.push((columns.iter().map(|column| relation.base + column).collect(), range));
            }
        };
        note(&mut table.key_columns().iter().copied());
        for index in table.plain_indexes().filter(|index| index.unique) {
            note(&mut index.columns.iter().map(|column| column.column));
        }
    }

    /// Notes what a condition says that is true for all rows.
    fn note(&mut self, condition: &Expr) {
        match condition {
            Expr::And(all) => all.iter().for_each(|condition| self.note(condition)),
            Expr::Compare { op: CompareOp::Eq, left, right } => {
                if let (Expr::Column(a), Expr::Column(b)) = (&**left, &**right) {
                    self.pairs.push((*a, *b));
                }
            }
            _ => {}
        }
    }

    /// Whether a column follows from others.
    fn follows(&self, column: usize, from: impl Iterator<Item = usize>) -> bool {
        let mut known: HashSet<usize> = from.collect();
        loop {
            let before = known.len();
            for (key, (low, high)) in &self.keys {
                if key.iter().all(|column| known.contains(column)) {
                    known.extend(*low..*high);
                }
            }
            for &(a, b) in &self.pairs {
                if known.contains(&a) || known.contains(&b) {
                    known.extend([a, b]);
                }
            }
            if known.contains(&column) {
                return true;
            }
            if known.len() == before {
                return false;
            }
        }
    }

    fn is_of_key(&self, column: usize) -> bool {
        self.keys.iter().any(|(key, _)| key.contains(&column))
    }
}

/// Keys that follow from those that are left, by their places. What is part of a unique key stays
/// if it can.
fn following(group: &Group, known: &Known) -> Vec<usize> {
    let column = |at: usize| if let Expr::Column(column) = group.keys[at] { Some(column) } else { None };
    let mut candidates: Vec<usize> = (0..group.keys.len()).rev().filter(|&at| column(at).is_some()).collect();
    candidates.sort_by_key(|&at| column(at).is_some_and(|column| known.is_of_key(column)));
    let mut following: Vec<usize> = Vec::new();
    for candidate in candidates {
        let others = (0..group.keys.len()).filter(|at| *at != candidate && !following.contains(at)).filter_map(column);
        if column(candidate).is_some_and(|column| known.follows(column, others)) {
            following.push(candidate);
        }
    }
    following.sort_unstable();
    following
}

/// Makes calls of keys, if anything looks at them.
fn take_out(select: &mut Select, following: &[usize]) {
    let Some(group) = &mut select.group else { return };
    let of_extras = select.extras.iter_mut().flat_map(|extra| extra.exprs_mut());
    let mut over_group: Vec<&mut Expr> = select.output.iter_mut().chain(&mut group.having).chain(of_extras).collect();
    let mut used = HashSet::new();
    for expr in &over_group {
        rewrite::for_each_column(expr, &mut |key| _ = used.insert(key));
    }
    let mut places = Vec::with_capacity(group.keys.len());
    let mut kept = Vec::new();
    for (at, key) in std::mem::take(&mut group.keys).into_iter().enumerate() {
        if following.contains(&at) {
            places.push(Expr::Aggregate(group.calls.len()));
            if used.contains(&at) {
                let (aggregate, args) = (&aggregates::FIRST, vec![key]);
                group.calls.push(AggregateCall { aggregate, args, distinct: false, filter: None, order: Vec::new() });
            }
        } else {
            places.push(Expr::Column(kept.len()));
            kept.push(key);
        }
    }
    group.keys = kept;
    for expr in &mut over_group {
        rewrite::substitute(expr, &|key| places[key].clone());
    }
}
