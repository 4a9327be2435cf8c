//! The records of a server besides its databases: roles, names of databases with the right to
//! connect, a secret.
//!
//! ```text
//! DIR/cluster/   a database of the storage with one table:
//!   format     → {"version":1}
//!   roles      → JSON of all roles
//!   databases  → JSON of all databases
//!   settings   → JSON of the settings kept for databases and roles; none before the first is kept
//!   secret     → 32 random bytes
//!   identity   → JSON of the cluster that the server is a node of, if it is of one
//!   node       → the node's name there
//!   address    → where others reach it
//!   directory  → 8 random bytes: which of two servers with one name a node's lease is of
//! ```
//! In a cluster the first records are copies of those that all nodes share
//! (`crate::replication::records`).
//!
//!
//! Everything is read when the server starts, and written whole and durably when it changes: roles
//! and databases are few.

use std::path::Path;

use colibri_sql::cluster::{BOOTSTRAP_ROLE, DatabaseInfo, KeptSettings, NewDatabase, Role, Roles};
use colibri_sql::{CompactString, Error, Result, SqlState};
use colibri_storage::{Database, EncryptionKey, Options, Snapshot, Table, TableKind};
use serde::{Deserialize, Serialize};

use crate::auth::scram;

const TABLE: &str = "cluster";
// ON DISK: never renumber.
const VERSION: u32 = 1;

/// The name of the first database, and of the superuser.
pub(crate) const FIRST_NAME: &str = "postgres";
/// The number that PostgreSQL gives it.
const FIRST_DATABASE: u32 = 5;
/// The first number of databases made by users.
const FIRST_USER_DATABASE: u32 = 16_384;

#[derive(Debug, Serialize, Deserialize)]
struct Form {
    version: u32,
}

/// A database, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DatabaseRecord {
    #[serde(flatten)]
    pub(crate) info: DatabaseInfo,
    /// The directory that it is in until it is moved to the one of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moves_from: Option<CompactString>,
    /// The directory of its file, if that is not the one of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<CompactString>,
    /// Which branch of its file it is; `None` for the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<CompactString>,
    /// Whether it goes with its last connection. No such database is ever written to the disk.
    #[serde(skip)]
    pub(crate) is_ephemeral: bool,
    /// In a cluster: the node that had it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// In a cluster: the node that is to lead it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<String>,
}

impl DatabaseRecord {
    /// The name of the directory of its file.
    pub(crate) fn directory(&self) -> &str {
        self.directory.as_ref().unwrap_or(&self.info.name)
    }
}

/// All databases of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Databases {
    pub(crate) all: Vec<DatabaseRecord>,
    next_oid: u32,
    /// Directories whose own databases were dropped. They stay while databases that are branches in
    /// them are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left: Vec<CompactString>,
}

impl Databases {
    fn new() -> Self {
        let mut first = Self { all: Vec::new(), next_oid: FIRST_DATABASE, left: Vec::new() };
        first.add(FIRST_NAME, NewDatabase::of(BOOTSTRAP_ROLE));
        first.next_oid = FIRST_USER_DATABASE;
        first
    }

    /// What is kept of them.
    pub(crate) fn lasting(&self) -> Self {
        let mut lasting = self.clone();
        lasting.all.retain(|record| !record.is_ephemeral);
        lasting
    }

    /// The number that the next database gets.
    pub(crate) fn next_oid(&self) -> u32 {
        self.next_oid
    }

    /// How many databases are in a directory.
    pub(crate) fn count_in(&self, directory: &str) -> usize {
        self.all.iter().filter(|record| record.directory() == directory).count()
    }

    /// A directory for a new file: the one of the name, if no other database has it.
    pub(crate) fn free_directory(&self, name: &str) -> CompactString {
        let is_taken = |wanted: &str| self.count_in(wanted) > 0 || self.left.iter().any(|left| left == wanted);
        let numbered = (self.next_oid..).map(|number| format!("{name}~{number}").into());
        let mut names = std::iter::once(CompactString::from(name)).chain(numbered);
        names.find(|wanted| !is_taken(wanted)).unwrap_or_else(|| name.into())
    }

    /// Adds a database in the main branch of the file of a directory.
    pub(crate) fn add(&mut self, name: &str, how: NewDatabase) {
        let directory = self.free_directory(name);
        self.add_in(name, how, &directory, None);
    }

