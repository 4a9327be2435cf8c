//! Policies of row-level security.

use super::{Name, QualifiedName, RoleName};

/// A statement about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policies {
    /// `CREATE POLICY …`
    Create(CreatePolicy),
    /// `ALTER POLICY …`: what is not said stays.
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Alter {
        name: Name,
        table: QualifiedName,
        to: Option<Vec<Option<RoleName>>>,
        using: Option<String>,
        check: Option<String>,
    },
    /// `ALTER POLICY … RENAME TO …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Rename { name: Name, table: QualifiedName, to: Name },
    /// `DROP POLICY …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Drop { name: Name, table: QualifiedName, if_exists: bool },
    /// `COMMENT ON POLICY … ON … IS …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Comment { name: Name, table: QualifiedName, text: Option<String> },
}

/// `CREATE POLICY name ON table …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePolicy {
    /// Its name.
    pub name: Name,
    /// Its table.
    pub table: QualifiedName,
    /// AS PERMISSIVE, which it is if nothing is said.
    pub permissive: bool,
    /// FOR: `*` for ALL, `r` for SELECT, `a` for INSERT, `w` for UPDATE, `d` for DELETE.
    pub command: char,
    /// TO; `None` is PUBLIC.
    pub to: Vec<Option<RoleName>>,
    /// The text of the condition of USING.
    pub using: Option<String>,
    /// The text of the condition of WITH CHECK.
    pub check: Option<String>,
}

impl Policies {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE POLICY",
            Self::Alter { .. } | Self::Rename { .. } => "ALTER POLICY",
            Self::Drop { .. } => "DROP POLICY",
            Self::Comment { .. } => "COMMENT",
        }
    }
}
