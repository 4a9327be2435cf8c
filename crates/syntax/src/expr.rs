//! Expressions: operators by PostgreSQL's table of precedences.
//!
//! | level | operators | in a row |
//! | --- | --- | --- |
//! | 1, 2 | OR, AND | from the left |
//! | 3 | NOT | in front |
//! | 4 | IS, ISNULL, NOTNULL | refused for IS DISTINCT FROM, else one behind the other |
//! | 5 | `< > = <= >= <>` | refused |
//! | 6 | BETWEEN, IN, LIKE, ILIKE, SIMILAR TO | refused, IN excepted |
//! | 7 | any other operator, `OPERATOR(…)` | from the left, and in front |
//! | 8, 9, 10 | `+ -`, `* / %`, `^` | from the left |
//! | 11, 12 | AT TIME ZONE, COLLATE | from the left |
//! | 13 | signs | in front |
//! | 14 | `::` | behind |
//!
//! What stands in front of its operand may stand anywhere that an expression may, and takes what
//! binds closer than itself: `a = NOT b` is read, and so is `a + @ b`.

use colibri_types::{Result, pulse};
use sqlparser::ast::{self, BinaryOperator as B, Expr, UnaryOperator as U};

use crate::keyword::Keyword as K;
use crate::operators::PREFIX_MARK;
use crate::parser::Parser;
use crate::token::Kind;

mod calls;
mod named_arguments;
mod names;
mod primary;
mod special;
mod window;
mod xml;

pub(crate) use primary::Parenthesized;

type Level = u8;

const OR: Level = 1;
const AND: Level = 2;
const NOT: Level = 3;
const IS: Level = 4;
const COMPARISON: Level = 5;
const LIKE: Level = 6;
const OPERATOR: Level = 7;
const SUM: Level = 8;
const PRODUCT: Level = 9;
const POWER: Level = 10;
const AT_ZONE: Level = 11;
const COLLATE: Level = 12;
const SIGN: Level = 13;
const CAST: Level = 14;

/// What kinds of operators an expression may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Those that neither AND nor a constraint of a column could be taken for: no AND, OR, NOT, IN,
    /// LIKE, BETWEEN, and of IS only DISTINCT FROM.
    Simple,
}

