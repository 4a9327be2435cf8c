//! Colibri from C.
//!
//! | module | what |
//! | --- | --- |
//! | `sql` | SQL in process, in `colibri.h` |
//! | `engine` | the storage engine's key-value interface, in `colibri.h` |
//! | `handles`, `fault`, `pointers`, `fork` | what both use: handles that notice misuse, errors, pointers of C, processes |
//! | `lmdb` | the interface of LMDB 0.9, in `lmdb.h` |
//!
//! A program built for LMDB runs with this library by relinking, or by `LD_PRELOAD`. What differs
//! is in `docs/LMDB.md`; `docs/C.md` introduces `colibri.h`, whose comments are the reference.
//!
//! No panic leaves the library: each function of C catches it and returns a code.

mod engine;
mod fault;
mod fork;
mod handles;
mod lmdb;
mod pointers;
mod sql;
