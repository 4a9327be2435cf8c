//! Pages: the unit of space, of copying and of checking.
//!
//! Every page but the two meta pages opens with this header; integers are little-endian.
//! ```text
//! 0         8      16     20    21     22          24     26        28    30        32
//! | checksum | txn  | page | kind | level | prefix_len | count | heap_len | dead | reserved | body …
//!                                                       | run pages     | run bytes      |   (runs)
//!                                                                              | more pages |   (leaves)
//! ```
//! - `checksum`: XXH3-64 over everything behind it; where the page heads a run, over the whole run.
//!   It is written at the steady point that makes the page durable. So it means nothing while `txn`
//!   is newer than the last steady point.
//! - `txn`: the transaction that wrote the page. A child is never newer than its parent.
//! - `page`: the page's own number, so that a page that was read from the wrong place is
//!   recognized.
//!
//! Invariant: a page is written only by the transaction in its header, and never again once that
//! transaction has committed, but for the checksum.
//!
//! In tree pages, `node` owns the fields behind `level`.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of the header that every page starts with.
pub(crate) const HEADER_BYTES: usize = 32;

const AT_CHECKSUM: usize = 0;
const AT_TXN: usize = 8;
const AT_PAGE: usize = 16;
const AT_KIND: usize = 20;
const AT_LEVEL: usize = 21;
const AT_RUN_PAGES: usize = 24;
const AT_RUN_BYTES: usize = 28;
const _: () = assert!(AT_RUN_BYTES + 4 == HEADER_BYTES);
/// In tree pages: how many pages follow the first. Zero but in wide leaves.
const AT_MORE_PAGES: usize = 30;
const _: () = assert!(AT_MORE_PAGES + 2 == HEADER_BYTES);

/// The number of a page: its offset in the data file divided by the page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageId(pub u32);

impl PageId {
    /// The absent page: page 0 is a meta page, so no tree refers to it.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a write transaction; a snapshot is named by the last transaction it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TxnId(pub u64);

impl TxnId {
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a page holds.
// ON DISK: never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// One of the two meta pages.
    Meta = 1,
    /// Keys and values.
    Leaf = 2,
    /// Separators, children and the number of entries below each.
    Branch = 3,
    /// Head of a contiguous run that holds one large value.
    Overflow = 4,
    /// Head of a contiguous run that holds the base of the free map.
    FreeBase = 5,
    /// A link of the chain of changes to the free map.
    FreeLog = 6,
    /// Head of a contiguous run that is one leaf. In files of format version 2 and later.
    WideLeaf = 7,
}

impl PageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Meta,
            2 => Self::Leaf,
            3 => Self::Branch,
            4 => Self::Overflow,
            5 => Self::FreeBase,
            6 => Self::FreeLog,
            7 => Self::WideLeaf,
            _ => return None,
        })
    }

    /// Whether the page heads a run of content whose length in bytes the header gives.
    pub(crate) fn heads_content(self) -> bool {
        matches!(self, Self::Overflow | Self::FreeBase)
    }
}

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"))
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn txn_of(page: &[u8]) -> TxnId {
    TxnId(get_u64(page, AT_TXN))
}

pub(crate) fn number_of(page: &[u8]) -> PageId {
    PageId(get_u32(page, AT_PAGE))
}

pub(crate) fn kind_of(page: &[u8]) -> Option<PageKind> {
    PageKind::from_byte(page[AT_KIND])
}

pub(crate) fn level_of(page: &[u8]) -> u8 {
    page[AT_LEVEL]
}

pub(crate) fn checksum_of(page: &[u8]) -> u64 {
    get_u64(page, AT_CHECKSUM)
}

/// How many pages the run has that a page heads; 1 for a page that heads no run.
pub(crate) fn run_pages_of(page: &[u8]) -> u32 {
    match kind_of(page) {
        Some(kind) if kind.heads_content() => get_u32(page, AT_RUN_PAGES),
        Some(PageKind::WideLeaf) => 1 + more_pages_of(page) as u32,
        _ => 1,
    }
}

/// How many pages of a tree page follow the first.
#[inline]
pub(crate) fn more_pages_of(page: &[u8]) -> usize {
    usize::from(get_u16(page, AT_MORE_PAGES))
}

/// Makes a leaf one of `pages` pages, as far as its header says so.
pub(crate) fn set_leaf_pages(page: &mut [u8], pages: u32) {
    page[AT_KIND] = if pages > 1 { PageKind::WideLeaf } else { PageKind::Leaf } as u8;
    put_u16(page, AT_MORE_PAGES, (pages - 1) as u16);
}

/// Bytes of content in the run that a page heads.
pub(crate) fn run_bytes_of(page: &[u8]) -> u32 {
    get_u32(page, AT_RUN_BYTES)
}

/// How many pages a run needs for `bytes` bytes of content.
pub(crate) fn run_pages_for(bytes: u64, page_size: usize) -> u64 {
    (bytes + HEADER_BYTES as u64).div_ceil(page_size as u64)
}

/// Writes the owner of a page: its transaction and its number.
pub(crate) fn set_owner(page: &mut [u8], id: PageId, txn: TxnId) {
    put_u64(page, AT_TXN, txn.0);
    put_u32(page, AT_PAGE, id.0);
}

/// Writes a header with an empty body.
pub(crate) fn init(page: &mut [u8], id: PageId, txn: TxnId, kind: PageKind, level: u8) {
    page[..HEADER_BYTES].fill(0);
    set_owner(page, id, txn);
    page[AT_KIND] = kind as u8;
    page[AT_LEVEL] = level;
}

/// Writes the header of a run.
pub(crate) fn init_run(page: &mut [u8], id: PageId, txn: TxnId, kind: PageKind, pages: u32, bytes: u32) {
    init(page, id, txn, kind, 0);
    put_u32(page, AT_RUN_PAGES, pages);
    put_u32(page, AT_RUN_BYTES, bytes);
}

/// The checksum of a page or of a whole run.
pub(crate) fn compute_checksum(page: &[u8]) -> u64 {
    xxh3_64_with_seed(&page[AT_TXN..], u64::from(get_u32(page, AT_PAGE)))
}

/// Writes the checksum of a page or of a whole run.
pub(crate) fn seal(page: &mut [u8]) {
    let checksum = compute_checksum(page);
    put_u64(page, AT_CHECKSUM, checksum);
}

/// A sealed run with the base of the free map: a bit for each page, set where the page is free.
pub(crate) fn encode_bitmap(
    free: impl Iterator<Item = u32>,
    id: PageId,
    txn: TxnId,
    pages: u32,
    page_size: usize,
) -> Vec<u8> {
    let mut run = vec![0; pages as usize * page_size];
    let bytes = (run.len() - HEADER_BYTES) as u32;
    init_run(&mut run, id, txn, PageKind::FreeBase, pages, bytes);
    for page in free {
        run[HEADER_BYTES + page as usize / 8] |= 1 << (page % 8);
    }
    seal(&mut run);
    run
}
