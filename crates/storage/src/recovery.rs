//! Finding out where a database stands: as the first process to open it, and as the next one to
//! write to it.
//!
//! After a crash of the system, the newest complete steady point counts, and the log behind it is
//! replayed. After the death of a process, the lock file still knows the newest root, and the map has
//! its pages, unless the database is encrypted.

use std::sync::Arc;

use crate::db::{Core, Database};
use crate::lock_file::Pin;
use crate::log::Position;
use crate::log::record::is_of_forest;
use crate::meta::{Meta, MetaFault};
use crate::page::{PageId, TxnId};
use crate::pager::Bounds;
use crate::root::Root;
use crate::space::{Freed, Space};
use crate::txn::WriteTxn;
use crate::workspace::Workspace;
use crate::{Durability, Error, FORMAT_VERSION, Result, walk};

/// So many bytes of the log are replayed in one transaction. A page is copied once per transaction,
/// so this is large.
const REPLAY_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 128 << 20 };

/// What opening a database after a crash found in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Bytes of the log that were read for that.
    pub log_bytes: u64,
}

/// Which transactions of a log are replayed together, as one: as many as make a good number of
/// bytes. One that makes, drops or resets a branch is replayed by itself (see `txn::branch`).
#[derive(Default)]
pub(crate) struct Batches {
    /// The last transaction of each.
    ends: Vec<TxnId>,
    /// The last transaction of the one under way, and its bytes.
    open: Option<(TxnId, u64)>,
}

impl Batches {
    pub(crate) fn add(&mut self, txn: TxnId, operations: &[u8]) {
        let alone = is_of_forest(operations);
        if alone && let Some((before, _)) = self.open.take() {
            self.ends.push(before);
        }
        let bytes = self.open.map_or(0, |(_, bytes)| bytes) + operations.len() as u64;
        if alone || bytes >= REPLAY_BYTES {
            self.open = None;
            self.ends.push(txn);
        } else {
            self.open = Some((txn, bytes));
        }
    }

    /// The last transaction of each batch, the last of all being `last`.
    pub(crate) fn end(mut self, last: TxnId) -> Vec<TxnId> {
        if self.open.is_some() {
            self.ends.push(last);
        }
        self.ends
    }
}

impl Core {
    /// As the first process: finds the newest state.
    pub(crate) fn recover(&self, left: Option<Root>) -> Result<()> {
        if !self.read_only {
            // What a dead process wrote may be in memory only, and what follows relies on it.
            self.flush()?;
        }
        let (mut meta, slot) = self.newest_meta(TxnId(u64::MAX))?;
        if !self.read_only {
            self.repair_other_meta(&mut meta, slot)?;
        }
        let mut root = meta.root();
        // What a dead process had in memory of its own is gone.
        let survives = !self.pager.disk().is_fetched();
        if let Some(left) = left.filter(|left| survives && left.txn > meta.txn) {
            let fits = u64::from(left.page_count) * self.pager.page_size() as u64 <= self.pager.disk().allocated();
            // Another file may have been copied over this one since. Then the page that the
            // transaction wrote last, of the main branch or of the forest, is not in it.
            let wrote =
                |page: PageId| page != PageId::NONE && page.0 < left.page_count && self.pager.birth(page) == left.txn;
            let there = || left.catalog.depth == 0 || wrote(left.catalog.root) || wrote(left.forest);
            if fits && there() {
                root = left;
            }
        }
        self.shared.set_steady(meta.txn);
        self.shared.publish(root, true);
        *self.last_meta.lock() = (meta, slot);
        Ok(())
    }

    /// Replaces the other meta page if a crash tore it, or if it has a steady point that was not
    /// completed. Damage that is found later is then damage, and not the trace of an old crash.
    fn repair_other_meta(&self, meta: &mut Meta, slot: u32) -> Result<()> {
        let other = Meta::decode(self.pager.raw(PageId(1 - slot), 1), 1 - slot);
        if other.is_ok_and(|other| other.txn <= meta.txn) {
            return Ok(());
        }
        // The pages of the manifest were found complete, and were flushed just now.
        meta.manifest.clear();
        self.write_meta(meta, 1 - slot)?;
        self.flush()
    }

