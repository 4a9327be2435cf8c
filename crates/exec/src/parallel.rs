//! Groupings and sorts that other threads help with.
//!
//! ```text
//! morsels of the driving scan, by counts   | 0 | 1 | 2 | 3 | 4 | 5 | …
//!                                            ▲           ▲
//! the statement's own thread ────────────────┘           │   takes one after the other
//! a job, on any thread that has nothing else to do ──────┘   likewise
//!
//! no morsel is left ──► the statement ends what jobs have begun, or waits for it, and takes in
//!                       their groups, or the first rows of each
//! ```
//! The statement works as if it were alone, and a job only takes morsels away from it. A job that no
//! thread ever runs costs nothing but its making. One whose thread was needed elsewhere is gone on
//! with by the statement itself, so the statement never waits for a thread that does not run.
//!
//! A job reads through a fork of the transaction, which sees the same state. What it has read is
//! told to the transaction in the end.
//!
//! Invariants:
//! 1. Each morsel is taken once, and together they are what the scan reads.
//! 2. A job's groups are taken in before any row is put away for want of memory: what is put away is
//!    of groups that are not in memory, and what jobs give has to be.
//! 3. A thread holds the lock of a job while it runs the job. Another thread that finds it locked
//!    does nothing.

use std::cell::RefCell;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use colibri_catalog::store_error::InSql as _;
use colibri_catalog::{Sequence, Table};
use colibri_txn::{Direction, KeyRange, Skipped, Space, Transaction};
pub use colibri_types::pulse::Hook;
use colibri_types::pulse::Pulse;
use colibri_types::{Datum, Env, Error, Result};
use parking_lot::Mutex;

use super::aggregate::Aggregate;
use super::gather::Gather;
use super::memory::SessionMemory;
use super::operator::{Operator, Run};
use super::ranges::{Ranges, key_ranges, rest};
use super::sort::Sort;
use super::{Batch, Context, Exec, SessionCalls, Statement, Step, eval};
use crate::plan::{Access, Node, Scan};

/// A scan of fewer rows is not divided.
pub const DIVIDED_ROWS_MIN: u64 = 8_000;
/// A scan is divided into about this many morsels.
const MORSELS: u64 = 32;
/// The fewest rows of a morsel, if the scan has enough, and the most.
const MORSEL_ROWS_MIN: u64 = 500;
const MORSEL_ROWS_MAX: u64 = 20_000;

/// Looking a row up by its key takes this many times as long as reading the next row of a range.
const KEYS_PER_ROW: u64 = 4;

/// Threads that may help a statement.
pub trait Helpers: Send + Sync {
    /// How many jobs a statement may give away.
    fn count(&self) -> usize;

    /// The fewest rows of a scan that is divided.
    fn rows_min(&self) -> u64 {
        DIVIDED_ROWS_MIN
    }

    /// Has a thread that has nothing else to do run a job, step by step, until it is over.
    fn help(&self, job: Arc<Job>);

    /// What a job calls about every 50 µs in the middle of a step.
    fn hook(&self) -> Option<Hook> {
        None
    }
}

/// What is left of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// There is more to do.
    More,
    /// Nothing, or nothing for this thread.
    Nothing,
}

/// Parts of what a scan reads.
pub(super) struct Morsels {
    parts: Vec<Ranges>,
    next: AtomicUsize,
    /// Jobs take no more of them.
    is_closed: AtomicBool,
}

/// Where the driving scan finds what it is to read; `None`: everything.
#[derive(Default)]
pub(super) struct Morsel(Mutex<Option<Ranges>>);

impl Morsel {
    pub(super) fn get(&self) -> Option<Ranges> {
        self.0.lock().clone()
    }
}

/// An operator that can be divided.
pub(super) enum Divided {
    Aggregate(Aggregate),
    Sort(Sort),
}

/// Makes the operators of what is divided by a scan, and what they share.
pub(super) type Lower = fn(&Arc<Node>, &Arc<Scan>) -> (Divided, Statement);

/// What an operator that may be divided knows of that.
pub(super) struct Dividing {
    plan: Arc<Node>,
    scan: Arc<Scan>,
    lower: Lower,
    morsel: Arc<Morsel>,
    team: Option<Team>,
    /// The number of the morsel at hand.
    at: usize,
    /// The keys that indexes lead to, while they are gathered and looked up.
    gather: Option<Box<Gather>>,
    /// The session has groupings work on column vectors.
    uses_columns: bool,
}

/// The morsels of what is divided, and the jobs that take them.
struct Team {
    morsels: Arc<Morsels>,
    /// Jobs whose groups or rows are not taken in yet.
    jobs: Vec<Arc<Job>>,
    /// It is a job's.
    is_job: bool,
}

