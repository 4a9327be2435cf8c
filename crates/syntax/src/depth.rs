//! How deep a tree the tokens of a text make, in units that stand for about a kilobyte of stack.
//!
//! The parser makes a level of each parenthesis inside another, and of each operator in a row: `a +
//! b + c` is
//! `(a + b) + c`. A comma ends a row. The count is what the deepest place can have at most; it may
//! be more than it has.

use crate::keyword::{Class, Keyword as K};
use crate::token::{Kind, Token};

/// For an operator in a row.
const LINK: usize = 1;
/// For parentheses, and for what stands in front of an expression: a sign, NOT, CASE.
const NESTED: usize = 16;
/// For a join: its condition may come behind those of others.
const JOIN: usize = 4;
/// For a query, or a join, inside parentheses.
const NESTED_QUERY: usize = 50;

/// A parenthesis that is open.
struct Open {
    /// Units of the row that it stands in.
    row: usize,
    /// Units of its own.
    own: usize,
}

/// Units at the deepest place.
pub(crate) fn depth(tokens: &[Token]) -> usize {
    let leads_to_query = leads_to_query(tokens);
    let mut open: Vec<Open> = Vec::new();
    let (mut around, mut row, mut deepest) = (0, 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| tokens[before].kind);
        match token.kind {
            Kind::LeftParen | Kind::LeftBracket => {
                let joins = match before {
                    Some(Kind::Key(K::From | K::Join)) => true,
                    Some(Kind::LeftParen) => open.last().is_some_and(|open| open.own == NESTED_QUERY),
                    _ => false,
                };
                let own = if joins || leads_to_query[at] { NESTED_QUERY } else { NESTED };
                around += row + own;
                open.push(Open { row, own });
                row = 0;
            }
            Kind::RightParen | Kind::RightBracket => {
                if let Some(open) = open.pop() {
                    around -= open.row + open.own;
                    // A subscript is an operator.
                    row = open.row + usize::from(token.kind == Kind::RightBracket) * LINK;
                }
            }
            Kind::Comma => row = 0,
            Kind::Semicolon => {
                open.clear();
                (around, row) = (0, 0);
            }
            kind => row += units(kind, before),
        }
        deepest = deepest.max(around + row);
    }
    deepest
}

/// For each token whether it is a parenthesis, or one of several, in front of a query.
fn leads_to_query(tokens: &[Token]) -> Vec<bool> {
    let mut leads = vec![false; tokens.len()];
    let mut query_follows = false;
    for (at, token) in tokens.iter().enumerate().rev() {
        let is_paren = token.kind == Kind::LeftParen;
        leads[at] = is_paren && query_follows;
        query_follows = match token.kind {
            Kind::LeftParen => query_follows,
            kind => matches!(kind, Kind::Key(K::Select | K::Values | K::With | K::Table)),
        };
    }
    leads
}

/// What a token adds to its row.
fn units(kind: Kind, before: Option<Kind>) -> usize {
    match kind {
        Kind::Name | Kind::QuotedName | Kind::UnicodeName | Kind::Period | Kind::End | Kind::Bad => 0,
        // An operator, or all columns.
        Kind::Star => LINK,
        Kind::Key(word) => match word {
            K::Explain => NESTED_QUERY,
            K::Join => JOIN,
            K::Case | K::Not | K::Interval | K::Union | K::Except | K::Intersect => NESTED,
            K::Between => 3 * LINK,
            K::And | K::Or | K::Is | K::Isnull | K::Notnull | K::At | K::Collate => LINK,
            K::In | K::Like | K::Ilike | K::Similar => LINK,
            _ => 0,
        },
        kind if is_value(kind) => 0,
        // An operator behind a value is a link; otherwise, it is one in front of a value.
        _ => match before {
            Some(Kind::RightParen | Kind::RightBracket | Kind::Name | Kind::QuotedName | Kind::UnicodeName) => LINK,
            Some(Kind::Key(word)) if word.class() != Class::Reserved => LINK,
            Some(kind) if is_value(kind) => LINK,
            _ => NESTED,
        },
    }
}

fn is_value(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Integer
            | Kind::Decimal
            | Kind::String
            | Kind::EscapeString
            | Kind::UnicodeString
            | Kind::NationalString
            | Kind::DollarString
            | Kind::BitString
            | Kind::HexString
            | Kind::Parameter
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: usize) {
        let tokens = crate::lexer::tokens(text).unwrap();
        assert_eq!(depth(&tokens.list), expected, "{text}");
    }

    #[test]
    fn operators_in_a_row_add_up() {
        check("SELECT 1", 0);
        check("SELECT a + b * 2 || 'x'", 3 * LINK);
        check("SELECT a WHERE b = 1 AND c = 2", 3 * LINK);
        check("SELECT a::int::text[1][2]", 4 * LINK + NESTED - LINK);
    }

    #[test]
    fn a_comma_and_the_end_of_a_statement_end_a_row() {
        check("VALUES (1 + 1), (2 + 1), (3 + 1)", NESTED + LINK);
        check("SELECT a + 1, b + 1, c + 1; SELECT a + 1", LINK);
        check("SELECT f(1, 2) + f(3, 4) + f(5, 6)", 2 * LINK + NESTED);
    }

    #[test]
    fn signs_parentheses_and_queries_inside_each_other_add_up() {
        check("SELECT - - - 1", 3 * NESTED);
        check("SELECT a - 1 - 1", 2 * LINK);
        check("SELECT ((1))", 2 * NESTED);
        check("SELECT (SELECT (SELECT 1))", 2 * NESTED_QUERY);
        check("SELECT * FROM ((a JOIN b ON true) JOIN c ON true)", LINK + 2 * NESTED_QUERY + JOIN);
        check("SELECT 1 FROM t WHERE EXISTS ((SELECT 1)) AND (a = 1)", 2 * NESTED_QUERY);
    }
}
