//! The files of an environment, by its path and flags.
//!
//! | | data | lock | log |
//! | --- | --- | --- | --- |
//! | a directory | `data.mdb` | `lock.mdb` | `log0.mdb`, `log1.mdb` |
//! | `MDB_NOSUBDIR` | the path itself | `PATH-lock` | `PATH-log0`, `PATH-log1` |
//!
//! Data and lock are where LMDB has them, for programs that look at them, remove or move them. The
//! log is there while the environment is open, and after a crash. A directory that Colibri's own
//! tools have made is opened by the names that it has.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use colibri_storage::FileNames;

use super::abi::{Code, Result};

/// Where an environment is.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) names: FileNames,
}

/// Keeps other processes from making the same files.
pub(crate) struct Making {
    _dir: File,
}

impl Place {
    pub(crate) fn of(path: &Path, is_file: bool) -> Result<Self> {
        if is_file {
            let name = path.file_name().ok_or(Code(libc::EISDIR))?;
            let dir = match path.parent() {
                Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
                _ => PathBuf::from("."),
            };
            if !dir.is_dir() {
                return Err(Code(libc::ENOENT));
            }
            if path.is_dir() {
                return Err(Code(libc::EISDIR));
            }
            let with = |ending: &str| {
                let mut name = name.to_owned();
                name.push(ending);
                name
            };
            let names = FileNames { data: name.into(), lock: with("-lock"), log: [with("-log0"), with("-log1")] };
            return Ok(Self { dir, names });
        }
        let found = std::fs::metadata(path).map_err(|e| Code::of_io(&e))?;
        if !found.is_dir() {
            return Err(Code(libc::ENOTDIR));
        }
        let own = FileNames::default();
        let names =
            FileNames { data: "data.mdb".into(), lock: "lock.mdb".into(), log: ["log0.mdb".into(), "log1.mdb".into()] };
        let is_own = !path.join(&names.data).exists() && path.join(&own.data).exists();
        Ok(Self { dir: path.to_owned(), names: if is_own { own } else { names } })
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join(&self.names.data)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join(&self.names.lock)
    }

    fn is_missing(&self) -> Result<bool> {
        match std::fs::metadata(self.data()) {
            Ok(found) => Ok(found.len() == 0 && found.is_file()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(e) => Err(Code::of_io(&e)),
        }
    }

    /// Clears the way for a new environment, if there is none: an empty file, as `mkstemp` makes it,
    /// counts as none, and the log of one whose data were removed is removed as well. `None`: there
    /// is one.
    pub(crate) fn clear_for_new(&self) -> Result<Option<Making>> {
        if !self.is_missing()? {
            return Ok(None);
        }
        let dir = File::open(&self.dir).map_err(|e| Code::of_io(&e))?;
        dir.lock().map_err(|e| Code::of_io(&e))?;
        // Another process may have been faster.
        if !self.is_missing()? {
            return Ok(None);
        }
        let remove = |name: &OsString| match std::fs::remove_file(self.dir.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Code::of_io(&e)),
            _ => Ok(()),
        };
        let [first, second] = &self.names.log;
        [&self.names.data, first, second].into_iter().try_for_each(remove)?;
        Ok(Some(Making { _dir: dir }))
    }
}
