//! Functions and procedures of users at work.
//!
//! ```text
//! SELECT f(a) ─► plan ─► expression ─► Own::call_routine ─► shell: a session within the session
//!                                                              │  its own plans, block, cursors …
//!                                                              └► body ─► statements ─► plan ─► …
//! DO, CALL ────────────────────────────────────────────────────► body
//! ```
//!
//! A plan has the session's transaction and settings by reference. Before it runs, the session moves
//! all else that statements need into a *shell*, another session ([`Session::lend`]). A call puts
//! the transaction and the settings into the shell, so that its body can run any statement there.
//!
//! | module | holds |
//! | --- | --- |
//! | `nested` | a statement of a body, run to its end in the transaction at hand; savepoints |
//! | `values` | variables: their values, and what they are to the statements of a body |
//! | `compile` | expressions and statements of a body, prepared once and kept |
//! | `run`, `loops`, `statements`, `raise`, `cursors` | PL/pgSQL |
//! | `conditions` | names of SQLSTATEs |
//! | `sql` | bodies in SQL |
//! | `tablefunc` | the functions of the extension of that name |
//!
//! Invariants: a body runs within one step of the statement that called it, and polls on the way
//! ([`pulse`]). What cannot be answered now takes the whole statement back, which runs again: an
//! interruption passes through bodies like an error that nobody handles. Calls inside each other
//! are bounded, and so is the stack that they take.

mod compile;
mod conditions;
mod cursors;
mod loops;
mod nested;
mod raise;
mod run;
mod sql;
mod statements;
mod tablefunc;
mod triggers;
mod values;

use std::collections::HashMap;
use std::sync::Arc;

use colibri_catalog::{ObjectId, Routine, RoutineLanguage};
use colibri_syntax::plpgsql;
use colibri_txn::Transaction;
use colibri_types::{Array, Datum, Env, Error, Result, SqlState, Type, pulse};
use compact_str::CompactString;

use super::Session;
use super::lent::Lent;
use super::own::Own;
use crate::expr::RoutineCall;

pub(super) use compile::Program;

/// Calls of functions inside each other, at most.
const DEPTH_MAX: u32 = 1_000;
/// Calls that a stack is trusted with: those behind them run on a larger one.
const DEPTH_SHALLOW: u32 = 12;
/// What remembers a function's program at most.
const PROGRAMS_MAX: usize = 256;

/// What calls inside each other share, and what is known of bodies.
#[derive(Default)]
pub(super) struct Calls {
    /// How many there are inside each other.
    depth: u32,
    /// How many of them are inside of an expression of a plan.
    within_plans: u32,
    /// Raised by each change of the catalogue in a transaction, and when one is taken back.
    pub(super) serial: u64,
    programs: HashMap<ObjectId, (Arc<Routine>, Arc<Program>)>,
    /// Cursors that bodies have opened, by the names of their portals.
    cursors: HashMap<CompactString, cursors::BodyCursor>,
    /// How many portals were named by number.
    portals: u64,
    /// Statements may not write: a function that is not VOLATILE is at work.
    pub(super) only_reads: bool,
    /// How many functions at work have the rights of their owners.
    definers: u32,
    /// Settings or rights of a procedure hold until it ends, so that no transaction may end within:
    /// how many of these are at work.
    atomic: u32,
    /// How many blocks that handle errors are at work.
    subtransactions: u32,
    /// How many transactions bodies have ended, of all statements.
    transactions: u64,
    /// The statement at hand has ended one.
    has_ended: bool,
    /// How many triggers are at work inside each other.
    triggers: u32,
    /// The tables of plans that call bodies, the outermost first.
    in_use: Vec<Vec<ObjectId>>,
}

impl Calls {
    /// Whether a function with the rights of its owner is at work.
    pub(super) fn has_definer(&self) -> bool {
        self.definers > 0
    }

    /// Whether a body is at work.
    pub(super) fn is_at_work(&self) -> bool {
        self.depth > 0
    }

    /// Whether something is at work that a transaction has to outlive.
    fn is_atomic(&self) -> bool {
        self.atomic > 0
    }

