//! The interface of LMDB 0.9.
//!
//! | file | what |
//! | --- | --- |
//! | `abi` | structs, constants and codes as C has them; errors of the storage as codes |
//! | `order` | keys and values as bytes that sort as LMDB sorts; pairs of key and value as one key |
//! | `label` | keys of entries whose order a function of the program decides |
//! | `table` | one named database within an environment: how its entries lie in a table |
//! | `place` | the files of an environment, by path and flags |
//! | `env` | environments: opening, flags, handles of databases, figures, copies |
//! | `txn` | transactions: reading, writing, nested; what they know of databases |
//! | `names` | opening, dropping and describing databases |
//! | `cursor`, `moves` | cursors: where one stands, and its moves |
//! | `write` | put and delete |
//! | `arena` | memory of keys and values that lie in no page as the program sees them |
//! | `exports`, `exports_cursor` | the functions of C: pointers in, pointers out |

mod abi;
mod arena;
mod cursor;
mod env;
mod exports;
mod exports_cursor;
mod label;
mod moves;
mod names;
mod order;
mod place;
mod table;
mod txn;
mod write;
