//! From a plan's ranges to ranges of bytes.
//!
//! Invariants: the ranges are not empty, do not overlap, and come in the order of their keys, so
//! that visiting one after the other gives key order and no entry twice. A NULL that something is
//! compared with finds nothing. A bound in the sense of a column's values is turned round where the
//! index has the column descending.

use std::ops::Bound;

use colibri_catalog::Table;
use colibri_txn::{Direction, Key, KeyRange};
use colibri_types::prefix::{Prefix, end_of_prefix};
use colibri_types::{Datum, Error, Result, Type, key, pulse};
use smallvec::SmallVec;

use super::{Scope, merge_sort};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::plan::{Access, Inclusive, KeyPart, KeyRanges};

/// What making a range of several lists takes, in units of work.
const UNITS_PER_RANGE: usize = 10;

/// What a scan visits.
#[derive(Debug, Clone)]
pub enum Ranges {
    /// Whole keys of the table, in order.
    Points(SmallVec<[Key; 1]>),
    /// Parts of the table or the index, in order.
    Spans(SmallVec<[KeyRange; 1]>),
}

impl Ranges {
    pub(super) fn none() -> Self {
        Self::Points(SmallVec::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Points(keys) => keys.len(),
            Self::Spans(spans) => spans.len(),
        }
    }
}

/// A column of a key, as bytes.
#[derive(Clone, Copy)]
struct Part {
    ty: Type,
    descending: bool,
    nulls_first: bool,
    marked: bool,
}

impl Part {
    fn encode(self, value: &Datum, out: &mut Key) {
        key::encode(self.ty, value, self.descending, self.nulls_first, !self.marked, out);
    }
}

/// The column at a place of an access' key.
fn part(table: &Table, access: &Access, place: usize) -> Option<Part> {
    match access {
        Access::Key { .. } => match &table.primary_key {
            Some(key) => {
                let ty = table.columns[*key.columns.get(place)?].ty.ty;
                Some(Part { ty, descending: false, nulls_first: false, marked: false })
            }
            None => {
                (place == 0).then_some(Part { ty: Type::Int8, descending: false, nulls_first: false, marked: false })
            }
        },
        Access::Gathered { .. } | Access::Inverted { .. } => None,
        Access::Index { index, .. } => match index.columns.get(place) {
            Some(part) => {
                let ty = table.columns[part.column].ty.ty;
                Some(Part { ty, descending: part.descending, nulls_first: part.nulls_first, marked: true })
            }
            // Behind the indexed columns comes the row's key.
            None => {
                let ty = match &table.primary_key {
                    Some(key) => table.columns[*key.columns.get(place - index.columns.len())?].ty.ty,
                    None => Type::Int8,
                };
                Some(Part { ty, descending: false, nulls_first: false, marked: false })
            }
        },
    }
}

/// How many columns the key of a table has.
fn key_width(table: &Table) -> usize {
    table.primary_key.as_ref().map_or(1, |key| key.columns.len())
}

/// What an access visits, with the parameters and slots as they are in a scope. Where columns of
/// the key are skipped, the ranges are of what follows these in the keys.
///
/// # Errors
/// Of evaluating the values that keys are compared with.
pub fn key_ranges(table: &Table, access: &Access, scope: &mut Scope<'_>) -> Result<Ranges> {
    let (Access::Key { ranges } | Access::Index { ranges, .. }) = access else {
        return Err(Error::internal("the keys of a union are gathered"));
    };
    if ranges.alternatives.is_empty() {
        ranges_of(table, access, ranges, scope)
    } else {
        union(table, access, ranges, scope)
    }
}

/// What one of several ranges holds.
#[cold]
fn union(table: &Table, access: &Access, ranges: &KeyRanges, scope: &mut Scope<'_>) -> Result<Ranges> {
    let (mut points, mut spans) = (Vec::new(), Vec::new());
    for alternative in &ranges.alternatives {
        match ranges_of(table, access, alternative, scope)? {
            Ranges::Points(keys) => points.extend(keys),
            Ranges::Spans(found) => spans.extend(found),
        }
    }
    if spans.is_empty() {
        merge_sort::sort(&mut points, merge_sort::PIECE, Ord::cmp)?;
        points.dedup();
        return Ok(Ranges::Points(points.into()));
    }
    spans.extend(points.into_iter().map(|key| {
        let (low, high) = (Bound::Included(key.clone()), Bound::Included(key));
        KeyRange { low, high }
    }));
    let mut spans: Vec<Span> = spans.into_iter().map(Span::from).collect();
    merge_sort::sort(&mut spans, merge_sort::PIECE, |a, b| a.low.cmp(&b.low))?;
    let mut apart: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        pulse::work(UNITS_PER_RANGE)?;
        match apart.last_mut() {
            Some(last) if last.reaches(&span) => last.end = last.end.take().max(span.end),
            _ => apart.push(span),
        }
    }
    Ok(Ranges::Spans(apart.into_iter().map(KeyRange::from).collect()))
}

