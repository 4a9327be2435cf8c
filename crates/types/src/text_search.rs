//! Full text search: documents as lexemes with positions, queries over them, and what makes both
//! out of text.
//!
//! ```text
//! text ─► tokens ─► configuration ─► dictionaries ─► lexemes and positions ─► tsvector
//!          kinds     kind: list       stop words,
//!          of words  of dictionaries  stems
//! ```
//! A query is read as operands and operators (`query`, `query_text`); its operands go the same way
//! as documents do (`document`). `execute` says whether a document matches a query, `rank` how
//! well, `headline` where.
//!
//! Both kinds of values are bytes ([`crate::Datum::Bytes`], [`crate::Datum::Query`]) whose order is that
//! of the values, so that keys, sorting and hashing know little of them: weights and prefixes of a
//! query do not count ([`Query::compared`]). Damaged bytes end a value early; they never panic.
//!
//! An index asks [`lexemes_of`] which lexemes a document has, and [`Query::from_bytes`] for the
//! tree of a query.

mod configuration;
mod dictionary;
mod document;
mod execute;
mod headline;
mod query;
mod query_text;
mod rank;
mod rewrite;
mod tokens;
mod unaccent;
mod vector;

pub use configuration::{CONFIGURATIONS, Configuration, DEFAULT_CONFIGURATION, DICTIONARIES, DictionaryEntry, PARSER};
pub use configuration::{TEMPLATES, TemplateEntry, dictionary_named, dictionary_numbered};
pub use configuration::{configuration_named, configuration_numbered};
pub use dictionary::{Dictionary, Language, Lexized};
pub use document::{Words, document, plain_query, query_of_text, web_query};
pub use execute::{is_match, lexemes_match};
pub use headline::headline;
pub use query::{Node, Operand, Operator, Query, Weights, read_binary as receive_query};
pub use query_text::read as read_query;
pub use rank::{DEFAULT_WEIGHTS, rank, rank_by_cover};
pub use rewrite::rewritten;
pub use tokens::{KINDS, PausedTokens, Token, Tokens};
pub use unaccent::unaccented;
pub use vector::{Entry, LEXEME_BYTES_MAX, Position, Vector, VectorBuilder, changed, lexemes_of};
pub use vector::{joined as vectors_joined, read as read_vector, read_binary as receive_vector};
pub use vector::{weight_letter, weight_named};

#[cfg(test)]
mod tests;
