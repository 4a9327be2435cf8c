//! LISTEN, UNLISTEN and NOTIFY.
//!
//! ```text
//! NOTIFY ─► Pending, of the transaction ─► commit ─► Hub::committed, in the order of commits
//!                                                       │ deliver
//!                                                       ▼
//!                       Inbox of each session that listens to the channel ─► its hook: wake up
//! ```
//!
//! A transaction gathers what it notifies of, and which channels it begins or ceases to listen to.
//! A rollback, also of a part, drops that part. The store calls [`Hub::has_committed`] in the order
//! of commits, on the thread that commits many transactions at once, so that only puts them into a
//! queue. The session that has committed empties the queue into the inboxes. If it is gone by then,
//! the thread that commits does so.
//!
//! Whoever puts messages into a topic notifies as well, and ends the waits of its readers.
//!
//! A notification may be told when the commit that it is of is durable. The inbox has the ticket
//! for that, and whoever tells the client waits for it.
//!
//! Invariants
//! - Inboxes get notifications in the order of commits.
//! - A session that listens is in the hub from before its commit: it misses nothing that commits
//!   after it.
//! - The work of a commit is proportional to its notifications and to the sessions that listen to
//!   their channels.
//! - The order of mutexes: the channels of a hub, its queue, an inbox.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use colibri_catalog::ObjectId;
use colibri_txn::{AtCommit, CommitTicket, StoreDone, StoreWait, Transaction, TxnId};
use colibri_types::{Array, Datum, Error, Result, SqlState, Type, pulse, types::NAME_BYTES_MAX};
use compact_str::CompactString;
use parking_lot::Mutex;

use super::Session;
use super::own::Own;

/// Bytes of a payload, at most.
const PAYLOAD_BYTES_MAX: usize = 7_999;
/// What notifications take that have committed and were not told yet, at most; and those of one
/// transaction.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// What a notification takes besides its texts, and a place in an inbox.
const NOTIFICATION_BYTES: usize = 96;
const PLACE_BYTES: usize = 16;

/// What NOTIFY says to those who listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The number of the session that has notified.
    pub session: i32,
    /// The channel.
    pub channel: CompactString,
    /// What was said besides.
    pub payload: CompactString,
}

/// Notifications that a session has got.
#[derive(Default)]
pub struct Arrived {
    /// In the order of commits.
    pub notifications: Vec<Arc<Notification>>,
    /// When they may be told outside.
    pub ticket: Option<CommitTicket>,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// Where notifications for a session arrive.
#[derive(Default)]
pub struct Inbox {
    /// Whether there is something in it: a look without the mutex.
    has_any: AtomicBool,
    /// Nothing will arrive any more.
    is_closed: AtomicBool,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    places: VecDeque<Arc<Queued>>,
    ticket: Option<CommitTicket>,
    hook: Option<Hook>,
}

impl Inbox {
    /// Whether there is something to tell, or nothing will ever be again.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire) || self.is_closed()
    }

    /// Whether nothing will arrive any more, since another server leads the database.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn set_hook(&self, hook: Option<Hook>) {
        self.contents.lock().hook = hook;
    }

    /// Gives whether it was empty.
    fn put(&self, queued: &Arc<Queued>, ticket: &CommitTicket) -> bool {
        let mut contents = self.contents.lock();
        contents.places.push_back(Arc::clone(queued));
        // The newest state that one of them is of: it is durable last.
        let is_later = contents.ticket.as_ref().is_none_or(|known| known.seen() <= ticket.seen());
        if is_later && !ticket.is_durable() {
            contents.ticket = Some(ticket.clone());
        }
        !self.has_any.swap(true, Ordering::AcqRel)
    }

    fn take(&self) -> (VecDeque<Arc<Queued>>, Option<CommitTicket>) {
        let mut contents = self.contents.lock();
        self.has_any.store(false, Ordering::Release);
        (std::mem::take(&mut contents.places), contents.ticket.take())
    }

    fn wake(&self) {
        let hook = self.contents.lock().hook.clone();
        if let Some(hook) = hook {
            hook();
        }
    }
}

