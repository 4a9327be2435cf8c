//! Sessions: statements one after the other, in transactions.
//!
//! A statement is *prepared* (parsed, bound, planned; the plan is kept by its text) and *run* in steps, so that whoever
//! drives the session decides where it waits: [`Session::step`] never blocks, but says what it waits for. The blocking
//! drivers are here as well ([`Session::execute`], [`Session::run`]).
//!
//! How a statement that has to wait goes on: its operators have broken off with an error that names a lock; the
//! transaction takes the statement back; the driver waits for the lock; the next step moves the snapshot forward and runs
//! the statement from its start. So that nobody sees rows twice, statements that may break off keep their rows until the
//! end. A statement outside a transaction block that conflicts at its commit runs again as a whole.
//!
//! Invariants: after an error in a block every statement but its end is refused (25P02); rows leave a statement that
//! changed something, or saw what is not durable, only together with a ticket that says when they may be told.

pub(crate) mod activity;
mod calls;
mod control;
mod copy;
mod cursor;
mod engine;
mod named_cursor;
mod plans;
mod rows;
mod serve;
mod settings;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use colibri_storage::TxnId;
use colibri_txn::{
    Begin, ColumnSet, CommitTicket, IfLocked, Isolation, LocalTransaction, LockMode, LockWait, Remains, Savepoint,
    SpaceId, Transaction,
};
use compact_str::CompactString;
use smallvec::SmallVec;

use crate::catalog::{self, Catalog, catalog_space, table_key};
use crate::cluster::{self, Authority, Cluster, RoleId};
use crate::env::{self, Env};
use crate::error::{Error, Pause, Result, SqlState};
use crate::exec::{Batch, Context, Execution, Step};
use crate::types::Type;
use crate::value::Datum;

use activity::Counter;
use calls::Own;
pub use copy::{Copy, CopyFrom, CopyTo};
pub use cursor::Cursor;
pub use engine::Engine;
use named_cursor::{Fetch, OpenCursor};
use plans::{Command, Plans};
pub use plans::{Lifting, Prepared, ResultColumn};
pub use rows::Rows;
pub use serve::{Notice, Severity};
pub(crate) use settings::{Settings, for_catalog as settings_for_catalog};

/// The version that clients are told: that of the PostgreSQL whose SQL this follows.
pub(crate) const SERVER_VERSION: &str = "15.0";
/// What `version()` says.
pub(crate) const VERSION: &str = concat!("PostgreSQL 15.0 (Colibri ", env!("CARGO_PKG_VERSION"), ")");

/// Rows that a blocking driver lets a step look at.
const BUDGET_ROWS: i64 = 1 << 20;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionState {
    /// Between transactions.
    Idle,
    /// In a transaction block.
    Open,
    /// In a transaction block in which a statement has failed.
    Failed,
}

/// A session: one statement at a time.
pub struct Session {
    own: Own,
    env: Env,
    txn: Option<LocalTransaction>,
    /// What the last transaction left to the next one, if it only read.
    remains: Option<Remains>,
    /// What the last statement's rows were made in.
    batch: Batch,
    /// See [`Session::keep_rows`].
    rows: Rows,
    state: TransactionState,
    /// The transaction's own, while it has one.
    block: Block,
    plans: Plans,
    named: HashMap<CompactString, Arc<Prepared>>,
    cancel: Arc<AtomicBool>,
    /// The newest state that this session's transactions saw or made: later ones see at least that.
    seen: TxnId,
    notices: Vec<Notice>,
    settings_version: u32,
    /// The state of the database that was last looked at for the catalogue's version, and that version.
    looked_at: (TxnId, u64),
    /// The block at hand, or the next one, has conflicted before: it begins with the newest state, durable or not.
    repeats: bool,
    /// Cursors of the block at hand.
    cursors: HashMap<CompactString, Box<OpenCursor>>,
    /// Cursors that were declared so far.
    cursor_serial: u64,
}

/// What belongs to a transaction block.
struct Block {
    /// It was begun by the protocol, which ends it as well.
    implicit: bool,
    isolation: Isolation,
    read_only: bool,
    savepoints: Vec<NamedSavepoint>,
    /// Settings as they were before the block.
    settings_before: Option<settings::Settings>,
    /// Settings made by SET LOCAL.
    local: Vec<CompactString>,
    /// The catalogue was changed by the block.
    catalog_changed: bool,
    /// As whom statements ran before the block changed that, and whether it goes back at its end anyway.
    role_before: Option<(RoleId, bool)>,
    /// Something was read or written already: the isolation can no more be chosen.
    used: bool,
    /// Where statements have added to rows that others add to as well.
    added: SmallVec<[(SpaceId, Arc<Counter>); 4]>,
}

struct NamedSavepoint {
    name: CompactString,
    savepoint: Savepoint,
    catalog: Arc<Catalog>,
    catalog_changed: bool,
    settings: settings::Settings,
    /// Cursors that were declared before it.
    cursor_serial: u64,
}

