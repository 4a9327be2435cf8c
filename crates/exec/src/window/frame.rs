//! Frames: where they begin and end for a row, and which rows are left out.
//!
//! Invariants: from row to row of a partition both ends of a frame stay or move forward, since the
//! rows come in the order that distances are measured in.

use std::cmp::Ordering;
use std::ops::Range;

use colibri_types::{Datum, Env, Error, Interval, Numeric, Result, SqlState, datetime, operators};
use smallvec::SmallVec;

use super::call::Source;
use super::column_of;
use super::place::{Place, Rows};
use crate::expr::Expr;
use crate::plan::{self, Exclude, FrameBound, FrameUnits, RangeOffset, SortKey};

/// The size of a frame is wrong.
const BAD_SIZE: SqlState = SqlState("22013");

/// The rows of a frame, without those that are left out.
pub(super) type Ranges = SmallVec<[Range<usize>; 3]>;

/// A frame that moves over a partition.
pub(super) struct Frame {
    units: FrameUnits,
    start: Bound,
    end: Bound,
    pub(super) exclude: Exclude,
    head: usize,
    tail: usize,
    /// The column that distances are measured in, and how it orders rows.
    key: usize,
    descending: bool,
    nulls_first: bool,
    /// Readers of the head and of the tail.
    readers: [usize; 2],
}

/// An end of a frame.
enum Bound {
    Unbounded,
    CurrentRow,
    Offset {
        is_preceding: bool,
        source: Source,
        /// What the source gives in the partition.
        by: Datum,
    },
}

/// What keys are compared with.
enum Edge {
    At(Datum),
    /// Behind all values on that side.
    Beyond,
    /// All numbers are on the right side of it.
    Everything,
}

impl Frame {
    pub(super) fn new(
        frame: &plan::Frame,
        order: &[SortKey],
        readers: [usize; 2],
        source: &mut dyn FnMut(&Expr) -> Result<Source>,
    ) -> Result<Self> {
        let mut bound = |bound: &FrameBound| {
            Ok(match bound {
                FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => Bound::Unbounded,
                FrameBound::CurrentRow => Bound::CurrentRow,
                FrameBound::Preceding(offset) => {
                    Bound::Offset { is_preceding: true, source: source(offset)?, by: Datum::Null }
                }
                FrameBound::Following(offset) => {
                    Bound::Offset { is_preceding: false, source: source(offset)?, by: Datum::Null }
                }
            })
        };
        let (start, end) = (bound(&frame.start)?, bound(&frame.end)?);
        let key = order.first();
        let mut frame = Self {
            units: frame.units,
            start,
            end,
            exclude: frame.exclude,
            head: 0,
            tail: 0,
            key: key.map_or(0, column_of),
            descending: key.is_some_and(|key| key.descending),
            nulls_first: key.is_some_and(|key| key.nulls_first),
            readers,
        };
        // What is wrong with a size is told even if there are no rows.
        frame.start.check(frame.units, "starting")?;
        frame.end.check(frame.units, "ending")?;
        Ok(frame)
    }

    /// At the start of a partition, by its first row.
    pub(super) fn begin(&mut self, row: &[Datum]) -> Result<()> {
        (self.head, self.tail) = (0, 0);
        for (bound, name) in [(&mut self.start, "starting"), (&mut self.end, "ending")] {
            if let Bound::Offset { source: source @ Source::Column(_), by, .. } = bound {
                *by = source.of(row).clone();
                check_size(by, self.units, name)?;
            }
        }
        Ok(())
    }

