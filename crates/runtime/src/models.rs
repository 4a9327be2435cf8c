//! Models: every interleaving of a few threads, found by a model checker. Run with
//! `cargo test -p colibri-runtime --features loom --lib models`.
//!
//! A model in which somebody is not woken ends with all threads waiting, which the checker reports.

#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::sync::Arc as StdArc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::task::{Poll, Wake, Waker};

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::idle::{Idle, Slept};
use crate::mailbox::{SendError, WhenFull, mailbox};
use crate::reactor::{Direction, READ, Source, Ticket};
use crate::signal::Signal;
use crate::timer_driver::TimerDriver;

/// Preemptions in an interleaving: more than any known race needs.
const PREEMPTIONS_MAX: usize = 3;

fn check(model: impl Fn() + Sync + Send + 'static) {
    check_with(PREEMPTIONS_MAX, model);
}

fn check_with(preemptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(model);
}

/// Something that rings: it wakes one of those who wait, or the next to do so.
struct Bell {
    rings: Mutex<bool>,
    is_rung: Condvar,
}

impl Bell {
    fn new() -> Self {
        Self { rings: Mutex::new(false), is_rung: Condvar::new() }
    }

    fn ring(&self) {
        *self.rings.lock().unwrap() = true;
        self.is_rung.notify_one();
    }

    fn wait(&self) {
        let mut rings = self.rings.lock().unwrap();
        while !*rings {
            rings = self.is_rung.wait(rings).unwrap();
        }
        *rings = false;
    }
}

/// Threads that take work, and sleep.
struct Pond {
    idle: Idle,
    bell: Bell,
    work: AtomicUsize,
    done: AtomicUsize,
    leaving: AtomicBool,
}

impl Pond {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            idle: Idle::new(),
            bell: Bell::new(),
            work: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        })
    }

    fn wake_one(&self) {
        self.idle.wake_one(|| self.bell.ring());
    }

    fn put(&self) {
        self.work.fetch_add(1, Relaxed);
        self.wake_one();
    }

    fn take(&self) -> bool {
        self.work.fetch_update(Relaxed, Relaxed, |work| work.checked_sub(1)).is_ok()
    }

    /// The steps of a thread of the runtime; `run` is its task.
    fn serve(&self, run: impl Fn(&Self)) {
        loop {
            let is_leaving = self.leaving.load(Acquire);
            if self.take() {
                if self.idle.has_sleeper() && self.work.load(Relaxed) > 0 {
                    self.wake_one();
                }
                run(self);
                continue;
            }
            if is_leaving {
                break;
            }
            self.idle.announce();
            if self.work.load(Relaxed) > 0 || self.leaving.load(Relaxed) {
                self.idle.cancel();
                continue;
            }
            if self.idle.sleep(true) == Slept::Listen {
                self.bell.wait();
                self.idle.stop_listening();
                self.idle.woke();
            }
        }
        self.bell.ring();
    }

    fn leave(&self) {
        self.leaving.store(true, Release);
        loom::sync::atomic::fence(SeqCst);
        self.idle.end();
        self.bell.ring();
    }
}

#[test]
fn work_put_while_a_thread_decides_to_sleep_is_done() {
    check(|| {
        let pond = Pond::new();
        let server = Arc::clone(&pond);
        let server = thread::spawn(move || {
            server.serve(|pond| {
                if pond.done.fetch_add(1, Relaxed) == 1 {
                    pond.leave();
                }
            });
        });
        let other = Arc::clone(&pond);
        let other = thread::spawn(move || other.put());
        pond.put();
        other.join().unwrap();
        server.join().unwrap();
        assert_eq!(pond.done.load(Relaxed), 2);
    });
}

