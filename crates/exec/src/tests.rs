//! Tests of the operators on hand-made and on random plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use colibri_catalog::{Table, record};
use colibri_txn::{ColumnSet, Direction};
use colibri_types::{Datum, SqlState, Type, functions::ON_VALUES, operators, resolve};

use super::group::equal_keys;
use super::memory::MemoryLimits;
use super::test_bed::*;
use super::{Execution, Lowered};
use crate::eval::Evaluate as _;
use crate::expr::{CompareOp, Expr, Inner, ListId, Subquery, SubqueryKind};
use crate::plan::*;

const NULL: i64 = i64::MIN;

fn rows_of(node: Node, width: usize) -> Vec<Vec<i64>> {
    ints(&run(&fragment(node, width, 8), &mut MemoryTxn::default()).unwrap())
}

fn error_of(node: Node) -> SqlState {
    run(&fragment(node, 1, 0), &mut MemoryTxn::default()).unwrap_err().state()
}

fn call(name: &str, args: Vec<Expr>, distinct: bool) -> AggregateCall {
    let types = vec![Type::Int8; args.len()];
    let aggregate = resolve::resolve_aggregate(name, &types).unwrap().unwrap();
    AggregateCall { aggregate, args, distinct, filter: None, order: Vec::new() }
}

fn key(column: usize, descending: bool, nulls_first: bool) -> SortKey {
    SortKey { expr: Expr::Column(column), descending, nulls_first }
}

fn add(left: Expr, right: Expr) -> Expr {
    let function = ON_VALUES.operator("+", Some(Type::Int8), Type::Int8).unwrap();
    Expr::Call { function, args: vec![left, right] }
}

fn limit(input: Node, limit: Option<Expr>, offset: Option<Expr>) -> Node {
    Node::Limit { input: Box::new(input), limit, offset, ties: [].into() }
}

fn hash_join(kind: JoinKind, left: Node, right: Node, on: Option<Expr>) -> Node {
    let keys = || vec![Expr::Column(0)];
    let (left, right) = (Box::new(left), Box::new(right));
    Node::HashJoin {
        kind,
        left,
        right,
        left_keys: keys().into(),
        right_keys: keys().into(),
        on: on.map(Arc::new),
        left_width: 2,
        right_width: 2,
    }
}

#[test]
fn joins_of_every_kind_leave_nulls_without_partner() {
    let left = || values(&[&[1, 10], &[2, 20], &[NULL, 30], &[3, 40]]);
    let right = || values(&[&[2, 200], &[1, 100], &[2, 201], &[NULL, 300], &[4, 400]]);
    let join = |kind, width| rows_of(hash_join(kind, left(), right(), None), width);
    let inner = vec![vec![1, 10, 1, 100], vec![2, 20, 2, 200], vec![2, 20, 2, 201]];
    assert_eq!(join(JoinKind::Inner, 4), inner);
    let left_rows = [&inner[..], &[vec![NULL, 30, NULL, NULL], vec![3, 40, NULL, NULL]]].concat();
    assert_eq!(join(JoinKind::Left, 4), left_rows);
    let alone = [vec![NULL, NULL, NULL, 300], vec![NULL, NULL, 4, 400]];
    assert_eq!(join(JoinKind::Right, 4), [&inner[..], &alone].concat());
    assert_eq!(join(JoinKind::Full, 4), [&left_rows[..], &alone].concat());
    assert_eq!(join(JoinKind::Semi, 2), [[1, 10], [2, 20]]);
    assert_eq!(join(JoinKind::Anti, 2), [[NULL, 30], [3, 40]]);
}

#[test]
fn limit_reads_no_row_too_many() {
    let birds = Arc::new(table(100, "birds", 2, 1));
    let mut txn = MemoryTxn::default();
    fill(&mut txn, &birds, &(0..1000).map(|n| vec![Datum::Int(n), Datum::Int(-n)]).collect::<Vec<_>>());
    let plan = fragment(limit(scan(&birds, KeyRanges::default(), None), Some(int(3)), Some(int(2))), 2, 0);
    assert_eq!(ints(&run(&plan, &mut txn).unwrap()), [[2, -2], [3, -3], [4, -4]]);
    assert_eq!(txn.visited, 5);
    let plan = fragment(limit(scan(&birds, KeyRanges::default(), None), Some(int(0)), None), 2, 0);
    assert!(run(&plan, &mut txn).unwrap().is_empty());
    assert_eq!(txn.visited, 5);
}

#[test]
fn limits_that_are_null_or_negative() {
    let rows = || values(&[&[1], &[2]]);
    assert_eq!(rows_of(limit(rows(), None, None), 1).len(), 2);
    let null = || Some(Expr::Const(Datum::Null));
    assert_eq!(rows_of(limit(rows(), null(), null()), 1).len(), 2);
    assert_eq!(error_of(limit(rows(), Some(int(-1)), None)), SqlState::BAD_LIMIT);
    assert_eq!(error_of(limit(rows(), None, Some(int(-1)))), SqlState::BAD_OFFSET);
}

#[test]
fn series_step_both_ways_and_end_at_the_edge_of_their_type() {
    let series = |args: &[i64]| Node::Series {
        series: Series::Ints,
        args: args.iter().map(|&n| int(n)).collect(),
        numbered: false,
    };
    assert_eq!(rows_of(series(&[1, 3]), 1), [[1], [2], [3]]);
    assert_eq!(rows_of(series(&[3, 0, -2]), 1), [[3], [1]]);
    assert_eq!(rows_of(series(&[i64::MAX - 1, i64::MAX]), 1), [[i64::MAX - 1], [i64::MAX]]);
    assert!(rows_of(series(&[3, 1]), 1).is_empty());
    assert_eq!(error_of(series(&[1, 3, 0])), SqlState::BAD_PARAMETER);
}

