//! The tokens of a regular expression in PostgreSQL's three flavours: advanced, extended and basic.

use super::Flags;
use super::sets::{self, CharSet, Class};
use super::tree::{NO_BOUND, Place};
use crate::letters;

/// Why a pattern is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Repeat,
    Braces,
    Bound,
    Brackets,
    Range,
    Class,
    Collation,
    Escape,
    Parentheses,
    Reference,
    Option,
    Pattern,
    Argument,
    TooBig,
}

impl Fault {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Repeat => "quantifier operand invalid",
            Self::Braces => "braces {} not balanced",
            Self::Bound => "invalid repetition count(s)",
            Self::Brackets => "brackets [] not balanced",
            Self::Range => "invalid character range",
            Self::Class => "invalid character class",
            Self::Collation => "invalid collating element",
            Self::Escape => "invalid escape \\ sequence",
            Self::Parentheses => "parentheses () not balanced",
            Self::Reference => "invalid backreference number",
            Self::Option => "invalid embedded option",
            Self::Pattern => "invalid regexp (reg version 0.8)",
            Self::Argument => "invalid argument to regex function",
            Self::TooBig => "regular expression is too complex",
        }
    }
}

pub(super) type Lexed<T> = Result<T, Fault>;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Start,
    End,
    Plain(u32),
    Any,
    Set(CharSet),
    Or,
    Open {
        captures: bool,
    },
    Close,
    Look {
        behind: bool,
        negative: bool,
    },
    Place(Place),
    /// `^` and `$`, which may mean lines.
    Caret,
    Dollar,
    /// `*`, `+`, `?` and bounds.
    Quantifier(Quantifier),
    Back(usize),
}

/// How often, and whether it prefers more (`Some(true)`), less, or what its operand does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantifier {
    pub min: u32,
    pub max: u32,
    pub longer: Option<bool>,
}

/// Reads tokens.
pub(super) struct Lexer {
    chars: Vec<char>,
    at: usize,
    pub flags: Flags,
    /// Groups that have been opened: `\12` is a back-reference only if there are twelve.
    pub groups: usize,
    last: Token,
}

/// The greatest bound.
const BOUND_MAX: u32 = 255;

impl Lexer {
    /// Reads the director (`***=`, `***:`) and the options (`(?i)`) before a pattern.
    pub(super) fn new(pattern: Vec<char>, mut flags: Flags) -> Lexed<Self> {
        if flags.quote && (flags.extended || flags.expanded || flags.newline_stops || flags.newline_anchors) {
            return Err(Fault::Argument);
        }
        let mut lexer = Self { chars: pattern, at: 0, flags, groups: 0, last: Token::Start };
        if flags.quote {
            return Ok(lexer);
        }
        if lexer.chars.len() >= 4 && lexer.chars.starts_with(&['*', '*', '*']) {
            match lexer.chars[3] {
                '?' => return Err(Fault::Pattern),
                '=' => {
                    flags.make_literal();
                    (lexer.at, lexer.flags) = (4, flags);
                    return Ok(lexer);
                }
                ':' => {
                    (flags.extended, flags.advanced) = (true, true);
                    lexer.at = 4;
                }
                _ => return Err(Fault::Repeat),
            }
        }
        let is_option = |at: usize| lexer.chars.get(at).is_some_and(char::is_ascii_alphabetic);
        if flags.advanced && lexer.chars[lexer.at..].starts_with(&['(', '?']) && is_option(lexer.at + 2) {
            lexer.at += 2;
            while let Some(&letter) = lexer.chars.get(lexer.at).filter(|c| c.is_ascii_alphabetic()) {
                flags.set(letter).map_err(|()| Fault::Option)?;
                lexer.at += 1;
            }
            if lexer.chars.get(lexer.at) != Some(&')') {
                return Err(Fault::Option);
            }
            lexer.at += 1;
            if flags.quote {
                flags.make_literal();
            }
        }
        lexer.flags = flags;
        Ok(lexer)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let is = self.peek(0) == Some(c);
        self.at += usize::from(is);
        is
    }

