//! Backups to a stream: of everything, or of what has changed since the one before.
//!
//! ```text
//! header:    0  8  "COLIBKUP"      8  4  version     12  4  page size    16  16  database id
//!           32  8  since: the transaction of the backup before, or 0
//!           40  8  transaction    48  4  page count  52  4  forest       56  40  catalogue
//! run:       0  4  first page      4  4  pages        8     their bytes, checksums included
//! trailer:   0  4  zero            4  4  zero         8  8  checksum of all before it
//! ```
//! One of an encrypted database has more, and its pages are encrypted as one run:
//! ```text
//! header:   96 64  the wrapped data key, as in a meta page        160 16  tag of the header
//! run:       0  4  first page      4  4  pages        8 16  tag   24      their bytes, sealed
//! ```
//! A page is never older than its parent, so an incremental backup leaves out whole subtrees: it
//! costs what has changed. A backup is of a steady point, because no crash takes back the
//! transaction numbers up to one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::db::Database;
use crate::disk::MadeDirs;
use crate::encryption::{Cipher, EncryptionKey, Place, TAG_BYTES, WRAPPED_BYTES, Wrapped};
use crate::forest::Forest;
use crate::options::{Checksums, PAGE_SIZE_MAX, PAGE_SIZE_MIN};
use crate::page::{self, PageId, TxnId, get_u32, get_u64, put_u32, put_u64};
use crate::page_file::PageFile;
use crate::page_set::PageSet;
use crate::pager::{Bounds, Pager};
use crate::root::Root;
use crate::root::Tree;
use crate::snapshot::Snapshot;
use crate::walk::{Visit, walk};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"COLIBKUP";
/// The newest version. Those before it are read: version 1 has no wide leaves, version 2 no forest,
/// version 3 no states of the past. Without such states, version 3 is written. Version 5 is
/// encrypted.
const VERSION: u32 = 5;
const PAST_VERSION: u32 = 4;
const BASE_VERSION: u32 = 3;
const BACKUP_HEADER_BYTES: usize = 96;
const SEALED_HEADER_BYTES: usize = BACKUP_HEADER_BYTES + WRAPPED_BYTES;
/// The number in the nonce of a header's tag. No run of pages begins with it.
const HEADER_NUMBER: u32 = u32::MAX;

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupInfo {
    /// The database it is of.
    pub database_id: [u8; 16],
    /// The backup it adds to; `None` for a full one.
    pub since: Option<TxnId>,
    /// The state it brings a database to.
    pub txn: TxnId,
    /// Bytes in a page.
    pub page_size: u32,
    /// Pages in it.
    pub pages: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Passes bytes on and adds up their checksum.
struct Summing<'a> {
    out: &'a mut dyn Write,
    sum: Xxh3,
    bytes: u64,
}

impl BackupInfo {
    /// Whether this backup has what changed since `before`, so that both together restore the state
    /// of this one. All data have changed since a database was empty, so a full backup follows that
    /// of an empty one.
    #[must_use]
    pub fn adds_to(&self, before: &Self) -> bool {
        self.database_id == before.database_id && self.since.unwrap_or(TxnId(0)) == before.txn
    }
}

impl Summing<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|e| Error::io("cannot write", "the backup", e))
    }
}

impl Database {
    /// Writes a backup of the newest steady point, while readers and writers go on: of everything,
    /// or, with the description of an earlier backup of this database, of what has changed since.
    ///
    /// A database that is open for writing makes a steady point first, so that the backup has every
    /// commit before it.
    pub fn backup(&self, since: Option<&BackupInfo>, out: &mut dyn Write) -> Result<BackupInfo> {
        self.backup_behind(since, out, &|_, _| Ok(()))
    }

    /// As a full [`Database::backup`], for [`restore_replica`]: it begins with the checksum of the
    /// last transaction's record, by which a log that others agree on goes on.
    ///
    /// ```text
    /// 0  8  checksum     8  the backup
    /// ```
    pub fn backup_replica(&self, out: &mut dyn Write) -> Result<BackupInfo> {
        self.backup_behind(None, out, &|out, root| {
            out.write_all(&root.log.chain.to_le_bytes()).map_err(|e| Error::io("cannot write", "the backup", e))
        })
    }

