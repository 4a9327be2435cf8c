//! INSERT, with ON CONFLICT.
//!
//! Rows are written as the source gives them, unless it reads the table: then they are collected
//! first. A row's life: NOT NULL and CHECK; its key and its values in unique indexes are locked and
//! must not be there yet; row and entries are written; what it refers to must be there.
//!
//! ON CONFLICT looks for rows that are in the way before it writes. DO NOTHING takes no lock for
//! rows that are there. DO UPDATE locks the row in the way and changes it as UPDATE does.
//!
//! Invariants: rows of RETURNING are given when all has been written.

use std::sync::Arc;

use colibri_catalog::{Index, Table, Trigger, record, record::RowReader, store_error::InSql as _};
use colibri_txn::{ColumnSet, IfLocked, Key, LockMode, Space, series};
use colibri_types::{Datum, Error, Result, SqlState, pulse};
use smallvec::SmallVec;

use super::constraints::exclusion;
use super::constraints::expressions::{Expressions, fill_generated, row_for};
use super::constraints::references::{Effects, Mark, put_entry};
use super::constraints::security::check_rows;
use super::constraints::{
    check_condition, check_not_null, claim_key, find_entry, is_in_partition, partition_violation, reads_table,
};
use super::key_set::KeySet;
use super::messages::Messages;
use super::operator::Run;
use super::row_patch::Addition;
use super::triggers::{
    Fired, Meant, after_statement, before_row, before_statement, expect_untouched, instead_of_row, note_row,
};
use super::update::{ChangePlan, assign, change_row, columns_set};
use super::writing::{ChangeRun, Changes, Outcome};
use super::{Batch, Exec, operator_cache};
use crate::eval::Evaluate as _;
use crate::expr::{Expr, walk};
use crate::plan::{Arbiter, ConflictAction, Fragment, Insert, Node, OnConflict, RowCheck, TableRules};

/// Writes new rows into a table: for INSERT and COPY.
pub struct RowWriter {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    space: Space,
    effects: Effects,
    fired: Fired,
    buffer: Vec<u8>,
    /// Its rows go to the table as the partition that takes them.
    is_routed: bool,
    /// Its rows are messages of a topic.
    messages: Option<Box<Messages>>,
}

impl RowWriter {
    pub fn new(table: &Arc<Table>, rules: &Arc<TableRules>) -> Self {
        Self {
            space: table.space(),
            messages: Messages::of(table),
            table: Arc::clone(table),
            rules: Arc::clone(rules),
            effects: Effects::default(),
            fired: Fired::new(rules, [(Trigger::INSERT, None)]),
            buffer: Vec::new(),
            is_routed: false,
        }
    }

    /// The same of a partition of `root`, for rows of this that were found to go there. Whether they
    /// are rows of `root` has to be looked at if that is a partition itself.
    pub(super) fn of_partition(table: &Arc<Table>, rules: &Arc<TableRules>, root: &Table) -> Self {
        // The statement is about the root, whose triggers it fires.
        Self { is_routed: root.partition_of.is_none(), fired: Fired::default(), ..Self::new(table, rules) }
    }

    /// Exchanges what is noted for triggers.
    pub(super) fn exchange_fired(&mut self, fired: &mut Fired) {
        std::mem::swap(&mut self.fired, fired);
    }

    /// The statement is more than an INSERT to its triggers.
    pub(super) fn meant(mut self, statement: impl IntoIterator<Item = Meant>) -> Self {
        self.fired = Fired::new(&self.rules, statement);
        self
    }

    pub(super) fn parts(&mut self) -> (&mut Effects, &mut Fired) {
        (&mut self.effects, &mut self.fired)
    }

    pub(super) fn effects(&self) -> &Effects {
        &self.effects
    }

