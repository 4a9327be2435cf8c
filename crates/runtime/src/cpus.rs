//! The number of threads: as many as can run at the same time.
//!
//! Not here: keeping to a quota. The cgroup stops threads, which do not count their time
//! themselves.

use std::fmt;
use std::str::FromStr;

/// An amount of CPU, such as `2` or `0.5`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Cpus(f64);

/// An amount of CPU that is none: it has to be a number above 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotCpus(String);

impl fmt::Display for NotCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no number of CPUs: it has to be above 0 and at most {}, such as 2 or 0.5", self.0, Cpus::MAX)
    }
}

impl std::error::Error for NotCpus {}

impl Cpus {
    /// More threads than this are a mistake.
    pub const MAX: u32 = 1024;

    /// What this process may use: the CPUs it may run on, and the quota of its cgroup.
    #[must_use]
    pub fn available() -> Self {
        Self(std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64))
    }

    /// `None` unless it is above 0 and at most [`Cpus::MAX`].
    #[must_use]
    pub fn new(cpus: f64) -> Option<Self> {
        (cpus > 0.0 && cpus <= f64::from(Self::MAX)).then_some(Self(cpus))
    }

    /// The number of threads: whole CPUs, at least one. A further thread for the rest of a fraction
    /// would use up the quota of all, and then all of them would stop until the next period.
    #[must_use]
    pub fn threads(self) -> usize {
        (self.0 as usize).max(1)
    }
}

impl FromStr for Cpus {
    type Err = NotCpus;

    fn from_str(text: &str) -> Result<Self, NotCpus> {
        text.trim().parse().ok().and_then(Self::new).ok_or_else(|| NotCpus(text.to_owned()))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_one_thread_and_the_rest_of_one_is_none() {
        for (text, threads) in [("0.5", 1), ("1", 1), ("1.9", 1), ("2", 2), (" 3.0 ", 3), ("1024", 1024)] {
            assert_eq!(text.parse::<Cpus>().unwrap().threads(), threads, "{text}");
        }
        for text in ["0", "-1", "NaN", "inf", "1025", "", "two"] {
            let error = text.parse::<Cpus>().unwrap_err().to_string();
            assert!(error.contains("such as 2 or 0.5"), "{error}");
        }
        assert!(Cpus::available().threads() >= 1);
    }
}