#[test]
fn groups_take_null_for_a_value_and_no_input_for_one_group() {
    let input = || values(&[&[1, 5], &[NULL, 7], &[1, 5], &[2, NULL], &[NULL, 1]]);
    let calls = || {
        let args = || vec![Expr::Column(1)];
        vec![call("count", Vec::new(), false), call("count", args(), false), call("count", args(), true)]
    };
    let grouped = Node::Aggregate {
        input: Box::new(input()),
        keys: [Expr::Column(0)].into(),
        calls: calls().into(),
        presorted: [].into(),
        always: [].into(),
    };
    assert_eq!(rows_of(grouped, 4), [[1, 2, 2, 1], [NULL, 2, 2, 2], [2, 1, 0, 0]]);
    let empty = Node::Aggregate {
        input: Box::new(values(&[])),
        keys: [].into(),
        calls: calls().into(),
        presorted: [].into(),
        always: [].into(),
    };
    assert_eq!(rows_of(empty, 3), [[0, 0, 0]]);
    let none = Node::Aggregate {
        input: Box::new(values(&[])),
        keys: [Expr::Column(0)].into(),
        calls: calls().into(),
        presorted: [].into(),
        always: [].into(),
    };
    assert!(rows_of(none, 4).is_empty());
}

#[test]
fn sorting_is_stable_and_puts_nulls_where_asked() {
    let input = || values(&[&[2, 1], &[NULL, 2], &[1, 3], &[2, 4], &[NULL, 5]]);
    let sorted = |key: SortKey, top: Option<Expr>| {
        rows_of(Node::Sort { input: Box::new(input()), keys: [key].into(), top, presorted: 0 }, 2)
            .iter()
            .map(|row| row[1])
            .collect::<Vec<_>>()
    };
    assert_eq!(sorted(key(0, false, false), None), [3, 1, 4, 2, 5]);
    assert_eq!(sorted(key(0, false, true), None), [2, 5, 3, 1, 4]);
    assert_eq!(sorted(key(0, true, true), None), [2, 5, 1, 4, 3]);
    assert_eq!(sorted(key(0, true, false), Some(int(2))), [1, 4]);
    assert_eq!(sorted(key(0, false, false), Some(int(0))), [0i64; 0]);
}

#[test]
fn many_rows_are_sorted_in_pieces() {
    let series = Node::Series { series: Series::Ints, args: [int(0), int(99_999)].into(), numbered: false };
    let function = ON_VALUES.operator("%", Some(Type::Int8), Type::Int8).unwrap();
    let expr = Expr::Call { function, args: vec![Expr::Column(0), int(1009)] };
    let sort = Node::Sort {
        input: Box::new(series),
        keys: [SortKey { expr, descending: true, nulls_first: false }].into(),
        top: None,
        presorted: 0,
    };
    let rows = rows_of(sort, 1);
    assert_eq!(rows.len(), 100_000);
    assert!(rows.is_sorted_by_key(|row| (-(row[0] % 1009), row[0])));
}

#[test]
fn set_operations_on_sets_and_bags() {
    let left = || values(&[&[1], &[1], &[1], &[2], &[NULL], &[NULL]]);
    let right = || values(&[&[1], &[1], &[NULL], &[3]]);
    let op = |op, all| rows_of(Node::SetOp { op, all, left: Box::new(left()), right: Box::new(right()) }, 1);
    assert_eq!(op(SetOp::Intersect, false), [[1], [NULL]]);
    assert_eq!(op(SetOp::Intersect, true), [[1], [1], [NULL]]);
    assert_eq!(op(SetOp::Except, false), [[2]]);
    assert_eq!(op(SetOp::Except, true), [[1], [2], [NULL]]);
}

fn quantified(left: i64, op: CompareOp, all: bool, rows: &[&[i64]]) -> i64 {
    let left = if left == NULL { Expr::Const(Datum::Null) } else { int(left) };
    let kind = SubqueryKind::Quantified { left: vec![left], op, all };
    let subquery = Subquery {
        id: 0,
        query: Inner::Planned(fragment(values(rows), 1, 0)),
        args: Vec::new(),
        kind,
        text: Box::default(),
    };
    let expr = Expr::Subquery(Box::new(subquery));
    rows_of(Node::Values { rows: [vec![expr]].into() }, 1)[0][0]
}

#[test]
fn in_and_not_in_know_three_truths() {
    use CompareOp::{Eq, Gt, Lt, Ne};
    for (left, op, all, rows, truth) in [
        (1, Eq, false, &[&[1][..], &[NULL]][..], 1),
        (2, Eq, false, &[&[1], &[NULL]], NULL),
        (2, Eq, false, &[&[1]], 0),
        (NULL, Eq, false, &[&[1]], NULL),
        (NULL, Eq, false, &[], 0),
        (1, Ne, true, &[&[1], &[NULL]], 0),
        (2, Ne, true, &[&[1], &[NULL]], NULL),
        (2, Ne, true, &[&[1]], 1),
        (NULL, Ne, true, &[], 1),
        (2, Lt, false, &[&[1], &[3]], 1),
        (3, Lt, false, &[&[1], &[3]], 0),
        (3, Lt, false, &[&[1], &[NULL]], NULL),
        (2, Gt, true, &[&[1], &[0]], 1),
        (2, Gt, true, &[&[1], &[NULL]], NULL),
        (2, Gt, true, &[&[3], &[NULL]], 0),
        (1, Ne, false, &[&[1], &[2]], 1),
        (1, Eq, true, &[&[1], &[1]], 1),
    ] {
        assert_eq!(quantified(left, op, all, rows), truth, "{left} {op:?} all: {all} {rows:?}");
    }
}

