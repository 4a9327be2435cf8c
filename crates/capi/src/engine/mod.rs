//! The storage engine's key-value interface, for `colibri.h`.
//!
//! | file | what |
//! | --- | --- |
//! | `objects` | databases, snapshots, write transactions, tables, tickets |
//! | `walk` | cursors over a snapshot |
//! | `exports` | the functions of C: pointers in, pointers out |

mod exports;
mod objects;
mod walk;
