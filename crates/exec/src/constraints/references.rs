//! Foreign keys: rows that refer to others, and what happens to them when those go or change.
//!
//! A row that comes to refer to another is checked at once, by one look-up of the other's key. If
//! that is not there, the row is looked at again at the end of the statement, as it is then: what
//! it refers to may have come (it is of the row's own table, or an action of a foreign key makes
//! it), and other violations, of later rows too, are told first. What happens to rows whose
//! reference goes or changes is in `super::actions`.
//!
//! Invariants: NULL among the columns refers to nothing (MATCH SIMPLE). The look-up depends on the
//! other row's presence and on none of its columns. Of a row that comes to refer to another and the
//! end of that other, only one commits:
//!
//! | who refers | who takes the other away | what keeps them apart |
//! | --- | --- | --- |
//! | serializable | serializable | the check of reads when the second commits |
//! | READ COMMITTED | either | a `KeyShare` lock on the other row: nobody may take it away, or change its keys |
//! | serializable | READ COMMITTED | the lock of the other's `guard_name`, which changes of its other columns do not take |
//!
//! In SERIALIZABLE the other row itself is not locked: rows that many refer to are the very rows
//! that many change.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use colibri_catalog::{
    ObjectId, ReferenceAction, Table, inverted, record, record::RowReader, store_error, store_error::InSql as _,
};
use colibri_txn::{ColumnSet, IfLocked, Key, LockMode, Space};
use colibri_types::{
    Datum, Env, Error, Modifier, Result, SqlState, Type, cast, cast::CastContext, key, operators, pulse,
};
use smallvec::SmallVec;

use super::actions::{Event, Round};
use super::deferred::{Deferred, is_deferred};
use super::exclusion;
use super::expressions::row_for;
use super::{claim_index_values, claim_key, find_entry, find_leaf, key_text};
use crate::memory::Reservation;
use crate::plan::{Arbiter, ForeignKeyRule, ReferredTree, TableRules};
use crate::triggers::Fired;
use crate::{Exec, operator_cache, row_bytes};

/// Values of a foreign key's columns.
pub(super) type Values = SmallVec<[Datum; 2]>;

/// What a statement has yet to do before it is over.
#[derive(Default)]
pub(crate) struct Effects {
    /// Rows and entries that are written when all old ones are away.
    moved: Vec<Moved>,
    /// What the next round of actions is about, and the one that is worked off.
    pub(super) events: VecDeque<Event>,
    pub(super) round: Option<Box<Round>>,
    /// A row is changed by an action, not by the statement itself.
    pub(super) acts: bool,
    /// The row that is changed has left its events already.
    pub(super) is_noted: bool,
    unchecked: VecDeque<Unchecked>,
    /// Checks that the statement's end does not make.
    deferred: Vec<Deferred>,
    /// The last of `unchecked` refers to nothing, and nothing can change that: no row after it has
    /// to be looked at.
    is_doomed: bool,
    /// The rows that actions have written, for the triggers of their tables.
    pub(super) fired: Fired,
    /// Memory taken.
    memory: Reservation,
    /// Space for rows' bytes.
    buffer: Vec<u8>,
}

/// A row with a new key, or with new values in unique indexes.
struct Moved {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    space: Space,
    /// The new row; without `is_put` only what its keys need.
    row: Vec<Datum>,
    key: Key,
    is_put: bool,
    /// Places of the indexes that get an entry.
    indexes: SmallVec<[usize; 4]>,
}

/// A row that refers to one that was not there yet.
pub(super) struct Unchecked {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    /// Which of `foreign_keys`.
    rule: usize,
    key: Key,
}

/// See [`Effects::mark`].
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    moved: usize,
    events: usize,
    unchecked: usize,
    deferred: usize,
    is_doomed: bool,
}

impl Moved {
    fn put(&self, ex: &mut Exec<'_, '_>, buffer: &mut Vec<u8>) -> Result<()> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        let Self { table, rules, space, row, key, is_put, indexes } = self;
        if *is_put {
            claim_key(ex, table, space, key, row)?;
            buffer.clear();
            record::encode_row(table, row, buffer)?;
            ex.txn.put(space, key, buffer).in_sql()?;
        }
        indexes.iter().try_for_each(|&index| put_entry(ex, (table, rules), index, row, key))
    }
}

