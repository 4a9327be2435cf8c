//! Tests of free space by itself: the order in which pages are taken, the file's end, and the cost
//! of it all.

use std::collections::VecDeque;

use super::*;
use crate::disk::FileDisk;
use crate::options::Checksums;
use crate::page::{self, PageKind};

/// A space over a file of its own.
struct Place {
    space: Space,
    pager: Pager,
    _dir: tempfile::TempDir,
}

impl Place {
    /// With `pages` pages that a committed transaction took.
    fn new(policy: FreeSpace, pages: u32) -> Self {
        let mut place = Self::of_length(policy, 0);
        let taken: Vec<u32> = (0..pages).map(|_| place.take(1)).collect();
        assert!(taken.iter().copied().eq(2..2 + pages));
        place
    }

    fn of_length(policy: FreeSpace, bytes: u64) -> Self {
        Self::of_length_max(policy, bytes, 64 << 20)
    }

    /// Over a file of `bytes` bytes, all of it a hole, which may grow to `bytes_max`.
    fn of_length_max(policy: FreeSpace, bytes: u64, bytes_max: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(bytes).unwrap();
        let disk = FileDisk::new(file, path, bytes_max, true).unwrap();
        let pager = Pager::new(Box::new(disk), 4096, Checksums::FirstTouch);
        let mut space = Space::empty();
        space.set_policy(policy);
        Self { space, pager, _dir: dir }
    }

    fn take(&mut self, pages: u32) -> u32 {
        self.space.allocate(&self.pager, pages).unwrap().0
    }

    /// Frees pages, each by a transaction of its own, that nobody sees.
    fn free(&mut self, first_txn: u64, pages: &[u32]) {
        for (txn, &page) in (first_txn..).map(TxnId).zip(pages) {
            self.space.commit(txn, &[Freed { page: PageId(page), pages: 1, birth: txn }]);
            self.space.reclaim(&mut Vec::new(), txn);
        }
    }

    #[track_caller]
    fn expect(&mut self, pages: &[u32]) {
        let taken: Vec<u32> = pages.iter().map(|_| self.take(1)).collect();
        assert_eq!(taken, pages);
    }
}

#[test]
fn lifo_takes_what_was_freed_last() {
    let mut place = Place::new(FreeSpace::Lifo, 20);
    place.free(2, &[5, 15, 8, 3]);
    place.expect(&[3, 8]);
    place.free(6, &[19]);
    place.expect(&[19, 15, 5, 22]);
}

#[test]
fn fifo_takes_what_was_freed_first() {
    let mut place = Place::new(FreeSpace::Fifo, 20);
    place.free(2, &[5, 15, 8, 3]);
    place.expect(&[5, 15]);
    place.free(6, &[19]);
    place.expect(&[8, 3, 19, 22]);
}

#[test]
fn lowest_takes_what_is_nearest_to_the_start() {
    let mut place = Place::new(FreeSpace::Lowest, 20);
    place.free(2, &[15, 5, 8, 17]);
    place.expect(&[5, 8]);
    place.free(6, &[3]);
    place.expect(&[3, 15, 17, 22]);
}

#[test]
fn append_takes_no_freed_page() {
    let mut place = Place::new(FreeSpace::Append, 20);
    place.free(2, &[5, 6, 7, 8]);
    place.expect(&[22, 23]);
    assert_eq!(place.take(3), 24);
    place.space.release(PageId(24), 3);
    assert_eq!(place.take(1), 27);
    place.space.return_disk_space(&place.pager);
    place.space.reserve(&place.pager, 5).unwrap();
    assert_eq!(place.take(2), 28);
}

#[test]
fn a_run_is_taken_from_what_is_free() {
    for policy in [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest] {
        let mut place = Place::new(policy, 20);
        place.free(2, &[3, 10, 12, 11, 14]);
        assert_eq!(place.take(3), 10);
        assert_eq!(place.take(3), 22);
        // What the run took is not taken again.
        let mut rest = [place.take(1), place.take(1)];
        rest.sort_unstable();
        assert_eq!(rest, [3, 14], "{policy:?}");
        assert_eq!(place.take(1), 25);
    }
}

