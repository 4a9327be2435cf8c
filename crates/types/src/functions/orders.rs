//! The functions by which PostgreSQL's B-trees order values, by their names (`btint4cmp`), and the
//! comparisons of rows by their bytes (`*=` and its kin). What values are compared by is in
//! `crate::operators`; functions behind other operators are found by the binder.

use std::cmp::Ordering;

use super::{Function, f};
use crate::binary_io;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::operators::compare;
use crate::row::Row;
use crate::types::Modifier;
use crate::types::Type::{
    self, AnyArray, Bit, Bool, Bytea, Char, Date, Float4, Float8, Int2, Int4, Int8, InternalChar, Interval, Jsonb,
    Money, Name, Numeric, Oid, OidVector, PgLsn, Record, Text, Tid, Time, TimeTz, Timestamp, TimestampTz, Uuid, VarBit,
    Xid8,
};
use crate::value::Datum;

fn order(args: &[&Datum]) -> Result<Ordering> {
    match args {
        [left, right] => Ok(compare(left, right)),
        _ => Err(Error::internal("a comparison of other than two values")),
    }
}

fn number(order: Ordering) -> Datum {
    Datum::Int(order as i64)
}

macro_rules! orders {
    ($($left:ident $right:ident $name:literal;)*) => {
        /// The functions that B-trees ask for the order of two values: -1, 0 or 1.
        pub(super) const ORDERS: &[Function] =
            &[$(f($name, &[$left, $right], Int4, |args, _| order(args).map(number)),)*];
    };
}

orders! {
    AnyArray AnyArray "btarraycmp";
    Bit Bit "bitcmp";
    Bool Bool "btboolcmp";
    Bytea Bytea "byteacmp";
    Char Char "bpcharcmp";
    Date Date "date_cmp";
    Float4 Float4 "btfloat4cmp";
    Float4 Float8 "btfloat48cmp";
    Float8 Float4 "btfloat84cmp";
    Float8 Float8 "btfloat8cmp";
    Int2 Int2 "btint2cmp";
    Int2 Int4 "btint24cmp";
    Int2 Int8 "btint28cmp";
    Int4 Int2 "btint42cmp";
    Int4 Int4 "btint4cmp";
    Int4 Int8 "btint48cmp";
    Int8 Int2 "btint82cmp";
    Int8 Int4 "btint84cmp";
    Int8 Int8 "btint8cmp";
    InternalChar InternalChar "btcharcmp";
    Interval Interval "interval_cmp";
    Jsonb Jsonb "jsonb_cmp";
    Money Money "cash_cmp";
    Name Name "btnamecmp";
    Name Text "btnametextcmp";
    Numeric Numeric "numeric_cmp";
    Oid Oid "btoidcmp";
    OidVector OidVector "btoidvectorcmp";
    PgLsn PgLsn "pg_lsn_cmp";
    Text Name "bttextnamecmp";
    Text Text "bttextcmp";
    Tid Tid "bttidcmp";
    Time Time "time_cmp";
    TimeTz TimeTz "timetz_cmp";
    Timestamp Timestamp "timestamp_cmp";
    TimestampTz TimestampTz "timestamptz_cmp";
    Uuid Uuid "uuid_cmp";
    VarBit VarBit "varbitcmp";
    Xid8 Xid8 "xid8cmp";
}

/// A value as its bytes are in PostgreSQL's memory, as far as their order shows: values that fit a
/// machine word are numbers without a sign, others are bytes.
enum Image {
    Word(u64),
    Bytes(Vec<u8>),
}

impl Image {
    fn of(ty: Type, value: &Datum) -> Self {
        match value {
            Datum::Bool(value) => Self::Word(u64::from(*value)),
            Datum::Int(value) if ty != Type::Uuid => Self::Word(*value as u64),
            // A real is extended as an integer of its width.
            Datum::Float(value) if ty == Float4 => Self::Word((*value as f32).to_bits() as i32 as u64),
            Datum::Float(value) => Self::Word(value.to_bits()),
            Datum::Text(text) => Self::Bytes(text.as_bytes().to_vec()),
            value => {
                let mut out = Vec::new();
                binary_io::write_binary(ty, Modifier::NONE, value, &mut out);
                Self::Bytes(out)
            }
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Word(one), Self::Word(other)) => one.cmp(other),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            (Self::Word(_), Self::Bytes(_)) => Ordering::Less,
            (Self::Bytes(_), Self::Word(_)) => Ordering::Greater,
        }
    }
}

/// The order of two rows by the bytes of their fields; NULL is behind all values.
///
/// # Errors
/// 42804 if they are not of the same types.
fn order_of_images(args: &[&Datum]) -> Result<Ordering> {
    let [Datum::Row(left), Datum::Row(right)] = args else {
        return Err(Error::internal("a comparison of other than two rows"));
    };
    let fields = |row: &Row| row.ty().fields.iter().map(|(_, ty)| ty.ty).collect::<Vec<Type>>();
    let (left_types, right_types) = (fields(left), fields(right));
    for (number, (one, other)) in (1..).zip(left_types.iter().zip(&right_types)) {
        if one != other {
            let message = format!("cannot compare dissimilar column types {one} and {other} at record column {number}");
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        }
        let (one, other) = (&left.values()[number - 1], &right.values()[number - 1]);
        let order = match (one.is_null(), other.is_null()) {
            (false, false) => {
                let ty = left_types[number - 1];
                Image::of(ty, one).order(&Image::of(ty, other))
            }
            (one, other) => one.cmp(&other),
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    if left_types.len() != right_types.len() {
        let message = "cannot compare record types with different numbers of columns";
        return Err(Error::new(SqlState::TYPE_MISMATCH, message));
    }
    Ok(Ordering::Equal)
}

macro_rules! images {
    ($($symbol:literal $name:literal $holds:ident;)*) => {
        /// Comparisons of rows by their bytes.
        pub(super) const IMAGES: &[Function] = &[
            $(
                f($symbol, &[Record, Record], Bool, |args, _| order_of_images(args).map(|o| Datum::Bool(o.$holds()))),
                f($name, &[Record, Record], Bool, |args, _| order_of_images(args).map(|o| Datum::Bool(o.$holds()))),
            )*
            f("btrecordimagecmp", &[Record, Record], Int4, |args, _: &Env| order_of_images(args).map(number)),
        ];
    };
}

images! {
    "*=" "record_image_eq" is_eq;
    "*<>" "record_image_ne" is_ne;
    "*<" "record_image_lt" is_lt;
    "*<=" "record_image_le" is_le;
    "*>" "record_image_gt" is_gt;
    "*>=" "record_image_ge" is_ge;
}
