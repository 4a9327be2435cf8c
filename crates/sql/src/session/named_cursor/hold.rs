//! Cursors WITH HOLD: the rows of their queries are computed before their block commits, and
//! outlive it.
//!
//! Invariants: a held cursor runs no query. It ends with CLOSE, with DISCARD ALL, and with its
//! session, but not with a block.

use colibri_types::Result;

use super::{CursorStatement, OpenCursor};
use crate::session::plans::Command;
use crate::session::{Completion, Progress, Running, Session};

impl Session {
    /// Runs on the cursors that are to outlive their block, a batch at a time. `None` when all of
    /// their rows are there.
    ///
    /// # Errors
    /// Those of their queries, and 53200 if their rows need too much memory.
    pub(in crate::session) fn settle_held(&mut self, budget_rows: i64) -> Result<Option<Progress>> {
        self.settle(budget_rows, |cursor| cursor.holds)
    }

    /// Closes the cursors of a block that has ended. If it has committed, those WITH HOLD stay.
    pub(in crate::session) fn end_cursors(&mut self, committed: bool) {
        self.cursors.retain(|_, cursor| cursor.is_held || committed && cursor.holds && cursor.running.is_none());
        self.cursors.values_mut().for_each(|cursor| cursor.is_held = true);
        self.list_cursors();
    }

    /// Whether there is a cursor WITH HOLD that was declared without a block.
    pub(in crate::session) fn held_alone(&mut self, running: &Running) -> Completion {
        let mut ticket = None;
        if let Command::Cursor(CursorStatement::Declare { name, .. }) = &running.prepared.command
            && let Some(cursor) = self.cursors.get_mut(name)
        {
            cursor.is_held = true;
            ticket = cursor.ticket.take();
        }
        Completion { tag: running.prepared.tag().into(), ticket }
    }
}

impl OpenCursor {
    /// Whether it is WITH HOLD, and its block has not ended.
    pub(in crate::session) fn is_to_be_held(&self) -> bool {
        self.holds && !self.is_held
    }

    /// Whether it outlives a savepoint that is older.
    pub(super) fn outlives(&self, serial: u64) -> bool {
        self.is_held || self.serial <= serial
    }
}
