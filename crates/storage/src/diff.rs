//! What differs between two states of a table: both trees walked together, shared pages skipped.
//!
//! Trees are copied on write, so a page that both refer to holds the same in both, with everything
//! below it. Each tree has a *walk*, which stands on a subtree or on an entry. One step looks at
//! the two places:
//! - The same page on both sides: both walks go on behind it.
//! - Two entries: they are merged by key.
//! - Otherwise a subtree is opened: the one that starts lower, since keys before the start of the
//!   other can only be in it. If they start together, the higher one is opened, or both if they
//!   have the same height.
//!
//! So where splits, merges or a new root have moved boundaries, a few more pages are read, and the
//! walks are in step again at the next shared page.
//!
//! Invariants:
//! 1. Everything before a walk's place has been compared.
//! 2. A walk's key is not above any key of its subtree.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use smallvec::SmallVec;

use crate::catalog::TableKind;
use crate::node::{Key, Node, Payload};
use crate::page::PageId;
use crate::pager::{Bounds, Pager, corrupted};
use crate::root::Tree;
use crate::view::View;
use crate::{Error, Result};

/// Called with a key whose entry differs, and with its value before and after; `None` where the key
/// does not exist.
pub type DiffVisit<'v> = dyn FnMut(&[u8], Option<&[u8]>, Option<&[u8]>) -> ControlFlow<()> + 'v;

impl View<'_> {
    /// Whether the other view, of the same table, has the very same tree. Two trees may hold the
    /// same entries and not be the same.
    ///
    /// Both views must be held: a page that nobody holds may be used again for something else.
    #[must_use]
    pub fn is_same_tree(&self, other: &View<'_>) -> bool {
        self.tree.root == other.tree.root && self.tree.depth == other.tree.depth
    }

    /// Visits the keys of a range whose entries differ between this state of a table and another,
    /// `newer`, in order, until the visitor breaks off: with the value here and the value there.
    /// Costs about as many pages as differ. Not for tables with many values a key.
    pub fn diff(
        &self,
        newer: &View<'_>,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        visit: &mut DiffVisit<'_>,
    ) -> Result<()> {
        self.diff_counting(newer, low, high, visit).map(|_| ())
    }

    /// Looks a key up in this state of a table and in another, `newer`. Costs no more pages than
    /// differ on the way to it. Not for tables with many values a key.
    pub fn get_both<'v>(&'v self, newer: &'v View<'_>, key: &[u8]) -> Result<Both<'v>> {
        let [mut old, mut new] = Descent::both(self, newer)?;
        Ok(match descend(&mut old, &mut new, key)? {
            true => Both::Same,
            false => Both::Apart(old.value(key)?, new.value(key)?),
        })
    }

    /// As [`View::get_both`], for a key that stands for all keys that begin with it unless it
    /// exists itself. If it exists in neither state, the answer is `Same` if the same keys begin
    /// with it in both, and `Apart` of `None` and `None` otherwise.
    pub fn get_both_with_prefix<'v>(&'v self, newer: &'v View<'_>, prefix: &[u8]) -> Result<Both<'v>> {
        let [mut old, mut new] = Descent::both(self, newer)?.map(|descent| Descent { has_all: Some(true), ..descent });
        if descend(&mut old, &mut new, prefix)? {
            // Different keys may follow the same page, so both sides are searched.
            if [&old, &new].iter().all(|side| side.has_all == Some(true)) || new.value(prefix)?.is_some() {
                return Ok(Both::Same);
            }
        } else {
            let (before, after) = (old.value(prefix)?, new.value(prefix)?);
            if before.is_some() || after.is_some() {
                return Ok(Both::Apart(before, after));
            }
            if old.is_none_with(prefix)? && new.is_none_with(prefix)? {
                return Ok(Both::Same);
            }
        }
        Ok(if self.begins_the_same(newer, prefix)? { Both::Same } else { Both::Apart(None, None) })
    }

    /// Whether the same keys begin with a prefix in both states.
    fn begins_the_same(&self, newer: &View<'_>, prefix: &[u8]) -> Result<bool> {
        let end = prefix.iter().rposition(|&byte| byte != u8::MAX).map(|last| {
            let mut end = Key::from_slice(&prefix[..=last]);
            end[last] += 1;
            end
        });
        let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut same = true;
        self.diff(newer, Bound::Included(prefix), high, &mut |_, before, after| {
            same = before.is_some() == after.is_some();
            if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(same)
    }

    /// As [`View::diff`]. Gives how many pages were read.
    fn diff_counting(
        &self,
        newer: &View<'_>,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        visit: &mut DiffVisit<'_>,
    ) -> Result<u64> {
        for view in [self, newer] {
            view.table.expect_kind(&[TableKind::Plain, TableKind::Integer], "diff")?;
        }
        let mut old = Walk::new(self, low, high)?;
        let mut new = Walk::new(newer, low, high)?;
        while step(&mut old, &mut new, visit)?.is_continue() {}
        Ok(old.pages + new.pages)
    }
}

/// A key in two states of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Both<'v> {
    /// The same in both, which the shared pages prove.
    Same,
    /// Its value in the one and in the other; `None` where it is not there.
    Apart(Option<&'v [u8]>, Option<&'v [u8]>),
}

