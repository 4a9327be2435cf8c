//! Reading the rows of some ranges into vectors, a batch at a time.
//!
//! Invariants: a batch holds the rows from its beginning to where the scan is, each once, in the
//! order of their keys. The transaction comes to depend on what was looked at, as if rows were
//! read. Between two calls nothing is borrowed.

use std::ops::{Bound, ControlFlow};

use colibri_catalog::Table;
use colibri_catalog::column_reader::ColumnReader;
use colibri_catalog::store_error::InSql as _;
use colibri_txn::{ColumnSet, Direction, Key, KeyRange, Space};
use colibri_types::column_vector::ColumnVector;
use colibri_types::{Datum, Error, Result};
use smallvec::SmallVec;

use crate::Exec;
use crate::ranges::rest;

/// Rows of a batch at most. Tests have small ones.
pub(super) const ROWS_MAX: usize = if cfg!(test) { 16 } else { 1024 };
/// A batch of large rows ends with the one that makes it this large.
const BYTES_MAX: usize = 1 << 20;

/// Ranges of keys, in order.
pub(crate) type Spans = SmallVec<[KeyRange; 1]>;

/// How far a scan is.
#[derive(Clone, Default)]
struct Position {
    /// Ranges that were read to their ends.
    done: usize,
    /// The last key read of the range behind these.
    last: Option<Key>,
}

/// How reading a batch went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// The batch is full.
    Full,
    /// All rows are read; the last ones are in the batch.
    All,
    /// The budget is used up.
    Yield,
    /// A row does not go into vectors: the rows of this batch are to be read one by one.
    Odd,
}

/// A scan of a table into vectors.
pub(super) struct ColumnScan {
    space: Space,
    depends: ColumnSet,
    reader: ColumnReader,
    vectors: Vec<ColumnVector>,
    spans: Spans,
    at: Position,
    /// Where the batch began.
    start: Position,
    rows: usize,
    bytes: usize,
    scratch: Vec<Datum>,
}

impl ColumnScan {
    /// `None` if some of the columns have no vectors.
    pub(super) fn new(table: &Table, depends: ColumnSet, columns: &[usize]) -> Option<Self> {
        let (reader, vectors) = ColumnReader::new(table, columns)?;
        Some(Self {
            space: table.space(),
            depends,
            reader,
            vectors,
            spans: Spans::new(),
            at: Position::default(),
            start: Position::default(),
            rows: 0,
            bytes: 0,
            scratch: Vec::new(),
        })
    }

    /// Begins with some ranges.
    pub(super) fn begin(&mut self, spans: Spans) {
        (self.spans, self.at) = (spans, Position::default());
        self.next_batch();
    }

    /// Begins a batch where the scan is.
    pub(super) fn next_batch(&mut self) {
        self.vectors.iter_mut().for_each(ColumnVector::clear);
        (self.rows, self.bytes) = (0, 0);
        self.start.clone_from(&self.at);
    }

    /// The batch: its columns and how many rows it has.
    pub(super) fn batch(&self) -> (&[ColumnVector], usize) {
        (&self.vectors, self.rows)
    }

    /// Bytes that the batch takes.
    pub(super) fn bytes(&self) -> usize {
        self.vectors.iter().map(ColumnVector::bytes).sum()
    }

    /// Gives the memory of the batch back, which is not looked at any more.
    pub(super) fn give_back(&mut self) {
        self.vectors.iter_mut().for_each(|vector| *vector = vector.empty());
    }

    /// What the batch at hand was read from.
    pub(super) fn spans_of_batch(&self) -> Spans {
        self.spans_between(Some(&self.at))
    }

    /// The same, and all that is left.
    pub(super) fn spans_from_batch(&self) -> Spans {
        self.spans_between(None)
    }

    fn spans_between(&self, end: Option<&Position>) -> Spans {
        let mut spans = Spans::new();
        for (index, span) in self.spans.iter().enumerate().skip(self.start.done) {
            let mut span = if index == self.start.done {
                rest(span, self.start.last.as_ref(), Direction::Forward)
            } else {
                span.clone()
            };
            match end {
                Some(end) if index > end.done => break,
                Some(end) if index == end.done => match &end.last {
                    Some(last) => span.high = Bound::Included(last.clone()),
                    None => break,
                },
                _ => {}
            }
            spans.push(span);
        }
        spans
    }

    /// Reads on.
    ///
    /// # Errors
    /// Of the transaction, and damaged rows.
    pub(super) fn fill(&mut self, ex: &mut Exec<'_, '_>) -> Result<Filled> {
        while self.at.done < self.spans.len() {
            if self.rows >= ROWS_MAX || self.bytes >= BYTES_MAX {
                return Ok(Filled::Full);
            }
            if ex.is_used_up() {
                return Ok(Filled::Yield);
            }
            ex.check_cancel()?;
            if !self.read_some(ex)? {
                return Ok(Filled::Odd);
            }
        }
        Ok(Filled::All)
    }

    /// Reads until the batch is full, the budget used up or the range at its end; `false` if a row
    /// does not go into the vectors.
    fn read_some(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let visited_max = (ROWS_MAX - self.rows).min(ex.cx.budget_rows.max(1) as usize);
        let (mut visited, mut is_odd, mut broken) = (0, false, None);
        let mut failed: Option<Error> = None;
        let left = rest(&self.spans[self.at.done], self.at.last.as_ref(), Direction::Forward);
        let Self { reader, vectors, scratch, bytes, space, depends, .. } = self;
        let mut visitor = |key: &[u8], value: &[u8]| {
            visited += 1;
            *bytes += reader.expanded_bytes(value);
            match reader.read(key, value, scratch, vectors) {
                Ok(is_taken) => is_odd = !is_taken,
                Err(error) => failed = Some(error),
            }
            if is_odd || failed.is_some() || visited >= visited_max || *bytes >= BYTES_MAX {
                broken = Some(Key::from_slice(key));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        ex.txn.scan(space, &left, Direction::Forward, *depends, visited_max, &mut visitor).in_sql()?;
        ex.spend(visited);
        if let Some(error) = failed {
            return Err(error);
        }
        self.rows += visited;
        match broken {
            Some(key) => self.at.last = Some(key),
            None => self.at = Position { done: self.at.done + 1, last: None },
        }
        Ok(!is_odd)
    }
}