    /// The frame of a row, those that are left out among them.
    pub(super) fn bounds(
        &mut self,
        place: &mut Place,
        rows: &mut Rows,
        row: &[Datum],
        env: &Env,
    ) -> Result<Range<usize>> {
        let head = match (&self.start, self.units) {
            (Bound::Unbounded, _) => 0,
            (Bound::CurrentRow, FrameUnits::Rows) => place.at,
            (Bound::CurrentRow, _) => place.group_start,
            (Bound::Offset { is_preceding, by, .. }, FrameUnits::Rows) => {
                moved(place.at, *is_preceding, by).min(place.len)
            }
            (Bound::Offset { is_preceding, by, .. }, FrameUnits::Groups) => {
                let group = group_at(place.group, *is_preceding, by);
                let mut head = self.head;
                while head < place.len && rows.group(self.readers[0], head)? < group {
                    head += 1;
                }
                head
            }
            (Bound::Offset { .. }, FrameUnits::Range(by)) => self.range_edge(true, by, place, rows, row, env)?,
        };
        let tail = match (&self.end, self.units) {
            (Bound::Unbounded, _) => place.len,
            (Bound::CurrentRow, FrameUnits::Rows) => place.at + 1,
            (Bound::CurrentRow, _) => place.group_end(rows)?,
            (Bound::Offset { is_preceding, by, .. }, FrameUnits::Rows) => {
                moved(place.at.saturating_add(1), *is_preceding, by).min(place.len)
            }
            (Bound::Offset { is_preceding, by, .. }, FrameUnits::Groups) => {
                let group = group_at(place.group, *is_preceding, by);
                let mut tail = self.tail;
                while tail < place.len && rows.group(self.readers[1], tail)? <= group {
                    tail += 1;
                }
                tail
            }
            (Bound::Offset { .. }, FrameUnits::Range(by)) => self.range_edge(false, by, place, rows, row, env)?,
        };
        (self.head, self.tail) = (head, tail);
        Ok(head..tail.max(head))
    }

