//! UPDATE.
//!
//! Rows are collected first, so that the statement does not meet its own changes, unless they come
//! from a plain scan of the table whose order the changes do not touch. A row found several times
//! (by a join) is changed once. Each row is locked; then, if its key stays, the columns assigned
//! are patched, and of the indexes only those are touched that have such a column. If its key
//! changes, the old row goes at once and the new one comes when all old ones are away: so `SET k =
//! k + 1` works whatever the order of the rows. (PostgreSQL checks row by row and refuses that,
//! unless the constraint is deferrable; here uniqueness counts at the end of the statement.) New
//! entries of unique indexes wait likewise.

use std::sync::Arc;

use colibri_catalog::{Index, Table, Trigger, inverted, record, record::RowReader, store_error::InSql as _};
use colibri_txn::{ColumnSet, IfLocked, Key, LockMode, Space};
use colibri_types::{Datum, Result, pulse};
use smallvec::SmallVec;

use super::constraints::expressions::{asks_routines, fill_generated, row_for};
use super::constraints::references::{Effects, Mark, differ, put_off};
use super::constraints::security::check_rows;
use super::constraints::{
    check_condition, is_in_partition, is_plain_scan, looks_at, null_violation, partition_violation, takes_no_null,
};
use super::delete::take_row;
use super::key_set::KeySet;
use super::operator::Run;
use super::row_patch::{Addition, RowPatch};
use super::triggers::{
    Fired, after_statement, already_modified, before_row, before_statement, capture, expect_untouched, instead_of_row,
    note_event, note_row,
};
use super::writing::{ChangeRun, Changes, Outcome};
use super::{Batch, Exec, operator_cache};
use crate::eval::Evaluate as _;
use crate::plan::{AssignedValue, Assignment, TableRules, Update};

/// What changing given columns of a table's rows involves: worked out once a plan.
#[derive(Debug)]
pub(super) struct ChangePlan {
    pub(super) table: Arc<Table>,
    pub(super) rules: Arc<TableRules>,
    pub(super) space: Space,
    /// Columns set, and their places in the newest format; `None` for those that the key holds
    /// alone.
    sets: SmallVec<[(usize, Option<usize>); 4]>,
    /// Columns added to, with their places.
    adds: SmallVec<[(usize, usize); 1]>,
    adds_set: ColumnSet,
    sets_key: bool,
    /// It sets columns that are unique, to which others may refer.
    sets_unique: SmallVec<[usize; 2]>,
    indexes: SmallVec<[usize; 4]>,
    checks: SmallVec<[usize; 2]>,
    foreign_keys: SmallVec<[usize; 2]>,
    references: SmallVec<[usize; 2]>,
    /// What is changed may make a row one of another partition.
    may_leave: bool,
}

fn numbers_of<T, const N: usize>(items: &[T], is_meant: impl Fn(&T) -> bool) -> SmallVec<[usize; N]>
where
    [usize; N]: smallvec::Array<Item = usize>,
{
    items.iter().enumerate().filter(|(_, item)| is_meant(item)).map(|(number, _)| number).collect()
}

impl ChangePlan {
    pub(super) fn new(table: &Arc<Table>, rules: &Arc<TableRules>, sets: &[usize], adds: &[usize]) -> Self {
        let stored = table.layout().stored.last().map_or(&[][..], Vec::as_slice);
        let place = |column: usize| stored.iter().position(|&stored| stored == column);
        let is_changed = |column: usize| sets.contains(&column) || adds.contains(&column);
        let any_changed = |columns: &[usize]| columns.iter().any(|&column| is_changed(column));
        Self {
            sets: sets.iter().map(|&column| (column, place(column))).collect(),
            adds: adds.iter().filter_map(|&column| Some((column, place(column)?))).collect(),
            adds_set: adds.iter().copied().collect(),
            sets_key: any_changed(table.key_columns()),
            sets_unique: sets.iter().chain(adds).copied().filter(|&column| is_unique(table, column)).collect(),
            indexes: numbers_of(&table.indexes, |index| {
                rules.columns_of(index).iter().any(|&column| is_changed(column))
            }),
            checks: numbers_of(&rules.checks, |(name, condition)| {
                looks_at(condition, &is_changed) || table.is_not_valid(name)
            }),
            foreign_keys: numbers_of(&rules.foreign_keys, |rule| any_changed(&rule.columns)),
            references: numbers_of(&rules.referenced_by, |rule| any_changed(&rule.columns)),
            may_leave: rules
                .partition
                .iter()
                .flat_map(|(router, _)| &router.keys)
                .any(|key| looks_at(&key.expr, &is_changed)),
            space: table.space(),
            table: Arc::clone(table),
            rules: Arc::clone(rules),
        }
    }

