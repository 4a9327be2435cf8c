//! Functions and operators that compute on values. An operator is a function named by its symbol,
//! with one argument or two; comparisons are none of these, as any two values of a type compare
//! alike: see `operators`.
//!
//! Each file of this module is a theme with a table. A function computes on values of exactly the
//! types it declares: resolution chooses it and the planner converts its arguments. Whatever the
//! values, it returns or fails, and does not panic; whatever it needs to know of the session is in
//! [`Env`]. Functions of the catalogue are made elsewhere and join these in a [`Registry`].

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::interval::Interval;
use crate::jsonb::JsonbRef;
pub(crate) use bits::combined as combined_bits;

use crate::numeric::Numeric;
use crate::types::Type;
use crate::value::Datum;

mod amounts;
mod arithmetic;
mod arrays;
mod behind;
mod bits;
mod bytes;
mod citext;
mod comparisons;
mod crypto;
mod datetime;
mod degrees;
mod double_metaphone;
mod format;
mod fuzzy;
mod geometry;
mod hstore;
mod intarray;
mod json;
mod json_access;
mod json_rows;
mod jsonb_change;
mod jsonb_path;
mod ltree;
mod math;
mod network;
mod normalize;
mod nulls;
mod number_picture;
mod orders;
mod privileges;
mod ranges;
mod regular;
mod rows;
mod sample;
mod seeded;
mod session;
mod sizes;
mod snapshots;
mod spellings;
mod strings;
mod text_search;
mod trigrams;
mod vectors;
mod xml;

pub use arrays::{ENUM_RANGE, WITH_SLICE, WITH_VALUE};
pub use format::{FORMAT_OF_ARRAY, quote_identifier};
pub use hstore::WITH_KEY;
pub(crate) use json::{item as json_item, key_of as json_key_of, write_value as write_json};
pub use json_rows::{JsonRows, POPULATE, json_rows, member_type};
pub use ranges::{
    OfUserRange, of_user_range, ranges_as_array, user_range_made, user_ranges_as_array, user_ranges_gathered,
};
pub use regular::{all_matches, split};
pub use rows::{FIELD, ROW, ROW_IF_THERE, ROW_IS_NOT_NULL, ROW_IS_NULL, ROW_UNLESS_EMPTY, WITH_FIELD};
pub use sizes::COLUMN_SIZE;
pub use text_search::{SearchRows, SearchRun};
pub use trigrams::is_trigram_operator;

/// How a function's result depends on more than its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// On nothing else: may be computed when planning.
    Immutable,
    /// On the session and the statement's time too: one result for one statement.
    Stable,
    /// Each call may give another result.
    Volatile,
}

/// A function or an operator.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name, or the operator's symbol.
    pub name: &'static str,
    /// What it takes.
    pub args: &'static [Type],
    /// Whether the last argument may come any number of times, at least once.
    pub variadic: bool,
    /// What it gives.
    pub result: Type,
    /// Whether NULL among the arguments makes NULL of the result; it is then not called.
    pub strict: bool,
    /// What the result depends on.
    pub volatility: Volatility,
    /// The extension that it belongs to, if its types do not tell.
    pub extension: Option<&'static str>,
    /// The computation, on values of the types of `args`.
    pub eval: Eval,
}

/// A computation.
pub type Eval = fn(&[&Datum], &Env) -> Result<Datum>;

/// A strict, immutable function.
pub const fn f(name: &'static str, args: &'static [Type], result: Type, eval: Eval) -> Function {
    Function {
        name,
        args,
        variadic: false,
        result,
        strict: true,
        volatility: Volatility::Immutable,
        extension: None,
        eval,
    }
}

pub use sample::TABLESAMPLE;

/// What `GROUPING (…)` is until the keys of the groups are known. It is never called.
pub static GROUPING: Function =
    f("grouping", &[], Type::Int4, |_, _| Err(Error::internal("GROUPING has no value outside of groups")));

impl Function {
    /// Which is stable.
    #[must_use]
    pub const fn stable(mut self) -> Self {
        self.volatility = Volatility::Stable;
        self
    }

    /// Which depends on nothing else, as it is unless something else is said.
    #[must_use]
    pub const fn immutable(self) -> Self {
        self
    }

    /// Which is volatile.
    #[must_use]
    pub const fn volatile(mut self) -> Self {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Which is called even if an argument is NULL.
    #[must_use]
    pub const fn called_on_null(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Which is there with an extension only.
    #[must_use]
    pub const fn of_extension(mut self, extension: &'static str) -> Self {
        self.extension = Some(extension);
        self
    }

    /// Whose last argument may come any number of times.
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }

    /// The type of an argument; the last one's repeats if the function is variadic.
    #[must_use]
    pub fn arg_type(&self, index: usize) -> Type {
        self.args[index.min(self.args.len() - 1)]
    }

    /// Whether its arguments of type text take values of any type, converted to text.
    #[must_use]
    pub fn takes_any_as_text(&self) -> bool {
        matches!(self.name, "concat" | "concat_ws" | "format" | "quote_literal" | "quote_nullable")
    }

    /// The extension without which the function is not there: that of a type that it takes or gives,
    /// or its own.
    #[must_use]
    pub fn extension(&self) -> Option<&'static str> {
        let of_types = || self.args.iter().chain([&self.result]).find_map(|ty| ty.extension());
        self.extension.or_else(of_types)
    }

    /// Calls it, or not, if it is strict and an argument is NULL.
    #[inline]
    pub fn call(&self, args: &[&Datum], env: &Env) -> Result<Datum> {
        if self.strict && args.iter().any(|arg| arg.is_null()) {
            return Ok(Datum::Null);
        }
        (self.eval)(args, env)
    }
}

