//! What there is in a database and around it, and how rows are laid out. It is kept in transactions like everything else.
//!
//! | module | holds |
//! | --- | --- |
//! | [`catalog`] | tables, indexes, constraints, sequences, schemas, views; what the system brings |
//! | [`cluster`] | the server around a session: databases, roles, grants, kept settings |
//! | [`row`], [`record`] | the bytes of rows |
//! | [`store_error`] | what transactions answer in place of a result, as SQL's errors |

pub mod catalog;
pub mod cluster;
pub mod record;
pub mod row;
pub mod store_error;