    /// For changes of the same table's rows beside.
    pub(super) fn effects_mut(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// The hidden number for a new row, if the table's rows have one.
    #[inline]
    pub fn new_number(&self, ex: &mut Exec<'_, '_>) -> Result<Option<Datum>> {
        if self.table.primary_key.is_some() || self.rules.is_view {
            return Ok(None);
        }
        Ok(Some(Datum::Int(ex.cx.session.next_row_number(ex.txn, &self.table)?)))
    }

    /// NOT NULL and CHECK.
    #[inline]
    fn check(&self, ex: &mut Exec<'_, '_>, row: &[Datum]) -> Result<()> {
        check_not_null(&self.table, row, ex.cx.env)?;
        for check in 0..self.rules.checks.len() {
            check_condition(ex, &self.table, &self.rules, check, row)?;
        }
        // A trigger may have made it a row of another partition.
        let may_be_elsewhere = !self.is_routed || self.rules.has_before_row(Trigger::INSERT);
        if !self.rules.partition.is_empty() && may_be_elsewhere && !is_in_partition(ex, &self.rules, row)? {
            return Err(partition_violation(&self.table, row, ex.cx.env));
        }
        Ok(())
    }

    /// Writes a row of all the table's columns, followed by its hidden number, that was checked.
    #[inline]
    fn put(&mut self, ex: &mut Exec<'_, '_>, row: &[Datum], key: &Key) -> Result<()> {
        let Self { table, rules, space, effects, fired, buffer, .. } = self;
        claim_key(ex, table, space, key, row)?;
        buffer.clear();
        record::encode_row(table, row, buffer)?;
        ex.txn.put(space, key, buffer).in_sql()?;
        for index in 0..table.indexes.len() {
            put_entry(ex, (table, rules), index, row, key)?;
        }
        for rule in 0..rules.foreign_keys.len() {
            effects.check_reference(ex, (table, rules), rule, key, row)?;
        }
        note_row(ex, (table, rules), fired, Trigger::INSERT, None, Some(row), None)
    }

    /// Writes a message that was checked, behind all others of its partition.
    fn append(&mut self, ex: &mut Exec<'_, '_>, row: &[Datum], key: &Key) -> Result<()> {
        self.buffer.clear();
        record::encode_row(&self.table, row, &mut self.buffer)?;
        let prefix = series::split(key).map_or(&key[..], |(prefix, _)| prefix);
        ex.txn.append(&self.space, prefix, &self.buffer).in_sql()
    }

    /// Checks and writes a message. Gives it without the offset that it does not have yet.
    fn put_message(&mut self, ex: &mut Exec<'_, '_>, security: &[RowCheck], row: &[Datum]) -> Result<Vec<Datum>> {
        let mut row = row.to_vec();
        let Some(messages) = &mut self.messages else { return Err(Error::internal("a message for no topic")) };
        let is_appended = messages.place(ex, &self.table, &mut row)?;
        check_rows(ex, security, &row)?;
        self.check(ex, &row)?;
        let key = record::row_key(&self.table, &row)?;
        if !is_appended {
            self.put(ex, &row, &key)?;
            return Ok(row);
        }
        self.append(ex, &row, &key)?;
        if let Some(messages) = &self.messages {
            messages.forget_offset(&mut row);
        }
        Ok(row)
    }

    /// Checks and writes a row of all the table's columns, followed by its hidden number. Gives the
    /// row as it was written; `None` if a trigger kept it from being written.
    #[inline]
    pub fn insert(&mut self, ex: &mut Exec<'_, '_>, row: &[Datum]) -> Result<Option<Vec<Datum>>> {
        self.insert_secured(ex, &[], row)
    }

    /// The same, and the row as it is to be written has to pass what row-level security demands.
    pub(super) fn insert_secured(
        &mut self,
        ex: &mut Exec<'_, '_>,
        security: &[RowCheck],
        row: &[Datum],
    ) -> Result<Option<Vec<Datum>>> {
        let mut filled;
        let mut row = row;
        let has_triggers = self.rules.triggers.is_some();
        if has_triggers {
            before_statement(ex, &self.table, &self.rules, &mut self.fired)?;
            filled = row.to_vec();
            let (table, rules) = (&self.table, &self.rules);
            if self.rules.is_view {
                let is_done = instead_of_row(ex, table, rules, Trigger::INSERT, None, Some(&mut filled))?;
                return Ok(is_done.then_some(filled));
            }
            if !before_row(ex, table, rules, Trigger::INSERT, None, Some(&mut filled), None)? {
                return Ok(None);
            }
            fill_generated(ex, &self.rules, &mut filled)?;
            row = &filled;
        } else if !self.rules.generated.is_empty() {
            filled = row.to_vec();
            fill_generated(ex, &self.rules, &mut filled)?;
            row = &filled;
        }
        if self.messages.is_some() {
            return self.put_message(ex, security, row).map(Some);
        }
        check_rows(ex, security, row)?;
        self.check(ex, row)?;
        let key = record::row_key(&self.table, row)?;
        self.put(ex, row, &key)?;
        Ok(Some(if has_triggers { row.to_vec() } else { Vec::new() }))
    }

    /// Goes on where another writer of the same statement has ended.
    #[must_use]
    pub fn behind(mut self, other: &Self) -> Self {
        self.fired.goes_on_behind(&other.fired);
        self
    }

    /// Takes over what another writer of the same table has yet to check.
    pub fn absorb(&mut self, other: Self) {
        self.effects.absorb(other.effects);
        self.fired.absorb(other.fired);
        if let (Some(own), Some(other)) = (&mut self.messages, &other.messages) {
            own.absorb(other);
        }
    }

    /// What is left to do at the end of a statement; `false` if the budget is used up and there is
    /// more.
    pub fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if !self.effects.finish(ex)? {
            return Ok(false);
        }
        self.fired.take_in_front(self.effects.fired_mut());
        after_statement(ex, &self.table, &self.rules, &mut self.fired)?;
        if let Some(messages) = &mut self.messages {
            messages.finish(ex, &self.table)?;
        }
        Ok(true)
    }
}

