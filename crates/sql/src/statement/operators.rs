//! Operators as PostgreSQL divides a text into them.
//!
//! The tokenizer takes characters of operators for as long as they come. PostgreSQL does so as
//! well, but then
//!
//! - a comment begins at `--` and `/*`, wherever in it they stand;
//! - a `+` or `-` at the end is not a part of it, unless one of `~ ! @ # % ^ & | ?` or a backquote
//!   is: `1>-1` has the operators `>` and `-`, and `2^-1` the one operator `^-`, which does not
//!   exist.
//!
//! Places of tokens are those in the text.

use std::ops::ControlFlow;

use colibri_types::Result;
use sqlparser::ast;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use super::{DIALECT, Walker, tokenize};

/// Whether an operator may have this character.
fn is_of_operator(byte: u8) -> bool {
    b"+-*/<>=~!@#%^&|`?".contains(&byte)
}

/// Whether an operator with this character may end in a sign.
fn allows_sign(byte: u8) -> bool {
    b"~!@#%^&|`?".contains(&byte)
}

/// How many of the characters, all of operators, are the first operator; none if a comment begins.
fn operator_len(chars: &[u8]) -> usize {
    let is_comment = |pair: &[u8]| pair == b"--" || pair == b"/*";
    let mut len = chars.windows(2).position(is_comment).unwrap_or(chars.len());
    if !chars[..len].iter().any(|&byte| allows_sign(byte)) {
        while len > 1 && matches!(chars[len - 1], b'+' | b'-') {
            len -= 1;
        }
    }
    len
}

/// The token of an operator.
fn token_of(operator: &str) -> Token {
    match Tokenizer::new(&DIALECT, operator).tokenize().as_deref() {
        Ok([token]) if !matches!(token, Token::Whitespace(_)) => token.clone(),
        _ => Token::CustomBinaryOperator(operator.to_owned()),
    }
}

/// Whether a token is an operator that has no meaning of its own to the grammar.
pub(super) fn is_unknown(token: &str) -> bool {
    let is_operator = token.len() > 1 && token.bytes().all(is_of_operator);
    is_operator && !matches!(token, "=>" | "<>" | "!=" | "<=" | ">=")
}

fn moved(place: Location, columns: usize) -> Location {
    Location { line: place.line, column: place.column + columns as u64 }
}

/// A place in a text that begins at another place of a longer one.
fn behind(start: Location, place: Location) -> Location {
    match place.line {
        1 => moved(start, place.column as usize - 1),
        line => Location { line: start.line + line - 1, column: place.column },
    }
}

/// Divides runs of characters of operators anew.
///
/// # Errors
/// What the tokenizer says of a text behind an operator in which it had not seen a comment begin.
pub(super) fn divide(text: &str, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let bytes = text.as_bytes();
    if !bytes.windows(2).any(|pair| is_of_operator(pair[0]) && is_of_operator(pair[1])) {
        return Ok(tokens);
    }
    let mut walker = Walker { text, line: 1, column: 1, byte: 0 };
    let mut divided = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let from = walker.byte_of(token.span.start);
        let starts = bytes.get(from).is_some_and(|&byte| is_of_operator(byte));
        if !starts || matches!(token.token, Token::Whitespace(_) | Token::EOF) {
            divided.push(token);
            continue;
        }
        let len = bytes[from..].iter().take_while(|&&byte| is_of_operator(byte)).count();
        let mut run = &text[from..from + len];
        let mut start = token.span.start;
        let end = moved(start, len);
        let is_inside = |token: &TokenWithSpan| token.span.start.line == end.line && token.span.start < end;
        if token.span.end == end && operator_len(run.as_bytes()) == len {
            divided.push(token);
            continue;
        }
        while !run.is_empty() {
            let len = operator_len(run.as_bytes());
            if len == 0 {
                break;
            }
            let next = moved(start, len);
            let token = token_of(&run[..len]);
            divided.push(TokenWithSpan { token, span: Span { start, end: next } });
            (run, start) = (&run[len..], next);
        }
        if run.is_empty() {
            while tokens.next_if(is_inside).is_some() {}
        } else {
            // The tokenizer may have taken the comment for operators: it begins anew there.
            let rest = tokenize(&text[from + len - run.len()..])?;
            divided.extend(rest.into_iter().map(|token| {
                let span = Span { start: behind(start, token.span.start), end: behind(start, token.span.end) };
                TokenWithSpan { token: token.token, span }
            }));
            break;
        }
    }
    Ok(divided)
}

/// Operators in front of each other's operands at most, each in the last operand of the one before.
const PREFIXES_MAX: usize = 100;

/// Whether a text may have operators in front of their operand, other than signs and NOT.
pub(super) fn may_have_prefixes(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| {
        matches!(
            token.token,
            Token::Tilde
                | Token::AtSign
                | Token::PGSquareRoot
                | Token::PGCubeRoot
                | Token::DoubleExclamationMark
                | Token::ExclamationMark
                | Token::AtAt
                | Token::AtDashAt
                | Token::Sharp
        )
    })
}

fn is_prefix(op: &ast::UnaryOperator) -> bool {
    use ast::UnaryOperator::{Minus, Not, Plus};
    !matches!(op, Plus | Minus | Not)
}

