//! Encryption at rest: what is on disk says nothing without the key and is accepted only as it was
//! written; with the key it is a database like any other.

#![allow(clippy::unwrap_used)]

mod child;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use child::{Child, Role};
use colibri_storage::{
    BackupInfo, Database, Durability, EncryptionKey, Error, Options, TableKind, restore, restore_encrypted,
    verify_backup, verify_encrypted_backup,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const MARK: &[u8] = b"something to find";
const PAGE: u64 = 4096;

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::new([byte; 32])
}

fn options() -> Options {
    Options::new().encryption_key(key(1))
}

fn open(dir: &Path) -> Database {
    Database::open(dir, &options()).unwrap()
}

/// Puts values inside and outside of leaves, all of which hold the mark.
fn fill(db: &Database, round: u32) {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("something to find in names", TableKind::Plain).unwrap();
    for number in 0..100_u32 {
        let value = [&round.to_be_bytes()[..], &MARK.repeat(1 + (number * number / 20) as usize)].concat();
        txn.put(&table, &[MARK, &number.to_be_bytes()].concat(), &value).unwrap();
    }
    txn.commit().unwrap();
}

fn assert_filled(db: &Database, round: u32) {
    let snapshot = db.read().unwrap();
    let table = snapshot.table("something to find in names").unwrap();
    for number in 0..100_u32 {
        let value = snapshot.get(&table, &[MARK, &number.to_be_bytes()].concat()).unwrap().unwrap();
        let expected = [&round.to_be_bytes()[..], &MARK.repeat(1 + (number * number / 20) as usize)].concat();
        assert!(value == expected, "value {number}");
    }
}

fn assert_clean(db: &Database) {
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// The names of the files below a directory that hold the mark.
fn files_with_mark(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_mark(&path));
        } else if fs::read(&path).unwrap().windows(MARK.len()).any(|window| window == MARK) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Copies the files of a database as they are.
fn copy_files(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for name in ["data", "log.0", "log.1"] {
        let _ = fs::copy(from.join(name), to.path().join(name));
    }
    to
}

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    let durability = match role.name.as_str() {
        "sync" => Durability::Sync,
        "nosync" => Durability::NoSync,
        other => panic!("no such role: {other}"),
    };
    let db = Database::open(&role.dir, &options().durability(durability)).unwrap();
    fill(&db, 1);
    db.sync().unwrap();
    for round in 2.. {
        fill(&db, round);
        role.say(&round.to_string());
    }
}

#[test]
fn nothing_of_what_is_stored_is_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db"), &options().log_bytes(1 << 30)).unwrap();
    for round in 0..3 {
        fill(&db, round);
    }
    // The log holds all of it.
    assert!(fs::metadata(dir.path().join("db/log.0")).unwrap().len() >= 256 << 10);
    assert_eq!(files_with_mark(dir.path()), [""; 0]);
    db.sync().unwrap();
    fill(&db, 3);
    let mut backup = File::create(dir.path().join("backup")).unwrap();
    db.backup(None, &mut backup).unwrap();
    db.copy_to(dir.path().join("copy"), false).unwrap();
    db.copy_to(dir.path().join("compact"), true).unwrap();
    assert_eq!(files_with_mark(dir.path()), [""; 0]);
    drop(db);
    assert_eq!(files_with_mark(dir.path()), [""; 0]);
    for name in ["db", "copy", "compact"] {
        let db = open(&dir.path().join(name));
        assert!(db.is_encrypted());
        assert_filled(&db, 3);
        assert_clean(&db);
    }

    // The search finds what is plain.
    let plain = Database::open(dir.path().join("plain"), &Options::new()).unwrap();
    assert!(!plain.is_encrypted());
    fill(&plain, 0);
    assert!(!files_with_mark(dir.path()).is_empty());
}

#[test]
fn a_database_opens_with_its_key_only() {
    let dir = tempfile::tempdir().unwrap();
    let [encrypted, plain] = ["encrypted", "plain"].map(|name| dir.path().join(name));
    drop(open(&encrypted));
    drop(Database::open(&plain, &Options::new()).unwrap());
    for options in [Options::new(), Options::new().read_only(true)] {
        let opened = Database::open(&encrypted, &options);
        assert!(matches!(opened, Err(Error::KeyMissing { .. })), "{opened:?}");
        let opened = Database::open(&encrypted, &options.clone().encryption_key(key(2)));
        assert!(matches!(opened, Err(Error::WrongKey { .. })), "{opened:?}");
        let opened = Database::open(&plain, &options.clone().encryption_key(key(1)));
        assert!(matches!(opened, Err(Error::NotEncrypted { .. })), "{opened:?}");
    }
    assert_eq!(open(&encrypted).stat().unwrap().format_version, 5);
    assert_eq!(Database::open(&plain, &Options::new()).unwrap().stat().unwrap().format_version, 3);
}

