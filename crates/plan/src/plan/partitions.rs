//! Partitioned tables as statements see them: which tables have the rows, and which row goes where.
//!
//! A [`Tree`] is a partitioned table with all tables below it that have rows, its *leaves*. A row of
//! the tree has the columns of the root, dropped ones included, then the hidden number of the leaf's
//! row (NULL where the leaf has a primary key), then the leaf's number in the catalogue, which is its
//! `tableoid`.
//!
//! Invariants: a row's partition is found by its key alone; the edges of ranges ascend, and no two
//! partitions take the same row.

use std::cmp::Ordering;
use std::sync::Arc;

use colibri_catalog::{Index, ObjectId, PartitionStrategy, Table};
use colibri_types::{ColumnType, Datum, operators, partition_hash};

use crate::expr::{Expr, walk};

/// Columns of a tree's rows behind those of its root.
pub const HIDDEN_COLUMNS: usize = 2;

/// Divides rows among the partitions of one table.
#[derive(Debug)]
pub struct Router {
    /// The partitioned table.
    pub table: Arc<Table>,
    pub strategy: PartitionStrategy,
    pub keys: Vec<RouterKey>,
    /// Those of ranges in the order of their values.
    pub children: Vec<Child>,
    /// Which of the children takes what no other one takes.
    pub default: Option<usize>,
    /// Of lists: the values in order, each with the place of the child that takes it.
    values: Vec<(Datum, usize)>,
}

/// A column of a key.
#[derive(Debug)]
pub struct RouterKey {
    /// Its value, over the row at hand.
    pub expr: Expr,
    pub ty: ColumnType,
    /// As messages have it.
    pub name: String,
}

/// A partition.
#[derive(Debug)]
pub struct Child {
    pub id: ObjectId,
    pub bound: Bound,
}

/// Which rows a partition takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// From the first, inclusive, to the second, exclusive.
    Range(Vec<Edge>, Vec<Edge>),
    /// Values, NULL among them.
    List(Vec<Datum>),
    /// A modulus and a remainder.
    Hash(u64, u64),
    Default,
}

/// An end of a range, in one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Edge {
    Min,
    Value(Datum),
    Max,
}

