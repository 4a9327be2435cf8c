//! Grouping and aggregates.
//!
//! Groups get numbers in the order they first appear; each has the states of all calls side by
//! side. A batch is grouped first, and then goes through one call after the other.
//!
//! What an aggregate wants only once (`count(DISTINCT x)`) goes through a table of what each group
//! has seen. What it wants in order (`string_agg(x, ',' ORDER BY y)`) is kept, sorted by group and
//! order, and handed to the states when their group goes out.
//!
//! ```text
//! memory is full: no group is new any more, no table of what was seen grows
//!   rows of groups that are there ──► their states; what is kept, or may have been seen
//!                                     before, is sorted on disk
//!   rows of other groups          ──► put away, and grouped in later passes
//! ```
//! Rows that come in the order of some of the keys are grouped part by part: a part ends where these
//! keys change, and has a number of rows at least. So a LIMIT reads a part or a few, and memory
//! holds the groups of one.
//!
//! Invariants: without keys there is exactly one group, even for no input. What is evaluated for a
//! row is evaluated once: rows that are put away are the values of keys, conditions and arguments.
//! Within a group rows keep their order.

use std::sync::Arc;

use colibri_types::{Datum, Result, aggregates::State, pulse};
use smallvec::SmallVec;

use super::batch::BATCH_ROWS_MAX;
use super::columns::{self, BehindRows, Columns, Progress, Spans};
use super::group::{Groups, equal_key, equal_keys, hash_values};
use super::kept_arguments::{KeptArguments, Values};
use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::parallel::{Dividing, Taken};
use super::ranges::Ranges;
use super::row_store::RowStore;
use super::sorter::Sorter;
use super::spill::Leftover;
use super::{Batch, Exec, Scope, Statement, Step, datum_bytes, row_bytes};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::{Expr, walk};
use crate::plan::{AggregateCall, Exprs};

/// An estimate of a state's bytes, with what it may hold elsewhere.
const STATE_BYTES: usize = size_of::<State>() + 16;
/// Of a row whose group is not there.
const NO_GROUP: u32 = u32::MAX;
/// Rows that are dealt with between two looks at the budget.
const ROWS_PER_LOOK: usize = 256;
/// Rows of the first part, where rows come in the order of keys; it doubles from part to part.
/// Tests have parts of few rows.
const PART_ROWS_FIRST: usize = if cfg!(test) { 2 } else { 32 };
/// The most rows that a part is to have at least.
const PART_ROWS_MAX: usize = if cfg!(test) { 64 } else { 4_096 };

/// Grouping.
pub(super) struct Aggregate {
    by: GroupBy,
    run: AggregateRun,
}

/// What is grouped by, and what is asked of each group.
struct GroupBy {
    keys: Exprs,
    calls: Arc<[AggregateCall]>,
    /// Which of the keys rows come in the order of.
    presorted: Arc<[usize]>,
    /// Keys of groups that are there for no input as well.
    always: Arc<[Vec<Datum>]>,
}

/// Grouping at work.
struct AggregateRun {
    input: Run,
    fresh: Batch,
    /// The first row of the batch that has not been taken in, and the one behind those that are
    /// taken in now.
    taken: usize,
    end: usize,
    /// The input has no more rows.
    is_last_part: bool,
    /// How many rows the part has, and how many it is to have at least.
    part_rows: usize,
    rows_min: usize,
    /// The presorted keys of its last rows, once it has as many.
    last: Vec<Datum>,
    groups: Groups,
    /// The calls' states, a row for each group.
    states: RowStore<State>,
    extras: Vec<Extra>,
    /// Of the rows that are taken in now: each one's group.
    numbers: Vec<u32>,
    phase: Phase,
    /// The next group to give, and the next of its calls.
    at: usize,
    call_at: usize,
    /// Memory is full: see above.
    is_full: bool,
    /// What keys and states hold besides their places.
    in_texts: usize,
    memory: Reservation,
    leftover: Leftover,
    /// A row that was put away.
    row: Vec<Datum>,
    disk_bytes_max: u64,
    /// If it may be divided.
    dividing: Option<Box<Dividing>>,
    /// If it may work on column vectors; then it may be divided too.
    columns: Option<Box<Columns>>,
    /// It gives its groups to another one.
    is_job: bool,
    /// A job whose groups are taken in, and the next of them.
    joining: Option<(Box<Aggregate>, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    /// Rows of the input, or of a part that was put away, are taken in.
    Input,
    Part,
    /// What is kept for a call goes to disk; whether rows of the input are to follow.
    Spilling {
        place: usize,
        is_input: bool,
    },
    /// What is kept for a call is put in order.
    Sorting {
        place: usize,
    },
    /// Groups on column vectors are taken in.
    Merging(Behind),
    /// Groups of jobs are taken in; whether rows of the input are to follow.
    Joining {
        is_input: bool,
    },
    Giving,
    Done,
}

/// What comes when the groups on column vectors are taken in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// More of the input.
    Input,
    /// All of the input was read.
    End,
}