#[test]
fn a_scalar_query_of_two_rows_is_an_error() {
    let scalar = |rows: &[&[i64]]| {
        let fragment = fragment(values(rows), 1, 0);
        let query = Inner::Planned(fragment);
        let subquery = Subquery { id: 3, query, args: Vec::new(), kind: SubqueryKind::Scalar, text: Box::default() };
        Node::Values { rows: [vec![Expr::Subquery(Box::new(subquery))]].into() }
    };
    assert_eq!(rows_of(scalar(&[]), 1), [[NULL]]);
    assert_eq!(rows_of(scalar(&[&[7]]), 1), [[7]]);
    assert_eq!(error_of(scalar(&[&[7], &[8]])), SqlState::CARDINALITY_VIOLATION);
}

#[test]
fn a_canceled_statement_ends() {
    let series = Node::Series { series: Series::Ints, args: [int(0), int(i64::MAX)].into(), numbered: false };
    let count = Node::Aggregate {
        input: Box::new(series),
        keys: [].into(),
        calls: [call("count", Vec::new(), false)].into(),
        presorted: [].into(),
        always: [].into(),
    };
    let cancel = AtomicBool::new(true);
    let how = How { cancel: &cancel, ..How::default() };
    let error = run_how(&fragment(count, 1, 0), &mut MemoryTxn::default(), &how).unwrap_err();
    assert_eq!(error.state(), SqlState::CANCELED);
}

#[test]
fn locked_rows_are_skipped_or_refused_and_no_more_are_locked_than_wanted() {
    let jobs = Arc::new(table(100, "jobs", 1, 1));
    let mut txn = MemoryTxn::default();
    fill(&mut txn, &jobs, &(0..100).map(|n| vec![Datum::Int(n)]).collect::<Vec<_>>());
    let plan = |if_locked| {
        let targets = vec![LockTarget { table: Arc::clone(&jobs), key: vec![0], only: None }];
        let input = Box::new(scan(&jobs, KeyRanges::default(), None));
        let lock = Node::LockRows { input, targets: targets.into(), mode: RowLock::Update, if_locked };
        fragment(limit(lock, Some(int(2)), None), 1, 0)
    };
    let first = txn.entries.keys().next().unwrap().1.clone();
    txn.locked.insert(first);
    assert_eq!(ints(&run(&plan(IfRowLocked::Skip), &mut txn).unwrap()), [[1], [2]]);
    assert_eq!(txn.own.len(), 2);
    let error = run(&plan(IfRowLocked::NoWait), &mut txn).unwrap_err();
    assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(error.to_string(), "could not obtain lock on row in relation \"jobs\"");
}

#[test]
fn a_row_by_its_key_is_read_on_the_straight_line() {
    let birds = Arc::new(table(100, "birds", 3, 2));
    let mut txn = MemoryTxn::default();
    let row = |n: i64| vec![Datum::Int(n / 10), Datum::Int(n % 10), Datum::Int(n)];
    fill(&mut txn, &birds, &(0..100).map(row).collect::<Vec<_>>());
    let ranges = KeyRanges { prefix: vec![KeyPart::Eq(Expr::Param(0)), KeyPart::Eq(int(7))], ..KeyRanges::default() };
    let node = scan(&birds, ranges, Some(compare(CompareOp::Lt, Expr::Column(2), int(50))));
    let exprs = vec![add(Expr::Column(2), int(1)), Expr::Column(1)];
    let plan = fragment(Node::Project { input: Box::new(node), exprs: exprs.into() }, 2, 0);
    assert!(matches!(Execution::new(&plan).0, Lowered::Point(_)));
    for (param, expected) in [(3, vec![vec![38, 7]]), (5, vec![]), (30, vec![])] {
        let params = [Datum::Int(param)];
        let how = How { params: &params, ..How::default() };
        assert_eq!(ints(&run_how(&plan, &mut txn, &how).unwrap()), expected);
    }
    let how = How { params: &[Datum::Null], ..How::default() };
    assert!(run_how(&plan, &mut txn, &how).unwrap().is_empty());
}

