//! Mailboxes: bounded queues with one reader and a policy for when they are full.
//!
//! ```text
//! Mailbox ─ send ─►┐                     ┌─► Inbox ─ recv
//! Mailbox ─ send ─►├─ messages (bounded) ┤
//!   waiting sender ┘                     └ closed: senders get their message back
//! ```
//!
//! Invariants
//! 1. Messages of one sender arrive in the order in which they were sent.
//! 2. A waiting sender that is woken because there is room uses the room, or wakes the next sender
//!    when it is dropped.
//! 3. While the lock is held, no waker is cloned, dropped or woken, and no message dropped: that is
//!    foreign code, which may end up here again.
//! 4. After the reader has gone no message is accepted. After the last sender has gone the reader
//!    gets what is left, then `None`.
//!
//! Not here: who reads (`actor`).

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;

/// What happens to a message for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// `send` waits for room; `try_send` gives the message back.
    Wait,
    /// The sender gets it back at once.
    Refuse,
    /// The oldest message goes, unread.
    DropOldest,
    /// It goes itself.
    DropNewest,
}

/// A message was not accepted; here it is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError<M> {
    /// There was no room. There may be later.
    Full(M),
    /// Nobody reads any more.
    Closed(M),
}

impl<M> SendError<M> {
    /// The message.
    pub fn into_message(self) -> M {
        let (Self::Full(message) | Self::Closed(message)) = self;
        message
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the mailbox is full",
            Self::Closed(_) => "nobody reads the mailbox any more",
        })
    }
}

impl<M> std::error::Error for SendError<M> {}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<M>,
    reader: Option<Waker>,
    /// Waiting senders in order, with their numbers.
    waiting: VecDeque<(u64, Waker)>,
    next_number: u64,
    mailboxes: usize,
    is_closed: bool,
    dropped: u64,
}

#[derive(Debug)]
struct Queue<M> {
    state: Mutex<State<M>>,
    capacity: usize,
    when_full: WhenFull,
}

/// What has to be done when the lock is no longer held.
struct Afterwards<M> {
    wake: Option<Waker>,
    dropped: Option<M>,
}

impl<M> Default for Afterwards<M> {
    fn default() -> Self {
        Self { wake: None, dropped: None }
    }
}

impl<M> Afterwards<M> {
    fn go(self) {
        if let Some(waker) = self.wake {
            waker.wake();
        }
        // Last: the destructor of a message may panic.
        drop(self.dropped);
    }
}

impl<M> Queue<M> {
    fn close(&self) {
        let (messages, reader, waiting) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            (std::mem::take(&mut state.messages), state.reader.take(), std::mem::take(&mut state.waiting))
        };
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        drop(reader);
        // Last: the destructor of a message may panic.
        drop(messages);
    }
}

impl<M> State<M> {
    /// Accepts a message if it may; otherwise gives it back.
    fn offer(&mut self, capacity: usize, when_full: WhenFull, message: M) -> (Result<(), SendError<M>>, Afterwards<M>) {
        let mut afterwards = Afterwards::default();
        if self.is_closed {
            return (Err(SendError::Closed(message)), afterwards);
        }
        if self.messages.len() >= capacity {
            match when_full {
                WhenFull::Wait | WhenFull::Refuse => return (Err(SendError::Full(message)), afterwards),
                WhenFull::DropNewest => {
                    self.dropped += 1;
                    afterwards.dropped = Some(message);
                    return (Ok(()), afterwards);
                }
                WhenFull::DropOldest => {
                    self.dropped += 1;
                    afterwards.dropped = self.messages.pop_front();
                }
            }
        }
        self.messages.push_back(message);
        afterwards.wake = self.reader.take();
        (Ok(()), afterwards)
    }

    /// Makes a sender wait. One that was woken and found the room taken is first again.
    fn line_up(&mut self, place: Place, waker: Waker) -> Place {
        match place {
            Place::Waiting(number) => {
                self.waiting.push_front((number, waker));
                place
            }
            Place::New => {
                let number = self.next_number;
                self.next_number += 1;
                self.waiting.push_back((number, waker));
                Place::Waiting(number)
            }
        }
    }

    /// Takes the first message out, and the waker of a sender for whose message there is room now.
    fn take(&mut self, capacity: usize) -> Option<(M, Option<Waker>)> {
        let message = self.messages.pop_front()?;
        Some((message, self.call_sender(capacity)))
    }

    /// The waker of the first sender that waits, if there is room for its message.
    fn call_sender(&mut self, capacity: usize) -> Option<Waker> {
        if self.messages.len() >= capacity {
            return None;
        }
        self.waiting.pop_front().map(|(_, waker)| waker)
    }
}

