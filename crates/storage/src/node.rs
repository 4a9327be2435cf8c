//! Tree pages: sorted slots with key heads, a common prefix stored once, cells from the end.
//!
//! ```text
//! 0        32       32+prefix, padded to 4                                            the end
//! | header | prefix | heads u32 × n | cells u16 × n |            free | ← cells (heap)       |
//! | header | prefix | heads u32 × n | cells u16 × n | children u32 × n | counts u48 × n | free | ← cells |
//! ```
//! - A key is `prefix ++ suffix`. The first four bytes of the suffix, big-endian and padded with
//!   zeros, are its *head*, stored as an integer: searching compares integers that lie side by
//!   side. The cell holds the rest.
//! - A branch is a page. A leaf is a page or a run of pages (a *wide* leaf), 64 KiB at most; the
//!   arrays are at its start and the heap at its end, whatever its length.
//! - Leaf cell: `suffix_len, value code, suffix[4..], value`. The code is twice the value's length;
//!   or 1 for a large value, whose bytes are `page u32, len u32`; or, from 16,384 bytes on, twice
//!   what the length is above that, plus 3.
//! - Branch cell: `suffix_len, suffix[4..]`. A separator whose suffix has at most four bytes has no
//!   cell: its slot holds the length (0 to 4) instead of a place; four unused bytes at the end keep
//!   places above that.
//! - A place is a distance from the end of the page, so 64 KiB pages need no special case. Lengths
//!   take one byte below 128 and two bytes (high bits first, top bit set) above.
//! - Entry 0 of a branch has an empty separator that stands for minus infinity. It does not count
//!   for the prefix.
//!
//! Invariants, which [`Node::validate`] proves before anything else reads a page:
//! 1. Suffixes are strictly ascending, in a branch from entry 1 on.
//! 2. The arrays end at or before the heap.
//! 3. `heap_len` counts all bytes that cells have taken, `dead` those of cells that were removed
//!    since.
//! 4. Separators satisfy left < separator ≤ right.
//!
//! Not here: how pages form a tree (`tree`), and which pages are free (`space`).

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use smallvec::SmallVec;

use crate::page::{self, HEADER_BYTES, PageId, PageKind, get_u16, get_u32, put_u16, put_u32};

const AT_PREFIX_LEN: usize = 22;
const AT_COUNT: usize = 24;
const AT_HEAP_LEN: usize = 26;
const AT_DEAD: usize = 28;

const HEAD_BYTES: usize = 4;
/// Bytes kept free at the end of a branch, so that a cell's place is never taken for a short
/// length.
const BRANCH_HEAP_PAD: usize = 4;
const LEAF_WIDTHS: &[usize] = &[4, 2];
const BRANCH_WIDTHS: &[usize] = &[4, 2, 4, 6];
const LEAF_SLOT_BYTES: usize = 6;
const BRANCH_SLOT_BYTES: usize = 16;
/// Bytes of a reference to a large value.
const LARGE_BYTES: usize = 8;
/// From this length on, the code of a value inside a leaf counts what is above it.
const LONG_BYTES: usize = 1 << 14;
/// The most bytes that a key and a value inside a leaf have together: so few that the entries of a
/// leaf of [`LEAF_BYTES_MAX`] and one more can be divided into two leaves.
const ENTRY_BYTES_MAX: usize = 24 << 10;
/// The most bytes of a leaf: places have 16 bits.
pub(crate) const LEAF_BYTES_MAX: usize = 64 << 10;
/// Largest number of entries below one child.
const COUNT_MAX: u64 = (1 << 48) - 1;

/// Pages that no tree refers to: the two meta pages.
const META_PAGES: u32 = 2;
/// The least that an entry takes: its slot, and the two lengths in its cell.
const ENTRY_BYTES_MIN: u64 = LEAF_SLOT_BYTES as u64 + 2;

/// What an entry carries besides its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// A value inside the leaf.
    Inline(&'a [u8]),
    /// A value in pages of its own.
    Large { page: PageId, bytes: u32 },
    /// A child page and the number of entries below it.
    Child { page: PageId, count: u64 },
}

impl Payload<'_> {
    fn cell_bytes(&self, suffix_len: usize) -> usize {
        let rest = suffix_len.saturating_sub(HEAD_BYTES);
        match self {
            Self::Inline(value) => len_bytes(suffix_len) + len_bytes(code_of(value.len())) + rest + value.len(),
            Self::Large { .. } => len_bytes(suffix_len) + 1 + rest + LARGE_BYTES,
            Self::Child { .. } if suffix_len <= HEAD_BYTES => 0,
            Self::Child { .. } => len_bytes(suffix_len) + rest,
        }
    }
}

/// How a cell tells the length of the value in it.
#[inline]
fn code_of(value_len: usize) -> usize {
    if value_len < LONG_BYTES { value_len << 1 } else { ((value_len - LONG_BYTES) << 1) + 3 }
}

/// The bytes that a cell has for its value, and whether they refer to a large value.
#[inline]
fn decode_code(code: usize) -> (usize, bool) {
    if code & 1 == 0 { (code >> 1, false) } else { decode_odd_code(code) }
}

