//! Running plans.
//!
//! Operators are state machines that give batches of rows. A call of [`Execution::step`] goes on until it has a batch, has
//! used up its budget, or is done; between two calls nothing is borrowed, so a long statement can be put aside and gone
//! on with on another thread. Tables are read a batch at a time, each batch from the place where the last one ended.
//!
//! What an operator keeps it reserves ([`memory`]), and what is more than it may keep it puts on
//! disk ([`spill`]).
//!
//! The plan is a tree of [`Node`]s that never changes; beside it grows a tree of [`Run`]s, one for each node, with what the
//! operators have to remember. A run is handed its node whenever it is to go on.
//!
//! Invariants: a step that fails leaves nothing to go on with: the caller takes the statement back. Nothing here waits:
//! what has to wait is an error that says so (see [`colibri_types::Error`]), and the statement runs
//! again from the start. An operator that says [`Step::Rows`] has put at least one row into the
//! batch, and not more than are wanted ([`Batch::rows_max`]); one that says [`Step::Yield`] has
//! lost none. Queries inside expressions cannot be put aside; they, and expressions that take long,
//! poll: see [`colibri_types::pulse`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use colibri_catalog::{Sequence, Table};
use colibri_txn::Transaction;
use colibri_types::{Datum, Env, Error, Result, SqlState, pulse};

use crate::explain::{Actual, Usage, Watched};
use crate::plan::{Fragment, KeyedId, Node};

mod aggregate;
mod batch;
mod choice;
pub(crate) mod constraints;
mod delete;
mod eval;
mod gather;
mod group;
mod hash_join;
mod insert;
mod join;
mod key_set;
mod keyed;
mod lock_rows;
mod memory;
pub(crate) mod merge_sort;
mod needs;
mod operator_cache;
mod pass_through;
mod point;
mod ranges;
mod recursive;
#[cfg(test)]
mod rewind_tests;
mod row_patch;
mod row_store;
mod row_table;
mod scan;
mod seen_keys;
mod series;
mod set_op;
mod sort;
mod sorter;
mod spill;
#[cfg(test)]
mod spill_tests;
mod subquery;
mod switch;
#[cfg(test)]
mod test_bed;
#[cfg(test)]
mod tests;
mod update;
mod with_queries;
mod writing;

pub(crate) use batch::{Batch, LEFTOVER_CELLS_MAX, trim_leftover};
pub(crate) use constraints::validate::{check_table, with_exec};
pub(crate) use eval::Scope;
pub(crate) use insert::RowWriter;
pub(crate) use memory::{EngineMemory, MemoryLimits, SessionMemory};
pub use memory::{MemoryTotal, TempFileCounts};
pub(crate) use needs::expressions_deep;
pub(crate) use point::Point;
pub(crate) use scan::Reader;
pub(crate) use spill::KeptRows;
pub(crate) use update::UpdateWay;

/// What the session does for expressions.
pub(crate) trait SessionCalls {
    /// The next value of a sequence.
    fn next_value(&mut self, sequence: &Sequence) -> Result<i64>;

    /// A session function by name.
    fn call(&mut self, txn: &mut dyn Transaction, name: &str, args: &[Datum]) -> Result<Datum>;

    /// A number for a row of a table without a primary key: larger than all given before.
    fn next_row_number(&mut self, txn: &mut dyn Transaction, table: &Table) -> Result<i64>;
}

/// What a statement runs in, besides its transaction.
pub(crate) struct Context<'a> {
    pub(crate) env: &'a Env,
    pub(crate) params: &'a [Datum],
    pub(crate) session: &'a mut dyn SessionCalls,
    /// Set by others to end the statement (57014).
    pub(crate) cancel: &'a AtomicBool,
    /// What operators reserve memory from, and spill beyond.
    pub(crate) memory: &'a Arc<SessionMemory>,
    /// Rows that this step may still look at; at 0 or below the step ends with [`Step::Yield`] at the next batch. A step
    /// that begins with more than 0 gets on. Cancelling is looked for at least once a batch.
    pub(crate) budget_rows: i64,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// With rows in the batch; there may be more.
    Rows,
    /// The budget is used up, with no rows; there is more to do.
    Yield,
    /// There are no more rows, nor are there any in the batch.
    Done,
}

