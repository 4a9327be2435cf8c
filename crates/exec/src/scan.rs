//! Reading tables.
//!
//! A scan reads a batch at a time. The visitor that the transaction calls decodes the columns asked
//! for, evaluates the filter and breaks off when the batch is full, so that the transaction comes
//! to depend on no more than was looked at; the next batch begins behind the last key visited.
//!
//! Through an index that does not cover all columns, entries are collected first and their rows
//! fetched then, in the index' order.
//!
//! Invariants: rows come in the order of the keys visited, backwards if the plan says so, each
//! once.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use colibri_catalog::{
    Index, Table, record, store_error,
    store_error::{InSql as _, Pause},
};
use colibri_txn::{ColumnSet, Direction, Key, KeyRange, Skipped, Space, Transaction};
use colibri_types::{Datum, Error, Result, SqlState, pulse};
use smallvec::SmallVec;

use super::ahead::Ahead;
use super::filtered_entries::FilteredEntries;
use super::filtered_rows::FilteredRows;
use super::gather::Gather;
use super::gathered_keys::VISITED_MAX;
use super::operator::{Beyond, Operator};
use super::parallel::Morsel;
use super::ranges::{Ranges, key_ranges, rest};
use super::skip_scan::SkipScan;
use super::{Batch, Exec, Scope, Step, operator_cache};
use crate::expr::Expr;
use crate::plan::{Access, KeyRanges, Scan};

/// In no more ranges than that are rows left out without a look at them.
const SKIPPED_IN_MAX: usize = 64;
/// Rows that are looked up together at most.
const LOOKED_UP_AT_ONCE: usize = 64;

/// A scan of a plan at work.
pub(super) struct ScanOperator {
    scan: Arc<Scan>,
    /// Where it looks, if it is the driving scan of a grouping that may be divided.
    morsel: Option<Arc<Morsel>>,
    reader: Reader,
    run: ScanRun,
}

/// A scan at work.
pub(super) struct ScanRun {
    ranges: Option<Ranges>,
    /// How many ranges were visited to their ends.
    done: usize,
    /// The last key visited of the range at hand.
    last: Option<Key>,
    /// Through an index: the rows' keys, one after the other, and where each ends; with the
    /// entries' own.
    entries: Entries,
    ahead: Ahead,
    /// The keys that several indexes lead to, while they are gathered.
    gather: Option<Box<Gather>>,
    /// The ranges below values of columns that are skipped, while they are found.
    skip_scan: Option<Box<SkipScan>>,
}

/// Where rows are, and how they are read: the same in all runs of a plan.
pub(super) enum Reader {
    Table { space: Space, rows: FilteredRows },
    Covering { space: Space, rows: FilteredEntries },
    Index { space: Space, table_space: Space, rows: FilteredRows },
}

/// What a scan is to do, besides where it is.
#[derive(Clone, Copy)]
struct Wanted<'p> {
    reader: &'p Reader,
    table: &'p Table,
    access: &'p Access,
    width: usize,
    direction: Direction,
    is_filtered: bool,
    depends: ColumnSet,
}

/// Entries of an index read ahead.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Entries {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, entry: &[u8]) {
        self.bytes.extend_from_slice(entry);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

impl Reader {
    fn new(table: &Arc<Table>, access: &Access, columns: &[usize], filter: Option<&Expr>) -> Self {
        let rows = || FilteredRows::new(table, columns, filter);
        match access {
            Access::Key { .. } | Access::Gathered { .. } | Access::Inverted { .. } => {
                Self::Table { space: table.space(), rows: rows() }
            }
            Access::Index { index, covering, .. } => match FilteredEntries::new(table, index, columns, filter) {
                Some(rows) if *covering => Self::Covering { space: index.space(), rows },
                _ => Self::Index { space: index.space(), table_space: table.space(), rows: rows() },
            },
        }
    }
}

impl Reader {
    /// Computes what is the same for all rows of a run.
    #[inline]
    fn settle(&mut self, ex: &mut Exec<'_, '_>) {
        match self {
            Self::Table { rows, .. } | Self::Index { rows, .. } => rows.settle(&mut ex.scope()),
            Self::Covering { rows, .. } => rows.settle(&mut ex.scope()),
        }
    }

    /// Another run begins.
    fn reset(&mut self) {
        match self {
            Self::Table { rows, .. } | Self::Index { rows, .. } => rows.reset(),
            Self::Covering { rows, .. } => rows.reset(),
        }
    }

