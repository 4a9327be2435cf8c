//! Writers, one after the other, in the order in which they came.
//!
//! Invariants
//! - If there are any [`Turn`]s, exactly one is active.
//! - When a turn is dropped, active or not, the next one moves up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// The queue of writers. The first one may write.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Numbers of turns, and the wakers of the tasks that wait for them.
    waiting: VecDeque<(u64, Option<Waker>)>,
    next: u64,
}

impl Turns {
    /// A place at the end of the queue.
    pub(super) fn ask(self: &Arc<Self>) -> Turn {
        let mut queue = self.queue.lock();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back((number, None));
        Turn { of: Arc::clone(self), number }
    }
}

/// A place in the queue, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    of: Arc<Turns>,
    number: u64,
}

impl Turn {
    /// Ready when the turn is active.
    pub(super) fn poll_come(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.of.queue.lock();
        let place =
            queue.waiting.iter().position(|&(number, _)| number == self.number).expect("there until it is dropped");
        if place == 0 {
            return Poll::Ready(());
        }
        queue.waiting[place].1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.of.queue.lock();
            let was_first = queue.waiting.front().is_some_and(|&(number, _)| number == self.number);
            queue.waiting.retain(|&(number, _)| number != self.number);
            if was_first { queue.waiting.front_mut().and_then(|(_, waker)| waker.take()) } else { None }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_come(turn: &Turn) -> bool {
        turn.poll_come(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn turns_come_in_order_and_who_leaves_is_not_waited_for() {
        let turns = Arc::new(Turns::default());
        let (first, second, third) = (turns.ask(), turns.ask(), turns.ask());
        assert_eq!([has_come(&first), has_come(&second), has_come(&third)], [true, false, false]);
        drop(second);
        assert!(!has_come(&third));
        drop(first);
        assert!(has_come(&third) && !has_come(&turns.ask()));
        drop(third);
        assert!(has_come(&turns.ask()));
    }

    #[test]
    fn who_waits_is_woken() {
        struct Woken(std::sync::atomic::AtomicBool);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let turns = Arc::new(Turns::default());
        let (first, gone, second) = (turns.ask(), turns.ask(), turns.ask());
        let woken = Arc::new(Woken(false.into()));
        let waker = Waker::from(Arc::clone(&woken));
        assert!(second.poll_come(&mut Context::from_waker(&waker)).is_pending());
        let is_woken = || woken.0.load(std::sync::atomic::Ordering::Relaxed);
        drop(gone);
        assert!(!is_woken(), "it was not this one's turn that went");
        drop(first);
        assert!(is_woken());
    }
}