#[test]
fn work_that_needs_two_threads_gets_two() {
    // One more takes minutes.
    check_with(PREEMPTIONS_MAX - 1, || {
        let pond = Pond::new();
        let met = Arc::new((Mutex::new(0), Condvar::new()));
        // Each task waits for the other.
        let serve = |pond: Arc<Pond>, met: Arc<(Mutex<usize>, Condvar)>| {
            thread::spawn(move || {
                pond.serve(|pond| {
                    let (count, is_more) = &*met;
                    let mut here = count.lock().unwrap();
                    *here += 1;
                    is_more.notify_one();
                    while *here < 2 {
                        here = is_more.wait(here).unwrap();
                    }
                    drop(here);
                    if pond.done.fetch_add(1, Relaxed) == 1 {
                        pond.leave();
                    }
                });
            })
        };
        let servers = [serve(Arc::clone(&pond), Arc::clone(&met)), serve(Arc::clone(&pond), met)];
        pond.put();
        pond.put();
        servers.into_iter().for_each(|server| server.join().unwrap());
    });
}

#[test]
fn all_threads_leave_whatever_they_are_about_to_do() {
    check(|| {
        let pond = Pond::new();
        let serve = |pond: Arc<Pond>| {
            thread::spawn(move || {
                pond.serve(|pond| {
                    pond.done.fetch_add(1, Relaxed);
                });
            })
        };
        let servers = [serve(Arc::clone(&pond)), serve(Arc::clone(&pond))];
        pond.put();
        pond.leave();
        servers.into_iter().for_each(|server| server.join().unwrap());
        assert_eq!(pond.done.load(Relaxed), 1, "what was put before the end is done");
    });
}

/// Counts how often it is woken.
struct Woken {
    count: AtomicUsize,
}

impl Wake for Woken {
    fn wake(self: StdArc<Self>) {
        self.count.fetch_add(1, Release);
    }
}

const NEVER: u64 = u64::MAX;

#[test]
fn a_timer_armed_while_the_alarm_rings_fires_all_the_same() {
    check(|| {
        struct Clockwork {
            timer_driver: TimerDriver,
            /// When it rings. Any time may have gone by.
            alarm: Mutex<u64>,
            is_set: Condvar,
        }
        impl Clockwork {
            fn set(&self, at: u64) {
                *self.alarm.lock().unwrap() = at;
                self.is_set.notify_one();
            }
        }
        let clockwork =
            Arc::new(Clockwork { timer_driver: TimerDriver::new(), alarm: Mutex::new(NEVER), is_set: Condvar::new() });
        let woken = StdArc::new(Woken { count: AtomicUsize::new(0) });
        let arm = |at: u64| {
            let (clockwork, waker) = (Arc::clone(&clockwork), Waker::from(StdArc::clone(&woken)));
            move || {
                clockwork.timer_driver.arm(at, 0, waker);
                clockwork.timer_driver.settle(|at| clockwork.set(at));
            }
        };
        let (late, early) = (thread::spawn(arm(10)), thread::spawn(arm(5)));
        // The thread that sleeps until the alarm rings.
        while woken.count.load(Acquire) < 2 {
            let mut alarm = clockwork.alarm.lock().unwrap();
            while *alarm == NEVER {
                alarm = clockwork.is_set.wait(alarm).unwrap();
            }
            let now = std::mem::replace(&mut *alarm, NEVER);
            drop(alarm);
            clockwork.timer_driver.fire(now, |at| clockwork.set(at));
        }
        late.join().unwrap();
        early.join().unwrap();
    });
}

#[test]
fn a_send_while_the_mailbox_closes_is_refused_or_dropped_with_it() {
    check(|| {
        let (sender, mut inbox) = mailbox(1, WhenFull::Wait);
        let message = StdArc::new(());
        let sent = StdArc::clone(&message);
        let senders = thread::spawn(move || {
            let first = block_on(sender.send(StdArc::clone(&sent)));
            let second = block_on(sender.send(sent));
            (first.is_ok(), matches!(second, Err(SendError::Closed(_))))
        });
        let received = inbox.try_recv().is_some();
        drop(inbox);
        let (first, second_refused) = senders.join().unwrap();
        assert!(first || !received);
        assert!(second_refused || received, "there is room for one");
        assert_eq!(StdArc::strong_count(&message), 1, "no message is left");
    });
}

