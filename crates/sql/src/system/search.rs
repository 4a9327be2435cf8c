//! Text search in the catalogue: configurations, dictionaries, the parser, and their names.

use colibri_catalog::{Catalog, cluster::BOOTSTRAP_ROLE, parse_name};
use colibri_types::text_search::{self, CONFIGURATIONS, DICTIONARIES, Dictionary, KINDS, PARSER, TEMPLATES};
use colibri_types::{Env, Result, Type};
use compact_str::CompactString;

use super::names::Meaning;
use super::{Fill, NULL, PG_CATALOG, Rows, int, oid, procedures, text};

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_ts_config", configurations),
    ("pg_ts_config_map", mappings),
    ("pg_ts_dict", dictionaries),
    ("pg_ts_parser", parsers),
    ("pg_ts_template", templates),
];

/// The extension that has a dictionary of its own, which is called as it is.
const UNACCENT: &str = "unaccent";

/// Whether a dictionary is an extension's that the database has not.
pub(super) fn is_missing(catalog: &Catalog, parts: &[CompactString]) -> bool {
    parts.last().is_some_and(|name| name == UNACCENT) && !catalog.extensions().any(|known| known.name == UNACCENT)
}

/// What a name of a configuration or a dictionary means.
pub(super) fn meaning(ty: Type, parts: &[CompactString]) -> Option<Meaning> {
    let name = match parts {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    let number = match ty {
        Type::RegConfig => text_search::configuration_named(name).map(|found| found.number),
        _ => text_search::dictionary_named(name).map(|found| found.number),
    };
    number.map(Meaning::Number)
}

/// The name of a configuration or a dictionary.
pub(super) fn name_of(ty: Type, number: u32) -> Option<&'static str> {
    match ty {
        Type::RegConfig => text_search::configuration_numbered(number).map(|found| found.name),
        _ => text_search::dictionary_numbered(number).map(|found| found.name),
    }
}

/// The configuration that a setting names.
pub(crate) fn number_of_setting(value: &str) -> Option<u32> {
    match meaning(Type::RegConfig, &parse_name(value)?) {
        Some(Meaning::Number(number)) => Some(number),
        _ => None,
    }
}

/// The same as SHOW gives it, with its schema.
pub(crate) fn shown_setting(value: &str) -> Option<String> {
    let name = name_of(Type::RegConfig, number_of_setting(value)?)?;
    Some(format!("pg_catalog.{name}"))
}

/// What the catalogue says of an object of text search, by the number of the table that lists it.
pub(crate) fn description(class: u32, number: u32) -> Option<String> {
    let is = |name: &str| super::table("pg_catalog", name).is_some_and(|table| table.oid == class);
    if is("pg_ts_dict") {
        let found = DICTIONARIES.iter().find(|found| found.number == number)?;
        return Some(match found.dictionary {
            Dictionary::Stem(language) => format!("snowball stemmer for {} language", language.name()),
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

fn configurations(_: &Env, rows: &mut Rows) -> Result<()> {
    for found in &CONFIGURATIONS {
        rows.push([oid(found.number), text(found.name), oid(PG_CATALOG), oid(BOOTSTRAP_ROLE), oid(PARSER)])?;
    }
    Ok(())
}

fn mappings(_: &Env, rows: &mut Rows) -> Result<()> {
    for found in &CONFIGURATIONS {
        for kind in 1..=KINDS.len() as u8 {
            if let Some(dictionary) = text_search::mapping(found, kind) {
                rows.push([oid(found.number), int(kind), int(1_u8), oid(dictionary)])?;
            }
        }
    }
    Ok(())
}

fn dictionaries(_: &Env, rows: &mut Rows) -> Result<()> {
    for found in &DICTIONARIES {
        let options = match found.dictionary {
            Dictionary::Stem(language) if language.has_stop_words() => {
                text(&format!("language = '{0}', stopwords = '{0}'", language.name()))
            }
            Dictionary::Stem(language) => text(&format!("language = '{}'", language.name())),
            Dictionary::Simple | Dictionary::Unaccent => NULL,
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