    /// Adds a database that is a branch of the file of a directory, or its main one.
    pub(crate) fn add_in(
        &mut self,
        name: &str,
        how: NewDatabase,
        directory: &str,
        branch: Option<CompactString>,
    ) -> &mut DatabaseRecord {
        let info = DatabaseInfo {
            oid: self.next_oid,
            name: name.into(),
            owner: how.owner,
            allow_connections: how.allow_connections,
            connection_limit: how.connection_limit,
            acl: None,
            comment: None,
            locale: how.locale,
            is_template: how.is_template,
        };
        self.next_oid += 1;
        let directory = (directory != name).then(|| directory.into());
        self.all.push_mut(DatabaseRecord {
            info,
            moves_from: None,
            directory,
            branch,
            is_ephemeral: false,
            origin: None,
            home: None,
        })
    }

    /// Whether a database of this number was ever made. Numbers ascend.
    pub(crate) fn was_made(&self, oid: u32) -> bool {
        oid < self.next_oid
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|record| record.info.name == name)
    }
}

/// The table of a server's records.
pub(crate) struct Records {
    database: Database,
    table: Table,
}

/// All records, as they were read.
pub(crate) struct Loaded {
    pub(crate) roles: Roles,
    pub(crate) databases: Databases,
    pub(crate) settings: KeptSettings,
    pub(crate) secret: [u8; 32],
    pub(crate) identity: Option<Vec<u8>>,
    pub(crate) node: Option<String>,
    /// Which directory it is, if the server was a node of a cluster before.
    pub(crate) directory: Option<u64>,
}

fn storage(error: colibri_storage::Error) -> Error {
    colibri_sql::in_sql(error)
}

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the server's record of {what} cannot be read"))
        .hint("Restore the directory `cluster` from a backup. The databases next to it can be opened by themselves.")
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(Error::internal)
}

/// The settings that are kept; a server that has never kept any has no record of them.
fn settings_in(snapshot: &Snapshot<'_>, table: &Table) -> Result<KeptSettings> {
    match snapshot.get(table, b"settings").map_err(storage)? {
        Some(settings) => serde_json::from_slice(settings).map_err(|_| damaged("settings")),
        None => Ok(KeptSettings::default()),
    }
}

