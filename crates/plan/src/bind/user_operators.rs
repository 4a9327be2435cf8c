//! Operators that users have defined.
//!
//! One whose operands have the very types that are written comes first, but for those of the system.
//! Then come the system's, as they would be found without users' operators. What is left is found by
//! PostgreSQL's rules among the users' operators of the symbol.

use std::sync::Arc;

use colibri_catalog::{OperatorFunction, UserOperator};
use colibri_types::functions::{Function, is_trigram_operator};
use colibri_types::{Error, Result, SqlState, Type, resolve};
use sqlparser::ast::{self, BinaryOperator};
use sqlparser::tokenizer::Span;

use super::Binder;
use super::expr::Bound;
use crate::expr::Expr;

/// What becomes of operands.
pub(super) enum ByUser {
    /// The call of a user's operator.
    Called(Bound),
    /// No operator of a user's is meant: the operands as they were.
    Not(Option<Bound>, Bound),
}

/// An operator as it is written.
pub(super) struct Written {
    pub(super) schema: Option<String>,
    pub(super) symbol: String,
}

impl Written {
    /// A binary operator that a user may have defined.
    pub(super) fn of(op: &BinaryOperator) -> Self {
        match op {
            BinaryOperator::PGCustomBinaryOperator(parts) => {
                let (symbol, schema) = match &parts[..] {
                    [.., schema, symbol] => (symbol.clone(), Some(schema.clone())),
                    [symbol] => (symbol.clone(), None),
                    [] => (String::new(), None),
                };
                Self { schema, symbol }
            }
            BinaryOperator::PGExp => Self { schema: None, symbol: "^".to_owned() },
            BinaryOperator::PGBitwiseXor => Self { schema: None, symbol: "#".to_owned() },
            other => Self { schema: None, symbol: other.to_string() },
        }
    }

    fn is_of_system(&self) -> bool {
        self.schema.as_deref() == Some("pg_catalog")
    }
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.symbol),
            None => f.write_str(&self.symbol),
        }
    }
}

