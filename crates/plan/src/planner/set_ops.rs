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

use colibri_types::Result;

use super::decorrelate::{is_never_null, of_table};
use super::query::width;
use super::{Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{Body, Distinct, From, Join, Query, Relation, Select, SetOperation, Source};
use crate::plan::{Node, SetOp};

impl Planner<'_> {
    pub(super) fn set(&mut self, op: SetOperation, all: bool, left: &Query, right: &Query) -> Result<Node> {
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
        for side in queries.into_iter().rev() {
            sides.push(self.side(side, columns)?);
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

    /// A query with its first columns alone, without those that it carries for its own order.
    pub(super) fn side(&mut self, query: &Query, columns: usize) -> Result<Node> {
        let node = self.query(query)?;
        if width(query) == columns {
            return Ok(node);
        }
        Ok(Node::Project { input: Box::new(node), exprs: (0..columns).map(Expr::Column).collect() })
    }
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
