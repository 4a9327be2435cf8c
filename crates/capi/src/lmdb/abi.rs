//! What C sees: structs, constants, codes.

use std::ffi::{CStr, c_int, c_uint, c_void};

use colibri_storage::Error;

/// Bytes that the program gives, or is given.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MdbVal {
    pub(crate) size: usize,
    pub(crate) data: *mut c_void,
}

/// Size and shape of a database.
#[repr(C)]
pub(crate) struct MdbStat {
    pub(crate) psize: c_uint,
    pub(crate) depth: c_uint,
    pub(crate) branch_pages: usize,
    pub(crate) leaf_pages: usize,
    pub(crate) overflow_pages: usize,
    pub(crate) entries: usize,
}

/// Figures of an environment.
#[repr(C)]
pub(crate) struct MdbEnvInfo {
    pub(crate) mapaddr: *mut c_void,
    pub(crate) mapsize: usize,
    pub(crate) last_pgno: usize,
    pub(crate) last_txnid: usize,
    pub(crate) maxreaders: c_uint,
    pub(crate) numreaders: c_uint,
}

/// A comparison that the program chooses.
pub(crate) type Compare = unsafe extern "C" fn(*const MdbVal, *const MdbVal) -> c_int;

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<MdbVal>() == 16);
    assert!(size_of::<MdbStat>() == 40);
    assert!(size_of::<MdbEnvInfo>() == 40);
};

pub(crate) const VERSION: (c_int, c_int, c_int) = (0, 9, 33);
pub(crate) const VERSION_TEXT: &CStr = c"LMDB 0.9.33: (Colibri 0.1.0)";

/// The longest key in bytes, and the longest value of a key that may have several.
pub(crate) const KEY_BYTES_MAX: usize = 511;

/// Flags of environments.
pub(crate) mod env_flag {
    pub(crate) const FIXEDMAP: u32 = 0x01;
    pub(crate) const NOSUBDIR: u32 = 0x4000;
    pub(crate) const NOSYNC: u32 = 0x1_0000;
    pub(crate) const RDONLY: u32 = 0x2_0000;
    pub(crate) const NOMETASYNC: u32 = 0x4_0000;
    pub(crate) const WRITEMAP: u32 = 0x8_0000;
    pub(crate) const MAPASYNC: u32 = 0x10_0000;
    pub(crate) const NOTLS: u32 = 0x20_0000;
    pub(crate) const NOLOCK: u32 = 0x40_0000;
    pub(crate) const NORDAHEAD: u32 = 0x80_0000;
    pub(crate) const NOMEMINIT: u32 = 0x100_0000;

    /// Those that can change while the environment is open.
    pub(crate) const CHANGEABLE: u32 = NOSYNC | NOMETASYNC | MAPASYNC | NOMEMINIT;
    pub(crate) const ALL: u32 = CHANGEABLE | FIXEDMAP | NOSUBDIR | RDONLY | WRITEMAP | NOTLS | NOLOCK | NORDAHEAD;
}

/// Flags of databases.
pub(crate) mod db_flag {
    pub(crate) const REVERSEKEY: u32 = 0x02;
    pub(crate) const DUPSORT: u32 = 0x04;
    pub(crate) const INTEGERKEY: u32 = 0x08;
    pub(crate) const DUPFIXED: u32 = 0x10;
    pub(crate) const INTEGERDUP: u32 = 0x20;
    pub(crate) const REVERSEDUP: u32 = 0x40;
    pub(crate) const CREATE: u32 = 0x4_0000;

    /// Those that are kept with the database.
    pub(crate) const KEPT: u32 = REVERSEKEY | DUPSORT | INTEGERKEY | DUPFIXED | INTEGERDUP | REVERSEDUP;
}

/// Flags of writing.
pub(crate) mod put_flag {
    pub(crate) const NOOVERWRITE: u32 = 0x10;
    pub(crate) const NODUPDATA: u32 = 0x20;
    pub(crate) const CURRENT: u32 = 0x40;
    pub(crate) const RESERVE: u32 = 0x1_0000;
    pub(crate) const APPEND: u32 = 0x2_0000;
    pub(crate) const APPENDDUP: u32 = 0x4_0000;
    pub(crate) const MULTIPLE: u32 = 0x8_0000;

    /// Those of writing without a cursor.
    pub(crate) const PLAIN: u32 = NOOVERWRITE | NODUPDATA | RESERVE | APPEND | APPENDDUP;
}

/// Compacts while copying.
pub(crate) const CP_COMPACT: u32 = 0x01;

/// Moves of cursors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Move {
    First,
    FirstDup,
    GetBoth,
    GetBothRange,
    GetCurrent,
    GetMultiple,
    Last,
    LastDup,
    Next,
    NextDup,
    NextMultiple,
    NextNodup,
    Prev,
    PrevDup,
    PrevNodup,
    Set,
    SetKey,
    SetRange,
    PrevMultiple,
}

impl Move {
    const ALL: [Self; 19] = [
        Self::First,
        Self::FirstDup,
        Self::GetBoth,
        Self::GetBothRange,
        Self::GetCurrent,
        Self::GetMultiple,
        Self::Last,
        Self::LastDup,
        Self::Next,
        Self::NextDup,
        Self::NextMultiple,
        Self::NextNodup,
        Self::Prev,
        Self::PrevDup,
        Self::PrevNodup,
        Self::Set,
        Self::SetKey,
        Self::SetRange,
        Self::PrevMultiple,
    ];

