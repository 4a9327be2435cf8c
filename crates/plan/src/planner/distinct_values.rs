//! Equalities with values from outside of a SELECT: as keys of its rows, and as what conditions ask
//! queries for.
//!
//! ```text
//! EXISTS (SELECT 1 FROM m WHERE m.b = n.b AND m.k = <outer> AND m.open)
//!
//! own: m.b, m.k   outside: n.b, <outer>   distinct: SELECT DISTINCT m.b, m.k FROM m WHERE m.open
//! ```

use colibri_types::{ColumnType, Type};

use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr, Inner, SubqueryKind};
use crate::logical::walk::{join_kind, uses_slots, varies};
use crate::logical::{Body, Collation, Column, Distinct, From, Join, Query, Relation, Select, Source};

/// An equality between what looks at the row alone and what looks outside alone.
pub(super) struct Key {
    pub(super) of_rows: Expr,
    pub(super) value: Expr,
    /// `IS NOT DISTINCT FROM`
    pub(super) with_nulls: bool,
}

impl Key {
    pub(super) fn of(condition: &Expr) -> Option<Self> {
        let (left, right, with_nulls) = match condition {
            Expr::Compare { op: CompareOp::Eq, left, right } => (left, right, false),
            Expr::Distinct { left, right, negated: true } => (left, right, true),
            _ => return None,
        };
        if varies(condition) {
            return None;
        }
        let is_of_rows = |expr: &Expr| rewrite::uses_row(expr) && rewrite::is_pure(expr) && !uses_slots(expr);
        let is_outside = |expr: &Expr| uses_slots(expr) && !rewrite::uses_row(expr) && !asks_session(expr);
        let (of_rows, value) = if is_of_rows(left) && is_outside(right) {
            (left, right)
        } else if is_of_rows(right) && is_outside(left) {
            (right, left)
        } else {
            return None;
        };
        Some(Self { of_rows: (**of_rows).clone(), value: (**value).clone(), with_nulls })
    }
}

fn asks_session(expr: &Expr) -> bool {
    rewrite::any(expr, &|part| matches!(part, Expr::Session { .. }))
}

/// Whether a piece of FROM looks outside of the SELECT: its conditions, or what stands in it.
pub(super) fn looks_outside(from: &From, relations: &[Relation]) -> bool {
    let mut looks = false;
    from.for_each_condition(&mut |condition| looks |= uses_slots(condition));
    from.for_each_relation(&mut |at| looks |= rewrite::source_uses_args(&relations[at].source));
    looks
}

/// Both sides, by inner join.
pub(super) fn joined(left: From, right: From) -> From {
    From::Join { kind: Join::Inner, left: Box::new(left), right: Box::new(right), on: Vec::new() }
}

/// Columns whose names and types nobody asks for.
pub(super) fn unnamed(width: usize) -> Vec<Column> {
    let ty = ColumnType::from(Type::Unknown);
    let column = Column { name: Default::default(), ty, origin: None, collation: Collation::Default };
    vec![column; width]
}

pub(super) fn query_of(select: Select) -> Query {
    let columns = unnamed(select.output.len());
    Query::plain(Body::Select(Box::new(select)), columns)
}

/// A condition that asks a query whether it has some values, as these values.
pub(super) struct Values {
    /// The query without what it asks of values outside.
    select: Select,
    /// What of its rows is to be equal to what outside.
    pub(super) own: Vec<Expr>,
    pub(super) outside: Vec<Expr>,
}

impl Values {
    /// Of a condition that asks for nothing but equalities, one of them with what is outside of the
    /// SELECT that the condition stands in.
    pub(super) fn of(condition: &Expr) -> Option<Self> {
        let (Join::Semi, subquery) = join_kind(condition)? else { return None };
        let Inner::Logical(query) = &subquery.query else { return None };
        let mut values = Self::of_query(query)?;
        values.outside.iter_mut().for_each(|value| {
            rewrite::substitute_slots(value, &|slot| subquery.args[slot].clone());
        });
        let SubqueryKind::Quantified { left, .. } = &subquery.kind else { return values.looks_outside() };
        for (left, output) in left.iter().zip(&values.select.output) {
            if !rewrite::is_pure(output) || uses_slots(output) {
                return None;
            }
            values.own.push(output.clone());
            values.outside.push(left.clone());
        }
        values.looks_outside()
    }

    /// A query that is asked for a row with values of the row outside, and joins several tables: the
    /// query of all of these, and what its columns are to be equal to, over the row outside. With `left`
    /// in front of what the query asks of its own rows.
    pub(super) fn of_joined(query: &Query, args: &[Expr], left: &[Expr]) -> Option<(Query, Vec<Expr>)> {
        let mut values = Self::of_query(query)?;
        let is_barrier =
            |relation: &Relation| matches!(&relation.source, Source::Query(query) if query.barrier.is_some());
        if values.select.relations.iter().any(is_barrier) {
            return None;
        }
        values.outside.iter_mut().for_each(|value| rewrite::substitute_slots(value, &|slot| args[slot].clone()));
        for (left, output) in left.iter().zip(&values.select.output) {
            if !rewrite::is_pure(output) || uses_slots(output) {
                return None;
            }
            values.own.push(output.clone());
            values.outside.push(left.clone());
        }
        if values.outside.is_empty() {
            return None;
        }
        let rows = Select { output: values.own, distinct: Distinct::No, ..values.select };
        Some((query_of(rows), values.outside))
    }

    fn looks_outside(self) -> Option<Self> {
        self.outside.iter().any(|value| uses_slots(value) && !rewrite::uses_row(value)).then_some(self)
    }

    /// Of all rows of a query that compares nothing but equalities with what is outside of it.
    fn of_query(query: &Query) -> Option<Self> {
        let mut select = query.select_of_all_rows()?.clone();
        if query.is_marked || query.has_effects() || query.reads_working() {
            return None;
        }
        let mut from = select.from.take()?;
        let mut conditions = std::mem::take(&mut select.filter);
        from.lift_of_inner(&uses_slots, &mut conditions);
        if looks_outside(&from, &select.relations) {
            return None;
        }
        let mut end = select.relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
        let (mut own, mut outside) = (Vec::new(), Vec::new());
        for condition in conditions.into_iter().flat_map(rewrite::conjuncts) {
            if !uses_slots(&condition) {
                select.filter.push(condition);
            } else if let Some(key) = Key::of(&condition).filter(|key| !key.with_nulls) {
                own.push(key.of_rows);
                outside.push(key.value);
            } else {
                // A query inside that looks further outside may be values as well.
                let inside = Self::of(&condition)?;
                let (base, width) = (end, inside.own.len());
                end += width;
                for (place, value) in inside.outside.iter().enumerate() {
                    let column = Expr::Column(base + place);
                    match (uses_slots(value), rewrite::uses_row(value)) {
                        (true, true) => return None,
                        (true, false) => {
                            own.push(column);
                            outside.push(value.clone());
                        }
                        (false, _) => select.filter.push(Expr::equals(column, value.clone())),
                    }
                }
                from = joined(from, From::Relation(select.relations.len()));
                let source = Source::Query(Box::new(inside.distinct()));
                select.relations.push(Relation::new(base, width, source, "any".into()));
            }
        }
        select.from = Some(from);
        Some(Self { select, own, outside })
    }

    /// The query that gives each combination of the values once.
    pub(super) fn distinct(self) -> Query {
        let distinct = Distinct::All(self.own.len());
        query_of(Select { output: self.own, distinct, ..self.select })
    }
}
