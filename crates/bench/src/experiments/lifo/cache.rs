//! A write-back cache with a battery, as storage controllers have: it takes a page at once, and
//! writes it to the disk only when it needs the room.
//!
//! The page that was written longest ago goes first. A page that is written again while it is in
//! the cache costs the disk nothing.
//!
//! Invariants: the pages in the cache form one ring through `HEAD`, from the one written last to
//! the one written longest ago; `older` of a page that is not in the cache is `ABSENT`.
//!
//! Not here: writing neighbours together, which a controller may do.

const ABSENT: u32 = u32::MAX;
/// The place in the ring that is no page.
const HEAD: usize = 0;

/// A simulated cache, which counts the pages that the disk has to write.
#[derive(Debug)]
pub(crate) struct WriteBackCache {
    /// By page number and one: the neighbours in the ring.
    older: Vec<u32>,
    newer: Vec<u32>,
    pages: u64,
    pages_max: u64,
    /// Pages that went to the disk.
    pub(crate) disk_writes: u64,
}

impl WriteBackCache {
    pub(crate) fn new(bytes: u64, page_bytes: u64) -> Self {
        Self { older: vec![0], newer: vec![0], pages: 0, pages_max: (bytes / page_bytes).max(1), disk_writes: 0 }
    }

    /// A page is written.
    pub(crate) fn write(&mut self, page: u32) {
        let place = page as usize + 1;
        if place >= self.older.len() {
            let places = (place + 1).next_power_of_two();
            self.older.resize(places, ABSENT);
            self.newer.resize(places, ABSENT);
        }
        if self.older[place] != ABSENT {
            self.unlink(place);
        } else if self.pages == self.pages_max {
            self.unlink(self.newer[HEAD] as usize);
            self.disk_writes += 1;
        } else {
            self.pages += 1;
        }
        let newest = self.older[HEAD] as usize;
        self.older[place] = newest as u32;
        self.newer[place] = HEAD as u32;
        self.newer[newest] = place as u32;
        self.older[HEAD] = place as u32;
    }

    fn unlink(&mut self, place: usize) {
        let (older, newer) = (self.older[place], self.newer[place]);
        self.newer[older as usize] = newer;
        self.older[newer as usize] = older;
        self.older[place] = ABSENT;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn it_writes_what_a_plain_list_would() {
        for pages_max in [1, 2, 3, 10, 100] {
            let mut cache = WriteBackCache::new(pages_max * 4096, 4096);
            let (mut list, mut written) = (VecDeque::new(), 0);
            let mut random = 1_u64;
            for _ in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Low page numbers more often.
                let page = ((random >> 40) % 200 * ((random >> 33) % 100) / 100) as u32;
                cache.write(page);
                match list.iter().position(|&other| other == page) {
                    Some(index) => _ = list.remove(index),
                    None if list.len() as u64 == pages_max => {
                        list.pop_back();
                        written += 1;
                    }
                    None => {}
                }
                list.push_front(page);
                assert_eq!((cache.disk_writes, cache.pages), (written, list.len() as u64));
            }
        }
    }
}
