//! Locks that a session holds by itself, over any number of transactions, by numbers that mean
//! something to it alone.
//!
//! They lie in the same table as row locks and wait in the same queues, so that a circle that goes
//! over both is found. A session has two numbers among owners then, its own and its transaction's;
//! [`LockTable`] is told that they are one party.
//!
//! A lock's name is its number under a mixing that can be undone: a list of locks can tell
//! which it is.

use super::{IfLocked, LockName, LockTable, Locks, OwnerId, Result};
use crate::store::{LockMode, SpaceId};

use std::sync::Arc;

/// The locks of one session. Dropping it releases all.
pub struct SessionLocks {
    table: Arc<LockTable>,
    locks: Locks,
}

impl SessionLocks {
    pub(crate) fn new(table: &Arc<LockTable>) -> Self {
        Self { table: Arc::clone(table), locks: Locks::new(table) }
    }

    /// The session's number among those who hold locks.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.locks.owner()
    }

    /// Sets which transaction the session is in: an owner that waits for the one waits for the
    /// other.
    pub fn works_as(&self, transaction: OwnerId) {
        let owner = self.owner();
        let mut waits = self.table.waits.lock();
        if let Some(before) = waits.same.insert(owner, transaction) {
            waits.same.remove(&before);
        }
        waits.same.insert(transaction, owner);
    }

    /// Takes a lock, or more of one that is held.
    ///
    /// # Errors
    /// [`Interruption::Wait`](crate::Interruption::Wait),
    /// [`Error::NotAvailable`](crate::Error::NotAvailable),
    /// [`Error::Deadlock`](crate::Error::Deadlock), as of a transaction's locks.
    pub fn take(&mut self, space: SpaceId, number: u64, mode: LockMode, if_locked: IfLocked) -> Result<()> {
        self.locks.take_named(LockName::of_number(space, number), space, mode, if_locked).map(drop)
    }

    /// Changes a lock to a weaker mode.
    pub fn weaken(&mut self, space: SpaceId, number: u64, mode: LockMode) {
        self.locks.weaken(LockName::of_number(space, number), mode);
    }

    /// Releases a lock.
    pub fn release(&mut self, space: SpaceId, number: u64) {
        self.locks.release_one(LockName::of_number(space, number));
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        let Some(owner) = self.locks.owner.get() else { return };
        let mut waits = self.table.waits.lock();
        if let Some(transaction) = waits.same.remove(owner) {
            waits.same.remove(&transaction);
        }
    }
}

// Constants of a finalizer whose steps can be undone: each is a bijection of 64-bit words.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

impl LockName {
    /// The name of a lock that has a number in a space.
    fn of_number(space: SpaceId, number: u64) -> Self {
        let mut word = number ^ salt(space);
        word = (word ^ (word >> 30)).wrapping_mul(FACTORS[0]);
        word = (word ^ (word >> 27)).wrapping_mul(FACTORS[1]);
        Self(word ^ (word >> 31))
    }

    /// The number of a lock that was named by one in a space.
    #[must_use]
    pub fn number(self, space: SpaceId) -> u64 {
        let mut word = unshift(self.0, 31).wrapping_mul(inverse(FACTORS[1]));
        word = unshift(word, 27).wrapping_mul(inverse(FACTORS[0]));
        unshift(word, 30) ^ salt(space)
    }
}

/// Locks of one number in different spaces have different names.
fn salt(space: SpaceId) -> u64 {
    u64::from(space.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Undoes `word ^ (word >> by)`.
fn unshift(mixed: u64, by: u32) -> u64 {
    let mut word = mixed;
    // Each round makes `by` more of the bits right.
    for _ in 0..64 / by {
        word = mixed ^ (word >> by);
    }
    word
}

/// The inverse of an odd number modulo 2^64: each of Newton's steps doubles the bits that are
/// right, from three on.
fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::error::Error;
    use crate::outcome::Interruption;

    const SPACE: SpaceId = SpaceId(u32::MAX);

    #[test]
    fn a_name_tells_its_number() {
        use rand::{Rng, SeedableRng};
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        for number in (0..1_000).map(|_| random.random()).chain([0, 1, u64::MAX]) {
            for space in [SPACE, SpaceId(u32::MAX - 1)] {
                assert_eq!(LockName::of_number(space, number).number(space), number);
            }
        }
    }

    #[test]
    fn a_lock_is_shared_weakened_and_let_go_of() {
        let table = Arc::new(LockTable::new());
        let (mut a, mut b) = (SessionLocks::new(&table), SessionLocks::new(&table));
        a.take(SPACE, 1, LockMode::Share, IfLocked::Refuse).unwrap();
        b.take(SPACE, 1, LockMode::Share, IfLocked::Refuse).unwrap();
        assert!(matches!(a.take(SPACE, 1, LockMode::Exclusive, IfLocked::Refuse), Err(Error::NotAvailable)));
        b.release(SPACE, 1);
        a.take(SPACE, 1, LockMode::Exclusive, IfLocked::Refuse).unwrap();
        let Err(Error::Interrupted(Interruption::Wait(wait))) = b.take(SPACE, 1, LockMode::Share, IfLocked::Wait)
        else {
            panic!("it is held")
        };
        a.weaken(SPACE, 1, LockMode::Share);
        assert!(wait.is_over());
        b.take(SPACE, 1, LockMode::Share, IfLocked::Refuse).unwrap();
        drop(a);
        b.take(SPACE, 1, LockMode::Exclusive, IfLocked::Refuse).unwrap();
        drop(b);
        assert!(table.list().is_empty() && table.waits.lock().same.is_empty());
    }

    #[test]
    fn a_circle_over_a_session_and_its_transaction_is_found() {
        let table = Arc::new(LockTable::new());
        let (mut a, mut b) = (SessionLocks::new(&table), SessionLocks::new(&table));
        let (mut in_a, mut in_b) = (Locks::new(&table), Locks::new(&table));
        a.works_as(in_a.owner());
        b.works_as(in_b.owner());
        a.take(SPACE, 1, LockMode::Exclusive, IfLocked::Wait).unwrap();
        in_b.take(SpaceId(5), b"row", LockMode::Exclusive, IfLocked::Wait).unwrap();
        let waits = b.take(SPACE, 1, LockMode::Exclusive, IfLocked::Wait);
        assert!(matches!(waits, Err(Error::Interrupted(Interruption::Wait(_)))));
        let circle = in_a.take(SpaceId(5), b"row", LockMode::Exclusive, IfLocked::Wait);
        assert!(matches!(circle, Err(Error::Deadlock)));
    }
}
