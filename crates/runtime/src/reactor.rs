//! The reactor: sockets, the alarm of timers, and the bell that other threads ring.
//!
//! All of them are registered once with one `epoll` descriptor, edge-triggered. Any number of
//! threads wait on it. An event wakes one of them, which runs the task that waited for the event.
//!
//! ```text
//! token   bits 63..32  generation    31..0  place of the source; the bell and the alarm have tokens of their own
//! ready   bits 63..8   count of events    7..0  READ WRITE READ_CLOSED WRITE_CLOSED MARKED
//! ```
//!
//! Invariants
//! 1. A bit of `ready` is set by an event. It is cleared by a task that the kernel told that there
//!    is nothing, or less than asked for, if no event came since before the task asked. *Closed*
//!    bits are never cleared: no other event will come.
//! 2. Less than asked for means that there is no more, except at a mark: a read ends before a byte
//!    that was sent as urgent, and no event may come for what follows it. So after the first mark
//!    (`MARKED`, which is never cleared) only *nothing* clears a bit. The event for the bytes
//!    behind a mark also tells of the mark. For marks of Unix sockets see `net`.
//! 3. A waker is registered before `ready` is read for the last time, and an event sets `ready`
//!    before it takes the wakers.
//! 4. A task that stops waiting in an `Attempt` removes its waker.
//! 5. No waker is cloned, dropped or woken while a lock is held: it is foreign code, which may end
//!    up here again.
//! 6. Bell and alarm are never read, since each ring and each expiry is an edge.
//!
//! Not here: which thread waits, and for how long.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use slab::Slab;

use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// The most events that a thread takes at once.
const EVENTS_MAX: usize = 128;

const READ_EVENTS: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::PRI).union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);
const ALL_EVENTS: epoll::EventFlags = READ_EVENTS.union(epoll::EventFlags::OUT);

const BELL: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

pub(crate) const READ: u64 = 1;
const WRITE: u64 = 2;
const READ_CLOSED: u64 = 4;
const WRITE_CLOSED: u64 = 8;
const MARKED: u64 = 16;
const BITS: u64 = 0xFF;
const EVENT: u64 = BITS + 1;

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) const fn ready(self) -> u64 {
        match self {
            Self::Read => READ | READ_CLOSED,
            Self::Write => WRITE | WRITE_CLOSED,
        }
    }

    /// The bits that are cleared when the kernel does less than asked for, after it had reported
    /// `seen`. A closed peer is not noticed by asking for more, and behind a mark there may be
    /// more.
    const fn exhausted(self, seen: u64) -> u64 {
        match self {
            Self::Read if seen & MARKED != 0 => 0,
            Self::Read => READ,
            Self::Write => WRITE,
        }
    }
}

/// How a waiting task is known.
#[derive(Debug)]
pub(crate) enum Ticket {
    /// By its waker: it polls by hand.
    Anonymous,
    /// By a number, which it gets when it first waits.
    New,
    /// By this number. It may have been woken already.
    Number(u64),
}

#[derive(Debug)]
struct Waiter {
    /// `None` for one that polls by hand.
    number: Option<u64>,
    waker: Waker,
}

/// The tasks that wait for one direction; mostly one at most.
#[derive(Debug, Default)]
struct Waiters {
    first: Option<Waiter>,
    more: Vec<Waiter>,
}

impl Waiters {
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.first.iter_mut().chain(&mut self.more)
    }

    fn push(&mut self, waiter: Waiter) {
        match &self.first {
            None => self.first = Some(waiter),
            Some(_) => self.more.push(waiter),
        }
    }

    fn remove(&mut self, number: u64) -> Option<Waiter> {
        if self.first.as_ref().is_some_and(|waiter| waiter.number == Some(number)) {
            return self.first.take();
        }
        let index = self.more.iter().position(|waiter| waiter.number == Some(number))?;
        Some(self.more.swap_remove(index))
    }

    fn wake(self) {
        self.first.into_iter().chain(self.more).for_each(|waiter| waiter.waker.wake());
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// Those that read, and those that write.
    of: [Waiters; 2],
    last_number: u64,
}

