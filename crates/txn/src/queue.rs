//! The queue of commits: many transactions are committed by one transaction of the storage.
//!
//! The first thread that wants to commit becomes the *leader*. It
//! 1. takes the writer's lock of the storage, and then all requests that have queued up meanwhile,
//! 2. checks each request in order against the state that those before it have made, and applies
//!    it,
//! 3. commits all of them with one transaction of the storage,
//! 4. releases their row locks and answers them.
//!
//! It does not wait until the commit is durable. The holders of tickets do, and one flush serves
//! all who wait.
//!
//! A *follower* waits from queueing up until its batch is published: while the leader works for the
//! batches before and for its own, some microseconds per request. It waits neither for a flush nor
//! for a lock. It is a sleeping thread, or a task whose thread does other work meanwhile.
//!
//! Handing over: a leader that finds more requests goes on for some rounds, since a switch to
//! another thread would cost more than they do. Then it stops, so that no thread works for others
//! without end. A sleeping thread becomes the leader. If only tasks wait, there is no leader for a
//! moment: one task is woken, and whichever thread comes first leads, for that task or for a new
//! request. A waiting task cannot be made the leader, because it has no thread of its own, and all
//! threads might be asleep in this queue.
//!
//! If the storage fails, for example for lack of room, the whole batch is rolled back. Then each
//! request is tried alone, so that each gets an answer of its own. Nothing else has to be rolled
//! back: see [`crate::apply`].
//!
//! Where others have to agree on commits ([`colibri_storage::Proposer`]), the leader waits before it
//! takes the writer's lock while too much is under way to them, and refuses all requests when
//! nobody here will ask them any more. Another thread serves the sessions meanwhile.
//!
//! Invariants:
//! 1. While a request is queued, there is a leader, or a task is awake that will look for one.
//! 2. A thread sleeps only while there is a leader.
//! 3. A request is answered exactly once.
//! 4. Row locks are released after the changes are published, and before they are durable.
//! 5. The order of mutexes: the queue, then a follower.

use std::any::Any;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use colibri_storage::{Admission, Error as StorageError, Proposer, Snapshot, TxnId, WriteTxn};

use crate::apply::{Carried, carry_out};
use crate::commit::{Commit, CommitTurn, PendingCommit, QueuedCommit, Turn};
use crate::error::{Error, Result};
use crate::local::{Shared, count};
use crate::prepared::Task;
use crate::store::SpaceId;
use crate::sync::{Condvar, Mutex};
use crate::ticket::{CommitTicket, Committed};
use crate::transaction::Work;
use crate::writes::Base;

/// The most batches that a leader works for. Models have few commits, and are to see a leader stop.
const ROUNDS_MAX: u32 = if cfg!(feature = "shuttle") { 2 } else { 16 };

/// A transaction that wants to commit.
pub(crate) struct Request {
    pub(crate) snapshot: Snapshot<'static>,
    /// The state from which the images of patched rows were made, if it is not the snapshot's.
    pub(crate) images: Option<Snapshot<'static>>,
    /// A space that was read without remembering what: then nothing at all may have changed.
    pub(crate) blind: Option<SpaceId>,
    pub(crate) task: Task,
    pub(crate) work: Box<Work>,
}

impl Request {
    /// The state from which the images of patched rows were made. It is pinned.
    pub(crate) fn images(&self) -> TxnId {
        self.images.as_ref().unwrap_or(&self.snapshot).txn()
    }
}

/// The result of a request.
pub(crate) enum Answer {
    Result(Result<Committed>),
    /// One of its patches panicked. The panic goes on in the thread of the request.
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

// ---- those who wait ----

/// A request in the queue, and who waits for its result.
struct Follower {
    state: Mutex<Following>,
    changed: Condvar,
}

struct Following {
    slot: Slot,
    /// A thread sleeps until `changed`.
    sleeps: bool,
    /// The waker of a task that waits.
    waker: Option<Waker>,
}

enum Slot {
    Queued(Box<Request>),
    /// The leader has the request, or it was withdrawn.
    Taken,
    /// The sleeping thread is the leader now. Its own request comes first.
    Lead(Box<Request>),
    /// The answer. The request comes back, so that the follower does the work of dropping it.
    Done(Answer, Option<Box<Request>>),
}

impl Following {
    fn take_if(&mut self, is_wanted: impl FnOnce(&Slot) -> bool) -> Option<Slot> {
        is_wanted(&self.slot).then(|| std::mem::replace(&mut self.slot, Slot::Taken))
    }

