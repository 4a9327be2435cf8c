//! Plans: trees of operators, each giving rows to the one above.
//!
//! Rows are positional. A join's row is its left side's followed by its right side's. Slots
//! ([`Expr::Arg`]) carry values from an outer row inwards: a query inside an expression finds the
//! outer query's values in its first slots, and a nested loop puts its outer row's values into
//! slots of its own before it runs its inner side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_catalog::{Index, ObjectId, ReferenceAction, Table, Timing, system_tables::SystemTable};
use colibri_txn::{ColumnSet, Direction, Space};
use colibri_types::{
    ColumnType, Datum, Error, aggregates::Aggregate, functions::JsonRows, functions::SearchRows, prefix::PatternKind,
};
use compact_str::CompactString;

use crate::expr::Expr;
use crate::expr::walk::for_each_column;

pub mod columns;
pub mod parallel;
pub mod partitions;
mod row_checks;
mod walk;
mod window;

use partitions::{Router, Tree};
pub use row_checks::{CheckedRow, RowCheck, RowChecks};
pub use window::{Exclude, Frame, FrameBound, FrameUnits, Most, RangeOffset, WindowCall, WindowFunction};

/// A query that can be run on its own once its slots are filled: a whole statement, or a query
/// inside an expression.
#[derive(Debug)]
pub struct Fragment {
    /// The operators.
    pub root: Node,
    /// Slots that it uses, those of nested loops included.
    pub slots: usize,
    /// Names and types of the rows' columns. The root may give more columns than these: they are
    /// cut off.
    pub columns: Vec<OutputColumn>,
    /// They are not cut off: WHERE CURRENT OF finds a cursor's rows by them.
    pub is_marked: bool,
    /// What kept operators are found by.
    pub id: FragmentId,
    /// Why it fails whenever it is run, before anything is looked at: a constant of it cannot be
    /// computed.
    pub fails: Option<Error>,
    /// Parameters in the places of its literals might give something else.
    pub is_of_literals: bool,
}

/// A fragment's number, never used twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentId(pub u64);

impl Fragment {
    pub fn new(root: Node, slots: usize, columns: Vec<OutputColumn>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = FragmentId(NEXT.fetch_add(1, Ordering::Relaxed));
        Self { root, slots, columns, is_marked: false, id, fails: None, is_of_literals: false }
    }
}

/// A column of a result.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    pub name: CompactString,
    pub ty: ColumnType,
    /// The table and its column that it comes from unchanged: number and attribute number, as
    /// clients are told.
    pub origin: Option<(u32, i16)>,
}

/// Expressions that an operator refers to for as long as it is kept.
pub type Exprs = Arc<[Expr]>;

