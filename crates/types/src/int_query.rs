//! `query_int` of the extension `intarray`: conditions on which integers an array has.
//!
//! ```text
//! query  := any ("|" any)*
//! any    := all ("&" all)*
//! all    := number | "!" all | "(" query ")"
//! ```
//!
//! A value is kept as its text, in the form that it is shown in. What is read of a text is a list of
//! parts in which an operator comes behind its operands; so nothing here is recursive.

use std::fmt::Write as _;

use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// Operators that wait for an operand within the same parentheses, at most.
const WAITING_MAX: usize = 16;
/// Digits of a number with its sign, at most.
const DIGITS_MAX: usize = 15;

/// A part of a condition. The right operand of an operator, or the only one, is right before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The array has it.
    Number(i32),
    /// What the operand says is not so.
    Not,
    /// Both operands; the place of the left one.
    And(usize),
    /// One of the operands; the place of the left one.
    Or(usize),
}

/// A condition: its parts, of which the last one is the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntQuery(Vec<Part>);

/// An operator that waits for its operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Not,
    /// The place of the left operand.
    And(usize),
    Or(usize),
}

#[cold]
fn syntax_error() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "syntax error")
}

/// A number at the beginning of a text, and how many bytes it takes. As C does, one that begins with
/// zero is octal, up to the first digit that is none.
fn number(text: &[u8]) -> Result<(i32, usize)> {
    let sign = usize::from(text.first() == Some(&b'-'));
    let length = sign + text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length > DIGITS_MAX {
        return Err(syntax_error());
    }
    let digits = &text[sign..length];
    let base = if digits.first() == Some(&b'0') { 8 } else { 10 };
    let mut value: i64 = 0;
    for digit in digits.iter().map(|byte| i64::from(byte - b'0')).take_while(|digit| *digit < base) {
        value = value * base + digit;
    }
    let value = if sign == 1 { -value } else { value };
    Ok((i32::try_from(value).map_err(|_| syntax_error())?, length))
}

/// What is read so far within some parentheses, or outside of all.
struct Reader {
    parts: Vec<Part>,
    /// For each open parenthesis, the operators that wait in it.
    waiting: Vec<Vec<Waiting>>,
}

impl Reader {
    fn apply(&mut self, waiting: Waiting) {
        self.parts.push(match waiting {
            Waiting::Not => Part::Not,
            Waiting::And(left) => Part::And(left),
            Waiting::Or(left) => Part::Or(left),
        });
    }

    fn innermost(&mut self) -> Result<&mut Vec<Waiting>> {
        self.waiting.last_mut().ok_or_else(syntax_error)
    }

    /// An operand is complete: what binds it takes it.
    fn bind(&mut self) -> Result<()> {
        while let Some(Waiting::Not | Waiting::And(_)) = self.innermost()?.last() {
            if let Some(waiting) = self.innermost()?.pop() {
                self.apply(waiting);
            }
        }
        Ok(())
    }

    fn wait(&mut self, waiting: Waiting) -> Result<()> {
        let all = self.innermost()?;
        if all.len() == WAITING_MAX {
            return Err(Error::new(SqlState("54001"), "statement too complex"));
        }
        all.push(waiting);
        Ok(())
    }

    /// The parentheses end: what waits in them takes its operand.
    fn close(&mut self) -> Result<()> {
        let mut left = self.waiting.pop().ok_or_else(syntax_error)?;
        while let Some(waiting) = left.pop() {
            self.apply(waiting);
        }
        Ok(())
    }

    /// An operator of two operands, of which the left one is complete.
    fn operator(&mut self, byte: u8) -> Result<()> {
        if byte == b'|'
            && let Some(Waiting::Or(_)) = self.innermost()?.last()
            && let Some(waiting) = self.innermost()?.pop()
        {
            self.apply(waiting);
        }
        let left = self.parts.len().checked_sub(1).ok_or_else(syntax_error)?;
        self.wait(if byte == b'|' { Waiting::Or(left) } else { Waiting::And(left) })
    }
}

