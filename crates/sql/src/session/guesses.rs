//! How many rows the conditions of a statement leave, for the values that it is run with.
//!
//! A plan is made for the values that a column has on average, and kept for all runs. Where some
//! values have far more rows than others, or far fewer, another plan is right for these. So a plan
//! keeps what it guessed of ranges of keys ([`Guess`]); each run counts how many rows they really
//! hold, which takes a look at both ends of each; and where that is another order of magnitude, a
//! plan is made for such counts, and kept beside the first one.
//!
//! Conditions over parameters alone that stand beside others (`$1 IS NULL OR a = $1`) decide as well
//! which plan is right. Each run evaluates them ([`Decisions`]), and has a plan in which what they
//! come to stands in their place.
//!
//! Invariants: counts decide only between plans, so what was counted binds no transaction. A
//! statement has few plans: [`VARIANTS_MAX`], and the one for average values for all others. A plan
//! for what conditions come to is run for nothing else. If there are too many of these, one that was
//! not run for longer is made anew when it is needed.

use std::sync::Arc;

use colibri_catalog::{Index, Table};
use colibri_txn::{KeyRange, Space};
use colibri_types::{Datum, Env, Result};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Session;
use super::plans::{Command, Prepared, Recipe};
use crate::bind::rewrite;
use crate::bind::routines::Variables;
use crate::exec::{Evaluate as _, Ranges, Scope, key_ranges};
use crate::expr::Expr;
use crate::plan::{Access, Fragment, KeyPart, KeyRanges, Node, Scan};

/// How many ranges of a statement are counted at the most.
const GUESSES_MAX: usize = 16;
/// More ranges than this, of long lists, are not counted.
const SPANS_MAX: usize = 64;
/// How many plans a statement has beside the one for average values.
const VARIANTS_MAX: usize = 8;
/// How many plans a statement has for what its conditions come to.
const DECIDED_MAX: usize = 32;
/// How many conditions over parameters alone decide on plans; more are left as they are.
const DECISIONS_MAX: usize = 16;
/// Below this many rows it does not matter how many they are.
pub(super) const ROWS_SMALL: f64 = 200.0;
/// How many times as many rows make another order of magnitude.
const LEVEL_FACTOR: f64 = 8.0;

/// An order of magnitude of rows: 0 are few.
type Level = i8;

/// The orders of magnitude of what a statement's ranges hold.
type Levels = SmallVec<[Level; 8]>;

/// What stands for a condition that comes to NULL; 0 and 1 are false and true.
const DECIDED_NULL: Level = 2;
/// What stands for a condition that fails.
const UNDECIDED: Level = -1;

fn level(rows: f64) -> Level {
    (rows.max(ROWS_SMALL) / ROWS_SMALL).log(LEVEL_FACTOR).round() as Level
}

/// How many rows some ranges of a key were taken to hold.
pub(super) struct Guess {
    table: Arc<Table>,
    access: Access,
    pub(super) rows: f64,
    /// It depends on parameters.
    takes_params: bool,
}

impl Guess {
    /// Of ranges whose values follow from constants and parameters alone; `None` for others.
    pub(super) fn new(table: &Arc<Table>, index: Option<&Arc<Index>>, ranges: &KeyRanges, rows: f64) -> Option<Self> {
        let (mut known, mut takes_params) = (true, false);
        ranges.for_each_value(&mut |value| {
            known = known && !rewrite::is_volatile(value) && !rewrite::any(value, &needs_more);
            takes_params |= rewrite::any(value, &|part| matches!(part, Expr::Param(_)));
        });
        let ranges = known.then(|| ranges.clone())?;
        let access = match index {
            None => Access::Key { ranges },
            Some(index) => Access::Index { index: Arc::clone(index), ranges, covering: false },
        };
        Some(Self { table: Arc::clone(table), access, rows, takes_params })
    }

