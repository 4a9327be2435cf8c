//! Where the pages of an encrypted database lie in its file.
//!
//! ```text
//! file:   | meta 0 | meta 1 | tags | page 2 … page G + 1 | tags | page G + 2 … | …
//! tags:   G entries of 32 bytes, one for each of the next G pages; G = page size / 32
//! entry:  0  8  transaction of the steady point that the page was written for
//!         8 16  tag
//!        24  8  zero
//! ```
//! An entry lies within a sector, and what is written beside it stays the same. So a crash in the
//! middle of writing one page leaves all others as they were.

use std::ops::Range;

use crate::encryption::TAG_BYTES;
use crate::page::{TxnId, get_u64, put_u64};

// ON DISK: never renumber.
/// Bytes of the entry of a page.
pub(crate) const ENTRY_BYTES: u64 = 32;
const AT_TAG: usize = 8;
const _: () = assert!(AT_TAG + TAG_BYTES <= ENTRY_BYTES as usize);
/// The meta pages lie where they lie in every database.
const META_PAGES: u64 = 2;

/// What the file says beside the bytes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) steady: TxnId,
    pub(crate) tag: [u8; TAG_BYTES],
}

impl Entry {
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES as usize] {
        let mut bytes = [0; ENTRY_BYTES as usize];
        put_u64(&mut bytes, 0, self.steady.0);
        bytes[AT_TAG..AT_TAG + TAG_BYTES].copy_from_slice(&self.tag);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; ENTRY_BYTES as usize]) -> Self {
        let tag = bytes[AT_TAG..AT_TAG + TAG_BYTES].try_into().expect("as many bytes as a tag has were sliced");
        Self { steady: TxnId(get_u64(bytes, 0)), tag }
    }
}

/// A run of pages, or a part of it, that lies in one piece in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) page: u32,
    /// The bytes of the pages.
    pub(crate) bytes: Range<u64>,
    /// The entries of the pages.
    pub(crate) entries: Range<u64>,
    /// The page with the entries of these pages and of their neighbours.
    pub(crate) tags: Range<u64>,
}

/// The layout of a file with pages of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    page_bytes: u64,
}

impl Layout {
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self { page_bytes }
    }

    /// How many pages have their entries in one page.
    fn group(self) -> u64 {
        self.page_bytes / ENTRY_BYTES
    }

    /// The length of a file with so many pages.
    pub(crate) fn file_bytes(self, pages: u64) -> u64 {
        let grouped = pages.saturating_sub(META_PAGES);
        (pages + grouped.div_ceil(self.group())) * self.page_bytes
    }

    /// How many pages a file of this length has.
    pub(crate) fn pages(self, file_bytes: u64) -> u64 {
        let stored = file_bytes / self.page_bytes;
        let Some(grouped) = stored.checked_sub(META_PAGES) else { return stored };
        let (groups, rest) = (grouped / (self.group() + 1), grouped % (self.group() + 1));
        META_PAGES + groups * self.group() + rest.saturating_sub(1)
    }

    /// The pieces of a run of pages, none of which is a meta page, in ascending order.
    pub(crate) fn pieces(self, page: u32, pages: u32) -> impl Iterator<Item = Piece> {
        debug_assert!(u64::from(page) >= META_PAGES);
        let (mut at, end) = (u64::from(page), u64::from(page) + u64::from(pages));
        std::iter::from_fn(move || {
            let (group, within) = ((at - META_PAGES) / self.group(), (at - META_PAGES) % self.group());
            let count = (self.group() - within).min(end.checked_sub(at).filter(|&left| left > 0)?);
            let tags = (META_PAGES + group * (self.group() + 1)) * self.page_bytes;
            let start = tags + (1 + within) * self.page_bytes;
            let entries = tags + within * ENTRY_BYTES;
            let piece = Piece {
                page: at as u32,
                bytes: start..start + count * self.page_bytes,
                entries: entries..entries + count * ENTRY_BYTES,
                tags: tags..tags + self.page_bytes,
            };
            at += count;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_bytes_and_an_entry_of_its_own() {
        for page_bytes in [4096, 65536] {
            let layout = Layout::new(page_bytes);
            let pages = 5 * layout.group() as u32 + 7;
            let mut taken: Vec<Range<u64>> = Vec::new();
            for page in 2..pages {
                let piece = layout.pieces(page, 1).next().unwrap();
                assert!(piece.tags.start <= piece.entries.start && piece.entries.end <= piece.tags.end);
                assert_eq!(piece.entries.start / 512, (piece.entries.end - 1) / 512, "an entry lies in one sector");
                taken.extend([piece.bytes, piece.entries]);
            }
            taken.sort_by_key(|range| range.start);
            assert!(taken[0].start >= 2 * page_bytes);
            assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }

    #[test]
    fn a_run_lies_where_its_pages_lie() {
        let layout = Layout::new(4096);
        for (page, pages) in [(2, 1), (2, 128), (2, 129), (100, 300), (129, 2), (130, 128)] {
            let mut single: Vec<Piece> = (page..page + pages).flat_map(|page| layout.pieces(page, 1)).collect();
            for piece in layout.pieces(page, pages) {
                for (index, offset) in piece.bytes.clone().step_by(4096).enumerate() {
                    let alone = single.remove(0);
                    assert_eq!((alone.page, alone.bytes.start), (piece.page + index as u32, offset));
                    assert_eq!(alone.entries.start, piece.entries.start + index as u64 * ENTRY_BYTES);
                }
            }
            assert!(single.is_empty());
        }
    }

    #[test]
    fn lengths_of_files_and_numbers_of_pages_agree() {
        for page_bytes in [4096, 16384] {
            let layout = Layout::new(page_bytes);
            for pages in 0..5000 {
                let bytes = layout.file_bytes(pages);
                assert_eq!(layout.pages(bytes), pages);
                assert!(bytes == 0 || layout.pages(bytes - 1) < pages);
                if pages > 2 {
                    let last = layout.pieces(pages as u32 - 1, 1).next().unwrap();
                    assert_eq!(last.bytes.end, bytes);
                }
            }
        }
    }
}
