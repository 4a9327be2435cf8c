//! The server around a session: its databases, roles and other sessions.
//!
//! A database without a server has none of it: its user is a superuser, and the engine's database
//! is the only one. A server implements [`Cluster`] and gives it to its sessions
//! (`Session::in_cluster`).
//!
//! Roles, and grants on databases, belong to the cluster; grants on what is in a database (schemas,
//! tables, sequences, views) live in its catalogue and are transactional like the rest of it. Both
//! refer to roles by number, and a number is never used twice, so grants to a dropped role belong
//! to no role.
//!
//! Changes of the cluster are not part of a transaction: they happen at once, and ROLLBACK does not
//! undo them.

mod privileges;
mod roles;
mod settings;
#[cfg(test)]
mod tests;

pub use privileges::{Acl, Authority, Dependents, Grant, ObjectKind, Parties, Privileges};
pub use roles::quoted_role;
pub use roles::{CHECKPOINT, Membership, Role, Roles, SIGNAL_BACKEND};
pub use settings::{DefaultBy, KeptSettings, Whose};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use colibri_storage::AsOf;
use colibri_types::{Datum, Env, Error, Result, SqlState, Type, datetime, text_io};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use roles::{unlimited, yes};

/// A role's number.
pub type RoleId = u32;

/// The first superuser, which owns objects that were made without a cluster.
pub const BOOTSTRAP_ROLE: RoleId = 10;

/// `pg_database_owner`: the owner of the current database is a member.
pub const DATABASE_OWNER_ROLE: RoleId = 6171;

/// All roles: the grantee PUBLIC.
pub const PUBLIC_ROLE: RoleId = 0;

/// The first number that roles made by users get.
const FIRST_USER_ROLE: RoleId = 16_384;

/// The properties of a new database.
#[derive(Debug, Clone)]
pub struct NewDatabase {
    /// The role that owns it.
    pub owner: RoleId,
    /// The most sessions at a time; -1 for as many as the server allows.
    pub connection_limit: i32,
    /// Whether connections to it are allowed.
    pub allow_connections: bool,
    /// Its locale; `None` is `C`.
    pub locale: Option<DatabaseLocale>,
    /// Whether all who may make databases may make one after its model.
    pub is_template: bool,
    /// The database after whose model it is made; `None` for an empty one.
    pub template: Option<Template>,
}

/// The model of a new database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its name.
    pub name: CompactString,
    /// Whether the new database is a copy in a file of its own, and not a branch in the model's file.
    pub copies: bool,
    /// The state of the model that it is made of; `None` for the newest.
    pub as_of: Option<AsOf>,
}

/// Microseconds from 1970 to 2000, from which times of SQL count.
const EPOCH_US: i64 = 946_684_800_000_000;

/// A time in the storage's count, microseconds since 1970-01-01 in UTC, from a text of type
/// `timestamptz`.
///
/// # Errors
/// 22007 and 22008 for what is no time.
pub fn storage_time(text: &str, env: &Env) -> Result<i64> {
    Ok(datetime::parse_timestamptz(text, env)?.saturating_add(EPOCH_US))
}

/// A time in the storage's count as a text of type `timestamptz`, in UTC.
#[must_use]
pub fn storage_time_text(time_us: i64) -> String {
    let mut text = String::new();
    let time = Datum::Timestamp(time_us.saturating_sub(EPOCH_US));
    text_io::write(Type::TimestampTz, &time, &Env::default(), &mut text);
    text
}

/// The locale of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseLocale {
    /// What texts are compared by, as BCP 47 writes it; `None` is their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<CompactString>,
    /// The name of `LC_COLLATE`, as it was given.
    pub collate: CompactString,
    /// The name of `LC_CTYPE`, as it was given.
    pub ctype: CompactString,
    /// Whether the locale was given as one of ICU.
    pub is_icu: bool,
}

impl NewDatabase {
    /// A database that allows connections, without a limit of its own.
    #[must_use]
    pub fn of(owner: RoleId) -> Self {
        Self { owner, connection_limit: -1, allow_connections: true, locale: None, is_template: false, template: None }
    }
}

/// The interface through which a session uses its server.
///
/// Methods are called within statements, on the thread that runs them: they answer from memory, but
/// for those that change something, which may wait for the disk.
pub trait Cluster: Send + Sync {
    /// All databases, in the order of their numbers.
    fn databases(&self) -> Vec<DatabaseInfo>;

