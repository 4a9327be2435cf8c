//! Tables as text and back, in the format of LMDB's `mdb_dump` and `mdb_load` (which is Berkeley
//! DB's).
//!
//! ```text
//! VERSION=3              one section a table; sections follow one another
//! format=bytevalue       or "print", which is read but not written
//! database=birds         missing for LMDB's main database, which has no name
//! type=btree
//! mapsize=1048576        room `mdb_load` sets aside; read for plausibility only
//! duplicates=1           many values a key
//! dupsort=1              the same, in the word that `mdb_load` knows
//! integerkey=1           keys are little-endian integers of 4 or 8 bytes
//! colibri=multi          only in our own dumps: the table's kind
//! colibriname=615c62     the same: the name in hexadecimal, where it has backslashes or characters that are not printable
//! HEADER=END
//!  6b6579                a space, the key
//!  76616c7565            a space, the value
//! DATA=END
//! ```
//!
//! Invariants
//! - What [`dump`] writes, [`load`] reads back to the same tables, kinds, keys and values.
//!   `mdb_load` reads it too; a table of integers becomes one with `MDB_INTEGERKEY` on a
//!   little-endian machine. The name after `database=` is the name itself, as `mdb_load` takes it.
//!   Only a line's end and a zero byte cannot stand there, and are escaped as in "print". Dumps of
//!   earlier versions escape other bytes in it too: there, it is not said again in hexadecimal.
//! - [`load`] is one transaction: it loads the whole input or changes nothing.
//! - Whatever bytes the input holds, the outcome is a table or an error that names the line.
//!
//! What it deliberately does not do: guess. A dump from a big-endian machine, or one of `mdb_dump
//! -p` before LMDB 0.9.25 with backslashes in the data, is refused where it can be told, not
//! repaired.

mod parse;

use std::collections::BTreeSet;
use std::io::{BufRead, BufWriter, Write};

use self::parse::{Header, Parser};
use crate::{Database, Error, Result, Snapshot, Table, TableKind, WriteTxn};

/// The table that LMDB's unnamed main database goes to unless [`LoadOptions::table`] says
/// otherwise.
const TABLE_DEFAULT: &str = "main";
/// `mdb_load` takes the map's size from the dump and cannot grow it, so this much is added to what
/// is needed.
const MAP_BYTES_SPARE: u64 = 16 << 20;

/// Options for [`load`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The table for a database without a name, which is what `mdb_dump` without `-a` and `-s`
    /// writes. `"main"` if left out. Databases with a name go to the table of that name.
    pub table: Option<String>,
}

impl LoadOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The table for a database without a name.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }
}

/// What [`load`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// How many tables the input had.
    pub tables: u64,
    /// How many entries (key-value pairs) it had.
    pub entries: u64,
    /// What the owner of the data should know: an order that is different here, a dump that seems
    /// to lack what was meant. Sentences, without a full stop.
    pub notes: Vec<String>,
}

/// Writes `tables` of `snapshot` to `out` as text, in the order given; all of them by name if
/// `None`.
///
/// A database without tables has an empty dump. `out` is written in large pieces and flushed at the
/// end.
///
/// # Errors
/// [`Error::NoSuchTable`] before anything is written; [`Error::Io`] if `out` fails;
/// [`Error::Corrupted`] when a page cannot be read, and then the text ends without `DATA=END`.
pub fn dump(snapshot: &Snapshot, tables: Option<&[&str]>, out: &mut dyn Write) -> Result<()> {
    let tables = match tables {
        Some(names) => names.iter().map(|name| snapshot.table(name)).collect::<Result<Vec<_>>>()?,
        None => snapshot.tables()?,
    };
    let map_bytes = map_bytes_for(snapshot, &tables)?;
    let mut out = BufWriter::with_capacity(64 << 10, out);
    for table in &tables {
        dump_table(snapshot, table, map_bytes, &mut out)?;
    }
    out.flush().map_err(write_failed)
}

/// Loads a text that [`dump`] or LMDB's `mdb_dump` wrote, in one transaction: all of it or nothing.
///
/// Missing tables are created. An entry whose key exists already replaces it; in a table with many
/// values a key it is added. A database of LMDB with `MDB_DUPSORT` becomes [`TableKind::Multi`],
/// one with `MDB_INTEGERKEY` becomes [`TableKind::Integer`] with its keys widened to 8 bytes; one
/// with both becomes `Multi` with such keys.
///
/// # Errors
/// [`Error::InvalidDump`] with the line where the text breaks the format or holds a key or value
/// that the table cannot take; [`Error::Io`] if `input` fails; and whatever a write transaction may
/// return.
pub fn load(db: &Database, input: &mut dyn BufRead, options: &LoadOptions) -> Result<LoadReport> {
    let mut parser = Parser::new(input);
    // The first header comes before the transaction, so that no other writer waits for an input
    // that is slow to start or no dump at all.
    let mut next = parser.next_header()?;
    if next.is_none() {
        return Err(Error::InvalidDump { line: 1, reason: "the input is empty".to_owned() });
    }
    let mut loader = Loader { txn: db.write()?, options, names: BTreeSet::new(), report: LoadReport::default() };
    while let Some(header) = next {
        loader.load_section(&header, &mut parser)?;
        next = parser.next_header()?;
    }
    loader.txn.commit()?;
    Ok(loader.report)
}

