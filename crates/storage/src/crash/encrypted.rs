//! Histories of an encrypted database. The simulated disk lies below the encryption, so it loses and
//! tears sealed bytes: a page in one part, its entry in another.
//!
//! A process that is killed takes what it had in memory with it, so in the modes without a log its
//! commits since the last steady point are gone.

use super::*;

fn key() -> EncryptionKey {
    EncryptionKey::new([7; 32])
}

pub(super) fn inspect(wreck: &Wreck, states: &States, mode: Durability, rng: &mut StdRng) -> Counts {
    inspect_with_key(wreck, states, mode, rng, Some(key()))
}

#[test]
fn a_crash_of_an_encrypted_database_at_any_flush_loses_nothing_acknowledged() {
    if let Some(seed) = std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run_with_key(seed, None, Some(key()));
        return;
    }
    let mut counts = Counts::default();
    (0..60).for_each(|seed| counts += run_with_key(seed, None, Some(key())));
    println!("{counts:?}");
    assert!(counts.wrecks > 700 && counts.punches > 20, "the histories do not show what they are for: {counts:?}");
    assert!(counts.deaths > 20 && counts.refusals > 10 && counts.in_vain > 20, "nor do they show this: {counts:?}");
}

/// Where the kernel writes several pages as one, pages share such a piece with their neighbours'
/// entries.
#[test]
fn a_crash_loses_nothing_of_an_encrypted_database_where_the_kernel_maps_several_pages_as_one() {
    for granule in [16 << 10, 64 << 10] {
        for seed in 0..12 {
            println!("COLIBRI_SEED={seed}, {granule} bytes");
            let mut history = History::with_key(seed, None, Some(key()));
            history.on.disk.map_in(granule);
            for _ in 0..history.on.rng.random_range(1..150) {
                history.step();
            }
            history.end();
        }
    }
}

/// The campaign can fail: an engine that left out a flush would be found out.
#[test]
fn a_flush_left_out_is_noticed_under_encryption() {
    for left_out in [LeftOut::Log, LeftOut::Pages, LeftOut::Meta] {
        let noticed =
            |seed: &u64| std::panic::catch_unwind(|| run_with_key(*seed, Some(left_out), Some(key()))).is_err();
        assert!((0..100).any(|seed| noticed(&seed)), "{left_out:?} can be left out, and nobody notices");
    }
}

/// A page, its entry, or both torn in each sector: what is read is right, or damage is told.
#[test]
fn a_torn_page_is_damage_and_never_a_wrong_value() {
    const SECTOR: usize = 512;
    let disk = SimDisk::of_new_encrypted(1, u32::MAX, Some(&key()));
    let options = options(Durability::NoSync, FreeSpace::Lifo).encryption_key(key());
    let db = disk.open(&options).expect("a new database opens");
    let fill = |value: u8| {
        let mut txn = db.write().expect("a transaction");
        let table = txn.create_table("table", TableKind::Plain).expect("the table");
        for key in 0..200_u32 {
            txn.put(&table, &key.to_be_bytes(), &[value; 300]).expect("a put");
        }
        txn.commit().expect("a commit");
        db.sync().expect("a steady point");
        disk.durable()
    };
    fill(1);
    fill(2);
    let before = fill(3);
    let after = fill(4);
    let mut damaged = 0;
    for sector in (2 * 4096 / SECTOR)..after.sectors(SECTOR) {
        // One sector is as it was before the last steady point, or was never written.
        for torn in [after.with_sector_of(&before, sector, SECTOR), after.with_zeros(sector, SECTOR)] {
            let db = SimDisk::of_wreck(&torn, 1).open(&options).expect("the meta pages are intact");
            let report = db.check().expect("a check");
            let snapshot = db.read().expect("a snapshot");
            let read = (0..200_u32).try_for_each(|key| -> Result<()> {
                let table = snapshot.table("table")?;
                let value = snapshot.get(&table, &key.to_be_bytes())?;
                assert_eq!(value, Some(&[4; 300][..]), "sector {sector}, key {key}");
                Ok(())
            });
            if let Err(e) = read {
                assert!(matches!(e, Error::Corrupted { .. }), "{e}");
                assert!(!report.is_clean(), "sector {sector}: {e}, which the check has not found");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 100, "{damaged} of the torn sectors matter");
}

/// Whoever reads the disk below the encryption finds nothing of what was stored, at no moment.
#[test]
fn the_disk_sees_nothing_plain() {
    const MARK: &[u8; 16] = b"a value to find ";
    for mode in MODES {
        let disk = SimDisk::of_new_encrypted(1, 3, Some(&key()));
        let options = options(mode, FreeSpace::Lifo).encryption_key(key());
        let db = disk.open(&options).expect("a new database opens");
        for round in 0..8_u32 {
            let mut txn = db.write().expect("a transaction");
            let table = txn.create_table("a table to find ", TableKind::Plain).expect("the table");
            for key in 0..30_u32 {
                let name = [MARK, &(key * round).to_be_bytes()[..]].concat();
                txn.put(&table, &name, &MARK.repeat(1 + (key * 8) as usize)).expect("a put");
            }
            txn.commit().expect("a commit");
            if round % 3 == 0 {
                db.sync().expect("a steady point");
            }
        }
        disk.crash();
        db.close().expect("closing");
        disk.crash();
        let wrecks = disk.take_wrecks();
        assert!(wrecks.len() > 2);
        for wreck in wrecks {
            assert!(!wreck.holds(MARK) && !wreck.holds(b"a table to find "), "{mode:?}");
        }
    }
}
