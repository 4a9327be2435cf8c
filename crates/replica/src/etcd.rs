//! The coordination service on etcd 3.4 and later, over its gRPC interface.
//!
//! ```text
//! any thread ── calls, watches ──► thread "etcd": a tokio runtime of one thread
//!      ▲                             ├ link      one connection, to one member at a time
//!      └── oneshot, inbox of a watch ┤ calls     a task each, with a time limit
//!                                    ├ watches   one stream for all watches
//!                                    └ lent      work of others that goes on with each answer
//! ```
//! gRPC needs tokio, and Colibri has a runtime of its own. So tokio lives in one thread, and
//! answers come back through futures that wake whoever polls them, wherever that is.
//!
//! # Fail-over
//! There is one connection, to one member. A call that fails without an answer, or has none in
//! time, ends the connection: the next call connects to the next member, and all watches are cut,
//! so that their owners read and watch anew there. A member that is cut off from the others answers
//! no linearizable call, so it is left in the same way. While nothing happens, the keepalives of
//! the lease notice it. A connection without a lease notices a network that goes silent only when
//! it is used.
//!
//! Invariants:
//! 1. No serializable read is ever sent.
//! 2. [`Failure::NotSent`] is given only where no connection could be made, or etcd has said that
//!    it did not take the request. Everything else without an answer is [`Failure::Unknown`].
//! 3. The thread sleeps without a limit while there is no call and no change.

mod lent;
mod link;
mod messages;
mod requests;
mod watches;
mod whole;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::address::Address;
use crate::coordinator::{
    Answer, Coordinator, Done, Failure, Found, Get, Health, LeaseId, Moment, Revision, Txn, Watch,
};
use link::Link;
use watches::{Inbox, Watching};

/// The bytes of an entry. etcd's limit of a request is 1.5 MiB unless it is told otherwise; the
/// rest is for keys, compares and headers.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Limits of time.
#[derive(Debug, Clone, Copy)]
pub struct EtcdOptions {
    /// A call without an answer ends after this time, with an unknown outcome; making a connection
    /// for it comes on top. A third of the lease's life or less, so that a lost keepalive can be
    /// repeated.
    pub request_timeout: Duration,
    /// A connection to a member that is not made in this time is given up, and the next one tried.
    pub connect_timeout: Duration,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self { request_timeout: Duration::from_millis(1500), connect_timeout: Duration::from_secs(1) }
    }
}

/// Why etcd cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// A file of TLS cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An endpoint or a certificate is not valid.
    #[error("the connection to {endpoint} cannot be set up: {reason}")]
    Setup {
        /// The endpoint.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread for etcd: {0}")]
    Thread(io::Error),
}

/// A connection to etcd. Dropping it, and all watches, ends its thread.
pub struct Etcd {
    commands: mpsc::UnboundedSender<Command>,
}

/// Sleeps that are shorter use a timer of the system: tokio counts whole milliseconds.
const EXACT_MAX: Duration = Duration::from_millis(20);

async fn sleep(duration: Duration) {
    if duration >= EXACT_MAX || sleep_exactly(duration).await.is_err() {
        tokio::time::sleep(duration).await;
    }
}

async fn sleep_exactly(duration: Duration) -> io::Result<()> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A time of zero would be no time at all.
    let time = Timespec { tv_sec: 0, tv_nsec: duration.subsec_nanos().max(1).into() };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: time })?;
    // SAFETY: an `OwnedFd` always gives the same descriptor, and keeps it open until it is dropped.
    #[allow(unsafe_code, reason = "tokio has no timer of the system")]
    let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
    _ = timer.readable().await?;
    Ok(())
}

/// What the thread is asked to do.
enum Command {
    Call(Box<dyn FnOnce(Arc<Link>) + Send>),
    Watch { number: i64, keys: Range<Vec<u8>>, from: Revision, inbox: Arc<Inbox> },
    Unwatch(i64),
}