/// Kept out of the usual path, so that it costs that path nothing.
#[cold]
fn decode_odd_code(code: usize) -> (usize, bool) {
    if code == 1 { (LARGE_BYTES, true) } else { (LONG_BYTES + ((code - 3) >> 1), false) }
}

fn len_bytes(len: usize) -> usize {
    1 + usize::from(len >= 128)
}

fn put_len(out: &mut [u8], at: usize, len: usize) -> usize {
    debug_assert!(len < 1 << 15);
    if len < 128 {
        out[at] = len as u8;
        at + 1
    } else {
        out[at] = 0x80 | (len >> 8) as u8;
        out[at + 1] = len as u8;
        at + 2
    }
}

/// Reads a length. Gives the length and the bytes behind it.
#[inline]
fn take_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, tail) = bytes.split_first()?;
    if first < 128 {
        return Some((usize::from(first), tail));
    }
    let (&second, tail) = tail.split_first()?;
    Some((usize::from(first & 0x7f) << 8 | usize::from(second), tail))
}

/// What of a key is behind a prefix, if it begins with that.
#[inline]
fn strip_prefix<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    let (front, rest) = key.split_at_checked(prefix.len())?;
    // Prefixes are mostly short, and calling for a comparison takes longer than a loop.
    let is_same = match prefix.len() {
        0..=16 => front.iter().zip(prefix).all(|(one, other)| one == other),
        _ => front == prefix,
    };
    is_same.then_some(rest)
}

/// The first bytes of a suffix as an integer. Integers sort as the bytes do.
#[inline]
fn head_of(suffix: &[u8]) -> u32 {
    if let Some(head) = suffix.first_chunk::<HEAD_BYTES>() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..suffix.len()].copy_from_slice(suffix);
    u32::from_be_bytes(head)
}

#[inline]
fn rest_of(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

/// Length of the longest common prefix.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The largest key a page of this size takes, in bytes.
pub(crate) const fn key_bytes_max(page_size: usize) -> usize {
    page_size / 4 - 64
}

/// More entries than a file of `page_count` pages can hold.
fn entries_max(page_count: u32, page_size: usize) -> u64 {
    u64::from(page_count) * page_size as u64 / ENTRY_BYTES_MIN
}

/// Whether a value goes into the leaf: if it is short, or if pages of its own would take more than
/// 1.175 times its bytes.
pub(crate) fn fits_inline(key_len: usize, value_len: usize, page_size: usize) -> bool {
    let bytes = key_len + value_len;
    let run_bytes = || page::run_pages_for(value_len as u64, page_size) as usize * page_size;
    bytes <= inline_bytes_max(page_size) || bytes <= ENTRY_BYTES_MAX && run_bytes() > value_len + value_len * 7 / 40
}

/// More bytes than the slot and the cell of an entry take, whatever the prefix.
#[inline]
pub(crate) fn entry_bytes_max(key_len: usize, value_len: usize, page_size: usize) -> usize {
    let inside = if fits_inline(key_len, value_len, page_size) { value_len } else { LARGE_BYTES };
    // Two lengths of two bytes. Heads stand in slots and not in cells, and prefixes are padded.
    LEAF_SLOT_BYTES + 4 + key_len + 4 + inside
}

/// A key and a value that have no more bytes together are always inside the leaf. At least four
/// such entries fit a page.
pub(crate) const fn inline_bytes_max(page_size: usize) -> usize {
    page_size / 4 - 40
}

/// The most pages of a leaf.
pub(crate) const fn leaf_pages_max(page_size: usize) -> u32 {
    (LEAF_BYTES_MAX / page_size) as u32
}

/// A key as iterators give it: up to 32 bytes without an allocation.
pub type Key = SmallVec<[u8; 32]>;

/// Where a key is put together.
pub(crate) trait KeyBuffer {
    fn clear(&mut self);
    fn extend_from_slice(&mut self, bytes: &[u8]);
}

impl KeyBuffer for Vec<u8> {
    fn clear(&mut self) {
        self.clear();
    }

    fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl KeyBuffer for Key {
    fn clear(&mut self) {
        self.clear();
    }

    fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A tree page, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    bytes: &'a [u8],
}

/// The decoded cell: the rest of the key, and the payload.
#[derive(Clone, Copy)]
struct Cell<'a> {
    suffix_len: usize,
    rest: &'a [u8],
    value: &'a [u8],
    large: bool,
}

impl Cell<'_> {
    /// The bytes of the cell if the suffix had another length.
    #[inline]
    fn bytes_with(&self, suffix_len: usize, is_leaf: bool) -> usize {
        let rest = suffix_len.saturating_sub(HEAD_BYTES);
        if !is_leaf {
            return if suffix_len <= HEAD_BYTES { 0 } else { len_bytes(suffix_len) + rest };
        }
        let code = if self.large { 1 } else { code_of(self.value.len()) };
        len_bytes(suffix_len) + len_bytes(code) + rest + self.value.len()
    }
}

/// So many entries are looked at one by one for a key that is near the one before.
const NEAR_ENTRIES: usize = 8;