    /// How many rows the ranges hold by a count of one range; `None` if that is not known.
    pub(super) fn count(
        &self,
        count: impl Fn(&Space, &KeyRange) -> Option<u64>,
        env: &Env,
        params: &[Datum],
    ) -> Option<f64> {
        let spans = match self.ranges(env, params)? {
            Ranges::Points(keys) => return Some(keys.len() as f64),
            Ranges::Spans(spans) => spans,
        };
        let space = self.access.space(&self.table);
        spans.iter().map(|span| count(&space, span)).sum::<Option<u64>>().map(|rows| rows as f64)
    }

    /// The ranges, if their values are known and they are not too many to be counted.
    pub(super) fn ranges(&self, env: &Env, params: &[Datum]) -> Option<Ranges> {
        if self.takes_params && params.is_empty() {
            return None;
        }
        match key_ranges(&self.table, &self.access, &mut Scope::pure(env, params, &[])).ok()? {
            Ranges::Spans(spans) if spans.len() > SPANS_MAX => None,
            ranges => Some(ranges),
        }
    }

    /// Whether it is about the same ranges of the same key.
    fn is_same(&self, other: &Self) -> bool {
        self.access.space(&self.table).id == other.access.space(&other.table).id
            && self.access.ranges().zip(other.access.ranges()).all(|(a, b)| are_same(a, b))
    }

    /// Whether a scan reads these ranges.
    fn is_of(&self, scan: &Scan) -> bool {
        self.access.space(&self.table).id == scan.access.space(&scan.table).id
            && !matches!(scan.access, Access::Gathered { .. })
    }
}

/// What is not known before a statement runs.
fn needs_more(part: &Expr) -> bool {
    matches!(part, Expr::Column(_) | Expr::Arg(_) | Expr::Subquery(_) | Expr::Session { .. })
}

fn are_same(a: &KeyRanges, b: &KeyRanges) -> bool {
    let all = |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| rewrite::same(a, b));
    let same_part = |(a, b): (&KeyPart, &KeyPart)| match (a, b) {
        (KeyPart::Eq(a), KeyPart::Eq(b)) | (KeyPart::AnyOf(a), KeyPart::AnyOf(b)) => rewrite::same(a, b),
        (KeyPart::In(a), KeyPart::In(b)) => all(a, b),
        (KeyPart::Null, KeyPart::Null) => true,
        _ => false,
    };
    let same_bound = |a: &Option<(Expr, _)>, b: &Option<(Expr, _)>| match (a, b) {
        (None, None) => true,
        (Some((a, a_inclusive)), Some((b, b_inclusive))) => a_inclusive == b_inclusive && rewrite::same(a, b),
        _ => false,
    };
    let same_start = match (&a.starts, &b.starts) {
        (None, None) => true,
        (Some((a_kind, a)), Some((b_kind, b))) => a_kind == b_kind && rewrite::same(a, b),
        _ => false,
    };
    same_start
        && a.skipped == b.skipped
        && a.not_null == b.not_null
        && a.prefix.len() == b.prefix.len()
        && a.prefix.iter().zip(&b.prefix).all(same_part)
        && same_bound(&a.low, &b.low)
        && same_bound(&a.high, &b.high)
        && a.alternatives.len() == b.alternatives.len()
        && a.alternatives.iter().zip(&b.alternatives).all(|(a, b)| are_same(a, b))
}

/// What was guessed while a plan was made.
#[derive(Default)]
pub(super) struct Guesses(Vec<Guess>);

impl Guesses {
    /// What was guessed before of the same ranges.
    pub(super) fn find(&self, guess: &Guess) -> Option<f64> {
        self.0.iter().find(|known| known.is_same(guess)).map(|known| known.rows)
    }

    pub(super) fn add(&mut self, guess: Guess) {
        if self.0.len() < GUESSES_MAX {
            self.0.push(guess);
        }
    }

    /// Those on which it depends which plan is right. A plan that reads one table through ranges of
    /// which there is no guess is right for all values.
    pub(super) fn that_matter(self, fragment: &Fragment, tables: usize) -> Vec<Guess> {
        let is_read = |scan: &Scan| {
            let everything = scan.access.ranges().all(KeyRanges::is_everything);
            everything || self.0.iter().any(|guess| guess.is_of(scan))
        };
        let matters = match only_scan(&fragment.root) {
            Some(scan) if tables <= 1 => !scan.table.indexes.is_empty() && is_read(scan),
            _ => true,
        };
        if matters { self.0 } else { Vec::new() }
    }
}

