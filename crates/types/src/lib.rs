//! Values of SQL: their types, their forms as text and bytes, casts, keys, operators, pure
//! functions, and errors.
//!
//! Nothing here knows a table, a session or a transaction. What a function may know of the session
//! that calls it is in [`Env`].
//!
//! | module | holds |
//! | --- | --- |
//! | [`types`], [`enums`], [`composites`], [`composite_values`], [`domains`], [`value`], [`mod@array`], [`row`], [`numeric`], [`interval`], [`datetime`], [`bits`], [`money`], [`positions`], [`ranges`] | types and values |
//! | [`column_vector`] | values of one column for some rows, side by side |
//! | [`jsonb`], `json_text`, `jsonpath`, [`xml`] | JSON as bytes and as text, and paths into it; XML as checked text |
//! | [`mod@text_search`], [`network`] | documents, their parser, dictionaries and queries; network addresses |
//! | [`text_io`], [`binary_io`], [`wire`], [`cast`] | values from and to text, bytes, clients, other types |
//! | [`encoding`], [`client_values`] | texts in other encodings than UTF-8, at the borders; values that have them |
//! | [`letters`], [`keywords`] | blanks, letters and reserved words as PostgreSQL reads them |
//! | [`operators`], [`functions`], [`aggregates`], `like`, `regular`, [`prefix`], [`resolve`] | what can be computed, and how it is chosen |
//! | [`mod@collation`] | orders of texts as languages have them, as sort keys |
//! | [`key`], [`tokens`] | values as bytes that sort as they do; what inverted indexes find them by |
//! | [`pulse`], [`pieces`], [`copies`] | a chance for others in the middle of what cannot be put aside; long values a piece at a time |
//! | [`mod@env`], [`error`] | what a function may know of its session; SQL's errors by their codes |

pub mod aggregates;
pub mod array;
pub mod binary_io;
pub mod bits;
pub mod cast;
pub mod citext;
pub mod client_values;
pub mod collation;
pub mod column_vector;
pub mod composite_values;
pub mod composites;
pub mod copies;
pub mod datetime;
pub mod domains;
pub mod encoding;
pub mod enums;
pub mod env;
pub mod error;
mod float_text;
pub mod functions;
mod geometry;
pub mod hstore;
pub mod int_query;
pub mod interval;
mod json_text;
pub mod jsonb;
mod jsonpath;
pub mod key;
pub mod keywords;
pub mod letters;
pub mod like;
pub mod ltree;
pub mod money;
pub mod network;
pub mod numeric;
pub mod operators;
pub mod partition_hash;
pub mod pieces;
pub mod positions;
pub mod prefix;
pub mod pulse;
mod quoted;
pub mod range_types;
pub mod ranges;
mod regular;
pub mod resolve;
pub mod row;
pub mod seeded;
pub mod snapshots;
pub mod text_io;
pub mod text_search;
pub mod tokens;
pub mod types;
pub mod value;
pub mod vector;
pub mod wire;
pub mod xml;

pub use array::{Array, Dimension};
pub use compact_str::CompactString;
pub use composites::CompositeType;
pub use domains::DomainType;
pub use enums::EnumType;
pub use env::{Env, clock_us};
pub use error::{Error, Report, Result, SqlState};
pub use interval::Interval;
pub use numeric::Numeric;
pub use range_types::RangeType;
pub use row::{Row, RowType};
pub use types::{Category, ColumnType, Modifier, Scalar, Type};
pub use value::Datum;
