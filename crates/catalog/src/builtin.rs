//! The built-in objects of each database. They are passed to the code that looks up names, which
//! knows none of them itself.

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
