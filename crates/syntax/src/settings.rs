//! SET, RESET and SHOW, whose values PostgreSQL writes in its own way.
//!
//! ```text
//! SET [SESSION|LOCAL] name {TO|=} {value, … | DEFAULT}       SET … name FROM CURRENT
//! SET … TIME ZONE {value | INTERVAL '…' [HOUR [TO MINUTE]] | LOCAL | DEFAULT}
//! SET … {NAMES ['…'|DEFAULT] | SCHEMA '…' | ROLE name | SESSION AUTHORIZATION name | XML OPTION word}
//! SET … {TRANSACTION mode, … | SESSION CHARACTERISTICS AS TRANSACTION mode, …}
//! SET CONSTRAINTS {ALL | name, …} {DEFERRED|IMMEDIATE}
//! RESET|SHOW {name | ALL | TIME ZONE | TRANSACTION ISOLATION LEVEL | SESSION AUTHORIZATION}
//! ```
//!
//! A value is a string, a number or a word. A string is one value, whatever is in it.

use colibri_types::{Error, Interval, Result, SqlState};

use crate::keyword::{Class, Keyword as K};
use crate::parser::Parser;
use crate::strings;
use crate::token::Kind;
use crate::tree::{Given, Name, Setting, To};

/// Whether a word is no name and no value.
fn is_reserved(kind: Kind) -> bool {
    match kind {
        Kind::Key(K::False | K::On | K::To | K::True) => false,
        Kind::Key(word) => word.class() == Class::Reserved,
        _ => false,
    }
}

