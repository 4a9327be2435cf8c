//! Random sequences of calls, made by a seed and carried out by any library with LMDB's functions.
#![allow(unsafe_code, reason = "calls functions of C")]

use std::ffi::{CString, c_int, c_uint};
use std::path::Path;
use std::ptr::null_mut;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::library::{Compare, Handle, Library, Stat, Val};

pub(crate) const DUPSORT: u32 = 0x04;
pub(crate) const INTEGERKEY: u32 = 0x08;
pub(crate) const DUPFIXED: u32 = 0x10;
pub(crate) const INTEGERDUP: u32 = 0x20;
pub(crate) const REVERSEKEY: u32 = 0x02;
pub(crate) const REVERSEDUP: u32 = 0x40;
const CREATE: u32 = 0x4_0000;
const RDONLY: u32 = 0x2_0000;
const NOSYNC: u32 = 0x1_0000;
const NOTLS: u32 = 0x20_0000;

const NOTFOUND: c_int = -30798;

/// What a call has answered.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Answer {
    pub(crate) code: c_int,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) number: usize,
}

impl Answer {
    fn code(code: c_int) -> Self {
        Self { code, key: None, value: None, number: 0 }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Begin,
    BeginNested,
    Commit,
    Abort,
    Get {
        db: usize,
        key: Vec<u8>,
    },
    Put {
        db: usize,
        key: Vec<u8>,
        value: Vec<u8>,
        flags: u32,
    },
    Reserve {
        db: usize,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Del {
        db: usize,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    },
    Drop {
        db: usize,
    },
    Stat {
        db: usize,
    },
    CursorOpen {
        cursor: usize,
        db: usize,
    },
    CursorClose {
        cursor: usize,
    },
    Move {
        cursor: usize,
        to: u32,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    CursorPut {
        cursor: usize,
        key: Vec<u8>,
        value: Vec<u8>,
        flags: u32,
    },
    /// Replaces the current value.
    Replace {
        cursor: usize,
        value: Vec<u8>,
    },
    PutMultiple {
        cursor: usize,
        key: Vec<u8>,
        values: Vec<u8>,
        count: usize,
    },
    CursorDel {
        cursor: usize,
        flags: u32,
    },
    Count {
        cursor: usize,
    },
    /// All entries of a database, in a read transaction.
    ReadAll {
        db: usize,
    },
}

pub(crate) const FIRST: u32 = 0;
pub(crate) const GET_CURRENT: u32 = 4;
pub(crate) const LAST: u32 = 6;
pub(crate) const NEXT: u32 = 8;

pub(crate) const CURSORS: usize = 3;
/// Moves after which LMDB says nothing about where a cursor stands when they fail.
const SETTING: [u32; 5] = [2, 3, 15, 16, 17];
/// Moves that may meet the end.
const FORWARD: [u32; 3] = [8, 9, 11];
const STEPS: [u32; 6] = [8, 9, 11, 12, 13, 14];
/// Moves for databases in which a key has several values.
const DUP_MOVES: [u32; 6] = [1, 2, 3, 7, 9, 13];

/// A database of a sequence: its flags, and whether it has orders of the program's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) flags: u32,
    pub(crate) own_order: bool,
    /// Values are so large that the tree has several pages. What LMDB's cursors do beside a removed
    /// entry depends on the pages then, so nothing is asked of them there.
    pub(crate) has_pages: bool,
}

/// A sequence: databases, and calls on them.
pub(crate) struct Sequence {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) calls: Vec<Call>,
}

fn key_for(kind: Kind, rng: &mut StdRng) -> Vec<u8> {
    if kind.flags & INTEGERKEY != 0 {
        let number: u64 = rng.random_range(0..12) * [1, 1, 300, 70_000][rng.random_range(0..4)];
        return number.to_ne_bytes().to_vec();
    }
    let letters = [b"ab".as_slice(), b"\0\x01", b"xy\xff"][rng.random_range(0..3)];
    let len = [1, 2, 3, 3, 40][rng.random_range(0..5)];
    (0..len).map(|_| letters[rng.random_range(0..letters.len())]).collect()
}

fn value_for(kind: Kind, rng: &mut StdRng) -> Vec<u8> {
    if kind.flags & DUPSORT == 0 {
        let lens: &[usize] = if kind.has_pages { &[0, 1, 5, 200, 1500, 3000, 9000] } else { &[0, 1, 5, 30] };
        let len = lens[rng.random_range(0..lens.len())];
        return (0..len).map(|i| (i as u8) ^ rng.random_range(0..4_u8)).collect();
    }
    if kind.flags & INTEGERDUP != 0 {
        let number: u64 = rng.random_range(0..20) * [1, 300][rng.random_range(0..2)];
        return number.to_ne_bytes().to_vec();
    }
    let len = if kind.flags & DUPFIXED != 0 { 6 } else { [1, 2, 3, 60][rng.random_range(0..4)] };
    let letters = [b"ab".as_slice(), b"\0\x01"][rng.random_range(0..2)];
    (0..len).map(|_| letters[rng.random_range(0..letters.len())]).collect()
}

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let has_pages = rng.random_range(0..3) == 0;
        let kinds: Vec<Kind> = (0..2)
            .map(|_| {
                let keys = [0, 0, REVERSEKEY, INTEGERKEY][rng.random_range(0..4)];
                let values = [
                    0,
                    0,
                    DUPSORT,
                    DUPSORT | DUPFIXED,
                    DUPSORT | DUPFIXED | INTEGERDUP,
                    DUPSORT | REVERSEDUP,
                    DUPSORT | INTEGERDUP,
                ][rng.random_range(0..7)];
                Kind {
                    flags: keys | values,
                    own_order: rng.random_range(0..8) == 0 && keys == 0 && values & !DUPSORT == 0,
                    has_pages,
                }
            })
            .collect();
        let mut calls = vec![Call::Begin];
        let mut open: [Option<usize>; CURSORS] = [None; CURSORS];
        for _ in 0..rng.random_range(5..70) {
            let call = Self::call(&kinds, &mut open, rng);
            calls.push(call);
        }
        calls.push(Call::Commit);
        calls.push(Call::Commit);
        calls.extend((0..kinds.len()).map(|db| Call::ReadAll { db }));
        Self { kinds, calls }
    }

    fn call(kinds: &[Kind], open: &mut [Option<usize>; CURSORS], rng: &mut StdRng) -> Call {
        let db = rng.random_range(0..kinds.len());
        let cursor = if kinds[0].has_pages { 0 } else { rng.random_range(0..CURSORS) };
        let of_cursor = open[cursor];
        let kind = kinds[of_cursor.filter(|_| rng.random_range(0..100) >= 45).unwrap_or(db)];
        match rng.random_range(0..100) {
            0 => Call::Begin,
            1..=2 => Call::BeginNested,
            3 => Call::Commit,
            4 => Call::Abort,
            5 => Call::Drop { db },
            6..=7 => Call::Stat { db },
            8..=13 => Call::Get { db, key: key_for(kinds[db], rng) },
            14..=40 => {
                let flags = [0, 0, 0, 0, 0x10, 0x20, 0x2_0000, 0x4_0000][rng.random_range(0..8)];
                let flags = if kinds[db].flags & DUPSORT == 0 { flags & !(0x20 | 0x4_0000) } else { flags };
                Call::Put { db, key: key_for(kinds[db], rng), value: value_for(kinds[db], rng), flags }
            }
            41 if kinds[db].flags & DUPSORT == 0 => {
                Call::Reserve { db, key: key_for(kinds[db], rng), value: value_for(kinds[db], rng) }
            }
            41..=46 => {
                let value = (rng.random_range(0..2) == 0).then(|| value_for(kinds[db], rng));
                Call::Del { db, key: key_for(kinds[db], rng), value }
            }
            _ if of_cursor.is_none() => {
                open[cursor] = Some(db);
                Call::CursorOpen { cursor, db }
            }
            47..=48 => {
                open[cursor] = None;
                Call::CursorClose { cursor }
            }
            49..=54 => Call::CursorDel { cursor, flags: [0, 0, 0x20][rng.random_range(0..3)] },
            55..=57 => Call::Count { cursor },
            58..=64 => {
                let kind = kinds[of_cursor.unwrap_or(db)];
                let flags = [0, 0, 0x10, 0x20][rng.random_range(0..4)];
                let flags = if kind.flags & DUPSORT == 0 { flags & !0x20 } else { flags };
                Call::CursorPut { cursor, key: key_for(kind, rng), value: value_for(kind, rng), flags }
            }
            65..=67 => Call::Replace { cursor, value: value_for(kinds[of_cursor.unwrap_or(db)], rng) },
            68 if kinds[of_cursor.unwrap_or(db)].flags & DUPFIXED != 0 => {
                let kind = kinds[of_cursor.unwrap_or(db)];
                let count = rng.random_range(1..6);
                let mut values: Vec<Vec<u8>> = (0..count).map(|_| value_for(kind, rng)).collect();
                values.sort();
                values.dedup();
                let count = values.len();
                let values = values.concat();
                Call::PutMultiple { cursor, key: key_for(kind, rng), values, count }
            }
            _ => {
                let kind = if let Some(db) = of_cursor { kinds[db] } else { kind };
                let moves: &[u32] = &[0, 1, 2, 3, 4, 6, 7, 8, 8, 8, 9, 11, 12, 12, 13, 14, 15, 16, 17, 17];
                let mut to = moves[rng.random_range(0..moves.len())];
                if kind.flags & DUPSORT == 0 && DUP_MOVES.contains(&to) {
                    to = 8;
                }
                Call::Move { cursor, to, key: key_for(kind, rng), value: value_for(kind, rng) }
            }
        }
    }
}