impl<'a> Node<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.level() == 0
    }

    #[inline]
    pub(crate) fn level(self) -> u8 {
        page::level_of(self.bytes)
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        usize::from(get_u16(self.bytes, AT_COUNT))
    }

    #[inline]
    fn prefix_len(self) -> usize {
        usize::from(get_u16(self.bytes, AT_PREFIX_LEN))
    }

    #[inline]
    pub(crate) fn prefix(self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.prefix_len()]
    }

    fn heap_len(self) -> usize {
        usize::from(get_u16(self.bytes, AT_HEAP_LEN))
    }

    fn dead(self) -> usize {
        usize::from(get_u16(self.bytes, AT_DEAD))
    }

    #[inline]
    fn slots_at(self) -> usize {
        HEADER_BYTES + self.prefix_len().next_multiple_of(4)
    }

    fn widths(self) -> &'static [usize] {
        if self.is_leaf() { LEAF_WIDTHS } else { BRANCH_WIDTHS }
    }

    #[inline]
    pub(crate) fn slot_bytes(self) -> usize {
        if self.is_leaf() { LEAF_SLOT_BYTES } else { BRANCH_SLOT_BYTES }
    }

    #[inline]
    fn heads(self) -> &'a [[u8; 4]] {
        let at = self.slots_at();
        self.bytes[at..at + 4 * self.count()].as_chunks().0
    }

    #[inline]
    fn head(self, index: usize) -> u32 {
        u32::from_le_bytes(self.heads()[index])
    }

    #[inline(always)]
    fn place(self, index: usize) -> usize {
        usize::from(get_u16(self.bytes, self.slots_at() + 4 * self.count() + 2 * index))
    }

    /// The cell of an entry, or `None` if it does not lie within the page.
    #[inline(always)]
    fn try_cell(self, index: usize) -> Option<Cell<'a>> {
        let place = self.place(index);
        if !self.is_leaf() && place <= HEAD_BYTES {
            return Some(Cell { suffix_len: place, rest: &[], value: &[], large: false });
        }
        let cell = self.bytes.get(self.bytes.len().checked_sub(place)?..)?;
        let (suffix_len, cell) = take_len(cell)?;
        let rest_len = suffix_len.saturating_sub(HEAD_BYTES);
        if !self.is_leaf() {
            return Some(Cell { suffix_len, rest: cell.get(..rest_len)?, value: &[], large: false });
        }
        let (code, cell) = take_len(cell)?;
        let (value_len, large) = decode_code(code);
        let (rest, cell) = cell.split_at_checked(rest_len)?;
        Some(Cell { suffix_len, rest, value: cell.get(..value_len)?, large })
    }

    /// The cell of an entry of a page that was validated. If memory has changed since, the cell is
    /// empty instead of out of bounds.
    #[inline(always)]
    fn cell(self, index: usize) -> Cell<'a> {
        self.try_cell(index).unwrap_or(Cell { suffix_len: 0, rest: &[], value: &[], large: false })
    }

    /// Copies the node over `out`, which may have another length. Cells are gathered if there is no
    /// room for dead bytes; the entries themselves must fit. What lies between arrays and heap keeps
    /// what was there.
    pub(crate) fn copy_to(self, out: &mut [u8]) {
        let (start, end) = self.parts();
        let to = out.len();
        out[..start].copy_from_slice(&self.bytes[..start]);
        match start + self.heap_len() <= to {
            true => out[to - self.heap_len()..].copy_from_slice(&self.bytes[end..]),
            false => self.gather_to(out),
        }
    }

    /// Writes the cells to the end of `out`, which has a copy of the arrays, without the dead bytes
    /// between them.
    fn gather_to(self, out: &mut [u8]) {
        let places_at = self.slots_at() + 4 * self.count();
        let mut heap_len = if self.is_leaf() { 0 } else { BRANCH_HEAP_PAD };
        for index in 0..self.count() {
            let cell_len = self.cell_len(index);
            // A short separator has no cell: it lies in its slot.
            if cell_len > 0 {
                heap_len += cell_len;
                let (from, to) = (self.bytes.len() - self.place(index), out.len() - heap_len);
                out[to..to + cell_len].copy_from_slice(&self.bytes[from..from + cell_len]);
                put_u16(out, places_at + 2 * index, heap_len as u16);
            }
        }
        put_u16(out, AT_HEAP_LEN, heap_len as u16);
        put_u16(out, AT_DEAD, 0);
    }

    /// Bytes that the entries would take on a page of their own with the same prefix.
    #[inline]
    pub(crate) fn used_bytes(self) -> usize {
        self.slots_at() + self.count() * self.slot_bytes() + self.heap_len() - self.dead()
    }

    /// Bytes of all cells.
    pub(crate) fn cells_bytes(self) -> usize {
        self.heap_len() - self.dead() - if self.is_leaf() { 0 } else { BRANCH_HEAP_PAD }
    }

    fn free_bytes(self) -> usize {
        self.bytes.len() - self.heap_len() - self.slots_at() - self.count() * self.slot_bytes()
    }

    /// The parts of the page that are used: one from the start, and one up to the end.
    #[inline]
    pub(crate) fn parts(self) -> (usize, usize) {
        (self.slots_at() + self.count() * self.slot_bytes(), self.bytes.len() - self.heap_len())
    }

    /// How many pages the node has.
    #[inline]
    pub(crate) fn pages(self) -> u32 {
        page::more_pages_of(self.bytes) as u32 + 1
    }

    /// Bytes of the mean entry, its slot included.
    pub(crate) fn entry_bytes_mean(self) -> usize {
        self.cells_bytes() / self.count().max(1) + self.slot_bytes()
    }

    /// Writes the key of an entry over `out`.
    #[inline]
    pub(crate) fn key_into(self, index: usize, out: &mut impl KeyBuffer) {
        out.clear();
        out.extend_from_slice(self.prefix());
        self.suffix_onto(index, out);
    }

    /// Appends the suffix of an entry to `out`, which holds the prefix.
    #[inline]
    pub(crate) fn suffix_onto(self, index: usize, out: &mut impl KeyBuffer) {
        let cell = self.cell(index);
        let head = self.head(index).to_be_bytes();
        if cell.suffix_len >= HEAD_BYTES {
            out.extend_from_slice(&head);
            out.extend_from_slice(cell.rest);
        } else {
            out.extend_from_slice(&head[..cell.suffix_len]);
        }
    }

    /// Bytes of an entry's cell on this page.
    fn cell_len(self, index: usize) -> usize {
        let cell = self.cell(index);
        cell.bytes_with(cell.suffix_len, self.is_leaf())
    }

    /// Whether the cells of an entry and of the one before it were written last, one after the
    /// other: then somebody is writing in ascending order here.
    pub(crate) fn ends_run(self, index: usize) -> bool {
        index > 0
            && self.place(index) == self.heap_len()
            && self.place(index - 1) + self.cell_len(index) == self.heap_len()
    }

    /// Bytes of an entry's cell on a page with a prefix of `prefix_len` bytes. The first child of a
    /// branch has none.
    pub(crate) fn cell_bytes(self, index: usize, prefix_len: usize) -> usize {
        if index == 0 && !self.is_leaf() {
            return 0;
        }
        let cell = self.cell(index);
        cell.bytes_with((self.prefix_len() + cell.suffix_len).saturating_sub(prefix_len), self.is_leaf())
    }

    #[inline]
    pub(crate) fn payload(self, index: usize) -> Payload<'a> {
        if !self.is_leaf() {
            return Payload::Child { page: self.child(index), count: self.child_count(index) };
        }
        let cell = self.cell(index);
        if cell.large && cell.value.len() == LARGE_BYTES {
            return decode_large(cell.value);
        }
        Payload::Inline(cell.value)
    }

    #[inline]
    pub(crate) fn child(self, index: usize) -> PageId {
        PageId(get_u32(self.bytes, self.slots_at() + 6 * self.count() + 4 * index))
    }

    pub(crate) fn child_count(self, index: usize) -> u64 {
        let at = self.slots_at() + 10 * self.count() + 6 * index;
        u64::from(get_u32(self.bytes, at)) | u64::from(get_u16(self.bytes, at + 4)) << 32
    }

    /// Entries in this subtree, or in its first `children` children.
    pub(crate) fn entries_before(self, index: usize) -> u64 {
        if self.is_leaf() { index as u64 } else { (0..index).map(|i| self.child_count(i)).sum() }
    }

    pub(crate) fn entries(self) -> u64 {
        self.entries_before(self.count())
    }

    /// Where a key is (`Ok`) or would go (`Err`), among the entries from `first` on.
    #[inline]
    pub(crate) fn search_from(self, first: usize, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let Some(suffix) = strip_prefix(key, prefix) else {
            return Err(if key < prefix { first } else { self.count() });
        };
        let head = head_of(suffix);
        let index = first + lower_bound(&self.heads()[first..], head);
        if index == self.count() || self.head(index) != head {
            return Err(index);
        }
        self.search_alike(index, head, suffix)
    }

    /// Where a suffix is or would go among the entries with the same head, of which `index` is the
    /// first.
    #[inline]
    fn search_alike(self, mut index: usize, head: u32, suffix: &[u8]) -> Result<usize, usize> {
        let count = self.count();
        let rest = rest_of(suffix);
        let mut end = index + 1;
        if end < count && self.head(end) == head {
            end = index + lower_bound_above(&self.heads()[index..], head);
        }
        while index < end {
            let middle = index + (end - index) / 2;
            let cell = self.cell(middle);
            // Most are no longer than their heads, and calling for a comparison takes time.
            let order = if rest.is_empty() || cell.rest.is_empty() {
                cell.suffix_len.cmp(&suffix.len())
            } else {
                cell.rest.cmp(rest).then(cell.suffix_len.cmp(&suffix.len()))
            };
            match order {
                Ordering::Less => index = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => end = middle,
            }
        }
        Err(index)
    }

    /// The first entry of a leaf that may have a key, as far as heads tell. `near` is where the key
    /// before was looked for: of keys in order, the next one is found a few entries behind it.
    #[inline]
    pub(crate) fn candidate(self, key: &[u8], near: usize) -> Option<usize> {
        let head = head_of(strip_prefix(key, self.prefix())?);
        let heads = self.heads();
        let at = |index: usize| heads.get(index).map(|&other| u32::from_le_bytes(other));
        let mut index = near;
        if at(near).is_some_and(|other| other < head) {
            index += 1;
            while index < near + NEAR_ENTRIES && at(index).is_some_and(|other| other < head) {
                index += 1;
            }
        }
        if index == near || index == near + NEAR_ENTRIES {
            index = lower_bound(heads, head);
        }
        (at(index) == Some(head)).then_some(index)
    }

    /// Which child of a branch covers a key that is near another one, which child `near` covers.
    /// `None` if that may be one of the first or the last, whose keys reach beyond the branch.
    #[inline]
    pub(crate) fn child_near(self, key: &[u8], near: usize) -> Option<usize> {
        let head = head_of(strip_prefix(key, self.prefix())?);
        let is_inside = |index: usize| index > 0 && index + 1 < self.count();
        if is_inside(near) && self.head(near) < head && head < self.head(near + 1) {
            return Some(near);
        }
        Some(self.child_index(key)).filter(|&index| is_inside(index))
    }

    /// Where on the page an entry begins.
    #[inline]
    pub(crate) fn offset(self, index: usize) -> Option<usize> {
        self.bytes.len().checked_sub(self.place(index))
    }

    /// Where a key is in a leaf, from its [`Node::candidate`] on.
    #[inline]
    pub(crate) fn find_from(self, candidate: usize, key: &[u8]) -> Option<usize> {
        let suffix = key.get(self.prefix_len()..)?;
        self.search_alike(candidate, head_of(suffix), suffix).ok()
    }

    /// Where a key is (`Ok`) or would go (`Err`) in a leaf.
    #[inline]
    pub(crate) fn search(self, key: &[u8]) -> Result<usize, usize> {
        self.search_from(0, key)
    }

    /// Which child of a branch covers a key.
    #[inline]
    pub(crate) fn child_index(self, key: &[u8]) -> usize {
        match self.search_from(1, key) {
            Ok(index) => index,
            Err(index) => index - 1,
        }
    }

    /// Proves that a node of a file of `page_count` pages is well-formed: that no other method
    /// leaves its bounds, that what it refers to lies within the file, and that splitting and
    /// merging it works.
    pub(crate) fn validate(self, page_count: u32, page_size: usize) -> Result<(), &'static str> {
        let pages = self.pages();
        let leaf = match (page::kind_of(self.bytes), self.level()) {
            (Some(PageKind::Leaf), 0) if pages == 1 => true,
            (Some(PageKind::WideLeaf), 0) if (2..=leaf_pages_max(page_size)).contains(&pages) => true,
            (Some(PageKind::Branch), 1..) if pages == 1 => false,
            _ => return Err("it is not a tree page"),
        };
        if self.bytes.len() != pages as usize * page_size {
            return Err("its run has another length than its header says");
        }
        let first = usize::from(!leaf);
        let count = self.count();
        if count == 0 {
            return Err("a tree page has no entries");
        }
        if self.prefix_len() > key_bytes_max(page_size) {
            return Err("a key is longer than keys can be");
        }
        let arrays_end = self.slots_at() + count * self.slot_bytes();
        if arrays_end + self.heap_len() > self.bytes.len() {
            return Err("slots and cells overlap");
        }
        let mut cells_len = if leaf { 0 } else { BRANCH_HEAP_PAD };
        let mut entries = 0;
        for index in 0..count {
            let place = self.place(index);
            if place > self.heap_len() {
                return Err("a cell lies outside the heap");
            }
            let Some(cell) = self.try_cell(index) else {
                return Err("a cell leaves the page");
            };
            let key_len = self.prefix_len() + cell.suffix_len;
            if index >= first && !(1..=key_bytes_max(page_size)).contains(&key_len) {
                return Err("a key is longer than keys can be, or empty");
            }
            let payload = self.payload(index);
            match payload {
                Payload::Inline(value) if key_len + value.len() > ENTRY_BYTES_MAX => {
                    return Err("a value is longer than a leaf takes");
                }
                Payload::Inline(_) => {}
                Payload::Large { page, bytes } => {
                    let end = u64::from(page.0) + page::run_pages_for(u64::from(bytes), page_size);
                    if page.0 < META_PAGES || end > u64::from(page_count) {
                        return Err("a large value lies beyond the end of the file");
                    }
                }
                Payload::Child { page, count } => {
                    if page.0 < META_PAGES || page.0 >= page_count {
                        return Err("a child lies beyond the end of the file");
                    }
                    entries += count;
                    if count == 0 || entries > entries_max(page_count, page_size) {
                        return Err("a branch counts more entries than the file can hold, or none below a child");
                    }
                }
            }
            let cell_len = payload.cell_bytes(cell.suffix_len);
            if cell_len > 0 && cell_len > place {
                return Err("a cell leaves the page");
            }
            cells_len += cell_len;
            if index < first {
                if cell.suffix_len != 0 {
                    return Err("the first separator is not empty");
                }
            } else if index > first {
                let before = self.cell(index - 1);
                let order = self.head(index - 1).cmp(&self.head(index));
                if order.then(before.rest.cmp(cell.rest)).then(before.suffix_len.cmp(&cell.suffix_len))
                    != Ordering::Less
                {
                    return Err("keys are out of order");
                }
            }
            if cell.suffix_len < HEAD_BYTES
                && self.head(index).trailing_zeros() < 8 * (HEAD_BYTES - cell.suffix_len) as u32
            {
                return Err("a key head has bytes that its key has not");
            }
        }
        if cells_len + self.dead() != self.heap_len() {
            return Err("the heap's length does not match its cells");
        }
        Ok(())
    }
}

