//! The coordination service in memory, with virtual time and faults, under one seed.
//!
//! There are no threads and no clock. [`Simulation`] owns the time, the network between nodes and
//! service, and the tasks of the nodes. A run is the same for the same seed and the same calls.
//!
//! ```
//! use std::time::Duration;
//! use colibri_replica::simulation::Simulation;
//! use colibri_replica::{Cluster, JoinOptions, Node, NodeId};
//!
//! let simulation = Simulation::new(1);
//! let cluster = Cluster::new(simulation.connect("n1"), "example");
//! let node = Node { id: NodeId::new("n1")?, address: "h1:5432".to_owned() };
//! let joining = cluster.clone();
//! let joined = async move { joining.join(node, JoinOptions::default()).await };
//! let membership = simulation.block_on(joined)?;
//! let kept = membership.clone();
//! simulation.spawn("n1", async move { _ = kept.keep_alive().await });
//! simulation.run_for(Duration::from_secs(60));
//! assert!(!membership.lease_left().is_zero());
//! // Nobody answers, so the lease ends.
//! simulation.cut("n1");
//! simulation.run_for(Duration::from_secs(60));
//! assert!(membership.lease_left().is_zero());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The model of faults
//! - A request takes a time to reach the service, and its answer takes one to come back. So
//!   requests of one node overtake each other.
//! - A request may be lost, and its answer may be lost. The caller learns after the request timeout
//!   that the outcome is unknown. A lost request may still arrive, later than that.
//! - The service may carry out a request twice, the second time later.
//! - A node that is cut off reaches nothing, and its watches end. What is on the way when the
//!   cut begins is lost at the end of its way.
//! - A watch may be cut at any time, and may give what it gave before once more.
//! - Leases expire by the service's time. A node's clock runs as the service's does.
//! - Compaction, expiry and the quota are at the test's hand.
//!
//! Not in the model: a service that loses what it has agreed on, and members of the service that
//! disagree. That is what the consensus engine promises.

mod store;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::Future;
use std::ops::{Range, RangeInclusive};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::coordinator::{
    Answer, Coordinator, Done, Failure, Found, Get, Health, KeyValue, LeaseId, Moment, Revision, Txn, Watch, WatchEvent,
};
use store::Store;

/// What goes wrong, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// How long a request, an answer or a change takes on its way.
    pub delay: RangeInclusive<Duration>,
    /// When a call without an answer ends, with an unknown outcome.
    pub request_timeout: Duration,
    /// Requests that are lost, of a thousand. Half of them arrive late.
    pub requests_lost_permille: u32,
    /// Answers that are lost, of a thousand.
    pub answers_lost_permille: u32,
    /// Requests that the service carries out twice, of a thousand.
    pub duplicates_permille: u32,
    /// Deliveries at which a watch is cut, of a thousand.
    pub watches_cut_permille: u32,
    /// Deliveries that a watch gives twice, of a thousand.
    pub deliveries_repeated_permille: u32,
}

impl Default for Faults {
    /// A network of one millisecond that loses nothing.
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(1)..=Duration::from_millis(1),
            request_timeout: Duration::from_secs(1),
            requests_lost_permille: 0,
            answers_lost_permille: 0,
            duplicates_permille: 0,
            watches_cut_permille: 0,
            deliveries_repeated_permille: 0,
        }
    }
}

/// Bytes of a value that fit, unless a test says otherwise.
const VALUE_BYTES_MAX: usize = 1 << 20;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A service, its nodes' tasks, and their time. Copies are the same simulation; they stay in one
/// thread.
#[derive(Clone)]
pub struct Simulation {
    world: Arc<Mutex<World>>,
    tasks: Rc<RefCell<Tasks>>,
    woken: Arc<Mutex<Woken>>,
}

#[derive(Default)]
struct Tasks {
    /// By number: the node, and the task unless it is running.
    tasks: BTreeMap<u64, (String, Option<Task>)>,
    last: u64,
}