/// What a step came to.
pub enum Progress {
    /// There are rows; take them, and step on.
    Rows,
    /// The budget is used up.
    Yield,
    /// Wait for this, then step on.
    Wait(LockWait),
    /// The statement is done. What it did, and what it gave, may be told outside when the ticket says so.
    Done(Completion),
}

/// How a statement ended.
pub struct Completion {
    /// As PostgreSQL's command tags: `SELECT 3`, `INSERT 0 1`.
    pub tag: String,
    /// For what ended a transaction; `None` within a block.
    pub ticket: Option<CommitTicket>,
}

/// A statement at work.
pub struct Running {
    prepared: Arc<Prepared>,
    params: Vec<Datum>,
    /// Begun outside a transaction block: it commits at its end.
    implicit: bool,
    stage: Stage,
    /// Its rows are kept until its end.
    keeps: bool,
    kept: Rows,
    rows: u64,
    /// When it began, if it is timed.
    begun: Option<Instant>,
    batch: Batch,
    /// The catalogue as the statement found it, and whether the block had changed it: for taking back a statement that
    /// may change it.
    catalog_before: Option<(Arc<Catalog>, bool)>,
}

/// What beginning a statement came to.
enum Begun {
    /// It was all there was to do.
    Done(Completion),
    /// It is to be stepped on with.
    Runs,
    /// It waits, and is then to be stepped on with.
    Waits(LockWait),
}

enum Stage {
    Begin,
    Running {
        execution: Execution,
        savepoint: Savepoint,
    },
    /// It has broken off: its transaction is to go back to here.
    Restart(Savepoint),
    Giving(Option<Completion>),
    /// It takes rows from a cursor.
    Fetch(Fetch),
    Over,
}

/// What a statement gave, all of it.
#[derive(Debug)]
pub struct Answer {
    /// Names and types of the columns; empty if it gives no rows.
    pub columns: Vec<ResultColumn>,
    /// The rows.
    pub rows: Rows,
    /// As PostgreSQL's command tags.
    pub tag: String,
}

impl Session {
    /// A session of a user on a database by itself: without a server around it, where whoever is there may do everything.
    #[must_use]
    pub fn new(engine: &Arc<Engine>, user: &str) -> Self {
        Self::with_number(engine, user, engine.new_session_number())
    }

    /// A session on a database of a cluster, of a user whose name is proven. `pid` is the number by which it is cancelled.
    ///
    /// # Errors
    /// As [`cluster::admit`].
    pub fn in_cluster(engine: &Arc<Engine>, cluster: &Arc<dyn Cluster>, user: &str, pid: i32) -> Result<Self> {
        let (role, _) = cluster::admit(&**cluster, user, engine.name())?;
        let mut session = Self::with_number(engine, user, pid);
        session.own.cluster = Some(Arc::clone(cluster));
        session.own.session_user = role;
        session.own.login_role = role;
        session.renew_authority(role);
        Ok(session)
    }

    /// Looks up again what a role may do.
    fn renew_authority(&mut self, role: RoleId) {
        let Some(cluster) = &self.own.cluster else { return };
        // Before looking: what changes meanwhile is looked up once more.
        let version = cluster.version();
        let owner = cluster.databases().into_iter().find(|known| known.name == self.own.engine.name());
        let owner = owner.map_or(cluster::BOOTSTRAP_ROLE, |database| database.owner);
        let roles = cluster.roles();
        self.own.authority = Arc::new(Authority::of(&roles, role, owner));
        self.own.user = roles.name_of(role);
        self.own.cluster_version = version;
        self.env.user = self.own.user.clone();
        self.env.surroundings = None;
    }

    fn with_number(engine: &Arc<Engine>, user: &str, number: i32) -> Self {
        let settings = settings::Settings::default();
        let own = Own {
            number,
            presence: engine.activity().enter(number),
            cluster: None,
            session_user: cluster::BOOTSTRAP_ROLE,
            session_name: user.into(),
            login_role: cluster::BOOTSTRAP_ROLE,
            login: user.into(),
            user: user.into(),
            authority: Arc::new(Authority::superuser()),
            cluster_version: 0,
            search_path: settings.search_path(user),
            settings,
            catalog: Arc::default(),
            current: HashMap::new(),
            last: None,
            settings_changed: false,
            restarted: HashMap::new(),
            engine: Arc::clone(engine),
        };
        let mut session = Self {
            env: Env { user: user.into(), database: engine.name().into(), ..Env::default() },
            own,
            txn: None,
            remains: None,
            batch: Batch::default(),
            rows: Rows::default(),
            state: TransactionState::Idle,
            block: Block::default(),
            plans: Plans::default(),
            named: HashMap::new(),
            cancel: Arc::default(),
            seen: TxnId(0),
            notices: Vec::new(),
            settings_version: 0,
            looked_at: (TxnId(0), 0),
            repeats: false,
            cursors: HashMap::new(),
            cursor_serial: 0,
        };
        session.settings_set();
        session
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        self.state
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.own.number
    }