/// A leaf, decoded for reading one entry after the other.
#[derive(Clone, Copy)]
pub(crate) struct LeafEntries<'a> {
    bytes: &'a [u8],
    heads: &'a [[u8; 4]],
    places: &'a [[u8; 2]],
}

/// So many bytes of a key are copied at once, whatever its length.
const REST_STEP: usize = 16;

impl<'a> LeafEntries<'a> {
    pub(crate) fn new(node: Node<'a>) -> Self {
        let places_at = node.slots_at() + 4 * node.count();
        let places = node.bytes[places_at..places_at + 2 * node.count()].as_chunks().0;
        Self { bytes: node.bytes, heads: node.heads(), places }
    }

    pub(crate) fn node(self) -> Node<'a> {
        Node::new(self.bytes)
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        self.heads.len()
    }

    /// Writes the suffix of an entry to `out`, which has room for the longest and for
    /// [`Self::SPARE`] bytes more. Gives its length, the value's bytes, and whether the value is
    /// large. `None` if the page has changed since it was validated.
    #[inline]
    pub(crate) fn read(self, index: usize, out: &mut [u8]) -> Option<(usize, &'a [u8], bool)> {
        let head = u32::from_le_bytes(*self.heads.get(index)?).to_be_bytes();
        let place = usize::from(u16::from_le_bytes(*self.places.get(index)?));
        let cell = self.bytes.get(self.bytes.len().checked_sub(place)?..)?;
        let (suffix_len, cell) = take_len(cell)?;
        let (code, cell) = take_len(cell)?;
        let (value_len, large) = decode_code(code);
        *out.first_chunk_mut::<HEAD_BYTES>()? = head;
        let rest_len = suffix_len.saturating_sub(HEAD_BYTES);
        // Copying a fixed number of bytes, even if that is too many, is one instruction. A copy of
        // exact length is a call.
        match (cell.first_chunk::<REST_STEP>(), out.get_mut(HEAD_BYTES..)?.first_chunk_mut::<REST_STEP>()) {
            (Some(from), Some(to)) if rest_len <= REST_STEP => *to = *from,
            _ => out.get_mut(HEAD_BYTES..HEAD_BYTES + rest_len)?.copy_from_slice(cell.get(..rest_len)?),
        }
        Some((suffix_len, cell.get(rest_len..)?.get(..value_len)?, large))
    }

    /// Bytes that `read` may write behind a suffix.
    pub(crate) const SPARE: usize = HEAD_BYTES + REST_STEP;
}