/// A registered descriptor, as the reactor sees it.
#[derive(Debug)]
pub(crate) struct Source {
    token: u64,
    ready: AtomicU64,
    /// Whether room to write is reported as an event. That is asked for when a task first has to
    /// wait for room: otherwise each acknowledgement of a peer would wake a thread for nothing.
    tells_writers: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// A thread's buffer for events.
pub(crate) struct Events {
    raw: Vec<epoll::Event>,
    ready: Vec<(Arc<Source>, u64)>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { raw: Vec::with_capacity(EVENTS_MAX), ready: Vec::with_capacity(EVENTS_MAX) }
    }

    /// Whether the last wait brought none.
    pub(crate) fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

/// What woke a thread, apart from tasks that are ready now.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Heard {
    pub(crate) bell: bool,
    pub(crate) alarm: bool,
}

#[derive(Debug)]
pub(crate) struct Reactor {
    epoll: OwnedFd,
    bell: OwnedFd,
    alarm: OwnedFd,
    sources: Mutex<Sources>,
    /// No thread takes events any more.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Sources {
    slab: Slab<Arc<Source>>,
    generation: u32,
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), flags)?;
        epoll::add(&epoll, &alarm, epoll::EventData::new_u64(ALARM), flags)?;
        Ok(Self { epoll, bell, alarm, sources: Mutex::default(), is_over: AtomicBool::new(false) })
    }

    /// Wakes one thread that sleeps, or the next one that is about to.
    pub(crate) fn ring(&self) {
        // It can fail only after 2^64 rings.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Sets the alarm to ring once at `at`, by the monotonic clock, or not at all.
    pub(crate) fn set_alarm(&self, at: Option<Timespec>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: at.unwrap_or(zero) };
        timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &spec).expect("an instant after the clock's origin");
    }

    /// Takes events: those that are there, or, with `sleep`, waits until there are some.
    pub(crate) fn wait(&self, events: &mut Events, sleep: bool) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let raw = &mut events.raw;
        raw.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(raw), if sleep { None } else { Some(&zero) }) {
            // After a signal the thread looks around, and calls this again.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("epoll does not wait: {e}"),
        }
    }

    /// Wakes the tasks that wait for these events.
    pub(crate) fn dispatch(&self, events: &mut Events) -> Heard {
        let Events { raw, ready } = events;
        let mut heard = Heard::default();
        let mut sources = None;
        for event in raw.drain(..) {
            match event.data.u64() {
                BELL => heard.bell = true,
                ALARM => heard.alarm = true,
                token => {
                    let sources = sources.get_or_insert_with(|| self.sources.lock());
                    if let Some(source) = sources.slab.get(token as u32 as usize).filter(|source| source.token == token)
                    {
                        ready.push((Arc::clone(source), bits_of(event.flags)));
                    }
                }
            }
        }
        drop(sources);
        for (source, bits) in ready.drain(..) {
            source.wake(bits);
        }
        heard
    }

    fn register(&self, fd: BorrowedFd<'_>, ready: u64) -> io::Result<Arc<Source>> {
        let source = {
            let mut sources = self.sources.lock();
            sources.generation = sources.generation.wrapping_add(1) & (u32::MAX >> 1);
            let token = u64::from(sources.generation) << 32 | sources.slab.vacant_key() as u64;
            let source = Arc::new(Source::new(token, ready));
            sources.slab.insert(Arc::clone(&source));
            source
        };
        if let Err(e) = epoll::add(&self.epoll, fd, epoll::EventData::new_u64(source.token), READ_EVENTS) {
            self.forget(&source);
            return Err(e.into());
        }
        Ok(source)
    }

    fn forget(&self, source: &Source) {
        self.sources.lock().slab.remove(source.token as u32 as usize);
    }

    /// Threads are about to leave: whatever would have to wait for a socket from now on fails.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let sources: Vec<_> = self.sources.lock().slab.iter().map(|(_, source)| Arc::clone(source)).collect();
        // A task that queued up before this is woken. One that queues up afterwards sees, by the
        // queue's lock, that it is over.
        sources
            .iter()
            .for_each(|source| [Direction::Read, Direction::Write].into_iter().for_each(|of| source.call(of)));
    }

    /// Sockets registered.
    pub(crate) fn sources(&self) -> usize {
        self.sources.lock().slab.len()
    }
}