#[derive(Default)]
struct Woken {
    order: VecDeque<u64>,
    is_queued: BTreeSet<u64>,
}

struct TaskWaker {
    task: u64,
    woken: Arc<Mutex<Woken>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut woken = self.woken.lock();
        if woken.is_queued.insert(self.task) {
            woken.order.push_back(self.task);
        }
    }
}

/// The future that [`Simulation::block_on`] runs.
const MAIN: u64 = 0;

impl Simulation {
    /// An empty service, without faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let world = World {
            now: Moment(Duration::from_secs(1)),
            random: seed,
            faults: Faults::default(),
            cut: BTreeSet::new(),
            store: Store::new(VALUE_BYTES_MAX),
            lease_ends: BTreeMap::new(),
            events: BinaryHeap::new(),
            next_event: 0,
            watches: BTreeMap::new(),
            next_watch: 0,
            request_count: 0,
        };
        Self { world: Arc::new(Mutex::new(world)), tasks: Rc::default(), woken: Arc::default() }
    }

    /// A node's connection to the service.
    #[must_use]
    pub fn connect(&self, node: &str) -> Arc<dyn Coordinator> {
        Arc::new(Connection { node: node.to_owned(), world: self.world.clone() })
    }

    /// Runs a future as a task of a node, until it ends or the node is killed.
    pub fn spawn(&self, node: &str, future: impl Future<Output = ()> + 'static) {
        let task = {
            let mut tasks = self.tasks.borrow_mut();
            tasks.last += 1;
            let task = tasks.last;
            tasks.tasks.insert(task, (node.to_owned(), Some(Box::pin(future))));
            task
        };
        Arc::new(TaskWaker { task, woken: self.woken.clone() }).wake();
    }

    /// Ends a node's tasks where they are. Its requests under way go on.
    pub fn kill(&self, node: &str) {
        let killed: Vec<_> = self.tasks.borrow_mut().tasks.extract_if(.., |_, (of, _)| of == node).collect();
        // Dropped when the tasks are not borrowed any more.
        drop(killed);
    }

    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.lock().faults = faults;
    }

    /// Cuts a node off from the service.
    pub fn cut(&self, node: &str) {
        let mut world = self.world.lock();
        world.cut.insert(node.to_owned());
        let broken: Vec<u64> =
            world.watches.iter().filter(|(_, watch)| watch.node == node).map(|(&number, _)| number).collect();
        for number in broken {
            world.deliver(number, WatchEvent::Cut);
        }
    }

    /// Ends a node's cut.
    pub fn heal(&self, node: &str) {
        self.world.lock().cut.remove(node);
    }

    /// Ends a lease now.
    pub fn expire(&self, lease: LeaseId) {
        let mut world = self.world.lock();
        world.lease_ends.remove(&lease);
        world.changed(|store| store.revoke(lease));
    }

    /// Forgets all states before the newest one.
    pub fn compact(&self) {
        let mut world = self.world.lock();
        let newest = world.store.revision();
        world.store.compact(newest);
    }

    /// Sets the quota in bytes. Writes beyond it are refused.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.world.lock().store.quota_bytes = bytes;
    }

    /// Sets the size of a value that fits into a transaction, so that small records have parts. For
    /// all nodes, before the first append.
    pub fn set_value_bytes_max(&self, bytes: usize) {
        self.world.lock().store.value_bytes_max = bytes;
    }

    /// From now on compares of keys that begin so hold always. With it a test proves that it would
    /// notice a compare that was left out.
    pub fn ignore_compares_of(&self, prefix: &[u8]) {
        self.world.lock().store.ignored_compares = Some(prefix.to_vec());
    }

    /// What is in a range, without a request.
    #[must_use]
    pub fn keys(&self, keys: Range<Vec<u8>>) -> Vec<KeyValue> {
        self.world.lock().store.get(&Get::range(keys)).keys
    }

    /// Requests that reached the service so far.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.world.lock().request_count
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.world.lock().now
    }

    /// A number below a bound, from the seed.
    #[must_use]
    pub fn random(&self, below: u64) -> u64 {
        self.world.lock().random(below)
    }

    /// Lets all tasks run until so much time has passed.
    pub fn run_for(&self, duration: Duration) {
        let end = self.now().after(duration);
        loop {
            self.poll_woken(None);
            let mut world = self.world.lock();
            if world.events.peek().is_none_or(|Reverse(next)| next.at > end) {
                world.now = end;
                return;
            }
            world.step();
        }
    }

    /// Runs a future to its end, and all tasks meanwhile.
    ///
    /// # Panics
    /// If the future waits, and nothing is under way that could wake it.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut result = None;
        Arc::new(TaskWaker { task: MAIN, woken: self.woken.clone() }).wake();
        loop {
            let mut main = |context: &mut Context<'_>| {
                if let Poll::Ready(value) = future.as_mut().poll(context) {
                    result = Some(value);
                }
                result.is_some()
            };
            if self.poll_woken(Some(&mut main)) {
                return result.expect("the future has given its result");
            }
            assert!(self.world.lock().step(), "the future waits for something that cannot come");
        }
    }

    /// Polls what was woken; gives whether the main future has ended.
    fn poll_woken(&self, mut main: Option<&mut dyn FnMut(&mut Context<'_>) -> bool>) -> bool {
        loop {
            let task = {
                let mut woken = self.woken.lock();
                let Some(task) = woken.order.pop_front() else { return false };
                woken.is_queued.remove(&task);
                task
            };
            let waker = Waker::from(Arc::new(TaskWaker { task, woken: self.woken.clone() }));
            let mut context = Context::from_waker(&waker);
            if task == MAIN {
                if main.as_mut().is_some_and(|main| main(&mut context)) {
                    return true;
                }
                continue;
            }
            let taken = self.tasks.borrow_mut().tasks.get_mut(&task).and_then(|(_, future)| future.take());
            let Some(mut future) = taken else { continue };
            let is_ready = future.as_mut().poll(&mut context).is_ready();
            let mut tasks = self.tasks.borrow_mut();
            if is_ready {
                tasks.tasks.remove(&task);
            } else if let Some((_, place)) = tasks.tasks.get_mut(&task) {
                *place = Some(future);
                continue;
            }
            drop(tasks);
            drop(future);
        }
    }
}

