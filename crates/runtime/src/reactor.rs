//! What sleeping threads wait for: sockets, the alarm of timers, and the bell that others ring.
//!
//! All of them are one `epoll` descriptor, registered once each and edge-triggered. Any number of threads wait on it, and an
//! event wakes one of them, which runs the task that waited for it.
//!
//! ```text
//! token   bits 63..32  generation    31..0  place of the source; the bell and the alarm have tokens of their own
//! ready   bits 63..8   count of events    7..0  READ WRITE READ_CLOSED WRITE_CLOSED MARKED
//! ```
//!
//! Invariants
//! - A bit of `ready` is set when an event says so, and cleared by whoever was told by the kernel that there is nothing (or less
//!   than asked for), if there was no event since before the question. *Closed* bits stay: there will be no other event.
//! - Less than asked for means that there is no more, but at a mark: a read ends before a byte that was sent as urgent, whatever comes
//!   after it, and there may be no other event for that. So once there was one (`MARKED`, which stays, too), only *nothing* counts.
//!   The event that tells of what comes after the mark tells of the mark. Marks of Unix sockets: see `net`.
//! - A waker is registered before the last look at `ready`; an event sets `ready` before it takes the wakers.
//! - Who gives up waiting takes his waker along, if he waits in an `Attempt`.
//! - No waker is cloned, dropped or woken while a lock is held. It is somebody else's code, which may end up here again.
//! - Bell and alarm are never read: each ring is an edge, and so is each expiry.
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

/// Events that a thread takes at once.
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

    /// What is cleared when the kernel, which had said `seen`, does less than asked for: a peer that has closed is not seen by asking
    /// for more, and behind a mark there may be more.
    const fn exhausted(self, seen: u64) -> u64 {
        match self {
            Self::Read if seen & MARKED != 0 => 0,
            Self::Read => READ,
            Self::Write => WRITE,
        }
    }
}

/// How one who waits is known.
#[derive(Debug)]
pub(crate) enum Ticket {
    /// By his waker: who polls by hand.
    Anonymous,
    /// By a number, once he has waited.
    New,
    /// By this one. It may be called already.
    Number(u64),
}

#[derive(Debug)]
struct Waiter {
    /// None of those who are anonymous.
    number: Option<u64>,
    waker: Waker,
}

/// Those who wait for one direction. Mostly there is one at most.
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
    /// For reading and for writing.
    of: [Waiters; 2],
    last_number: u64,
}

/// A registered descriptor, as the reactor sees it.
#[derive(Debug)]
pub(crate) struct Source {
    token: u64,
    ready: AtomicU64,
    /// Whether room to write is an event. It becomes one when somebody has to wait for it: until then each answer of a
    /// peer would wake a thread for nothing.
    tells_writers: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// Room for events, a thread's own.
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

/// What woke a thread, beside the tasks that it has to run now.
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
    /// Nobody looks for events any more.
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

    /// Wakes one thread that sleeps, or the next that is about to.
    pub(crate) fn ring(&self) {
        // Fails only when 2^64 rings have come before it.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Rings once at `at`, by the monotonic clock, or never, instead of when it was set to.
    pub(crate) fn set_alarm(&self, at: Option<Timespec>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: at.unwrap_or(zero) };
        timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &spec).expect("an instant after the clock's origin");
    }

    /// Takes events: what is there or, to `sleep`, something, once it is there.
    pub(crate) fn wait(&self, events: &mut Events, sleep: bool) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let raw = &mut events.raw;
        raw.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(raw), if sleep { None } else { Some(&zero) }) {
            // After a signal one looks around, and asks again.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("epoll does not wait: {e}"),
        }
    }

    /// Wakes whoever waits for these events.
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

    /// The threads are about to leave: from now on who would have to wait for a socket fails.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let sources: Vec<_> = self.sources.lock().slab.iter().map(|(_, source)| Arc::clone(source)).collect();
        // Who has got in line before this is woken, and who does so afterwards sees, by the line's lock, that it is over.
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

    /// Ready, with what the kernel has said so far, if that lets one try; otherwise `waker` is registered, and then
    /// `tell_kernel` called.
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
        // Made before the lock is taken, so that what is left of it is dropped after the lock is given back.
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

    /// These bits of `seen` are not so, unless an event has come since.
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

/// How much of what was asked for the kernel did.
pub(crate) enum Done<R> {
    /// There may be more.
    All(R),
    /// There was not more.
    Partly(R),
}

impl<T: AsFd> Registered<T> {
    /// Of a descriptor that may be ready for anything.
    pub(crate) fn new(reactor: &Arc<Reactor>, inner: T) -> io::Result<Self> {
        Self::with(reactor, inner, READ | WRITE)
    }

    /// Of one that is ready for nothing until the kernel says so.
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

    /// Ready, with what the kernel has said so far, if that lets one try.
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
                // What is so already is an event, too.
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

    /// Does `operation`, when it can be done without waiting. Who gives up waiting leaves nothing behind.
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
            // The event that made it ready has called all who waited, or is about to.
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
