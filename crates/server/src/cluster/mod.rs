//! A server's directory: databases that are opened when a client connects, and the records that
//! they share.
//!
//! ```text
//! DIR/server.lock        which process serves it
//! DIR/cluster/           roles, names of databases (`records`)
//! DIR/databases/NAME/    a database like any other: `colibri sql` opens it while the server is down
//! ```
//!
//! A database is open while a client is connected to it, and some time after that (`lease`). What
//! is different in a cluster is in `joined`.
//!
//! Invariants
//! - Changes are on disk before they are visible.
//! - A name and its directory change in an order that a crash cannot take apart: a record that says
//!   where a directory comes from is written before it moves.

mod branches;
mod ephemeral;
mod files;
mod joined;
mod lease;
mod records;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use colibri_sql::cluster::{Cluster, DatabaseInfo, KeptSettings, NewDatabase, Roles, SessionInfo, Template};
use colibri_sql::{CompactString, DirectoryLock, Error, MemoryTotal, Result, SqlState};
use colibri_storage::{EncryptionKey, Options};
use parking_lot::{Mutex, RwLock};

use files::Files;
pub(crate) use joined::Join;
use joined::Joined;
pub(crate) use lease::Lease;
use lease::Slot;
pub(crate) use records::Databases;
pub(crate) use records::Records;
use records::{DatabaseRecord, FIRST_NAME};

use crate::auth::scram::Verifier;
use crate::clock::Clock;
use crate::error::ServeError;
use crate::machine;
use crate::registry::Registry;
use crate::replication::keeper::Surroundings;
use crate::replication::records::{DATABASES, ROLES, SETTINGS};

/// The setting that says how many transactions may be prepared at the same time.
pub(crate) const PREPARED_MAX: &str = "max_prepared_transactions";

const DUPLICATE_DATABASE: SqlState = SqlState("42P04");
const IN_USE: SqlState = SqlState("55006");
/// How long sessions may take to end before a database is dropped or renamed. A client that has
/// just closed its connection, or was told that its session ends, needs less; PostgreSQL waits as
/// long.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(5) };
/// The directory that a database is moved to while it is dropped.
const DROPPED: &str = ".dropped-";
const NAME_BYTES_MAX: usize = 63;
/// The file that says which process serves a directory. It is the first that a server makes there.
const LOCK_FILE: &str = "server.lock";
const NAMES_SHOWN_MAX: usize = 5;

/// What happens to a database without sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unused {
    /// How long it stays open.
    pub(crate) keep: Duration,
    /// Called when it is closed, to return free memory to the system.
    pub(crate) give_memory_back: fn(),
}

/// An open database, for metrics and the dashboard.
pub(crate) struct OpenDatabase {
    pub(crate) name: CompactString,
    pub(crate) database: colibri_storage::Database,
    pub(crate) store: Arc<dyn colibri_txn::Store>,
    pub(crate) temp_files: colibri_sql::TempFileCounts,
}

/// A server's directory.
pub(crate) struct Directory {
    dir: PathBuf,
    records: Records,
    /// As on disk. A change needs the lock `changing`.
    roles: RwLock<Arc<Roles>>,
    databases: RwLock<Arc<Databases>>,
    kept_settings: RwLock<Arc<KeptSettings>>,
    changing: Mutex<()>,
    version: AtomicU64,
    pub(crate) secret: [u8; 32],
    slots: Mutex<HashMap<CompactString, Arc<Slot>>>,
    files: Files,
    /// A number of this directory, which the names of branches have; none before the first branch.
    number: Mutex<Option<u64>>,
    options: Options,
    unused: Unused,
    /// What statements of all databases may keep in memory.
    memory: MemoryTotal,
    pub(crate) registry: Arc<Registry>,
    settings: Mutex<HashMap<&'static str, String>>,
    started_us: i64,
    joined: Option<Joined>,
    _lock: DirectoryLock,
}

/// The databases of a server and the settings that it keeps for them and for roles, from its record
/// (`DIR/cluster`). `key`: if the server's directory is encrypted.
///
/// # Errors
/// If there is no such record, or it cannot be read.
pub fn kept_settings(
    cluster: &Path,
    key: Option<EncryptionKey>,
) -> std::result::Result<(Vec<DatabaseInfo>, KeptSettings), crate::error::ServeError> {
    Ok(Records::settings(cluster, key)?)
}

