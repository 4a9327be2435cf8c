//! The moves of cursors.

use super::abi::{Code, MdbVal, Move, Result, db_flag};
use super::cursor::{CursorHandle, Standing};
use super::table::Walk;
use super::txn::Txn;

/// As many bytes of values as `MDB_GET_MULTIPLE` gives at a time: what a page of LMDB's holds.
const MULTIPLE_BYTES: usize = 4096 - 16;

/// What a move gives to the program: what it does not give stays as it was.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) key: Option<MdbVal>,
    pub(crate) value: Option<MdbVal>,
}

impl Given {
    fn both((key, value): (MdbVal, MdbVal)) -> Self {
        Self { key: Some(key), value: Some(value) }
    }

    fn value(value: MdbVal) -> Self {
        Self { key: None, value: Some(value) }
    }
}

/// Moves a cursor. `key` and `value` are what the program looks for.
#[inline]
pub(crate) fn go(
    cursor: &mut CursorHandle,
    txn: &mut Txn,
    to: Move,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<Given> {
    txn.ensure_usable()?;
    txn.flush_reserved(false)?;
    // The handle of the database may have been closed.
    txn.state(cursor.dbi)?;
    match to {
        Move::Next => step(cursor, txn, true).map(Given::both),
        Move::Prev => step(cursor, txn, false).map(Given::both),
        Move::First => end(cursor, txn, true).map(Given::both),
        Move::Last => end(cursor, txn, false).map(Given::both),
        Move::Set | Move::SetKey | Move::SetRange => set(cursor, txn, to, key.ok_or(Code::INVAL)?),
        Move::GetCurrent => {
            if cursor.standing == Standing::Unset {
                return Err(Code::INVAL);
            }
            let standing = cursor.standing;
            let walk = cursor.current(txn)?.ok_or(Code::INVAL)?;
            if walk.is_valid() && standing != Standing::Behind {
                // The program has seen the entry behind a removed one, so the next is that behind it.
                cursor.arrive(txn).map(Given::both)
            } else {
                Err(Code::NOTFOUND)
            }
        }
        Move::NextNodup => step_key(cursor, txn, true).map(Given::both),
        Move::PrevNodup => step_key(cursor, txn, false).map(Given::both),
        Move::NextDup => step_value(cursor, txn, true).map(Given::both),
        Move::PrevDup => step_value(cursor, txn, false).map(Given::both),
        Move::FirstDup | Move::LastDup => end_of_values(cursor, txn, to == Move::FirstDup).map(Given::value),
        Move::GetBoth | Move::GetBothRange => {
            get_both(cursor, txn, key.ok_or(Code::INVAL)?, value.ok_or(Code::INVAL)?, to == Move::GetBoth)
        }
        Move::GetMultiple | Move::NextMultiple | Move::PrevMultiple => multiple(cursor, txn, to),
    }
}

fn end(cursor: &mut CursorHandle, txn: &mut Txn, first: bool) -> Result<(MdbVal, MdbVal)> {
    cursor.forget_place();
    let walk = cursor.current(txn)?.ok_or(Code::NOTFOUND)?;
    let found = if first { walk.first()? } else { walk.last()? };
    if found { cursor.arrive(txn) } else { Err(Code::NOTFOUND) }
}

#[inline]
fn step(cursor: &mut CursorHandle, txn: &mut Txn, forward: bool) -> Result<(MdbVal, MdbVal)> {
    if cursor.current(txn)?.is_none() {
        return Err(Code::NOTFOUND);
    }
    let standing = cursor.standing;
    let Some(walk) = &mut cursor.walk else { return Err(Code::NOTFOUND) };
    let found = match (standing, forward) {
        (Standing::Unset, _) => return end(cursor, txn, forward),
        (Standing::On | Standing::Behind, true) => walk.next()?,
        (Standing::On | Standing::Before, false) => walk.prev()?,
        (Standing::Before, true) | (Standing::Behind, false) => true,
        (Standing::AtEnd, true) => false,
        (Standing::AtEnd, false) => walk.last()?,
    };
    if found {
        return cursor.arrive(txn);
    }
    // A cursor stays where it was.
    match (standing, forward) {
        (Standing::AtEnd, _) => {}
        (_, true) => _ = walk.last()?,
        (_, false) => {
            // What was removed before it is forgotten.
            if walk.first()? {
                cursor.standing = Standing::On;
            }
        }
    }
    Err(Code::NOTFOUND)
}

/// The cursor's walk, on an entry, with the identity of its key in `cursor.identity`.
fn at_entry<'c>(cursor: &'c mut CursorHandle, txn: &mut Txn) -> Result<&'c mut Walk> {
    let mut identity = std::mem::take(&mut cursor.identity);
    let found = match cursor.current(txn)? {
        Some(walk) if walk.is_valid() => walk.identity_into(&mut identity),
        _ => Err(Code::NOTFOUND),
    };
    cursor.identity = identity;
    found?;
    cursor.walk.as_mut().ok_or(Code::NOTFOUND)
}