/// The rules of a table's foreign keys whose checks are put off now.
pub(crate) fn put_off(ex: &Exec<'_, '_>, rules: &TableRules) -> Vec<usize> {
    let is_put_off = |rule: &usize| {
        let foreign_key = &rules.foreign_keys[*rule];
        is_deferred(ex.cx.session, foreign_key.id, foreign_key.timing)
    };
    (0..rules.foreign_keys.len()).filter(is_put_off).collect()
}

impl Effects {
    /// As new, for the next run of the plan.
    pub(crate) fn again(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        operator_cache::empty(&mut buffer);
        *self = Self { buffer, ..Self::default() };
    }

    /// What actions have left to triggers.
    pub(crate) fn fired_mut(&mut self) -> &mut Fired {
        &mut self.fired
    }

    /// Keeps a row, or entries of it, to be written by [`Effects::put_moved`].
    pub(crate) fn push_moved(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules, space): (&Arc<Table>, &Arc<TableRules>, &Space),
        (key, row): (&Key, Vec<Datum>),
        is_put: bool,
        indexes: SmallVec<[usize; 4]>,
    ) -> Result<()> {
        self.take(ex, row_bytes(&row) + size_of::<Moved>())?;
        self.moved.push(Moved {
            table: Arc::clone(table),
            rules: Arc::clone(rules),
            space: space.clone(),
            row,
            key: key.clone(),
            is_put,
            indexes,
        });
        Ok(())
    }

    fn take(&mut self, ex: &mut Exec<'_, '_>, bytes: usize) -> Result<()> {
        self.memory.add(ex.cx.memory, bytes)
    }

    /// How much there is to do, for [`Effects::take_back`].
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            moved: self.moved.len(),
            events: self.events.len(),
            unchecked: self.unchecked.len(),
            deferred: self.deferred.len(),
            is_doomed: self.is_doomed,
        }
    }

    /// Forgets what was left to be done since a mark.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        self.moved.truncate(mark.moved);
        self.events.truncate(mark.events);
        self.unchecked.truncate(mark.unchecked);
        self.deferred.truncate(mark.deferred);
        self.is_doomed = mark.is_doomed;
    }

    /// Writes rows and entries whose old places are free by now. What is not unique is found here.
    /// Those that are written are written when it fails, too, and the others are left as they were.
    #[inline]
    pub(crate) fn put_moved(&mut self, ex: &mut Exec<'_, '_>) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let fetches = ex.txn.fetches();
        let moved = std::mem::take(&mut self.moved);
        for (done, one) in moved.iter().enumerate() {
            let before = fetches.then(|| ex.txn.savepoint());
            if let Err(error) = one.put(ex, &mut self.buffer) {
                if let (Some(savepoint), true) = (before, store_error::is_fetch(&error)) {
                    ex.txn.rollback_to(savepoint).in_sql()?;
                    self.moved.extend(moved.into_iter().skip(done));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Leaves an event for each foreign key that may refer to a row that has been deleted.
    pub(crate) fn note_deleted(
        &mut self,
        ex: &mut Exec<'_, '_>,
        table: &Arc<Table>,
        rules: &Arc<TableRules>,
        row: &[Datum],
    ) -> Result<()> {
        if self.is_noted {
            return Ok(());
        }
        if !rules.referenced_by.is_empty() {
            guard_end(ex, table, row)?;
        }
        for rule in 0..rules.referenced_by.len() {
            if let Some(old) = values_of(&rules.referenced_by[rule].columns, row) {
                self.push_event(ex, (table, rules), rule, old, None)?;
            }
        }
        Ok(())
    }

    /// Leaves an event if a row's change concerns a foreign key that may refer to it.
    pub(crate) fn note_changed(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules): (&Arc<Table>, &Arc<TableRules>),
        rule: usize,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<()> {
        let columns = &rules.referenced_by[rule].columns;
        if self.is_noted || !differ_in_form(columns, old, new) {
            return Ok(());
        }
        match values_of(columns, old) {
            Some(values) => {
                guard_end(ex, table, old)?;
                let new = columns.iter().map(|&column| new[column].clone()).collect();
                self.push_event(ex, (table, rules), rule, values, Some(new))
            }
            None => Ok(()),
        }
    }

    fn push_event(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules): (&Arc<Table>, &Arc<TableRules>),
        rule: usize,
        old: Values,
        new: Option<Values>,
    ) -> Result<()> {
        if ex.cx.session.replicates() {
            return Ok(());
        }
        let bytes = row_bytes(&old) + new.as_deref().map_or(0, row_bytes);
        let reference = &rules.referenced_by[rule];
        let action = if new.is_some() { reference.on_update } else { reference.on_delete };
        let (table, own_rules) = (Arc::clone(table), Arc::clone(rules));
        let event = Event { table, rules: own_rules, rule, old, new, action, again: false };
        if action == ReferenceAction::NoAction && is_deferred(ex.cx.session, reference.id, reference.timing) {
            self.deferred.push(Deferred::gone(ex, reference.id, event, bytes)?);
            return Ok(());
        }
        self.take(ex, size_of::<Event>() + bytes)?;
        self.events.push_back(event);
        Ok(())
    }

    /// Checks that what a row refers to is there, by one foreign key. If it is not, the error comes
    /// at the end of the statement: what else is wrong with a later row is told first.
    pub(crate) fn check_reference(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules): (&Arc<Table>, &Arc<TableRules>),
        rule: usize,
        key: &Key,
        row: &[Datum],
    ) -> Result<()> {
        if self.is_doomed || ex.cx.session.replicates() {
            return Ok(());
        }
        let foreign_key = &rules.foreign_keys[rule];
        let values = foreign_key.columns.iter().map(|&column| &row[column]);
        let nulls = Nulls::of(foreign_key, values.clone());
        if nulls == Nulls::ReferToNothing {
            return Ok(());
        }
        // Another part of the statement may yet take away what it refers to.
        if nulls == Nulls::None && !ex.statement.takes_away && target_exists(ex, table, foreign_key, values.clone())? {
            return Ok(());
        }
        // What the row refers to can only come in this statement if that is about its table, or has
        // actions or several parts.
        let may_come = foreign_key.target.id == table.id
            || foreign_key.tree.is_some()
            || self.acts
            || !rules.referenced_by.is_empty()
            || ex.statement.has_parts;
        self.is_doomed = !may_come;
        let unchecked = Unchecked { table: Arc::clone(table), rules: Arc::clone(rules), rule, key: key.clone() };
        if is_deferred(ex.cx.session, foreign_key.id, foreign_key.timing) {
            self.is_doomed = false;
            self.deferred.push(Deferred::row(ex, foreign_key.id, unchecked)?);
            return Ok(());
        }
        self.take(ex, size_of::<Unchecked>() + key.len())?;
        self.unchecked.push_back(unchecked);
        Ok(())
    }

    /// Checks the references of a row that an action has given another key, but for those that it
    /// has changed, which are checked anyway: the row may have to be looked at again, and would not
    /// be found under its old key.
    pub(crate) fn check_moved(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules): (&Arc<Table>, &Arc<TableRules>),
        changed: &[usize],
        key: &Key,
        row: &[Datum],
    ) -> Result<()> {
        if !self.acts || self.unchecked.is_empty() {
            return Ok(());
        }
        let others = (0..rules.foreign_keys.len()).filter(|rule| !changed.contains(rule));
        others.into_iter().try_for_each(|rule| self.check_reference(ex, (table, rules), rule, key, row))
    }

    /// Takes over what another has yet to check: of rows that were only inserted.
    pub(crate) fn absorb(&mut self, other: Self) {
        debug_assert!(other.moved.is_empty() && other.events.is_empty(), "inserting leaves no events");
        self.unchecked.extend(other.unchecked);
        self.deferred.extend(other.deferred);
        self.is_doomed |= other.is_doomed;
    }

    /// Does what is left to do at the end of a statement; `false` if the budget is used up and
    /// there is more. At the end of one of several parts, what concerns other tables is left to the
    /// statement's end.
    pub(crate) fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if !ex.statement.has_parts {
            return self.settle(ex);
        }
        self.put_moved(ex)?;
        ex.statement.effects.push_back(std::mem::take(self));
        Ok(true)
    }

    /// The same, at the end of the statement.
    pub(crate) fn settle(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        self.put_moved(ex)?;
        while self.work(ex)? {
            if ex.is_used_up() {
                return Ok(false);
            }
        }
        while let Some(unchecked) = self.unchecked.front() {
            ex.check_cancel()?;
            unchecked.check(ex)?;
            self.unchecked.pop_front();
            ex.spend(1);
            if ex.is_used_up() {
                return Ok(false);
            }
        }
        self.memory.release();
        if !self.deferred.is_empty() {
            ex.cx.session.defer(std::mem::take(&mut self.deferred));
        }
        Ok(true)
    }
}

