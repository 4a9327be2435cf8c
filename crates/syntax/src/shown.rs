//! Kept queries as people write them.
//!
//! The tree has no place for some of what PostgreSQL's language has: `ONLY`, `ROWS FROM`, `BETWEEN
//! SYMMETRIC`, aliases of USING, locks of several tables, and those that leave keys alone. It has
//! marks instead, which [`crate::parse_query`] reads in a text of the catalogue, and nobody else
//! does. What is shown, or dumped, is free of them.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, Ident, ObjectName, ObjectNamePart, TableFactor, VisitMut, VisitorMut};

use crate::{EXCLUDE_MARK, KEY_LOCK_MARK, LOCK_MARK, ONLY_MARK, ROWS_FROM, USING_ALIAS_MARK};

/// Stands in front of the names of a lock that leaves keys alone, until the text is there.
const OF_KEYS: &str = "\u{1}of keys ";

/// A query of the catalogue as a text that anybody reads; a text that is none, as it is.
#[must_use]
pub fn shown_query(kept: &str) -> String {
    if !kept.contains('\u{1}') && !kept.contains(ROWS_FROM) && !kept.contains("!!") {
        return kept.to_owned();
    }
    let Ok(mut query) = crate::parse_query(kept) else { return kept.to_owned() };
    let _ = query.visit(&mut Unmark);
    let text = with_using_aliases(with_exclusions(query.to_string()));
    if !text.contains(OF_KEYS) {
        return text;
    }
    let text = text.replace(&format!("FOR UPDATE OF {OF_KEYS}"), "FOR NO KEY UPDATE OF ");
    let text = text.replace(&format!("FOR SHARE OF {OF_KEYS}"), "FOR KEY SHARE OF ");
    // Without names all are meant.
    text.replace("UPDATE OF \u{1}", "UPDATE").replace("SHARE OF \u{1}", "SHARE")
}

