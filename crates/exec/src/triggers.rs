//! Triggers of a table at work.
//!
//! ```text
//! BEFORE STATEMENT ─► for each row: BEFORE ROW ─► the row is written ─► … ─► checks of the statement's end
//!                                                                              ─► AFTER ROW … ─► AFTER STATEMENT
//! ```
//! A trigger before a row may change it, or keep it from being written. Those behind rows fire when
//! the statement has written all of its own.
//!
//! Invariants: triggers fire in the order of their names; a trigger sees all that was written so
//! far.

use std::sync::Arc;

use colibri_catalog::{Table, Trigger, TriggerTime};
use colibri_types::{Datum, Error, Result, Row, pulse};

use super::Exec;
use crate::eval::Evaluate as _;
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
}

/// Rows whose triggers fire at the end of the statement.
#[derive(Default)]
pub(super) struct Fired {
    rows: Vec<(u8, Option<Datum>, Option<Datum>)>,
    /// The triggers before the statement have fired.
    has_begun: bool,
}

impl Fired {
    /// What is in front of the statement has fired, if it has for another writer.
    pub(super) fn goes_on_behind(&mut self, other: &Self) {
        self.has_begun = other.has_begun;
    }

    /// Takes over the rows of another writer of the same table.
    pub(super) fn absorb(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.has_begun |= other.has_begun;
    }

    /// Back to the start.
    pub(super) fn again(&mut self) {
        self.rows = Vec::new();
        self.has_begun = false;
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
    event: u8,
    updated: Option<&[usize]>,
) -> Result<()> {
    let Some(triggers) = &rules.triggers else { return Ok(()) };
    if std::mem::replace(&mut fired.has_begun, true) {
        return Ok(());
    }
    statement(ex, table, triggers, TriggerTime::Before, event, updated)
}

fn statement(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    triggers: &Triggers,
    time: TriggerTime,
    event: u8,
    updated: Option<&[usize]>,
) -> Result<()> {
    for rule in triggers.list.iter().filter(|rule| is_meant(rule, time, false, event, updated)) {
        if holds(ex, table, triggers, rule, (&None, &None))? {
            call(ex, TriggerCall { table, rule, event, old: None, new: None })?;
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
    mut new: Option<&mut Vec<Datum>>,
    updated: Option<&[usize]>,
) -> Result<bool> {
    let Some(triggers) = &rules.triggers else { return Ok(true) };
    let is_fired = |rule: &&TriggerRule| is_meant(rule, TriggerTime::Before, true, event, updated);
    if !triggers.list.iter().any(|rule| is_fired(&rule)) {
        return Ok(true);
    }
    let old = old.map(|row| row_of(triggers, row));
    for rule in triggers.list.iter().filter(is_fired) {
        let row = new.as_deref().map(|row| row_of(triggers, row));
        if !holds(ex, table, triggers, rule, (&old, &row))? {
            continue;
        }
        let given = call(ex, TriggerCall { table, rule, event, old: old.clone(), new: row })?;
        match (given, new.as_deref_mut()) {
            (Datum::Null, _) => return Ok(false),
            (Datum::Row(given), Some(new)) => {
                if given.values().len() != triggers.live.len() {
                    return Err(Error::internal("a trigger has given a row of another shape"));
                }
                for (&column, value) in triggers.live.iter().zip(given.values()) {
                    new[column] = value.clone();
                }
            }
            _ => {}
        }
    }
    Ok(true)
}

/// Remembers a row that was written, for the triggers at the end of the statement.
#[inline]
pub(super) fn note_row(
    rules: &TableRules,
    fired: &mut Fired,
    event: u8,
    old: Option<&[Datum]>,
    new: Option<&[Datum]>,
) -> Result<()> {
    let Some(triggers) = &rules.triggers else { return Ok(()) };
    if triggers.list.iter().any(|rule| is_meant(rule, TriggerTime::After, true, event, None)) {
        pulse::work(UNITS_PER_TRIGGER)?;
        let row = |row: Option<&[Datum]>| row.map(|row| row_of(triggers, row));
        fired.rows.push((event, row(old), row(new)));
    }
    Ok(())
}

/// Fires the triggers behind the rows and behind the statement, for what the statement is.
pub(super) fn after_statement(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    rules: &TableRules,
    fired: &mut Fired,
    event: u8,
    updated: Option<&[usize]>,
) -> Result<()> {
    let Some(triggers) = &rules.triggers else { return Ok(()) };
    before_statement(ex, table, rules, fired, event, updated)?;
    for (event, old, new) in std::mem::take(&mut fired.rows) {
        for rule in triggers.list.iter().filter(|rule| is_meant(rule, TriggerTime::After, true, event, updated)) {
            if holds(ex, table, triggers, rule, (&old, &new))? {
                call(ex, TriggerCall { table, rule, event, old: old.clone(), new: new.clone() })?;
            }
        }
    }
    statement(ex, table, triggers, TriggerTime::After, event, updated)
}
