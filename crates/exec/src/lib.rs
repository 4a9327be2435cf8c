//! Running plans.
//!
//! Operators are state machines that give batches of rows. A call of [`Execution::step`] goes on
//! until it has a batch, has used up its budget, or is done; between two calls nothing is borrowed,
//! so a long statement can be put aside and gone on with on another thread. Tables are read a batch
//! at a time, each batch from the place where the last one ended.
//!
//! What an operator keeps it reserves (`memory`), and what is more than it may keep it puts on
//! disk (`spill`).
//!
//! A plan is a tree of nodes that never changes. It is lowered once (`lower`): each node becomes an
//! operator (`operator`) that refers to what it evaluates and has all state there is. When the
//! plan's run is at its end the operators are kept for the next one (`operator_cache`).
//!
//! | file | holds |
//! | --- | --- |
//! | `operator`, `lower`, `operator_cache` | what every operator can do; operators made of a plan, and kept between its runs |
//! | `batch`, `eval`, `needs` | rows on their way; expressions on a row; what a part of a plan depends on |
//! | `point`, `scan`, `ranges`, `gather`, `inverted` | one row by its key; tables and indexes, ranges of them, rows that several find, or that have tokens |
//! | `series`, `system`, `pass_through`, `lock_rows` | rows out of nothing; system tables; Filter, Project, Limit, Append; row locks |
//! | `join`, `hash_join`, `merge_join` | nested loops; hash joins, and joins in parts; merge joins |
//! | `aggregate`, `kept_arguments`, `sort`, `set_op` | grouping, and what it keeps of rows for later; sorting; DISTINCT, INTERSECT, EXCEPT |
//! | `columns` and its folder | groupings on column vectors |
//! | `parallel` | groupings that other threads help with |
//! | `window` and its folder | functions over windows: frames, what functions give, rows of a partition |
//! | `with_queries`, `recursive`, `keyed`, `switch`, `choice`, `adaptive_join` | queries that several read; rows that are kept; ways chosen while a plan runs |
//! | `subquery` | queries inside expressions |
//! | `insert`, `update`, `delete`, `merge`, `writing`, `row_patch` | statements that write |
//! | `messages` | rows of topics, which get their offsets at commit |
//! | `trees` | those that write to partitioned tables |
//! | `parts` | statements of which several parts write |
//! | `triggers` | triggers of a table, fired by statements that write |
//! | `constraints` and its folder | what rows have to obey; foreign keys' actions; whole tables checked |
//! | `group`, `direct`, `row_table`, `row_store`, `key_set`, `seen_keys`, `disk_rows`, `sorter`, `merge_sort` | what operators keep rows in |
//! | `memory`, `spill`, `scratch` | reservations; temporary files, and where they come from |
//!
//! Nothing here waits. What a store cannot answer now travels from it to the step's end in the
//! place of an error, and is an outcome there ([`Outcome::Interrupted`]). For a lock the statement
//! is taken back and runs again. For what has to be fetched the operator that asked for it keeps
//! its state, and says [`Step::Yield`]: the next step goes on there. A few operators cannot be
//! stopped where they evaluate; with a query in their expressions (`lower` says which) the
//! statement runs again ([`Pause::FetchAnew`]).
//!
//! Invariants: a step that fails leaves nothing to go on with: the caller takes the statement back.
//! An operator that says [`Step::Rows`] has put at least one row into the batch, and not more than
//! are wanted ([`Batch::rows_max`]); one that says [`Step::Yield`] has lost none. Queries inside
//! expressions cannot be put aside; they, and expressions that take long, poll: see
//! [`colibri_types::pulse`].
//!
//! Internal to this workspace: nothing in here is promised to anybody else.

#![allow(missing_docs, reason = "internal: what a name says by itself has no comment")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use colibri_catalog::{ObjectId, Sequence, Table, Timing, store_error, store_error::Pause};
use colibri_plan::{explain, expr, plan};
use colibri_txn::{Space, StoreWait, Transaction};
use colibri_types::{Datum, Env, Error, Result, SqlState, pulse};

use crate::explain::{Actual, Watched};
use crate::expr::RoutineCall;
use crate::lower::Lowering;
use crate::operator::Run;
use crate::plan::{Fragment, FragmentId};
use crate::point::Point;