impl Unchecked {
    pub(super) fn table(&self) -> ObjectId {
        self.table.id
    }

    pub(super) fn key_bytes(&self) -> usize {
        self.key.len()
    }

    /// Checks the row as it is by now. One that has gone refers to nothing.
    pub(super) fn check(&self, ex: &mut Exec<'_, '_>) -> Result<()> {
        let Self { table, rules, rule, key } = self;
        let foreign_key = &rules.foreign_keys[*rule];
        let depends = foreign_key.columns.iter().copied().collect();
        let Some(value) = ex.txn.get(&table.space(), key, depends).in_sql()? else { return Ok(()) };
        let mut values: Values = foreign_key.columns.iter().map(|_| Datum::Null).collect();
        RowReader::new(table, &foreign_key.columns).read(key, value, &mut values)?;
        match Nulls::of(foreign_key, values.iter()) {
            Nulls::ReferToNothing => return Ok(()),
            Nulls::AreMixed => return Err(mixed_nulls(table, foreign_key)),
            Nulls::None if target_exists(ex, table, foreign_key, values.iter())? => return Ok(()),
            Nulls::None => {}
        }
        Err(not_present(table, foreign_key, values.iter(), ex.cx.env))
    }
}

/// Writes a row's entry into an index.
#[inline]
pub(crate) fn put_entry(
    ex: &mut Exec<'_, '_>,
    (table, rules): (&Table, &TableRules),
    index: usize,
    row: &[Datum],
    key: &[u8],
) -> Result<()> {
    let index = &table.indexes[index];
    let row = row_for(ex, (table, index), &rules.expressions, row)?;
    if !record::has_entry(index, &row) {
        return Ok(());
    }
    if index.is_inverted() {
        let space = index.space();
        for entry in inverted::entries(table, index, &row, key)? {
            ex.txn.put(&space, &entry, &[]).in_sql()?;
        }
        return Ok(());
    }
    let mut entry = record::index_values(table, index, &row)?;
    if index.unique && !record::has_null(index, &row) {
        claim_index_values(ex, table, index, &entry, &row)?;
    }
    if index.is_exclusion() && !record::has_null(index, &row) {
        exclusion::claim(ex, table, index, &row)?;
    }
    record::finish_entry(index, &mut entry, key)?;
    ex.txn.put(&index.space(), &entry, &[]).in_sql()?;
    Ok(())
}

