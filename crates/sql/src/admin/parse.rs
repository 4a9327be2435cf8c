//! Reading statements about roles, databases, privileges, owners and upkeep, whose words PostgreSQL orders in its own way.
//!
//! ```text
//! CREATE|ALTER {ROLE|USER|GROUP} name [WITH] option …        DROP {ROLE|USER|GROUP} [IF EXISTS] name, …
//! CREATE DATABASE name [WITH] [OWNER [=] role] …             ALTER DATABASE name …, DROP DATABASE [IF EXISTS] name
//! GRANT|REVOKE [GRANT OPTION FOR] … ON … {TO|FROM} role, …   GRANT|REVOKE role, … {TO|FROM} role, …
//! ALTER SEQUENCE name option …, RENAME TO name
//! ALTER kind name OWNER TO role                              REASSIGN OWNED BY …, DROP OWNED BY …
//! COMMENT ON kind name IS …                                  SET [SESSION] ROLE|SESSION AUTHORIZATION …
//! VACUUM, ANALYZE, REINDEX, CLUSTER, CHECKPOINT, LOCK TABLE, LISTEN, UNLISTEN, NOTIFY, DISCARD …
//! ```

use compact_str::CompactString;
use sqlparser::tokenizer::{Token, Word};

use super::{Actor, Kind, LockTable, Object, On, RoleOption, SequenceOption, Statement};
use crate::catalog::NAME_BYTES_MAX;
use crate::cluster::Privileges;
use crate::error::{Error, Result, SqlState};

/// Reads a statement if it is one of these.
///
/// # Errors
/// 42601 if it begins like one of them and goes on otherwise.
pub(crate) fn parse(text: &str) -> Result<Option<Statement>> {
    let first = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let known = [
        "alter",
        "analyze",
        "analyse",
        "checkpoint",
        "cluster",
        "comment",
        "create",
        "drop",
        "grant",
        "listen",
        "lock",
        "notify",
        "reassign",
        "reindex",
        "reset",
        "revoke",
        "set",
        "unlisten",
        "vacuum",
        "discard",
    ];
    // A comment in front hides the first word.
    if !first.is_empty() && !known.iter().any(|word| word.eq_ignore_ascii_case(first)) {
        return Ok(None);
    }
    let tokens = crate::statement::solid_tokens(text)?;
    let mut reader = Reader { tokens: &tokens, at: 0 };
    let Some(statement) = reader.statement()? else { return Ok(None) };
    while *reader.peek() == Token::SemiColon {
        reader.at += 1;
    }
    match reader.peek() {
        Token::EOF => Ok(Some(statement)),
        other => Err(syntax(other)),
    }
}

fn syntax(token: &Token) -> Error {
    let message = match token {
        Token::EOF => "syntax error at end of input".to_owned(),
        token => format!("syntax error at or near \"{token}\""),
    };
    Error::new(SqlState::SYNTAX_ERROR, message)
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
}