/// A mailbox for `capacity` messages, at least one, and what its reader reads from.
pub fn mailbox<M>(capacity: usize, when_full: WhenFull) -> (Mailbox<M>, Inbox<M>) {
    let state = State {
        messages: VecDeque::new(),
        reader: None,
        waiting: VecDeque::new(),
        next_number: 0,
        mailboxes: 1,
        is_closed: false,
        dropped: 0,
    };
    let queue = Arc::new(Queue { state: Mutex::new(state), capacity: capacity.max(1), when_full });
    (Mailbox { queue: Arc::clone(&queue) }, Inbox { queue, seems_empty: false, closes: true })
}

/// Where messages are sent to. Clones are the same mailbox.
#[derive(Debug)]
pub struct Mailbox<M> {
    queue: Arc<Queue<M>>,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        self.queue.state.lock().mailboxes += 1;
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        let reader = {
            let mut state = self.queue.state.lock();
            state.mailboxes -= 1;
            if state.mailboxes == 0 { state.reader.take() } else { None }
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<M> Mailbox<M> {
    /// Sends a message without waiting.
    ///
    /// # Errors
    /// If nobody reads any more, or if there is no room and the mailbox neither drops the oldest
    /// nor the newest message.
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        let (result, afterwards) = {
            let mut state = self.queue.state.lock();
            // Those who wait for room come first.
            if state.waiting.is_empty() || state.is_closed {
                state.offer(self.queue.capacity, self.queue.when_full, message)
            } else {
                (Err(SendError::Full(message)), Afterwards::default())
            }
        };
        afterwards.go();
        result
    }

    /// Sends a message, and waits for room if that is the mailbox's policy. A send that is dropped
    /// before it is done has sent nothing.
    pub fn send(&self, message: M) -> Send<'_, M> {
        Send { queue: &self.queue, message: Some(message), place: Place::New }
    }

    /// Messages that nobody has read yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.state.lock().messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nobody reads any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.state.lock().is_closed
    }

    /// Messages that went unread for lack of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.state.lock().dropped
    }
}

/// Where a sender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    New,
    /// In the queue, or woken.
    Waiting(u64),
}

/// Sends a message. See [`Mailbox::send`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Send<'a, M> {
    queue: &'a Queue<M>,
    /// None once it is sent.
    message: Option<M>,
    place: Place,
}

// The message is moved, never pinned.
impl<M> Unpin for Send<'_, M> {}

impl<M> Future for Send<'_, M> {
    type Output = Result<(), SendError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let queue = this.queue;
        // Made only to wait, and while the lock is not held.
        let mut waker = None;
        loop {
            let mut state = queue.state.lock();
            let still_waits = match this.place {
                Place::New => !state.waiting.is_empty() && !state.is_closed,
                Place::Waiting(number) => match state.waiting.iter_mut().find(|(other, _)| *other == number) {
                    Some((_, known)) if known.will_wake(cx.waker()) => return Poll::Pending,
                    Some((_, known)) => {
                        if let Some(mut waker) = waker.take() {
                            std::mem::swap(known, &mut waker);
                            drop(state);
                            drop(waker);
                            return Poll::Pending;
                        }
                        true
                    }
                    None => false,
                },
            };
            if !still_waits {
                let message = this.message.take().expect("it is not polled after it is done");
                match state.offer(queue.capacity, queue.when_full, message) {
                    (Err(SendError::Full(message)), _) if queue.when_full == WhenFull::Wait => {
                        this.message = Some(message);
                    }
                    (result, afterwards) => {
                        // There may be room for more than one.
                        let sender = state.call_sender(queue.capacity);
                        drop(state);
                        this.place = Place::New;
                        if let Some(sender) = sender {
                            sender.wake();
                        }
                        afterwards.go();
                        return Poll::Ready(result);
                    }
                }
            }
            match waker.take() {
                Some(waker) => {
                    this.place = state.line_up(this.place, waker);
                    return Poll::Pending;
                }
                None => {
                    drop(state);
                    waker = Some(cx.waker().clone());
                }
            }
        }
    }
}

