//! Storage parameters: `WITH (fillfactor = 70)`.
//!
//! Rows and entries lie in trees that have no such parameters, but for those of topics (`topics`)
//! and for compression (`compression`). Other parameters that PostgreSQL knows are checked as
//! PostgreSQL does, and ignored. Others are an error, and so are those that would change what a
//! statement means.

use colibri_catalog::row::Compression;
use colibri_catalog::{CheckOption, Column, ColumnStorage, CompressionName, PARTITIONS_MAX, StorageKind, Topic};
use colibri_types::interval::Interval;
use colibri_types::{ColumnType, Error, Result, SqlState};
use sqlparser::ast;

use crate::bind::fold;

#[derive(Clone, Copy)]
enum Kind {
    Bool,
    /// A number, with the smallest and the largest value.
    Int(i64, i64),
    Real(f64, f64),
    /// A length of time, or `none`.
    Span,
    /// One of some words.
    Word(&'static [&'static str]),
}

const INT_MAX: i64 = 0x7fff_ffff;

/// How long values of a table are compressed.
const COMPRESSION: &str = "compression";

const OF_TABLES: [(&str, Kind); 29] = [
    ("fillfactor", Kind::Int(10, 100)),
    ("toast_tuple_target", Kind::Int(128, 8160)),
    ("parallel_workers", Kind::Int(0, 1024)),
    ("user_catalog_table", Kind::Bool),
    ("autovacuum_enabled", Kind::Bool),
    ("vacuum_index_cleanup", Kind::Word(&["auto", "on", "off", "true", "false", "yes", "no", "1", "0"])),
    ("vacuum_truncate", Kind::Bool),
    ("autovacuum_vacuum_threshold", Kind::Int(0, INT_MAX)),
    ("autovacuum_vacuum_insert_threshold", Kind::Int(-1, INT_MAX)),
    ("autovacuum_analyze_threshold", Kind::Int(0, INT_MAX)),
    ("autovacuum_vacuum_cost_delay", Kind::Real(0.0, 100.0)),
    ("autovacuum_vacuum_cost_limit", Kind::Int(1, 10_000)),
    ("autovacuum_freeze_min_age", Kind::Int(0, 1_000_000_000)),
    ("autovacuum_freeze_max_age", Kind::Int(100_000, 2_000_000_000)),
    ("autovacuum_freeze_table_age", Kind::Int(0, 2_000_000_000)),
    ("autovacuum_multixact_freeze_min_age", Kind::Int(0, 1_000_000_000)),
    ("autovacuum_multixact_freeze_max_age", Kind::Int(10_000, 2_000_000_000)),
    ("autovacuum_multixact_freeze_table_age", Kind::Int(0, 2_000_000_000)),
    ("log_autovacuum_min_duration", Kind::Int(-1, INT_MAX)),
    ("autovacuum_vacuum_scale_factor", Kind::Real(0.0, 100.0)),
    ("autovacuum_vacuum_insert_scale_factor", Kind::Real(0.0, 100.0)),
    ("autovacuum_analyze_scale_factor", Kind::Real(0.0, 100.0)),
    ("seq_page_cost", Kind::Real(0.0, f64::MAX)),
    ("random_page_cost", Kind::Real(0.0, f64::MAX)),
    ("oids", Kind::Bool),
    (COMPRESSION, Kind::Word(&["none", "lz4"])),
    ("topic_partitions", Kind::Int(1, PARTITIONS_MAX as i64)),
    ("topic_retention", Kind::Span),
    ("topic_retention_bytes", Kind::Int(0, i64::MAX)),
];

const OF_INDEXES: [(&str, Kind); 2] = [("fillfactor", Kind::Int(10, 100)), ("deduplicate_items", Kind::Bool)];
const OF_GIN: [(&str, Kind); 2] =
    [("fastupdate", Kind::Bool), ("gin_pending_list_limit", Kind::Int(64, i32::MAX as i64))];

fn bad(message: String) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

