//! Reading SET, RESET, SHOW, and the statements that begin a transaction, whose values PostgreSQL writes in its own way.
//!
//! ```text
//! SET [SESSION|LOCAL] name {TO|=} {value, … | DEFAULT}       SET … name FROM CURRENT
//! SET … TIME ZONE {value | INTERVAL '…' [HOUR [TO MINUTE]] | LOCAL | DEFAULT}
//! SET … {NAMES ['…'|DEFAULT] | SCHEMA '…' | ROLE name | SESSION AUTHORIZATION name | XML OPTION word}
//! SET … {TRANSACTION mode, … | SESSION CHARACTERISTICS AS TRANSACTION mode, …}
//! SET CONSTRAINTS {ALL | name, …} {DEFERRED|IMMEDIATE}
//! RESET|SHOW {name | ALL | TIME ZONE | TRANSACTION ISOLATION LEVEL | SESSION AUTHORIZATION}
//! BEGIN [WORK|TRANSACTION] [mode, …]                         START TRANSACTION [mode, …]
//! ```
//!
//! A value is a string, a number or a word. A string is one value, whatever is in it.

use colibri_types::{Error, Interval, Result, SqlState, keywords};
use compact_str::CompactString;

use super::super::settings::Level;
use crate::statement::reader::{Reader, Token, Word, may_begin_with};

/// A statement of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SetStatement {
    Set {
        name: CompactString,
        to: To,
        local: bool,
    },
    Reset(CompactString),
    ResetAll,
    Show(CompactString),
    ShowAll,
    /// `starts`: it was written START TRANSACTION.
    Begin {
        modes: Vec<Mode>,
        starts: bool,
    },
    Transaction {
        modes: Vec<Mode>,
    },
    /// What transactions are like that say nothing of it.
    Characteristics {
        modes: Vec<Mode>,
        local: bool,
    },
    /// `None`: all of them.
    Constraints {
        names: Option<Vec<Vec<CompactString>>>,
        deferred: bool,
    },
    /// A snapshot of another transaction's.
    Snapshot,
}

/// What a setting is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum To {
    Default,
    /// What it is already.
    Current,
    Values(Vec<Given>),
}

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    /// A string or a word, without its quotes.
    Text(String),
    /// Digits, perhaps with a minus.
    Number(String),
}

/// What a transaction is told to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Level(Level),
    ReadOnly(bool),
    Deferrable(bool),
}

/// Reads a statement if it is one of these.
///
/// # Errors
/// 42601 if it begins like one of them and goes on otherwise.
pub(crate) fn parse(text: &str) -> Result<Option<SetStatement>> {
    if !may_begin_with(text, &["set", "reset", "show", "begin", "start"]) {
        return Ok(None);
    }
    let mut reader = Reader::new(text)?;
    let statement = match reader.eat_any(&["SET", "RESET", "SHOW", "BEGIN", "START"]) {
        Some(0) => reader.set()?,
        Some(1) => match reader.setting()? {
            Some(name) => SetStatement::Reset(name),
            None => SetStatement::ResetAll,
        },
        Some(2) => match reader.setting()? {
            Some(name) => SetStatement::Show(name),
            None => SetStatement::ShowAll,
        },
        Some(3) => {
            reader.eat_any(&["WORK", "TRANSACTION"]);
            SetStatement::Begin { modes: reader.modes()?, starts: false }
        }
        Some(_) => {
            reader.expect(&["TRANSACTION"])?;
            SetStatement::Begin { modes: reader.modes()?, starts: true }
        }
        None => return Ok(None),
    };
    reader.end()?;
    Ok(Some(statement))
}

/// Reserved as names, and yet values of settings.
const TRUTH: &[&str] = &["true", "false", "on"];

/// Reserved words that SET takes for a value.
const VALUES: [&str; 4] = ["false", "on", "to", "true"];

/// Whether a word is no name and no value.
fn is_reserved(word: &Word) -> bool {
    let is_value = VALUES.iter().any(|value| value.eq_ignore_ascii_case(&word.value));
    word.quote_style.is_none() && !is_value && keywords::is_reserved(&word.value)
}