/// What was free when the database was opened is the oldest, and may be the lowest.
#[test]
fn pages_without_disk_space_take_their_turn() {
    for (policy, order) in
        [(FreeSpace::Lifo, [9, 4, 6, 7]), (FreeSpace::Fifo, [6, 7, 4, 9]), (FreeSpace::Lowest, [4, 6, 7, 9])]
    {
        let mut place = Place::new(policy, 20);
        (6..8).for_each(|page| _ = place.space.changes.remove(PageId(page), 1));
        (6..8).for_each(|page| place.space.allocator.add_unbacked(PageId(page), 1));
        place.free(2, &[4, 9]);
        place.expect(&order);
    }
}

/// A number that looks like chance.
fn mix(number: u64) -> u64 {
    let mut hash = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 31;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ hash >> 29
}

#[test]
fn what_readers_see_is_counted_as_if_each_page_were_asked() {
    for seed in 0..50 {
        println!("COLIBRI_SEED={seed}");
        let chance = |n: u64, below: u64| mix(seed * 10_000 + n) % below;
        let mut space = Space::empty();
        let mut runs = Vec::new();
        let mut txn = 0;
        for n in 0..40 {
            txn += 1 + chance(n, 3);
            let birth = TxnId(chance(n + 100, txn));
            let run = Freed { page: PageId(10 * n as u32 + 2), pages: 1 + chance(n + 200, 9) as u32, birth };
            space.commit(TxnId(txn), &[run]);
            runs.push((TxnId(txn), run));
        }
        let mut pins: Vec<TxnId> = (0..chance(300, 12)).map(|n| TxnId(chance(400 + n, txn + 2))).collect();
        pins.sort_unstable();
        let sees = |pin: TxnId, &(freed, run): &(TxnId, Freed)| run.birth <= pin && pin < freed;
        let sum = |seen: &dyn Fn(&(TxnId, Freed)) -> bool| -> u64 {
            runs.iter().filter(|run| seen(run)).map(|(_, run)| u64::from(run.pages)).sum()
        };
        let each: Vec<u64> = pins.iter().map(|&pin| sum(&|run| sees(pin, run))).collect();
        let any = sum(&|run| pins.iter().any(|&pin| sees(pin, run)));
        assert_eq!(space.pages_seen_by(&pins), (each, any));
    }
}

/// Pages behind the page count that had been given back get disk space before they are taken again.
#[test]
fn what_lies_behind_the_page_count_is_backed_before_it_is_taken() {
    use std::os::unix::fs::MetadataExt;
    let mut place = Place::new(FreeSpace::Lowest, 1000);
    let blocks = |place: &Place| std::fs::metadata(place._dir.path().join("data")).unwrap().blocks() * 512;
    let full = blocks(&place);
    let runs: Vec<Freed> = (102..1002).map(|page| Freed { page: PageId(page), pages: 1, birth: TxnId(1) }).collect();
    place.space.commit(TxnId(2), &runs);
    place.space.reclaim(&mut Vec::new(), TxnId(2));
    place.space.return_disk_space(&place.pager);
    let holes = blocks(&place) < full / 2;
    assert!(place.space.trim(&place.pager, TxnId(3), Trim::Idle));
    let page_count = place.space.page_count();
    assert!((102..110).contains(&page_count), "{page_count}");
    let punched = blocks(&place);
    // What the last transactions see is as long as before, and so is the file.
    assert!(!place.space.can_cut(TxnId(2), None) && !place.space.can_cut(TxnId(4), Some(TxnId(2))));
    assert!(place.space.can_cut(TxnId(3), Some(TxnId(3))));
    let taken = 800 - (page_count - 102);
    for _ in 0..taken {
        place.take(1);
    }
    let now = blocks(&place);
    assert!(!holes || now >= punched + u64::from(taken - 10) * 4096, "{now} bytes, {punched} before");
    assert!(place.space.page_count() <= 902);
}

