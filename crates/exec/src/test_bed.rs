//! What the operators' tests run on: a transaction over a map in memory, tables to fill, and ways
//! to run a plan in slices.

use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use colibri_catalog::{Column, Index, IndexColumn, PrimaryKey, Sequence, Table, record, store_error::Pause};
use colibri_txn::{
    Begin, ColumnSet, Commit, CommitTicket, Direction, Error as TxnError, IfLocked, Interruption, Key, KeyRange,
    LockMode, OwnerId, Patch, Remains, Savepoint, Space, SpaceId, StoreWait, Transaction, TxnId, Visit,
};
use colibri_types::{Datum, Env, Error, Result, Type};

use super::memory::{EngineMemory, MemoryLimits, MemoryTotal, SessionMemory};
use super::scratch::MemoryScratch;
use super::{Batch, Context, Execution, Outcome, SessionCalls};
use crate::expr::{CompareOp, Expr};
use crate::plan::{Access, Fragment, KeyRanges, Node, OutputColumn, Scan};

/// A transaction over a map.
#[derive(Default, Clone)]
pub(super) struct MemoryTxn {
    pub(super) entries: BTreeMap<(u32, Vec<u8>), Vec<u8>>,
    /// Keys that others have locked.
    pub(super) locked: HashSet<Vec<u8>>,
    /// Keys locked so far.
    pub(super) own: Vec<Vec<u8>>,
    /// Entries handed to visitors.
    pub(super) visited: usize,
    /// Calls that were made, where each that was not made before has to be fetched.
    fetched: Option<HashSet<Vec<u8>>>,
}

impl MemoryTxn {
    /// The same, but each call has to be made twice.
    fn that_fetches(&self) -> Self {
        Self { fetched: Some(HashSet::new()), ..self.clone() }
    }

    fn fetch(&mut self, what: &str, space: &Space, of: impl std::fmt::Debug) -> TxnResult<()> {
        let Some(fetched) = &mut self.fetched else { return Ok(()) };
        if !fetched.insert(format!("{what} {space:?} {of:?}").into_bytes()) {
            return Ok(());
        }
        let (wait, _done) = StoreWait::new();
        Err(TxnError::Interrupted(Interruption::Fetch(wait)))
    }
}

type TxnResult<T> = colibri_txn::Result<T>;

impl Transaction for MemoryTxn {
    fn begun(&self) -> Begin {
        Begin::default()
    }

    fn id(&self) -> OwnerId {
        OwnerId(0)
    }

    fn sees(&self) -> TxnId {
        TxnId(0)
    }

    fn ticket_of_reads(&self) -> CommitTicket {
        CommitTicket::durable(TxnId(0), None)
    }

    fn take_read_back(&mut self) -> Option<SpaceId> {
        None
    }

    fn set_read_only(&mut self, _: bool) {}

    fn has_writes(&self) -> bool {
        false
    }

    fn write_bytes(&self) -> usize {
        0
    }

    fn fetches(&self) -> bool {
        self.fetched.is_some()
    }

    fn get(&mut self, space: &Space, key: &[u8], _: ColumnSet) -> TxnResult<Option<&[u8]>> {
        self.fetch("get", space, key)?;
        self.visited += 1;
        Ok(self.entries.get(&(space.id.0, key.to_vec())).map(Vec::as_slice))
    }

    fn peek(&mut self, space: &Space, key: &[u8]) -> TxnResult<Option<&[u8]>> {
        Ok(self.entries.get(&(space.id.0, key.to_vec())).map(Vec::as_slice))
    }

