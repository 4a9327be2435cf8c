//! INSERT, UPDATE and DELETE of partitioned tables.
//!
//! Rows of the source are rows of the tree. Each is dealt with by the leaf that it is of, or that it
//! goes to, as a statement about this leaf alone would do it. A row that an UPDATE moves to another
//! partition is deleted from the one, and inserted into the other.
//!
//! Invariants: rows are collected before the first one is written, unless the source reads none of
//! the leaves; what has to wait for the end of the statement is done when all rows are written, leaf
//! by leaf.

use std::sync::Arc;

use colibri_catalog::{Table, Trigger, record, store_error};
use colibri_types::{Datum, Error, Result, SqlState};

use super::constraints::references::{Effects, Mark};
use super::constraints::{find_leaf, key_values_text, reads_table};
use super::delete::Deletions;
use super::insert::{InsertRun, Insertions, RowWriter};
use super::operator::Run;
use super::triggers::{Fired, after_statement, before_statement, capture};
use super::update::{ChangePlan, Left, Updates, columns_set};
use super::writing::{ChangeRun, Changes, Outcome};
use super::{Batch, Exec};
use crate::plan::partitions::{Leaf, Tree};
use crate::plan::{Delete, Insert, TableRules, TreeChange, Update};

/// 23514: nothing takes a row.
#[cold]
fn no_partition(table: &Table, key: &str) -> Error {
    let message = format!("no partition of relation \"{}\" found for row", table.name);
    Error::new(SqlState::CHECK_VIOLATION, message)
        .detail(format!("Partition key of the failing row contains {key}."))
        .about(&table.schema, &table.name, None, None)
}

/// The leaf that a row goes to, which begins with the columns of the root.
fn leaf_for(ex: &mut Exec<'_, '_>, tree: &Tree, row: &[Datum]) -> Result<usize> {
    let router = match find_leaf(ex, tree, row)? {
        Ok(leaf) => return Ok(leaf),
        Err(router) => &tree.routers[router].router,
    };
    let key = key_values_text(ex, router, row)?;
    Err(no_partition(&router.table, &key))
}

/// A row of the root's columns as one of the leaf's.
fn leaf_row(leaf: &Leaf, row: &[Datum]) -> Vec<Datum> {
    let mut own = vec![Datum::Null; leaf.table.columns.len()];
    for (place, value) in leaf.columns.iter().zip(row) {
        if let Some(place) = place {
            own[*place] = value.clone();
        }
    }
    own
}

/// A row of a leaf as one of the root's columns.
fn root_row(leaf: &Leaf, row: &[Datum]) -> Vec<Datum> {
    leaf.columns.iter().map(|place| place.map_or(Datum::Null, |place| row[place].clone())).collect()
}

/// A row of the tree, with what a join brings behind it, as one of the leaf that it is of.
fn own_row(tree: &Tree, leaf: &Leaf, row: &[Datum]) -> Vec<Datum> {
    let mut own = leaf_row(leaf, row);
    if leaf.table.primary_key.is_none() {
        own.push(row[tree.root.columns.len()].clone());
    }
    own.extend_from_slice(&row[tree.width()..]);
    own
}

/// The leaf that a row of the tree is of; `None` for the row of no leaf that an outer join gives.
fn leaf_of(tree: &Tree, row: &[Datum]) -> Result<Option<usize>> {
    match &row[tree.leaf_column()] {
        Datum::Int(id) => {
            tree.leaf_of(*id).map(Some).ok_or_else(|| Error::internal("a row is of a partition that is not there"))
        }
        _ => Ok(None),
    }
}

/// What a tree has itself to be done later, which is nothing: its leaves have it.
struct NoEffects(Effects);

/// INSERT of a tree at work.
pub(super) type TreeInsertRun = ChangeRun<TreeInsertions>;

/// What inserting rows needs from one to the next.
pub(super) struct TreeInsertions {
    insert: Arc<Insert>,
    leaves: Vec<Option<Box<Insertions>>>,
    own: NoEffects,
    /// What all leaves have written, for triggers.
    fired: Fired,
}

fn change_of<T>(change: &Option<TreeChange<T>>) -> Result<&TreeChange<T>> {
    change.as_ref().ok_or_else(|| Error::internal("a table is not partitioned"))
}

