//! Portals of the protocol as cursors: FETCH, MOVE, CLOSE and `pg_cursors` know them by their
//! names, ROLLBACK TO ends those that are younger than its savepoint, and what they see is as of
//! when they were bound.
//!
//! Only what gives rows, or has a plan, can be such a portal; of others their names are known,
//! which CLOSE and `pg_cursors` ask for. What gives rows without a plan (SHOW, EXPLAIN, EXECUTE,
//! FETCH) runs to its end when it is first asked for rows. The unnamed portal has the empty name,
//! which no statement can say.

use std::sync::Arc;

use colibri_syntax::tree::{Discard, Statement};
use colibri_types::{Datum, Error, Result, SqlState};
use compact_str::{CompactString, format_compact};

use super::{CursorStatement, Fetch, Goal, OpenCursor, duplicate_cursor, no_such_cursor};
use crate::session::plans::Command;
use crate::session::step::Stage;
use crate::session::{Prepared, Running, Session};

impl Session {
    /// Whether there is a cursor, or a portal, of that name.
    #[must_use]
    pub fn has_cursor(&self, name: &str) -> bool {
        self.cursors.contains_key(name)
    }

    /// The statement of a cursor, or of a portal, of the block at hand.
    #[must_use]
    pub fn cursor_statement_of(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.cursors.get(name).map(|cursor| &cursor.prepared)
    }

    /// Tells of a portal that the session cannot run: its name is taken, and nothing can be fetched
    /// from it.
    ///
    /// # Errors
    /// 42P03 if there is one of that name.
    pub fn list_portal(&mut self, name: &str, statement: &str) -> Result<()> {
        let recipe = Arc::new(self.bare(statement, Command::Empty));
        let prepared = Arc::new(self.adopt(recipe));
        self.open_portal(name, &prepared, None)
    }

    /// The command tag of a portal that has given all of its rows.
    pub fn set_portal_tag(&mut self, name: &str, tag: &str) {
        if let Some(cursor) = self.cursors.get_mut(name) {
            cursor.tag = tag.into();
        }
    }

    /// Makes a statement that is bound a portal of the block at hand. Nothing of it runs yet.
    /// `None` for the parameters: it has run, and given all of its rows.
    ///
    /// # Errors
    /// 42P03 if there is one of that name.
    pub fn open_portal(&mut self, name: &str, prepared: &Arc<Prepared>, params: Option<Vec<Datum>>) -> Result<()> {
        if self.has_cursor(name) {
            return Err(duplicate_cursor(name));
        }
        // WHERE CURRENT OF can ask for those that have names.
        let reads_rows = prepared.is_query() && !prepared.used.is_empty();
        let marked = if reads_rows && !name.is_empty() { self.with_marks(prepared) } else { None };
        let running = params.map(|params| self.at_start(marked.as_ref().unwrap_or(prepared), params));
        let mut cursor = OpenCursor::new(prepared, running);
        cursor.tag = prepared.completed(0);
        self.add_cursor(CompactString::new(name), cursor, prepared.text());
        Ok(())
    }

    /// The plan of a portal's query whose rows come with their keys; `None` if it cannot be made,
    /// or gives something else.
    fn with_marks(&mut self, prepared: &Arc<Prepared>) -> Option<Arc<Prepared>> {
        let types: Vec<_> = prepared.params.iter().copied().map(Some).collect();
        let preparing = self.begin_preparing().ok()?;
        let marked = self.prepare_marked(&prepared.text, &types);
        self.end_preparing(preparing);
        marked.ok().filter(|marked| marked.columns == prepared.columns && marked.params == prepared.params)
    }

    /// Begins to run a portal, or goes on with it, for a limited number of its rows.
    ///
    /// # Errors
    /// 34000 if there is none of that name; 55000 if it cannot be run once more; 25P02 in a block
    /// that has failed.
    pub fn start_portal(&mut self, name: &str, rows_max: usize, came_us: i64) -> Result<Running> {
        let cursor = self.cursors.get(name).ok_or_else(|| no_such_cursor(name))?;
        let has_rows = cursor.prepared.columns().is_some() && cursor.prepared.can_be_cursor();
        let is_over = cursor.running.is_none() && !has_rows;
        let prepared = Arc::clone(&cursor.prepared);
        self.begins_at(&prepared, came_us)?;
        if is_over {
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run")));
        }
        let rows_max = if prepared.columns().is_some() { rows_max } else { usize::MAX };
        let goal = Goal::Forward(if rows_max == usize::MAX { u64::MAX } else { rows_max as u64 });
        let mut running = self.at_start(&prepared, Vec::new());
        let mut fetch = Fetch::new(CompactString::new(name), goal, false);
        fetch.by_protocol = true;
        running.stage = Stage::Fetch(fetch);
        Ok(running)
    }
}

impl OpenCursor {
    /// The command tag of an Execute that has given the last rows there were; how many it gave.
    pub(super) fn portal_tag(&self, given: u64) -> CompactString {
        match self.prepared.columns() {
            Some(_) if self.has_plan() => self.prepared.completed(given),
            Some(_) => with_count(&self.tag, given),
            None => self.tag.clone(),
        }
    }
}

/// A command tag with another number of rows, if it has one.
#[must_use]
pub fn with_count(tag: &str, rows: u64) -> CompactString {
    let verb = tag.trim_end_matches(|last: char| last.is_ascii_digit());
    if verb.len() == tag.len() { tag.into() } else { format_compact!("{verb}{rows}") }
}

impl Prepared {
    /// Whether it can be a portal that the session knows: see [`Session::open_portal`].
    #[must_use]
    pub fn can_be_cursor(&self) -> bool {
        match self.command {
            Command::Plan { .. } => true,
            Command::Set(_) | Command::Utility(_) | Command::Cursor(_) => self.columns().is_some(),
            Command::Control(_) | Command::Admin(_) | Command::Copy | Command::Empty => false,
        }
    }

    /// Whether what it gives follows from another statement by name, a cursor's or a prepared one:
    /// which that is, is known when it is bound.
    #[must_use]
    pub fn is_bound_late(&self) -> bool {
        match &self.command {
            Command::Cursor(CursorStatement::Fetch { .. }) => true,
            Command::Utility(statement) => matches!(&**statement, Statement::Execute(_)),
            _ => false,
        }
    }

    /// The cursor that it closes, if it is CLOSE of one.
    #[must_use]
    pub fn closes_cursor(&self) -> Option<&str> {
        match &self.command {
            Command::Cursor(CursorStatement::Close { name }) => name.as_deref(),
            _ => None,
        }
    }

    /// Whether it is CLOSE ALL.
    #[must_use]
    pub fn closes_all_cursors(&self) -> bool {
        matches!(&self.command, Command::Cursor(CursorStatement::Close { name: None }))
    }

    /// Whether it may not run in a transaction block: it is a transaction by itself, whatever comes
    /// behind it.
    #[must_use]
    pub fn runs_alone(&self) -> bool {
        match &self.command {
            Command::Admin(statement) => crate::admin::runs_alone(statement),
            Command::Control(statement) => matches!(&**statement, Statement::Discard(Discard::All)),
            _ => false,
        }
    }

    /// Whether it may show which portals there are, of which its own is one.
    #[must_use]
    pub fn may_list_cursors(&self) -> bool {
        self.names_cursors
    }
}
