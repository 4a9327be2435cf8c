//! Put and delete.

use super::abi::{Code, KEY_BYTES_MAX, MdbVal, Result, put_flag};
use super::cursor::{CursorHandle, Standing};
use super::env::MAIN_DBI;
use super::label;
use super::names::{self, MARK};
use super::table::{Shape, Walk, damaged, mapped};
use super::txn::Txn;

/// The largest value in bytes.
const VALUE_BYTES_MAX: usize = 0xffff_ffff;

/// What a put did.
pub(crate) enum Put {
    /// The entry has this key in its table. With `MDB_RESERVE`: where the program puts the value.
    Done { tree_key: Vec<u8>, room: Option<MdbVal> },
    /// It was there already: its key in the table, and its value.
    Exists { tree_key: Vec<u8>, value: Option<MdbVal> },
}

struct Entry<'a> {
    dbi: u32,
    shape: Shape,
    key: &'a [u8],
    value: &'a [u8],
    /// With `MDB_RESERVE` the value has this size, and its bytes come later.
    size: usize,
    flags: u32,
}

impl Entry<'_> {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// Checks that a transaction may write such a key.
fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX { Err(Code::BAD_VALSIZE) } else { Ok(()) }
}

/// Stores a value under a key. `value` has `size` bytes, or none with `MDB_RESERVE`.
#[inline]
pub(crate) fn put(txn: &mut Txn, dbi: u32, key: &[u8], value: &[u8], size: usize, flags: u32) -> Result<Put> {
    txn.ensure_writing()?;
    check_key(key)?;
    txn.prepare_write(dbi)?;
    txn.flush_reserved(true)?;
    let state = txn.state(dbi)?;
    let (shape, has_named) = (state.shape, state.has_named);
    if size > if shape.is_multi() { KEY_BYTES_MAX } else { VALUE_BYTES_MAX } {
        return Err(Code::BAD_VALSIZE);
    }
    if shape.is_multi() && flags & put_flag::RESERVE != 0 {
        return Err(Code::INCOMPATIBLE);
    }
    if dbi == MAIN_DBI && has_named {
        refuse_named(txn, key, flags)?;
    }
    if let Err(full) = txn.ensure_room(dbi, key.len() + size) {
        txn.fail();
        return Err(full);
    }
    let entry = Entry { dbi, shape, key, value, size, flags };
    let done = match (shape.labels, shape.is_multi()) {
        (true, _) => put_labelled(txn, &entry),
        (false, true) => put_pair(txn, &entry),
        (false, false) => put_plain(txn, &entry),
    };
    if done.is_err() {
        note_failure(txn, &done);
    }
    done
}

/// After some errors nobody knows how much of a change was made.
fn note_failure<T>(txn: &mut Txn, result: &Result<T>) {
    if let Err(code) = result
        && !matches!(*code, Code::KEYEXIST | Code::NOTFOUND | Code::BAD_VALSIZE | Code::INCOMPATIBLE | Code::INVAL)
    {
        txn.fail();
    }
}

/// Entries that stand for named databases are not the program's to change.
fn refuse_named(txn: &mut Txn, key: &[u8], flags: u32) -> Result<()> {
    let is_named = txn.get_stored(MAIN_DBI, key)?.is_some_and(|stored| stored == MARK);
    match is_named {
        true if flags & put_flag::NOOVERWRITE != 0 => Err(Code::KEYEXIST),
        true => Err(Code::INCOMPATIBLE),
        false => Ok(()),
    }
}

