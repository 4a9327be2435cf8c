//! Prepared statements: what is known of a statement before it runs, and the plans kept by their text.
//!
//! Most of that follows from the text and the catalogue, and is the same for all sessions: the [`Recipe`], which they share (see
//! [`recipes`](super::recipes)). So the plans of what many sessions run lie in the processor's caches once, and not once a session.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use colibri_catalog::{Index, Table, cluster::Authority, record};
use colibri_txn::{Key, LocalTransaction, Space, SpaceId, Transaction};
use colibri_types::{ColumnType, Datum, Error, Modifier, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::activity::Counter;
use super::named_cursor::CursorStatement;
use super::set::SetStatement;
use super::texts::{self, Parsed};
use super::{Session, TransactionState, control};
use crate::admin;
use crate::bind::{Binder, CurrentOf, CursorRows, Need};
use crate::lift::Lifted;
use crate::plan::{AssignedValue, Fragment, Node};
use crate::planner::{self, Rewrites, Sizes};
use crate::registry::builtin;
use crate::statement::Scanned;
use crate::surroundings::SearchPath;

/// Texts whose plans a session keeps.
const PLANS_MAX: usize = 512;
/// How many runs of a plan go by between looks at the sizes of its tables.
const RUNS_BETWEEN_LOOKS: u32 = 32;
/// A table that has grown or shrunk by this factor may deserve another plan.
const SIZE_FACTOR: f64 = 4.0;
/// How many keys are looked at to learn how many rows are alike.
const SAMPLE_KEYS: usize = 8;
/// Below this many rows a table's size does not matter.
const ROWS_SMALL: f64 = 200.0;

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
    /// What its runs did and cost.
    pub(super) counter: Option<Arc<Counter>>,
}

/// What follows from a statement's text and the catalogue.
pub struct Recipe {
    pub(super) text: String,
    pub(super) command: Command,
    pub(super) params: Vec<Type>,
    pub(super) columns: Vec<ResultColumn>,
    /// Objects of the catalogue that it was made from.
    pub(super) used: Vec<u32>,
    /// The table that it writes to.
    pub(super) target: Option<u32>,
    /// It changes something.
    pub(super) writes: bool,
    /// Its rows are in binary form, whatever the client says.
    pub(super) is_binary: bool,
    /// It locks rows.
    pub(super) locks: bool,
    /// It calls functions that change something, or give something else each time.
    pub(super) has_side_effects: bool,
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
    pub(super) search_path: SearchPath,
    /// Privileges that whoever runs it has to have.
    needs: Vec<Need>,
    /// Sizes of tables that the plan was made for.
    sizes: Vec<(Arc<Table>, f64)>,
    pub(super) param_hints: Vec<Option<Type>>,
    /// It follows from the session's settings or its user as well: nobody else's.
    is_personal: bool,
}

impl Deref for Prepared {
    type Target = Recipe;

    fn deref(&self) -> &Recipe {
        &self.recipe
    }
}

#[expect(clippy::large_enum_variant, reason = "it lies in a recipe, of which there are few, and most are plans")]
pub(super) enum Command {
    /// Nothing but blanks and comments.
    Empty,
    Plan {
        fragment: Fragment,
        kind: Kind,
    },
    /// Runs within a transaction.
    Utility(Box<ast::Statement>),
    /// About roles, databases, privileges; within a transaction.
    Admin(Box<admin::Statement>),
    /// Begins or ends a transaction, or needs none.
    Control(Box<ast::Statement>),
    /// About settings, or the beginning of a transaction; it needs none.
    Set(Box<SetStatement>),
    /// Rows piece by piece.
    Cursor(CursorStatement),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Select,
    Insert,
    Update,
    Delete,
}

/// Plans by text.
#[derive(Default)]
pub(super) struct Plans {
    by_text: HashMap<(String, Vec<Option<Type>>), Arc<Prepared>>,
    shapes: HashMap<String, Shape>,
    pub(super) lifting: Lifting,
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

/// Sizes of tables, as a transaction sees them.
struct TxnSizes<'t> {
    txn: &'t LocalTransaction,
    asked: RefCell<Vec<(Arc<Table>, f64)>>,
    alike: RefCell<HashMap<Prefix, Option<f64>>>,
    tables: &'t colibri_catalog::Catalog,
    rewrites: Rewrites,
}

/// The first columns of a key: the space of a table's rows or of an index, and how many columns.
type Prefix = (SpaceId, usize);

