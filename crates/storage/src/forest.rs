//! The forest: what a file says of its branches.
//!
//! A branch is a catalogue of its own. It shares every page with the *fork* that it starts from: a
//! state that nobody changes any more, kept as long as at least two others start from it.
//!
//! ```text
//! main ──── fork 7 ──┬── main
//!                    └── fork 9 ──┬── branch 7
//!                                 └── branch 9        made from branch 7
//! ```
//! A root names one page, a leaf of a catalogue like any other, whose tables are:
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | `branches` | branch 8 | dropped 1, zeros 7, fork below 8, origin 8, catalogue 40, name |
//! | `forks` | fork 8 | fork below 8, catalogue 40 |
//! | `above` | fork below 8, kind 1 (0 branch, 1 fork), its number 8 | |
//! | `names` | name | branch 8 |
//! | `reaping` | kind 1, its number 8 | |
//!
//! A file that keeps states of the past has three more, `points`, `kept` and `history`: see `past`.
//! There a fork may also have a state above it that is none: kind 2 of `above`, the branch, the
//! transaction. It says that the fork is what that branch was then.
//!
//! Numbers in keys are big-endian, in values little-endian. A branch has the number of the
//! transaction that made it, and so has a fork. The main branch has number 0; its catalogue is the
//! root's own, and its entry holds only the fork below. Fork 0 is none.
//!
//! **Who has a page.** Transactions are numbered through, whichever branch they change, and a page
//! carries the number of the one that wrote it: its *birth*. A state that starts from fork `f` has
//! the pages that were born up to `f` from there, and those born later from nobody else. So each
//! page in use has one *owner*: the state that reaches it and whose fork below is older than the
//! page. When a branch gives up a page, the page is free if it is the owner's; otherwise the fork
//! below still reaches it. When a fork has one state above it left, the two become one, and what
//! only the fork reached is free (`reap`).
//!
//! Invariants:
//! 1. A fork is newer than the fork below it. A page that a state reaches and that was born up to
//!    its fork is reached by that fork.
//! 2. `above` has an entry for each branch and each fork with a fork below.
//! 3. `reaping` lists the branches that were dropped, and the forks that have fewer than two states
//!    above them, unless the one is of the past.
//! 4. The forest's own pages belong to it alone, and are copied on write like all others.

use std::ops::Bound;

use smallvec::SmallVec;

use crate::catalog::{Description, TableKind};
use crate::node::Payload;
use crate::page::{PageId, TxnId, get_u64, put_u64};
use crate::pager::{Bounds, Pager, corrupted};
use crate::root::{Root, Tree};
use crate::tree::{PutMode, Relocation};
use crate::workspace::Workspace;
use crate::{Error, Result};

/// The name that the main branch answers to.
pub(crate) const MAIN_NAME: &str = "main";
/// The longest name of a branch in bytes.
pub const BRANCH_NAME_BYTES_MAX: usize = 255;

/// The number of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BranchId(pub(crate) u64);

impl BranchId {
    /// The branch that every file has.
    pub const MAIN: Self = Self(0);
}

/// A table of the forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Branches,
    Forks,
    Above,
    Names,
    Reaping,
    Points,
    Kept,
    History,
}

impl Part {
    /// Those of every forest.
    const ALL: [Self; 5] = [Self::Branches, Self::Forks, Self::Above, Self::Names, Self::Reaping];
    /// Those of a forest with states of the past.
    const PAST: [Self; 3] = [Self::Points, Self::Kept, Self::History];

    // ON DISK: never rename.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Branches => b"branches",
            Self::Forks => b"forks",
            Self::Above => b"above",
            Self::Names => b"names",
            Self::Reaping => b"reaping",
            Self::Points => b"points",
            Self::Kept => b"kept",
            Self::History => b"history",
        }
    }
}

/// A branch, or a fork that others start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stem {
    Branch(BranchId),
    Fork(TxnId),
    /// What a branch was at a transaction. It has no pages of its own, and is never reaped.
    Kept(BranchId, TxnId),
}

