//! Planning UNION, INTERSECT and EXCEPT.
//!
//! INTERSECT and EXCEPT put the different rows of the left side into a hash table, and go through
//! the right one. Where the right side is a table that the rows of a small left side can be looked
//! up in, they are a semi and an anti join instead:
//!
//! ```text
//! SELECT a FROM s EXCEPT SELECT b FROM t WHERE t.open
//! SELECT DISTINCT a FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.open AND t.b = s.a)
//! ```
//! NULLs are equal to each other in set operations and equal to nothing in joins. So each column
//! must be free of NULLs on one side at least.
//!
//! The first rows of a UNION ALL in an order are among the first ones of its sides: each is read for
//! no more than these, which an index may have in that order. So are those of a SELECT that does
//! nothing but read a query.

use std::borrow::Cow;

use colibri_types::Result;

use super::decorrelate::{is_never_null, of_table};
use super::query::{top_of, width};
use super::{Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{Body, Distinct, From, Join, Query, Relation, Select, SetOperation, Source};
use crate::plan::{Node, SetOp, SortKey};

impl Planner<'_> {
    pub(super) fn set(
        &mut self,
        (op, all): (SetOperation, bool),
        left: &Query,
        right: &Query,
        first_rows: Option<FirstRows<'_>>,
    ) -> Result<Node> {
        let columns = left.columns.len();
        // UNIONs in a row are done side by side: what an inner one leaves out, the outer one does
        // as well.
        let mut queries = vec![right];
        let mut first = left;
        while let (SetOperation::Union, Body::Set { op: SetOperation::Union, all: inner_all, left, right }) =
            (op, &first.body)
            && (*inner_all || !all)
            && first.order.is_empty()
            && first.limit.is_none()
            && first.offset.is_none()
        {
            queries.push(right);
            first = left;
        }
        queries.push(first);
        let mut sides = Vec::with_capacity(queries.len());
        let first_rows = first_rows.filter(|_| all && op == SetOperation::Union);
        for side in queries.into_iter().rev() {
            sides.push(match &first_rows {
                Some(first) if can_be_limited(side) => self.side(&first.of(side), columns)?,
                _ => self.side(side, columns)?,
            });
        }
        let operation = op;
        let op = match op {
            SetOperation::Union => {
                let append = Node::Append { inputs: sides };
                return Ok(if all {
                    append
                } else {
                    Node::Distinct { input: Box::new(append), columns, sorted: false }
                });
            }
            SetOperation::Intersect => SetOp::Intersect,
            SetOperation::Except => SetOp::Except,
        };
        let (join_left, join_right) = (left, right);
        let right = Box::new(sides.pop().expect("there are two sides"));
        let left = Box::new(sides.pop().expect("there are two sides"));
        let node = Node::SetOp { op, all, left, right };
        if all {
            return Ok(node);
        }
        self.cheaper_as_join(node, operation, join_left, join_right)
    }

    /// The plan of a set operation, or of a join that gives the same rows and costs less.
    #[inline(never)]
    fn cheaper_as_join(&mut self, node: Node, op: SetOperation, left: &Query, right: &Query) -> Result<Node> {
        let rewrites = self.sizes.rewrites();
        let pays = rewrites == Rewrites::All || self.rows_of_query(left) < self.rows_of_query(right);
        if rewrites == Rewrites::None || !pays || !self.may_have_two_ways() {
            return Ok(node);
        }
        let kind = if op == SetOperation::Except { Join::Anti } else { Join::Semi };
        let Some(query) = as_join(kind, left, right) else { return Ok(node) };
        let joined = self.in_two_ways(|planner| planner.query(&query))?;
        let is_cheaper = rewrites == Rewrites::All || self.work(&joined).1 < self.work(&node).1;
        Ok(if is_cheaper { joined } else { node })
    }

    /// The first rows that a query takes in an order by its columns.
    pub(super) fn first_rows_of<'q>(&self, query: &'q Query) -> Option<FirstRows<'q>> {
        let is_known = |count: &Option<Expr>| matches!(count, None | Some(Expr::Const(_) | Expr::Param(_)));
        let is_plain = query.locks.is_empty() && !query.with_ties && !query.is_marked && !query.order.is_empty();
        let is_column = |key: &SortKey| matches!(key.expr, Expr::Column(_));
        if self.sizes.rewrites() == Rewrites::None || !is_plain || !query.order.iter().all(is_column) {
            return None;
        }
        let top = top_of(&query.limit, &query.offset).filter(|_| is_known(&query.limit) && is_known(&query.offset))?;
        Some(FirstRows { order: Cow::Borrowed(&query.order), top })
    }

    /// The first rows in any order, if a query wants no order and not all rows.
    fn any_rows_of<'q>(&self, query: &'q Query) -> Option<FirstRows<'q>> {
        let top = match (&query.limit, &query.offset) {
            (Some(Expr::Const(_) | Expr::Param(_)), None | Some(Expr::Const(_) | Expr::Param(_))) => {
                top_of(&query.limit, &query.offset)?
            }
            _ => return None,
        };
        let is_plain = query.locks.is_empty() && !query.with_ties && !query.is_marked && query.order.is_empty();
        (self.sizes.rewrites() != Rewrites::None && is_plain).then(|| FirstRows { order: Cow::Borrowed(&[]), top })
    }

    /// Has a query that a SELECT does nothing but read give no more than the rows that are taken of it.
    pub(super) fn limit_read_query(&self, query: &Query, select: &mut Select) {
        let ([relation], Some(From::Relation(0))) = (&mut select.relations[..], &select.from) else { return };
        let Source::Query(inner) = &mut relation.source else { return };
        let is_read = select.filter.is_empty()
            && relation.filter.is_empty()
            && select.group.is_none()
            && select.extras.is_empty()
            && select.distinct == Distinct::No;
        // Its order says which rows DISTINCT ON keeps.
        let has_own = matches!(&inner.body, Body::Select(select) if matches!(select.distinct, Distinct::On(_)));
        if !is_read || has_own || inner.barrier.is_some() || !can_be_limited(inner) {
            return;
        }
        let Some(first) = self.first_rows_of(query).or_else(|| self.any_rows_of(query)) else { return };
        let inner_key = |key: &SortKey| match &key.expr {
            Expr::Column(place) => match select.output.get(*place)? {
                Expr::Column(column) => {
                    let expr = Expr::Column(column.checked_sub(relation.base)?);
                    Some(SortKey { expr, ..key.clone() })
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(order) = first.order.iter().map(inner_key).collect::<Option<Vec<_>>>() {
            (inner.order, inner.limit) = (order, Some(first.top));
        }
    }

    /// A query with its first columns alone, without those that it carries for its own order.
    pub(super) fn side(&mut self, query: &Query, columns: usize) -> Result<Node> {
        let node = self.query(query)?;
        if width(query) == columns {
            return Ok(node);
        }
        Ok(Node::Project { input: Box::new(node), exprs: (0..columns).map(Expr::Column).collect() })
    }
}

/// The first rows in an order.
#[derive(Clone)]
pub(super) struct FirstRows<'q> {
    order: Cow<'q, [SortKey]>,
    /// How many.
    top: Expr,
}

impl FirstRows<'_> {
    /// Those of a query.
    fn of(&self, query: &Query) -> Query {
        Query { order: self.order.to_vec(), limit: Some(self.top.clone()), ..query.clone() }
    }
}

