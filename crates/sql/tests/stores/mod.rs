//! The store that a test runs on. Its target's name says which: `x` runs on the storage engine,
//! `x_in_memory` on a store in memory that can do the same, `x_fetched` on one that has to fetch
//! what it is asked for, whose commits take their time, `x_from_disk` on the engine with pages that
//! come from the disk.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests, each of which uses some of it")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use colibri_sql::Engine;
use colibri_storage::{Database, Durability, Options};
use colibri_txn::{MemoryOptions, MemoryStore};

/// How the store in memory behaves; `None` where tests run on the storage engine.
fn options() -> Option<MemoryOptions> {
    let target = env!("CARGO_CRATE_NAME");
    if target.ends_with("_fetched") {
        let latency = Duration::from_micros(1);
        return Some(MemoryOptions {
            seed: seed(),
            latency,
            fetches_percent: 30,
            slow_commits: true,
            ..Default::default()
        });
    }
    target.ends_with("_in_memory").then(MemoryOptions::default)
}

/// Whether the tests run on the storage engine.
pub fn is_local() -> bool {
    options().is_none()
}

/// Whether the store has to fetch what it is asked for.
pub fn fetches() -> bool {
    options().is_some_and(|options| options.fetches_percent > 0)
}

/// What is random about the store: `COLIBRI_SEED`, or else always the same.
pub fn seed() -> u64 {
    std::env::var("COLIBRI_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// An empty database, which has the name of its directory; with the store in memory, if it is on
/// one.
pub fn open(dir: &Path, durability: Durability) -> (Arc<Engine>, Option<MemoryStore>) {
    let Some(options) = options() else {
        let is_cold = env!("CARGO_CRATE_NAME").ends_with("_from_disk");
        let options = Options::new().durability(durability).seems_cold(is_cold);
        let database = Database::open(dir, &options).unwrap();
        return (Engine::open(database).unwrap(), None);
    };
    std::fs::create_dir_all(dir).unwrap();
    let (engine, store) = open_in_memory(dir, options);
    (engine, Some(store))
}

/// An empty database on a store in memory; temporary files go to a directory.
pub fn open_in_memory(dir: &Path, options: MemoryOptions) -> (Arc<Engine>, MemoryStore) {
    let name = dir.file_name().unwrap().to_string_lossy();
    let store = MemoryStore::new(options);
    (Engine::open_store(Arc::new(store.clone()), &name, dir).unwrap(), store)
}