fn step_key(cursor: &mut CursorHandle, txn: &mut Txn, forward: bool) -> Result<(MdbVal, MdbVal)> {
    cursor.current(txn)?;
    if cursor.standing == Standing::Unset {
        return end(cursor, txn, forward);
    }
    // The key that is gone is not to be skipped once more.
    let is_skipped = match cursor.standing {
        Standing::Before => !cursor.is_within_key,
        standing => standing == Standing::AtEnd,
    };
    if is_skipped {
        return step(cursor, txn, forward);
    }
    at_entry(cursor, txn)?;
    let identity = std::mem::take(&mut cursor.identity);
    let moved = (|| -> Result<bool> {
        let walk = cursor.walk.as_mut().ok_or(Code::NOTFOUND)?;
        let here = walk.tree_key().to_vec();
        let found =
            if forward { walk.seek_behind(&identity)? } else { walk.seek_first_of(&identity)? && walk.prev()? };
        if !found {
            walk.seek_tree(&here)?;
        }
        Ok(found)
    })();
    cursor.identity = identity;
    if moved? { cursor.arrive(txn) } else { Err(Code::NOTFOUND) }
}

fn step_value(cursor: &mut CursorHandle, txn: &mut Txn, forward: bool) -> Result<(MdbVal, MdbVal)> {
    let is_multi = txn.state(cursor.dbi)?.shape.is_multi();
    cursor.current(txn)?;
    if cursor.standing == Standing::Unset {
        return end(cursor, txn, forward);
    }
    if !is_multi {
        return Err(Code::NOTFOUND);
    }
    match (cursor.standing, forward) {
        (Standing::AtEnd, true) => return Err(Code::NOTFOUND),
        // No key is current, so LMDB does not look for its values.
        (Standing::AtEnd, false) => return step(cursor, txn, false),
        (Standing::Before, _) if !cursor.is_within_key => {
            if !forward {
                cursor.standing = Standing::On;
            }
            return Err(Code::NOTFOUND);
        }
        (Standing::Before, true) | (Standing::Behind, false) => return cursor.arrive(txn),
        (Standing::Behind, true) => return Err(Code::NOTFOUND),
        _ => {}
    }
    let walk = at_entry(cursor, txn)?;
    let found = if forward { walk.next()? } else { walk.prev()? };
    let identity = std::mem::take(&mut cursor.identity);
    let stays = (|| -> Result<bool> {
        let walk = cursor.walk.as_mut().ok_or(Code::NOTFOUND)?;
        if found && walk.has_identity(&identity)? {
            return Ok(true);
        }
        // Back to where it was.
        match (found, forward) {
            (true, true) => walk.prev()?,
            (true, false) => walk.next()?,
            (false, true) => walk.last()?,
            (false, false) => walk.first()?,
        };
        Ok(false)
    })();
    cursor.identity = identity;
    if stays? { cursor.arrive(txn) } else { Err(Code::NOTFOUND) }
}

fn end_of_values(cursor: &mut CursorHandle, txn: &mut Txn, first: bool) -> Result<MdbVal> {
    if cursor.standing == Standing::Unset {
        return Err(Code::INVAL);
    }
    if !txn.state(cursor.dbi)?.shape.is_multi() {
        return Err(Code::INCOMPATIBLE);
    }
    at_entry(cursor, txn)?;
    let identity = std::mem::take(&mut cursor.identity);
    let walk = cursor.walk.as_mut().ok_or(Code::NOTFOUND);
    let found = walk.and_then(|walk| if first { walk.seek_first_of(&identity) } else { walk.seek_last_of(&identity) });
    cursor.identity = identity;
    if found? { Ok(cursor.arrive(txn)?.1) } else { Err(Code::NOTFOUND) }
}

fn set(cursor: &mut CursorHandle, txn: &mut Txn, to: Move, key: &[u8]) -> Result<Given> {
    if key.is_empty() {
        return Err(Code::BAD_VALSIZE);
    }
    let shape = txn.state(cursor.dbi)?.shape;
    cursor.forget_place();
    let mut identity = std::mem::take(&mut cursor.identity);
    shape.identity_onto(key, &mut identity);
    let found = (|| -> Result<bool> {
        let walk = cursor.current(txn)?.ok_or(Code::NOTFOUND)?;
        Ok(walk.seek_first_of(&identity)? && (to == Move::SetRange || walk.has_identity(&identity)?))
    })();
    cursor.identity = identity;
    if !found? {
        return Err(Code::NOTFOUND);
    }
    let (key, value) = cursor.arrive(txn)?;
    Ok(if to == Move::Set { Given::value(value) } else { Given::both((key, value)) })
}

