//! Types, collations, access methods, operator classes. Only row types depend on the database.

use colibri_catalog::{
    Domain, NAME_BYTES_MAX, UserType,
    cluster::{BOOTSTRAP_ROLE, RoleId},
};
use colibri_types::collation;
pub(crate) use colibri_types::row::row_type;
use colibri_types::tokens::{CLASSES, TokenClass};
use colibri_types::{Category, ColumnType, Datum, Env, Error, Result, Type};

use super::procedures::{self, LANGUAGE_INTERNAL, TypeFunctions};
use super::relations::{collation_of, layout_of, wanted_system_tables, wanted_tables, wanted_views};
use super::{Fill, NULL, PG_CATALOG, Rows, flag, int, oid, text, text_or_null};
use crate::surroundings::{Names as _, Surroundings};

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_type", types),
    ("pg_enum", enum_labels),
    ("pg_range", ranges),
    ("pg_proc", procedures::procedures),
    ("pg_aggregate", procedures::aggregates),
    ("pg_collation", collations),
    ("pg_am", access_methods),
    ("pg_opclass", operator_classes),
    ("pg_opfamily", operator_families),
    ("pg_language", languages),
    ("pg_get_keywords", keywords),
];

pub(super) const BTREE: u32 = 403;

/// Access methods of indexes, with PostgreSQL's numbers.
const METHODS: [(u32, &str); 5] = [(BTREE, "btree"), (405, "hash"), (783, "gist"), (2742, "gin"), (3580, "brin")];

/// An access method that an extension of its name brings.
const BLOOM: (u32, &str) = (13_544, "bloom");

/// The number of an access method of indexes.
pub(super) fn method_number(name: &str) -> u32 {
    METHODS.iter().chain([&BLOOM]).find(|(_, known)| *known == name).map_or(BTREE, |(number, _)| *number)
}

fn category_letter(ty: Type) -> &'static str {
    match ty.category() {
        Category::Unknown => "X",
        Category::Boolean => "B",
        Category::Number => "N",
        Category::String if matches!(ty, Type::InternalChar | Type::NodeTree) => "Z",
        Category::String => "S",
        Category::DateTime => "D",
        Category::TimeSpan => "T",
        Category::Array => "A",
        Category::Enum => "E",
        Category::Composite => "C",
        Category::Network => "I",
        Category::User => "U",
        Category::BitString => "V",
        Category::Pseudo => "P",
        Category::Range => "R",
        Category::Geometric => "G",
    }
}

/// The number of the type of arrays of a relation's rows.
pub(crate) fn row_array_type(relation: u32) -> u32 {
    colibri_types::row::row_array(relation)
}

/// The relation whose rows a type is of, and whether it is one of arrays of them.
pub(crate) fn relation_of(ty: u32) -> Option<(u32, bool)> {
    colibri_types::row::relation_of(ty)
}

/// A row of `pg_type`.
struct TypeRow<'a> {
    number: u32,
    name: &'a str,
    namespace: u32,
    owner: RoleId,
    acl: Datum,
    length: i16,
    by_value: bool,
    kind: &'static str,
    category: &'static str,
    is_preferred: bool,
    relation: u32,
    array: u32,
    collation: u32,
    has: &'a TypeFunctions,
    /// Of a domain, with its default as it is shown.
    domain: Option<(&'a Domain, Option<&'a str>)>,
}

/// PostgreSQL's number of the type of arrays of boxes.
const BOX_ARRAY: u32 = 1020;

