//! Reading CREATE and ALTER SEQUENCE, and what ALTER TABLE says of identity columns.
//!
//! ```text
//! CREATE [UNLOGGED] SEQUENCE [IF NOT EXISTS] name option …
//! ALTER SEQUENCE [IF EXISTS] name {option … | SET {LOGGED | UNLOGGED}}
//! ADD GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(option …)]
//! {SET GENERATED {ALWAYS | BY DEFAULT} | SET option | RESTART [[WITH] number]} …
//! DROP IDENTITY [IF EXISTS]
//! ```

use colibri_catalog::Identity;
use colibri_types::{Error, Result, SqlState};

use super::super::Statement;
use crate::ddl::{IdentityChange, SequenceNumber, SequenceOption};
use crate::statement::reader::{Reader, Token};

/// What the definition of an identity column has behind `AS IDENTITY`: options in parentheses.
///
/// # Errors
/// 42601 if the text is anything else.
pub(crate) fn parse_identity_options(text: &str) -> Result<Vec<SequenceOption>> {
    let mut reader = Reader::new(text)?;
    let options = reader.identity_options()?;
    reader.end_of_action().map(|()| options)
}

/// What ALTER TABLE says of an identity column, behind the column's name.
///
/// # Errors
/// 42601 if the text is anything else.
pub(crate) fn parse_identity_change(text: &str) -> Result<IdentityChange> {
    let mut reader = Reader::new(text)?;
    let change = reader.identity_change()?;
    reader.end_of_action().map(|()| change)
}

impl Reader {
    fn end_of_action(&self) -> Result<()> {
        if *self.peek() == Token::End { Ok(()) } else { Err(self.syntax()) }
    }

    /// Behind CREATE; nothing is taken if no sequence is made.
    pub(super) fn create_sequence(&mut self) -> Result<Option<Statement>> {
        let is_temporary = self.eat(&["TEMP", "SEQUENCE"]) || self.eat(&["TEMPORARY", "SEQUENCE"]);
        // One that is not logged is an ordinary one, which keeps more than it has to.
        if !is_temporary && !self.eat(&["UNLOGGED", "SEQUENCE"]) && !self.eat(&["SEQUENCE"]) {
            return Ok(None);
        }
        let if_not_exists = self.eat(&["IF", "NOT", "EXISTS"]);
        let name = self.qualified()?;
        let options = self.sequence_options(&Token::End)?;
        if is_temporary {
            return Err(Error::unsupported("a temporary sequence"));
        }
        Ok(Some(Statement::CreateSequence { name, if_not_exists, options }))
    }

    /// Behind ALTER SEQUENCE.
    pub(super) fn alter_sequence(&mut self) -> Result<Statement> {
        let if_exists = self.eat(&["IF", "EXISTS"]);
        let name = self.qualified()?;
        if self.eat(&["SET", "SCHEMA"]) {
            return Err(Error::unsupported("ALTER SEQUENCE … SET SCHEMA"));
        }
        let options = if self.eat(&["SET", "LOGGED"]) || self.eat(&["SET", "UNLOGGED"]) {
            Vec::new()
        } else {
            let options = self.sequence_options(&Token::End)?;
            if options.is_empty() {
                return Err(self.syntax());
            }
            options
        };
        Ok(Statement::AlterSequence { name, if_exists, options })
    }