    /// Of assignments.
    pub(super) fn of(table: &Arc<Table>, rules: &Arc<TableRules>, assignments: &[Assignment]) -> Self {
        let (mut sets, mut adds) = (SmallVec::<[usize; 8]>::new(), SmallVec::<[usize; 4]>::new());
        if rules.has_before_row(Trigger::UPDATE) {
            // A trigger may change any column.
            let sets: Vec<usize> = table.live_columns().map(|(column, _)| column).collect();
            return Self::new(table, rules, &sets, &[]);
        }
        for assignment in assignments {
            match assignment.value {
                AssignedValue::Expr(_) | AssignedValue::Generated(_) => sets.push(assignment.column),
                AssignedValue::Add { .. } => adds.push(assignment.column),
            }
        }
        Self::new(table, rules, &sets, &adds)
    }

    /// How strongly a row is locked before it is known what it will be: others may count on keys
    /// that are not set.
    pub(super) fn lock_mode_of_any(&self) -> LockMode {
        if self.sets_unique.is_empty() { LockMode::NoKeyUpdate } else { LockMode::Exclusive }
    }

    /// How strongly a row is locked for a change: others may count on its keys if these stay.
    pub(super) fn lock_mode(&self, old: &[Datum], new: &[Datum], adds_alone: bool) -> LockMode {
        if differ(&self.sets_unique, old, new) {
            LockMode::Exclusive
        } else if self.sets.is_empty() && !self.adds.is_empty() && !adds_alone {
            LockMode::Add
        } else {
            LockMode::NoKeyUpdate
        }
    }
}

pub(super) fn is_unique(table: &Table, column: usize) -> bool {
    let in_index = |index: &Arc<Index>| {
        (index.unique || index.is_exclusion()) && index.columns.iter().any(|part| part.column == column)
    };
    table.key_columns().contains(&column) || table.indexes.iter().any(in_index)
}

/// The columns that assignments set.
pub(super) fn columns_set(assignments: &[Assignment]) -> Arc<[usize]> {
    assignments.iter().map(|assignment| assignment.column).collect()
}

/// Evaluates assignments on a row: what is set goes into `new`, what is added to `additions`.
#[inline]
pub(super) fn assign(
    ex: &mut Exec<'_, '_>,
    assignments: &[Assignment],
    row: &[Datum],
    new: &mut [Datum],
    additions: &mut Vec<Addition>,
) -> Result<()> {
    additions.clear();
    for Assignment { column, value } in assignments {
        match value {
            AssignedValue::Expr(expr) => new[*column] = expr.eval_owned(&mut ex.scope(), row)?,
            // They come last.
            AssignedValue::Generated(expr) => new[*column] = expr.eval_owned(&mut ex.scope(), new)?,
            AssignedValue::Add { amount, function } => {
                let amount = amount.eval_owned(&mut ex.scope(), row)?;
                additions.push(Addition { column: *column, amount, function });
            }
        }
    }
    Ok(())
}