mod adaptive_join;
mod aggregate;
mod ahead;
mod batch;
#[cfg(test)]
mod budget_tests;
mod choice;
mod columns;
pub mod constraints;
mod delete;
mod direct;
mod disk_rows;
pub mod domains;
mod eval;
mod filtered_entries;
mod filtered_rows;
mod first_rows;
mod fixed_parts;
mod gather;
mod gathered_keys;
mod group;
mod group_scan;
mod grouping_sets;
mod hash_join;
mod in_place;
mod insert;
mod inverted;
mod join;
mod kept_arguments;
mod key_set;
mod keyed;
mod lock_rows;
mod lower;
mod memory;
mod merge;
mod merge_join;
mod merge_sort;
mod messages;
mod needs;
mod operator;
mod operator_cache;
pub mod parallel;
mod parts;
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
mod scratch;
mod seen_keys;
mod series;
mod set_op;
mod skip_scan;
mod sort;
mod sorter;
mod spill;
#[cfg(test)]
mod spill_tests;
mod subquery;
mod switch;
mod system;
#[cfg(test)]
mod test_bed;
#[cfg(test)]
mod tests;
pub mod trees;
mod triggers;
mod update;
mod window;
mod with_queries;
mod writing;

pub use batch::{Batch, LEFTOVER_CELLS_MAX, trim_leftover};
pub use constraints::deferred::Deferred;
pub use constraints::validate::{check_table, with_exec};
pub use eval::{Evaluate, Scope, value_of};
pub use insert::{RowWriter, inserts_for_each};
pub use inverted::rows_of_tokens;
pub use memory::{EngineMemory, MemoryLimits, RowsHeld, SessionMemory};
pub use memory::{MemoryTotal, TempFileCounts};
pub use needs::expressions_deep;
pub use ranges::{Ranges, key_ranges};
pub use scratch::{DirectoryScratch, Scratch, ScratchFile};
pub use skip_scan::under;
pub use spill::{KeptRows, ValueBytes, write_value};
pub use triggers::{TriggerCall, truncate_triggers};

/// What the session does for expressions.
pub trait SessionCalls {
    /// The next value of a sequence.
    fn next_value(&mut self, sequence: &Sequence) -> Result<i64>;

    /// A session function by name.
    fn call(&mut self, txn: &mut dyn Transaction, name: &str, args: &[Datum]) -> Result<Datum>;

    /// A function that a user has defined; of one that gives rows, all of them as an array.
    fn call_routine(
        &mut self,
        _txn: &mut dyn Transaction,
        _env: &Env,
        call: &Arc<RoutineCall>,
        _args: Vec<Datum>,
    ) -> Result<Datum> {
        Err(Error::internal(format_args!("nobody can call {} here", call.routine.name)))
    }

    /// A trigger's function; for a trigger in front of a row, what the row becomes, or NULL.
    fn call_trigger(&mut self, _txn: &mut dyn Transaction, _env: &Env, call: &TriggerCall<'_>) -> Result<Datum> {
        Err(Error::internal(format_args!("nobody can call the trigger {} here", call.rule.trigger.name)))
    }

    /// A number for a row of a table without a primary key: larger than all given before.
    fn next_row_number(&mut self, txn: &mut dyn Transaction, table: &Table) -> Result<i64>;

    /// Whether the checks of a constraint are put off now, given what was said when it was made.
    fn is_deferred(&self, _constraint: ObjectId, _timing: Timing) -> bool {
        false
    }

    /// The same of a constraint trigger.
    fn is_trigger_deferred(&self, constraint: ObjectId, timing: Timing) -> bool {
        self.is_deferred(constraint, timing)
    }

    /// Whether the session writes what another server has written: foreign keys are not looked at.
    fn replicates(&self) -> bool {
        false
    }

    /// A statement has put messages into some partitions of a topic.
    fn has_put(&mut self, _txn: &mut dyn Transaction, _topic: &Table, _partitions: &[i64]) -> Result<()> {
        Ok(())
    }

    /// Keeps checks that are put off.
    fn defer(&mut self, _checks: Vec<Deferred>) {}

    /// Whether groupings of many rows work on column vectors.
    fn uses_columns(&self) -> bool {
        true
    }

    /// Who may help with a long statement.
    fn helpers(&self) -> Option<Arc<dyn parallel::Helpers>> {
        None
    }
}

