//! Text search in the catalogue: configurations, dictionaries, the parser, and their names.

use std::collections::BTreeMap;

use colibri_catalog::{Catalog, cluster::BOOTSTRAP_ROLE, parse_name};
use colibri_types::text_search::TEMPLATES;
use colibri_types::text_search::{self, CONFIGURATIONS, Configuration, DICTIONARIES, Dictionary, KINDS, PARSER};
use colibri_types::{Datum, Env, Result, Type};
use compact_str::CompactString;

use super::{Fill, NULL, PG_CATALOG, Rows, int, oid, procedures, text};
use crate::surroundings::Names as _;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_ts_config", configurations),
    ("pg_ts_config_map", mappings),
    ("pg_ts_dict", dictionaries),
    ("pg_ts_parser", parsers),
    ("pg_ts_template", templates),
];

/// The extension that has a dictionary of its own, which is called as it is.
const UNACCENT: &str = "unaccent";

/// The system table that lists a user's object of text search.
pub(super) fn class_of(catalog: &Catalog, object: u32) -> Option<u32> {
    let name = match (catalog.search_dictionary(object), catalog.search_configuration(object)) {
        (Some(_), _) => "pg_ts_dict",
        (_, Some(_)) => "pg_ts_config",
        _ => return None,
    };
    super::table("pg_catalog", name).map(|table| table.oid)
}

/// Whether a dictionary is an extension's that the database has not.
pub(super) fn is_missing(catalog: &Catalog, parts: &[CompactString]) -> bool {
    parts.last().is_some_and(|name| name == UNACCENT) && !catalog.extensions().any(|known| known.name == UNACCENT)
}

/// The number of what a name of a configuration or a dictionary means. The system's come first.
pub(crate) fn number_named(
    catalog: &Catalog,
    path: &[CompactString],
    ty: Type,
    parts: &[CompactString],
) -> Option<u32> {
    let system = |name: &str| match ty {
        Type::RegConfig => text_search::configuration_named(name).map(|found| found.number),
        _ => text_search::dictionary_named(name).map(|found| found.number),
    };
    let of_user = |schema: &str, name: &str| match ty {
        Type::RegConfig => {
            let mut known = catalog.search_configurations();
            known.find(|one| one.schema == schema && one.name == name).map(|one| one.id)
        }
        _ => {
            let mut known = catalog.search_dictionaries();
            known.find(|one| one.schema == schema && one.name == name).map(|one| one.id)
        }
    };
    let is_hidden = ty == Type::RegDictionary && is_missing(catalog, parts);
    match parts {
        [name] => system(name).filter(|_| !is_hidden).or_else(|| path.iter().find_map(|schema| of_user(schema, name))),
        [schema, name] if schema == "pg_catalog" => system(name).filter(|_| !is_hidden),
        [schema, name] => of_user(schema, name),
        _ => None,
    }
}

/// The name of one of the system's configurations or dictionaries.
pub(super) fn name_of(ty: Type, number: u32) -> Option<&'static str> {
    match ty {
        Type::RegConfig => text_search::configuration_numbered(number).map(|found| found.name),
        _ => text_search::dictionary_numbered(number).map(|found| found.name),
    }
}

/// The schema and the name of a user's configuration or dictionary.
fn of_user(catalog: &Catalog, ty: Type, number: u32) -> Option<(CompactString, CompactString)> {
    match ty {
        Type::RegConfig => catalog.search_configuration(number).map(|one| (one.schema.clone(), one.name.clone())),
        _ => catalog.search_dictionary(number).map(|one| (one.schema.clone(), one.name.clone())),
    }
}

/// The name of a configuration or a dictionary, with its schema unless it is found without.
pub(super) fn shown_name(catalog: &Catalog, path: &[CompactString], ty: Type, number: u32) -> Option<String> {
    if let Some(name) = name_of(ty, number) {
        return Some(name.to_owned());
    }
    let (schema, name) = of_user(catalog, ty, number)?;
    let is_visible = number_named(catalog, path, ty, std::slice::from_ref(&name)) == Some(number);
    let quoted = super::names::quoted;
    Some(if is_visible { quoted(&name) } else { format!("{}.{}", quoted(&schema), quoted(&name)) })
}

