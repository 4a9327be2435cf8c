//! Carrying out one request of a commit. Everything for which it can be refused is checked against
//! the newest state before anything of it is written.

use std::borrow::Cow;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use colibri_storage::{Error as StorageError, Table, TableKind, TxnId, VALUE_BYTES_MAX, View, WriteTxn};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::local::{Shared, count, table_name};
use crate::prepared::{self, State, Task};
use crate::queue::{Answer, Request};
use crate::recent::NOTED_MAX;
use crate::series;
use crate::store::{Key, Patch, SpaceId};
use crate::validate::validate;
use crate::writes::{Base, SpaceWrites, Write};

/// The result of a request in a transaction of the storage.
pub(crate) enum Carried {
    /// With the spaces that it has removed for somebody else.
    Out(Vec<SpaceId>),
    /// Nothing of it was written.
    Refused(Answer),
    /// The storage failed, and a part may have been written: the transaction of the storage has to
    /// be rolled back.
    HalfOut(StorageError),
}

/// Checks a request and writes it. `unchanged`: the state is still the one that the request has
/// seen.
pub(crate) fn carry_out(
    shared: &Shared,
    request: &Request,
    txn: &mut WriteTxn,
    prepared: &mut State,
    unchanged: bool,
) -> Carried {
    if let Task::Finish { name, commits } = &request.task {
        return match prepared::finish(shared, name, *commits, txn) {
            Ok(Ok(removed)) => noted(prepared, name, txn, removed),
            Ok(Err(e)) => Carried::HalfOut(e),
            Err(e) => Carried::Refused(Answer::Result(Err(e))),
        };
    }
    let checked = match catch_unwind(AssertUnwindSafe(|| check(shared, request, txn, prepared, unchanged))) {
        Ok(Ok(checked)) => checked,
        Ok(Err(e)) => {
            if matches!(e, Error::Conflict { .. } | Error::HeldByPrepared { .. }) {
                count(&shared.counts.conflicts, 1);
            }
            return Carried::Refused(Answer::Result(Err(e)));
        }
        Err(payload) => return Carried::Refused(Answer::Panic(payload)),
    };
    match &request.task {
        Task::Prepare { name, about } => match prepared::prepare(request, &checked.rows, (name, about), txn) {
            Ok(()) => noted(prepared, name, txn, Vec::new()),
            Err(e) => Carried::HalfOut(e),
        },
        _ => match apply(shared, request, checked, txn) {
            Ok(()) => Carried::Out(Vec::new()),
            Err(e) => Carried::HalfOut(e),
        },
    }
}

/// The records of prepared transactions have changed.
fn noted(prepared: &mut State, name: &str, txn: &WriteTxn, removed: Vec<SpaceId>) -> Carried {
    match prepared.changed(txn, name) {
        Ok(()) => Carried::Out(removed),
        Err(Error::Storage(e)) => Carried::HalfOut(e),
        Err(_) => unreachable!("a record that was just written, or removed, can be read"),
    }
}

/// What is worked out when a request is checked.
#[derive(Default)]
struct Checked<'r> {
    /// The rows that its patches make, in order.
    rows: Vec<Cow<'r, [u8]>>,
    /// For each series that it appends to, in order, the number of the first entry.
    firsts: SmallVec<[i64; 4]>,
}