/// A request on its way.
#[derive(Clone)]
enum Request {
    Transact(Txn),
    Get(Get),
    Grant(Duration),
    KeepAlive(LeaseId),
    Revoke(LeaseId),
    Compact(Revision),
    Health,
}

enum Reply {
    Done(Done),
    Found(Found),
    Granted(LeaseId, Duration),
    KeptAlive(Option<Duration>),
    Nothing,
    Health(Health),
}

/// Where a reply waits for its caller.
#[derive(Default)]
struct Slot {
    reply: Option<Result<Reply, Failure>>,
    is_decided: bool,
    waker: Option<Waker>,
}

type SharedSlot = Arc<Mutex<Slot>>;

fn decide(slot: &SharedSlot, reply: Result<Reply, Failure>) {
    let mut slot = slot.lock();
    if !slot.is_decided {
        slot.is_decided = true;
        slot.reply = Some(reply);
        slot.waker.take().into_iter().for_each(Waker::wake);
    }
}

enum Event {
    Arrive { node: String, request: Request, slot: Option<SharedSlot> },
    Reply { node: String, reply: Result<Reply, Failure>, slot: SharedSlot },
    Timeout { slot: SharedSlot, failure: Failure },
    Slept(SharedSlot),
    LeaseEnds(LeaseId),
    OpenWatch(u64),
    Deliver(u64, WatchEvent),
}