/// A range of keys in a form that sorts: from a key on, `None` from the first one.
#[derive(Default)]
struct Span {
    low: Option<Key>,
    end: Option<End>,
}

/// Where a range ends.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// At a key, which belongs to it or not.
    At(Key, bool),
    /// Behind the last key.
    Never,
}

impl Span {
    /// Whether one that begins no earlier begins before this one's end, or right there.
    fn reaches(&self, later: &Self) -> bool {
        match (&self.end, &later.low) {
            (Some(End::At(end, _)), Some(low)) => low <= end,
            _ => true,
        }
    }
}

impl From<KeyRange> for Span {
    fn from(range: KeyRange) -> Self {
        let low = match range.low {
            Bound::Unbounded => None,
            // No range begins behind a key that it leaves out; if one did, a row too many would be
            // looked at.
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
        };
        let end = match range.high {
            Bound::Unbounded => End::Never,
            Bound::Included(key) => End::At(key, true),
            Bound::Excluded(key) => End::At(key, false),
        };
        Self { low, end: Some(end) }
    }
}

impl From<Span> for KeyRange {
    fn from(span: Span) -> Self {
        let high = match span.end {
            None | Some(End::Never) => Bound::Unbounded,
            Some(End::At(key, true)) => Bound::Included(key),
            Some(End::At(key, false)) => Bound::Excluded(key),
        };
        Self { low: span.low.map_or(Bound::Unbounded, Bound::Included), high }
    }
}

/// What one list of conditions on a key's columns holds.
fn ranges_of(table: &Table, access: &Access, ranges: &KeyRanges, scope: &mut Scope<'_>) -> Result<Ranges> {
    let mut prefix = Key::new();
    // The way of most: every column of the prefix is equal to one value.
    for (place, wanted) in ranges.prefix.iter().enumerate() {
        let Some(part) = part(table, access, ranges.skipped + place) else { break };
        match wanted {
            KeyPart::Eq(expr) => {
                let mut scratch = Datum::Null;
                let value = expr.eval(scope, &[], &mut scratch)?;
                if value.is_null() {
                    return Ok(Ranges::none());
                }
                part.encode(value, &mut prefix);
            }
            KeyPart::Null => {
                if !part.marked {
                    return Ok(Ranges::none());
                }
                part.encode(&Datum::Null, &mut prefix);
            }
            KeyPart::In(_) | KeyPart::AnyOf(_) => return many_ranges(table, access, ranges, place, prefix, scope),
        }
    }
    if is_whole_key(table, access, ranges) {
        return Ok(Ranges::Points(SmallVec::from_buf([prefix])));
    }
    let bounds = Bounds::new(table, access, ranges, scope)?;
    let mut spans = SmallVec::new();
    spans.extend(bounds.and_then(|bounds| bounds.under(prefix)));
    Ok(Ranges::Spans(spans))
}

fn is_whole_key(table: &Table, access: &Access, ranges: &KeyRanges) -> bool {
    matches!(access, Access::Key { .. }) && ranges.skipped == 0 && ranges.prefix.len() == key_width(table)
}

/// With lists among the prefix, the first at `place`: every combination of their values.
#[cold]
fn many_ranges(
    table: &Table,
    access: &Access,
    ranges: &KeyRanges,
    place: usize,
    prefix: Key,
    scope: &mut Scope<'_>,
) -> Result<Ranges> {
    let mut prefixes = vec![prefix];
    for (place, wanted) in ranges.prefix.iter().enumerate().skip(place) {
        let Some(part) = part(table, access, ranges.skipped + place) else { break };
        let mut encoded: Vec<Key> = Vec::new();
        let mut add_value = |value: &Datum| {
            if !value.is_null() {
                let mut bytes = Key::new();
                part.encode(value, &mut bytes);
                encoded.push(bytes);
            }
        };
        let mut add = |expr: &Expr, scope: &mut Scope<'_>| -> Result<()> {
            let mut scratch = Datum::Null;
            add_value(expr.eval(scope, &[], &mut scratch)?);
            Ok(())
        };
        match wanted {
            KeyPart::Eq(expr) => add(expr, scope)?,
            KeyPart::In(exprs) => exprs.iter().try_for_each(|expr| add(expr, scope))?,
            KeyPart::AnyOf(expr) => {
                let mut scratch = Datum::Null;
                if let Datum::Array(array) = expr.eval(scope, &[], &mut scratch)? {
                    array.values().iter().for_each(&mut add_value);
                }
            }
            KeyPart::Null if part.marked => {
                let mut bytes = Key::new();
                part.encode(&Datum::Null, &mut bytes);
                encoded.push(bytes);
            }
            KeyPart::Null => {}
        }
        // No value's bytes begin another's, so sorting the columns one by one sorts the whole.
        merge_sort::sort(&mut encoded, merge_sort::PIECE, Ord::cmp)?;
        encoded.dedup();
        let join = |prefix: &Key, bytes: &Key| {
            let mut joined = prefix.clone();
            joined.extend_from_slice(bytes);
            joined
        };
        let mut joined = Vec::new();
        for prefix in &prefixes {
            for bytes in &encoded {
                pulse::work(UNITS_PER_RANGE)?;
                joined.push(join(prefix, bytes));
            }
        }
        prefixes = joined;
    }
    if is_whole_key(table, access, ranges) {
        return Ok(Ranges::Points(prefixes.into()));
    }
    let Some(bounds) = Bounds::new(table, access, ranges, scope)? else { return Ok(Ranges::none()) };
    let mut spans = SmallVec::new();
    for prefix in prefixes {
        pulse::work(UNITS_PER_RANGE)?;
        spans.extend(bounds.under(prefix));
    }
    Ok(Ranges::Spans(spans))
}

