//! When a thread at work for long yields its CPU to other threads, of any process.
//!
//! The kernel cannot tell a long task from a thread that owes an answer, and would keep others
//! waiting for the rest of its slice. One that yields loses the rest of its own slice in turn, so
//! how often it may do so depends on who takes the CPU:
//!
//! ```text
//! lost     at work until the next yield
//! 0        50 µs              nobody wants the CPU
//! 400 µs   100 µs             others answer in between: they may have four fifths
//! 3 ms     3 ms               another thread never sleeps: each gets what the kernel gives it
//! ```

use std::cell::Cell;

use crate::shared::Shared;

/// A thread yields its CPU at most this often.
const YIELD_EVERY_NS: u64 = 50_000;
/// Who keeps the CPU for longer than this uses up the slice that the kernel gives, some 3 ms, and
/// does not wait for anything.
const SLICE_NS: u64 = 1_500_000;
/// No thread goes on for longer than this without a yield, however long it has lost its CPU.
const AT_WORK_MAX_NS: u64 = 20_000_000;

/// When a thread yields next.
#[derive(Debug, Default)]
pub(crate) struct GiveWay {
    at_ns: Cell<u64>,
}

thread_local! {
    /// That of a thread that has no role in a runtime.
    static ENTERED: GiveWay = const { GiveWay { at_ns: Cell::new(0) } };
}

impl GiveWay {
    /// Whether the next yield is due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.at_ns.get()
    }

    /// Yields the CPU. Gives for how long it was lost, in ns.
    pub(crate) fn yield_cpu(&self, shared: &Shared, now_ns: u64) -> u64 {
        std::thread::yield_now();
        let back_ns = shared.clock.now_ns();
        let lost_ns = back_ns - now_ns;
        self.at_ns.set(back_ns + at_work_ns(lost_ns));
        lost_ns
    }
}

/// How long a thread works until it yields again, after it has lost the CPU for so long.
fn at_work_ns(lost_ns: u64) -> u64 {
    let share = if lost_ns >= SLICE_NS { lost_ns } else { lost_ns / 4 };
    share.clamp(YIELD_EVERY_NS, AT_WORK_MAX_NS)
}

/// Yields the CPU of a thread that has no role, if that is due.
pub(crate) fn without_role(shared: &Shared) {
    // A thread that ends has no such variable any more, and little to do.
    let _ = ENTERED.try_with(|give_way| {
        let now_ns = shared.clock.now_ns();
        if give_way.is_due(now_ns) {
            give_way.yield_cpu(shared, now_ns);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_in_between_gets_most_of_the_cpu_and_who_never_sleeps_gets_half() {
        let us = 1_000;
        assert_eq!(at_work_ns(0), 50 * us);
        assert_eq!(at_work_ns(100 * us), 50 * us);
        assert_eq!(at_work_ns(400 * us), 100 * us);
        assert_eq!(at_work_ns(3_000 * us), 3_000 * us);
        assert_eq!(at_work_ns(300_000 * us), 20_000 * us);
    }
}
