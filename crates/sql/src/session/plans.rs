//! Prepared statements: what is known of a statement before it runs, and the plans kept by their
//! text.
//!
//! Most of that follows from the text and the catalogue, and is the same for all sessions: the
//! [`Recipe`], which they share (see [`recipes`](super::recipes)). So the plans of what many
//! sessions run lie in the processor's caches once, and not once a session.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use colibri_catalog::cluster::{Authority, RoleId};
use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{Table, record};
use colibri_syntax::Lifted;
use colibri_syntax::tree::{Admin, Call, Inner, Setting, Statement, Transaction as TransactionStatement};
use colibri_txn::SpaceId;
use colibri_types::datetime::{DateStyle, IntervalStyle};
use colibri_types::{ColumnType, Datum, Error, Modifier, Result, SqlState, Type, pulse};
use compact_str::CompactString;
use sqlparser::ast;

use super::activity::Counter;
use super::guesses::{Decided, Guess, ROWS_SMALL, Variants};
use super::named_cursor::CursorStatement;
use super::sizes::{ROWS_UNKNOWN, TxnSizes};
use super::{Session, TransactionState, control, set};
use crate::admin;
use crate::bind::routines::Variables;
use crate::bind::{Binder, CurrentOf, CursorRows, Need};
use crate::ddl;
use crate::exec::{Evaluate as _, Scope};
use crate::expr::{Expr, walk};
use crate::plan::{AssignedValue, Fragment, Node};
use crate::planner::{self, Main};
use crate::registry::builtin;
use crate::statement::Scanned;
use crate::surroundings::SearchPath;

/// Texts whose plans a session keeps.
const PLANS_MAX: usize = 512;
/// Bytes of a text of several statements worth looking at before it is read.
const KNOWN_PARTS_BYTES_MAX: usize = 16 << 10;
/// How many runs of a plan go by between looks at the sizes of its tables.
const RUNS_BETWEEN_LOOKS: u32 = 32;
/// A table that has grown or shrunk by this factor may deserve another plan.
const SIZE_FACTOR: f64 = 4.0;

const VIEW_OF_CURSORS: &[u8] = b"pg_cursors";

/// A column of a statement's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name.
    pub name: compact_str::CompactString,
    /// Its type.
    pub ty: ColumnType,
    /// The table and the number of its column that it comes from unchanged.
    pub origin: Option<(u32, i16)>,
}

/// A statement, ready to be run again and again by a session.
pub struct Prepared {
    pub(super) recipe: Arc<Recipe>,
    /// Whose privileges it was found to be within.
    authority: Arc<Authority>,
    runs: AtomicU32,
    pub(super) variants: Variants<Prepared>,
    /// What its runs did and cost.
    pub(super) counter: Option<Arc<Counter>>,
}

/// What follows from a statement's text and the catalogue.
pub struct Recipe {
    pub(super) text: String,
    pub(super) command: Command,
    pub(super) params: Vec<Type>,
    /// Those of its parameters that are values of domains.
    pub(super) param_domains: Vec<Option<ColumnType>>,
    pub(super) columns: Vec<ResultColumn>,
    /// Objects of the catalogue that it was made from.
    pub(super) used: Vec<u32>,
    /// The tables that it writes to.
    pub(super) targets: Vec<u32>,
    /// It changes something.
    pub(super) writes: bool,
    /// Its rows are in binary form, whatever the client says.
    pub(super) is_binary: bool,
    /// It locks rows.
    pub(super) locks: bool,
    /// It calls functions of users.
    pub(super) calls_routines: bool,
    /// It calls functions that change something, or give something else each time.
    pub(super) has_side_effects: bool,
    /// How strongly it locks rows, as SQL writes it.
    pub(super) row_lock: Option<&'static str>,
    /// Its text has the name of the view that lists cursors.
    pub(super) names_cursors: bool,
    /// It is a cursor's query, and this is where the keys of its tables' rows are in its rows.
    pub(super) cursor_rows: Option<CursorRows>,
    /// It changes the row that a cursor is on, whose key is in parameters behind those of the
    /// client.
    pub(super) current_of: Option<CurrentOf>,
    /// It changes rows by nothing but adding to them, here.
    pub(super) adds_to: Option<SpaceId>,
    pub(super) version: u64,
    /// The version of the session's temporary objects; 0 for one that is shared.
    pub(super) temporary_version: u64,
    pub(super) search_path: SearchPath,
    /// Privileges that whoever runs it has to have.
    needs: Vec<Need>,
    /// Sizes of tables that the plan was made for.
    sizes: Vec<(Arc<Table>, f64)>,
    /// What it was guessed that ranges of keys hold.
    pub(super) guesses: Vec<Guess>,
    /// Conditions over parameters alone; for each of their values it has another plan.
    pub(super) decisions: Vec<Expr>,
    /// What such conditions were taken to come to.
    pub(super) decided: Vec<Decided>,
    pub(super) variants: Variants<Recipe>,
    pub(super) param_hints: Vec<Option<Type>>,
    /// It follows from the session's settings or its user as well: nobody else's.
    pub(super) is_personal: bool,
    /// The settings by which dates and intervals were read that are constants of it.
    styles: (DateStyle, IntervalStyle),
    /// The setting `row_security` by which a personal one was made.
    row_security: bool,
    fixed_parts: OnceLock<Box<[Expr]>>,
}

impl Recipe {
    /// The tables that nobody may change the shape of while it is at work: those that it writes to, or
    /// else what it reads.
    pub(super) fn tables_in_use(&self) -> &[u32] {
        if self.writes { &self.targets } else { &self.used }
    }
}

impl Deref for Prepared {
    type Target = Recipe;

    fn deref(&self) -> &Recipe {
        &self.recipe
    }
}

#[expect(clippy::large_enum_variant, reason = "nearly all are plans, which an indirection would make slower")]
pub(super) enum Command {
    /// Nothing but blanks and comments.
    Empty,
    Plan {
        fragment: Fragment,
        kind: Kind,
    },
    /// Runs within a transaction.
    Utility(Box<Statement>),
    /// About roles, databases, privileges; within a transaction.
    Admin(Box<Admin>),
    /// Begins or ends a transaction, or needs none.
    Control(Box<Statement>),
    /// About settings; it needs no transaction.
    Set(Box<Setting>),
    /// Rows piece by piece.
    Cursor(CursorStatement),
    /// COPY, which is read again when it begins: what it copies is planned then.
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
}

