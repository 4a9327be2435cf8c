//! The reader table: pinning a root so that nothing it reaches is taken, letting it go, and who holds what.
//!
//! Invariants
//! - Who may touch which slot, and why a pin is seen by the writer or sees the newer root, stands
//!   at the top of `lock_file`.
//! - A slot is let go of by whoever has it, or by others once its process is dead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{
    EVICTED, PARKED, PROCESSES_MAX, Pin, ReaderId, ReaderInfo, ReaderSlot, Root, SLOT_IDLE, Shared, UNSETTLED,
    claim_by, now_ms,
};
use crate::page::{PageId, TxnId};
use crate::{Error, Result};

impl Shared {
    /// Pins the newest visible root, or, if `weak`, the newest of all. `hint` is where the calling thread last had its
    /// slot, `thread` how the operating system numbers it.
    #[inline]
    pub(crate) fn pin(&self, hint: u32, thread: u32, weak: bool) -> Result<(ReaderId, Root)> {
        let id = self.claim_slot(hint, thread)?;
        let slot = &self.readers()[id.0 as usize];
        let newest = if weak { &self.header().current } else { &self.header().visible };
        loop {
            let root = self.read_root(newest);
            slot.note(&root);
            // Pairs with the loads in `pinned`: see the module's head.
            slot.txn.swap(UNSETTLED | root.txn.0, Ordering::SeqCst);
            if newest.load(Ordering::SeqCst) == root.txn.0 {
                slot.txn.store(root.txn.0, Ordering::Release);
                return Ok((id, root));
            }
        }
    }

    /// Pins the last steady point, which `find` reads from the files, or one that is newer. Its free map stays, too, until
    /// [`Self::let_go_of_map`].
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
            // Nobody knows yet which states the files tell of. While the oldest of all is pinned the file is not cut off,
            // so that what any of them refers to can be touched: see the head of `space`.
            slot.txn.swap(UNSETTLED, Ordering::SeqCst);
            match find(before) {
                Ok(root) if root.txn < before && self.steady() == before => {
                    self.unpin(id);
                    return Err(Error::Corrupted { page: PageId(0), reason: "the newest meta page is damaged" });
                }
                Ok(root) => {
                    // Pairs with `steady` before `pinned` in the writer: either it sees the pin, or this sees that the
                    // steady point has been replaced.
                    slot.note_none(root.txn);
                    slot.txn.swap(UNSETTLED | root.txn.0, Ordering::SeqCst);
                    if self.steady() <= root.txn {
                        slot.txn.store(root.txn.0, Ordering::Release);
                        return Ok((id, root));
                    }
                }
                // What was read may have been replaced meanwhile.
                Err(_) if self.steady() != before => {}
                Err(e) => {
                    self.unpin(id);
                    return Err(e);
                }
            }
        }
    }

    /// From now on a pinned steady point keeps what its catalogue reaches, and not its free map.
    pub(crate) fn let_go_of_map(&self, id: ReaderId, root: &Root) {
        self.readers()[id.0 as usize].note(root);
    }

    /// Pins what a live snapshot sees, [`Error::Evicted`] if it is gone. [`Error::ReadersFull`] if no slot behind its own
    /// is free.
    pub(crate) fn pin_beside(&self, reader: &ReaderInfo, thread: u32) -> Result<(ReaderId, Root)> {
        let id = self.find_slot(reader.slot + 1)?;
        let slot = &self.readers()[id.0 as usize];
        slot.thread.store(thread, Ordering::Relaxed);
        slot.since_ms.store(now_ms(), Ordering::Relaxed);
        // Pairs with the loads in `pinned`, between which the other may go: see the module's head.
        slot.txn.swap(UNSETTLED | reader.txn.0, Ordering::SeqCst);
        let other = &self.readers()[reader.slot as usize];
        let settled = other.txn.load(Ordering::SeqCst) & !PARKED == reader.txn.0;
        match other.noted(reader.txn).filter(|_| settled) {
            Some(root) => {
                slot.note(&root);
                slot.txn.store(root.txn.0, Ordering::Release);
                Ok((id, root))
            }
            None => {
                self.unpin(id);
                Err(Error::Evicted { txn: reader.txn })
            }
        }
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

    /// Claims a slot if it is idle and this process's own.
    #[inline]
    fn claim_own(&self, slot: &ReaderSlot) -> bool {
        let own = || slot.owner.load(Ordering::Relaxed) == self.slot + 1;
        if !own() || !self.claim(slot) {
            return false;
        }
        // Another process may have taken it over in between, and left it idle again.
        let still = own();
        if !still {
            slot.txn.store(SLOT_IDLE, Ordering::Release);
        }
        still
    }

    /// First this process's own and nobody's, then what the dead had, then what others do not use now; from a slot on.
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

    /// Where a slot is, as a hint for the next [`Self::pin`] of the same thread.
    pub(crate) fn hint(id: ReaderId) -> u32 {
        id.0
    }

    #[inline]
    pub(crate) fn unpin(&self, id: ReaderId) {
        self.readers()[id.0 as usize].txn.store(SLOT_IDLE, Ordering::Release);
    }

    /// Leaves a snapshot to itself: it keeps its pages unless it is evicted.
    pub(crate) fn park(&self, id: ReaderId) {
        self.readers()[id.0 as usize].txn.fetch_or(PARKED, Ordering::SeqCst);
    }

    /// Takes up a parked snapshot; `false` if it was evicted, and then its slot is free.
    pub(crate) fn unpark(&self, id: ReaderId, txn: TxnId) -> bool {
        let slot = &self.readers()[id.0 as usize];
        let kept = slot.txn.compare_exchange(PARKED | txn.0, txn.0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !kept {
            slot.txn.store(SLOT_IDLE, Ordering::Release);
        }
        kept
    }

    /// Evicts a snapshot if it is parked. Its pages are anybody's from now on.
    pub(crate) fn evict(&self, info: &ReaderInfo) -> bool {
        let slot = &self.readers()[info.slot as usize];
        slot.txn.compare_exchange(PARKED | info.txn.0, EVICTED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The transactions that live snapshots see, unsorted.
    pub(crate) fn pinned(&self, out: &mut Vec<TxnId>) {
        self.each_pinned(|_, txn| out.push(txn));
    }

    /// What live snapshots see, unsorted.
    pub(crate) fn pins(&self) -> Vec<Pin> {
        let mut pins = Vec::new();
        self.each_pinned(|slot, txn| pins.push(Pin { txn, root: slot.noted(txn) }));
        pins
    }

    fn each_pinned(&self, mut visit: impl FnMut(&ReaderSlot, TxnId)) {
        let used = || self.header().readers_used.load(Ordering::SeqCst) as usize;
        for (index, slot) in self.readers().iter().enumerate() {
            // After each slot anew: see the module's head.
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

    /// Frees the slots of processes that are no more. Returns whether there were any.
    pub(crate) fn release_dead_readers(&self) -> bool {
        // With the gate closed no process slot found dead can come to life under another owner.
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
