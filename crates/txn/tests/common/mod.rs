//! What the tests share: stores in directories that go away, rows of two columns, short ways to say
//! things.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests, each of which uses some of it")]

pub mod history;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use colibri_storage::{Database, Durability, Options};
use colibri_txn::{
    Begin, ColumnSet, Direction, IfLocked, Isolation, Key, KeyRange, LocalStore, LocalTransaction, LockMode, Patch,
    PatchError, Result, RowLayout, Space, SpaceId, Transaction,
};

pub const A: ColumnSet = ColumnSet::one(0);
pub const B: ColumnSet = ColumnSet::one(1);

/// A store in a directory that goes away with it.
pub struct TestStore {
    pub store: LocalStore,
    pub dir: tempfile::TempDir,
}

impl std::ops::Deref for TestStore {
    type Target = LocalStore;

    fn deref(&self) -> &LocalStore {
        &self.store
    }
}

pub fn open_with(durability: Durability) -> TestStore {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(Database::open(dir.path(), &Options::new().durability(durability)).unwrap());
    TestStore { store, dir }
}

/// A store with the space of [`rows`], empty.
pub fn open() -> TestStore {
    let store = open_with(Durability::NoSync);
    let mut txn = store.begin(write()).unwrap();
    txn.create_space(rows().id).unwrap();
    txn.commit().unwrap().wait().unwrap();
    store
}

/// The space that most tests use: rows of two numbers.
pub fn rows() -> Space {
    Space::with_layout(SpaceId(1), Arc::new(TwoNumbers))
}

pub fn write() -> Begin {
    Begin { newest: true, ..Begin::default() }
}

pub fn read_only() -> Begin {
    Begin { read_only: true, ..Begin::default() }
}

pub fn read_committed() -> Begin {
    Begin { isolation: Isolation::ReadCommitted, ..write() }
}

/// Two columns of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    pub a: i64,
    pub b: i64,
}

impl Row {
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            a: i64::from_le_bytes(bytes[..8].try_into().unwrap()),
            b: i64::from_le_bytes(bytes[8..].try_into().unwrap()),
        }
    }

    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.a.to_le_bytes());
        bytes[8..].copy_from_slice(&self.b.to_le_bytes());
        bytes
    }

    /// The row as somebody sees it who looks at some columns.
    pub fn masked(self, columns: ColumnSet) -> Self {
        let keep = |column: ColumnSet, value| if columns.intersects(column) { value } else { 0 };
        Self { a: keep(A, self.a), b: keep(B, self.b) }
    }

    pub fn column(&mut self, index: usize) -> &mut i64 {
        if index == 0 { &mut self.a } else { &mut self.b }
    }
}

pub struct TwoNumbers;

impl RowLayout for TwoNumbers {
    fn changed(&self, old: &[u8], new: &[u8]) -> ColumnSet {
        let (old, new) = (Row::decode(old), Row::decode(new));
        [old.a != new.a, old.b != new.b].iter().enumerate().filter(|(_, changed)| **changed).map(|(i, _)| i).collect()
    }
}

/// `column = column + n`, refused above a limit.
pub struct Add(pub usize, pub i64);

pub const LIMIT: i64 = 1 << 40;

impl Patch for Add {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError> {
        let mut row = Row::decode(row);
        *row.column(self.0) += self.1;
        if *row.column(self.0) > LIMIT {
            return Err("too large".into());
        }
        out.extend_from_slice(&row.encode());
        Ok(())
    }
}

/// `column = n`.
pub struct Set(pub usize, pub i64);

impl Patch for Set {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError> {
        let mut row = Row::decode(row);
        *row.column(self.0) = self.1;
        out.extend_from_slice(&row.encode());
        Ok(())
    }
}

pub fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

pub fn span(low: u16, high: u16) -> KeyRange {
    KeyRange { low: Bound::Included(Key::from_slice(&key(low))), high: Bound::Excluded(Key::from_slice(&key(high))) }
}

/// Short ways to say what transactions do to [`rows`].
pub trait Short: Transaction + Sized {
    fn row(&mut self, n: u16, columns: ColumnSet) -> Result<Option<Row>> {
        let masked = |row: Option<&[u8]>| row.map(|row| Row::decode(row).masked(columns));
        if n.is_multiple_of(2) {
            return Ok(masked(self.get(&rows(), &key(n), columns)?));
        }
        // As one that is looked up together with others.
        let mut found = None;
        self.get_many(&rows(), &[&key(n)], columns, &mut |_, row| {
            found = masked(row);
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The first column of a row that is there.
    fn a(&mut self, n: u16) -> i64 {
        self.row(n, A).unwrap().expect("the row is there").a
    }

    fn set(&mut self, n: u16, a: i64) {
        self.put(&rows(), &key(n), &Row { a, b: 0 }.encode()).unwrap();
    }

    fn add(&mut self, n: u16, column: usize, more: i64) -> Result<()> {
        self.patch(&rows(), &key(n), ColumnSet::one(column), Arc::new(Add(column, more)))
    }

    fn lock_row(&mut self, n: u16, mode: LockMode) -> Result<()> {
        self.lock(&rows(), &key(n), mode, IfLocked::Wait)
    }

    fn list(&mut self, range: &KeyRange) -> Result<Vec<(u16, i64)>> {
        let mut found = Vec::new();
        self.scan(&rows(), range, Direction::Forward, ColumnSet::ALL, usize::MAX, &mut |key, row| {
            found.push((u16::from_be_bytes(key.try_into().unwrap()), Row::decode(row).a));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

impl<T: Transaction> Short for T {}

/// Puts rows with the given first columns.
pub fn fill(store: &LocalStore, values: &[(u16, i64)]) {
    let mut txn = store.begin(write()).unwrap();
    for &(n, a) in values {
        txn.set(n, a);
    }
    txn.commit().unwrap().wait().unwrap();
}

pub fn begin(store: &LocalStore, how: Begin) -> LocalTransaction {
    store.begin(how).unwrap()
}

/// What is stored now, first columns only.
pub fn now(store: &LocalStore) -> Vec<(u16, i64)> {
    begin(store, Begin { newest: true, ..read_only() }).list(&KeyRange::all()).unwrap()
}
