//! Statements about collations.

use super::{Name, QualifiedName, RoleName};

/// A statement about collations.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum Collations {
    /// `CREATE COLLATION name (option = value, …)`
    Create { name: QualifiedName, if_not_exists: bool, options: Vec<CollationOption> },
    /// `CREATE COLLATION name FROM other`
    Copy { name: QualifiedName, if_not_exists: bool, from: QualifiedName },
    /// `ALTER COLLATION name RENAME TO name`
    Rename { name: QualifiedName, to: Name },
    /// `ALTER COLLATION name OWNER TO role`
    Owner { name: QualifiedName, to: RoleName },
    /// `ALTER COLLATION name SET SCHEMA name`
    SetSchema { name: QualifiedName, schema: Name },
    /// `ALTER COLLATION name REFRESH VERSION`
    Refresh { name: QualifiedName },
    /// `DROP COLLATION name, …`
    Drop { names: Vec<QualifiedName>, if_exists: bool, cascade: bool },
    /// `COMMENT ON COLLATION name IS …`
    Comment { name: QualifiedName, text: Option<String> },
}

/// An option of CREATE COLLATION.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollationOption {
    /// Its name.
    pub name: Name,
    /// Its value: the parts of a name, or a text alone.
    pub value: QualifiedName,
    /// Where it stands in the text, in characters from 1.
    pub position: u32,
}

impl Collations {
    /// What a client is told that was done.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create { .. } | Self::Copy { .. } => "CREATE COLLATION",
            Self::Rename { .. } | Self::Owner { .. } | Self::SetSchema { .. } | Self::Refresh { .. } => {
                "ALTER COLLATION"
            }
            Self::Drop { .. } => "DROP COLLATION",
            Self::Comment { .. } => "COMMENT",
        }
    }
}
