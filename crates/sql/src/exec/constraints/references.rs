//! Foreign keys: rows that refer to others, and what happens to them when those go or change.
//!
//! A row that comes to refer to another is checked at once, by one look-up of the other's key. If it refers to its own
//! table and finds nothing, it is checked again at the end of the statement: the row may come yet. A row that is
//! referred to leaves an [`Event`] when it goes or its key changes; events are worked off at the end of the statement,
//! in order: RESTRICT looks for referring rows, CASCADE and its like change them (which may leave more events), NO ACTION
//! waits until all others are done.
//!
//! Invariants: NULL among the columns refers to nothing (MATCH SIMPLE). The look-up depends on the other row's presence
//! and on none of its columns. Of a row that comes to refer to another and the end of that other, only one commits:
//!
//! | who refers | who takes the other away | what keeps them apart |
//! | --- | --- | --- |
//! | serializable | serializable | the check of reads when the second commits |
//! | READ COMMITTED | either | an `Add` lock on the other row: others may refer and add to it, nobody may take it away |
//! | serializable | READ COMMITTED | the lock of the other's [`guard_name`], which changes of its other columns do not take |
//!
//! In SERIALIZABLE the other row itself is not locked: rows that many refer to are the very rows that many change.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Weak};

use colibri_txn::{ColumnSet, IfLocked, Isolation, Key, LockMode, Space};
use smallvec::SmallVec;

use super::{claim_index_values, claim_key, find_entry, key_text};
use crate::cast::{self, CastContext};
use crate::catalog::Table;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::exec::delete::delete_row;
use crate::exec::scan::Lookup;
use crate::exec::update::{ChangePlan, change_row};
use crate::exec::{Batch, Exec, idle, row_bytes};
use crate::key;
use crate::operators;
use crate::plan::{Arbiter, ForeignKeyRule, ReferenceAction, ReferenceRule, TableRules};
use crate::pulse;
use crate::record;
use crate::types::{Modifier, Type};
use crate::value::Datum;

/// Values of a foreign key's columns.
type Values = SmallVec<[Datum; 2]>;

/// What a statement has yet to do before it is over.
#[derive(Default)]
pub(in crate::exec) struct Effects {
    /// Rows and entries that are written when all old ones are away.
    moved: Vec<Moved>,
    events: VecDeque<Event>,
    /// Events of NO ACTION.
    last: Vec<Event>,
    unchecked: Vec<Unchecked>,
    /// Memory taken.
    bytes: usize,
    /// Space for rows' bytes.
    buffer: Vec<u8>,
}

/// A row with a new key, or with new values in unique indexes.
struct Moved {
    table: Arc<Table>,
    space: Space,
    /// The new row; without `is_put` only what its keys need.
    row: Vec<Datum>,
    key: Key,
    is_put: bool,
    /// Places of the indexes that get an entry.
    indexes: SmallVec<[usize; 4]>,
}

/// A row that was, or may have been, referred to has gone or changed.
struct Event {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    /// Which of `referenced_by`.
    rule: usize,
    old: Values,
    /// `None`: the row was deleted.
    new: Option<Values>,
}

/// A row that refers to one of its own table that was not there yet.
struct Unchecked {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    /// Which of `foreign_keys`.
    rule: usize,
    values: Values,
}

impl Event {
    fn rule(&self) -> &ReferenceRule {
        &self.rules.referenced_by[self.rule]
    }

    fn action(&self) -> ReferenceAction {
        if self.new.is_some() { self.rule().on_update } else { self.rule().on_delete }
    }
}

impl Effects {
    /// As new, for the next run of the plan.
    pub(in crate::exec) fn again(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        idle::empty(&mut buffer);
        *self = Self { buffer, ..Self::default() };
    }

