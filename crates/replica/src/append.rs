//! Appending to a log, fenced.
//!
//! Each entry is one transaction: if the leader's key was created by this epoch, and the entry
//! before is there, and this position is free, put it. So an old leader appends nothing whatever it
//! believes of its lease, a log has no gaps even when several appends are under way, and repeating
//! an append changes nothing.
//!
//! # When the outcome is unknown
//! Append the same record again, or ask with [`Staged::resolve`]. Both read position n: the same
//! bytes under the same epoch are ours, and the record is committed. If the position is free and
//! this node still leads, the first try may still arrive: only repeating it decides. If the
//! position is free and the node does not lead any more, the first try will be fenced.
//!
//! Invariants:
//! 1. [`Outcome::Appended`] is given only for a record all of whose entries are in the log.
//! 2. After [`Outcome::Fenced`] the record is not in the log, and will never be.
//! 3. A record of several entries is sent first part first, one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::{Error, Leader, Tail};
use crate::coordinator::{Compare, Failure, Get, KeyValue, Operation, Refusal, Revision, Txn};
use crate::entry::{Chain, Epoch, HEADER_BYTES, Kind, Made, Point, Position, decode, encode};
use crate::leadership::Leadership;

/// Gives records their positions and their places in the chain, in the order in which they are
/// staged. A leadership has one appender at a time: two would stage different records for one
/// position, of which one is [`Outcome::Taken`].
pub struct Appender {
    leadership: Leadership,
    at: Point,
    bytes_total: u64,
}

/// A record with its positions. It may be appended any number of times: it is in the log once.
pub struct Staged {
    leadership: Leadership,
    entries: Vec<(Point, Vec<u8>)>,
    end: Point,
    /// Entries that are known to be in the log.
    appended: AtomicUsize,
}

/// How an append ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The whole record is in the log.
    Appended,
    /// The node does not lead any more. The record is not in the log and will never be, though
    /// parts of it may.
    Fenced {
        /// Who leads now, if somebody does.
        leader: Option<Leader>,
    },
    /// Another record is at this position, though the node leads: somebody else has appended under
    /// the same epoch. Read the log, and make a new appender.
    Taken {
        /// The position.
        position: Position,
        /// The epoch of what is there.
        epoch: Epoch,
        /// The chain value of what is there.
        chain: Chain,
    },
    /// The entry before is not there yet: an append that was staged earlier is still under way, or
    /// has failed. Append that one, then this one again.
    Gap {
        /// The position that is missing.
        missing: Position,
    },
    /// The log was trimmed beyond this position by a later leader. Whether the record was in it,
    /// the log cannot tell any more.
    Trimmed,
    /// The connection was lost. The record may be in the log, or may still come.
    Unknown(String),
    /// The service cannot be reached. This try has changed nothing.
    NotSent(String),
    /// The service has refused. This try has changed nothing.
    Refused(Refusal),
}

/// What became of an append whose outcome was unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// The whole record is in the log.
    Committed,
    /// It is not in the log yet, and the node leads: append it again.
    Repeat,
    /// The record is not in the log and will never be.
    Never {
        /// Who leads now, if somebody does.
        leader: Option<Leader>,
    },
    /// The log was trimmed beyond this position: it cannot tell.
    Trimmed,
}

impl Leadership {
    /// Reads the end of the log, and appends from there on. What an earlier leader had under way
    /// cannot come any more.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn appender(&self) -> Result<Appender, Error> {
        let (tail, _) = self.cluster().tail(&self.db).await?;
        Ok(Appender::new(self.clone(), tail))
    }
}

impl Appender {
    fn new(leadership: Leadership, tail: Tail) -> Self {
        Self { leadership, at: tail.at, bytes_total: tail.bytes_total }
    }

    /// The point behind everything that was staged.
    #[must_use]
    pub fn point(&self) -> Point {
        self.at
    }

    /// The longest record that takes one entry, in bytes.
    #[must_use]
    pub fn entry_bytes_max(&self) -> usize {
        self.leadership.cluster().coordinator.value_bytes_max() - HEADER_BYTES
    }

    /// Gives a record the next positions: one, or as many as it takes entries. A record that is
    /// staged and not appended leaves a gap, at which all later ones stop.
    pub fn stage(&mut self, record: &[u8]) -> Staged {
        let bytes_max = self.entry_bytes_max();
        let parts: Vec<&[u8]> = if record.is_empty() { vec![record] } else { record.chunks(bytes_max).collect() };
        let last = parts.len() - 1;
        let made = Made::at(self.leadership.cluster().coordinator.wall_clock());
        let mut entries = Vec::with_capacity(parts.len());
        for (index, bytes) in parts.into_iter().enumerate() {
            let kind = match (index == 0, index == last) {
                (true, true) => Kind::Whole,
                (true, false) => Kind::First,
                (false, false) => Kind::Middle,
                (false, true) => Kind::Last,
            };
            let (entry, chain) = encode((kind, self.leadership.epoch, made), self.bytes_total, self.at, bytes);
            self.bytes_total += entry.len() as u64;
            entries.push((self.at, entry));
            self.at = Point { next: self.at.next.next(), chain };
        }
        Staged { leadership: self.leadership.clone(), entries, end: self.at, appended: AtomicUsize::new(0) }
    }
}