/// Changes a row whose lock is held. `old` and `new` are the row before and after, as far as it was
/// read; `additions` are not in `new`.
#[inline]
pub(super) fn change_row(
    ex: &mut Exec<'_, '_>,
    effects: &mut Effects,
    plan: &ChangePlan,
    key: &Key,
    old: &[Datum],
    new: &[Datum],
    additions: &[Addition],
) -> Result<()> {
    let ChangePlan { table, rules, .. } = plan;
    if let Some(column) = first_null(plan, new, additions) {
        let mut row = whole_row(ex, plan, key, new, &[])?;
        row[column] = Datum::Null;
        return Err(null_violation(table, column, &row, ex.cx.env));
    }
    for &check in &plan.checks {
        if let Err(error) = check_condition(ex, table, rules, check, new) {
            // The error shows the row, of which not all was read.
            let row = whole_row(ex, plan, key, new, &[])?;
            check_condition(ex, table, rules, check, &row)?;
            return Err(error);
        }
    }
    if plan.may_leave && !is_in_partition(ex, rules, new)? {
        let row = whole_row(ex, plan, key, new, &[])?;
        return Err(partition_violation(table, &row, ex.cx.env));
    }
    let new_key = if plan.sets_key { Some(record::row_key(table, new)?).filter(|new| new != key) } else { None };
    match &new_key {
        Some(new_key) => {
            // Checks that were put off know the row by its key.
            let later = put_off(ex, rules);
            let row = if later.is_empty() { Vec::new() } else { whole_row(ex, plan, key, new, additions)? };
            move_row(ex, effects, plan, key, new_key, new, additions)?;
            effects.check_moved(ex, (table, rules), &plan.foreign_keys, new_key, new)?;
            for rule in later {
                let is_checked =
                    plan.foreign_keys.contains(&rule) && differ(&rules.foreign_keys[rule].columns, old, new);
                if !is_checked {
                    effects.check_reference(ex, (table, rules), rule, new_key, &row)?;
                }
            }
        }
        None => {
            patch_row(ex, plan, key, new, additions)?;
            if !plan.indexes.is_empty() {
                change_entries(ex, effects, plan, key, old, new)?;
            }
        }
    }
    for &rule in &plan.foreign_keys {
        if differ(&rules.foreign_keys[rule].columns, old, new) {
            effects.check_reference(ex, (table, rules), rule, new_key.as_ref().unwrap_or(key), new)?;
        }
    }
    for &rule in &plan.references {
        effects.note_changed(ex, (table, rules), rule, old, new)?;
    }
    Ok(())
}

/// The first column that may not be NULL and becomes so.
#[inline]
fn first_null(plan: &ChangePlan, new: &[Datum], additions: &[Addition]) -> Option<usize> {
    let set = plan.sets.iter().map(|&(column, _)| column).filter(|&column| new[column].is_null());
    let added = additions.iter().filter(|addition| addition.amount.is_null()).map(|addition| addition.column);
    set.chain(added).filter(|&column| takes_no_null(&plan.table, column)).min()
}

#[inline]
fn patch_row(ex: &mut Exec<'_, '_>, plan: &ChangePlan, key: &Key, new: &[Datum], additions: &[Addition]) -> Result<()> {
    let sets: SmallVec<[(usize, Datum); 2]> =
        plan.sets.iter().filter_map(|&(column, place)| Some((place?, new[column].clone()))).collect();
    let adds: SmallVec<[(usize, Addition); 3]> = additions
        .iter()
        .zip(&plan.adds)
        .map(|(&Addition { column, ref amount, function }, &(_, place))| {
            (place, Addition { column, amount: amount.clone(), function })
        })
        .collect();
    if sets.is_empty() && adds.is_empty() {
        return Ok(());
    }
    let patch = RowPatch { table: Arc::clone(&plan.table), sets, adds };
    ex.txn.patch(&plan.space, key, plan.adds_set, Arc::new(patch)).in_sql()?;
    Ok(())
}