#[test]
fn an_encrypted_database_is_open_once_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for options in [options(), options().read_only(true), options().durability(Durability::NoSync)] {
        let second = Database::open(dir.path(), &options);
        assert!(matches!(second, Err(Error::EncryptedInUse { .. })), "{second:?}");
    }
    fill(&db, 1);
    db.close().unwrap();
    let db = Database::open(dir.path(), &options().read_only(true)).unwrap();
    assert_filled(&db, 1);
}

#[test]
fn the_key_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    fill(&db, 1);
    let mut before = Vec::new();
    let full = db.backup(None, &mut before).unwrap();
    db.set_encryption_key(&key(2)).unwrap();
    // At once, also after a crash.
    let crashed = copy_files(dir.path());
    let opened = Database::open(crashed.path(), &options());
    assert!(matches!(opened, Err(Error::WrongKey { .. })), "{opened:?}");
    assert_filled(&Database::open(crashed.path(), &Options::new().encryption_key(key(2))).unwrap(), 1);
    fill(&db, 2);
    let mut after = Vec::new();
    db.backup(Some(&full), &mut after).unwrap();
    drop(db);
    assert!(matches!(Database::open(dir.path(), &options()), Err(Error::WrongKey { .. })));
    let db = Database::open(dir.path(), &Options::new().encryption_key(key(2))).unwrap();
    assert_filled(&db, 2);
    assert_clean(&db);

    // A backup has the key of its time.
    let to = tempfile::tempdir().unwrap();
    let inputs = || [before.clone(), after.clone()].map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read>);
    for keys in [&[key(1)], &[key(2)]] {
        let restored = restore_encrypted(&mut inputs(), to.path().join("failed"), keys);
        assert!(matches!(restored, Err(Error::WrongKey { .. })), "{restored:?}");
    }
    restore_encrypted(&mut inputs(), to.path().join("db"), &[key(1), key(2)]).unwrap();
    let restored = Database::open(to.path().join("db"), &Options::new().encryption_key(key(2))).unwrap();
    assert_filled(&restored, 2);

    let plain = Database::open(to.path().join("plain"), &Options::new()).unwrap();
    assert!(matches!(plain.set_encryption_key(&key(1)), Err(Error::NotEncrypted { .. })));
}

/// While the key is being replaced, a crash may come between the two meta pages.
#[test]
fn a_database_whose_key_was_replaced_half_way_opens_with_both_keys() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    fill(&db, 1);
    db.sync().unwrap();
    let before = copy_files(dir.path());
    db.set_encryption_key(&key(2)).unwrap();
    let after = copy_files(dir.path());
    for slot in 0..2 {
        // The one meta page as it was, the other as it is now.
        let mut page = vec![0; PAGE as usize];
        let torn = copy_files(after.path());
        File::open(before.path().join("data")).unwrap().read_exact_at(&mut page, slot * PAGE).unwrap();
        let file = File::options().write(true).open(torn.path().join("data")).unwrap();
        file.write_all_at(&page, slot * PAGE).unwrap();
        for key in [key(1), key(2)] {
            let torn = copy_files(torn.path());
            let options = Options::new().encryption_key(key);
            let db = Database::open(torn.path(), &options).unwrap();
            assert_filled(&db, 1);
            fill(&db, 2);
            drop(db);
            // From then on it is the one that opened it.
            assert_filled(&Database::open(torn.path(), &options).unwrap(), 2);
        }
    }
}