impl TreeInsertRun {
    pub(super) fn of_tree(insert: &Arc<Insert>, input: Run) -> Self {
        let leaves = insert.tree.as_ref().map_or(&[][..], |change| &change.tree.leaves);
        let streams = !leaves.iter().any(|leaf| reads_table(&insert.source, &leaf.table));
        let insertions = TreeInsertions {
            leaves: leaves.iter().map(|_| None).collect(),
            insert: Arc::clone(insert),
            own: NoEffects(Effects::default()),
            fired: Fired::new(&insert.rules, InsertRun::statement(insert)),
        };
        Self::over(input, streams, insertions)
    }
}

impl Changes for TreeInsertions {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        let change = change_of(&self.insert.tree)?;
        before_statement(ex, &self.insert.table, &self.insert.rules, &mut self.fired)?;
        let row = rows.row(at);
        let leaf = leaf_for(ex, &change.tree, row)?;
        let row = leaf_row(&change.tree.leaves[leaf], row);
        let insert = &change.leaves[leaf];
        let insertions =
            self.leaves[leaf].get_or_insert_with(|| Box::new(Insertions::of_partition(insert, &change.tree.root)));
        let mark = insertions.writer_mut().effects().mark();
        let noted = self.fired.count();
        self.fired.enter_leaf(&change.tree, leaf);
        insertions.writer_mut().exchange_fired(&mut self.fired);
        let inserted = insertions.insert_whole(insert, ex, row, outcome);
        insertions.writer_mut().exchange_fired(&mut self.fired);
        inserted.inspect_err(|error| {
            if store_error::is_fetch(error) {
                insertions.writer_mut().effects_mut().take_back(mark);
                self.fired.forget_behind(noted);
            }
        })
    }

    fn mark(&self) -> Mark {
        self.own.0.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.own.0.take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        for insertions in self.leaves.iter_mut().flatten() {
            let effects = insertions.writer_mut().effects_mut();
            if !effects.finish(ex)? {
                return Ok(false);
            }
            self.fired.take_in_front(effects.fired_mut());
        }
        after_statement(ex, &self.insert.table, &self.insert.rules, &mut self.fired)?;
        Ok(true)
    }

    fn forget(&mut self) {
        self.leaves.iter_mut().for_each(|leaf| *leaf = None);
        self.fired.again();
    }
}

/// UPDATE of a tree at work.
pub(super) type TreeUpdateRun = ChangeRun<TreeUpdates>;

/// What changing rows needs from one to the next.
pub(super) struct TreeUpdates {
    update: Arc<Update>,
    leaves: Vec<Option<Box<(ChangePlan, Updates)>>>,
    /// Of rows that come from other partitions.
    writers: Vec<Option<Box<RowWriter>>>,
    own: NoEffects,
    fired: Fired,
}

impl TreeUpdateRun {
    pub(super) fn of_tree(update: &Arc<Update>, input: Run) -> Self {
        let leaves = update.tree.as_ref().map_or(0, |change| change.leaves.len());
        let updates = TreeUpdates {
            update: Arc::clone(update),
            leaves: (0..leaves).map(|_| None).collect(),
            writers: (0..leaves).map(|_| None).collect(),
            own: NoEffects(Effects::default()),
            fired: Fired::new(&update.rules, [(Trigger::UPDATE, Some(columns_set(&update.assignments)))]),
        };
        Self::over(input, false, updates)
    }
}

impl TreeUpdates {
    /// Puts a row into the partition that it goes to.
    fn put(
        &mut self,
        ex: &mut Exec<'_, '_>,
        (from, moved): (usize, &[Datum]),
        row: &[Datum],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let change = change_of(&self.update.tree)?;
        let tree = &change.tree;
        let whole = root_row(&tree.leaves[from], moved);
        let to = leaf_for(ex, tree, &whole)?;
        let leaf = &tree.leaves[to];
        let update = &change.leaves[to];
        let writer = self.writers[to]
            .get_or_insert_with(|| Box::new(RowWriter::of_partition(&leaf.table, &update.rules, &tree.root)));
        let mut new = leaf_row(leaf, &whole);
        new.extend(writer.new_number(ex)?);
        let mark = writer.effects_mut().mark();
        let noted = self.fired.count();
        // To triggers that see all rows it is one that has changed.
        let mut events = Fired::default();
        writer.exchange_fired(&mut events);
        let inserted = writer.insert(ex, &new);
        writer.exchange_fired(&mut events);
        self.fired.absorb(events);
        let inserted = inserted.inspect_err(|error| {
            if store_error::is_fetch(error) {
                writer.effects_mut().take_back(mark);
                self.fired.forget_behind(noted);
            }
        })?;
        let Some(written) = inserted else { return Ok(()) };
        if !written.is_empty() {
            new = written;
        }
        self.fired.enter_leaf(tree, to);
        capture(ex, &mut self.fired, Trigger::UPDATE, None, Some(&new))?;
        if ex.statement.has_parts {
            ex.txn.note_written(&leaf.table.space(), &record::row_key(&leaf.table, &new)?);
        }
        if let Some(exprs) = &update.returning {
            new.extend_from_slice(&row[tree.width()..]);
            outcome.returned.push(ex, exprs, &new)?;
        }
        outcome.affected += 1;
        Ok(())
    }
}

