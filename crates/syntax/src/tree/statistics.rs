//! Statements about extended statistics.

use sqlparser::ast::Expr;

use super::{Name, QualifiedName, RoleName};

/// A statement about extended statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum OnStatistics {
    /// `CREATE STATISTICS name (kind, …) ON column, (expression) FROM table`
    Create { name: QualifiedName, if_not_exists: bool, kinds: Vec<Name>, of: Vec<Expr>, from: Vec<QualifiedName> },
    /// `ALTER STATISTICS name RENAME TO name`
    Rename { name: QualifiedName, to: Name },
    /// `ALTER STATISTICS name OWNER TO role`
    Owner { name: QualifiedName, to: RoleName },
    /// `ALTER STATISTICS name SET SCHEMA name`
    SetSchema { name: QualifiedName, schema: Name },
    /// `ALTER STATISTICS name SET STATISTICS number`
    Target { name: QualifiedName, if_exists: bool, target: i32 },
    /// `DROP STATISTICS name, …`
    Drop { names: Vec<QualifiedName>, if_exists: bool },
    /// `COMMENT ON STATISTICS name IS …`
    Comment { name: QualifiedName, text: Option<String> },
}

impl OnStatistics {
    /// What a client is told that was done.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE STATISTICS",
            Self::Rename { .. } | Self::Owner { .. } | Self::SetSchema { .. } | Self::Target { .. } => {
                "ALTER STATISTICS"
            }
            Self::Drop { .. } => "DROP STATISTICS",
            Self::Comment { .. } => "COMMENT",
        }
    }
}
