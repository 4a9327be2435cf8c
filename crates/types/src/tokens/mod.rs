//! Tokens: what inverted indexes find values by. A document has its keys and values, an array its
//! elements, a text its trigrams; a condition on such a value says which tokens it has to have.
//!
//! [`TokenClass`] is an operator class of such indexes: which types and operators it takes, how a
//! value is taken apart ([`Tokens::of_value`]), and what a condition asks for ([`Tokens::query`]).
//! A new class is a file of this module and a line in [`CLASSES`]; nothing else knows the classes
//! one by one.
//!
//! Invariants: a value for which a condition is true has the tokens that the condition's query asks
//! for. The other way round need not hold: rows that are found are asked the condition again. So a
//! query may say less than its condition, never more. A value without tokens is found by no query
//! but [`Query::All`]. ON DISK: the tokens of a value may not change.

mod array;
mod hstore;
mod int_query;
mod json;
mod json_path;
mod lexemes;
mod ltree;
mod pattern;
mod range;
mod scalar;
pub mod trigram;

use std::fmt;

use crate::env::Env;
use crate::error::Result;
use crate::key::Key;
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

/// Longer tokens are replaced by a hash of theirs.
const TOKEN_BYTES_MAX: usize = 125;

/// Tokens of which one has to be there, at most; a query that asks for one of more says nothing.
const ALTERNATIVES_MAX: usize = 4_096;

/// How values are taken apart, and what conditions ask for.
pub trait Tokens: Sync {
    /// Calls `out` with each token of a value, which is not NULL, in any order; the same one may
    /// come several times.
    ///
    /// # Errors
    /// Damaged bytes; the statement was cancelled.
    fn of_value(&self, ty: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// What a value of type `ty` has to have for `value operator operand` to be true. The operand is
    /// not NULL, and of the type that the operator takes.
    ///
    /// # Errors
    /// The operand is malformed, as the operator itself would say; the statement was cancelled.
    fn query(&self, ty: Type, operator: &str, operand: &Datum, env: &Env) -> Result<Query>;
}

/// Which tokens a value has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Any: tokens say nothing.
    All,
    /// There is no such value.
    Nothing,
    /// This one.
    Token(Key),
    /// One that begins so.
    Prefix(Key),
    /// One between these, which are among them.
    Between(Key, Key),
    /// What all of these ask for; two of them at least.
    And(Vec<Query>),
    /// What one of these asks for; two of them at least.
    Or(Vec<Query>),
    /// As many of these tokens, of which there are more: two at least, each once.
    AtLeast(usize, Vec<Key>),
}

impl Query {
    /// A token.
    #[must_use]
    pub fn token(token: &[u8]) -> Self {
        Self::Token(Key::from_slice(token))
    }

    /// What all of some queries ask for.
    #[must_use]
    pub fn all_of(queries: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Vec::new();
        for query in queries {
            match query {
                Self::All => {}
                Self::Nothing => return Self::Nothing,
                Self::And(inner) => all.extend(inner),
                other => all.push(other),
            }
        }
        Self::joined(all, Self::All, Self::And)
    }

    /// What one of some queries asks for.
    #[must_use]
    pub fn any_of(queries: impl IntoIterator<Item = Self>) -> Self {
        let mut any = Vec::new();
        for query in queries {
            match query {
                Self::All => return Self::All,
                Self::Nothing => {}
                Self::Or(inner) => any.extend(inner),
                other => any.push(other),
            }
        }
        if any.len() > ALTERNATIVES_MAX { Self::All } else { Self::joined(any, Self::Nothing, Self::Or) }
    }

    /// `count` of some tokens, each of which comes once.
    #[must_use]
    pub fn at_least(count: usize, tokens: Vec<Key>) -> Self {
        let single = |tokens: Vec<Key>| tokens.into_iter().map(Self::Token);
        match count {
            0 => Self::All,
            1 => Self::any_of(single(tokens)),
            count if count > tokens.len() => Self::Nothing,
            count if count == tokens.len() => Self::all_of(single(tokens)),
            _ if tokens.len() > ALTERNATIVES_MAX => Self::All,
            count => Self::AtLeast(count, tokens),
        }
    }

    /// Queries without those that are the same.
    fn joined(mut queries: Vec<Self>, none: Self, several: fn(Vec<Self>) -> Self) -> Self {
        let is_token = |query: &Self| matches!(query, Self::Token(_));
        if queries.len() > 1 && queries.iter().all(is_token) {
            queries.sort_unstable_by(|one, other| match (one, other) {
                (Self::Token(one), Self::Token(other)) => one.cmp(other),
                _ => std::cmp::Ordering::Equal,
            });
            queries.dedup();
        }
        match queries.len() {
            0 => none,
            1 => queries.pop().unwrap_or(none),
            _ => several(queries),
        }
    }
}

