//! Texts of `tsvector` and `tsquery`: words, quoted ones and escapes, positions, operators.

use crate::error::{Error, Result, SqlState};
use crate::letters::{is_alnum, is_wide_space};
use crate::pulse;
use crate::text_search::query::{DISTANCE_MAX, Node, Operand, Operator, Query, Weights};
use crate::text_search::vector::{Position, weight_named};

/// Reads words.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    kind: Kind,
}

/// What the text is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vector,
    Query,
    /// What somebody has typed into a search box: quotes and backslashes are nothing special.
    Web,
}

fn is_operator(c: char) -> bool {
    matches!(c, '!' | '&' | '|' | '(' | ')' | '<')
}

impl<'t> Reader<'t> {
    pub(super) fn of_vector(text: &'t str) -> Self {
        Self { text, at: 0, kind: Kind::Vector }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    #[cold]
    fn bad(&self) -> Error {
        let what = if self.kind == Kind::Vector { "tsvector" } else { "tsquery" };
        Error::new(SqlState::SYNTAX_ERROR, format!("syntax error in {what}: \"{}\"", self.text))
    }

    fn skip_blanks(&mut self) -> Result<()> {
        while self.peek().is_some_and(is_wide_space) {
            self.next();
            pulse::work(1)?;
        }
        Ok(())
    }

    /// The next word, and its positions if the text is a document's. `None` behind the last one.
    pub(super) fn word(&mut self) -> Result<Option<(String, Vec<Position>)>> {
        self.skip_blanks()?;
        let mut word = String::new();
        match self.peek() {
            None => return Ok(None),
            Some('\'') if self.kind != Kind::Web => {
                self.next();
                self.quoted(&mut word)?;
            }
            Some(c) if self.kind != Kind::Vector && is_operator(c) => return Err(self.bad()),
            Some(_) => self.plain(&mut word)?,
        }
        let mut positions = Vec::new();
        if self.kind == Kind::Vector && self.peek() == Some(':') {
            self.positions(&mut positions)?;
        }
        Ok(Some((word, positions)))
    }

    fn escaped(&mut self, word: &mut String) -> Result<()> {
        self.next();
        let escaped = self.next().ok_or_else(|| {
            let message = format!("there is no escaped character: \"{}\"", self.text);
            Error::new(SqlState::SYNTAX_ERROR, message)
        })?;
        word.push(escaped);
        Ok(())
    }

    /// A word up to a blank, a colon, or an operator. Its first character may be any.
    fn plain(&mut self, word: &mut String) -> Result<()> {
        let mut is_first = true;
        while let Some(c) = self.peek() {
            match c {
                '\\' if self.kind != Kind::Web => self.escaped(word)?,
                _ if is_first => {
                    word.push(c);
                    self.next();
                }
                ':' => break,
                '"' if self.kind == Kind::Web => break,
                _ if is_wide_space(c) || self.kind != Kind::Vector && is_operator(c) => break,
                _ => {
                    word.push(c);
                    self.next();
                }
            }
            is_first = false;
            pulse::work(1)?;
        }
        if word.is_empty() { Err(self.bad()) } else { Ok(()) }
    }

    fn quoted(&mut self, word: &mut String) -> Result<()> {
        loop {
            match self.peek() {
                None => return Err(self.bad()),
                Some('\\') => self.escaped(word)?,
                Some('\'') => {
                    self.next();
                    if self.peek() != Some('\'') {
                        break;
                    }
                    word.push('\'');
                    self.next();
                }
                Some(c) => {
                    word.push(c);
                    self.next();
                }
            }
            pulse::work(1)?;
        }
        if word.is_empty() { Err(self.bad()) } else { Ok(()) }
    }

    /// `:3,5A`, from the colon on.
    fn positions(&mut self, positions: &mut Vec<Position>) -> Result<()> {
        loop {
            // The colon or a comma.
            self.next();
            let mut place = 0_usize;
            if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
                return Err(self.bad());
            }
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
                pulse::work(1)?;
                place = (place * 10 + digit as usize).min(1 << 20);
                self.next();
            }
            if place == 0 {
                let message = format!("wrong position info in tsvector: \"{}\"", self.text);
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            let mut weight = 0;
            loop {
                match self.peek() {
                    Some(',') => break,
                    // Digits behind a weight mean nothing.
                    Some(c) if c.is_ascii_digit() => pulse::work(1)?,
                    None => break,
                    Some(c) if is_wide_space(c) => break,
                    Some(c) => match if c == '*' { Some(3) } else { weight_named(c) } {
                        Some(named) if weight == 0 => weight = named,
                        _ => return Err(self.bad()),
                    },
                }
                self.next();
            }
            positions.push(Position::new(place, weight));
            pulse::work(1)?;
            if self.peek() != Some(',') {
                return Ok(());
            }
        }
    }
}