/// What a scan of ranges has to find: rows whose columns meet them, in the order of the index.
#[test]
fn ranges_of_keys_find_what_their_conditions_say() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut table = table(100, "t", 4, if random.bool() { 1 } else { 0 });
        let flags = |random: &mut fastrand::Rng| (random.bool(), random.bool());
        let ((d1, n1), (d2, n2)) = (flags(&mut random), flags(&mut random));
        let index = index(&mut table, &[(1, d1, n1), (2, d2, n2)]);
        let table = Arc::new(table);
        let small = |random: &mut fastrand::Rng| match random.i64(-1..6) {
            -1 => Datum::Null,
            n => Datum::Int(n),
        };
        let rows: Vec<Vec<Datum>> = (0..random.i64(0..60))
            .map(|n| vec![Datum::Int(n), small(&mut random), small(&mut random), Datum::Int(n * 10)])
            .collect();
        let mut txn = MemoryTxn::default();
        fill(&mut txn, &table, &rows);
        let part = |random: &mut fastrand::Rng| match random.u8(..3) {
            0 => KeyPart::Eq(Expr::Const(small(random))),
            1 => KeyPart::In((0..random.usize(..5)).map(|_| Expr::Const(small(random))).collect()),
            _ => KeyPart::Null,
        };
        let prefix: Vec<KeyPart> = (0..random.usize(..3)).map(|_| part(&mut random)).collect();
        let bound =
            |random: &mut fastrand::Rng| random.bool().then(|| (Expr::Const(small(random)), Inclusive(random.bool())));
        let bounded = prefix.len() < 2;
        let low = bound(&mut random).filter(|_| bounded);
        let high = bound(&mut random).filter(|_| bounded);
        let value = |expr: &Expr| if let Expr::Const(value) = expr { value.clone() } else { Datum::Null };
        let equal = |a: &Datum, b: &Datum| !a.is_null() && !b.is_null() && a == b;
        let meets = |row: &Vec<Datum>| {
            let fits = |(column, part): (usize, &KeyPart)| match part {
                KeyPart::Eq(expr) => equal(&row[1 + column], &value(expr)),
                KeyPart::In(exprs) => exprs.iter().any(|expr| equal(&row[1 + column], &value(expr))),
                KeyPart::Null => row[1 + column].is_null(),
                KeyPart::AnyOf(_) => unreachable!("none is made above"),
            };
            let next = row.get(1 + prefix.len());
            let within = |bound: &Option<(Expr, Inclusive)>, wanted: std::cmp::Ordering| {
                bound.as_ref().is_none_or(|(expr, inclusive)| {
                    let (Some(next), bound) = (next, value(expr)) else { return false };
                    if next.is_null() || bound.is_null() {
                        return false;
                    }
                    let ordering = operators::compare(next, &bound);
                    ordering == wanted || ordering.is_eq() && inclusive.0
                })
            };
            prefix.iter().enumerate().all(fits)
                && within(&low, std::cmp::Ordering::Greater)
                && within(&high, std::cmp::Ordering::Less)
        };
        let mut expected: Vec<Vec<Datum>> = rows.iter().filter(|row| meets(row)).cloned().collect();
        let order = |a: &Vec<Datum>, b: &Vec<Datum>| {
            let column =
                |column: usize, descending: bool, nulls_first: bool| match (a[column].is_null(), b[column].is_null()) {
                    (true, true) => std::cmp::Ordering::Equal,
                    (true, false) => {
                        if nulls_first {
                            std::cmp::Ordering::Less
                        } else {
                            std::cmp::Ordering::Greater
                        }
                    }
                    (false, true) => {
                        if nulls_first {
                            std::cmp::Ordering::Greater
                        } else {
                            std::cmp::Ordering::Less
                        }
                    }
                    _ if descending => operators::compare(&b[column], &a[column]),
                    _ => operators::compare(&a[column], &b[column]),
                };
            column(1, d1, n1).then(column(2, d2, n2)).then(operators::compare(&a[0], &b[0]))
        };
        expected.sort_by(order);
        let direction = if random.bool() { Direction::Forward } else { Direction::Backward };
        if direction == Direction::Backward {
            expected.reverse();
        }
        let covering = table.primary_key.is_some() && random.bool();
        let columns = if covering { vec![0, 1, 2] } else { vec![0, 1, 2, 3] };
        let width = columns.len();
        expected.iter_mut().for_each(|row| row.truncate(width));
        let ranges = KeyRanges { prefix, low, high, ..KeyRanges::default() };
        let scan = Scan {
            table: Arc::clone(&table),
            columns,
            access: Access::Index { index, ranges, covering },
            direction,
            filter: random.bool().then(|| compare(CompareOp::Ge, Expr::Column(0), int(0))),
            depends: ColumnSet::ALL,
            rows: 0.0,
        };
        let plan = fragment(Node::Scan(Arc::new(scan)), width, 0);
        let slices = How { budget_rows: random.i64(1..5), want: random.usize(1..5), ..How::default() };
        for how in [How::default(), slices] {
            let found = run_how(&plan, &mut txn, &how).unwrap();
            assert_eq!(ints(&found), ints(&expected), "seed {seed}: {:?}", plan.root);
        }
    }
}

