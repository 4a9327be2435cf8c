//! `jsonpath`: paths into `jsonb`, as SQL/JSON has them.
//!
//! A path is kept as the text that PostgreSQL prints of it. Each thread keeps the paths that it read
//! last. Where a path leads is told by `functions::jsonb_path`.
//!
//! Invariants: the text of a path is read as the same path again. The depth of paths is bounded.

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::Result;
use crate::numeric::Numeric;

mod lexer;
mod parse;
mod write;

pub(crate) use parse::regex_flags;

/// A path with its mode.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) is_strict: bool,
    pub(crate) path: Path,
}

/// What a path begins with, and the steps from there.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) head: Head,
    pub(crate) steps: Vec<Step>,
}

/// What a path begins with: a value, or what is computed of paths.
#[derive(Debug)]
pub(crate) enum Head {
    Root,
    Current,
    Last,
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Variable(String),
    Arithmetic(Arithmetic, Box<Path>, Box<Path>),
    Sign(bool, Box<Path>),
    And(Box<Path>, Box<Path>),
    Or(Box<Path>, Box<Path>),
    Not(Box<Path>),
    IsUnknown(Box<Path>),
    Exists(Box<Path>),
    Compare(Comparison, Box<Path>, Box<Path>),
    StartsWith(Box<Path>, Box<Path>),
    LikeRegex(Box<Path>, String, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A step of a path.
#[derive(Debug)]
pub(crate) enum Step {
    Key(String),
    AnyKey,
    AnyElement,
    /// Places and ranges of them.
    Elements(Vec<(Path, Option<Path>)>),
    /// `**{from to to}`; [`LAST_LEVEL`] is the deepest.
    AnyDepth(u32, u32),
    Filter(Path),
    Method(Method),
    DateTime(Option<String>),
}

/// The level `last`.
pub(crate) const LAST_LEVEL: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Type,
    Size,
    Abs,
    Floor,
    Ceiling,
    Double,
    KeyValue,
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
        }
    }
}

impl Method {
    const ALL: [Self; 7] =
        [Self::Type, Self::Size, Self::Abs, Self::Floor, Self::Ceiling, Self::Double, Self::KeyValue];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Size => "size",
            Self::Abs => "abs",
            Self::Floor => "floor",
            Self::Ceiling => "ceiling",
            Self::Double => "double",
            Self::KeyValue => "keyvalue",
        }
    }
}

impl Path {
    fn of(head: Head) -> Self {
        Self { head, steps: Vec::new() }
    }

    /// Whether it is a condition.
    fn is_predicate(&self) -> bool {
        self.steps.is_empty()
            && matches!(
                self.head,
                Head::And(..)
                    | Head::Or(..)
                    | Head::Not(_)
                    | Head::IsUnknown(_)
                    | Head::Exists(_)
                    | Head::Compare(..)
                    | Head::StartsWith(..)
                    | Head::LikeRegex(..)
            )
    }
}

thread_local! {
    /// Paths that this thread has read, the last one last.
    static READ: RefCell<Vec<(String, Rc<Program>)>> = const { RefCell::new(Vec::new()) };
}

/// Paths that a thread keeps.
const READ_MAX: usize = 32;

/// A path's text in the form that it is shown in.
///
/// # Errors
/// 42601 and others, if it is none.
pub(crate) fn canonical(text: &str) -> Result<String> {
    parse::parse(text)?.text()
}

/// The path that a text is.
pub(crate) fn compiled(text: &str) -> Result<Rc<Program>> {
    let known = READ.with_borrow_mut(|read| {
        let at = read.iter().rposition(|(known, _)| known == text)?;
        if at + 1 != read.len() {
            let entry = read.remove(at);
            read.push(entry);
        }
        read.last().map(|(_, program)| Rc::clone(program))
    });
    if let Some(program) = known {
        return Ok(program);
    }
    let program = Rc::new(parse::parse(text)?);
    READ.with_borrow_mut(|read| {
        if read.len() == READ_MAX {
            read.remove(0);
        }
        read.push((text.to_owned(), Rc::clone(&program)));
    });
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_printed_as_postgresql_prints_it_and_read_again() {
        let check = |text: &str, expected: &str| {
            let printed = canonical(text).unwrap();
            assert_eq!(printed, expected, "{text}");
            assert_eq!(canonical(&printed).unwrap(), printed);
        };
        check("$.a.b[*] ? (@.x > 1 && @.y == \"q\")", "$.\"a\".\"b\"[*]?(@.\"x\" > 1 && @.\"y\" == \"q\")");
        check("strict $[0 to last, 2]", "strict $[0 to last,2]");
        check("-1 + $.a * 2", "(-1 + $.\"a\" * 2)");
        check("- -1", "1");
        check("(1).type()", "(1).type()");
        check("$.**{1 to last}.a", "$.**{1 to last}.\"a\"");
        check("$ ? (!exists(@.a) || (@.b > 1) is unknown)", "$?(!(exists (@.\"a\")) || (@.\"b\" > 1) is unknown)");
        check("$a.b\\u0041", "$\"a\".\"bA\"");
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let parts = [
            "$",
            "@",
            ".a",
            ".*",
            "[*]",
            "[",
            "]",
            "(",
            ")",
            "?",
            " ",
            "1",
            "1.5",
            "\"x\"",
            "==",
            ">",
            "&&",
            "||",
            "!",
            "last",
            " to ",
            "**",
            "{",
            "}",
            ".size()",
            ".datetime(",
            " like_regex ",
            " starts with ",
            "exists",
            "-",
            "+",
            " is unknown",
            ",",
            "strict ",
            "\\",
            "\u{e9}",
            "$v",
            "/*",
            "*/",
        ];
        for _ in 0..20_000 {
            let text: String = (0..random.usize(..12)).map(|_| *random.choice(&parts).unwrap()).collect();
            if let Ok(printed) = canonical(&text) {
                assert_eq!(canonical(&printed).unwrap(), printed, "{text}");
            }
        }
        assert!(canonical(&"(".repeat(100_000)).is_err());
    }
}