/// What a call needs besides its states.
struct Extra {
    /// Group and arguments seen.
    seen: Option<Groups>,
    /// Of group and arguments, what `seen` has: without groups the arguments only, since a single
    /// integer is found sooner than two values.
    seen_from: usize,
    /// Rows that are handed to the states later.
    later: Option<Sorter>,
    /// What is kept of these.
    kept: Option<KeptArguments>,
    /// The states grow with each row.
    grows: bool,
    /// Group and arguments of the row that was handed over last, if none is to be handed over
    /// twice.
    last: Values,
}

/// Whether a state keeps what is as large as the first value that it takes in, and nothing more later.
fn is_to_keep_the_first(state: &State) -> bool {
    match state {
        State::First(Datum::Null) => true,
        State::Vectors(_, sums, _) => sums.is_empty(),
        _ => false,
    }
}

impl Extra {
    fn new(call: &AggregateCall, grouped: bool) -> Self {
        let grows = matches!(
            (call.aggregate.start)(),
            State::Text(_)
                | State::Bytes(_)
                | State::Array(_)
                | State::Percentile(..)
                | State::Json(..)
                | State::Jsonb(..)
        );
        let seen_from = usize::from(!grouped);
        let seen = call.distinct.then(|| Groups::new(1 + call.args.len() - seen_from));
        Self { seen, seen_from, later: None, kept: None, grows, last: Values::new() }
    }

    /// Keeps a row for later: its group and arguments, and its keys of the order.
    fn keep(&mut self, call: &AggregateCall, grouped: bool, values: Values, order: Values) {
        let kept = self.kept.get_or_insert_with(|| KeptArguments::new(call, &values));
        let later = self.later.get_or_insert_with(|| Sorter::new(kept.width(), kept.order(call, grouped)));
        later.push(kept.kept(values, order));
    }
}

impl Aggregate {
    pub(super) fn new(
        mut input: Run,
        keys: &Exprs,
        calls: &Arc<[AggregateCall]>,
        presorted: &Arc<[usize]>,
        always: &Arc<[Vec<Datum>]>,
    ) -> Self {
        // An array is made in the order in which rows come.
        let is_free = |call: &AggregateCall| !call.order.is_empty() || call.distinct || !Extra::new(call, false).grows;
        if presorted.is_empty() && calls.iter().all(is_free) {
            input.forget_order();
        }
        let mut looked_at = Vec::new();
        for expr in keys.iter().chain(calls.iter().flat_map(exprs_of)) {
            walk::for_each_column(expr, &mut |column| looked_at.push(column));
        }
        input.look_at(&looked_at);
        let by = GroupBy {
            keys: Arc::clone(keys),
            calls: Arc::clone(calls),
            presorted: Arc::clone(presorted),
            always: Arc::clone(always),
        };
        Self { by, run: AggregateRun::new(input) }
    }

    /// Has it be divided where that pays.
    pub(super) fn dividing(mut self, dividing: Option<Dividing>) -> Self {
        self.run.dividing = dividing.map(Box::new);
        self
    }

    /// Has it work on column vectors.
    pub(super) fn on_columns(mut self, columns: Option<Columns>) -> Self {
        self.run.columns = columns.map(Box::new);
        self
    }

    pub(super) fn dividing_mut(&mut self) -> Option<&mut Dividing> {
        self.run.dividing.as_deref_mut()
    }

    /// Takes all of the input in, for somebody who takes the groups: a job. It gives none itself,
    /// and says `Step::Done` when it is done.
    pub(super) fn take_all(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        self.run.is_job = true;
        self.run.step(&self.by, ex, &mut Batch::new())
    }
}

/// The expressions of a call.
fn exprs_of(call: &AggregateCall) -> impl Iterator<Item = &Expr> {
    call.args.iter().chain(&call.filter).chain(call.order.iter().map(|key| &key.expr))
}

