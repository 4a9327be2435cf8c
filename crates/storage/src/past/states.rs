//! What a state of the file says of its past, and finding a state there.

use super::{AsOf, PastInfo};
use crate::cursor::RawCursor;
use crate::forest::{BranchId, Forest, Part};
use crate::log::record::{OnBranches, Operation, Operations};
use crate::page::{PageId, TxnId, get_u32, get_u64};
use crate::pager::{Bounds, Pager};
use crate::root::Tree;
use crate::{Error, Result};

/// A state that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    /// The transaction whose state it is.
    pub(super) txn: TxnId,
    /// The last transaction with this state: the one that kept it, or a later one that changed
    /// nothing.
    pub(super) last: TxnId,
    /// When it was kept.
    pub(super) time: i64,
    /// Pages that were given up since the point before, and that it still has.
    pub(super) pages: u64,
}

impl Point {
    const BYTES: usize = 24;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.last.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time.to_le_bytes());
        bytes[16..].copy_from_slice(&self.pages.to_le_bytes());
        bytes
    }

    fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let txn = number(key)?;
        if value.len() != Self::BYTES || get_u64(value, 0) < txn {
            return Err(damaged("an entry of a kept state has the wrong form"));
        }
        let (last, time, pages) = (TxnId(get_u64(value, 0)), get_u64(value, 8) as i64, get_u64(value, 16));
        Ok(Self { txn: TxnId(txn), last, time, pages })
    }
}

pub(super) fn damaged(reason: &'static str) -> Error {
    Error::Corrupted { page: PageId::NONE, reason }
}

fn number(bytes: &[u8]) -> Result<u64> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| damaged("a key of the kept states is none"))
}

/// The past as a state of the file has it.
#[derive(Clone, Copy)]
pub(crate) struct PastOf<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    points: Tree,
    kept: Tree,
    pub(super) history: Tree,
}

impl<'a> PastOf<'a> {
    pub(crate) fn new(pager: &'a Pager, bounds: Bounds, forest: &Forest) -> Result<Self> {
        let part = |part| forest.part(pager, bounds, part);
        Ok(Self { pager, bounds, points: part(Part::Points)?, kept: part(Part::Kept)?, history: part(Part::History)? })
    }

