//! A guest's end of the socket.
//!
//! Whoever waits for a reply reads the socket itself. When somebody wants to be woken instead (a
//! statement that is polled, a hook for notifications), a thread reads from then on: `has_reader` is
//! set once and stays, and only that thread touches `incoming`.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::{self, Incoming};
use super::reply::{REPLY, RING};

/// How often a thread that waits for a reply looks whether the statement was cancelled by a flag,
/// as a handler of signals sets it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Hook = Arc<dyn Fn() + Send + Sync>;

/// The socket, and what has come from it.
pub(super) struct Line {
    stream: Arc<UnixStream>,
    incoming: Mutex<Incoming>,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

#[derive(Default)]
struct Inbox {
    has_reader: bool,
    reply: Option<Vec<u8>>,
    waker: Option<Waker>,
    hook: Option<Hook>,
    /// The owner is gone.
    is_over: bool,
}

impl Line {
    pub(super) fn new(stream: UnixStream) -> Arc<Self> {
        let (incoming, inbox) = (Mutex::default(), Mutex::default());
        Arc::new(Self { stream: Arc::new(stream), incoming, inbox, arrived: Condvar::new() })
    }

    /// The socket, for those who close it.
    pub(super) fn stream(&self) -> &Arc<UnixStream> {
        &self.stream
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The owner is gone.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        frame::send(&self.stream, bytes)
    }

    /// Takes note of a frame; gives it if it is a reply.
    fn sort(&self, mut frame: Vec<u8>) -> Option<Vec<u8>> {
        match frame.first() {
            Some(&REPLY) => {
                frame.remove(0);
                Some(frame)
            }
            Some(&RING) => {
                let hook = self.inbox.lock().hook.clone();
                if let Some(hook) = hook {
                    hook();
                }
                None
            }
            // Frames of no known kind come from no owner of this version.
            _ => None,
        }
    }

    /// Waits for a reply; `None` if the owner is gone. `look` is called now and then.
    pub(super) fn wait(&self, mut look: impl FnMut()) -> Option<Vec<u8>> {
        let mut inbox = self.inbox.lock();
        if !inbox.has_reader {
            drop(inbox);
            return self.read(look);
        }
        loop {
            if let Some(reply) = inbox.reply.take() {
                return Some(reply);
            }
            if inbox.is_over {
                return None;
            }
            if self.arrived.wait_for(&mut inbox, LOOK_EVERY).timed_out() {
                drop(inbox);
                look();
                inbox = self.inbox.lock();
            }
        }
    }

    fn read(&self, mut look: impl FnMut()) -> Option<Vec<u8>> {
        let mut incoming = self.incoming.lock();
        loop {
            if let Some(frame) = incoming.next_frame() {
                if let Some(reply) = self.sort(frame) {
                    return Some(reply);
                }
                continue;
            }
            let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
            match poll(&mut fds, Some(&timeout)) {
                Ok(1..) => {}
                _ => {
                    look();
                    continue;
                }
            }
            if !incoming.fill(&self.stream).is_ok_and(|bytes| bytes > 0) {
                return None;
            }
        }
    }

    /// A reply if it is here, `None` within if the owner is gone. Otherwise the waker is called when
    /// there is one.
    pub(super) fn poll(self: &Arc<Self>, context: &Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.ensure_reader();
        let mut inbox = self.inbox.lock();
        if let Some(reply) = inbox.reply.take() {
            return Poll::Ready(Some(reply));
        }
        if inbox.is_over {
            return Poll::Ready(None);
        }
        inbox.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Sets what is called when notifications have arrived.
    pub(super) fn on_ring(self: &Arc<Self>, hook: Hook) {
        self.inbox.lock().hook = Some(hook);
        self.ensure_reader();
    }

    fn ensure_reader(self: &Arc<Self>) {
        let mut inbox = self.inbox.lock();
        if std::mem::replace(&mut inbox.has_reader, true) {
            return;
        }
        let line = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("colibri-line".to_owned()).spawn(move || line.read_all());
        // Without a thread nobody reads any more: whoever waits is told that it is over.
        inbox.is_over |= spawned.is_err();
    }

    fn read_all(&self) {
        let mut incoming = self.incoming.lock();
        let mut has_ended = false;
        while !has_ended {
            let frame = incoming.wait(&self.stream).ok().flatten();
            has_ended = frame.is_none();
            let reply = frame.and_then(|frame| self.sort(frame));
            let mut inbox = self.inbox.lock();
            inbox.is_over |= has_ended;
            if reply.is_none() && !inbox.is_over {
                continue;
            }
            inbox.reply = inbox.reply.take().or(reply);
            let waker = inbox.waker.take();
            let hook = inbox.hook.clone().filter(|_| inbox.is_over);
            drop(inbox);
            self.arrived.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
            // Whoever waits for notifications is told as well: asking for them says what is wrong.
            if let Some(hook) = hook {
                hook();
            }
        }
    }
}
