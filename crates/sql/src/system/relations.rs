//! Schemas, relations, columns, indexes, constraints, sequences: what `\d` asks for.

use std::sync::Arc;

use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{
    CONSTRAINT_COMMENT, CheckOption, Column, ColumnStorage, CompressionName, ForeignKey, Identity, Index, IndexColumn,
    PrimaryKey, ReferenceAction, ReplicaIdentity, Schema, Sequence, Table, Timing, Topic, View,
    cluster::{Acl, BOOTSTRAP_ROLE, Grant, ObjectKind, PUBLIC_ROLE, Privileges, RoleId},
};
use colibri_catalog::{Excluded, Tokenized};
use colibri_types::{Category, ColumnType, Datum, Env, Result, Type};
use compact_str::CompactString;

use super::types::collation_numbered;
use super::types::{BTREE, method_number, row_type};
use super::{
    Fill, Fresh, INFORMATION_SCHEMA, NULL, PG_CATALOG, Rows, SystemTable, array, describe, flag, int, oid, text,
    text_or_null, vector,
};
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_namespace", namespaces),
    ("pg_class", classes),
    ("pg_attribute", attributes),
    ("pg_attrdef", defaults),
    ("pg_index", indexes),
    ("pg_constraint", constraints),
    ("pg_sequence", sequences),
    ("pg_sequences", sequence_list),
    ("pg_sequence_states", sequence_states),
    ("pg_description", descriptions),
    ("pg_tables", table_list),
    ("pg_indexes", index_list),
    ("pg_views", view_list),
    ("pg_matviews", materialized_list),
    ("pg_rewrite", rules),
    ("pg_rules", rule_list),
];

/// PostgreSQL's numbers of the tables that others refer to by number.
pub(super) const PG_CLASS: u32 = 1259;
pub(crate) const PG_NAMESPACE: u32 = 2615;
pub(super) const PG_TYPE: u32 = 1247;
pub(super) const PG_EXTENSION: u32 = 3079;
pub(super) const PG_PROC: u32 = 1255;
pub(super) const PG_TRIGGER: u32 = 2620;
const PG_CAST: u32 = 2605;
pub(super) const PG_OPERATOR: u32 = 2617;
const PG_REWRITE: u32 = 2618;
pub(super) const PG_STATISTIC_EXT: u32 = 3381;
const PG_COLLATION: u32 = 3456;
const PG_POLICY: u32 = 3256;
pub(super) const PG_ATTRDEF: u32 = 2604;
pub(super) const PG_CONSTRAINT: u32 = 2606;

const HEAP: u32 = 2;
/// Bytes of a page as clients count them.
const PAGE_BYTES: u64 = 8192;

/// The grants as an array of `aclitem`; NULL where nothing was granted.
pub(super) fn acl(acl: Option<&Acl>, names: &Surroundings) -> Datum {
    match acl {
        None => NULL,
        Some(acl) => array(Type::AclItem, acl.items(&names.roles()).iter().map(|item| text(item))),
    }
}

/// The privileges on system tables: all roles may read them.
pub(super) fn system_acl(kind: ObjectKind) -> Acl {
    let mut acl = Acl::default_of(kind, BOOTSTRAP_ROLE);
    let everybodys = if kind == ObjectKind::Schema { Privileges::USAGE } else { Privileges::SELECT };
    acl.add(Grant::plain(PUBLIC_ROLE, BOOTSTRAP_ROLE, everybodys));
    acl
}

/// All schemas, the system's among them: number, name, owner, grants.
pub(super) fn all_schemas(names: &Surroundings) -> Vec<Arc<Schema>> {
    let system = [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA, "information_schema")].map(|(id, name)| {
        let acl = Some(system_acl(ObjectKind::Schema));
        Arc::new(Schema { id, name: name.into(), owner: BOOTSTRAP_ROLE, acl })
    });
    let mut all: Vec<Arc<Schema>> = system.into_iter().chain(names.catalog.schemas().cloned()).collect();
    all.sort_by_key(|schema| schema.id);
    all
}

fn namespaces(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for schema in all_schemas(names) {
        rows.push([oid(schema.id), text(&schema.name), oid(schema.owner), acl(schema.acl.as_ref(), names)])?;
    }
    Ok(())
}

/// Entries and bytes of a space.
pub(super) fn figures(names: &Surroundings, space: u32) -> Result<(u64, u64)> {
    let Some(engine) = &names.engine else { return Ok((0, 0)) };
    let size = engine.space_size(colibri_txn::SpaceId(space))?;
    Ok(size.map_or((0, 0), |size| (size.entries, size.bytes)))
}

/// How large a relation is.
#[derive(Clone, Copy)]
enum Size {
    /// It has so many pages, and no figure of rows.
    Pages(i64),
    /// As large as these spaces are: of one the pages are counted, of the other one the entries.
    /// Both are asked when the row is read.
    Spaces { pages: Option<u32>, entries: u32 },
}

/// The places of `relpages` and `reltuples`.
const SIZE_CELLS: [usize; 2] = [9, 10];

/// Figures change while the catalogue stays the same; the text of a bound is in the form of dates
/// that the session has. A kept row has the numbers of spaces in the cells of figures.
pub(super) const FRESH_CELLS_OF_CLASSES: Fresh = Fresh { columns: &[9, 10, 32], fill: fresh_cells };

fn fresh_cells(env: &Env, kept: &[Datum], row: &mut [Datum]) -> Result<()> {
    let names = env.names();
    let [pages, entries] = SIZE_CELLS;
    let figures_of = |cell: &Datum| match cell {
        Datum::Int(space) => u32::try_from(*space).map_or(Ok((0, 0)), |space| figures(names, space)),
        _ => Ok((0, 0)),
    };
    if matches!(kept[entries], Datum::Int(_)) {
        row[pages] = int(figures_of(&kept[pages])?.1.div_ceil(PAGE_BYTES) as i64);
        row[entries] = Datum::Float(f64::from(figures_of(&kept[entries])?.0 as f32));
    }
    let is_partition = matches!(kept[26], Datum::Bool(true));
    if is_partition
        && let Datum::Int(id) = kept[0]
        && let Some(table) = u32::try_from(id).ok().and_then(|id| names.catalog.table(id))
    {
        row[32] = super::partitions::bound_value(names, table, env);
    }
    Ok(())
}

