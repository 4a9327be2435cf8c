//! Frames and functions over random rows give what their definitions say, row by row; with little
//! memory and in slices, too.

use std::sync::atomic::Ordering;

use colibri_types::{Array, Datum, Env, Numeric, Type, resolve};

use super::super::memory::MemoryLimits;
use super::super::scratch::MemoryScratch;
use super::super::test_bed::*;
use super::super::{Batch, Context, Execution, Outcome, row_bytes};
use crate::expr::Expr;
use crate::plan::*;

/// Columns: partition, key, number, value, text.
const WIDTH: usize = 5;

/// A row: partition, key, value. Its number is its place.
type Row = (i64, Option<i64>, Option<i64>);

fn sorted_rows(random: &mut fastrand::Rng, count: usize, partitions: i64, key: &SortKey) -> Vec<Row> {
    let maybe = |random: &mut fastrand::Rng, below: i64| (random.u8(..6) > 0).then(|| random.i64(-below..below));
    let mut rows: Vec<Row> =
        (0..count).map(|_| (random.i64(0..partitions), maybe(random, 12), maybe(random, 1000))).collect();
    rows.sort_by_key(|row| {
        let null = row.1.is_none() != key.nulls_first;
        (row.0, null, row.1.map(|key_value| if key.descending { -key_value } else { key_value }))
    });
    rows
}

fn datum(value: Option<i64>) -> Datum {
    value.map_or(Datum::Null, Datum::Int)
}

fn node_of(rows: &[Row]) -> Node {
    let row = |(at, row): (usize, &Row)| {
        let text = Datum::text(&"x".repeat(at % 40));
        [Datum::Int(row.0), datum(row.1), Datum::Int(at as i64), datum(row.2), text].map(Expr::Const).to_vec()
    };
    Node::Values { rows: rows.iter().enumerate().map(row).collect() }
}

fn bound(random: &mut fastrand::Rng, is_start: bool) -> FrameBound {
    let offset = int(random.i64(0..5));
    match random.u8(..5) {
        0 if is_start => FrameBound::UnboundedPreceding,
        0 => FrameBound::UnboundedFollowing,
        1 => FrameBound::CurrentRow,
        2 | 3 if is_start => FrameBound::Preceding(offset),
        4 if !is_start => FrameBound::Preceding(offset),
        _ => FrameBound::Following(offset),
    }
}

fn frame(random: &mut fastrand::Rng) -> Frame {
    let units = [FrameUnits::Rows, FrameUnits::Groups, FrameUnits::Range(Some(RangeOffset::Int))];
    let excludes = [Exclude::NoOthers, Exclude::NoOthers, Exclude::CurrentRow, Exclude::Group, Exclude::Ties];
    Frame {
        units: units[random.usize(..3)],
        start: bound(random, true),
        end: bound(random, false),
        exclude: excludes[random.usize(..5)],
    }
}

fn offset_of(bound: &FrameBound) -> Option<i64> {
    match bound {
        FrameBound::Preceding(Expr::Const(Datum::Int(by))) => Some(-by),
        FrameBound::Following(Expr::Const(Datum::Int(by))) => Some(*by),
        _ => None,
    }
}

/// How far a row is from another one, as the units count it, for those that are not NULL beside a
/// value.
fn distance(units: FrameUnits, key: &SortKey, rows: &[Row], groups: &[i64], from: usize, to: usize) -> Option<i64> {
    match units {
        FrameUnits::Rows => Some(to as i64 - from as i64),
        FrameUnits::Groups => Some(groups[to] - groups[from]),
        FrameUnits::Range(_) => match (rows[from].1, rows[to].1) {
            (Some(from), Some(to)) => Some(if key.descending { from - to } else { to - from }),
            (None, None) => None,
            _ => Some(if to > from { i64::MAX } else { i64::MIN }),
        },
    }
}

