//! The functions and operators of full text search. What they do is in `crate::text_search`.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use compact_str::CompactString;

use super::{Function, bytes, check_length, document as json_document, f, int, text};
use crate::array::Array;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::json_text::{self, Lexer, Token};
use crate::jsonb::{Item, JsonbRef, Node};
use crate::pulse;
use crate::row::{Row, RowType};
use crate::text_search::{self as search, Configuration, Dictionary, KINDS, Lexized, Operator, PausedTokens};
use crate::text_search::{Position, Query, Vector, VectorBuilder, Words};
use crate::types::Type::{
    Bool, Float4, Hstore, Int2, Int4, InternalChar, Json, Jsonb, Oid, RegConfig, RegDictionary, Text, TsQuery, TsVector,
};
use crate::types::{ColumnType, Type};
use crate::value::Datum;

const TEXTS: Type = Text.array_of();
const CHARS: Type = InternalChar.array_of();
const FLOATS: Type = Float4.array_of();

fn vector(value: &Datum) -> Result<Vector<'_>> {
    bytes(value).map(Vector::new)
}

fn query(value: &Datum) -> Result<Query> {
    match value {
        Datum::Query(bytes) => Ok(Query::from_bytes(bytes)),
        other => Err(Error::internal(format_args!("a function for queries was called with {other:?}"))),
    }
}

/// A query in its stored form, and read.
type ReadQuery = (Box<[u8]>, Rc<Query>);

thread_local! {
    /// The query that this thread has read last, with its bytes: most are asked of many documents.
    static READ: RefCell<Option<ReadQuery>> = const { RefCell::new(None) };
}

/// A query that is asked of a document.
fn asked(value: &Datum) -> Result<Rc<Query>> {
    let Datum::Query(bytes) = value else { return query(value).map(Rc::new) };
    READ.with_borrow_mut(|read| {
        if let Some((_, query)) = read.as_ref().filter(|(known, _)| known == bytes) {
            return Ok(Rc::clone(query));
        }
        let query = Rc::new(query(value)?);
        *read = Some((bytes.clone(), Rc::clone(&query)));
        Ok(query)
    })
}

fn of_vector(bytes: Box<[u8]>) -> Datum {
    Datum::Bytes(bytes)
}

fn of_query(query: &Query) -> Result<Datum> {
    query.to_bytes().map(Datum::Query)
}

fn array(value: &Datum) -> Result<&Array> {
    match value {
        Datum::Array(array) => Ok(array),
        other => Err(Error::internal(format_args!("a function for arrays was called with {other:?}"))),
    }
}

/// A configuration of the system, or one that a user has made.
#[derive(Debug, Clone)]
pub(super) enum ConfigurationRef {
    /// Of the system.
    System(&'static Configuration),
    /// Of a user.
    User(Arc<Configuration>),
}

impl Deref for ConfigurationRef {
    type Target = Configuration;

    fn deref(&self) -> &Configuration {
        match self {
            Self::System(configuration) => configuration,
            Self::User(configuration) => configuration,
        }
    }
}

impl ConfigurationRef {
    /// The configuration with a number.
    ///
    /// # Errors
    /// XX000 if there is none.
    fn find(number: u32, env: &Env) -> Result<Self> {
        if let Some(found) = search::configuration_numbered(number) {
            return Ok(Self::System(found));
        }
        let found = env.surroundings.as_deref().and_then(|around| around.search_configuration(number));
        found
            .map(Self::User)
            .ok_or_else(|| Error::internal(format_args!("cache lookup failed for text search configuration {number}")))
    }
}

fn configuration(value: &Datum, env: &Env) -> Result<ConfigurationRef> {
    ConfigurationRef::find(int(value)? as u32, env)
}

/// The session's configuration.
fn current(env: &Env) -> Result<ConfigurationRef> {
    ConfigurationRef::find(env.text_search, env)
}

/// The configuration that is the first argument where there are `count` others, and these.
fn configured<'a, 'd>(args: &'a [&'d Datum], count: usize, env: &Env) -> Result<(ConfigurationRef, &'a [&'d Datum])> {
    match args.split_first() {
        Some((first, rest)) if rest.len() == count => Ok((configuration(first, env)?, rest)),
        _ => Ok((current(env)?, args)),
    }
}

/// Which parts of a JSON value are words.
#[derive(Clone, Copy)]
struct Parts {
    keys: bool,
    texts: bool,
    numbers: bool,
    booleans: bool,
}

const ONLY_TEXTS: Parts = Parts { keys: false, texts: true, numbers: false, booleans: false };

