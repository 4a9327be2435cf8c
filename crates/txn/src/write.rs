//! A change of one key, as a transaction keeps it until it commits.

use std::sync::Arc;

use colibri_storage::TxnId;
use smallvec::SmallVec;

use crate::columns::ColumnSet;
use crate::store::Patch;

/// A change of one key.
#[derive(Clone)]
pub(crate) enum Write {
    Put(Vec<u8>),
    Delete,
    /// In a box, for most changes are no patches, and there may be very many.
    Patch(Box<Patched>),
    /// The value of an entry that is appended to a series. The key is a place-holder.
    Append(Vec<u8>),
    /// The entries of a series below this number go, but never the last one. The key is a mark.
    Cut(i64),
}

/// Changes that are applied to the row as it will be at commit.
#[derive(Clone)]
pub(crate) struct Patched {
    pub(crate) patches: SmallVec<[Arc<dyn Patch>; 1]>,
    /// Columns that are added to without having been read.
    pub(crate) adds: ColumnSet,
    /// The row as the transaction sees it. `None` if its snapshot no longer has the row.
    pub(crate) image: Option<Vec<u8>>,
    /// The stored row that the image was made of.
    pub(crate) made_of: Option<StoredAt>,
}

impl Patched {
    /// The image, if it was made from a row of this state.
    pub(crate) fn image_at(&self, state: TxnId) -> Option<&[u8]> {
        self.image.as_deref().filter(|_| self.made_of.is_some_and(|made_of| made_of.state == state))
    }

    /// The image, if it was made from this row: the patches would make the same again. The caller
    /// has to hold a snapshot of this state.
    pub(crate) fn image_of(&self, state: TxnId, row: &[u8]) -> Option<&[u8]> {
        self.image.as_deref().filter(|_| self.made_of == Some(StoredAt::new(state, row)))
    }
}

/// Where a row lies in the map, in the state after a transaction of the storage. While a snapshot
/// of that state is held, newer states have nothing else in this place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredAt {
    state: TxnId,
    start: usize,
    bytes: usize,
}

/// What patches have made of a row, and of which row.
pub(crate) type Image = (Vec<u8>, StoredAt);

impl StoredAt {
    pub(crate) fn new(state: TxnId, row: &[u8]) -> Self {
        Self { state, start: row.as_ptr().addr(), bytes: row.len() }
    }
}

/// About what a change takes beside its key and value, in the log and in what finds it.
pub(crate) const WRITE_BYTES: usize = 96;

impl Write {
    pub(crate) fn bytes(&self, key: &[u8]) -> usize {
        WRITE_BYTES
            + key.len()
            + match self {
                Self::Put(value) | Self::Append(value) => value.len(),
                Self::Delete | Self::Cut(_) => 0,
                Self::Patch(patched) => 64 * patched.patches.len() + patched.image.as_ref().map_or(0, Vec::len),
            }
    }

    /// The value that the transaction sees.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Put(value) => Some(value),
            Self::Delete | Self::Append(_) | Self::Cut(_) => None,
            Self::Patch(patched) => patched.image.as_deref(),
        }
    }
}
