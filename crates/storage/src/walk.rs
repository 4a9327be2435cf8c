//! Walking everything a root reaches: what `check`, `copy` and the handover between processes have
//! in common.

use std::collections::HashSet;

use crate::catalog::Description;
use crate::node::{Node, Payload};
use crate::page::{PageId, TxnId};
use crate::page_set::PageSet;
use crate::pager::{Bounds, Pager};
use crate::root::Root;
use crate::root::Tree;
use crate::space::Freed;
use crate::tree::large_pages;
use crate::{Error, Result};

/// Whether to visit what is below a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    Descend,
    Skip,
}

/// Calls `visit` for every page of a catalogue and of its tables: tree pages before what is below
/// them, and large values with the pages of their run.
pub(crate) fn walk(
    pager: &Pager,
    bounds: Bounds,
    catalog: &Tree,
    visit: &mut dyn FnMut(PageId, u32) -> Result<Visit>,
) -> Result<()> {
    if catalog.depth == 0 {
        return Ok(());
    }
    let mut runs_left = bounds.page_count;
    // Each page has one parent. More visits than pages would mean a second way to some page, and
    // perhaps a circle.
    let visit: OnPage<'_> = &mut |page, pages| {
        runs_left =
            runs_left.checked_sub(1).ok_or(Error::Corrupted { page, reason: "it is reached in more than one way" })?;
        visit(page, pages)
    };
    walk_tree(pager, bounds, catalog.root, catalog.depth, visit, &mut |node: Node<'_>, visit| {
        for index in 0..node.count() {
            let table = Description::decode(node.payload(index))?;
            if table.tree.depth > 0 {
                walk_tree(pager, bounds, table.tree.root, table.tree.depth, visit, &mut |_, _| Ok(()))?;
            }
        }
        Ok(())
    })
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
                visit(page, large_pages(pager, bytes) as u32)?;
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

/// Compares two states of the same database. A page that is not newer than the steady point is
/// shared with everything below it, so the cost is that of the changes in between.
pub(crate) fn difference(pager: &Pager, bounds: Bounds, steady: TxnId, old: &Tree, new: &Tree) -> Result<Difference> {
    let mut shared = HashSet::new();
    let mut live = Vec::new();
    walk(pager, bounds, new, &mut |page, pages| {
        let (birth, _) = pager.birth_and_pages(page);
        if birth <= steady {
            shared.insert(page);
            return Ok(Visit::Skip);
        }
        // Pages that will be sealed must be what the tree says. Pages that are read below are
        // verified anyway.
        pager.verified_run(page, bounds)?;
        live.push((page, pages));
        Ok(Visit::Descend)
    })?;
    let mut freed = Vec::new();
    walk(pager, bounds, old, &mut |page, pages| {
        if shared.contains(&page) {
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
    /// Called with each run, and whether it is a page that is read; says whether to go on below it.
    visit: &'a mut dyn FnMut(PageId, u32, bool) -> bool,
}

impl Reach<'_> {
    fn visit(&mut self, page: PageId, pages: u32, read: bool) -> Result<bool> {
        if u64::from(page.0) + u64::from(pages) > u64::from(self.bounds.page_count) {
            return Err(Error::Corrupted { page, reason: "a page number lies beyond the end of the file" });
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

/// How many pages a state reaches that a newer one does not. Both are pinned, so a page that both
/// reach is unchanged, with everything below it. The cost is that of the changes in between.
pub(crate) fn pages_gone(pager: &Pager, old: (Bounds, Tree), new: (Bounds, Tree)) -> Result<u64> {
    let reach = |(bounds, catalog): (Bounds, Tree), old, visit: &mut dyn FnMut(PageId, u32, bool) -> bool| {
        let mut reach = Reach { pager, bounds, runs_left: bounds.page_count, old, visit };
        if catalog.depth > 0 { reach.page(catalog.root, catalog.depth, false, true) } else { Ok(()) }
    };
    let mut newest = PageSet::default();
    reach(new, false, &mut |page, pages, read| {
        (page.0..page.0 + pages).for_each(|page| _ = newest.insert(page));
        !read || pager.birth_and_pages(page).0 > old.0.newest
    })?;
    let mut gone = 0;
    reach(old, true, &mut |page, pages, _| {
        let only_old = !newest.contains(page.0);
        gone += if only_old { u64::from(pages) } else { 0 };
        only_old
    })?;
    Ok(gone)
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
    let mut reach = Reach { pager, bounds, runs_left: page_count, old: true, visit };
    if pinned.catalog.depth > 0 {
        reach.page(pinned.catalog.root, pinned.catalog.depth, false, true)?;
    }
    let torn = torn.map(|page| Error::Corrupted { page, reason: "part of its run is in use by others" });
    torn.map_or(Ok(()), Err)
}
