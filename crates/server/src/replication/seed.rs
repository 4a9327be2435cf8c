//! Copying a database from another node, when this one has nothing of it, or too little.
//!
//! ```text
//! replicas/<oid>.copying    the copy while it comes; removed at the start and before another try
//! replicas/<oid>            whole, by one rename
//! replicas/<oid>.diverged-N what had another history than the log: for whoever finds out why
//! replicas/<oid>.damaged-N  what could not be read any more: likewise, the last two of them
//! replicas/<oid>.unlisted-N what the record of databases does not know of: likewise
//! ```
//!
//! Invariants:
//! 1. A directory has its name only when the copy is whole, verified and on disk. A copy that comes
//!    from no node has to be a state of the log, too.
//! 2. What is replaced because it is too old is removed when the copy is there, and no earlier. What
//!    has another history or is damaged is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use colibri_replica::{CommitId, Database, Located};
use colibri_storage::Options;
use parking_lot::Mutex;

use super::Replication;
use super::base::Base;
use super::keeper::remove_dir;
use super::peer::{self, SharedAnswer, What};

/// What becomes of the copy that there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Old {
    /// It is only too old.
    Removed,
    /// It has another history than the log.
    Diverged,
    /// It cannot be read.
    Damaged,
}

/// The highest number of what is put aside of a database that is looked for.
const ASIDE_MAX: u64 = 10_000;
/// Damaged copies that are kept of a database.
const DAMAGED_KEPT_MAX: usize = 2;

/// Copies a database from the node that leads it, or from another one that has it, or from the
/// directory that was given for that. Gives from where.
pub(crate) async fn copy_from_any(
    node: &Arc<Replication>,
    db: &Database,
    oid: u32,
    old: Old,
) -> Result<String, String> {
    let mut addresses = Vec::new();
    if let Some(leader) = node.leader(db).filter(|leader| leader.node.id != node.node.id) {
        addresses.push(leader.node.address);
    }
    // Nodes that have published a base have the database.
    if let Ok(bases) = node.cluster.bases(db).await {
        addresses.extend(
            bases
                .bases
                .into_iter()
                .map(|base| base.node)
                .filter(|other| other.id != node.node.id)
                .map(|other| other.address),
        );
    }
    addresses.extend(node.other_members().into_iter().map(|other| other.address));
    let mut seen = Vec::new();
    addresses.retain(|address| {
        !seen.contains(address) && {
            seen.push(address.clone());
            true
        }
    });
    let mut whys = Vec::new();
    if let Some(base) = &node.base {
        match copy_from_base(node, db, (base, oid), &node.path_of(oid), old).await {
            Ok(Some(from)) => return Ok(from),
            Ok(None) => {}
            Err(error) => {
                let place = base.shown();
                let fields: [(&str, &dyn std::fmt::Display); 3] =
                    [("base", &place), ("database", &oid), ("error", &error)];
                node.log.error("base_refused", &fields);
                whys.push(format!("{place}: {error}"));
            }
        }
    }
    for address in addresses {
        match copy_from(&address, &node.secret, oid, &node.path_of(oid), old) {
            Ok(()) => return Ok(address),
            Err(error) => whys.push(format!("{address}: {error}")),
        }
    }
    Err(if whys.is_empty() { "no other node is there".to_owned() } else { whys.join("; ") })
}

/// Copies a database from a node, to where the database is to be.
fn copy_from(address: &str, secret: &[u8; 32], oid: u32, path: &Path, old: Old) -> io::Result<()> {
    let answer = Arc::new(Mutex::new(peer::ask(address, secret, What::Copy, &oid.to_string())?));
    let copying = begin(path)?;
    let input = Box::new(SharedAnswer(Arc::clone(&answer)));
    let restored = colibri_storage::restore_replica(input, &copying).map_err(io::Error::other);
    // What was restored is verified; now it is known that it is all, and from whom.
    let taken = restored.and_then(|_| answer.lock().end());
    finish(taken, &copying, path, old)
}

