//! The functions behind PostgreSQL's operators of comparison, of types of all kinds: programs call them
//! by their names, and users' operators and aggregates are made of them. What values are compared by is
//! in `crate::operators`; rows are compared here by their bytes, for `*=` and its kin.
//!
//! Invariants: the names are those of PostgreSQL, each with the arguments that it has there.

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

fn is(args: &[&Datum], holds: fn(Ordering) -> bool) -> Result<Datum> {
    order(args).map(|order| Datum::Bool(holds(order)))
}

fn number(order: Ordering) -> Datum {
    Datum::Int(order as i64)
}

macro_rules! comparisons {
    ($($left:ident $right:ident $eq:literal $ne:literal $lt:literal $le:literal $gt:literal $ge:literal $cmp:literal;)*) => {
        /// Equality, order, and the function of B-trees that says both.
        pub(super) const TABLE: &[Function] = &[
            $(
                f($eq, &[$left, $right], Bool, |args, _| is(args, Ordering::is_eq)),
                f($ne, &[$left, $right], Bool, |args, _| is(args, Ordering::is_ne)),
                f($lt, &[$left, $right], Bool, |args, _| is(args, Ordering::is_lt)),
                f($le, &[$left, $right], Bool, |args, _| is(args, Ordering::is_le)),
                f($gt, &[$left, $right], Bool, |args, _| is(args, Ordering::is_gt)),
                f($ge, &[$left, $right], Bool, |args, _| is(args, Ordering::is_ge)),
                f($cmp, &[$left, $right], Int4, |args, _| order(args).map(number)),
            )*
        ];
    };
}

comparisons! {
    AnyArray AnyArray "array_eq" "array_ne" "array_lt" "array_le" "array_gt" "array_ge" "btarraycmp";
    Bit Bit "biteq" "bitne" "bitlt" "bitle" "bitgt" "bitge" "bitcmp";
    Bool Bool "booleq" "boolne" "boollt" "boolle" "boolgt" "boolge" "btboolcmp";
    Bytea Bytea "byteaeq" "byteane" "bytealt" "byteale" "byteagt" "byteage" "byteacmp";
    Char Char "bpchareq" "bpcharne" "bpcharlt" "bpcharle" "bpchargt" "bpcharge" "bpcharcmp";
    Date Date "date_eq" "date_ne" "date_lt" "date_le" "date_gt" "date_ge" "date_cmp";
    Float4 Float4 "float4eq" "float4ne" "float4lt" "float4le" "float4gt" "float4ge" "btfloat4cmp";
    Float4 Float8 "float48eq" "float48ne" "float48lt" "float48le" "float48gt" "float48ge" "btfloat48cmp";
    Float8 Float4 "float84eq" "float84ne" "float84lt" "float84le" "float84gt" "float84ge" "btfloat84cmp";
    Float8 Float8 "float8eq" "float8ne" "float8lt" "float8le" "float8gt" "float8ge" "btfloat8cmp";
    Int2 Int2 "int2eq" "int2ne" "int2lt" "int2le" "int2gt" "int2ge" "btint2cmp";
    Int2 Int4 "int24eq" "int24ne" "int24lt" "int24le" "int24gt" "int24ge" "btint24cmp";
    Int2 Int8 "int28eq" "int28ne" "int28lt" "int28le" "int28gt" "int28ge" "btint28cmp";
    Int4 Int2 "int42eq" "int42ne" "int42lt" "int42le" "int42gt" "int42ge" "btint42cmp";
    Int4 Int4 "int4eq" "int4ne" "int4lt" "int4le" "int4gt" "int4ge" "btint4cmp";
    Int4 Int8 "int48eq" "int48ne" "int48lt" "int48le" "int48gt" "int48ge" "btint48cmp";
    Int8 Int2 "int82eq" "int82ne" "int82lt" "int82le" "int82gt" "int82ge" "btint82cmp";
    Int8 Int4 "int84eq" "int84ne" "int84lt" "int84le" "int84gt" "int84ge" "btint84cmp";
    Int8 Int8 "int8eq" "int8ne" "int8lt" "int8le" "int8gt" "int8ge" "btint8cmp";
    InternalChar InternalChar "chareq" "charne" "charlt" "charle" "chargt" "charge" "btcharcmp";
    Interval Interval "interval_eq" "interval_ne" "interval_lt" "interval_le" "interval_gt" "interval_ge" "interval_cmp";
    Jsonb Jsonb "jsonb_eq" "jsonb_ne" "jsonb_lt" "jsonb_le" "jsonb_gt" "jsonb_ge" "jsonb_cmp";
    Money Money "cash_eq" "cash_ne" "cash_lt" "cash_le" "cash_gt" "cash_ge" "cash_cmp";
    Name Name "nameeq" "namene" "namelt" "namele" "namegt" "namege" "btnamecmp";
    Name Text "nameeqtext" "namenetext" "namelttext" "nameletext" "namegttext" "namegetext" "btnametextcmp";
    Numeric Numeric "numeric_eq" "numeric_ne" "numeric_lt" "numeric_le" "numeric_gt" "numeric_ge" "numeric_cmp";
    Oid Oid "oideq" "oidne" "oidlt" "oidle" "oidgt" "oidge" "btoidcmp";
    OidVector OidVector "oidvectoreq" "oidvectorne" "oidvectorlt" "oidvectorle" "oidvectorgt" "oidvectorge" "btoidvectorcmp";
    PgLsn PgLsn "pg_lsn_eq" "pg_lsn_ne" "pg_lsn_lt" "pg_lsn_le" "pg_lsn_gt" "pg_lsn_ge" "pg_lsn_cmp";
    Text Name "texteqname" "textnename" "textltname" "textlename" "textgtname" "textgename" "bttextnamecmp";
    Text Text "texteq" "textne" "text_lt" "text_le" "text_gt" "text_ge" "bttextcmp";
    Tid Tid "tideq" "tidne" "tidlt" "tidle" "tidgt" "tidge" "bttidcmp";
    Time Time "time_eq" "time_ne" "time_lt" "time_le" "time_gt" "time_ge" "time_cmp";
    TimeTz TimeTz "timetz_eq" "timetz_ne" "timetz_lt" "timetz_le" "timetz_gt" "timetz_ge" "timetz_cmp";
    Timestamp Timestamp "timestamp_eq" "timestamp_ne" "timestamp_lt" "timestamp_le" "timestamp_gt" "timestamp_ge" "timestamp_cmp";
    TimestampTz TimestampTz "timestamptz_eq" "timestamptz_ne" "timestamptz_lt" "timestamptz_le" "timestamptz_gt" "timestamptz_ge" "timestamptz_cmp";
    Uuid Uuid "uuid_eq" "uuid_ne" "uuid_lt" "uuid_le" "uuid_gt" "uuid_ge" "uuid_cmp";
    VarBit VarBit "varbiteq" "varbitne" "varbitlt" "varbitle" "varbitgt" "varbitge" "varbitcmp";
    Xid8 Xid8 "xid8eq" "xid8ne" "xid8lt" "xid8le" "xid8gt" "xid8ge" "xid8cmp";
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
