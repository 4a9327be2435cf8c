//! Grouping and aggregates.
//!
//! Groups get numbers in the order they first appear; each has the states of all calls side by side. A batch is grouped
//! first, and then goes through one call after the other.
//!
//! What an aggregate wants in order (`string_agg(x, ',' ORDER BY y)`) is kept and sorted at the end; what it wants only
//! once (`count(DISTINCT x)`) goes through a table of what each group has seen.
//!
//! Invariants: without keys there is exactly one group, even for no input.

use smallvec::SmallVec;

use super::group::Groups;
use super::sort::{KeyOrder, compare_keys};
use super::{Batch, Exec, Run, Scope, Step, row_bytes};
use crate::aggregates::State;
use crate::error::Result;
use crate::expr::Expr;
use crate::plan::{AggregateCall, Node};
use crate::value::Datum;

/// Grouping at work.
pub(crate) struct AggregateRun {
    input: Run,
    fresh: Batch,
    groups: Groups,
    /// The calls' states, group by group.
    states: Vec<State>,
    extras: Vec<Extra>,
    /// Of the batch at hand: each row's group.
    numbers: Vec<u32>,
    begun: bool,
    complete: bool,
    /// The next group to give.
    at: usize,
    bytes: usize,
}

/// What some calls need besides their states.
#[derive(Default)]
struct Extra {
    /// Group and arguments seen.
    seen: Option<Groups>,
    /// Group, order keys and arguments of each row.
    ordered: Vec<Datum>,
}

/// An estimate of a state's bytes, with what it may hold elsewhere.
const STATE_BYTES: usize = size_of::<State>() + 16;