    /// The database it works on.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.own.engine
    }

    /// Set this to true to end the statement at work (57014). It is taken back by the next statement.
    #[must_use]
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// A setting's value, as SHOW gives it.
    ///
    /// # Errors
    /// If there is no such setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        self.own.settings.show(name)
    }

    /// What values are turned to text with: the time zone, above all.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The catalogue as the session saw it last.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.own.catalog
    }

    fn settings_set(&mut self) {
        let settings = &self.own.settings;
        if let Ok(zone) = crate::datetime::Zone::parse(settings.text("timezone")) {
            self.env.zone = zone;
        }
        self.env.extra_float_digits = settings.text("extra_float_digits").parse().unwrap_or(1);
        self.own.search_path = settings.search_path(&self.own.user);
        self.env.surroundings = None;
        if let Some(schema) = self.own.search_path.iter().find(|schema| self.own.catalog.schema(schema).is_some()) {
            self.env.schema = schema.clone();
        }
        self.own.settings_changed = false;
        self.settings_version = self.settings_version.wrapping_add(1);
    }

    /// Tells functions of the catalogue and the server, if what they know is not of now.
    pub(super) fn surround(&mut self) {
        if let Some(known) = &self.env.surroundings
            && Arc::ptr_eq(&known.catalog, &self.own.catalog)
        {
            return;
        }
        let roles = match &self.own.cluster {
            Some(_) => None,
            None => Some(Arc::new(cluster::Roles::new(&self.own.user))),
        };
        self.env.surroundings = Some(Arc::new(env::Surroundings {
            catalog: Arc::clone(&self.own.catalog),
            search_path: self.own.search_path.clone(),
            engine: Some(Arc::clone(&self.own.engine)),
            cluster: self.own.cluster.clone(),
            roles,
            authority: Some(Arc::clone(&self.own.authority)),
            settings: self.own.settings.clone(),
            pid: self.own.number,
        }));
    }

    // ---- transactions ----

    fn default_isolation(&self) -> Isolation {
        self.own.settings.hot().isolation
    }

    /// Makes sure that there is a transaction, and that the catalogue is the one it sees.
    fn ensure_txn(&mut self, begin: Begin) -> Result<()> {
        if self.txn.is_none() {
            self.begin_txn(begin, env::clock_us())?;
        }
        self.see_catalog()
    }

    /// Begins a transaction, at a time in microseconds since 2000-01-01 00:00 UTC.
    fn begin_txn(&mut self, begin: Begin, now_us: i64) -> Result<()> {
        self.env.transaction_us = now_us;
        let txn = match self.remains.take() {
            Some(remains) => remains.begin_after(begin, self.seen)?,
            None => self.own.engine.store.begin_after(begin, self.seen)?,
        };
        if !begin.read_only {
            self.own.presence.works_as(Some(txn.id()));
        }
        self.txn = Some(txn);
        Ok(())
    }

    fn see_catalog(&mut self) -> Result<()> {
        let Some(txn) = &mut self.txn else { return Ok(()) };
        if self.block.catalog_changed {
            return Ok(());
        }
        if self.looked_at.0 != txn.sees() {
            self.looked_at = (txn.sees(), Catalog::version_seen_by(txn)?);
        }
        let version = self.looked_at.1;
        if self.own.catalog.version != version {
            self.own.catalog = match self.own.engine.catalog(version) {
                Some(catalog) => catalog,
                None => {
                    let catalog = Arc::new(Catalog::load(txn)?);
                    self.own.engine.keep_catalog(&catalog);
                    catalog
                }
            };
        }
        Ok(())
    }

    /// Commits, and tells when it is durable.
    fn commit_txn(&mut self) -> Result<Option<CommitTicket>> {
        let catalog_changed = self.block.catalog_changed;
        let Some(txn) = self.txn.take() else { return Ok(None) };
        match txn.commit_leaving(&mut self.remains) {
            Ok(ticket) => {
                self.seen = self.seen.max(ticket.seen());
                if catalog_changed {
                    self.own.engine.keep_catalog(&self.own.catalog);
                }
                if !self.own.restarted.is_empty() {
                    for restarted in std::mem::take(&mut self.own.restarted).into_values() {
                        restarted.keep(&self.own.engine)?;
                    }
                }
                Ok(Some(ticket))
            }
            Err(error) => {
                self.forget_catalog();
                Err(error.into())
            }
        }
    }

    /// Takes the transaction back. What it saw may have been told: the ticket says when that is durable.
    fn abort_txn(&mut self) -> Option<CommitTicket> {
        let txn = self.txn.take()?;
        self.own.engine.activity().roll_back();
        let ticket = txn.ticket_of_reads();
        drop(txn);
        self.forget_catalog();
        Some(ticket)
    }

    fn forget_catalog(&mut self) {
        self.own.restarted.clear();
        if std::mem::take(&mut self.block.catalog_changed) {
            // The version's number will be given to somebody else's.
            self.own.catalog = Arc::default();
        }
    }

    /// Ends a block: what was set for it alone is taken back, all if it did not commit.
    fn end_block(&mut self, committed: bool) {
        if let Some((role, local)) = self.block.role_before.take()
            && (local || !committed)
        {
            self.renew_authority(role);
        }
        if let Some(before) = self.block.settings_before.take() {
            if committed {
                for name in std::mem::take(&mut self.block.local) {
                    self.own.settings.restore(&before, &name);
                }
            } else {
                self.own.settings = before;
            }
            self.settings_set();
        }
        self.block = Block::default();
        if !self.cursors.is_empty() {
            self.forget_cursors();
        }
        self.repeats = false;
        self.state = TransactionState::Idle;
    }

    // ---- for statements that change the catalogue ----

    /// The catalogue, to be changed together with the transaction.
    pub(crate) fn catalog_and_txn(&mut self) -> Result<(&mut Arc<Catalog>, &mut LocalTransaction)> {
        match &mut self.txn {
            Some(txn) => Ok((&mut self.own.catalog, txn)),
            None => Err(Error::internal("a statement has no transaction")),
        }
    }

    pub(crate) fn catalog_changed(&mut self) {
        self.block.catalog_changed = true;
        self.surround();
    }

    /// Makes functions forget the catalogue: it is about to change, and need not be copied for their sake.
    pub(crate) fn forget_surroundings(&mut self) {
        self.env.surroundings = None;
    }

    /// As whom statements run.
    pub(crate) fn role(&self) -> RoleId {
        self.own.authority.role
    }

    /// What the user may do.
    pub(crate) fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.own.authority)
    }

    /// As whom the session is.
    pub(crate) fn session_role(&self) -> RoleId {
        self.own.session_user
    }

    /// The server around.
    pub(crate) fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.own.cluster.clone()
    }

    /// The roles there are; without a server, the user alone.
    pub(crate) fn all_roles(&self) -> Arc<cluster::Roles> {
        match &self.own.cluster {
            Some(cluster) => cluster.roles(),
            None => Arc::new(cluster::Roles::new(&self.own.login)),
        }
    }

    /// The database at hand, as the server knows it.
    pub(crate) fn own_database_info(&self) -> cluster::DatabaseInfo {
        let all = self.own.cluster.as_ref().map(|cluster| cluster.databases()).unwrap_or_default();
        let name = self.own.engine.name();
        all.into_iter().find(|database| database.name == name).unwrap_or_else(|| cluster::DatabaseInfo {
            oid: 5,
            name: name.into(),
            owner: cluster::BOOTSTRAP_ROLE,
            allow_connections: true,
            connection_limit: -1,
            acl: None,
        })
    }

    /// Whether whoever logged in is a superuser.
    pub(crate) fn logged_in_as_superuser(&self) -> bool {
        let roles = self.all_roles();
        self.own.cluster.is_none() || roles.get(self.own.login_role).is_some_and(|role| role.superuser)
    }

    /// Runs statements as another role from now on, `local`: until the block ends.
    pub(crate) fn become_role(&mut self, role: RoleId, local: bool) -> Result<()> {
        if local && self.state == TransactionState::Idle {
            return Ok(());
        }
        if self.state != TransactionState::Idle {
            let before = self.block.role_before.map_or(self.role(), |(role, _)| role);
            self.block.role_before = Some((before, local));
        }
        self.renew_authority(role);
        self.settings_set();
        Ok(())
    }

    /// Makes the session one of another role; `None`: of whoever logged in.
    pub(crate) fn become_session(&mut self, user: Option<(RoleId, &str)>) -> Result<()> {
        self.own.session_user = user.map_or(self.own.login_role, |(role, _)| role);
        self.own.session_name = user.map_or_else(|| self.own.login.clone(), |(_, name)| name.into());
        self.become_role(self.own.session_user, false)
    }

    pub(crate) fn discard_plans(&mut self) {
        self.plans.clear();
    }

    pub(crate) fn discard_sequences(&mut self) {
        self.own.current.clear();
        self.own.last = None;
    }

    pub(crate) fn search_path(&self) -> &[CompactString] {
        &self.own.search_path
    }

    /// Runs something that needs what operators need.
    pub(crate) fn with_context<T>(
        &mut self,
        run: impl FnOnce(&mut dyn Transaction, &mut Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let memory_bytes_max = self.own.settings.hot().work_bytes;
        let Some(txn) = &mut self.txn else { return Err(Error::internal("a statement has no transaction")) };
        let mut cx = Context {
            env: &self.env,
            params: &[],
            session: &mut self.own,
            cancel: &self.cancel,
            memory_bytes_max,
            budget_rows: i64::MAX,
        };
        run(txn, &mut cx)
    }

    /// A sequence goes back to its start, or to a value, if the transaction commits.
    pub(crate) fn restart_sequence(&mut self, sequence: &Arc<catalog::Sequence>, at: Option<i64>) {
        self.own.restarted.insert(sequence.id, calls::Restarted::new(sequence, at));
    }

    // ---- statements ----

    /// Prepares a statement; its text holds no more than one. Types of parameters may be given, or left to be found.
    ///
    /// # Errors
    /// Syntax, names, types: whatever can be said of a statement before it runs.
    pub fn prepare(&mut self, text: &str, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        if self.state == TransactionState::Failed {
            if crate::admin::parse(text)?.is_some() || named_cursor::parse(text)?.is_some() {
                return Err(in_failed_block());
            }
            let ends = match crate::statement::scan(text)? {
                scanned if scanned.is_deep() => false,
                scanned => scanned.parse()?.iter().all(control::ends_block),
            };
            if !ends {
                return Err(in_failed_block());
            }
        }
        let had_txn = self.txn.is_some();
        if !had_txn {
            self.ensure_txn(Begin { read_only: true, ..Begin::default() })?;
        } else {
            self.see_catalog()?;
        }
        let prepared = self.prepare_in_txn(text, types);
        if !had_txn {
            self.txn = None;
        }
        if prepared.is_err() && self.state == TransactionState::Open {
            self.state = TransactionState::Failed;
        }
        prepared
    }

    /// Begins to run a statement.
    ///
    /// # Errors
    /// If a failed block has to be ended first, or the parameters do not fit.
    pub fn start(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<Running> {
        self.cancel.store(false, Ordering::Relaxed);
        if let Some(cluster) = &self.own.cluster
            && cluster.version() != self.own.cluster_version
        {
            self.renew_authority(self.own.authority.role);
        }
        if self.state == TransactionState::Failed && !prepared.ends_block() {
            return Err(in_failed_block());
        }
        if params.is_empty() && !prepared.params.is_empty() {
            return Err(Error::new(SqlState::NO_SUCH_PARAMETER, "there is no parameter $1"));
        }
        if params.len() != prepared.params.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement requires {}",
                params.len(),
                prepared.params.len()
            );
            return Err(Error::new(SqlState("08P01"), message));
        }
        self.env.statement_us = env::clock_us();
        Ok(self.at_start(prepared, params))
    }

    /// No rows, perhaps with memory for a few: see [`Session::keep_rows`].
    #[must_use]
    pub fn spare_rows(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }

    /// Takes back rows that were told, for the memory of the next ones: not more than a few kilobytes of it is kept.
    pub fn keep_rows(&mut self, rows: Rows) {
        self.rows = rows.emptied();
    }

    fn at_start(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Running {
        Running {
            prepared: Arc::clone(prepared),
            params,
            implicit: self.state == TransactionState::Idle,
            stage: Stage::Begin,
            keeps: false,
            kept: Rows::default(),
            rows: 0,
            begun: prepared.counter.as_ref().and_then(|counter| counter.begin()),
            batch: std::mem::take(&mut self.batch),
            catalog_before: None,
        }
    }

    /// Goes on with a statement, for about as many rows looked at as the budget says. Puts rows into `out`.
    ///
    /// # Errors
    /// The statement's. It is over then, and taken back.
    pub fn step(&mut self, running: &mut Running, out: &mut Rows, budget_rows: i64) -> Result<Progress> {
        match self.advance(running, out, budget_rows) {
            Ok(progress) => Ok(progress),
            Err(error) if self.runs_again_after(running, &error) => {
                self.abort_txn();
                self.end_block(false);
                running.kept.clear();
                running.rows = 0;
                running.stage = Stage::Begin;
                if let Some(counter) = &running.prepared.counter {
                    counter.conflicted();
                }
                Ok(Progress::Yield)
            }
            Err(error) => {
                self.statement_failed(running);
                Err(error)
            }
        }
    }

    /// Whether a statement that is a transaction by itself has failed for others' sake only, and nobody has seen anything
    /// of it: then it runs again, unseen.
    fn runs_again_after(&self, running: &Running, error: &Error) -> bool {
        let repeats = matches!(running.prepared.command, Command::Plan { .. } | Command::Utility(_));
        error.is_retryable()
            && running.implicit
            && self.state == TransactionState::Idle
            && repeats
            && (running.keeps || running.rows == 0)
            && !self.cancel.load(Ordering::Relaxed)
    }

    fn statement_failed(&mut self, running: &mut Running) {
        running.stage = Stage::Over;
        if running.implicit {
            self.abort_txn();
            self.end_block(false);
        } else if self.state != TransactionState::Idle {
            self.state = TransactionState::Failed;
        }
    }

    fn advance(&mut self, running: &mut Running, out: &mut Rows, mut budget_rows: i64) -> Result<Progress> {
        loop {
            if matches!(running.stage, Stage::Begin)
                && !self.cursors.is_empty()
                && self.disturbs_cursors(running)
                && let Some(progress) = self.settle_cursors(budget_rows)?
            {
                return Ok(progress);
            }
            match &mut running.stage {
                Stage::Begin => match self.begin_statement(running)? {
                    Begun::Done(completion) => {
                        running.stage = Stage::Over;
                        return Ok(Progress::Done(completion));
                    }
                    Begun::Waits(wait) => return Ok(Progress::Wait(wait)),
                    Begun::Runs => {}
                },
                Stage::Restart(savepoint) => {
                    let savepoint = *savepoint;
                    self.take_back(running, savepoint)?;
                    if let Begun::Waits(wait) = self.begin_again(running, savepoint)? {
                        return Ok(Progress::Wait(wait));
                    }
                }
                Stage::Running { .. } => match self.run_statement(running, out, &mut budget_rows) {
                    Ok(Some(progress)) => return Ok(progress),
                    Ok(None) => {}
                    Err(error) => {
                        if let Some(wait) = self.pause(running, error)? {
                            return Ok(Progress::Wait(wait));
                        }
                    }
                },
                Stage::Giving(completion) => {
                    if !running.kept.is_empty() {
                        out.append(&mut running.kept);
                        return Ok(Progress::Rows);
                    }
                    let completion = completion.take();
                    running.stage = Stage::Over;
                    return Ok(Progress::Done(completion.ok_or_else(|| Error::internal("a statement ended twice"))?));
                }
                Stage::Fetch(fetch) => match self.fetch_on(fetch, out, budget_rows)? {
                    Some(progress) => return Ok(progress),
                    None => running.stage = Stage::Giving(Some(Completion { tag: fetch.tag(), ticket: None })),
                },
                Stage::Over => return Err(Error::internal("the statement is over")),
            }
        }
    }

    /// Remembers of statements that added to rows that one of those rows was read in the same transaction.
    fn note_read_back(&mut self) {
        if self.block.added.is_empty() {
            return;
        }
        let Some(space) = self.txn.as_mut().and_then(LocalTransaction::take_read_back) else { return };
        for (_, counter) in self.block.added.iter().filter(|(added_to, _)| *added_to == space) {
            counter.note_read_back();
        }
    }

    /// What an error that says to wait or to run again leads to. Others are handed on.
    fn pause(&mut self, running: &mut Running, error: Error) -> Result<Option<LockWait>> {
        self.note_read_back();
        let savepoint = match &running.stage {
            Stage::Running { savepoint, .. } | Stage::Restart(savepoint) => *savepoint,
            _ => return Err(error),
        };
        let pause = match error.pause() {
            Some(pause) if running.rows == 0 || running.keeps => pause.clone(),
            // Rows are out already: the statement cannot run again.
            Some(_) => {
                return Err(Error::new(
                    SqlState::SERIALIZATION_FAILURE,
                    "could not serialize access due to concurrent update",
                )
                .hint("The transaction might succeed if retried."));
            }
            None => {
                // What failed is taken back, so that a block can go on behind a savepoint. What wrote nothing (a cursor may
                // have begun a while ago) takes nothing with it that others did meanwhile.
                if let (Some(txn), false, true) = (&mut self.txn, running.implicit, running.prepared.writes) {
                    txn.rollback_to(savepoint)?;
                }
                return Err(error);
            }
        };
        running.kept.clear();
        running.rows = 0;
        running.stage = Stage::Restart(savepoint);
        if let Some(counter) = &running.prepared.counter {
            counter.conflicted();
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
        }
        match pause {
            Pause::Stale => Ok(None),
            Pause::Wait(wait) => Ok(wait.lock().take()),
        }
    }

    fn take_back(&mut self, running: &Running, savepoint: Savepoint) -> Result<()> {
        if let Some((catalog, changed)) = &running.catalog_before {
            self.own.catalog = Arc::clone(catalog);
            self.block.catalog_changed = *changed;
        }
        self.take_back_to(savepoint)
    }

    fn take_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if let Some(txn) = &mut self.txn {
            txn.restart(savepoint)?;
        }
        self.see_catalog()
    }

    /// Begins a statement, which may be all there is to do.
    fn begin_statement(&mut self, running: &mut Running) -> Result<Begun> {
        let prepared = Arc::clone(&running.prepared);
        if let Command::Control(statement) = &prepared.command {
            return self.control(statement).map(Begun::Done);
        }
        if let Command::Cursor(_) = &prepared.command {
            return Ok(self.cursor_statement(running)?.map_or(Begun::Runs, Begun::Done));
        }
        let begin = if running.implicit {
            let writes = prepared.writes || prepared.locks;
            let read_only = self.own.settings.hot().is_read_only;
            Begin {
                isolation: self.default_isolation(),
                // What only reads is serializable as of its snapshot: nothing needs to be remembered.
                read_only: read_only || !writes,
                newest: writes,
            }
        } else {
            Begin { isolation: self.block.isolation, read_only: self.block.read_only, newest: self.repeats }
        };
        self.block.used = true;
        if self.txn.is_none() {
            self.begin_txn(begin, self.env.statement_us)?;
        }
        if begin.read_only && prepared.writes {
            let message = format!("cannot execute {} in a read-only transaction", prepared.tag());
            return Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message));
        }
        let Some(txn) = &mut self.txn else { return Err(Error::internal("a statement has no transaction")) };
        let savepoint = txn.begin_statement()?;
        self.see_catalog()?;
        if !matches!(prepared.command, Command::Plan { .. }) {
            running.catalog_before = Some((Arc::clone(&self.own.catalog), self.block.catalog_changed));
        }
        self.begin_again(running, savepoint)
    }

    fn begin_again(&mut self, running: &mut Running, savepoint: Savepoint) -> Result<Begun> {
        running.stage = Stage::Restart(savepoint);
        self.surround();
        if let Some(renewed) = self.renewed(&running.prepared)? {
            running.prepared = renewed;
        }
        let prepared = Arc::clone(&running.prepared);
        match self.begin_command(running, &prepared, savepoint) {
            Ok(()) => Ok(Begun::Runs),
            // A lock that could not be had at the very start, or a newer catalogue.
            Err(error) => Ok(self.pause(running, error)?.map_or(Begun::Runs, Begun::Waits)),
        }
    }

    fn begin_command(&mut self, running: &mut Running, prepared: &Arc<Prepared>, savepoint: Savepoint) -> Result<()> {
        match &prepared.command {
            Command::Plan { fragment, .. } => {
                self.depend(prepared)?;
                let txn = self.txn.as_ref().ok_or_else(|| Error::internal("a statement has no transaction"))?;
                running.keeps = prepared.writes || prepared.locks || txn.has_writes();
                let mut execution = Execution::new(Arc::clone(fragment));
                if let (Some(space), Some(counter), false) = (prepared.adds_to, &prepared.counter, running.implicit) {
                    match counter.is_read_back() {
                        true => execution.add_alone(),
                        false => self.block.note_added(space, counter),
                    }
                }
                running.stage = Stage::Running { execution, savepoint };
                Ok(())
            }
            Command::Utility(statement) => {
                let (rows, tag) = self.utility(statement, &running.params)?;
                running.kept = rows;
                running.rows = 0;
                let ticket = self.finish_implicit(running)?;
                running.stage = Stage::Giving(Some(Completion { tag, ticket }));
                Ok(())
            }
            Command::Admin(statement) => {
                self.administer(statement)?;
                let ticket = self.finish_implicit(running)?;
                let tag = statement.tag().to_owned();
                running.stage = Stage::Giving(Some(Completion { tag, ticket }));
                Ok(())
            }
            Command::Empty => {
                let ticket = self.finish_implicit(running)?;
                running.stage = Stage::Giving(Some(Completion { tag: String::new(), ticket }));
                Ok(())
            }
            Command::Control(_) | Command::Cursor(_) => Err(Error::internal("what ends a transaction runs within one")),
        }
    }

    /// Makes the transaction depend on the tables of a plan being what the plan takes them for.
    fn depend(&mut self, prepared: &Prepared) -> Result<()> {
        let Some(txn) = &mut self.txn else { return Ok(()) };
        if txn.begun().read_only {
            return Ok(());
        }
        let space = catalog_space();
        // What is read is not validated then, and a foreign key's action may write to any of the tables.
        let locks_all = prepared.writes && txn.begun().isolation == Isolation::ReadCommitted;
        for &id in &prepared.used {
            // Before the lock, which is had only if what was read of the table is as it was.
            txn.get(&space, &table_key(id), ColumnSet::ALL)?;
            if locks_all || Some(id) == prepared.target {
                // Changes of the table wait until this transaction has ended.
                txn.lock(&space, &table_key(id), LockMode::Add, IfLocked::Wait)?;
            }
        }
        Ok(())
    }

    fn run_statement(
        &mut self,
        running: &mut Running,
        out: &mut Rows,
        budget_rows: &mut i64,
    ) -> Result<Option<Progress>> {
        let Stage::Running { execution, .. } = &mut running.stage else { return Ok(None) };
        let Some(txn) = &mut self.txn else { return Err(Error::internal("a statement has no transaction")) };
        let memory_bytes_max = self.own.settings.hot().work_bytes;
        let mut cx = Context {
            env: &self.env,
            params: &running.params,
            session: &mut self.own,
            cancel: &self.cancel,
            memory_bytes_max,
            budget_rows: *budget_rows,
        };
        let step = execution.step(txn, &mut cx, &mut running.batch)?;
        *budget_rows = cx.budget_rows;
        match step {
            Step::Rows => {
                let width = running.prepared.columns.len();
                let rows = if running.keeps { &mut running.kept } else { out };
                for index in 0..running.batch.rows() {
                    let row = running.batch.row_mut(index);
                    let width = width.min(row.len());
                    rows.push_exchanged(&mut row[..width]);
                }
                running.rows += running.batch.rows() as u64;
                Ok(if running.keeps { None } else { Some(Progress::Rows) })
            }
            Step::Yield => Ok(Some(Progress::Yield)),
            Step::Done => {
                let affected = execution.affected().unwrap_or(running.rows);
                let tag = running.prepared.completed(affected);
                if let Some(counter) = &running.prepared.counter {
                    counter.end(running.begun.take(), affected);
                }
                self.note_read_back();
                self.batch = std::mem::take(&mut running.batch).emptied();
                if self.own.settings_changed {
                    self.settings_set();
                }
                let ticket = self.finish_implicit(running)?;
                running.stage = Stage::Giving(Some(Completion { tag, ticket }));
                Ok(None)
            }
        }
    }

    /// Commits what was begun for one statement.
    fn finish_implicit(&mut self, running: &Running) -> Result<Option<CommitTicket>> {
        if !running.implicit || self.state != TransactionState::Idle {
            return Ok(None);
        }
        let ticket = self.commit_txn()?;
        self.block = Block::default();
        Ok(ticket)
    }

    // ---- blocking drivers ----

    /// Runs a prepared statement to its end, and waits until what it did is durable.
    ///
    /// # Errors
    /// The statement's; `55P03` after `lock_timeout`, `57014` after `statement_timeout`.
    pub fn execute(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<Answer> {
        let mut rows = Rows::default();
        let (columns, tag) = self.drive(prepared, params, &mut rows, &mut |_| Ok(()))?;
        Ok(Answer { columns, rows, tag })
    }

    /// As [`Session::execute`], handing rows on as they come.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn drive(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Datum>,
        rows: &mut Rows,
        take: &mut dyn FnMut(&mut Rows) -> Result<()>,
    ) -> Result<(Vec<ResultColumn>, String)> {
        let deadline = self.own.settings.hot().statement_timeout.map(|limit| Instant::now() + limit);
        let mut running = self.start(prepared, params)?;
        loop {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.statement_failed(&mut running);
                return Err(Error::new(SqlState::CANCELED, "canceling statement due to statement timeout"));
            }
            match self.step(&mut running, rows, if deadline.is_some() { BUDGET_ROWS >> 4 } else { BUDGET_ROWS })? {
                Progress::Rows => take(rows)?,
                Progress::Yield => {}
                Progress::Wait(wait) => {
                    if let Err(error) = wait_now(wait, &self.own.settings, &self.cancel) {
                        self.statement_failed(&mut running);
                        return Err(error);
                    }
                }
                Progress::Done(completion) => {
                    if let Some(ticket) = completion.ticket {
                        self.seen = self.seen.max(ticket.wait()?);
                    }
                    return Ok((running.prepared.columns.clone(), completion.tag));
                }
            }
        }
    }

    /// For tests: when literals are lifted out of texts.
    #[doc(hidden)]
    pub fn set_lifting(&mut self, lifting: Lifting) {
        self.plans.lifting = lifting;
    }

    /// Runs all statements of a text, one after the other, each in a transaction of its own unless the text says
    /// otherwise.
    ///
    /// # Errors
    /// The first that fails; those before it stay.
    pub fn run(&mut self, text: &str) -> Result<Vec<Answer>> {
        if let Some((prepared, values)) = self.prepare_lifted(text) {
            return Ok(vec![self.execute(&prepared, values)?]);
        }
        let mut answers = Vec::new();
        for part in crate::statement::split(text)? {
            let prepared = self.prepare(part, &[])?;
            answers.push(self.execute(&prepared, Vec::new())?);
        }
        Ok(answers)
    }
}