/// A plan's rows by the shortest program that can be said to be right.
fn model(node: &Node, tables: &BTreeMap<u32, Vec<Vec<Datum>>>, slots: &mut Vec<Datum>) -> Vec<Vec<Datum>> {
    let env = colibri_types::Env::default();
    let eval = |expr: &Expr, row: &[Datum], slots: &[Datum]| {
        expr.eval_owned(&mut super::Scope::pure(&env, &[], slots), row).unwrap()
    };
    match node {
        Node::Values { rows } => {
            rows.iter().map(|row| row.iter().map(|expr| eval(expr, &[], slots)).collect()).collect()
        }
        Node::Scan(scan) => {
            let Access::Key { ranges } = &scan.access else { panic!("not in random plans") };
            let wanted: Vec<Datum> = ranges
                .prefix
                .iter()
                .map(|part| if let KeyPart::Eq(expr) = part { eval(expr, &[], slots) } else { Datum::Null })
                .collect();
            let rows = tables[&scan.table.id].iter().filter(|row| {
                wanted.iter().zip(row.iter()).all(|(a, b)| !a.is_null() && a == b)
                    && scan.filter.as_ref().is_none_or(|filter| eval(filter, row, slots).is_true())
            });
            rows.cloned().collect()
        }
        Node::Filter { input, condition } => {
            let rows = model(input, tables, slots);
            rows.into_iter().filter(|row| eval(condition, row, slots).is_true()).collect()
        }
        Node::Project { input, exprs } => {
            let rows = model(input, tables, slots);
            rows.iter().map(|row| exprs.iter().map(|expr| eval(expr, row, slots)).collect()).collect()
        }
        Node::NestedLoop { kind, outer, inner, first_slot, args, on, inner_width } => {
            let mut joined = Vec::new();
            for row in model(outer, tables, slots) {
                for (at, arg) in args.iter().enumerate() {
                    slots[first_slot + at] = eval(arg, &row, slots);
                }
                let inner_rows = model(inner, tables, slots);
                join_model(*kind, &row, &inner_rows, *inner_width, &mut joined, |row| {
                    on.as_ref().is_none_or(|on| eval(on, row, slots).is_true())
                });
            }
            joined
        }
        Node::AdaptiveJoin { few, .. } => model(few, tables, slots),
        Node::FirstRows { sorted, .. } => model(sorted, tables, slots),
        Node::MergeJoin { kind, left, right, keys, on, right_width } => {
            let right_rows = model(right, tables, slots);
            let mut joined = Vec::new();
            for row in model(left, tables, slots) {
                let is_equal = |other: &&Vec<Datum>| {
                    let equal = |key: &MergeKey| {
                        !row[key.left].is_null() && super::group::equal_key(&row[key.left], &other[key.right])
                    };
                    keys.iter().all(equal)
                };
                let partners: Vec<Vec<Datum>> = right_rows.iter().filter(is_equal).cloned().collect();
                join_model(*kind, &row, &partners, *right_width, &mut joined, |row| {
                    on.as_ref().is_none_or(|on| eval(on, row, slots).is_true())
                });
            }
            joined
        }
        Node::Rest { outer, .. } => model(outer, tables, slots),
        Node::HashJoin { kind, left, right, left_keys, right_keys, on, left_width, right_width } => {
            let right_rows = model(right, tables, slots);
            let mut used = vec![false; right_rows.len()];
            let mut joined = Vec::new();
            let keys = |exprs: &[Expr], row: &[Datum], slots: &[Datum]| -> Vec<Datum> {
                exprs.iter().map(|expr| eval(expr, row, slots)).collect()
            };
            for row in model(left, tables, slots) {
                let left_key = keys(left_keys, &row, slots);
                let matches: Vec<usize> = (0..right_rows.len())
                    .filter(|&at| {
                        let right_key = keys(right_keys, &right_rows[at], slots);
                        let joined = [&row[..], &right_rows[at]].concat();
                        !left_key.iter().any(Datum::is_null)
                            && equal_keys(&left_key, &right_key)
                            && on.as_ref().is_none_or(|on| eval(on, &joined, slots).is_true())
                    })
                    .collect();
                matches.iter().for_each(|&at| used[at] = true);
                let partners: Vec<Vec<Datum>> = matches.iter().map(|&at| right_rows[at].clone()).collect();
                join_model(*kind, &row, &partners, *right_width, &mut joined, |_| true);
            }
            if matches!(kind, JoinKind::Right | JoinKind::Full) {
                for (row, _) in right_rows.iter().zip(&used).filter(|(_, used)| !**used) {
                    joined.push([&vec![Datum::Null; *left_width][..], row].concat());
                }
            }
            joined
        }
        Node::Aggregate { input, keys, calls, always, .. } => {
            let rows = model(input, tables, slots);
            let mut groups: Vec<(Vec<Datum>, Vec<Vec<Datum>>)> = Vec::new();
            if keys.is_empty() {
                groups.push((Vec::new(), Vec::new()));
            }
            groups.extend(always.iter().map(|key| (key.clone(), Vec::new())));
            for row in rows {
                let key: Vec<Datum> = keys.iter().map(|key| eval(key, &row, slots)).collect();
                match groups.iter_mut().find(|(other, _)| equal_keys(other, &key)) {
                    Some((_, rows)) => rows.push(row),
                    None => groups.push((key, vec![row])),
                }
            }
            let finish = |(key, rows): (Vec<Datum>, Vec<Vec<Datum>>)| {
                let mut result = key;
                for call in calls.iter() {
                    let mut state = (call.aggregate.start)();
                    let mut rows = rows.clone();
                    if let Some(filter) = &call.filter {
                        rows.retain(|row| eval(filter, row, slots).is_true());
                    }
                    let mut seen: Vec<Vec<Datum>> = Vec::new();
                    for row in rows {
                        let args: Vec<Datum> = call.args.iter().map(|arg| eval(arg, &row, slots)).collect();
                        if call.distinct && seen.iter().any(|other| equal_keys(other, &args)) {
                            continue;
                        }
                        seen.push(args.clone());
                        state.update(&args.iter().collect::<Vec<_>>(), &env).unwrap();
                    }
                    result.push(state.finish().unwrap());
                }
                result
            };
            groups.into_iter().map(finish).collect()
        }
        Node::Distinct { input, columns, .. } => {
            let mut kept: Vec<Vec<Datum>> = Vec::new();
            for row in model(input, tables, slots) {
                if !kept.iter().any(|other| equal_keys(&other[..*columns], &row[..*columns])) {
                    kept.push(row);
                }
            }
            kept
        }
        Node::Sort { input, keys, top, .. } => {
            let mut rows = model(input, tables, slots);
            let order: Vec<_> = keys
                .iter()
                .map(
                    |key| {
                        if let Expr::Column(at) = key.expr { super::sorter::KeyOrder::new(at, key) } else { panic!() }
                    },
                )
                .collect();
            rows.sort_by(|a, b| super::sorter::compare_keys(&order, a, b));
            if let Some(Expr::Const(Datum::Int(top))) = top {
                rows.truncate(*top as usize);
            }
            rows
        }
        Node::Limit { input, limit, offset, .. } => {
            let count = |expr: &Option<Expr>, none: usize| match expr {
                Some(Expr::Const(Datum::Int(count))) => *count as usize,
                _ => none,
            };
            let rows = model(input, tables, slots).into_iter();
            rows.skip(count(offset, 0)).take(count(limit, usize::MAX)).collect()
        }
        Node::Append { inputs } => inputs.iter().flat_map(|input| model(input, tables, slots)).collect(),
        Node::SetOp { op, all, left, right } => {
            let mut right = model(right, tables, slots);
            let mut kept: Vec<Vec<Datum>> = Vec::new();
            for row in model(left, tables, slots) {
                let found = right.iter().position(|other| equal_keys(other, &row));
                let again = !*all && kept.iter().any(|other| equal_keys(other, &row));
                if (found.is_some() == (*op == SetOp::Intersect)) && !again {
                    kept.push(row);
                }
                if let (Some(found), true) = (found, *all) {
                    right.remove(found);
                }
            }
            kept
        }
        Node::Shared { input, .. } => model(input, tables, slots),
        _ => panic!("not in random plans"),
    }
}