/// How an edge and a key stand to each other; a key that is equal to all of the edge's values is
/// equal to it.
fn edge_to_key(edge: &[Edge], key: &[Datum]) -> Ordering {
    for (edge, value) in edge.iter().zip(key) {
        let order = match edge {
            Edge::Min => Ordering::Less,
            Edge::Max => Ordering::Greater,
            Edge::Value(edge) => operators::compare(edge, value),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// How two edges stand to each other.
#[must_use]
pub fn compare_edges(one: &[Edge], other: &[Edge]) -> Ordering {
    for (one, other) in one.iter().zip(other) {
        let order = match (one, other) {
            (Edge::Min, Edge::Min) | (Edge::Max, Edge::Max) => return Ordering::Equal,
            (Edge::Min, _) | (_, Edge::Max) => Ordering::Less,
            (Edge::Max, _) | (_, Edge::Min) => Ordering::Greater,
            (Edge::Value(one), Edge::Value(other)) => operators::compare(one, other),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl Router {
    #[must_use]
    pub fn new(table: Arc<Table>, strategy: PartitionStrategy, keys: Vec<RouterKey>, mut children: Vec<Child>) -> Self {
        children.sort_by(|one, other| match (&one.bound, &other.bound) {
            (Bound::Range(one, _), Bound::Range(other, _)) => compare_edges(one, other),
            (Bound::Default, Bound::Default) => Ordering::Equal,
            (Bound::Default, _) => Ordering::Greater,
            (_, Bound::Default) => Ordering::Less,
            _ => Ordering::Equal,
        });
        let default = children.iter().position(|child| child.bound == Bound::Default);
        let mut values = Vec::new();
        for (at, child) in children.iter().enumerate() {
            if let Bound::List(list) = &child.bound {
                values.extend(list.iter().map(|value| (value.clone(), at)));
            }
        }
        values.sort_by(|(one, _), (other, _)| compare_with_null(one, other));
        Self { table, strategy, keys, children, default, values }
    }

    /// The place of the child that takes a row with a key.
    #[must_use]
    pub fn find(&self, key: &[Datum]) -> Option<usize> {
        let found = match self.strategy {
            PartitionStrategy::Range if key.iter().any(Datum::is_null) => None,
            PartitionStrategy::Range => {
                let is_before = |child: &Child| match &child.bound {
                    Bound::Range(low, _) => edge_to_key(low, key).is_le(),
                    _ => false,
                };
                let place = self.children.partition_point(is_before).checked_sub(1);
                place.filter(|&place| match &self.children[place].bound {
                    Bound::Range(_, high) => edge_to_key(high, key).is_gt(),
                    _ => false,
                })
            }
            PartitionStrategy::List => key.first().and_then(|value| {
                let place = self.values.binary_search_by(|(known, _)| compare_with_null(known, value)).ok()?;
                Some(self.values[place].1)
            }),
            PartitionStrategy::Hash => {
                let hash = partition_hash::of_key(self.keys.iter().map(|key| key.ty.ty).zip(key));
                self.children.iter().position(|child| match child.bound {
                    Bound::Hash(modulus, remainder) => hash % modulus == remainder,
                    _ => false,
                })
            }
        };
        found.or(self.default)
    }

    /// The place of a child by its number.
    #[must_use]
    pub fn place_of(&self, id: ObjectId) -> Option<usize> {
        self.children.iter().position(|child| child.id == id)
    }
}

/// NULL is above all values.
fn compare_with_null(one: &Datum, other: &Datum) -> Ordering {
    match (one.is_null(), other.is_null()) {
        (false, false) => operators::compare(one, other),
        (one, other) => one.cmp(&other),
    }
}

/// A partitioned table with all that is below it, or a table with those that inherit from it.
#[derive(Debug)]
pub struct Tree {
    pub root: Arc<Table>,
    /// That of the root is the first; their keys are over rows of the tree. None of tables that
    /// inherit.
    pub routers: Vec<TreeRouter>,
    /// In the order of the bounds.
    pub leaves: Vec<Leaf>,
}

/// A router of a tree.
#[derive(Debug)]
pub struct TreeRouter {
    pub router: Router,
    /// What each of the children is.
    pub targets: Vec<Target>,
}

/// What a child is.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    Leaf(usize),
    Router(usize),
}

/// A table that has rows of a tree.
#[derive(Debug)]
pub struct Leaf {
    pub table: Arc<Table>,
    /// For each column of the root, which column it is here.
    pub columns: Vec<Option<usize>>,
    /// The indexes of the root by their numbers, and which of its own each one is.
    pub indexes: Vec<(ObjectId, Arc<Index>)>,
}

impl Tree {
    /// The number of columns of a row of the tree.
    #[must_use]
    pub fn width(&self) -> usize {
        self.root.columns.len() + HIDDEN_COLUMNS
    }

    /// The column that says which leaf a row is of.
    #[must_use]
    pub fn leaf_column(&self) -> usize {
        self.root.columns.len() + 1
    }

    /// The leaf with a number.
    #[must_use]
    pub fn leaf_of(&self, id: i64) -> Option<usize> {
        self.leaves.iter().position(|leaf| i64::from(leaf.table.id) == id)
    }
}

impl Leaf {
    /// How many columns a row has here, its hidden number included.
    #[must_use]
    pub fn width(&self) -> usize {
        self.table.columns.len() + usize::from(self.table.primary_key.is_none())
    }

    /// What a column of a tree's row is here; `base` is where the leaf's own columns begin.
    #[must_use]
    pub fn column(&self, place: usize, base: usize) -> Expr {
        let columns = self.columns.len();
        match self.columns.get(place) {
            Some(Some(column)) => Expr::Column(base + column),
            Some(None) => Expr::Const(Datum::Null),
            None if place > columns => Expr::Const(Datum::Int(self.table.id.into())),
            None if self.table.primary_key.is_none() => Expr::Column(base + self.table.columns.len()),
            None => Expr::Const(Datum::Null),
        }
    }

    /// An expression over a tree's row, with what a join brings behind it, as one over the leaf's.
    pub fn own(&self, expr: &mut Expr) {
        let width = self.columns.len() + HIDDEN_COLUMNS;
        walk::substitute(expr, &|place| match place.checked_sub(width) {
            None => self.column(place, 0),
            Some(behind) => Expr::Column(self.width() + behind),
        });
    }
}
