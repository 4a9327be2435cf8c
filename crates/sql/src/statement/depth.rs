//! How deep a tree the tokens of a text make, in units that stand for about a kilobyte of stack.
//!
//! The parser makes a level of each parenthesis inside another, and of each operator in a row: `a + b + c` is
//! `(a + b) + c`. A comma ends a row. The count is what the deepest place can have at most; it may be more than it has.

use colibri_types::keywords::is_reserved;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// For an operator in a row.
const LINK: usize = 1;
/// For parentheses, and for what stands in front of an expression: a sign, NOT, CASE.
pub(super) const NESTED: usize = 16;
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
pub(super) fn depth(tokens: &[TokenWithSpan]) -> usize {
    let solid: Vec<&Token> =
        tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let leads_to_query = leads_to_query(&solid);
    let mut open: Vec<Open> = Vec::new();
    let (mut around, mut row, mut deepest) = (0, 0, 0);
    for (at, &token) in solid.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| solid[before]);
        match token {
            Token::LParen | Token::LBracket => {
                let joins = match before {
                    Some(Token::Word(word)) => matches!(word.keyword, Keyword::FROM | Keyword::JOIN),
                    Some(Token::LParen) => open.last().is_some_and(|open| open.own == NESTED_QUERY),
                    _ => false,
                };
                let own = if joins || leads_to_query[at] { NESTED_QUERY } else { NESTED };
                around += row + own;
                open.push(Open { row, own });
                row = 0;
            }
            Token::RParen | Token::RBracket => {
                if let Some(open) = open.pop() {
                    around -= open.row + open.own;
                    // A subscript is an operator.
                    row = open.row + usize::from(matches!(token, Token::RBracket)) * LINK;
                }
            }
            Token::Comma => row = 0,
            Token::SemiColon => {
                open.clear();
                (around, row) = (0, 0);
            }
            _ => row += units(token, before),
        }
        deepest = deepest.max(around + row);
    }
    deepest
}

/// For each token whether it is a parenthesis, or one of several, in front of a query.
fn leads_to_query(tokens: &[&Token]) -> Vec<bool> {
    let mut leads = vec![false; tokens.len()];
    let mut query_follows = false;
    for (at, token) in tokens.iter().enumerate().rev() {
        let is_paren = matches!(token, Token::LParen);
        leads[at] = is_paren && query_follows;
        query_follows = match token {
            Token::LParen => query_follows,
            Token::Word(word) => {
                matches!(word.keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH | Keyword::TABLE)
            }
            _ => false,
        };
    }
    leads
}

/// What a token adds to its row.
fn units(token: &Token, before: Option<&Token>) -> usize {
    match token {
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::EOF => 0,
        // An operator, or all columns.
        Token::Mul => LINK,
        Token::Word(word) => match word.keyword {
            Keyword::EXPLAIN => NESTED_QUERY,
            Keyword::CASE | Keyword::NOT | Keyword::INTERVAL => NESTED,
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => NESTED,
            Keyword::BETWEEN => 3 * LINK,
            Keyword::AND | Keyword::OR | Keyword::IS | Keyword::NOTNULL | Keyword::AT | Keyword::COLLATE => LINK,
            Keyword::IN | Keyword::LIKE | Keyword::ILIKE | Keyword::SIMILAR => LINK,
            _ => usize::from(word.value.eq_ignore_ascii_case("isnull")) * LINK,
        },
        // An operator behind a value is a link; otherwise, it is one in front of a value.
        _ => match before {
            Some(Token::RParen | Token::RBracket | Token::Number(..) | Token::Placeholder(_)) => LINK,
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_)) => LINK,
            Some(Token::Word(word)) if word.quote_style.is_some() || !is_reserved(&word.value) => LINK,
            _ => NESTED,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: usize) {
        let tokens = super::super::tokenize(text).expect("the text has tokens");
        assert_eq!(depth(&tokens), expected, "{text}");
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
        check("SELECT * FROM ((a JOIN b ON true) JOIN c ON true)", LINK + 2 * NESTED_QUERY);
        check("SELECT 1 FROM t WHERE EXISTS ((SELECT 1)) AND (a = 1)", 2 * NESTED_QUERY);
    }
}
