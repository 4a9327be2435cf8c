//! Rows of system tables that are kept from one statement to the next.
//!
//! Making all rows of `pg_attribute` for one table's columns took a hundred times as long as
//! finding these. So rows that depend on the catalogue alone are made once, and all sessions of a
//! database share them until the catalogue or the roles change. What depends on the reader (the
//! views of `information_schema` list what a role may see, definitions name what the search path
//! does not have) is shared by readers that are alike.
//!
//! A statement that defines something makes another state of the catalogue, so a migration that
//! looks at the tables it makes would have all rows made anew after each statement. Therefore rows
//! that do not depend on relations are taken over from one state to the next, and where few
//! relations are asked for by number or by name, the rows of these alone are made, until that has
//! cost about as much as all of them.
//!
//! Invariants: kept rows belong to one state of the catalogue, which is known by its address. The
//! address is not used again while a [`Weak`] to it is held, and a catalogue to which one is held
//! is not changed in place ([`Arc::make_mut`] moves it elsewhere). At most [`BYTES_MAX`] are kept.
//! Rows are made without the lock: making them polls.

use std::sync::{Arc, Weak};

use colibri_catalog::cluster::{Authority, Roles};
use colibri_catalog::system_tables::{Fresh, Lasting, MadeRows, SystemKey, SystemTable, WantedRows};
use colibri_catalog::{Catalog, NAME_BYTES_MAX};
use colibri_types::{Datum, Env, Result, Type};
use parking_lot::Mutex;

