//! Hash joins: the right side is kept in a hash table, the left side's rows look their partners up.
//!
//! A right side that is more than a statement may keep is joined part by part, with the left side
//! divided in the same way: see [`spilled`].
//!
//! Invariants: rows come in the order of the left side, partners in the order of the right side,
//! then, for a right or full join, the right rows without partner. If the join is in parts and
//! nobody depends on the order, they come in any. NULL is no key: it has no partner. For a semi or
//! anti join without a condition the table holds keys only.

mod spilled;

use std::sync::Arc;

use colibri_types::{Datum, Error, Result};

use super::ahead::Ahead;
use super::batch::BATCH_ROWS_FIRST;
use super::group::Groups;
use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::row_table::{NONE, RowTable};
use super::{Batch, Exec, Scope, Statement, Step, row_bytes};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;
use crate::plan::{Exprs, JoinKind};
use spilled::Parted;

/// How many rows are linked between looks at the budget.
const LINKED_AT_ONCE: usize = 1024;

/// As many right rows are forgotten to have had a partner in the time that one row takes.
const FORGOTTEN_PER_ROW: usize = 1024;

/// A table of more rows is let go of in steps.
const DROPPED_AT_ONCE_MAX: usize = 16_384;

/// A hash join.
pub(super) struct HashJoin {
    pub(super) kind: JoinKind,
    pub(super) left_keys: Exprs,
    pub(super) right_keys: Exprs,
    pub(super) on: Option<Arc<Expr>>,
    pub(super) left_width: usize,
    pub(super) right_width: usize,
    /// The table stays right when the join is run again.
    pub(super) keeps_table: bool,
    pub(super) run: HashJoinRun,
}

/// A hash join at work.
pub(super) struct HashJoinRun {
    left: Run,
    right: Run,
    phase: Phase,
    fresh: Batch,
    table: Table,
    /// The most places that the table had.
    places: usize,
    /// Which right rows have found a partner, where that matters.
    matched_right: Vec<bool>,
    /// What the kept rows hold besides their values' places.
    in_texts: usize,
    memory: Reservation,
    left_rows: Batch,
    /// The first left rows are there, and nobody has looked at them.
    has_first: bool,
    /// All right rows have been taken in.
    has_table: bool,
    /// For each left row, the first right row with its key (anything else than [`NONE`] where no
    /// rows are kept), or [`NONE`].
    found: Vec<u32>,
    left_at: usize,
    /// The right row to join with next.
    candidate: u32,
    /// The left row at hand, joined with a right one, where that is not given; empty before the
    /// first one.
    joined: Vec<Datum>,
    /// Whether the left row at hand has begun.
    open: bool,
    matched: bool,
    unmatched_at: usize,
    ahead: Ahead,
    /// The join was run again, and whether its table stayed right.
    keeps_table: Option<bool>,
    /// What is kept is not counted any more.
    is_given_back: bool,
    has_dropped: bool,
    /// Somebody depends on the order of the left side.
    keeps_order: bool,
    /// The join in parts, if it has come to that.
    parted: Option<Box<Parted>>,
}

/// What is kept of the right side.
enum Table {
    Rows(RowTable),
    /// Where rows do not matter.
    Keys(Groups),
}

impl Table {
    fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Keys(keys) => keys.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Keys(keys) => keys.bytes(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    /// Without left rows nobody asks for the right side.
    First,
    Build,
    Link,
    Probe,
    Unmatched,
    /// Nobody needs the table any more.
    Drop,
    Done,
    /// The join is in parts.
    Parted(spilled::Phase),
}

/// What a hash join goes by.
struct Parts<'p> {
    kind: JoinKind,
    left_keys: &'p [Expr],
    right_keys: &'p [Expr],
    on: Option<&'p Expr>,
    left_width: usize,
    right_width: usize,
}

