//! What works for a replica: it opens the database, finds its place in the log, and follows or
//! leads (`standby`, `leader`).
//!
//! # Finding the place
//! The log is read from the newest of these points that is not beyond the database: a mark in
//! memory, the base of any node, the first entry that is left. A base says at which transaction
//! which point of the log is, which is the same for all nodes. So a copy of another node's database
//! finds its place as well. Transactions that the database has are passed over by their numbers;
//! the checksum of the last one has to be the database's. If the first transaction behind the point
//! is not the one that the database needs next, the next older point is tried. If none is left, the
//! database has to be seeded anew.
//!
//! Bug: what was left of a trimmed log was the first part of a record whose leader had died, and so
//! no record at all. Consequence: a node without the transactions before it took itself for
//! current, and could have led. Fix: where the log was trimmed, a record has to say where the log
//! stands; if there is none, the node is seeded anew.
//!
//! # Giving up
//! A term may end while commits are not agreed on. Then the engine gives them up: it is opened
//! again, is back at its steady point, and the log is followed from there. What is in the log comes
//! back, what is not does not. If nothing was under way, and no transaction has begun, the opening
//! goes on.
//!
//! Invariants:
//! 1. Terms and openings are ended here and nowhere else, so a future of [`Driver`] may be dropped
//!    at any time: the next call finds the term open, and ends it.
//! 2. Before a term's commits are given up, its callers' fates are known to the queue.
//! 3. A node leads once under an epoch. When a term ends, the epoch is noted as one that is being
//!    resigned, and a campaign never gives such an epoch back. So nothing that the node has sent
//!    under it can come after it has begun to lead again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use colibri_storage::{Database as Engine, Error as EngineError, Proposer, TxnId};
use parking_lot::Mutex;

use crate::cluster::{Cluster, Error};
use crate::coordinator::{Failure, Refusal};
use crate::entry::{Point, Position};
use crate::follow::{FollowError, Follower, Record};
use crate::group;
use crate::marks::{Mark, Marks};
use crate::names::{Database, NodeId};
use crate::proposals::Proposals;
use crate::replica::{Inner, Replica, ReplicaOptions, State};

/// The pause between tries to open a database that is still in use.
const REOPEN_PAUSE: Duration = Duration::from_millis(20);

/// Why a replica cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The log does not have what comes behind this transaction any more. Put a copy of another
    /// node's database into the directory, and open the replica again.
    #[error("the log does not have what follows transaction {txn}: seed this node anew")]
    SeedAnew {
        /// The database's last transaction.
        txn: TxnId,
    },
    /// The database has another history than the log. It has to be seeded anew, and somebody has to
    /// find out why.
    #[error("the database has another history than the log, from transaction {txn} on: seed this node anew")]
    Diverged {
        /// The first transaction that differs, as far as it is known.
        txn: TxnId,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(FollowError),
    /// A record of the log cannot be used.
    #[error("the record at position {position} of the log cannot be used: {reason}")]
    Record {
        /// The position.
        position: Position,
        /// What is wrong.
        reason: &'static str,
    },
    /// The service refuses.
    #[error(transparent)]
    Service(#[from] Error),
    /// The engine fails.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

type Open = Box<dyn FnMut(Arc<dyn Proposer>) -> colibri_storage::Result<Engine> + Send>;

/// The points from which the log is read, from the newest to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Mark,
    Base,
    First,
}

/// Works for one [`Replica`]. Its futures need no particular runtime. They use the disk, so a
/// server runs them where a call may take some milliseconds.
pub struct Driver {
    pub(crate) replica: Replica,
    open: Open,
    node: NodeId,
    /// `None` until the place in the log is found.
    place: Option<Place>,
}

/// Where the log is read.
struct Place {
    follower: Follower,
    from: From,
    /// The last transaction of the log before the follower's point, if it is known.
    log_txn: Option<TxnId>,
    /// Entries before the point at which reading began were trimmed.
    is_trimmed: bool,
}

/// The log does not go on where the database stands.
enum Cannot {
    /// From an older point it may.
    Gap,
    Stop(Stopped),
}

impl<E: Into<Stopped>> std::convert::From<E> for Cannot {
    fn from(e: E) -> Self {
        Self::Stop(e.into())
    }
}

impl Replica {
    /// Opens a node's database as a replica. `open` opens the engine with
    /// [`colibri_storage::Durability::Agreed`] and the proposer that it is given. It is called
    /// again after a term has ended with commits under way.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn open(
        cluster: &Cluster,
        name: &Database,
        node: &NodeId,
        options: ReplicaOptions,
        open: impl FnMut(Arc<dyn Proposer>) -> colibri_storage::Result<Engine> + Send + 'static,
    ) -> colibri_storage::Result<(Self, Driver)> {
        let mut open: Open = Box::new(open);
        let proposals = Proposals::new(options.queue_bytes_max);
        let engine = open(Arc::new(proposals.clone()))?;
        let state = State { engine: Some(engine), proposals, point: None, leading: None };
        let replica = Self(Arc::new(Inner {
            cluster: cluster.clone(),
            name: name.clone(),
            options,
            state: Mutex::new(state),
            marks: Mutex::new(Marks::default()),
            trimmed_bytes: AtomicU64::new(0),
        }));
        Ok((replica.clone(), Driver { replica, open, node: node.clone(), place: None }))
    }
}

