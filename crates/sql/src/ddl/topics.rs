//! Topics as tables are made and changed: what they cannot have, and the functions of the extension
//! `topic`.
//!
//! The functions are written in PL/pgSQL (`topics.sql`), over a few that only the session can
//! compute (`session/topics`). psql shows their text with `\sf`.

use colibri_catalog::{Change, Extension, Table};
use colibri_syntax::Statement;
use colibri_syntax::tree::{Admin, Routines};
use colibri_types::{Error, Result, SqlState};

use crate::session::Session;
use crate::statement::parse;

/// The extension, and the only schema that its functions can be in: they call each other.
pub(super) const EXTENSION: &str = "topic";
const FUNCTIONS: &str = include_str!("topics.sql");

impl Session {
    /// Refuses topics that have what topics cannot have, and references to them.
    pub(super) fn check_topics(&self, changes: &[Change]) -> Result<()> {
        for change in changes {
            let Change::PutTable(table) = change else { continue };
            table.check_topic(change.is_temporary())?;
            for key in &table.foreign_keys {
                if let Some(target) = self.catalog().table(key.target)
                    && target.topic.is_some()
                {
                    return Err(no_reference(table, target));
                }
            }
        }
        Ok(())
    }

    /// Makes the functions of the extension.
    pub(super) fn create_topic_functions(&mut self, extension: &mut Extension) -> Result<()> {
        for statement in parse(FUNCTIONS)? {
            let Statement::Admin(statement) = statement else {
                return Err(Error::internal("a statement of an extension is of another kind"));
            };
            let is_function =
                matches!(&*statement, Admin::Routines(routines) if matches!(**routines, Routines::Create(_)));
            let known: Vec<u32> = self.catalog().routines().map(|routine| routine.id).collect();
            self.administer(&statement)?;
            if is_function {
                let new = self.catalog().routines().map(|routine| routine.id).filter(|id| !known.contains(id));
                extension.members.extend(new.collect::<Vec<_>>());
            }
        }
        Ok(())
    }
}

fn no_reference(table: &Table, topic: &Table) -> Error {
    let message = format!("table \"{}\" cannot refer to topic \"{}\"", table.name, topic.name);
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail("Messages go when the topic need not keep them.")
}
