//! The file's end: giving up the free pages there while the database is open.
//!
//! Pages are not moved, so the file can end behind the last page in use and not before; `Lowest`, which fills the file
//! from its start, brings that page down as records are written. Free pages at the end are given up in two steps:
//! 1. `trim`, before transaction `t` begins: the pages leave the sets, and the page count goes down. States before `t`
//!    have the larger count, `t` and what comes after it the smaller. The free map's base is written anew with the next
//!    steady point, so that nothing on disk lists pages beyond the count that goes with it.
//! 2. The file is cut off (`Core::cut_off`) once nobody has a larger count: new snapshots see `t` or a newer state, none
//!    that lives is older than `t`, and both meta pages on disk have smaller counts. So whatever page number a reader
//!    comes upon, in whichever process, is below the end of the file if it is below the reader's page count; and
//!    whichever meta page a crash leaves fits into the file.
//!
//! In between the file is longer than `page_count` says, and what is there may have no disk space behind it (`loose`).
//! The lock file says so, too: who takes over the writing does not know which states have a larger count than the newest,
//! and so waits until nobody sees one before that.
//!
//! To trim is worth it for an eighth of the file and 4 MiB, and only if that has been neither in use nor taken while as
//! many pages were taken elsewhere as a sixteenth of the file: what comes and goes is not cut off each time. When
//! nobody writes, half of the file has to be free, and goes at once.

use super::{BACK_BYTES, SPARE_BYTES, Space, base_pages_for};
use crate::Result;
use crate::page::TxnId;
use crate::pager::Pager;

/// The file's end is given up if it is at least this fraction of the file, or, when nobody writes, the other.
const TRIM_DIVISOR: u32 = 8;
const TRIM_DIVISOR_IDLE: u32 = 2;
/// Free pages at the file's end are looked for each time so many pages have been taken, as a fraction of the file, and
/// at least.
const TRIM_PATIENCE_DIVISOR: u32 = 16;
const TRIM_PATIENCE_PAGES: u32 = 64;

/// What is known of an end of the file that nobody needs any more.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// States before this transaction may have a larger page count.
    pub(super) txn: TxnId,
    /// The steady point at which the meta pages were last looked at.
    pub(super) looked: Option<TxnId>,
    /// The steady point at which it was last asked whether those live who are in the way.
    pub(super) asked: Option<TxnId>,
}

impl Space {
    /// Whether it is time to look for free pages at the file's end while somebody writes.
    #[inline]
    pub(crate) fn trim_is_due(&self) -> bool {
        self.taken >= (self.page_count / TRIM_PATIENCE_DIVISOR).max(TRIM_PATIENCE_PAGES)
    }

    /// Lowers the page count if that is worth it, before `txn` begins, or, if only the free map is in the way, has it
    /// written anew: whether either takes a steady point to be of use. `idle`: nobody is writing.
    pub(crate) fn trim(&mut self, pager: &Pager, txn: TxnId, idle: bool) -> bool {
        let touched = std::mem::take(&mut self.taken_end);
        self.taken = 0;
        let touched = if idle { 0 } else { touched };
        let divisor = if idle { TRIM_DIVISOR_IDLE } else { TRIM_DIVISOR };
        let page_size = pager.page_size() as u64;
        let page_count = self.page_count;
        let worth = |end: u32| {
            let pages = page_count.saturating_sub(end);
            pages >= page_count / divisor && u64::from(pages) * page_size >= SPARE_BYTES
        };
        if !worth(self.tail_start(true).max(touched)) {
            return false;
        }
        let start = self.tail_start(false).max(touched);
        // Room for the free map, which is to be written anew.
        let end = start.saturating_add(base_pages_for(start, pager));
        if !worth(end) {
            // What stands in the way is the free map: written anew, it lies lower.
            self.rebase = true;
            return true;
        }
        self.loose = end..self.loose.end.max(page_count);
        self.page_count = end;
        self.ready.truncate(end);
        self.unbacked.truncate(end);
        self.populated = self.populated.min(end);
        if self.persisted_count > end {
            self.persisted.truncate(end);
            self.persisted_count = end;
            self.rebase = true;
        }
        self.cut_from(txn);
        true
    }

