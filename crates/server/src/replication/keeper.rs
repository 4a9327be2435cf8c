//! One database on one node of a cluster: when it is open, and whether the node leads it.
//!
//! ```text
//!           a session, or its leader has it open
//!  closed ─────────────────────────────────────► opening ─► [copied from another node]
//!    ▲                                               │
//!    │ unused for a while,                           ▼        nobody leads
//!    ├─────────────── following: standby ◄───────────┴──────► campaign ─► leading
//!    │                    ▲                                                  │
//!    └────────────────────┼──────────────────────────────────────────────────┤ unused
//!                         └──────────── the term has ended ◄─────────────────┘
//! ```
//! An open database has a thread, which runs the futures of `colibri-replica`: applying records
//! uses the disk, and commits wait for nothing else there. A closed database has nothing. Its
//! leader's key stays in the service, under the lease that the node has anyway.
//!
//! Sessions use the database through an engine of SQL, which is opened when the first of them
//! comes. A standby that becomes the leader keeps its engine and its sessions. When a term is lost,
//! sessions and engine end: the engine knows where sequences stand, and the storage may have to be
//! opened again, which waits for all that use it. When it is handed over, both stay: the engine gives
//! back what it knows (`Engine::retire`), and sessions go to the new leader when their clients say
//! something (`crate::session`).
//!
//! Invariants:
//! 1. Access is full only between the beginning and the end of a term.
//! 2. A database without the contents that it had before the cluster, or without the log's
//!    beginning, is copied from another node before it is opened. A directory is there whole or not
//!    at all.
//! 3. A term is handed over only while nobody is in a transaction (`gate`), and the gate opens again
//!    when the term has ended, or the hand-over was called off.
//! 4. Nobody has the database open when the thread has ended.

mod damage;
mod diverged;
mod handing;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use colibri_replica::{
    Campaign, Database, Driver, Leadership, Membership, Replica, ReplicaOptions, Reservation, Role, Stopped, TermEnd,
};
use colibri_sql::{Access, CompactString, DirectoryLock, Engine, MemoryTotal};
use colibri_storage::{Durability, Options};
use parking_lot::{Mutex, RwLock};

use damage::is_damage;
use diverged::{Diverged, no_copy_fits};

use super::Replication;
use super::gate::Gate;
use super::seed::{self, Old};
use super::wait::{Either, Signal, block_on, give_way, race};
use crate::registry::{Registry, Why};

/// The pause between looks whether a standby has the catalogue, or has come to the log's end.
const LOOK: Duration = Duration::from_millis(10);
/// A standby that has not come to the log's end in this time is shown as it is.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);
/// The pause before a next try to be elected, or to open a database that cannot be opened.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_OPENING: Duration = Duration::from_secs(2);
/// A successor that has not taken a reserved leadership in this time is late.
const SUCCESSOR_LATE: Duration = Duration::from_secs(3);
/// Nobody waits longer than this for an engine without asking again.
const ASKED_MAX: Duration = Duration::from_secs(60);
/// How long the end of a term waits for commits that nobody waits for.
const SETTLE_MAX: Duration = Duration::from_secs(2);

/// What a keeper needs of the server.
pub(crate) struct Surroundings {
    pub(crate) options: Options,
    pub(crate) memory: MemoryTotal,
    pub(crate) registry: Arc<Registry>,
    /// How long an unused database stays open.
    pub(crate) keep: Duration,
    pub(crate) give_memory_back: fn(),
}

/// Where sessions find the database while it is open.
pub(crate) trait Place: Send + Sync {
    /// Sessions that use it.
    fn uses(&self) -> usize;
    /// When the last session ended.
    fn last_used(&self) -> Instant;
    /// Lets sessions in.
    fn show(&self, engine: Arc<Engine>);
    /// The engine that sessions are let in to.
    fn shown(&self) -> Option<Arc<Engine>>;
    /// Lets no more sessions in; with `if_unused` only if there are none.
    fn hide(&self, if_unused: bool) -> Hidden;
}