impl Parts {
    /// What a filter asks for: a word, or an array of words.
    fn parse(filter: JsonbRef<'_>) -> Result<Self> {
        const HINT: &str = "Possible values are: \"string\", \"numeric\", \"boolean\", \"key\", and \"all\".";
        let mut parts = Self { keys: false, texts: false, numbers: false, booleans: false };
        let mut add = |node: Node<'_>| {
            let Node::String(word) = node else {
                let message = "flag array element is not a string";
                return Err(Error::new(SqlState::BAD_PARAMETER, message).hint(HINT));
            };
            match () {
                () if word.eq_ignore_ascii_case("all") => {
                    parts = Self { keys: true, texts: true, numbers: true, booleans: true };
                }
                () if word.eq_ignore_ascii_case("key") => parts.keys = true,
                () if word.eq_ignore_ascii_case("string") => parts.texts = true,
                () if word.eq_ignore_ascii_case("numeric") => parts.numbers = true,
                () if word.eq_ignore_ascii_case("boolean") => parts.booleans = true,
                () => {
                    let message = format!("wrong flag in flag array: \"{word}\"");
                    return Err(Error::new(SqlState::BAD_PARAMETER, message).hint(HINT));
                }
            }
            Ok(())
        };
        match filter.node()? {
            Node::Array(list) => list.iter().try_for_each(|element| add(element.node()?))?,
            Node::Object(_) => {
                let message = "wrong flag type, only arrays and scalars are allowed";
                return Err(Error::new(SqlState::BAD_PARAMETER, message));
            }
            scalar => add(scalar)?,
        }
        Ok(parts)
    }
}

/// Adds the words of a JSON value, each text apart from the others.
fn add_document(words: &mut Words, configuration: &Configuration, value: JsonbRef<'_>, parts: Parts) -> Result<()> {
    match value.node()? {
        Node::Array(list) => list.iter().try_for_each(|element| add_document(words, configuration, element, parts)),
        Node::Object(map) => map.iter().try_for_each(|(key, value)| {
            if parts.keys {
                words.add_apart(configuration, key)?;
            }
            add_document(words, configuration, value, parts)
        }),
        Node::String(text) if parts.texts => words.add_apart(configuration, text),
        Node::Number(number) if parts.numbers => words.add_apart(configuration, &number.to_string()),
        Node::Bool(value) if parts.booleans => words.add_apart(configuration, if value { "true" } else { "false" }),
        _ => Ok(()),
    }
}

/// The tokens of a JSON text, and for a string what it is and whether it is a key.
fn each_token(json: &str, mut each: impl FnMut(Token, &str, &str, bool) -> Result<()>) -> Result<()> {
    let mut lexer = Lexer::new(json, true);
    lexer.advance()?;
    loop {
        let (token, written) = (lexer.token(), lexer.text());
        if token == Token::End {
            return Ok(());
        }
        let string = if token == Token::String { lexer.take_string() } else { String::new() };
        lexer.advance()?;
        each(token, written, &string, lexer.token() == Token::Colon)?;
    }
}

/// The same of JSON in its text.
fn add_json(words: &mut Words, configuration: &Configuration, json: &str, parts: Parts) -> Result<()> {
    each_token(json, |token, written, string, is_key| match token {
        Token::String if is_key && parts.keys || !is_key && parts.texts => words.add_apart(configuration, string),
        Token::Number if parts.numbers => words.add_apart(configuration, written),
        Token::True | Token::False if parts.booleans => words.add_apart(configuration, written),
        _ => Ok(()),
    })
}

fn json_vector(configuration: &Configuration, value: &Datum, parts: Parts) -> Result<Datum> {
    let mut words = Words::default();
    match value {
        Datum::Jsonb(_) => add_document(&mut words, configuration, json_document(value)?, parts)?,
        value => add_json(&mut words, configuration, text(value)?, parts)?,
    }
    words.finish().map(of_vector)
}

fn to_vector(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 1, env)?;
    search::document(&configuration, text(rest[0])?).map(of_vector)
}

fn json_to_vector(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 1, env)?;
    json_vector(&configuration, rest[0], ONLY_TEXTS)
}

fn parts_to_vector(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 2, env)?;
    json_vector(&configuration, rest[0], Parts::parse(json_document(rest[1])?)?)
}

fn to_query(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 1, env)?;
    of_query(&search::query_of_text(&configuration, text(rest[0])?)?)
}

fn plain_to_query(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 1, env)?;
    of_query(&search::plain_query(&configuration, text(rest[0])?, false)?)
}

fn phrase_to_query(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 1, env)?;
    of_query(&search::plain_query(&configuration, text(rest[0])?, true)?)
}

fn web_to_query(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest) = configured(args, 1, env)?;
    of_query(&search::web_query(&configuration, text(rest[0])?)?)
}

