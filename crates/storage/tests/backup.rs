//! Backups: a full one and those that add to it give back exactly what was there, and damage is
//! found.

#![allow(clippy::unwrap_used)]

mod ledger;

use std::io::Read;
use std::path::Path;

use colibri_storage::{BackupInfo, Database, Durability, Error, Options, restore, verify_backup};
use ledger::{assert_clean, commit_next, verify};

fn backup(db: &Database, since: Option<&BackupInfo>) -> (BackupInfo, Vec<u8>) {
    let mut bytes = Vec::new();
    let info = db.backup(since, &mut bytes).unwrap();
    assert_eq!(info.bytes, bytes.len() as u64);
    assert_eq!(verify_backup(&mut &bytes[..]).unwrap(), info);
    (info, bytes)
}

fn restored(backups: &[&[u8]], dir: &Path) -> Result<BackupInfo, Error> {
    let mut inputs: Vec<Box<dyn Read>> =
        backups.iter().map(|bytes| Box::new(std::io::Cursor::new(bytes.to_vec())) as Box<dyn Read>).collect();
    restore(&mut inputs, dir)
}

fn assert_restores(backups: &[&[u8]], state: u64) {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("restored");
    restored(backups, &target).unwrap();
    let db = Database::open(&target, &Options::new()).unwrap();
    assert_eq!(verify(&db.read().unwrap()), state);
    assert_clean(&db);
    assert_eq!(commit_next(&db).unwrap(), state + 1);
    db.close().unwrap();
}

#[test]
fn a_full_backup_and_incremental_ones_give_back_each_state() {
    for durability in [Durability::Sync, Durability::SyncNoLog, Durability::LAZY, Durability::NoSync] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new().durability(durability)).unwrap();
        (0..30).for_each(|_| _ = commit_next(&db).unwrap());
        let (full, full_bytes) = backup(&db, None);
        assert_eq!(full.since, None);
        commit_next(&db).unwrap();
        let (first, first_bytes) = backup(&db, Some(&full));
        assert_eq!(first.since, Some(full.txn));
        (0..50).for_each(|_| _ = commit_next(&db).unwrap());
        let (second, second_bytes) = backup(&db, Some(&first));
        let (nothing, nothing_bytes) = backup(&db, Some(&second));
        assert_eq!(nothing.pages, 0);
        assert_restores(&[&full_bytes], 30);
        assert_restores(&[&full_bytes, &first_bytes], 31);
        assert_restores(&[&full_bytes, &first_bytes, &second_bytes], 81);
        assert_restores(&[&full_bytes, &first_bytes, &second_bytes, &nothing_bytes], 81);
        // One that leaps over another.
        let (leap, leap_bytes) = backup(&db, Some(&full));
        assert_restores(&[&full_bytes, &leap_bytes], 81);
        assert_eq!(leap.txn, second.txn);
    }
}

/// A backup of what had changed since an empty one was refused as one that does not follow it:
/// transaction 0 stood for none.
#[test]
fn a_backup_of_an_empty_database_can_be_added_to() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new()).unwrap();
    let (empty, empty_bytes) = backup(&db, None);
    let (still_empty, still_empty_bytes) = backup(&db, Some(&empty));
    assert!(still_empty.adds_to(&empty));
    (0..5).for_each(|_| _ = commit_next(&db).unwrap());
    let (first, first_bytes) = backup(&db, Some(&empty));
    let (second, second_bytes) = backup(&db, Some(&first));
    assert!(first.adds_to(&empty) && second.adds_to(&first) && !second.adds_to(&empty));
    assert_restores(&[&empty_bytes, &still_empty_bytes], 0);
    assert_restores(&[&empty_bytes, &still_empty_bytes, &first_bytes, &second_bytes], 5);
}

#[test]
fn an_incremental_backup_costs_what_has_changed() {
    use colibri_storage::TableKind;
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Integer).unwrap();
    txn.load_sorted(&table, (0..100_000_u64).map(|n| (n.to_be_bytes(), [7; 50]))).unwrap();
    txn.commit().unwrap();
    let (full, _) = backup(&db, None);
    assert!(full.pages > 1000);
    let mut txn = db.write().unwrap();
    txn.put(&table, &500_u64.to_be_bytes(), b"changed").unwrap();
    txn.commit().unwrap();
    let (after, _) = backup(&db, Some(&full));
    assert!(after.pages < 10, "{after:?}");
}

#[test]
fn a_backup_is_of_one_state_while_a_writer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    commit_next(&db).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                commit_next(&db).unwrap();
            }
        });
        let mut before: Option<BackupInfo> = None;
        let mut chain: Vec<Vec<u8>> = Vec::new();
        for _ in 0..5 {
            let oldest = verify(&db.read().unwrap());
            let (info, bytes) = backup(&db, before.as_ref());
            let newest = verify(&db.read().unwrap());
            before = Some(info);
            chain.push(bytes);
            let parts: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
            let target = dir.path().join(format!("restored-{}", chain.len()));
            restored(&parts, &target).unwrap();
            let copy = Database::open(&target, &Options::new()).unwrap();
            let state = verify(&copy.read().unwrap());
            assert!((oldest..=newest).contains(&state), "{state} of {oldest} to {newest}");
            assert_clean(&copy);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
    });
}