/// The page and the length of a large value, from a leaf cell.
pub(crate) fn decode_large(value: &[u8]) -> Payload<'_> {
    Payload::Large { page: PageId(get_u32(value, 0)), bytes: get_u32(value, 4) }
}

/// So many heads are compared one by one. They are few cache lines, which the processor loads in
/// parallel.
const SCAN_MAX: usize = 64;

/// The first index whose head is not below `head`. No branch depends on the heads.
#[inline]
fn lower_bound(heads: &[[u8; 4]], head: u32) -> usize {
    let mut rest = heads;
    let mut skipped = 0;
    while rest.len() > SCAN_MAX {
        let (low, high) = rest.split_at(rest.len() / 2);
        let below = u32::from_le_bytes(high[0]) < head;
        skipped = select_unpredictable(below, skipped + low.len(), skipped);
        rest = select_unpredictable(below, high, low);
    }
    let below: u32 = rest.iter().map(|&other| u32::from(u32::from_le_bytes(other) < head)).sum();
    skipped + below as usize
}

/// The first index whose head is above `head`.
fn lower_bound_above(heads: &[[u8; 4]], head: u32) -> usize {
    match head.checked_add(1) {
        Some(next) => lower_bound(heads, next),
        None => heads.len(),
    }
}

/// Writes a node whose number of entries is known beforehand, entry by entry in ascending order.
pub(crate) struct Builder<'a> {
    bytes: &'a mut [u8],
    prefix_len: usize,
    slots_at: usize,
    count: usize,
    next: usize,
    heap_len: usize,
    leaf: bool,
}

