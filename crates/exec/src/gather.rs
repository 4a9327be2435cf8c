//! Rows that are found by indexes and looked up in the order of their own keys: by any of several
//! (`a = 1 OR b = 2`), by all of them (`a = 1 AND b = 2`), or by one that finds many.
//!
//! The keys of the rows are gathered from the indexes first, sorted, and each kept once; then the
//! rows are looked up. Those that are near each other are looked up one after the other, so that
//! each page is visited once. The condition is asked again of each row, so what is gathered may be
//! too much, never too little: if the keys outgrow the statement's memory, all of the table is read
//! instead, or what the indexes before have found.

use std::ops::ControlFlow;

use colibri_catalog::{Index, Table, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, Key};
use colibri_types::{Error, Result};
use smallvec::SmallVec;

use super::memory::{Reservation, Use};
use super::ranges::{Ranges, key_ranges, rest};
use super::{Exec, merge_sort};
use crate::plan::Access;

/// The most entries that one call of [`colibri_txn::Transaction::scan`] visits.
pub(super) const VISITED_MAX: usize = 4096;

/// Keys that are being gathered.
#[derive(Default)]
pub(super) struct Gather {
    /// Which of the accesses is at work.
    part: usize,
    ranges: Option<Ranges>,
    /// How many ranges of it were visited to their ends.
    done: usize,
    /// The last entry visited of the range at hand.
    last: Option<Key>,
    keys: Vec<Key>,
    /// Where all indexes have to find a row: the keys that those before have found, sorted.
    found: Option<Vec<Key>>,
    /// For the keys, as long as they are looked up.
    memory: Reservation,
}

impl Gather {
    /// Goes on. Nothing while the budget is used up; in the end the keys.
    ///
    /// # Errors
    /// Of the transaction, and of evaluating what keys are compared with.
    pub(super) fn step(
        &mut self,
        table: &Table,
        (parts, by_all): (&[Access], bool),
        ex: &mut Exec<'_, '_>,
    ) -> Result<Option<Ranges>> {
        while let Some(part) = parts.get(self.part) {
            if ex.cx.budget_rows <= 0 {
                return Ok(None);
            }
            if self.ranges.is_none() {
                self.ranges = Some(key_ranges(table, part, &mut ex.scope())?);
            }
            if self.part_is_over(table, part, ex)? {
                self.part += 1;
                (self.ranges, self.done) = (None, 0);
                if by_all {
                    self.keep_common()?;
                }
            }
            let found = self.found.as_ref().map_or(0, Vec::len);
            if by_all && found == 0 && self.found.is_some() {
                break;
            }
            if !self.memory.hold(ex.cx.memory, (self.keys.len() + found) * size_of::<Key>(), Use::Rows) {
                self.keys = Vec::new();
                if self.found.is_some() {
                    break;
                }
                self.memory.release();
                let everything = SmallVec::from_iter([record::whole_range()]);
                return Ok(Some(Ranges::Spans(everything)));
            }
            ex.check_cancel()?;
        }
        let keys = match self.found.take() {
            Some(found) => found,
            None => self.sorted_keys()?,
        };
        Ok(Some(Ranges::Points(keys.into())))
    }

    /// Takes the keys gathered so far.
    fn sorted_keys(&mut self) -> Result<Vec<Key>> {
        let mut keys = std::mem::take(&mut self.keys);
        merge_sort::sort(&mut keys, merge_sort::PIECE, Ord::cmp)?;
        keys.dedup();
        Ok(keys)
    }

    /// Keeps those of the keys found before that were gathered now as well.
    fn keep_common(&mut self) -> Result<()> {
        let keys = self.sorted_keys()?;
        let Some(found) = &mut self.found else {
            self.found = Some(keys);
            return Ok(());
        };
        let mut at = 0;
        found.retain(|key| {
            while keys.get(at).is_some_and(|other| other < key) {
                at += 1;
            }
            keys.get(at) == Some(key)
        });
        Ok(())
    }

    /// Takes the keys of the next range, or of a piece of it.
    fn part_is_over(&mut self, table: &Table, part: &Access, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let (ranges, index) = match (&self.ranges, part) {
            (Some(Ranges::Points(keys)), _) => {
                self.keys.extend(keys.iter().cloned());
                return Ok(true);
            }
            (Some(Ranges::Spans(ranges)), Access::Key { .. }) => (ranges, None),
            (Some(Ranges::Spans(ranges)), Access::Index { index, .. }) => (ranges, Some(index)),
            _ => return Err(Error::internal("keys are gathered by ranges of a table or an index")),
        };
        let Some(range) = ranges.get(self.done) else { return Ok(true) };
        let space = index.map_or_else(|| table.space(), |index| index.space());
        let left = rest(range, self.last.as_ref(), Direction::Forward);
        let visited_max = VISITED_MAX.min(ex.cx.budget_rows.max(1) as usize);
        let (mut visited, mut failed) = (0, None);
        let (keys, mut last) = (&mut self.keys, None);
        ex.txn
            .scan(&space, &left, Direction::Forward, ColumnSet::NONE, visited_max, &mut |entry, _| {
                match key_of(table, index.map(|index| &**index), entry) {
                    Ok(key) => keys.push(key),
                    Err(error) => failed = Some(error),
                }
                visited += 1;
                if visited < visited_max && failed.is_none() {
                    return ControlFlow::Continue(());
                }
                last = Some(Key::from_slice(entry));
                ControlFlow::Break(())
            })
            .in_sql()?;
        self.last = last;
        if let Some(error) = failed {
            return Err(error);
        }
        ex.cx.budget_rows -= visited as i64;
        if self.last.is_none() {
            self.done += 1;
        }
        Ok(self.done == ranges.len())
    }
}

/// The key of the row that an entry of an index leads to, or that is the table's own.
fn key_of(table: &Table, index: Option<&Index>, entry: &[u8]) -> Result<Key> {
    match index {
        Some(index) => record::split_index_entry(table, index, entry).map(Key::from_slice),
        None => Ok(Key::from_slice(entry)),
    }
}
