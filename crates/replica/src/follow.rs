//! Following a log: every record from a point on, once each, in order.
//!
//! ```text
//! read a page, and the trim point, of one state ─► all pages read ─► watch from the state behind
//!      ▲                                                                 │
//!      └──────────── the connection was cut, the revision compacted, ◄───┘
//!                    or a position is missing
//! ```
//! What a follower gives is decided by positions and chain values alone. So a watch that starts too
//! early, or gives a change twice, gives no record twice; and a cut that swallows changes is mended
//! by reading.
//!
//! Invariants:
//! 1. The next record's first position is behind the record before, and its chain value follows.
//! 2. A record is given when its last entry is there, and no earlier.
//! 3. Dropping [`Follower::next`]'s future loses nothing.

use std::collections::VecDeque;
use std::future::poll_fn;

use crate::backoff::Backoff;
use crate::cluster::{Cluster, Error};
use crate::coordinator::{Change, Failure, Get, KeyValue, Refusal, Revision, Watch, WatchEvent};
use crate::entry::{Chain, Epoch, Point, Position, decode};
use crate::keys::position_of;
use crate::names::Database;

/// Entries of a page. The number follows the size of the entries: small ones are read many at a
/// time, and a page of the largest ones stays below the limit of an answer (`etcd/link.rs`).
const PAGE_ENTRIES: std::ops::RangeInclusive<usize> = 16..=128;
/// A page with fewer bytes makes the next one larger.
const PAGE_BYTES_LOW: usize = 1 << 20;
/// A page with more bytes makes the next one smaller.
const PAGE_BYTES_HIGH: usize = 8 << 20;

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where its first entry stands.
    pub position: Position,
    /// The point behind it: what a node keeps that has applied the record.
    pub end: Point,
    /// The epoch of the leader that appended it.
    pub epoch: Epoch,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Why a log cannot be followed from this point on. The follower gives the same from then on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// The entries at the point were trimmed: the node is too far behind, and has to be seeded
    /// anew.
    #[error("the log was trimmed up to position {first}, and this node needs position {needed}: seed it anew")]
    Trimmed {
        /// The first entry that is left.
        first: Position,
        /// The entry that is needed.
        needed: Position,
    },
    /// What the node has applied is not what the log has: it has to go back to a common point, or
    /// be seeded anew.
    #[error("this node has another history than the log, at position {position}: seed it anew")]
    Diverged {
        /// The first position at which the log has something else, or nothing.
        position: Position,
        /// The node's chain value before it.
        ours: Chain,
        /// The log's, if it has an entry there.
        theirs: Option<Chain>,
    },
    /// The log itself is damaged.
    #[error("position {position} of the log is damaged: {reason}")]
    Damaged {
        /// The position.
        position: Position,
        /// What is wrong.
        reason: &'static str,
    },
    /// The service refuses, for good: a wrong password, or a value that is none.
    #[error(transparent)]
    Failed(Error),
}

/// The part of a record that has been read.
struct Unfinished {
    position: Position,
    epoch: Epoch,
    bytes: Vec<u8>,
}

enum Source {
    /// A watch has ended: after a pause, read. Without the pause, a watch that ends at once each
    /// time would keep the service and this node busy.
    Cut,
    Reading,
    Watching(Box<dyn Watch>),
}

/// Reads a log and goes on with what is appended. Made by [`Cluster::follow`].
pub struct Follower {
    cluster: Cluster,
    db: Database,
    at: Point,
    epoch: Epoch,
    unfinished: Option<Unfinished>,
    ready: VecDeque<Record>,
    source: Source,
    page_entries: usize,
    backoff: Backoff,
    is_current: bool,
    failed: Option<FollowError>,
}

impl Cluster {
    /// Reads a database's log from a point on, and goes on with what is appended.
    #[must_use]
    pub fn follow(&self, db: &Database, from: Point) -> Follower {
        Follower::new(self.clone(), db.clone(), from)
    }
}

impl Follower {
    fn new(cluster: Cluster, db: Database, from: Point) -> Self {
        Self {
            cluster,
            db,
            at: from,
            epoch: Epoch(0),
            unfinished: None,
            ready: VecDeque::new(),
            source: Source::Reading,
            page_entries: *PAGE_ENTRIES.start(),
            backoff: Backoff::default(),
            is_current: false,
            failed: None,
        }
    }

    /// The point behind all entries that were read.
    #[must_use]
    pub fn point(&self) -> Point {
        self.at
    }