/// An operator. What it evaluates is shared with whatever runs it, and never changes.
#[derive(Debug)]
pub enum Node {
    /// Rows of expressions. One row without columns where a query has no FROM.
    Values { rows: Arc<[Vec<Expr>]> },
    /// `generate_series` and its like: rows that a function makes up, with their numbers behind if
    /// asked for.
    Series { series: Series, args: Exprs, numbered: bool },
    /// A table of the system, whose rows are made from the catalogue: all of them, or those that a
    /// look-up by a key gives. A look-up may give more rows than match, so its condition stays in
    /// the filter above.
    /// `columns`: the places of those that a row consists of.
    System { table: &'static SystemTable, columns: Arc<[usize]>, lookup: Option<Arc<SystemLookup>> },
    /// Each row as often as functions in the SELECT list give rows, with what they give behind it:
    /// the first of each, the second, …, NULL for those that give no more.
    Expand { input: Box<Node>, calls: Arc<[(Series, Vec<Expr>)]> },
    /// Each row with what functions give over windows behind it. Rows that are equal in `partition`
    /// come side by side, those of a partition in the given order. Both are columns, and so is what
    /// the calls look at, but for what is the same for all rows.
    Window { input: Box<Node>, partition: Arc<[usize]>, order: Arc<[SortKey]>, calls: Arc<[WindowCall]> },
    /// A table.
    Scan(Arc<Scan>),
    /// The number of entries in a range of a table, one row with one column: nothing is visited.
    CountRange { table: Arc<Table>, access: Arc<Access> },
    /// The groups of a table's rows by the first columns of a key, with what is asked of each; only the
    /// ends of groups are visited.
    GroupScan(Arc<GroupScan>),
    /// The rows for which the condition is true.
    Filter { input: Box<Node>, condition: Arc<Expr> },
    /// Expressions over each row.
    Project { input: Box<Node>, exprs: Exprs },
    /// For each outer row the inner side is run anew, with `args` of the outer row in the slots
    /// from `first_slot`.
    NestedLoop {
        kind: JoinKind,
        outer: Box<Node>,
        inner: Box<Node>,
        first_slot: usize,
        args: Exprs,
        /// Over the joined row.
        on: Option<Arc<Expr>>,
        /// Columns of the inner side, for the NULLs of an outer join.
        inner_width: usize,
    },
    /// The right side is kept in a hash table.
    HashJoin {
        kind: JoinKind,
        left: Box<Node>,
        right: Box<Node>,
        left_keys: Exprs,
        right_keys: Exprs,
        /// Over the joined row.
        on: Option<Arc<Expr>>,
        left_width: usize,
        right_width: usize,
    },
    /// Both sides come in the order of their keys.
    MergeJoin {
        kind: JoinKind,
        left: Box<Node>,
        right: Box<Node>,
        keys: Arc<[MergeKey]>,
        /// Over the joined row.
        on: Option<Arc<Expr>>,
        right_width: usize,
    },
    /// Gives each row once for each set: with NULL in those of the first columns that are not in it,
    /// and the set's number behind. For each set, which of these columns are in it.
    GroupingSets { input: Box<Node>, sets: Arc<[Box<[bool]>]> },
    /// Groups by `keys`: gives the keys, then the aggregates. Without keys one row, even for no
    /// input. Rows that are equal in the `presorted` ones of the keys, if there are any, come side
    /// by side, and their groups are given in that order. There is a group of each of the keys' values
    /// in `always`, even for no input; nothing is presorted then.
    Aggregate {
        input: Box<Node>,
        keys: Exprs,
        calls: Arc<[AggregateCall]>,
        presorted: Arc<[usize]>,
        always: Arc<[Vec<Datum>]>,
    },
    /// A grouping, or a sort with `top`, that other threads may help with: see [`parallel`].
    Parallel { input: Arc<Node> },
    /// One row of those that are equal in the first `columns` columns. With `sorted` they come side
    /// by side, and the first one stays (DISTINCT ON).
    Distinct { input: Box<Node>, columns: usize, sorted: bool },
    /// In order. With `top` (a LIMIT above, its OFFSET added) only the first `top` rows are kept. The
    /// input comes in the order of the first `presorted` keys, which are columns.
    Sort { input: Box<Node>, keys: Arc<[SortKey]>, top: Option<Expr>, presorted: usize },
    /// `OFFSET`, `LIMIT`. Behind the limit come the rows that are equal to the last one in the columns
    /// `ties`, if there are any.
    Limit { input: Box<Node>, limit: Option<Expr>, offset: Option<Expr>, ties: Arc<[usize]> },
    /// `UNION ALL`: one after the other.
    Append { inputs: Vec<Node> },
    /// `INTERSECT [ALL]`, `EXCEPT [ALL]`. (`UNION` is a `Distinct` over an `Append`.)
    SetOp { op: SetOp, all: bool, left: Box<Node>, right: Box<Node> },
    /// Rows of a WITH query or another input that is read more than once: the first reader runs it,
    /// all read what it gave. `id` numbers these in a statement.
    Shared { id: usize, input: Arc<Node> },
    /// A WITH query that refers to itself: the rows of `first`, then those that `again` makes of
    /// them, then those that it makes of these, until there are no more. Without `all` no row is
    /// given twice, nor looked at again.
    Recursive { id: usize, name: CompactString, all: bool, columns: usize, first: Box<Node>, again: Box<Node> },
    /// The rows that the query of this number gave in its last round.
    Working { id: usize, name: CompactString, columns: Arc<[CompactString]> },
    /// The rows of an input that depends on no row outside, computed once and found by keys. Fails
    /// when computing them looks at more rows than `looked_at_max`.
    Keyed { id: KeyedId, input: Arc<Node>, width: usize, keys: Arc<[KeyColumn]>, looked_at_max: u64 },
    /// Two ways to the same rows: `by_key`, which has a `Keyed` in it, once `plain` has looked at
    /// more rows than `after` in all its runs.
    Switch { after: u64, plain: Box<Node>, by_key: Box<Node> },
    /// Two ways to the same rows: `few`, which reads what `kept` (a `Keyed` without keys) gives, if
    /// that is at most `few_max` rows, and `many` if it is more.
    Choice { few_max: usize, kept: Box<Node>, few: Box<Node>, many: Box<Node> },
    /// The first `top` rows in an order, and those behind them: read `in_order`, or `sorted` if that
    /// has looked at more rows than `after` before it has found `top`.
    FirstRows { after: u64, top: Expr, in_order: Box<Node>, sorted: Box<Node> },
    /// Two joins of the same outer rows, read through a `Rest`: `few` gets the first `after` of them,
    /// `many` those that are left, if there are more. The planner `expects_more` or does not.
    AdaptiveJoin { rest: RestId, after: u64, expects_more: bool, outer: Arc<Node>, few: Box<Node>, many: Box<Node> },
    /// The rows of the outer side of the adaptive join around that have not been joined; `rows` is
    /// about how many the outer side gives.
    Rest { id: RestId, outer: Arc<Node>, rows: f64 },
    /// Locks the rows of tables that the input's rows come from, and gives the rows on.
    LockRows { input: Box<Node>, targets: Arc<[LockTarget]>, mode: RowLock, if_locked: IfRowLocked },
    /// `INSERT`
    Insert(Arc<Insert>),
    /// `UPDATE`
    Update(Arc<Update>),
    /// `DELETE`
    Delete(Arc<Delete>),
    /// `MERGE`
    Merge(Arc<Merge>),
    /// A statement of which several parts write: the rows of `main`. The others, each a `Shared`
    /// that may be read, run to their ends. All read what there was before the statement.
    Parts { main: Box<Node>, parts: Vec<Node> },
}

/// A column that kept rows are found by, and the value that it is to be equal to.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    pub column: usize,
    /// Over slots.
    pub value: Expr,
    /// NULL is a value as any other, as `IS NOT DISTINCT FROM` has it.
    pub with_nulls: bool,
}

