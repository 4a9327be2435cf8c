//! CREATE, ALTER and DROP OPERATOR, and the names of operators.
//!
//! ```text
//! CREATE OPERATOR name (option [= value], …)
//! ALTER OPERATOR name (left, right) {OWNER TO role | SET SCHEMA schema | SET (option = value, …)}
//! DROP OPERATOR [IF EXISTS] name (left, right), … [CASCADE | RESTRICT]
//! ```
//!
//! A prefix operator that the system has not is a call in the tree: of a function whose schema is a
//! mark, and whose name is the operator's.

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, Name, OnOperators, OperatorChange, OperatorNamed, OperatorValue, Routines, TypeGiven};

/// What the schema of a call begins with that is a prefix operator; the operator's schema follows,
/// if it has one.
pub const PREFIX_MARK: &str = "\u{1}operator ";

impl Parser<'_> {
    /// The name of an operator, with a schema or without.
    fn qualified_operator(&mut self) -> Result<(Option<Name>, Name)> {
        let mut schema = None;
        while Self::is_column_name(self.kind()) {
            schema = Some(self.folded()?);
            self.expect_kind(Kind::Period)?;
        }
        let symbol = self.operator_symbol()?;
        Ok((schema, if symbol == "!=" { "<>".into() } else { symbol.into() }))
    }

    /// `name (left, right)`
    pub(crate) fn operator_named(&mut self) -> Result<OperatorNamed> {
        let (schema, symbol) = self.qualified_operator()?;
        self.expect_kind(Kind::LeftParen)?;
        let left = if self.eat(K::None) { None } else { Some(self.data_type()?) };
        if self.kind() == Kind::RightParen {
            let error = Error::new(SqlState::SYNTAX_ERROR, "missing argument")
                .hint("Use NONE to denote the missing argument of a unary operator.");
            return Err(self.error_at(self.peek(), error));
        }
        self.expect_kind(Kind::Comma)?;
        if self.is_next(K::None) {
            let error = Error::new(SqlState::SYNTAX_ERROR, "postfix operators are not supported");
            return Err(self.error_at(self.peek(), error));
        }
        let right = self.data_type()?;
        self.expect_kind(Kind::RightParen)?;
        Ok(OperatorNamed { schema, symbol, left, right })
    }

    /// `(option [= value], …)`
    fn operator_options(&mut self) -> Result<Vec<(Name, OperatorValue)>> {
        self.in_parens(|parser| {
            let option = parser.folded_label()?;
            if !parser.eat_kind(Kind::Equal) {
                return Ok((option, OperatorValue::Missing));
            }
            let value = match option.as_str() {
                _ if parser.eat(K::None) => OperatorValue::None,
                "leftarg" | "rightarg" => {
                    if parser.eat(K::Setof) {
                        _ = parser.routine_type()?;
                        OperatorValue::Setof
                    } else {
                        match parser.routine_type()? {
                            TypeGiven::Named(ty) => OperatorValue::Type(ty),
                            _ => return Err(parser.wrong()),
                        }
                    }
                }
                "commutator" | "negator" => {
                    let (schema, symbol) = if parser.eat(K::Operator) {
                        parser.expect_kind(Kind::LeftParen)?;
                        let named = parser.qualified_operator()?;
                        parser.expect_kind(Kind::RightParen)?;
                        named
                    } else {
                        parser.qualified_operator()?
                    };
                    OperatorValue::Operator(schema, symbol)
                }
                _ if Self::is_string(parser.kind()) => OperatorValue::Text(parser.string()?),
                _ if Self::is_type_name(parser.kind()) || Self::is_column_name(parser.kind()) => {
                    OperatorValue::Name(parser.qualified_function()?)
                }
                _ => {
                    let token = parser.next();
                    OperatorValue::Text(parser.token_text(token).to_owned())
                }
            };
            Ok((option, value))
        })
    }

    /// Behind CREATE.
    pub(crate) fn create_operator(&mut self) -> Result<Admin> {
        self.expect(K::Operator)?;
        let (schema, symbol) = self.qualified_operator()?;
        let options = self.operator_options()?;
        Ok(Routines::Operators(OnOperators::Create { schema, symbol, options }).into())
    }

    /// Behind DROP.
    pub(crate) fn drop_operator(&mut self) -> Result<Admin> {
        self.expect(K::Operator)?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::operator_named)?;
        let cascade = self.cascade();
        Ok(Routines::Operators(OnOperators::Drop { names, if_exists, cascade }).into())
    }

    /// Behind ALTER.
    pub(crate) fn alter_operator(&mut self) -> Result<Admin> {
        self.expect(K::Operator)?;
        let operator = self.operator_named()?;
        let change = if self.eat_all(&[K::Owner, K::To]) {
            OperatorChange::Owner(self.role_name()?)
        } else {
            self.expect(K::Set)?;
            if self.eat(K::Schema) {
                OperatorChange::Schema(self.folded()?)
            } else {
                OperatorChange::Options(self.operator_options()?)
            }
        };
        Ok(Routines::Operators(OnOperators::Alter { operator, change }).into())
    }

    /// Behind COMMENT ON.
    pub(crate) fn comment_on_operator(&mut self) -> Result<Admin> {
        self.expect(K::Operator)?;
        let operator = self.operator_named()?;
        let text = self.comment_text()?;
        Ok(Routines::Operators(OnOperators::Comment { operator, text }).into())
    }
}