#[test]
fn a_reader_notices_messages_and_the_last_sender_going() {
    check(|| {
        let (sender, mut inbox) = mailbox(1, WhenFull::Wait);
        let sending = thread::spawn(move || {
            block_on(sender.send(1)).unwrap();
            block_on(sender.send(2)).unwrap();
        });
        let seen = block_on(async { [inbox.recv().await, inbox.recv().await, inbox.recv().await] });
        assert_eq!(seen, [Some(1), Some(2), None]);
        sending.join().unwrap();
    });
}

#[test]
fn a_sender_that_gives_up_its_turn_leaves_it_to_another() {
    check(|| {
        let (sender, mut inbox) = mailbox(1, WhenFull::Wait);
        sender.try_send(0).unwrap();
        let other = sender.clone();
        let waiting = thread::spawn(move || block_on(other.send(1)).unwrap());
        let giving_up = thread::spawn(move || {
            // Polled once, and dropped.
            let mut send = Box::pin(sender.send(2));
            block_on(poll_fn(|cx| Poll::Ready(send.as_mut().poll(cx).is_ready())))
        });
        let mut seen = vec![block_on(inbox.recv()).unwrap()];
        let was_sent = giving_up.join().unwrap();
        for _ in 0..1 + usize::from(was_sent) {
            seen.push(block_on(inbox.recv()).unwrap());
        }
        waiting.join().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, if was_sent { vec![0, 1, 2] } else { vec![0, 1] });
    });
}

#[test]
fn an_event_while_a_reader_finds_nothing_is_not_lost() {
    check(|| {
        let source = Arc::new(Source::new(0, READ));
        let bytes = Arc::new(AtomicBool::new(false));
        let kernel = {
            let (source, bytes) = (Arc::clone(&source), Arc::clone(&bytes));
            thread::spawn(move || {
                bytes.store(true, Release);
                source.wake(READ);
            })
        };
        let mut ticket = Ticket::New;
        block_on(poll_fn(|cx| {
            loop {
                let Poll::Ready(seen) = source.poll_ready(Direction::Read, cx.waker(), &mut ticket, || Ok(())) else {
                    return Poll::Pending;
                };
                if bytes.load(Acquire) {
                    return Poll::Ready(());
                }
                source.clear(Direction::Read.ready(), seen.unwrap());
            }
        }));
        kernel.join().unwrap();
    });
}

#[test]
fn a_signal_set_while_somebody_begins_to_wait_is_seen() {
    check(|| {
        let signal = Arc::new(Signal::default());
        let setter = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.set())
        };
        block_on(signal.wait());
        setter.join().unwrap();
    });
}

#[test]
fn a_timer_armed_while_the_threads_leave_is_heard_of_by_who_waits() {
    check(|| {
        let timer_driver = Arc::new(TimerDriver::new());
        let is_leaving = Arc::new(AtomicBool::new(false));
        let leaving = {
            let (timer_driver, is_leaving) = (Arc::clone(&timer_driver), Arc::clone(&is_leaving));
            thread::spawn(move || {
                is_leaving.store(true, Release);
                timer_driver.end();
            })
        };
        let mut timer = None;
        block_on(poll_fn(|cx| {
            match timer {
                None => timer = Some(timer_driver.arm(5, 0, cx.waker().clone())),
                Some(timer) => assert!(!timer_driver.poll(timer, cx.waker())),
            }
            // A thread that sees it fires the timer itself.
            if is_leaving.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        }));
        leaving.join().unwrap();
    });
}

#[test]
fn a_reader_that_begins_to_wait_while_the_threads_leave_is_told() {
    check(|| {
        let source = Arc::new(Source::new(0, 0));
        let is_over = Arc::new(AtomicBool::new(false));
        let leaving = {
            let (source, is_over) = (Arc::clone(&source), Arc::clone(&is_over));
            thread::spawn(move || {
                is_over.store(true, Release);
                source.call(Direction::Read);
            })
        };
        let mut ticket = Ticket::New;
        let told = block_on(poll_fn(|cx| {
            source.poll_ready(Direction::Read, cx.waker(), &mut ticket, || match is_over.load(Relaxed) {
                true => Err(std::io::ErrorKind::Other.into()),
                false => Ok(()),
            })
        }));
        assert!(told.is_err());
        leaving.join().unwrap();
    });
}
