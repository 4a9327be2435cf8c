//! Extended statistics: which columns and expressions of a table belong together.

use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::Catalog;
use crate::cluster::RoleId;
use crate::objects::ObjectId;

/// An object of CREATE STATISTICS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    pub owner: RoleId,
    /// The number of the table.
    pub table: ObjectId,
    /// The places of its columns.
    pub columns: Vec<usize>,
    /// The texts of its expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<String>,
    /// The letters of its kinds: `d`, numbers of different values; `f`, dependencies; `m`, frequent
    /// values; `e`, expressions.
    pub kinds: CompactString,
    /// What SET STATISTICS says; -1 for nothing.
    pub target: i32,
}

impl Catalog {
    /// All extended statistics.
    pub fn statistics(&self) -> impl Iterator<Item = &Arc<Statistics>> {
        self.statistics.values()
    }

    /// Those of a table, in the order in which they were made.
    #[must_use]
    pub fn statistics_of(&self, table: ObjectId) -> Vec<Arc<Statistics>> {
        self.statistics.values().filter(|one| one.table == table).cloned().collect()
    }

    /// One by its schema and name.
    #[must_use]
    pub fn statistics_named(&self, schema: &str, name: &str) -> Option<&Arc<Statistics>> {
        self.statistics.values().find(|one| one.name == name && one.schema == schema)
    }
}
