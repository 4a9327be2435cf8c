//! What a node does about its base: it publishes its steady points, and, while it leads, trims the
//! log up to what enough nodes hold.
//!
//! The engine makes steady points by itself. So this looks for a new one a while after something
//! was applied, and sleeps without a time limit when all is published.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::cluster::Error;
use crate::leadership::Leadership;
use crate::membership::Membership;
use crate::names::CommitId;
use crate::replica::Replica;
use crate::trim::Trimmed;

/// So many nodes hold what is trimmed, or all of them if there are fewer.
const HOLDERS: usize = 2;

/// Publishes bases, and trims if the node leads, until it is dropped. A failure is left to the next
/// time.
pub(crate) async fn keep_up(replica: &Replica, membership: &Membership, leading: Option<&Leadership>) {
    loop {
        poll_fn(|context| replica.0.marks.lock().poll_pending(context)).await;
        replica.0.cluster.coordinator().sleep(replica.0.options.upkeep_pause).await;
        if publish(replica, membership).await == Ok(true)
            && let Some(leading) = leading
        {
            _ = trim(replica, leading).await;
        }
    }
}

impl Replica {
    /// Publishes the newest steady point as the node's base now, and not some seconds later: before
    /// the database is closed. True if there was a new one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn publish_base(&self, membership: &Membership) -> Result<bool, Error> {
        publish(self, membership).await
    }
}

/// Publishes the newest steady mark. True if there was a new one.
pub(crate) async fn publish(replica: &Replica, membership: &Membership) -> Result<bool, Error> {
    let steady = replica.0.state.lock().engine.as_ref().map(colibri_storage::Database::steady_txn);
    let mark = steady.and_then(|steady| replica.0.marks.lock().up_to(steady));
    let Some(mark) = mark.filter(|mark| !replica.0.marks.lock().is_published(mark)) else { return Ok(false) };
    let commit = CommitId { txn: mark.txn.0, chain: mark.chain };
    let is_published = membership.publish_base_of(&replica.0.name, mark.point, Some(commit)).await?;
    if is_published {
        replica.0.marks.lock().note_published(mark);
    }
    Ok(is_published)
}

async fn trim(replica: &Replica, leading: &Leadership) -> Result<(), Error> {
    let cluster = &replica.0.cluster;
    let bases = cluster.bases(&replica.0.name).await?;
    // A node without a base that is there, and one with a base that is not, both count.
    let known = cluster.members().await?.len().max(bases.bases.len());
    if let Some(held) = bases.held_by(known.min(HOLDERS))
        && let Trimmed::Done { bytes } = leading.trim(&held).await?
    {
        replica.0.trimmed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs a future to its end, and another one meanwhile.
pub(crate) async fn beside<T>(main: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    let (mut main, mut other) = (pin!(main), pin!(other));
    let mut is_over = false;
    poll_fn(|context| {
        is_over = is_over || other.as_mut().poll(context).is_ready();
        match main.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(value),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
