//! Branches, as callers see them: databases of their own inside one file, which share every page
//! that none of them has changed.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use colibri_storage::{Database, Options, TableKind};
//! let db = Database::open(dir.path(), &Options::new())?;
//! let mut txn = db.write()?;
//! let birds = txn.create_table("birds", TableKind::Plain)?;
//! txn.put(&birds, b"colibri", b"80 beats a second")?;
//! txn.commit()?;
//!
//! let test = db.branch("test")?;
//! let mut txn = test.write()?;
//! txn.delete(&birds, b"colibri")?;
//! txn.commit()?;
//! assert_eq!(test.read()?.get(&birds, b"colibri")?, None);
//! assert_eq!(db.read()?.get(&birds, b"colibri")?, Some(&b"80 beats a second"[..]));
//!
//! db.reset_branch("test")?;
//! assert_eq!(test.read()?.get(&birds, b"colibri")?, Some(&b"80 beats a second"[..]));
//! db.drop_branch("test")?;
//! assert!(test.read().is_err());
//! # Ok::<(), colibri_storage::Error>(())
//! ```
//!
//! A handle of a branch is a [`Database`] like that of the main one. Snapshots and transactions are
//! of its branch. What concerns the file is the same through any handle: steady points, transaction
//! numbers, the one write transaction at a time, snapshots that hold back space, checking, backups.

use std::sync::Arc;

use crate::catalog::{Description, Found};
use crate::cursor::RawCursor;
use crate::db::{Database, Handle};
use crate::forest::{BranchId, Forest, MAIN_NAME, State, Stem, states};
use crate::node::Payload;
use crate::page::{PageId, TxnId};
use crate::pager::{Bounds, Pager};
use crate::root::{Root, Tree};
use crate::snapshot::Snapshot;
use crate::txn::WriteTxn;
use crate::walk;
use crate::{Error, Result};

/// What a handle of a branch knows of it.
pub(crate) struct OpenBranch {
    id: BranchId,
    name: String,
    main: Arc<Handle>,
    /// Where the branch's catalogue was found last.
    found: Found,
}

impl OpenBranch {
    pub(crate) fn main(&self) -> &Handle {
        &self.main
    }

    pub(crate) fn id(&self) -> BranchId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The branch's catalogue in a state of the file.
    pub(crate) fn catalog(&self, pager: &Pager, bounds: Bounds, root: &Root) -> Result<Tree> {
        // Branches do not share what a handle has found, so any number of an opening will do.
        if let Some(catalog) = self.found.get(1, root.txn) {
            return Ok(catalog);
        }
        let missing = || Error::NoSuchBranch { name: self.name.clone() };
        if root.forest == PageId::NONE {
            return Err(missing());
        }
        let found = Forest::of(pager, bounds, root.forest)?.branch(pager, bounds, self.id)?;
        let catalog = found.filter(|branch| !branch.dropped).ok_or_else(missing)?.catalog;
        self.found.set(1, root.txn, catalog);
        Ok(catalog)
    }
}

/// A branch, as [`Database::branches`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchInfo {
    /// Its number, which no other branch of the file ever has.
    pub id: BranchId,
    /// Its name.
    pub name: String,
    /// The name of the branch that it was made from; `None` for the main branch, and if that one
    /// was dropped.
    pub origin: Option<String>,
    /// The transaction that made it; 0 for the main branch.
    pub made: TxnId,
}

/// How much of the file a branch has, as [`Database::branch_stats`] counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchStat {
    /// The branch.
    pub info: BranchInfo,
    /// Bytes of pages that it shares with no other branch. As many are free when it was dropped and
    /// its pages were given back.
    pub own_bytes: u64,
    /// Bytes of pages that it shares with the state that it was made from.
    pub shared_bytes: u64,
    /// Tables in it.
    pub tables: u64,
    /// Entries in all of its tables.
    pub entries: u64,
}

impl Database {
    /// The handle of the main branch.
    pub(crate) fn main(&self) -> Self {
        Self(self.0.main().to_arc())
    }

    pub(crate) fn branch_id(&self) -> BranchId {
        self.0.branch.as_ref().map_or(BranchId::MAIN, OpenBranch::id)
    }

    /// The name of the branch that this handle is of: `main`, if not another one.
    #[must_use]
    pub fn branch_name(&self) -> &str {
        self.0.branch.as_ref().map_or(MAIN_NAME, OpenBranch::name)
    }

