//! What is known of a text's collation while names are bound.

use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::tokenizer::Span;

/// What the parts of an expression say of its collation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Collation {
    /// Nothing: it is the database's.
    #[default]
    Default,
    /// That of a column.
    Implicit(CompactString),
    /// Columns of two different ones.
    Conflict(CompactString, CompactString),
    /// A column of a query that leaves it open.
    Open,
    /// One that COLLATE names, and where its name stands in the text.
    Explicit(CompactString, Span),
}

impl Collation {
    /// What both sides of an operation say together.
    pub fn with(self, other: Self) -> Result<Self> {
        use Collation::{Conflict, Default, Explicit, Implicit, Open};
        Ok(match (self, other) {
            (Explicit(one, _), Explicit(other, _)) if one != other => {
                let (one, other) = (bare(&one), bare(&other));
                let message = format!("collation mismatch between explicit collations \"{one}\" and \"{other}\"");
                return Err(Error::new(SqlState("42P21"), message));
            }
            (Explicit(name, span), _) | (_, Explicit(name, span)) => Explicit(name, span),
            (Conflict(one, other), _) | (_, Conflict(one, other)) => Conflict(one, other),
            (Implicit(one), Implicit(other)) if one != other => Conflict(one, other),
            (Implicit(name), _) | (_, Implicit(name)) => Implicit(name),
            (Default | Open, Default | Open) => Default,
        })
    }

    /// Fails for what cannot be put in order.
    pub fn expect_one(&self) -> Result<()> {
        match self {
            Self::Conflict(one, other) => {
                let (one, other) = (bare(one), bare(other));
                let message = format!("collation mismatch between implicit collations \"{one}\" and \"{other}\"");
                Err(Error::new(SqlState("42P21"), message))
            }
            Self::Open => Err(undetermined("string comparison")),
            Self::Default | Self::Implicit(_) | Self::Explicit(..) => Ok(()),
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self, Self::Conflict(..) | Self::Open)
    }

    /// The one that a table's column keeps.
    pub fn name(&self) -> Option<CompactString> {
        match self {
            Self::Implicit(name) | Self::Explicit(name, _) => Some(name.clone()),
            _ => None,
        }
    }
}

/// The name of a collation without its schema, which its identity has if a user has made it.
pub fn bare(identity: &str) -> CompactString {
    match identity.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => {
            let name = quoted.rsplit_once("\".\"").map_or(quoted, |(_, name)| name);
            name.replace("\"\"", "\"").into()
        }
        None => identity.into(),
    }
}

pub fn undetermined(what: &str) -> Error {
    let message = format!("could not determine which collation to use for {what}");
    Error::new(SqlState("42P22"), message).hint("Use the COLLATE clause to set the collation explicitly.")
}