/// A condition over parameters, and what it comes to.
pub(super) type Decided = (Expr, Datum);

/// Conditions over parameters alone that were met while a plan was made.
#[derive(Default)]
pub(super) struct Decisions(Vec<Expr>);

impl Decisions {
    pub(super) fn add(&mut self, condition: &Expr) {
        if self.0.len() < DECISIONS_MAX && !self.0.iter().any(|known| rewrite::same(known, condition)) {
            self.0.push(condition.clone());
        }
    }

    pub(super) fn into_list(self) -> Vec<Expr> {
        self.0
    }
}

/// The scan of a plan that reads one table and nothing else.
fn only_scan(node: &Node) -> Option<&Scan> {
    match node {
        Node::Scan(scan) => Some(&**scan),
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Limit { input, .. }
        | Node::Sort { input, .. }
        | Node::Distinct { input, .. }
        | Node::LockRows { input, .. }
        | Node::Aggregate { input, .. } => only_scan(input),
        Node::Parallel { input } => only_scan(input),
        Node::Update(update) => only_scan(&update.source),
        Node::Delete(delete) => only_scan(&delete.source),
        _ => None,
    }
}

/// Plans of a statement for other values than the average ones: a session's own statements, or the
/// recipes that sessions share.
pub(super) struct Variants<T>(Mutex<Vec<(Levels, Arc<T>)>>);

impl<T> Default for Variants<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Variants<T> {
    /// The plan for some counts, among those that are still good. It is the last one to go.
    fn find(&self, levels: &Levels, is_good: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut known = self.0.lock();
        known.retain(|(_, variant)| is_good(variant));
        let place = known.iter().position(|(of, _)| of == levels)?;
        known[place..].rotate_left(1);
        known.last().map(|(_, variant)| Arc::clone(variant))
    }

    fn is_full(&self) -> bool {
        self.0.lock().len() >= VARIANTS_MAX
    }

    fn add(&self, levels: Levels, variant: &Arc<T>) {
        let mut known = self.0.lock();
        if known.len() < VARIANTS_MAX && known.iter().all(|(of, _)| *of != levels) {
            known.push((levels, Arc::clone(variant)));
        }
    }

    /// Adds one in the place of the one that was found least lately, if there are too many.
    fn put(&self, levels: Levels, variant: &Arc<T>) {
        let mut known = self.0.lock();
        if known.iter().any(|(of, _)| *of == levels) {
            return;
        }
        if known.len() >= DECIDED_MAX {
            known.remove(0);
        }
        known.push((levels, Arc::clone(variant)));
    }
}

impl Session {
    /// The plan for the values that a statement is run with, if that is another one. A statement of a
    /// body has `variables`.
    pub(super) fn variant(
        &mut self,
        prepared: &Prepared,
        params: &[Datum],
        variables: Option<&dyn Variables>,
    ) -> Result<Option<Arc<Prepared>>> {
        if prepared.decisions.is_empty() {
            return self.variant_by_counts(prepared, params, variables);
        }
        let Some(decided) = self.variant_by_decisions(prepared, params, variables)? else { return Ok(None) };
        Ok(Some(self.variant_by_counts(&decided, params, variables)?.unwrap_or(decided)))
    }

    /// What the conditions over parameters of a statement come to, those left out that fail.
    pub(super) fn decided(&self, prepared: &Prepared, params: &[Datum]) -> Vec<Decided> {
        let mut scope = Scope::pure(&self.env, params, &[]);
        let value = |condition: &Expr| Some((condition.clone(), condition.eval_owned(&mut scope, &[]).ok()?));
        prepared.decisions.iter().filter_map(value).collect()
    }

