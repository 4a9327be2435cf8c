//! Queues: jobs that are done once each, and messages that several groups of consumers read.
//!
//! | module | holds |
//! | --- | --- |
//! | `jobs` | a table of jobs: put, taken by one worker, acknowledged |
//! | `messages` | partitioned messages, put in batches, read by groups that keep their place |
//! | `seen` | which jobs were acknowledged, to tell one that is done twice |
//!
//! Both use READ COMMITTED whatever `--isolation` says: what a worker takes depends on what others
//! have at the moment, and it concludes nothing from that. A serializable take would run again for
//! each job that goes meanwhile.

mod jobs;
mod messages;
mod seen;

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use jobs::Jobs;
pub use messages::Pattern;
pub(crate) use messages::{Messages, Shape};

/// How a transaction begins.
const BEGIN_QUEUE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The wall clock, in microseconds since 1970.
fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}

/// Random text that cannot be compressed. It has at most this many bytes.
fn filler(number: i64, bytes: usize) -> Vec<u8> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut random = crate::measure::random::Random::new(number as u64, 7);
    let mut text = Vec::with_capacity(bytes + 12);
    while text.len() < bytes {
        let mut bits = random.next();
        for _ in 0..12 {
            text.push(LETTERS[(bits & 31) as usize]);
            bits >>= 5;
        }
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests;