/// The number of the template that a name means.
pub(crate) fn template_named(catalog: &Catalog, parts: &[CompactString]) -> Option<u32> {
    let (schema, name) = match parts {
        [name] => (None, name),
        [schema, name] => (Some(schema), name),
        _ => return None,
    };
    if name == UNACCENT && !is_missing(catalog, parts) {
        return text_search::dictionary_named(UNACCENT).map(|entry| entry.template);
    }
    let found = TEMPLATES.iter().find(|template| template.name == name)?;
    schema.is_none_or(|schema| schema == "pg_catalog").then_some(found.number)
}

/// The name of a template.
pub(crate) fn template_name(number: u32) -> Option<&'static str> {
    let of_unaccent = || text_search::dictionary_named(UNACCENT).is_some_and(|entry| entry.template == number);
    let found = TEMPLATES.iter().find(|template| template.number == number).map(|template| template.name);
    found.or_else(|| of_unaccent().then_some(UNACCENT))
}

/// The dictionaries that a configuration asks, by the kind of token.
pub(crate) fn mappings_of(catalog: &Catalog, number: u32) -> BTreeMap<u8, Vec<u32>> {
    if let Some(made) = catalog.search_configuration(number) {
        return made.mappings.clone();
    }
    let Some(found) = text_search::configuration_numbered(number) else { return BTreeMap::new() };
    let asked = |kind: u8| (kind, found.asked(kind).iter().map(|asked| asked.0).collect::<Vec<_>>());
    (1..=KINDS.len() as u8).map(asked).filter(|(_, asked)| !asked.is_empty()).collect()
}

/// A dictionary, of the system or of a user.
pub(super) fn dictionary(catalog: &Catalog, number: u32) -> Option<Dictionary> {
    if let Some(entry) = text_search::dictionary_numbered(number) {
        return Some(entry.dictionary);
    }
    let made = catalog.search_dictionary(number)?;
    super::dictionary_of(made.template, &made.options).ok()
}

/// A configuration that a user has made.
pub(super) fn configuration(catalog: &Catalog, number: u32) -> Option<Configuration> {
    let made = catalog.search_configuration(number)?;
    let of_number = |&number: &u32| Some((number, dictionary(catalog, number)?));
    let mappings = made.mappings.iter().map(|(kind, asked)| (*kind, asked.iter().filter_map(of_number).collect()));
    Some(Configuration::listed(number, mappings))
}

/// The configuration that a setting names.
pub(crate) fn number_of_setting(catalog: &Catalog, path: &[CompactString], value: &str) -> Option<u32> {
    number_named(catalog, path, Type::RegConfig, &parse_name(value)?)
}

/// The same as it is kept: one of the system's with its schema. Whether there is another one is for
/// [`number_of_setting`] to say.
pub(crate) fn usual_setting(value: &str) -> Option<String> {
    let parts = parse_name(value)?;
    Some(match number_named(&Catalog::default(), &[], Type::RegConfig, &parts) {
        Some(number) => format!("pg_catalog.{}", name_of(Type::RegConfig, number)?),
        None if parts.len() > 2 => return None,
        None => parts.iter().map(|part| super::names::quoted(part)).collect::<Vec<_>>().join("."),
    })
}

