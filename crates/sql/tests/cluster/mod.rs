//! A cluster that is kept in memory: databases by name alone, and roles.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use colibri_sql::cluster::{
    Cluster, DatabaseInfo, KeptSettings, NewDatabase, RoleId, Roles, SessionInfo, SessionState, Template,
};
use colibri_sql::{Error, Result, SqlState};

pub(crate) struct InMemory {
    databases: Mutex<Vec<DatabaseInfo>>,
    roles: Mutex<Arc<Roles>>,
    settings: Mutex<Arc<KeptSettings>>,
    version: AtomicU64,
    cancelled: Mutex<Vec<i32>>,
}

fn database(oid: u32, name: &str, owner: RoleId) -> DatabaseInfo {
    DatabaseInfo {
        oid,
        name: name.into(),
        owner,
        allow_connections: true,
        connection_limit: -1,
        acl: None,
        comment: None,
        locale: None,
        is_template: false,
    }
}

impl InMemory {
    /// With one database of this name.
    pub(crate) fn shared(name: &str) -> Arc<dyn Cluster> {
        Arc::new(Self {
            databases: Mutex::new(vec![database(5, name, 10)]),
            roles: Mutex::new(Arc::new(Roles::new("postgres"))),
            settings: Mutex::default(),
            version: AtomicU64::new(1),
            cancelled: Mutex::default(),
        })
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

impl Cluster for InMemory {
    fn databases(&self) -> Vec<DatabaseInfo> {
        self.databases.lock().unwrap().clone()
    }

    fn database_bytes(&self, _: &str) -> u64 {
        0
    }

    fn create_database(&self, name: &str, how: NewDatabase) -> Result<()> {
        let mut databases = self.databases.lock().unwrap();
        if databases.iter().any(|database| database.name == name) {
            return Err(Error::new(SqlState("42P04"), format!("database \"{name}\" already exists")));
        }
        let oid = 100 + databases.len() as u32;
        let made = DatabaseInfo {
            connection_limit: how.connection_limit,
            allow_connections: how.allow_connections,
            is_template: how.is_template,
            ..database(oid, name, how.owner)
        };
        databases.push(made);
        self.changed();
        Ok(())
    }

    fn reset_database(&self, _: &str, _: &Template, _: bool, _: &AtomicBool) -> Result<()> {
        Ok(())
    }

    fn drop_database(&self, name: &str, _: bool, _: &AtomicBool) -> Result<()> {
        self.databases.lock().unwrap().retain(|database| database.name != name);
        self.changed();
        Ok(())
    }

    fn rename_database(&self, from: &str, to: &str, _: &AtomicBool) -> Result<()> {
        self.change_database(from, &mut |database| {
            database.name = to.into();
            Ok(())
        })
    }

    fn change_database(&self, name: &str, change: &mut dyn FnMut(&mut DatabaseInfo) -> Result<()>) -> Result<()> {
        let mut databases = self.databases.lock().unwrap();
        change(databases.iter_mut().find(|database| database.name == name).unwrap())?;
        self.changed();
        Ok(())
    }

    fn roles(&self) -> Arc<Roles> {
        Arc::clone(&self.roles.lock().unwrap())
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn change_roles(&self, change: &mut dyn FnMut(&mut Roles) -> Result<()>) -> Result<()> {
        let mut roles = self.roles.lock().unwrap();
        let mut changed = (**roles).clone();
        change(&mut changed)?;
        *roles = Arc::new(changed);
        self.changed();
        Ok(())
    }

    fn kept_settings(&self) -> Arc<KeptSettings> {
        Arc::clone(&self.settings.lock().unwrap())
    }

    fn change_settings(&self, change: &mut dyn FnMut(&mut KeptSettings) -> Result<()>) -> Result<()> {
        let mut settings = self.settings.lock().unwrap();
        let mut changed = (**settings).clone();
        change(&mut changed)?;
        *settings = Arc::new(changed);
        Ok(())
    }

    fn verifier(&self, password: &str) -> Result<Option<String>> {
        Ok((!password.is_empty()).then(|| format!("SCRAM-SHA-256$4096:{}", password.len())))
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        let session = |pid, user: &str| SessionInfo {
            pid,
            database: "db".into(),
            user: user.into(),
            application_name: "test".into(),
            client: None,
            server: None,
            encryption: None,
            state: SessionState::Active,
            waits_for: None,
            query: format!("SELECT 'secret of {user}'"),
            connected_us: 0,
            transaction_us: None,
            query_us: None,
            state_us: 0,
        };
        vec![session(1, "postgres"), session(2, "alice")]
    }

    fn cancel(&self, pid: i32) -> bool {
        self.cancelled.lock().unwrap().push(pid);
        true
    }

    fn terminate(&self, _: i32) -> bool {
        true
    }

    fn setting(&self, name: &str) -> Option<String> {
        (name == "port").then(|| "5432".to_owned())
    }

    fn started_us(&self) -> i64 {
        0
    }
}
