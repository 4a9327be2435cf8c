//! Records of a cluster: small values by name that belong to all nodes, such as its users.
//!
//! A change is a compare and a put: it succeeds only if the record still has the value that the node
//! has seen.
//! All nodes watch the records and keep copies.
//!
//! Invariants:
//! 1. A record is replaced only where it is still what the change was made of. So of two changes
//!    that are made at the same time, the later one is made again of what the first one left.
//! 2. Nothing here knows what the values mean.

use crate::cluster::{Cluster, Error};
use crate::coordinator::{Compare, Failure, Get, KeyValue, Operation, Revision, Txn};
use crate::keys::database_of;
use crate::observe::Observer;

/// How often a change is sent that is not answered.
const SENDS_MAX: u32 = 5;

/// A record as it is in the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The state of the service that has put it.
    pub revision: Revision,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordPut {
    /// The record has the new value.
    Done(ClusterRecord),
    /// It was another one meanwhile: this is what it is now, if it is there.
    Changed(Option<ClusterRecord>),
}

impl Cluster {
    /// A record.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn record(&self, name: &str) -> Result<Option<ClusterRecord>, Error> {
        let found = self.get(Get::key(&self.keys.record(name))).await?;
        found.keys.first().map(expect_record).transpose()
    }

    /// The records, as they change.
    #[must_use]
    pub fn observe_records(&self) -> Observer<ClusterRecord> {
        Observer::new(self.coordinator.clone(), self.keys.records(), record)
    }

    /// Puts the first records of a cluster, all of them or none. False if one of them is there.
    ///
    /// # Errors
    /// [`Error`]. After an unknown outcome they may be there.
    pub async fn create_records(&self, records: &[(&str, Vec<u8>)]) -> Result<bool, Error> {
        let keys = || records.iter().map(|(name, _)| self.keys.record(name));
        let txn = Txn {
            compares: keys().map(|key| Compare::Modified(key, Revision::default())).collect(),
            then: records
                .iter()
                .map(|(name, value)| Operation::Put { key: self.keys.record(name), value: value.clone(), lease: None })
                .collect(),
            otherwise: Vec::new(),
        };
        Ok(self.coordinator.transact(txn).await?.held)
    }

    /// Puts a record if the last one to put it was this state of the service; zero: if it is not
    /// there.
    ///
    /// After a call without an answer this is sent again. Then the record may have been put, and
    /// replaced by somebody else since: that is told as [`RecordPut::Changed`].
    ///
    /// # Errors
    /// [`Error`]. After an unknown outcome the record may be put.
    pub async fn put_record(&self, name: &str, value: Vec<u8>, seen: Revision) -> Result<RecordPut, Error> {
        let key = self.keys.record(name);
        let txn = Txn {
            compares: vec![Compare::Modified(key.clone(), seen)],
            then: vec![Operation::Put { key: key.clone(), value: value.clone(), lease: None }],
            otherwise: vec![Operation::Get(Get::key(&key))],
        };
        let mut sends = 0;
        let done = loop {
            sends += 1;
            match self.coordinator.transact(txn.clone()).await {
                Err(Failure::Unknown(_) | Failure::NotSent(_)) if sends < SENDS_MAX => {}
                done => break done?,
            }
        };
        if done.held {
            return Ok(RecordPut::Done(ClusterRecord { name: name.to_owned(), value, revision: done.revision }));
        }
        let found = done.read.first().and_then(|keys| keys.first()).map(expect_record).transpose()?;
        Ok(match found {
            // It was put by a call without an answer.
            Some(found) if sends > 1 && found.value == value => RecordPut::Done(found),
            found => RecordPut::Changed(found),
        })
    }
}

fn record(key: &KeyValue) -> Option<ClusterRecord> {
    Some(ClusterRecord { name: database_of(&key.key)?.0, value: key.value.clone(), revision: key.modified })
}

