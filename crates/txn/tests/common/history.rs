//! Random transactions as state machines, what they saw, and whether they could have seen it one
//! after the other.
//!
//! A [`Session`] runs a random program, one call a step, so that threads or a scheduler of one
//! thread can interleave them; each transaction that commits notes what it did and saw. [`check`]
//! carries all of them out again on a map, in the order of their commits, and compares.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_storage::TxnId;
use colibri_txn::{
    Begin, ColumnSet, Direction, Error, Interruption, LocalStore, LocalTransaction, LockMode, LockWait, Result,
    Savepoint, Transaction,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{A, Add, B, Row, Set, Short, key, rows, span};

/// Something a transaction does.
#[derive(Debug, Clone)]
pub enum Op {
    Get(u16, ColumnSet),
    Scan {
        low: u16,
        high: u16,
        backward: bool,
        columns: ColumnSet,
        limit: usize,
    },
    Count(u16, u16),
    Put(u16, Row),
    Delete(u16),
    /// A column, and by how much.
    Add(u16, usize, i64),
    Set(u16, usize, i64),
    Lock(u16, LockMode),
    Savepoint,
    Rollback,
}

/// What it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Nothing,
    Row(Option<Row>),
    Rows(Vec<(u16, Row)>),
    Count(u64),
    /// Whether there was a row to change.
    Changed(bool),
}

/// A transaction that committed.
#[derive(Debug, Clone)]
pub struct Record {
    /// The storage's transaction, and the order among those of one; readers come last.
    pub place: (TxnId, u64),
    pub log: Vec<(Op, Seen)>,
}

/// How random transactions are.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    pub keys: u16,
    pub statements_max: usize,
    pub ops_max: usize,
    /// How many in ten lock a row before they change it.
    pub locking: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Self { keys: 12, statements_max: 4, ops_max: 4, locking: 6 }
    }
}

fn random_columns(rng: &mut StdRng) -> ColumnSet {
    *[ColumnSet::NONE, A, B, A.union(B), ColumnSet::ALL].choose(rng).unwrap()
}

fn random_ops(rng: &mut StdRng, mix: Mix, writes: bool, out: &mut Vec<Op>) {
    let n = rng.random_range(0..mix.keys);
    let (low, high) = (rng.random_range(0..mix.keys), rng.random_range(0..=mix.keys));
    let locks = rng.random_range(0..10) < mix.locking;
    let choices = if writes { 10 } else { 3 };
    match rng.random_range(0..choices) {
        0 => out.push(Op::Get(n, random_columns(rng))),
        1 => {
            let limit = if rng.random() { usize::MAX } else { rng.random_range(1..4) };
            out.push(Op::Scan { low, high, backward: rng.random(), columns: random_columns(rng), limit });
        }
        2 => out.push(Op::Count(low, high)),
        3 | 4 => {
            if locks {
                out.push(Op::Lock(n, LockMode::Exclusive));
            }
            out.push(Op::Put(n, Row { a: rng.random_range(0..1000), b: rng.random_range(0..1000) }));
        }
        5 => {
            if locks {
                out.push(Op::Lock(n, LockMode::Exclusive));
            }
            out.push(Op::Delete(n));
        }
        6 => {
            if locks {
                out.push(Op::Lock(n, LockMode::NoKeyUpdate));
            }
            out.push(Op::Set(n, rng.random_range(0..2), rng.random_range(0..1000)));
        }
        7 => {
            use LockMode::{Add, Exclusive, KeyShare, NoKeyUpdate, Share};
            out.push(Op::Lock(n, *[KeyShare, Share, Add, NoKeyUpdate, Exclusive].choose(rng).unwrap()));
        }
        _ => {
            if locks {
                out.push(Op::Lock(n, LockMode::Add));
            }
            out.push(Op::Add(n, rng.random_range(0..2), rng.random_range(1..10)));
        }
    }
}

/// The statements of a random transaction.
fn random_program(rng: &mut StdRng, mix: Mix, writes: bool) -> Vec<Vec<Op>> {
    let mut program = Vec::new();
    let mut savepoints = 0;
    for _ in 0..rng.random_range(1..=mix.statements_max) {
        if writes && rng.random_ratio(1, 8) {
            savepoints += 1;
            program.push(vec![Op::Savepoint]);
        }
        let mut statement = Vec::new();
        for _ in 0..rng.random_range(1..=mix.ops_max) {
            random_ops(rng, mix, writes, &mut statement);
        }
        program.push(statement);
        if savepoints > 0 && rng.random_ratio(1, 3) {
            savepoints -= 1;
            program.push(vec![Op::Rollback]);
        }
    }
    program
}