/// What became of hiding a database.
pub(crate) enum Hidden {
    /// It is hidden, and this was its engine.
    Yes(Option<Arc<Engine>>),
    /// Sessions use it.
    InUse,
}

/// What a node is of a database, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Closed,
    Opening,
    Standby,
    Leader,
    /// A term was lost, and the service does not answer since.
    CutOff,
}

impl Standing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Opening => "opening",
            Self::Standby => "standby",
            Self::Leader => "leader",
            Self::CutOff => "cut off",
        }
    }
}

/// A database of a node.
pub(crate) struct Keeper {
    pub(crate) oid: u32,
    pub(crate) name: CompactString,
    pub(crate) db: Database,
    /// The node that had the database before the cluster.
    origin: Option<String>,
    node: Weak<Replication>,
    around: Arc<Surroundings>,
    place: Arc<dyn Place>,
    state: Mutex<State>,
    /// Held while access is set.
    renewing: Mutex<()>,
    /// The term in which commits are agreed on.
    leading: RwLock<Option<Leadership>>,
    /// It was dropped, or has another name now.
    is_gone: AtomicBool,
    /// Whatever changes about it.
    pub(crate) changed: Signal,
    /// Sessions that are in a transaction here.
    pub(crate) gate: Arc<Gate>,
    /// The leadership is handed over: the gate is closed, or about to be.
    is_handing_over: AtomicBool,
    /// A term was lost, and the service does not answer since (`shown`).
    is_cut_off: AtomicBool,
}

#[derive(Default)]
struct State {
    is_running: bool,
    /// Since when somebody waits for the engine.
    asked: Option<Instant>,
    is_opening_engine: bool,
    /// Engines of openings before are not shown.
    generation: u64,
    replica: Option<Replica>,
    /// Why it cannot be opened.
    trouble: Option<String>,
    /// Since when a leadership is reserved for another node.
    reserved_since: Option<Instant>,
    /// When it was opened.
    opened: Option<Instant>,
    /// A check of it is under way, since a session has met damage.
    is_checked: bool,
    /// What the check has found.
    damage: Option<String>,
}

/// Why a database was closed.
enum Closed {
    Unused,
    Over,
    Stopped(Stopped),
    Failed(String),
    /// What is on the disk cannot be read.
    Damaged(String),
}

impl Keeper {
    pub(crate) fn new(
        node: &Arc<Replication>,
        around: &Arc<Surroundings>,
        place: Arc<dyn Place>,
        (oid, name, origin): (u32, &str, Option<String>),
    ) -> Arc<Self> {
        Arc::new(Self {
            oid,
            name: name.into(),
            db: Database(oid.to_string()),
            origin,
            node: Arc::downgrade(node),
            around: Arc::clone(around),
            place,
            state: Mutex::default(),
            renewing: Mutex::new(()),
            leading: RwLock::new(None),
            is_gone: AtomicBool::new(false),
            changed: Signal::default(),
            gate: Arc::default(),
            is_handing_over: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
        })
    }

    /// Opens the database for sessions, if it is not open. Whoever asks again while it is being
    /// opened disturbs nobody.
    pub(crate) fn ask_for(self: &Arc<Self>) {
        let is_first = self.place.shown().is_none() && {
            let asked = &mut self.state.lock().asked;
            let is_first = asked.is_none();
            asked.get_or_insert_with(Instant::now);
            is_first
        };
        self.run();
        if is_first {
            self.changed.give();
        }
    }