/// INSERT at work.
pub(super) type InsertRun = ChangeRun<(Arc<Insert>, Insertions)>;

/// What inserting rows needs from one to the next.
pub(super) struct Insertions {
    writer: RowWriter,
    conflict: Option<Box<Conflict>>,
    /// The row at hand with its hidden number.
    row: Vec<Datum>,
}

/// What ON CONFLICT needs.
struct Conflict {
    /// For DO UPDATE.
    plan: Option<ChangePlan>,
    reader: RowReader,
    /// Keys of rows written by this statement, if there are several.
    written: Option<KeySet>,
    /// The row in the way followed by the proposed one.
    pair: Vec<Datum>,
    old: Vec<Datum>,
    new: Vec<Datum>,
    additions: Vec<Addition>,
}

impl Conflict {
    fn new(insert: &Insert, on_conflict: &OnConflict) -> Self {
        let Insert { table, source, rules, .. } = insert;
        let columns: Vec<usize> = (0..table.columns.len() + usize::from(table.primary_key.is_none())).collect();
        let plan = match &on_conflict.action {
            ConflictAction::Nothing => None,
            ConflictAction::Update { assignments, .. } => Some(ChangePlan::of(table, rules, assignments)),
        };
        let is_single = matches!(source, Node::Values { rows } if rows.len() <= 1);
        Self {
            written: (plan.is_some() && !is_single).then(KeySet::default),
            plan,
            reader: RowReader::new(table, &columns),
            pair: Vec::new(),
            old: Vec::new(),
            new: Vec::new(),
            additions: Vec::new(),
        }
    }
}

/// Whether a plan inserts one row that is made of parameters, and nothing else in it looks at these: then
/// it can insert a row for each of several sets of them ([`super::Execution::runs_for_each`]), and nobody can
/// tell that from as many statements within one transaction.
#[must_use]
pub fn inserts_for_each(fragment: &Fragment) -> bool {
    let Node::Insert(insert) = &fragment.root else { return false };
    let Insert { source, on_conflict: None, returning: None, rules, .. } = &**insert else { return false };
    let asks = |expr: &Expr| walk::any(expr, &|part| matches!(part, Expr::Subquery(_)));
    let takes_params = |expr: &Expr| walk::any(expr, &|part| matches!(part, Expr::Param(_)));
    let values = match source {
        // Defaults are filled in.
        Node::Project { input, exprs, .. } if !exprs.iter().any(|expr| asks(expr) || takes_params(expr)) => &**input,
        source => source,
    };
    let Node::Values { rows } = values else { return false };
    rows.len() == 1 && !rows.iter().flatten().any(asks) && rules.triggers.is_none() && !rules.is_view
}