pub(crate) fn folded(word: &Word) -> CompactString {
    let mut name = match word.quote_style {
        Some(_) => CompactString::new(&word.value),
        None => CompactString::new(word.value.to_ascii_lowercase()),
    };
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

impl Reader<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::EOF)
    }

    fn is_at(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Word(found)) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    /// Takes these words if they come next.
    fn eat(&mut self, words: &[&str]) -> bool {
        let fits = words.iter().enumerate().all(|(offset, word)| self.is_at(self.at + offset, word));
        if fits {
            self.at += words.len();
        }
        fits
    }

    fn eat_any(&mut self, words: &[&str]) -> Option<usize> {
        words.iter().position(|word| self.eat(&[word]))
    }

    fn eat_token(&mut self, token: &Token) -> bool {
        let fits = self.peek() == token;
        self.at += usize::from(fits);
        fits
    }

    fn expect(&mut self, words: &[&str]) -> Result<()> {
        if self.eat(words) { Ok(()) } else { Err(syntax(self.peek())) }
    }

    fn name(&mut self) -> Result<CompactString> {
        match self.peek() {
            Token::Word(word) => {
                let name = folded(word);
                self.at += 1;
                Ok(name)
            }
            other => Err(syntax(other)),
        }
    }

    fn qualified(&mut self) -> Result<Vec<CompactString>> {
        let mut parts = vec![self.name()?];
        while self.eat_token(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn string(&mut self) -> Result<String> {
        match self.peek() {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            Token::DollarQuotedString(text) => {
                let text = text.value.clone();
                self.at += 1;
                Ok(text)
            }
            other => Err(syntax(other)),
        }
    }

    fn integer(&mut self) -> Result<i32> {
        let negative = self.eat_token(&Token::Minus);
        let value = match self.peek() {
            Token::Number(digits, _) => digits.parse::<i32>().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| syntax(self.peek()))?;
        self.at += 1;
        Ok(if negative { -value } else { value })
    }

    fn actor(&mut self) -> Result<Actor> {
        Ok(if self.eat(&["CURRENT_USER"]) || self.eat(&["CURRENT_ROLE"]) {
            Actor::Current
        } else if self.eat(&["SESSION_USER"]) {
            Actor::Session
        } else {
            Actor::Named(self.name()?)
        })
    }

    /// Who is granted something; `None` is PUBLIC.
    fn grantee(&mut self) -> Result<Option<Actor>> {
        self.eat(&["GROUP"]);
        if self.eat(&["PUBLIC"]) { Ok(None) } else { self.actor().map(Some) }
    }

    fn if_exists(&mut self) -> bool {
        self.eat(&["IF", "EXISTS"])
    }

    // ---- statements ----

    fn statement(&mut self) -> Result<Option<Statement>> {
        const ROLES: &[&str] = &["ROLE", "USER", "GROUP"];
        if self.eat(&["CREATE"]) {
            if let Some(kind) = self.eat_any(ROLES) {
                return self.create_role(kind == 1).map(Some);
            }
            return if self.eat(&["DATABASE"]) { self.create_database().map(Some) } else { Ok(None) };
        }
        if self.eat(&["ALTER"]) {
            if self.eat_any(ROLES).is_some() {
                return self.alter_role().map(Some);
            }
            if self.eat(&["DATABASE"]) {
                return self.alter_database().map(Some);
            }
            let start = self.at;
            if let Some(owner) = self.owner_to()? {
                return Ok(Some(owner));
            }
            self.at = start;
            return if self.eat(&["SEQUENCE"]) { self.alter_sequence().map(Some) } else { Ok(None) };
        }
        if self.eat(&["DROP"]) {
            if self.eat_any(ROLES).is_some() {
                let if_exists = self.if_exists();
                let names = self.list(Self::name)?;
                return Ok(Some(Statement::DropRoles { names, if_exists }));
            }
            if self.eat(&["DATABASE"]) {
                return self.drop_database().map(Some);
            }
            if self.eat(&["OWNED", "BY"]) {
                let roles = self.list(Self::actor)?;
                let cascade = self.eat(&["CASCADE"]);
                self.eat(&["RESTRICT"]);
                return Ok(Some(Statement::DropOwned { roles, cascade }));
            }
            return Ok(None);
        }
        if self.eat(&["REASSIGN", "OWNED", "BY"]) {
            let from = self.list(Self::actor)?;
            self.expect(&["TO"])?;
            return Ok(Some(Statement::ReassignOwned { from, to: self.actor()? }));
        }
        if self.eat(&["GRANT"]) {
            return self.grant(false, false).map(Some);
        }
        if self.eat(&["REVOKE"]) {
            let only_option = self.eat(&["GRANT", "OPTION", "FOR"]) || self.eat(&["ADMIN", "OPTION", "FOR"]);
            return self.grant(true, only_option).map(Some);
        }
        if self.eat(&["COMMENT", "ON"]) {
            return self.comment().map(Some);
        }
        if self.eat(&["SET"]) || self.eat(&["RESET"]) {
            return self.set();
        }
        self.upkeep()
    }

    fn role_options(&mut self) -> Result<Vec<RoleOption>> {
        self.eat(&["WITH"]);
        let mut options = Vec::new();
        let members = |reader: &mut Self, option: fn(Vec<CompactString>) -> RoleOption| -> Result<RoleOption> {
            Ok(option(reader.list(Self::name)?))
        };
        loop {
            let flag = |name: &str, reader: &mut Self| {
                if reader.eat(&[name]) { Some(true) } else { reader.eat(&[&format!("NO{name}")]).then_some(false) }
            };
            let option = if let Some(on) = flag("SUPERUSER", self) {
                RoleOption::Superuser(on)
            } else if let Some(on) = flag("CREATEDB", self) {
                RoleOption::CreateDb(on)
            } else if let Some(on) = flag("CREATEROLE", self) {
                RoleOption::CreateRole(on)
            } else if let Some(on) = flag("INHERIT", self) {
                RoleOption::Inherit(on)
            } else if let Some(on) = flag("LOGIN", self) {
                RoleOption::Login(on)
            } else if let Some(on) = flag("REPLICATION", self) {
                RoleOption::Unknown("REPLICATION", on)
            } else if let Some(on) = flag("BYPASSRLS", self) {
                RoleOption::Unknown("BYPASSRLS", on)
            } else if self.eat(&["CONNECTION", "LIMIT"]) {
                RoleOption::ConnectionLimit(self.integer()?)
            } else if self.eat(&["ENCRYPTED", "PASSWORD"]) || self.eat(&["PASSWORD"]) {
                RoleOption::Password(if self.eat(&["NULL"]) { None } else { Some(self.string()?) })
            } else if self.eat(&["VALID", "UNTIL"]) {
                RoleOption::ValidUntil(self.string()?)
            } else if self.eat(&["IN", "ROLE"]) || self.eat(&["IN", "GROUP"]) {
                members(self, RoleOption::InRoles)?
            } else if self.eat(&["ADMIN"]) {
                members(self, RoleOption::Admins)?
            } else if self.eat(&["ROLE"]) || self.eat(&["USER"]) {
                members(self, RoleOption::Members)?
            } else {
                return Ok(options);
            };
            options.push(option);
        }
    }

    fn create_role(&mut self, login: bool) -> Result<Statement> {
        let name = self.name()?;
        let mut options = vec![RoleOption::Login(login)];
        options.extend(self.role_options()?);
        Ok(Statement::CreateRole { name, options })
    }

    fn alter_role(&mut self) -> Result<Statement> {
        let role = self.actor()?;
        if self.eat(&["RENAME", "TO"]) {
            let Actor::Named(name) = role else { return Err(syntax(self.peek())) };
            return Ok(Statement::RenameRole { name, to: self.name()? });
        }
        if self.eat_any(&["SET", "RESET", "IN"]).is_some() {
            return Err(Error::unsupported("settings of a role"));
        }
        Ok(Statement::AlterRole { role, options: self.role_options()? })
    }

    fn create_database(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let mut owner = None;
        self.eat(&["WITH"]);
        loop {
            let option = self.eat_any(&[
                "OWNER",
                "TEMPLATE",
                "ENCODING",
                "LOCALE",
                "LC_COLLATE",
                "LC_CTYPE",
                "CONNECTION",
                "STRATEGY",
                "TABLESPACE",
            ]);
            if option == Some(6) {
                self.expect(&["LIMIT"])?;
            }
            self.eat_token(&Token::Eq);
            match option {
                None => return Ok(Statement::CreateDatabase { name, owner }),
                Some(0) => owner = Some(self.actor()?),
                Some(1) => {
                    let template = self.name()?;
                    if !["template0", "template1", "default"].contains(&template.as_str()) {
                        return Err(Error::unsupported(format_args!("a database after the model of \"{template}\"")));
                    }
                }
                Some(2) => {
                    let encoding = self.string().or_else(|_| self.name().map(|name| name.to_string()))?;
                    if !["utf8", "utf-8", "unicode", "default"].contains(&encoding.to_ascii_lowercase().as_str()) {
                        return Err(Error::unsupported(format_args!("the encoding {encoding}")));
                    }
                }
                Some(3..=5) => {
                    let locale = self.string().or_else(|_| self.name().map(|name| name.to_string()))?;
                    if !["c", "posix", "c.utf-8", "c.utf8", "default"].contains(&locale.to_ascii_lowercase().as_str()) {
                        return Err(Error::unsupported(format_args!("the locale {locale}")));
                    }
                }
                Some(6) => _ = self.integer()?,
                Some(_) => _ = self.name()?,
            }
        }
    }

    fn alter_database(&mut self) -> Result<Statement> {
        let name = self.name()?;
        if self.eat(&["RENAME", "TO"]) {
            return Ok(Statement::RenameDatabase { name, to: self.name()? });
        }
        if self.eat(&["OWNER", "TO"]) {
            let object = Object { kind: Kind::Database, name: vec![name] };
            return Ok(Statement::Owner { object, if_exists: false, to: self.actor()? });
        }
        if self.eat_any(&["SET", "RESET"]).is_some() {
            return Err(Error::unsupported("settings of a database"));
        }
        self.eat(&["WITH"]);
        let (mut limit, mut allow) = (None, None);
        loop {
            if self.eat(&["CONNECTION", "LIMIT"]) {
                self.eat_token(&Token::Eq);
                limit = Some(self.integer()?);
            } else if self.eat(&["ALLOW_CONNECTIONS"]) {
                self.eat_token(&Token::Eq);
                allow = Some(match self.eat_any(&["TRUE", "FALSE"]) {
                    Some(word) => word == 0,
                    None => return Err(syntax(self.peek())),
                });
            } else {
                return Ok(Statement::AlterDatabase { name, limit, allow });
            }
        }
    }

    fn drop_database(&mut self) -> Result<Statement> {
        let if_exists = self.if_exists();
        let name = self.name()?;
        self.eat(&["WITH"]);
        let mut force = false;
        if self.eat_token(&Token::LParen) {
            self.expect(&["FORCE"])?;
            force = true;
            if !self.eat_token(&Token::RParen) {
                return Err(syntax(self.peek()));
            }
        }
        Ok(Statement::DropDatabase { name, if_exists, force })
    }

    /// `ALTER kind name OWNER TO role`; other changes are not read here.
    fn owner_to(&mut self) -> Result<Option<Statement>> {
        let kind = match self.eat_any(&["TABLE", "VIEW", "SEQUENCE", "SCHEMA"]) {
            Some(0..=2) => Kind::Relation,
            Some(_) => Kind::Schema,
            None => return Ok(None),
        };
        let if_exists = self.if_exists();
        self.eat(&["ONLY"]);
        let Ok(name) = self.qualified() else { return Ok(None) };
        if !self.eat(&["OWNER", "TO"]) {
            return Ok(None);
        }
        let to = self.actor()?;
        // One change among others is not read here.
        if *self.peek() == Token::Comma {
            return Err(Error::unsupported("OWNER TO together with other changes"));
        }
        Ok(Some(Statement::Owner { object: Object { kind, name }, if_exists, to }))
    }

    // ---- sequences ----

    fn alter_sequence(&mut self) -> Result<Statement> {
        let if_exists = self.if_exists();
        let name = self.qualified()?;
        if self.eat(&["RENAME", "TO"]) {
            return Ok(Statement::RenameSequence { name, if_exists, to: self.name()? });
        }
        let mut options = Vec::new();
        while !matches!(self.peek(), Token::EOF | Token::SemiColon) {
            options.push(self.sequence_option()?);
        }
        if options.is_empty() {
            Err(syntax(self.peek()))
        } else {
            Ok(Statement::AlterSequence { name, if_exists, options })
        }
    }

    fn sequence_option(&mut self) -> Result<SequenceOption> {
        if self.eat(&["AS"]) {
            return Ok(SequenceOption::Type(self.name()?));
        }
        if self.eat(&["INCREMENT"]) {
            self.eat(&["BY"]);
            return Ok(SequenceOption::Increment(self.long()?));
        }
        if self.eat(&["NO", "MINVALUE"]) {
            return Ok(SequenceOption::Min(None));
        }
        if self.eat(&["NO", "MAXVALUE"]) {
            return Ok(SequenceOption::Max(None));
        }
        if self.eat(&["MINVALUE"]) {
            return Ok(SequenceOption::Min(Some(self.long()?)));
        }
        if self.eat(&["MAXVALUE"]) {
            return Ok(SequenceOption::Max(Some(self.long()?)));
        }
        if self.eat(&["START"]) {
            self.eat(&["WITH"]);
            return Ok(SequenceOption::Start(self.long()?));
        }
        if self.eat(&["RESTART"]) {
            let has_value = self.eat(&["WITH"]) || matches!(self.peek(), Token::Number(..) | Token::Minus);
            return Ok(SequenceOption::Restart(if has_value { Some(self.long()?) } else { None }));
        }
        if self.eat(&["CACHE"]) {
            return self.long().map(|_| SequenceOption::Cache);
        }
        if self.eat(&["NO", "CYCLE"]) {
            return Ok(SequenceOption::Cycle(false));
        }
        if self.eat(&["CYCLE"]) {
            return Ok(SequenceOption::Cycle(true));
        }
        if self.eat(&["OWNED", "BY"]) {
            let owner = if self.eat(&["NONE"]) { None } else { Some(self.qualified()?) };
            return Ok(SequenceOption::OwnedBy(owner));
        }
        Err(syntax(self.peek()))
    }

    fn long(&mut self) -> Result<i64> {
        let sign = if self.eat_token(&Token::Minus) { "-" } else { "" };
        let Token::Number(digits, _) = self.peek() else { return Err(syntax(self.peek())) };
        let value = format!("{sign}{digits}").parse().map_err(|_| {
            Error::new(SqlState::OUT_OF_RANGE, format!("value \"{sign}{digits}\" is out of range for type bigint"))
        })?;
        self.at += 1;
        Ok(value)
    }

    // ---- grants ----

    fn grant(&mut self, revoke: bool, only_option: bool) -> Result<Statement> {
        let start = self.at;
        let privileges = self.privileges()?;
        if !self.eat(&["ON"]) {
            // These were names of roles.
            self.at = start;
            return self.grant_roles(revoke, only_option);
        }
        let on = self.objects()?;
        self.expect(&[if revoke { "FROM" } else { "TO" }])?;
        let to = self.list(Self::grantee)?;
        let option = if revoke { only_option } else { self.eat(&["WITH", "GRANT", "OPTION"]) };
        if self.eat(&["GRANTED", "BY"]) {
            self.actor()?;
        }
        self.eat(&["CASCADE"]);
        self.eat(&["RESTRICT"]);
        Ok(Statement::Grant { privileges, on, to, option, revoke })
    }

    /// Privileges by name; `None` is ALL. What is none of them is the name of a role.
    fn privileges(&mut self) -> Result<Option<Vec<CompactString>>> {
        if self.eat(&["ALL"]) {
            self.eat(&["PRIVILEGES"]);
            if *self.peek() == Token::LParen {
                return Err(Error::unsupported("privileges on columns"));
            }
            return Ok(None);
        }
        let privileges = self.list(|reader| {
            let name = reader.name()?;
            if *reader.peek() == Token::LParen && Privileges::named(&name).is_some() {
                return Err(Error::unsupported("privileges on columns"));
            }
            Ok(name)
        })?;
        Ok(Some(privileges))
    }

    fn objects(&mut self) -> Result<On> {
        if self.eat(&["ALL"]) {
            let sequences = match self.eat_any(&["TABLES", "SEQUENCES", "FUNCTIONS", "PROCEDURES", "ROUTINES"]) {
                Some(0) => false,
                Some(1) => true,
                Some(_) => return Err(Error::unsupported("privileges on functions")),
                None => return Err(syntax(self.peek())),
            };
            self.expect(&["IN", "SCHEMA"])?;
            let schemas = self.list(Self::name)?;
            return Ok(On::AllIn { schemas, sequences });
        }
        let kind = match self.eat_any(&["TABLE", "SEQUENCE", "DATABASE", "SCHEMA"]) {
            Some(2) => Kind::Database,
            Some(3) => Kind::Schema,
            Some(1) => Kind::Sequence,
            Some(_) => Kind::Relation,
            None => {
                let others = [
                    "FUNCTION",
                    "PROCEDURE",
                    "ROUTINE",
                    "LANGUAGE",
                    "TYPE",
                    "DOMAIN",
                    "TABLESPACE",
                    "FOREIGN",
                    "LARGE",
                    "PARAMETER",
                ];
                if let Some(other) = self.eat_any(&others) {
                    return Err(Error::unsupported(format_args!("privileges on a {}", others[other].to_lowercase())));
                }
                Kind::Relation
            }
        };
        let names = self.list(Self::qualified)?;
        Ok(On::Objects(names.into_iter().map(|name| Object { kind, name }).collect()))
    }

    fn grant_roles(&mut self, revoke: bool, only_admin: bool) -> Result<Statement> {
        let roles = self.list(Self::name)?;
        self.expect(&[if revoke { "FROM" } else { "TO" }])?;
        let to = self.list(|reader| {
            reader.eat(&["GROUP"]);
            reader.actor()
        })?;
        let admin = if revoke { only_admin } else { self.eat(&["WITH", "ADMIN", "OPTION"]) };
        if self.eat(&["GRANTED", "BY"]) {
            self.actor()?;
        }
        self.eat(&["CASCADE"]);
        self.eat(&["RESTRICT"]);
        Ok(Statement::GrantRoles { roles, to, admin, revoke })
    }

    // ---- the rest ----

    fn comment(&mut self) -> Result<Statement> {
        let kinds =
            ["TABLE", "VIEW", "SEQUENCE", "INDEX", "COLUMN", "SCHEMA", "DATABASE", "ROLE", "CONSTRAINT", "EXTENSION"];
        let Some(kind) = self.eat_any(&kinds) else {
            return Err(Error::unsupported(format_args!("a comment on {}", self.peek())));
        };
        let name = self.qualified()?;
        let object = match kind {
            0..=3 => Object { kind: Kind::Relation, name },
            4 => Object { kind: Kind::Column, name },
            5 => Object { kind: Kind::Schema, name },
            8 => {
                self.expect(&["ON"])?;
                let mut table = self.qualified()?;
                table.extend(name);
                Object { kind: Kind::Constraint, name: table }
            }
            _ => Object { kind: Kind::Database, name },
        };
        self.expect(&["IS"])?;
        let text = if self.eat(&["NULL"]) { None } else { Some(self.string()?) };
        Ok(Statement::Comment { object, text })
    }

    /// SET and RESET of roles; other settings are not read here.
    fn set(&mut self) -> Result<Option<Statement>> {
        let resets = self.at > 0 && self.is_at(self.at - 1, "RESET");
        if resets {
            return Ok(if self.eat(&["ROLE"]) {
                Some(Statement::SetRole { to: None, local: false })
            } else if self.eat(&["SESSION", "AUTHORIZATION"]) {
                Some(Statement::SetSessionAuthorization { to: None })
            } else {
                None
            });
        }
        let local = self.eat(&["LOCAL"]);
        if self.eat(&["SESSION", "AUTHORIZATION"]) {
            let to = if self.eat(&["DEFAULT"]) { None } else { Some(self.role_name()?) };
            return Ok(Some(Statement::SetSessionAuthorization { to }));
        }
        self.eat(&["SESSION"]);
        if !self.eat(&["ROLE"]) {
            return Ok(None);
        }
        let to = if self.eat(&["NONE"]) { None } else { Some(self.role_name()?) };
        Ok(Some(Statement::SetRole { to, local }))
    }

    fn role_name(&mut self) -> Result<CompactString> {
        if matches!(self.peek(), Token::SingleQuotedString(_)) { self.string().map(Into::into) } else { self.name() }
    }

    /// Words and options in parentheses before the tables of a statement about upkeep.
    fn options(&mut self, words: &[&str]) -> Result<()> {
        if self.eat_token(&Token::LParen) {
            let mut depth = 1;
            while depth > 0 {
                match self.peek() {
                    Token::LParen => depth += 1,
                    Token::RParen => depth -= 1,
                    Token::EOF => return Err(syntax(&Token::EOF)),
                    _ => {}
                }
                self.at += 1;
            }
        }
        while self.eat_any(words).is_some() {}
        Ok(())
    }

    fn tables(&mut self) -> Result<Vec<Vec<CompactString>>> {
        if matches!(self.peek(), Token::EOF | Token::SemiColon) {
            return Ok(Vec::new());
        }
        self.list(|reader| {
            let name = reader.qualified()?;
            // Columns: sizes are known of all.
            reader.options(&[])?;
            Ok(name)
        })
    }

    fn upkeep(&mut self) -> Result<Option<Statement>> {
        let upkeep = |tag, tables, alone| Ok(Some(Statement::Upkeep { tag, tables, alone }));
        if self.eat(&["VACUUM"]) {
            self.options(&["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"])?;
            let tables = self.tables()?;
            return upkeep("VACUUM", tables, true);
        }
        if self.eat(&["ANALYZE"]) || self.eat(&["ANALYSE"]) {
            self.options(&["VERBOSE"])?;
            let tables = self.tables()?;
            return upkeep("ANALYZE", tables, false);
        }
        if self.eat(&["CLUSTER"]) {
            self.options(&["VERBOSE"])?;
            let tables = self.tables_or_nothing()?;
            if self.eat(&["USING"]) {
                self.name()?;
            }
            return upkeep("CLUSTER", tables, false);
        }
        if self.eat(&["REINDEX"]) {
            self.options(&["VERBOSE"])?;
            let kind = self.eat_any(&["TABLE", "INDEX", "SCHEMA", "DATABASE", "SYSTEM"]);
            self.eat(&["CONCURRENTLY"]);
            let tables = self.tables_or_nothing()?;
            return match kind {
                None => Err(syntax(self.peek())),
                Some(0 | 1) => upkeep("REINDEX", tables, false),
                Some(_) => upkeep("REINDEX", Vec::new(), true),
            };
        }
        if self.eat(&["CHECKPOINT"]) {
            return Ok(Some(Statement::Checkpoint));
        }
        if self.eat(&["LOCK"]) {
            return self.lock().map(Some);
        }
        if self.eat_any(&["LISTEN", "NOTIFY"]).is_some() {
            return Err(Error::unsupported("LISTEN and NOTIFY"));
        }
        if self.eat(&["UNLISTEN"]) {
            // Nobody listens.
            if !self.eat_token(&Token::Mul) {
                self.name()?;
            }
            return upkeep("UNLISTEN", Vec::new(), false);
        }
        if self.eat(&["DISCARD"]) {
            return Ok(match self.eat_any(&["PLANS", "SEQUENCES", "TEMP", "TEMPORARY"]) {
                Some(0) => Some(Statement::DiscardPlans),
                Some(1) => Some(Statement::DiscardSequences),
                Some(_) => Some(Statement::Upkeep { tag: "DISCARD TEMP", tables: Vec::new(), alone: false }),
                None => None,
            });
        }
        Ok(None)
    }

    fn tables_or_nothing(&mut self) -> Result<Vec<Vec<CompactString>>> {
        if self.is_at(self.at, "USING") { Ok(Vec::new()) } else { self.tables() }
    }

    fn lock(&mut self) -> Result<Statement> {
        self.eat(&["TABLE"]);
        let tables = self.list(|reader| {
            reader.eat(&["ONLY"]);
            let name = reader.qualified()?;
            reader.eat_token(&Token::Mul);
            Ok(name)
        })?;
        let mut strength = LockTable::Exclusive;
        if self.eat(&["IN"]) {
            const MODES: [(&[&str], LockTable); 8] = [
                (&["ACCESS", "SHARE"], LockTable::Nothing),
                (&["ROW", "SHARE"], LockTable::Nothing),
                (&["ROW", "EXCLUSIVE"], LockTable::Nothing),
                (&["SHARE", "UPDATE", "EXCLUSIVE"], LockTable::Exclusive),
                (&["SHARE", "ROW", "EXCLUSIVE"], LockTable::Exclusive),
                (&["ACCESS", "EXCLUSIVE"], LockTable::Exclusive),
                (&["EXCLUSIVE"], LockTable::Exclusive),
                (&["SHARE"], LockTable::Exclusive),
            ];
            let mode = MODES.iter().find(|(words, _)| self.eat(words));
            strength = mode.map(|(_, strength)| *strength).ok_or_else(|| syntax(self.peek()))?;
            self.expect(&["MODE"])?;
        }
        let nowait = self.eat(&["NOWAIT"]);
        Ok(Statement::Lock { tables, strength, nowait })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn statements_are_read_in_whichever_order_their_options_come() {
        for text in [
            "CREATE USER alice WITH PASSWORD 'x' LOGIN NOSUPERUSER CONNECTION LIMIT 5 VALID UNTIL '2030-01-01' IN ROLE a, b",
            "create role \"Bob\"",
            "ALTER ROLE alice NOLOGIN; ",
            "ALTER USER CURRENT_USER PASSWORD NULL",
            "DROP USER IF EXISTS a, b",
            "CREATE DATABASE d WITH OWNER = alice ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE = 'C'",
            "DROP DATABASE IF EXISTS d WITH (FORCE)",
            "ALTER DATABASE d OWNER TO CURRENT_USER",
            "GRANT SELECT, INSERT ON TABLE a, s.b TO alice, PUBLIC WITH GRANT OPTION",
            "GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA public TO alice",
            "GRANT a, b TO c WITH ADMIN OPTION",
            "REVOKE GRANT OPTION FOR UPDATE ON t FROM alice CASCADE",
            "REVOKE ALL ON DATABASE d FROM PUBLIC",
            "ALTER TABLE IF EXISTS public.t OWNER TO bob",
            "COMMENT ON COLUMN public.t.c IS 'it''s'",
            "COMMENT ON TABLE t IS NULL",
            "SET LOCAL ROLE alice",
            "RESET ROLE",
            "VACUUM (ANALYZE, VERBOSE) t, u (a, b)",
            "VACUUM FULL FREEZE t",
            "REINDEX TABLE CONCURRENTLY t",
            "LOCK TABLE a, b IN SHARE ROW EXCLUSIVE MODE NOWAIT",
            "DISCARD PLANS",
        ] {
            assert!(parse(text).unwrap().is_some(), "{text}");
        }
    }

    #[test]
    fn other_statements_are_left_alone() {
        for text in [
            "CREATE TABLE t (a int)",
            "ALTER TABLE t ADD c int",
            "SET role_x.y = 1",
            "DROP TABLE t",
            "DISCARD ALL",
            "SELECT 1",
            "RESET ALL",
        ] {
            assert!(parse(text).unwrap().is_none(), "{text}");
        }
        for text in [
            "GRANT",
            "CREATE ROLE",
            "GRANT SELECT ON t",
            "DROP DATABASE d WITH (FORCE",
            "LOCK t IN NO MODE",
            "VACUUM (",
            "NOTIFY x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