/// Takes a database from where a copy is: that of a node that was closed, or one that a file system
/// has made. The copy is verified: all checksums, and that it is a state of the log. Gives from where,
/// if there is one.
async fn copy_from_base(
    node: &Replication,
    db: &Database,
    (base, oid): (&Base, u32),
    path: &Path,
    old: Old,
) -> io::Result<Option<String>> {
    let copying = begin(path)?;
    let taken = fs::create_dir_all(&copying).and_then(|()| base.take(oid, &copying.join("data")));
    let Some(from) = taken.transpose() else {
        fs::remove_dir_all(&copying)?;
        return Ok(None);
    };
    let taken = match from.and_then(|from| Ok((from, verify(&copying)?))) {
        Ok((from, last)) => match node.cluster.locate(db, last).await {
            Ok(located) => expect_fits(located, last).map(|()| from),
            Err(error) => Err(io::Error::other(error)),
        },
        Err(error) => Err(error),
    };
    match taken {
        Ok(from) => finish(Ok(()), &copying, path, old).map(|()| Some(from)),
        Err(error) => finish(Err(error), &copying, path, old).map(|()| None),
    }
}

/// Verifies a copy. Gives its last commit.
fn verify(copying: &Path) -> io::Result<CommitId> {
    let last = {
        let options = Options::new().read_only(true).create(false);
        let database = colibri_storage::Database::open(copying, &options).map_err(io::Error::other)?;
        let report = database.check().map_err(io::Error::other)?;
        if let Some(first) = report.problems.first() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is damaged: {first}")));
        }
        let (txn, chain) = database.chain();
        CommitId { txn: txn.0, chain }
    };
    // What else opening has made is of this place.
    for entry in fs::read_dir(copying)? {
        let entry = entry?;
        if entry.file_name() != "data" {
            fs::remove_file(entry.path())?;
        }
    }
    fs::File::open(copying.join("data"))?.sync_all()?;
    fs::File::open(copying)?.sync_all()?;
    Ok(last)
}

