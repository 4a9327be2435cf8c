//! Triggers of a table at work.
//!
//! ```text
//! BEFORE STATEMENT ─► for each row: BEFORE ROW ─► the row is written ─► … ─► checks of the statement's end
//!                                                                              ─► AFTER ROW … ─► AFTER STATEMENT
//! ```
//! A trigger before a row may change it, or keep it from being written. Those behind rows fire when
//! the statement has written all of its own. A constraint trigger may be put off further: it is
//! handed to the session, as a check of a foreign key is.
//!
//! A statement about a partitioned table fires the statement triggers of this table, and the row
//! triggers of the partitions. All rows are noted in one queue, which the statement hands to the
//! writer of each partition while that one works.
//!
//! Invariants: triggers fire in the order of their names; a trigger sees all that was written so
//! far.

use std::sync::Arc;

use colibri_catalog::{Table, Trigger, TriggerTime, record::RowReader, store_error::InSql as _};
use colibri_txn::{ColumnSet, Key, Space};
use colibri_types::{Array, Datum, Error, Result, Row, RowType, SqlState, Type, pulse};
use smallvec::SmallVec;

use super::constraints::deferred::Deferred;
use super::memory::Reservation;
use super::{Exec, row_bytes};
use crate::eval::Evaluate as _;
use crate::plan::partitions::Tree;
use crate::plan::{TableRules, TriggerRule, Triggers};

/// What calling a trigger takes at the least, in units of work.
const UNITS_PER_TRIGGER: usize = 40;

/// A call of a trigger's function.
pub struct TriggerCall<'a> {
    /// Its table.
    pub table: &'a Arc<Table>,
    /// The trigger.
    pub rule: &'a TriggerRule,
    /// What it fires for: one of the bits of [`Trigger`].
    pub event: u8,
    /// The row before.
    pub old: Option<Datum>,
    /// The row after.
    pub new: Option<Datum>,
    /// All rows before, as an array, if the trigger names them.
    pub old_rows: Option<Datum>,
    /// All rows after.
    pub new_rows: Option<Datum>,
    /// The table's triggers.
    triggers: &'a Triggers,
}

impl TriggerCall<'_> {
    /// What rows of the table are made of.
    #[must_use]
    pub fn shape(&self) -> Option<Arc<RowType>> {
        Some(Arc::clone(&self.triggers.shape))
    }
}

/// One of the bits of [`Trigger`]; and of an UPDATE the columns that it sets.
pub(super) type Meant = (u8, Option<Arc<[usize]>>);

/// What a statement leaves to its triggers.
#[derive(Default)]
pub(super) struct Fired {
    /// What the statement is, in the order in which its triggers in front fire. Nothing for a
    /// writer of rows whose statement is about another table.
    statement: SmallVec<[Meant; 1]>,
    /// The rows whose triggers fire at the end of the statement.
    events: Vec<RowEvent>,
    /// The triggers before the statement have fired.
    has_begun: bool,
    /// The rows that triggers see as tables.
    captured: Option<Box<Captured>>,
    memory: Reservation,
}

/// A row that was written.
struct RowEvent {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    event: u8,
    old: Option<Datum>,
    new: Option<Datum>,
    updated: Option<Arc<[usize]>>,
}

/// The rows that a statement has written, as rows of its table.
struct Captured {
    /// The lists below as arrays, in their order, once all is written.
    tables: Option<[Datum; 4]>,
    rules: Arc<TableRules>,
    /// The partition that is written to: its rows are turned into those of the table.
    leaf: Option<(Arc<Tree>, usize)>,
    inserted: Vec<Datum>,
    before: Vec<Datum>,
    after: Vec<Datum>,
    deleted: Vec<Datum>,
}

/// A constraint trigger that is put off.
pub(super) struct PutOff {
    event: RowEvent,
    rule: usize,
}

impl Fired {
    /// For a statement about a table with these rules.
    pub(super) fn new(rules: &Arc<TableRules>, statement: impl IntoIterator<Item = Meant>) -> Self {
        let Some(triggers) = &rules.triggers else { return Self::default() };
        let names_rows = |rule: &TriggerRule| rule.trigger.old_table.is_some() || rule.trigger.new_table.is_some();
        let captured = triggers.list.iter().any(names_rows).then(|| {
            Box::new(Captured {
                tables: None,
                rules: Arc::clone(rules),
                leaf: None,
                inserted: Vec::new(),
                before: Vec::new(),
                after: Vec::new(),
                deleted: Vec::new(),
            })
        });
        Self { statement: statement.into_iter().collect(), captured, ..Self::default() }
    }

