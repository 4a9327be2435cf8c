//! Finding out where a database stands: as the first process to open it, and as the next one to write to it.
//!
//! After a crash of the system the newest whole steady point counts, and what the log holds beyond it is carried out
//! again. After the death of a process the lock file still knows the newest root.

use std::sync::Arc;

use crate::db::{Core, Database};
use crate::lock_file::Pin;
use crate::log::Position;
use crate::log::record::Operations;
use crate::meta::{Meta, MetaFault};
use crate::page::{PageId, TxnId};
use crate::pager::Bounds;
use crate::root::Root;
use crate::space::{Freed, Space};
use crate::txn::WriteTxn;
use crate::workspace::Workspace;
use crate::{Durability, Error, FORMAT_VERSION, Result, walk};

/// Bytes of the log that are carried out again in one transaction: many, since a page is copied once a transaction.
const REPLAY_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 128 << 20 };

/// What opening a database after a crash found in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Transactions that were carried out again.
    pub transactions: u64,
    /// Bytes of the log that were read for that.
    pub log_bytes: u64,
}

impl Core {
    /// As the first process: finds the newest state.
    pub(crate) fn recover(&self, left: Option<Root>) -> Result<()> {
        if !self.read_only {
            // What a dead process wrote may be in memory only; what follows relies on it.
            self.flush()?;
        }
        let (mut meta, slot) = self.newest_meta(TxnId(u64::MAX))?;
        if !self.read_only {
            self.mend_other_meta(&mut meta, slot)?;
        }
        let mut root = meta.root();
        if let Some(left) = left.filter(|left| left.txn > meta.txn) {
            let fits = u64::from(left.page_count) * self.pager.page_size() as u64 <= self.pager.disk().allocated();
            // Another file may have been copied over this one since: then the root's page is not there.
            let there = || {
                left.catalog.depth == 0
                    || left.catalog.root.0 < left.page_count
                        && self.pager.birth_and_pages(left.catalog.root).0 == left.txn
            };
            if fits && there() {
                root = left;
            }
        }
        self.shared.set_steady(meta.txn);
        self.shared.publish(root, true);
        *self.last_meta.lock() = (meta, slot);
        Ok(())
    }

    /// If a crash tore the other meta page, or a steady point that did not make it is there, replaces it: damage found
    /// later is then damage, and not an old crash.
    fn mend_other_meta(&self, meta: &mut Meta, slot: u32) -> Result<()> {
        let other = Meta::decode(self.pager.raw(PageId(1 - slot), 1), 1 - slot);
        if other.is_ok_and(|other| other.txn <= meta.txn) {
            return Ok(());
        }
        // The pages of the manifest were found whole, and flushed just now.
        meta.manifest.clear();
        self.write_meta(meta, 1 - slot)?;
        self.flush()
    }

    /// The newest meta page that holds a whole steady point, of those up to a transaction.
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