/// What operators work in: handed down from step to step, never kept.
pub(crate) struct Exec<'e, 'c> {
    pub(crate) txn: &'e mut dyn Transaction,
    pub(crate) cx: &'e mut Context<'c>,
    /// The fragment's slots: values from outer rows.
    pub(crate) slots: &'e mut [Datum],
    pub(crate) statement: &'e mut Statement,
    /// Long lists of constants (`x IN (…)`), sorted, by place in the plan.
    lists: &'e RefCell<eval::Lists>,
}

/// What the fragments of a running statement share.
#[derive(Default)]
pub(crate) struct Statement {
    /// What WITH queries gave, by number.
    shared: Vec<Option<Box<with_queries::Kept>>>,
    /// Rows of the last round of queries that refer to themselves, by number, while such a query
    /// makes the next ones.
    working: Vec<Option<KeptRows>>,
    /// What queries inside expressions gave, by number.
    subqueries: Vec<Option<Box<subquery::Memo>>>,
    /// Rows that are kept by keys.
    keyed: Vec<(KeyedId, Box<keyed::Kept>)>,
    /// What each operator did, by place in the plan, if somebody asked.
    actuals: Option<HashMap<usize, Actual>>,
    /// Rows that are only added to are taken exclusively nevertheless: the transaction is likely to read them.
    adds_alone: bool,
}

impl Exec<'_, '_> {
    /// What expressions are evaluated in: everything, queries and session functions included.
    #[inline]
    pub(crate) fn scope(&mut self) -> Scope<'_> {
        Scope::full(self.txn, self.cx, self.slots, self.statement, self.lists)
    }

    /// Fails if the statement was cancelled.
    #[inline]
    pub(crate) fn check_cancel(&self) -> Result<()> {
        if self.cx.cancel.load(Ordering::Relaxed) { Err(canceled()) } else { Ok(()) }
    }

    /// Whether the budget is used up.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.cx.budget_rows <= 0
    }

    /// Takes rows off the budget.
    #[inline]
    pub(crate) fn spend(&mut self, rows: usize) {
        self.cx.budget_rows -= rows as i64;
    }

    /// Where a step cannot end: counts the rows that were looked at as work, and gives a new budget.
    pub(crate) fn refill(&mut self) -> Result<()> {
        pulse::rows_done(pulse::ROWS_AT_ONCE - self.cx.budget_rows)?;
        self.cx.budget_rows = pulse::ROWS_AT_ONCE;
        Ok(())
    }
}

#[cold]
fn canceled() -> Error {
    Error::new(SqlState::CANCELED, "canceling statement due to user request")
}

/// Bytes that a value takes when it is kept.
#[inline]
pub(crate) fn datum_bytes(value: &Datum) -> usize {
    let heap = match value {
        Datum::Text(text) if text.is_heap_allocated() => text.capacity(),
        Datum::Bytes(bytes) => bytes.len(),
        Datum::Array(array) => 64 + row_bytes(array.values()),
        Datum::Numeric(_) => 16,
        _ => 0,
    };
    size_of::<Datum>() + heap
}

/// Bytes that a row takes when it is kept.
#[inline]
fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(datum_bytes).sum()
}

