//! Statements that write, run on plans made by hand.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use colibri_catalog::{Column, Index, IndexColumn, PrimaryKey, ReferenceAction, Sequence, Table, record};
use colibri_txn::{Begin, ColumnSet, Direction, LocalStore, LocalTransaction, Transaction};
use colibri_types::{ColumnType, Datum, Env, Error, Result, Type, functions};
use compact_str::{CompactString, format_compact};

use super::validate::{
    backfill_index, check_table, rewrite_table, validate_check, validate_foreign_key, validate_not_null,
};
use crate::expr::{CompareOp, Expr};
use crate::plan::{
    Access, Arbiter, AssignedValue, Assignment, ConflictAction, Delete, ForeignKeyRule, Fragment, Insert, JoinKind,
    KeyPart, KeyRanges, Node, OnConflict, OutputColumn, ReferenceRule, RowChecks, Scan, TableRules, Update,
};
use crate::{Batch, Context, Execution, SessionCalls};

struct Session(i64);

impl SessionCalls for Session {
    fn next_value(&mut self, _: &Sequence) -> Result<i64> {
        Err(Error::internal("no sequences"))
    }

    fn call(&mut self, _: &mut dyn Transaction, name: &str, _: &[Datum]) -> Result<Datum> {
        Err(Error::internal(name))
    }

    fn next_row_number(&mut self, _: &mut dyn Transaction, _: &Table) -> Result<i64> {
        self.0 += 1;
        Ok(self.0)
    }
}

struct Db {
    _dir: tempfile::TempDir,
    store: LocalStore,
    txn: LocalTransaction,
    session: Session,
    budget_rows: i64,
}

/// A statement's outcome: rows changed, rows returned.
type Outcome = Result<(u64, Vec<Vec<Datum>>)>;

