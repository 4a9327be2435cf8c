//! Reading statements about roles, databases, privileges, owners and upkeep, whose words PostgreSQL orders in its own way.
//!
//! ```text
//! CREATE|ALTER {ROLE|USER|GROUP} name [WITH] option …        DROP {ROLE|USER|GROUP} [IF EXISTS] name, …
//! CREATE DATABASE name [WITH] [OWNER [=] role] …             ALTER DATABASE name …, DROP DATABASE [IF EXISTS] name
//! ALTER ROLE {name|ALL} [IN DATABASE name] {SET|RESET} …     ALTER DATABASE name {SET|RESET} …
//! GRANT|REVOKE [GRANT OPTION FOR] … ON … {TO|FROM} role, …   GRANT|REVOKE role, … {TO|FROM} role, …
//! CREATE SEQUENCE name option …                              ALTER SEQUENCE name option …
//! ALTER kind name {OWNER TO role | RENAME TO name}           REASSIGN OWNED BY …, DROP OWNED BY …
//! COMMENT ON kind name IS …
//! VACUUM, ANALYZE, REINDEX, CLUSTER, CHECKPOINT, LOCK TABLE, LISTEN, UNLISTEN, NOTIFY, DISCARD …
//! ```

mod sequences;
#[cfg(test)]
mod tests;

pub(crate) use sequences::{parse_identity_change, parse_identity_options};

use colibri_catalog::cluster::{Dependents, Privileges};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::upkeep::Upkeep;
use super::{Actor, Granting, Kind, LockTable, Object, On, RoleOption, SettingsOf, Statement};
use crate::statement::reader::{Reader, Token, may_begin_with};

/// With what they begin.
const WORDS: [&str; 18] = [
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
    "revoke",
    "unlisten",
    "vacuum",
    "discard",
];

/// Reads a statement if it is one of these.
///
/// # Errors
/// 42601 if it begins like one of them and goes on otherwise.
pub(crate) fn parse(text: &str) -> Result<Option<Statement>> {
    if !may_begin_with(text, &WORDS) {
        return Ok(None);
    }
    let mut reader = Reader::new(text)?;
    let Some(statement) = reader.statement()? else { return Ok(None) };
    reader.end()?;
    Ok(Some(statement))
}

/// The options that `CREATE DATABASE` has.
const DATABASE_OPTIONS: [&str; 15] = [
    "OWNER",
    "TEMPLATE",
    "ENCODING",
    "LOCALE",
    "LC_COLLATE",
    "LC_CTYPE",
    "CONNECTION",
    "ALLOW_CONNECTIONS",
    "IS_TEMPLATE",
    "STRATEGY",
    "TABLESPACE",
    "LOCALE_PROVIDER",
    "ICU_LOCALE",
    "COLLATION_VERSION",
    "OID",
];

/// Refuses what a database cannot be made with: one encoding, one locale and one place are all
/// there are.
fn expect_database_option(option: &str, value: &str) -> Result<()> {
    let folded = value.to_ascii_lowercase();
    let accepted: &[&str] = match option {
        "TEMPLATE" => &["template0", "template1", "default"],
        "ENCODING" => &["utf8", "utf-8", "unicode", "default"],
        "LOCALE" | "LC_COLLATE" | "LC_CTYPE" => &["c", "posix", "c.utf-8", "c.utf8", "default"],
        "STRATEGY" => &["wal_log", "file_copy"],
        "TABLESPACE" => &["pg_default", "default"],
        "LOCALE_PROVIDER" => &["libc"],
        _ => &[],
    };
    if accepted.contains(&&*folded) {
        return Ok(());
    }
    Err(match option {
        "TEMPLATE" => Error::unsupported(format_args!("a database after the model of \"{value}\"")),
        "ENCODING" => Error::unsupported(format_args!("the encoding {value}")),
        "LOCALE" | "LC_COLLATE" | "LC_CTYPE" => Error::unsupported(format_args!("the locale {value}")),
        "STRATEGY" => {
            let message = format!("invalid create database strategy \"{value}\"");
            Error::new(SqlState::BAD_PARAMETER, message).hint("Valid strategies are \"wal_log\", and \"file_copy\".")
        }
        "TABLESPACE" => Error::new(SqlState::NO_SUCH_OBJECT, format!("tablespace \"{value}\" does not exist")),
        _ => Error::unsupported(format_args!("{option} {value} of a database")),
    })
}

