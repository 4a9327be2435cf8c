//! Operators that hand rows through: Filter, Project, Limit, Append.
//!
//! Invariants: Project and Limit ask their input for no more rows than are asked of them; Filter
//! reads ahead, 16 rows at first, unless its condition is the same for all of them. A Limit that
//! has given all its rows does not touch its input again, and one of 0 rows never does.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result, SqlState, pulse};
use smallvec::smallvec;

use super::ahead::Ahead;
use super::batch::BATCH_ROWS_MAX;
use super::fixed_parts::Conditions;
use super::operator::{Operator, Run};
use super::sorter::KeyOrder;
use super::{Batch, Exec, Scope, Step};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::expr::walk;
use crate::plan::{Exprs, Node};

/// A filter at work.
pub(super) struct FilterRun {
    input: Run,
    condition: Conditions,
    gate: Gate,
    rows: Batch,
    at: usize,
    ahead: Ahead,
}

/// What is known of a condition that depends on no row: it is looked at once, before the input is
/// touched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// The condition depends on the rows.
    None,
    /// Nobody has looked yet.
    Unknown,
    Open,
    Closed,
}

impl FilterRun {
    pub(super) fn new(input: Run, condition: &Arc<Expr>) -> Self {
        let gate = if walk::depends_on_no_row(condition) { Gate::Unknown } else { Gate::None };
        let condition = Conditions::new(smallvec![Expr::clone(condition)]);
        Self { input, condition, gate, rows: Batch::new(), at: 0, ahead: Ahead::default() }
    }

    fn forget(&mut self) {
        if self.gate != Gate::None {
            self.gate = Gate::Unknown;
        }
        self.rows.reset(0);
        self.at = 0;
        self.ahead = Ahead::default();
    }
}

impl Operator for FilterRun {
    fn reset(&mut self) {
        self.forget();
        self.rows = std::mem::take(&mut self.rows).kept();
        self.condition.reset();
        self.input.reset();
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.rewind(ex);
        self.forget();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
    }

    fn forget_order(&mut self) {
        self.input.forget_order();
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if self.gate == Gate::Unknown {
            let is_open = match is_true(self.condition.get(), &mut ex.scope(), &[]) {
                Ok(is_open) => is_open,
                Err(error) => return ex.interrupted(error, out),
            };
            self.gate = if is_open { Gate::Open } else { Gate::Closed };
        }
        match self.gate {
            Gate::Closed => return Ok(Step::Done),
            Gate::Open => return self.input.step(ex, out),
            Gate::None | Gate::Unknown => self.condition.settle(&mut ex.scope()),
        }
        loop {
            out.reset(self.rows.width());
            let mut scope = ex.scope();
            while self.at < self.rows.rows() && !out.is_full() {
                let row = self.rows.row_mut(self.at);
                match is_true(self.condition.get(), &mut scope, row) {
                    Ok(true) => out.push_taken(row),
                    Ok(false) => {}
                    Err(error) => return ex.interrupted(error, out),
                }
                self.at += 1;
            }
            if !out.is_empty() {
                self.ahead.note_given(out.rows());
                return Ok(Step::Rows);
            }
            self.at = 0;
            self.rows.want(self.ahead.next(out));
            match self.input.step(ex, &mut self.rows)? {
                Step::Rows => self.ahead.note_read(self.rows.rows()),
                other => {
                    self.rows.reset(0);
                    return Ok(other);
                }
            }
        }
    }
}