impl Stem {
    const BYTES: usize = 9;
    const KEPT_BYTES: usize = 17;

    fn encode(self) -> SmallVec<[u8; Self::KEPT_BYTES]> {
        // ON DISK: never renumber.
        let (kind, number, second) = match self {
            Self::Branch(BranchId(number)) => (0, number, None),
            Self::Fork(TxnId(number)) => (1, number, None),
            Self::Kept(BranchId(number), txn) => (2, number, Some(txn)),
        };
        let mut bytes = SmallVec::new();
        bytes.push(kind);
        bytes.extend_from_slice(&number.to_be_bytes());
        if let Some(TxnId(second)) = second {
            bytes.extend_from_slice(&second.to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        match (bytes.len(), bytes.first()?) {
            (Self::BYTES, 0) => Some(Self::Branch(BranchId(number(1)?))),
            (Self::BYTES, 1) => Some(Self::Fork(TxnId(number(1)?))),
            (Self::KEPT_BYTES, 2) => Some(Self::Kept(BranchId(number(1)?), TxnId(number(9)?))),
            _ => None,
        }
    }
}

/// What the forest says of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Branch {
    /// It has no name any more, and waits to be reaped.
    pub(crate) dropped: bool,
    pub(crate) fork: TxnId,
    pub(crate) origin: BranchId,
    pub(crate) catalog: Tree,
    pub(crate) name: String,
}

impl Branch {
    const AT_CATALOG: usize = 24;
    const AT_NAME: usize = Self::AT_CATALOG + Tree::BYTES;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::AT_NAME];
        bytes[0] = self.dropped.into();
        put_u64(&mut bytes, 8, self.fork.0);
        put_u64(&mut bytes, 16, self.origin.0);
        self.catalog.encode(&mut bytes[Self::AT_CATALOG..]);
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let name = bytes.get(Self::AT_NAME..).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or(damaged("an entry of a branch has the wrong form"))?.to_owned();
        let catalog = Tree::decode(&bytes[Self::AT_CATALOG..]);
        if bytes[0] > 1 || !catalog.is_plausible() {
            return Err(damaged("an entry of a branch contradicts itself"));
        }
        let (fork, origin) = (TxnId(get_u64(bytes, 8)), BranchId(get_u64(bytes, 16)));
        Ok(Self { dropped: bytes[0] == 1, fork, origin, catalog, name })
    }
}

/// A state that branches start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fork {
    /// The fork below.
    pub(crate) fork: TxnId,
    pub(crate) catalog: Tree,
}

impl Fork {
    const BYTES: usize = 8 + Tree::BYTES;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put_u64(&mut bytes, 0, self.fork.0);
        self.catalog.encode(&mut bytes[8..]);
        bytes
    }

    fn decode(bytes: &[u8], number: TxnId) -> Result<Self> {
        if bytes.len() != Self::BYTES {
            return Err(damaged("an entry of a fork has the wrong form"));
        }
        let fork = Self { fork: TxnId(get_u64(bytes, 0)), catalog: Tree::decode(&bytes[8..]) };
        if fork.fork >= number || !fork.catalog.is_plausible() {
            return Err(damaged("an entry of a fork contradicts itself"));
        }
        Ok(fork)
    }
}

/// A catalogue in the file, and the pages that its tables own: those that are newer than `fork`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    /// Whose it is; `None` for the forest's own tables.
    pub(crate) stem: Option<Stem>,
    pub(crate) catalog: Tree,
    pub(crate) fork: TxnId,
}

impl State {
    /// The fork that it is.
    pub(crate) fn as_fork(&self) -> Option<TxnId> {
        match self.stem {
            Some(Stem::Fork(txn)) => Some(txn),
            _ => None,
        }
    }
}

fn damaged(reason: &'static str) -> Error {
    Error::Corrupted { page: PageId::NONE, reason }
}