/// A row of `pg_class`, as far as kinds of relations differ.
struct Class<'a> {
    id: u32,
    name: &'a str,
    namespace: u32,
    kind: &'static str,
    access_method: u32,
    owner: RoleId,
    acl: Option<&'a Acl>,
    size: Size,
    columns: usize,
    checks: usize,
    has_index: bool,
    has_triggers: bool,
    has_rules: bool,
    populated: bool,
    options: Datum,
    /// Row-level security is enabled, and forced.
    security: (bool, bool),
    /// It has partitions.
    has_children: bool,
    is_partition: bool,
}

impl Class<'_> {
    fn push(&self, names: &Surroundings, rows: &mut Rows) -> Result<()> {
        let has_rows = matches!(self.kind, "r" | "p" | "m" | "v");
        self.push_of(if has_rows { row_type(self.id) } else { 0 }, names, rows)
    }

    /// One whose rows have this type.
    fn push_of(&self, row_type: u32, names: &Surroundings, rows: &mut Rows) -> Result<()> {
        let is_stored = matches!(self.kind, "r" | "m" | "i");
        let [pages, entries] = match self.size {
            Size::Pages(pages) => [int(pages), Datum::Float(0.0)],
            Size::Spaces { pages, entries } => [pages.map_or(int(-1), int), int(entries)],
        };
        rows.push([
            oid(self.id),
            text(self.name),
            oid(self.namespace),
            oid(row_type),
            oid(0),
            oid(self.owner),
            oid(self.access_method),
            oid(if is_stored { self.id } else { 0 }),
            oid(0),
            pages,
            entries,
            int(0),
            oid(0),
            flag(self.has_index),
            flag(false),
            text(if is_temporary(self.id) { "t" } else { "p" }),
            text(self.kind),
            int(self.columns as i64),
            int(self.checks as i64),
            flag(self.has_rules),
            flag(self.has_triggers),
            flag(self.has_children),
            flag(self.security.0),
            flag(self.security.1),
            flag(self.populated),
            text(names.catalog.table(self.id).map_or("n", |table| table.replica_identity.letter())),
            flag(self.is_partition),
            oid(0),
            oid(0),
            oid(0),
            acl(self.acl, names),
            self.options.clone(),
            NULL,
        ])
    }
}

/// The options of a view, as `pg_class` lists them.
fn view_options(view: &View) -> Datum {
    let check_option = view.check_option.map(|check| match check {
        CheckOption::Local => "check_option=local",
        CheckOption::Cascaded => "check_option=cascaded",
    });
    let invoker = view.invoker.then_some("security_invoker=true");
    let mut options = invoker.into_iter().chain(check_option).map(text).peekable();
    if options.peek().is_none() { NULL } else { array(Type::Text, options) }
}

fn table_options(table: &Table) -> Datum {
    let mut options = Vec::new();
    if let Some(Topic { partitions, retention_us, retention_bytes }) = table.topic {
        options.push(format!("topic_partitions={partitions}"));
        options.extend(retention_us.map(|us| format!("topic_retention={us} microseconds")));
        options.extend(retention_bytes.map(|bytes| format!("topic_retention_bytes={bytes}")));
    }
    options.extend(table.compression.map(|compression| format!("compression={}", compression.name())));
    if options.is_empty() {
        return NULL;
    }
    array(Type::Text, options.iter().map(|option| text(option)))
}

/// The system tables whose rows are wanted.
pub(super) fn wanted_system_tables(rows: &Rows) -> Vec<&'static SystemTable> {
    super::tables().filter(|table| rows.wants(table.oid)).collect()
}

/// The tables whose rows are wanted, in the order of their numbers.
pub(super) fn wanted_tables(names: &Surroundings, rows: &Rows) -> Vec<Arc<Table>> {
    let Some(wanted) = rows.relations() else { return sorted_tables(names) };
    wanted.iter().filter_map(|&id| names.catalog.table(id)).cloned().collect()
}

/// The views whose rows are wanted, in the order of their numbers.
pub(super) fn wanted_views(names: &Surroundings, rows: &Rows) -> Vec<Arc<View>> {
    let Some(wanted) = rows.relations() else { return sorted_views(names) };
    wanted.iter().filter_map(|&id| names.catalog.view(id)).filter(|view| !view.materialized).cloned().collect()
}

/// The sequences whose rows are wanted, in the order of their numbers.
fn wanted_sequences(names: &Surroundings, rows: &Rows) -> Vec<Arc<Sequence>> {
    let Some(wanted) = rows.relations() else { return sorted_sequences(names) };
    wanted.iter().filter_map(|&id| names.catalog.sequence(id)).cloned().collect()
}

fn namespace_of(names: &Surroundings, schema: &str) -> u32 {
    names.schema_number(schema).unwrap_or_default()
}

/// Tables in the order of their numbers.
pub(super) fn sorted_tables(names: &Surroundings) -> Vec<Arc<Table>> {
    let mut tables: Vec<Arc<Table>> = names.catalog.tables().cloned().collect();
    tables.sort_by_key(|table| table.id);
    tables
}

/// Views in the order of their numbers.
pub(super) fn sorted_views(names: &Surroundings) -> Vec<Arc<View>> {
    let mut views: Vec<Arc<View>> = names.catalog.views().filter(|view| !view.materialized).cloned().collect();
    views.sort_by_key(|view| view.id);
    views
}