/// An operator at work.
///
/// The seam between operators: whoever has an input keeps a `Run` for it (made by [`Run::new`] from the input's node)
/// and a [`Batch`] that [`Run::step`] fills. On [`Step::Yield`] from an input, an operator keeps its state and returns
/// `Step::Yield` itself.
pub(crate) enum Run {
    Values(series::ValuesRun),
    Series(series::SeriesRun),
    System(series::SystemRun),
    Expand(Box<series::ExpandRun>),
    RowNumber(Box<series::RowNumberRun>),
    Scan(Box<scan::ScanRun>),
    CountRange(scan::CountRun),
    Filter(Box<pass_through::FilterRun>),
    Project(Box<pass_through::ProjectRun>),
    NestedLoop(Box<join::NestedLoopRun>),
    HashJoin(Box<hash_join::HashJoinRun>),
    Aggregate(Box<aggregate::AggregateRun>),
    Distinct(Box<set_op::DistinctRun>),
    Sort(Box<sort::SortRun>),
    Limit(Box<pass_through::LimitRun>),
    Append(Box<pass_through::AppendRun>),
    SetOp(Box<set_op::SetOpRun>),
    Shared(with_queries::SharedRun),
    Recursive(Box<recursive::RecursiveRun>),
    Working(recursive::WorkingRun),
    Keyed(keyed::KeyedRun),
    Switch(Box<switch::SwitchRun>),
    Choice(Box<choice::ChoiceRun>),
    LockRows(Box<lock_rows::LockRowsRun>),
    Insert(Box<insert::InsertRun>),
    Update(Box<update::UpdateRun>),
    Delete(Box<delete::DeleteRun>),
}

impl Run {
    /// For a node, at its start.
    pub(crate) fn new(node: &Node) -> Self {
        match node {
            Node::Values { .. } => Self::Values(series::ValuesRun::default()),
            Node::Series { .. } => Self::Series(series::SeriesRun::default()),
            Node::System { .. } => Self::System(series::SystemRun::default()),
            Node::Expand { input, .. } => Self::Expand(Box::new(series::ExpandRun::new(input))),
            Node::RowNumber { input, .. } => Self::RowNumber(Box::new(series::RowNumberRun::new(input))),
            Node::Scan(_) => Self::Scan(Box::new(scan::ScanRun::new())),
            Node::CountRange { .. } => Self::CountRange(scan::CountRun::default()),
            Node::Filter { input, condition } => Self::Filter(Box::new(pass_through::FilterRun::new(input, condition))),
            Node::Project { input, exprs } => Self::Project(Box::new(pass_through::ProjectRun::new(input, exprs))),
            Node::NestedLoop { outer, inner, .. } => Self::NestedLoop(Box::new(join::NestedLoopRun::new(outer, inner))),
            Node::HashJoin { left, right, .. } => Self::HashJoin(Box::new(hash_join::HashJoinRun::new(left, right))),
            Node::Aggregate { input, calls, .. } => {
                Self::Aggregate(Box::new(aggregate::AggregateRun::new(input, calls)))
            }
            Node::Distinct { input, sorted, .. } => Self::Distinct(Box::new(set_op::DistinctRun::new(input, *sorted))),
            Node::Sort { input, .. } => Self::Sort(Box::new(sort::SortRun::new(input))),
            Node::Limit { input, .. } => Self::Limit(Box::new(pass_through::LimitRun::new(input))),
            Node::Append { inputs } => Self::Append(Box::new(pass_through::AppendRun::new(inputs))),
            Node::SetOp { left, right, .. } => Self::SetOp(Box::new(set_op::SetOpRun::new(left, right))),
            Node::Shared { .. } => Self::Shared(with_queries::SharedRun::default()),
            Node::Recursive { first, .. } => Self::Recursive(Box::new(recursive::RecursiveRun::new(first))),
            Node::Working { .. } => Self::Working(recursive::WorkingRun::default()),
            Node::Keyed { .. } => Self::Keyed(keyed::KeyedRun::default()),
            Node::Switch { plain, .. } => Self::Switch(Box::new(switch::SwitchRun::new(plain))),
            Node::Choice { .. } => Self::Choice(Box::default()),
            Node::LockRows { input, .. } => Self::LockRows(Box::new(lock_rows::LockRowsRun::new(input))),
            Node::Insert(insert) => Self::Insert(Box::new(insert::InsertRun::new(insert))),
            Node::Update(update) => Self::Update(Box::new(update::UpdateRun::new(update))),
            Node::Delete(delete) => Self::Delete(Box::new(delete::DeleteRun::new(delete))),
        }
    }

    /// Goes on: fills `out` with new rows in place of those in it. `node` is the one that the run was made for.
    #[inline]
    pub(crate) fn step(&mut self, node: &Node, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.statement.actuals.is_some() {
            return self.step_counted(node, ex, out);
        }
        self.step_plain(node, ex, out)
    }

