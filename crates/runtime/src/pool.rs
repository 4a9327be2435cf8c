//! Pools: what a task is for, and so when it runs.
//!
//! Invariants
//! - A lower number goes first. The order is part of the interface.
//!
//! Not here: threads. No thread belongs to a pool.

use std::fmt;

/// What a task is for. A thread takes a task of the first pool here that has any, except when
/// another pool is owed its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pool {
    /// Traffic between nodes: short, and everybody waits for it.
    Interconnect = 0,
    /// The parts that requests are made of.
    System = 1,
    /// Requests of users.
    User = 2,
    /// Long work that nobody waits for. On two or more threads it occupies all but one at the most.
    Batch = 3,
}

impl Pool {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All of them, first things first.
    pub const ALL: [Self; Self::COUNT] = [Self::Interconnect, Self::System, Self::User, Self::Batch];

    /// Its name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interconnect => "interconnect",
            Self::System => "system",
            Self::User => "user",
            Self::Batch => "batch",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn from_index(index: usize) -> Self {
        Self::ALL[index]
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some of the pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PoolSet(u8);

impl PoolSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn with(self, pool: Pool) -> Self {
        Self(self.0 | 1 << pool.index())
    }

    pub(crate) fn without(self, pool: Pool) -> Self {
        Self(self.0 & !(1 << pool.index()))
    }

    pub(crate) const fn contains(self, pool: Pool) -> bool {
        self.0 & 1 << pool.index() != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Pool> {
        Pool::ALL.into_iter().filter(move |&pool| self.contains(pool))
    }
}
