//! The functions behind operators, casts and aggregates that programs call by their names.

use std::cmp::Ordering;

use super::{Function, ON_VALUES, f, int};
use crate::binary_io;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::operators::compare;
use crate::partition_hash::{hash, hash_extended};
use crate::types::Modifier;
use crate::types::Type::{
    self, AnyArray, Bool, Bytea, Char, Date, Float4, Float8, Int2, Int4, Int8, InternalChar, Interval, Jsonb, MacAddr,
    MacAddr8, Name, Numeric, Oid, PgLsn, Text, Tid, Time, TimeTz, Timestamp, TimestampTz, Uuid, Varchar, Xid8,
};
use crate::value::Datum;

/// The left value if it is on this side of the right one, otherwise the right one.
fn either(args: &[&Datum], side: Ordering) -> Result<Datum> {
    match args {
        [left, right] => Ok((*if compare(left, right) == side { left } else { right }).clone()),
        _ => Err(Error::internal("a comparison of other than two values")),
    }
}

fn larger(args: &[&Datum], _: &Env) -> Result<Datum> {
    either(args, Ordering::Greater)
}

fn smaller(args: &[&Datum], _: &Env) -> Result<Datum> {
    either(args, Ordering::Less)
}

fn is(args: &[&Datum], holds: fn(Ordering) -> bool) -> Result<Datum> {
    match args {
        [left, right] => Ok(Datum::Bool(holds(compare(left, right)))),
        _ => Err(Error::internal("a comparison of other than two values")),
    }
}

/// A function by another name.
fn other(name: &str, types: &[Type], args: &[&Datum], env: &Env) -> Result<Datum> {
    ON_VALUES.function(name, types)?.call(args, env)
}

macro_rules! choices {
    ($($ty:ident $larger:literal $smaller:literal;)*) => {
        /// The larger and the smaller of two values.
        pub(super) const CHOICES: &[Function] = &[
            $(f($larger, &[$ty, $ty], $ty, larger), f($smaller, &[$ty, $ty], $ty, smaller),)*
        ];
    };
}

choices! {
    AnyArray "array_larger" "array_smaller";
    Char "bpchar_larger" "bpchar_smaller";
    Date "date_larger" "date_smaller";
    Float4 "float4larger" "float4smaller";
    Float8 "float8larger" "float8smaller";
    Int2 "int2larger" "int2smaller";
    Int4 "int4larger" "int4smaller";
    Int8 "int8larger" "int8smaller";
    Interval "interval_larger" "interval_smaller";
    Numeric "numeric_larger" "numeric_smaller";
    Oid "oidlarger" "oidsmaller";
    PgLsn "pg_lsn_larger" "pg_lsn_smaller";
    Text "text_larger" "text_smaller";
    Tid "tidlarger" "tidsmaller";
    Time "time_larger" "time_smaller";
    TimeTz "timetz_larger" "timetz_smaller";
    Timestamp "timestamp_larger" "timestamp_smaller";
    TimestampTz "timestamptz_larger" "timestamptz_smaller";
    Xid8 "xid8_larger" "xid8_smaller";
}

macro_rules! patterns {
    ($($ty:ident $lt:literal $le:literal $gt:literal $ge:literal;)*) => {
        /// Comparisons of texts byte by byte, which all comparisons are here.
        pub(super) const PATTERNS: &[Function] = &[
            $(
                f($lt, &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_lt)),
                f($le, &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_le)),
                f($gt, &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_gt)),
                f($ge, &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_ge)),
            )*
        ];
    };
}

patterns! {
    Text "text_pattern_lt" "text_pattern_le" "text_pattern_gt" "text_pattern_ge";
    Char "bpchar_pattern_lt" "bpchar_pattern_le" "bpchar_pattern_gt" "bpchar_pattern_ge";
}

macro_rules! hashes {
    ($($ty:ident $plain:literal $extended:literal;)*) => {
        /// PostgreSQL's hashes of values, without a seed and with one.
        pub(super) const HASHES: &[Function] = &[
            $(
                f($plain, &[$ty], Int4, |args, _| Ok(Datum::Int(hash($ty, args[0]).into()))),
                f($extended, &[$ty, Int8], Int8, |args, _| {
                    Ok(Datum::Int(hash_extended($ty, args[0], int(args[1])? as u64) as i64))
                }),
            )*
        ];
    };
}