impl Operator for Aggregate {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        self.run.step(&self.by, ex, out)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.forget(&self.by.calls);
        self.run.input.rewind(ex);
    }

    fn reset(&mut self) {
        self.run.forget(&self.by.calls);
        self.run.input.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        let run = &mut self.run;
        run.input.give_back(ex);
        if let Some(dividing) = &mut run.dividing {
            dividing.forget();
        }
        run.memory.release();
        run.leftover = Leftover::default();
        run.extras.clear();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        Some(self.run.usage())
    }
}

impl AggregateRun {
    fn new(input: Run) -> Self {
        Self {
            input,
            fresh: Batch::new(),
            taken: 0,
            end: 0,
            is_last_part: false,
            part_rows: 0,
            rows_min: PART_ROWS_FIRST,
            last: Vec::new(),
            groups: Groups::new(0),
            states: RowStore::new(0),
            extras: Vec::new(),
            numbers: Vec::new(),
            phase: Phase::Start,
            at: 0,
            call_at: 0,
            is_full: false,
            in_texts: 0,
            memory: Reservation::default(),
            leftover: Leftover::default(),
            row: Vec::new(),
            disk_bytes_max: 0,
            dividing: None,
            columns: None,
            is_job: false,
            joining: None,
        }
    }

    /// Back to the start, but for the input.
    fn forget(&mut self, calls: &[AggregateCall]) {
        let mut dividing = self.dividing.take();
        if let Some(dividing) = &mut dividing {
            dividing.forget();
        }
        let columns = self.columns.take().and_then(|columns| columns.forget(calls)).map(Box::new);
        *self = Self { dividing, columns, ..Self::new(self.input.take()) };
    }

    fn usage(&self) -> Usage {
        let (batches, disk_bytes) = self.leftover.usage();
        let disk_bytes = disk_bytes + self.disk_bytes_max.max(self.later_on_disk());
        Usage::Groups(Spilled { memory_bytes: self.memory.peak() as u64, disk_bytes, batches })
    }

    fn later_on_disk(&self) -> u64 {
        self.extras.iter().filter_map(|extra| extra.later.as_ref()).map(Sorter::bytes_on_disk).sum()
    }