#[test]
fn free_pages_at_the_end_are_kept_while_they_are_taken_now_and_then() {
    let mut place = Place::new(FreeSpace::Lifo, 1000);
    let free = |place: &mut Place, txn: u64, pages: std::ops::Range<u32>| {
        let runs: Vec<Freed> =
            pages.map(|page| Freed { page: PageId(page), pages: 1, birth: TxnId(txn - 1) }).collect();
        place.space.commit(TxnId(txn), &runs);
        place.space.reclaim(&mut Vec::new(), TxnId(txn));
    };
    place.space.trim(&place.pager, TxnId(2), Trim::Writing);
    free(&mut place, 2, 302..1002);
    for txn in 3..10 {
        // Takes what was freed last, the end of the file among it, and gives it back.
        let taken: Vec<u32> = (0..100).map(|_| place.take(1)).collect();
        assert!(place.space.trim_is_due());
        assert!(!place.space.trim(&place.pager, TxnId(txn), Trim::Writing), "{txn}");
        assert!(taken.contains(&1001));
        taken.iter().for_each(|&page| place.space.release(PageId(page), 1));
    }
    assert!(!place.space.trim_is_due());
    // When what is taken lies elsewhere for long enough, they go.
    place.space.set_lowest_first(true);
    place.expect(&(302..402).collect::<Vec<u32>>());
    assert!(place.space.trim_is_due() && place.space.trim(&place.pager, TxnId(10), Trim::Writing));
    assert_eq!(place.space.page_count(), 402 + base_pages_for(402, &place.pager));
}

/// What keeping books about free space costs: per commit and per steady point.
#[derive(Debug)]
struct Cost {
    /// Words of bitmaps looked at, per page taken.
    words: f64,
    /// Pages of the free map written, per steady point.
    map_pages: f64,
    /// How often the base was written anew.
    bases: u32,
    /// Pages of the free map that an opener reads.
    read_pages: u32,
}

/// Commits with a steady point after every fifty, in a file of which half is free, here and there.
fn cost_of_commits(policy: FreeSpace, free_pages: u32, steady_points: u64) -> Cost {
    let page_count = 2 * free_pages;
    let mut place = Place::of_length_max(policy, u64::from(page_count) * 4096 + (64 << 20), 256 << 30);
    let is_free = |page: u32| mix(u64::from(page)) & 1 == 1;
    // The state of an earlier steady point.
    place.space.tail.set_page_count(page_count);
    let mut free = PageSet::default();
    (2..page_count).filter(|&page| is_free(page)).for_each(|page| _ = free.insert(page));
    place.space.map = FreeMap::unwritten(page_count, free.clone());
    free.iter().for_each(|page| place.space.allocator.add(PageId(page), 1));
    let plan = place.space.begin_steady(&place.pager, TxnId(1)).unwrap();
    plan.runs.iter().for_each(|&(page, pages)| _ = place.pager.seal(page, pages));
    place.space.note_steady(TxnId(1));
    let mut used = (2..page_count).filter(|&page| !is_free(page)).map(|page| (page, 1)).collect::<VecDeque<_>>();
    let map = place.space.free_map_runs();
    used.retain(|&(page, _)| !map.iter().any(|(start, pages)| (start.0..start.0 + pages).contains(&page)));
    // The same part of the file is written again and again, however large the rest.
    used.truncate(8000);
    let (mut txn, mut taken, mut map_pages, mut bases) = (1, 0_u64, 0, 0);
    let mut meta = Meta::default();
    let started = crate::page_set::WORDS.get();
    for _ in 0..steady_points {
        for _ in 0..50 {
            txn += 1;
            let mut freed = Vec::new();
            for n in 0..8_u64 {
                let pages = if n == 7 && txn % 10 == 0 { 3 } else { 1 };
                let page = place.take(pages);
                taken += u64::from(pages);
                if pages > 1 {
                    let head = place.pager.bytes_mut(PageId(page), 1);
                    page::init_run(head, PageId(page), TxnId(txn), PageKind::Overflow, pages, (pages - 1) * 4096);
                } else {
                    page::init(place.pager.page_mut(PageId(page)), PageId(page), TxnId(txn), PageKind::Leaf, 0);
                }
                used.push_back((page, pages));
                // As much becomes free, of what is old and what is new.
                let (page, pages) = if n % 2 == 0 {
                    used.pop_front()
                } else {
                    used.remove(used.len() - 1 - (mix(txn * 8 + n) % 20) as usize)
                }
                .unwrap();
                let mine = place.space.is_new(PageId(page));
                let birth = TxnId(if mine { txn - 1 } else { 1 });
                freed.push(Freed { page: PageId(page), pages, birth });
            }
            place.space.commit(TxnId(txn), &freed);
            place.space.reclaim(&mut Vec::new(), TxnId(txn));
        }
        place.space.prepare_steady(&place.pager, 8).unwrap();
        let plan = place.space.begin_steady(&place.pager, TxnId(txn)).unwrap();
        for &(page, pages) in &plan.runs {
            let kind = page::kind_of(place.pager.raw(page, 1));
            if matches!(kind, Some(PageKind::FreeBase | PageKind::FreeLog)) {
                place.pager.seal(page, pages);
                map_pages += u64::from(pages);
                bases += u32::from(kind == Some(PageKind::FreeBase));
            }
        }
        meta = Meta { txn: TxnId(txn), ..plan.meta };
        place.space.note_steady(TxnId(txn));
    }
    let words = crate::page_set::WORDS.get() - started;
    // An opener finds the same.
    let loaded = Space::load(&place.pager, &meta).unwrap();
    assert!(loaded.free_at_steady().iter().eq(place.space.free_at_steady().iter()));
    Cost {
        words: words as f64 / taken as f64,
        map_pages: map_pages as f64 / steady_points as f64,
        bases,
        read_pages: meta.free_base_pages + meta.free_log_pages,
    }
}

