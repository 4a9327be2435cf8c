//! Values: one enum for all types, 32 bytes each.
//!
//! A value does not know its exact type (an `Int` may be a smallint or a bigint): expressions are
//! typed before they run, so the type is always at hand where it matters.

use std::sync::Arc;

use compact_str::CompactString;

use crate::array::Array;
use crate::datetime::TimeTz;
use crate::error::Result;
use crate::interval::Interval;
use crate::jsonb::Item;
use crate::numeric::Numeric;
use crate::row::Row;

#[cfg(any(test, feature = "random"))]
pub mod random;

/// A value of any type, or NULL.
///
/// Its tag takes a whole word, so that a value is moved as four: with a tag of a byte, what stands
/// behind that is moved in pieces, each of which has to wait until those that were just written are
/// in the cache.
#[derive(Debug, Clone, PartialEq, Default)]
#[repr(u64)]
pub enum Datum {
    /// NULL.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`, `integer`, `bigint`, `oid`; enums, by their labels' places; `money` and others that
    /// are kept as a `bigint` is
    Int(i64),
    /// `double precision`; `real`, with a value that an `f32` has
    Float(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar`, `name`; `char(n)`, without the blanks at its end
    Text(CompactString),
    /// `bytea`
    Bytes(Box<[u8]>),
    /// `date`: days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities
    Date(i32),
    /// `time`: microseconds since midnight, 86,400,000,000 for 24:00
    Time(i64),
    /// `time with time zone`
    TimeTz(TimeTz),
    /// `timestamp`, `timestamptz`: microseconds since 2000-01-01 00:00 (UTC); `i64::MIN` and `MAX`
    /// are the infinities
    Timestamp(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// An array
    Array(Arc<Array>),
    /// A row
    Row(Arc<Row>),
    /// `jsonb`, as [`crate::jsonb`] has it
    Jsonb(Arc<[u8]>),
    /// `tsquery`, as [`crate::text_search::Query`] has it
    Query(Box<[u8]>),
    /// A range or a multirange, as [`crate::ranges`] has it
    Range(Box<[u8]>),
    /// `citext`, as it was written: see [`crate::citext`]
    Citext(CompactString),
}

const _: () = assert!(size_of::<Datum>() == 32);

impl Item<'_> {
    /// As a value.
    ///
    /// # Errors
    /// As [`Item::bytes`].
    pub fn datum(self) -> Result<Datum> {
        self.bytes().map(Datum::Jsonb)
    }
}

impl Datum {
    /// Whether both are the same in form, too: 1.0 and 1.00 are equal, and not identical. What is
    /// identical may take each other's place in every expression.
    #[must_use]
    pub fn is_identical(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Numeric(a), Self::Numeric(b)) => a.scale() == b.scale() && a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Interval(a), Self::Interval(b)) => (a.months, a.days, a.micros) == (b.months, b.days, b.micros),
            (Self::Array(a), Self::Array(b)) => {
                a.element() == b.element()
                    && a.dimensions() == b.dimensions()
                    && a.values().iter().zip(b.values()).all(|(a, b)| a.is_identical(b))
            }
            (Self::Row(a), Self::Row(b)) => {
                let mut fields = a.fields().zip(b.fields());
                a.fields().count() == b.fields().count()
                    && fields.all(|(a, b)| a.0 == b.0 && a.1 == b.1 && a.2.is_identical(b.2))
            }
            (Self::Jsonb(a), Self::Jsonb(b)) => a == b,
            (Self::Query(a), Self::Query(b)) | (Self::Range(a), Self::Range(b)) => a == b,
            _ => self == other,
        }
    }

    /// Whether it is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// A text value.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(CompactString::new(text))
    }

    /// What a condition says: true, or false for false and NULL.
    #[must_use]
    pub fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }
}