fn is_match(args: &[&Datum], _: &Env) -> Result<Datum> {
    let query = asked(args[1])?;
    search::is_match(vector(args[0])?, &query).map(Datum::Bool)
}

fn is_match_of(args: &[&Datum], _: &Env) -> Result<Datum> {
    let query = asked(args[0])?;
    search::is_match(vector(args[1])?, &query).map(Datum::Bool)
}

fn text_is_match(args: &[&Datum], env: &Env) -> Result<Datum> {
    let configuration = current(env)?;
    let document = search::document(&configuration, text(args[0])?)?;
    let query = asked(args[1])?;
    search::is_match(Vector::new(&document), &query).map(Datum::Bool)
}

fn text_is_match_of_text(args: &[&Datum], env: &Env) -> Result<Datum> {
    let configuration = current(env)?;
    let document = search::document(&configuration, text(args[0])?)?;
    let query = search::plain_query(&configuration, text(args[1])?, false)?;
    search::is_match(Vector::new(&document), &query).map(Datum::Bool)
}

fn joined(args: &[&Datum], operator: Operator) -> Result<Datum> {
    of_query(&query(args[0])?.joined(operator, query(args[1])?))
}

fn phrase(args: &[&Datum], _: &Env) -> Result<Datum> {
    let distance = match args.get(2) {
        Some(distance) => {
            u16::try_from(int(distance)?).ok().filter(|&distance| distance <= 1 << 14).ok_or_else(|| {
                let message = "distance in phrase operator must be an integer value between zero and 16384 inclusive";
                Error::new(SqlState::BAD_PARAMETER, message)
            })?
        }
        None => 1,
    };
    joined(args, Operator::Phrase(distance))
}

fn has_lexemes(outer: &Datum, inner: &Datum) -> Result<Datum> {
    let (outer, inner) = (query(outer)?, query(inner)?);
    let outer = outer.lexemes();
    Ok(Datum::Bool(inner.lexemes().iter().all(|lexeme| outer.binary_search(lexeme).is_ok())))
}

fn rewritten(args: &[&Datum], _: &Env) -> Result<Datum> {
    of_query(&search::rewritten(&query(args[0])?, &query(args[1])?, &query(args[2])?)?)
}

/// The weight that a letter names, for functions that say nothing else of a wrong one.
fn weight(value: &Datum) -> Result<u8> {
    let letter = text(value)?.chars().next().unwrap_or('\0');
    search::weight_named(letter)
        .ok_or_else(|| Error::new(SqlState::BAD_PARAMETER, format!("unrecognized weight: {}", u32::from(letter))))
}

fn set_weight(args: &[&Datum], _: &Env) -> Result<Datum> {
    let weight = weight(args[1])?;
    let lexemes = match args.get(2) {
        Some(lexemes) => Some(lexemes_in(lexemes)?),
        None => None,
    };
    let changed = search::changed(vector(args[0])?, |entry| {
        let is_meant = lexemes.as_ref().is_none_or(|lexemes| lexemes.binary_search(&entry.lexeme()).is_ok());
        let positions = entry.positions();
        Ok(Some(positions.map(|at| if is_meant { at.with_weight(weight) } else { at }).collect()))
    })?;
    Ok(of_vector(changed))
}

/// The lexemes in an array, sorted; NULL is none.
fn lexemes_in(value: &Datum) -> Result<Vec<&str>> {
    let values = array(value)?.values().iter().filter(|value| !value.is_null());
    let mut lexemes = values.map(text).collect::<Result<Vec<_>>>()?;
    pulse::work(lexemes.len() * 8)?;
    lexemes.sort_unstable();
    Ok(lexemes)
}

fn without(args: &[&Datum], lexemes: &[&str]) -> Result<Datum> {
    let changed = search::changed(vector(args[0])?, |entry| {
        let is_left = lexemes.binary_search(&entry.lexeme()).is_err();
        Ok(is_left.then(|| entry.positions().collect()))
    })?;
    Ok(of_vector(changed))
}

fn filtered(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut weights = 0_u8;
    for value in array(args[1])?.values() {
        if value.is_null() {
            return Err(Error::new(SqlState("22004"), "weight array may not contain nulls"));
        }
        let letter = text(value)?.chars().next().unwrap_or('\0');
        let weight = search::weight_named(letter)
            .ok_or_else(|| Error::new(SqlState::BAD_PARAMETER, format!("unrecognized weight: \"{letter}\"")))?;
        weights |= 1 << weight;
    }
    let changed = search::changed(vector(args[0])?, |entry| {
        let kept: Vec<Position> = entry.positions().filter(|at| weights >> at.weight() & 1 == 1).collect();
        Ok((!kept.is_empty()).then_some(kept))
    })?;
    Ok(of_vector(changed))
}