impl Changes for TreeUpdates {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        let update = Arc::clone(&self.update);
        before_statement(ex, &update.table, &update.rules, &mut self.fired)?;
        let change = change_of(&update.tree)?;
        let row = rows.row(at);
        let Some(leaf) = leaf_of(&change.tree, row)? else { return Ok(()) };
        let own = own_row(&change.tree, &change.tree.leaves[leaf], row);
        let of_leaf = &change.leaves[leaf];
        let at_work = self.leaves[leaf].get_or_insert_with(|| Box::new(Updates::of_partition(of_leaf)));
        let (plan, updates) = &mut **at_work;
        let mark = updates.effects_mut().mark();
        let noted = self.fired.count();
        self.fired.enter_leaf(&change.tree, leaf);
        updates.exchange_fired(&mut self.fired);
        let left = updates.update_or_leave(of_leaf, plan, ex, &own, outcome);
        updates.exchange_fired(&mut self.fired);
        let left = match left {
            Ok(left) => left,
            Err(error) => {
                if store_error::is_fetch(&error) {
                    updates.effects_mut().take_back(mark);
                    self.fired.forget_behind(noted);
                }
                return Err(error);
            }
        };
        match left {
            Left::Nothing => Ok(()),
            Left::Moved(key, moved) => {
                let put = self.put(ex, (leaf, &moved), row, outcome);
                let Some((plan, updates)) = self.leaves[leaf].as_deref_mut() else { return put };
                match put {
                    Ok(()) => updates.note_left(plan, ex, key),
                    Err(error) => {
                        if store_error::is_fetch(&error) {
                            updates.effects_mut().take_back(mark);
                            self.fired.forget_behind(noted);
                        }
                        return Err(error);
                    }
                }
                Ok(())
            }
        }
    }

    fn mark(&self) -> Mark {
        self.own.0.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.own.0.take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let of_leaves = self.leaves.iter_mut().flatten().map(|leaf| leaf.1.effects_mut());
        let of_writers = self.writers.iter_mut().flatten().map(|writer| writer.effects_mut());
        for effects in of_leaves.chain(of_writers) {
            if !effects.finish(ex)? {
                return Ok(false);
            }
            self.fired.take_in_front(effects.fired_mut());
        }
        after_statement(ex, &self.update.table, &self.update.rules, &mut self.fired)?;
        Ok(true)
    }

    fn forget(&mut self) {
        self.fired.again();
        self.leaves.iter_mut().for_each(|leaf| *leaf = None);
        self.writers.iter_mut().for_each(|writer| *writer = None);
    }
}

/// DELETE of a tree at work.
pub(super) type TreeDeleteRun = ChangeRun<TreeDeletions>;

/// What deleting rows needs from one to the next.
pub(super) struct TreeDeletions {
    delete: Arc<Delete>,
    leaves: Vec<Option<Box<Deletions>>>,
    own: NoEffects,
    fired: Fired,
}

impl TreeDeleteRun {
    pub(super) fn of_tree(delete: &Arc<Delete>, input: Run) -> Self {
        let leaves = delete.tree.as_ref().map_or(0, |change| change.leaves.len());
        let deletions = TreeDeletions {
            delete: Arc::clone(delete),
            leaves: (0..leaves).map(|_| None).collect(),
            own: NoEffects(Effects::default()),
            fired: Fired::new(&delete.rules, [(Trigger::DELETE, None)]),
        };
        Self::over(input, false, deletions)
    }
}

