//! What becomes of types that users have defined, and of extensions.

use sqlparser::ast;

use super::{Name, QualifiedName, RoleName};

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
    /// `ADD`, `DROP` and `ALTER ATTRIBUTE`
    Attributes(Vec<AttributeChange>),
    /// `RENAME ATTRIBUTE name TO name`
    RenameAttribute { from: Name, to: Name },
}

/// What CREATE TYPE … AS RANGE says, in the order in which it says it.
pub type RangeOptions = Vec<RangeOption>;

/// One thing that CREATE TYPE … AS RANGE says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeOption {
    /// `SUBTYPE = type`
    Subtype(ast::DataType),
    /// `SUBTYPE_OPCLASS = name`
    Class(QualifiedName),
    /// `COLLATION = name`
    Collation(QualifiedName),
    /// `CANONICAL = function`
    Canonical,
    /// `SUBTYPE_DIFF = function`
    Difference(QualifiedName),
    /// `MULTIRANGE_TYPE_NAME = name`
    Multirange(QualifiedName),
}

/// A field of a composite type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeField {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub data_type: ast::DataType,
    /// The collation that is named.
    pub collation: Option<ast::ObjectName>,
}

/// A change of the fields of a composite type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum AttributeChange {
    /// `ADD ATTRIBUTE name type`
    Add(TypeField),
    /// `DROP ATTRIBUTE [IF EXISTS] name`
    Drop { name: Name, if_exists: bool },
    /// `ALTER ATTRIBUTE name TYPE type`
    Type(TypeField),
}

/// What ALTER VIEW does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum ViewChange {
    /// `ALTER COLUMN name SET DEFAULT expr`
    SetDefault { column: Name, value: Box<ast::Expr> },
    /// `ALTER COLUMN name DROP DEFAULT`
    DropDefault { column: Name },
    /// `RENAME [COLUMN] name TO name`
    RenameColumn { column: Name, to: Name },
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
