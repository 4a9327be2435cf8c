//! A handle that is dropped leaves to the others what a process leaves that dies: its locks and
//! nothing else go.

use super::*;

fn attach(path: &Path) -> Shared {
    let identity = Identity { boot_id: [1, 2], inode: 3, device: 4 };
    let (shared, _) = Shared::attach(path, identity, 8, Some(Mode::NotLogged)).unwrap();
    shared.open_gate();
    shared
}

/// Bug: a process in the slot of one that had died while it made a steady point was taken for the
/// maker. Consequence: who took over the writing waited for ever. Fix: taking a slot ends what its
/// last owner was making.
#[test]
fn nobody_waits_for_the_steady_point_of_a_dead_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (dying, waiting) = (attach(&path), attach(&path));
    dying.begin_steady();
    let slot = dying.slot;
    drop(dying);
    waiting.wait_for_steady();
    let heir = attach(&path);
    assert_eq!(heir.slot, slot);
    waiting.wait_for_steady();
}

/// Bug: taking the writer's lock already made a process the last writer. Consequence: when it died
/// while waiting for the steady point of the one before, that one took over from itself in the
/// middle of it. Fix: the last writer is who has taken over.
#[test]
fn a_writer_that_dies_before_it_has_taken_over_was_never_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (first, dying) = (attach(&path), attach(&path));
    assert!(!first.lock_writer(true).unwrap());
    first.wrote();
    first.unlock_writer();
    assert!(!dying.lock_writer(true).unwrap());
    drop(dying);
    assert!(first.lock_writer(true).unwrap());
}

#[test]
fn the_lock_of_a_dead_writer_is_free_with_and_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let survivor = attach(&path);
    for wait in [false, true] {
        let dying = attach(&path);
        dying.lock_writer(wait).unwrap();
        assert!(matches!(survivor.lock_writer(false), Err(Error::Busy)));
        drop(dying);
        survivor.lock_writer(wait).unwrap();
        survivor.unlock_writer();
    }
}

/// Bug: only closing the file let go of the process slot. Consequence: while another thread was
/// starting a process, which has a copy of the descriptor until it runs its own program, a closed
/// database was taken for open, and opening it with another durability was refused. Fix: dropping
/// lets go of the slot.
#[test]
fn a_handle_that_is_gone_is_not_open_even_if_a_child_still_has_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (living, closed) = (attach(&path), attach(&path));
    let copy = closed.file.as_ref().unwrap().try_clone().unwrap();
    assert!(living.others_attached());
    drop(closed);
    assert!(!living.others_attached());
    drop(copy);
}

#[test]
fn snapshots_of_the_dead_are_released_and_those_of_the_living_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (living, dying) = (attach(&path), attach(&path));
    living.publish(Root { txn: TxnId(1), ..Root::default() }, true);
    let (kept, _) = living.pin(0, 1, false).unwrap();
    dying.pin(0, 1, false).unwrap();
    let pins = |shared: &Shared| {
        let mut pins = Vec::new();
        shared.pinned(&mut pins);
        pins
    };
    assert_eq!(pins(&living), [TxnId(1), TxnId(1)]);
    assert!(!living.release_dead_readers());
    // Without `Drop`, which would tidy up.
    let dying = std::mem::ManuallyDrop::new(dying);
    dying.lose_process_slot();
    assert!(living.release_dead_readers());
    assert_eq!(pins(&living), [TxnId(1)]);
    living.unpin(kept);
    assert_eq!(pins(&living), []);
}