/// Waits for a lock, as long as the settings allow.
fn wait_now(wait: LockWait, settings: &settings::Settings, cancel: &AtomicBool) -> Result<()> {
    /// How often a waiting thread looks whether it was cancelled.
    const LOOK_AGAIN: Duration = Duration::from_millis(100);
    let deadline = settings.duration("lock_timeout").map(|limit| Instant::now() + limit);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if wait.wait_for(left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)) {
            return Ok(());
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        }
    }
}

fn isolation_of(name: &str) -> Isolation {
    match name {
        "read committed" | "read uncommitted" => Isolation::ReadCommitted,
        _ => Isolation::Serializable,
    }
}

fn in_failed_block() -> Error {
    Error::new(
        SqlState::FAILED_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

impl Block {
    fn note_added(&mut self, space: SpaceId, counter: &Arc<Counter>) {
        /// Of a long transaction with many statements, the first ones.
        const STATEMENTS_MAX: usize = 16;
        let is_known = self.added.iter().any(|(_, known)| Arc::ptr_eq(known, counter));
        if !is_known && self.added.len() < STATEMENTS_MAX {
            self.added.push((space, Arc::clone(counter)));
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self {
            implicit: false,
            isolation: Isolation::Serializable,
            read_only: false,
            savepoints: Vec::new(),
            settings_before: None,
            local: Vec::new(),
            catalog_changed: false,
            role_before: None,
            used: false,
            added: SmallVec::new(),
        }
    }
}