fn of_array(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut builder = VectorBuilder::default();
    for value in array(args[0])?.values() {
        if value.is_null() {
            return Err(Error::new(SqlState("22004"), "lexeme array may not contain nulls"));
        }
        let lexeme = text(value)?;
        if lexeme.is_empty() {
            return Err(Error::new(SqlState("2200F"), "lexeme array may not contain empty strings"));
        }
        builder.push(lexeme);
    }
    builder.finish().map(of_vector)
}

fn texts(values: impl Iterator<Item = Datum>) -> Datum {
    Datum::Array(Arc::new(Array::new(Text, values.collect())))
}

fn to_array(args: &[&Datum], _: &Env) -> Result<Datum> {
    let entries = vector(args[0])?;
    pulse::work(entries.len() * 4)?;
    Ok(texts(entries.entries().map(|entry| Datum::text(entry.lexeme()))))
}

/// The weights that are the first argument where there are more of type array, and the rest.
fn weighted<'a, 'd>(args: &'a [&'d Datum]) -> Result<([f32; 4], &'a [&'d Datum])> {
    let Some((Datum::Array(given), rest)) = args.split_first() else { return Ok((search::DEFAULT_WEIGHTS, args)) };
    let bad = |message: &str| Err(Error::new(SqlState("2202E"), message));
    if given.dimensions().len() != 1 {
        return bad("array of weight must be one-dimensional");
    }
    if given.values().len() < 4 {
        return bad("array of weight is too short");
    }
    if given.values().iter().any(Datum::is_null) {
        return Err(Error::new(SqlState("22004"), "array of weight must not contain nulls"));
    }
    let mut weights = search::DEFAULT_WEIGHTS;
    for (weight, value) in weights.iter_mut().zip(given.values()) {
        let value = super::float(value)? as f32;
        if value >= 0.0 {
            *weight = value;
        }
        if *weight > 1.0 {
            return Err(Error::new(SqlState::BAD_PARAMETER, "weight out of range"));
        }
    }
    Ok((weights, rest))
}

type Rank = fn(&[f32; 4], Vector<'_>, &Query, i64) -> Result<f32>;

fn ranked(args: &[&Datum], rank: Rank) -> Result<Datum> {
    let (weights, rest) = weighted(args)?;
    let norm = rest.get(2).map_or(Ok(0), |norm| int(norm))?;
    let query = asked(rest[1])?;
    rank(&weights, vector(rest[0])?, &query, norm).map(|rank| Datum::Float(f64::from(rank)))
}

/// Whether the first argument is a configuration, and the options, if they are there.
fn headline_args<'a, 'd>(args: &'a [&'d Datum], env: &Env) -> Result<(ConfigurationRef, &'a [&'d Datum], &'d str)> {
    let (configuration, rest) = match args {
        [Datum::Int(number), rest @ ..] => (ConfigurationRef::find(*number as u32, env)?, rest),
        _ => (current(env)?, args),
    };
    let options = rest.get(2).map_or(Ok(""), |options| text(options))?;
    Ok((configuration, rest, options))
}

fn text_headline(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest, options) = headline_args(args, env)?;
    let query = asked(rest[1])?;
    let headline = search::headline(&configuration, text(rest[0])?, &query, options)?;
    Ok(Datum::Text(CompactString::from(headline)))
}

fn json_headline(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (configuration, rest, options) = headline_args(args, env)?;
    let query = query(rest[1])?;
    let headline = |text: &str| search::headline(&configuration, text, &query, options);
    match rest[0] {
        Datum::Jsonb(_) => marked(json_document(rest[0])?, &headline)?.datum(),
        json => {
            let mut out = String::new();
            mark_json(text(json)?, &headline, &mut out)?;
            Ok(Datum::Text(out.into()))
        }
    }
}

type Mark<'f> = dyn Fn(&str) -> Result<String> + 'f;

/// A JSON value with its texts marked.
fn marked<'a>(value: JsonbRef<'a>, mark: &Mark<'_>) -> Result<Item<'a>> {
    Ok(match value.node()? {
        Node::Array(list) => Item::Array(list.iter().map(|element| marked(element, mark)).collect::<Result<_>>()?),
        Node::Object(map) => {
            Item::Object(map.iter().map(|(key, value)| Ok((key.into(), marked(value, mark)?))).collect::<Result<_>>()?)
        }
        Node::String(text) => Item::String(mark(text)?.into()),
        _ => Item::Part(value),
    })
}

