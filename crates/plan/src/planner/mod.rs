//! Choosing operators for bound queries.
//!
//! Each query goes through the `passes` first, of which the last one orders joins (`join_order`).
//! Then it is planned from FROM upwards: the way to each table's rows (`access`, `relation`, `trees`), the
//! kind of joins (`joins`), then grouping, output, DISTINCT, ORDER BY, LIMIT (`query`), and what
//! statements that write put on top (`write`) and what they have to obey (`rules`). Conditions are
//! put in the order of what they `cost`. Costs are counted in rows looked at; the sizes of tables
//! are exact, since the store counts.
//!
//! While FROM is planned, a node comes with its *layout*: which column of the wide row each of its
//! columns is.

mod access;
mod adaptive;
mod alternatives;
mod by_key;
mod constants;
mod cost;
mod decorrelate;
mod distinct_values;
mod estimate;
mod first_rows;
mod group_keys;
mod group_scan;
mod grouped_values;
mod inverted;
mod join_order;
mod joins;
mod judge;
mod keyed_parts;
mod lateral;
mod merge;
mod order;
mod outer_joins;
pub mod passes;
mod prune;
mod pull_up;
mod push_filters;
mod query;
mod relation;
mod rules;
mod set_ops;
mod sorted_first;
mod system;
mod trees;
mod trees_of;
mod values_first;
mod windows;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use colibri_catalog::{Index, Table};
use colibri_types::{Env, Error, Result};

use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::Query;
use crate::plan::{Fragment, KeyRanges, Node, OutputColumn};
use order::Ordered;

pub use query::cursor_rows;
pub use write::{Main, plan_statement};

/// Which rewrites the planner makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rewrites {
    /// Those that pay.
    #[default]
    Paying,
    /// All that are allowed, whatever they cost. For tests.
    All,
    /// None: queries are run as they were written. For tests.
    None,
}

/// Which of a table's rows fulfil a condition, of some that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// A bit for each row.
    pub fulfil: u128,
    /// How many rows were looked at.
    pub rows: u32,
}

/// How many rows have the same values in some columns. The two differ where a few values have most
/// of the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alike {
    /// As a row, on average over all rows.
    pub as_a_row: f64,
    /// Each of the different values, on average over these: as many as there are rows, divided by
    /// how many different values there are.
    pub per_value: f64,
}

/// What the planner asks of the database.
pub trait Sizes {
    /// Which rewrites are made.
    fn rewrites(&self) -> Rewrites {
        Rewrites::Paying
    }

    /// Who the statement runs as; `None` where nobody's rights matter.
    fn rights(&self) -> Option<&dyn crate::bind::Rights> {
        None
    }

    /// The value of an expression of constants, which has no query and no session function in it.
    fn value_of(&self, constant: &Expr, env: &Env) -> Result<colibri_types::Datum>;

    /// How many rows a table has.
    fn rows(&self, table: &Table) -> f64;

    /// About how many rows have the same values in the first `columns` columns of an index, or of
    /// the primary key; `None` if the table has no rows to learn it from.
    fn rows_alike(&self, table: &Table, index: Option<&Index>, columns: usize) -> Option<Alike>;

    /// How many rows some ranges of an index hold, or of the table's own key: counted if the values
    /// that they are made of are known while the plan is made, and else what was `guessed`.
    fn rows_in(&self, table: &Arc<Table>, index: Option<&Arc<Index>>, ranges: &KeyRanges, guessed: f64) -> f64;

    /// About how many rows some ranges hold whose first columns may have any value: counted for some
    /// values of these; `None` as with [`Sizes::rows_in`].
    fn rows_behind(&self, table: &Arc<Table>, index: Option<&Arc<Index>>, ranges: &KeyRanges) -> Option<f64>;

    /// About how many rows an inverted index finds for some conditions: counted if their operands are
    /// known while the plan is made, and else what was `guessed`. `None`: it finds all of them.
    fn rows_of_tokens(
        &self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        conditions: &[crate::plan::TokenCondition],
        guessed: f64,
    ) -> Option<f64>;

    /// How many entries an index has.
    fn entries(&self, index: &Index) -> f64;

    /// The columns of a table that stand for expressions of indexes, with these, over all the
    /// table's columns.
    fn expressions(&self, table: &Arc<Table>) -> Arc<[(usize, Expr)]>;

    /// What a condition over nothing but parameters and constants comes to, if the plan is made for
    /// it. `None`: the plan is for all values; whoever runs it may ask for one for those at hand.
    fn decided(&self, _condition: &Expr) -> Option<colibri_types::Datum> {
        None
    }

    /// Which of some rows fulfil a condition over the table's columns, by their places; `None` if
    /// that is not known before the statement runs, or not worth a look. What is equal to a value
    /// that is not known is judged by how many rows have the same value.
    fn sampled(&self, table: &Arc<Table>, condition: &Expr) -> Option<Sampled>;
}

/// Plans a query whose first `args` slots are filled from outside.
pub fn plan_query(query: &Query, args: usize, sizes: &dyn Sizes, env: &Env) -> Result<Fragment> {
    let mut planner = Planner::new(sizes, env, args);
    let node = if args == 0 { planner.query(query)? } else { planner.repeated(query)? };
    Ok(planner.fragment(node, output_columns(&query.columns)))
}