    /// The handle of a branch; of the main one if it is that.
    pub(crate) fn handle_of(&self, id: BranchId, name: &str) -> Self {
        if id == BranchId::MAIN {
            return self.main();
        }
        let (main, core) = (self.0.main().to_arc(), Arc::clone(&self.0.core));
        Self(Handle::new(core, Some(OpenBranch { id, name: name.to_owned(), main, found: Found::default() })))
    }

    /// Makes a branch of the newest committed state of this one, and opens it. It costs a few
    /// pages, whatever the size, and is as durable as a commit. In a file that has no branches yet,
    /// it waits for a steady point, unless the mode makes none by itself.
    ///
    /// # Errors
    /// [`Error::BranchExists`]; [`Error::BranchName`] if the name is empty or has more than
    /// [`crate::BRANCH_NAME_BYTES_MAX`] bytes; those of a commit.
    pub fn branch(&self, name: &str) -> Result<Self> {
        let origin = self.branch_id();
        let mut txn = self.main().write()?;
        self.ensure_there(&txn)?;
        let id = txn.make_branch(name, origin)?;
        txn.commit()?;
        Ok(self.handle_of(id, name))
    }

    /// Opens a branch. An open branch costs some memory and nothing else; there can be any number
    /// of handles of one.
    ///
    /// # Errors
    /// [`Error::NoSuchBranch`].
    pub fn open_branch(&self, name: &str) -> Result<Self> {
        if name == MAIN_NAME {
            return Ok(self.main());
        }
        let found = self.forest(|pager, bounds, _, forest| forest.named(pager, bounds, name))?;
        let id = found.ok_or_else(|| Error::NoSuchBranch { name: name.to_owned() })?;
        Ok(self.handle_of(id, name))
    }

    /// All branches of the newest committed state, the main one first, the others by name.
    pub fn branches(&self) -> Result<Vec<BranchInfo>> {
        self.forest(|pager, bounds, _, forest| list(pager, bounds, forest))
    }

    /// Drops a branch. Its name is free at once, and its pages are given back in the background
    /// ([`Database::reap_branches`] waits for that). Handles of it are of no use from now on;
    /// snapshots go on.
    ///
    /// # Errors
    /// [`Error::NoSuchBranch`]; [`Error::MainBranch`]; those of a commit.
    pub fn drop_branch(&self, name: &str) -> Result<()> {
        if name == MAIN_NAME {
            return Err(Error::MainBranch);
        }
        self.change_branch(name, |txn, id| txn.drop_branch(id))
    }

    /// Gives a branch the newest committed state of this one: what it had is given up as if it had
    /// been dropped, and handles of it go on.
    ///
    /// # Errors
    /// [`Error::NoSuchBranch`]; those of a commit.
    pub fn reset_branch(&self, name: &str) -> Result<()> {
        self.change_branch(name, |txn, id| {
            self.ensure_there(txn)?;
            txn.reset_branch(id, self.branch_id())
        })
    }

    /// Refuses to go on if this branch was dropped.
    pub(crate) fn ensure_there(&self, txn: &WriteTxn) -> Result<()> {
        match txn.has_branch(self.branch_id())? {
            true => Ok(()),
            false => Err(Error::NoSuchBranch { name: self.branch_name().to_owned() }),
        }
    }

    fn change_branch(&self, name: &str, change: impl FnOnce(&mut WriteTxn, BranchId) -> Result<()>) -> Result<()> {
        let mut txn = self.main().write()?;
        let id = if name == MAIN_NAME { Some(BranchId::MAIN) } else { txn.branch_named(name)? };
        change(&mut txn, id.ok_or_else(|| Error::NoSuchBranch { name: name.to_owned() })?)?;
        txn.commit()?;
        if self.0.core.agreement.is_none() { self.0.ask_for_reaping() } else { Ok(()) }
    }

    /// Gives back the pages of dropped branches on this thread, as fast as it can, instead of
    /// waiting for the background to do it: how many branches, and states that branches were made
    /// from, were given back. The pages are free when no snapshot and no steady point needs them
    /// any more.
    pub fn reap_branches(&self) -> Result<u64> {
        let core = &self.0.core;
        if core.agreement.is_some() || self.0.core.shared.root().forest == PageId::NONE {
            return Ok(0);
        }
        core.reap_all(false, &|| false)
    }