impl TypeRow<'_> {
    fn push(&self, rows: &mut Rows) -> Result<()> {
        let has = self.has;
        let (domain, default) = self.domain.map_or((None, None), |(domain, default)| (Some(domain), default));
        let default = super::text_or_null(default);
        rows.push([
            oid(self.number),
            text(self.name),
            oid(self.namespace),
            oid(self.owner),
            int(self.length),
            flag(self.by_value),
            text(self.kind),
            text(self.category),
            flag(self.is_preferred),
            flag(true),
            // Corners of a box are divided by commas, so boxes in an array are not.
            text(if [Type::Box.oid(), BOX_ARRAY].contains(&self.number) { ";" } else { "," }),
            oid(self.relation),
            oid(has.subscript),
            oid(has.element),
            oid(self.array),
            oid(has.input),
            oid(has.output),
            oid(has.receive),
            oid(has.send),
            oid(has.modifier_in),
            oid(has.modifier_out),
            oid(has.analyze),
            text(has.alignment),
            text(has.storage),
            flag(domain.is_some_and(|domain| domain.not_null)),
            oid(domain.map_or(0, |domain| domain.base.oid())),
            int(domain.map_or(-1, |domain| i64::from(shown_modifier(domain.base)))),
            int(i64::from(domain.is_some_and(|domain| matches!(domain.base.ty, Type::Array(_))))),
            oid(self.collation),
            default.clone(),
            default,
            self.acl.clone(),
        ])
    }
}

fn types(env: &Env, rows: &mut Rows) -> Result<()> {
    let mut all: Vec<Type> = Type::all().collect();
    all.sort_by_key(|ty| ty.oid());
    for ty in all {
        let Some((namespace, owner)) = place_of_type(env, ty) else { continue };
        let (_, by_value) = layout_of(ty);
        let element = ty.element().filter(|_| matches!(ty, Type::Array(_))).unwrap_or(ty);
        let has = procedures::of_type(ty).ok_or_else(|| Error::internal(format_args!("{ty} has no functions")))?;
        TypeRow {
            number: ty.oid(),
            name: ty.inner_name(),
            namespace,
            owner,
            acl: NULL,
            length: ty.length(),
            by_value,
            kind: match category_letter(element) {
                "P" | "X" => "p",
                _ if ty.is_range() => "r",
                _ if ty.is_multirange() => "m",
                _ => "b",
            },
            category: if ty == Type::Record.array_of() { "P" } else { category_letter(ty) },
            is_preferred: ty.is_preferred(),
            relation: 0,
            array: ty.array().map_or(0, |array| array.oid()),
            collation: collation_of(ty),
            has: &has,
            domain: None,
        }
        .push(rows)?;
    }
    user_types(env, rows)?;
    row_types(env, rows)
}

/// The schema of a type that the system knows, and its owner; `None` of a type of an extension that
/// the database has not.
pub(super) fn place_of_type(env: &Env, ty: Type) -> Option<(u32, RoleId)> {
    match ty.extension() {
        Some(extension) => place_of_extension(env, extension),
        None => Some((PG_CATALOG, BOOTSTRAP_ROLE)),
    }
}

/// The schema of an extension and its owner; `None` if the database has it not.
pub(super) fn place_of_extension(env: &Env, extension: &str) -> Option<(u32, RoleId)> {
    let names = env.names();
    let found = names.catalog.extensions().find(|known| known.name == extension)?;
    Some((names.schema_number(&found.schema).unwrap_or(PG_CATALOG), found.owner))
}

/// The types that users have defined, and those of arrays of them.
fn user_types(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for ty in names.catalog.types() {
        if let Some(domain) = ty.domain() {
            domain_type(env, ty, domain, rows)?;
            continue;
        }
        let composite = ty.composite();
        let of_ranges = ty
            .range()
            .and_then(|_| procedures::of_type(if ty.is_multirange() { Type::Int4Multirange } else { Type::Int4Range }));
        let functions = match (&of_ranges, composite) {
            (Some(functions), _) => functions,
            (None, Some(_)) => &procedures::RECORD,
            (None, None) => &procedures::ENUM,
        };
        let (kind, category) = match (ty.range(), composite) {
            (Some(_), _) => (if ty.is_multirange() { "m" } else { "r" }, "R"),
            (None, Some(_)) => ("c", "C"),
            (None, None) => ("e", "E"),
        };
        let row = TypeRow {
            number: ty.id,
            name: &ty.name,
            namespace: names.schema_number(&ty.schema).unwrap_or_default(),
            owner: ty.owner,
            acl: super::relations::acl(ty.acl.as_ref(), names),
            length: if ty.is_enum() { 4 } else { -1 },
            by_value: ty.is_enum(),
            kind,
            category,
            is_preferred: false,
            relation: composite.map_or(0, |composite| composite.relation),
            array: ty.array,
            collation: 0,
            has: functions,
            domain: None,
        };
        row.push(rows)?;
        let (name, has) = (ty.array_name(), procedures::array_of(functions, ty.id));
        let (number, kind, category) = (ty.array, "b", "A");
        TypeRow {
            number,
            name: &name,
            kind,
            category,
            length: -1,
            by_value: false,
            relation: 0,
            array: 0,
            has: &has,
            ..row
        }
        .push(rows)?;
    }
    Ok(())
}

