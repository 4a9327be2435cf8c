//! Operators that users define.

use sqlparser::ast;

use super::{Name, QualifiedName, RoleName};

/// An operator by its name and the types of its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorNamed {
    /// Its schema, if it is given.
    pub schema: Option<Name>,
    /// How it is written.
    pub symbol: Name,
    /// The left operand's type; `None` of a prefix operator.
    pub left: Option<ast::DataType>,
    /// The right operand's type.
    pub right: ast::DataType,
}

/// The value of an option of CREATE OPERATOR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorValue {
    /// There is no value.
    Missing,
    /// NONE
    None,
    /// A type.
    Type(ast::DataType),
    /// SETOF and a type, which no operator takes.
    Setof,
    /// A name.
    Name(QualifiedName),
    /// An operator's name, with its schema.
    Operator(Option<Name>, Name),
    /// Anything else, as it was written.
    Text(String),
}

/// What ALTER OPERATOR does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorChange {
    /// `OWNER TO role`
    Owner(RoleName),
    /// `SET SCHEMA schema`
    Schema(Name),
    /// `SET (option = value, …)`
    Options(Vec<(Name, OperatorValue)>),
}

/// A statement about operators.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statement")]
pub enum OnOperators {
    /// `CREATE OPERATOR name (option = value, …)`
    Create { schema: Option<Name>, symbol: Name, options: Vec<(Name, OperatorValue)> },
    /// `DROP OPERATOR …`
    Drop { names: Vec<OperatorNamed>, if_exists: bool, cascade: bool },
    /// `ALTER OPERATOR …`
    Alter { operator: OperatorNamed, change: OperatorChange },
    /// `COMMENT ON OPERATOR …`
    Comment { operator: OperatorNamed, text: Option<String> },
}

impl OnOperators {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE OPERATOR",
            Self::Drop { .. } => "DROP OPERATOR",
            Self::Alter { .. } => "ALTER OPERATOR",
            Self::Comment { .. } => "COMMENT",
        }
    }
}