/// An order of the program's own: by length, then backwards.
extern "C" fn own_order(one: *const Val, other: *const Val) -> c_int {
    // SAFETY: the library gives two values.
    let (one, other) = unsafe { (bytes(&*one), bytes(&*other)) };
    one.len().cmp(&other.len()).then_with(|| other.cmp(one)) as c_int
}

fn bytes(value: &Val) -> &[u8] {
    if value.size == 0 {
        return &[];
    }
    // SAFETY: `value` comes from the library or from `val`, and both give it the length of its
    // bytes.
    unsafe { std::slice::from_raw_parts(value.data.cast(), value.size) }
}

fn val(bytes: &[u8]) -> Val {
    Val { size: bytes.len(), data: bytes.as_ptr().cast() }
}

/// An environment of one library, and what a sequence has open in it.
pub(crate) struct Side<'l> {
    library: &'l Library,
    env: Handle,
    txns: Vec<Handle>,
    dbis: Vec<c_uint>,
    /// With the number of transactions that were open when it was opened.
    cursors: [Option<(Handle, usize)>; CURSORS],
    cursor_dbs: [usize; CURSORS],
    /// What the last reservation is filled with, until the next call.
    made: usize,
}

impl<'l> Side<'l> {
    pub(crate) fn open(library: &'l Library, dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let path = CString::new(dir.to_str().unwrap()).unwrap();
        let mut env = null_mut();
        // SAFETY: pointers to what lives here.
        unsafe {
            assert_eq!((library.env_create)(&raw mut env), 0);
            assert_eq!((library.env_set_maxdbs)(env, 64), 0);
            assert_eq!((library.env_set_mapsize)(env, 1 << 28), 0);
            assert_eq!((library.env_open)(env, path.as_ptr(), NOSYNC | NOTLS, 0o644), 0);
        }
        Self {
            library,
            env,
            txns: Vec::new(),
            dbis: Vec::new(),
            cursors: [None; CURSORS],
            cursor_dbs: [0; CURSORS],
            made: 0,
        }
    }