    fn take_request(&mut self) -> Option<Box<Request>> {
        match self.take_if(|slot| matches!(slot, Slot::Queued(_))) {
            Some(Slot::Queued(request)) => Some(request),
            _ => None,
        }
    }
}

impl Follower {
    fn new(request: Box<Request>) -> Arc<Self> {
        let following = Following { slot: Slot::Queued(request), sleeps: false, waker: None };
        Arc::new(Self { state: Mutex::new(following), changed: Condvar::new() })
    }

    fn answer(&self, answer: Answer, request: Option<Box<Request>>) {
        let mut state = self.state.lock();
        state.slot = Slot::Done(answer, request);
        let (sleeps, waker) = (state.sleeps, state.waker.take());
        drop(state);
        if sleeps {
            self.changed.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The answer, or the request to lead with, if either has come.
    fn take_outcome(&self) -> Option<Slot> {
        self.state.lock().take_if(|slot| matches!(slot, Slot::Done(..) | Slot::Lead(_)))
    }

    /// Sleeps until the answer has come, or this thread is the leader. `sleeps` was set while there
    /// was a leader.
    fn sleep(&self) {
        let mut state = self.state.lock();
        while matches!(state.slot, Slot::Queued(_) | Slot::Taken) {
            self.changed.wait(&mut state);
        }
        state.sleeps = false;
    }
}

/// A commit in the queue of the local store.
struct LocalCommit {
    shared: Arc<Shared>,
    /// What the transaction saw.
    seen: TxnId,
    follower: Arc<Follower>,
}

impl PendingCommit for LocalCommit {
    fn turn(&self) -> CommitTurn {
        CommitTurn::new(LocalTurn { shared: Arc::clone(&self.shared), follower: Arc::clone(&self.follower) })
    }

    fn go_on(self: Box<Self>) -> Result<Commit> {
        let queue = &self.shared.queue;
        let mut outcome = self.follower.take_outcome();
        if outcome.is_none() && queue.begins_to_lead() {
            queue.lead(&self.shared, Vec::new());
            outcome = self.follower.take_outcome();
        }
        match outcome {
            Some(Slot::Done(answer, request)) => {
                drop(request);
                self.end(answer).map(Commit::Ended)
            }
            Some(Slot::Lead(request)) => self.end(queue.lead_with(&self.shared, request)).map(Commit::Ended),
            _ => Ok(Commit::Queued(QueuedCommit::new(self))),
        }
    }
}

impl LocalCommit {
    fn end(&self, answer: Answer) -> Result<CommitTicket> {
        let committed = answer.unwind()?;
        Ok(CommitTicket::new(&self.shared.database, self.seen, Some(committed)))
    }
}

impl Drop for LocalCommit {
    fn drop(&mut self) {
        let is_over = |slot: &Slot| matches!(slot, Slot::Taken | Slot::Done(..));
        if is_over(&self.follower.state.lock().slot) {
            return;
        }
        let queue = &self.shared.queue;
        let withdrawn = {
            let mut state = queue.state.lock();
            let withdrawn = self.follower.state.lock().take_if(|slot| !is_over(slot));
            match &withdrawn {
                Some(Slot::Queued(_)) => state.waiting.retain(|other| !Arc::ptr_eq(other, &self.follower)),
                Some(_) => state.is_led = false,
                None => {}
            }
            withdrawn
        };
        drop(withdrawn);
        // This request may have been the one that was to lead, or to look for a leader.
        queue.find_leader();
    }
}

/// Waiting in the queue, until there is an outcome or nobody leads.
struct LocalTurn {
    shared: Arc<Shared>,
    follower: Arc<Follower>,
}

impl Turn for LocalTurn {
    fn block(self: Box<Self>) {
        self.shared.queue.sleep(&self.follower);
    }
}

impl Future for LocalTurn {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.follower.state.lock();
            if !matches!(state.slot, Slot::Queued(_) | Slot::Taken) {
                return Poll::Ready(());
            }
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => state.waker = Some(context.waker().clone()),
            }
        }
        // A leader that stops after this finds the waker.
        match self.shared.queue.state.lock().is_led {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

// ---- the leader ----

/// The queue of commits.
#[derive(Default)]
pub(crate) struct CommitQueue {
    state: Mutex<Queue>,
    /// Commits so far, which orders those of one storage transaction.
    sequence: AtomicU64,
}

#[derive(Default)]
struct Queue {
    is_led: bool,
    waiting: VecDeque<Arc<Follower>>,
}

/// A request in a batch.
struct Item {
    request: Box<Request>,
    /// `None` for the leader's own request.
    follower: Option<Arc<Follower>>,
    answer: Option<Answer>,
}

impl CommitQueue {
    /// Commits at once if there is no leader, with others that come meanwhile. Otherwise queues up.
    pub(crate) fn commit(&self, shared: &Arc<Shared>, request: Box<Request>) -> Result<Commit> {
        let seen = request.snapshot.txn();
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_led, true) {
            let follower = Follower::new(request);
            state.waiting.push_back(Arc::clone(&follower));
            drop(state);
            let commit = LocalCommit { shared: Arc::clone(shared), seen, follower };
            return Ok(Commit::Queued(QueuedCommit::new(Box::new(commit))));
        }
        drop(state);
        let committed = self.lead_with(shared, request).unwind()?;
        Ok(Commit::Ended(CommitTicket::new(&shared.database, seen, Some(committed))))
    }

    fn begins_to_lead(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_led, true)
    }