/// The bounds of the column behind the prefix, as bytes: first and last in the order of keys.
struct Bounds {
    low: Option<(Key, Inclusive)>,
    high: Option<(Key, Inclusive)>,
    /// NULLs are among the keys, and left out. Every other value begins with the same marker.
    skip_nulls: bool,
}

impl Bounds {
    /// `None` if nothing lies between them.
    fn new(table: &Table, access: &Access, ranges: &KeyRanges, scope: &mut Scope<'_>) -> Result<Option<Self>> {
        if ranges.is_unbounded() {
            return Ok(Some(Self { low: None, high: None, skip_nulls: false }));
        }
        let Some(part) = part(table, access, ranges.skipped + ranges.prefix.len()) else {
            return Ok(Some(Self { low: None, high: None, skip_nulls: false }));
        };
        if let Some((kind, pattern)) = &ranges.starts {
            let mut scratch = Datum::Null;
            let Datum::Text(pattern) = pattern.eval(scope, &[], &mut scratch)? else { return Ok(None) };
            return Ok(Some(Self::of_prefix(part, &kind.prefix(pattern))));
        }
        let mut encode = |bound: &Option<(Expr, Inclusive)>| -> Result<Option<Option<(Key, Inclusive)>>> {
            let Some((expr, inclusive)) = bound else { return Ok(Some(None)) };
            let mut scratch = Datum::Null;
            let value = expr.eval(scope, &[], &mut scratch)?;
            if value.is_null() {
                return Ok(None);
            }
            let mut bytes = Key::new();
            part.encode(value, &mut bytes);
            Ok(Some(Some((bytes, *inclusive))))
        };
        let (Some(low), Some(high)) = (encode(&ranges.low)?, encode(&ranges.high)?) else { return Ok(None) };
        let (low, high) = if part.descending { (high, low) } else { (low, high) };
        Ok(Some(Self { low, high, skip_nulls: part.marked }))
    }

    /// The bounds of texts that begin with a prefix.
    fn of_prefix(part: Part, prefix: &Prefix) -> Self {
        let encode = |text: &str| {
            let mut bytes = Key::new();
            part.encode(&Datum::text(text), &mut bytes);
            bytes
        };
        let low = Some((encode(&prefix.text), Inclusive(true)));
        let high = match prefix.is_whole {
            true => low.clone(),
            false => end_of_prefix(&prefix.text).map(|end| (encode(&end), Inclusive(false))),
        };
        let (low, high) = if part.descending { (high, low) } else { (low, high) };
        Self { low, high, skip_nulls: part.marked }
    }

    /// The span of keys with a prefix; `None` if it is empty.
    fn under(&self, prefix: Key) -> Option<KeyRange> {
        let join = |bytes: &[u8]| {
            let mut joined = prefix.clone();
            joined.extend_from_slice(bytes);
            joined
        };
        let marker: &[u8] = if self.skip_nulls { &[key::NOT_NULL] } else { &[] };
        let low = match &self.low {
            Some((bytes, Inclusive(true))) => Bound::Included(join(bytes)),
            Some((bytes, Inclusive(false))) => Bound::Included(key::prefix_end(&join(bytes))?),
            None => {
                let all = join(marker);
                if all.is_empty() { Bound::Unbounded } else { Bound::Included(all) }
            }
        };
        let end = match &self.high {
            Some((bytes, Inclusive(false))) => Some(join(bytes)),
            Some((bytes, Inclusive(true))) => key::prefix_end(&join(bytes)),
            None => key::prefix_end(&join(marker)),
        };
        let high = end.map_or(Bound::Unbounded, Bound::Excluded);
        match (&low, &high) {
            (Bound::Included(low), Bound::Excluded(high)) if low >= high => None,
            _ => Some(KeyRange { low, high }),
        }
    }
}
/// What is left of a range behind the last key visited.
pub(super) fn rest(range: &KeyRange, last: Option<&Key>, direction: Direction) -> KeyRange {
    match (last, direction) {
        (None, _) => range.clone(),
        (Some(last), Direction::Forward) => KeyRange { low: Bound::Excluded(last.clone()), high: range.high.clone() },
        (Some(last), Direction::Backward) => KeyRange { low: range.low.clone(), high: Bound::Excluded(last.clone()) },
    }
}