/// A part of a grouping or a sort, for another thread.
pub struct Job {
    work: Mutex<Option<Box<Work>>>,
    /// The statement has ended, or was cancelled.
    is_called_off: Arc<AtomicBool>,
}

/// What a job has of its own.
struct Work {
    divided: Divided,
    slots: Vec<Datum>,
    statement: Statement,
    lists: RefCell<eval::Lists>,
    txn: Box<dyn Transaction>,
    env: Env,
    params: Vec<Datum>,
    memory: Arc<SessionMemory>,
    hook: Option<Hook>,
    /// How it ended.
    end: Option<Result<()>>,
}

/// A job that has ended.
pub(super) struct Ended {
    divided: Divided,
    txn: Box<dyn Transaction>,
}

/// How far taking jobs in is.
pub(super) enum Taken {
    /// What one has made.
    One(Box<Ended>),
    /// Nothing can be taken now.
    Later,
    /// All are taken in.
    All,
}

impl Drop for Team {
    fn drop(&mut self) {
        for job in &self.jobs {
            job.is_called_off.store(true, Ordering::Relaxed);
            // If a thread has it, it notices at its next row.
            if let Some(mut work) = job.work.try_lock() {
                *work = None;
            }
        }
    }
}

impl Dividing {
    pub(super) fn new(plan: &Arc<Node>, scan: &Arc<Scan>, lower: Lower) -> Self {
        Self {
            plan: Arc::clone(plan),
            scan: Arc::clone(scan),
            lower,
            morsel: Arc::default(),
            team: None,
            at: 0,
            gather: None,
            uses_columns: false,
        }
    }

    /// Whether groupings work on column vectors. Known once it has begun.
    pub(super) fn uses_columns(&self) -> bool {
        self.uses_columns
    }

    /// What the driving scan is to read; `None`: everything.
    pub(super) fn ranges_at_hand(&self) -> Option<Ranges> {
        self.morsel.get()
    }

    /// Has the driving scan read these ranges, once it is rewound.
    pub(super) fn set_ranges(&self, ranges: Ranges) {
        *self.morsel.0.lock() = Some(ranges);
    }

    /// Where its driving scan looks, if the scan is this one.
    pub(super) fn morsel_of(&self, scan: &Arc<Scan>) -> Option<Arc<Morsel>> {
        Arc::ptr_eq(&self.scan, scan).then(|| Arc::clone(&self.morsel))
    }

    /// Nobody works on it.
    pub(super) fn forget(&mut self) {
        (self.team, self.gather) = (None, None);
        *self.morsel.0.lock() = None;
    }

    /// Divides the work, if it is worth it and somebody may help. The input begins behind this.
    /// `false` while the budget is used up.
    pub(super) fn begin(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if self.team.is_some() {
            // A job finds itself in one.
            self.next_morsel();
            return Ok(true);
        }
        *self.morsel.0.lock() = None;
        self.uses_columns = ex.cx.session.uses_columns();
        let Some(helpers) = ex.cx.session.helpers().filter(|helpers| helpers.count() > 0) else { return Ok(true) };
        let is_whole = ex.statement.is_inner || ex.statement.actuals.is_some() || ex.statement.keeps_old();
        if is_whole || ex.txn.fetches() {
            return Ok(true);
        }
        let Some(ranges) = self.ranges(ex)? else { return Ok(false) };
        let parts = self.parts_of(&ranges, helpers.rows_min(), ex)?;
        // What was gathered is not gathered again.
        *self.morsel.0.lock() = self.gather.is_some().then_some(ranges);
        if parts.len() < 2 {
            return Ok(true);
        }
        let morsels = Arc::new(Morsels { parts, next: AtomicUsize::new(0), is_closed: AtomicBool::new(false) });
        let mut jobs = Vec::new();
        for _ in 0..helpers.count().min(morsels.parts.len() - 1) {
            let Some(txn) = ex.txn.fork().in_sql()? else { break };
            jobs.push(Arc::new(self.job(&morsels, txn, helpers.hook(), ex)));
        }
        if jobs.is_empty() {
            return Ok(true);
        }
        jobs.iter().for_each(|job| helpers.help(Arc::clone(job)));
        self.team = Some(Team { morsels, jobs, is_job: false });
        self.next_morsel();
        Ok(true)
    }

    /// What the driving scan reads; nothing while the budget is used up.
    fn ranges(&mut self, ex: &mut Exec<'_, '_>) -> Result<Option<Ranges>> {
        match &self.scan.access {
            Access::Gathered { parts, by_all } => {
                self.gather.get_or_insert_default().step(&self.scan.table, (parts, *by_all), ex)
            }
            access => key_ranges(&self.scan.table, access, &mut ex.scope()).map(Some),
        }
    }

