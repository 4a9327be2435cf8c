//! What is different for a session on a node of a cluster: reads that have to be the newest state,
//! or as new as a commit elsewhere.
//!
//! # A leader's reads
//! A leader that was cut off may not know that another one commits. So before answers are sent, and
//! after all snapshots they come from were taken, the session looks whether the node's lease is
//! certainly valid. If it is not, it waits a little for the next keepalive: the lease that is
//! prolonged has never ended. What was committed is not in question here, since the log has it.
//!
//! # Memory
//! What these waits need is behind pointers, and made when there is something to wait for.
//!
//! Bug: it was part of each connection, whose task then took the next larger piece of memory.
//! Consequence: 500 idle connections took 2 KB more each, without any cluster.
//! Fix: the looks are functions, and the waits are boxed; so is COPY of the extended protocol.
//!
//! Invariant: no answer of a leader's session is sent that has data in it which may be outdated,
//! unless the session has set `colibri.reads` to `agreed`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use colibri_runtime::sleep;
use colibri_sql::{Error, SqlState};

use super::{CANNOT_CONNECT_NOW, Client, End, ending};
use crate::registry::Stop;
use crate::replication::keeper::Keeper;

/// How long a read waits until it is certain that the node leads.
const CERTAIN_MAX: Duration = Duration::from_secs(3);
/// How long a read waits for the commit that `colibri.read_after` names.
const APPLIED_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
const LOOK_APPLIED: Duration = Duration::from_millis(2);

/// Whether a text, or the body of a Parse message, may read tables: anything but what sets and
/// shows settings, with which a session ends a wait that does not end by itself.
pub(super) fn reads(text: &[u8]) -> bool {
    // In front of a Parse message's text is a name that ends with a zero byte.
    let text = match text.iter().position(|&byte| byte == 0) {
        Some(end) if end + 1 < text.len() => &text[end + 1..],
        _ => text,
    };
    let text = text.trim_ascii_start();
    let is = |word: &str| text.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word.as_bytes()));
    !["set", "reset", "show", "begin", "start", "commit", "rollback", "discard"].into_iter().any(is)
}

impl Client {
    /// Waits until the answers that wait to be sent are certainly the newest state, where they have
    /// to be.
    pub(super) async fn be_current(&mut self) -> Result<(), End> {
        match self.keeper_to_ask() {
            // In this order: the sessions of a term are told to end before the next one begins.
            Some(keeper) if keeper.is_current() && self.member().stopping() != Stop::Now => {
                (self.has_committed, self.has_read) = (false, false);
                Ok(())
            }
            Some(keeper) => Box::pin(self.wait_until_current(keeper)).await,
            None => {
                // What is sent now is no part of what is judged later.
                self.has_read &= self.link.out.is_empty();
                Ok(())
            }
        }
    }

    /// Who knows whether the answers that wait to be sent are the newest state, if they have to be.
    fn keeper_to_ask(&self) -> Option<Arc<Keeper>> {
        let has_to_be = !self.link.out.is_empty() && self.has_read && self.has_led && !self.reads_agreed;
        self.lease.keeper().filter(|_| has_to_be).cloned()
    }

    async fn wait_until_current(&mut self, keeper: Arc<Keeper>) -> Result<(), End> {
        let silent_for = keeper.contact().map(|contact| contact.uncertain_for).unwrap_or_default();
        let until = Instant::now() + CERTAIN_MAX.saturating_sub(silent_for);
        while !keeper.is_current() || self.member().stopping() == Stop::Now {
            if !keeper.leads() || self.member().stopping() == Stop::Now {
                return self.not_current(ending(self.member()));
            }
            if Instant::now() >= until {
                let message = "the server does not certainly lead the database: there may be newer commits elsewhere";
                let hint = "Connect again; with options=-c colibri.reads=agreed the last state that was agreed on is shown instead.";
                return self.not_current(Error::new(CANNOT_CONNECT_NOW, message).hint(hint));
            }
            sleep(LOOK).await;
        }
        (self.has_committed, self.has_read) = (false, false);
        Ok(())
    }

    /// Ends the session; answers that were not sent stay unsaid.
    fn not_current(&mut self, error: Error) -> Result<(), End> {
        // Of a commit among them the log has told. Only the client was not.
        let error = match std::mem::take(&mut self.has_committed) {
            false => error,
            true => Error::new(
                SqlState::COMMIT_UNKNOWN,
                "the server has committed, and does not lead the database any more",
            )
            .hint("Connect again, and look for the effects of the transaction."),
        };
        self.link.out.clear();
        Err(End::Fatal(error))
    }

    /// Called before a statement that may read or write tables. Waits until what is here may be
    /// shown, and has the commit that `colibri.read_after` names.
    pub(super) async fn begin_to_read(&mut self) -> Result<(), Error> {
        if let Some(keeper) = self.lease.keeper().filter(|keeper| !keeper.may_be_read(self.has_led)).cloned() {
            Box::pin(self.wait_until_shown(keeper)).await?;
        }
        self.has_read = true;
        if self.session().reads_after_a_commit() { Box::pin(self.wait_until_applied()).await } else { Ok(()) }
    }

    /// The node does not reach the cluster. Waits until it does; what has been waited for by then
    /// counts.
    async fn wait_until_shown(&mut self, keeper: Arc<Keeper>) -> Result<(), Error> {
        if self.session().setting("colibri.reads").is_ok_and(|reads| reads == "agreed") {
            return Ok(());
        }
        let silent_for = keeper.contact().map(|contact| contact.uncertain_for).unwrap_or_default();
        let until = Instant::now() + CERTAIN_MAX.saturating_sub(silent_for);
        while !keeper.may_be_read(self.has_led) {
            if self.member().stopping() == Stop::Now {
                return Err(ending(self.member()));
            }
            if self.member().is_cancelled() {
                return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
            }
            if Instant::now() >= until {
                let message = "the cluster cannot be reached: what this server has may be outdated";
                let error = Error::new(CANNOT_CONNECT_NOW, message)
                    .hint("SET colibri.reads = agreed shows the last state that was agreed on.");
                return Err(match keeper.why_unreached() {
                    Some(why) => error.detail(why),
                    None => error,
                });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    async fn wait_until_applied(&mut self) -> Result<(), Error> {
        let until = Instant::now() + APPLIED_MAX;
        while let Some(txn) = self.session().is_to_see()? {
            if Instant::now() >= until || self.member().stopping() == Stop::Now || self.member().is_cancelled() {
                let message = format!(
                    "the commit that colibri.read_after names (transaction {}) has not come to this server within {} s",
                    txn.0,
                    APPLIED_MAX.as_secs()
                );
                return Err(Error::new(SqlState::CANCELED, message)
                    .hint("RESET colibri.read_after to read what this server has."));
            }
            sleep(LOOK_APPLIED).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_can_be_set_while_a_commit_is_waited_for() {
        for text in ["SET colibri.read_after = ''", "  reset all", "a\0SHOW timezone\0\0\0", "\0set x to 1\0\0\0"] {
            assert!(!reads(text.as_bytes()), "{text}");
        }
        for text in ["SELECT 1", "", "\0SELECT 1\0\0\0", "TABLE t", "se"] {
            assert!(reads(text.as_bytes()), "{text}");
        }
    }
}
