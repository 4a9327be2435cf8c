//! Write transactions, nested ones among them.
//!
//! Changes go to pages that no snapshot sees. Committing writes the changed tables to the catalogue
//! and publishes its root. Aborting only releases the pages.

use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::catalog::{Description, Table, TableKind, name_bytes_max};
use crate::composite;
use crate::db::{Core, Handle};
use crate::forest::{BranchId, Forest};
use crate::log::Position;
use crate::log::record::{Mark, Operation};
use crate::node::key_bytes_max;
use crate::page::{PageId, TxnId};
use crate::root::Tree;
use crate::snapshot::{list_tables, resolve};
use crate::ticket::Ticket;
use crate::tree::{Appender, Put, PutMode, TreeMut};
use crate::view::{self, View, tree_bounds};
use crate::workspace::{Workspace, WorkspaceGuard};
use crate::{Error, Result};

mod branch;
mod publish;
pub(crate) use branch::put as put_branch;
pub(crate) use publish::Published;

/// The largest value in bytes.
pub const VALUE_BYTES_MAX: u64 = (1 << 32) - 1 - (64 << 10);

/// A table that the transaction has looked up.
#[derive(Clone)]
struct Opened {
    table: Table,
    tree: Tree,
    /// The catalogue still has the tree from before the change.
    changed: bool,
}

/// Most transactions look up a table or two: those cost no allocation.
type OpenedTables = SmallVec<[Opened; 2]>;

/// What a nested transaction goes back to.
struct Before {
    catalog: Tree,
    opened: OpenedTables,
    damage: Option<(PageId, &'static str)>,
    record: Mark,
}

/// The one write transaction. Dropping it undoes everything.
pub struct WriteTxn {
    handle: Arc<Handle>,
    /// `Some` until the transaction ends.
    work: Option<WorkspaceGuard>,
    /// The state of the branch that it began with.
    before: (TxnId, Tree),
    /// The branch that it changes.
    branch: BranchId,
    /// The branch's tables.
    catalog: Tree,
    /// The main branch's tables, while that is another one.
    main: Tree,
    forest: Forest,
    opened: OpenedTables,
    outer: Vec<Before>,
    /// The first damage that a change found, perhaps half way. The transaction must not be
    /// committed.
    damage: Option<(PageId, &'static str)>,
}

impl WriteTxn {
    /// A transaction on the handle's branch.
    pub(crate) fn new(handle: Arc<Handle>, work: WorkspaceGuard) -> Result<Self> {
        let txn = handle.core.shared.root().txn.next();
        Self::begin(handle, work, txn)
    }

    /// A transaction that replays the log's transactions up to `txn`.
    pub(crate) fn replaying(handle: Arc<Handle>, mut work: WorkspaceGuard, txn: TxnId) -> Result<Self> {
        handle.core.reclaim(&mut work);
        let mut replaying = Self::begin(handle, work, txn)?;
        replaying.work_mut().record.give_up();
        Ok(replaying)
    }

    fn begin(handle: Arc<Handle>, mut work: WorkspaceGuard, txn: TxnId) -> Result<Self> {
        let core = &handle.core;
        let root = core.shared.root();
        work.begin(txn, core.shared.steady());
        core.begin_record(&mut work);
        let mut begun = Self {
            work: Some(work),
            before: (root.txn, root.catalog),
            branch: BranchId::MAIN,
            catalog: root.catalog,
            main: root.catalog,
            forest: Forest::default(),
            opened: OpenedTables::new(),
            outer: Vec::new(),
            damage: None,
            handle,
        };
        // Without branches, everything is known by now.
        if root.forest != PageId::NONE || begun.handle.branch.is_some() {
            begun.enter_branch(root.forest)?;
        }
        Ok(begun)
    }

    fn work_mut(&mut self) -> &mut WorkspaceGuard {
        self.work.as_mut().expect("the transaction has not ended while somebody can call it")
    }

    fn core(&self) -> &Core {
        &self.handle.core
    }

    fn work(&self) -> &WorkspaceGuard {
        self.work.as_ref().expect("the transaction has not ended while somebody can call it")
    }

    /// The number this transaction will have.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.work().txn()
    }

    // ---- tables ----

    fn find_opened(&self, table: &Table) -> Option<usize> {
        self.opened.iter().position(|opened| opened.table.is_same(table))
    }

    fn describe(&self, name: &str) -> Result<Option<Description>> {
        if let Some(opened) = self.opened.iter().find(|opened| opened.table.name() == name) {
            return Ok(Some(Description { kind: opened.table.kind(), tree: opened.tree }));
        }
        Description::find(&self.core().pager, self.work().bounds(), &self.catalog, name)
    }