    /// The first row that is near enough to the one at hand, for the start; for the end, the row
    /// behind the last one that is.
    fn range_edge(
        &self,
        is_start: bool,
        by: Option<RangeOffset>,
        place: &Place,
        rows: &mut Rows,
        row: &[Datum],
        env: &Env,
    ) -> Result<usize> {
        let (bound, from, reader) = match is_start {
            true => (&self.start, self.head, self.readers[0]),
            false => (&self.end, self.tail, self.readers[1]),
        };
        let (Some(kind), Bound::Offset { is_preceding, by, .. }) = (by, bound) else { return Ok(from) };
        let subtracts = *is_preceding != self.descending;
        let (base, wants_less) = (&row[self.key], self.descending == is_start);
        let edge = if base.is_null() { Edge::Everything } else { edge(kind, base, by, subtracts, env)? };
        let mut at = from;
        while at < place.len {
            let value = &rows.row(reader, at)?[self.key];
            let is_inside = match (value.is_null(), base.is_null()) {
                (false, false) => is_within(kind, value, &edge, subtracts, wants_less)?,
                // NULLs stand before all other rows, or behind them.
                (value_is_null, is_null) if self.nulls_first == is_start => !value_is_null || is_null,
                (value_is_null, is_null) => value_is_null || !is_null,
            };
            if is_inside == is_start {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    /// The rows of a frame without those that are left out.
    pub(super) fn ranges(&self, frame: Range<usize>, place: &mut Place, rows: &mut Rows) -> Result<Ranges> {
        let at = place.at;
        let nothing = at..at;
        let left_out = match self.exclude {
            Exclude::NoOthers => [nothing.clone(), nothing],
            Exclude::CurrentRow => [at..at + 1, nothing],
            Exclude::Group => [place.group_start..place.group_end(rows)?, nothing],
            Exclude::Ties => [place.group_start..at, at + 1..place.group_end(rows)?],
        };
        let mut ranges = Ranges::new();
        let mut from = frame.start;
        for out in left_out.iter().filter(|out| !out.is_empty()) {
            ranges.push(from..out.start.min(frame.end));
            from = from.max(out.end);
        }
        ranges.push(from..frame.end);
        ranges.retain(|range| range.start < range.end);
        Ok(ranges)
    }
}

impl Bound {
    /// Takes over a size that is the same for all rows.
    fn check(&mut self, units: FrameUnits, name: &str) -> Result<()> {
        if let Self::Offset { source: Source::Value(value), by, .. } = self {
            check_size(value, units, name)?;
            *by = value.clone();
        }
        Ok(())
    }
}

fn check_size(size: &Datum, units: FrameUnits, name: &str) -> Result<()> {
    let is_negative = match (size, units) {
        (Datum::Null, _) => {
            let message = format!("frame {name} offset must not be null");
            return Err(Error::new(SqlState("22004"), message));
        }
        (Datum::Interval(interval), FrameUnits::Range(Some(RangeOffset::Time))) => interval.micros < 0,
        (Datum::Int(size), _) => *size < 0,
        (Datum::Float(size), _) => size.is_nan() || *size < 0.0,
        (Datum::Numeric(size), _) => size.is_nan() || size.signum() < 0,
        (Datum::Interval(size), _) => size.length_us() < 0,
        _ => false,
    };
    match units {
        _ if !is_negative => Ok(()),
        FrameUnits::Range(_) => Err(Error::new(BAD_SIZE, "invalid preceding or following size in window function")),
        FrameUnits::Rows | FrameUnits::Groups => {
            Err(Error::new(BAD_SIZE, format!("frame {name} offset must not be negative")))
        }
    }
}

/// A number of rows before or behind a place.
fn moved(at: usize, is_preceding: bool, by: &Datum) -> usize {
    let by = if let Datum::Int(by) = by { usize::try_from(*by).unwrap_or(0) } else { 0 };
    if is_preceding { at.saturating_sub(by) } else { at.saturating_add(by) }
}

/// A number of groups before or behind one.
fn group_at(group: i64, is_preceding: bool, by: &Datum) -> i64 {
    let by = if let Datum::Int(by) = by { *by } else { 0 };
    if is_preceding { group.saturating_sub(by) } else { group.saturating_add(by) }
}

/// The value at a distance from another one.
fn edge(kind: RangeOffset, base: &Datum, by: &Datum, subtracts: bool, env: &Env) -> Result<Edge> {
    let signed = |by: &Interval| if subtracts { by.negate() } else { Ok(*by) };
    let at = match (kind, base, by) {
        (RangeOffset::Int, Datum::Int(base), Datum::Int(by)) => {
            let at = if subtracts { base.checked_sub(*by) } else { base.checked_add(*by) };
            match at {
                Some(at) => Datum::Int(at),
                None => return Ok(Edge::Beyond),
            }
        }
        (RangeOffset::Float, Datum::Float(base), Datum::Float(by)) => {
            if by.is_infinite() && base.is_infinite() && (*base > 0.0) == subtracts {
                return Ok(Edge::Everything);
            }
            Datum::Float(if subtracts { base - by } else { base + by })
        }
        (RangeOffset::Numeric, Datum::Numeric(base), Datum::Numeric(by)) => {
            let is_infinite = |value: &Numeric| !value.is_finite() && !value.is_nan();
            if is_infinite(by) && is_infinite(base) && (base.signum() > 0) == subtracts {
                return Ok(Edge::Everything);
            }
            Datum::Numeric(if subtracts { base.sub(by)? } else { base.add(by)? })
        }
        (RangeOffset::Date, Datum::Date(base), Datum::Interval(by)) => {
            Datum::Timestamp(datetime::timestamp_add(datetime::date_to_timestamp(*base)?, signed(by)?)?)
        }
        (RangeOffset::Timestamp, Datum::Timestamp(base), Datum::Interval(by)) => {
            Datum::Timestamp(datetime::timestamp_add(*base, signed(by)?)?)
        }
        (RangeOffset::TimestampTz, Datum::Timestamp(base), Datum::Interval(by)) => {
            Datum::Timestamp(datetime::timestamptz_add(*base, signed(by)?, &env.zone)?)
        }
        (RangeOffset::Time, Datum::Time(base), Datum::Interval(by)) => {
            Datum::Time(if subtracts { base.saturating_sub(by.micros) } else { base.saturating_add(by.micros) })
        }
        (RangeOffset::Time, Datum::TimeTz(base), Datum::Interval(by)) => {
            let micros =
                if subtracts { base.micros.saturating_sub(by.micros) } else { base.micros.saturating_add(by.micros) };
            Datum::TimeTz(datetime::TimeTz { micros, ..*base })
        }
        (RangeOffset::Interval, Datum::Interval(base), Datum::Interval(by)) => {
            Datum::Interval(if subtracts { base.sub(*by)? } else { base.add(*by)? })
        }
        _ => return Err(Error::internal(format!("a distance of {by:?} from {base:?}"))),
    };
    Ok(Edge::At(at))
}

fn is_no_number(value: &Datum) -> bool {
    match value {
        Datum::Float(value) => value.is_nan(),
        Datum::Numeric(value) => value.is_nan(),
        _ => false,
    }
}

/// Whether a value is on the right side of an edge.
fn is_within(kind: RangeOffset, value: &Datum, edge: &Edge, subtracts: bool, wants_less: bool) -> Result<bool> {
    let at = match edge {
        // But for what is no number: that stands behind all others.
        Edge::Everything => return Ok(!wants_less || !is_no_number(value)),
        Edge::Beyond => return Ok(subtracts != wants_less),
        Edge::At(at) => at,
    };
    let order = match (kind, value) {
        (RangeOffset::Date, Datum::Date(value)) => {
            operators::compare(&Datum::Timestamp(datetime::date_to_timestamp(*value)?), at)
        }
        _ => operators::compare(value, at),
    };
    Ok(if wants_less { order != Ordering::Greater } else { order != Ordering::Less })
}
