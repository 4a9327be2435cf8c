//! Referential actions: what happens to rows that refer to others when those go or change.
//!
//! A row that is referred to leaves an [`Event`] for each foreign key when it goes or its key
//! changes. Events are worked off in rounds:
//!
//! ```text
//! events of the statement ─► look up: which rows refer, what becomes of them, ─► carry out: each row once
//!                                     and the events that this leaves
//! ```
//!
//! Where something has to be fetched for an event that forbids, it is looked at again; in the
//! middle of an action the statement runs again from its start.
//!
//! Invariants: all rows of a round are looked up in the state before its first action. If 1 becomes
//! 2 and 2 becomes 3, what referred to 1 must not be found among what refers to 2, whatever tables
//! lie between. What several events do to one row is put together, and the row is changed once.
//! RESTRICT and NO ACTION look at their place in the order of events, as in PostgreSQL: an earlier
//! event's action counts, a later one's does not. The events of a row come in the order in which
//! the foreign keys were made.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use colibri_catalog::{
    ObjectId, ReferenceAction, Table, Trigger, record, record::RowReader, store_error, store_error::InSql as _,
};
use colibri_txn::{ColumnSet, IfLocked, Key, LockMode, Space};
use colibri_types::{Datum, Error, Result, cast, cast::CastContext, pulse};

use super::expressions::fill_generated;
use super::references::{Effects, Values, convert, differ, differ_in_form, still_referenced};
use super::{check_condition, check_not_null, find_entry};
use crate::delete::delete_row;
use crate::eval::Evaluate as _;
use crate::memory::Reservation;
use crate::plan::{ReferenceRule, TableRules};
use crate::scan::Lookup;
use crate::triggers::{before_row, expect_untouched, note_row};
use crate::update::{ChangePlan, change_row, is_unique};
use crate::{Batch, Exec, row_bytes};

/// A row that was, or may have been, referred to has gone or changed.
pub(super) struct Event {
    pub(super) table: Arc<Table>,
    pub(super) rules: Arc<TableRules>,
    /// Which of `referenced_by`.
    pub(super) rule: usize,
    pub(super) old: Values,
    /// `None`: the row was deleted.
    pub(super) new: Option<Values>,
    pub(super) action: ReferenceAction,
    /// The row has left such an event already, before more became of it.
    pub(super) again: bool,
}

/// Events that are worked off together.
#[derive(Default)]
pub(super) struct Round {
    events: VecDeque<Event>,
    /// No action gives a row a new reference, so that none can be mistaken for an old one: each
    /// event's action is carried out before the next event is looked at, which takes less memory.
    /// The events that it leaves make another round.
    in_pieces: bool,
    targets: Vec<Arc<Target>>,
    /// Rows found, in this order, and how many of them are done.
    affected: Vec<Affected>,
    done: usize,
    /// Where in `affected` a row of a target is.
    places: HashMap<(usize, Key), usize>,
    plans: ChangePlans,
    memory: Reservation,
}

/// A row that an action concerns. Its lock is held.
struct Affected {
    /// Which of the round's targets.
    target: usize,
    key: Key,
    fate: Fate,
}

/// What becomes of a row.
enum Fate {
    Goes,
    /// Columns in ascending order, and what they are set to.
    Changes(Arc<Vec<(usize, Datum)>>),
}

/// A table whose rows refer, and one way in which they change.
struct Target {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    space: Space,
    reader: RowReader,
    width: usize,
}

impl Fate {
    /// A row as it will be; `None`: it goes.
    fn row(&self, row: &[Datum]) -> Option<Vec<Datum>> {
        let Self::Changes(assigned) = self else { return None };
        let mut new = row.to_vec();
        for (column, value) in assigned.iter() {
            new[*column] = value.clone();
        }
        Some(new)
    }

    /// Whether a column is set to something.
    fn sets(&self, column: usize) -> bool {
        matches!(self, Self::Changes(assigned) if assigned.iter().any(|(set, _)| *set == column))
    }
}

