//! A model of the reader table, under every schedule that a random scheduler comes upon:
//! `cargo test -p colibri-storage --features shuttle models`.
//!
//! The table itself lies in memory that processes share, where a scheduler's atomics cannot; so
//! this says again, step by step, what `lock_file` and `space` do: `Shared::pin`, `Shared::pinned`,
//! `Space::reclaim`; and what comes on top of that: `Core::take_over`, `Shared::park`, `unpark` and
//! `evict`, and `Shared::pin_beside`.

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
    /// A page for each state, which it is born with and the next one frees: the transaction whose
    /// content it has.
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

/// Commits, reusing the page of every older state that nobody can see any more; the writing changes
/// hands meanwhile. `broken`: without looking at the slots, or at them before at what is visible,
/// or the handover is.
fn write(table: &Table, broken: Option<&str>) {
    for txn in 1..=COMMITS {
        if txn == COMMITS / 2 + 1 {
            take_over(table, broken == Some("handover"));
        }
        let slots = || table.slots.each_ref().map(|slot| slot.load(Ordering::SeqCst));
        let (visible, pinned) = match broken {
            None | Some("handover") => {
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

/// Takes over the writing, and reuses the page of every state that no pin names. `broken`: asks who
/// has pinned what while states before the newest can still be pinned.
fn take_over(table: &Table, broken: bool) {
    let newest = table.current.load(Ordering::SeqCst);
    let raise_visible = || _ = table.visible.fetch_max(newest, Ordering::SeqCst);
    if !broken {
        raise_visible();
    }
    let pinned = table.slots.each_ref().map(|slot| slot.load(Ordering::SeqCst));
    thread::yield_now();
    if broken {
        raise_visible();
    }
    let mut pages = table.pages.lock().unwrap();
    for state in (0..newest).filter(|state| !pinned.contains(state)) {
        pages[state as usize] = newest + 1;
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

#[test]
#[should_panic(expected = "was reused")]
fn models_of_the_reader_table_catch_a_handover_that_looks_in_the_wrong_order() {
    shuttle::check_random(|| model(Some("handover")), 100_000);
}

// ---- parked snapshots, which a writer evicts ----

const PARKED: u64 = 1 << 63;
const EVICTED: u64 = IDLE - 1;

/// Takes the visible state, leaves it to itself, and reads its page if it was not evicted
/// meanwhile; says whether it was. `broken`: takes it up again without asking.
fn read_parked(table: &Table, slot: usize, broken: bool) -> bool {
    let pinned = loop {
        let txn = table.visible.load(Ordering::SeqCst);
        table.slots[slot].swap(txn, Ordering::SeqCst);
        if table.visible.load(Ordering::SeqCst) == txn {
            break txn;
        }
    };
    table.slots[slot].fetch_or(PARKED, Ordering::SeqCst);
    thread::yield_now();
    let kept = match broken {
        false => {
            table.slots[slot].compare_exchange(PARKED | pinned, pinned, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        }
        true => table.slots[slot].swap(pinned, Ordering::SeqCst) != IDLE,
    };
    if kept {
        for _ in 0..2 {
            let found = table.pages.lock().unwrap()[pinned as usize];
            assert_eq!(found, pinned, "a page that a snapshot sees was reused");
            thread::yield_now();
        }
    }
    table.slots[slot].store(IDLE, Ordering::SeqCst);
    !kept
}

/// Commits, each time evicting who is parked, and reusing what nobody sees any more. `broken`:
/// takes who was parked when it looked for evicted.
fn write_and_evict(table: &Table, broken: bool) {
    for txn in 1..=COMMITS {
        let visible = table.visible.load(Ordering::SeqCst);
        for slot in &table.slots {
            let found = slot.load(Ordering::SeqCst);
            if found & PARKED == 0 || found >= EVICTED {
                continue;
            }
            if broken {
                slot.store(EVICTED, Ordering::SeqCst);
            } else {
                let _ = slot.compare_exchange(found, EVICTED, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        let seen = table.slots.each_ref().map(|slot| slot.load(Ordering::SeqCst));
        let mut pages = table.pages.lock().unwrap();
        for state in 0..txn.saturating_sub(1) {
            let pinned = seen.iter().any(|&slot| slot < EVICTED && slot & !PARKED == state);
            if state + 1 <= visible && !pinned {
                pages[state as usize] = txn;
            }
        }
        pages.push(txn);
        drop(pages);
        table.current.store(txn, Ordering::SeqCst);
        table.visible.store(txn, Ordering::SeqCst);
    }
}

fn parking_model(broken: Option<&'static str>) {
    let table = Arc::new(Table {
        current: AtomicU64::new(0),
        visible: AtomicU64::new(0),
        slots: [IDLE; READERS].map(AtomicU64::new),
        pages: sync::Mutex::new(vec![0]),
    });
    let threads: Vec<_> = (0..READERS)
        .map(|slot| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                (0..2).for_each(|_| _ = read_parked(&table, slot, broken == Some("unpark")));
            })
        })
        .collect();
    write_and_evict(&table, broken == Some("evict"));
    for thread in threads {
        thread.join().unwrap();
    }
    // What is broken on purpose may show here first, and is to be found by what it does to pages.
    let is_lost = table.slots.iter().any(|slot| slot.load(Ordering::SeqCst) != IDLE);
    assert!(broken.is_some() || !is_lost, "a slot is lost");
}

#[test]
fn models_of_parked_snapshots_read_no_page_that_was_taken() {
    shuttle::check_random(|| parking_model(None), 20_000);
    shuttle::check_pct(|| parking_model(None), 5_000, 3);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_parked_snapshots_catch_one_that_is_taken_up_without_asking() {
    shuttle::check_random(|| parking_model(Some("unpark")), 100_000);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_parked_snapshots_catch_a_writer_that_evicts_without_asking() {
    shuttle::check_random(|| parking_model(Some("evict")), 100_000);
}

// ---- pinning what another snapshot sees ----

const UNSETTLED: u64 = 1 << 62;
/// The reader's slot, between two that others may use.
const READER: usize = 1;
const SLOTS: usize = 3;

struct Row {
    visible: AtomicU64,
    used: AtomicU64,
    slots: [AtomicU64; SLOTS],
    pages: sync::Mutex<Vec<u64>>,
}

impl Row {
    fn check(&self, pinned: u64) {
        for _ in 0..2 {
            let found = self.pages.lock().unwrap()[pinned as usize];
            assert_eq!(found, pinned, "a page that a snapshot sees was reused");
            thread::yield_now();
        }
    }

    fn read(&self) {
        let pinned = loop {
            let txn = self.visible.load(Ordering::SeqCst);
            self.slots[READER].swap(UNSETTLED | txn, Ordering::SeqCst);
            if self.visible.load(Ordering::SeqCst) == txn {
                self.slots[READER].store(txn, Ordering::SeqCst);
                break txn;
            }
        };
        self.check(pinned);
        self.slots[READER].store(IDLE, Ordering::SeqCst);
    }

    /// Pins what the reader sees, and lives on when that has gone. `broken`: in a slot before the
    /// reader's, or beside a pin that may have come too late.
    fn read_beside(&self, broken: Option<&str>) {
        let found = self.slots[READER].load(Ordering::SeqCst);
        if found == IDLE {
            return;
        }
        let (txn, mask) = (found & !UNSETTLED, if broken == Some("unsettled") { UNSETTLED } else { 0 });
        let slot = if broken == Some("before") { 0 } else { 2 };
        self.used.fetch_max(slot as u64 + 1, Ordering::SeqCst);
        self.slots[slot].swap(UNSETTLED | txn, Ordering::SeqCst);
        if self.slots[READER].load(Ordering::SeqCst) & !mask == txn {
            self.slots[slot].store(txn, Ordering::SeqCst);
            self.check(txn);
        }
        self.slots[slot].store(IDLE, Ordering::SeqCst);
    }

    /// Commits, reusing the page of every older state that nobody can see any more. `broken`: asks
    /// only once how many slots there are.
    fn write(&self, broken: Option<&str>) {
        for txn in 1..=COMMITS {
            let visible = self.visible.load(Ordering::SeqCst);
            let mut pinned = Vec::new();
            let mut used = self.used.load(Ordering::SeqCst);
            for (index, slot) in (0..).zip(&self.slots) {
                if index >= used {
                    break;
                }
                pinned.push(slot.load(Ordering::SeqCst) & !UNSETTLED);
                if broken != Some("used") {
                    used = self.used.load(Ordering::SeqCst);
                }
            }
            let mut pages = self.pages.lock().unwrap();
            for state in 0..txn.saturating_sub(1) {
                if state + 1 <= visible && !pinned.contains(&state) {
                    pages[state as usize] = txn;
                }
            }
            pages.push(txn);
            drop(pages);
            self.visible.store(txn, Ordering::SeqCst);
        }
    }
}

fn beside_model(broken: Option<&'static str>) {
    let row = Arc::new(Row {
        visible: AtomicU64::new(0),
        used: AtomicU64::new(READER as u64 + 1),
        slots: [IDLE; SLOTS].map(AtomicU64::new),
        pages: sync::Mutex::new(vec![0]),
    });
    let (reader, beside) = (Arc::clone(&row), Arc::clone(&row));
    let threads = [
        thread::spawn(move || (0..2).for_each(|_| reader.read())),
        thread::spawn(move || (0..2).for_each(|_| beside.read_beside(broken))),
    ];
    row.write(broken);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn models_of_pins_beside_others_reuse_no_page_that_is_seen() {
    shuttle::check_random(|| beside_model(None), 30_000);
    shuttle::check_pct(|| beside_model(None), 20_000, 4);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_pins_beside_others_catch_one_in_a_slot_before_the_other() {
    shuttle::check_pct(|| beside_model(Some("before")), 300_000, 4);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_pins_beside_others_catch_one_beside_a_pin_that_came_too_late() {
    shuttle::check_pct(|| beside_model(Some("unsettled")), 300_000, 4);
}

#[test]
#[should_panic(expected = "was reused")]
fn models_of_pins_beside_others_catch_a_writer_that_counts_the_slots_once() {
    shuttle::check_pct(|| beside_model(Some("used")), 300_000, 4);
}