/// Numbers rows that are kept by keys, never used twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyedId(u64);

impl KeyedId {
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A column of each side of a merge join: they are to be equal, and both sides are ordered by them
/// in this way.
#[derive(Debug, Clone, Copy)]
pub struct MergeKey {
    pub left: usize,
    pub right: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Numbers outer sides of adaptive joins, never used twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RestId(u64);

impl RestId {
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Functions that make rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// `generate_series(start, stop [, step])` of integers (bigint or integer).
    Ints,
    /// Of numerics.
    Numerics,
    /// Of timestamps (with an interval as step).
    Timestamps,
    /// Of timestamps with time zone.
    TimestampTzs,
    /// `unnest(array)`: its values.
    Unnest,
    /// `generate_subscripts(array, dimension [, reverse])`
    Subscripts,
    /// `information_schema._pg_expandarray(array)`: its values and their places, from 1.
    Expanded,
    /// One row: the value of the argument, whatever it is.
    One,
    /// `regexp_matches(text, pattern [, flags])`: an array for each match.
    Matches,
    /// `regexp_split_to_table(text, pattern [, flags])`
    Split,
    /// `string_to_table(text, separator [, null])`
    Pieces,
    /// A function of JSON.
    Json(JsonRows),
    /// Functions of full text search that give rows.
    Search(SearchRows),
    /// A function that a user has defined: the rows of the call that is the argument, which gives
    /// all of them in an array.
    Routine,
}

/// How rows of a table are found.
#[derive(Debug, Clone)]
pub struct Scan {
    pub table: Arc<Table>,
    /// What a row consists of: places of the table's columns; `table.columns.len()` is the row's
    /// hidden number, where the table has no primary key.
    pub columns: Vec<usize>,
    pub access: Access,
    pub direction: Direction,
    /// Over the row. Without subqueries and session functions.
    pub filter: Option<Expr>,
    /// The table's columns that the transaction comes to depend on.
    pub depends: ColumnSet,
    /// About how many rows it gives, for explaining.
    pub rows: f64,
}

/// The way to a table's rows.
#[derive(Debug, Clone)]
pub enum Access {
    /// By primary key, or all of it without ranges.
    Key { ranges: KeyRanges },
    /// By an index. `covering`: everything asked for is in the index' key, so that the row is not
    /// looked up.
    Index { index: Arc<Index>, ranges: KeyRanges, covering: bool },
    /// By the keys that any of several ways finds, or all of them; none of these gathers keys itself.
    /// The rows are looked up in the order of their keys, and may be more than those that fulfil the
    /// conditions.
    Gathered { parts: Vec<Access>, by_all: bool },
    /// By the tokens that values have for which all of some conditions are true, and maybe others.
    /// It is always a part of what is gathered.
    Inverted { index: Arc<Index>, conditions: Vec<TokenCondition> },
}

/// A condition that an inverted index answers: `column operator operand`.
#[derive(Debug, Clone)]
pub struct TokenCondition {
    /// The column's place in the index.
    pub place: usize,
    pub operator: &'static str,
    /// A NULL finds nothing.
    pub operand: Expr,
    /// The operand is an array, and the condition is to hold for some or all of its values.
    pub each: Option<Each>,
}

/// How many of an array's values a condition is to hold for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    Any,
    All,
}

impl Access {
    /// Where it looks first: where keys are gathered, in the end, in the table.
    pub fn space(&self, table: &Table) -> Space {
        match self {
            Self::Key { .. } | Self::Gathered { .. } => table.space(),
            Self::Index { index, .. } | Self::Inverted { index, .. } => index.space(),
        }
    }

