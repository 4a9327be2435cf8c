//! Experiments. Each answers one question.
//!
//! | module | question |
//! | --- | --- |
//! | `freespace` | Which order of taking free pages costs what? |
//! | `lifo` | What does a write-back cache below make of two of these orders? |
//! | `threads` | Does the runtime keep short requests short beside long ones? |
//! | `idle` | What does an idle process cost? |

pub mod freespace;
pub mod idle;
pub mod lifo;
pub mod threads;
