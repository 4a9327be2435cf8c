//! The data file of a copy in the making: pages in any order, then the meta pages.
//!
//! Not here: which pages, and making a database of them (`copy`, `backup`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, FileDisk, no_room};
use crate::encrypted_disk::layout::{ENTRY_BYTES, Entry, Layout};
use crate::encrypted_disk::{EncryptedDisk, sealed_meta};
use crate::encryption::{Cipher, Place};
use crate::meta::{ENCRYPTED_VERSION, Meta};
use crate::page::{PageId, TxnId};
use crate::{Error, Result};

/// A file that is to become a data file, encrypted if there is a cipher.
#[derive(Clone, Copy)]
pub(crate) struct PageFile<'a> {
    pub(crate) file: &'a File,
    /// Where the database will be, for errors.
    pub(crate) path: &'a Path,
    pub(crate) page_bytes: usize,
    pub(crate) cipher: Option<&'a Arc<Cipher>>,
}

impl PageFile<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        self.file.write_all_at(bytes, offset).map_err(|e| no_room("cannot write", self.path, end, e))
    }

    fn layout(&self) -> Layout {
        Layout::new(self.page_bytes as u64)
    }

    /// Writes a run of plain pages, none of which is a meta page, as of a steady point.
    pub(crate) fn write(&self, first: PageId, bytes: &[u8], steady: TxnId) -> Result<()> {
        let Some(cipher) = self.cipher else {
            return self.write_at(u64::from(first.0) * self.page_bytes as u64, bytes);
        };
        let mut rest = bytes;
        for piece in self.layout().pieces(first.0, (bytes.len() / self.page_bytes) as u32) {
            let (plain, behind) = rest.split_at((piece.bytes.end - piece.bytes.start) as usize);
            let mut sealed = plain.to_vec();
            let mut entries = Vec::with_capacity(plain.len() / self.page_bytes * ENTRY_BYTES as usize);
            for (page, bytes) in (piece.page..).zip(sealed.chunks_mut(self.page_bytes)) {
                let tag = cipher.seal(Place::Page { page, steady }, bytes);
                entries.extend_from_slice(&Entry { steady, tag }.encode());
            }
            self.write_at(piece.entries.start, &entries)?;
            self.write_at(piece.bytes.start, &sealed)?;
            rest = behind;
        }
        Ok(())
    }

    /// Writes the same steady point to both meta pages.
    pub(crate) fn write_metas(&self, meta: &Meta) -> Result<()> {
        for (slot, bytes) in (0..2).zip(encode_metas(meta, self.cipher.map(|cipher| &**cipher))) {
            self.write_at(slot * self.page_bytes as u64, &bytes)?;
        }
        Ok(())
    }

    /// Makes the file as long as so many pages need.
    pub(crate) fn set_pages(&self, pages: u32) -> Result<()> {
        let bytes = file_bytes(pages.into(), self.page_bytes as u32, self.cipher.is_some());
        self.file.set_len(bytes).map_err(|e| no_room("cannot grow", self.path, bytes, e))
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| Error::io("cannot flush", self.path, e))
    }

    /// The file as a disk that is only read.
    pub(crate) fn disk(&self) -> Result<Box<dyn Disk>> {
        let file = self.file.try_clone().map_err(|e| Error::io("cannot open", self.path, e))?;
        let bytes = file.metadata().map_err(|e| Error::io("cannot read the size of", self.path, e))?.len();
        let disk = FileDisk::new(file, self.path.to_owned(), bytes, false)?;
        Ok(match self.cipher {
            Some(cipher) => Box::new(EncryptedDisk::new(Box::new(disk), Arc::clone(cipher), self.page_bytes as u32)?),
            None => Box::new(disk),
        })
    }
}

/// The length of a data file with so many pages.
pub(crate) fn file_bytes(pages: u64, page_bytes: u32, is_encrypted: bool) -> u64 {
    let page_bytes = u64::from(page_bytes);
    if is_encrypted { Layout::new(page_bytes).file_bytes(pages) } else { pages * page_bytes }
}

/// The bytes of both meta pages that hold the same steady point.
pub(crate) fn encode_metas(meta: &Meta, cipher: Option<&Cipher>) -> [[u8; crate::meta::META_BYTES]; 2] {
    let version = if cipher.is_some() { ENCRYPTED_VERSION } else { meta.version };
    let meta = Meta { version, ..meta.clone() };
    [0, 1].map(|slot| {
        let mut bytes = meta.encode(slot);
        if let Some(cipher) = cipher {
            sealed_meta::seal(cipher, slot, &mut bytes);
        }
        bytes
    })
}