    /// See [`Operator::leave_out`]; `None`: no rows any more.
    fn leave_out(&mut self, scan: &Scan, beyond: Option<Beyond>) {
        match self {
            Self::Table { rows, .. } | Self::Index { rows, .. } if beyond.is_some() || rows.leaves_out() => {
                rows.leave_out(&scan.table, &scan.columns, beyond);
            }
            _ => {}
        }
    }
}

impl ScanOperator {
    pub(super) fn new(scan: &Arc<Scan>, morsel: Option<Arc<Morsel>>) -> Self {
        let reader = Reader::new(&scan.table, &scan.access, &scan.columns, scan.filter.as_ref());
        Self { scan: Arc::clone(scan), morsel, reader, run: ScanRun::new() }
    }
}

impl Operator for ScanOperator {
    fn reset(&mut self) {
        self.run.reset();
        self.reader.reset();
        self.reader.leave_out(&self.scan, None);
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.run.rewind();
        self.reader.leave_out(&self.scan, None);
    }

    fn look_at(&mut self, columns: &[usize]) {
        match &mut self.reader {
            Reader::Table { rows, .. } | Reader::Index { rows, .. } => rows.look_at(columns),
            Reader::Covering { rows, .. } => rows.look_at(columns),
        }
    }

    fn leave_out(&mut self, beyond: Beyond) {
        self.reader.leave_out(&self.scan, Some(beyond));
    }

    fn skip(&mut self, rows: u64, ex: &mut Exec<'_, '_>) -> Result<u64> {
        let scan = &*self.scan;
        if scan.filter.is_some() || matches!(scan.access, Access::Gathered { .. }) || scan.access.skips() {
            return Ok(0);
        }
        self.run.skip((&scan.table, &scan.access), scan.direction, rows, ex)
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let scan = &*self.scan;
        if self.run.ranges.is_none() {
            self.reader.settle(ex);
            self.run.ranges = self.morsel.as_ref().and_then(|morsel| morsel.get());
        }
        let wanted = Wanted {
            reader: &self.reader,
            table: &scan.table,
            access: &scan.access,
            width: scan.columns.len(),
            direction: scan.direction,
            is_filtered: scan.filter.is_some(),
            depends: scan.depends,
        };
        self.run.run(wanted, ex, out)
    }
}

impl ScanRun {
    pub(super) fn new() -> Self {
        Self {
            ranges: None,
            done: 0,
            last: None,
            entries: Entries::default(),
            ahead: Ahead::default(),
            gather: None,
            skip_scan: None,
        }
    }

    #[inline]
    pub(super) fn rewind(&mut self) {
        self.ranges = None;
        self.done = 0;
        self.last = None;
        self.ahead = Ahead::default();
        self.gather = None;
        self.skip_scan = None;
    }

    fn reset(&mut self) {
        self.rewind();
        operator_cache::empty(&mut self.entries.bytes);
        operator_cache::empty(&mut self.entries.ends);
    }

    /// What to visit; nothing while the budget is used up.
    #[inline]
    fn find_ranges(&mut self, wanted: Wanted<'_>, ex: &mut Exec<'_, '_>) -> Result<Option<Ranges>> {
        if let Access::Gathered { parts, by_all } = wanted.access {
            return self.gather.get_or_insert_default().step(wanted.table, (parts, *by_all), ex);
        }
        if wanted.access.skips() {
            return self.skip_scan.get_or_insert_default().step(wanted.table, wanted.access, ex);
        }
        key_ranges(wanted.table, wanted.access, &mut ex.scope()).map(Some)
    }

    /// Skips at most `rows` rows, and returns how many it has skipped. See [`Operator::skip`].
    fn skip(
        &mut self,
        (table, access): (&Table, &Access),
        direction: Direction,
        rows: u64,
        ex: &mut Exec<'_, '_>,
    ) -> Result<u64> {
        if self.ranges.is_some() {
            return Ok(0);
        }
        let ranges = key_ranges(table, access, &mut ex.scope())?;
        let (space, mut skipped) = (access.space(table), 0);
        if let Ranges::Spans(spans) = &ranges
            && spans.len() <= SKIPPED_IN_MAX
        {
            while skipped < rows && self.done < spans.len() {
                let at = if direction == Direction::Forward { self.done } else { spans.len() - 1 - self.done };
                match ex.txn.skip(&space, &spans[at], direction, rows - skipped) {
                    Ok(None) => break,
                    Ok(Some(Skipped::All(count))) => {
                        skipped += count;
                        self.done += 1;
                    }
                    Ok(Some(Skipped::Until(key))) => {
                        self.last = Some(key);
                        skipped = rows;
                    }
                    Err(error) => {
                        self.done = 0;
                        return Err(error).in_sql();
                    }
                }
                ex.spend(1);
            }
        }
        self.ranges = Some(ranges);
        Ok(skipped)
    }