    /// Makes the databases of a sequence.
    pub(crate) fn begin(&mut self, kinds: &[Kind]) {
        assert!(self.txns.is_empty());
        self.begin_txn(0);
        self.dbis.clear();
        for kind in kinds {
            self.made += 1;
            let name = CString::new(format!("db{}", self.made)).unwrap();
            let mut dbi = 0;
            // SAFETY: as above.
            unsafe {
                let code = (self.library.dbi_open)(self.txns[0], name.as_ptr(), kind.flags | CREATE, &raw mut dbi);
                assert_eq!(code, 0);
                if kind.own_order {
                    let compare: Compare = own_order;
                    assert_eq!((self.library.set_compare)(self.txns[0], dbi, compare), 0);
                    if kind.flags & DUPSORT != 0 {
                        assert_eq!((self.library.set_dupsort)(self.txns[0], dbi, compare), 0);
                    }
                }
            }
            self.dbis.push(dbi);
        }
        assert_eq!(self.end_txn(true), 0);
    }

    /// Removes them again.
    pub(crate) fn end(&mut self) {
        while !self.txns.is_empty() {
            self.end_txn(false);
        }
        self.begin_txn(0);
        for &dbi in &self.dbis {
            // SAFETY: as above.
            assert_eq!(unsafe { (self.library.drop)(self.txns[0], dbi, 1) }, 0);
        }
        assert_eq!(self.end_txn(true), 0);
    }

