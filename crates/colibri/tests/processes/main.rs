//! Several processes on one database: the first owns it, the others are its guests. And fresh copies,
//! which the owner makes.
//!
//! | file | what |
//! | --- | --- |
//! | `child` | another process |
//! | `alike` | a guest and an owner get the same |
//! | `ends` | processes that close, end or are killed; versions; who may connect |
//! | `fresh` | copies of a database, which end with their users |

#![allow(clippy::unwrap_used, reason = "tests")]

mod alike;
mod child;
mod ends;
mod fresh;