/// The values of columns, unless one is NULL.
fn values_of(columns: &[usize], row: &[Datum]) -> Option<Values> {
    let is_null = columns.iter().any(|&column| row[column].is_null());
    (!is_null).then(|| columns.iter().map(|&column| row[column].clone()).collect())
}

/// Whether two rows differ in one of some columns.
pub(crate) fn differ(columns: &[usize], old: &[Datum], new: &[Datum]) -> bool {
    columns.iter().any(|&column| match (&old[column], &new[column]) {
        (Datum::Null, Datum::Null) => false,
        (Datum::Null, _) | (_, Datum::Null) => true,
        (old, new) => !operators::equal(old, new),
    })
}

/// Whether two rows differ in one of some columns, in value or only in form (`1.0` and `1.00`):
/// actions hand on both.
pub(super) fn differ_in_form(columns: &[usize], old: &[Datum], new: &[Datum]) -> bool {
    differ(columns, old, new) || !columns.iter().all(|&column| old[column].is_identical(&new[column]))
}

/// A value of one type as one of another that it is compared with; `None` if the other type has
/// none that is equal.
pub(super) fn convert(value: &Datum, from: Type, to: Type, env: &Env) -> Option<Datum> {
    match value {
        Datum::Int(int) if to.is_integer() && to != from => cast::int_in_range(*int, to).ok(),
        Datum::Text(text) if to == Type::Char && from != to => Some(Datum::text(text.trim_end_matches(' '))),
        _ if from == to || (from.is_text() && to.is_text()) => Some(value.clone()),
        _ => {
            let cast =
                |value: &Datum, from, to| cast::cast(value, from, to, Modifier::NONE, CastContext::Explicit, env).ok();
            let converted = cast(value, from, to)?;
            // One that loses something is equal only if nothing was lost.
            let is_exact = cast::cast_context(from, to) == Some(CastContext::Implicit)
                || cast(&converted, to, from).is_some_and(|back| operators::equal(&back, value));
            is_exact.then_some(converted)
        }
    }
}