    fn scan(
        &mut self,
        space: &Space,
        range: &KeyRange,
        direction: Direction,
        _: ColumnSet,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> TxnResult<()> {
        self.fetch("scan", space, (range, direction))?;
        let id = space.id.0;
        let bound = |bound: &Bound<colibri_txn::Key>, open: Bound<(u32, Vec<u8>)>| match bound {
            Bound::Included(key) => Bound::Included((id, key.to_vec())),
            Bound::Excluded(key) => Bound::Excluded((id, key.to_vec())),
            Bound::Unbounded => open,
        };
        let low = bound(&range.low, Bound::Included((id, Vec::new())));
        let high = bound(&range.high, Bound::Excluded((id + 1, Vec::new())));
        let found: Vec<_> = match (&low, &high) {
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high))
                if low >= high =>
            {
                Vec::new()
            }
            _ => self.entries.range((low, high)).collect(),
        };
        let mut ordered: Box<dyn Iterator<Item = _>> = match direction {
            Direction::Forward => Box::new(found.into_iter()),
            Direction::Backward => Box::new(found.into_iter().rev()),
        };
        let visited = &mut self.visited;
        let mut left = limit;
        let _ = ordered.try_for_each(|((_, key), value)| {
            assert!(left > 0, "a visitor looks at more entries than it has said");
            left -= 1;
            *visited += 1;
            visit(key, value)
        });
        Ok(())
    }

    fn count(&mut self, space: &Space, range: &KeyRange) -> TxnResult<u64> {
        let visited = self.visited;
        let mut count = 0;
        self.scan(space, range, Direction::Forward, ColumnSet::NONE, usize::MAX, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        self.visited = visited;
        Ok(count)
    }

    fn estimate(&self, _: &Space, _: &KeyRange) -> TxnResult<u64> {
        Ok(0)
    }

    fn sample(&self, _: &Space, _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> TxnResult<()> {
        Ok(())
    }

    fn put(&mut self, space: &Space, key: &[u8], value: &[u8]) -> TxnResult<()> {
        self.entries.insert((space.id.0, key.to_vec()), value.to_vec());
        Ok(())
    }

    fn append(&mut self, _: &Space, _: &[u8], _: &[u8]) -> TxnResult<()> {
        unreachable!("operators on this have no topics")
    }

    fn cut(&mut self, _: &Space, _: &[u8], _: i64) -> TxnResult<()> {
        unreachable!("operators on this have no topics")
    }

    fn edge(&mut self, _: &Space, _: &KeyRange, _: Direction) -> TxnResult<Option<(Key, Vec<u8>)>> {
        unreachable!("operators on this have no topics")
    }

    fn delete(&mut self, space: &Space, key: &[u8]) -> TxnResult<()> {
        self.entries.remove(&(space.id.0, key.to_vec()));
        Ok(())
    }

    fn patch(&mut self, space: &Space, key: &[u8], _: ColumnSet, patch: Arc<dyn Patch>) -> TxnResult<()> {
        let row = self.entries.get_mut(&(space.id.0, key.to_vec())).ok_or(TxnError::NoSuchKey { space: space.id })?;
        let mut out = Vec::new();
        patch.apply(row, &mut out).map_err(TxnError::Patch)?;
        *row = out;
        Ok(())
    }

    // No plan of these tests has parts that write.
    fn keep_old(&mut self) {}

    fn see_old(&mut self, _: bool) -> bool {
        false
    }

    fn forget_old(&mut self) {}

    fn is_written(&self, _: &Space, _: &[u8]) -> bool {
        false
    }

    fn note_written(&mut self, _: &Space, _: &[u8]) {}

    fn load(&mut self, space: &Space, entries: Vec<(colibri_txn::Key, Vec<u8>)>) -> TxnResult<()> {
        entries.into_iter().for_each(|(key, value)| _ = self.entries.insert((space.id.0, key.to_vec()), value));
        Ok(())
    }

    fn create_space(&mut self, _: SpaceId) -> TxnResult<()> {
        Ok(())
    }

    fn drop_space(&mut self, _: SpaceId) -> TxnResult<()> {
        Ok(())
    }

    fn lock(&mut self, space: &Space, key: &[u8], _: LockMode, _: IfLocked) -> TxnResult<()> {
        self.fetch("lock", space, key)?;
        if self.locked.contains(key) {
            return Err(TxnError::NotAvailable);
        }
        self.own.push(key.to_vec());
        Ok(())
    }

    fn expect_newest(&mut self, _: &Space, _: &KeyRange) -> TxnResult<()> {
        Ok(())
    }

    fn begin_statement(&mut self) -> TxnResult<Savepoint> {
        unreachable!("operators begin no statements")
    }

    fn savepoint(&self) -> Savepoint {
        // Rows of these tests are taken back by the transactions of `constraints/tests.rs`.
        unreachable!("operators need no savepoints")
    }

    fn rollback_to(&mut self, _: Savepoint) -> TxnResult<()> {
        unreachable!("operators take nothing back")
    }

    fn restart(&mut self, _: Savepoint) -> TxnResult<()> {
        unreachable!("operators do not restart")
    }

    fn catch_up(&mut self) -> TxnResult<Option<bool>> {
        unreachable!("operators do not move forward")
    }

    fn look_ahead(&mut self) -> TxnResult<()> {
        unreachable!("operators do not look ahead")
    }

    fn look_back(&mut self) -> TxnResult<()> {
        unreachable!("operators do not look ahead")
    }

    fn commit_leaving(self: Box<Self>, _: &mut Option<Box<dyn Remains>>) -> TxnResult<Commit> {
        unreachable!("operators do not commit")
    }
}

/// A session with one sequence.
#[derive(Default)]
pub(super) struct NoSession(i64);

impl SessionCalls for NoSession {
    fn next_value(&mut self, _: &Sequence) -> Result<i64> {
        self.0 += 1;
        Ok(self.0)
    }

    fn call(&mut self, _: &mut dyn Transaction, name: &str, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::text(name))
    }

    fn next_row_number(&mut self, _: &mut dyn Transaction, _: &Table) -> Result<i64> {
        self.0 += 1;
        Ok(self.0)
    }
}

