//! Observing a small set of keys: what it is, then how it changes.
//!
//! After a cut the keys are read again and compared with what was known, so what was told, put
//! together, is always a state of the service. Changes between two reads may be told as one.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::cluster::{Cluster, Error, Leader, Member, leader, member};
use crate::coordinator::{Change, Coordinator, Failure, Get, KeyValue, Revision, Watch, WatchEvent};
use crate::keys::database_of;
use crate::names::Database;

/// A change of what is observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<T> {
    /// It is there, or has another value.
    Is(T),
    /// It is gone; this is what it was.
    Was(T),
}

/// Values as they come and go.
pub struct Observer<T> {
    coordinator: Arc<dyn Coordinator>,
    keys: Range<Vec<u8>>,
    decode: fn(&KeyValue) -> Option<T>,
    known: BTreeMap<Vec<u8>, (Revision, T)>,
    ready: VecDeque<Seen<T>>,
    watch: Option<Box<dyn Watch>>,
    has_read: bool,
    backoff: Backoff,
}

impl Cluster {
    /// The leaders of all databases, as they change: one watch for all of them.
    #[must_use]
    pub fn observe_leaders(&self) -> Observer<(Database, Leader)> {
        let decode = |key: &KeyValue| Some((database_of(&key.key)?, leader(key)?));
        Observer::new(self.coordinator.clone(), self.keys.leaders(), decode)
    }

    /// The members, as they come and go.
    #[must_use]
    pub fn observe_members(&self) -> Observer<Member> {
        Observer::new(self.coordinator.clone(), self.keys.members(), member)
    }
}

impl<T: Clone> Observer<T> {
    pub(crate) fn new(
        coordinator: Arc<dyn Coordinator>,
        keys: Range<Vec<u8>>,
        decode: fn(&KeyValue) -> Option<T>,
    ) -> Self {
        let (known, ready) = (BTreeMap::new(), VecDeque::new());
        Self { coordinator, keys, decode, known, ready, watch: None, has_read: false, backoff: Backoff::default() }
    }

    /// The next change; at first, all that is there. Dropping the future loses nothing. While the
    /// service cannot be reached this tries on, with pauses of up to two seconds.
    ///
    /// # Errors
    /// [`Error`], if the service refuses.
    pub async fn next(&mut self) -> Result<Seen<T>, Error> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Ok(seen);
            }
            match &mut self.watch {
                None => self.read().await?,
                Some(watch) => match poll_fn(|context| watch.poll_next(context)).await {
                    WatchEvent::Changes(changes) => changes.into_iter().for_each(|change| self.take(change)),
                    // The pause is for a watch that ends at once each time.
                    WatchEvent::Cut | WatchEvent::Compacted => {
                        self.watch = None;
                        self.backoff.wait(&*self.coordinator).await;
                    }
                },
            }
        }
    }

    /// Reads what there is, if nothing was read before. A caller that has this and takes what
    /// [`Observer::next_ready`] gives knows a whole state.
    ///
    /// # Errors
    /// As [`Observer::next`].
    pub async fn begin(&mut self) -> Result<(), Error> {
        while !self.has_read {
            self.read().await?;
        }
        Ok(())
    }

    /// The next change, if one was read already.
    pub fn next_ready(&mut self) -> Option<Seen<T>> {
        self.ready.pop_front()
    }

    /// What is there, as far as it was told.
    pub fn known(&self) -> impl Iterator<Item = &T> {
        self.known.values().map(|(_, value)| value)
    }

    async fn read(&mut self) -> Result<(), Error> {
        let found = match self.coordinator.get(Get::range(self.keys.clone())).await {
            Ok(found) => found,
            Err(Failure::Refused(refusal)) => return Err(Failure::Refused(refusal).into()),
            Err(_) => {
                self.backoff.wait(&*self.coordinator).await;
                return Ok(());
            }
        };
        self.backoff.reset();
        self.has_read = true;
        let gone: Vec<_> =
            self.known.keys().filter(|&known| found.keys.iter().all(|key| key.key != *known)).cloned().collect();
        gone.into_iter().for_each(|key| self.take(Change::Deleted(key)));
        found.keys.into_iter().for_each(|key| self.take(Change::Put(key)));
        self.watch = Some(self.coordinator.watch(self.keys.clone(), Revision(found.revision.0 + 1)));
        Ok(())
    }

    fn take(&mut self, change: Change) {
        match change {
            // A value that is not understood counts as gone; who asks for it alone gets the error.
            Change::Put(key) => match (self.decode)(&key) {
                Some(_) if self.known.get(&key.key).is_some_and(|(known, _)| *known >= key.modified) => {}
                Some(value) => {
                    self.known.insert(key.key, (key.modified, value.clone()));
                    self.ready.push_back(Seen::Is(value));
                }
                None => self.take(Change::Deleted(key.key)),
            },
            Change::Deleted(key) => {
                let was = self.known.remove(&key);
                self.ready.extend(was.map(|(_, value)| Seen::Was(value)));
            }
        }
    }
}
