//! `WHERE CURRENT OF`: the key of the row that a cursor is on.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result, SqlState};

use super::{OpenCursor, no_such_cursor};
use crate::bind::CurrentOf;
use crate::session::Session;
use crate::session::plans::{Command, Kind};

fn refuse(message: String) -> Error {
    Error::new(SqlState("24000"), message)
}

impl Session {
    /// The key of the row that is to be changed.
    ///
    /// # Errors
    /// 34000 if there is no such cursor; 24000 if it is on no row of the table.
    pub(in crate::session) fn current_row(&mut self, of: &CurrentOf) -> Result<Vec<Datum>> {
        let (name, table) = (&of.cursor, &of.table);
        let cursor = self.cursors.get_mut(name).ok_or_else(|| no_such_cursor(name))?;
        if !matches!(cursor.prepared.command, Command::Plan { kind: Kind::Select, .. }) {
            return Err(refuse(format!("cursor \"{name}\" is not a SELECT query")));
        }
        if cursor.is_held {
            return Err(refuse(format!("cursor \"{name}\" is held from a previous transaction")));
        }
        let planned = Arc::clone(&cursor.planned);
        let rows = planned.cursor_rows.as_ref();
        let mut found = rows.iter().flat_map(|rows| &rows.tables).filter(|(id, _)| *id == table.id);
        let locks = rows.is_some_and(|rows| rows.locks);
        let table = &table.name;
        let places = match (found.next(), found.next()) {
            (Some((_, places)), None) => places,
            (None, _) if locks => {
                let message =
                    format!("cursor \"{name}\" does not have a FOR UPDATE/SHARE reference to table \"{table}\"");
                return Err(refuse(message));
            }
            (Some(_), Some(_)) if locks => {
                let message =
                    format!("cursor \"{name}\" has multiple FOR UPDATE/SHARE references to table \"{table}\"");
                return Err(refuse(message));
            }
            _ => {
                let message = format!("cursor \"{name}\" is not a simply updatable scan of table \"{table}\"");
                return Err(refuse(message));
            }
        };
        let Some(row) = cursor.row()? else {
            return Err(refuse(format!("cursor \"{name}\" is not positioned on a row")));
        };
        let key = places.iter().map(|&place| row.get(place).cloned());
        key.collect::<Option<Vec<_>>>().ok_or_else(|| Error::internal("a cursor's row has no key"))
    }
}

impl OpenCursor {
    /// The row that it is on.
    fn row(&mut self) -> Result<Option<Vec<Datum>>> {
        if self.at <= self.before || self.at > self.count() {
            return Ok(None);
        }
        let mut row = vec![Datum::Null; self.rows.width()];
        self.rows.read((self.at - self.before - 1) as usize, &mut row, false)?;
        Ok(Some(row))
    }
}