fn join_model(
    kind: JoinKind,
    row: &[Datum],
    partners: &[Vec<Datum>],
    width: usize,
    joined: &mut Vec<Vec<Datum>>,
    on: impl Fn(&[Datum]) -> bool,
) {
    let found: Vec<Vec<Datum>> =
        partners.iter().map(|partner| [row, partner].concat()).filter(|joined| on(joined)).collect();
    match kind {
        JoinKind::Semi if !found.is_empty() => joined.push(row.to_vec()),
        JoinKind::Anti if found.is_empty() => joined.push(row.to_vec()),
        JoinKind::Semi | JoinKind::Anti => {}
        JoinKind::Left | JoinKind::Full if found.is_empty() => {
            joined.push([row, &vec![Datum::Null; width]].concat());
        }
        _ => joined.extend(found),
    }
}

struct Maker {
    random: fastrand::Rng,
    tables: Vec<Arc<Table>>,
    slots: usize,
    shared: Vec<Arc<Node>>,
}

impl Maker {
    fn operand(&mut self, width: usize, filled: &[usize]) -> Expr {
        match self.random.u8(..8) {
            0 => Expr::Const(Datum::Null),
            1 | 2 => int(self.random.i64(0..6)),
            3 if !filled.is_empty() => Expr::Arg(*self.random.choice(filled).unwrap()),
            _ => Expr::Column(self.random.usize(..width)),
        }
    }

    fn condition(&mut self, width: usize, filled: &[usize]) -> Expr {
        let op = *self.random.choice(&[CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Ge]).unwrap();
        let comparison = compare(op, self.operand(width, filled), self.operand(width, filled));
        match self.random.u8(..6) {
            0 => Expr::Not(Box::new(comparison)),
            1 => Expr::Or(vec![comparison, self.condition(width, filled)]),
            2 => Expr::And(vec![comparison, self.condition(width, filled)]),
            3 => {
                let list = (0..self.random.usize(1..12)).map(|_| int(self.random.i64(0..9))).collect();
                Expr::InList {
                    input: Box::new(self.operand(width, filled)),
                    list,
                    negated: self.random.bool(),
                    id: ListId::new(),
                }
            }
            _ => comparison,
        }
    }

    fn maybe_condition(&mut self, width: usize, filled: &[usize]) -> Option<Expr> {
        self.random.bool().then(|| self.condition(width, filled))
    }

    fn sort_keys(&mut self, width: usize) -> Vec<SortKey> {
        let random = &mut self.random;
        (0..random.usize(1..3)).map(|_| key(random.usize(..width), random.bool(), random.bool())).collect()
    }

    /// The same, whose rows come in an order.
    fn presorted(&mut self, depth: usize, filled: &[usize], keys: &[SortKey]) -> Node {
        let input = self.node(depth, filled);
        if keys.is_empty() {
            return input;
        }
        Node::Sort { input: Box::new(input), keys: keys.into(), top: None, presorted: 0 }
    }

    /// A plan whose rows come in the order of both columns.
    fn sorted(&mut self, depth: usize, filled: &[usize]) -> Node {
        let input = Box::new(self.node(depth, filled));
        let keys: Vec<SortKey> = (0..2).map(|column| key(column, self.random.bool(), false)).collect();
        Node::Sort { input, keys: keys.into(), top: None, presorted: 0 }
    }