impl Operator for HashJoin {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let parts = Parts {
            kind: self.kind,
            left_keys: &self.left_keys,
            right_keys: &self.right_keys,
            on: self.on.as_deref(),
            left_width: self.left_width,
            right_width: self.right_width,
        };
        let step = self.run.step(&parts, ex, out)?;
        if step == Step::Rows {
            self.run.ahead.note_given(out.rows());
        }
        Ok(step)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.rewind(self.kind, self.keeps_table, ex);
    }

    fn reset(&mut self) {
        self.run.forget();
        self.run.left.reset();
        self.run.right.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        let run = &mut self.run;
        run.left.give_back(ex);
        run.right.give_back(ex);
        run.memory.release();
        run.parted = None;
        run.is_given_back = true;
    }

    fn forget_order(&mut self) {
        self.run.keeps_order = false;
        self.run.left.forget_order();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        Some(self.run.usage())
    }
}

impl Parts<'_> {
    fn width(&self) -> usize {
        match self.kind {
            JoinKind::Semi | JoinKind::Anti => self.left_width,
            _ => self.left_width + self.right_width,
        }
    }

    fn keeps_rows(&self) -> bool {
        self.on.is_some() || !matches!(self.kind, JoinKind::Semi | JoinKind::Anti)
    }

    fn gives_right(&self) -> bool {
        matches!(self.kind, JoinKind::Right | JoinKind::Full)
    }
}

/// Evaluates a row's keys and hands them on; `None` if one is NULL.
#[inline]
fn with_key<T>(
    keys: &[Expr],
    scope: &mut Scope<'_>,
    row: &[Datum],
    buffer: &mut Vec<Datum>,
    take: impl FnOnce(&[Datum]) -> T,
) -> Result<Option<T>> {
    if let [key] = keys {
        let mut scratch = Datum::Null;
        let key = key.eval(scope, row, &mut scratch)?;
        return Ok(if key.is_null() { None } else { Some(take(std::slice::from_ref(key))) });
    }
    buffer.clear();
    for key in keys {
        let value = key.eval_owned(scope, row)?;
        if value.is_null() {
            return Ok(None);
        }
        buffer.push(value);
    }
    Ok(Some(take(buffer)))
}

impl HashJoinRun {
    pub(super) fn new(left: Run, right: Run) -> Self {
        Self {
            left,
            right,
            phase: Phase::Start,
            fresh: Batch::new(),
            table: Table::Keys(Groups::new(0)),
            places: 0,
            matched_right: Vec::new(),
            in_texts: 0,
            memory: Reservation::default(),
            left_rows: Batch::new(),
            has_first: false,
            has_table: false,
            found: Vec::new(),
            left_at: 0,
            candidate: NONE,
            joined: Vec::new(),
            open: false,
            matched: false,
            unmatched_at: 0,
            ahead: Ahead::default(),
            keeps_table: None,
            is_given_back: false,
            has_dropped: false,
            keeps_order: true,
            parted: None,
        }
    }

    /// Back to the start with nothing kept, but for the inputs.
    fn forget(&mut self) {
        let (left, right, keeps_order) = (self.left.take(), self.right.take(), self.keeps_order);
        *self = Self { keeps_order, ..Self::new(left, right) };
    }

    fn usage(&self) -> Usage {
        let (batches, disk_bytes) = self.parted.as_ref().map_or((1, 0), |parted| parted.usage());
        let memory_bytes = self.memory.peak() as u64;
        Usage::Hash { buckets: self.places as u64, spilled: Spilled { memory_bytes, disk_bytes, batches } }
    }

    /// Back to the start: with the table as it is, if that is there and stays right.
    fn rewind(&mut self, kind: JoinKind, keeps: bool, ex: &mut Exec<'_, '_>) {
        let is_built = self.has_table && self.phase != Phase::Link && self.parted.is_none() && !self.is_given_back;
        if !is_built || !keeps || self.has_dropped {
            // Where the table was dropped it is known from now on that it may be needed again.
            let keeps_table = (is_built && self.has_dropped).then_some(keeps);
            self.forget();
            self.keeps_table = keeps_table;
            self.left.rewind(ex);
            self.right.rewind(ex);
            return;
        }
        self.keeps_table = Some(true);
        self.left.rewind(ex);
        // Bug: a join whose right side was empty, and so was done before its table was linked, went
        // on to look keys up in it when it was run again. Consequence: a panic, and the end of the
        // session. Fix: it is done again.
        self.phase = if self.gives_nothing(kind) { Phase::Done } else { Phase::Probe };
        ex.spend(self.matched_right.len() / FORGOTTEN_PER_ROW);
        self.matched_right.fill(false);
        self.left_rows.reset(0);
        self.left_at = 0;
        self.open = false;
        self.unmatched_at = 0;
        self.ahead = Ahead::default();
    }

