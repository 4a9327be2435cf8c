//! Replicated databases: several nodes, one order of commits for each database, one leader at a
//! time. Consensus is etcd's; what is here is what Colibri needs of it.
//!
//! ```text
//!  sessions ── write, commit, read ──► Replica ── engine of the leader, engines of the standbys
//!                                         │
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
//! Above the log stands the replicated database, which is what the server uses: an engine on each
//! node, whose commits are the records of the log. All calls are futures that need no particular
//! runtime. Those of the log never block; a [`Driver`] uses the disk.
//!
//! | what | how |
//! | --- | --- |
//! | a database of one node, for sessions: transactions, commits, reads, lag | [`Replica`] |
//! | following the log on a standby, with bases | [`Driver::follow`] |
//! | leading: catching up, committing, trimming, the end of the term | [`Driver::lead`] |
//! | a planned hand-over | [`Replica::hand_over`] |
//! | a read that is certainly up to date | [`Replica::read_current`] |
//! | a cluster by its name; members, leaders, ranges of logs | [`Cluster`] |
//! | a node joins, with one lease for all that it leads | [`Cluster::join`], [`Membership::keep_alive`] |
//! | whether that lease is certainly valid: a look at a clock | [`Membership::lease_left`], [`Leadership::certain_for`] |
//! | leading a database, under an epoch; handing it over | [`Membership::campaign`], [`Leadership::resign`] |
//! | appending a record of any size, fenced by the epoch | [`Leadership::appender`], [`Staged::append`] |
//! | what became of an append without an answer | [`Staged::resolve`], or append it again |
//! | reading from a point, then watching | [`Cluster::follow`] |
//! | how far a copy is behind, in entries, bytes and time | [`Replica::lag`], [`Cluster::lag`] |
//! | whether a copy from elsewhere is a state of the database | [`Cluster::locate`] |
//! | what a node holds without the log; trimming up to what enough nodes hold | [`Membership::publish_base`], [`Bases::held_by`], [`Leadership::trim`] |
//! | one compaction for the whole cluster | [`Compactor`] |
//! | who leads and who is there, as it changes | [`Cluster::observe_leaders`], [`Cluster::observe_members`] |
//! | values by name that all nodes share, such as users | [`Cluster::record`], [`Cluster::put_record`], [`Cluster::observe_records`] |
//! | which databases their leaders have open | [`Leadership::say_open`], [`Cluster::observe_open`] |
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
//! `replica`, `driver`, `leader` and `marks` have those of the replicated database.
//!
//! # What it does not do
//! - Decide who should lead, or what to do when etcd is full: it gives what there is to know, and
//!   the server decides.
//! - Copy a database to a node that is too far behind: [`Stopped::SeedAnew`] says that it is
//!   needed.
//! - Compact the service: a server gives [`Replica::take_trimmed_bytes`] of all its databases to
//!   its one [`Compactor`].
//!
//! # A replicated database
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().to_owned();
//! use colibri_replica::simulation::Simulation;
//! use colibri_replica::{
//!     Campaign, Cluster, Database, JoinOptions, Node, NodeId, Replica, Reservation,
//! };
//! use colibri_storage::{Durability, Options, TableKind};
//!
//! let simulation = Simulation::new(1);
//! let cluster = Cluster::new(simulation.connect("n1"), "example");
//! let (db, id) = (Database("app".to_owned()), NodeId::new("n1")?);
//! let open = move |proposer| {
//!     let options = Options::new().durability(Durability::Agreed).proposer(proposer);
//!     colibri_storage::Database::open(&path, &options)
//! };
//! let (replica, mut driver) = Replica::open(&cluster, &db, &id, Default::default(), open)?;
//! // A node campaigns when nobody leads, and follows until it is elected.
//! simulation.spawn("n1", async move {
//!     let node = Node { id, address: "h1:5432".to_owned() };
//!     let Ok(membership) = cluster.join(node, JoinOptions::default()).await else { return };
//!     let campaign = membership.campaign(&db, Reservation::Heed).await;
//!     if let Ok(Campaign::Elected(leadership)) = campaign {
//!         _ = driver.lead(&leadership).await;
//!     }
//! });
//! simulation.run_for(std::time::Duration::from_secs(1));
//! simulation.block_on(async {
//!     let mut txn = replica.write().await?;
//!     let birds = txn.create_table("birds", TableKind::Plain)?;
//!     txn.put(&birds, b"colibri", b"80 beats a second")?;
//!     replica.commit(txn)?.await?;
//!     assert!(replica.read_current()?.table("birds").is_ok());
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The log alone
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
mod driver;
mod entry;
pub mod etcd;
mod follow;
mod gather;
mod group;
#[cfg(test)]
mod histories;
mod keys;
mod lag;
mod leader;
mod leadership;
mod locate;
mod marks;
mod membership;
mod names;
mod observe;
mod opened;
mod proposals;
mod quota;
mod records;
mod replica;
pub mod simulation;
mod standby;
mod trim;
mod upkeep;

pub use address::{Address, AddressError, Credentials, Tls};
pub use append::{Appender, Outcome, Resolution, Staged};
pub use cluster::{Cluster, Error, Leader, LogRange, Member};
pub use driver::{Driver, Stopped};
pub use entry::{Chain, Epoch, Point, Position};
pub use follow::{FollowError, Follower, Record};
pub use lag::Lag;
pub use leader::TermEnd;
pub use leadership::{Campaign, Leadership, Reservation, Resigned};
pub use locate::Located;
pub use membership::{Contact, JoinError, JoinOptions, LeaseLost, Membership, Replace};
pub use names::{CommitId, Database, Instance, NODE_ID_BYTES_MAX, Node, NodeId, NotANodeId};
pub use observe::{Observer, Seen};
pub use quota::{Level, QUOTA_BYTES_DEFAULT, Usage};
pub use records::{ClusterRecord, RecordPut};
pub use replica::{Commit, CommitError, HandOverError, ReadError, Replica, ReplicaOptions, Role, Standing, WriteError};
pub use trim::{Base, Bases, Compaction, Compactor, Held, Trimmed};