impl Driver {
    /// The replica that it works for.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    pub(crate) fn engine(&self) -> Result<Engine, Stopped> {
        self.replica.0.state.lock().engine.clone().ok_or(Stopped::Engine(EngineError::Poisoned))
    }

    pub(crate) fn proposals(&self) -> Proposals {
        self.replica.0.state.lock().proposals.clone()
    }

    /// The point behind all of the log that was read.
    pub(crate) fn point(&self) -> Option<Point> {
        self.place.as_ref().map(|place| place.follower.point())
    }

    /// Reads the log no more, until its place is looked for again.
    pub(crate) fn forget_place(&mut self) {
        self.place = None;
    }

    /// Whether the database has exactly what the log has up to that point, as far as the log has
    /// told.
    pub(crate) fn is_at_log_end(&self, engine: &Engine) -> bool {
        let log_txn = self.place.as_ref().and_then(|place| place.log_txn);
        log_txn.is_none_or(|log_txn| log_txn == engine.newest_txn())
    }

    /// Ends the term, if there is one. `is_unknown`: the group under way may be in the log. Gives
    /// up what was not agreed on.
    pub(crate) fn end_term(&mut self, is_unknown: bool) {
        let (engine, proposals, leading) = {
            let mut state = self.replica.0.state.lock();
            (state.engine.clone(), state.proposals.clone(), state.leading.take())
        };
        let Some(leading) = leading else { return };
        // What was appended was not read.
        self.place = None;
        leading.membership().note_resigning(leading.epoch());
        proposals.close();
        let Some(engine) = engine else { return };
        let is_quiet = || !proposals.has_group_under_way() && proposals.under_way().0 == 0;
        // A transaction that has begun could commit later.
        if is_quiet() && engine.try_write().is_ok() && is_quiet() && engine.newest_txn() == engine.readable_txn() {
            return;
        }
        proposals.end(engine.readable_txn(), is_unknown);
        _ = engine.abandon();
        self.replica.0.state.lock().engine = None;
    }

    /// Ends what a dropped future has left, opens the database if it is not open, and finds its
    /// place.
    pub(crate) async fn begin(&mut self) -> Result<(), Stopped> {
        self.end_term(true);
        if self.replica.0.state.lock().engine.is_none() {
            self.place = None;
            self.reopen().await?;
        }
        if self.place.is_none() {
            self.find_place().await?;
        }
        Ok(())
    }

    async fn reopen(&mut self) -> Result<(), Stopped> {
        let proposals = Proposals::new(self.replica.0.options.queue_bytes_max);
        let engine = loop {
            match (self.open)(Arc::new(proposals.clone())) {
                // Snapshots of the last opening live.
                Err(EngineError::DurabilityDiffers { .. } | EngineError::Poisoned) => self.sleep(REOPEN_PAUSE).await,
                result => break result?,
            }
        };
        self.replica.0.marks.lock().cut(engine.newest_txn());
        let mut state = self.replica.0.state.lock();
        (state.engine, state.proposals, state.point) = (Some(engine), proposals, None);
        Ok(())
    }

    pub(crate) async fn sleep(&self, pause: Duration) {
        self.replica.0.cluster.coordinator().sleep(pause).await;
    }

    async fn find_place(&mut self) -> Result<(), Stopped> {
        let (txn, chain) = self.engine()?.chain();
        let mark = self.replica.0.marks.lock().up_to(txn);
        if let Some(mark) = mark {
            self.take_place(mark.point, From::Mark, Some(mark.txn));
            return Ok(());
        }
        let (cluster, name) = (self.replica.0.cluster.clone(), self.replica.0.name.clone());
        let bases = loop {
            match cluster.bases(&name).await {
                Ok(bases) => break bases,
                Err(e) => self.wait_after(e).await?,
            }
        };
        let own = bases.bases.iter().find(|base| base.node.id == self.node);
        if own.is_some_and(|base| base.commit.is_none_or(|commit| commit.txn > txn.0)) {
            // The directory has an older copy. Nobody may rely on this base.
            while let Err(e) = cluster.withdraw_base(&name, &self.node).await {
                self.wait_after(e).await?;
            }
        }
        let marks = bases.bases.iter().filter_map(|base| Some((base.commit?, base.covers)));
        match marks.filter(|(commit, _)| commit.txn <= txn.0).max_by_key(|(commit, _)| commit.txn) {
            Some((commit, _)) if commit.txn == txn.0 && commit.chain != chain => {
                return Err(Stopped::Diverged { txn });
            }
            Some((commit, point)) => self.take_place(point, From::Base, Some(TxnId(commit.txn))),
            None => self.take_first_place().await?,
        }
        Ok(())
    }

    async fn take_first_place(&mut self) -> Result<(), Stopped> {
        let (cluster, name) = (self.replica.0.cluster.clone(), self.replica.0.name.clone());
        let first = loop {
            match cluster.first_point(&name).await {
                Ok(first) => break first,
                Err(e) => self.wait_after(e).await?,
            }
        };
        let txn = self.engine()?.newest_txn();
        let first = first.ok_or(Stopped::SeedAnew { txn })?;
        self.take_place(first, From::First, None);
        Ok(())
    }

    fn take_place(&mut self, point: Point, from: From, log_txn: Option<TxnId>) {
        let follower = self.replica.0.cluster.follow(&self.replica.0.name, point);
        let is_trimmed = point.next > Position::FIRST;
        {
            let mut state = self.replica.0.state.lock();
            if log_txn.is_some() && state.engine.as_ref().map(Engine::newest_txn) == log_txn {
                state.point = Some(point);
            }
        }
        self.place = Some(Place { follower, from, log_txn, is_trimmed });
    }

    /// Waits before a next try, unless trying again is of no use.
    pub(crate) async fn wait_after(&self, error: Error) -> Result<(), Stopped> {
        match error {
            Error::Failed(Failure::NotSent(_) | Failure::Unknown(_) | Failure::Refused(Refusal::NoSpace)) => {
                self.sleep(Duration::from_millis(100)).await;
                Ok(())
            }
            error => Err(Stopped::Service(error)),
        }
    }

    /// Waits for a record, and applies it with those behind it that were read. With `only_there`
    /// this does not wait for records that are not in the log yet. Gives whether there was one.
    pub(crate) async fn apply_next(&mut self, only_there: bool) -> Result<bool, Stopped> {
        loop {
            let txn = self.engine()?.newest_txn();
            match self.try_apply_next(only_there).await {
                Ok(applied) => return Ok(applied),
                Err(Cannot::Stop(stopped)) => return Err(stopped),
                Err(Cannot::Gap) => match self.place.take().map(|place| place.from) {
                    Some(From::Mark | From::Base) => self.take_first_place().await?,
                    _ => return Err(Stopped::SeedAnew { txn }),
                },
            }
        }
    }

    async fn try_apply_next(&mut self, only_there: bool) -> Result<bool, Cannot> {
        let bytes_max = self.replica.0.options.apply_bytes_max;
        let place = self.place.as_mut().expect("begin has found it");
        let knows_log = place.log_txn.is_some() || !place.is_trimmed;
        let next = match only_there || !knows_log {
            true => place.follower.next_if_there().await,
            false => place.follower.next().await.map(Some),
        };
        let first = match next {
            Ok(Some(first)) => first,
            Ok(None) if !knows_log => return Err(Cannot::Gap),
            Ok(None) => return Ok(false),
            Err(FollowError::Trimmed { .. }) => return Err(Cannot::Gap),
            Err(e) => return Err(Cannot::Stop(Stopped::Log(e))),
        };
        let mut bytes = first.bytes.len();
        let mut records = vec![first];
        while bytes < bytes_max
            && let Some(record) = place.follower.next_ready()
        {
            bytes += record.bytes.len();
            records.push(record);
        }
        self.apply(&records)?;
        Ok(true)
    }

    /// Applies groups that were read. No await: dropping the future loses none of them.
    fn apply(&mut self, records: &[Record]) -> Result<(), Cannot> {
        let engine = self.engine()?;
        let place = self.place.as_mut().expect("begin has found it");
        let (has, chain) = engine.chain();
        let wrong = |record: &Record| {
            let position = record.position;
            move |reason| Stopped::Record { position, reason }
        };
        let mut groups = Vec::with_capacity(records.len());
        for record in records {
            groups.push(group::unpack(&record.bytes).map_err(wrong(record))?);
        }
        let mut commits = Vec::new();
        let mut log_txn = place.log_txn;
        for (record, group) in records.iter().zip(&groups) {
            for commit in group::decode(group).map_err(wrong(record))? {
                if log_txn.is_some_and(|before| before.0 + 1 != commit.txn.0) {
                    return Err(Cannot::Stop(wrong(record)("its transactions do not follow those before")));
                }
                log_txn = Some(commit.txn);
                match commit.txn.cmp(&has) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal if commit.chain == chain => {}
                    std::cmp::Ordering::Equal => return Err(Stopped::Diverged { txn: has }.into()),
                    std::cmp::Ordering::Greater => commits.push(commit),
                }
            }
        }
        if commits.first().is_some_and(|first| first.txn.0 != has.0 + 1) {
            return Err(Cannot::Gap);
        }
        engine.apply(commits.iter().map(|commit| commit.bytes)).map_err(|e| match e {
            EngineError::Diverged { txn } => Stopped::Diverged { txn },
            e => Stopped::Engine(e),
        })?;
        place.log_txn = log_txn;
        let point = records.last().expect("there is one").end;
        // What is beyond the database's place has been applied, and what is before is not noted.
        let (txn, chain) = engine.chain();
        if log_txn == Some(txn) {
            self.replica.note_applied(Mark { txn, chain, point });
        }
        Ok(())
    }
}

impl Drop for Driver {
    /// Nobody is left who could agree on what is under way.
    fn drop(&mut self) {
        self.end_term(true);
    }
}
