//! ALTER TABLE … REPLICA IDENTITY USING INDEX: which indexes may be named. What was said is kept
//! and shown only.

use colibri_catalog::{ObjectId, Relation, Table};
use colibri_types::{Error, Result, SqlState};

use super::Session;
use crate::system::relations::table_indexes;

impl Session {
    /// The number of the index of a table that tells its rows apart.
    ///
    /// # Errors
    /// 42704 and 42809 if there is no such index of the table, 42809 and 0A000 if it does not tell
    /// all rows apart.
    pub(super) fn replica_index(&self, table: &Table, name: &str) -> Result<ObjectId> {
        let Some(index) = table_indexes(table).into_iter().find(|index| index.name == name) else {
            return Err(match self.catalog().relation(&table.schema, name) {
                Some(Relation::Index(..)) => wrong(format!("\"{name}\" is not an index for table \"{}\"", table.name)),
                _ => {
                    let message = format!("index \"{name}\" for table \"{}\" does not exist", table.name);
                    Error::new(SqlState::NO_SUCH_OBJECT, message)
                }
            });
        };
        let unsupported = |kind: &str| {
            let message = format!("cannot use {kind} index \"{name}\" as replica identity");
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        if !index.unique {
            return Err(wrong(format!("cannot use non-unique index \"{name}\" as replica identity")));
        }
        if !index.timing.is_fixed() {
            return unsupported("non-immediate");
        }
        if index.columns.iter().any(|part| table.columns[part.column].expression.is_some()) {
            return unsupported("expression");
        }
        if index.predicate.is_some() {
            return unsupported("partial");
        }
        for column in index.columns.iter().map(|part| &table.columns[part.column]) {
            if !index.primary && !column.not_null {
                let message = format!(
                    "index \"{name}\" cannot be used as replica identity because column \"{}\" is nullable",
                    column.name
                );
                return Err(wrong(message));
            }
        }
        Ok(index.id)
    }
}

fn wrong(message: String) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, message)
}
