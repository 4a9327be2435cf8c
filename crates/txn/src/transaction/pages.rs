//! Pages that a transaction needs and that are not in memory: see [`crate::fetching`].

use std::ops::Bound;

use colibri_storage::Reading;
use smallvec::SmallVec;

use super::{LocalTransaction, Work};
use crate::error::Result;
use crate::store::{KeyRange, SpaceId};
use crate::writes::Base;

/// Before a commit enters the queue, it waits for the pages that its changes touch: of this many changes of
/// a space at most.
const PAGES_AWAITED_MAX: usize = 1_000;

impl LocalTransaction {
    /// Interrupts the call if what lookups of these keys would touch is not in memory, and calls may
    /// be interrupted. The space is open.
    #[inline]
    pub(super) fn bring(&mut self, space: SpaceId, keys: &[&[u8]]) -> Result<()> {
        if self.may_fetch { self.bring_from_disk(space, keys) } else { Ok(()) }
    }

    #[cold]
    fn bring_from_disk(&mut self, space: SpaceId, keys: &[&[u8]]) -> Result<()> {
        let mut wanted = SmallVec::<[&[u8]; 16]>::new();
        let mut asked = SmallVec::<[u64; 16]>::new();
        for key in keys {
            if let Some(number) = self.fetched.not_asked_yet(space, key) {
                wanted.push(key);
                asked.push(number);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        match self.snapshot.read_ahead(self.opened(space)?, &wanted)? {
            Some(reading) if self.fetched.note(&asked) => Err(self.shared.fetcher.fetch(reading)),
            _ => Ok(()),
        }
    }

    /// Waits for the pages that the commit will change, so that the leader does not wait for them while
    /// it keeps all others from committing.
    #[cold]
    pub(super) fn await_pages_to_write(&mut self) -> Result<()> {
        let mut readings = SmallVec::<[Reading; 4]>::new();
        let Work { writes, open, .. } = &mut *self.work;
        let everything = KeyRange { low: Bound::Unbounded, high: Bound::Unbounded };
        for space in writes.spaces().iter().filter(|space| matches!(space.base, Base::Stored)) {
            // What is not there any more, the commit reports.
            if open.open(&self.shared, &self.snapshot, space.id).is_err() {
                continue;
            }
            let Some(table) = open.found_in(&self.snapshot, space.id) else { continue };
            let keys: SmallVec<[&[u8]; 16]> =
                space.in_range(&everything).map(|(key, _)| key).take(PAGES_AWAITED_MAX).collect();
            readings.extend(self.snapshot.read_ahead(table, &keys)?);
        }
        readings.iter().for_each(Reading::wait);
        Ok(())
    }
}