impl Event {
    pub(super) fn rule(&self) -> &ReferenceRule {
        &self.rules.referenced_by[self.rule]
    }

    /// Whether it changes no row.
    fn only_forbids(&self) -> bool {
        matches!(self.action, ReferenceAction::NoAction | ReferenceAction::Restrict)
    }

    fn gives_references(&self) -> bool {
        match self.action {
            ReferenceAction::Cascade => self.new.is_some(),
            ReferenceAction::SetDefault => true,
            ReferenceAction::SetNull | ReferenceAction::NoAction | ReferenceAction::Restrict => false,
        }
    }

    /// What the referring columns of this event's rows become; `None`: the rows go.
    fn assigned(&self, ex: &mut Exec<'_, '_>) -> Result<Option<Vec<(usize, Datum)>>> {
        let rule = self.rule();
        let values: Vec<Datum> = match (self.action, &self.new) {
            (ReferenceAction::Cascade, None) => return Ok(None),
            (ReferenceAction::Cascade, Some(new)) => {
                let pairs = rule.columns.iter().zip(&rule.source_columns).zip(new);
                let cast = |((&column, &source), value): ((&usize, &usize), &Datum)| {
                    let (from, to) = (self.table.columns[column].ty, rule.source.columns[source].ty);
                    cast::cast(value, from.ty, to.ty, to.modifier, CastContext::Assignment, ex.cx.env)
                };
                pairs.map(cast).collect::<Result<_>>()?
            }
            (ReferenceAction::SetDefault, _) => {
                let defaults = rule.defaults.iter().map(|default| default.eval_owned(&mut ex.scope(), &[]));
                defaults.collect::<Result<_>>()?
            }
            _ => vec![Datum::Null; rule.source_columns.len()],
        };
        let mut assigned: Vec<(usize, Datum)> = rule.source_columns.iter().copied().zip(values).collect();
        if self.new.is_none() && !rule.delete_columns.is_empty() {
            assigned.retain(|(column, _)| rule.delete_columns.contains(column));
        }
        assigned.sort_unstable_by_key(|(column, _)| *column);
        Ok(Some(assigned))
    }
}

impl Round {
    fn new(events: VecDeque<Event>) -> Self {
        let is_one = events.len() == 1 && events.iter().all(|event| event.action == ReferenceAction::Cascade);
        let in_pieces = is_one || !events.iter().any(Event::gives_references);
        Self { events, in_pieces, ..Self::default() }
    }

    /// Whether all rows that are to be changed now have been found.
    fn is_carried_out(&self) -> bool {
        self.done < self.affected.len() && (self.in_pieces || self.events.is_empty())
    }

    fn target(&mut self, rule: &ReferenceRule) -> Result<usize> {
        let table = &rule.source;
        if let Some(known) = self.targets.iter().position(|target| target.table.id == table.id) {
            return Ok(known);
        }
        let rules = rule.source_rules.get().and_then(Weak::upgrade);
        let rules = rules.ok_or_else(|| Error::internal("the rules of a referring table were not made"))?;
        let columns: Vec<usize> = (0..table.columns.len() + usize::from(table.primary_key.is_none())).collect();
        self.targets.push(Arc::new(Target {
            space: table.space(),
            reader: RowReader::new(table, &columns),
            width: columns.len(),
            table: Arc::clone(table),
            rules,
        }));
        Ok(self.targets.len() - 1)
    }

    /// What an earlier event of the round makes of a row.
    fn fate_of(&self, target: usize, key: &Key) -> Option<usize> {
        if self.places.is_empty() { None } else { self.places.get(&(target, key.clone())).copied() }
    }

