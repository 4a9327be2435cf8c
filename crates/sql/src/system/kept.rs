//! Rows of system tables that are kept from one statement to the next.
//!
//! Making all rows of `pg_attribute` for one table's columns took a hundred times as long as
//! finding these. So rows that depend on the catalogue alone are made once, and all sessions of a
//! database share them until the catalogue or the roles change. What depends on the reader (the
//! views of `information_schema` list what a role may see, definitions name what the search path
//! does not have) is shared by readers that are alike.
//!
//! Invariants: kept rows belong to one state of the catalogue, which is known by its address. The
//! address is not used again while a [`Weak`] to it is held, and a catalogue to which one is held
//! is not changed in place ([`Arc::make_mut`] moves it elsewhere). At most [`BYTES_MAX`] are kept.
//! Rows are made without the lock: making them polls.

use std::sync::{Arc, Weak};

use colibri_catalog::Catalog;
use colibri_catalog::cluster::{Authority, Roles};
use colibri_catalog::system_tables::{Fresh, Lasting, MadeRows, SystemKey, SystemTable};
use colibri_types::{Env, Result, Type};
use parking_lot::Mutex;

use super::relations;
use crate::surroundings::{Names as _, SearchPath};

/// No more than this is kept in all: rows of `pg_attribute` for about 150,000 columns.
const BYTES_MAX: usize = 128 << 20;
/// For so many states of the catalogue and kinds of readers rows are kept.
const STATES_MAX: usize = 8;

// ---- what is known of tables ----

/// What is known of a system table besides its columns.
pub(super) struct Traits {
    pub(super) lasting: Lasting,
    pub(super) keys: Vec<SystemKey>,
    pub(super) rows_expected: f64,
    pub(super) fresh: Option<Fresh>,
}