/// A table of bigint columns `a`, `b`, …; the first `keys` are its key.
pub(super) fn table(id: u32, name: &str, columns: usize, keys: usize) -> Table {
    let column = |place: usize| Column {
        name: char::from(b'a' + place as u8).to_string().into(),
        ty: Type::Int8.into(),
        not_null: place < keys,
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
    let key = PrimaryKey {
        id: id + 1,
        name: format!("{name}_pkey").into(),
        columns: (0..keys).collect(),
        parent: None,
        include: Vec::new(),
    };
    let mut table = Table {
        id,
        schema: "public".into(),
        name: name.into(),
        space: id,
        columns: (0..columns).map(column).collect(),
        primary_key: (keys > 0).then_some(key),
        indexes: Vec::new(),
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
    table.renew_generation();
    table
}

/// With an index over columns, each perhaps descending, perhaps with NULLs first.
pub(super) fn index(table: &mut Table, columns: &[(usize, bool, bool)]) -> Arc<Index> {
    let columns =
        columns.iter().map(|&(column, descending, nulls_first)| IndexColumn { column, descending, nulls_first });
    let number = table.id + 10 + table.indexes.len() as u32;
    let name = format!("{}_{number}", table.name).into();
    let index = Arc::new(Index::plain(number, name, number, columns.collect(), false));
    table.indexes.push(Arc::clone(&index));
    index
}

/// Puts rows into a table and its indexes.
pub(super) fn fill(txn: &mut MemoryTxn, table: &Table, rows: &[Vec<Datum>]) {
    for (number, row) in rows.iter().enumerate() {
        let mut row = row.clone();
        row.push(Datum::Int(number as i64));
        let key = record::row_key(table, &row).unwrap();
        let mut value = Vec::new();
        record::encode_row(table, &row, &mut value).unwrap();
        txn.put(&table.space(), &key, &value).unwrap();
        for index in &table.indexes {
            let entry = record::index_entry(table, index, &row, &key).unwrap();
            txn.put(&index.space(), &entry, &[]).unwrap();
        }
    }
}

pub(super) fn int(value: i64) -> Expr {
    Expr::Const(Datum::Int(value))
}

pub(super) fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
    Expr::Compare { op, left: Box::new(left), right: Box::new(right) }
}

/// All columns of a table, in the order of its key or what the ranges leave of it.
pub(super) fn scan(table: &Arc<Table>, ranges: KeyRanges, filter: Option<Expr>) -> Node {
    Node::Scan(Arc::new(Scan {
        columns: (0..table.columns.len()).collect(),
        table: Arc::clone(table),
        access: Access::Key { ranges },
        direction: Direction::Forward,
        filter,
        depends: ColumnSet::ALL,
        rows: 1.0,
    }))
}

/// Rows of integers; `i64::MIN` stands for NULL.
pub(super) fn values(rows: &[&[i64]]) -> Node {
    let value = |&value: &i64| Expr::Const(if value == i64::MIN { Datum::Null } else { Datum::Int(value) });
    Node::Values { rows: rows.iter().map(|row| row.iter().map(value).collect()).collect() }
}

pub(super) fn fragment(root: Node, width: usize, slots: usize) -> Arc<Fragment> {
    let column = |place: usize| OutputColumn { name: format!("c{place}").into(), ty: Type::Int8.into(), origin: None };
    Arc::new(Fragment::new(root, slots, (0..width).map(column).collect()))
}

/// Memory with limits, and temporary files in memory as well.
pub(super) fn memory(limits: MemoryLimits) -> Arc<SessionMemory> {
    memory_on(&MemoryScratch::default(), limits)
}

/// The same with temporary files of which the test wants to know more.
pub(super) fn memory_on(scratch: &MemoryScratch, limits: MemoryLimits) -> Arc<SessionMemory> {
    let engine = EngineMemory::with_scratch(Arc::new(scratch.clone()), MemoryTotal::default());
    SessionMemory::new(&Arc::new(engine), limits)
}

/// How a plan is run.
pub(super) struct How<'h> {
    pub(super) budget_rows: i64,
    pub(super) want: usize,
    pub(super) memory: Arc<SessionMemory>,
    pub(super) cancel: &'h AtomicBool,
    pub(super) params: &'h [Datum],
}

