//! How large tables and ranges are, as a transaction sees them, while a plan is made.
//!
//! What was asked once is remembered for the plan. Nothing that is asked here makes the transaction
//! depend on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use colibri_catalog::cluster::Authority;
use colibri_catalog::{Index, Table, record, store_error, store_error::InSql as _};
use colibri_txn::{Key, KeyRange, Space, SpaceId, Transaction};
use colibri_types::{Datum, Env, Error, Result};

use super::Session;
use super::guesses::{Decided, Decisions, Guess, Guesses, ROWS_SMALL};
use super::samples::Samples;
use crate::bind::{Binder, Rights, rewrite};
use crate::exec::{self, Ranges, Scope, under};
use crate::expr::{CompareOp, Expr};
use crate::plan::{KeyRanges, TokenCondition};
use crate::planner::{Alike, Rewrites, Sampled, Sizes};
use crate::registry::builtin;
use crate::surroundings::SearchPath;

/// How many keys are looked at to learn how many rows are alike.
const SAMPLE_KEYS: usize = 16;

/// Sizes of tables, as a transaction sees them.
pub(super) struct TxnSizes<'t> {
    txn: &'t dyn Transaction,
    /// The session that the plan is for.
    session: Option<&'t Session>,
    /// The tables that were asked about, and their rows then.
    pub(super) asked: RefCell<Vec<(Arc<Table>, f64)>>,
    alike: RefCell<HashMap<Prefix, Option<Known>>>,
    tables: &'t colibri_catalog::Catalog,
    rewrites: Rewrites,
    env: &'t Env,
    /// Ranges can be counted quickly. Without, nothing but the sizes of tables is known.
    counts: bool,
    /// Values of the parameters, if the plan is made for these.
    params: &'t [Datum],
    pub(super) guesses: RefCell<Guesses>,
    /// Conditions over parameters alone that another plan would be right for.
    pub(super) decisions: RefCell<Decisions>,
    /// What such conditions come to, if the plan is made for that.
    decided: &'t [Decided],
    samples: Samples,
    /// Expressions of tables' indexes, by the tables' numbers.
    expressions: RefCell<Vec<(u32, Expressions)>>,
    /// What conditions find by inverted indexes.
    tokens: RefCell<Vec<KnownTokens>>,
}

/// An inverted index, conditions, and how many rows it finds for them.
type KnownTokens = (SpaceId, Vec<TokenCondition>, Option<f64>);

/// Columns that stand for expressions, with these.
type Expressions = Arc<[(usize, Expr)]>;

static NO_EXPRESSIONS: LazyLock<Expressions> = LazyLock::new(|| Arc::new([]));

/// How many rows have the same values in the first columns of a key.
#[derive(Clone, Copy)]
struct Known {
    alike: Alike,
    most: f64,
}

/// The first columns of a key: the space of a table's rows or of an index, and how many columns.
type Prefix = (SpaceId, usize);

impl<'t> TxnSizes<'t> {
    pub(super) fn of(session: &'t Session) -> Result<Self> {
        let Some(txn) = session.txn.as_deref() else {
            return Err(Error::internal("a plan is made within a transaction"));
        };
        Ok(Self {
            txn,
            session: Some(session),
            asked: RefCell::default(),
            alike: RefCell::default(),
            tables: &session.own.catalog,
            rewrites: session.own.engine.rewrites(),
            env: &session.env,
            counts: session.own.capabilities.counts,
            params: &session.plans.for_params,
            guesses: RefCell::default(),
            decisions: RefCell::default(),
            decided: &session.plans.decided,
            samples: Samples::default(),
            expressions: RefCell::default(),
            tokens: RefCell::default(),
        })
    }

    /// Without a session.
    pub(super) fn alone(txn: &'t dyn Transaction, catalog: &'t colibri_catalog::Catalog, env: &'t Env) -> Self {
        Self {
            txn,
            session: None,
            asked: RefCell::default(),
            alike: RefCell::default(),
            tables: catalog,
            rewrites: Rewrites::None,
            env,
            counts: false,
            params: &[],
            guesses: RefCell::default(),
            decisions: RefCell::default(),
            decided: &[],
            samples: Samples::default(),
            expressions: RefCell::default(),
            tokens: RefCell::default(),
        }
    }

    fn alike(&self, table: &Table, index: Option<&Index>, columns: usize) -> Option<Known> {
        if !self.counts {
            return None;
        }
        let space = index.map_or_else(|| table.space(), Index::space);
        let prefix = (space.id, columns);
        if let Some(known) = self.alike.borrow().get(&prefix) {
            return *known;
        }
        let found = rows_alike(self.txn, &space, |key| record::prefix_of(table, index, columns, key).ok());
        self.alike.borrow_mut().insert(prefix, found);
        found
    }