    /// Whether columns of its key may have any value: its ranges are found one by one.
    pub fn skips(&self) -> bool {
        matches!(self, Self::Key { ranges } | Self::Index { ranges, .. } if ranges.skipped > 0)
    }

    /// Its ranges; where keys are gathered, those of all parts.
    pub fn ranges(&self) -> impl Iterator<Item = &KeyRanges> {
        let (one, parts): (_, &[Self]) = match self {
            Self::Key { ranges } | Self::Index { ranges, .. } => (Some(ranges), &[]),
            Self::Gathered { parts, .. } => (None, parts),
            Self::Inverted { .. } => (None, &[]),
        };
        one.into_iter().chain(parts.iter().filter_map(|part| match part {
            Self::Key { ranges } | Self::Index { ranges, .. } => Some(ranges),
            Self::Gathered { .. } | Self::Inverted { .. } => None,
        }))
    }

    /// Calls something for each value that it goes by.
    pub fn for_each_value<'r>(&'r self, visit: &mut dyn FnMut(&'r Expr)) {
        match self {
            Self::Key { ranges } | Self::Index { ranges, .. } => ranges.for_each_value(visit),
            Self::Gathered { parts, .. } => parts.iter().for_each(|part| part.for_each_value(visit)),
            Self::Inverted { conditions, .. } => conditions.iter().for_each(|condition| visit(&condition.operand)),
        }
    }
}

/// Ranges of keys: those that have given values in the first columns and lie between bounds in the
/// next one. Or, with alternatives, those that lie in the ranges of one of these; nothing else is
/// said then.
#[derive(Debug, Clone, Default)]
pub struct KeyRanges {
    /// How many of the key's first columns may have any value: what is said here is said of those
    /// behind them. See `exec`'s `skip_scan`.
    pub skipped: usize,
    /// Values of the first columns, cast to the columns' types. A NULL value finds nothing, except
    /// for [`KeyPart::Null`].
    pub prefix: Vec<KeyPart>,
    /// The column behind the prefix is a text that begins with what all that matches a pattern
    /// begins with. There are no bounds then. A NULL finds nothing.
    pub starts: Option<(PatternKind, Expr)>,
    /// In the sense of the column's values, whichever way the index orders them. NULL finds
    /// nothing.
    pub low: Option<(Expr, Inclusive)>,
    pub high: Option<(Expr, Inclusive)>,
    /// The column behind the prefix, of an index, is not NULL; nothing else is said of it.
    pub not_null: bool,
    /// For `(a = 1 AND b = 2) OR (a = 3 AND b > 4)`. They may overlap, and have no alternatives of
    /// their own.
    pub alternatives: Vec<KeyRanges>,
}

impl KeyRanges {
    /// Whether all keys are meant.
    pub fn is_everything(&self) -> bool {
        self.prefix.is_empty() && self.is_unbounded() && self.alternatives.is_empty()
    }

    /// Whether nothing is said of the column behind the prefix.
    pub fn is_unbounded(&self) -> bool {
        self.starts.is_none() && self.low.is_none() && self.high.is_none() && !self.not_null
    }

    /// Calls something for each value that keys are compared with.
    pub fn for_each_value<'r>(&'r self, visit: &mut dyn FnMut(&'r Expr)) {
        self.prefix.iter().for_each(|part| part.for_each_value(visit));
        self.starts.iter().for_each(|(_, pattern)| visit(pattern));
        self.low.iter().chain(&self.high).for_each(|(value, _)| visit(value));
        self.alternatives.iter().for_each(|ranges| ranges.for_each_value(visit));
    }

