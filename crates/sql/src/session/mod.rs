//! Sessions: statements one after the other, in transactions.
//!
//! A statement is *prepared* (parsed, bound, planned; the plan is kept by its text) and *run* in
//! steps, so that the caller decides where it waits: [`Session::step`] never blocks, but returns
//! what it waits for. The blocking drivers are here as well ([`Session::execute`],
//! [`Session::run`]).
//!
//! | module | holds |
//! | --- | --- |
//! | `step` | a statement at work: begun, stepped on with, broken off and run again |
//! | `plans`, `recipes` | preparing, and the plans that are kept: by a session, and for others to share |
//! | `block`, `control` | transaction blocks; COMMIT, ROLLBACK, savepoints, EXPLAIN and their kin |
//! | `identity`, `settings`, `set` | who the session is and what it may do; what can be set, and setting it |
//! | `named_cursor`, `cursor`, `copy` | DECLARE and FETCH; rows piece by piece for the library; COPY |
//! | `drive`, `serve` | a thread that waits; what the server needs besides |
//! | `routine`, `lent` | functions of users, DO and CALL; the transaction that they take over |
//! | `carry` | a session that goes on at another server |
//! | `advisory` | locks by numbers that applications make up |
//! | `notifications` | LISTEN and NOTIFY |
//! | `topics` | retention of messages, waiting for them, and the functions under the extension `topic` |
//! | `sizes`, `samples`, `guesses` | how large tables and ranges are, for a plan that is made; plans for other values |
//! | `sequences` | values of sequences |
//! | `temporary` | temporary objects, and the store beside the database that they are in |
//! | `sealed_scratch` | temporary files of statements where the database is encrypted |
//! | `engine`, `activity`, `own`, `rows` | what sessions share; what they tell of themselves; a session's state that functions ask for; rows that are given |
//!
//! How a statement waits for a lock: its operators end the step with an interruption that names the
//! lock; the transaction takes the statement back; the driver waits for the lock; the next step
//! moves the snapshot forward and runs the statement from its start. For rows that have to be
//! fetched the next step goes on where the last one ended. Statements that may have to wait for
//! locks keep their rows until the end, so that no row is given twice. A statement outside a
//! transaction block that conflicts at its commit runs again as a whole.
//!
//! Invariants: after an error in a block every statement but its end is refused (25P02); rows of a
//! statement that changed something, or saw what is not durable, come with a ticket that says when
//! they may be sent to the client.

pub(crate) mod activity;
pub(crate) mod advisory;
mod block;
mod carry;
mod control;
mod copy;
mod cursor;
mod deferral;
mod drive;
mod engine;
mod guesses;
mod identity;
mod lent;
#[cfg(test)]
mod long_work;
mod named_cursor;
mod notifications;
mod own;
mod plans;
mod recipes;
mod routine;
mod rows;
mod samples;
mod sealed_scratch;
mod sequences;
mod serve;
mod set;
mod settings;
mod sizes;
mod step;
mod stored_form;
mod temporary;
mod topics;
pub(crate) mod two_phase;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use colibri_catalog::{self, Catalog, cluster, cluster::Authority};
use colibri_storage::TxnId;
use colibri_txn::{QueuedCommit, Remains, Transaction};
use colibri_types::encoding::Encoding;
use colibri_types::env::Thresholds;
use colibri_types::{Env, Error, Result, pulse, pulse::Pulse};
use compact_str::CompactString;

use crate::exec::parallel::Helpers;
use crate::exec::{Batch, Context, SessionMemory};
use crate::surroundings::Listed;
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;
use block::Block;
pub use carry::{Carried, CarriedStatement, Stays};
pub use copy::{Awaited, Copy, CopyFrom, CopyTo};
pub use cursor::Cursor;
pub use drive::{Answer, rows_of_tag};
pub use engine::{Access, Engine};
use named_cursor::OpenCursor;
pub use named_cursor::with_count;
pub use notifications::{Arrived, Inbox, Notification};
use own::Own;
use plans::Plans;
pub use plans::{Lifting, Prepared, ResultColumn};
pub(crate) use routine::no_such_language;
pub use rows::Rows;
pub(crate) use sequences::OwnSequence;
pub use serve::{Notice, Severity};
pub(crate) use set::flatten as flatten_setting;
pub(crate) use settings::{Modes, Settings, for_catalog as settings_for_catalog};
pub use step::{Completion, Progress, Running};
pub(crate) use temporary::TemporaryPlaces;