/// Removes the entries whose columns have changed, and writes new ones: those of unique indexes
/// when all old ones are away.
fn change_entries(
    ex: &mut Exec<'_, '_>,
    effects: &mut Effects,
    plan: &ChangePlan,
    key: &Key,
    old: &[Datum],
    new: &[Datum],
) -> Result<()> {
    let table = &plan.table;
    let mut waiting = SmallVec::new();
    for &number in &plan.indexes {
        let index = &table.indexes[number];
        let old = row_for(ex, (table, index), &plan.rules.expressions, old)?;
        let new = row_for(ex, (table, index), &plan.rules.expressions, new)?;
        if index.is_inverted() {
            change_tokens(ex, (table, index), key, &old, &new)?;
            continue;
        }
        let entry = |row: &[Datum]| {
            record::has_entry(index, row).then(|| record::index_entry(table, index, row, key)).transpose()
        };
        let (before, after) = (entry(&old)?, entry(&new)?);
        if before == after {
            continue;
        }
        let space = index.space();
        if let Some(before) = before {
            debug_assert!(
                asks_routines(index, &plan.rules.expressions) || ex.txn.peek(&space, &before).in_sql()?.is_some(),
                "the source reads the columns of indexes touched"
            );
            ex.txn.delete(&space, &before).in_sql()?;
        }
        match after {
            Some(_) if (index.unique || index.is_exclusion()) && !record::has_null(index, &new) => waiting.push(number),
            Some(after) => ex.txn.put(&space, &after, &[]).in_sql()?,
            None => {}
        }
    }
    if !waiting.is_empty() {
        let row = new[..table.columns.len()].to_vec();
        effects.push_moved(ex, (table, &plan.rules, &plan.space), (key, row), false, waiting)?;
    }
    Ok(())
}

/// Removes the entries of tokens that a row has no more, and writes those of new ones.
fn change_tokens(
    ex: &mut Exec<'_, '_>,
    (table, index): (&Table, &Index),
    key: &Key,
    old: &[Datum],
    new: &[Datum],
) -> Result<()> {
    let (before, after) = (inverted::entries(table, index, old, key)?, inverted::entries(table, index, new, key)?);
    let space = index.space();
    // Both are in order.
    for entry in before.iter().filter(|entry| after.binary_search(entry).is_err()) {
        ex.txn.delete(&space, entry).in_sql()?;
    }
    for entry in after.iter().filter(|entry| before.binary_search(entry).is_err()) {
        ex.txn.put(&space, entry, &[]).in_sql()?;
    }
    Ok(())
}

/// Takes away a row whose key changes, and keeps the new one for later.
fn move_row(
    ex: &mut Exec<'_, '_>,
    effects: &mut Effects,
    plan: &ChangePlan,
    key: &Key,
    new_key: &Key,
    new: &[Datum],
    additions: &[Addition],
) -> Result<()> {
    let ChangePlan { table, space, .. } = plan;
    let old = stored_row(ex, plan, key)?;
    let row = overlay(plan, old.clone(), new, additions)?;
    ex.txn.delete(space, key).in_sql()?;
    for index in &table.indexes {
        let old = row_for(ex, (table, index), &plan.rules.expressions, &old)?;
        if index.is_inverted() {
            for entry in inverted::entries(table, index, &old, key)? {
                ex.txn.delete(&index.space(), &entry).in_sql()?;
            }
        } else if record::has_entry(index, &old) {
            ex.txn.delete(&index.space(), &record::index_entry(table, index, &old, key)?).in_sql()?;
        }
    }
    let indexes = (0..table.indexes.len()).collect();
    effects.push_moved(ex, (table, &plan.rules, space), (new_key, row), true, indexes)
}

/// All columns of a row as it is stored.
fn stored_row(ex: &mut Exec<'_, '_>, plan: &ChangePlan, key: &Key) -> Result<Vec<Datum>> {
    let table = &plan.table;
    let columns: Vec<usize> = (0..table.columns.len() + usize::from(table.primary_key.is_none())).collect();
    let mut row = vec![Datum::Null; columns.len()];
    let value = ex.txn.get(&plan.space, key, ColumnSet::ALL).in_sql()?;
    let value = value.ok_or_else(|| already_modified("updated"))?;
    RowReader::new(table, &columns).read(key, value, &mut row)?;
    Ok(row)
}

