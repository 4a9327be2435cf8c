//! What stands in FROM: tables, queries, functions. How each is read by itself.

use std::sync::Arc;

use colibri_catalog::system_tables::Lasting;
use colibri_types::{Error, Result};

use super::access::{Cheapest, Wanted};
use super::cost::ordered;
use super::joins::Tables;
use super::judge::left_by;
use super::lateral::rows_of_calls;
use super::order::Order;
use super::system::SystemWanted;
use super::{Layout, Planned, Planner, filtered};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::Source;
use crate::plan::{KeyedId, Node};

/// Whether a condition is the same for all rows.
pub(super) fn is_constant(condition: &Expr) -> bool {
    rewrite::depends_on_no_row(condition)
}

/// Rows under conditions that are the same for all of them: looked at once, before the first one is
/// touched.
pub(super) fn gated(planned: Planned, conditions: Vec<Expr>) -> Planned {
    // What takes a query to know is asked behind what does not.
    let (pure, asking): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(rewrite::is_pure);
    let planned = gated_by_pure(planned, pure);
    match ordered(asking) {
        Some(condition) => {
            let condition = Arc::new(condition);
            Planned { node: Node::Filter { input: Box::new(planned.node), condition }, ..planned }
        }
        None => planned,
    }
}

fn gated_by_pure(planned: Planned, conditions: Vec<Expr>) -> Planned {
    let Some(condition) = ordered(conditions) else { return planned };
    let node = match planned.node {
        // A look at one row costs less than another operator does.
        Node::Scan(mut scan) if planned.rows <= 1.0 => {
            let own = Arc::make_mut(&mut scan);
            own.filter = rewrite::conjunction([condition].into_iter().chain(own.filter.take()).collect());
            Node::Scan(scan)
        }
        node => Node::Filter { input: Box::new(node), condition: Arc::new(condition) },
    };
    Planned { node, ..planned }
}

impl Planner<'_> {
    pub(super) fn relation(&mut self, index: usize, conditions: Vec<Expr>, tables: &Tables<'_>) -> Result<Planned> {
        let relation = &tables.relations[index];
        let base = relation.base;
        let all = || Layout((base..base + relation.width).collect());
        let (constant, conditions): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_constant);
        let (node, rows) = match &relation.source {
            Source::Table(table) => {
                let wanted = Wanted::alone((table, base), &tables.needed[index], &conditions, self.sizes);
                let columns = tables.order.of_relation(relation);
                let top = tables.top.filter(|_| tables.relations.len() == 1);
                let can_give_up = top.is_some() && columns.iter().all(|one| wanted.columns.contains(&one.column));
                let order = Order { can_give_up, ..tables.order.over(&columns) };
                let Cheapest { path, direction, instead, .. } = self.cheapest(&wanted, &order, tables.limit);
                let planned = self.scan(&wanted, path, direction, &|expr| expr);
                let planned = match (instead, top) {
                    (Some(instead), Some(top)) => self.first_rows(&wanted, &order, (planned, instead), top),
                    _ => planned,
                };
                return Ok(gated(planned, constant));
            }
            Source::Tree(tree) => {
                let planned = self.tree((tree, index), &conditions, tables);
                return Ok(gated(planned, constant));
            }
            Source::Query(query) => (self.query(query)?, self.rows_of_query(query)),
            Source::Shared { id, query, uses_args, .. } if relation.source.is_read_once() => {
                let node = self.query(query)?;
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
                let looked_at_max = self.looked_at_max(&input, !keys.is_empty());
                let (id, width, keys) = (KeyedId::next(), relation.width, keys.as_slice().into());
                (Node::Keyed { id, input, width, keys, looked_at_max }, 10.0)
            }
            Source::Functions { calls, numbered } => (self.functions(calls, *numbered)?, rows_of_calls(calls)),
            Source::Working { id, name, columns } => {
                (Node::Working { id: *id, name: name.clone(), columns: Arc::clone(columns) }, 10.0)
            }
            Source::Part { id } => {
                let input = self.shared.get(id).ok_or_else(|| Error::internal("a part of a statement has no plan"))?;
                (Node::Shared { id: *id, input: Arc::clone(input) }, 1_000.0)
            }
            Source::System { id, table } => {
                if table.lasting != Lasting::Statement {
                    let wanted = SystemWanted::alone(self, (table, base), &conditions);
                    return Ok(gated(wanted.scan(&tables.needed[index], &|expr| expr), constant));
                }
                // These rows are made once for the statement, however often they are read.
                let node = Node::System { table, columns: (0..relation.width).collect(), lookup: None };
                (Node::Shared { id: *id, input: Arc::new(node) }, table.rows_expected)
            }
        };
        let node = self.cut(node, relation.width, &relation.source);
        let layout = all();
        let bound = conditions.into_iter().map(|condition| layout.bind(condition)).collect::<Vec<_>>();
        let rows = (rows * left_by(bound.len())).max(1.0);
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
