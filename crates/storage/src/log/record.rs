//! What a record of the log says: the operations of one transaction, by table.
//!
//! ```text
//! operation:  1  kind · 2 key length (table: name length) · 4 value length · key · value
//! ```
//! A part is there only where the kind of operation has it. An operation refers to the last table
//! that was named before it, in the branch that the record began with, or in the main one. A record
//! that makes, drops or resets a branch does nothing else.
//!
//! Only what had an effect is recorded, in its order. So replaying the operations on the state
//! before them gives the state after them.

use std::ops::Bound;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::RECORD_HEADER_BYTES;
use crate::encryption::TAG_BYTES;
use crate::page::{TxnId, get_u16, get_u32, get_u64, put_u32, put_u64};
use crate::{Error, Result, TableKind};

/// The longest record. A transaction that would need a longer one makes a steady point instead.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// The longest record that others agree on: it is in memory as a whole.
pub(crate) const AGREED_BYTES_MAX: usize = 512 << 20;

// ON DISK: never renumber.
const TABLE: u8 = 1;
const CREATE: [u8; 3] = [2, 3, 4];
const DROP: u8 = 5;
const CLEAR: u8 = 6;
const PUT: u8 = 7;
const DELETE: u8 = 8;
const DELETE_VALUE: u8 = 9;
/// The low bound, then the high one.
const RANGE: u8 = 10;
const INCLUDED: u8 = 11;
const EXCLUDED: u8 = 12;
const UNBOUNDED: u8 = 13;
/// The value is a [`difference`](super::difference) from the stored one.
const CHANGE: u8 = 14;

/// The operations behind it are about tables of this branch: key.
const ENTER_BRANCH: u8 = 15;
/// Name, then the branch that it is made from.
const MAKE_BRANCH: u8 = 16;
const DROP_BRANCH: u8 = 17;
/// The branch, then the one whose state it gets.
const RESET_BRANCH: u8 = 18;

/// When the transaction was committed: key, microseconds since 1970. Stands before all operations of
/// a record.
const TIME: u8 = 19;
const TIME_BYTES: usize = 11;

/// The time of a record, if it has one, and its operations.
pub(crate) fn split_time(operations: &[u8]) -> (Option<i64>, &[u8]) {
    match operations.split_at_checked(TIME_BYTES) {
        Some(([TIME, 8, 0, time @ ..], rest)) => (Some(get_u64(time, 0) as i64), rest),
        _ => (None, operations),
    }
}

/// An operation on branches, which are given by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnBranches<'a> {
    /// What follows is about this branch.
    Enter(u64),
    /// Makes one of a name, from another.
    Make(&'a str, u64),
    Drop(u64),
    /// Gives the first the state of the second.
    Reset(u64, u64),
}

/// Whether the operations of a record make, drop or reset a branch. Then there is just one.
pub(crate) fn is_of_forest(operations: &[u8]) -> bool {
    split_time(operations).1.first().is_some_and(|kind| (MAKE_BRANCH..=RESET_BRANCH).contains(kind))
}

/// A change to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Create(TableKind),
    Drop,
    Clear,
    Put(&'a [u8], &'a [u8]),
    /// A put that changes a value of the same length: the key and the difference.
    Change(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    DeleteValue(&'a [u8], &'a [u8]),
    DeleteRange(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// No change to a table, but to which branches there are, or the start of a branch's changes.
    OnBranches(OnBranches<'a>),
}

/// A record that is being built.
#[derive(Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    /// Where the name of the current table stands; 0 for none.
    table: usize,
    too_long: bool,
    /// It may be as long as others agree on.
    is_agreed: bool,
    /// It begins with a time.
    is_stamped: bool,
}

/// A place in a record to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    bytes: usize,
    table: usize,
    too_long: bool,
}

