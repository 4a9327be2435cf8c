//! The golden backups: a full one of the database that was closed, and one that adds what the one
//! that was cut off has changed since.

use std::fs;
use std::io::{Cursor, Read};

use colibri_storage::{BackupInfo, Database, Options, restore, verify_backup};

use super::forest::check_branches;
use super::{ByDocument, NEWEST, PAGE, TreeFields, VERSIONS, check_contents, copy_of, golden, u32_at, u64_at};

const FILES: [(&str, &str); 2] = [("full", "closed"), ("incremental", "crashed")];

fn make() -> [Vec<u8>; 2] {
    let mut since: Option<BackupInfo> = None;
    FILES.map(|(_, state)| {
        let dir = copy_of(NEWEST, state);
        let db = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
        let mut bytes = Vec::new();
        since = Some(db.backup(since.as_ref(), &mut bytes).unwrap());
        bytes
    })
}

fn backups(version: u32) -> [Vec<u8>; 2] {
    FILES.map(|(name, _)| fs::read(golden(version, "backups").join(name)).unwrap())
}

#[test]
#[ignore = "writes tests/data/golden-v3 anew, which is right only before version 3 is released"]
fn write_the_golden_backups_anew() {
    fs::create_dir_all(golden(NEWEST, "backups")).unwrap();
    for ((name, _), bytes) in FILES.iter().zip(make()) {
        fs::write(golden(NEWEST, "backups").join(name), bytes).unwrap();
    }
}

#[test]
fn golden_backups_give_back_what_they_were_made_of() {
    for version in VERSIONS {
        gives_back(version);
    }
}

#[track_caller]
fn gives_back(version: u32) {
    let backups = backups(version);
    let infos = backups.each_ref().map(|bytes| verify_backup(&mut &bytes[..]).unwrap());
    assert_eq!((infos[0].since, infos[1].since), (None, Some(infos[0].txn)));
    assert_eq!(infos[0].database_id, infos[1].database_id);
    for (count, (_, state)) in (1..).zip(FILES) {
        let dir = tempfile::tempdir().unwrap();
        let inputs = backups[..count].iter().map(|bytes| Box::new(Cursor::new(bytes.clone())) as Box<dyn Read>);
        let restored = restore(&mut inputs.collect::<Vec<_>>(), dir.path()).unwrap();
        assert_eq!(restored, infos[count - 1]);
        let db = Database::open(dir.path(), &Options::new().create(false)).unwrap();
        check_contents(&db, version, state);
    }
}

/// A backup of the earlier golden backup's database goes on from it.
#[test]
fn a_new_backup_adds_to_a_golden_one() {
    for version in VERSIONS {
        adds(version);
    }
}

#[track_caller]
fn adds(version: u32) {
    let full = &backups(version)[0];
    let info = verify_backup(&mut &full[..]).unwrap();
    let dir = copy_of(version, "crashed");
    let db = Database::open(dir.path(), &Options::new().create(false)).unwrap();
    let mut added = Vec::new();
    db.backup(Some(&info), &mut added).unwrap();
    let inputs = [full, &added].map(|bytes| Box::new(Cursor::new(bytes.clone())) as Box<dyn Read>);
    let restored = tempfile::tempdir().unwrap();
    restore(&mut Vec::from(inputs), restored.path()).unwrap();
    check_contents(&Database::open(restored.path(), &Options::new()).unwrap(), version, "crashed");
}

#[test]
fn this_build_still_writes_the_golden_backups() {
    assert!(make() == backups(NEWEST));
}

// ---- what the document says ----

#[test]
fn the_golden_backups_are_as_the_document_has_them() {
    for version in VERSIONS {
        are_as_the_document_has_them(version);
    }
}

#[track_caller]
fn are_as_the_document_has_them(version: u32) {
    let mut image = Vec::new();
    let mut txn_before = 0;
    for (bytes, (_, state)) in backups(version).iter().zip(FILES) {
        assert!(bytes.len() <= 160 << 10, "{} bytes", bytes.len());
        let data = fs::read(golden(version, state).join("data")).unwrap();
        let newest = [0, PAGE].into_iter().max_by_key(|&meta| u64_at(&data, meta + 8)).unwrap();
        assert_eq!(&bytes[..8], b"COLIBKUP");
        assert_eq!((u32_at(bytes, 8), u32_at(bytes, 12)), (version, 4096), "version, page size");
        assert_eq!(bytes[16..32], data[120..136], "database id");
        let (since, txn) = (u64_at(bytes, 32), u64_at(bytes, 40));
        assert_eq!((since, txn), (txn_before, u64_at(&data, newest + 8)), "since, transaction");
        let page_count = u32_at(bytes, 48) as usize;
        assert_eq!(page_count, u32_at(&data, newest + 48) as usize, "page count");
        assert_eq!(u32_at(bytes, 52), u32_at(&data, newest + 156), "forest");
        image.resize(page_count * PAGE, 0);
        let mut at = 96;
        let mut pages_before = 0;
        loop {
            let (first, pages) = (u32_at(bytes, at) as usize, u32_at(bytes, at + 4) as usize);
            at += 8;
            if (first, pages) == (0, 0) {
                break;
            }
            assert!(first >= 2 && first + pages <= page_count);
            let run = &bytes[at..at + pages * PAGE];
            assert!((since + 1..=txn).contains(&u64_at(run, 8)), "changed since, and by then");
            assert_eq!(u64_at(run, 0), xxhash_rust::xxh3::xxh3_64_with_seed(&run[8..], first as u64), "page {first}");
            image[first * PAGE..][..run.len()].copy_from_slice(run);
            at += run.len();
            pages_before += pages;
        }
        assert!(pages_before > 0);
        assert_eq!(u64_at(bytes, at), xxhash_rust::xxh3::xxh3_64(&bytes[..at]), "checksum");
        assert_eq!(bytes.len(), at + 8);
        let mut reader = ByDocument::of(version, &image, txn);
        check_branches(&mut reader, TreeFields::at(bytes, 56), u32_at(bytes, 52), state);
        txn_before = txn;
    }
}
