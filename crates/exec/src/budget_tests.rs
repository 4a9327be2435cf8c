//! No operator outlives its slice: every operator, over inputs of which it gives no row however
//! many there are, ends its steps by the budget.
//!
//! Bug: loop joins never looked at the budget, and gave nothing while no pair matched. Consequence:
//! a time limit of 300 ms came after 20 s, and others waited as long. Fix: whatever is looked at
//! counts; and here every operator that there is has to show it.

use std::collections::BTreeSet;
use std::sync::Arc;

use colibri_catalog::system_tables::{Lasting, Rows, SystemTable};
use colibri_catalog::{Table, record};

use colibri_types::{Datum, Env, Result, Type, resolve};

use super::batch::BATCH_ROWS_MAX;
use super::memory::MemoryLimits;
use super::test_bed::*;
use super::{Batch, Context, Execution, Outcome};
use crate::expr::{CompareOp, Expr};
use crate::plan::*;

/// Rows that a step may look at.
const BUDGET_ROWS: i64 = 64;
/// How much more that may become: a batch that was begun, and what is done with it.
const OVERSPENT_MAX: i64 = 3 * BATCH_ROWS_MAX as i64;
/// Rows that plans here look at, at least.
const ROWS: i64 = 20_000;
/// Steps that this takes, at least.
const STEPS_MIN: usize = 5;

/// The operators there are. A new one needs a plan below that is long because of it.
macro_rules! operators {
    ($($name:ident)*) => {
        const OPERATORS: &[&str] = &[$(stringify!($name)),*];

        fn name_of(node: &Node) -> &'static str {
            match node {
                $(Node::$name { .. } => stringify!($name)),*
            }
        }
    };
}

operators!(Values Series System Expand Window Scan CountRange GroupScan Filter Project NestedLoop HashJoin MergeJoin GroupingSets Aggregate Parallel Distinct
    Sort Limit Append SetOp Shared Recursive Working Keyed Switch FirstRows Choice AdaptiveJoin Rest LockRows Insert Update Delete Merge Parts);

fn series_from(start: i64, stop: i64) -> Node {
    Node::Series { series: Series::Ints, args: [int(start), int(stop)].into(), numbered: false }
}

fn series(stop: i64) -> Node {
    series_from(1, stop)
}

/// None of the rows.
fn none(input: Node) -> Node {
    let condition = Arc::new(compare(CompareOp::Lt, Expr::Column(0), int(-ROWS)));
    Node::Filter { input: Box::new(input), condition }
}

fn merge_join(kind: JoinKind, left: Node, right: Node) -> Node {
    let key = MergeKey { left: 0, right: 0, descending: false, nulls_first: false };
    let (left, right) = (Box::new(left), Box::new(right));
    Node::MergeJoin { kind, left, right, keys: [key].into(), on: None, right_width: 1 }
}

/// Rows that are joined with themselves, in two ways.
fn adaptive_join(after: u64) -> Node {
    let (id, outer) = (RestId::next(), Arc::new(series(ROWS)));
    let rest = || Node::Rest { id, outer: Arc::clone(&outer), rows: 1.0 };
    let many = Node::HashJoin {
        kind: JoinKind::Inner,
        left: Box::new(rest()),
        right: Box::new(series(ROWS)),
        left_keys: [Expr::Column(0)].into(),
        right_keys: [Expr::Column(0)].into(),
        on: None,
        left_width: 1,
        right_width: 1,
    };
    let few = nested_loop(JoinKind::Inner, rest(), series(200));
    Node::AdaptiveJoin {
        rest: id,
        expects_more: false,
        after,
        outer: Arc::clone(&outer),
        few: Box::new(few),
        many: Box::new(many),
    }
}

/// All rows are one partition.
fn window(function: WindowFunction) -> Node {
    let calls = [WindowCall { function, args: Vec::new(), filter: None, frame: Frame::default(), most: None }].into();
    Node::Window { input: Box::new(series(ROWS)), partition: [].into(), order: [].into(), calls }
}

fn plus_one(value: Expr) -> Expr {
    let function = colibri_types::functions::ON_VALUES.operator("+", Some(Type::Int8), Type::Int8).unwrap();
    Expr::Call { function, args: vec![value, int(1)] }
}

fn nested_loop(kind: JoinKind, outer: Node, inner: Node) -> Node {
    Node::NestedLoop {
        kind,
        outer: Box::new(outer),
        inner: Box::new(inner),
        first_slot: 0,
        args: [Expr::Column(0)].into(),
        on: None,
        inner_width: 1,
    }
}

