//! Sessions that change one row, durably: `cargo run --release -p colibri-txn --example hot_row [DIR]`.
//!
//! Each session is a thread that waits for its commits. Prints commits a second, and how many transactions of the
//! storage brought them, for one session and for eight, by a delta and by reading and writing under the row's lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use colibri_storage::{Database, Options};
use colibri_txn::{
    Begin, ColumnSet, Error, IfLocked, LocalStore, LockMode, Patch, PatchError, Space, SpaceId, Store, Transaction,
};

struct Increment;

impl Patch for Increment {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> Result<(), PatchError> {
        out.extend_from_slice(&incremented(row)?);
        Ok(())
    }
}

fn incremented(row: &[u8]) -> Result<[u8; 8], PatchError> {
    Ok((u64::from_le_bytes(row.try_into()?) + 1).to_le_bytes())
}

fn add_once(store: &LocalStore, delta: bool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let space = Space::new(SpaceId(1));
    let mut txn = store.begin(Begin { newest: true, ..Begin::default() })?;
    let statement = txn.begin_statement()?;
    let mode = if delta { LockMode::Add } else { LockMode::Exclusive };
    loop {
        match txn.lock(&space, b"row", mode, IfLocked::Wait) {
            Ok(()) => break,
            Err(Error::Wait(wait)) => wait.wait(),
            Err(Error::Stale) => {}
            Err(e) => return Err(e.into()),
        }
        txn.restart(statement)?;
    }
    if delta {
        txn.patch(&space, b"row", ColumnSet::one(0), Arc::new(Increment))?;
    } else {
        let row = incremented(txn.get(&space, b"row", ColumnSet::ALL)?.ok_or("no row")?)?;
        txn.put(&space, b"row", &row)?;
    }
    txn.commit()?.wait()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("colibri-txn-hot-{}", std::process::id()));
    let store = LocalStore::new(Database::open(&dir, &Options::new())?);
    let space = Space::new(SpaceId(1));
    let mut txn = store.begin(Begin::default())?;
    txn.create_space(space.id)?;
    txn.put(&space, b"row", &[0; 8])?;
    txn.commit()?.wait()?;
    for delta in [true, false] {
        for sessions in [1, 8] {
            let before = store.counters();
            let (begun, over) = (Instant::now(), AtomicBool::new(false));
            let failed = std::thread::scope(|scope| {
                let session = || {
                    while !over.load(Ordering::Relaxed) {
                        add_once(&store, delta).map_err(|e| e.to_string())?;
                    }
                    Ok::<_, String>(())
                };
                let threads: Vec<_> = (0..sessions).map(|_| scope.spawn(session)).collect();
                std::thread::sleep(Duration::from_secs(2));
                over.store(true, Ordering::Relaxed);
                threads.into_iter().map(|thread| thread.join()).filter(|ended| !matches!(ended, Ok(Ok(())))).count()
            });
            let after = store.counters();
            println!(
                "{sessions} sessions, {}: {:>7.0} commits/s, {} commits in {} batches, {} restarts, {} waits, {failed} failed",
                if delta { "delta" } else { "read and write" },
                (after.commits - before.commits) as f64 / begun.elapsed().as_secs_f64(),
                after.commits - before.commits,
                after.batches - before.batches,
                after.restarts - before.restarts,
                after.lock_waits - before.lock_waits,
            );
        }
    }
    drop(store);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
