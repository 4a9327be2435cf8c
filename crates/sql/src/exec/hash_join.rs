//! Hash joins: the right side is kept in a hash table, the left side's rows look their partners up.
//!
//! ```text
//! groups: key → number     chains[number]: first and last row     next[row]: the next row with the same key
//! ```
//! Invariants: rows come in the order of the left side, partners in the order of the right side, then, for a right or full
//! join, the right rows without partner. NULL is no key: it has no partner. For a semi or anti join without a condition
//! the table holds keys only.

use super::batch::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use super::group::Groups;
use super::needs::Needs;
use super::{Batch, Exec, Run, Scope, Step, row_bytes};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::plan::{JoinKind, Node};
use crate::value::Datum;

/// No row.
const NONE: u32 = u32::MAX;

/// A hash join at work.
pub(crate) struct HashJoinRun {
    left: Run,
    right: Run,
    phase: Phase,
    fresh: Batch,
    groups: Groups,
    chains: Vec<(u32, u32)>,
    next: Vec<u32>,
    cells: Vec<Datum>,
    rows: usize,
    /// Which right rows have found a partner, where that matters.
    matched_right: Vec<bool>,
    bytes: usize,
    left_rows: Batch,
    /// For each left row, the first right row with its key (the key's number where no rows are kept), or [`NONE`].
    found: Vec<u32>,
    left_at: usize,
    /// The right row to join with next.
    candidate: u32,
    /// Whether the left row at hand has begun.
    open: bool,
    matched: bool,
    unmatched_at: usize,
    ahead: usize,
    /// Whether the table stays right when the join is run again. Worked out when it is.
    keeps_table: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Build,
    Probe,
    Unmatched,
    Done,
}

struct Parts<'p> {
    kind: JoinKind,
    left: &'p Node,
    right: &'p Node,
    left_keys: &'p [Expr],
    right_keys: &'p [Expr],
    on: Option<&'p Expr>,
    left_width: usize,
    right_width: usize,
}