/// All rows have the same key, and no pair meets the condition.
fn hash_join(kind: JoinKind, rows: i64) -> Node {
    let on = compare(CompareOp::Lt, Expr::Column(0), int(0));
    Node::HashJoin {
        kind,
        left: Box::new(series(rows)),
        right: Box::new(series(rows)),
        left_keys: [int(1)].into(),
        right_keys: [int(1)].into(),
        on: Some(Arc::new(on)),
        left_width: 1,
        right_width: 1,
    }
}

fn system_table() -> &'static SystemTable {
    fn fill(_: &Env, rows: &mut Rows) -> Result<()> {
        (0..ROWS).try_for_each(|n| rows.push([Datum::Int(n)]))
    }
    Box::leak(Box::new(SystemTable {
        oid: 1,
        schema: "pg_catalog",
        name: "pg_many",
        is_view: false,
        is_function: false,
        columns: vec![("n", Type::Int8)],
        is_padded: false,
        rows: Some(fill),
        lasting: Lasting::Statement,
        keys: Vec::new(),
        rows_expected: ROWS as f64,
        fresh: None,
        find: |table, env, _| table.make(env, None),
    }))
}

fn keyed() -> Node {
    let keys = [KeyColumn { column: 0, value: Expr::Arg(0), with_nulls: false }].into();
    let input = Arc::new(series_from(-ROWS, -1));
    Node::Keyed { id: KeyedId::next(), input, width: 1, keys, looked_at_max: u64::MAX }
}

fn rules() -> Arc<TableRules> {
    Arc::new(TableRules {
        is_view: false,
        of_views: usize::MAX,
        partition: Vec::new(),
        domains: Vec::new(),
        checks: Vec::new(),
        expressions: Arc::new([]),
        generated: Arc::new([]),
        foreign_keys: Vec::new(),
        referenced_by: Vec::new(),
        triggers: None,
        others: std::sync::OnceLock::new(),
    })
}