    fn step(&mut self, by: &GroupBy, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let (keys, calls): (&[Expr], &[AggregateCall]) = (&by.keys, &by.calls);
        loop {
            self.phase = match self.phase {
                Phase::Start => {
                    if let Some(dividing) = &mut self.dividing
                        && !dividing.begin(ex)?
                    {
                        return Ok(Step::Yield);
                    }
                    let uses_columns = self.dividing.as_ref().is_some_and(|dividing| dividing.uses_columns());
                    if let Some(columns) = self.columns.as_mut().filter(|_| !uses_columns) {
                        columns.leave_to_rows();
                    }
                    self.begin_pass(keys, calls);
                    for key in by.always.iter() {
                        self.add_group(key, calls);
                    }
                    Phase::Input
                }
                Phase::Input if self.taken < self.fresh.rows() => {
                    self.take(by, ex)?;
                    match self.taken < self.fresh.rows() {
                        true => Phase::Sorting { place: 0 },
                        false => self.heed_memory(calls, true, ex),
                    }
                }
                Phase::Input if self.columns.as_ref().is_some_and(|columns| columns.is_at_work()) => {
                    match self.step_columns(calls, ex)? {
                        Some(phase) => phase,
                        None => return Ok(Step::Yield),
                    }
                }
                Phase::Input => {
                    self.taken = 0;
                    let wanted = if by.presorted.is_empty() { BATCH_ROWS_MAX } else { self.rows_min };
                    self.fresh.want(wanted);
                    match self.input.step(ex, &mut self.fresh)? {
                        Step::Yield => {
                            self.fresh.reset(0);
                            return Ok(Step::Yield);
                        }
                        Step::Rows => Phase::Input,
                        Step::Done => {
                            self.fresh.reset(0);
                            let behind = self.columns.as_mut().map(|columns| columns.behind_rows());
                            match behind.unwrap_or(BehindRows::Nothing) {
                                BehindRows::Batches => Phase::Input,
                                BehindRows::Rows(spans) => {
                                    self.read_rows_of(spans, ex);
                                    Phase::Input
                                }
                                BehindRows::Nothing => match self.end_of_input(ex) {
                                    Some(phase) => phase,
                                    None => return Ok(Step::Done),
                                },
                            }
                        }
                    }
                }
                Phase::Merging(behind) => {
                    if !self.merge_columns(calls, ex)? {
                        return Ok(Step::Yield);
                    }
                    if let Some(columns) =
                        self.columns.as_mut().filter(|columns| behind == Behind::End || !columns.is_at_work())
                    {
                        columns.give_back(calls);
                    }
                    match behind {
                        Behind::Input => self.heed_memory(calls, true, ex),
                        Behind::End => match self.end_of_input(ex) {
                            Some(phase) => phase,
                            None => return Ok(Step::Done),
                        },
                    }
                }
                Phase::Joining { is_input } => {
                    if !self.join(calls, ex)? {
                        return Ok(Step::Yield);
                    }
                    if is_input {
                        self.heed_memory(calls, true, ex)
                    } else {
                        self.input.give_back(ex);
                        self.is_last_part = true;
                        Phase::Sorting { place: 0 }
                    }
                }
                Phase::Part => {
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                    match self.take_from_part(keys, calls, ex)? {
                        true => self.heed_memory(calls, false, ex),
                        false => Phase::Sorting { place: 0 },
                    }
                }
                Phase::Spilling { place, is_input } => match self.extras.get_mut(place) {
                    None => {
                        self.memory.hold(ex.cx.memory, self.bytes(calls), Use::Hash);
                        if is_input { Phase::Input } else { Phase::Part }
                    }
                    Some(Extra { later: Some(later), .. }) if later.rows_in_memory() > 0 => {
                        if !later.spill(ex, Use::Hash.bytes_max(ex.cx.memory))? {
                            return Ok(Step::Yield);
                        }
                        Phase::Spilling { place: place + 1, is_input }
                    }
                    Some(_) => Phase::Spilling { place: place + 1, is_input },
                },
                Phase::Sorting { place } => match self.extras.get_mut(place) {
                    None => Phase::Giving,
                    Some(Extra { later: Some(later), .. }) => {
                        if !later.finish(ex, Use::Hash.bytes_max(ex.cx.memory))? {
                            return Ok(Step::Yield);
                        }
                        Phase::Sorting { place: place + 1 }
                    }
                    Some(_) => Phase::Sorting { place: place + 1 },
                },
                Phase::Giving => {
                    let step = self.give(keys, calls, ex, out)?;
                    if step != Step::Done {
                        return Ok(step);
                    }
                    if self.leftover.next_pass()? {
                        self.begin_pass(keys, calls);
                        Phase::Part
                    } else if self.is_last_part {
                        Phase::Done
                    } else {
                        // As many rows as make the groups that are wanted, going by the last part.
                        let per_group = self.part_rows.div_ceil(self.groups.len().max(1));
                        let wanted = out.rows_max().saturating_mul(per_group).max(PART_ROWS_FIRST);
                        self.rows_min = (self.rows_min * 2).min(PART_ROWS_MAX).min(wanted);
                        self.part_rows = 0;
                        self.last.clear();
                        self.disk_bytes_max = self.disk_bytes_max.max(self.leftover.usage().1);
                        self.leftover = Leftover::default();
                        Phase::Start
                    }
                }
                Phase::Done => return Ok(Step::Done),
            }
        }
    }

    /// Goes on to the next morsel; `false` if there is none.
    fn next_morsel(&mut self, ex: &mut Exec<'_, '_>) -> bool {
        let is_there = self.dividing.as_mut().is_some_and(|dividing| dividing.next_morsel());
        if is_there {
            self.input.rewind(ex);
            if let Some(columns) = &mut self.columns {
                columns.begin_again();
            }
        }
        is_there
    }

    /// What comes behind the last row of what was to be read; `None` for a job that is done.
    fn end_of_input(&mut self, ex: &mut Exec<'_, '_>) -> Option<Phase> {
        if self.next_morsel(ex) {
            return Some(Phase::Input);
        }
        if self.is_job {
            return None;
        }
        if self.has_jobs() {
            return Some(Phase::Joining { is_input: false });
        }
        self.input.give_back(ex);
        self.is_last_part = true;
        Some(Phase::Sorting { place: 0 })
    }

