//! Partitioned tables and their partitions, as the catalogue keeps them.
//!
//! A partitioned table has no rows of its own. It names its partitions, and each partition names its
//! table and says which rows it takes. A partition may be partitioned itself.
//!
//! Invariant: a table is in the list of the table that it is a partition of, and in no other list.

use serde::{Deserialize, Serialize};

/// How rows are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionStrategy {
    /// By ranges of the key.
    Range,
    /// By lists of values of the key.
    List,
    /// By a hash of the key.
    Hash,
}

impl PartitionStrategy {
    /// The word of SQL, in capitals.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Range => "RANGE",
            Self::List => "LIST",
            Self::Hash => "HASH",
        }
    }

    /// What `pg_partitioned_table.partstrat` says.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Range => "r",
            Self::List => "l",
            Self::Hash => "h",
        }
    }
}

/// What a partitioned table is besides a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitioned {
    /// How rows are divided.
    pub strategy: PartitionStrategy,
    /// The key's columns. One that stands for an expression is marked as dropped, as those of
    /// indexes are.
    pub keys: Vec<usize>,
    /// Its partitions, in the order in which they came.
    pub partitions: Vec<u32>,
}

/// That a table is a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionOf {
    /// The partitioned table.
    pub parent: u32,
    /// Which rows it takes.
    pub bound: PartitionBound,
}

/// Which rows a partition takes. Values are texts of the key's types, as settings' defaults have
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionBound {
    /// From the first key, inclusive, up to the second, exclusive.
    Range(Vec<RangeBound>, Vec<RangeBound>),
    /// These values; `None` is NULL.
    List(Vec<Option<String>>),
    /// Those whose hash, divided by the first number, leaves the second.
    Hash(u32, u32),
    /// Those that no other partition takes.
    Default,
}

/// A value at the end of a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeBound {
    /// Below all values.
    Min,
    /// A value.
    Value(String),
    /// Above all values.
    Max,
}