/// A notification on its way, which counts as long as somebody has it.
struct Queued {
    notification: Arc<Notification>,
    hub: Arc<Hub>,
}

impl Queued {
    fn bytes(notification: &Notification) -> usize {
        notification.channel.len() + notification.payload.len() + NOTIFICATION_BYTES
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.hub.bytes.fetch_sub(Self::bytes(&self.notification), Ordering::Relaxed);
    }
}

/// The notifications of a transaction, from its commit on.
struct Outgoing {
    all: Vec<Arc<Notification>>,
    /// The topics that it has put messages into.
    topics: Vec<ObjectId>,
    state: Mutex<OutgoingState>,
}

#[derive(Default)]
struct OutgoingState {
    has_committed: bool,
    /// The session has ended in the middle of its commit.
    is_left_alone: bool,
}

/// What a session keeps while it commits notifications. Dropping it delivers them if the
/// transaction has committed, and otherwise leaves that to the thread that commits it.
pub(super) struct Sending {
    hub: Arc<Hub>,
    outgoing: Arc<Outgoing>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        let has_committed = {
            let mut state = self.outgoing.state.lock();
            state.is_left_alone = true;
            state.has_committed
        };
        if has_committed {
            self.hub.deliver();
        }
    }
}

/// Sessions that listen, and notifications that have committed.
#[derive(Default)]
pub(crate) struct Hub {
    /// For each channel the sessions that listen to it, by number.
    channels: Mutex<HashMap<CompactString, HashMap<i32, Arc<Inbox>>>>,
    /// In the order of commits.
    committed: Mutex<VecDeque<(Arc<Outgoing>, CommitTicket)>>,
    /// What notifications take that were not told yet.
    bytes: AtomicUsize,
    topics: Mutex<HashMap<ObjectId, TopicReaders>>,
}

/// Who waits for messages in a topic.
#[derive(Default)]
struct TopicReaders {
    /// The last commit that has put some.
    put: TxnId,
    waiting: Vec<StoreDone>,
}

/// Whether a reader has to wait for a message.
pub(super) enum Readiness {
    /// One was put that its snapshot does not have.
    Now,
    /// When this is over, one has been put.
    Later(StoreWait),
}

impl Hub {
    fn has_committed(self: &Arc<Self>, outgoing: &Arc<Outgoing>, ticket: CommitTicket) {
        if !outgoing.topics.is_empty() {
            let mut topics = self.topics.lock();
            for &topic in &outgoing.topics {
                topics.entry(topic).or_default().put = ticket.seen();
            }
        }
        self.committed.lock().push_back((Arc::clone(outgoing), ticket));
        let is_left_alone = {
            let mut state = outgoing.state.lock();
            state.has_committed = true;
            state.is_left_alone
        };
        if is_left_alone {
            self.deliver();
        }
    }

    /// Puts all that has committed into the inboxes of those who listen.
    fn deliver(self: &Arc<Self>) {
        let mut woken: Vec<Arc<Inbox>> = Vec::new();
        let mut put: Vec<ObjectId> = Vec::new();
        {
            let channels = self.channels.lock();
            loop {
                let next = self.committed.lock().pop_front();
                let Some((outgoing, ticket)) = next else { break };
                put.extend(outgoing.topics.iter().filter(|topic| !put.contains(topic)).collect::<Vec<_>>());
                for notification in &outgoing.all {
                    let Some(listening) = channels.get(&notification.channel) else { continue };
                    let bytes = Queued::bytes(notification);
                    self.bytes.fetch_add(bytes + PLACE_BYTES * listening.len(), Ordering::Relaxed);
                    let queued = Arc::new(Queued { notification: Arc::clone(notification), hub: Arc::clone(self) });
                    let filled = listening.values().filter(|inbox| inbox.put(&queued, &ticket));
                    woken.extend(filled.cloned());
                }
            }
        }
        for inbox in woken {
            pulse::look();
            inbox.wake();
        }
        for topic in put {
            let waiting = self.topics.lock().get_mut(&topic).map(|readers| std::mem::take(&mut readers.waiting));
            drop(waiting);
        }
    }