/// What a step came to.
pub enum Step {
    Running,
    /// The session has to wait for this before its next step.
    Parked(LockWait),
    /// A transaction is over.
    Ended,
}

/// One session: one random transaction after the other.
pub struct Session {
    store: LocalStore,
    rng: StdRng,
    mix: Mix,
    how: Begin,
    program: Vec<Vec<Op>>,
    txn: Option<LocalTransaction>,
    statement: usize,
    op: usize,
    begun: Option<Savepoint>,
    restart: bool,
    savepoints: Vec<Savepoint>,
    log: Vec<(Op, Seen)>,
    /// The length of the log when the statement began.
    log_before: usize,
    pub records: Vec<Record>,
    pub conflicts: u64,
    pub deadlocks: u64,
    /// The newest state of which this session was told.
    told: TxnId,
    /// Tells the order of commits of several stores, each of which numbers its own, where one comes
    /// after the other.
    pub order: Option<Arc<AtomicU64>>,
}

impl Session {
    pub fn new(store: &LocalStore, seed: u64, mix: Mix, how: Begin) -> Self {
        Self {
            store: store.clone(),
            rng: StdRng::seed_from_u64(seed),
            mix,
            how,
            program: Vec::new(),
            txn: None,
            statement: 0,
            op: 0,
            begun: None,
            restart: false,
            savepoints: Vec::new(),
            log: Vec::new(),
            log_before: 0,
            records: Vec::new(),
            conflicts: 0,
            deadlocks: 0,
            told: TxnId(0),
            order: None,
        }
    }

    fn begin(&mut self) {
        let read_only = self.rng.random_ratio(1, 5);
        self.program = random_program(&mut self.rng, self.mix, !read_only);
        let how = Begin { read_only, newest: self.rng.random(), ..self.how };
        let txn = self.store.begin_after(how, self.told).unwrap();
        assert!(txn.sees() >= self.told, "a session sees what it was told of");
        self.txn = Some(txn);
        (self.statement, self.op, self.begun, self.restart) = (0, 0, None, false);
        self.savepoints.clear();
        self.log.clear();
    }

    /// Makes one call.
    pub fn step(&mut self) -> Step {
        if self.txn.is_none() {
            self.begin();
            return Step::Running;
        }
        match self.call() {
            Ok(true) => Step::Ended,
            Ok(false) => Step::Running,
            Err(Error::Interrupted(Interruption::Wait(wait))) => {
                self.restart = true;
                Step::Parked(wait)
            }
            Err(Error::Interrupted(Interruption::Stale)) => {
                self.restart = true;
                Step::Running
            }
            Err(e @ (Error::Conflict { .. } | Error::Deadlock)) => {
                match e {
                    Error::Deadlock => self.deadlocks += 1,
                    _ => self.conflicts += 1,
                }
                self.txn = None;
                Step::Ended
            }
            Err(e) => panic!("{e:?}"),
        }
    }

    /// Runs until a transaction is over, waiting where it must.
    pub fn run_one(&mut self) {
        loop {
            match self.step() {
                Step::Running => {}
                Step::Parked(wait) => wait.wait(),
                Step::Ended => return,
            }
        }
    }

    fn call(&mut self) -> Result<bool> {
        let txn = self.txn.as_mut().unwrap();
        if self.restart {
            txn.restart(self.begun.unwrap())?;
            self.restart = false;
            self.op = 0;
            self.log.truncate(self.log_before);
            return Ok(false);
        }
        let Some(statement) = self.program.get(self.statement) else {
            let ticket = self.txn.take().unwrap().commit()?;
            let order = |sequence| self.order.as_ref().map_or(sequence, |order| order.fetch_add(1, Ordering::Relaxed));
            let place = ticket.committed().map(|committed| (committed.txn, order(committed.sequence)));
            let place = place.unwrap_or((ticket.seen(), u64::MAX));
            if self.rng.random() {
                self.told = ticket.wait().unwrap();
            } else {
                self.told = ticket.seen();
            }
            self.records.push(Record { place, log: std::mem::take(&mut self.log) });
            return Ok(true);
        };
        if self.begun.is_none() {
            self.begun = Some(txn.begin_statement()?);
            self.log_before = self.log.len();
            self.op = 0;
            return Ok(false);
        }
        let op = statement[self.op].clone();
        let seen = perform(txn, &op, &mut self.savepoints)?;
        self.log.push((op, seen));
        self.op += 1;
        if self.op == statement.len() {
            self.statement += 1;
            self.begun = None;
        }
        Ok(false)
    }
}

