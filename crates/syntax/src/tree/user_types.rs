//! What becomes of types that users have defined, and of extensions.

use sqlparser::ast;

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

/// What ALTER VIEW does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum ViewChange {
    /// `ALTER COLUMN name SET DEFAULT expr`
    SetDefault { column: Name, value: Box<ast::Expr> },
    /// `ALTER COLUMN name DROP DEFAULT`
    DropDefault { column: Name },
    /// `SET (option = value, …)`
    SetOptions(Vec<ast::SqlOption>),
    /// `RESET (option, …)`
    ResetOptions(Vec<ast::SqlOption>),
}

/// What ALTER DOMAIN does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum DomainChange {
    /// `SET DEFAULT expr`; `None`: `DROP DEFAULT`
    SetDefault(Option<Box<ast::Expr>>),
    /// `SET NOT NULL` and `DROP NOT NULL`
    SetNotNull(bool),
    /// `ADD [CONSTRAINT name] CHECK (condition) [NOT VALID]`
    AddConstraint { check: Box<ast::CheckConstraint>, not_valid: bool },
    /// `DROP CONSTRAINT [IF EXISTS] name`
    DropConstraint { constraint: Name, if_exists: bool },
    /// `RENAME CONSTRAINT name TO name`
    RenameConstraint { constraint: Name, to: Name },
    /// `VALIDATE CONSTRAINT name`
    Validate(Name),
    /// What all types have.
    Type(TypeChange),
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