/// Sequences in the order of their numbers.
pub(super) fn sorted_sequences(names: &Surroundings) -> Vec<Arc<Sequence>> {
    let mut sequences: Vec<Arc<Sequence>> = names.catalog.sequences().cloned().collect();
    sequences.sort_by_key(|sequence| sequence.id);
    sequences
}

fn classes(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let system = system_acl(ObjectKind::Table);
    for table in wanted_system_tables(rows) {
        Class {
            id: table.oid,
            name: table.name,
            namespace: table.namespace(),
            kind: if table.is_view { "v" } else { "r" },
            access_method: if table.is_view { 0 } else { HEAP },
            owner: BOOTSTRAP_ROLE,
            acl: Some(&system),
            size: Size::Pages(0),
            columns: table.columns.len(),
            checks: 0,
            has_index: false,
            has_triggers: false,
            has_rules: table.is_view,
            populated: true,
            options: NULL,
            security: (false, false),
            has_children: false,
            is_partition: false,
        }
        .push(names, rows)?;
    }
    for table in wanted_tables(names, rows) {
        table_classes(names, &table, rows)?;
    }
    for view in wanted_views(names, rows) {
        Class {
            id: view.id,
            name: &view.name,
            namespace: namespace_of(names, &view.schema),
            kind: "v",
            access_method: 0,
            owner: view.owner,
            acl: view.acl.as_ref(),
            size: Size::Pages(0),
            columns: view.columns.len(),
            checks: 0,
            has_index: false,
            has_triggers: false,
            has_rules: true,
            populated: true,
            options: view_options(&view),
            security: (false, false),
            has_children: false,
            is_partition: false,
        }
        .push(names, rows)?;
    }
    for sequence in wanted_sequences(names, rows) {
        Class {
            id: sequence.id,
            name: &sequence.name,
            namespace: namespace_of(names, &sequence.schema),
            kind: "S",
            access_method: 0,
            owner: sequence.owner,
            acl: sequence.acl.as_ref(),
            size: Size::Pages(1),
            columns: 3,
            checks: 0,
            has_index: false,
            has_triggers: false,
            has_rules: false,
            populated: true,
            options: NULL,
            security: (false, false),
            has_children: false,
            is_partition: false,
        }
        .push(names, rows)?;
    }
    for ty in names.catalog.types() {
        let Some(composite) = ty.composite().filter(|composite| rows.wants(composite.relation)) else { continue };
        Class {
            id: composite.relation,
            name: &ty.name,
            namespace: namespace_of(names, &ty.schema),
            kind: "c",
            access_method: 0,
            owner: ty.owner,
            acl: None,
            size: Size::Pages(0),
            columns: usize::from(composite.last_number),
            checks: 0,
            has_index: false,
            has_triggers: false,
            has_rules: false,
            populated: true,
            options: NULL,
            security: (false, false),
            has_children: false,
            is_partition: false,
        }
        .push_of(ty.id, names, rows)?;
    }
    Ok(())
}

/// A table, and its indexes.
fn table_classes(names: &Surroundings, table: &Table, rows: &mut Rows) -> Result<()> {
    let is_partitioned = table.partitioned.is_some();
    let has_partitions = table.partitioned.as_ref().is_some_and(|partitioned| !partitioned.partitions.is_empty());
    let has_children = has_partitions || !table.children.is_empty();
    let namespace = namespace_of(names, &table.schema);
    let refers = !table.foreign_keys.is_empty() || names.catalog.referring_to(table.id).next().is_some();
    let class = Class {
        id: table.id,
        name: &table.name,
        namespace,
        kind: match table.materialized {
            Some(_) => "m",
            None if is_partitioned => "p",
            None => "r",
        },
        access_method: if is_partitioned { 0 } else { HEAP },
        owner: table.owner,
        acl: table.acl.as_ref(),
        size: match is_partitioned {
            true => Size::Pages(0),
            false => Size::Spaces { pages: Some(table.space), entries: table.space },
        },
        columns: attribute_count(table),
        checks: table.checks.len(),
        has_index: table.primary_key.is_some() || !table.indexes.is_empty(),
        has_triggers: refers || !table.triggers.is_empty(),
        has_rules: table.materialized.is_some(),
        populated: table.materialized.is_none_or(|view| view.populated),
        options: table_options(table),
        security: (table.security.enabled, table.security.forced),
        has_children,
        is_partition: table.partition_of.is_some(),
    };
    class.push(names, rows)?;
    let of_index = |id, name, columns, space, parent: Option<u32>| Class {
        id,
        name,
        kind: if is_partitioned { "I" } else { "i" },
        access_method: BTREE,
        acl: None,
        size: match is_partitioned {
            true => Size::Pages(0),
            false => Size::Spaces { pages: space, entries: table.space },
        },
        columns,
        checks: 0,
        has_index: false,
        has_triggers: false,
        has_rules: false,
        populated: true,
        options: NULL,
        security: (false, false),
        has_children,
        is_partition: parent.is_some(),
        ..class
    };
    if let Some(key) = &table.primary_key {
        // The table itself is in the key's order.
        of_index(key.id, &key.name, key.columns.len(), None, key.parent).push(names, rows)?;
    }
    for index in &table.indexes {
        let class = of_index(index.id, &index.name, index.columns.len(), Some(index.space), index.parent);
        let access_method = index.method.as_deref().map_or(BTREE, method_number);
        Class { access_method, ..class }.push(names, rows)?;
    }
    Ok(())
}

// ---- columns ----

/// How values of a type are kept in PostgreSQL: alignment, whether a word holds one.
pub(super) fn layout_of(ty: Type) -> (&'static str, bool) {
    match ty.length() {
        1 => ("c", true),
        2 => ("s", true),
        4 => ("i", true),
        8 => ("d", true),
        6 => ("s", false),
        12 if ty == Type::TimeTz => ("d", false),
        16 if ty == Type::Uuid => ("c", false),
        16 => ("d", false),
        64 => ("c", false),
        _ if ty.is_geometric() => ("d", false),
        -2 => ("c", false),
        _ => ("i", false),
    }
}

