//! A model of the reader table, under every schedule that a random scheduler comes upon:
//! `cargo test -p colibri-storage --features shuttle models`.
//!
//! The table itself lies in memory that processes share, where a scheduler's atomics cannot; so this says again, step by
//! step, what `shared` and `space` do: `Shared::pin`, `Shared::pinned`, `Space::reclaim`.

#![cfg(feature = "shuttle")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{sync, thread};

const IDLE: u64 = u64::MAX;
const READERS: usize = 2;
const COMMITS: u64 = 5;

struct Table {
    current: AtomicU64,
    visible: AtomicU64,
    slots: [AtomicU64; READERS],
    /// A page for each state, which it is born with and the next one frees: the transaction whose content it has.
    pages: sync::Mutex<Vec<u64>>,
}

/// Takes the visible state, reads its page twice, lets go.
fn read(table: &Table, slot: usize) {
    let pinned = loop {
        let txn = table.visible.load(Ordering::SeqCst);
        table.slots[slot].swap(txn, Ordering::SeqCst);
        if table.visible.load(Ordering::SeqCst) == txn {
            break txn;
        }
    };
    for _ in 0..2 {
        let found = table.pages.lock().unwrap()[pinned as usize];
        assert_eq!(found, pinned, "a page that a snapshot sees was reused");
        thread::yield_now();
    }
    table.slots[slot].store(IDLE, Ordering::SeqCst);
}

/// Commits, reusing the page of every older state that nobody can see any more. `broken`: without looking at the
/// slots, or at them before at what is visible.
fn write(table: &Table, broken: Option<&str>) {
    for txn in 1..=COMMITS {
        let slots = || table.slots.each_ref().map(|slot| slot.load(Ordering::SeqCst));
        let (visible, pinned) = match broken {
            None => {
                let visible = table.visible.load(Ordering::SeqCst);
                (visible, slots())
            }
            Some("order") => {
                let pinned = slots();
                thread::yield_now();
                (table.visible.load(Ordering::SeqCst), pinned)
            }
            Some(_) => (table.visible.load(Ordering::SeqCst), [IDLE; READERS]),
        };
        let mut pages = table.pages.lock().unwrap();
        for state in 0..txn.saturating_sub(1) {
            // Born in `state`, freed by the next transaction.
            if state + 1 <= visible && !pinned.contains(&state) {
                pages[state as usize] = txn;
            }
        }
        pages.push(txn);
        drop(pages);
        table.current.store(txn, Ordering::SeqCst);
    }
}

fn model(broken: Option<&'static str>) {
    let table = Arc::new(Table {
        current: AtomicU64::new(0),
        visible: AtomicU64::new(0),
        slots: [IDLE; READERS].map(AtomicU64::new),
        pages: sync::Mutex::new(vec![0]),
    });
    let mut threads = Vec::new();
    for slot in 0..READERS {
        let table = Arc::clone(&table);
        threads.push(thread::spawn(move || (0..2).for_each(|_| read(&table, slot))));
    }
    // Whoever flushes the log makes commits visible, some time after they were made.
    let flusher = Arc::clone(&table);
    threads.push(thread::spawn(move || {
        for _ in 0..4 {
            let written = flusher.current.load(Ordering::SeqCst);
            thread::yield_now();
            flusher.visible.fetch_max(written, Ordering::SeqCst);
        }
    }));
    write(&table, broken);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn models_of_the_reader_table_reuse_no_page_that_is_seen() {
    shuttle::check_random(|| model(None), 20_000);
    shuttle::check_pct(|| model(None), 5_000, 3);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_the_reader_table_catch_a_writer_that_looks_in_the_wrong_order() {
    shuttle::check_random(|| model(Some("order")), 100_000);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_the_reader_table_catch_a_writer_that_does_not_look() {
    shuttle::check_random(|| model(Some("blind")), 20_000);
}
