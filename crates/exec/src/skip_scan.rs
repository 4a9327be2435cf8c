//! Ranges of a key about whose first columns nothing is known: a skip scan.
//!
//! `state = 'open'` is asked of an index of `(project_id, state)`. The values that the first
//! columns have are found one by one, by a look behind the last entry that the value before could
//! have; each gives a range of its own. With few values and many entries for each, that is far less
//! than all entries. The conditions are asked again of each row, so ranges may hold too much: where
//! there turn out to be many values, what is left of the key becomes one range.

use std::ops::{Bound, ControlFlow};

use colibri_catalog::{Table, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, Key, KeyRange};
use colibri_types::{Error, Result, key};
use smallvec::SmallVec;

use super::Exec;
use super::memory::{Reservation, Use};
use super::ranges::{Ranges, key_ranges};
use crate::plan::Access;

/// Values of the first columns at most; the planner expects far fewer.
const VALUES_MAX: usize = 100_000;
/// What looking for the next value costs, in rows looked at.
const ROWS_PER_VALUE: i64 = 10;

/// Ranges that are being found.
#[derive(Default)]
pub(super) struct SkipScan {
    /// What is asked of the columns behind the first ones.
    behind: Option<SmallVec<[KeyRange; 1]>>,
    /// Behind all entries of the values found so far.
    from: Option<Key>,
    values: usize,
    found: SmallVec<[KeyRange; 1]>,
    /// For the ranges, as long as they are visited.
    memory: Reservation,
}

impl SkipScan {
    /// Goes on. Nothing while the budget is used up; in the end the ranges.
    ///
    /// # Errors
    /// Of the transaction, and of evaluating what keys are compared with.
    pub(super) fn step(&mut self, table: &Table, access: &Access, ex: &mut Exec<'_, '_>) -> Result<Option<Ranges>> {
        let (index, ranges) = match access {
            Access::Key { ranges } => (None, ranges),
            Access::Index { index, ranges, .. } => (Some(&**index), ranges),
            Access::Gathered { .. } | Access::Inverted { .. } => {
                return Err(Error::internal("keys that are gathered have no columns to skip"));
            }
        };
        if self.behind.is_none() {
            self.behind = Some(match key_ranges(table, access, &mut ex.scope())? {
                Ranges::Spans(spans) => spans,
                // A NULL finds nothing.
                Ranges::Points(_) => SmallVec::new(),
            });
        }
        let space = access.space(table);
        while let Some(behind) = self.behind.as_ref().filter(|behind| !behind.is_empty()) {
            if ex.cx.budget_rows <= 0 {
                return Ok(None);
            }
            ex.cx.budget_rows -= ROWS_PER_VALUE;
            let low = self.from.clone().map_or(Bound::Unbounded, Bound::Included);
            let left = KeyRange { low, high: Bound::Unbounded };
            let may_go_on = self.values < VALUES_MAX
                && self.memory.hold(ex.cx.memory, self.found.len() * size_of::<KeyRange>(), Use::Rows);
            if !may_go_on {
                self.found.push(left);
                break;
            }
            let mut first = None;
            ex.txn
                .scan(&space, &left, Direction::Forward, ColumnSet::NONE, 1, &mut |entry, _| {
                    first = Some(Key::from_slice(entry));
                    ControlFlow::Break(())
                })
                .in_sql()?;
            let Some(mut value) = first else { break };
            value.truncate(record::prefix_bytes(table, index, ranges.skipped, &value)?);
            self.found.extend(behind.iter().map(|range| under(&value, range)));
            self.values += 1;
            self.from = key::prefix_end(&value);
            if self.from.is_none() {
                break;
            }
            ex.check_cancel()?;
        }
        Ok(Some(Ranges::Spans(std::mem::take(&mut self.found))))
    }
}

/// A range of what follows a value, as a range of whole keys.
pub fn under(value: &Key, range: &KeyRange) -> KeyRange {
    let join = |bytes: &Key| {
        let mut joined = value.clone();
        joined.extend_from_slice(bytes);
        joined
    };
    let low = match &range.low {
        Bound::Included(bytes) => Bound::Included(join(bytes)),
        Bound::Excluded(bytes) => Bound::Excluded(join(bytes)),
        Bound::Unbounded => Bound::Included(value.clone()),
    };
    let high = match &range.high {
        Bound::Included(bytes) => Bound::Included(join(bytes)),
        Bound::Excluded(bytes) => Bound::Excluded(join(bytes)),
        Bound::Unbounded => key::prefix_end(value).map_or(Bound::Unbounded, Bound::Excluded),
    };
    KeyRange { low, high }
}
