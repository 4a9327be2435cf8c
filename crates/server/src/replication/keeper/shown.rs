//! The engine of SQL, through which sessions use a database of a cluster: opening it, ending it,
//! and what is read of it while the node does not reach the service.
//!
//! # Without the service
//! A node that does not reach the service cannot know whether there are newer commits elsewhere. So
//! what it has is read only by sessions that have asked for the last agreed state
//! ([`Keeper::may_be_read`]). A leader whose lease has run out with commits under way has to open
//! the database again, from its last steady point, and needs the log for what was agreed on since.
//! It does so when the service answers again, and shows the last agreed state until then: the
//! storage takes no more commits, and its snapshots stay as they are. Meanwhile the database is
//! *cut off*.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_replica::{Contact, Replica};
use colibri_sql::{Access, Engine};

use super::{Hidden, Keeper, RETRY};
use crate::registry::{Stop, Why};
use crate::replication::Replication;
use crate::replication::wait::race;

impl Keeper {
    // ---- what may be read ----

    /// Whether a session may be shown what is here now. One that was told that it leads is shown
    /// the newest state only; others what was agreed on not long ago.
    pub(crate) fn may_be_read(&self, has_led: bool) -> bool {
        if has_led { self.is_current() } else { self.node.upgrade().is_some_and(|node| node.is_reached()) }
    }

    /// Whether the node reaches the service.
    pub(crate) fn contact(&self) -> Option<Contact> {
        Some(self.node.upgrade()?.membership().contact())
    }

    /// Why the node does not reach the cluster, if it does not.
    pub(crate) fn why_unreached(&self) -> Option<String> {
        self.node.upgrade()?.trouble()
    }

    /// Whether a term was lost, and the service does not answer since.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }

    /// The term is lost, and the service does not answer: what was agreed on stays here to be read
    /// until it does.
    pub(super) async fn be_cut_off(&self, node: &Replication) {
        let Some(engine) = self.place.shown() else { return };
        *self.leading.write() = None;
        self.state.lock().generation += 1;
        {
            let _one = self.renewing.lock();
            engine.stand_down();
        }
        drop(engine);
        self.is_cut_off.store(true, Ordering::Release);
        // Sessions that wait for a hand-over go on.
        self.is_handing_over.store(false, Ordering::Release);
        self.gate.open();
        node.log.warn("cut_off", &[("database", &self.name)]);
        while !node.has_answer() && !node.is_ending() && !self.is_gone() && !node.is_led_by_another(&self.db) {
            let seen = self.changed.count();
            _ = race(node.sleep(RETRY), self.changed.wait(seen)).await;
        }
        self.is_cut_off.store(false, Ordering::Release);
    }

    // ---- opening and ending ----

    /// Opens the engine on a thread of its own, if it is asked for and not open: the first commit
    /// of a new database is made there, and waits for the log.
    pub(super) fn open_engine(self: &Arc<Self>) {
        let (replica, generation) = {
            if self.asked().is_none() {
                return;
            }
            let mut state = self.state.lock();
            if state.is_opening_engine {
                return;
            }
            let Some(replica) = state.replica.clone() else { return };
            state.is_opening_engine = true;
            (replica, state.generation)
        };
        let keeper = Arc::clone(self);
        let opening = std::thread::Builder::new().name(format!("open-{}", self.oid));
        let started = opening.spawn(move || keeper.open_engine_here(&replica, generation));
        if started.is_err() {
            self.state.lock().is_opening_engine = false;
        }
    }

    fn open_engine_here(&self, replica: &Replica, generation: u64) {
        let open = || {
            let database = replica.engine().map_err(|error| error.to_string())?;
            let engine = Engine::open_replica(database, &self.name, self.around.memory.clone(), self.access());
            engine.map_err(|error| error.to_string())
        };
        let opened = open();
        {
            let mut state = self.state.lock();
            state.is_opening_engine = false;
            match opened {
                Ok(Some(engine)) if state.generation == generation => {
                    engine.set_long_work_hook(colibri_runtime::budget::before_long_call);
                    state.asked = None;
                    self.place.show(engine);
                }
                // It is tried again after a pause.
                Ok(_) => return,
                Err(why) => {
                    state.trouble = Some(why);
                    return;
                }
            }
        }
        self.renew_access();
        self.changed.give();
    }

    /// Ends the sessions and the engine, and what this node leads.
    pub(super) fn close_engine(&self) {
        let was_leading = self.leading.write().take().is_some();
        let engine = {
            let mut state = self.state.lock();
            state.generation += 1;
            match self.place.hide(false) {
                Hidden::Yes(engine) => engine,
                Hidden::InUse => None,
            }
        };
        if let Some(engine) = &engine {
            let _one = self.renewing.lock();
            engine.set_access(Access::Standby);
        }
        // Bug: sessions were ended though nobody used the database, so these were sessions that
        // waited for it to be opened again. Consequence: a client that connected as it was closed
        // was told that its session ends. Fix: without a lease there is no session that has to end.
        if (was_leading || engine.is_some()) && self.place.uses() > 0 {
            self.end_sessions(Why::LeadershipLost);
        }
        drop(engine);
        self.changed.give();
    }

    pub(super) fn end_sessions(&self, why: Why) {
        self.around.registry.stop(Stop::Now, why, |member| member.database == self.name);
    }
}