    /// A reader of a topic that sees the state after a commit begins to wait for the next message.
    pub(super) fn wait_for_message(&self, topic: ObjectId, sees: TxnId) -> Readiness {
        let mut topics = self.topics.lock();
        let TopicReaders { put, waiting } = topics.entry(topic).or_default();
        if *put > sees {
            return Readiness::Now;
        }
        // Readers that have gone are forgotten now and then: when there are twice as many.
        if waiting.len().is_power_of_two() {
            waiting.retain(StoreDone::is_awaited);
        }
        let (wait, done) = StoreWait::new();
        waiting.push(done);
        Readiness::Later(wait)
    }

    fn add(&self, channel: &CompactString, session: i32, inbox: &Arc<Inbox>) {
        self.channels.lock().entry(channel.clone()).or_default().insert(session, Arc::clone(inbox));
    }

    fn remove(&self, channel: &str, session: i32) {
        let mut channels = self.channels.lock();
        if let Some(listening) = channels.get_mut(channel) {
            listening.remove(&session);
            if listening.is_empty() {
                channels.remove(channel);
            }
        }
    }

    /// How much of the room for notifications is used, up to 1.
    fn usage(&self) -> f64 {
        (self.bytes.load(Ordering::Relaxed) as f64 / QUEUE_BYTES_MAX as f64).min(1.0)
    }

    /// From here on nothing is notified of here: another server leads the database.
    pub(super) fn close(&self) {
        let inboxes: Vec<Arc<Inbox>> = {
            let channels = self.channels.lock();
            channels.values().flat_map(|listening| listening.values().cloned()).collect()
        };
        let readers = std::mem::take(&mut *self.topics.lock());
        drop(readers);
        for inbox in inboxes {
            inbox.is_closed.store(true, Ordering::Release);
            inbox.wake();
        }
    }
}

/// A session that listens.
struct Listener {
    hub: Arc<Hub>,
    session: i32,
    inbox: Arc<Inbox>,
    /// The channels that it listens to, and a number by which they are listed.
    channels: HashMap<CompactString, u64>,
    serial: u64,
}

impl Listener {
    fn leave(&mut self, channel: &str) {
        if self.channels.remove(channel).is_some() {
            self.hub.remove(channel, self.session);
        }
    }

    fn leave_all(&mut self) {
        for (channel, _) in self.channels.drain() {
            self.hub.remove(&channel, self.session);
        }
    }

    fn take(&self) -> Arrived {
        let (places, ticket) = self.inbox.take();
        self.hub.bytes.fetch_sub(PLACE_BYTES * places.len(), Ordering::Relaxed);
        let heard = places.iter().filter(|queued| self.channels.contains_key(&queued.notification.channel));
        let notifications = heard.map(|queued| Arc::clone(&queued.notification)).collect();
        Arrived { notifications, ticket }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.leave_all();
        self.take();
    }
}

/// What is done about listening when the transaction commits.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Listen(CompactString),
    Unlisten(CompactString),
    UnlistenAll,
}

/// A place in what a transaction has gathered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    notifications: usize,
    actions: usize,
}

/// What a session's transaction has gathered, and what the session listens to.
#[derive(Default)]
pub(super) struct Notifications {
    pending: Vec<Arc<Notification>>,
    /// The same, to find what was said already.
    known: HashSet<(CompactString, CompactString)>,
    bytes: usize,
    /// The topics that it has put messages into, or had before a part was rolled back.
    topics: Vec<ObjectId>,
    actions: Vec<Action>,
    /// Channels that a commit on its way has begun to listen to.
    begun: Vec<CompactString>,
    sending: Option<Sending>,
    /// To be called when the store says that it has committed.
    at_commit: Option<AtCommit>,
    listener: Option<Box<Listener>>,
    hook: Option<Hook>,
}

impl Notifications {
    pub(super) fn mark(&self) -> Mark {
        Mark { notifications: self.pending.len(), actions: self.actions.len() }
    }