    fn has_subtransaction(&self) -> bool {
        self.subtransactions > 0
    }

    /// A statement begins.
    pub(super) fn begins(&mut self) {
        self.has_ended = false;
    }

    fn end_transaction(&mut self) {
        self.has_ended = true;
        self.transactions += 1;
    }

    /// Whether the statement at hand has ended a transaction: it cannot be taken back any more.
    pub(super) fn has_ended_transaction(&self) -> bool {
        self.has_ended
    }

    /// How many transactions bodies have ended.
    pub(super) fn transactions_ended(&self) -> u64 {
        self.transactions
    }

    /// How many triggers are at work inside each other.
    pub(super) fn triggers(&self) -> u32 {
        self.triggers
    }

    /// Whether a plan that reads or writes a table is at work.
    pub(super) fn is_in_use(&self, table: ObjectId) -> bool {
        self.in_use.iter().any(|tables| tables.contains(&table))
    }

    /// A plan is at work on some tables while it calls bodies; none of them: it is no more.
    pub(super) fn uses(&mut self, tables: Option<&[ObjectId]>) {
        match tables {
            Some(tables) => self.in_use.push(tables.to_vec()),
            None => _ = self.in_use.pop(),
        }
    }

    /// Closes the cursors of bodies: the transaction ends.
    pub(super) fn close_cursors(&mut self) {
        self.cursors.clear();
    }

    /// Closes the cursors of bodies whose serial number is above a given one.
    pub(super) fn close_cursors_after(&mut self, serial: u64) {
        self.cursors.retain(|_, cursor| cursor.serial <= serial);
    }
}

/// What a function's settings and rights have replaced.
struct Before {
    settings: super::Settings,
    authority: Arc<colibri_catalog::cluster::Authority>,
    user: CompactString,
    definers: u32,
}

impl Session {
    /// Whether a body is at work.
    pub(super) fn is_in_body(&self) -> bool {
        self.own.calls.depth > 0
    }

    /// A session for calls in plans of this one.
    fn new_shell(&self) -> Box<Self> {
        let own = self.own.stand_in();
        Box::new(Self::of_own(own))
    }

    /// Moves what statements need besides transaction and settings to where calls find it, and gives
    /// the transaction for the plan to work on.
    pub(super) fn lend(&mut self) -> Result<Lent> {
        let Some(txn) = self.txn.take() else { return Err(Error::internal("a statement has no transaction")) };
        let mut shell = match self.shell.take() {
            Some(shell) => shell,
            None => self.new_shell(),
        };
        shell.memory = Arc::clone(&self.memory);
        shell.cancel = Arc::clone(&self.cancel);
        shell.env.seeded = Arc::clone(&self.env.seeded);
        shell.long_work_hook.clone_from(&self.long_work_hook);
        self.exchange(&mut shell);
        self.own.shell = Some(shell);
        Ok(Lent::new(txn))
    }

    /// Takes back what was lent.
    pub(super) fn take_back_lent(&mut self, lent: Lent) {
        self.txn = lent.into_inner();
        if let Some(mut shell) = self.own.shell.take() {
            self.exchange(&mut shell);
            self.shell = Some(shell);
        }
    }

    /// Exchanges what belongs to the one that runs statements.
    fn exchange(&mut self, other: &mut Self) {
        use std::mem::swap;
        swap(&mut self.block, &mut other.block);
        swap(&mut self.plans, &mut other.plans);
        swap(&mut self.named, &mut other.named);
        swap(&mut self.notices, &mut other.notices);
        swap(&mut self.listed, &mut other.listed);
        swap(&mut self.cursors, &mut other.cursors);
        swap(&mut self.cursor_serial, &mut other.cursor_serial);
        swap(&mut self.fetch_depth, &mut other.fetch_depth);
        swap(&mut self.lists_sequences, &mut other.lists_sequences);
        swap(&mut self.state, &mut other.state);
        swap(&mut self.seen, &mut other.seen);
        swap(&mut self.looked_at, &mut other.looked_at);
        swap(&mut self.txn_until, &mut other.txn_until);
        swap(&mut self.settings_version, &mut other.settings_version);
        swap(&mut self.blocks_ended, &mut other.blocks_ended);
    }