impl Reader {
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
        // Even in quotes it is nobody's name.
        Ok(Some(self.actor()?).filter(|actor| !matches!(actor, Actor::Named(name) if name == "public")))
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
            if self.eat(&["DATABASE"]) {
                return self.create_database().map(Some);
            }
            return self.create_sequence();
        }
        if self.eat(&["ALTER"]) {
            if let Some(kind) = self.eat_any(ROLES) {
                return self.alter_role(ROLES[kind] == "GROUP").map(Some);
            }
            if self.eat(&["DATABASE"]) {
                return self.alter_database().map(Some);
            }
            if self.eat(&["DEFAULT", "PRIVILEGES"]) {
                return Err(Error::unsupported("ALTER DEFAULT PRIVILEGES"));
            }
            let start = self.at;
            if let Some(owner) = self.owner_or_name()? {
                return Ok(Some(owner));
            }
            self.at = start;
            return if self.eat(&["SEQUENCE"]) { self.alter_sequence().map(Some) } else { Ok(None) };
        }
        if self.eat(&["DROP"]) {
            if self.eat_any(ROLES).is_some() {
                let if_exists = self.if_exists();
                let names = self.list(Self::actor)?;
                return Ok(Some(Statement::DropRoles { names, if_exists }));
            }
            if self.eat(&["DATABASE"]) {
                return self.drop_database().map(Some);
            }
            if self.eat(&["OWNED", "BY"]) {
                let roles = self.list(Self::actor)?;
                let cascade = self.cascade();
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
            return self.grant(false, None).map(Some);
        }
        if self.eat(&["REVOKE"]) {
            let options = [["GRANT", "OPTION", "FOR"], ["ADMIN", "OPTION", "FOR"]];
            let only = options.iter().find(|words| self.eat(&words[..])).map(|words| words[0]);
            return self.grant(true, only).map(Some);
        }
        if self.eat(&["COMMENT", "ON"]) {
            return self.comment().map(Some);
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
                RoleOption::ConnectionLimit(self.connection_limit()?)
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
            } else if self.eat(&["UNENCRYPTED", "PASSWORD"]) {
                return Err(Error::unsupported("a password that is kept unencrypted"));
            } else {
                return Ok(options);
            };
            if options.iter().any(|known| std::mem::discriminant(known) == std::mem::discriminant(&option))
                && !matches!(option, RoleOption::Unknown(..))
            {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            options.push(option);
        }
    }

    /// Sessions at the same time; -1 is no limit.
    fn connection_limit(&mut self) -> Result<i32> {
        match self.integer()? {
            limit if limit < -1 => {
                Err(Error::new(SqlState::BAD_PARAMETER, format!("invalid connection limit: {limit}")))
            }
            limit => Ok(limit),
        }
    }

    fn create_role(&mut self, login: bool) -> Result<Statement> {
        let name = self.name()?;
        let mut options = vec![RoleOption::Login(login)];
        options.extend(self.role_options()?);
        Ok(Statement::CreateRole { name, options })
    }

    fn alter_role(&mut self, is_group: bool) -> Result<Statement> {
        if self.eat(&["ALL"]) {
            return self.role_settings(None)?.ok_or_else(|| self.syntax());
        }
        let role = self.actor()?;
        if self.eat(&["RENAME", "TO"]) {
            let Actor::Named(name) = role else { return Err(self.syntax()) };
            return Ok(Statement::RenameRole { name, to: self.name()? });
        }
        if let Some(how) = is_group.then(|| self.eat_any(&["ADD", "DROP"])).flatten() {
            self.expect(&["USER"])?;
            let members = self.list(Self::actor)?;
            return Ok(Statement::AlterGroup { role, members, add: how == 0 });
        }
        if let Some(settings) = self.role_settings(Some(&role))? {
            return Ok(settings);
        }
        Ok(Statement::AlterRole { role, options: self.role_options()? })
    }

    /// `[IN DATABASE name] SET …`, if that is what comes next; no role is all of them.
    fn role_settings(&mut self, role: Option<&Actor>) -> Result<Option<Statement>> {
        let database = if self.eat(&["IN", "DATABASE"]) { Some(self.name()?) } else { None };
        let is_in = database.is_some();
        match self.setting_change(SettingsOf { role: role.cloned(), database, is_database: false })? {
            None if is_in => Err(self.syntax()),
            settings => Ok(settings),
        }
    }

    fn create_database(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let (mut owner, mut limit, mut allow) = (None, None, None);
        let mut seen = Vec::new();
        self.eat(&["WITH"]);
        while let Some(option) = self.eat_any(&DATABASE_OPTIONS) {
            let option = DATABASE_OPTIONS[option];
            if seen.contains(&option) {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            seen.push(option);
            if option == "CONNECTION" {
                self.expect(&["LIMIT"])?;
            }
            self.eat_token(&Token::Equal);
            match option {
                "OWNER" => owner = Some(self.actor()?),
                "CONNECTION" => limit = Some(self.connection_limit()?),
                "ALLOW_CONNECTIONS" => allow = Some(self.yes_or_no(option)?),
                "IS_TEMPLATE" => {
                    if self.yes_or_no(option)? {
                        return Err(Error::unsupported("a database that is a template"));
                    }
                }
                "OID" => return Err(Error::unsupported("a database with a number of one's choice")),
                _ => {
                    let value = self.string().or_else(|_| self.name().map(|name| name.to_string()))?;
                    expect_database_option(option, &value)?;
                }
            }
        }
        Ok(Statement::CreateDatabase { name, owner, limit, allow })
    }

    fn yes_or_no(&mut self, option: &str) -> Result<bool> {
        let text = match self.peek() {
            Token::Number(digits) => digits.clone(),
            _ => self.string().or_else(|_| self.name().map(|name| name.to_string()))?.to_ascii_lowercase(),
        };
        let value = match &*text {
            "1" | "true" | "on" => true,
            "0" | "false" | "off" => false,
            _ => {
                let message = format!("{} requires a Boolean value", option.to_ascii_lowercase());
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        if matches!(self.peek(), Token::Number(..)) {
            self.at += 1;
        }
        Ok(value)
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
        if self.is_at(self.at, "SET") && self.is_at(self.at + 1, "TABLESPACE") {
            return Err(Error::unsupported("another tablespace"));
        }
        let of = SettingsOf { role: None, database: Some(name.clone()), is_database: true };
        if let Some(settings) = self.setting_change(of)? {
            return Ok(settings);
        }
        self.eat(&["WITH"]);
        let (mut limit, mut allow) = (None, None);
        loop {
            if self.eat(&["CONNECTION", "LIMIT"]) {
                self.eat_token(&Token::Equal);
                limit = Some(self.connection_limit()?);
            } else if self.eat(&["ALLOW_CONNECTIONS"]) {
                self.eat_token(&Token::Equal);
                allow = Some(self.yes_or_no("ALLOW_CONNECTIONS")?);
            } else if self.eat(&["IS_TEMPLATE"]) {
                self.eat_token(&Token::Equal);
                if self.yes_or_no("IS_TEMPLATE")? {
                    return Err(Error::unsupported("a database that is a template"));
                }
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
        if self.eat_token(&Token::LeftParen) {
            self.expect(&["FORCE"])?;
            force = true;
            if !self.eat_token(&Token::RightParen) {
                return Err(self.syntax());
            }
        }
        Ok(Statement::DropDatabase { name, if_exists, force })
    }

    /// `ALTER kind name OWNER TO role` and `ALTER kind name RENAME TO name`; other changes are not
    /// read here.
    fn owner_or_name(&mut self) -> Result<Option<Statement>> {
        const KINDS: [Kind; 5] = [Kind::Relation, Kind::View, Kind::Sequence, Kind::Schema, Kind::Index];
        let Some(kind) = self.eat_any(&["TABLE", "VIEW", "SEQUENCE", "SCHEMA", "INDEX"]) else { return Ok(None) };
        let kind = KINDS[kind];
        let if_exists = self.if_exists();
        self.eat(&["ONLY"]);
        let Ok(name) = self.qualified() else { return Ok(None) };
        if kind != Kind::Schema && self.eat(&["RENAME", "TO"]) {
            let to = self.name()?;
            return Ok(Some(Statement::RenameRelation { object: Object { kind, name }, if_exists, to }));
        }
        if kind == Kind::View && self.eat(&["RENAME"]) {
            return Err(Error::unsupported("renaming a view's column"));
        }
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

    // ---- grants ----

    /// `only_option`: of what REVOKE takes the option alone, GRANT or ADMIN.
    fn grant(&mut self, revoke: bool, only_option: Option<&str>) -> Result<Statement> {
        let start = self.at;
        if only_option == Some("ADMIN") {
            return self.grant_roles(revoke, true);
        }
        let privileges = self.privileges()?;
        if !self.eat(&["ON"]) {
            if only_option.is_some() {
                return Err(self.syntax());
            }
            // These were names of roles.
            self.at = start;
            return self.grant_roles(revoke, false);
        }
        let on = self.objects()?;
        self.expect(&[if revoke { "FROM" } else { "TO" }])?;
        let to = self.list(Self::grantee)?;
        let option = if revoke { only_option.is_some() } else { self.eat(&["WITH", "GRANT", "OPTION"]) };
        let by = self.granted_by()?;
        let take_back = revoke && self.cascade();
        let dependents = if take_back { Dependents::TakeBack } else { Dependents::Refuse };
        Ok(Statement::Grant { granting: Granting { privileges, option, revoke, by, dependents }, on, to })
    }

    fn granted_by(&mut self) -> Result<Option<Actor>> {
        if self.eat(&["GRANTED", "BY"]) { self.actor().map(Some) } else { Ok(None) }
    }

    /// CASCADE or RESTRICT, which is meant where neither is said.
    fn cascade(&mut self) -> bool {
        self.eat(&["CASCADE"]) || {
            self.eat(&["RESTRICT"]);
            false
        }
    }

    /// Privileges by name; `None` is ALL. What is none of them is the name of a role.
    fn privileges(&mut self) -> Result<Option<Vec<CompactString>>> {
        if self.eat(&["ALL"]) {
            self.eat(&["PRIVILEGES"]);
            if *self.peek() == Token::LeftParen {
                return Err(Error::unsupported("privileges on columns"));
            }
            return Ok(None);
        }
        let privileges = self.list(|reader| {
            let name = reader.name()?;
            if *reader.peek() == Token::LeftParen && Privileges::named(&name).is_some() {
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
                None => return Err(self.syntax()),
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
                    return Err(Error::unsupported(format_args!(
                        "privileges on a {}",
                        others[other].to_ascii_lowercase()
                    )));
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
        let by = self.granted_by()?;
        if revoke {
            // Nothing depends on a membership, so that both mean the same.
            self.cascade();
        }
        Ok(Statement::GrantRoles { roles, to, admin, revoke, by })
    }

    // ---- the rest ----

    fn comment(&mut self) -> Result<Statement> {
        const KINDS: [(&str, Kind); 9] = [
            ("TABLE", Kind::Table),
            ("VIEW", Kind::View),
            ("SEQUENCE", Kind::Sequence),
            ("INDEX", Kind::Index),
            ("COLUMN", Kind::Column),
            ("SCHEMA", Kind::Schema),
            ("DATABASE", Kind::Database),
            ("ROLE", Kind::Role),
            ("CONSTRAINT", Kind::Constraint),
        ];
        let Some(kind) = self.eat_any(&KINDS.map(|(word, _)| word)) else {
            return Err(Error::unsupported(format_args!("a comment on {}", self.written())));
        };
        let kind = KINDS[kind].1;
        let mut name = self.qualified()?;
        match kind {
            Kind::Constraint => {
                self.expect(&["ON"])?;
                if self.eat(&["DOMAIN"]) {
                    return Err(Error::unsupported("a comment on a domain's constraint"));
                }
                let mut table = self.qualified()?;
                table.append(&mut name);
                name = table;
            }
            Kind::Schema | Kind::Database | Kind::Role if name.len() != 1 => return Err(self.syntax()),
            Kind::Column if name.len() < 2 => {
                let message = "column name must be qualified";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            _ => {}
        }
        self.expect(&["IS"])?;
        let text = if self.eat(&["NULL"]) { None } else { Some(self.string()?) };
        Ok(Statement::Comment { object: Object { kind, name }, text })
    }

    fn upkeep(&mut self) -> Result<Option<Statement>> {
        let nothing = |tag| Ok(Some(Statement::Upkeep { tag, what: Upkeep::Nothing, alone: false }));
        if let Some(upkeep) = self.upkeep_statement()? {
            return Ok(Some(upkeep));
        }
        if self.eat(&["CHECKPOINT"]) {
            return Ok(Some(Statement::Checkpoint));
        }
        if self.eat(&["LOCK"]) {
            return self.lock().map(Some);
        }
        if let Some(word) = self.eat_any(&["LISTEN", "NOTIFY"]) {
            return Err(Error::unsupported(["LISTEN", "NOTIFY"][word]));
        }
        if self.eat(&["UNLISTEN"]) {
            // Nobody listens.
            if !self.eat_token(&Token::Star) {
                self.name()?;
            }
            return nothing("UNLISTEN");
        }
        if self.eat(&["DISCARD"]) {
            return Ok(match self.eat_any(&["PLANS", "SEQUENCES", "TEMP", "TEMPORARY"]) {
                Some(0) => Some(Statement::DiscardPlans),
                Some(1) => Some(Statement::DiscardSequences),
                Some(_) => return nothing("DISCARD TEMP"),
                None => None,
            });
        }
        Ok(None)
    }

    fn lock(&mut self) -> Result<Statement> {
        self.eat(&["TABLE"]);
        let tables = self.list(|reader| {
            reader.eat(&["ONLY"]);
            let name = reader.qualified()?;
            reader.eat_token(&Token::Star);
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
            strength = mode.map(|(_, strength)| *strength).ok_or_else(|| self.syntax())?;
            self.expect(&["MODE"])?;
        }
        let nowait = self.eat(&["NOWAIT"]);
        Ok(Statement::Lock { tables, strength, nowait })
    }
}
