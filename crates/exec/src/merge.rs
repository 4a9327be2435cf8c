//! MERGE.
//!
//! A row of the source is one of what is merged, with its partner in the table if it has one. The
//! first action that is right for it is done.
//!
//! Invariants: it is part of a statement whose reads see what there was before ([`super::parts`]),
//! so rows are dealt with as they come. No row of the table is changed twice (21000).

use std::sync::Arc;

use colibri_catalog::{Trigger, record, store_error::InSql as _};
use colibri_txn::{IfLocked, Key, LockMode};
use colibri_types::{Datum, Error, Result, SqlState, pulse};

use super::constraints::expressions::fill_generated;
use super::constraints::references::Mark;
use super::constraints::security::check_rows;
use super::delete::delete_row;
use super::insert::RowWriter;
use super::operator::Run;
use super::row_patch::Addition;
use super::triggers::{Meant, before_row, before_statement, expect_untouched, note_row};
use super::update::{ChangePlan, assign, change_row, columns_set};
use super::writing::{ChangeRun, Changes, Outcome};
use super::{Batch, Exec, operator_cache};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::plan::{Assignment, Merge, MergeAction, MergeWhat, RowChecks};

/// MERGE at work.
pub(super) type MergeRun = ChangeRun<(Arc<Merge>, Merging)>;

/// What merging rows needs from one to the next.
pub(super) struct Merging {
    writer: RowWriter,
    /// How rows are changed, for each action that does.
    plans: Vec<Option<ChangePlan>>,
    /// A column that is NULL where a row has no partner.
    marker: usize,
    new: Vec<Datum>,
    additions: Vec<Addition>,
}

impl MergeRun {
    pub(super) fn new(merge: &Arc<Merge>, source: Run) -> Self {
        let Merge { table, actions, rules, .. } = &**merge;
        let plan = |what: &MergeWhat| match what {
            MergeWhat::Update(assignments) => Some(ChangePlan::of(table, rules, assignments)),
            MergeWhat::Nothing | MergeWhat::Delete | MergeWhat::Insert(_) => None,
        };
        let merging = Merging {
            writer: RowWriter::new(table, rules).meant(statement(actions)),
            plans: actions.iter().map(|action| plan(&action.what)).collect(),
            marker: match &table.primary_key {
                Some(key) => key.columns.first().copied().unwrap_or_default(),
                None => table.columns.len(),
            },
            new: Vec::new(),
            additions: Vec::new(),
        };
        Self::over(source, true, (Arc::clone(merge), merging))
    }
}

impl Changes for (Arc<Merge>, Merging) {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        self.1.merge(&self.0, ex, rows.row(at), outcome)
    }

    fn mark(&self) -> Mark {
        self.1.writer.effects().mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.1.writer.effects_mut().take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        self.1.writer.finish(ex)
    }

    fn forget(&mut self) {
        let Merging { writer, new, additions, .. } = &mut self.1;
        let (effects, fired) = writer.parts();
        effects.again();
        fired.again();
        operator_cache::empty(new);
        operator_cache::empty(additions);
    }
}

