//! Keys: their names, how popular they are, and which of them are there.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::measure::random::Random;
use crate::sql::workload::load::push_int;

/// FNV-1a of the eight bytes of a number, as YCSB has it: its sign is dropped.
pub(crate) fn fnv(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    (hash as i64).unsigned_abs()
}

/// The name of a record: `user` and the hash of its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    bytes: [u8; 24],
    count: usize,
}

impl Key {
    pub(super) fn of(number: u64) -> Self {
        let mut name = *b"user00000000000000000000";
        let mut digits = Vec::with_capacity(20);
        push_int(&mut digits, fnv(number) as i64);
        name[4..4 + digits.len()].copy_from_slice(&digits);
        Self { bytes: name, count: 4 + digits.len() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

/// Exponent of the distribution.
pub(crate) const THETA: f64 = 0.99;
/// Terms of zeta that are added up one by one; behind them a formula is exact to fourteen digits.
const TERMS: u64 = 1_000;

/// The sum of 1/i^θ for i from 1 to n.
///
/// By Euler and Maclaurin: ζ(n) = c + n^(1−θ)/(1−θ) + n^−θ/2 − θ·n^(−θ−1)/12 + …, where c depends
/// on θ alone. So a distribution over a growing number of items costs two powers, and needs no
/// stored sum.
fn zeta(n: u64) -> f64 {
    let sum = |n: u64| (1..=n).rev().map(|i| (i as f64).powf(-THETA)).sum::<f64>();
    if n <= TERMS {
        return sum(n);
    }
    let tail = |n: f64| {
        let power = n.powf(-THETA);
        n * power / (1.0 - THETA) + power / 2.0 - THETA * power / n / 12.0
    };
    static CONSTANT: OnceLock<f64> = OnceLock::new();
    CONSTANT.get_or_init(|| sum(TERMS) - tail(TERMS as f64)) + tail(n as f64)
}

/// Zipf's distribution over a number of items, by the method of Gray and others (SIGMOD 1994) that
/// YCSB uses: the two most popular items have exactly their shares, the others about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipfian {
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    pub(crate) fn new(items: u64) -> Self {
        let zeta = zeta(items);
        let n = items as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - THETA)) / (1.0 - (1.0 + 0.5_f64.powf(THETA)) / zeta);
        Self { items: n, zeta, eta }
    }

    pub(crate) fn zeta(&self) -> f64 {
        self.zeta
    }

    /// A rank, from 0 for the most popular item.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let uniform = random.unit();
        let place = uniform * self.zeta;
        if place < 1.0 || self.items <= 1.0 {
            return 0;
        }
        if place < 1.0 + 0.5_f64.powf(THETA) || self.items <= 2.0 {
            return 1;
        }
        let rank = self.items * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items as u64 - 1)
    }
}

/// Inserts under way and ended: numbers below [`Inserted::visible`] have all ended, and all but the
/// gaps were acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Inserted {
    next: AtomicU64,
    visible: AtomicU64,
    /// Whether there are gaps at all: nearly always there are none.
    has_gaps: AtomicBool,
    ended: Mutex<Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    /// Those with others before them that have not.
    ahead: BinaryHeap<Reverse<u64>>,
    /// Those that were not acknowledged, each with the last one before it that was. That is known
    /// once it is visible.
    gaps: HashMap<u64, Option<u64>>,
}

impl Ended {
    fn up_to(&self, number: u64) -> Option<u64> {
        self.gaps.get(&number).copied().unwrap_or(Some(number))
    }
}

/// An insert under way. One that is given up, or fails, leaves a gap.
pub(crate) struct Inserting<'i> {
    inserted: &'i Inserted,
    number: u64,
    is_acknowledged: bool,
}

impl Inserting<'_> {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn acknowledged(mut self) {
        self.is_acknowledged = true;
    }
}

impl Drop for Inserting<'_> {
    fn drop(&mut self) {
        self.inserted.end(self.number, self.is_acknowledged);
    }
}

impl Inserted {
    pub(crate) fn reset(&self) {
        self.next.store(0, Ordering::Relaxed);
        self.visible.store(0, Ordering::Relaxed);
        self.has_gaps.store(false, Ordering::Relaxed);
        *self.ended.lock() = Ended::default();
    }

