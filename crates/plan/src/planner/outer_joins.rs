//! Outer joins that are simpler ones.
//!
//! An outer join gives rows whose columns of one side are all NULL. Where a condition further up
//! refuses such rows, the join need not make them:
//!
//! | condition | of | becomes |
//! | --- | --- | --- |
//! | refuses NULLs of the right side | left join | inner join |
//! | refuses NULLs of the left side | full join | left join |
//! | refuses those of both sides | full join | inner join |
//! | asks for NULL in a column that a partner never has NULL in | left join | anti join |
//!
//! An inner join can be done in any order, and an anti join has seen enough with the first partner.
//!
//! A condition refuses the NULLs of a relation if it is not true wherever all of the relation's
//! columns are NULL: NULL does in a condition what false does.

use std::collections::BTreeSet;

use colibri_types::{Datum, Result};

use super::{Asked, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr, SubqueryKind, Test};
use crate::logical::{From, Join, Relation, Select, Source};

/// Relations, by their places in the SELECT.
type Set = BTreeSet<usize>;

/// The pass.
pub(super) fn reduce_outer_joins(planner: &mut Planner<'_>, select: &mut Select, asked: &Asked<'_>) -> Result<()> {
    if planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    let Some(mut from) = select.from.take() else { return Ok(()) };
    if has_outer_join(&from) {
        let strict = Strict::new(&select.relations);
        let refused = strict.all(&select.filter);
        strict.reduce(&mut from, &refused);
    }
    select.from = Some(from);
    while let Some((column, relation)) = absent_partner(select, asked.columns) {
        into_anti_join(select, column, relation);
    }
    Ok(())
}

fn has_outer_join(from: &From) -> bool {
    match from {
        From::Relation(_) => false,
        From::Join { kind: Join::Left | Join::Right | Join::Full, .. } => true,
        From::Join { left, right, .. } => has_outer_join(left) || has_outer_join(right),
    }
}

/// Which relations' NULLs expressions refuse.
struct Strict {
    /// The relation of each column of the wide row.
    owners: Vec<usize>,
}

impl Strict {
    fn new(relations: &[Relation]) -> Self {
        Self { owners: super::push_filters::owners(relations) }
    }

    fn all(&self, conditions: &[Expr]) -> Set {
        conditions.iter().flat_map(|condition| self.refused_by(condition)).collect()
    }

    /// Relations whose columns are not all NULL where a condition is true.
    fn refused_by(&self, condition: &Expr) -> Set {
        match condition {
            Expr::And(all) => self.all(all),
            Expr::Or(any) => in_each(any, |condition| self.refused_by(condition)),
            Expr::IsNull { input, negated: true } => self.null_by(input),
            Expr::IsBool { input, value, negated } if value.is_some() != *negated => self.null_by(input),
            Expr::CompareRows { op: CompareOp::Eq, left, right } => {
                left.iter().chain(right).flat_map(|part| self.null_by(part)).collect()
            }
            Expr::AnyOf { test, left, all: false, .. } if is_strict(*test) => self.null_by(left),
            Expr::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Quantified { left, op, all: false } => {
                    // Of rows that are not equal, the first parts that differ decide.
                    let strict = match op {
                        CompareOp::Eq => left.len(),
                        CompareOp::Ne if left.len() > 1 => 0,
                        _ => 1,
                    };
                    left[..strict].iter().flat_map(|part| self.null_by(part)).collect()
                }
                _ => Set::new(),
            },
            other => self.null_by(other),
        }
    }

    /// Relations for which an expression is NULL, or raises an error, where all of their columns
    /// are.
    fn null_by(&self, expr: &Expr) -> Set {
        match expr {
            Expr::Column(column) => self.owners.get(*column).copied().into_iter().collect(),
            Expr::Cast { input, .. } | Expr::NullIf { left: input, .. } | Expr::InList { input, .. } => {
                self.null_by(input)
            }
            Expr::Not(input) => self.null_by(input),
            Expr::Call { function, args } if function.strict => args.iter().flat_map(|arg| self.null_by(arg)).collect(),
            Expr::Chain { first, links } => links.iter().fold(self.null_by(first), |before, (function, operand)| {
                if function.strict { before.into_iter().chain(self.null_by(operand)).collect() } else { Set::new() }
            }),
            Expr::Compare { left, right, .. } => self.null_by(left).into_iter().chain(self.null_by(right)).collect(),
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) | Expr::Extreme { args: parts, .. } => {
                in_each(parts, |part| self.null_by(part))
            }
            _ => Set::new(),
        }
    }

    /// Reduces the joins of a part of FROM, of whose rows only those matter in which no relation of
    /// a set is all NULL.
    fn reduce(&self, from: &mut From, refused: &Set) {
        let From::Join { kind, left, right, on } = from else { return };
        let refuses = |side: &From| {
            let mut found = false;
            side.for_each_relation(&mut |relation| found |= refused.contains(&relation));
            found
        };
        *kind = match *kind {
            Join::Left if refuses(right) => Join::Inner,
            Join::Right if refuses(left) => Join::Inner,
            Join::Full => match (refuses(left), refuses(right)) {
                (true, true) => Join::Inner,
                (true, false) => Join::Left,
                (false, true) => Join::Right,
                (false, false) => Join::Full,
            },
            kind => kind,
        };
        // Rows for which ON is not true are no partners.
        let partners = self.all(on);
        let both = || refused.union(&partners).copied().collect::<Set>();
        let none = Set::new();
        match kind {
            Join::Inner | Join::InnerInOrder => {
                let both = both();
                self.reduce(left, &both);
                self.reduce(right, &both);
            }
            Join::Semi => {
                self.reduce(left, &both());
                self.reduce(right, &partners);
            }
            Join::Left | Join::Anti => {
                self.reduce(left, refused);
                self.reduce(right, &partners);
            }
            Join::Right => {
                self.reduce(left, &partners);
                self.reduce(right, refused);
            }
            Join::Full => {
                self.reduce(left, &none);
                self.reduce(right, &none);
            }
        }
    }
}

