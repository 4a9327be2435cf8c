//! The key-value engine in a program: `cargo run --example key_value`.
//!
//! Two tables that change together, a snapshot that stays as it is while a writer goes on, ranges
//! in both directions, and counting without looking at what is counted.

use colibri::{Database, Options, Result, TableKind};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path(), &Options::new())?;

    // A write transaction changes everything or nothing; there is one at a time.
    let mut txn = db.write()?;
    let names = txn.create_table("names", TableKind::Plain)?;
    let sightings = txn.create_table("sightings", TableKind::Plain)?;
    for (code, name) in
        [("ALHU", "Allen's hummingbird"), ("ANHU", "Anna's hummingbird"), ("RUHU", "Rufous hummingbird")]
    {
        txn.put(&names, code.as_bytes(), name.as_bytes())?;
    }
    for (code, day) in [("ANHU", 3_u32), ("ANHU", 9), ("RUHU", 4), ("ANHU", 21)] {
        txn.put(&sightings, &key(code, day), b"garden")?;
    }
    txn.commit()?; // on disk when this returns

    // A snapshot sees one commit for as long as it lives, in any thread, whatever happens
    // meanwhile.
    let before = db.read()?;
    let mut txn = db.write()?;
    txn.delete_range(&sightings, &key("ANHU", 0)[..]..&key("ANHU", 10)[..])?;
    txn.commit()?;
    let after = db.read()?;

    let annas = |snapshot: &colibri::Snapshot| -> Result<Vec<u32>> {
        let (from, to) = (key("ANHU", 0), key("ANHU", u32::MAX));
        // Keys and values are bytes in place, in the order of the bytes; `.rev()` goes the other
        // way.
        let view = snapshot.view(&sightings)?;
        view.range(&from[..]..&to[..])?.rev().map(|entry| Ok(day_of(&entry?.0))).collect()
    };
    assert_eq!(annas(&before)?, [21, 9, 3]);
    assert_eq!(annas(&after)?, [21]);

    // Branches keep counts, so this takes as long as one look-up, however much lies in between.
    let view = before.view(&sightings)?;
    println!("{} sightings, {} of them of ANHU", view.len(), view.count(&b"ANHU"[..]..&b"ANHV"[..])?);
    println!("the first in the order of keys: day {}", day_of(&view.nth(0)?.expect("there are four").0));
    println!("RUHU is {}", String::from_utf8_lossy(after.get(&names, b"RUHU")?.expect("it was put there")));
    Ok(())
}

/// Sightings of a bird are beside each other, by day: big-endian numbers sort as bytes.
fn key(code: &str, day: u32) -> Vec<u8> {
    [code.as_bytes(), &day.to_be_bytes()].concat()
}

fn day_of(key: &[u8]) -> u32 {
    u32::from_be_bytes(key[key.len() - 4..].try_into().expect("four bytes"))
}

#[test]
fn it_runs() {
    main().expect("it runs to its end");
}