    /// Skips blanks and comments of the expanded syntax.
    fn skip(&mut self) {
        while let Some(c) = self.peek(0) {
            if letters::is_wide_space(c) {
                self.at += 1;
            } else if c == '#' {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Lexed<Token> {
        let token = self.read()?;
        self.last = token.clone();
        Ok(token)
    }

    fn read(&mut self) -> Lexed<Token> {
        if self.flags.quote {
            let Some(c) = self.peek(0) else { return Ok(Token::End) };
            self.at += 1;
            return Ok(Token::Plain(u32::from(c)));
        }
        loop {
            if self.flags.expanded {
                self.skip();
            }
            let Some(c) = self.peek(0) else { return Ok(Token::End) };
            self.at += 1;
            if !self.flags.extended {
                return self.basic(c);
            }
            // A comment: what comes behind it is what counts.
            if c == '(' && self.flags.advanced && self.peek(0) == Some('?') && self.peek(1) == Some('#') {
                while self.peek(0).is_some_and(|c| c != ')') {
                    self.at += 1;
                }
                self.at += usize::from(self.peek(0).is_some());
                continue;
            }
            return self.extended(c);
        }
    }

    fn extended(&mut self, c: char) -> Lexed<Token> {
        Ok(match c {
            '|' => Token::Or,
            '*' => self.quantifier(0, NO_BOUND),
            '+' => self.quantifier(1, NO_BOUND),
            '?' => self.quantifier(0, 1),
            '{' => {
                if self.flags.expanded {
                    self.skip();
                }
                if !self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                    return Ok(Token::Plain(u32::from(c)));
                }
                self.bound()?
            }
            '(' if self.flags.advanced && self.eat('?') => self.advanced_parenthesis()?,
            '(' => Token::Open { captures: true },
            ')' => Token::Close,
            '[' => self.bracket()?,
            '.' => Token::Any,
            '^' => Token::Caret,
            '$' => Token::Dollar,
            '\\' => {
                let Some(next) = self.peek(0) else { return Err(Fault::Escape) };
                if self.flags.advanced {
                    return self.escape();
                }
                self.at += 1;
                Token::Plain(u32::from(next))
            }
            c => Token::Plain(u32::from(c)),
        })
    }

    fn basic(&mut self, c: char) -> Lexed<Token> {
        Ok(match c {
            // Behind `^` it stands for itself, as in PostgreSQL and POSIX.
            '*' if !matches!(self.last, Token::Start | Token::Open { .. } | Token::Or | Token::Caret) => {
                Token::Quantifier(Quantifier { min: 0, max: NO_BOUND, longer: Some(true) })
            }
            '[' => self.bracket()?,
            '.' => Token::Any,
            '^' if matches!(self.last, Token::Start | Token::Open { .. }) => Token::Caret,
            '$' => {
                if self.flags.expanded {
                    self.skip();
                }
                match (self.peek(0), self.peek(1)) {
                    (None, _) | (Some('\\'), Some(')')) => Token::Dollar,
                    _ => Token::Plain(u32::from(c)),
                }
            }
            '\\' => {
                let Some(next) = self.peek(0) else { return Err(Fault::Escape) };
                self.at += 1;
                match next {
                    '{' => self.bound()?,
                    '(' => Token::Open { captures: true },
                    ')' => Token::Close,
                    '<' => Token::Place(Place::WordBegin),
                    '>' => Token::Place(Place::WordEnd),
                    '1'..='9' => Token::Back(next as usize - '0' as usize),
                    next => Token::Plain(u32::from(next)),
                }
            }
            c => Token::Plain(u32::from(c)),
        })
    }

    fn quantifier(&mut self, min: u32, max: u32) -> Token {
        let longer = !(self.flags.advanced && self.eat('?'));
        Token::Quantifier(Quantifier { min, max, longer: Some(longer) })
    }

    /// A number of a bound.
    fn bound_number(&mut self) -> Lexed<Option<u32>> {
        let mut value = None;
        loop {
            if self.flags.expanded {
                self.skip();
            }
            let Some(digit) = self.peek(0).and_then(|c| c.to_digit(10)) else { return Ok(value) };
            self.at += 1;
            let sum = value.unwrap_or(0) * 10 + digit;
            if sum > BOUND_MAX {
                return Err(Fault::Bound);
            }
            value = Some(sum);
        }
    }

    /// What follows the brace: `1}`, `1,}`, `1,2}`.
    fn bound(&mut self) -> Lexed<Token> {
        let ended = |this: &Self| if this.at >= this.chars.len() { Err(Fault::Braces) } else { Ok(()) };
        let min = self.bound_number()?;
        ended(self)?;
        let min = min.ok_or(Fault::Bound)?;
        let (max, is_range) = if self.eat(',') {
            let max = self.bound_number()?;
            ended(self)?;
            (max.unwrap_or(NO_BOUND), true)
        } else {
            (min, false)
        };
        if min > max {
            return Err(Fault::Bound);
        }
        if !self.flags.extended {
            if !(self.eat('\\') && self.eat('}')) {
                return Err(Fault::Bound);
            }
            return Ok(Token::Quantifier(Quantifier { min, max, longer: is_range.then_some(true) }));
        }
        if !self.eat('}') {
            return Err(Fault::Bound);
        }
        let longer = !(self.flags.advanced && self.eat('?'));
        Ok(Token::Quantifier(Quantifier { min, max, longer: is_range.then_some(longer) }))
    }

    /// What follows `(?`.
    fn advanced_parenthesis(&mut self) -> Lexed<Token> {
        let kind = self.peek(0).ok_or(Fault::Repeat)?;
        self.at += 1;
        Ok(match kind {
            ':' => Token::Open { captures: false },
            '=' | '!' => Token::Look { behind: false, negative: kind == '!' },
            '<' => {
                let kind = self.peek(0).filter(|kind| "=!".contains(*kind)).ok_or(Fault::Repeat)?;
                self.at += 1;
                Token::Look { behind: true, negative: kind == '!' }
            }
            _ => return Err(Fault::Repeat),
        })
    }

    /// Digits of a base; their number lies between two bounds.
    fn digits(&mut self, base: u32, least: usize, most: usize) -> Lexed<u32> {
        let mut value = 0u32;
        let mut count = 0;
        while count < most
            && let Some(digit) = self.peek(0).and_then(|c| c.to_digit(base))
        {
            self.at += 1;
            count += 1;
            value = value.wrapping_mul(base).wrapping_add(digit);
        }
        if count < least { Err(Fault::Escape) } else { Ok(value) }
    }

    fn character_code(&mut self, least: usize, most: usize) -> Lexed<Token> {
        let code = self.digits(16, least, most)?;
        if code > 0x7fff_fffe { Err(Fault::Escape) } else { Ok(Token::Plain(code)) }
    }

    /// What follows a backslash in the advanced flavour.
    fn escape(&mut self) -> Lexed<Token> {
        let Some(c) = self.peek(0) else { return Err(Fault::Escape) };
        self.at += 1;
        let class = |class: Class| Token::Set(class.set().clone());
        let no_class = |class: Class| Token::Set(class.set().negate());
        Ok(match c {
            'a' => Token::Plain(0x07),
            'A' => Token::Place(Place::Begin),
            'b' => Token::Plain(0x08),
            'B' => Token::Plain(u32::from('\\')),
            'c' => {
                let next = self.peek(0).ok_or(Fault::Escape)?;
                self.at += 1;
                Token::Plain(u32::from(next) & 0x1f)
            }
            'd' => class(Class::Digit),
            'D' => no_class(Class::Digit),
            'e' => Token::Plain(0x1b),
            'f' => Token::Plain(0x0c),
            'm' => Token::Place(Place::WordBegin),
            'M' => Token::Place(Place::WordEnd),
            'n' => Token::Plain(0x0a),
            'r' => Token::Plain(0x0d),
            's' => class(Class::Space),
            'S' => no_class(Class::Space),
            't' => Token::Plain(0x09),
            'u' => self.character_code(4, 4)?,
            'U' => self.character_code(8, 8)?,
            'v' => Token::Plain(0x0b),
            'w' => class(Class::Word),
            'W' => no_class(Class::Word),
            'x' => self.character_code(1, 255)?,
            'y' => Token::Place(Place::WordEdge),
            'Y' => Token::Place(Place::NoWordEdge),
            'Z' => Token::Place(Place::End),
            '0'..='9' => self.number_escape(c)?,
            c if c.is_ascii_alphabetic() => return Err(Fault::Escape),
            c => Token::Plain(u32::from(c)),
        })
    }

    /// A back-reference, or a character by its octal number.
    fn number_escape(&mut self, first: char) -> Lexed<Token> {
        let behind_first = self.at;
        self.at -= 1;
        if first != '0' {
            let value = self.digits(10, 1, 255)? as i32;
            if self.at == behind_first || (value > 0 && value as usize <= self.groups) {
                return Ok(Token::Back(value as usize));
            }
            self.at = behind_first - 1;
        }
        let mut code = self.digits(8, 1, 3)?;
        if code > 0xff {
            self.at -= 1;
            code >>= 3;
        }
        Ok(Token::Plain(code))
    }

    /// A bracket expression; `[` has been read.
    fn bracket(&mut self) -> Lexed<Token> {
        let rest = &self.chars[self.at..];
        for (word, place) in [("[:<:]]", Place::WordBegin), ("[:>:]]", Place::WordEnd)] {
            if rest.len() >= word.len() && rest.iter().copied().take(word.len()).eq(word.chars()) {
                self.at += word.len();
                return Ok(Token::Place(place));
            }
        }
        let negative = self.eat('^');
        let mut set = CharSet::default();
        let mut first = true;
        loop {
            let item = self.bracket_item(first)?;
            first = false;
            match item {
                Item::End => break,
                Item::Set(more) => set.union(&more),
                Item::Dash => return Err(Fault::Range),
                Item::One(from) => {
                    let before = self.at;
                    if !matches!(self.bracket_item(false)?, Item::Dash) {
                        self.at = before;
                        set.union(&self.cased(CharSet::one(from)));
                        continue;
                    }
                    let to = match self.bracket_item(false)? {
                        Item::One(to) => to,
                        Item::Dash => u32::from('-'),
                        Item::End | Item::Set(_) => return Err(Fault::Range),
                    };
                    if from > to {
                        return Err(Fault::Range);
                    }
                    set.union(&self.cased(CharSet::range(from, to)));
                }
            }
        }
        if negative {
            set = set.negate();
            if self.flags.newline_stops {
                set = set.without(u32::from('\n'));
            }
        }
        Ok(Token::Set(set))
    }

    /// With both cases, if the pattern does not tell them apart.
    pub(super) fn cased(&self, mut set: CharSet) -> CharSet {
        if self.flags.ignore_case {
            set.fold_case();
        }
        set
    }

    fn bracket_item(&mut self, first: bool) -> Lexed<Item> {
        let Some(c) = self.peek(0) else { return Err(Fault::Brackets) };
        self.at += 1;
        Ok(match c {
            ']' if !first => Item::End,
            '-' if !first && self.peek(0) != Some(']') => Item::Dash,
            '\\' if self.flags.advanced => match self.escape()? {
                Token::Plain(c) => Item::One(c),
                Token::Set(set) => Item::Set(set),
                _ => return Err(Fault::Escape),
            },
            '[' => {
                let kind = self.peek(0).ok_or(Fault::Brackets)?;
                if !".=:".contains(kind) {
                    return Ok(Item::One(u32::from('[')));
                }
                self.at += 1;
                let begin = self.at;
                while !(self.peek(0) == Some(kind) && self.peek(1) == Some(']')) {
                    if self.peek(0).is_none() {
                        return Err(Fault::Brackets);
                    }
                    self.at += 1;
                }
                let name: String = self.chars[begin..self.at].iter().collect();
                self.at += 2;
                self.named_item(kind, &name)?
            }
            c => Item::One(u32::from(c)),
        })
    }

    fn named_item(&self, kind: char, name: &str) -> Lexed<Item> {
        if kind == ':' {
            let class = match Class::named(name).ok_or(Fault::Class)? {
                Class::Lower | Class::Upper if self.flags.ignore_case => Class::Alpha,
                class => class,
            };
            return Ok(Item::Set(class.set().clone()));
        }
        let mut chars = name.chars();
        let c = match (chars.next(), chars.next()) {
            (Some(one), None) => one,
            _ => sets::character(name).ok_or(Fault::Collation)?,
        };
        Ok(if kind == '=' { Item::Set(self.cased(CharSet::one(u32::from(c)))) } else { Item::One(u32::from(c)) })
    }
}

/// A part of a bracket expression.
enum Item {
    One(u32),
    Set(CharSet),
    /// A `-` between others.
    Dash,
    End,
}