    #[cold]
    fn step_counted(&mut self, node: &Node, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let start = Instant::now();
        let step = self.step_plain(node, ex, out);
        let time = start.elapsed();
        if let Some(actuals) = &mut ex.statement.actuals {
            let actual = actuals.entry(place(node)).or_default();
            actual.loops = actual.loops.max(1);
            actual.time += time;
            if matches!(step, Ok(Step::Rows)) {
                actual.rows += out.rows() as u64;
            }
            if let Some(usage) = self.usage(&ex.statement.shared) {
                actual.usage = Some(usage.or_more(actual.usage));
            }
        }
        step
    }

    fn step_plain(&mut self, node: &Node, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        ex.check_cancel()?;
        out.reset(0);
        let step = match (self, node) {
            (Self::Values(run), Node::Values { rows }) => run.step(rows, ex, out),
            (Self::Series(run), Node::Series { series, args, numbered }) => run.step(*series, args, *numbered, ex, out),
            (Self::System(run), Node::System { table }) => run.step(table, ex, out),
            (Self::Expand(run), Node::Expand { input, calls }) => run.step(input, calls, ex, out),
            (Self::RowNumber(run), Node::RowNumber { input, partition }) => run.step(input, partition, ex, out),
            (Self::Scan(run), Node::Scan(scan)) => run.step(scan, ex, out),
            (Self::CountRange(run), Node::CountRange { table, access }) => run.step(table, access, ex, out),
            (Self::Filter(run), Node::Filter { input, condition }) => run.step(input, condition, ex, out),
            (Self::Project(run), Node::Project { input, exprs }) => run.step(input, exprs, ex, out),
            (Self::NestedLoop(run), Node::NestedLoop { .. }) => run.step(node, ex, out),
            (Self::HashJoin(run), Node::HashJoin { .. }) => run.step(node, ex, out),
            (Self::Aggregate(run), Node::Aggregate { input, keys, calls }) => run.step(input, keys, calls, ex, out),
            (Self::Distinct(run), Node::Distinct { input, columns, sorted }) => {
                run.step(input, *columns, *sorted, ex, out)
            }
            (Self::Sort(run), Node::Sort { input, keys, top }) => run.step(input, keys, top.as_ref(), ex, out),
            (Self::Limit(run), Node::Limit { input, limit, offset }) => {
                run.step(input, limit.as_ref(), offset.as_ref(), ex, out)
            }
            (Self::Append(run), Node::Append { inputs }) => run.step(inputs, ex, out),
            (Self::SetOp(run), Node::SetOp { op, all, left, right }) => run.step(*op, *all, left, right, ex, out),
            (Self::Shared(run), Node::Shared { id, input }) => run.step(*id, input, ex, out),
            (Self::Recursive(run), Node::Recursive { .. }) => run.step(node, ex, out),
            (Self::Working(run), Node::Working { id, .. }) => run.step(*id, ex, out),
            (Self::Keyed(run), Node::Keyed { .. }) => run.step(&keyed::parts(node)?, ex, out),
            (Self::Choice(run), Node::Choice { few_max, kept, few, many }) => {
                run.step(*few_max, kept, few, many, ex, out)
            }
            (Self::Switch(run), Node::Switch { plain, by_key, .. }) => run.step(plain, by_key, ex, out),
            (Self::LockRows(run), Node::LockRows { input, targets, mode, if_locked }) => {
                run.step(input, targets, *mode, *if_locked, ex, out)
            }
            (Self::Insert(run), Node::Insert(insert)) => run.step(insert, ex, out),
            (Self::Update(run), Node::Update(update)) => run.step(update, ex, out),
            (Self::Delete(run), Node::Delete(delete)) => run.step(delete, ex, out),
            _ => Err(Error::internal("an operator was given another one's node")),
        }?;
        debug_assert_eq!(step == Step::Rows, !out.is_empty());
        debug_assert!(out.rows() <= out.rows_max());
        Ok(step)
    }

