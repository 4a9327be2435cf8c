//! Sets of columns, as transactions remember what they looked at.

/// A set of a row's columns in a word: exact for the first 63, one bit for all others together.
///
/// Telling too many columns apart only costs a transaction that could have committed, so a row of
/// hundreds of columns needs no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// No column: only whether the row is there.
    pub const NONE: Self = Self(0);
    /// All columns.
    pub const ALL: Self = Self(u64::MAX);

    /// One column, counted from 0.
    #[must_use]
    pub const fn one(index: usize) -> Self {
        Self(1 << if index < 63 { index } else { 63 })
    }

    /// Those in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds a column.
    pub fn insert(&mut self, index: usize) {
        *self = self.union(Self::one(index));
    }

    /// Whether the two have a column in common.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of the other's columns are in this.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        columns.into_iter().fold(Self::NONE, |set, index| set.union(Self::one(index)))
    }
}