/// What a statement runs in, besides its transaction.
pub struct Context<'a> {
    pub env: &'a Env,
    pub params: &'a [Datum],
    pub session: &'a mut dyn SessionCalls,
    /// Set by others to end the statement (57014).
    pub cancel: &'a AtomicBool,
    /// What operators reserve memory from, and spill beyond.
    pub memory: &'a Arc<SessionMemory>,
    /// Rows that this step may still look at; at 0 or below the step ends with [`Step::Yield`] at
    /// the next batch. A step that begins with more than 0 gets on. Cancelling is looked for at
    /// least once a batch.
    pub budget_rows: i64,
}

/// What a step of a plan came to.
#[derive(Debug)]
pub enum Outcome {
    /// Rows in the batch; there may be more.
    Rows,
    /// The budget is used up, with no rows; there is more to do.
    Yield,
    /// There are no more rows, nor are there any in the batch.
    Done,
    /// It cannot go on now. After [`Pause::Fetch`] the next step goes on where this one ended;
    /// after the others the statement has to be taken back.
    Interrupted(Pause),
}

/// How a step of an operator ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// With rows in the batch; there may be more.
    Rows,
    /// The budget is used up, with no rows; there is more to do.
    Yield,
    /// There are no more rows, nor are there any in the batch.
    Done,
}

/// What operators work in: handed down from step to step, never kept.
pub struct Exec<'e, 'c> {
    pub txn: &'e mut dyn Transaction,
    pub cx: &'e mut Context<'c>,
    /// The fragment's slots: values from outer rows.
    pub slots: &'e mut [Datum],
    pub statement: &'e mut Statement,
    /// Long lists of constants (`x IN (…)`), sorted, by their numbers.
    lists: &'e RefCell<eval::Lists>,
}

/// What the fragments of a running statement share.
#[derive(Default)]
pub struct Statement {
    /// What WITH queries gave, by number.
    shared: Vec<Option<Box<with_queries::Kept>>>,
    /// Rows of the last round of queries that refer to themselves, by number, while such a query
    /// makes the next ones.
    working: Vec<Option<KeptRows>>,
    /// What queries inside expressions gave, by number.
    subqueries: Vec<Option<Box<subquery::Memo>>>,
    /// Rows that are kept by keys, by their places.
    keyed: Vec<Option<Box<keyed::Kept>>>,
    /// Outer sides of adaptive joins, by their places.
    outer_rows: Vec<Option<Box<adaptive_join::OuterRows>>>,
    /// What each operator did, by number. Only of a statement that is watched.
    actuals: Option<Vec<Actual>>,
    /// Rows that are only added to are taken exclusively nevertheless: the transaction is likely to
    /// read them.
    adds_alone: bool,
    /// An operator has found in this step that something has to be fetched.
    fetch: Option<Fetching>,
    /// Several parts of it write: none of them sees what the others do (see `parts`).
    has_parts: bool,
    /// It calls functions of users, and sees nothing of what they write: see
    /// [`Execution::sees_nothing_of_calls`].
    is_apart: bool,
    /// What entries were is kept from the first step on.
    is_apart_yet: bool,
    /// The number of parameter sets in the list of parameters ([`Execution::runs_for_each`]). 0 means
    /// that the list is one set.
    param_sets: usize,
    /// It is run by a function, within another statement.
    is_inner: bool,
    /// One of these may take rows away, or change their keys.
    takes_away: bool,
    /// What calls of IMMUTABLE functions have given that are called on what is the same for all rows.
    fixed_calls: Vec<(Arc<RoutineCall>, Datum)>,
    /// What its parts have left to be done at its end, in the order in which they have run.
    effects: VecDeque<constraints::references::Effects>,
}

/// What has to be fetched before an operator can go on.
struct Fetching {
    wait: StoreWait,
    /// What was left of the budget, which is used up for all operators until the step has ended.
    budget_rows: i64,
}

impl Statement {
    /// What an operator did so far, if the statement is watched.
    #[inline]
    fn actual(&mut self, operator: usize) -> Option<&mut Actual> {
        self.actuals.as_mut()?.get_mut(operator)
    }

    /// Whether what entries were before it is kept for it.
    #[inline]
    fn keeps_old(&self) -> bool {
        (self.has_parts || self.is_apart) && !self.is_inner
    }