/// The collation of a type: that of the database, C for names.
pub(super) fn collation_of(ty: Type) -> u32 {
    let element = ty.element().unwrap_or(ty);
    match element {
        Type::Name => 950,
        Type::InternalChar | Type::Unknown => 0,
        _ if element.category() == Category::String => 100,
        _ => 0,
    }
}

/// A row of `pg_attribute`.
struct Attribute<'a> {
    relation: u32,
    name: &'a str,
    ty: ColumnType,
    number: i64,
    not_null: bool,
    has_default: bool,
    identity: &'static str,
    dropped: bool,
    /// Its collation's number, if that is not the type's.
    collation: Option<u32>,
    generated: bool,
    /// How many tables it comes from: those that this one inherits from, or is a partition of.
    inherited: usize,
    /// It was declared here.
    local: bool,
    /// The privileges on it alone.
    acl: Datum,
    /// How its values are kept.
    storage: ColumnStorage,
}

impl<'a> Attribute<'a> {
    fn plain(relation: u32, name: &'a str, ty: ColumnType, number: i64) -> Self {
        let (not_null, has_default, identity, dropped, collation) = (false, false, "", false, None);
        Self {
            relation,
            name,
            ty,
            number,
            not_null,
            has_default,
            identity,
            dropped,
            collation,
            generated: false,
            inherited: 0,
            local: true,
            acl: NULL,
            storage: ColumnStorage::default(),
        }
    }

    fn push(&self, rows: &mut Rows) -> Result<()> {
        let ty = self.ty.ty;
        let (align, by_value) = layout_of(ty);
        rows.push([
            oid(self.relation),
            text(self.name),
            oid(if self.dropped { 0 } else { self.ty.oid() }),
            int(if self.dropped { 0 } else { -1 }),
            int(ty.length()),
            int(self.number),
            int(i64::from(matches!(ty, Type::Array(_)) && self.ty.domain.is_none_or(|domain| domain.is_array()))),
            int(-1),
            int(super::types::shown_modifier(self.ty)),
            flag(by_value),
            text(align),
            text(self.storage.kind_of(ty).letter()),
            text(self.storage.compression.map_or("", CompressionName::letter)),
            flag(self.not_null),
            flag(self.has_default),
            flag(false),
            text(self.identity),
            text(if self.generated { "s" } else { "" }),
            flag(self.dropped),
            flag(self.local),
            int(self.inherited as i64),
            oid(self.collation.unwrap_or_else(|| collation_of(ty))),
            self.acl.clone(),
            NULL,
            NULL,
            NULL,
        ])
    }
}

fn identity_letter(column: &Column) -> &'static str {
    match column.identity {
        None => "",
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
    }
}

/// Whether nobody sees more of a column than that its number is taken: it was dropped, or it stands
/// for an expression of an index.
fn is_place_only(column: &Column) -> bool {
    column.dropped || column.expression.is_some()
}

/// The highest number of a table's columns. Tools count from 1 up to it, and miss none: expressions
/// of indexes that were made before the last column have a place among them.
fn attribute_count(table: &Table) -> usize {
    table.columns.iter().rposition(|column| column.expression.is_none()).map_or(0, |last| last + 1)
}

/// A column's name as `pg_attribute` has it: dropped ones keep a place, but no name.
fn attribute_name(column: &Column, number: usize) -> CompactString {
    if is_place_only(column) {
        compact_str::format_compact!("........pg.dropped.{number}........")
    } else {
        column.name.clone()
    }
}

fn attributes(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in wanted_system_tables(rows) {
        system_attributes(table, rows)?;
    }
    for table in wanted_tables(names, rows) {
        for (at, column) in table.columns.iter().take(attribute_count(&table)).enumerate() {
            let name = attribute_name(column, at + 1);
            Attribute {
                not_null: column.not_null,
                has_default: column.generated.is_some() || column.default.is_some() && column.identity.is_none(),
                generated: column.generated.is_some(),
                identity: identity_letter(column),
                dropped: is_place_only(column),
                collation: column.collation.as_deref().map(|name| collation_numbered(names, name)),
                inherited: inherited_from(names, &table, &|parent| parent.column(&column.name).is_some()),
                local: !(column.inherited_only || table.partition_of.is_some() && !column.dropped),
                acl: acl(table.column_acls.get(&at), names),
                storage: column.storage,
                ..Attribute::plain(table.id, &name, column.ty, at as i64 + 1)
            }
            .push(rows)?;
        }
        for index in table_indexes(&table) {
            let places = index.columns.iter().map(|part| part.column).chain(index.include.iter().copied());
            for (at, place) in places.enumerate() {
                let shown = describe::shown_part(&table, place);
                let collation = Some(part_collation(names, &table, &shown));
                let plain = Attribute::plain(index.id, &table.columns[place].name, shown.ty, at as i64 + 1);
                Attribute { collation, ..plain }.push(rows)?;
            }
        }
    }
    for view in wanted_views(names, rows) {
        let types = describe::view_types(env, &view);
        for (at, (name, ty)) in view.columns.iter().zip(types).enumerate() {
            let acl = acl(view.column_acls.get(&at), names);
            Attribute { acl, ..Attribute::plain(view.id, name, ty, at as i64 + 1) }.push(rows)?;
        }
    }
    for sequence in wanted_sequences(names, rows) {
        let columns = [("last_value", Type::Int8), ("log_cnt", Type::Int8), ("is_called", Type::Bool)];
        for (at, (name, ty)) in columns.into_iter().enumerate() {
            Attribute { not_null: true, ..Attribute::plain(sequence.id, name, ty.into(), at as i64 + 1) }.push(rows)?;
        }
    }
    let composites = names.catalog.types().filter_map(|ty| ty.composite());
    for composite in composites {
        if !rows.wants(composite.relation) {
            continue;
        }
        for field in &composite.fields {
            let collation = field.collation.as_deref().map(|name| collation_numbered(names, name));
            let plain = Attribute::plain(composite.relation, &field.name, field.ty, i64::from(field.number));
            Attribute { collation, ..plain }.push(rows)?;
        }
    }
    Ok(())
}

