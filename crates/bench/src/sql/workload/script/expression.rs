//! Values of variables: integers, and how they are computed.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = value { ("*" | "/") value }
//! value   = number | "-" value | ":" name | "client" | name "(" sum "," sum ")" | "(" sum ")"
//! ```

use crate::measure::random::Random;
use crate::sql::workload::Client;
use crate::sql::workload::ycsb::Zipfian;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    Uniform,
    Zipfian,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Number(i64),
    Variable(usize),
    Client,
    Binary(Operator, Box<Expression>, Box<Expression>),
    Random(Distribution, Box<Expression>, Box<Expression>),
}

/// How deep expressions may be nested.
const DEPTH_MAX: u32 = 50;

struct Parser<'t> {
    rest: &'t str,
    names: &'t [String],
    depth: u32,
}

impl Expression {
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn parse(text: &str, names: &[String]) -> Result<Self, String> {
        let mut parser = Parser { rest: text, names, depth: 0 };
        let expression = parser.sum()?;
        match parser.rest.trim() {
            "" => Ok(expression),
            rest => Err(format!("not understood: {rest}")),
        }
    }

    /// The value; `None` if it is too large, divides by zero, or has an empty range.
    pub(super) fn value(&self, values: &[i64], client: &mut Client) -> Option<i64> {
        Some(match self {
            Self::Number(number) => *number,
            Self::Variable(place) => *values.get(*place)?,
            Self::Client => client.number.into(),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.value(values, client)?, right.value(values, client)?);
                match operator {
                    Operator::Add => left.checked_add(right)?,
                    Operator::Subtract => left.checked_sub(right)?,
                    Operator::Multiply => left.checked_mul(right)?,
                    Operator::Divide => left.checked_div(right)?,
                }
            }
            Self::Random(distribution, low, high) => {
                let (low, high) = (low.value(values, client)?, high.value(values, client)?);
                let count = high.checked_sub(low)?.checked_add(1).filter(|&count| count > 0)?;
                low + draw(*distribution, count as u64, &mut client.random) as i64
            }
        })
    }
}

fn draw(distribution: Distribution, count: u64, random: &mut Random) -> u64 {
    match distribution {
        Distribution::Uniform => random.below(count),
        Distribution::Zipfian => Zipfian::new(count).draw(random),
    }
}

impl Parser<'_> {
    fn take(&mut self, token: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("{token:?} is missing before {:?}", self.rest)) }
    }

    /// Letters, digits and underscores.
    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        loop {
            let operator = match (self.take('+'), self.take('-')) {
                (true, _) => Operator::Add,
                (_, true) => Operator::Subtract,
                _ => return Ok(left),
            };
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.value()?;
        loop {
            let operator = match (self.take('*'), self.take('/')) {
                (true, _) => Operator::Multiply,
                (_, true) => Operator::Divide,
                _ => return Ok(left),
            };
            left = Expression::Binary(operator, Box::new(left), Box::new(self.value()?));
        }
    }

    fn value(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deep".to_owned());
        }
        let value = self.value_inside();
        self.depth -= 1;
        value
    }

    fn value_inside(&mut self) -> Result<Expression, String> {
        if self.take('-') {
            let zero = Box::new(Expression::Number(0));
            return Ok(Expression::Binary(Operator::Subtract, zero, Box::new(self.value()?)));
        }
        if self.take('(') {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        if self.take(':') {
            let name = self.word();
            let place = self.names.iter().position(|known| *known == name);
            return place.map(Expression::Variable).ok_or_else(|| format!(":{name} is not set before"));
        }
        let word = self.word();
        let distribution = match word.as_str() {
            "client" => return Ok(Expression::Client),
            "random" => Distribution::Uniform,
            "random_zipfian" => Distribution::Zipfian,
            number => return number.parse().map(Expression::Number).map_err(|_| format!("{number:?} is no number")),
        };
        self.expect('(')?;
        let low = self.sum()?;
        self.expect(',')?;
        let high = self.sum()?;
        self.expect(')')?;
        Ok(Expression::Random(distribution, Box::new(low), Box::new(high)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        let mut client = Client { random: Random::new(42, 0), number: 7, deck: [0; 6] };
        Expression::parse(text, &["a".to_owned()]).unwrap().value(&[10], &mut client)
    }

    #[test]
    fn expressions_have_their_values() {
        assert_eq!((value("1 + 2 * 3"), value("(1 + 2) * 3"), value("10 - 4 - 3")), (Some(7), Some(9), Some(3)));
        assert_eq!((value(":a * client"), value("-:a / 3"), value("- -2")), (Some(70), Some(-3), Some(2)));
        assert_eq!((value("1 / 0"), value("9223372036854775807 + 1"), value("random(2, 1)")), (None, None, None));
        for _ in 0..100 {
            assert!((1..=5).contains(&value("random(1, 5)").unwrap()));
            assert!((-5..=-1).contains(&value("random_zipfian(-5, -1)").unwrap()));
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        let deep = "(".repeat(10_000);
        for text in ["", "1 +", "(1", "random(1)", "x", ":b", "1 2", "1e5", deep.as_str()] {
            assert!(Expression::parse(text, &[]).is_err(), "{}", &text[..text.len().min(20)]);
        }
    }
}