impl Parser<'_> {
    /// An expression.
    pub(crate) fn expr(&mut self) -> Result<Expr> {
        self.expr_at(0, Scope::All)
    }

    /// An expression that a word such as AND, IN or NOT may follow.
    pub(crate) fn simple_expr(&mut self) -> Result<Expr> {
        self.expr_at(0, Scope::Simple)
    }

    /// An operand: an expression without operators around it.
    pub(crate) fn primary_expr(&mut self) -> Result<Expr> {
        self.nested(Self::primary)
    }

    /// An expression of operators of a level and of closer ones.
    fn expr_at(&mut self, least: Level, scope: Scope) -> Result<Expr> {
        let left = self.nested(|parser| parser.prefix(scope))?;
        self.infixes(left, least, scope)
    }

    /// An expression whose first operand is read.
    pub(crate) fn rest_of_expr(&mut self, left: Expr) -> Result<Expr> {
        self.infixes(left, 0, Scope::All)
    }

    fn infixes(&mut self, mut left: Expr, least: Level, scope: Scope) -> Result<Expr> {
        // The level of an operator that may not be followed by another one of its level.
        let mut closed = None;
        while let Some(level) = self.infix_level(scope) {
            if level < least {
                break;
            }
            if closed == Some(level) {
                return Err(self.wrong());
            }
            pulse::work(1)?;
            (left, closed) = self.infix(left, level, scope)?;
        }
        Ok(left)
    }

    /// The level of the operator that comes next.
    fn infix_level(&self, scope: Scope) -> Option<Level> {
        let all = scope == Scope::All;
        Some(match self.kind() {
            Kind::Less | Kind::Greater | Kind::Equal => COMPARISON,
            Kind::LessEqual | Kind::GreaterEqual | Kind::NotEqual => COMPARISON,
            Kind::Operator => OPERATOR,
            Kind::Plus | Kind::Minus => SUM,
            Kind::Star | Kind::Slash | Kind::Percent => PRODUCT,
            Kind::Caret => POWER,
            Kind::Cast => CAST,
            Kind::Key(word) => match word {
                K::Or if all => OR,
                K::And if all => AND,
                K::Isnull | K::Notnull if all => IS,
                K::Is if all || self.is_distinct_test() => IS,
                K::Between | K::In | K::Like | K::Ilike if all => LIKE,
                K::Similar if all && self.kind_behind(1) == Kind::Key(K::To) => LIKE,
                K::Not if all => match self.kind_behind(1) {
                    Kind::Key(K::Between | K::In | K::Like | K::Ilike | K::Similar) => LIKE,
                    _ => return None,
                },
                K::Operator if self.kind_behind(1) == Kind::LeftParen => OPERATOR,
                K::At if self.kind_behind(1) == Kind::Key(K::Time) => AT_ZONE,
                K::Collate => COLLATE,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Whether IS comes next, with DISTINCT FROM or DOCUMENT behind it.
    fn is_distinct_test(&self) -> bool {
        let behind = 1 + usize::from(self.kind_behind(1) == Kind::Key(K::Not));
        matches!(self.kind_behind(behind), Kind::Key(K::Distinct | K::Document))
    }

    /// Takes an operator and what follows it; gives its level if another one of it may not follow.
    fn infix(&mut self, left: Expr, level: Level, scope: Scope) -> Result<(Expr, Option<Level>)> {
        let left = Box::new(left);
        match self.kind() {
            Kind::Cast => {
                self.next();
                let data_type = self.data_type()?;
                let kind = ast::CastKind::DoubleColon;
                Ok((Expr::Cast { kind, expr: left, data_type, format: None }, None))
            }
            Kind::Key(K::Collate) => {
                self.next();
                let collation = self.object_name()?;
                Ok((Expr::Collate { expr: left, collation }, None))
            }
            Kind::Key(K::At) => {
                self.next();
                self.expect_all(&[K::Time, K::Zone])?;
                let time_zone = Box::new(self.expr_at(level + 1, scope)?);
                Ok((Expr::AtTimeZone { timestamp: left, time_zone }, None))
            }
            Kind::Key(K::Isnull) => {
                self.next();
                Ok((Expr::IsNull(left), None))
            }
            Kind::Key(K::Notnull) => {
                self.next();
                Ok((Expr::IsNotNull(left), None))
            }
            Kind::Key(K::Is) => self.is_test(left, scope),
            Kind::Key(K::Not | K::Between | K::In | K::Like | K::Ilike | K::Similar) => self.test(left),
            _ => self.binary(left, level, scope),
        }
    }

    fn binary(&mut self, left: Box<Expr>, level: Level, scope: Scope) -> Result<(Expr, Option<Level>)> {
        let op = self.binary_operator()?;
        let is_logic = matches!(op, B::And | B::Or);
        let quantifier = match self.kind() {
            Kind::Key(word @ (K::Any | K::Some | K::All)) if scope == Scope::All && !is_logic => Some(word),
            _ => None,
        };
        if let Some(quantifier) = quantifier {
            self.next();
            let right = Box::new(self.quantified()?);
            let expr = match quantifier {
                K::All => Expr::AllOp { left, compare_op: op, right },
                word => Expr::AnyOp { left, compare_op: op, right, is_some: word == K::Some },
            };
            return Ok((expr, None));
        }
        let right = Box::new(self.expr_at(level + 1, scope)?);
        let closed = (level == COMPARISON).then_some(level);
        Ok((Expr::BinaryOp { left, op, right }, closed))
    }

    /// The array or the query behind ANY and ALL.
    fn quantified(&mut self) -> Result<Expr> {
        match self.parenthesized()? {
            Parenthesized::Query(query, levels) => Ok(Self::as_operand(query, levels)),
            Parenthesized::Exprs(mut exprs) if exprs.len() == 1 => Ok(exprs.remove(0)),
            Parenthesized::Exprs(exprs) => Ok(Expr::Tuple(exprs)),
        }
    }

    fn binary_operator(&mut self) -> Result<B> {
        let token = self.next();
        Ok(match token.kind {
            Kind::Key(K::Or) => B::Or,
            Kind::Key(K::And) => B::And,
            Kind::Key(_) => B::PGCustomBinaryOperator(self.operator_name()?),
            _ => named_operator(self.token_text(token)),
        })
    }

    /// The operator in `OPERATOR(schema.+)`, with its schema.
    fn operator_name(&mut self) -> Result<Vec<String>> {
        self.expect_kind(Kind::LeftParen)?;
        let mut parts = Vec::new();
        while Self::is_column_name(self.kind()) {
            parts.push(self.name()?.value);
            self.expect_kind(Kind::Period)?;
        }
        parts.push(self.operator_symbol()?);
        self.expect_kind(Kind::RightParen)?;
        Ok(parts)
    }

    /// An operator of any kind, as it is written.
    pub(crate) fn operator_symbol(&mut self) -> Result<String> {
        let is_operator = matches!(
            self.kind(),
            Kind::Operator
                | Kind::Plus
                | Kind::Minus
                | Kind::Star
                | Kind::Slash
                | Kind::Percent
                | Kind::Caret
                | Kind::Less
                | Kind::Greater
                | Kind::Equal
                | Kind::LessEqual
                | Kind::GreaterEqual
                | Kind::NotEqual
        );
        if !is_operator {
            return Err(self.wrong());
        }
        let token = self.next();
        Ok(self.token_text(token).to_owned())
    }

    /// `IS [NOT] …`
    fn is_test(&mut self, left: Box<Expr>, scope: Scope) -> Result<(Expr, Option<Level>)> {
        self.next();
        let negated = self.eat(K::Not);
        if self.is_next(K::Distinct) {
            self.next();
            self.expect(K::From)?;
            let right = Box::new(self.expr_at(IS + 1, scope)?);
            let expr = match negated {
                true => Expr::IsNotDistinctFrom(left, right),
                false => Expr::IsDistinctFrom(left, right),
            };
            return Ok((expr, Some(IS)));
        }
        let token = self.peek();
        let form = match token.kind {
            Kind::Key(K::Nfc) => Some(ast::NormalizationForm::NFC),
            Kind::Key(K::Nfd) => Some(ast::NormalizationForm::NFD),
            Kind::Key(K::Nfkc) => Some(ast::NormalizationForm::NFKC),
            Kind::Key(K::Nfkd) => Some(ast::NormalizationForm::NFKD),
            _ => None,
        };
        if form.is_some() {
            self.next();
            self.expect(K::Normalized)?;
            return Ok((Expr::IsNormalized { expr: left, form, negated }, None));
        }
        let expr = match (token.kind, negated) {
            (Kind::Key(K::Null), false) => Expr::IsNull(left),
            (Kind::Key(K::Null), true) => Expr::IsNotNull(left),
            (Kind::Key(K::True), false) => Expr::IsTrue(left),
            (Kind::Key(K::True), true) => Expr::IsNotTrue(left),
            (Kind::Key(K::False), false) => Expr::IsFalse(left),
            (Kind::Key(K::False), true) => Expr::IsNotFalse(left),
            (Kind::Key(K::Unknown), false) => Expr::IsUnknown(left),
            (Kind::Key(K::Unknown), true) => Expr::IsNotUnknown(left),
            (Kind::Key(K::Normalized), _) => Expr::IsNormalized { expr: left, form: None, negated },
            (Kind::Key(K::Document), _) => Self::is_document(*left, negated),
            _ => return Err(self.wrong()),
        };
        self.next();
        Ok((expr, None))
    }

    /// `[NOT] BETWEEN`, IN, LIKE and SIMILAR TO.
    fn test(&mut self, left: Box<Expr>) -> Result<(Expr, Option<Level>)> {
        let negated = self.eat(K::Not);
        let token = self.next();
        match token.kind {
            Kind::Key(K::Between) => {
                let expr = self.between(left, negated)?;
                Ok((expr, Some(LIKE)))
            }
            Kind::Key(K::In) => Ok((self.within(left, negated)?, None)),
            Kind::Key(K::Similar) => {
                self.expect(K::To)?;
                let pattern = Box::new(self.expr_at(LIKE + 1, Scope::All)?);
                let escape_char = self.escape()?;
                Ok((Expr::SimilarTo { negated, expr: left, pattern, escape_char }, Some(LIKE)))
            }
            kind => {
                if self.is_next(K::Any) || self.is_next(K::Some) {
                    self.next();
                    let pattern = Box::new(self.quantified_pattern()?);
                    return Ok((like(kind, negated, true, left, pattern, None), None));
                }
                if self.is_next(K::All) {
                    self.next();
                    let right = Box::new(self.quantified()?);
                    let compare_op = match (kind, negated) {
                        (Kind::Key(K::Ilike), false) => B::PGILikeMatch,
                        (Kind::Key(K::Ilike), true) => B::PGNotILikeMatch,
                        (_, false) => B::PGLikeMatch,
                        (_, true) => B::PGNotLikeMatch,
                    };
                    return Ok((Expr::AllOp { left, compare_op, right }, None));
                }
                let pattern = Box::new(self.expr_at(LIKE + 1, Scope::All)?);
                let escape = self.escape()?;
                Ok((like(kind, negated, false, left, pattern, escape), Some(LIKE)))
            }
        }
    }

    /// As [`Self::quantified`], with the parentheses that the tree has there.
    fn quantified_pattern(&mut self) -> Result<Expr> {
        fn is_query(expr: &Expr) -> bool {
            match expr {
                Expr::Nested(inner) => is_query(inner),
                other => matches!(other, Expr::Subquery(_)),
            }
        }
        let right = self.quantified()?;
        Ok(if is_query(&right) { right } else { Expr::Nested(Box::new(right)) })
    }

    fn escape(&mut self) -> Result<Option<Box<Expr>>> {
        if !self.eat(K::Escape) {
            return Ok(None);
        }
        Ok(Some(Box::new(self.expr_at(LIKE + 1, Scope::All)?)))
    }

    fn between(&mut self, left: Box<Expr>, negated: bool) -> Result<Expr> {
        let is_mark = self.is_kept && self.kind() == Kind::Operator && self.token_text(self.peek()) == "!!";
        let is_symmetric = self.eat(K::Symmetric) || is_mark && self.eat_kind(Kind::Operator);
        if !is_symmetric {
            self.eat(K::Asymmetric);
        }
        let mut low = self.expr_at(0, Scope::Simple)?;
        if is_symmetric {
            // The binder knows SYMMETRIC by this operator, which does not exist otherwise.
            let is_plain = matches!(low, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            if !is_plain && !matches!(low, Expr::Nested(_) | Expr::Function(_)) {
                low = Expr::Nested(Box::new(low));
            }
            low = Expr::UnaryOp { op: U::PGPrefixFactorial, expr: Box::new(low) };
        }
        self.expect(K::And)?;
        let high = Box::new(self.expr_at(LIKE + 1, Scope::All)?);
        Ok(Expr::Between { expr: left, negated, low: Box::new(low), high })
    }

    /// What follows IN.
    fn within(&mut self, left: Box<Expr>, negated: bool) -> Result<Expr> {
        Ok(match self.parenthesized()? {
            Parenthesized::Query(mut query, levels) => {
                for _ in 0..levels {
                    query = Box::new(Self::query_of(ast::SetExpr::Query(query)));
                }
                Expr::InSubquery { expr: left, subquery: query, negated }
            }
            Parenthesized::Exprs(list) => Expr::InList { expr: left, list, negated },
        })
    }

    /// What may stand in front of an operand, and the operand.
    fn prefix(&mut self, scope: Scope) -> Result<Expr> {
        let token = self.peek();
        match token.kind {
            Kind::Plus | Kind::Minus => {
                self.next();
                let op = if token.kind == Kind::Plus { U::Plus } else { U::Minus };
                let operand = self.expr_at(SIGN, scope)?;
                Ok(in_front(op, operand))
            }
            Kind::Key(K::Not) if scope == Scope::All => {
                self.next();
                match self.expr_at(NOT + 1, scope)? {
                    Expr::Exists { subquery, negated: false } => Ok(Expr::Exists { subquery, negated: true }),
                    operand => Ok(Expr::UnaryOp { op: U::Not, expr: Box::new(operand) }),
                }
            }
            Kind::Operator => {
                self.next();
                let symbol = self.token_text(token);
                self.prefix_operator(symbol, scope)
            }
            Kind::Key(K::Operator) if self.kind_behind(1) == Kind::LeftParen => {
                self.next();
                let parts = self.operator_name()?;
                match &parts[..] {
                    [symbol] => self.prefix_operator(symbol, scope),
                    [schema, symbol] if schema == "pg_catalog" => self.prefix_operator(symbol, scope),
                    _ => self.prefix_operator(&parts.join("."), scope),
                }
            }
            // The binder takes it where rows are written.
            Kind::Key(K::Default) => {
                self.next();
                Ok(Expr::Identifier(self.ident_of(token)?))
            }
            _ => self.primary(),
        }
    }

    fn prefix_operator(&mut self, symbol: &str, scope: Scope) -> Result<Expr> {
        let op = match symbol {
            "~" => Some(U::BitwiseNot),
            "@" => Some(U::PGAbs),
            "|/" => Some(U::PGSquareRoot),
            "||/" => Some(U::PGCubeRoot),
            "+" => Some(U::Plus),
            "-" => Some(U::Minus),
            "#" => Some(U::Hash),
            "@@" => Some(U::DoubleAt),
            "@-@" => Some(U::AtDashAt),
            "?-" => Some(U::QuestionDash),
            "?|" => Some(U::QuestionPipe),
            _ => None,
        };
        let mut operand = self.expr_at(OPERATOR + 1, scope)?;
        let is_of_system = op.is_some() || symbol == "!!";
        if !is_of_system {
            let (schema, symbol) = symbol.rsplit_once('.').unwrap_or(("", symbol));
            return Ok(names::call_of_users_operator(&format!("{PREFIX_MARK}{schema}"), symbol, operand));
        }
        if symbol == "!!" {
            // In the tree it is a call, since between bounds the same symbol stands for SYMMETRIC.
            return Ok(names::call_of_operator(symbol, operand));
        }
        if matches!(op, Some(U::Plus | U::Minus)) {
            // As a sign it would be written, which binds more closely.
            operand = Expr::Nested(Box::new(operand));
        }
        Ok(in_front(op.unwrap_or(U::Plus), operand))
    }
}

/// An operator in front of its operand. One that begins with an operator itself is kept apart by
/// parentheses: written one behind the other, both would be another operator, or a comment.
fn in_front(op: U, operand: Expr) -> Expr {
    let operand = if begins_with_operator(&operand) { Expr::Nested(Box::new(operand)) } else { operand };
    Expr::UnaryOp { op, expr: Box::new(operand) }
}

fn begins_with_operator(expr: &Expr) -> bool {
    let mut first = expr;
    loop {
        first = match first {
            Expr::UnaryOp { op, .. } => return *op != U::Not,
            Expr::BinaryOp { left, .. } => left,
            Expr::Cast { kind: ast::CastKind::DoubleColon, expr, .. } | Expr::Collate { expr, .. } => expr,
            Expr::AtTimeZone { timestamp, .. } => timestamp,
            _ => return false,
        };
    }
}

fn like(
    kind: Kind,
    negated: bool,
    any: bool,
    expr: Box<Expr>,
    pattern: Box<Expr>,
    escape_char: Option<Box<Expr>>,
) -> Expr {
    match kind {
        Kind::Key(K::Ilike) => Expr::ILike { negated, any, expr, pattern, escape_char },
        _ => Expr::Like { negated, any, expr, pattern, escape_char },
    }
}

/// The operator between two operands that is written so.
fn named_operator(symbol: &str) -> B {
    match symbol {
        "<" => B::Lt,
        ">" => B::Gt,
        "=" => B::Eq,
        "<=" => B::LtEq,
        ">=" => B::GtEq,
        "<>" | "!=" => B::NotEq,
        "+" => B::Plus,
        "-" => B::Minus,
        "*" => B::Multiply,
        "/" => B::Divide,
        "%" => B::Modulo,
        "^" => B::PGExp,
        "||" => B::StringConcat,
        "|" => B::BitwiseOr,
        "&" => B::BitwiseAnd,
        "#" => B::PGBitwiseXor,
        "<<" => B::PGBitwiseShiftLeft,
        ">>" => B::PGBitwiseShiftRight,
        "&&" => B::PGOverlap,
        "^@" => B::PGStartsWith,
        "~" => B::PGRegexMatch,
        "~*" => B::PGRegexIMatch,
        "!~" => B::PGRegexNotMatch,
        "!~*" => B::PGRegexNotIMatch,
        "~~" => B::PGLikeMatch,
        "~~*" => B::PGILikeMatch,
        "!~~" => B::PGNotLikeMatch,
        "!~~*" => B::PGNotILikeMatch,
        "->" => B::Arrow,
        "->>" => B::LongArrow,
        "#>" => B::HashArrow,
        "#>>" => B::HashLongArrow,
        "@>" => B::AtArrow,
        "<@" => B::ArrowAt,
        "#-" => B::HashMinus,
        "@?" => B::AtQuestion,
        "@@" => B::AtAt,
        "?" => B::Question,
        "?&" => B::QuestionAnd,
        "?|" => B::QuestionPipe,
        other => B::Custom(other.to_owned()),
    }
}
