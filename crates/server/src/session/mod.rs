//! A client that has logged in: its messages, one after the other, and their answers.
//!
//! ```text
//! wait ─► message ─► simple:   Query ───────────────────────────────► run ─► ready, flush
//!                    extended: Parse, Bind, Describe, Execute ─► run
//!                              Sync ───────────────────────────────────────► ready, flush
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `simple` | queries as text, of one statement or several |
//! | `extended` | prepared statements, portals, Sync |
//! | `named` | names that come by the protocol |
//! | `copy` | COPY from and to the client |
//! | `drive` | running a statement: steps, waiting, limits, pools |
//! | `repeat` | running a transaction again that conflicts, unseen |
//! | `replica` | reads on a node of a cluster |
//! | `roam` | sessions of a cluster that go on at another node |
//!
//! Invariants
//! - An answer that reports a commit, or contains data of one, is sent only when the commit is
//!   durable: [`Client::flush`] waits for that before every write.
//! - A client that waits for its next message costs its task, its session and little else; a client
//!   that does not read stops its statement at [`OUT_BYTES`].
//! - After an error of an extended message all others up to the next Sync are left out.
//! - Errors and notices are sent as soon as all received messages are handled, even without a
//!   Flush: many clients send a Sync only when they have read an error.

mod copy;
mod copy_file;
mod drive;
mod extended;
mod helping;
mod named;
mod repeat;
mod replica;
mod roam;
mod simple;

use std::future::{Future, poll_fn};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use colibri_runtime::{Pool, Sleep, budget, sleep};
use colibri_sql::cluster::{SessionState, Waits};
use colibri_sql::encoding::Encoding;
use colibri_sql::{Arrived, Error, Session, Severity, SqlState, TransactionState};
use colibri_txn::CommitTicket;

use crate::cluster::Lease;
use crate::link::Link;
use crate::protocol::frontend::{self, HEADER_BYTES, Header, Message};
use crate::protocol::{backend, recode, violation};
use crate::registry::{Member, Membership, Query, Stop, Why};
use crate::shared::Shared;
use drive::Limits;
use extended::Portals;
use repeat::Unit;
use replica::reads;

/// The length from which an unfinished answer is sent.
const OUT_BYTES: usize = 32 << 10;
const ADMIN_SHUTDOWN: SqlState = SqlState("57P01");
const CANNOT_CONNECT_NOW: SqlState = SqlState("57P03");
const IDLE: SqlState = SqlState("57P05");
const IDLE_IN_TRANSACTION: SqlState = SqlState("25P03");

/// How a session ended.
pub(crate) enum End {
    /// The client has sent Terminate.
    Closed,
    /// The client has gone.
    Gone,
    /// The session ends with this error.
    Fatal(Error),
    /// The session goes on at another node of the cluster.
    Elsewhere(Box<crate::replication::relay::Upstream>),
}

