//! `colibri dump --sql`: a database as SQL that psql reads, into Colibri or PostgreSQL.
//!
//! All of it is read in one transaction, from the catalogue that clients see. Objects that rows
//! depend on come first, constraints that check rows afterwards:
//!
//! ```text
//! (roles) ─ schemas ─ extensions ─ enums, composite types and domains ─ functions ─ sequences ─ tables with their keys ─ functions
//! of their rows ─ what is a partition of what ─ rows ─ values of sequences ─ UNIQUE, CHECK that is NOT VALID, indexes ─ foreign keys ─ views ─ indexes and rows of
//! materialized ones ─ (owners, grants) ─ triggers ─ settings that a server keeps
//! ```

mod roles;
mod routines;
mod settings;
mod text_search;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use colibri::EncryptionKey;
use colibri::sql::{self, Connection};

use crate::failure::{Failure, Result};
use roles::Names;

/// How the definition of a constraint ends that does not hold for all rows.
const NOT_VALID: &str = " NOT VALID";
/// Schemas that every database has.
const NOT_SYSTEM: &str = "n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";

struct Dump<'a> {
    dir: &'a Path,
    connection: Connection,
    out: &'a mut dyn Write,
    /// Only these, if any are named.
    tables: &'a [String],
    serials: Vec<Serial>,
    /// Statements about domains that come after the sequences.
    later: Vec<String>,
    /// Those that come after the rows.
    last: Vec<String>,
    /// For roles, owners and grants, if they are wanted.
    names: Option<Names>,
    /// The records of the server that the database belongs to, if it belongs to one.
    cluster: Option<PathBuf>,
    /// Of the database, and of these records.
    key: Option<EncryptionKey>,
}

/// A column that was declared as `serial`, and the sequence that came with it.
struct Serial {
    sequence: i64,
    table: i64,
    column: String,
    ty: &'static str,
}

/// A table, a sequence or a view.
struct Relation {
    oid: i64,
    schema: String,
    /// Its name without quotes.
    plain: String,
    /// Its name with the schema, quoted where that is needed.
    name: String,
}

/// Writes a database as SQL; with the records of a server's roles, these as well, and owners and
/// grants.
pub(crate) fn dump(
    dir: &Path,
    tables: &[String],
    cluster: Option<&Path>,
    key: Option<EncryptionKey>,
    out: &mut dyn Write,
) -> Result<()> {
    let failed = |source| Failure::Sql { dir: dir.to_owned(), source: Box::new(source) };
    let options = colibri::Options::new().create(false).encryption_key(key.clone());
    let storage = crate::database::open(dir, &options)?;
    let database = sql::Database::with_storage(storage).map_err(failed)?;
    let names = cluster.map(|cluster| Names::read(cluster, key.clone())).transpose()?;
    let cluster = cluster.map(Path::to_owned).or_else(|| settings::cluster_of(dir));
    let mut dump = Dump {
        dir,
        connection: database.connect(),
        out,
        tables,
        serials: Vec::new(),
        later: Vec::new(),
        last: Vec::new(),
        names,
        cluster,
        key,
    };
    dump.run()
}

/// The name of a collation as `c`, with its schema where it is not the system's.
const COLLATION: &str = "CASE WHEN c.collnamespace = 'pg_catalog'::regnamespace THEN '' \
     ELSE quote_ident(c.collnamespace::regnamespace::text) || '.' END || quote_ident(c.collname::text)";

