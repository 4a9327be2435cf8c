//! Settings that a server stores for a database and for roles, in a dump.
//!
//! Those of the database are set for the database that the dump is loaded into, if the loading user
//! owns it. Those of roles come with the roles.

use std::path::{Path, PathBuf};

use super::{Dump, quoted, quoted_name};
use crate::failure::{Failure, Result};

/// Settings whose values are lists of names, which are quoted already.
const LISTS: [&str; 2] = ["search_path", "temp_tablespaces"];

/// The records of the server that a database belongs to by its place: `DIR/databases/NAME`.
pub(super) fn cluster_of(database: &Path) -> Option<PathBuf> {
    let database = database.canonicalize().ok()?;
    let cluster = database.parent().filter(|dir| dir.ends_with("databases"))?.parent()?.join("cluster");
    cluster.join("data").exists().then_some(cluster)
}

fn assignment(name: &str, value: &str) -> String {
    // A list of one name that is empty is written as a string: there is no such name.
    let is_list = LISTS.contains(&name) && !["", "\"\""].contains(&value);
    let value = match value {
        "\"\"" if LISTS.contains(&name) => quoted(""),
        value if is_list => value.to_owned(),
        value => quoted(value),
    };
    let name = name.split('.').map(quoted_name).collect::<Vec<_>>().join(".");
    format!("SET {name} TO {value}")
}

impl Dump<'_> {
    /// Writes the settings that sessions of the database and of roles begin with.
    pub(super) fn settings(&mut self) -> Result<()> {
        let Some(cluster) = self.cluster.take() else { return Ok(()) };
        let not_there = |source| Failure::NoRoles { dir: cluster.clone(), source };
        let (databases, kept) = colibri_server::kept_settings(&cluster, self.key.take()).map_err(not_there)?;
        let name = self.dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_str()?.to_owned()));
        let own = databases.iter().find(|database| Some(database.name.as_str()) == name.as_deref());
        let own = own.map_or(u32::MAX, |database| database.oid);
        // The role's statement, restricted to the database.
        let begin = |role: u32| match (&self.names, role) {
            (_, 0) => Some(None),
            (Some(names), role) => Some(Some(quoted_name(&names.of(role)))),
            (None, _) => None,
        };
        let mut statements = Vec::new();
        for (whose, values) in kept.iter().filter(|(whose, _)| [0, own].contains(&whose.database)) {
            let Some(role) = begin(whose.role) else { continue };
            for (name, value) in values {
                let set = assignment(name, value);
                statements.push(match (&role, whose.database) {
                    // Settings for all databases are not part of a database.
                    (None, 0) if self.names.is_none() => continue,
                    (None, 0) => format!("ALTER ROLE ALL {set};"),
                    (Some(role), 0) => format!("ALTER ROLE {role} {set};"),
                    (None, _) => with_database("ALTER DATABASE ", &format!(" {set}")),
                    (Some(role), _) => with_database(&format!("ALTER ROLE {role} IN DATABASE "), &format!(" {set}")),
                });
            }
        }
        if !statements.is_empty() {
            writeln!(self.out)?;
        }
        for statement in statements {
            writeln!(self.out, "{statement}")?;
        }
        Ok(())
    }
}

/// A statement that names the current database, which runs only if the user owns it.
fn with_database(before: &str, behind: &str) -> String {
    format!(
        "SELECT {} || quote_ident(datname) || {} FROM pg_catalog.pg_database \
         WHERE datname = current_database() AND pg_has_role(datdba, 'USAGE') \\gexec",
        quoted(before),
        quoted(behind)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_written_so_that_it_is_read_as_it_was() {
        assert_eq!(assignment("search_path", "\"A b\", public"), "SET \"search_path\" TO \"A b\", public");
        assert_eq!(assignment("TimeZone", "it's"), "SET \"TimeZone\" TO 'it''s'");
        assert_eq!(assignment("app.Tenant", "x"), "SET \"app\".\"Tenant\" TO 'x'");
        assert_eq!(assignment("search_path", "\"\""), "SET \"search_path\" TO ''");
    }
}