    /// The same, to change them.
    pub fn for_each_value_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        for part in &mut self.prefix {
            match part {
                KeyPart::Eq(value) | KeyPart::AnyOf(value) => visit(value),
                KeyPart::In(values) => values.iter_mut().for_each(&mut *visit),
                KeyPart::Null => {}
            }
        }
        self.starts.iter_mut().for_each(|(_, pattern)| visit(pattern));
        self.low.iter_mut().chain(&mut self.high).for_each(|(value, _)| visit(value));
        self.alternatives.iter_mut().for_each(|ranges| ranges.for_each_value_mut(visit));
    }
}

/// Whether a bound itself belongs to the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inclusive(pub bool);

/// How rows of a system table are looked up.
#[derive(Debug, Clone)]
pub struct SystemLookup {
    /// By which of the table's keys.
    pub key: usize,
    /// Which values it is to have.
    pub values: SystemValues,
    /// Which values the key's second column is to have, if that is known. Never [`KeyPart::Null`].
    pub second: Option<KeyPart>,
    /// About how many rows are found.
    pub rows: f64,
}

/// Values of a system table's key: expressions over no row.
#[derive(Debug, Clone)]
pub enum SystemValues {
    /// These. Never [`KeyPart::Null`].
    Are(KeyPart),
    /// Texts that begin with what all that matches a pattern begins with.
    Start(PatternKind, Expr),
}

impl SystemLookup {
    /// Calls `visit` with each expression.
    pub fn for_each_value<'r>(&'r self, visit: &mut dyn FnMut(&'r Expr)) {
        match &self.values {
            SystemValues::Are(values) => values.for_each_value(visit),
            SystemValues::Start(_, pattern) => visit(pattern),
        }
        self.second.iter().for_each(|values| values.for_each_value(visit));
    }
}

/// What a column of a key is to be.
#[derive(Debug, Clone)]
pub enum KeyPart {
    /// Equal to a value.
    Eq(Expr),
    /// Equal to one of these: the ranges are sorted, and each is visited once.
    In(Vec<Expr>),
    /// Equal to one of an array's values, in the same way.
    AnyOf(Expr),
    /// NULL.
    Null,
}

impl KeyPart {
    /// Calls `visit` with each value.
    pub fn for_each_value<'r>(&'r self, visit: &mut dyn FnMut(&'r Expr)) {
        match self {
            Self::Eq(value) | Self::AnyOf(value) => visit(value),
            Self::In(values) => values.iter().for_each(visit),
            Self::Null => {}
        }
    }
}

/// Which rows a join gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    /// Only of hash joins. Chosen by no rule yet: LEFT with its sides exchanged always does.
    Right,
    /// Only of hash joins.
    Full,
    /// Left rows that have a partner; only their columns.
    Semi,
    /// Left rows that have none; only their columns.
    Anti,
}

/// A call of an aggregate, over the row that it is computed on.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    pub aggregate: &'static Aggregate,
    pub args: Vec<Expr>,
    pub distinct: bool,
    pub filter: Option<Expr>,
    /// Order of the input within the aggregate: `string_agg(x, ',' ORDER BY y)`.
    pub order: Vec<SortKey>,
}

/// Groups of a table's rows by the first columns of a key: gives these columns, then the calls.
#[derive(Debug)]
pub struct GroupScan {
    pub table: Arc<Table>,
    /// `None`: the primary key.
    pub index: Option<Arc<Index>>,
    /// How many columns of the key groups have in common.
    pub columns: usize,
    pub calls: Vec<KeyCall>,
}

/// What is asked of a group. The column is the one behind those that groups have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCall {
    /// How many rows there are.
    Rows,
    /// How many have a value in the column.
    NotNull,
    /// The least value of the column, or NULL.
    Least,
    /// The greatest value of the column, or NULL.
    Greatest,
}

impl GroupScan {
    /// The columns of the key, as places in the table, and whether each is descending.
    pub(crate) fn key(&self) -> Vec<(usize, bool)> {
        match &self.index {
            Some(index) => index.columns.iter().map(|part| (part.column, part.descending)).collect(),
            None => self.table.key_columns().iter().map(|&column| (column, false)).collect(),
        }
    }