fn system_attributes(table: &SystemTable, rows: &mut Rows) -> Result<()> {
    for (at, (name, ty)) in table.columns.iter().enumerate() {
        let column = Attribute::plain(table.oid, name, (*ty).into(), at as i64 + 1);
        Attribute { not_null: !table.is_view && *name == "oid", ..column }.push(rows)?;
    }
    Ok(())
}

/// A unique number for a default.
pub(super) fn default_number(table: u32, column: usize) -> u32 {
    0x8000_0000 | (table << 11) | (column as u32 & 0x7ff)
}

fn defaults(env: &Env, rows: &mut Rows) -> Result<()> {
    for table in wanted_tables(env.names(), rows) {
        for (at, column) in table.live_columns() {
            let shown = match (&column.generated, &column.default, column.identity) {
                (Some(generated), ..) => Some(format!("({})", describe::bare(generated))),
                (None, Some(default), None) => Some(describe::default_expression(env, default, column.ty)),
                _ => None,
            };
            if let Some(shown) = shown {
                rows.push([oid(default_number(table.id, at)), oid(table.id), int(at as i64 + 1), text(&shown)])?;
            }
        }
    }
    Ok(())
}

// ---- indexes and constraints ----

/// An index, or the order of a table by its primary key.
pub(crate) struct AnyIndex {
    pub(crate) id: u32,
    pub(crate) name: CompactString,
    pub(crate) columns: Vec<IndexColumn>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
    pub(crate) constraint: bool,
    pub(crate) nulls_not_distinct: bool,
    /// The condition of the rows that have entries.
    pub(crate) predicate: Option<String>,
    pub(crate) method: Option<CompactString>,
    /// Of an inverted one: the classes of its columns.
    pub(crate) tokens: Vec<Tokenized>,
    /// The index that it is a part of.
    pub(crate) parent: Option<u32>,
    /// Of an exclusion constraint: how values are compared.
    pub(crate) exclusion: Vec<Excluded>,
    /// The columns that INCLUDE names.
    pub(crate) include: Vec<usize>,
    /// When its constraint is checked.
    pub(crate) timing: Timing,
}

impl AnyIndex {
    fn of_key(key: &PrimaryKey) -> Self {
        let column = |&column: &usize| IndexColumn { column, descending: false, nulls_first: false };
        let columns = key.columns.iter().map(column).collect();
        Self {
            id: key.id,
            name: key.name.clone(),
            columns,
            unique: true,
            primary: true,
            constraint: true,
            nulls_not_distinct: false,
            predicate: None,
            method: None,
            tokens: Vec::new(),
            parent: key.parent,
            exclusion: Vec::new(),
            include: key.include.clone(),
            timing: Timing::Fixed,
        }
    }

    fn of_index(table: &Table, index: &Index) -> Self {
        Self {
            id: index.id,
            name: index.name.clone(),
            columns: index.columns.clone(),
            unique: index.unique || index.deferrable_key,
            primary: false,
            constraint: index.constraint,
            nulls_not_distinct: index.nulls_not_distinct,
            predicate: table.predicate_of(index).map(str::to_owned),
            method: index.method.clone(),
            tokens: index.tokens.clone(),
            parent: index.parent,
            exclusion: if index.deferrable_key { Vec::new() } else { index.exclusion.clone() },
            include: index.include.clone(),
            timing: index.timing,
        }
    }
}

/// All indexes of a table, that of the primary key first.
pub(crate) fn table_indexes(table: &Table) -> Vec<AnyIndex> {
    let key = table.primary_key.iter().map(AnyIndex::of_key);
    key.chain(table.indexes.iter().map(|index| AnyIndex::of_index(table, index))).collect()
}

fn indexes(env: &Env, rows: &mut Rows) -> Result<()> {
    for table in wanted_tables(env.names(), rows) {
        for index in table_indexes(&table) {
            let shown: Vec<_> = index.columns.iter().map(|part| describe::shown_part(&table, part.column)).collect();
            let types: Vec<Type> = shown.iter().map(|shown| shown.ty.ty).collect();
            let class = |(place, ty): (usize, &Type)| match index.tokens.get(place).map(|class| class.0.numbers[0]) {
                None | Some(0) => super::types::operator_class(*ty),
                Some(number) => number,
            };
            let option = |part: &IndexColumn| i64::from(part.descending) | i64::from(part.nulls_first) << 1;
            rows.push([
                oid(index.id),
                oid(table.id),
                int((index.columns.len() + index.include.len()) as i64),
                int(index.columns.len() as i64),
                flag(index.unique),
                flag(index.nulls_not_distinct),
                flag(index.primary),
                flag(!index.exclusion.is_empty()),
                flag(index.timing.is_fixed()),
                flag(false),
                flag(is_complete(env.names(), &table, index.id)),
                flag(false),
                flag(true),
                flag(true),
                flag(table.replica_identity == ReplicaIdentity::Index(index.id)),
                vector(
                    Type::Int2,
                    index
                        .columns
                        .iter()
                        .map(|part| int(number_of(&table, part)))
                        .chain(index.include.iter().map(|&place| int(place as i64 + 1))),
                ),
                vector(Type::Oid, shown.iter().map(|shown| oid(part_collation(env.names(), &table, shown)))),
                vector(Type::Oid, types.iter().enumerate().map(|one| oid(class(one)))),
                vector(Type::Int2, index.columns.iter().map(|part| int(option(part)))),
                expressions_of(&table, &index).map_or(NULL, |all| text(&all)),
                index.predicate.as_deref().map_or(NULL, |condition| text(&describe::condition_shown(condition))),
            ])?;
        }
    }
    Ok(())
}

