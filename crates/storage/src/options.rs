//! How a database is opened.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crate::agreement::{Proposer, Proposing};
use crate::encryption::{Cipher, EncryptionKey};
use crate::slow_readers::SlowReaders;
use crate::trace::{Tracer, WriteTrace};
use crate::{Error, Result};

/// Smallest page size, in bytes.
pub const PAGE_SIZE_MIN: u32 = 4 << 10;
/// Largest page size, in bytes.
pub const PAGE_SIZE_MAX: u32 = 64 << 10;

/// Why a retention is refused.
pub(crate) const RETENTION_NEEDS_LOG: &str =
    "states of the past are kept with Durability::Sync only, whose log says what happened";

/// Bounds of `Options::size_max`: room for the first steady points, and what page numbers and
/// addresses can reach.
const SIZE_MAX_RANGE: std::ops::RangeInclusive<u64> = 256 << 10..=256 << 40;

/// What a commit waits for, and so what a crash of the operating system can take.
///
/// In every mode the database is intact after a crash; the modes differ in how much of the tail is
/// lost. A crash of the process alone loses no commit in any mode, unless the database is encrypted
/// ([`Options::encryption_key`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A commit returns once its record in the log is on disk: nothing is lost. Commits that come
    /// together share a flush. A background thread makes a steady point when the log has become
    /// long or some seconds old.
    Sync,
    /// As `Sync`, but without a log: every commit is a steady point.
    SyncNoLog,
    /// A commit returns at once. A background thread makes a steady point when `bytes` bytes of
    /// pages have changed or its time has passed since the first unsteady commit, and sleeps
    /// otherwise. Should it fall behind by four times as many bytes, or the disk be full, commits
    /// make a steady point themselves, or fail.
    Lazy {
        /// Bytes of changed pages after which a steady point is made.
        bytes: u64,
        /// Time after the first unsteady commit after which a steady point is made.
        period: Duration,
    },
    /// A commit returns at once. Steady points are made by [`crate::Database::sync`] and on closing
    /// only.
    NoSync,
    /// A commit returns once others have agreed on its record: see [`Options::proposer`]. Nothing is
    /// seen of it before. There is no log beside the data; steady points are made as with `Sync`.
    /// After a crash the database is at its last steady point, and the records behind it have to
    /// come from where they are kept ([`crate::Database::apply`]). One process at a time may write.
    Agreed,
}

impl Durability {
    /// `Lazy` with the default bounds: 64 MiB, one second.
    pub const LAZY: Self = Self::Lazy { bytes: 64 << 20, period: Duration::from_secs(1) };
}

/// When page checksums are verified. They are always written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksums {
    /// The first time a page is used since the database was opened.
    #[default]
    FirstTouch,
    /// Each time a page is used: for tests and doubtful memory.
    Always,
    /// Never, for files that something below already protects. The structure of a page is still
    /// checked when it is first used.
    Never,
}

/// Which free pages a writer takes first. It changes where pages are written, not what is free, and
/// nothing of it is on disk: each opening of a database may choose.
///
/// Values so large that they need several pages in a row take them where there are so many, by
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FreeSpace {
    /// Those freed last. A small set of pages is written again and again, which caches below like.
    #[default]
    Lifo,
    /// Those freed first, and before them those that were free when the database was opened or
    /// whose disk space was given back. All free pages are written in turn.
    Fifo,
    /// Those nearest to the start of the file. As records are written they move there, and the file
    /// gets shorter when much of it has become free. Records that nobody writes stay where they
    /// are.
    Lowest,
    /// None: freed pages are not used again, their disk space is not given back, and the file grows
    /// with every commit. This is the control for measurements of the others, since it writes
    /// strictly in order. A later opening with another policy uses those pages.
    Append,
}

/// For how long states of the past are kept: see [`crate::Database::branch_as_of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub(crate) age: Duration,
    pub(crate) bytes_max: Option<u64>,
}

/// Where the times of commits come from.
#[derive(Clone, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    /// Microseconds since 1970-01-01 in UTC.
    Given(Arc<dyn Fn() -> i64 + Send + Sync>),
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Given(_) => "Given",
        })
    }
}