    /// Learns what is free from the files, because another process wrote last.
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
        // Before the look at who pins what: who comes later sees the newest, and who came before is seen.
        if root.txn < meta.txn {
            // The last writer died between making its commit durable and publishing it.
            self.shared.publish(meta.root(), true);
        }
        self.shared.raise_visible(root.txn);
        self.shared.set_steady(meta.txn);
        let mut space = Space::load(&self.pager, &meta)?;
        let newest = root.txn.max(meta.txn);
        let pins = self.pins_that_live(newest);
        let mut freed = Vec::new();
        if root.txn > meta.txn {
            let page_count = root.page_count.max(meta.page_count);
            let bounds = Bounds { page_count, newest: root.txn, steady: meta.txn };
            let difference = walk::difference(&self.pager, bounds, meta.txn, &meta.catalog, &root.catalog)?;
            space.take_over(page_count, &difference.live);
            freed = difference.freed;
        }
        self.hold_back(&mut space, pins);
        space.commit(newest, &freed);
        space.set_policy(self.free_space);
        // Bug: a handover forgot that the file was to be cut off. Consequence: it kept its length until it was closed, or
        // as much was free at its end once more. Fix: the lock file remembers.
        if self.shared.is_cut_pending() {
            space.cut_from(root.txn.max(meta.txn));
        }
        space.set_populates(self.durability != Durability::SyncNoLog);
        work.space = space;
        *self.last_meta.lock() = (meta, slot);
        self.shared.wrote();
        Ok(())
    }

    /// What live snapshots pin of states before `newest`, the newest first, and not only because their processes died.
    fn pins_that_live(&self, newest: TxnId) -> Vec<Pin> {
        let older = || {
            let mut pins = self.shared.pins();
            // Nothing is older than the state before the first transaction: who pins that has yet to choose a state.
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

    /// Has those of the idle pages wait that snapshots see, and no others.
    ///
    /// Bug: all of them waited while a snapshot older than the steady point lived. Consequence: each time the writing changed
    /// hands, be it because a writer was killed, the next one could take nothing but new pages, and the file grew by what
    /// it wrote for as long as there was always some snapshot. Fix: pins say which root they are of, and what that reaches
    /// is what waits.
    fn hold_back(&self, space: &mut Space, pins: Vec<Pin>) {
        let mut idle = space.unused().clone();
        // The newest of the pins that do not say what they see, or cannot be asked.
        let mut unsure = None;
        let mut held: Vec<(TxnId, Vec<Freed>)> = Vec::new();
        for pin in pins {
            let mut seen = Vec::new();
            let asked =
                pin.root.map(|root| walk::take_seen(&self.pager, &root, space.page_count(), &mut idle, &mut seen));
            if !matches!(asked, Some(Ok(()))) {
                unsure.get_or_insert(pin.txn);
            }
            held.push((pin.txn, seen));
        }
        if let Some(unsure) = unsure {
            // It may see whatever is left, and what older ones see.
            let rest = idle.runs().map(|(page, pages)| Freed { page: PageId(page), pages, birth: TxnId(0) });
            held.push((unsure, rest.collect()));
            held.iter_mut().for_each(|(pin, _)| *pin = (*pin).max(unsure));
        }
        for (pin, runs) in held.into_iter().rev() {
            space.add_pending(pin.next(), runs);
        }
    }
}

impl Database {
    /// Carries out again what the log holds beyond the root that was found, and makes that steady. As the first to open the
    /// database; nobody else can yet, and nobody makes steady points meanwhile.
    pub(crate) fn replay(&self) -> Result<Recovery> {
        let core = &self.0.core;
        let start = core.shared.root();
        // A root that a dead process left may be one that it had come to while it did the same.
        if core.log.is_empty() {
            return Ok(Recovery::default());
        }
        // Where transactions are to end that carry out several: their number has to be known when they begin.
        let mut ends = Vec::new();
        let mut bytes = 0;
        let mut log_bytes = 0;
        let (end, last) = core.log.read(start.log, start.txn, |txn, _, operations| {
            bytes += operations.len() as u64;
            log_bytes += operations.len() as u64;
            if bytes >= REPLAY_BYTES {
                bytes = 0;
                ends.push(txn);
            }
            Ok(())
        })?;
        if core.is_read_only() {
            // Even where nothing is to be carried out, what a writer appends while this process keeps it from being the
            // first must not stand behind what was lost.
            return match last > start.txn || core.shared.is_shared() {
                true => Err(Error::NeedsRecovery { path: core.path.clone() }),
                false => Ok(Recovery::default()),
            };
        }
        ends.push(last);
        let mut ends = ends.into_iter();
        let mut active: Option<WriteTxn> = None;
        core.log.read(start.log, start.txn, |txn, position, operations| {
            let mut current = match active.take() {
                Some(current) => current,
                None => WriteTxn::redoing(Arc::clone(&self.0), core.lock_writer(true)?, ends.next().unwrap_or(last)),
            };
            for operation in Operations::new(operations) {
                let (table, operation) = operation?;
                current.redo(table, operation)?;
            }
            if current.txn() == txn {
                current.commit_redone(position)?;
            } else {
                active = Some(current);
            }
            Ok(())
        })?;
        if active.is_some() || core.shared.root().txn < last {
            return Err(Error::CorruptedLog { reason: "it was longer when it was read before" });
        }
        core.start_log_anew(end)?;
        Ok(Recovery { transactions: last.0 - start.txn.0, log_bytes })
    }
}

impl Core {
    /// Gives the log's chain a new start behind the last whole record: what follows there was lost, and must not count
    /// again should the same records be written once more.
    fn start_log_anew(&self, end: Position) -> Result<()> {
        let mut root = self.shared.root();
        let seed = crate::db::random_id();
        root.log = Position { chain: crate::page::get_u64(&seed, 0), ..end };
        self.shared.publish(root, true);
        if root.txn > self.shared.steady() {
            return self.sync();
        }
        // Nothing was carried out again: the same point, in both meta pages.
        let mut last = self.last_meta.lock();
        last.0.log = root.log;
        last.0.manifest.clear();
        last.0.clean = false;
        let slot = last.1;
        for slot in [1 - slot, slot] {
            self.write_meta(&last.0, slot).inspect_err(|_| self.poison())?;
            self.flush()?;
        }
        Ok(())
    }
}