    /// Whether a row, of which an earlier event makes this, still refers to what it referred to.
    fn still_refers(&self, place: usize, rule: &ReferenceRule, row: &[Datum]) -> bool {
        match &self.affected[place].fate {
            Fate::Goes => false,
            Fate::Changes(assigned) => !assigned.iter().any(|(column, value)| {
                rule.source_columns.contains(column)
                    && differ(&[0], std::slice::from_ref(&row[*column]), std::slice::from_ref(value))
            }),
        }
    }

    /// Notes what an event makes of a row.
    fn add(&mut self, target: usize, key: Key, assigned: Option<&Arc<Vec<(usize, Datum)>>>) -> usize {
        let fate = assigned.map_or(Fate::Goes, |assigned| Fate::Changes(Arc::clone(assigned)));
        let mut bytes = size_of::<Affected>() + key.len();
        if !self.in_pieces {
            bytes += size_of::<((usize, Key), usize)>() + key.len();
            self.places.insert((target, key.clone()), self.affected.len());
        }
        self.affected.push(Affected { target, key, fate });
        bytes
    }

    /// Adds what another event makes of a row to what is known to become of it.
    fn merge(&mut self, place: usize, assigned: Option<&Arc<Vec<(usize, Datum)>>>) {
        let fate = &mut self.affected[place].fate;
        match (&mut *fate, assigned) {
            (Fate::Goes, _) => {}
            (_, None) => *fate = Fate::Goes,
            (Fate::Changes(known), Some(assigned)) => {
                let known = Arc::make_mut(known);
                for (column, value) in assigned.iter() {
                    match known.binary_search_by_key(column, |(column, _)| *column) {
                        Ok(at) => known[at].1 = value.clone(),
                        Err(at) => known.insert(at, (*column, value.clone())),
                    }
                }
            }
        }
    }
}

/// How rows of one table change: worked out once a round for each set of columns.
#[derive(Default)]
struct ChangePlans(Vec<(ObjectId, Vec<usize>, Arc<ChangePlan>)>);

impl ChangePlans {
    fn of(&mut self, target: &Target, assigned: &[(usize, Datum)]) -> Arc<ChangePlan> {
        let is_same = |columns: &[usize]| columns.iter().eq(assigned.iter().map(|(column, _)| column));
        let known = self.0.iter().find(|(table, columns, _)| *table == target.table.id && is_same(columns));
        if let Some((_, _, plan)) = known {
            return Arc::clone(plan);
        }
        let columns: Vec<usize> = assigned.iter().map(|(column, _)| *column).collect();
        let mut sets = columns.clone();
        sets.extend(target.rules.generated_of(&columns).map(|(column, _)| *column));
        let plan = Arc::new(ChangePlan::new(&target.table, &target.rules, &sets, &[]));
        self.0.push((target.table.id, columns, Arc::clone(&plan)));
        plan
    }
}

impl Effects {
    /// Works off an event, or changes a row; `false` if there is nothing left to do.
    pub(super) fn work(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        ex.check_cancel()?;
        let mut round = match self.round.take() {
            Some(round) => round,
            None if self.events.is_empty() => return Ok(false),
            None => Box::new(Round::new(std::mem::take(&mut self.events))),
        };
        ex.spend(1);
        if round.is_carried_out() {
            self.change_next(ex, &mut round).map_err(store_error::from_the_start)?;
        } else if let Some(event) = round.events.pop_front() {
            if event.only_forbids() {
                if let Err(error) = expect_allowed(ex, &round, &event) {
                    round.events.push_front(event);
                    self.round = Some(round);
                    return Err(error);
                }
            } else {
                self.look_up(ex, &mut round, event).map_err(store_error::from_the_start)?;
            }
        } else {
            return Ok(true);
        }
        self.round = Some(round);
        Ok(true)
    }