    /// Bytes of a database's file; 0 if there is none.
    fn database_bytes(&self, name: &str) -> u64;

    /// Makes a database, empty or after the model of another one as that was committed last. It is
    /// durable on return, with all properties of `how`. It has the locale of its model.
    ///
    /// # Errors
    /// 42P04 if there is one of that name, 42602 if the name cannot be one, 3D000 if there is no such
    /// model, 55006 if transactions are prepared in it, 55000, 72000 and 22023 as below; of the disk.
    fn create_database(&self, name: &str, how: NewDatabase) -> Result<()>;

    /// Gives a database what another one in the same file has at this moment, or has had: its changes are
    /// thrown away. With `force` sessions connected to it are ended first; waits as
    /// [`Cluster::drop_database`] does.
    ///
    /// # Errors
    /// 3D000 if there is none, 55000 if they are not in one file or no states are kept, 72000 if a state
    /// is not kept, 22023 if it is still to come, 55006, 57014 as below; of the disk.
    fn reset_database(&self, name: &str, to: &Template, force: bool, cancel: &AtomicBool) -> Result<()>;

    /// Drops a database; with `force` sessions connected to it are ended first. Sessions that are
    /// about to end are waited for, up to a few seconds, until `cancel` is set.
    ///
    /// # Errors
    /// 3D000 if there is none, 55006 if a session stays connected to it, 57014 if it was cancelled;
    /// of the disk.
    fn drop_database(&self, name: &str, force: bool, cancel: &AtomicBool) -> Result<()>;

    /// Gives a database another name. Waits as [`Cluster::drop_database`] does.
    ///
    /// # Errors
    /// 3D000, 42P04, 55006, 57014 as above; of the disk.
    fn rename_database(&self, from: &str, to: &str, cancel: &AtomicBool) -> Result<()>;

    /// Changes a database's owner, grants or limits (not its name or number). It is durable on
    /// return.
    ///
    /// # Errors
    /// 3D000 if there is none; the error of `change`; of the disk.
    fn change_database(&self, name: &str, change: &mut dyn FnMut(&mut DatabaseInfo) -> Result<()>) -> Result<()>;

    /// The roles as they are now.
    fn roles(&self) -> Arc<Roles>;

    /// A number that changes with each change of roles or databases. Sessions read it once per
    /// statement, so it has to be cheap.
    fn version(&self) -> u64;

    /// Changes roles, one change at a time. It is durable on return.
    ///
    /// # Errors
    /// The error of `change`, and then nothing is changed; of the disk.
    fn change_roles(&self, change: &mut dyn FnMut(&mut Roles) -> Result<()>) -> Result<()>;

    /// The settings that are kept for databases and roles.
    fn kept_settings(&self) -> Arc<KeptSettings>;

    /// Changes them, one change at a time. It is durable on return.
    ///
    /// # Errors
    /// What `change` gives, and then nothing is changed; of the disk.
    fn change_settings(&self, change: &mut dyn FnMut(&mut KeptSettings) -> Result<()>) -> Result<()>;

    /// The SCRAM-SHA-256 verifier of a password, as PostgreSQL keeps it (`SCRAM-SHA-256$4096:…`). A
    /// complete verifier stays unchanged. `None` for an empty password, or the verifier of one, as
    /// it does not allow a login.
    ///
    /// # Errors
    /// If the system gives no randomness.
    fn verifier(&self, password: &str) -> Result<Option<String>>;

    /// All sessions of all databases.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// Cancels what a session is doing; false if there is no such session.
    fn cancel(&self, pid: i32) -> bool;

    /// Ends a session; false if there is none.
    fn terminate(&self, pid: i32) -> bool;

    /// A setting of the server (`max_connections`, `port`, `listen_addresses`, `data_directory`,
    /// …), as SHOW gives it.
    fn setting(&self, name: &str) -> Option<String>;

    /// The address of the server that leads a database, if that is another one and is known.
    fn leader_of(&self, database: &str) -> Option<String> {
        _ = database;
        None
    }

    /// When the server started, in microseconds since 2000-01-01 00:00 UTC.
    fn started_us(&self) -> i64;
}

/// A database of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseInfo {
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: CompactString,
    /// Its owner.
    pub owner: RoleId,
    /// Whether connections are allowed.
    #[serde(default = "yes")]
    pub allow_connections: bool,
    /// The most sessions, -1 for any number.
    #[serde(default = "unlimited")]
    pub connection_limit: i32,
    /// Its privileges; `None` stands for PostgreSQL's default: all roles may connect.
    #[serde(default)]
    pub acl: Option<Acl>,
    /// Its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its locale; `None` is `C`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<DatabaseLocale>,
    /// Whether all who may make databases may make one after its model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_template: bool,
}

