//! Hot copies: the database as of one snapshot, in another directory, while writers go on.

use std::collections::HashSet;
use std::fs::{self, File};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use crate::catalog::{Table, TableKind};
use crate::db::Database;
use crate::disk::MadeDirs;
use crate::encrypted_disk::layout::Layout;
use crate::forest::{BranchId, Forest, MAIN_NAME};
use crate::log::Position;
use crate::meta::{Meta, PAST_VERSION};
use crate::options::{Durability, Options};
use crate::page::{self, PageId, TxnId};
use crate::page_file::PageFile;
use crate::page_set::PageSet;
use crate::root::Root;
use crate::snapshot::Snapshot;
use crate::txn::WriteTxn;
use crate::walk::{Visit, walk};
use crate::{Error, Result};

/// What a copy wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// The state that was copied.
    pub txn: TxnId,
    /// Pages of the copy, meta pages included.
    pub pages: u64,
    /// Bytes of the copy's data file.
    pub bytes: u64,
}

impl Database {
    /// Copies the newest committed state to a new database in `dest_dir`, which must not hold one.
    /// The copy has full pages and no free space when `compact`; else its pages are filled like the
    /// original's. It has all branches, unless this is the handle of one: then it is a database of that
    /// branch alone.
    pub fn copy_to(&self, dest_dir: impl AsRef<Path>, compact: bool) -> Result<CopyReport> {
        let dest_dir = dest_dir.as_ref();
        if dest_dir.join("data").exists() {
            let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::io("cannot copy over the database in", dest_dir, source));
        }
        let snapshot = self.read()?;
        let made = MadeDirs::make(dest_dir)?;
        // Made in a directory of its own first, so that a crash leaves no database instead of half
        // of one, and a failure removes nothing that others made.
        let id = u128::from_le_bytes(crate::db::random_id());
        let new_dir = dest_dir.join(format!("copy.new.{id:032x}"));
        let result = fs::create_dir(&new_dir).map_err(|e| Error::io("cannot create", &new_dir, e)).and_then(|()| {
            let result =
                if compact { copy_compact(self, &snapshot, &new_dir) } else { copy_pages(self, &snapshot, &new_dir) };
            let report = result?;
            let path = dest_dir.join("data");
            fs::hard_link(new_dir.join("data"), &path).map_err(|e| Error::io("cannot create", path, e))?;
            made.flush()?;
            Ok(report)
        });
        let _ = fs::remove_dir_all(&new_dir);
        if result.is_err() {
            made.remove();
        }
        result
    }
}

fn copy_compact(db: &Database, snapshot: &Snapshot<'_>, dest_dir: &Path) -> Result<CopyReport> {
    let options = Options::new().page_size(db.page_size()).durability(Durability::NoSync);
    let options = options.encrypted_as(db.0.core.cipher.as_deref());
    let dest = Database::open(dest_dir, &options)?;
    let mut txn = dest.write()?;
    for table in snapshot.tables()? {
        copy_table(snapshot, &mut txn, &table)?;
    }
    txn.commit()?;
    if db.0.branch.is_none() {
        copy_branches(db, snapshot, &dest)?;
    }
    dest.close()?;
    report(snapshot, dest_dir)
}

/// Makes each branch anew, from the copy of the branch that it was made from, and changes in it
/// what differs between the two.
fn copy_branches(db: &Database, snapshot: &Snapshot<'_>, dest: &Database) -> Result<()> {
    let mut branches = db.branches_of(snapshot)?;
    branches.sort_unstable_by_key(|info| info.id);
    let mut copied: HashSet<String> = HashSet::new();
    for info in branches.iter().filter(|info| info.id != BranchId::MAIN) {
        // Its origin was made before it, if it is still there.
        let origin = info.origin.as_deref().filter(|name| copied.contains(*name)).unwrap_or(MAIN_NAME);
        let origin_info = branches.iter().find(|other| other.name == origin).unwrap_or(info);
        let before = snapshot.on_branch(&db.handle_of(origin_info.id, origin))?;
        let after = snapshot.on_branch(&db.handle_of(info.id, &info.name))?;
        let branch = dest.open_branch(origin)?.branch(&info.name)?;
        let mut txn = branch.write()?;
        copy_difference(&before, &after, &mut txn)?;
        txn.commit()?;
        copied.insert(info.name.clone());
    }
    Ok(())
}