    /// Forgets what came after a place.
    pub(super) fn go_back_to(&mut self, mark: Mark) {
        self.actions.truncate(mark.actions);
        while self.pending.len() > mark.notifications {
            let Some(last) = self.pending.pop() else { break };
            self.bytes -= Queued::bytes(&last);
            self.known.remove(&(last.channel.clone(), last.payload.clone()));
        }
    }

    /// Forgets all that the transaction has gathered: it is rolled back, or was never begun.
    pub(super) fn forget(&mut self) {
        if self.pending.is_empty() && self.actions.is_empty() && self.sending.is_none() {
            return;
        }
        self.go_back_to(Mark::default());
        self.topics.clear();
        self.at_commit = None;
        self.sending = None;
        self.take_back_begun();
    }

    fn take_back_begun(&mut self) {
        for channel in std::mem::take(&mut self.begun) {
            if let Some(listener) = &mut self.listener {
                listener.leave(&channel);
            }
        }
        self.drop_idle_listener();
    }

    fn drop_idle_listener(&mut self) {
        if self.listener.as_ref().is_some_and(|listener| listener.channels.is_empty()) {
            self.listener = None;
        }
    }

    /// Whether the session listens to anything.
    pub(super) fn listens(&self) -> bool {
        self.listener.is_some()
    }

    /// Channels in the order in which the session has begun to listen to them.
    fn channels(&self) -> Vec<CompactString> {
        let Some(listener) = &self.listener else { return Vec::new() };
        let mut channels: Vec<_> = listener.channels.iter().collect();
        channels.sort_unstable_by_key(|(_, serial)| **serial);
        channels.into_iter().map(|(channel, _)| channel.clone()).collect()
    }

    pub(super) fn unlisten_all(&mut self) {
        self.listener = None;
    }

    fn notify(&mut self, session: i32, channel: &str, payload: &str) -> Result<()> {
        let bad = |message| Err(Error::new(SqlState::BAD_PARAMETER, message));
        if channel.is_empty() {
            return bad("channel name cannot be empty");
        }
        if channel.len() > NAME_BYTES_MAX {
            return bad("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return bad("payload string too long");
        }
        let key = (CompactString::new(channel), CompactString::new(payload));
        if !self.known.contains(&key) {
            let notification = Notification { session, channel: key.0.clone(), payload: key.1.clone() };
            let bytes = self.bytes + Queued::bytes(&notification);
            if bytes > QUEUE_BYTES_MAX {
                return Err(no_room());
            }
            self.bytes = bytes;
            self.known.insert(key);
            self.pending.push(Arc::new(notification));
        }
        Ok(())
    }

    /// Messages were put into a topic. Those who listen to its channel hear of it, and readers go
    /// on.
    pub(super) fn put_into(&mut self, session: i32, topic: ObjectId, channel: &str) -> Result<()> {
        if !self.topics.contains(&topic) {
            self.topics.push(topic);
        }
        self.notify(session, channel, "")
    }

    /// Whether the transaction has said LISTEN, UNLISTEN or NOTIFY.
    pub(super) fn is_used(&self) -> bool {
        !self.pending.is_empty() || !self.actions.is_empty()
    }

    /// The transaction is about to commit: it listens from here on, and has its notifications sent.
    pub(super) fn before_commit(&mut self, hub: &Arc<Hub>, session: i32, txn: &mut dyn Transaction) -> Result<()> {
        if self.pending.is_empty() && self.actions.is_empty() {
            return Ok(());
        }
        if !self.pending.is_empty() && hub.bytes.load(Ordering::Relaxed) + self.bytes > QUEUE_BYTES_MAX {
            return Err(no_room());
        }
        for action in &self.actions {
            let Action::Listen(channel) = action else { continue };
            let listener = self.listener.get_or_insert_with(|| {
                let inbox = Arc::new(Inbox::default());
                inbox.set_hook(self.hook.clone());
                Box::new(Listener { hub: Arc::clone(hub), session, inbox, channels: HashMap::new(), serial: 0 })
            });
            if !listener.channels.contains_key(channel) {
                listener.serial += 1;
                listener.channels.insert(channel.clone(), listener.serial);
                hub.add(channel, session, &listener.inbox);
                self.begun.push(channel.clone());
            }
        }
        if !self.pending.is_empty() {
            let all = std::mem::take(&mut self.pending);
            self.known.clear();
            self.bytes = 0;
            let topics = std::mem::take(&mut self.topics);
            let outgoing = Arc::new(Outgoing { all, topics, state: Mutex::default() });
            self.sending = Some(Sending { hub: Arc::clone(hub), outgoing: Arc::clone(&outgoing) });
            let hub = Arc::clone(hub);
            self.at_commit = txn.at_commit(Box::new(move |ticket| hub.has_committed(&outgoing, ticket)));
        }
        Ok(())
    }

    /// The transaction has committed.
    pub(super) fn has_committed(&mut self, ticket: &CommitTicket) {
        if let Some(then) = self.at_commit.take() {
            then(ticket.clone());
        }
        self.sending = None;
        self.begun.clear();
        if self.actions.is_empty() {
            return;
        }
        let actions = std::mem::take(&mut self.actions);
        let Some(listener) = &mut self.listener else { return };
        for (at, action) in actions.iter().enumerate() {
            let is_back = |channel: &str| {
                actions[at..].iter().any(|later| matches!(later, Action::Listen(again) if again == channel))
            };
            match action {
                Action::Listen(_) => {}
                Action::Unlisten(channel) if !is_back(channel) => listener.leave(channel),
                Action::Unlisten(_) => {}
                Action::UnlistenAll => {
                    let left: Vec<_> = listener.channels.keys().filter(|it| !is_back(it)).cloned().collect();
                    left.iter().for_each(|channel| listener.leave(channel));
                }
            }
        }
        self.drop_idle_listener();
    }
}

fn no_room() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, "too many notifications in the NOTIFY queue")
}

