//! Copies that have another history than the log, and how long the next one waits.

use std::time::Duration;

use colibri_storage::TxnId;

use super::RETRY_OPENING;

/// The longest pause before another copy that may not fit the log either.
const RETRY_DIVERGED_MAX: Duration = Duration::from_secs(300);

/// Where copies of a database turned out to have another history than the log.
///
/// Bug: a copy of another node was fetched at once, and kept, whenever the one before did not fit.
/// Consequence: where none fits, since etcd was restored from a backup, nodes copied from each
/// other until their disks were full. Fix: at the same transaction the next copy waits, longer each
/// time, and takes the place of the one before.
#[derive(Default)]
pub(super) struct Diverged {
    at: Option<TxnId>,
    pause: Duration,
}

impl Diverged {
    /// A copy has diverged. Gives how long to wait before the next one, if it is not the first.
    pub(super) fn note(&mut self, at: TxnId) -> Option<Duration> {
        if self.at != Some(at) {
            *self = Self { at: Some(at), pause: RETRY_OPENING };
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(RETRY_DIVERGED_MAX);
        Some(pause)
    }
}

pub(super) fn no_copy_fits(txn: TxnId) -> String {
    format!(
        "no copy of it has the history of the log, from transaction {} on: etcd may have been restored from a backup, \
         and the copies are newer",
        txn.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_diverge_at_the_same_place_wait_longer_each_time() {
        let mut diverged = Diverged::default();
        assert_eq!(diverged.note(TxnId(7)), None, "the first is kept, and copied anew at once");
        assert_eq!(diverged.note(TxnId(7)), Some(RETRY_OPENING));
        assert_eq!(diverged.note(TxnId(7)), Some(RETRY_OPENING * 2));
        assert_eq!(diverged.note(TxnId(9)), None, "it had come further");
        let pauses: Vec<_> = (0..20).map(|_| diverged.note(TxnId(9))).collect();
        assert_eq!(pauses.last(), Some(&Some(RETRY_DIVERGED_MAX)));
    }
}
