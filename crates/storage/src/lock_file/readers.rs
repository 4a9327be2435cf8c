//! The reader table: pinning a root so that its pages are not reused, unpinning it, and listing who
//! pins what.
//!
//! Invariants
//! - The head of `lock_file` says who may touch which slot, and why either the writer sees a pin or
//!   the reader sees the newer root.
//! - A slot is released by its owner, or by others once its owner is dead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{
    EVICTED, PARKED, PROCESSES_MAX, Pin, ReaderId, ReaderInfo, ReaderSlot, Root, SLOT_IDLE, Shared, UNSETTLED,
    claim_by, now_ms,
};
use crate::page::{PageId, TxnId};
use crate::{Error, Result};

impl Shared {
    /// Pins the newest visible root, or, if `weak`, the newest of all. `hint` is the slot that the
    /// calling thread had last, `thread` its number in the operating system.
    #[inline]
    pub(crate) fn pin(&self, hint: u32, thread: u32, weak: bool) -> Result<(ReaderId, Root)> {
        let id = self.claim_slot(hint, thread)?;
        let slot = &self.readers()[id.0 as usize];
        let newest = if weak { &self.header().current } else { &self.header().visible };
        loop {
            let root = self.read_root(newest);
            slot.name_root(&root);
            // Pairs with the loads in `each_pinned`: see protocol 2 at the head of `lock_file`.
            slot.txn.swap(UNSETTLED | root.txn.0, Ordering::SeqCst);
            if newest.load(Ordering::SeqCst) == root.txn.0 {
                slot.txn.store(root.txn.0, Ordering::Release);
                return Ok((id, root));
            }
        }
    }

    /// Pins the last steady point, which `find` reads from the files, or a newer one. Its free map
    /// is pinned as well, until [`Self::release_map`].
    pub(crate) fn pin_steady(
        &self,
        hint: u32,
        thread: u32,
        mut find: impl FnMut(TxnId) -> Result<Root>,
    ) -> Result<(ReaderId, Root)> {
        let id = self.claim_slot(hint, thread)?;
        let slot = &self.readers()[id.0 as usize];
        loop {
            let before = self.steady();
            // Which state that is shows only when the files have been read. While the oldest state
            // of all is pinned the file is not cut off, so everything the files refer to can be
            // read: see `space::trim`.
            slot.txn.swap(UNSETTLED, Ordering::SeqCst);
            match find(before) {
                Ok(root) if root.txn < before && self.steady() == before => {
                    self.unpin(id);
                    return Err(Error::Corrupted { page: PageId(0), reason: "the newest meta page is damaged" });
                }
                Ok(root) => {
                    // Pairs with the writer, which loads `steady` before it loads the slots: either
                    // it sees the pin, or this sees that the steady point has been replaced.
                    slot.name_no_root(root.txn);
                    slot.txn.swap(UNSETTLED | root.txn.0, Ordering::SeqCst);
                    if self.steady() <= root.txn {
                        slot.txn.store(root.txn.0, Ordering::Release);
                        return Ok((id, root));
                    }
                }
                // The point that was read may have been replaced meanwhile.
                Err(_) if self.steady() != before => {}
                Err(e) => {
                    self.unpin(id);
                    return Err(e);
                }
            }
        }
    }

    /// Releases the free map of a pinned steady point. What its catalogue reaches stays pinned.
    pub(crate) fn release_map(&self, id: ReaderId, root: &Root) {
        self.readers()[id.0 as usize].name_root(root);
    }