/// An operator class of inverted indexes.
pub struct TokenClass {
    /// What it is called in definitions. ON DISK: never rename.
    pub name: &'static str,
    /// Its number among PostgreSQL's operator classes, its family's, and that of the type that it is
    /// for; 0 of one that has another number for each type. Those of extensions, which have no fixed
    /// numbers there, are between PostgreSQL's own and those of users' objects.
    pub numbers: [u32; 3],
    /// The access method, `gin` or `gist`, for which it is.
    pub method: &'static str,
    /// Whether columns of its types have it where none is named.
    pub is_default: bool,
    /// The extension that it belongs to.
    pub extension: Option<&'static str>,
    /// Whether it takes columns of a type.
    pub takes: fn(Type) -> bool,
    /// The operators that it answers, the column being on the left.
    pub operators: &'static [&'static str],
    /// How it does that.
    pub tokens: &'static dyn Tokens,
}

impl fmt::Debug for TokenClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl TokenClass {
    /// The tokens of a value, in order, each once; none of NULL.
    ///
    /// # Errors
    /// As [`Tokens::of_value`].
    pub fn of_value(&self, ty: Type, value: &Datum) -> Result<Vec<Key>> {
        let mut tokens = Vec::new();
        if !value.is_null() {
            self.tokens.of_value(ty, value, &mut |token| tokens.push(shortened(token)))?;
            pulse::work(tokens.len())?;
            tokens.sort_unstable();
            tokens.dedup();
        }
        Ok(tokens)
    }

    /// See [`Tokens::query`]; NULL is compared with nothing.
    ///
    /// # Errors
    /// As there.
    pub fn query(&self, ty: Type, operator: &str, operand: &Datum, env: &Env) -> Result<Query> {
        match operand {
            Datum::Null => Ok(Query::Nothing),
            operand => self.tokens.query(ty, operator, operand, env).map(with_short_tokens),
        }
    }

    /// Whether it answers an operator.
    #[must_use]
    pub fn answers(&self, operator: &str) -> bool {
        self.operators.contains(&operator)
    }
}

/// The operator that is the same with its operands exchanged, of those that a class may answer.
#[must_use]
pub fn exchanged(operator: &str) -> Option<&'static str> {
    Some(match operator {
        "@>" => "<@",
        "<@" => "@>",
        "&&" => "&&",
        "<<" => ">>",
        ">>" => "<<",
        "=" => "=",
        "@@" => "@@",
        "@@@" => "@@@",
        "%" => "%",
        "<%" => "%>",
        "%>" => "<%",
        "<<%" => "%>>",
        "%>>" => "<<%",
        _ => return None,
    })
}

/// The class of values that are not taken apart.
pub const SCALAR: &str = "scalar_ops";

fn is_of_integers(ty: Type) -> bool {
    ty == Type::Int4.array_of()
}