fn is_strict(test: Test) -> bool {
    match test {
        Test::Compare(_) => true,
        Test::Call(function) => function.strict,
    }
}

/// What is in all of the sets of several expressions.
fn in_each(parts: &[Expr], set_of: impl Fn(&Expr) -> Set) -> Set {
    let mut sets = parts.iter().map(set_of);
    let Some(first) = sets.next() else { return Set::new() };
    sets.fold(first, |known, other| known.intersection(&other).copied().collect())
}

/// A left join of whose rows WHERE wants only those without a partner: the column that WHERE asks
/// for NULL in, which no partner has NULL in, and its relation.
fn absent_partner(select: &Select, besides: &[usize]) -> Option<(usize, usize)> {
    let asked = |condition: &Expr| match condition {
        Expr::IsNull { input, negated: false } => match **input {
            Expr::Column(column) => Some(column),
            _ => None,
        },
        _ => None,
    };
    let from = select.from.as_ref()?;
    select.filter.iter().filter_map(asked).find_map(|column| {
        let is_owner = |relation: &Relation| (relation.base..relation.base + relation.width).contains(&column);
        let place = select.relations.iter().position(is_owner)?;
        let relation = &select.relations[place];
        if besides.iter().any(|&other| (relation.base..relation.base + relation.width).contains(&other)) {
            return None;
        }
        let on = on_of_left_join(from, place)?;
        let never_null = match &relation.source {
            Source::Table(table) => table.columns.get(column - relation.base).is_none_or(|column| column.not_null),
            Source::Query(_) => false,
            _ => return None,
        };
        (never_null || on.iter().any(|condition| needs_value(condition, column))).then_some((column, place))
    })
}

/// The conditions of the left join whose right side is a relation, if WHERE sees the join's rows as
/// the join gives them.
fn on_of_left_join(from: &From, relation: usize) -> Option<&[Expr]> {
    let From::Join { kind, left, right, on } = from else { return None };
    match (kind, &**right) {
        (Join::Left, From::Relation(other)) if *other == relation => Some(on),
        (Join::Inner | Join::InnerInOrder, _) => {
            on_of_left_join(left, relation).or_else(|| on_of_left_join(right, relation))
        }
        (Join::Left | Join::Semi | Join::Anti, _) => on_of_left_join(left, relation),
        (Join::Right, _) => on_of_left_join(right, relation),
        (Join::Full, _) => None,
    }
}

/// Whether a condition is not true where a column is NULL.
fn needs_value(condition: &Expr, column: usize) -> bool {
    let own = Strict { owners: (0..=column).map(|other| usize::from(other == column)).collect() };
    own.refused_by(condition).contains(&1)
}

fn into_anti_join(select: &mut Select, column: usize, relation: usize) {
    let asks = |condition: &Expr| {
        matches!(condition, Expr::IsNull { input, negated: false }
            if matches!(**input, Expr::Column(other) if other == column))
    };
    select.filter.retain(|condition| !asks(condition));
    let Some(mut from) = select.from.take() else { return };
    let (base, width) = (select.relations[relation].base, select.relations[relation].width);
    let absent = |expr: &mut Expr| {
        rewrite::substitute(expr, &|other| {
            if (base..base + width).contains(&other) { Expr::Const(Datum::Null) } else { Expr::Column(other) }
        });
    };
    make_anti(&mut from, relation, &absent);
    select.for_each_over_rows_mut(&mut |expr| absent(expr));
    select.relations.iter_mut().flat_map(|relation| relation.source.taken_mut()).for_each(absent);
    select.from = Some(from);
}

/// Turns the left join with a relation into an anti join. All other conditions see NULLs in the
/// place of the relation's columns.
fn make_anti(from: &mut From, relation: usize, absent: &dyn Fn(&mut Expr)) {
    let From::Join { kind, left, right, on } = from else { return };
    if let (Join::Left, From::Relation(other)) = (*kind, &**right)
        && *other == relation
    {
        *kind = Join::Anti;
        return;
    }
    on.iter_mut().for_each(absent);
    make_anti(left, relation, absent);
    make_anti(right, relation, absent);
}