/// Whether all partitions of a table have their parts of an index: one that was made with ONLY
/// becomes valid when the last of them is attached.
fn is_complete(names: &Surroundings, table: &Table, index: u32) -> bool {
    let partitions = table.partitioned.iter().flat_map(|partitioned| &partitioned.partitions);
    partitions.filter_map(|&id| names.catalog.table(id)).all(|partition| {
        let parts = table_indexes(partition);
        let part = parts.iter().find(|part| part.parent == Some(index));
        part.is_some_and(|part| is_complete(names, partition, part.id))
    })
}

/// The number of the table's column that a part of an index is on; 0 of an expression.
fn number_of(table: &Table, part: &IndexColumn) -> i64 {
    describe::shown_part(table, part.column).column.map_or(0, |column| column as i64 + 1)
}

/// The number of the collation that a part of an index has.
fn part_collation(names: &Surroundings, table: &Table, shown: &describe::ShownPart) -> u32 {
    let of_column = || table.columns[shown.column?].collation.as_deref();
    match shown.collation.as_deref().or_else(of_column) {
        Some(name) => collation_numbered(names, name),
        None => collation_of(shown.ty.ty),
    }
}

/// The expressions that an index is on.
fn expressions_of(table: &Table, index: &AnyIndex) -> Option<String> {
    let is_expression = |part: &&IndexColumn| number_of(table, part) == 0;
    let parts = index.columns.iter().filter(is_expression);
    let all = parts.filter_map(|part| table.columns[part.column].expression.as_deref());
    Some(all.map(describe::in_index).collect::<Vec<_>>().join(", ")).filter(|all| !all.is_empty())
}

fn action_letter(action: ReferenceAction) -> &'static str {
    match action {
        ReferenceAction::NoAction => "a",
        ReferenceAction::Restrict => "r",
        ReferenceAction::Cascade => "c",
        ReferenceAction::SetNull => "n",
        ReferenceAction::SetDefault => "d",
    }
}

/// The index that a foreign key's target is unique by.
pub(super) fn referenced_index(names: &Surroundings, key: &ForeignKey) -> Option<AnyIndex> {
    let target = names.table(key.target)?;
    table_indexes(target).into_iter().find(|index| {
        index.unique
            && index.columns.len() == key.target_columns.len()
            && index.columns.iter().all(|part| key.target_columns.contains(&part.column))
    })
}

/// How many of the tables that a table inherits from, or is a partition of, have something.
fn inherited_from(names: &Surroundings, table: &Table, has: &dyn Fn(&Table) -> bool) -> usize {
    let above = table.partition_of.iter().map(|of| of.parent).chain(table.inherits.iter().copied());
    above.filter(|&id| names.catalog.table(id).is_some_and(|parent| has(parent))).count()
}

/// The constraint of a partitioned table that a constraint of a partition belongs to: the index
/// above may be none.
fn parent_constraint(names: &Surroundings, table: &Table, index: Option<u32>) -> Option<u32> {
    let above = names.catalog.table(table.partition_of.as_ref()?.parent)?;
    index.filter(|id| table_indexes(above).iter().any(|known| known.id == *id && known.constraint))
}

/// A row of `pg_constraint`.
struct Constraint<'a> {
    id: u32,
    name: &'a str,
    kind: &'static str,
    index: u32,
    columns: Vec<usize>,
    foreign: Option<&'a ForeignKey>,
    condition: Option<String>,
    /// CHECK … NO INHERIT, as all constraints but CHECK are.
    no_inherit: bool,
    /// NOT VALID.
    not_valid: bool,
    /// The constraint of the partitioned table that it is a part of.
    parent: Option<u32>,
    /// How many tables it comes from: those that this one inherits from, or is a partition of.
    inherited: usize,
    /// It was declared here.
    local: bool,
    /// When it is checked.
    timing: Timing,
}

impl Constraint<'_> {
    fn push(&self, names: &Surroundings, table: &Table, rows: &mut Rows) -> Result<()> {
        let numbers = |columns: &[usize]| array(Type::Int2, columns.iter().map(|&column| int(column as i64 + 1)));
        let action = |action: Option<ReferenceAction>| text(action.map_or(" ", action_letter));
        rows.push([
            oid(self.id),
            text(self.name),
            oid(namespace_of(names, &table.schema)),
            text(self.kind),
            flag(!self.timing.is_fixed()),
            flag(self.timing == Timing::Deferred),
            flag(!self.not_valid),
            oid(table.id),
            oid(0),
            oid(self.index),
            oid(self.parent.unwrap_or_default()),
            oid(self.foreign.map_or(0, |key| key.target)),
            action(self.foreign.map(|key| key.on_update)),
            action(self.foreign.map(|key| key.on_delete)),
            text(self.foreign.map_or(" ", |key| if key.match_full { "f" } else { "s" })),
            flag(self.local),
            int(self.inherited as i64),
            flag(self.no_inherit),
            numbers(&self.columns),
            self.foreign.map_or(NULL, |key| numbers(&key.target_columns)),
            NULL,
            NULL,
            NULL,
            self.foreign.filter(|key| !key.delete_columns.is_empty()).map_or(NULL, |key| numbers(&key.delete_columns)),
            NULL,
            text_or_null(self.condition.as_deref()),
        ])
    }
}