    fn backup_behind(
        &self,
        since: Option<&BackupInfo>,
        out: &mut dyn Write,
        before: &dyn Fn(&mut dyn Write, &Root) -> Result<()>,
    ) -> Result<BackupInfo> {
        let core = &self.0.core;
        if !core.is_read_only() {
            core.sync()?;
        }
        let (snapshot, meta, ()) = Snapshot::steady(self.0.main(), |_| ())?;
        let (root, bounds, pager) = (snapshot.root(), snapshot.bounds(), &core.pager);
        let database_id = meta.database_id;
        if let Some(before) = since
            && (before.database_id != database_id || before.txn > root.txn)
        {
            return Err(Error::BackupMismatch { reason: "the earlier backup is of another database or of its future" });
        }
        before(out, &root)?;
        let oldest = since.map_or(TxnId(0), |before| before.txn);
        let mut header = [0; SEALED_HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        let has_past = Forest::of(pager, bounds, root.forest)?.has_past(pager, bounds)?;
        let version = match has_past {
            _ if core.cipher.is_some() => VERSION,
            true => PAST_VERSION,
            false => BASE_VERSION,
        };
        put_u32(&mut header, 8, version);
        put_u32(&mut header, 12, pager.page_size() as u32);
        header[16..32].copy_from_slice(&database_id);
        put_u64(&mut header, 32, oldest.0);
        put_u64(&mut header, 40, root.txn.0);
        put_u32(&mut header, 48, root.page_count);
        put_u32(&mut header, 52, root.forest.0);
        root.catalog.encode(&mut header[56..BACKUP_HEADER_BYTES]);
        let mut out = Summing { out, sum: Xxh3::new(), bytes: 0 };
        match &core.cipher {
            None => out.write(&header[..BACKUP_HEADER_BYTES])?,
            Some(cipher) => {
                cipher.wrapped().encode(&mut header[BACKUP_HEADER_BYTES..]);
                out.write(&header)?;
                out.write(&cipher.tag_of(HEADER_NUMBER, root.txn, &header))?;
            }
        }
        let mut written = 0;
        let mut buffer = Vec::new();
        walk(pager, bounds, &root, &mut |page, pages| {
            // Reading through the pager verifies what is written.
            pager.verified_run(page, bounds)?;
            if pager.birth_and_pages(page).0 <= oldest {
                return Ok(Visit::Skip);
            }
            let mut head = [0; 8];
            put_u32(&mut head, 0, page.0);
            put_u32(&mut head, 4, pages);
            out.write(&head)?;
            buffer.clear();
            buffer.extend_from_slice(pager.raw(page, pages));
            page::seal(&mut buffer);
            if let Some(cipher) = &core.cipher {
                out.write(&cipher.seal(Place::Backup { page: page.0, txn: root.txn }, &mut buffer))?;
            }
            out.write(&buffer)?;
            written += u64::from(pages);
            Ok(Visit::Descend)
        })?;
        out.write(&[0; 8])?;
        let sum = out.sum.digest();
        out.write(&sum.to_le_bytes())?;
        Ok(BackupInfo {
            database_id,
            since: (oldest.0 > 0).then_some(oldest),
            txn: root.txn,
            page_size: pager.page_size() as u32,
            pages: written,
            bytes: out.bytes,
        })
    }
}

/// What a backup holds, and what seals it.
struct Opened {
    info: BackupInfo,
    root: Root,
    cipher: Option<Arc<Cipher>>,
}

/// What a run of pages in a backup belongs to.
struct Source<'a> {
    page_size: u32,
    txn: TxnId,
    cipher: Option<&'a Arc<Cipher>>,
}

type OnRun<'a> = dyn FnMut(Source<'_>, PageId, &[u8]) -> Result<()> + 'a;

/// The cipher of a backup whose header this is, from one of the keys.
fn cipher_of(header: &[u8], tag: &[u8; TAG_BYTES], txn: TxnId, keys: &[EncryptionKey]) -> Result<Arc<Cipher>> {
    let Some(wrapped) = Wrapped::decode(&header[BACKUP_HEADER_BYTES..]) else {
        return Err(Error::BackupDamaged { reason: "it was encrypted by another version of Colibri" });
    };
    if keys.is_empty() {
        return Err(Error::KeyMissing { path: "the backup".into() });
    }
    let cipher = keys.iter().find_map(|key| Cipher::unlock(&wrapped, key));
    let cipher = cipher.ok_or_else(|| Error::WrongKey { path: "the backup".into() })?;
    match cipher.is_tag_of(HEADER_NUMBER, txn, header, tag) {
        true => Ok(Arc::new(cipher)),
        false => Err(Error::BackupDamaged { reason: "its header is not what was written" }),
    }
}

