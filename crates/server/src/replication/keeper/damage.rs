//! Copies that cannot be read any more: a session meets a page that is not what was written, the
//! copy is checked, and if the check finds damage as well, it is replaced by that of another node.
//!
//! What a session meets alone replaces nothing: an error may have other causes than the disk, and a
//! copy of another node costs much.

use std::sync::Arc;

use super::Keeper;
use crate::replication::Replication;

impl Keeper {
    /// A session has met damage. The copy is checked by a thread of its own, which reads all of it.
    pub(crate) fn note_damage(self: &Arc<Self>) {
        let Some(replica) = self.replica() else { return };
        if std::mem::replace(&mut self.state.lock().is_checked, true) {
            return;
        }
        let keeper = Arc::clone(self);
        let check = move || {
            let report = replica.engine().map(|engine| engine.check());
            let found = match report {
                Ok(Ok(report)) => report.problems.into_iter().next(),
                Ok(Err(error)) => is_damage(&error).then(|| error.to_string()),
                Err(_) => None,
            };
            {
                let mut state = keeper.state.lock();
                (state.is_checked, state.damage) = (false, found);
            }
            keeper.changed.give();
        };
        let started = std::thread::Builder::new().name(format!("check-{}", self.oid)).spawn(check);
        if started.is_err() {
            self.state.lock().is_checked = false;
        }
    }

    /// What a check has found, if another node can help.
    pub(super) fn damage_found(&self, node: &Replication) -> Option<String> {
        let damage = self.state.lock().damage.clone();
        damage.filter(|_| !node.other_members().is_empty())
    }
}

/// Whether the file on the disk is not what was written to it.
pub(super) fn is_damage(error: &colibri_storage::Error) -> bool {
    use colibri_storage::Error::{Corrupted, CorruptedLog, NotADatabase};
    matches!(error, Corrupted { .. } | CorruptedLog { .. } | NotADatabase { .. })
}
