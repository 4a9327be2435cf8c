//! The tables that a transaction has found, in its snapshot or in an earlier one.
//!
//! A table handle remembers only where it was last found, and all threads share it. A transaction
//! that looks at an old state and a new one in turn would have the handle forget each for the
//! other. So a transaction keeps what it has found here.

use colibri_storage::{Error as StorageError, OpenTable, Snapshot, Table, View};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::local::Shared;
use crate::store::SpaceId;

/// What went wrong with a space: above all, that there is none.
#[cold]
pub(crate) fn in_space(space: SpaceId, error: StorageError) -> Error {
    match error {
        StorageError::NoSuchTable { .. } => Error::NoSuchSpace { space },
        error => error.into(),
    }
}

/// The spaces that a transaction has used.
#[derive(Default)]
pub(crate) struct OpenSpaces(SmallVec<[(SpaceId, OpenTable); 4]>);

impl OpenSpaces {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, space: SpaceId) -> Option<&OpenTable> {
        self.0.iter().find(|(id, _)| *id == space).map(|(_, open)| open)
    }

    /// The space, if it was found in this state.
    #[inline]
    pub(crate) fn found_in(&self, snapshot: &Snapshot<'_>, space: SpaceId) -> Option<&OpenTable> {
        self.get(space).filter(|open| open.txn() == snapshot.txn())
    }

    /// Makes sure that a stored space has been found in this state.
    pub(crate) fn open(&mut self, shared: &Shared, snapshot: &Snapshot<'_>, space: SpaceId) -> Result<()> {
        if let Some((_, open)) = self.0.iter_mut().find(|(id, _)| *id == space) {
            if open.txn() != snapshot.txn() {
                snapshot.reopen(open).map_err(|e| in_space(space, e))?;
            }
            return Ok(());
        }
        let table = shared.table(space, |name| snapshot.table(name)).map_err(|e| in_space(space, e))?;
        self.0.push((space, snapshot.open(&table).map_err(|e| in_space(space, e))?));
        Ok(())
    }

    /// The handle of a space, found with `find` if nobody has used it yet.
    pub(crate) fn table(
        &self,
        shared: &Shared,
        space: SpaceId,
        find: impl FnOnce(&str) -> colibri_storage::Result<Table>,
    ) -> colibri_storage::Result<Table> {
        match self.get(space) {
            Some(open) => Ok(open.table().clone()),
            None => shared.table(space, find),
        }
    }

    /// A stored space in the state of a transaction's snapshot.
    pub(crate) fn view<'a>(
        &self,
        shared: &Shared,
        snapshot: &'a Snapshot<'_>,
        space: SpaceId,
    ) -> colibri_storage::Result<View<'a>> {
        match self.found_in(snapshot, space) {
            Some(open) => Ok(snapshot.view_open(open)),
            None => snapshot.view(&self.table(shared, space, |name| snapshot.table(name))?),
        }
    }
}
