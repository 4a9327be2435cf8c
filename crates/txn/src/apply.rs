//! Carrying out one request of a commit. Everything for which it can be refused is checked against
//! the newest state before anything of it is written.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use colibri_storage::{Error as StorageError, TableKind, TxnId, VALUE_BYTES_MAX, View, WriteTxn};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::local::{Shared, count, table_name};
use crate::prepared::{self, State, Task};
use crate::queue::{Answer, Request};
use crate::recent::NOTED_MAX;
use crate::store::{Patch, SpaceId};
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
    let rows = match catch_unwind(AssertUnwindSafe(|| check(shared, request, txn, prepared, unchanged))) {
        Ok(Ok(rows)) => rows,
        Ok(Err(e)) => {
            if matches!(e, Error::Conflict { .. } | Error::HeldByPrepared { .. }) {
                count(&shared.counts.conflicts, 1);
            }
            return Carried::Refused(Answer::Result(Err(e)));
        }
        Err(payload) => return Carried::Refused(Answer::Panic(payload)),
    };
    match &request.task {
        Task::Prepare { name, about } => match prepared::prepare(request, &rows, (name, about), txn) {
            Ok(()) => noted(prepared, name, txn, Vec::new()),
            Err(e) => Carried::HalfOut(e),
        },
        _ => match apply(shared, request, rows, txn) {
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

/// Checks everything for which a request can be refused. Gives the rows that its patches make, in
/// order.
fn check<'r>(
    shared: &Shared,
    request: &'r Request,
    txn: &WriteTxn,
    prepared: &State,
    unchanged: bool,
) -> Result<Vec<Cow<'r, [u8]>>> {
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
    let mut rows = Vec::new();
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
            (Base::Made(_), None) | (Base::Dropped { made: true }, _) => {}
            (Base::Dropped { made: false }, Some(_)) => {}
            (Base::Stored, Some(view)) => {
                let seen = request.images();
                let is_unchanged = |key: &[u8]| shared.is_unchanged(space.id, key, seen, begun);
                patch_rows(space, &view, seen, is_unchanged, &mut rows)?;
            }
            (Base::Made(_), Some(_)) | (Base::Stored | Base::Dropped { made: false }, None) => {
                return Err(Error::Conflict { space: space.id });
            }
        }
    }
    Ok(rows)
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
    rows: Vec<Cow<'_, [u8]>>,
    txn: &mut WriteTxn,
) -> std::result::Result<(), StorageError> {
    let mut rows = rows.into_iter();
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
        for (key, write) in space.changes.iter() {
            if is_noted {
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
            }
        }
        if !deleted.is_empty() {
            txn.delete_sorted(&table, &deleted)?;
        }
    }
    Ok(())
}