/// The version for clients: that of the PostgreSQL whose SQL Colibri follows.
pub(crate) const SERVER_VERSION: &str = "15.0";
/// What `version()` says.
pub(crate) const VERSION: &str = concat!("PostgreSQL 15.0 (Colibri ", env!("CARGO_PKG_VERSION"), ")");

/// The budget of a step of a blocking driver, in rows.
const BUDGET_ROWS: i64 = 1 << 20;

/// The state of a session.
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
    txn: Option<Box<dyn Transaction>>,
    /// The transaction, while it waits for others who commit.
    committing: Option<QueuedCommit>,
    /// The prepared transaction that the statement at hand ends.
    finishing: Option<two_phase::About>,
    /// The snapshot of the last transaction for the next one, if it was read-only.
    remains: Option<Box<dyn Remains>>,
    /// When the transaction is too old for the store, if it ever is.
    txn_until: Option<Instant>,
    /// Memory reserved for its statements.
    memory: Arc<SessionMemory>,
    /// The batch that the last statement's rows are in.
    batch: Batch,
    /// See [`Session::keep_rows`].
    rows: Rows,
    state: TransactionState,
    /// The transaction's own, while it has one.
    block: Block,
    plans: Plans,
    named: HashMap<CompactString, Arc<Prepared>, foldhash::fast::RandomState>,
    cancel: Arc<AtomicBool>,
    /// See [`Session::set_long_work_hook`].
    long_work_hook: Option<pulse::Hook>,
    /// Polls the cancel flag and the hook. The thread uses it while the session works.
    pulse: Option<Pulse>,
    /// The cancel flag was set while a text's shape was prepared. The text itself, which is
    /// prepared next, is cancelled.
    canceled_early: bool,
    /// The newest state that this session's transactions saw or made: later ones see at least that.
    seen: TxnId,
    notices: Vec<Notice>,
    settings_version: u32,
    /// The database state in which the catalogue's version was last read, and that version.
    looked_at: (TxnId, u64),
    /// The current block, or the next one, runs again after a conflict: it begins with the newest
    /// state, durable or not.
    repeats: bool,
    /// Cursors and prepared statements as the catalogue lists them.
    listed: Arc<Listed>,
    /// Cursors of the current block.
    cursors: HashMap<CompactString, Box<OpenCursor>>,
    /// A buffer for the rows of a cursor's query.
    cursor_rows: Rows,
    /// The number of cursors declared so far.
    cursor_serial: u64,
    /// How many portals of FETCH are at work within each other.
    fetch_depth: u32,
    /// Whether functions of the catalogue know of sequences of the transaction's own.
    lists_sequences: bool,
    /// Whether a cursor's query is being prepared.
    marks_rows: bool,
    /// The number of blocks that have ended.
    blocks_ended: u64,
    /// What functions of users run in, while none is at work.
    shell: Option<Box<Session>>,
}