/// The roles of a server, from its record of them (`DIR/cluster`). `key`: if the server's directory is
/// encrypted.
///
/// # Errors
/// If there is no such record, or it cannot be read.
pub fn roles(cluster: &Path, key: Option<EncryptionKey>) -> std::result::Result<Roles, crate::error::ServeError> {
    Ok(Records::roles(cluster, key)?)
}

fn io_error(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let message = format!("{what} {}", path.display());
    move |error| Error::new(SqlState::IO_ERROR, format!("{message}: {error}"))
}

pub(crate) fn no_such_database(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist"))
}

/// A name is that of a directory, too.
fn check_name(name: &str) -> Result<()> {
    let is_good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || c.is_control());
    if is_good {
        return Ok(());
    }
    Err(Error::new(SqlState::BAD_NAME, format!("invalid database name \"{}\"", name.escape_debug())).hint(format!(
        "A name has 1 to {NAME_BYTES_MAX} bytes, no slashes and no control characters, and does not begin with a dot."
    )))
}

/// Makes a directory that only its owner may look into.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a new name in a directory durable.
fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// A directory that is, or can become, that of this server. Nothing is made in it yet.
pub(crate) struct Claim {
    dir: PathBuf,
    /// Of a directory that has been served before.
    lock: Option<DirectoryLock>,
}

impl Claim {
    /// # Errors
    /// 55006 if another server has the directory, 42809 if it holds something else, 58030 of the
    /// disk.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let wrong = |message: String| Error::new(SqlState::WRONG_OBJECT_TYPE, message);
        if dir.join("data").is_file() {
            return Err(wrong(format!("{} is a database, and not the directory of a server", dir.display()))
                .hint("Give another directory, and move this one to `databases/NAME` in it."));
        }
        if dir.join(LOCK_FILE).exists() {
            return Ok(Self { dir: dir.to_owned(), lock: Some(lock_server(dir)?) });
        }
        let foreign = if dir.join("cluster/data").exists() { Vec::new() } else { foreign_names(dir)? };
        if !foreign.is_empty() {
            let (dir, names) = (dir.display(), foreign.join(", "));
            return Err(wrong(format!("{dir} is not the directory of a server, and holds other things ({names})"))
                .hint("Give an empty directory, or one that is not there yet."));
        }
        Ok(Self { dir: dir.to_owned(), lock: None })
    }
}

fn lock_server(dir: &Path) -> Result<DirectoryLock> {
    let taken = |who: &str| {
        Error::new(IN_USE, format!("{} is served {who}", dir.display())).hint("End it, or give another directory.")
    };
    DirectoryLock::take(&dir.join(LOCK_FILE), taken)
}

