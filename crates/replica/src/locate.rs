//! Whether a copy of a database, wherever it comes from, is a state of the database that a log is
//! of: to be known before it is put in the place of one that is.
//!
//! A commit's checksum is over its record and the checksum before, so two databases that have one
//! transaction with the same checksum have the same history up to it. The log and the bases of
//! nodes say which checksum a transaction has.

use crate::cluster::Cluster;
use crate::follow::FollowError;
use crate::group;
use crate::names::{CommitId, Database};

/// What a copy is to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located {
    /// It is a state of the database, and the log has all that follows.
    Fits,
    /// It may be one, and the log does not have what follows its last transaction any more.
    TooOld,
    /// It has transactions that the log does not have.
    Ahead {
        /// The last one of the log, if it has any.
        log_txn: Option<u64>,
    },
    /// It has another history.
    Differs,
}

impl Cluster {
    /// What a copy of a database is to its log, by the copy's last transaction. Reads the log from
    /// the newest base that is not beyond the copy.
    ///
    /// # Errors
    /// [`FollowError`] if the log cannot be read.
    pub async fn locate(&self, db: &Database, copy: CommitId) -> Result<Located, FollowError> {
        let bases = self.bases(db).await.map_err(FollowError::Failed)?;
        let marks = bases.bases.iter().filter_map(|base| Some((base.commit?, base.covers)));
        let base = marks.filter(|(commit, _)| commit.txn <= copy.txn).max_by_key(|(commit, _)| commit.txn);
        if let Some((commit, _)) = base
            && commit.txn == copy.txn
        {
            return Ok(if commit.chain == copy.chain { Located::Fits } else { Located::Differs });
        }
        let from = match base {
            Some((_, point)) => point,
            None => match self.first_point(db).await.map_err(FollowError::Failed)? {
                Some(first) => first,
                None => return Ok(Located::TooOld),
            },
        };
        let mut log_txn = base.map(|(commit, _)| commit.txn);
        let mut follower = self.follow(db, from);
        loop {
            let record = match follower.next_if_there().await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(Located::Ahead { log_txn }),
                Err(FollowError::Trimmed { .. }) => return Ok(Located::TooOld),
                Err(error) => return Err(error),
            };
            let damaged = |reason| FollowError::Damaged { position: record.position, reason };
            let records = group::unpack(&record.bytes).map_err(damaged)?;
            for commit in group::decode(&records).map_err(damaged)? {
                let txn = commit.txn.0;
                if txn == copy.txn {
                    return Ok(if commit.chain == copy.chain { Located::Fits } else { Located::Differs });
                }
                if txn > copy.txn {
                    // The first record that is left may be the very next one: it has to fit the
                    // checksum of the copy, which is seen when it is applied.
                    return Ok(if txn == copy.txn + 1 { Located::Fits } else { Located::TooOld });
                }
                log_txn = Some(txn);
            }
        }
    }
}
