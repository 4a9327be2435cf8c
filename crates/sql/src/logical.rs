//! Queries with names and types resolved, before operators are chosen.
//!
//! A [`Select`] is computed on a *wide row*: the columns of all its relations side by side, in the
//! order in which FROM names them, whatever the order of joins will be. Once it is grouped, on the
//! group's row: keys, then aggregates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use colibri_catalog::{Table, View, system_tables::SystemTable};
use colibri_types::ColumnType;
use compact_str::CompactString;

use crate::expr::Expr;
use crate::plan::{AggregateCall, IfRowLocked, RowLock, Series, SortKey};

mod collation;
pub(crate) mod walk;

pub(crate) use collation::{Collation, undetermined};

/// A query.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) body: Body,
    /// Names and types of the result's columns. A body may give more, for `order`.
    pub(crate) columns: Vec<Column>,
    /// Over the body's columns.
    pub(crate) order: Vec<SortKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) locks: Vec<Lock>,
    /// Its rows come with the keys of the rows of its tables behind them.
    pub(crate) is_marked: bool,
    /// The view that it is, whose owner's privileges count inside.
    pub(crate) view: Option<Arc<View>>,
}

impl Query {
    /// A query of a body alone: neither ordered nor limited, without locks, and no view's.
    pub(crate) fn plain(body: Body, columns: Vec<Column>) -> Self {
        Self {
            body,
            columns,
            order: Vec::new(),
            limit: None,
            offset: None,
            locks: Vec::new(),
            is_marked: false,
            view: None,
        }
    }
}

/// A column of a result or a relation.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: CompactString,
    pub(crate) ty: ColumnType,
    /// The table and column that it comes from unchanged.
    pub(crate) origin: Option<(u32, i16)>,
    pub(crate) collation: Collation,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
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
}

/// A WITH query that refers to itself: what the first term gives, then what the other one makes of
/// that, then what it makes of what it gave itself, until it gives nothing more. Both give the same
/// types.
#[derive(Debug, Clone)]
pub(crate) struct Recursive {
    /// Numbers its rows among those that are kept: [`Source::Working`] has the same.
    pub(crate) id: usize,
    pub(crate) name: CompactString,
    /// Rows that were given before are given again.
    pub(crate) all: bool,
    pub(crate) first: Query,
    pub(crate) again: Query,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Intersect,
    Except,
}

#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) relations: Vec<Relation>,
    /// `None` without FROM.
    pub(crate) from: Option<From>,
    /// Conditions that all have to be true, over the wide row.
    pub(crate) filter: Vec<Expr>,
    pub(crate) group: Option<Group>,
    /// Functions whose rows are grouped, with their places among the extras: over the wide row, as
    /// the keys are.
    pub(crate) grouped_rows: Vec<(usize, Extra)>,
    /// Over the wide row, or the group's, as `output` is: columns behind them, from `EXTRAS` on.
    pub(crate) extras: Vec<Extra>,
    /// Over the wide row, or the group's.
    pub(crate) output: Vec<Expr>,
    pub(crate) distinct: Distinct,
}

/// What the SELECT list computes of more than one row, or gives more than one row of.
#[derive(Debug, Clone)]
pub(crate) enum Extra {
    /// A function that gives rows.
    Rows(Series, Vec<Expr>),
    /// `row_number() OVER (PARTITION BY … ORDER BY …)`
    RowNumber { partition: Vec<Expr>, order: Vec<SortKey> },
}

impl Extra {
    /// The expressions in it.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::Rows(_, args) => args.iter_mut().collect(),
            Self::RowNumber { partition, order } => {
                partition.iter_mut().chain(order.iter_mut().map(|key| &mut key.expr)).collect()
            }
        }
    }

    /// The expressions in it.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::Rows(_, args) => args.iter().collect(),
            Self::RowNumber { partition, order } => partition.iter().chain(order.iter().map(|key| &key.expr)).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Distinct {
    No,
    /// In a number of columns of the output, from the first on.
    All(usize),
    /// DISTINCT ON: in the columns of the output with these places, which come first in the order.
    On(Vec<usize>),
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Over the wide row.
    pub(crate) keys: Vec<Expr>,
    /// Over the wide row.
    pub(crate) calls: Vec<AggregateCall>,
    /// Over the group's row.
    pub(crate) having: Option<Expr>,
}

/// Something in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// Where its columns begin in the wide row.
    pub(crate) base: usize,
    pub(crate) width: usize,
    pub(crate) source: Source,
    /// What it is called, for explaining and for locking.
    pub(crate) name: CompactString,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The relation's columns are all of the table's, dropped ones included, then its hidden number
    /// if it has no primary key.
    Table(Arc<Table>),
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
    /// query, each with what it is to be equal to, over slots. Made by the planner of a query that
    /// is run for each row of another.
    Keyed {
        query: Box<Query>,
        keys: Vec<(usize, Expr)>,
    },
    /// What a query that refers to itself gave in its last round.
    Working {
        id: usize,
        name: CompactString,
        columns: Arc<[CompactString]>,
    },
    /// Read once per statement under this number.
    System {
        id: usize,
        table: &'static SystemTable,
    },
}

impl Source {
    /// A WITH query that is read nowhere else: only what is looked at here has to be computed.
    pub(crate) fn is_read_once(&self) -> bool {
        matches!(self, Self::Shared { reads, .. } if reads.load(Ordering::Relaxed) == 1)
    }

    /// What it takes from relations before it: expressions over the wide row.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &Expr> {
        let (calls, args): (&[(Series, Vec<Expr>)], &[Expr]) = match self {
            Self::Functions { calls, .. } => (calls, &[]),
            Self::Lateral { args, .. } => (&[], args),
            Self::Table(_) | Self::Query(_) | Self::Shared { .. } | Self::Keyed { .. } => (&[], &[]),
            Self::Working { .. } | Self::System { .. } => (&[], &[]),
        };
        calls.iter().flat_map(|(_, args)| args).chain(args)
    }
}

/// How relations are joined.
#[derive(Debug, Clone)]
pub(crate) enum From {
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
    pub(crate) fn for_each_relation(&self, visit: &mut dyn FnMut(usize)) {
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
pub(crate) enum Join {
    Inner,
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
pub(crate) struct Lock {
    pub(crate) mode: RowLock,
    pub(crate) if_locked: IfRowLocked,
    /// Relations by name; all if empty.
    pub(crate) of: Vec<CompactString>,
}