/// All classes.
pub static CLASSES: &[TokenClass] = &[
    TokenClass {
        name: "jsonb_ops",
        numbers: [10_090, 4036, 3802],
        method: "gin",
        is_default: true,
        extension: None,
        takes: |ty| ty == Type::Jsonb,
        operators: &["@>", "?", "?|", "?&", "@?", "@@"],
        tokens: &json::Parts,
    },
    TokenClass {
        name: "jsonb_path_ops",
        numbers: [10_091, 4037, 3802],
        method: "gin",
        is_default: false,
        extension: None,
        takes: |ty| ty == Type::Jsonb,
        operators: &["@>", "@?", "@@"],
        tokens: &json::Paths,
    },
    TokenClass {
        name: "array_ops",
        numbers: [10_064, 2745, 2277],
        method: "gin",
        is_default: true,
        extension: None,
        takes: |ty| ty.is_storable() && ty.element().is_some_and(crate::key::is_indexable),
        operators: &["&&", "@>", "<@", "="],
        tokens: &array::Elements,
    },
    TokenClass {
        name: "tsvector_ops",
        numbers: [10_073, 3659, 3614],
        method: "gin",
        is_default: true,
        extension: None,
        takes: |ty| ty == Type::TsVector,
        operators: &["@@", "@@@"],
        tokens: &lexemes::Lexemes,
    },
    TokenClass {
        name: "tsvector_ops",
        numbers: [10_072, 3655, 3614],
        method: "gist",
        is_default: true,
        extension: None,
        takes: |ty| ty == Type::TsVector,
        operators: &["@@"],
        tokens: &lexemes::Lexemes,
    },
    TokenClass {
        name: "gin_trgm_ops",
        numbers: [16_380, 16_382, 25],
        method: "gin",
        is_default: false,
        extension: Some("pg_trgm"),
        takes: trigram::takes,
        operators: trigram::OPERATORS,
        tokens: &trigram::Trigrams,
    },
    TokenClass {
        name: "gist_trgm_ops",
        numbers: [16_381, 16_383, 25],
        method: "gist",
        is_default: false,
        extension: Some("pg_trgm"),
        takes: trigram::takes,
        operators: trigram::OPERATORS,
        tokens: &trigram::Trigrams,
    },
    TokenClass {
        name: "gin_hstore_ops",
        numbers: [15_511, 15_513, 15_503],
        method: "gin",
        is_default: true,
        extension: Some("hstore"),
        takes: |ty| ty == Type::Hstore,
        operators: &["@>", "?", "?|", "?&"],
        tokens: &hstore::Pairs,
    },
    TokenClass {
        name: "gist_hstore_ops",
        numbers: [15_512, 15_514, 15_503],
        method: "gist",
        is_default: true,
        extension: Some("hstore"),
        takes: |ty| ty == Type::Hstore,
        operators: &["@>", "?", "?|", "?&"],
        tokens: &hstore::Pairs,
    },
    TokenClass {
        name: "gist_ltree_ops",
        numbers: [15_515, 15_516, 15_505],
        method: "gist",
        is_default: true,
        extension: Some("ltree"),
        takes: |ty| ty == Type::Ltree,
        operators: &["<@", "@>"],
        tokens: &ltree::Ancestors,
    },
    TokenClass {
        name: "gin__int_ops",
        numbers: [15_568, 15_571, 1007],
        method: "gin",
        is_default: false,
        extension: Some("intarray"),
        takes: is_of_integers,
        operators: &["&&", "@>", "<@", "=", "@@"],
        tokens: &int_query::Integers,
    },
    TokenClass {
        name: "gist__int_ops",
        numbers: [15_569, 15_572, 1007],
        method: "gist",
        is_default: true,
        extension: Some("intarray"),
        takes: is_of_integers,
        operators: &["&&", "@>", "<@", "=", "@@"],
        tokens: &int_query::Integers,
    },
    TokenClass {
        name: "gist__intbig_ops",
        numbers: [15_570, 15_573, 1007],
        method: "gist",
        is_default: false,
        extension: Some("intarray"),
        takes: is_of_integers,
        operators: &["&&", "@>", "<@", "=", "@@"],
        tokens: &int_query::Integers,
    },
    TokenClass {
        name: "range_ops",
        numbers: [10_078, 3919, 3831],
        method: "gist",
        is_default: true,
        extension: None,
        takes: range::takes,
        operators: range::OPERATORS,
        tokens: &range::Ranges,
    },
    TokenClass {
        name: SCALAR,
        numbers: [0, 0, 0],
        method: "gin",
        is_default: true,
        extension: Some("btree_gin"),
        takes: scalar::takes,
        operators: &["="],
        tokens: &scalar::Value,
    },
];

/// A class of an access method, by its name.
#[must_use]
pub fn class(method: &str, name: &str) -> Option<&'static TokenClass> {
    CLASSES.iter().find(|class| class.method == method && class.name == name)
}

/// The class that columns of a type have in indexes of an access method where none is named.
#[must_use]
pub fn default_class(method: &str, ty: Type) -> Option<&'static TokenClass> {
    CLASSES.iter().find(|class| class.method == method && class.is_default && (class.takes)(ty))
}

/// A token as it is stored: a long one is its first bytes and a hash.
fn shortened(token: &[u8]) -> Key {
    if token.len() <= TOKEN_BYTES_MAX {
        return Key::from_slice(token);
    }
    let mut short = Key::from_slice(&token[..TOKEN_BYTES_MAX - size_of::<u64>()]);
    short.extend_from_slice(&Hash::default().with(token).0.to_be_bytes());
    short
}

fn with_short_tokens(query: Query) -> Query {
    let all = |queries: Vec<Query>| queries.into_iter().map(with_short_tokens).collect();
    match query {
        Query::All | Query::Nothing => query,
        Query::Token(token) => Query::Token(shortened(&token)),
        // Classes that ask so have short tokens.
        Query::Between(..) => query,
        Query::Prefix(mut prefix) => {
            // What is behind that may be a hash.
            prefix.truncate(TOKEN_BYTES_MAX - size_of::<u64>());
            Query::Prefix(prefix)
        }
        Query::And(queries) => Query::And(all(queries)),
        Query::Or(queries) => Query::Or(all(queries)),
        Query::AtLeast(count, tokens) => Query::AtLeast(count, tokens.iter().map(|token| shortened(token)).collect()),
    }
}

/// FNV-1a, of which the bits are mixed in the end. ON DISK: never change.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Of what was hashed before, and some bytes behind that.
    fn with(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // Each part ends, so that the same bytes divided in another way are something else.
        hash ^= (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
        Self(hash.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }
}

#[cfg(test)]
mod tests;