    /// Pins the state that a live snapshot sees. [`Error::Evicted`] if the snapshot is gone,
    /// [`Error::ReadersFull`] if no slot behind its own is free.
    pub(crate) fn pin_beside(&self, reader: &ReaderInfo, thread: u32) -> Result<(ReaderId, Root)> {
        let id = self.find_slot(reader.slot + 1)?;
        let slot = &self.readers()[id.0 as usize];
        slot.thread.store(thread, Ordering::Relaxed);
        slot.since_ms.store(now_ms(), Ordering::Relaxed);
        // Pairs with the loads in `each_pinned`: see protocol 4 at the head of `lock_file`.
        slot.txn.swap(UNSETTLED | reader.txn.0, Ordering::SeqCst);
        let other = &self.readers()[reader.slot as usize];
        let settled = other.txn.load(Ordering::SeqCst) & !PARKED == reader.txn.0;
        match other.named_root(reader.txn).filter(|_| settled) {
            Some(root) => {
                slot.name_root(&root);
                slot.txn.store(root.txn.0, Ordering::Release);
                Ok((id, root))
            }
            None => {
                self.unpin(id);
                Err(Error::Evicted { txn: reader.txn })
            }
        }
    }

    /// Pins the state that another snapshot of this process pins, which goes on doing so until this
    /// has returned. [`Error::ReadersFull`] if no slot behind its own is free.
    pub(crate) fn pin_also(&self, other: ReaderId, txn: TxnId, thread: u32) -> Result<ReaderId> {
        // Behind the other: see protocol 4 at the head of `lock_file`.
        let id = self.find_slot(other.0 + 1)?;
        let slot = &self.readers()[id.0 as usize];
        slot.thread.store(thread, Ordering::Relaxed);
        slot.since_ms.store(now_ms(), Ordering::Relaxed);
        slot.name_root_of(&self.readers()[other.0 as usize]);
        slot.txn.store(txn.0, Ordering::SeqCst);
        Ok(id)
    }

    /// Claims a slot for a snapshot that begins now.
    #[inline]
    fn claim_slot(&self, hint: u32, thread: u32) -> Result<ReaderId> {
        let id = match self.readers().get(hint as usize) {
            Some(slot) if self.claim_own(slot) => ReaderId(hint),
            _ => self.find_slot(0)?,
        };
        let slot = &self.readers()[id.0 as usize];
        slot.thread.store(thread, Ordering::Relaxed);
        slot.since_ms.store(now_ms(), Ordering::Relaxed);
        Ok(id)
    }