hashes! {
    Int2 "hashint2" "hashint2extended";
    Int4 "hashint4" "hashint4extended";
    Int8 "hashint8" "hashint8extended";
    Oid "hashoid" "hashoidextended";
    Float4 "hashfloat4" "hashfloat4extended";
    Float8 "hashfloat8" "hashfloat8extended";
    Text "hashtext" "hashtextextended";
    Name "hashname" "hashnameextended";
    Char "hashbpchar" "hashbpcharextended";
    InternalChar "hashchar" "hashcharextended";
    Time "time_hash" "time_hash_extended";
    Timestamp "timestamp_hash" "timestamp_hash_extended";
    Uuid "uuid_hash" "uuid_hash_extended";
    MacAddr "hashmacaddr" "hashmacaddrextended";
    MacAddr8 "hashmacaddr8" "hashmacaddr8extended";
}

macro_rules! sends {
    ($($ty:ident $name:literal;)*) => {
        /// The binary forms of values, as clients get them.
        pub(super) const SENDS: &[Function] = &[
            $(f($name, &[$ty], Bytea, |args, _| {
                let mut out = Vec::new();
                binary_io::write_binary($ty, Modifier::NONE, args[0], &mut out);
                Ok(Datum::Bytes(out.into()))
            }),)*
        ];
    };
}

sends! {
    Bool "boolsend";
    Bytea "byteasend";
    Char "bpcharsend";
    Date "date_send";
    Float4 "float4send";
    Float8 "float8send";
    Int2 "int2send";
    Int4 "int4send";
    Int8 "int8send";
    Interval "interval_send";
    Jsonb "jsonb_send";
    Name "namesend";
    Numeric "numeric_send";
    Oid "oidsend";
    Text "textsend";
    Time "time_send";
    TimeTz "timetz_send";
    Timestamp "timestamp_send";
    TimestampTz "timestamptz_send";
    Uuid "uuid_send";
    Varchar "varcharsend";
}

macro_rules! others {
    ($($name:literal is $other:literal [$($ty:ident),*] -> $result:ident;)*) => {
        /// Functions that have another name, too.
        pub(super) const OTHERS: &[Function] = &[
            $(f($name, &[$($ty),*], $result, |args, env| other($other, &[$($ty),*], args, env)),)*
        ];
    };
}

others! {
    "dexp" is "exp" [Float8] -> Float8;
    "dlog1" is "ln" [Float8] -> Float8;
    "dlog10" is "log" [Float8] -> Float8;
    "dround" is "round" [Float8] -> Float8;
    "dtrunc" is "trunc" [Float8] -> Float8;
    "numeric_exp" is "exp" [Numeric] -> Numeric;
    "numeric_ln" is "ln" [Numeric] -> Numeric;
    "numeric_log" is "log" [Numeric, Numeric] -> Numeric;
    "numeric_sqrt" is "sqrt" [Numeric] -> Numeric;
    "numeric_div_trunc" is "div" [Numeric, Numeric] -> Numeric;
    "textlen" is "length" [Text] -> Int4;
}

fn changed(args: &[&Datum], by: i64, ty: Type) -> Result<Datum> {
    let result = int(args[0])?.checked_add(by).filter(|&result| ty == Int8 || i32::try_from(result).is_ok());
    let what = if ty == Int8 { "bigint" } else { "integer" };
    result.map(Datum::Int).ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, format!("{what} out of range")))
}

fn both(args: &[&Datum], is_and: bool) -> Result<Datum> {
    match args {
        [Datum::Bool(one), Datum::Bool(other)] => Ok(Datum::Bool(if is_and { *one && *other } else { *one || *other })),
        _ => Err(Error::internal("two values of boolean were expected")),
    }
}

fn to_ascii(_: &[&Datum], _: &Env) -> Result<Datum> {
    let message = "encoding conversion from UTF8 to ASCII not supported";
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

pub(super) const TABLE: &[Function] = &[
    f("booland_statefunc", &[Bool, Bool], Bool, |args, _| both(args, true)),
    f("boolor_statefunc", &[Bool, Bool], Bool, |args, _| both(args, false)),
    f("int4inc", &[Int4], Int4, |args, _| changed(args, 1, Int4)),
    f("int8inc", &[Int8], Int8, |args, _| changed(args, 1, Int8)),
    f("int8dec", &[Int8], Int8, |args, _| changed(args, -1, Int8)),
    f("pg_wal_lsn_diff", &[PgLsn, PgLsn], Numeric, |args, env| other("-", &[PgLsn, PgLsn], args, env)),
    f("to_ascii", &[Text], Text, to_ascii),
    f("to_ascii", &[Text, Int4], Text, to_ascii),
    f("to_ascii", &[Text, Name], Text, to_ascii),
];