/// Whether the row that values of a foreign key's columns (none NULL) refer to is there.
pub(crate) fn target_exists<'a>(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    rule: &ForeignKeyRule,
    values: impl Iterator<Item = &'a Datum> + Clone,
) -> Result<bool> {
    let Some(ReferredTree { tree, keys }) = &rule.tree else {
        return exists_in(ex, (table, rule), (&rule.target, &rule.target_key, &rule.key_order), values);
    };
    // The key of what the table is divided by is among the columns.
    let mut row = vec![Datum::Null; tree.root.columns.len()];
    for (&place, &column) in rule.key_order.iter().zip(&key_columns(&rule.target, &rule.target_key)) {
        let (from, to) = (table.columns[rule.columns[place]].ty.ty, rule.target.columns[column].ty.ty);
        let value = values.clone().nth(place).ok_or_else(|| Error::internal("a foreign key's columns do not match"))?;
        let Some(value) = convert(value, from, to, ex.cx.env) else { return Ok(false) };
        row[column] = value;
    }
    let Ok(leaf) = find_leaf(ex, tree, &row)? else { return Ok(false) };
    let (key, order) = keys.get(leaf).ok_or_else(|| Error::internal("a leaf has no key"))?;
    exists_in(ex, (table, rule), (&tree.leaves[leaf].table, key, order), values)
}

/// The columns of a unique key.
fn key_columns(table: &Table, key: &Arbiter) -> SmallVec<[usize; 4]> {
    match key {
        Arbiter::Key => table.key_columns().iter().copied().collect(),
        Arbiter::Index(index) => index.columns.iter().map(|part| part.column).collect(),
    }
}

/// The same of one table with a key.
fn exists_in<'a>(
    ex: &mut Exec<'_, '_>,
    (table, rule): (&Table, &ForeignKeyRule),
    (target, target_key, key_order): (&Arc<Table>, &Arbiter, &[usize]),
    values: impl Iterator<Item = &'a Datum> + Clone,
) -> Result<bool> {
    let key_columns = key_columns(target, target_key);
    let mut key = Key::new();
    for (at, (&place, &target_column)) in key_order.iter().zip(&key_columns).enumerate() {
        let (from, to) = (table.columns[rule.columns[place]].ty.ty, target.columns[target_column].ty.ty);
        let value = values.clone().nth(place).ok_or_else(|| Error::internal("a foreign key's columns do not match"))?;
        let Some(value) = convert(value, from, to, ex.cx.env) else { return Ok(false) };
        match target_key {
            Arbiter::Key => key::encode(to, &value, false, false, true, &mut key),
            Arbiter::Index(index) => {
                let part = index.columns[at];
                key::encode(to, &value, part.descending, part.nulls_first, false, &mut key);
            }
        }
    }
    let space = target.space();
    let key = match target_key {
        Arbiter::Key if ex.txn.get(&space, &key, ColumnSet::NONE).in_sql()?.is_some() => key,
        Arbiter::Key => return Ok(false),
        Arbiter::Index(index) => match find_entry(ex.txn, &index.space(), &key)? {
            Some(entry) => Key::from_slice(record::split_index_entry(target, index, &entry)?),
            None => return Ok(false),
        },
    };
    if !ex.txn.begun().isolation.validates_reads() {
        if let Arbiter::Index(index) = target_key {
            // So that the lock is had only if the row has these values still.
            let columns = index.columns.iter().map(|part| part.column).collect();
            ex.txn.get(&space, &key, columns).in_sql()?;
        }
        ex.txn.lock(&space, &key, LockMode::KeyShare, IfLocked::Wait).in_sql()?;
    } else {
        ex.txn.lock(&space, &guard_name(&key), LockMode::Share, IfLocked::Wait).in_sql()?;
    }
    Ok(true)
}