/// Plans by text.
#[derive(Default)]
pub(super) struct Plans {
    by_text: HashMap<(String, Vec<Option<Type>>), Arc<Prepared>>,
    shapes: HashMap<String, Shape>,
    pub(super) lifting: Lifting,
    /// The values that the plan at hand is made for; none if it is made for average ones.
    pub(super) for_params: Vec<Datum>,
    /// What conditions over parameters come to in the plan at hand.
    pub(super) decided: Vec<Decided>,
}

/// What is known of texts without their literals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One was met.
    Seen,
    /// It can be prepared, and gives the same columns.
    Good,
    Bad,
}

/// When literals are lifted out of texts.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifting {
    Never,
    /// From the second text of a shape on: most that come twice come often.
    #[default]
    Repeated,
    Always,
}

impl Plans {
    pub(super) fn clear(&mut self) {
        self.by_text.clear();
        self.shapes.clear();
    }
}

impl Recipe {
    /// What it computes of its parameters and constants alone.
    fn fixed_parts(&self) -> &[Expr] {
        self.fixed_parts.get_or_init(|| {
            let mut parts = Vec::new();
            if let Command::Plan { fragment, .. } = &self.command {
                fragment.root.for_each_operator(&mut |node| {
                    node.for_each_expr(&mut |expr| walk::for_each_fixed(expr, &mut |part| parts.push(part.clone())));
                });
            }
            parts.into()
        })
    }
}

impl Prepared {
    /// Whether it is an EXPLAIN that does not run what it is asked about.
    pub(super) fn only_explains(&self) -> bool {
        matches!(&self.command, Command::Utility(statement)
            if matches!(&**statement, Statement::Explain(_)) && !control::may_lock(statement))
    }

    /// The statement.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.recipe.text
    }

    /// Types of its parameters.
    #[must_use]
    pub fn params(&self) -> &[Type] {
        &self.recipe.params
    }

    /// The same with the domains that they are values of.
    #[must_use]
    pub fn param_types(&self) -> Vec<ColumnType> {
        let domain = |at: usize| self.param_domains.get(at).copied().flatten();
        self.params().iter().enumerate().map(|(at, &ty)| domain(at).unwrap_or(ty.into())).collect()
    }

    /// What is known of the parameters' types beforehand when it is planned anew: the types that the
    /// client was told. That one is a value of a domain, the text says again.
    fn hints(&self) -> Vec<Option<Type>> {
        let is_told = |at: usize| {
            self.param_domains.get(at).is_some_and(Option::is_some)
                && !self.param_hints.get(at).is_some_and(Option::is_some)
        };
        self.params.iter().enumerate().map(|(at, &ty)| (!is_told(at)).then_some(ty)).collect()
    }

    /// The columns of its rows; `None` if it gives no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[ResultColumn]> {
        match &self.command {
            Command::Plan { kind: Kind::Select, .. }
            | Command::Cursor(CursorStatement::Fetch { is_known: true, .. }) => Some(&self.columns),
            _ => (!self.columns.is_empty()).then_some(&self.columns),
        }
    }

    /// Whether its rows are to be given in binary form to clients that ask by the simple protocol.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Whether its rows come while it runs. What writes, and what is no plan, runs to its end
    /// before the first of them is told, so that its errors come in front of everything.
    #[must_use]
    pub fn is_query(&self) -> bool {
        matches!(self.command, Command::Plan { kind: Kind::Select, .. }) && !self.writes
    }

    /// Fails with what its constants fail with, which is known before it runs.
    ///
    /// # Errors
    /// What evaluating them comes to.
    pub fn check_constants(&self) -> Result<()> {
        match &self.command {
            Command::Plan { fragment, .. } => fragment.fails.clone().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Whether it changes something.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Whether it changes more than temporary tables, which a transaction that only reads may.
    pub(super) fn writes_to_database(&self) -> bool {
        let is_plan = matches!(self.command, Command::Plan { .. });
        self.writes && !(is_plan && self.targets.iter().all(|&target| is_temporary(target)))
    }

    /// Whether all that it reads is temporary.
    pub(super) fn is_of_session(&self) -> bool {
        !self.used.is_empty() && self.used.iter().all(|&used| is_temporary(used))
    }

    /// Whether it changes what belongs to the server and not to the database.
    pub(super) fn is_of_server(&self) -> bool {
        matches!(&self.command, Command::Admin(statement) if admin::is_of_server(statement))
    }

    /// Whether it is nothing but blanks and comments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.command, Command::Empty)
    }

    /// Whether it may end a failed block.
    pub(super) fn ends_block(&self) -> bool {
        match &self.command {
            Command::Control(statement) => control::ends_block(statement),
            Command::Empty => true,
            _ => false,
        }
    }

    /// Whether it commits a block.
    pub(super) fn commits(&self) -> bool {
        matches!(&self.command, Command::Control(statement)
        if matches!(
            **statement,
            Statement::Transaction(TransactionStatement::Commit { .. } | TransactionStatement::Prepare(_))
        ))
    }

    pub(super) fn tag(&self) -> &'static str {
        match &self.command {
            Command::Empty => "",
            Command::Plan { kind, .. } => match kind {
                Kind::Select => "SELECT",
                Kind::Insert => "INSERT",
                Kind::Update => "UPDATE",
                Kind::Delete => "DELETE",
                Kind::Merge => "MERGE",
            },
            Command::Utility(statement) | Command::Control(statement) => control::tag(statement),
            Command::Admin(statement) => statement.tag(),
            Command::Set(statement) => statement.tag(),
            Command::Cursor(statement) => statement.tag(),
            Command::Copy => "COPY",
        }
    }

    /// The command tag for a number of rows.
    #[must_use]
    pub(super) fn completed(&self, rows: u64) -> CompactString {
        match &self.command {
            Command::Plan { kind: Kind::Insert, .. } => numbered("INSERT 0 ", rows),
            Command::Plan { kind: Kind::Select, .. } => numbered("SELECT ", rows),
            Command::Plan { kind: Kind::Update, .. } => numbered("UPDATE ", rows),
            Command::Plan { kind: Kind::Delete, .. } => numbered("DELETE ", rows),
            Command::Plan { kind: Kind::Merge, .. } => numbered("MERGE ", rows),
            _ => self.tag().into(),
        }
    }
}

