//! Operators: chains of them, comparisons of rows, lists, LIKE, arrays.

use colibri_types::functions::{Function, is_trigram_operator, of_user_range};
use colibri_types::{ColumnType, DomainType, Error, Result, SqlState, Type, cast::CastContext, resolve};
use sqlparser::ast::Spanned;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};
use sqlparser::tokenizer::Span;

use super::{Bound, as_tuple, negated, number, number_text, subqueries::SubqueryUse};
use crate::bind::collation;
use crate::bind::recursive::Barrier;
use crate::bind::user_operators::{ByUser, Written};
use crate::bind::{Binder, fold, rewrite, start_of};
use crate::expr::{CompareOp, Expr, ListId};

/// Operators in a row, as in `a + b + c`, from which on they lie side by side, as the conditions of
/// AND and OR do.
const ROW_MAX: usize = 64;

/// Expressions inside what a statement has at more than one place, at most.
const COPIED_MAX: usize = 2_000_000;

/// How many expressions one consists of.
fn nodes(expr: &Expr) -> usize {
    let mut count = 1;
    rewrite::for_each_child(expr, &mut |child| count += nodes(child));
    count
}

/// What a binary operator is.
pub(super) enum Operator {
    And,
    Or,
    Compare(CompareOp),
    /// By its symbol in the registry of functions.
    Call(&'static str),
    /// There is none for any types.
    Unknown(String),
}

pub(super) fn operator(op: &BinaryOperator) -> Result<Operator> {
    use BinaryOperator as B;
    Ok(match op {
        B::And => Operator::And,
        B::Or => Operator::Or,
        B::Eq => Operator::Compare(CompareOp::Eq),
        B::NotEq => Operator::Compare(CompareOp::Ne),
        B::Lt => Operator::Compare(CompareOp::Lt),
        B::LtEq => Operator::Compare(CompareOp::Le),
        B::Gt => Operator::Compare(CompareOp::Gt),
        B::GtEq => Operator::Compare(CompareOp::Ge),
        B::Plus => Operator::Call("+"),
        B::Minus => Operator::Call("-"),
        B::Multiply => Operator::Call("*"),
        B::Divide => Operator::Call("/"),
        B::Modulo => Operator::Call("%"),
        B::PGExp | B::BitwiseXor => Operator::Call("^"),
        B::StringConcat => Operator::Call("||"),
        B::BitwiseAnd => Operator::Call("&"),
        B::BitwiseOr => Operator::Call("|"),
        B::PGBitwiseXor => Operator::Call("#"),
        B::PGBitwiseShiftLeft => Operator::Call("<<"),
        B::PGBitwiseShiftRight => Operator::Call(">>"),
        B::PGRegexMatch => Operator::Call("~"),
        B::PGRegexIMatch => Operator::Call("~*"),
        B::PGRegexNotMatch => Operator::Call("!~"),
        B::PGRegexNotIMatch => Operator::Call("!~*"),
        B::PGLikeMatch => Operator::Call("~~"),
        B::PGILikeMatch => Operator::Call("~~*"),
        B::PGNotLikeMatch => Operator::Call("!~~"),
        B::PGNotILikeMatch => Operator::Call("!~~*"),
        B::PGStartsWith => Operator::Call("^@"),
        B::AtArrow => Operator::Call("@>"),
        B::ArrowAt => Operator::Call("<@"),
        B::PGOverlap => Operator::Call("&&"),
        B::Arrow => Operator::Call("->"),
        B::LongArrow => Operator::Call("->>"),
        B::HashArrow => Operator::Call("#>"),
        B::HashLongArrow => Operator::Call("#>>"),
        B::HashMinus => Operator::Call("#-"),
        B::AtQuestion => Operator::Call("@?"),
        B::AtAt => Operator::Call("@@"),
        B::Question => Operator::Call("?"),
        B::QuestionPipe => Operator::Call("?|"),
        B::QuestionAnd => Operator::Call("?&"),
        B::Overlaps => return Err(wrong_overlaps()),
        B::PGCustomBinaryOperator(parts) => match &parts[..] {
            [schema, symbol] if schema == "pg_catalog" => named(symbol),
            [symbol] => named(symbol),
            // Those of extensions are in the schemas of these.
            [_, symbol] => match named(symbol) {
                Operator::Unknown(_) => Operator::Unknown(parts.join(".")),
                known => known,
            },
            _ => Operator::Unknown(parts.join(".")),
        },
        B::Custom(symbol) => named(symbol),
        other => Operator::Unknown(other.to_string()),
    })
}

/// Operators that JSON alone has.
const JSON_OPERATORS: [&str; 10] = ["->", "->>", "#>", "#>>", "#-", "@?", "@@", "?", "?|", "?&"];

/// The operator of `OPERATOR(pg_catalog.+)`.
fn named(symbol: &str) -> Operator {
    const COMPARISONS: [CompareOp; 6] =
        [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
    const CALLS: [&str; 82] = [
        "<#>", "<=>", "<+>", "^@>", "^<@", "^~", "^?", "?@>", "?<@", "?~", "?@", "#=", "#<#", "#<=#", "#>=#", "#>#",
        "~<~", "~<=~", "~>=~", "~>~", "->", "->>", "#>", "#>>", "#-", "@?", "@@", "?", "?|", "?&", "+", "-", "*", "/",
        "%", "^", "||", "&", "|", "#", "<<", ">>", "~", "~*", "!~", "!~*", "~~", "~~*", "!~~", "!~~*", "^@", "@>",
        "<@", "&&", "@", "<%", "%>", "<<%", "%>>", "<->", "<<->", "<->>", "<<<->", "<->>>", "<<=", ">>=", "@@@", "&<",
        "&>", "-|-", "##", "&<|", "|&>", "<<|", "|>>", "<^", ">^", "?#", "?-|", "?||", "~=", "?-",
    ];
    let symbol = if symbol == "!=" { "<>" } else { symbol };
    if let Some(op) = COMPARISONS.into_iter().find(|op| op.symbol() == symbol) {
        return Operator::Compare(op);
    }
    match CALLS.into_iter().find(|&call| call == symbol) {
        Some(call) => Operator::Call(call),
        None => Operator::Unknown(symbol.to_owned()),
    }
}

fn wrong_overlaps() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "OVERLAPS takes a row of two values on either side")
}

