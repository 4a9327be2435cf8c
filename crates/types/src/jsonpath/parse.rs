//! The grammar of paths.
//!
//! | level | operators |
//! | --- | --- |
//! | 1, 2 | `\|\|`, `&&` |
//! | 3 | `== != < <= > >=`, `starts with`, `like_regex`: between expressions, not in a row |
//! | 4, 5 | `+ -`, `* / %` |
//! | 6 | signs |
//! | 7 | steps |

use super::lexer::{Lexer, Token};
use super::{Arithmetic, Comparison, Head, LAST_LEVEL, Method, Path, Program, Step};
use crate::error::{Error, Result, SqlState};
use crate::numeric::Numeric;
use crate::regular::{Flags, Regular};

/// Expressions inside each other, at most.
const DEPTH_MAX: usize = 120;
/// Steps and operators of a path, which are run, written and dropped one inside the other.
const PARTS_MAX: usize = 1_000;

struct Parser<'t> {
    lexer: Lexer<'t>,
    depth: usize,
    parts: usize,
    in_filter: usize,
    in_subscript: usize,
}

/// Reads a path.
pub(super) fn parse(text: &str) -> Result<Program> {
    let bad = || Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type jsonpath: \"{text}\""));
    let mut parser = Parser { lexer: Lexer::new(text)?, depth: 0, parts: 0, in_filter: 0, in_subscript: 0 };
    if parser.lexer.token == Token::End {
        return Err(bad());
    }
    let is_strict = parser.eat_word("strict")?;
    if !is_strict {
        parser.eat_word("lax")?;
    }
    let path = parser.any()?;
    if parser.lexer.token != Token::End {
        return Err(parser.lexer.unexpected());
    }
    Ok(Program { is_strict, path })
}