impl IntQuery {
    /// Reads a condition.
    ///
    /// # Errors
    /// 42601 for another form, 54001 for too many operators in a row.
    pub fn parse(text: &str) -> Result<Self> {
        let bytes = text.as_bytes();
        let mut reader = Reader { parts: Vec::new(), waiting: vec![Vec::new()] };
        let (mut at, mut wants_operand) = (0, true);
        while let Some(&byte) = bytes.get(at) {
            pulse::work(4)?;
            at += 1;
            match byte {
                b' ' => {}
                b'-' | b'0'..=b'9' if wants_operand => {
                    let (value, length) = number(&bytes[at - 1..])?;
                    at += length - 1;
                    reader.parts.push(Part::Number(value));
                    reader.bind()?;
                    wants_operand = false;
                }
                b'!' if wants_operand => reader.wait(Waiting::Not)?,
                b'(' if wants_operand => reader.waiting.push(Vec::new()),
                b'&' | b'|' if !wants_operand => {
                    reader.operator(byte)?;
                    wants_operand = true;
                }
                b')' if !wants_operand && reader.waiting.len() > 1 => {
                    reader.close()?;
                    reader.bind()?;
                }
                _ => return Err(syntax_error()),
            }
        }
        if wants_operand || reader.waiting.len() != 1 {
            return Err(syntax_error());
        }
        reader.close()?;
        Ok(Self(reader.parts))
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The form that it is shown in.
    #[must_use]
    pub fn shown(&self) -> String {
        /// What is still to be written, the last one first.
        enum Todo {
            Text(&'static str),
            /// A part, and whether it stands alone: in parentheses of its own, or outside of all.
            Part(usize, bool),
        }
        let mut out = String::new();
        let mut todo: Vec<Todo> = self.0.len().checked_sub(1).map(|last| Todo::Part(last, true)).into_iter().collect();
        while let Some(next) = todo.pop() {
            let (at, alone) = match next {
                Todo::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Todo::Part(at, alone) => (at, alone),
            };
            match self.0[at] {
                Part::Number(value) => _ = write!(out, "{value}"),
                Part::Not => {
                    let is_number = matches!(self.0[at - 1], Part::Number(_));
                    out.push_str(if is_number { "!" } else { "!( " });
                    if !is_number {
                        todo.push(Todo::Text(" )"));
                    }
                    todo.push(Todo::Part(at - 1, !is_number));
                }
                Part::And(left) => {
                    todo.extend([Todo::Part(at - 1, false), Todo::Text(" & "), Todo::Part(left, false)]);
                }
                Part::Or(left) => {
                    if !alone {
                        out.push_str("( ");
                        todo.push(Todo::Text(" )"));
                    }
                    todo.extend([Todo::Part(at - 1, false), Todo::Text(" | "), Todo::Part(left, false)]);
                }
            }
        }
        out
    }

    /// Computes it from what its numbers are.
    ///
    /// # Errors
    /// Those of the computations; the statement was cancelled.
    pub fn fold<T>(
        &self,
        mut number: impl FnMut(i32) -> Result<T>,
        not: impl Fn(T) -> T,
        both: impl Fn(T, T) -> T,
        either: impl Fn(T, T) -> T,
    ) -> Result<T> {
        let incomplete = || Error::internal("a query_int is incomplete");
        let mut values: Vec<T> = Vec::new();
        for part in &self.0 {
            pulse::work(2)?;
            let value = match part {
                Part::Number(value) => number(*value)?,
                Part::Not => not(values.pop().ok_or_else(incomplete)?),
                Part::And(_) | Part::Or(_) => {
                    let (right, left) = (values.pop().ok_or_else(incomplete)?, values.pop().ok_or_else(incomplete)?);
                    if matches!(part, Part::And(_)) { both(left, right) } else { either(left, right) }
                }
            };
            values.push(value);
        }
        values.pop().ok_or_else(incomplete)
    }

    /// Whether it holds of integers that are sorted.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn holds(&self, sorted: &[i32]) -> Result<bool> {
        let has = |value: i32| Ok(sorted.binary_search(&value).is_ok());
        self.fold(has, |value| !value, |left, right| left && right, |left, right| left || right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_as_the_same() {
        for text in ["1", "-1", "1&2|3&4", "1 & (2|!3)", "!(1|2)", "!!1", "1|2|3", "1|(2|3)", "1&(2&3)", "((7))", "010"]
        {
            let query = IntQuery::parse(text).unwrap();
            let again = IntQuery::parse(&query.shown()).unwrap();
            for bits in 0..16 {
                let sorted: Vec<i32> = (-1..8).filter(|value| bits >> (value & 3) & 1 == 1).collect();
                assert_eq!(query.holds(&sorted).unwrap(), again.holds(&sorted).unwrap(), "{text}");
            }
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["", " ", "1&", "&1", "1 2", "(1", "1)", "()", "a", "2147483648", "1&&2", "+1", "!", "1!", "1(2)"] {
            assert_eq!(IntQuery::parse(text).unwrap_err().state(), SqlState::SYNTAX_ERROR, "{text}");
        }
        assert_eq!(IntQuery::parse(&"!".repeat(17)).unwrap_err().state(), SqlState("54001"));
    }
}
