//! Rules of tables and views.

use super::{Name, QualifiedName};

/// A statement about rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statement")]
pub enum OnRules {
    /// `CREATE RULE …`. `event` is `r`, `a`, `w` or `d`; conditions and actions are texts.
    Create {
        or_replace: bool,
        name: Name,
        event: char,
        relation: QualifiedName,
        condition: Option<String>,
        instead: bool,
        actions: Vec<String>,
    },
    /// `DROP RULE …`
    Drop { name: Name, relation: QualifiedName, if_exists: bool },
    /// `ALTER RULE … RENAME TO …`
    Rename { name: Name, relation: QualifiedName, to: Name },
    /// `ALTER TABLE … {ENABLE | DISABLE} RULE …`
    Enable { relation: QualifiedName, name: Name, state: char },
    /// `COMMENT ON RULE …`
    Comment { name: Name, relation: QualifiedName, text: Option<String> },
}

impl OnRules {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE RULE",
            Self::Drop { .. } => "DROP RULE",
            Self::Rename { .. } => "ALTER RULE",
            Self::Enable { .. } => "ALTER TABLE",
            Self::Comment { .. } => "COMMENT",
        }
    }
}