/// The path down to one key.
struct Descent<'v> {
    pager: &'v Pager,
    bounds: Bounds,
    page: PageId,
    /// The level of the page, leaves being 0. None in an empty tree.
    level: Option<u32>,
    /// Whether all keys that begin with the searched one are below the page; known only if asked
    /// for.
    has_all: Option<bool>,
}

/// Goes down to a key on both sides until they meet in one page. Gives whether they did.
fn descend(old: &mut Descent<'_>, new: &mut Descent<'_>, key: &[u8]) -> Result<bool> {
    loop {
        let (old_level, new_level) = (old.level, new.level);
        if old_level == new_level && old.page == new.page {
            return Ok(true);
        }
        if old_level.max(new_level).is_none_or(|level| level == 0) {
            return Ok(false);
        }
        if old_level >= new_level {
            old.go_down(key)?;
        }
        if new_level >= old_level {
            new.go_down(key)?;
        }
        if old.page != new.page {
            // Both prefetches are started before either page is read.
            old.prefetch();
            new.prefetch();
        }
    }
}

impl<'v> Descent<'v> {
    fn both(old: &'v View<'_>, new: &'v View<'_>) -> Result<[Self; 2]> {
        for view in [old, new] {
            view.table.expect_kind(&[TableKind::Plain, TableKind::Integer], "get_both")?;
        }
        Ok([old, new].map(|view| {
            let Tree { root, depth, .. } = view.tree;
            let level = depth.checked_sub(1);
            Self { pager: view.pager, bounds: view.bounds, page: root, level, has_all: None }
        }))
    }

    fn node(&self) -> Result<Node<'v>> {
        let node = self.pager.node(self.page, self.bounds)?;
        match Some(u32::from(node.level())) == self.level {
            true => Ok(node),
            false => Err(corrupted(self.page, "it is at another level than its tree says")),
        }
    }

    /// To the page below. Not from a leaf.
    fn go_down(&mut self, key: &[u8]) -> Result<()> {
        let node = self.node()?;
        let index = node.child_index(key);
        if self.has_all.is_some() && index + 1 < node.count() {
            // The next child begins with its separator, which is greater than the key.
            self.has_all = Some(!begins_with(node, index + 1, key));
        }
        self.page = node.child(index);
        self.level = self.level.and_then(|level| level.checked_sub(1));
        Ok(())
    }

    fn prefetch(&self) {
        self.pager.prefetch(self.page, self.bounds);
    }

    /// What the key has, from a page above it.
    fn value(&mut self, key: &[u8]) -> Result<Option<&'v [u8]>> {
        while self.level.is_some_and(|level| level > 0) {
            self.go_down(key)?;
        }
        if self.level.is_none() {
            return Ok(None);
        }
        let node = self.node()?;
        let found = node.search(key).ok().map(|index| self.pager.value(self.bounds, node.payload(index)));
        found.transpose()
    }

    /// Whether the leaf alone shows that no key begins with a prefix that it does not contain
    /// itself.
    fn is_none_with(&self, prefix: &[u8]) -> Result<bool> {
        if self.level.is_none() {
            return Ok(true);
        }
        let node = self.node()?;
        let next = node.search(prefix).unwrap_or_else(|index| index);
        Ok(self.has_all == Some(true) && (next == node.count() || !begins_with(node, next, prefix)))
    }
}