/// All states that a root reaches, the main branch first and the forest's tables second. Each page
/// in use belongs to one of them. `old`: the root may be an old one (see [`Pager::node_of_old`]).
pub(crate) fn states(pager: &Pager, bounds: Bounds, root: &Root, old: bool) -> Result<Vec<State>> {
    let main = State { stem: Some(Stem::Branch(BranchId::MAIN)), catalog: root.catalog, fork: TxnId(0) };
    let mut states = vec![main];
    if root.forest == PageId::NONE {
        return Ok(states);
    }
    let forest = Forest::read(pager, bounds, root.forest, old)?;
    states.push(State { stem: None, catalog: forest.tables, fork: TxnId(0) });
    let number =
        |key: &[u8]| key.try_into().map(u64::from_be_bytes).map_err(|_| damaged("a key of the forest is none"));
    let mut mains = 0;
    each_entry(pager, bounds, &forest.part_of(pager, bounds, Part::Branches, old)?, old, &mut |key, value| {
        let (id, branch) = (BranchId(number(key)?), Branch::decode(value)?);
        if branch.fork > root.txn {
            return Err(damaged("a branch starts from a state that is still to come"));
        }
        if id == BranchId::MAIN {
            states[0].fork = branch.fork;
            mains += 1;
        } else {
            states.push(State { stem: Some(Stem::Branch(id)), catalog: branch.catalog, fork: branch.fork });
        }
        Ok(())
    })?;
    each_entry(pager, bounds, &forest.part_of(pager, bounds, Part::Forks, old)?, old, &mut |key, value| {
        let id = TxnId(number(key)?);
        let fork = Fork::decode(value, id)?;
        states.push(State { stem: Some(Stem::Fork(id)), catalog: fork.catalog, fork: fork.fork });
        Ok(())
    })?;
    if mains != 1 {
        return Err(damaged("the forest does not say what the main branch starts from"));
    }
    Ok(states)
}

/// Visits the entries of a table of the forest, in order.
fn each_entry(pager: &Pager, bounds: Bounds, tree: &Tree, old: bool, visit: OnEntry<'_>) -> Result<()> {
    let mut pages_left = bounds.page_count;
    if tree.depth == 0 {
        Ok(())
    } else {
        each_below(pager, bounds, (tree.root, tree.depth), old, &mut pages_left, visit)
    }
}

type OnEntry<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

fn each_below(
    pager: &Pager,
    bounds: Bounds,
    (page, levels): (PageId, u32),
    old: bool,
    pages_left: &mut u32,
    visit: OnEntry<'_>,
) -> Result<()> {
    let node = if old { pager.node_of_old(page, bounds)? } else { pager.node(page, bounds)? };
    if u32::from(node.level()) + 1 != levels || *pages_left == 0 {
        return Err(corrupted(page, "it is at another level than its tree says"));
    }
    *pages_left -= 1;
    let mut key = Vec::new();
    for index in 0..node.count() {
        match node.payload(index) {
            Payload::Child { page, .. } => each_below(pager, bounds, (page, levels - 1), old, pages_left, visit)?,
            Payload::Inline(value) => {
                node.key_into(index, &mut key);
                visit(&key, value)?;
            }
            Payload::Large { page, .. } => return Err(corrupted(page, "an entry of the forest is not inline")),
        }
    }
    Ok(())
}

/// The forest of one state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Forest {
    /// The catalogue of its tables: one leaf, or empty where there are no branches.
    tables: Tree,
}

impl Forest {
    /// The forest that a root names.
    pub(crate) fn of(pager: &Pager, bounds: Bounds, page: PageId) -> Result<Self> {
        if page == PageId::NONE { Ok(Self::default()) } else { Self::read(pager, bounds, page, false) }
    }