struct Scheduled {
    at: Moment,
    number: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A watch, at the service and at the node.
struct WatchState {
    node: String,
    keys: Range<Vec<u8>>,
    /// The first revision that was not sent.
    from: Revision,
    is_open: bool,
    /// The last delivery on the way: deliveries do not overtake each other.
    last_at: Moment,
    inbox: Arc<Mutex<Inbox>>,
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<WatchEvent>,
    is_over: bool,
    waker: Option<Waker>,
}

struct World {
    now: Moment,
    random: u64,
    faults: Faults,
    cut: BTreeSet<String>,
    store: Store,
    lease_ends: BTreeMap<LeaseId, (Moment, Duration)>,
    events: BinaryHeap<Reverse<Scheduled>>,
    next_event: u64,
    watches: BTreeMap<u64, WatchState>,
    next_watch: u64,
    request_count: u64,
}

impl World {
    /// SplitMix64.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    fn happens(&mut self, permille: u32) -> bool {
        permille > 0 && self.random(1000) < u64::from(permille)
    }

    fn delay(&mut self) -> Duration {
        let (shortest, longest) = (*self.faults.delay.start(), *self.faults.delay.end());
        let span = longest.saturating_sub(shortest).as_micros() as u64;
        shortest + Duration::from_micros(self.random(span + 1))
    }

    fn schedule(&mut self, at: Moment, event: Event) {
        self.next_event += 1;
        self.events.push(Reverse(Scheduled { at, number: self.next_event, event }));
    }

    /// A node sends a request.
    fn send(&mut self, node: &str, request: Request, slot: &SharedSlot) {
        let arrives = self.now.after(self.delay());
        let timeout = self.now.after(self.faults.request_timeout);
        let mut failure = Failure::Unknown("no answer in time".to_owned());
        let arrive = |world: &mut Self, at: Moment, slot: Option<SharedSlot>| {
            world.schedule(at, Event::Arrive { node: node.to_owned(), request: request.clone(), slot });
        };
        if self.cut.contains(node) {
            // A new connection that is not made is known to have sent nothing.
            if self.random(2) == 0 {
                failure = Failure::NotSent("no connection".to_owned());
            }
        } else if self.happens(self.faults.requests_lost_permille) {
            if self.random(2) == 0 {
                let late = Duration::from_micros(self.random(2 * self.faults.request_timeout.as_micros() as u64));
                arrive(self, timeout.after(late), Some(slot.clone()));
            }
        } else {
            arrive(self, arrives, Some(slot.clone()));
            if self.happens(self.faults.duplicates_permille) {
                let late = Duration::from_micros(self.random(2 * self.faults.request_timeout.as_micros() as u64));
                arrive(self, arrives.after(late), None);
            }
        }
        self.schedule(timeout, Event::Timeout { slot: slot.clone(), failure });
    }

    /// Carries out the next event; false if there is none.
    fn step(&mut self) -> bool {
        let Some(Reverse(Scheduled { at, event, .. })) = self.events.pop() else { return false };
        self.now = self.now.max(at);
        match event {
            Event::Arrive { node, request, slot } => {
                if self.cut.contains(&node) {
                    return true;
                }
                self.request_count += 1;
                let reply = self.carry_out(request);
                let is_lost = self.happens(self.faults.answers_lost_permille);
                if let Some(slot) = slot.filter(|_| !is_lost) {
                    let at = self.now.after(self.delay());
                    self.schedule(at, Event::Reply { node, reply, slot });
                }
            }
            Event::Reply { node, reply, slot } => {
                if !self.cut.contains(&node) {
                    decide(&slot, reply);
                }
            }
            Event::Timeout { slot, failure } => decide(&slot, Err(failure)),
            Event::Slept(slot) => decide(&slot, Ok(Reply::Nothing)),
            Event::LeaseEnds(lease) => {
                if self.lease_ends.get(&lease).is_some_and(|(end, _)| *end <= self.now) {
                    self.lease_ends.remove(&lease);
                    self.changed(|store| store.revoke(lease));
                }
            }
            Event::OpenWatch(number) => self.open_watch(number),
            Event::Deliver(number, event) => self.deliver(number, event),
        }
        true
    }