impl AggregateRun {
    pub(super) fn new(input: &Node) -> Self {
        Self {
            input: Run::new(input),
            fresh: Batch::new(),
            groups: Groups::new(0),
            states: Vec::new(),
            extras: Vec::new(),
            numbers: Vec::new(),
            begun: false,
            complete: false,
            at: 0,
            bytes: 0,
        }
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
        ex.give_memory(std::mem::take(&mut self.bytes));
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        keys: &[Expr],
        calls: &[AggregateCall],
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        if !self.begun {
            self.begin(keys, calls);
        }
        while !self.complete {
            match self.input.step(input, ex, &mut self.fresh)? {
                Step::Yield => return Ok(Step::Yield),
                Step::Rows => self.take(keys, calls, ex)?,
                Step::Done => {
                    self.input.give_back(ex);
                    self.update_ordered(calls, ex)?;
                    self.complete = true;
                }
            }
        }
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(keys.len() + calls.len());
        while self.at < self.groups.len() && !out.is_full() {
            let row = out.push();
            row[..keys.len()].clone_from_slice(self.groups.key(self.at));
            let states = &mut self.states[self.at * calls.len()..(self.at + 1) * calls.len()];
            for (value, state) in row[keys.len()..].iter_mut().zip(states) {
                *value = state.finish()?;
            }
            self.at += 1;
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }

    fn begin(&mut self, keys: &[Expr], calls: &[AggregateCall]) {
        self.begun = true;
        self.groups = Groups::new(keys.len());
        let seen = |call: &AggregateCall| call.distinct.then(|| Groups::new(1 + call.args.len()));
        self.extras = calls.iter().map(|call| Extra { seen: seen(call), ordered: Vec::new() }).collect();
        if keys.is_empty() {
            self.groups.find_or_add(&[]);
            self.states = calls.iter().map(|call| (call.aggregate.start)()).collect();
        }
    }

    fn take(&mut self, keys: &[Expr], calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<()> {
        let mut scope = ex.scope();
        let mut texts = self.find_groups(keys, calls, &mut scope)?;
        for (place, call) in calls.iter().enumerate() {
            texts += self.update(place, calls.len(), call, &mut scope)?;
        }
        let mut taken = self.groups.bytes() + self.states.len() * STATE_BYTES;
        for extra in &self.extras {
            taken += extra.seen.as_ref().map_or(0, Groups::bytes) + extra.ordered.len() * size_of::<Datum>();
        }
        let more = (taken + texts).saturating_sub(self.bytes);
        self.bytes += more;
        ex.take_memory(more)
    }

    /// Finds each row's group. Gives the bytes of new keys' texts.
    fn find_groups(&mut self, keys: &[Expr], calls: &[AggregateCall], scope: &mut Scope<'_>) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let mut texts = 0;
        self.numbers.clear();
        let mut buffer: SmallVec<[Datum; 4]> = SmallVec::new();
        for row in self.fresh.iter() {
            let mut scratch = Datum::Null;
            let key = if let [key] = keys {
                std::slice::from_ref(key.eval(scope, row, &mut scratch)?)
            } else {
                buffer.clear();
                for key in keys {
                    buffer.push(key.eval_owned(scope, row)?);
                }
                &buffer
            };
            let (number, new) = self.groups.find_or_add(key);
            if new {
                texts += row_bytes(key) - size_of_val(key);
                self.states.extend(calls.iter().map(|call| (call.aggregate.start)()));
            }
            self.numbers.push(number as u32);
        }
        Ok(texts)
    }

    /// Hands the batch to one call. Gives the bytes of texts that are kept for it.
    fn update(&mut self, place: usize, calls: usize, call: &AggregateCall, scope: &mut Scope<'_>) -> Result<usize> {
        let mut texts = 0;
        let extra = &mut self.extras[place];
        let grouped = !self.numbers.is_empty();
        let plain = extra.seen.is_none() && call.order.is_empty();
        for index in 0..self.fresh.rows() {
            let row = self.fresh.row(index);
            if let Some(filter) = &call.filter
                && !filter.eval_condition(scope, row)?
            {
                continue;
            }
            let number = if grouped { self.numbers[index] as usize } else { 0 };
            let state = &mut self.states[number * calls + place];
            match call.args.as_slice() {
                [] if plain => state.update(&[], scope.env)?,
                [arg] if plain => {
                    let mut scratch = Datum::Null;
                    let value = arg.eval(scope, row, &mut scratch)?;
                    state.update(&[value], scope.env)?;
                }
                args => {
                    let mut values: SmallVec<[Datum; 4]> = SmallVec::new();
                    values.push(Datum::Int(number as i64));
                    for arg in args {
                        values.push(arg.eval_owned(scope, row)?);
                    }
                    if let Some(seen) = &mut extra.seen {
                        let (_, new) = seen.find_or_add(&values);
                        if !new {
                            continue;
                        }
                        texts += row_bytes(&values) - size_of_val(&values[..]);
                    }
                    if call.order.is_empty() {
                        let args: SmallVec<[&Datum; 4]> = values[1..].iter().collect();
                        state.update(&args, scope.env)?;
                        continue;
                    }
                    texts += row_bytes(&values) - size_of_val(&values[..]);
                    extra.ordered.extend(values);
                    for key in &call.order {
                        extra.ordered.push(key.expr.eval_owned(scope, row)?);
                    }
                }
            }
        }
        Ok(texts)
    }

    /// Hands what was kept for an order to the calls.
    fn update_ordered(&mut self, calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<()> {
        for (place, call) in calls.iter().enumerate().filter(|(_, call)| !call.order.is_empty()) {
            let cells = std::mem::take(&mut self.extras[place].ordered);
            let args_end = 1 + call.args.len();
            let keys = call.order.iter().enumerate();
            let order: Vec<KeyOrder> = keys.map(|(at, key)| KeyOrder::new(args_end + at, key)).collect();
            let mut rows: Vec<&[Datum]> = cells.chunks_exact(args_end + call.order.len()).collect();
            // Groups do not mix: each row goes to its own state, so their order among each other does not matter.
            rows.sort_by(|a, b| compare_keys(&order, a, b));
            for row in rows {
                let Datum::Int(number) = row[0] else { continue };
                let args: SmallVec<[&Datum; 4]> = row[1..args_end].iter().collect();
                self.states[number as usize * calls.len() + place].update(&args, ex.cx.env)?;
            }
        }
        Ok(())
    }
}