    /// Runs a function: its rows as an array if it gives rows, else its value.
    pub(super) fn run_routine(&mut self, call: &RoutineCall, args: Vec<Datum>) -> Result<Datum> {
        let routine = &call.routine;
        if self.own.calls.depth >= DEPTH_MAX {
            return Err(too_deep());
        }
        self.own.calls.depth += 1;
        let depth = self.own.calls.depth;
        let given = if depth.is_multiple_of(DEPTH_SHALLOW) && !crate::statement::is_on_deep_stack() {
            crate::statement::on_deep_stack(|| self.run_with_settings(call, args))
        } else {
            self.run_with_settings(call, args)
        };
        self.own.calls.depth -= 1;
        let given = given?;
        if routine.set {
            return Ok(Datum::Array(Arc::new(Array::new(Type::Record, given))));
        }
        Ok(given.into_iter().next().unwrap_or_default())
    }

    /// Runs a function with the rights and the settings that it asks for.
    fn run_with_settings(&mut self, call: &RoutineCall, args: Vec<Datum>) -> Result<Vec<Datum>> {
        let routine = &call.routine;
        let only_reads = self.own.calls.only_reads;
        self.own.calls.only_reads |= routine.volatility != colibri_catalog::RoutineVolatility::Volatile;
        let given = self.take_on(routine).and_then(|before| {
            let is_atomic = before.is_some() || routine.language == RoutineLanguage::Sql;
            self.own.calls.atomic += u32::from(is_atomic);
            let given = match routine.language {
                RoutineLanguage::Sql => self.run_sql(call, args),
                RoutineLanguage::PlPgSql => self.run_plpgsql_function(call, args),
                RoutineLanguage::C => self.run_compiled(call, &args),
            };
            self.own.calls.atomic -= u32::from(is_atomic);
            self.take_off(before);
            given
        });
        self.own.calls.only_reads = only_reads;
        given
    }

    /// Takes on the settings and the rights that a function asks for.
    fn take_on(&mut self, routine: &Routine) -> Result<Option<Before>> {
        if routine.settings.is_empty() && !routine.security_definer {
            return Ok(None);
        }
        let before = Before {
            settings: self.own.settings.clone(),
            authority: Arc::clone(&self.own.authority),
            user: self.own.user.clone(),
            definers: self.own.calls.definers,
        };
        // Bug: what a failed statement goes back to was noted by the first SET in the body. Consequence:
        // the session stayed with what the function had set. Fix: it is noted before.
        if self.own.settings_before.is_none() {
            self.own.settings_before = Some(self.own.settings.clone());
        }
        for (name, value) in &routine.settings {
            if let Err(error) = self.set_for_routine(name, value) {
                self.take_off(Some(before));
                return Err(error);
            }
        }
        if routine.security_definer {
            self.become_owner(routine.owner);
            self.own.calls.definers += 1;
        }
        Ok(Some(before))
    }

    /// Goes back to what it was before.
    fn take_off(&mut self, before: Option<Before>) {
        let Some(Before { settings, authority, user, definers }) = before else { return };
        self.own.calls.definers = definers;
        self.own.settings.go_back_to(settings);
        self.settings_set();
        self.own.authority = authority;
        self.own.user = user;
        self.renew_search_path();
        self.env.surroundings = None;
        self.surround();
    }

    fn set_for_routine(&mut self, name: &str, value: &str) -> Result<()> {
        self.own.set(name, Some(value), true)?;
        self.settings_set();
        self.surround();
        Ok(())
    }

    /// Runs on with the rights of the owner of a function.
    fn become_owner(&mut self, owner: u32) {
        let roles = self.all_roles();
        let name = roles.get(owner).map(|role| role.name.clone());
        let authority = colibri_catalog::cluster::Authority::of(&roles, owner, self.own_database_info().owner);
        self.own.authority = Arc::new(authority);
        if let Some(name) = name {
            self.own.user = name.clone();
            self.env.user = name;
        }
        self.renew_search_path();
        self.env.surroundings = None;
        self.surround();
    }