fn check_value(name: &str, kind: Kind, value: Option<&str>) -> Result<()> {
    let value = value.unwrap_or("true");
    let bounds = |low: String, high: String| {
        bad(format!("value {value} out of bounds for option \"{name}\""))
            .detail(format!("Valid values are between \"{low}\" and \"{high}\"."))
    };
    match kind {
        Kind::Bool => match is_true(value) {
            Some(_) => Ok(()),
            None => Err(bad(format!("invalid value for boolean option \"{name}\": {value}"))),
        },
        Kind::Int(low, high) => match value.parse::<i64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            Ok(_) => Err(bounds(low.to_string(), high.to_string())),
            Err(_) => Err(bad(format!("invalid value for integer option \"{name}\": {value}"))),
        },
        Kind::Real(low, high) => match value.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            Ok(_) => Err(bounds(low.to_string(), high.to_string())),
            Err(_) => Err(bad(format!("invalid value for floating point option \"{name}\": {value}"))),
        },
        Kind::Span => retention_us(value).map(drop),
        Kind::Word(words) if words.contains(&value.to_ascii_lowercase().as_str()) => Ok(()),
        Kind::Word(words) => {
            let error = bad(format!("invalid value for enum option \"{name}\": {value}"));
            let valid = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
            let is_ours = name == COMPRESSION;
            Err(if is_ours { error.detail(format!("Valid values are {}.", valid.join(" and "))) } else { error })
        }
    }
}

fn is_true(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn unknown(name: &str) -> Error {
    bad(format!("unrecognized parameter \"{name}\""))
}

fn text_of(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) => text.clone(),
        other => other.to_string(),
    }
}

/// The names and values of options.
fn named(options: &[ast::SqlOption]) -> Result<Vec<(String, Option<String>)>> {
    let one = |option: &ast::SqlOption| match option {
        ast::SqlOption::KeyValue { key, value } => Ok((fold(key).to_string(), Some(text_of(value)))),
        ast::SqlOption::Ident(key) => Ok((fold(key).to_string(), None)),
        other => Err(Error::unsupported(format_args!("the option {other}"))),
    };
    options.iter().map(one).collect()
}

fn check(named: &[(String, Option<String>)], known: &[(&str, Kind)]) -> Result<()> {
    for (at, (name, value)) in named.iter().enumerate() {
        if named[..at].iter().any(|(other, _)| other == name) {
            return Err(bad(format!("parameter \"{name}\" specified more than once")));
        }
        // `toast.…` is about values that are stored apart.
        let plain = name.strip_prefix("toast.").unwrap_or(name);
        let Some((_, kind)) = known.iter().find(|(known, _)| *known == plain) else { return Err(unknown(plain)) };
        check_value(plain, *kind, value.as_deref())?;
    }
    Ok(())
}