/// Why a message failed.
enum Failure {
    /// An error for the client; the session goes on.
    Error(Error),
    /// The session ends.
    End(End),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

/// Answers that may be sent only when a ticket is due.
struct Owed {
    ticket: CommitTicket,
    /// Where these answers begin in the bytes to send.
    from: usize,
}

/// A client that has logged in.
///
/// Fields are dropped in order: the session before its lease on the database.
pub(crate) struct Client {
    shared: Arc<Shared>,
    link: Link,
    /// `None` while it runs on a thread of its own.
    session: Option<Box<Session>>,
    portals: Portals,
    /// After an error, until the next Sync.
    is_skipping: bool,
    /// The bytes of a CopyData message that were not taken yet. If the COPY has failed they are
    /// skipped.
    copy_left: usize,
    /// Something has to be sent even without a further request.
    is_flush_due: bool,
    owed: Option<Owed>,
    /// The number of writes to the client.
    sent: u64,
    /// The unit of extended messages since the last Sync that may be run again.
    unit: Option<Unit>,
    /// Whether a text of several statements is running that may be run again.
    is_text_at_work: bool,
    scratch: String,
    times: Times,
    limits: Limits,
    reported: Reported,
    /// The pool that the task is in.
    pool: Pool,
    membership: Membership,
    /// The client was told that it may write, or is about to be: what it reads has to be the newest
    /// state. Only in a cluster that can be otherwise.
    has_led: bool,
    /// The session has asked for the last state that was agreed on, be it the newest or not.
    reads_agreed: bool,
    /// Among the answers to send may be what was read of the database.
    has_read: bool,
    /// Among the answers to send is that to a commit.
    has_committed: bool,
    /// The client was greeted before: its session was elsewhere meanwhile.
    is_known: bool,
    /// ReadyForQuery was the last thing told, and no transaction is open: notifications may be told.
    is_between: bool,
    /// In a cluster, from the first message on.
    roaming: Option<Box<roam::Roaming>>,
    lease: Lease,
}

/// Settings whose changes are reported to clients: PostgreSQL's GUC_REPORT.
const REPORTED: [(&str, &str); 10] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("DateStyle", "datestyle"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("IntervalStyle", "intervalstyle"),
    ("is_superuser", "is_superuser"),
    ("session_authorization", "session_authorization"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("TimeZone", "timezone"),
];

/// The time without another reading of a clock: a client sends dozens of statements at once.
#[derive(Default)]
struct Times {
    /// An instant since the client was last waited for, and the wall's clock at that, in
    /// microseconds since 2000-01-01 00:00 UTC.
    came: Option<(Instant, i64)>,
    /// When the statement at work began, by the wall's clock as above.
    began_us: i64,
    /// The end of the last statement, if only a Bind came since.
    ended: Option<Instant>,
}

/// The result of a future, or its panic: a bug in a statement ends its session with an error, and
/// affects no other session.
async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(cause) => {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
            Poll::Ready(Err(text.to_owned()))
        }
    })
    .await
}

/// A hash of a setting's value; 0 of the empty one, which is what a client takes a setting for of which
/// it has heard nothing.
fn mark_of(value: &str) -> u64 {
    if value.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() | 1
}

