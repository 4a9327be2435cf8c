//! How far a copy of a database is behind the log.
//!
//! An entry says how many bytes the log has up to it, and when its leader has made it. So two reads
//! tell all there is to know, and a copy that is at the log's end needs one, of a key. Nothing is
//! counted while nobody asks.

use std::time::Duration;

use crate::cluster::{Cluster, Error};
use crate::coordinator::Get;
use crate::entry::{Position, decode};
use crate::keys::position_of;
use crate::names::Database;

/// How far a copy is behind the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// The position behind the last entry of the log: up to here nodes have agreed.
    pub end: Position,
    /// Entries of the log that are not applied.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long ago the oldest of them was made, by the clocks of the leader and of who asks. Zero
    /// if all are applied; `None` if the entry does not tell, since an older version has made it.
    pub age: Option<Duration>,
}

impl Lag {
    /// That of a copy that has applied the log up to its end.
    #[must_use]
    pub fn none(end: Position) -> Self {
        Self { end, entries: 0, bytes: 0, age: Some(Duration::ZERO) }
    }
}

impl Cluster {
    /// How far a copy is behind that has applied a database's log up to a position, which is that of
    /// the next entry it needs.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn lag(&self, db: &Database, applied: Position) -> Result<Lag, Error> {
        let last = Get::range(self.keys.entries(db)).last_first().at_most(1).keys_only();
        let found = self.get(last).await?;
        let end = match found.keys.first() {
            None => Position::FIRST,
            Some(key) => position_of(&key.key).ok_or_else(|| Error::damaged(&key.key, "no position"))?.next(),
        };
        if end <= applied {
            return Ok(Lag::none(end));
        }
        // What was trimmed meanwhile is not there any more: the copy is behind by at least the rest.
        let next = Get::range(self.keys.entries_from(db, applied)).at_most(1);
        let last = Get::range(self.keys.entries(db)).last_first().at_most(1);
        let done = self.read([next, last]).await?;
        let entry = |read: usize| {
            let Some(key) = done.read[read].first() else { return Ok(None) };
            let position = position_of(&key.key).ok_or_else(|| Error::damaged(&key.key, "no position"))?;
            let entry = decode(position, &key.value).map_err(|reason| Error::damaged(&key.key, reason))?;
            Ok::<_, Error>(Some((position, entry.bytes_total, key.value.len() as u64, entry.made)))
        };
        let (Some((_, next_total, next_bytes, made)), Some((last, last_total, _, _))) = (entry(0)?, entry(1)?) else {
            return Ok(Lag::none(applied));
        };
        Ok(Lag {
            end: last.next(),
            entries: last.next().0.saturating_sub(applied.0),
            bytes: (last_total + next_bytes).saturating_sub(next_total),
            age: made.age(self.coordinator.wall_clock()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::append::Outcome;
    use crate::entry::HEADER_BYTES;
    use crate::leadership::{Campaign, Reservation};
    use crate::membership::JoinOptions;
    use crate::names::{Node, NodeId};
    use crate::simulation::Simulation;

    #[test]
    fn a_lag_is_told_in_entries_bytes_and_time() {
        let simulation = Simulation::new(1);
        let cluster = Cluster::new(simulation.connect("n1"), "lag");
        let db = Database("app".to_owned());
        let lag = |applied| simulation.block_on(cluster.lag(&db, Position(applied))).unwrap();
        assert_eq!(lag(1), Lag::none(Position(1)), "an empty log");
        simulation.block_on(async {
            let node = Node { id: NodeId::new("n1").unwrap(), address: "h:1".to_owned() };
            let membership = cluster.join(node, JoinOptions::default()).await.unwrap();
            let Ok(Campaign::Elected(leadership)) = membership.campaign(&db, Reservation::Heed).await else {
                panic!("nobody else is there")
            };
            let mut appender = leadership.appender().await.unwrap();
            for bytes in [10, 20, 30] {
                assert_eq!(appender.stage(&vec![7; bytes]).append().await, Outcome::Appended);
                cluster.coordinator().sleep(Duration::from_secs(1)).await;
            }
        });
        let (none, one, all) = (lag(4), lag(3), lag(1));
        assert_eq!(none, Lag::none(Position(4)));
        assert_eq!((one.end, one.entries, one.bytes), (Position(4), 1, (HEADER_BYTES + 30) as u64));
        assert_eq!((all.end, all.entries, all.bytes), (Position(4), 3, (3 * HEADER_BYTES + 60) as u64));
        let (one, all) = (one.age.unwrap(), all.age.unwrap());
        assert!((1..2).contains(&one.as_secs()) && (3..4).contains(&all.as_secs()), "{one:?} {all:?}");
        // A copy that has more than the log is not behind.
        assert_eq!(lag(9).entries, 0);
    }
}