    /// Finds the rows that an event concerns.
    fn look_up(&mut self, ex: &mut Exec<'_, '_>, round: &mut Round, event: Event) -> Result<()> {
        let target = round.target(event.rule())?;
        let assigned = event.assigned(ex)?.map(Arc::new);
        let (table, space) = {
            let target = &round.targets[target];
            (Arc::clone(&target.table), target.space.clone())
        };
        let mut bytes = assigned
            .iter()
            .flat_map(|values| values.iter())
            .map(|(_, value)| row_bytes(std::slice::from_ref(value)))
            .sum();
        // Others may count on keys that stay.
        let stays = |(column, _): &(usize, Datum)| !is_unique(&table, *column);
        let mode = match &assigned {
            Some(values) if values.iter().all(stays) => LockMode::NoKeyUpdate,
            _ => LockMode::Exclusive,
        };
        let Some(mut lookup) = look_for_referring(ex, &event)? else { return Ok(()) };
        let mut batch = Batch::new();
        while next_referring(ex, &mut lookup, &event, ColumnSet::ALL, &mut batch)? {
            ex.check_cancel()?;
            for row in batch.iter() {
                let key = record::row_key(&table, row)?;
                ex.txn.lock(&space, &key, mode, IfLocked::Wait).in_sql()?;
                match round.fate_of(target, &key) {
                    None => {
                        bytes += round.add(target, key, assigned.as_ref());
                        if !round.in_pieces {
                            self.note_fate(ex, round, target, row, None, round.affected.len() - 1)?;
                        }
                    }
                    Some(place) if event.again || round.still_refers(place, event.rule(), row) => {
                        let before = round.affected[place].fate.row(row);
                        round.merge(place, assigned.as_ref());
                        self.note_fate(ex, round, target, row, before.as_deref(), place)?;
                    }
                    Some(_) => {}
                }
            }
            round.memory.add(ex.cx.memory, std::mem::take(&mut bytes))?;
        }
        if event.action == ReferenceAction::SetDefault {
            // The default may be the very key that goes away.
            expect_allowed(ex, round, &Event { action: ReferenceAction::NoAction, ..event })?;
        }
        Ok(())
    }

    /// Checks a row of which something becomes, and leaves its events; `before`: of which this was
    /// to become already.
    fn note_fate(
        &mut self,
        ex: &mut Exec<'_, '_>,
        round: &mut Round,
        target: usize,
        row: &[Datum],
        before: Option<&[Datum]>,
        place: usize,
    ) -> Result<()> {
        let Target { table, rules, .. } = &*Arc::clone(&round.targets[target]);
        let mut after = round.affected[place].fate.row(row);
        if let Some(new) = &mut after {
            fill_generated(ex, rules, new)?;
        }
        // What is wrong with the row is told before what is wrong with what later events concern.
        if let Some(new) = &after {
            let fate = &round.affected[place].fate;
            let is_set = |place: usize| fate.sets(place);
            crate::domains::check_changed(rules, new, &is_set, &mut ex.scope())?;
            check_not_null(table, new, ex.cx.env)?;
            (0..rules.checks.len()).try_for_each(|check| check_condition(ex, table, rules, check, new))?;
        }
        if rules.referenced_by.is_empty() {
            return Ok(());
        }
        let outside = std::mem::take(&mut self.events);
        match after {
            None => self.note_deleted(ex, table, rules, row)?,
            Some(new) => {
                for (rule, reference) in rules.referenced_by.iter().enumerate() {
                    if before.is_none_or(|before| differ_in_form(&reference.columns, before, &new)) {
                        self.note_changed(ex, (table, rules), rule, row, &new)?;
                    }
                }
            }
        }
        let events = std::mem::replace(&mut self.events, outside);
        let again = before.is_some();
        round.events.extend(events.into_iter().map(|event| Event { again, ..event }));
        Ok(())
    }