fn put_plain(txn: &mut Txn, entry: &Entry<'_>) -> Result<Put> {
    let mut tree_key = Vec::with_capacity(entry.key.len());
    entry.shape.keys.turn_onto(entry.key, &mut tree_key);
    let table = txn.state(entry.dbi)?.db.table.clone();
    if entry.has(put_flag::NOOVERWRITE) || entry.has(put_flag::APPEND) {
        let is_append = entry.has(put_flag::APPEND);
        let write = txn.write()?;
        let there = match write.get(&table, &tree_key)? {
            Some(value) => Some(mapped(value)),
            // What is appended belongs behind the last entry.
            None if is_append && write.view(&table)?.count(tree_key.as_slice()..)? > 0 => {
                return Ok(Put::Exists { tree_key, value: None });
            }
            None => None,
        };
        if let Some(value) = there {
            let value = entry.has(put_flag::NOOVERWRITE).then_some(value);
            return Ok(Put::Exists { tree_key, value });
        }
    }
    if entry.has(put_flag::RESERVE) {
        let room = txn.reserve(entry.dbi, &tree_key, &[], entry.size)?;
        return Ok(Put::Done { tree_key, room: Some(room) });
    }
    let write = txn.write()?;
    if entry.has(put_flag::APPEND) {
        write.append(&table, &tree_key, entry.value)?;
    } else {
        write.put(&table, &tree_key, entry.value)?;
    }
    txn.changed();
    Ok(Put::Done { tree_key, room: None })
}

fn put_pair(txn: &mut Txn, entry: &Entry<'_>) -> Result<Put> {
    let shape = entry.shape;
    let mut tree_key = Vec::with_capacity(entry.key.len() + entry.value.len() + 8);
    shape.identity_onto(entry.key, &mut tree_key);
    let identity_len = tree_key.len();
    shape.values.turn_onto(entry.value, &mut tree_key);
    if entry.flags & (put_flag::NOOVERWRITE | put_flag::APPEND | put_flag::APPENDDUP) != 0
        && let Some(exists) = look_before_put(txn, entry, &tree_key[..identity_len])?
    {
        return Ok(exists);
    }
    let table = txn.state(entry.dbi)?.db.table.clone();
    let is_new = txn.write()?.insert(&table, &tree_key, &[])?;
    if is_new {
        txn.changed();
    } else if entry.has(put_flag::NODUPDATA) {
        return Ok(Put::Exists { tree_key, value: None });
    }
    Ok(Put::Done { tree_key, room: None })
}

/// Whether flags forbid a pair because of the entries that are there.
fn look_before_put(txn: &mut Txn, entry: &Entry<'_>, identity: &[u8]) -> Result<Option<Put>> {
    let Some(mut walk) = txn.walk(entry.dbi)? else { return Ok(None) };
    let shape = entry.shape;
    let exists = |walk: &Walk, value| Ok(Some(Put::Exists { tree_key: walk.tree_key().to_vec(), value }));
    if entry.has(put_flag::NOOVERWRITE) && walk.seek_first_of(identity)? && walk.has_identity(identity)? {
        let value = walk.value(&mut txn.arena)?;
        return exists(&walk, Some(value));
    }
    if entry.has(put_flag::APPEND) && walk.seek_first_of(identity)? {
        // The key, or a later one, is there.
        return exists(&walk, None);
    }
    if entry.has(put_flag::APPENDDUP) && walk.seek_last_of(identity)? && walk.has_identity(identity)? {
        let mut last = Vec::new();
        walk.value_onto(&mut last)?;
        if shape.compare_values(entry.value, &last).is_le() {
            return exists(&walk, None);
        }
    }
    Ok(None)
}

fn put_labelled(txn: &mut Txn, entry: &Entry<'_>) -> Result<Put> {
    let shape = entry.shape;
    if entry.flags & (put_flag::NOOVERWRITE | put_flag::APPEND | put_flag::APPENDDUP) != 0
        && let Some(exists) = look_before_put(txn, entry, entry.key)?
    {
        let is_kept = matches!(exists, Put::Exists { .. });
        if is_kept {
            return Ok(exists);
        }
    }
    let mut walk = txn.walk(entry.dbi)?.ok_or(Code::BAD_DBI)?;
    let found = if shape.is_multi() {
        walk.seek_pair(entry.key, entry.value)? && walk.has_identity(entry.key)? && walk.has_value(entry.value)?
    } else {
        walk.seek_first_of(entry.key)? && walk.has_identity(entry.key)?
    };
    if found && entry.has(put_flag::NODUPDATA) {
        return Ok(Put::Exists { tree_key: walk.tree_key().to_vec(), value: None });
    }
    let tree_key = if found { walk.tree_key().to_vec() } else { new_label(&mut walk)? };
    drop(walk);
    if tree_key.len() > label::BYTES_MAX {
        relabel(txn, entry.dbi)?;
        return put_labelled(txn, entry);
    }
    let mut head = Vec::with_capacity(entry.key.len() + entry.size + 2);
    label::put_key(entry.key, &mut head);
    if entry.has(put_flag::RESERVE) {
        let room = txn.reserve(entry.dbi, &tree_key, &head, entry.size)?;
        return Ok(Put::Done { tree_key, room: Some(room) });
    }
    head.extend_from_slice(entry.value);
    let table = txn.state(entry.dbi)?.db.table.clone();
    txn.write()?.put(&table, &tree_key, &head)?;
    txn.changed();
    Ok(Put::Done { tree_key, room: None })
}

