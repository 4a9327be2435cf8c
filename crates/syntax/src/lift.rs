//! Literals lifted out: statements that differ in nothing but numbers and strings have one text,
//! and so one plan.
//!
//! ```text
//! SELECT a FROM t WHERE id = 5 AND b = 'x'   →   SELECT a FROM t WHERE id = $1 AND b = $2    5 (integer), 'x' (unknown)
//! ```
//! This is only a lexer. It lifts a literal where one is sure to be a value: behind an operator, a
//! comma, a parenthesis, or a word like AND. It leaves what is behind ORDER BY and GROUP BY, what
//! is in a type, and what is cast; and it leaves a statement alone that has anything whose end it
//! might not find. Whatever else is wrong with the result shows when it is prepared; the caller
//! then takes the text as it was.
//!
//! Invariants: replacing the parameters by what was lifted gives a statement that means the same as
//! the text.

use colibri_types::{Datum, Numeric, Type};

/// Bytes of a text worth looking at.
const TEXT_BYTES_MAX: usize = 4096;
/// Literals that a text may have.
const LITERALS_MAX: usize = 64;

/// A text without its literals.
#[derive(Debug, PartialEq)]
pub struct Lifted {
    /// With parameters in their places.
    pub text: String,
    /// Their types; `None` for strings, which may become of any type.
    pub types: Vec<Option<Type>>,
    /// Their values.
    pub values: Vec<Datum>,
}

/// What stands before a place, as far as it matters.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// Behind this a value begins.
    Operator,
    /// Where it is, and whether it is a sign: nothing to subtract from stands before it.
    Minus {
        sign: bool,
        at: usize,
    },
    /// `::` or AS: a type may follow.
    Type,
    /// A word of a type.
    TypeWord,
    Word,
    Literal,
}