/// The modifier that the catalogue shows beside a type: a domain has its own.
pub(super) fn shown_modifier(ty: ColumnType) -> i32 {
    if ty.domain.is_some() { -1 } else { ty.modifier.0 }
}

/// A domain, and the type of arrays of it.
fn domain_type(env: &Env, ty: &UserType, domain: &Domain, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let base = domain.base.ty;
    let of_base = match base {
        Type::Enum(_) => procedures::ENUM,
        Type::Composite(_) => procedures::RECORD,
        Type::Array(element) if matches!(element.ty(), Type::Composite(_)) => {
            procedures::array_of(&procedures::RECORD, element.ty().oid())
        }
        Type::Array(element) if element.ty().is_enum() => procedures::array_of(&procedures::ENUM, element.ty().oid()),
        other => procedures::of_type(other).ok_or_else(|| Error::internal(format_args!("{other} has no functions")))?,
    };
    let has = procedures::of_domain(&of_base);
    let (_, by_value) = layout_of(base);
    let default = domain.default.as_ref().map(|default| super::describe::default_expression(env, default, domain.base));
    let row = TypeRow {
        number: ty.id,
        name: &ty.name,
        namespace: names.schema_number(&ty.schema).unwrap_or_default(),
        owner: ty.owner,
        acl: super::relations::acl(ty.acl.as_ref(), names),
        length: base.length(),
        by_value,
        kind: "d",
        category: category_letter(base),
        is_preferred: false,
        relation: 0,
        array: ty.array,
        collation: domain
            .collation
            .as_deref()
            .map_or_else(|| collation_of(base), |identity| collation_numbered(names, identity)),
        has: &has,
        domain: Some((domain, default.as_deref())),
    };
    row.push(rows)?;
    if ty.array == 0 {
        return Ok(());
    }
    let (name, has) = (ty.array_name(), procedures::array_of(&has, ty.id));
    let (number, kind, category) = (ty.array, "b", "A");
    TypeRow {
        number,
        name: &name,
        kind,
        category,
        length: -1,
        by_value: false,
        array: 0,
        has: &has,
        domain: None,
        ..row
    }
    .push(rows)
}

/// The labels of enums.
fn enum_labels(env: &Env, rows: &mut Rows) -> Result<()> {
    for ty in env.names().catalog.types() {
        for label in ty.labels() {
            let order = colibri_types::enums::sort_order(label.place);
            rows.push([oid(label.id), oid(ty.id), Datum::Float(order), text(&label.text)])?;
        }
    }
    Ok(())
}