impl<'t> TxnSizes<'t> {
    fn new(txn: &'t LocalTransaction, tables: &'t colibri_catalog::Catalog, rewrites: Rewrites) -> Self {
        Self { txn, asked: RefCell::default(), alike: RefCell::default(), tables, rewrites }
    }
}

impl Plans {
    pub(super) fn clear(&mut self) {
        self.by_text.clear();
        self.shapes.clear();
    }
}

impl Sizes for TxnSizes<'_> {
    fn rewrites(&self) -> Rewrites {
        self.rewrites
    }

    fn rows(&self, table: &Table) -> f64 {
        let mut asked = self.asked.borrow_mut();
        if let Some((_, rows)) = asked.iter().find(|(known, _)| known.id == table.id) {
            return *rows;
        }
        let rows = rows_of(self.txn, table);
        if let Some(table) = self.tables.table(table.id) {
            asked.push((Arc::clone(table), rows));
        }
        rows
    }

    fn rows_alike(&self, table: &Table, index: Option<&Index>, columns: usize) -> Option<f64> {
        let space = index.map_or_else(|| table.space(), Index::space);
        let prefix = (space.id, columns);
        if let Some(known) = self.alike.borrow().get(&prefix) {
            return *known;
        }
        let found = rows_alike(self.txn, &space, |key| record::prefix_bytes(table, index, columns, key).ok());
        self.alike.borrow_mut().insert(prefix, found);
        found
    }
}

/// How many keys of a space have the same beginning as one of them, on average over a sample of them all.
fn rows_alike(txn: &LocalTransaction, space: &Space, prefix_bytes: impl Fn(&[u8]) -> Option<usize>) -> Option<f64> {
    let keys = txn.sample(space, SAMPLE_KEYS).ok()?;
    let alike = |key: &Key| {
        let prefix = Key::from_slice(&key[..prefix_bytes(key)?]);
        txn.estimate(space, &record::prefix_range(prefix)).ok()
    };
    let found: Vec<u64> = keys.iter().filter_map(alike).collect();
    (!found.is_empty()).then(|| found.iter().sum::<u64>() as f64 / found.len() as f64)
}

fn rows_of(txn: &LocalTransaction, table: &Table) -> f64 {
    txn.estimate(&table.space(), &record::whole_range()).map_or(1_000.0, |rows| rows as f64)
}

