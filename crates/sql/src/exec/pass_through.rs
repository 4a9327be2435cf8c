//! Operators that hand rows through: Filter, Project, Limit, Append.
//!
//! Invariants: Project and Limit ask their input for no more rows than are asked of them; Filter reads ahead, 16 rows at
//! first, unless its condition is the same for all of them. A Limit that has given all its rows does not touch its input again, and one of 0 rows never does.

use colibri_types::{Datum, Error, Result, SqlState, pulse};

use super::batch::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use super::{Batch, Exec, Run, Step};
use crate::expr::Expr;
use crate::expr::walk;
use crate::plan::Node;

/// A filter at work.
pub(crate) struct FilterRun {
    pub(super) input: Run,
    gate: Gate,
    rows: Batch,
    at: usize,
    ahead: usize,
}

/// What is known of a condition that depends on no row: it is looked at once, before the input is touched.
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
    pub(super) fn new(input: &Node, condition: &Expr) -> Self {
        let gate = if walk::depends_on_no_row(condition) { Gate::Unknown } else { Gate::None };
        Self { input: Run::new(input), gate, rows: Batch::new(), at: 0, ahead: BATCH_ROWS_FIRST }
    }

    pub(super) fn again(&mut self, input: &Node) -> bool {
        self.forget();
        self.rows = std::mem::take(&mut self.rows).kept();
        self.input.again(input)
    }

    pub(super) fn rewind(&mut self, input: &Node, ex: &mut Exec<'_, '_>) {
        self.input.rewind(input, ex);
        self.forget();
    }

    fn forget(&mut self) {
        if self.gate != Gate::None {
            self.gate = Gate::Unknown;
        }
        self.rows.reset(0);
        self.at = 0;
        self.ahead = BATCH_ROWS_FIRST;
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        condition: &Expr,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        if self.gate == Gate::Unknown {
            let is_open = condition.eval_condition(&mut ex.scope(), &[])?;
            self.gate = if is_open { Gate::Open } else { Gate::Closed };
        }
        match self.gate {
            Gate::Closed => return Ok(Step::Done),
            Gate::Open => return self.input.step(input, ex, out),
            Gate::None | Gate::Unknown => {}
        }
        loop {
            out.reset(self.rows.width());
            let mut scope = ex.scope();
            while self.at < self.rows.rows() && !out.is_full() {
                let row = self.rows.row_mut(self.at);
                self.at += 1;
                if condition.eval_condition(&mut scope, row)? {
                    out.push_taken(row);
                }
            }
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
            self.at = 0;
            self.rows.want(self.ahead);
            self.ahead = (self.ahead * 2).min(BATCH_ROWS_MAX);
            match self.input.step(input, ex, &mut self.rows)? {
                Step::Rows => {}
                other => {
                    self.rows.reset(0);
                    return Ok(other);
                }
            }
        }
    }
}

/// A projection at work.
pub(crate) struct ProjectRun {
    pub(super) input: Run,
    rows: Batch,
    /// Rows of those that are done.
    at: usize,
    /// Values of the next one, if the statement had to sleep in the middle of it.
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
    pub(super) fn new(input: &Node, exprs: &[Expr]) -> Self {
        Self { input: Run::new(input), rows: Batch::new(), at: 0, begun: Vec::new(), moves: only_moves(exprs) }
    }

    pub(super) fn again(&mut self, input: &Node) -> bool {
        self.rows = std::mem::take(&mut self.rows).kept();
        self.at = 0;
        self.begun = Vec::new();
        self.input.again(input)
    }