    pub(crate) fn of(number: c_uint) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// What a function of C returns when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

pub(crate) type Result<T> = std::result::Result<T, Code>;

impl Code {
    pub(crate) const KEYEXIST: Self = Self(-30799);
    pub(crate) const NOTFOUND: Self = Self(-30798);
    pub(crate) const CORRUPTED: Self = Self(-30796);
    pub(crate) const PANIC: Self = Self(-30795);
    pub(crate) const VERSION_MISMATCH: Self = Self(-30794);
    pub(crate) const INVALID: Self = Self(-30793);
    pub(crate) const MAP_FULL: Self = Self(-30792);
    pub(crate) const DBS_FULL: Self = Self(-30791);
    pub(crate) const READERS_FULL: Self = Self(-30790);
    pub(crate) const INCOMPATIBLE: Self = Self(-30784);
    pub(crate) const BAD_RSLOT: Self = Self(-30783);
    pub(crate) const BAD_TXN: Self = Self(-30782);
    pub(crate) const BAD_VALSIZE: Self = Self(-30781);
    pub(crate) const BAD_DBI: Self = Self(-30780);

    pub(crate) const INVAL: Self = Self(libc::EINVAL);
    pub(crate) const ACCES: Self = Self(libc::EACCES);

    pub(crate) fn of_io(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(match error.kind() {
            std::io::ErrorKind::AlreadyExists => libc::EEXIST,
            std::io::ErrorKind::NotFound => libc::ENOENT,
            _ => libc::EIO,
        }))
    }
}

impl From<Error> for Code {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => Self::of_io(&source),
            Error::DiskFull { .. } => Self(libc::ENOSPC),
            Error::Removed { .. } | Error::NotFound { .. } => Self(libc::ENOENT),
            Error::DatabaseFull { .. } => Self::MAP_FULL,
            Error::Corrupted { .. } | Error::CorruptedLog { .. } => Self::CORRUPTED,
            Error::NotADatabase { .. } => Self::INVALID,
            Error::NewerFormat { .. } | Error::OtherVersionRunning { .. } => Self::VERSION_MISMATCH,
            Error::ReadOnly | Error::LockNotWritable { .. } | Error::NeedsRecovery { .. } => Self::ACCES,
            Error::ReadersFull { .. } => Self::READERS_FULL,
            Error::ProcessesFull { .. } => Self(libc::EAGAIN),
            Error::Busy => Self(libc::EBUSY),
            Error::Poisoned => Self::PANIC,
            Error::KeyEmpty | Error::KeyTooLong { .. } | Error::ValueTooLong { .. } | Error::TableName { .. } => {
                Self::BAD_VALSIZE
            }
            Error::KeyNotInOrder => Self::KEYEXIST,
            Error::NoSuchTable { .. } => Self::NOTFOUND,
            Error::TableExists { .. } | Error::WrongTableKind { .. } => Self::INCOMPATIBLE,
            _ => Self::INVAL,
        }
    }
}

/// What a code of this interface means; `None` for those of the operating system.
pub(crate) fn text_of(code: c_int) -> Option<&'static CStr> {
    Some(match code {
        0 => c"no error",
        -30799 => c"MDB_KEYEXIST: the key, or this pair, is there already",
        -30798 => c"MDB_NOTFOUND: there is no such key or pair, or no entry in this direction",
        -30797 => c"MDB_PAGE_NOTFOUND: a page that is referred to is not there",
        -30796 => c"MDB_CORRUPTED: bytes in the file are not what was written",
        -30795 => c"MDB_PANIC: an earlier failure has made the environment unusable",
        -30794 => c"MDB_VERSION_MISMATCH: the file is of a version that this library does not read",
        -30793 => c"MDB_INVALID: the file is not a database of Colibri",
        -30792 => c"MDB_MAP_FULL: the environment has reached its largest size",
        -30791 => c"MDB_DBS_FULL: all handles of named databases are in use (mdb_env_set_maxdbs)",
        -30790 => c"MDB_READERS_FULL: all reader slots are in use (mdb_env_set_maxreaders)",
        -30789 => c"MDB_TLS_FULL: the process has too many keys of thread-local storage",
        -30788 => c"MDB_TXN_FULL: the transaction is too large",
        -30787 => c"MDB_CURSOR_FULL: the tree is deeper than a cursor reaches",
        -30786 => c"MDB_PAGE_FULL: a page has no room",
        -30785 => c"MDB_MAP_RESIZED: another process has made the environment larger",
        -30784 => c"MDB_INCOMPATIBLE: the operation does not fit this kind of database",
        -30783 => c"MDB_BAD_RSLOT: this thread has a read transaction already",
        -30782 => c"MDB_BAD_TXN: the transaction has ended, has failed, or has a nested one that is active",
        -30781 => c"MDB_BAD_VALSIZE: the size of a key, a value or a pair is not allowed here",
        -30780 => c"MDB_BAD_DBI: the handle of the database was closed or never opened",
        _ => return None,
    })
}
