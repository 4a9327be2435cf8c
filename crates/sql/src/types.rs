//! The types of values, as clients and the catalogue know them.

use std::fmt;

/// A type, without its modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Type {
    /// A literal or parameter whose type its context has yet to tell.
    Unknown,
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`
    Numeric,
    /// `character(n)`, padded with blanks
    Char,
    /// `character varying`
    Varchar,
    /// `text`
    Text,
    /// `name`, the type of identifiers in the catalogue
    Name,
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `time without time zone`
    Time,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    TimestampTz,
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `oid`, the type of object numbers in the catalogue
    Oid,
    /// `void`, what a function gives that gives nothing
    Void,
}

/// The groups that PostgreSQL sorts types into when it chooses among functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Yet to be told.
    Unknown,
    /// Booleans.
    Boolean,
    /// Numbers.
    Number,
    /// Text.
    String,
    /// Dates and times.
    DateTime,
    /// Spans of time.
    TimeSpan,
    /// Everything else.
    User,
}

impl Type {
    /// The group it belongs to.
    #[must_use]
    pub fn category(self) -> Category {
        match self {
            Self::Unknown => Category::Unknown,
            Self::Bool => Category::Boolean,
            Self::Int2 | Self::Int4 | Self::Int8 | Self::Float4 | Self::Float8 | Self::Numeric | Self::Oid => {
                Category::Number
            }
            Self::Char | Self::Varchar | Self::Text | Self::Name => Category::String,
            Self::Date | Self::Time | Self::Timestamp | Self::TimestampTz => Category::DateTime,
            Self::Interval => Category::TimeSpan,
            Self::Bytea | Self::Uuid | Self::Void => Category::User,
        }
    }

    /// Whether it is its group's preferred type.
    #[must_use]
    pub fn is_preferred(self) -> bool {
        matches!(self, Self::Bool | Self::Float8 | Self::Text | Self::TimestampTz | Self::Interval | Self::Oid)
    }

    /// Whether values are [`crate::Datum::Int`].
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid)
    }

    /// Whether values are [`crate::Datum::Text`].
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Char | Self::Varchar | Self::Text | Self::Name | Self::Unknown)
    }

    /// PostgreSQL's number of the type.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Self::Unknown => 705,
            Self::Bool => 16,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Numeric => 1700,
            Self::Char => 1042,
            Self::Varchar => 1043,
            Self::Text => 25,
            Self::Name => 19,
            Self::Bytea => 17,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::TimestampTz => 1184,
            Self::Interval => 1186,
            Self::Uuid => 2950,
            Self::Oid => 26,
            Self::Void => 2278,
        }
    }

    /// The type with PostgreSQL's number, if there is one here.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.oid() == oid)
    }

    /// All types.
    pub const ALL: [Self; 21] = [
        Self::Unknown,
        Self::Bool,
        Self::Int2,
        Self::Int4,
        Self::Int8,
        Self::Float4,
        Self::Float8,
        Self::Numeric,
        Self::Char,
        Self::Varchar,
        Self::Text,
        Self::Name,
        Self::Bytea,
        Self::Date,
        Self::Time,
        Self::Timestamp,
        Self::TimestampTz,
        Self::Interval,
        Self::Uuid,
        Self::Oid,
        Self::Void,
    ];

    /// Its name in SQL, as error messages and `format_type` give it.
    #[must_use]
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric => "numeric",
            Self::Char => "character",
            Self::Varchar => "character varying",
            Self::Text => "text",
            Self::Name => "name",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Time => "time without time zone",
            Self::Timestamp => "timestamp without time zone",
            Self::TimestampTz => "timestamp with time zone",
            Self::Interval => "interval",
            Self::Uuid => "uuid",
            Self::Oid => "oid",
            Self::Void => "void",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sql_name())
    }
}

/// What narrows a type: `(10,2)` of `numeric(10,2)`, `(16)` of `varchar(16)`. Numbered as PostgreSQL does, -1 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Modifier(pub i32);

impl Modifier {
    /// Nothing.
    pub const NONE: Self = Self(-1);

    /// Of `char(n)` and `varchar(n)`.
    #[must_use]
    pub fn length(chars: u32) -> Self {
        Self(chars as i32 + 4)
    }

    /// Of `numeric(precision, scale)`.
    #[must_use]
    pub fn numeric(precision: u16, scale: u16) -> Self {
        Self((i32::from(precision) << 16 | i32::from(scale)) + 4)
    }

    /// Of `time(p)`, `timestamp(p)`, `interval(p)`: digits of a second's fraction.
    #[must_use]
    pub fn fraction(digits: u8) -> Self {
        Self(i32::from(digits))
    }

    /// The n of `char(n)` and `varchar(n)`.
    #[must_use]
    pub fn chars_max(self) -> Option<usize> {
        (self.0 >= 4).then(|| (self.0 - 4) as usize)
    }

    /// Precision and scale of `numeric(precision, scale)`.
    #[must_use]
    pub fn precision_scale(self) -> Option<(u16, u16)> {
        (self.0 >= 4).then(|| (((self.0 - 4) >> 16) as u16, ((self.0 - 4) & 0xffff) as u16))
    }

    /// Digits of a second's fraction.
    #[must_use]
    pub fn fraction_digits(self) -> Option<u8> {
        (0..=6).contains(&self.0).then_some(self.0 as u8)
    }
}

/// A type with its modifier: what a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub ty: Type,
    /// Its modifier.
    pub modifier: Modifier,
}

impl From<Type> for ColumnType {
    fn from(ty: Type) -> Self {
        Self { ty, modifier: Modifier::NONE }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Modifier(raw) = self.modifier;
        match self.ty {
            _ if raw < 0 => write!(f, "{}", self.ty),
            Type::Numeric => {
                let (precision, scale) = self.modifier.precision_scale().unwrap_or_default();
                write!(f, "numeric({precision},{scale})")
            }
            Type::Char | Type::Varchar => write!(f, "{}({})", self.ty, raw - 4),
            Type::Time => write!(f, "time({raw}) without time zone"),
            Type::Timestamp => write!(f, "timestamp({raw}) without time zone"),
            Type::TimestampTz => write!(f, "timestamp({raw}) with time zone"),
            _ => write!(f, "{}", self.ty),
        }
    }
}
