//! Grouping and aggregates.
//!
//! Groups get numbers in the order they first appear; each has the states of all calls side by side. A batch is grouped
//! first, and then goes through one call after the other.
//!
//! What an aggregate wants in order (`string_agg(x, ',' ORDER BY y)`) is kept and sorted at the end; what it wants only
//! once (`count(DISTINCT x)`) goes through a table of what each group has seen.
//!
//! Invariants: without keys there is exactly one group, even for no input.

use colibri_types::{Datum, Result, aggregates::State, pulse};
use smallvec::SmallVec;

use super::group::Groups;
use super::merge_sort;
use super::row_store::RowStore;
use super::sort::{KeyOrder, compare_keys};
use super::{Batch, Exec, Run, Scope, Step, row_bytes};
use crate::expr::Expr;
use crate::plan::{AggregateCall, Node};

/// Grouping at work.
pub(crate) struct AggregateRun {
    input: Run,
    fresh: Batch,
    groups: Groups,
    /// The calls' states, a row for each group.
    states: RowStore<State>,
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
struct Extra {
    /// Group and arguments seen.
    seen: Option<Groups>,
    /// Group, arguments and order keys of each row.
    ordered: RowStore<Datum>,
}

/// An estimate of a state's bytes, with what it may hold elsewhere.
const STATE_BYTES: usize = size_of::<State>() + 16;

impl AggregateRun {
    pub(super) fn new(input: &Node) -> Self {
        Self {
            input: Run::new(input),
            fresh: Batch::new(),
            groups: Groups::new(0),
            states: RowStore::new(0),
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
            for (value, state) in row[keys.len()..].iter_mut().zip(self.states.row_mut(self.at)) {
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
        let ordered = |call: &AggregateCall| RowStore::new(1 + call.args.len() + call.order.len());
        self.extras = calls.iter().map(|call| Extra { seen: seen(call), ordered: ordered(call) }).collect();
        self.states = RowStore::new(calls.len());
        if keys.is_empty() {
            self.groups.find_or_add(&[]);
            self.states.push(calls.iter().map(|call| (call.aggregate.start)()));
        }
    }

    fn take(&mut self, keys: &[Expr], calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<()> {
        let mut scope = ex.scope();
        let mut texts = self.find_groups(keys, calls, &mut scope)?;
        for (place, call) in calls.iter().enumerate() {
            texts += self.update(place, call, &mut scope)?;
        }
        let mut taken = self.groups.bytes() + self.states.len() * calls.len() * STATE_BYTES;
        for extra in &self.extras {
            taken += extra.seen.as_ref().map_or(0, Groups::bytes) + extra.ordered.bytes();
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
                self.states.push(calls.iter().map(|call| (call.aggregate.start)()));
            }
            self.numbers.push(number as u32);
        }
        Ok(texts)
    }

    /// Hands the batch to one call. Gives the bytes of texts that are kept for it.
    fn update(&mut self, place: usize, call: &AggregateCall, scope: &mut Scope<'_>) -> Result<usize> {
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
            let state = &mut self.states.row_mut(number)[place];
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
                    for key in &call.order {
                        values.push(key.expr.eval_owned(scope, row)?);
                    }
                    extra.ordered.push(values);
                }
            }
        }
        Ok(texts)
    }

    /// Hands what was kept for an order to the calls.
    fn update_ordered(&mut self, calls: &[AggregateCall], ex: &mut Exec<'_, '_>) -> Result<()> {
        for (place, call) in calls.iter().enumerate().filter(|(_, call)| !call.order.is_empty()) {
            let kept = std::mem::replace(&mut self.extras[place].ordered, RowStore::new(0));
            let args_end = 1 + call.args.len();
            let keys = call.order.iter().enumerate();
            let order: Vec<KeyOrder> = keys.map(|(at, key)| KeyOrder::new(args_end + at, key)).collect();
            let mut rows: Vec<u32> = (0..kept.len() as u32).collect();
            // Groups do not mix: each row goes to its own state, so their order among each other does not matter.
            let compare = |a: &u32, b: &u32| compare_keys(&order, kept.row(*a as usize), kept.row(*b as usize));
            merge_sort::sort(&mut rows, merge_sort::PIECE_OF_LONG, compare)?;
            for row in rows {
                let row = kept.row(row as usize);
                let Datum::Int(number) = row[0] else { continue };
                let args: SmallVec<[&Datum; 4]> = row[1..args_end].iter().collect();
                self.states.row_mut(number as usize)[place].update(&args, ex.cx.env)?;
                pulse::work(pulse::UNITS_PER_ROW)?;
            }
        }
        Ok(())
    }
}