    /// What is in front of the statement has fired, if it has for another writer.
    pub(super) fn goes_on_behind(&mut self, other: &Self) {
        self.has_begun = other.has_begun;
    }

    /// Takes over the rows of another writer of the same table.
    pub(super) fn absorb(&mut self, other: Self) {
        self.events.extend(other.events);
        self.has_begun |= other.has_begun;
        if let (Some(own), Some(other)) = (&mut self.captured, other.captured) {
            own.inserted.extend(other.inserted);
            own.before.extend(other.before);
            own.after.extend(other.after);
            own.deleted.extend(other.deleted);
        }
    }

    /// Takes over rows that were written on behalf of the statement's own, in front of these.
    pub(super) fn take_in_front(&mut self, other: &mut Self) {
        if !other.events.is_empty() {
            let own = std::mem::replace(&mut self.events, std::mem::take(&mut other.events));
            self.events.extend(own);
        }
    }

    /// Rows that are noted from now on are of a partition.
    pub(super) fn enter_leaf(&mut self, tree: &Arc<Tree>, leaf: usize) {
        if let Some(captured) = &mut self.captured {
            captured.leaf = Some((Arc::clone(tree), leaf));
        }
    }

    /// How many rows are noted, for [`Fired::forget_behind`].
    pub(super) fn count(&self) -> (usize, [usize; 4]) {
        let captured = self
            .captured
            .as_ref()
            .map_or([0; 4], |rows| [rows.inserted.len(), rows.before.len(), rows.after.len(), rows.deleted.len()]);
        (self.events.len(), captured)
    }

    /// Forgets the rows that were noted since.
    pub(super) fn forget_behind(&mut self, (events, captured): (usize, [usize; 4])) {
        self.events.truncate(events);
        if let Some(rows) = &mut self.captured {
            let lists = [&mut rows.inserted, &mut rows.before, &mut rows.after, &mut rows.deleted];
            lists.into_iter().zip(captured).for_each(|(list, count)| list.truncate(count));
        }
    }

    /// Back to the start.
    pub(super) fn again(&mut self) {
        self.events = Vec::new();
        self.has_begun = false;
        if let Some(rows) = &mut self.captured {
            [&mut rows.inserted, &mut rows.before, &mut rows.after, &mut rows.deleted]
                .into_iter()
                .for_each(|list| *list = Vec::new());
            rows.tables = None;
        }
        self.memory.release();
    }
}

impl Captured {
    /// Whether a trigger wants the rows of an event.
    fn is_wanted(&self, event: u8) -> bool {
        self.rules.triggers.as_ref().is_some_and(|triggers| {
            triggers.list.iter().any(|rule| {
                let Trigger { events, old_table, new_table, .. } = &*rule.trigger;
                events & event != 0 && (old_table.is_some() || new_table.is_some())
            })
        })
    }

    /// A row as one of the statement's table.
    fn row(&self, row: &[Datum]) -> Option<Datum> {
        let triggers = self.rules.triggers.as_ref()?;
        Some(match &self.leaf {
            None => row_of(triggers, row),
            Some((tree, leaf)) => {
                let columns = &tree.leaves[*leaf].columns;
                let whole: Vec<Datum> =
                    columns.iter().map(|place| place.map_or(Datum::Null, |place| row[place].clone())).collect();
                row_of(triggers, &whole)
            }
        })
    }

    /// Makes arrays of the rows, which all triggers share.
    fn freeze(&mut self) {
        if self.tables.is_none() {
            let lists = [&mut self.inserted, &mut self.before, &mut self.after, &mut self.deleted];
            self.tables =
                Some(lists.map(|rows| Datum::Array(Arc::new(Array::new(Type::Record, std::mem::take(rows))))));
        }
    }

    /// What a trigger sees of the rows before and after.
    fn tables(&self, rule: &TriggerRule, event: u8) -> (Option<Datum>, Option<Datum>) {
        let Some([inserted, before, after, deleted]) = &self.tables else { return (None, None) };
        let (old, new) = match event {
            Trigger::INSERT => (None, Some(inserted)),
            Trigger::UPDATE => (Some(before), Some(after)),
            Trigger::DELETE => (Some(deleted), None),
            _ => (None, None),
        };
        let Trigger { old_table, new_table, .. } = &*rule.trigger;
        (old.filter(|_| old_table.is_some()).cloned(), new.filter(|_| new_table.is_some()).cloned())
    }
}