impl InsertRun {
    pub(super) fn new(insert: &Arc<Insert>, input: Run) -> Self {
        let Insert { table, source, rules, .. } = &**insert;
        let writer = RowWriter::new(table, rules).meant(Self::statement(insert));
        let insertions = Insertions::new(insert, writer);
        Self::over(input, !reads_table(source, table), (Arc::clone(insert), insertions))
    }
}

impl InsertRun {
    /// What an INSERT is to triggers.
    pub(super) fn statement(insert: &Insert) -> SmallVec<[Meant; 2]> {
        let mut statement = SmallVec::new();
        statement.push((Trigger::INSERT, None));
        if let Some(OnConflict { action: ConflictAction::Update { assignments, .. }, .. }) = &insert.on_conflict {
            statement.push((Trigger::UPDATE, Some(columns_set(assignments))));
        }
        statement
    }
}

impl Changes for (Arc<Insert>, Insertions) {
    #[inline]
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        self.1.insert_row(&self.0, ex, rows, at, outcome)
    }

    fn mark(&self) -> Mark {
        self.1.writer.effects.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.1.writer.effects.take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        self.1.writer.finish(ex)
    }

    fn forget(&mut self) {
        let Insertions { writer, conflict, row } = &mut self.1;
        writer.effects.again();
        writer.fired.again();
        if let Some(messages) = &mut writer.messages {
            messages.again();
        }
        operator_cache::empty(&mut writer.buffer);
        operator_cache::empty(row);
        if let Some(conflict) = conflict {
            conflict.again();
        }
    }
}

impl Insertions {
    fn new(insert: &Insert, writer: RowWriter) -> Self {
        let conflict = insert.on_conflict.as_ref().map(|on_conflict| Box::new(Conflict::new(insert, on_conflict)));
        Self { writer, conflict, row: Vec::new() }
    }

    /// Of a partition of `root`.
    pub(super) fn of_partition(insert: &Insert, root: &Table) -> Self {
        let mut insertions = Self::new(insert, RowWriter::of_partition(&insert.table, &insert.rules, root));
        if let Some(conflict) = &mut insertions.conflict {
            // It is not known how many rows come.
            conflict.written = conflict.plan.is_some().then(KeySet::default);
        }
        insertions
    }

    /// Inserts a row of all the table's columns.
    pub(super) fn insert_whole(
        &mut self,
        insert: &Insert,
        ex: &mut Exec<'_, '_>,
        mut row: Vec<Datum>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let (table, rules) = (&insert.table, &insert.rules);
        if rules.triggers.is_some() && !before_row(ex, table, rules, Trigger::INSERT, None, Some(&mut row), None)? {
            return Ok(());
        }
        fill_generated(ex, &insert.rules, &mut row)?;
        row.extend(self.writer.new_number(ex)?);
        self.insert(insert, ex, &row, outcome)
    }

    pub(super) fn writer_mut(&mut self) -> &mut RowWriter {
        &mut self.writer
    }

    #[inline]
    fn insert_row(
        &mut self,
        insert: &Insert,
        ex: &mut Exec<'_, '_>,
        batch: &mut Batch,
        at: usize,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if batch.width() != insert.table.columns.len() {
            return Err(Error::internal("a row to be inserted has a wrong number of columns"));
        }
        let has_triggers = insert.rules.triggers.is_some();
        if has_triggers {
            before_statement(ex, &insert.table, &insert.rules, &mut self.writer.fired)?;
        }
        let has_generated = !insert.rules.generated.is_empty() || has_triggers;
        if insert.table.primary_key.is_some() && !has_generated {
            return self.insert(insert, ex, batch.row(at), outcome);
        }
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        match ex.txn.fetches() {
            true => row.extend_from_slice(batch.row(at)),
            false => row.extend(batch.row_mut(at).iter_mut().map(std::mem::take)),
        }
        if insert.rules.is_view {
            let is_done = instead_of_row(ex, &insert.table, &insert.rules, Trigger::INSERT, None, Some(&mut row))?;
            if is_done {
                if let Some(exprs) = &insert.returning {
                    outcome.returned.push(ex, exprs, &row)?;
                }
                outcome.affected += 1;
            }
            self.row = row;
            return Ok(());
        }
        if has_triggers && !before_row(ex, &insert.table, &insert.rules, Trigger::INSERT, None, Some(&mut row), None)? {
            self.row = row;
            return Ok(());
        }
        if has_generated {
            fill_generated(ex, &insert.rules, &mut row)?;
        }
        row.extend(self.writer.new_number(ex)?);
        self.insert(insert, ex, &row, outcome)?;
        self.row = row;
        Ok(())
    }