/// What the catalogue says of an object of text search, by the number of the table that lists it.
pub(crate) fn description(class: u32, number: u32) -> Option<String> {
    let is = |name: &str| super::table("pg_catalog", name).is_some_and(|table| table.oid == class);
    if is("pg_ts_dict") {
        let found = DICTIONARIES.iter().find(|found| found.number == number)?;
        return Some(match found.dictionary {
            Dictionary::Stem { language, .. } => format!("snowball stemmer for {} language", language.name()),
            _ => "simple dictionary: just lower case and check for stopword".to_owned(),
        });
    }
    if is("pg_ts_config") {
        return Some(match name_of(Type::RegConfig, number)? {
            "simple" => "simple configuration".to_owned(),
            language => format!("configuration for {language} language"),
        });
    }
    if is("pg_ts_template") {
        let found = TEMPLATES.iter().find(|found| found.number == number)?;
        return Some(match found.name {
            "snowball" => "snowball stemmer".to_owned(),
            _ => "simple dictionary: just lower case and check for stopword".to_owned(),
        });
    }
    (number == PARSER && is("pg_ts_parser")).then(|| "default word parser".to_owned())
}

fn configurations(env: &Env, rows: &mut Rows) -> Result<()> {
    for found in CONFIGURATIONS.iter() {
        rows.push([oid(found.number), text(found.name), oid(PG_CATALOG), oid(BOOTSTRAP_ROLE), oid(PARSER)])?;
    }
    let names = env.names();
    for made in names.catalog.search_configurations() {
        let schema = oid(names.schema_number(&made.schema).unwrap_or(0));
        rows.push([oid(made.id), text(&made.name), schema, oid(made.owner), oid(PARSER)])?;
    }
    Ok(())
}

fn mappings(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let made = names.catalog.search_configurations().map(|made| made.id);
    for number in CONFIGURATIONS.iter().map(|found| found.number).chain(made) {
        for (kind, asked) in mappings_of(&names.catalog, number) {
            for (place, dictionary) in (1_i32..).zip(asked) {
                rows.push([oid(number), int(kind), int(place), oid(dictionary)])?;
            }
        }
    }
    Ok(())
}

/// The options of a dictionary, as CREATE takes them.
fn options_text(options: &[(CompactString, String)]) -> Datum {
    if options.is_empty() {
        return NULL;
    }
    let option = |(name, value): &(CompactString, String)| {
        format!("{} = '{}'", super::names::quoted(name), value.replace('\'', "''"))
    };
    text(&options.iter().map(option).collect::<Vec<_>>().join(", "))
}

fn dictionaries(env: &Env, rows: &mut Rows) -> Result<()> {
    for found in &DICTIONARIES {
        let options = match found.dictionary {
            Dictionary::Stem { language, stop_words: Some(_) } => {
                text(&format!("language = '{0}', stopwords = '{0}'", language.name()))
            }
            Dictionary::Stem { language, .. } => text(&format!("language = '{}'", language.name())),
            Dictionary::Simple { .. } | Dictionary::Unaccent => NULL,
        };
        rows.push([
            oid(found.number),
            text(found.name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            oid(found.template),
            options,
        ])?;
    }
    let names = env.names();
    for made in names.catalog.search_dictionaries() {
        let schema = oid(names.schema_number(&made.schema).unwrap_or(0));
        let options = options_text(&made.options);
        rows.push([oid(made.id), text(&made.name), schema, oid(made.owner), oid(made.template), options])?;
    }
    Ok(())
}

/// A function by its name, which no other one has.
fn function(name: &str) -> colibri_types::Datum {
    oid(procedures::named(name).next().map_or(0, |(number, _)| number))
}

fn parsers(_: &Env, rows: &mut Rows) -> Result<()> {
    rows.push([
        oid(PARSER),
        text("default"),
        oid(PG_CATALOG),
        function("prsd_start"),
        function("prsd_nexttoken"),
        function("prsd_end"),
        function("prsd_headline"),
        function("prsd_lextype"),
    ])
}

fn templates(_: &Env, rows: &mut Rows) -> Result<()> {
    for found in &TEMPLATES {
        let (init, lexize) = found.functions;
        rows.push([oid(found.number), text(found.name), oid(PG_CATALOG), function(init), function(lexize)])?;
    }
    Ok(())
}
