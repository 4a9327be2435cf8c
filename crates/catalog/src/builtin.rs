//! What a database has before anybody makes anything in it: handed to those who look up names, who
//! know none of it by themselves.

use colibri_types::functions::Registry;

use crate::system_tables::SystemTables;

/// Functions, operators and tables of the system.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Functions and operators.
    pub functions: &'static Registry,
    /// Tables whose rows are made when they are read.
    pub tables: &'static SystemTables,
}