/// Reads a backup and hands on each run of pages once its checksums are verified.
fn read_backup(input: &mut dyn Read, keys: &[EncryptionKey], on_run: &mut OnRun<'_>) -> Result<Opened> {
    let damaged = |reason| Error::BackupDamaged { reason };
    let mut sum = Xxh3::new();
    let mut length = 0;
    let mut fill = |bytes: &mut [u8], sum: &mut Xxh3| -> Result<()> {
        input.read_exact(bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
            _ => Error::io("cannot read", "the backup", e),
        })?;
        sum.update(bytes);
        length += bytes.len() as u64;
        Ok(())
    };
    let mut header = [0; SEALED_HEADER_BYTES];
    fill(&mut header[..BACKUP_HEADER_BYTES], &mut sum)?;
    if &header[..8] != MAGIC {
        return Err(damaged("it does not begin like a backup"));
    }
    if !(1..=VERSION).contains(&get_u32(&header, 8)) {
        return Err(damaged("it was made by another version of Colibri"));
    }
    let page_size = get_u32(&header, 12);
    if !page_size.is_power_of_two() || !(PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&page_size) {
        return Err(damaged("its page size is none"));
    }
    let (since, txn) = (TxnId(get_u64(&header, 32)), TxnId(get_u64(&header, 40)));
    let page_count = get_u32(&header, 48);
    let forest = PageId(get_u32(&header, 52));
    let catalog = Tree::decode(&header[56..BACKUP_HEADER_BYTES]);
    let cipher = match get_u32(&header, 8) {
        VERSION => {
            fill(&mut header[BACKUP_HEADER_BYTES..], &mut sum)?;
            let mut tag = [0; TAG_BYTES];
            fill(&mut tag, &mut sum)?;
            Some(cipher_of(&header, &tag, txn, keys)?)
        }
        _ if keys.is_empty() => None,
        _ => return Err(Error::NotEncrypted { path: "the backup".into() }),
    };
    let mut pages_read = 0;
    let mut buffer = Vec::new();
    loop {
        let mut head = [0; 8];
        fill(&mut head, &mut sum)?;
        let (first, pages) = (get_u32(&head, 0), get_u32(&head, 4));
        if (first, pages) == (0, 0) {
            break;
        }
        if first < 2 || pages == 0 || u64::from(first) + u64::from(pages) > u64::from(page_count) {
            return Err(damaged("it lists pages outside the database"));
        }
        let mut tag = [0; TAG_BYTES];
        if cipher.is_some() {
            fill(&mut tag, &mut sum)?;
        }
        buffer.resize(pages as usize * page_size as usize, 0);
        fill(&mut buffer, &mut sum)?;
        if let Some(cipher) = &cipher
            && cipher.open(Place::Backup { page: first, txn }, &mut buffer, &tag).is_err()
        {
            return Err(damaged("a page is not what was encrypted for its place"));
        }
        if page::number_of(&buffer) != PageId(first) || page::compute_checksum(&buffer) != page::checksum_of(&buffer) {
            return Err(damaged("the checksum of a page does not match"));
        }
        pages_read += u64::from(pages);
        on_run(Source { page_size, txn, cipher: cipher.as_ref() }, PageId(first), &buffer)?;
    }
    let expected = sum.digest();
    let mut trailer = [0; 8];
    fill(&mut trailer, &mut sum)?;
    if get_u64(&trailer, 0) != expected {
        return Err(damaged("its checksum does not match"));
    }
    let info = BackupInfo {
        database_id: header[16..32].try_into().expect("sixteen bytes were sliced"),
        since: (since.0 > 0).then_some(since),
        txn,
        page_size,
        pages: pages_read,
        bytes: length,
    };
    Ok(Opened { info, root: Root { txn, catalog, forest, page_count, ..Root::default() }, cipher })
}

/// Reads a whole backup and verifies every checksum in it.
pub fn verify_backup(input: &mut dyn Read) -> Result<BackupInfo> {
    verify_encrypted_backup(input, &[])
}

/// As [`verify_backup`] for a backup of an encrypted database, with its key or several of which one
/// is its key.
pub fn verify_encrypted_backup(input: &mut dyn Read, keys: &[EncryptionKey]) -> Result<BackupInfo> {
    read_backup(input, keys, &mut |_, _, _| Ok(())).map(|opened| opened.info)
}

/// Makes a new database in `dest_dir` from a full backup and the incremental ones that follow it,
/// in order. Everything that the result reaches is read again and verified before it becomes a
/// database.
pub fn restore(inputs: &mut [Box<dyn Read>], dest_dir: impl AsRef<Path>) -> Result<BackupInfo> {
    restore_encrypted(inputs, dest_dir, &[])
}

