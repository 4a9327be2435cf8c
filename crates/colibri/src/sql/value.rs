//! Values between SQL and Rust: [`Value`], and the traits that turn it into a program's types and
//! back.
//!
//! Nothing is lost on the way: a number that does not fit is an error, and so is NULL where there
//! is no `Option`.

use std::borrow::Cow;
use std::sync::Arc;

use colibri_sql::{Array, Datum, Dimension, Env, Interval, Numeric, SqlState, Type, cast};

use super::time::{Date, Time, Timestamp, TimestampTz};
use super::{Error, Result};

/// A value of any type, or NULL.
///
/// ```
/// use colibri::sql::Value;
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let db = colibri::sql::Database::open(dir.path())?;
/// let mut conn = db.connect();
/// let row = conn.query_row("SELECT 1, 'two', NULL", ())?;
/// assert_eq!(row.get::<_, Value>(0)?, Value::Int(1));
/// assert_eq!(row.get::<_, Value>(1)?, Value::from("two"));
/// assert_eq!(row.get::<_, Value>(2)?, Value::Null);
///
/// let pairs = Value::Array(vec![Value::Array(vec![Value::Int(1), Value::Null])]);
/// let row = conn.query_row("SELECT $1::int[], array_length($1::int[], 2)", (&pairs,))?;
/// assert_eq!(row.get::<_, Value>(0)?, pairs);
/// assert_eq!(row.get::<_, i32>(1)?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`, `integer`, `bigint`
    Int(i64),
    /// `real`
    Real(f32),
    /// `double precision`
    Float(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar`, `char`. As a parameter: a value of the type that the statement needs,
    /// written as text.
    Text(Cow<'a, str>),
    /// `bytea`
    Bytes(Cow<'a, [u8]>),
    /// `date`
    Date(Date),
    /// `time`
    Time(Time),
    /// `timestamp`
    Timestamp(Timestamp),
    /// `timestamptz`
    TimestampTz(TimestampTz),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// An array; one of several dimensions is an array of arrays. As a parameter its values have to
    /// fit its type.
    Array(Vec<Value<'a>>),
}

/// A value of a type that has no variant, as PostgreSQL writes it: a document, an enum's label, an
/// address.
fn text_of(datum: &Datum, ty: Type) -> Value<'static> {
    let mut text = Vec::new();
    let format = colibri_sql::wire::Format::Text;
    colibri_sql::wire::write(ty.into(), format, datum, &Env::default(), &mut String::new(), &mut text);
    String::from_utf8(text).map_or(Value::Null, |text| Value::Text(Cow::Owned(text)))
}

impl<'a> Value<'a> {
    pub(crate) fn of(datum: &'a Datum, ty: Type) -> Self {
        match datum {
            Datum::Null => Self::Null,
            Datum::Bool(value) => Self::Bool(*value),
            Datum::Int(_) if ty.is_enum() => text_of(datum, ty),
            // What this has no variant for is its text.
            Datum::Int(_) if matches!(ty, Type::Money | Type::Xid8 | Type::PgLsn | Type::Tid) => text_of(datum, ty),
            Datum::Bytes(_) if matches!(ty, Type::Bit | Type::VarBit) => text_of(datum, ty),
            Datum::TimeTz(_) => text_of(datum, ty),
            Datum::Int(value) => Self::Int(*value),
            Datum::Float(value) if ty == Type::Float4 => Self::Real(*value as f32),
            Datum::Float(value) => Self::Float(*value),
            Datum::Numeric(value) => Self::Numeric(value.clone()),
            Datum::Text(value) => Self::Text(Cow::Borrowed(value)),
            Datum::Citext(value) => Self::Text(Cow::Borrowed(value)),
            Datum::Bytes(_) if ty != Type::Bytea => text_of(datum, ty),
            Datum::Bytes(value) => Self::Bytes(Cow::Borrowed(value)),
            Datum::Date(days) => Self::Date(Date::from_days(*days)),
            Datum::Time(micros) => Self::Time(Time::from_micros_of_day(*micros)),
            Datum::Timestamp(micros) if ty == Type::TimestampTz => Self::TimestampTz(TimestampTz::from_micros(*micros)),
            Datum::Timestamp(micros) => Self::Timestamp(Timestamp::from_micros(*micros)),
            Datum::Interval(value) => Self::Interval(*value),
            Datum::Uuid(bytes) => Self::Uuid(*bytes),
            Datum::Array(array) => Self::of_array(array.dimensions(), array.values(), array.element()),
            Datum::Jsonb(_) | Datum::Query(_) | Datum::Range(_) => text_of(datum, ty),
            Datum::Row(row) => Self::Array(row.fields().map(|(_, ty, value)| Self::of(value, ty.ty)).collect()),
        }
    }

    /// Values of an array, the last dimension's side by side.
    fn of_array(dimensions: &[Dimension], values: &'a [Datum], element: Type) -> Self {
        Self::Array(match dimensions {
            [] => Vec::new(),
            [_] => values.iter().map(|value| Self::of(value, element)).collect(),
            [first, inner @ ..] => {
                values.chunks(values.len() / first.length).map(|part| Self::of_array(inner, part, element)).collect()
            }
        })
    }

    /// The same value, owned.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Real(value) => Value::Real(value),
            Self::Float(value) => Value::Float(value),
            Self::Numeric(value) => Value::Numeric(value),
            Self::Text(value) => Value::Text(Cow::Owned(value.into_owned())),
            Self::Bytes(value) => Value::Bytes(Cow::Owned(value.into_owned())),
            Self::Date(value) => Value::Date(value),
            Self::Time(value) => Value::Time(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::TimestampTz(value) => Value::TimestampTz(value),
            Self::Interval(value) => Value::Interval(value),
            Self::Uuid(value) => Value::Uuid(value),
            Self::Array(values) => Value::Array(values.into_iter().map(Value::into_owned).collect()),
        }
    }

    /// Its type in SQL; a text or an array as a parameter has any type that is needed.
    fn ty(&self) -> Type {
        match self {
            Self::Null | Self::Text(_) | Self::Array(_) => Type::Unknown,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int8,
            Self::Real(_) => Type::Float4,
            Self::Float(_) => Type::Float8,
            Self::Numeric(_) => Type::Numeric,
            Self::Bytes(_) => Type::Bytea,
            Self::Date(_) => Type::Date,
            Self::Time(_) => Type::Time,
            Self::Timestamp(_) => Type::Timestamp,
            Self::TimestampTz(_) => Type::TimestampTz,
            Self::Interval(_) => Type::Interval,
            Self::Uuid(_) => Type::Uuid,
        }
    }

    /// As a parameter of a type.
    pub(crate) fn into_param(self, number: usize, wanted: Type, env: &Env) -> Result<Datum> {
        let given = self.ty();
        let datum = match self {
            Self::Null => return Ok(Datum::Null),
            Self::Bool(value) => Datum::Bool(value),
            Self::Int(value) => Datum::Int(value),
            Self::Real(value) => Datum::Float(f64::from(value)),
            Self::Float(value) => Datum::Float(value),
            Self::Numeric(value) => Datum::Numeric(value),
            Self::Text(value) if value.contains('\0') => {
                let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
                return Err(Error::new(SqlState::BAD_CHARACTER, message).context(format!("parameter ${number}")));
            }
            Self::Text(value) => Datum::text(&value),
            Self::Bytes(value) => Datum::Bytes(value.into_owned().into_boxed_slice()),
            Self::Date(value) => Datum::Date(value.days()),
            Self::Time(value) => Datum::Time(value.micros_of_day()),
            Self::Timestamp(value) => Datum::Timestamp(value.micros()),
            Self::TimestampTz(value) => Datum::Timestamp(value.micros()),
            Self::Interval(value) => Datum::Interval(value),
            Self::Uuid(value) => Datum::Uuid(value),
            Self::Array(values) => return array_param(values, number, wanted, env),
        };
        if given == wanted {
            return Ok(datum);
        }
        let is_float = |ty| matches!(ty, Type::Float4 | Type::Float8);
        let fits = given == Type::Unknown
            || (given.is_integer() && wanted.is_integer())
            || (is_float(given) && (is_float(wanted) || wanted == Type::Numeric))
            || cast::cast_context(given, wanted) == Some(cast::CastContext::Implicit);
        if !fits {
            let message = format!("parameter ${number} is of type {wanted}, and a value of type {given} was given");
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        }
        cast::cast(&datum, given, wanted, colibri_sql::Modifier::NONE, cast::CastContext::Assignment, env)
            .map_err(|error| error.context(format!("parameter ${number}")))
    }
}

/// An array as a parameter of a type.
fn array_param(values: Vec<Value<'_>>, number: usize, wanted: Type, env: &Env) -> Result<Datum> {
    let Some(element) = wanted.element() else {
        let message = format!("parameter ${number} is of type {wanted}, and an array was given");
        return Err(Error::new(SqlState::TYPE_MISMATCH, message));
    };
    let of_part = |value| match value {
        Value::Array(inner) => array_param(inner, number, wanted, env),
        value => value.into_param(number, element, env),
    };
    let values = values.into_iter().map(of_part).collect::<Result<_>>()?;
    Ok(Datum::Array(Arc::new(Array::of_values(element, values)?)))
}

/// Rust types that can be parameters.
///
/// The statement determines the type of each parameter. A value is converted if nothing is lost,
/// and a text is parsed as that type's input.
pub trait ToSql {
    /// As a value of SQL.
    fn to_sql(&self) -> Value<'_>;
}

/// Rust types that a column can be read as.
pub trait FromSql<'a>: Sized {
    /// From a value of SQL; gives the value back if it does not fit.
    ///
    /// # Errors
    /// The value is of another type, or out of range, or NULL.
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>>;
}

impl<T: ToSql + ?Sized> ToSql for &T {
    fn to_sql(&self) -> Value<'_> {
        (**self).to_sql()
    }
}

impl<T: ToSql> ToSql for Option<T> {
    fn to_sql(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::to_sql)
    }
}

impl<'a, T: FromSql<'a>> FromSql<'a> for Option<T> {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Null => Ok(None),
            value => T::from_sql(value).map(Some),
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            other => other.clone().into_owned(),
        }
    }
}

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        Ok(value)
    }
}

/// Types that are one variant of [`Value`].
macro_rules! plain {
    ($($ty:ty => $variant:ident;)*) => {
        $(
            impl ToSql for $ty {
                fn to_sql(&self) -> Value<'_> {
                    Value::$variant(*self)
                }
            }

            impl<'a> FromSql<'a> for $ty {
                fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
                    match value {
                        Value::$variant(value) => Ok(value),
                        other => Err(other),
                    }
                }
            }

            impl From<$ty> for Value<'_> {
                fn from(value: $ty) -> Self {
                    Self::$variant(value)
                }
            }
        )*
    };
}

plain! {
    bool => Bool;
    f32 => Real;
    Date => Date;
    Time => Time;
    Timestamp => Timestamp;
    TimestampTz => TimestampTz;
    Interval => Interval;
    [u8; 16] => Uuid;
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(
            impl ToSql for $ty {
                fn to_sql(&self) -> Value<'_> {
                    Value::Int(i64::from(*self))
                }
            }

            impl<'a> FromSql<'a> for $ty {
                fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
                    match value {
                        Value::Int(number) => number.try_into().map_err(|_| value),
                        other => Err(other),
                    }
                }
            }

            impl From<$ty> for Value<'_> {
                fn from(value: $ty) -> Self {
                    Self::Int(i64::from(value))
                }
            }
        )*
    };
}

integers! { i8 i16 i32 i64 u8 u16 u32 }

/// Sizes and the like: those above `i64::MAX`, for which SQL has no integer, are parameters of type
/// `numeric`.
macro_rules! unsigned {
    ($($ty:ty)*) => {
        $(
            impl ToSql for $ty {
                fn to_sql(&self) -> Value<'_> {
                    match i64::try_from(*self) {
                        Ok(value) => Value::Int(value),
                        Err(_) => Value::Numeric(Numeric::from(*self as i128)),
                    }
                }
            }

            impl<'a> FromSql<'a> for $ty {
                fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
                    match value {
                        Value::Int(number) => number.try_into().map_err(|_| value),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

unsigned! { u64 usize }

impl ToSql for f64 {
    fn to_sql(&self) -> Value<'_> {
        Value::Float(*self)
    }
}

impl<'a> FromSql<'a> for f64 {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Float(value) => Ok(value),
            Value::Real(value) => Ok(value.into()),
            other => Err(other),
        }
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl ToSql for Numeric {
    fn to_sql(&self) -> Value<'_> {
        Value::Numeric(self.clone())
    }
}

impl<'a> FromSql<'a> for Numeric {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Numeric(value) => Ok(value),
            Value::Int(value) => Ok(Self::from(value)),
            other => Err(other),
        }
    }
}

impl From<Numeric> for Value<'_> {
    fn from(value: Numeric) -> Self {
        Self::Numeric(value)
    }
}

impl ToSql for str {
    fn to_sql(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl ToSql for String {
    fn to_sql(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl ToSql for Cow<'_, str> {
    fn to_sql(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl<'a> FromSql<'a> for Cow<'a, str> {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Text(value) => Ok(value),
            other => Err(other),
        }
    }
}

impl<'a> FromSql<'a> for &'a str {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Text(Cow::Borrowed(value)) => Ok(value),
            other => Err(other),
        }
    }
}

impl<'a> FromSql<'a> for String {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        <Cow<'a, str>>::from_sql(value).map(Cow::into_owned)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl ToSql for [u8] {
    fn to_sql(&self) -> Value<'_> {
        Value::Bytes(Cow::Borrowed(self))
    }
}

impl ToSql for Vec<u8> {
    fn to_sql(&self) -> Value<'_> {
        Value::Bytes(Cow::Borrowed(self))
    }
}

impl<'a> FromSql<'a> for &'a [u8] {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Bytes(Cow::Borrowed(value)) => Ok(value),
            other => Err(other),
        }
    }
}

impl<'a> FromSql<'a> for Vec<u8> {
    fn from_sql(value: Value<'a>) -> std::result::Result<Self, Value<'a>> {
        match value {
            Value::Bytes(value) => Ok(value.into_owned()),
            other => Err(other),
        }
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(value))
    }
}

impl From<Vec<u8>> for Value<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(value))
    }
}

/// The parameters of a statement, `$1`, `$2`, …: a tuple, an array, a slice of [`ToSql`], or `()`
/// for none.
///
/// ```
/// use colibri::sql::ToSql;
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let db = colibri::sql::Database::open(dir.path())?;
/// # let mut conn = db.connect();
/// conn.query_row("SELECT $1::int, $2::text", (1, "a"))?;
/// conn.query_row("SELECT $1::int + $2", [1, 2])?;
/// let many: Vec<&dyn ToSql> = vec![&1, &"a"];
/// conn.query_row("SELECT $1::int, $2::text", &many[..])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Params {
    /// Hands over one after the other.
    ///
    /// # Errors
    /// The error of `take`.
    fn each(&self, take: &mut dyn FnMut(&dyn ToSql) -> Result<()>) -> Result<()>;
}