impl Binder<'_> {
    /// Users' operators that are meant, those of schemas further in front first.
    fn operators_meant(&self, written: &Written, is_prefix: bool) -> Vec<Arc<UserOperator>> {
        let path = self.types_path();
        let place = |one: &UserOperator| match &written.schema {
            Some(schema) => (one.schema == self.catalog.schema_name(schema)).then_some(0),
            // In a text of the catalogue symbols have no schemas.
            None if self.is_stored => Some(0),
            None => path.iter().position(|known| *known == one.schema),
        };
        let mut found: Vec<(usize, Arc<UserOperator>)> = self
            .catalog
            .operators()
            .filter(|one| one.symbol == written.symbol && one.left.is_none() == is_prefix)
            .filter_map(|one| Some((place(one)?, Arc::clone(one))))
            .collect();
        found.sort_by_key(|(place, one)| (*place, one.id));
        found.into_iter().map(|(_, one)| one).collect()
    }

    /// Whether the system has an operator for operands of just these types.
    #[must_use]
    pub fn has_own_operator(&self, symbol: &str, left: Option<Type>, right: Type, is_exact: bool) -> bool {
        let is_comparison = matches!(symbol, "=" | "<>" | "<" | "<=" | ">" | ">=");
        if let (true, Some(left)) = (is_comparison, left) {
            return match is_exact {
                true => left == right && !left.is_row(),
                false => resolve::comparison_type(left, right).is_some(),
            };
        }
        if !is_exact && (right.is_array() || left.is_some_and(Type::is_array)) {
            return self.is_function(symbol) || symbol == "||";
        }
        let is_there = |function: &Function| match is_trigram_operator(function) {
            true => self.has_extension("pg_trgm"),
            false => self.is_there(function),
        };
        let found = self.builtin.functions.operator_among(symbol, left, right, &is_there);
        found.is_ok_and(|function| !is_exact || function.args.iter().copied().eq(left.into_iter().chain([right])))
    }

    /// A call of a user's operator, if one is meant. Gives the operands back if none is.
    pub(super) fn user_operator(
        &mut self,
        written: &Written,
        left: Option<(Bound, Span)>,
        right: (Bound, Span),
    ) -> Result<ByUser> {
        let back =
            |left: Option<(Bound, Span)>, right: (Bound, Span)| ByUser::Not(left.map(|(bound, _)| bound), right.0);
        if written.is_of_system() {
            return Ok(back(left, right));
        }
        if let Some(schema) = &written.schema
            && schema != "information_schema"
            && self.catalog.schema(schema).is_none()
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, message));
        }
        let candidates = self.operators_meant(written, left.is_none());
        if candidates.is_empty() {
            return Ok(back(left, right));
        }
        let types: Vec<Type> = left.iter().map(|(bound, _)| bound.ty.ty).chain([right.0.ty.ty]).collect();
        // What has no type yet is taken for the other side's.
        let assumed: Vec<u32> = types
            .iter()
            .map(|ty| match ty {
                Type::Unknown => types.iter().find(|ty| **ty != Type::Unknown).copied().unwrap_or(Type::Unknown).oid(),
                ty => ty.oid(),
            })
            .collect();
        let operands = |one: &UserOperator| one.left.into_iter().chain([one.right]).collect::<Vec<_>>();
        let exact = candidates.iter().find(|one| operands(one) == assumed);
        let (own_left, own_right) = (left.as_ref().map(|_| types[0]), types[types.len() - 1]);
        let known = |number: u32| match self.catalog.type_numbered(number) {
            Some(ty) => ty,
            None => Type::from_oid(number).unwrap_or(Type::Record),
        };
        let meant: Vec<Type> = assumed.iter().copied().map(known).collect();
        let (meant_left, meant_right) = (left.as_ref().map(|_| meant[0]), meant[meant.len() - 1]);
        let may_be_own = written.schema.is_none();
        let chosen = match exact {
            Some(_) if may_be_own && self.has_own_operator(&written.symbol, meant_left, meant_right, true) => None,
            Some(one) => Some(Arc::clone(one)),
            None if may_be_own && self.has_own_operator(&written.symbol, own_left, own_right, false) => None,
            None => {
                let lists: Vec<Vec<Type>> =
                    candidates.iter().map(|one| operands(one).into_iter().map(known).collect()).collect();
                match resolve::choose_types(&lists, &types) {
                    Ok(at) => at.map(|at| Arc::clone(&candidates[at])),
                    Err(()) => {
                        let shown: Vec<&str> = types.iter().map(|ty| ty.sql_name()).collect();
                        let shown = match &shown[..] {
                            [left, right] => format!("{left} {written} {right}"),
                            _ => format!("{written} {}", shown.join(" ")),
                        };
                        let message = format!("operator is not unique: {shown}");
                        let error = Error::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(
                            "Could not choose a best candidate operator. You might need to add explicit type casts.",
                        );
                        return Err(match &left {
                            Some((_, span)) => self.place_between(&written.symbol, *span, right.1, error),
                            None => self.place_before(&written.symbol, right.1, error),
                        });
                    }
                }
            }
        };
        let Some(operator) = chosen else { return Ok(back(left, right)) };
        let given: Vec<(Bound, Span)> = left.into_iter().chain([right]).collect();
        let span = given.first().map_or(Span::empty(), |(_, span)| *span);
        self.used_operators.push(operator.id);
        let bound = match &operator.function {
            OperatorFunction::Routine(id) => {
                let routine = self.catalog.routine(*id).cloned();
                let routine = routine.ok_or_else(|| Error::internal("an operator has no function"))?;
                self.call_for_operator(routine, given, span)?
            }
            OperatorFunction::Builtin(name) => {
                let args: Vec<Bound> = given.into_iter().map(|(bound, _)| bound).collect();
                match self.function_of_operator(name, &args, span)? {
                    Some(bound) => bound,
                    None => self.call(name, args, span)?,
                }
            }
        };
        Ok(ByUser::Called(bound))
    }

    /// A call that stands for a prefix operator which the system has not.
    pub(super) fn prefix_operator(&mut self, function: &ast::Function, span: Span) -> Result<Option<Bound>> {
        let [ast::ObjectNamePart::Identifier(mark), ast::ObjectNamePart::Identifier(symbol)] = &function.name.0[..]
        else {
            return Ok(None);
        };
        let Some(schema) = mark.value.strip_prefix(colibri_syntax::PREFIX_MARK) else { return Ok(None) };
        let ast::FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(operand))] = &list.args[..] else { return Ok(None) };
        let schema = (!schema.is_empty()).then(|| schema.to_owned());
        let written = Written { schema, symbol: symbol.value.clone() };
        let bound = self.expr(operand)?;
        match self.user_operator(&written, None, (bound, span))? {
            ByUser::Called(bound) => Ok(Some(bound)),
            ByUser::Not(_, bound) => {
                let operand = sqlparser::ast::Spanned::span(operand);
                let found = match written.schema {
                    Some(_) => Err(resolve::no_operator(&format!("{written} {}", bound.ty.ty), true)),
                    None => {
                        let is_there = |function: &Function| self.is_there(function);
                        self.builtin.functions.operator_among(&written.symbol, None, bound.ty.ty, &is_there)
                    }
                };
                let function = found.map_err(|error| self.place_before(&written.symbol, operand, error))?;
                let arg = self.argument(bound, function.arg_type(0), operand)?;
                Ok(Some(Bound::new(Expr::Call { function, args: vec![arg] }, function.result)))
            }
        }
    }
}