    fn carry_out(&mut self, request: Request) -> Result<Reply, Failure> {
        Ok(match request {
            Request::Transact(txn) => {
                Reply::Done(self.changed(|store| store.transact(&txn)).map_err(Failure::Refused)?)
            }
            Request::Get(get) => Reply::Found(self.store.get(&get)),
            Request::Grant(ttl) => {
                let lease = self.store.grant();
                self.prolong(lease, ttl);
                Reply::Granted(lease, ttl)
            }
            Request::KeepAlive(lease) => match self.lease_ends.get(&lease).copied() {
                Some((_, ttl)) if self.store.is_alive(lease) => {
                    self.prolong(lease, ttl);
                    Reply::KeptAlive(Some(ttl))
                }
                _ => Reply::KeptAlive(None),
            },
            Request::Revoke(lease) => {
                self.lease_ends.remove(&lease);
                self.changed(|store| store.revoke(lease));
                Reply::Nothing
            }
            Request::Compact(revision) => {
                self.store.compact(revision);
                Reply::Nothing
            }
            Request::Health => Reply::Health(self.store.health()),
        })
    }

    fn prolong(&mut self, lease: LeaseId, ttl: Duration) {
        let end = self.now.after(ttl);
        self.lease_ends.insert(lease, (end, ttl));
        self.schedule(end, Event::LeaseEnds(lease));
    }

    /// Changes the store, and sends the changes to the watches.
    fn changed<T>(&mut self, change: impl FnOnce(&mut Store) -> T) -> T {
        let before = self.store.revision();
        let result = change(&mut self.store);
        if self.store.revision() > before {
            let open: Vec<u64> =
                self.watches.iter().filter(|(_, watch)| watch.is_open).map(|(&number, _)| number).collect();
            open.into_iter().for_each(|number| self.send_changes(number));
        }
        result
    }

    fn open_watch(&mut self, number: u64) {
        let Some(watch) = self.watches.get_mut(&number) else { return };
        if self.cut.contains(&watch.node) {
            return self.deliver(number, WatchEvent::Cut);
        }
        watch.is_open = true;
        self.send_changes(number);
    }

    fn send_changes(&mut self, number: u64) {
        let Some(watch) = self.watches.get(&number) else { return };
        let changes = self.store.changes_from(&watch.keys, watch.from);
        let newest = self.store.revision();
        let (event, times) = match changes {
            None => (WatchEvent::Compacted, 1),
            Some(changes) if changes.is_empty() => return,
            Some(_) if self.happens(self.faults.watches_cut_permille) => (WatchEvent::Cut, 1),
            Some(changes) => {
                let is_repeated = self.happens(self.faults.deliveries_repeated_permille);
                (WatchEvent::Changes(changes), if is_repeated { 2 } else { 1 })
            }
        };
        let mut at = self.now;
        for _ in 0..times {
            let delay = self.delay();
            let watch = self.watches.get_mut(&number).expect("it is there");
            at = watch.last_at.max(self.now.after(delay));
            watch.last_at = at;
            self.schedule(at, Event::Deliver(number, event.clone()));
        }
        let watch = self.watches.get_mut(&number).expect("it is there");
        watch.from = Revision(newest.0 + 1);
        watch.is_open = matches!(event, WatchEvent::Changes(_));
        watch.last_at = at;
    }

    fn deliver(&mut self, number: u64, event: WatchEvent) {
        let Some(watch) = self.watches.get(&number) else { return };
        let event = if self.cut.contains(&watch.node) { WatchEvent::Cut } else { event };
        let is_last = !matches!(event, WatchEvent::Changes(_));
        let mut inbox = watch.inbox.lock();
        if !inbox.is_over {
            inbox.is_over = is_last;
            inbox.events.push_back(event);
            inbox.waker.take().into_iter().for_each(Waker::wake);
        }
        drop(inbox);
        if is_last {
            self.watches.remove(&number);
        }
    }
}

/// A node's connection.
struct Connection {
    node: String,
    world: Arc<Mutex<World>>,
}

