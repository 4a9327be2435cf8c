//! Cursors of C over a snapshot.
#![allow(unsafe_code, reason = "a cursor beside the snapshot that it borrows from")]

use std::sync::Arc;

use embedded::{Cursor, Snapshot, Table, View};

use crate::fault::{Fault, Result};
use crate::fork::OfProcess;
use crate::handles::Handles;

/// `colibri_cursor`
pub(crate) struct Walk {
    parts: OfProcess<Parts>,
}

/// Fields are dropped in order: what borrows goes before what is borrowed from.
struct Parts {
    cursor: Cursor<'static>,
    view: View<'static>,
    _snapshot: Arc<Snapshot<'static>>,
}

pub(crate) static CURSORS: Handles<Walk> = Handles::new(8);

/// Where a cursor goes. ABI: never renumber.
#[derive(Clone, Copy)]
pub(crate) enum Move {
    First,
    Last,
    Next,
    Prev,
    /// To the first entry whose key is not below one.
    Seek,
    /// To exactly one key.
    SeekExact,
    /// To the last entry whose key is below one.
    SeekBefore,
    NextKey,
    PrevKey,
    FirstValue,
    LastValue,
    NextValue,
    PrevValue,
}

impl Move {
    pub(crate) fn numbered(number: u32) -> Result<Self> {
        const ALL: [Move; 13] = [
            Move::First,
            Move::Last,
            Move::Next,
            Move::Prev,
            Move::Seek,
            Move::SeekExact,
            Move::SeekBefore,
            Move::NextKey,
            Move::PrevKey,
            Move::FirstValue,
            Move::LastValue,
            Move::NextValue,
            Move::PrevValue,
        ];
        ALL.get(number as usize).copied().ok_or(Fault::Misuse("a cursor knows no such move"))
    }
}

impl Walk {
    pub(crate) fn new(snapshot: &Arc<Snapshot<'static>>, table: &Table) -> Result<Self> {
        let kept = Arc::clone(snapshot);
        // SAFETY: the snapshot lives on the heap, where it does not move, as long as `_snapshot` of
        // the same `Parts`, which goes after the view and the cursor. Nothing of either leaves this
        // module but references that are bound to the borrow of `self`.
        let borrowed: &'static Snapshot<'static> = unsafe { &*Arc::as_ptr(&kept) };
        let view = borrowed.view(table)?;
        Ok(Self { parts: OfProcess::new(Parts { cursor: view.cursor(), view, _snapshot: kept }) })
    }

    /// Moves; gives whether it stands on an entry.
    pub(crate) fn go(&mut self, to: Move, key: &[u8]) -> Result<bool> {
        let cursor = &mut self.parts.get()?.cursor;
        Ok(match to {
            Move::First => cursor.first(),
            Move::Last => cursor.last(),
            Move::Next => cursor.next(),
            Move::Prev => cursor.prev(),
            Move::Seek => cursor.seek(key),
            Move::SeekExact => cursor.seek_exact(key),
            Move::SeekBefore => cursor.seek_before(key),
            Move::NextKey => cursor.next_key(),
            Move::PrevKey => cursor.prev_key(),
            Move::FirstValue => cursor.first_value(),
            Move::LastValue => cursor.last_value(),
            Move::NextValue => cursor.next_value(),
            Move::PrevValue => cursor.prev_value(),
        }?)
    }

    /// To an entry by its place from 0; gives whether there is one.
    pub(crate) fn go_to_nth(&mut self, index: u64) -> Result<bool> {
        let Parts { cursor, view, .. } = self.parts.get()?;
        Ok(match view.nth(index)? {
            None => {
                // Off the table, as after the move behind its last entry.
                cursor.last()? && cursor.next()?
            }
            Some((key, value)) if view.table().kind() == embedded::TableKind::Multi => {
                cursor.seek_value(&key, &value)?
            }
            Some((key, _)) => cursor.seek_exact(&key)?,
        })
    }

    /// The entry on which it stands.
    pub(crate) fn entry(&mut self) -> Result<(&[u8], &[u8])> {
        let cursor = &self.parts.get()?.cursor;
        Ok((cursor.key(), cursor.value()?))
    }
}