    #[inline]
    pub(super) fn claim(&self, slot: &ReaderSlot) -> bool {
        let claim = claim_by(self.slot);
        slot.txn.compare_exchange(SLOT_IDLE, claim, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Claims a slot if it is idle and this process owns it.
    #[inline]
    fn claim_own(&self, slot: &ReaderSlot) -> bool {
        let own = || slot.owner.load(Ordering::Relaxed) == self.slot + 1;
        if !own() || !self.claim(slot) {
            return false;
        }
        // Another process may have claimed it in between, become its owner, and left it idle again.
        let still = own();
        if !still {
            slot.txn.store(SLOT_IDLE, Ordering::Release);
        }
        still
    }

    /// Claims any slot from `from` on: first one of this process or without an owner, then one of a
    /// dead process, then one that another process does not use at the moment.
    #[cold]
    fn find_slot(&self, from: u32) -> Result<ReaderId> {
        let header = self.header();
        for anybodys in [false, true] {
            if anybodys {
                self.release_dead_readers();
            }
            for (i, slot) in self.readers().iter().enumerate().skip(from as usize) {
                let owner = slot.owner.load(Ordering::Relaxed);
                if (anybodys || owner == 0 || owner == self.slot + 1) && self.claim(slot) {
                    slot.owner.store(self.slot + 1, Ordering::Release);
                    header.readers_used.fetch_max(i as u32 + 1, Ordering::SeqCst);
                    return Ok(ReaderId(i as u32));
                }
            }
        }
        Err(Error::ReadersFull { readers_max: self.readers().len() as u32 })
    }

    /// The slot's place, as a hint for the next [`Self::pin`] of the same thread.
    pub(crate) fn hint(id: ReaderId) -> u32 {
        id.0
    }

    #[inline]
    pub(crate) fn unpin(&self, id: ReaderId) {
        self.readers()[id.0 as usize].txn.store(SLOT_IDLE, Ordering::Release);
    }

    /// Parks a snapshot: it keeps its pages until it is evicted.
    pub(crate) fn park(&self, id: ReaderId) {
        self.readers()[id.0 as usize].txn.fetch_or(PARKED, Ordering::SeqCst);
    }

    /// Unparks a snapshot; `false` if it was evicted, and then its slot is free.
    pub(crate) fn unpark(&self, id: ReaderId, txn: TxnId) -> bool {
        let slot = &self.readers()[id.0 as usize];
        let kept = slot.txn.compare_exchange(PARKED | txn.0, txn.0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !kept {
            slot.txn.store(SLOT_IDLE, Ordering::Release);
        }
        kept
    }

    /// Evicts a snapshot if it is parked. Its pages may be reused from now on.
    pub(crate) fn evict(&self, info: &ReaderInfo) -> bool {
        let slot = &self.readers()[info.slot as usize];
        slot.txn.compare_exchange(PARKED | info.txn.0, EVICTED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The states that live snapshots see, unsorted.
    pub(crate) fn pinned(&self, out: &mut Vec<TxnId>) {
        self.each_pinned(|_, txn| out.push(txn));
    }

    /// The states that live snapshots see, with their roots, unsorted.
    pub(crate) fn pins(&self) -> Vec<Pin> {
        let mut pins = Vec::new();
        self.each_pinned(|slot, txn| pins.push(Pin { txn, root: slot.named_root(txn) }));
        pins
    }

    fn each_pinned(&self, mut visit: impl FnMut(&ReaderSlot, TxnId)) {
        let used = || self.header().readers_used.load(Ordering::SeqCst) as usize;
        for (index, slot) in self.readers().iter().enumerate() {
            // Loaded anew after each slot: see protocol 4 at the head of `lock_file`.
            if index >= used() {
                break;
            }
            let txn = slot.txn.load(Ordering::SeqCst);
            if txn < EVICTED {
                visit(slot, TxnId(txn & !(PARKED | UNSETTLED)));
            }
        }
    }

    /// Whether there is a snapshot of a state before a transaction.
    pub(crate) fn is_pinned_before(&self, txn: TxnId) -> bool {
        let mut snapshots = Vec::new();
        self.pinned(&mut snapshots);
        snapshots.iter().any(|&pin| pin < txn)
    }

    /// Releases the slots of dead processes; whether there were any.
    pub(crate) fn release_dead_readers(&self) -> bool {
        // While the gate is closed, no process slot can pass from a dead process to a new one.
        let Ok(_gate) = self.close_gate() else { return false };
        let mut alive = [None; PROCESSES_MAX as usize];
        let mut released = false;
        for slot in self.readers() {
            let Some(process) = slot.holder().filter(|&process| process < PROCESSES_MAX) else { continue };
            if !*alive[process as usize].get_or_insert_with(|| self.is_alive(process)) {
                released |= slot.release(process);
            }
        }
        released
    }

    pub(super) fn release_readers_of(&self, process: u32) {
        for slot in self.readers() {
            if slot.holder() == Some(process) {
                slot.release(process);
            }
        }
    }

    /// Live snapshots of all processes.
    pub(crate) fn reader_infos(&self) -> Vec<ReaderInfo> {
        let now = now_ms();
        let mut infos = Vec::new();
        let newest = self.header().current.load(Ordering::Acquire);
        let used = self.header().readers_used.load(Ordering::SeqCst) as usize;
        for (index, slot) in self.readers().iter().enumerate().take(used) {
            let (txn, owner) = (slot.txn.load(Ordering::Acquire), slot.owner.load(Ordering::Acquire));
            if txn >= EVICTED || owner == 0 || owner > PROCESSES_MAX {
                continue;
            }
            let sees = txn & !(PARKED | UNSETTLED);
            infos.push(ReaderInfo {
                process: self.header().processes[(owner - 1) as usize].pid.load(Ordering::Relaxed),
                thread: slot.thread.load(Ordering::Relaxed),
                slot: index as u32,
                txn: TxnId(sees),
                lag: newest.saturating_sub(sees),
                parked: txn & PARKED != 0,
                bytes_held: None,
                age: Duration::from_millis(now.saturating_sub(slot.since_ms.load(Ordering::Relaxed))),
            });
        }
        infos
    }
}
