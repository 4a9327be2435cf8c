//! Confidence intervals by resampling: how much of a difference chance explains.
//!
//! Neighbouring seconds of a run are alike (a checkpoint takes several), so a timeline is resampled
//! in blocks. Whole runs are resampled one by one. The median of a few runs has an exact interval
//! without resampling.
//!
//! Not here: tests that assume a distribution. Throughput and tail latency have none of the usual
//! ones.

use crate::measure::random::Random;

const RESAMPLES: usize = 2_000;
const SEED: u64 = 42;
/// The part of all resamples that lies below, and above, an interval of 95 %.
const TAIL: f64 = 0.025;
/// So few have no spread.
const SAMPLES_MIN: usize = 2;

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// A figure of some values.
pub(crate) type Statistic = fn(&[f64]) -> f64;

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Samples of one figure, and how they are to be resampled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    pub(crate) values: Vec<f64>,
    /// Neighbours that stay together.
    pub(crate) block: usize,
}

impl Samples {
    /// Of whole runs.
    pub(crate) fn runs(values: Vec<f64>) -> Self {
        Self { values, block: 1 }
    }

    /// Of seconds of one run.
    pub(crate) fn timeline(values: Vec<f64>) -> Self {
        // As long as the usual background work of a database takes, but at least eight blocks.
        let block = (values.len() / 8).clamp(1, 5);
        Self { values, block }
    }

    fn resample(&self, random: &mut Random) -> Vec<f64> {
        let count = self.values.len();
        let mut drawn = Vec::with_capacity(count + self.block);
        while drawn.len() < count {
            // Blocks go round, so that the ends are drawn as often as the middle.
            let start = random.below(count as u64) as usize;
            drawn.extend((start..start + self.block).map(|place| self.values[place % count]));
        }
        drawn.truncate(count);
        drawn
    }
}

/// Runs from which on their median has an interval of 95 %: all of them are on one side of it once
/// in 32 times.
pub(crate) const RUNS_MIN: usize = 6;

/// The ends of a 95 % interval of the median of whole runs. It holds for any distribution: the
/// interval is the range of the runs without the lowest and the highest ones, and chance says how
/// many of these can be left out. Of fewer than [`RUNS_MIN`] runs it is their range; without a run
/// its ends are not a number.
pub(crate) fn median_interval(runs: &[f64]) -> (f64, f64) {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(last), count) = (sorted.len().checked_sub(1), sorted.len() as f64) else { return (f64::NAN, f64::NAN) };
    // The binomial distribution: the chance that at most `left_out` values are below the median.
    let mut term = 0.5_f64.powf(count);
    let (mut sum, mut left_out) = (term, 0);
    loop {
        let next = f64::from(left_out) + 1.0;
        term *= (count - next + 1.0) / next;
        sum += term;
        if sum > TAIL {
            break;
        }
        left_out += 1;
    }
    (sorted[left_out as usize], sorted[last - left_out as usize])
}

/// The ends of a 95 % interval of the ratio of two samples' statistics, `b` to `a`. One value says
/// nothing about the spread of others, so its ends are not a number, either.
pub(crate) fn ratio_interval(a: &Samples, b: &Samples, statistic: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    if a.values.len().min(b.values.len()) < SAMPLES_MIN {
        return (f64::NAN, f64::NAN);
    }
    let mut random = Random::new(SEED, 1);
    let ratio = |random: &mut Random| statistic(&b.resample(random)) / statistic(&a.resample(random));
    ends((0..RESAMPLES).map(|_| ratio(&mut random)).collect())
}

fn ends(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    (at(TAIL), at(1.0 - TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(samples: &Samples, statistic: Statistic) -> (f64, f64) {
        let mut random = Random::new(SEED, 0);
        ends((0..RESAMPLES).map(|_| statistic(&samples.resample(&mut random))).collect())
    }

    fn normal(random: &mut Random) -> f64 {
        // The sum of twelve uniform numbers.
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn an_interval_of_95_percent_misses_about_five_times_in_a_hundred() {
        let mut random = Random::new(7, 0);
        let mut hits = 0;
        for _ in 0..200 {
            let samples = Samples::runs((0..40).map(|_| 100.0 + 10.0 * normal(&mut random)).collect());
            let (low, high) = interval(&samples, mean);
            hits += u32::from(low <= 100.0 && 100.0 <= high);
        }
        assert!((178..=198).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn an_interval_of_a_median_holds_it_95_times_in_a_hundred() {
        let mut random = Random::new(7, 0);
        for count in [6, 7, 9, 20] {
            let mut sample = || (0..count).map(|_| (normal(&mut random)).exp()).collect::<Vec<_>>();
            let hits = (0..2_000)
                .filter(|_| {
                    let (low, high) = median_interval(&sample());
                    low <= 1.0 && 1.0 <= high
                })
                .count();
            // Exactly 96.9, 98.4, 96.1 and 95.9 %.
            assert!((1_890..=1_985).contains(&hits), "{count} runs: {hits} of 2,000");
        }
        // Of nine and more the outermost ones are left out.
        let ends = |count: u32| median_interval(&(1..=count).map(f64::from).collect::<Vec<_>>());
        assert_eq!([1, 2, 5, 6, 8, 9, 12].map(ends).map(|(low, _)| low), [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]);
        assert_eq!((ends(3), ends(9), ends(12)), ((1.0, 3.0), (2.0, 8.0), (3.0, 10.0)));
        assert!(median_interval(&[]).0.is_nan());
    }

    #[test]
    fn neighbours_that_are_alike_widen_the_interval() {
        let mut random = Random::new(7, 0);
        let mut level = 0.0;
        let values: Vec<f64> = (0..200)
            .map(|second| {
                if second % 5 == 0 {
                    level = 10.0 * normal(&mut random);
                }
                100.0 + level
            })
            .collect();
        let width = |samples: &Samples| {
            let (low, high) = interval(samples, mean);
            high - low
        };
        let (blocks, single) = (width(&Samples::timeline(values.clone())), width(&Samples::runs(values)));
        assert!(blocks > 1.5 * single, "{blocks} and {single}");
    }

    #[test]
    fn a_ratio_is_found_and_none_is_not_invented() {
        let mut random = Random::new(7, 0);
        let mut sample = |level: f64| Samples::runs((0..30).map(|_| level + normal(&mut random)).collect());
        let (a, b, c) = (sample(100.0), sample(100.0), sample(90.0));
        let (low, high) = ratio_interval(&a, &b, mean);
        assert!(low < 1.0 && high > 1.0);
        let (low, high) = ratio_interval(&a, &c, mean);
        assert!(low > 0.88 && high < 0.92, "{low} {high}");
        assert!(ratio_interval(&a, &Samples::default(), mean).0.is_nan());
        assert!(ratio_interval(&Samples::runs(vec![100.0]), &Samples::runs(vec![94.0]), mean).0.is_nan());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert!(median(&[]).is_nan());
    }
}
