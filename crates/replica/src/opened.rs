//! Which databases their leaders have open.
//!
//! A leader that opens a database says so by a key, and deletes the key when it closes the
//! database. Standbys follow a database while the key is there. So a database that nobody uses
//! costs nothing anywhere. The key is under the leader's lease, and goes with it.
//!
//! Invariant: the key is put and deleted only under the epoch that leads.

use crate::cluster::{Cluster, Error};
use crate::coordinator::{KeyValue, Operation, Txn, only};
use crate::keys::database_of;
use crate::leadership::Leadership;
use crate::names::Database;
use crate::observe::Observer;

impl Cluster {
    /// The databases that their leaders have open, as that changes.
    #[must_use]
    pub fn observe_open(&self) -> Observer<Database> {
        fn decode(key: &KeyValue) -> Option<Database> {
            database_of(&key.key)
        }
        Observer::new(self.coordinator.clone(), self.keys.all_open(), decode)
    }

    /// Forgets all that the service has of a database: it was dropped, and its name is never used
    /// again. A node that still leads it is fenced.
    ///
    /// # Errors
    /// [`Error`]; after an unknown outcome, forget it again.
    pub async fn forget_database(&self, db: &Database) -> Result<(), Error> {
        let keys = &self.keys;
        let single = [keys.leader(db), keys.successor(db), keys.trim(db), keys.open(db)];
        let mut then: Vec<_> = single.iter().map(|key| Operation::Delete(only(key))).collect();
        then.push(Operation::Delete(keys.bases(db)));
        then.push(Operation::Delete(keys.entries(db)));
        self.coordinator.transact(Txn { then, ..Txn::default() }).await?;
        Ok(())
    }
}

impl Leadership {
    /// Says whether the leader has the database open. False if this leadership is over: nothing was
    /// said then.
    ///
    /// # Errors
    /// [`Error`]; after an unknown outcome, say it again.
    pub async fn say_open(&self, is_open: bool) -> Result<bool, Error> {
        let key = self.cluster().keys.open(self.database());
        let then = match is_open {
            true => Operation::Put { key, value: Vec::new(), lease: Some(self.membership().lease()) },
            false => Operation::Delete(only(&key)),
        };
        let txn = Txn { compares: vec![self.fence()], then: vec![then], otherwise: Vec::new() };
        Ok(self.cluster().coordinator().transact(txn).await?.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::{Campaign, Reservation};
    use crate::membership::JoinOptions;
    use crate::names::{Node, NodeId};
    use crate::observe::Seen;
    use crate::simulation::Simulation;

    #[test]
    fn only_the_leader_says_that_a_database_is_open() {
        let simulation = Simulation::new(1);
        let cluster = Cluster::new(simulation.connect("n1"), "open");
        let db = Database("app".to_owned());
        simulation.block_on(async {
            let node = Node { id: NodeId::new("n1").unwrap(), address: "h:1".to_owned() };
            let membership = cluster.join(node, JoinOptions::default()).await.unwrap();
            let Ok(Campaign::Elected(first)) = membership.campaign(&db, Reservation::Heed).await else {
                panic!("nobody else is there")
            };
            let mut observer = cluster.observe_open();
            assert_eq!(first.say_open(true).await, Ok(true));
            assert_eq!(observer.next().await, Ok(Seen::Is(db.clone())));
            first.resign(None).await.unwrap();
            let Ok(Campaign::Elected(second)) = membership.campaign(&db, Reservation::Heed).await else {
                panic!("nobody else is there")
            };
            assert_eq!(first.say_open(false).await, Ok(false));
            assert_eq!(second.say_open(false).await, Ok(true));
            assert_eq!(observer.next().await, Ok(Seen::Was(db.clone())));
            cluster.forget_database(&db).await.unwrap();
            assert_eq!(cluster.leader(&db).await, Ok(None));
            assert_eq!(second.say_open(true).await, Ok(false), "it is fenced");
        });
    }
}