fn bits_of(flags: epoll::EventFlags) -> u64 {
    let mut bits = 0;
    if flags.intersects(epoll::EventFlags::IN) {
        bits |= READ;
    }
    if flags.intersects(epoll::EventFlags::PRI) {
        bits |= MARKED;
    }
    if flags.intersects(epoll::EventFlags::OUT) {
        bits |= WRITE;
    }
    if flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
        bits |= READ | READ_CLOSED;
    }
    if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
        bits |= WRITE | WRITE_CLOSED;
    }
    bits
}

impl Source {
    pub(crate) fn new(token: u64, ready: u64) -> Self {
        let tells_writers = AtomicBool::new(false);
        Self { token, ready: AtomicU64::new(ready), tells_writers, waiting: Mutex::default() }
    }

    pub(crate) fn wake(&self, bits: u64) {
        let set = |ready: u64| Some((ready | bits).wrapping_add(EVENT));
        let _ = self.ready.fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
        for direction in [Direction::Read, Direction::Write] {
            if bits & direction.ready() != 0 {
                self.call(direction);
            }
        }
    }

    /// Wakes those who wait.
    pub(crate) fn call(&self, direction: Direction) {
        let waiters = std::mem::take(&mut self.waiting.lock().of[direction as usize]);
        waiters.wake();
    }