/// Appends JSON in text form, without blanks, with its texts marked.
fn mark_json(json: &str, mark: &Mark<'_>, out: &mut String) -> Result<()> {
    each_token(json, |token, written, string, is_key| {
        match token {
            Token::String if is_key => json_text::write_quoted(string, out)?,
            Token::String => json_text::write_quoted(&mark(string)?, out)?,
            _ => out.push_str(written),
        }
        check_length(out.len())
    })
}

fn dictionary(value: &Datum, env: &Env) -> Result<Dictionary> {
    let number = int(value)? as u32;
    let of_user = || env.surroundings.as_deref().and_then(|around| around.search_dictionary(number));
    search::dictionary_numbered(number)
        .map(|entry| entry.dictionary)
        .or_else(of_user)
        .ok_or_else(|| Error::internal(format_args!("cache lookup failed for text search dictionary {number}")))
}

fn lexized(args: &[&Datum], env: &Env) -> Result<Datum> {
    Ok(match dictionary(args[0], env)?.lexize(text(args[1])?)? {
        Lexized::Unknown => Datum::Null,
        Lexized::Known(lexeme) => texts(lexeme.iter().map(|lexeme| Datum::text(lexeme))),
        Lexized::Filtered(word) => texts(std::iter::once(Datum::text(&word))),
    })
}

/// What gives rows of several columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchRows {
    /// `unnest(tsvector)`: lexemes, places and weights.
    Lexemes,
    /// `ts_token_type`: the kinds of tokens.
    Kinds,
    /// `ts_parse`: the tokens of a text.
    Tokens,
    /// `ts_debug`: the tokens of a text, and what a configuration makes of each.
    Debug,
    /// `each(hstore)`: its keys and values.
    Pairs,
    /// `aclexplode`: the privileges of a list, one by one.
    Privileges,
}

impl SearchRows {
    /// What a call means that gives such rows.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ts_token_type" => Self::Kinds,
            "ts_parse" => Self::Tokens,
            "ts_debug" => Self::Debug,
            "each" => Self::Pairs,
            "aclexplode" => Self::Privileges,
            _ => return None,
        })
    }

    /// The types of its arguments, in each way that it can be called.
    #[must_use]
    pub fn signatures(self) -> &'static [&'static [Type]] {
        const PRIVILEGES: Type = Type::AclItem.array_of();
        match self {
            Self::Lexemes => &[&[TsVector]],
            Self::Kinds => &[&[Text], &[Oid]],
            Self::Tokens => &[&[Text, Text], &[Oid, Text]],
            Self::Debug => &[&[Text], &[RegConfig, Text]],
            Self::Pairs => &[&[Hstore]],
            Self::Privileges => &[&[PRIVILEGES]],
        }
    }

    /// The columns of its rows.
    #[must_use]
    pub fn row_type(self) -> RowType {
        const SMALL_INTS: Type = Int2.array_of();
        const DICTIONARIES: Type = RegDictionary.array_of();
        let columns: &[(&str, Type)] = match self {
            Self::Lexemes => &[("lexeme", Text), ("positions", SMALL_INTS), ("weights", TEXTS)],
            Self::Kinds => &[("tokid", Int4), ("alias", Text), ("description", Text)],
            Self::Tokens => &[("tokid", Int4), ("token", Text)],
            Self::Pairs => &[("key", Text), ("value", Text)],
            Self::Privileges => {
                &[("grantor", Oid), ("grantee", Oid), ("privilege_type", Text), ("is_grantable", Type::Bool)]
            }
            Self::Debug => &[
                ("alias", Text),
                ("description", Text),
                ("token", Text),
                ("dictionaries", DICTIONARIES),
                ("dictionary", RegDictionary),
                ("lexemes", TEXTS),
            ],
        };
        let fields = columns.iter().map(|&(name, ty)| (name.into(), ColumnType::from(ty))).collect();
        RowType { oid: Type::Record.oid(), name: "record".into(), fields }
    }
}

/// Finds the parser, of which there is one.
fn expect_parser(value: &Datum) -> Result<()> {
    match value {
        Datum::Text(name) if matches!(&**name, "default" | "pg_catalog.default") => Ok(()),
        Datum::Text(name) => {
            Err(Error::new(SqlState::NO_SUCH_OBJECT, format!("text search parser \"{name}\" does not exist")))
        }
        value => match int(value)? as u32 {
            search::PARSER => Ok(()),
            other => Err(Error::internal(format_args!("cache lookup failed for text search parser {other}"))),
        },
    }
}

/// The rows of a call, one after the other: those of a long text are many.
#[derive(Debug)]
pub struct SearchRun {
    ty: Arc<RowType>,
    rest: Rest,
}

