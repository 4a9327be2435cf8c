//! Choosing operators for bound queries.
//!
//! A query is planned from FROM upwards: the way to each table's rows (`access`), the order and kind of joins (`joins`),
//! then grouping, output, DISTINCT, ORDER BY, LIMIT (`query`), and what statements that write put on top (`write`).
//! Costs are counted in rows looked at; the sizes of tables are exact, since the store counts.
//!
//! While FROM is planned, a node comes with its *layout*: which column of the wide row each of its columns is.

mod access;
mod joins;
mod query;
mod write;

use crate::bind::logical::Query;
use crate::bind::rewrite;
use crate::catalog::{Index, Table};
use crate::error::Result;
use crate::expr::Expr;
use crate::plan::{Fragment, Node, OutputColumn};

pub(crate) use write::{plan_delete, plan_insert, plan_update, reference_access};

/// What the planner asks of the database.
pub(crate) trait Sizes {
    /// How many rows a table has.
    fn rows(&self, table: &Table) -> f64;

    /// About how many rows have the values that some row has in the first `columns` columns of an index, or of the primary
    /// key; `None` if the table has no rows to learn it from.
    fn rows_alike(&self, table: &Table, index: Option<&Index>, columns: usize) -> Option<f64>;
}

/// Plans a query whose first `args` slots are filled from outside.
pub(crate) fn plan_query(query: &Query, args: usize, sizes: &dyn Sizes) -> Result<Fragment> {
    let mut planner = Planner { sizes, slots: args };
    let node = planner.query(query)?;
    Ok(Fragment::new(node, planner.slots, output_columns(&query.columns)))
}

pub(crate) fn output_columns(columns: &[crate::bind::logical::Column]) -> Vec<OutputColumn> {
    columns
        .iter()
        .map(|column| OutputColumn { name: column.name.clone(), ty: column.ty, origin: column.origin })
        .collect()
}

struct Planner<'a> {
    sizes: &'a dyn Sizes,
    /// Slots given out so far.
    slots: usize,
}

/// A part of FROM with its operators.
struct Planned {
    node: Node,
    layout: Layout,
    /// About how many rows it gives.
    rows: f64,
    /// What its rows are ordered by: columns of the wide row, and whether descending with NULLs first. Rows that are equal
    /// in these come in any order.
    order: Vec<Ordered>,
}

/// A column that rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ordered {
    column: usize,
    descending: bool,
    nulls_first: bool,
    /// The column has no NULLs, so where they would go does not matter.
    not_null: bool,
}

/// Which column of the wide row each column of a node is.
#[derive(Debug, Clone, Default)]
struct Layout(Vec<usize>);

impl Layout {
    fn place(&self, column: usize) -> Option<usize> {
        self.0.iter().position(|&other| other == column)
    }

    /// An expression over the wide row as one over the node's row.
    fn bind(&self, mut expr: Expr) -> Expr {
        rewrite::map_columns(&mut expr, &|column| {
            self.place(column).expect("the planner asks for every column that is needed above")
        });
        expr
    }

    fn joined(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect())
    }
}

/// A node with a condition over its row, if there is one.
fn filtered(node: Node, conditions: Vec<Expr>) -> Node {
    match rewrite::conjunction(conditions) {
        None => node,
        Some(condition) => Node::Filter { input: Box::new(node), condition },
    }
}
