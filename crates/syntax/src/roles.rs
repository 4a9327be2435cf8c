//! Roles, and the settings that are kept for them and for databases.
//!
//! ```text
//! CREATE|ALTER {ROLE|USER|GROUP} name [WITH] option …        DROP {ROLE|USER|GROUP} [IF EXISTS] name, …
//! ALTER ROLE {name|ALL} [IN DATABASE name] {SET|RESET} …     ALTER ROLE name RENAME TO name
//! ALTER GROUP name {ADD|DROP} USER name, …
//! REASSIGN OWNED BY name, … TO name                          DROP OWNED BY name, …
//! ```

use std::mem::discriminant;

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, Name, RoleName, RoleOption, SettingChange, SettingsOf};

/// What a role is or is not: the words for both, and the option.
type Flag = (&'static str, &'static str, fn(bool) -> RoleOption);

const FLAGS: [Flag; 6] = [
    ("superuser", "nosuperuser", RoleOption::Superuser),
    ("createdb", "nocreatedb", RoleOption::CreateDb),
    ("createrole", "nocreaterole", RoleOption::CreateRole),
    ("login", "nologin", RoleOption::Login),
    ("replication", "noreplication", RoleOption::Replication),
    ("bypassrls", "nobypassrls", RoleOption::BypassRls),
];

