//! Where temporary files come from.
//!
//! Invariants: a file of a directory has no name from the start (`O_TMPFILE`), or, where the file
//! system cannot do that, loses it at once. So nothing has to be taken away after a crash, but for
//! a name that a process which was killed between the two has left; the next one that makes a file
//! takes such a name over.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A place for temporary files.
pub trait Scratch: Send + Sync {
    /// A new file.
    fn create(&self) -> io::Result<Box<dyn ScratchFile>>;
}

/// A temporary file: gone when it is dropped.
pub trait ScratchFile: Send {
    /// Writes all of the bytes.
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads as many bytes as there is room for.
    fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<()>;
}

/// Files in a directory.
pub struct DirectoryScratch {
    directory: PathBuf,
}

/// The name that a file has for a moment, where there are none without.
const NAME: &str = "temporary";

impl DirectoryScratch {
    /// Files in this directory.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let nameless = options.clone().custom_flags(OFlags::TMPFILE.bits() as i32).open(&self.directory);
        match nameless {
            // What kernels and file systems say that know of no such thing.
            Err(error)
                if matches!(
                    rustix::io::Errno::from_io_error(&error),
                    Some(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL)
                ) =>
            {
                self.open_named(&options)
            }
            opened => opened,
        }
    }

    fn open_named(&self, options: &OpenOptions) -> io::Result<File> {
        // Two at once have names of their own; one that was left over by a killed process is opened
        // again.
        let number = std::process::id() % 64;
        let thread = format!("{:?}", std::thread::current().id());
        let path = self.directory.join(format!("{NAME}-{number}-{thread}"));
        let file = options.clone().create(true).truncate(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

impl Scratch for DirectoryScratch {
    fn create(&self) -> io::Result<Box<dyn ScratchFile>> {
        Ok(Box::new(self.open()?))
    }
}

impl ScratchFile for File {
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, place)
    }

    fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, place)
    }
}

#[cfg(test)]
pub(crate) use in_memory::MemoryScratch;

#[cfg(test)]
mod in_memory {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use super::{Scratch, ScratchFile};

    /// What tests have happen.
    #[derive(Debug)]
    pub(crate) struct Faults {
        /// Writes that go well before the disk is full.
        pub writes_left: AtomicI64,
        /// Reads that go well before one fails.
        pub reads_left: AtomicI64,
        /// Reads that go well before one gives other bytes.
        pub reads_right: AtomicI64,
        /// Files that are open.
        pub open: AtomicUsize,
        /// Writes so far.
        pub writes: AtomicUsize,
    }

    /// Files in memory, with faults that tests ask for.
    #[derive(Clone)]
    pub(crate) struct MemoryScratch(pub(crate) Arc<Faults>);

    impl Default for MemoryScratch {
        fn default() -> Self {
            let never = || AtomicI64::new(i64::MAX);
            Self(Arc::new(Faults {
                writes_left: never(),
                reads_left: never(),
                reads_right: never(),
                open: AtomicUsize::new(0),
                writes: AtomicUsize::new(0),
            }))
        }
    }

    struct MemoryFile(Vec<u8>, Arc<Faults>);

    impl Scratch for MemoryScratch {
        fn create(&self) -> io::Result<Box<dyn ScratchFile>> {
            self.0.open.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(MemoryFile(Vec::new(), Arc::clone(&self.0))))
        }
    }

    impl ScratchFile for MemoryFile {
        fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
            self.1.writes.fetch_add(1, Ordering::Relaxed);
            if self.1.writes_left.fetch_sub(1, Ordering::Relaxed) <= 0 {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()));
            }
            let end = place as usize + bytes.len();
            if self.0.len() < end {
                self.0.resize(end, 0);
            }
            self.0[place as usize..end].copy_from_slice(bytes);
            Ok(())
        }

        fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<()> {
            if self.1.reads_left.fetch_sub(1, Ordering::Relaxed) <= 0 {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
            }
            let place = place as usize;
            let Some(bytes) = self.0.get(place..place + into.len()) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            into.copy_from_slice(bytes);
            if self.1.reads_right.fetch_sub(1, Ordering::Relaxed) <= 0
                && let Some(last) = into.last_mut()
            {
                *last ^= 1;
            }
            Ok(())
        }
    }

    impl Drop for MemoryFile {
        fn drop(&mut self) {
            self.1.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_has_no_name_whatever_the_file_system_can_do() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = DirectoryScratch::new(directory.path());
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let mut files = [scratch.create().unwrap(), Box::new(scratch.open_named(&options).unwrap())];
        for file in &mut files {
            file.write_at(5, b"abc").unwrap();
            let mut back = [0; 4];
            file.read_at(4, &mut back).unwrap();
            assert_eq!(&back, b"\0abc");
            assert_eq!(file.read_at(6, &mut back).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