    /// The newest meta page, up to a transaction, whose steady point is complete.
    pub(crate) fn newest_meta(&self, up_to: TxnId) -> Result<(Meta, u32)> {
        let page_size = self.pager.page_size() as u64;
        let file_pages = self.pager.disk().allocated() / page_size;
        if file_pages < 2 {
            return Err(Error::Corrupted { page: PageId(1), reason: "the file ends before its second meta page" });
        }
        let mut metas: Vec<(Meta, u32)> = Vec::new();
        let mut fault = "both meta pages are damaged";
        for slot in 0..2 {
            match Meta::decode(self.pager.raw(PageId(slot), 1), slot) {
                Ok(meta) if u64::from(meta.page_count) <= file_pages => metas.push((meta, slot)),
                Ok(_) => fault = "the file is shorter than its meta page says",
                Err(MetaFault::Newer(found)) => {
                    return Err(Error::NewerFormat {
                        path: self.pager.disk().path().into(),
                        found,
                        supported: FORMAT_VERSION,
                    });
                }
                Err(_) => {}
            }
        }
        metas.retain(|(meta, _)| meta.page_size as usize == self.pager.page_size() && meta.txn <= up_to);
        for (meta, _) in &metas {
            self.ensure_mapped(meta.page_count)?;
        }
        metas.sort_by_key(|(meta, _)| std::cmp::Reverse(meta.txn));
        let whole = |meta: &Meta| {
            let bounds = Bounds { page_count: meta.page_count, newest: meta.txn, steady: meta.txn };
            meta.manifest.iter().all(|&(page, checksum)| self.pager.was_written(page, checksum, bounds))
        };
        metas.into_iter().find(|(meta, _)| whole(meta)).ok_or(Error::Corrupted { page: PageId(0), reason: fault })
    }

    /// Reads from the files what is free, because another process wrote last.
    pub(crate) fn take_over(&self, work: &mut Workspace) -> Result<()> {
        self.shared.wait_for_steady();
        let disk = self.pager.disk();
        disk.refresh()?;
        self.flush()?;
        if self.logged() {
            self.log.refresh()?;
            self.log.flush(true).inspect_err(|_| self.poison())?;
        }
        let (meta, slot) = self.newest_meta(TxnId(u64::MAX))?;
        let root = self.shared.root();
        self.ensure_mapped(root.page_count)?;
        // Published before the pins are read: a reader that pins later sees the newest state, and a
        // pin that was there before is seen here.
        if root.txn < meta.txn {
            // The last writer died after its commit was durable and before it published it.
            self.shared.publish(meta.root(), true);
        }
        self.shared.raise_visible(root.txn);
        self.shared.set_steady(meta.txn);
        let mut space = Space::load(&self.pager, &meta)?;
        let newest = root.txn.max(meta.txn);
        let pins = self.live_pins(newest);
        let mut freed = Vec::new();
        if root.txn > meta.txn {
            let page_count = root.page_count.max(meta.page_count);
            let bounds = Bounds { page_count, newest: root.txn, steady: meta.txn };
            let difference = walk::difference(&self.pager, bounds, meta.txn, &meta.root(), &root)?;
            space.take_over(page_count, &difference.live);
            freed = difference.freed;
        }
        self.keep_seen_pages(&mut space, pins);
        space.commit(newest, &freed);
        space.set_policy(self.free_space);
        // Bug: a handover forgot that the file was to be cut off. Consequence: the file kept its
        // length until it was closed, or until as much was free at its end again. Fix: the lock
        // file remembers it.
        if self.shared.is_cut_pending() {
            space.cut_from(root.txn.max(meta.txn));
        }
        space.set_populates(self.durability != Durability::SyncNoLog);
        work.space = space;
        *self.last_meta.lock() = (meta, slot);
        self.shared.wrote();
        Ok(())
    }

    /// What live snapshots pin of states before `newest`, the newest first. Pins of dead processes
    /// are released.
    fn live_pins(&self, newest: TxnId) -> Vec<Pin> {
        let older = || {
            let mut pins = self.shared.pins();
            // A reader that pins transaction 0, the empty state, has yet to choose its state.
            pins.retain(|pin| TxnId(0) < pin.txn && pin.txn < newest);
            pins
        };
        let mut pins = older();
        if !pins.is_empty() && self.shared.release_dead_readers() {
            pins = older();
        }
        pins.sort_unstable_by_key(|pin| std::cmp::Reverse(pin.txn));
        pins
    }