impl Dump<'_> {
    /// The collations that users have made.
    fn collations(&mut self) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT {COLLATION}, c.collprovider::text, quote_literal(coalesce(c.colliculocale, c.collcollate)), \
             c.collisdeterministic::text FROM pg_collation c WHERE c.collnamespace <> 'pg_catalog'::regnamespace \
             ORDER BY c.oid"
        ))?;
        for row in &rows {
            let (name, locale) = (self.text(row, 0)?, self.text(row, 2)?);
            let provider = if self.text(row, 1)? == "i" { "icu" } else { "libc" };
            let loose = if self.text(row, 3)?.starts_with('t') { "" } else { ", deterministic = false" };
            writeln!(self.out, "CREATE COLLATION {name} (provider = {provider}{loose}, locale = {locale});")?;
        }
        Ok(())
    }

    fn failed(&self, source: sql::Error) -> Failure {
        Failure::Sql { dir: self.dir.to_owned(), source: Box::new(source) }
    }

    fn query(&mut self, text: &str) -> Result<Vec<sql::Row>> {
        self.connection.query(text, ()).map_err(|source| self.failed(source))
    }

    fn text(&self, row: &sql::Row, column: usize) -> Result<String> {
        Ok(self.maybe(row, column)?.unwrap_or_default())
    }

    fn maybe(&self, row: &sql::Row, column: usize) -> Result<Option<String>> {
        row.get::<_, Option<String>>(column).map_err(|source| self.failed(source))
    }

    fn run(&mut self) -> Result<()> {
        // Definitions then contain names with their schemas.
        let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SET LOCAL search_path = pg_catalog";
        self.connection.batch(begin).map_err(|source| self.failed(source))?;
        self.ensure_wanted()?;
        writeln!(self.out, "-- Made by colibri dump --sql. Load it with: psql -v ON_ERROR_STOP=1 -1 -f FILE\n")?;
        writeln!(self.out, "SET client_encoding = 'UTF8';\nSET standard_conforming_strings = on;\n")?;
        self.roles()?;
        if self.tables.is_empty() {
            self.schemas()?;
            self.extensions()?;
            self.collations()?;
            self.text_search()?;
            self.types()?;
            self.routines(false)?;
            self.operators(false)?;
        }
        self.serials = self.serials()?;
        let sequences = self.sequences()?;
        let later = std::mem::take(&mut self.later);
        self.statements(later)?;
        let plain = self.relations("r")?;
        let partitioned = self.relations("p")?;
        let mut tables: Vec<&Relation> = plain.iter().chain(&partitioned).collect();
        tables.sort_by_key(|table| table.oid);
        for table in &tables {
            self.table(table)?;
        }
        if self.tables.is_empty() {
            self.routines(true)?;
            self.operators(true)?;
            self.aggregates_and_casts()?;
        }
        self.partitions(&tables)?;
        for table in &plain {
            self.rows(table)?;
        }
        let last = std::mem::take(&mut self.last);
        self.statements(last)?;
        self.values(&sequences)?;
        for table in &tables {
            self.constraints(table, "u")?;
            self.constraints(table, "x")?;
            self.constraints(table, "c")?;
            self.indexes(table)?;
        }
        self.parts_of_indexes(&tables)?;
        for table in &tables {
            self.constraints(table, "f")?;
        }
        self.views()?;
        self.grants()?;
        if self.tables.is_empty() {
            self.rules()?;
            self.statistics()?;
            self.triggers()?;
            self.policies()?;
            self.settings()?;
        }
        self.connection.batch("ROLLBACK").map_err(|source| self.failed(source))
    }

    fn extensions(&mut self) -> Result<()> {
        let rows = self.query(
            "SELECT quote_ident(e.extname::text), quote_ident(n.nspname::text) FROM pg_extension e \
             JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname <> 'plpgsql' ORDER BY e.oid",
        )?;
        for row in &rows {
            let (name, schema) = (self.text(row, 0)?, self.text(row, 1)?);
            writeln!(self.out, "CREATE EXTENSION IF NOT EXISTS {name} WITH SCHEMA {schema};")?;
        }
        Ok(())
    }

    fn types(&mut self) -> Result<()> {
        let rows = self.query(
            "SELECT quote_ident(n.nspname::text) || '.' || quote_ident(t.typname::text), \
             array_to_string(ARRAY(SELECT quote_literal(e.enumlabel::text) FROM pg_enum e \
             WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder), ', '), \
             t.typtype::text, t.oid::text, (SELECT concat_ws(', ', 'SUBTYPE = ' || format_type(r.rngsubtype, NULL), \
             'MULTIRANGE_TYPE_NAME = ' || quote_ident(n.nspname::text) || '.' || quote_ident(m.typname::text), \
             'SUBTYPE_DIFF = ' || NULLIF(r.rngsubdiff::regproc::text, '-')) FROM pg_range r \
             JOIN pg_type m ON m.oid = r.rngmultitypid WHERE r.rngtypid = t.oid) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace \
             WHERE (t.typtype IN ('e', 'd') OR t.typtype = 'r' AND n.nspname <> 'pg_catalog' OR t.typtype = 'c' AND EXISTS (SELECT 1 FROM pg_class k \
             WHERE k.oid = t.typrelid AND k.relkind = 'c')) \
             AND n.nspname <> 'information_schema' \
             AND t.oid NOT IN (SELECT objid FROM pg_depend WHERE classid = 'pg_type'::regclass AND deptype = 'e') \
             ORDER BY t.oid",
        )?;
        for row in &rows {
            let (name, labels) = (self.text(row, 0)?, self.text(row, 1)?);
            match self.text(row, 2)?.as_str() {
                "d" => self.domain(&name, &self.text(row, 3)?)?,
                "c" => self.composite(&name, &self.text(row, 3)?)?,
                "r" => writeln!(self.out, "CREATE TYPE {name} AS RANGE ({});", self.text(row, 4)?)?,
                _ => writeln!(self.out, "CREATE TYPE {name} AS ENUM ({labels});")?,
            }
        }
        Ok(())
    }

    fn composite(&mut self, name: &str, number: &str) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT quote_ident(a.attname::text), format_type(a.atttypid, a.atttypmod), {COLLATION} \
             FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid JOIN pg_type b ON b.oid = a.atttypid \
             LEFT JOIN pg_collation c ON c.oid = a.attcollation AND c.oid <> b.typcollation \
             WHERE t.oid = {number}::oid AND NOT a.attisdropped ORDER BY a.attnum"
        ))?;
        let mut fields = Vec::with_capacity(rows.len());
        for row in &rows {
            let collation = self.maybe(row, 2)?.map_or_else(String::new, |name| format!(" COLLATE {name}"));
            fields.push(format!("{} {}{collation}", self.text(row, 0)?, self.text(row, 1)?));
        }
        writeln!(self.out, "CREATE TYPE {name} AS ({});", fields.join(", "))?;
        Ok(())
    }

    /// A domain. What needs a sequence, and what rows may violate, comes later.
    fn domain(&mut self, name: &str, number: &str) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT format_type(t.typbasetype, t.typtypmod), {COLLATION}, \
             pg_get_expr(t.typdefaultbin, 0), t.typnotnull::text FROM pg_type t \
             JOIN pg_type b ON b.oid = t.typbasetype \
             LEFT JOIN pg_collation c ON c.oid = t.typcollation AND c.oid <> b.typcollation WHERE t.oid = {number}::oid"
        ))?;
        let Some(row) = rows.first() else { return Ok(()) };
        let mut domain = format!("CREATE DOMAIN {name} AS {}", self.text(row, 0)?);
        if let Some(collation) = self.maybe(row, 1)? {
            domain += &format!(" COLLATE {collation}");
        }
        match self.maybe(row, 2)? {
            Some(default) if default.contains("nextval(") => {
                self.later.push(format!("ALTER DOMAIN {name} SET DEFAULT {default};"));
            }
            Some(default) => domain += &format!(" DEFAULT {default}"),
            None => {}
        }
        if self.text(row, 3)? == "true" {
            domain += " NOT NULL";
        }
        let checks = self.query(&format!(
            "SELECT quote_ident(conname::text), pg_get_constraintdef(oid, true) FROM pg_constraint \
             WHERE contypid = {number}::oid ORDER BY oid"
        ))?;
        let mut not_valid = Vec::new();
        for row in &checks {
            let (constraint, definition) = (self.text(row, 0)?, self.text(row, 1)?);
            if definition.ends_with(NOT_VALID) {
                not_valid.push(format!("ALTER DOMAIN {name} ADD CONSTRAINT {constraint} {definition};"));
            } else {
                domain += &format!(" CONSTRAINT {constraint} {definition}");
            }
        }
        self.last.append(&mut not_valid);
        writeln!(self.out, "{domain};")?;
        Ok(())
    }

    /// Statements that had to wait for others.
    fn statements(&mut self, statements: Vec<String>) -> Result<()> {
        for statement in statements {
            writeln!(self.out, "{statement}")?;
        }
        Ok(())
    }

    /// Relations of a kind, in the order in which they were made.
    fn relations(&mut self, kind: &str) -> Result<Vec<Relation>> {
        let rows = self.query(&format!(
            "SELECT c.oid::int8, n.nspname::text, c.relname::text, \
             quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text) \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind = '{kind}' AND {NOT_SYSTEM} ORDER BY c.oid"
        ))?;
        let mut relations = Vec::new();
        for row in &rows {
            let oid = row.get(0).map_err(|source| self.failed(source))?;
            let (schema, plain, name) = (self.text(row, 1)?, self.text(row, 2)?, self.text(row, 3)?);
            let is_wanted =
                self.tables.is_empty() || self.tables.iter().any(|wanted| *wanted == plain || *wanted == name);
            if is_wanted {
                relations.push(Relation { oid, schema, plain, name });
            }
        }
        Ok(relations)
    }

    /// Checks that all named tables exist before anything is written.
    fn ensure_wanted(&mut self) -> Result<()> {
        let (tables, mut views) = (self.relations("r")?, self.relations("v")?);
        views.extend(self.relations("p")?);
        views.extend(self.relations("m")?);
        let has = |wanted: &&String| {
            tables.iter().chain(&views).any(|relation| **wanted == relation.plain || **wanted == relation.name)
        };
        match self.tables.iter().find(|wanted| !has(wanted)) {
            Some(name) => Err(Failure::NoTableOfSql { dir: self.dir.to_owned(), name: name.clone() }),
            None => Ok(()),
        }
    }

    fn schemas(&mut self) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT quote_ident(n.nspname::text) FROM pg_namespace n WHERE {NOT_SYSTEM} AND n.nspname <> 'public' ORDER BY n.oid"
        ))?;
        for row in &rows {
            writeln!(self.out, "CREATE SCHEMA {};", self.text(row, 0)?)?;
        }
        Ok(())
    }

    /// Columns whose sequences belong to them and are what `serial` makes.
    fn serials(&mut self) -> Result<Vec<Serial>> {
        let rows = self.query(
            "SELECT d.objid::int8, d.refobjid::int8, quote_ident(a.attname::text), format_type(a.atttypid, a.atttypmod) \
             FROM pg_depend d JOIN pg_class s ON s.oid = d.objid JOIN pg_class t ON t.oid = d.refobjid \
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid \
             JOIN pg_namespace n ON n.oid = s.relnamespace \
             JOIN pg_sequences q ON q.schemaname = n.nspname AND q.sequencename = s.relname \
             WHERE d.deptype::text = 'a' AND s.relkind::text = 'S' AND s.relnamespace = t.relnamespace AND a.attnotnull \
             AND a.attidentity::text = '' \
             AND s.relname::text = t.relname::text || '_' || a.attname::text || '_seq' \
             AND q.start_value = 1 AND q.min_value = 1 AND q.increment_by = 1 AND NOT q.cycle",
        )?;
        let mut serials = Vec::new();
        for row in &rows {
            let ty = match self.text(row, 3)?.as_str() {
                "smallint" => "smallserial",
                "integer" => "serial",
                "bigint" => "bigserial",
                _ => continue,
            };
            let oid = |column| row.get::<_, i64>(column).map_err(|source| self.failed(source));
            serials.push(Serial { sequence: oid(0)?, table: oid(1)?, column: self.text(row, 2)?, ty });
        }
        Ok(serials)
    }

    /// Writes the sequences, without those that serial and identity columns create; gives all.
    fn sequences(&mut self) -> Result<Vec<Relation>> {
        let mut sequences = if self.tables.is_empty() { self.relations("S")? } else { Vec::new() };
        // Sequences of columns get other numbers after a load.
        sequences.sort_by(|a, b| a.name.cmp(&b.name));
        for sequence in &sequences {
            if self.serials.iter().any(|serial| serial.sequence == sequence.oid) {
                continue;
            }
            let rows = self.query(&format!(
                "SELECT s.data_type::text, s.start_value::text, s.min_value::text, s.max_value::text, \
                 s.increment_by::text, s.cycle::text FROM pg_sequences s \
                 WHERE s.schemaname = {} AND s.sequencename = {} AND NOT EXISTS (SELECT 1 FROM pg_depend d \
                 WHERE d.objid = {}::oid AND d.refobjid <> d.objid AND d.deptype = 'i')",
                quoted(&sequence.schema),
                quoted(&sequence.plain),
                sequence.oid
            ))?;
            for row in &rows {
                let field = |column| self.text(row, column);
                let (ty, start, min, max, by) = (field(0)?, field(1)?, field(2)?, field(3)?, field(4)?);
                let ty = match ty.as_str() {
                    "20" => "bigint".to_owned(),
                    "21" => "smallint".to_owned(),
                    "23" => "integer".to_owned(),
                    _ => ty,
                };
                let cycle = if field(5)? == "true" { " CYCLE" } else { "" };
                let name = &sequence.name;
                writeln!(
                    self.out,
                    "CREATE SEQUENCE {name} AS {ty} START {start} INCREMENT {by} MINVALUE {min} MAXVALUE {max}{cycle};"
                )?;
            }
        }
        Ok(sequences)
    }

    /// Columns as they are declared, and their names.
    fn columns(&mut self, table: &Relation) -> Result<(Vec<String>, Vec<String>)> {
        let rows = self.query(&format!(
            "SELECT quote_ident(a.attname::text), format_type(a.atttypid, a.atttypmod), a.attnotnull::text, \
             pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, {COLLATION}, a.attgenerated::text, \
             CASE a.attcompression::text WHEN 'l' THEN 'lz4' WHEN 'p' THEN 'pglz' END \
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
             LEFT JOIN pg_collation c ON c.oid = a.attcollation AND c.oid <> t.typcollation LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
             WHERE a.attrelid = {}::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            table.oid
        ))?;
        let (mut declared, mut names) = (Vec::new(), Vec::new());
        for row in &rows {
            let (name, mut column) = (self.text(row, 0)?, format!("{} {}", self.text(row, 0)?, self.text(row, 1)?));
            let is_it = |serial: &&Serial| serial.table == table.oid && serial.column == name;
            if let Some(serial) = self.serials.iter().find(is_it) {
                declared.push(format!("{name} {}", serial.ty));
                names.push(name);
                continue;
            }
            if let Some(method) = self.maybe(row, 7)? {
                column += &format!(" COMPRESSION {method}");
            }
            if let Some(collation) = self.maybe(row, 5)? {
                column += &format!(" COLLATE {collation}");
            }
            match self.text(row, 4)?.as_str() {
                kind @ ("d" | "a") => {
                    let when = if kind == "a" { "ALWAYS" } else { "BY DEFAULT" };
                    let options = self.identity_options(table, &name)?;
                    column += &format!(" GENERATED {when} AS IDENTITY{options}");
                }
                _ => {
                    if let Some(default) = self.maybe(row, 3)? {
                        column += &match self.text(row, 6)?.as_str() {
                            "s" => format!(" GENERATED ALWAYS AS {default} STORED"),
                            _ => format!(" DEFAULT {default}"),
                        };
                    }
                }
            }
            if self.text(row, 2)? == "true" {
                column += " NOT NULL";
            }
            declared.push(column);
            // Values that are computed are not loaded.
            if self.text(row, 6)? != "s" {
                names.push(name);
            }
        }
        Ok((declared, names))
    }

    /// What the sequence of an identity column is, in parentheses.
    fn identity_options(&mut self, table: &Relation, quoted_column: &str) -> Result<String> {
        let rows = self.query(&format!(
            "SELECT quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), q.seqstart::text, \
             q.seqincrement::text, q.seqmin::text, q.seqmax::text, q.seqcache::text, q.seqcycle::text \
             FROM pg_depend d JOIN pg_class c ON c.oid = d.objid JOIN pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_sequence q ON q.seqrelid = c.oid \
             JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
             WHERE d.refobjid = {}::oid AND d.deptype = 'i' AND c.relkind = 'S' AND quote_ident(a.attname::text) = {}",
            table.oid,
            quoted(quoted_column)
        ))?;
        let Some(row) = rows.first() else { return Ok(String::new()) };
        let field = |at| self.text(row, at);
        let cycle = if field(6)? == "true" { " CYCLE" } else { "" };
        Ok(format!(
            " (SEQUENCE NAME {} START WITH {} INCREMENT BY {} MINVALUE {} MAXVALUE {} CACHE {}{cycle})",
            field(0)?,
            field(1)?,
            field(2)?,
            field(3)?,
            field(4)?,
            field(5)?
        ))
    }

    /// Constraints of a kind: names, quoted, and definitions.
    fn constraints_of(&mut self, table: &Relation, kinds: &str) -> Result<Vec<(String, String)>> {
        let rows = self.query(&format!(
            "SELECT quote_ident(conname::text), pg_get_constraintdef(oid, true) FROM pg_constraint \
             WHERE conrelid = {}::oid AND contype::text IN ({kinds}) AND NOT (contype = 'f' AND conparentid <> 0) \
             ORDER BY oid",
            table.oid
        ))?;
        rows.iter().map(|row| Ok((self.text(row, 0)?, self.text(row, 1)?))).collect()
    }

    /// A table with the constraints that hold while rows are loaded: its primary key, and CHECK.
    fn table(&mut self, table: &Relation) -> Result<()> {
        let (mut parts, _) = self.columns(table)?;
        for (name, definition) in self.constraints_of(table, "'p', 'c'")? {
            // One that is not valid may not hold for the rows that are loaded.
            if !definition.ends_with(NOT_VALID) {
                parts.push(format!("CONSTRAINT {name} {definition}"));
            }
        }
        let rows = self.query(&format!("SELECT pg_get_partkeydef({}::oid)", table.oid))?;
        let key = rows.first().map(|row| self.maybe(row, 0)).transpose()?.flatten();
        let key = key.map(|key| format!(" PARTITION BY {key}")).unwrap_or_default();
        let rows = self.query(&format!(
            "SELECT (SELECT string_agg(split_part(o, '=', 1) || '=' || quote_literal(substr(o, strpos(o, '=') + 1)), ', ') \
             FROM unnest(c.reloptions) AS o) FROM pg_class c WHERE c.oid = {}::oid",
            table.oid
        ))?;
        let options = rows.first().map(|row| self.maybe(row, 0)).transpose()?.flatten();
        let with = options.map(|options| format!(" WITH ({options})")).unwrap_or_default();
        writeln!(self.out, "\nCREATE TABLE {} (\n    {}\n){key}{with};", table.name, parts.join(",\n    "))?;
        self.storage_of_columns(table)
    }

    /// What SET STORAGE has said of a table's columns.
    fn storage_of_columns(&mut self, table: &Relation) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT quote_ident(a.attname::text), CASE a.attstorage::text WHEN 'p' THEN 'PLAIN' \
             WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END \
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
             WHERE a.attrelid = {}::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage <> t.typstorage \
             ORDER BY a.attnum",
            table.oid
        ))?;
        for row in &rows {
            let (column, storage) = (self.text(row, 0)?, self.text(row, 1)?);
            writeln!(self.out, "ALTER TABLE ONLY {} ALTER COLUMN {column} SET STORAGE {storage};", table.name)?;
        }
        Ok(())
    }

    /// Makes tables the partitions and the heirs that they are, if the table above is written as well.
    fn partitions(&mut self, tables: &[&Relation]) -> Result<()> {
        let rows = self.query(
            "SELECT i.inhparent::int8, i.inhrelid::int8, pg_get_expr(c.relpartbound, c.oid) \
             FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
             WHERE c.relkind IN ('r', 'p') ORDER BY i.inhrelid, i.inhseqno",
        )?;
        for row in &rows {
            let parent: i64 = row.get(0).map_err(|source| self.failed(source))?;
            let partition: i64 = row.get(1).map_err(|source| self.failed(source))?;
            let bound = self.maybe(row, 2)?;
            let named = |oid: i64| tables.iter().find(|table| table.oid == oid).map(|table| table.name.as_str());
            if let (Some(parent), Some(partition)) = (named(parent), named(partition)) {
                match bound {
                    Some(bound) => writeln!(self.out, "ALTER TABLE {parent} ATTACH PARTITION {partition} {bound};")?,
                    None => writeln!(self.out, "ALTER TABLE {partition} INHERIT {parent};")?,
                }
            }
        }
        Ok(())
    }

    /// Makes indexes of partitions the parts that they are of those of their tables. Primary keys
    /// became parts with their tables.
    fn parts_of_indexes(&mut self, tables: &[&Relation]) -> Result<()> {
        let rows = self.query(
            "SELECT quote_ident(n.nspname::text) || '.' || quote_ident(p.relname::text), \
             quote_ident(m.nspname::text) || '.' || quote_ident(c.relname::text), x.indrelid::int8, y.indrelid::int8 \
             FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid \
             JOIN pg_namespace n ON n.oid = p.relnamespace JOIN pg_namespace m ON m.oid = c.relnamespace \
             JOIN pg_index x ON x.indexrelid = p.oid JOIN pg_index y ON y.indexrelid = c.oid \
             WHERE NOT x.indisprimary ORDER BY y.indrelid, c.relname",
        )?;
        for row in &rows {
            let (parent, part) = (self.text(row, 0)?, self.text(row, 1)?);
            let above: i64 = row.get(2).map_err(|source| self.failed(source))?;
            let table: i64 = row.get(3).map_err(|source| self.failed(source))?;
            let is_written = |oid: i64| tables.iter().any(|table| table.oid == oid);
            if is_written(above) && is_written(table) {
                writeln!(self.out, "ALTER INDEX {parent} ATTACH PARTITION {part};")?;
            }
        }
        Ok(())
    }

    fn rows(&mut self, table: &Relation) -> Result<()> {
        let (_, names) = self.columns(table)?;
        if names.is_empty() {
            return self.rows_without_columns(table);
        }
        let list = names.join(", ");
        writeln!(self.out, "\nCOPY {} ({list}) FROM stdin;", table.name)?;
        let copy = format!("COPY {} ({list}) TO STDOUT", table.name);
        if let Err(source) = self.connection.copy_out(&copy, self.out) {
            return Err(self.failed(source));
        }
        writeln!(self.out, "\\.")?;
        Ok(())
    }

    /// COPY cannot load rows of a table without columns, so INSERTs make as many rows as there are.
    fn rows_without_columns(&mut self, table: &Relation) -> Result<()> {
        let rows = self.query(&format!("SELECT count(*) FROM {}", table.name))?;
        let count: i64 = rows[0].get(0).map_err(|source| self.failed(source))?;
        for _ in 0..count {
            writeln!(self.out, "INSERT INTO {} DEFAULT VALUES;", table.name)?;
        }
        Ok(())
    }

    /// The positions of sequences.
    fn values(&mut self, sequences: &[Relation]) -> Result<()> {
        writeln!(self.out)?;
        for sequence in sequences {
            let rows = self.query(&format!(
                "SELECT last_value::text FROM pg_sequences WHERE schemaname = {} AND sequencename = {}",
                quoted(&sequence.schema),
                quoted(&sequence.plain)
            ))?;
            for row in &rows {
                if let Some(last) = self.maybe(row, 0)? {
                    writeln!(self.out, "SELECT pg_catalog.setval({}, {last}, true);", quoted(&sequence.name))?;
                }
            }
        }
        Ok(())
    }

    fn constraints(&mut self, table: &Relation, kind: &str) -> Result<()> {
        for (name, definition) in self.constraints_of(table, &format!("'{kind}'"))? {
            if kind == "c" && !definition.ends_with(NOT_VALID) {
                continue;
            }
            // A partition's own part is written by itself, and follows as one.
            let only = if kind == "u" { "ONLY " } else { "" };
            writeln!(self.out, "ALTER TABLE {only}{} ADD CONSTRAINT {name} {definition};", table.name)?;
        }
        Ok(())
    }

    /// Indexes that do not belong to a constraint.
    fn indexes(&mut self, table: &Relation) -> Result<()> {
        let rows = self.query(&format!(
            "SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = {}::oid \
             AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype::text IN ('p', 'u', 'x')) \
             ORDER BY i.indexrelid",
            table.oid
        ))?;
        for row in &rows {
            writeln!(self.out, "{};", self.text(row, 0)?)?;
        }
        Ok(())
    }

    fn views(&mut self) -> Result<()> {
        let mut reads: HashMap<i64, Vec<i64>> = HashMap::new();
        for row in &self.query(
            "SELECT v.oid::int8, d.refobjid::int8 FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid \
             AND d.classid = 'pg_rewrite'::regclass AND d.deptype = 'n' JOIN pg_class v ON v.oid = w.ev_class \
             JOIN pg_class r ON r.oid = d.refobjid \
             WHERE v.relkind::text IN ('v', 'm') AND r.relkind::text IN ('v', 'm')",
        )? {
            let oid = |column| row.get::<_, i64>(column).map_err(|source| self.failed(source));
            reads.entry(oid(0)?).or_default().push(oid(1)?);
        }
        let (mut views, with_rows) = (self.relations("v")?, self.relations("m")?);
        let materialized: HashSet<i64> = with_rows.iter().map(|view| view.oid).collect();
        views.extend(with_rows);
        views.sort_by_key(|view| view.oid);
        let views = in_order(views, &reads);
        for view in &views {
            let rows = self.query(&format!(
                "SELECT pg_get_viewdef(c.oid), array_to_string(c.reloptions, ', ') FROM pg_class c WHERE c.oid = {}::oid",
                view.oid
            ))?;
            for row in &rows {
                // Names in it are as they were written.
                let schema = quoted_name(&view.schema);
                writeln!(self.out, "\nSET search_path = {schema}, public;")?;
                let definition = self.text(row, 0)?;
                let definition = definition.trim().trim_end_matches(';');
                if materialized.contains(&view.oid) {
                    let columns = self.columns(view)?.1.join(", ");
                    let columns = if columns.is_empty() { columns } else { format!(" ({columns})") };
                    let name = &view.name;
                    writeln!(self.out, "CREATE MATERIALIZED VIEW {name}{columns} AS {definition} WITH NO DATA;")?;
                } else {
                    let options = self.maybe(row, 1)?;
                    let with = options.map(|options| format!(" WITH ({options})")).unwrap_or_default();
                    writeln!(self.out, "CREATE VIEW {}{with} AS {definition};", view.name)?;
                    self.defaults_of_view(view)?;
                }
            }
        }
        for view in views.iter().filter(|view| materialized.contains(&view.oid)) {
            self.indexes(view)?;
            let rows =
                self.query(&format!("SELECT relispopulated::text FROM pg_class WHERE oid = {}::oid", view.oid))?;
            for row in &rows {
                if self.text(row, 0)? == "true" {
                    writeln!(self.out, "REFRESH MATERIALIZED VIEW {};", view.name)?;
                }
            }
        }
        Ok(())
    }
}

