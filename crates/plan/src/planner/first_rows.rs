//! Reading the first rows in an order, with another way for the case that they come late.
//!
//! A scan in an order that the conditions say nothing about may find its rows at once, or behind all
//! others. The plan has a second way, which finds all rows that fulfil the conditions and sorts
//! them. The run begins with the first way, and changes over when that has cost as much as the
//! second one does ([`Node::FirstRows`]).

use super::access::{Cheapest, Path, Wanted};
use super::order::{Order, Ordered};
use super::{Layout, Planned, Planner, Rewrites};
use crate::expr::Expr;
use crate::plan::{Node, SortKey};
use colibri_txn::Direction;

/// How many times as far as on average a scan in order is taken to go that can be given up.
pub(super) const LATE: f64 = 1.5;
/// The first way looks at this many rows at least before the run changes over.
const TRIED_MIN: f64 = 64.0;
/// The same in tests, whose tables are small.
const TRIED_ALWAYS: u64 = 3;
/// The most rows that a query may want if its first way can be given up: all of them are kept in
/// memory until that is certain.
const KEPT_BACK_MAX: f64 = 10_000.0;

/// The second way.
#[derive(Debug)]
pub(super) struct Instead {
    path: Path,
    direction: Direction,
    /// How many rows the first way looks at before the run changes over.
    after: u64,
}

/// Whether a scan in an order can be given up.
pub(super) fn can_give_up(order: &Order<'_>, limit: Option<f64>) -> bool {
    order.can_give_up && limit.is_some_and(|limit| limit <= KEPT_BACK_MAX)
}

/// The better one of the best way whose cost is known, and the best one that may have to be given
/// up. The latter comes with what it costs to follow it to its end.
pub(super) fn chosen(best: Option<Cheapest>, tried: Option<(Cheapest, f64)>, rewrites: Rewrites) -> Cheapest {
    let with_both = |best: Cheapest, tried: Cheapest, after| {
        let instead = Instead { path: best.path, direction: best.direction, after };
        Cheapest { instead: Some(instead), ..tried }
    };
    match (best, tried) {
        (Some(best), Some((tried, _))) if rewrites == Rewrites::All => with_both(best, tried, TRIED_ALWAYS),
        (Some(best), Some((tried, _))) if best.cost <= tried.cost => best,
        // To its end it costs little more than the other way.
        (Some(best), Some((tried, all))) if all <= 2.0 * best.cost => tried,
        (Some(best), Some((tried, all))) => {
            let after = (best.cost / all * tried.path.rows).max(TRIED_MIN).ceil() as u64;
            with_both(best, tried, after)
        }
        (Some(best), None) | (None, Some((best, _))) => best,
        (None, None) => unreachable!("the primary key's path is always there"),
    }
}

impl Planner<'_> {
    /// Both ways in one node. `top` is how many rows are wanted.
    pub(super) fn first_rows(
        &self,
        wanted: &Wanted<'_>,
        order: &Order<'_>,
        (in_order, instead): (Planned, Instead),
        top: &Expr,
    ) -> Planned {
        let mut columns: Vec<usize> = wanted.columns.iter().map(|column| wanted.base + column).collect();
        columns.sort_unstable();
        let layout = Layout(columns);
        let over_wide: Vec<Ordered> =
            order.columns.iter().map(|ordered| Ordered { column: wanted.base + ordered.column, ..*ordered }).collect();
        let key = |ordered: &Ordered| {
            let expr = Expr::Column(layout.place(ordered.column)?);
            Some(SortKey { expr, descending: ordered.descending, nulls_first: ordered.nulls_first })
        };
        let Some(keys) = over_wide.iter().map(key).collect::<Option<Vec<_>>>() else { return in_order };
        let Instead { path, direction, after } = instead;
        let found = self.scan(wanted, path, direction, &|expr| expr);
        let input = Box::new(projected(found, &layout));
        let sorted = Node::Sort { input, keys: keys.into(), top: Some(top.clone()), presorted: 0 };
        let rows = in_order.rows;
        let in_order = Box::new(projected(in_order, &layout));
        let node = Node::FirstRows { after, top: top.clone(), in_order, sorted: Box::new(sorted) };
        Planned { node, layout, rows, order: over_wide }
    }
}

/// The rows with the columns of a layout, which they have among others.
fn projected(planned: Planned, layout: &Layout) -> Node {
    if planned.layout.0 == layout.0 {
        return planned.node;
    }
    let exprs = layout.0.iter().map(|&column| planned.layout.bind(Expr::Column(column))).collect::<Vec<_>>();
    Node::Project { input: Box::new(planned.node), exprs: exprs.into() }
}