impl Builder {
    /// Starts over.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(RECORD_HEADER_BYTES, 0);
        self.table = 0;
        self.too_long = false;
        self.is_agreed = false;
        self.is_stamped = false;
    }

    /// Begins a record that says when the transaction was committed, which is set later.
    pub(crate) fn stamp(&mut self) {
        self.part(TIME, Some(&[0; 8]), None);
        self.is_stamped = true;
    }

    /// Whether the time of the commit has to be set.
    pub(crate) fn is_stamped(&self) -> bool {
        self.is_stamped
    }

    /// Sets the time of the commit.
    pub(crate) fn set_time(&mut self, time: i64) {
        put_u64(&mut self.bytes, RECORD_HEADER_BYTES + 3, time as u64);
    }

    /// Others agree on the record: it may be longer than one of the log.
    pub(crate) fn allow_long(&mut self) {
        self.is_agreed = true;
    }

    /// Whether the transaction is too long for a record.
    pub(crate) fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// How long the record is so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len().next_multiple_of(8)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), table: self.table, too_long: self.too_long }
    }

    /// Removes what was added after a mark.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.table = mark.table;
        self.too_long = mark.too_long;
    }

    /// Marks the record as useless: the transaction will make a steady point instead.
    pub(crate) fn give_up(&mut self) {
        self.too_long = true;
    }

    /// Adds an operation on branches.
    pub(crate) fn push_on_branches(&mut self, operation: OnBranches<'_>) {
        if self.too_long {
            return;
        }
        match operation {
            OnBranches::Enter(branch) => self.part(ENTER_BRANCH, Some(&branch.to_le_bytes()), None),
            OnBranches::Make(name, origin) => {
                self.part(MAKE_BRANCH, Some(name.as_bytes()), Some(&origin.to_le_bytes()));
            }
            OnBranches::Drop(branch) => self.part(DROP_BRANCH, Some(&branch.to_le_bytes()), None),
            OnBranches::Reset(branch, to) => {
                self.part(RESET_BRANCH, Some(&branch.to_le_bytes()), Some(&to.to_le_bytes()));
            }
        }
    }

    /// Adds an operation on a table.
    pub(crate) fn push(&mut self, table: &str, operation: Operation<'_>) {
        if self.too_long {
            return;
        }
        let current = self.table > 0 && {
            let length = get_u16(&self.bytes, self.table) as usize;
            &self.bytes[self.table + 2..][..length] == table.as_bytes()
        };
        if !current {
            self.part(TABLE, Some(table.as_bytes()), None);
            self.table = self.bytes.len() - table.len() - 2;
        }
        match operation {
            Operation::Create(kind) => {
                let index = match kind {
                    TableKind::Plain => 0,
                    TableKind::Multi => 1,
                    TableKind::Integer => 2,
                };
                self.part(CREATE[index], None, None);
            }
            Operation::OnBranches(_) => unreachable!("operations on branches are added without a table"),
            Operation::Drop => self.part(DROP, None, None),
            Operation::Clear => self.part(CLEAR, None, None),
            Operation::Put(key, value) => self.part(PUT, Some(key), Some(value)),
            Operation::Change(key, difference) => self.part(CHANGE, Some(key), Some(difference)),
            Operation::Delete(key) => self.part(DELETE, Some(key), None),
            Operation::DeleteValue(key, value) => self.part(DELETE_VALUE, Some(key), Some(value)),
            Operation::DeleteRange(low, high) => {
                self.part(RANGE, None, None);
                for bound in [low, high] {
                    match bound {
                        Bound::Included(key) => self.part(INCLUDED, Some(key), None),
                        Bound::Excluded(key) => self.part(EXCLUDED, Some(key), None),
                        Bound::Unbounded => self.part(UNBOUNDED, None, None),
                    }
                }
            }
        }
    }

    #[inline]
    fn part(&mut self, kind: u8, key: Option<&[u8]>, value: Option<&[u8]>) {
        let length = 7 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        // The bound of a range may be longer than any key. Then the transaction makes a steady
        // point, too.
        let fits = key.is_none_or(|key| key.len() <= usize::from(u16::MAX));
        let bytes_max = if self.is_agreed { AGREED_BYTES_MAX } else { BYTES_MAX };
        if !fits || self.bytes.len() + length + 8 > bytes_max {
            self.too_long = true;
        }
        if self.too_long {
            return;
        }
        self.bytes.push(kind);
        if let Some(key) = key {
            self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        }
        if let Some(value) = value {
            self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Encrypts the operations, padded with zeros, and adds the tag that this gives. The record is to
    /// be sealed next, and nothing is added to it any more.
    pub(crate) fn encrypt(&mut self, encrypt: impl FnOnce(&mut [u8]) -> [u8; TAG_BYTES]) {
        let length = self.bytes();
        self.bytes.resize(length, 0);
        let tag = encrypt(&mut self.bytes[RECORD_HEADER_BYTES..]);
        self.bytes.extend_from_slice(&tag);
    }

    /// Completes the record: its bytes, beginning with its checksum.
    pub(crate) fn seal(&mut self, txn: TxnId, chain: u64) -> &[u8] {
        let length = self.bytes();
        self.bytes.resize(length, 0);
        put_u32(&mut self.bytes, 8, length as u32);
        put_u64(&mut self.bytes, 16, txn.0);
        let checksum = xxh3_64_with_seed(&self.bytes[8..], chain);
        put_u64(&mut self.bytes, 0, checksum);
        &self.bytes
    }

    /// Adds zeros behind the completed record: the bytes to be written.
    pub(crate) fn pad(&mut self, zeros: usize) -> &[u8] {
        self.bytes.resize(self.bytes.len() + zeros, 0);
        &self.bytes
    }
}

/// The operations of a record, each with its table.
pub(crate) struct Operations<'a> {
    rest: &'a [u8],
    table: Option<&'a str>,
}