pub(super) static NOT_CANCELED: AtomicBool = AtomicBool::new(false);

impl Default for How<'_> {
    fn default() -> Self {
        let memory = memory(MemoryLimits::default());
        Self { budget_rows: i64::MAX, want: 1024, memory, cancel: &NOT_CANCELED, params: &[] }
    }
}

/// Runs a plan to its end.
pub(super) fn run_how(fragment: &Arc<Fragment>, txn: &mut MemoryTxn, how: &How<'_>) -> Result<Vec<Vec<Datum>>> {
    run_until(fragment, txn, how, usize::MAX)
}

fn writes(node: &Node) -> bool {
    matches!(node, Node::Insert(_) | Node::Update(_) | Node::Delete(_))
}

/// The same, cancelled after a number of steps.
pub(super) fn run_until(
    fragment: &Arc<Fragment>,
    txn: &mut MemoryTxn,
    how: &How<'_>,
    steps: usize,
) -> Result<Vec<Vec<Datum>>> {
    let env = Env::default();
    let mut execution = Execution::new(fragment);
    let mut session = NoSession::default();
    let mut out = Batch::new();
    out.want(how.want);
    let mut rows = Vec::new();
    let mut idle = 0;
    for step in 0.. {
        if step == steps {
            how.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let mut cx = Context {
            env: &env,
            params: how.params,
            session: &mut session,
            cancel: how.cancel,
            memory: &how.memory,
            // Plans that join much and give little are let off.
            budget_rows: how.budget_rows.saturating_mul(1 << (idle / 1000)),
        };
        match execution.step(txn, &mut cx, &mut out)? {
            Outcome::Rows => {
                assert!(!out.is_empty() && out.rows() <= how.want);
                rows.extend(out.iter().map(<[Datum]>::to_vec));
                idle = 0;
            }
            Outcome::Yield => {
                assert!(how.budget_rows < i64::MAX, "a step without a budget does not end before its time");
                idle += 1;
                if idle > 40_000 {
                    return Err(Error::internal("the plan does not get on"));
                }
            }
            Outcome::Done => return Ok(rows),
            Outcome::Interrupted(Pause::Fetch(wait)) => wait.wait(),
            Outcome::Interrupted(Pause::FetchAnew(_)) => {
                assert!(execution.may_fetch_anew());
                execution = Execution::new(fragment);
                rows.clear();
            }
            Outcome::Interrupted(pause) => return Err(Error::internal(format!("{pause:?}"))),
        }
    }
    unreachable!("steps do not end by themselves")
}

/// Runs a plan to its end at once. It gives the same where each call of the transaction has to be
/// made twice, because something has to be fetched for it.
pub(super) fn run(fragment: &Arc<Fragment>, txn: &mut MemoryTxn) -> Result<Vec<Vec<Datum>>> {
    let fetched = (!writes(&fragment.root)).then(|| run_how(fragment, &mut txn.that_fetches(), &How::default()));
    let rows = run_how(fragment, txn, &How::default());
    match (&rows, fetched) {
        (Ok(rows), Some(Ok(fetched))) => assert_eq!(ints(rows), ints(&fetched), "something is fetched"),
        (Err(error), Some(Err(other))) => assert_eq!(error.to_string(), other.to_string(), "something is fetched"),
        (_, None) => {}
        (rows, Some(fetched)) => panic!("{rows:?}, and where something is fetched {fetched:?}"),
    }
    rows
}

/// Rows of integers, `i64::MIN` for NULL, `i64::MAX` for anything else.
pub(super) fn ints(rows: &[Vec<Datum>]) -> Vec<Vec<i64>> {
    let int = |value: &Datum| match value {
        Datum::Int(value) => *value,
        Datum::Null => i64::MIN,
        Datum::Bool(value) => i64::from(*value),
        Datum::Numeric(value) => value.to_string().parse().unwrap_or(i64::MAX),
        _ => i64::MAX,
    };
    rows.iter().map(|row| row.iter().map(int).collect()).collect()
}
