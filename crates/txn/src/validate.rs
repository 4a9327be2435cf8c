//! Checking whether what a transaction has read still holds in a newer state.
//!
//! A read holds if reading the same columns of the same keys now gives the same. The transaction's
//! snapshot is pinned, so none of its pages is reused. Therefore a page or a tree that the newer
//! state has as well is unchanged. Spaces with the same tree are skipped, and ranges are compared
//! only where the trees differ. Most keys need not even that: see [`recent`](crate::recent).
//!
//! Invariant: a read that does not hold is never taken to hold. The opposite is allowed: a value
//! that was written anew may count as changed if its layout is not known.

use std::ops::ControlFlow;

use colibri_storage::{Both, Error as StorageError, Snapshot, Table, View, WriteTxn};
use smallvec::SmallVec;

use crate::columns::ColumnSet;
use crate::error::{Error, Result};
use crate::reads::{Covered, ReadSet};
use crate::store::{Space, SpaceId};

/// A state of the database.
pub(crate) trait State {
    fn state_of(&self, table: &Table) -> colibri_storage::Result<View<'_>>;
}

impl State for Snapshot<'_> {
    fn state_of(&self, table: &Table) -> colibri_storage::Result<View<'_>> {
        self.view(table)
    }
}

impl State for WriteTxn {
    fn state_of(&self, table: &Table) -> colibri_storage::Result<View<'_>> {
        self.view(table)
    }
}

/// A space in both states.
enum Compared<'a> {
    NotYet,
    Same,
    Both(Box<(View<'a>, View<'a>)>),
}

/// Checks all reads; [`Error::Conflict`] if one does not hold. `old` finds a space in the state
/// that was read. `is_unchanged` knows of some keys that they are the same in both states.
pub(crate) fn validate<'a>(
    reads: &ReadSet,
    is_unchanged: impl Fn(SpaceId, &[u8]) -> bool,
    old: impl Fn(SpaceId) -> colibri_storage::Result<View<'a>>,
    new: &'a impl State,
) -> Result<()> {
    let mut spaces: SmallVec<[Compared<'a>; 4]> = (0..reads.spaces_count()).map(|_| Compared::NotYet).collect();
    for read in reads.reads() {
        let space = reads.space(read.space);
        if matches!(&read.covered, Covered::Point(key) if is_unchanged(space.id, key)) {
            continue;
        }
        let compared = &mut spaces[read.space as usize];
        if matches!(compared, Compared::NotYet) {
            *compared = compare(old(space.id)?, new, space.id)?;
        }
        let Compared::Both(views) = compared else { continue };
        let (old, new) = (&views.0, &views.1);
        let holds = match &read.covered {
            Covered::Point(key) => match old.get_both(new, key)? {
                Both::Same => true,
                Both::Apart(before, after) => same(space, read.columns, before, after),
            },
            Covered::Range(range) => {
                let (low, high) = range.bounds();
                let mut holds = true;
                old.diff(new, low, high, &mut |_, before, after| {
                    holds = same(space, read.columns, before, after);
                    if holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
                holds
            }
        };
        if !holds {
            return Err(Error::Conflict { space: space.id });
        }
    }
    Ok(())
}

fn compare<'a>(old: View<'a>, new: &'a impl State, space: SpaceId) -> Result<Compared<'a>> {
    let new = match new.state_of(old.table()) {
        Err(StorageError::NoSuchTable { .. }) => return Err(Error::Conflict { space }),
        new => new?,
    };
    Ok(if old.is_same_tree(&new) { Compared::Same } else { Compared::Both(Box::new((old, new))) })
}

/// Whether two versions of a row are the same in the given columns.
pub(crate) fn same(space: &Space, columns: ColumnSet, before: Option<&[u8]>, after: Option<&[u8]>) -> bool {
    match (before, after) {
        (None, None) => true,
        (Some(before), Some(after)) => {
            // The same place in the map is in the same page, which both states share.
            columns.is_empty()
                || std::ptr::eq(before, after)
                || before == after
                || space.layout.as_ref().is_some_and(|layout| !layout.changed(before, after).intersects(columns))
        }
        _ => false,
    }
}