/// Guards that the rows of a table share: a transaction that refers to millions of rows holds no
/// more locks than that.
const GUARDS: u64 = 1 << 12;

/// The name of the lock that stands for a row's being there, in the space of its table.
fn guard_name(row_key: &[u8]) -> [u8; 5] {
    let mut hasher = DefaultHasher::new();
    hasher.write(row_key);
    let [low, high, ..] = (hasher.finish() % GUARDS).to_le_bytes();
    // Unlike all keys but those that are just as short and next to the highest: these would wait
    // without need.
    [0xff, 0xff, 0xff, high, low]
}

/// In READ COMMITTED and REPEATABLE READ, where what was read is not checked at commit, keeps
/// serializable transactions from coming to refer to a row that goes, or whose key changes.
fn guard_end(ex: &mut Exec<'_, '_>, table: &Table, row: &[Datum]) -> Result<()> {
    if !ex.txn.begun().isolation.validates_reads() {
        let key = record::row_key(table, row)?;
        ex.txn.lock(&table.space(), &guard_name(&key), LockMode::Exclusive, IfLocked::Wait).in_sql()?;
    }
    Ok(())
}

/// What NULLs among the values of a referring row mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// There are none.
    None,
    /// The row refers to nothing.
    ReferToNothing,
    /// They are a violation: MATCH FULL.
    AreMixed,
}

impl Nulls {
    pub(super) fn of<'a>(rule: &ForeignKeyRule, mut values: impl Iterator<Item = &'a Datum> + Clone) -> Self {
        if !values.clone().any(Datum::is_null) {
            return Self::None;
        }
        if rule.match_full && !values.all(Datum::is_null) { Self::AreMixed } else { Self::ReferToNothing }
    }
}

#[cold]
pub(super) fn mixed_nulls(table: &Table, rule: &ForeignKeyRule) -> Error {
    let message =
        format!("insert or update on table \"{}\" violates foreign key constraint \"{}\"", table.name, rule.name);
    Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .detail("MATCH FULL does not allow mixing of null and nonnull key values.")
        .about(&table.schema, &table.name, None, Some(&rule.name))
}

#[cold]
pub(super) fn not_present<'a>(
    table: &Table,
    rule: &ForeignKeyRule,
    values: impl Iterator<Item = &'a Datum>,
    env: &Env,
) -> Error {
    let key = key_text(table, rule.columns.iter().copied(), values, env);
    let message =
        format!("insert or update on table \"{}\" violates foreign key constraint \"{}\"", table.name, rule.name);
    Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .detail(format!("{key} is not present in table \"{}\".", rule.target.name))
        .about(&table.schema, &table.name, None, Some(&rule.name))
}

#[cold]
pub(super) fn still_referenced(event: &Event, env: &Env) -> Error {
    let rule = event.rule();
    let (table, source) = (&event.table.name, &rule.source.name);
    let key = key_text(&event.table, rule.columns.iter().copied(), event.old.iter(), env);
    let message = format!(
        "update or delete on table \"{table}\" violates foreign key constraint \"{}\" on table \"{source}\"",
        rule.name
    );
    Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .detail(format!("{key} is still referenced from table \"{source}\"."))
        .about(&rule.source.schema, source, None, Some(&rule.name))
}