#[test]
fn backups_are_encrypted_and_give_back_an_encrypted_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    fill(&db, 1);
    let mut backups = vec![Vec::new()];
    let mut last: BackupInfo = db.backup(None, &mut backups[0]).unwrap();
    for round in 2..5 {
        fill(&db, round);
        let mut bytes = Vec::new();
        last = db.backup(Some(&last), &mut bytes).unwrap();
        backups.push(bytes);
    }
    let inputs =
        || backups.iter().map(|bytes| Box::new(Cursor::new(bytes.clone())) as Box<dyn Read>).collect::<Vec<_>>();
    let to = |name: &str| dir.path().join(name);
    assert!(matches!(verify_backup(&mut &backups[0][..]), Err(Error::KeyMissing { .. })));
    assert!(matches!(verify_encrypted_backup(&mut &backups[0][..], &[key(2)]), Err(Error::WrongKey { .. })));
    assert_eq!(verify_encrypted_backup(&mut &backups[3][..], &[key(1)]).unwrap(), last);
    assert!(matches!(restore(&mut inputs(), to("failed")), Err(Error::KeyMissing { .. })));
    assert_eq!(restore_encrypted(&mut inputs(), to("restored"), &[key(1)]).unwrap(), last);
    let restored = open(&to("restored"));
    assert_filled(&restored, 4);
    assert_clean(&restored);

    // A plain backup has no key, and does not mix with encrypted ones.
    let plain = Database::open(to("plain"), &Options::new()).unwrap();
    let mut bytes = Vec::new();
    plain.backup(None, &mut bytes).unwrap();
    let restored = restore_encrypted(&mut [Box::new(Cursor::new(bytes.clone()))], to("failed"), &[key(1)]);
    assert!(matches!(restored, Err(Error::NotEncrypted { .. })), "{restored:?}");
    let mixed: [Vec<u8>; 2] = [bytes, backups[1].clone()];
    let mut mixed = mixed.map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read>);
    assert!(restore_encrypted(&mut mixed, to("failed"), &[key(1)]).is_err());
    assert!(!to("failed").exists());
}

#[test]
fn a_changed_bit_of_a_backup_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    fill(&db, 1);
    let mut bytes = Vec::new();
    db.backup(None, &mut bytes).unwrap();
    let mut rng = StdRng::seed_from_u64(1);
    for round in 0..200 {
        let at = if round < 100 { round * 2 } else { rng.random_range(0..bytes.len()) };
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.random_range(0..8);
        let verified = verify_encrypted_backup(&mut &damaged[..], &[key(1)]);
        // In the header it may be the key that does not fit, or no encryption that is known.
        assert!(verified.is_err(), "byte {at}");
    }
}

/// What every key has to be at the end of a history, and a check of all of it.
#[test]
fn a_random_history_over_an_encrypted_database_agrees_with_a_model() {
    for (seed, page_size) in [(1, 4096), (2, 4096), (3, 16384)] {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let modes = [Durability::Sync, Durability::SyncNoLog, Durability::LAZY, Durability::NoSync];
        let mut model: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for _ in 0..12 {
            let mode = modes[rng.random_range(0..4)];
            let options = options().durability(mode).page_size(page_size).log_bytes(64 << 10);
            let db = Database::open(dir.path(), &options).unwrap();
            for _ in 0..30 {
                let mut txn = db.write().unwrap();
                let table = txn.create_table("table", TableKind::Plain).unwrap();
                for _ in 0..rng.random_range(1..40) {
                    let number = rng.random_range(0..2_000_u32);
                    if rng.random_bool(0.7) {
                        let bytes = [20, 300, 3_000, 40_000][rng.random_range(0..4)];
                        let value = vec![rng.random(); rng.random_range(0..bytes)];
                        txn.put(&table, &number.to_be_bytes(), &value).unwrap();
                        model.insert(number, value);
                    } else {
                        assert_eq!(txn.delete(&table, &number.to_be_bytes()).unwrap(), model.remove(&number).is_some());
                    }
                }
                txn.commit().unwrap();
            }
            if rng.random_bool(0.3) {
                db.compact(|_| std::ops::ControlFlow::Continue(())).unwrap();
            }
            let snapshot = db.read().unwrap();
            let table = snapshot.table("table").unwrap();
            let found: BTreeMap<u32, Vec<u8>> = snapshot
                .view(&table)
                .unwrap()
                .range(..)
                .unwrap()
                .map(|entry| entry.unwrap())
                .map(|(key, value)| (u32::from_be_bytes(key[..].try_into().unwrap()), value.to_vec()))
                .collect();
            assert!(found == model);
            drop(snapshot);
            assert_clean(&db);
        }
    }
}