    fn cursor(&self, tree: Tree) -> RawCursor<'a> {
        RawCursor::new(self.pager, self.bounds, tree)
    }

    fn point(cursor: &RawCursor<'_>) -> Result<Point> {
        Point::decode(cursor.key(), cursor.value()?)
    }

    /// All points, the oldest first.
    pub(super) fn points(&self) -> Result<Vec<Point>> {
        let mut cursor = self.cursor(self.points);
        let mut points = Vec::new();
        let mut valid = cursor.first()?;
        while valid {
            points.push(Self::point(&cursor)?);
            valid = cursor.next()?;
        }
        Ok(points)
    }

    pub(super) fn newest_point(&self) -> Result<Option<Point>> {
        let mut cursor = self.cursor(self.points);
        if cursor.last()? { Self::point(&cursor).map(Some) } else { Ok(None) }
    }

    /// Every entry of `kept`: the branch, the transaction, and the fork.
    pub(crate) fn kept(&self) -> Result<Vec<(BranchId, TxnId, TxnId)>> {
        let mut cursor = self.cursor(self.kept);
        let mut kept = Vec::new();
        let mut valid = cursor.first()?;
        while valid {
            kept.push(Self::entry(&cursor)?);
            valid = cursor.next()?;
        }
        Ok(kept)
    }

    /// The entries of a branch in `kept`.
    pub(super) fn all_kept_of(&self, branch: BranchId) -> Result<Vec<(BranchId, TxnId, TxnId)>> {
        let mut cursor = self.cursor(self.kept);
        let mut kept = Vec::new();
        let mut valid = cursor.seek(&kept_key(branch, TxnId(0)))?;
        while valid {
            let entry = Self::entry(&cursor)?;
            if entry.0 != branch {
                break;
            }
            kept.push(entry);
            valid = cursor.next()?;
        }
        Ok(kept)
    }

    fn entry(cursor: &RawCursor<'_>) -> Result<(BranchId, TxnId, TxnId)> {
        let (branch, txn) = cursor.key().split_at_checked(8).ok_or(damaged("a key of the kept states is none"))?;
        let fork = cursor.value()?.try_into().map(u64::from_le_bytes);
        let fork = fork.map_err(|_| damaged("an entry of a kept state has the wrong form"))?;
        Ok((BranchId(number(branch)?), TxnId(number(txn)?), TxnId(fork)))
    }

    /// What is kept of a branch as of a transaction or before it, the newest: for which transaction,
    /// and the fork.
    pub(super) fn kept_of(&self, branch: BranchId, up_to: TxnId) -> Result<Option<(TxnId, TxnId)>> {
        let mut cursor = self.cursor(self.kept);
        if !cursor.seek_at_or_before(&kept_key(branch, up_to))? {
            return Ok(None);
        }
        let (found, txn, fork) = Self::entry(&cursor)?;
        Ok((found == branch).then_some((txn, fork)))
    }

    /// Calls `visit` with the records behind a transaction, as long as none is missing and `visit`
    /// says so: the transaction, its time, its operations. Gives the last that was there.
    fn records(&self, after: TxnId, visit: &mut dyn FnMut(TxnId, i64, &'a [u8]) -> Result<bool>) -> Result<TxnId> {
        let (mut last, mut cursor) = (after, self.cursor(self.history));
        let mut valid = cursor.seek(&after.next().0.to_be_bytes())?;
        while valid {
            let mut chunk = cursor.value()?;
            while !chunk.is_empty() {
                let (record, rest) = Record::split(chunk).ok_or(damaged("a record of the past has the wrong form"))?;
                chunk = rest;
                if record.txn <= last {
                    continue;
                }
                if record.txn != last.next() || !visit(record.txn, record.time, record.operations)? {
                    return Ok(last);
                }
                last = record.txn;
            }
            valid = cursor.next()?;
        }
        Ok(last)
    }

    /// Finds a state of a branch. `now`: the time.
    pub(crate) fn find(&self, branch: BranchId, as_of: AsOf, now: i64) -> Result<Found> {
        let points = self.points()?;
        let newest = points.last().map_or(TxnId(u64::MAX), |point| point.last);
        let not_kept = Error::NotKept { since: points.first().map(|point| (point.txn, point.time)) };
        let txn = match as_of {
            AsOf::Transaction(txn) if txn > newest => return Err(Error::StillToCome { newest }),
            AsOf::Time(time) if time > now => return Err(Error::StillToCome { newest }),
            AsOf::Transaction(txn) => txn,
            AsOf::Time(time) => match points.partition_point(|point| point.time <= time).checked_sub(1) {
                Some(index) => self.transaction_at(&points[index..], time)?,
                None => return Err(not_kept),
            },
        };
        let Some(point) = points.partition_point(|point| point.txn <= txn).checked_sub(1).map(|at| points[at]) else {
            return Err(not_kept);
        };
        let Some((since, fork)) = self.kept_of(branch, txn)? else {
            return Err(Error::NotKept { since: Some((TxnId(branch.0).max(points[0].txn), points[0].time)) });
        };
        let from = point.last.max(since);
        if from < txn {
            let mut reached = |record, _: i64, operations: &[u8]| {
                let is_reset = matches!(
                    Operations::new(operations).next(),
                    Some(Ok((_, Operation::OnBranches(OnBranches::Reset(reset, _))))) if reset == branch.0
                );
                Ok(record <= txn && !is_reset)
            };
            let last = self.records(from, &mut reached)?;
            if last < txn {
                return Err(Error::PastMissing { after: last, txn });
            }
        }
        Ok(Found { fork, from: from.min(txn), txn })
    }

    /// The last transaction up to a time, behind the first of these points, which is not later. The
    /// next one is later.
    fn transaction_at(&self, points: &[Point], time: i64) -> Result<TxnId> {
        let (mut found, mut later) = (points[0].txn, false);
        let last = self.records(points[0].last, &mut |txn, at, _| {
            later = at > time;
            found = if later { found } else { txn };
            Ok(!later)
        })?;
        match points.get(1) {
            // What the point was made for may have no record, and came with the point.
            Some(next) if !later && next.txn > last.next() => Err(Error::PastMissing { after: last, txn: next.txn }),
            _ => Ok(found),
        }
    }

    pub(super) fn info(&self, cut_short: u64) -> Result<PastInfo> {
        let points = self.points()?;
        let page_bytes = self.pager.page_size() as u64;
        let pages: u64 = points.iter().skip(1).map(|point| point.pages).sum();
        Ok(PastInfo {
            since: points.first().map(|point| (point.txn, point.time)),
            points: points.len() as u64,
            state_bytes: pages.saturating_mul(page_bytes),
            history_bytes: pages_of(&self.history).saturating_mul(page_bytes),
            cut_short,
        })
    }
}

