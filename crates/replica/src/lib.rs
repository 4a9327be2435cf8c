//! (doc to come)

mod address;
mod append;
mod backoff;
mod cluster;
pub mod coordinator;
mod entry;
pub mod etcd;
mod follow;
mod keys;
mod leadership;
mod membership;
mod names;
mod observe;
mod quota;
pub mod simulation;
mod trim;

pub use address::{Address, AddressError, Credentials, Tls};
pub use append::{Appender, Outcome, Resolution, Staged};
pub use cluster::{Cluster, Error, Leader, LogRange, Member};
pub use entry::{Chain, Epoch, Point, Position};
pub use follow::{FollowError, Follower, Record};
pub use leadership::{Campaign, Leadership, Reservation, Resigned};
pub use membership::{JoinError, JoinOptions, LeaseLost, Membership};
pub use names::{Database, NODE_ID_BYTES_MAX, Node, NodeId, NotANodeId};
pub use observe::{Observer, Seen};
pub use quota::{Level, QUOTA_BYTES_DEFAULT, Usage};
pub use trim::{Base, Bases, Compaction, Compactor, Held, Trimmed};