/// Each table and view has a type of its rows, and one of arrays of them.
fn row_types(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let of_system = wanted_system_tables(rows);
    let (tables, views) = (wanted_tables(names, rows), wanted_views(names, rows));
    let mut push = |relation: u32, name: &str, namespace: u32, owner: RoleId| -> Result<()> {
        if row_type(relation) == 0 {
            return Ok(());
        }
        let row = TypeRow {
            number: row_type(relation),
            name,
            namespace,
            owner,
            acl: NULL,
            length: -1,
            by_value: false,
            kind: "c",
            category: "C",
            is_preferred: false,
            relation,
            array: row_array_type(relation),
            collation: 0,
            has: &procedures::RECORD,
            domain: None,
        };
        row.push(rows)?;
        let mut array_name = compact_str::format_compact!("_{name}");
        while array_name.len() > NAME_BYTES_MAX {
            array_name.pop();
        }
        let has = procedures::array_of(&procedures::RECORD, row.number);
        let (number, kind, category) = (row.array, "b", "A");
        TypeRow { number, name: &array_name, kind, category, relation: 0, array: 0, has: &has, ..row }.push(rows)
    };
    for table in of_system {
        push(table.oid, table.name, table.namespace(), BOOTSTRAP_ROLE)?;
    }
    for table in tables {
        push(table.id, &table.name, names.schema_number(&table.schema).unwrap_or_default(), table.owner)?;
    }
    for view in views {
        push(view.id, &view.name, names.schema_number(&view.schema).unwrap_or_default(), view.owner)?;
    }
    Ok(())
}

// ---- the rest ----

/// The numbers of the collations of locales begin here.
const FIRST_LOCALE: u32 = 12_342;
const FIRST_SYSTEM_LOCALE: u32 = 14_000;
/// The number of the encoding UTF8.
const UTF8: i64 = 6;

/// The number of a collation.
pub(super) fn collation_number(name: &str) -> u32 {
    match name {
        "C" => 950,
        "POSIX" => 951,
        "ucs_basic" => 962,
        "C.utf8" | "C.UTF-8" => 963,
        name => builtin_collations().find(|known| known.1 == name).map_or(100, |known| known.0),
    }
}

/// The collations of locales, which every database has: numbers, names and locales.
fn builtin_collations() -> impl Iterator<Item = (u32, String, &'static str)> {
    let of_icu = collation::locales().zip(FIRST_LOCALE..);
    let of_icu = of_icu.map(|(locale, number)| (number, format!("{locale}-x-icu"), locale));
    let with_region = |locale: &&str| locale.len() <= 6 && locale.split_once('-').is_some_and(|(_, at)| at.len() == 2);
    let of_system = collation::locales().filter(with_region).zip((FIRST_SYSTEM_LOCALE..).step_by(2));
    let of_system = of_system.flat_map(|(locale, number)| {
        let name = locale.replace('-', "_");
        [(number, name.clone(), locale), (number + 1, format!("{name}.utf8"), locale)]
    });
    of_icu.chain(of_system)
}

/// The number of a collation by its identity: see [`crate::bind::collation`].
pub(super) fn collation_numbered(names: &Surroundings, identity: &str) -> u32 {
    let known = names.catalog.collations().find(|known| known.identity() == identity);
    known.map_or_else(|| collation_number(identity), |known| known.id)
}