/// Without the machinery of formatting for the number that most statements give.
fn numbered(tag: &str, rows: u64) -> CompactString {
    let mut text = CompactString::new(tag);
    match rows {
        0..=9 => text.push(char::from(b'0' + rows as u8)),
        _ => text.push_str(&rows.to_string()),
    }
    text
}

/// Whether two plans take parameters of the same types, and give the same columns.
fn gives_the_same(new: &Recipe, old: &Recipe) -> bool {
    new.params == old.params
        && new.columns.len() == old.columns.len()
        && new.columns.iter().zip(&old.columns).all(|(new, old)| new.ty == old.ty && new.name == old.name)
}

/// Where a plan's rows are, if it does nothing but add to them.
fn adds_to(node: &Node) -> Option<SpaceId> {
    let Node::Update(update) = node else { return None };
    let adds = |value: &AssignedValue| matches!(value, AssignedValue::Add { .. });
    update.assignments.iter().all(|assignment| adds(&assignment.value)).then(|| update.table.space().id)
}

impl Session {
    /// Prepares a text with its literals lifted out, if that gives the same; with their values.
    pub(super) fn prepare_lifted(&mut self, text: &str) -> Option<(Arc<Prepared>, Vec<Datum>)> {
        self.cancel.store(false, Ordering::Relaxed);
        let lifted = self.at_work(|session| session.prepare_lifted_shape(text));
        self.canceled_early = lifted.is_none() && self.cancel.load(Ordering::Relaxed);
        lifted
    }

    fn prepare_lifted_shape(&mut self, text: &str) -> Option<(Arc<Prepared>, Vec<Datum>)> {
        if self.plans.lifting == Lifting::Never || self.state == TransactionState::Failed || self.block.catalog_changed
        {
            return None;
        }
        let Lifted { text: shape, types, mut values } = colibri_syntax::lift(text)?;
        let known = match self.plans.shapes.get(&shape) {
            Some(known) => *known,
            None => {
                if self.plans.shapes.len() >= PLANS_MAX {
                    self.plans.shapes.clear();
                }
                self.plans.shapes.insert(shape.clone(), Shape::Seen);
                if self.plans.lifting == Lifting::Repeated {
                    return None;
                }
                Shape::Seen
            }
        };
        if known == Shape::Bad {
            return None;
        }
        let preparing = self.begin_preparing().ok()?;
        let prepared = self.prepare_shape(text, &shape, &types, known);
        self.end_preparing(preparing);
        let prepared = prepared.ok()??;
        // Strings become what they are compared with, or stored as; what is wrong with one is said
        // of the text itself.
        for ((value, hint), &ty) in values.iter_mut().zip(&types).zip(&prepared.params) {
            if hint.is_none() && ty != Type::Text {
                let Datum::Text(text) = &*value else { return None };
                let relative = !text.starts_with(|first: char| first.is_ascii_digit());
                if ty.category() == colibri_types::Category::DateTime && relative {
                    return None;
                }
                let context = colibri_types::cast::CastContext::Implicit;
                *value =
                    colibri_types::cast::cast(value, Type::Unknown, ty, Modifier::NONE, context, &self.env).ok()?;
            }
        }
        // What constants fail with is known before anything runs.
        // The key of a cursor's row comes behind the literals, when the statement begins.
        let mut scope = Scope::pure(&self.env, &values, &[]);
        if prepared.current_of.is_none()
            && prepared.fixed_parts().iter().any(|part| part.eval_owned(&mut scope, &[]).is_err())
        {
            return None;
        }
        Some((prepared, values))
    }