impl Merging {
    fn merge(&mut self, merge: &Merge, ex: &mut Exec<'_, '_>, row: &[Datum], outcome: &mut Outcome) -> Result<()> {
        let is_matched = !row[self.marker].is_null();
        for (number, action) in merge.actions.iter().enumerate() {
            if action.is_matched != is_matched {
                continue;
            }
            if let Some(condition) = &action.condition
                && !condition.eval_condition(&mut ex.scope(), row)?
            {
                continue;
            }
            match &action.what {
                MergeWhat::Nothing => return Ok(()),
                what => {
                    before_statement(ex, &merge.table, &merge.rules, self.writer.parts().1)?;
                    let is_done = match what {
                        MergeWhat::Update(assignments) => self.update(merge, (number, assignments), ex, row)?,
                        MergeWhat::Insert(values) => self.insert((values, &action.security), ex, row)?,
                        _ => {
                            check_rows(ex, &action.security.existing, row)?;
                            self.delete(merge, ex, row)?
                        }
                    };
                    outcome.affected += u64::from(is_done);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The key of the row that is to be changed.
    fn key(merge: &Merge, ex: &Exec<'_, '_>, row: &[Datum]) -> Result<Key> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        let key = record::row_key(&merge.table, row)?;
        if ex.is_changed(&merge.table.space(), &key) { Err(second_time()) } else { Ok(key) }
    }

    fn delete(&mut self, merge: &Merge, ex: &mut Exec<'_, '_>, row: &[Datum]) -> Result<bool> {
        let Merge { table, rules, .. } = merge;
        let (key, space) = (Self::key(merge, ex, row)?, table.space());
        let own_width = table.columns.len() + usize::from(table.primary_key.is_none());
        let old = &row[..own_width];
        if rules.has_before_row(Trigger::DELETE) {
            if !before_row(ex, table, rules, Trigger::DELETE, Some(old), None, None)? {
                return Ok(false);
            }
            expect_untouched(ex, table, (&space, &key), old, "deleted")?;
        }
        ex.txn.lock(&space, &key, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
        delete_row(ex, self.writer.effects_mut(), table, &space, rules, &key, row)?;
        note_row(ex, (table, rules), self.writer.parts().1, Trigger::DELETE, Some(old), None, None)?;
        Ok(true)
    }

    fn update(
        &mut self,
        merge: &Merge,
        (action, assignments): (usize, &[Assignment]),
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
    ) -> Result<bool> {
        let (key, space) = (Self::key(merge, ex, row)?, merge.table.space());
        let Self { writer, plans, new, additions, .. } = self;
        let Some(plan) = &plans[action] else { return Err(Error::internal("an action of MERGE has no plan")) };
        let own_width = merge.table.columns.len() + usize::from(merge.table.primary_key.is_none());
        new.clear();
        new.extend_from_slice(&row[..own_width]);
        let security = &merge.actions[action].security;
        check_rows(ex, &security.existing, row)?;
        assign(ex, assignments, row, new, additions)?;
        let Merge { table, rules, .. } = merge;
        let (old, set) = (&row[..own_width], columns_set(assignments));
        if rules.has_before_row(Trigger::UPDATE) {
            if !before_row(ex, table, rules, Trigger::UPDATE, Some(old), Some(new), Some(&set))? {
                return Ok(false);
            }
            expect_untouched(ex, table, (&space, &key), old, "updated")?;
            fill_generated(ex, rules, new)?;
        }
        check_rows(ex, &security.update, new)?;
        ex.txn.lock(&space, &key, plan.lock_mode(row, new, true), IfLocked::Wait).in_sql()?;
        change_row(ex, writer.effects_mut(), plan, &key, row, new, additions)?;
        let fired = writer.parts().1;
        note_row(ex, (table, rules), fired, Trigger::UPDATE, Some(old), Some(new), Some(&set))?;
        ex.txn.note_written(&space, &key);
        Ok(true)
    }

    fn insert(
        &mut self,
        (values, security): (&[Expr], &RowChecks),
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
    ) -> Result<bool> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        let Self { writer, new, .. } = self;
        new.clear();
        for value in values {
            new.push(value.eval_owned(&mut ex.scope(), row)?);
        }
        new.extend(writer.new_number(ex)?);
        Ok(writer.insert_secured(ex, &security.insert, new)?.is_some())
    }
}

/// What a MERGE is to triggers: INSERT, UPDATE and DELETE, as far as it has actions of these.
fn statement(actions: &[MergeAction]) -> Vec<Meant> {
    let mut statement: Vec<Meant> = Vec::new();
    if actions.iter().any(|action| matches!(action.what, MergeWhat::Insert(_))) {
        statement.push((Trigger::INSERT, None));
    }
    let sets = |action: &MergeAction| match &action.what {
        MergeWhat::Update(assignments) => Some(columns_set(assignments).to_vec()),
        _ => None,
    };
    let all: Vec<Vec<usize>> = actions.iter().filter_map(sets).collect();
    if !all.is_empty() {
        statement.push((Trigger::UPDATE, Some(all.concat().into())));
    }
    if actions.iter().any(|action| matches!(action.what, MergeWhat::Delete)) {
        statement.push((Trigger::DELETE, None));
    }
    statement
}

#[cold]
fn second_time() -> Error {
    Error::new(SqlState::CARDINALITY_VIOLATION, "MERGE command cannot affect row a second time")
        .hint("Ensure that not more than one source row matches any one target row.")
}