pub fn output_columns(columns: &[crate::logical::Column]) -> Vec<OutputColumn> {
    columns
        .iter()
        .map(|column| OutputColumn { name: column.name.clone(), ty: column.ty, origin: column.origin })
        .collect()
}

/// What is asked of a SELECT besides what its clauses say.
struct Asked<'a> {
    /// Columns of its wide row that are read as well, to lock the rows or to change them.
    columns: &'a [usize],
    /// The query whose body it is, with an order and a limit.
    query: Option<&'a Query>,
}

/// So many parts that are planned in two ways may stand inside each other: each doubles what
/// planning those inside takes.
const ALTERNATIVES_MAX: usize = 2;

/// One of the two ways to run a query for each row of another: see `by_key`.
#[derive(Default)]
struct Way {
    /// It finds rows by keys.
    is_by_key: bool,
    /// What computing the rows that it keeps takes, in rows looked at; `None` if it keeps none.
    keeping: Option<f64>,
    /// It keeps rows without keys, all of which are looked at in each run.
    keeps_all: bool,
}

struct Planner<'a> {
    sizes: &'a dyn Sizes,
    /// What constants are computed in.
    env: &'a Env,
    /// The first of the errors that computing constants led to.
    fails: Option<Error>,
    /// Whether parameters in the places of literals might give something else.
    is_of_literals: bool,
    /// The expression at hand decides which rows are read, or in what order: what parameters say in
    /// it makes another plan right.
    decides: bool,
    /// Slots given out so far.
    slots: usize,
    /// Columns of the wide row at hand that nested loops further up put into slots, for what is
    /// LATERAL.
    provided: Vec<(usize, usize)>,
    /// What WITH queries have become: each is planned once, however often it is read.
    shared: HashMap<usize, Arc<Node>>,
    /// About how many rows these give.
    ///
    /// Bug: that was counted for each reader. Consequence: a chain of thirty WITH queries that each
    /// read the one before twice was planned for half a minute. Fix: it is counted once.
    shared_rows: RefCell<HashMap<usize, f64>>,
    /// How many parts that are planned in two ways stand around the place at hand.
    alternatives: usize,
    /// The way at hand, of two ways to run a query for each row of another.
    way: Way,
    /// Rows are looked at to judge conditions: tables are joined here, or a table is read for so
    /// long that the look pays.
    samples: Cell<bool>,
    /// Nobody can tell in what order the tables of the FROM at hand are read: see
    /// [`order::is_unseen`].
    order_is_unseen: bool,
    /// How deep inside a query that is being estimated the place at hand is.
    estimated: Cell<usize>,
    /// What queries inside expressions have become, by their numbers.
    lowered: HashMap<usize, Arc<Fragment>>,
}

impl<'a> Planner<'a> {
    fn new(sizes: &'a dyn Sizes, env: &'a Env, slots: usize) -> Self {
        Self {
            sizes,
            env,
            fails: None,
            is_of_literals: false,
            decides: false,
            slots,
            provided: Vec::new(),
            shared: HashMap::new(),
            shared_rows: RefCell::default(),
            alternatives: 0,
            way: Way::default(),
            samples: Cell::new(false),
            order_is_unseen: false,
            estimated: Cell::new(0),
            lowered: HashMap::new(),
        }
    }

    /// Plans a query inside an expression.
    ///
    /// Bug: it began without what had been planned around it. Consequence: thirty WITH queries of
    /// which each is read by two queries inside the next one were planned 2^30 times. Fix: both
    /// know the same plans of WITH queries, which run on slots of their own.
    fn inside(&mut self, query: &Query, args: usize) -> Result<Fragment> {
        use std::mem::take;
        let mut inner = Planner::new(self.sizes, self.env, args);
        (inner.shared, inner.lowered) = (take(&mut self.shared), take(&mut self.lowered));
        inner.shared_rows = take(&mut self.shared_rows);
        let planned = if args == 0 { inner.query(query) } else { inner.repeated(query) };
        (self.shared, self.lowered) = (take(&mut inner.shared), take(&mut inner.lowered));
        self.shared_rows = take(&mut inner.shared_rows);
        Ok(inner.fragment(planned?, output_columns(&query.columns)))
    }

    /// Plans a part of what is planned in two ways.
    fn in_two_ways<T>(&mut self, plan: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.alternatives += 1;
        let planned = plan(self);
        self.alternatives -= 1;
        planned
    }

    fn may_have_two_ways(&self) -> bool {
        self.alternatives < ALTERNATIVES_MAX
    }

    /// The plan with all that is known of it.
    fn fragment(self, root: Node, columns: Vec<OutputColumn>) -> Fragment {
        let mut fragment = Fragment::new(root, self.slots, columns);
        (fragment.fails, fragment.is_of_literals) = (self.fails, self.is_of_literals);
        fragment
    }
}

/// A part of FROM with its operators.
struct Planned {
    node: Node,
    layout: Layout,
    /// About how many rows it gives.
    rows: f64,
    /// What its rows are ordered by: columns of the wide row, and whether descending with NULLs
    /// first. Rows that are equal in these come in any order.
    order: Vec<Ordered>,
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
    match cost::ordered(conditions) {
        None => node,
        Some(condition) => Node::Filter { input: Box::new(node), condition: Arc::new(condition) },
    }
}