    /// Keeps a row, or entries of it, to be written by [`Effects::put_moved`].
    pub(in crate::exec) fn push_moved(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, space): (&Arc<Table>, &Space),
        (key, row): (&Key, Vec<Datum>),
        is_put: bool,
        indexes: SmallVec<[usize; 4]>,
    ) -> Result<()> {
        self.take(ex, row_bytes(&row) + size_of::<Moved>())?;
        self.moved.push(Moved {
            table: Arc::clone(table),
            space: space.clone(),
            row,
            key: key.clone(),
            is_put,
            indexes,
        });
        Ok(())
    }

    fn take(&mut self, ex: &mut Exec<'_, '_>, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        ex.take_memory(bytes)
    }

    /// Writes rows and entries whose old places are free by now. What is not unique is found here.
    #[inline]
    pub(in crate::exec) fn put_moved(&mut self, ex: &mut Exec<'_, '_>) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        for moved in std::mem::take(&mut self.moved) {
            pulse::work(pulse::UNITS_PER_WRITE)?;
            let Moved { table, space, row, key, is_put, indexes } = moved;
            if is_put {
                claim_key(ex, &table, &space, &key, &row)?;
                self.buffer.clear();
                record::encode_row(&table, &row, &mut self.buffer)?;
                ex.txn.put(&space, &key, &self.buffer)?;
            }
            for index in indexes {
                put_entry(ex, &table, index, &row, &key)?;
            }
        }
        Ok(())
    }

    /// Leaves an event for each foreign key that may refer to a row that has been deleted.
    pub(in crate::exec) fn note_deleted(
        &mut self,
        ex: &mut Exec<'_, '_>,
        table: &Arc<Table>,
        rules: &Arc<TableRules>,
        row: &[Datum],
    ) -> Result<()> {
        if !rules.referenced_by.is_empty() {
            guard_end(ex, table, row)?;
        }
        for rule in 0..rules.referenced_by.len() {
            if let Some(old) = values_of(&rules.referenced_by[rule].columns, row) {
                self.push_event(ex, table, rules, rule, old, None)?;
            }
        }
        Ok(())
    }

    /// Leaves an event if a row's change concerns a foreign key that may refer to it.
    pub(in crate::exec) fn note_changed(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules): (&Arc<Table>, &Arc<TableRules>),
        rule: usize,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<()> {
        let columns = &rules.referenced_by[rule].columns;
        if !differ(columns, old, new) {
            return Ok(());
        }
        match values_of(columns, old) {
            Some(values) => {
                guard_end(ex, table, old)?;
                let new = columns.iter().map(|&column| new[column].clone()).collect();
                self.push_event(ex, table, rules, rule, values, Some(new))
            }
            None => Ok(()),
        }
    }

    fn push_event(
        &mut self,
        ex: &mut Exec<'_, '_>,
        table: &Arc<Table>,
        rules: &Arc<TableRules>,
        rule: usize,
        old: Values,
        new: Option<Values>,
    ) -> Result<()> {
        let bytes = row_bytes(&old) + new.as_deref().map_or(0, row_bytes);
        self.take(ex, size_of::<Event>() + bytes)?;
        self.events.push_back(Event { table: Arc::clone(table), rules: Arc::clone(rules), rule, old, new });
        Ok(())
    }

    /// Checks that what a row refers to is there, by one foreign key.
    pub(in crate::exec) fn check_reference(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (table, rules): (&Arc<Table>, &Arc<TableRules>),
        rule: usize,
        row: &[Datum],
    ) -> Result<()> {
        let foreign_key = &rules.foreign_keys[rule];
        let values = foreign_key.columns.iter().map(|&column| &row[column]);
        if values.clone().any(Datum::is_null) || target_exists(ex, table, foreign_key, values.clone())? {
            return Ok(());
        }
        if foreign_key.target.id != table.id {
            return Err(not_present(table, foreign_key, values, ex.cx.env));
        }
        let values: Values = values.cloned().collect();
        self.take(ex, size_of::<Unchecked>() + row_bytes(&values))?;
        self.unchecked.push(Unchecked { table: Arc::clone(table), rules: Arc::clone(rules), rule, values });
        Ok(())
    }

    /// Takes over what another has yet to check: of rows that were only inserted.
    pub(in crate::exec) fn absorb(&mut self, other: Self) {
        debug_assert!(other.moved.is_empty() && other.events.is_empty(), "inserting leaves no events");
        self.unchecked.extend(other.unchecked);
    }

    /// Does what is left to do at the end of a statement; `false` if the budget is used up and there is more.
    pub(in crate::exec) fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        self.put_moved(ex)?;
        while let Some(event) = self.events.pop_front() {
            ex.check_cancel()?;
            match event.action() {
                ReferenceAction::NoAction => self.last.push(event),
                ReferenceAction::Restrict => {
                    if is_referenced(ex, &event)? {
                        return Err(still_referenced(&event, ex.cx.env));
                    }
                }
                action => self.act(ex, &event, action)?,
            }
            ex.spend(1);
            if ex.is_used_up() {
                return Ok(false);
            }
        }
        while let Some(event) = self.last.pop() {
            ex.check_cancel()?;
            if is_referenced(ex, &event)? && !key_is_back(ex, &event)? {
                return Err(still_referenced(&event, ex.cx.env));
            }
            ex.spend(1);
            if ex.is_used_up() {
                return Ok(false);
            }
        }
        for Unchecked { table, rules, rule, values } in &self.unchecked {
            pulse::work(pulse::UNITS_PER_WRITE)?;
            let foreign_key = &rules.foreign_keys[*rule];
            if !target_exists(ex, table, foreign_key, values.iter())? {
                return Err(not_present(table, foreign_key, values.iter(), ex.cx.env));
            }
        }
        self.unchecked.clear();
        ex.give_memory(std::mem::take(&mut self.bytes));
        Ok(true)
    }

    /// CASCADE, SET NULL, SET DEFAULT.
    fn act(&mut self, ex: &mut Exec<'_, '_>, event: &Event, action: ReferenceAction) -> Result<()> {
        let rule = event.rule();
        let rules = rule.source_rules.get().and_then(Weak::upgrade);
        let rules = &rules.ok_or_else(|| Error::internal("the rules of a referring table were not made"))?;
        let table = &rule.source;
        let batches = referring_rows(ex, event)?;
        let space = table.space();
        let new: Option<Values> = match (action, &event.new) {
            (ReferenceAction::Cascade, None) => None,
            (ReferenceAction::Cascade, Some(new)) => {
                let pairs = rule.columns.iter().zip(&rule.source_columns).zip(new);
                let cast = |((&column, &source), value): ((&usize, &usize), &Datum)| {
                    let (from, to) = (event.table.columns[column].ty, table.columns[source].ty);
                    cast::cast(value, from.ty, to.ty, to.modifier, CastContext::Assignment, ex.cx.env)
                };
                Some(pairs.map(cast).collect::<Result<_>>()?)
            }
            (ReferenceAction::SetDefault, _) => {
                let defaults = rule.defaults.iter().map(|default| default.eval_owned(&mut ex.scope(), &[]));
                Some(defaults.collect::<Result<_>>()?)
            }
            _ => Some(rule.source_columns.iter().map(|_| Datum::Null).collect()),
        };
        let plan = new.as_ref().map(|_| ChangePlan::new(table, rules, &rule.source_columns, &[]));
        let mut changed = Vec::new();
        for batch in &batches {
            for row in batch.iter() {
                pulse::work(pulse::UNITS_PER_WRITE)?;
                let key = record::row_key(table, row)?;
                ex.txn.lock(&space, &key, LockMode::Exclusive, IfLocked::Wait)?;
                match (&plan, &new) {
                    (Some(plan), Some(new)) => {
                        changed.clear();
                        changed.extend_from_slice(row);
                        let mut is_same = true;
                        for (&column, value) in rule.source_columns.iter().zip(new) {
                            is_same &= changed[column] == *value;
                            changed[column] = value.clone();
                        }
                        // The default is the very key that goes away.
                        if is_same && action == ReferenceAction::SetDefault {
                            return Err(still_referenced(event, ex.cx.env));
                        }
                        change_row(ex, self, plan, &key, row, &changed, &[])?;
                    }
                    _ => delete_row(ex, self, table, &space, rules, &key, row)?,
                }
            }
        }
        self.put_moved(ex)
    }
}