    /// The plan for what the conditions over parameters come to.
    fn variant_by_decisions(
        &mut self,
        prepared: &Prepared,
        params: &[Datum],
        variables: Option<&dyn Variables>,
    ) -> Result<Option<Arc<Prepared>>> {
        let of_cursor = || prepared.cursor_rows.is_some() || prepared.current_of.is_some();
        if !matches!(prepared.command, Command::Plan { .. }) || of_cursor() {
            return Ok(None);
        }
        let mut scope = Scope::pure(&self.env, params, &[]);
        let mut level = |condition: &Expr| match condition.eval_owned(&mut scope, &[]) {
            Ok(Datum::Bool(value)) => Level::from(value),
            Ok(_) => DECIDED_NULL,
            // It fails when it is asked for.
            Err(_) => UNDECIDED,
        };
        let levels: Levels = prepared.decisions.iter().map(&mut level).collect();
        if levels.iter().all(|&level| level == UNDECIDED) {
            return Ok(None);
        }
        if let Some(own) = prepared.variants.find(&levels, |variant| self.is_current(variant)) {
            return Ok(Some(own));
        }
        let is_shared = !prepared.is_personal;
        let shared = prepared.recipe.variants.find(&levels, |recipe| recipe.version == prepared.recipe.version);
        let recipe = match shared.filter(|_| is_shared) {
            Some(recipe) => recipe,
            None => {
                let decided = self.decided(prepared, params);
                let recipe = Arc::new(self.recipe_for((prepared, variables), &[], decided)?);
                if is_shared {
                    prepared.recipe.variants.put(levels.clone(), &recipe);
                }
                recipe
            }
        };
        let variant = Arc::new(self.adopt_as(prepared, recipe));
        prepared.variants.put(levels, &variant);
        Ok(Some(variant))
    }

    fn variant_by_counts(
        &mut self,
        prepared: &Prepared,
        params: &[Datum],
        variables: Option<&dyn Variables>,
    ) -> Result<Option<Arc<Prepared>>> {
        let Some(levels) = self.levels(prepared, params) else { return Ok(None) };
        if let Some(own) = prepared.variants.find(&levels, |variant| self.is_current(variant)) {
            return Ok(Some(own));
        }
        if prepared.variants.is_full() {
            return Ok(None);
        }
        let is_shared = !prepared.is_personal;
        let shared = prepared.recipe.variants.find(&levels, |recipe| recipe.version == prepared.recipe.version);
        let recipe = match shared.filter(|_| is_shared) {
            Some(recipe) => recipe,
            None => {
                let recipe = Arc::new(self.recipe_for((prepared, variables), params, prepared.decided.clone())?);
                if is_shared {
                    prepared.recipe.variants.add(levels.clone(), &recipe);
                }
                recipe
            }
        };
        let variant = Arc::new(self.adopt_as(prepared, recipe));
        prepared.variants.add(levels, &variant);
        Ok(Some(variant))
    }

    /// A variant, which is counted as the statement is.
    fn adopt_as(&self, prepared: &Prepared, recipe: Arc<Recipe>) -> Prepared {
        if prepared.counter.is_some() { self.adopt(recipe) } else { self.adopt_uncounted(recipe) }
    }

    /// Whether a statement has another plan for the values that it is run with.
    pub(super) fn has_variant(&self, prepared: &Prepared, params: &[Datum]) -> bool {
        self.levels(prepared, params).is_some()
    }

    /// How many rows a statement's ranges hold, if one of them holds another order of magnitude
    /// than was guessed.
    fn levels(&self, prepared: &Prepared, params: &[Datum]) -> Option<Levels> {
        let of_cursor = || prepared.cursor_rows.is_some() || prepared.current_of.is_some();
        if prepared.guesses.is_empty() || !matches!(prepared.command, Command::Plan { .. }) || of_cursor() {
            return None;
        }
        let txn = self.txn.as_deref()?;
        let mut differs = false;
        // What has to be fetched is not worth waiting for.
        let count = |space: &Space, range: &KeyRange| txn.estimate(space, range).ok();
        let levels = prepared
            .guesses
            .iter()
            .map(|guess| {
                let (guessed, counted) = (level(guess.rows), guess.count(count, &self.env, params).map_or(-1, level));
                differs |= counted >= 0 && counted != guessed;
                counted
            })
            .collect();
        differs.then_some(levels)
    }
}
