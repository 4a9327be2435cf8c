//! Functions that need the catalogue and the server of a session: see [`crate::surroundings`].

mod catalog;
mod descriptions;
#[cfg(test)]
mod long_values;
mod privileges;
mod sizes;

use colibri_types::functions::Function;

/// All of them.
pub(crate) const TABLES: &[&[Function]] =
    &[catalog::TABLE, descriptions::TABLE, sizes::TABLE, privileges::COLUMNS, privileges::LISTS, privileges::TABLE];