    fn read(pager: &Pager, bounds: Bounds, page: PageId, old: bool) -> Result<Self> {
        let node = if old { pager.node_of_old(page, bounds)? } else { pager.node(page, bounds)? };
        let has_parts = [Part::ALL.len(), Part::ALL.len() + Part::PAST.len()].contains(&node.count());
        if !node.is_leaf() || !has_parts {
            return Err(corrupted(page, "it is not the first page of a forest"));
        }
        let entries = node.count() as u64;
        Ok(Self { tables: Tree { root: page, depth: 1, entries, leaf_pages: node.pages().into(), ..Tree::default() } })
    }

    /// The page that names it in a root.
    pub(crate) fn page(&self) -> PageId {
        self.tables.root
    }

    pub(crate) fn part(&self, pager: &Pager, bounds: Bounds, part: Part) -> Result<Tree> {
        self.part_of(pager, bounds, part, false)
    }

    fn part_of(&self, pager: &Pager, bounds: Bounds, part: Part, old: bool) -> Result<Tree> {
        if self.tables.depth == 0 {
            return Ok(Tree::default());
        }
        let page = self.tables.root;
        let node = if old { pager.node_of_old(page, bounds)? } else { pager.node(page, bounds)? };
        match node.search(part.name()) {
            Ok(index) => Description::decode(node.payload(index)).map(|found| found.tree),
            Err(_) if Part::PAST.contains(&part) && node.count() == Part::ALL.len() => Ok(Tree::default()),
            Err(_) => Err(corrupted(page, "a table of the forest is missing")),
        }
    }