#[test]
fn branches_of_an_encrypted_database_are_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    fill(&db, 1);
    let branch = db.branch("trial").unwrap();
    fill(&branch, 2);
    assert_filled(&db, 1);
    drop(branch);
    drop(db);
    assert_eq!(files_with_mark(dir.path()), [""; 0]);
    let db = open(dir.path());
    assert_filled(&db.open_branch("trial").unwrap(), 2);
    assert_filled(&db, 1);
    assert_clean(&db);
}

/// Reads everything; what it gives is right, or an error.
fn read_all(db: &Database, round: u32) -> Result<(), Error> {
    let snapshot = db.read()?;
    let table = snapshot.table("something to find in names")?;
    for number in 0..100_u32 {
        let value = snapshot.get(&table, &[MARK, &number.to_be_bytes()].concat())?.unwrap();
        assert!(value == [&round.to_be_bytes()[..], &MARK.repeat(1 + (number * number / 20) as usize)].concat());
    }
    Ok(())
}

/// A bit in each page of the file, of whatever kind: meta pages, entries, pages of trees, large
/// values and the free map.
#[test]
fn a_changed_bit_of_any_page_is_damage_and_never_a_wrong_value() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    (1..4).for_each(|round| fill(&db, round));
    db.close().unwrap();
    let mut rng = StdRng::seed_from_u64(2);
    let pages = fs::metadata(dir.path().join("data")).unwrap().len() / PAGE;
    let (mut told, mut read) = (0, 0);
    for page in 0..pages {
        let damaged = copy_files(dir.path());
        let file = File::options().read(true).write(true).open(damaged.path().join("data")).unwrap();
        let at = page * PAGE + rng.random_range(0..PAGE);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << rng.random_range(0..8)], at).unwrap();
        let options = options().read_only(true);
        let db = Database::open(damaged.path(), &options).unwrap();
        match read_all(&db, 3) {
            Ok(()) => read += 1,
            Err(Error::Corrupted { .. }) => told += 1,
            Err(e) => panic!("page {page}: {e}"),
        }
        let report = db.check().unwrap();
        // A page that is free, or an entry of one, may have any bits.
        assert!(page > 1 || !report.is_clean(), "meta page {page}");
    }
    assert!(told > 20 && read > 2, "{told} told, {read} read");
}

/// Each page, whole and authentic, in the place of each of some others.
#[test]
fn pages_that_were_exchanged_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    (1..4).for_each(|round| fill(&db, round));
    db.close().unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    let pages = fs::metadata(dir.path().join("data")).unwrap().len() / PAGE;
    let mut told = 0;
    for _ in 0..60 {
        // All of the first group: page 2 has the entries of the 128 pages behind it.
        let [one, other] = [0, 1].map(|_| rng.random_range(3..pages.min(131)));
        let damaged = copy_files(dir.path());
        let file = File::options().read(true).write(true).open(damaged.path().join("data")).unwrap();
        let read = |at, bytes: usize| {
            let mut buffer = vec![0; bytes];
            file.read_exact_at(&mut buffer, at).unwrap();
            buffer
        };
        let entry_at = |page: u64| 2 * PAGE + (page - 3) * 32;
        let (page, entry) = (read(one * PAGE, PAGE as usize), read(entry_at(one), 32));
        file.write_all_at(&page, other * PAGE).unwrap();
        file.write_all_at(&entry, entry_at(other)).unwrap();
        let db = Database::open(damaged.path(), &options().read_only(true)).unwrap();
        match read_all(&db, 3) {
            Ok(()) => {}
            Err(Error::Corrupted { .. }) => told += 1,
            Err(e) => panic!("{one} in place of {other}: {e}"),
        }
    }
    assert!(told > 10, "{told}");
}

/// Damage that comes while the database is open, to pages that were read before.
#[test]
fn a_check_reads_the_file_and_not_only_memory() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    fill(&db, 1);
    db.sync().unwrap();
    assert_filled(&db, 1);
    assert_clean(&db);
    let file = File::options().read(true).write(true).open(dir.path().join("data")).unwrap();
    let pages = file.metadata().unwrap().len() / PAGE;
    for page in 3..pages {
        file.write_all_at(&[0xA5; 16], page * PAGE + 100).unwrap();
    }
    assert!(!db.check().unwrap().is_clean());
}