    /// Ready, with what the kernel has reported so far, if that lets the caller try. Otherwise
    /// registers `waker`, and then calls `tell_kernel`.
    pub(crate) fn poll_ready(
        &self,
        direction: Direction,
        waker: &Waker,
        ticket: &mut Ticket,
        tell_kernel: impl FnOnce() -> io::Result<()>,
    ) -> Poll<io::Result<u64>> {
        let ready = self.ready.load(Ordering::Acquire);
        if ready & direction.ready() != 0 {
            return Poll::Ready(Ok(ready));
        }
        self.wait(direction, waker, ticket);
        tell_kernel()?;
        let ready = self.ready.load(Ordering::Acquire);
        match ready & direction.ready() {
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(ready)),
        }
    }

    fn wait(&self, direction: Direction, waker: &Waker, ticket: &mut Ticket) {
        // Cloned before the lock is taken, so that what is left of it is dropped without the lock.
        let mut waker = waker.clone();
        let mut waiting = self.waiting.lock();
        let waiters = &mut waiting.of[direction as usize];
        let known = waiters.iter_mut().find(|waiter| match *ticket {
            Ticket::Anonymous => waiter.number.is_none() && waiter.waker.will_wake(&waker),
            Ticket::New => false,
            Ticket::Number(number) => waiter.number == Some(number),
        });
        if let Some(known) = known {
            std::mem::swap(&mut known.waker, &mut waker);
            return;
        }
        let number = match *ticket {
            Ticket::Anonymous => None,
            Ticket::Number(number) => Some(number),
            Ticket::New => {
                waiting.last_number += 1;
                *ticket = Ticket::Number(waiting.last_number);
                Some(waiting.last_number)
            }
        };
        waiting.of[direction as usize].push(Waiter { number, waker });
    }

    fn give_up(&self, direction: Direction, number: u64) {
        let waiter = self.waiting.lock().of[direction as usize].remove(number);
        drop(waiter);
    }

    /// Clears these bits, unless an event has come since `seen`.
    pub(crate) fn clear(&self, bits: u64, seen: u64) {
        let _ = self.ready.compare_exchange(seen, seen & !bits, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A descriptor that does not block, and its registration.
#[derive(Debug)]
pub(crate) struct Registered<T: AsFd> {
    inner: T,
    source: Arc<Source>,
    reactor: Arc<Reactor>,
}

/// How much of what was asked for the kernel has done.
pub(crate) enum Done<R> {
    /// There may be more.
    All(R),
    /// There was not more.
    Partly(R),
}

impl<T: AsFd> Registered<T> {
    /// For a descriptor that may be ready for anything.
    pub(crate) fn new(reactor: &Arc<Reactor>, inner: T) -> io::Result<Self> {
        Self::with(reactor, inner, READ | WRITE)
    }

    /// For a descriptor that is not ready until the kernel says so.
    pub(crate) fn not_ready(reactor: &Arc<Reactor>, inner: T) -> io::Result<Self> {
        Self::with(reactor, inner, 0)
    }

    fn with(reactor: &Arc<Reactor>, inner: T, ready: u64) -> io::Result<Self> {
        let source = reactor.register(inner.as_fd(), ready)?;
        Ok(Self { inner, source, reactor: Arc::clone(reactor) })
    }

    pub(crate) fn get(&self) -> &T {
        &self.inner
    }

    /// Ready, with what the kernel has reported so far, if that lets the caller try.
    pub(crate) fn poll_ready(
        &self,
        direction: Direction,
        cx: &Context<'_>,
        ticket: &mut Ticket,
    ) -> Poll<io::Result<u64>> {
        self.source.poll_ready(direction, cx.waker(), ticket, || {
            if self.reactor.is_over.load(Ordering::Acquire) {
                return Err(io::Error::other("the runtime of this socket has shut down"));
            }
            if direction == Direction::Write && !self.source.tells_writers.swap(true, Ordering::AcqRel) {
                // What is ready already is reported as an event, too.
                let data = epoll::EventData::new_u64(self.source.token);
                if let Err(e) = epoll::modify(&self.reactor.epoll, self.inner.as_fd(), data, ALL_EVENTS) {
                    self.source.tells_writers.store(false, Ordering::Release);
                    return Err(e.into());
                }
            }
            Ok(())
        })
    }

    /// Does `operation`, when it can be done without waiting.
    pub(crate) fn poll<R>(
        &self,
        direction: Direction,
        cx: &Context<'_>,
        operation: impl FnMut(&T) -> io::Result<Done<R>>,
    ) -> Poll<io::Result<R>> {
        self.poll_as(&mut Ticket::Anonymous, direction, cx, operation)
    }

    /// Runs `operation` when it can be done without waiting. Dropping the future leaves no waker
    /// behind.
    pub(crate) fn attempt<R, F: FnMut(&T) -> io::Result<Done<R>>>(
        &self,
        direction: Direction,
        operation: F,
    ) -> Attempt<'_, T, F> {
        Attempt { io: self, direction, operation, ticket: Ticket::New }
    }

    fn poll_as<R>(
        &self,
        ticket: &mut Ticket,
        direction: Direction,
        cx: &Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<Done<R>>,
    ) -> Poll<io::Result<R>> {
        loop {
            let Poll::Ready(seen) = self.poll_ready(direction, cx, ticket)? else { return Poll::Pending };
            match operation(&self.inner) {
                Ok(Done::All(result)) => return Poll::Ready(Ok(result)),
                Ok(Done::Partly(result)) => {
                    self.source.clear(direction.exhausted(seen), seen);
                    return Poll::Ready(Ok(result));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.source.clear(direction.ready(), seen),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

/// See [`Registered::attempt`].
#[derive(Debug)]
pub(crate) struct Attempt<'a, T: AsFd, F> {
    io: &'a Registered<T>,
    direction: Direction,
    operation: F,
    ticket: Ticket,
}

// The operation is called, never pinned.
impl<T: AsFd, F> Unpin for Attempt<'_, T, F> {}

impl<T: AsFd, R, F: FnMut(&T) -> io::Result<Done<R>>> Future for Attempt<'_, T, F> {
    type Output = io::Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let done = this.io.poll_as(&mut this.ticket, this.direction, cx, &mut this.operation);
        if let Poll::Ready(Ok(_)) = done {
            // The event that made the source ready has woken all who waited, or is about to.
            this.ticket = Ticket::New;
        }
        done
    }
}

impl<T: AsFd, F> Drop for Attempt<'_, T, F> {
    fn drop(&mut self) {
        if let Ticket::Number(number) = self.ticket {
            self.io.source.give_up(self.direction, number);
        }
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        // A duplicate of the descriptor would keep the registration alive.
        let _ = epoll::delete(&self.reactor.epoll, self.inner.as_fd());
        self.reactor.forget(&self.source);
        let waiting = std::mem::take(&mut *self.source.waiting.lock());
        drop(waiting);
    }
}