/// A few names of files that do not belong in a directory before the first start. Databases put
/// there by hand, hidden files, and what file systems have at their root are accepted.
fn foreign_names(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error("cannot read", dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(io_error("cannot read", dir))?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !["databases", "cluster", "lost+found"].contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    if names.len() > NAMES_SHOWN_MAX {
        names.truncate(NAMES_SHOWN_MAX);
        names.push("…".to_owned());
    }
    Ok(names)
}

fn path_in(dir: &Path, name: &str) -> PathBuf {
    dir.join("databases").join(name)
}

fn expect_free(databases: &Databases, name: &str) -> Result<()> {
    match databases.place(name) {
        Some(_) => Err(Error::new(DUPLICATE_DATABASE, format!("database \"{name}\" already exists"))),
        None => Ok(()),
    }
}

fn move_directory(dir: &Path, from: &str, to: &str) -> Result<()> {
    let (from, to) = (path_in(dir, from), path_in(dir, to));
    // If it is missing, it was moved already, or was never connected to.
    if from.exists() && !to.exists() {
        fs::rename(&from, &to).map_err(io_error("cannot rename", &from))?;
        let parent = dir.join("databases");
        sync_dir(&parent).map_err(io_error("cannot flush", &parent))?;
    }
    Ok(())
}

/// Ends what a crash has interrupted, and takes in databases that were put here by hand.
fn tidy(dir: &Path, records: &Records, databases: &mut Databases) -> Result<()> {
    let mut changed = false;
    for record in &mut databases.all {
        if let Some(from) = record.moves_from.take() {
            move_directory(dir, &from, &record.info.name)?;
            changed = true;
        }
    }
    let databases_dir = dir.join("databases");
    for entry in fs::read_dir(&databases_dir).map_err(io_error("cannot read", &databases_dir))? {
        let entry = entry.map_err(io_error("cannot read", &databases_dir))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(DROPPED) {
            fs::remove_dir_all(entry.path()).map_err(io_error("cannot remove", &entry.path()))?;
        } else if databases.count_in(name) == 0 && databases.left.iter().any(|left| left == name) {
            branches::remove_directory(dir, name)?;
        } else if databases.count_in(name) == 0
            && databases.place(name).is_none()
            && check_name(name).is_ok()
            && entry.path().join("data").exists()
        {
            databases.add(name, NewDatabase::of(colibri_sql::cluster::BOOTSTRAP_ROLE));
            changed = true;
        }
    }
    let before = databases.left.len();
    databases.left.retain(|left| path_in(dir, left).exists());
    changed |= databases.left.len() < before;
    if changed { records.write_databases(databases) } else { Ok(()) }
}

impl Directory {
    /// Opens a server's directory, and makes a new one if there is none.
    ///
    /// # Errors
    /// 55006 if another server has it; 58030 and others of the disk.
    pub(crate) fn open(
        claim: Claim,
        superusers: &[&str],
        options: Options,
        unused: Unused,
        registry: Arc<Registry>,
        clock: Clock,
        join: Option<&Join<'_>>,
    ) -> std::result::Result<Arc<Self>, ServeError> {
        let Claim { dir, lock } = claim;
        make_dir(&dir).map_err(io_error("cannot make", &dir))?;
        let lock = lock.map_or_else(|| lock_server(&dir), Ok)?;
        let databases_dir = dir.join("databases");
        make_dir(&databases_dir).map_err(io_error("cannot make", &databases_dir))?;
        let (records, mut loaded) = Records::open(&dir.join("cluster"), superusers, &options)?;
        let memory = MemoryTotal::new(machine::kept_bytes_max());
        if join.is_none() && loaded.identity.is_some() {
            let message = format!("{} is the directory of a node of a cluster", dir.display());
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).hint("Give --cluster.").into());
        }
        if loaded.identity.is_none() {
            tidy(&dir, &records, &mut loaded.databases)?;
        }
        let joined = match join {
            None => None,
            Some(join) => {
                let node = joined::join(&dir, &records, &mut loaded, join)?;
                let around = Surroundings {
                    options: options.clone(),
                    memory: memory.clone(),
                    registry: Arc::clone(&registry),
                    keep: unused.keep,
                    give_memory_back: unused.give_memory_back,
                };
                Some(Joined::new(node, around))
            }
        };
        let directory = Arc::new(Self {
            dir,
            records,
            roles: RwLock::new(Arc::new(loaded.roles)),
            databases: RwLock::new(Arc::new(loaded.databases)),
            kept_settings: RwLock::new(Arc::new(loaded.settings)),
            changing: Mutex::new(()),
            version: AtomicU64::new(1),
            secret: loaded.secret,
            slots: Mutex::default(),
            files: Files::default(),
            number: Mutex::new(loaded.directory),
            options,
            unused,
            memory,
            registry,
            settings: Mutex::default(),
            started_us: clock.now_us(),
            joined,
            _lock: lock,
        });
        if let Some(joined) = &directory.joined {
            let listener: std::sync::Weak<Self> = Arc::downgrade(&directory);
            joined.node.begin(listener)?;
        }
        Ok(directory)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        let databases = self.databases.read();
        let record = databases.place(name).map(|place| &databases.all[place]);
        match &self.joined {
            None => path_in(&self.dir, record.map_or(name, DatabaseRecord::directory)),
            Some(joined) => joined.node.path_of(record.map_or(0, |record| record.info.oid)),
        }
    }

    /// Changes the databases, one change at a time. Nothing is changed if that fails. In a cluster
    /// the change may be made several times.
    fn change<T>(&self, mut change: impl FnMut(&mut Databases) -> Result<T>) -> Result<T> {
        let _changing = self.changing.lock();
        if let Some(joined) = &self.joined {
            return self.change_shared(joined, DATABASES, &self.databases, &mut change);
        }
        let mut databases = Databases::clone(&self.databases.read());
        let before = databases.lasting();
        let done = change(&mut databases)?;
        let after = databases.lasting();
        // Numbers of databases that do not last may be given again after a crash.
        if after.all != before.all || after.left != before.left {
            self.records.write_databases(&after)?;
        }
        *self.databases.write() = Arc::new(databases);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(done)
    }

    /// Sets what SHOW gives for a setting of the server.
    pub(crate) fn set(&self, name: &'static str, value: impl ToString) {
        self.settings.lock().insert(name, value.to_string());
    }

    /// How many transactions may be prepared at the same time, in each database.
    fn prepared_max(&self) -> usize {
        self.settings.lock().get(PREPARED_MAX).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// A role's verifier, if it has one that is still good; whether the role is a superuser.
    pub(crate) fn login(&self, user: &str, now_us: i64) -> (Option<String>, bool) {
        let roles = self.roles.read();
        match roles.named(user) {
            Some(role) => {
                let is_good = role.valid_until_us.is_none_or(|until_us| now_us < until_us);
                (role.verifier.clone().filter(|_| is_good), role.superuser)
            }
            None => (None, false),
        }
    }

    /// Gives the superuser `postgres` a password, unless it has one.
    pub(crate) fn set_first_password(&self, password: &str) -> Result<bool> {
        if self.roles.read().named(FIRST_NAME).is_none_or(|role| role.verifier.is_some()) {
            return Ok(false);
        }
        let Some(verifier) = self.verifier(password)? else {
            return Err(Error::new(SqlState::BAD_PARAMETER, "an empty string is not a valid password"));
        };
        self.change_roles(&mut |roles| {
            roles.expect_mut(FIRST_NAME)?.verifier = Some(verifier.clone());
            Ok(())
        })?;
        Ok(true)
    }

    /// Whether there is a role that may log in with a password.
    pub(crate) fn has_passwords(&self) -> bool {
        self.roles.read().iter().any(|role| role.login && role.verifier.is_some())
    }

    fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        Arc::clone(slots.entry(name.into()).or_insert_with(|| Arc::new(Slot::new(name))))
    }

    /// Whether there is a database of that name.
    pub(crate) fn has_database(&self, name: &str) -> bool {
        self.databases.read().place(name).is_some()
    }

    /// The databases that are open.
    pub(crate) fn open_databases(&self) -> Vec<OpenDatabase> {
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        let mut open: Vec<_> = slots
            .iter()
            .filter_map(|slot| {
                let engine = slot.engine()?;
                let (name, store) = (slot.name().clone(), Arc::clone(engine.store()));
                let database = engine.local_store()?.database().clone();
                Some(OpenDatabase { name, database, store, temp_files: engine.temp_files() })
            })
            .collect();
        open.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        open
    }

    /// The server is about to end: hands over what it leads in a cluster. Waits, with the thread.
    pub(crate) fn hand_over(&self) {
        if let Some(joined) = &self.joined {
            joined.node.hand_all_over();
        }
    }

    /// Drops a database whose sessions have so long to end.
    fn drop_within(&self, name: &str, patience: Duration, cancel: &AtomicBool) -> Result<()> {
        if self.databases.read().place(name).is_none() {
            return Err(no_such_database(name));
        }
        let slot = self.slot(name);
        let closed = slot.close_for_good(name, patience, cancel)?;
        let removed = self.change(|databases| {
            let place = databases.place(name).ok_or_else(|| no_such_database(name))?;
            let record = databases.all.remove(place);
            let directory = CompactString::from(record.directory());
            if record.branch.is_none() && databases.count_in(&directory) > 0 {
                databases.left.push(directory);
            }
            Ok(record)
        });
        let record = match removed {
            Ok(record) => record,
            // It is there as before.
            Err(error) => {
                closed.reopen();
                return Err(error);
            }
        };
        let oid = record.info.oid;
        self.change_settings(&mut |kept| {
            kept.forget_database(oid);
            Ok(())
        })?;
        self.slots.lock().remove(name);
        drop(closed);
        if let Some(joined) = &self.joined {
            // If this fails, what the log has of it stays there, and nobody reads it.
            let db = colibri_replica::Database(oid.to_string());
            let forget = joined.node.cluster.forget_database(&db);
            if let Err(error) = crate::replication::wait::block_on(forget) {
                joined.node.log.error("cannot_forget", &[("database", &name), ("error", &error)]);
            }
            return Ok(());
        }
        self.give_up(&record)
    }

    /// Closes all databases; sessions that are still at work keep theirs.
    pub(crate) fn close(&self) -> Vec<Error> {
        if let Some(joined) = &self.joined {
            joined.node.end();
            return Vec::new();
        }
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        slots.iter().filter_map(|slot| slot.close(true).err()).collect()
    }
}