fn write_failed(source: std::io::Error) -> Error {
    Error::io("cannot write", "the dump", source)
}

/// A map size with which `mdb_load` can hold `tables`: their pages here, twice, and some to spare.
fn map_bytes_for(snapshot: &Snapshot, tables: &[Table]) -> Result<u64> {
    let mut pages = 0;
    for table in tables {
        let stat = snapshot.view(table)?.stat();
        pages += stat.leaf_pages + stat.branch_pages + stat.overflow_pages;
    }
    Ok(pages * u64::from(snapshot.page_size()) * 2 + MAP_BYTES_SPARE)
}

fn dump_table(snapshot: &Snapshot, table: &Table, map_bytes: u64, out: &mut dyn Write) -> Result<()> {
    out.write_all(header_of(table, map_bytes).as_bytes()).map_err(write_failed)?;
    let mut text = Vec::new();
    for entry in snapshot.view(table)?.range(..)? {
        let (mut key, value) = entry?;
        if table.kind() == TableKind::Integer {
            key.reverse();
        }
        text.clear();
        push_hex_line(&key, &mut text);
        push_hex_line(&value, &mut text);
        out.write_all(&text).map_err(write_failed)?;
    }
    out.write_all(b"DATA=END\n").map_err(write_failed)
}

fn header_of(table: &Table, map_bytes: u64) -> String {
    let name = table.name();
    let (flags, kind) = match table.kind() {
        TableKind::Plain => ("", "plain"),
        TableKind::Multi => ("duplicates=1\ndupsort=1\n", "multi"),
        TableKind::Integer => ("integerkey=1\n", "integer"),
    };
    let exact = if name.contains(|c: char| c == '\\' || c.is_ascii_control()) {
        let mut hex = Vec::with_capacity(2 * name.len());
        push_hex(name.as_bytes(), &mut hex);
        format!("colibriname={}\n", String::from_utf8_lossy(&hex))
    } else {
        String::new()
    };
    let name = name_in_line(name);
    format!(
        "VERSION=3\nformat=bytevalue\ndatabase={name}\ntype=btree\nmapsize={map_bytes}\n{flags}colibri={kind}\n{exact}HEADER=END\n"
    )
}

/// A name without what would end its line, or end it for `mdb_load`.
fn name_in_line(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '\n' | '\0' => text.push_str(&format!("\\{:02x}", u32::from(character))),
            _ => text.push(character),
        }
    }
    text
}

fn push_hex(bytes: &[u8], text: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
}

fn push_hex_line(bytes: &[u8], text: &mut Vec<u8>) {
    text.push(b' ');
    push_hex(bytes, text);
    text.push(b'\n');
}

/// A load under way.
struct Loader<'a> {
    txn: WriteTxn,
    options: &'a LoadOptions,
    names: BTreeSet<String>,
    report: LoadReport,
}