    /// Whether everything was given that had been in the log at some moment after the follower was
    /// made or last cut.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.is_current && self.ready.is_empty()
    }

    /// The next record, as soon as there is one. While the service cannot be reached this tries on,
    /// with pauses of up to two seconds.
    ///
    /// # Errors
    /// [`FollowError`].
    pub async fn next(&mut self) -> Result<Record, FollowError> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(record);
            }
            self.advance().await?;
        }
    }

    /// The next record if there is one in the newest state, else `None`. Reads until it knows.
    ///
    /// # Errors
    /// [`FollowError`].
    pub async fn next_if_there(&mut self) -> Result<Option<Record>, FollowError> {
        self.is_current = false;
        self.source = Source::Reading;
        while self.ready.is_empty() && !self.is_current {
            self.advance().await?;
        }
        Ok(self.ready.pop_front())
    }

    /// The next record if it has been read already. Asks nobody.
    pub fn next_ready(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    async fn advance(&mut self) -> Result<(), FollowError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let result = self.read_or_wait().await;
        self.failed = result.as_ref().err().cloned();
        result
    }

    async fn read_or_wait(&mut self) -> Result<(), FollowError> {
        match &mut self.source {
            Source::Cut => {
                self.backoff.wait(&*self.cluster.coordinator).await;
                self.source = Source::Reading;
                Ok(())
            }
            Source::Reading => self.read_page().await,
            Source::Watching(watch) => {
                let event = poll_fn(|context| watch.poll_next(context)).await;
                self.take_event(event)
            }
        }
    }

    async fn read_page(&mut self) -> Result<(), FollowError> {
        let keys = &self.cluster.keys;
        // The entry before the point tells whether it is the log's.
        let from = self.at.next.before().unwrap_or(Position::FIRST);
        let page = Get::range(keys.entries_from(&self.db, from)).at_most(self.page_entries);
        let done = match self.cluster.read([page, Get::key(&keys.trim(&self.db))]).await {
            Ok(done) => done,
            // Some versions of etcd refuse transactions that only read, too, when it is full.
            Err(Failure::Refused(refusal)) if refusal != Refusal::NoSpace => {
                return Err(FollowError::Failed(Error::Failed(Failure::Refused(refusal))));
            }
            Err(_) => {
                self.is_current = false;
                self.backoff.wait(&*self.cluster.coordinator).await;
                return Ok(());
            }
        };
        self.backoff.reset();
        let trimmed_to = self.cluster.trim_in(&done.read[1]).map_err(FollowError::Failed)?.first;
        if trimmed_to > self.at.next {
            return Err(FollowError::Trimmed { first: trimmed_to, needed: self.at.next });
        }
        self.check_before(done.read[0].first(), trimmed_to)?;
        for key in &done.read[0] {
            let position = position_of(&key.key).unwrap_or(Position(0));
            if position > self.at.next {
                return Err(FollowError::Damaged { position: self.at.next, reason: "the entry is missing" });
            }
            self.take_entry(position, &key.value)?;
        }
        let is_last = done.read[0].len() < self.page_entries;
        let bytes: usize = done.read[0].iter().map(|key| key.value.len()).sum();
        self.page_entries = match bytes {
            ..PAGE_BYTES_LOW => (self.page_entries * 2).min(*PAGE_ENTRIES.end()),
            PAGE_BYTES_HIGH.. => (self.page_entries / 2).max(*PAGE_ENTRIES.start()),
            _ => self.page_entries,
        };
        if is_last {
            let from = Revision(done.revision.0 + 1);
            let keys = self.cluster.keys.entries(&self.db);
            self.source = Source::Watching(self.cluster.coordinator.watch(keys, from));
            self.is_current = true;
        }
        Ok(())
    }

    /// Compares the entry before the point with what the node has.
    fn check_before(&self, first: Option<&KeyValue>, trimmed_to: Position) -> Result<(), FollowError> {
        let Some(before) = self.at.next.before() else { return Ok(()) };
        let diverged = |theirs| FollowError::Diverged { position: before, ours: self.at.chain, theirs };
        match first.map(|key| (position_of(&key.key), key)) {
            Some((Some(position), key)) if position == before => {
                let entry = decode(position, &key.value).map_err(|reason| FollowError::Damaged { position, reason })?;
                if entry.chain == self.at.chain { Ok(()) } else { Err(diverged(Some(entry.chain))) }
            }
            // The entry behind the point has its chain value too, which is compared when it is
            // read.
            Some((Some(position), _)) if position == self.at.next && trimmed_to == position => Ok(()),
            Some(_) => Err(FollowError::Damaged { position: before, reason: "the entry is missing" }),
            None => Err(diverged(None)),
        }
    }

    fn take_event(&mut self, event: WatchEvent) -> Result<(), FollowError> {
        match event {
            WatchEvent::Changes(changes) => {
                for change in changes {
                    let Change::Put(key) = change else { continue };
                    let Some(position) = position_of(&key.key) else { continue };
                    if position > self.at.next {
                        self.source = Source::Reading;
                        return Ok(());
                    }
                    self.take_entry(position, &key.value)?;
                }
            }
            WatchEvent::Cut | WatchEvent::Compacted => {
                self.source = Source::Cut;
                self.is_current = false;
            }
        }
        Ok(())
    }

    /// Takes the entry at the point; passes over those that were taken before.
    fn take_entry(&mut self, position: Position, bytes: &[u8]) -> Result<(), FollowError> {
        if position < self.at.next {
            return Ok(());
        }
        let entry = decode(position, bytes).map_err(|reason| FollowError::Damaged { position, reason })?;
        if entry.previous != self.at.chain {
            return Err(FollowError::Diverged { position, ours: self.at.chain, theirs: Some(entry.previous) });
        }
        if entry.epoch < self.epoch {
            return Err(FollowError::Damaged { position, reason: "its epoch is lower than the one before" });
        }
        let mut record = match self.unfinished.take() {
            _ if entry.kind.begins() => Unfinished { position, epoch: entry.epoch, bytes: Vec::new() },
            Some(unfinished) if unfinished.epoch == entry.epoch => unfinished,
            _ => return Err(FollowError::Damaged { position, reason: "it is a part that continues no record" }),
        };
        record.bytes.extend_from_slice(entry.bytes);
        self.at = Point { next: position.next(), chain: entry.chain };
        self.epoch = entry.epoch;
        if entry.kind.ends() {
            let Unfinished { position, epoch, bytes } = record;
            self.ready.push_back(Record { position, end: self.at, epoch, bytes });
        } else {
            self.unfinished = Some(record);
        }
        Ok(())
    }
}