    #[inline]
    fn insert(&mut self, insert: &Insert, ex: &mut Exec<'_, '_>, row: &[Datum], outcome: &mut Outcome) -> Result<()> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        if self.writer.messages.is_some() {
            let row = self.writer.put_message(ex, &insert.security.insert, row)?;
            if let Some(exprs) = &insert.returning {
                outcome.returned.push(ex, exprs, &row)?;
            }
            outcome.affected += 1;
            return Ok(());
        }
        check_rows(ex, &insert.security.insert, row)?;
        self.writer.check(ex, row)?;
        let key = record::row_key(&insert.table, row)?;
        if let (Some(conflict), Some(on_conflict)) = (&mut self.conflict, &insert.on_conflict) {
            let (effects, fired, space) = (&mut self.writer.effects, &mut self.writer.fired, &self.writer.space);
            match conflict.resolve(insert, on_conflict, ex, (effects, fired, space), row, &key)? {
                Resolved::Free => {}
                Resolved::Skipped => return Ok(()),
                Resolved::Updated => {
                    if let Some(exprs) = &insert.returning {
                        outcome.returned.push(ex, exprs, &conflict.new[..insert.table.columns.len()])?;
                    }
                    if let Some(written) = &mut conflict.written {
                        written.insert(record::row_key(&insert.table, &conflict.new)?);
                    }
                    outcome.affected += 1;
                    return Ok(());
                }
            }
        }
        self.writer.put(ex, row, &key)?;
        if let Some(exprs) = &insert.returning {
            outcome.returned.push(ex, exprs, row)?;
        }
        if let Some(written) = self.conflict.as_mut().and_then(|conflict| conflict.written.as_mut()) {
            written.insert(key);
        }
        outcome.affected += 1;
        Ok(())
    }
}

/// What came of looking for a row in the way.
enum Resolved {
    /// There is none.
    Free,
    /// There is one, and it stays as it is.
    Skipped,
    /// There was one, and it has been changed: `new` is the row now.
    Updated,
}

impl Conflict {
    fn again(&mut self) {
        if let Some(written) = &mut self.written {
            *written = KeySet::default();
        }
        operator_cache::empty(&mut self.pair);
        operator_cache::empty(&mut self.old);
        operator_cache::empty(&mut self.new);
        operator_cache::empty(&mut self.additions);
    }