/// Checks everything for which a request can be refused.
fn check<'r>(
    shared: &Shared,
    request: &'r Request,
    txn: &WriteTxn,
    prepared: &State,
    unchanged: bool,
) -> Result<Checked<'r>> {
    // The state before the transaction of the storage. What this one has written for other requests
    // is noted in `recent` as well.
    let begun = TxnId(txn.txn().0 - 1);
    if !unchanged {
        if let Some(space) = request.blind {
            return Err(Error::Conflict { space });
        }
        let seen = request.snapshot.txn();
        let is_unchanged = |space, key: &[u8]| shared.is_unchanged(space, key, seen, begun);
        let old = |space| request.work.open.view(shared, &request.snapshot, space);
        validate(&request.work.reads, is_unchanged, old, txn)?;
    }
    let is_prepare = matches!(request.task, Task::Prepare { .. });
    if !prepared.is_empty() {
        prepared.check(&request.work.writes, is_prepare.then_some(&request.work.reads))?;
    }
    if let Task::Prepare { name, .. } = &request.task {
        prepared.check_new(name, shared.prepared.max())?;
    }
    let mut checked = Checked::default();
    for space in request.work.writes.spaces() {
        if matches!(space.base, Base::Stored) && space.changes.is_empty() {
            continue;
        }
        let table = request.work.open.table(shared, space.id, |name| txn.table(name));
        let view = match table.and_then(|table| txn.view(&table)) {
            Err(StorageError::NoSuchTable { .. }) => None,
            view => Some(view?),
        };
        match (&space.base, view) {
            (Base::Made(entries), None) => {
                let last = |prefix: &[u8]| Ok(last_loaded(entries, prefix));
                number_appended(space, last, &mut checked.firsts)?;
            }
            (Base::Dropped { made: true }, _) => {}
            (Base::Dropped { made: false }, Some(_)) => {}
            (Base::Stored, Some(view)) => {
                let seen = request.images();
                let is_unchanged = |key: &[u8]| shared.is_unchanged(space.id, key, seen, begun);
                patch_rows(space, &view, seen, is_unchanged, &mut checked.rows)?;
                number_appended(space, |prefix| series::last_number(&view, prefix), &mut checked.firsts)?;
            }
            (Base::Made(_), Some(_)) | (Base::Stored | Base::Dropped { made: false }, None) => {
                return Err(Error::Conflict { space: space.id });
            }
        }
    }
    Ok(checked)
}

/// Finds the numbers of the entries that a request appends to series of a space.
fn number_appended(
    space: &SpaceWrites,
    last: impl Fn(&[u8]) -> Result<i64>,
    firsts: &mut SmallVec<[i64; 4]>,
) -> Result<()> {
    if !space.changes.has_series() {
        return Ok(());
    }
    // The highest number under which the request itself puts an entry: those come before the
    // place-holders of a series.
    let mut put: Option<(&[u8], i64)> = None;
    let mut changes = space.changes.iter().peekable();
    while let Some((key, write)) = changes.next() {
        if !matches!(write, Write::Append(_)) {
            put = if write.value().is_some() { series::split(key) } else { put };
            continue;
        }
        let prefix = series::prefix_of(key);
        let mut count = 1;
        let is_same =
            |(key, write): &(&[u8], &Write)| matches!(write, Write::Append(_)) && series::prefix_of(key) == prefix;
        while changes.next_if(is_same).is_some() {
            count += 1;
        }
        let own = put.filter(|(known, _)| *known == prefix).map_or(0, |(_, number)| number);
        firsts.push(series::first_of(own.max(last(prefix)?), count)?);
    }
    Ok(())
}

/// The highest number of a series among entries in order that a new space is filled with.
fn last_loaded(entries: &[(Key, Vec<u8>)], prefix: &[u8]) -> i64 {
    let end = series::key(prefix, series::NUMBER_MAX);
    let before = entries.partition_point(|(key, _)| *key <= end);
    let last = before.checked_sub(1).and_then(|last| series::split(&entries[last].0));
    last.filter(|(found, _)| *found == prefix).map_or(0, |(_, number)| number.max(0))
}

/// The rows that the patches of a space make. For a row that nobody has changed since the
/// transaction read it, that is the image made then.
fn patch_rows<'r>(
    space: &'r SpaceWrites,
    view: &View<'_>,
    seen: TxnId,
    is_unchanged: impl Fn(&[u8]) -> bool,
    rows: &mut Vec<Cow<'r, [u8]>>,
) -> Result<()> {
    for (key, write) in space.changes.patched() {
        let Write::Patch(patched) = write else { continue };
        if let Some(image) = patched.image_at(seen)
            && is_unchanged(key)
        {
            rows.push(Cow::Borrowed(image));
            continue;
        }
        let row = view.get(key)?.ok_or(Error::Conflict { space: space.id })?;
        rows.push(match patched.image_of(seen, row) {
            Some(image) => Cow::Borrowed(image),
            None => Cow::Owned(patch_all(&patched.patches, row)?),
        });
    }
    Ok(())
}

/// A row after patches.
pub(crate) fn patch_all(patches: &[Arc<dyn Patch>], row: &[u8]) -> Result<Vec<u8>> {
    let Some((first, rest)) = patches.split_first() else { return Ok(row.to_vec()) };
    let mut now = patch_one(&**first, row)?;
    for patch in rest {
        now = patch_one(&**patch, &now)?;
    }
    Ok(now)
}

