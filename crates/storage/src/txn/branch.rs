//! What a write transaction does with branches: changing one, and making, dropping and resetting
//! them; and replaying records, which may be about any branch.
//!
//! Invariants:
//! 1. A transaction that makes, drops or resets a branch changes no table, and a replay gives it
//!    its own number. So what was written before a fork was made has a smaller number than the
//!    fork, and what is written after it a greater one.
//! 2. Only a replay changes several branches, none of which it makes. So a page that carries the
//!    transaction's number is reached by the branch that wrote it and by no other.

use std::sync::Arc;

use super::{OpenedTables, WriteTxn, put_tables};
use crate::db::Core;
use crate::forest::{BRANCH_NAME_BYTES_MAX, Branch, BranchId, Forest, MAIN_NAME, Stem};
use crate::log::difference;
use crate::log::record::{OnBranches, Operation, Operations};
use crate::options::Durability;
use crate::page::{PageId, TxnId};
use crate::pager::{Bounds, Pager};
use crate::past::{self, Found, PastOf};
use crate::reap;
use crate::root::Tree;
use crate::workspace::{Workspace, WorkspaceGuard};
use crate::{Error, Result};

/// The parts of a transaction that changing the forest takes.
struct Parts<'t> {
    pager: &'t Pager,
    work: &'t mut Workspace,
    forest: &'t mut Forest,
    bounds: Bounds,
}

/// Notes how the catalogue of a branch was changed, which is not the main one. The workspace is
/// about the main branch afterwards.
pub(crate) fn put(
    core: &Core,
    work: &mut Workspace,
    forest: &mut Forest,
    id: BranchId,
    (before, catalog): (Tree, Tree),
) -> Result<()> {
    let pager = &core.pager;
    if catalog != before {
        let reason = "the branch of a transaction is not in the forest any more";
        let missing = Error::Corrupted { page: forest.page(), reason };
        let branch = Branch { catalog, ..forest.branch(pager, work.bounds(), id)?.ok_or(missing)? };
        forest.edit(pager, work).put_branch(id, &branch)?;
    }
    let fork = forest.fork_of_main(pager, work.bounds())?;
    work.set_fork(fork);
    Ok(())
}

impl WriteTxn {
    /// As a transaction begins: finds the forest, and the branch of the handle.
    pub(super) fn enter_branch(&mut self, page: PageId) -> Result<()> {
        self.forest = Forest::of(&self.core().pager, self.work().bounds(), page)?;
        match self.handle.branch.as_ref().map(|open| (open.id(), open.name().to_owned())) {
            None => self.begin_on_main(),
            Some((id, name)) => {
                let branch = self.branch_of(id)?.ok_or(Error::NoSuchBranch { name })?;
                self.enter(id, &branch);
                self.work_mut().record.push_on_branches(OnBranches::Enter(id.0));
                Ok(())
            }
        }
    }

    fn enter_main(&mut self) -> Result<()> {
        let fork = self.forest.fork_of_main(&self.core().pager, self.work().bounds())?;
        self.work_mut().set_fork(fork);
        Ok(())
    }

    /// As a transaction on the main branch begins. Most find the forest as the last one did.
    fn begin_on_main(&mut self) -> Result<()> {
        let page = self.forest.page();
        let birth = self.core().pager.birth(page);
        let (known_page, known_birth, fork) = self.work().main_fork;
        if (known_page, known_birth) == (page, birth) {
            self.work_mut().set_fork(fork);
            return Ok(());
        }
        let fork = self.forest.fork_of_main(&self.core().pager, self.work().bounds())?;
        let work = self.work_mut();
        work.set_fork(fork);
        work.main_fork = (page, birth, fork);
        Ok(())
    }

    fn enter(&mut self, id: BranchId, branch: &Branch) {
        self.branch = id;
        self.catalog = branch.catalog;
        self.before.1 = branch.catalog;
        self.work_mut().set_fork(branch.fork);
    }

    /// A branch that was not dropped.
    fn branch_of(&self, id: BranchId) -> Result<Option<Branch>> {
        let found = self.forest.branch(&self.core().pager, self.work().bounds(), id)?;
        Ok(found.filter(|branch| !branch.dropped))
    }

    // ---- making, dropping, resetting ----