/// Writes a row's entry into an index.
#[inline]
pub(in crate::exec) fn put_entry(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    index: usize,
    row: &[Datum],
    key: &[u8],
) -> Result<()> {
    let index = &table.indexes[index];
    let mut entry = record::index_values(table, index, row)?;
    if index.unique && !record::has_null(index, row) {
        claim_index_values(ex, table, index, &entry, row)?;
    }
    record::finish_entry(index, &mut entry, key)?;
    ex.txn.put(&index.space(), &entry, &[])?;
    Ok(())
}

/// The values of columns, unless one is NULL.
fn values_of(columns: &[usize], row: &[Datum]) -> Option<Values> {
    let is_null = columns.iter().any(|&column| row[column].is_null());
    (!is_null).then(|| columns.iter().map(|&column| row[column].clone()).collect())
}

/// Whether two rows differ in one of some columns.
pub(in crate::exec) fn differ(columns: &[usize], old: &[Datum], new: &[Datum]) -> bool {
    columns.iter().any(|&column| match (&old[column], &new[column]) {
        (Datum::Null, Datum::Null) => false,
        (Datum::Null, _) | (_, Datum::Null) => true,
        (old, new) => !operators::equal(old, new),
    })
}

/// A value of one type as one of another that it is compared with; `None` if the other type has none that is equal.
fn convert(value: &Datum, from: Type, to: Type, env: &Env) -> Option<Datum> {
    match value {
        Datum::Int(int) if to.is_integer() && to != from => cast::int_in_range(*int, to).ok(),
        _ if from == to || (from.is_text() && to.is_text()) => Some(value.clone()),
        _ => cast::cast(value, from, to, Modifier::NONE, CastContext::Explicit, env).ok(),
    }
}