/// Changes a copy of one state into a copy of another.
fn copy_difference(before: &Snapshot<'_>, after: &Snapshot<'_>, txn: &mut WriteTxn) -> Result<()> {
    let gone = before.tables()?.into_iter().filter(|table| after.table(table.name()).is_err());
    for table in gone.collect::<Vec<_>>() {
        txn.drop_table(&table)?;
    }
    for table in after.tables()? {
        let same_kind = |old: &Table| old.kind() == table.kind();
        let Some(old) = before.table(table.name()).ok().filter(same_kind) else {
            if let Ok(other) = txn.table(table.name()) {
                txn.drop_table(&other)?;
            }
            copy_table(after, txn, &table)?;
            continue;
        };
        let (old, new) = (before.view(&old)?, after.view(&table)?);
        if old.is_same_tree(&new) {
            continue;
        }
        if table.kind() == TableKind::Multi {
            txn.clear_table(&table)?;
            copy_table(after, txn, &table)?;
            continue;
        }
        let mut result = Ok(());
        old.diff(&new, Bound::Unbounded, Bound::Unbounded, &mut |key, _, value| {
            result = match value {
                Some(value) => txn.put(&table, key, value),
                None => txn.delete(&table, key).map(|_| ()),
            };
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result?;
    }
    Ok(())
}

fn copy_table(snapshot: &Snapshot<'_>, txn: &mut WriteTxn, table: &Table) -> Result<()> {
    let dest = txn.create_table(table.name(), table.kind())?;
    let mut failed = None;
    let range = snapshot.view(table)?.range(..)?;
    let entries = range.map_while(|entry| entry.map_err(|e| failed = Some(e)).ok());
    txn.load_sorted(&dest, entries)?;
    failed.map_or(Ok(()), Err)
}

/// Copies page by page: the same pages at the same places, holes where the original has free pages.
fn copy_pages(db: &Database, snapshot: &Snapshot<'_>, dest_dir: &Path) -> Result<CopyReport> {
    let core = snapshot.core();
    let pager = &core.pager;
    let (mut root, bounds) = (snapshot.root(), snapshot.bounds());
    if db.0.branch.is_some() {
        root.forest = PageId::NONE;
    }
    let dest_path = dest_dir.join("data");
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(&dest_path)
        .map_err(|e| Error::io("cannot create", &dest_path, e))?;
    let page_bytes = pager.page_size();
    let dest = PageFile { file: &file, path: &dest_path, page_bytes, cipher: core.cipher.as_ref() };
    let mut free = PageSet::default();
    for page in 2..root.page_count {
        free.insert(page);
    }
    let mut buffer = Vec::new();
    walk(pager, bounds, &root, &mut |page, pages| {
        // Reading through the pager verifies what is copied.
        pager.verified_run(page, bounds)?;
        for page in page.0..page.0 + pages {
            free.remove(page);
        }
        buffer.clear();
        buffer.extend_from_slice(pager.raw(page, pages));
        page::seal(&mut buffer);
        dest.write(page, &buffer, root.txn)?;
        Ok(Visit::Descend)
    })?;
    let has_past = Forest::of(pager, bounds, root.forest)?.has_past(pager, bounds)?;
    finish(dest, (&root, has_past), &free, 0)?;
    report(snapshot, dest_dir)
}

/// Makes a database of a file that has all pages of a root in their places, by adding a free map
/// and the meta pages. `has_past`: the root's forest keeps states of the past. The meta pages come last: a copy that was cut short is no database. The log
/// goes on behind a record with this checksum.
pub(crate) fn finish(dest: PageFile<'_>, (root, has_past): (&Root, bool), free: &PageSet, chain: u64) -> Result<()> {
    let page_size = dest.page_bytes;
    let base = PageId(root.page_count);
    let base_pages = page::run_pages_for(u64::from(root.page_count).div_ceil(8), page_size) as u32;
    dest.write(base, &page::encode_bitmap(free.iter(), base, root.txn, base_pages, page_size), root.txn)?;
    let meta = Meta {
        version: if has_past { PAST_VERSION } else { 0 },
        txn: root.txn,
        page_size: page_size as u32,
        page_count: root.page_count + base_pages,
        database_id: crate::db::random_id(),
        catalog: root.catalog,
        forest: root.forest,
        free_base: base,
        free_base_pages: base_pages,
        log: Position { chain, ..Position::default() },
        clean: true,
        ..Meta::default()
    };
    dest.flush()?;
    dest.write_metas(&meta)?;
    dest.flush()
}

fn report(snapshot: &Snapshot<'_>, dest_dir: &Path) -> Result<CopyReport> {
    let path = dest_dir.join("data");
    let bytes = fs::metadata(&path).map_err(|e| Error::io("cannot read the size of", path, e))?.len();
    let (core, page_bytes) = (snapshot.core(), snapshot.core().pager.page_size() as u64);
    let pages = if core.cipher.is_some() { Layout::new(page_bytes).pages(bytes) } else { bytes / page_bytes };
    Ok(CopyReport { txn: snapshot.txn(), pages, bytes })
}
