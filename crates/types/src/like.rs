//! LIKE: `%` stands for any characters, `_` for one, and the escape character makes the next one
//! stand for itself.

use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::pulse;

/// Steps of matching between two polls; see [`pulse`].
const STEPS_AT_ONCE: usize = 1024;

/// Whether a text matches a pattern as a whole; without an escape character every one but `%` and
/// `_` stands for itself.
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

/// A pattern that many texts are compared with. A backslash makes the next character stand for
/// itself.
#[derive(Debug, Clone)]
pub struct Pattern {
    form: Form,
    pattern: Box<str>,
}

/// What has to be looked at. The texts are those between the `%`.
#[derive(Debug, Clone)]
enum Form {
    Whole,
    /// `text%`
    Start,
    /// `%text`
    End,
    /// `%text%`
    Within(Box<memchr::memmem::Finder<'static>>),
    Other,
}

/// Texts up to this many bytes are looked through in one go.
const IN_ONE_GO: usize = 1 << 16;

impl Pattern {
    /// Of a pattern as LIKE has it.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let bytes = pattern.as_bytes();
        let is_plain = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b'%' | b'_' | b'\\'));
        let form = match bytes {
            text if is_plain(text) => Form::Whole,
            [b'%', text @ .., b'%'] if is_plain(text) && text.len() <= IN_ONE_GO => {
                Form::Within(Box::new(memchr::memmem::Finder::new(text).into_owned()))
            }
            [text @ .., b'%'] if is_plain(text) => Form::Start,
            [b'%', text @ ..] if is_plain(text) => Form::End,
            _ => Form::Other,
        };
        Self { form, pattern: pattern.into() }
    }

    /// Whether no text makes it fail: it does not end with a backslash that makes nothing stand for
    /// itself.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let backslashes = self.pattern.bytes().rev().take_while(|&byte| byte == b'\\').count();
        backslashes.is_multiple_of(2)
    }

    /// Whether a text matches as a whole. The text is UTF-8.
    ///
    /// # Errors
    /// The pattern ends with a backslash, where that is noticed; or the statement was cancelled.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> Result<bool> {
        let pattern = self.pattern.as_bytes();
        match &self.form {
            _ if text.len() > IN_ONE_GO => matches(text, pattern, Some(b'\\')),
            Form::Whole => Ok(text == pattern),
            Form::Start => Ok(text.starts_with(&pattern[..pattern.len() - 1])),
            Form::End => Ok(text.ends_with(&pattern[1..])),
            Form::Within(finder) => Ok(finder.find(text).is_some()),
            Form::Other => matches(text, pattern, Some(b'\\')),
        }
    }
}

fn char_length(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// A `%` that was met: where the pattern goes on behind it, and where in the text that was tried
/// last.
#[derive(Clone, Copy)]
struct Retry {
    in_pattern: usize,
    tried: usize,
}

fn matches(text: &[u8], pattern: &[u8], escape: Option<u8>) -> Result<bool> {
    let is_special = |byte: u8| byte == b'%' || byte == b'_' || Some(byte) == escape;
    let (mut at, mut in_pattern) = (0, 0);
    // Only the last `%` ever needs another try, so the time is at most the product of the lengths.
    let mut retry: Option<Retry> = None;
    let mut steps = 0;
    loop {
        steps += 1;
        if steps == STEPS_AT_ONCE {
            pulse::work(STEPS_AT_ONCE / 2)?;
            steps = 0;
        }
        let mut is_new = false;
        let step = match pattern.get(in_pattern) {
            // As in PostgreSQL, an escape character at the end is noticed only where there is text
            // left to match.
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
                retry = Some(Retry { in_pattern, tried: at });
                is_new = true;
                None
            }
            Some(b'_') => text.get(at).map(|&first| (char_length(first), 1)),
            Some(byte) => (text.get(at) == Some(byte)).then_some((1, 1)),
            None if at == text.len() => return Ok(true),
            None => None,
        };
        if let Some((in_text, moved)) = step {
            at += in_text;
            in_pattern += moved;
            continue;
        }
        let Some(Retry { in_pattern: behind, tried }) = &mut retry else { return Ok(false) };
        if !is_new {
            if *tried >= text.len() {
                return Ok(false);
            }
            *tried += char_length(text[*tried]);
        }
        // The characters behind the `%` that stand for themselves are looked for at once.
        let rest = &pattern[*behind..];
        let literal = &rest[..rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())];
        if literal.len() == rest.len() {
            pieces::pass(literal.len(), Pace::Copied)?;
            return Ok(text[*tried..].ends_with(literal));
        }
        match pieces::find(text, literal, *tried)? {
            Some(found) => *tried = found,
            None => return Ok(false),
        }
        (at, in_pattern) = (*tried + literal.len(), *behind + literal.len());
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
    for piece in pieces::of_text(pattern, Pace::Computed) {
        for c in piece?.chars() {
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
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn check(text: &str, pattern: &str, expected: bool) {
        assert_eq!(
            Pattern::new(pattern).matches(text.as_bytes()).unwrap(),
            expected,
            "{text} LIKE {pattern}, made once"
        );
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

    /// What LIKE means, a character at a time.
    fn means(text: &[char], pattern: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['%', rest @ ..], _) => (0..=text.len()).any(|skipped| means(&text[skipped..], rest)),
            (['\\', literal, rest @ ..], [first, others @ ..]) => first == literal && means(others, rest),
            (['_', rest @ ..], [_, others @ ..]) => means(others, rest),
            ([literal, rest @ ..], [first, others @ ..]) => first == literal && means(others, rest),
            (_, []) => false,
        }
    }

    #[test]
    fn random_patterns_match_as_a_search_without_cleverness_does() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut found = [0; 2];
        for _ in 0..200_000 {
            let text: Vec<char> =
                (0..rng.random_range(0..9)).map(|_| ['a', 'b', '\u{e9}'][rng.random_range(0..3)]).collect();
            let pattern: Vec<char> = (0..rng.random_range(0..7))
                .flat_map(|_| match rng.random_range(0..9) {
                    0..3 => vec!['%'],
                    3 => vec!['_'],
                    4 => vec!['\\', ['a', '%', '\u{e9}'][rng.random_range(0..3)]],
                    other => vec![['a', 'b', '\u{e9}', 'a'][other - 5]],
                })
                .collect();
            let expected = means(&text, &pattern);
            found[usize::from(expected)] += 1;
            check(&text.iter().collect::<String>(), &pattern.iter().collect::<String>(), expected);
        }
        assert!(found.iter().all(|&count| count > 20_000), "{found:?}");
    }
}