fn unequal_rows() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions")
}

/// Takes the mark of BETWEEN SYMMETRIC off the leftmost leaf of the low side.
fn without_symmetric(low: &ast::Expr) -> Option<ast::Expr> {
    let marked = |expr: &ast::Expr| without_symmetric(expr).map(Box::new);
    Some(match low {
        ast::Expr::UnaryOp { op: UnaryOperator::PGPrefixFactorial, expr } => (**expr).clone(),
        ast::Expr::BinaryOp { left, op, right } => {
            ast::Expr::BinaryOp { left: marked(left)?, op: op.clone(), right: right.clone() }
        }
        ast::Expr::AtTimeZone { timestamp, time_zone } => {
            ast::Expr::AtTimeZone { timestamp: marked(timestamp)?, time_zone: time_zone.clone() }
        }
        ast::Expr::Collate { expr, collation } => {
            ast::Expr::Collate { expr: marked(expr)?, collation: collation.clone() }
        }
        _ => return None,
    })
}

impl Binder<'_> {
    pub(super) fn unary(&mut self, op: UnaryOperator, operand: &ast::Expr, span: Span) -> Result<Bound> {
        if let (UnaryOperator::Minus, Some(text)) = (op, number_text(operand)) {
            return self.at(span, number(&negated(text)));
        }
        if let UnaryOperator::Not = op {
            let input = self.condition(operand, "NOT")?;
            return Ok(Bound::bool(Expr::Not(Box::new(input))));
        }
        let symbol = match op {
            UnaryOperator::Plus => "+",
            UnaryOperator::Minus => "-",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            UnaryOperator::AtDashAt => "@-@",
            UnaryOperator::DoubleAt => "@@",
            UnaryOperator::Hash => "#",
            UnaryOperator::QuestionDash => "?-",
            UnaryOperator::QuestionPipe => "?|",
            other => {
                let written = format!("{other} {}", self.expr(operand)?.ty.ty);
                let error = resolve::no_operator(&written, true);
                return Err(self.place_before(&other.to_string(), operand.span(), error));
            }
        };
        let mut input = self.expr(operand)?;
        if self.catalog.has_operators() {
            let written = Written { schema: None, symbol: symbol.to_owned() };
            input = match self.user_operator(&written, None, (input, operand.span()))? {
                ByUser::Called(bound) => return Ok(bound),
                ByUser::Not(_, input) => input,
            };
        }
        let is_there = |function: &Function| self.is_there(function);
        let found = self.builtin.functions.operator_among(symbol, None, input.ty.ty, &is_there);
        let function = found.map_err(|error| self.place_before(symbol, operand.span(), error))?;
        let arg = self.argument(input, function.arg_type(0), start_of(operand))?;
        Ok(Bound::new(Expr::Call { function, args: vec![arg] }, function.result))
    }

    /// Binds operators in a row without recursion along the row: `a AND b AND …` may be thousands
    /// long.
    pub(super) fn chain(&mut self, expr: &ast::Expr) -> Result<Bound> {
        let mut links = Vec::new();
        let mut first = expr;
        while let ast::Expr::BinaryOp { left, op, right } = first {
            links.push((op, &**right));
            first = left;
        }
        self.links_of(first, links)
    }

    /// Binds operators in a row: the first operand, and the others with the operators before them,
    /// the last one first.
    fn links_of(&mut self, first: &ast::Expr, links: Vec<(&BinaryOperator, &ast::Expr)>) -> Result<Bound> {
        let mut span = first.span();
        let mut left_tree = Some(first);
        let mut left = Bound::null();
        let mut row = 0;
        for (op, right) in links.into_iter().rev() {
            let op_span = right.span();
            if let (Some(tree), BinaryOperator::Overlaps) = (left_tree, op) {
                left = self.overlaps(tree, right, span)?;
                left_tree = None;
                continue;
            }
            let by_user = self.catalog.has_operators().then(|| Written::of(op));
            let op = self.at(op_span, operator(op))?;
            // A row on the left is no value: it is bound together with the right side.
            if let (Some(tree), Operator::Compare(compare)) = (left_tree, &op)
                && let Some(tuple) = as_tuple(tree)
            {
                left = self.compare_rows(*compare, &tuple, right, span)?;
                left_tree = None;
                continue;
            }
            if let Some(tree) = left_tree.take() {
                left = self.expr(tree)?;
            }
            left = self.binary(op, by_user, left, span, right)?;
            lay_side_by_side(&mut left.expr, &mut row);
            self.forget_collation(left.ty.ty);
            span = Span { start: span.start, end: op_span.end };
        }
        Ok(left)
    }

    /// `(start, end) OVERLAPS (start, length)`
    fn overlaps(&mut self, left: &ast::Expr, right: &ast::Expr, span: Span) -> Result<Bound> {
        let (Some(left), Some(right)) = (as_tuple(left), as_tuple(right)) else {
            return Err(self.place(span, wrong_overlaps()));
        };
        if left.len() != 2 || right.len() != 2 {
            return Err(self.place(span, wrong_overlaps()));
        }
        let ends = left.iter().chain(right.iter()).map(|end| self.expr(end)).collect::<Result<Vec<_>>>()?;
        self.call("overlaps", ends, span)
    }

    fn binary(
        &mut self,
        op: Operator,
        by_user: Option<Written>,
        mut left: Bound,
        left_span: Span,
        right: &ast::Expr,
    ) -> Result<Bound> {
        let mut bound = self.expr(right)?;
        let span = right.span();
        if let Some(written) = by_user.filter(|_| !matches!(op, Operator::And | Operator::Or)) {
            match self.user_operator(&written, Some((left, left_span)), (bound, span))? {
                ByUser::Called(called) => return Ok(called),
                ByUser::Not(first, second) => (left, bound) = (first.unwrap_or_else(Bound::null), second),
            }
        }
        match op {
            Operator::And | Operator::Or => {
                let is_and = matches!(op, Operator::And);
                let name = if is_and { "AND" } else { "OR" };
                let left = self.condition_of(left, name, left_span)?;
                let right = self.condition_of(bound, name, span)?;
                let expr = match (is_and, left) {
                    (true, Expr::And(mut all)) => {
                        all.push(right);
                        Expr::And(all)
                    }
                    (true, left) => Expr::And(vec![left, right]),
                    (false, Expr::Or(mut any)) => {
                        any.push(right);
                        Expr::Or(any)
                    }
                    (false, left) => Expr::Or(vec![left, right]),
                };
                Ok(Bound::bool(expr))
            }
            // What these are compared by is not the same for all of them.
            Operator::Compare(op) if left.ty.ty.is_geometric() || bound.ty.ty.is_geometric() => {
                self.call_operator(op.symbol(), left, left_span, bound, span)
            }
            Operator::Compare(op) => {
                let (left, right) = self.comparable(op.symbol(), left, left_span, bound, span)?;
                Ok(Bound::bool(Expr::Compare { op, left: Box::new(left), right: Box::new(right) }))
            }
            Operator::Call(symbol) => self.call_operator(symbol, left, left_span, bound, span),
            Operator::Unknown(symbol) => {
                let written = format!("{} {symbol} {}", left.ty.ty, bound.ty.ty);
                Err(self.place_between(&symbol, left_span, span, resolve::no_operator(&written, false)))
            }
        }
    }

    /// An operator of the system over one or two operands that stand at the same place.
    pub(in crate::bind) fn apply_operator(&mut self, symbol: &str, operands: Vec<Bound>, span: Span) -> Result<Bound> {
        let mut operands = operands.into_iter();
        match (operands.next(), operands.next()) {
            (Some(left), Some(right)) => match named(symbol) {
                Operator::Compare(op) if !left.ty.ty.is_geometric() && !right.ty.ty.is_geometric() => {
                    let (left, right) = self.comparable(op.symbol(), left, span, right, span)?;
                    Ok(Bound::bool(Expr::Compare { op, left: Box::new(left), right: Box::new(right) }))
                }
                Operator::Compare(op) => self.call_operator(op.symbol(), left, span, right, span),
                Operator::Call(symbol) => self.call_operator(symbol, left, span, right, span),
                _ => {
                    let written = format!("{} {symbol} {}", left.ty.ty, right.ty.ty);
                    Err(self.place(span, resolve::no_operator(&written, false)))
                }
            },
            (Some(operand), None) => {
                let is_there = |function: &Function| self.is_there(function);
                let found = self.builtin.functions.operator_among(symbol, None, operand.ty.ty, &is_there);
                let function = found.map_err(|error| self.place(span, error))?;
                let arg = self.argument(operand, function.arg_type(0), span)?;
                Ok(Bound::new(Expr::Call { function, args: vec![arg] }, function.result))
            }
            (None, _) => Err(Error::internal("an operator without operands")),
        }
    }

    pub(in crate::bind) fn call_operator(
        &mut self,
        symbol: &'static str,
        left: Bound,
        left_span: Span,
        right: Bound,
        right_span: Span,
    ) -> Result<Bound> {
        let span = if left_span.start.line > 0 { left_span } else { right_span };
        if symbol == "#=" && self.has_extension("hstore") {
            return self.record_with_hstore((left, left_span), (right, right_span), span);
        }
        if let Some(call) = of_user_range(symbol, &[left.ty.ty, right.ty.ty]) {
            return self.user_range_call(call, vec![(left, left_span), (right, right_span)]);
        }
        if let Some(function) = self.operator_of_integers(symbol, left.ty.ty, right.ty.ty) {
            let left = self.argument(left, function.arg_type(0), left_span)?;
            let right = self.argument(right, function.arg_type(1), right_span)?;
            return Ok(Bound::new(Expr::Call { function, args: vec![left, right] }, function.result));
        }
        let is_json = JSON_OPERATORS.contains(&symbol) || matches!(left.ty.ty, Type::Json | Type::Jsonb | Type::Hstore);
        let is_path = |ty: Type| ty.extension() == Some("ltree");
        let is_json = is_json
            || (is_path(left.ty.ty) || is_path(right.ty.ty))
                && symbol != "||"
                && !(left.ty.ty.is_array() && right.ty.ty.is_array());
        if !is_json && (left.ty.ty.is_array() || right.ty.ty.is_array()) {
            return self.array_operator(symbol, left, right, span);
        }
        let is_there = |function: &Function| match is_trigram_operator(function) {
            true => self.has_extension("pg_trgm"),
            false => self.is_there(function),
        };
        let found = self.builtin.functions.operator_among(symbol, Some(left.ty.ty), right.ty.ty, &is_there);
        let function = found.map_err(|error| self.place_between(symbol, left_span, right_span, error))?;
        let matches_blanks = symbol.contains('~') && left.ty.ty == Type::Char;
        let left = if matches_blanks { crate::bind::functions::with_blanks(left) } else { left };
        let left = self.argument(left, function.arg_type(0), left_span)?;
        let right = self.argument(right, function.arg_type(1), right_span)?;
        let mut args = vec![left, right];
        self.checked_for_collation(symbol, &mut args);
        Ok(Bound::new(self.collated(function, args)?, function.result))
    }

    /// The operator of `intarray` that is meant, if one is.
    fn operator_of_integers(&self, symbol: &str, left: Type, right: Type) -> Option<&'static Function> {
        let is_of_it = |ty: Type| ty.is_array() || ty == Type::IntQuery;
        if !(is_of_it(left) || is_of_it(right)) || !self.has_extension("intarray") {
            return None;
        }
        // Arrays of any other type have these, too.
        let is_general = matches!(symbol, "&&" | "@>" | "<@");
        if is_general && ![left, right].contains(&Type::Int4.array_of()) {
            return None;
        }
        let is_there = |function: &Function| function.extension == Some("intarray");
        self.builtin.functions.operator_among(symbol, Some(left), right, &is_there).ok()
    }

    /// Both sides in the type that they are compared in.
    pub(in crate::bind) fn comparable(
        &mut self,
        symbol: &str,
        left: Bound,
        left_span: Span,
        right: Bound,
        right_span: Span,
    ) -> Result<(Expr, Expr)> {
        let Some(ty) = resolve::comparison_type(left.ty.ty, right.ty.ty) else {
            let message = format!("operator does not exist: {} {symbol} {}", left.ty.ty, right.ty.ty);
            let error = Error::new(SqlState::NO_SUCH_FUNCTION, message).hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            );
            return Err(self.place_between(symbol, left_span, right_span, error));
        };
        let ty = if ty == Type::Unknown { Type::Text } else { ty };
        if ty == Type::Hstore && !matches!(symbol, "=" | "<>") {
            let error = resolve::no_operator(&format!("{} {symbol} {}", left.ty.ty, right.ty.ty), false);
            return Err(self.place_between(symbol, left_span, right_span, error));
        }
        if ty.is_row() {
            self.expect_similar_rows(left.ty, right.ty, left_span)?;
        }
        let left = self.coerce(left, ty.into(), CastContext::Implicit, left_span)?;
        let right = self.coerce(right, ty.into(), CastContext::Implicit, right_span)?;
        if self.is_collation_open() && collation::is_collatable(ty) {
            return Ok((collation::open(left, &right), right));
        }
        let is_equality = matches!(symbol, "=" | "<>");
        match self.order_at_hand(ty).filter(|order| !is_equality || !order.deterministic) {
            Some(order) => Ok((collation::keyed(&order, left, ty), collation::keyed(&order, right, ty))),
            None => Ok((left, right)),
        }
    }

    pub(super) fn is_null(&mut self, input: &ast::Expr, negated: bool) -> Result<Bound> {
        if let Some(tuple) = as_tuple(input) {
            let mut all = Vec::with_capacity(tuple.len());
            for input in tuple.iter() {
                all.push(Expr::IsNull { input: Box::new(self.expr(input)?.expr), negated });
            }
            // What is computed of constants is computed whatever decides, as in PostgreSQL.
            all.sort_by_key(|part| {
                let Expr::IsNull { input, .. } = part else { return 2 };
                let is_open =
                    |part: &Expr| matches!(part, Expr::Column(_) | Expr::Arg(_) | Expr::Param(_) | Expr::Subquery(_));
                match &**input {
                    Expr::Const(_) => 1,
                    input if rewrite::is_volatile(input) || rewrite::any(input, &is_open) => 2,
                    _ => 0,
                }
            });
            return Ok(Bound::bool(Expr::And(all)));
        }
        let input = self.expr(input)?;
        if input.ty.ty.is_row() {
            return Ok(self.row_is_null(input.expr, negated));
        }
        if let (Type::Unknown, &Expr::Param(index)) = (input.ty.ty, &input.expr) {
            self.params_tested.push(index);
        }
        Ok(Bound::bool(Expr::IsNull { input: Box::new(input.expr), negated }))
    }

    pub(super) fn is_bool(
        &mut self,
        input: &ast::Expr,
        value: Option<bool>,
        negated: bool,
        clause: &str,
    ) -> Result<Bound> {
        let input = self.condition(input, clause)?;
        Ok(Bound::bool(Expr::IsBool { input: Box::new(input), value, negated }))
    }

    pub(super) fn distinct(&mut self, left: &ast::Expr, right: &ast::Expr, negated: bool) -> Result<Bound> {
        if let (Some(lefts), Some(rights)) = (as_tuple(left), as_tuple(right)) {
            if lefts.len() != rights.len() {
                return Err(self.place(left.span(), unequal_rows()));
            }
            let mut all = Vec::with_capacity(lefts.len());
            for (left, right) in lefts.iter().zip(rights.iter()) {
                all.push(self.distinct(left, right, negated)?.expr);
            }
            return Ok(Bound::bool(if negated { Expr::And(all) } else { Expr::Or(all) }));
        }
        let (left_span, right_span) = (left.span(), right.span());
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.comparable("=", left, left_span, right, right_span)?;
        Ok(Bound::bool(Expr::Distinct { left: Box::new(left), right: Box::new(right), negated }))
    }

    fn compare_rows(&mut self, op: CompareOp, left: &[ast::Expr], right: &ast::Expr, span: Span) -> Result<Bound> {
        if let ast::Expr::Subquery(query) = right
            && self.behind(Barrier::Subquery, |binder| binder.subquery_query(query))?.0.columns.len() == left.len()
        {
            // Each part of the only row there is; more of them are an error.
            let parts = ast::Expr::Tuple(self.parts_of_row(query, left.len())?);
            return self.compare_rows(op, left, &parts, span);
        }
        if let ast::Expr::Subquery(query) = right {
            return self.quantified_rows(left, op, false, query, span, SubqueryUse::Row);
        }
        let Some(right) = as_tuple(right) else {
            let (row, right_span) = (self.row_value(left, span)?, right.span());
            let right = self.expr(right)?;
            let (left, right) = self.comparable(op.symbol(), row, span, right, right_span)?;
            return Ok(Bound::bool(Expr::Compare { op, left: Box::new(left), right: Box::new(right) }));
        };
        if left.len() != right.len() {
            return Err(self.place(span, unequal_rows()));
        }
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for (left, right) in left.iter().zip(right.iter()) {
            let (left_span, right_span) = (left.span(), right.span());
            // Each pair by itself.
            self.forget_collation(Type::Bool);
            let (left, right) = (self.expr(left)?, self.expr(right)?);
            let (left, right) = self.comparable(op.symbol(), left, left_span, right, right_span)?;
            self.forget_collation(Type::Bool);
            lefts.push(left);
            rights.push(right);
        }
        // Equality of rows is equality of each column: the planner finds keys in it.
        if op == CompareOp::Eq {
            let all = lefts.into_iter().zip(rights);
            let all = all.map(|(left, right)| Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
            return Ok(Bound::bool(Expr::And(all.collect())));
        }
        // They differ if one column does, and then no later one is looked at.
        if op == CompareOp::Ne {
            let any = lefts.into_iter().zip(rights);
            let any = any.map(|(left, right)| Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
            return Ok(Bound::bool(Expr::Or(any.collect())));
        }
        Ok(Bound::bool(Expr::CompareRows { op, left: lefts, right: rights }))
    }

    pub(super) fn in_list(&mut self, input: &ast::Expr, list: &[ast::Expr], negated: bool) -> Result<Bound> {
        if let Some(tuple) = as_tuple(input) {
            let mut any = Vec::with_capacity(list.len());
            for item in list {
                any.push(self.compare_rows(CompareOp::Eq, &tuple, item, input.span())?.expr);
            }
            let any = Expr::Or(any);
            return Ok(Bound::bool(if negated { Expr::Not(Box::new(any)) } else { any }));
        }
        if let [ast::Expr::Subquery(query)] = list {
            let op = if negated { CompareOp::Ne } else { CompareOp::Eq };
            return self.quantified(input, op, negated, query, input.span());
        }
        let span = input.span();
        let input = self.expr(input)?;
        let mut types = vec![input.ty.ty];
        // Each is compared by itself.
        let collation = self.collation.clone();
        let mut open = Vec::new();
        let mut orders = Vec::with_capacity(list.len());
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            self.collation.clone_from(&collation);
            let bound = self.expr(item)?;
            orders.push(self.order_at_hand(Type::Text).filter(|order| !order.deterministic));
            if self.is_collation_open() && collation::is_collatable(bound.ty.ty) {
                open.push(items.len());
            }
            types.push(bound.ty.ty);
            items.push((bound, item.span()));
        }
        self.forget_collation(Type::Bool);
        if let [(item, item_span)] = &items[..]
            && (self.gives_rows(&input.expr) || self.gives_rows(&item.expr))
        {
            let error = Error::new(SqlState::TYPE_MISMATCH, "argument of IN must not return a set");
            return Err(self.place(*item_span, error));
        }
        let common = types[1..].iter().try_fold(types[0], |ty, &other| resolve::comparison_type(ty, other));
        let Some(ty) = common else { return self.in_mixed_list(&input, span, items, negated) };
        let ty = if ty == Type::Unknown { Type::Text } else { ty };
        if collation::has_order(ty) && orders.iter().any(|order| *order != orders[0]) {
            return Err(self.place(span, Error::unsupported("IN with nondeterministic collations that differ")));
        }
        let input = self.coerce(input, ty.into(), CastContext::Implicit, span)?;
        let mut list = Vec::with_capacity(items.len());
        for (item, span) in items {
            list.push(self.coerce(item, ty.into(), CastContext::Implicit, span)?);
        }
        for place in open {
            list[place] = collation::open(list[place].clone(), &input);
        }
        let mut input = input;
        if let (Some(Some(order)), true) = (orders.first(), collation::has_order(ty)) {
            input = collation::keyed(order, input, ty);
            for item in &mut list {
                *item = collation::keyed(order, std::mem::replace(item, Expr::Const(colibri_types::Datum::Null)), ty);
            }
        }
        // Several values that depend on no row are an array to PostgreSQL, which is looked at
        // first.
        let depends_on_row = |item: &Expr| rewrite::uses_row(item);
        if list.iter().filter(|item| !depends_on_row(item)).nth(1).is_some() && list.iter().any(depends_on_row) {
            list.sort_by_key(depends_on_row);
        }
        Ok(Bound::bool(Expr::InList { input: Box::new(input), list, negated, id: ListId::new() }))
    }

    /// A list whose values have no type in common: each is compared by itself.
    fn in_mixed_list(&mut self, input: &Bound, span: Span, items: Vec<(Bound, Span)>, negated: bool) -> Result<Bound> {
        let (op, symbol) = if negated { (CompareOp::Ne, "<>") } else { (CompareOp::Eq, "=") };
        let mut all = Vec::with_capacity(items.len());
        for (item, item_span) in items {
            let input = self.copy_of(input)?;
            let (left, right) = self.comparable(symbol, input, span, item, item_span)?;
            all.push(Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
        }
        Ok(Bound::bool(if negated { Expr::And(all) } else { Expr::Or(all) }))
    }

    /// Another one of what stands for several places.
    ///
    /// Bug: operands that are looked at twice were copied whatever is inside. Consequence: thirty
    /// BETWEENs inside each other took all memory there is, and nothing ended them. Fix: what is
    /// copied is counted, and 54001 comes before long.
    pub(super) fn copy_of(&mut self, bound: &Bound) -> Result<Bound> {
        self.copied += nodes(&bound.expr);
        if self.copied > COPIED_MAX {
            return Err(colibri_syntax::too_deep());
        }
        Ok(bound.clone())
    }

    pub(super) fn between(
        &mut self,
        input: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> Result<Bound> {
        let (low_op, high_op) = if negated { (CompareOp::Lt, CompareOp::Gt) } else { (CompareOp::Ge, CompareOp::Le) };
        if let Some(low) = without_symmetric(low) {
            let one = self.between(input, &low, high, negated)?.expr;
            let other = self.between(input, high, &low, negated)?.expr;
            return Ok(Bound::bool(if negated { Expr::And(vec![one, other]) } else { Expr::Or(vec![one, other]) }));
        }
        if let Some(tuple) = as_tuple(input) {
            let low = self.compare_rows(low_op, &tuple, low, input.span())?.expr;
            let high = self.compare_rows(high_op, &tuple, high, input.span())?.expr;
            return Ok(Bound::bool(if negated { Expr::Or(vec![low, high]) } else { Expr::And(vec![low, high]) }));
        }
        let spans = (input.span(), low.span(), high.span());
        let input = self.expr(input)?;
        let collation = self.collation.clone();
        let mut sides = Vec::with_capacity(2);
        for (op, end, span) in [(low_op, low, spans.1), (high_op, high, spans.2)] {
            // Each end by itself.
            self.collation.clone_from(&collation);
            let bound = self.expr(end)?;
            let input = self.copy_of(&input)?;
            let (left, right) = self.comparable(op.symbol(), input, spans.0, bound, span)?;
            sides.push(Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
        }
        Ok(Bound::bool(if negated { Expr::Or(sides) } else { Expr::And(sides) }))
    }

    pub(super) fn like(
        &mut self,
        symbol: &'static str,
        input: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Bound> {
        let (input_span, pattern_span) = (input.span(), pattern.span());
        let input = self.expr(input)?;
        let mut pattern = self.expr(pattern)?;
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            pattern = self.call("like_escape", vec![pattern, escape], pattern_span)?;
        }
        self.call_operator(symbol, input, input_span, pattern, pattern_span)
    }

    /// `SIMILAR TO`: its pattern as a regular expression.
    pub(super) fn similar(
        &mut self,
        symbol: &'static str,
        input: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        span: Span,
    ) -> Result<Bound> {
        let (input_span, pattern_span) = (input.span(), pattern.span());
        let input = self.expr(input)?;
        let mut args = vec![self.expr(pattern)?];
        if let Some(escape) = escape {
            args.push(self.expr(escape)?);
        }
        let pattern = self.call("similar_to_escape", args, span)?;
        self.call_operator(symbol, input, input_span, pattern, pattern_span)
    }

    /// `ARRAY[…]`
    pub(super) fn array(&mut self, elements: &[ast::Expr], span: Span) -> Result<Bound> {
        let mut bounds = Vec::with_capacity(elements.len());
        for element in elements {
            bounds.push((self.expr(element)?, element.span()));
        }
        let types: Vec<Type> = bounds.iter().map(|(bound, _)| bound.ty.ty).collect();
        if types.is_empty() {
            // What it is of, a cast around it tells.
            return Ok(Bound::new(Expr::Array { element: Type::Text, values: Vec::new() }, Type::Unknown));
        }
        let ty = self.common_type("ARRAY", &types, span)?;
        let element = ty.item();
        let Some(of_type) = element.array() else {
            let message = format!("could not find array type for data type {ty}");
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_OBJECT, message)));
        };
        // Of values of one domain, or of arrays of it, it is an array of that.
        let first = bounds[0].0.ty;
        let is_of_one = bounds.iter().all(|(bound, _)| bound.ty == first);
        let domain = crate::bind::domains::arrays_of(first).filter(|_| is_of_one);
        let mut values = Vec::with_capacity(bounds.len());
        for (bound, span) in bounds {
            values.push(self.coerce(bound, ty.into(), CastContext::Implicit, span)?);
        }
        Ok(Bound::new(Expr::Array { element, values }, ColumnType { domain, ..of_type.into() }))
    }

    /// `array[1]`, `(record).field`
    pub(super) fn access(&mut self, root: &ast::Expr, chain: &[ast::AccessExpr], span: Span) -> Result<Bound> {
        // `alias.column[1]` comes as `alias` with a chain behind it.
        let (value, chain) = match (root, chain) {
            (ast::Expr::Identifier(table), [ast::AccessExpr::Dot(ast::Expr::Identifier(column)), rest @ ..]) => {
                (self.column(Some((None, fold(table))), column)?, rest)
            }
            // `(table).column` is the column, unless a column has that name.
            (root, [ast::AccessExpr::Dot(ast::Expr::Identifier(field)), rest @ ..])
                if let Some(table) = self.table_meant(root) =>
            {
                (self.column_at(Some((None, table)), field, span)?, rest)
            }
            _ => (self.expr(root)?, chain),
        };
        self.part_of_value(value, chain, span)
    }

    /// A part of a value: fields and elements, one inside the other.
    pub(in crate::bind) fn part_of_value(
        &mut self,
        mut value: Bound,
        mut chain: &[ast::AccessExpr],
        span: Span,
    ) -> Result<Bound> {
        while let Some((first, rest)) = chain.split_first() {
            let mut args = vec![];
            value = match first {
                ast::AccessExpr::Dot(ast::Expr::Identifier(field)) => {
                    chain = rest;
                    self.field(value, field, span)?
                }
                ast::AccessExpr::Subscript(_) => {
                    let end = chain.iter().position(|access| !matches!(access, ast::AccessExpr::Subscript(_)));
                    let (subscripts, rest) = chain.split_at(end.unwrap_or(chain.len()));
                    chain = rest;
                    if value.ty.ty == Type::Jsonb {
                        let mut args = vec![value];
                        args.extend(self.json_subscripts(subscripts, span)?);
                        value = self.call(".jsonb_subscript", args, span)?;
                        continue;
                    }
                    if value.ty.ty == Type::Hstore {
                        let key = self.hstore_subscript(subscripts, span)?;
                        value = self.call("fetchval", vec![value, key], span)?;
                        continue;
                    }
                    if let (Type::Name, [ast::AccessExpr::Subscript(ast::Subscript::Index { index })]) =
                        (value.ty.ty, subscripts)
                    {
                        value = self.byte_of_name(value, index, span)?;
                        continue;
                    }
                    let is_shape = matches!(value.ty.ty, Type::Point | Type::Box | Type::Lseg | Type::Line);
                    let is_slice = |access| matches!(access, &ast::AccessExpr::Subscript(ast::Subscript::Slice { .. }));
                    if is_shape && subscripts.iter().any(is_slice) {
                        let message = "slices of fixed-length arrays not implemented";
                        return Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
                    }
                    // The fixed parts of a shape are counted from 0.
                    if let (
                        Type::Point | Type::Box | Type::Lseg | Type::Line,
                        [ast::AccessExpr::Subscript(ast::Subscript::Index { index })],
                    ) = (value.ty.ty, subscripts)
                    {
                        let index = self.subscript(index)?;
                        value = self.call(".subscript", vec![value, index], span)?;
                        continue;
                    }
                    if value.ty.ty.element().is_none() {
                        let message =
                            format!("cannot subscript type {} because it does not support subscripting", value.ty.ty);
                        return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
                    }
                    let is_slice = |access| matches!(access, &ast::AccessExpr::Subscript(ast::Subscript::Slice { .. }));
                    if subscripts.iter().any(is_slice) {
                        self.slice(value, subscripts, span)?
                    } else {
                        let domain = value.ty.domain.filter(|domain| domain.is_array());
                        args.push(value);
                        for access in subscripts {
                            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else { continue };
                            args.push(self.subscript(index)?);
                        }
                        let mut found = self.call("[]", args, span)?;
                        found.ty.domain = domain.map(DomainType::element);
                        found
                    }
                }
                ast::AccessExpr::Dot(_) => {
                    let message = "row expansion via \"*\" is not supported here";
                    return Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
                }
            };
        }
        Ok(value)
    }

    /// The subscript of an `hstore`: its key.
    pub(in crate::bind) fn hstore_subscript(&mut self, subscripts: &[ast::AccessExpr], span: Span) -> Result<Bound> {
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = subscripts else {
            let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, "hstore allows only one subscript");
            return Err(self.place(span, error));
        };
        let key = self.expr(index)?;
        let ty = key.ty.ty;
        if ty != Type::Unknown
            && colibri_types::cast::cast_context(ty, Type::Text).is_none_or(|context| context > CastContext::Assignment)
        {
            let error = Error::new(SqlState::TYPE_MISMATCH, format!("hstore subscript must have type text, not {ty}"));
            return Err(self.place(index.span(), error));
        }
        Ok(Bound::new(self.coerce(key, Type::Text.into(), CastContext::Assignment, index.span())?, Type::Text))
    }

    /// Subscripts of `jsonb`, as texts.
    pub(in crate::bind) fn json_subscripts(
        &mut self,
        subscripts: &[ast::AccessExpr],
        span: Span,
    ) -> Result<Vec<Bound>> {
        let mut steps = Vec::with_capacity(subscripts.len());
        for access in subscripts {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else {
                let error = Error::new(SqlState::TYPE_MISMATCH, "jsonb subscript does not support slices");
                return Err(self.place(span, error));
            };
            let at = index.span();
            let step = self.expr(index)?;
            let ty = step.ty.ty;
            if !matches!(ty, Type::Int2 | Type::Int4 | Type::Unknown)
                && ty.category() != colibri_types::Category::String
            {
                let error = Error::new(SqlState::TYPE_MISMATCH, format!("subscript type {ty} is not supported"))
                    .detail("jsonb subscript must be coercible to either integer or text.");
                return Err(self.place(at, error));
            }
            let step = self.coerce(step, Type::Text.into(), CastContext::Explicit, at)?;
            steps.push(Bound::new(step, Type::Text));
        }
        Ok(steps)
    }

    pub(in crate::bind) fn subscript(&mut self, index: &ast::Expr) -> Result<Bound> {
        let span = index.span();
        let index = self.expr(index)?;
        let index = self.coerce(index, Type::Int4.into(), CastContext::Assignment, span).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE {
                return error;
            }
            self.place(span, Error::new(SqlState::TYPE_MISMATCH, "array subscript must have type integer"))
        })?;
        Ok(Bound::new(index, Type::Int4))
    }

    /// `name[0]`: a name is an array of 64 bytes, which are counted from 0.
    fn byte_of_name(&mut self, name: Bound, index: &ast::Expr, span: Span) -> Result<Bound> {
        let index = self.subscript(index)?;
        let one = || Bound::new(Expr::Const(colibri_types::Datum::Int(1)), Type::Int4);
        let bytes = self.coerce(name, Type::Text.into(), CastContext::Explicit, span)?;
        let place = self.call("+", vec![index, one()], span)?;
        let letter = self.call("substr", vec![Bound::new(bytes, Type::Text), place, one()], span)?;
        let letter = self.coerce(letter, Type::InternalChar.into(), CastContext::Explicit, span)?;
        Ok(Bound::new(letter, Type::InternalChar))
    }

    /// `array[lower:upper]`; a single subscript beside a slice is its upper bound, from 1.
    fn slice(&mut self, array: Bound, subscripts: &[ast::AccessExpr], span: Span) -> Result<Bound> {
        let (missing, mut bounds) = self.bounds_of_slice(subscripts, span)?;
        let missing = Bound::new(Expr::Const(colibri_types::Datum::Int(missing)), Type::Int4);
        let mut args = vec![array, missing];
        args.append(&mut bounds);
        self.call("[:]", args, span)
    }

    /// The bounds of a slice, and which of them are missing, a bit for each.
    pub(in crate::bind) fn bounds_of_slice(
        &mut self,
        subscripts: &[ast::AccessExpr],
        span: Span,
    ) -> Result<(i64, Vec<Bound>)> {
        /// Dimensions that an array may have.
        const SUBSCRIPTS_MAX: usize = 6;
        if subscripts.len() > SUBSCRIPTS_MAX {
            let count = subscripts.len();
            let message =
                format!("number of array dimensions ({count}) exceeds the maximum allowed ({SUBSCRIPTS_MAX})");
            return Err(self.place(span, Error::new(SqlState::PROGRAM_LIMIT, message)));
        }
        let number = |value| Bound::new(Expr::Const(colibri_types::Datum::Int(value)), Type::Int4);
        let (mut bounds, mut missing) = (Vec::with_capacity(2 * subscripts.len()), 0);
        for access in subscripts {
            let both = match access {
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    [Some(number(1)), Some(self.subscript(index)?)]
                }
                ast::AccessExpr::Subscript(ast::Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                    let mut bound =
                        |index: &Option<ast::Expr>| index.as_ref().map(|index| self.subscript(index)).transpose();
                    [bound(lower_bound)?, bound(upper_bound)?]
                }
                _ => return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \":\""))),
            };
            for bound in both {
                missing |= i64::from(bound.is_none()) << bounds.len();
                bounds.push(bound.unwrap_or_else(|| number(0)));
            }
        }
        Ok((missing, bounds))
    }

    /// An operator beside an array: what it does not take as an array is taken for a value, but for
    /// what has no type yet.
    fn array_operator(&mut self, symbol: &'static str, left: Bound, right: Bound, span: Span) -> Result<Bound> {
        let may_be_array = |side: &Bound| side.ty.ty.is_array() || side.ty.ty == Type::Unknown;
        let name = match symbol {
            "||" if may_be_array(&left) && may_be_array(&right) => "array_cat",
            "||" if left.ty.ty.is_array() => "array_append",
            "||" => "array_prepend",
            _ => symbol,
        };
        self.call(name, vec![left, right], span)
    }
}

/// Makes a chain of a row of calls that has become long, and has the next call join it. `row`
/// counts those inside each other.
fn lay_side_by_side(expr: &mut Expr, row: &mut usize) {
    let Expr::Call { function, args } = expr else { return };
    if let [Expr::Chain { .. }, _] = &args[..] {
        let function = *function;
        let (operand, chain) = (args.pop(), args.pop());
        if let (Some(operand), Some(Expr::Chain { first, mut links })) = (operand, chain) {
            links.push((function, operand));
            *expr = Expr::Chain { first, links };
        }
        return;
    }
    *row += 1;
    if *row >= ROW_MAX {
        *row = 0;
        let first = Box::new(std::mem::replace(expr, Expr::Const(colibri_types::Datum::Null)));
        *expr = Expr::Chain { first, links: Vec::new() };
    }
}
