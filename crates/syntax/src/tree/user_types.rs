//! What becomes of types that users have defined, and of extensions.

use super::{Name, RoleName};

/// What ALTER TYPE does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum TypeChange {
    /// `ADD VALUE text …`
    AddValue { text: String, if_not_exists: bool, place: LabelPlace },
    /// `RENAME VALUE text TO text`
    RenameValue { from: String, to: String },
    /// `RENAME TO name`
    Rename(Name),
    /// `SET SCHEMA name`
    SetSchema(Name),
    /// `OWNER TO role`
    Owner(RoleName),
}

/// Where a new label of an enum goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelPlace {
    /// Behind all others.
    Last,
    /// In front of a label.
    Before(String),
    /// Behind a label.
    After(String),
}

/// What ALTER EXTENSION does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionChange {
    /// `UPDATE [TO version]`
    Update(Option<Name>),
    /// `SET SCHEMA name`
    SetSchema(Name),
}
