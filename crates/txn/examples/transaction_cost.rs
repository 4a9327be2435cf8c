//! What a transaction costs over the storage's own: `cargo run --release -p colibri-txn --example
//! transaction_cost`.
//!
//! One thread, a table of 100,000 rows of 100 bytes, no flushes. Prints nanoseconds an operation,
//! the median of several rounds; a machine that does something else meanwhile makes them
//! meaningless.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use colibri_storage::{Database, Durability, Options};
use colibri_txn::{Begin, ColumnSet, IfLocked, LocalStore, LockMode, Patch, PatchError, Space, SpaceId, Transaction};

const ROWS: u64 = 100_000;
const ROUNDS: usize = 15;
const OPS: u64 = 20_000;

struct Increment;

impl Patch for Increment {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> Result<(), PatchError> {
        out.extend_from_slice(row);
        out[0] = out[0].wrapping_add(1);
        Ok(())
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn measure(what: &str, mut run: impl FnMut(u64) -> Outcome) -> Outcome {
    let mut state = 1_u64;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..OPS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            run((state >> 33) % ROWS)?;
        }
        rounds.push(begun.elapsed().as_nanos() as f64 / OPS as f64);
    }
    rounds.sort_by(f64::total_cmp);
    println!("{what:<55} {:>7.0} ns", rounds[ROUNDS / 2]);
    Ok(())
}

fn main() -> Outcome {
    let dir = std::env::temp_dir().join(format!("colibri-txn-cost-{}", std::process::id()));
    let db = Database::open(&dir, &Options::new().durability(Durability::NoSync))?;
    let store = LocalStore::new(db.clone());
    let space = Space::new(SpaceId(1));
    let row = [1; 100];
    let mut txn = store.begin(Begin::default())?;
    txn.create_space(space.id)?;
    txn.load(&space, (0..ROWS).map(|n| (n.to_be_bytes().as_slice().into(), row.to_vec())).collect())?;
    txn.commit()?.wait()?;
    let table = db.read()?.table("s1")?;
    let newest = Begin { newest: true, ..Begin::default() };
    let reader = Begin { read_only: true, ..Begin::default() };

    measure("storage: begin to read, get, end", |n| {
        black_box(db.read()?.get(&table, &n.to_be_bytes())?);
        Ok(())
    })?;
    measure("txn: begin to read, get, commit", |n| {
        let mut txn = store.begin(reader)?;
        black_box(txn.get(&space, &n.to_be_bytes(), ColumnSet::ALL)?);
        drop(txn.commit()?);
        Ok(())
    })?;
    let mut txn = store.begin(newest)?;
    measure("txn: a get more", |n| {
        black_box(txn.get(&space, &n.to_be_bytes(), ColumnSet::ALL)?);
        Ok(())
    })?;
    drop(txn);
    measure("storage: put, commit", |n| {
        let mut txn = db.write()?;
        txn.put(&table, &n.to_be_bytes(), &row)?;
        drop(txn.commit_ticket()?);
        Ok(())
    })?;
    measure("txn: put, commit", |n| {
        let mut txn = store.begin(newest)?;
        txn.put(&space, &n.to_be_bytes(), &row)?;
        drop(txn.commit()?);
        Ok(())
    })?;
    measure("storage: get, put, commit", |n| {
        let mut txn = db.write()?;
        let mut row = txn.get(&table, &n.to_be_bytes())?.ok_or("no row")?.to_vec();
        row[0] = row[0].wrapping_add(1);
        txn.put(&table, &n.to_be_bytes(), &row)?;
        drop(txn.commit_ticket()?);
        Ok(())
    })?;
    measure("txn: lock, get, put, commit", |n| {
        let mut txn = store.begin(newest)?;
        txn.lock(&space, &n.to_be_bytes(), LockMode::Exclusive, IfLocked::Wait)?;
        let mut row = txn.get(&space, &n.to_be_bytes(), ColumnSet::ALL)?.ok_or("no row")?.to_vec();
        row[0] = row[0].wrapping_add(1);
        txn.put(&space, &n.to_be_bytes(), &row)?;
        drop(txn.commit()?);
        Ok(())
    })?;
    let patch: Arc<dyn Patch> = Arc::new(Increment);
    measure("txn: lock to add, patch, commit", |n| {
        let mut txn = store.begin(newest)?;
        txn.lock(&space, &n.to_be_bytes(), LockMode::Add, IfLocked::Wait)?;
        txn.patch(&space, &n.to_be_bytes(), ColumnSet::one(0), Arc::clone(&patch))?;
        drop(txn.commit()?);
        Ok(())
    })?;
    drop((store, db));
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