    /// Changes the next of the round's rows; after the last one, writes what had to wait for the
    /// others.
    fn change_next(&mut self, ex: &mut Exec<'_, '_>, round: &mut Round) -> Result<()> {
        let Affected { target, key, fate } = &mut round.affected[round.done];
        let target = Arc::clone(&round.targets[*target]);
        let (key, fate) = (std::mem::take(key), std::mem::replace(fate, Fate::Goes));
        round.done += 1;
        let Target { table, rules, space, reader, width } = &*target;
        // Those that were found together have left their events when it was decided what becomes of
        // them.
        self.is_noted = !round.in_pieces;
        let mut old = vec![Datum::Null; *width];
        let value = ex.txn.get(space, &key, ColumnSet::ALL).in_sql()?;
        reader.read(&key, value.ok_or_else(|| Error::internal("a row that is locked is not there"))?, &mut old)?;
        match fate {
            Fate::Goes => {
                if rules.has_before_row(Trigger::DELETE) {
                    if !before_row(ex, table, rules, Trigger::DELETE, Some(&old), None, None)? {
                        self.is_noted = false;
                        return self.end_of_row(ex, round);
                    }
                    expect_untouched(ex, table, (space, &key), &old, "deleted")?;
                }
                delete_row(ex, self, table, space, rules, &key, &old)?;
                note_row(ex, (table, rules), &mut self.fired, Trigger::DELETE, Some(&old), None, None)?;
            }
            Fate::Changes(assigned) => {
                let mut new = Fate::Changes(Arc::clone(&assigned)).row(&old).unwrap_or_default();
                let set: Arc<[usize]> = assigned.iter().map(|(column, _)| *column).collect();
                let has_before = rules.has_before_row(Trigger::UPDATE);
                let plan = match has_before {
                    // A trigger may change any column.
                    true => {
                        let all: Vec<usize> = table.live_columns().map(|(column, _)| column).collect();
                        Arc::new(ChangePlan::new(table, rules, &all, &[]))
                    }
                    false => round.plans.of(&target, &assigned),
                };
                if has_before {
                    let (before, after) = (Some(old.as_slice()), Some(&mut new));
                    if !before_row(ex, table, rules, Trigger::UPDATE, before, after, Some(&set))? {
                        self.is_noted = false;
                        return self.end_of_row(ex, round);
                    }
                    expect_untouched(ex, table, (space, &key), &old, "updated")?;
                }
                fill_generated(ex, rules, &mut new)?;
                let is_set = |place: usize| assigned.iter().any(|(set, _)| *set == place);
                crate::domains::check_changed(rules, &new, &is_set, &mut ex.scope())?;
                self.acts = true;
                let changed = change_row(ex, self, &plan, &key, &old, &new, &[]);
                self.acts = false;
                changed?;
                let (before, after) = (Some(old.as_slice()), Some(new.as_slice()));
                note_row(ex, (table, rules), &mut self.fired, Trigger::UPDATE, before, after, Some(&set))?;
            }
        }
        self.is_noted = false;
        self.end_of_row(ex, round)
    }

    /// After the last row of a round, writes what had to wait for the others.
    fn end_of_row(&mut self, ex: &mut Exec<'_, '_>, round: &mut Round) -> Result<()> {
        if round.done == round.affected.len() {
            round.affected.clear();
            round.places.clear();
            round.done = 0;
            round.memory.release();
            self.put_moved(ex)?;
        }
        Ok(())
    }
}

/// Looks for rows that forbid an event.
pub(super) fn expect_allowed(ex: &mut Exec<'_, '_>, round: &Round, event: &Event) -> Result<()> {
    let is_back = event.action == ReferenceAction::NoAction && key_is_back(ex, round, event)?;
    if !is_back && is_referenced(ex, round, event)? {
        return Err(still_referenced(event, ex.cx.env));
    }
    Ok(())
}

/// Whether another row has by now the key that an event says is gone. One that is about to go or to
/// change in this round is still there, and does not count.
fn key_is_back(ex: &mut Exec<'_, '_>, round: &Round, event: &Event) -> Result<bool> {
    let Some(key) = row_with_key(ex, event)? else { return Ok(false) };
    let target = round.targets.iter().position(|target| target.table.id == event.table.id);
    Ok(target.and_then(|target| round.fate_of(target, &key)).is_none())
}

