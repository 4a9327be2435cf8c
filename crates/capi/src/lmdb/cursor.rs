//! Cursors: where one stands.
//!
//! A cursor's place is an entry's key in its table. While nothing changes, `walk` stands there. After
//! a change by the transaction, through this cursor or elsewhere, it looks for its place again. When
//! its entry is removed, a cursor stands in front of the next entry, as LMDB's do: that entry is the
//! current one, and `MDB_NEXT` gives it.

use std::ptr;

use super::abi::{Code, MdbVal, Result};
use super::table::Walk;
use super::txn::Txn;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nowhere yet.
    Unset,
    /// On an entry.
    On,
    /// On the entry that followed a removed one: it is the next.
    Before,
    /// Behind the last entry, after one was removed.
    AtEnd,
    /// On the last value of its key, behind which one was removed.
    Behind,
}

/// Where the removal of entries leaves the cursors that stood on them.
pub(crate) struct AfterRemoval {
    standing: Standing,
    is_within_key: bool,
    tree_key: Vec<u8>,
}

impl AfterRemoval {
    /// Nothing is left: cursors stand nowhere, wherever they stood.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.standing == Standing::Unset
    }

    /// Looks for the neighbours of what was removed: an entry at `tree_key`, of a key.
    pub(crate) fn find(walk: &mut Walk, tree_key: &[u8], identity: &[u8], is_multi: bool) -> Result<Self> {
        let at = |standing, is_within_key, tree_key: &[u8]| {
            Ok(Self { standing, is_within_key, tree_key: tree_key.to_vec() })
        };
        if walk.view().is_empty() {
            // As if the cursors had just been opened.
            return at(Standing::Unset, false, &[]);
        }
        let found = walk.seek_tree(tree_key)?;
        if is_multi {
            if found && walk.has_identity(identity)? {
                return at(Standing::Before, true, walk.tree_key());
            }
            let has_before = if found { walk.prev()? } else { walk.last()? };
            if has_before && walk.has_identity(identity)? {
                return at(Standing::Behind, true, walk.tree_key());
            }
            walk.seek_tree(tree_key)?;
        }
        if found { at(Standing::Before, false, walk.tree_key()) } else { at(Standing::AtEnd, false, &[]) }
    }
}

/// A cursor of C.
pub(crate) struct CursorHandle {
    /// Null when its transaction has ended.
    pub(crate) txn: *mut Txn,
    pub(crate) dbi: u32,
    pub(crate) standing: Standing,
    pub(crate) walk: Option<Walk>,
    generation: u64,
    /// The place, if `is_spot_newer`.
    spot: Vec<u8>,
    is_spot_newer: bool,
    /// When it stands before an entry: whether that is of the same key as the removed one.
    pub(crate) is_within_key: bool,
    pub(crate) identity: Vec<u8>,
}

impl CursorHandle {
    pub(crate) fn new(dbi: u32) -> Self {
        Self {
            txn: ptr::null_mut(),
            dbi,
            standing: Standing::Unset,
            walk: None,
            generation: 0,
            spot: Vec::new(),
            is_spot_newer: false,
            is_within_key: false,
            identity: Vec::new(),
        }
    }

    /// It stands nowhere any more.
    pub(crate) fn forget(&mut self) {
        self.standing = Standing::Unset;
        self.walk = None;
        self.is_spot_newer = false;
    }

    /// A place that the walk has not gone to counts no more.
    pub(crate) fn clear_spot(&mut self) {
        self.is_spot_newer = false;
    }

    pub(crate) fn leave_txn(&mut self) {
        self.forget();
        self.txn = ptr::null_mut();
    }

    /// Puts it on an entry that was just written.
    pub(crate) fn stand_on(&mut self, tree_key: &[u8]) {
        self.spot.clear();
        self.spot.extend_from_slice(tree_key);
        self.is_spot_newer = true;
        self.standing = Standing::On;
    }

    /// Puts it where the removal of its entry leaves it.
    pub(crate) fn stand_after_removal(&mut self, to: &AfterRemoval) {
        self.stand_on(&to.tree_key);
        (self.standing, self.is_within_key) = (to.standing, to.is_within_key);
    }

    /// Its entry has another key now.
    pub(crate) fn move_to(&mut self, tree_key: &[u8]) {
        self.spot.clear();
        self.spot.extend_from_slice(tree_key);
        self.is_spot_newer = true;
    }

    /// The key of its entry in the table.
    pub(crate) fn spot(&self) -> Option<&[u8]> {
        match (self.standing, &self.walk) {
            (Standing::Unset | Standing::AtEnd, _) => None,
            (_, Some(walk)) if !self.is_spot_newer => Some(walk.tree_key()),
            _ => Some(&self.spot),
        }
    }

    /// Gives the walk, at the cursor's place as of now; `None` if the database has no table yet.
    #[inline]
    pub(crate) fn current(&mut self, txn: &mut Txn) -> Result<Option<&mut Walk>> {
        if self.walk.is_none() || self.is_spot_newer || self.generation != txn.generation() {
            self.look_again(txn)?;
        }
        Ok(self.walk.as_mut())
    }

    #[cold]
    fn look_again(&mut self, txn: &mut Txn) -> Result<()> {
        if !matches!(self.standing, Standing::Unset | Standing::AtEnd)
            && !self.is_spot_newer
            && let Some(walk) = &self.walk
        {
            self.spot.clear();
            self.spot.extend_from_slice(walk.tree_key());
        }
        self.walk = txn.walk(self.dbi)?;
        self.generation = txn.generation();
        self.is_spot_newer = false;
        let Some(walk) = &mut self.walk else {
            self.standing = Standing::Unset;
            return Ok(());
        };
        match self.standing {
            Standing::Unset => {}
            Standing::AtEnd => _ = walk.last()? && walk.next()?,
            _ if !walk.seek_tree(&self.spot)? => self.standing = Standing::AtEnd,
            _ => {}
        }
        Ok(())
    }

    /// Key and value of the entry on which the walk stands; the cursor stands there from now on.
    #[inline]
    pub(crate) fn arrive(&mut self, txn: &mut Txn) -> Result<(MdbVal, MdbVal)> {
        self.standing = Standing::On;
        self.walk.as_ref().ok_or(Code::NOTFOUND)?.entry(&mut txn.arena)
    }
}