    /// As if nothing had run.
    fn reset(&mut self) {
        self.shared.iter_mut().flatten().for_each(|kept| kept.reset());
        self.subqueries.iter_mut().flatten().for_each(|memo| memo.reset());
        self.keyed.iter_mut().flatten().for_each(|kept| kept.reset());
        self.outer_rows.iter_mut().flatten().for_each(|outer| outer.reset());
        self.working = Vec::new();
        self.adds_alone = false;
        self.fetch = None;
        self.has_parts = false;
        (self.is_apart, self.is_apart_yet, self.is_inner) = (false, false, false);
        self.takes_away = false;
        self.param_sets = 0;
        self.fixed_calls = Vec::new();
        self.effects = VecDeque::new();
    }
}

impl Exec<'_, '_> {
    /// What expressions are evaluated in: everything, queries and session functions included.
    #[inline]
    pub fn scope(&mut self) -> Scope<'_> {
        Scope::full(self.txn, self.cx, self.slots, self.statement, self.lists)
    }

    /// Does something that has to see all that the statement has written.
    #[inline]
    pub(crate) fn seeing_all<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        if self.statement.keeps_old() { self.seeing(false, act) } else { act(self) }
    }

    /// Does something that sees nothing of what the statement has written, if it has several parts.
    #[inline]
    pub(crate) fn seeing_old<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        if self.statement.keeps_old() && self.statement.has_parts { self.seeing(true, act) } else { act(self) }
    }

    /// Whether a row has been written by any of several parts of the statement.
    #[inline]
    pub(crate) fn is_changed(&self, space: &Space, key: &[u8]) -> bool {
        self.statement.has_parts && !self.statement.is_inner && self.txn.is_written(space, key)
    }

    #[cold]
    fn seeing<T>(&mut self, old: bool, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.txn.see_old(old);
        let done = act(self);
        self.txn.see_old(before);
        done
    }

    /// Fails if the statement was cancelled.
    #[inline]
    pub fn check_cancel(&self) -> Result<()> {
        if self.cx.cancel.load(Ordering::Relaxed) { Err(canceled()) } else { Ok(()) }
    }

    /// Ends the step of an operator that has found that something has to be fetched, and that will
    /// find its state as it was: rows that it has made so far are given. For all above it this is
    /// as if the budget were used up. Other errors are handed on.
    ///
    /// # Errors
    /// The error, unless it says to fetch.
    #[cold]
    pub(crate) fn interrupted(&mut self, error: Error, out: &Batch) -> Result<Step> {
        // What a part has written cannot be told from what is to be taken back: all runs again.
        if self.statement.has_parts {
            return Err(error);
        }
        match store_error::pause(&error) {
            Some(Pause::Fetch(wait)) => {
                let left = std::mem::replace(&mut self.cx.budget_rows, 0);
                let budget_rows = self.statement.fetch.take().map_or(left, |before| before.budget_rows);
                self.statement.fetch = Some(Fetching { wait: wait.clone(), budget_rows });
                Ok(if out.is_empty() { Step::Yield } else { Step::Rows })
            }
            _ => Err(error),
        }
    }

    /// What an operator has found that has to be fetched, where its step ends. The budget is again
    /// what it was.
    pub(crate) fn take_fetch(&mut self) -> Option<StoreWait> {
        let Fetching { wait, budget_rows } = self.statement.fetch.take()?;
        self.cx.budget_rows = budget_rows;
        Some(wait)
    }

    /// Whether the budget is used up.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.cx.budget_rows <= 0
    }

    /// Takes rows off the budget.
    #[inline]
    pub fn spend(&mut self, rows: usize) {
        self.cx.budget_rows -= rows as i64;
    }

    /// Where a step cannot end: counts the rows that were looked at as work, and gives a new
    /// budget.
    pub fn refill(&mut self) -> Result<()> {
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
pub fn datum_bytes(value: &Datum) -> usize {
    let heap = match value {
        Datum::Text(text) | Datum::Citext(text) if text.is_heap_allocated() => text.capacity(),
        Datum::Bytes(bytes) | Datum::Query(bytes) | Datum::Range(bytes) => bytes.len(),
        Datum::Array(array) => 64 + row_bytes(array.values()),
        Datum::Row(row) => 64 + row_bytes(row.values()),
        Datum::Jsonb(bytes) => 16 + bytes.len(),
        Datum::Numeric(value) => 16 + value.heap_bytes(),
        _ => 0,
    };
    size_of::<Datum>() + heap
}

/// Bytes that a row takes when it is kept.
#[inline]
fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(datum_bytes).sum()
}

