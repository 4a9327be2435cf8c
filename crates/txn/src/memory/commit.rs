//! Commits of the store in memory: checked against the newest state, one after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_storage::TxnId;
use parking_lot::Mutex;

use super::{Map, Shared, State, in_range};
use crate::apply::patch_all;
use crate::commit::{Commit, CommitTurn, PendingCommit, QueuedCommit};
use crate::error::{Error, Result};
use crate::local::count;
use crate::locks::Locks;
use crate::outcome::StoreWait;
use crate::reads::{Covered, ReadSet};
use crate::series;
use crate::store::{Key, SpaceId};
use crate::ticket::{CommitTicket, Committed};
use crate::validate::same;
use crate::writes::{Base, Write, WriteSet};

/// Whether what was read in one state is the same in another.
pub(super) fn holds(reads: &ReadSet, old: &State, new: &State) -> Result<()> {
    for read in reads.reads() {
        let space = reads.space(read.space);
        let conflict = Err(Error::Conflict { space: space.id });
        let (Some(old), Some(new)) = (old.spaces.get(&space.id), new.spaces.get(&space.id)) else { return conflict };
        if Arc::ptr_eq(old, new) {
            continue;
        }
        let value = |map: &'_ Arc<Map>, key: &Key| map.get(key.as_slice()).cloned();
        let is_same = match &read.covered {
            Covered::Point(key) => same(space, read.columns, value(old, key).as_deref(), value(new, key).as_deref()),
            Covered::Range(range) => {
                let (mut old, mut new) = (in_range(old, range), in_range(new, range));
                loop {
                    match (old.next(), new.next()) {
                        (None, None) => break true,
                        (Some((key, before)), Some((other, after)))
                            if key == other && same(space, read.columns, Some(before), Some(after)) => {}
                        _ => break false,
                    }
                }
            }
        };
        if !is_same {
            return conflict;
        }
    }
    Ok(())
}

/// A transaction that wants to commit.
pub(super) struct Request {
    pub(super) shared: Arc<Shared>,
    pub(super) snapshot: Arc<State>,
    pub(super) blind: Option<SpaceId>,
    pub(super) reads: ReadSet,
    pub(super) pinned: ReadSet,
    pub(super) writes: WriteSet,
    /// Released when the request is dropped, after the new state is there.
    pub(super) _locks: Locks,
}

impl Request {
    pub(super) fn commit(self) -> Result<CommitTicket> {
        let committed = self.carry_out();
        if let Err(Error::Conflict { .. }) = &committed {
            count(&self.shared.counts.conflicts, 1);
        }
        committed
    }

    fn carry_out(&self) -> Result<CommitTicket> {
        let mut newest = self.shared.newest.lock();
        if !Arc::ptr_eq(&newest, &self.snapshot) {
            if let Some(space) = self.blind {
                return Err(Error::Conflict { space });
            }
            holds(&self.reads, &self.snapshot, &newest)?;
            holds(&self.pinned, &self.snapshot, &newest)?;
        }
        if self.shared.happens(self.shared.refused_percent.load(Ordering::Relaxed)) {
            return Err(Error::Conflict { space: self.writes.spaces().first().map_or(SpaceId(0), |space| space.id) });
        }
        let mut spaces = newest.spaces.clone();
        for writes in self.writes.spaces() {
            let conflict = Error::Conflict { space: writes.id };
            match &writes.base {
                Base::Dropped { made: true } => continue,
                Base::Dropped { made: false } => {
                    spaces.remove(&writes.id).ok_or(conflict)?;
                    continue;
                }
                Base::Stored if writes.changes.is_empty() => continue,
                Base::Stored if spaces.contains_key(&writes.id) => {}
                Base::Made(entries) if !spaces.contains_key(&writes.id) => {
                    let entry = |(key, value): &(Key, Vec<u8>)| (key.clone(), Arc::from(value.as_slice()));
                    spaces.insert(writes.id, Arc::new(entries.iter().map(entry).collect()));
                }
                Base::Stored | Base::Made(_) => return Err(conflict),
            }
            let Some(map) = spaces.get_mut(&writes.id) else { return Err(conflict) };
            let map = Arc::make_mut(map);
            for (key, write) in writes.changes.iter() {
                match write {
                    Write::Put(value) => _ = map.insert(Key::from_slice(key), Arc::from(value.as_slice())),
                    Write::Delete => _ = map.remove(key),
                    Write::Patch(patched) => {
                        let row = map.get(key).ok_or(Error::Conflict { space: writes.id })?;
                        let row = patch_all(&patched.patches, row)?;
                        map.insert(Key::from_slice(key), Arc::from(row));
                    }
                    Write::Append(value) => {
                        let prefix = series::prefix_of(key);
                        let first = series::first_of(last_number(map, prefix), 1)?;
                        map.insert(series::key(prefix, first), Arc::from(value.as_slice()));
                    }
                    Write::Cut(below) => {
                        let prefix = series::prefix_of(key);
                        let kept = last_number(map, prefix).min(*below);
                        let gone = series::range(prefix, i64::MIN..=kept.saturating_sub(1));
                        let gone: Vec<Key> = in_range(map, &gone).map(|(key, _)| Key::from_slice(key)).collect();
                        gone.iter().for_each(|key| _ = map.remove(key));
                    }
                }
            }
        }
        let txn = TxnId(newest.txn.0 + 1);
        *newest = Arc::new(State { txn, spaces });
        count(&self.shared.counts.commits, 1);
        Ok(CommitTicket::durable(txn, Some(Committed { txn, sequence: 0 })))
    }
}

/// The highest number in a series; 0 if it has no entries.
fn last_number(map: &Map, prefix: &[u8]) -> i64 {
    let all = map.range::<[u8], _>(series::range(prefix, 1..=series::NUMBER_MAX).bounds());
    all.last().and_then(|(key, _)| series::split(key)).map_or(0, |(_, number)| number)
}

/// A commit on its way.
pub(super) struct Pending {
    pub(super) wait: StoreWait,
    pub(super) result: Arc<Mutex<Option<Result<CommitTicket>>>>,
}

impl PendingCommit for Pending {
    fn turn(&self) -> CommitTurn {
        CommitTurn::new(self.wait.clone())
    }

    fn go_on(self: Box<Self>) -> Result<Commit> {
        let result = self.result.lock().take();
        match result {
            Some(result) => result.map(Commit::Ended),
            None if self.wait.is_over() => Err(Error::Unknown { reason: "the store is gone".to_owned() }),
            None => Ok(Commit::Queued(QueuedCommit::new(self))),
        }
    }
}
