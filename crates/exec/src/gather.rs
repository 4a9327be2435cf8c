//! Rows that are found by indexes and looked up in the order of their own keys: by any of several
//! (`a = 1 OR b = 2`) or by all of them (`a = 1 AND b = 2`).
//!
//! The keys of the rows are gathered from the indexes first, sorted, and each kept once; then the
//! rows are looked up. Those that are near each other are looked up one after the other, so that
//! each page is visited once. The condition is asked again of each row, so what is gathered may be
//! too much, never too little: if the keys outgrow the statement's memory, all of the table is read
//! instead. Where all indexes have to find a row, those that are left are not asked then.

use std::ops::ControlFlow;

use colibri_catalog::{Index, Table, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, Key};
use colibri_types::{Error, Result};
use smallvec::SmallVec;

use super::Exec;
use super::gathered_keys::{Keys, VISITED_MAX};
use super::inverted::{Asked, Search};
use super::memory::{Reservation, Use};
use super::ranges::{Ranges, key_ranges, rest};
use crate::plan::Access;

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
    keys: Keys,
    /// Where all indexes have to find a row: the keys that those before have found, sorted.
    found: Option<Keys>,
    /// The tokens that are being looked for.
    search: Option<Search>,
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
            match self.go_on(table, part, ex)? {
                Progress::Some => {}
                Progress::Over => {
                    self.next_part();
                    if by_all {
                        self.keep_common()?;
                    }
                }
                // It says nothing, and so leaves what the others find.
                Progress::Useless if by_all => self.next_part(),
                Progress::Useless => return Ok(Some(self.everything())),
            }
            if self.found.as_ref().is_some_and(Keys::is_empty) {
                break;
            }
            let bytes = self.keys.bytes()
                + self.found.as_ref().map_or(0, Keys::bytes)
                + self.search.as_ref().map_or(0, Search::bytes);
            if !self.memory.hold(ex.cx.memory, bytes, Use::Rows) {
                (self.keys, self.search) = (Keys::default(), None);
                if self.found.is_some() {
                    break;
                }
                return Ok(Some(self.everything()));
            }
            ex.check_cancel()?;
        }
        let keys = match self.found.take() {
            Some(found) => found,
            None if by_all => return Ok(Some(self.everything())),
            None => std::mem::take(&mut self.keys).sorted()?,
        };
        Ok(Some(Ranges::Points(keys.unpacked())))
    }

    fn next_part(&mut self) {
        self.part += 1;
        (self.ranges, self.done) = (None, 0);
    }

    /// All of the table instead.
    fn everything(&mut self) -> Ranges {
        (self.keys, self.search) = (Keys::default(), None);
        self.memory.release();
        Ranges::Spans(SmallVec::from_iter([record::whole_range()]))
    }

    /// Takes some keys of a part.
    fn go_on(&mut self, table: &Table, part: &Access, ex: &mut Exec<'_, '_>) -> Result<Progress> {
        if let Access::Inverted { index, conditions } = part {
            let search = match &mut self.search {
                Some(search) => search,
                None => match Search::begin((table, index), conditions, ex)? {
                    Asked::Everything => return Ok(Progress::Useless),
                    Asked::Nothing => return Ok(Progress::Over),
                    Asked::Search(search) => self.search.insert(search),
                },
            };
            let Some(keys) = search.step((table, index), ex)? else { return Ok(Progress::Some) };
            self.search = None;
            self.keys.append(keys);
            return Ok(Progress::Over);
        }
        if self.ranges.is_none() {
            self.ranges = Some(key_ranges(table, part, &mut ex.scope())?);
        }
        Ok(if self.part_is_over(table, part, ex)? { Progress::Over } else { Progress::Some })
    }

    /// Keeps those of the keys found before that were gathered now as well.
    fn keep_common(&mut self) -> Result<()> {
        let keys = std::mem::take(&mut self.keys).sorted()?;
        self.found = Some(match self.found.take() {
            Some(found) => found.common(keys),
            None => keys,
        });
        Ok(())
    }

    /// Takes the keys of the next range, or of a piece of it.
    fn part_is_over(&mut self, table: &Table, part: &Access, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let (ranges, index) = match (&self.ranges, part) {
            (Some(Ranges::Points(keys)), _) => {
                keys.iter().for_each(|key| self.keys.push(key));
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

/// What came of going on with a part.
enum Progress {
    Some,
    Over,
    /// All rows may be meant.
    Useless,
}

/// The key of the row that an entry of an index leads to, or that is the table's own.
fn key_of<'e>(table: &Table, index: Option<&Index>, entry: &'e [u8]) -> Result<&'e [u8]> {
    match index {
        Some(index) => record::split_index_entry(table, index, entry),
        None => Ok(entry),
    }
}
