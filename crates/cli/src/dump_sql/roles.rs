//! Roles, owners and grants of a dump.
//!
//! Roles belong to a server, and not to a database: they are read from the server's record of them.
//! A database knows them by number; opened by itself it gives `unknown (OID=…)` for a name.
//!
//! Invariant: GRANTs come after a REVOKE of the object's default privileges, so that a load gives
//! the same privileges, whatever the other server grants by default.

use std::collections::HashMap;
use std::path::Path;

use colibri::EncryptionKey;
use colibri_server::Roles;

use super::{Dump, NOT_SYSTEM, quoted, quoted_name};
use crate::failure::{Failure, Result};

/// Numbers below are those of roles that every server has.
const FIRST_OWN_ROLE: u32 = 16_384;
/// The superuser that every server has.
const BOOTSTRAP_ROLE: u32 = 10;
/// Letters of privileges, and their words.
const PRIVILEGES: [(char, &str); 9] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('U', "USAGE"),
    ('C', "CREATE"),
];

/// A server's roles by number.
pub(super) struct Names {
    roles: Roles,
    by_oid: HashMap<u32, String>,
}

/// An object with an owner and privileges: `TABLE birds.nests`.
struct Owned {
    kind: &'static str,
    name: String,
    owner: u32,
    /// An owner of its own, rather than its table's.
    has_owner: bool,
    grants: Option<String>,
}

/// One line of a list of grants: `alice=ar*w/bob`.
#[derive(Debug, PartialEq, Eq)]
struct Grant {
    /// `None` is PUBLIC.
    to: Option<String>,
    plain: Vec<&'static str>,
    /// Those with the grant option.
    grantable: Vec<&'static str>,
    by: String,
}

impl Names {
    pub(super) fn read(cluster: &Path, key: Option<EncryptionKey>) -> Result<Self> {
        let not_there = |source| Failure::NoRoles { dir: cluster.to_owned(), source };
        let roles = colibri_server::roles(cluster, key).map_err(not_there)?;
        let by_oid = roles.iter().map(|role| (role.oid, role.name.to_string())).collect();
        Ok(Self { roles, by_oid })
    }

    pub(super) fn of(&self, oid: u32) -> String {
        self.by_oid.get(&oid).map_or_else(|| format!("unknown (OID={oid})"), Clone::clone)
    }

    /// A role by its name in a database that is opened without a server.
    fn known(&self, name: &str) -> String {
        let number = name.strip_prefix("unknown (OID=").and_then(|rest| rest.strip_suffix(')'));
        match (number.and_then(|number| number.parse().ok()), name) {
            (Some(oid), _) => self.of(oid),
            (None, "pg_database_owner") => name.to_owned(),
            // Without a server there is one role, which stands for the superuser.
            (None, _) => self.of(BOOTSTRAP_ROLE),
        }
    }

    fn grant(&self, item: &str) -> Option<Grant> {
        let (to, rest) = name_of(item)?;
        let (letters, by) = rest.strip_prefix('=')?.split_once('/')?;
        let (by, _) = name_of(by)?;
        let (mut plain, mut grantable) = (Vec::new(), Vec::new());
        let mut letters = letters.chars().peekable();
        while let Some(letter) = letters.next() {
            let (_, word) = PRIVILEGES.iter().find(|(known, _)| *known == letter)?;
            if letters.next_if_eq(&'*').is_some() { grantable.push(*word) } else { plain.push(*word) }
        }
        let to = if to.is_empty() { None } else { Some(self.known(&to)) };
        Some(Grant { to, plain, grantable, by: self.known(&by) })
    }
}