    /// Opens the database to follow its leader, or to lead it, if it is not open.
    pub(crate) fn run(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            if state.is_running || self.is_gone() {
                return;
            }
            state.is_running = true;
        }
        let keeper = Arc::clone(self);
        let started = std::thread::Builder::new().name(format!("db-{}", self.oid)).spawn(move || keeper.serve());
        if let Err(error) = started {
            let mut state = self.state.lock();
            (state.is_running, state.trouble) = (false, Some(format!("its thread cannot be started: {error}")));
        }
    }

    /// Why it cannot be opened, if it cannot.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.state.lock().trouble.clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().is_running
    }

    pub(crate) fn replica(&self) -> Option<Replica> {
        self.state.lock().replica.clone()
    }

    pub(crate) fn standing(&self) -> Standing {
        if self.is_cut_off() {
            return Standing::CutOff;
        }
        let state = self.state.lock();
        match (&state.replica, self.leading.read().is_some()) {
            (None, _) if state.is_running => Standing::Opening,
            (None, _) => Standing::Closed,
            (Some(_), true) => Standing::Leader,
            (Some(replica), false) if replica.standing().role == Role::Reopening => Standing::Opening,
            (Some(_), false) => Standing::Standby,
        }
    }

    /// Ends the database on this node: it was dropped, or has another name.
    pub(crate) fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.changed.give();
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Waits until nobody has it open here.
    pub(crate) fn wait_closed(&self, time_max: Duration) -> bool {
        let until = Instant::now() + time_max;
        while self.is_running() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Whether what a leader's session has read so far is certainly the newest state.
    pub(crate) fn is_current(&self) -> bool {
        self.leading.read().as_ref().is_some_and(|leadership| !leadership.certain_for().is_zero())
    }

    /// Whether this node leads, as far as it knows.
    pub(crate) fn leads(&self) -> bool {
        self.leading.read().is_some()
    }

    fn access(&self) -> Access {
        match (self.leads(), self.node.upgrade().is_some_and(|node| node.is_full())) {
            (false, _) => Access::Standby,
            (true, true) => Access::NoRoom,
            (true, false) => Access::Full,
        }
    }

    /// Sets what sessions may do, after the quota or the role has changed.
    pub(crate) fn renew_access(&self) {
        // Of several who do so at once, the last one has seen what the others have.
        let _one = self.renewing.lock();
        if let Some(engine) = self.place.shown() {
            engine.set_access(self.access());
        }
    }

    // ---- the thread ----

    fn serve(self: Arc<Self>) {
        block_on(self.serve_until_unused());
        let give_memory_back = self.around.give_memory_back;
        give_memory_back();
        self.changed.give();
    }

    async fn serve_until_unused(self: &Arc<Self>) {
        let mut diverged = Diverged::default();
        loop {
            let Some(node) = self.node.upgrade() else {
                self.state.lock().is_running = false;
                break;
            };
            let closed = self.serve_once(&node).await;
            self.close_engine();
            {
                let mut state = self.state.lock();
                (state.replica, state.opened) = (None, None);
                state.trouble = match &closed {
                    Closed::Unused | Closed::Over => None,
                    Closed::Stopped(stopped) => Some(stopped.to_string()),
                    Closed::Failed(why) | Closed::Damaged(why) => Some(why.clone()),
                };
                let is_wanted = state.asked.is_some() && matches!(closed, Closed::Unused);
                if self.is_gone() || node.is_ending() || !is_wanted && matches!(closed, Closed::Unused | Closed::Over) {
                    state.is_running = false;
                    break;
                }
            }
            self.changed.give();
            match closed {
                Closed::Unused | Closed::Over => {}
                Closed::Stopped(Stopped::SeedAnew { .. }) => self.seed(&node, Old::Removed).await,
                Closed::Stopped(Stopped::Diverged { txn }) => {
                    let fields: [(&str, &dyn std::fmt::Display); 2] = [("database", &self.name), ("txn", &txn.0)];
                    node.log.error("diverged", &fields);
                    let pause = diverged.note(txn);
                    if let Some(pause) = pause {
                        self.state.lock().trouble = Some(no_copy_fits(txn));
                        let seen = self.changed.count();
                        race(node.sleep(pause), self.until_over(&node, seen)).await;
                    }
                    // What was kept the first time is not kept again.
                    self.seed(&node, if pause.is_none() { Old::Diverged } else { Old::Removed }).await;
                }
                Closed::Damaged(why) => {
                    node.log.error("damaged", &[("database", &self.name), ("error", &why)]);
                    self.resign(&node).await;
                    // With nobody to copy from, it is shown as far as it can be read.
                    match node.other_members().is_empty() {
                        true => self.pause(&node, &why).await,
                        false => self.seed(&node, Old::Damaged).await,
                    }
                }
                Closed::Stopped(stopped) => {
                    self.resign(&node).await;
                    self.pause(&node, &stopped.to_string()).await;
                }
                Closed::Failed(why) => {
                    self.resign(&node).await;
                    self.pause(&node, &why).await;
                }
            }
        }
    }

    async fn pause(&self, node: &Replication, why: &str) {
        let fields: [(&str, &dyn std::fmt::Display); 2] = [("database", &self.name), ("error", &why)];
        node.log.error("cannot_open", &fields);
        let seen = self.changed.count();
        race(node.sleep(RETRY_OPENING), self.until_over(node, seen)).await;
    }

    async fn until_over(&self, node: &Replication, mut seen: u64) {
        while !self.is_gone() && !node.is_ending() {
            self.changed.wait(seen).await;
            seen = self.changed.count();
        }
    }

    /// Copies the database from another node.
    async fn seed(&self, node: &Arc<Replication>, old: Old) {
        self.state.lock().trouble = Some("it is being copied from another node".to_owned());
        self.changed.give();
        match seed::copy_from_any(node, &self.db, self.oid, old).await {
            Ok(from) => {
                node.log.info("copied", &[("database", &self.name), ("from", &from)]);
                self.state.lock().trouble = None;
            }
            Err(why) => {
                let why = format!("it has to be copied from another node, and cannot be: {why}");
                self.state.lock().trouble = Some(why.clone());
                self.changed.give();
                self.pause(node, &why).await;
            }
        }
    }

    /// Opens the database, and closes it when it is not used any more.
    async fn serve_once(self: &Arc<Self>, node: &Arc<Replication>) -> Closed {
        let path = node.path_of(self.oid);
        if !path.join("data").exists() && self.must_be_copied() {
            self.seed(node, Old::Removed).await;
            if !path.join("data").exists() {
                return if self.is_gone() || node.is_ending() {
                    Closed::Over
                } else {
                    Closed::Failed("there is no copy of it here".to_owned())
                };
            }
        }
        let _lock = match lock(&path) {
            Ok(lock) => lock,
            Err(why) => return Closed::Failed(why),
        };
        let (options, opened) = (self.around.options.clone(), path.clone());
        let open = move |proposer| {
            let options = options.clone().durability(Durability::Agreed).proposer(proposer);
            colibri_storage::Database::open(&opened, &options)
        };
        let (replica, mut driver) =
            match Replica::open(&node.cluster, &self.db, &node.node.id, ReplicaOptions::default(), open) {
                Ok(opened) => opened,
                Err(error) if is_damage(&error) => return Closed::Damaged(error.to_string()),
                Err(error) => return Closed::Failed(error.to_string()),
            };
        {
            let mut state = self.state.lock();
            state.damage = None;
            (state.replica, state.opened, state.trouble) = (Some(replica.clone()), Some(Instant::now()), None);
        }
        let closed = self.work(node, &mut driver).await;
        self.close_engine();
        if matches!(closed, Closed::Unused | Closed::Over) && !self.is_gone() {
            make_steady(&replica);
            _ = race(replica.publish_base(&node.membership()), node.sleep(SETTLE_MAX)).await;
        }
        node.note_trimmed(&replica);
        closed
    }

    /// Whether an empty directory is not what the log begins with: the database was there before the
    /// cluster. The node that had it has put it into its directory before it told the others.
    ///
    /// Bug: that node was taken to have it in any case. Consequence: when it had lost its disk, and
    /// nothing had been committed since, it led an empty database, and the copies of the others were
    /// put aside. Fix: it gets a copy like all others.
    fn must_be_copied(&self) -> bool {
        self.origin.is_some()
    }

    /// Follows and leads.
    async fn work(self: &Arc<Self>, node: &Arc<Replication>, driver: &mut Driver) -> Closed {
        loop {
            if self.is_gone() || node.is_ending() {
                return Closed::Over;
            }
            if let Some(why) = self.damage_found(node) {
                return Closed::Damaged(why);
            }
            let membership = node.membership();
            if membership.is_lost() {
                // It joins again soon.
                node.sleep(LOOK).await;
                continue;
            }
            if !node.is_led_by_another(&self.db) {
                match self.campaign(node, &membership).await {
                    Some(leadership) => match self.lead(node, driver, &leadership).await {
                        Some(closed) => return closed,
                        None => continue,
                    },
                    None if node.is_ending() => return Closed::Over,
                    None => {}
                }
            }
            if self.is_unused(node) && matches!(self.place.hide(true), Hidden::Yes(_)) {
                return Closed::Unused;
            }
            match race(driver.follow(&membership), self.beside_following(node, &membership)).await {
                Either::First(Stopped::Engine(error)) if is_damage(&error) => {
                    return Closed::Damaged(error.to_string());
                }
                Either::First(stopped) => return Closed::Stopped(stopped),
                Either::Second(()) => node.note_trimmed(driver.replica()),
            }
        }
    }

    /// Whether nobody here uses it, and its leader does not either.
    fn is_unused(&self, node: &Replication) -> bool {
        self.asked().is_none() && self.unused_at(node).is_some_and(|at| at <= Instant::now())
    }

    /// Since when somebody waits for the engine.
    fn asked(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        // Who came when it was just there need not wait. Sessions that have given up do not say so;
        // those that wait on ask again.
        if self.place.shown().is_some() || state.asked.is_some_and(|asked| asked.elapsed() >= ASKED_MAX) {
            state.asked = None;
        }
        state.asked
    }

    /// From when on it is unused, if nothing happens.
    fn unused_at(&self, node: &Replication) -> Option<Instant> {
        if self.place.uses() > 0 || !self.leads() && node.is_open_at_leader(&self.db) {
            return None;
        }
        let opened = self.state.lock().opened.unwrap_or_else(Instant::now);
        Some(self.place.last_used().max(opened) + self.around.keep)
    }

    async fn campaign(&self, node: &Replication, membership: &Membership) -> Option<Leadership> {
        let is_late = self.state.lock().reserved_since.is_some_and(|since| since.elapsed() >= SUCCESSOR_LATE);
        let reservation = if is_late { Reservation::Ignore } else { Reservation::Heed };
        match membership.campaign(&self.db, reservation).await {
            Ok(Campaign::Elected(leadership)) => {
                self.state.lock().reserved_since = None;
                Some(leadership)
            }
            Ok(Campaign::Led(leader)) => {
                self.state.lock().reserved_since = None;
                node.note_leader(&self.db, leader);
                None
            }
            Ok(Campaign::Reserved(_)) => {
                self.state.lock().reserved_since.get_or_insert_with(Instant::now);
                None
            }
            Err(_) => None,
        }
    }

    /// Opens the engine when it is asked for. Ends when there is something to decide, and no
    /// earlier: what is beside it begins anew then, and with it the time until a base is published.
    async fn beside_following(self: &Arc<Self>, node: &Arc<Replication>, membership: &Membership) {
        let began = Instant::now();
        let mut is_caught_up = false;
        loop {
            give_way().await;
            let seen = self.changed.count();
            let is_over = self.is_gone() || node.is_ending() || membership.is_lost();
            if is_over || self.is_unused(node) || self.damage_found(node).is_some() {
                return;
            }
            let now = Instant::now();
            let mut next = self.unused_at(node).map(|at| at.saturating_duration_since(now).max(LOOK));
            if !node.is_led_by_another(&self.db) {
                let waited = began.elapsed();
                if waited >= RETRY {
                    return;
                }
                next = Some(RETRY - waited);
            }
            if let Some(asked) = self.asked() {
                // Where the service does not answer, what is there is shown.
                is_caught_up = is_caught_up || asked.elapsed() >= CATCH_UP_MAX || self.is_caught_up().await;
                if is_caught_up {
                    self.open_engine();
                }
                next = Some(LOOK);
            }
            match next {
                Some(pause) => _ = race(node.sleep(pause), self.changed.wait(seen)).await,
                None => self.changed.wait(seen).await,
            }
        }
    }

    async fn is_caught_up(&self) -> bool {
        let Some(replica) = self.replica() else { return false };
        matches!(replica.lag().await, Ok(Some(lag)) if lag.entries == 0)
    }

    /// Leads until the term or the use of the database is over. `None`: the term is.
    async fn lead(
        self: &Arc<Self>,
        node: &Arc<Replication>,
        driver: &mut Driver,
        leadership: &Leadership,
    ) -> Option<Closed> {
        let leading = driver.lead_and_tell(leadership, || self.begins_to_lead(node, leadership));
        let ended = race(leading, self.beside_leading(node, leadership)).await;
        let was_handed_over = matches!(ended, Either::First(Ok(TermEnd::HandedOver)));
        let was_lost = matches!(ended, Either::First(Ok(TermEnd::Lost)));
        let closed = match ended {
            Either::First(Ok(end)) => {
                let end = format!("{end:?}").to_ascii_lowercase();
                node.log.info("term_ended", &[("database", &self.name), ("end", &end)]);
                None
            }
            Either::First(Err(stopped)) => Some(Closed::Stopped(stopped)),
            Either::Second(closed) => closed,
        };
        // Nothing was under way, so the database is open as it was.
        let is_as_before = self.replica().is_some_and(|replica| replica.standing().role == Role::Standby);
        if was_handed_over && is_as_before && self.is_handing_over() {
            self.step_down();
        } else {
            if was_lost {
                self.be_cut_off(node).await;
            }
            self.close_engine();
        }
        self.is_handing_over.store(false, Ordering::Release);
        self.gate.open();
        closed
    }

    fn begins_to_lead(&self, node: &Replication, leadership: &Leadership) {
        *self.leading.write() = Some(leadership.clone());
        self.renew_access();
        node.log.info("leads", &[("database", &self.name), ("epoch", &leadership.epoch())]);
        self.changed.give();
        // While a database is led that is open, etcd is looked at.
        node.news.give();
    }

    /// Says that the database is open, opens its engine when that is asked for, and ends when it is
    /// not used any more, or when the term is over though nothing was appended since: `None`.
    async fn beside_leading(self: &Arc<Self>, node: &Arc<Replication>, leadership: &Leadership) -> Option<Closed> {
        let mut is_told = false;
        loop {
            give_way().await;
            let seen = self.changed.count();
            // Of a hand-over the term itself tells.
            let is_followed = !self.is_handing_over()
                && node.leader(&self.db).is_some_and(|leader| leader.epoch > leadership.epoch());
            if is_followed || leadership.membership().is_lost() {
                node.log.info("term_ended", &[("database", &self.name), ("end", &"followed")]);
                return None;
            }
            if !self.leads() && (self.is_gone() || node.is_ending()) {
                return Some(Closed::Over);
            }
            if self.leads() {
                if self.damage_found(node).is_some() {
                    return None;
                }
                if self.is_broken() {
                    node.log.error("engine_failed", &[("database", &self.name)]);
                    return None;
                }
                if !is_told {
                    is_told = matches!(leadership.say_open(true).await, Ok(true));
                }
                self.open_engine();
                if self.is_gone() || node.is_ending() {
                    return Some(self.end_of_leading(node, leadership).await);
                }
                if self.is_unused(node)
                    && let Hidden::Yes(engine) = self.place.hide(true)
                {
                    drop(engine);
                    self.settle(node).await;
                    _ = race(leadership.say_open(false), node.sleep(SETTLE_MAX)).await;
                    return Some(Closed::Unused);
                }
            }
            let at = self.unused_at(node).filter(|_| self.leads());
            let pause = at.map(|at| at.saturating_duration_since(Instant::now()).max(LOOK));
            let pause = if is_told || !self.leads() { pause } else { Some(RETRY) };
            // An engine that cannot be opened is tried again.
            let is_waited_for = self.leads() && self.asked().is_some();
            let pause = if is_waited_for { Some(pause.map_or(RETRY, |pause| pause.min(RETRY))) } else { pause };
            match pause {
                Some(pause) => _ = race(node.sleep(pause), self.changed.wait(seen)).await,
                None => self.changed.wait(seen).await,
            }
        }
    }

    /// Whether the disk has failed: nothing can be committed any more.
    fn is_broken(&self) -> bool {
        let engine = self.replica().and_then(|replica| replica.engine().ok());
        engine.is_some_and(|engine| matches!(engine.try_write(), Err(colibri_storage::Error::Poisoned)))
    }

    /// Ends the term if the disk has failed.
    pub(crate) fn look_at_disk(&self) {
        if self.leads() && self.is_broken() {
            self.changed.give();
        }
    }

    /// Lets another node lead a database that cannot be opened here.
    async fn resign(&self, node: &Replication) {
        if !node.has_leadership(&self.db) {
            return;
        }
        if let Ok(Campaign::Elected(leadership)) = node.membership().campaign(&self.db, Reservation::Heed).await {
            _ = race(leadership.resign(None), node.sleep(SETTLE_MAX)).await;
        }
    }

    /// The server ends, or the database does.
    async fn end_of_leading(&self, node: &Replication, leadership: &Leadership) -> Closed {
        drop(self.place.hide(false));
        self.end_sessions(Why::Administrator);
        self.settle(node).await;
        if self.is_gone() {
            return Closed::Over;
        }
        if let Some(replica) = self.replica() {
            make_steady(&replica);
            _ = race(replica.publish_base(&node.membership()), node.sleep(SETTLE_MAX)).await;
        }
        _ = race(leadership.resign(None), node.sleep(SETTLE_MAX)).await;
        Closed::Over
    }

    /// Waits for commits that nobody waits for: what is left of sequences is given back by one.
    async fn settle(&self, node: &Replication) {
        let until = Instant::now() + SETTLE_MAX;
        while let Some(replica) = self.replica()
            && replica.standing().commits_under_way > 0
            && Instant::now() < until
        {
            node.sleep(LOOK).await;
        }
    }
}

/// Makes a steady point, if that need not wait for commits to be agreed on: nobody but this thread
/// could agree.
fn make_steady(replica: &Replica) {
    if let Ok(engine) = replica.engine()
        && engine.newest_txn() == engine.readable_txn()
    {
        _ = engine.sync();
    }
}

/// Makes the directory, and takes its lock.
fn lock(path: &Path) -> Result<DirectoryLock, String> {
    crate::cluster::make_dir(path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    DirectoryLock::for_sql(path).map_err(|error| error.to_string())
}

/// Removes a database's directory, in two steps: a crash leaves no half of it under its name.
pub(crate) fn remove_dir(path: &Path) -> std::io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".removed");
    let aside: PathBuf = path.with_file_name(name);
    if aside.exists() {
        fs::remove_dir_all(&aside)?;
    }
    fs::rename(path, &aside)?;
    fs::remove_dir_all(&aside)
}