/// How a text is read as a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Operators and operands.
    Full,
    /// What somebody has typed: quotes, `or`, and a minus.
    Web,
    /// One operand.
    Plain,
}

/// Operators on their way to their operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Open,
    Not,
    Join(Operator),
}

impl Waiting {
    fn priority(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Join(Operator::Or) => 1,
            Self::Join(Operator::And) => 2,
            Self::Join(Operator::Phrase(_)) => 3,
            Self::Not => 4,
        }
    }
}

/// A query in the making.
#[derive(Default)]
pub(super) struct Maker {
    query: Query,
    done: Vec<u32>,
    waiting: Vec<Waiting>,
    bytes: usize,
}

impl Maker {
    /// A place of a word that was taken out.
    pub(super) fn push_stop(&mut self) {
        let at = self.query.push(Node::Stop);
        self.done.push(at);
    }

    /// An operand.
    pub(super) fn push(&mut self, lexeme: &str, weights: Weights, is_prefix: bool, text: &str) -> Result<()> {
        let operand = Operand::checked(lexeme, weights, is_prefix, self.bytes, text)?;
        self.bytes += lexeme.len() + 1;
        let at = self.query.push(Node::Lexeme(operand));
        self.done.push(at);
        pulse::work(8)
    }

    /// Joins the last two operands.
    pub(super) fn join(&mut self, operator: Operator) {
        if let (Some(right), Some(left)) = (self.done.pop(), self.done.pop()) {
            let at = self.query.push(Node::Join(operator, left, right));
            self.done.push(at);
        }
    }

    /// Gives operators their operands, down to one that binds less.
    fn settle(&mut self, new: Waiting) {
        while let Some(&top) = self.waiting.last() {
            let stays =
                if new == Waiting::Not { new.priority() >= top.priority() } else { new.priority() > top.priority() };
            if top == Waiting::Open || stays {
                break;
            }
            self.waiting.pop();
            match top {
                Waiting::Join(operator) => self.join(operator),
                _ => {
                    if let Some(inner) = self.done.pop() {
                        let at = self.query.push(Node::Not(inner));
                        self.done.push(at);
                    }
                }
            }
        }
    }

    fn operator(&mut self, new: Waiting) {
        self.settle(new);
        self.waiting.push(new);
    }

    fn close(&mut self) {
        self.settle(Waiting::Join(Operator::Or));
        self.waiting.pop();
    }

    fn finish(mut self) -> Query {
        self.settle(Waiting::Join(Operator::Or));
        match self.done.last() {
            Some(&root) => Query::rooted(self.query.nodes(), root),
            None => Query::default(),
        }
    }
}

/// Puts an operand into a query: the word, its weights, whether it is a prefix.
pub(super) type PushOperand<'f> = dyn FnMut(&mut Maker, &str, Weights, bool) -> Result<()> + 'f;

/// Reads a text as a query, with places of words that were taken out.
pub(super) fn read_with(text: &str, style: Style, push: &mut PushOperand<'_>) -> Result<Query> {
    let mut maker = Maker::default();
    match style {
        Style::Plain => {
            if !text.is_empty() {
                push(&mut maker, text, 0, false)?;
            }
        }
        Style::Full => full(text, &mut maker, push)?,
        Style::Web => web(text, &mut maker, push)?,
    }
    Ok(maker.finish())
}