/// The last record may be torn, and is then none; a changed bit ends the log there, as in a plain
/// database. A record with matching checksums that is not what was encrypted is damage.
#[test]
fn a_changed_bit_of_the_log_is_never_a_wrong_value() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &options().log_bytes(1 << 30)).unwrap();
    let put = |number: u32| {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        txn.put(&table, &number.to_be_bytes(), &number.to_be_bytes().repeat(50)).unwrap();
        txn.commit().unwrap();
    };
    (0..50).for_each(put);
    let crashed = copy_files(dir.path());
    let log = fs::read(crashed.path().join("log.0")).unwrap();
    let used = log.iter().rposition(|&byte| byte != 0).unwrap();
    let mut rng = StdRng::seed_from_u64(4);
    let mut counts = Vec::new();
    for _ in 0..60 {
        let damaged = copy_files(crashed.path());
        let mut bytes = log.clone();
        bytes[rng.random_range(0..used)] ^= 1 << rng.random_range(0..8);
        fs::write(damaged.path().join("log.0"), bytes).unwrap();
        let db = Database::open(damaged.path(), &options()).unwrap();
        let snapshot = db.read().unwrap();
        let Ok(table) = snapshot.table("table") else { continue };
        let count = snapshot.view(&table).unwrap().count(..).unwrap();
        for number in 0..count as u32 {
            let value = snapshot.get(&table, &number.to_be_bytes()).unwrap();
            assert_eq!(value, Some(&number.to_be_bytes().repeat(50)[..]));
        }
        counts.push(count);
    }
    assert!(counts.iter().any(|&count| count > 30) && counts.iter().all(|&count| count <= 50), "{counts:?}");

    // Whoever changes a record and its checksum, which is no secret, is found out.
    let mut bytes = log;
    let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    bytes[40] ^= 1;
    // The first record follows the start of the chain, which a meta page has.
    let data = fs::read(crashed.path().join("data")).unwrap();
    let chains = [0, PAGE as usize].map(|at| u64::from_le_bytes(data[at + 144..at + 152].try_into().unwrap()));
    let mut found = 0;
    for chain in chains {
        let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[8..length], chain);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        let forged = copy_files(crashed.path());
        fs::write(forged.path().join("log.0"), &bytes).unwrap();
        found += u32::from(matches!(Database::open(forged.path(), &options()), Err(Error::CorruptedLog { .. })));
    }
    assert!(found > 0);
}

/// Killed by SIGKILL, again and again: in `Sync` nothing that was acknowledged is gone, in `NoSync`
/// what is there is a state that was.
#[test]
fn a_killed_process_leaves_what_is_durable() {
    for (role, rounds) in [("sync", 4), ("nosync", 4)] {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..rounds {
            let mut child = Child::start(role, dir.path());
            let mut last: u32 = 1;
            for _ in 0..5 {
                last = child.hear().parse().unwrap();
            }
            child.kill();
            let db = open(dir.path());
            let snapshot = db.read().unwrap();
            let table = snapshot.table("something to find in names").unwrap();
            let value = snapshot.get(&table, &[MARK, &0_u32.to_be_bytes()].concat()).unwrap().unwrap();
            let round = u32::from_be_bytes(value[..4].try_into().unwrap());
            drop(snapshot);
            assert_filled(&db, round);
            assert!(round >= if role == "sync" { last } else { 1 }, "{role}: {round} of {last}");
            assert_clean(&db);
        }
        assert_eq!(files_with_mark(dir.path()), [""; 0]);
    }
}

#[test]
fn a_temporary_database_may_be_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync).temporary(true);
    let path = dir.path().join("scratch");
    let db = Database::open(&path, &options.encryption_key(EncryptionKey::random().unwrap())).unwrap();
    fill(&db, 1);
    db.sync().unwrap();
    assert_filled(&db, 1);
    assert!(!path.exists());
}

#[test]
fn a_file_with_a_key_is_kept_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    fs::write(&path, "01".repeat(32) + "\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let read = EncryptionKey::from_file(&path);
    assert!(matches!(read, Err(Error::KeyFileOpen { mode: 0o640, .. })), "{read:?}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(EncryptionKey::from_file(&path).unwrap(), key(1));
    for wrong in ["", "01", "zz", &"01".repeat(31), &"01".repeat(33), &"0".repeat(1000)] {
        assert!(EncryptionKey::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert_eq!(EncryptionKey::parse(&[1; 32]).unwrap(), key(1));
    assert!(!format!("{:?}", key(1)).contains('1'));
}
