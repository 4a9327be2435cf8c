//! One named database of an environment: how its entries lie in a table.
//!
//! | | key of the table | value |
//! | --- | --- | --- |
//! | one value a key | the key, as it sorts | the value |
//! | `MDB_DUPSORT` | key and value as a pair (`order`) | empty |
//! | an order of the program's own | a label (`label`) | key and value |
//!
//! The entries of the unnamed database are in the table `lmdb`, those of others in `lmdb:NAME`. The
//! table `lmdb-databases` says what each of them is (`names`).

use std::cmp::Ordering;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};

use colibri_storage::{Table, TableKind, View};

use super::abi::{Code, Compare, MdbVal, Result, db_flag};
use super::arena::Arena;
use super::label;
use super::order::{self, Order};

/// A database whose handle is open, as all transactions of this process see it.
pub(crate) struct Db {
    /// `None` for the unnamed database, and for that of free pages.
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) table: Table,
    flags: AtomicU32,
    labels: AtomicBool,
    /// Functions of the program, as addresses; null for none.
    compare: AtomicPtr<c_void>,
    compare_values: AtomicPtr<c_void>,
}

impl Db {
    pub(crate) fn new(name: Option<Vec<u8>>, table: &str, description: Description) -> Self {
        Self {
            name,
            table: Table::named(table, TableKind::Plain),
            flags: AtomicU32::new(description.flags),
            labels: AtomicBool::new(description.labels),
            compare: AtomicPtr::default(),
            compare_values: AtomicPtr::default(),
        }
    }

    pub(crate) fn describe_as(&self, description: Description) {
        self.flags.store(description.flags, Relaxed);
        self.labels.store(description.labels, Relaxed);
    }

    pub(crate) fn set_compare(&self, compare: Option<Compare>, of_values: bool) {
        let address = compare.map_or(std::ptr::null_mut(), |compare| compare as *mut c_void);
        if of_values { &self.compare_values } else { &self.compare }.store(address, Relaxed);
    }

    pub(crate) fn shape(&self) -> Shape {
        let flags = self.flags.load(Relaxed);
        Shape {
            flags,
            keys: Order::of_keys(flags),
            values: Order::of_values(flags),
            labels: self.labels.load(Relaxed),
            compare: function(self.compare.load(Relaxed)),
            compare_values: function(self.compare_values.load(Relaxed)),
        }
    }
}

/// What is kept of a database beside its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Description {
    pub(crate) flags: u32,
    pub(crate) labels: bool,
}

impl Description {
    /// ```text
    /// 0         1        2           4       8
    /// | version | labels | flags u16 | zeros |
    /// ```
    // ON DISK: never renumber.
    pub(crate) fn encode(self) -> [u8; 8] {
        let flags = (self.flags as u16).to_le_bytes();
        [1, u8::from(self.labels), flags[0], flags[1], 0, 0, 0, 0]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match *bytes {
            [1, labels @ 0..=1, low, high, ..] => {
                Ok(Self { flags: u32::from(u16::from_le_bytes([low, high])) & db_flag::KEPT, labels: labels == 1 })
            }
            _ => Err(Code::VERSION_MISMATCH),
        }
    }
}

#[allow(unsafe_code, reason = "a function of the program, kept as a number")]
fn function(address: *mut c_void) -> Option<Compare> {
    // SAFETY: `Db::set_compare` alone stores it: the address of such a function, or null, which is
    // how `None` is laid out.
    unsafe { std::mem::transmute::<*mut c_void, Option<Compare>>(address) }
}

#[allow(unsafe_code, reason = "calls a function of the program")]
fn call(compare: Compare, one: &[u8], other: &[u8]) -> Ordering {
    let value = |bytes: &[u8]| MdbVal { size: bytes.len(), data: bytes.as_ptr().cast_mut().cast() };
    let (one, other) = (value(one), value(other));
    // SAFETY: the program has given it for this: it reads two values, which live here.
    unsafe { compare(&one, &other) }.cmp(&0)
}

/// How the entries of a database lie and compare, as one transaction knows it.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) flags: u32,
    pub(crate) keys: Order,
    pub(crate) values: Order,
    pub(crate) labels: bool,
    pub(crate) compare: Option<Compare>,
    pub(crate) compare_values: Option<Compare>,
}

