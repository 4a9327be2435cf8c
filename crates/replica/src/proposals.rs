//! The queue between the commits of a leader and the log: what was proposed and is not agreed on.
//!
//! ```text
//! commit ─► propose ─► | waiting | ─► take ─► | a group under way | ─► agreed
//!                                                             └─► ended: its fate is told
//! ```
//! There is one queue for each opening of a database, and the engine's proposer is a copy of it.
//!
//! # Back pressure
//! The engine proposes with the writer's lock held, so proposing never waits. What waits is the
//! beginning of a transaction: [`Proposals::poll_room`] waits before the writer's lock is
//! taken, and [`Proposer::admission`] is asked again when it is held. One transaction writes at a
//! time, so the queue exceeds its bounds by one record at most. The bound in commits stays below
//! the number of commits that the engine lets run ahead of the agreement, so that a commit never
//! waits for the log with the writer's lock held.
//!
//! Invariants:
//! 1. Records leave the queue in the order in which they came.
//! 2. What became of a commit is told only when it cannot change any more, or as unknown.
//! 3. Once the queue has ended, it takes nothing and gives nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use colibri_storage::{Admission, Fate, Proposer, TxnId};
use parking_lot::Mutex;

use crate::group;
use crate::names::NodeId;

/// Commits that may be under way together. The engine allows 254.
const COMMITS_MAX: usize = 192;

/// How a hand-over ended, as its requester is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandedOver {
    Done,
    /// The successor is no member. The leadership goes on.
    NoSuchMember,
    /// The leadership has ended in another way.
    Ended,
}

/// A request to hand the leadership over, and where its answer goes.
#[derive(Clone)]
pub(crate) struct HandOver {
    pub(crate) successor: Option<NodeId>,
    answer: Arc<Mutex<(Option<HandedOver>, Option<Waker>)>>,
}

impl HandOver {
    pub(crate) fn to(successor: Option<NodeId>) -> Self {
        Self { successor, answer: Arc::default() }
    }