impl Cluster for Directory {
    fn databases(&self) -> Vec<DatabaseInfo> {
        let databases = self.databases.read();
        let mut infos: Vec<_> = databases.all.iter().map(|record| record.info.clone()).collect();
        infos.sort_unstable_by_key(|info| info.oid);
        infos
    }

    fn database_bytes(&self, name: &str) -> u64 {
        std::fs::metadata(self.path_of(name).join("data")).map_or(0, |data| data.len())
    }

    fn create_database(&self, name: &str, how: NewDatabase) -> Result<()> {
        check_name(name)?;
        let has_order = how.locale.as_ref().is_some_and(|locale| locale.order.is_some());
        if has_order && self.joined.is_some() {
            return Err(Error::unsupported("a database of a cluster with a locale but C"));
        }
        if let Some(template) = &how.template {
            return self.make_after(name, &how, template, false);
        }
        self.change(|databases| {
            expect_free(databases, name)?;
            // In a cluster each node makes its own when it needs one.
            if self.joined.is_none() {
                let path = path_in(&self.dir, &databases.free_directory(name));
                make_dir(&path).map_err(io_error("cannot make", &path))?;
            }
            databases.add(name, how.clone());
            Ok(())
        })
    }

    fn reset_database(&self, name: &str, to: &Template, force: bool, cancel: &AtomicBool) -> Result<()> {
        self.reset_to(name, to, force, cancel)
    }