/// The rows of a frame of the row at a place of a partition: those that are neither before its start
/// nor behind its end.
fn naive(frame: &Frame, key: &SortKey, rows: &[Row], groups: &[i64], at: usize) -> Vec<usize> {
    let is_peer = |other: usize| groups[other] == groups[at];
    let is_inside = |other: usize, bound: &FrameBound, is_start: bool| {
        let is_right = |distance: i64, by: i64| if is_start { distance >= by } else { distance <= by };
        match (bound, offset_of(bound)) {
            (FrameBound::CurrentRow, _) if frame.units == FrameUnits::Rows => is_right(other as i64, at as i64),
            (FrameBound::CurrentRow, _) => is_peer(other) || is_right(other as i64, at as i64),
            (_, Some(by)) => distance(frame.units, key, rows, groups, at, other).is_none_or(|far| is_right(far, by)),
            _ => true,
        }
    };
    let is_out = |other: usize| match frame.exclude {
        Exclude::NoOthers => false,
        Exclude::CurrentRow => other == at,
        Exclude::Group => is_peer(other),
        Exclude::Ties => is_peer(other) && other != at,
    };
    let is_in = |&other: &usize| is_inside(other, &frame.start, true) && is_inside(other, &frame.end, false);
    (0..rows.len()).filter(is_in).filter(|&other| !is_out(other)).collect()
}

fn aggregate(name: &str, types: &[Type]) -> WindowFunction {
    WindowFunction::Aggregate(resolve::resolve_aggregate(name, types).unwrap().unwrap())
}

/// Calls over a frame; the last one has a filter.
fn calls(frame: &Frame, parts: i64) -> Vec<WindowCall> {
    let call =
        |function, args: Vec<Expr>| WindowCall { function, args, filter: None, frame: frame.clone(), most: None };
    let (number, value) = (|| Expr::Column(2), || Expr::Column(3));
    let is_known = Expr::IsNull { input: Box::new(value()), negated: true };
    vec![
        call(aggregate("count", &[]), vec![]),
        call(aggregate("sum", &[Type::Int8]), vec![value()]),
        call(aggregate("max", &[Type::Int8]), vec![value()]),
        call(aggregate("array_agg", &[Type::Int8]), vec![number()]),
        call(WindowFunction::FirstValue, vec![number()]),
        call(WindowFunction::LastValue, vec![number()]),
        call(WindowFunction::NthValue, vec![number(), int(2)]),
        call(WindowFunction::RowNumber, vec![]),
        call(WindowFunction::Rank, vec![]),
        call(WindowFunction::DenseRank, vec![]),
        call(WindowFunction::PercentRank, vec![]),
        call(WindowFunction::CumeDist, vec![]),
        call(WindowFunction::Ntile, vec![int(parts)]),
        call(WindowFunction::Lag, vec![number(), int(2)]),
        call(WindowFunction::Lead, vec![number(), int(1), value()]),
        WindowCall { filter: Some(is_known), ..call(aggregate("count", &[]), vec![]) },
    ]
}

/// What the calls give for a row, by their definitions.
fn expected(frame: &Frame, parts: i64, key: &SortKey, rows: &[Row], first: usize, at: usize) -> Vec<Datum> {
    let mut groups = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let begins = place > 0 && rows[place - 1].1 != row.1;
        groups.push(groups.last().copied().unwrap_or(0) + i64::from(begins));
    }
    let number = |at: usize| Datum::Int((first + at) as i64);
    let place = |at: Option<&usize>| at.map_or(Datum::Null, |&at| number(at));
    let seen = naive(frame, key, rows, &groups, at);
    let known: Vec<i64> = seen.iter().filter_map(|&at| rows[at].2).collect();
    let array = Array::of_values(Type::Unknown, seen.iter().map(|&at| number(at)).collect()).unwrap();
    let (rank, count) = (groups.iter().position(|group| *group == groups[at]).unwrap(), rows.len());
    let peers_end = groups.iter().rposition(|group| *group == groups[at]).unwrap() + 1;
    let sizes = (0..parts).map(|part| count / parts as usize + usize::from((part as usize) < count % parts as usize));
    let mut ends = sizes.scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    vec![
        Datum::Int(seen.len() as i64),
        if known.is_empty() { Datum::Null } else { Datum::Numeric(Numeric::from(known.iter().sum::<i64>())) },
        datum(known.iter().copied().max()),
        if seen.is_empty() { Datum::Null } else { Datum::Array(std::sync::Arc::new(array)) },
        place(seen.first()),
        place(seen.last()),
        place(seen.get(1)),
        Datum::Int(at as i64 + 1),
        Datum::Int(rank as i64 + 1),
        Datum::Int(groups[at] + 1),
        Datum::Float(if count == 1 { 0.0 } else { rank as f64 / (count - 1) as f64 }),
        Datum::Float(peers_end as f64 / count as f64),
        Datum::Int(ends.position(|end| at < end).unwrap() as i64 + 1),
        at.checked_sub(2).map_or(Datum::Null, number),
        if at + 1 < count { number(at + 1) } else { datum(rows[at].2) },
        Datum::Int(known.len() as i64),
    ]
}

