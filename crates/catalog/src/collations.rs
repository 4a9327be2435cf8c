//! Collations that users have made.

use std::sync::Arc;

use colibri_types::CompactString;
use serde::{Deserialize, Serialize};

use crate::Catalog;
use crate::cluster::RoleId;
use crate::objects::ObjectId;

/// A collation that a user has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collation {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    pub owner: RoleId,
    /// Where the order is from: `i`, Unicode's tables; `c`, bytes.
    pub provider: char,
    /// The locale, as BCP 47 writes it; of bytes `C` or `POSIX`.
    pub locale: Option<CompactString>,
    /// Whether texts of different bytes always differ.
    pub deterministic: bool,
    /// The version of Unicode's tables when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<CompactString>,
}

impl Collation {
    /// What columns and expressions call it by: schema and name, both in quotes.
    #[must_use]
    pub fn identity(&self) -> CompactString {
        Self::identity_of(&self.schema, &self.name)
    }

    /// The same of a schema and a name.
    #[must_use]
    pub fn identity_of(schema: &str, name: &str) -> CompactString {
        let quoted = |name: &str| name.replace('"', "\"\"");
        format!("\"{}\".\"{}\"", quoted(schema), quoted(name)).into()
    }

    /// Whether the order is from Unicode's tables.
    #[must_use]
    pub fn is_icu(&self) -> bool {
        self.provider == 'i'
    }
}

impl Catalog {
    /// The collations that users have made.
    pub fn collations(&self) -> impl Iterator<Item = &Arc<Collation>> {
        self.collations.values()
    }
}
