//! Commits, many at a time.
//!
//! Who comes first *leads*: it takes the writer's lock of the storage, then everything that has queued up meanwhile,
//! checks each request in order against the state that those before it have made, applies it, and commits all with one
//! transaction of the storage. Then it lets go of the locks of all and tells everybody. What is durable when is not its
//! concern: the flush is waited for by whoever holds a ticket, and one flush serves all who wait.
//!
//! A follower sleeps from queueing until its batch is published: as long as the leader works for the batches of before and
//! its own, some microseconds a request. It does not sleep for a flush, nor for a lock. A leader that finds more requests
//! goes on for some rounds, since a switch to another thread would cost more than they do, and then makes the first of
//! the queue the leader, so that nobody works for others without end.
//!
//! Everything about a request that can be refused is found out before anything of it is written: reads that do not hold,
//! spaces that are gone, patches that do not apply. So taking back a request needs no nested transaction, whose pages
//! would all be copied once more. What is left is the storage itself failing, for lack of room say. Then the whole batch
//! is taken back and its requests are tried again, each alone, so that everyone gets an answer of its own.
//!
//! Invariants: there is a leader while anybody is queued; a request is answered exactly once; the locks of a transaction
//! are let go of after its changes are published, and before they are durable.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_storage::{Error as StorageError, Snapshot, TableKind, VALUE_BYTES_MAX, View, WriteTxn};

use crate::error::{Error, Result};
use crate::local::{Shared, count, table_name};
use crate::locks::Locks;
use crate::reads::ReadSet;
use crate::store::{Patch, SpaceId};
use crate::sync::{Condvar, Mutex};
use crate::ticket::Committed;
use crate::validate::validate;
use crate::writes::{Base, SpaceWrites, Write, WriteSet};

/// A leader works for so many batches.
const ROUNDS_MAX: u32 = 16;

/// A transaction that wants to commit.
pub(crate) struct Request {
    pub(crate) snapshot: Snapshot<'static>,
    pub(crate) reads: ReadSet,
    /// A space of which something was read that is not remembered: then nothing at all may have changed.
    pub(crate) blind: Option<SpaceId>,
    pub(crate) writes: WriteSet,
    pub(crate) locks: Locks,
}

/// Who commits, and who waits for it.
#[derive(Default)]
pub(crate) struct CommitQueue {
    state: Mutex<Queue>,
    /// Commits so far, to tell the order of those that one storage transaction brought.
    sequence: AtomicU64,
}

#[derive(Default)]
struct Queue {
    led: bool,
    waiting: VecDeque<Arc<Follower>>,
}

struct Follower {
    slot: Mutex<Slot>,
    changed: Condvar,
}

enum Slot {
    Queued(Box<Request>),
    /// The leader has it.
    Taken,
    /// The follower leads now, beginning with its own.
    Lead(Box<Request>),
    /// The answer; the request comes back because to drop it is work that the follower can do.
    Done(Answer, Option<Box<Request>>),
}

/// What became of a request.
enum Answer {
    Result(Result<Committed>),
    /// One of its patches panicked. It does so in the thread of its own transaction.
    Panic(Box<dyn Any + Send>),
}

impl Answer {
    fn failed(error: impl Into<Error>) -> Option<Self> {
        Some(Self::Result(Err(error.into())))
    }

    fn unwind(self) -> Result<Committed> {
        match self {
            Self::Result(result) => result,
            Self::Panic(payload) => resume_unwind(payload),
        }
    }
}

impl Follower {
    fn put(&self, slot: Slot) {
        *self.slot.lock() = slot;
        self.changed.notify_one();
    }

    /// Waits for the answer, or for the request to lead with.
    fn wait(&self) -> std::result::Result<Box<Request>, Answer> {
        let mut slot = self.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Taken) {
                Slot::Lead(request) => return Ok(request),
                Slot::Done(answer, request) => {
                    drop(slot);
                    drop(request);
                    return Err(answer);
                }
                before => *slot = before,
            }
            self.changed.wait(&mut slot);
        }
    }
}

/// A request in a batch.
struct Item {
    request: Box<Request>,
    /// `None` for the leader's own.
    follower: Option<Arc<Follower>>,
    answer: Option<Answer>,
}

impl CommitQueue {
    pub(crate) fn commit(&self, shared: &Shared, request: Box<Request>) -> Result<Committed> {
        let request = {
            let mut state = self.state.lock();
            if state.led {
                let follower = Follower { slot: Mutex::new(Slot::Queued(request)), changed: Condvar::new() };
                let follower = Arc::new(follower);
                state.waiting.push_back(Arc::clone(&follower));
                drop(state);
                match follower.wait() {
                    Ok(request) => request,
                    Err(answer) => return answer.unwind(),
                }
            } else {
                state.led = true;
                request
            }
        };
        self.lead(shared, request)
    }