impl<'a> Builder<'a> {
    /// Starts a node over a page whose header names owner, kind and level.
    pub(crate) fn new(bytes: &'a mut [u8], prefix: &[u8], count: usize) -> Self {
        let leaf = page::level_of(bytes) == 0;
        let slots_at = HEADER_BYTES + prefix.len().next_multiple_of(4);
        bytes[HEADER_BYTES..HEADER_BYTES + prefix.len()].copy_from_slice(prefix);
        bytes[HEADER_BYTES + prefix.len()..slots_at].fill(0);
        let heap_len = if leaf { 0 } else { BRANCH_HEAP_PAD };
        Self { bytes, prefix_len: prefix.len(), slots_at, count, next: 0, heap_len, leaf }
    }

    /// Appends an entry. The empty key is entry 0 of a branch.
    pub(crate) fn push(&mut self, key: &[u8], payload: Payload<'_>) {
        let suffix = key.get(self.prefix_len..).unwrap_or_default();
        let index = self.next;
        self.next += 1;
        put_u32(self.bytes, self.slots_at + 4 * index, head_of(suffix));
        let cell_len = payload.cell_bytes(suffix.len());
        let place = if cell_len == 0 {
            suffix.len()
        } else {
            self.heap_len += cell_len;
            write_cell(self.bytes, self.heap_len, suffix, payload);
            self.heap_len
        };
        put_u16(self.bytes, self.slots_at + 4 * self.count + 2 * index, place as u16);
        if let Payload::Child { page, count } = payload {
            put_u32(self.bytes, self.slots_at + 6 * self.count + 4 * index, page.0);
            put_u48(self.bytes, self.slots_at + 10 * self.count + 6 * index, count);
        }
        debug_assert!(
            self.slots_at + self.count * if self.leaf { LEAF_SLOT_BYTES } else { BRANCH_SLOT_BYTES } + self.heap_len
                <= self.bytes.len()
        );
    }