/// As [`restore`] for backups of an encrypted database. Each has the key that the database had when
/// it was made, so there may be several. The result is encrypted, and has the key of the last one.
pub fn restore_encrypted(
    inputs: &mut [Box<dyn Read>],
    dest_dir: impl AsRef<Path>,
    keys: &[EncryptionKey],
) -> Result<BackupInfo> {
    restore_behind(inputs, keys, dest_dir.as_ref(), 0)
}

/// Makes a new database in `dest_dir` of what [`Database::backup_replica`] has written. A log that
/// others agree on goes on behind it.
pub fn restore_replica(mut input: Box<dyn Read>, dest_dir: impl AsRef<Path>) -> Result<BackupInfo> {
    let mut chain = [0; 8];
    input.read_exact(&mut chain).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::BackupDamaged { reason: "it ends too early" },
        _ => Error::io("cannot read", "the backup", e),
    })?;
    restore_behind(&mut [input], &[], dest_dir.as_ref(), u64::from_le_bytes(chain))
}

/// `chain`: the checksum of the last transaction's record.
fn restore_behind(
    inputs: &mut [Box<dyn Read>],
    keys: &[EncryptionKey],
    dest_dir: &Path,
    chain: u64,
) -> Result<BackupInfo> {
    let path = dest_dir.join("data");
    if path.exists() {
        let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(Error::io("cannot restore over the database in", dest_dir, source));
    }
    let made = MadeDirs::make(dest_dir)?;
    // Under another name first, so that a crash leaves no database instead of half of one.
    let id = u128::from_le_bytes(crate::db::random_id());
    let new_path = dest_dir.join(format!("data.new.{id:032x}"));
    let result = restore_file(inputs, keys, &new_path, &path, chain).and_then(|info| {
        fs::hard_link(&new_path, &path).map_err(|e| Error::io("cannot create", &path, e))?;
        made.flush()?;
        Ok(info)
    });
    let _ = fs::remove_file(&new_path);
    if result.is_err() {
        made.remove();
    }
    result
}

/// Writes the data file of the database that is to be at `path` to a new file.
fn restore_file(
    inputs: &mut [Box<dyn Read>],
    keys: &[EncryptionKey],
    new_path: &Path,
    path: &Path,
    chain: u64,
) -> Result<BackupInfo> {
    let file = File::options().read(true).write(true).create_new(true).open(new_path);
    let file = file.map_err(|e| Error::io("cannot create", path, e))?;
    let mut last: Option<Opened> = None;
    for input in inputs {
        let opened = read_backup(input, keys, &mut |source, first, bytes| {
            let page_bytes = source.page_size as usize;
            PageFile { file: &file, path, page_bytes, cipher: source.cipher }.write(first, bytes, source.txn)
        })?;
        let is_sealed_alike = |before: &Opened| match (&before.cipher, &opened.cipher) {
            (Some(before), Some(cipher)) => before.is_same(cipher),
            (before, cipher) => before.is_none() && cipher.is_none(),
        };
        let reason = match (&last, opened.info.since) {
            (None, Some(_)) => "the first is not a full backup",
            (Some(before), _) if before.info.database_id != opened.info.database_id => {
                "they are of different databases"
            }
            (Some(before), _) if !opened.info.adds_to(&before.info) => "one does not follow the one before it",
            (Some(before), _) if !is_sealed_alike(before) => "they are encrypted differently",
            _ => "",
        };
        if !reason.is_empty() {
            return Err(Error::BackupMismatch { reason });
        }
        last = Some(opened);
    }
    let Some(Opened { info, root, cipher }) = last else {
        return Err(Error::BackupMismatch { reason: "there is none to restore" });
    };
    let dest = PageFile { file: &file, path, page_bytes: info.page_size as usize, cipher: cipher.as_ref() };
    dest.set_pages(root.page_count)?;
    let pager = Pager::new(dest.disk()?, info.page_size, Checksums::FirstTouch);
    let bounds = Bounds { page_count: root.page_count, newest: root.txn, steady: root.txn };
    let mut free = PageSet::default();
    for page in 2..root.page_count {
        free.insert(page);
    }
    walk(&pager, bounds, &root, &mut |page, pages| {
        pager.verified_run(page, bounds)?;
        (page.0..page.0 + pages).for_each(|page| _ = free.remove(page));
        Ok(Visit::Descend)
    })?;
    let has_past = Forest::of(&pager, bounds, root.forest)?.has_past(&pager, bounds)?;
    crate::copy::finish(dest, (&root, has_past), &free, chain)?;
    Ok(info)
}