/// A table whose rows are kept: its name, about how many rows it has, its keys with about how many
/// rows have the same value in them.
type Known = (&'static str, f64, &'static [(&'static str, f64)]);

/// Tables of `pg_catalog` that depend on the catalogue and the roles alone.
const OF_CATALOG: &[Known] = &[
    ("pg_aggregate", 200.0, &[]),
    ("pg_am", 8.0, &[("oid", 1.0)]),
    ("pg_amop", 500.0, &[("amopfamily", 10.0), ("amopopr", 2.0)]),
    ("pg_amproc", 200.0, &[("amprocfamily", 5.0)]),
    ("pg_attribute", 3_000.0, &[("attrelid", 8.0), ("attname", 50.0)]),
    ("pg_cast", 200.0, &[("oid", 1.0), ("castsource", 5.0), ("casttarget", 5.0)]),
    ("pg_class", 600.0, &[("oid", 1.0), ("relname", 1.0), ("relnamespace", 100.0), ("reltype", 1.0)]),
    ("pg_collation", 100.0, &[("oid", 1.0), ("collname", 1.0)]),
    (
        "pg_constraint",
        300.0,
        &[("oid", 1.0), ("conrelid", 3.0), ("confrelid", 3.0), ("conindid", 1.0), ("contypid", 1.0), ("conname", 1.0)],
    ),
    ("pg_depend", 3_000.0, &[("objid", 3.0), ("refobjid", 5.0)]),
    ("pg_description", 100.0, &[("objoid", 2.0)]),
    ("pg_enum", 100.0, &[("oid", 1.0), ("enumtypid", 5.0)]),
    ("pg_extension", 5.0, &[("oid", 1.0)]),
    ("pg_index", 300.0, &[("indexrelid", 1.0), ("indrelid", 3.0)]),
    ("pg_inherits", 20.0, &[("inhrelid", 1.0), ("inhparent", 5.0)]),
    ("pg_init_privs", 100.0, &[("objoid", 1.0)]),
    ("pg_language", 4.0, &[("oid", 1.0)]),
    ("pg_namespace", 5.0, &[("oid", 1.0), ("nspname", 1.0)]),
    ("pg_opclass", 100.0, &[("oid", 1.0), ("opcintype", 2.0), ("opcfamily", 2.0)]),
    ("pg_operator", 700.0, &[("oid", 1.0), ("oprname", 20.0)]),
    ("pg_opfamily", 100.0, &[("oid", 1.0)]),
    ("pg_partitioned_table", 5.0, &[("partrelid", 1.0)]),
    ("pg_policy", 5.0, &[("polrelid", 2.0)]),
    ("pg_proc", 3_000.0, &[("oid", 1.0), ("proname", 2.0), ("pronamespace", 1_000.0)]),
    ("pg_range", 6.0, &[("rngtypid", 1.0), ("rngsubtype", 1.0)]),
    ("pg_rewrite", 20.0, &[("oid", 1.0), ("ev_class", 1.0)]),
    ("pg_sequence", 50.0, &[("seqrelid", 1.0)]),
    ("pg_statistic_ext", 5.0, &[("stxrelid", 1.0)]),
    ("pg_tables", 300.0, &[("tablename", 1.0)]),
    ("pg_trigger", 100.0, &[("oid", 1.0), ("tgrelid", 3.0), ("tgconstraint", 4.0)]),
    (
        "pg_type",
        600.0,
        &[
            ("oid", 1.0),
            ("typname", 1.0),
            ("typrelid", 1.0),
            ("typelem", 1.0),
            ("typarray", 1.0),
            ("typnamespace", 300.0),
        ],
    ),
];

/// Those that depend on the reader as well: on what the search path has, or on rights.
const OF_READERS: &[Known] = &[
    ("pg_attrdef", 100.0, &[("oid", 1.0), ("adrelid", 3.0)]),
    ("pg_indexes", 300.0, &[("tablename", 3.0), ("indexname", 1.0)]),
    ("pg_policies", 5.0, &[("tablename", 2.0)]),
    ("pg_views", 50.0, &[("viewname", 1.0)]),
];

/// Tables of `information_schema`, which list what a reader may see.
const OF_STANDARD: &[Known] = &[
    ("check_constraints", 300.0, &[("constraint_name", 1.0)]),
    ("columns", 1_000.0, &[("table_name", 8.0)]),
    ("constraint_column_usage", 300.0, &[("table_name", 4.0), ("constraint_name", 1.0)]),
    ("constraint_table_usage", 200.0, &[("table_name", 2.0), ("constraint_name", 1.0)]),
    ("domain_constraints", 5.0, &[("constraint_name", 1.0), ("domain_name", 1.0)]),
    ("domains", 5.0, &[("domain_name", 1.0)]),
    ("key_column_usage", 200.0, &[("table_name", 3.0), ("constraint_name", 1.0)]),
    ("parameters", 50.0, &[("specific_name", 3.0)]),
    ("referential_constraints", 100.0, &[("constraint_name", 1.0), ("unique_constraint_name", 2.0)]),
    ("routines", 50.0, &[("routine_name", 1.0), ("specific_name", 1.0)]),
    ("schemata", 5.0, &[("schema_name", 1.0)]),
    ("sequences", 50.0, &[("sequence_name", 1.0)]),
    ("table_constraints", 400.0, &[("table_name", 4.0), ("constraint_name", 1.0)]),
    ("table_privileges", 2_000.0, &[("table_name", 7.0)]),
    ("tables", 200.0, &[("table_name", 1.0)]),
    ("triggers", 20.0, &[("event_object_table", 2.0), ("trigger_name", 1.0)]),
    ("view_table_usage", 50.0, &[("view_name", 2.0), ("table_name", 2.0)]),
    ("views", 50.0, &[("table_name", 1.0)]),
];

/// About how many rows a table has of which nothing is known.
const ROWS_UNKNOWN: f64 = 100.0;

/// What is known of a table.
pub(super) fn traits_of(schema: &str, name: &str, columns: &[(&str, Type)]) -> Traits {
    let lists = match schema {
        "pg_catalog" => [(Lasting::Catalog, OF_CATALOG), (Lasting::Reader, OF_READERS)],
        _ => [(Lasting::Reader, OF_STANDARD), (Lasting::Reader, &[])],
    };
    let known = lists.into_iter().find_map(|(lasting, list)| {
        let known = list.iter().find(|(known, ..)| *known == name)?;
        Some((lasting, known))
    });
    let Some((lasting, &(_, rows_expected, keys))) = known else {
        return Traits { lasting: Lasting::Statement, keys: Vec::new(), rows_expected: ROWS_UNKNOWN, fresh: None };
    };
    let key = |&(name, rows_alike): &(&str, f64)| {
        let column = columns.iter().position(|(column, _)| *column == name)?;
        Some(SystemKey { column, rows_alike })
    };
    let fresh = (schema == "pg_catalog" && name == "pg_class").then_some(relations::FRESH_CELLS_OF_CLASSES);
    Traits { lasting, keys: keys.iter().filter_map(key).collect(), rows_expected, fresh }
}

// ---- what is kept ----

/// What rows of a [`Lasting::Reader`] depend on besides the catalogue and the roles.
#[derive(Debug)]
struct Reader {
    /// Without one, the bootstrap superuser's.
    authority: Option<Arc<Authority>>,
    search_path: SearchPath,
}

impl Reader {
    fn is(&self, authority: Option<&Arc<Authority>>, search_path: &SearchPath) -> bool {
        let is_alike = match (&self.authority, authority) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (None, None) => true,
            _ => false,
        };
        is_alike && (Arc::ptr_eq(&self.search_path, search_path) || self.search_path == *search_path)
    }
}

/// Rows of one state of the catalogue and the roles.
#[derive(Debug)]
struct State {
    catalog: Weak<Catalog>,
    roles: Arc<Roles>,
    /// Whom they are for; `None`: for all.
    reader: Option<Reader>,
    /// By the numbers of their tables.
    tables: Vec<(u32, Arc<MadeRows>)>,
}

impl State {
    fn bytes(&self) -> usize {
        self.tables.iter().map(|(_, rows)| rows.bytes()).sum()
    }
}

/// The rows that a database keeps, those that were read last at the end.
#[derive(Debug, Default)]
pub(crate) struct KeptTables(Mutex<Vec<State>>);

/// Finds the rows of a table, or makes them.
pub(super) fn find(table: &SystemTable, env: &Env) -> Result<Arc<MadeRows>> {
    let names = env.names();
    let Some(engine) = names.engine.as_ref().filter(|_| table.lasting != Lasting::Statement) else {
        return table.make(env);
    };
    let (kept, roles) = (engine.kept_tables(), names.roles());
    let is_it = |state: &State| {
        let is_same = std::ptr::eq(state.catalog.as_ptr(), &raw const *names.catalog)
            && (Arc::ptr_eq(&state.roles, &roles) || state.roles == roles);
        is_same
            && match (&state.reader, table.lasting) {
                (None, Lasting::Catalog) => true,
                (Some(reader), Lasting::Reader) => reader.is(names.authority.as_ref(), &names.search_path),
                _ => false,
            }
    };
    if let Some(rows) = kept.get(table.oid, is_it) {
        return Ok(rows);
    }
    let made = table.make(env)?;
    let new = || {
        let reader = || Reader { authority: names.authority.clone(), search_path: Arc::clone(&names.search_path) };
        State {
            catalog: Arc::downgrade(&names.catalog),
            roles: Arc::clone(&roles),
            reader: (table.lasting == Lasting::Reader).then(reader),
            tables: Vec::new(),
        }
    };
    kept.keep(table.oid, &made, is_it, new);
    Ok(made)
}

impl KeptTables {
    fn get(&self, oid: u32, is_it: impl Fn(&State) -> bool) -> Option<Arc<MadeRows>> {
        let mut states = self.0.lock();
        let place = states.iter().rposition(is_it)?;
        let (_, rows) = states[place].tables.iter().find(|(known, _)| *known == oid)?;
        let rows = Arc::clone(rows);
        states[place..].rotate_left(1);
        Some(rows)
    }

    /// Keeps rows, in the place of others that were not read for longer, if they are not too many.
    fn keep(&self, oid: u32, rows: &Arc<MadeRows>, is_it: impl Fn(&State) -> bool, new: impl FnOnce() -> State) {
        let mut states = self.0.lock();
        states.retain(|state| state.catalog.strong_count() > 0);
        let mut state = match states.iter().position(is_it) {
            Some(place) => states.remove(place),
            None => new(),
        };
        // Another session may have made them at the same time.
        if !state.tables.iter().any(|(known, _)| *known == oid) && state.bytes() + rows.bytes() <= BYTES_MAX {
            state.tables.push((oid, Arc::clone(rows)));
        }
        let mut bytes_max = BYTES_MAX - state.bytes();
        let mut states_left = STATES_MAX - 1;
        let newest_first = std::mem::take(&mut *states).into_iter().rev();
        let fits = newest_first.take_while(|state| {
            let bytes = state.bytes();
            let fits = bytes <= bytes_max && states_left > 0;
            (bytes_max, states_left) = (bytes_max.saturating_sub(bytes), states_left.saturating_sub(1));
            fits
        });
        let mut kept: Vec<State> = fits.collect();
        kept.reverse();
        kept.push(state);
        *states = kept;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_table_that_is_known_is_there_and_has_its_keys() {
        let of_schema = [("pg_catalog", OF_CATALOG), ("pg_catalog", OF_READERS), ("information_schema", OF_STANDARD)];
        for (schema, known) in of_schema {
            for (name, _, keys) in known {
                let table = super::super::table(schema, name).unwrap_or_else(|| panic!("{schema}.{name}"));
                assert_eq!(table.keys.len(), keys.len(), "{table:?}");
                for key in &table.keys {
                    let (column, ty) = table.columns[key.column];
                    assert!(ty.is_integer() || ty.is_text(), "{table:?}.{column}");
                }
                assert!(table.rows.is_some(), "{table:?} has rows to be kept");
            }
        }
    }
}