impl Prepared {
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
        matches!(self.command, Command::Plan { kind: Kind::Select, .. })
    }

    /// Whether it changes something.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.writes
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
        matches!(&self.command, Command::Control(statement) if matches!(**statement, ast::Statement::Commit { .. }))
    }

    pub(super) fn tag(&self) -> &'static str {
        match &self.command {
            Command::Empty => "",
            Command::Plan { kind, .. } => match kind {
                Kind::Select => "SELECT",
                Kind::Insert => "INSERT",
                Kind::Update => "UPDATE",
                Kind::Delete => "DELETE",
            },
            Command::Utility(statement) | Command::Control(statement) => control::tag(statement),
            Command::Admin(statement) => statement.tag(),
            Command::Set(statement) => statement.tag(),
            Command::Cursor(statement) => statement.tag(),
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
        let Lifted { text: shape, types, mut values } = crate::lift::lift(text)?;
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
        // Strings become what they are compared with, or stored as; what is wrong with one is said of the text itself.
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
        Some((prepared, values))
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
        // What is computed of literals, or fails for them, before anything runs is not known of parameters.
        let computes = |prepared: &Prepared| matches!(&prepared.command, Command::Plan { fragment, .. } if fragment.computes || fragment.fails.is_some());
        let lifted = self.prepare_in_txn(shape, types).ok().filter(|lifted| {
            !computes(&plain)
                && lifted.columns == plain.columns
                && lifted.params.len() == types.len()
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

    /// Finds or makes the plan of a statement, in the transaction at hand.
    pub(super) fn prepare_in_txn(&mut self, text: &str, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        if self.marks_rows {
            // The plans that are kept have no marks.
            self.surround();
            let scanned = crate::statement::scan(text)?;
            let recipe = self.prepare_by_depth(text, scanned, types)?;
            return Ok(Arc::new(self.adopt(Arc::new(recipe))));
        }
        let key = (text.to_owned(), types.to_vec());
        if let Some(prepared) = self.plans.by_text.get(&key).filter(|prepared| self.is_current(prepared)) {
            return Ok(Arc::clone(prepared));
        }
        self.surround();
        if let Some(recipe) = self.shared_recipe(text, types) {
            self.check_needs(&recipe.needs)?;
            return Ok(self.keep(key, recipe));
        }
        let scanned = match texts::parse(text)? {
            Parsed::Set(statement) => {
                let mut recipe = self.bare(text, Command::Empty);
                recipe.columns = statement.columns(self);
                recipe.command = Command::Set(Box::new(statement));
                return Ok(self.keep(key, Arc::new(recipe)));
            }
            Parsed::Admin(statement) => {
                let mut recipe = self.bare(text, Command::Empty);
                recipe.writes = statement.writes();
                recipe.command = Command::Admin(Box::new(statement));
                return Ok(Arc::new(self.adopt(Arc::new(recipe))));
            }
            Parsed::Cursor(parsed) => {
                let recipe = self.prepare_cursor(text, parsed, types)?;
                return Ok(Arc::new(self.adopt(Arc::new(recipe))));
            }
            Parsed::Other(scanned) => scanned,
        };
        let recipe = Arc::new(self.prepare_by_depth(text, scanned, types)?);
        // What a block's own changes of the catalogue led to is right for nobody else.
        if self.block.catalog_changed {
            return Ok(Arc::new(self.adopt(recipe)));
        }
        let is_plan = matches!(recipe.command, Command::Plan { .. });
        if is_plan && !recipe.is_personal {
            self.own.engine.recipes().keep(&recipe);
        }
        Ok(match is_plan || matches!(recipe.command, Command::Control(_)) {
            true => self.keep(key, recipe),
            false => Arc::new(self.adopt(recipe)),
        })
    }

    /// What another session knows of a text, if that is good for this one.
    fn shared_recipe(&self, text: &str, types: &[Option<Type>]) -> Option<Arc<Recipe>> {
        if self.block.catalog_changed {
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
    fn is_outgrown(&self, recipe: &Recipe) -> bool {
        let Some(txn) = &self.txn else { return false };
        recipe.sizes.iter().any(|(table, before)| {
            let now = rows_of(txn, table);
            let (small, large) = (now.min(*before), now.max(*before));
            large > ROWS_SMALL && large > small.max(1.0) * SIZE_FACTOR
        })
    }

    /// A statement for this session, whose privileges have been looked at.
    fn adopt(&self, recipe: Arc<Recipe>) -> Prepared {
        let activity = self.own.engine.activity();
        let is_plan = matches!(recipe.command, Command::Plan { .. });
        let counter = is_plan.then(|| activity.counter(&self.own.user, &recipe.text));
        Prepared { recipe, authority: Arc::clone(&self.own.authority), runs: AtomicU32::new(0), counter }
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
    fn prepare_by_depth(&mut self, text: &str, scanned: Scanned<'_>, types: &[Option<Type>]) -> Result<Recipe> {
        if !scanned.is_deep() {
            match self.prepare_scanned(text, scanned, types) {
                Err(error) if error.state() == SqlState::TOO_COMPLEX => {}
                prepared => return prepared,
            }
        }
        crate::statement::on_deep_stack(|| {
            let scanned = crate::statement::scan(text)?;
            self.prepare_scanned(text, scanned, types)
        })
    }

    fn prepare_scanned(&mut self, text: &str, scanned: Scanned<'_>, types: &[Option<Type>]) -> Result<Recipe> {
        let is_deep = crate::statement::is_on_deep_stack();
        let mut statements = scanned.parse()?;
        if statements.len() > 1 {
            return Err(several_statements());
        }
        match statements.pop() {
            None => Ok(self.bare(text, Command::Empty)),
            // These keep the tree, and the catalogue its text.
            Some(statement) if is_deep && (control::is_control(&statement) || control::is_utility(&statement)) => {
                Err(crate::statement::too_deep())
            }
            Some(statement) => {
                let recipe = self.prepare_statement(text, statement, types)?;
                if is_deep
                    && let Command::Plan { fragment, .. } = &recipe.command
                    && crate::exec::expressions_deep(&fragment.root) > crate::statement::EXPRESSIONS_MAX
                {
                    return Err(crate::statement::too_deep());
                }
                Ok(recipe)
            }
        }
    }

    pub(super) fn bare(&self, text: &str, command: Command) -> Recipe {
        Recipe {
            text: text.to_owned(),
            command,
            params: Vec::new(),
            columns: Vec::new(),
            used: Vec::new(),
            target: None,
            writes: false,
            is_binary: false,
            locks: false,
            has_side_effects: false,
            names_cursors: text
                .as_bytes()
                .windows(VIEW_OF_CURSORS.len())
                .any(|part| part.eq_ignore_ascii_case(VIEW_OF_CURSORS)),
            cursor_rows: None,
            current_of: None,
            adds_to: None,
            // The number of a catalogue that is not committed may become another's: no other block may take it for its own.
            version: if self.block.catalog_changed { 0 } else { self.own.catalog.version },
            search_path: self.own.search_path.clone(),
            needs: Vec::new(),
            sizes: Vec::new(),
            param_hints: Vec::new(),
            is_personal: false,
        }
    }

    fn is_current(&self, prepared: &Prepared) -> bool {
        prepared.version == self.own.catalog.version
            && !self.block.catalog_changed
            && prepared.search_path == self.own.search_path
            && Arc::ptr_eq(&prepared.authority, &self.own.authority)
    }

    /// Another plan, if a statement's is not right for the catalogue that the transaction sees, or for the sizes of tables.
    pub(super) fn renewed(&mut self, prepared: &Prepared) -> Result<Option<Arc<Prepared>>> {
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
                return Ok(None);
            }
        }
        // Parameters keep the types that the client was told, whatever becomes of the columns that they are meant for: their
        // values are cast as those of other expressions are.
        let (text, hints) = (prepared.text.clone(), prepared.params.iter().copied().map(Some).collect::<Vec<_>>());
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
        let same_columns = renewed.columns.len() == prepared.columns.len()
            && renewed.columns.iter().zip(&prepared.columns).all(|(new, old)| new.ty == old.ty && new.name == old.name);
        if !same_columns || renewed.params != prepared.params {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type"));
        }
        Ok(Some(renewed))
    }

    pub(super) fn prepare_statement(
        &mut self,
        text: &str,
        statement: ast::Statement,
        types: &[Option<Type>],
    ) -> Result<Recipe> {
        if control::is_control(&statement) {
            return Ok(self.bare(text, Command::Control(Box::new(statement))));
        }
        if control::is_utility(&statement) {
            let mut prepared = self.bare(text, Command::Utility(Box::new(statement)));
            if let Command::Utility(statement) = &prepared.command {
                prepared.writes = control::writes(statement);
                prepared.locks = control::may_lock(statement);
                prepared.columns = self.utility_columns(statement)?;
            }
            return Ok(prepared);
        }
        let Some(txn) = &self.txn else { return Err(Error::internal("a plan is made within a transaction")) };
        let sizes = TxnSizes::new(txn, &self.own.catalog, self.own.engine.rewrites());
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, types.to_vec());
        binder.cursor_rows = self.marks_rows.then(CursorRows::default);
        let (fragment, kind, target) = plan(&mut binder, &statement)?;
        let (cursor_rows, current_of) = (binder.cursor_rows.take(), binder.current_of.take());
        if let Some(index) = binder.params_tested.iter().find(|&&index| binder.params[index].is_none()) {
            let message = format!("could not determine data type of parameter ${}", index + 1);
            return Err(Error::new(SqlState("42P18"), message));
        }
        let params: Vec<Type> = binder.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect();
        let (mut used, side_effects) = (std::mem::take(&mut binder.used), binder.has_side_effects);
        let locks_rows = binder.locks_rows;
        let (needs, is_personal) = (std::mem::take(&mut binder.needs), binder.is_personal);
        self.check_needs(&needs)?;
        used.sort_unstable();
        used.dedup();
        let columns = fragment
            .columns
            .iter()
            .map(|column| ResultColumn { name: column.name.clone(), ty: column.ty, origin: column.origin })
            .collect();
        let mut prepared = self.bare(text, Command::Empty);
        (prepared.cursor_rows, prepared.current_of) = (cursor_rows, current_of);
        prepared.locks = locks_rows;
        prepared.adds_to = adds_to(&fragment.root);
        prepared.writes = kind != Kind::Select;
        prepared.has_side_effects = side_effects;
        // A sequence's next value is taken even by a statement that only reads: it runs once.
        prepared.locks |= side_effects && kind == Kind::Select;
        prepared.command = Command::Plan { fragment, kind };
        prepared.params = params;
        prepared.columns = columns;
        prepared.used = used;
        prepared.target = target;
        prepared.sizes = sizes.asked.into_inner();
        prepared.param_hints = types.to_vec();
        (prepared.needs, prepared.is_personal) = (needs, is_personal);
        self.own.engine.activity().counter(&self.own.user, text).planned();
        Ok(prepared)
    }

    /// Plans a statement that EXPLAIN, COPY or PREPARE holds.
    pub(crate) fn plan_inner(
        &self,
        text: &str,
        statement: &ast::Statement,
        types: &[Option<Type>],
    ) -> Result<(Fragment, Vec<Type>)> {
        let Some(txn) = &self.txn else { return Err(Error::internal("a plan is made within a transaction")) };
        let sizes = TxnSizes::new(txn, &self.own.catalog, self.own.engine.rewrites());
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, types.to_vec());
        let (fragment, ..) = plan(&mut binder, statement)?;
        if binder.current_of.is_some() {
            return Err(Error::unsupported("EXPLAIN of WHERE CURRENT OF"));
        }
        self.check_needs(&binder.needs)?;
        if let Some(error) = &fragment.fails {
            return Err(error.clone());
        }
        let params = binder.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect();
        Ok((fragment, params))
    }

    /// Binds with the session's names, in the transaction at hand.
    pub(crate) fn with_binder<T>(&self, text: &str, bind: impl FnOnce(&mut Binder<'_>) -> Result<T>) -> Result<T> {
        let Some(txn) = &self.txn else { return Err(Error::internal("names are looked up within a transaction")) };
        let sizes = TxnSizes::new(txn, &self.own.catalog, self.own.engine.rewrites());
        let mut binder =
            Binder::new(builtin(), &self.own.catalog, &self.env, &sizes, text, &self.own.search_path, Vec::new());
        let bound = bind(&mut binder)?;
        self.check_needs(&binder.needs)?;
        Ok(bound)
    }

    /// Refuses what the user has no privileges for.
    fn check_needs(&self, needs: &[Need]) -> Result<()> {
        let mine = &self.own.authority;
        for need in needs {
            let others;
            let authority = match need.by {
                None => mine,
                Some(role) if role == mine.role => mine,
                Some(role) => {
                    others = Arc::new(Authority::of(&self.all_roles(), role, self.own_database_info().owner));
                    &others
                }
            };
            if !authority.is_superuser() {
                need.check(&self.own.catalog, authority)?;
            }
        }
        Ok(())
    }
}

/// Plans a statement that reads or writes rows.
fn plan(binder: &mut Binder<'_>, statement: &ast::Statement) -> Result<(Fragment, Kind, Option<u32>)> {
    match statement {
        ast::Statement::Query(query) if written_by(query).is_some() => {
            let inner = written_by(query).ok_or_else(|| Error::internal("a statement vanished"))?;
            binder.behind_with(query, |binder| plan(binder, inner))
        }
        ast::Statement::Query(query) => {
            let mut bound = binder.query(query)?;
            binder.settle(&mut bound)?;
            binder.mark(&mut bound);
            let mut fragment = planner::plan_query(&bound, 0, binder.sizes, binder.env)?;
            fragment.is_marked = binder.cursor_rows.is_some();
            if let Some(rows) = &mut binder.cursor_rows {
                *rows = planner::cursor_rows(&bound, &fragment.root);
            }
            Ok((fragment, Kind::Select, None))
        }
        ast::Statement::Insert(insert) => {
            let bound = binder.insert(insert)?;
            let (rules, id) = (binder.rules(&bound.table)?, bound.table.id);
            Ok((planner::plan_insert(bound, rules, binder.sizes, binder.env)?, Kind::Insert, Some(id)))
        }
        ast::Statement::Update(update) => {
            let bound = binder.update(update)?;
            let (rules, id) = (binder.rules(&bound.table)?, bound.table.id);
            Ok((planner::plan_update(bound, rules, binder.sizes, binder.env)?, Kind::Update, Some(id)))
        }
        ast::Statement::Delete(delete) => {
            let bound = binder.delete(delete)?;
            let (rules, id) = (binder.rules(&bound.table)?, bound.table.id);
            Ok((planner::plan_delete(bound, rules, binder.sizes, binder.env)?, Kind::Delete, Some(id)))
        }
        other => Err(Error::unsupported(format_args!("the statement {}", first_words(&other.to_string())))),
    }
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
        ast::Statement::Query(query) => written_by(query).is_some(),
        _ => true,
    }
}

fn first_words(text: &str) -> String {
    text.split_ascii_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

impl Binder<'_> {
    /// Gives columns and parameters that nothing told the type of the type text.
    fn settle(&mut self, query: &mut crate::bind::Query) -> Result<()> {
        let types: Vec<Type> = query
            .columns
            .iter()
            .map(|column| if column.ty.ty == Type::Unknown { Type::Text } else { column.ty.ty })
            .collect();
        self.retype(query, &types)
    }
}
