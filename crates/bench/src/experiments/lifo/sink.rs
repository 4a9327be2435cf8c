//! Where the engine's write trace goes: each block into every simulated cache.

use colibri::{WriteKind, WriteTrace};

use super::cache::WriteBackCache;
use super::{CACHE_MB, PAGE_BYTES};

/// The file that a block belongs to. To the caches, blocks of different files are different blocks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Data,
    /// One of the two files.
    Log(u32),
}

impl Place {
    pub(super) const COUNT: u32 = 3;

    /// The caches' number of a block. The files take turns, so that numbers stay small.
    pub(super) fn number(self, block: u32) -> u32 {
        let place = match self {
            Self::Data => 0,
            Self::Log(file) => 1 + file,
        };
        block * Self::COUNT + place
    }
}

/// What the engine writes goes here.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) caches: [WriteBackCache; CACHE_MB.len()],
    pub(super) txns: u64,
    pub(super) steady_points: u64,
    pub(super) pages: u64,
    pub(super) log_blocks: u64,
}

impl Sink {
    pub(super) fn new(cache_mb: [u64; 2]) -> Self {
        let caches = cache_mb.map(|mb| WriteBackCache::new(mb << 20, PAGE_BYTES));
        Self { caches, txns: 0, steady_points: 0, pages: 0, log_blocks: 0 }
    }

    /// A commit reaches the disk as its record, if it has one; pages do with a steady point.
    pub(super) fn take(&mut self, trace: &WriteTrace) {
        match trace.kind {
            WriteKind::Commit => {
                self.txns += 1;
                if let Some((file, bytes)) = &trace.log {
                    let blocks = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
                    self.log_blocks += blocks.end - blocks.start;
                    blocks.for_each(|block| self.write(Place::Log(*file), block as u32));
                }
            }
            WriteKind::Steady => {
                let pages = trace.ranges.iter().flat_map(|&(start, pages)| start..start + pages);
                pages.for_each(|page| self.write(Place::Data, page));
                // The two meta pages in turn.
                self.write(Place::Data, (self.steady_points % 2) as u32);
                self.pages += trace.pages() + 1;
                self.steady_points += 1;
            }
        }
    }

    pub(super) fn write(&mut self, place: Place, block: u32) {
        self.caches.iter_mut().for_each(|cache| cache.write(place.number(block)));
    }

    /// Forgets the counts and keeps what is in the caches.
    pub(super) fn restart(&mut self) {
        (self.txns, self.steady_points, self.pages, self.log_blocks) = (0, 0, 0, 0);
        self.caches.iter_mut().for_each(|cache| cache.disk_writes = 0);
    }
}