/// A label in front of the entry that the walk stands on, or behind all.
fn new_label(walk: &mut Walk) -> Result<Vec<u8>> {
    if walk.is_valid() {
        let high = walk.tree_key().to_vec();
        let low = walk.prev()?.then(|| walk.tree_key().to_vec());
        return Ok(label::between(low.as_deref(), Some(&high)));
    }
    let low = walk.last()?.then(|| walk.tree_key().to_vec());
    Ok(label::between(low.as_deref(), None))
}

/// Gives all entries of a database new labels, with room between them.
fn relabel(txn: &mut Txn, dbi: u32) -> Result<()> {
    let mut walk = txn.walk(dbi)?.ok_or(Code::BAD_DBI)?;
    let entries = walk.view().len();
    let mut all = Vec::new();
    let mut valid = walk.first()?;
    while valid {
        all.push((walk.tree_key().to_vec(), walk.stored()?.to_vec()));
        valid = walk.next()?;
    }
    drop(walk);
    let labels: Vec<_> = (0..entries).map(|rank| label::spaced(rank, entries)).collect();
    txn.move_cursors(dbi, |spot| {
        let rank = all.partition_point(|(old, _)| old.as_slice() < spot);
        labels.get(rank).map(|label| label.to_vec())
    });
    let table = txn.state(dbi)?.db.table.clone();
    let write = txn.write()?;
    write.clear_table(&table)?;
    write.load_sorted(&table, labels.iter().zip(&all).map(|(label, (_, stored))| (label, stored)))?;
    txn.changed();
    Ok(())
}

/// Stores an entry whatever its database, without flags.
pub(crate) fn put_entry(txn: &mut Txn, dbi: u32, key: &[u8], value: &[u8]) -> Result<()> {
    let shape = txn.state(dbi)?.shape;
    let entry = Entry { dbi, shape, key, value, size: value.len(), flags: 0 };
    put_labelled(txn, &entry).map(|_| ())
}

// ---- through cursors ----

/// Stores an entry through a cursor, which stands on it afterwards.
pub(crate) fn put_at(
    cursor: &mut CursorHandle,
    txn: &mut Txn,
    key: &[u8],
    value: &[u8],
    size: usize,
    flags: u32,
) -> Result<Put> {
    txn.ensure_writing()?;
    check_key(key)?;
    if flags & put_flag::CURRENT != 0 {
        return put_current(cursor, txn, key, value, size, flags);
    }
    // New labels move the cursors of the transaction; this one is in use here.
    let listed = txn.state(cursor.dbi)?.shape.labels && txn.unlist(cursor);
    let done = put(txn, cursor.dbi, key, value, size, flags);
    if listed {
        txn.cursors.push(cursor);
    }
    let done = done?;
    let (Put::Done { tree_key, .. } | Put::Exists { tree_key, .. }) = &done;
    cursor.stand_on(tree_key);
    Ok(done)
}