    pub(crate) fn close(self) {
        // SAFETY: nothing of it is used any more.
        unsafe { (self.library.env_close)(self.env) };
    }

    fn begin_txn(&mut self, flags: u32) -> c_int {
        let mut txn = null_mut();
        let parent = self.txns.last().copied().unwrap_or(null_mut());
        // SAFETY: as above.
        let code = unsafe { (self.library.txn_begin)(self.env, parent, flags, &raw mut txn) };
        if code == 0 {
            self.txns.push(txn);
        }
        code
    }

    fn end_txn(&mut self, commit: bool) -> c_int {
        let Some(txn) = self.txns.pop() else { return 0 };
        let depth = self.txns.len();
        for cursor in &mut self.cursors {
            // Cursors of a write transaction end with it.
            if cursor.is_some_and(|(_, opened)| opened > depth) {
                *cursor = None;
            }
        }
        // SAFETY: the transaction is open, and no longer afterwards.
        unsafe {
            if commit {
                return (self.library.txn_commit)(txn);
            }
            (self.library.txn_abort)(txn);
        }
        0
    }

    /// Carries out a call. `None` if it would use what is not there.
    pub(crate) fn carry_out(&mut self, call: &Call, kinds: &[Kind]) -> Option<Answer> {
        let library = self.library;
        let txn = self.txns.last().copied();
        let (mut key, mut value) = (val(&[]), val(&[]));
        // SAFETY (of all blocks here): open handles, and pointers to what lives here.
        Some(match call {
            Call::Begin => {
                if !self.txns.is_empty() {
                    return None;
                }
                Answer::code(self.begin_txn(0))
            }
            Call::BeginNested => {
                if self.txns.is_empty() || self.txns.len() > 3 {
                    return None;
                }
                Answer::code(self.begin_txn(0))
            }
            Call::Commit => Answer::code(self.end_txn(true)),
            Call::Abort => Answer::code(self.end_txn(false)),
            Call::Get { db, key: wanted } => {
                key = val(wanted);
                // SAFETY: see above.
                let code = unsafe { (library.get)(txn?, self.dbis[*db], &raw mut key, &raw mut value) };
                Answer { code, key: None, value: (code == 0).then(|| bytes(&value).to_vec()), number: 0 }
            }
            Call::Put { db, key: wanted, value: stored, flags } => {
                if self.are_others_stale(*db, None, kinds) {
                    return None;
                }
                (key, value) = (val(wanted), val(stored));
                // SAFETY: see above.
                let code = unsafe { (library.put)(txn?, self.dbis[*db], &raw mut key, &raw mut value, *flags) };
                let shows = code == 0 || code == -30799 && flags & 0x10 != 0;
                Answer { code, key: None, value: shows.then(|| bytes(&value).to_vec()), number: 0 }
            }
            Call::Reserve { db, key: wanted, value: stored } => {
                (key, value) = (val(wanted), Val { size: stored.len(), data: std::ptr::null() });
                // SAFETY: see above.
                let code = unsafe { (library.put)(txn?, self.dbis[*db], &raw mut key, &raw mut value, 0x1_0000) };
                if code == 0 && value.size > 0 {
                    // SAFETY: the library has given room for as many bytes.
                    unsafe { std::ptr::copy(stored.as_ptr(), value.data.cast::<u8>().cast_mut(), stored.len()) };
                }
                Answer { number: value.size, ..Answer::code(code) }
            }
            Call::Del { db, key: wanted, value: stored } => {
                if kinds[0].has_pages && self.cursors.iter().any(Option::is_some) {
                    return None;
                }
                key = val(wanted);
                value = val(stored.as_deref().unwrap_or_default());
                let value = if stored.is_some() { &raw mut value } else { null_mut() };
                // SAFETY: see above.
                Answer::code(unsafe { (library.del)(txn?, self.dbis[*db], &raw mut key, value) })
            }
            Call::Drop { db } => {
                let txn = txn?;
                for cursor in &mut self.cursors {
                    // What they would stand on is not said.
                    if let Some((cursor, _)) = cursor.take() {
                        // SAFETY: see above.
                        unsafe { (library.cursor_close)(cursor) };
                    }
                }
                // SAFETY: see above.
                Answer::code(unsafe { (library.drop)(txn, self.dbis[*db], 0) })
            }
            Call::Stat { db } => {
                let mut stat = Stat::default();
                // SAFETY: see above.
                let code = unsafe { (library.stat)(txn?, self.dbis[*db], &raw mut stat) };
                Answer { number: stat.entries, ..Answer::code(code) }
            }
            Call::CursorOpen { cursor, db } => {
                if let Some((old, _)) = self.cursors[*cursor].take() {
                    // SAFETY: see above.
                    unsafe { (library.cursor_close)(old) };
                }
                let mut opened = null_mut();
                // SAFETY: see above.
                let code = unsafe { (library.cursor_open)(txn?, self.dbis[*db], &raw mut opened) };
                self.cursors[*cursor] = (code == 0).then_some((opened, self.txns.len()));
                self.cursor_dbs[*cursor] = *db;
                Answer::code(code)
            }
            Call::CursorClose { cursor } => {
                let (closed, _) = self.cursors[*cursor].take()?;
                // SAFETY: see above.
                unsafe { (library.cursor_close)(closed) };
                Answer::code(0)
            }
            Call::Move { cursor, to, key: wanted, value: other } => {
                let cursor = self.usable(*cursor)?;
                (key, value) = (val(wanted), val(other));
                // SAFETY: see above.
                let code = unsafe { (library.cursor_get)(cursor, &raw mut key, &raw mut value, *to) };
                if code == NOTFOUND && SETTING.contains(to) {
                    // Where it stands now is not said: to an end.
                    // SAFETY: see above.
                    unsafe { (library.cursor_get)(cursor, &raw mut key, &raw mut value, 0) };
                }
                if code == NOTFOUND && STEPS.contains(to) {
                    // LMDB remembers that it has met an end, whatever is removed then, until the
                    // cursor moves elsewhere.
                    let back = if FORWARD.contains(to) { 12 } else { 0 };
                    // SAFETY: see above.
                    let code = unsafe { (library.cursor_get)(cursor, &raw mut key, &raw mut value, back) };
                    return Some(Answer { number: 1, ..self.moved(code, back, &key, &value) });
                }
                self.moved(code, *to, &key, &value)
            }
            Call::CursorPut { cursor, key: wanted, value: stored, flags } => {
                let (at, cursor) = (*cursor, self.usable(*cursor)?);
                if self.are_others_stale(self.cursor_dbs[at], Some(at), kinds) {
                    return None;
                }
                (key, value) = (val(wanted), val(stored));
                // SAFETY: see above.
                Answer::code(unsafe { (library.cursor_put)(cursor, &raw mut key, &raw mut value, *flags) })
            }
            Call::Replace { cursor, value: stored } => {
                let (at, cursor) = (*cursor, self.usable(*cursor)?);
                let mut count = 1;
                if kinds[self.cursor_dbs[at]].flags & DUPSORT != 0 {
                    let code = self.count(cursor, &mut count);
                    // LMDB leaves it open where a value goes that does not sort into the same place.
                    if code != 0 || count > 1 {
                        return Some(Answer { number: count, ..Answer::code(code) });
                    }
                }
                // SAFETY: see above.
                let code = unsafe { (library.cursor_get)(cursor, &raw mut key, &raw mut value, 4) };
                if code != 0 {
                    return Some(Answer::code(code));
                }
                let at = bytes(&key).to_vec();
                (key, value) = (val(&at), val(stored));
                // SAFETY: see above.
                Answer::code(unsafe { (library.cursor_put)(cursor, &raw mut key, &raw mut value, 0x40) })
            }
            Call::PutMultiple { cursor, key: wanted, values, count } => {
                let (at, cursor) = (*cursor, self.usable(*cursor)?);
                if self.are_others_stale(self.cursor_dbs[at], Some(at), kinds) {
                    return None;
                }
                key = val(wanted);
                // Where one of them is there already, LMDB leaves out those behind it.
                // SAFETY: see above.
                let deleted = unsafe { (library.del)(txn?, self.dbis[self.cursor_dbs[at]], &raw mut key, null_mut()) };
                if deleted != 0 && deleted != NOTFOUND {
                    return Some(Answer::code(deleted));
                }
                let size = values.len() / count;
                let mut both =
                    [Val { size, data: values.as_ptr().cast() }, Val { size: *count, data: std::ptr::null() }];
                // SAFETY: see above.
                let code = unsafe { (library.cursor_put)(cursor, &raw mut key, both.as_mut_ptr(), 0x8_0000) };
                Answer { number: both[1].size, ..Answer::code(code) }
            }
            Call::CursorDel { cursor, flags } => {
                let cursor = self.usable(*cursor)?;
                // SAFETY: see above.
                let code = unsafe { (library.cursor_del)(cursor, *flags) };
                if code == 0 && kinds[0].has_pages {
                    // SAFETY: see above.
                    let code = unsafe { (library.cursor_get)(cursor, &raw mut key, &raw mut value, 0) };
                    return Some(self.moved(code, 0, &key, &value));
                }
                Answer::code(code)
            }
            Call::Count { cursor } => {
                let cursor = self.usable(*cursor)?;
                let mut number = 0;
                let code = self.count(cursor, &mut number);
                Answer { number, ..Answer::code(code) }
            }
            Call::ReadAll { db } => self.read_all(*db, kinds),
        })
    }

