//! What can go wrong, told apart by what the caller does about it.

use crate::outcome::Interruption;
use crate::store::{PatchError, SpaceId};

/// The result of an operation of a transaction.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a store or a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No failure: the call cannot go on now, and this says what to do first. It is carried in the
    /// place of an error, and nobody is ever told of it.
    #[error("interrupted: {0:?}")]
    Interrupted(Interruption),
    /// The lock is held by others, and the caller did not want to wait.
    #[error("another transaction holds the lock")]
    NotAvailable,
    /// What the transaction read has changed: roll back and run the whole transaction again.
    #[error("something that the transaction read in space {space} was changed by a transaction that committed since", space = space.0)]
    Conflict {
        /// Where.
        space: SpaceId,
    },
    /// A prepared transaction has read or written what the transaction wants to change. It can be
    /// run again when that one has ended.
    #[error("a prepared transaction keeps space {space} from being changed here", space = .space.0)]
    HeldByPrepared {
        /// Where.
        space: SpaceId,
    },
    /// A prepared transaction has this name already.
    #[error("a prepared transaction has this name already")]
    PreparedExists,
    /// There are as many prepared transactions as there may be.
    #[error("there are {max} prepared transactions, which is as many as there may be")]
    TooManyPrepared {
        /// The limit.
        max: usize,
    },
    /// No prepared transaction has this name.
    #[error("no prepared transaction has this name")]
    NoSuchPrepared,
    /// A transaction that has used temporary spaces cannot be prepared.
    #[error("the transaction has used temporary objects, and cannot be prepared")]
    TemporaryUsed,
    /// A transaction that has appended to a series cannot be prepared: the numbers of its entries
    /// are not known before it commits.
    #[error("the transaction has appended to a series, and cannot be prepared")]
    SeriesUsed,
    /// A series has no numbers left.
    #[error("there are no numbers left for more entries")]
    SeriesFull,
    /// The store cannot prepare transactions.
    #[error("the store cannot prepare transactions")]
    CannotPrepare,
    /// The record of a prepared transaction cannot be read.
    #[error("the record of a prepared transaction cannot be read")]
    UnreadableRecord,
    /// Transactions wait for each other in a circle, and this one closed it: roll back and run it
    /// again.
    #[error("transactions wait for each other in a circle")]
    Deadlock,
    /// Nobody knows whether the transaction was committed.
    #[error("nobody knows whether the transaction was committed: {reason}")]
    Unknown {
        /// What happened.
        reason: String,
    },
    /// Others have to agree on the commits of this database, and nobody here will ask them any more:
    /// another machine leads. The transaction was not committed. It can be run again there.
    #[error("the transaction was not committed: this server does not lead the database any more")]
    NotLeading,
    /// The transaction's writes need more memory than they may take.
    #[error("the transaction writes more than {bytes_max} bytes, the most that one may write")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The transaction, or the store, is read-only.
    #[error("the transaction is read-only")]
    ReadOnly,
    /// There is no such space.
    #[error("there is no space {space}", space = space.0)]
    NoSuchSpace {
        /// Which.
        space: SpaceId,
    },
    /// A patch was made for a key that is not there.
    #[error("there is no such key in space {space}", space = space.0)]
    NoSuchKey {
        /// Where.
        space: SpaceId,
    },
    /// The key is empty, or longer than the store allows.
    #[error("the key has {bytes} bytes; 1 to {bytes_max} are allowed")]
    KeyLength {
        /// Length of the key in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The value is longer than the store allows.
    #[error("the value has {bytes} bytes; at most {bytes_max} are allowed")]
    ValueTooLong {
        /// Length of the value in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// Loading needs a space that was made in this transaction and is empty.
    #[error("space {space} has entries already", space = space.0)]
    NotEmpty {
        /// Where.
        space: SpaceId,
    },
    /// A patch does not apply; its maker knows the type inside.
    #[error("{0}")]
    Patch(PatchError),
    /// The storage underneath.
    #[error(transparent)]
    Storage(#[from] colibri_storage::Error),
}
