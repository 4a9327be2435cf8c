//! Random numbers for load generators: eight bytes of state a client, a nanosecond or two a draw,
//! the same on every machine.
//!
//! Invariants
//! - What a seed and a stream give is part of the data format of generated databases: another order
//!   of draws, or another generator, is another database.
//!
//! Not here: random numbers that must be unpredictable.

/// A stream of random numbers (SplitMix64). Copying it copies its place: the copy draws the same
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Random {
    state: u64,
}

/// Scatters the bits of a number: one step of SplitMix64 without its counter.
pub(crate) fn mix(value: u64) -> u64 {
    let mixed = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// Characters of random strings: 64 of them, so that six random bits choose one.
pub(crate) const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -";

impl Random {
    /// Stream number `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mix(stream.wrapping_add(0x5851_F42D_4C95_7F2D))) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// From 0 to `bound - 1`. (The bias of one multiplication is below 2⁻³² for bounds that fit 32
    /// bits.)
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    /// At least 0 and below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something happens that happens `share` of `of` times.
    pub(crate) fn chance(&mut self, share: u64, of: u64) -> bool {
        self.below(of) < share
    }

    /// Negative-exponentially distributed with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// TPC-C's non-uniform numbers from `low` to `high` (clause 2.1.6), with the constant `c` of
    /// the run.
    pub(crate) fn nurand(&mut self, a: i64, low: i64, high: i64, c: i64) -> i64 {
        let bits = self.between(0, a) | self.between(low, high);
        (bits + c) % (high - low + 1) + low
    }

    /// Appends `count` characters that need no escaping in any text format.
    pub(crate) fn characters(&mut self, count: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + count, 0);
        for part in out[start..].chunks_mut(10) {
            let mut bits = self.next();
            for byte in part {
                *byte = CHARACTERS[(bits & 63) as usize];
                bits >>= 6;
            }
        }
    }

    /// Appends `count` digits.
    pub(crate) fn digits(&mut self, count: usize, out: &mut Vec<u8>) {
        for _ in 0..count {
            out.push(b'0' + self.below(10) as u8);
        }
    }

    /// Puts things into a random order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Pearson's statistic of counts that should all be equal, in standard deviations above what is
    /// expected.
    pub(crate) fn unevenness(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let chi = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum::<f64>();
        let freedom = (counts.len() - 1) as f64;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn a_seed_replays_and_streams_differ() {
        let draws = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
        // Part of the format of generated databases: never to change.
        assert_eq!(draws(42, 0), [0x8684_1829_902F_4176, 0x68C8_DF54_1B79_986B, 0x1F87_8BE3_05AA_A034]);
    }

    #[test]
    fn uniform_numbers_are_uniform_at_every_bound() {
        for bound in [2, 3, 10, 91, 1000] {
            let mut random = Random::new(42, bound);
            let mut counts = vec![0; bound as usize];
            for _ in 0..bound * 2_000 {
                counts[random.below(bound) as usize] += 1;
            }
            let sigmas = unevenness(&counts);
            assert!(sigmas.abs() < 4.0, "{bound}: {sigmas}");
        }
        let mut random = Random::new(42, 0);
        let draws: Vec<i64> = (0..1000).map(|_| random.between(-1, 1)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&-1), Some(&1)));
    }

    #[test]
    fn streams_do_not_know_of_each_other() {
        // The first draws of neighbouring streams are as good as draws of one.
        let mut counts = [0; 64];
        for stream in 0..128_000 {
            counts[Random::new(7, stream).below(64) as usize] += 1;
        }
        assert!(unevenness(&counts).abs() < 4.0);
    }

    #[test]
    fn exponential_waits_have_their_mean_and_their_median() {
        let mut random = Random::new(42, 0);
        let mut draws: Vec<f64> = (0..200_000).map(|_| random.exponential(12.0)).collect();
        draws.sort_by(f64::total_cmp);
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        // The standard error is 12/√200,000 = 0.027.
        assert!((mean - 12.0).abs() < 0.11, "{mean}");
        assert!((draws[100_000] - 12.0 * std::f64::consts::LN_2).abs() < 0.11);
    }

    #[test]
    fn nurand_is_as_the_specification_defines_it() {
        // All pairs of the two uniform numbers, counted exactly, against draws.
        let (a, low, high, c) = (15_i64, 1_i64, 100_i64, 7_i64);
        let mut exact = vec![0.0; 100];
        for x in 0..=a {
            for y in low..=high {
                exact[(((x | y) + c) % (high - low + 1)) as usize] += 1.0 / ((a + 1) as f64 * 100.0);
            }
        }
        let draws = 500_000;
        let mut random = Random::new(42, 0);
        let mut counts = vec![0_u64; 100];
        for _ in 0..draws {
            let number = random.nurand(a, low, high, c);
            assert!((low..=high).contains(&number));
            counts[(number - low) as usize] += 1;
        }
        let (mut chi, mut freedom) = (0.0, -1.0);
        for (&count, share) in counts.iter().zip(exact) {
            if share == 0.0 {
                assert_eq!(count, 0);
                continue;
            }
            let expected = share * f64::from(draws);
            chi += (count as f64 - expected).powi(2) / expected;
            freedom += 1.0;
        }
        let sigmas = (chi - freedom) / f64::sqrt(2.0 * freedom);
        assert!(sigmas.abs() < 4.0, "{sigmas}");
    }

    #[test]
    fn characters_are_of_the_alphabet_and_all_occur() {
        let mut text = Vec::new();
        Random::new(42, 0).characters(10_001, &mut text);
        assert_eq!(text.len(), 10_001);
        let mut counts = [0; 64];
        for byte in text {
            counts[CHARACTERS.iter().position(|&character| character == byte).unwrap()] += 1;
        }
        assert!(unevenness(&counts).abs() < 4.0);
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut random = Random::new(42, 0);
        let mut counts = [0; 6];
        for _ in 0..60_000 {
            let mut things = [0, 1, 2];
            random.shuffle(&mut things);
            counts[things[0] * 2 + usize::from(things[1] > things[2])] += 1;
        }
        assert!(unevenness(&counts).abs() < 4.0);
    }
}
