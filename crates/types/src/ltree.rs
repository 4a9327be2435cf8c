//! `ltree`: paths of labels, and what looks for them.
//!
//! A path is its text, the labels with dots between. All characters of labels are behind the dot in
//! the order of bytes, so the order of texts is that of the labels, one after the other. The patterns
//! `lquery` and `ltxtquery` are kept as their text in the form that they are shown in.

use std::fmt::Write as _;

use crate::error::{Error, Result, SqlState};
use crate::letters;
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

/// Characters of a label, at most.
const LABEL_CHARS_MAX: usize = 255;
/// Labels of a path, at most; also the count that stands for any.
const LABELS_MAX: u32 = 65_535;
/// Operators inside each other in an `ltxtquery`.
const DEPTH_MAX: usize = 1_000;

fn is_label_char(c: char) -> bool {
    c == '_' || letters::is_alnum(c)
}

fn syntax_error(what: &str, position: usize) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("{what} syntax error at character {position}"))
}

fn unexpected_end(what: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("{what} syntax error")).detail("Unexpected end of input.")
}

fn check_length(label: &str, position: usize) -> Result<()> {
    let chars = label.chars().count();
    if chars <= LABEL_CHARS_MAX {
        return Ok(());
    }
    Err(Error::new(SqlState("42622"), "label string is too long")
        .detail(format!("Label length is {chars}, must be at most {LABEL_CHARS_MAX}, at character {position}.")))
}

/// Checks the text of a path.
///
/// # Errors
/// 42601 for another form, 42622 for a long label, 54000 for too many.
pub fn check_path(text: &str) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let count = text.matches('.').count() + 1;
    if count > LABELS_MAX as usize {
        let message = format!("number of ltree labels ({count}) exceeds the maximum allowed ({LABELS_MAX})");
        return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
    }
    let mut position = 0;
    for (at, label) in text.split('.').enumerate() {
        pulse::work(1)?;
        position += usize::from(at > 0);
        for c in label.chars() {
            position += 1;
            // A label may be as long as the text.
            if position % CHARS_AT_ONCE == 0 {
                pulse::work(CHARS_AT_ONCE)?;
            }
            if !is_label_char(c) {
                return Err(syntax_error("ltree", position));
            }
        }
        if label.is_empty() {
            let is_end = at + 1 == count;
            return Err(if is_end { unexpected_end("ltree") } else { syntax_error("ltree", position + 1) });
        }
        check_length(label, position)?;
    }
    Ok(())
}

/// So many characters are looked at between two chances for others.
const CHARS_AT_ONCE: usize = 4_096;

/// Reads a path or a pattern: the text in the form that it is shown in.
///
/// # Errors
/// As the type's own.
pub fn read(ty: Type, text: &str) -> Result<Datum> {
    Ok(match ty {
        Type::Lquery => Datum::text(&Pattern::parse(text)?.shown()),
        Type::Ltxtquery => Datum::text(&Condition::parse(text)?.shown()),
        _ => {
            check_path(text)?;
            Datum::text(text)
        }
    })
}

/// The labels of a path.
pub fn labels(path: &str) -> impl Iterator<Item = &str> {
    let count = if path.is_empty() { 0 } else { usize::MAX };
    path.split('.').enumerate().filter(move |(at, _)| *at < count).map(|(_, label)| label)
}

/// The number of labels.
#[must_use]
pub fn level(path: &str) -> usize {
    if path.is_empty() { 0 } else { path.bytes().filter(|&byte| byte == b'.').count() + 1 }
}

/// Whether a path is another one's beginning, or the same.
#[must_use]
pub fn is_ancestor(ancestor: &str, path: &str) -> bool {
    let rest = path.strip_prefix(ancestor);
    rest.is_some_and(|rest| rest.is_empty() || ancestor.is_empty() || rest.starts_with('.'))
}

/// Two paths, one behind the other.
///
/// # Errors
/// 54000 if they have too many labels together.
pub fn joined(one: &str, other: &str) -> Result<String> {
    let count = level(one) + level(other);
    if count > LABELS_MAX as usize {
        let message = format!("number of ltree levels ({count}) exceeds the maximum allowed ({LABELS_MAX})");
        return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
    }
    let between = if one.is_empty() || other.is_empty() { "" } else { "." };
    Ok(format!("{one}{between}{other}"))
}