    fn open(&mut self, table: &Table) -> Result<usize> {
        if let Some(index) = self.find_opened(table) {
            if self.opened[index].table.kind() != table.kind() {
                return Err(Error::TableExists {
                    name: table.name().to_owned(),
                    kind: self.opened[index].table.kind(),
                });
            }
            return Ok(index);
        }
        let tree = self.find(table)?;
        self.opened.push(Opened { table: table.clone(), tree, changed: false });
        Ok(self.opened.len() - 1)
    }

    /// Finds a table that is not opened. If the catalogue is unchanged, what the handle remembers
    /// of the state before is right as well.
    fn find(&self, table: &Table) -> Result<Tree> {
        let (txn, catalog) = self.before;
        if self.catalog != catalog {
            return resolve(table, self.describe(table.name())?);
        }
        let opening = self.handle.opening;
        if let Some(tree) = table.found_in(opening, txn) {
            return Ok(tree);
        }
        let tree = resolve(table, self.describe(table.name())?)?;
        table.remember(opening, txn, tree);
        Ok(tree)
    }

    fn tree(&self, table: &Table) -> Result<Tree> {
        match self.find_opened(table) {
            Some(index) if self.opened[index].table.kind() == table.kind() => Ok(self.opened[index].tree),
            Some(_) => resolve(table, self.describe(table.name())?),
            None => self.find(table),
        }
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Result<Table> {
        let found = self.describe(name)?.ok_or_else(|| Error::NoSuchTable { name: name.to_owned() })?;
        Ok(Table::new(name, found.kind))
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        list_tables(self.core(), self.work().bounds(), self.catalog)
    }

    /// A table by name, made if there is none.
    pub fn create_table(&mut self, name: &str, kind: TableKind) -> Result<Table> {
        let (bytes, bytes_max) = (name.len(), name_bytes_max(self.core().pager.page_size()));
        if !(1..=bytes_max).contains(&bytes) {
            return Err(Error::TableName { bytes, bytes_max });
        }
        if let Some(found) = self.describe(name)? {
            if found.kind != kind {
                return Err(Error::TableExists { name: name.to_owned(), kind: found.kind });
            }
            return Ok(Table::new(name, kind));
        }
        let table = Table::new(name, kind);
        let description = Description { kind, tree: Tree::default() };
        let (core, work) = (&self.handle.core, self.work.as_mut().expect("the transaction has not ended"));
        let mut catalog = self.catalog.edit(&core.pager, work);
        let result = catalog.put(name.as_bytes(), &description.encode(), PutMode::InsertOnly, None);
        let result = result.inspect(|_| catalog.work.record.push(name, Operation::Create(kind)));
        self.note_damage(result).map(|_| table)
    }

    /// Removes a table and everything in it.
    pub fn drop_table(&mut self, table: &Table) -> Result<()> {
        let (core, work) = (&self.handle.core, self.work.as_mut().expect("the transaction has not ended"));
        // Reserves room first. Clearing needs none, so the table is dropped as a whole or stays as
        // a whole.
        work.reserve(&core.pager, 2 * self.catalog.depth + 2)?;
        self.clear_table(table)?;
        let (core, work) = (&self.handle.core, self.work.as_mut().expect("the transaction has not ended"));
        let result = self.catalog.edit(&core.pager, work).delete(table.name().as_bytes());
        match result {
            Ok(_) => work.record.push(table.name(), Operation::Drop),
            Err(_) => work.record.give_up(),
        }
        self.note_damage(result)?;
        // Only now: until the catalogue has forgotten the table, this list knows that its pages are
        // free.
        self.opened.retain(|opened| opened.table.name() != table.name());
        Ok(())
    }

    /// Removes everything in a table.
    pub fn clear_table(&mut self, table: &Table) -> Result<()> {
        self.change(table, |mut edit| {
            edit.clear()?;
            edit.work.record.push(table.name(), Operation::Clear);
            Ok(())
        })
    }

    /// Runs a change of a table's tree.
    fn change<T>(&mut self, table: &Table, run: impl FnOnce(TreeMut<'_>) -> Result<T>) -> Result<T> {
        let index = self.open(table)?;
        let opened = &mut self.opened[index];
        let work = self.work.as_mut().expect("the transaction has not ended while somebody can call it");
        let before = opened.tree;
        let result = run(opened.tree.edit(&self.handle.core.pager, work));
        opened.changed |= opened.tree != before;
        if result.is_err() {
            // The change may have been made in part.
            work.record.give_up();
        }
        self.note_damage(result)
    }

    fn note_damage<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(Error::Corrupted { page, reason }) = result {
            self.damage.get_or_insert((page, reason));
        }
        result
    }

    // ---- reading ----

    /// A table as this transaction sees it.
    pub fn view(&self, table: &Table) -> Result<View<'_>> {
        let (pager, bounds, tree) = (&self.core().pager, self.work().bounds(), self.tree(table)?);
        Ok(View { pager, bounds, tree, table: table.clone() })
    }

