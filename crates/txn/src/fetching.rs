//! Waiting for pages from the disk beside a session's thread, for data larger than memory.
//!
//! A lookup whose page is not in memory holds its thread until the disk has answered. Where few
//! threads serve all sessions, the others wait with it. So a transaction that was told that it may
//! be interrupted ([`crate::Transaction::let_fetch`]) asks the kernel for the page first, and says
//! that it is on its way ([`Interruption::Fetch`]). A thread beside waits for the pages, in the order
//! in which they were asked for, and ends once nothing was asked for in a while.
//!
//! Invariants
//! - Nothing is asked for before lookups have waited for the disk: a database in memory has no such
//!   thread, and its lookups do not look first.
//! - What a transaction has fetched it does not fetch again, but waits for it on its thread: where
//!   memory is scarce, a page may be gone again each time. So a statement that is interrupted and
//!   makes the same calls again comes further.

use std::collections::HashSet;
use std::hash::BuildHasher as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use colibri_storage::Reading;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use crate::error::Error;
use crate::outcome::{Interruption, StoreDone, StoreWait};
use crate::store::SpaceId;

/// The thread ends after so long without anything to wait for.
const IDLE: Duration = Duration::from_millis(500);
/// The most lookups of a transaction that are interrupted; those behind them wait on their thread.
const FETCHES_MAX: usize = 1 << 17;

/// The lookups that a transaction was interrupted for, by the hashes of their keys. Each may be interrupted
/// twice: for a leaf, and for a large value that it refers to.
#[derive(Default)]
pub(crate) struct Fetched(HashSet<u64, FixedState>);

impl Fetched {
    /// A number for a lookup that may be interrupted.
    pub(crate) fn not_asked_yet(&self, space: SpaceId, key: &[u8]) -> Option<u64> {
        let first = FixedState::with_seed(0).hash_one((space, key)) & !1;
        [first, first | 1].into_iter().find(|number| !self.0.contains(number))
    }

    /// Notes lookups that are interrupted; `false` if there were too many.
    pub(crate) fn note(&mut self, numbers: &[u64]) -> bool {
        let may = self.0.len() < FETCHES_MAX;
        if may {
            self.0.extend(numbers);
        }
        may
    }
}

type Asked = (Reading, StoreDone);

/// Who waits for pages.
#[derive(Default)]
pub(crate) struct Fetcher(Mutex<Option<Sender<Asked>>>);

impl Fetcher {
    /// What a call says whose pages are on their way.
    pub(crate) fn fetch(&self, reading: Reading) -> Error {
        let (wait, done) = StoreWait::new();
        let mut asked = (reading, done);
        let mut thread = self.0.lock();
        for _ in 0..2 {
            if let Some(sender) = &*thread {
                match sender.send(asked) {
                    Ok(()) => return Error::Interrupted(Interruption::Fetch(wait)),
                    // It has just ended.
                    Err(refused) => asked = refused.0,
                }
            }
            *thread = start();
        }
        // Without a thread the session waits, as it would without all this.
        asked.0.wait();
        Error::Interrupted(Interruption::Fetch(wait))
    }
}

fn start() -> Option<Sender<Asked>> {
    let (sender, asked) = channel();
    std::thread::Builder::new().name("pages".to_owned()).spawn(move || serve(&asked)).ok()?;
    Some(sender)
}

fn serve(asked: &Receiver<Asked>) {
    loop {
        match asked.recv_timeout(IDLE) {
            Ok((reading, done)) => {
                reading.wait();
                drop(done);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}
