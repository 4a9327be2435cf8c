//! The options of a server.

use std::path::PathBuf;
use std::time::Duration;

use colibri_runtime::Cpus;
use colibri_storage::EncryptionKey;

use crate::auth::Auth;
use crate::log::LogFormat;
use crate::replication::ClusterOptions;

/// The options of a server. Made by [`Options::new`]; everything has a default.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory: of databases, roles, and what else belongs to the server. It is made if it is
    /// not there.
    pub dir: PathBuf,
    /// Addresses to listen at: `127.0.0.1:5432`, `[::1]:5432`, `localhost:5432`; port 0 is any free
    /// one.
    pub listen: Vec<String>,
    /// Directory of the Unix socket `.s.PGSQL.PORT`; none unless it is given.
    pub socket_dir: Option<PathBuf>,
    /// Sessions at the same time, at most.
    pub connections_max: usize,
    /// Transactions that may be prepared at the same time, in each database; none in a cluster.
    pub prepared_max: usize,
    /// CPUs to use: what this process may unless it is given.
    pub cpus: Option<Cpus>,
    /// One thread, and 4 MB for what a statement sorts and hashes.
    pub tiny: bool,
    /// The isolation of transactions that ask for none, as `default_transaction_isolation` has it;
    /// `serializable` unless it is given.
    pub isolation: Option<&'static str>,
    /// End after this time without a connection.
    pub idle_exit: Option<Duration>,
    /// Where metrics are served, by HTTP.
    pub metrics: Option<String>,
    /// Certificate and key, in PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Clients have to use TLS, but for those of Unix sockets and of loopback addresses.
    pub tls_only: bool,
    /// How clients log in. Unless it is given: `trust`, and then no address may be reachable from
    /// elsewhere.
    pub auth: Option<Auth>,
    /// A file whose first line becomes the password of the superuser `postgres`, if that has none.
    pub password_file: Option<PathBuf>,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// Statements that take longer are logged.
    pub slow_statement: Option<Duration>,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How long a database stays open after its last session.
    pub database_keep: Duration,
    /// Returns free memory that the allocator keeps for later to the system: after a load it may be
    /// tens of megabytes. Called when a database has been closed. It does nothing unless the
    /// program says how its allocator is asked.
    pub give_memory_back: fn(),
    /// How long statements may go on when the server is asked to end.
    pub grace: Duration,
    /// The longest message, in bytes.
    pub message_bytes_max: usize,
    /// The cluster that the server is a node of, if it is of one.
    pub cluster: Option<ClusterOptions>,
    /// In a cluster: sessions that write go on at the leader of their database, where another node
    /// is. Sessions choose otherwise by `colibri.forward`.
    pub forward_writes: bool,
    /// The database after whose model one is made that a client asks for and that is not there. It
    /// goes with its last connection. None unless it is given, and none in a cluster.
    pub ephemeral: Option<String>,
    /// For how long states of the past are kept, so that databases can be made of them
    /// (`CREATE DATABASE … TEMPLATE … AS OF …`), and how many bytes they may take in each file. None
    /// unless it is given, and none in a cluster.
    pub retention: Option<(Duration, Option<u64>)>,
    /// The key that all databases of the directory are encrypted with, if it was made with one. A new
    /// directory is. Not in a cluster.
    pub encryption_key: Option<EncryptionKey>,
}

impl Options {
    /// The defaults: 127.0.0.1:5432, 100 connections.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            listen: vec!["127.0.0.1:5432".to_owned()],
            socket_dir: None,
            connections_max: 100,
            prepared_max: 0,
            cpus: None,
            tiny: false,
            isolation: None,
            idle_exit: None,
            metrics: None,
            tls: None,
            tls_only: false,
            auth: None,
            password_file: None,
            log_format: LogFormat::Text,
            slow_statement: None,
            login_timeout: Duration::from_secs(60),
            database_keep: Duration::from_secs(60),
            give_memory_back: || (),
            grace: Duration::from_secs(60),
            message_bytes_max: 256 << 20,
            cluster: None,
            forward_writes: false,
            ephemeral: None,
            retention: None,
            encryption_key: None,
        }
    }
}