/// The values reported last.
#[derive(Default)]
struct Reported {
    /// Of the settings, and whether the server was a standby.
    version: Option<(u32, bool)>,
    /// Marks of them: each connection has them, and the texts would take hundreds of bytes.
    values: [u64; REPORTED.len()],
    /// Notices of lower severity are not sent.
    notices_from: Option<Severity>,
    /// No notices are sent.
    is_silent: bool,
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, link: Link, session: Session, membership: Membership, lease: Lease) -> Self {
        Self {
            shared,
            link,
            session: Some(Box::new(session)),
            portals: Portals::default(),
            is_skipping: false,
            copy_left: 0,
            is_flush_due: false,
            owed: None,
            sent: 0,
            unit: None,
            is_text_at_work: false,
            scratch: String::new(),
            times: Times::default(),
            limits: Limits::default(),
            reported: Reported::default(),
            pool: Pool::User,
            membership,
            has_led: false,
            reads_agreed: false,
            // The greeting says whether the server leads.
            has_read: true,
            has_committed: false,
            is_known: false,
            is_between: true,
            roaming: None,
            lease,
        }
    }

    /// The client's, if the session is at hand.
    fn encoding(&self) -> Encoding {
        self.session.as_ref().map_or(Encoding::UTF8, |session| session.env().client_encoding)
    }

    fn member(&self) -> &Member {
        &self.membership.member
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is away only while its task waits for it")
    }

    /// Sends the greeting, and serves the client until its end, whose reason is sent as well. Gives
    /// what is left of a session that goes on at another node.
    pub(crate) async fn serve(mut self) -> Option<crate::replication::relay::Away> {
        let begun = self.greet_inside().await;
        let end = match begun {
            Ok(()) => match contained(self.run()).await {
                Ok(end) => end,
                Err(message) => {
                    self.shared.log.error("statement_panicked", &[("pid", &self.member().pid), ("message", &message)]);
                    End::Fatal(Error::internal(format_args!(
                        "the statement ended by a mistake of the server: {message}"
                    )))
                }
            },
            Err(end) => end,
        };
        if let End::Elsewhere(upstream) = end {
            return Some(self.into_away(upstream));
        }
        if let End::Fatal(error) = &end {
            // Pending answers to earlier statements are sent first.
            let encoding = self.encoding();
            backend::error(&mut self.link.out, "FATAL", error, encoding);
            self.shared.log.warn("session_ended", &[("pid", &self.member().pid), ("error", error)]);
        }
        // The transaction is rolled back before waiting for a client that may not read.
        self.session = None;
        self.roaming = None;
        if !matches!(end, End::Gone) {
            _ = colibri_runtime::timeout(GOODBYE_MAX, self.link.close()).await;
        }
        self.shared.counts.traffic(self.link.bytes_in, self.link.bytes_out);
        None
    }

    /// Greets the client, while the leadership of its database stays where it is.
    async fn greet_inside(&mut self) -> Result<(), End> {
        self.enter(None).await?;
        self.greet().await;
        self.flush().await?;
        self.is_at_rest();
        Ok(())
    }

    async fn greet(&mut self) {
        let flag = self.session().cancel_flag();
        let member = Arc::clone(&self.membership.member);
        self.session().set_long_work_hook(Some(Arc::new(move || {
            budget::in_long_step();
            member.heed_due();
        })));
        self.session().set_helpers(Some(Arc::new(helping::Tasks)));
        let member = Arc::clone(&self.membership.member);
        self.session().set_notification_hook(Arc::new(move || member.wake()));
        let member = Arc::clone(&self.membership.member);
        poll_fn(move |cx| {
            member.reach(Arc::clone(&flag), cx.waker());
            Poll::Ready(())
        })
        .await;
        if self.is_known {
            return;
        }
        backend::authentication_ok(&mut self.link.out);
        for (name, value) in [
            ("server_version", self.session().setting("server_version").unwrap_or_default()),
            ("server_encoding", "UTF8".to_owned()),
            ("integer_datetimes", "on".to_owned()),
        ] {
            backend::parameter_status(&mut self.link.out, name, &value);
        }
        self.report_settings();
        let (pid, key) = (self.member().pid, self.member().key);
        backend::backend_key(&mut self.link.out, pid, &key);
        backend::ready(&mut self.link.out, TransactionState::Idle);
    }

    async fn run(&mut self) -> End {
        loop {
            self.skip_copy();
            let step = match self.link.message(self.shared.options.message_bytes_max) {
                _ if self.copy_left > 0 => self.wait().await,
                Ok(Some(header)) => self.take(header).await,
                Ok(None) => self.wait().await,
                Err(error) => Err(End::Fatal(error)),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Skips the remaining data of a COPY that has failed.
    fn skip_copy(&mut self) {
        let bytes = self.copy_left.min(self.link.inbox.unread().len());
        self.link.inbox.take(bytes);
        self.copy_left -= bytes;
    }

    /// Runs a message.
    async fn take(&mut self, header: Header) -> Result<(), End> {
        let Header { kind, body_bytes } = header;
        if self.is_skipping && !matches!(kind, b'S' | b'X') {
            self.link.inbox.take(HEADER_BYTES + body_bytes);
            return Ok(());
        }
        if !matches!(kind, b'B' | b'E') {
            self.times.ended = None;
        }
        // Until the next ReadyForQuery.
        self.is_between &= matches!(kind, b'H' | b'X');
        if kind != b'X' && self.lease.keeper().is_some() {
            self.enter(Some(header)).await?;
            self.keep(header);
        }
        if kind == b'P'
            && (self.lease.keeper().is_some() || self.session().reads_after_a_commit())
            && reads(&self.link.inbox.unread()[HEADER_BYTES..HEADER_BYTES + body_bytes])
            && let Err(error) = self.begin_to_read().await
        {
            self.link.inbox.take(HEADER_BYTES + body_bytes);
            self.session().fail_block();
            return self.after_extended(Err(error.into()));
        }
        match self.next_part(header) {
            Ok(Next::Done) => Ok(()),
            // Behind a pointer: what a statement needs would be part of each idle connection.
            Ok(Next::Query(text)) => Box::pin(self.query(text)).await,
            Ok(Next::Execute { portal, rows_max }) => {
                let executed = Box::pin(self.execute(&portal, rows_max)).await;
                if self.is_refused_here(&executed) {
                    return Box::pin(self.run_at_leader()).await;
                }
                self.after_extended(executed)
            }
            Ok(Next::Sync) => self.sync().await,
            Ok(Next::Flush) => self.flush().await,
            Ok(Next::Terminate) => Err(End::Closed),
            Err(Failure::End(end)) => Err(end),
            Err(Failure::Error(error)) => {
                self.session().fail_block();
                if matches!(kind, b'Q' | b'F') {
                    self.tell(&error);
                    return self.ready().await;
                }
                self.after_extended(Err(error.into()))
            }
        }
    }

    /// Takes a message, and does the short part of it: apart from what waits, whose task would have
    /// room for all that is needed here.
    fn next_part(&mut self, Header { kind, body_bytes }: Header) -> Result<Next, Failure> {
        // The message lies in the buffer, to which nothing is added until it is parsed.
        let mut inbox = std::mem::take(&mut self.link.inbox);
        let body = &inbox.unread()[HEADER_BYTES..HEADER_BYTES + body_bytes];
        let decoded = recode::decode(self.encoding(), kind, body).map_err(Failure::from);
        let next = decoded.and_then(|decoded| {
            let message = frontend::parse(kind, decoded.as_deref().unwrap_or(body))?;
            self.understand(message)
        });
        inbox.take(HEADER_BYTES + body_bytes);
        self.link.inbox = inbox;
        next
    }

    /// Does the short part of a message, and gives the part that may wait.
    fn understand(&mut self, message: Message<'_>) -> Result<Next, Failure> {
        Ok(match message {
            Message::Query(text) => {
                before_reading(text);
                Next::Query(text.to_owned())
            }
            Message::Parse { name, text, types } => {
                before_reading(text);
                self.within_time(|client| client.parse(name, text, &types))?;
                Next::Done
            }
            Message::Bind(bind) => {
                self.within_time(|client| client.bind(bind))?;
                Next::Done
            }
            Message::Describe(target) => {
                self.describe(target)?;
                Next::Done
            }
            Message::Close(target) => {
                self.close(target);
                Next::Done
            }
            Message::Execute { portal, rows_max } => Next::Execute { portal: portal.into(), rows_max },
            Message::Sync => Next::Sync,
            Message::Flush => Next::Flush,
            Message::Terminate => Next::Terminate,
            Message::StrayCopy => Next::Done,
            Message::FunctionCall => {
                return Err(Error::unsupported("a function call by message")
                    .hint("Call the function in a SELECT, as current versions of client libraries do.")
                    .into());
            }
        })
    }

    // ---- what clients are told ----

    fn tell(&mut self, error: &Error) {
        self.tell_notices();
        let encoding = self.encoding();
        backend::error(&mut self.link.out, "ERROR", error, encoding);
        if error.state() == SqlState::DATA_CORRUPTED
            && let Some(keeper) = self.lease.keeper()
        {
            keeper.note_damage();
        }
        self.is_flush_due = true;
        self.shared.counts.error(error.state());
    }

    fn tell_notices(&mut self) {
        let (from, is_silent) = (self.reported.notices_from, self.reported.is_silent);
        let encoding = self.encoding();
        for notice in self.session().take_notices() {
            if !is_silent && from.is_none_or(|from| notice.severity >= from) {
                backend::notice(&mut self.link.out, &notice, encoding);
                self.is_flush_due = true;
            }
        }
    }

    /// Tells notifications, which belong between transactions.
    fn tell_notifications(&mut self) -> Result<(), End> {
        let Some(inbox) = self.session().inbox() else { return Ok(()) };
        if inbox.is_closed() {
            return Err(End::Fatal(cannot_move("LISTEN", "listen there")));
        }
        let Arrived { notifications, ticket } = self.session().take_notifications();
        if !notifications.is_empty() {
            self.owe(ticket);
        }
        let encoding = self.encoding();
        for notification in notifications {
            backend::notification(&mut self.link.out, &notification, encoding);
            self.is_flush_due = true;
        }
        Ok(())
    }

    /// Reports changed settings, and reads those that the server uses.
    fn report_settings(&mut self) {
        let session = self.session.as_deref().expect("it is away only while its task waits for it");
        let version = (session.settings_version(), session.engine().is_standby());
        if self.reported.version == Some(version) {
            return;
        }
        self.reported.version = Some(version);
        for ((name, setting), told) in REPORTED.iter().zip(&mut self.reported.values) {
            let value = session.setting(setting).unwrap_or_default();
            let mark = mark_of(&value);
            if *told == mark {
                continue;
            }
            if *setting == "application_name" {
                self.membership.member.set_application_name(&value);
            }
            backend::parameter_status(&mut self.link.out, name, &value);
            *told = mark;
        }
        self.has_led |= !version.1;
        self.reads_agreed = session.setting("colibri.reads").is_ok_and(|reads| reads == "agreed");
        self.limits = Limits::of(session);
        self.reported.notices_from = match session.setting("client_min_messages").as_deref() {
            Ok("warning" | "error") => Some(Severity::Warning),
            _ => None,
        };
        self.reported.is_silent = session.setting("client_min_messages").is_ok_and(|least| least == "error");
    }

    /// Sends ReadyForQuery and all pending answers.
    async fn ready(&mut self) -> Result<(), End> {
        self.tell_notices();
        self.report_settings();
        let state = self.session().state();
        self.is_between = state == TransactionState::Idle;
        if self.is_between {
            self.tell_notifications()?;
        }
        backend::ready(&mut self.link.out, state);
        let resting = match state {
            TransactionState::Idle => SessionState::Idle,
            TransactionState::Open => SessionState::IdleInTransaction,
            TransactionState::Failed => SessionState::IdleInFailedTransaction,
        };
        self.member().rests(resting, self.shared.clock.now_us());
        // One wait for a commit covers all messages that the client has sent after it.
        let next = self.link.message(self.shared.options.message_bytes_max);
        if self.owed.is_some()
            && matches!(next, Ok(Some(_)))
            && self.link.out.len() < OUT_BYTES
            && !self.is_waited_for()
        {
            self.is_flush_due = true;
            return Ok(());
        }
        self.flush().await?;
        self.is_at_rest();
        Ok(())
    }

    /// Sends pending answers once they may be sent.
    async fn flush(&mut self) -> Result<(), End> {
        self.is_flush_due = false;
        self.times.ended = None;
        self.settle().await?;
        self.be_current().await?;
        self.sent += u64::from(!self.link.out.is_empty());
        let (link, member) = (&mut self.link, &self.membership.member);
        let mut has_waited = false;
        let flushed = poll_fn(|cx| {
            if member.stopping() == Stop::Now && has_waited {
                return Poll::Ready(Err(End::Gone));
            }
            match link.poll_flush(cx) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Ready(Err(_)) => Poll::Ready(Err(End::Gone)),
                Poll::Pending => {
                    has_waited = true;
                    member.waits_for(Some(Waits::Client));
                    Poll::Pending
                }
            }
        })
        .await;
        if has_waited {
            self.member().waits_for(None);
            self.shared.counts.slow_reads.add(1);
        }
        flushed
    }

    /// Answers from here on may be sent when a ticket is due.
    fn owe(&mut self, ticket: Option<CommitTicket>) {
        let Some(ticket) = ticket else { return };
        self.has_committed |= ticket.committed().is_some();
        if ticket.is_durable() {
            return;
        }
        let from = self.owed.as_ref().map_or(self.link.out.len(), |owed| owed.from);
        // A later ticket is due no earlier.
        self.owed = Some(Owed { ticket, from });
    }

    /// Waits until all pending answers may be sent.
    async fn settle(&mut self) -> Result<(), End> {
        let Some(Owed { mut ticket, from }) = self.owed.take() else { return Ok(()) };
        if !ticket.is_durable() {
            self.member().waits_for(Some(Waits::Durability));
            // The first question comes first: the second one wakes up a thread.
            let may_flush = ticket.is_alone() && budget::may_block_briefly();
            let due = match may_flush.then(|| ticket.flush_if_alone()) {
                Some(Ok(true)) => Ok(ticket.seen()),
                Some(Err(error)) => Err(error),
                Some(Ok(false)) | None => {
                    self.be_in(Pool::System).await;
                    Pin::new(&mut ticket).await
                }
            };
            self.member().waits_for(None);
            if let Err(error) = due {
                // The outcome is unknown: none of the pending answers about it is sent.
                self.link.out.truncate(from);
                return Err(End::Fatal(colibri_sql::in_sql(error)));
            }
        }
        Ok(())
    }

    /// Moves the task to a pool.
    async fn be_in(&mut self, pool: Pool) {
        if self.pool != pool {
            self.pool = pool;
            budget::move_to(pool).await;
        }
    }

    // ---- waiting for the client ----

    /// Waits for the client's next message, between statements.
    async fn wait(&mut self) -> Result<(), End> {
        if self.is_flush_due {
            self.flush().await?;
        }
        self.be_in(self.limits.pool()).await;
        self.link.shrink();
        let is_open = self.session().state() != TransactionState::Idle;
        let limit = if is_open { self.limits.idle_in_transaction } else { self.limits.idle };
        if self.is_between {
            self.tell_notifications()?;
            if self.is_flush_due {
                self.flush().await?;
            }
        }
        let waited = self.more(limit, !is_open).await;
        if !is_open && matches!(waited, Err(End::Fatal(_))) && self.member().stopping() == Stop::WhenIdle {
            // Behind a pointer: what it needs would be part of each idle connection.
            return match Box::pin(self.leave_server()).await {
                Some(end) => Err(end),
                None => waited,
            };
        }
        waited
    }

    /// Waits for more bytes. With `may_leave` a server that is about to end need not wait for the
    /// client.
    async fn more(&mut self, limit: Option<Duration>, may_leave: bool) -> Result<(), End> {
        let mut timer: Option<Pin<&mut Sleep>> = None;
        let mut sleeping = pin!(limit.map(sleep));
        if limit.is_some() {
            timer = sleeping.as_mut().as_pin_mut();
        }
        // A statement that waits for the next message has begun all the same.
        self.times = Times { began_us: self.times.began_us, ..Times::default() };
        let inbox = self.session().inbox().cloned().filter(|_| may_leave && self.is_between);
        let (link, member) = (&mut self.link, &self.membership.member);
        poll_fn(|cx| {
            let stopping = member.stopping();
            if stopping == Stop::Now || stopping == Stop::WhenIdle && may_leave {
                return Poll::Ready(Err(End::Fatal(ending(member))));
            }
            if let Poll::Ready(filled) = link.poll_fill(cx) {
                return Poll::Ready(if filled.unwrap_or(false) { Ok(()) } else { Err(End::Gone) });
            }
            // The hook of the session wakes the task.
            if inbox.as_ref().is_some_and(|inbox| inbox.has_any()) {
                return Poll::Ready(Ok(()));
            }
            if let Some(timer) = &mut timer
                && timer.as_mut().poll(cx).is_ready()
            {
                let (state, message) = match may_leave {
                    true => (IDLE, "terminating connection due to idle-session timeout"),
                    false => (IDLE_IN_TRANSACTION, "terminating connection due to idle-in-transaction timeout"),
                };
                return Poll::Ready(Err(End::Fatal(Error::new(state, message))));
            }
            Poll::Pending
        })
        .await
    }

    /// The kind of the next message, as soon as it is known.
    async fn next_kind(&mut self) -> Result<u8, End> {
        loop {
            match self.link.inbox.unread().first() {
                Some(&kind) => return Ok(kind),
                None => {
                    if self.is_flush_due {
                        self.flush().await?;
                    }
                    self.more(None, false).await?;
                }
            }
        }
    }

    // ---- statements at work ----

    /// Begins a statement: other sessions see it, and it can be cancelled.
    fn begins(&mut self, query: Query) -> Instant {
        let began = self.times.ended.take().unwrap_or_else(Instant::now);
        let us = self.us_of(began);
        self.times.began_us = us;
        self.member().begins(query, us);
        began
    }

    /// When a statement began by the wall's clock, in microseconds since 2000-01-01 00:00 UTC.
    fn us_of(&mut self, began: Instant) -> i64 {
        // Both clocks now: there may have been a pause since it began.
        let (at, us) = *self.times.came.get_or_insert_with(|| (Instant::now(), colibri_sql::clock_us()));
        match began.checked_duration_since(at) {
            Some(after) => us + after.as_micros() as i64,
            None => us - at.saturating_duration_since(began).as_micros() as i64,
        }
    }

    /// Ends a statement that has succeeded or failed.
    fn ends(&mut self, began: Instant, text: &str) {
        let now = Instant::now();
        self.times.ended = Some(now);
        let took = now.saturating_duration_since(began);
        self.shared.counts.statement(took);
        if self.shared.options.slow_statement.is_some_and(|limit| took >= limit) {
            self.shared.slow(&self.membership.member, took, text);
        }
    }
}

/// How long a client may take to read that its session has ended.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// The part of a message that is left to do.
enum Next {
    Done,
    Query(String),
    Execute { portal: colibri_sql::CompactString, rows_max: usize },
    Sync,
    Flush,
    Terminate,
}

/// Why a session is ended from elsewhere.
pub(crate) fn ending(member: &Member) -> Error {
    match member.why() {
        Why::Administrator => Error::new(ADMIN_SHUTDOWN, "terminating connection due to administrator command"),
        Why::LeadershipLost => {
            let message = "terminating connection because this server has lost the lead of the database";
            Error::new(CANNOT_CONNECT_NOW, message).hint("Connect again.")
        }
    }
}

/// The error for a session that has something which ends when another node leads its database.
fn cannot_move(what: &str, to_do: &str) -> Error {
    let message = "terminating connection because another server leads the database now";
    Error::new(ADMIN_SHUTDOWN, message)
        .detail(format!("{what} of a session does not move with the lead."))
        .hint(format!("Connect to the server that leads, and {to_do}."))
}

/// The error for a message that is not allowed here.
fn unexpected(kind: u8, when: &str) -> Error {
    violation(format!("unexpected message type 0x{kind:02X} {when}"))
}

/// Parsing a long text is one call, during which another thread serves the other sessions.
fn before_reading(text: &str) {
    /// The length of a text that is parsed in about 4 ms, in bytes.
    const LONG_TEXT: usize = 16 << 10;
    if text.len() >= LONG_TEXT {
        budget::before_long_call();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// Bug: a statement that panicked ended its session without a word. Consequence: the client saw
    /// a broken connection, and the log had an entry without the session's number. Fix: the client
    /// gets an error (XX000).
    #[test]
    fn a_panic_becomes_an_error_of_whoever_waits() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = |future: Pin<&mut dyn Future<Output = Result<u8, String>>>| future.poll(&mut cx);
        let panics = async |message: Option<u8>| -> u8 {
            match message {
                Some(number) => panic!("number {number}"),
                None => panic!("plain"),
            }
        };
        assert_eq!(poll(pin!(contained(async { 7 }))), Poll::Ready(Ok(7)));
        assert_eq!(poll(pin!(contained(panics(Some(3))))), Poll::Ready(Err("number 3".to_owned())));
        assert_eq!(poll(pin!(contained(panics(None)))), Poll::Ready(Err("plain".to_owned())));
    }
}