    /// The statements of a text, if the session has read each of them before, or one that differs
    /// in nothing but literals: there is no mistake in them.
    pub(super) fn known_parts<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        if self.plans.shapes.is_empty() || text.len() > KNOWN_PARTS_BYTES_MAX {
            return None;
        }
        let parts = crate::statement::scan(text).ok()?.plain_parts()?;
        let is_known = |part: &&str| match colibri_syntax::lift(part) {
            Some(shape) => self.plans.shapes.get(&shape.text) == Some(&Shape::Good),
            None => self.plans.by_text.contains_key(&((*part).to_owned(), Vec::new())),
        };
        parts.iter().all(is_known).then_some(parts)
    }

    fn prepare_shape(
        &mut self,
        text: &str,
        shape: &str,
        types: &[Option<Type>],
        known: Shape,
    ) -> Result<Option<Arc<Prepared>>> {
        if known == Shape::Good {
            return self.prepare_in_txn(shape, types).map(Some);
        }
        // What is wrong with the text says nothing of its shape.
        let plain = self.prepare_in_txn(text, &[])?;
        let is_of_literals = match &plain.command {
            Command::Plan { fragment, .. } => fragment.is_of_literals || fragment.fails.is_some(),
            _ => false,
        };
        let lifted = self.prepare_in_txn(shape, types).ok().filter(|lifted| {
            !is_of_literals
                && lifted.columns == plain.columns
                && lifted.params.len() == types.len()
                // What an explicit cast of a literal cuts, is an error in a parameter.
                && lifted.param_domains.iter().flatten().all(|ty| ty.modifier == Modifier::NONE)
                && matches!(lifted.command, Command::Plan { .. })
                && types.iter().zip(&lifted.params).all(|(hint, ty)| match hint {
                    Some(hint) => hint == ty,
                    // A literal is read by the fields of an interval's type, a parameter is not.
                    None => *ty != Type::Interval,
                })
        });
        let known = if lifted.is_some() { Shape::Good } else { Shape::Bad };
        self.plans.shapes.insert(shape.to_owned(), known);
        Ok(lifted)
    }

    /// Makes the plan of a cursor's query, in the transaction at hand: its rows come with their
    /// keys.
    pub(super) fn prepare_marked(&mut self, text: &str, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        self.marks_rows = true;
        let prepared = self.prepare_in_txn(text, types);
        self.marks_rows = false;
        prepared
    }

    /// The same for the query inside of DECLARE.
    pub(super) fn prepare_inner_marked(
        &mut self,
        text: &str,
        inner: &Inner,
        types: &[Option<Type>],
    ) -> Result<Arc<Prepared>> {
        self.marks_rows = true;
        let prepared = self.prepare_inner(text, inner, types);
        self.marks_rows = false;
        prepared
    }

    /// Finds or makes the plan of a statement, in the transaction at hand.
    pub(super) fn prepare_in_txn(&mut self, text: &str, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        if let Some(known) = self.known_plan(text, types)? {
            return Ok(known);
        }
        let recipe = Arc::new(self.prepare_by_depth(text, types)?);
        Ok(self.adopt_or_keep(recipe, types))
    }

    /// Finds or makes the plan of a statement inside of another one, which is read. The text is all
    /// of it.
    pub(super) fn prepare_inner(&mut self, text: &str, inner: &Inner, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        let own_text = &text[inner.bytes.clone()];
        if let Some(known) = self.known_plan(own_text, types)? {
            return Ok(known);
        }
        let recipe = Arc::new(self.prepare_relational(text, own_text, &inner.statement, types, None)?);
        Ok(self.adopt_or_keep(recipe, types))
    }

    /// The same of one that is not written as it is planned, with parameters that are declared to be
    /// values of domains, by their places.
    pub(super) fn prepare_declared(
        &mut self,
        text: &str,
        own_text: &str,
        statement: &ast::Statement,
        types: &[Option<Type>],
        domains: &[(usize, ColumnType)],
    ) -> Result<Arc<Prepared>> {
        self.surround();
        let mut recipe = self.prepare_relational(text, own_text, statement, types, None)?;
        recipe.param_domains.resize(recipe.params.len(), None);
        for &(at, ty) in domains {
            if let Some(domain) = recipe.param_domains.get_mut(at) {
                *domain = Some(ty);
            }
        }
        // The text does not tell all of it, so nobody else finds it.
        Ok(Arc::new(self.adopt(Arc::new(recipe))))
    }

    /// A plan that is kept, by the session or by others. Plans with marks are not.
    fn known_plan(&mut self, text: &str, types: &[Option<Type>]) -> Result<Option<Arc<Prepared>>> {
        if self.marks_rows {
            self.surround();
            return Ok(None);
        }
        let key = (text.to_owned(), types.to_vec());
        if let Some(prepared) = self.plans.by_text.get(&key).filter(|prepared| self.is_current(prepared)) {
            return Ok(Some(Arc::clone(prepared)));
        }
        self.surround();
        let Some(recipe) = self.shared_recipe(text, types) else { return Ok(None) };
        self.check_needs(&recipe.needs)?;
        recipe.needs.iter().try_for_each(|need| need.expect_populated(&self.own.catalog))?;
        Ok(Some(self.keep(key, recipe)))
    }

    /// A statement for this session, which is kept for the next time if that is worth while.
    fn adopt_or_keep(&mut self, recipe: Arc<Recipe>, types: &[Option<Type>]) -> Arc<Prepared> {
        let is_plan = matches!(recipe.command, Command::Plan { .. });
        let is_kept = is_plan || matches!(recipe.command, Command::Control(_) | Command::Set(_));
        // What a block's own changes of the catalogue led to is right for nobody else.
        if !is_kept || self.marks_rows || self.block.catalog_changed {
            return Arc::new(self.adopt(recipe));
        }
        if is_plan && !recipe.is_personal && self.own.temporary.is_none() {
            self.own.engine.recipes().keep(&recipe);
        }
        self.keep((recipe.text.clone(), types.to_vec()), recipe)
    }

    /// What another session knows of a text, if that is good for this one.
    fn shared_recipe(&self, text: &str, types: &[Option<Type>]) -> Option<Arc<Recipe>> {
        if self.block.catalog_changed || self.own.temporary.is_some() {
            return None;
        }
        let recipes = self.own.engine.recipes();
        let recipe = recipes.find(text, types, &self.own.search_path, self.own.catalog.version)?;
        if self.is_outgrown(&recipe) {
            recipes.forget(&recipe);
            return None;
        }
        Some(recipe)
    }

    /// Whether a plan was made for tables of quite other sizes than they have by now.
    pub(super) fn is_outgrown(&self, recipe: &Recipe) -> bool {
        let Some(txn) = self.txn.as_deref() else { return false };
        recipe.sizes.iter().any(|(table, before)| {
            let now = match txn.estimate(&table.space(), &record::whole_range()) {
                Ok(rows) => rows as f64,
                // It is not worth waiting for.
                Err(colibri_txn::Error::Interrupted(_)) => return false,
                Err(_) => ROWS_UNKNOWN,
            };
            let (small, large) = (now.min(*before), now.max(*before));
            large > ROWS_SMALL && large > small.max(1.0) * SIZE_FACTOR
        })
    }

    /// A statement for this session, whose privileges have been looked at.
    pub(super) fn adopt(&self, recipe: Arc<Recipe>) -> Prepared {
        let activity = self.own.engine.activity();
        let is_plan = matches!(recipe.command, Command::Plan { .. });
        let counter = is_plan.then(|| activity.counter(&self.own.user, &recipe.text));
        Prepared {
            recipe,
            authority: Arc::clone(&self.own.authority),
            runs: AtomicU32::new(0),
            variants: Variants::default(),
            counter,
        }
    }

    /// The same, and the next time that it is asked for.
    fn keep(&mut self, key: (String, Vec<Option<Type>>), recipe: Arc<Recipe>) -> Arc<Prepared> {
        let prepared = Arc::new(self.adopt(recipe));
        if self.plans.by_text.len() >= PLANS_MAX {
            self.plans.by_text.clear();
        }
        self.plans.by_text.insert(key, Arc::clone(&prepared));
        prepared
    }

    /// Prepares a statement on a stack that fits it. Some that look shallow turn out to be deep.
    fn prepare_by_depth(&mut self, text: &str, types: &[Option<Type>]) -> Result<Recipe> {
        self.by_depth(text, |session, scanned| session.prepare_scanned(text, scanned, types))
    }

    /// Does something with a text on a stack that fits it.
    pub(super) fn by_depth<T: Send>(
        &mut self,
        text: &str,
        mut make: impl FnMut(&mut Self, Scanned<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let scanned = crate::statement::scan(text)?;
        if !scanned.is_deep() {
            match make(self, scanned) {
                Err(error) if error.state() == SqlState::TOO_COMPLEX => {}
                made => return made,
            }
        }
        crate::statement::on_deep_stack(|| make(self, crate::statement::scan(text)?))
    }

    fn prepare_scanned(&mut self, text: &str, scanned: Scanned<'_>, types: &[Option<Type>]) -> Result<Recipe> {
        let mut statements = scanned.parse()?;
        if statements.len() > 1 {
            return Err(several_statements());
        }
        match statements.pop() {
            None => Ok(self.bare(text, Command::Empty)),
            Some(statement) => self.prepare_statement(text, statement, types),
        }
    }

    pub(super) fn bare(&self, text: &str, command: Command) -> Recipe {
        Recipe {
            text: text.to_owned(),
            command,
            params: Vec::new(),
            param_domains: Vec::new(),
            columns: Vec::new(),
            used: Vec::new(),
            targets: Vec::new(),
            writes: false,
            is_binary: false,
            locks: false,
            calls_routines: false,
            has_side_effects: false,
            row_lock: None,
            names_cursors: text
                .as_bytes()
                .windows(VIEW_OF_CURSORS.len())
                .any(|part| part.eq_ignore_ascii_case(VIEW_OF_CURSORS)),
            cursor_rows: None,
            current_of: None,
            adds_to: None,
            // The number of a catalogue that is not committed may become another's: no other block
            // may take it for its own.
            version: if self.block.catalog_changed { 0 } else { self.own.catalog.version },
            temporary_version: self.own.catalog.temporary_version(),
            search_path: self.own.search_path.clone(),
            needs: Vec::new(),
            sizes: Vec::new(),
            guesses: Vec::new(),
            decisions: Vec::new(),
            decided: Vec::new(),
            variants: Variants::default(),
            param_hints: Vec::new(),
            is_personal: false,
            styles: (self.env.dates, self.env.intervals),
            row_security: self.has_row_security(),
            fixed_parts: OnceLock::new(),
        }
    }

    pub(super) fn is_current(&self, prepared: &Prepared) -> bool {
        prepared.version == self.own.catalog.version
            && prepared.temporary_version == self.own.catalog.temporary_version()
            && !self.block.catalog_changed
            && prepared.search_path == self.own.search_path
            && (!prepared.is_personal
                || prepared.styles == (self.env.dates, self.env.intervals)
                    && prepared.row_security == self.has_row_security())
            && Arc::ptr_eq(&prepared.authority, &self.own.authority)
    }

    /// Another plan, if a statement's is not right for the catalogue that the transaction sees, or
    /// for the sizes of tables.
    pub(super) fn renewed(&mut self, prepared: &Prepared, params: &[Datum]) -> Result<Option<Arc<Prepared>>> {
        if !matches!(prepared.command, Command::Plan { .. }) {
            return Ok(None);
        }
        let current = self.is_current(prepared);
        if current {
            // Nobody else writes it.
            let runs = prepared.runs.load(Ordering::Relaxed);
            prepared.runs.store(runs.wrapping_add(1), Ordering::Relaxed);
            let look = prepared.sizes.len() > 1 || runs.is_multiple_of(RUNS_BETWEEN_LOOKS);
            if !look || !self.is_outgrown(prepared) {
                return self.variant(prepared, params, None);
            }
        }
        // Parameters keep the types that the client was told, whatever becomes of the columns that
        // they are meant for: their values are cast as those of other expressions are.
        let (text, hints) = (prepared.text.clone(), prepared.hints());
        let known = self.plans.by_text.get(&(text.clone(), hints.clone()));
        let known = known.filter(|known| self.is_current(known) && !self.is_outgrown(known)).cloned();
        let renewed = match known {
            _ if prepared.cursor_rows.is_some() => self.prepare_marked(&text, &hints)?,
            Some(known) => known,
            None => {
                self.plans.by_text.remove(&(text.clone(), prepared.param_hints.clone()));
                self.plans.by_text.remove(&(text.clone(), hints.clone()));
                self.prepare_in_txn(&text, &hints)?
            }
        };
        if !gives_the_same(&renewed, prepared) {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type"));
        }
        Ok(Some(renewed))
    }

    /// The columns of a statement's rows, as values of them are to be written: with the labels that
    /// the session sees now. A type may have got other labels since the statement was prepared, or
    /// since a cursor was opened.
    #[must_use]
    pub fn columns_now<'p>(&self, prepared: &'p Prepared) -> Option<Cow<'p, [ResultColumn]>> {
        prepared.columns().map(|columns| self.renewed_columns(columns))
    }

    /// As [`Session::columns_now`], for columns that are known.
    #[must_use]
    pub fn renewed_columns<'p>(&self, columns: &'p [ResultColumn]) -> Cow<'p, [ResultColumn]> {
        if columns.iter().all(|column| column.ty.ty.of_user().is_none()) {
            return Cow::Borrowed(columns);
        }
        let mut columns = columns.to_vec();
        for column in &mut columns {
            column.ty.ty = self.current_type(column.ty.ty);
        }
        Cow::Owned(columns)
    }

    /// A type as the session sees it now.
    pub(super) fn current_type(&self, ty: Type) -> Type {
        crate::bind::types::current_type(&self.own.catalog, ty).unwrap_or(ty)
    }

    /// The types of parameters as the newest catalogue has them: an enum may have got labels since
    /// the statement was prepared. Where they are of types such as `regclass`, the names in the
    /// parameters can be looked up afterwards.
    ///
    /// # Errors
    /// 42704 if a type is gone.
    pub fn current_types<'t>(&mut self, types: &'t [Type]) -> Result<Cow<'t, [Type]>> {
        let has_enums = types.iter().any(|ty| ty.of_user().is_some());
        let has_names = types.iter().any(|ty| ty.element().unwrap_or(*ty).is_reg());
        if !(has_enums || has_names) || self.state == TransactionState::Failed {
            return Ok(Cow::Borrowed(types));
        }
        let preparing = self.begin_preparing()?;
        let current = |&ty: &Type| crate::bind::types::current_type(&self.own.catalog, ty);
        let current = types.iter().map(current).collect::<Result<Vec<_>>>();
        self.end_preparing(preparing);
        if has_names {
            self.surround();
        }
        current.map(Cow::Owned)
    }

    /// The type that a user has defined with a number. Another session may have made it a moment
    /// ago, so one that is not known is looked for in the newest catalogue.
    ///
    /// # Errors
    /// What reading the catalogue fails with.
    pub fn type_numbered(&mut self, oid: u32) -> Result<Option<Type>> {
        let known = self.own.catalog.type_numbered(oid);
        if known.is_some() || oid < colibri_catalog::FIRST_USER_OBJECT || self.state == TransactionState::Failed {
            return Ok(known);
        }
        let preparing = self.begin_preparing()?;
        let found = self.own.catalog.type_numbered(oid);
        self.end_preparing(preparing);
        Ok(found)
    }

    /// Makes a plan for the values that a statement is run with: for how many rows these find, if they
    /// are given, and for what conditions come to. A statement of a body has variables.
    pub(super) fn recipe_for(
        &mut self,
        (prepared, variables): (&Prepared, Option<&dyn Variables>),
        params: &[Datum],
        decided: Vec<Decided>,
    ) -> Result<Recipe> {
        let (text, hints) = (prepared.text.clone(), prepared.hints());
        (self.plans.for_params, self.plans.decided) = (params.to_vec(), decided);
        let recipe = match variables {
            None => self.prepare_by_depth(&text, &hints),
            Some(variables) => self.recipe_in_body(&text, &prepared.param_hints, variables),
        };
        self.plans.for_params = Vec::new();
        let decided = std::mem::take(&mut self.plans.decided);
        let mut recipe = recipe?;
        if !params.is_empty() {
            recipe.guesses = Vec::new();
        }
        recipe.decisions = Vec::new();
        recipe.decided = decided;
        if !gives_the_same(&recipe, prepared) {
            return Err(Error::internal("a statement's plans give different columns"));
        }
        Ok(recipe)
    }

    /// CALL: what its procedure gives back is known before it runs.
    fn prepare_call(&mut self, text: &str, call: Box<Call>, types: &[Option<Type>]) -> Result<Recipe> {
        let sizes = TxnSizes::of(self)?;
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, types.to_vec());
        let (meant, _) = binder.procedure(&call.function)?;
        let params = binder.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect();
        let (needs, row) = (std::mem::take(&mut binder.needs), meant.row.clone());
        self.check_needs(&needs)?;
        let mut recipe = self.bare(text, Command::Empty);
        let fields = row.iter().flat_map(|row| &row.fields);
        recipe.columns = fields.map(|(name, ty)| ResultColumn { name: name.clone(), ty: *ty, origin: None }).collect();
        recipe.locks = true;
        recipe.params = params;
        recipe.command = Command::Utility(Box::new(Statement::Call(call)));
        Ok(recipe)
    }

    fn prepare_statement(&mut self, text: &str, statement: Statement, types: &[Option<Type>]) -> Result<Recipe> {
        Ok(match statement {
            Statement::Relational(statement) if !ddl::is_ddl(&statement) => {
                return self.prepare_relational(text, text, &statement, types, None);
            }
            Statement::Declare(_) | Statement::Fetch(_) | Statement::Close(_) => {
                return self.prepare_cursor(text, &statement, types);
            }
            Statement::Copy(_) => self.bare(text, Command::Copy),
            Statement::Call(call) => return self.prepare_call(text, call, types),
            Statement::Setting(statement) => {
                let mut recipe = self.bare(text, Command::Empty);
                recipe.columns = set::columns(&statement, self);
                recipe.command = Command::Set(statement);
                recipe
            }
            Statement::Admin(statement) => {
                let mut recipe = self.bare(text, Command::Empty);
                recipe.writes = admin::writes(&statement);
                // What it runs may write, and may have to run again.
                recipe.locks = admin::runs_body(&statement);
                recipe.command = Command::Admin(statement);
                recipe
            }
            // The others keep the tree, and the catalogue its text.
            _ if crate::statement::is_on_deep_stack() => return Err(crate::statement::too_deep()),
            Statement::Transaction(_) | Statement::Deallocate(_) | Statement::Discard(_) => {
                self.bare(text, Command::Control(Box::new(statement)))
            }
            Statement::Relational(_) | Statement::Prepare(_) | Statement::Execute(_) | Statement::Explain(_) => {
                let mut recipe = self.bare(text, Command::Empty);
                recipe.writes = control::writes(&statement);
                recipe.locks = control::may_lock(&statement);
                recipe.columns = self.utility_columns(&statement)?;
                recipe.params = self.params_of_explained(text, &statement, types)?;
                recipe.command = Command::Utility(Box::new(statement));
                recipe
            }
        })
    }

    /// The types of the parameters that a statement has which EXPLAIN is asked about.
    fn params_of_explained(&self, text: &str, statement: &Statement, types: &[Option<Type>]) -> Result<Vec<Type>> {
        match statement {
            Statement::Explain(explain) if text.contains('$') => match &explain.statement {
                Statement::Relational(inner) if !crate::ddl::is_ddl(inner) => {
                    self.plan_inner(text, inner, types).map(|planned| planned.params)
                }
                _ => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        }
    }

    /// Plans a statement that reads or changes rows. It stands in a text, which may be its own or
    /// that of the statement around it.
    fn prepare_relational(
        &mut self,
        text: &str,
        own_text: &str,
        statement: &ast::Statement,
        types: &[Option<Type>],
        variables: Option<&dyn Variables>,
    ) -> Result<Recipe> {
        let sizes = TxnSizes::of(self)?;
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, types.to_vec());
        binder.variables = variables;
        binder.cursor_rows = self.marks_rows.then(CursorRows::default);
        let Planned { fragment, kind, targets } = plan(&mut binder, statement)?;
        // Conditions that were judged by samples have only noted that it was cancelled.
        pulse::check()?;
        let (cursor_rows, current_of) = (binder.cursor_rows.take(), binder.current_of.take());
        let is_open = |&index: &usize| binder.params[index].is_none();
        let is_named = |index: usize| binder.params_named.get(index).copied().unwrap_or(false);
        let unnamed = (0..binder.params.len()).find(|&index| is_open(&index) && !is_named(index));
        if let Some(index) = unnamed.or_else(|| binder.params_tested.iter().copied().find(is_open)) {
            let message = format!("could not determine data type of parameter ${}", index + 1);
            return Err(Error::new(SqlState("42P18"), message));
        }
        let params: Vec<Type> = binder.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect();
        let param_domains = std::mem::take(&mut binder.param_domains);
        let (mut used, side_effects) = (std::mem::take(&mut binder.used), binder.has_side_effects);
        let (locks_rows, calls_routines) = (binder.locks_rows, binder.calls_routines);
        let (needs, is_personal) = (std::mem::take(&mut binder.needs), binder.is_personal);
        self.check_needs(&needs)?;
        needs.iter().try_for_each(|need| need.expect_populated(&self.own.catalog))?;
        used.sort_unstable();
        used.dedup();
        let columns = fragment
            .columns
            .iter()
            .map(|column| ResultColumn { name: column.name.clone(), ty: column.ty, origin: column.origin })
            .collect();
        if crate::statement::is_on_deep_stack()
            && crate::exec::expressions_deep(&fragment.root) > crate::statement::EXPRESSIONS_MAX
        {
            return Err(crate::statement::too_deep());
        }
        let mut prepared = self.bare(own_text, Command::Empty);
        (prepared.cursor_rows, prepared.current_of) = (cursor_rows, current_of);
        prepared.locks = locks_rows.is_some();
        prepared.row_lock = locks_rows.map(crate::plan::RowLock::clause);
        prepared.adds_to = adds_to(&fragment.root);
        prepared.writes = !targets.is_empty();
        prepared.has_side_effects = side_effects;
        prepared.calls_routines = calls_routines;
        // A sequence's next value is taken even by a statement that only reads: it runs once.
        prepared.locks |= side_effects && !prepared.writes;
        prepared.guesses = sizes.guesses.into_inner().that_matter(&fragment, sizes.asked.borrow().len());
        prepared.decisions = sizes.decisions.into_inner().into_list();
        prepared.command = Command::Plan { fragment, kind };
        prepared.params = params;
        prepared.param_domains = param_domains;
        prepared.columns = columns;
        prepared.used = used;
        prepared.targets = targets;
        prepared.sizes = sizes.asked.into_inner();
        prepared.param_hints = types.to_vec();
        (prepared.needs, prepared.is_personal) = (needs, is_personal);
        if variables.is_none() {
            self.own.engine.activity().counter(&self.own.user, own_text).planned();
        }
        Ok(prepared)
    }

    /// Plans a statement that EXPLAIN or CREATE TABLE holds.
    pub(crate) fn plan_inner(
        &self,
        text: &str,
        statement: &ast::Statement,
        types: &[Option<Type>],
    ) -> Result<PlannedInner> {
        let sizes = TxnSizes::of(self)?;
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, types.to_vec());
        let Planned { fragment, .. } = plan(&mut binder, statement)?;
        pulse::check()?;
        self.check_needs(&binder.needs)?;
        binder.needs.iter().try_for_each(|need| need.expect_populated(&self.own.catalog))?;
        if let Some(error) = &fragment.fails {
            return Err(error.clone());
        }
        let params = binder.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect();
        Ok(PlannedInner { fragment, params, current_of: binder.current_of.take() })
    }

    /// Prepares the one statement of a text in a body, in which names may be those of variables.
    pub(super) fn recipe_in_body(
        &mut self,
        text: &str,
        types: &[Option<Type>],
        variables: &dyn Variables,
    ) -> Result<Recipe> {
        let mut statements = crate::statement::parse(text)?;
        let Some(statement) = statements.pop() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "a statement was expected"));
        };
        if !statements.is_empty() {
            return Err(several_statements());
        }
        self.prepare_statement_of_body(text, statement, types, variables)
    }

    fn prepare_statement_of_body(
        &mut self,
        text: &str,
        statement: Statement,
        types: &[Option<Type>],
        variables: &dyn Variables,
    ) -> Result<Recipe> {
        match statement {
            Statement::Relational(statement) if !ddl::is_ddl(&statement) => {
                self.prepare_relational(text, text, &statement, types, Some(variables))
            }
            other => self.prepare_statement(text, other, types),
        }
    }

    /// A statement of a body, which counts as a part of the statement that runs the body.
    pub(super) fn adopt_uncounted(&self, recipe: Arc<Recipe>) -> Prepared {
        Prepared {
            recipe,
            authority: Arc::clone(&self.own.authority),
            runs: AtomicU32::new(0),
            variants: Variants::default(),
            counter: None,
        }
    }

    /// Binds with the session's names, and with so many parameters of any types.
    pub(super) fn with_binder_of<T>(
        &self,
        params: usize,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<T> {
        let sizes = TxnSizes::of(self)?;
        let open = vec![None; params];
        let mut binder = Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, "", &self.own.search_path, open);
        let bound = bind(&mut binder)?;
        self.check_needs(&binder.needs)?;
        Ok(bound)
    }

    /// Binds with variables in sight.
    pub(super) fn with_variables<T>(
        &self,
        text: &str,
        variables: &dyn Variables,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<T> {
        let sizes = TxnSizes::of(self)?;
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, Vec::new());
        binder.variables = Some(variables);
        let bound = bind(&mut binder)?;
        self.check_needs(&binder.needs)?;
        Ok(bound)
    }

    /// Binds with the session's names, in the transaction at hand.
    pub(crate) fn with_binder<T>(&self, text: &str, bind: impl FnOnce(&mut Binder<'_>) -> Result<T>) -> Result<T> {
        let sizes = TxnSizes::of(self)?;
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, Vec::new());
        let bound = bind(&mut binder)?;
        self.check_needs(&binder.needs)?;
        Ok(bound)
    }

    /// The rights of a role, or of the user.
    pub(super) fn authority_of(&self, role: Option<u32>) -> Arc<Authority> {
        let mine = &self.own.authority;
        match role {
            Some(role) if role != mine.role => {
                Arc::new(Authority::of(&self.all_roles(), role, self.own_database_info().owner))
            }
            _ => Arc::clone(mine),
        }
    }

    /// The setting `row_security`.
    pub(super) fn has_row_security(&self) -> bool {
        self.own.settings.text("row_security") != "off"
    }

    /// Refuses what the user has no privileges for.
    fn check_needs(&self, needs: &[Need]) -> Result<()> {
        for need in needs {
            let authority = &self.authority_of(need.by);
            if !authority.is_superuser() {
                need.check(&self.own.catalog, authority)?;
            }
        }
        Ok(())
    }
}