/// A stored row with what is assigned.
fn overlay(plan: &ChangePlan, mut row: Vec<Datum>, new: &[Datum], additions: &[Addition]) -> Result<Vec<Datum>> {
    for &(column, _) in &plan.sets {
        row[column] = new[column].clone();
    }
    for addition in additions {
        row[addition.column] = addition.apply(&plan.table, &row[addition.column])?;
    }
    Ok(row)
}

#[cold]
fn whole_row(
    ex: &mut Exec<'_, '_>,
    plan: &ChangePlan,
    key: &Key,
    new: &[Datum],
    additions: &[Addition],
) -> Result<Vec<Datum>> {
    let row = stored_row(ex, plan, key)?;
    overlay(plan, row, new, additions)
}

/// UPDATE at work.
pub(super) type UpdateRun = ChangeRun<(Arc<Update>, UpdateWay, Updates)>;

/// What changing rows needs from one to the next.
pub(super) struct Updates {
    /// Keys of rows changed, if a row may come more than once.
    seen: Option<KeySet>,
    effects: Effects,
    fired: Fired,
    /// The columns that are set.
    set: Arc<[usize]>,
    /// The row at hand: as it will be, what is added to it, and what RETURNING sees where a join
    /// has more columns. `is_assigned`: the first two are there, and something had to be fetched
    /// since.
    is_assigned: bool,
    new: Vec<Datum>,
    additions: Vec<Addition>,
    returning: Vec<Datum>,
}

/// What came of a row of a partition.
pub(super) enum Left {
    /// It is where it was.
    Nothing,
    /// It was taken away, and belongs elsewhere: its key, and what it is now, without its hidden
    /// number.
    Moved(Key, Vec<Datum>),
}

/// How an UPDATE goes about it: the same in all runs of a plan.
#[derive(Debug)]
pub(super) struct UpdateWay {
    plan: ChangePlan,
    /// The columns that it sets.
    set: Arc<[usize]>,
    /// Rows are changed as they come.
    streams: bool,
    /// No row comes twice.
    is_plain: bool,
}

impl UpdateWay {
    fn new(update: &Update) -> Self {
        let Update { table, source, assignments, rules, .. } = update;
        let plan = ChangePlan::of(table, rules, assignments);
        let is_assigned = |column: usize| assignments.iter().any(|assignment| assignment.column == column);
        let refers_to_itself = plan.references.iter().any(|&rule| rules.referenced_by[rule].source.id == table.id);
        let streams = rules.triggers.is_none()
            && !refers_to_itself
            && is_plain_scan(source, table, &is_assigned)
            && are_plain(update);
        let set = columns_set(assignments);
        Self { plan, set, streams, is_plain: is_plain_scan(source, table, &|_| false) }
    }
}

impl UpdateRun {
    pub(super) fn new(update: &Arc<Update>, source: Run) -> Self {
        let way = UpdateWay::new(update);
        let updates = Updates {
            seen: (!way.is_plain).then(KeySet::default),
            effects: Effects::default(),
            fired: Fired::new(&update.rules, [(Trigger::UPDATE, Some(Arc::clone(&way.set)))]),
            set: Arc::clone(&way.set),
            is_assigned: false,
            new: Vec::new(),
            additions: Vec::new(),
            returning: Vec::new(),
        };
        Self::over(source, way.streams, (Arc::clone(update), way, updates))
    }
}

impl Changes for (Arc<Update>, UpdateWay, Updates) {
    #[inline]
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        self.2.update(&self.0, &self.1.plan, ex, rows.row(at), outcome)
    }

    fn mark(&self) -> Mark {
        self.2.effects.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.2.effects.take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if !self.2.effects.finish(ex)? {
            return Ok(false);
        }
        let Update { table, rules, .. } = &*self.0;
        self.2.fired.take_in_front(self.2.effects.fired_mut());
        after_statement(ex, table, rules, &mut self.2.fired)?;
        Ok(true)
    }

    fn forget(&mut self) {
        let Updates { seen, effects, fired, set: _, is_assigned, new, additions, returning } = &mut self.2;
        *is_assigned = false;
        fired.again();
        if let Some(seen) = seen {
            *seen = KeySet::default();
        }
        effects.again();
        operator_cache::empty(new);
        operator_cache::empty(additions);
        operator_cache::empty(returning);
    }
}