    /// Counts the values of the current key, from the first one: LMDB may have missed that others
    /// came to it.
    fn count(&self, cursor: Handle, number: &mut usize) -> c_int {
        let (library, mut key, mut value) = (self.library, val(&[]), val(&[]));
        // SAFETY: an open cursor, and pointers to what lives here.
        unsafe {
            let mut code = (library.cursor_get)(cursor, &raw mut key, &raw mut value, 4);
            if code == 0 {
                let here = bytes(&key).to_vec();
                key = val(&here);
                code = (library.cursor_get)(cursor, &raw mut key, &raw mut value, 15);
            }
            if code == 0 { (library.cursor_count)(cursor, number) } else { code }
        }
    }

    /// Whether other cursors than this one stand in a database in which keys have several values. LMDB
    /// does not tell them when a key with one value gets a second one.
    fn are_others_stale(&self, db: usize, but: Option<usize>, kinds: &[Kind]) -> bool {
        let others = (0..CURSORS).filter(|&at| Some(at) != but && self.cursors[at].is_some());
        kinds[db].flags & DUPSORT != 0 && others.into_iter().any(|at| self.cursor_dbs[at] == db)
    }

    /// A cursor, if it belongs to the transaction that is active.
    fn usable(&self, cursor: usize) -> Option<Handle> {
        self.cursors[cursor].filter(|&(_, opened)| opened == self.txns.len()).map(|(cursor, _)| cursor)
    }

