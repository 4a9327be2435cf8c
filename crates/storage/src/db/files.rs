//! The file with the pages, as opening finds it or makes it.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use crate::disk::MadeDirs;
use crate::encrypted_disk::sealed_meta;
use crate::encryption::Cipher;
use crate::meta::{ENCRYPTED_VERSION, META_BYTES, Meta, MetaFault};
use crate::options::{Encryption, Options, PAGE_SIZE_MAX, PAGE_SIZE_MIN};
use crate::page::PageId;
use crate::{Error, FORMAT_VERSION, Result, page_file};

/// What `open` has found in the directory.
pub(super) struct Found {
    pub(super) file: File,
    pub(super) writable: bool,
    pub(super) page_size: u32,
    pub(super) cipher: Option<Arc<Cipher>>,
}

pub(super) fn find_or_create(dir: &Path, data_path: &Path, options: &Options) -> Result<Found> {
    let opened = File::options().read(true).write(!options.read_only).open(data_path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            if options.read_only || !options.create {
                return Err(Error::NotFound { path: dir.into() });
            }
            create(dir, data_path, options)?;
            File::options()
                .read(true)
                .write(true)
                .open(data_path)
                .map_err(|e| Error::io("cannot open", data_path, e))?
        }
        Err(e) if !options.read_only => return Err(Error::io("cannot open for writing", data_path, e)),
        Err(e) => return Err(Error::io("cannot open", data_path, e)),
    };
    let (page_size, metas) = read_metas(&file, data_path)?;
    let cipher = cipher_of(&metas, &options.encryption, data_path)?;
    if let Some(wanted) = options.page_size
        && wanted != page_size
    {
        return Err(Error::PageSizeMismatch { found: page_size, wanted });
    }
    Ok(Found { file, writable: !options.read_only, page_size, cipher })
}

/// The cipher of a database with these meta pages, of those that are intact.
pub(super) fn cipher_of(metas: &[Vec<u8>], encryption: &Encryption, path: &Path) -> Result<Option<Arc<Cipher>>> {
    let is_encrypted = |(slot, bytes): &(u32, &Vec<u8>)| {
        Meta::decode(bytes, *slot).is_ok_and(|meta| meta.version >= ENCRYPTED_VERSION)
    };
    let encrypted: Vec<&[u8]> = (0..).zip(metas).filter(is_encrypted).map(|(_, bytes)| bytes.as_slice()).collect();
    match encryption {
        Encryption::As(cipher) if !encrypted.is_empty() => Ok(Some(Arc::clone(cipher))),
        Encryption::As(_) => Err(Error::NotEncrypted { path: path.into() }),
        Encryption::Key(key) => Ok(sealed_meta::cipher_of(&encrypted, Some(key), path)?.map(Arc::new)),
        Encryption::None => Ok(sealed_meta::cipher_of(&encrypted, None, path)?.map(Arc::new)),
    }
}

/// The page size, from whichever meta page is intact, and the bytes of both, as far as they are
/// there.
fn read_metas(file: &File, path: &Path) -> Result<(u32, Vec<Vec<u8>>)> {
    use std::os::unix::fs::FileExt;
    let page_size = read_page_size(file, path)?;
    let mut metas = Vec::new();
    for offset in [0, u64::from(page_size)] {
        let mut bytes = vec![0; META_BYTES];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => metas.push(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {}
            Err(e) => return Err(Error::io("cannot read", path, e)),
        }
    }
    Ok((page_size, metas))
}

fn read_page_size(file: &File, path: &Path) -> Result<u32> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; META_BYTES];
    let mut damaged = None;
    let mut read = false;
    let second_pages = (PAGE_SIZE_MIN.trailing_zeros()..=PAGE_SIZE_MAX.trailing_zeros()).map(|shift| 1 << shift);
    for offset in std::iter::once(0).chain(second_pages) {
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => read = true,
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => continue,
            Err(e) => return Err(Error::io("cannot read", path, e)),
        }
        match Meta::decode(&bytes, u32::from(offset > 0)) {
            Ok(meta) if offset == 0 || u64::from(meta.page_size) == offset => return Ok(meta.page_size),
            Ok(_) | Err(MetaFault::NotColibri) => {}
            Err(MetaFault::Newer(found)) => {
                return Err(Error::NewerFormat { path: path.into(), found, supported: FORMAT_VERSION });
            }
            Err(MetaFault::Damaged(reason)) => damaged = Some(reason),
        }
    }
    match damaged {
        Some(reason) => Err(Error::Corrupted { page: PageId(0), reason }),
        None => {
            let reason = if read { "it has no meta page" } else { "it is empty, or too short for a meta page" };
            Err(Error::NotADatabase { path: path.into(), reason })
        }
    }
}

/// Makes a database. It gets its name last, so that a crash leaves none instead of half of one.
fn create(dir: &Path, data_path: &Path, options: &Options) -> Result<()> {
    let made = MadeDirs::make(dir)?;
    // A name that no other opening uses, in this process or another: that would write to a file in
    // use.
    let id = u128::from_le_bytes(random_id());
    let mut new_name = options.file_names.data.clone();
    new_name.push(format!(".new.{id:032x}"));
    let new_path = dir.join(new_name);
    let result = write_new(&new_path, dir, data_path, options).and_then(|()| {
        // If another process was faster, its database will do.
        match fs::hard_link(&new_path, data_path) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io("cannot create", data_path, e)),
            _ => Ok(()),
        }
    });
    let _ = fs::remove_file(&new_path);
    let result = result.and_then(|()| if options.temporary { Ok(()) } else { made.flush() });
    if result.is_err() {
        made.remove();
    }
    result
}

/// Writes an empty database to a new file that is to become `data_path` in `dir`.
fn write_new(path: &Path, dir: &Path, data_path: &Path, options: &Options) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let page_size = options.page_size.unwrap_or(PAGE_SIZE_MIN);
    let cipher = match &options.encryption {
        Encryption::None => None,
        Encryption::Key(key) => Some(Arc::new(Cipher::create(key)?)),
        Encryption::As(cipher) => Some(Arc::clone(cipher)),
    };
    let pages = options.size_initial.div_ceil(u64::from(page_size)).max(2);
    let bytes = page_file::file_bytes(pages, page_size, cipher.is_some());
    let no_room = |action| move |e| crate::disk::no_room(action, data_path, bytes, e);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| crate::disk::no_room("cannot create a database in", dir, bytes, e))?;
    crate::disk::allocate(&file, 0, bytes).map_err(no_room("cannot allocate"))?;
    file.write_all_at(&new_image(page_size, cipher.as_deref()), 0).map_err(no_room("cannot write"))?;
    if options.temporary {
        return Ok(());
    }
    file.sync_all().map_err(no_room("cannot flush"))
}

/// The two meta pages of a database with nothing in it.
pub(super) fn new_image(page_size: u32, cipher: Option<&Cipher>) -> Vec<u8> {
    let meta = Meta { page_size, page_count: 2, database_id: random_id(), clean: true, ..Meta::default() };
    let mut image = vec![0; 2 * page_size as usize];
    for (page, bytes) in image.chunks_mut(page_size as usize).zip(page_file::encode_metas(&meta, cipher)) {
        page[..META_BYTES].copy_from_slice(&bytes);
    }
    image
}

pub(crate) fn random_id() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let half = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half());
    id[8..].copy_from_slice(&half());
    id
}
