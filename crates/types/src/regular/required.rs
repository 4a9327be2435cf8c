//! The runs of characters that a text has to contain to match a pattern.
//!
//! Invariant: what is said here follows from the pattern; often more does. Conditions on what is
//! around a match, and back-references beyond what their groups match, say nothing.

use std::rc::Rc;

use super::sets::CharSet;
use super::tree::{Ast, Place};
use super::{Flags, parse, report};
use crate::error::Result;
use crate::letters;
use crate::pieces::{self, Pace};
use crate::pulse;

/// What a text has to contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Required {
    /// Characters in a row, in lower case once the text is. A blank stands for any character that is
    /// neither a letter nor a digit. `begins` and `ends`: no letter or digit is before the first one
    /// and behind the last one.
    Run { text: String, begins: bool, ends: bool },
    /// All of these; of none, anything.
    All(Vec<Required>),
    /// One of these.
    OneOf(Vec<Required>),
}

/// A set of more characters is not looked at one by one.
const SET_MAX: u32 = 64;
/// Repetitions that are written out at most.
const WRITTEN_OUT_MAX: u32 = 8;

/// What texts contain that match a pattern.
pub(crate) fn required(pattern: &str, flags: Flags) -> Result<Required> {
    let mut characters = Vec::with_capacity(pattern.len());
    for piece in pieces::of_text(pattern, Pace::Computed) {
        characters.extend(piece?.chars());
    }
    let parsed = parse::parse(characters, flags).map_err(report)?;
    of(&parsed.root.ast)
}

fn of(ast: &Rc<Ast>) -> Result<Required> {
    let mut walk = Walk::default();
    walk.pass(ast)?;
    walk.end(false);
    Ok(match walk.done.len() {
        1 => walk.done.remove(0),
        _ => Required::All(walk.done),
    })
}

/// Goes along a pattern.
#[derive(Default)]
struct Walk {
    done: Vec<Required>,
    run: String,
    begins: bool,
}

impl Walk {
    fn pass(&mut self, ast: &Rc<Ast>) -> Result<()> {
        // Concatenations lean to the right, and may be long.
        let mut ast = ast;
        loop {
            pulse::work(5)?;
            match &**ast {
                Ast::Empty | Ast::Look { .. } => {}
                Ast::Set(set) => match only(set) {
                    Some(c) => self.run.push(c),
                    None => self.end(false),
                },
                Ast::Place(place) => match place {
                    Place::Begin | Place::LineBegin | Place::WordBegin => {
                        self.end(false);
                        self.begins = true;
                    }
                    Place::End | Place::LineEnd | Place::WordEnd => self.end(true),
                    Place::WordEdge | Place::NoWordEdge => {}
                },
                Ast::Concat(parts) => {
                    let Some((last, before)) = parts.split_last() else { return Ok(()) };
                    before.iter().try_for_each(|part| self.pass(part))?;
                    ast = last;
                    continue;
                }
                Ast::Alt(parts) => {
                    self.end(false);
                    self.done.push(Required::OneOf(parts.iter().map(of).collect::<Result<_>>()?));
                }
                Ast::Repeat { min: 0, .. } => self.end(false),
                Ast::Repeat { inner, min, max } => match &**inner {
                    Ast::Set(_) => {
                        for _ in 0..(*min).min(WRITTEN_OUT_MAX) {
                            self.pass(inner)?;
                        }
                        if min != max || *min > WRITTEN_OUT_MAX {
                            self.end(false);
                            self.pass(inner)?;
                        }
                    }
                    _ => {
                        self.end(false);
                        self.pass(inner)?;
                        self.end(false);
                    }
                },
            }
            return Ok(());
        }
    }

    /// Anything may follow.
    fn end(&mut self, ends: bool) {
        let (text, begins) = (std::mem::take(&mut self.run), std::mem::take(&mut self.begins));
        if !text.is_empty() {
            self.done.push(Required::Run { text, begins, ends });
        }
    }
}

/// The character that all characters of a set are in lower case; a blank, if none is part of a word.
fn only(set: &CharSet) -> Option<char> {
    let size = set.ranges().iter().try_fold(0_u32, |size, (from, to)| size.checked_add(to - from + 1))?;
    if size == 0 || size > SET_MAX {
        return None;
    }
    let numbers = || set.ranges().iter().flat_map(|&(from, to)| from..=to);
    let mut folded = numbers().map(|c| char::from_u32(c).map(letters::lower));
    let first = folded.next()??;
    if numbers().all(|c| char::from_u32(c).is_some_and(|c| !letters::is_alnum(letters::lower(c)))) {
        return Some(' ');
    }
    folded.all(|c| c == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn shown(required: &Required) -> String {
        let all = |parts: &[Required]| parts.iter().map(shown).collect::<Vec<_>>();
        match required {
            Required::Run { text, begins, ends } => {
                format!("{}{text}{}", if *begins { "<" } else { "" }, if *ends { ">" } else { "" })
            }
            Required::All(parts) => format!("({})", all(parts).join(" ")),
            Required::OneOf(parts) => format!("[{}]", all(parts).join("|")),
        }
    }

    #[test]
    fn what_has_to_be_there_follows_from_the_pattern() {
        let of = |pattern: &str| shown(&required(pattern, Flags::default()).unwrap());
        for (pattern, expected) in [
            ("Foo", "foo"),
            ("^foo.*bar$", "(<foo bar>)"),
            ("(foo|bar)baz", "([foo|bar] baz)"),
            ("foo[0-9]+bar", "(foo bar)"),
            ("fo+bar", "(fo obar)"),
            ("fo?bar", "(f bar)"),
            ("fo{2}bar", "foobar"),
            (r"\mfoo\M", "<foo>"),
            (r"a\.b", "a b"),
            ("(abc)*", "()"),
            ("(abc)+d", "abcd"),
            ("[Aa]b", "ab"),
            ("a(?=b)c", "ac"),
            ("", "()"),
        ] {
            assert_eq!(of(pattern), expected, "{pattern}");
        }
        let ignoring = Flags { ignore_case: true, ..Flags::default() };
        assert_eq!(shown(&required("FoX1", ignoring).unwrap()), "fox1");
    }
}
