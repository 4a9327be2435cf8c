//! How long a fenced append takes without anything of a database around it: what `bench cluster`
//! compares commits with.

use std::time::{Duration, Instant};

use colibri_replica::coordinator::{Compare, Operation, Revision, Txn, beginning_with};
use colibri_replica::{Campaign, Database, JoinOptions, Node, NodeId, Replace, Reservation};

use super::wait::block_on;
use super::{cluster_error, connect};
use crate::error::ServeError;

/// Puts values in etcd one after the other, for some time, each by a transaction with the two
/// compares of a fence, and removes them again. Gives how long each took.
///
/// # Errors
/// If etcd cannot be reached, or does not answer.
pub fn append_times(address: &str, value_bytes: usize, time: Duration) -> Result<Vec<Duration>, ServeError> {
    let failed = |error: &dyn std::fmt::Display| cluster_error(format!("appends cannot be measured: {error}"));
    let (cluster, _) = connect(address)?;
    let id = NodeId::new("measure").map_err(|error| failed(&error))?;
    let options = JoinOptions {
        lease_ttl: time + Duration::from_secs(60),
        replace: Replace::EarlierStart,
        ..JoinOptions::default()
    };
    let node = Node { id, address: "-".to_owned() };
    let membership = block_on(cluster.join(node, options)).map_err(|error| failed(&error))?;
    let db = Database("measure".to_owned());
    let campaign = block_on(membership.campaign(&db, Reservation::Ignore)).map_err(|error| failed(&error))?;
    let Campaign::Elected(leadership) = campaign else { return Err(failed(&"somebody else measures")) };
    let prefix = format!("/colibri/{}/", cluster.name());
    let leader = format!("{prefix}leader/measure").into_bytes();
    let values = format!("{prefix}measure/");
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < time {
        let key = format!("{values}{:016x}", times.len()).into_bytes();
        let put = Operation::Put { key: key.clone(), value: vec![b'x'; value_bytes], lease: None };
        let txn = Txn {
            compares: vec![
                Compare::Created(leader.clone(), Revision(leadership.epoch().0)),
                Compare::Created(key, Revision::default()),
            ],
            then: vec![put],
            otherwise: Vec::new(),
        };
        let asked = Instant::now();
        let done = block_on(cluster.coordinator().transact(txn)).map_err(|error| failed(&error))?;
        times.push(asked.elapsed());
        if !done.held {
            return Err(failed(&"the fence has not held"));
        }
    }
    let remove = Txn { then: vec![Operation::Delete(beginning_with(values.as_bytes()))], ..Txn::default() };
    block_on(cluster.coordinator().transact(remove)).map_err(|error| failed(&error))?;
    block_on(membership.leave()).map_err(|error| failed(&error))?;
    Ok(times)
}
