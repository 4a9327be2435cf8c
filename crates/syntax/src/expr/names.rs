//! Operands that begin with a name: columns, calls of functions, and strings of a type.

use colibri_types::Result;
use sqlparser::ast::{self, AccessExpr, Expr, Ident, ObjectName, ObjectNamePart};

use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    pub(super) fn named(&mut self) -> Result<Expr> {
        let token = self.peek();
        let kind = token.kind;
        let (is_column, is_function) = (Self::is_column_name(kind), Self::is_type_name(kind));
        if !is_column && !is_function {
            return Err(self.wrong());
        }
        self.next();
        let first = self.ident_of(token)?;
        let mut parts = vec![first];
        while self.kind() == Kind::Period {
            // `t.*` ends the name.
            if self.kind_behind(1) == Kind::Star {
                self.next();
                let star = self.next();
                return Ok(Expr::QualifiedWildcard(object_name(parts), self.attached(star)));
            }
            self.next();
            parts.push(self.label()?);
        }
        match self.kind() {
            Kind::LeftParen if is_function || parts.len() > 1 => self.call(parts),
            kind if Self::is_string(kind) && is_function => {
                let data_type = self.type_of_name(parts, Vec::new());
                self.typed_string(data_type)
            }
            _ if is_column => self.column(parts),
            // `left`, `is` and their like are names of functions and types only.
            _ => Err(self.wrong()),
        }
    }

    /// A string of a type.
    pub(super) fn typed_string(&mut self, data_type: ast::DataType) -> Result<Expr> {
        if !Self::is_string(self.kind()) {
            return Err(self.wrong());
        }
        let value = self.string_value()?;
        Ok(Expr::TypedString(ast::TypedString { data_type, value, uses_odbc_syntax: false }))
    }

    /// A column, with subscripts and fields behind it.
    fn column(&mut self, mut parts: Vec<Ident>) -> Result<Expr> {
        if self.kind() == Kind::LeftBracket {
            let mut parts = parts.into_iter();
            let root = Expr::Identifier(parts.next().expect("a name has a part"));
            let mut access_chain: Vec<AccessExpr> = parts.map(|part| AccessExpr::Dot(Expr::Identifier(part))).collect();
            loop {
                match self.kind() {
                    Kind::LeftBracket => access_chain.push(AccessExpr::Subscript(self.subscript()?)),
                    Kind::Period => {
                        self.next();
                        access_chain.push(AccessExpr::Dot(Expr::Identifier(self.label()?)));
                    }
                    _ => return Ok(Expr::CompoundFieldAccess { root: Box::new(root), access_chain }),
                }
            }
        }
        Ok(match parts.len() {
            1 => Expr::Identifier(parts.remove(0)),
            _ => Expr::CompoundIdentifier(parts),
        })
    }

    fn call(&mut self, parts: Vec<Ident>) -> Result<Expr> {
        if let [name] = &parts[..]
            && name.quote_style.is_none()
        {
            let is = |known: &str| name.value.eq_ignore_ascii_case(known);
            if is("ceil") || is("floor") {
                return self.rounded(parts);
            }
            if is("substr") {
                return self.substr(parts);
            }
        }
        let function = self.function(object_name(parts))?;
        if Self::is_string(self.kind()) {
            let token = self.peek();
            self.not_supported(token, "a string of a type with modifiers");
            self.next();
        }
        Ok(Expr::Function(function))
    }

    /// `ceil(a)` and `floor(a)`, which have nodes of their own.
    fn rounded(&mut self, parts: Vec<Ident>) -> Result<Expr> {
        let is_ceil = parts[0].value.eq_ignore_ascii_case("ceil");
        let function = self.function(object_name(parts))?;
        Ok(match only_argument(function) {
            Ok(expr) => {
                let (expr, field) = (Box::new(expr), ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime));
                if is_ceil { Expr::Ceil { expr, field } } else { Expr::Floor { expr, field } }
            }
            Err(function) => Expr::Function(*function),
        })
    }

    /// `substr(a, b, c)`, which is written as SUBSTRING in the tree.
    fn substr(&mut self, parts: Vec<Ident>) -> Result<Expr> {
        let function = self.function(object_name(parts))?;
        Ok(as_substring(function, true))
    }
}

/// A call of SUBSTRING or `substr` with one to three plain arguments, as its node.
pub(super) fn as_substring(function: ast::Function, shorthand: bool) -> Expr {
    let mut args = match plain_arguments(function) {
        Ok(args) if (1..=3).contains(&args.len()) => args.into_iter(),
        Ok(args) => return Expr::Function(call_of(if shorthand { "substr" } else { "substring" }, args)),
        Err(function) => return Expr::Function(*function),
    };
    let expr = Box::new(args.next().expect("there is an argument"));
    let substring_from = args.next().map(Box::new);
    let special = substring_from.is_some();
    Expr::Substring { expr, substring_from, substring_for: args.next().map(Box::new), special, shorthand }
}

/// A call of the function that an operator in front of its operand is.
pub(super) fn call_of_operator(symbol: &str, operand: Expr) -> Expr {
    let mut function = call_of(symbol, vec![operand]);
    function.name = ObjectName::from(vec![Ident::with_quote('"', symbol)]);
    Expr::Function(function)
}

/// A call that stands for an operator of a user's in front of its operand.
pub(super) fn call_of_users_operator(mark: &str, symbol: &str, operand: Expr) -> Expr {
    let mut function = call_of(symbol, vec![operand]);
    function.name = ObjectName::from([mark, symbol].map(|part| Ident::with_quote('"', part)).to_vec());
    Expr::Function(function)
}

fn call_of(name: &str, args: Vec<Expr>) -> ast::Function {
    let args = args.into_iter().map(|arg| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)));
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args: args.collect(), clauses: Vec::new() };
    super::calls::function_of(ObjectName::from(vec![Ident::new(name)]), ast::FunctionArguments::List(list))
}

/// The arguments of a call that has nothing but plain ones.
fn plain_arguments(function: ast::Function) -> std::result::Result<Vec<Expr>, Box<ast::Function>> {
    let is_plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
    match &function.args {
        ast::FunctionArguments::List(list)
            if is_plain
                && list.clauses.is_empty()
                && list.duplicate_treatment.is_none()
                && list.args.iter().all(is_plain_argument) => {}
        _ => return Err(Box::new(function)),
    }
    let ast::FunctionArguments::List(list) = function.args else { return Ok(Vec::new()) };
    let plain = |arg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    };
    Ok(list.args.into_iter().filter_map(plain).collect())
}

fn is_plain_argument(arg: &ast::FunctionArg) -> bool {
    matches!(arg, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(_)))
}

fn only_argument(function: ast::Function) -> std::result::Result<Expr, Box<ast::Function>> {
    let is_one = matches!(&function.args, ast::FunctionArguments::List(list) if list.args.len() == 1);
    if !is_one {
        return Err(Box::new(function));
    }
    plain_arguments(function).map(|mut args| args.remove(0))
}

pub(super) fn object_name(parts: Vec<Ident>) -> ObjectName {
    ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect())
}