/// Whether all conditions are true.
#[inline]
fn is_true(conditions: &[Expr], scope: &mut Scope<'_>, row: &[Datum]) -> Result<bool> {
    for condition in conditions {
        if !condition.eval_condition(scope, row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A projection at work.
pub(super) struct ProjectRun {
    input: Run,
    exprs: Exprs,
    rows: Batch,
    /// Rows of those that are done.
    at: usize,
    /// Values of the next one, if the statement could not go on in the middle of it.
    begun: Vec<Datum>,
    /// It only puts values elsewhere, each to one place.
    moves: bool,
}

/// Whether a projection gives constants and columns, none of them twice.
fn only_moves(exprs: &[Expr]) -> bool {
    let mut given = Vec::new();
    exprs.iter().all(|expr| match expr {
        Expr::Const(_) => true,
        Expr::Column(column) => {
            if given.len() <= *column {
                given.resize(*column + 1, false);
            }
            !std::mem::replace(&mut given[*column], true)
        }
        _ => false,
    })
}

impl ProjectRun {
    pub(super) fn new(mut input: Run, exprs: &Exprs) -> Self {
        let mut looked_at = Vec::new();
        for expr in exprs.iter() {
            walk::for_each_column(expr, &mut |column| looked_at.push(column));
        }
        input.look_at(&looked_at);
        let moves = only_moves(exprs);
        Self { input, exprs: Arc::clone(exprs), rows: Batch::new(), at: 0, begun: Vec::new(), moves }
    }
}

impl Operator for ProjectRun {
    fn reset(&mut self) {
        self.rows = std::mem::take(&mut self.rows).kept();
        self.at = 0;
        self.begun = Vec::new();
        self.input.reset();
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.rows.reset(0);
        self.at = 0;
        self.begun.clear();
        self.input.rewind(ex);
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
    }

    fn forget_order(&mut self) {
        self.input.forget_order();
    }

    fn skip(&mut self, rows: u64, ex: &mut Exec<'_, '_>) -> Result<u64> {
        if self.moves { self.input.skip(rows, ex) } else { Ok(0) }
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if self.at >= self.rows.rows() {
            self.at = 0;
            self.rows.want(out.rows_max());
            // All of them go to `out` at once.
            self.rows.want_count_only(self.moves && out.counts_only());
            match self.input.step(ex, &mut self.rows)? {
                Step::Rows => {}
                other => {
                    self.rows.reset(0);
                    return Ok(other);
                }
            }
        }
        out.reset(self.exprs.len());
        let mut scope = ex.scope();
        if self.rows.counts_only() {
            (self.at..self.rows.rows()).for_each(|_| _ = out.push());
            self.at = self.rows.rows();
        }
        while self.at < self.rows.rows() && !out.is_full() {
            let row = self.rows.row_mut(self.at);
            let values = out.push();
            let begun = take_up(&mut self.begun, values);
            for (place, expr) in self.exprs.iter().enumerate().skip(begun) {
                let value = &mut values[place];
                match expr {
                    Expr::Column(column) if self.moves => std::mem::swap(value, &mut row[*column]),
                    Expr::Const(Datum::Null) => *value = Datum::Null,
                    _ => {
                        match expr.eval_owned(&mut scope, row) {
                            Ok(computed) => *value = computed,
                            Err(error) => {
                                put_aside(&mut self.begun, place, out);
                                return ex.interrupted(error, out);
                            }
                        }
                        if pulse::is_to_sleep() {
                            return Ok(put_aside(&mut self.begun, place + 1, out));
                        }
                    }
                }
            }
            self.at += 1;
        }
        Ok(Step::Rows)
    }
}

/// Goes on with a row in the middle of which the statement had to sleep: how many of its values are
/// there.
#[inline]
pub(super) fn take_up(begun: &mut Vec<Datum>, values: &mut [Datum]) -> usize {
    let count = begun.len();
    if count > 0 {
        values.iter_mut().zip(begun.drain(..)).for_each(|(value, begun)| *value = begun);
    }
    count
}

/// Puts the first `count` values of the last row aside, as the statement cannot go on in the middle
/// of it now. The rows before it may be told.
#[cold]
pub(super) fn put_aside(begun: &mut Vec<Datum>, count: usize, out: &mut Batch) -> Step {
    let last = out.rows() - 1;
    begun.extend(out.row_mut(last)[..count].iter_mut().map(std::mem::take));
    out.truncate(last);
    if out.is_empty() { Step::Yield } else { Step::Rows }
}

/// Whether rows come from a table through nothing that looks at their values.
pub(super) fn only_moves_rows(node: &Node) -> bool {
    match node {
        Node::Scan(_) => true,
        Node::Project { input, exprs } => only_moves(exprs) && matches!(**input, Node::Scan(_)),
        _ => false,
    }
}

/// LIMIT and OFFSET at work.
pub(super) struct LimitRun {
    input: Run,
    limit: Option<Expr>,
    offset: Option<Expr>,
    /// Rows still to be left out, and still to be given.
    left: Option<(u64, u64)>,
    /// Nobody between here and what reads a table looks at values.
    may_count: bool,
    /// Columns in which rows behind the limit are equal to the last one, and what that has in them
    /// once it has been given.
    ties: Arc<[usize]>,
    last: Vec<Datum>,
}

impl LimitRun {
    pub(super) fn new(
        input: Run,
        (limit, offset): (Option<&Expr>, Option<&Expr>),
        ties: &Arc<[usize]>,
        may_count: bool,
    ) -> Self {
        let (limit, offset, ties) = (limit.cloned(), offset.cloned(), Arc::clone(ties));
        Self { input, limit, offset, left: None, may_count, ties, last: Vec::new() }
    }

    /// Rows behind the limit, as long as they are equal to its last one.
    fn step_ties(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let step = self.input.step(ex, out)?;
        if step != Step::Rows {
            return Ok(step);
        }
        let by = KeyOrder::ascending(0);
        let is_tie = |row: &[Datum]| {
            self.ties.iter().zip(&self.last).all(|(&column, last)| by.compare(&row[column], last).is_eq())
        };
        let ties = (0..out.rows()).take_while(|&at| is_tie(out.row(at))).count();
        if ties < out.rows() {
            out.truncate(ties);
            self.last.clear();
        }
        Ok(if ties == 0 { Step::Done } else { Step::Rows })
    }
}

impl Operator for LimitRun {
    fn reset(&mut self) {
        self.left = None;
        self.last = Vec::new();
        self.input.reset();
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.rewind(ex);
        self.left = None;
        self.last.clear();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let (limit, offset) = (self.limit.as_ref(), self.offset.as_ref());
        let (mut skip, mut left) = match self.left {
            Some(counts) => counts,
            None => {
                let counts = count(offset, SqlState::BAD_OFFSET, "OFFSET", ex)
                    .and_then(|skip| Ok((skip, count(limit, SqlState::BAD_LIMIT, "LIMIT", ex)?)));
                match counts {
                    Ok((skip, left)) => (skip.unwrap_or(0), left.unwrap_or(u64::MAX)),
                    Err(error) => return ex.interrupted(error, out),
                }
            }
        };
        let is_first = self.left.is_none();
        self.left = Some((skip, left));
        if left == 0 {
            return if self.last.is_empty() { Ok(Step::Done) } else { self.step_ties(ex, out) };
        }
        if is_first && skip > 0 && self.may_count {
            match self.input.skip(skip, ex) {
                Ok(skipped) => skip -= skipped,
                Err(error) => {
                    self.left = None;
                    return ex.interrupted(error, out);
                }
            }
            self.left = Some((skip, left));
        }
        let wanted = out.wanted();
        while skip > 0 {
            out.want(skip.min(BATCH_ROWS_MAX as u64) as usize);
            out.want_count_only(self.may_count);
            let step = self.input.step(ex, out);
            let skipped = out.rows() as u64;
            out.want_count_only(false);
            out.want(wanted);
            out.truncate(0);
            match step? {
                Step::Rows => skip -= skipped,
                other => return Ok(other),
            }
            self.left = Some((skip, left));
        }
        out.want((wanted as u64).min(left) as usize);
        let step = self.input.step(ex, out);
        out.want(wanted);
        let step = step?;
        left -= if step == Step::Rows { out.rows() as u64 } else { 0 };
        self.left = Some((0, left));
        if left == 0 && step == Step::Rows {
            let last = out.row(out.rows() - 1);
            self.last = self.ties.iter().map(|&column| last[column].clone()).collect();
        }
        Ok(step)
    }
}

/// `None`: all, as NULL says.
fn count(expr: Option<&Expr>, state: SqlState, what: &str, ex: &mut Exec<'_, '_>) -> Result<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    match expr.eval_owned(&mut ex.scope(), &[])? {
        Datum::Null => Ok(None),
        Datum::Int(count) => match u64::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(Error::new(state, format!("{what} must not be negative"))),
        },
        _ => Err(Error::internal(format!("{what} is not an integer"))),
    }
}

/// UNION ALL at work.
pub(super) struct AppendRun {
    inputs: Vec<Run>,
    /// How many of them have given all their rows.
    done: usize,
}

impl AppendRun {
    pub(super) fn new(inputs: Vec<Run>) -> Self {
        Self { inputs, done: 0 }
    }

    /// The inputs that may have run.
    fn begun(&mut self) -> impl Iterator<Item = &mut Run> {
        self.inputs.iter_mut().take(self.done + 1)
    }
}

impl Operator for AppendRun {
    fn reset(&mut self) {
        self.begun().for_each(Run::reset);
        self.done = 0;
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.begun().for_each(|input| input.rewind(ex));
        self.done = 0;
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.begun().for_each(|input| input.give_back(ex));
    }

    fn forget_order(&mut self) {
        self.inputs.iter_mut().for_each(Run::forget_order);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        while let Some(input) = self.inputs.get_mut(self.done) {
            match input.step(ex, out)? {
                Step::Done => {
                    input.give_back(ex);
                    self.done += 1;
                    // Inputs without rows count as well: there may be thousands of them.
                    ex.spend(1);
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                }
                other => return Ok(other),
            }
        }
        Ok(Step::Done)
    }
}