    pub(crate) fn answer(&self, handed_over: HandedOver) {
        let mut answer = self.answer.lock();
        answer.0.get_or_insert(handed_over);
        let waker = answer.1.take();
        drop(answer);
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<HandedOver> {
        let mut answer = self.answer.lock();
        match answer.0.clone() {
            Some(handed_over) => Poll::Ready(handed_over),
            None => {
                answer.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// What the leader does next.
pub(crate) enum Work {
    /// Append this group, whose last transaction is this one.
    Append(Vec<u8>, TxnId),
    /// Nothing is left to append, and the leadership is to be handed over.
    HandOver(HandOver),
}

/// Copies are the same queue.
#[derive(Clone)]
pub(crate) struct Proposals(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: VecDeque<(TxnId, Vec<u8>)>,
    /// The last transaction of the group that is under way.
    under_way: Option<TxnId>,
    /// Of what waits and of what is under way.
    commits: usize,
    bytes: usize,
    bytes_max: usize,
    is_open: bool,
    /// Commits that have to wait before the leader is woken up.
    wanted: usize,
    hand_over: Option<HandOver>,
    ended: Option<Ended>,
    leader: Option<Waker>,
    room: Vec<Waker>,
}

/// What became of the commits that were under way when the queue ended.
struct Ended {
    agreed_to: TxnId,
    unknown_to: TxnId,
}

impl Proposer for Proposals {
    fn propose(&self, txn: TxnId, record: &[u8]) {
        let mut state = self.0.lock();
        if state.ended.is_some() {
            return;
        }
        state.waiting.push_back((txn, record.to_vec()));
        state.commits += 1;
        state.bytes += record.len();
        let waker = if state.is_enough() { state.leader.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn admission(&self) -> Admission {
        self.0.lock().admission()
    }

    fn wait_for_room(&self) -> Admission {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Arc::new(Unpark(std::thread::current())).into();
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll_room(&mut context) {
                Poll::Ready(admission) => return admission,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    fn fate(&self, txn: TxnId) -> Fate {
        match &self.0.lock().ended {
            Some(ended) if txn <= ended.agreed_to => Fate::Agreed,
            Some(ended) if txn > ended.unknown_to => Fate::NotCommitted,
            // Without an end: the engine has failed, and the log may have the record.
            _ => Fate::Unknown,
        }
    }
}

impl Proposals {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(State { bytes_max, ..State::default() })))
    }

    /// Lets transactions begin.
    pub(crate) fn open(&self) {
        let mut state = self.0.lock();
        state.is_open = state.ended.is_none();
        state.hand_over = None;
        state.wake_room();
    }

    /// Lets no transaction begin any more.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.is_open = false;
        let hand_over = state.hand_over.take();
        state.wake_room();
        let waker = state.leader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        hand_over.into_iter().for_each(|hand_over| hand_over.answer(HandedOver::Ended));
    }

    /// As [`Proposals::close`], and the leader finds the request when nothing is left to append.
    pub(crate) fn close_for(&self, hand_over: HandOver) {
        let mut state = self.0.lock();
        if !state.is_open {
            drop(state);
            return hand_over.answer(HandedOver::Ended);
        }
        state.is_open = false;
        state.hand_over = Some(hand_over);
        state.wake_room();
        let waker = state.leader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits while too much is under way.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<Admission> {
        let mut state = self.0.lock();
        match state.admission() {
            Admission::Full => {
                state.room.push(context.waker().clone());
                Poll::Pending
            }
            known => Poll::Ready(known),
        }
    }

    /// Commits and bytes that were proposed and are not agreed on.
    pub(crate) fn under_way(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.commits, state.bytes)
    }

    /// Waits for so many commits, or for so many bytes of them, or until no transaction begins any
    /// more; gives how many commits there are. No group is under way.
    pub(crate) fn poll_gathered(&self, context: &mut Context<'_>, commits: usize, bytes: usize) -> Poll<usize> {
        let mut state = self.0.lock();
        state.wanted = commits;
        if state.is_enough() || state.bytes >= bytes || !state.is_open {
            return Poll::Ready(state.waiting.len());
        }
        state.leader = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next group, of at most so many bytes unless one record is longer. The group before has
    /// been agreed on.
    pub(crate) fn poll_work(&self, context: &mut Context<'_>, bytes_max: usize) -> Poll<Work> {
        let mut state = self.0.lock();
        state.wanted = 0;
        if state.waiting.is_empty() {
            if let Some(hand_over) = &state.hand_over {
                return Poll::Ready(Work::HandOver(hand_over.clone()));
            }
            state.leader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let mut group = group::empty();
        let mut last = TxnId(0);
        while let Some((txn, record)) = state.waiting.front()
            && (group.len() == group::HEADER_BYTES || group.len() + record.len() <= bytes_max)
        {
            group.extend_from_slice(record);
            last = *txn;
            state.waiting.pop_front();
        }
        state.under_way = Some(last);
        Poll::Ready(Work::Append(group, last))
    }

    /// The group under way, of so many bytes, is in the log. Gives how many commits were under way
    /// and waited.
    pub(crate) fn agreed(&self, group_bytes: usize) -> usize {
        let mut state = self.0.lock();
        state.under_way = None;
        let commits = state.commits;
        state.bytes -= group_bytes - group::HEADER_BYTES;
        state.commits = state.waiting.len();
        state.wake_room();
        commits
    }

    /// Ends the queue. What was proposed up to `agreed_to` is in the log; the group under way may
    /// be in it if `is_unknown`; what waits never will be.
    pub(crate) fn end(&self, agreed_to: TxnId, is_unknown: bool) {
        self.close();
        let mut state = self.0.lock();
        let unknown_to = state.under_way.filter(|_| is_unknown).unwrap_or(agreed_to);
        state.ended.get_or_insert(Ended { agreed_to, unknown_to });
        state.waiting.clear();
        (state.commits, state.bytes) = (0, 0);
    }

    /// Whether a group is under way.
    pub(crate) fn has_group_under_way(&self) -> bool {
        self.0.lock().under_way.is_some()
    }
}

impl State {
    fn admission(&self) -> Admission {
        match (self.is_open, self.bytes < self.bytes_max && self.commits < COMMITS_MAX) {
            (false, _) => Admission::Closed,
            (true, false) => Admission::Full,
            (true, true) => Admission::Yes,
        }
    }

    /// Whether the leader is to be woken up: what it waits for is there, or nothing more can come
    /// because the queue is full.
    fn is_enough(&self) -> bool {
        self.waiting.len() >= self.wanted.max(1) || self.bytes >= self.bytes_max
    }

    fn wake_room(&mut self) {
        std::mem::take(&mut self.room).into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(proposals: &Proposals) -> Option<(usize, TxnId)> {
        match proposals.poll_work(&mut Context::from_waker(Waker::noop()), 100) {
            Poll::Ready(Work::Append(group, last)) => Some((group.len(), last)),
            _ => None,
        }
    }

    #[test]
    fn groups_keep_the_order_and_the_size_and_room_comes_back() {
        let proposals = Proposals::new(150);
        assert_eq!(proposals.admission(), Admission::Closed);
        proposals.open();
        for (txn, bytes) in [(1, 40), (2, 50), (3, 10), (4, 200)] {
            proposals.propose(TxnId(txn), &vec![0; bytes]);
        }
        assert_eq!(proposals.admission(), Admission::Full);
        let mut taken = Vec::new();
        while let Some((bytes, last)) = work(&proposals) {
            taken.push((bytes, last.0));
            proposals.agreed(bytes);
        }
        assert_eq!(taken, [(98, 2), (18, 3), (208, 4)], "a long record alone");
        assert_eq!((proposals.admission(), proposals.under_way()), (Admission::Yes, (0, 0)));
    }

    #[test]
    fn each_commit_is_told_what_became_of_it() {
        let proposals = Proposals::new(1 << 20);
        proposals.open();
        (1..=2).for_each(|txn| proposals.propose(TxnId(txn), &[0; 40]));
        let (bytes, last) = work(&proposals).unwrap();
        proposals.agreed(bytes);
        assert_eq!(proposals.fate(TxnId(1)), Fate::Unknown, "nothing has ended");
        proposals.propose(TxnId(3), &[0; 40]);
        assert!(work(&proposals).is_some());
        proposals.propose(TxnId(4), &[0; 40]);
        proposals.end(last, true);
        let fates = [2, 3, 4].map(|txn| proposals.fate(TxnId(txn)));
        assert_eq!(fates, [Fate::Agreed, Fate::Unknown, Fate::NotCommitted]);
        assert!(work(&proposals).is_none());
        assert_eq!(proposals.admission(), Admission::Closed);
        // What comes later changes nothing.
        proposals.propose(TxnId(5), &[0; 40]);
        assert_eq!(proposals.fate(TxnId(5)), Fate::NotCommitted);
    }
}