    fn drop_database(&self, name: &str, force: bool, cancel: &AtomicBool) -> Result<()> {
        self.end_sessions(name, force);
        self.drop_within(name, PATIENCE, cancel)
    }

    fn rename_database(&self, from: &str, to: &str, cancel: &AtomicBool) -> Result<()> {
        check_name(to)?;
        if self.databases.read().place(from).is_none() {
            return Err(no_such_database(from));
        }
        let slot = self.slot(from);
        let closed = slot.close_for_good(from, PATIENCE, cancel)?;
        let renamed = self.change(|databases| {
            let place = databases.place(from).ok_or_else(|| no_such_database(from))?;
            expect_free(databases, to)?;
            // A directory with other databases in it stays where it is.
            let directory = CompactString::from(databases.all[place].directory());
            let moves = directory == from && databases.count_in(&directory) == 1 && databases.free_directory(to) == to;
            let record = &mut databases.all[place];
            record.info.name = to.into();
            if self.joined.is_some() {
                return Ok(false);
            }
            record.moves_from = moves.then(|| from.into());
            record.directory = Some(directory).filter(|directory| !moves && directory != to);
            Ok(moves)
        });
        let moves = match renamed {
            Ok(moves) => moves,
            Err(error) => {
                closed.reopen();
                return Err(error);
            }
        };
        self.slots.lock().remove(from);
        if !moves {
            return Ok(());
        }
        self.files.forget(from);
        move_directory(&self.dir, from, to)?;
        self.change(|databases| {
            if let Some(place) = databases.place(to) {
                databases.all[place].moves_from = None;
            }
            Ok(())
        })
    }

    fn change_database(&self, name: &str, change: &mut dyn FnMut(&mut DatabaseInfo) -> Result<()>) -> Result<()> {
        self.change(|databases| {
            let place = databases.place(name).ok_or_else(|| no_such_database(name))?;
            change(&mut databases.all[place].info)
        })
    }