    fn get<'p>(&self, pager: &'p Pager, bounds: Bounds, part: Part, key: &[u8]) -> Result<Option<&'p [u8]>> {
        match self.part(pager, bounds, part)?.get(pager, bounds, key)? {
            Some(Payload::Inline(bytes)) => Ok(Some(bytes)),
            Some(_) => Err(damaged("an entry of the forest is not inline")),
            None => Ok(None),
        }
    }

    pub(crate) fn branch(&self, pager: &Pager, bounds: Bounds, id: BranchId) -> Result<Option<Branch>> {
        self.get(pager, bounds, Part::Branches, &id.0.to_be_bytes())?.map(Branch::decode).transpose()
    }

    pub(crate) fn fork(&self, pager: &Pager, bounds: Bounds, id: TxnId) -> Result<Option<Fork>> {
        let found = self.get(pager, bounds, Part::Forks, &id.0.to_be_bytes())?;
        found.map(|bytes| Fork::decode(bytes, id)).transpose()
    }

    /// The branch of a name.
    pub(crate) fn named(&self, pager: &Pager, bounds: Bounds, name: &str) -> Result<Option<BranchId>> {
        let found = self.get(pager, bounds, Part::Names, name.as_bytes())?;
        let number =
            |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| damaged("a name is of no branch"));
        Ok(found.map(number).transpose()?.map(BranchId))
    }

    /// The fork that the main branch starts from.
    pub(crate) fn fork_of_main(&self, pager: &Pager, bounds: Bounds) -> Result<TxnId> {
        if self.tables.depth == 0 {
            return Ok(TxnId(0));
        }
        let main = self.branch(pager, bounds, BranchId::MAIN)?;
        main.map(|main| main.fork).ok_or(damaged("the forest does not say what the main branch starts from"))
    }

    /// All branches that have a name, by name.
    pub(crate) fn names(&self, pager: &Pager, bounds: Bounds) -> Result<Vec<(String, BranchId)>> {
        let mut names = Vec::new();
        each_entry(pager, bounds, &self.part(pager, bounds, Part::Names)?, false, &mut |key, value| {
            let name = std::str::from_utf8(key).map_err(|_| damaged("the name of a branch is not text"))?;
            let id = value.try_into().map_err(|_| damaged("a name is of no branch"))?;
            names.push((name.to_owned(), BranchId(u64::from_le_bytes(id))));
            Ok(())
        })?;
        Ok(names)
    }

    /// What waits to be reaped: the first branch, or else the first fork, from a key on.
    pub(crate) fn next_to_reap(&self, pager: &Pager, bounds: Bounds, after: Option<Stem>) -> Result<Option<Stem>> {
        let mut cursor = crate::cursor::RawCursor::new(pager, bounds, self.part(pager, bounds, Part::Reaping)?);
        let found = match after {
            Some(after) => cursor.seek_after(&after.encode())?,
            None => cursor.first()?,
        };
        let stem = |key| Stem::decode(key).ok_or(damaged("what is to be reaped is neither a branch nor a fork"));
        found.then(|| stem(cursor.key())).transpose()
    }

    /// Whether this waits to be reaped.
    pub(crate) fn is_to_be_reaped(&self, pager: &Pager, bounds: Bounds, stem: Stem) -> Result<bool> {
        Ok(self.get(pager, bounds, Part::Reaping, &stem.encode())?.is_some())
    }

    /// The states that start from a fork: how many, and one of them.
    pub(crate) fn above(&self, pager: &Pager, bounds: Bounds, fork: TxnId) -> Result<(u64, Option<Stem>)> {
        use std::ops::Bound::{Excluded, Included};
        let above = self.part(pager, bounds, Part::Above)?;
        let (low, high) = (fork.0.to_be_bytes(), fork.0.saturating_add(1).to_be_bytes());
        let count = above.count(pager, bounds, Included(&low), Excluded(&high))?;
        let mut cursor = crate::cursor::RawCursor::new(pager, bounds, above);
        if count == 0 || !cursor.seek(&low)? {
            return Ok((count, None));
        }
        let stem = Stem::decode(&cursor.key()[8..]).ok_or(damaged("what starts from a fork is no state"))?;
        Ok((count, Some(stem)))
    }

    /// Every entry of `above`: the fork, and what starts from it.
    pub(crate) fn each_above(
        &self,
        pager: &Pager,
        bounds: Bounds,
        visit: &mut dyn FnMut(TxnId, Stem) -> Result<()>,
    ) -> Result<()> {
        each_entry(pager, bounds, &self.part(pager, bounds, Part::Above)?, false, &mut |key, _| {
            let (fork, stem) = key.split_at_checked(8).ok_or(damaged("what starts from a fork is no state"))?;
            let fork = u64::from_be_bytes(fork.try_into().expect("eight bytes were split off"));
            visit(TxnId(fork), Stem::decode(stem).ok_or(damaged("what starts from a fork is no state"))?)
        })
    }

    /// Whether it has the tables of the past.
    pub(crate) fn has_past(&self, pager: &Pager, bounds: Bounds) -> Result<bool> {
        let page = self.tables.root;
        Ok(page != PageId::NONE && pager.node(page, bounds)?.count() > Part::ALL.len())
    }

    /// A fork with a branch's state: the one that the branch starts from, if it has not changed
    /// since, or a new one with the transaction's number, which the branch starts from now. `entry`:
    /// what the forest says of the branch, with its catalogue.
    pub(crate) fn fork_of(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        id: BranchId,
        entry: Branch,
    ) -> Result<(TxnId, Tree)> {
        let (new, bounds) = (work.txn(), work.bounds());
        if entry.fork > TxnId(0) {
            let fork = self.fork(pager, bounds, entry.fork)?;
            if fork.is_some_and(|fork| fork.catalog == entry.catalog) {
                return Ok((entry.fork, entry.catalog));
            }
        }
        let mut forest = self.edit(pager, work);
        forest.put_fork(new, &Fork { fork: entry.fork, catalog: entry.catalog })?;
        forest.move_above(Stem::Fork(new), TxnId(0), entry.fork)?;
        forest.move_above(Stem::Branch(id), entry.fork, new)?;
        let catalog = entry.catalog;
        let kept = if id == BranchId::MAIN { Tree::default() } else { catalog };
        forest.put_branch(id, &Branch { fork: new, catalog: kept, ..entry })?;
        Ok((new, catalog))
    }

    /// The forest as part of the write transaction that `work` belongs to.
    pub(crate) fn edit<'a>(&'a mut self, pager: &'a Pager, work: &'a mut Workspace) -> ForestMut<'a> {
        ForestMut { forest: self, pager, work }
    }
}