fn expect_record(key: &KeyValue) -> Result<ClusterRecord, Error> {
    record(key).ok_or_else(|| Error::damaged(&key.key, "no record"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::observe::Seen;
    use crate::simulation::{Faults, Simulation};

    fn stormy() -> Faults {
        Faults {
            delay: Duration::from_millis(1)..=Duration::from_millis(30),
            requests_lost_permille: 60,
            answers_lost_permille: 60,
            duplicates_permille: 30,
            watches_cut_permille: 50,
            deliveries_repeated_permille: 50,
            ..Faults::default()
        }
    }

    /// Adds a number to a record that lists numbers.
    async fn add(cluster: &Cluster, number: u32) {
        let text = |record: &Option<ClusterRecord>| match record {
            Some(record) => String::from_utf8(record.value.clone()).unwrap(),
            None => String::new(),
        };
        let mut now = loop {
            match cluster.record("numbers").await {
                Ok(record) => break record,
                Err(_) => cluster.coordinator().sleep(Duration::from_millis(20)).await,
            }
        };
        loop {
            if text(&now).split(' ').any(|known| known == number.to_string()) {
                return;
            }
            let value = format!("{}{number} ", text(&now)).into_bytes();
            let seen = now.as_ref().map_or_else(Revision::default, |record| record.revision);
            match cluster.put_record("numbers", value, seen).await {
                Ok(RecordPut::Done(_)) => return,
                Ok(RecordPut::Changed(other)) => now = other,
                Err(_) => cluster.coordinator().sleep(Duration::from_millis(20)).await,
            }
        }
    }

    #[test]
    fn no_change_is_lost_when_nodes_change_a_record_together_and_the_network_fails() {
        for seed in 0..50 {
            let simulation = Simulation::new(seed);
            simulation.set_faults(stormy());
            let nodes = ["n1", "n2", "n3"];
            let done = Arc::new(Mutex::new(0));
            for (at, node) in nodes.into_iter().enumerate() {
                let cluster = Cluster::new(simulation.connect(node), "records");
                let done = Arc::clone(&done);
                simulation.spawn(node, async move {
                    for number in 0..10 {
                        add(&cluster, at as u32 * 100 + number).await;
                    }
                    *done.lock().unwrap() += 1;
                });
            }
            let watcher = Cluster::new(simulation.connect("n4"), "records");
            let seen = Arc::new(Mutex::new(Vec::new()));
            let copy = Arc::clone(&seen);
            simulation.spawn("n4", async move {
                let mut observer = watcher.observe_records();
                while let Ok(Seen::Is(record)) = observer.next().await {
                    *copy.lock().unwrap() = record.value;
                }
            });
            simulation.run_for(Duration::from_secs(120));
            assert_eq!(*done.lock().unwrap(), 3, "seed {seed}: they have ended");
            let text = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
            let mut numbers: Vec<u32> = text.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect();
            numbers.sort_unstable();
            let all: Vec<u32> = (0..3).flat_map(|node| (0..10).map(move |n| node * 100 + n)).collect();
            assert_eq!(numbers, all, "seed {seed}: each change is there once, and the watch has told the last one");
        }
    }

    #[test]
    fn a_record_that_was_changed_meanwhile_is_not_replaced() {
        let simulation = Simulation::new(1);
        let cluster = Cluster::new(simulation.connect("n1"), "records");
        simulation.block_on(async {
            let put = |value: &str, seen| cluster.put_record("a/b", value.as_bytes().to_vec(), seen);
            let Ok(RecordPut::Done(first)) = put("1", Revision::default()).await else { panic!("it is not there yet") };
            assert_eq!(put("2", Revision::default()).await, Ok(RecordPut::Changed(Some(first.clone()))));
            let Ok(RecordPut::Done(second)) = put("2", first.revision).await else { panic!("it was read") };
            assert_eq!(put("3", first.revision).await, Ok(RecordPut::Changed(Some(second.clone()))));
            assert_eq!(cluster.record("a/b").await, Ok(Some(second)));
            assert_eq!(cluster.record("a").await, Ok(None));
            let both = [("a", b"1".to_vec()), ("a/b", b"1".to_vec())];
            assert_eq!(cluster.create_records(&both).await, Ok(false), "one is there");
            assert_eq!(cluster.record("a").await, Ok(None), "so none is put");
            assert_eq!(cluster.create_records(&both[..1]).await, Ok(true));
        });
    }
}