/// The plan of a statement that another one holds.
pub(crate) struct PlannedInner {
    pub(crate) fragment: Fragment,
    /// Types of its parameters.
    pub(crate) params: Vec<Type>,
    /// The row of a cursor that it changes: its key's values stand behind the parameters.
    pub(crate) current_of: Option<CurrentOf>,
}

/// A plan, and what is known of the statement by it.
struct Planned {
    fragment: Fragment,
    kind: Kind,
    /// The tables that it writes to.
    targets: Vec<u32>,
}

/// Plans a statement that reads or writes rows.
fn plan(binder: &mut Binder<'_>, statement: &ast::Statement) -> Result<Planned> {
    let rewritten = if binder.has_rules() { binder.rewritten_by_rules(statement)? } else { None };
    let Some(rewritten) = rewritten else { return plan_as_written(binder, statement, &[]) };
    // The places of the statement's words are not those of the text.
    let text = std::mem::take(&mut binder.text);
    let planned = plan_as_written(binder, &rewritten.statement, &rewritten.owners);
    binder.text = text;
    let planned = planned?;
    let kind = match rewritten.event {
        'a' => Kind::Insert,
        'w' => Kind::Update,
        _ => Kind::Delete,
    };
    Ok(Planned { kind, ..planned })
}

/// The same, without a look at rules. The statement itself may be what a rule does: then some roles
/// own the rules.
fn plan_as_written(binder: &mut Binder<'_>, statement: &ast::Statement, owners: &[RoleId]) -> Result<Planned> {
    let bind_change = |binder: &mut Binder<'_>, inner: &_| binder.by_rule(owners, |binder| bind_change(binder, inner));
    let (main, kind) = match statement {
        ast::Statement::Query(query) => match written_by(query) {
            Some(inner) => binder.behind_with(query, |binder| bind_change(binder, inner))?,
            None => {
                let mut bound = binder.query(query)?;
                settle(binder, &mut bound)?;
                if binder.parts.is_empty() {
                    return plan_query(binder, bound);
                }
                (Main::Query(bound), Kind::Select)
            }
        },
        other => bind_change(binder, other)?,
    };
    let mut targets = Vec::new();
    if let Main::Change(change, _) = &main {
        targets.push(change.table().id);
        targets.extend(leaves_of(change));
    }
    let mut parts = Vec::new();
    for part in std::mem::take(&mut binder.parts) {
        targets.push(part.change.table().id);
        targets.extend(leaves_of(&part.change));
        let rules = binder.rules_by_views(part.change.table(), part.change.view_checks())?;
        parts.push((part, rules));
    }
    let fragment = planner::plan_statement(main, parts, binder.sizes, binder.env)?;
    Ok(Planned { fragment, kind, targets })
}

