//! Queries with names and types resolved, before operators are chosen.
//!
//! A [`Select`] is computed on a *wide row*: the columns of all its relations side by side, in the
//! order in which FROM names them, whatever the order of joins will be. Once it is grouped, on the
//! group's row: its columns are the keys, and [`Expr::Aggregate`] is what a call gives. What the
//! SELECT list computes of several rows, or gives rows of, is [`Expr::Extra`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use colibri_catalog::{Table, View, system_tables::SystemTable};
use colibri_types::{ColumnType, Datum};
use compact_str::CompactString;

use crate::expr::Expr;
use crate::plan::partitions::Tree;
use crate::plan::{AggregateCall, IfRowLocked, KeyColumn, RowLock, Series, SortKey, WindowCall};

mod collation;
pub mod walk;

pub use collation::{Collation, bare as bare_collation, undetermined};

/// A query.
#[derive(Debug, Clone)]
pub struct Query {
    pub body: Body,
    /// Names and types of the result's columns. A body may give more, for `order`.
    pub columns: Vec<Column>,
    /// Over the body's columns.
    pub order: Vec<SortKey>,
    pub limit: Option<Expr>,
    /// Rows that are equal in the order to the last one of the limit are given too.
    pub with_ties: bool,
    pub offset: Option<Expr>,
    pub locks: Vec<Lock>,
    /// Its rows come with the keys of the rows of its tables behind them.
    pub is_marked: bool,
    /// It stands for a table, as far as policies show its rows: what could tell of others stays
    /// outside.
    pub barrier: Option<Arc<Table>>,
    /// The view that it is, whose owner's privileges count inside.
    pub view: Option<Arc<View>>,
}

impl Query {
    /// A query of a body alone: neither ordered nor limited, without locks, and no view's.
    pub fn plain(body: Body, columns: Vec<Column>) -> Self {
        Self {
            body,
            columns,
            order: Vec::new(),
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
            is_marked: false,
            barrier: None,
            view: None,
        }
    }
}

/// A column of a result or a relation.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: CompactString,
    pub ty: ColumnType,
    /// The table and column that it comes from unchanged.
    pub origin: Option<(u32, i16)>,
    pub collation: Collation,
}

#[derive(Debug, Clone)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    /// Both sides give the same types.
    Set {
        op: SetOperation,
        all: bool,
        left: Box<Query>,
        right: Box<Query>,
    },
    Recursive(Box<Recursive>),
    GroupingSets(Box<GroupingSets>),
}

/// The rows of a query, each once for each set of keys: with NULL in the keys that are not in the
/// set, and the set's number behind. The keys are the query's first columns.
#[derive(Debug, Clone)]
pub struct GroupingSets {
    pub input: Query,
    /// For each set, which of the keys are in it.
    pub sets: Vec<Box<[bool]>>,
}