    /// A plan with two columns. The slots `filled` hold something.
    fn node(&mut self, depth: usize, filled: &[usize]) -> Node {
        let small = |random: &mut fastrand::Rng| if random.u8(..5) == 0 { NULL } else { random.i64(0..6) };
        if depth == 0 {
            let table = Arc::clone(self.random.choice(&self.tables).unwrap());
            return match self.random.u8(..4) {
                0 => {
                    let rows: Vec<Vec<i64>> = (0..self.random.usize(..8))
                        .map(|_| vec![small(&mut self.random), small(&mut self.random)])
                        .collect();
                    values(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
                }
                1 if !filled.is_empty() => {
                    let slot = Expr::Arg(*self.random.choice(filled).unwrap());
                    scan(&table, KeyRanges { prefix: vec![KeyPart::Eq(slot)], ..KeyRanges::default() }, None)
                }
                _ => {
                    let filter = self.maybe_condition(2, filled);
                    scan(&table, KeyRanges::default(), filter)
                }
            };
        }
        let cut =
            |node: Node| Node::Project { input: Box::new(node), exprs: [Expr::Column(0), Expr::Column(3)].into() };
        match self.random.u8(..15) {
            14 => {
                let (random, slots, shared) = (self.random.clone(), self.slots, self.shared.len());
                let first = self.sorted(depth - 1, filled);
                // The same once more.
                (self.random, self.slots) = (random, slots);
                self.shared.truncate(shared);
                let second = self.sorted(depth - 1, filled);
                let top = Expr::Const(Datum::Int(self.random.i64(0..5)));
                let after = self.random.u64(..12);
                Node::FirstRows { after, top, in_order: Box::new(first), sorted: Box::new(second) }
            }
            0 => {
                let input = Box::new(self.node(depth - 1, filled));
                Node::Filter { input, condition: Arc::new(self.condition(2, filled)) }
            }
            1 => {
                let input = Box::new(self.node(depth - 1, filled));
                let exprs = vec![Expr::Column(1), add(Expr::Column(0), self.operand(2, filled))];
                Node::Project { input, exprs: exprs.into() }
            }
            2 | 3 => {
                let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti];
                let kind = *self.random.choice(&kinds).unwrap();
                let outer = Box::new(self.node(depth - 1, filled));
                let first_slot = self.slots;
                self.slots += 1;
                let inner = Box::new(self.node(depth - 1, &[filled, &[first_slot]].concat()));
                let on = self.maybe_condition(4, filled);
                let args = vec![Expr::Column(self.random.usize(..2))];
                let join = Node::NestedLoop {
                    kind,
                    outer,
                    inner,
                    first_slot,
                    args: args.into(),
                    on: on.map(Arc::new),
                    inner_width: 2,
                };
                if matches!(kind, JoinKind::Inner | JoinKind::Left) { cut(join) } else { join }
            }
            13 => {
                let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti];
                let kind = *self.random.choice(&kinds).unwrap();
                let (descending, nulls_first) = (self.random.bool(), self.random.bool());
                let columns = self.random.usize(1..3);
                let key_of = |column| MergeKey { left: column, right: column, descending, nulls_first };
                let order: Vec<SortKey> = (0..columns).map(|column| key(column, descending, nulls_first)).collect();
                let left = Box::new(self.presorted(depth - 1, filled, &order));
                let right = Box::new(self.presorted(depth - 1, filled, &order));
                let on = self.maybe_condition(4, filled).map(Arc::new);
                let keys = (0..columns).map(key_of).collect();
                let join = Node::MergeJoin { kind, left, right, keys, on, right_width: 2 };
                if matches!(kind, JoinKind::Inner | JoinKind::Left) { cut(join) } else { join }
            }
            12 => {
                let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti];
                let kind = *self.random.choice(&kinds).unwrap();
                let outer = Arc::new(self.node(depth - 1, filled));
                let first_slot = self.slots;
                self.slots += 1;
                let table = Arc::clone(self.random.choice(&self.tables).unwrap());
                let inner_filter = self.maybe_condition(2, filled);
                let inner = || scan(&table, KeyRanges::default(), inner_filter.clone());
                let is_partner = Arc::new(compare(CompareOp::Eq, Expr::Column(0), Expr::Arg(first_slot)));
                let id = RestId::next();
                let rest = || Node::Rest { id, outer: Arc::clone(&outer), rows: 1.0 };
                let on = self.maybe_condition(4, filled);
                let few = Node::NestedLoop {
                    kind,
                    outer: Box::new(rest()),
                    inner: Box::new(Node::Filter { input: Box::new(inner()), condition: is_partner }),
                    first_slot,
                    args: [Expr::Column(0)].into(),
                    on: on.clone().map(Arc::new),
                    inner_width: 2,
                };
                let (few, many) = (Box::new(few), Box::new(hash_join(kind, rest(), inner(), on)));
                let join =
                    Node::AdaptiveJoin { rest: id, expects_more: false, after: self.random.u64(..6), outer, few, many };
                if matches!(kind, JoinKind::Inner | JoinKind::Left) { cut(join) } else { join }
            }
            4 | 5 => {
                let kinds =
                    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];
                let kind = *self.random.choice(&kinds).unwrap();
                let (left, right) = (self.node(depth - 1, filled), self.node(depth - 1, filled));
                let on = self.maybe_condition(4, filled);
                let mut join = hash_join(kind, left, right, on);
                if let Node::HashJoin { left_keys, right_keys, .. } = &mut join {
                    match self.random.u8(..4) {
                        0 => {
                            *left_keys = [Expr::Column(0), Expr::Column(1)].into();
                            *right_keys = Arc::clone(left_keys);
                        }
                        1 => (*left_keys, *right_keys) = ([].into(), [].into()),
                        _ => {}
                    }
                }
                if matches!(kind, JoinKind::Semi | JoinKind::Anti) { join } else { cut(join) }
            }
            6 => {
                let name = *self.random.choice(&["count", "min", "max"]).unwrap();
                let mut call = call(name, vec![Expr::Column(1)], self.random.bool());
                call.filter = self.maybe_condition(2, filled);
                let order = [key(0, self.random.bool(), self.random.bool())];
                let presorted = if self.random.bool() { &[0][..] } else { &[] };
                let input = Box::new(self.presorted(depth - 1, filled, &order[..presorted.len()]));
                let keys = [Expr::Column(0)].into();
                let always = if presorted.is_empty() && self.random.bool() {
                    vec![vec![Datum::Null], vec![Datum::Int(self.random.i64(0..9))]]
                } else {
                    Vec::new()
                };
                let (calls, presorted, always) = ([call].into(), presorted.into(), always.into());
                Node::Aggregate { input, keys, calls, presorted, always }
            }
            7 => Node::Distinct {
                input: Box::new(self.node(depth - 1, filled)),
                columns: self.random.usize(1..3),
                sorted: false,
            },
            8 => {
                let keys = self.sort_keys(2);
                let top = self.random.bool().then(|| int(self.random.i64(0..9)));
                let presorted = self.random.usize(0..=keys.len());
                let input = self.presorted(depth - 1, filled, &keys[..presorted]);
                Node::Sort { input: Box::new(input), keys: keys.into(), top, presorted }
            }
            9 => {
                let count = |random: &mut fastrand::Rng| random.bool().then(|| int(random.i64(0..9)));
                let (most, skipped) = (count(&mut self.random), count(&mut self.random));
                limit(self.node(depth - 1, filled), most, skipped)
            }
            10 => Node::Append { inputs: (0..self.random.usize(1..4)).map(|_| self.node(depth - 1, filled)).collect() },
            _ if self.random.bool() => Node::SetOp {
                op: if self.random.bool() { SetOp::Intersect } else { SetOp::Except },
                all: self.random.bool(),
                left: Box::new(self.node(depth - 1, filled)),
                right: Box::new(self.node(depth - 1, filled)),
            },
            _ => {
                if self.shared.is_empty() || self.random.bool() {
                    let input = Arc::new(self.node(depth - 1, &[]));
                    self.shared.push(input);
                }
                let id = self.random.usize(..self.shared.len());
                Node::Shared { id, input: Arc::clone(&self.shared[id]) }
            }
        }
    }
}

