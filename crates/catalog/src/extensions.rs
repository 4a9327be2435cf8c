//! The extensions of a database, as CREATE EXTENSION notes them. What they contain is there always.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::cluster::RoleId;
use crate::objects::ObjectId;

/// An extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Its number.
    pub id: ObjectId,
    /// Its name.
    pub name: CompactString,
    /// The name of the schema that it says its objects are in.
    pub schema: CompactString,
    /// Its version.
    pub version: CompactString,
    /// Who owns it.
    pub owner: RoleId,
}