/// How a database is encrypted.
#[derive(Debug, Clone, Default)]
pub(crate) enum Encryption {
    #[default]
    None,
    Key(EncryptionKey),
    /// As another database is, which this one becomes a copy of.
    As(Arc<Cipher>),
}

/// The names of a database's files within its directory. All that open a database have to agree on
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNames {
    /// The file with the pages.
    pub data: OsString,
    /// The file with the state that processes share.
    pub lock: OsString,
    /// The two files of the log.
    pub log: [OsString; 2],
}

impl Default for FileNames {
    /// `data`, `lock`, `log.0` and `log.1`.
    fn default() -> Self {
        Self { data: "data".into(), lock: "lock".into(), log: ["log.0".into(), "log.1".into()] }
    }
}

/// Options for [`crate::Database::open`].
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) page_size: Option<u32>,
    pub(crate) size_initial: u64,
    /// Unless it is given, no more than a fair share of the address space that is left.
    pub(crate) size_max: u64,
    pub(crate) is_size_given: bool,
    pub(crate) durability: Durability,
    pub(crate) checksums: Checksums,
    pub(crate) free_space: FreeSpace,
    pub(crate) read_only: bool,
    pub(crate) create: bool,
    pub(crate) readers_max: u32,
    pub(crate) log_bytes: Option<u64>,
    pub(crate) log_period: Duration,
    pub(crate) weak_reads: bool,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) proposer: Option<Proposing>,
    pub(crate) slow_readers: SlowReaders,
    pub(crate) temporary: bool,
    pub(crate) file_names: FileNames,
    pub(crate) retention: Option<Retention>,
    pub(crate) clock: Clock,
    pub(crate) encryption: Encryption,
    /// For tests: lookups behave as if much of the data came from the disk.
    pub(crate) seems_cold: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            page_size: None,
            size_initial: 0,
            size_max: 1 << 40,
            is_size_given: false,
            durability: Durability::Sync,
            checksums: Checksums::default(),
            free_space: FreeSpace::default(),
            read_only: false,
            create: true,
            readers_max: 1024,
            log_bytes: None,
            log_period: Duration::from_secs(30),
            weak_reads: false,
            tracer: None,
            proposer: None,
            slow_readers: SlowReaders::Grow,
            temporary: false,
            file_names: FileNames::default(),
            retention: None,
            clock: Clock::System,
            encryption: Encryption::None,
            seems_cold: false,
        }
    }
}

impl Options {
    /// The defaults: 4 KiB pages, `Sync`, checksums verified on first touch, created if missing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Page size in bytes: a power of two from 4 KiB to 64 KiB. A new database gets this size (4
    /// KiB by default); an existing one must have it, unless it is left out.
    #[must_use]
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Space to allocate for a new database, in bytes; the file grows by itself beyond it.
    #[must_use]
    pub fn size_initial(mut self, bytes: u64) -> Self {
        self.size_initial = bytes;
        self
    }

    /// Largest size of the data file, in bytes, from 256 KiB to 256 TiB: address space that is
    /// reserved, not memory. By default 1 TiB, or a 128th of the address space that is left, if
    /// that is less: a process that has hundreds of databases open has room for the next one, and
    /// each can grow to 16 times its size when it was opened, if not more.
    #[must_use]
    pub fn size_max(mut self, bytes: u64) -> Self {
        self.size_max = bytes;
        self.is_size_given = true;
        self
    }

    /// What a commit waits for. `Sync` by default.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// When page checksums are verified.
    #[must_use]
    pub fn checksums(mut self, checksums: Checksums) -> Self {
        self.checksums = checksums;
        self
    }

    /// Which free pages writers of this process take first. `Lifo` by default.
    #[must_use]
    pub fn free_space(mut self, policy: FreeSpace) -> Self {
        self.free_space = policy;
        self
    }