impl Changes for TreeDeletions {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        let change = change_of(&self.delete.tree)?;
        before_statement(ex, &self.delete.table, &self.delete.rules, &mut self.fired)?;
        let row = rows.row(at);
        let Some(leaf) = leaf_of(&change.tree, row)? else { return Ok(()) };
        let own = own_row(&change.tree, &change.tree.leaves[leaf], row);
        let of_leaf = &change.leaves[leaf];
        let deletions = self.leaves[leaf].get_or_insert_with(|| Box::new(Deletions::of_partition(of_leaf)));
        let mark = deletions.effects_mut().mark();
        let noted = self.fired.count();
        self.fired.enter_leaf(&change.tree, leaf);
        deletions.exchange_fired(&mut self.fired);
        let deleted = deletions.delete(of_leaf, ex, &own, outcome);
        deletions.exchange_fired(&mut self.fired);
        deleted.inspect_err(|error| {
            if store_error::is_fetch(error) {
                deletions.effects_mut().take_back(mark);
                self.fired.forget_behind(noted);
            }
        })
    }

    fn mark(&self) -> Mark {
        self.own.0.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.own.0.take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        for deletions in self.leaves.iter_mut().flatten() {
            let effects = deletions.effects_mut();
            if !effects.finish(ex)? {
                return Ok(false);
            }
            self.fired.take_in_front(effects.fired_mut());
        }
        after_statement(ex, &self.delete.table, &self.delete.rules, &mut self.fired)?;
        Ok(true)
    }

    fn forget(&mut self) {
        self.fired.again();
        self.leaves.iter_mut().for_each(|leaf| *leaf = None);
    }
}

/// Writes new rows into a partitioned table, for COPY.
pub struct TreeWriter {
    tree: Arc<Tree>,
    /// The rules of the root.
    root: Arc<TableRules>,
    rules: Vec<Arc<TableRules>>,
    leaves: Vec<Option<Box<RowWriter>>>,
    fired: Fired,
}

impl TreeWriter {
    /// `rules` are those of the leaves.
    #[must_use]
    pub fn new(tree: &Arc<Tree>, root: &Arc<TableRules>, rules: &[Arc<TableRules>]) -> Self {
        let leaves = tree.leaves.iter().map(|_| None).collect();
        let fired = Fired::new(root, [(Trigger::INSERT, None)]);
        Self { tree: Arc::clone(tree), root: Arc::clone(root), rules: rules.to_vec(), leaves, fired }
    }

    /// Goes on where another writer of the same statement has ended.
    #[must_use]
    pub fn behind(mut self, other: &Self) -> Self {
        self.fired.goes_on_behind(&other.fired);
        self
    }

    /// Checks and writes a row of all the root's columns. `false`: a trigger kept it from being
    /// written.
    ///
    /// # Errors
    /// Those of INSERT.
    pub fn insert(&mut self, ex: &mut Exec<'_, '_>, row: &[Datum]) -> Result<bool> {
        before_statement(ex, &self.tree.root, &self.root, &mut self.fired)?;
        let leaf = leaf_for(ex, &self.tree, row)?;
        let of_leaf = &self.tree.leaves[leaf];
        let rules = &self.rules[leaf];
        let writer = self.leaves[leaf]
            .get_or_insert_with(|| Box::new(RowWriter::of_partition(&of_leaf.table, rules, &self.tree.root)));
        let mut row = leaf_row(of_leaf, row);
        row.extend(writer.new_number(ex)?);
        self.fired.enter_leaf(&self.tree, leaf);
        writer.exchange_fired(&mut self.fired);
        let inserted = writer.insert(ex, &row);
        writer.exchange_fired(&mut self.fired);
        Ok(inserted?.is_some())
    }

    /// Takes over what another writer of the same table has yet to check.
    pub fn absorb(&mut self, other: Self) {
        self.fired.absorb(other.fired);
        for (own, other) in self.leaves.iter_mut().zip(other.leaves) {
            match (own, other) {
                (Some(own), Some(other)) => own.absorb(*other),
                (own @ None, other) => *own = other,
                (Some(_), None) => {}
            }
        }
    }

    /// What is left to do at the end of a statement; `false` if the budget is used up and there is
    /// more.
    ///
    /// # Errors
    /// A foreign key is violated.
    pub fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        for writer in self.leaves.iter_mut().flatten() {
            let effects = writer.effects_mut();
            if !effects.finish(ex)? {
                return Ok(false);
            }
            self.fired.take_in_front(effects.fired_mut());
        }
        after_statement(ex, &self.tree.root, &self.root, &mut self.fired)?;
        Ok(true)
    }
}