/// The row that has the key which an event is about.
fn row_with_key(ex: &mut Exec<'_, '_>, event: &Event) -> Result<Option<Key>> {
    let (table, columns) = (&event.table, &event.rule().columns);
    let value = |column: usize| columns.iter().position(|&known| known == column).map(|place| &event.old[place]);
    let values: Option<Vec<&Datum>> = table.key_columns().iter().map(|&column| value(column)).collect();
    if let Some(values) = values.filter(|values| values.len() == columns.len()) {
        let key = record::key_from_values(table, values)?;
        return Ok(ex.txn.get(&table.space(), &key, ColumnSet::NONE).in_sql()?.is_some().then_some(key));
    }
    for index in table.plain_indexes().filter(|index| index.unique && index.columns.len() == columns.len()) {
        let values: Option<Vec<&Datum>> = index.columns.iter().map(|part| value(part.column)).collect();
        if let Some(values) = values {
            let prefix = record::index_prefix(table, index, values)?;
            let Some(entry) = find_entry(ex.txn, &index.space(), &prefix)? else { return Ok(None) };
            return Ok(Some(Key::from_slice(record::split_index_entry(table, index, &entry)?)));
        }
    }
    Ok(None)
}

/// Looks for rows that refer to what an event says is gone. No more can come: the lock on what they
/// would refer to is held. Those that came before it was had, but after the snapshot, have to be
/// seen: where reads are not checked at commit, nothing would find out later that they were not.
///
/// `None`: the referring columns' types have no value that is equal to the key, so no row refers to
/// it.
fn look_for_referring(ex: &mut Exec<'_, '_>, event: &Event) -> Result<Option<Lookup>> {
    let rule = event.rule();
    let columns = rule.columns.iter().zip(&rule.source_columns).zip(&event.old);
    let types = |column: usize, source: usize| (event.table.columns[column].ty.ty, rule.source.columns[source].ty.ty);
    let convert = |((&column, &source), value): ((&usize, &usize), &Datum)| {
        let (from, to) = types(column, source);
        convert(value, from, to, ex.cx.env)
    };
    let Some(wanted) = columns.map(convert).collect::<Option<Vec<Datum>>>() else { return Ok(None) };
    let lookup = Lookup::new(&rule.source, &rule.lookup, rule.filter.as_ref(), wanted);
    if !ex.txn.begun().isolation.validates_reads() {
        lookup.expect_newest(ex, &rule.source, &rule.lookup)?;
    }
    Ok(Some(lookup))
}

fn next_referring(
    ex: &mut Exec<'_, '_>,
    lookup: &mut Lookup,
    event: &Event,
    depends: ColumnSet,
    batch: &mut Batch,
) -> Result<bool> {
    let rule = event.rule();
    lookup.next(ex, (&rule.source, &rule.lookup), depends, batch)
}

/// Whether a row refers to what an event says is gone, when the earlier events of the round are
/// done.
fn is_referenced(ex: &mut Exec<'_, '_>, round: &Round, event: &Event) -> Result<bool> {
    let rule = event.rule();
    let depends: ColumnSet = rule.source_columns.iter().copied().collect();
    let Some(mut lookup) = look_for_referring(ex, event)? else { return Ok(false) };
    let mut batch = Batch::new();
    let target = round.targets.iter().position(|target| target.table.id == rule.source.id);
    let Some(target) = target.filter(|_| !round.places.is_empty()) else {
        batch.want(1);
        return next_referring(ex, &mut lookup, event, depends, &mut batch);
    };
    while next_referring(ex, &mut lookup, event, depends, &mut batch)? {
        ex.check_cancel()?;
        for row in batch.iter() {
            let key = record::row_key(&rule.source, row)?;
            match round.fate_of(target, &key) {
                Some(place) if !round.still_refers(place, rule, row) => {}
                _ => return Ok(true),
            }
        }
    }
    Ok(false)
}
