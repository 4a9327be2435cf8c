//! Reading ahead: pages that a scan or a batch of keys will need come from the disk together.
//!
//! The kernel does not read ahead in the map (`disk` says why), so each page that is not in memory
//! costs a read by itself, one after the other. Who is going to touch many pages asks for them
//! beforehand. Data in memory must not pay for it: nothing is asked before a touch has taken as long
//! as a read takes, and asking ends once all that is asked for is in memory.
//!
//! ```text
//! leaves of a branch:  . . . x o o o o o o o o . . . .
//!                            |  in the window, asked for together
//!                            the scan is here
//! ```
//!
//! Invariants
//! - Pages are asked for within the bounds of the snapshot, and nothing is read of those that are
//!   asked for. What was asked for in vain costs a read, never a wrong answer.
//!
//! Not here: telling a wait from a touch (`cold`), the order of pages (`cursor`, `tree`), and how the
//! system is asked (`disk`).

use smallvec::SmallVec;

use crate::cold::Moment;
use crate::node::{Node, Payload};
use crate::page::{self, PageId};
use crate::pager::{Bounds, Pager};

/// Leaves that are asked for at first, and at the most. Every window is twice the one before.
const WINDOW_MIN: usize = 8;
const WINDOW_MAX: usize = 128;
/// Bytes of large values that are asked for together, about.
const LARGE_BYTES_MAX: u32 = 1 << 20;

/// How far a scan reads ahead.
#[derive(Default)]
pub(crate) struct ScanAhead {
    /// Leaves to ask for next; 0 while what is met is in memory.
    window: usize,
    /// Leaves that were asked for and not met yet.
    left: usize,
}

impl ScanAhead {
    /// A scan has come to the child `index` of the branch above the leaves, in this direction.
    /// `started` is the moment before it touched the leaf.
    #[inline]
    pub(crate) fn came_to(
        &mut self,
        started: Moment,
        leaf: Node<'_>,
        above: (Node<'_>, usize),
        forward: bool,
        at: (&Pager, Bounds),
    ) {
        let was_slow = started.was_slow();
        if self.window > 0 || was_slow {
            if was_slow {
                at.0.cold.missed();
            }
            self.ask(leaf, above, forward, at);
        }
    }

    #[cold]
    fn ask(
        &mut self,
        leaf: Node<'_>,
        (branch, index): (Node<'_>, usize),
        forward: bool,
        (pager, bounds): (&Pager, Bounds),
    ) {
        self.left = self.left.saturating_sub(1);
        // The rest of a window is on its way while it is half used up.
        if self.window > 0 && self.left > self.window / 4 {
            return;
        }
        let next = if self.window == 0 { WINDOW_MIN } else { (2 * self.window).min(WINDOW_MAX) };
        let (near, far) = (1 + self.left, self.left + next);
        let (first, end) = match forward {
            true => (index + near, (index + far + 1).min(branch.count())),
            false => (index.saturating_sub(far), (index + 1).saturating_sub(near)),
        };
        // The end of a branch says nothing about what follows.
        if first >= end {
            return;
        }
        let ids: SmallVec<[PageId; WINDOW_MAX]> = (first..end).map(|child| branch.child(child)).collect();
        // Leaves are about as wide as their neighbours.
        match ask_for(ids, page::run_pages_of(leaf.bytes()), pager, bounds) {
            true => (self.window, self.left) = (next, self.left + end - first),
            false => (self.window, self.left) = (0, 0),
        }
    }
}

/// Asks for large values of a leaf: that of entry `from`, and of those behind it or before it.
pub(crate) fn large_values(leaf: Node<'_>, from: usize, forward: bool, pager: &Pager, bounds: Bounds) {
    match forward {
        true => values((from..leaf.count()).map(|index| leaf.payload(index)), pager, bounds),
        false => values((0..=from).rev().map(|index| leaf.payload(index)), pager, bounds),
    }
}

/// Asks for those values that are large, up to a bound.
pub(crate) fn values<'p>(payloads: impl Iterator<Item = Payload<'p>>, pager: &Pager, bounds: Bounds) {
    let mut runs = Runs::new(pager, bounds);
    let mut left = LARGE_BYTES_MAX;
    for payload in payloads {
        if let Payload::Large { page, bytes } = payload {
            runs.add(page, page::run_pages_for(u64::from(bytes), pager.page_size()) as u32);
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
    }
    runs.finish();
}

/// Asks for some leaves. Tells whether any was not in memory.
pub(crate) fn leaves(ids: &[PageId], pager: &Pager, bounds: Bounds) -> bool {
    ask_for(ids.into(), 1, pager, bounds)
}

/// Asks for runs of so many pages. Tells whether anything was not in memory.
fn ask_for(mut ids: SmallVec<[PageId; WINDOW_MAX]>, pages: u32, pager: &Pager, bounds: Bounds) -> bool {
    ids.sort_unstable_by_key(|id| id.0);
    let mut runs = Runs::new(pager, bounds);
    ids.iter().for_each(|&id| runs.add(id, pages));
    runs.finish()
}

/// Asks for a number of pages together, those that lie side by side at once.
struct Runs<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    run: Option<(PageId, u32)>,
    missing: bool,
}

impl<'a> Runs<'a> {
    fn new(pager: &'a Pager, bounds: Bounds) -> Self {
        Self { pager, bounds, run: None, missing: false }
    }

    fn add(&mut self, id: PageId, pages: u32) {
        match &mut self.run {
            Some((first, count)) if first.0.checked_add(*count) == Some(id.0) => *count = count.saturating_add(pages),
            Some((first, count)) if *first == id && *count == pages => {}
            _ => {
                self.ask();
                self.run = Some((id, pages));
            }
        }
    }

    fn ask(&mut self) {
        if let Some((id, pages)) = self.run.take() {
            self.missing |= self.pager.read_ahead(id, pages, self.bounds);
        }
    }

    /// Asks for the last ones. Tells whether anything was not in memory.
    fn finish(mut self) -> bool {
        self.ask();
        self.missing
    }
}