/// Whether the row that values of a foreign key's columns (none NULL) refer to is there.
pub(in crate::exec) fn target_exists<'a>(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    rule: &ForeignKeyRule,
    values: impl Iterator<Item = &'a Datum> + Clone,
) -> Result<bool> {
    let target = &rule.target;
    let key_columns = match &rule.target_key {
        Arbiter::Key => target.key_columns().iter().copied().collect::<SmallVec<[usize; 4]>>(),
        Arbiter::Index(index) => index.columns.iter().map(|part| part.column).collect(),
    };
    let mut key = Key::new();
    for (at, (&place, &target_column)) in rule.key_order.iter().zip(&key_columns).enumerate() {
        let (from, to) = (table.columns[rule.columns[place]].ty.ty, target.columns[target_column].ty.ty);
        let value = values.clone().nth(place).ok_or_else(|| Error::internal("a foreign key's columns do not match"))?;
        let Some(value) = convert(value, from, to, ex.cx.env) else { return Ok(false) };
        match &rule.target_key {
            Arbiter::Key => key::encode(to, &value, false, false, true, &mut key),
            Arbiter::Index(index) => {
                let part = index.columns[at];
                key::encode(to, &value, part.descending, part.nulls_first, false, &mut key);
            }
        }
    }
    let space = target.space();
    let key = match &rule.target_key {
        Arbiter::Key if ex.txn.get(&space, &key, ColumnSet::NONE)?.is_some() => key,
        Arbiter::Key => return Ok(false),
        Arbiter::Index(index) => match find_entry(ex.txn, &index.space(), &key)? {
            Some(entry) => Key::from_slice(record::split_index_entry(target, index, &entry)?),
            None => return Ok(false),
        },
    };
    if ex.txn.begun().isolation == Isolation::ReadCommitted {
        if let Arbiter::Index(index) = &rule.target_key {
            // So that the lock is had only if the row has these values still.
            let columns = index.columns.iter().map(|part| part.column).collect();
            ex.txn.get(&space, &key, columns)?;
        }
        ex.txn.lock(&space, &key, LockMode::Add, IfLocked::Wait)?;
    } else {
        ex.txn.lock(&space, &guard_name(&key), LockMode::Share, IfLocked::Wait)?;
    }
    Ok(true)
}

/// Guards that the rows of a table share: a transaction that refers to millions of rows holds no more locks than that.
const GUARDS: u64 = 1 << 12;

/// The name of the lock that stands for a row's being there, in the space of its table.
fn guard_name(row_key: &[u8]) -> [u8; 5] {
    let mut hasher = DefaultHasher::new();
    hasher.write(row_key);
    let [low, high, ..] = (hasher.finish() % GUARDS).to_le_bytes();
    // Unlike all keys but those that are just as short and next to the highest: these would wait without need.
    [0xff, 0xff, 0xff, high, low]
}