/// Trees of more operators are made anew for each run, rather than kept: many of those are large.
const KEPT_OPERATORS_MAX: usize = 64;
/// A plan whose expressions take more than this is large.
const LARGE_PLAN_BYTES: usize = 8 << 10;

/// A plan at work. It refers to the plan's parts since it was lowered, and to nothing else of it:
/// sessions share plans, and a counted reference that is taken with each run would be a word that
/// all their threads write to.
pub struct Execution(Lowered);

pub(crate) enum Lowered {
    /// One row by its key.
    Point(Box<Point>),
    Tree(Box<Tree>),
}

/// The operators of a plan, and what they remember from step to step.
pub(crate) struct Tree {
    /// The plan's number.
    id: FragmentId,
    run: Run,
    /// How many there are, with those of queries inside expressions.
    operators: usize,
    /// About how much memory the plan's expressions take.
    plan_bytes: usize,
    slots: Vec<Datum>,
    statement: Statement,
    lists: RefCell<eval::Lists>,
    /// Columns of a row that are given on.
    width: usize,
    /// See [`Execution::may_fetch_anew`].
    may_fetch_anew: bool,
    /// See [`Execution::yields_to_fetches`].
    reads_in_bulk: bool,
    /// Why each run fails.
    fails: Option<Box<Error>>,
}

impl Tree {
    /// Lowers a plan.
    fn new(fragment: &Fragment) -> Box<Self> {
        let mut lowering = Lowering::default();
        let run = lowering.run(&fragment.root);
        let Lowering { operators, plan_bytes, statement, may_fetch_anew, reads_in_bulk, .. } = lowering;
        Box::new(Self {
            id: fragment.id,
            run,
            operators,
            plan_bytes,
            slots: vec![Datum::Null; fragment.slots],
            statement,
            lists: RefCell::default(),
            may_fetch_anew,
            reads_in_bulk,
            width: if fragment.is_marked { usize::MAX } else { fragment.columns.len() },
            fails: fragment.fails.clone().map(Box::new),
        })
    }

    /// As new, but for some memory; `false` if that cannot be.
    fn reset(&mut self) -> bool {
        if self.statement.actuals.is_some() || self.operators > KEPT_OPERATORS_MAX {
            return false;
        }
        self.run.reset();
        self.slots.fill(Datum::Null);
        self.statement.reset();
        if !self.lists.get_mut().is_empty() {
            self.lists = RefCell::default();
        }
        true
    }

    fn step(&mut self, txn: &mut dyn Transaction, cx: &mut Context<'_>, out: &mut Batch) -> Result<Step> {
        if let Some(error) = &self.fails {
            return Err((**error).clone());
        }
        let Self { run, slots, statement, lists, width, .. } = self;
        if statement.is_apart && !std::mem::replace(&mut statement.is_apart_yet, true) {
            txn.keep_old();
        }
        if statement.keeps_old() {
            txn.see_old(true);
        }
        let step = run.step(&mut Exec { txn, cx, slots, statement, lists }, out);
        // Between two steps others look at what there is.
        match &step {
            Ok(Step::Done) | Err(_) if statement.keeps_old() => txn.forget_old(),
            _ if statement.keeps_old() => {
                txn.see_old(false);
            }
            _ => {}
        }
        let step = step?;
        out.cut(*width);
        Ok(step)
    }
}

impl Execution {
    /// At the start of a plan. Its slots are NULL.
    pub fn new(fragment: &Fragment) -> Self {
        Self(operator_cache::take(fragment.id).unwrap_or_else(|| match Point::new(fragment) {
            Some(point) => Lowered::Point(Box::new(point)),
            None => Lowered::Tree(Tree::new(fragment)),
        }))
    }

    /// At the start of a plan whose operators are to be watched, for EXPLAIN ANALYZE.
    pub fn new_watched(fragment: &Fragment) -> Self {
        let mut tree = Tree::new(fragment);
        tree.statement.actuals = Some(vec![Actual::default(); tree.operators]);
        Self(Lowered::Tree(tree))
    }