/// Words behind which a value begins.
fn is_operator(word: &str) -> bool {
    ["and", "or", "between", "then", "else", "when"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Functions whose first argument names a sequence.
fn names_sequence(word: &str) -> bool {
    ["nextval", "currval", "setval"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Words behind which BY's list has ended.
fn ends_list(word: &str) -> bool {
    let ends = ["having", "limit", "offset", "fetch", "for", "union", "except", "intersect", "returning", "where"];
    ends.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Lifts the literals of a statement; `None` if there are none, or it is better left alone.
#[must_use]
pub fn lift(text: &str) -> Option<Lifted> {
    let bytes = text.as_bytes();
    if bytes.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut out = Lifted { text: String::with_capacity(text.len() + 16), types: Vec::new(), values: Vec::new() };
    let mut before = Before::Word;
    let (mut at, mut copied, mut words) = (0, 0, 0);
    let mut depth = 0u32;
    // Nothing is lifted at this depth and deeper: in a list of BY, in the parentheses of a type.
    let mut held: Option<(u32, bool)> = None;
    let mut last_word = "";
    while at < bytes.len() {
        let byte = bytes[at];
        let start = at;
        match byte {
            b' ' | b'\n' | b'\t' | b'\r' => at += 1,
            b'-' if bytes.get(at + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return None,
            b'"' => {
                at += 1 + bytes[at + 1..].iter().position(|&byte| byte == b'"')? + 1;
                before = Before::Word;
            }
            b'\'' => {
                let mut value = String::new();
                loop {
                    let end = at + 1 + bytes[at + 1..].iter().position(|&byte| byte == b'\'')?;
                    value.push_str(&text[at + 1..end]);
                    at = end + 1;
                    if bytes.get(at) != Some(&b'\'') {
                        break;
                    }
                    value.push('\'');
                }
                let next = rest(bytes, at);
                // Strings one after the other are one.
                if next.first() == Some(&b'\'') || value.contains('\0') {
                    return None;
                }
                if before == Before::Operator && held.is_none() && !next.starts_with(b"::") {
                    out.take(text, &mut copied, (start, at), Datum::text(&value), None)?;
                }
                before = Before::Literal;
            }
            b'0'..=b'9' => {
                while at < bytes.len() && (bytes[at].is_ascii_digit() || bytes[at] == b'.') {
                    at += 1;
                }
                // Exponents, and whatever else may hang on to a number.
                if bytes.get(at).is_some_and(|&byte| is_word(byte)) {
                    return None;
                }
                let next = rest(bytes, at);
                let (from, lifts) = match before {
                    Before::Operator => (start, true),
                    Before::Minus { sign: false, .. } => (start, true),
                    // How tightly a sign binds matters to powers only.
                    Before::Minus { sign: true, at } => (at, next.first() != Some(&b'^')),
                    _ => (start, false),
                };
                if lifts && held.is_none() && !next.starts_with(b"::") {
                    let number: String = text[from..at].split_ascii_whitespace().collect();
                    // Another sign in front makes it a numeric.
                    if number == "-9223372036854775808" {
                        return None;
                    }
                    let (value, ty) = match number.parse::<i64>() {
                        Ok(value) if i32::try_from(value).is_ok() => (Datum::Int(value), Type::Int4),
                        Ok(value) => (Datum::Int(value), Type::Int8),
                        Err(_) => (Datum::Numeric(Numeric::parse(&number).ok()?), Type::Numeric),
                    };
                    out.take(text, &mut copied, (from, at), value, Some(ty))?;
                }
                before = Before::Literal;
            }
            _ if is_word(byte) => {
                while at < bytes.len() && is_word(bytes[at]) {
                    at += 1;
                }
                let word = &text[start..at];
                // E'…', U&'…', X'…' and the like.
                if matches!(bytes.get(at), Some(b'\'' | b'$')) || bytes[at..].starts_with(b"&'") {
                    return None;
                }
                if words == 0
                    && !["select", "insert", "update", "delete"].iter().any(|it| word.eq_ignore_ascii_case(it))
                {
                    return None;
                }
                words += 1;
                last_word = word;
                if word.eq_ignore_ascii_case("by") {
                    held = held.or(Some((depth, true)));
                } else if held == Some((depth, true)) && ends_list(word) {
                    held = None;
                }
                // What these say of a literal is not what they say of a parameter; ON of DISTINCT
                // may name a column's number.
                if word.eq_ignore_ascii_case("pg_typeof") || word.eq_ignore_ascii_case("distinct") {
                    return None;
                }
                before = match before {
                    Before::Type | Before::TypeWord => Before::TypeWord,
                    _ if word.eq_ignore_ascii_case("as") => Before::Type,
                    _ if is_operator(word) => Before::Operator,
                    _ => Before::Word,
                };
            }
            b'(' => {
                if before == Before::TypeWord && held.is_none() {
                    held = Some((depth + 1, false));
                }
                depth += 1;
                at += 1;
                // A sequence is named when the statement is planned.
                let names = before == Before::Word && names_sequence(last_word);
                before = if names { Before::Word } else { Before::Operator };
            }
            b')' => {
                if held.is_some_and(|(from, _)| from >= depth) {
                    held = None;
                }
                depth = depth.checked_sub(1)?;
                at += 1;
                before = Before::Literal;
            }
            b'-' => {
                // Behind a word that is an operator unknown here it may be a sign as well.
                before = match before {
                    Before::Operator => Before::Minus { sign: true, at },
                    Before::Literal => Before::Minus { sign: false, at },
                    Before::Word if !is_keyword_before(text, start) => Before::Minus { sign: false, at },
                    _ => return None,
                };
                at += 1;
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                at += 2;
                before = Before::Type;
            }
            b'.' => {
                at += 1;
                before = Before::Word;
            }
            b'=' | b'<' | b'>' | b'!' | b'+' | b'*' | b'/' | b'%' | b',' | b'|' => {
                at += 1;
                before = Before::Operator;
            }
            // The end of the one statement.
            b';' if rest(bytes, at + 1).is_empty() => {
                out.text.push_str(&text[copied..at]);
                copied = bytes.len();
                at = bytes.len();
            }
            // More statements, parameters, dollar quotes, subscripts, operators of other
            // characters.
            _ => return None,
        }
    }
    if out.values.is_empty() || depth != 0 {
        return None;
    }
    out.text.push_str(&text[copied..]);
    Some(out)
}

/// Whether a value, not an operator, may follow the word before a place.
fn is_keyword_before(text: &str, at: usize) -> bool {
    let words = text[..at].trim_ascii_end();
    let start = words.bytes().rposition(|byte| !is_word(byte)).map_or(0, |place| place + 1);
    let word = &words[start..];
    let known =
        ["select", "where", "not", "having", "on", "case", "limit", "offset", "by", "returning", "like", "values"];
    known.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// What follows, without blanks.
fn rest(bytes: &[u8], at: usize) -> &[u8] {
    bytes[at..].trim_ascii_start()
}

impl Lifted {
    fn take(
        &mut self,
        text: &str,
        copied: &mut usize,
        (start, end): (usize, usize),
        value: Datum,
        ty: Option<Type>,
    ) -> Option<()> {
        if self.values.len() == LITERALS_MAX {
            return None;
        }
        self.text.push_str(&text[*copied..start]);
        self.values.push(value);
        self.types.push(ty);
        self.text.push_str(" $");
        let number = self.values.len();
        if number >= 10 {
            self.text.push((b'0' + (number / 10) as u8).into());
        }
        self.text.push((b'0' + (number % 10) as u8).into());
        *copied = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let lifted = lift(text).map_or(String::new(), |lifted| lifted.text.replace(' ', ""));
        assert_eq!(lifted, expected.replace(' ', ""), "{text}");
    }

    #[test]
    fn values_are_lifted() {
        check("SELECT a FROM t WHERE id = 5", "SELECT a FROM t WHERE id = $1");
        check("update t set a = a + 1, b='it''s' where id=-7", "update t set a = a + $1, b= $2 where id= $3");
        check("INSERT INTO t VALUES (1, -2.5, 'x')", "INSERT INTO t VALUES ($1, $2, $3)");
        check("SELECT a - 1 FROM t WHERE b IN (1, 2)", "SELECT a - $1 FROM t WHERE b IN ($2, $3)");
        // Bug: a semicolon at the end kept literals where they were. Consequence: what psql,
        // pgbench and most people send was parsed and planned each time. Fix: one at the end is
        // left out.
        check("SELECT a FROM t WHERE id = 5 ; ", "SELECT a FROM t WHERE id = $1");
        check("SELECT a FROM t WHERE id = 5; SELECT 1", "");
        check("SELECT a FROM t WHERE id = 5;;", "");
        check("DELETE FROM t WHERE a BETWEEN 1 AND 2", "DELETE FROM t WHERE a BETWEEN $1 AND $2");
        let lifted = lift("SELECT a FROM t WHERE a = -2147483649 AND b = 'it''s' AND c = - 5 AND d = 1.50").unwrap();
        assert_eq!(lifted.types, [Some(Type::Int8), None, Some(Type::Int4), Some(Type::Numeric)]);
        assert_eq!(lifted.values[1], Datum::text("it's"));
        assert_eq!(lifted.values[2], Datum::Int(-5));
    }

    #[test]
    fn what_is_no_value_stays() {
        check("SELECT a, 1 FROM t ORDER BY 1, 2 LIMIT 3", "SELECT a, $1 FROM t ORDER BY 1, 2 LIMIT 3");
        check(
            "SELECT a FROM t WHERE b = 1 GROUP BY 1, 2 HAVING count(*) > 3",
            "SELECT a FROM t WHERE b = $1 GROUP BY 1, 2 HAVING count(*) > $2",
        );
        check(
            "SELECT sum(a) OVER (ORDER BY 1, 2) FROM t WHERE a = 1",
            "SELECT sum(a) OVER (ORDER BY 1, 2) FROM t WHERE a = $1",
        );
        check("SELECT a FROM t WHERE d > date '2020-01-01' + 5", "SELECT a FROM t WHERE d > date '2020-01-01' + $1");
        check("SELECT a FROM t WHERE d > now() - interval '1 day'", "");
        check("SELECT '5'::int, 6 :: text, a::numeric(10, 2) FROM t", "");
        check("SELECT CAST(a AS numeric(10, 2)) + 1", "SELECT CAST(a AS numeric(10, 2)) + $1");
        check("SELECT a FROM t1 WHERE \"b 5\" = 5", "SELECT a FROM t1 WHERE \"b 5\" = $1");
        check("SELECT -2 ^ 2, a FROM t", "");
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for text in [
            "SELECT 1 + 1; SELECT 2",
            "SELECT a FROM t WHERE b = E'\\n'",
            "SELECT a FROM t WHERE b = U&'x'",
            "SELECT a FROM t WHERE b = $$x$$ AND c = 1",
            "SELECT a FROM t WHERE b = $1 AND c = 1",
            "SELECT a FROM t WHERE b = 1e5",
            "SELECT a FROM t WHERE b = 0x10",
            "SELECT a FROM t WHERE b = 'x' 'y'",
            "SELECT a FROM t WHERE b = 'x",
            "SELECT a FROM t -- = 1",
            "SELECT a FROM t /* = 1 */",
            "SELECT DISTINCT ON (1) a FROM t WHERE b = 1",
            "SELECT a FROM t WHERE a = 1)",
            "CREATE TABLE t (a int DEFAULT (5))",
        ] {
            assert_eq!(lift(text), None, "{text}");
        }
    }
}
