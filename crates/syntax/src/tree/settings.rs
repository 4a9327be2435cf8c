//! SET, RESET and SHOW.

use super::{Mode, Name, QualifiedName};

/// A statement about settings, or about what transactions are like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// `SET [LOCAL] name TO …`
    Set {
        /// The setting.
        name: Name,
        /// What it is set to.
        to: To,
        /// Until the transaction ends.
        local: bool,
    },
    /// `RESET name`
    Reset(Name),
    /// `RESET ALL`
    ResetAll,
    /// `SHOW name`
    Show(Name),
    /// `SHOW ALL`
    ShowAll,
    /// `SET TRANSACTION …`: what the transaction at hand is like.
    Transaction(Vec<Mode>),
    /// `SET SESSION CHARACTERISTICS …`: what transactions are like that say nothing of it.
    Characteristics {
        /// What they are like.
        modes: Vec<Mode>,
        /// Until the transaction ends.
        local: bool,
    },
    /// `SET CONSTRAINTS …`
    Constraints {
        /// `None`: all of them.
        names: Option<Vec<QualifiedName>>,
        /// DEFERRED, or IMMEDIATE.
        deferred: bool,
    },
    /// `SET TRANSACTION SNAPSHOT …`: another transaction's.
    Snapshot,
}

/// What a setting is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// DEFAULT
    Default,
    /// FROM CURRENT: what it is already.
    Current,
    /// Values.
    Values(Vec<Given>),
}

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// A string or a word, without its quotes.
    Text(String),
    /// Digits, perhaps with a minus.
    Number(String),
}

impl Setting {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Set { .. } | Self::Transaction(_) | Self::Characteristics { .. } | Self::Snapshot => "SET",
            Self::Reset(_) | Self::ResetAll => "RESET",
            Self::Show(_) | Self::ShowAll => "SHOW",
            Self::Constraints { .. } => "SET CONSTRAINTS",
        }
    }
}