fn perform(txn: &mut LocalTransaction, op: &Op, savepoints: &mut Vec<Savepoint>) -> Result<Seen> {
    let changed = |result: Result<()>| match result {
        Ok(()) => Ok(Seen::Changed(true)),
        Err(Error::NoSuchKey { .. }) => Ok(Seen::Changed(false)),
        Err(e) => Err(e),
    };
    Ok(match *op {
        Op::Get(n, columns) => Seen::Row(txn.row(n, columns)?),
        Op::Scan { low, high, backward, columns, limit } => {
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let mut found = Vec::new();
            txn.scan(&rows(), &span(low, high), direction, columns, usize::MAX, &mut |key, row| {
                found.push((u16::from_be_bytes(key.try_into().unwrap()), Row::decode(row).masked(columns)));
                if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Seen::Rows(found)
        }
        Op::Count(low, high) => Seen::Count(txn.count(&rows(), &span(low, high))?),
        Op::Put(n, row) => {
            txn.put(&rows(), &key(n), &row.encode())?;
            Seen::Nothing
        }
        Op::Delete(n) => {
            txn.delete(&rows(), &key(n))?;
            Seen::Nothing
        }
        Op::Add(n, column, more) => {
            changed(txn.patch(&rows(), &key(n), ColumnSet::one(column), Arc::new(Add(column, more))))?
        }
        Op::Set(n, column, value) => {
            changed(txn.patch(&rows(), &key(n), ColumnSet::NONE, Arc::new(Set(column, value))))?
        }
        Op::Lock(n, mode) => {
            txn.lock_row(n, mode)?;
            Seen::Nothing
        }
        Op::Savepoint => {
            savepoints.push(txn.savepoint());
            Seen::Nothing
        }
        Op::Rollback => {
            txn.rollback_to(savepoints.pop().unwrap())?;
            Seen::Nothing
        }
    })
}

pub type Model = BTreeMap<u16, Row>;

fn replay(model: &mut Model, savepoints: &mut Vec<Model>, op: &Op) -> Seen {
    let mut change = |n: u16, change: &dyn Fn(&mut Row)| Seen::Changed(model.get_mut(&n).map(change).is_some());
    match *op {
        Op::Get(n, columns) => Seen::Row(model.get(&n).map(|row| row.masked(columns))),
        Op::Scan { low, high, backward, columns, limit } => {
            let found = model.iter().filter(|(n, _)| (low..high).contains(n)).map(|(&n, row)| (n, row.masked(columns)));
            let mut found: Vec<_> = found.collect();
            if backward {
                found.reverse();
            }
            found.truncate(limit);
            Seen::Rows(found)
        }
        Op::Count(low, high) => Seen::Count(model.keys().filter(|n| (low..high).contains(n)).count() as u64),
        Op::Put(n, row) => {
            model.insert(n, row);
            Seen::Nothing
        }
        Op::Delete(n) => {
            model.remove(&n);
            Seen::Nothing
        }
        Op::Add(n, column, more) => change(n, &|row| *row.column(column) += more),
        Op::Set(n, column, value) => change(n, &|row| *row.column(column) = value),
        Op::Lock(..) => Seen::Nothing,
        Op::Savepoint => {
            savepoints.push(model.clone());
            Seen::Nothing
        }
        Op::Rollback => {
            *model = savepoints.pop().unwrap();
            Seen::Nothing
        }
    }
}

/// Carries everything out again, one transaction after the other in the order of their commits.
/// Says what was seen that could not have been; gives the rows at the end.
pub fn check(mut records: Vec<Record>) -> std::result::Result<Model, String> {
    records.sort_by_key(|record| record.place);
    let mut model = Model::new();
    for record in &records {
        let mut savepoints = Vec::new();
        for (index, (op, seen)) in record.log.iter().enumerate() {
            let expected = replay(&mut model, &mut savepoints, op);
            if *seen != expected {
                return Err(format!(
                    "transaction {:?}, call {index}: {op:?} saw {seen:?}, and one after the other it is {expected:?}\n{:?}",
                    record.place, record.log
                ));
            }
        }
    }
    Ok(model)
}

/// What is stored.
pub fn stored(store: &LocalStore) -> Model {
    let mut txn = super::begin(store, Begin { newest: true, ..super::read_only() });
    let mut found = Model::new();
    let all = &colibri_txn::KeyRange::all();
    txn.scan(&rows(), all, Direction::Forward, ColumnSet::ALL, usize::MAX, &mut |key, row| {
        found.insert(u16::from_be_bytes(key.try_into().unwrap()), Row::decode(row));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}