/// The flags of `like_regex` for the engine.
pub(crate) fn regex_flags(letters: &str) -> Result<Flags> {
    let mut flags = Flags { newline_stops: true, ..Flags::default() };
    for letter in letters.chars() {
        match letter {
            'i' => flags.ignore_case = true,
            's' => flags.newline_stops = false,
            'm' => flags.newline_anchors = true,
            'q' => {}
            'x' => {}
            other => {
                let detail = format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid input syntax for type jsonpath").detail(detail));
            }
        }
    }
    if letters.contains('q') {
        (flags.quote, flags.advanced, flags.extended) = (true, false, false);
        (flags.newline_stops, flags.newline_anchors) = (false, false);
    } else if letters.contains('x') {
        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(flags)
}

impl Parser<'_> {
    fn is(&self, symbol: &str) -> bool {
        matches!(self.lexer.token, Token::Symbol(at_hand) if at_hand == symbol)
    }

    fn eat(&mut self, symbol: &str) -> Result<bool> {
        let is = self.is(symbol);
        if is {
            self.lexer.advance()?;
        }
        Ok(is)
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.eat(symbol)? { Ok(()) } else { Err(self.lexer.unexpected()) }
    }

    fn is_word(&self, word: &str) -> bool {
        // These three are words in lower case only.
        let is_cased = matches!(word, "null" | "true" | "false");
        match &self.lexer.token {
            Token::Word(at_hand) if is_cased => at_hand == word,
            Token::Word(at_hand) => at_hand.eq_ignore_ascii_case(word),
            _ => false,
        }
    }

    fn eat_word(&mut self, word: &str) -> Result<bool> {
        let is = self.is_word(word);
        if is {
            self.lexer.advance()?;
        }
        Ok(is)
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word)? { Ok(()) } else { Err(self.lexer.unexpected()) }
    }

    fn expect_string(&mut self) -> Result<String> {
        let Token::String(text) = &self.lexer.token else { return Err(self.lexer.unexpected()) };
        let text = text.clone();
        self.lexer.advance()?;
        Ok(text)
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Counts a part.
    fn count(&mut self) -> Result<()> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded"));
        }
        Ok(())
    }

    /// An expression or a condition.
    fn any(&mut self) -> Result<Path> {
        self.deeper(Self::or)
    }

    /// A condition.
    fn predicate(&mut self) -> Result<Path> {
        let path = self.any()?;
        self.expect_kind(path, true)
    }

    /// An expression.
    fn expression(&mut self) -> Result<Path> {
        let path = self.deeper(Self::sum)?;
        self.expect_kind(path, false)
    }

    fn expect_kind(&self, path: Path, is_predicate: bool) -> Result<Path> {
        if path.is_predicate() == is_predicate { Ok(path) } else { Err(self.lexer.unexpected()) }
    }

    fn or(&mut self) -> Result<Path> {
        let mut left = self.and()?;
        while self.is("||") {
            left = self.expect_kind(left, true)?;
            self.lexer.advance()?;
            let right = self.and()?;
            let right = self.expect_kind(right, true)?;
            self.count()?;
            left = Path::of(Head::Or(Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Path> {
        let mut left = self.comparison()?;
        while self.is("&&") {
            left = self.expect_kind(left, true)?;
            self.lexer.advance()?;
            let right = self.comparison()?;
            let right = self.expect_kind(right, true)?;
            self.count()?;
            left = Path::of(Head::And(Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Path> {
        if self.eat("!")? {
            let is_exists = self.is_word("exists");
            if !is_exists && !self.is("(") {
                return Err(self.lexer.unexpected());
            }
            let operand = if is_exists {
                self.comparison()?
            } else {
                self.lexer.advance()?;
                let inner = self.predicate()?;
                self.expect(")")?;
                inner
            };
            return Ok(Path::of(Head::Not(Box::new(operand))));
        }
        if self.is_word("exists") {
            self.lexer.advance()?;
            self.expect("(")?;
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(Path::of(Head::Exists(Box::new(inner))));
        }
        let left = self.sum()?;
        if left.is_predicate() {
            if self.is_word("is") {
                self.lexer.advance()?;
                self.expect_word("unknown")?;
                return Ok(Path::of(Head::IsUnknown(Box::new(left))));
            }
            return Ok(left);
        }
        let op = match self.lexer.token {
            Token::Symbol("==") => Comparison::Equal,
            Token::Symbol("!=" | "<>") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterEqual,
            _ => return self.text_test(left),
        };
        self.lexer.advance()?;
        let right = self.expression()?;
        Ok(Path::of(Head::Compare(op, Box::new(left), Box::new(right))))
    }

    /// `starts with` and `like_regex`, if they follow.
    fn text_test(&mut self, left: Path) -> Result<Path> {
        if self.eat_word("starts")? {
            self.expect_word("with")?;
            let initial = match &self.lexer.token {
                Token::String(text) => Head::String(text.clone()),
                Token::Variable(name) => Head::Variable(name.clone()),
                _ => return Err(self.lexer.unexpected()),
            };
            self.lexer.advance()?;
            return Ok(Path::of(Head::StartsWith(Box::new(left), Box::new(Path::of(initial)))));
        }
        if self.eat_word("like_regex")? {
            let pattern = self.expect_string()?;
            let letters = if self.eat_word("flag")? { self.expect_string()? } else { String::new() };
            let flags = regex_flags(&letters)?;
            Regular::new(&pattern, flags)?;
            let letters = "ismxq".chars().filter(|letter| letters.contains(*letter)).collect();
            return Ok(Path::of(Head::LikeRegex(Box::new(left), pattern, letters)));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Path> {
        let mut left = self.product()?;
        loop {
            let op = match self.lexer.token {
                Token::Symbol("+") => Arithmetic::Add,
                Token::Symbol("-") => Arithmetic::Subtract,
                _ => return Ok(left),
            };
            left = self.expect_kind(left, false)?;
            self.lexer.advance()?;
            let right = self.product()?;
            let right = self.expect_kind(right, false)?;
            self.count()?;
            left = Path::of(Head::Arithmetic(op, Box::new(left), Box::new(right)));
        }
    }

    fn product(&mut self) -> Result<Path> {
        let mut left = self.signed()?;
        loop {
            let op = match self.lexer.token {
                Token::Symbol("*") => Arithmetic::Multiply,
                Token::Symbol("/") => Arithmetic::Divide,
                Token::Symbol("%") => Arithmetic::Modulo,
                _ => return Ok(left),
            };
            left = self.expect_kind(left, false)?;
            self.lexer.advance()?;
            let right = self.signed()?;
            let right = self.expect_kind(right, false)?;
            self.count()?;
            left = Path::of(Head::Arithmetic(op, Box::new(left), Box::new(right)));
        }
    }

    fn signed(&mut self) -> Result<Path> {
        let is_minus = self.is("-");
        if !is_minus && !self.is("+") {
            return self.accessed();
        }
        self.lexer.advance()?;
        let operand = self.deeper(Self::signed)?;
        let operand = self.expect_kind(operand, false)?;
        Ok(match operand {
            Path { head: Head::Number(number), steps } if steps.is_empty() => {
                Path::of(Head::Number(if is_minus { number.negate() } else { number }))
            }
            operand => Path::of(Head::Sign(is_minus, Box::new(operand))),
        })
    }

    /// An operand with steps behind it.
    fn accessed(&mut self) -> Result<Path> {
        let mut path = if self.eat("(")? {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else {
            Path::of(self.primary()?)
        };
        loop {
            let step = match self.lexer.token {
                Token::Symbol(".") => {
                    self.lexer.advance()?;
                    self.step_behind_period()?
                }
                Token::Symbol("[") => {
                    self.lexer.advance()?;
                    self.subscripts()?
                }
                Token::Symbol("?") => {
                    self.lexer.advance()?;
                    self.expect("(")?;
                    self.in_filter += 1;
                    let filter = self.predicate()?;
                    self.in_filter -= 1;
                    self.expect(")")?;
                    Step::Filter(filter)
                }
                _ => return Ok(path),
            };
            self.count()?;
            path.steps.push(step);
        }
    }

    fn primary(&mut self) -> Result<Head> {
        let head = match &self.lexer.token {
            Token::Symbol("$") => Head::Root,
            Token::Symbol("@") if self.in_filter > 0 => Head::Current,
            Token::Symbol("@") => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "@ is not allowed in root expressions"));
            }
            Token::String(text) => Head::String(text.clone()),
            Token::Variable(name) => Head::Variable(name.clone()),
            Token::Integer | Token::Decimal => {
                // A point may stand at the end.
                Head::Number(Numeric::parse(self.lexer.written())?)
            }
            Token::Word(_) if self.is_word("null") => Head::Null,
            Token::Word(_) if self.is_word("true") => Head::Bool(true),
            Token::Word(_) if self.is_word("false") => Head::Bool(false),
            Token::Word(_) if self.is_word("last") => {
                if self.in_subscript == 0 {
                    let message = "LAST is allowed only in array subscripts";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
                Head::Last
            }
            _ => return Err(self.lexer.unexpected()),
        };
        self.lexer.advance()?;
        Ok(head)
    }

    fn step_behind_period(&mut self) -> Result<Step> {
        if self.eat("*")? {
            return Ok(Step::AnyKey);
        }
        if self.eat("**")? {
            return self.levels();
        }
        let key = match &self.lexer.token {
            Token::String(text) => {
                let key = text.clone();
                self.lexer.advance()?;
                return Ok(Step::Key(key));
            }
            Token::Word(word) => word.clone(),
            _ => return Err(self.lexer.unexpected()),
        };
        self.lexer.advance()?;
        if !self.is("(") {
            return Ok(Step::Key(key));
        }
        let lower = key.to_ascii_lowercase();
        if lower == "datetime" {
            self.lexer.advance()?;
            let template = if self.is(")") { None } else { Some(self.expect_string()?) };
            self.expect(")")?;
            return Ok(Step::DateTime(template));
        }
        let Some(method) = Method::ALL.into_iter().find(|method| method.name() == lower) else {
            return Err(self.lexer.unexpected());
        };
        self.lexer.advance()?;
        self.expect(")")?;
        Ok(Step::Method(method))
    }

    /// What follows `**`.
    fn levels(&mut self) -> Result<Step> {
        if !self.eat("{")? {
            return Ok(Step::AnyDepth(0, LAST_LEVEL));
        }
        let from = self.level()?;
        let to = if self.eat_word("to")? { self.level()? } else { from };
        self.expect("}")?;
        Ok(Step::AnyDepth(from, to))
    }

    fn level(&mut self) -> Result<u32> {
        if self.eat_word("last")? {
            return Ok(LAST_LEVEL);
        }
        if self.lexer.token != Token::Integer {
            return Err(self.lexer.unexpected());
        }
        let level = self.lexer.written().parse::<i32>().map_err(|_| {
            let message = format!("value \"{}\" is out of range for type integer", self.lexer.written());
            Error::new(SqlState::OUT_OF_RANGE, message)
        })?;
        self.lexer.advance()?;
        Ok(level.unsigned_abs())
    }

    fn subscripts(&mut self) -> Result<Step> {
        if self.is("*") {
            self.lexer.advance()?;
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        self.in_subscript += 1;
        let mut list = Vec::new();
        loop {
            let from = self.expression()?;
            let to = if self.eat_word("to")? { Some(self.expression()?) } else { None };
            list.push((from, to));
            if !self.eat(",")? {
                break;
            }
        }
        self.in_subscript -= 1;
        self.expect("]")?;
        Ok(Step::Elements(list))
    }
}