/// A text of the parser's tree with EXCLUDE where it belongs, behind frames.
#[must_use]
pub fn with_exclusions(mut text: String) -> String {
    let mark = format!("\"{}", EXCLUDE_MARK);
    while let Some(from) = text.find(&mark) {
        let what = text[from + mark.len()..].split('"').next().unwrap_or_default().to_ascii_uppercase();
        let to = from + mark.len() + what.len() + 1;
        let before = [", ", "PARTITION BY "].into_iter().find(|before| text[..from].ends_with(before));
        text.replace_range(from - before.map_or(0, str::len)..to.min(text.len()), "");
        let mut at = from - before.map_or(0, str::len);
        let (mut depth, mut quote) = (0_usize, None);
        while let Some(&byte) = text.as_bytes().get(at) {
            match (quote, byte) {
                (Some(open), _) => quote = (open != byte).then_some(open),
                (None, b'\'' | b'"') => quote = Some(byte),
                (None, b'(') => depth += 1,
                (None, b')') if depth == 0 => break,
                (None, b')') => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        text.insert_str(at, &format!(" EXCLUDE {what}"));
    }
    text
}

/// A text of the parser's tree with the aliases of USING where they belong, behind the lists of
/// columns.
fn with_using_aliases(mut text: String) -> String {
    let mark = format!(", \"{USING_ALIAS_MARK}");
    while let Some(from) = text.find(&mark) {
        let name = from + mark.len();
        // A quotation mark in the name is written twice.
        let mut rest = text[name..].char_indices().peekable();
        let mut length = None;
        while let Some((at, letter)) = rest.next() {
            if letter == '"' && rest.next_if(|&(_, next)| next == '"').is_none() {
                length = Some(at);
                break;
            }
        }
        let Some(to) = length.map(|length| name + length) else { break };
        let alias = format!(") AS \"{}\"", &text[name..to]);
        // The list ends behind the quotation mark.
        text.replace_range(from..(to + 2).min(text.len()), &alias);
    }
    text
}

/// A piece of text among the names of a tree.
fn raw(text: impl Into<String>) -> Ident {
    Ident::new(text)
}

struct Unmark;

impl VisitorMut for Unmark {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        for lock in &mut query.locks {
            let Some(ObjectName(parts)) = &mut lock.of else { continue };
            let prefix = match parts.first() {
                Some(ObjectNamePart::Identifier(mark)) if mark.value == LOCK_MARK => "",
                Some(ObjectNamePart::Identifier(mark)) if mark.value == KEY_LOCK_MARK => OF_KEYS,
                _ => continue,
            };
            let names: Vec<String> = parts[1..].iter().map(ToString::to_string).collect();
            let names = if names.is_empty() { "\u{1}".to_owned() } else { names.join(", ") };
            *parts = vec![ObjectNamePart::Identifier(raw(format!("{prefix}{names}")))];
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, partitions, .. } if matches!(&partitions[..], [mark] if mark.value == ONLY_MARK) =>
            {
                partitions.clear();
                if let Some(ObjectNamePart::Identifier(first)) = name.0.first_mut() {
                    *first = raw(format!("ONLY {first}"));
                }
            }
            TableFactor::Function { name, .. } | TableFactor::Table { name, args: Some(_), .. } => {
                if let [ObjectNamePart::Identifier(first)] = &mut name.0[..]
                    && first.value == ROWS_FROM
                {
                    *first = raw("ROWS FROM");
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Between { low, .. } = expr
            && let Expr::UnaryOp { op: ast::UnaryOperator::PGPrefixFactorial, expr: least } = &**low
        {
            **low = Expr::Identifier(raw(format!("SYMMETRIC {least}")));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_means_the_same_and_has_no_marks() {
        for query in [
            "SELECT a FROM t WHERE a BETWEEN SYMMETRIC 3 AND b",
            "SELECT a FROM t WHERE NOT a BETWEEN SYMMETRIC a + 1 AND 1 AND b = '!!'",
            "SELECT a FROM ONLY t",
            "SELECT a FROM ONLY s.\"T x\" AS y JOIN ONLY u ON true",
            "SELECT a FROM t, (SELECT a FROM ONLY t) AS y",
            "SELECT * FROM ROWS FROM(generate_series(1, 2), unnest(ARRAY[1])) WITH ORDINALITY AS x (a, b, c)",
            "SELECT * FROM t, LATERAL ROWS FROM(generate_series(1, t.a)) AS x",
            "SELECT x.a FROM t JOIN u USING(a) AS x",
            "SELECT \"x, \"\" y\".a FROM t LEFT JOIN u USING(a, b) AS \"x, \"\" y\" JOIN v USING(a)",
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t, u FOR UPDATE OF t, u NOWAIT",
            "SELECT a FROM t FOR NO KEY UPDATE OF t",
            "SELECT a FROM t FOR NO KEY UPDATE",
            "SELECT a FROM t, u FOR KEY SHARE OF t, u SKIP LOCKED",
            "SELECT a FROM t FOR KEY SHARE NOWAIT",
            "SELECT a FROM (SELECT a FROM t FOR KEY SHARE) AS x FOR UPDATE",
            "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
        ] {
            let tree = |text: &str| match crate::parse(text).unwrap().remove(0) {
                crate::Statement::Relational(statement) => statement.to_string(),
                other => panic!("{other:?}"),
            };
            let kept = tree(query);
            let shown = shown_query(&kept);
            assert!(!shown.contains('\u{1}') && !shown.contains("rows from"), "{shown}");
            assert_eq!(tree(&shown), kept, "{shown}");
        }
    }

    #[test]
    fn a_text_that_is_no_query_stays() {
        assert_eq!(shown_query("SELECT !!"), "SELECT !!");
    }

    #[test]
    fn exclusions_are_written_behind_frames() {
        for text in [
            "SELECT sum(a) OVER (PARTITION BY b, (c) ORDER BY a ROWS BETWEEN (1 + 1) PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
            "SELECT sum(a) OVER (ORDER BY ')' || b GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM t",
            "SELECT 1 FROM t WINDOW w AS (RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP), v AS (ORDER BY a)",
        ] {
            let written = with_exclusions(crate::parse_query(text).expect("a query").to_string());
            let without_blanks = |text: &str| text.split_ascii_whitespace().collect::<String>();
            assert_eq!(without_blanks(&written), without_blanks(text));
            let again = crate::parse_query(&written).expect("a query").to_string();
            assert_eq!(with_exclusions(again), written);
        }
    }
}
