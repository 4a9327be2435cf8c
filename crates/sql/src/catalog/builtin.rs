//! What a database has before anybody makes anything in it: handed to those who look up names, who know none of it by
//! themselves.

use super::system_tables::SystemTables;
use crate::functions::Registry;

/// Functions, operators and tables of the system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Builtin {
    /// Functions and operators.
    pub(crate) functions: &'static Registry,
    /// Tables whose rows are made when they are read.
    pub(crate) tables: &'static SystemTables,
}