impl<'a> Operations<'a> {
    /// The operations of what follows a record's header.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: split_time(bytes).1, table: None }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(part)
    }

    fn kind(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let length = get_u16(self.take(2)?, 0);
        self.take(length.into())
    }

    fn pair(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let lengths = self.take(6)?;
        Some((self.take(get_u16(lengths, 0).into())?, self.take(get_u32(lengths, 2) as usize)?))
    }

    fn bound(&mut self) -> Option<Bound<&'a [u8]>> {
        Some(match self.kind()? {
            INCLUDED => Bound::Included(self.key()?),
            EXCLUDED => Bound::Excluded(self.key()?),
            UNBOUNDED => Bound::Unbounded,
            _ => return None,
        })
    }

    /// `None` if the bytes are none.
    fn on_branches(&mut self, kind: u8) -> Option<OnBranches<'a>> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        Some(match kind {
            ENTER_BRANCH => OnBranches::Enter(number(self.key()?)?),
            DROP_BRANCH => OnBranches::Drop(number(self.key()?)?),
            MAKE_BRANCH => {
                let (name, origin) = self.pair()?;
                OnBranches::Make(std::str::from_utf8(name).ok()?, number(origin)?)
            }
            _ => {
                let (branch, to) = self.pair()?;
                OnBranches::Reset(number(branch)?, number(to)?)
            }
        })
    }

    /// `None` if the bytes are no operation.
    fn operation(&mut self) -> Option<(&'a str, Operation<'a>)> {
        let mut kind = self.kind()?;
        if (ENTER_BRANCH..=RESET_BRANCH).contains(&kind) {
            self.table = None;
            return Some(("", Operation::OnBranches(self.on_branches(kind)?)));
        }
        if kind == TABLE {
            self.table = Some(std::str::from_utf8(self.key()?).ok()?);
            kind = self.kind()?;
        }
        let operation = match kind {
            kind if kind == CREATE[0] => Operation::Create(TableKind::Plain),
            kind if kind == CREATE[1] => Operation::Create(TableKind::Multi),
            kind if kind == CREATE[2] => Operation::Create(TableKind::Integer),
            DROP => Operation::Drop,
            CLEAR => Operation::Clear,
            PUT => {
                let (key, value) = self.pair()?;
                Operation::Put(key, value)
            }
            CHANGE => {
                let (key, difference) = self.pair()?;
                Operation::Change(key, difference)
            }
            DELETE => Operation::Delete(self.key()?),
            DELETE_VALUE => {
                let (key, value) = self.pair()?;
                Operation::DeleteValue(key, value)
            }
            RANGE => Operation::DeleteRange(self.bound()?, self.bound()?),
            _ => return None,
        };
        Some((self.table?, operation))
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<(&'a str, Operation<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        // Padding is zeros, and no kind of operation is zero.
        if self.rest.iter().all(|&byte| byte == 0) && self.rest.len() < 8 {
            return None;
        }
        let operation = self.operation();
        if operation.is_none() {
            self.rest = &[];
        }
        Some(operation.ok_or(Error::CorruptedLog { reason: "a record holds something that is no operation" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operations: &[(&str, Operation<'_>)]) {
        let mut builder = Builder::default();
        builder.clear();
        for (table, operation) in operations {
            builder.push(table, *operation);
        }
        assert!(!builder.is_too_long());
        let bytes = builder.seal(TxnId(7), 42).to_vec();
        assert_eq!(bytes.len() % 8, 0);
        let read: Vec<_> = Operations::new(&bytes[RECORD_HEADER_BYTES..]).map(Result::unwrap).collect();
        assert_eq!(read, operations);
        // Cut short anywhere, it is another list or an error, and no panic.
        for length in RECORD_HEADER_BYTES..bytes.len() {
            let _ = Operations::new(&bytes[RECORD_HEADER_BYTES..length]).count();
        }
    }

    #[test]
    fn records_say_what_was_put_into_them() {
        use Bound::{Excluded, Included, Unbounded};
        check(&[]);
        check(&[("t", Operation::Create(TableKind::Multi)), ("t", Operation::Clear), ("u", Operation::Drop)]);
        check(&[("t", Operation::Put(b"key", b"")), ("t", Operation::Put(&[0; 900], &[0; 3000]))]);
        check(&[("t", Operation::Change(b"key", &[40, 0, 9, 0, 1, 0, 2])), ("t", Operation::Change(b"k", b""))]);
        check(&[("t", Operation::Delete(b"k")), ("t", Operation::DeleteValue(b"k", b"v"))]);
        check(&[
            ("t", Operation::DeleteRange(Included(b"a"), Excluded(b"b"))),
            ("", Operation::DeleteRange(Unbounded, Unbounded)),
        ]);
    }

    #[test]
    fn records_say_what_was_done_to_branches() {
        let operations = [OnBranches::Make("é", 7), OnBranches::Drop(1 << 40), OnBranches::Reset(7, 0)];
        for operation in operations {
            let mut builder = Builder::default();
            builder.clear();
            builder.push_on_branches(operation);
            let bytes = builder.seal(TxnId(7), 42).to_vec();
            assert!(is_of_forest(&bytes[RECORD_HEADER_BYTES..]));
            let read: Vec<_> = Operations::new(&bytes[RECORD_HEADER_BYTES..]).map(Result::unwrap).collect();
            assert_eq!(read, [("", Operation::OnBranches(operation))]);
            for length in RECORD_HEADER_BYTES..bytes.len() {
                let _ = Operations::new(&bytes[RECORD_HEADER_BYTES..length]).count();
            }
        }
        let mut builder = Builder::default();
        builder.clear();
        builder.push_on_branches(OnBranches::Enter(7));
        builder.push("a", Operation::Delete(b"1"));
        let bytes = builder.seal(TxnId(7), 42).to_vec();
        assert!(!is_of_forest(&bytes[RECORD_HEADER_BYTES..]));
        let read: Vec<_> = Operations::new(&bytes[RECORD_HEADER_BYTES..]).map(Result::unwrap).collect();
        assert_eq!(read, [("", Operation::OnBranches(OnBranches::Enter(7))), ("a", Operation::Delete(b"1"))]);
    }

    #[test]
    fn what_came_after_a_mark_can_be_forgotten() {
        let mut builder = Builder::default();
        builder.clear();
        builder.push("a", Operation::Put(b"1", b"one"));
        let mark = builder.mark();
        builder.push("b", Operation::Put(b"2", &vec![0; BYTES_MAX]));
        assert!(builder.is_too_long());
        builder.rewind(mark);
        builder.push("a", Operation::Delete(b"1"));
        let bytes = builder.seal(TxnId(1), 0).to_vec();
        let read: Vec<_> = Operations::new(&bytes[RECORD_HEADER_BYTES..]).map(Result::unwrap).collect();
        assert_eq!(read, [("a", Operation::Put(b"1", b"one")), ("a", Operation::Delete(b"1"))]);
    }
}
