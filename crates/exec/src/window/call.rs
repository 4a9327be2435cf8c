//! What a function gives for a row of a window.

use std::ops::Range;

use colibri_types::aggregates::Moving;
use colibri_types::{Datum, Env, Error, Result, SqlState};
use smallvec::SmallVec;

use super::frame::{Frame, Ranges};
use super::place::{Place, Rows};
use crate::expr::Expr;
use crate::plan::{Exclude, SortKey, WindowCall, WindowFunction};

/// Where a value is found.
pub(super) enum Source {
    Column(usize),
    /// For all rows.
    Value(Datum),
}

impl Source {
    #[inline]
    pub(super) fn of<'a>(&'a self, row: &'a [Datum]) -> &'a Datum {
        match self {
            Self::Column(column) => &row[*column],
            Self::Value(value) => value,
        }
    }
}

/// A call at work.
pub(super) struct Call {
    function: WindowFunction,
    args: SmallVec<[Source; 3]>,
    filter: Option<Source>,
    frame: Frame,
    /// Of an aggregate: that of the rows from `from` on up to `to`.
    moving: Option<Moving>,
    from: usize,
    to: usize,
    /// The rows that `value` was computed of.
    of: Option<Ranges>,
    value: Datum,
    /// Of `ntile`: the row that it begins to count with, and how many parts there are.
    parts: Option<(usize, usize)>,
    /// Rows for which it gives more are of no interest.
    most: Option<i64>,
    /// Its first reader.
    reader: usize,
}

impl Call {
    pub(super) fn new(
        call: &WindowCall,
        order: &[SortKey],
        number: usize,
        source: &mut dyn FnMut(&Expr) -> Result<Source>,
    ) -> Result<Self> {
        let reader = Rows::reader_of(number);
        let moving = match call.function {
            WindowFunction::Aggregate(aggregate) => Some(Moving::new(aggregate)),
            _ => None,
        };
        Ok(Self {
            function: call.function,
            args: call.args.iter().map(&mut *source).collect::<Result<_>>()?,
            filter: call.filter.as_ref().map(&mut *source).transpose()?,
            frame: Frame::new(&call.frame, order, [reader, reader + 1], source)?,
            moving,
            from: 0,
            to: 0,
            of: None,
            value: Datum::Null,
            parts: None,
            most: match &call.most {
                Some(most) => match source(&most.value)? {
                    Source::Value(value) => most.largest(&value),
                    Source::Column(_) => None,
                },
                None => None,
            },
            reader,
        })
    }

    /// Bytes that it keeps.
    pub(super) fn heap_bytes(&self) -> usize {
        self.moving.as_ref().map_or(0, Moving::heap_bytes)
    }

    /// Whether what it has given says that neither this row nor those behind it in the partition are
    /// of interest.
    pub(super) fn is_past(&self, given: &Datum) -> bool {
        matches!((given, self.most), (Datum::Int(given), Some(most)) if *given > most)
    }

    /// As for a new partition.
    pub(super) fn start_over(&mut self) {
        if let Some(moving) = &mut self.moving {
            moving.start_over();
        }
        (self.from, self.to, self.of, self.value, self.parts) = (0, 0, None, Datum::Null, None);
    }

    /// At the start of a partition, by its first row.
    pub(super) fn begin(&mut self, row: &[Datum]) -> Result<()> {
        self.start_over();
        self.frame.begin(row)
    }

    /// What a call that looks back only gives for the row behind the one before.
    pub(super) fn next(&mut self, place: &Place, row: &[Datum], env: &Env) -> Result<Datum> {
        match (self.function, &mut self.moving) {
            (WindowFunction::Rank, _) => Ok(number(place.group_start)),
            (WindowFunction::DenseRank, _) => Ok(Datum::Int(place.group + 1)),
            (WindowFunction::FirstValue, _) => {
                if place.at == 0
                    && let [value] = &self.args[..]
                {
                    self.value = value.of(row).clone();
                }
                Ok(self.value.clone())
            }
            (WindowFunction::Aggregate(_), Some(moving)) => {
                if self.filter.as_ref().is_none_or(|filter| filter.of(row).is_true()) {
                    let args: SmallVec<[&Datum; 4]> = self.args.iter().map(|arg| arg.of(row)).collect();
                    moving.add(&args, env)?;
                }
                moving.value()
            }
            _ => Ok(number(place.at)),
        }
    }