    pub(super) fn rewind(&mut self, input: &Node, ex: &mut Exec<'_, '_>) {
        self.rows.reset(0);
        self.at = 0;
        self.begun.clear();
        self.input.rewind(input, ex);
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        exprs: &[Expr],
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        if self.at >= self.rows.rows() {
            self.at = 0;
            self.rows.want(out.rows_max());
            match self.input.step(input, ex, &mut self.rows)? {
                Step::Rows => {}
                other => {
                    self.rows.reset(0);
                    return Ok(other);
                }
            }
        }
        out.reset(exprs.len());
        let mut scope = ex.scope();
        while self.at < self.rows.rows() && !out.is_full() {
            let row = self.rows.row_mut(self.at);
            let values = out.push();
            let begun = take_up(&mut self.begun, values);
            for (place, expr) in exprs.iter().enumerate().skip(begun) {
                let value = &mut values[place];
                match expr {
                    Expr::Column(column) if self.moves => std::mem::swap(value, &mut row[*column]),
                    Expr::Const(Datum::Null) => *value = Datum::Null,
                    _ => {
                        *value = expr.eval_owned(&mut scope, row)?;
                        if pulse::is_to_sleep() {
                            return Ok(put_aside(&mut self.begun, place, out));
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

/// Puts the last row aside behind the value that the statement has to sleep for. Those before it
/// may be told after the sleep.
#[cold]
pub(super) fn put_aside(begun: &mut Vec<Datum>, place: usize, out: &mut Batch) -> Step {
    let last = out.rows() - 1;
    begun.extend(out.row_mut(last)[..=place].iter_mut().map(std::mem::take));
    out.truncate(last);
    if out.is_empty() { Step::Yield } else { Step::Rows }
}

/// LIMIT and OFFSET at work.
pub(crate) struct LimitRun {
    pub(super) input: Run,
    /// Rows still to be left out, and still to be given.
    left: Option<(u64, u64)>,
}

impl LimitRun {
    pub(super) fn new(input: &Node) -> Self {
        Self { input: Run::new(input), left: None }
    }

    pub(super) fn again(&mut self, input: &Node) -> bool {
        self.left = None;
        self.input.again(input)
    }

    pub(super) fn rewind(&mut self, input: &Node, ex: &mut Exec<'_, '_>) {
        self.input.rewind(input, ex);
        self.left = None;
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        let (mut skip, mut left) = match self.left {
            Some(counts) => counts,
            None => {
                let skip = count(offset, SqlState::BAD_OFFSET, "OFFSET", ex)?.unwrap_or(0);
                (skip, count(limit, SqlState::BAD_LIMIT, "LIMIT", ex)?.unwrap_or(u64::MAX))
            }
        };
        self.left = Some((skip, left));
        if left == 0 {
            return Ok(Step::Done);
        }
        let wanted = out.rows_max();
        while skip > 0 {
            out.want(skip.min(BATCH_ROWS_MAX as u64) as usize);
            let step = self.input.step(input, ex, out);
            let skipped = out.rows() as u64;
            out.want(wanted);
            out.truncate(0);
            match step? {
                Step::Rows => skip -= skipped,
                other => return Ok(other),
            }
            self.left = Some((skip, left));
        }
        out.want((wanted as u64).min(left) as usize);
        let step = self.input.step(input, ex, out);
        out.want(wanted);
        let step = step?;
        left -= if step == Step::Rows { out.rows() as u64 } else { 0 };
        self.left = Some((0, left));
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
pub(crate) struct AppendRun {
    /// Of the input at hand.
    input: Option<Run>,
    done: usize,
    keeps_order: bool,
}

impl AppendRun {
    pub(super) fn new(_inputs: &[Node]) -> Self {
        Self { input: None, done: 0, keeps_order: true }
    }

    pub(super) fn forget_order(&mut self) {
        self.keeps_order = false;
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.iter_mut().for_each(|input| input.give_back(ex));
    }

    pub(super) fn step(&mut self, inputs: &[Node], ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        while let Some(node) = inputs.get(self.done) {
            let keeps_order = self.keeps_order;
            let input = self.input.get_or_insert_with(|| {
                let mut input = Run::new(node);
                if !keeps_order {
                    input.forget_order();
                }
                input
            });
            match input.step(node, ex, out)? {
                Step::Done => {
                    input.give_back(ex);
                    self.input = None;
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