impl Records {
    /// Opens a server's records, and makes those of a new one.
    /// They are encrypted as its databases are, which are opened with `databases`.
    pub(crate) fn open(dir: &Path, superusers: &[&str], databases: &Options) -> Result<(Self, Loaded)> {
        let options = Options::new().size_max(1 << 30).readers_max(16).encryption_key_of(databases);
        let database = Database::open(dir, &options).map_err(storage)?;
        let is_new = match database.read().and_then(|snapshot| snapshot.table(TABLE)) {
            Ok(_) => false,
            Err(colibri_storage::Error::NoSuchTable { .. }) => true,
            Err(error) => return Err(storage(error)),
        };
        if is_new {
            Self::create(&database, superusers)?;
        }
        let snapshot = database.read().map_err(storage)?;
        let table = snapshot.table(TABLE).map_err(storage)?;
        let read = |key: &'static str| -> Result<&[u8]> {
            snapshot.get(&table, key.as_bytes()).map_err(storage)?.ok_or_else(|| damaged(key))
        };
        let form: Form = serde_json::from_slice(read("format")?).map_err(|_| damaged("format"))?;
        if form.version != VERSION {
            let message = format!("the server's records have version {}, and not {VERSION}", form.version);
            return Err(Error::unsupported(message));
        }
        let loaded = Loaded {
            roles: serde_json::from_slice(read("roles")?).map_err(|_| damaged("roles"))?,
            databases: serde_json::from_slice(read("databases")?).map_err(|_| damaged("databases"))?,
            settings: settings_in(&snapshot, &table)?,
            secret: read("secret")?.try_into().map_err(|_| damaged("secret"))?,
            identity: snapshot.get(&table, b"identity").map_err(storage)?.map(<[u8]>::to_vec),
            directory: (snapshot.get(&table, b"directory").map_err(storage)?)
                .and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))),
            node: snapshot
                .get(&table, b"node")
                .map_err(storage)?
                .map(|node| String::from_utf8_lossy(node).into_owned()),
        };
        drop(snapshot);
        Ok((Self { database, table }, loaded))
    }

    /// The roles of a server, whether it runs or not.
    pub(crate) fn roles(dir: &Path, key: Option<EncryptionKey>) -> Result<Roles> {
        let options = Options::new().read_only(true).create(false).encryption_key(key);
        let database = Database::open(dir, &options).map_err(storage)?;
        let snapshot = database.read().map_err(storage)?;
        let table = snapshot.table(TABLE).map_err(storage)?;
        let roles = snapshot.get(&table, b"roles").map_err(storage)?.ok_or_else(|| damaged("roles"))?;
        serde_json::from_slice(roles).map_err(|_| damaged("roles"))
    }

    /// The databases of a server and the settings that it keeps, whether it runs or not.
    pub(crate) fn settings(dir: &Path, key: Option<EncryptionKey>) -> Result<(Vec<DatabaseInfo>, KeptSettings)> {
        let options = Options::new().read_only(true).create(false).encryption_key(key);
        let database = Database::open(dir, &options).map_err(storage)?;
        let snapshot = database.read().map_err(storage)?;
        let table = snapshot.table(TABLE).map_err(storage)?;
        let databases = snapshot.get(&table, b"databases").map_err(storage)?.ok_or_else(|| damaged("databases"))?;
        let databases: Databases = serde_json::from_slice(databases).map_err(|_| damaged("databases"))?;
        Ok((databases.all.into_iter().map(|record| record.info).collect(), settings_in(&snapshot, &table)?))
    }

    fn create(database: &Database, superusers: &[&str]) -> Result<()> {
        let mut roles = Roles::new(FIRST_NAME);
        for name in superusers {
            // Invalid and duplicate names are left out.
            _ = roles.add(Role::superuser(0, name));
        }
        let secret: [u8; 32] = scram::random()?;
        let entries = [
            ("format", json(&Form { version: VERSION })?),
            ("roles", json(&roles)?),
            ("databases", json(&Databases::new())?),
            ("secret", secret.to_vec()),
        ];
        let write = || {
            let mut txn = database.write()?;
            let table = txn.create_table(TABLE, TableKind::Plain)?;
            for (key, value) in &entries {
                txn.put(&table, key.as_bytes(), value)?;
            }
            txn.commit().map(drop)
        };
        write().map_err(storage)
    }

    fn write(&self, key: &str, value: &[u8]) -> Result<()> {
        let write = || {
            let mut txn = self.database.write()?;
            txn.put(&self.table, key.as_bytes(), value)?;
            txn.commit().map(drop)
        };
        write().map_err(storage)
    }

    /// Keeps who the server is in a cluster. It is durable on return.
    pub(crate) fn write_identity(&self, identity: &[u8], node: &str) -> Result<()> {
        self.write("identity", identity)?;
        self.write("node", node.as_bytes())
    }

    /// Keeps where others reach the node.
    pub(crate) fn write_address(&self, address: &str) -> Result<()> {
        self.write("address", address.as_bytes())
    }

    /// Who the cluster is that a server is of, and where others reach the server, whether it runs
    /// or not. `None` for a server without a cluster.
    pub(crate) fn membership(dir: &Path) -> Result<Option<(Vec<u8>, String)>> {
        let database = Database::open(dir, &Options::new().read_only(true).create(false)).map_err(storage)?;
        let snapshot = database.read().map_err(storage)?;
        let table = snapshot.table(TABLE).map_err(storage)?;
        let read = |key: &str| Ok(snapshot.get(&table, key.as_bytes()).map_err(storage)?.map(<[u8]>::to_vec));
        let (Some(identity), Some(address)) = (read("identity")?, read("address")?) else { return Ok(None) };
        Ok(Some((identity, String::from_utf8_lossy(&address).into_owned())))
    }

    /// Keeps which directory this is.
    pub(crate) fn write_directory(&self, directory: u64) -> Result<()> {
        self.write("directory", &directory.to_le_bytes())
    }

    /// Keeps a record as it came from the cluster. It is durable on return.
    pub(crate) fn write_copy(&self, name: &str, value: &[u8]) -> Result<()> {
        self.write(name, value)
    }

    /// Keeps the roles. They are durable on return.
    pub(crate) fn write_roles(&self, roles: &Roles) -> Result<()> {
        self.write("roles", &json(roles)?)
    }

    /// Keeps the settings. They are durable on return.
    pub(crate) fn write_settings(&self, settings: &KeptSettings) -> Result<()> {
        self.write("settings", &json(settings)?)
    }

    /// Keeps the databases. They are durable on return.
    pub(crate) fn write_databases(&self, databases: &Databases) -> Result<()> {
        self.write("databases", &json(databases)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_was_written_is_there_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let (records, mut first) = Records::open(dir.path(), &["me", "postgres"], &Options::new()).unwrap();
        assert!(first.roles.named("me").is_some_and(|role| role.superuser && role.login));
        assert_eq!(first.databases.all[0].info.oid, FIRST_DATABASE);
        first.databases.add("birds", NewDatabase::of(BOOTSTRAP_ROLE));
        first.roles.add(Role::new(0, "you")).unwrap();
        records.write_databases(&first.databases).unwrap();
        records.write_roles(&first.roles).unwrap();
        drop(records);
        let (_, again) = Records::open(dir.path(), &["other"], &Options::new()).unwrap();
        assert_eq!(again.databases, first.databases);
        assert_eq!(again.roles, first.roles);
        assert_eq!(again.secret, first.secret);
    }
}
