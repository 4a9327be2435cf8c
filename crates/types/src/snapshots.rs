//! `pg_snapshot` and `txid_snapshot`: which transactions a snapshot sees, written
//! `xmin:xmax:xip,…`.
//!
//! Transactions below `xmin` have ended, those from `xmax` on have not begun, and those in the list
//! were at work. A value is its text in the canonical form, as rows and clients have it.
//!
//! Invariants: `0 < xmin <= xmax`, and the list is in order, without doubles, from `xmin` to below
//! `xmax`.

use crate::error::{Error, Result, SqlState, too_short};
use crate::types::Type;

/// The largest number of a transaction in a snapshot.
const TXID_MAX: u64 = i64::MAX as u64;

/// A snapshot, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// All below have ended.
    pub xmin: u64,
    /// None from here on had begun.
    pub xmax: u64,
    /// Those that were at work in between.
    pub at_work: Vec<u64>,
}

impl Snapshot {
    /// Reads a value, or what a client has written.
    ///
    /// # Errors
    /// 22P02 if it is none.
    pub fn parse(ty: Type, text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| {
            let message = format!("invalid input syntax for type {ty}: \"{text}\"");
            Error::new(SqlState::BAD_TEXT, message)
        })
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number <= TXID_MAX);
        let (xmin, xmax, list) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
        if xmin == 0 || xmax == 0 || xmax < xmin {
            return None;
        }
        let mut at_work: Vec<u64> = Vec::new();
        for part in list.split(',').filter(|_| !list.is_empty()) {
            let next = number(part)?;
            if next < xmin || next >= xmax || at_work.last().is_some_and(|last| next < *last) {
                return None;
            }
            if at_work.last() != Some(&next) {
                at_work.push(next);
            }
        }
        Some(Self { xmin, xmax, at_work })
    }

    /// Reads a value from a client: how many were at work, `xmin`, `xmax`, and their numbers.
    ///
    /// # Errors
    /// 08P01 if there are too few bytes, 22P03 if they are none of a snapshot.
    pub fn receive(ty: Type, mut bytes: &[u8]) -> Result<Self> {
        let (count, rest) = bytes.split_first_chunk::<4>().ok_or_else(too_short)?;
        bytes = rest;
        let mut next = || -> Result<u64> {
            let (number, rest) = bytes.split_first_chunk::<8>().ok_or_else(too_short)?;
            bytes = rest;
            Ok(u64::from_be_bytes(*number))
        };
        let (xmin, xmax) = (next()?, next()?);
        let mut at_work = Vec::new();
        for _ in 0..u32::from_be_bytes(*count) {
            crate::pulse::work(1)?;
            at_work.push(next()?);
        }
        let wrong = |_| Error::new(SqlState::BAD_BINARY, format!("invalid external {ty} data"));
        Self::parse(ty, &Self { xmin, xmax, at_work }.to_string()).map_err(wrong)
    }

    /// Writes a value for a client.
    pub(crate) fn send(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.at_work.len() as u32).to_be_bytes());
        for number in [self.xmin, self.xmax].iter().chain(&self.at_work) {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// Whether a transaction had ended.
    #[must_use]
    pub fn sees(&self, txid: u64) -> bool {
        txid < self.xmin || txid < self.xmax && self.at_work.binary_search(&txid).is_err()
    }
}

impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (at, txid) in self.at_work.iter().enumerate() {
            write!(f, "{}{txid}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_canonical_or_refused() {
        let shown = |text: &str| Snapshot::parse(Type::PgSnapshot, text).map(|snapshot| snapshot.to_string()).ok();
        assert_eq!(shown("12:16:14,14").as_deref(), Some("12:16:14"));
        assert_eq!(shown("12:13:").as_deref(), Some("12:13:"));
        for bad in ["31:12:", "0:1:", "12:13:0", "12:16:14,13", "1:9223372036854775808:3", "1:2", "1:3:2,", ""] {
            assert_eq!(shown(bad), None, "{bad}");
        }
        let snapshot = Snapshot::parse(Type::PgSnapshot, "12:20:13,15,18").unwrap();
        let seen: Vec<u64> = (11..=21).filter(|txid| snapshot.sees(*txid)).collect();
        assert_eq!(seen, [11, 12, 14, 16, 17, 19]);
    }
}
