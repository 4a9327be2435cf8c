//! What a pure function may know of the session that calls it.
//!
//! Functions see values and an [`Env`], nothing else: no transaction. What changes something
//! (sequences, settings) is the session's business.
//!
//! Values know nothing of a catalogue. The types whose values are numbers of objects (`regclass`
//! and its kin) ask the [`Surround`] of the session for names; functions of the catalogue, which
//! are made above, know what stands behind it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;

use crate::datetime::{DateStyle, IntervalStyle, Zone};
use crate::encoding::Encoding;
use crate::error::{Error, Result, SqlState};
use crate::seeded::Seeded;
use crate::text_search::{Configuration, Dictionary};
use crate::types::Type;

/// From where on texts count as alike: the settings `pg_trgm.*`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// `%`
    pub similarity: f64,
    /// `<%` and `%>`
    pub word_similarity: f64,
    /// `<<%` and `%>>`
    pub strict_word_similarity: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { similarity: 0.3, word_similarity: 0.6, strict_word_similarity: 0.5 }
    }
}

/// The surroundings of an expression: fixed while one statement runs.
#[derive(Debug, Clone)]
pub struct Env {
    /// When the transaction began, in microseconds since 2000-01-01 00:00 UTC: `now()`.
    pub transaction_us: i64,
    /// When the statement came in, in microseconds since 2000-01-01 00:00 UTC:
    /// `statement_timestamp()`.
    pub statement_us: i64,
    /// The session's time zone.
    pub zone: Zone,
    /// The setting `DateStyle`.
    pub dates: DateStyle,
    /// The setting `IntervalStyle`.
    pub intervals: IntervalStyle,
    /// Who is logged in.
    pub user: CompactString,
    /// The database's name.
    pub database: CompactString,
    /// The first schema of the search path.
    pub schema: CompactString,
    /// The setting `extra_float_digits`: above 0, the shortest digits that name a float exactly.
    pub extra_float_digits: i32,
    /// The setting `bytea_output` is `escape`: bytes that are printable ASCII are written as they
    /// are, and others in octal.
    pub escapes_bytes: bool,
    /// The setting `xmloption` is `document`.
    pub xml_is_document: bool,
    /// The setting `client_encoding`.
    pub client_encoding: Encoding,
    /// The number of the configuration that texts are searched with unless another is said.
    pub text_search: u32,
    /// The settings `pg_trgm.*`.
    pub trigram_thresholds: Thresholds,
    /// What `random` takes its numbers from.
    pub seeded: Arc<Seeded>,
    /// The catalogue and the server, if there is a session.
    pub surroundings: Option<Arc<dyn Surround>>,
}

/// What is around a session: names of objects and, for those who know its type, the rest.
pub trait Surround: Any + fmt::Debug + Send + Sync {
    /// The number of the object that a text names, for a type such as `regclass`.
    ///
    /// # Errors
    /// Nothing, or more than one thing, has the name.
    fn number_of(&self, ty: Type, name: &str) -> Result<u32>;

    /// Appends an object's name; its number, if nothing has that.
    fn write_name(&self, ty: Type, number: u32, out: &mut String);

    /// A configuration of text search that a user has made.
    fn search_configuration(&self, number: u32) -> Option<Arc<Configuration>>;

    /// A dictionary of text search that a user has made.
    fn search_dictionary(&self, number: u32) -> Option<Dictionary>;
}

impl Env {
    /// The number of an object, from its name or its number as text.
    ///
    /// # Errors
    /// A number of more than 32 bits; as [`Surround::number_of`].
    pub fn object_number(&self, ty: Type, text: &str) -> Result<u32> {
        match (number_itself(ty, text), &self.surroundings) {
            (Some(number), _) => number,
            (None, Some(surroundings)) => surroundings.number_of(ty, text),
            (None, None) => {
                Err(Error::new(SqlState::NO_SUCH_OBJECT, format!("\"{text}\" does not exist: there is no catalogue")))
            }
        }
    }

    /// Appends an object's name, or its number if it has none.
    pub fn write_object(&self, ty: Type, number: u32, out: &mut String) {
        match &self.surroundings {
            _ if number == 0 => out.push(if is_operator(ty) { '0' } else { '-' }),
            Some(surroundings) => surroundings.write_name(ty, number, out),
            None => match Type::from_oid(number).filter(|_| ty == Type::RegType) {
                Some(named) => out.push_str(named.sql_name()),
                None => out.push_str(&number.to_string()),
            },
        }
    }
}

/// Whether values are numbers of operators, one of which has the name `-`.
fn is_operator(ty: Type) -> bool {
    matches!(ty, Type::RegOper | Type::RegOperator)
}

/// The number that a text is instead of a name; `-` is that of nothing.
pub fn number_itself(ty: Type, text: &str) -> Option<Result<u32>> {
    match text {
        "-" if !is_operator(ty) => Some(Ok(0)),
        "" => None,
        _ => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| {
            text.parse().map_err(|_| {
                Error::new(SqlState::OUT_OF_RANGE, format!("value \"{text}\" is out of range for type oid"))
            })
        }),
    }
}

impl Default for Env {
    fn default() -> Self {
        Self {
            transaction_us: 0,
            statement_us: 0,
            zone: Zone::Utc,
            dates: DateStyle::default(),
            intervals: IntervalStyle::default(),
            user: CompactString::const_new("colibri"),
            database: CompactString::const_new("colibri"),
            schema: CompactString::const_new("public"),
            extra_float_digits: 1,
            escapes_bytes: false,
            xml_is_document: false,
            client_encoding: Encoding::UTF8,
            text_search: crate::text_search::DEFAULT_CONFIGURATION,
            trigram_thresholds: Thresholds::default(),
            seeded: Arc::default(),
            surroundings: None,
        }
    }
}

/// The wall clock, in microseconds since 2000-01-01 00:00 UTC.
#[must_use]
pub fn clock_us() -> i64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    unix.as_micros() as i64 - crate::datetime::UNIX_EPOCH_TO_2000_US
}