impl Session {
    /// A session on a database without a server. Its user is a superuser.
    #[must_use]
    pub fn new(engine: &Arc<Engine>, user: &str) -> Self {
        Self::with_number(engine, user, engine.new_session_number())
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
            modes: None,
            settings_changed: false,
            settings_before: None,
            role_numbers: HashMap::new(),
            advisory: advisory::Advisory::default(),
            own_sequences: HashMap::new(),
            temporary: None,
            read_only: false,
            deferral: deferral::Deferral::default(),
            notifications: notifications::Notifications::default(),
            last_commit: None,
            helpers: None,
            engine: Arc::clone(engine),
            capabilities: engine.store.capabilities(),
            shell: None,
            calls: routine::Calls::default(),
        };
        let mut session = Self::of_own(own);
        session.settings_set();
        session
    }

    /// A session whose settings are still to be heeded.
    fn of_own(own: Own) -> Self {
        let (engine, settings_limits) = (Arc::clone(&own.engine), own.settings.hot().memory);
        Self {
            env: Env { user: own.user.clone(), database: engine.name().into(), ..Env::default() },
            own,
            txn: None,
            committing: None,
            finishing: None,
            remains: None,
            txn_until: None,
            memory: SessionMemory::new(engine.memory(), settings_limits),
            batch: Batch::default(),
            rows: Rows::default(),
            state: TransactionState::Idle,
            block: Block::default(),
            plans: Plans::default(),
            named: HashMap::default(),
            cancel: Arc::default(),
            long_work_hook: None,
            pulse: None,
            canceled_early: false,
            seen: TxnId(0),
            notices: Vec::new(),
            settings_version: 0,
            looked_at: (TxnId(0), 0),
            repeats: false,
            listed: Arc::default(),
            cursors: HashMap::new(),
            cursor_rows: Rows::default(),
            cursor_serial: 0,
            fetch_depth: 0,
            lists_sequences: false,
            marks_rows: false,
            blocks_ended: 0,
            shell: None,
        }
    }

    /// The state of the session.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        self.state
    }

    /// The session's number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.own.number
    }

    /// The database it works on.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.own.engine
    }

    /// Refuses a statement that writes.
    pub(crate) fn refusal(&self, message: String) -> Error {
        self.own.refusal(message)
    }

    /// Set this to true to cancel the running statement (57014). The next statement clears it.
    #[must_use]
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Sets a function that is called about every 50 µs during work that cannot be suspended, on
    /// the thread of the step. It can let others run, and set the cancel flag, which is checked
    /// afterwards. Its callers hold no locks.
    pub fn set_long_work_hook(&mut self, hook: Option<Arc<dyn Fn() + Send + Sync>>) {
        self.long_work_hook = hook;
        self.pulse = None;
    }

    /// Sets who may help with long statements.
    pub fn set_helpers(&mut self, helpers: Option<Arc<dyn Helpers>>) {
        self.own.helpers = helpers;
    }

    /// Runs a closure with this session's polling.
    #[inline]
    fn at_work<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let new = || Pulse::new(self.long_work_hook.clone(), &self.cancel);
        let at_work = self.pulse.take().unwrap_or_else(new).begin();
        let done = work(self);
        self.pulse = at_work.end();
        done
    }

    /// A setting's value, as SHOW gives it.
    ///
    /// # Errors
    /// If there is no such setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        self.own.show(name)
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
        self.heed_roles();
        self.heed_modes();
        let settings = &self.own.settings;
        if let Some(zone) = colibri_types::datetime::zone_of_shown(settings.text("timezone")) {
            self.env.zone = zone;
        }
        self.env.dates = colibri_types::datetime::DateStyle::of_shown(settings.text("datestyle"));
        self.env.intervals = colibri_types::datetime::IntervalStyle::named(settings.text("intervalstyle"));
        self.env.extra_float_digits = settings.text("extra_float_digits").parse().unwrap_or(1);
        self.env.escapes_bytes = settings.text("bytea_output") == "escape";
        self.env.xml_is_document = settings.text("xmloption") == "document";
        self.env.client_encoding = Encoding::named(settings.text("client_encoding")).unwrap_or_default();
        let threshold = |name: &str, usual: f64| settings.text(name).parse().unwrap_or(usual);
        let usual = Thresholds::default();
        self.env.trigram_thresholds = Thresholds {
            similarity: threshold("pg_trgm.similarity_threshold", usual.similarity),
            word_similarity: threshold("pg_trgm.word_similarity_threshold", usual.word_similarity),
            strict_word_similarity: threshold("pg_trgm.strict_word_similarity_threshold", usual.strict_word_similarity),
        };
        self.renew_search_path();
        self.env.surroundings = None;
        if let Some(schema) = self.own.creation_path().iter().find(|schema| self.own.catalog.schema(schema).is_some()) {
            self.env.schema = schema.clone();
        }
        self.own.settings_changed = false;
        self.settings_version = self.settings_version.wrapping_add(1);
    }

    /// Gives the functions the present catalogue and server, if theirs are outdated.
    pub(super) fn surround(&mut self) {
        if self.lists_sequences || !self.own.own_sequences.is_empty() {
            self.lists_sequences = !self.own.own_sequences.is_empty();
            self.listed.sequences.lock().clone_from(&self.own.own_sequences);
        }
        if self.env.surroundings.is_some() && Arc::ptr_eq(&self.env.names().catalog, &self.own.catalog) {
            return;
        }
        let roles = match &self.own.cluster {
            Some(_) => None,
            None => Some(Arc::new(cluster::Roles::new(&self.own.user))),
        };
        self.env.surroundings = Some(Arc::new(Surroundings {
            catalog: Arc::clone(&self.own.catalog),
            search_path: self.own.search_path.clone(),
            engine: Some(Arc::clone(&self.own.engine)),
            cluster: self.own.cluster.clone(),
            roles,
            authority: Some(Arc::clone(&self.own.authority)),
            settings: self.own.settings.clone(),
            modes: self.own.modes,
            pid: self.own.number,
            temporary_places: self.own.temporary_places(),
            listed: Arc::clone(&self.listed),
        }));
        self.env.text_search = crate::system::search::number_of_setting(
            &self.own.catalog,
            &self.own.search_path,
            self.own.settings.text("default_text_search_config"),
        )
        .unwrap_or(0);
    }

    // ---- for statements that change the catalogue ----

    /// The transaction's copy of the catalogue, to be changed.
    pub(crate) fn catalog_and_txn(&mut self) -> Result<(&mut Arc<Catalog>, &mut dyn Transaction)> {
        match &mut self.txn {
            Some(txn) => Ok((&mut self.own.catalog, &mut **txn)),
            None => Err(Error::internal("a statement has no transaction")),
        }
    }

    /// Finds out where names are looked for: the setting and the user have an effect on it, and so
    /// have temporary objects.
    pub(crate) fn renew_search_path(&mut self) {
        self.own.search_path = self.own.settings.search_path(&self.own.user);
        if let Some(temporary) = &self.own.temporary {
            self.own.search_path = temporary.within(&self.own.search_path);
        }
    }

    /// Whether the store has to fetch what is read.
    pub(crate) fn store_fetches(&self) -> bool {
        self.own.capabilities.fetches
    }

    /// The transaction has changed the database's catalogue, or the session's temporary objects.
    pub(crate) fn catalog_changed(&mut self, of_database: bool, of_session: bool) {
        self.own.calls.serial += 1;
        self.block.catalog_changed |= of_database;
        self.block.temporary_changed |= of_session;
        self.surround();
    }

    /// Takes the catalogue away from the functions: it is about to change, and must not be copied
    /// for them.
    pub(crate) fn forget_surroundings(&mut self) {
        self.env.surroundings = None;
    }

    pub(crate) fn discard_plans(&mut self) {
        self.plans.clear();
    }

    pub(crate) fn discard_sequences(&mut self) {
        self.own.current.clear();
        self.own.last = None;
    }

    /// The schemas of the search path in which new objects are made.
    pub(crate) fn creation_path(&self) -> &[CompactString] {
        self.own.creation_path()
    }

    pub(crate) fn search_path(&self) -> &[CompactString] {
        &self.own.search_path
    }

    /// Runs something that needs what operators need.
    pub(crate) fn with_context<T>(
        &mut self,
        run: impl FnOnce(&mut dyn Transaction, &mut Context<'_>) -> Result<T>,
    ) -> Result<T> {
        self.memory.set_limits(self.own.settings.hot().memory);
        // What runs may call functions of users.
        let mut lent = self.lend()?;
        let mut cx = Context {
            env: &self.env,
            params: &[],
            session: &mut self.own,
            cancel: &self.cancel,
            memory: &self.memory,
            budget_rows: pulse::ROWS_AT_ONCE,
        };
        let done = run(&mut lent, &mut cx);
        self.take_back_lent(lent);
        done
    }

    /// Resets a sequence to its start, or to a value, if the transaction commits.
    pub(crate) fn restart_sequence(&mut self, sequence: &Arc<colibri_catalog::Sequence>, at: Option<i64>) {
        self.own.set_back(sequence, at.unwrap_or(sequence.start));
    }

    /// Changes the properties of a sequence, which keeps its position.
    pub(crate) fn keep_place(&mut self, sequence: &colibri_catalog::Sequence) -> Result<()> {
        self.own.change_sequence(sequence)
    }

    /// What a sequence gave last, or will give first.
    pub(crate) fn place_of(&self, sequence: &colibri_catalog::Sequence) -> Result<i64> {
        Ok(self.own.place_of(sequence)?.value)
    }

    /// Adds a new sequence.
    pub(crate) fn add_sequence(&mut self, sequence: &colibri_catalog::Sequence) {
        self.own.add_sequence(sequence);
    }
}
