//! What all texts that match a pattern begin with, so that an index finds them.
//!
//! Invariant: a text that matches begins with the prefix; not every text that begins with it
//! matches.

/// How a pattern is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind {
    /// `LIKE`: `%` and `_` stand for others, `\` makes the next character stand for itself.
    Like,
    /// `~`: an advanced regular expression.
    Regular,
    /// `starts_with`: the pattern is the prefix.
    Plain,
}

impl PatternKind {
    /// Of an operator or a function of two texts, by its name.
    #[must_use]
    pub fn of(function: &str) -> Option<Self> {
        match function {
            "~~" => Some(Self::Like),
            "~" => Some(Self::Regular),
            "^@" | "starts_with" => Some(Self::Plain),
            _ => None,
        }
    }

    /// The longest text of which it is known that all that matches begins with it.
    #[must_use]
    pub fn prefix(self, pattern: &str) -> Prefix {
        match self {
            Self::Like => of_like(pattern),
            Self::Regular => of_regular(pattern),
            Self::Plain => Prefix { text: pattern.to_owned(), is_whole: false },
        }
    }
}

/// What all that matches a pattern begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix {
    /// Often empty.
    pub text: String,
    /// Nothing else matches than this text.
    pub is_whole: bool,
}

/// The first text, in the order of code points, that is behind all texts with a prefix; `None` if
/// there is none.
#[must_use]
pub fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            // Surrogates are no characters.
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

fn of_like(pattern: &str) -> Prefix {
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '%' | '_' => return Prefix { text, is_whole: false },
            // An escape character at the end stands for nothing, or is an error.
            '\\' => text.extend(characters.next()),
            _ => text.push(character),
        }
    }
    Prefix { text, is_whole: true }
}

fn of_regular(pattern: &str) -> Prefix {
    let mut prefix = Prefix::default();
    let Some(rest) = pattern.strip_prefix('^') else { return prefix };
    // Alternatives may be anywhere, an escaped bar among them does no harm.
    if rest.contains('|') {
        return prefix;
    }
    let mut characters = rest.chars().peekable();
    while let Some(character) = characters.next() {
        let literal = match character {
            '$' => {
                prefix.is_whole = characters.peek().is_none();
                break;
            }
            '.' | '[' | ']' | '(' | ')' | '^' | '{' | '}' | '*' | '+' | '?' => break,
            '\\' => match characters.next() {
                // A letter or a digit behind it means something.
                Some(escaped) if !escaped.is_ascii_alphanumeric() => escaped,
                _ => break,
            },
            literal => literal,
        };
        match characters.peek() {
            // It need not be there.
            Some('*' | '?' | '{') => break,
            // There may be more of it.
            Some('+') => {
                prefix.text.push(literal);
                break;
            }
            _ => prefix.text.push(literal),
        }
    }
    prefix
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{Datum, Env, functions::ON_VALUES, types::Type};

    #[test]
    fn patterns_begin_with_what_stands_for_itself() {
        for (kind, pattern, prefix) in [
            (PatternKind::Like, "abc%", "abc"),
            (PatternKind::Like, "abc", "abc!"),
            (PatternKind::Like, r"a\%b\_c_d", "a%b_c"),
            (PatternKind::Like, "%a", ""),
            (PatternKind::Like, r"ab\", "ab!"),
            (PatternKind::Regular, "^abc", "abc"),
            (PatternKind::Regular, "abc", ""),
            (PatternKind::Regular, "^abc*", "ab"),
            (PatternKind::Regular, "^abc+", "abc"),
            (PatternKind::Regular, "^ab{0,2}", "a"),
            (PatternKind::Regular, "^(abc)", ""),
            (PatternKind::Regular, "^abc|d", ""),
            (PatternKind::Regular, r"^a\.b\dc", "a.b"),
            (PatternKind::Regular, "^ab$", "ab!"),
            (PatternKind::Regular, "^ab+$", "ab"),
            (PatternKind::Regular, "^ab$c", "ab"),
            (PatternKind::Regular, "(?i)^ab", ""),
            (PatternKind::Plain, "a%b", "a%b"),
        ] {
            let found = kind.prefix(pattern);
            let found = found.text + if found.is_whole { "!" } else { "" };
            assert_eq!(found, prefix, "{kind:?} {pattern}");
        }
    }

    #[test]
    fn what_is_behind_a_prefix_is_behind_all_that_begins_with_it() {
        assert_eq!(end_of_prefix("ab").as_deref(), Some("ac"));
        assert_eq!(end_of_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end_of_prefix("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(end_of_prefix("\u{10ffff}"), None);
        assert_eq!(end_of_prefix(""), None);
    }

    /// Whatever matches lies between the prefix and its end.
    #[test]
    fn all_that_matches_begins_with_the_prefix() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let env = Env::default();
        const PIECES: &[&str] = &[
            "a",
            "b",
            "ab",
            "%",
            "_",
            "\\",
            "\\%",
            "\\.",
            "\\d",
            "\\a",
            "*",
            "+",
            "?",
            "{2}",
            "{0}",
            "|",
            "(",
            ")",
            "[ab]",
            "^",
            "$",
            ".",
            "(?i)",
            "(?:",
            "\u{10ffff}",
            "\u{d7ff}",
            "0",
            "***=",
            "\n",
            "(?n)",
            "(?x) ",
        ];
        let mut matched = 0;
        for _ in 0..200_000 {
            let mut pattern = String::from(if random.bool() { "^" } else { "" });
            let mut value = String::new();
            for _ in 0..random.usize(0..5) {
                pattern.push_str(random.choice(PIECES).unwrap());
            }
            for _ in 0..random.usize(0..5) {
                value.push_str(random.choice(&["a", "b", "A", "%", ".", "^", "0", "\n", " ", "\u{10ffff}"]).unwrap());
            }
            let name = *random.choice(&["~~", "~", "starts_with"]).unwrap();
            let kind = PatternKind::of(name).unwrap();
            let function = match name {
                "starts_with" => ON_VALUES.function(name, &[Type::Text, Type::Text]).unwrap(),
                _ => ON_VALUES.operator(name, Some(Type::Text), Type::Text).unwrap(),
            };
            if let Ok(Datum::Bool(true)) = function.call(&[&Datum::text(&value), &Datum::text(&pattern)], &env) {
                matched += 1;
                let Prefix { text: prefix, is_whole } = kind.prefix(&pattern);
                assert!(!is_whole || value == prefix, "{value:?} {name} {pattern:?}");
                assert!(value.starts_with(&prefix), "{value:?} {name} {pattern:?}");
                assert!(
                    value >= prefix && end_of_prefix(&prefix).is_none_or(|end| value < end),
                    "{value:?} {pattern:?}"
                );
            }
        }
        assert!(matched > 1_000, "{matched}");
    }
}
