//! The registry of sessions: lists what they do, cancels their statements, ends them.
//!
//! A session's task is its only writer; others set flags and wake it. It looks at the flags
//! whenever it is woken, and between the steps of a statement.
//!
//! Invariants
//! - A member is in the registry before its client gets the cancel key, and until its task is over.
//! - A cancellation ends what a session is doing, or nothing if it waits for its client: never what
//!   it does next.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

use colibri_sql::cluster::{Encryption, SessionInfo, SessionState, Waits};
use colibri_sql::{CompactString, Prepared};
use parking_lot::{Mutex, RwLock};
use subtle::ConstantTimeEq;

use crate::clock::Clock;
use crate::link::Ends;

/// The most bytes of a query that other sessions see, as in PostgreSQL.
const QUERY_BYTES_MAX: usize = 1_024;

/// Whether a session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stop {
    /// It is not.
    No = 0,
    /// As soon as it is between transactions.
    WhenIdle = 1,
    /// Now: what it does is cancelled.
    Now = 2,
}

/// Why a session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Why {
    /// Somebody has said so: by SQL, by a signal to the server, by dropping the database.
    Administrator = 0,
    /// In a cluster: the server has lost the leadership of the database without handing it over,
    /// and opens the database again.
    LeadershipLost = 1,
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Registry {
    members: RwLock<HashMap<i32, Arc<Member>>>,
    next_pid: AtomicI32,
    /// Connections, those that have not logged in included.
    pub(crate) connections: AtomicUsize,
    clock: Clock,
}

/// A connected session.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) pid: i32,
    /// The cancel key.
    pub(crate) key: [u8; 4],
    pub(crate) database: CompactString,
    pub(crate) user: CompactString,
    ends: Ends,
    /// Set once it is let in, if its connection is encrypted.
    encryption: OnceLock<Encryption>,
    connected_us: i64,
    stop: AtomicU8,
    /// Why it is to end: a [`Why`]. Set before `stop`.
    why: AtomicU8,
    /// Whether a cancellation was requested since it was last idle.
    cancelled: AtomicBool,
    /// The session's cancel flag, which its operators check.
    flag: OnceLock<Arc<AtomicBool>>,
    /// The deadline of the current step, in microseconds since `due_from`; 0 for no limit.
    due_us: AtomicU64,
    due_from: Instant,
    waker: OnceLock<Waker>,
    /// One more than the place in [`WAITS`]; 0 for nothing.
    waits_for: AtomicU8,
    activity: Mutex<Activity>,
}

const WAITS: [Waits; 7] =
    [Waits::Client, Waits::Lock, Waits::Commits, Waits::Durability, Waits::Sleep, Waits::Fetch, Waits::Message];

/// The activity of a member.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) state: SessionState,
    pub(crate) application_name: CompactString,
    query: Query,
    query_us: Option<i64>,
    state_us: i64,
    transaction_us: Option<i64>,
}

/// A statement's text, shared with the plan where possible.
#[derive(Default)]
pub(crate) enum Query {
    #[default]
    None,
    Text(String),
    Prepared(Arc<Prepared>),
}

impl Query {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::None => "",
            Self::Text(text) => text,
            Self::Prepared(prepared) => prepared.text(),
        }
    }
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text().fmt(f)
    }
}

/// The first part of a text, as much as other sessions see.
pub(crate) fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(QUERY_BYTES_MAX)]
}