#[test]
fn random_plans_give_the_same_rows_in_one_go_in_slices_and_by_the_model() {
    let seeds = std::env::var("COLIBRI_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    let mut spilled = 0;
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut txn = MemoryTxn::default();
        let mut contents = BTreeMap::new();
        let mut tables = Vec::new();
        for id in [100, 200] {
            let table = Arc::new(table(id, &format!("t{id}"), 2, 1));
            let mut rows: Vec<Vec<Datum>> = Vec::new();
            for n in 0..random.i64(0..40) {
                let other = random.i64(-1..7);
                rows.push(vec![Datum::Int(n), if other < 0 { Datum::Null } else { Datum::Int(other) }]);
            }
            fill(&mut txn, &table, &rows);
            contents.insert(id, rows);
            tables.push(table);
        }
        let mut maker = Maker { random: random.fork(), tables, slots: 0, shared: Vec::new() };
        let depth = random.usize(1..5);
        let root = maker.node(depth, &[]);
        let plan = fragment(root, 2, maker.slots);
        let expected = ints(&model(&plan.root, &contents, &mut vec![Datum::Null; maker.slots]));
        if expected.len() > 20_000 {
            continue;
        }
        let slices = How { budget_rows: random.i64(1..9), want: random.usize(1..20), ..How::default() };
        for how in [How::default(), How { budget_rows: 1, ..How::default() }, slices] {
            let found = run_how(&plan, &mut txn, &how);
            let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error} {:#?}", plan.root));
            assert_eq!(ints(&found), expected, "seed {seed}, budget {}: {:#?}", how.budget_rows, plan.root);
        }
        if depends_on_order(&plan.root) {
            continue;
        }
        // With so little memory that whatever keeps rows puts them on disk, in whatever order.
        let limits = MemoryLimits { work_bytes: 500, hash_bytes: 500, ..MemoryLimits::default() };
        let how = How { memory: memory(limits), budget_rows: random.i64(50..500), ..How::default() };
        let found = run_how(&plan, &mut txn, &how);
        let mut found = ints(&found.unwrap_or_else(|error| panic!("seed {seed}: {error} {:#?}", plan.root)));
        let mut expected = expected;
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "seed {seed}, on disk: {:#?}", plan.root);
        assert_eq!(how.memory.kept(), 0);
        spilled += how.memory.temp_files();
    }
    assert!(spilled > seeds / 4, "{spilled} temporary files");
}

/// Whether which rows a plan gives depends on the order in which others come.
fn depends_on_order(node: &Node) -> bool {
    let depends = |nodes: &[&Node]| nodes.iter().any(|node| depends_on_order(node));
    match node {
        Node::Limit { .. } | Node::Sort { top: Some(_), .. } | Node::Distinct { columns: 1, .. } => true,
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Aggregate { input, .. }
        | Node::Distinct { input, .. }
        | Node::Sort { input, .. } => depends_on_order(input),
        Node::Shared { input, .. } => depends_on_order(input),
        Node::NestedLoop { outer: left, inner: right, .. }
        | Node::HashJoin { left, right, .. }
        | Node::MergeJoin { left, right, .. }
        | Node::SetOp { left, right, .. } => depends(&[left, right]),
        Node::AdaptiveJoin { outer, .. } => depends_on_order(outer),
        Node::FirstRows { sorted, .. } => depends_on_order(sorted),
        Node::Append { inputs } => inputs.iter().any(depends_on_order),
        _ => false,
    }
}

/// Bug: a value for rows that are older than their column was NULL where its text could not be read.
/// Consequence: NULLs, also in NOT NULL columns. Fix: what needs the value fails.
#[test]
fn a_value_of_older_rows_that_cannot_be_read_is_an_error() {
    let mut of = table(300, "t", 3, 1);
    of.generations = vec![vec![1], vec![1, 2]].into();
    let row = [Datum::Int(7), Datum::Int(8), Datum::Null, Datum::Int(0)];
    for (missing, wanted) in [("9", Ok(Datum::Int(9))), ("nine", Err("XX001"))] {
        of.columns[2].missing = Some(missing.into());
        of.renew_layout();
        let (key, mut value) = (record::row_key(&of, &row).unwrap(), Vec::new());
        let layout = of.layout();
        record::encode_with(&layout.formats[0], &layout.stored[0], &row, &mut value).unwrap();
        let read = |columns: &[usize]| {
            let mut out = vec![Datum::Null; columns.len()];
            record::read_row(&of, &key, &value, columns, &mut out).map(|()| out).map_err(|error| error.state().0)
        };
        assert_eq!(read(&[0, 1]).unwrap(), row[..2]);
        assert_eq!(read(&[1, 2]).map(|row| row[1].clone()), wanted);
    }
}