fn collations(env: &Env, rows: &mut Rows) -> Result<()> {
    for (number, name, provider, encoding, locale) in [
        (100, "default", "d", -1, None),
        (950, "C", "c", -1, Some("C")),
        (951, "POSIX", "c", -1, Some("POSIX")),
        (962, "ucs_basic", "c", 6, Some("C")),
        (963, "C.utf8", "c", 6, Some("C.utf8")),
    ] {
        let locale = super::text_or_null(locale);
        rows.push([
            oid(number),
            text(name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            text(provider),
            flag(true),
            int(encoding),
            locale.clone(),
            locale,
            NULL,
            NULL,
        ])?;
    }
    for (number, name, locale) in builtin_collations() {
        rows.push([
            oid(number),
            text(&name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            text("i"),
            flag(true),
            int(-1),
            NULL,
            NULL,
            text(locale),
            text(collation::VERSION),
        ])?;
    }
    let names = env.names();
    for known in names.catalog.collations() {
        let locale = text_or_null(known.locale.as_deref());
        let (of_bytes, of_icu) = if known.is_icu() { (NULL, locale) } else { (locale, NULL) };
        rows.push([
            oid(known.id),
            text(&known.name),
            oid(names.schema_number(&known.schema).unwrap_or_default()),
            oid(known.owner),
            text(&known.provider.to_string()),
            flag(known.deterministic),
            int(if known.is_icu() { -1 } else { UTF8 }),
            of_bytes.clone(),
            of_bytes,
            of_icu,
            text_or_null(known.version.as_deref()),
        ])?;
    }
    Ok(())
}

fn access_methods(env: &Env, rows: &mut Rows) -> Result<()> {
    rows.push([oid(2), text("heap"), oid(0), text("t")])?;
    let brought = env.names().catalog.extensions().any(|extension| extension.name == BLOOM.1).then_some(&BLOOM);
    METHODS
        .iter()
        .chain(brought)
        .try_for_each(|&(number, name)| rows.push([oid(number), text(name), oid(0), text("i")]))
}

/// Operator classes of B-trees: number, name, family, type.
const OPERATOR_CLASSES: &[(u32, &str, u32, Type)] = &[
    (10_003, "bool_ops", 424, Type::Bool),
    (10_006, "bytea_ops", 428, Type::Bytea),
    (10_007, "char_ops", 429, Type::InternalChar),
    (10_028, "name_ops", 1994, Type::Name),
    (3124, "int8_ops", 1976, Type::Int8),
    (1979, "int2_ops", 1976, Type::Int2),
    (1978, "int4_ops", 1976, Type::Int4),
    (3126, "text_ops", 1994, Type::Text),
    (1981, "oid_ops", 1989, Type::Oid),
    (10_012, "float4_ops", 1970, Type::Float4),
    (3123, "float8_ops", 1970, Type::Float8),
    (10_004, "bpchar_ops", 426, Type::Char),
    (3122, "date_ops", 434, Type::Date),
    (10_038, "time_ops", 1996, Type::Time),
    (3128, "timestamp_ops", 434, Type::Timestamp),
    (3127, "timestamptz_ops", 434, Type::TimestampTz),
    (10_022, "interval_ops", 1982, Type::Interval),
    (3125, "numeric_ops", 1988, Type::Numeric),
    (10_065, "uuid_ops", 2968, Type::Uuid),
    (10_088, "jsonb_ops", 4033, Type::Jsonb),
    (10_015, "inet_ops", 1974, Type::Inet),
    (10_024, "macaddr_ops", 1984, Type::MacAddr),
    (10_026, "macaddr8_ops", 3371, Type::MacAddr8),
    (10_071, "tsvector_ops", 3626, Type::TsVector),
    (10_074, "tsquery_ops", 3683, Type::TsQuery),
    (10_002, "bit_ops", 423, Type::Bit),
    (10_043, "varbit_ops", 2002, Type::VarBit),
    (10_041, "timetz_ops", 2000, Type::TimeTz),
    (10_047, "money_ops", 2099, Type::Money),
    (10_050, "tid_ops", 2789, Type::Tid),
    (10_053, "xid8_ops", 5067, Type::Xid8),
    (10_067, "pg_lsn_ops", 3253, Type::PgLsn),
    (15_531, "citext_ops", 15_533, Type::Citext),
    (15_532, "btree_hstore_ops", 15_534, Type::Hstore),
    (15_535, "ltree_ops", 15_536, Type::Ltree),
    (15_583, "vector_ops", 15_584, Type::Vector),
];

/// The operator classes of all ranges and multiranges.
const RANGE_OPS: u32 = 10_076;
const MULTIRANGE_OPS: u32 = 10_080;

/// The operator class of all enums.
const ENUM_OPS: u32 = 10_069;

/// The operator class that indexes order a type by.
pub(super) fn operator_class(ty: Type) -> u32 {
    if ty.is_enum() {
        return ENUM_OPS;
    }
    if ty.bounds().is_some() {
        return if ty.is_range() { RANGE_OPS } else { MULTIRANGE_OPS };
    }
    let ty = match ty {
        Type::Varchar => Type::Text,
        Type::Cidr => Type::Inet,
        _ if OPERATOR_CLASSES.iter().any(|class| class.3 == ty) => ty,
        _ => ty.base(),
    };
    OPERATOR_CLASSES.iter().find(|class| class.3 == ty).map_or(0, |class| class.0)
}

/// The classes of inverted indexes that a database has.
fn token_classes(env: &Env) -> impl Iterator<Item = &'static TokenClass> {
    let names = env.names();
    let is_there = |class: &&TokenClass| {
        let has = |name: &str| names.catalog.extensions().any(|known| known.name == name);
        class.numbers[0] != 0 && class.extension.is_none_or(has)
    };
    CLASSES.iter().filter(is_there)
}

/// The name of an operator class of trees, or of its family.
pub(super) fn ordered_class(id: u32, is_family: bool) -> Option<&'static str> {
    let found = OPERATOR_CLASSES.iter().find(|class| id != 0 && id == if is_family { class.2 } else { class.0 });
    found.map(|class| class.1)
}