    fn run(&mut self, wanted: Wanted<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        out.reset(wanted.width);
        if self.ranges.is_none() {
            match self.find_ranges(wanted, ex) {
                Ok(Some(ranges)) => self.ranges = Some(ranges),
                Ok(None) => return Ok(Step::Yield),
                Err(error) => return ex.interrupted(error, out),
            }
            if let (Some(Ranges::Points(keys)), Reader::Table { space, .. }, true) =
                (&self.ranges, wanted.reader, ex.txn.fetches())
            {
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                ex.txn.prefetch(space, &keys, &[]);
            }
        }
        let Some(ranges) = &self.ranges else { return Ok(Step::Done) };
        let count = ranges.len();
        while self.done < count {
            if ex.cx.budget_rows <= 0 {
                return Ok(if out.is_empty() { Step::Yield } else { Step::Rows });
            }
            let mut scope = Scope::repeated(ex.cx.env, ex.cx.params, ex.slots, ex.lists);
            let visited_max = VISITED_MAX.min(ex.cx.budget_rows as usize);
            let index = if wanted.direction == Direction::Forward { self.done } else { count - 1 - self.done };
            let visited = match (wanted.reader, ranges) {
                (Reader::Table { space, rows }, Ranges::Points(keys)) => {
                    let at_once = LOOKED_UP_AT_ONCE.min(visited_max).min(count - self.done);
                    let mut near = Keys::new();
                    match wanted.direction {
                        Direction::Forward => near.extend(keys[index..index + at_once].iter().map(|key| &key[..])),
                        Direction::Backward => {
                            near.extend(keys[index + 1 - at_once..=index].iter().rev().map(|key| &key[..]));
                        }
                    }
                    let (visited, result) = look_up(ex.txn, (space, &near), wanted.depends, |at, value| match value {
                        Some(value) => rows.read(near[at], value, &mut scope, out).map(|()| out.is_full()),
                        None => Ok(false),
                    });
                    ex.cx.budget_rows -= visited as i64;
                    self.done += visited;
                    result.map(|()| (0, false))
                }
                (_, Ranges::Points(_)) => return Err(Error::internal("an index has no whole keys")),
                (Reader::Table { space, rows }, Ranges::Spans(spans)) => visit(
                    ex.txn,
                    (space, wanted.depends),
                    &spans[index],
                    &mut self.last,
                    (wanted.direction, visited_max),
                    out,
                    |key, value, out| rows.read(key, value, &mut scope, out),
                ),
                (Reader::Covering { space, rows }, Ranges::Spans(spans)) => visit(
                    ex.txn,
                    (space, ColumnSet::NONE),
                    &spans[index],
                    &mut self.last,
                    (wanted.direction, visited_max),
                    out,
                    |key, _, out| rows.read(key, &mut scope, out),
                ),
                (Reader::Index { space, table_space, rows }, Ranges::Spans(spans)) => {
                    let room = out.rows_max() - out.rows();
                    let ahead = if wanted.is_filtered { self.ahead.next(out) } else { room };
                    let Access::Index { index: definition, .. } = wanted.access else {
                        return Err(Error::internal("a scan of an index has none"));
                    };
                    let before = out.rows();
                    let fetched = fetch(
                        ex.txn,
                        (definition, space),
                        (table_space, rows),
                        wanted,
                        (&spans[index], &mut self.last, &mut self.entries, ahead.min(visited_max)),
                        &mut scope,
                        out,
                    );
                    if let Ok((visited, _)) = &fetched {
                        self.ahead.note_read(*visited);
                        self.ahead.note_given(out.rows() - before);
                    }
                    fetched
                }
            };
            let (visited, over) = match visited {
                Ok(visited) => visited,
                Err(error) => return ex.interrupted(error, out),
            };
            ex.cx.budget_rows -= visited as i64;
            if over {
                self.done += 1;
                self.last = None;
            }
            if out.is_full() {
                break;
            }
            ex.check_cancel()?;
        }
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}

/// Hands entries of a range to `take` until the batch is full or `visited_max` are done. Gives how
/// many there were, and whether the range is at its end. If it fails, it can be called again.
#[inline]
fn visit(
    txn: &mut dyn Transaction,
    (space, depends): (&Space, ColumnSet),
    range: &KeyRange,
    last: &mut Option<Key>,
    (direction, visited_max): (Direction, usize),
    out: &mut Batch,
    mut take: impl FnMut(&[u8], &[u8], &mut Batch) -> Result<()>,
) -> Result<(usize, bool)> {
    let mut visited = 0;
    let mut broken = None;
    let mut failed = None;
    let left;
    let range = match &*last {
        None => range,
        last => {
            left = rest(range, last.as_ref(), direction);
            &left
        }
    };
    let mut visitor = |key: &[u8], value: &[u8]| {
        visited += 1;
        if let Err(error) = take(key, value, out) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        if out.is_full() || visited >= visited_max {
            broken = Some(Key::from_slice(key));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    txn.scan(space, range, direction, depends, visited_max, &mut visitor).in_sql()?;
    if let Some(error) = failed {
        return Err(error);
    }
    let over = broken.is_none();
    *last = broken;
    Ok((visited, over))
}

/// Reads entries of an index ahead and fetches their rows. If a row has to be fetched from afar, it
/// gives those before it first, and can be called again.
fn fetch(
    txn: &mut dyn Transaction,
    (index, space): (&Arc<Index>, &Space),
    (table_space, rows): (&Space, &FilteredRows),
    wanted: Wanted<'_>,
    (range, last, entries, ahead): (&KeyRange, &mut Option<Key>, &mut Entries, usize),
    scope: &mut Scope<'_>,
    out: &mut Batch,
) -> Result<(usize, bool)> {
    entries.clear();
    let left = rest(range, last.as_ref(), wanted.direction);
    let mut broken = false;
    txn.scan(space, &left, wanted.direction, ColumnSet::NONE, ahead, &mut |entry, _| {
        entries.push(entry);
        broken = entries.ends.len() >= ahead;
        if broken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .in_sql()?;
    let count = entries.ends.len();
    let key_of = |at: usize| record::split_index_entry(wanted.table, index, entries.get(at));
    let mut near = Keys::new();
    if txn.fetches() {
        for at in 0..count {
            near.push(key_of(at)?);
        }
        txn.prefetch(table_space, &near, &[]);
    }
    let mut done = 0;
    while done < count {
        near.clear();
        for at in done..count.min(done + LOOKED_UP_AT_ONCE) {
            near.push(key_of(at)?);
        }
        let (visited, result) = look_up(txn, (table_space, &near), wanted.depends, |at, value| {
            rows.read(near[at], value.ok_or_else(|| dangling(index))?, scope, out)?;
            Ok(out.is_full())
        });
        done += visited;
        let is_fetch = match result {
            Ok(()) => false,
            Err(error) if done > 0 && store_error::is_fetch(&error) => true,
            Err(error) => return Err(error),
        };
        if is_fetch || out.is_full() {
            *last = Some(Key::from_slice(entries.get(done - 1)));
            return Ok((done, !is_fetch && !broken && done == count));
        }
    }
    *last = if broken { Some(Key::from_slice(entries.get(count - 1))) } else { None };
    Ok((count, !broken))
}

/// Keys that are looked up together.
type Keys<'k> = SmallVec<[&'k [u8]; LOOKED_UP_AT_ONCE]>;

/// Looks up keys in turn, until `take` has enough. Gives how many values it took; the rest can be
/// looked up again.
fn look_up(
    txn: &mut dyn Transaction,
    (space, keys): (&Space, &[&[u8]]),
    depends: ColumnSet,
    mut take: impl FnMut(usize, Option<&[u8]>) -> Result<bool>,
) -> (usize, Result<()>) {
    if let [key] = keys {
        // Alone, without what it takes to load several together.
        let result = txn.get(space, key, depends).in_sql().and_then(|value| take(0, value));
        return (usize::from(result.is_ok()), result.map(|_| ()));
    }
    let (mut taken, mut failed) = (0, None);
    let result = txn.get_many(space, keys, depends, &mut |at, value| match take(at, value) {
        Ok(has_enough) => {
            taken = at + 1;
            if has_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    (taken, failed.map_or_else(|| result.in_sql(), Err))
}

#[cold]
fn dangling(index: &Index) -> Error {
    Error::new(
        SqlState::DATA_CORRUPTED,
        format!("an entry of index \"{}\" leads to a row that is not there", index.name),
    )
}

/// Looks up rows of a table outside a plan's tree: all its columns, and the hidden number where it
/// has no primary key.
pub(super) struct Lookup {
    reader: Reader,
    run: ScanRun,
    width: usize,
    is_filtered: bool,
    slots: Vec<Datum>,
}

impl Lookup {
    /// `slots` are what the access' and the filter's slots hold.
    pub(crate) fn new(table: &Arc<Table>, access: &Access, filter: Option<&Expr>, slots: Vec<Datum>) -> Self {
        let columns: Vec<usize> = (0..table.columns.len() + usize::from(table.primary_key.is_none())).collect();
        let reader = Reader::new(table, access, &columns, filter);
        Self { reader, run: ScanRun::new(), width: columns.len(), is_filtered: filter.is_some(), slots }
    }

    /// Makes sure that the rows it will look at, and which they are, are those of the newest state.
    ///
    /// # Errors
    /// They are not: the statement has to run again. And of the transaction.
    pub(crate) fn expect_newest(&self, ex: &mut Exec<'_, '_>, table: &Table, access: &Access) -> Result<()> {
        let space = access.space(table);
        if matches!(access, Access::Gathered { .. } | Access::Inverted { .. }) {
            // Which rows it will look at is known when the keys are there: any of them.
            return ex.txn.expect_newest(&space, &record::whole_range()).in_sql();
        }
        let mut scope = Scope::repeated(ex.cx.env, ex.cx.params, &self.slots, ex.lists);
        let spans = match key_ranges(table, access, &mut scope)? {
            Ranges::Points(keys) => {
                let span = |key: Key| KeyRange { low: Bound::Included(key.clone()), high: Bound::Included(key) };
                keys.into_iter().map(span).collect()
            }
            Ranges::Spans(spans) => spans,
        };
        spans.iter().try_for_each(|span| ex.txn.expect_newest(&space, span).in_sql())
    }

    /// Fills `out` with the next rows, in place of those in it; `false` if there are none. Does not
    /// heed the budget, but polls.
    ///
    /// # Errors
    /// Of the transaction, and of evaluating.
    pub(crate) fn next(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, access): (&Table, &Access),
        depends: ColumnSet,
        out: &mut Batch,
    ) -> Result<bool> {
        let (reader, width, is_filtered) = (&self.reader, self.width, self.is_filtered);
        let wanted = Wanted { reader, table, access, width, direction: Direction::Forward, is_filtered, depends };
        let budget = std::mem::replace(&mut ex.cx.budget_rows, pulse::ROWS_AT_ONCE);
        let mut inner =
            Exec { txn: ex.txn, cx: ex.cx, slots: &mut self.slots, statement: ex.statement, lists: ex.lists };
        let step = loop {
            let step = self.run.run(wanted, &mut inner, out)?;
            let fetch = inner.take_fetch();
            if let (Step::Yield, Some(wait)) = (step, fetch) {
                return Err(Error::interruption(Pause::Fetch(wait)));
            }
            inner.refill()?;
            if step != Step::Yield {
                break step;
            }
        };
        ex.cx.budget_rows = budget;
        Ok(step == Step::Rows)
    }
}

/// Counting a range without visiting it.
pub(super) struct CountRun {
    table: Arc<Table>,
    access: Arc<Access>,
    done: bool,
}

impl CountRun {
    pub(super) fn new(table: &Arc<Table>, access: &Arc<Access>) -> Self {
        Self { table: Arc::clone(table), access: Arc::clone(access), done: false }
    }
}

impl Operator for CountRun {
    fn reset(&mut self) {
        self.done = false;
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.done = false;
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let (table, access) = (&*self.table, &*self.access);
        if self.done {
            return Ok(Step::Done);
        }
        let count = match count_rows(table, access, ex) {
            Ok(count) => count,
            Err(error) => return ex.interrupted(error, out),
        };
        self.done = true;
        out.reset(1);
        out.push()[0] = Datum::Int(count as i64);
        Ok(Step::Rows)
    }
}

fn count_rows(table: &Table, access: &Access, ex: &mut Exec<'_, '_>) -> Result<u64> {
    let space = access.space(table);
    let mut count = 0;
    match key_ranges(table, access, &mut ex.scope())? {
        Ranges::Points(keys) => {
            for key in &keys {
                count += u64::from(ex.txn.get(&space, key, ColumnSet::NONE).in_sql()?.is_some());
            }
        }
        Ranges::Spans(spans) => {
            for span in &spans {
                count += ex.txn.count(&space, span).in_sql()?;
            }
        }
    }
    Ok(count)
}

/// Whether an access is to one row at most: all columns of the table's key are given.
pub(super) fn is_point(table: &Table, ranges: &KeyRanges) -> bool {
    use crate::plan::KeyPart;
    table.primary_key.as_ref().is_some_and(|key| key.columns.len() == ranges.prefix.len())
        && ranges.prefix.iter().all(|part| matches!(part, KeyPart::Eq(_)))
}