use super::relations;
use crate::surroundings::{Names as _, SearchPath, Surroundings};

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
/// rows have the same value in them. A key has one column, or a second one by which about one of
/// these rows is found.
type Known = (&'static str, f64, &'static [(&'static str, f64)]);

/// Tables of `pg_catalog` that depend on the catalogue and the roles alone.
const OF_CATALOG: &[Known] = &[
    ("pg_aggregate", 200.0, &[]),
    ("pg_am", 8.0, &[("oid", 1.0)]),
    ("pg_amop", 500.0, &[("amopfamily", 10.0), ("amopopr", 2.0)]),
    ("pg_amproc", 200.0, &[("amprocfamily", 5.0)]),
    ("pg_attribute", 3_000.0, &[("attrelid attnum", 8.0), ("attname attrelid", 50.0)]),
    ("pg_cast", 200.0, &[("oid", 1.0), ("castsource", 5.0), ("casttarget", 5.0)]),
    ("pg_class", 600.0, &[("oid", 1.0), ("relname relnamespace", 1.0), ("relnamespace", 100.0), ("reltype", 1.0)]),
    ("pg_collation", 100.0, &[("oid", 1.0), ("collname", 1.0)]),
    (
        "pg_constraint",
        300.0,
        &[("oid", 1.0), ("conrelid", 3.0), ("confrelid", 3.0), ("conindid", 1.0), ("contypid", 1.0), ("conname", 1.0)],
    ),
    ("pg_depend", 3_000.0, &[("objid", 3.0), ("refobjid", 5.0)]),
    ("pg_description", 100.0, &[("objoid objsubid", 2.0)]),
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
    ("pg_attrdef", 100.0, &[("oid", 1.0), ("adrelid adnum", 3.0)]),
    ("pg_indexes", 300.0, &[("tablename", 3.0), ("indexname", 1.0)]),
    ("pg_policies", 5.0, &[("tablename", 2.0)]),
    ("pg_views", 50.0, &[("viewname", 1.0)]),
];

/// Tables of `information_schema`, which list what a reader may see.
const OF_STANDARD: &[Known] = &[
    ("check_constraints", 300.0, &[("constraint_name", 1.0)]),
    ("columns", 1_000.0, &[("table_name column_name", 8.0)]),
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

/// Tables whose rows depend on no relation.
const BESIDES_RELATIONS: &[&str] = &[
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_cast",
    "pg_collation",
    "pg_enum",
    "pg_extension",
    "pg_language",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_proc",
    "pg_range",
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
    let place = |name: &str| columns.iter().position(|(column, _)| *column == name);
    let key = |&(names, rows_alike): &(&str, f64)| {
        let (first, second) = names.split_once(' ').map_or((names, None), |(first, second)| (first, Some(second)));
        Some(SystemKey { column: place(first)?, rows_alike, second: second.and_then(place) })
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

/// Which rows of a table are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// Those that belong to no relation.
    OfNoRelation,
}

/// Rows that are kept.
#[derive(Debug, Clone)]
struct Kept {
    table: u32,
    part: Part,
    rows: Arc<MadeRows>,
    /// They depend on no relation.
    is_beside_relations: bool,
}

/// Rows of one state of the catalogue and the roles.
#[derive(Debug)]
struct State {
    catalog: Weak<Catalog>,
    /// [`Catalog::besides_relations`]
    besides_relations: u64,
    roles: Arc<Roles>,
    /// Whom they are for; `None`: for all.
    reader: Option<Reader>,
    kept: Vec<Kept>,
    /// For how many relations rows of a table were made, and not kept.
    made_for: Vec<(u32, usize)>,
}

impl State {
    fn bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.rows.bytes()).sum()
    }

    fn of(names: &Surroundings, roles: &Arc<Roles>, lasting: Lasting) -> Self {
        let reader = || Reader { authority: names.authority.clone(), search_path: Arc::clone(&names.search_path) };
        Self {
            catalog: Arc::downgrade(&names.catalog),
            besides_relations: names.catalog.besides_relations(),
            roles: Arc::clone(roles),
            reader: (lasting == Lasting::Reader).then(reader),
            kept: Vec::new(),
            made_for: Vec::new(),
        }
    }

    fn has_roles(&self, roles: &Arc<Roles>) -> bool {
        Arc::ptr_eq(&self.roles, roles) || self.roles == *roles
    }

    /// Whether it is the one that [`State::of`] makes.
    fn is_of(&self, names: &Surroundings, roles: &Arc<Roles>, lasting: Lasting) -> bool {
        std::ptr::eq(self.catalog.as_ptr(), &raw const *names.catalog)
            && self.has_roles(roles)
            && match (&self.reader, lasting) {
                (None, Lasting::Catalog) => true,
                (Some(reader), Lasting::Reader) => reader.is(names.authority.as_ref(), &names.search_path),
                _ => false,
            }
    }

    /// Takes over what is the same as in another state.
    fn take_over(&mut self, other: &Self) {
        let is_alike = self.reader.is_none() && other.reader.is_none() && other.has_roles(&self.roles);
        if !is_alike || self.besides_relations != other.besides_relations {
            return;
        }
        for kept in other.kept.iter().filter(|kept| kept.is_beside_relations) {
            if self.rows(kept.table, kept.part).is_none() {
                self.kept.push(kept.clone());
            }
        }
    }

    fn rows(&self, table: u32, part: Part) -> Option<&Arc<MadeRows>> {
        self.kept.iter().find(|kept| kept.table == table && kept.part == part).map(|kept| &kept.rows)
    }
}

/// The rows that a database keeps, those that were read last at the end.
#[derive(Debug, Default)]
pub(crate) struct KeptTables(Mutex<Vec<State>>);

/// Finds the rows of a table, or makes them.
pub(super) fn find(table: &SystemTable, env: &Env, wanted: Option<WantedRows<'_>>) -> Result<Arc<MadeRows>> {
    let names = env.names();
    let Some(engine) = names.engine.as_ref().filter(|_| table.lasting != Lasting::Statement) else {
        return table.make(env, None);
    };
    let at_hand = AtHand { kept: engine.kept_tables(), names, roles: names.roles(), table };
    if let Some(rows) = at_hand.rows(Part::All) {
        return Ok(rows);
    }
    match wanted.and_then(|wanted| relations_of(table, wanted, names)) {
        Some(relations) if relations.is_empty() => {
            if let Some(rows) = at_hand.rows(Part::OfNoRelation) {
                return Ok(rows);
            }
            let made = table.make(env, Some(relations))?;
            at_hand.keep(Part::OfNoRelation, &made);
            Ok(made)
        }
        // Most types are of no relation.
        Some(relations) if table.oid != relations::PG_TYPE && at_hand.may_make_for(relations.len()) => {
            table.make(env, Some(relations))
        }
        _ => {
            let made = table.make(env, None)?;
            at_hand.keep(Part::All, &made);
            Ok(made)
        }
    }
}

/// A table, and the state that a statement sees.
struct AtHand<'a> {
    kept: &'a KeptTables,
    names: &'a Surroundings,
    roles: Arc<Roles>,
    table: &'a SystemTable,
}

impl AtHand<'_> {
    fn is_it(&self, state: &State) -> bool {
        state.is_of(self.names, &self.roles, self.table.lasting)
    }

    fn rows(&self, part: Part) -> Option<Arc<MadeRows>> {
        let mut states = self.kept.0.lock();
        let place = states.iter().rposition(|state| self.is_it(state));
        if let Some(place) = place {
            states[place..].rotate_left(1);
        } else {
            self.begin(&mut states);
        }
        states.last()?.rows(self.table.oid, part).cloned()
    }

    /// Begins to keep rows of this state.
    fn begin(&self, states: &mut Vec<State>) {
        let mut new = State::of(self.names, &self.roles, self.table.lasting);
        states.iter().rev().for_each(|state| new.take_over(state));
        states.retain(|state| state.catalog.strong_count() > 0);
        if states.len() >= STATES_MAX {
            states.remove(0);
        }
        states.push(new);
    }

    /// Whether the rows of a few relations are to be made, and not all of them.
    fn may_make_for(&self, relations: usize) -> bool {
        let mut states = self.kept.0.lock();
        let Some(state) = states.iter_mut().rfind(|state| self.is_it(state)) else { return false };
        let place = state.made_for.iter().position(|(table, _)| *table == self.table.oid).unwrap_or_else(|| {
            state.made_for.push((self.table.oid, 0));
            state.made_for.len() - 1
        });
        let made_for = &mut state.made_for[place].1;
        *made_for += relations;
        *made_for <= self.names.catalog.relation_count().max(RELATIONS_MIN) / 2
    }

    /// Keeps rows, in the place of others that were not read for longer, if they are not too many.
    fn keep(&self, part: Part, rows: &Arc<MadeRows>) {
        let mut states = self.kept.0.lock();
        if !states.iter().any(|state| self.is_it(state)) {
            self.begin(&mut states);
        }
        let Some(place) = states.iter().position(|state| self.is_it(state)) else { return };
        let mut state = states.remove(place);
        let table = self.table.oid;
        // Another session may have made them at the same time.
        if state.rows(table, part).is_none() && state.bytes() + rows.bytes() <= BYTES_MAX {
            let is_beside_relations = self.table.lasting == Lasting::Catalog
                && (part == Part::OfNoRelation || BESIDES_RELATIONS.contains(&self.table.name));
            state.kept.push(Kept { table, part, rows: Arc::clone(rows), is_beside_relations });
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

// ---- whose rows are asked for ----

/// Rows are made for a few relations even where there are no more than this.
const RELATIONS_MIN: usize = 16;
/// For more values than this all rows are made.
const VALUES_MAX: usize = 64;

/// The relations that rows with some values in a key belong to, each once; `None` if these may be
/// any. Indexes go with their tables.
fn relations_of(table: &SystemTable, wanted: WantedRows<'_>, names: &Surroundings) -> Option<Vec<u32>> {
    if wanted.values.len() > VALUES_MAX {
        return None;
    }
    let (column, _) = table.columns[table.keys[wanted.key].column];
    let add: fn(&Surroundings, &Datum, &mut Vec<u32>) -> Option<()> = match (table.schema, table.name, column) {
        ("pg_catalog", "pg_attribute", "attrelid")
        | ("pg_catalog", "pg_attrdef", "adrelid")
        | ("pg_catalog", "pg_class", "oid")
        | ("pg_catalog", "pg_constraint", "oid" | "conrelid")
        | ("pg_catalog", "pg_index", "indexrelid" | "indrelid") => add_numbered,
        ("pg_catalog", "pg_constraint", "confrelid") => add_referring,
        ("pg_catalog", "pg_type", "oid" | "typelem" | "typarray") => add_of_row_type,
        ("pg_catalog", "pg_type", "typname") => add_of_type_named,
        ("pg_catalog", "pg_class", "relname")
        | (
            "information_schema",
            "columns" | "key_column_usage" | "table_constraints" | "tables" | "views",
            "table_name",
        ) => add_named,
        _ => return None,
    };
    let mut relations = Vec::new();
    for value in wanted.values.iter().filter(|value| !value.is_null()) {
        add(names, value, &mut relations)?;
    }
    relations.sort_unstable();
    relations.dedup();
    Some(relations)
}

/// A relation by its number, or the table that something is part of.
fn add_numbered(names: &Surroundings, value: &Datum, relations: &mut Vec<u32>) -> Option<()> {
    let Datum::Int(number) = value else { return None };
    // Nothing has a number that is too large.
    let Ok(number) = u32::try_from(*number) else { return Some(()) };
    relations.push(names.catalog.table_with_part(number).map_or(number, |table| table.id));
    Some(())
}

/// The tables that refer to one.
fn add_referring(names: &Surroundings, value: &Datum, relations: &mut Vec<u32>) -> Option<()> {
    let Datum::Int(number) = value else { return None };
    // Constraints that refer to nothing have 0.
    let number = u32::try_from(*number).ok().filter(|&number| number != 0)?;
    relations.extend(names.catalog.referring_to(number).map(|table| table.id));
    Some(())
}

/// The relation that a type's number is of, if it is of one.
fn add_of_row_type(_: &Surroundings, value: &Datum, relations: &mut Vec<u32>) -> Option<()> {
    let Datum::Int(number) = value else { return None };
    // Types that have no elements, or no arrays, have 0.
    let number = u32::try_from(*number).ok().filter(|&number| number != 0)?;
    relations.extend(super::types::relation_of(number).map(|(relation, _)| relation));
    Some(())
}

/// The relations of a name, in whichever schemas.
fn add_named(names: &Surroundings, value: &Datum, relations: &mut Vec<u32>) -> Option<()> {
    let Datum::Text(name) = value else { return None };
    let of_system = ["pg_catalog", "information_schema"].into_iter().filter_map(|schema| super::table(schema, name));
    relations.extend(of_system.map(|table| table.oid));
    for schema in names.catalog.schemas() {
        let number = names.catalog.relation(&schema.name, name).and_then(|found| names.catalog.number_of(found));
        if let Some(number) = number {
            relations.push(names.catalog.table_with_part(number).map_or(number, |table| table.id));
        }
    }
    let composites = names.catalog.types().filter(|ty| ty.name == **name).filter_map(|ty| ty.composite());
    relations.extend(composites.map(|composite| composite.relation));
    Some(())
}

/// The relations whose rows, or arrays of them, have types of a name.
fn add_of_type_named(names: &Surroundings, value: &Datum, relations: &mut Vec<u32>) -> Option<()> {
    let Datum::Text(name) = value else { return None };
    // The name of a type of arrays may be cut off.
    if name.len() + 1 >= NAME_BYTES_MAX {
        return None;
    }
    add_named(names, value, relations)?;
    match name.strip_prefix('_') {
        Some(element) => add_named(names, &Datum::text(element), relations),
        None => Some(()),
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
                for (key, (names, _)) in table.keys.iter().zip(*keys) {
                    let places = [Some(key.column), key.second].into_iter().flatten();
                    let columns: Vec<(&str, Type)> = places.map(|place| table.columns[place]).collect();
                    let found: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
                    assert_eq!(found.join(" "), *names, "{table:?}");
                    assert!(columns.iter().all(|(_, ty)| ty.is_integer() || ty.is_text()), "{table:?}: {columns:?}");
                }
                assert!(table.rows.is_some(), "{table:?} has rows to be kept");
            }
        }
    }

    #[test]
    fn rows_that_are_made_for_a_few_relations_are_those_of_the_whole_table() {
        let env = Env { surroundings: Some(Arc::new(Surroundings::default())), ..Env::default() };
        let mut compared = 0;
        for table in super::super::tables() {
            for (key, column) in table.keys.iter().map(|key| key.column).enumerate() {
                let whole = table.make(&env, None).unwrap();
                let mut values: Vec<Datum> = (0..whole.len()).map(|row| whole.row(row)[column].clone()).collect();
                fastrand::shuffle(&mut values);
                values.truncate(20);
                values.extend([Datum::Int(0), Datum::Int(4_000_000_000), Datum::text("_pg_class"), Datum::Null]);
                for value in values {
                    let wanted = WantedRows { key, values: std::slice::from_ref(&value) };
                    let Some(relations) = relations_of(table, wanted, env.names()) else { continue };
                    let few = table.make(&env, Some(relations)).unwrap();
                    let found = |rows: &MadeRows| {
                        let mut found = Vec::new();
                        assert!(rows.find(key, &value, None, &mut found).unwrap() || !matches!(value, Datum::Int(_)));
                        found.sort_unstable();
                        found.iter().map(|&row| format!("{:?}", rows.row(row as usize))).collect::<Vec<_>>()
                    };
                    assert_eq!(found(&few), found(&whole), "{table:?} {value:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 100, "{compared}");
    }
}
