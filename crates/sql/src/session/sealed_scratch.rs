//! Temporary files of statements on an encrypted database: sealed with a key that is in memory only.
//!
//! Operators write blocks whole and read them in parts (`colibri_exec::scratch`). So each block is sealed as one, and what opens it is kept in memory
//! for as long as the file is there. The block that was read last is kept as well, in one more
//! buffer for each file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use colibri_storage::{TransientCipher, TransientSeal};
use parking_lot::Mutex;

use crate::exec::{DirectoryScratch, Scratch, ScratchFile};

/// Files in a directory, sealed.
pub(super) struct SealedScratch {
    files: DirectoryScratch,
    cipher: Arc<TransientCipher>,
}

impl SealedScratch {
    pub(super) fn new(directory: &Path) -> colibri_storage::Result<Self> {
        Ok(Self { files: DirectoryScratch::new(directory), cipher: Arc::new(TransientCipher::new()?) })
    }
}

impl Scratch for SealedScratch {
    fn create(&self) -> io::Result<Box<dyn ScratchFile>> {
        let (file, cipher) = (self.files.create()?, Arc::clone(&self.cipher));
        Ok(Box::new(SealedFile { file, cipher, blocks: BTreeMap::new(), buffer: Vec::new(), last: Mutex::default() }))
    }
}

struct SealedFile {
    file: Box<dyn ScratchFile>,
    cipher: Arc<TransientCipher>,
    /// The length of each block and what opens it, by its place.
    blocks: BTreeMap<u64, (usize, TransientSeal)>,
    /// For the block that is being written.
    buffer: Vec<u8>,
    last: Mutex<Opened>,
}

/// The block that was read last.
#[derive(Default)]
struct Opened {
    place: u64,
    bytes: Vec<u8>,
}

impl ScratchFile for SealedFile {
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        let seal = self.cipher.seal(&mut self.buffer);
        self.last.get_mut().bytes.clear();
        self.blocks.remove(&place);
        self.file.write_at(place, &self.buffer)?;
        self.blocks.insert(place, (bytes.len(), seal));
        Ok(())
    }

    fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<()> {
        let mut last = self.last.lock();
        let within = |last: &Opened| {
            let start = usize::try_from(place.checked_sub(last.place)?).ok()?;
            Some(start..start.checked_add(into.len())?).filter(|range| range.end <= last.bytes.len())
        };
        let range = match within(&last) {
            Some(range) => range,
            None => {
                let block = self.blocks.range(..=place).next_back();
                let (&start, (length, seal)) = block.ok_or(io::ErrorKind::UnexpectedEof)?;
                let mut bytes = std::mem::take(&mut last.bytes);
                bytes.resize(*length, 0);
                self.file.read_at(start, &mut bytes)?;
                if !self.cipher.open(&mut bytes, seal) {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not what was encrypted"));
                }
                *last = Opened { place: start, bytes };
                within(&last).ok_or(io::ErrorKind::UnexpectedEof)?
            }
        };
        into.copy_from_slice(&last.bytes[range]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_whole_and_in_parts_whatever_was_there_before() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = SealedScratch::new(directory.path()).unwrap();
        let mut file = scratch.create().unwrap();
        for round in 0..3_u8 {
            for block in [0, 2, 1] {
                let bytes: Vec<u8> = (0..100 - round).map(|byte| byte ^ block ^ round).collect();
                file.write_at(u64::from(block) * 100, &bytes).unwrap();
            }
            for block in [1, 0, 2] {
                let (mut head, mut rest) = ([0; 10], vec![0; 80]);
                file.read_at(u64::from(block) * 100, &mut head).unwrap();
                file.read_at(u64::from(block) * 100 + 10, &mut rest).unwrap();
                let expected: Vec<u8> = (0..90).map(|byte| byte ^ block ^ round).collect();
                assert_eq!([&head[..], &rest].concat(), expected);
            }
        }
        assert_eq!(file.read_at(0, &mut [0; 101]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(file.read_at(300, &mut [0]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_file_has_nothing_plain_and_damage_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let plain = DirectoryScratch::new(directory.path()).create().unwrap();
        let mut file = SealedFile {
            file: plain,
            cipher: Arc::new(TransientCipher::new().unwrap()),
            blocks: BTreeMap::new(),
            buffer: Vec::new(),
            last: Mutex::default(),
        };
        file.write_at(0, b"something to find, and more").unwrap();
        let mut sealed = [0; 27];
        file.file.read_at(0, &mut sealed).unwrap();
        assert!(
            !sealed.windows(4).any(|window| b"something to find, and more".windows(4).any(|plain| plain == window))
        );
        sealed[3] ^= 1;
        file.file.write_at(0, &sealed).unwrap();
        assert_eq!(file.read_at(0, &mut [0; 4]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