impl Registry {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { members: RwLock::default(), next_pid: AtomicI32::new(1), connections: AtomicUsize::new(0), clock }
    }

    /// Adds a client that has logged in. It is in the registry until the [`Membership`] is dropped.
    pub(crate) fn add(self: &Arc<Self>, key: [u8; 4], database: &str, user: &str, ends: Ends) -> Membership {
        let now_us = self.clock.now_us();
        let mut members = self.members.write();
        let pid = loop {
            let pid = self.next_pid.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if pid != 0 && !members.contains_key(&pid) {
                break pid;
            }
        };
        let activity = Activity {
            state: SessionState::Idle,
            application_name: CompactString::const_new(""),
            query: Query::None,
            query_us: None,
            state_us: now_us,
            transaction_us: None,
        };
        let member = Arc::new(Member {
            pid,
            key,
            database: database.into(),
            user: user.into(),
            ends,
            encryption: OnceLock::new(),
            connected_us: now_us,
            stop: AtomicU8::new(Stop::No as u8),
            why: AtomicU8::new(Why::Administrator as u8),
            cancelled: AtomicBool::new(false),
            flag: OnceLock::new(),
            due_us: AtomicU64::new(0),
            due_from: Instant::now(),
            waker: OnceLock::new(),
            waits_for: AtomicU8::new(0),
            activity: Mutex::new(activity),
        });
        members.insert(pid, Arc::clone(&member));
        Membership { registry: Arc::clone(self), member }
    }

    fn find(&self, pid: i32) -> Option<Arc<Member>> {
        self.members.read().get(&pid).cloned()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.members.read().len()
    }

    /// How many of them a condition holds for.
    pub(crate) fn count(&self, condition: impl Fn(&Member) -> bool) -> usize {
        self.members.read().values().filter(|member| condition(member)).count()
    }

    /// Cancels what a member does, for a client that shows its key.
    pub(crate) fn cancel_with_key(&self, pid: i32, key: &[u8]) -> bool {
        match self.find(pid) {
            Some(member) if bool::from(member.key[..].ct_eq(key)) => {
                member.cancel();
                true
            }
            _ => false,
        }
    }

    /// Cancels what a member does.
    pub(crate) fn cancel(&self, pid: i32) -> bool {
        self.find(pid).map(|member| member.cancel()).is_some()
    }

    /// Ends a member.
    pub(crate) fn terminate(&self, pid: i32) -> bool {
        self.find(pid).map(|member| member.stop(Stop::Now, Why::Administrator)).is_some()
    }

    /// Ends all members for whom a condition holds.
    pub(crate) fn stop(&self, stop: Stop, why: Why, condition: impl Fn(&Member) -> bool) {
        // Their wakers are called without the lock, which the ending sessions need.
        let members: Vec<_> = self.members.read().values().filter(|member| condition(member)).cloned().collect();
        members.iter().for_each(|member| member.stop(stop, why));
    }

    /// The activity of all members, by number.
    pub(crate) fn infos(&self) -> Vec<SessionInfo> {
        let mut infos: Vec<_> = self.members.read().values().map(|member| member.info()).collect();
        infos.sort_unstable_by_key(|info| info.pid);
        infos
    }
}

/// A member's entry in the registry.
#[derive(Debug)]
pub(crate) struct Membership {
    registry: Arc<Registry>,
    pub(crate) member: Arc<Member>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let removed = self.registry.members.write().remove(&self.member.pid);
        drop(removed);
    }
}

impl Member {
    /// Sets how its session is cancelled and its task woken. To be called by the task, once.
    pub(crate) fn reach(&self, flag: Arc<AtomicBool>, waker: &Waker) {
        _ = self.flag.set(flag);
        _ = self.waker.set(waker.clone());
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        if let Some(flag) = self.flag.get() {
            flag.store(true, Ordering::Relaxed);
        }
        self.wake();
    }

    pub(crate) fn stop(&self, stop: Stop, why: Why) {
        // The first reason is told.
        if self.stopping() < stop {
            self.why.store(why as u8, Ordering::Relaxed);
        }
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        match stop {
            Stop::Now => self.cancel(),
            _ => self.wake(),
        }
    }

    /// Has its task look for what is to be done.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Why it is to end.
    pub(crate) fn why(&self) -> Why {
        match self.why.load(Ordering::Relaxed) {
            0 => Why::Administrator,
            _ => Why::LeadershipLost,
        }
    }

