//! What stands in FROM: tables, queries, functions. How each is read by itself, and which conditions it can look at
//! inside.

use std::sync::Arc;

use colibri_types::Result;

use super::access::Wanted;
use super::constants::{forget_unused, push_down};
use super::cost::ordered;
use super::joins::Tables;
use super::lateral::rows_of_calls;
use super::{Layout, Ordered, Planned, Planner, filtered};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{Body, Query, Source};
use crate::plan::{KeyedId, Node};

/// Whether a condition is the same for all rows.
pub(super) fn is_constant(condition: &Expr) -> bool {
    rewrite::depends_on_no_row(condition)
}

/// Rows under conditions that are the same for all of them: looked at once, before the first one is touched.
pub(super) fn gated(planned: Planned, conditions: Vec<Expr>) -> Planned {
    // What takes a query to know is asked behind what does not.
    let (pure, asking): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(rewrite::is_pure);
    let planned = gated_by_pure(planned, pure);
    match ordered(asking) {
        Some(condition) => Planned { node: Node::Filter { input: Box::new(planned.node), condition }, ..planned },
        None => planned,
    }
}

fn gated_by_pure(planned: Planned, conditions: Vec<Expr>) -> Planned {
    let Some(condition) = ordered(conditions) else { return planned };
    let node = match planned.node {
        // A look at one row costs less than another operator does.
        Node::Scan(mut scan) if planned.rows <= 1.0 => {
            scan.filter = rewrite::conjunction([condition].into_iter().chain(scan.filter).collect());
            Node::Scan(scan)
        }
        node => Node::Filter { input: Box::new(node), condition },
    };
    Planned { node, ..planned }
}

/// About how many rows a system table has.
pub(super) const SYSTEM_ROWS: f64 = 500.0;

impl Planner<'_> {
    pub(super) fn relation(&mut self, index: usize, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        let relation = &tables.relations[index];
        let base = relation.base;
        let all = || Layout((base..base + relation.width).collect());
        let (constant, mut conditions): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_constant);
        let (node, rows) = match &relation.source {
            Source::Table(table) => {
                let wanted =
                    Wanted { table, base, columns: &tables.needed[index], conditions: &conditions, known: &|_| false };
                let order: Vec<Ordered> = tables
                    .order
                    .iter()
                    .map_while(|ordered| {
                        let column = ordered.column.checked_sub(base).filter(|&column| column < relation.width)?;
                        Some(Ordered { column, ..*ordered })
                    })
                    .collect();
                let order = if order.len() == tables.order.len() { order } else { Vec::new() };
                let (path, direction) = self.cheapest(&wanted, &order, tables.limit);
                return Ok(gated(self.scan(&wanted, path, direction, &|expr| expr), constant));
            }
            Source::Query(query) => {
                let query = as_read((**query).clone(), base, &tables.needed[index], &mut conditions);
                // Only rows that are asked for are locked.
                let (inside, left) = match query.locks.is_empty() {
                    true => (Vec::new(), conditions),
                    false => within(&query, base, conditions),
                };
                conditions = left;
                (self.query_where(&query, inside)?, self.rows_of_query(&query))
            }
            Source::Shared { id, query, uses_args, .. } if relation.source.is_read_once() => {
                let query = as_read(Query::clone(query), base, &tables.needed[index], &mut conditions);
                let node = self.query(&query)?;
                let node = if *uses_args { node } else { Node::Shared { id: *id, input: Arc::new(node) } };
                (node, 1_000.0)
            }
            Source::Shared { query, uses_args: true, .. } => (self.query(query)?, 1_000.0),
            Source::Shared { id, query, uses_args: false, .. } => {
                let input = match self.shared.get(id) {
                    Some(planned) => Arc::clone(planned),
                    None => {
                        let planned = Arc::new(self.query(query)?);
                        self.shared.insert(*id, Arc::clone(&planned));
                        planned
                    }
                };
                (Node::Shared { id: *id, input }, 1_000.0)
            }
            Source::Lateral { query, args } => {
                let args = args.iter().map(|arg| self.over_slots(arg)).collect::<Result<Vec<_>>>()?;
                let mut query = (**query).clone();
                rewrite::fill_slots(&mut query, &|slot| args[slot].clone());
                (self.repeated(&query)?, 10.0)
            }
            Source::Keyed { query, keys } => {
                let input = Arc::new(self.query(query)?);
                let (id, width, keys) = (KeyedId::new(), relation.width, keys.clone());
                (Node::Keyed { id, input, width, keys, looked_at_max: u64::MAX }, 10.0)
            }
            Source::Functions { calls, numbered } => (self.functions(calls, *numbered)?, rows_of_calls(calls)),
            Source::Working { id, name, columns } => {
                (Node::Working { id: *id, name: name.clone(), columns: Arc::clone(columns) }, 10.0)
            }
            // Made once for the statement, however often it is read.
            Source::System { id, table } => {
                (Node::Shared { id: *id, input: Arc::new(Node::System { table }) }, SYSTEM_ROWS)
            }
        };
        let node = self.cut(node, relation.width, &relation.source);
        let layout = all();
        let bound = conditions.into_iter().map(|condition| layout.bind(condition)).collect::<Vec<_>>();
        let rows = (rows * 0.3f64.powi(bound.len().min(3) as i32)).max(1.0);
        Ok(gated(Planned { node: filtered(node, bound), layout, rows, order: Vec::new() }, constant))
    }

    /// Takes off columns that a query carried only for its own order.
    fn cut(&self, node: Node, width: usize, source: &Source) -> Node {
        let carried = match source {
            Source::Query(query) => super::query::width(query),
            Source::Shared { query, .. } => super::query::width(query),
            Source::Lateral { query, .. } => super::query::width(query),
            _ => width,
        };
        if carried == width {
            return node;
        }
        Node::Project { input: Box::new(node), exprs: (0..width).map(Expr::Column).collect() }
    }
}