    /// Goes on to the next morsel; `false` if there is none. The scan reads nothing then.
    pub(super) fn next_morsel(&mut self) -> bool {
        let Some(team) = &self.team else { return false };
        let mut part = None;
        if !team.is_job || !team.morsels.is_closed.load(Ordering::Relaxed) {
            self.at = team.morsels.next.fetch_add(1, Ordering::Relaxed);
            part = team.morsels.parts.get(self.at).cloned();
        }
        let is_there = part.is_some();
        *self.morsel.0.lock() = Some(part.unwrap_or_else(Ranges::none));
        is_there
    }

    /// Whether there are jobs.
    pub(super) fn is_divided(&self) -> bool {
        self.team.is_some()
    }

    /// The number of the morsel at hand. A thread takes them in ascending order, which is that of the
    /// scan's rows.
    pub(super) fn at(&self) -> i64 {
        self.at as i64
    }

    /// Whether jobs are under way that are not taken in.
    pub(super) fn has_jobs(&self) -> bool {
        self.team.as_ref().is_some_and(|team| !team.jobs.is_empty())
    }

    /// Has jobs end with the morsel that they are at.
    pub(super) fn close(&self) {
        if let Some(team) = &self.team {
            team.morsels.is_closed.store(true, Ordering::Relaxed);
        }
    }

    /// Takes out a job that has ended. Goes on with one itself that no thread runs.
    pub(super) fn take(&mut self, ex: &mut Exec<'_, '_>) -> Result<Taken> {
        let Some(team) = &mut self.team else { return Ok(Taken::All) };
        for at in 0..team.jobs.len() {
            let job = &team.jobs[at];
            let Some(mut place) = job.work.try_lock() else { continue };
            let Some(mut work) = place.take() else {
                return Err(Error::internal("what a job has made is gone"));
            };
            if work.end.is_none() {
                let rows = ex.cx.budget_rows.max(1);
                let left = work.step(rows, &job.is_called_off);
                ex.cx.budget_rows = left;
                if work.end.is_none() {
                    *place = Some(work);
                    return Ok(Taken::Later);
                }
            }
            drop(place);
            team.jobs.swap_remove(at);
            let Work { divided, txn, end, .. } = *work;
            end.unwrap_or(Ok(()))?;
            return Ok(Taken::One(Box::new(Ended { divided, txn })));
        }
        Ok(if team.jobs.is_empty() { Taken::All } else { Taken::Later })
    }

    /// The parts that the driving scan is divided into, in the order of its rows; none if it has to
    /// stay whole.
    fn parts_of(&self, ranges: &Ranges, rows_min: u64, ex: &mut Exec<'_, '_>) -> Result<Vec<Ranges>> {
        let mut parts = Vec::new();
        match ranges {
            Ranges::Points(keys) => {
                if keys.len() as u64 >= (rows_min / KEYS_PER_ROW).max(2) {
                    let rows = rows_of_a_part(keys.len() as u64) as usize;
                    parts.extend(keys.chunks(rows).map(|keys| Ranges::Points(keys.iter().cloned().collect())));
                }
            }
            Ranges::Spans(spans) => {
                let space = self.scan.access.space(&self.scan.table);
                let mut rows = 0;
                for span in spans {
                    rows += ex.txn.estimate(&space, span).in_sql()?;
                }
                let is_looked_up = matches!(self.scan.access, Access::Index { covering: false, .. });
                let rows_min = if is_looked_up { rows_min / KEYS_PER_ROW } else { rows_min };
                if rows >= rows_min.max(2) {
                    let rows = rows_of_a_part(rows);
                    for span in spans {
                        cut(ex.txn, &space, span.clone(), rows, &mut parts)?;
                    }
                }
            }
        }
        if self.scan.direction == Direction::Backward {
            parts.reverse();
        }
        Ok(parts)
    }

    fn job(&self, morsels: &Arc<Morsels>, txn: Box<dyn Transaction>, hook: Option<Hook>, ex: &Exec<'_, '_>) -> Job {
        let (mut divided, statement) = (self.lower)(&self.plan, &self.scan);
        let team = Team { morsels: Arc::clone(morsels), jobs: Vec::new(), is_job: true };
        let dividing = divided.dividing_mut().expect("only what may be divided has jobs");
        (dividing.team, dividing.uses_columns) = (Some(team), self.uses_columns);
        let work = Work {
            divided,
            slots: ex.slots.to_vec(),
            statement,
            lists: RefCell::default(),
            txn,
            env: ex.cx.env.clone(),
            params: ex.cx.params.to_vec(),
            memory: Arc::clone(ex.cx.memory),
            hook,
            end: None,
        };
        Job { work: Mutex::new(Some(Box::new(work))), is_called_off: Arc::default() }
    }
}