    pub(crate) fn finish(self) {
        assert_eq!(self.next, self.count, "a node was promised another number of entries");
        put_u16(self.bytes, AT_PREFIX_LEN, self.prefix_len as u16);
        put_u16(self.bytes, AT_COUNT, self.count as u16);
        put_u16(self.bytes, AT_HEAP_LEN, self.heap_len as u16);
        put_u16(self.bytes, AT_DEAD, 0);
    }
}

fn put_u48(bytes: &mut [u8], at: usize, value: u64) {
    debug_assert!(value <= COUNT_MAX);
    bytes[at..at + 6].copy_from_slice(&value.to_le_bytes()[..6]);
}

fn write_cell(bytes: &mut [u8], place: usize, suffix: &[u8], payload: Payload<'_>) {
    let mut at = bytes.len() - place;
    at = put_len(bytes, at, suffix.len());
    let rest = rest_of(suffix);
    match payload {
        Payload::Inline(value) => {
            at = put_len(bytes, at, code_of(value.len()));
            bytes[at..at + rest.len()].copy_from_slice(rest);
            at += rest.len();
            bytes[at..at + value.len()].copy_from_slice(value);
        }
        Payload::Large { page, bytes: len } => {
            at = put_len(bytes, at, 1);
            bytes[at..at + rest.len()].copy_from_slice(rest);
            at += rest.len();
            put_u32(bytes, at, page.0);
            put_u32(bytes, at + 4, len);
        }
        Payload::Child { .. } => bytes[at..at + rest.len()].copy_from_slice(rest),
    }
}

/// Bytes of a node with these entries, given the sum of its cells.
pub(crate) fn node_bytes(leaf: bool, prefix_len: usize, count: usize, cells_bytes: usize) -> usize {
    let (slot, pad) = if leaf { (LEAF_SLOT_BYTES, 0) } else { (BRANCH_SLOT_BYTES, BRANCH_HEAP_PAD) };
    HEADER_BYTES + prefix_len.next_multiple_of(4) + count * slot + pad + cells_bytes
}

/// Bytes of the cell of a key of `key_len` bytes of which a prefix of `prefix_len` bytes is left
/// out.
pub(crate) fn cell_bytes(key_len: usize, prefix_len: usize, payload: Payload<'_>) -> usize {
    payload.cell_bytes(key_len.saturating_sub(prefix_len))
}

/// The result of an attempt to insert into a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The entry is in.
    Done,
    /// Its dead bytes must be gathered first.
    Gather,
    /// The page must be rewritten first, with a shorter prefix.
    Rebuild,
    /// The page is full.
    Full,
}

