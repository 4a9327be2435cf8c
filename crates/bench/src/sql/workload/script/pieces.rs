//! The text of a script in pieces: what is SQL, what is quoted, what is a comment, what is a
//! command of the script.
//!
//! Invariants
//! - Quotes and comments are PostgreSQL's: `'it''s'`, `E'it\'s'`, `"a;b"`, `$tag$…$tag$`, `-- …`,
//!   `/* … /* … */ … */`.
//! - A command begins a line with `\`, outside of quotes and comments, and is as long as the line.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// One character of SQL.
    Sql(char),
    /// With its quotes.
    Quoted(&'t str),
    Comment,
    /// Without its backslash.
    Command(&'t str),
}

/// The pieces of a text, in order.
///
/// # Errors
/// A quote or a comment that is not closed.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    // What stands before the rest: blanks of a line only, and the last two characters.
    let (mut is_line_empty, mut before) = (true, [' '; 2]);
    while let Some(first) = rest.chars().next() {
        let (piece, length) = if first == '\\' && is_line_empty {
            let length = rest.find('\n').unwrap_or(rest.len());
            (Piece::Command(rest[1..length].trim_end()), length)
        } else if rest.starts_with("--") {
            (Piece::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (Piece::Comment, comment_length(rest).ok_or("a comment is not closed")?)
        } else if let Some(length) = quoted_length(rest, before) {
            (Piece::Quoted(&rest[..length.ok_or_else(|| not_closed(rest))?]), length.unwrap_or_default())
        } else {
            (Piece::Sql(first), first.len_utf8())
        };
        is_line_empty = match piece {
            Piece::Sql('\n') => true,
            Piece::Sql(character) => is_line_empty && character.is_whitespace(),
            _ => false,
        };
        before = [before[1], rest[..length].chars().next_back().unwrap_or(' ')];
        pieces.push(piece);
        rest = &rest[length..];
    }
    Ok(pieces)
}

fn not_closed(quoted: &str) -> String {
    format!("a quote is not closed: {}", quoted.chars().take(40).collect::<String>())
}

/// Comments may have comments in them.
fn comment_length(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let pair = text.as_bytes().get(at..at + 2);
        at += match pair {
            Some(b"/*") => {
                depth += 1;
                2
            }
            Some(b"*/") => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The length of the quoted text that begins here, if one does and if it is closed.
#[expect(clippy::option_option, reason = "no quote, and a quote without an end")]
fn quoted_length(text: &str, before: [char; 2]) -> Option<Option<usize>> {
    let quote = text.chars().next()?;
    match quote {
        '\'' | '"' => {
            let has_escapes = quote == '\'' && matches!(before[1], 'e' | 'E') && !is_word(before[0]);
            let mut characters = text.char_indices().skip(1);
            while let Some((at, character)) = characters.next() {
                match character {
                    '\\' if has_escapes => _ = characters.next(),
                    // A doubled quote character begins another quoted text at once, which has the
                    // same effect.
                    character if character == quote => return Some(Some(at + 1)),
                    _ => {}
                }
            }
            Some(None)
        }
        '$' if !is_word(before[1]) => {
            let end = text[1..].find(|character| !is_word(character))? + 1;
            // `$1` is a parameter.
            if !text[end..].starts_with('$') || text[1..].starts_with(|first: char| first.is_numeric()) {
                return None;
            }
            let tag = &text[..=end];
            Some(text[tag.len()..].find(tag).map(|at| at + 2 * tag.len()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quotes and commands of a text, and what is left of its SQL.
    fn parts(text: &str) -> (String, Vec<&str>) {
        let (mut sql, mut others) = (String::new(), Vec::new());
        for piece in pieces(text).unwrap() {
            match piece {
                Piece::Sql(character) => sql.push(character),
                Piece::Quoted(text) | Piece::Command(text) => others.push(text),
                Piece::Comment => {}
            }
        }
        (sql, others)
    }

    #[test]
    fn quotes_and_comments_are_what_they_are_in_sql() {
        for (text, sql, others) in [
            ("a /* don't; worry */ b", "a  b", vec![]),
            ("a /* x /* y */ 'z */ b", "a  b", vec![]),
            ("a -- it's; so\nb", "a \nb", vec![]),
            ("a '-- /* ; \"' b", "a  b", vec!["'-- /* ; \"'"]),
            ("a 'it''s' b", "a  b", vec!["'it'", "'s'"]),
            ("a \"it's; /*\" b", "a  b", vec!["\"it's; /*\""]),
            ("a E'it\\'s' b", "a E b", vec!["'it\\'s'"]),
            ("re'\\' b", "re b", vec!["'\\'"]),
            ("a $$;'$x$$ $x$ $$ ; $x$ b", "a   b", vec!["$$;'$x$$", "$x$ $$ ; $x$"]),
            ("$1 + a$b$c", "$1 + a$b$c", vec![]),
            ("a\n \\set b 'c\nd \\e", "a\n \nd \\e", vec!["set b 'c"]),
            ("'\n\\set' /*\n\\set */\n\\x", " \n", vec!["'\n\\set'", "x"]),
        ] {
            assert_eq!(parts(text), (sql.to_owned(), others), "{text}");
        }
        for text in ["'a", "\"a''", "/* /* */", "E'\\'", "$a$ $b$"] {
            assert!(pieces(text).unwrap_err().contains("is not closed"), "{text}");
        }
    }
}
