//! How long a flush takes: one block, then `fdatasync`, as a commit does it.
//!
//! The blocks lie one after the other in a file that was filled with zeros before, as those of the
//! log do: so the file system has no metadata to write, and only the way to the medium is measured.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Blocks, each flushed by itself.
const FLUSHES: u64 = 64;
/// The time after which no more flushes are started: a slow disk is known before.
const TIME_MAX: Duration = Duration::from_secs(5);
const BLOCK_BYTES: u64 = 4096;

/// The times of the flushes in ascending order; at least one.
#[derive(Debug)]
pub(super) struct Flushes(Vec<Duration>);

impl Flushes {
    #[cfg(test)]
    pub(super) fn all(took: Duration, slowest: Duration) -> Self {
        let mut all = vec![took; FLUSHES as usize - 1];
        all.push(slowest);
        Self(all)
    }

    /// The shortest time within which so large a part of the flushes ended.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1]
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Writes and flushes in a file without a name in `dir`.
pub(super) fn measure(dir: &Path) -> io::Result<Flushes> {
    let path = dir.join(format!(".colibri-doctor-{}", std::process::id()));
    let file = File::options().write(true).create_new(true).open(&path)?;
    // The file has no name from here on, so the kernel removes it however this process ends.
    fs::remove_file(&path)?;
    let block = [0; BLOCK_BYTES as usize];
    for index in 0..FLUSHES {
        file.write_all_at(&block, index * BLOCK_BYTES)?;
    }
    file.sync_all()?;
    let begin = Instant::now();
    let mut flushes = Vec::with_capacity(FLUSHES as usize);
    for index in 0..FLUSHES {
        let block = [index as u8 | 1; BLOCK_BYTES as usize];
        let at = Instant::now();
        file.write_all_at(&block, index * BLOCK_BYTES)?;
        file.sync_data()?;
        flushes.push(at.elapsed());
        if begin.elapsed() > TIME_MAX {
            break;
        }
    }
    flushes.sort();
    Ok(Flushes(flushes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let flushes = Flushes((1..=10).map(Duration::from_millis).collect());
        let ms = |percent| flushes.percentile(percent).as_millis();
        assert_eq!((ms(0), ms(50), ms(90), ms(91), ms(100)), (1, 5, 9, 10, 10));
    }

    #[test]
    fn a_directory_that_cannot_be_written_to_is_an_error() {
        assert!(measure(Path::new("/proc")).is_err());
    }
}