impl Reader {
    fn set(&mut self) -> Result<SetStatement> {
        if self.eat(&["CONSTRAINTS"]) {
            return self.constraints();
        }
        let local = self.eat(&["LOCAL"]);
        let is_phrase = ["AUTHORIZATION", "CHARACTERISTICS"].iter().any(|word| self.is_at(self.at + 1, word));
        if !local && !is_phrase {
            self.eat(&["SESSION"]);
        }
        if self.eat(&["SESSION", "CHARACTERISTICS"]) {
            self.expect(&["AS", "TRANSACTION"])?;
            let modes = self.modes()?;
            return if modes.is_empty() {
                Err(self.syntax())
            } else {
                Ok(SetStatement::Characteristics { modes, local })
            };
        }
        if self.eat(&["SESSION", "AUTHORIZATION"]) {
            let to = if self.eat(&["DEFAULT"]) { To::Default } else { To::Values(vec![self.word_or_string()?]) };
            return Ok(SetStatement::Set { name: "session_authorization".into(), to, local });
        }
        if let Some(statement) = self.set_special(local)? {
            return Ok(statement);
        }
        let (name, to) = self.assignment()?;
        Ok(SetStatement::Set { name, to, local })
    }

    /// What stands behind SET where a setting is kept for somebody: a name and a value, in whatever words.
    pub(crate) fn set_clause(&mut self) -> Result<(CompactString, To)> {
        match self.set_special(false)? {
            Some(SetStatement::Set { name, to, .. }) => Ok((name, to)),
            Some(_) => Err(self.syntax()),
            None => self.assignment(),
        }
    }

    fn assignment(&mut self) -> Result<(CompactString, To)> {
        let name = self.setting_name()?;
        if self.eat(&["FROM"]) {
            self.expect(&["CURRENT"])?;
            return Ok((name, To::Current));
        }
        if !self.eat(&["TO"]) && !self.eat_token(&Token::Equal) {
            return Err(self.syntax());
        }
        let to = if self.eat(&["DEFAULT"]) { To::Default } else { To::Values(self.list(Self::value)?) };
        Ok((name, to))
    }

