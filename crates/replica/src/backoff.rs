//! Pauses between tries to reach the service again.

use std::time::Duration;

use crate::coordinator::Coordinator;

const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Doubles from try to try.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failed_in_a_row: u32,
}

impl Backoff {
    /// Waits after a failed try.
    pub(crate) async fn wait(&mut self, coordinator: &dyn Coordinator) {
        let pause = SHORTEST.saturating_mul(1 << self.failed_in_a_row.min(10)).min(LONGEST);
        self.failed_in_a_row += 1;
        coordinator.sleep(pause).await;
    }

    /// A try has succeeded.
    pub(crate) fn reset(&mut self) {
        self.failed_in_a_row = 0;
    }
}
