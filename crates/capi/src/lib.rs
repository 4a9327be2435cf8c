//! Colibri from C.
//!
//! `lmdb` offers the interface of LMDB 0.9: the names, numbers and rules of its functions, over
//! Colibri's storage engine. A program built for LMDB runs with this library by relinking, or by
//! `LD_PRELOAD`. What differs is in `docs/LMDB.md`.
//!
//! No panic leaves the library: each function of C catches it and returns `MDB_PANIC`.

mod lmdb;