/// Whether PostgreSQL has a function in an extension, and so in whichever schema that is in.
#[must_use]
pub fn is_of_extension(name: &str) -> bool {
    let has_type_of_one = |function: &Function| function.extension().is_some();
    matches!(name, "each" | "skeys" | "svals")
        || crypto::TABLE.iter().chain(text_search::UNACCENT).any(|function| function.name == name)
        || ON_VALUES.named(name).iter().any(has_type_of_one)
}

/// The functions that need nothing but values and an [`Env`].
pub const TABLES: &[&[Function]] = &[
    amounts::TABLE,
    arithmetic::TABLE,
    arrays::TABLE,
    behind::CHOICES,
    behind::HASHES,
    behind::OTHERS,
    behind::PATTERNS,
    behind::SENDS,
    behind::TABLE,
    bits::TABLE,
    bytes::TABLE,
    citext::TABLE,
    comparisons::TABLE,
    crypto::TABLE,
    datetime::TABLE,
    double_metaphone::TABLE,
    format::TABLE,
    fuzzy::TABLE,
    geometry::OF_ONE,
    geometry::OF_TWO,
    hstore::TABLE,
    intarray::TABLE,
    json::TABLE,
    json_access::TABLE,
    jsonb_change::TABLE,
    jsonb_path::TABLE,
    ltree::TABLE,
    math::TABLE,
    degrees::TABLE,
    network::TABLE,
    normalize::TABLE,
    nulls::TABLE,
    orders::TABLE,
    ranges::DATE,
    ranges::INT4,
    ranges::INT8,
    ranges::NUMERIC,
    ranges::TIMESTAMP,
    ranges::TIMESTAMP_TZ,
    regular::TABLE,
    rows::SYSTEM_COLUMNS,
    seeded::TABLE,
    session::TABLE,
    snapshots::TABLE,
    spellings::TABLE,
    strings::TABLE,
    text_search::TABLE,
    text_search::UNACCENT,
    trigrams::TABLE,
    vectors::TABLE,
    xml::TABLE,
];

/// The functions and operators on values alone.
pub static ON_VALUES: LazyLock<Registry> = LazyLock::new(|| Registry::new(TABLES));

/// Functions and operators, to be found by name.
#[derive(Debug)]
pub struct Registry {
    /// By name.
    functions: Vec<Function>,
    /// Where each name's functions begin and end.
    ranges: HashMap<&'static str, (usize, usize)>,
}

impl Registry {
    /// What several tables have. No two of their functions have the same name and arguments.
    #[must_use]
    pub fn new(tables: &[&[Function]]) -> Self {
        let mut functions = tables.concat();
        functions.sort_by_key(|function| function.name);
        let mut ranges: HashMap<&'static str, (usize, usize)> = HashMap::with_capacity(functions.len());
        for (index, function) in functions.iter().enumerate() {
            ranges.entry(function.name).or_insert((index, index)).1 = index + 1;
        }
        Self { functions, ranges }
    }

    /// All functions of a name, which is in lower case, or all operators of a symbol.
    #[must_use]
    pub fn named(&self, name: &str) -> &[Function] {
        match self.ranges.get(name) {
            Some(&(start, end)) => &self.functions[start..end],
            None => &[],
        }
    }

    /// All functions and operators, by name.
    #[must_use]
    pub fn all(&self) -> &[Function] {
        &self.functions
    }
}

#[cold]
fn wrong(expected: &str, found: &Datum) -> Error {
    Error::internal(format!("a function for {expected} was called with {found:?}"))
}

macro_rules! accessors {
    ($($name:ident $variant:ident $ty:ty;)*) => {
        $(#[doc = concat!("The value of a `Datum::", stringify!($variant), "`.")]
        ///
        /// # Errors
        /// It is another one: a mistake of whoever typed the call.
        #[inline]
        pub fn $name(value: &Datum) -> Result<$ty> {
            match value {
                Datum::$variant(value) => Ok(*value),
                other => Err(wrong(stringify!($variant), other)),
            }
        })*
    };
}

accessors! {
    int Int i64;
    float Float f64;
    date Date i32;
    time Time i64;
    timestamp Timestamp i64;
    interval Interval Interval;
}

/// The value of a `Datum::Numeric`.
///
/// # Errors
/// It is another one: a mistake of whoever typed the call.
#[inline]
pub fn number(value: &Datum) -> Result<&Numeric> {
    match value {
        Datum::Numeric(value) => Ok(value),
        other => Err(wrong("Numeric", other)),
    }
}

/// The value of a `Datum::Text`, or of a `Datum::Citext`.
///
/// # Errors
/// It is another one: a mistake of whoever typed the call.
#[inline]
pub fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(value) | Datum::Citext(value) => Ok(value),
        other => Err(wrong("Text", other)),
    }
}

/// The value of a `Datum::Bytes`.
///
/// # Errors
/// It is another one: a mistake of whoever typed the call.
#[inline]
pub fn bytes(value: &Datum) -> Result<&[u8]> {
    match value {
        Datum::Bytes(value) => Ok(value),
        other => Err(wrong("Bytes", other)),
    }
}

/// The value of a `Datum::Jsonb`, in place.
///
/// # Errors
/// It is another one: a mistake of whoever typed the call.
#[inline]
pub fn document(value: &Datum) -> Result<JsonbRef<'_>> {
    match value {
        Datum::Jsonb(value) => Ok(JsonbRef::new(value)),
        other => Err(wrong("Jsonb", other)),
    }
}

pub(crate) use crate::error::check_length;
