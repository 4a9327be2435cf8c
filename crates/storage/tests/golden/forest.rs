//! Branches by the document: which there are, and that each page has one owner.

use std::collections::BTreeMap;

use super::{ByDocument, TreeFields, check_tables, expected_of, u16_at, u32_at, u64_at};

/// The tables of a forest, and which of them have entries in the golden files.
const TABLES: [(&[u8], bool); 5] =
    [(b"above", true), (b"branches", true), (b"forks", true), (b"names", true), (b"reaping", false)];

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Reads all branches, the main one with the catalogue at `catalog`, and compares what is in them.
/// How many branch pages their trees take.
#[track_caller]
pub(super) fn check_branches(reader: &mut ByDocument<'_>, catalog: TreeFields, page: u32, state: &str) -> u64 {
    assert_eq!(page > 0, reader.version >= 3, "branches belong into it");
    let version = reader.version;
    if page == 0 {
        let catalog = reader.tree(catalog);
        return check_tables(reader, &catalog, &expected_of(version, state)["main"]);
    }
    let count = u16_at(reader.bytes, page as usize * super::PAGE + 24) as u64;
    let tables = reader.tree(TreeFields(page, 1, [count, 1, 0, 0]));
    let mut entries = BTreeMap::new();
    for ((name, description), (expected, has_entries)) in tables.iter().zip(TABLES) {
        assert_eq!((name.as_slice(), description.len(), description[..8] == [0; 8]), (expected, 48, true));
        let found = reader.tree(TreeFields::at(description, 8));
        assert_eq!(!found.is_empty(), has_entries, "{}", name.escape_ascii());
        entries.insert(expected, found);
    }
    assert_eq!(tables.len(), TABLES.len());
    let mut above = Vec::new();
    // The state below comes first: it has the smaller number.
    for (key, value) in &entries[&b"forks"[..]] {
        let (fork, below) = (number(key), u64_at(value, 0));
        assert!(value.len() == 48 && below < fork && fork <= reader.txn);
        if below > 0 {
            above.push([&below.to_be_bytes()[..], &[1], key].concat());
        }
        reader.fork = below;
        for (_, description) in reader.tree(TreeFields::at(value, 8)) {
            reader.tree(TreeFields::at(&description, 8));
        }
    }
    let mut names = Vec::new();
    let mut branch_pages = 0;
    for (key, value) in &entries[&b"branches"[..]] {
        let (branch, fork, origin) = (number(key), u64_at(value, 8), u64_at(value, 16));
        let name = if branch == 0 { b"main" } else { &value[64..] };
        assert!(value[..8] == [0; 8] && origin <= branch && fork > 0 && (branch > 0 || value.len() == 64));
        above.push([&fork.to_be_bytes()[..], &[0], key].concat());
        if branch > 0 {
            names.push((name.to_vec(), branch.to_le_bytes().to_vec()));
        }
        reader.fork = fork;
        let found = reader.tree(if branch == 0 { catalog } else { TreeFields::at(value, 24) });
        let name = std::str::from_utf8(name).unwrap();
        branch_pages += check_tables(reader, &found, &expected_of(version, state)[name]);
    }
    above.sort();
    names.sort();
    assert_eq!(entries[&b"above"[..]].iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), above);
    assert!(entries[&b"names"[..]] == names);
    reader.fork = 0;
    assert_eq!(u32_at(&tables[0].1, 0), 0);
    branch_pages
}