impl Db {
    fn new(tables: &[&Arc<Table>]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new()).unwrap();
        let store = LocalStore::new(db);
        let txn = store.begin(Begin::default()).unwrap();
        let mut db = Self { _dir: dir, store, txn, session: Session(0), budget_rows: i64::MAX };
        for table in tables {
            db.create(table);
        }
        db
    }

    fn create(&mut self, table: &Table) {
        self.txn.create_space(table.space().id).unwrap();
        table.indexes.iter().for_each(|index| self.txn.create_space(index.space().id).unwrap());
    }

    fn commit(&mut self) {
        let next = self.store.begin(Begin::default()).unwrap();
        std::mem::replace(&mut self.txn, next).commit().unwrap().wait().unwrap();
        self.txn = self.store.begin(Begin { newest: true, ..Begin::default() }).unwrap();
    }

    fn with<T>(&mut self, run: impl FnOnce(&mut LocalTransaction, &mut Context<'_>) -> T) -> T {
        let (env, cancel) = (Env::default(), AtomicBool::new(false));
        let memory = crate::test_bed::memory(crate::MemoryLimits::default());
        let mut cx = Context {
            env: &env,
            params: &[],
            session: &mut self.session,
            cancel: &cancel,
            memory: &memory,
            budget_rows: self.budget_rows,
        };
        run(&mut self.txn, &mut cx)
    }

    /// Runs a statement; one that fails is taken back.
    fn run(&mut self, root: Node) -> Outcome {
        let width = match &root {
            Node::Insert(insert) => insert.returning.as_ref().map_or(0, Vec::len),
            Node::Update(update) => update.returning.as_ref().map_or(0, Vec::len),
            Node::Delete(delete) => delete.returning.as_ref().map_or(0, Vec::len),
            Node::Scan(scan) => scan.columns.len(),
            _ => 0,
        };
        let column = OutputColumn { name: "x".into(), ty: Type::Int8.into(), origin: None };
        let fragment = Fragment::new(root, 4, vec![column; width]);
        let savepoint = self.txn.begin_statement().unwrap();
        let mut execution = Execution::new(&fragment);
        let mut rows = Vec::new();
        loop {
            let mut batch = Batch::new();
            match self.with(|txn, cx| execution.step(txn, cx, &mut batch)) {
                Ok(crate::Outcome::Rows) => rows.extend(batch.iter().map(<[Datum]>::to_vec)),
                Ok(crate::Outcome::Yield) => {}
                Ok(crate::Outcome::Done) => return Ok((execution.affected().unwrap_or(0), rows)),
                Ok(crate::Outcome::Interrupted(pause)) => panic!("nobody else is there: {pause:?}"),
                Err(error) => {
                    self.txn.rollback_to(savepoint).unwrap();
                    return Err(error);
                }
            }
        }
    }

    fn rows(&mut self, table: &Arc<Table>) -> Vec<Vec<Datum>> {
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        self.run(Node::Scan(Arc::new(scan_of(table, columns)))).unwrap().1
    }

    fn check(&mut self, table: &Arc<Table>) {
        let findings = check_table(&mut self.txn, table, &[], &Env::default()).unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

/// Tables get numbers, and spaces, from 100 times `id` upwards.
fn table(id: u32, name: &str, columns: &[(&str, Type)], key: Option<&[usize]>, indexes: &[(&[usize], bool)]) -> Table {
    let column = |&(name, ty): &(&str, Type)| Column {
        name: name.into(),
        ty: ColumnType::from(ty),
        not_null: false,
        default: None,
        missing: None,
        identity: None,
        dropped: false,
        collation: None,
        generated: None,
        expression: None,
        inherited_only: false,
        storage: colibri_catalog::ColumnStorage::default(),
    };
    let index = |(number, &(columns, unique)): (usize, &(&[usize], bool))| {
        let part = |&column: &usize| IndexColumn { column, descending: number % 2 == 1, nulls_first: number % 3 == 1 };
        let id = id * 100 + 10 + number as u32;
        let name = format_compact!("{name}_i{number}");
        Arc::new(Index::plain(id, name, id, columns.iter().map(part).collect(), unique))
    };
    let key_name = format_compact!("{name}_pkey");
    let mut table = Table {
        id: id * 100,
        schema: "public".into(),
        name: name.into(),
        space: id * 100,
        columns: columns.iter().map(column).collect(),
        primary_key: key.map(|key| PrimaryKey {
            id: id * 100 + 1,
            name: key_name,
            columns: key.to_vec(),
            parent: None,
            include: Vec::new(),
        }),
        indexes: indexes.iter().enumerate().map(index).collect(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        generations: colibri_catalog::Generations::default(),
        owner: colibri_catalog::cluster::BOOTSTRAP_ROLE,
        acl: None,
        column_acls: colibri_catalog::ColumnAcls::new(),
        materialized: None,
        domains_changed: 0,
        on_commit: None,
        triggers: Vec::new(),
        references_off: false,
        security: colibri_catalog::RowSecurity::default(),
        partitioned: None,
        partition_of: None,
        inherits: Vec::new(),
        replica_identity: colibri_catalog::ReplicaIdentity::Default,
        children: Vec::new(),
        topic: None,
        compression: None,
        layout: None,
    };
    for &column in key.unwrap_or_default() {
        table.columns[column].not_null = true;
    }
    table.renew_generation();
    table
}

fn rules_of(
    checks: Vec<(CompactString, Expr)>,
    foreign_keys: Vec<ForeignKeyRule>,
    referenced_by: Vec<ReferenceRule>,
) -> Arc<TableRules> {
    Arc::new(TableRules {
        of_views: usize::MAX,
        partition: Vec::new(),
        domains: Vec::new(),
        checks,
        expressions: Arc::new([]),
        generated: Arc::new([]),
        foreign_keys,
        referenced_by,
        is_view: false,
        triggers: None,
        others: OnceLock::new(),
    })
}

fn no_rules() -> Arc<TableRules> {
    rules_of(Vec::new(), Vec::new(), Vec::new())
}

fn int(value: i64) -> Datum {
    Datum::Int(value)
}

fn ints(values: &[i64]) -> Vec<Datum> {
    values.iter().map(|&value| Datum::Int(value)).collect()
}

fn scan_of(table: &Arc<Table>, columns: Vec<usize>) -> Scan {
    Scan {
        table: Arc::clone(table),
        columns,
        access: Access::Key { ranges: KeyRanges::default() },
        direction: Direction::Forward,
        filter: None,
        depends: ColumnSet::ALL,
        rows: 1.0,
    }
}

fn compare(op: CompareOp, column: usize, value: i64) -> Expr {
    Expr::Compare { op, left: Box::new(Expr::Column(column)), right: Box::new(Expr::Const(int(value))) }
}

/// All columns, and the hidden number, of the rows for which a condition is true.
fn source(table: &Arc<Table>, filter: Option<Expr>) -> Node {
    let columns = (0..table.columns.len() + usize::from(table.primary_key.is_none())).collect();
    Node::Scan(Arc::new(Scan { filter, ..scan_of(table, columns) }))
}

fn insert(table: &Arc<Table>, rules: &Arc<TableRules>, rows: &[Vec<Datum>]) -> Insert {
    let rows: Vec<_> = rows.iter().map(|row| row.iter().cloned().map(Expr::Const).collect()).collect();
    Insert {
        table: Arc::clone(table),
        source: Node::Values { rows: rows.into() },
        on_conflict: None,
        returning: None,
        rules: Arc::clone(rules),
        security: RowChecks::default(),
        tree: None,
    }
}

fn insert_node(table: &Arc<Table>, rules: &Arc<TableRules>, rows: &[Vec<Datum>]) -> Node {
    Node::Insert(Arc::new(insert(table, rules, rows)))
}

fn set(column: usize, expr: Expr) -> Assignment {
    Assignment { column, value: AssignedValue::Expr(expr) }
}

fn update(table: &Arc<Table>, rules: &Arc<TableRules>, filter: Option<Expr>, assignments: Vec<Assignment>) -> Update {
    Update {
        table: Arc::clone(table),
        source: source(table, filter),
        assignments,
        returning: None,
        rules: Arc::clone(rules),
        security: RowChecks::default(),
        tree: None,
    }
}

fn update_node(table: &Arc<Table>, rules: &Arc<TableRules>, filter: Option<Expr>, set: Vec<Assignment>) -> Node {
    Node::Update(Arc::new(update(table, rules, filter, set)))
}

fn delete_node(table: &Arc<Table>, rules: &Arc<TableRules>, filter: Option<Expr>) -> Node {
    Node::Delete(Arc::new(Delete {
        table: Arc::clone(table),
        source: source(table, filter),
        returning: None,
        rules: Arc::clone(rules),
        tree: None,
    }))
}

/// `+` of bigints, without the registry.
static PLUS: functions::Function = functions::Function {
    name: "+",
    args: &[Type::Int8, Type::Int8],
    variadic: false,
    result: Type::Int8,
    strict: true,
    volatility: functions::Volatility::Immutable,
    extension: None,
    eval: |args, _| match args {
        [Datum::Int(a), Datum::Int(b)] => a
            .checked_add(*b)
            .map(Datum::Int)
            .ok_or_else(|| Error::new(colibri_types::SqlState::OUT_OF_RANGE, "bigint out of range")),
        _ => Err(Error::internal("not integers")),
    },
};

fn plus(column: usize, amount: i64) -> Expr {
    Expr::Call { function: &PLUS, args: vec![Expr::Column(column), Expr::Const(int(amount))] }
}

#[track_caller]
fn fails(outcome: Outcome, state: &str, message: &str, detail: &str) {
    let error = outcome.expect_err("the statement fails");
    let report = error.report();
    assert_eq!((report.state.0, report.message.as_str()), (state, message));
    assert_eq!(report.detail.as_deref().unwrap_or_default(), detail);
}

fn birds() -> Arc<Table> {
    Arc::new(table(
        1,
        "birds",
        &[("id", Type::Int4), ("name", Type::Text), ("weight", Type::Int8), ("wings", Type::Int4)],
        Some(&[0]),
        &[(&[1], true), (&[2, 3], false)],
    ))
}

fn bird(id: i64, name: &str, weight: i64, wings: i64) -> Vec<Datum> {
    vec![int(id), Datum::text(name), int(weight), int(wings)]
}

#[test]
fn violations_read_as_in_postgresql() {
    let mut birds = Arc::unwrap_or_clone(birds());
    birds.columns[2].not_null = true;
    let birds = Arc::new(birds);
    let check: CompactString = "birds_wings_check".into();
    let rules = rules_of(vec![(check, compare(CompareOp::Ge, 3, 0))], Vec::new(), Vec::new());
    let mut db = Db::new(&[&birds]);
    db.run(insert_node(&birds, &rules, &[bird(1, "colibri", 2, 2)])).unwrap();
    fails(
        db.run(insert_node(&birds, &rules, &[bird(1, "owl", 500, 2)])),
        "23505",
        "duplicate key value violates unique constraint \"birds_pkey\"",
        "Key (id)=(1) already exists.",
    );
    fails(
        db.run(insert_node(&birds, &rules, &[bird(2, "owl", 500, 2), bird(3, "colibri", 500, 2)])),
        "23505",
        "duplicate key value violates unique constraint \"birds_i0\"",
        "Key (name)=(colibri) already exists.",
    );
    fails(
        db.run(insert_node(&birds, &rules, &[vec![int(4), Datum::text(&"x".repeat(70)), Datum::Null, Datum::Null]])),
        "23502",
        "null value in column \"weight\" of relation \"birds\" violates not-null constraint",
        &format!("Failing row contains (4, {}..., null, null).", "x".repeat(64)),
    );
    fails(
        db.run(insert_node(&birds, &rules, &[bird(4, "kiwi", 3000, -1)])),
        "23514",
        "new row for relation \"birds\" violates check constraint \"birds_wings_check\"",
        "Failing row contains (4, kiwi, 3000, -1).",
    );
    fails(
        db.run(update_node(&birds, &rules, None, vec![set(3, Expr::Const(int(-2)))])),
        "23514",
        "new row for relation \"birds\" violates check constraint \"birds_wings_check\"",
        "Failing row contains (1, colibri, 2, -2).",
    );
    fails(
        db.run(update_node(&birds, &rules, None, vec![set(2, Expr::Const(Datum::Null))])),
        "23502",
        "null value in column \"weight\" of relation \"birds\" violates not-null constraint",
        "Failing row contains (1, colibri, null, 2).",
    );
    let long = db.run(insert_node(&birds, &rules, &[bird(5, &"y".repeat(2000), 1, 1)])).unwrap_err();
    assert_eq!(long.state().0, "54000");
    assert!(long.to_string().starts_with("index row size 2002 exceeds maximum"), "{long}");
    assert_eq!(db.rows(&birds), [bird(1, "colibri", 2, 2)]);
    db.check(&birds);
}

#[test]
fn null_is_never_a_duplicate() {
    let (birds, rules) = (birds(), no_rules());
    let mut db = Db::new(&[&birds]);
    let nameless = |id| vec![int(id), Datum::Null, int(1), int(2)];
    assert_eq!(db.run(insert_node(&birds, &rules, &[nameless(1), nameless(2)])).unwrap().0, 2);
    db.check(&birds);
}

#[test]
fn an_insert_that_reads_its_table_does_not_see_its_own_rows() {
    let numbers = Arc::new(table(1, "numbers", &[("n", Type::Int8)], None, &[(&[0], false)]));
    let rules = no_rules();
    let mut db = Db::new(&[&numbers]);
    db.run(insert_node(&numbers, &rules, &[ints(&[1]), ints(&[2])])).unwrap();
    let copy = Insert { source: Node::Scan(Arc::new(scan_of(&numbers, vec![0]))), ..insert(&numbers, &rules, &[]) };
    assert_eq!(db.run(Node::Insert(Arc::new(copy))).unwrap().0, 2);
    assert_eq!(db.rows(&numbers), [ints(&[1]), ints(&[2]), ints(&[1]), ints(&[2])]);
    db.check(&numbers);
}

#[test]
fn on_conflict_does_nothing_or_updates() {
    let (birds, rules) = (birds(), no_rules());
    let mut db = Db::new(&[&birds]);
    db.run(insert_node(&birds, &rules, &[bird(1, "colibri", 2, 2), bird(2, "owl", 500, 2)])).unwrap();
    let with = |rows: &[Vec<Datum>], arbiters: Vec<Arbiter>, action: ConflictAction| {
        let on_conflict = Some(OnConflict { arbiters, action });
        let returning = Some(vec![Expr::Column(0), Expr::Column(2)]);
        Node::Insert(Arc::new(Insert { on_conflict, returning, ..insert(&birds, &rules, rows) }))
    };
    let rows = [bird(1, "crow", 9, 2), bird(3, "owl", 9, 2), bird(4, "tit", 9, 2)];
    let outcome = db.run(with(&rows, Vec::new(), ConflictAction::Nothing)).unwrap();
    assert_eq!(outcome, (1, vec![ints(&[4, 9])]));
    // weight = birds.weight + excluded.weight
    let add = || {
        let sum = Expr::Call { function: &PLUS, args: vec![Expr::Column(2), Expr::Column(6)] };
        ConflictAction::Update { assignments: vec![set(2, sum)], condition: Some(compare(CompareOp::Lt, 2, 1000)) }
    };
    let by_name = || vec![Arbiter::Index(Arc::clone(&birds.indexes[0]))];
    let outcome = db.run(with(&[bird(7, "owl", 600, 2), bird(8, "kite", 5, 2)], by_name(), add())).unwrap();
    assert_eq!(outcome, (2, vec![ints(&[2, 1100]), ints(&[8, 5])]));
    // The condition is not met.
    assert_eq!(db.run(with(&[bird(7, "owl", 600, 2)], by_name(), add())).unwrap(), (0, vec![]));
    // Another constraint than the one spoken of.
    let outcome = db.run(with(&[bird(1, "rook", 1, 2)], by_name(), add()));
    assert_eq!(outcome.unwrap_err().state().0, "23505");
    fails(
        db.run(with(&[bird(1, "colibri", 1, 2), bird(1, "colibri", 1, 2)], vec![Arbiter::Key], add())),
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        "",
    );
    db.check(&birds);
}

#[test]
fn keys_may_be_moved_along_in_one_statement() {
    let (birds, rules) = (birds(), no_rules());
    let mut db = Db::new(&[&birds]);
    let names = ["a", "b", "c"];
    let rows: Vec<_> = (0..3).map(|at| bird(at as i64, names[at], 1, 1)).collect();
    db.run(insert_node(&birds, &rules, &rows)).unwrap();
    assert_eq!(db.run(update_node(&birds, &rules, None, vec![set(0, plus(0, 1))])).unwrap().0, 3);
    assert_eq!(db.rows(&birds), [bird(1, "a", 1, 1), bird(2, "b", 1, 1), bird(3, "c", 1, 1)]);
    db.check(&birds);
    fails(
        db.run(update_node(&birds, &rules, Some(compare(CompareOp::Lt, 0, 3)), vec![set(0, plus(0, 1))])),
        "23505",
        "duplicate key value violates unique constraint \"birds_pkey\"",
        "Key (id)=(3) already exists.",
    );
    fails(
        db.run(update_node(&birds, &rules, None, vec![set(1, Expr::Const(Datum::text("z")))])),
        "23505",
        "duplicate key value violates unique constraint \"birds_i0\"",
        "Key (name)=(z) already exists.",
    );
    db.check(&birds);
}

#[test]
fn a_row_joined_twice_is_changed_once() {
    let (birds, rules) = (birds(), no_rules());
    let mut db = Db::new(&[&birds]);
    db.run(insert_node(&birds, &rules, &[bird(1, "colibri", 2, 2)])).unwrap();
    let twice = |inner: Node| Node::NestedLoop {
        kind: JoinKind::Inner,
        outer: Box::new(inner),
        inner: Box::new(Node::Values { rows: [vec![Expr::Const(int(10))], vec![Expr::Const(int(20))]].into() }),
        first_slot: 0,
        args: [].into(),
        on: None,
        inner_width: 1,
    };
    let sum = Expr::Call { function: &PLUS, args: vec![Expr::Column(2), Expr::Column(4)] };
    let update = Update {
        source: twice(source(&birds, None)),
        returning: Some(vec![Expr::Column(2), Expr::Column(4)]),
        ..update(&birds, &rules, None, vec![set(2, sum)])
    };
    assert_eq!(db.run(Node::Update(Arc::new(update))).unwrap(), (1, vec![ints(&[12, 10])]));
    let delete = Delete {
        table: Arc::clone(&birds),
        source: twice(source(&birds, None)),
        returning: Some(vec![Expr::Column(0), Expr::Column(4)]),
        rules,
        tree: None,
    };
    assert_eq!(db.run(Node::Delete(Arc::new(delete))).unwrap(), (1, vec![ints(&[1, 10])]));
    db.check(&birds);
}

#[test]
fn patches_leave_other_columns_alone() {
    let (birds, rules) = (
        Arc::new(table(1, "birds", &[("id", Type::Int4), ("a", Type::Int8), ("b", Type::Int8)], Some(&[0]), &[])),
        no_rules(),
    );
    let mut db = Db::new(&[&birds]);
    db.run(insert_node(&birds, &rules, &[ints(&[1, 10, 20])])).unwrap();
    db.commit();
    let add = |column, amount| Assignment {
        column,
        value: AssignedValue::Add { amount: Expr::Const(int(amount)), function: &PLUS },
    };
    let blind = |assignments: Vec<Assignment>| {
        let Node::Scan(scan) = source(&birds, None) else { unreachable!("a source is a scan") };
        let source = Node::Project {
            input: Box::new(Node::Scan(Arc::new(Scan {
                columns: vec![0],
                depends: ColumnSet::NONE,
                ..(*scan).clone()
            }))),
            exprs: [Expr::Column(0), Expr::Const(Datum::Null), Expr::Const(Datum::Null)].into(),
        };
        Node::Update(Arc::new(Update { source, ..update(&birds, &rules, None, assignments) }))
    };
    // Two transactions side by side: one adds to a, the other one to a and b.
    let mut other = Db {
        _dir: tempfile::tempdir().unwrap(),
        txn: db.store.begin(Begin::default()).unwrap(),
        store: db.store.clone(),
        session: Session(0),
        budget_rows: i64::MAX,
    };
    db.run(blind(vec![add(1, 1)])).unwrap();
    other.run(blind(vec![add(1, 5), add(2, 7)])).unwrap();
    db.commit();
    other.commit();
    let mut db = other;
    assert_eq!(db.rows(&birds), [ints(&[1, 16, 27])]);
    let overflow = db.run(blind(vec![add(1, i64::MAX)])).unwrap_err();
    assert_eq!((overflow.state().0, overflow.to_string().as_str()), ("22003", "bigint out of range"));
}

/// Two tables, `p(id primary key, code unique, x)` and `c(id primary key, p)` with a foreign key
/// from `c.p`.
struct Family {
    parent: Arc<Table>,
    child: Arc<Table>,
    parent_rules: Arc<TableRules>,
    child_rules: Arc<TableRules>,
}

fn family(target: usize, on_delete: ReferenceAction, on_update: ReferenceAction) -> Family {
    let parent = Arc::new(table(
        1,
        "p",
        &[("id", Type::Int4), ("code", Type::Int8), ("x", Type::Int4)],
        Some(&[0]),
        &[(&[1], true)],
    ));
    let child = Arc::new(table(2, "c", &[("id", Type::Int4), ("p", Type::Int4)], Some(&[0]), &[(&[1], false)]));
    let target_key = if target == 0 { Arbiter::Key } else { Arbiter::Index(Arc::clone(&parent.indexes[0])) };
    let foreign_key = ForeignKeyRule {
        match_full: false,
        tree: None,
        id: 1,
        timing: colibri_catalog::Timing::Fixed,
        name: "c_p_fkey".into(),
        columns: vec![1],
        target: Arc::clone(&parent),
        target_key,
        key_order: vec![0],
    };
    let child_rules = rules_of(Vec::new(), vec![foreign_key], Vec::new());
    let source_rules = OnceLock::new();
    source_rules.set(Arc::downgrade(&child_rules)).unwrap();
    let ranges = KeyRanges { prefix: vec![KeyPart::Eq(Expr::Arg(0))], ..KeyRanges::default() };
    let reference = ReferenceRule {
        id: 1,
        timing: colibri_catalog::Timing::Fixed,
        name: "c_p_fkey".into(),
        columns: vec![target],
        source: Arc::clone(&child),
        source_columns: vec![1],
        lookup: Access::Index { index: Arc::clone(&child.indexes[0]), ranges, covering: false },
        filter: None,
        on_delete,
        on_update,
        delete_columns: Vec::new(),
        defaults: vec![Expr::Const(int(9))],
        source_rules,
    };
    let parent_rules = rules_of(Vec::new(), Vec::new(), vec![reference]);
    Family { parent, child, parent_rules, child_rules }
}

impl Family {
    fn db(&self) -> Db {
        let mut db = Db::new(&[&self.parent, &self.child]);
        let parents = [ints(&[1, 1, 0]), ints(&[2, 2, 0]), ints(&[9, 9, 0])];
        db.run(insert_node(&self.parent, &self.parent_rules, &parents)).unwrap();
        let orphan = vec![int(13), Datum::Null];
        let children = [ints(&[10, 1]), ints(&[11, 1]), ints(&[12, 2]), orphan];
        db.run(insert_node(&self.child, &self.child_rules, &children)).unwrap();
        db
    }

    fn delete_first(&self, db: &mut Db) -> Outcome {
        db.run(delete_node(&self.parent, &self.parent_rules, Some(compare(CompareOp::Eq, 0, 1))))
    }

    /// Gives the first parent another key.
    fn change_first(&self, db: &mut Db, column: usize) -> Outcome {
        let filter = Some(compare(CompareOp::Eq, 0, 1));
        db.run(update_node(&self.parent, &self.parent_rules, filter, vec![set(column, Expr::Const(int(5)))]))
    }
}

#[test]
fn actions_of_foreign_keys_are_those_of_their_names() {
    use ReferenceAction::{Cascade, NoAction, Restrict, SetDefault, SetNull};
    let null = |id| vec![int(id), Datum::Null];
    for target in [0, 1] {
        let name = ["id", "code"][target];
        for action in [NoAction, Restrict, Cascade, SetNull, SetDefault] {
            let family = family(target, action, action);
            let rest = [ints(&[12, 2]), null(13)];
            let with = |rows: [Vec<Datum>; 2]| [rows.as_slice(), rest.as_slice()].concat();
            let (deleted, changed) = match action {
                NoAction | Restrict => (None, None),
                Cascade => (Some(rest.to_vec()), Some(with([ints(&[10, 5]), ints(&[11, 5])]))),
                SetNull => (Some(with([null(10), null(11)])), Some(with([null(10), null(11)]))),
                SetDefault => {
                    let rows = with([ints(&[10, 9]), ints(&[11, 9])]);
                    (Some(rows.clone()), Some(rows))
                }
            };
            for (is_delete, expected) in [(true, deleted), (false, changed)] {
                let mut db = family.db();
                let outcome =
                    if is_delete { family.delete_first(&mut db) } else { family.change_first(&mut db, target) };
                match expected {
                    Some(rows) => {
                        assert_eq!(outcome.unwrap().0, 1, "{action:?}");
                        assert_eq!(db.rows(&family.child), rows, "{action:?}");
                    }
                    None => fails(
                        outcome,
                        "23503",
                        "update or delete on table \"p\" violates foreign key constraint \"c_p_fkey\" on table \"c\"",
                        &format!("Key ({name})=(1) is still referenced from table \"c\"."),
                    ),
                }
                db.check(&family.parent);
                db.check(&family.child);
                // A column that nothing refers to may change.
                let other = db.run(update_node(&family.parent, &family.parent_rules, None, vec![set(2, plus(2, 1))]));
                other.unwrap();
            }
        }
    }
}

#[test]
fn a_reference_needs_its_target() {
    let family = family(0, ReferenceAction::NoAction, ReferenceAction::NoAction);
    let mut db = family.db();
    let message = "insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\"";
    let detail = "Key (p)=(7) is not present in table \"p\".";
    fails(db.run(insert_node(&family.child, &family.child_rules, &[ints(&[20, 7])])), "23503", message, detail);
    let outcome = db.run(update_node(&family.child, &family.child_rules, None, vec![set(1, Expr::Const(int(7)))]));
    fails(outcome, "23503", message, detail);
    // An update that leaves the reference as it is asks nobody.
    db.run(update_node(&family.child, &family.child_rules, None, vec![set(1, Expr::Column(1))])).unwrap();
    db.with(|txn, cx| validate_foreign_key(txn, cx, &family.child, &family.child_rules.foreign_keys[0])).unwrap();
    db.check(&family.child);
}

#[test]
fn no_action_lets_another_row_take_the_key() {
    for (action, works) in [(ReferenceAction::NoAction, true), (ReferenceAction::Restrict, false)] {
        let family = family(0, action, action);
        let mut db = family.db();
        // 1 and 2 change places: 3 - id.
        let filter = Some(compare(CompareOp::Le, 0, 2));
        let arms = vec![(compare(CompareOp::Eq, 0, 1), Expr::Const(int(2)))];
        let swapped = Expr::Case { arms, otherwise: Box::new(Expr::Const(int(1))) };
        let outcome = db.run(update_node(&family.parent, &family.parent_rules, filter, vec![set(0, swapped)]));
        assert_eq!(outcome.is_ok(), works, "{action:?} {outcome:?}");
        db.check(&family.parent);
    }
}

#[test]
fn a_tree_in_one_table_goes_with_its_root() {
    let nodes = Arc::new(table(1, "nodes", &[("id", Type::Int4), ("up", Type::Int4)], Some(&[0]), &[]));
    let equal = Expr::Compare { op: CompareOp::Eq, left: Box::new(Expr::Column(1)), right: Box::new(Expr::Arg(0)) };
    let foreign_key = ForeignKeyRule {
        match_full: false,
        tree: None,
        id: 1,
        timing: colibri_catalog::Timing::Fixed,
        name: "nodes_up_fkey".into(),
        columns: vec![1],
        target: Arc::clone(&nodes),
        target_key: Arbiter::Key,
        key_order: vec![0],
    };
    let reference = ReferenceRule {
        id: 1,
        timing: colibri_catalog::Timing::Fixed,
        name: "nodes_up_fkey".into(),
        columns: vec![0],
        source: Arc::clone(&nodes),
        source_columns: vec![1],
        lookup: Access::Key { ranges: KeyRanges::default() },
        filter: Some(equal),
        on_delete: ReferenceAction::Cascade,
        on_update: ReferenceAction::Cascade,
        delete_columns: Vec::new(),
        defaults: Vec::new(),
        source_rules: OnceLock::new(),
    };
    let rules = rules_of(Vec::new(), vec![foreign_key], vec![reference]);
    rules.referenced_by[0].source_rules.set(Arc::downgrade(&rules)).unwrap();
    let mut db = Db::new(&[&nodes]);
    // Children before their parents; the root is its own parent.
    let rows = [ints(&[4, 3]), ints(&[3, 2]), ints(&[2, 1]), ints(&[1, 1]), ints(&[9, 9])];
    db.run(insert_node(&nodes, &rules, &rows)).unwrap();
    fails(
        db.run(insert_node(&nodes, &rules, &[ints(&[20, 21])])),
        "23503",
        "insert or update on table \"nodes\" violates foreign key constraint \"nodes_up_fkey\"",
        "Key (up)=(21) is not present in table \"nodes\".",
    );
    db.run(update_node(&nodes, &rules, Some(compare(CompareOp::Eq, 0, 2)), vec![set(0, Expr::Const(int(7)))])).unwrap();
    assert_eq!(db.rows(&nodes), [ints(&[1, 1]), ints(&[3, 7]), ints(&[4, 3]), ints(&[7, 1]), ints(&[9, 9])]);
    db.budget_rows = 1;
    db.run(delete_node(&nodes, &rules, Some(compare(CompareOp::Eq, 0, 1)))).unwrap();
    db.budget_rows = i64::MAX;
    assert_eq!(db.rows(&nodes), [ints(&[9, 9])]);
    db.check(&nodes);
}

#[test]
fn old_rows_are_checked_against_new_constraints() {
    let (birds, rules) = (birds(), no_rules());
    let mut db = Db::new(&[&birds]);
    let nameless = vec![int(3), Datum::Null, int(1), int(2)];
    db.run(insert_node(&birds, &rules, &[bird(1, "a", 1, 2), bird(2, "b", 1, 4), nameless])).unwrap();
    let new_index = |columns: &[usize], unique| {
        let part = |&column: &usize| IndexColumn { column, descending: true, nulls_first: false };
        let name = "birds_new".into();
        Index::plain(190, name, 190, columns.iter().map(part).collect(), unique)
    };
    fails(
        db.with(|txn, cx| backfill_index(txn, cx, (&birds, &new_index(&[2], true)), &[])).map(|()| (0, vec![])),
        "23505",
        "could not create unique index \"birds_new\"",
        "Key (weight)=(1) is duplicated.",
    );
    let mut more = (*birds).clone();
    more.indexes.push(Arc::new(new_index(&[2, 1], true)));
    db.with(|txn, cx| backfill_index(txn, cx, (&birds, &more.indexes[2]), &[])).unwrap();
    db.check(&Arc::new(more));
    let error = db.with(|txn, cx| validate_not_null(txn, cx, &birds, 1)).unwrap_err();
    assert_eq!(error.to_string(), "column \"name\" of relation \"birds\" contains null values");
    let wings = compare(CompareOp::Lt, 3, 3);
    let error = db.with(|txn, cx| validate_check(txn, cx, &birds, "few", &wings)).unwrap_err();
    assert_eq!(error.to_string(), "check constraint \"few\" of relation \"birds\" is violated by some row");
    db.with(|txn, cx| validate_check(txn, cx, &birds, "few", &compare(CompareOp::Lt, 3, 5))).unwrap();
}

#[test]
fn a_check_finds_what_is_wrong() {
    let (birds, rules) = (birds(), no_rules());
    let mut db = Db::new(&[&birds]);
    db.run(insert_node(&birds, &rules, &[bird(1, "a", 1, 2), bird(2, "b", 1, 4)])).unwrap();
    db.check(&birds);
    let key = record::row_key(&birds, &bird(1, "a", 1, 2)).unwrap();
    let other = record::row_key(&birds, &bird(3, "a", 1, 2)).unwrap();
    let savepoint = db.txn.savepoint();
    let damages: [&dyn Fn(&mut LocalTransaction); 5] = [
        &|txn| txn.delete(&birds.space(), &key).unwrap(),
        &|txn| txn.put(&birds.space(), &key, b"\0\0junk").unwrap(),
        &|txn| {
            let entry = record::index_entry(&birds, &birds.indexes[1], &bird(1, "a", 1, 2), &key).unwrap();
            txn.delete(&birds.indexes[1].space(), &entry).unwrap();
        },
        &|txn| {
            let entry = record::index_entry(&birds, &birds.indexes[0], &bird(1, "a", 1, 2), &other).unwrap();
            txn.put(&birds.indexes[0].space(), &entry, b"").unwrap();
        },
        &|txn| {
            let mut value = Vec::new();
            record::encode_row(&birds, &bird(1, "c", 1, 2), &mut value).unwrap();
            txn.put(&birds.space(), &key, &value).unwrap();
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage(&mut db.txn);
        assert!(
            !check_table(&mut db.txn, &birds, &[], &Env::default()).unwrap().is_empty(),
            "damage {number} is found"
        );
        db.txn.rollback_to(savepoint).unwrap();
        db.check(&birds);
    }
}

#[test]
fn a_table_gets_a_primary_key_by_being_written_anew() {
    let heap = Arc::new(table(1, "heap", &[("a", Type::Int4), ("b", Type::Text)], None, &[]));
    let rules = no_rules();
    let mut db = Db::new(&[&heap]);
    let row = |a, b: &str| vec![int(a), Datum::text(b)];
    db.run(insert_node(&heap, &rules, &[row(3, "c"), row(1, "a"), row(2, "b")])).unwrap();
    let clustered = Arc::new(table(
        2,
        "heap",
        &[("a", Type::Int4), ("b", Type::Text)],
        Some(&[0]),
        &[(&[1], true), (&[1, 0], false)],
    ));
    let map = [Expr::Column(0), Expr::Column(1)];
    db.with(|txn, cx| rewrite_table(txn, cx, &heap, &clustered, (&map, &[]))).unwrap();
    assert_eq!(db.rows(&clustered), [row(1, "a"), row(2, "b"), row(3, "c")]);
    db.check(&clustered);
    db.run(insert_node(&heap, &rules, &[row(3, "d")])).unwrap();
    let other = table(3, "heap", &[("a", Type::Int4), ("b", Type::Text)], Some(&[0]), &[]);
    fails(
        db.with(|txn, cx| rewrite_table(txn, cx, &heap, &other, (&map, &[]))).map(|()| (0, vec![])),
        "23505",
        "could not create unique index \"heap_pkey\"",
        "Key (a)=(3) is duplicated.",
    );
}

#[test]
fn rows_of_old_generations_are_read_and_patched() {
    let first = table(1, "t", &[("id", Type::Int4), ("a", Type::Text)], Some(&[0]), &[]);
    let mut second = first.clone();
    let added = Column { name: "b".into(), missing: Some("42".into()), ..first.columns[0].clone() };
    second.columns.push(Column { not_null: false, ..added });
    second.columns[1].dropped = true;
    second.columns.push(Column { name: "c".into(), missing: None, ..second.columns[2].clone() });
    second.renew_generation();
    assert_eq!(second.generations.len(), 2);
    let (first, second, rules) = (Arc::new(first), Arc::new(second), no_rules());
    let mut db = Db::new(&[&first]);
    db.run(insert_node(&first, &rules, &[vec![int(1), Datum::text("x")], vec![int(2), Datum::text("y")]])).unwrap();
    let row = |id, b, c| vec![int(id), Datum::Null, b, c];
    assert_eq!(db.rows(&second), [row(1, int(42), Datum::Null), row(2, int(42), Datum::Null)]);
    let filter = Some(compare(CompareOp::Eq, 0, 2));
    db.run(update_node(&second, &rules, filter, vec![set(3, Expr::Const(int(5)))])).unwrap();
    db.run(insert_node(&second, &rules, &[row(3, int(1), int(2))])).unwrap();
    assert_eq!(db.rows(&second), [row(1, int(42), Datum::Null), row(2, int(42), int(5)), row(3, int(1), int(2))]);
    db.check(&second);
}

/// Random statements on a table with several indexes, with a model of its rows beside it.
#[test]
fn indexes_have_the_entries_that_the_rows_imply() {
    for with_key in [true, false] {
        for seed in 0..6 {
            random_statements(with_key, seed);
        }
    }
}

fn random_statements(with_key: bool, seed: u64) {
    let key: Option<&[usize]> = if with_key { Some(&[1, 0]) } else { None };
    let columns = [("a", Type::Int8), ("b", Type::Text), ("c", Type::Int8), ("d", Type::Numeric)];
    let indexes: [(&[usize], bool); 4] = [(&[2], false), (&[1, 2], false), (&[3, 0], true), (&[3], false)];
    let table = Arc::new(table(1, "t", &columns, key, &indexes));
    let rules = no_rules();
    let mut db = Db::new(&[&table]);
    let mut random = fastrand::Rng::with_seed(seed);
    let value = |column: usize, random: &mut fastrand::Rng| match column {
        0 => int(random.i64(0..40)),
        1 => Datum::text(["", "x", "xy\u{1}"][random.usize(..3)]),
        2 if random.bool() => Datum::Null,
        2 => int(random.i64(0..5)),
        _ if random.bool() => Datum::Null,
        _ => Datum::Numeric(colibri_types::Numeric::new(random.i64(0..20).into(), random.u8(0..3))),
    };
    let mut count = 0u64;
    for statement in 0..150 {
        db.budget_rows = if random.bool() { i64::MAX } else { random.i64(1..5) };
        let filter = || Some(compare(CompareOp::Ge, 0, 20 + statement % 20));
        let outcome = match random.u8(..6) {
            0..3 => {
                let row: Vec<Datum> = (0..4).map(|column| value(column, &mut random)).collect();
                let on_conflict =
                    random.bool().then(|| OnConflict { arbiters: Vec::new(), action: ConflictAction::Nothing });
                let insert = Insert { on_conflict, ..insert(&table, &rules, &[row]) };
                db.run(Node::Insert(Arc::new(insert))).map(|(rows, _)| count += rows)
            }
            3 => {
                let column = random.usize(..4);
                let new =
                    if column == 0 { plus(0, random.i64(-2..3)) } else { Expr::Const(value(column, &mut random)) };
                let filter = if random.bool() { Some(compare(CompareOp::Eq, 0, random.i64(0..40))) } else { filter() };
                db.run(update_node(&table, &rules, filter, vec![set(column, new)])).map(|_| ())
            }
            4 => {
                let filter = Some(compare(CompareOp::Eq, 0, random.i64(0..40)));
                db.run(delete_node(&table, &rules, filter)).map(|(rows, _)| count -= rows)
            }
            _ => {
                db.commit();
                Ok(())
            }
        };
        if let Err(error) = outcome {
            assert_eq!(error.state().0, "23505", "seed {seed}: {error}");
        }
        let findings = check_table(&mut db.txn, &table, &[], &Env::default()).unwrap();
        assert!(findings.is_empty(), "seed {seed}, statement {statement}: {findings:#?}");
        assert_eq!(db.rows(&table).len() as u64, count, "seed {seed}, statement {statement}");
    }
}

/// A table whose arrays have entries for their elements.
fn tagged() -> Arc<Table> {
    let mut tagged =
        table(1, "tagged", &[("id", Type::Int4), ("tags", Type::Int4.array_of())], Some(&[0]), &[(&[1], false)]);
    let class = colibri_types::tokens::class("gin", "array_ops").unwrap();
    let index = Arc::make_mut(&mut tagged.indexes[0]);
    index.tokens = vec![colibri_catalog::Tokenized(class)];
    Arc::new(tagged)
}

#[test]
fn a_check_finds_what_is_wrong_with_tokens() {
    let (tagged, rules) = (tagged(), no_rules());
    let mut db = Db::new(&[&tagged]);
    let row = |id, tags: &[i64]| {
        let tags = tags.iter().map(|&tag| Datum::Int(tag)).collect();
        vec![int(id), Datum::Array(Arc::new(colibri_types::Array::new(Type::Int4, tags)))]
    };
    db.run(insert_node(&tagged, &rules, &[row(1, &[1, 2, 2]), row(2, &[]), row(3, &[2])])).unwrap();
    db.check(&tagged);
    let index = &tagged.indexes[0];
    let entries = |id, tags: &[i64]| {
        let row = row(id, tags);
        let key = record::row_key(&tagged, &row).unwrap();
        colibri_catalog::inverted::entries(&tagged, index, &row, &key).unwrap()
    };
    assert_eq!(entries(1, &[1, 2, 2]).len(), 2);
    let savepoint = db.txn.savepoint();
    let damages: [&dyn Fn(&mut LocalTransaction); 4] = [
        // One is missing; there is one too many, of a row and of none; one is another's.
        &|txn| txn.delete(&index.space(), &entries(1, &[2])[0]).unwrap(),
        &|txn| txn.put(&index.space(), &entries(3, &[5])[0], b"").unwrap(),
        &|txn| txn.put(&index.space(), &entries(9, &[1])[0], b"").unwrap(),
        &|txn| {
            txn.delete(&index.space(), &entries(1, &[2])[0]).unwrap();
            txn.put(&index.space(), b"\x00junk", b"").unwrap();
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage(&mut db.txn);
        let findings = check_table(&mut db.txn, &tagged, &[], &Env::default()).unwrap();
        assert!(!findings.is_empty(), "damage {number} is found");
        db.txn.rollback_to(savepoint).unwrap();
        db.check(&tagged);
    }
}
