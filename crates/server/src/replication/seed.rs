//! Copying a database from another node, when this one has nothing of it, or too little.
//!
//! ```text
//! replicas/<oid>.copying    the copy while it comes; removed at the start and before another try
//! replicas/<oid>            whole, by one rename
//! replicas/<oid>.diverged-N what had another history than the log: for whoever finds out why
//! replicas/<oid>.unlisted-N what the record of databases does not know of: likewise
//! ```
//!
//! Invariants:
//! 1. A directory has its name only when the copy is whole, verified and on disk.
//! 2. What is replaced because it is too old is removed when the copy is there, and no earlier. What
//!    has another history is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use colibri_replica::Database;
use parking_lot::Mutex;

use super::Replication;
use super::keeper::remove_dir;
use super::peer::{self, SharedAnswer, What};

/// Copies a database from the node that leads it, or from another one that has it, or from the
/// directory that was given for that. Gives from where.
pub(crate) async fn copy_from_any(
    node: &Arc<Replication>,
    db: &Database,
    oid: u32,
    keep_old: bool,
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
        let from = base.join(oid.to_string());
        if from.join("data").exists() {
            match copy_from_dir(&from, &node.path_of(oid), keep_old) {
                Ok(()) => return Ok(from.display().to_string()),
                Err(error) => whys.push(format!("{}: {error}", from.display())),
            }
        }
    }
    for address in addresses {
        match copy_from(&address, &node.secret, oid, &node.path_of(oid), keep_old) {
            Ok(()) => return Ok(address),
            Err(error) => whys.push(format!("{address}: {error}")),
        }
    }
    Err(if whys.is_empty() { "no other node is there".to_owned() } else { whys.join("; ") })
}

/// Copies a database from a node, to where the database is to be.
fn copy_from(address: &str, secret: &[u8; 32], oid: u32, path: &Path, keep_old: bool) -> io::Result<()> {
    let answer = Arc::new(Mutex::new(peer::ask(address, secret, What::Copy, &oid.to_string())?));
    let copying = begin(path)?;
    let input = Box::new(SharedAnswer(Arc::clone(&answer)));
    let restored = colibri_storage::restore_replica(input, &copying).map_err(io::Error::other);
    // What was restored is verified; now it is known that it is all, and from whom.
    let taken = restored.and_then(|_| answer.lock().end());
    finish(taken, &copying, path, keep_old)
}

/// Takes a database from a directory that has a copy: one of a node that was closed, or one that a
/// file system has made.
fn copy_from_dir(from: &Path, path: &Path, keep_old: bool) -> io::Result<()> {
    let copying = begin(path)?;
    let copy = || {
        fs::create_dir_all(&copying)?;
        fs::copy(from.join("data"), copying.join("data"))?;
        fs::File::open(copying.join("data"))?.sync_all()?;
        fs::File::open(&copying)?.sync_all()
    };
    finish(copy(), &copying, path, keep_old)
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
    let free = (1..).map(|number| beside(path, &format!(".{why}-{number}"))).find(|path| !path.exists());
    let aside = free.unwrap_or_else(|| beside(path, why));
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Puts a copy in its place, if it is whole.
fn finish(taken: io::Result<()>, copying: &Path, path: &Path, keep_old: bool) -> io::Result<()> {
    if let Err(error) = taken {
        _ = fs::remove_dir_all(copying);
        return Err(error);
    }
    if path.exists() {
        if keep_old {
            put_aside(path, "diverged")?;
        } else {
            remove_dir(path)?;
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
        assert!(finish(Err(io::ErrorKind::UnexpectedEof.into()), &copying, &path, false).is_err());
        assert_eq!((read(&path).as_str(), copying.exists()), ("old", false));
        put(&copying, "left by a crash");
        tidy(dir.path()).unwrap();
        assert!(!copying.exists());
        put(&begin(&path).unwrap(), "new");
        finish(Ok(()), &copying, &path, false).unwrap();
        assert_eq!(read(&path), "new");
        put(&begin(&path).unwrap(), "newest");
        finish(Ok(()), &copying, &path, true).unwrap();
        assert_eq!(read(&path), "newest");
        assert_eq!(read(&dir.path().join("5.diverged-1")), "new", "what diverged is kept");
        let from = dir.path().join("base/5");
        put(&from, "base");
        copy_from_dir(&from, &path, false).unwrap();
        assert_eq!(read(&path), "base");
    }
}