/// The conditions of domains.
fn domain_constraints(names: &Surroundings, rows: &mut Rows) -> Result<()> {
    for ty in names.catalog.types() {
        for check in ty.domain().into_iter().flat_map(|domain| &domain.checks) {
            rows.push([
                oid(check.id),
                text(&check.name),
                oid(namespace_of(names, &ty.schema)),
                text("c"),
                flag(false),
                flag(false),
                flag(!check.not_valid),
                oid(0),
                oid(ty.id),
                oid(0),
                oid(0),
                oid(0),
                text(" "),
                text(" "),
                text(" "),
                flag(true),
                int(0),
                flag(false),
                NULL,
                NULL,
                NULL,
                NULL,
                NULL,
                NULL,
                NULL,
                text(&format!("({})", check.condition)),
            ])?;
        }
    }
    Ok(())
}

fn constraints(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    domain_constraints(names, rows)?;
    for table in wanted_tables(names, rows) {
        for index in table_indexes(&table).into_iter().filter(|index| index.constraint) {
            let parent = parent_constraint(names, &table, index.parent);
            Constraint {
                id: index.id,
                name: &index.name,
                kind: match (index.primary, index.exclusion.is_empty()) {
                    (true, _) => "p",
                    (false, true) => "u",
                    (false, false) => "x",
                },
                index: index.id,
                columns: index
                    .columns
                    .iter()
                    .map(|part| describe::shown_part(&table, part.column).column.unwrap_or(part.column))
                    .collect(),
                foreign: None,
                condition: None,
                no_inherit: parent.is_none() && table.partitioned.is_none(),
                not_valid: false,
                parent,
                inherited: usize::from(parent.is_some()),
                local: parent.is_none(),
                timing: index.timing,
            }
            .push(names, &table, rows)?;
        }
        for check in &table.checks {
            Constraint {
                id: check.id,
                name: &check.name,
                kind: "c",
                index: 0,
                columns: describe::columns_in(&check.condition, &table),
                foreign: None,
                condition: Some(format!("({})", check.condition)),
                no_inherit: check.no_inherit,
                not_valid: check.not_valid,
                parent: None,
                inherited: inherited_from(names, &table, &|parent| {
                    parent.checks.iter().any(|other| other.name == check.name && !other.no_inherit)
                }),
                local: !check.inherited || check.declared,
                timing: Timing::Fixed,
            }
            .push(names, &table, rows)?;
        }
        for key in &table.foreign_keys {
            Constraint {
                id: key.id,
                name: &key.name,
                kind: "f",
                index: referenced_index(names, key).map_or(0, |index| index.id),
                columns: key.columns.clone(),
                foreign: Some(key),
                condition: None,
                no_inherit: key.parent.is_none() && table.partitioned.is_none(),
                not_valid: key.not_valid,
                parent: key.parent,
                inherited: usize::from(key.parent.is_some()),
                local: key.parent.is_none(),
                timing: key.timing,
            }
            .push(names, &table, rows)?;
        }
    }
    Ok(())
}

// ---- sequences, dependencies, comments ----

fn sequences(env: &Env, rows: &mut Rows) -> Result<()> {
    for sequence in sorted_sequences(env.names()) {
        rows.push([
            oid(sequence.id),
            oid(sequence.type_oid),
            int(sequence.start),
            int(sequence.increment),
            int(sequence.max),
            int(sequence.min),
            int(sequence.cache),
            flag(sequence.cycle),
        ])?;
    }
    Ok(())
}

fn sequence_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for sequence in sorted_sequences(names) {
        let last = names.sequence_state(&sequence)?.and_then(|(value, is_called)| is_called.then_some(value));
        rows.push([
            text(&sequence.schema),
            text(&sequence.name),
            text(&names.roles().name_of(sequence.owner)),
            oid(sequence.type_oid),
            int(sequence.start),
            int(sequence.min),
            int(sequence.max),
            int(sequence.increment),
            flag(sequence.cycle),
            int(sequence.cache),
            last.map_or(NULL, int),
        ])?;
    }
    Ok(())
}

/// The row of each sequence, for queries that read it as a table: its last value, or its first one.
fn sequence_states(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for sequence in sorted_sequences(names) {
        let Some((value, is_called)) = names.sequence_state(&sequence)? else { continue };
        rows.push([oid(sequence.id), int(value), int(0), flag(is_called)])?;
    }
    Ok(())
}

/// The system table that a comment's object is in.
pub(crate) fn class_of(names: &Surroundings, object: u32, part: i32) -> u32 {
    if part == CONSTRAINT_COMMENT {
        PG_CONSTRAINT
    } else if names.catalog.schemas().any(|schema| schema.id == object) {
        PG_NAMESPACE
    } else if names.catalog.user_type(object).is_some() {
        PG_TYPE
    } else if names.catalog.extensions().any(|extension| extension.id == object) {
        PG_EXTENSION
    } else if names.catalog.casts().any(|cast| cast.id == object) {
        PG_CAST
    } else if names.catalog.operators().any(|operator| operator.id == object) {
        PG_OPERATOR
    } else if names.catalog.rules().any(|rule| rule.id == object) {
        PG_REWRITE
    } else if names.catalog.collations().any(|collation| collation.id == object) {
        PG_COLLATION
    } else if names.catalog.statistics().any(|one| one.id == object) {
        PG_STATISTIC_EXT
    } else if let Some(class) = super::search::class_of(&names.catalog, object) {
        class
    } else if names.catalog.routine(object).is_some() {
        PG_PROC
    } else if names.relation(object).is_none() && is_trigger(names, object) {
        PG_TRIGGER
    } else if names.relation(object).is_none() && super::policies::is_policy(names, object) {
        PG_POLICY
    } else if names.catalog.types().filter_map(|ty| ty.composite()).any(|composite| composite.relation == object) {
        PG_CLASS
    } else if names.relation(object).is_none() {
        // A comment that was made before constraints had a number within their table.
        PG_CONSTRAINT
    } else {
        PG_CLASS
    }
}

fn is_trigger(names: &Surroundings, object: u32) -> bool {
    let of_table = names.catalog.table_with_part(object).into_iter().flat_map(|table| &table.triggers);
    let of_view = names.catalog.view_with_trigger(object).into_iter().flat_map(|view| &view.triggers);
    of_table.chain(of_view).any(|trigger| trigger.id == object)
}

