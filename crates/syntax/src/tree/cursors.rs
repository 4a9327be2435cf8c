//! DECLARE, FETCH and MOVE.

use super::{Inner, Name};

/// `DECLARE name CURSOR FOR query`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declare {
    /// The cursor's name.
    pub name: Name,
    /// SCROLL or NO SCROLL; `None`: neither.
    pub scroll: Option<bool>,
    /// BINARY
    pub binary: bool,
    /// WITH HOLD
    pub hold: bool,
    /// INSENSITIVE
    pub insensitive: bool,
    /// Its query.
    pub query: Inner,
}

/// FETCH or MOVE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor's name.
    pub name: Name,
    /// Which rows.
    pub goal: Goal,
    /// It is MOVE, which gives none of them.
    pub moves: bool,
}

/// Which rows FETCH gives, and where it leaves the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// This number of rows from here on; `u64::MAX` for all.
    Forward(u64),
    /// The same, backwards.
    Backward(u64),
    /// The one with this number, from 1 on; from the end if negative.
    Absolute(i64),
    /// The one this number of rows from here.
    Relative(i64),
}

impl Goal {
    /// Forward, or backward if the count is negative.
    #[must_use]
    pub fn of(count: i64) -> Self {
        if count < 0 { Self::Backward(count.unsigned_abs()) } else { Self::Forward(count.unsigned_abs()) }
    }
}