impl Parser<'_> {
    pub(crate) fn set(&mut self) -> Result<Setting> {
        self.expect(K::Set)?;
        if self.eat(K::Constraints) {
            return self.constraints();
        }
        let local = self.eat(K::Local);
        let is_phrase = matches!(self.kind_behind(1), Kind::Key(K::Authorization | K::Characteristics));
        if !local && !is_phrase {
            self.eat(K::Session);
        }
        if self.eat_all(&[K::Session, K::Characteristics]) {
            self.expect_all(&[K::As, K::Transaction])?;
            return Ok(Setting::Characteristics { modes: self.some_modes()?, local });
        }
        if self.eat_all(&[K::Session, K::Authorization]) {
            let to = if self.eat(K::Default) { To::Default } else { To::Values(vec![self.word_or_string()?]) };
            return Ok(Setting::Set { name: "session_authorization".into(), to, local });
        }
        if !self.is_phrase_next() {
            let (name, to) = self.assignment_of_setting()?;
            return Ok(Setting::Set { name, to, local });
        }
        if self.eat(K::Transaction) {
            if self.eat(K::Snapshot) {
                self.string()?;
                return Ok(Setting::Snapshot);
            }
            return self.some_modes().map(Setting::Transaction);
        }
        let (name, to) = self.phrase()?;
        Ok(Setting::Set { name, to, local })
    }

    pub(crate) fn reset(&mut self) -> Result<Setting> {
        self.expect(K::Reset)?;
        Ok(self.setting()?.map_or(Setting::ResetAll, Setting::Reset))
    }

    pub(crate) fn show(&mut self) -> Result<Setting> {
        self.expect(K::Show)?;
        Ok(self.setting()?.map_or(Setting::ShowAll, Setting::Show))
    }

    /// What stands behind SET where a setting is kept for somebody: a name and a value, in whatever
    /// words.
    pub(crate) fn set_clause(&mut self) -> Result<(Name, To)> {
        match self.is_phrase_next() {
            true if self.is_next(K::Transaction) => Err(self.wrong()),
            true => self.phrase(),
            false => self.assignment_of_setting(),
        }
    }

    fn assignment_of_setting(&mut self) -> Result<(Name, To)> {
        let name = self.setting_name()?;
        if self.eat(K::From) {
            self.expect(K::Current)?;
            return Ok((name, To::Current));
        }
        if !self.eat(K::To) {
            self.expect_kind(Kind::Equal)?;
        }
        let to = if self.eat(K::Default) { To::Default } else { To::Values(self.list(Self::setting_value)?) };
        Ok((name, to))
    }

    /// Whether words come next that some settings have of their own, rather than a setting's name.
    fn is_phrase_next(&self) -> bool {
        let behind = self.kind_behind(1);
        let is_assigned = matches!(behind, Kind::Equal | Kind::Period | Kind::Key(K::To));
        !is_assigned
            && match self.kind() {
                Kind::Key(K::Transaction | K::Role | K::Schema | K::Catalog | K::Names) => true,
                Kind::Key(K::Time) => behind == Kind::Key(K::Zone),
                Kind::Key(K::Xml) => behind == Kind::Key(K::Option),
                _ => false,
            }
    }

    fn phrase(&mut self) -> Result<(Name, To)> {
        let token = self.next();
        let text = |text: String| To::Values(vec![Given::Text(text)]);
        Ok(match token.kind {
            Kind::Key(K::Time) => {
                self.expect(K::Zone)?;
                ("timezone".into(), self.time_zone()?)
            }
            Kind::Key(K::Role) => ("role".into(), To::Values(vec![self.word_or_string()?])),
            Kind::Key(K::Schema) => ("search_path".into(), text(self.string()?)),
            Kind::Key(K::Catalog) => {
                self.string()?;
                let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, "current database cannot be changed");
                return Err(self.error_at(self.last(), error));
            }
            Kind::Key(K::Xml) => {
                self.expect(K::Option)?;
                let word = self.eat_any(&[K::Document, K::Content]).ok_or_else(|| self.wrong())?;
                ("xmloption".into(), text(["document", "content"][word].to_owned()))
            }
            Kind::Key(K::Names) => {
                let is_default = self.eat(K::Default) || self.is_over();
                ("client_encoding".into(), if is_default { To::Default } else { text(self.string()?) })
            }
            _ => return Err(self.wrong_at(token)),
        })
    }

    fn constraints(&mut self) -> Result<Setting> {
        let names = if self.eat(K::All) { None } else { Some(self.list(Self::qualified)?) };
        match self.eat_any(&[K::Deferred, K::Immediate]) {
            Some(word) => Ok(Setting::Constraints { names, deferred: word == 0 }),
            None => Err(self.wrong()),
        }
    }

    /// A setting's name; `None` is ALL.
    pub(crate) fn setting(&mut self) -> Result<Option<Name>> {
        Ok(if self.eat(K::All) {
            None
        } else if self.eat_all(&[K::Time, K::Zone]) {
            Some("timezone".into())
        } else if self.eat_all(&[K::Transaction, K::Isolation, K::Level]) {
            Some("transaction_isolation".into())
        } else if self.eat_all(&[K::Session, K::Authorization]) {
            Some("session_authorization".into())
        } else {
            Some(self.setting_name()?)
        })
    }

    fn setting_name(&mut self) -> Result<Name> {
        let part = |parser: &mut Self| if is_reserved(parser.kind()) { Err(parser.wrong()) } else { parser.folded() };
        let mut name = part(self)?;
        while self.eat_kind(Kind::Period) {
            name.push('.');
            name.push_str(&part(self)?);
        }
        Ok(name)
    }

    fn setting_value(&mut self) -> Result<Given> {
        match self.kind() {
            Kind::Key(K::True | K::False | K::On) => Ok(Given::Text(self.folded_label()?.into())),
            Kind::Plus | Kind::Minus | Kind::Integer | Kind::Decimal => self.signed_text().map(Given::Number),
            _ => self.word_or_string(),
        }
    }

    fn word_or_string(&mut self) -> Result<Given> {
        match self.kind() {
            kind if is_reserved(kind) => Err(self.wrong()),
            kind if Self::is_unreserved(kind) => Ok(Given::Text(self.folded_label()?.into())),
            Kind::NationalString => {
                let token = self.next();
                Ok(Given::Text(strings::text_of(self.text, &token)))
            }
            _ => self.string().map(Given::Text),
        }
    }

    fn time_zone(&mut self) -> Result<To> {
        if self.eat(K::Local) || self.eat(K::Default) {
            return Ok(To::Default);
        }
        if !self.eat(K::Interval) {
            return Ok(To::Values(vec![self.setting_value()?]));
        }
        if self.eat_kind(Kind::LeftParen) {
            self.integer()?;
            self.expect_kind(Kind::RightParen)?;
        }
        let text = self.string()?;
        let token = self.peek();
        let unit = match self.eat_any(&[K::Year, K::Month, K::Day, K::Hour, K::Minute, K::Second]) {
            None => None,
            Some(3) => Some(if self.eat_all(&[K::To, K::Minute]) { "minutes" } else { "hours" }),
            Some(_) => {
                let message = "time zone interval must be HOUR or HOUR TO MINUTE";
                return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::tree::{Level, Mode, Statement, Transaction};

    fn read(text: &str) -> Statement {
        crate::parse(text).unwrap().pop().unwrap()
    }

    fn set(text: &str) -> (String, To, bool) {
        match read(text) {
            Statement::Setting(setting) => match *setting {
                Setting::Set { name, to, local } => (name.into(), to, local),
                other => panic!("{text}: {other:?}"),
            },
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
            assert!(crate::parse(&format!("SET x = {wrong}")).is_err(), "{wrong}");
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
            assert!(crate::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn modes_of_transactions_stand_in_any_order_with_commas_or_without() {
        let modes = vec![Mode::Level(Level::RepeatableRead), Mode::ReadOnly(true), Mode::Deferrable(false)];
        for text in [
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE",
            "begin work isolation level repeatable read read only not deferrable;",
        ] {
            let expected = Transaction::Begin { modes: modes.clone(), is_start: false };
            assert_eq!(read(text), Statement::Transaction(expected), "{text}");
        }
        let characteristics = Setting::Characteristics { modes: vec![Mode::ReadOnly(false)], local: false };
        let text = "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE";
        assert_eq!(read(text), Statement::Setting(Box::new(characteristics)));
    }
}