    fn lead(&self, shared: &Shared, request: Box<Request>) -> Result<Committed> {
        let mut leader = Leader { queue: self, taken: Vec::new() };
        let mut batch = vec![Item { request, follower: None, answer: None }];
        let mut own = None;
        for round in 1..=ROUNDS_MAX {
            self.commit_batch(shared, &mut batch, &mut leader);
            for Item { mut request, follower, answer } in batch.drain(..) {
                let answer = answer.expect("everyone in a batch gets an answer");
                request.locks.release();
                match follower {
                    Some(follower) => follower.put(Slot::Done(answer, Some(request))),
                    None => own = Some(answer),
                }
            }
            leader.taken.clear();
            if round == ROUNDS_MAX || !leader.take(&mut batch) {
                break;
            }
        }
        drop(leader);
        own.expect("the leader's own request is in its first batch").unwind()
    }

    /// Commits as much of a batch as can be, and what queues up until the writer's lock is had.
    fn commit_batch(&self, shared: &Shared, batch: &mut Vec<Item>, leader: &mut Leader<'_>) {
        match shared.database.write() {
            Ok(txn) => {
                leader.take(batch);
                self.commit_in(shared, txn, batch);
            }
            Err(e) => {
                if let [item] = batch.as_mut_slice() {
                    item.answer = Answer::failed(e);
                }
            }
        }
        // Everyone who has no answer yet gets one of its own.
        for item in batch.iter_mut().filter(|item| item.answer.is_none()) {
            match shared.database.write() {
                Ok(txn) => self.commit_in(shared, txn, std::slice::from_mut(item)),
                Err(e) => item.answer = Answer::failed(e),
            }
        }
    }

    /// Commits a batch with one transaction of the storage. If that fails for no fault of a request, and there are several,
    /// those that could not be refused have no result afterwards, and nothing was changed.
    fn commit_in(&self, shared: &Shared, mut txn: WriteTxn, batch: &mut [Item]) {
        let alone = batch.len() == 1;
        let mut applied = Vec::with_capacity(batch.len());
        for (index, item) in batch.iter_mut().enumerate() {
            let request = &*item.request;
            let unchanged = applied.is_empty() && request.snapshot.txn().0 + 1 == txn.txn().0;
            match carry_out(shared, request, &mut txn, unchanged) {
                Carried::Out => applied.push(index),
                Carried::Refused(answer) => item.answer = Some(answer),
                Carried::HalfOut(e) if alone => item.answer = Answer::failed(e),
                Carried::HalfOut(_) => return,
            }
        }
        if applied.is_empty() {
            return;
        }
        match txn.commit_ticket() {
            Ok(ticket) => {
                // A transaction that changed nothing after all was not published, and its number is not used.
                let txn = ticket.txn().min(shared.database.newest_txn());
                count(&shared.counts.commits, applied.len() as u64);
                count(&shared.counts.batches, 1);
                for index in applied {
                    let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
                    batch[index].answer = Some(Answer::Result(Ok(Committed { txn, sequence })));
                    for space in batch[index].request.writes.spaces() {
                        if matches!(space.base, Base::Dropped { made: false }) {
                            shared.forget(space.id);
                        }
                    }
                }
            }
            Err(e) => {
                let poisoned = !matches!(e, StorageError::Poisoned)
                    && matches!(shared.database.try_write(), Err(StorageError::Poisoned));
                if poisoned {
                    // A flush failed: it is all there, or nothing.
                    for index in applied {
                        batch[index].answer = Answer::failed(Error::Unknown { reason: e.to_string() });
                    }
                } else if alone {
                    batch[0].answer = Answer::failed(e);
                }
            }
        }
    }
}

/// Being the leader. However it ends, nobody is left waiting.
struct Leader<'a> {
    queue: &'a CommitQueue,
    /// Followers who have no answer yet.
    taken: Vec<Arc<Follower>>,
}

impl Leader<'_> {
    /// Takes everything that is queued; whether that was anything.
    fn take(&mut self, batch: &mut Vec<Item>) -> bool {
        let waiting = std::mem::take(&mut self.queue.state.lock().waiting);
        let any = !waiting.is_empty();
        for follower in waiting {
            let slot = std::mem::replace(&mut *follower.slot.lock(), Slot::Taken);
            if let Slot::Queued(request) = slot {
                self.taken.push(Arc::clone(&follower));
                batch.push(Item { request, follower: Some(follower), answer: None });
            }
        }
        any
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Only if the thread panics.
        for follower in self.taken.drain(..) {
            let reason = "the thread that was to commit it panicked".to_owned();
            let mut slot = follower.slot.lock();
            if matches!(*slot, Slot::Taken) {
                *slot = Slot::Done(Answer::Result(Err(Error::Unknown { reason })), None);
                follower.changed.notify_one();
            }
        }
        let mut state = self.queue.state.lock();
        let Some(next) = state.waiting.pop_front() else {
            state.led = false;
            return;
        };
        drop(state);
        let mut slot = next.slot.lock();
        if let Slot::Queued(request) = std::mem::replace(&mut *slot, Slot::Taken) {
            *slot = Slot::Lead(request);
        }
        next.changed.notify_one();
    }
}

