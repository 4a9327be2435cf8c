//! Calls of functions: arguments, and what may stand behind them.

use colibri_types::Result;
use sqlparser::ast::{self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

/// A call with nothing behind its arguments.
pub(super) fn function_of(name: ObjectName, args: FunctionArguments) -> Function {
    Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    }
}

impl Parser<'_> {
    /// A call of a function whose name is read.
    pub(crate) fn function(&mut self, name: ObjectName) -> Result<Function> {
        let is_windowless = std::mem::take(&mut self.is_windowless);
        let token = self.peek();
        let mut list = self.nested(Self::arguments)?;
        list.args = match super::named_arguments::in_their_places(&name, list.args) {
            Ok(args) => args,
            Err(error) => return Err(self.error_at(token, error)),
        };
        let mut function = function_of(name, FunctionArguments::List(list));
        if is_windowless {
            return Ok(function);
        }
        if self.eat_all(&[K::Within, K::Group]) {
            self.expect_kind(Kind::LeftParen)?;
            function.within_group = self.order_by_list()?;
            self.expect_kind(Kind::RightParen)?;
        }
        if self.is_next(K::Filter) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            self.next();
            self.expect(K::Where)?;
            function.filter = Some(Box::new(self.expr()?));
            self.expect_kind(Kind::RightParen)?;
        }
        function.over = self.over()?;
        Ok(function)
    }

    /// Arguments in parentheses.
    pub(super) fn arguments(&mut self) -> Result<ast::FunctionArgumentList> {
        self.expect_kind(Kind::LeftParen)?;
        let mut list = ast::FunctionArgumentList { duplicate_treatment: None, args: Vec::new(), clauses: Vec::new() };
        if self.eat_kind(Kind::RightParen) {
            return Ok(list);
        }
        if self.eat_kind(Kind::Star) {
            self.expect_kind(Kind::RightParen)?;
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
            return Ok(list);
        }
        if self.eat(K::Distinct) {
            list.duplicate_treatment = Some(ast::DuplicateTreatment::Distinct);
        } else if self.eat(K::All) {
            list.duplicate_treatment = Some(ast::DuplicateTreatment::All);
        }
        list.args = self.list(Self::argument)?;
        if self.is_next(K::Order) {
            list.clauses.push(ast::FunctionArgumentClause::OrderBy(self.order_by_list()?));
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(list)
    }

    pub(crate) fn argument(&mut self) -> Result<FunctionArg> {
        if self.is_next(K::Variadic) {
            let token = self.next();
            let prefix = ast::Ident::with_span(token.span(), crate::VARIADIC_MARK);
            let value = Box::new(self.expr()?);
            if self.kind() == Kind::Comma {
                // Nothing stands behind it.
                return Err(self.wrong());
            }
            return Ok(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Prefixed { prefix, value })));
        }
        let operator = match self.kind_behind(1) {
            Kind::Assign => Some(ast::FunctionArgOperator::Assignment),
            Kind::Arrow => Some(ast::FunctionArgOperator::RightArrow),
            _ => None,
        };
        if let (Some(operator), true) = (operator, Self::is_type_name(self.kind())) {
            let token = self.next();
            let name = self.ident_of(token)?;
            self.next();
            return Ok(FunctionArg::Named { name, arg: argument_of(self.expr()?), operator });
        }
        Ok(FunctionArg::Unnamed(argument_of(self.expr()?)))
    }
}

fn argument_of(expr: Expr) -> FunctionArgExpr {
    FunctionArgExpr::Expr(expr)
}