impl Etcd {
    /// Starts the thread. Connects when the first call is made.
    ///
    /// # Errors
    /// [`EtcdError`]. That etcd cannot be reached is no such error: it may come.
    pub fn new(address: &Address, options: EtcdOptions) -> Result<Arc<Self>, EtcdError> {
        let link = Arc::new(Link::new(address, options)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(EtcdError::Thread)?;
        let (commands, inbox) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || runtime.block_on(serve(link, inbox)))
            .map_err(EtcdError::Thread)?;
        Ok(Arc::new(Self { commands }))
    }

    /// Runs a call in the thread. It goes on when the answer is not waited for.
    fn call<T, F>(&self, call: impl FnOnce(Arc<Link>) -> F + Send + 'static) -> Answer<Result<T, Failure>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let command = Command::Call(Box::new(move |link| {
            tokio::spawn(async move { _ = answer.send(call(link).await) });
        }));
        let is_sent = self.commands.send(command).is_ok();
        Box::pin(async move {
            if !is_sent {
                return Err(Failure::NotSent("the thread for etcd has ended".to_owned()));
            }
            answered.await.unwrap_or_else(|_| Err(Failure::Unknown("the thread for etcd has ended".to_owned())))
        })
    }
}

/// The thread: until all handles are gone.
async fn serve(link: Arc<Link>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let (to_watches, watches) = mpsc::unbounded_channel();
    let watching = tokio::spawn(watches::serve(link.clone(), watches));
    while let Some(command) = commands.recv().await {
        match command {
            Command::Call(call) => call(link.clone()),
            watch => _ = to_watches.send(watch),
        }
    }
    drop(to_watches);
    _ = watching.await;
}

impl Coordinator for Etcd {
    fn transact(&self, txn: Txn) -> Answer<Result<Done, Failure>> {
        self.call(move |link| async move { requests::transact(&link, txn).await })
    }

    fn get(&self, get: Get) -> Answer<Result<Found, Failure>> {
        self.call(move |link| async move { requests::get(&link, get).await })
    }

    fn watch(&self, keys: Range<Vec<u8>>, from: Revision) -> Box<dyn Watch> {
        Box::new(Watching::new(self.commands.clone(), keys, from))
    }

    fn grant(&self, ttl: Duration) -> Answer<Result<(LeaseId, Duration), Failure>> {
        self.call(move |link| async move { requests::grant(&link, ttl).await })
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<Result<Option<Duration>, Failure>> {
        self.call(move |link| async move { requests::keep_alive(&link, lease).await })
    }

    fn revoke(&self, lease: LeaseId) -> Answer<Result<(), Failure>> {
        self.call(move |link| async move { requests::revoke(&link, lease).await })
    }

    fn compact(&self, revision: Revision) -> Answer<Result<(), Failure>> {
        self.call(move |link| async move { requests::compact(&link, revision).await })
    }

    fn health(&self) -> Answer<Result<Health, Failure>> {
        self.call(move |link| async move { requests::health(&link).await })
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn now(&self) -> Moment {
        // It goes on while the machine is suspended, as leases do.
        let now = clock_gettime(ClockId::Boottime);
        Moment(Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0)))
    }

    fn sleep(&self, duration: Duration) -> Answer<()> {
        let (mut wakes, woken) = oneshot::channel::<()>();
        let command = Command::Call(Box::new(move |_| {
            tokio::spawn(async move {
                // Nobody may wait any more.
                tokio::select! {
                    () = sleep(duration) => {}
                    () = wakes.closed() => {}
                }
                _ = wakes.send(());
            });
        }));
        _ = self.commands.send(command);
        Box::pin(async move { _ = woken.await })
    }

    fn beside_answers(&self, work: Answer<()>) -> Answer<()> {
        let (lent, work) = lent::lend(work);
        let command = Command::Call(Box::new(move |_| {
            tokio::spawn(work);
        }));
        _ = self.commands.send(command);
        Box::pin(lent)
    }
}