impl Params for () {
    fn each(&self, _take: &mut dyn FnMut(&dyn ToSql) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

impl Params for &[&dyn ToSql] {
    fn each(&self, take: &mut dyn FnMut(&dyn ToSql) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|value| take(value))
    }
}

impl<T: ToSql, const N: usize> Params for [T; N] {
    fn each(&self, take: &mut dyn FnMut(&dyn ToSql) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|value| take(value))
    }
}

impl<T: ToSql> Params for Vec<T> {
    fn each(&self, take: &mut dyn FnMut(&dyn ToSql) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|value| take(value))
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+))*) => {
        $(
            impl<$($name: ToSql),+> Params for ($($name,)+) {
                fn each(&self, take: &mut dyn FnMut(&dyn ToSql) -> Result<()>) -> Result<()> {
                    $(take(&self.$at)?;)+
                    Ok(())
                }
            }
        )*
    };
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
}

/// The values of a statement's parameters.
pub(crate) fn bind(params: &impl Params, types: &[Type], env: &Env) -> Result<Vec<Datum>> {
    let mut values = Vec::with_capacity(types.len());
    params.each(&mut |param| {
        let number = values.len() + 1;
        // The session reports that there are too many.
        let wanted = types.get(values.len()).copied().unwrap_or(Type::Text);
        values.push(match types.get(values.len()) {
            Some(_) => param.to_sql().into_param(number, wanted, env)?,
            None => Datum::Null,
        });
        Ok(())
    })?;
    Ok(values)
}
