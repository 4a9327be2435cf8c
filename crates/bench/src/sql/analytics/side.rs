//! One of the databases that a suite runs on, and what it costs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::AnalyticsArgs;
use crate::measure::Result;
use crate::measure::process_tree::{Look, Machine, Used, tick_ns};
use crate::measure::workplace::Workplace;
use crate::sql::ledger;
use crate::sql::open::open_side;
use crate::sql::target::{Failure, Place, Session, Target};

/// A database with its session.
pub(super) struct Side {
    pub(super) target: Arc<dyn Target>,
    /// The process whose costs are its own, with all its children.
    pub(super) pid: Option<u32>,
    session: Option<Session>,
    /// Statements that each session begins with.
    settings: Vec<String>,
    _workplace: Option<Workplace>,
}

impl Side {
    /// Opens the database of a name.
    pub(super) fn open(name: &str, dir: Option<&PathBuf>, pid: Option<u32>, args: &AnalyticsArgs) -> Result<Self> {
        let opened = open_side(name, dir.map(PathBuf::as_path))?;
        if let Some(pid) = pid {
            ledger::ensure_server(pid, opened.target.place())?;
        }
        let mut settings = vec![format!("SET statement_timeout = {}", args.limit.as_millis())];
        let takes_settings = opened.target.sessions_max() > 1;
        settings.extend(args.set.iter().filter(|_| takes_settings).map(|setting| format!("SET {setting}")));
        Ok(Self { target: opened.target, pid, session: None, settings, _workplace: opened._workplace })
    }

    /// A session with all settings.
    pub(super) async fn connect(&self) -> std::result::Result<Session, Failure> {
        let mut session = self.target.connect(&[]).await?;
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        session.execute_all(&settings).await?;
        Ok(session)
    }

    /// The session that is kept between queries.
    pub(super) async fn session(&mut self) -> std::result::Result<&mut Session, Failure> {
        if self.session.as_ref().is_none_or(Session::is_broken) {
            self.session = Some(self.connect().await?);
        }
        self.session.as_mut().ok_or_else(|| Failure::answer("there is no session"))
    }

    /// The accounts of its processes. `None` if they are not known.
    pub(super) fn account(&self, before: Option<&Look>) -> Option<Look> {
        let pid = match self.target.place() {
            Place::InProcess => std::process::id(),
            _ => self.pid.or_else(|| self.target.pid())?,
        };
        Some(Look::take(&Machine::look().ok()?, pid, None, before))
    }
}

/// Processor time between two accounts.
pub(super) fn cpu(before: Option<&Look>, after: Option<&Look>) -> Option<Duration> {
    before.zip(after).map(|(before, after)| Duration::from_nanos(Used::between(before, after, tick_ns()).cpu_ns))
}