    pub(crate) fn stopping(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::WhenIdle,
            _ => Stop::Now,
        }
    }

    /// Whether a cancellation was requested; it is taken.
    pub(crate) fn take_cancellation(&self) -> bool {
        self.cancelled.swap(false, Ordering::AcqRel)
    }

    /// How its session is cancelled, once that was said.
    pub(crate) fn flag(&self) -> Option<&Arc<AtomicBool>> {
        self.flag.get()
    }

    /// Whether it is in a transaction, or runs a statement.
    pub(crate) fn is_at_work(&self) -> bool {
        self.activity.lock().state != SessionState::Idle
    }

    pub(crate) fn client(&self) -> Option<SocketAddr> {
        self.ends.client
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Says how the connection is encrypted.
    pub(crate) fn set_encryption(&self, encryption: Encryption) {
        // It is said once.
        _ = self.encryption.set(encryption);
    }

    /// A statement's operators check the session's flag, which each statement clears when it
    /// begins.
    pub(crate) fn raise_flag(&self) {
        if let Some(flag) = self.flag.get() {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the deadline of the current step, or that it has none.
    pub(crate) fn set_due(&self, due: Option<Instant>) {
        let us = due.map_or(0, |due| due.saturating_duration_since(self.due_from).as_micros().max(1) as u64);
        self.due_us.store(us, Ordering::Relaxed);
    }

    /// Called in the middle of a step: sets the cancel flag if the deadline has passed.
    pub(crate) fn heed_due(&self) {
        let due_us = self.due_us.load(Ordering::Relaxed);
        if due_us != 0 && self.due_from.elapsed().as_micros() as u64 >= due_us {
            self.raise_flag();
        }
    }

    pub(crate) fn waits_for(&self, what: Option<Waits>) {
        let place = what.and_then(|what| WAITS.iter().position(|&known| known == what));
        self.waits_for.store(place.map_or(0, |place| place as u8 + 1), Ordering::Relaxed);
    }

    pub(crate) fn set_application_name(&self, name: &str) {
        self.activity.lock().application_name = name.into();
    }

    /// A statement begins.
    pub(crate) fn begins(&self, query: Query, now_us: i64) {
        let mut activity = self.activity.lock();
        let before = std::mem::replace(&mut activity.query, query);
        if activity.state != SessionState::Active {
            // A cancellation that came while no statement ran has no effect.
            self.cancelled.store(false, Ordering::Release);
        }
        activity.state = SessionState::Active;
        (activity.query_us, activity.state_us) = (Some(now_us), now_us);
        if activity.transaction_us.is_none() {
            activity.transaction_us = Some(now_us);
        }
        drop(activity);
        // The last owner of a plan takes it apart.
        drop(before);
    }

    /// It waits for its client again.
    pub(crate) fn rests(&self, state: SessionState, now_us: i64) {
        let mut activity = self.activity.lock();
        (activity.state, activity.state_us) = (state, now_us);
        if state == SessionState::Idle {
            activity.transaction_us = None;
        }
    }

    fn info(&self) -> SessionInfo {
        let activity = self.activity.lock();
        let waits_for = usize::from(self.waits_for.load(Ordering::Relaxed)).checked_sub(1).map(|place| WAITS[place]);
        SessionInfo {
            pid: self.pid,
            database: self.database.clone(),
            user: self.user.clone(),
            application_name: activity.application_name.clone(),
            client: self.ends.client,
            server: self.ends.server,
            encryption: self.encryption.get().cloned(),
            state: activity.state,
            waits_for: if activity.state == SessionState::Active { waits_for } else { Some(Waits::Client) },
            query: shown(activity.query.text()).to_owned(),
            connected_us: self.connected_us,
            transaction_us: activity.transaction_us,
            query_us: activity.query_us,
            state_us: activity.state_us,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_who_knows_the_key_cancels() {
        let registry = Arc::new(Registry::new(Clock::new()));
        let membership = registry.add([1, 2, 3, 4], "db", "me", Ends::default());
        let (member, flag) = (Arc::clone(&membership.member), Arc::new(AtomicBool::new(false)));
        member.reach(Arc::clone(&flag), Waker::noop());
        for wrong in [&[1, 2, 3, 5][..], &[1, 2, 3], &[], &[1, 2, 3, 4, 0]] {
            assert!(!registry.cancel_with_key(member.pid, wrong));
        }
        assert!(!flag.load(Ordering::Relaxed));
        assert!(registry.cancel_with_key(member.pid, &[1, 2, 3, 4]));
        assert!(flag.load(Ordering::Relaxed) && member.is_cancelled());
        drop(membership);
        assert!(!registry.cancel(member.pid));
        assert_eq!(registry.len(), 0);
    }

    #[test]
    fn a_query_is_shown_up_to_a_limit_that_cuts_no_character() {
        let text = "ä".repeat(QUERY_BYTES_MAX);
        assert_eq!(shown(&text).len(), QUERY_BYTES_MAX);
        assert_eq!(shown(&format!("a{text}")).len(), QUERY_BYTES_MAX - 1);
    }
}