    fn resolve(
        &mut self,
        insert: &Insert,
        on_conflict: &OnConflict,
        ex: &mut Exec<'_, '_>,
        (effects, fired, space): (&mut Effects, &mut Fired, &Space),
        row: &[Datum],
        key: &Key,
    ) -> Result<Resolved> {
        let table = &insert.table;
        let found = self.find(table, on_conflict, ex, space, (row, &insert.rules.expressions), key)?;
        let (assignments, condition) = match (&on_conflict.action, &found) {
            (_, None) => return Ok(Resolved::Free),
            (ConflictAction::Nothing, Some(_)) => return Ok(Resolved::Skipped),
            (ConflictAction::Update { assignments, condition }, Some(_)) => (assignments, condition),
        };
        let (Some(key), Some(plan)) = (found, &self.plan) else { return Ok(Resolved::Skipped) };
        ex.txn.lock(space, &key, plan.lock_mode_of_any(), IfLocked::Wait).in_sql()?;
        let width = table.columns.len();
        self.old.resize(width + usize::from(table.primary_key.is_none()), Datum::Null);
        match ex.txn.get(space, &key, ColumnSet::ALL).in_sql()? {
            Some(value) => self.reader.read(&key, value, &mut self.old)?,
            None => return Err(Error::internal("an entry of a unique index leads to a row that is not there")),
        }
        if self.written.as_ref().is_some_and(|written| written.contains(&key)) || ex.is_changed(space, &key) {
            return Err(second_time());
        }
        self.pair.clear();
        self.pair.extend_from_slice(&self.old[..width]);
        self.pair.extend_from_slice(&row[..width]);
        if let Some(condition) = condition
            && !condition.eval_condition(&mut ex.scope(), &self.pair)?
        {
            return Ok(Resolved::Skipped);
        }
        check_rows(ex, &insert.security.existing, &self.old)?;
        self.new.clear();
        self.new.extend_from_slice(&self.old);
        assign(ex, assignments, &self.pair, &mut self.new, &mut self.additions)?;
        let changed = columns_set(assignments);
        if insert.rules.has_before_row(Trigger::UPDATE) {
            let (old, new) = (&self.old[..width], &mut self.new);
            if !before_row(ex, table, &insert.rules, Trigger::UPDATE, Some(old), Some(new), Some(&changed))? {
                return Ok(Resolved::Skipped);
            }
            expect_untouched(ex, table, (space, &key), &self.old[..width], "updated")?;
            fill_generated(ex, &insert.rules, &mut self.new)?;
        }
        check_rows(ex, &insert.security.update, &self.new)?;
        change_row(ex, effects, plan, &key, &self.old, &self.new, &self.additions)?;
        let (old, new) = (Some(self.old.as_slice()), Some(self.new.as_slice()));
        note_row(ex, (table, &insert.rules), fired, Trigger::UPDATE, old, new, Some(&changed))?;
        // Rows that come next have to meet this one.
        effects.put_moved(ex)?;
        Ok(Resolved::Updated)
    }

    /// The key of a row that is in the way of a new one.
    fn find(
        &self,
        table: &Table,
        on_conflict: &OnConflict,
        ex: &mut Exec<'_, '_>,
        space: &Space,
        (row, expressions): (&[Datum], &Expressions),
        key: &Key,
    ) -> Result<Option<Key>> {
        let by_index = |ex: &mut Exec<'_, '_>, index: &Index| -> Result<Option<Key>> {
            let row = row_for(ex, (table, index), expressions, row)?;
            if !record::has_entry(index, &row) || record::has_null(index, &row) {
                return Ok(None);
            }
            if index.is_exclusion() {
                let entry = exclusion::conflicting(ex, table, index, &row, false)?;
                let key = |entry: Key| record::split_index_entry(table, index, &entry).map(Key::from_slice);
                return entry.map(key).transpose();
            }
            let values = record::index_values(table, index, &row)?;
            if self.plan.is_some() {
                ex.txn.lock(&index.space(), &values, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
            }
            match find_entry(ex.txn, &index.space(), &values)? {
                Some(entry) => Ok(Some(Key::from_slice(record::split_index_entry(table, index, &entry)?))),
                None => Ok(None),
            }
        };
        let by_key = |ex: &mut Exec<'_, '_>| -> Result<Option<Key>> {
            if table.primary_key.is_none() {
                return Ok(None);
            }
            // Two that would insert the row exclude each other, and one that only refers to it
            // neither.
            if let Some(plan) = &self.plan {
                ex.txn.lock(space, key, plan.lock_mode_of_any(), IfLocked::Wait).in_sql()?;
            }
            Ok(ex.txn.get(space, key, ColumnSet::NONE).in_sql()?.is_some().then(|| key.clone()))
        };
        if on_conflict.arbiters.is_empty() {
            if let Some(found) = by_key(ex)? {
                return Ok(Some(found));
            }
            for index in table.indexes.iter().filter(|index| index.unique || index.is_exclusion()) {
                if let Some(found) = by_index(ex, index)? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        }
        for arbiter in &on_conflict.arbiters {
            let found = match arbiter {
                Arbiter::Key => by_key(ex)?,
                Arbiter::Index(index) => by_index(ex, index)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

#[cold]
fn second_time() -> Error {
    Error::new(SqlState::CARDINALITY_VIOLATION, "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}