    fn moved(&self, code: c_int, to: u32, key: &Val, value: &Val) -> Answer {
        let gives = |given: &Val| (code == 0).then(|| bytes(given).to_vec());
        // The key is not given by these moves.
        let key = if [1, 7].contains(&to) { None } else { gives(key) };
        Answer { code, key, value: gives(value), number: 0 }
    }

    fn read_all(&mut self, db: usize, _kinds: &[Kind]) -> Answer {
        if !self.txns.is_empty() {
            return Answer::code(0);
        }
        assert_eq!(self.begin_txn(RDONLY), 0);
        let (library, txn) = (self.library, self.txns[0]);
        let mut all = Vec::new();
        let mut cursor = null_mut();
        let (mut key, mut value) = (val(&[]), val(&[]));
        // SAFETY: open handles, and pointers to what lives here.
        unsafe {
            let mut code = (library.cursor_open)(txn, self.dbis[db], &raw mut cursor);
            if code == 0 {
                code = (library.cursor_get)(cursor, &raw mut key, &raw mut value, 0);
                while code == 0 {
                    all.extend_from_slice(&(key.size as u32).to_le_bytes());
                    all.extend_from_slice(bytes(&key));
                    all.extend_from_slice(&(value.size as u32).to_le_bytes());
                    all.extend_from_slice(bytes(&value));
                    code = (library.cursor_get)(cursor, &raw mut key, &raw mut value, 8);
                }
                (library.cursor_close)(cursor);
            }
            self.end_txn(false);
            Answer { value: Some(all), ..Answer::code(code) }
        }
    }
}