/// What is still to come.
#[derive(Debug)]
enum Rest {
    Listed(std::vec::IntoIter<Vec<Datum>>),
    /// Tokens, and what a configuration makes of them.
    Tokens {
        text: CompactString,
        paused: Option<PausedTokens>,
        configuration: Option<ConfigurationRef>,
    },
}

impl SearchRun {
    /// A call, none of whose arguments is NULL.
    ///
    /// # Errors
    /// 42704 for a parser that there is not, XX000 for a configuration.
    pub fn new(rows: SearchRows, args: &[Datum], env: &Env) -> Result<Self> {
        let [first, rest @ ..] = args else { return Err(Error::internal("rows of nothing")) };
        let last = rest.first().unwrap_or(first);
        let tokens = |configuration| {
            Ok(Rest::Tokens { text: text(last)?.into(), paused: Some(PausedTokens::begin()), configuration })
        };
        let rest = match rows {
            SearchRows::Lexemes => Rest::Listed(lexeme_rows(vector(first)?)?.into_iter()),
            SearchRows::Kinds => {
                expect_parser(first)?;
                let kinds = KINDS.iter().enumerate().map(|(at, (name, description))| {
                    vec![Datum::Int(at as i64 + 1), Datum::text(name), Datum::text(description)]
                });
                Rest::Listed(kinds.collect::<Vec<_>>().into_iter())
            }
            SearchRows::Pairs => {
                let pairs = crate::hstore::Hstore::new(super::bytes(first)?).pairs();
                let rows = pairs.map(|(key, value)| vec![Datum::text(key), value.map_or(Datum::Null, Datum::text)]);
                Rest::Listed(rows.collect::<Vec<_>>().into_iter())
            }
            SearchRows::Privileges => Rest::Listed(super::privileges::rows(first, env)?.into_iter()),
            SearchRows::Tokens => {
                expect_parser(first)?;
                tokens(None)?
            }
            SearchRows::Debug => {
                tokens(Some(if rest.is_empty() { current(env)? } else { configuration(first, env)? }))?
            }
        };
        Ok(Self { ty: Arc::new(rows.row_type()), rest })
    }

    /// The next row; `None` behind the last one.
    ///
    /// # Errors
    /// 57014 if the statement was cancelled.
    pub fn next_row(&mut self) -> Result<Option<Datum>> {
        let values = match &mut self.rest {
            Rest::Listed(rows) => rows.next(),
            Rest::Tokens { text, paused, configuration } => {
                let Some(from) = paused.take() else { return Ok(None) };
                let mut tokens = from.resume(text);
                let values = match (tokens.next_token()?, configuration.as_ref()) {
                    (None, _) => return Ok(None),
                    (Some(token), None) => vec![Datum::Int(i64::from(token.kind)), Datum::text(token.text)],
                    (Some(token), Some(configuration)) => debug_row(configuration, &token)?,
                };
                *paused = Some(tokens.pause());
                Some(values)
            }
        };
        Ok(values.map(|values| Datum::Row(Arc::new(Row::new(Arc::clone(&self.ty), values)))))
    }
}

/// The rows of `unnest` of a document, of which there are less than a million.
fn lexeme_rows(vector: Vector<'_>) -> Result<Vec<Vec<Datum>>> {
    let mut rows = Vec::new();
    for entry in vector.entries() {
        pulse::work(8 + entry.position_count())?;
        let list = |element: Type, values: Vec<Datum>| match entry.has_positions() {
            true => Datum::Array(Arc::new(Array::new(element, values))),
            false => Datum::Null,
        };
        let places = entry.positions().map(|at| Datum::Int(i64::from(at.place()))).collect();
        let weights = entry.positions().map(|at| Datum::text(search::weight_letter(at.weight()))).collect();
        rows.push(vec![Datum::text(entry.lexeme()), list(Int2, places), list(Text, weights)]);
    }
    Ok(rows)
}

/// The row of `ts_debug` for a token.
fn debug_row(configuration: &Configuration, token: &search::Token<'_>) -> Result<Vec<Datum>> {
    let (name, description) = KINDS[usize::from(token.kind) - 1];
    let asked = configuration.asked(token.kind);
    let number = |number: u32| Datum::Int(i64::from(number));
    // The first one that knows anything of the word.
    let (mut which, mut lexemes) = (Datum::Null, Datum::Null);
    for &(dictionary_number, dictionary) in asked.iter() {
        let found = match dictionary.lexize(token.text)? {
            Lexized::Unknown => continue,
            Lexized::Known(lexeme) => lexeme,
            Lexized::Filtered(plain) => Some(plain),
        };
        which = number(dictionary_number);
        lexemes = texts(found.iter().map(|lexeme| Datum::text(lexeme)));
        break;
    }
    Ok(vec![
        Datum::text(name),
        Datum::text(description),
        Datum::text(token.text),
        Datum::Array(Arc::new(Array::new(RegDictionary, asked.iter().map(|asked| number(asked.0)).collect()))),
        which,
        lexemes,
    ])
}

