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

use colibri_catalog::{Table, record, store_error};
use colibri_types::{Datum, Error, Result, SqlState};

use super::constraints::references::{Effects, Mark};
use super::constraints::{find_leaf, key_values_text, reads_table};
use super::delete::Deletions;
use super::insert::{Insertions, RowWriter};
use super::operator::Run;
use super::update::{ChangePlan, Left, Updates};
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
        };
        Self::over(input, streams, insertions)
    }
}

impl Changes for TreeInsertions {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        let change = change_of(&self.insert.tree)?;
        let row = rows.row(at);
        let leaf = leaf_for(ex, &change.tree, row)?;
        let row = leaf_row(&change.tree.leaves[leaf], row);
        let insert = &change.leaves[leaf];
        let insertions =
            self.leaves[leaf].get_or_insert_with(|| Box::new(Insertions::of_partition(insert, &change.tree.root)));
        let mark = insertions.effects_mut().mark();
        insertions.insert_whole(insert, ex, row, outcome).inspect_err(|error| {
            if store_error::is_fetch(error) {
                insertions.effects_mut().take_back(mark);
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
            if !insertions.effects_mut().finish(ex)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn forget(&mut self) {
        self.leaves.iter_mut().for_each(|leaf| *leaf = None);
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
}

impl TreeUpdateRun {
    pub(super) fn of_tree(update: &Arc<Update>, input: Run) -> Self {
        let leaves = update.tree.as_ref().map_or(0, |change| change.leaves.len());
        let updates = TreeUpdates {
            update: Arc::clone(update),
            leaves: (0..leaves).map(|_| None).collect(),
            writers: (0..leaves).map(|_| None).collect(),
            own: NoEffects(Effects::default()),
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
        writer.insert(ex, &new).inspect_err(|error| {
            if store_error::is_fetch(error) {
                writer.effects_mut().take_back(mark);
            }
        })?;
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
        let change = change_of(&update.tree)?;
        let row = rows.row(at);
        let Some(leaf) = leaf_of(&change.tree, row)? else { return Ok(()) };
        let own = own_row(&change.tree, &change.tree.leaves[leaf], row);
        let of_leaf = &change.leaves[leaf];
        let at_work = self.leaves[leaf].get_or_insert_with(|| Box::new(Updates::of_partition(of_leaf)));
        let (plan, updates) = &mut **at_work;
        let mark = updates.effects_mut().mark();
        let left = match updates.update_or_leave(of_leaf, plan, ex, &own, outcome) {
            Ok(left) => left,
            Err(error) => {
                if store_error::is_fetch(&error) {
                    updates.effects_mut().take_back(mark);
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
        for leaf in self.leaves.iter_mut().flatten() {
            if !leaf.1.effects_mut().finish(ex)? {
                return Ok(false);
            }
        }
        for writer in self.writers.iter_mut().flatten() {
            if !writer.finish(ex)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn forget(&mut self) {
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
}

impl TreeDeleteRun {
    pub(super) fn of_tree(delete: &Arc<Delete>, input: Run) -> Self {
        let leaves = delete.tree.as_ref().map_or(0, |change| change.leaves.len());
        let deletions = TreeDeletions {
            delete: Arc::clone(delete),
            leaves: (0..leaves).map(|_| None).collect(),
            own: NoEffects(Effects::default()),
        };
        Self::over(input, false, deletions)
    }
}

impl Changes for TreeDeletions {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        let change = change_of(&self.delete.tree)?;
        let row = rows.row(at);
        let Some(leaf) = leaf_of(&change.tree, row)? else { return Ok(()) };
        let own = own_row(&change.tree, &change.tree.leaves[leaf], row);
        let of_leaf = &change.leaves[leaf];
        let deletions = self.leaves[leaf].get_or_insert_with(|| Box::new(Deletions::of_partition(of_leaf)));
        let mark = deletions.effects_mut().mark();
        deletions.delete(of_leaf, ex, &own, outcome).inspect_err(|error| {
            if store_error::is_fetch(error) {
                deletions.effects_mut().take_back(mark);
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
            if !deletions.effects_mut().finish(ex)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn forget(&mut self) {
        self.leaves.iter_mut().for_each(|leaf| *leaf = None);
    }
}

/// Writes new rows into a partitioned table, for COPY.
pub struct TreeWriter {
    tree: Arc<Tree>,
    rules: Vec<Arc<TableRules>>,
    leaves: Vec<Option<Box<RowWriter>>>,
}

impl TreeWriter {
    /// `rules` are those of the leaves.
    #[must_use]
    pub fn new(tree: &Arc<Tree>, rules: &[Arc<TableRules>]) -> Self {
        let leaves = tree.leaves.iter().map(|_| None).collect();
        Self { tree: Arc::clone(tree), rules: rules.to_vec(), leaves }
    }

    /// Checks and writes a row of all the root's columns.
    ///
    /// # Errors
    /// Those of INSERT.
    pub fn insert(&mut self, ex: &mut Exec<'_, '_>, row: &[Datum]) -> Result<()> {
        let leaf = leaf_for(ex, &self.tree, row)?;
        let of_leaf = &self.tree.leaves[leaf];
        let rules = &self.rules[leaf];
        let writer = self.leaves[leaf]
            .get_or_insert_with(|| Box::new(RowWriter::of_partition(&of_leaf.table, rules, &self.tree.root)));
        let mut row = leaf_row(of_leaf, row);
        row.extend(writer.new_number(ex)?);
        writer.insert(ex, &row)
    }

    /// Takes over what another writer of the same table has yet to check.
    pub fn absorb(&mut self, other: Self) {
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
            if !writer.finish(ex)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