impl<M> Drop for Send<'_, M> {
    fn drop(&mut self) {
        let Place::Waiting(number) = self.place else { return };
        let (own, next) = {
            let mut state = self.queue.state.lock();
            match state.waiting.iter().position(|&(other, _)| other == number) {
                Some(index) => (state.waiting.remove(index), None),
                // It was woken for room that it will not use.
                None => (None, state.call_sender(self.queue.capacity)),
            }
        };
        drop(own);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// What the one reader of a mailbox reads from. When it is dropped the mailbox is closed.
#[derive(Debug)]
pub struct Inbox<M> {
    queue: Arc<Queue<M>>,
    /// When it was last read from, no other message was there.
    seems_empty: bool,
    closes: bool,
}

impl<M> Inbox<M> {
    /// The next message; `None` when there is none and no sender is left. Dropping the future loses
    /// no message.
    pub async fn recv(&mut self) -> Option<M> {
        Recv { inbox: self, waits: false }.await
    }

    /// See [`Inbox::recv`]. The waker is kept until there is a message, or the inbox is polled
    /// again or dropped.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<M>> {
        // Made only to wait, and while the lock is not held; if waiting is likely, before it is
        // taken for the first time.
        let mut waker = std::mem::take(&mut self.seems_empty).then(|| cx.waker().clone());
        loop {
            let mut state = self.queue.state.lock();
            if let Some((message, sender)) = state.take(self.queue.capacity) {
                self.seems_empty = state.messages.is_empty();
                drop(state);
                if let Some(sender) = sender {
                    sender.wake();
                }
                return Poll::Ready(Some(message));
            }
            if state.mailboxes == 0 || state.is_closed {
                return Poll::Ready(None);
            }
            if state.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            if waker.is_some() {
                std::mem::swap(&mut state.reader, &mut waker);
                return Poll::Pending;
            }
            drop(state);
            waker = Some(cx.waker().clone());
        }
    }

    /// A message that is there.
    pub fn try_recv(&mut self) -> Option<M> {
        let (message, sender) = self.queue.state.lock().take(self.queue.capacity)?;
        if let Some(sender) = sender {
            sender.wake();
        }
        Some(message)
    }

    /// Another reader of the same mailbox, whose end does not close it. One of the two reads at a
    /// time.
    pub(crate) fn lend(&self) -> Self {
        Self { queue: Arc::clone(&self.queue), seems_empty: false, closes: false }
    }
}

/// Waits for a message. When it is dropped before there is one, no waker stays behind.
struct Recv<'a, M> {
    inbox: &'a mut Inbox<M>,
    waits: bool,
}

impl<M> Future for Recv<'_, M> {
    type Output = Option<M>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let received = self.inbox.poll_recv(cx);
        self.waits = received.is_pending();
        received
    }
}

