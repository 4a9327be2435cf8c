//! What stands in a statement's braces: values that are drawn anew for each run.
//!
//! | written | is |
//! | --- | --- |
//! | `{user}` | a value: see [`Kind`] |
//! | `{int 1 50}` | a number between two, both included |
//! | `{a:user}` … `{a}` | the same value again |
//! | `{user*20}` | twenty values, with commas between them |
//! | `{user[20]}` | an array of twenty values, as one parameter |
//!
//! Not here: what the tables hold (`service`), which these values fit.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::service;
use super::set::Scale;
use crate::measure::random::Random;

/// A value of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Text(String),
    /// Microseconds since 2000-01-01 00:00.
    Time(i64),
}

impl Value {
    /// As a literal of SQL.
    pub(super) fn literal(&self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Self::Time(micros) => format!("timestamp '{}'", service::timestamp(*micros)),
        }
    }
}

/// What a value is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// A key of a table, each as likely as any other.
    Key(service::Keys),
    /// A project as tasks have them: few have most.
    HotProject,
    /// A key that no row has yet, another one each time.
    New,
    /// A number between two, both included.
    Int(i64, i64),
    /// A price with two digits behind the point.
    Price,
    /// A moment of the time that the data are of.
    Time,
    /// A moment in its first tenth.
    Early,
    /// A moment behind its end.
    Late,
    /// A day of that time.
    Date,
    /// One of the words of a column.
    OneOf(&'static [&'static str]),
    /// A user's address.
    Email,
    /// An address that no user has.
    NoEmail,
    /// The first letters of addresses, for LIKE.
    EmailPrefix,
    /// A product's number for people.
    Sku,
    /// A tag's name.
    TagName,
    /// A counter's name.
    Counter,
    /// Something to write.
    Word,
    /// What some names contain, for LIKE.
    Pattern,
}

impl Kind {
    fn parse(text: &str) -> Result<Self, String> {
        use service::Keys;
        let mut words = text.split_whitespace();
        let word = words.next().unwrap_or_default();
        let mut number = || {
            let word = words.next().ok_or_else(|| format!("{text:?} lacks a number"))?;
            word.parse::<i64>().map_err(|_| format!("{word:?} is not a number"))
        };
        Ok(match word {
            "org" => Self::Key(Keys::Orgs),
            "user" => Self::Key(Keys::Users),
            "project" => Self::Key(Keys::Projects),
            "task" => Self::Key(Keys::Tasks),
            "comment" => Self::Key(Keys::Comments),
            "tag" => Self::Key(Keys::Tags),
            "category" => Self::Key(Keys::Categories),
            "product" => Self::Key(Keys::Products),
            "order" => Self::Key(Keys::Orders),
            "job" => Self::Key(Keys::Jobs),
            "hot_project" => Self::HotProject,
            "new" => Self::New,
            "int" => Self::Int(number()?, number()?),
            "price" => Self::Price,
            "time" => Self::Time,
            "early" => Self::Early,
            "late" => Self::Late,
            "date" => Self::Date,
            "state" => Self::OneOf(&service::TASK_STATES),
            "order_status" => Self::OneOf(&service::ORDER_STATES),
            "queue" => Self::OneOf(&service::QUEUES),
            "kind" => Self::OneOf(&service::EVENT_KINDS),
            "setting" => Self::OneOf(&service::SETTINGS),
            "email" => Self::Email,
            "no_email" => Self::NoEmail,
            "email_prefix" => Self::EmailPrefix,
            "sku" => Self::Sku,
            "tag_name" => Self::TagName,
            "counter" => Self::Counter,
            "word" => Self::Word,
            "pattern" => Self::Pattern,
            _ => return Err(format!("nothing is called {word:?}")),
        })
    }

    fn draw(self, scale: Scale, random: &mut Random) -> Value {
        let text = |text: String| Value::Text(text);
        let key = |keys: service::Keys, random: &mut Random| random.between(1, keys.count(scale));
        match self {
            Self::Key(keys) => Value::Int(key(keys, random)),
            Self::HotProject => Value::Int(service::hot_project(scale, random)),
            // Of 2^30 keys that are free in every table with keys of that width.
            Self::New => Value::Int(1_000_000_000 + random.below(1 << 30) as i64),
            Self::Int(low, high) => Value::Int(random.between(low, high)),
            Self::Price => text(format!("{}.{:02}", random.between(1, 500), random.below(100))),
            Self::Time => Value::Time(service::moment(random)),
            Self::Early => Value::Time(service::BEGIN + (service::moment(random) - service::BEGIN) / 10),
            Self::Late => Value::Time(service::END + service::DAY),
            Self::Date => text(service::date(service::moment(random))),
            Self::OneOf(words) => text(words[random.below(words.len() as u64) as usize].to_owned()),
            Self::Email => text(service::email(key(service::Keys::Users, random))),
            Self::NoEmail => text(format!("nobody{}@example.com", random.below(1 << 20))),
            Self::EmailPrefix => text(format!("user{}%", key(service::Keys::Users, random))),
            Self::Sku => text(service::sku(key(service::Keys::Products, random))),
            Self::TagName => text(service::tag(key(service::Keys::Tags, random))),
            Self::Counter => text(service::counter(random.between(1, service::COUNTERS))),
            Self::Word => text(format!("word {}", random.below(1 << 30))),
            Self::Pattern => text(format!("%{}%", service::WORDS[random.below(service::WORDS.len() as u64) as usize])),
        }
    }
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Sql(String),
    /// Parameters, by their places, with commas between them.
    Params(std::ops::Range<usize>),
}