    /// Runs something with another search path, and with the rights of another role.
    pub(crate) fn within_schema(
        &mut self,
        path: crate::surroundings::SearchPath,
        owner: Option<u32>,
        run: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let before = (Arc::clone(&self.own.authority), self.own.user.clone(), self.env.user.clone());
        if let Some(owner) = owner {
            self.become_owner(owner);
        }
        self.own.search_path = path;
        self.env.surroundings = None;
        self.surround();
        let ran = run(self);
        (self.own.authority, self.own.user, self.env.user) = before;
        self.renew_search_path();
        self.env.surroundings = None;
        self.surround();
        ran
    }

    /// `DO …`
    pub(crate) fn run_do(&mut self, language: Option<&CompactString>, body: &str) -> Result<()> {
        match language.map_or("plpgsql", |name| name.as_str()) {
            "plpgsql" => {}
            "sql" => {
                let message = "language \"sql\" does not support inline code execution";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            other => return Err(no_such_language(other)),
        }
        let body = plpgsql::parse(body).map_err(Error::without_position)?;
        let program = Arc::new(Program::of_block(body));
        self.own.calls.depth += 1;
        let done = self.run_block(&program);
        self.own.calls.depth -= 1;
        done
    }

    /// The program of a function's body.
    fn program_of(&mut self, routine: &Arc<Routine>) -> Result<Arc<Program>> {
        if let Some(program) = self.known_program(routine) {
            return Ok(program);
        }
        let body = plpgsql::parse(&routine.body).map_err(Error::without_position)?;
        let program = Arc::new(Program::of_routine(routine, body));
        self.keep_program(routine, &program);
        Ok(program)
    }

    fn known_program(&self, routine: &Arc<Routine>) -> Option<Arc<Program>> {
        let (known, program) = self.own.calls.programs.get(&routine.id)?;
        (Arc::ptr_eq(known, routine) || **known == **routine).then(|| Arc::clone(program))
    }

    fn keep_program(&mut self, routine: &Arc<Routine>, program: &Arc<Program>) {
        if self.own.calls.programs.len() >= PROGRAMS_MAX {
            self.own.calls.programs.clear();
        }
        self.own.calls.programs.insert(routine.id, (Arc::clone(routine), Arc::clone(program)));
    }

    /// What statements of the session reserve memory from.
    fn memory_of_statements(&self) -> &Arc<crate::exec::SessionMemory> {
        &self.memory
    }

    /// The state of a transaction to which bodies go back on errors.
    pub(super) fn is_within_plan(&self) -> bool {
        self.own.calls.within_plans > 0
    }
}

impl Own {
    /// A call in an expression of a plan.
    pub(super) fn call_within_plan(
        &mut self,
        txn: &mut dyn Transaction,
        env: &Env,
        run: impl FnOnce(&mut Session) -> Result<Datum>,
    ) -> Result<Datum> {
        let Some(mut shell) = self.shell.take() else {
            return Err(Error::unsupported("a call of such a function here"));
        };
        let Some(own_txn) = txn.lend() else {
            self.shell = Some(shell);
            return Err(Error::unsupported("a call of such a function here"));
        };
        self.calls.within_plans += 1;
        std::mem::swap(&mut shell.own, self);
        shell.txn = Some(own_txn);
        shell.env.clone_from(env);
        if shell.own.settings_changed {
            // The plan's surroundings are older than an earlier call that has changed settings.
            shell.heed_settings();
        }
        let given = run(&mut shell);
        if let Some(own_txn) = shell.txn.take() {
            txn.give_back(own_txn);
        }
        std::mem::swap(&mut shell.own, self);
        self.calls.within_plans -= 1;
        self.shell = Some(shell);
        pulse::check()?;
        given
    }
}

/// The error for calls that are too deep inside each other.
pub(super) fn too_deep() -> Error {
    Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded")
        .hint("Functions have called each other too often inside of each other.")
}

/// The error for a language that there is not.
pub(crate) fn no_such_language(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("language \"{name}\" does not exist"))
}