/// Plans that look at many rows and give none.
fn plans(birds: &Arc<Table>, fresh: &Arc<Table>) -> Vec<Node> {
    let count = AggregateCall {
        aggregate: resolve::resolve_aggregate("count", &[]).unwrap().unwrap(),
        args: Vec::new(),
        distinct: false,
        filter: None,
        order: Vec::new(),
    };
    let by_first = SortKey { expr: Expr::Column(0), descending: true, nulls_first: false };
    let boxed = |node: Node| Box::new(node);
    let birds_that_are_not = || compare(CompareOp::Lt, Expr::Column(0), int(0));
    let set_op = |op, left, right| Node::SetOp { op, all: false, left: Box::new(left), right: Box::new(right) };
    let working = || Node::Working { id: 0, name: "r".into(), columns: Arc::new(["n".into()]) };
    let next = Node::Project { input: boxed(working()), exprs: [plus_one(Expr::Column(0))].into() };
    let below = Arc::new(compare(CompareOp::Le, Expr::Column(0), int(ROWS / 8)));
    let locked = LockTarget { table: Arc::clone(birds), key: vec![0], only: None };
    let kept = Arc::new(series(ROWS));
    let row = [Expr::Column(0), int(0)].into();
    let write = |column| Assignment { column, value: AssignedValue::Expr(int(7)) };
    let all_birds = || scan(birds, KeyRanges::default(), None);
    vec![
        none(Node::Values { rows: (0..ROWS).map(|n| vec![int(n)]).collect() }),
        none(series(ROWS)),
        none(Node::System { table: system_table(), columns: [0].into(), lookup: None }),
        // Each row as often as an empty series has rows.
        Node::Expand { input: boxed(series(ROWS)), calls: [(Series::Ints, vec![int(1), int(0)])].into() },
        none(window(WindowFunction::RowNumber)),
        none(window(WindowFunction::CumeDist)),
        scan(birds, KeyRanges::default(), Some(birds_that_are_not())),
        none(Node::GroupScan(Arc::new(GroupScan {
            table: Arc::clone(birds),
            index: None,
            columns: 1,
            calls: vec![KeyCall::Rows],
        }))),
        Node::Project { input: boxed(none(series(ROWS))), exprs: [Expr::Column(0)].into() },
        nested_loop(JoinKind::Inner, series(200), none(series(200))),
        nested_loop(JoinKind::Semi, series(200), none(series(200))),
        // Every row has a partner.
        nested_loop(JoinKind::Anti, series(ROWS), series(1)),
        nested_loop(JoinKind::Inner, series(ROWS), none(series(0))),
        hash_join(JoinKind::Inner, 200),
        merge_join(JoinKind::Inner, series_from(-ROWS, -1), series(ROWS)),
        merge_join(JoinKind::Anti, series(ROWS), series(ROWS)),
        hash_join(JoinKind::Semi, 200),
        none(hash_join(JoinKind::Full, 200)),
        Node::Aggregate {
            input: boxed(none(series(ROWS))),
            keys: [Expr::Column(0)].into(),
            calls: [].into(),
            presorted: [].into(),
            always: [].into(),
        },
        none(Node::Aggregate {
            input: boxed(series(ROWS)),
            keys: [Expr::Column(0)].into(),
            calls: [count].into(),
            presorted: [].into(),
            always: [].into(),
        }),
        none(Node::Parallel {
            input: Arc::new(Node::Aggregate {
                input: boxed(series(ROWS)),
                keys: [Expr::Column(0)].into(),
                calls: [].into(),
                presorted: [].into(),
                always: [].into(),
            }),
        }),
        none(Node::GroupingSets { input: boxed(series(ROWS)), sets: [[true].into(), [false].into()].into() }),
        Node::Distinct { input: boxed(none(series(ROWS))), columns: 1, sorted: false },
        none(Node::Distinct { input: boxed(series(ROWS)), columns: 1, sorted: false }),
        none(Node::Distinct { input: boxed(series(ROWS)), columns: 1, sorted: true }),
        none(Node::Sort { input: boxed(series(ROWS)), keys: [by_first.clone()].into(), top: None, presorted: 0 }),
        Node::Sort {
            input: boxed(none(series(ROWS))),
            keys: [by_first.clone()].into(),
            top: Some(int(3)),
            presorted: 0,
        },
        none(Node::Sort { input: boxed(series(ROWS)), keys: [by_first.clone()].into(), top: None, presorted: 1 }),
        none(Node::Aggregate {
            input: boxed(series(ROWS)),
            keys: [Expr::Column(0)].into(),
            calls: [].into(),
            presorted: [0].into(),
            always: [].into(),
        }),
        Node::Limit { input: boxed(series(ROWS)), limit: None, offset: Some(int(ROWS)), ties: [].into() },
        Node::Append { inputs: (0..ROWS).map(|_| values(&[])).collect() },
        set_op(SetOp::Except, series(ROWS), series(ROWS)),
        set_op(SetOp::Intersect, series(ROWS), series_from(-ROWS, -1)),
        none(Node::Shared { id: 0, input: Arc::new(series(ROWS)) }),
        none(Node::Recursive {
            id: 0,
            name: "r".into(),
            all: true,
            columns: 1,
            first: boxed(series(1)),
            again: boxed(Node::Filter { input: boxed(next), condition: below }),
        }),
        nested_loop(JoinKind::Inner, series(ROWS), keyed()),
        nested_loop(
            JoinKind::Inner,
            series(ROWS),
            Node::Switch { after: 100, plain: boxed(none(series(50))), by_key: boxed(keyed()) },
        ),
        none(adaptive_join(100)),
        first_rows(100),
        first_rows(u64::MAX),
        Node::Choice {
            few_max: 10,
            kept: boxed(Node::Keyed {
                id: KeyedId::next(),
                input: kept,
                width: 1,
                keys: [].into(),
                looked_at_max: u64::MAX,
            }),
            few: boxed(none(series(ROWS))),
            many: boxed(none(series(ROWS))),
        },
        // Others have locked them all.
        Node::LockRows {
            input: boxed(all_birds()),
            targets: [locked].into(),
            mode: RowLock::Update,
            if_locked: IfRowLocked::Skip,
        },
        Node::Insert(Arc::new(Insert {
            table: Arc::clone(fresh),
            source: Node::Project { input: boxed(series(ROWS)), exprs: row },
            on_conflict: None,
            returning: None,
            rules: rules(),
            security: RowChecks::default(),
            tree: None,
        })),
        Node::Update(Arc::new(Update {
            table: Arc::clone(fresh),
            source: scan(fresh, KeyRanges::default(), None),
            assignments: vec![write(1)],
            returning: None,
            rules: rules(),
            security: RowChecks::default(),
            tree: None,
        })),
        Node::Delete(Arc::new(Delete {
            table: Arc::clone(fresh),
            source: scan(fresh, KeyRanges::default(), None),
            returning: None,
            rules: rules(),
            tree: None,
        })),
        Node::Parts { main: boxed(merge_of_nothing(all_birds(), fresh, rules())), parts: Vec::new() },
    ]
}

