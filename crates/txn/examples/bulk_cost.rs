//! What large changes cost: `cargo run --release -p colibri-txn --example bulk_cost`.
//!
//! One thread, a table of 400,000 rows of 100 bytes with five indexes, no flushes. A transaction
//! deletes one row of twenty, with its entries in every index: first those of a range of keys, then
//! some here and there. Others put rows or entries, each of which is looked for first. Prints
//! nanoseconds of CPU a row, the median of several rounds, and what of that is the commit.

use colibri_storage::{Database, Durability, Options};
use colibri_txn::{Begin, ColumnSet, IfLocked, LocalStore, LocalTransaction, LockMode, Space, SpaceId, Transaction};

const ROWS: u64 = 400_000;
const CHANGED: u64 = ROWS / 20;
const INDEXES: u32 = 5;
const ROUNDS: usize = 7;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The CPU time that this thread has used, in nanoseconds.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// The entry of a row in an index: a value that says nothing of the row's number, and the number.
fn entry(index: u32, n: u64) -> Vec<u8> {
    let value = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(index) >> (8 * (index % 4));
    [&[7_u8][..], &value.to_be_bytes(), &[9], &n.to_be_bytes()].concat()
}

fn measure(
    what: &str,
    store: &LocalStore,
    mut change: impl FnMut(&mut LocalTransaction, u64) -> colibri_txn::Result<()>,
    undo: bool,
) -> Outcome {
    let (mut rounds, mut commits) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        let mut txn = store.begin(Begin { newest: true, ..Begin::default() })?;
        let begun = cpu_ns();
        for n in 0..CHANGED {
            change(&mut txn, (round << 32) + n)?;
        }
        let committing = cpu_ns();
        drop(txn.commit()?);
        rounds.push((cpu_ns() - begun) / CHANGED);
        commits.push((cpu_ns() - committing) / CHANGED);
        if undo {
            let mut txn = store.begin(Begin { newest: true, ..Begin::default() })?;
            (0..=INDEXES).try_for_each(|index| txn.drop_space(SpaceId(1 + index)))?;
            drop(txn.commit()?);
            let mut txn = store.begin(Begin { newest: true, ..Begin::default() })?;
            fill(&mut txn)?;
            drop(txn.commit()?);
        }
    }
    rounds.sort_unstable();
    commits.sort_unstable();
    println!("{what:<60} {:>6} ns, {:>6} ns of that its commit", rounds[ROUNDS / 2], commits[ROUNDS / 2]);
    Ok(())
}

/// Makes the spaces anew.
fn fill(txn: &mut LocalTransaction) -> colibri_txn::Result<()> {
    for index in 0..=INDEXES {
        let space = Space::new(SpaceId(1 + index));
        txn.create_space(space.id)?;
        let mut entries: Vec<_> = (0..ROWS)
            .map(|n| match index {
                0 => (n.to_be_bytes().as_slice().into(), vec![1; 100]),
                _ => (entry(index, n).as_slice().into(), Vec::new()),
            })
            .collect();
        entries.sort_unstable();
        txn.load(&space, entries)?;
    }
    Ok(())
}

fn delete(txn: &mut LocalTransaction, n: u64) -> colibri_txn::Result<()> {
    let rows = Space::of_keys(SpaceId(1));
    txn.lock(&rows, &n.to_be_bytes(), LockMode::Exclusive, IfLocked::Wait)?;
    txn.delete(&rows, &n.to_be_bytes())?;
    for index in 1..=INDEXES {
        txn.delete(&Space::of_keys(SpaceId(1 + index)), &entry(index, n))?;
    }
    Ok(())
}

fn main() -> Outcome {
    let dir = std::env::temp_dir().join(format!("colibri-bulk-cost-{}", std::process::id()));
    let db = Database::open(&dir, &Options::new().durability(Durability::NoSync))?;
    let store = LocalStore::new(db);
    let mut txn = store.begin(Begin::default())?;
    fill(&mut txn)?;
    txn.commit()?.wait()?;
    let low = |n: u64| n & 0xffff_ffff;

    measure("delete rows of a range, six keys each", &store, |txn, n| delete(txn, low(n)), true)?;
    measure("delete rows here and there, six keys each", &store, |txn, n| delete(txn, low(n) * 20), true)?;
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS;
    measure(
        "get and put rows in any order",
        &store,
        |txn, n| {
            let (rows, key) = (Space::of_keys(SpaceId(1)), spread(n).to_be_bytes());
            txn.get(&rows, &key, ColumnSet::ALL)?;
            txn.put(&rows, &key, &[2; 100])
        },
        false,
    )?;
    measure(
        "insert entries in any order",
        &store,
        |txn, n| {
            let (rows, key) = (Space::of_keys(SpaceId(2)), entry(3, spread(n) + ROWS * (n >> 32)));
            txn.get(&rows, &key, ColumnSet::ALL)?;
            txn.put(&rows, &key, &[])
        },
        false,
    )?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