impl Parser<'_> {
    /// Takes the word for a role, if one comes next, and says whether it was USER or GROUP.
    pub(crate) fn eat_role(&mut self) -> Option<K> {
        // A mapping of users is another thing.
        let is_mapping = self.is_next(K::User)
            && self.kind_behind(1) == Kind::Key(K::Mapping)
            && matches!(self.kind_behind(2), Kind::Key(K::For | K::If));
        let words = [K::Role, K::User, K::Group];
        if is_mapping { None } else { self.eat_any(&words).map(|word| words[word]) }
    }

    pub(crate) fn role_name(&mut self) -> Result<RoleName> {
        Ok(if self.eat(K::CurrentUser) || self.eat(K::CurrentRole) {
            RoleName::Current
        } else if self.eat(K::SessionUser) {
            RoleName::Session
        } else {
            let token = self.peek();
            let name = self.unreserved()?;
            if name == "none" {
                return Err(self.reserved_role(token, &name));
            }
            RoleName::Named(name)
        })
    }

    fn unreserved(&mut self) -> Result<Name> {
        if Self::is_unreserved(self.kind()) { self.folded_label() } else { Err(self.wrong()) }
    }

    fn reserved_role(&self, token: Token, name: &str) -> Error {
        let error = Error::new(SqlState("42939"), format!("role name \"{name}\" is reserved"));
        self.error_at(token, error)
    }

    /// The name of a role, and not a word that stands for one.
    pub(crate) fn own_role_name(&mut self) -> Result<Name> {
        let token = self.peek();
        match token.kind {
            Kind::Key(K::CurrentUser | K::SessionUser | K::CurrentRole) => {
                let word = self.token_text(token).to_ascii_uppercase();
                let message = format!("{word} cannot be used as a role name here");
                Err(self.error_at(token, Error::new(SqlState("42939"), message)))
            }
            _ => {
                let name = self.unreserved()?;
                match &*name {
                    "public" | "none" => Err(self.reserved_role(token, &name)),
                    _ => Ok(name),
                }
            }
        }
    }

    pub(crate) fn create_role(&mut self, word: K) -> Result<Admin> {
        let name = self.own_role_name()?;
        let mut options = vec![RoleOption::Login(word == K::User)];
        options.extend(self.role_options()?);
        Ok(Admin::CreateRole { name, options })
    }

    pub(crate) fn alter_role(&mut self, word: K) -> Result<Admin> {
        if self.eat(K::All) {
            return self.role_settings(None)?.ok_or_else(|| self.wrong());
        }
        let role = self.role_name()?;
        if self.are_next(&[K::Rename, K::To]) {
            let RoleName::Named(name) = role else { return Err(self.wrong()) };
            self.expect_all(&[K::Rename, K::To])?;
            return Ok(Admin::RenameRole { name, to: self.own_role_name()? });
        }
        if word == K::Group
            && let Some(how) = self.eat_any(&[K::Add, K::Drop])
        {
            self.expect(K::User)?;
            let members = self.list(Self::role_name)?;
            return Ok(Admin::AlterGroup { role, members, add: how == 0 });
        }
        if let Some(settings) = self.role_settings(Some(&role))? {
            return Ok(settings);
        }
        Ok(Admin::AlterRole { role, options: self.role_options()? })
    }

    pub(crate) fn drop_roles(&mut self) -> Result<Admin> {
        let if_exists = self.if_exists()?;
        Ok(Admin::DropRoles { names: self.list(Self::role_name)?, if_exists })
    }

    pub(crate) fn reassign_owned(&mut self) -> Result<Admin> {
        self.expect_all(&[K::Reassign, K::Owned, K::By])?;
        let from = self.list(Self::role_name)?;
        self.expect(K::To)?;
        Ok(Admin::ReassignOwned { from, to: self.role_name()? })
    }

    /// Behind DROP.
    pub(crate) fn drop_owned(&mut self) -> Result<Admin> {
        self.expect_all(&[K::Owned, K::By])?;
        let roles = self.list(Self::role_name)?;
        Ok(Admin::DropOwned { roles, cascade: self.cascade() })
    }

    /// CASCADE or RESTRICT, which is meant where neither is said.
    pub(crate) fn cascade(&mut self) -> bool {
        self.eat(K::Cascade) || {
            self.eat(K::Restrict);
            false
        }
    }

    fn role_options(&mut self) -> Result<Vec<RoleOption>> {
        self.eat(K::With);
        let mut options: Vec<RoleOption> = Vec::new();
        loop {
            let token = self.peek();
            let Some(option) = self.role_option()? else { break };
            let is_again = options.iter().any(|known| discriminant(known) == discriminant(&option));
            if is_again && !matches!(option, RoleOption::Unknown(..)) {
                let error = Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
                self.note_error(self.error_at(token, error));
            }
            options.push(option);
        }
        let token = self.peek();
        if token.kind == Kind::Name {
            let message = format!("unrecognized role option \"{}\"", self.token_text(token).to_ascii_lowercase());
            return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        Ok(options)
    }

    fn role_option(&mut self) -> Result<Option<RoleOption>> {
        for (yes, no, option) in FLAGS {
            let is_on = self.eat_name(yes);
            if is_on || self.eat_name(no) {
                return Ok(Some(option(is_on)));
            }
        }
        let token = self.peek();
        Ok(Some(if self.eat(K::Inherit) {
            RoleOption::Inherit(true)
        } else if self.eat_name("noinherit") {
            RoleOption::Inherit(false)
        } else if self.eat_all(&[K::Connection, K::Limit]) {
            RoleOption::ConnectionLimit(self.connection_limit()?)
        } else if self.eat_all(&[K::Encrypted, K::Password]) || self.eat(K::Password) {
            RoleOption::Password(if self.eat(K::Null) { None } else { Some(self.string()?) })
        } else if self.eat_all(&[K::Valid, K::Until]) {
            RoleOption::ValidUntil(self.string()?)
        } else if self.eat_all(&[K::In, K::Role]) || self.eat_all(&[K::In, K::Group]) {
            RoleOption::InRoles(self.list(Self::folded)?)
        } else if self.eat(K::Sysid) {
            // A number is chosen all the same, as in PostgreSQL.
            return self.integer().map(|_| Some(RoleOption::Unknown("SYSID", false)));
        } else if self.eat(K::Admin) {
            RoleOption::Admins(self.list(Self::folded)?)
        } else if self.eat(K::Role) || self.eat(K::User) {
            RoleOption::Members(self.list(Self::folded)?)
        } else if self.eat_all(&[K::Unencrypted, K::Password]) {
            return Err(self.refuse_statement(token, "a password that is kept unencrypted"));
        } else {
            return Ok(None);
        }))
    }

    /// Sessions at the same time; -1 is no limit.
    pub(crate) fn connection_limit(&mut self) -> Result<i32> {
        let limit = self.integer()?;
        if limit < -1 {
            let message = format!("invalid connection limit: {limit}");
            self.note_error(Error::new(SqlState::BAD_PARAMETER, message));
        }
        Ok(limit)
    }

    /// `[IN DATABASE name] SET …`, if that is what comes next; no role is all of them.
    fn role_settings(&mut self, role: Option<&RoleName>) -> Result<Option<Admin>> {
        let database: Option<Name> = if self.eat_all(&[K::In, K::Database]) { Some(self.folded()?) } else { None };
        let is_in = database.is_some();
        match self.setting_change(SettingsOf { role: role.cloned(), database, is_database: false })? {
            None if is_in => Err(self.wrong()),
            settings => Ok(settings),
        }
    }

    /// `SET name …` and `RESET name`, if that is what comes next.
    pub(crate) fn setting_change(&mut self, of: SettingsOf) -> Result<Option<Admin>> {
        let change = if self.eat(K::Set) {
            let (name, to) = self.set_clause()?;
            SettingChange::Set(name, to)
        } else if self.eat(K::Reset) {
            self.setting()?.map_or(SettingChange::ResetAll, SettingChange::Reset)
        } else {
            return Ok(None);
        };
        Ok(Some(Admin::Settings { of, change }))
    }
}