/// A WITH query that refers to itself: what the first term gives, then what the other one makes of
/// that, then what it makes of what it gave itself, until it gives nothing more. Both give the same
/// types.
#[derive(Debug, Clone)]
pub struct Recursive {
    /// Numbers its rows among those that are kept: [`Source::Working`] has the same.
    pub id: usize,
    pub name: CompactString,
    /// Rows that were given before are given again.
    pub all: bool,
    pub first: Query,
    pub again: Query,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

#[derive(Debug, Clone)]
pub struct Select {
    pub relations: Vec<Relation>,
    /// `None` without FROM.
    pub from: Option<From>,
    /// Conditions that all have to be true, over the wide row.
    pub filter: Vec<Expr>,
    pub group: Option<Group>,
    /// Functions whose rows are grouped, with their places among the extras: over the wide row, as
    /// the keys are.
    pub grouped_rows: Vec<(usize, Extra)>,
    /// Over the wide row, or the group's, as `output` is: what [`Expr::Extra`] stands for.
    pub extras: Vec<Extra>,
    /// Over the wide row, or the group's.
    pub output: Vec<Expr>,
    pub distinct: Distinct,
}

/// What the SELECT list computes of more than one row, or gives more than one row of.
#[derive(Debug, Clone)]
pub enum Extra {
    /// A function that gives rows.
    Rows(Series, Vec<Expr>),
    /// A call of a function OVER a window.
    Window(Box<Window>),
}

/// A call OVER a window.
#[derive(Debug, Clone)]
pub struct Window {
    pub call: WindowCall,
    pub partition: Vec<Expr>,
    pub order: Vec<SortKey>,
}

impl Extra {
    /// The expressions in it.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::Rows(_, args) => args.iter_mut().collect(),
            Self::Window(window) => {
                let Window { call, partition, order } = &mut **window;
                let order = order.iter_mut().map(|key| &mut key.expr);
                call.exprs_mut().chain(partition).chain(order).collect()
            }
        }
    }

    /// The expressions in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::Rows(_, args) => args.iter().collect(),
            Self::Window(window) => {
                let order = window.order.iter().map(|key| &key.expr);
                window.call.exprs().chain(&window.partition).chain(order).collect()
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distinct {
    No,
    /// In a number of columns of the output, from the first on.
    All(usize),
    /// DISTINCT ON: in the columns of the output with these places, which come first in the order.
    On(Vec<usize>),
}

#[derive(Debug, Clone)]
pub struct Group {
    /// Over the wide row.
    pub keys: Vec<Expr>,
    /// Over the wide row.
    pub calls: Vec<AggregateCall>,
    /// Values of the keys of groups that are there even if there are no rows.
    pub always: Vec<Vec<Datum>>,
    /// Over the group's row.
    pub having: Option<Expr>,
}

/// Something in FROM.
#[derive(Debug, Clone)]
pub struct Relation {
    /// Where its columns begin in the wide row.
    pub base: usize,
    pub width: usize,
    pub source: Source,
    /// Conditions on its rows before they are joined, over the wide row. Nothing but the pass that
    /// pushes filters puts them here.
    pub filter: Vec<Expr>,
    /// What it is called, for explaining and for locking.
    pub name: CompactString,
}

#[derive(Debug, Clone)]
pub enum Source {
    /// The relation's columns are all of the table's, dropped ones included, then its hidden number
    /// if it has no primary key.
    Table(Arc<Table>),
    /// The same of a partitioned table, as the module `plan::partitions` has it.
    Tree(Arc<Tree>),
    Query(Box<Query>),
    /// A WITH query that is read more than once.
    Shared {
        id: usize,
        query: Arc<Query>,
        /// It takes values from a query around it, so that it is not the same wherever it is read.
        uses_args: bool,
        /// How often it is read; more than once says that it is to give all that it has to give.
        reads: Arc<AtomicUsize>,
    },
    /// Functions, side by side; whether the rows' numbers come behind. Their arguments are over the
    /// wide row, of which they may look at what stands before them.
    Functions {
        calls: Vec<(Series, Vec<Expr>)>,
        numbered: bool,
    },
    /// A LATERAL query: run for each row of what it takes values from. `args` are over the wide row
    /// and fill its slots.
    Lateral {
        query: Box<Query>,
        args: Vec<Expr>,
    },
    /// Rows of a query that depends on no row outside of it, found by their keys: columns of the
    /// query. Made by the planner of a query that is run for each row of another.
    Keyed {
        query: Box<Query>,
        keys: Vec<KeyColumn>,
    },
    /// What a query that refers to itself gave in its last round.
    Working {
        id: usize,
        name: CompactString,
        columns: Arc<[CompactString]>,
    },
    /// What a part of the statement gives that writes, and stands in WITH.
    Part {
        id: usize,
    },
    /// Read once per statement under this number.
    System {
        id: usize,
        table: &'static SystemTable,
    },
}

impl Relation {
    /// A relation under no condition.
    pub(crate) fn new(base: usize, width: usize, source: Source, name: CompactString) -> Self {
        Self { base, width, source, filter: Vec::new(), name }
    }
}

impl Source {
    /// A WITH query that is read nowhere else: only what is looked at here has to be computed.
    pub fn is_read_once(&self) -> bool {
        matches!(self, Self::Shared { reads, .. } if reads.load(Ordering::Relaxed) == 1)
    }

    /// What it takes from relations before it: expressions over the wide row.
    pub fn taken(&self) -> impl Iterator<Item = &Expr> {
        let (calls, args): (&[(Series, Vec<Expr>)], &[Expr]) = match self {
            Self::Functions { calls, .. } => (calls, &[]),
            Self::Lateral { args, .. } => (&[], args),
            Self::Table(_) | Self::Tree(_) | Self::Query(_) => (&[], &[]),
            Self::Shared { .. } | Self::Keyed { .. } => (&[], &[]),
            Self::Working { .. } | Self::Part { .. } | Self::System { .. } => (&[], &[]),
        };
        calls.iter().flat_map(|(_, args)| args).chain(args)
    }

    /// As [`Source::taken`], to change it.
    pub(crate) fn taken_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (calls, args): (&mut [(Series, Vec<Expr>)], &mut [Expr]) = match self {
            Self::Functions { calls, .. } => (calls, &mut []),
            Self::Lateral { args, .. } => (&mut [], args),
            Self::Table(_) | Self::Tree(_) | Self::Query(_) => (&mut [], &mut []),
            Self::Shared { .. } | Self::Keyed { .. } => (&mut [], &mut []),
            Self::Working { .. } | Self::Part { .. } | Self::System { .. } => (&mut [], &mut []),
        };
        calls.iter_mut().flat_map(|(_, args)| args).chain(args)
    }
}

/// How relations are joined.
#[derive(Debug, Clone)]
pub enum From {
    /// By place in `Select::relations`.
    Relation(usize),
    Join {
        kind: Join,
        left: Box<From>,
        right: Box<From>,
        on: Vec<Expr>,
    },
}

impl From {
    /// Calls something for each relation, by its place in `Select::relations`.
    pub fn for_each_relation(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Self::Relation(index) => visit(*index),
            Self::Join { left, right, .. } => {
                left.for_each_relation(visit);
                right.for_each_relation(visit);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    Inner,
    /// An inner join, of which all that stands on the left is joined first. Made by the pass that
    /// orders joins.
    InnerInOrder,
    Left,
    Right,
    Full,
    /// Rows of the left side that have a partner. Made of conditions of WHERE by the planner, as
    /// the next one is; the right side's columns are seen by the join's own conditions alone.
    Semi,
    /// Rows of the left side that have none.
    Anti,
}

/// `FOR UPDATE`, `FOR SHARE`
#[derive(Debug, Clone)]
pub struct Lock {
    pub mode: RowLock,
    pub if_locked: IfRowLocked,
    /// Relations by name; all if empty.
    pub of: Vec<CompactString>,
}