fn full(text: &str, maker: &mut Maker, push: &mut PushOperand<'_>) -> Result<()> {
    let mut reader = Reader { text, at: 0, kind: Kind::Query };
    let mut depth = 0_usize;
    let mut is_first = true;
    loop {
        // Where an operand has to stand.
        pulse::work(2)?;
        reader.skip_blanks()?;
        match reader.peek() {
            Some('!') => {
                reader.next();
                maker.operator(Waiting::Not);
                is_first = false;
                continue;
            }
            Some('(') => {
                reader.next();
                depth += 1;
                maker.waiting.push(Waiting::Open);
                is_first = false;
                continue;
            }
            Some(':') => return Err(reader.bad()),
            _ => {}
        }
        let Some((word, _)) = reader.word()? else {
            if is_first {
                return Ok(());
            }
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("no operand in tsquery: \"{text}\"")));
        };
        is_first = false;
        let (weights, is_prefix) = modifiers(&mut reader);
        push(maker, &word, weights, is_prefix)?;
        // Where an operator has to stand, or the end.
        loop {
            reader.skip_blanks()?;
            let operator = match reader.peek() {
                Some('&') => Operator::And,
                Some('|') => Operator::Or,
                Some(')') if depth > 0 => {
                    reader.next();
                    depth -= 1;
                    maker.close();
                    continue;
                }
                Some('<') => {
                    let distance = phrase(&mut reader)?.ok_or_else(|| reader.bad())?;
                    maker.operator(Waiting::Join(Operator::Phrase(distance)));
                    break;
                }
                None if depth == 0 => return Ok(()),
                _ => return Err(reader.bad()),
            };
            reader.next();
            maker.operator(Waiting::Join(operator));
            break;
        }
    }
}

/// `:*AB`
fn modifiers(reader: &mut Reader<'_>) -> (Weights, bool) {
    let (mut weights, mut is_prefix) = (0, false);
    if reader.peek() == Some(':') {
        reader.next();
        while let Some(c) = reader.peek() {
            match (c, weight_named(c)) {
                ('*', _) => is_prefix = true,
                (_, Some(weight)) => weights |= 1 << weight,
                _ => break,
            }
            reader.next();
        }
    }
    (weights, is_prefix)
}

/// `<->` or `<5>`.
fn phrase(reader: &mut Reader<'_>) -> Result<Option<u16>> {
    let rest = &reader.text[reader.at + 1..];
    if rest.starts_with("->") {
        reader.at += 3;
        return Ok(Some(1));
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok(None);
    }
    let distance =
        rest[..digits].parse::<u16>().ok().filter(|&distance| distance <= DISTANCE_MAX).ok_or_else(|| {
            let message = format!(
                "distance in phrase operator must be an integer value between zero and {DISTANCE_MAX} inclusive"
            );
            Error::new(SqlState::BAD_PARAMETER, message)
        })?;
    if !rest[digits..].starts_with('>') {
        return Ok(None);
    }
    reader.at += digits + 2;
    Ok(Some(distance))
}

fn web(text: &str, maker: &mut Maker, push: &mut PushOperand<'_>) -> Result<()> {
    let mut reader = Reader { text, at: 0, kind: Kind::Web };
    let mut is_first = true;
    loop {
        pulse::work(2)?;
        reader.skip_blanks()?;
        match reader.peek() {
            Some('-') => {
                reader.next();
                maker.operator(Waiting::Not);
                is_first = false;
                continue;
            }
            Some('"') => {
                let begin = reader.at + 1;
                let end = memchr::memchr(b'"', &text.as_bytes()[begin..]).map(|at| begin + at);
                reader.at = end.map_or(text.len(), |end| end + 1);
                push(maker, &text[begin..end.unwrap_or(text.len())], 0, false)?;
            }
            Some(c) if is_operator(c) => {
                reader.next();
                is_first = false;
                continue;
            }
            _ => match reader.word()? {
                Some((word, _)) => push(maker, &word, 0, false)?,
                None if is_first => return Ok(()),
                None => {
                    maker.push_stop();
                    return Ok(());
                }
            },
        }
        is_first = false;
        // Symbols of operators mean nothing here.
        reader.skip_blanks()?;
        while reader.peek().is_some_and(is_operator) {
            reader.next();
            reader.skip_blanks()?;
        }
        if reader.peek().is_none() {
            return Ok(());
        }
        if is_or(&text[reader.at..]) {
            reader.at += 2;
            maker.operator(Waiting::Join(Operator::Or));
        } else {
            maker.operator(Waiting::Join(Operator::And));
        }
    }
}

/// Whether a text begins with the word `or` and has something behind it.
fn is_or(text: &str) -> bool {
    let Some((word, rest)) = text.split_at_checked(2) else { return false };
    let mut rest = rest.chars();
    word.eq_ignore_ascii_case("or")
        && rest.next().is_some_and(|c| !(matches!(c, '-' | '_') || is_alnum(c)))
        && rest.any(|c| !is_wide_space(c))
}

/// Reads a `tsquery` as it is written: words are lexemes.
///
/// # Errors
/// 42601 if it is not one, 22023 for a distance out of range, 54000 if it is too long.
pub fn read(text: &str) -> Result<Query> {
    read_with(text, Style::Full, &mut |maker, word, weights, is_prefix| maker.push(word, weights, is_prefix, text))
}
