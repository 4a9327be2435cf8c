//! Handing the leadership of a database over to another node, between transactions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use colibri_replica::{HandOverError, NodeId};

use super::Keeper;
use crate::registry::{Stop, Why};
use crate::replication::Replication;
use crate::replication::wait::{Either, race};

/// How long sessions may take to end that are ended for a hand-over.
const FORCED_MAX: Duration = Duration::from_secs(2);

impl Keeper {
    pub(super) fn is_handing_over(&self) -> bool {
        self.is_handing_over.load(Ordering::Acquire)
    }

    /// The leadership was handed over between transactions. Sessions and their engine, which has
    /// retired, stay.
    pub(super) fn step_down(&self) {
        *self.leading.write() = None;
        // An engine that is being opened is one for a leader.
        self.state.lock().generation += 1;
        self.changed.give();
    }

    /// Hands the leadership over to another node between transactions: nothing new begins, what has
    /// begun has the time `open_max` to end, and sessions that wait go on at the other node. What
    /// has not ended then ends with an error if `is_forced`; else the hand-over is called off.
    /// Gives whether the leadership was handed over. Waits for the disk, with the thread.
    pub(crate) async fn hand_over(&self, node: &Replication, to: &NodeId, open_max: Duration, is_forced: bool) -> bool {
        let Some(replica) = self.replica().filter(|_| self.leads()) else { return false };
        if self.is_handing_over.swap(true, Ordering::AcqRel) {
            return false;
        }
        // However this ends, the gate does not stay closed.
        let calls_off = CallsOff(self);
        self.gate.close();
        let is_quiet = self.is_quiet_within(node, open_max).await || is_forced && self.end_those_at_work(node).await;
        if !is_quiet {
            return false;
        }
        if let Some(engine) = self.place.shown()
            && let Err(error) = engine.retire()
        {
            node.log.error("cannot_retire", &[("database", &self.name), ("error", &error)]);
            return false;
        }
        // From here on the request stands, whoever waits for it.
        std::mem::forget(calls_off);
        match replica.hand_over(Some(to.clone())).await {
            // The gate opens when the term has ended.
            Ok(()) => true,
            Err(HandOverError::NotLeading) => false,
            Err(_) => {
                self.call_off();
                false
            }
        }
    }

    async fn is_quiet_within(&self, node: &Replication, time: Duration) -> bool {
        matches!(race(self.gate.until_empty(), node.sleep(time)).await, Either::First(()))
    }

    /// Ends sessions that are in a transaction, and if that is not enough all of them: one that has
    /// sent a part of what belongs together is between transactions, and does not look like at
    /// work.
    async fn end_those_at_work(&self, node: &Replication) -> bool {
        self.around
            .registry
            .stop(Stop::Now, Why::Administrator, |member| member.database == self.name && member.is_at_work());
        if self.is_quiet_within(node, FORCED_MAX).await {
            return true;
        }
        self.end_sessions(Why::Administrator);
        self.is_quiet_within(node, FORCED_MAX).await
    }

    /// The leadership stays here.
    fn call_off(&self) {
        self.renew_access();
        self.is_handing_over.store(false, Ordering::Release);
        self.gate.open();
    }
}

/// Has a hand-over called off when it is dropped.
struct CallsOff<'k>(&'k Keeper);

impl Drop for CallsOff<'_> {
    fn drop(&mut self) {
        self.0.call_off();
    }
}