    /// Whether a range holds far more for some values than for others, by all that is known.
    fn varies(&self, table: &Table, index: Option<&Index>, ranges: &KeyRanges) -> bool {
        let columns = ranges.prefix.len();
        let most = match columns {
            0 => f64::INFINITY,
            _ => self.alike(table, index, columns).map_or(0.0, |known| known.most),
        };
        most.min(self.rows(table)) > ROWS_SMALL
    }
}

impl Rights for TxnSizes<'_> {
    fn authority(&self, role: Option<u32>) -> Arc<Authority> {
        let Some(session) = self.session else { return Arc::new(Authority::superuser()) };
        session.authority_of(role)
    }

    fn row_security(&self) -> bool {
        self.session.is_none_or(Session::has_row_security)
    }
}

impl Sizes for TxnSizes<'_> {
    fn rights(&self) -> Option<&dyn Rights> {
        self.session.is_some().then_some(self as &dyn Rights)
    }

    fn rewrites(&self) -> Rewrites {
        self.rewrites
    }

    fn value_of(&self, constant: &crate::expr::Expr, env: &colibri_types::Env) -> Result<Datum> {
        crate::exec::value_of(constant, env)
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

    fn entries(&self, index: &Index) -> f64 {
        estimate_now(self.txn, &index.space(), &record::whole_range()).map_or(ROWS_UNKNOWN, |rows| rows as f64)
    }

    fn expressions(&self, table: &Arc<Table>) -> Arc<[(usize, Expr)]> {
        if table.expressions().next().is_none() {
            return Arc::clone(&NO_EXPRESSIONS);
        }
        if let Some((_, known)) = self.expressions.borrow().iter().find(|(id, _)| *id == table.id) {
            return Arc::clone(known);
        }
        let search_path = SearchPath::default();
        let mut binder = Binder::new(builtin(), self.tables, self.env, self, "", &search_path, Vec::new());
        // An index that cannot be understood is not used.
        let made = binder.index_expressions(table).unwrap_or_else(|_| Arc::clone(&NO_EXPRESSIONS));
        self.expressions.borrow_mut().push((table.id, Arc::clone(&made)));
        made
    }

    fn rows_alike(&self, table: &Table, index: Option<&Index>, columns: usize) -> Option<Alike> {
        self.alike(table, index, columns).map(|known| known.alike)
    }

    fn decided(&self, condition: &Expr) -> Option<Datum> {
        if let Some((_, value)) = self.decided.iter().find(|(known, _)| rewrite::same(known, condition)) {
            return Some(value.clone());
        }
        self.decisions.borrow_mut().add(condition);
        None
    }

    fn sampled(&self, table: &Arc<Table>, condition: &Expr) -> Option<Sampled> {
        let is_unknown = |part: &Expr| match part {
            Expr::Param(_) => self.params.is_empty(),
            Expr::Arg(_) => true,
            _ => false,
        };
        if !rewrite::any(condition, &is_unknown) {
            return self.samples.of(self.txn, self.env, self.params, table, self.rows(table), condition);
        }
        let own = compared_with_unknown(condition).filter(|own| !rewrite::any(own, &is_unknown))?;
        self.samples.alike(self.txn, self.env, table, self.rows(table), own)
    }

    fn rows_in(&self, table: &Arc<Table>, index: Option<&Arc<Index>>, ranges: &KeyRanges, guessed: f64) -> f64 {
        if !self.counts {
            return guessed;
        }
        let Some(mut guess) = Guess::new(table, index, ranges, guessed) else { return guessed };
        if let Some(rows) = self.guesses.borrow().find(&guess) {
            return rows;
        }
        let count = |space: &Space, range: &KeyRange| estimate_now(self.txn, space, range);
        if let Some(rows) = guess.count(count, self.env, self.params) {
            guess.rows = rows;
        }
        let rows = guess.rows;
        if self.varies(table, index.map(|index| &**index), ranges) {
            self.guesses.borrow_mut().add(guess);
        }
        rows
    }

    fn rows_of_tokens(
        &self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        conditions: &[TokenCondition],
        guessed: f64,
    ) -> Option<f64> {
        let is_unknown = |part: &Expr| match part {
            Expr::Param(_) => self.params.is_empty(),
            Expr::Column(_) | Expr::Arg(_) | Expr::Subquery(_) | Expr::Session { .. } => true,
            _ => false,
        };
        if !self.counts || conditions.iter().any(|condition| rewrite::any(&condition.operand, &is_unknown)) {
            return Some(guessed);
        }
        let space = index.space();
        let is_same = |known: &&KnownTokens| {
            known.0 == space.id && known.1.len() == conditions.len() && known.1.iter().zip(conditions).all(are_same)
        };
        if let Some((.., rows)) = self.tokens.borrow().iter().find(is_same) {
            return *rows;
        }
        let mut count = |range: &KeyRange| store_error::fetched_now(|| self.txn.estimate(&space, range).in_sql());
        let mut scope = Scope::pure(self.env, self.params, &[]);
        let rows = match exec::rows_of_tokens((table, index), conditions, &mut scope, &mut count) {
            Ok(rows) => rows.map(|rows| rows as f64),
            // What is wrong with an operand is said when the statement runs.
            Err(_) => Some(guessed),
        };
        self.tokens.borrow_mut().push((space.id, conditions.to_vec(), rows));
        rows
    }

    fn rows_behind(&self, table: &Arc<Table>, index: Option<&Arc<Index>>, ranges: &KeyRanges) -> Option<f64> {
        if !self.counts {
            return None;
        }
        let guess = Guess::new(table, index, ranges, 0.0)?;
        let Ranges::Spans(spans) = guess.ranges(self.env, self.params)? else { return Some(0.0) };
        let (index, space) = (index.map(|index| &**index), index.map_or_else(|| table.space(), |index| index.space()));
        // A value comes up as often as it has rows, so each share counts alike.
        let share = |key: &Key| {
            let mut value = key.clone();
            value.truncate(record::prefix_bytes(table, index, ranges.skipped, key).ok()?);
            let found = spans.iter().map(|span| estimate_now(self.txn, &space, &under(&value, span)));
            let found = found.sum::<Option<u64>>()? as f64;
            let all = estimate_now(self.txn, &space, &record::prefix_range(value))? as f64;
            Some(found / all.max(1.0))
        };
        let shares: Vec<f64> = sample(self.txn, &space)?.iter().filter_map(share).collect();
        let rows = estimate_now(self.txn, &space, &record::whole_range())? as f64;
        (!shares.is_empty()).then(|| rows * shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

/// What an equality compares with a value that is the same for all rows.
fn compared_with_unknown(condition: &Expr) -> Option<&Expr> {
    let Expr::Compare { op: CompareOp::Eq, left, right } = condition else { return None };
    match (rewrite::uses_row(left), rewrite::uses_row(right)) {
        (true, false) => Some(left),
        (false, true) => Some(right),
        _ => None,
    }
}

/// Some keys of a space, evenly spread.
fn sample(txn: &dyn Transaction, space: &Space) -> Option<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    store_error::fetched_now(|| {
        keys.clear();
        txn.sample(space, SAMPLE_KEYS, &mut |key, _| keys.push(Key::from_slice(key))).in_sql()
    })
    .ok()?;
    Some(keys)
}

/// How many keys of a space have the same beginning as one of them, over a sample of them all. Those
/// with a NULL there are left out if there are others: nothing is equal to them.
fn rows_alike(
    txn: &dyn Transaction,
    space: &Space,
    prefix_of: impl Fn(&[u8]) -> Option<record::Prefix>,
) -> Option<Known> {
    let keys = sample(txn, space)?;
    let prefixes: Vec<(&Key, record::Prefix)> =
        keys.iter().filter_map(|key| prefix_of(key).map(|prefix| (key, prefix))).collect();
    let have_values = prefixes.iter().any(|(_, prefix)| !prefix.has_null);
    let of_values = prefixes.iter().filter(|(_, prefix)| !(have_values && prefix.has_null));
    let alike = |(key, prefix): &(&Key, record::Prefix)| {
        estimate_now(txn, space, &record::prefix_range(Key::from_slice(&key[..prefix.bytes])))
    };
    let found: Vec<u64> = of_values.filter_map(alike).collect();
    let most = *found.iter().max()? as f64;
    let count = found.len() as f64;
    let as_a_row = found.iter().sum::<u64>() as f64 / count;
    // A value comes up as often as it has rows.
    let per_value = count / found.iter().map(|&rows| 1.0 / rows.max(1) as f64).sum::<f64>();
    Some(Known { alike: Alike { as_a_row, per_value }, most })
}

/// Of a table that cannot be looked at.
pub(super) const ROWS_UNKNOWN: f64 = 1_000.0;

fn rows_of(txn: &dyn Transaction, table: &Table) -> f64 {
    estimate_now(txn, &table.space(), &record::whole_range()).map_or(ROWS_UNKNOWN, |rows| rows as f64)
}

/// Whether an inverted index is asked the same.
fn are_same((one, other): (&TokenCondition, &TokenCondition)) -> bool {
    (one.place, one.operator, one.each) == (other.place, other.operator, other.each)
        && rewrite::same(&one.operand, &other.operand)
}

/// How many entries a range has, for a plan that is being made. If that has to be fetched, the
/// thread waits: plans are made once.
pub(super) fn estimate_now(txn: &dyn Transaction, space: &Space, range: &KeyRange) -> Option<u64> {
    store_error::fetched_now(|| txn.estimate(space, range).in_sql()).ok()
}