/// The number of the schema `public` that every database begins with.
pub(crate) const PUBLIC_NUMBER: u32 = 2200;
/// The comment that it begins with.
pub(crate) const PUBLIC_COMMENT: &str = "standard public schema";

/// Whether the schema `public` is the one that the database began with, and nobody has commented on
/// it.
pub(crate) fn public_is_as_made(names: &Surroundings) -> bool {
    let is_there = names.catalog.schemas().any(|schema| schema.id == PUBLIC_NUMBER);
    is_there && names.catalog.comment(PUBLIC_NUMBER, 0).is_none()
}

fn descriptions(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    if let Some(known) = super::extensions::available(super::extensions::PLPGSQL) {
        rows.push([oid(super::extensions::PLPGSQL_NUMBER), oid(PG_EXTENSION), int(0), text(known.comment)])?;
    }
    if public_is_as_made(names) {
        rows.push([oid(PUBLIC_NUMBER), oid(PG_NAMESPACE), int(0), text(PUBLIC_COMMENT)])?;
    }
    for ((object, part), comment) in names.catalog.comments() {
        rows.push([oid(object), oid(class_of(names, object, part)), int(part.max(0)), text(comment)])?;
    }
    Ok(())
}

// ---- lists for people ----

fn table_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let roles = names.roles();
    for table in super::tables().filter(|table| !table.is_view) {
        let owner = text(&roles.name_of(BOOTSTRAP_ROLE));
        let no = flag(false);
        rows.push([text(table.schema), text(table.name), owner, NULL, no.clone(), no.clone(), no.clone(), no])?;
    }
    for table in sorted_tables(names).into_iter().filter(|table| table.materialized.is_none()) {
        rows.push([
            text(&table.schema),
            text(&table.name),
            text(&roles.name_of(table.owner)),
            NULL,
            flag(table.primary_key.is_some() || !table.indexes.is_empty()),
            flag(false),
            flag(!table.foreign_keys.is_empty() || names.catalog.referring_to(table.id).next().is_some()),
            flag(table.security.enabled),
        ])?;
    }
    Ok(())
}

fn index_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in sorted_tables(names) {
        for index in table_indexes(&table) {
            let definition =
                describe::index_definition(names, &table, &index, &describe::qualified(&table.schema, &table.name));
            rows.push([text(&table.schema), text(&table.name), text(&index.name), NULL, text(&definition)])?;
        }
    }
    Ok(())
}

fn view_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for view in sorted_views(names) {
        let owner = names.roles().name_of(view.owner);
        rows.push([text(&view.schema), text(&view.name), text(&owner), text(&describe::view_definition(&view))])?;
    }
    Ok(())
}

fn materialized_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in sorted_tables(names) {
        let (Some(of), Some(view)) = (table.materialized, names.catalog.view(table.id)) else { continue };
        rows.push([
            text(&table.schema),
            text(&table.name),
            text(&names.roles().name_of(table.owner)),
            NULL,
            flag(!table.indexes.is_empty()),
            flag(of.populated),
            text(&describe::view_definition(view)),
        ])?;
    }
    Ok(())
}

/// The rule `_RETURN` of a view.
fn rules(env: &Env, rows: &mut Rows) -> Result<()> {
    let mut views: Vec<&Arc<View>> = env.names().catalog.views().collect();
    views.sort_by_key(|view| view.id);
    for view in views {
        let (number, kind, enabled) = (oid(view.id), text("1"), text("O"));
        rows.push([number.clone(), text("_RETURN"), number, kind, enabled, flag(true), NULL, NULL])?;
    }
    for rule in env.names().catalog.rules() {
        let kind = match rule.event {
            'a' => "3",
            'w' => "2",
            _ => "4",
        };
        rows.push([
            oid(rule.id),
            text(&rule.name),
            oid(rule.relation),
            text(kind),
            text(rule.state.encode_utf8(&mut [0; 4])),
            flag(rule.instead),
            super::text_or_null(rule.condition.as_deref()),
            text(&rule.actions.join("; ")),
        ])?;
    }
    Ok(())
}

/// The schema and the name of a rule's relation.
fn relation_of_rule<'n>(names: &'n Surroundings, rule: &colibri_catalog::Rule) -> Option<(&'n str, &'n str)> {
    let of_table = names.catalog.table(rule.relation).map(|table| (table.schema.as_str(), table.name.as_str()));
    of_table.or_else(|| names.catalog.view(rule.relation).map(|view| (view.schema.as_str(), view.name.as_str())))
}

/// The statement that makes a rule.
pub(crate) fn rule_definition(names: &Surroundings, number: u32) -> Option<String> {
    let quote = colibri_types::functions::quote_identifier;
    let rule = names.catalog.rules().find(|rule| rule.id == number)?;
    let (schema, relation) = relation_of_rule(names, rule)?;
    let mut out = format!(
        "CREATE RULE {} AS\n    ON {} TO {}.{}",
        quote(&rule.name),
        rule.word(),
        quote(schema),
        quote(relation)
    );
    if let Some(condition) = &rule.condition {
        out.push_str(&format!("\n   WHERE ({condition})"));
    }
    out.push_str(if rule.instead { " DO INSTEAD " } else { " DO " });
    match &rule.actions[..] {
        [] => out.push_str("NOTHING;"),
        [one] => out.push_str(&format!(" {one};")),
        all => out.push_str(&format!("( {};\n);", all.join(";\n "))),
    }
    Some(out)
}

/// `pg_rules`
fn rule_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for rule in names.catalog.rules() {
        let Some((schema, relation)) = relation_of_rule(names, rule) else { continue };
        let definition = rule_definition(names, rule.id).unwrap_or_default();
        rows.push([text(schema), text(relation), text(&rule.name), text(&definition)])?;
    }
    Ok(())
}