/// A query in FROM as one place reads it: it computes no more than the columns that are needed, and
/// looks at those conditions itself that it can look at, which are taken away.
fn as_read(mut query: Query, base: usize, needed: &[usize], conditions: &mut Vec<Expr>) -> Query {
    let is_used = |column: usize| {
        let mut used = needed.contains(&column);
        for condition in &*conditions {
            rewrite::for_each_column(condition, &mut |place| used |= place == base + column);
        }
        used
    };
    forget_unused(&mut query, &is_used);
    conditions.retain(|condition| {
        let mut own = condition.clone();
        rewrite::map_columns(&mut own, &|place| place - base);
        !push_down(&mut query, &own)
    });
    query
}

/// Conditions over what a query gives, as conditions over what its FROM gives; and those that cannot be such.
fn within(query: &Query, base: usize, conditions: Vec<Expr>) -> (Vec<Expr>, Vec<Expr>) {
    let Body::Select(select) = &query.body else { return (Vec::new(), conditions) };
    let whole = query.limit.is_none() && query.offset.is_none() && select.group.is_none() && select.extras.is_empty();
    let is_plain =
        |expr: &Expr| !rewrite::any(expr, &|part| matches!(part, Expr::Subquery(_))) && !rewrite::is_volatile(expr);
    let may_go = |condition: &Expr| {
        let mut goes = whole && is_plain(condition);
        rewrite::for_each_column(condition, &mut |column| {
            goes = goes && column.checked_sub(base).and_then(|at| select.output.get(at)).is_some_and(is_plain);
        });
        goes
    };
    let (mut inside, left): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(may_go);
    let output = |column: usize| select.output.get(column - base).cloned().unwrap_or(Expr::Column(column));
    inside.iter_mut().for_each(|condition| rewrite::substitute(condition, &output));
    (inside, left)
}