/// The labels from a place to before another one.
///
/// # Errors
/// 22023 for places outside.
pub fn part(path: &str, from: i64, to: i64) -> Result<String> {
    let count = level(path) as i64;
    if from < 0 || to < 0 || from >= count || from > to {
        return Err(Error::new(SqlState::BAD_PARAMETER, "invalid positions"));
    }
    let kept: Vec<&str> = labels(path).skip(from as usize).take((to.min(count) - from) as usize).collect();
    Ok(kept.join("."))
}

/// The part from a place on, of a length; a negative place counts from the end, and so does the
/// length.
///
/// # Errors
/// As [`part`].
pub fn subpath(path: &str, offset: i64, length: Option<i64>) -> Result<String> {
    let count = level(path) as i64;
    let mut start = offset;
    // A place before the first label counts from the end once more.
    for _ in 0..2 {
        start += if start < 0 { count } else { 0 };
    }
    let end = match length {
        None => count,
        Some(length) if length < 0 => count + length,
        Some(length) => start + length,
    };
    part(path, start, end)
}

/// Where a path stands in another one, from a place on; -1 if it does not.
#[must_use]
pub fn index_of(path: &str, wanted: &str, start: i64) -> i64 {
    let (path, wanted): (Vec<&str>, Vec<&str>) = (labels(path).collect(), labels(wanted).collect());
    let start = if start < 0 { (path.len() as i64 + start).max(0) } else { start };
    if wanted.is_empty() {
        return -1;
    }
    let found = path.windows(wanted.len()).enumerate().skip(start as usize).find(|(_, part)| *part == wanted);
    found.map_or(-1, |(at, _)| at as i64)
}

/// The longest path that is above all of some; `None` of none, and if one of them is empty.
#[must_use]
pub fn common_ancestor<'a>(mut paths: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = paths.next()?;
    let first: Vec<&str> = labels(first).collect();
    // Of one path alone, its parent.
    let mut kept = first.len().checked_sub(1)?;
    for path in paths {
        let other: Vec<&str> = labels(path).collect();
        let same = first.iter().zip(&other).take_while(|(one, other)| one == other).count();
        kept = kept.min(same).min(other.len().checked_sub(1)?);
    }
    Some(first[..kept].join("."))
}

/// How a word of a pattern is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Flags {
    /// `*`: any end.
    prefix: bool,
    /// `@`: without case.
    folds: bool,
    /// `%`: words between underscores.
    words: bool,
}

impl Flags {
    fn take(&mut self, c: char) -> bool {
        match c {
            '*' => self.prefix = true,
            '@' => self.folds = true,
            '%' => self.words = true,
            _ => return false,
        }
        true
    }

    fn write(self, out: &mut String) {
        for (is_set, letter) in [(self.words, '%'), (self.folds, '@'), (self.prefix, '*')] {
            if is_set {
                out.push(letter);
            }
        }
    }

    fn matches(self, wanted: &str, label: &str) -> bool {
        if !self.words {
            return self.same(wanted, label);
        }
        parts(wanted).all(|wanted| parts(label).any(|label| self.same(wanted, label)))
    }

    fn same(self, wanted: &str, label: &str) -> bool {
        if self.folds {
            let (wanted, label) = (crate::citext::folded(wanted), crate::citext::folded(label));
            return if self.prefix { label.starts_with(&wanted) } else { label == wanted };
        }
        if self.prefix { label.starts_with(wanted) } else { label == wanted }
    }
}

/// The words of a label.
fn parts(label: &str) -> impl Iterator<Item = &str> {
    label.split('_').filter(|part| !part.is_empty())
}

/// What an `lquery` says of some labels in a row.
#[derive(Debug, Clone)]
struct Step {
    /// `*`: any label.
    any: bool,
    negated: bool,
    words: Vec<(String, Flags)>,
    low: u32,
    high: u32,
    /// Whether the counts were said.
    counted: bool,
}

impl Step {
    fn matches(&self, label: &str) -> bool {
        self.any || self.negated != self.words.iter().any(|(word, flags)| flags.matches(word, label))
    }
}

