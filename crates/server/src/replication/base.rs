//! Where copies of databases are that no node has to send: a directory, or an object store.
//!
//! ```text
//! DIR/N/data     DIR/replicas/N/data        N is the database's number
//! s3://BUCKET/PREFIX/N/data, …/replicas/N/data        https://HOST/PATH/N/data, likewise
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::object_store::ObjectStore;

/// A base of `--base`.
pub(crate) enum Base {
    Dir(PathBuf),
    Store(Box<ObjectStore>),
}

impl Base {
    /// Takes what was given: the address of an object store, or a directory that is there.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(given: &Path) -> Result<Self, String> {
        if let Some(store) = given.to_str().and_then(ObjectStore::named) {
            return Ok(Self::Store(Box::new(store?)));
        }
        match given.is_dir() {
            true => Ok(Self::Dir(given.to_owned())),
            false => Err(format!("{} is no directory", given.display())),
        }
    }

    /// Copies the file of a database, if there is one. Gives where it was.
    ///
    /// # Errors
    /// If it cannot be read or written, or if it cannot be known whether there is one.
    pub(crate) fn take(&self, oid: u32, data: &Path) -> io::Result<Option<String>> {
        for name in [format!("replicas/{oid}/data"), format!("{oid}/data")] {
            match self {
                Self::Dir(dir) if dir.join(&name).exists() => {
                    fs::copy(dir.join(&name), data)?;
                    return Ok(Some(dir.join(&name).display().to_string()));
                }
                Self::Dir(_) => {}
                Self::Store(store) => {
                    let mut file = fs::File::create(data)?;
                    if store.get(&name, &mut file)? {
                        return Ok(Some(store.address_of(&name)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// What people know it by.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Dir(dir) => dir.display().to_string(),
            Self::Store(store) => store.address_of(""),
        }
    }
}