/// A row after a patch.
pub(crate) fn patch_one(patch: &dyn Patch, row: &[u8]) -> Result<Vec<u8>> {
    // The largest fixed-width value is written behind the row at first.
    let mut out = Vec::with_capacity(row.len() + 16);
    patch.apply(row, &mut out).map_err(Error::Patch)?;
    if out.len() as u64 > VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong { bytes: out.len(), bytes_max: VALUE_BYTES_MAX as usize });
    }
    Ok(out)
}

/// Keys that are removed together.
const DELETED_AT_ONCE: usize = 4096;

/// Writes what was checked.
fn apply(
    shared: &Shared,
    request: &Request,
    checked: Checked<'_>,
    txn: &mut WriteTxn,
) -> std::result::Result<(), StorageError> {
    let Checked { rows, firsts } = checked;
    let (mut rows, mut firsts) = (rows.into_iter(), firsts.into_iter());
    let number = txn.txn();
    let is_noted = request.work.writes.mark() <= NOTED_MAX;
    for space in request.work.writes.spaces() {
        if !matches!(space.base, Base::Stored) || !is_noted {
            shared.recent.forget(number);
        }
        let table = match &space.base {
            Base::Stored if space.changes.is_empty() => continue,
            Base::Stored => request.work.open.table(shared, space.id, |name| txn.table(name))?,
            Base::Made(entries) => {
                let table = txn.create_table(&table_name(space.id), TableKind::Plain)?;
                if !entries.is_empty() {
                    txn.load_sorted(&table, entries.iter().map(|(key, value)| (key, value)))?;
                }
                table
            }
            Base::Dropped { made: true } => continue,
            Base::Dropped { made: false } => {
                let table = txn.table(&table_name(space.id))?;
                txn.drop_table(&table)?;
                continue;
            }
        };
        let mut deleted: SmallVec<[&[u8]; 4]> = SmallVec::new();
        // The series that is appended to, and the number of its next entry.
        let mut end: Option<(&[u8], i64)> = None;
        for (key, write) in space.changes.iter() {
            if is_noted && !matches!(write, Write::Append(_)) {
                shared.recent.note(shared.locks.name(space.id, key), number);
            }
            if !deleted.is_empty() && (!matches!(write, Write::Delete) || deleted.len() == DELETED_AT_ONCE) {
                txn.delete_sorted(&table, &deleted)?;
                deleted.clear();
            }
            match write {
                Write::Put(value) => txn.put(&table, key, value)?,
                Write::Delete => deleted.push(key),
                Write::Patch(_) => {
                    let row = rows.next().expect("a row was made for each patch when the request was checked");
                    txn.put(&table, key, &row)?;
                }
                Write::Append(value) => {
                    let prefix = series::prefix_of(key);
                    let entry = match end {
                        Some((known, next)) if known == prefix => next,
                        _ => firsts.next().expect("a number was found for each series when the request was checked"),
                    };
                    end = Some((prefix, entry + 1));
                    let key = series::key(prefix, entry);
                    if is_noted {
                        shared.recent.note(shared.locks.name(space.id, &key), number);
                    }
                    txn.put(&table, &key, value)?;
                }
                Write::Cut(below) => {
                    // Which entries go is not looked at.
                    shared.recent.forget(number);
                    cut(txn, &table, series::prefix_of(key), *below)?;
                }
            }
        }
        if !deleted.is_empty() {
            txn.delete_sorted(&table, &deleted)?;
        }
    }
    Ok(())
}

/// Removes the entries of a series below a number, but for the last one.
fn cut(txn: &mut WriteTxn, table: &Table, prefix: &[u8], below: i64) -> std::result::Result<(), StorageError> {
    let last = match series::last_number(&txn.view(table)?, prefix) {
        Ok(last) => last,
        Err(Error::Storage(e)) => return Err(e),
        Err(_) => unreachable!("looking for an entry has no other errors than the storage's"),
    };
    let (low, high) = (series::key(prefix, i64::MIN), series::key(prefix, below.min(last)));
    txn.delete_range(table, (Bound::Included(&low[..]), Bound::Excluded(&high[..]))).map(drop)
}