/// Bug: a handle that only reads waited for a steady point of its own making. Consequence: no
/// backup of a database that another process writes to. Fix: a snapshot can be of the last steady
/// point.
#[test]
fn who_only_reads_backs_up_the_last_steady_point_while_another_writes() {
    let restless = Durability::Lazy { bytes: 40_000, period: std::time::Duration::from_millis(2) };
    for durability in [Durability::Sync, Durability::SyncNoLog, Durability::NoSync, restless] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(durability).log_bytes(64 << 10);
        let db = Database::open(dir.path(), &options).unwrap();
        (0..20).for_each(|_| _ = commit_next(&db).unwrap());
        db.sync().unwrap();
        commit_next(&db).unwrap();
        let reader = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
        let (first, first_bytes) = backup(&reader, None);
        assert!(first.txn >= colibri_storage::TxnId(20), "{first:?}");
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let state = commit_next(&db).unwrap();
                    if state.is_multiple_of(7) {
                        db.sync().unwrap();
                    }
                }
            });
            let (mut before, mut chain) = (first, vec![first_bytes]);
            for _ in 0..40 {
                let (info, bytes) = backup(&reader, Some(&before));
                assert!(info.txn >= before.txn);
                before = info;
                chain.push(bytes);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            writer.join().unwrap();
            let parts: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
            for length in [1, 2, 20, parts.len()] {
                let target = dir.path().join(format!("restored-{length}"));
                restored(&parts[..length], &target).unwrap();
                let copy = Database::open(&target, &Options::new()).unwrap();
                assert!(verify(&copy.read().unwrap()) >= 20);
                assert_clean(&copy);
            }
        });
    }
}

/// As the command does that backs up what a server has open: a handle of its own makes the steady
/// point.
#[test]
fn who_may_write_backs_up_all_that_another_handle_has_committed() {
    for durability in [Durability::Sync, Durability::SyncNoLog, Durability::LAZY, Durability::NoSync] {
        let dir = tempfile::tempdir().unwrap();
        let served = Database::open(dir.path(), &Options::new().durability(durability)).unwrap();
        let mine = Options::new().create(false);
        let other = match Database::open(dir.path(), &mine) {
            Err(Error::DurabilityDiffers { .. }) => {
                Database::open(dir.path(), &mine.durability(Durability::NoSync)).unwrap()
            }
            opened => opened.unwrap(),
        };
        let (mut chain, mut last) = (Vec::new(), None);
        for state in 1..=20 {
            assert_eq!(commit_next(&served).unwrap(), state);
            let (info, bytes) = backup(&other, last.as_ref());
            last = Some(info);
            chain.push(bytes);
            if state % 5 == 0 {
                assert_restores(&chain.iter().map(Vec::as_slice).collect::<Vec<_>>(), state);
            }
        }
        other.close().unwrap();
        assert_eq!(commit_next(&served).unwrap(), 21);
        assert_clean(&served);
    }
}

#[test]
fn backups_that_do_not_fit_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| Database::open(dir.path().join(name), &Options::new()).unwrap();
    let (db, other) = (open("one"), open("other"));
    (0..3).for_each(|_| _ = (commit_next(&db).unwrap(), commit_next(&other).unwrap()));
    let (full, full_bytes) = backup(&db, None);
    let (other_full, other_bytes) = backup(&other, None);
    commit_next(&db).unwrap();
    let (first, first_bytes) = backup(&db, Some(&full));
    commit_next(&db).unwrap();
    let (_, second_bytes) = backup(&db, Some(&first));
    let check = |backups: &[&[u8]], part: &str| {
        let target = dir.path().join("restored");
        let e = restored(backups, &target.join("below/it")).unwrap_err();
        assert!(e.to_string().contains(part), "{e}");
        assert!(!target.exists());
    };
    check(&[], "none to restore");
    check(&[&first_bytes], "not a full backup");
    check(&[&full_bytes, &second_bytes], "does not follow");
    check(&[&full_bytes, &other_bytes], "different databases");
    check(&[b"something else"], "too early");
    let mut sink = Vec::new();
    let e = db.backup(Some(&other_full), &mut sink).unwrap_err();
    assert!(matches!(e, Error::BackupMismatch { .. }), "{e}");
    let e = restored(&[&full_bytes], &dir.path().join("one")).unwrap_err();
    assert!(e.to_string().contains("over the database"), "{e}");
}

#[test]
fn damage_anywhere_in_a_backup_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new()).unwrap();
    commit_next(&db).unwrap();
    let (_, bytes) = backup(&db, None);
    for at in (0..bytes.len()).step_by(if cfg!(debug_assertions) { 211 } else { 1 }).chain(0..200) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        let e = verify_backup(&mut &damaged[..]).unwrap_err();
        assert!(matches!(e, Error::BackupDamaged { .. }), "byte {at}: {e}");
    }
    for length in (0..bytes.len()).step_by(509) {
        let e = verify_backup(&mut &bytes[..length]).unwrap_err();
        assert!(matches!(e, Error::BackupDamaged { .. }), "{length} bytes: {e}");
    }
}