/// The operator classes that come with an extension, and their families.
pub(super) fn classes_of_extension(extension: &str) -> Vec<(u32, u32)> {
    let of_it = CLASSES.iter().filter(|class| class.numbers[0] != 0 && class.extension == Some(extension));
    let of_tokens = of_it.map(|class| (class.numbers[0], class.numbers[1]));
    let ordered = OPERATOR_CLASSES.iter().filter(|class| class.3.extension() == Some(extension));
    of_tokens.chain(ordered.map(|class| (class.0, class.2))).collect()
}

fn ranges(env: &Env, rows: &mut Rows) -> Result<()> {
    for [range, subtype, multirange, class, canonical, difference] in colibri_types::ranges::catalogued() {
        let collation = oid(0);
        rows.push([oid(range), oid(subtype), oid(multirange), collation, oid(class), oid(canonical), oid(difference)])?;
    }
    let names = env.names();
    for ty in names.catalog.types().filter(|ty| !ty.is_multirange()) {
        let Some(pair) = ty.range() else { continue };
        let of_subtype = pair.subtype.ty;
        let collation = match &pair.collation {
            Some(identity) => collation_numbered(names, identity),
            None => collation_of(of_subtype),
        };
        let difference = pair.difference.as_deref().and_then(|name| range_difference(env, name, of_subtype));
        rows.push([
            oid(pair.ids[0]),
            oid(of_subtype.oid()),
            oid(pair.ids[1]),
            oid(collation),
            oid(operator_class(of_subtype)),
            oid(0),
            oid(difference.unwrap_or(0)),
        ])?;
    }
    Ok(())
}

/// The number of the function that subtracts two bounds of a range type.
fn range_difference(env: &Env, name: &str, subtype: Type) -> Option<u32> {
    let args = [subtype.oid(); 2];
    let last = name.rsplit('.').next()?.trim_matches('"');
    let is_it = |routine: &&std::sync::Arc<colibri_catalog::Routine>| {
        routine.given().map(|arg| arg.ty.value().map_or(0, |ty| ty.ty.oid())).eq(args)
    };
    let of_user = env.names().catalog.routines_named(last).find(is_it).map(|routine| routine.id);
    of_user.or_else(|| procedures::named(last).find(|(_, known)| *known == args).map(|(number, _)| number))
}

