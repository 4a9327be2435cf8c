//! The agreed log of a cluster: several nodes, one order of records for each database, one leader
//! at a time that appends. Consensus is etcd's; what is here is what Colibri needs of it.
//!
//! ```text
//!  leader ── stage, append ──►  ┌──────────── coordination service ────────────┐
//!                               │ leader/<db>   log/<db>/<n>   trim/<db>        │
//!  standby ◄── follow ────────  │ base/<db>/<node>   member/<node>   …          │
//!                               └──────── etcd, or a simulation of it ─────────┘
//! ```
//!
//! # The two seams
//! [`coordinator::Coordinator`] is what a consensus engine has to give: transactions with compares,
//! linearizable reads, leases, watches. There are two of it: [`etcd`], and [`simulation`] in memory
//! with virtual time and faults. Above it stands the log, once: a simulated run goes through the
//! same code as a cluster does.
//!
//! The log is what the server uses. All calls are futures that need no particular runtime, and none
//! blocks.
//!
//! | what | how |
//! | --- | --- |
//! | a cluster by its name; members, leaders, ranges of logs | [`Cluster`] |
//! | a node joins, with one lease for all that it leads | [`Cluster::join`], [`Membership::keep_alive`] |
//! | whether that lease is certainly valid: a look at a clock | [`Membership::lease_left`], [`Leadership::certain_for`] |
//! | leading a database, under an epoch; handing it over | [`Membership::campaign`], [`Leadership::resign`] |
//! | appending a record of any size, fenced by the epoch | [`Leadership::appender`], [`Staged::append`] |
//! | what became of an append without an answer | [`Staged::resolve`], or append it again |
//! | reading from a point, then watching | [`Cluster::follow`] |
//! | what a node holds without the log; trimming up to what enough nodes hold | [`Membership::publish_base`], [`Bases::held_by`], [`Leadership::trim`] |
//! | one compaction for the whole cluster | [`Compactor`] |
//! | who leads and who is there, as it changes | [`Cluster::observe_leaders`], [`Cluster::observe_members`] |
//! | how full etcd is | [`Cluster::health`], [`Level`] |
//!
//! # Invariants
//! 1. **Fenced.** An entry is appended only by the transaction that finds the leader's key created
//!    by the entry's epoch. No clock and no lease has a part in that.
//! 2. **Once, without gaps.** Position n is written once, and only when n − 1 is there. So
//!    appending again what had no answer changes nothing, and several appends may be under way
//!    together.
//! 3. **Chained.** Each entry has a checksum over its bytes and the checksum of the entry before.
//!    Two nodes at one [`Point`] have read the same entries, or one of them finds out.
//! 4. **Whole.** A record is seen when its last entry is there. Parts that a dead leader left are
//!    passed over (`entry.rs` has the rule).
//! 5. **Never below what is held.** Trimming compares the very bases that its point was taken from.
//! 6. **Repeatable.** The service may carry out any transaction of this crate twice, or long after
//!    its caller gave up, without harm.
//! 7. **Idle is free.** While nothing happens, a node sends the keepalives of one lease, whatever
//!    the number of its databases.
//!
//! # What it does not do
//! - Look into records: they are bytes.
//! - Decide who should lead, when to trim, or what to do when etcd is full: it gives what there is
//!   to know, and the server decides.
//! - Hold a queue: a caller appends in the order that it wants, and applies back pressure itself.
//!
//! ```
//! use colibri_replica::simulation::Simulation;
//! use colibri_replica::{
//!     Campaign, Cluster, Database, JoinOptions, Node, NodeId, Outcome, Reservation,
//! };
//!
//! let simulation = Simulation::new(1);
//! let cluster = Cluster::new(simulation.connect("n1"), "example");
//! simulation.block_on(async {
//!     let node = Node { id: NodeId::new("n1")?, address: "h1:5432".to_owned() };
//!     let membership = cluster.join(node, JoinOptions::default()).await?;
//!     let db = Database("app".to_owned());
//!     let campaign = membership.campaign(&db, Reservation::Heed).await?;
//!     let Campaign::Elected(leadership) = campaign else {
//!         panic!("nobody else is there")
//!     };
//!     let mut appender = leadership.appender().await?;
//!     let record = appender.stage(b"INSERT");
//!     assert_eq!(record.append().await, Outcome::Appended);
//!     let mut follower = cluster.follow(&db, cluster.start(&db));
//!     assert_eq!(follower.next().await?.bytes, b"INSERT");
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