fn begins_with(node: Node<'_>, index: usize, prefix: &[u8]) -> bool {
    let mut key = Key::new();
    node.key_into(index, &mut key);
    key.starts_with(prefix)
}

/// Compares the places of both walks and moves on, until both have ended or the visitor breaks off.
fn step(old: &mut Walk<'_>, new: &mut Walk<'_>, visit: &mut DiffVisit<'_>) -> Result<ControlFlow<()>> {
    match (old.place(), new.place()) {
        (Place::End, Place::End) => return Ok(ControlFlow::Break(())),
        (Place::Subtree(..), Place::End) => old.open()?,
        (Place::End, Place::Subtree(..)) => new.open()?,
        (Place::Subtree(a, ..), Place::Subtree(b, ..)) if a == b => {
            old.skip();
            new.skip();
        }
        (Place::Subtree(_, old_level), Place::Subtree(_, new_level)) => {
            match old.key.cmp(&new.key).then(new_level.cmp(&old_level)) {
                Ordering::Less => old.open()?,
                Ordering::Greater => new.open()?,
                Ordering::Equal => {
                    old.open()?;
                    new.open()?;
                }
            }
        }
        // An entry before the start of the subtree is not in the subtree.
        (Place::Subtree(..), Place::Entry) if old.key <= new.key => old.open()?,
        (Place::Entry, Place::Subtree(..)) if new.key <= old.key => new.open()?,
        (Place::Entry, Place::Subtree(..) | Place::End) => return old.give(|key, value| visit(key, Some(value), None)),
        (Place::Subtree(..) | Place::End, Place::Entry) => return new.give(|key, value| visit(key, None, Some(value))),
        (Place::Entry, Place::Entry) => match old.key.cmp(&new.key) {
            Ordering::Less => return old.give(|key, value| visit(key, Some(value), None)),
            Ordering::Greater => return new.give(|key, value| visit(key, None, Some(value))),
            Ordering::Equal => {
                if !old.has_value_of(new) {
                    let (before, after) = (old.value()?, new.value()?);
                    if before != after && visit(&old.key, Some(before), Some(after)).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                old.skip();
                new.skip();
            }
        },
    }
    Ok(ControlFlow::Continue(()))
}

/// Where a walk stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At a page that is not opened, with its level.
    Subtree(PageId, u8),
    Entry,
    End,
}

/// A page that was opened, and at which of its children or entries the walk is.
struct Frame<'a> {
    node: Node<'a>,
    index: usize,
    /// No key below the page is lower; empty for the lowest there is.
    low: Key,
}

/// A walk through a tree, in order, that opens only the pages it is told to.
struct Walk<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    low: Bound<&'a [u8]>,
    high: Bound<&'a [u8]>,
    /// The root while it is not opened, with its level.
    root: Option<(PageId, u8)>,
    stack: SmallVec<[Frame<'a>; 6]>,
    /// The key of the entry, or the start of the subtree, that the walk stands on.
    key: Key,
    pages: u64,
}