    /// Has those unused pages wait that snapshots see, and no others.
    ///
    /// Bug: all unused pages waited while a snapshot older than the steady point lived.
    /// Consequence: after each handover of the writing, as when a writer was killed, the next
    /// writer could allocate new pages only, and the file grew by all that it wrote as long as
    /// there was always some snapshot. Fix: a pin names its root, and only what that root reaches
    /// waits.
    fn keep_seen_pages(&self, space: &mut Space, pins: Vec<Pin>) {
        let mut unused = space.unused().clone();
        // The newest of the pins that name no root, or whose root cannot be walked.
        let mut unsure = None;
        let mut held: Vec<(TxnId, Vec<Freed>)> = Vec::new();
        for pin in pins {
            let mut seen = Vec::new();
            let asked =
                pin.root.map(|root| walk::take_seen(&self.pager, &root, space.page_count(), &mut unused, &mut seen));
            if !matches!(asked, Some(Ok(()))) {
                unsure.get_or_insert(pin.txn);
            }
            held.push((pin.txn, seen));
        }
        if let Some(unsure) = unsure {
            // It may see whatever is left, and what older pins see.
            let rest = unused.runs().map(|(page, pages)| Freed { page: PageId(page), pages, birth: TxnId(0) });
            held.push((unsure, rest.collect()));
            held.iter_mut().for_each(|(pin, _)| *pin = (*pin).max(unsure));
        }
        for (pin, runs) in held.into_iter().rev() {
            space.add_pending(pin.next(), runs);
        }
    }
}

impl Database {
    /// Replays the log behind the root that was found, and makes the result steady. Called by the
    /// first process, before any other can open the database or make a steady point.
    pub(crate) fn replay(&self) -> Result<Recovery> {
        let core = &self.0.core;
        let start = core.shared.root();
        // A root that a dead process left may be the result of a replay that it did not finish.
        if core.log.is_empty() {
            return Ok(Recovery::default());
        }
        // The last transaction of each batch. A batch has its number, which has to be known when it
        // begins.
        let mut batches = Batches::default();
        let mut log_bytes = 0;
        let (end, last) = core.log.read(start.log, start.txn, |txn, _, operations| {
            log_bytes += operations.len() as u64;
            batches.add(txn, operations);
            Ok(())
        })?;
        if core.is_read_only() {
            // Even with nothing to replay: other processes may open the database while this one
            // keeps them from being the first, and what a writer among them appends must not stand
            // behind lost records.
            return match last > start.txn || core.shared.is_shared() {
                true => Err(Error::NeedsRecovery { path: core.path.clone() }),
                false => Ok(Recovery::default()),
            };
        }
        let mut ends = batches.end(last).into_iter();
        let mut active: Option<WriteTxn> = None;
        core.log.read(start.log, start.txn, |txn, position, operations| {
            let mut current = match active.take() {
                Some(current) => current,
                None => WriteTxn::replaying(Arc::clone(&self.0), core.lock_writer(true)?, ends.next().unwrap_or(last))?,
            };
            current.replay_record(operations)?;
            if current.txn() == txn {
                current.commit_replayed(position)?;
            } else {
                active = Some(current);
            }
            Ok(())
        })?;
        if active.is_some() || core.shared.root().txn < last {
            return Err(Error::CorruptedLog { reason: "it was longer when it was read before" });
        }
        core.restart_log(end)?;
        Ok(Recovery { transactions: last.0 - start.txn.0, log_bytes })
    }
}

impl Core {
    /// Gives the log's chain a new start behind the last complete record. The records behind it
    /// were lost, and must not count again even if the same records are written once more.
    fn restart_log(&self, end: Position) -> Result<()> {
        let mut root = self.shared.root();
        let seed = crate::db::random_id();
        root.log = Position { chain: crate::page::get_u64(&seed, 0), ..end };
        self.shared.publish(root, true);
        if root.txn > self.shared.steady() {
            return self.sync();
        }
        // Nothing was replayed: writes the same point to both meta pages.
        let mut last = self.last_meta.lock();
        last.0.log = root.log;
        last.0.clean = false;
        self.rewrite_meta_pages(&mut last)
    }
}