fn parts(node: &Node) -> Result<Parts<'_>> {
    match node {
        Node::HashJoin { kind, left, right, left_keys, right_keys, on, left_width, right_width } => Ok(Parts {
            kind: *kind,
            left,
            right,
            left_keys,
            right_keys,
            on: on.as_ref(),
            left_width: *left_width,
            right_width: *right_width,
        }),
        _ => Err(Error::internal("a hash join was given another node")),
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
    pub(super) fn new(left: &Node, right: &Node) -> Self {
        Self {
            left: Run::new(left),
            right: Run::new(right),
            phase: Phase::Build,
            fresh: Batch::new(),
            groups: Groups::new(0),
            chains: Vec::new(),
            next: Vec::new(),
            cells: Vec::new(),
            rows: 0,
            matched_right: Vec::new(),
            bytes: 0,
            left_rows: Batch::new(),
            found: Vec::new(),
            left_at: 0,
            candidate: NONE,
            open: false,
            matched: false,
            unmatched_at: 0,
            ahead: BATCH_ROWS_FIRST,
            keeps_table: None,
        }
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.left.give_back(ex);
        self.right.give_back(ex);
        ex.give_memory(std::mem::take(&mut self.bytes));
    }

    /// Back to the start, with the table as it is; `false` if it has to be built anew.
    pub(super) fn rewind(&mut self, node: &Node, ex: &mut Exec<'_, '_>) -> bool {
        let Node::HashJoin { left, right, right_keys, .. } = node else { return false };
        if self.phase == Phase::Build {
            return false;
        }
        let keeps = *self.keeps_table.get_or_insert_with(|| {
            let keys = Needs::of_exprs(right_keys);
            let rows = Needs::of(right);
            !(keys.slots || keys.volatile || rows.slots || rows.volatile)
        });
        if keeps {
            self.left.rewind(left, ex);
            self.phase = Phase::Probe;
            self.matched_right.fill(false);
            self.left_rows.reset(0);
            self.left_at = 0;
            self.open = false;
            self.unmatched_at = 0;
            self.ahead = BATCH_ROWS_FIRST;
        }
        keeps
    }

    pub(super) fn step(&mut self, node: &Node, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let parts = parts(node)?;
        loop {
            match self.phase {
                Phase::Build => {
                    let step = self.build(&parts, ex)?;
                    if step == Step::Yield {
                        return Ok(Step::Yield);
                    }
                    let never = self.rows == 0 && matches!(parts.kind, JoinKind::Inner | JoinKind::Right)
                        || self.groups.len() == 0 && parts.kind == JoinKind::Semi;
                    self.phase = if never { Phase::Done } else { Phase::Probe };
                }
                Phase::Probe => {
                    let step = self.probe(&parts, ex, out)?;
                    if step != Step::Done {
                        return Ok(step);
                    }
                    self.phase = if parts.gives_right() { Phase::Unmatched } else { Phase::Done };
                }
                Phase::Unmatched => {
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                    out.reset(parts.width());
                    while self.unmatched_at < self.rows && !out.is_full() {
                        let row = self.unmatched_at;
                        self.unmatched_at += 1;
                        if !self.matched_right[row] {
                            let joined = out.push();
                            joined[..parts.left_width].fill(Datum::Null);
                            let cells = &self.cells[row * parts.right_width..(row + 1) * parts.right_width];
                            joined[parts.left_width..].clone_from_slice(cells);
                        }
                    }
                    ex.spend(out.rows());
                    if !out.is_empty() {
                        return Ok(Step::Rows);
                    }
                    self.phase = Phase::Done;
                }
                Phase::Done => return Ok(Step::Done),
            }
        }
    }

    fn build(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        if self.rows == 0 && self.groups.len() == 0 {
            self.groups = Groups::new(parts.right_keys.len());
        }
        let mut buffer = Vec::new();
        loop {
            let step = self.right.step(parts.right, ex, &mut self.fresh)?;
            if step != Step::Rows {
                if step == Step::Done {
                    self.right.give_back(ex);
                    self.matched_right = if parts.gives_right() { vec![false; self.rows] } else { Vec::new() };
                }
                return Ok(step);
            }
            let mut texts = 0;
            let mut scope = ex.scope();
            for index in 0..self.fresh.rows() {
                let row = self.fresh.row(index);
                let groups = &mut self.groups;
                let number = with_key(parts.right_keys, &mut scope, row, &mut buffer, |key| {
                    let (number, new) = groups.find_or_add(key);
                    texts += if new { row_bytes(key) - size_of_val(key) } else { 0 };
                    number
                })?;
                if !parts.keeps_rows() || number.is_none() && !parts.gives_right() {
                    continue;
                }
                let place = u32::try_from(self.rows).unwrap_or(NONE);
                if place == NONE {
                    return Err(Error::internal("a hash table of 2^32 rows"));
                }
                self.rows += 1;
                self.next.push(NONE);
                let row = self.fresh.row_mut(index);
                texts += row_bytes(row) - size_of_val(row);
                self.cells.extend(row.iter_mut().map(std::mem::take));
                match number {
                    Some(number) if number == self.chains.len() => self.chains.push((place, place)),
                    Some(number) => {
                        let (_, last) = &mut self.chains[number];
                        self.next[*last as usize] = place;
                        *last = place;
                    }
                    None => {}
                }
            }
            let taken = self.groups.bytes() + self.cells.capacity() * size_of::<Datum>() + self.next.capacity() * 12;
            let more = (taken + texts).saturating_sub(self.bytes);
            self.bytes += more;
            ex.take_memory(more)?;
        }
    }

    /// The next left rows, with the numbers of their keys.
    fn next_left(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        self.left_at = 0;
        self.open = false;
        self.left_rows.want(self.ahead);
        self.ahead = (self.ahead * 2).min(BATCH_ROWS_MAX);
        let step = self.left.step(parts.left, ex, &mut self.left_rows)?;
        if step != Step::Rows {
            self.left_rows.reset(0);
            return Ok(step);
        }
        // All keys of a batch are looked up side by side, and their rows fetched: the cache misses overlap.
        self.found.clear();
        let mut buffer = Vec::new();
        let mut scope = ex.scope();
        for row in self.left_rows.iter() {
            let groups = &self.groups;
            let number = with_key(parts.left_keys, &mut scope, row, &mut buffer, |key| groups.find(key))?;
            self.found.push(number.flatten().map_or(NONE, |number| number as u32));
        }
        if parts.keeps_rows() {
            for found in self.found.iter_mut().filter(|found| **found != NONE) {
                *found = self.chains[*found as usize].0;
            }
            let mut nulls = 0;
            for found in self.found.iter().filter(|found| **found != NONE) {
                nulls += usize::from(self.cells.get(*found as usize * parts.right_width).is_some_and(Datum::is_null));
            }
            std::hint::black_box(nulls);
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
                    ex.spend(out.rows());
                    return Ok(Step::Rows);
                }
                if !self.open {
                    self.open = true;
                    self.matched = false;
                    self.candidate = self.found[self.left_at];
                    if self.candidate != NONE && !parts.keeps_rows() {
                        self.matched = true;
                        self.candidate = NONE;
                    }
                }
                if !self.join_candidates(parts, ex, out)? {
                    continue;
                }
                self.end_left_row(parts, out);
            }
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
            let step = self.next_left(parts, ex)?;
            if step != Step::Rows {
                return Ok(step);
            }
        }
    }

    /// Joins the left row at hand with its candidates; `false` if the batch is full before they are through.
    fn join_candidates(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<bool> {
        let only_left = matches!(parts.kind, JoinKind::Semi | JoinKind::Anti);
        while self.candidate != NONE {
            if out.is_full() {
                return Ok(false);
            }
            let candidate = self.candidate as usize;
            self.candidate = self.next[candidate];
            let right = &self.cells[candidate * parts.right_width..(candidate + 1) * parts.right_width];
            let left = self.left_rows.row(self.left_at);
            if only_left {
                let joined: Vec<Datum> = left.iter().chain(right).cloned().collect();
                if parts.on.is_none_or_true(&mut ex.scope(), &joined)? {
                    self.matched = true;
                    self.candidate = NONE;
                }
                continue;
            }
            out.push_joined(left, right);
            if parts.on.is_some() && !parts.on.is_none_or_true(&mut ex.scope(), out.row(out.rows() - 1))? {
                out.pop();
                continue;
            }
            self.matched = true;
            if parts.gives_right() {
                self.matched_right[candidate] = true;
            }
        }
        // The row alone may still need a place.
        Ok(!out.is_full() || self.matched && !only_left)
    }

    fn end_left_row(&mut self, parts: &Parts<'_>, out: &mut Batch) {
        let left = self.left_rows.row_mut(self.left_at);
        self.left_at += 1;
        self.open = false;
        match parts.kind {
            JoinKind::Left | JoinKind::Full if !self.matched => {
                let (front, back) = out.push().split_at_mut(parts.left_width);
                front.swap_with_slice(left);
                back.fill(Datum::Null);
            }
            JoinKind::Semi if self.matched => out.push_taken(left),
            JoinKind::Anti if !self.matched => out.push_taken(left),
            _ => {}
        }
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
