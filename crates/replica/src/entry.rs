//! Entries of the log: bytes with the epoch of their leader, chained by checksums.
//!
//! ```text
//! 0   1  format, 1
//! 1   1  kind: 1 whole record, 2 first part, 3 middle part, 4 last part
//! 2   6  when the leader has made the entry: milliseconds since 1970, by its clock; zero in older
//!        entries. Only for people: nothing is decided by it
//! 8   8  epoch: the create revision of the leader's key
//! 16  8  bytes of all entries of this log up to and with this one, trimmed ones too
//! 24  8  chain value of the entry before
//! 32  8  chain value of this entry: XXH3 of bytes 0 to 32, the position and what follows,
//!        seeded with the chain value of the entry before
//! 40     bytes of the record, or of the part
//! ```
//! Integers are little-endian. The value before the first entry follows from the names of cluster
//! and database, so the entries of one database are no entries of another.
//!
//! # Records in parts
//! A record that does not fit an entry takes consecutive entries: a first part, middle parts, and a
//! last part, all of the same epoch. A reader gives the record when it has the last part. The rule
//! for what a dead leader left unfinished: **a whole record or a first part ends an unfinished
//! record before it, which is discarded**. So the next leader appends behind the unfinished parts
//! and need not repair anything; the discarded parts keep their positions and their place in the
//! chain. A middle or last part that continues nothing, or another epoch's record, is damage.
//!
//! Invariants:
//! 1. Epochs never descend along the log.
//! 2. Every entry's chain value follows from all entries before it.
//! 3. A record's parts stand side by side.

use std::fmt;
use std::time::Duration;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Where an entry stands in its log. The first one is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The position of the first entry of a log.
    pub const FIRST: Self = Self(1);

    /// The one behind.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one before, if this is not the first.
    #[must_use]
    pub fn before(self) -> Option<Self> {
        (self > Self::FIRST).then(|| Self(self.0 - 1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A term of leadership: the create revision of the leader's key. A later leader has a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A checksum over an entry and all entries before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain(pub u64);

impl Chain {
    /// The value before the first entry of a database.
    #[must_use]
    pub fn start(cluster: &str, database: &str) -> Self {
        Self(xxh3_64(format!("{}:{cluster}{database}", cluster.len()).as_bytes()))
    }
}

/// A place between two entries: everything before is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The position of the entry behind the point.
    pub next: Position,
    /// The chain value of the entry before the point.
    pub chain: Chain,
}

impl Point {
    /// The point before the first entry of a database.
    #[must_use]
    pub fn start(cluster: &str, database: &str) -> Self {
        Self { next: Position::FIRST, chain: Chain::start(cluster, database) }
    }
}

/// What an entry is of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    // ON DISK: never renumber.
    Whole = 1,
    First = 2,
    Middle = 3,
    Last = 4,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        [Self::Whole, Self::First, Self::Middle, Self::Last].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether a record begins with it.
    pub(crate) fn begins(self) -> bool {
        matches!(self, Self::Whole | Self::First)
    }

    /// Whether a record ends with it.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Self::Whole | Self::Last)
    }
}

/// When a leader has made an entry, by its wall's clock: milliseconds since 1970 in 48 bits, or zero
/// if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Made(u64);

impl Made {
    pub(crate) fn at(since_1970: Duration) -> Self {
        Self(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX).min((1 << 48) - 1))
    }

    /// How long ago that was by another clock; zero if that clock is behind.
    pub(crate) fn age(self, since_1970: Duration) -> Option<Duration> {
        (self.0 != 0).then(|| since_1970.saturating_sub(Duration::from_millis(self.0)))
    }
}

/// The format of entries. ON DISK: never renumber.
const FORMAT: u8 = 1;
/// Bytes of an entry before those of the record.
pub(crate) const HEADER_BYTES: usize = 40;

/// An entry that was read, and whose checksum is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) kind: Kind,
    pub(crate) epoch: Epoch,
    pub(crate) bytes_total: u64,
    pub(crate) made: Made,
    pub(crate) previous: Chain,
    pub(crate) chain: Chain,
    pub(crate) bytes: &'a [u8],
}