    /// What it gives for a row at a place.
    pub(super) fn value(&mut self, place: &mut Place, rows: &mut Rows, row: &[Datum], env: &Env) -> Result<Datum> {
        Ok(match self.function {
            WindowFunction::RowNumber => number(place.at),
            WindowFunction::Rank => number(place.group_start),
            WindowFunction::DenseRank => Datum::Int(place.group + 1),
            WindowFunction::PercentRank if place.len == 1 => Datum::Float(0.0),
            WindowFunction::PercentRank => Datum::Float(place.group_start as f64 / (place.len - 1) as f64),
            WindowFunction::CumeDist => Datum::Float(place.group_end(rows)? as f64 / place.len as f64),
            WindowFunction::Ntile => self.ntile(place, row)?,
            WindowFunction::Lag => self.at_distance(true, place, rows, row)?,
            WindowFunction::Lead => self.at_distance(false, place, rows, row)?,
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                self.value_of_frame(place, rows, row, env)?
            }
            WindowFunction::Aggregate(_) => self.aggregate(place, rows, row, env)?,
        })
    }

    fn ntile(&mut self, place: &Place, row: &[Datum]) -> Result<Datum> {
        let (first, parts) = match (self.parts, self.args.first().map(|parts| parts.of(row))) {
            (Some(known), _) => known,
            (None, Some(Datum::Int(parts))) => {
                let Some(parts) = usize::try_from(*parts).ok().filter(|&parts| parts > 0) else {
                    let message = "argument of ntile must be greater than zero";
                    return Err(Error::new(SqlState("22014"), message));
                };
                *self.parts.insert((place.at, parts))
            }
            _ => return Ok(Datum::Null),
        };
        // The first parts have one row more where rows are left over.
        let (each, longer) = (place.len / parts, place.len % parts);
        let at = place.at - first;
        let in_longer = longer * (each + 1);
        Ok(number(if at < in_longer { at / (each + 1) } else { longer + (at - in_longer) / each.max(1) }))
    }

    fn at_distance(&self, is_before: bool, place: &Place, rows: &mut Rows, row: &[Datum]) -> Result<Datum> {
        let distance = match self.args.get(1).map(|distance| distance.of(row)) {
            None => 1,
            Some(Datum::Int(distance)) => *distance,
            Some(_) => return Ok(Datum::Null),
        };
        let at = place.at as i64 + if is_before { -distance } else { distance };
        match (usize::try_from(at).ok().filter(|&at| at < place.len), &self.args[..]) {
            (Some(at), [value, ..]) => Ok(value.of(rows.row(self.reader, at)?).clone()),
            (None, [_, _, otherwise]) => Ok(otherwise.of(row).clone()),
            _ => Ok(Datum::Null),
        }
    }

    fn value_of_frame(&mut self, place: &mut Place, rows: &mut Rows, row: &[Datum], env: &Env) -> Result<Datum> {
        let nth = match (self.function, self.args.get(1).map(|nth| nth.of(row))) {
            (WindowFunction::NthValue, Some(Datum::Int(nth))) => match usize::try_from(*nth) {
                Ok(nth) if nth > 0 => nth - 1,
                _ => {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(Error::new(SqlState("22016"), message));
                }
            },
            (WindowFunction::NthValue, _) => return Ok(Datum::Null),
            _ => 0,
        };
        let frame = self.frame.bounds(place, rows, row, env)?;
        let ranges = self.frame.ranges(frame, place, rows)?;
        let at = if matches!(self.function, WindowFunction::LastValue) {
            ranges.last().map(|range| range.end - 1)
        } else {
            let mut left = nth;
            ranges.iter().find_map(|range| {
                let found = (left < range.len()).then(|| range.start + left);
                left = left.saturating_sub(range.len());
                found
            })
        };
        match (at, self.args.first()) {
            (Some(at), Some(value)) => Ok(value.of(rows.row(self.reader + 2, at)?).clone()),
            _ => Ok(Datum::Null),
        }
    }

    fn aggregate(&mut self, place: &mut Place, rows: &mut Rows, row: &[Datum], env: &Env) -> Result<Datum> {
        let frame = self.frame.bounds(place, rows, row, env)?;
        let ranges = self.frame.ranges(frame.clone(), place, rows)?;
        if self.of.as_ref() == Some(&ranges) {
            return Ok(self.value.clone());
        }
        if self.frame.exclude == Exclude::NoOthers {
            self.move_to(frame, rows, env)?;
        } else {
            self.forget_rows();
            for range in &ranges {
                self.add(range.clone(), rows, env)?;
            }
        }
        self.value = self.moving.as_ref().map_or(Ok(Datum::Null), Moving::value)?;
        self.of = Some(ranges);
        Ok(self.value.clone())
    }

    fn forget_rows(&mut self) {
        if let Some(moving) = &mut self.moving {
            moving.start_over();
        }
    }

    /// Has the aggregate be that of the rows of a frame.
    fn move_to(&mut self, frame: Range<usize>, rows: &mut Rows, env: &Env) -> Result<()> {
        let keeps_some = (self.from..self.to).contains(&frame.start) && frame.end >= self.to;
        if !keeps_some {
            self.forget_rows();
            self.to = frame.start;
        } else if frame.start > self.from {
            let (gone, left) = (frame.start - self.from, self.to - frame.start);
            if gone > left || !self.remove(self.from..frame.start, rows)? {
                self.forget_rows();
                self.to = frame.start;
            }
        }
        self.from = frame.start;
        let to = std::mem::replace(&mut self.to, frame.end);
        self.add(to..frame.end, rows, env)
    }

    fn add(&mut self, range: Range<usize>, rows: &mut Rows, env: &Env) -> Result<()> {
        let Some(moving) = &mut self.moving else { return Ok(()) };
        for at in range {
            let row = rows.row(self.reader + 2, at)?;
            if self.filter.as_ref().is_none_or(|filter| filter.of(row).is_true()) {
                let args: SmallVec<[&Datum; 4]> = self.args.iter().map(|arg| arg.of(row)).collect();
                moving.add(&args, env)?;
            }
        }
        Ok(())
    }

    /// Takes rows out of the aggregate; `false` if it has to start over.
    fn remove(&mut self, range: Range<usize>, rows: &mut Rows) -> Result<bool> {
        let Some(moving) = self.moving.as_mut().filter(|moving| moving.can_remove()) else { return Ok(false) };
        for at in range {
            let row = rows.row(self.reader + 3, at)?;
            if self.filter.as_ref().is_none_or(|filter| filter.of(row).is_true()) {
                let args: SmallVec<[&Datum; 4]> = self.args.iter().map(|arg| arg.of(row)).collect();
                if !moving.remove(&args) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// A place, counted from 1.
fn number(place: usize) -> Datum {
    Datum::Int(place as i64 + 1)
}
