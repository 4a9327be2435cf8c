//! Files that commands make: whole and on disk under their name, or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Makes a file of what `write` writes. Never over an existing one: that may be the last good dump
/// or backup.
pub(crate) fn make<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let exists = || Failure::Exists { path: path.to_owned() };
    let Some(name) = path.file_name().filter(|_| path.symlink_metadata().is_err()) else { return Err(exists()) };
    let mut temporary = name.to_owned();
    temporary.push(format!(".new.{}", std::process::id()));
    let temporary = Temporary(path.with_file_name(temporary));
    let file = File::create_new(&temporary.0).map_err(Failure::io("cannot create", path))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let made = write(&mut file)?;
    let file = file.into_inner().map_err(|e| Failure::io("cannot write", path)(e.into_error()))?;
    file.sync_all().map_err(Failure::io("cannot flush", path))?;
    // Links the name, which fails if it exists: renaming would replace an existing file.
    match File::create_new(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists()),
        Err(source) => return Err(Failure::io("cannot create", path)(source)),
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = fs::rename(&temporary.0, path)
        .and_then(|()| File::open(dir)?.sync_all())
        .map_err(Failure::io("cannot create", path));
    if named.is_err() {
        let _ = fs::remove_file(path);
    }
    named.map(|()| made)
}

/// The name that a file has until it is whole; gone with this.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It has its own name by now, or the command has another error to report.
        let _ = fs::remove_file(&self.0);
    }
}
