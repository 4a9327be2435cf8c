//! The extensions of a database, as CREATE EXTENSION notes them.
//!
//! What most of them contain is compiled in: it is there always, and seen with the extension only.
//! Functions that run statements, and the types that they give rows of, are objects of the catalogue;
//! CREATE EXTENSION makes them and DROP EXTENSION drops them.

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
    /// The functions and types of the catalogue that it has brought.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<ObjectId>,
}