/// With ten million free pages, a commit and a steady point cost what they cost with ten thousand.
#[test]
fn the_cost_of_keeping_books_does_not_depend_on_how_much_is_free() {
    for policy in [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest] {
        let small = cost_of_commits(policy, 10_000, 700);
        let large = cost_of_commits(policy, 10_000_000, 700);
        println!("{policy:?}: {small:?}; with ten million: {large:?}");
        assert!(large.words <= 2.0 * small.words + 1.0, "{policy:?}: {small:?}, {large:?}");
        // Most steady points write none. The base, 600 pages of it, is written anew once the chain
        // has as many.
        assert!(large.map_pages <= 2.0 * small.map_pages + 0.5, "{policy:?}: {small:?}, {large:?}");
        assert!(large.read_pages < 1300, "{policy:?}: {large:?}");
        // What a new base costs is in these figures: those of the small file always, those of the
        // large one here.
        let bases = u32::from(policy == FreeSpace::Fifo);
        assert!(small.bases > 1 && large.bases >= bases, "{policy:?}: {small:?}, {large:?}");
    }
}

/// Whoever reads the meta pages touches what they refer to, before anybody knows which states those
/// are.
#[test]
fn nothing_is_cut_off_while_somebody_looks_for_the_last_steady_point() {
    use crate::lock_file::{Identity, Shared};
    use crate::root::Root;
    let identity = Identity { boot_id: [0; 2], inode: 0, device: 0 };
    let shared = Shared::private(std::path::Path::new("lock"), identity, 4).unwrap();
    let mut space = Space::empty();
    space.cut_from(TxnId(5));
    let can_cut = |space: &Space| {
        let mut pinned = Vec::new();
        shared.pinned(&mut pinned);
        space.can_cut(TxnId(9), pinned.into_iter().min())
    };
    assert!(can_cut(&space));
    let find = |_| {
        assert!(!can_cut(&space));
        Ok(Root { txn: TxnId(7), ..Root::default() })
    };
    let (reader, _) = shared.pin_steady(0, 1, find).unwrap();
    assert!(can_cut(&space), "what it found is new enough");
    shared.unpin(reader);
}