impl Updates {
    /// For rows of a partition, of which all columns are there.
    pub(super) fn of_partition(update: &Update) -> (ChangePlan, Self) {
        let updates = Self {
            seen: Some(KeySet::default()),
            effects: Effects::default(),
            fired: Fired::default(),
            set: columns_set(&update.assignments),
            is_assigned: false,
            new: Vec::new(),
            additions: Vec::new(),
            returning: Vec::new(),
        };
        (ChangePlan::of(&update.table, &update.rules, &update.assignments), updates)
    }

    pub(super) fn effects_mut(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Exchanges what is noted for triggers.
    pub(super) fn exchange_fired(&mut self, fired: &mut Fired) {
        std::mem::swap(&mut self.fired, fired);
    }

    /// A row that was taken away is where it belongs.
    pub(super) fn note_left(&mut self, plan: &ChangePlan, ex: &mut Exec<'_, '_>, key: Key) {
        if ex.statement.has_parts {
            ex.txn.note_written(&plan.space, &key);
        }
        if let Some(seen) = &mut self.seen {
            seen.insert(key);
        }
    }

    /// Changes a row of a partition; one that belongs elsewhere then is taken away.
    pub(super) fn update_or_leave(
        &mut self,
        update: &Update,
        plan: &ChangePlan,
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
        outcome: &mut Outcome,
    ) -> Result<Left> {
        let table = &update.table;
        self.is_assigned = false;
        if plan.may_leave {
            let key = record::row_key(table, row)?;
            if self.seen.as_ref().is_some_and(|seen| seen.contains(&key)) || ex.is_changed(&plan.space, &key) {
                return Ok(Left::Nothing);
            }
            self.new.clear();
            self.new.extend_from_slice(&row[..table.columns.len() + usize::from(table.primary_key.is_none())]);
            assign(ex, &update.assignments, row, &mut self.new, &mut self.additions)?;
            if !self.before_row(update, plan, ex, row, &key)? {
                return Ok(Left::Nothing);
            }
            self.is_assigned = true;
            if !is_in_partition(ex, &update.rules, &self.new)? {
                check_rows(ex, &update.security.update, &self.new)?;
                self.is_assigned = false;
                let own_width = table.columns.len() + usize::from(table.primary_key.is_none());
                if update.rules.triggers.is_some()
                    && !before_row(ex, table, &update.rules, Trigger::DELETE, Some(&row[..own_width]), None, None)?
                {
                    return Ok(Left::Nothing);
                }
                ex.txn.lock(&plan.space, &key, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
                take_row(ex, table, &plan.space, &update.rules, &key, row)?;
                // To what refers to it, it is a row that has changed.
                for rule in 0..update.rules.referenced_by.len() {
                    self.effects.note_changed(ex, (table, &update.rules), rule, row, &self.new)?;
                }
                // To triggers that see all rows it is one that has changed.
                capture(ex, &mut self.fired, Trigger::UPDATE, Some(&row[..own_width]), None)?;
                let old = Some(&row[..own_width]);
                note_event(ex, (table, &update.rules), &mut self.fired, Trigger::DELETE, old, None, None)?;
                return Ok(Left::Moved(key, self.new[..table.columns.len()].to_vec()));
            }
        }
        self.update(update, plan, ex, row, outcome)?;
        Ok(Left::Nothing)
    }

    /// Fires the triggers in front of the row at hand. `false`: it stays as it is.
    fn before_row(
        &mut self,
        update: &Update,
        plan: &ChangePlan,
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
        key: &Key,
    ) -> Result<bool> {
        let Update { table, rules, .. } = update;
        if rules.triggers.is_none() {
            return Ok(true);
        }
        before_statement(ex, table, rules, &mut self.fired)?;
        if !rules.has_before_row(Trigger::UPDATE) {
            return Ok(true);
        }
        let own_width = table.columns.len() + usize::from(table.primary_key.is_none());
        let old = Some(&row[..own_width]);
        if !before_row(ex, table, rules, Trigger::UPDATE, old, Some(&mut self.new), Some(&self.set))? {
            return Ok(false);
        }
        expect_untouched(ex, table, (&plan.space, key), row, "updated")?;
        fill_generated(ex, rules, &mut self.new)?;
        Ok(true)
    }

    /// Has the triggers of a view do what the statement says.
    fn update_view(
        &mut self,
        update: &Update,
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Update { table, rules, .. } = update;
        let own_width = table.columns.len() + 1;
        self.new.clear();
        self.new.extend_from_slice(&row[..own_width]);
        assign(ex, &update.assignments, row, &mut self.new, &mut self.additions)?;
        before_statement(ex, table, rules, &mut self.fired)?;
        let old = Some(&row[..own_width]);
        if !instead_of_row(ex, table, rules, Trigger::UPDATE, old, Some(&mut self.new))? {
            return Ok(());
        }
        if let Some(exprs) = &update.returning {
            self.returning.clear();
            self.returning.extend_from_slice(&self.new);
            self.returning.extend_from_slice(&row[own_width..]);
            outcome.returned.push(ex, exprs, &self.returning)?;
        }
        outcome.affected += 1;
        Ok(())
    }

    fn update(
        &mut self,
        update: &Update,
        plan: &ChangePlan,
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
        outcome: &mut Outcome,
    ) -> Result<()> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        let table = &update.table;
        if update.rules.is_view {
            return self.update_view(update, ex, row, outcome);
        }
        let own_width = table.columns.len() + usize::from(table.primary_key.is_none());
        let key = record::row_key(table, row)?;
        if self.seen.as_ref().is_some_and(|seen| seen.contains(&key)) || ex.is_changed(&plan.space, &key) {
            return Ok(());
        }
        if !self.is_assigned {
            self.new.clear();
            self.new.extend_from_slice(&row[..own_width]);
            assign(ex, &update.assignments, row, &mut self.new, &mut self.additions)?;
            if !self.before_row(update, plan, ex, row, &key)? {
                return Ok(());
            }
            self.is_assigned = true;
        }
        let rules = &update.rules;
        check_rows(ex, &update.security.update, &self.new)?;
        let mode = plan.lock_mode(row, &self.new, ex.statement.adds_alone);
        ex.txn.lock(&plan.space, &key, mode, IfLocked::Wait).in_sql()?;
        change_row(ex, &mut self.effects, plan, &key, row, &self.new, &self.additions)?;
        let (old, new) = (Some(&row[..own_width]), Some(self.new.as_slice()));
        note_row(ex, (table, rules), &mut self.fired, Trigger::UPDATE, old, new, Some(&self.set))?;
        if let Some(exprs) = &update.returning {
            let row = if row.len() == own_width {
                &self.new
            } else {
                self.returning.clear();
                self.returning.extend_from_slice(&self.new);
                self.returning.extend_from_slice(&row[own_width..]);
                &self.returning
            };
            outcome.returned.push(ex, exprs, row)?;
        }
        if ex.statement.has_parts {
            ex.txn.note_written(&plan.space, &key);
        }
        if let Some(seen) = &mut self.seen {
            seen.insert(key);
        }
        self.is_assigned = false;
        outcome.affected += 1;
        Ok(())
    }
}

/// Whether what is evaluated beside the source has no queries, which could see the statement's own
/// changes.
fn are_plain(update: &Update) -> bool {
    let assigned = update.assignments.iter().map(|assignment| match &assignment.value {
        AssignedValue::Expr(expr) | AssignedValue::Generated(expr) | AssignedValue::Add { amount: expr, .. } => expr,
    });
    !assigned.chain(update.returning.iter().flatten()).chain(update.security.exprs()).any(super::constraints::has_query)
}