    /// Sleeps until a follower has its answer or is to lead.
    fn sleep(&self, follower: &Follower) {
        {
            let state = self.state.lock();
            if !state.is_led {
                return;
            }
            follower.state.lock().sleeps = true;
        }
        follower.sleep();
    }

    fn lead_with(&self, shared: &Shared, request: Box<Request>) -> Answer {
        let own = self.lead(shared, vec![Item { request, follower: None, answer: None }]);
        own.expect("the leader's own request is in its first batch")
    }

    /// Commits a batch and what has queued up. Gives the answer to the leader's own request, if
    /// that is in the batch.
    fn lead(&self, shared: &Shared, mut batch: Vec<Item>) -> Option<Answer> {
        let mut leader = Leader { queue: self, taken: Vec::new() };
        let mut own = None;
        if batch.is_empty() && !leader.take(&mut batch) {
            return None;
        }
        for round in 1..=ROUNDS_MAX {
            self.commit_batch(shared, &mut batch, &mut leader);
            for Item { mut request, follower, answer } in batch.drain(..) {
                let answer = answer.expect("everyone in a batch gets an answer");
                request.work.locks.release();
                match follower {
                    Some(follower) => follower.answer(answer, Some(request)),
                    None => own = Some(answer),
                }
            }
            leader.taken.clear();
            if round == ROUNDS_MAX || !leader.take(&mut batch) {
                break;
            }
        }
        own
    }