    /// The columns of the key that are read: those of groups and, if there is one, the one behind.
    pub fn read_columns(&self) -> Vec<usize> {
        let needs_next = self.calls.iter().any(|call| matches!(call, KeyCall::Least | KeyCall::Greatest));
        let count = self.columns + usize::from(needs_next);
        self.key().into_iter().take(count).map(|(column, _)| column).collect()
    }

    /// Whether the column behind those of groups is descending in the key.
    pub fn is_descending(&self) -> bool {
        self.key().get(self.columns).is_some_and(|(_, descending)| *descending)
    }

    /// The name of a column, or of what a call gives.
    pub fn name(&self, place: usize) -> String {
        let key = self.key();
        let of_column = |at: usize| key.get(at).map_or("", |(column, _)| self.table.columns[*column].name.as_str());
        let next = of_column(self.columns);
        match place.checked_sub(self.columns).and_then(|call| self.calls.get(call)) {
            None => format!("{}.{}", self.table.name, of_column(place)),
            Some(KeyCall::Rows) => "count(*)".to_owned(),
            Some(KeyCall::NotNull) => format!("count({next})"),
            Some(KeyCall::Least) => format!("min({next})"),
            Some(KeyCall::Greatest) => format!("max({next})"),
        }
    }
}

/// What rows are ordered by.
#[derive(Debug, Clone)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Set operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOp {
    Intersect,
    Except,
}

/// A table whose rows are locked.
#[derive(Debug)]
pub struct LockTarget {
    pub table: Arc<Table>,
    /// Where the columns of its key are in the input's row; for a table without primary key, its
    /// hidden number.
    pub key: Vec<usize>,
    /// Of a partition: the column that says which one a row is of, and the number of this one.
    pub only: Option<(usize, ObjectId)>,
}

/// How strongly `SELECT … FOR` locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    Update,
    NoKeyUpdate,
    Share,
    KeyShare,
}

impl RowLock {
    /// As SQL writes it.
    pub fn clause(self) -> &'static str {
        match self {
            Self::Update => "FOR UPDATE",
            Self::NoKeyUpdate => "FOR NO KEY UPDATE",
            Self::Share => "FOR SHARE",
            Self::KeyShare => "FOR KEY SHARE",
        }
    }
}

/// What to do with rows that others have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfRowLocked {
    Wait,
    NoWait,
    Skip,
}

/// `INSERT`
#[derive(Debug)]
pub struct Insert {
    pub table: Arc<Table>,
    /// Gives a row of all the table's columns in order, defaults filled in and cast.
    pub source: Node,
    pub on_conflict: Option<OnConflict>,
    /// Over the new row (all the table's columns).
    pub returning: Option<Vec<Expr>>,
    pub rules: Arc<TableRules>,
    /// What row-level security demands.
    pub security: RowChecks,
    /// Of a partitioned table.
    pub tree: Option<TreeChange<Insert>>,
}

/// What is done to the rows of a partitioned table: for each leaf, as if the statement was about it
/// alone. These have no sources: the rows are those of the whole statement's source.
#[derive(Debug)]
pub struct TreeChange<T> {
    pub tree: Arc<Tree>,
    pub leaves: Vec<Arc<T>>,
}

/// `ON CONFLICT`
#[derive(Debug)]
pub struct OnConflict {
    /// Whose violation is meant. Empty: any.
    pub arbiters: Vec<Arbiter>,
    pub action: ConflictAction,
}

/// A unique constraint that ON CONFLICT speaks of.
#[derive(Debug, Clone)]
pub enum Arbiter {
    /// The primary key.
    Key,
    /// A unique index.
    Index(Arc<Index>),
}

/// What ON CONFLICT does.
#[derive(Debug)]
pub enum ConflictAction {
    Nothing,
    /// Assignments and condition are over the existing row followed by the proposed one.
    Update {
        assignments: Vec<Assignment>,
        condition: Option<Expr>,
    },
}

/// `column = expression`, cast to the column's type.
#[derive(Debug)]
pub struct Assignment {
    pub column: usize,
    pub value: AssignedValue,
}

