//! VACUUM, ANALYZE, CLUSTER and REINDEX. They have nothing to do here. The tables and indexes that
//! they name have to exist, and the user has to own them: VACUUM and ANALYZE skip other people's
//! tables with a warning, CLUSTER and REINDEX refuse them.

use colibri_catalog::{Relation, cluster::BOOTSTRAP_ROLE};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::Statement;
use crate::session::{Session, Severity};
use crate::statement::reader::{Reader, Token};

/// What a statement about upkeep is about.
#[derive(Debug, Clone)]
pub(crate) enum Upkeep {
    /// Nothing that has a name.
    Nothing,
    /// Tables, with columns, for VACUUM and ANALYZE.
    Tables(Vec<(Vec<CompactString>, Vec<CompactString>)>),
    /// A table, in the order of an index.
    Cluster {
        table: Vec<CompactString>,
        index: Option<CompactString>,
    },
    ReindexTable(Vec<CompactString>),
    ReindexIndex(Vec<CompactString>),
    ReindexSchema(CompactString),
    ReindexDatabase(CompactString),
}

const VACUUM_OPTIONS: [&str; 11] = [
    "full",
    "freeze",
    "verbose",
    "analyze",
    "analyse",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];

impl Reader {
    /// A statement about upkeep, if the text is one.
    pub(super) fn upkeep_statement(&mut self) -> Result<Option<Statement>> {
        let upkeep = |tag, what, alone| Ok(Some(Statement::Upkeep { tag, what, alone }));
        if self.eat(&["VACUUM"]) {
            let mut analyzes = self.upkeep_options("VACUUM", &VACUUM_OPTIONS)?;
            while let Some(word) = self.eat_any(&["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"]) {
                analyzes |= word >= 3;
            }
            let tables = self.upkeep_tables()?;
            if !analyzes && tables.iter().any(|(_, columns)| !columns.is_empty()) {
                let message = "ANALYZE option must be specified when a column list is provided";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            return upkeep("VACUUM", Upkeep::Tables(tables), true);
        }
        if self.eat(&["ANALYZE"]) || self.eat(&["ANALYSE"]) {
            self.upkeep_options("ANALYZE", &["verbose", "skip_locked"])?;
            self.eat(&["VERBOSE"]);
            let tables = self.upkeep_tables()?;
            return upkeep("ANALYZE", Upkeep::Tables(tables), false);
        }
        if self.eat(&["CLUSTER"]) {
            self.upkeep_options("CLUSTER", &["verbose"])?;
            self.eat(&["VERBOSE"]);
            if self.is_over() {
                return upkeep("CLUSTER", Upkeep::Nothing, true);
            }
            let table = self.qualified()?;
            let index = if self.eat(&["USING"]) { Some(self.name()?) } else { None };
            return upkeep("CLUSTER", Upkeep::Cluster { table, index }, false);
        }
        if self.eat(&["REINDEX"]) {
            self.upkeep_options("REINDEX", &["verbose", "concurrently", "tablespace"])?;
            let kind = self.eat_any(&["TABLE", "INDEX", "SCHEMA", "DATABASE", "SYSTEM"]);
            self.eat(&["CONCURRENTLY"]);
            let (what, alone) = match kind {
                None => return Err(self.syntax()),
                Some(0) => (Upkeep::ReindexTable(self.qualified()?), false),
                Some(1) => (Upkeep::ReindexIndex(self.qualified()?), false),
                Some(2) => (Upkeep::ReindexSchema(self.name()?), true),
                Some(_) => (Upkeep::ReindexDatabase(self.name()?), true),
            };
            return upkeep("REINDEX", what, alone);
        }
        Ok(None)
    }

    fn is_over(&self) -> bool {
        matches!(self.peek(), Token::End | Token::Semicolon)
    }

    /// Options in parentheses; whether ANALYZE is one of them.
    fn upkeep_options(&mut self, statement: &str, known: &[&str]) -> Result<bool> {
        let mut analyzes = false;
        if !self.eat_token(&Token::LeftParen) {
            return Ok(analyzes);
        }
        loop {
            let option = self.name()?;
            if !known.contains(&option.as_str()) {
                let message = format!("unrecognized {statement} option \"{option}\"");
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            let mut is_on = true;
            while !matches!(self.peek(), Token::Comma | Token::RightParen | Token::End) {
                let value = self.written().to_ascii_lowercase();
                is_on = !["off", "false", "0"].contains(&value.trim_matches('\''));
                self.at += 1;
            }
            analyzes |= is_on && option.starts_with("analy");
            if self.eat_token(&Token::RightParen) {
                return Ok(analyzes);
            }
            if !self.eat_token(&Token::Comma) {
                return Err(self.syntax());
            }
        }
    }

    fn upkeep_tables(&mut self) -> Result<Vec<(Vec<CompactString>, Vec<CompactString>)>> {
        if self.is_over() {
            return Ok(Vec::new());
        }
        self.list(|reader| {
            let name = reader.qualified()?;
            let mut columns = Vec::new();
            if reader.eat_token(&Token::LeftParen) {
                columns = reader.list(Self::name)?;
                if !reader.eat_token(&Token::RightParen) {
                    return Err(reader.syntax());
                }
            }
            Ok((name, columns))
        })
    }
}

impl Session {
    /// Looks whether what a statement about upkeep names is there.
    pub(super) fn upkeep(&mut self, tag: &str, what: &Upkeep) -> Result<()> {
        match what {
            Upkeep::Nothing => Ok(()),
            Upkeep::Tables(tables) => {
                tables.iter().try_for_each(|(name, columns)| self.upkeep_table(tag, name, columns))
            }
            Upkeep::Cluster { table: name, index } => {
                let Relation::Table(table) = self.expect_relation(name)? else { return Err(not_a("table", name)) };
                self.expect_owner(table.owner, "table", &table.name)?;
                let Some(index) = index else {
                    let message = format!("there is no previously clustered index for table \"{}\"", table.name);
                    return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                };
                let is_key = table.primary_key.as_ref().is_some_and(|key| key.name == *index);
                if is_key || table.indexes.iter().any(|known| known.name == *index) {
                    return Ok(());
                }
                if self.catalog().relation(&table.schema, index).is_some() {
                    let message = format!("\"{index}\" is not an index for table \"{}\"", table.name);
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                let message = format!("index \"{index}\" for table \"{}\" does not exist", table.name);
                Err(Error::new(SqlState::NO_SUCH_OBJECT, message))
            }
            Upkeep::ReindexTable(name) if is_system(name) => self.expect_owner(BOOTSTRAP_ROLE, "table", last(name)),
            Upkeep::ReindexTable(name) => match self.expect_relation(name)? {
                Relation::Table(table) => self.expect_owner(table.owner, "table", &table.name),
                _ => {
                    let message = format!("\"{}\" is not a table or materialized view", last(name));
                    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
                }
            },
            Upkeep::ReindexIndex(name) => {
                let relation = self.expect_relation(name)?;
                if !matches!(relation, Relation::Index(..) | Relation::PrimaryKey(_)) {
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not an index", last(name))));
                }
                self.expect_owner_of(&relation)
            }
            Upkeep::ReindexSchema(name) => match self.catalog().schema(name) {
                Some(schema) => self.expect_owner(schema.owner, "schema", name),
                None if crate::system::is_system_schema(name) => self.expect_owner(BOOTSTRAP_ROLE, "schema", name),
                None => Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{name}\" does not exist"))),
            },
            Upkeep::ReindexDatabase(name) => {
                let database = self.own_database_info();
                if *name != database.name {
                    let message = "can only reindex the currently open database";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.expect_owner(database.owner, "database", name)
            }
        }
    }

    fn upkeep_table(&mut self, tag: &str, name: &[CompactString], columns: &[CompactString]) -> Result<()> {
        let verb = if tag == "VACUUM" { "vacuum" } else { "analyze" };
        let relation = if is_system(name) { None } else { Some(self.expect_relation(name)?) };
        let owner = match &relation {
            Some(Relation::Table(table)) => table.owner,
            Some(Relation::View(view)) => view.owner,
            Some(Relation::Sequence(sequence)) => sequence.owner,
            Some(Relation::Index(table, _) | Relation::PrimaryKey(table)) => {
                self.catalog().table(*table).map_or(BOOTSTRAP_ROLE, |table| table.owner)
            }
            None => BOOTSTRAP_ROLE,
        };
        let authority = self.authority();
        if !authority.has_role(owner) && !authority.has_role(self.own_database_info().owner) {
            let who = if relation.is_none() { "superuser" } else { "table" };
            let message = format!("skipping \"{}\" --- only {who} or database owner can {verb} it", last(name));
            self.notice(Severity::Warning, SqlState("01000"), message);
            return Ok(());
        }
        let table = match relation {
            None => return Ok(()),
            Some(Relation::Table(table)) => table,
            Some(_) => {
                let message =
                    format!("skipping \"{}\" --- cannot {verb} non-tables or special system tables", last(name));
                self.notice(Severity::Warning, SqlState("01000"), message);
                return Ok(());
            }
        };
        for (place, column) in columns.iter().enumerate() {
            if table.column(column).is_none() {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
            }
            if columns[..place].contains(column) {
                let message = format!("column \"{column}\" of relation \"{}\" appears more than once", table.name);
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        Ok(())
    }
}

fn is_system(name: &[CompactString]) -> bool {
    match name {
        [name] => crate::system::table("pg_catalog", name).is_some(),
        [schema, name] => crate::system::table(schema, name).is_some(),
        _ => false,
    }
}

fn last(name: &[CompactString]) -> &str {
    name.last().map_or("", CompactString::as_str)
}

fn not_a(kind: &str, name: &[CompactString]) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a {kind}", last(name)))
}