    /// Back to its start, with the slots as they are then; what it kept is given back.
    pub(crate) fn rewind(&mut self, node: &Node, ex: &mut Exec<'_, '_>) {
        if let Some(actuals) = &mut ex.statement.actuals {
            actuals.entry(place(node)).or_default().loops += 1;
        }
        match (&mut *self, node) {
            (Self::Scan(run), _) => run.rewind(),
            (Self::Filter(run), Node::Filter { input, .. }) => run.rewind(input, ex),
            (Self::Project(run), Node::Project { input, .. }) => run.rewind(input, ex),
            (Self::NestedLoop(run), Node::NestedLoop { .. }) => run.rewind(node, ex),
            (Self::Limit(run), Node::Limit { input, .. }) => run.rewind(input, ex),
            (Self::Keyed(run), _) => run.rewind(),
            (Self::Choice(run), Node::Choice { few, many, .. }) => run.rewind(few, many, ex),
            (Self::Switch(run), Node::Switch { after, plain, by_key }) => run.rewind(*after, plain, by_key, ex),
            (Self::HashJoin(run), Node::HashJoin { left, right, .. }) => {
                if !run.rewind(node, ex) {
                    run.give_back(ex);
                    **run = run.anew(left, right);
                }
            }
            _ => {
                self.give_back(ex);
                *self = Self::new(node);
            }
        }
    }

    /// Nobody depends on the order in which it gives rows, beyond which of them it gives. To be
    /// called before it is run.
    pub(crate) fn forget_order(&mut self) {
        match self {
            Self::Filter(run) => run.input.forget_order(),
            Self::Project(run) => run.input.forget_order(),
            Self::NestedLoop(run) => run.forget_order(),
            Self::HashJoin(run) => run.forget_order(),
            Self::Append(run) => run.forget_order(),
            _ => {}
        }
    }

    /// What it keeps and has put on disk, of those that do.
    #[cold]
    fn usage(&self, shared: &[Option<Box<with_queries::Kept>>]) -> Option<Usage> {
        Some(match self {
            Self::HashJoin(run) => run.usage(),
            Self::Aggregate(run) => run.usage(),
            Self::Distinct(run) => run.usage(),
            Self::Sort(run) => run.usage(),
            Self::SetOp(run) => run.usage(),
            Self::Shared(run) => run.usage(shared),
            Self::Recursive(run) => run.usage(),
            _ => return None,
        })
    }

    /// Gives back the memory of what it and its inputs keep: it is not run any more.
    pub(crate) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        match self {
            Self::Values(_)
            | Self::Series(_)
            | Self::System(_)
            | Self::Scan(_)
            | Self::CountRange(_)
            | Self::Working(_)
            | Self::Keyed(_)
            | Self::Insert(_)
            | Self::Update(_)
            | Self::Delete(_) => {}
            Self::Filter(run) => run.input.give_back(ex),
            Self::Project(run) => run.input.give_back(ex),
            Self::Expand(run) => run.input.give_back(ex),
            Self::RowNumber(run) => run.input.give_back(ex),
            Self::NestedLoop(run) => run.give_back(ex),
            Self::HashJoin(run) => run.give_back(ex),
            Self::Aggregate(run) => run.give_back(ex),
            Self::Distinct(run) => run.give_back(ex),
            Self::Sort(run) => run.give_back(ex),
            Self::Limit(run) => run.input.give_back(ex),
            Self::Append(run) => run.give_back(ex),
            Self::SetOp(run) => run.give_back(ex),
            Self::Shared(run) => run.give_back(ex),
            Self::Recursive(run) => run.give_back(ex),
            Self::Switch(run) => run.give_back(ex),
            Self::Choice(run) => run.give_back(ex),
            Self::LockRows(run) => run.input.give_back(ex),
        }
    }
}