/// Replaces the entry that a cursor stands on.
fn put_current(
    cursor: &mut CursorHandle,
    txn: &mut Txn,
    key: &[u8],
    value: &[u8],
    size: usize,
    flags: u32,
) -> Result<Put> {
    if cursor.standing == Standing::Unset {
        return Err(Code::INVAL);
    }
    let shape = txn.state(cursor.dbi)?.shape;
    let mut identity = Vec::new();
    shape.identity_onto(key, &mut identity);
    let (old, is_same_value) = {
        let walk = cursor.current(txn)?.ok_or(Code::INVAL)?;
        // The key has to be that of the entry.
        if !walk.has_identity(&identity)? {
            return Err(if walk.is_valid() { Code::INVAL } else { Code::NOTFOUND });
        }
        (walk.tree_key().to_vec(), walk.has_value(value)?)
    };
    if shape.is_multi() && !is_same_value {
        txn.flush_reserved(true)?;
        let table = txn.state(cursor.dbi)?.db.table.clone();
        txn.write()?.delete(&table, &old)?;
        txn.changed();
    }
    let listed = txn.unlist(cursor);
    let done = put(txn, cursor.dbi, key, value, size, flags & put_flag::RESERVE);
    if let Ok(Put::Done { tree_key, .. }) = &done {
        cursor.stand_on(tree_key);
        // Other cursors that stood on the entry stand on what it has become.
        txn.move_cursors(cursor.dbi, |spot| (spot == old).then(|| tree_key.clone()));
    }
    if listed {
        txn.cursors.push(cursor);
    }
    done
}

/// Stores several values of a key; how many were stored before one failed.
pub(crate) fn put_multiple(
    cursor: &mut CursorHandle,
    txn: &mut Txn,
    key: &[u8],
    values: &[&[u8]],
    flags: u32,
) -> (usize, Result<()>) {
    for (done, value) in values.iter().enumerate() {
        match put_at(cursor, txn, key, value, value.len(), flags & !put_flag::MULTIPLE) {
            Ok(Put::Done { .. }) => {}
            Ok(Put::Exists { .. }) => return (done, Err(Code::KEYEXIST)),
            Err(e) => return (done, Err(e)),
        }
    }
    (values.len(), Ok(()))
}

/// Removes the entry that a cursor stands on, or all values of its key.
pub(crate) fn delete_at(cursor: &mut CursorHandle, txn: &mut Txn, flags: u32) -> Result<()> {
    txn.ensure_writing()?;
    if flags & !put_flag::NODUPDATA != 0 {
        return Err(Code::INVAL);
    }
    if cursor.standing == Standing::Unset {
        return Err(Code::INVAL);
    }
    // Bug: a cursor behind the last value of its key removed the value before it. Consequence: two
    // removals at the last value took two values away; LMDB refuses the second: sequence 8200. Fix: so
    // does this.
    if cursor.standing == Standing::Behind && flags & put_flag::NODUPDATA == 0 {
        return Err(Code::NOTFOUND);
    }
    txn.prepare_write(cursor.dbi)?;
    txn.flush_reserved(true)?;
    let (shape, has_named) = {
        let state = txn.state(cursor.dbi)?;
        (state.shape, state.has_named)
    };
    let mut identity = Vec::new();
    let tree_key = {
        let walk = cursor.current(txn)?.ok_or(Code::INVAL)?;
        if !walk.is_valid() {
            return Err(Code::NOTFOUND);
        }
        if cursor_is_named(walk, has_named, &shape)? {
            return Err(Code::INCOMPATIBLE);
        }
        walk.identity_into(&mut identity)?;
        walk.tree_key().to_vec()
    };
    let deleted = if flags & put_flag::NODUPDATA != 0 && shape.is_multi() {
        delete_all(txn, cursor.dbi, &shape, &identity)
    } else {
        let table = txn.state(cursor.dbi)?.db.table.clone();
        txn.write()?.delete(&table, &tree_key).map_err(Code::from)
    };
    txn.changed();
    note_failure(txn, &deleted);
    deleted?;
    let all = flags & put_flag::NODUPDATA != 0 && shape.is_multi();
    let is_gone = |key: &[u8]| if all { is_of(&shape, key, &identity, &tree_key) } else { key == tree_key };
    if let Some(to) = txn.note_removal(cursor.dbi, &tree_key, &identity, is_gone, cursor)? {
        cursor.stand_after_removal(&to);
    }
    Ok(())
}

/// Whether a key of the table is one of an entry of this key. Labels do not tell: then, whether it is
/// that of the removed entry.
fn is_of(shape: &Shape, tree_key: &[u8], identity: &[u8], removed: &[u8]) -> bool {
    if shape.labels || !shape.is_multi() { tree_key == removed } else { tree_key.starts_with(identity) }
}