    fn parts(&mut self) -> Parts<'_> {
        let work = self.work.as_mut().expect("the transaction has not ended while somebody can call it");
        let bounds = work.bounds();
        Parts { pager: &self.handle.core.pager, work, forest: &mut self.forest, bounds }
    }

    /// Before a transaction that changes which branches there are, on the main branch.
    fn on_branches(&mut self, operation: OnBranches<'_>) {
        debug_assert!(self.branch == BranchId::MAIN && self.catalog == self.before.1);
        let first = self.forest == Forest::default() && self.core().durability != Durability::Agreed;
        let record = &mut self.work_mut().record;
        if first {
            // Makes a steady point instead: an older version refuses its format, and would find a
            // record that makes no sense to it.
            record.give_up();
        }
        record.push_on_branches(operation);
    }

    /// The branch of a name.
    pub(crate) fn branch_named(&self, name: &str) -> Result<Option<BranchId>> {
        self.forest.named(&self.core().pager, self.work().bounds(), name)
    }

    /// Whether there is a branch, and it was not dropped.
    pub(crate) fn has_branch(&self, id: BranchId) -> Result<bool> {
        Ok(id == BranchId::MAIN || self.branch_of(id)?.is_some())
    }

    /// Refuses a name that a new branch cannot have.
    fn expect_free(&mut self, name: &str) -> Result<()> {
        let (bytes, bytes_max) = (name.len(), BRANCH_NAME_BYTES_MAX);
        if !(1..=bytes_max).contains(&bytes) {
            return Err(Error::BranchName { bytes, bytes_max });
        }
        let Parts { pager, bounds, forest, .. } = self.parts();
        if name == MAIN_NAME || forest.named(pager, bounds, name)?.is_some() {
            return Err(Error::BranchExists { name: name.to_owned() });
        }
        Ok(())
    }

    /// Makes a branch of another one's state.
    pub(crate) fn make_branch(&mut self, name: &str, origin: BranchId) -> Result<BranchId> {
        self.expect_free(name)?;
        self.on_branches(OnBranches::Make(name, origin.0));
        let (fork, catalog) = self.fork_of(origin)?;
        let id = self.make_branch_from(name, origin, (fork, catalog))?;
        self.keep_as_made(id, fork)?;
        Ok(id)
    }

    /// Keeps a branch as it is made or reset, if states are kept: the next point may come later.
    fn keep_as_made(&mut self, id: BranchId, fork: TxnId) -> Result<()> {
        if !self.core().past.is_on() {
            return Ok(());
        }
        let txn = self.txn();
        let Parts { pager, work, forest, .. } = self.parts();
        forest.edit(pager, work).keep(id, txn, fork)
    }

    fn make_branch_from(&mut self, name: &str, origin: BranchId, (fork, catalog): (TxnId, Tree)) -> Result<BranchId> {
        let id = BranchId(self.txn().0);
        let Parts { pager, work, forest, .. } = self.parts();
        let branch = Branch { dropped: false, fork, origin, catalog, name: name.to_owned() };
        let mut forest = forest.edit(pager, work);
        forest.put_branch(id, &branch)?;
        forest.name(name, id)?;
        forest.move_above(Stem::Branch(id), TxnId(0), fork)?;
        Ok(id)
    }

    /// Drops a branch. Its pages are given back when it is reaped.
    pub(crate) fn drop_branch(&mut self, id: BranchId) -> Result<()> {
        self.on_branches(OnBranches::Drop(id.0));
        let branch = self.branch_of(id)?.filter(|_| id != BranchId::MAIN);
        let branch = branch.ok_or(Error::CorruptedLog { reason: "a record drops a branch that is not there" })?;
        let Parts { pager, work, forest, .. } = self.parts();
        let mut forest = forest.edit(pager, work);
        forest.unname(&branch.name)?;
        forest.put_branch(id, &Branch { dropped: true, name: String::new(), ..branch })?;
        forest.reap_later(Stem::Branch(id))?;
        forest.forget_branch(id)?;
        self.reap_if_agreed()
    }

    /// Gives a branch the state of another one. What it had becomes a dropped branch.
    pub(crate) fn reset_branch(&mut self, id: BranchId, to: BranchId) -> Result<()> {
        if id == to {
            return Ok(());
        }
        self.on_branches(OnBranches::Reset(id.0, to.0));
        let (fork, catalog) = self.fork_of(to)?;
        self.reset_branch_to(id, (fork, catalog))?;
        self.keep_as_made(id, fork)
    }

    fn reset_branch_to(&mut self, id: BranchId, (fork, catalog): (TxnId, Tree)) -> Result<()> {
        let reason = "a record resets a branch that is not there";
        let mut branch = match id {
            BranchId::MAIN => self.main_entry()?,
            _ => self.branch_of(id)?.ok_or(Error::CorruptedLog { reason })?,
        };
        let before = BranchId(self.txn().0);
        let Parts { pager, work, forest, .. } = self.parts();
        let mut forest = forest.edit(pager, work);
        forest.put_branch(before, &Branch { dropped: true, name: String::new(), ..branch.clone() })?;
        forest.move_above(Stem::Branch(before), TxnId(0), branch.fork)?;
        forest.reap_later(Stem::Branch(before))?;
        forest.move_above(Stem::Branch(id), branch.fork, fork)?;
        branch.fork = fork;
        branch.catalog = catalog;
        if id == BranchId::MAIN {
            branch.catalog = Tree::default();
            forest.put_branch(id, &branch)?;
            self.catalog = catalog;
            self.work_mut().set_fork(fork);
        } else {
            forest.put_branch(id, &branch)?;
        }
        self.reap_if_agreed()
    }

    /// The entry of the main branch, with its catalogue.
    fn main_entry(&mut self) -> Result<Branch> {
        let catalog = self.catalog;
        let Parts { pager, bounds, forest, .. } = self.parts();
        Ok(Branch { catalog, fork: forest.fork_of_main(pager, bounds)?, ..Branch::default() })
    }

    /// A fork with a branch's state: the one that the branch starts from, if it has not changed
    /// since, or a new one, which the branch starts from now.
    fn fork_of(&mut self, id: BranchId) -> Result<(TxnId, Tree)> {
        let reason = "a record is about a branch that is not there";
        let branch = match id {
            BranchId::MAIN => self.main_entry()?,
            _ => self.branch_of(id)?.ok_or(Error::CorruptedLog { reason })?,
        };
        let Parts { pager, work, forest, .. } = self.parts();
        let (fork, catalog) = forest.fork_of(pager, work, id, branch)?;
        if id == self.branch {
            self.work_mut().set_fork(fork);
        }
        Ok((fork, catalog))
    }

    /// Where others agree on commits, only those that they agree on can be made. So what was
    /// dropped is reaped in the transaction that drops it, here and there.
    fn reap_if_agreed(&mut self) -> Result<()> {
        if self.core().durability == Durability::Agreed {
            let main = self.catalog;
            let Parts { pager, work, forest, bounds } = self.parts();
            while let Some(stem) = forest.next_to_reap(pager, bounds, None)? {
                reap::carry_out(pager, work, forest, &main, stem, None)?;
            }
        }
        Ok(())
    }

    // ---- the past ----

    /// What the file keeps of its past.
    pub(crate) fn past(&self) -> Result<PastOf<'_>> {
        PastOf::new(&self.core().pager, self.work().bounds(), &self.forest)
    }

    /// The branch of a name, the main one included.
    pub(crate) fn branch_or_main(&self, name: &str) -> Result<Option<BranchId>> {
        if name == MAIN_NAME { Ok(Some(BranchId::MAIN)) } else { self.branch_named(name) }
    }

    /// Makes a branch of what another one was.
    pub(crate) fn make_branch_as_of(&mut self, name: &str, origin: BranchId, found: &Found) -> Result<BranchId> {
        self.expect_free(name)?;
        let fork = self.fork_of_past(found)?;
        let id = self.make_branch_from(name, origin, fork)?;
        self.switch(id)?;
        self.replay_past(origin, found)?;
        Ok(id)
    }

    /// Gives a branch what another one, or the branch itself, was.
    pub(crate) fn reset_branch_as_of(&mut self, id: BranchId, origin: BranchId, found: &Found) -> Result<()> {
        let fork = self.fork_of_past(found)?;
        self.reset_branch_to(id, fork)?;
        self.switch(id)?;
        self.replay_past(origin, found)
    }

    /// The fork that a state of the past starts from. The transaction has no record: it is a steady
    /// point.
    fn fork_of_past(&mut self, found: &Found) -> Result<(TxnId, Tree)> {
        self.work_mut().record.give_up();
        let Parts { pager, forest, bounds, .. } = self.parts();
        let missing = Error::Corrupted { page: forest.page(), reason: "a kept state is not in the forest" };
        Ok((found.fork, forest.fork(pager, bounds, found.fork)?.ok_or(missing)?.catalog))
    }

    fn replay_past(&mut self, origin: BranchId, found: &Found) -> Result<()> {
        let handle = Arc::clone(&self.handle);
        let past = PastOf::new(&handle.core.pager, self.work().bounds(), &self.forest)?;
        past::replay(&past, origin, found, &mut |table, operation| self.replay(table, operation))
    }

    // ---- replaying ----

    /// Replays the operations of one record.
    pub(crate) fn replay_record(&mut self, operations: &[u8]) -> Result<()> {
        let mut operations = Operations::new(operations).peekable();
        let branch = match operations.peek() {
            Some(Ok((_, Operation::OnBranches(OnBranches::Enter(branch))))) => BranchId(*branch),
            _ => BranchId::MAIN,
        };
        self.switch(branch)?;
        for operation in operations {
            let (table, operation) = operation?;
            self.replay(table, operation)?;
        }
        Ok(())
    }

    /// Goes on with another branch.
    fn switch(&mut self, to: BranchId) -> Result<()> {
        if to == self.branch {
            return Ok(());
        }
        let mut work = self.work.take().expect("the transaction has not ended");
        let switched = self.leave_branch(&mut work);
        self.work = Some(work);
        switched?;
        if to == BranchId::MAIN {
            (self.branch, self.catalog, self.before.1) = (to, self.main, self.main);
            return self.enter_main();
        }
        let reason = "a record changes a branch that is not there";
        let branch = self.branch_of(to)?.ok_or(Error::CorruptedLog { reason })?;
        self.enter(to, &branch);
        Ok(())
    }

    fn leave_branch(&mut self, work: &mut WorkspaceGuard) -> Result<()> {
        put_tables(&self.handle.core, work, &mut self.catalog, &mut self.opened)?;
        self.opened = OpenedTables::new();
        if self.branch == BranchId::MAIN {
            self.main = self.catalog;
            return Ok(());
        }
        put(&self.handle.core, work, &mut self.forest, self.branch, (self.before.1, self.catalog))
    }

    fn replay_on_branches(&mut self, operation: OnBranches<'_>) -> Result<()> {
        match operation {
            // It was entered.
            OnBranches::Enter(branch) if BranchId(branch) == self.branch => Ok(()),
            OnBranches::Enter(_) => Err(Error::CorruptedLog { reason: "a record changes more than one branch" }),
            OnBranches::Make(name, origin) => self.make_branch(name, BranchId(origin)).map(|_| ()),
            OnBranches::Drop(branch) => self.drop_branch(BranchId(branch)),
            OnBranches::Reset(branch, to) => self.reset_branch(BranchId(branch), BranchId(to)),
        }
    }

    /// Replays an operation of the log.
    pub(crate) fn replay(&mut self, table: &str, operation: Operation<'_>) -> Result<()> {
        if let Operation::OnBranches(operation) = operation {
            return self.replay_on_branches(operation);
        }
        if let Operation::Create(kind) = operation {
            return self.create_table(table, kind).map(|_| ());
        }
        let table = self.table(table)?;
        match operation {
            Operation::Create(_) | Operation::OnBranches(_) => {}
            Operation::Drop => self.drop_table(&table)?,
            Operation::Clear => self.clear_table(&table)?,
            Operation::Put(key, value) => self.put(&table, key, value)?,
            Operation::Change(key, difference) => {
                let value = self.get(&table, key)?.and_then(|old| difference::apply(old, difference));
                let reason = "a record changes a value that is not there";
                self.put(&table, key, &value.ok_or(Error::CorruptedLog { reason })?)?;
            }
            Operation::Delete(key) => _ = self.delete(&table, key)?,
            Operation::DeleteValue(key, value) => _ = self.delete_value(&table, key, value)?,
            Operation::DeleteRange(low, high) => _ = self.delete_range(&table, (low, high))?,
        }
        Ok(())
    }
}