impl<M> Drop for Recv<'_, M> {
    fn drop(&mut self) {
        if self.waits {
            let reader = self.inbox.queue.state.lock().reader.take();
            drop(reader);
        }
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        if self.closes {
            self.queue.close();
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;

    use super::*;
    use crate::sync::tests::{OnDrop, within_seconds};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_full_mailbox_does_what_its_policy_says() {
        let full = |when_full| {
            let (mailbox, inbox) = mailbox(2, when_full);
            mailbox.try_send(1).unwrap();
            mailbox.try_send(2).unwrap();
            (mailbox, inbox)
        };
        let all = |inbox: &mut Inbox<i32>| std::iter::from_fn(|| inbox.try_recv()).collect::<Vec<_>>();

        let (mailbox, mut inbox) = full(WhenFull::Refuse);
        assert_eq!(mailbox.try_send(3), Err(SendError::Full(3)));
        assert_eq!(poll(pin!(mailbox.send(4))), Poll::Ready(Err(SendError::Full(4))));
        assert_eq!((all(&mut inbox), mailbox.dropped()), (vec![1, 2], 0));

        let (mailbox, mut inbox) = full(WhenFull::DropOldest);
        mailbox.try_send(3).unwrap();
        assert_eq!((all(&mut inbox), mailbox.dropped()), (vec![2, 3], 1));

        let (mailbox, mut inbox) = full(WhenFull::DropNewest);
        mailbox.try_send(3).unwrap();
        assert_eq!((all(&mut inbox), mailbox.dropped()), (vec![1, 2], 1));

        let (mailbox, mut inbox) = full(WhenFull::Wait);
        assert_eq!(mailbox.try_send(3), Err(SendError::Full(3)));
        let mut send = pin!(mailbox.send(3));
        assert!(poll(send.as_mut()).is_pending());
        assert_eq!(inbox.try_recv(), Some(1));
        assert_eq!(poll(send.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(all(&mut inbox), [2, 3]);
    }

    #[test]
    fn senders_wait_in_line_and_one_that_gives_up_leaves_its_room_to_the_next() {
        let (mailbox, mut inbox) = mailbox(1, WhenFull::Wait);
        mailbox.try_send(0).unwrap();
        let mut first = Box::pin(mailbox.send(1));
        let mut second = Box::pin(mailbox.send(2));
        let mut third = Box::pin(mailbox.send(3));
        assert!(
            poll(first.as_mut()).is_pending()
                && poll(second.as_mut()).is_pending()
                && poll(third.as_mut()).is_pending()
        );
        assert_eq!(inbox.try_recv(), Some(0));
        // The first is called, and goes away.
        drop(first);
        assert!(poll(third.as_mut()).is_pending(), "it is not its turn");
        assert_eq!(poll(second.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(inbox.try_recv(), Some(2));
        assert_eq!(poll(third.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(inbox.try_recv(), Some(3));
    }

    #[test]
    fn both_ends_notice_that_the_other_has_gone() {
        let (sender, mut inbox) = mailbox(2, WhenFull::Wait);
        let other = sender.clone();
        other.try_send(1).unwrap();
        drop((sender, other));
        assert_eq!(poll(pin!(inbox.recv())), Poll::Ready(Some(1)));
        assert_eq!(poll(pin!(inbox.recv())), Poll::Ready(None));

        let (sender, inbox) = mailbox(1, WhenFull::Wait);
        sender.try_send(1).unwrap();
        let mut send = pin!(sender.send(2));
        assert!(poll(send.as_mut()).is_pending());
        drop(inbox);
        assert_eq!(poll(send.as_mut()), Poll::Ready(Err(SendError::Closed(2))));
        assert_eq!(sender.try_send(3).unwrap_err().into_message(), 3);
        assert!(sender.is_closed() && sender.is_empty());
    }

    /// A waker in whose destructor `f` runs.
    fn dropping(f: impl FnOnce() + std::marker::Send + 'static) -> Waker {
        Waker::from(Arc::new(OnDrop::new(f)))
    }

    /// Bug: the wakers of the polls before were dropped with the lock held. Consequence: one that
    /// held the last reference to another mailbox of the same queue stopped its thread for ever.
    /// Fix: wakers are dropped when the lock is not held.
    #[test]
    fn a_waker_that_is_replaced_may_use_the_mailbox() {
        within_seconds(|| {
            let (sender, mut inbox) = mailbox(1, WhenFull::Wait);
            sender.try_send(0).unwrap();
            let other = sender.clone();
            let waker = dropping(move || drop(other));
            let mut send = pin!(sender.send(1));
            assert!(send.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(poll(send.as_mut()).is_pending());
            assert_eq!((inbox.try_recv(), poll(send.as_mut())), (Some(0), Poll::Ready(Ok(()))));

            assert_eq!(inbox.try_recv(), Some(1));
            let other = sender.clone();
            let waker = dropping(move || drop(other));
            assert!(inbox.poll_recv(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(poll(pin!(inbox.recv())).is_pending());
            assert_eq!(sender.queue.state.lock().mailboxes, 1);
        });
    }

    /// Bug: a `recv` that was dropped left its waker until the next message. Consequence: memory of
    /// a task that is over, and a wake-up of one that waits for something else. Fix: it takes it
    /// along.
    #[test]
    fn who_gives_up_reading_leaves_no_waker() {
        let (sender, mut inbox) = mailbox(1, WhenFull::Wait);
        let waker = Arc::new(OnDrop::new(|| {}));
        {
            let mut recv = pin!(inbox.recv());
            assert!(recv.as_mut().poll(&mut Context::from_waker(&Arc::clone(&waker).into())).is_pending());
            assert_eq!(Arc::strong_count(&waker), 2);
        }
        assert_eq!(Arc::strong_count(&waker), 1);
        sender.try_send(1).unwrap();
        assert_eq!(poll(pin!(inbox.recv())), Poll::Ready(Some(1)));
    }

    /// Bug: messages were dropped before those who waited were woken. Consequence: a message whose
    /// destructor panicked left them asleep. Fix: they are woken first.
    #[test]
    fn a_message_whose_destructor_panics_keeps_nobody_asleep() {
        struct Bomb(bool);
        impl Drop for Bomb {
            fn drop(&mut self) {
                assert!(!self.0, "a bomb");
            }
        }
        struct Woken(std::sync::atomic::AtomicBool);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let (sender, inbox) = mailbox(1, WhenFull::Wait);
        assert!(sender.try_send(Bomb(true)).is_ok());
        let woken = Arc::new(Woken(false.into()));
        let mut send = Box::pin(sender.send(Bomb(false)));
        assert!(send.as_mut().poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(inbox))).is_err());
        assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed));
        assert!(matches!(poll(send.as_mut()), Poll::Ready(Err(SendError::Closed(_)))));
    }
}
