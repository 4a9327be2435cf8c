//! Statements about configurations and dictionaries of text search, and DROP of objects of kinds
//! that no database has.

use super::{Name, QualifiedName, RoleName};

/// What there is in text search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// A configuration.
    Configuration,
    /// A dictionary.
    Dictionary,
    /// A parser.
    Parser,
    /// A template.
    Template,
}

/// An option with its value, as a text; `None` without one.
pub type SearchOption = (Name, Option<String>);

/// A statement about text search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum OnTextSearch {
    /// `CREATE TEXT SEARCH {CONFIGURATION | DICTIONARY} name (option = value, …)`
    Create { kind: SearchKind, name: QualifiedName, options: Vec<SearchOption> },
    /// `ALTER TEXT SEARCH DICTIONARY name (option [= value], …)`
    Options { name: QualifiedName, options: Vec<SearchOption> },
    /// `ALTER TEXT SEARCH CONFIGURATION name …` of its mappings.
    Mapping { name: QualifiedName, change: MappingChange },
    /// `ALTER TEXT SEARCH … name RENAME TO name`
    Rename { kind: SearchKind, name: QualifiedName, to: Name },
    /// `ALTER TEXT SEARCH … name OWNER TO role`
    Owner { kind: SearchKind, name: QualifiedName, to: RoleName },
    /// `ALTER TEXT SEARCH … name SET SCHEMA name`
    SetSchema { kind: SearchKind, name: QualifiedName, schema: Name },
    /// `DROP TEXT SEARCH … name, …`
    Drop { kind: SearchKind, names: Vec<QualifiedName>, if_exists: bool, cascade: bool },
    /// `COMMENT ON TEXT SEARCH … name IS …`
    Comment { kind: SearchKind, name: QualifiedName, text: Option<String> },
    /// DROP of objects of a kind of which there are none, such as servers: `kind` is the kind's name.
    DropAbsent { kind: &'static str, names: Vec<QualifiedName>, if_exists: bool },
}

/// A change of the dictionaries that a configuration asks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum MappingChange {
    /// `ADD MAPPING FOR kind, … WITH dictionary, …`; with ALTER others are asked no more.
    Set { kinds: Vec<Name>, dictionaries: Vec<QualifiedName>, replaces: bool },
    /// `ALTER MAPPING [FOR kind, …] REPLACE dictionary WITH dictionary`; no kinds are all.
    Replace { kinds: Vec<Name>, old: QualifiedName, new: QualifiedName },
    /// `DROP MAPPING [IF EXISTS] FOR kind, …`
    Drop { kinds: Vec<Name>, if_exists: bool },
}

impl SearchKind {
    /// What messages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Configuration => "text search configuration",
            Self::Dictionary => "text search dictionary",
            Self::Parser => "text search parser",
            Self::Template => "text search template",
        }
    }
}

impl OnTextSearch {
    /// What a client is told that was done.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        use SearchKind as S;
        match self {
            Self::Create { kind: S::Configuration, .. } => "CREATE TEXT SEARCH CONFIGURATION",
            Self::Create { .. } => "CREATE TEXT SEARCH DICTIONARY",
            Self::Options { .. } => "ALTER TEXT SEARCH DICTIONARY",
            Self::Mapping { .. } => "ALTER TEXT SEARCH CONFIGURATION",
            Self::Rename { kind, .. } | Self::Owner { kind, .. } | Self::SetSchema { kind, .. } => match kind {
                S::Configuration => "ALTER TEXT SEARCH CONFIGURATION",
                S::Dictionary => "ALTER TEXT SEARCH DICTIONARY",
                S::Parser => "ALTER TEXT SEARCH PARSER",
                S::Template => "ALTER TEXT SEARCH TEMPLATE",
            },
            Self::Drop { kind, .. } => match kind {
                S::Configuration => "DROP TEXT SEARCH CONFIGURATION",
                S::Dictionary => "DROP TEXT SEARCH DICTIONARY",
                S::Parser => "DROP TEXT SEARCH PARSER",
                S::Template => "DROP TEXT SEARCH TEMPLATE",
            },
            Self::Comment { .. } => "COMMENT",
            Self::DropAbsent { kind, .. } => match *kind {
                "conversion" => "DROP CONVERSION",
                "foreign-data wrapper" => "DROP FOREIGN DATA WRAPPER",
                "server" => "DROP SERVER",
                "foreign table" => "DROP FOREIGN TABLE",
                "access method" => "DROP ACCESS METHOD",
                "operator class" => "DROP OPERATOR CLASS",
                "operator family" => "DROP OPERATOR FAMILY",
                "event trigger" => "DROP EVENT TRIGGER",
                "publication" => "DROP PUBLICATION",
                "subscription" => "DROP SUBSCRIPTION",
                _ => "DROP LANGUAGE",
            },
        }
    }
}
