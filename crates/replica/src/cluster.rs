//! A cluster as anyone sees it who reaches the coordination service: its members, the leaders of
//! its databases, the ranges of their logs.

use std::sync::Arc;

use crate::coordinator::{Coordinator, Done, Failure, Found, Get, Health, KeyValue, LeaseId, Operation, Txn};
use crate::entry::{Epoch, Point, Position, decode};
use crate::keys::{Keys, TrimPoint, database_of, decode_node, decode_trim, position_of, says_leaving};
use crate::names::{Database, Node};
use crate::quota::Usage;

/// A cluster, by its name, as it is in a coordination service. Copies are the same cluster.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) name: Arc<str>,
    pub(crate) keys: Keys,
}

/// A node that is there: its lease lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The node and its address.
    pub node: Node,
    /// Its lease.
    pub lease: LeaseId,
    /// It is about to leave, and leads nothing new.
    pub is_leaving: bool,
}

/// Who leads a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The node and its address.
    pub node: Node,
    /// The term of its leadership.
    pub epoch: Epoch,
    /// The lease with which the leadership ends.
    pub lease: LeaseId,
}

/// What there is of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// The first entry that is left.
    pub first: Position,
    /// The point behind the last entry.
    pub end: Point,
    /// The epoch of the last entry, if there is one.
    pub last_epoch: Option<Epoch>,
    /// The bytes of the entries that are left.
    pub bytes: u64,
}

/// Why what is in the coordination service cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The service did not do what it was asked for.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A value is not what this version writes: something else has written it, or a newer version.
    #[error("the value of {key:?} in the coordination service cannot be used: {reason}")]
    Damaged {
        /// The key.
        key: String,
        /// What is wrong with its value.
        reason: &'static str,
    },
}

/// The end of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) at: Point,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) bytes_total: u64,
}

impl Error {
    pub(crate) fn damaged(key: &[u8], reason: &'static str) -> Self {
        Self::Damaged { key: String::from_utf8_lossy(key).into_owned(), reason }
    }
}

impl Cluster {
    /// The cluster of a name. Nothing is asked of the service.
    #[must_use]
    pub fn new(coordinator: Arc<dyn Coordinator>, name: &str) -> Self {
        Self { coordinator, name: name.into(), keys: Keys::new(name) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The coordination service.
    #[must_use]
    pub fn coordinator(&self) -> &Arc<dyn Coordinator> {
        &self.coordinator
    }

    /// The point before the first entry of a database: where a node begins that has nothing.
    #[must_use]
    pub fn start(&self, db: &Database) -> Point {
        Point::start(&self.name, &db.0)
    }

    /// The members whose leases live.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        let found = self.get(Get::range(self.keys.members())).await?;
        found.keys.iter().map(|key| member(key).ok_or_else(|| Error::damaged(&key.key, "no member"))).collect()
    }

    /// Who leads which database. A database without a leader is not in the list.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn leaders(&self) -> Result<Vec<(Database, Leader)>, Error> {
        let found = self.get(Get::range(self.keys.leaders())).await?;
        let entry = |key: &KeyValue| Some((database_of(&key.key)?, leader(key)?));
        found.keys.iter().map(|key| entry(key).ok_or_else(|| Error::damaged(&key.key, "no leader"))).collect()
    }

    /// Who leads a database.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn leader(&self, db: &Database) -> Result<Option<Leader>, Error> {
        let found = self.get(Get::key(&self.keys.leader(db))).await?;
        self.leader_in(&found.keys)
    }

    pub(crate) fn leader_in(&self, keys: &[KeyValue]) -> Result<Option<Leader>, Error> {
        let decode = |key: &KeyValue| leader(key).ok_or_else(|| Error::damaged(&key.key, "no leader"));
        keys.first().map(decode).transpose()
    }

    /// What there is of a database's log: the newest state.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn log_range(&self, db: &Database) -> Result<LogRange, Error> {
        let (tail, trim) = self.tail(db).await?;
        Ok(LogRange {
            first: trim.first,
            end: tail.at,
            last_epoch: tail.epoch,
            bytes: tail.bytes_total - trim.bytes_before.min(tail.bytes_total),
        })
    }

    /// The point before the first record that is left. `None` if the first entry that is left is
    /// the end of a record whose beginning was trimmed.
    pub(crate) async fn first_point(&self, db: &Database) -> Result<Option<Point>, Error> {
        let first = Get::range(self.keys.entries(db)).at_most(1);
        let done = self.read([first]).await?;
        let Some(first) = done.read[0].first() else { return Ok(Some(self.start(db))) };
        let position = position_of(&first.key).ok_or_else(|| Error::damaged(&first.key, "no position"))?;
        let entry = decode(position, &first.value).map_err(|reason| Error::damaged(&first.key, reason))?;
        Ok(entry.kind.begins().then_some(Point { next: position, chain: entry.previous }))
    }

    pub(crate) async fn tail(&self, db: &Database) -> Result<(Tail, TrimPoint), Error> {
        let last = Get::range(self.keys.entries(db)).last_first().at_most(1);
        let trim_key = self.keys.trim(db);
        let done = self.read([last, Get::key(&trim_key)]).await?;
        let trim = self.trim_in(&done.read[1])?;
        let Some(last) = done.read[0].first() else {
            if trim != TrimPoint::NONE {
                return Err(Error::damaged(&trim_key, "the log has no entry behind its trim point"));
            }
            return Ok((Tail { at: self.start(db), epoch: None, bytes_total: 0 }, trim));
        };
        let position = position_of(&last.key).ok_or_else(|| Error::damaged(&last.key, "no position"))?;
        let entry = decode(position, &last.value).map_err(|reason| Error::damaged(&last.key, reason))?;
        let at = Point { next: position.next(), chain: entry.chain };
        Ok((Tail { at, epoch: Some(entry.epoch), bytes_total: entry.bytes_total }, trim))
    }

    pub(crate) fn trim_in(&self, keys: &[KeyValue]) -> Result<TrimPoint, Error> {
        let Some(key) = keys.first() else { return Ok(TrimPoint::NONE) };
        decode_trim(&key.value).ok_or_else(|| Error::damaged(&key.key, "no trim point"))
    }

    /// The state of the coordination service, and how full it is.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn health(&self, quota_bytes_assumed: u64) -> Result<(Health, Usage), Failure> {
        let health = self.coordinator.health().await?;
        let usage = Usage::of(&health, quota_bytes_assumed);
        Ok((health, usage))
    }

    pub(crate) async fn get(&self, get: Get) -> Result<Found, Failure> {
        self.coordinator.get(get).await
    }

    /// Several reads of one state.
    pub(crate) async fn read<const N: usize>(&self, gets: [Get; N]) -> Result<Done, Failure> {
        let then = gets.into_iter().map(Operation::Get).collect();
        let done = self.coordinator.transact(Txn { then, ..Txn::default() }).await?;
        if done.read.len() == N { Ok(done) } else { Err(Failure::Unknown("an answer is missing".to_owned())) }
    }
}

pub(crate) fn member(key: &KeyValue) -> Option<Member> {
    let is_leaving = says_leaving(&key.value);
    Some(Member { node: decode_node(&key.value)?, lease: key.lease?, is_leaving })
}

pub(crate) fn leader(key: &KeyValue) -> Option<Leader> {
    Some(Leader { node: decode_node(&key.value)?, epoch: Epoch(key.created.0), lease: key.lease? })
}