/// Checks the parameters of a table.
pub(super) fn check_table_options(options: &[ast::SqlOption]) -> Result<()> {
    let named = named(options)?;
    check(&named, &OF_TABLES)?;
    let has_oids = named
        .iter()
        .any(|(name, value)| name == "oids" && value.as_deref().is_none_or(|value| is_true(value) == Some(true)));
    if has_oids {
        let message = "tables declared WITH OIDS are not supported";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

/// How storage parameters say that long values of the table are compressed, if they do. They were
/// checked one by one.
pub(super) fn compression_of(options: &[ast::SqlOption]) -> Result<Option<Compression>> {
    let found = named(options)?.into_iter().find(|(name, _)| name == COMPRESSION);
    Ok(found.and_then(|(_, value)| Compression::named(&value?.to_ascii_lowercase())))
}

/// What RESET of storage parameters makes of how a table is compressed, and of a topic.
pub(super) fn reset(
    options: &[ast::SqlOption],
    mut compression: Option<Compression>,
    mut topic: Option<Topic>,
) -> Result<(Option<Compression>, Option<Topic>)> {
    for (name, _) in named(options)? {
        match (name.as_str(), &mut topic) {
            (COMPRESSION, _) => compression = None,
            ("topic_partitions", Some(_)) => {
                return Err(
                    bad("a topic cannot become a table again: \"topic_partitions\" cannot be reset".to_owned()),
                );
            }
            ("topic_retention", Some(topic)) => topic.retention_us = None,
            ("topic_retention_bytes", Some(topic)) => topic.retention_bytes = None,
            _ => {}
        }
    }
    Ok((compression, topic))
}

/// The method of COMPRESSION for a column of a type; `None` for the usual one.
pub(super) fn compression_named(name: &str, ty: ColumnType) -> Result<Option<CompressionName>> {
    if name == "default" {
        return Ok(None);
    }
    if StorageKind::of_type(ty.ty) == StorageKind::Plain {
        let message = format!("column data type {ty} does not support compression");
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    match CompressionName::named(name) {
        Some(method) => Ok(Some(method)),
        None => Err(bad(format!("invalid compression method \"{name}\""))),
    }
}

/// What storage parameters make of a table that is this topic, or none, so far. They were checked
/// one by one.
pub(super) fn topic_of(options: &[ast::SqlOption], before: Option<Topic>) -> Result<Option<Topic>> {
    let mut topic = before;
    let named = named(options)?;
    let said =
        |name: &str| named.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_deref().unwrap_or(""));
    if let Some(partitions) = said("topic_partitions").and_then(|value| value.parse::<u32>().ok()) {
        if before.is_some_and(|before| before.partitions > partitions) {
            return Err(bad("a topic cannot have fewer partitions than before".to_owned()));
        }
        topic.get_or_insert(Topic { partitions, retention_us: None, retention_bytes: None }).partitions = partitions;
    }
    let (time, bytes) = (said("topic_retention"), said("topic_retention_bytes"));
    let Some(topic) = &mut topic else {
        return match time.or(bytes) {
            Some(_) => Err(bad("retention is for topics: \"topic_partitions\" is missing".to_owned())),
            None => Ok(None),
        };
    };
    if let Some(time) = time {
        topic.retention_us = retention_us(time)?;
    }
    if let Some(bytes) = bytes.and_then(|value| value.parse::<u64>().ok()) {
        topic.retention_bytes = (bytes > 0).then_some(bytes);
    }
    Ok(Some(*topic))
}

/// The length of an interval; `None` of `none`.
fn retention_us(text: &str) -> Result<Option<i64>> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    match i64::try_from(Interval::parse(text)?.length_us()) {
        Ok(length @ 1..) => Ok(Some(length)),
        _ => Err(bad(format!("a topic cannot keep messages for \"{text}\""))),
    }
}

/// Checks the parameters of an index, which the parser gives as comparisons.
pub(super) fn check_index_options(options: &[ast::Expr], method: Option<&str>) -> Result<()> {
    let one = |option: &ast::Expr| match option {
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } => Ok((folded(left), Some(text_of(right)))),
        ast::Expr::Identifier(_) => Ok((folded(option), None)),
        other => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    };
    let options = options.iter().map(one).collect::<Result<Vec<_>>>()?;
    match method {
        Some("gin") => check(&options, &OF_GIN),
        Some("bloom") => options.iter().try_for_each(|(name, value)| {
            let column = name.strip_prefix("col").and_then(|number| number.parse().ok());
            match (name.as_str(), column) {
                ("length", _) => check_value(name, Kind::Int(1, 4096), value.as_deref()),
                (_, Some(1..=32_u8)) => check_value(name, Kind::Int(1, 4095), value.as_deref()),
                _ => Err(unknown(name)),
            }
        }),
        _ => check(&options, &OF_INDEXES),
    }
}

fn folded(name: &ast::Expr) -> String {
    match name {
        ast::Expr::Identifier(name) => fold(name).to_string(),
        other => other.to_string(),
    }
}

/// What the options of a view say, beside what is accepted and ignored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ViewOptions {
    /// Outside: whether it is said; inside: what.
    pub(super) check_option: Option<Option<CheckOption>>,
    pub(super) invoker: Option<bool>,
}