impl Loader<'_> {
    fn load_section(&mut self, header: &Header, parser: &mut Parser<'_>) -> Result<()> {
        let name = match (&header.name, &self.options.table) {
            (Some(name), _) | (None, Some(name)) => name.as_str(),
            (None, None) => TABLE_DEFAULT,
        };
        let kind = kind_of(header);
        let table = self.txn.create_table(name, kind).map_err(|error| match error {
            Error::TableExists { name, kind: existing } => {
                let reason = format!("table {name:?} is {existing} here, but is {kind} in the dump");
                Error::InvalidDump { line: header.line, reason }
            }
            error => at_line(error, header.line),
        })?;
        self.note_order(header, name);

        let integer_key = header.integer_key || kind == TableKind::Integer;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut key_last = None;
        let mut sub_databases = 0_u64;
        // Dumps come in order, and appending is cheaper than looking for the place; it fails once
        // where the table has entries already or the order was another one.
        let mut append = true;
        while parser.next_entry(header, &mut key, &mut value)? {
            let line_key = parser.line() - 1;
            if integer_key {
                let number = integer_of(&key, line_key)?;
                if key_last > Some(number) {
                    return Err(out_of_order(line_key));
                }
                key_last = Some(number);
                key.clear();
                key.extend_from_slice(&number.to_be_bytes());
            } else if header.name.is_none() && looks_like_sub_database(&value, header.map_bytes) {
                sub_databases += 1;
            }
            self.add(&table, &key, &value, &mut append).map_err(|error| at_line(error, line_key))?;
            self.report.entries += 1;
        }
        self.note_sub_databases(sub_databases, name);
        if self.names.insert(name.to_owned()) {
            self.report.tables += 1;
        }
        Ok(())
    }

    fn add(&mut self, table: &Table, key: &[u8], value: &[u8], append: &mut bool) -> Result<()> {
        if *append {
            match self.txn.append(table, key, value) {
                Err(Error::KeyNotInOrder) => *append = false,
                outcome => return outcome,
            }
        }
        self.txn.put(table, key, value)
    }

    fn note_order(&mut self, header: &Header, name: &str) {
        if header.reverse_key {
            self.report.notes.push(format!(
                "LMDB sorted the keys of {name:?} from their last byte (reversekey); here they are sorted from the first"
            ));
        }
        if header.foreign_value_order {
            self.report.notes.push(format!(
                "LMDB sorted the values of each key of {name:?} as integers or from their last byte; here they are \
                 sorted by their bytes"
            ));
        }
    }

    fn note_sub_databases(&mut self, count: u64, name: &str) {
        if count > 0 {
            self.report.notes.push(format!(
                "{count} entries of table {name:?} look like LMDB's own records of named databases, whose contents \
                 are not in this dump: `mdb_dump -a` writes them"
            ));
        }
    }
}

fn kind_of(header: &Header) -> TableKind {
    match header {
        Header { kind: Some(kind), .. } => *kind,
        Header { duplicates: true, .. } => TableKind::Multi,
        Header { integer_key: true, .. } => TableKind::Integer,
        _ => TableKind::Plain,
    }
}

/// The number a little-endian integer key stands for.
fn integer_of(key: &[u8], line: u64) -> Result<u64> {
    if let Ok(bytes) = <[u8; 8]>::try_from(key) {
        Ok(u64::from_le_bytes(bytes))
    } else if let Ok(bytes) = <[u8; 4]>::try_from(key) {
        Ok(u64::from(u32::from_le_bytes(bytes)))
    } else {
        let reason = format!("an integer key has 4 or 8 bytes; this one has {}", key.len());
        Err(Error::InvalidDump { line, reason })
    }
}

fn out_of_order(line: u64) -> Error {
    let reason = "integer keys must ascend, read as little-endian numbers; a dump from a big-endian machine cannot be \
                  loaded";
    Error::InvalidDump { line, reason: reason.to_owned() }
}

/// Whether `value` can be the record LMDB keeps of a named database in the main one. It is dumped
/// like data.
///
/// ```text
/// 0     4       6       8          16       24           32        40     48
/// | pad | flags | depth | branches | leaves | overflows  | entries | root |      little-endian
/// ```
fn looks_like_sub_database(value: &[u8], map_bytes: Option<u64>) -> bool {
    const PERSISTENT_FLAGS: u64 = 0x7e;
    const PAGE_BYTES_MIN: u64 = 512;
    const PAGE_NONE: u64 = u64::MAX;
    let Ok(record) = <&[u8; 48]>::try_from(value) else {
        return false;
    };
    let field = |at: usize, bytes: usize| {
        record[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let (flags, depth) = (field(4, 2), field(6, 2));
    let (branches, leaves, overflows, entries, root) =
        (field(8, 8), field(16, 8), field(24, 8), field(32, 8), field(40, 8));
    if flags & !PERSISTENT_FLAGS != 0 {
        return false;
    }
    if root == PAGE_NONE {
        return (depth, branches, leaves, overflows, entries) == (0, 0, 0, 0, 0);
    }
    let pages_max = map_bytes.unwrap_or(1 << 48) / PAGE_BYTES_MIN;
    (1..=32).contains(&depth)
        && leaves >= 1
        && entries >= 1
        && root >= 2
        && [branches, leaves, overflows, root].iter().all(|&pages| pages < pages_max)
}

/// Adds the line to an error that is about the input rather than the database.
fn at_line(error: Error, line: u64) -> Error {
    match error {
        Error::KeyTooLong { .. } | Error::TableName { bytes: 1.., .. } => {
            Error::InvalidDump { line, reason: format!("{error}; a database with larger pages takes longer keys") }
        }
        Error::KeyEmpty | Error::TableName { .. } | Error::ValueTooLong { .. } | Error::NotAnIntegerKey { .. } => {
            Error::InvalidDump { line, reason: error.to_string() }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
