//! A server for PostgreSQL's clients, on `colibri-sql` and `colibri-runtime`.
//!
//! ```no_run
//! use colibri_server::{Options, serve};
//!
//! let mut options = Options::new("/var/lib/colibri");
//! options.listen = vec!["127.0.0.1:5432".to_owned()];
//! serve(options)?;
//! # Ok::<(), colibri_server::ServeError>(())
//! ```
//!
//! # The life of a connection
//!
//! [`serve`] makes a runtime and listens. Each connection is a task in the user pool
//! (`connection`): it is encrypted if the client asks for that (`tls`), authenticated (`auth`), and
//! gets a session on the database that the client names, which is opened if needed (`cluster`).
//! From then on the task reads messages (`link`, `protocol`) and runs statements (`session`), until
//! the client goes or is told to.
//!
//! | module | holds |
//! | --- | --- |
//! | `server`, `listen`, `machine` | start and end, sockets, what the machine gives |
//! | `connection`, `auth`, `tls` | everything until a client has logged in |
//! | `session` | everything after that |
//! | `link`, `protocol` | bytes, and the messages they are |
//! | `cluster` | databases, roles |
//! | `replication` | databases of which other servers have copies |
//! | `registry`, `counts`, `log`, `http` | who is connected, what has happened, and how to learn of it |
//! | `shared`, `options`, `error`, `clock`, `bell` | what all of these use |
//!
//! # What it does not do
//!
//! - Block a thread that others need, for clients, locks or disks.
//! - Work without a request: no timer is armed, nothing is written.
//! - Function calls by message, GSSAPI, certificates of clients.

mod auth;
mod bell;
mod clock;
mod cluster;
mod connection;
mod counts;
mod error;
mod http;
mod link;
mod listen;
mod log;
mod machine;
mod options;
mod protocol;
mod registry;
mod replication;
mod server;
mod session;
mod shared;
mod tls;

pub use auth::Auth;
pub use cluster::{kept_settings, roles};
pub use colibri_sql::cluster::{KeptSettings, Role, Roles};
pub use error::ServeError;
pub use log::LogFormat;
pub use options::Options;
pub use replication::ClusterOptions;
pub use replication::measure::append_times;
pub use replication::status::{
    ClusterStatus, CopyStatus, DatabaseStatus, EtcdStatus, NodeStatus, cluster_status, cluster_status_of_node,
    move_database, remove_node,
};
pub use server::serve;
pub use tls::TlsError;
