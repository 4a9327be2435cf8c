//! Groups of the rows of a table by the first columns of a key: a loose scan.
//!
//! ```text
//! SELECT k, count(*), max(v) FROM t GROUP BY k      an index of (k, v)
//!
//!   seek: the first entry behind the last group ─► its k
//!         count the keys that begin with k, in O(log n); the last of them that has a v
//! ```
//! The rows between are not visited, so that it takes as many seeks as there are groups.
//!
//! Invariants: a group is given as a whole or, where something has to be fetched, not yet. The
//! transaction depends on each group's first key, on there being none between two groups, and on what
//! was counted or looked at inside.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use colibri_catalog::record::{self, IndexReader, RowReader};
use colibri_catalog::store_error::InSql as _;
use colibri_txn::{ColumnSet, Direction, Key, KeyRange, Space};
use colibri_types::{Datum, Error, Result, key};
use smallvec::SmallVec;

use super::operator::Operator;
use super::{Batch, Exec, Step};
use crate::plan::{GroupScan, KeyCall};

/// What a seek costs, in rows looked at.
const ROWS_PER_SEEK: i64 = 10;

/// A scan of groups at work.
pub(super) struct GroupScanRun {
    scan: Arc<GroupScan>,
    space: Space,
    reader: Reader,
    /// Behind all keys of the groups given so far.
    from: Bound<Key>,
    is_over: bool,
    /// The columns of the groups and the one behind them, of the key that was read last.
    values: Vec<Datum>,
}

/// What reads columns of a key.
enum Reader {
    Index(Box<IndexReader>),
    Table(Box<RowReader>),
}

impl GroupScanRun {
    pub(super) fn new(scan: &Arc<GroupScan>) -> Self {
        let columns = scan.read_columns();
        let reader = match scan.index.as_ref().and_then(|index| IndexReader::new(&scan.table, index, &columns)) {
            Some(reader) => Reader::Index(Box::new(reader)),
            None => Reader::Table(Box::new(RowReader::new(&scan.table, &columns))),
        };
        let space = scan.index.as_ref().map_or_else(|| scan.table.space(), |index| index.space());
        let values = vec![Datum::Null; columns.len()];
        Self { scan: Arc::clone(scan), space, reader, from: Bound::Unbounded, is_over: false, values }
    }

    fn start(&mut self) {
        (self.from, self.is_over) = (Bound::Unbounded, false);
    }

    /// The next group; `None` behind the last one.
    fn next(&mut self, ex: &mut Exec<'_, '_>) -> Result<Option<SmallVec<[Datum; 4]>>> {
        let left = KeyRange { low: self.from.clone(), high: Bound::Unbounded };
        let Some(mut prefix) = self.look(&left, Direction::Forward, ex)? else { return Ok(None) };
        let (table, index, columns) = (&*self.scan.table, self.scan.index.as_deref(), self.scan.columns);
        prefix.truncate(record::prefix_bytes(table, index, columns, &prefix)?);
        let mut row: SmallVec<[Datum; 4]> = self.values[..columns].iter().cloned().collect();
        let scan = Arc::clone(&self.scan);
        for call in &scan.calls {
            row.push(self.call(*call, &prefix, ex)?);
        }
        match key::prefix_end(&prefix) {
            Some(end) => self.from = Bound::Included(end),
            None => self.is_over = true,
        }
        Ok(Some(row))
    }

    fn call(&mut self, call: KeyCall, prefix: &Key, ex: &mut Exec<'_, '_>) -> Result<Datum> {
        ex.spend(ROWS_PER_SEEK as usize);
        let is_least = call == KeyCall::Least;
        match call {
            KeyCall::Rows => {
                let range = record::prefix_range(prefix.clone());
                Ok(Datum::Int(ex.txn.count(&self.space, &range).in_sql()? as i64))
            }
            KeyCall::NotNull => Ok(Datum::Int(ex.txn.count(&self.space, &self.not_null(prefix)).in_sql()? as i64)),
            KeyCall::Least | KeyCall::Greatest => {
                let forward = is_least != self.scan.is_descending();
                let direction = if forward { Direction::Forward } else { Direction::Backward };
                let range = self.not_null(prefix);
                let found = self.look(&range, direction, ex)?;
                let value = self.values.get_mut(self.scan.columns);
                let value = value.ok_or_else(|| Error::internal("a key has no column behind its groups"))?;
                Ok(if found.is_some() { std::mem::take(value) } else { Datum::Null })
            }
        }
    }

    /// The keys of a group in which the column behind it is not NULL.
    fn not_null(&self, prefix: &Key) -> KeyRange {
        record::not_null_range(self.scan.index.as_deref(), prefix.clone())
    }

    /// Reads the first key of a range, or the last one.
    fn look(&mut self, range: &KeyRange, direction: Direction, ex: &mut Exec<'_, '_>) -> Result<Option<Key>> {
        let Self { space, reader, values, .. } = self;
        let (mut found, mut read) = (None, Ok(()));
        let mut visit = |key: &[u8], value: &[u8]| {
            read = match reader {
                Reader::Index(reader) => reader.read(key, values).map(|_| ()),
                Reader::Table(reader) => reader.read(key, value, values),
            };
            found = Some(Key::from_slice(key));
            ControlFlow::Break(())
        };
        ex.txn.scan(space, range, direction, ColumnSet::NONE, 1, &mut visit).in_sql()?;
        read.map(|()| found)
    }
}

impl Operator for GroupScanRun {
    fn reset(&mut self) {
        self.start();
        self.values.fill(Datum::Null);
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.start();
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        out.reset(self.scan.columns + self.scan.calls.len());
        while !self.is_over && !out.is_full() {
            if ex.is_used_up() {
                return Ok(if out.is_empty() { Step::Yield } else { Step::Rows });
            }
            ex.spend(ROWS_PER_SEEK as usize);
            match self.next(ex) {
                Ok(Some(mut row)) => out.push_taken(&mut row),
                Ok(None) => self.is_over = true,
                Err(error) => return ex.interrupted(error, out),
            }
            ex.check_cancel()?;
        }
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}