/// A pattern of labels.
#[derive(Debug, Clone)]
pub struct Pattern(Vec<Step>);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// 42601 for another form.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader { chars: text.chars().collect(), at: 0 };
        let mut steps = Vec::new();
        loop {
            pulse::work(1)?;
            steps.push(reader.step()?);
            match reader.peek() {
                None => return Ok(Self(steps)),
                Some('.') => reader.at += 1,
                Some(_) => return Err(reader.unexpected()),
            }
        }
    }

    /// Its text.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut out = String::new();
        for (at, step) in self.0.iter().enumerate() {
            if at > 0 {
                out.push('.');
            }
            if step.any {
                out.push('*');
            }
            if step.negated {
                out.push('!');
            }
            for (at, (word, flags)) in step.words.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                out.push_str(word);
                flags.write(&mut out);
            }
            if step.counted {
                let _ = match (step.low, step.high) {
                    (low, high) if low == high => write!(out, "{{{low}}}"),
                    (0, LABELS_MAX) if step.any => Ok(()),
                    (0, LABELS_MAX) => write!(out, "{{,}}"),
                    (0, high) => write!(out, "{{,{high}}}"),
                    (low, LABELS_MAX) => write!(out, "{{{low},}}"),
                    (low, high) => write!(out, "{{{low},{high}}}"),
                };
            }
        }
        out
    }

    /// Whether a path has this form.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn matches(&self, path: &str) -> Result<bool> {
        let labels: Vec<&str> = labels(path).collect();
        // The places in the path that the steps so far may end at.
        let mut open = vec![false; labels.len() + 1];
        open[0] = true;
        for step in &self.0 {
            let mut next = vec![false; labels.len() + 1];
            for start in 0..=labels.len() {
                if !open[start] {
                    continue;
                }
                pulse::work(labels.len() - start + 1)?;
                let mut count = 0;
                loop {
                    if count >= step.low {
                        next[start + count as usize] = true;
                    }
                    let Some(label) = labels.get(start + count as usize) else { break };
                    if count >= step.high || !step.matches(label) {
                        break;
                    }
                    count += 1;
                }
            }
            open = next;
        }
        Ok(open[labels.len()])
    }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn unexpected(&self) -> Error {
        match self.peek() {
            Some(_) => syntax_error("lquery", self.at + 1),
            None => unexpected_end("lquery"),
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|&c| is_label_char(c)) {
            word.push(c);
            self.at += 1;
        }
        word
    }

    /// The error where a word is missing: `!` alone may be followed by flags.
    fn no_word(&mut self, is_negated: bool) -> Error {
        if !is_negated {
            return self.unexpected();
        }
        let start = self.at;
        while self.peek().is_some_and(|c| Flags::default().take(c)) {
            self.at += 1;
        }
        match self.peek() {
            Some(c) if is_label_char(c) => self.unexpected(),
            _ => syntax_error("lquery", start + 1).detail("Empty labels are not allowed."),
        }
    }

    fn step(&mut self) -> Result<Step> {
        let mut step = Step { any: false, negated: false, words: Vec::new(), low: 1, high: 1, counted: false };
        if self.eat('*') {
            (step.any, step.low, step.high, step.counted) = (true, 0, LABELS_MAX, true);
        } else {
            step.negated = self.eat('!');
            loop {
                let word = self.word();
                if word.is_empty() {
                    return Err(self.no_word(step.negated && step.words.is_empty()));
                }
                check_length(&word, self.at)?;
                let mut flags = Flags::default();
                while self.peek().is_some_and(|c| flags.take(c)) {
                    self.at += 1;
                }
                step.words.push((word, flags));
                if !self.eat('|') {
                    break;
                }
            }
        }
        if self.eat('{') {
            self.counts(&mut step)?;
        }
        Ok(step)
    }

    fn number(&mut self) -> Result<Option<u32>> {
        let start = self.at;
        let mut number: u32 = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(digit);
            self.at += 1;
        }
        if number > LABELS_MAX {
            let detail =
                format!("Low limit ({number}) exceeds the maximum allowed ({LABELS_MAX}), at character {}.", start + 1);
            return Err(Error::new(SqlState::PROGRAM_LIMIT, "lquery syntax error").detail(detail));
        }
        Ok((self.at > start).then_some(number))
    }

    fn counts(&mut self, step: &mut Step) -> Result<()> {
        step.counted = true;
        let low = self.number()?;
        let comma = self.eat(',');
        let start = self.at;
        let high = if comma { self.number()? } else { low };
        if !comma && low.is_none() {
            return Err(self.unexpected());
        }
        (step.low, step.high) = (low.unwrap_or(0), high.unwrap_or(LABELS_MAX));
        if step.low > step.high {
            let detail = format!(
                "Low limit ({}) is greater than high limit ({}), at character {}.",
                step.low,
                step.high,
                start + 1
            );
            return Err(Error::new(SqlState::SYNTAX_ERROR, "lquery syntax error").detail(detail));
        }
        if self.eat('}') { Ok(()) } else { Err(self.unexpected()) }
    }
}