/// How a connection is encrypted, in OpenSSL's words.
#[derive(Debug, Clone)]
pub struct Encryption {
    /// Of the protocol: `TLSv1.3`.
    pub version: &'static str,
    /// What encrypts: `TLS_AES_256_GCM_SHA384`.
    pub cipher: CompactString,
    /// The length of its key.
    pub bits: i32,
}

/// A session, as `pg_stat_activity` shows it.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its number, which cancels it.
    pub pid: i32,
    /// The database that it is connected to.
    pub database: CompactString,
    /// The role that it logged in as.
    pub user: CompactString,
    /// The client's `application_name`.
    pub application_name: CompactString,
    /// The client's address; `None` for a Unix socket.
    pub client: Option<SocketAddr>,
    /// The address that the client has connected to; `None` for a Unix socket. Of a client that
    /// another node of a cluster passes on: where this node was reached.
    pub server: Option<SocketAddr>,
    /// How its connection is encrypted, if it is.
    pub encryption: Option<Encryption>,
    /// Its state.
    pub state: SessionState,
    /// What it waits for, if it does.
    pub waits_for: Option<Waits>,
    /// The running statement, or the last one.
    pub query: String,
    /// When it connected; these are in microseconds since 2000-01-01 00:00 UTC.
    pub connected_us: i64,
    /// When its transaction began, if it is in one.
    pub transaction_us: Option<i64>,
    /// When the running statement, or the last one, began.
    pub query_us: Option<i64>,
    /// When its state changed.
    pub state_us: i64,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Running a statement.
    Active,
    /// Waiting for its client.
    Idle,
    /// The same, in a transaction block.
    IdleInTransaction,
    /// The same, in a block in which a statement has failed.
    IdleInFailedTransaction,
}

impl SessionState {
    /// The word of `pg_stat_activity` for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// The client: its next message, or room for more of the answer.
    Client,
    /// A lock of another transaction.
    Lock,
    /// Commits of others before it in the queue.
    Commits,
    /// Its commit to be durable.
    Durability,
    /// The end of `pg_sleep`.
    Sleep,
    /// Rows that are on their way from the store.
    Fetch,
    /// A message in a topic.
    Message,
}

impl Waits {
    /// `wait_event_type` and `wait_event` of `pg_stat_activity`.
    #[must_use]
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::Client => ("Client", "ClientRead"),
            Self::Lock => ("Lock", "tuple"),
            Self::Commits => ("IPC", "CommitQueue"),
            Self::Durability => ("IO", "WALSync"),
            Self::Sleep => ("Timeout", "PgSleep"),
            Self::Fetch => ("IO", "DataFileRead"),
            Self::Message => ("Extension", "TopicRead"),
        }
    }
}

// ---- roles ----

// ---- grants ----

/// Checks whether a role may connect to a database. Called at the login, after the authentication.
///
/// # Errors
/// 28000 for a role that does not exist or may not log in, 3D000, 55000, 42501.
pub fn admit(cluster: &dyn Cluster, user: &str, database: &str) -> Result<(RoleId, DatabaseInfo)> {
    const NOT_ADMITTED: SqlState = SqlState("28000");
    let roles = cluster.roles();
    let Some(role) = roles.named(user) else {
        return Err(Error::new(NOT_ADMITTED, format!("role \"{user}\" does not exist")));
    };
    if !role.login {
        return Err(Error::new(NOT_ADMITTED, format!("role \"{user}\" is not permitted to log in")));
    }
    let Some(info) = cluster.databases().into_iter().find(|known| known.name == database) else {
        let message = format!("database \"{database}\" does not exist");
        return Err(Error::new(SqlState::NO_SUCH_DATABASE, message));
    };
    if !info.allow_connections {
        let message = format!("database \"{database}\" is not currently accepting connections");
        return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
    }
    let authority = Authority::of(&roles, role.oid, info.owner);
    if !authority.may(Privileges::CONNECT, ObjectKind::Database, info.owner, info.acl.as_ref()) {
        let message = format!("permission denied for database \"{database}\"");
        return Err(
            Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message).detail("User does not have CONNECT privilege.")
        );
    }
    Ok((role.oid, info))
}
