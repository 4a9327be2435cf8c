//! Work on files of results: compare, draw, merge, and run a whole matrix of benchmarks.
//!
//! | module | command |
//! | --- | --- |
//! | `compare` | `bench compare`: did anything become worse? |
//! | `history` | `bench history`: a page of how results changed over commits |
//! | `matrix` | `bench matrix`: many runs, in an order that a seed shuffles |
//! | `merge` | `bench merge`: results of several generators become one |
//! | `comparable` | which results may stand side by side |
//!
//! All of them work on results of SQL workloads ([`crate::sql`]).

pub(crate) mod comparable;
pub mod compare;
pub mod history;
pub mod matrix;
pub mod merge;
