//! The functions by which PostgreSQL's B-trees order values, by their names (`btint4cmp`). What values
//! are compared by is in `crate::operators`; functions behind operators are found by the binder.

use std::cmp::Ordering;

use super::{Function, f};
use crate::error::{Error, Result};
use crate::operators::compare;
use crate::types::Type::{
    AnyArray, Bit, Bool, Bytea, Char, Date, Float4, Float8, Int2, Int4, Int8, InternalChar, Interval, Jsonb, Money,
    Name, Numeric, Oid, OidVector, PgLsn, Text, Tid, Time, TimeTz, Timestamp, TimestampTz, Uuid, VarBit, Xid8,
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
        pub(super) const TABLE: &[Function] =
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