    /// Goes on with column vectors; `None` while the budget is used up.
    fn step_columns(&mut self, calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<Option<Phase>> {
        let Some(columns) = &mut self.columns else { return Ok(Some(Phase::Input)) };
        let dividing = self.dividing.as_deref();
        Ok(Some(match columns.step(|| dividing.and_then(Dividing::ranges_at_hand), ex)? {
            Progress::Yield => return Ok(None),
            Progress::Taken => self.heed_memory(calls, true, ex),
            Progress::Full => Phase::Merging(Behind::Input),
            Progress::GaveUp(spans) => {
                self.read_rows_of(spans, ex);
                Phase::Merging(Behind::Input)
            }
            Progress::All if self.next_morsel(ex) => Phase::Input,
            Progress::All => Phase::Merging(Behind::End),
            Progress::Rows => Phase::Merging(Behind::Input),
        }))
    }

    /// Has the input give the rows of some ranges.
    fn read_rows_of(&mut self, spans: Spans, ex: &mut Exec<'_, '_>) {
        if let Some(dividing) = &self.dividing {
            dividing.set_ranges(Ranges::Spans(spans));
        }
        self.input.rewind(ex);
    }

    /// Takes groups on column vectors in; `false` while the budget is used up.
    fn merge_columns(&mut self, calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<bool> {
        let Some(columns) = self.columns.as_mut().filter(|columns| columns.has_groups()) else { return Ok(true) };
        let Self { groups, states, in_texts, .. } = self;
        let env = ex.cx.env;
        let is_done = loop {
            if ex.cx.budget_rows <= 0 {
                break false;
            }
            ex.cx.budget_rows -= ROWS_PER_LOOK as i64;
            let is_done = columns.hand_on(calls, ROWS_PER_LOOK, |key, others| {
                let (number, new) = groups.find_or_add(key);
                if new {
                    *in_texts += row_bytes(key) - size_of_val(key);
                    *in_texts += others.iter().map(State::heap_bytes).sum::<usize>();
                    states.push(others.iter().cloned());
                    return Ok(());
                }
                columns::combine(states.row_mut(number), others, env)
            })?;
            ex.check_cancel()?;
            if is_done {
                break true;
            }
        };
        Ok(is_done)
    }

    /// Without groups, for the input or a part of it.
    fn begin_pass(&mut self, keys: &[Expr], calls: &[AggregateCall]) {
        self.disk_bytes_max = self.disk_bytes_max.max(self.later_on_disk());
        self.groups = Groups::new(keys.len());
        self.extras = calls.iter().map(|call| Extra::new(call, !keys.is_empty())).collect();
        self.states = RowStore::new(calls.len());
        (self.at, self.call_at, self.in_texts, self.is_full) = (0, 0, 0, false);
        if keys.is_empty() {
            self.groups.find_or_add(&[]);
            self.states.push(calls.iter().map(|call| (call.aggregate.start)()));
        }
    }

    /// Bytes in memory.
    fn bytes(&self, calls: &[AggregateCall]) -> usize {
        self.bytes_of_groups(calls) + self.bytes_of_later()
    }

    fn bytes_of_groups(&self, calls: &[AggregateCall]) -> usize {
        let seen: usize = self.extras.iter().filter_map(|extra| extra.seen.as_ref()).map(Groups::bytes).sum();
        let in_columns = self.columns.as_ref().map_or(0, |columns| columns.bytes());
        in_columns + self.groups.bytes() + self.states.len() * calls.len() * STATE_BYTES + seen + self.in_texts
    }

    fn bytes_of_later(&self) -> usize {
        self.extras.iter().filter_map(|extra| extra.later.as_ref()).map(Sorter::bytes).sum()
    }

    /// What to go on with behind a batch: if memory is full, with putting on disk what can be put
    /// there.
    fn heed_memory(&mut self, calls: &[AggregateCall], is_input: bool, ex: &mut Exec<'_, '_>) -> Phase {
        let (of_groups, of_later) = (self.bytes_of_groups(calls), self.bytes_of_later());
        let go_on = if is_input { Phase::Input } else { Phase::Part };
        if self.memory.hold(ex.cx.memory, of_groups + of_later, Use::Hash) {
            return go_on;
        }
        if let Some(columns) = &mut self.columns {
            if columns.is_at_work() && is_input {
                if let Some(spans) = columns.turn_off() {
                    self.read_rows_of(spans, ex);
                }
                return Phase::Merging(Behind::Input);
            }
            columns.add_no_more();
        }
        if self.is_job {
            // With the groups of its morsel, which is bounded.
            self.dividing.iter().for_each(|dividing| dividing.close());
            return go_on;
        }
        if self.has_jobs() {
            self.dividing.iter().for_each(|dividing| dividing.close());
            return Phase::Joining { is_input };
        }
        let was_full = std::mem::replace(&mut self.is_full, true);
        // What the groups leave is for rows that are kept; something there has to be.
        let bytes_max = Use::Hash.bytes_max(ex.cx.memory);
        let for_later = bytes_max.saturating_sub(of_groups).max(bytes_max / 4);
        if of_later > 0 && (!was_full || of_later > for_later) { Phase::Spilling { place: 0, is_input } } else { go_on }
    }

    fn has_jobs(&self) -> bool {
        self.joining.is_some() || self.dividing.as_ref().is_some_and(|dividing| dividing.has_jobs())
    }

    /// Takes in the groups of jobs that have ended; `false` if there is more to do.
    fn join(&mut self, calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<bool> {
        loop {
            let (mut job, mut at) = match self.joining.take() {
                Some(joining) => joining,
                None => match self.dividing.as_mut().map_or(Ok(Taken::All), |dividing| dividing.take(ex))? {
                    Taken::One(ended) => (Box::new(ended.join(ex.txn).aggregate()?), 0),
                    Taken::Later => return Ok(false),
                    Taken::All => return Ok(true),
                },
            };
            while at < job.run.groups.len() && !ex.is_used_up() {
                let (key, states) = (job.run.groups.key(at), job.run.states.row_mut(at));
                let (number, new) = self.groups.find_or_add(key);
                if new {
                    self.states.push(states.iter().cloned());
                } else {
                    for (state, other) in self.states.row_mut(number).iter_mut().zip(states.iter()) {
                        state.combine(other, ex.cx.env)?;
                    }
                }
                at += 1;
                ex.spend(calls.len().max(1));
            }
            if at < job.run.groups.len() {
                self.joining = Some((job, at));
                ex.check_cancel()?;
                return Ok(false);
            }
            self.in_texts += job.run.in_texts;
            self.memory.hold(ex.cx.memory, self.bytes(calls), Use::Hash);
        }
    }

    /// Gives groups; `Step::Done` after the last one that is in memory.
    fn give(&mut self, keys: &[Expr], calls: &[AggregateCall], ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(keys.len() + calls.len());
        while self.at < self.groups.len() && !out.is_full() {
            if !self.update_later(calls, ex)? {
                return Ok(if out.is_empty() { Step::Yield } else { Step::Rows });
            }
            let row = out.push();
            row[..keys.len()].clone_from_slice(self.groups.key(self.at));
            for (value, state) in row[keys.len()..].iter_mut().zip(self.states.row_mut(self.at)) {
                *value = state.finish()?;
            }
            (self.at, self.call_at) = (self.at + 1, 0);
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }

    /// Hands the group at hand what was kept for it; `false` if the budget is used up before.
    fn update_later(&mut self, calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<bool> {
        while let Some(extra) = self.extras.get_mut(self.call_at) {
            let (Some(later), Some(kept)) = (&mut extra.later, &extra.kept) else {
                self.call_at += 1;
                continue;
            };
            let (call, state) = (&calls[self.call_at], &mut self.states.row_mut(self.at)[self.call_at]);
            let mut looked_at = 0;
            while let Some(row) = later.peek()? {
                if !matches!(row[0], Datum::Int(number) if number as usize == self.at) {
                    break;
                }
                let values = kept.differing(row);
                if !call.distinct || extra.last.is_empty() || !equal_keys(&extra.last, values) {
                    state.update(&kept.arguments(row), ex.cx.env)?;
                    if call.distinct {
                        extra.last = values.iter().cloned().collect();
                    }
                }
                later.skip()?;
                pulse::work(pulse::UNITS_PER_ROW)?;
                looked_at += 1;
                if looked_at % ROWS_PER_LOOK == 0 {
                    ex.spend(ROWS_PER_LOOK);
                    ex.check_cancel()?;
                    if ex.is_used_up() {
                        return Ok(false);
                    }
                }
            }
            self.call_at += 1;
        }
        Ok(true)
    }

    /// Takes in what is left of the batch at hand, up to the end of the part.
    fn take(&mut self, by: &GroupBy, ex: &mut Exec<'_, '_>) -> Result<()> {
        self.find_groups(by, ex)?;
        let mut scope = ex.scope();
        for (place, call) in by.calls.iter().enumerate() {
            self.update(place, call, &by.keys, &mut scope)?;
        }
        self.taken = self.end;
        Ok(())
    }

    /// Finds each row's group, up to the end of the part; puts rows away whose groups there is no
    /// memory for.
    fn find_groups(&mut self, by: &GroupBy, ex: &mut Exec<'_, '_>) -> Result<()> {
        let (keys, calls): (&[Expr], &[AggregateCall]) = (&by.keys, &by.calls);
        self.end = self.fresh.rows();
        if keys.is_empty() {
            return Ok(());
        }
        self.numbers.clear();
        let memory = ex.cx.memory;
        let mut scope = ex.scope();
        let mut buffer: SmallVec<[Datum; 4]> = SmallVec::new();
        for index in self.taken..self.fresh.rows() {
            let row = self.fresh.row(index);
            let mut scratch = Datum::Null;
            let key = if let [key] = keys {
                std::slice::from_ref(key.eval(&mut scope, row, &mut scratch)?)
            } else {
                buffer.clear();
                for key in keys {
                    buffer.push(key.eval_owned(&mut scope, row)?);
                }
                &buffer
            };
            if !by.presorted.is_empty() && (self.is_full || self.part_rows >= self.rows_min) {
                let presorted = by.presorted.iter().map(|&place| &key[place]);
                if self.last.is_empty() {
                    self.last = presorted.cloned().collect();
                } else if !presorted.zip(&self.last).all(|(value, last)| equal_key(value, last)) {
                    self.end = index;
                    break;
                }
            }
            self.part_rows += 1;
            if self.is_full {
                let number = self.groups.find(key);
                if number.is_none() {
                    let values = row_values(calls, row, &mut scope)?;
                    self.leftover.push(memory, hash_values(key.iter()), key.iter().chain(&values))?;
                }
                self.numbers.push(number.map_or(NO_GROUP, |number| number as u32));
                continue;
            }
            let (number, new) = self.groups.find_or_add(key);
            if new {
                self.in_texts += row_bytes(key) - size_of_val(key);
                self.states.push(calls.iter().map(|call| (call.aggregate.start)()));
            }
            self.numbers.push(number as u32);
        }
        Ok(())
    }

    /// A group that is there before any row is.
    fn add_group(&mut self, key: &[Datum], calls: &[AggregateCall]) {
        if self.groups.find_or_add(key).1 {
            self.states.push(calls.iter().map(|call| (call.aggregate.start)()));
        }
    }

    /// Hands the batch to one call.
    fn update(&mut self, place: usize, call: &AggregateCall, keys: &[Expr], scope: &mut Scope<'_>) -> Result<()> {
        let grouped = !keys.is_empty();
        let extra = &self.extras[place];
        let grows = extra.grows;
        let is_plain = extra.seen.is_none() && call.order.is_empty() && !(grows && self.is_full);
        let fresh = std::mem::take(&mut self.fresh);
        for index in self.taken..self.end {
            let row = fresh.row(index);
            let number = if grouped { self.numbers[index - self.taken] } else { 0 };
            if number == NO_GROUP {
                continue;
            }
            if let Some(filter) = &call.filter
                && !filter.eval_condition(scope, row)?
            {
                continue;
            }
            let state = &mut self.states.row_mut(number as usize)[place];
            match call.args.as_slice() {
                [] if is_plain => state.update(&[], scope.env)?,
                [arg] if is_plain => {
                    let mut scratch = Datum::Null;
                    let value = arg.eval(scope, row, &mut scratch)?;
                    if grows || is_to_keep_the_first(state) {
                        self.in_texts += datum_bytes(value);
                    }
                    state.update(&[value], scope.env)?;
                }
                [one, other] if is_plain => {
                    let (mut scratch, mut scratch_of_other) = (Datum::Null, Datum::Null);
                    let one = one.eval(scope, row, &mut scratch)?;
                    let other = other.eval(scope, row, &mut scratch_of_other)?;
                    if grows || is_to_keep_the_first(state) {
                        self.in_texts += datum_bytes(one) + datum_bytes(other);
                    }
                    state.update(&[one, other], scope.env)?;
                }
                args => {
                    let mut values: Values = SmallVec::new();
                    values.push(Datum::Int(number.into()));
                    for arg in args {
                        values.push(arg.eval_owned(scope, row)?);
                    }
                    let mut order: Values = SmallVec::new();
                    if self.is_wanted(place, &values) {
                        for key in &call.order {
                            order.push(key.expr.eval_owned(scope, row)?);
                        }
                        self.hand_over(place, call, grouped, values, order, scope.env)?;
                    }
                }
            }
        }
        self.fresh = fresh;
        Ok(())
    }

    /// Whether a call that wants rows only once may want this one.
    fn is_wanted(&mut self, place: usize, values: &Values) -> bool {
        let Extra { seen: Some(seen), seen_from, .. } = &mut self.extras[place] else { return true };
        let values = &values[*seen_from..];
        if self.is_full {
            return seen.find(values).is_none();
        }
        let (_, new) = seen.find_or_add(values);
        if new {
            self.in_texts += row_bytes(values) - size_of_val(values);
        }
        new
    }

    /// Hands a row to a call, now or later.
    fn hand_over(
        &mut self,
        place: usize,
        call: &AggregateCall,
        grouped: bool,
        values: Values,
        order: Values,
        env: &colibri_types::Env,
    ) -> Result<()> {
        let extra = &mut self.extras[place];
        let may_wait = self.is_full && (extra.grows || extra.seen.is_some());
        if may_wait || !call.order.is_empty() {
            extra.keep(call, grouped, values, order);
            if let Some(later) = &mut extra.later {
                later.sort_full()?;
            }
            return Ok(());
        }
        if extra.grows {
            self.in_texts += row_bytes(&values[1..]);
        }
        let Datum::Int(number) = values[0] else { return Ok(()) };
        let args: SmallVec<[&Datum; 4]> = values[1..].iter().collect();
        let state = &mut self.states.row_mut(number as usize)[place];
        if is_to_keep_the_first(state) {
            self.in_texts += row_bytes(&values[1..]);
        }
        state.update(&args, env)
    }

    /// Takes rows of a part in; `false` if there are no more.
    fn take_from_part(&mut self, keys: &[Expr], calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<bool> {
        let mut row = std::mem::take(&mut self.row);
        row.resize(keys.len() + calls.iter().map(values_of_call).sum::<usize>(), Datum::Null);
        let mut looked_at = 0;
        while looked_at < ROWS_PER_LOOK && self.leftover.read(&mut row)? {
            looked_at += 1;
            let (key, mut values) = row.split_at(keys.len());
            let number = if self.is_full {
                match self.groups.find(key) {
                    Some(number) => number,
                    None => {
                        self.leftover.push(ex.cx.memory, hash_values(key.iter()), &row)?;
                        continue;
                    }
                }
            } else {
                let (number, new) = self.groups.find_or_add(key);
                if new {
                    self.in_texts += row_bytes(key) - size_of_val(key);
                    self.states.push(calls.iter().map(|call| (call.aggregate.start)()));
                }
                number
            };
            for (place, call) in calls.iter().enumerate() {
                let own;
                (own, values) = values.split_at(values_of_call(call));
                let own = match (&call.filter, own) {
                    (Some(_), [Datum::Bool(true), own @ ..]) => own,
                    (Some(_), _) => continue,
                    (None, own) => own,
                };
                let (args, order) = own.split_at(call.args.len());
                let mut given: Values = SmallVec::new();
                given.push(Datum::Int(number as i64));
                given.extend(args.iter().cloned());
                if self.is_wanted(place, &given) {
                    self.hand_over(place, call, true, given, order.iter().cloned().collect(), ex.cx.env)?;
                }
            }
        }
        self.row = row;
        ex.spend(looked_at);
        ex.check_cancel()?;
        Ok(looked_at > 0)
    }
}

/// How many values a row that is put away has for a call.
fn values_of_call(call: &AggregateCall) -> usize {
    usize::from(call.filter.is_some()) + call.args.len() + call.order.len()
}

/// What calls want to know of a row: whether it is wanted, where there is a condition, arguments,
/// keys of the order.
fn row_values(calls: &[AggregateCall], row: &[Datum], scope: &mut Scope<'_>) -> Result<SmallVec<[Datum; 8]>> {
    let mut values = SmallVec::new();
    for call in calls {
        let is_wanted = match &call.filter {
            None => true,
            Some(filter) => {
                let is_wanted = filter.eval_condition(scope, row)?;
                values.push(Datum::Bool(is_wanted));
                is_wanted
            }
        };
        for expr in call.args.iter().chain(call.order.iter().map(|key| &key.expr)) {
            values.push(if is_wanted { expr.eval_owned(scope, row)? } else { Datum::Null });
        }
    }
    Ok(values)
}
