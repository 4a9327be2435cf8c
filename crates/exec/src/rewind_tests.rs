//! Rewinding: an operator that is run again, whatever it was doing, gives what a fresh one gives.
//!
//! Bug: a hash join whose right side was empty was done before its table was ready to be looked
//! into, and was asked for keys when it was run again. Consequence: a query inside an expression
//! panicked at its second outer row, and the session was lost. Fix: such a join is done again; and
//! here every operator is rewound in every state, over inputs with and without rows, with the slots
//! changed in between.

use std::cell::RefCell;
use std::sync::Arc;

use colibri_types::{Datum, Env, resolve};

use super::test_bed::*;
use super::{Batch, Context, Exec, Lowering, Run, Statement, Step};
use crate::expr::{CompareOp, Expr};
use crate::plan::*;

/// Slots that plans here read or fill.
const SLOTS: usize = 4;
/// Steps after which an operator is rewound, at most.
const STEPS_MAX: usize = 12;

/// An operator in a surrounding of its own.
struct Bed {
    env: Env,
    txn: MemoryTxn,
    session: NoSession,
    slots: Vec<Datum>,
    statement: Statement,
    lists: RefCell<super::eval::Lists>,
}

impl Bed {
    fn new(txn: MemoryTxn, slot: i64) -> Self {
        let mut slots = vec![Datum::Null; SLOTS];
        slots[0] = Datum::Int(slot);
        Self {
            env: Env::default(),
            txn,
            session: NoSession::default(),
            slots,
            statement: Statement::default(),
            lists: RefCell::default(),
        }
    }

    /// The operators of a node, with what they share.
    fn lower(&mut self, node: &Node) -> Run {
        let mut lowering = Lowering::default();
        let run = lowering.run(node);
        self.statement = lowering.statement;
        run
    }

    fn with<T>(&mut self, budget_rows: i64, run: impl FnOnce(&mut Exec<'_, '_>) -> T) -> T {
        let Self { env, txn, session, slots, statement, lists } = self;
        let memory = &super::test_bed::memory(super::MemoryLimits::default());
        let mut cx = Context { env, params: &[], session, cancel: &NOT_CANCELED, memory, budget_rows };
        run(&mut Exec { txn, cx: &mut cx, slots, statement, lists })
    }

    fn step(&mut self, run: &mut Run, node: &Node, out: &mut Batch, budget_rows: i64) -> Step {
        self.with(budget_rows, |ex| run.step(ex, out)).unwrap_or_else(|error| panic!("{error}: {node:?}"))
    }

    fn rows(&mut self, run: &mut Run, node: &Node) -> Vec<Vec<Datum>> {
        let mut out = Batch::new();
        let mut rows = Vec::new();
        loop {
            match self.step(run, node, &mut out, i64::MAX) {
                Step::Rows => rows.extend(out.iter().map(<[Datum]>::to_vec)),
                Step::Yield => {}
                Step::Done => return rows,
            }
        }
    }
}

/// Rows, or none; some depend on the first slot.
fn inputs() -> Vec<fn() -> Node> {
    fn of_slot() -> Node {
        let row = |value: i64| vec![Expr::Arg(0), int(value)];
        Node::Values { rows: (0..5).map(row).collect() }
    }
    fn none_of_slot() -> Node {
        let condition = compare(CompareOp::Gt, Expr::Arg(0), int(1));
        Node::Filter { input: Box::new(values(&[&[1, 1], &[2, 2], &[2, 3]])), condition: Arc::new(condition) }
    }
    vec![
        || values(&[]),
        || values(&[&[1, 10], &[2, 20], &[2, 21], &[i64::MIN, 30], &[3, 40]]),
        || values(&[&[2, 200], &[4, 400], &[1, 100], &[1, 101]]),
        of_slot,
        none_of_slot,
    ]
}

fn boxed(make: fn() -> Node) -> Box<Node> {
    Box::new(make())
}

fn by_first() -> SortKey {
    SortKey { expr: Expr::Column(0), descending: false, nulls_first: false }
}