    fn step(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Start => {
                    self.table = if parts.keeps_rows() {
                        Table::Rows(RowTable::new(parts.right_width, parts.right_keys))
                    } else {
                        Table::Keys(Groups::new(parts.right_keys.len()))
                    };
                    // An inner join is done without left rows if there are no right ones.
                    let keeps_left = matches!(parts.kind, JoinKind::Left | JoinKind::Anti);
                    self.phase = if keeps_left { Phase::First } else { Phase::Build };
                }
                Phase::First => {
                    self.left_rows.want(BATCH_ROWS_FIRST);
                    match self.left.step(ex, &mut self.left_rows)? {
                        Step::Rows => {
                            // They are looked up when the table is there: see `next_left`.
                            self.left_at = self.left_rows.rows();
                            (self.has_first, self.phase) = (true, Phase::Build);
                        }
                        Step::Yield => return Ok(Step::Yield),
                        Step::Done => self.phase = Phase::Done,
                    }
                }
                Phase::Build => match self.build(parts, ex)? {
                    Step::Yield => return Ok(Step::Yield),
                    // More than may be kept.
                    Step::Rows => self.begin_parts(parts, ex)?,
                    Step::Done if self.gives_nothing(parts.kind) => self.phase = Phase::Done,
                    Step::Done => self.phase = Phase::Link,
                },
                Phase::Parted(phase) => {
                    if let Some(step) = self.step_parts(phase, parts, ex, out)? {
                        return Ok(step);
                    }
                }
                Phase::Link => {
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                    ex.check_cancel()?;
                    let linked = match &mut self.table {
                        Table::Rows(rows) => {
                            ex.spend(rows.len().min(LINKED_AT_ONCE));
                            rows.link(LINKED_AT_ONCE)
                        }
                        Table::Keys(_) => true,
                    };
                    if linked {
                        let places = if let Table::Rows(rows) = &self.table { rows.places() } else { self.table.len() };
                        self.places = self.places.max(places);
                        self.phase = Phase::Probe;
                    }
                }
                Phase::Probe => {
                    let step =
                        if self.orders_parts() { self.probe_in_order(parts, ex)? } else { self.probe(parts, ex, out)? };
                    if step != Step::Done {
                        return Ok(step);
                    }
                    self.phase = if parts.gives_right() { Phase::Unmatched } else { self.after_last_row() };
                }
                Phase::Unmatched => {
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                    out.reset(parts.width());
                    let Table::Rows(rows) = &self.table else { return Err(Error::internal("a join kept no rows")) };
                    while self.unmatched_at < rows.len() && !out.is_full() && !ex.is_used_up() {
                        let row = self.unmatched_at;
                        self.unmatched_at += 1;
                        ex.spend(1);
                        if !self.matched_right[row] {
                            let joined = out.push();
                            joined[..parts.left_width].fill(Datum::Null);
                            joined[parts.left_width..].clone_from_slice(&rows.row(row)[..parts.right_width]);
                        }
                    }
                    if !out.is_empty() {
                        return Ok(Step::Rows);
                    }
                    if self.unmatched_at < rows.len() {
                        return Ok(Step::Yield);
                    }
                    self.phase = self.after_last_row();
                }
                Phase::Drop => {
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                    ex.spend(LINKED_AT_ONCE / 4);
                    self.has_dropped = true;
                    let Table::Rows(rows) = &mut self.table else { return Err(Error::internal("a join kept no rows")) };
                    if !rows.drop_some() {
                        self.phase = Phase::Done;
                    }
                }
                Phase::Done => return Ok(Step::Done),
            }
        }
    }

    /// Whether there is no row to give, whatever the left side has: nothing to join with is there.
    fn gives_nothing(&self, kind: JoinKind) -> bool {
        self.table.is_empty() && matches!(kind, JoinKind::Inner | JoinKind::Right | JoinKind::Semi)
    }

    /// A large table is let go of in steps, since that takes a while; but not if the join has been
    /// run again before.
    fn after_last_row(&self) -> Phase {
        if self.parted.is_some() {
            return Phase::Parted(spilled::Phase::EndPass);
        }
        match &self.table {
            Table::Rows(rows) if rows.len() > DROPPED_AT_ONCE_MAX && self.keeps_table.is_none() => Phase::Drop,
            _ => Phase::Done,
        }
    }

    /// Takes the right side in. `Step::Rows` if that is more than may be kept.
    fn build(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        let mut buffer = Vec::new();
        loop {
            let step = self.right.step(ex, &mut self.fresh)?;
            if step != Step::Rows {
                if step == Step::Done {
                    self.has_table = true;
                    self.right.give_back(ex);
                    self.forget_partners(parts);
                }
                return Ok(step);
            }
            let mut texts = 0;
            let mut scope = ex.scope();
            for index in 0..self.fresh.rows() {
                let row = self.fresh.row(index);
                match &mut self.table {
                    Table::Keys(keys) => {
                        with_key(parts.right_keys, &mut scope, row, &mut buffer, |key| {
                            if keys.find_or_add(key).1 {
                                texts += row_bytes(key) - size_of_val(key);
                            }
                        })?;
                    }
                    Table::Rows(rows) => {
                        let key = with_key(parts.right_keys, &mut scope, row, &mut buffer, |values| rows.key(values))?;
                        if key.is_some() || parts.gives_right() {
                            let row = self.fresh.row_mut(index);
                            texts += row_bytes(row) - size_of_val(row);
                            rows.push(key, row)?;
                        }
                    }
                }
            }
            self.in_texts += texts;
            if !self.memory.hold(ex.cx.memory, self.table.bytes() + self.in_texts, Use::Hash) {
                return Ok(Step::Rows);
            }
        }
    }

    /// No right row has found a partner so far.
    fn forget_partners(&mut self, parts: &Parts<'_>) {
        self.matched_right = match &self.table {
            Table::Rows(rows) if parts.gives_right() => vec![false; rows.len()],
            _ => Vec::new(),
        };
        self.unmatched_at = 0;
    }

    /// The next left rows.
    fn step_left(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        if std::mem::take(&mut self.has_first) {
            return Ok(Step::Rows);
        }
        self.left.step(ex, &mut self.left_rows)
    }

    /// The next left rows, with the numbers of their keys.
    fn next_left(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &Batch) -> Result<Step> {
        self.left_at = 0;
        self.open = false;
        self.left_rows.want(self.ahead.next(out));
        if self.parted.is_some() {
            return self.next_left_of_part(parts, ex);
        }
        let step = self.step_left(ex)?;
        if step != Step::Rows {
            self.left_rows.reset(0);
            return Ok(step);
        }
        self.ahead.note_read(self.left_rows.rows());
        // All keys of a batch are looked up side by side, and their rows fetched: the cache misses
        // overlap.
        self.found.clear();
        let mut buffer = Vec::new();
        let mut scope = ex.scope();
        match &self.table {
            Table::Rows(rows) => {
                if let [Expr::Column(column)] = parts.left_keys {
                    let key = |row: &[Datum]| rows.touch_place(std::slice::from_ref(&row[*column]));
                    std::hint::black_box(self.left_rows.iter().fold(0_u32, |sum, row| sum.wrapping_add(key(row))));
                }
                for row in self.left_rows.iter() {
                    let first = with_key(parts.left_keys, &mut scope, row, &mut buffer, |key| rows.find(key))?;
                    self.found.push(first.unwrap_or(NONE));
                }
                rows.touch(&self.found);
            }
            Table::Keys(keys) => {
                for row in self.left_rows.iter() {
                    let number = with_key(parts.left_keys, &mut scope, row, &mut buffer, |key| keys.find(key))?;
                    self.found.push(if number.flatten().is_some() { 0 } else { NONE });
                }
            }
        }
        Ok(Step::Rows)
    }

    fn probe(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(parts.width());
        loop {
            while self.left_at < self.left_rows.rows() {
                if out.is_full() {
                    return Ok(Step::Rows);
                }
                if ex.is_used_up() {
                    return Ok(if out.is_empty() { Step::Yield } else { Step::Rows });
                }
                if !self.open {
                    ex.spend(1);
                    self.open = true;
                    self.matched = false;
                    self.joined.clear();
                    self.candidate = self.found[self.left_at];
                    if self.candidate != NONE && !parts.keeps_rows() {
                        self.matched = true;
                        self.candidate = NONE;
                    }
                }
                match self.join_candidates(parts, ex, out) {
                    Ok(true) => self.end_left_row(parts, out),
                    Ok(false) => {}
                    Err(error) => return ex.interrupted(error, out),
                }
            }
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
            let step = self.next_left(parts, ex, out)?;
            if step != Step::Rows {
                return Ok(step);
            }
        }
    }

    /// Joins the left row at hand with its candidates; `false` if the batch is full, or the budget
    /// used up, before they are through. Every candidate counts, whether a condition keeps it or
    /// not. After an error it goes on with the same candidate.
    fn join_candidates(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<bool> {
        let only_left = matches!(parts.kind, JoinKind::Semi | JoinKind::Anti);
        let Table::Rows(rows) = &self.table else { return Ok(true) };
        while self.candidate != NONE {
            if out.is_full() || ex.is_used_up() {
                return Ok(false);
            }
            ex.spend(1);
            let candidate = self.candidate as usize;
            self.candidate = rows.next(candidate);
            let right = &rows.row(candidate)[..parts.right_width];
            let left = &mut self.left_rows.row_mut(self.left_at)[..parts.left_width];
            if only_left {
                if self.joined.is_empty() {
                    self.joined.extend(left.iter().cloned());
                }
                self.joined.truncate(parts.left_width);
                self.joined.extend(right.iter().cloned());
                match parts.on.is_none_or_true(&mut ex.scope(), &self.joined) {
                    Ok(true) => {
                        self.matched = true;
                        self.candidate = NONE;
                    }
                    Ok(false) => {}
                    Err(error) => {
                        self.candidate = candidate as u32;
                        return Err(error);
                    }
                }
                continue;
            }
            if self.candidate == NONE && parts.on.is_none() {
                // Nobody needs the left row any more.
                let (front, back) = out.push().split_at_mut(parts.left_width);
                front.swap_with_slice(left);
                back.clone_from_slice(right);
            } else {
                out.push_joined(left, right);
            }
            if parts.on.is_some() {
                let partner = parts.on.is_none_or_true(&mut ex.scope(), out.row(out.rows() - 1));
                if !matches!(partner, Ok(true)) {
                    out.pop();
                }
                match partner {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        self.candidate = candidate as u32;
                        return Err(error);
                    }
                }
            }
            self.matched = true;
            if let Some(parted) = &mut self.parted {
                parted.note_given(self.left_at);
            }
            if parts.gives_right() {
                self.matched_right[candidate] = true;
            }
        }
        // The row alone may still need a place.
        Ok(!out.is_full() || self.matched && !only_left)
    }

    fn end_left_row(&mut self, parts: &Parts<'_>, out: &mut Batch) {
        // Of a part, the right rows at hand may not be all there are.
        let (is_first, is_last) = match &mut self.parted {
            Some(parted) => parted.end_left_row(self.left_at, self.matched),
            None => (true, true),
        };
        let is_alone = !self.matched && is_first && is_last;
        let left = &mut self.left_rows.row_mut(self.left_at)[..parts.left_width];
        match parts.kind {
            JoinKind::Left | JoinKind::Full if is_alone => {
                let (front, back) = out.push().split_at_mut(parts.left_width);
                front.swap_with_slice(left);
                back.fill(Datum::Null);
            }
            JoinKind::Semi if self.matched => out.push_taken(left),
            JoinKind::Anti if is_alone => out.push_taken(left),
            _ => {
                self.left_at += 1;
                self.open = false;
                return;
            }
        }
        if let Some(parted) = &mut self.parted {
            parted.note_given(self.left_at);
        }
        self.left_at += 1;
        self.open = false;
    }
}

/// A condition that may be missing.
trait MaybeCondition {
    fn is_none_or_true(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<bool>;
}

impl MaybeCondition for Option<&Expr> {
    fn is_none_or_true(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<bool> {
        self.map_or(Ok(true), |condition| condition.eval_condition(scope, row))
    }
}