impl Shape {
    pub(crate) fn description(&self) -> Description {
        Description { flags: self.flags, labels: self.labels }
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_multi(&self) -> bool {
        self.has(db_flag::DUPSORT)
    }

    pub(crate) fn compare_keys(&self, one: &[u8], other: &[u8]) -> Ordering {
        self.compare.map_or_else(|| self.keys.compare(one, other), |compare| call(compare, one, other))
    }

    pub(crate) fn compare_values(&self, one: &[u8], other: &[u8]) -> Ordering {
        self.compare_values.map_or_else(|| self.values.compare(one, other), |compare| call(compare, one, other))
    }

    /// What tells the entries of a key from all others ([`Walk::has_identity`]).
    pub(crate) fn identity_onto(&self, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match (self.labels, self.is_multi()) {
            (true, _) => out.extend_from_slice(key),
            (false, true) => order::pair_prefix_onto(self.keys, key, out),
            (false, false) => self.keys.turn_onto(key, out),
        }
    }
}

pub(crate) fn damaged() -> Code {
    Code::CORRUPTED
}

/// A place in a database, as of one state of its transaction.
pub(crate) struct Walk {
    raw: colibri_storage::Cursor<'static>,
    view: View<'static>,
    shape: Shape,
    target: Vec<u8>,
}

impl Walk {
    pub(crate) fn new(view: View<'static>, shape: Shape) -> Self {
        Self { raw: view.cursor(), view, shape, target: Vec::new() }
    }

    #[inline]
    pub(crate) fn is_valid(&self) -> bool {
        self.raw.is_valid()
    }

    /// The entry's key in the table.
    #[inline]
    pub(crate) fn tree_key(&self) -> &[u8] {
        self.raw.key()
    }

    pub(crate) fn view(&self) -> &View<'static> {
        &self.view
    }

    pub(crate) fn first(&mut self) -> Result<bool> {
        Ok(self.raw.first()?)
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        Ok(self.raw.last()?)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        Ok(self.raw.next()?)
    }

    #[inline]
    pub(crate) fn prev(&mut self) -> Result<bool> {
        Ok(self.raw.prev()?)
    }

    /// To the first entry not below a key of the table.
    pub(crate) fn seek_tree(&mut self, tree_key: &[u8]) -> Result<bool> {
        Ok(self.raw.seek(tree_key)?)
    }

    /// To the entry with as many before it as have `is_before`.
    fn seek_rank(&mut self, is_before: impl Fn(&[u8], &[u8]) -> bool) -> Result<bool> {
        let (mut low, mut high) = (0, self.view.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (_, stored) = self.view.nth(middle)?.ok_or_else(damaged)?;
            let (key, value) = label::split(&stored).ok_or_else(damaged)?;
            if is_before(key, value) { low = middle + 1 } else { high = middle }
        }
        if let Some((tree_key, _)) = self.view.nth(low)? {
            return self.seek_tree(&tree_key);
        }
        // Off the table.
        Ok(self.raw.last()? && self.raw.next()?)
    }

    /// To the first entry of a key, or of the next one.
    pub(crate) fn seek_first_of(&mut self, identity: &[u8]) -> Result<bool> {
        if self.shape.labels {
            let shape = self.shape;
            return self.seek_rank(|key, _| shape.compare_keys(key, identity).is_lt());
        }
        self.seek_tree(identity)
    }

    /// To the first entry behind those of a key.
    pub(crate) fn seek_behind(&mut self, identity: &[u8]) -> Result<bool> {
        if self.shape.labels {
            let shape = self.shape;
            return self.seek_rank(|key, _| shape.compare_keys(key, identity).is_le());
        }
        if !self.shape.is_multi() {
            return Ok(self.raw.seek(identity)? && (self.raw.key() != identity || self.raw.next()?));
        }
        let mut target = std::mem::take(&mut self.target);
        target.clear();
        target.extend_from_slice(identity);
        order::make_bound_after(&mut target);
        let found = self.seek_tree(&target);
        self.target = target;
        found
    }

    /// To the last entry of a key, where there is one.
    pub(crate) fn seek_last_of(&mut self, identity: &[u8]) -> Result<bool> {
        if self.seek_behind(identity)? { self.prev() } else { self.last() }
    }

