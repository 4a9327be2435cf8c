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

/// Groups inside each other that are looked into.
const GROUPS_MAX: usize = 16;

fn of_regular(pattern: &str) -> Prefix {
    let Some(rest) = pattern.strip_prefix('^') else { return Prefix::default() };
    let mut beginning = Beginning { rest, groups: GROUPS_MAX };
    let (mut text, ended) = beginning.sequence();
    // What follows the first bar need not be at the beginning. Where it stands is not looked for
    // behind what is no literal; an escaped bar there does no harm.
    if beginning.rest.contains('|') {
        text.clear();
    }
    Prefix { is_whole: ended && beginning.rest == "$", text }
}

/// Reads what a regular expression begins with.
struct Beginning<'p> {
    /// What has not been read.
    rest: &'p str,
    /// How many groups may be opened yet.
    groups: usize,
}

impl Beginning<'_> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    /// What all that a sequence of literals and groups matches begins with. `true` if it matches
    /// nothing else than this text. It is read up to the `$`, the bar, the `)` or the end behind it,
    /// or else up to what is no literal.
    fn sequence(&mut self) -> (String, bool) {
        let mut text = String::new();
        loop {
            let before = self.rest;
            let atom = match self.next() {
                None => return (text, true),
                Some('$' | '|' | ')') => {
                    self.rest = before;
                    return (text, true);
                }
                Some('(') => self.group(),
                Some('.' | '[' | ']' | '^' | '{' | '}' | '*' | '+' | '?') => None,
                // A letter or a digit behind it means something.
                Some('\\') => self.next().filter(|escaped| !escaped.is_ascii_alphanumeric()).map(as_literal),
                Some(literal) => Some(as_literal(literal)),
            };
            let Some((atom, is_whole)) = atom else {
                self.rest = before;
                return (text, false);
            };
            if self.is_optional() {
                return (text, false);
            }
            text.push_str(&atom);
            // There may be more of it.
            if !is_whole || self.rest.starts_with('+') {
                return (text, false);
            }
        }
    }

    /// Reads a group behind its `(`: what all that it matches begins with, and whether it matches
    /// nothing else. `None` if that is not known.
    fn group(&mut self) -> Option<(String, bool)> {
        if let Some(behind) = self.rest.strip_prefix('?') {
            self.rest = behind.strip_prefix(':')?;
        }
        self.groups = self.groups.checked_sub(1)?;
        let mut common: Option<(String, bool)> = None;
        loop {
            let (text, is_whole) = self.sequence();
            if !is_whole {
                return (common.is_none() && self.skip_rest_of_group()).then_some((text, false));
            }
            common = Some(match common {
                None => (text, true),
                Some((known, is_one)) => {
                    let same = known.chars().zip(text.chars()).take_while(|(one, other)| one == other);
                    (same.map(|(one, _)| one).collect(), is_one && known == text)
                }
            });
            match self.next()? {
                '|' => {}
                ')' => return common,
                // An anchor inside.
                _ => return None,
            }
        }
    }

    /// Whether what was read need not be there.
    fn is_optional(&self) -> bool {
        self.rest.starts_with(['*', '?', '{'])
    }

    /// Reads the rest of a group. `true` if it has no other alternatives; brackets, and groups that are
    /// conditions or comments, are not understood.
    fn skip_rest_of_group(&mut self) -> bool {
        let mut depth = 0;
        while let Some(character) = self.next() {
            match character {
                '[' => return false,
                '|' if depth == 0 => return false,
                '\\' => drop(self.next()),
                '(' if self.rest.starts_with('?') && !self.rest.starts_with("?:") => return false,
                '(' => depth += 1,
                ')' if depth == 0 => return true,
                ')' => depth -= 1,
                _ => {}
            }
        }
        false
    }
}

fn as_literal(character: char) -> (String, bool) {
    (character.into(), true)
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
            (PatternKind::Regular, "^(abc)", "abc"),
            (PatternKind::Regular, "^(abc)$", "abc!"),
            (PatternKind::Regular, "^(?:ab(c))d$", "abcd!"),
            (PatternKind::Regular, "^(abc)?d", ""),
            (PatternKind::Regular, "^a(abc)*", "a"),
            (PatternKind::Regular, "^(ab)+", "ab"),
            (PatternKind::Regular, "^(abc|abd)$", "ab"),
            (PatternKind::Regular, "^(abc|abd)?", ""),
            (PatternKind::Regular, "^(ab|ab)c$", "abc!"),
            (PatternKind::Regular, "^x(abc|d.)$", ""),
            (PatternKind::Regular, "^x(ab.)$", "xab"),
            (PatternKind::Regular, "^x(ab.)?$", "x"),
            (PatternKind::Regular, "^x(ab.|b)$", ""),
            (PatternKind::Regular, "^(app_t2.*)$", "app_t2"),
            (PatternKind::Regular, r"^(a(b\.c.(d|e)))$", "ab.c"),
            (PatternKind::Regular, "^(ab[)]?)?$", ""),
            (PatternKind::Regular, "^(ab)$|c", ""),
            (PatternKind::Regular, "^(ab", ""),
            (PatternKind::Regular, "^ab)", "ab"),
            (PatternKind::Regular, "^(ab$)", ""),
            (PatternKind::Regular, "^(?=ab)", ""),
            (PatternKind::Regular, r"^(a\.b)_", "a.b_"),
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
            "(a",
            "b)",
            "ab)",
            "|a",
            ")$",
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