    fn sequence_options(&mut self, end: &Token) -> Result<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while self.peek() != end && !matches!(self.peek(), Token::End | Token::Semicolon) {
            options.push(self.sequence_option()?);
        }
        Ok(options)
    }

    fn sequence_option(&mut self) -> Result<SequenceOption> {
        const WORDS: [&str; 9] =
            ["AS", "INCREMENT", "MINVALUE", "MAXVALUE", "START", "RESTART", "CACHE", "CYCLE", "OWNED"];
        if self.eat(&["NO"]) {
            return match self.eat_any(&["MINVALUE", "MAXVALUE", "CYCLE"]) {
                Some(0) => Ok(SequenceOption::Min(None)),
                Some(1) => Ok(SequenceOption::Max(None)),
                Some(_) => Ok(SequenceOption::Cycle(false)),
                None => Err(self.syntax()),
            };
        }
        if self.eat(&["SEQUENCE", "NAME"]) {
            return self.qualified().map(SequenceOption::Name);
        }
        let word = self.eat_any(&WORDS).ok_or_else(|| self.syntax())?;
        Ok(match WORDS[word] {
            "AS" => SequenceOption::Type(self.type_name()?),
            "INCREMENT" => {
                self.eat(&["BY"]);
                SequenceOption::Increment(self.sequence_number()?)
            }
            "MINVALUE" => SequenceOption::Min(Some(self.sequence_number()?)),
            "MAXVALUE" => SequenceOption::Max(Some(self.sequence_number()?)),
            "START" => {
                self.eat(&["WITH"]);
                SequenceOption::Start(self.sequence_number()?)
            }
            "RESTART" => {
                let is_number = matches!(self.peek(), Token::Number(..) | Token::Minus | Token::Plus);
                let has_value = self.eat(&["WITH"]) || is_number;
                SequenceOption::Restart(if has_value { Some(self.sequence_number()?) } else { None })
            }
            "CACHE" => SequenceOption::Cache(self.sequence_number()?),
            "CYCLE" => SequenceOption::Cycle(true),
            _ => {
                self.expect(&["BY"])?;
                SequenceOption::OwnedBy(self.qualified()?)
            }
        })
    }

    /// Any number: whether it is one for a sequence is told where it is used, as PostgreSQL does.
    fn sequence_number(&mut self) -> Result<SequenceNumber> {
        let sign = if self.eat_token(&Token::Minus) { "-" } else { "" };
        if sign.is_empty() {
            self.eat_token(&Token::Plus);
        }
        let Token::Number(digits) = self.peek() else { return Err(self.syntax()) };
        let number = SequenceNumber(format!("{sign}{digits}"));
        self.at += 1;
        Ok(number)
    }

    /// The name of a type that is no array.
    fn type_name(&mut self) -> Result<String> {
        let from = self.at;
        self.qualified()?;
        let _ = self.is_at(from, "DOUBLE") && self.eat(&["PRECISION"])
            || (self.is_at(from, "CHARACTER") || self.is_at(from, "CHAR")) && self.eat(&["VARYING"]);
        if self.eat_token(&Token::LeftParen) {
            while !self.eat_token(&Token::RightParen) {
                if *self.peek() == Token::End {
                    return Err(self.syntax());
                }
                self.at += 1;
            }
        }
        Ok(self.written_since(from))
    }

    fn identity_options(&mut self) -> Result<Vec<SequenceOption>> {
        if !self.eat_token(&Token::LeftParen) {
            return Ok(Vec::new());
        }
        let options = self.sequence_options(&Token::RightParen)?;
        if options.is_empty() || !self.eat_token(&Token::RightParen) {
            return Err(self.syntax());
        }
        Ok(options)
    }

    fn generated_when(&mut self) -> Result<Identity> {
        if self.eat(&["ALWAYS"]) {
            return Ok(Identity::Always);
        }
        self.expect(&["BY", "DEFAULT"]).map(|()| Identity::ByDefault)
    }

    fn identity_change(&mut self) -> Result<IdentityChange> {
        if self.eat(&["DROP", "IDENTITY"]) {
            return Ok(IdentityChange::Drop { if_exists: self.eat(&["IF", "EXISTS"]) });
        }
        if self.eat(&["ADD", "GENERATED"]) {
            let kind = self.generated_when()?;
            self.expect(&["AS", "IDENTITY"])?;
            return Ok(IdentityChange::Add { kind, options: self.identity_options()? });
        }
        let (mut kinds, mut options) = (Vec::new(), Vec::new());
        while *self.peek() != Token::End {
            if self.is_at(self.at, "RESTART") {
                options.push(self.sequence_option()?);
                continue;
            }
            self.expect(&["SET"])?;
            if self.eat(&["GENERATED"]) {
                kinds.push(self.generated_when()?);
                continue;
            }
            let option = self.sequence_option()?;
            let elsewhere = match &option {
                SequenceOption::Type(_) => "as",
                SequenceOption::Restart(_) => "restart",
                SequenceOption::OwnedBy(_) => "owned_by",
                _ => {
                    options.push(option);
                    continue;
                }
            };
            let message = format!("sequence option \"{elsewhere}\" not supported here");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(IdentityChange::Set { kinds, options })
    }
}