/// A name at the beginning of a text, in quotes or without, and what is behind it.
fn name_of(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

impl Dump<'_> {
    /// The roles of a server, without those that every server has, and their memberships.
    ///
    /// A role that exists already, such as the superuser named after the operating system's user,
    /// keeps its password and attributes. It gets the memberships.
    pub(super) fn roles(&mut self) -> Result<()> {
        let Some(names) = self.names.take() else { return Ok(()) };
        let own = || names.roles.iter().filter(|role| role.oid >= FIRST_OWN_ROLE);
        for role in own() {
            let flag = |word: &str, on: bool| format!(" {}{word}", if on { "" } else { "NO" });
            let mut options = flag("SUPERUSER", role.superuser) + &flag("INHERIT", role.inherit);
            options += &(flag("CREATEROLE", role.createrole) + &flag("CREATEDB", role.createdb));
            options += &flag("LOGIN", role.login);
            if role.replication {
                options += " REPLICATION";
            }
            if role.bypassrls {
                options += " BYPASSRLS";
            }
            if role.connection_limit >= 0 {
                options += &format!(" CONNECTION LIMIT {}", role.connection_limit);
            }
            if let Some(verifier) = &role.verifier {
                options += &format!(" PASSWORD {}", quoted(verifier));
            }
            if let Some(us) = role.valid_until_us {
                let moment =
                    format!("SELECT (timestamptz '2000-01-01 00:00:00+00' + {us} * interval '1 microsecond')::text");
                let rows = self.query(&moment)?;
                options += &format!(" VALID UNTIL {}", quoted(&self.text(&rows[0], 0)?));
            }
            let statement = quoted(&format!("CREATE ROLE {} WITH{options}", quoted_name(&role.name)));
            let name = quoted(&role.name);
            writeln!(
                self.out,
                "SELECT {statement} WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = {name}) \\gexec"
            )?;
        }
        for role in own() {
            for membership in &role.member_of {
                let group = quoted_name(&names.of(membership.group));
                let admin = if membership.admin { " WITH ADMIN OPTION" } else { "" };
                writeln!(self.out, "GRANT {group} TO {}{admin};", quoted_name(&role.name))?;
            }
        }
        writeln!(self.out)?;
        self.names = Some(names);
        Ok(())
    }

    /// Owners and privileges of objects.
    pub(super) fn grants(&mut self) -> Result<()> {
        let Some(names) = self.names.take() else { return Ok(()) };
        writeln!(self.out)?;
        for owned in self.owned()? {
            let Owned { kind, name, owner, has_owner, grants } = owned;
            let owner = quoted_name(&names.of(owner));
            if has_owner {
                writeln!(self.out, "ALTER {kind} {name} OWNER TO {owner};")?;
            }
            let Some(grants) = grants else { continue };
            // Views are tables here, as everywhere in GRANT.
            let kind = if kind == "VIEW" { "TABLE" } else { kind };
            writeln!(self.out, "REVOKE ALL ON {kind} {name} FROM PUBLIC, {owner};")?;
            for grant in grants.lines().filter_map(|item| names.grant(item)) {
                self.grant(kind, &name, "", &owner, &grant)?;
            }
        }
        self.column_grants(&names)?;
        self.names = Some(names);
        Ok(())
    }

    /// Privileges on columns of tables and views.
    fn column_grants(&mut self, names: &Names) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), c.relname::text, \
             quote_ident(a.attname::text), c.relowner::int8, array_to_string(a.attacl, E'\\n') \
             FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE a.attacl IS NOT NULL AND NOT a.attisdropped AND {NOT_SYSTEM} ORDER BY c.oid, a.attnum"
        ))?;
        for row in &rows {
            let (name, plain) = (self.text(row, 0)?, self.text(row, 1)?);
            if !self.tables.is_empty() && !self.tables.iter().any(|wanted| *wanted == plain || *wanted == name) {
                continue;
            }
            let column = format!(" ({})", self.text(row, 2)?);
            let owner = row.get::<_, i64>(3).map_err(|source| self.failed(source))?;
            let owner = quoted_name(&names.of(u32::try_from(owner).unwrap_or_default()));
            for grant in self.text(row, 4)?.lines().filter_map(|item| names.grant(item)) {
                self.grant("TABLE", &name, &column, &owner, &grant)?;
            }
        }
        Ok(())
    }

    /// Policies of row-level security, and the tables that they hold for.
    pub(super) fn policies(&mut self) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), quote_ident(p.polname::text), \
             p.polcmd::text, p.polpermissive::text, array_to_string(p.polroles, ','), \
             pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid) \
             FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE {NOT_SYSTEM} ORDER BY p.oid"
        ))?;
        for row in &rows {
            let mut policy = format!("CREATE POLICY {} ON {}", self.text(row, 1)?, self.text(row, 0)?);
            if self.text(row, 3)? == "false" {
                policy += " AS RESTRICTIVE";
            }
            policy += match self.text(row, 2)?.as_str() {
                "r" => " FOR SELECT",
                "a" => " FOR INSERT",
                "w" => " FOR UPDATE",
                "d" => " FOR DELETE",
                _ => "",
            };
            let numbers = self.text(row, 4)?;
            let role = |number: &str| match (number.parse().unwrap_or_default(), &self.names) {
                (0, _) => "PUBLIC".to_owned(),
                (number, Some(names)) => quoted_name(&names.of(number)),
                (number, None) => quoted_name(&format!("unknown (OID={number})")),
            };
            let roles: Vec<String> = numbers.split(',').map(role).collect();
            policy += &format!(" TO {}", roles.join(", "));
            for (word, column) in [("USING", 5), ("WITH CHECK", 6)] {
                if let Some(condition) = self.maybe(row, column)? {
                    policy += &format!(" {word} ({condition})");
                }
            }
            writeln!(self.out, "{policy};")?;
        }
        let rows = self.query(&format!(
            "SELECT quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), c.relrowsecurity::text, \
             c.relforcerowsecurity::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE (c.relrowsecurity OR c.relforcerowsecurity) AND {NOT_SYSTEM} ORDER BY c.oid"
        ))?;
        for row in &rows {
            let table = self.text(row, 0)?;
            for (word, column) in [("ENABLE", 1), ("FORCE", 2)] {
                if self.text(row, column)? == "true" {
                    writeln!(self.out, "ALTER TABLE {table} {word} ROW LEVEL SECURITY;")?;
                }
            }
        }
        Ok(())
    }

    /// GRANTs on an object, or on a column of it: ` (column)`.
    fn grant(&mut self, kind: &str, name: &str, column: &str, owner: &str, grant: &Grant) -> Result<()> {
        let to = grant.to.as_ref().map_or_else(|| "PUBLIC".to_owned(), |to| quoted_name(to));
        let by = quoted_name(&grant.by);
        let is_others = by != owner;
        if is_others {
            writeln!(self.out, "SET SESSION AUTHORIZATION {by};")?;
        }
        for (words, option) in [(&grant.plain, ""), (&grant.grantable, " WITH GRANT OPTION")] {
            if !words.is_empty() {
                let words: Vec<String> = words.iter().map(|word| format!("{word}{column}")).collect();
                writeln!(self.out, "GRANT {} ON {kind} {name} TO {to}{option};", words.join(", "))?;
            }
        }
        if is_others {
            writeln!(self.out, "RESET SESSION AUTHORIZATION;")?;
        }
        Ok(())
    }

    fn owned(&mut self) -> Result<Vec<Owned>> {
        let mut all = Vec::new();
        let schemas = format!(
            "SELECT 'n', quote_ident(n.nspname::text), n.nspowner::int8, array_to_string(n.nspacl, E'\\n'), \
             (n.nspname::text <> 'public')::text, n.nspname::text, n.nspname::text FROM pg_namespace n WHERE {NOT_SYSTEM} ORDER BY n.oid"
        );
        // Sequences of columns have the owner of the table.
        let relations = format!(
            "SELECT c.relkind::text, quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), c.relowner::int8, \
             array_to_string(c.relacl, E'\\n'), (NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid \
             AND d.deptype::text IN ('a', 'i') AND c.relkind::text = 'S'))::text, c.relname::text, n.nspname::text \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind::text IN ('r', 'v', 'm', 'S') AND {NOT_SYSTEM} ORDER BY c.oid"
        );
        let mut queries = vec![relations];
        if self.tables.is_empty() {
            queries.insert(0, schemas);
        }
        for query in queries {
            for row in &self.query(&query)? {
                let kind = match self.text(row, 0)?.as_str() {
                    "n" => "SCHEMA",
                    "v" => "VIEW",
                    "S" => "SEQUENCE",
                    _ => "TABLE",
                };
                let (name, plain) = (self.text(row, 1)?, self.text(row, 5)?);
                let is_wanted = self.tables.is_empty()
                    || kind == "TABLE" && self.tables.iter().any(|wanted| *wanted == plain || *wanted == name);
                if !is_wanted {
                    continue;
                }
                let owner = row.get::<_, i64>(2).map_err(|source| self.failed(source))?;
                all.push(Owned {
                    kind,
                    name,
                    owner: u32::try_from(owner).unwrap_or_default(),
                    has_owner: self.text(row, 4)? == "true",
                    grants: self.maybe(row, 3)?,
                });
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_end_where_they_end() {
        assert_eq!(name_of("alice=r/bob"), Some(("alice".to_owned(), "=r/bob")));
        assert_eq!(name_of("=r/bob"), Some((String::new(), "=r/bob")));
        assert_eq!(name_of("\"a\"\"b/=\"=r"), Some(("a\"b/=".to_owned(), "=r")));
        assert_eq!(name_of("\"open"), None);
    }
}