impl Connection {
    fn call<T: 'static>(&self, request: Request, take: fn(Reply) -> Option<T>) -> Answer<Result<T, Failure>> {
        let (node, world) = (self.node.clone(), self.world.clone());
        Box::pin(async move {
            let slot = SharedSlot::default();
            world.lock().send(&node, request, &slot);
            let reply = std::future::poll_fn(|context| poll_slot(&slot, context)).await?;
            Ok(take(reply).expect("the reply is of the request's kind"))
        })
    }
}

fn poll_slot(slot: &SharedSlot, context: &mut Context<'_>) -> Poll<Result<Reply, Failure>> {
    let mut slot = slot.lock();
    match slot.reply.take() {
        Some(reply) => Poll::Ready(reply),
        None => {
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }
}

impl Coordinator for Connection {
    fn transact(&self, txn: Txn) -> Answer<Result<Done, Failure>> {
        self.call(Request::Transact(txn), |reply| if let Reply::Done(done) = reply { Some(done) } else { None })
    }

    fn get(&self, get: Get) -> Answer<Result<Found, Failure>> {
        self.call(Request::Get(get), |reply| if let Reply::Found(found) = reply { Some(found) } else { None })
    }

    fn watch(&self, keys: Range<Vec<u8>>, from: Revision) -> Box<dyn Watch> {
        let mut world = self.world.lock();
        let number = world.next_watch;
        world.next_watch += 1;
        let inbox = Arc::<Mutex<Inbox>>::default();
        let last_at = world.now;
        let state = WatchState { node: self.node.clone(), keys, from, is_open: false, last_at, inbox: inbox.clone() };
        world.watches.insert(number, state);
        let at = world.now.after(world.delay());
        world.schedule(at, Event::OpenWatch(number));
        Box::new(Watching { number, inbox, world: self.world.clone() })
    }

    fn grant(&self, ttl: Duration) -> Answer<Result<(LeaseId, Duration), Failure>> {
        let take = |reply| if let Reply::Granted(lease, ttl) = reply { Some((lease, ttl)) } else { None };
        self.call(Request::Grant(ttl), take)
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<Result<Option<Duration>, Failure>> {
        let take = |reply| if let Reply::KeptAlive(left) = reply { Some(left) } else { None };
        self.call(Request::KeepAlive(lease), take)
    }

    fn revoke(&self, lease: LeaseId) -> Answer<Result<(), Failure>> {
        self.call(Request::Revoke(lease), |_| Some(()))
    }

    fn compact(&self, revision: Revision) -> Answer<Result<(), Failure>> {
        self.call(Request::Compact(revision), |_| Some(()))
    }

    fn health(&self) -> Answer<Result<Health, Failure>> {
        self.call(Request::Health, |reply| if let Reply::Health(health) = reply { Some(health) } else { None })
    }

    fn value_bytes_max(&self) -> usize {
        self.world.lock().store.value_bytes_max
    }

    fn now(&self) -> Moment {
        self.world.lock().now
    }

    fn wall_clock(&self) -> Duration {
        self.world.lock().now.0
    }

    fn sleep(&self, duration: Duration) -> Answer<()> {
        let world = self.world.clone();
        Box::pin(async move {
            let slot = SharedSlot::default();
            {
                let mut world = world.lock();
                let at = world.now.after(duration);
                world.schedule(at, Event::Slept(slot.clone()));
            }
            _ = std::future::poll_fn(|context| poll_slot(&slot, context)).await;
        })
    }
}

/// The node's end of a watch.
struct Watching {
    number: u64,
    inbox: Arc<Mutex<Inbox>>,
    world: Arc<Mutex<World>>,
}

impl Watch for Watching {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<WatchEvent> {
        let mut inbox = self.inbox.lock();
        match inbox.events.pop_front() {
            Some(event) => Poll::Ready(event),
            None => {
                inbox.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.world.lock().watches.remove(&self.number);
    }
}