    /// Settings that have words of their own, unless the word is a setting's name.
    fn set_special(&mut self, local: bool) -> Result<Option<SetStatement>> {
        let named = |name: &str, to: To| Ok(Some(SetStatement::Set { name: name.into(), to, local }));
        if matches!(self.peek_behind(1), Token::Equal | Token::Period) || self.is_at(self.at + 1, "TO") {
            return Ok(None);
        }
        if self.eat(&["TRANSACTION"]) {
            if self.eat(&["SNAPSHOT"]) {
                self.string()?;
                return Ok(Some(SetStatement::Snapshot));
            }
            let modes = self.modes()?;
            return if modes.is_empty() { Err(self.syntax()) } else { Ok(Some(SetStatement::Transaction { modes })) };
        }
        if self.eat(&["TIME", "ZONE"]) {
            let to = self.time_zone()?;
            return named("timezone", to);
        }
        if self.eat(&["ROLE"]) {
            let value = self.word_or_string()?;
            return named("role", To::Values(vec![value]));
        }
        if self.eat(&["SCHEMA"]) {
            let value = self.string()?;
            return named("search_path", To::Values(vec![Given::Text(value)]));
        }
        if self.eat(&["CATALOG"]) {
            self.string()?;
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "current database cannot be changed"));
        }
        if self.eat(&["XML", "OPTION"]) {
            let words = ["DOCUMENT", "CONTENT"];
            let word = self.eat_any(&words).ok_or_else(|| self.syntax())?;
            return named("xmloption", To::Values(vec![Given::Text(words[word].to_ascii_lowercase())]));
        }
        if self.eat(&["NAMES"]) {
            let is_over = self.eat(&["DEFAULT"]) || matches!(self.peek(), Token::End | Token::Semicolon);
            let to = if is_over { To::Default } else { To::Values(vec![Given::Text(self.string()?)]) };
            return named("client_encoding", to);
        }
        Ok(None)
    }

    fn constraints(&mut self) -> Result<SetStatement> {
        let names = if self.eat(&["ALL"]) { None } else { Some(self.list(Self::qualified)?) };
        match self.eat_any(&["DEFERRED", "IMMEDIATE"]) {
            Some(word) => Ok(SetStatement::Constraints { names, deferred: word == 0 }),
            None => Err(self.syntax()),
        }
    }

    /// A setting's name; `None` is ALL.
    pub(crate) fn setting(&mut self) -> Result<Option<CompactString>> {
        Ok(if self.eat(&["ALL"]) {
            None
        } else if self.eat(&["TIME", "ZONE"]) {
            Some("timezone".into())
        } else if self.eat(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
            Some("transaction_isolation".into())
        } else if self.eat(&["SESSION", "AUTHORIZATION"]) {
            Some("session_authorization".into())
        } else {
            Some(self.setting_name()?)
        })
    }

    fn setting_name(&mut self) -> Result<CompactString> {
        let part = |reader: &mut Self| match reader.peek() {
            Token::Word(word) if is_reserved(word) => Err(reader.syntax()),
            _ => reader.name(),
        };
        let mut name = part(self)?;
        while self.eat_token(&Token::Period) {
            name.push('.');
            name.push_str(&part(self)?);
        }
        Ok(name)
    }

    fn value(&mut self) -> Result<Given> {
        if matches!(self.peek(), Token::Word(word) if TRUTH.contains(&&*word.value.to_ascii_lowercase())) {
            return Ok(Given::Text(self.name()?.into()));
        }
        let is_signed = matches!(self.peek(), Token::Plus | Token::Minus);
        if is_signed || matches!(self.peek(), Token::Number(..)) { self.signed() } else { self.word_or_string() }
    }

    fn signed(&mut self) -> Result<Given> {
        let sign = if self.eat_token(&Token::Minus) { "-" } else { "" };
        if sign.is_empty() {
            self.eat_token(&Token::Plus);
        }
        let Token::Number(digits) = self.peek() else { return Err(self.syntax()) };
        let number = Given::Number(format!("{sign}{digits}"));
        self.at += 1;
        Ok(number)
    }

    fn word_or_string(&mut self) -> Result<Given> {
        match self.peek() {
            Token::Word(word) if is_reserved(word) => Err(self.syntax()),
            Token::Word(_) => Ok(Given::Text(self.name()?.into())),
            Token::NationalString(text) => {
                let text = Given::Text(text.clone());
                self.at += 1;
                Ok(text)
            }
            _ => self.string().map(Given::Text),
        }
    }

    fn time_zone(&mut self) -> Result<To> {
        if self.eat(&["LOCAL"]) || self.eat(&["DEFAULT"]) {
            return Ok(To::Default);
        }
        if !self.eat(&["INTERVAL"]) {
            return Ok(To::Values(vec![self.value()?]));
        }
        if self.eat_token(&Token::LeftParen) {
            self.integer()?;
            if !self.eat_token(&Token::RightParen) {
                return Err(self.syntax());
            }
        }
        let text = self.string()?;
        let unit = match self.eat_any(&["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]) {
            None => None,
            Some(3) => Some(if self.eat(&["TO", "MINUTE"]) { "minutes" } else { "hours" }),
            Some(_) => {
                let message = "time zone interval must be HOUR or HOUR TO MINUTE";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        // A number by itself counts the last unit that is named, and what is smaller is left out.
        let is_number = text.trim_ascii().parse::<f64>().is_ok();
        let interval = match unit {
            Some(unit) if is_number => Interval::parse(&format!("{text} {unit}"))?,
            _ => Interval::parse(&text)?,
        };
        let smallest = match unit {
            Some("hours") => 3_600_000_000,
            Some(_) => 60_000_000,
            None => 1,
        };
        let interval = Interval { micros: interval.micros / smallest * smallest, ..interval };
        Ok(To::Values(vec![Given::Text(format!("INTERVAL '{interval}'"))]))
    }

    fn modes(&mut self) -> Result<Vec<Mode>> {
        let mut modes = Vec::new();
        loop {
            let mode = if self.eat(&["ISOLATION", "LEVEL"]) {
                Mode::Level(self.level()?)
            } else if self.eat(&["READ", "ONLY"]) {
                Mode::ReadOnly(true)
            } else if self.eat(&["READ", "WRITE"]) {
                Mode::ReadOnly(false)
            } else if self.eat(&["NOT", "DEFERRABLE"]) {
                Mode::Deferrable(false)
            } else if self.eat(&["DEFERRABLE"]) {
                Mode::Deferrable(true)
            } else {
                // A comma stands between two.
                let behind_comma = self.is_token(self.at.wrapping_sub(1), &Token::Comma);
                return if behind_comma { Err(self.syntax()) } else { Ok(modes) };
            };
            modes.push(mode);
            self.eat_token(&Token::Comma);
        }
    }

    fn level(&mut self) -> Result<Level> {
        let levels: [(&[&str], &str); 4] = [
            (&["SERIALIZABLE"], "serializable"),
            (&["REPEATABLE", "READ"], "repeatable read"),
            (&["READ", "COMMITTED"], "read committed"),
            (&["READ", "UNCOMMITTED"], "read uncommitted"),
        ];
        match levels.iter().find(|(words, _)| self.eat(words)) {
            Some((_, name)) => Level::named(name),
            None => Err(self.syntax()),
        }
    }
}

impl SetStatement {
    /// PostgreSQL's command tag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::Set { .. } | Self::Transaction { .. } | Self::Characteristics { .. } | Self::Snapshot => "SET",
            Self::Reset(_) | Self::ResetAll => "RESET",
            Self::Show(_) | Self::ShowAll => "SHOW",
            Self::Begin { starts: false, .. } => "BEGIN",
            Self::Begin { starts: true, .. } => "START TRANSACTION",
            Self::Constraints { .. } => "SET CONSTRAINTS",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn set(text: &str) -> (String, To, bool) {
        match parse(text).unwrap().unwrap() {
            SetStatement::Set { name, to, local } => (name.into(), to, local),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn text(value: &str) -> Given {
        Given::Text(value.to_owned())
    }

    #[test]
    fn a_value_is_a_string_a_number_or_a_word() {
        for (value, expected) in [
            ("'a, b'", vec![text("a, b")]),
            ("$$a'b$$", vec![text("a'b")]),
            ("$x$ $$ $x$", vec![text(" $$ ")]),
            ("E'a\\tb'", vec![text("a\tb")]),
            ("\"X\", Foo, 'Bar'", vec![text("X"), text("foo"), text("Bar")]),
            ("-1.50", vec![Given::Number("-1.50".to_owned())]),
            ("+5", vec![Given::Number("5".to_owned())]),
            ("on", vec![text("on")]),
            ("TRUE", vec![text("true")]),
        ] {
            assert_eq!(set(&format!("SET x.y TO {value}")), ("x.y".to_owned(), To::Values(expected), false), "{value}");
        }
        for wrong in ["user", "select", "null", "all", "a.b", "utf-8", "", "1,", "(1)", "a b", "default, 1"] {
            assert!(parse(&format!("SET x = {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statements_have_words_of_their_own_for_some_settings() {
        let zone = |value: &str| To::Values(vec![text(value)]);
        for (statement, name, to, local) in [
            ("SET TIME ZONE \"Etc/UTC\"", "timezone", zone("Etc/UTC"), false),
            ("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", "timezone", zone("INTERVAL '00:00:00'"), false),
            ("set local time zone interval '1' hour", "timezone", zone("INTERVAL '01:00:00'"), true),
            ("SET TIME ZONE LOCAL", "timezone", To::Default, false),
            ("SET timezone = LOCAL", "timezone", zone("local"), false),
            ("SET SESSION SESSION AUTHORIZATION 'x'", "session_authorization", zone("x"), false),
            ("SET SESSION AUTHORIZATION DEFAULT", "session_authorization", To::Default, false),
            ("SET LOCAL SESSION AUTHORIZATION x", "session_authorization", zone("x"), true),
            ("SET ROLE none", "role", zone("none"), false),
            ("SET SESSION ROLE x", "role", zone("x"), false),
            ("SET role TO x", "role", zone("x"), false),
            ("SET NAMES 'utf8'", "client_encoding", zone("utf8"), false),
            ("SET NAMES;", "client_encoding", To::Default, false),
            ("SET SCHEMA 'A'", "search_path", zone("A"), false),
            ("SET names = 'x'", "names", zone("x"), false),
            ("SET a FROM CURRENT", "a", To::Current, false),
        ] {
            assert_eq!(set(statement), (name.to_owned(), to, local), "{statement}");
        }
        for wrong in
            ["SET NAMES utf8", "SET ROLE DEFAULT", "SET TRANSACTION", "BEGIN READ ONLY,", "BEGIN ISOLATION LEVEL foo"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("SETTLE").unwrap(), None);
        assert_eq!(parse("SELECT 1").unwrap(), None);
    }

    #[test]
    fn modes_of_transactions_stand_in_any_order_with_commas_or_without() {
        let level = |name| Mode::Level(Level::named(name).unwrap());
        let modes = vec![level("repeatable read"), Mode::ReadOnly(true), Mode::Deferrable(false)];
        for text in [
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE",
            "begin work isolation level repeatable read read only not deferrable;",
        ] {
            let expected = SetStatement::Begin { modes: modes.clone(), starts: false };
            assert_eq!(parse(text).unwrap(), Some(expected), "{text}");
        }
        let characteristics = SetStatement::Characteristics { modes: vec![Mode::ReadOnly(false)], local: false };
        let text = "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE";
        assert_eq!(parse(text).unwrap(), Some(characteristics));
    }
}