fn cursor_is_named(walk: &Walk, has_named: bool, shape: &Shape) -> Result<bool> {
    if !has_named {
        return Ok(false);
    }
    let stored = walk.stored()?;
    let value = if shape.labels { label::split(stored).ok_or_else(damaged)?.1 } else { stored };
    Ok(value == MARK)
}

/// Removes all values of a key.
fn delete_all(txn: &mut Txn, dbi: u32, shape: &Shape, identity: &[u8]) -> Result<bool> {
    let table = txn.state(dbi)?.db.table.clone();
    if shape.labels {
        let mut walk = txn.walk(dbi)?.ok_or(Code::NOTFOUND)?;
        let mut gone = Vec::new();
        let mut valid = walk.seek_first_of(identity)?;
        while valid && walk.has_identity(identity)? {
            gone.push(walk.tree_key().to_vec());
            valid = walk.next()?;
        }
        drop(walk);
        let gone: Vec<&[u8]> = gone.iter().map(Vec::as_slice).collect();
        return Ok(txn.write()?.delete_sorted(&table, &gone)? > 0);
    }
    if !shape.is_multi() {
        return Ok(txn.write()?.delete(&table, identity)?);
    }
    let behind = names::bound_behind(identity);
    Ok(txn.write()?.delete_range(&table, identity..behind.as_slice())? > 0)
}

/// The table's key of the first entry of a key, if that matters to a cursor. A plain key is its own.
fn first_of(txn: &mut Txn, dbi: u32, identity: &[u8]) -> Result<Option<Vec<u8>>> {
    let shape = txn.state(dbi)?.shape;
    if !shape.labels {
        return Ok(Some(identity.to_vec()));
    }
    let mut walk = txn.walk(dbi)?.ok_or(Code::NOTFOUND)?;
    let found = walk.seek_first_of(identity)? && walk.has_identity(identity)?;
    Ok(found.then(|| walk.tree_key().to_vec()))
}

/// Removes a key, with all its values.
pub(crate) fn delete_key(txn: &mut Txn, dbi: u32, key: &[u8]) -> Result<()> {
    let shape = txn.state(dbi)?.shape;
    let mut identity = Vec::new();
    shape.identity_onto(key, &mut identity);
    let removed = first_of(txn, dbi, &identity)?.ok_or(Code::NOTFOUND)?;
    let deleted = delete_all(txn, dbi, &shape, &identity);
    txn.changed();
    note_failure(txn, &deleted);
    if !deleted? {
        return Err(Code::NOTFOUND);
    }
    let is_gone = |key: &[u8]| is_of(&shape, key, &identity, &removed);
    txn.note_removal(dbi, &removed, &identity, is_gone, std::ptr::null()).map(|_| ())
}

/// Removes a key, or, where keys have several values, one of them.
pub(crate) fn delete(txn: &mut Txn, dbi: u32, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    txn.ensure_writing()?;
    check_key(key)?;
    txn.prepare_write(dbi)?;
    txn.flush_reserved(true)?;
    let (shape, has_named) = {
        let state = txn.state(dbi)?;
        (state.shape, state.has_named)
    };
    if dbi == MAIN_DBI && has_named {
        refuse_named(txn, key, 0)?;
    }
    let Some(value) = value.filter(|_| shape.is_multi()) else { return delete_key(txn, dbi, key) };
    let mut identity = Vec::new();
    shape.identity_onto(key, &mut identity);
    let mut walk = txn.walk(dbi)?.ok_or(Code::NOTFOUND)?;
    if !(walk.seek_pair(&identity, value)? && walk.has_identity(&identity)? && walk.has_value(value)?) {
        return Err(Code::NOTFOUND);
    }
    let tree_key = walk.tree_key().to_vec();
    drop(walk);
    let table = txn.state(dbi)?.db.table.clone();
    let deleted = txn.write()?.delete(&table, &tree_key).map_err(Code::from);
    txn.changed();
    note_failure(txn, &deleted);
    deleted?;
    txn.note_removal(dbi, &tree_key, &identity, |key| key == tree_key, std::ptr::null()).map(|_| ())
}