/// Reads the options of a view.
pub(super) fn view_options(options: &[ast::SqlOption]) -> Result<ViewOptions> {
    let mut found = ViewOptions::default();
    for (name, value) in named(options)? {
        let value = value.as_deref();
        match name.as_str() {
            // A user's conditions are never evaluated before those of a view that may hide rows
            // from the user.
            "security_barrier" => check_value(&name, Kind::Bool, value)?,
            "security_invoker" => {
                check_value(&name, Kind::Bool, value)?;
                found.invoker = is_true(value.unwrap_or("true"));
            }
            "check_option" => {
                found.check_option = Some(Some(match value.map(str::to_ascii_lowercase).as_deref() {
                    Some("local") => CheckOption::Local,
                    Some("cascaded") => CheckOption::Cascaded,
                    other => {
                        let message =
                            format!("invalid value for enum option \"check_option\": {}", other.unwrap_or("true"));
                        return Err(bad(message).detail("Valid values are \"local\" and \"cascaded\"."));
                    }
                }));
            }
            _ => return Err(unknown(&name)),
        }
    }
    Ok(found)
}

/// The options behind WITH.
pub(super) fn with_options(options: &ast::CreateTableOptions) -> Result<&[ast::SqlOption]> {
    match options {
        ast::CreateTableOptions::None => Ok(&[]),
        ast::CreateTableOptions::With(options) => Ok(options),
        ast::CreateTableOptions::Options(_)
        | ast::CreateTableOptions::Plain(_)
        | ast::CreateTableOptions::TableProperties(_) => {
            Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: there are no options {options}")))
        }
    }
}

/// Whether what ALTER COLUMN says is of how a column is stored.
pub(super) fn is_of_column(text: &str) -> bool {
    let rest = |word: &str| {
        let begin = text.get(..word.len())?;
        begin.eq_ignore_ascii_case(word).then(|| text[word.len()..].trim_ascii_start())
    };
    let Some(rest) = rest("SET").or_else(|| rest("RESET")) else { return false };
    let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    rest.starts_with('(') || ["statistics", "storage", "compression"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Whether what ALTER COLUMN says is SET STORAGE.
pub(super) fn is_set_storage(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    words.next().is_some_and(|word| word.eq_ignore_ascii_case("set"))
        && words.next().is_some_and(|word| word.eq_ignore_ascii_case("storage"))
}

/// How a column is stored after what ALTER COLUMN says of it; `None` if it says something else.
pub(super) fn changed_storage(text: &str, column: &Column) -> Option<Result<ColumnStorage>> {
    if !is_of_column(text) {
        return None;
    }
    let text = text.trim_ascii().trim_end_matches(';').trim_ascii_end();
    if let Some((_, options)) = text.split_once('(') {
        let options = options.trim_ascii_end().trim_end_matches(')');
        return Some(
            options
                .split(',')
                .try_for_each(|option| {
                    let name = option.split('=').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
                    match &*name {
                        "n_distinct" | "n_distinct_inherited" => Ok(()),
                        _ => Err(Error::new(SqlState::BAD_PARAMETER, format!("unrecognized parameter \"{name}\""))),
                    }
                })
                .map(|()| column.storage),
        );
    }
    let mut words = text.split_ascii_whitespace().skip(1);
    let what = words.next().unwrap_or_default().to_ascii_lowercase();
    let value = words.collect::<Vec<_>>().join(" ");
    let name = value.trim_matches(['"', '\'']).to_ascii_lowercase();
    let wrong = |message: String| Err(Error::new(SqlState::BAD_PARAMETER, message));
    Some(match &*what {
        "statistics" => match name.replace(' ', "").parse::<i64>() {
            Ok(target) if target < -1 => wrong(format!("statistics target {target} is too low")),
            Ok(_) => Ok(column.storage),
            Err(_) => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{value}\""))),
        },
        "storage" => match StorageKind::named(&name) {
            None => wrong(format!("invalid storage type \"{value}\"")),
            Some(kind) if kind != StorageKind::Plain && StorageKind::of_type(column.ty.ty) == StorageKind::Plain => {
                let message = format!("column data type {} can only have storage PLAIN", column.ty);
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            Some(kind) => Ok(ColumnStorage { kind: Some(kind), ..column.storage }),
        },
        _ => compression_named(&name, column.ty).map(|compression| ColumnStorage { compression, ..column.storage }),
    })
}
