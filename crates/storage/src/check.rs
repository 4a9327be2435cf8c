//! `check`: everything there is to verify about a database's newest state.
//!
//! Each reached page: bounds, number, checksum, form. Each tree: levels, order of keys across
//! pages, separators, subtree counts, the sizes its description gives. Values: large ones whole.
//! Pages: none reached twice, none both reached and free, none lost.
//!
//! Branches share pages, so each page is checked with its owner (see `forest`), and forks are
//! checked before what starts from them. A page that a state shares has to be one that its fork
//! reaches.

use std::collections::HashMap;

use crate::catalog::{Description, TableKind};
use crate::composite;
use crate::db::{Core, Database};
use crate::meta::{Meta, MetaFault};
use crate::node::{Node, Payload};
use crate::page::{PageId, TxnId};
use crate::page_set::PageSet;
use crate::pager::Bounds;
use crate::root::Tree;
use crate::snapshot::Snapshot;
use crate::space::Space;
use crate::tree::large_pages;
use crate::{Error, Result, TableStat};

mod branches;

/// The number of problems after which the check stops collecting.
const PROBLEMS_MAX: usize = 100;

/// So often a steady point is made, until nobody commits before it is looked at.
const SYNC_TRIES: u32 = 10;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The state that was checked.
    pub txn: TxnId,
    /// Pages that the state uses.
    pub pages_reached: u64,
    /// Pages that are free, if `free_checked`.
    pub pages_free: u64,
    /// Whether free space was verified. The free map is written at steady points only, so it cannot
    /// be compared with a newer state. `Database::sync` makes a steady point.
    pub free_checked: bool,
    /// Branches, the main one included.
    pub branches: u64,
    /// Entries in all tables of the main branch.
    pub entries: u64,
    /// Tables of the main branch.
    pub tables: u64,
    /// What is wrong, a sentence each; at most 100.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text);
        }
    }
}

impl Database {
    /// Verifies the newest committed state. Writers of other processes may go on; a writer of this
    /// one waits.
    ///
    /// Damage is told in the report; an error means that checking itself failed.
    pub fn check(&self) -> Result<CheckReport> {
        let core = &self.0.core;
        // Free space is compared at a steady point. Without one, the free space in memory is used
        // instead.
        let mut report = CheckReport::default();
        let mut tries_left = SYNC_TRIES;
        let work = loop {
            tries_left -= 1;
            if !core.is_read_only() {
                match core.sync() {
                    Err(e @ Error::Corrupted { .. }) => {
                        report.problem(format!("no steady point can be made: {e}"));
                        tries_left = 0;
                    }
                    result => result?,
                }
            }
            let work = core.workspace().lock();
            // Others may have committed in between.
            if tries_left == 0 || core.is_read_only() || core.shared.root().txn == core.shared.steady() {
                break work;
            }
        };
        let (steady, fault) = match Snapshot::steady(self.0.main(), |meta| Space::load(&core.pager, meta)) {
            Ok((steady, _, space)) => ((steady.txn() == core.shared.visible()).then_some((steady, space)), None),
            Err(e @ Error::Corrupted { .. }) => (None, Some(e)),
            Err(e) => return Err(e),
        };
        let (snapshot, space) = match steady {
            Some((steady, space)) => (steady, Some(space)),
            None => (Snapshot::borrowed(self.0.main())?, None),
        };
        core.pager.forget_verified(snapshot.bounds().page_count);
        let bounds = snapshot.bounds();
        let mut check = Check {
            core,
            bounds,
            report: CheckReport { txn: snapshot.txn(), ..report },
            reached: PageSet::default(),
            shares: false,
            fork: TxnId(0),
            reachable: PageSet::default(),
            below: HashMap::new(),
        };
        check.meta_pages();
        let complete = check.states(&snapshot.root());
        if let Some(space) = space.filter(|_| complete) {
            check.report.free_checked = true;
            check.free_space(space);
        }
        if let Some(e) = fault {
            check.report.problem(e.to_string());
        }
        drop(work);
        check.report.pages_reached = u64::from(check.reached.len()) + 2;
        Ok(check.report)
    }
}

struct Check<'a> {
    core: &'a Core,
    bounds: Bounds,
    report: CheckReport,
    /// All pages that were checked.
    reached: PageSet,
    /// The file has branches, so pages may be shared.
    shares: bool,
    /// The fork that the state under check starts from, and what that reaches.
    fork: TxnId,
    reachable: PageSet,
    /// What is below the branches of trees that were checked, where they may be shared.
    below: HashMap<PageId, Tree>,
}

