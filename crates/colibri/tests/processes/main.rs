//! Several processes on one database: the first owns it, the others are its guests.
//!
//! | file | what |
//! | --- | --- |
//! | `child` | another process |
//! | `alike` | a guest and an owner get the same |
//! | `ends` | processes that close, end or are killed; versions; who may connect |

#![allow(clippy::unwrap_used, reason = "tests")]

mod alike;
mod child;
mod ends;