fn operator_classes(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for class in token_classes(env) {
        let [number, family, ty] = class.numbers;
        rows.push([
            oid(number),
            oid(method_number(class.method)),
            text(class.name),
            oid(class.extension.and_then(|extension| names.schema_of_extension(extension)).unwrap_or(PG_CATALOG)),
            oid(BOOTSTRAP_ROLE),
            oid(family),
            oid(ty),
            flag(class.is_default),
            oid(0),
        ])?;
    }
    for &(number, name, family, ty) in OPERATOR_CLASSES {
        let Some((namespace, _)) = place_of_type(env, ty) else { continue };
        rows.push([
            oid(number),
            oid(BTREE),
            text(name),
            oid(namespace),
            oid(BOOTSTRAP_ROLE),
            oid(family),
            oid(ty.oid()),
            flag(true),
            oid(0),
        ])?;
    }
    // Another name of the one that `inet` has.
    rows.push([
        oid(10_009),
        oid(BTREE),
        text("cidr_ops"),
        oid(PG_CATALOG),
        oid(BOOTSTRAP_ROLE),
        oid(1974),
        oid(Type::Inet.oid()),
        flag(false),
        oid(0),
    ])?;
    for (class, name, family, ty) in [
        (RANGE_OPS, "range_ops", 3901, procedures::ANY_RANGE),
        (MULTIRANGE_OPS, "multirange_ops", 4199, procedures::ANY_MULTIRANGE),
    ] {
        rows.push([
            oid(class),
            oid(BTREE),
            text(name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            oid(family),
            oid(ty),
            flag(true),
            oid(0),
        ])?;
    }
    // Of the type `anyenum`.
    rows.push([
        oid(ENUM_OPS),
        oid(BTREE),
        text("enum_ops"),
        oid(PG_CATALOG),
        oid(BOOTSTRAP_ROLE),
        oid(3522),
        oid(3500),
        flag(true),
        oid(0),
    ])
}

fn operator_families(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for class in token_classes(env) {
        let family = class.numbers[1];
        let schema = class.extension.and_then(|extension| names.schema_of_extension(extension)).unwrap_or(PG_CATALOG);
        rows.push([oid(family), oid(method_number(class.method)), text(class.name), oid(schema), oid(BOOTSTRAP_ROLE)])?;
    }
    let mut seen = Vec::new();
    for &(_, class, family, ty) in OPERATOR_CLASSES {
        let Some((namespace, _)) = place_of_type(env, ty) else { continue };
        if !seen.contains(&family) {
            seen.push(family);
            // Families of several types are called after one of them.
            let name = match family {
                1976 => "integer_ops",
                1970 => "float_ops",
                434 => "datetime_ops",
                1994 => "text_ops",
                1974 => "network_ops",
                _ => class,
            };
            rows.push([oid(family), oid(BTREE), text(name), oid(namespace), oid(BOOTSTRAP_ROLE)])?;
        }
    }
    for (family, name) in [(3522, "enum_ops"), (3901, "range_ops"), (4199, "multirange_ops")] {
        rows.push([oid(family), oid(BTREE), text(name), oid(PG_CATALOG), oid(BOOTSTRAP_ROLE)])?;
    }
    Ok(())
}

/// Languages: number, name, whether everybody may use it.
pub(crate) const LANGUAGES: [(u32, &str, bool); 4] = [
    (LANGUAGE_INTERNAL, "internal", false),
    (super::routines::LANGUAGE_C, "c", false),
    (super::routines::LANGUAGE_SQL, "sql", true),
    (super::routines::LANGUAGE_PLPGSQL, "plpgsql", true),
];

/// The functions that run PL/pgSQL, make a DO block of it, and check its functions.
pub(super) const FUNCTIONS_OF_PLPGSQL: [u32; 3] = [13_560, 13_561, 13_562];

fn languages(_: &Env, rows: &mut Rows) -> Result<()> {
    for (number, name, trusted) in LANGUAGES {
        let is_plpgsql = number == super::routines::LANGUAGE_PLPGSQL;
        let [call, inline, check] = if is_plpgsql { FUNCTIONS_OF_PLPGSQL } else { [0; 3] };
        rows.push([
            oid(number),
            text(name),
            oid(BOOTSTRAP_ROLE),
            flag(name == "plpgsql"),
            flag(trusted),
            oid(call),
            oid(inline),
            oid(check),
            NULL,
        ])?;
    }
    Ok(())
}

/// Words that are names only in quotes.
fn keywords(_: &Env, rows: &mut Rows) -> Result<()> {
    for word in colibri_types::keywords::RESERVED {
        rows.push([text(word), text("R"), flag(false), text("reserved"), text("requires AS")])?;
    }
    Ok(())
}