impl Dump<'_> {
    /// The defaults that a view has for rows that are inserted into it.
    fn defaults_of_view(&mut self, view: &Relation) -> Result<()> {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let rows = self.query(&format!(
            "SELECT quote_ident(column_name::text), column_default::text FROM information_schema.columns \
             WHERE table_schema = {} AND table_name = {} AND column_default IS NOT NULL ORDER BY ordinal_position",
            literal(&view.schema),
            literal(&view.plain)
        ))?;
        for row in &rows {
            let (column, default) = (self.text(row, 0)?, self.text(row, 1)?);
            writeln!(self.out, "ALTER VIEW {} ALTER COLUMN {column} SET DEFAULT {default};", view.name)?;
        }
        Ok(())
    }
}

/// Views, each after those that it reads: a replaced view may read one that was created after it.
fn in_order(views: Vec<Relation>, reads: &HashMap<i64, Vec<i64>>) -> Vec<Relation> {
    let mut missing: HashSet<i64> = views.iter().map(|view| view.oid).collect();
    let (mut ordered, mut rest) = (Vec::with_capacity(views.len()), views);
    while !rest.is_empty() {
        let is_ready =
            |view: &Relation| reads.get(&view.oid).is_none_or(|read| !read.iter().any(|it| missing.contains(it)));
        let (ready, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_ready);
        if ready.is_empty() {
            // Views in a circle cannot be created again, but they are not left out.
            ordered.extend(later);
            break;
        }
        for view in &ready {
            missing.remove(&view.oid);
        }
        ordered.extend(ready);
        rest = later;
    }
    ordered
}

/// A literal.
fn quoted(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