/// The tables that have the rows of a partitioned table that is written to.
fn leaves_of(change: &crate::bind::BoundChange) -> impl Iterator<Item = u32> + '_ {
    change.tree().into_iter().flat_map(|written| written.tree.leaves.iter().map(|leaf| leaf.table.id))
}

fn plan_query(binder: &mut Binder<'_>, mut bound: crate::bind::Query) -> Result<Planned> {
    binder.mark(&mut bound);
    let mut fragment = planner::plan_query(&bound, 0, binder.sizes, binder.env)?;
    fragment.is_marked = binder.cursor_rows.is_some();
    if let Some(rows) = &mut binder.cursor_rows {
        *rows = planner::cursor_rows(&bound, &fragment.root);
    }
    Ok(Planned { fragment, kind: Kind::Select, targets: Vec::new() })
}

fn bind_change(binder: &mut Binder<'_>, statement: &ast::Statement) -> Result<(Main, Kind)> {
    let kind = match statement {
        ast::Statement::Insert(_) => Kind::Insert,
        ast::Statement::Update(_) => Kind::Update,
        ast::Statement::Delete(_) => Kind::Delete,
        ast::Statement::Merge(_) => Kind::Merge,
        other => {
            return Err(Error::unsupported(format_args!("the statement {}", first_words(&other.to_string()))));
        }
    };
    let change = binder.change(statement)?;
    let rules = binder.rules_by_views(change.table(), change.view_checks())?;
    Ok((Main::Change(change, rules), kind))
}

pub(super) fn several_statements() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
}

/// The statement that writes behind a WITH.
fn written_by(query: &ast::Query) -> Option<&ast::Statement> {
    match &*query.body {
        ast::SetExpr::Insert(inner)
        | ast::SetExpr::Update(inner)
        | ast::SetExpr::Delete(inner)
        | ast::SetExpr::Merge(inner) => Some(inner),
        _ => None,
    }
}

/// Whether a statement writes rows.
pub(super) fn writes_rows(statement: &ast::Statement) -> bool {
    match statement {
        ast::Statement::Query(query) => {
            let parts = query.with.iter().flat_map(|with| &with.cte_tables);
            written_by(query).is_some() || parts.into_iter().any(|part| written_by(&part.query).is_some())
        }
        _ => true,
    }
}

fn first_words(text: &str) -> String {
    text.split_ascii_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Gives columns and parameters that nothing told the type of the type text.
fn settle(binder: &mut Binder<'_>, query: &mut crate::bind::Query) -> Result<()> {
    let types: Vec<Type> = query
        .columns
        .iter()
        .map(|column| if column.ty.ty == Type::Unknown { Type::Text } else { column.ty.ty })
        .collect();
    binder.retype(query, &types)
}