impl Check<'_> {
    fn reach(&mut self, page: PageId, pages: u32) -> bool {
        for page in page.0..page.0.saturating_add(pages) {
            if !self.reached.insert(page) {
                self.report.problem(format!("page {page} is used twice"));
                return false;
            }
        }
        true
    }

    fn meta_pages(&mut self) {
        for slot in 0..2 {
            match Meta::decode(self.core.pager.raw(PageId(slot), 1), slot) {
                Ok(_) => {}
                Err(MetaFault::Damaged(reason)) => self.report.problem(format!("meta page {slot}: {reason}")),
                Err(_) => self.report.problem(format!("meta page {slot} is none")),
            }
        }
    }

    /// Whether a state shares a page with its fork.
    fn is_shared(&mut self, what: &str, page: PageId) -> bool {
        let shared = self.fork > TxnId(0) && self.core.pager.birth(page) <= self.fork;
        if shared && !self.reachable.contains(page.0) {
            let fork = self.fork.0;
            self.report.problem(format!("{what}: page {page} is older than fork {fork}, which does not reach it"));
        }
        shared
    }

    /// `of`: whose it is, for reports.
    fn catalog(&mut self, of: &str, catalog: &Tree) {
        let mut tables = Vec::new();
        self.tree(&format!("the catalogue{of}"), catalog, &mut |name, payload, report| {
            let text = String::from_utf8_lossy(name).into_owned();
            if std::str::from_utf8(name).is_err() {
                report.problem(format!("the name of table {text:?} is not text"));
            }
            match Description::decode(payload) {
                Ok(found) => tables.push((text, found)),
                Err(e) => report.problem(format!("the catalogue's entry {text:?}: {e}")),
            }
        });
        for (name, found) in tables {
            let mut scratch = Vec::new();
            self.tree(&format!("table {name:?}{of}"), &found.tree, &mut |key, _, report| match found.kind {
                TableKind::Integer if key.len() != 8 => {
                    report.problem(format!("table {name:?} has a key of {} bytes", key.len()))
                }
                TableKind::Multi if composite::decode(key, &mut scratch).is_none() => {
                    report.problem(format!("table {name:?} has a malformed pair"));
                }
                _ => {}
            });
        }
    }

    fn tree(&mut self, what: &str, tree: &Tree, on_entry: &mut dyn FnMut(&[u8], Payload<'_>, &mut CheckReport)) {
        let mut seen = Tree { root: tree.root, depth: tree.depth, ..Tree::default() };
        if tree.depth > 0 {
            let mut last_key = None;
            self.subtree(what, tree.root, tree.depth, &mut last_key, None, &mut seen, on_entry);
        }
        let sizes = [
            ("entries", tree.entries, seen.entries),
            ("leaf pages", tree.leaf_pages, seen.leaf_pages),
            ("branch pages", tree.branch_pages, seen.branch_pages),
            ("overflow pages", tree.overflow_pages, seen.overflow_pages),
        ];
        for (unit, described, found) in sizes.into_iter().filter(|(_, described, found)| described != found) {
            self.report.problem(format!("{what} is described with {described} {unit} and has {found}"));
        }
    }

    /// Checks a subtree whose keys must be above `last_key` and below `end`; returns how many
    /// entries it has.
    #[expect(clippy::too_many_arguments, reason = "the state of one recursion, each part with its own lifetime")]
    fn subtree(
        &mut self,
        what: &str,
        id: PageId,
        levels: u32,
        last_key: &mut Option<Vec<u8>>,
        end: Option<&[u8]>,
        seen: &mut Tree,
        on_entry: &mut dyn FnMut(&[u8], Payload<'_>, &mut CheckReport),
    ) -> u64 {
        let core = self.core;
        let node: Node<'_> = match core.pager.node(id, self.bounds) {
            Ok(node) => node,
            Err(e) => {
                self.report.problem(format!("{what}: {e}"));
                // It is in use, whatever is in it.
                let _ = id.0 >= self.bounds.page_count || self.reach(id, 1);
                return 0;
            }
        };
        let shared = self.is_shared(what, id);
        if !shared && !self.reach(id, node.pages()) {
            return 0;
        }
        if u32::from(node.level()) + 1 != levels || node.count() == 0 {
            self.report.problem(format!(
                "{what}: page {id} is at level {} with {} entries",
                node.level(),
                node.count()
            ));
            return 0;
        }
        if node.is_leaf() {
            seen.leaf_pages += u64::from(node.pages());
            self.leaf(what, id, node, shared, last_key, end, seen, on_entry);
            return node.count() as u64;
        }
        if shared {
            return self.shared_branch(what, id, last_key, end, seen);
        }
        let before = *seen;
        seen.branch_pages += 1;
        let mut total = 0;
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for index in 0..node.count() {
            let child_end = if index + 1 < node.count() {
                node.key_into(index + 1, &mut high);
                Some(high.as_slice())
            } else {
                end
            };
            if index > 0 {
                node.key_into(index, &mut low);
                if last_key.as_ref().is_some_and(|last| *last >= low) {
                    self.report
                        .problem(format!("{what}: separator {index} of page {id} is not above the keys before it"));
                }
            }
            let count = self.subtree(what, node.child(index), levels - 1, last_key, child_end, seen, on_entry);
            if count != node.child_count(index) {
                self.report.problem(format!(
                    "{what}: page {id} counts {} below child {index}, which has {count}",
                    node.child_count(index)
                ));
            }
            total += count;
            // A child's first key must not be below its separator. The leaf that the child starts
            // with is held to that.
            if index > 0 && self.first_key(node.child(index)).is_some_and(|first| first < low) {
                self.report.problem(format!("{what}: child {index} of page {id} starts below its separator"));
            }
        }
        if self.shares {
            let below = Tree {
                entries: total,
                leaf_pages: seen.leaf_pages - before.leaf_pages,
                branch_pages: seen.branch_pages - before.branch_pages,
                overflow_pages: seen.overflow_pages - before.overflow_pages,
                ..*seen
            };
            self.below.insert(id, below);
        }
        total
    }

    /// A branch that was checked where its owner reaches it. What is below it has to fit where it
    /// is reached from now.
    fn shared_branch(
        &mut self,
        what: &str,
        id: PageId,
        last_key: &mut Option<Vec<u8>>,
        end: Option<&[u8]>,
        seen: &mut Tree,
    ) -> u64 {
        let Some(below) = self.below.get(&id).copied() else {
            self.report.problem(format!("{what}: page {id} is shared with a state that does not have it"));
            return 0;
        };
        let (first, last) = (self.first_key(id), self.last_key(id));
        if *last_key >= first || end.is_some_and(|end| last.as_deref() >= Some(end)) {
            self.report.problem(format!("{what}: what is below page {id} is out of order"));
        }
        *last_key = last;
        seen.entries += below.entries;
        seen.leaf_pages += below.leaf_pages;
        seen.branch_pages += below.branch_pages;
        seen.overflow_pages += below.overflow_pages;
        below.entries
    }

    fn first_key(&self, id: PageId) -> Option<Vec<u8>> {
        self.outer_key(id, |_| 0)
    }

    fn last_key(&self, id: PageId) -> Option<Vec<u8>> {
        self.outer_key(id, |node| node.count().saturating_sub(1))
    }

    /// The first or the last key below a page.
    fn outer_key(&self, id: PageId, index: fn(Node<'_>) -> usize) -> Option<Vec<u8>> {
        let mut node = self.core.pager.node(id, self.bounds).ok()?;
        while !node.is_leaf() {
            let below = self.core.pager.node(node.child(index(node)), self.bounds).ok()?;
            if below.level() >= node.level() {
                return None;
            }
            node = below;
        }
        let mut key = Vec::new();
        (node.count() > 0).then(|| node.key_into(index(node), &mut key))?;
        Some(key)
    }

    #[expect(clippy::too_many_arguments, reason = "as for subtree")]
    fn leaf(
        &mut self,
        what: &str,
        id: PageId,
        node: Node<'_>,
        shared: bool,
        last_key: &mut Option<Vec<u8>>,
        end: Option<&[u8]>,
        seen: &mut Tree,
        on_entry: &mut dyn FnMut(&[u8], Payload<'_>, &mut CheckReport),
    ) {
        let core = self.core;
        let mut key = Vec::new();
        for index in 0..node.count() {
            node.key_into(index, &mut key);
            if last_key.as_ref().is_some_and(|last| *last >= key) || end.is_some_and(|end| key.as_slice() >= end) {
                self.report.problem(format!("{what}: entry {index} of page {id} is out of order"));
            }
            match last_key {
                Some(last) => last.clone_from(&key),
                None => *last_key = Some(key.clone()),
            }
            if let Payload::Large { page, bytes } = node.payload(index) {
                let pages = large_pages(&core.pager, bytes);
                seen.overflow_pages += pages;
                match core.pager.large(page, bytes, self.bounds) {
                    Ok(_) if shared || self.is_shared(what, page) => {}
                    Ok(_) => _ = self.reach(page, pages as u32),
                    Err(e) => self.report.problem(format!("{what}: {e}")),
                }
            }
            on_entry(&key, node.payload(index), &mut self.report);
        }
        seen.entries += node.count() as u64;
    }

    /// Compares what is reached with what the steady point says is free.
    fn free_space(&mut self, space: Result<Space>) {
        let space = match space {
            Ok(space) => space,
            Err(e) => return self.report.problem(format!("the free map: {e}")),
        };
        for (page, pages) in space.free_map_runs() {
            self.reach(page, pages);
        }
        self.report.pages_free = u64::from(space.free_at_steady().len());
        for page in 2..space.page_count() {
            match (self.reached.contains(page), space.free_at_steady().contains(page)) {
                (true, true) => self.report.problem(format!("page {page} is in use and listed as free")),
                (false, false) => self.report.problem(format!("page {page} is neither in use nor free")),
                _ => {}
            }
        }
    }
}

/// The size and shape of every table, by name.
pub(crate) fn table_stats(database: &Database) -> Result<Vec<(String, TableStat)>> {
    let snapshot = database.read()?;
    let tables = snapshot.tables()?;
    tables.iter().map(|table| Ok((table.name().to_owned(), snapshot.view(table)?.stat()))).collect()
}