impl Own {
    /// `pg_notify`, and NOTIFY.
    pub(crate) fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        self.expect_no_standby("NOTIFY")?;
        self.notifications.notify(self.number, channel, payload)
    }

    fn expect_no_standby(&self, what: &str) -> Result<()> {
        if self.engine.is_standby() {
            return Err(self.refusal(format!("cannot execute {what} during recovery")));
        }
        Ok(())
    }

    /// `pg_listening_channels`, as an array.
    pub(super) fn listening_channels(&self) -> Datum {
        let channels = self.notifications.channels();
        let values = channels.into_iter().map(Datum::Text).collect();
        Datum::Array(Arc::new(Array::new(Type::Text, values)))
    }

    /// `pg_notification_queue_usage`
    pub(super) fn notification_queue_usage(&self) -> Datum {
        Datum::Float(self.engine.notifications().usage())
    }
}

impl Session {
    /// LISTEN
    pub(crate) fn listen(&mut self, channel: &CompactString) -> Result<()> {
        self.own.expect_no_standby("LISTEN")?;
        self.own.notifications.actions.push(Action::Listen(channel.clone()));
        Ok(())
    }

    /// UNLISTEN; `None` of all channels.
    pub(crate) fn unlisten(&mut self, channel: Option<&CompactString>) {
        let action = channel.map_or(Action::UnlistenAll, |channel| Action::Unlisten(channel.clone()));
        self.own.notifications.actions.push(action);
    }

    /// NOTIFY
    pub(crate) fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        self.own.notify(channel, payload)
    }

    /// Sets what is called when the first notification arrives after all were taken. It is called on
    /// the thread of another session, and must not wait.
    pub fn set_notification_hook(&mut self, hook: Arc<dyn Fn() + Send + Sync>) {
        let notifications = &mut self.own.notifications;
        notifications.hook = Some(hook);
        if let Some(listener) = &notifications.listener {
            listener.inbox.set_hook(notifications.hook.clone());
        }
    }

    /// Where notifications arrive, if the session listens.
    #[must_use]
    pub fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.own.notifications.listener.as_ref().map(|listener| &listener.inbox)
    }

    /// Takes the notifications that have arrived. To be called between transactions.
    pub fn take_notifications(&mut self) -> Arrived {
        let listener = self.own.notifications.listener.as_ref();
        listener.filter(|listener| listener.inbox.has_any()).map(|listener| listener.take()).unwrap_or_default()
    }
}
