//! Amounts of money, and places of the log.

use super::{Function, f, float, int, number};
use crate::error::Result;
use crate::money;
use crate::numeric::division_by_zero;
use crate::positions;
use crate::types::Type::{Float4, Float8, Int2, Int4, Int8, Money, Numeric, PgLsn, Text};
use crate::value::Datum;

fn cents(value: Option<i64>) -> Result<Datum> {
    value.map(Datum::Int).ok_or_else(money::out_of_range)
}

fn times_float(amount: &Datum, factor: &Datum) -> Result<Datum> {
    money::of_float(int(amount)? as f64 * float(factor)?).map(Datum::Int)
}

fn by_float(amount: &Datum, divisor: &Datum) -> Result<Datum> {
    if float(divisor)? == 0.0 {
        return Err(division_by_zero());
    }
    money::of_float(int(amount)? as f64 / float(divisor)?).map(Datum::Int)
}

fn times_int(amount: &Datum, factor: &Datum) -> Result<Datum> {
    cents(int(amount)?.checked_mul(int(factor)?))
}

fn by_int(amount: &Datum, divisor: &Datum) -> Result<Datum> {
    if int(divisor)? == 0 {
        return Err(division_by_zero());
    }
    cents(int(amount)?.checked_div(int(divisor)?))
}

fn ratio(amount: &Datum, divisor: &Datum) -> Result<Datum> {
    if int(divisor)? == 0 {
        return Err(division_by_zero());
    }
    Ok(Datum::Float(int(amount)? as f64 / int(divisor)? as f64))
}

pub(super) const TABLE: &[Function] = &[
    f("+", &[Money, Money], Money, |a, _| cents(int(a[0])?.checked_add(int(a[1])?))),
    f("-", &[Money, Money], Money, |a, _| cents(int(a[0])?.checked_sub(int(a[1])?))),
    f("/", &[Money, Money], Float8, |a, _| ratio(a[0], a[1])),
    f("*", &[Money, Float8], Money, |a, _| times_float(a[0], a[1])),
    f("*", &[Float8, Money], Money, |a, _| times_float(a[1], a[0])),
    f("/", &[Money, Float8], Money, |a, _| by_float(a[0], a[1])),
    f("*", &[Money, Float4], Money, |a, _| times_float(a[0], a[1])),
    f("*", &[Float4, Money], Money, |a, _| times_float(a[1], a[0])),
    f("/", &[Money, Float4], Money, |a, _| by_float(a[0], a[1])),
    f("*", &[Money, Int8], Money, |a, _| times_int(a[0], a[1])),
    f("*", &[Int8, Money], Money, |a, _| times_int(a[1], a[0])),
    f("/", &[Money, Int8], Money, |a, _| by_int(a[0], a[1])),
    f("*", &[Money, Int4], Money, |a, _| times_int(a[0], a[1])),
    f("*", &[Int4, Money], Money, |a, _| times_int(a[1], a[0])),
    f("/", &[Money, Int4], Money, |a, _| by_int(a[0], a[1])),
    f("*", &[Money, Int2], Money, |a, _| times_int(a[0], a[1])),
    f("*", &[Int2, Money], Money, |a, _| times_int(a[1], a[0])),
    f("/", &[Money, Int2], Money, |a, _| by_int(a[0], a[1])),
    f("cashlarger", &[Money, Money], Money, |a, _| Ok(Datum::Int(int(a[0])?.max(int(a[1])?)))),
    f("cashsmaller", &[Money, Money], Money, |a, _| Ok(Datum::Int(int(a[0])?.min(int(a[1])?)))),
    f("cash_words", &[Money], Text, |a, _| Ok(Datum::text(&money::words(int(a[0])?)))),
    f("pg_lsn", &[Numeric], PgLsn, |a, _| positions::lsn_of(number(a[0])?).map(Datum::Int)),
    f("-", &[PgLsn, PgLsn], Numeric, |a, _| positions::lsn_distance(int(a[0])?, int(a[1])?).map(Datum::Numeric)),
    f("+", &[PgLsn, Numeric], PgLsn, |a, _| positions::lsn_add(int(a[0])?, number(a[1])?, false).map(Datum::Int)),
    f("+", &[Numeric, PgLsn], PgLsn, |a, _| positions::lsn_add(int(a[1])?, number(a[0])?, false).map(Datum::Int)),
    f("-", &[PgLsn, Numeric], PgLsn, |a, _| positions::lsn_add(int(a[0])?, number(a[1])?, true).map(Datum::Int)),
];