    /// Opens for reading only. Where the lock file cannot be written to, the database is opened
    /// without it, and refused if others have it open, or if what they left has to be recovered
    /// first.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether a missing database is created. `true` by default.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How many snapshots can be open at once, over all processes, from 1 to 1048576. The first
    /// process to open the database decides. 1024 by default.
    #[must_use]
    pub fn readers_max(mut self, readers_max: u32) -> Self {
        self.readers_max = readers_max;
        self
    }

    /// How long the log may become in `Sync` mode before a steady point is made, in bytes, from 64
    /// KiB on. By default half of the size of the data, but at least 4 MiB and at most 512 MiB.
    #[must_use]
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = Some(bytes);
        self
    }

    /// How long in `Sync` mode the log alone may hold a commit before a steady point is made.
    /// Thirty seconds by default. When nothing is committed any more, it comes within a third of
    /// that.
    #[must_use]
    pub fn log_period(mut self, period: Duration) -> Self {
        self.log_period = period;
        self
    }

    /// Whether snapshots see commits that others still wait for to be durable, in `Sync` mode. A
    /// crash may take such a commit after it was seen. `false` by default.
    #[must_use]
    pub fn weak_reads(mut self, weak_reads: bool) -> Self {
        self.weak_reads = weak_reads;
        self
    }

    /// What writers do about snapshots that hold back much space. `Grow` by default.
    #[must_use]
    pub fn slow_readers(mut self, policy: SlowReaders) -> Self {
        self.slow_readers = policy;
        self
    }

    /// Calls a function with what each commit and each steady point wrote: from the thread that
    /// writes, with the writer's lock held for commits, so it should be brief.
    #[must_use]
    pub fn trace_writes(mut self, trace: impl Fn(&WriteTrace) + Send + Sync + 'static) -> Self {
        self.tracer = Some(Tracer(Arc::new(trace)));
        self
    }

    /// Whether the database lasts only as long as it is open. Its files lose their names when they
    /// are open, so nothing is left of them when the process ends, whatever ends it. Nothing is
    /// flushed. Together with `Durability::NoSync`, for a directory that is not there yet and is
    /// removed again. `false` by default.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use colibri_storage::{Database, Durability, Options, TableKind};
    /// let path = dir.path().join("scratch");
    /// let db = Database::open(&path, &Options::new().durability(Durability::NoSync).temporary(true))?;
    /// let mut txn = db.write()?;
    /// let birds = txn.create_table("birds", TableKind::Plain)?;
    /// txn.put(&birds, b"colibri", b"80 beats a second")?;
    /// txn.commit()?;
    /// assert!(!path.exists());
    /// assert!(db.read()?.get(&birds, b"colibri")?.is_some());
    /// # Ok::<(), colibri_storage::Error>(())
    /// ```
    #[must_use]
    pub fn temporary(mut self, temporary: bool) -> Self {
        self.temporary = temporary;
        self
    }

    /// Lookups behave as if some of the pages, always others, had to come from the disk, for tests
    /// of what is done then.
    #[cfg(any(test, feature = "simulation"))]
    #[doc(hidden)]
    #[must_use]
    pub fn seems_cold(mut self, seems_cold: bool) -> Self {
        self.seems_cold = seems_cold;
        self
    }

    /// The names of the files, for a directory that holds other files as well, or other databases.
    #[must_use]
    pub fn file_names(mut self, names: FileNames) -> Self {
        self.file_names = names;
        self
    }

    /// For how long states of the past are kept, so that branches can be made of them
    /// ([`crate::Database::branch_as_of`]); not at all by default. Needs `Durability::Sync`. All
    /// processes that write should have it: what others commit counts as committed when the next
    /// state is kept, and what they make steady cannot be told from then on.
    #[must_use]
    pub fn retention(mut self, retention: impl Into<Option<Retention>>) -> Self {
        self.retention = retention.into();
        self
    }

    /// The clock by which commits and states of the past are dated: microseconds since 1970-01-01 in
    /// UTC. The system's by default.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Clock::Given(Arc::new(clock));
        self
    }

    /// The key of an encrypted database. A new database is encrypted if this is given: its pages, its
    /// log and its backups. An existing one has to be opened with its key, and one that is not
    /// encrypted without any.
    ///
    /// An encrypted database is open once at a time, and has its pages in memory of the process as
    /// long as it is open: all that were touched. A process that is killed leaves what is on disk,
    /// which in `Durability::Lazy` and `NoSync` is the last steady point. Not together with
    /// [`Options::proposer`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use colibri_storage::{Database, EncryptionKey, Error, Options};
    /// let key = EncryptionKey::random()?;
    /// let db = Database::open(dir.path(), &Options::new().encryption_key(key.clone()))?;
    /// db.close()?;
    /// assert!(matches!(Database::open(dir.path(), &Options::new()), Err(Error::KeyMissing { .. })));
    /// let other = Options::new().encryption_key(EncryptionKey::random()?);
    /// assert!(matches!(Database::open(dir.path(), &other), Err(Error::WrongKey { .. })));
    /// Database::open(dir.path(), &Options::new().encryption_key(key))?;
    /// # Ok::<(), colibri_storage::Error>(())
    /// ```
    #[must_use]
    pub fn encryption_key(mut self, key: impl Into<Option<EncryptionKey>>) -> Self {
        self.encryption = key.into().map_or(Encryption::None, Encryption::Key);
        self
    }

    /// The key of other options, if they have one.
    #[must_use]
    pub fn encryption_key_of(mut self, other: &Self) -> Self {
        self.encryption = other.encryption.clone();
        self
    }

    /// Has a new database encrypted as another one is: with the same data key.
    pub(crate) fn encrypted_as(mut self, cipher: Option<&Cipher>) -> Self {
        self.encryption = cipher.map_or(Encryption::None, |cipher| Encryption::As(Arc::new(cipher.same())));
        self
    }

    /// Takes the records of commits to others, who agree on them: for `Durability::Agreed`, which
    /// needs one.
    #[must_use]
    pub fn proposer(mut self, proposer: Arc<dyn Proposer>) -> Self {
        self.proposer = Some(Proposing(proposer));
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if let Some(size) = self.page_size
            && !(size.is_power_of_two() && (PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&size))
        {
            return Err(Error::InvalidOption {
                option: "page_size",
                reason: "must be a power of two from 4096 to 65536",
            });
        }
        if !SIZE_MAX_RANGE.contains(&self.size_max) {
            let reason = "must be from 262144 bytes (256 KiB) to 281474976710656 (256 TiB)";
            return Err(Error::InvalidOption { option: "size_max", reason });
        }
        if self.size_initial > self.size_max {
            return Err(Error::InvalidOption { option: "size_initial", reason: "must not exceed size_max" });
        }
        if !(1..=1 << 20).contains(&self.readers_max) {
            return Err(Error::InvalidOption { option: "readers_max", reason: "must be from 1 to 1048576" });
        }
        if self.log_bytes.is_some_and(|bytes| bytes < 64 << 10) {
            return Err(Error::InvalidOption { option: "log_bytes", reason: "must be at least 65536 (64 KiB)" });
        }
        if (self.durability == Durability::Agreed) != self.proposer.is_some() && !self.read_only {
            let reason = "agreed and a proposer need each other";
            return Err(Error::InvalidOption { option: "durability", reason });
        }
        if self.durability == Durability::Agreed && !matches!(self.encryption, Encryption::None) {
            let reason = "a database with a log that others agree on cannot be encrypted";
            return Err(Error::InvalidOption { option: "encryption_key", reason });
        }
        if self.temporary && (self.durability != Durability::NoSync || self.read_only || !self.create) {
            let reason = "a temporary database is made, written to, and never flushed";
            return Err(Error::InvalidOption { option: "temporary", reason });
        }
        if self.retention.is_some() && self.durability != Durability::Sync && !self.read_only {
            return Err(Error::InvalidOption { option: "retention", reason: RETENTION_NEEDS_LOG });
        }
        if let Durability::Lazy { bytes: 0, .. } = self.durability {
            return Err(Error::InvalidOption { option: "durability", reason: "lazy needs a bound of at least 1 byte" });
        }
        Ok(())
    }
}