impl Staged {
    /// The position of its first entry.
    #[must_use]
    pub fn position(&self) -> Position {
        self.entries[0].0.next
    }

    /// The point behind the record.
    #[must_use]
    pub fn end(&self) -> Point {
        self.end
    }

    /// The number of its entries.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Tries once to append it, or what of it is not in the log yet. Futures of several records may
    /// run at the same time.
    pub async fn append(&self) -> Outcome {
        for index in self.appended.load(Ordering::Relaxed)..self.entries.len() {
            match self.append_entry(index).await {
                Outcome::Appended => _ = self.appended.fetch_max(index + 1, Ordering::Relaxed),
                other => return other,
            }
        }
        Outcome::Appended
    }

    async fn append_entry(&self, index: usize) -> Outcome {
        let cluster = self.leadership.cluster();
        let (keys, db) = (&cluster.keys, &self.leadership.db);
        let (at, entry) = &self.entries[index];
        let key = keys.entry(db, at.next);
        let (predecessor, predecessor_is_there) = match at.next.before() {
            Some(before) => (keys.entry(db, before), Compare::Exists(keys.entry(db, before))),
            // There is none before the first entry, unless all of them were trimmed.
            None => (Vec::new(), Compare::Created(keys.trim(db), Revision::default())),
        };
        let mut otherwise = vec![Get::key(&self.leadership.key()), Get::key(&key), Get::key(&keys.trim(db))];
        if !predecessor.is_empty() {
            otherwise.push(Get::key(&predecessor).keys_only());
        }
        let txn = Txn {
            compares: vec![
                self.leadership.fence(),
                Compare::Created(key.clone(), Revision::default()),
                predecessor_is_there,
            ],
            then: vec![Operation::Put { key, value: entry.clone(), lease: None }],
            otherwise: otherwise.into_iter().map(Operation::Get).collect(),
        };
        match cluster.coordinator.transact(txn).await {
            Ok(done) if done.held => Outcome::Appended,
            Ok(done) => self.why_not(at.next, entry, &done.read).unwrap_or_else(|e| Outcome::Unknown(e.to_string())),
            Err(failure) => Outcome::from(failure),
        }
    }

    /// Which compare did not hold, from what the transaction has read: the leader's key, the entry,
    /// the trim point, the entry before.
    fn why_not(&self, position: Position, ours: &[u8], read: &[Vec<KeyValue>]) -> Result<Outcome, Error> {
        let cluster = self.leadership.cluster();
        let there = read[1].first();
        if there.is_some_and(|there| there.value == ours) {
            return Ok(Outcome::Appended);
        }
        if cluster.trim_in(&read[2])?.first > position {
            return Ok(Outcome::Trimmed);
        }
        let leader = cluster.leader_in(&read[0])?;
        if leader.as_ref().is_none_or(|leader| leader.epoch != self.leadership.epoch) {
            return Ok(Outcome::Fenced { leader });
        }
        if let Some(there) = there {
            let entry = decode(position, &there.value).map_err(|reason| Error::damaged(&there.key, reason))?;
            return Ok(Outcome::Taken { position, epoch: entry.epoch, chain: entry.chain });
        }
        match position.before() {
            Some(missing) if read.get(3).is_some_and(Vec::is_empty) => Ok(Outcome::Gap { missing }),
            _ => Err(Failure::Unknown("the compares failed, and what was read says that they hold".to_owned()).into()),
        }
    }

    /// Asks what became of the record, without appending anything.
    ///
    /// # Errors
    /// [`Error`]: the outcome stays unknown; ask again.
    pub async fn resolve(&self) -> Result<Resolution, Error> {
        let cluster = self.leadership.cluster();
        let db = &self.leadership.db;
        let (at, ours) = self.entries.last().expect("a record has an entry");
        let key = cluster.keys.entry(db, at.next);
        let gets = [Get::key(&key), Get::key(&cluster.keys.trim(db)), Get::key(&self.leadership.key())];
        let done = cluster.read(gets).await?;
        if done.read[0].first().is_some_and(|there| there.value == *ours) {
            self.appended.store(self.entries.len(), Ordering::Relaxed);
            return Ok(Resolution::Committed);
        }
        if cluster.trim_in(&done.read[1])?.first > at.next {
            return Ok(Resolution::Trimmed);
        }
        let leader = cluster.leader_in(&done.read[2])?;
        Ok(match leader {
            Some(leader) if leader.epoch == self.leadership.epoch => Resolution::Repeat,
            leader => Resolution::Never { leader },
        })
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(why) => Self::NotSent(why),
            Failure::Unknown(why) => Self::Unknown(why),
            Failure::Refused(why) => Self::Refused(why),
        }
    }
}