/// A row of the table as triggers see it.
fn row_of(triggers: &Triggers, row: &[Datum]) -> Datum {
    let values = triggers.live.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect();
    Datum::Row(Arc::new(Row::new(Arc::clone(&triggers.shape), values)))
}

fn values_of(row: &Option<Datum>, triggers: &Triggers, width: usize) -> Vec<Datum> {
    let mut values = vec![Datum::Null; width];
    if let Some(Datum::Row(row)) = row {
        for (&column, value) in triggers.live.iter().zip(row.values()) {
            values[column] = value.clone();
        }
    }
    values
}

/// Whether a trigger fires for a change, but for its condition.
fn is_meant(rule: &TriggerRule, time: TriggerTime, row: bool, event: u8, updated: Option<&[usize]>) -> bool {
    let Trigger { timing, row: for_row, events, columns, .. } = &*rule.trigger;
    let is_of_columns = columns.is_empty()
        || event != Trigger::UPDATE
        || updated.is_none_or(|updated| updated.iter().any(|column| columns.contains(column)));
    *timing == time && *for_row == row && events & event != 0 && is_of_columns
}

/// Whether the condition of WHEN is true, or there is none.
fn holds(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    triggers: &Triggers,
    rule: &TriggerRule,
    (old, new): (&Option<Datum>, &Option<Datum>),
) -> Result<bool> {
    let Some(when) = &rule.when else { return Ok(true) };
    let width = table.columns.len();
    let mut values = values_of(old, triggers, width);
    values.extend(values_of(new, triggers, width));
    when.eval_condition(&mut ex.scope(), &values)
}

fn call(ex: &mut Exec<'_, '_>, call: TriggerCall<'_>) -> Result<Datum> {
    pulse::work(UNITS_PER_TRIGGER)?;
    let before = ex.txn.see_old(false);
    let given = ex.cx.session.call_trigger(&mut *ex.txn, ex.cx.env, &call);
    ex.txn.see_old(before);
    given
}

/// Fires the triggers in front of a statement, once.
#[inline]
pub(super) fn before_statement(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    rules: &TableRules,
    fired: &mut Fired,
) -> Result<()> {
    let Some(triggers) = &rules.triggers else { return Ok(()) };
    if std::mem::replace(&mut fired.has_begun, true) {
        return Ok(());
    }
    for meant in &fired.statement {
        statement(ex, table, triggers, TriggerTime::Before, meant, None)?;
    }
    Ok(())
}

fn statement(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    triggers: &Triggers,
    time: TriggerTime,
    (event, updated): &Meant,
    captured: Option<&Captured>,
) -> Result<()> {
    let event = *event;
    for rule in triggers.list.iter().filter(|rule| is_meant(rule, time, false, event, updated.as_deref())) {
        if holds(ex, table, triggers, rule, (&None, &None))? {
            let (old_rows, new_rows) = captured.map_or((None, None), |captured| captured.tables(rule, event));
            call(ex, TriggerCall { table, rule, event, old: None, new: None, old_rows, new_rows, triggers })?;
        }
    }
    Ok(())
}

/// Fires the triggers in front of a row, which may change the row that is to be. `false`: the row
/// is left as it is.
pub(super) fn before_row(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    rules: &TableRules,
    event: u8,
    old: Option<&[Datum]>,
    new: Option<&mut Vec<Datum>>,
    updated: Option<&[usize]>,
) -> Result<bool> {
    fire_row(ex, (table, rules), TriggerTime::Before, event, (old, new), updated)
}