fn expect_fits(located: Located, last: CommitId) -> io::Result<()> {
    let txn = last.txn;
    let why = match located {
        Located::Fits => return Ok(()),
        Located::TooOld => format!("it is too old: the log does not have what follows its transaction {txn}"),
        Located::Ahead { log_txn: None } => "the log says nothing of it: it is of another cluster".to_owned(),
        Located::Ahead { log_txn: Some(log) } => format!(
            "it has transactions up to {txn}, and the log up to {log}: it is of another cluster, or the log has lost some"
        ),
        Located::Differs => format!("it is of another cluster: transaction {txn} is another one in the log"),
    };
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn begin(path: &Path) -> io::Result<PathBuf> {
    let copying = beside(path, ".copying");
    if copying.exists() {
        fs::remove_dir_all(&copying)?;
    }
    if let Some(parent) = path.parent() {
        crate::cluster::make_dir(parent)?;
    }
    Ok(copying)
}

/// Gives a directory another name, for whoever finds out why. Gives the name.
///
/// # Errors
/// Of the file system.
pub(crate) fn put_aside(path: &Path, why: &str) -> io::Result<PathBuf> {
    // The newest has the highest number, also where others were removed.
    let is_there = |number: &u64| beside(path, &format!(".{why}-{number}")).exists();
    let last = (1..=ASIDE_MAX).rev().find(is_there).unwrap_or(0);
    let aside = beside(path, &format!(".{why}-{}", last + 1));
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Removes the oldest of the damaged copies of a database, but for so many.
fn remove_damaged(path: &Path, kept_max: usize) -> io::Result<()> {
    let prefix = format!("{}.damaged-", path.file_name().unwrap_or_default().display());
    let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix(&prefix)?.parse::<u64>().ok();
    let mut numbers: Vec<u64> = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap_or(path))? {
        numbers.extend(number(&entry?.file_name()));
    }
    numbers.sort_unstable();
    let too_many = numbers.len().saturating_sub(kept_max);
    numbers[..too_many].iter().try_for_each(|number| fs::remove_dir_all(beside(path, &format!(".damaged-{number}"))))
}

/// Puts a copy in its place, if it is whole.
fn finish(taken: io::Result<()>, copying: &Path, path: &Path, old: Old) -> io::Result<()> {
    if let Err(error) = taken {
        _ = fs::remove_dir_all(copying);
        return Err(error);
    }
    if path.exists() {
        match old {
            Old::Removed => remove_dir(path)?,
            Old::Diverged => _ = put_aside(path, "diverged")?,
            Old::Damaged => {
                remove_damaged(path, DAMAGED_KEPT_MAX - 1)?;
                put_aside(path, "damaged")?;
            }
        }
    }
    fs::rename(copying, path)?;
    match path.parent() {
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes copies that were not finished.
///
/// # Errors
/// Of the file system.
pub(crate) fn tidy(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(".copying") || name.ends_with(".removed")) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_copy_that_was_cut_short_leaves_what_there_was_and_a_whole_one_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("5");
        let put = |dir: &Path, text: &str| {
            fs::create_dir_all(dir).unwrap();
            fs::write(dir.join("data"), text).unwrap();
        };
        let read = |dir: &Path| fs::read_to_string(dir.join("data")).unwrap();
        put(&path, "old");
        let copying = begin(&path).unwrap();
        put(&copying, "half");
        assert!(finish(Err(io::ErrorKind::UnexpectedEof.into()), &copying, &path, Old::Removed).is_err());
        assert_eq!((read(&path).as_str(), copying.exists()), ("old", false));
        put(&copying, "left by a crash");
        tidy(dir.path()).unwrap();
        assert!(!copying.exists());
        put(&begin(&path).unwrap(), "new");
        finish(Ok(()), &copying, &path, Old::Removed).unwrap();
        assert_eq!(read(&path), "new");
        put(&begin(&path).unwrap(), "newest");
        finish(Ok(()), &copying, &path, Old::Diverged).unwrap();
        assert_eq!(read(&path), "newest");
        assert_eq!(read(&dir.path().join("5.diverged-1")), "new", "what diverged is kept");
        for (round, kept) in [("1", &["1"][..]), ("2", &["1", "2"]), ("3", &["2", "3"]), ("4", &["3", "4"])] {
            put(&begin(&path).unwrap(), round);
            finish(Ok(()), &copying, &path, Old::Damaged).unwrap();
            let names =
                fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> =
                names.filter_map(|name| name.strip_prefix("5.damaged-").map(str::to_owned)).collect();
            names.sort_unstable();
            assert_eq!(names, kept, "the last two that were damaged are kept");
        }
        assert_eq!(read(&dir.path().join("5.damaged-4")), "3");
    }

    #[test]
    fn a_base_is_taken_only_if_all_of_it_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("replicas/5");
        let last = {
            let database = colibri_storage::Database::open(&from, &Options::new()).unwrap();
            let mut txn = database.write().unwrap();
            let table = txn.create_table("t", colibri_storage::TableKind::Plain).unwrap();
            for key in 0..2_000_u32 {
                txn.put(&table, &key.to_be_bytes(), &[7; 100]).unwrap();
            }
            txn.commit().unwrap();
            database.sync().unwrap();
            let (txn, chain) = database.chain();
            database.close().unwrap();
            CommitId { txn: txn.0, chain }
        };
        let copying = dir.path().join("5.copying");
        let take_verified = |number: u32| {
            fs::create_dir_all(&copying).unwrap();
            let base = Base::of(dir.path()).unwrap();
            base.take(number, &copying.join("data")).unwrap().expect("it is there");
            verify(&copying)
        };
        assert_eq!(take_verified(5).unwrap(), last);
        assert_eq!(fs::read_dir(&copying).unwrap().count(), 1, "nothing of opening it is left");
        let mut bytes = fs::read(from.join("data")).unwrap();
        let at = bytes.len() / 2;
        bytes[at..at + 64].fill(0x5a);
        fs::write(from.join("data"), bytes).unwrap();
        fs::remove_dir_all(&copying).unwrap();
        let error = take_verified(5).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
        fs::write(from.join("data"), b"no database").unwrap();
        assert!(take_verified(5).is_err());
        assert_eq!(Base::of(dir.path()).unwrap().take(6, &copying.join("data")).unwrap(), None);
        assert!(Base::of(&from.join("data")).is_err(), "no directory");
    }

    #[test]
    fn a_base_of_another_history_is_refused_with_the_reason() {
        let last = CommitId { txn: 9, chain: 1 };
        expect_fits(Located::Fits, last).unwrap();
        for (located, why) in [
            (Located::TooOld, "too old"),
            (Located::Ahead { log_txn: Some(5) }, "up to 9, and the log up to 5"),
            (Located::Ahead { log_txn: None }, "another cluster"),
            (Located::Differs, "another cluster"),
        ] {
            assert!(expect_fits(located, last).unwrap_err().to_string().contains(why));
        }
    }
}