/// How a parameter comes to its value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Param {
    One(Kind),
    Array(Kind, usize),
}

/// A statement with what is to be drawn for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
    params: Vec<Param>,
}

impl Template {
    /// # Errors
    /// What is wrong in which braces.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut template, mut names) = (Self { pieces: Vec::new(), params: Vec::new() }, HashMap::new());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (inside, after) = behind.split_once('}').ok_or("a brace is not closed")?;
            template.pieces.push(Piece::Sql(before.to_owned()));
            let params = template.params_of(inside, &mut names)?;
            template.pieces.push(Piece::Params(params));
            rest = after;
        }
        template.pieces.push(Piece::Sql(rest.to_owned()));
        Ok(template)
    }

    fn params_of<'t>(
        &mut self,
        inside: &'t str,
        names: &mut HashMap<&'t str, usize>,
    ) -> Result<std::ops::Range<usize>, String> {
        let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is not a number"));
        if let Some(&at) = names.get(inside) {
            return Ok(at..at + 1);
        }
        let at = self.params.len();
        let what = match inside.split_once(':') {
            Some((name, what)) => {
                names.insert(name, at);
                what
            }
            None => inside,
        };
        if let Some((kind, count)) = what.split_once('*') {
            let kind = Kind::parse(kind)?;
            self.params.extend(std::iter::repeat_n(Param::One(kind), number(count)?));
        } else if let Some((kind, count)) = what.strip_suffix(']').and_then(|what| what.split_once('[')) {
            self.params.push(Param::Array(Kind::parse(kind)?, number(count)?));
        } else {
            self.params.push(Param::One(Kind::parse(what)?));
        }
        Ok(at..self.params.len())
    }

    /// The statement with `$1`, `$2`, … for its parameters.
    pub(super) fn prepared(&self) -> String {
        self.with(|at| format!("${}", at + 1))
    }

    /// The statement with values in it.
    pub(super) fn simple(&self, values: &[Value]) -> String {
        self.with(|at| values[at].literal())
    }

    fn with(&self, param: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Sql(sql) => text.push_str(sql),
                Piece::Params(places) => {
                    let all: Vec<String> = places.clone().map(&param).collect();
                    text.push_str(&all.join(", "));
                }
            }
        }
        text
    }

    /// Values for all parameters.
    pub(super) fn draw(&self, scale: Scale, random: &mut Random) -> Vec<Value> {
        let draw = |param: &Param| match *param {
            Param::One(kind) => kind.draw(scale, random),
            Param::Array(kind, count) => {
                let mut text = String::from("{");
                for index in 0..count {
                    let comma = if index == 0 { "" } else { "," };
                    match kind.draw(scale, random) {
                        Value::Int(value) => _ = write!(text, "{comma}{value}"),
                        Value::Text(word) => _ = write!(text, "{comma}\"{word}\""),
                        Value::Time(micros) => _ = write!(text, "{comma}\"{}\"", service::timestamp(micros)),
                    }
                }
                Value::Text(text + "}")
            }
        };
        self.params.iter().map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_parameters_or_literals() {
        let template = Template::parse("SELECT {a:int 5 5}, {int 1 1*3}, {a}, {int 2 2[2]}, {late}").unwrap();
        assert_eq!(template.prepared(), "SELECT $1, $2, $3, $4, $1, $5, $6");
        let values = template.draw(Scale::new(1), &mut Random::new(1, 1));
        assert_eq!(values.len(), 6);
        assert_eq!(template.simple(&values), "SELECT 5, 1, 1, 1, 5, '{2,2}', timestamp '2025-01-01 00:00:00'");
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        for text in ["{nothing}", "{user", "{int 1}", "{user*x}", "{user[x]}", "{int a b}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quotes_in_values_are_doubled() {
        assert_eq!(Value::Text("it's".to_owned()).literal(), "'it''s'");
    }
}