fn window(input: fn() -> Node, function: WindowFunction, partition: &[usize]) -> Node {
    let calls = [WindowCall { function, args: Vec::new(), filter: None, frame: Frame::default(), most: None }].into();
    Node::Window { input: boxed(input), partition: partition.into(), order: [by_first()].into(), calls }
}

/// Operators over one input.
fn over_one(input: fn() -> Node) -> Vec<Node> {
    let count = || {
        let aggregate = resolve::resolve_aggregate("count", &[]).unwrap().unwrap();
        AggregateCall { aggregate, args: Vec::new(), distinct: false, filter: None, order: Vec::new() }
    };
    let sorted = |input: fn() -> Node| {
        Box::new(Node::Sort { input: boxed(input), keys: [by_first()].into(), top: None, presorted: 0 })
    };
    let second = || SortKey { expr: Expr::Column(1), descending: true, nulls_first: false };
    let two_keys = || [by_first(), second()].into();
    let big = |column| compare(CompareOp::Ge, Expr::Column(column), int(2));
    let series = |stop: Expr| vec![(Series::Ints, vec![int(1), stop])];
    vec![
        Node::Filter { input: boxed(input), condition: Arc::new(big(0)) },
        Node::Filter { input: boxed(input), condition: Arc::new(compare(CompareOp::Eq, Expr::Arg(0), int(1))) },
        Node::Project { input: boxed(input), exprs: [Expr::Column(1), Expr::Arg(0), Expr::Column(0)].into() },
        Node::Expand { input: boxed(input), calls: series(Expr::Column(0)).into() },
        Node::Expand { input: boxed(input), calls: series(Expr::Arg(0)).into() },
        window(input, WindowFunction::RowNumber, &[]),
        window(input, WindowFunction::CumeDist, &[0]),
        window(input, WindowFunction::RowNumber, &[0]),
        Node::Aggregate {
            input: boxed(input),
            keys: [].into(),
            calls: [count()].into(),
            presorted: [].into(),
            always: [].into(),
        },
        Node::Aggregate {
            input: boxed(input),
            keys: [Expr::Column(0)].into(),
            calls: [count()].into(),
            presorted: [].into(),
            always: [].into(),
        },
        Node::GroupingSets { input: boxed(input), sets: [[true, false].into(), [false, true].into()].into() },
        Node::Aggregate {
            input: boxed(input),
            keys: [Expr::Column(0)].into(),
            calls: [count()].into(),
            presorted: [].into(),
            always: [vec![Datum::Null], vec![Datum::Int(1)]].into(),
        },
        Node::Distinct { input: boxed(input), columns: 1, sorted: false },
        Node::Distinct { input: boxed(input), columns: 1, sorted: true },
        Node::Sort { input: boxed(input), keys: [by_first()].into(), top: None, presorted: 0 },
        Node::Sort { input: boxed(input), keys: [by_first()].into(), top: Some(Expr::Arg(0)), presorted: 0 },
        Node::Sort { input: sorted(input), keys: two_keys(), top: None, presorted: 1 },
        Node::Sort { input: sorted(input), keys: two_keys(), top: Some(Expr::Arg(0)), presorted: 1 },
        Node::Aggregate {
            input: sorted(input),
            keys: [Expr::Column(1), Expr::Column(0)].into(),
            calls: [count()].into(),
            presorted: [1].into(),
            always: [].into(),
        },
        Node::Limit { input: boxed(input), limit: Some(Expr::Arg(0)), offset: Some(int(1)), ties: [].into() },
        Node::Limit { input: boxed(input), limit: None, offset: Some(Expr::Arg(0)), ties: [].into() },
    ]
}

