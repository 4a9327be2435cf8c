//! LIKE: `%` stands for any characters, `_` for one, and the escape character makes the next one stand for itself.

use crate::error::{Error, Result, SqlState};

/// Whether a text matches a pattern as a whole; without an escape character every one but `%` and `_` stands for itself.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    // Bytes are enough unless the escape character has several; `_` moves over a whole character.
    match escape {
        Some(escape) if !escape.is_ascii() => {
            like(text, &with_backslashes(pattern, escape.encode_utf8(&mut [0; 4]))?, Some('\\'))
        }
        _ => matches(text.as_bytes(), pattern.as_bytes(), escape.map(|escape| escape as u8)),
    }
}

#[cold]
fn bad_escape() -> Error {
    Error::new(SqlState::BAD_ESCAPE, "LIKE pattern must not end with escape character")
}

fn char_length(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn matches(text: &[u8], pattern: &[u8], escape: Option<u8>) -> Result<bool> {
    let (mut at, mut in_pattern) = (0, 0);
    // After a `%`: where the pattern goes on, and where in the text that was tried last. Only the last `%` ever needs
    // another try, so the time is at most the product of the lengths.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(in_pattern) {
            // As in PostgreSQL, an escape character at the end is noticed only where there is text left to match.
            Some(&byte) if Some(byte) == escape => match text.get(at) {
                Some(byte) => {
                    let literal = pattern.get(in_pattern + 1).ok_or_else(bad_escape)?;
                    (byte == literal).then_some((1, 2))
                }
                None => None,
            },
            Some(b'%') => {
                in_pattern += 1;
                if in_pattern == pattern.len() {
                    return Ok(true);
                }
                retry = Some((in_pattern, at));
                continue;
            }
            Some(b'_') => text.get(at).map(|&first| (char_length(first), 1)),
            Some(byte) => (text.get(at) == Some(byte)).then_some((1, 1)),
            None if at == text.len() => return Ok(true),
            None => None,
        };
        match (step, &mut retry) {
            (Some((in_text, moved)), _) => {
                at += in_text;
                in_pattern += moved;
            }
            (None, Some((after, tried))) if *tried < text.len() => {
                *tried += char_length(text[*tried]);
                (at, in_pattern) = (*tried, *after);
            }
            (None, _) => return Ok(false),
        }
    }
}

/// A pattern with another escape character, as one with backslashes. An empty one means none.
pub(crate) fn with_backslashes(pattern: &str, escape: &str) -> Result<String> {
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        return Err(Error::new(SqlState::BAD_ESCAPE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut after_escape = false;
    for c in pattern.chars() {
        if Some(c) == escape && !after_escape {
            out.push('\\');
            after_escape = true;
        } else if c == '\\' {
            if !after_escape {
                out.push('\\');
            }
            out.push('\\');
            after_escape = false;
        } else {
            out.push(c);
            after_escape = false;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pattern: &str, expected: bool) {
        assert_eq!(like(text, pattern, Some('\\')).unwrap(), expected, "{text} LIKE {pattern}");
    }

    #[test]
    fn patterns_match_as_a_whole() {
        check("abc", "abc", true);
        check("abc", "ab", false);
        check("abc", "a%", true);
        check("abc", "%c", true);
        check("abc", "%b%", true);
        check("abc", "a_c", true);
        check("a\u{e9}c", "a_c", true);
        check("abc", "a%d", false);
        check("", "%", true);
        check("", "", true);
        check("", "_", false);
        check("aaab", "%ab", true);
        check("a%b", "a\\%b", true);
        check("axb", "a\\%b", false);
        check("\u{e9}\u{e8}", "%\u{e8}", true);
        check("abcabcabd", "%abd", true);
        check("ab", "a%%b", true);
    }

    #[test]
    fn a_pattern_that_ends_with_the_escape_is_refused() {
        check("a", "a\\", false);
        assert!(like("a\\", "a\\", Some('\\')).is_err());
        assert!(like("a\\", "a\\", None).unwrap());
        assert_eq!(with_backslashes("a#%b\\", "#").unwrap(), "a\\%b\\\\");
    }

    #[test]
    fn patterns_of_many_wildcards_end() {
        let text = "a".repeat(5_000);
        check(&text, &format!("{}b", "%a".repeat(200)), false);
    }
}