    /// The next insert.
    pub(crate) fn begin(&self) -> Inserting<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Inserting { inserted: self, number, is_acknowledged: false }
    }

    fn end(&self, number: u64, is_acknowledged: bool) {
        let mut ended = self.ended.lock();
        if !is_acknowledged {
            ended.gaps.insert(number, None);
            self.has_gaps.store(true, Ordering::Relaxed);
        }
        ended.ahead.push(Reverse(number));
        let mut visible = self.visible.load(Ordering::Relaxed);
        while ended.ahead.peek() == Some(&Reverse(visible)) {
            ended.ahead.pop();
            if ended.gaps.contains_key(&visible) {
                let before = visible.checked_sub(1).and_then(|before| ended.up_to(before));
                ended.gaps.insert(visible, before);
            }
            visible += 1;
        }
        // A thread that sees it also sees the gaps below it.
        self.visible.store(visible, Ordering::Release);
    }

    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// The last acknowledged one up to a number that is visible; nothing if there is none.
    pub(crate) fn up_to(&self, number: u64) -> Option<u64> {
        if !self.has_gaps.load(Ordering::Relaxed) {
            return Some(number);
        }
        self.ended.lock().up_to(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::workload::ycsb::ZIPFIAN_ITEMS;

    #[test]
    fn zeta_is_that_of_the_sum_and_of_ycsb() {
        for n in [1, 2, 999, 1_000, 1_001, 5_000, 100_000] {
            let sum: f64 = (1..=n).rev().map(|i| (i as f64).powf(-THETA)).sum();
            assert!((zeta(n) - sum).abs() < 1e-11, "{n}: {} and {sum}", zeta(n));
        }
        // The constant in YCSB's source.
        assert!((zeta(ZIPFIAN_ITEMS) - 26.469_028_201_783_02).abs() < 1e-9, "{}", zeta(ZIPFIAN_ITEMS));
    }

    #[test]
    fn the_most_popular_have_their_shares() {
        let zipfian = Zipfian::new(ZIPFIAN_ITEMS);
        let mut random = Random::new(42, 0);
        let draws = 1_000_000;
        let mut counts = [0.0; 2];
        for _ in 0..draws {
            let rank = zipfian.draw(&mut random);
            assert!(rank < ZIPFIAN_ITEMS);
            if let Some(count) = counts.get_mut(rank as usize) {
                *count += 1.0;
            }
        }
        for (rank, count) in counts.iter().enumerate() {
            let share = 1.0 / zipfian.zeta() / (rank as f64 + 1.0).powf(THETA);
            let deviation = (share * (1.0 - share) / f64::from(draws)).sqrt();
            assert!((count / f64::from(draws) - share).abs() < 4.0 * deviation, "rank {rank}: {count}");
        }
        assert!((1.0 / zipfian.zeta() - 0.0378).abs() < 0.0001, "3.8 % are of the first");
    }

    #[test]
    fn the_tail_follows_the_distribution() {
        // Of 10,000 items: how many draws are below each decade.
        let zipfian = Zipfian::new(10_000);
        let mut random = Random::new(42, 0);
        let draws = 400_000;
        let ranks: Vec<u64> = (0..draws).map(|_| zipfian.draw(&mut random)).collect();
        for below in [10, 100, 1_000, 10_000] {
            let found = ranks.iter().filter(|&&rank| rank < below).count() as f64 / draws as f64;
            let exact = zeta(below) / zeta(10_000);
            // The method is an approximation: off by at most a few percent between the ends.
            assert!((found - exact).abs() < 0.03, "{below}: {found} and {exact}");
        }
    }

    #[test]
    fn few_items_are_enough() {
        for items in 1..=4 {
            let zipfian = Zipfian::new(items);
            let mut random = Random::new(42, items);
            assert!((0..10_000).all(|_| zipfian.draw(&mut random) < items), "{items}");
        }
    }

    #[test]
    fn names_are_those_of_ycsb() {
        // FNV-64 of 0, as YCSB computes it.
        assert_eq!(fnv(0), 6_284_781_860_667_377_211);
        assert_eq!(Key::of(0).bytes(), b"user6284781860667377211");
        let names: std::collections::HashSet<Vec<u8>> = (0..100_000).map(|n| Key::of(n).bytes().to_vec()).collect();
        assert_eq!(names.len(), 100_000);
    }

    /// Bug: behind an insert that failed, was given up or was tried again after a conflict nothing
    /// became visible. Consequence: for the rest of the run "latest" was over records that grew
    /// old, and the audit, which asked the same counter, held. Fix: what was not acknowledged is a
    /// gap, and others are behind it.
    #[test]
    fn what_ended_is_visible_and_what_failed_is_a_gap_in_it() {
        let inserted = Inserted::default();
        let mut under_way: Vec<_> = (0..6).map(|_| Some(inserted.begin())).collect();
        assert_eq!(under_way.iter().flatten().map(Inserting::number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        for (ended, visible) in [(2, 0), (0, 1), (1, 3), (5, 3)] {
            under_way[ended].take().unwrap().acknowledged();
            assert_eq!(inserted.visible(), visible);
        }
        assert_eq!((inserted.up_to(2), inserted.up_to(0)), (Some(2), Some(0)));
        // Given up.
        drop(under_way[4].take());
        drop(under_way[3].take());
        assert_eq!(inserted.visible(), 6);
        assert_eq!([5, 4, 3, 2].map(|number| inserted.up_to(number)), [Some(5), Some(2), Some(2), Some(2)]);
        inserted.reset();
        drop(inserted.begin());
        assert_eq!((inserted.visible(), inserted.up_to(0)), (1, None));
    }
}
