//! Walking everything a root reaches: what `copy`, `backup`, the handover between processes and the
//! reaping of branches have in common.
//!
//! A root has one catalogue, and that of each branch and each fork. They share pages, but each page
//! has one owner (see `forest`). So a walk that leaves out, in each state, what is not newer than
//! the fork below comes to each page once.

use std::collections::HashSet;

use crate::catalog::Description;
use crate::forest::{State, states};
use crate::node::{Node, Payload};
use crate::page::{PageId, TxnId};
use crate::page_set::PageSet;
use crate::pager::{Bounds, Pager};
use crate::root::{Root, Tree};
use crate::space::Freed;
use crate::tree::large_pages;
use crate::{Error, Result};

/// Whether to visit what is below a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    Descend,
    Skip,
}

/// Calls `visit` for every page of a root, once: tree pages before what is below them, and large
/// values with the pages of their run.
pub(crate) fn walk(
    pager: &Pager,
    bounds: Bounds,
    root: &Root,
    visit: &mut dyn FnMut(PageId, u32) -> Result<Visit>,
) -> Result<()> {
    walk_states(pager, bounds, &states(pager, bounds, root, false)?, visit)
}

/// Calls `visit` for every page that one of these states owns.
fn walk_states(
    pager: &Pager,
    bounds: Bounds,
    states: &[State],
    visit: &mut dyn FnMut(PageId, u32) -> Result<Visit>,
) -> Result<()> {
    let mut runs_left = bounds.page_count;
    for state in states.iter().filter(|state| state.catalog.depth > 0) {
        let fork = state.fork;
        // Each owned page has one parent. More visits than pages would mean a second way to some
        // page, and perhaps a circle.
        let visit: OnPage<'_> = &mut |page, pages| {
            if fork > TxnId(0) && pager.birth_and_pages(page).0 <= fork {
                return Ok(Visit::Skip);
            }
            runs_left = runs_left
                .checked_sub(1)
                .ok_or(Error::Corrupted { page, reason: "it is reached in more than one way" })?;
            visit(page, pages)
        };
        walk_tree(pager, bounds, state.catalog.root, state.catalog.depth, visit, &mut |node: Node<'_>, visit| {
            for index in 0..node.count() {
                let table = Description::decode(node.payload(index))?;
                if table.tree.depth > 0 {
                    walk_tree(pager, bounds, table.tree.root, table.tree.depth, visit, &mut |_, _| Ok(()))?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

type OnPage<'v> = &'v mut dyn FnMut(PageId, u32) -> Result<Visit>;

fn walk_tree(
    pager: &Pager,
    bounds: Bounds,
    id: PageId,
    levels: u32,
    visit: OnPage<'_>,
    on_leaf: &mut dyn FnMut(Node<'_>, OnPage<'_>) -> Result<()>,
) -> Result<()> {
    let pages = node_pages(pager, bounds, id, levels)?;
    if visit(id, pages)? == Visit::Skip {
        return Ok(());
    }
    let node = pager.node(id, bounds)?;
    if u32::from(node.level()) + 1 != levels {
        return Err(Error::Corrupted { page: id, reason: "it is at another level than its tree says" });
    }
    for index in 0..node.count() {
        match node.payload(index) {
            Payload::Child { page, .. } => walk_tree(pager, bounds, page, levels - 1, visit, on_leaf)?,
            Payload::Large { page, bytes } => {
                let pages = large_pages(pager, bytes) as u32;
                if u64::from(page.0) + u64::from(pages) > u64::from(bounds.page_count) {
                    return Err(Error::Corrupted { page, reason: "a large value lies beyond the end of the file" });
                }
                visit(page, pages)?;
            }
            Payload::Inline(_) => {}
        }
    }
    if node.is_leaf() { on_leaf(node, visit) } else { Ok(()) }
}

/// How many pages a tree page has, as its header says. That is not verified, but they lie within the
/// file.
fn node_pages(pager: &Pager, bounds: Bounds, id: PageId, levels: u32) -> Result<u32> {
    if id.0 >= bounds.page_count {
        return Err(Error::Corrupted { page: id, reason: "a page number lies beyond the end of the file" });
    }
    let pages = if levels == 1 { pager.birth_and_pages(id).1 } else { 1 };
    if pages == 0 || u64::from(id.0) + u64::from(pages) > u64::from(bounds.page_count) {
        return Err(Error::Corrupted { page: id, reason: "its run lies beyond the end of the file" });
    }
    Ok(pages)
}

/// The difference between a steady point and the newest state.
pub(crate) struct Difference {
    /// Runs of the newest state that the steady point does not have.
    pub(crate) live: Vec<(PageId, u32)>,
    /// Runs of the steady point that the newest state does not have.
    pub(crate) freed: Vec<Freed>,
}

/// Compares two states of the same file. A page that is not newer than the steady point is shared
/// with everything below it, so the cost is that of the changes in between.
///
/// Where a fork of the steady point is gone, one state now owns what two owned then: what the fork
/// had, and what was born later above it. A page of the second kind that is shared does not tell
/// which pages of the first kind are, because the fork came to them in another way. So everything
/// newer than such a fork is walked.
///
/// Why that is enough. Let `y` be a page that is in use in both, not newer than any fork that is
/// gone, and `z` the topmost page on the way to it from its new owner that is not newer either. If
/// `z` had had another owner than `y`, that would have been for a fork between the two, which would
/// still be there, and still between them. So `y` is found, or left out, below `z` in both.
pub(crate) fn difference(pager: &Pager, bounds: Bounds, steady: TxnId, old: &Root, new: &Root) -> Result<Difference> {
    let (old, new) = (states(pager, bounds, old, false)?, states(pager, bounds, new, false)?);
    let forks = |states: &[State]| -> HashSet<TxnId> { states.iter().filter_map(|state| state.as_fork()).collect() };
    let gone = forks(&old).difference(&forks(&new)).min().copied();
    let common = gone.map_or(steady, |gone| gone.min(steady));
    let mut shared = HashSet::new();
    let mut live = Vec::new();
    walk_states(pager, bounds, &new, &mut |page, pages| {
        let (birth, _) = pager.birth_and_pages(page);
        if birth <= steady {
            shared.insert(page);
            return Ok(if birth <= common { Visit::Skip } else { Visit::Descend });
        }
        // Pages that will be sealed must be what the tree says. Pages that are read below are
        // verified anyway.
        pager.verified_run(page, bounds)?;
        live.push((page, pages));
        Ok(Visit::Descend)
    })?;
    let mut freed = Vec::new();
    walk_states(pager, bounds, &old, &mut |page, pages| {
        if shared.contains(&page) {
            // So is everything below it.
            return Ok(Visit::Skip);
        }
        let (birth, _) = pager.birth_and_pages(page);
        freed.push(Freed { page, pages, birth });
        Ok(Visit::Descend)
    })?;
    Ok(Difference { live, freed })
}

/// Visits the pages of one state. Reads a leaf only where its entries refer to other pages.
struct Reach<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    runs_left: u32,
    /// The state may be an old one: see [`Pager::node_of_old`].
    old: bool,
    /// The fork that the state starts from, whose pages are not visited.
    fork: TxnId,
    /// Called with each run, and whether it is a page that is read; says whether to go on below it.
    visit: &'a mut dyn FnMut(PageId, u32, bool) -> bool,
}

impl Reach<'_> {
    /// Visits what each of these states owns.
    fn states(&mut self, states: &[State]) -> Result<()> {
        for state in states.iter().filter(|state| state.catalog.depth > 0) {
            self.fork = state.fork;
            self.page(state.catalog.root, state.catalog.depth, false, true)?;
        }
        Ok(())
    }

    fn visit(&mut self, page: PageId, pages: u32, read: bool) -> Result<bool> {
        if u64::from(page.0) + u64::from(pages) > u64::from(self.bounds.page_count) {
            return Err(Error::Corrupted { page, reason: "a page number lies beyond the end of the file" });
        }
        if self.fork > TxnId(0) && self.pager.birth_and_pages(page).0 <= self.fork {
            return Ok(false);
        }
        self.runs_left = self
            .runs_left
            .checked_sub(1)
            .ok_or(Error::Corrupted { page, reason: "it is reached in more than one way" })?;
        Ok((self.visit)(page, pages, read) && read)
    }

    fn page(&mut self, id: PageId, levels: u32, large: bool, catalog: bool) -> Result<()> {
        let pages = node_pages(self.pager, self.bounds, id, levels)?;
        if !self.visit(id, pages, levels > 1 || large || catalog)? {
            return Ok(());
        }
        let node = match self.old {
            false => self.pager.node(id, self.bounds)?,
            true => self.pager.node_of_old(id, self.bounds)?,
        };
        if u32::from(node.level()) + 1 != levels {
            return Err(Error::Corrupted { page: id, reason: "it is at another level than its tree says" });
        }
        for index in 0..node.count() {
            match node.payload(index) {
                Payload::Child { page, .. } => self.page(page, levels - 1, large, catalog)?,
                Payload::Large { page, bytes } => _ = self.visit(page, large_pages(self.pager, bytes) as u32, false)?,
                payload @ Payload::Inline(_) if catalog => {
                    let tree = Description::decode(payload)?.tree;
                    if tree.depth > 0 {
                        self.page(tree.root, tree.depth, tree.overflow_pages > 0, false)?;
                    }
                }
                Payload::Inline(_) => {}
            }
        }
        Ok(())
    }
}

/// How many pages a root reaches that a newer one does not. Both are pinned, so a page that both
/// reach is unchanged, with everything below it. The cost is that of the changes in between; see
/// [`difference`].
pub(crate) fn pages_gone(pager: &Pager, old: (Bounds, Root), new: (Bounds, Root)) -> Result<u64> {
    let (old_states, new_states) = (states(pager, old.0, &old.1, true)?, states(pager, new.0, &new.1, false)?);
    let forks = |states: &[State]| -> HashSet<TxnId> { states.iter().filter_map(|state| state.as_fork()).collect() };
    let gone = forks(&old_states).difference(&forks(&new_states)).min().copied();
    let common = gone.map_or(old.0.newest, |gone| gone.min(old.0.newest));
    let reach = |bounds: Bounds, states: &[State], old, visit: &mut dyn FnMut(PageId, u32, bool) -> bool| {
        Reach { pager, bounds, runs_left: bounds.page_count, old, fork: TxnId(0), visit }.states(states)
    };
    let mut newest = PageSet::default();
    reach(new.0, &new_states, false, &mut |page, pages, read| {
        (page.0..page.0 + pages).for_each(|page| _ = newest.insert(page));
        !read || pager.birth_and_pages(page).0 > common
    })?;
    let mut gone = 0;
    reach(old.0, &old_states, true, &mut |page, pages, _| {
        let only_old = !newest.contains(page.0);
        gone += if only_old { u64::from(pages) } else { 0 };
        only_old
    })?;
    Ok(gone)
}

/// The pages that a state owns.
pub(crate) fn owned(
    pager: &Pager,
    bounds: Bounds,
    state: &State,
    pace: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Freed>> {
    not_shared(pager, bounds, state, &PageSet::default(), pace)
}

/// The pages that a state owns and another, `above`, which has come from it since transaction
/// `since`, does not reach. Of `above` this reads the branches that are newer than `since`, and
/// those of its newer leaves that refer to other pages.
pub(crate) fn owned_but_for(
    pager: &Pager,
    bounds: Bounds,
    state: &State,
    (above, since): (&Tree, TxnId),
    pace: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Freed>> {
    let mut shared = Shared { pager, bounds, since, pages: PageSet::default(), runs_left: bounds.page_count, pace };
    if above.depth > 0 {
        shared.page(above.root, above.depth, false, true)?;
    }
    let Shared { pages, .. } = shared;
    not_shared(pager, bounds, state, &pages, pace)
}

fn not_shared(
    pager: &Pager,
    bounds: Bounds,
    state: &State,
    shared: &PageSet,
    pace: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Freed>> {
    let mut found = Vec::new();
    walk_states(pager, bounds, &[*state], &mut |page, pages| {
        if shared.contains(page.0) {
            return Ok(Visit::Skip);
        }
        // Its birth decides whether it is freed, so it is verified.
        pager.verified_run(page, bounds)?;
        let (birth, _) = pager.birth_and_pages(page);
        if birth > state.fork {
            found.push(Freed { page, pages, birth });
        }
        pace()?;
        Ok(Visit::Descend)
    })?;
    Ok(found)
}

/// The pages of a state that it may share with the one that it has come from: all that it reaches
/// down to the first that are not newer than `since`, and leaves of any age.
struct Shared<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    since: TxnId,
    pages: PageSet,
    runs_left: u32,
    pace: &'a mut dyn FnMut() -> Result<()>,
}

impl Shared<'_> {
    /// `large`: leaves refer to large values. `catalog`: they describe tables.
    fn page(&mut self, id: PageId, levels: u32, large: bool, catalog: bool) -> Result<()> {
        if id.0 >= self.bounds.page_count {
            return Err(Error::Corrupted { page: id, reason: "a page number lies beyond the end of the file" });
        }
        self.pages.insert(id.0);
        if levels == 1 && !large && !catalog {
            return Ok(());
        }
        // Verified before its birth is believed: what is left out here is freed.
        let node = self.pager.node(id, self.bounds)?;
        if self.pager.birth(id) <= self.since {
            return Ok(());
        }
        if u32::from(node.level()) + 1 != levels {
            return Err(Error::Corrupted { page: id, reason: "it is at another level than its tree says" });
        }
        self.runs_left = self
            .runs_left
            .checked_sub(1)
            .ok_or(Error::Corrupted { page: id, reason: "it is reached in more than one way" })?;
        (self.pace)()?;
        for index in 0..node.count() {
            match node.payload(index) {
                Payload::Child { page, .. } => self.page(page, levels - 1, large, catalog)?,
                Payload::Large { page, .. } if page.0 < self.bounds.page_count => _ = self.pages.insert(page.0),
                Payload::Large { page, .. } => {
                    let reason = "a large value lies beyond the end of the file";
                    return Err(Error::Corrupted { page, reason });
                }
                payload @ Payload::Inline(_) if catalog => {
                    let tree = Description::decode(payload)?.tree;
                    if tree.depth > 0 {
                        self.page(tree.root, tree.depth, tree.overflow_pages > 0, false)?;
                    }
                }
                Payload::Inline(_) => {}
            }
        }
        Ok(())
    }
}

/// Removes the runs that a pinned state reaches from `unused`, the free pages of a newer state, and
/// adds them to `seen`. A page of the pinned state that is not in `unused` is still in use, or was
/// removed for a newer pin, and so is everything below it. So the cost is that of what is found; of
/// leaves that refer to no other pages only the header is read.
///
/// If the pin came too late, some of its pages may have been reused by a transaction after the
/// pinned one, which the page's header shows. Then the result is an error, as for damage. The
/// caller keeps all writers out.
pub(crate) fn take_seen(
    pager: &Pager,
    pinned: &Root,
    page_count: u32,
    unused: &mut PageSet,
    seen: &mut Vec<Freed>,
) -> Result<()> {
    let mut torn = None;
    let visit = &mut |page: PageId, pages: u32, _: bool| {
        let run = page.0..page.0 + pages;
        if !unused.contains(page.0) {
            return false;
        }
        if !run.clone().all(|page| unused.contains(page)) {
            torn = Some(page);
            return false;
        }
        run.for_each(|page| _ = unused.remove(page));
        let (birth, _) = pager.birth_and_pages(page);
        seen.push(Freed { page, pages, birth: birth.min(pinned.txn) });
        true
    };
    let bounds = Bounds { page_count, newest: pinned.txn, steady: TxnId(0) };
    let states = states(pager, bounds, pinned, true)?;
    Reach { pager, bounds, runs_left: page_count, old: true, fork: TxnId(0), visit }.states(&states)?;
    let torn = torn.map(|page| Error::Corrupted { page, reason: "part of its run is in use by others" });
    torn.map_or(Ok(()), Err)
}