impl<'a> Walk<'a> {
    fn new(view: &'a View<'_>, low: Bound<&'a [u8]>, high: Bound<&'a [u8]>) -> Result<Self> {
        let Tree { root, depth, .. } = view.tree;
        let root = match depth {
            0 => None,
            _ => Some((root, u8::try_from(depth - 1).map_err(|_| corrupted(root, "its tree is too deep"))?)),
        };
        let (stack, key) = (SmallVec::new(), Key::new());
        let mut walk = Self { pager: view.pager, bounds: view.bounds, low, high, root, stack, key, pages: 0 };
        walk.arrive();
        Ok(walk)
    }

    fn place(&self) -> Place {
        if let Some((root, level)) = self.root {
            return Place::Subtree(root, level);
        }
        match self.stack.last() {
            None => Place::End,
            Some(frame) if frame.node.is_leaf() => Place::Entry,
            Some(frame) => Place::Subtree(frame.node.child(frame.index), frame.node.level() - 1),
        }
    }

    /// Opens the subtree that the walk is at, and goes to the first part of it that may be in the
    /// range.
    fn open(&mut self) -> Result<()> {
        let Place::Subtree(id, level) = self.place() else { return Ok(()) };
        self.root = None;
        let node = self.pager.node(id, self.bounds)?;
        self.pages += 1;
        if node.level() != level {
            return Err(Error::Corrupted { page: id, reason: "it is at another level than its tree says" });
        }
        let index = match self.low {
            // A page that starts behind the bound is in the range from its first entry on.
            Bound::Included(low) | Bound::Excluded(low) if self.key.as_slice() < low => match node.is_leaf() {
                true => node.search(low).unwrap_or_else(|index| index),
                false => node.child_index(low),
            },
            _ => 0,
        };
        self.stack.push(Frame { node, index, low: Key::from_slice(&self.key) });
        self.arrive();
        if let (Bound::Excluded(low), Place::Entry) = (self.low, self.place())
            && self.key.as_slice() == low
        {
            self.skip();
        }
        Ok(())
    }

    /// Moves behind the place of the walk.
    fn skip(&mut self) {
        self.root = None;
        if let Some(frame) = self.stack.last_mut() {
            frame.index += 1;
        }
        self.arrive();
    }

    /// Leaves pages that are done, finds the key of the new place, and ends the walk if it is out
    /// of range.
    fn arrive(&mut self) {
        while self.stack.last().is_some_and(|frame| frame.index >= frame.node.count()) {
            self.stack.pop();
            if let Some(frame) = self.stack.last_mut() {
                frame.index += 1;
            }
        }
        match self.stack.last() {
            None => self.key.clear(),
            Some(frame) if frame.index == 0 && !frame.node.is_leaf() => {
                self.key.clear();
                self.key.extend_from_slice(&frame.low);
            }
            Some(frame) => frame.node.key_into(frame.index, &mut self.key),
        }
        let done = match self.high {
            Bound::Unbounded => false,
            Bound::Included(high) => self.key.as_slice() > high,
            Bound::Excluded(high) => self.key.as_slice() >= high,
        };
        if done {
            self.root = None;
            self.stack.clear();
        }
    }

    fn payload(&self) -> Option<(&Frame<'a>, Payload<'a>)> {
        self.stack.last().map(|frame| (frame, frame.node.payload(frame.index)))
    }

    fn value(&self) -> Result<&'a [u8]> {
        match self.payload() {
            Some((_, payload)) => self.pager.value(self.bounds, payload),
            None => Ok(&[]),
        }
    }

    /// Whether the value is known to equal the other's without reading it: a large value in the
    /// same pages.
    fn has_value_of(&self, other: &Walk<'_>) -> bool {
        match (self.payload(), other.payload()) {
            (Some((_, Payload::Large { page: a, bytes: m })), Some((_, Payload::Large { page: b, bytes: n }))) => {
                (a, m) == (b, n)
            }
            _ => false,
        }
    }

    /// Calls the visitor with the entry and moves on.
    fn give(&mut self, tell: impl FnOnce(&[u8], &[u8]) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        let value = self.value()?;
        let flow = tell(&self.key, value);
        self.skip();
        Ok(flow)
    }
}

#[cfg(test)]
mod tests;