/// Bug: idle slots stayed with their owners. Consequence: a process that once had many snapshots
/// kept all others from reading. Fix: idle slots are anybody's when no other is free.
#[test]
fn idle_slots_go_to_who_needs_them_and_pinned_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (a, b) = (attach(&path), attach(&path));
    a.publish(Root { txn: TxnId(1), ..Root::default() }, true);
    for (first, second) in [(&a, &b), (&b, &a), (&a, &b)] {
        let mut ids: Vec<ReaderId> = (0..8).map(|hint| first.pin(hint, 1, false).unwrap().0).collect();
        assert!(matches!(second.pin(0, 1, false), Err(Error::ReadersFull { readers_max: 8 })));
        let left = ids.split_off(1);
        left.into_iter().for_each(|id| first.unpin(id));
        let mut others: Vec<ReaderId> = (0..7).map(|_| second.pin(3, 1, false).unwrap().0).collect();
        assert!(matches!(second.pin(0, 1, false), Err(Error::ReadersFull { .. })));
        assert!(matches!(first.pin(3, 1, false), Err(Error::ReadersFull { .. })));
        assert_eq!(first.reader_infos().len(), 8);
        ids.append(&mut others);
        ids.into_iter().for_each(|id| first.unpin(id));
        assert!(first.reader_infos().is_empty());
    }
}

/// Bug: who may not write to the lock file read without it, whoever wrote meanwhile. Consequence: a
/// copy made by such a user was of an old state or of pages that had been reused. Fix: it is
/// refused while others have the database open, or while only the lock file knows the newest
/// commits.
#[test]
fn a_reader_that_nobody_would_know_of_is_refused_while_it_matters() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let identity = Identity { boot_id: [1, 2], inode: 3, device: 4 };
    let look = || Shared::ensure_nobody_writes(&path, dir.path(), identity);
    look().unwrap();
    let other = attach(&path);
    assert!(matches!(look(), Err(Error::LockNotWritable { .. })));
    other.publish(Root { txn: TxnId(5), ..Root::default() }, true);
    drop(other);
    assert!(matches!(look(), Err(Error::NeedsRecovery { .. })));
    let other = attach(&path);
    other.publish(Root { txn: TxnId(5), ..Root::default() }, true);
    other.raise_steady(TxnId(5));
    drop(other);
    look().unwrap();
}

#[test]
fn a_claim_of_the_dead_is_released_and_holds_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (living, dying) = (attach(&path), attach(&path));
    living.unpin(living.pin(0, 1, false).unwrap().0);
    // It dies between claiming the other's slot and saying so.
    assert!(dying.claim(&dying.readers()[0]));
    let mut pins = Vec::new();
    living.pinned(&mut pins);
    assert_eq!(pins, []);
    assert!(living.reader_infos().is_empty());
    let dying = std::mem::ManuallyDrop::new(dying);
    dying.lose_process_slot();
    assert!(living.release_dead_readers());
    assert_eq!(living.pin(0, 1, false).unwrap().0.0, 0);
}

