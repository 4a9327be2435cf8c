//! A leader: its term, from the election to its end.
//!
//! # The beginning
//! The leader's key was created by this epoch, so an append of an older epoch does not find its own
//! leader's key any more: it is fenced, whenever it arrives. The end of the log is read after the
//! election, so it is the end of all that older leaders have appended. When the database has
//! applied the log up to there, nothing can come before the first append of this term. No record
//! that begins the term is needed. The node itself has sent nothing under this epoch either: it
//! leads once under an epoch (`driver`, invariant 3).
//!
//! # The term
//! One append is under way. What is proposed meanwhile goes into the next one, up to an entry's
//! length, and commits that are expected are waited for (`gather`). An append without an answer is
//! repeated, which changes nothing if it was done, until it is known or the node is not certain any
//! more that it leads.
//!
//! Appending runs where the answers of the service come in ([`Coordinator::beside_answers`]), so a
//! commit wakes up two threads and not four: the one for the service, and its own. What may block,
//! such as the steady point of a hand-over, is left to the driver's thread.
//!
//! [`Coordinator::beside_answers`]: crate::coordinator::Coordinator::beside_answers
//!
//! # The end
//! - *Handed over*: no transaction begins, those that have begun end, all that was proposed is
//!   appended, a steady point is made, the leadership is resigned. The database stays open.
//! - *Fenced*, or another record is at the position: the group under way is not in the log and
//!   never will be, and neither is what waits.
//! - *The lease may have expired* without an answer to the last append: the group under way may be
//!   in the log. What waits was never sent and is not.
//!
//! In the last two the engine gives up what was not agreed on.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use colibri_storage::{Database as Engine, Error as EngineError, TxnId};
use parking_lot::Mutex;

use crate::append::{Appender, Outcome, Staged};
use crate::backoff::Backoff;
use crate::coordinator::Refusal;
use crate::driver::{Driver, Stopped};
use crate::gather::Gathering;
use crate::group::{self, Packer};
use crate::leadership::{Leadership, Resigned};
use crate::marks::Mark;
use crate::proposals::{HandOver, HandedOver, Proposals, Work};
use crate::replica::Replica;
use crate::upkeep::{beside, keep_up, publish};

/// The pause between looks whether the transactions that have begun have ended.
const WRITER_PAUSE: Duration = Duration::from_millis(2);

/// How a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermEnd {
    /// By a hand-over. Every commit that was proposed is in the log.
    HandedOver,
    /// Another node leads, or nobody does. What was proposed and is not in the log never will be.
    Fenced,
    /// The node is not certain to lead, and the service does not answer. The last group may be in
    /// the log.
    Lost,
}

/// Why nothing is appended any more, or for now.
enum Paused {
    Over(TermEnd),
    /// Nothing is left to append, and the leadership is to be handed over.
    HandOver(HandOver, Appender),
}

/// What became of a group.
enum Settled {
    Appended,
    Never,
    Unknown,
}

impl Driver {
    /// Applies the log to its end, then commits under this leadership until the term is over. If
    /// the future is dropped, the term is over as well: call [`Driver::follow`] then, which tells
    /// the callers of commits what is known.
    ///
    /// # Errors
    /// [`Stopped`]: the database cannot be brought to the end of the log, so the leadership is
    /// resigned.
    pub async fn lead(&mut self, leadership: &Leadership) -> Result<TermEnd, Stopped> {
        self.lead_and_tell(leadership, || {}).await
    }

    /// As [`Driver::lead`]; calls `begun` when transactions can begin.
    ///
    /// # Errors
    /// As [`Driver::lead`].
    pub async fn lead_and_tell(&mut self, leadership: &Leadership, begun: impl FnOnce()) -> Result<TermEnd, Stopped> {
        let result = self.lead_until_the_end(leadership, begun).await;
        self.end_term(matches!(result, Ok(TermEnd::Lost) | Err(_)));
        // If this does not arrive, the next campaign repeats it.
        if !matches!(result, Ok(TermEnd::HandedOver)) {
            _ = leadership.resign(None).await;
        }
        result
    }

    async fn lead_until_the_end(&mut self, leadership: &Leadership, begun: impl FnOnce()) -> Result<TermEnd, Stopped> {
        self.begin().await?;
        let appender = loop {
            match leadership.appender().await {
                Ok(appender) => break appender,
                Err(e) => self.wait_after(e).await?,
            }
            if leadership.certain_for().is_zero() {
                return Ok(TermEnd::Lost);
            }
        };
        while self.apply_next(true).await? {}
        let engine = self.engine()?;
        if self.point() != Some(appender.point()) {
            // A later leader has appended.
            return Ok(TermEnd::Fenced);
        }
        if !self.is_at_log_end(&engine) {
            return Err(Stopped::Diverged { txn: engine.newest_txn() });
        }
        // With its watch, to which all that is appended in the term would come back, and stay.
        self.forget_place();
        {
            let mut state = self.replica.0.state.lock();
            state.leading = Some(leadership.clone());
            state.point = Some(appender.point());
        }
        let proposals = self.proposals();
        proposals.open();
        begun();
        let replica = self.replica.clone();
        let term = Term { replica: replica.clone(), leadership: leadership.clone(), engine, proposals };
        Ok(beside(term.run(appender), keep_up(&replica, leadership.membership(), Some(leadership))).await)
    }
}

/// A term while transactions commit. Copies are of the same term.
#[derive(Clone)]
struct Term {
    replica: Replica,
    leadership: Leadership,
    engine: Engine,
    proposals: Proposals,
}