/// A forest that is being changed. An error may leave it changed in part; the transaction ends.
pub(crate) struct ForestMut<'a> {
    forest: &'a mut Forest,
    pager: &'a Pager,
    work: &'a mut Workspace,
}

impl<'a> ForestMut<'a> {
    /// The forest as it is by now.
    pub(crate) fn forest(&self) -> &Forest {
        self.forest
    }

    /// What reading it takes.
    pub(crate) fn reading(&self) -> (&'a Pager, Bounds) {
        (self.pager, self.work.bounds())
    }

    /// Removes the entries of a table in a range.
    pub(crate) fn delete_range(&mut self, part: Part, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<()> {
        let fork = self.work.set_fork(TxnId(0));
        let changed = self.delete_own_range(part, low, high);
        self.work.set_fork(fork);
        changed
    }

    fn delete_own_range(&mut self, part: Part, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<()> {
        let mut tree = self.forest.part(self.pager, self.work.bounds(), part)?;
        if tree.edit(self.pager, self.work).delete_range(low, high)? > 0 {
            let description = Description { kind: TableKind::Plain, tree }.encode();
            let mut tables = self.forest.tables.edit(self.pager, self.work);
            tables.put(part.name(), &description, PutMode::Upsert, None)?;
        }
        Ok(())
    }

    /// Puts an entry into a table, or removes one.
    pub(crate) fn change(&mut self, part: Part, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        // Nothing starts from a state of the forest.
        let fork = self.work.set_fork(TxnId(0));
        let changed = self.change_own(part, key, value);
        self.work.set_fork(fork);
        changed
    }

    fn change_own(&mut self, part: Part, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let tables = &mut self.forest.tables;
        let describe = |tree| Description { kind: TableKind::Plain, tree }.encode();
        if tables.depth == 0 {
            for part in Part::ALL {
                let mut tables = tables.edit(self.pager, self.work);
                tables.put(part.name(), &describe(Tree::default()), PutMode::Upsert, None)?;
            }
        }
        if Part::PAST.contains(&part) && !self.forest.has_past(self.pager, self.work.bounds())? {
            for part in Part::PAST {
                let mut tables = self.forest.tables.edit(self.pager, self.work);
                tables.put(part.name(), &describe(Tree::default()), PutMode::Upsert, None)?;
            }
        }
        let mut tree = self.forest.part(self.pager, self.work.bounds(), part)?;
        let mut edit = tree.edit(self.pager, self.work);
        match value {
            Some(value) => _ = edit.put(key, value, PutMode::Upsert, None)?,
            None if !edit.delete(key)? => return Err(damaged("an entry of the forest is missing")),
            None => {}
        }
        let mut tables = self.forest.tables.edit(self.pager, self.work);
        tables.put(part.name(), &describe(tree), PutMode::Upsert, None)?;
        Ok(())
    }

    /// Moves the forest's pages to lower places.
    pub(crate) fn relocate(&mut self, relocation: &mut Relocation) -> Result<()> {
        let fork = self.work.set_fork(TxnId(0));
        let moved = self.relocate_own(relocation);
        self.work.set_fork(fork);
        moved
    }

    fn relocate_own(&mut self, relocation: &mut Relocation) -> Result<()> {
        let past = if self.forest.has_past(self.pager, self.work.bounds())? { &Part::PAST[..] } else { &[] };
        for &part in Part::ALL.iter().chain(past) {
            let mut tree = self.forest.part(self.pager, self.work.bounds(), part)?;
            let before = tree;
            tree.edit(self.pager, self.work).relocate(&[], relocation)?;
            if tree != before {
                let description = Description { kind: TableKind::Plain, tree }.encode();
                let mut tables = self.forest.tables.edit(self.pager, self.work);
                tables.put(part.name(), &description, PutMode::Upsert, None)?;
            }
        }
        self.forest.tables.edit(self.pager, self.work).relocate(&[], relocation).map(|_| ())
    }

    pub(crate) fn put_branch(&mut self, id: BranchId, branch: &Branch) -> Result<()> {
        self.change(Part::Branches, &id.0.to_be_bytes(), Some(&branch.encode()))
    }

    pub(crate) fn remove_branch(&mut self, id: BranchId) -> Result<()> {
        self.change(Part::Branches, &id.0.to_be_bytes(), None)
    }

    pub(crate) fn put_fork(&mut self, id: TxnId, fork: &Fork) -> Result<()> {
        self.change(Part::Forks, &id.0.to_be_bytes(), Some(&fork.encode()))
    }

    pub(crate) fn remove_fork(&mut self, id: TxnId) -> Result<()> {
        self.change(Part::Forks, &id.0.to_be_bytes(), None)
    }

    pub(crate) fn name(&mut self, name: &str, id: BranchId) -> Result<()> {
        self.change(Part::Names, name.as_bytes(), Some(&id.0.to_le_bytes()))
    }

    pub(crate) fn unname(&mut self, name: &str) -> Result<()> {
        self.change(Part::Names, name.as_bytes(), None)
    }

    /// Has a state start from one fork instead of another; fork 0 is none.
    pub(crate) fn move_above(&mut self, stem: Stem, from: TxnId, to: TxnId) -> Result<()> {
        let key = |fork: TxnId| [&fork.0.to_be_bytes()[..], &stem.encode()].concat();
        if from == to {
            return Ok(());
        }
        if from > TxnId(0) {
            self.change(Part::Above, &key(from), None)?;
            if self.forest.above(self.pager, self.work.bounds(), from)?.0 < 2 {
                self.reap_later(Stem::Fork(from))?;
            }
        }
        if to > TxnId(0) {
            self.change(Part::Above, &key(to), Some(&[]))?;
        }
        Ok(())
    }

    pub(crate) fn reap_later(&mut self, stem: Stem) -> Result<()> {
        self.change(Part::Reaping, &stem.encode(), Some(&[]))
    }

    pub(crate) fn reaped(&mut self, stem: Stem) -> Result<()> {
        self.change(Part::Reaping, &stem.encode(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let catalog =
            Tree { root: PageId(9), depth: 2, entries: 70, leaf_pages: 3, branch_pages: 1, overflow_pages: 5 };
        let branch = Branch { dropped: true, fork: TxnId(5), origin: BranchId(4), catalog, name: "name".into() };
        assert_eq!(Branch::decode(&branch.encode()).unwrap(), branch);
        let fork = Fork { fork: TxnId(5), catalog };
        assert_eq!(Fork::decode(&fork.encode(), TxnId(6)).unwrap(), fork);
        for stem in [Stem::Branch(BranchId(7)), Stem::Fork(TxnId(1 << 40)), Stem::Kept(BranchId(0), TxnId(9))] {
            assert_eq!(Stem::decode(&stem.encode()), Some(stem));
        }
    }

    #[test]
    fn entries_that_make_no_sense_are_errors() {
        let branch = Branch { catalog: Tree { depth: 3, ..Tree::default() }, ..Branch::default() };
        assert!(Branch::decode(&branch.encode()).is_err(), "a tree that is empty and deep");
        assert!(Branch::decode(&Branch { name: "é".into(), ..Branch::default() }.encode()[..65]).is_err());
        assert!(Branch::decode(&[0; 63]).is_err());
        let fork = Fork { fork: TxnId(6), catalog: Tree::default() };
        assert!(Fork::decode(&fork.encode(), TxnId(6)).is_err(), "a fork below itself");
        assert!(Fork::decode(&[0; 47], TxnId(6)).is_err());
        assert_eq!(Stem::decode(&[2; 9]), None);
        assert_eq!(Stem::decode(&[1; 17]), None);
        assert_eq!(Stem::decode(&[0; 8]), None);
    }
}