fn fire_row(
    ex: &mut Exec<'_, '_>,
    (table, rules): (&Arc<Table>, &TableRules),
    time: TriggerTime,
    event: u8,
    (old, mut new): (Option<&[Datum]>, Option<&mut Vec<Datum>>),
    updated: Option<&[usize]>,
) -> Result<bool> {
    let Some(triggers) = &rules.triggers else { return Ok(true) };
    let is_fired = |rule: &&TriggerRule| is_meant(rule, time, true, event, updated);
    if !triggers.list.iter().any(|rule| is_fired(&rule)) {
        return Ok(true);
    }
    let old = old.map(|row| row_of(triggers, row));
    for rule in triggers.list.iter().filter(is_fired) {
        let row = new.as_deref().map(|row| row_of(triggers, row));
        if !holds(ex, table, triggers, rule, (&old, &row))? {
            continue;
        }
        let old = old.clone();
        let made = TriggerCall { table, rule, event, old, new: row, old_rows: None, new_rows: None, triggers };
        let given = call(ex, made)?;
        match (given, new.as_deref_mut()) {
            (Datum::Null, _) => return Ok(false),
            (Datum::Row(given), Some(new)) => {
                if given.values().len() != triggers.live.len() {
                    return Err(Error::internal("a trigger has given a row of another shape"));
                }
                for (&column, value) in triggers.live.iter().zip(given.values()) {
                    new[column] = value.clone();
                }
                let is_part = rule.trigger.parent.is_some() && event == Trigger::INSERT;
                if is_part && !super::constraints::is_in_partition(ex, rules, new)? {
                    return Err(moved_away(table, &rule.trigger));
                }
            }
            _ => {}
        }
    }
    Ok(true)
}

#[cold]
fn moved_away(table: &Table, trigger: &Trigger) -> Error {
    let message = "moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported";
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(format!(
        "Before executing trigger \"{}\", the row was to be in partition \"{}.{}\".",
        trigger.name, table.schema, table.name
    ))
}

/// 27000 if a row that triggers have fired in front of is not as it was read any more: one of them,
/// or one of an earlier row, has changed it.
pub(super) fn expect_untouched(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    (space, key): (&Space, &Key),
    row: &[Datum],
    what: &str,
) -> Result<()> {
    let columns: Vec<usize> = table.live_columns().map(|(column, _)| column).collect();
    let is_same = match ex.txn.get(space, key, ColumnSet::ALL).in_sql()? {
        None => false,
        Some(value) => {
            let mut now = vec![Datum::Null; columns.len()];
            RowReader::new(table, &columns).read(key, value, &mut now)?;
            columns.iter().zip(&now).all(|(&column, now)| now.is_identical(&row[column]))
        }
    };
    if is_same { Ok(()) } else { Err(already_modified(what)) }
}

/// `what`: `updated` or `deleted`.
#[cold]
pub(super) fn already_modified(what: &str) -> Error {
    let message = format!("tuple to be {what} was already modified by an operation triggered by the current command");
    Error::new(SqlState("27000"), message)
        .hint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")
}

/// Remembers a row that was written, for the triggers at the end of the statement.
#[inline]
pub(super) fn note_row(
    ex: &mut Exec<'_, '_>,
    (table, rules): (&Arc<Table>, &Arc<TableRules>),
    fired: &mut Fired,
    event: u8,
    old: Option<&[Datum]>,
    new: Option<&[Datum]>,
    updated: Option<&Arc<[usize]>>,
) -> Result<()> {
    if rules.triggers.is_none() && fired.captured.is_none() {
        return Ok(());
    }
    capture(ex, fired, event, old, new)?;
    note_event(ex, (table, rules), fired, event, old, new, updated)
}

/// The same, for triggers of rows alone.
pub(super) fn note_event(
    ex: &mut Exec<'_, '_>,
    (table, rules): (&Arc<Table>, &Arc<TableRules>),
    fired: &mut Fired,
    event: u8,
    old: Option<&[Datum]>,
    new: Option<&[Datum]>,
    updated: Option<&Arc<[usize]>>,
) -> Result<()> {
    let Some(triggers) = &rules.triggers else { return Ok(()) };
    if triggers.list.iter().any(|rule| is_meant(rule, TriggerTime::After, true, event, None)) {
        pulse::work(UNITS_PER_TRIGGER)?;
        let bytes = old.map_or(0, row_bytes) + new.map_or(0, row_bytes) + size_of::<RowEvent>();
        fired.memory.add(ex.cx.memory, bytes)?;
        let row = |row: Option<&[Datum]>| row.map(|row| row_of(triggers, row));
        fired.events.push(RowEvent {
            table: Arc::clone(table),
            rules: Arc::clone(rules),
            event,
            old: row(old),
            new: row(new),
            updated: updated.cloned(),
        });
    }
    Ok(())
}