    /// Leaves its operators to the next run of the plan. To be called when a step has said
    /// [`Step::Done`].
    pub fn retire(self) {
        let Self(mut prepared) = self;
        let (id, is_kept, is_large) = match &mut prepared {
            Lowered::Point(point) => (point.reset(), true, false),
            Lowered::Tree(tree) => (tree.id, tree.reset(), tree.plan_bytes > LARGE_PLAN_BYTES),
        };
        if is_kept {
            operator_cache::put(id, prepared, is_large);
        }
    }

    /// Keeps what functions of users write from the statement that calls them. Only of a statement
    /// that is not run by such a function itself.
    pub fn sees_nothing_of_calls(&mut self) {
        if let Lowered::Tree(tree) = &mut self.0 {
            tree.statement.is_apart = true;
        }
    }

    /// Makes the plan insert one row for each parameter set. The list of parameters holds `param_sets`
    /// sets of equal length. The plan must be one for which [`inserts_for_each`] is true.
    pub fn runs_for_each(&mut self, param_sets: usize) {
        if let Lowered::Tree(tree) = &mut self.0 {
            tree.statement.param_sets = param_sets;
        }
    }

    /// Says that it is run by a function, within another statement: what that one keeps of entries
    /// stays.
    pub fn runs_within(&mut self) {
        if let Lowered::Tree(tree) = &mut self.0 {
            tree.statement.is_inner = true;
        }
    }

    /// Has rows that are only added to taken exclusively.
    pub fn add_alone(&mut self) {
        if let Lowered::Tree(tree) = &mut self.0 {
            tree.statement.adds_alone = true;
        }
    }

    /// Goes on: fills `out` with new rows in place of those in it. Here interruptions, which have
    /// come through the operators in the place of errors, become outcomes.
    ///
    /// # Errors
    /// The statement's. There is no going on after one.
    pub fn step(&mut self, txn: &mut dyn Transaction, cx: &mut Context<'_>, out: &mut Batch) -> Result<Outcome> {
        let (step, fetch) = match &mut self.0 {
            Lowered::Point(point) => (point.step(txn, cx, out), None),
            Lowered::Tree(tree) => {
                let step = tree.step(txn, cx, out).map_err(store_error::from_the_start);
                let fetch = tree.statement.fetch.take();
                if let Some(fetch) = &fetch {
                    cx.budget_rows = fetch.budget_rows;
                }
                (step, fetch)
            }
        };
        match (step, fetch) {
            (Ok(Step::Rows), _) => Ok(Outcome::Rows),
            (Ok(Step::Done), _) => Ok(Outcome::Done),
            (Ok(Step::Yield), None) => Ok(Outcome::Yield),
            (Ok(Step::Yield), Some(fetch)) => Ok(Outcome::Interrupted(Pause::Fetch(fetch.wait))),
            (Err(error), _) => match store_error::pause(&error) {
                Some(pause) => Ok(Outcome::Interrupted(pause.clone())),
                None => Err(error),
            },
        }
    }

    /// Whether it may have to fetch in the middle of something that cannot be gone on with, so that
    /// the statement has to run again ([`Pause::FetchAnew`]).
    pub fn may_fetch_anew(&self) -> bool {
        matches!(&self.0, Lowered::Tree(tree) if tree.may_fetch_anew)
    }

    /// Whether it loses nothing when its calls are interrupted to fetch
    /// ([`colibri_txn::Transaction::let_fetch`]): it goes on where it was, and reads neither by columns
    /// nor in parts at the same time, which no interruption may break.
    pub fn yields_to_fetches(&self) -> bool {
        match &self.0 {
            Lowered::Point(_) => true,
            Lowered::Tree(tree) => !tree.may_fetch_anew && !tree.reads_in_bulk,
        }
    }

    /// How many rows an INSERT, UPDATE or DELETE changed so far; `None` for others.
    pub fn affected(&self) -> Option<u64> {
        match &self.0 {
            Lowered::Point(_) => None,
            Lowered::Tree(tree) => tree.run.affected(),
        }
    }
}

impl Watched for Execution {
    fn actual(&self, operator: usize) -> Option<Actual> {
        let Lowered::Tree(tree) = &self.0 else { return None };
        tree.statement.actuals.as_ref()?.get(operator).copied().filter(|actual| actual.loops > 0)
    }
}

const _: () = {
    const fn is_send<T: Send + 'static>() {}
    is_send::<Execution>();
};