    /// The value of a key, in place.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<&[u8]>> {
        view::get(&self.core().pager, self.work().bounds(), &self.tree(table)?, table, key)
    }

    // ---- writing ----

    fn check_key_len(&self, bytes: usize) -> Result<()> {
        let bytes_max = key_bytes_max(self.core().pager.page_size());
        match bytes {
            0 => Err(Error::KeyEmpty),
            bytes if bytes > bytes_max => Err(Error::KeyTooLong { bytes, bytes_max }),
            _ => Ok(()),
        }
    }

    fn check_entry(&self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_key_len(key.len())?;
        if table.kind() == TableKind::Integer && key.len() != 8 {
            return Err(Error::NotAnIntegerKey { bytes: key.len() });
        }
        if value.len() as u64 > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes: value.len() as u64, bytes_max: VALUE_BYTES_MAX });
        }
        Ok(())
    }

    fn put_with(&mut self, table: &Table, key: &[u8], value: &[u8], mode: PutMode) -> Result<Put> {
        self.check_entry(table, key, value)?;
        if table.kind() != TableKind::Multi {
            return self.change(table, |mut edit| {
                let mut difference = std::mem::take(&mut edit.work.difference);
                let wanted = (!edit.work.record.is_too_long()).then_some(&mut difference);
                let put = edit.put(key, value, mode, wanted);
                let record = &mut edit.work.record;
                match put {
                    Ok(Put::Exists) | Err(_) => {}
                    Ok(Put::Replaced) if !difference.is_empty() => {
                        record.push(table.name(), Operation::Change(key, &difference));
                    }
                    Ok(Put::Replaced | Put::Inserted) => record.push(table.name(), Operation::Put(key, value)),
                }
                edit.work.difference = difference;
                put
            });
        }
        let pair = composite::encode(key, value);
        self.check_key_len(pair.len())?;
        self.change(table, |mut edit| {
            let put = edit.put(&pair, &[], mode, None)?;
            if put != Put::Exists {
                edit.work.record.push(table.name(), Operation::Put(key, value));
            }
            Ok(put)
        })
    }

    /// Inserts a key or overwrites its value; in a table with many values a key, adds the value.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(table, key, value, PutMode::Upsert).map(|_| ())
    }

    /// Inserts a key, or, in a table with many values a key, a value; `false` if it was there, and
    /// nothing changes.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.put_with(table, key, value, PutMode::InsertOnly)? == Put::Inserted)
    }

    /// Inserts behind the last entry, leaving full pages behind; [`Error::KeyNotInOrder`] if it
    /// does not belong there.
    pub fn append(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(table, key, value, PutMode::Append).map(|_| ())
    }

    /// Removes a key, with all its values; `false` if it was not there.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        if table.kind() == TableKind::Multi {
            return Ok(self.delete_range(table, (Bound::Included(key), Bound::Included(key)))? > 0);
        }
        self.change(table, |mut edit| {
            let deleted = edit.delete(key)?;
            if deleted {
                edit.work.record.push(table.name(), Operation::Delete(key));
            }
            Ok(deleted)
        })
    }

    /// Removes several keys, which ascend; how many were there. Costs less than removing them one
    /// by one where several are in one page. [`Error::KeyNotInOrder`] if they do not ascend; then
    /// nothing is removed. After another error some may be gone.
    pub fn delete_sorted(&mut self, table: &Table, keys: &[&[u8]]) -> Result<u64> {
        if !keys.is_sorted_by(|one, next| one < next) {
            return Err(Error::KeyNotInOrder);
        }
        if table.kind() == TableKind::Multi {
            let mut deleted = 0;
            for key in keys {
                deleted += u64::from(self.delete(table, key)?);
            }
            return Ok(deleted);
        }
        self.change(table, |mut edit| edit.delete_sorted(keys, table.name()))
    }

    /// Removes one value of a key, in a table with many values a key; `false` if it was not there.
    pub fn delete_value(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        table.expect_kind(&[TableKind::Multi], "delete_value")?;
        let pair = composite::encode(key, value);
        self.change(table, |mut edit| {
            let deleted = edit.delete(&pair)?;
            if deleted {
                edit.work.record.push(table.name(), Operation::DeleteValue(key, value));
            }
            Ok(deleted)
        })
    }

    /// Removes all entries whose keys lie in a range; how many there were. Costs as much as the
    /// pages that it frees.
    pub fn delete_range<'k>(&mut self, table: &Table, range: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (low, high) = tree_bounds(table.kind(), &range);
        let (low, high) = (low.as_ref().map(|key| &**key), high.as_ref().map(|key| &**key));
        self.change(table, |mut edit| {
            let deleted = edit.delete_range(low, high)?;
            if deleted > 0 {
                let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
                edit.work.record.push(table.name(), Operation::DeleteRange(bounds.0, bounds.1));
            }
            Ok(deleted)
        })
    }

    /// Loads entries in ascending order behind the last entry of a table and fills pages; how many
    /// were loaded. If an entry is out of order or wrong in another way, the entries before it
    /// stay.
    pub fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let multi = table.kind() == TableKind::Multi;
        let key_max = key_bytes_max(self.core().pager.page_size());
        let kind_check = |key: &[u8], value: &[u8]| match key.len() {
            0 => Err(Error::KeyEmpty),
            bytes if bytes > key_max => Err(Error::KeyTooLong { bytes, bytes_max: key_max }),
            bytes if table.kind() == TableKind::Integer && bytes != 8 => Err(Error::NotAnIntegerKey { bytes }),
            _ if value.len() as u64 > VALUE_BYTES_MAX => {
                Err(Error::ValueTooLong { bytes: value.len() as u64, bytes_max: VALUE_BYTES_MAX })
            }
            _ => Ok(()),
        };
        self.change(table, |edit| {
            let before = edit.tree.entries;
            let mut appender = Appender::new(edit)?;
            let mut result = Ok(());
            for (key, value) in entries {
                let (key, value) = (key.as_ref(), value.as_ref());
                result = kind_check(key, value).and_then(|()| {
                    if !multi {
                        return appender.push(key, value);
                    }
                    let pair = composite::encode(key, value);
                    if pair.len() > key_max {
                        return Err(Error::KeyTooLong { bytes: pair.len(), bytes_max: key_max });
                    }
                    appender.push(&pair, &[])
                });
                if result.is_err() {
                    break;
                }
                appender.work().record.push(table.name(), Operation::Put(key, value));
            }
            let entries = appender.finish()?;
            result.map(|()| entries - before)
        })
    }

    // ---- ending ----

    /// Starts a nested transaction. Its changes become part of this one when it commits, and are
    /// undone when it is dropped.
    pub fn nested(&mut self) -> Nested<'_> {
        let depth = self.begin_nested();
        Nested { txn: self, depth, ended: false }
    }

    /// As [`WriteTxn::nested`], for a caller that keeps the nested transaction beside this one. It
    /// ends by [`WriteTxn::commit_nested`], by [`WriteTxn::abort_nested`], or with this transaction.
    /// Gives how many nested transactions there are now, this one included.
    pub fn begin_nested(&mut self) -> usize {
        let work = self.work.as_mut().expect("the transaction has not ended while somebody can call it");
        work.begin_level();
        let record = work.record.mark();
        self.outer.push(Before { catalog: self.catalog, opened: self.opened.clone(), damage: self.damage, record });
        self.outer.len()
    }

    /// Makes the changes of the `depth`th nested transaction, and of those inside it, part of the one
    /// around it.
    pub fn commit_nested(&mut self, depth: usize) {
        self.fold(depth.saturating_sub(1));
    }

    /// Undoes the changes of the `depth`th nested transaction and of those inside it.
    pub fn abort_nested(&mut self, depth: usize) {
        self.fold(depth);
        if self.outer.len() == depth
            && let Some(before) = self.outer.pop()
        {
            self.catalog = before.catalog;
            self.opened = before.opened;
            self.damage = before.damage;
            let work = self.work.as_mut().expect("the outer transaction has not ended");
            work.abort_level(&self.handle.core.pager);
            work.record.rewind(before.record);
        }
    }

    /// Commits nested transactions until `depth` are left: those that were leaked did not end by
    /// themselves.
    fn fold(&mut self, depth: usize) {
        while self.outer.len() > depth {
            self.outer.pop();
            self.work.as_mut().expect("the outer transaction has not ended").commit_level();
        }
    }

    /// Makes the changes the newest state. When it returns they are as durable as the database's
    /// mode says.
    ///
    /// If a change found damage, nothing is committed and the error is returned again, because the
    /// change may have been made in part. Dropping the nested transaction that the change was made
    /// in undoes it.
    ///
    /// After an error nothing has changed, with one exception: if a flush fails, nobody knows
    /// whether the changes will be there when the database is opened again.
    pub fn commit(mut self) -> Result<TxnId> {
        let txn = self.txn();
        if self.commit_weakly(None)?.is_some_and(|published| !published.durable) {
            self.core().wait_durable(txn)?;
        }
        Ok(txn)
    }

    /// As [`WriteTxn::commit`], but returns a ticket instead of waiting until the changes are
    /// durable. A transaction that changed nothing gets a ticket for the state that it saw.
    pub fn commit_ticket(mut self) -> Result<Ticket> {
        let (txn, before) = (self.txn(), self.before.0);
        let is_published = self.commit_weakly(None)?.is_some();
        Ok(Ticket::new(Arc::clone(&self.handle), if is_published { txn } else { before }))
    }

    /// Commits a replayed transaction, up to a position in the log.
    pub(crate) fn commit_replayed(mut self, position: Position) -> Result<()> {
        self.commit_weakly(Some(position)).map(|_| ())
    }

    /// Commits and releases the writer's lock. `None` if nothing had changed.
    fn commit_weakly(&mut self, replayed: Option<Position>) -> Result<Option<Published>> {
        self.fold(0);
        let mut work = self.work.take().expect("the transaction has not ended");
        match self.publish(&mut work, replayed) {
            Ok(published) => {
                self.handle.core.unlock_writer(work);
                if let Some(published) = &published {
                    self.handle.committed(published.over);
                }
                Ok(published)
            }
            Err(e) => {
                self.work = Some(work);
                Err(e)
            }
        }
    }

    /// Writes the changed tables to the catalogue, makes the transaction as durable as it has to be
    /// while the writer's lock is held, and publishes. `None` if nothing had changed.
    fn publish(&mut self, work: &mut WorkspaceGuard, replayed: Option<Position>) -> Result<Option<Published>> {
        let core = &self.handle.core;
        core.ensure_usable()?;
        if let Some((page, reason)) = self.damage {
            return Err(Error::Corrupted { page, reason });
        }
        put_tables(core, work, &mut self.catalog, &mut self.opened)?;
        let forest_before = core.shared.root().forest;
        let unchanged = self.catalog == self.before.1 && self.forest.page() == forest_before;
        if unchanged && replayed.is_none() {
            work.abort_level(&core.pager);
            return Ok(None);
        }
        let mut main = self.catalog;
        if self.branch != BranchId::MAIN {
            branch::put(core, work, &mut self.forest, self.branch, (self.before.1, self.catalog))?;
            main = self.main;
        }
        if self.forest.page() == forest_before {
            // One of the two names the transaction.
            main.edit(&core.pager, work).own_root()?;
        }
        let txn = work.txn();
        let published = core.publish(work, main, self.forest.page(), replayed)?;
        for opened in &self.opened {
            opened.table.remember(self.handle.opening, txn, opened.tree);
        }
        Ok(Some(published))
    }

    /// Undoes everything, as dropping does.
    pub fn abort(self) {}
}