/// Writes an entry; gives it with its chain value.
pub(crate) fn encode(
    (kind, epoch, made): (Kind, Epoch, Made),
    bytes_before: u64,
    at: Point,
    bytes: &[u8],
) -> (Vec<u8>, Chain) {
    let mut entry = Vec::with_capacity(HEADER_BYTES + bytes.len());
    entry.extend_from_slice(&[FORMAT, kind as u8]);
    entry.extend_from_slice(&made.0.to_le_bytes()[..6]);
    entry.extend_from_slice(&epoch.0.to_le_bytes());
    entry.extend_from_slice(&(bytes_before + (HEADER_BYTES + bytes.len()) as u64).to_le_bytes());
    entry.extend_from_slice(&at.chain.0.to_le_bytes());
    let chain = checksum(&entry, at.next, at.chain, bytes);
    entry.extend_from_slice(&chain.0.to_le_bytes());
    entry.extend_from_slice(bytes);
    (entry, chain)
}

fn checksum(header: &[u8], position: Position, previous: Chain, bytes: &[u8]) -> Chain {
    let mut hasher = Xxh3::with_seed(previous.0);
    hasher.update(header);
    hasher.update(&position.0.to_le_bytes());
    hasher.update(bytes);
    Chain(hasher.digest())
}

/// Reads an entry; gives why it is none, if it is damaged.
pub(crate) fn decode(position: Position, entry: &[u8]) -> Result<Entry<'_>, &'static str> {
    let (header, bytes) = entry.split_at_checked(HEADER_BYTES).ok_or("it is shorter than an entry's header")?;
    if header[0] != FORMAT {
        return Err("its format is not known to this version");
    }
    let kind = Kind::from_number(header[1]).ok_or("its kind is not known")?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let (previous, chain) = (Chain(number(24)), Chain(number(32)));
    if checksum(&header[..32], position, previous, bytes) != chain {
        return Err("its checksum is wrong");
    }
    let made = Made(number(0) >> 16);
    Ok(Entry { kind, epoch: Epoch(number(8)), bytes_total: number(16), made, previous, chain, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_each_changed_bit_is_found() {
        let at = Point { next: Position(5), chain: Chain(77) };
        let (entry, chain) = encode((Kind::First, Epoch(9), Made(0x0102_0304_0506)), 1000, at, b"record");
        let read = decode(Position(5), &entry).unwrap();
        assert_eq!((read.kind, read.epoch, read.previous, read.chain), (Kind::First, Epoch(9), Chain(77), chain));
        assert_eq!((read.bytes, read.bytes_total, read.made), (&b"record"[..], 1046, Made(0x0102_0304_0506)));
        for bit in 0..entry.len() * 8 {
            let mut changed = entry.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(Position(5), &changed).is_err(), "bit {bit}");
        }
        assert!(decode(Position(6), &entry).is_err(), "at another position");
        assert!(decode(Position(5), &entry[..39]).is_err(), "too short");
    }

    #[test]
    fn the_format_of_entries_does_not_change() {
        let at = Point::start("cluster", "db");
        let (entry, _) = encode((Kind::Whole, Epoch(3), Made(0)), 0, at, b"abc");
        let hex: String = entry.iter().map(|byte| format!("{byte:02x}")).collect();
        // What version 1 wrote: it has to stay readable for ever.
        assert_eq!(hex, GOLDEN);
        let read = decode(Position::FIRST, &entry).unwrap();
        assert_eq!((read.bytes, read.made.age(Duration::from_secs(1))), (&b"abc"[..], None));
        let made = Made::at(Duration::from_millis(1_800_000_000_123));
        let (entry, _) = encode((Kind::Whole, Epoch(3), made), 0, at, b"abc");
        assert_eq!(entry[..8], [1, 1, 0x7b, 0x50, 0x5c, 0x18, 0xa3, 0x01]);
        assert_eq!(made.age(Duration::from_millis(1_800_000_001_123)), Some(Duration::from_secs(1)));
        assert_eq!(made.age(Duration::from_millis(1_700_000_000_000)), Some(Duration::ZERO), "a clock behind");
        assert_eq!(Made::at(Duration::MAX), Made((1 << 48) - 1));
    }

    const GOLDEN: &str = "010100000000000003000000000000002b0000000000000049bf76fbcb8e5fb614a1b2997a23e9f8616263";

    #[test]
    fn logs_of_different_databases_begin_with_different_values() {
        assert_ne!(Chain::start("a", "bc"), Chain::start("ab", "c"));
    }
}