/// What an operator is found by in [`Statement::actuals`]: a plan does not move while it runs.
fn place(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

/// A plan at work. As a [`Run`] is handed its node, it is handed its plan whenever it is to go on: sessions share plans, and a
/// counted reference to one would be a word that all their threads write to.
pub(crate) enum Execution {
    /// One row by its key: nothing to remember but whether it was given.
    Point {
        done: bool,
    },
    Tree(Box<Tree>),
}

/// What operators remember from step to step.
pub(crate) struct Tree {
    run: Run,
    slots: Vec<Datum>,
    statement: Statement,
    lists: RefCell<eval::Lists>,
}

impl Tree {
    fn new(fragment: &Fragment, statement: Statement) -> Box<Self> {
        let slots = vec![Datum::Null; fragment.slots];
        Box::new(Self { run: Run::new(&fragment.root), slots, statement, lists: RefCell::default() })
    }

    /// As new, but for some memory; `false` if that cannot be.
    fn again(&mut self, fragment: &Fragment) -> bool {
        if self.statement.actuals.is_some() || !self.run.again(&fragment.root) {
            return false;
        }
        self.slots.fill(Datum::Null);
        self.statement = Statement::default();
        if !self.lists.get_mut().is_empty() {
            self.lists = RefCell::default();
        }
        true
    }
}

impl Execution {
    /// At the start of a plan. Its slots are NULL.
    pub(crate) fn new(fragment: &Fragment) -> Self {
        match fragment.point() {
            Some(_) => Self::Point { done: false },
            None => {
                let idle = operator_cache::take(fragment.id);
                Self::Tree(idle.unwrap_or_else(|| Tree::new(fragment, Statement::default())))
            }
        }
    }

    /// At the start of a plan whose operators are to be watched, for EXPLAIN ANALYZE.
    pub(crate) fn new_watched(fragment: &Fragment) -> Self {
        let statement = Statement { actuals: Some(HashMap::new()), ..Statement::default() };
        Self::Tree(Tree::new(fragment, statement))
    }

    /// Leaves what can be used again to the next run of the plan. To be called when a step has said [`Step::Done`].
    pub(crate) fn retire(self, fragment: &Fragment) {
        if let Self::Tree(mut tree) = self
            && tree.again(fragment)
        {
            operator_cache::put(fragment.id, tree);
        }
    }

    /// Has rows that are only added to taken exclusively.
    pub(crate) fn add_alone(&mut self) {
        if let Self::Tree(tree) = self {
            tree.statement.adds_alone = true;
        }
    }

    /// Goes on: fills `out` with new rows in place of those in it.
    ///
    /// # Errors
    /// The statement's; or what it has to wait for. There is no going on after one.
    pub(crate) fn step(
        &mut self,
        fragment: &Fragment,
        txn: &mut dyn Transaction,
        cx: &mut Context<'_>,
        out: &mut Batch,
    ) -> Result<Step> {
        if let Some(error) = &fragment.fails {
            return Err(error.clone());
        }
        match self {
            Self::Point { done } => {
                out.reset(0);
                if std::mem::replace(done, true) {
                    return Ok(Step::Done);
                }
                point::run(fragment, txn, cx, out)
            }
            Self::Tree(tree) => {
                let Tree { run, slots, statement, lists } = &mut **tree;
                let mut ex = Exec { txn, cx, slots, statement, lists };
                let step = run.step(&fragment.root, &mut ex, out)?;
                if !fragment.is_marked {
                    out.cut(fragment.columns.len());
                }
                Ok(step)
            }
        }
    }

    /// How many rows an INSERT, UPDATE or DELETE changed so far; `None` for others.
    pub(crate) fn affected(&self) -> Option<u64> {
        let Self::Tree(tree) = self else { return None };
        match &tree.run {
            Run::Insert(run) => Some(run.affected()),
            Run::Update(run) => Some(run.affected()),
            Run::Delete(run) => Some(run.affected()),
            _ => None,
        }
    }
}

impl Watched for Execution {
    fn actual(&self, node: &Node) -> Option<Actual> {
        let Self::Tree(tree) = self else { return None };
        tree.statement.actuals.as_ref()?.get(&place(node)).copied()
    }
}

const _: () = {
    const fn is_send<T: Send + 'static>() {}
    is_send::<Execution>();
};