pub(super) fn pages_of(tree: &Tree) -> u64 {
    tree.leaf_pages.saturating_add(tree.branch_pages).saturating_add(tree.overflow_pages)
}

pub(super) fn kept_key(branch: BranchId, txn: TxnId) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&branch.0.to_be_bytes());
    key[8..].copy_from_slice(&txn.0.to_be_bytes());
    key
}

/// A state of the past: a fork, and the records that lead on from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) fork: TxnId,
    /// The fork is as of this transaction.
    from: TxnId,
    txn: TxnId,
}

/// A record of the history.
pub(super) struct Record<'a> {
    pub(super) txn: TxnId,
    pub(super) time: i64,
    pub(super) operations: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) const HEADER_BYTES: usize = 20;

    pub(super) fn push(&self, chunk: &mut Vec<u8>) {
        chunk.extend_from_slice(&self.txn.0.to_le_bytes());
        chunk.extend_from_slice(&self.time.to_le_bytes());
        chunk.extend_from_slice(&(self.operations.len() as u32).to_le_bytes());
        chunk.extend_from_slice(self.operations);
    }

    /// The first record of a chunk, and what is behind it.
    fn split(chunk: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = chunk.split_at_checked(Self::HEADER_BYTES)?;
        let (operations, rest) = rest.split_at_checked(get_u32(header, 16) as usize)?;
        Some((Self { txn: TxnId(get_u64(header, 0)), time: get_u64(header, 8) as i64, operations }, rest))
    }
}

/// Calls `apply` with each operation of a branch that leads from a kept state to the one that was
/// found.
pub(crate) fn replay<'a>(
    past: &PastOf<'a>,
    branch: BranchId,
    found: &Found,
    apply: &mut dyn FnMut(&'a str, Operation<'a>) -> Result<()>,
) -> Result<()> {
    past.records(found.from, &mut |txn, _, operations| {
        if txn > found.txn {
            return Ok(false);
        }
        let mut operations = Operations::new(operations).peekable();
        let of = match operations.peek() {
            Some(Ok((_, Operation::OnBranches(OnBranches::Enter(branch))))) => BranchId(*branch),
            // It has no other operation, and changes no table of a branch that was there.
            Some(Ok((_, Operation::OnBranches(_)))) => return Ok(true),
            _ => BranchId::MAIN,
        };
        if of == branch {
            for operation in operations {
                match operation? {
                    (_, Operation::OnBranches(_)) => {}
                    (table, operation) => apply(table, operation)?,
                }
            }
        }
        Ok(true)
    })
    .map(|_| ())
}