/// Operators over two inputs.
fn over_two(left: fn() -> Node, right: fn() -> Node) -> Vec<Node> {
    let mut nodes = vec![Node::Append { inputs: vec![left(), right()] }];
    for op in [SetOp::Intersect, SetOp::Except] {
        for all in [false, true] {
            nodes.push(Node::SetOp { op, all, left: boxed(left), right: boxed(right) });
        }
    }
    use JoinKind::{Anti, Full, Inner, Left, Right, Semi};
    for kind in [Inner, Left, Right, Full, Semi, Anti] {
        for on in [None, Some(compare(CompareOp::Lt, Expr::Column(1), Expr::Column(3)))] {
            for keys in [vec![Expr::Column(0)], Vec::new()] {
                nodes.push(Node::HashJoin {
                    kind,
                    left: boxed(left),
                    right: boxed(right),
                    left_keys: keys.clone().into(),
                    right_keys: keys.into(),
                    on: on.clone().map(Arc::new),
                    left_width: 2,
                    right_width: 2,
                });
            }
            if matches!(kind, Right | Full) {
                continue;
            }
            let inner = Node::Filter {
                input: boxed(right),
                condition: Arc::new(compare(CompareOp::Le, Expr::Arg(1), Expr::Column(0))),
            };
            nodes.push(Node::NestedLoop {
                kind,
                outer: boxed(left),
                inner: Box::new(inner),
                first_slot: 1,
                args: [Expr::Column(0)].into(),
                on: on.map(Arc::new),
                inner_width: 2,
            });
        }
    }
    for kind in [Inner, Left, Semi, Anti] {
        for after in [0, 1, 1_000] {
            nodes.push(adaptive_join(kind, after, left, right));
        }
        for on in [None, Some(compare(CompareOp::Lt, Expr::Column(1), Expr::Column(3)))] {
            let sorted = |input: fn() -> Node| {
                Box::new(Node::Sort { input: boxed(input), keys: [by_first()].into(), top: None, presorted: 0 })
            };
            let key = MergeKey { left: 0, right: 0, descending: false, nulls_first: false };
            let (left, right, on) = (sorted(left), sorted(right), on.map(Arc::new));
            nodes.push(Node::MergeJoin { kind, left, right, keys: [key].into(), on, right_width: 2 });
        }
    }
    nodes
}

/// Finds partners by the first columns of rows of two.
fn adaptive_join(kind: JoinKind, after: u64, left: fn() -> Node, right: fn() -> Node) -> Node {
    let (id, outer) = (RestId::next(), Arc::new(left()));
    let rest = || Box::new(Node::Rest { id, outer: Arc::clone(&outer), rows: 1.0 });
    let is_partner = compare(CompareOp::Eq, Expr::Column(0), Expr::Arg(1));
    let few = Node::NestedLoop {
        kind,
        outer: rest(),
        inner: Box::new(Node::Filter { input: boxed(right), condition: Arc::new(is_partner) }),
        first_slot: 1,
        args: [Expr::Column(0)].into(),
        on: None,
        inner_width: 2,
    };
    let many = Node::HashJoin {
        kind,
        left: rest(),
        right: boxed(right),
        left_keys: [Expr::Column(0)].into(),
        right_keys: [Expr::Column(0)].into(),
        on: None,
        left_width: 2,
        right_width: 2,
    };
    Node::AdaptiveJoin {
        rest: id,
        expects_more: false,
        after,
        outer: Arc::clone(&outer),
        few: Box::new(few),
        many: Box::new(many),
    }
}

fn leaves(birds: &Arc<colibri_catalog::Table>) -> Vec<Node> {
    let one = || KeyRanges { prefix: vec![KeyPart::Eq(Expr::Arg(0))], ..KeyRanges::default() };
    let series = |numbered| Node::Series { series: Series::Ints, args: [int(0), Expr::Arg(0)].into(), numbered };
    let mut nodes: Vec<Node> = inputs().into_iter().map(|input| input()).collect();
    nodes.extend([
        scan(birds, KeyRanges::default(), None),
        scan(birds, one(), None),
        scan(birds, KeyRanges::default(), Some(compare(CompareOp::Ge, Expr::Column(0), Expr::Arg(0)))),
        Node::CountRange { table: Arc::clone(birds), access: Arc::new(Access::Key { ranges: KeyRanges::default() }) },
        Node::CountRange { table: Arc::clone(birds), access: Arc::new(Access::Key { ranges: one() }) },
        Node::GroupScan(Arc::new(GroupScan {
            table: Arc::clone(birds),
            index: None,
            columns: 1,
            calls: vec![KeyCall::Rows],
        })),
        series(false),
        series(true),
        Node::Series { series: Series::One, args: [Expr::Arg(0)].into(), numbered: true },
        Node::Shared { id: 0, input: Arc::new(values(&[&[1], &[2], &[3]])) },
    ]);
    nodes
}

