//! Databases.
//!
//! ```text
//! CREATE DATABASE name [WITH] option [=] value … [AS OF {'time' | TRANSACTION number}]
//! ALTER DATABASE name {RENAME TO name | OWNER TO role | {SET|RESET} … | [WITH] option [=] value …}
//! ALTER DATABASE name RESET TO name [AS OF {'time' | TRANSACTION number}] [[WITH] (FORCE)]
//! DROP DATABASE [IF EXISTS] name [[WITH] (FORCE)]
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, AsOf, DatabaseOption, Object, ObjectKind, SettingsOf};

/// Options that are a word or a string.
const OTHERS: [&str; 11] = [
    "TEMPLATE",
    "ENCODING",
    "LOCALE",
    "LC_COLLATE",
    "LC_CTYPE",
    "STRATEGY",
    "TABLESPACE",
    "LOCALE_PROVIDER",
    "ICU_LOCALE",
    "COLLATION_VERSION",
    "OID",
];

impl Parser<'_> {
    pub(crate) fn create_database(&mut self) -> Result<Admin> {
        let name = self.folded()?;
        self.eat(K::With);
        let mut options = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        while let Some((word, option)) = self.database_option()? {
            if seen.contains(&word) {
                self.note_error(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            seen.push(word);
            options.push(option);
        }
        Ok(Admin::CreateDatabase { name, options })
    }

    pub(crate) fn alter_database(&mut self) -> Result<Admin> {
        let name = self.folded()?;
        if self.eat_all(&[K::Rename, K::To]) {
            return Ok(Admin::RenameDatabase { name, to: self.folded()? });
        }
        if self.eat_all(&[K::Owner, K::To]) {
            let object = Object { kind: ObjectKind::Database, name: vec![name] };
            return Ok(Admin::Owner { object, if_exists: false, to: self.role_name()? });
        }
        if self.eat_all(&[K::Reset, K::To]) {
            let to = self.folded()?;
            let as_of = self.as_of()?;
            return Ok(Admin::ResetDatabase { name, to, as_of, force: self.with_force()? });
        }
        if self.are_next(&[K::Set, K::Tablespace]) {
            let token = self.next();
            return Err(self.refuse_statement(token, "another tablespace"));
        }
        let of = SettingsOf { role: None, database: Some(name.clone()), is_database: true };
        if let Some(settings) = self.setting_change(of)? {
            return Ok(settings);
        }
        self.eat(K::With);
        let mut options = Vec::new();
        loop {
            let token = self.peek();
            match self.database_option()? {
                Some((
                    _,
                    DatabaseOption::Owner(_)
                    | DatabaseOption::Oid
                    | DatabaseOption::AsOf(_)
                    | DatabaseOption::Other(..),
                )) => {
                    return Err(self.wrong_at(token));
                }
                Some((_, option)) => options.push(option),
                None => return Ok(Admin::AlterDatabase { name, options }),
            }
        }
    }

    pub(crate) fn drop_database(&mut self) -> Result<Admin> {
        let if_exists = self.if_exists()?;
        let name = self.folded()?;
        Ok(Admin::DropDatabase { name, if_exists, force: self.with_force()? })
    }

    /// `[[WITH] (FORCE)]`, and whether it is there.
    fn with_force(&mut self) -> Result<bool> {
        self.eat(K::With);
        let force = self.eat_kind(Kind::LeftParen);
        if force {
            self.expect(K::Force)?;
            self.expect_kind(Kind::RightParen)?;
        }
        Ok(force)
    }

    /// `AS OF …`, if that comes next.
    fn as_of(&mut self) -> Result<Option<AsOf>> {
        if !self.eat_all(&[K::As, K::Of]) {
            return Ok(None);
        }
        if self.eat(K::Transaction) {
            return Ok(Some(AsOf::Transaction(self.unsigned()?)));
        }
        self.eat(K::Timestamp);
        Ok(Some(AsOf::Time(self.string()?)))
    }

    /// An option, with the word for it, if one comes next.
    fn database_option(&mut self) -> Result<Option<(&'static str, DatabaseOption)>> {
        if let Some(as_of) = self.as_of()? {
            return Ok(Some(("AS OF", DatabaseOption::AsOf(as_of))));
        }
        let token = self.peek();
        if !matches!(token.kind, Kind::Name | Kind::Key(_)) {
            return Ok(None);
        }
        let written = self.token_text(token);
        let known = |word: &&&str| written.eq_ignore_ascii_case(word);
        let others = OTHERS.iter().find(known).copied();
        let word = match others {
            Some(word) => word,
            None => {
                let ours = ["OWNER", "CONNECTION", "ALLOW_CONNECTIONS", "IS_TEMPLATE"];
                let Some(word) = ours.iter().find(known).copied() else { return Ok(None) };
                word
            }
        };
        self.next();
        if word == "CONNECTION" {
            self.expect(K::Limit)?;
        }
        self.eat_kind(Kind::Equal);
        let option = match word {
            "OWNER" => DatabaseOption::Owner(self.role_name()?),
            "CONNECTION" => DatabaseOption::ConnectionLimit(self.connection_limit()?),
            "ALLOW_CONNECTIONS" => DatabaseOption::AllowConnections(self.yes_or_no(word)?),
            "IS_TEMPLATE" => DatabaseOption::IsTemplate(self.yes_or_no(word)?),
            "OID" => {
                self.signed_text()?;
                DatabaseOption::Oid
            }
            _ => DatabaseOption::Other(word, self.word_or_text()?),
        };
        Ok(Some((word, option)))
    }

    fn word_or_text(&mut self) -> Result<String> {
        if Self::is_label(self.kind()) { self.folded_label().map(String::from) } else { self.string() }
    }

    fn yes_or_no(&mut self, option: &str) -> Result<bool> {
        let text = match self.kind() {
            Kind::Integer | Kind::Decimal => self.signed_text()?,
            _ => self.word_or_text()?.to_ascii_lowercase(),
        };
        match &*text {
            "1" | "true" | "on" => Ok(true),
            "0" | "false" | "off" => Ok(false),
            _ => {
                let message = format!("{} requires a Boolean value", option.to_ascii_lowercase());
                self.note_error(Error::new(SqlState::SYNTAX_ERROR, message));
                Ok(false)
            }
        }
    }
}