    fn roles(&self) -> Arc<Roles> {
        Arc::clone(&self.roles.read())
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn change_roles(&self, change: &mut dyn FnMut(&mut Roles) -> Result<()>) -> Result<()> {
        let _changing = self.changing.lock();
        if let Some(joined) = &self.joined {
            return self.change_shared(joined, ROLES, &self.roles, change);
        }
        let mut roles = Roles::clone(&self.roles.read());
        change(&mut roles)?;
        self.records.write_roles(&roles)?;
        *self.roles.write() = Arc::new(roles);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn kept_settings(&self) -> Arc<KeptSettings> {
        Arc::clone(&self.kept_settings.read())
    }

    fn change_settings(&self, change: &mut dyn FnMut(&mut KeptSettings) -> Result<()>) -> Result<()> {
        let _changing = self.changing.lock();
        if let Some(joined) = &self.joined {
            return self.change_shared(joined, SETTINGS, &self.kept_settings, change);
        }
        let mut settings = KeptSettings::clone(&self.kept_settings.read());
        change(&mut settings)?;
        if settings == **self.kept_settings.read() {
            return Ok(());
        }
        self.records.write_settings(&settings)?;
        *self.kept_settings.write() = Arc::new(settings);
        Ok(())
    }

    fn verifier(&self, password: &str) -> Result<Option<String>> {
        // A verifier from a dump is stored unchanged. A text that only begins like one is a
        // password.
        match Verifier::parse(password) {
            _ if password.is_empty() => Ok(None),
            Some(known) if known.is_of_nothing() => Ok(None),
            Some(_) => Ok(Some(password.to_owned())),
            None => Ok(Some(Verifier::new(password)?.to_text())),
        }
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        self.registry.infos()
    }

    fn cancel(&self, pid: i32) -> bool {
        self.registry.cancel(pid)
    }

    fn terminate(&self, pid: i32) -> bool {
        self.registry.terminate(pid)
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.settings.lock().get(name).cloned()
    }

    fn leader_of(&self, database: &str) -> Option<String> {
        let keeper = self.keeper_named(database)?;
        let node = self.replication()?;
        // A node that has just lost its term does not lead.
        let leader = node.leader(&keeper.db).filter(|leader| keeper.leads() || leader.node.id != node.node.id)?;
        Some(leader.node.address)
    }

    fn started_us(&self) -> i64 {
        self.started_us
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use colibri_sql::cluster::BOOTSTRAP_ROLE;

    use super::*;

    fn open(dir: &Path) -> Result<Arc<Directory>> {
        opened(dir).map_err(|error| match error {
            ServeError::Cluster(error) => error,
            other => Error::internal(other),
        })
    }

    fn opened(dir: &Path) -> std::result::Result<Arc<Directory>, ServeError> {
        let registry = Arc::new(Registry::new(Clock::new()));
        Directory::open(
            Claim::new(dir)?,
            &[],
            Options::new(),
            Unused { keep: Duration::from_secs(60), give_memory_back: || () },
            registry,
            Clock::new(),
            None,
        )
    }

    fn names(directory: &Directory) -> Vec<String> {
        directory.databases().iter().map(|info| info.name.to_string()).collect()
    }

    fn session(directory: &Arc<Directory>, name: &str) -> Result<(Lease, colibri_sql::Session)> {
        let lease = directory.lease_now(name)?;
        let session = colibri_sql::Session::new(lease.engine(), "postgres");
        Ok((lease, session))
    }

    #[test]
    fn a_directory_has_one_server_and_a_database_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let directory = open(dir.path()).unwrap();
        assert_eq!(open(dir.path()).err().unwrap().state(), IN_USE);
        let (lease, session) = session(&directory, "postgres").unwrap();
        let path = dir.path().join("databases/postgres");
        assert_eq!(DirectoryLock::for_sql(&path).unwrap_err().state(), IN_USE);
        drop(session);
        drop(lease);
        assert!(directory.close().is_empty());
        DirectoryLock::for_sql(&path).unwrap();
    }

    static NO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn databases_are_made_renamed_and_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let directory = open(dir.path()).unwrap();
        directory.create_database("a", NewDatabase::of(BOOTSTRAP_ROLE)).unwrap();
        assert_eq!(
            directory.create_database("a", NewDatabase::of(BOOTSTRAP_ROLE)).unwrap_err().state(),
            DUPLICATE_DATABASE
        );
        for wrong in ["", "../x", ".x", "a\nb", &"x".repeat(64)] {
            assert_eq!(
                directory.create_database(wrong, NewDatabase::of(BOOTSTRAP_ROLE)).unwrap_err().state(),
                SqlState::BAD_NAME
            );
        }
        let (lease, mut user) = session(&directory, "a").unwrap();
        user.run("CREATE TABLE t (x int); INSERT INTO t VALUES (7)").unwrap();
        assert_eq!(directory.rename_database("a", "b", &NO).unwrap_err().state(), IN_USE);
        assert_eq!(directory.drop_database("a", false, &NO).unwrap_err().state(), IN_USE);
        drop(user);
        drop(lease);
        assert_eq!(directory.rename_database("a", "postgres", &NO).unwrap_err().state(), DUPLICATE_DATABASE);
        session(&directory, "a").expect("a name that could not be changed is still there");
        directory.rename_database("a", "b", &NO).unwrap();
        assert_eq!(session(&directory, "a").err().unwrap().state(), SqlState::NO_SUCH_DATABASE);
        let (lease, mut user) = session(&directory, "b").unwrap();
        assert_eq!(user.run("SELECT x FROM t").unwrap()[0].rows.len(), 1);
        drop(user);
        drop(lease);
        directory.drop_database("b", false, &NO).unwrap();
        assert_eq!(names(&directory), ["postgres"]);
        assert!(!dir.path().join("databases/b").exists());
        directory.create_database("b", NewDatabase::of(BOOTSTRAP_ROLE)).unwrap();
        let (_lease, mut user) = session(&directory, "b").unwrap();
        assert!(user.run("SELECT x FROM t").is_err(), "a new database of an old name is empty");
    }

    #[test]
    fn a_rename_that_a_crash_interrupted_is_carried_out_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let directory = open(dir.path()).unwrap();
        directory.create_database("a", NewDatabase::of(BOOTSTRAP_ROLE)).unwrap();
        directory
            .change(|databases| {
                let place = databases.place("a").unwrap();
                databases.all[place].info.name = "b".into();
                databases.all[place].moves_from = Some("a".into());
                Ok(())
            })
            .unwrap();
        drop(directory);
        let directory = open(dir.path()).unwrap();
        assert_eq!(names(&directory), ["postgres", "b"]);
        assert!(dir.path().join("databases/b").exists() && !dir.path().join("databases/a").exists());
    }