/// A filter is a column, as the planner makes it.
fn window(rows: &[Row], key: &SortKey, calls: Vec<WindowCall>) -> Node {
    let mut calls = calls;
    let filter = calls.last_mut().and_then(|call| call.filter.replace(Expr::Column(WIDTH))).unwrap();
    let exprs: Exprs = (0..WIDTH).map(Expr::Column).chain([filter]).collect();
    let input = Node::Project { input: Box::new(node_of(rows)), exprs };
    Node::Window { input: Box::new(input), partition: [0].into(), order: [key.clone()].into(), calls: calls.into() }
}

fn check(random: &mut fastrand::Rng, count: usize, partitions: i64, memory: Option<usize>) {
    let key = SortKey { expr: Expr::Column(1), descending: random.bool(), nulls_first: random.bool() };
    let rows = sorted_rows(random, count, partitions, &key);
    let (frame, parts) = (frame(random), random.i64(1..9));
    let name = format!("{frame:?} {key:?} {parts} over {rows:?}");
    let calls = calls(&frame, parts);
    let width = WIDTH + 1 + calls.len();
    let plan = fragment(window(&rows, &key, calls), width, 0);
    let mut wanted = Vec::new();
    let mut first = 0;
    while first < rows.len() {
        let end = first + rows[first..].iter().take_while(|row| row.0 == rows[first].0).count();
        wanted.extend((first..end).map(|at| expected(&frame, parts, &key, &rows[first..end], first, at - first)));
        first = end;
    }
    let scratch = MemoryScratch::default();
    let limits = match memory {
        Some(bytes) => MemoryLimits { work_bytes: bytes, hash_bytes: bytes, temp_bytes_max: u64::MAX },
        None => MemoryLimits::default(),
    };
    let budget_rows = if random.bool() { i64::MAX } else { random.i64(1..200) };
    let how = How { memory: memory_on(&scratch, limits), budget_rows, want: random.usize(1..100), ..How::default() };
    let found = run_how(&plan, &mut MemoryTxn::default(), &how).unwrap();
    assert_eq!(found.len(), wanted.len(), "{name}");
    for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        assert_eq!(found[2], Datum::Int(at as i64), "{name}");
        assert_eq!(format!("{:?}", &found[WIDTH + 1..]), format!("{wanted:?}"), "row {at} of {name}");
    }
    assert_eq!(memory.is_some(), scratch.0.writes.load(Ordering::Relaxed) > 0, "{name}");
    assert_eq!((scratch.0.open.load(Ordering::Relaxed), how.memory.kept()), (0, 0), "{name}");
}

#[test]
fn frames_of_every_kind_give_what_their_definitions_say() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..600 {
        let count = random.usize(..60);
        let partitions = random.i64(1..6);
        check(&mut random, count, partitions, None);
    }
}

#[test]
fn partitions_that_memory_has_no_room_for_give_the_same() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..12 {
        check(&mut random, 1_600, 2, Some(8 << 10));
    }
}