/// A tree page, for writing.
pub(crate) struct NodeMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> NodeMut<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes }
    }

    fn node(&self) -> Node<'_> {
        Node::new(self.bytes)
    }

    /// Whether it is a leaf of several pages.
    #[inline]
    pub(crate) fn is_wide(&self) -> bool {
        page::more_pages_of(self.bytes) > 0
    }

    /// Inserts an entry at a position that `search` gave, if there is room for it.
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], payload: Payload<'_>) -> Fit {
        let node = self.node();
        let Some(suffix) = key.strip_prefix(node.prefix()) else {
            return Fit::Rebuild;
        };
        let cell_len = payload.cell_bytes(suffix.len());
        let slot_bytes = node.slot_bytes();
        let free = node.free_bytes();
        if free < cell_len + slot_bytes {
            return if free + node.dead() >= cell_len + slot_bytes { Fit::Gather } else { Fit::Full };
        }
        let heap_len = node.heap_len() + cell_len;
        self.open_slot(index);
        let place = if cell_len == 0 { suffix.len() } else { heap_len };
        let (slots_at, count) = (self.node().slots_at(), self.node().count());
        put_u32(self.bytes, slots_at + 4 * index, head_of(suffix));
        put_u16(self.bytes, slots_at + 4 * count + 2 * index, place as u16);
        if cell_len > 0 {
            write_cell(self.bytes, heap_len, suffix, payload);
            put_u16(self.bytes, AT_HEAP_LEN, heap_len as u16);
        }
        if let Payload::Child { page, count } = payload {
            self.set_child(index, page);
            self.set_child_count(index, count);
        }
        Fit::Done
    }

    /// Moves the cells together, so that no dead bytes are left between them. `copy` is a buffer
    /// for the old page.
    pub(crate) fn gather(&mut self, copy: &mut Vec<u8>) {
        copy.clear();
        copy.extend_from_slice(self.bytes);
        Node::new(copy).gather_to(self.bytes);
    }

    /// Moves the heap of a leaf that has become longer or is about to become shorter: from the end
    /// `from` to the end `to`. There is room for it.
    pub(crate) fn move_heap(&mut self, from: usize, to: usize) {
        let heap_len = self.node().heap_len();
        self.bytes.copy_within(from - heap_len..from, to - heap_len);
    }

    /// Makes room for an entry in every array. The arrays move from the last to the first.
    fn open_slot(&mut self, index: usize) {
        let node = self.node();
        let (start, count, widths) = (node.slots_at(), node.count(), node.widths());
        let mut before: usize = widths.iter().sum();
        for &width in widths.iter().rev() {
            before -= width;
            let (from, to) = (start + before * count, start + before * (count + 1));
            self.bytes.copy_within(from + width * index..from + width * count, to + width * (index + 1));
            self.bytes.copy_within(from..from + width * index, to);
        }
        put_u16(self.bytes, AT_COUNT, (count + 1) as u16);
    }

    /// Closes the gap of an entry in every array. The arrays move from the first to the last.
    fn close_slot(&mut self, index: usize) {
        let node = self.node();
        let (start, count, widths) = (node.slots_at(), node.count(), node.widths());
        let mut before = 0;
        for &width in widths {
            let (from, to) = (start + before * count, start + before * (count - 1));
            self.bytes.copy_within(from..from + width * index, to);
            self.bytes.copy_within(from + width * (index + 1)..from + width * count, to + width * index);
            before += width;
        }
        put_u16(self.bytes, AT_COUNT, (count - 1) as u16);
    }

    /// Removes an entry. If that is entry 0 of a branch, the next one becomes the new minus
    /// infinity.
    pub(crate) fn remove(&mut self, index: usize) {
        self.bury_cell(index);
        self.close_slot(index);
        if index == 0 && !self.node().is_leaf() && self.node().count() > 0 {
            self.bury_cell(0);
            let (slots_at, count) = (self.node().slots_at(), self.node().count());
            put_u32(self.bytes, slots_at, 0);
            put_u16(self.bytes, slots_at + 4 * count, 0);
        }
    }

    /// Removes entries of a leaf, whose indexes ascend.
    pub(crate) fn remove_from_leaf(&mut self, indexes: &[usize]) {
        debug_assert!(self.node().is_leaf());
        for &index in indexes {
            self.bury_cell(index);
        }
        let node = self.node();
        let (start, count) = (node.slots_at(), node.count());
        let kept = count - indexes.len();
        let mut before = 0;
        for &width in LEAF_WIDTHS {
            let (from, mut to) = (start + before * count, start + before * kept);
            let mut next = 0;
            for &index in indexes.iter().chain([&count]) {
                self.bytes.copy_within(from + width * next..from + width * index, to);
                to += width * (index - next);
                next = index + 1;
            }
            before += width;
        }
        put_u16(self.bytes, AT_COUNT, kept as u16);
    }

    /// Frees the bytes of a cell: at once if it was written last, else as dead bytes.
    fn bury_cell(&mut self, index: usize) {
        let node = self.node();
        let cell_len = node.cell_len(index);
        let (heap_len, dead) = (node.heap_len(), node.dead());
        if cell_len > 0 && node.place(index) == heap_len {
            put_u16(self.bytes, AT_HEAP_LEN, (heap_len - cell_len) as u16);
        } else {
            put_u16(self.bytes, AT_DEAD, (dead + cell_len) as u16);
        }
    }

    /// Replaces a value by one that takes as many bytes; `false` if it does not.
    pub(crate) fn replace_value(&mut self, index: usize, payload: Payload<'_>) -> bool {
        let node = self.node();
        let suffix_len = node.cell(index).suffix_len;
        let old = node.payload(index);
        let same = match (old, payload) {
            (Payload::Inline(a), Payload::Inline(b)) => a.len() == b.len(),
            (Payload::Large { .. }, Payload::Large { .. }) => true,
            _ => false,
        };
        if !same {
            return false;
        }
        let end = self.bytes.len() - node.place(index) + old.cell_bytes(suffix_len);
        match payload {
            Payload::Inline(value) => self.bytes[end - value.len()..end].copy_from_slice(value),
            Payload::Large { page, bytes } => {
                put_u32(self.bytes, end - 8, page.0);
                put_u32(self.bytes, end - 4, bytes);
            }
            Payload::Child { .. } => unreachable!("branches have no values"),
        }
        true
    }

    pub(crate) fn set_child(&mut self, index: usize, page: PageId) {
        let at = self.node().slots_at() + 6 * self.node().count() + 4 * index;
        put_u32(self.bytes, at, page.0);
    }

    pub(crate) fn set_child_count(&mut self, index: usize, count: u64) {
        let at = self.node().slots_at() + 10 * self.node().count() + 6 * index;
        put_u48(self.bytes, at, count);
    }
}