    #[test]
    fn a_database_put_there_by_hand_is_taken_in() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let path = dir.path().join("databases/mine");
        drop(colibri_storage::Database::open(&path, &Options::new()).unwrap());
        fs::create_dir(dir.path().join("databases/.dropped-7")).unwrap();
        let directory = open(dir.path()).unwrap();
        assert_eq!(names(&directory), ["postgres", "mine"]);
        assert!(!dir.path().join("databases/.dropped-7").exists());
        assert_eq!(open(&path).err().unwrap().state(), SqlState::WRONG_OBJECT_TYPE);
    }

    #[test]
    fn a_directory_of_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["Cargo.toml", "src"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let error = open(dir.path()).err().unwrap();
        assert_eq!(error.state(), SqlState::WRONG_OBJECT_TYPE);
        assert!(error.to_string().contains("holds other things (Cargo.toml, src)"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing was made in it");
    }

    #[test]
    fn a_server_may_have_a_directory_that_is_as_good_as_empty_or_has_been_one() {
        let dir = tempfile::tempdir().unwrap();
        // The root of a file system; databases that were restored; a first start that was
        // interrupted.
        for name in ["lost+found", ".snapshots", "databases", "cluster"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        drop(open(dir.path()).unwrap());
        fs::write(dir.path().join("notes"), "").unwrap();
        drop(open(dir.path()).unwrap());
        fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
        drop(open(dir.path()).unwrap());
    }

    #[test]
    fn a_password_is_given_once() {
        let dir = tempfile::tempdir().unwrap();
        let directory = open(dir.path()).unwrap();
        assert!(directory.set_first_password("one").unwrap());
        assert!(!directory.set_first_password("two").unwrap());
        let (verifier, is_superuser) = directory.login("postgres", 0);
        assert!(is_superuser && verifier.is_some());
        directory
            .change_roles(&mut |roles| {
                roles.expect_mut("postgres")?.valid_until_us = Some(5);
                Ok(())
            })
            .unwrap();
        assert!(directory.login("postgres", 4).0.is_some() && directory.login("postgres", 5).0.is_none());
    }
}