fn birds(txn: &mut MemoryTxn) -> Arc<colibri_catalog::Table> {
    let birds = Arc::new(table(100, "birds", 2, 1));
    fill(txn, &birds, &(0..6).map(|n| vec![Datum::Int(n), Datum::Int(-n)]).collect::<Vec<_>>());
    birds
}

fn check(node: &Node) {
    let bed = |slot| {
        let mut txn = MemoryTxn::default();
        birds(&mut txn);
        Bed::new(txn, slot)
    };
    let fresh = |slot| {
        let mut bed = bed(slot);
        let mut run = bed.lower(node);
        bed.rows(&mut run, node)
    };
    for (first, second) in [(1, 1), (1, 2), (2, 1), (3, 3)] {
        let expected = fresh(second);
        for (budget, want) in [(1, 1), (2, 3), (i64::MAX, 1), (i64::MAX, 1024)] {
            for steps in 0..STEPS_MAX {
                let mut bed = bed(first);
                let mut run = bed.lower(node);
                let mut out = Batch::new();
                let mut ended = false;
                for _ in 0..steps {
                    out.want(want);
                    ended = bed.step(&mut run, node, &mut out, budget) == Step::Done;
                    if ended {
                        break;
                    }
                }
                for again in 0..2 {
                    bed.slots[0] = Datum::Int(second);
                    bed.with(i64::MAX, |ex| run.rewind(ex));
                    let found = bed.rows(&mut run, node);
                    assert_eq!(
                        found, expected,
                        "rewound after {steps} steps of {budget} rows, time {again}, slot {first} then {second}: {node:#?}"
                    );
                }
                run.reset();
                bed.statement.reset();
                let found = bed.rows(&mut run, node);
                assert_eq!(found, expected, "used for another statement, slot {second}: {node:#?}");
                if ended {
                    break;
                }
            }
        }
    }
}

#[test]
fn first_rows_are_the_same_either_way_when_they_are_asked_for_again() {
    let birds = birds(&mut MemoryTxn::default());
    let from = compare(CompareOp::Ge, Expr::Column(0), Expr::Arg(0));
    for after in [0, 1, 3, 100] {
        for top in [0, 1, 2, 100] {
            let way = || Box::new(scan(&birds, KeyRanges::default(), Some(from.clone())));
            let top = Expr::Const(Datum::Int(top));
            check(&Node::FirstRows { after, top, in_order: way(), sorted: way() });
        }
    }
}

#[test]
fn an_operator_that_is_run_again_gives_what_a_fresh_one_gives() {
    for leaf in leaves(&birds(&mut MemoryTxn::default())) {
        check(&leaf);
    }
    for input in inputs() {
        over_one(input).iter().for_each(check);
    }
}

#[test]
fn an_operator_over_two_inputs_that_is_run_again_gives_what_a_fresh_one_gives() {
    for left in inputs() {
        for right in inputs() {
            over_two(left, right).iter().for_each(check);
        }
    }
}

#[test]
fn a_join_inside_a_join_that_is_run_again_gives_what_a_fresh_one_gives() {
    for right in inputs() {
        for inner in over_two(inputs()[1], right) {
            // What gives four columns is cut to two.
            let inner = Node::Project { input: Box::new(inner), exprs: [Expr::Column(0), Expr::Column(1)].into() };
            check(&Node::HashJoin {
                kind: JoinKind::Left,
                left: boxed(inputs()[2]),
                right: Box::new(inner),
                left_keys: [Expr::Column(0)].into(),
                right_keys: [Expr::Column(0)].into(),
                on: None,
                left_width: 2,
                right_width: 2,
            });
        }
    }
}
