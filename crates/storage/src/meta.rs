//! The two meta pages: where the last steady points are.
//!
//! Steady points alternate between page 0 and page 1. The newer valid one is where the database
//! stands.
//! ```text
//! 0          32      40       44          48          52 … 68    68        72         76      80         120
//! | header   | magic | version | page_size | page_count | free map | toggles | manifest | flags | catalog | …
//! 120           136   156      160       256                    1536                 4096
//! | database id | log | forest | sealing | manifest (160 × 8) | toggles (640 × 4) |
//! ```
//! Only the first 4096 bytes of a meta page are used, whatever the page size, and the checksum
//! covers just these.
//!
//! - `manifest`: pages of this steady point with the low half of their checksums. If it is not
//!   empty, the pages and the meta page went out in one flush, and the point counts only if every
//!   listed page is on disk. If it is empty, the pages were flushed before the meta page was
//!   written.
//! - `toggles`: pages that are free here and not in the free map's chain, or the other way round.
//! - `log`: where the records of the transactions after this point begin: offset (8), chain (8),
//!   file (4).
//! - `forest`: the page that says which branches there are, or 0.
//! - `sealing`: zeros, but in an encrypted database, where `encrypted_disk::sealed_meta` fills it in.
//! - flag `CLEAN`: the database was closed; both meta pages hold the same point.

use crate::log::Position;
use crate::page::{self, HEADER_BYTES, PageId, PageKind, TxnId, get_u32, get_u64, put_u32, put_u64};
use crate::root::{Root, Tree};

/// The newest version of the file format that this build reads. It writes encrypted files with it,
/// others that keep states of the past with the one before, and all others with the one before that.
pub const FORMAT_VERSION: u32 = 5;
/// The version of files that have never kept states of the past.
const BASE_VERSION: u32 = 3;
/// The first version whose files may keep states of the past. A file of it stays one.
pub(crate) const PAST_VERSION: u32 = 4;
/// The version of encrypted files, which may keep states of the past. No other file has it.
pub(crate) const ENCRYPTED_VERSION: u32 = 5;
/// The first version whose files may have branches.
const FOREST_VERSION: u32 = 3;
/// The bytes of a meta page that count.
pub(crate) const META_BYTES: usize = 4096;
/// How many pages of a commit a meta page can list.
pub(crate) const MANIFEST_MAX: usize = 160;
/// More transactions than a database ever sees, so adding to a number that was read cannot
/// overflow.
const TXN_MAX: u64 = 1 << 62;
/// How many changes to the free map a meta page can hold.
pub(crate) const TOGGLES_MAX: usize = 640;

// ON DISK: never renumber.
const MAGIC: &[u8; 8] = b"COLIBRI\0";
const AT_MAGIC: usize = HEADER_BYTES;
const AT_VERSION: usize = 40;
const AT_PAGE_SIZE: usize = 44;
const AT_PAGE_COUNT: usize = 48;
const AT_FREE_BASE: usize = 52;
const AT_FREE_BASE_PAGES: usize = 56;
const AT_FREE_LOG: usize = 60;
const AT_FREE_LOG_PAGES: usize = 64;
const AT_TOGGLES_LEN: usize = 68;
const AT_MANIFEST_LEN: usize = 72;
const AT_FLAGS: usize = 76;
const AT_CATALOG: usize = 80;
const AT_DATABASE_ID: usize = 120;
const AT_LOG: usize = 136;
const AT_FOREST: usize = 156;
/// What an encrypted database has beside.
pub(crate) const AT_SEALING: usize = 160;
pub(crate) const SEALING_BYTES: usize = 96;
const AT_MANIFEST: usize = 256;
const AT_TOGGLES: usize = 1536;
const _: () = assert!(AT_CATALOG + Tree::BYTES == AT_DATABASE_ID);
const _: () = assert!(AT_FOREST + 4 == AT_SEALING && AT_SEALING + SEALING_BYTES == AT_MANIFEST);
const _: () = assert!(AT_MANIFEST + MANIFEST_MAX * 8 == AT_TOGGLES);
const _: () = assert!(AT_TOGGLES + TOGGLES_MAX * 4 == META_BYTES);

const FLAG_CLEAN: u32 = 1;

/// A steady point.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    /// The version it was read with; it is written with [`BASE_VERSION`] at least.
    pub(crate) version: u32,
    pub(crate) txn: TxnId,
    pub(crate) page_size: u32,
    pub(crate) page_count: u32,
    pub(crate) database_id: [u8; 16],
    pub(crate) catalog: Tree,
    pub(crate) log: Position,
    pub(crate) forest: PageId,
    pub(crate) free_base: PageId,
    pub(crate) free_base_pages: u32,
    pub(crate) free_log: PageId,
    pub(crate) free_log_pages: u32,
    pub(crate) clean: bool,
    pub(crate) manifest: Vec<(PageId, u32)>,
    pub(crate) toggles: Vec<PageId>,
}

/// Why bytes are not a meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaFault {
    /// The magic bytes are not there.
    NotColibri,
    /// A newer format version, whatever else.
    Newer(u32),
    /// The checksum or a field is wrong.
    Damaged(&'static str),
}

impl Meta {
    /// The root of the steady point.
    pub(crate) fn root(&self) -> Root {
        let Self { txn, catalog, forest, page_count, log, .. } = *self;
        Root { txn, catalog, forest, page_count, log }
    }