/// What a column is set to.
#[derive(Debug)]
pub enum AssignedValue {
    /// Computed from the source row.
    Expr(Expr),
    /// Computed from the table's row as it will be.
    Generated(Expr),
    /// `c = c + x`: added to whatever the column is at commit (see [`colibri_txn::Patch`]). `x`,
    /// cast to the column's type, is over the source row and does not depend on the column;
    /// `function` is the `+` of the column's type (`subtract` for `c - x`). Chosen only where
    /// nothing else depends on the column: no index, check, foreign key, RETURNING, and no other
    /// read of it in the statement.
    Add { amount: Expr, function: &'static colibri_types::functions::Function },
}

/// `UPDATE`
#[derive(Debug)]
pub struct Update {
    pub table: Arc<Table>,
    /// Gives rows of all the table's columns (those that nothing needs are NULL), its hidden number
    /// if it has no primary key, then whatever else the FROM clause brings, then what was evaluated
    /// ahead.
    pub source: Node,
    /// Over the source's row. Without queries.
    pub assignments: Vec<Assignment>,
    /// Over the source's row with the new values in place of the old. Without queries.
    pub returning: Option<Vec<Expr>>,
    pub rules: Arc<TableRules>,
    /// What row-level security demands.
    pub security: RowChecks,
    /// Of a partitioned table. Its rows are those of the tree, all columns of which are there.
    pub tree: Option<TreeChange<Update>>,
}

/// `DELETE`
#[derive(Debug)]
pub struct Delete {
    pub table: Arc<Table>,
    /// As for [`Update`].
    pub source: Node,
    /// Over the source's row.
    pub returning: Option<Vec<Expr>>,
    pub rules: Arc<TableRules>,
    /// As for [`Update`].
    pub tree: Option<TreeChange<Delete>>,
}

/// `MERGE`. It stands below a [`Node::Parts`], so that what it evaluates sees what there was before.
#[derive(Debug)]
pub struct Merge {
    pub table: Arc<Table>,
    /// As for [`Update`], whose row is joined with one of what is merged into the table: all of its
    /// columns are NULL where there is none to be joined with.
    pub source: Node,
    /// The first of these that is right for a row is done.
    pub actions: Vec<MergeAction>,
    pub rules: Arc<TableRules>,
}

/// `WHEN [NOT] MATCHED …`; expressions are over the source's row.
#[derive(Debug)]
pub struct MergeAction {
    pub is_matched: bool,
    pub condition: Option<Expr>,
    pub what: MergeWhat,
    /// What row-level security demands, over a row of the table's columns.
    pub security: RowChecks,
}

/// What MERGE does with a row.
#[derive(Debug)]
pub enum MergeWhat {
    Nothing,
    Delete,
    Update(Vec<Assignment>),
    /// For each of the table's columns, what it gets.
    Insert(Vec<Expr>),
}

impl Merge {
    /// Calls `visit` with each of its expressions.
    pub fn for_each_expr<'m>(&'m self, visit: &mut dyn FnMut(&'m Expr)) {
        for MergeAction { condition, what, security, .. } in &self.actions {
            condition.iter().for_each(&mut *visit);
            security.exprs().for_each(&mut *visit);
            match what {
                MergeWhat::Nothing | MergeWhat::Delete => {}
                MergeWhat::Update(assignments) => walk::of_assignments(assignments, visit),
                MergeWhat::Insert(values) => values.iter().for_each(&mut *visit),
            }
        }
    }
}

/// The triggers of a table.
#[derive(Debug)]
pub struct Triggers {
    /// The rows that they see.
    pub shape: Arc<colibri_types::RowType>,
    /// The table's columns that these rows are made of.
    pub live: Vec<usize>,
    /// The triggers, in the order in which they fire.
    pub list: Vec<TriggerRule>,
}

/// A trigger.
#[derive(Debug)]
pub struct TriggerRule {
    /// What it is.
    pub trigger: Arc<colibri_catalog::Trigger>,
    /// Its function.
    pub routine: Arc<colibri_catalog::Routine>,
    /// The condition of WHEN: over the row before, and behind it the row after.
    pub when: Option<Expr>,
}

impl TableRules {
    /// Whether a trigger may fire in front of a row that is changed like this.
    #[must_use]
    pub fn has_before_row(&self, event: u8) -> bool {
        use colibri_catalog::TriggerTime;
        self.triggers.as_ref().is_some_and(|triggers| {
            triggers.list.iter().any(|rule| {
                rule.trigger.row && rule.trigger.timing == TriggerTime::Before && rule.trigger.events & event != 0
            })
        })
    }
}

/// What writing to a table has to obey, bound once per version of the catalogue.
#[derive(Debug)]
pub struct TableRules {
    /// Of a partition: for each table above, what divides its rows, over a row of all the table's
    /// columns, and the child that the table's rows go to.
    pub partition: Vec<(Arc<Router>, usize)>,
    /// Name and condition over a row of all the table's columns. False is a violation, NULL is not.
    pub checks: Vec<(CompactString, Expr)>,
    /// From which one of them on they are the conditions of views WITH CHECK OPTION, with the views'
    /// names.
    pub of_views: usize,
    /// The columns that stand for expressions of indexes, with these, over a row of all the table's
    /// columns.
    pub expressions: Arc<[(usize, Expr)]>,
    /// Columns of domains that demand something, with what.
    pub domains: Vec<(usize, Arc<crate::expr::DomainRules>)>,
    /// The columns whose values are computed of others, with how, over such a row.
    pub generated: Arc<[(usize, Expr)]>,
    /// Rows this table refers to.
    pub foreign_keys: Vec<ForeignKeyRule>,
    /// Tables that refer to rows of this one.
    pub referenced_by: Vec<ReferenceRule>,
    /// It is a view, whose triggers do what a statement says.
    pub is_view: bool,
    /// The triggers that may fire.
    pub triggers: Option<Arc<Triggers>>,
    /// Rules of other tables, which this one's references lead to: kept here, found from there
    /// weakly, since tables may refer to each other in circles.
    pub others: std::sync::OnceLock<Vec<Arc<TableRules>>>,
}

impl TableRules {
    /// The columns whose values are computed of one of some columns, with how.
    pub fn generated_of<'r>(&'r self, columns: &'r [usize]) -> impl Iterator<Item = &'r (usize, Expr)> {
        let is_of = |part: &Expr| matches!(part, Expr::Column(column) if columns.contains(column));
        self.generated.iter().filter(move |(_, expr)| crate::expr::walk::any(expr, &is_of))
    }