impl Divided {
    fn dividing_mut(&mut self) -> Option<&mut Dividing> {
        match self {
            Self::Aggregate(aggregate) => aggregate.dividing_mut(),
            Self::Sort(sort) => sort.dividing_mut(),
        }
    }

    fn take_all(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        match self {
            Self::Aggregate(aggregate) => aggregate.take_all(ex),
            Self::Sort(sort) => sort.take_all(ex),
        }
    }

    /// With its number in the plan.
    pub(super) fn into_run(self, number: usize) -> Run {
        match self {
            Self::Aggregate(aggregate) => Run::new(number, aggregate),
            Self::Sort(sort) => Run::new(number, sort),
        }
    }

    /// The grouping of a job.
    pub(super) fn aggregate(self) -> Result<Aggregate> {
        match self {
            Self::Aggregate(aggregate) => Ok(aggregate),
            Self::Sort(_) => Err(Error::internal("a grouping is helped by a sort")),
        }
    }

    /// The sort of a job.
    pub(super) fn sort(self) -> Result<Sort> {
        match self {
            Self::Sort(sort) => Ok(sort),
            Self::Aggregate(_) => Err(Error::internal("a sort is helped by a grouping")),
        }
    }
}

impl Ended {
    /// Tells the transaction what the job has read, and gives what it has made.
    pub(super) fn join(self, txn: &mut dyn Transaction) -> Divided {
        if let Some(reads) = self.txn.into_reads() {
            txn.join(reads);
        }
        self.divided
    }
}

impl Job {
    /// Runs the job until it has looked at about `rows` rows.
    pub fn run(&self, rows: i64) -> Left {
        // Whoever has it now does it all.
        let Some(mut place) = self.work.try_lock() else { return Left::Nothing };
        let Some(work) = place.as_mut().filter(|work| work.end.is_none()) else { return Left::Nothing };
        if self.is_called_off.load(Ordering::Relaxed) {
            *place = None;
            return Left::Nothing;
        }
        work.step(rows, &self.is_called_off);
        match work.end {
            Some(_) => Left::Nothing,
            None => Left::More,
        }
    }
}

impl Work {
    /// Goes on; gives what is left of the budget.
    fn step(&mut self, rows: i64, is_called_off: &Arc<AtomicBool>) -> i64 {
        let at_work = Pulse::new(self.hook.clone(), is_called_off).begin();
        let Self { divided, slots, statement, lists, txn, env, params, memory, .. } = self;
        let mut session = Nobody;
        let mut cx = Context { env, params, session: &mut session, cancel: is_called_off, memory, budget_rows: rows };
        let mut ex = Exec { txn: &mut **txn, cx: &mut cx, slots, statement, lists };
        let step = divided.take_all(&mut ex);
        drop(at_work);
        let left = cx.budget_rows;
        self.end = match step {
            Ok(Step::Yield | Step::Rows) => None,
            Ok(Step::Done) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        left
    }
}

/// The rows of a part, if `rows` rows are divided.
fn rows_of_a_part(rows: u64) -> u64 {
    (rows / MORSELS).clamp(MORSEL_ROWS_MIN.min(rows / 2).max(1), MORSEL_ROWS_MAX)
}

/// Cuts a range into parts of `rows` rows.
fn cut(txn: &mut dyn Transaction, space: &Space, mut span: KeyRange, rows: u64, parts: &mut Vec<Ranges>) -> Result<()> {
    loop {
        match txn.skip(space, &span, Direction::Forward, rows).in_sql()? {
            Some(Skipped::Until(key)) => {
                let behind = rest(&span, Some(&key), Direction::Forward);
                parts.push(Ranges::Spans([KeyRange { low: span.low, high: Bound::Included(key) }].into()));
                span = behind;
            }
            Some(Skipped::All(0)) => return Ok(()),
            Some(Skipped::All(_)) | None => {
                parts.push(Ranges::Spans([span].into()));
                return Ok(());
            }
        }
    }
}

/// Stands above what may be divided.
pub(super) struct GatherRun(Run);

impl GatherRun {
    pub(super) fn new(divided: Run) -> Self {
        Self(divided)
    }
}

impl Operator for GatherRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        self.0.step(ex, out)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.0.rewind(ex);
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.0.give_back(ex);
    }
}

/// The session of a job: nothing in one asks for anything.
struct Nobody;

impl SessionCalls for Nobody {
    fn next_value(&mut self, _: &Sequence) -> Result<i64> {
        Err(asks_session())
    }

    fn call(&mut self, _: &mut dyn Transaction, _: &str, _: &[Datum]) -> Result<Datum> {
        Err(asks_session())
    }

    fn next_row_number(&mut self, _: &mut dyn Transaction, _: &Table) -> Result<i64> {
        Err(asks_session())
    }
}

#[cold]
fn asks_session() -> Error {
    Error::internal("a part of a divided statement asks its session")
}
