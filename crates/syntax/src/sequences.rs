//! CREATE and ALTER SEQUENCE, and what ALTER TABLE says of identity columns.
//!
//! ```text
//! CREATE [TEMP | UNLOGGED] SEQUENCE [IF NOT EXISTS] name option …
//! ALTER SEQUENCE [IF EXISTS] name {option … | SET {LOGGED | UNLOGGED}}
//! ADD GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(option …)]
//! {SET GENERATED {ALWAYS | BY DEFAULT} | SET option | RESTART [[WITH] number]} …
//! DROP IDENTITY [IF EXISTS]
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, IdentityChange, IdentityKind, SequenceNumber, SequenceOption};

impl Parser<'_> {
    /// Behind CREATE SEQUENCE.
    pub(crate) fn create_sequence(&mut self, temporary: bool) -> Result<Admin> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified()?;
        let options = self.sequence_options()?;
        Ok(Admin::CreateSequence { name, temporary, if_not_exists, options })
    }

    /// Behind the name in ALTER SEQUENCE.
    pub(crate) fn sequence_change(&mut self) -> Result<Vec<SequenceOption>> {
        if self.eat_all(&[K::Set, K::Logged]) || self.eat_all(&[K::Set, K::Unlogged]) {
            return Ok(Vec::new());
        }
        let options = self.sequence_options()?;
        if options.is_empty() { Err(self.wrong()) } else { Ok(options) }
    }

    fn sequence_options(&mut self) -> Result<Vec<SequenceOption>> {
        let mut options = Vec::new();
        // The next element of CREATE SCHEMA begins with CREATE or GRANT.
        while !self.is_over() && !matches!(self.kind(), Kind::RightParen | Kind::Key(K::Create | K::Grant)) {
            options.push(self.sequence_option()?);
        }
        Ok(options)
    }

    fn sequence_option(&mut self) -> Result<SequenceOption> {
        let token = self.peek();
        let Kind::Key(word) = token.kind else { return Err(self.wrong()) };
        if word == K::Sequence && self.kind_behind(1) != Kind::Key(K::Name) {
            return Err(self.wrong());
        }
        self.next();
        Ok(match word {
            K::No => match self.eat_any(&[K::Minvalue, K::Maxvalue, K::Cycle]) {
                Some(0) => SequenceOption::Min(None),
                Some(1) => SequenceOption::Max(None),
                Some(_) => SequenceOption::Cycle(false),
                None => return Err(self.wrong()),
            },
            K::Sequence => {
                self.expect(K::Name)?;
                SequenceOption::Name(self.qualified()?)
            }
            K::As => SequenceOption::Type(self.scalar_type()?),
            K::Increment => {
                self.eat(K::By);
                SequenceOption::Increment(self.sequence_number()?)
            }
            K::Minvalue => SequenceOption::Min(Some(self.sequence_number()?)),
            K::Maxvalue => SequenceOption::Max(Some(self.sequence_number()?)),
            K::Start => {
                self.eat(K::With);
                SequenceOption::Start(self.sequence_number()?)
            }
            K::Restart => {
                let is_number = matches!(self.kind(), Kind::Integer | Kind::Decimal | Kind::Minus | Kind::Plus);
                let has_value = self.eat(K::With) || is_number;
                SequenceOption::Restart(if has_value { Some(self.sequence_number()?) } else { None })
            }
            K::Cache => SequenceOption::Cache(self.sequence_number()?),
            K::Cycle => SequenceOption::Cycle(true),
            K::Owned => {
                self.expect(K::By)?;
                SequenceOption::OwnedBy(self.qualified()?)
            }
            _ => return Err(self.wrong_at(token)),
        })
    }

    /// Any number: whether it is one for a sequence is told where it is used, as PostgreSQL does.
    fn sequence_number(&mut self) -> Result<SequenceNumber> {
        self.signed_text().map(SequenceNumber)
    }

    /// Options of an identity column's sequence in parentheses, if they come next.
    pub(crate) fn identity_options(&mut self) -> Result<Vec<SequenceOption>> {
        if !self.eat_kind(Kind::LeftParen) {
            return Ok(Vec::new());
        }
        let options = self.sequence_options()?;
        if options.is_empty() {
            return Err(self.wrong());
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(options)
    }

    fn identity_kind(&mut self) -> Result<IdentityKind> {
        if self.eat(K::Always) {
            return Ok(IdentityKind::Always);
        }
        self.expect_all(&[K::By, K::Default]).map(|()| IdentityKind::ByDefault)
    }

    /// What ALTER TABLE says of an identity column, behind the column's name.
    pub(crate) fn changed_identity(&mut self) -> Result<IdentityChange> {
        if self.eat_all(&[K::Drop, K::Identity]) {
            return Ok(IdentityChange::Drop { if_exists: self.if_exists()? });
        }
        if self.eat_all(&[K::Add, K::Generated]) {
            let kind = self.identity_kind()?;
            self.expect_all(&[K::As, K::Identity])?;
            return Ok(IdentityChange::Add { kind, options: self.identity_options()? });
        }
        let (mut kinds, mut options) = (Vec::new(), Vec::new());
        while !self.is_over() && self.kind() != Kind::Comma {
            if self.is_next(K::Restart) {
                options.push(self.sequence_option()?);
                continue;
            }
            self.expect(K::Set)?;
            if self.eat(K::Generated) {
                kinds.push(self.identity_kind()?);
                continue;
            }
            let token = self.peek();
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
            return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        Ok(IdentityChange::Set { kinds, options })
    }
}