/// Keeps a row for triggers that see all rows as a table.
pub(super) fn capture(
    ex: &mut Exec<'_, '_>,
    fired: &mut Fired,
    event: u8,
    old: Option<&[Datum]>,
    new: Option<&[Datum]>,
) -> Result<()> {
    let Some(rows) = &mut fired.captured else { return Ok(()) };
    if !rows.is_wanted(event) {
        return Ok(());
    }
    fired.memory.add(ex.cx.memory, old.map_or(0, row_bytes) + new.map_or(0, row_bytes))?;
    let (old, new) = (old.and_then(|row| rows.row(row)), new.and_then(|row| rows.row(row)));
    match event {
        Trigger::INSERT => rows.inserted.extend(new),
        Trigger::DELETE => rows.deleted.extend(old),
        _ => {
            rows.before.extend(old);
            rows.after.extend(new);
        }
    }
    Ok(())
}

/// Fires the triggers behind the rows and behind the statement, for what the statement is.
pub(super) fn after_statement(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    rules: &TableRules,
    fired: &mut Fired,
) -> Result<()> {
    before_statement(ex, table, rules, fired)?;
    if let Some(captured) = &mut fired.captured {
        captured.freeze();
    }
    fire_rows(ex, fired)?;
    if let Some(triggers) = &rules.triggers {
        for meant in fired.statement.iter().rev() {
            statement(ex, table, triggers, TriggerTime::After, meant, fired.captured.as_deref())?;
        }
    }
    fired.memory.release();
    Ok(())
}

/// Fires the triggers behind rows.
pub(super) fn fire_rows(ex: &mut Exec<'_, '_>, fired: &mut Fired) -> Result<()> {
    let mut put_off = Vec::new();
    for noted in std::mem::take(&mut fired.events) {
        let RowEvent { table, rules, event, old, new, updated } = &noted;
        let Some(triggers) = &rules.triggers else { continue };
        let (event, updated) = (*event, updated.as_deref());
        for (place, rule) in triggers.list.iter().enumerate() {
            if !is_meant(rule, TriggerTime::After, true, event, updated)
                || !holds(ex, table, triggers, rule, (old, new))?
            {
                continue;
            }
            let Trigger { id, deferral, is_constraint, .. } = &*rule.trigger;
            if *is_constraint && !deferral.is_fixed() && ex.cx.session.is_trigger_deferred(*id, *deferral) {
                let event = RowEvent {
                    table: Arc::clone(table),
                    rules: Arc::clone(rules),
                    event,
                    old: old.clone(),
                    new: new.clone(),
                    updated: None,
                };
                let bytes = [old, new].into_iter().flatten().map(|row| row_bytes(std::slice::from_ref(row))).sum();
                put_off.push(Deferred::trigger(ex, *id, PutOff { event, rule: place }, bytes)?);
                continue;
            }
            let (old_rows, new_rows) = match &fired.captured {
                Some(captured) => captured.tables(rule, event),
                None => (None, None),
            };
            let (old, new) = (old.clone(), new.clone());
            call(ex, TriggerCall { table, rule, event, old, new, old_rows, new_rows, triggers })?;
        }
    }
    if !put_off.is_empty() {
        ex.cx.session.defer(put_off);
    }
    Ok(())
}

impl PutOff {
    /// The table whose trigger it is.
    pub(super) fn table(&self) -> u32 {
        self.event.table.id
    }

    /// Calls the trigger.
    pub(super) fn fire(&self, ex: &mut Exec<'_, '_>) -> Result<()> {
        let RowEvent { table, rules, event, old, new, .. } = &self.event;
        let missing = || Error::internal("a trigger that was put off is not there");
        let triggers = rules.triggers.as_ref().ok_or_else(missing)?;
        let rule = triggers.list.get(self.rule).ok_or_else(missing)?;
        let (old, new, event) = (old.clone(), new.clone(), *event);
        call(ex, TriggerCall { table, rule, event, old, new, old_rows: None, new_rows: None, triggers }).map(drop)
    }
}

/// Fires the triggers of TRUNCATE in front of a table's end, or behind it.
///
/// # Errors
/// Those of the triggers.
pub fn truncate_triggers(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    rules: &TableRules,
    time: TriggerTime,
) -> Result<()> {
    match &rules.triggers {
        Some(triggers) => statement(ex, table, triggers, time, &(Trigger::TRUNCATE, None), None),
        None => Ok(()),
    }
}

/// Fires the triggers that stand for writing a row of a view. `false`: they did nothing.
pub(super) fn instead_of_row(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    rules: &TableRules,
    event: u8,
    old: Option<&[Datum]>,
    new: Option<&mut Vec<Datum>>,
) -> Result<bool> {
    pulse::work(UNITS_PER_TRIGGER)?;
    fire_row(ex, (table, rules), TriggerTime::InsteadOf, event, (old, new), None)
}