    /// There is an end of the file to cut off once nobody sees a state before `txn`: none from it on has a larger page
    /// count than this.
    pub(crate) fn cut_from(&mut self, txn: TxnId) {
        self.cut = Some(Cut { txn, looked: None, asked: None });
    }

    /// Whether the file is to be cut off.
    pub(crate) fn is_cut_pending(&self) -> bool {
        self.cut.is_some()
    }

    /// The first of the pages at the file's end that may be taken, skipping those of the free map if asked to.
    fn tail_start(&self, skip_map: bool) -> u32 {
        let map = if skip_map { self.map_runs() } else { Vec::new() };
        let mut start = self.page_count;
        while start > 2 {
            let index = (start as usize - 1) / 64;
            // The pages before `start` in this word, as its highest bits.
            let pages = (start - 1) % 64 + 1;
            let free = (self.ready.word(index) | self.unbacked.word(index)) << (64 - pages);
            let free = free.leading_ones().min(pages);
            start -= free;
            if free < pages {
                match map.iter().find(|(page, pages)| page.0 + pages == start) {
                    Some((page, _)) => start = page.0,
                    None => break,
                }
            }
        }
        start
    }

    /// Whether there may be an end of the file to cut off, if `pinned` is the oldest state that a snapshot sees and
    /// `visible` the oldest that new ones see. Not while a steady point is being made: its meta page is yet to come, and
    /// may have a larger page count than those that are on disk.
    pub(crate) fn may_cut(&self, visible: TxnId, pinned: Option<TxnId>) -> bool {
        self.steady_next.is_none()
            && self.cut.is_some_and(|cut| visible >= cut.txn && pinned.is_none_or(|pinned| pinned >= cut.txn))
    }

    /// Whether the oldest snapshot alone is in the way of cutting the file off. Says so once a steady point, because the
    /// answer is a question to the kernel: does its process live?
    pub(crate) fn waits_to_cut(&mut self, visible: TxnId, pinned: Option<TxnId>) -> bool {
        self.may_cut(visible, None)
            && !self.may_cut(visible, pinned)
            && self.cut.as_mut().is_some_and(|cut| cut.asked.replace(self.steady) != Some(self.steady))
    }

    /// Whether the meta pages have changed since this was last asked.
    pub(crate) fn meta_pages_changed(&mut self) -> bool {
        let steady = self.steady;
        self.cut.as_mut().is_some_and(|cut| cut.looked.replace(steady) != Some(steady))
    }

    /// The file ends behind page `page_count` now, or goes on being as long as it is.
    pub(crate) fn end_cut(&mut self, page_count: u32) {
        self.cut = None;
        self.loose.end = self.loose.end.min(page_count);
    }

    /// Backs what lies behind the last page, in steps, up to a page count.
    pub(super) fn back_loose(&mut self, pager: &Pager, page_count: u64) -> Result<()> {
        let start = self.loose.start.max(self.page_count);
        let end = page_count.min(u64::from(self.loose.end)) as u32;
        if start >= end {
            return Ok(());
        }
        let page_size = pager.page_size() as u64;
        let back = |end: u32| pager.disk().back(u64::from(start) * page_size, u64::from(end - start) * page_size);
        let roomy = end.saturating_add((BACK_BYTES / page_size) as u32).min(self.loose.end);
        let end = match back(roomy) {
            Ok(()) => roomy,
            Err(_) => back(end).map(|()| end)?,
        };
        self.loose.start = end;
        Ok(())
    }

    /// Gives back the disk space behind the last page of a file that cannot be cut off yet.
    pub(crate) fn give_back_end(&mut self, pager: &Pager) {
        let start = self.loose.start.max(self.page_count);
        if self.cut.is_none() || start >= self.loose.end {
            return;
        }
        let page_size = pager.page_size() as u64;
        let _ = pager.disk().punch(u64::from(start) * page_size, u64::from(self.loose.end - start) * page_size);
    }
}