    /// To the first entry that is not below a pair.
    pub(crate) fn seek_pair(&mut self, identity: &[u8], value: &[u8]) -> Result<bool> {
        let shape = self.shape;
        if shape.labels {
            return self.seek_rank(|key, stored| {
                shape.compare_keys(key, identity).then_with(|| shape.compare_values(stored, value)).is_lt()
            });
        }
        let mut target = std::mem::take(&mut self.target);
        target.clear();
        target.extend_from_slice(identity);
        if shape.is_multi() {
            shape.values.turn_onto(value, &mut target);
        }
        let found = self.seek_tree(&target);
        self.target = target;
        found
    }

    /// Whether the walk stands on an entry of that key.
    pub(crate) fn has_identity(&self, identity: &[u8]) -> Result<bool> {
        if !self.is_valid() {
            return Ok(false);
        }
        if self.shape.labels {
            let (key, _) = label::split(self.raw.value()?).ok_or_else(damaged)?;
            return Ok(self.shape.compare_keys(key, identity).is_eq());
        }
        Ok(if self.shape.is_multi() { self.raw.key().starts_with(identity) } else { self.raw.key() == identity })
    }

    /// Whether the walk stands on an entry with a value that compares as equal.
    pub(crate) fn has_value(&self, value: &[u8]) -> Result<bool> {
        let shape = &self.shape;
        if shape.labels {
            let (_, stored) = label::split(self.raw.value()?).ok_or_else(damaged)?;
            return Ok(shape.compare_values(stored, value).is_eq());
        }
        if !shape.is_multi() {
            return Ok(self.raw.value()? == value);
        }
        let at = order::value_at(self.raw.key()).ok_or_else(damaged)?;
        let stored = &self.raw.key()[at..];
        Ok(if shape.values.reversed { stored.iter().rev().eq(value) } else { stored == value })
    }

    /// The identity of the key of this entry.
    pub(crate) fn identity_into(&self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let key = self.raw.key();
        if self.shape.labels {
            out.extend_from_slice(label::split(self.raw.value()?).ok_or_else(damaged)?.0);
        } else if self.shape.is_multi() {
            out.extend_from_slice(&key[..order::value_at(key).ok_or_else(damaged)?]);
        } else {
            out.extend_from_slice(key);
        }
        Ok(())
    }

    /// Key and value of this entry, as the program knows them.
    #[inline]
    pub(crate) fn entry(&self, arena: &mut Arena) -> Result<(MdbVal, MdbVal)> {
        let (shape, key) = (&self.shape, self.raw.key());
        if shape.labels {
            let (key, value) = label::split(self.raw.value()?).ok_or_else(damaged)?;
            return Ok((mapped(key), mapped(value)));
        }
        if !shape.is_multi() {
            return Ok((turned(shape.keys, key, arena), mapped(self.raw.value()?)));
        }
        let at = order::value_at(key).ok_or_else(damaged)?;
        let (prefix, value) = key.split_at(at);
        let key = arena.give(at, |room| order::key_of_prefix(shape.keys, prefix, room));
        Ok((key, turned(shape.values, value, arena)))
    }

    /// The value alone.
    pub(crate) fn value(&self, arena: &mut Arena) -> Result<MdbVal> {
        let shape = &self.shape;
        if shape.labels || !shape.is_multi() {
            return Ok(self.entry(arena)?.1);
        }
        let at = order::value_at(self.raw.key()).ok_or_else(damaged)?;
        Ok(turned(shape.values, &self.raw.key()[at..], arena))
    }

    /// Appends the value to `out`.
    pub(crate) fn value_onto(&self, out: &mut Vec<u8>) -> Result<()> {
        let shape = &self.shape;
        if shape.labels {
            out.extend_from_slice(label::split(self.raw.value()?).ok_or_else(damaged)?.1);
        } else {
            let at = order::value_at(self.raw.key()).ok_or_else(damaged)?;
            shape.values.turn_onto(&self.raw.key()[at..], out);
        }
        Ok(())
    }

    /// The value as the table has it.
    pub(crate) fn stored(&self) -> Result<&[u8]> {
        Ok(self.raw.value()?)
    }
}

/// Bytes that lie in the map, which the transaction keeps.
pub(crate) fn mapped(bytes: &[u8]) -> MdbVal {
    MdbVal { size: bytes.len(), data: bytes.as_ptr().cast_mut().cast() }
}

#[inline]
fn turned(order: Order, bytes: &[u8], arena: &mut Arena) -> MdbVal {
    arena.give(bytes.len(), |room| {
        room.copy_from_slice(bytes);
        if order.reversed {
            room.reverse();
        }
        bytes.len()
    })
}