/// Gives operators in front of their operand (`@`, `~`, `|/`) what PostgreSQL gives them: sums and
/// products as a whole. The parser ends their operand at the first sum.
///
/// Bug: `@ 1 - 3` was `(@ 1) - 3`. Consequence: wrong values, in CHECKs and DEFAULTs, too. Fix:
/// what was put behind the operator is moved into its operand.
pub(super) fn take_whole_operands(tree: &mut impl ast::VisitMut) -> Result<()> {
    let flow = ast::visit_expressions_mut(tree, |expr| {
        use ast::BinaryOperator::{Divide, Minus, Modulo, Multiply, PGExp, Plus};
        let ast::Expr::BinaryOp { left, op: Plus | Minus | Multiply | Divide | Modulo | PGExp, .. } = expr else {
            return ControlFlow::Continue(());
        };
        let Some(depth) = last_prefix(left) else { return ControlFlow::Continue(()) };
        if depth > PREFIXES_MAX {
            return ControlFlow::Break(());
        }
        let null = || ast::Expr::Value(ast::Value::Null.into());
        let ast::Expr::BinaryOp { left, op, right } = std::mem::replace(expr, null()) else {
            return ControlFlow::Continue(());
        };
        *expr = *left;
        let operand = last_operand(expr);
        let inner = std::mem::replace(operand, null());
        *operand = ast::Expr::BinaryOp { left: Box::new(inner), op, right };
        ControlFlow::Continue(())
    });
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(super::too_deep()),
    }
}

/// How many steps lead to the last operator of the kind that stands in front of the end of an
/// expression.
fn last_prefix(expr: &ast::Expr) -> Option<usize> {
    let (mut at, mut steps, mut found) = (expr, 0, None);
    loop {
        steps += 1;
        at = match at {
            ast::Expr::UnaryOp { op, expr } => {
                if is_prefix(op) {
                    found = Some(steps);
                }
                expr
            }
            ast::Expr::BinaryOp { right, .. } => right,
            _ => return found,
        };
    }
}

/// The operand of that operator.
fn last_operand(expr: &mut ast::Expr) -> &mut ast::Expr {
    let steps = last_prefix(expr).unwrap_or(0);
    let mut at = expr;
    for _ in 0..steps {
        at = match at {
            ast::Expr::UnaryOp { expr, .. } => expr,
            ast::Expr::BinaryOp { right, .. } => right,
            other => return other,
        };
    }
    at
}

/// Puts parentheses around the operand of an operator in front if it begins with one itself:
/// written one behind the other, both would be another operator, or a comment.
pub(super) fn keep_apart(statement: &mut ast::Statement) {
    let is_sign = |expr: &ast::Expr| match expr {
        ast::Expr::UnaryOp { op, .. } => *op != ast::UnaryOperator::Not,
        _ => false,
    };
    let _: ControlFlow<()> = ast::visit_expressions_mut(statement, |expr| {
        if let ast::Expr::UnaryOp { op, expr: operand } = expr
            && *op != ast::UnaryOperator::Not
            && is_sign(operand)
        {
            let null = ast::Expr::Value(ast::Value::Null.into());
            let inner = std::mem::replace(&mut **operand, null);
            **operand = ast::Expr::Nested(Box::new(inner));
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(text: &str) -> Vec<String> {
        let tokens = tokenize(text).unwrap();
        let shown = |token: TokenWithSpan| match token.token {
            Token::Whitespace(_) | Token::EOF => None,
            other => Some(format!("{other}@{}", token.span.start.column)),
        };
        tokens.into_iter().filter_map(shown).collect()
    }

    /// Bug: `1>-1` was the operator `>-`, which does not exist, and `2.0^-1` two operators.
    /// Consequence: conditions as common as `x>-1` were refused, and texts taken that PostgreSQL
    /// refuses. Fix: operators are divided by its rule.
    #[test]
    fn an_operator_ends_in_a_sign_only_if_it_has_one_of_the_rarer_characters() {
        assert_eq!(operators("1>-1"), ["1@1", ">@2", "-@3", "1@4"]);
        assert_eq!(operators("1>=-1"), ["1@1", ">=@2", "-@4", "1@5"]);
        assert_eq!(operators("1<>-+-1"), ["1@1", "<>@2", "-@4", "+@5", "-@6", "1@7"]);
        assert_eq!(operators("2*-3"), ["2@1", "*@2", "-@3", "3@4"]);
        assert_eq!(operators("2^-3"), ["2@1", "^-@2", "3@4"]);
        assert_eq!(operators("5#-3 - -5"), ["5@1", "#-@2", "3@4", "-@6", "-@8", "5@9"]);
        assert_eq!(operators("a||-1"), ["a@1", "||-@2", "1@5"]);
    }

    #[test]
    fn a_comment_begins_in_the_middle_of_what_looks_like_an_operator() {
        assert_eq!(operators("1<--c\n2>-/*d>-*/3"), ["1@1", "<@2", "2@1", ">@2", "-@3", "3@11"]);
        assert_eq!(operators("1||/*c*/2"), ["1@1", "||@2", "2@9"]);
        assert_eq!(operators("--c>-\n1"), ["1@1"]);
    }
}