/// Writes the tables that have changed to their catalogue.
fn put_tables(core: &Core, work: &mut Workspace, catalog: &mut Tree, opened: &mut OpenedTables) -> Result<()> {
    for opened in opened.iter_mut().filter(|opened| opened.changed) {
        let description = Description { kind: opened.table.kind(), tree: opened.tree };
        let name = opened.table.name().as_bytes();
        let mut catalog = catalog.edit(&core.pager, work);
        catalog.put(name, &description.encode(), PutMode::Upsert, None)?;
        opened.changed = false;
    }
    Ok(())
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        if let Some(mut work) = self.work.take() {
            while work.levels() > 0 {
                work.abort_level(&self.handle.core.pager);
            }
            self.handle.core.unlock_writer(work);
        }
    }
}

/// A transaction inside a transaction, used like the outer one. Dropping it undoes what was done
/// through it.
pub struct Nested<'t> {
    txn: &'t mut WriteTxn,
    /// How many nested transactions there are, this one included.
    depth: usize,
    ended: bool,
}

impl Nested<'_> {
    /// Makes the changes part of the outer transaction.
    pub fn commit(mut self) {
        self.ended = true;
        self.txn.commit_nested(self.depth);
    }

    /// Undoes the changes, as dropping does.
    pub fn abort(self) {}
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.txn.abort_nested(self.depth);
    }
}

impl Deref for Nested<'_> {
    type Target = WriteTxn;

    fn deref(&self) -> &WriteTxn {
        self.txn
    }
}

impl DerefMut for Nested<'_> {
    fn deref_mut(&mut self) -> &mut WriteTxn {
        self.txn
    }
}