    /// If there is no leader and a request is queued: makes a sleeping thread the leader, or wakes
    /// a task that will look for one.
    fn find_leader(&self) {
        let mut state = self.state.lock();
        if state.is_led {
            return;
        }
        if let Some(at) = state.waiting.iter().position(|follower| follower.state.lock().sleeps)
            && let Some(follower) = state.waiting.remove(at)
        {
            state.is_led = true;
            drop(state);
            let mut following = follower.state.lock();
            if let Some(request) = following.take_request() {
                following.slot = Slot::Lead(request);
            }
            drop(following);
            follower.changed.notify_one();
            return;
        }
        // A follower without a waker was not polled yet, and will look when it is.
        let waker = state.waiting.iter().find_map(|follower| follower.state.lock().waker.take());
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Commits as much of a batch as possible, with what queues up until the writer's lock is
    /// taken.
    fn commit_batch(&self, shared: &Shared, batch: &mut Vec<Item>, leader: &mut Leader<'_>) {
        match begin_writing(shared) {
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
        // Each request without an answer is committed by itself.
        for item in batch.iter_mut().filter(|item| item.answer.is_none()) {
            match begin_writing(shared) {
                Ok(txn) => self.commit_in(shared, txn, std::slice::from_mut(item)),
                Err(e) => item.answer = Answer::failed(e),
            }
        }
    }

    /// Commits a batch with one transaction of the storage. If that fails although no request is at
    /// fault, and there are several, nothing is changed, and those that were not refused are left
    /// without an answer.
    fn commit_in(&self, shared: &Shared, mut txn: WriteTxn, batch: &mut [Item]) {
        let alone = batch.len() == 1;
        let number = txn.txn();
        shared.long_work.begins(batch.iter().map(|item| item.request.work.items()).sum());
        shared.recent.begin(number);
        // Released when nothing is locked here.
        let (mut released, mut dropped) = (Vec::new(), Vec::new());
        let mut prepared = match shared.prepared.in_batch(shared, &txn) {
            Ok(prepared) => prepared,
            Err(e) if alone => {
                batch[0].answer = Answer::failed(e);
                return;
            }
            Err(_) => return,
        };
        let mut applied = Vec::with_capacity(batch.len());
        for (index, item) in batch.iter_mut().enumerate() {
            let request = &*item.request;
            let unchanged = applied.is_empty() && request.snapshot.txn().0 + 1 == txn.txn().0;
            match carry_out(shared, request, &mut txn, &mut prepared, unchanged) {
                Carried::Out(removed) => {
                    applied.push(index);
                    dropped.extend(removed);
                }
                Carried::Refused(answer) => item.answer = Some(answer),
                Carried::HalfOut(e) => {
                    prepared.forget();
                    if alone {
                        item.answer = Answer::failed(e);
                        break;
                    }
                    return;
                }
            }
        }
        if applied.is_empty() {
            return;
        }
        match txn.commit_ticket() {
            Ok(ticket) => {
                let txn = ticket.txn();
                // A transaction that changed nothing was not published, and its number is not used.
                if txn == number {
                    shared.recent.published(number);
                    prepared.published(number);
                }
                count(&shared.counts.commits, applied.len() as u64);
                count(&shared.counts.batches, 1);
                for index in applied {
                    let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
                    let committed = Committed { txn, sequence };
                    batch[index].answer = Some(Answer::Result(Ok(committed)));
                    let request = &mut batch[index].request;
                    if let Some(then) = request.work.at_commit.take() {
                        let seen = request.snapshot.txn();
                        then(CommitTicket::new(&shared.database, seen, Some(committed)));
                    }
                    match &request.task {
                        Task::Commit => {
                            for space in request.work.writes.spaces() {
                                if matches!(space.base, Base::Dropped { made: false }) {
                                    shared.forget(space.id);
                                }
                            }
                        }
                        Task::Prepare { name, .. } => {
                            released.extend(prepared.hold(name, request.work.locks.take_all()))
                        }
                        Task::Finish { name, .. } => {
                            released.extend(prepared.let_go(name));
                            dropped.drain(..).for_each(|space| shared.forget(space));
                        }
                    }
                }
            }
            Err(e) => {
                prepared.forget();
                // It was given up before it was proposed to others.
                if matches!(e, StorageError::Poisoned) && shared.database.proposer().is_some() {
                    for index in applied {
                        batch[index].answer = Answer::failed(Error::NotLeading);
                    }
                    return;
                }
                let poisoned = !matches!(e, StorageError::Poisoned)
                    && matches!(shared.database.try_write(), Err(StorageError::Poisoned));
                if poisoned {
                    // A flush failed: either everything will be there, or nothing.
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

/// The transaction of the storage that requests are committed with.
fn begin_writing(shared: &Shared) -> Result<WriteTxn> {
    match shared.database.proposer() {
        None => Ok(shared.database.write()?),
        Some(proposer) => begin_proposing(shared, &**proposer),
    }
}

/// The same where others have to agree on it.
fn begin_proposing(shared: &Shared, proposer: &dyn Proposer) -> Result<WriteTxn> {
    let admission = match proposer.admission() {
        Admission::Full => {
            shared.long_work.begins_to_wait();
            proposer.wait_for_room()
        }
        known => known,
    };
    if admission == Admission::Closed {
        return Err(Error::NotLeading);
    }
    // Until the lock was there the database may have been given up, or the last commits may have
    // been asked for.
    let txn = shared.database.write();
    match proposer.admission() {
        Admission::Closed => Err(Error::NotLeading),
        Admission::Yes | Admission::Full => Ok(txn?),
    }
}

/// The role of the leader. However it ends, no follower is left waiting.
struct Leader<'a> {
    queue: &'a CommitQueue,
    /// Followers without an answer yet.
    taken: Vec<Arc<Follower>>,
}

impl Leader<'_> {
    /// Takes everything that is queued. Gives whether that was anything.
    fn take(&mut self, batch: &mut Vec<Item>) -> bool {
        let mut state = self.queue.state.lock();
        let any = !state.waiting.is_empty();
        for follower in state.waiting.drain(..) {
            let request = follower.state.lock().take_request();
            if let Some(request) = request {
                self.taken.push(Arc::clone(&follower));
                batch.push(Item { request, follower: Some(follower), answer: None });
            }
        }
        any
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // There are any only if the thread panics.
        for follower in self.taken.drain(..) {
            let reason = "the thread that was to commit it panicked".to_owned();
            let is_taken = matches!(follower.state.lock().slot, Slot::Taken);
            if is_taken {
                follower.answer(Answer::Result(Err(Error::Unknown { reason })), None);
            }
        }
        self.queue.state.lock().is_led = false;
        self.queue.find_leader();
    }
}