/// A snapshot that pinned a root without a second look whether that is still the newest would now
/// and then pin one that the writer, having looked at the pins in between, takes for unseen.
#[test]
fn a_writer_that_looks_at_the_pins_never_misses_one() {
    use std::sync::atomic::AtomicBool;

    for weak in [false, true] {
        let identity = Identity { boot_id: [1, 2], inode: 3, device: 4 };
        let shared = Shared::private(Path::new("private"), identity, 8).unwrap();
        shared.publish(Root { txn: TxnId(1), ..Root::default() }, true);
        // All before this one are nobody's any more.
        let oldest = AtomicU64::new(1);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pins = Vec::new();
                let mut txn = 1;
                while !stop.load(Ordering::Relaxed) {
                    txn += 1;
                    shared.publish(Root { txn: TxnId(txn), ..Root::default() }, true);
                    pins.clear();
                    shared.pinned(&mut pins);
                    let seen = pins.iter().map(|pin| pin.0).min().unwrap_or(txn).min(txn);
                    oldest.store(seen, Ordering::SeqCst);
                }
            });
            let mut hint = 0;
            for _ in 0..1_000_000 {
                let (id, root) = shared.pin(hint, 1, weak).unwrap();
                hint = Shared::hint(id);
                let oldest = oldest.load(Ordering::SeqCst);
                if root.txn.0 < oldest {
                    stop.store(true, Ordering::Relaxed);
                    panic!("root {} was pinned when all before {oldest} had been given up", root.txn.0);
                }
                shared.unpin(id);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Bug: ages were differences of times of day. Consequence: setting the clock made snapshots old,
/// and parked ones were evicted. Fix: a clock that nobody sets.
#[test]
fn the_age_of_a_snapshot_is_by_a_clock_that_nobody_sets() {
    use rustix::time::{ClockId, clock_gettime};
    let ms = |clock: ClockId| {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
    };
    let dir = tempfile::tempdir().unwrap();
    let shared = attach(&dir.path().join("lock"));
    shared.publish(Root { txn: TxnId(1), ..Root::default() }, true);
    let before = ms(ClockId::MonotonicCoarse);
    // Else the two could not be told apart here.
    assert!(ms(ClockId::Realtime).abs_diff(before) > 3_600_000);
    let (id, _) = shared.pin(0, 1, false).unwrap();
    let since = shared.readers()[id.0 as usize].since_ms.load(Ordering::Relaxed);
    assert!((before..=ms(ClockId::MonotonicCoarse)).contains(&since));
    assert!(shared.reader_infos()[0].age < Duration::from_secs(60));
}

/// What another sees is pinned only while the other has it for sure, and in a slot that the writer
/// looks at later.
#[test]
fn what_another_snapshot_sees_is_pinned_behind_it_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let (a, b) = (attach(&path), attach(&path));
    let catalog = Tree { root: PageId(77), depth: 3, ..Tree::default() };
    a.publish(Root { txn: TxnId(1 << 41), catalog, page_count: 1000, ..Root::default() }, true);
    let (first, _) = a.pin(0, 1, false).unwrap();
    let reader = a.reader_infos()[0];
    let pins = || {
        let mut pins = Vec::new();
        a.pinned(&mut pins);
        pins.len()
    };
    let (beside, root) = b.pin_beside(&reader, 2).unwrap();
    assert!(beside.0 > first.0);
    assert_eq!(
        (root.txn, root.catalog.root, root.catalog.depth, root.page_count),
        (TxnId(1 << 41), PageId(77), 3, 1000)
    );
    assert_eq!(pins(), 2);
    // From there another can do the same, and a parked one is as good.
    let reader_beside = a.reader_infos()[1];
    a.park(first);
    let more = [b.pin_beside(&reader, 2).unwrap().0, b.pin_beside(&reader_beside, 2).unwrap().0];
    more.into_iter().for_each(|id| b.unpin(id));
    assert!(a.evict(&ReaderInfo { parked: true, ..reader }));
    assert!(matches!(b.pin_beside(&reader, 2), Err(Error::Evicted { .. })));
    a.unpin(first);
    assert!(matches!(b.pin_beside(&reader, 2), Err(Error::Evicted { .. })));
    b.unpin(beside);
    assert_eq!(pins(), 0);
    // Somebody who has not yet found that the state is still there.
    let find = |_| {
        let looking = ReaderInfo { txn: TxnId(0), ..reader };
        assert!(matches!(b.pin_beside(&looking, 2), Err(Error::Evicted { .. })));
        assert_eq!(pins(), 1);
        Ok(a.root())
    };
    let (steady, root) = a.pin_steady(0, 1, find).unwrap();
    assert_eq!(steady.0, 0);
    // Who still looks at the free map does not say which root it has pinned.
    assert!(a.pins().iter().all(|pin| pin.txn == root.txn && pin.root.is_none()));
    assert!(matches!(b.pin_beside(&reader, 2), Err(Error::Evicted { .. })));
    a.release_map(steady, &root);
    let pins = a.pins();
    assert!(pins.len() == 1 && pins[0].root.is_some_and(|noted| noted.catalog.root == root.catalog.root));
    let (beside, root) = b.pin_beside(&reader, 2).unwrap();
    assert_eq!(root.page_count, 1000);
    b.unpin(beside);
    // The table's last slot has none behind it.
    let last = ReaderInfo { slot: 7, ..reader };
    assert!(matches!(b.pin_beside(&last, 2), Err(Error::ReadersFull { .. })));
}