fn get_both(cursor: &mut CursorHandle, txn: &mut Txn, key: &[u8], value: &[u8], exactly: bool) -> Result<Given> {
    let shape = txn.state(cursor.dbi)?.shape;
    if !shape.is_multi() {
        return Err(Code::INCOMPATIBLE);
    }
    if key.is_empty() {
        return Err(Code::BAD_VALSIZE);
    }
    cursor.forget_place();
    let mut identity = std::mem::take(&mut cursor.identity);
    shape.identity_onto(key, &mut identity);
    let found = (|| -> Result<bool> {
        let walk = cursor.current(txn)?.ok_or(Code::NOTFOUND)?;
        Ok(walk.seek_pair(&identity, value)? && walk.has_identity(&identity)? && (!exactly || walk.has_value(value)?))
    })();
    cursor.identity = identity;
    if found? { Ok(Given::value(cursor.arrive(txn)?.1)) } else { Err(Code::NOTFOUND) }
}

/// Gives as many values of the key as LMDB has in a page.
fn multiple(cursor: &mut CursorHandle, txn: &mut Txn, to: Move) -> Result<Given> {
    if !txn.state(cursor.dbi)?.shape.has(db_flag::DUPFIXED) {
        return Err(Code::INCOMPATIBLE);
    }
    if cursor.standing == Standing::Unset {
        return Err(Code::INVAL);
    }
    let walk = at_entry(cursor, txn)?;
    let mut values = Vec::new();
    walk.value_onto(&mut values)?;
    let per_chunk = (MULTIPLE_BYTES / values.len().max(1)).max(1);
    let here = walk.tree_key().to_vec();
    let identity = std::mem::take(&mut cursor.identity);
    let gathered = (|| -> Result<()> {
        let walk = cursor.walk.as_mut().ok_or(Code::NOTFOUND)?;
        // The chunk of the current value, counted from the first value of the key.
        walk.seek_first_of(&identity)?;
        let mut rank = 0;
        while walk.tree_key() != here {
            rank += 1;
            if !walk.next()? {
                return Err(Code::NOTFOUND);
            }
        }
        let chunk = rank / per_chunk;
        let start = match to {
            Move::GetMultiple => chunk * per_chunk,
            Move::NextMultiple => (chunk + 1) * per_chunk,
            _ => chunk.checked_sub(1).ok_or(Code::NOTFOUND)? * per_chunk,
        };
        walk.seek_first_of(&identity)?;
        for _ in 0..start {
            if !walk.next()? || !walk.has_identity(&identity)? {
                walk.seek_tree(&here)?;
                return Err(Code::NOTFOUND);
            }
        }
        values.clear();
        let mut taken = 0;
        while walk.is_valid() && walk.has_identity(&identity)? && taken < per_chunk {
            walk.value_onto(&mut values)?;
            taken += 1;
            if !walk.next()? {
                break;
            }
        }
        // It stands on the last value that it gives.
        if walk.is_valid() {
            walk.prev()?
        } else {
            walk.last()?
        };
        Ok(())
    })();
    cursor.identity = identity;
    gathered?;
    let (key, _) = cursor.arrive(txn)?;
    Ok(Given { key: Some(key), value: Some(txn.arena.copy(&values)) })
}

/// How many values the cursor's key has.
pub(crate) fn count(cursor: &mut CursorHandle, txn: &mut Txn) -> Result<usize> {
    txn.ensure_usable()?;
    txn.flush_reserved(false)?;
    let shape = txn.state(cursor.dbi)?.shape;
    if !shape.is_multi() {
        return Err(Code::INCOMPATIBLE);
    }
    if cursor.standing == Standing::Unset {
        return Err(Code::INVAL);
    }
    at_entry(cursor, txn)?;
    let mut counting = txn.walk(cursor.dbi)?.ok_or(Code::NOTFOUND)?;
    if !shape.labels {
        let (low, high) = (cursor.identity.as_slice(), super::names::bound_behind(&cursor.identity));
        return Ok(counting.view().count(low..high.as_slice())? as usize);
    }
    counting.seek_first_of(&cursor.identity)?;
    let mut count = 0;
    while counting.has_identity(&cursor.identity)? {
        count += 1;
        if !counting.next()? {
            break;
        }
    }
    Ok(count)
}

impl CursorHandle {
    /// What follows does not depend on where it stood.
    fn forget_place(&mut self) {
        self.standing = Standing::Unset;
        self.clear_spot();
    }
}
