//! Where statements end: at semicolons outside of quotes, comments and parentheses.
//!
//! Invariant: `at` bytes of the text have been looked at; text is only ever appended, so none is
//! looked at twice.

/// What was found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A statement ends before this byte, where its semicolon is.
    Semicolon(usize),
    /// A command of the shell begins at this byte, where its backslash is.
    Backslash(usize),
    /// There has to come more.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Within {
    #[default]
    Nothing,
    /// Of this character; whether a backslash escapes.
    Quotes(u8, bool),
    /// `$tag$`
    Dollars(String),
    LineComment,
    /// So deep.
    Comment(usize),
}

/// Looks for ends of statements in a text that grows.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    at: usize,
    within: Within,
    parentheses: usize,
}

impl Scanner {
    /// Looks on in a text of which the beginning has been looked at.
    pub(crate) fn find(&mut self, text: &str) -> Found {
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            let rest = &bytes[self.at..];
            let mut step = 1;
            match &mut self.within {
                Within::Nothing => match byte {
                    b'\'' => self.within = Within::Quotes(byte, is_escape_string(&bytes[..self.at])),
                    b'"' => self.within = Within::Quotes(byte, false),
                    b'-' if rest.starts_with(b"--") => self.within = Within::LineComment,
                    b'/' if rest.starts_with(b"/*") => (self.within, step) = (Within::Comment(1), 2),
                    b'$' => {
                        if let Some(tag) = dollar_tag(&text[..self.at], &text[self.at..]) {
                            step = tag.len();
                            self.within = Within::Dollars(tag.to_owned());
                        }
                    }
                    b'(' => self.parentheses += 1,
                    b')' => self.parentheses = self.parentheses.saturating_sub(1),
                    b';' if self.parentheses == 0 => return Found::Semicolon(self.at),
                    b'\\' => return Found::Backslash(self.at),
                    _ => {}
                },
                // A quote written twice ends and begins again, which comes to the same.
                Within::Quotes(quote, _) if byte == *quote => self.within = Within::Nothing,
                Within::Quotes(_, true) if byte == b'\\' => step = 2,
                Within::Quotes(..) => {}
                Within::Dollars(tag) => {
                    if rest.starts_with(tag.as_bytes()) {
                        step = tag.len();
                        self.within = Within::Nothing;
                    }
                }
                Within::LineComment => {
                    if byte == b'\n' {
                        self.within = Within::Nothing;
                    }
                }
                Within::Comment(depth) => {
                    if rest.starts_with(b"/*") {
                        (*depth, step) = (*depth + 1, 2);
                    } else if rest.starts_with(b"*/") {
                        step = 2;
                        *depth -= 1;
                        if *depth == 0 {
                            self.within = Within::Nothing;
                        }
                    }
                }
            }
            self.at += step;
        }
        Found::End
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether the quote behind this text begins `E'…'`.
fn is_escape_string(before: &[u8]) -> bool {
    match before {
        [.., other, b'e' | b'E'] => !is_word(*other),
        [b'e' | b'E'] => true,
        _ => false,
    }
}

/// `$tag$` at the beginning of a text.
fn dollar_tag<'t>(before: &str, text: &'t str) -> Option<&'t str> {
    if before.bytes().next_back().is_some_and(is_word) {
        return None;
    }
    let end = text[1..].find('$')? + 1;
    let tag = &text[1..end];
    let is_tag = tag.bytes().all(is_word) && !tag.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Found) {
        assert_eq!(Scanner::default().find(text), expected, "{text}");
        // And in pieces.
        let mut scanner = Scanner::default();
        for end in (1..text.len()).filter(|&end| text.is_char_boundary(end) && text.as_bytes()[end - 1] == b'\n') {
            if scanner.find(&text[..end]) != Found::End {
                return;
            }
        }
        assert_eq!(scanner.find(text), expected, "{text}, in pieces");
    }

    #[test]
    fn semicolons_in_quotes_comments_and_parentheses_end_nothing() {
        check("SELECT 1;", Found::Semicolon(8));
        check("SELECT ';'\n;", Found::Semicolon(11));
        check("SELECT 'it''s;';", Found::Semicolon(15));
        check("SELECT \";\" ;", Found::Semicolon(11));
        check("SELECT E'\\';' ;", Found::Semicolon(14));
        check("SELECT e'\\\\';", Found::Semicolon(12));
        check("SELECT '\\';", Found::Semicolon(10));
        check("SELECT 1 -- ;\n;", Found::Semicolon(14));
        check("/* ; /* ; */ ; */ ;", Found::Semicolon(18));
        check("SELECT $$;$$;", Found::Semicolon(12));
        check("SELECT $a$;\n$$;$a$;", Found::Semicolon(18));
        check("SELECT $1;", Found::Semicolon(9));
        check("SELECT (1;\n2);", Found::Semicolon(13));
        check("SELECT ';", Found::End);
    }

    #[test]
    fn a_backslash_begins_a_command_of_the_shell() {
        check("SELECT 1 \\g", Found::Backslash(9));
        check("SELECT '\\g'", Found::End);
    }
}
