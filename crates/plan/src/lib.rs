//! From syntax trees to plans: names and types are resolved, queries are rewritten, operators are
//! chosen, and plans are shown.
//!
//! ```text
//! syntax tree ── bind ──► logical query ── planner: passes, then operators ──► plan ──► explain
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `bind` | names and types resolved against the catalogue |
//! | `expr` | expressions as they are bound, planned and run |
//! | `logical` | what binding yields: queries before operators are chosen |
//! | `planner` | the passes that rewrite queries; the choice of operators |
//! | `plan` | operators: immutable data, run by `colibri-exec` |
//! | `explain` | plans as text and as JSON |
//! | `deep_stack` | the stack that deep statements take |
//!
//! A plan knows nothing of its runs, and planning reads no rows: what it asks of the database is in
//! [`planner::Sizes`].
//!
//! Internal to this workspace: nothing in here is promised to anybody else.

#![allow(missing_docs, reason = "internal: what a name says by itself has no comment")]

pub mod bind;
pub mod deep_stack;
pub mod explain;
pub mod expr;
pub mod logical;
pub mod plan;
pub mod planner;