fn unaccent(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (dictionary, word) = match args {
        [asked, word] => (dictionary(asked, env)?, text(word)?),
        args => (Dictionary::Unaccent, text(args.last().copied().unwrap_or(&Datum::Null))?),
    };
    Ok(match dictionary.lexize(word)? {
        // What the dictionary knows nothing of, and what it leaves out, stays.
        Lexized::Unknown | Lexized::Known(None) => Datum::text(word),
        Lexized::Known(Some(lexeme)) | Lexized::Filtered(lexeme) => Datum::Text(lexeme.into()),
    })
}

/// The functions of the extension `unaccent`.
pub(super) const UNACCENT: &[Function] =
    &[f("unaccent", &[Text], Text, unaccent).stable(), f("unaccent", &[RegDictionary, Text], Text, unaccent).stable()];

pub(super) const TABLE: &[Function] = &[
    f("to_tsvector", &[Text], TsVector, to_vector).stable(),
    f("to_tsvector", &[RegConfig, Text], TsVector, to_vector),
    f("to_tsvector", &[Json], TsVector, json_to_vector).stable(),
    f("to_tsvector", &[RegConfig, Json], TsVector, json_to_vector),
    f("to_tsvector", &[Jsonb], TsVector, json_to_vector).stable(),
    f("to_tsvector", &[RegConfig, Jsonb], TsVector, json_to_vector),
    f("json_to_tsvector", &[Json, Jsonb], TsVector, parts_to_vector).stable(),
    f("json_to_tsvector", &[RegConfig, Json, Jsonb], TsVector, parts_to_vector),
    f("jsonb_to_tsvector", &[Jsonb, Jsonb], TsVector, parts_to_vector).stable(),
    f("jsonb_to_tsvector", &[RegConfig, Jsonb, Jsonb], TsVector, parts_to_vector),
    f("to_tsquery", &[Text], TsQuery, to_query).stable(),
    f("to_tsquery", &[RegConfig, Text], TsQuery, to_query),
    f("plainto_tsquery", &[Text], TsQuery, plain_to_query).stable(),
    f("plainto_tsquery", &[RegConfig, Text], TsQuery, plain_to_query),
    f("phraseto_tsquery", &[Text], TsQuery, phrase_to_query).stable(),
    f("phraseto_tsquery", &[RegConfig, Text], TsQuery, phrase_to_query),
    f("websearch_to_tsquery", &[Text], TsQuery, web_to_query).stable(),
    f("websearch_to_tsquery", &[RegConfig, Text], TsQuery, web_to_query),
    f("get_current_ts_config", &[], RegConfig, |_, env| Ok(Datum::Int(i64::from(env.text_search)))).stable(),
    f("@@", &[TsVector, TsQuery], Bool, is_match),
    f("@@", &[TsQuery, TsVector], Bool, is_match_of),
    f("@@", &[Text, TsQuery], Bool, text_is_match).stable(),
    f("@@", &[Text, Text], Bool, text_is_match_of_text).stable(),
    f("@@@", &[TsVector, TsQuery], Bool, is_match),
    f("@@@", &[TsQuery, TsVector], Bool, is_match_of),
    f("ts_match_vq", &[TsVector, TsQuery], Bool, is_match),
    f("ts_match_qv", &[TsQuery, TsVector], Bool, is_match_of),
    f("ts_match_tq", &[Text, TsQuery], Bool, text_is_match).stable(),
    f("ts_match_tt", &[Text, Text], Bool, text_is_match_of_text).stable(),
    f("||", &[TsVector, TsVector], TsVector, |args, _| {
        search::vectors_joined(vector(args[0])?, vector(args[1])?).map(of_vector)
    }),
    f("tsvector_concat", &[TsVector, TsVector], TsVector, |args, _| {
        search::vectors_joined(vector(args[0])?, vector(args[1])?).map(of_vector)
    }),
    f("||", &[TsQuery, TsQuery], TsQuery, |args, _| joined(args, Operator::Or)),
    f("tsquery_or", &[TsQuery, TsQuery], TsQuery, |args, _| joined(args, Operator::Or)),
    f("&&", &[TsQuery, TsQuery], TsQuery, |args, _| joined(args, Operator::And)),
    f("tsquery_and", &[TsQuery, TsQuery], TsQuery, |args, _| joined(args, Operator::And)),
    f("!!", &[TsQuery], TsQuery, |args, _| of_query(&query(args[0])?.negated())),
    f("tsquery_not", &[TsQuery], TsQuery, |args, _| of_query(&query(args[0])?.negated())),
    f("<->", &[TsQuery, TsQuery], TsQuery, phrase),
    f("tsquery_phrase", &[TsQuery, TsQuery], TsQuery, phrase),
    f("tsquery_phrase", &[TsQuery, TsQuery, Int4], TsQuery, phrase),
    f("@>", &[TsQuery, TsQuery], Bool, |args, _| has_lexemes(args[0], args[1])),
    f("tsq_mcontains", &[TsQuery, TsQuery], Bool, |args, _| has_lexemes(args[0], args[1])),
    f("<@", &[TsQuery, TsQuery], Bool, |args, _| has_lexemes(args[1], args[0])),
    f("tsq_mcontained", &[TsQuery, TsQuery], Bool, |args, _| has_lexemes(args[1], args[0])),
    f("numnode", &[TsQuery], Int4, |args, _| Ok(Datum::Int(query(args[0])?.nodes().len() as i64))),
    f("querytree", &[TsQuery], Text, |args, _| Ok(Datum::Text(query(args[0])?.searchable()?.into()))),
    f("ts_rewrite", &[TsQuery, TsQuery, TsQuery], TsQuery, rewritten),
    f("length", &[TsVector], Int4, |args, _| Ok(Datum::Int(vector(args[0])?.len() as i64))),
    f("strip", &[TsVector], TsVector, |args, _| {
        search::changed(vector(args[0])?, |_| Ok(Some(Vec::new()))).map(of_vector)
    }),
    f("setweight", &[TsVector, InternalChar], TsVector, set_weight),
    f("setweight", &[TsVector, InternalChar, TEXTS], TsVector, set_weight),
    f("ts_delete", &[TsVector, Text], TsVector, |args, _| without(args, &[text(args[1])?])),
    f("ts_delete", &[TsVector, TEXTS], TsVector, |args, _| without(args, &lexemes_in(args[1])?)),
    f("ts_filter", &[TsVector, CHARS], TsVector, filtered),
    f("array_to_tsvector", &[TEXTS], TsVector, of_array),
    f("tsvector_to_array", &[TsVector], TEXTS, to_array),
    f("ts_rank", &[TsVector, TsQuery], Float4, |args, _| ranked(args, search::rank)),
    f("ts_rank", &[TsVector, TsQuery, Int4], Float4, |args, _| ranked(args, search::rank)),
    f("ts_rank", &[FLOATS, TsVector, TsQuery], Float4, |args, _| ranked(args, search::rank)),
    f("ts_rank", &[FLOATS, TsVector, TsQuery, Int4], Float4, |args, _| ranked(args, search::rank)),
    f("ts_rank_cd", &[TsVector, TsQuery], Float4, |args, _| ranked(args, search::rank_by_cover)),
    f("ts_rank_cd", &[TsVector, TsQuery, Int4], Float4, |args, _| ranked(args, search::rank_by_cover)),
    f("ts_rank_cd", &[FLOATS, TsVector, TsQuery], Float4, |args, _| ranked(args, search::rank_by_cover)),
    f("ts_rank_cd", &[FLOATS, TsVector, TsQuery, Int4], Float4, |args, _| ranked(args, search::rank_by_cover)),
    f("ts_headline", &[Text, TsQuery], Text, text_headline).stable(),
    f("ts_headline", &[Text, TsQuery, Text], Text, text_headline).stable(),
    f("ts_headline", &[RegConfig, Text, TsQuery], Text, text_headline),
    f("ts_headline", &[RegConfig, Text, TsQuery, Text], Text, text_headline),
    f("ts_headline", &[Json, TsQuery], Json, json_headline).stable(),
    f("ts_headline", &[Json, TsQuery, Text], Json, json_headline).stable(),
    f("ts_headline", &[RegConfig, Json, TsQuery], Json, json_headline),
    f("ts_headline", &[RegConfig, Json, TsQuery, Text], Json, json_headline),
    f("ts_headline", &[Jsonb, TsQuery], Jsonb, json_headline).stable(),
    f("ts_headline", &[Jsonb, TsQuery, Text], Jsonb, json_headline).stable(),
    f("ts_headline", &[RegConfig, Jsonb, TsQuery], Jsonb, json_headline),
    f("ts_headline", &[RegConfig, Jsonb, TsQuery, Text], Jsonb, json_headline),
    f("ts_lexize", &[RegDictionary, Text], TEXTS, lexized),
];