/// A condition on the labels of a path.
#[derive(Debug, Clone)]
pub enum Condition {
    /// One of them is such a word.
    Word(String, WordFlags),
    /// The other one is false.
    Not(Box<Condition>),
    /// Both are true.
    And(Box<Condition>, Box<Condition>),
    /// One is true.
    Or(Box<Condition>, Box<Condition>),
}

/// How a word of a [`Condition`] is compared.
#[derive(Debug, Clone, Copy)]
pub struct WordFlags(Flags);

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// 42601 for another form, 54001 for one that is nested too deeply.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = ConditionReader { chars: text.chars().collect(), at: 0 };
        let condition = reader.any(0)?;
        reader.skip_blanks();
        if reader.at == reader.chars.len() { Ok(condition) } else { Err(bad_condition()) }
    }

    /// Its text.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    fn write(&self, out: &mut String, is_outermost: bool) {
        match self {
            Self::Word(word, flags) => {
                out.push_str(word);
                flags.0.write(out);
            }
            Self::Not(inner) => {
                out.push('!');
                if matches!(**inner, Self::Word(..)) {
                    inner.write(out, false);
                } else {
                    out.push_str("( ");
                    inner.write(out, true);
                    out.push_str(" )");
                }
            }
            Self::And(one, other) => {
                one.write(out, false);
                out.push_str(" & ");
                other.write(out, false);
            }
            Self::Or(one, other) => {
                if !is_outermost {
                    out.push_str("( ");
                }
                one.write(out, false);
                out.push_str(" | ");
                other.write(out, false);
                if !is_outermost {
                    out.push_str(" )");
                }
            }
        }
    }

    /// Whether it is true of a path.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        match self {
            Self::Word(word, flags) => labels(path).any(|label| flags.0.matches(word, label)),
            Self::Not(inner) => !inner.holds(path),
            Self::And(one, other) => one.holds(path) && other.holds(path),
            Self::Or(one, other) => one.holds(path) || other.holds(path),
        }
    }
}

fn bad_condition() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "syntax error")
}

struct ConditionReader {
    chars: Vec<char>,
    at: usize,
}

impl ConditionReader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(letters::is_blank_char) {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn any(&mut self, depth: usize) -> Result<Condition> {
        let mut left = self.all(depth)?;
        while self.eat('|') {
            left = Condition::Or(Box::new(left), Box::new(self.all(depth)?));
        }
        Ok(left)
    }

    fn all(&mut self, depth: usize) -> Result<Condition> {
        let mut left = self.one(depth)?;
        while self.eat('&') {
            left = Condition::And(Box::new(left), Box::new(self.one(depth)?));
        }
        Ok(left)
    }

    fn one(&mut self, depth: usize) -> Result<Condition> {
        pulse::work(1)?;
        if depth > DEPTH_MAX {
            return Err(Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded"));
        }
        if self.eat('!') {
            return Ok(Condition::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.eat('(') {
            let inner = self.any(depth + 1)?;
            return if self.eat(')') { Ok(inner) } else { Err(bad_condition()) };
        }
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|&c| is_label_char(c)) {
            word.push(c);
            self.at += 1;
        }
        if word.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "operand syntax error"));
        }
        let mut flags = Flags::default();
        while self.peek().is_some_and(|c| flags.take(c)) {
            self.at += 1;
        }
        if flags != Flags::default() && self.peek().is_some_and(is_label_char) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "modifiers syntax error"));
        }
        Ok(Condition::Word(word, WordFlags(flags)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn matches(path: &str, pattern: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(path).unwrap()
    }

    #[test]
    fn patterns_match_labels_in_a_row() {
        assert!(matches("a.b.c", "a.b.c"));
        assert!(matches("a.b.c", "a.*"));
        assert!(matches("a", "a.*"));
        assert!(matches("a.b.c", "*.c"));
        assert!(matches("a.b.c", "a.*{1}.c"));
        assert!(!matches("a.b.c", "a.*{2}.c"));
        assert!(matches("a.b.c", "a.!x.c"));
        assert!(matches("Abc.b", "abc@.*"));
        assert!(matches("foo_bar.b", "bar%.b"));
        assert!(matches("foo_barbaz.b", "bar%*.b"));
        assert!(matches("a.b", "x|a.b"));
    }

    #[test]
    fn texts_order_as_labels_do() {
        let mut paths = ["a.b", "a", "ab", "a.b.c", "a_b", "a1", "b"];
        paths.sort_unstable();
        let mut by_labels = paths;
        by_labels.sort_by(|one, other| labels(one).cmp(labels(other)));
        assert_eq!(paths, by_labels);
    }
}