#[test]
fn what_only_looks_back_keeps_no_rows() {
    let running = Frame { units: FrameUnits::Rows, ..Frame::default() };
    let call =
        |function, args: Vec<Expr>| WindowCall { function, args, filter: None, frame: running.clone(), most: None };
    let key = SortKey { expr: Expr::Column(1), descending: false, nulls_first: false };
    let rows: Vec<Row> = (0..3_000).map(|at| (at / 1_000, Some(at / 2), Some(1))).collect();
    let calls = [
        call(WindowFunction::RowNumber, vec![]),
        call(WindowFunction::Rank, vec![]),
        call(WindowFunction::DenseRank, vec![]),
        call(WindowFunction::FirstValue, vec![Expr::Column(2)]),
        call(aggregate("sum", &[Type::Int4]), vec![Expr::Column(3)]),
    ];
    let input = Box::new(node_of(&rows));
    let node = Node::Window { input, partition: [0].into(), order: [key].into(), calls: calls.into() };
    let scratch = MemoryScratch::default();
    let limits = MemoryLimits { work_bytes: 1 << 10, hash_bytes: 1 << 10, temp_bytes_max: u64::MAX };
    let how = How { memory: memory_on(&scratch, limits), budget_rows: 100, want: 10, ..How::default() };
    let found = run_how(&fragment(node, WIDTH + 5, 0), &mut MemoryTxn::default(), &how).unwrap();
    assert_eq!(found.len(), rows.len());
    for (at, row) in found.iter().enumerate() {
        let (first, within) = (at / 1_000 * 1_000, at % 1_000);
        let wanted = [within + 1, within / 2 * 2 + 1, within / 2 + 1, first, within + 1];
        assert_eq!(row[WIDTH..], wanted.map(|number| Datum::Int(number as i64)), "row {at}");
    }
    assert_eq!(scratch.0.writes.load(Ordering::Relaxed), 0);
}

/// Bug: a batch had 1,024 rows however large they were. Consequence: a running `array_agg` of a
/// large partition took gigabytes, whatever `work_mem` said. Fix: a batch ends by bytes, too.
#[test]
fn a_batch_of_large_values_ends_early() {
    const ROWS: usize = 3_000;
    for units in [FrameUnits::Rows, FrameUnits::Range(None)] {
        let running = Frame { units, ..Frame::default() };
        let function = aggregate("array_agg", &[Type::Int4]);
        let call = WindowCall { function, args: vec![Expr::Column(0)], filter: None, frame: running, most: None };
        let rows: Vec<Vec<Expr>> = (0..ROWS).map(|at| vec![int(at as i64)]).collect();
        let order = [SortKey { expr: Expr::Column(0), descending: false, nulls_first: false }];
        let input = Box::new(Node::Values { rows: rows.into() });
        let node = Node::Window { input, partition: [].into(), order: order.into(), calls: [call].into() };
        let how = How::default();
        let mut execution = Execution::new(&fragment(node, 2, 0));
        let (env, mut session, mut out) = (Env::default(), NoSession::default(), Batch::new());
        let (mut seen, mut most, mut reserved) = (0, 0, 0);
        loop {
            let mut cx = Context {
                env: &env,
                params: &[],
                session: &mut session,
                cancel: how.cancel,
                memory: &how.memory,
                budget_rows: i64::MAX,
            };
            match execution.step(&mut MemoryTxn::default(), &mut cx, &mut out).unwrap() {
                Outcome::Rows => {
                    for row in out.iter() {
                        let Datum::Array(array) = &row[1] else { panic!("{row:?}") };
                        seen += 1;
                        assert_eq!(array.values().len(), seen);
                    }
                    most = most.max(out.iter().map(row_bytes).sum());
                    reserved = reserved.max(how.memory.kept());
                }
                Outcome::Done => break,
                _ => {}
            }
        }
        assert_eq!(seen, ROWS);
        assert!(most < 1 << 20, "{most} bytes in a batch");
        assert!(reserved >= 128 << 10, "{reserved} bytes are counted");
    }
}
