//! The last steps of a commit: how it becomes durable, and making it the newest state.

use crate::db::Core;
use crate::lock_file::ROOTS;
use crate::log::Position;
use crate::log::record::AGREED_BYTES_MAX;
use crate::options::Durability;
use crate::page::{PageId, TxnId};
use crate::root::{Root, Tree};
use crate::trace::WriteKind;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// How a transaction becomes durable.
#[derive(Clone, Copy)]
enum Way {
    /// As a steady point, before it is published.
    Steady,
    /// By its record in the log, which is flushed after it is published.
    Logged,
    /// Later, or already: the transaction is replayed. The log goes on at this position.
    Weak(Position),
}

/// What a commit has published.
pub(crate) struct Published {
    pub(super) durable: bool,
    /// A steady point is due.
    pub(super) over: bool,
}

impl Core {
    /// Begins the record of a transaction, if the mode has records.
    pub(crate) fn begin_record(&self, work: &mut Workspace) {
        work.record.clear();
        match self.durability {
            Durability::Sync if self.past.stamps() => work.record.stamp(),
            Durability::Sync => {}
            Durability::Agreed => work.record.allow_long(),
            _ => work.record.give_up(),
        }
    }

    /// Makes the transaction of `work` as durable as it has to be while the writer's lock is held,
    /// and publishes what it leads to: the main branch's tables, and the page that names the
    /// forest. `replayed`: up to where in the log. After an error the transaction has to be
    /// aborted, or the database is poisoned.
    pub(crate) fn publish(
        &self,
        work: &mut Workspace,
        catalog: Tree,
        forest: PageId,
        replayed: Option<Position>,
    ) -> Result<Published> {
        let txn = work.txn();
        let before = self.shared.root();
        if work.record.is_stamped() {
            work.record.set_time(self.past.now());
        }
        let mut way = match (replayed, self.durability) {
            (Some(position), _) => Way::Weak(position),
            (None, Durability::SyncNoLog) => Way::Steady,
            (None, _) if self.is_overdue(&before, work.space.new_pages()) => Way::Steady,
            (None, Durability::Sync) if work.record.is_too_long() => Way::Steady,
            (None, Durability::Agreed) if work.record.is_too_long() => {
                return Err(Error::TransactionTooLong { bytes_max: AGREED_BYTES_MAX });
            }
            (None, Durability::Sync | Durability::Agreed) => Way::Logged,
            (None, Durability::Lazy { .. } | Durability::NoSync) => Way::Weak(before.log),
        };
        // Everything that can fail for lack of room is done before the transaction is closed.
        match way {
            Way::Steady => {
                let freed_pages = work.freed_pages();
                work.space.prepare_steady(&self.pager, freed_pages)?;
            }
            Way::Logged if self.agreement.is_none() && self.log.reserve(before.log, work.record.bytes()).is_err() => {
                // No room for the log. A steady point may need none, and frees the log's records.
                let freed_pages = work.freed_pages();
                work.space.prepare_steady(&self.pager, freed_pages)?;
                way = Way::Steady;
            }
            Way::Logged => {
                // The ring of roots has no room for more commits than these ahead of the visible
                // one.
                if txn.0 - self.shared.visible().0 >= ROOTS - 1 {
                    self.wait_durable(TxnId(txn.0 - ROOTS / 2))?;
                }
            }
            Way::Weak(_) => {}
        }
        let log = matches!(way, Way::Logged).then(|| {
            let Position { file, offset, .. } = before.log;
            (file, offset..offset + self.log.written_bytes(work.record.bytes()) as u64)
        });
        self.trace(WriteKind::Commit, txn, log, || work.allocated_runs(&self.pager));
        work.commit();
        let page_count = work.space.page_count();
        let mut root = Root { txn, catalog, forest, page_count, log: before.log };
        match way {
            Way::Steady => self.sync_commit(work, &mut root)?,
            Way::Logged => {
                let record = &mut work.record;
                root.log = match &self.agreement {
                    Some(agreement) => agreement.propose(before.log, record, txn),
                    None => self.log.append(before.log, record, txn).inspect_err(|_| self.poison())?,
                };
            }
            Way::Weak(position) => root.log = position,
        }
        let durable = !matches!(way, Way::Logged);
        self.shared.publish(root, durable);
        if let (Some(agreement), false) = (&self.agreement, durable) {
            agreement.published(&self.shared, txn);
        }
        if matches!(way, Way::Steady) && self.past.is_on() && !work.is_keeping {
            // The transaction has no record that would tell it. For lack of room, the past has a gap.
            _ = self.keep_point(work, false);
        }
        Ok(Published { durable, over: self.is_over(&root, work.space.new_pages()) })
    }
}