    /// The columns of rows that an index' entries are made of.
    #[must_use]
    pub fn columns_of(&self, index: &Index) -> Vec<usize> {
        columns_of_index(index, &self.expressions)
    }
}

/// The columns of rows that an index' entries are made of, given what the table's columns stand for.
#[must_use]
pub fn columns_of_index(index: &Index, expressions: &[(usize, Expr)]) -> Vec<usize> {
    let mut columns = Vec::new();
    for column in index.columns.iter().map(|part| part.column).chain(index.predicate) {
        match expressions.iter().find(|(place, _)| *place == column) {
            Some((_, expression)) => for_each_column(expression, &mut |column| columns.push(column)),
            None => columns.push(column),
        }
    }
    columns
}

/// A foreign key, from the side of the referring table.
#[derive(Debug)]
pub struct ForeignKeyRule {
    pub id: ObjectId,
    pub name: CompactString,
    pub timing: Timing,
    /// The referring columns.
    pub columns: Vec<usize>,
    /// MATCH FULL: values that are NULL in part are a violation.
    pub match_full: bool,
    pub target: Arc<Table>,
    /// Where they are unique, and for each column of that key which of `columns` it is compared
    /// with.
    pub target_key: Arbiter,
    pub key_order: Vec<usize>,
    /// The tables that have the rows of a partitioned target.
    pub tree: Option<ReferredTree>,
}

/// A partitioned table that a foreign key refers to.
#[derive(Debug)]
pub struct ReferredTree {
    pub tree: Arc<Tree>,
    /// Where the columns are unique in each leaf, and for each column of that key which of the
    /// referring columns it is compared with.
    pub keys: Vec<(Arbiter, Vec<usize>)>,
}

/// A foreign key, from the side of the table referred to.
#[derive(Debug)]
pub struct ReferenceRule {
    pub id: ObjectId,
    pub name: CompactString,
    pub timing: Timing,
    /// This table's columns.
    pub columns: Vec<usize>,
    pub source: Arc<Table>,
    /// The referring columns, in the same order.
    pub source_columns: Vec<usize>,
    /// The best way to find referring rows: ranges of the referring table's key or index whose
    /// prefix are slots 0, 1, … (in the order of `columns`), and a filter over its row (all its
    /// columns) for what the access leaves open.
    pub lookup: Access,
    pub filter: Option<Expr>,
    pub on_delete: ReferenceAction,
    pub on_update: ReferenceAction,
    /// Which of the referring columns `on_delete` sets; none says all of them.
    pub delete_columns: Vec<usize>,
    /// Defaults of the referring columns, for SET DEFAULT.
    pub defaults: Vec<Expr>,
    /// The referring table's own rules, for rows that an action changes; see
    /// [`TableRules::others`].
    pub source_rules: std::sync::OnceLock<std::sync::Weak<TableRules>>,
}
