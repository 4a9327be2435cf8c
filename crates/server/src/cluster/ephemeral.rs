//! Databases that are there as long as somebody is connected to them: `--ephemeral TEMPLATE`.
//!
//! A name that a client asks for and that no database has becomes a branch of the template, which
//! the client's role owns. The database is dropped when its last connection ends. The server's
//! record of databases never has it, so after a crash it is not there: its branch goes when the
//! template's file is opened next.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use colibri_runtime::{Handle, Pool};
use colibri_sql::cluster::{Cluster as _, NewDatabase, Template};
use colibri_sql::{CompactString, Error, Result, SqlState};

use super::lease::Slot;
use super::{DUPLICATE_DATABASE, Directory, check_name, no_such_database};

/// For how long a database is made again that goes before it can be held, and how long it is waited
/// between two tries for one that is going.
const TRIES: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// A client that is about to connect to a database. An ephemeral one does not go before; if nobody
/// uses it after all, it goes then.
pub(crate) struct Asked {
    directory: Arc<Directory>,
    /// Of an ephemeral database.
    held: Option<Arc<Slot>>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(slot) = &self.held
            && slot.let_go()
        {
            self.directory.unused(slot.name());
        }
    }
}

impl Directory {
    fn is_ephemeral(&self, name: &str) -> bool {
        let databases = self.databases.read();
        databases.place(name).is_some_and(|place| databases.all[place].is_ephemeral)
    }

    /// Makes sure that there is a database: if there is none of that name, one for as long as it is
    /// used. For a role that may not log in nothing is made.
    ///
    /// # Errors
    /// 3D000 if there is no such template, 42602 if the name cannot be that of a database, 55006 if
    /// transactions are prepared in the template; of the disk.
    pub(crate) async fn ask_for(self: &Arc<Self>, name: &str, user: &str, template: &str) -> Result<Asked> {
        let owner = self.roles().named(user).filter(|role| role.login).map(|role| role.oid);
        let (directory, lasts) = (Arc::clone(self), self.has_database(name) && !self.is_ephemeral(name));
        let Some(owner) = owner.filter(|_| !lasts) else { return Ok(Asked { directory, held: None }) };
        let template = Template { name: template.into(), copies: false, as_of: None };
        let name = CompactString::new(name);
        let holding = colibri_runtime::spawn_blocking(move || {
            let held = directory.hold(&name, owner, &template)?;
            Ok(Asked { directory, held })
        });
        holding.await.unwrap_or_else(|error| Err(Error::internal(error)))
    }

    /// Holds an ephemeral database, and makes it if there is none. `None` for one that lasts. Waits, on
    /// a thread that may.
    ///
    /// Bug: a database that was about to go was tried eight times without a pause. Consequence: on a
    /// busy machine a client that asked for it while its last connection ended was told that it does
    /// not exist. Fix: it is waited for until it has gone.
    fn hold(&self, name: &CompactString, owner: u32, template: &Template) -> Result<Option<Arc<Slot>>> {
        check_name(name)?;
        let until = Instant::now() + TRIES;
        loop {
            if !self.has_database(name) {
                let mut how = NewDatabase::of(owner);
                how.locale = self.locale_of(&template.name);
                match self.make_after(name, &how, template, true) {
                    // Another client has asked for it at the same time.
                    Err(error) if error.state() == DUPLICATE_DATABASE => {}
                    made => made?,
                }
            }
            let slot = self.slot(name);
            if slot.hold() {
                // It cannot go any more, but it may have gone before.
                if self.is_ephemeral(name) {
                    return Ok(Some(slot));
                }
                slot.let_go();
                if self.has_database(name) {
                    return Ok(None);
                }
            }
            if Instant::now() > until {
                return Err(no_such_database(name));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Drops an ephemeral database unless somebody uses it, on a thread that may wait.
    pub(super) fn unused(self: &Arc<Self>, name: &CompactString) {
        if !self.is_ephemeral(name) {
            return;
        }
        let (directory, name) = (Arc::clone(self), name.clone());
        // Without a runtime the server is about to end, and the branch goes at the next start.
        let Some(handle) = Handle::try_current() else { return };
        drop(handle.spawn(Pool::Batch, async move {
            let dropping = colibri_runtime::spawn_blocking(move || {
                if !directory.is_ephemeral(&name) {
                    return Ok(());
                }
                match directory.drop_within(&name, Duration::ZERO, &AtomicBool::new(false)) {
                    // It is used again, or somebody else has dropped it.
                    Err(error) if [super::IN_USE, SqlState::NO_SUCH_DATABASE].contains(&error.state()) => Ok(()),
                    dropped => dropped,
                }
            });
            if let Ok(Err(error)) = dropping.await {
                crate::log::Log::default().error("drop_failed", &[("error", &error)]);
            }
        }));
    }
}