impl Term {
    async fn run(self, mut appender: Appender) -> TermEnd {
        loop {
            match self.append_beside_answers(appender).await {
                Paused::Over(end) => return end,
                Paused::HandOver(hand_over, after) => match self.hand_over(&hand_over).await {
                    Some(end) => return end,
                    None => appender = after,
                },
            }
        }
    }

    async fn append_beside_answers(&self, appender: Appender) -> Paused {
        let paused = Arc::new(Mutex::new(None));
        let (term, told) = (self.clone(), Arc::clone(&paused));
        let work = Box::pin(async move {
            let paused = term.append(appender).await;
            *told.lock() = Some(paused);
        });
        self.leadership.cluster().coordinator().beside_answers(work).await;
        // The thread for the service has ended: what it was doing is not known.
        paused.lock().take().unwrap_or(Paused::Over(TermEnd::Lost))
    }

    /// Appends what is proposed. Never blocks.
    async fn append(&self, mut appender: Appender) -> Paused {
        let bytes_max = appender.entry_bytes_max();
        let clock = self.leadership.cluster().coordinator().clone();
        let (mut gathering, mut packer) = (Gathering::default(), Packer::default());
        let mut under_way = 0;
        loop {
            self.gather(&mut gathering, under_way, bytes_max).await;
            match poll_fn(|context| self.proposals.poll_work(context, bytes_max)).await {
                Work::Append(group, last) => {
                    let staged = appender.stage(packer.pack(&group));
                    let began = clock.now();
                    match self.settle(&staged).await {
                        Settled::Appended => {
                            gathering.appended(clock.now().since(began));
                            under_way = self.agree(&staged, last, &group);
                        }
                        Settled::Never => return Paused::Over(TermEnd::Fenced),
                        Settled::Unknown => return Paused::Over(TermEnd::Lost),
                    }
                }
                Work::HandOver(hand_over) => return Paused::HandOver(hand_over, appender),
            }
        }
    }

    /// Waits for the commits that are likely to join the next group.
    async fn gather(&self, gathering: &mut Gathering, under_way: usize, bytes_max: usize) {
        let Some((wanted, pause)) = gathering.aim(under_way) else { return };
        let gathered = |commits| poll_fn(move |context| self.proposals.poll_gathered(context, commits, bytes_max));
        let first = gathered(1).await;
        if first >= wanted {
            return gathering.waited(0, 0);
        }
        let mut pause = self.leadership.cluster().coordinator().sleep(pause);
        let mut rest = pin!(gathered(wanted));
        let all = poll_fn(|context| match rest.as_mut().poll(context) {
            Poll::Pending => pause.as_mut().poll(context).map(|()| self.proposals.under_way().0),
            all => all,
        });
        gathering.waited(all.await.saturating_sub(first), wanted - first);
    }

    /// The group is in the log. Gives how many commits were under way and waited.
    fn agree(&self, staged: &Staged, last: TxnId, group: &[u8]) -> usize {
        let under_way = self.proposals.agreed(group.len());
        let chain = group::last_chain(group);
        self.replica.note_applied(Mark { txn: last, chain, point: staged.end() });
        // The engine was opened for this.
        _ = self.engine.agree(last);
        under_way
    }

    async fn settle(&self, staged: &Staged) -> Settled {
        let mut may_arrive = false;
        let mut backoff = Backoff::default();
        loop {
            match staged.append().await {
                Outcome::Appended => return Settled::Appended,
                Outcome::Fenced { .. } | Outcome::Taken { .. } => return Settled::Never,
                // A later leader has appended, and has trimmed that.
                Outcome::Trimmed => return Settled::Unknown,
                // etcd carries the request out that reaches its quota, and refuses it.
                Outcome::Unknown(_) | Outcome::Gap { .. } | Outcome::Refused(Refusal::NoSpace) => may_arrive = true,
                Outcome::NotSent(_) | Outcome::Refused(_) => {}
            }
            if self.leadership.certain_for().is_zero() {
                return if may_arrive { Settled::Unknown } else { Settled::Never };
            }
            backoff.wait(&**self.leadership.cluster().coordinator()).await;
        }
    }

    /// Nothing waits to be appended. `None`: there is something again, or the leadership goes on.
    async fn hand_over(&self, hand_over: &HandOver) -> Option<TermEnd> {
        // No transaction begins any more. When the writer's lock is free, none is left that could
        // commit.
        while let Err(EngineError::Busy) = self.engine.try_write() {
            self.leadership.cluster().coordinator().sleep(WRITER_PAUSE).await;
        }
        if self.proposals.under_way().0 > 0 {
            return None;
        }
        // A failure shows with the next steady point. What was agreed on is in the log.
        if self.engine.newest_txn() == self.engine.readable_txn() {
            _ = self.engine.sync();
        }
        _ = publish(&self.replica, self.leadership.membership()).await;
        let mut backoff = Backoff::default();
        loop {
            match self.leadership.resign(hand_over.successor.as_ref()).await {
                Ok(Resigned::Done | Resigned::WasOver) => {
                    hand_over.answer(HandedOver::Done);
                    return Some(TermEnd::HandedOver);
                }
                Ok(Resigned::NoSuchMember) if !self.leadership.certain_for().is_zero() => {
                    hand_over.answer(HandedOver::NoSuchMember);
                    self.proposals.open();
                    return None;
                }
                // The resignation had begun before the successor was found to be gone.
                Ok(Resigned::NoSuchMember) => {
                    hand_over.answer(HandedOver::NoSuchMember);
                    return Some(TermEnd::Fenced);
                }
                Err(_) if self.leadership.membership().lease_left().is_zero() => return Some(TermEnd::Lost),
                Err(_) => backoff.wait(&**self.leadership.cluster().coordinator()).await,
            }
        }
    }
}