    /// The bytes for one of the two meta pages. Points alternate between them, so that a torn write
    /// of one leaves the point before it, whose pages are still untouched.
    pub(crate) fn encode(&self, slot: u32) -> [u8; META_BYTES] {
        assert!(self.manifest.len() <= MANIFEST_MAX && self.toggles.len() <= TOGGLES_MAX);
        let mut bytes = [0; META_BYTES];
        page::init(&mut bytes, PageId(slot), self.txn, PageKind::Meta, 0);
        bytes[AT_MAGIC..AT_MAGIC + 8].copy_from_slice(MAGIC);
        let fields = [
            (AT_VERSION, self.version.max(BASE_VERSION)),
            (AT_PAGE_SIZE, self.page_size),
            (AT_PAGE_COUNT, self.page_count),
            (AT_FREE_BASE, self.free_base.0),
            (AT_FREE_BASE_PAGES, self.free_base_pages),
            (AT_FREE_LOG, self.free_log.0),
            (AT_FREE_LOG_PAGES, self.free_log_pages),
            (AT_TOGGLES_LEN, self.toggles.len() as u32),
            (AT_MANIFEST_LEN, self.manifest.len() as u32),
            (AT_FOREST, self.forest.0),
            (AT_FLAGS, if self.clean { FLAG_CLEAN } else { 0 }),
        ];
        for (at, value) in fields {
            put_u32(&mut bytes, at, value);
        }
        put_u64(&mut bytes, AT_LOG, self.log.offset);
        put_u64(&mut bytes, AT_LOG + 8, self.log.chain);
        put_u32(&mut bytes, AT_LOG + 16, self.log.file);
        self.catalog.encode(&mut bytes[AT_CATALOG..AT_CATALOG + Tree::BYTES]);
        bytes[AT_DATABASE_ID..AT_DATABASE_ID + 16].copy_from_slice(&self.database_id);
        for (i, &(page, checksum)) in self.manifest.iter().enumerate() {
            put_u64(&mut bytes, AT_MANIFEST + 8 * i, u64::from(page.0) | u64::from(checksum) << 32);
        }
        for (i, page) in self.toggles.iter().enumerate() {
            put_u32(&mut bytes, AT_TOGGLES + 4 * i, page.0);
        }
        page::seal(&mut bytes);
        bytes
    }

    /// Reads one of the two meta pages; `bytes` are at least [`META_BYTES`] long.
    pub(crate) fn decode(bytes: &[u8], slot: u32) -> Result<Self, MetaFault> {
        let bytes = &bytes[..META_BYTES];
        if &bytes[AT_MAGIC..AT_MAGIC + 8] != MAGIC {
            return Err(MetaFault::NotColibri);
        }
        if page::compute_checksum(bytes) != page::checksum_of(bytes) {
            return Err(MetaFault::Damaged("the meta page's checksum does not match"));
        }
        if page::number_of(bytes) != PageId(slot) {
            return Err(MetaFault::Damaged("the meta page carries the other's number"));
        }
        let version = get_u32(bytes, AT_VERSION);
        if version > FORMAT_VERSION {
            return Err(MetaFault::Newer(version));
        }
        let toggles_len = get_u32(bytes, AT_TOGGLES_LEN) as usize;
        let manifest_len = get_u32(bytes, AT_MANIFEST_LEN) as usize;
        let page_size = get_u32(bytes, AT_PAGE_SIZE);
        let page_size_ok = page_size.is_power_of_two()
            && (crate::options::PAGE_SIZE_MIN..=crate::options::PAGE_SIZE_MAX).contains(&page_size);
        let page_count = get_u32(bytes, AT_PAGE_COUNT);
        let (txn, catalog) = (page::txn_of(bytes), Tree::decode(&bytes[AT_CATALOG..AT_CATALOG + Tree::BYTES]));
        if txn.0 > TXN_MAX || !catalog.is_plausible() {
            return Err(MetaFault::Damaged("a field of the meta page is out of range"));
        }
        if version == 0 || toggles_len > TOGGLES_MAX || manifest_len > MANIFEST_MAX || !page_size_ok || page_count < 2 {
            return Err(MetaFault::Damaged("a field of the meta page is out of range"));
        }
        Ok(Self {
            version,
            txn,
            page_size,
            page_count,
            database_id: bytes[AT_DATABASE_ID..AT_DATABASE_ID + 16].try_into().expect("sixteen bytes were sliced"),
            catalog,
            log: Position {
                offset: get_u64(bytes, AT_LOG),
                chain: get_u64(bytes, AT_LOG + 8),
                file: get_u32(bytes, AT_LOG + 16) & 1,
            },
            forest: PageId(if version >= FOREST_VERSION { get_u32(bytes, AT_FOREST) } else { 0 }),
            free_base: PageId(get_u32(bytes, AT_FREE_BASE)),
            free_base_pages: get_u32(bytes, AT_FREE_BASE_PAGES),
            free_log: PageId(get_u32(bytes, AT_FREE_LOG)),
            free_log_pages: get_u32(bytes, AT_FREE_LOG_PAGES),
            clean: get_u32(bytes, AT_FLAGS) & FLAG_CLEAN != 0,
            manifest: (0..manifest_len)
                .map(|i| get_u64(bytes, AT_MANIFEST + 8 * i))
                .map(|entry| (PageId(entry as u32), (entry >> 32) as u32))
                .collect(),
            toggles: (0..toggles_len).map(|i| PageId(get_u32(bytes, AT_TOGGLES + 4 * i))).collect(),
        })
    }
}