    /// Snapshots of several branches of this file, given by their handles, as of the same
    /// transaction.
    ///
    /// # Panics
    /// If a handle is of another opening.
    pub fn read_branches(&self, branches: &[&Self]) -> Result<Vec<Snapshot<'static>>> {
        let file = Snapshot::owned(self.0.main().to_arc())?;
        let one = |branch: &&Self| {
            assert!(Arc::ptr_eq(&branch.0.core, &self.0.core), "a branch of another database");
            file.on_branch(branch)
        };
        branches.iter().map(one).collect()
    }

    /// How much of the file each branch has. Costs reading the branches' trees, down to what they
    /// share.
    pub fn branch_stats(&self) -> Result<Vec<BranchStat>> {
        self.forest(|pager, bounds, root, forest| {
            let page_bytes = pager.page_size() as u64;
            let states = states(pager, bounds, root, false)?;
            let find = |id| states.iter().find(|state| state.stem == Some(Stem::Branch(id)));
            let stat = |info: BranchInfo| {
                let missing = || Error::NoSuchBranch { name: info.name.clone() };
                let state = find(info.id).ok_or_else(missing)?;
                let own = walk::owned(pager, bounds, state, &mut || Ok(()))?;
                let own_bytes = own.iter().map(|run| u64::from(run.pages) * page_bytes).sum();
                let (mut pages, mut tables, mut entries) = (tree_pages(&state.catalog), 0, 0_u64);
                each_table(pager, bounds, state, |tree| {
                    pages = pages.saturating_add(tree_pages(tree));
                    entries = entries.saturating_add(tree.entries);
                    tables += 1;
                })?;
                let shared_bytes = (pages * page_bytes).saturating_sub(own_bytes);
                Ok(BranchStat { info, own_bytes, shared_bytes, tables, entries })
            };
            list(pager, bounds, forest)?.into_iter().map(stat).collect()
        })
    }

    /// As [`Database::branches`], in the state that a snapshot of the main branch sees.
    pub(crate) fn branches_of(&self, snapshot: &Snapshot<'_>) -> Result<Vec<BranchInfo>> {
        let (pager, bounds) = (&self.0.core.pager, snapshot.bounds());
        list(pager, bounds, &Forest::of(pager, bounds, snapshot.root().forest)?)
    }

    /// Looks at the forest of the newest committed state.
    pub(crate) fn forest<T>(&self, look: impl FnOnce(&Pager, Bounds, &Root, &Forest) -> Result<T>) -> Result<T> {
        let snapshot = Snapshot::weak(self.0.main().to_arc())?;
        let (pager, bounds, root) = (&snapshot.core().pager, snapshot.bounds(), snapshot.root());
        look(pager, bounds, &root, &Forest::of(pager, bounds, root.forest)?)
    }
}

fn list(pager: &Pager, bounds: Bounds, forest: &Forest) -> Result<Vec<BranchInfo>> {
    let main = BranchInfo { id: BranchId::MAIN, name: MAIN_NAME.to_owned(), origin: None, made: TxnId(0) };
    let mut infos = vec![main];
    for (name, id) in forest.names(pager, bounds)? {
        let missing = || Error::Corrupted { page: forest.page(), reason: "a name is of no branch" };
        let branch = forest.branch(pager, bounds, id)?.ok_or_else(missing)?;
        let origin = match branch.origin {
            BranchId::MAIN => Some(MAIN_NAME.to_owned()),
            origin => forest.branch(pager, bounds, origin)?.filter(|origin| !origin.dropped).map(|origin| origin.name),
        };
        infos.push(BranchInfo { id, name, origin, made: TxnId(id.0) });
    }
    Ok(infos)
}

fn each_table(pager: &Pager, bounds: Bounds, state: &State, mut visit: impl FnMut(&Tree)) -> Result<()> {
    let mut cursor = RawCursor::new(pager, bounds, state.catalog);
    let mut valid = cursor.first()?;
    while valid {
        visit(&Description::decode(Payload::Inline(cursor.value()?))?.tree);
        valid = cursor.next()?;
    }
    Ok(())
}

fn tree_pages(tree: &Tree) -> u64 {
    tree.leaf_pages.saturating_add(tree.branch_pages).saturating_add(tree.overflow_pages)
}