/// Whether no more than the first rows of a query in some order may be read.
fn can_be_limited(query: &Query) -> bool {
    let takes_all = query.order.is_empty() && query.limit.is_none() && query.offset.is_none();
    takes_all && !query.is_marked && !query.has_effects()
}

/// The different rows of a query that have a partner among those of another one, or have none; if
/// that one reads a table, and no NULLs are compared with each other.
fn as_join(kind: Join, left: &Query, right: &Query) -> Option<Query> {
    let width = left.columns.len();
    if width == 0 || right.has_effects() || right.reads_working() || rewrite::query_uses_args(right) {
        return None;
    }
    if (0..width).any(|column| !is_never_null_of(left, column) && !is_never_null_of(right, column)) {
        return None;
    }
    let columns: Vec<Expr> = (0..width).map(Expr::Column).collect();
    let (joined, on) = of_table(right, &[], &columns, width)?;
    let source = Source::Query(Box::new(left.clone()));
    let from = From::Join { kind, left: Box::new(From::Relation(0)), right: Box::new(From::Relation(1)), on };
    let select = Select {
        relations: vec![Relation::new(0, width, source, "*SELECT* 1".into()), joined],
        from: Some(from),
        filter: Vec::new(),
        group: None,
        grouped_rows: Vec::new(),
        extras: Vec::new(),
        output: columns,
        distinct: Distinct::All(width),
    };
    Some(Query::plain(Body::Select(Box::new(select)), left.columns.clone()))
}

/// Whether a column of a query is one of a table that has no NULLs there.
fn is_never_null_of(query: &Query, column: usize) -> bool {
    let Body::Select(select) = &query.body else { return false };
    let Some(from) = &select.from else { return false };
    select.group.is_none()
        && select.output.get(column).is_some_and(|value| is_never_null(value, &select.relations, from, &select.filter))
}