/// What became of a request in a transaction of the storage.
enum Carried {
    Out,
    /// Nothing of it was written.
    Refused(Answer),
    /// The storage failed, and some of it may have been written: the transaction of the storage has to be taken back.
    HalfOut(StorageError),
}

fn carry_out(shared: &Shared, request: &Request, txn: &mut WriteTxn, unchanged: bool) -> Carried {
    let rows = match catch_unwind(AssertUnwindSafe(|| check(shared, request, txn, unchanged))) {
        Ok(Ok(rows)) => rows,
        Ok(Err(e)) => {
            if matches!(e, Error::Conflict { .. }) {
                count(&shared.counts.conflicts, 1);
            }
            return Carried::Refused(Answer::Result(Err(e)));
        }
        Err(payload) => return Carried::Refused(Answer::Panic(payload)),
    };
    match apply(shared, &request.writes, rows, txn) {
        Ok(()) => Carried::Out,
        Err(e) => Carried::HalfOut(e),
    }
}

/// Finds out everything for which a request can be refused. Gives the rows that its patches make, in their order.
fn check(shared: &Shared, request: &Request, txn: &WriteTxn, unchanged: bool) -> Result<Vec<Vec<u8>>> {
    if !unchanged {
        if let Some(space) = request.blind {
            return Err(Error::Conflict { space });
        }
        let table = |space| Ok(shared.table(space, |name| request.snapshot.table(name))?);
        validate(&request.reads, table, &request.snapshot, txn)?;
    }
    let mut rows = Vec::new();
    for space in request.writes.spaces() {
        if matches!(space.base, Base::Stored) && space.changes.is_empty() {
            continue;
        }
        let table = shared.table(space.id, |name| txn.table(name));
        let view = match table.and_then(|table| txn.view(&table)) {
            Err(StorageError::NoSuchTable { .. }) => None,
            view => Some(view?),
        };
        match (&space.base, view) {
            (Base::Made(_), None) | (Base::Dropped { made: true }, _) => {}
            (Base::Dropped { made: false }, Some(_)) => {}
            (Base::Stored, Some(view)) => patch_rows(space, &view, &mut rows)?,
            (Base::Made(_), Some(_)) | (Base::Stored | Base::Dropped { made: false }, None) => {
                return Err(Error::Conflict { space: space.id });
            }
        }
    }
    Ok(rows)
}

fn patch_rows(space: &SpaceWrites, view: &View<'_>, rows: &mut Vec<Vec<u8>>) -> Result<()> {
    for (key, write) in &space.changes {
        let Write::Patch(patched) = write else { continue };
        let row = view.get(key)?.ok_or(Error::Conflict { space: space.id })?;
        let now = patch_all(&patched.patches, row)?;
        rows.push(now);
    }
    Ok(())
}

/// A row after patches.
pub(crate) fn patch_all(patches: &[Arc<dyn Patch>], row: &[u8]) -> Result<Vec<u8>> {
    let Some((first, rest)) = patches.split_first() else { return Ok(row.to_vec()) };
    let mut now = patch_one(&**first, row)?;
    for patch in rest {
        now = patch_one(&**patch, &now)?;
    }
    Ok(now)
}

/// A row after a patch.
pub(crate) fn patch_one(patch: &dyn Patch, row: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(row.len());
    patch.apply(row, &mut out).map_err(Error::Patch)?;
    check_value(out.len())?;
    Ok(out)
}

/// Refuses a value that the storage would not take.
pub(crate) fn check_value(bytes: usize) -> Result<()> {
    match bytes as u64 {
        bytes if bytes > VALUE_BYTES_MAX => {
            Err(StorageError::ValueTooLong { bytes, bytes_max: VALUE_BYTES_MAX }.into())
        }
        _ => Ok(()),
    }
}

/// Writes what was checked.
fn apply(
    shared: &Shared,
    writes: &WriteSet,
    rows: Vec<Vec<u8>>,
    txn: &mut WriteTxn,
) -> std::result::Result<(), StorageError> {
    let mut rows = rows.into_iter();
    for space in writes.spaces() {
        let table = match &space.base {
            Base::Stored if space.changes.is_empty() => continue,
            Base::Stored => shared.table(space.id, |name| txn.table(name))?,
            Base::Made(entries) => {
                let table = txn.create_table(&table_name(space.id), TableKind::Plain)?;
                if !entries.is_empty() {
                    txn.load_sorted(&table, entries.iter().map(|(key, value)| (key, value)))?;
                }
                table
            }
            Base::Dropped { made: true } => continue,
            Base::Dropped { made: false } => {
                let table = txn.table(&table_name(space.id))?;
                txn.drop_table(&table)?;
                continue;
            }
        };
        for (key, write) in &space.changes {
            match write {
                Write::Put(value) => txn.put(&table, key, value)?,
                Write::Delete => _ = txn.delete(&table, key)?,
                Write::Patch(_) => {
                    let row = rows.next().expect("a row was made for each patch when the request was checked");
                    txn.put(&table, key, &row)?;
                }
            }
        }
    }
    Ok(())
}