/// Looks at rows, and does nothing with them.
fn merge_of_nothing(source: Node, into: &Arc<Table>, rules: Arc<TableRules>) -> Node {
    let action =
        MergeAction { is_matched: true, condition: None, what: MergeWhat::Nothing, security: RowChecks::default() };
    Node::Merge(Arc::new(Merge { table: Arc::clone(into), source, actions: vec![action], rules }))
}

/// Both ways look at many rows, and find none.
fn first_rows(after: u64) -> Node {
    let way = || Box::new(none(series(ROWS)));
    Node::FirstRows { after, top: Expr::Const(Datum::Int(10)), in_order: way(), sorted: way() }
}

/// How many steps a plan takes that gives no row.
fn steps_of(node: Node, txn: &mut MemoryTxn) -> usize {
    let shown = format!("{node:?}").chars().take(300).collect::<String>();
    let fragment = fragment(node, 2, 1);
    let mut execution = Execution::new(&fragment);
    let (env, mut session, memory) = (Env::default(), NoSession::default(), memory(MemoryLimits::default()));
    let mut out = Batch::new();
    for step in 1.. {
        let mut cx = Context {
            env: &env,
            params: &[],
            session: &mut session,
            cancel: &NOT_CANCELED,
            memory: &memory,
            budget_rows: BUDGET_ROWS,
        };
        let done = execution.step(txn, &mut cx, &mut out).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert!(cx.budget_rows >= -OVERSPENT_MAX, "a step looks at {} rows: {shown}", BUDGET_ROWS - cx.budget_rows);
        match done {
            Outcome::Rows => panic!("a row that should not be there: {:?}: {shown}", out.row(0)),
            Outcome::Yield => assert!(cx.budget_rows <= 0, "a step ends before its time: {shown}"),
            Outcome::Done => return step,
            Outcome::Interrupted(pause) => panic!("{pause:?}: {shown}"),
        }
    }
    unreachable!("steps do not end by themselves")
}

#[test]
fn every_operator_that_gives_no_row_ends_its_steps_by_the_budget() {
    const TABLE_ROWS: i64 = 4_000;
    let (birds, fresh) = (Arc::new(table(100, "birds", 2, 1)), Arc::new(table(200, "fresh", 2, 1)));
    let mut txn = MemoryTxn::default();
    let rows: Vec<Vec<Datum>> = (0..TABLE_ROWS).map(|n| vec![Datum::Int(n), Datum::Int(-n)]).collect();
    fill(&mut txn, &birds, &rows);
    for row in &rows {
        txn.locked.insert(record::row_key(&birds, row).unwrap().to_vec());
    }
    // Counting is not long: it visits a path of a tree, whatever is in it.
    let mut found = BTreeSet::from(["CountRange"]);
    for node in plans(&birds, &fresh) {
        node.for_each_operator(&mut |node| {
            found.insert(name_of(node));
        });
        let shown = format!("{node:?}").chars().take(300).collect::<String>();
        // Rows of one table are locked in another way than those of the other one.
        let locked = if matches!(node, Node::LockRows { .. }) { None } else { Some(std::mem::take(&mut txn.locked)) };
        let steps = steps_of(node, &mut txn);
        if let Some(locked) = locked {
            txn.locked = locked;
        }
        assert!(steps >= STEPS_MIN, "only {steps} steps: {shown}");
    }
    let missing: Vec<_> = OPERATORS.iter().filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "no plan has {missing:?}");
}

#[test]
fn operators_are_lowered_in_the_order_of_the_plan() {
    let (birds, fresh) = (Arc::new(table(100, "birds", 2, 1)), Arc::new(table(200, "fresh", 2, 1)));
    for node in plans(&birds, &fresh) {
        let mut in_plan = 0;
        node.for_each_operator(&mut |_| in_plan += 1);
        let mut lowering = super::Lowering::default();
        lowering.run(&node);
        assert_eq!(lowering.operators, in_plan, "{node:#?}");
    }
}