/// In READ COMMITTED, where nothing is checked at commit, keeps serializable transactions from coming to refer to a row
/// that goes, or whose key changes.
fn guard_end(ex: &mut Exec<'_, '_>, table: &Table, row: &[Datum]) -> Result<()> {
    if ex.txn.begun().isolation == Isolation::ReadCommitted {
        let key = record::row_key(table, row)?;
        ex.txn.lock(&table.space(), &guard_name(&key), LockMode::Exclusive, IfLocked::Wait)?;
    }
    Ok(())
}

/// Whether another row has by now the key that an event says is gone.
fn key_is_back(ex: &mut Exec<'_, '_>, event: &Event) -> Result<bool> {
    let (table, columns) = (&event.table, &event.rule().columns);
    let value = |column: usize| columns.iter().position(|&known| known == column).map(|place| &event.old[place]);
    let values: Option<Vec<&Datum>> = table.key_columns().iter().map(|&column| value(column)).collect();
    if let Some(values) = values.filter(|values| values.len() == columns.len()) {
        let key = record::key_from_values(table, values)?;
        return Ok(ex.txn.get(&table.space(), &key, ColumnSet::NONE)?.is_some());
    }
    for index in table.indexes.iter().filter(|index| index.unique && index.columns.len() == columns.len()) {
        let values: Option<Vec<&Datum>> = index.columns.iter().map(|part| value(part.column)).collect();
        if let Some(values) = values {
            let prefix = record::index_prefix(table, index, values)?;
            return Ok(find_entry(ex.txn, &index.space(), &prefix)?.is_some());
        }
    }
    Ok(false)
}

/// Looks for rows that refer to what an event says is gone. No more can come: the lock on what they would refer to is
/// held. Those that came before it was had, but after the snapshot, have to be seen, and in READ COMMITTED nothing would
/// find out later that they were not.
fn look_for_referring(ex: &mut Exec<'_, '_>, rule: &ReferenceRule, event: &Event) -> Result<Lookup> {
    let lookup = Lookup::new(&rule.source, &rule.lookup, event.old.to_vec());
    if ex.txn.begun().isolation == Isolation::ReadCommitted {
        lookup.expect_newest(ex, &rule.source, &rule.lookup)?;
    }
    Ok(lookup)
}

/// Whether a row refers to what an event says is gone.
fn is_referenced(ex: &mut Exec<'_, '_>, event: &Event) -> Result<bool> {
    let rule = event.rule();
    let mut batch = Batch::new();
    batch.want(1);
    let mut lookup = look_for_referring(ex, rule, event)?;
    let depends = rule.source_columns.iter().copied().collect();
    lookup.next(ex, (&rule.source, &rule.lookup, rule.filter.as_ref()), depends, &mut batch)
}

/// All rows that refer to what an event says is gone.
fn referring_rows(ex: &mut Exec<'_, '_>, event: &Event) -> Result<Vec<Batch>> {
    let rule = event.rule();
    let mut batches = Vec::new();
    let mut lookup = look_for_referring(ex, rule, event)?;
    loop {
        let mut batch = Batch::new();
        let from = (&*rule.source, &rule.lookup, rule.filter.as_ref());
        if !lookup.next(ex, from, ColumnSet::ALL, &mut batch)? {
            return Ok(batches);
        }
        ex.check_cancel()?;
        batches.push(batch);
    }
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
        .about(&table.name, None, Some(&rule.name))
}

#[cold]
fn still_referenced(event: &Event, env: &Env) -> Error {
    let rule = event.rule();
    let (table, source) = (&event.table.name, &rule.source.name);
    let key = key_text(&event.table, rule.columns.iter().copied(), event.old.iter(), env);
    let message = format!(
        "update or delete on table \"{table}\" violates foreign key constraint \"{}\" on table \"{source}\"",
        rule.name
    );
    Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .detail(format!("{key} is still referenced from table \"{source}\"."))
        .about(source, None, Some(&rule.name))
}
