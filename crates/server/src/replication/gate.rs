//! Who is in a transaction on a database of a cluster, so that its leadership can be handed over
//! between transactions.
//!
//! A session enters before it begins what a client has sent, and leaves when the answers have been
//! sent and no transaction is open. While the gate is closed nobody enters. When it is closed and
//! nobody is inside, nothing can be committed, and no session has answers to send.
//!
//! Invariants:
//! 1. Between [`Gate::close`] and [`Gate::open`] the number of those inside never rises.
//! 2. Who waits for the gate is woken when it opens; who waits until nobody is inside, when the last
//!    one leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wait::Signal;

/// Set while it is closed; the other bits count those inside.
const CLOSED: u64 = 1 << 63;

/// A database's gate.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: AtomicU64,
    /// It was opened, or the last one has left while it was closed.
    pub(crate) changed: Signal,
}

/// The right to be inside, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Gate>);

impl Gate {
    /// Enters, unless it is closed.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<Inside> {
        let enter = |state: u64| (state & CLOSED == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).is_ok().then(|| Inside(Arc::clone(self)))
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
    }

    pub(crate) fn open(&self) {
        self.state.fetch_and(!CLOSED, Ordering::SeqCst);
        self.changed.give();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// How many are inside.
    pub(crate) fn count(&self) -> u64 {
        self.state.load(Ordering::SeqCst) & !CLOSED
    }

    /// Waits until nobody is inside. To be called while it is closed.
    pub(crate) async fn until_empty(&self) {
        loop {
            let seen = self.changed.count();
            if self.count() == 0 {
                return;
            }
            self.changed.wait(seen).await;
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Pairs with `close`: whoever has closed it sees the count, or is woken.
        if self.0.state.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            self.0.changed.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait::block_on;
    use super::*;

    #[test]
    fn nobody_enters_a_closed_gate_and_the_last_who_leaves_is_waited_for() {
        let gate: Arc<Gate> = Arc::default();
        let inside = [gate.try_enter(), gate.try_enter()];
        assert!(inside.iter().all(Option::is_some) && gate.count() == 2);
        gate.close();
        assert!(gate.try_enter().is_none() && gate.is_closed());
        let waiting = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || block_on(gate.until_empty()))
        };
        for one in inside {
            assert!(!waiting.is_finished());
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(one);
        }
        waiting.join().expect("it was woken");
        let seen = gate.changed.count();
        gate.open();
        block_on(gate.changed.wait(seen));
        assert!(gate.try_enter().is_some() && gate.count() == 0);
    }

    #[test]
    fn threads_that_come_and_go_never_are_inside_while_it_is_closed_and_empty() {
        use std::sync::atomic::{AtomicBool, AtomicUsize};
        let gate: Arc<Gate> = Arc::default();
        let (at_work, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        if let Some(_inside) = gate.try_enter() {
                            at_work.fetch_add(1, Ordering::SeqCst);
                            std::hint::spin_loop();
                            at_work.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            for _ in 0..300 {
                gate.close();
                block_on(gate.until_empty());
                assert_eq!(at_work.load(Ordering::SeqCst), 0);
                gate.open();
                std::thread::yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
