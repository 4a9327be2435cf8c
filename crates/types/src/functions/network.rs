//! The functions and operators of network addresses. What they do is in `crate::network`.

use super::{Function, bytes, f, int};
use crate::env::Env;
use crate::error::Result;
use crate::network::{Address, Mac, Mac8};
use crate::types::Type::{Bool, Cidr, Inet, Int4, Int8, MacAddr, MacAddr8, Text};
use crate::value::Datum;

fn address(value: &Datum) -> Result<Address> {
    bytes(value).map(Address::from_bytes)
}

fn of(address: Address) -> Result<Datum> {
    Ok(Datum::Bytes(address.to_bytes()))
}

fn mac(value: &Datum) -> Result<Mac> {
    bytes(value).map(Mac::from_bytes)
}

fn mac8(value: &Datum) -> Result<Mac8> {
    bytes(value).map(Mac8::from_bytes)
}

fn of_bytes(bytes: &[u8]) -> Result<Datum> {
    Ok(Datum::Bytes(bytes.into()))
}

fn shown(write: impl FnOnce(&mut String)) -> Result<Datum> {
    let mut out = String::new();
    write(&mut out);
    Ok(Datum::Text(out.into()))
}

/// The bits of two values of one length, joined.
fn joined(args: &[&Datum], join: fn(u8, u8) -> u8) -> Result<Datum> {
    let pairs = bytes(args[0])?.iter().zip(bytes(args[1])?);
    Ok(Datum::Bytes(pairs.map(|(a, b)| join(*a, *b)).collect()))
}

fn inverted(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bytes(bytes(args[0])?.iter().map(|byte| !byte).collect()))
}

fn is_within(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(address(args[0])?.is_within(address(args[1])?, false)))
}

fn is_within_or_same(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(address(args[0])?.is_within(address(args[1])?, true)))
}

fn has_within(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(address(args[1])?.is_within(address(args[0])?, false)))
}

fn has_within_or_same(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(address(args[1])?.is_within(address(args[0])?, true)))
}

fn overlaps(args: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(address(args[0])?.overlaps(address(args[1])?)))
}

fn and(args: &[&Datum], _: &Env) -> Result<Datum> {
    of(address(args[0])?.combined(address(args[1])?, "AND", |a, b| a & b)?)
}

fn or(args: &[&Datum], _: &Env) -> Result<Datum> {
    of(address(args[0])?.combined(address(args[1])?, "OR", |a, b| a | b)?)
}

fn not(args: &[&Datum], _: &Env) -> Result<Datum> {
    of(address(args[0])?.inverted())
}

fn plus(args: &[&Datum], _: &Env) -> Result<Datum> {
    of(address(args[0])?.plus(i128::from(int(args[1])?))?)
}

fn plus_of(args: &[&Datum], _: &Env) -> Result<Datum> {
    of(address(args[1])?.plus(i128::from(int(args[0])?))?)
}

fn minus(args: &[&Datum], _: &Env) -> Result<Datum> {
    of(address(args[0])?.plus(-i128::from(int(args[1])?))?)
}

fn difference(args: &[&Datum], _: &Env) -> Result<Datum> {
    address(args[0])?.minus(address(args[1])?).map(Datum::Int)
}

pub(super) const TABLE: &[Function] = &[
    f("<<", &[Inet, Inet], Bool, is_within),
    f("network_sub", &[Inet, Inet], Bool, is_within),
    f("<<=", &[Inet, Inet], Bool, is_within_or_same),
    f("network_subeq", &[Inet, Inet], Bool, is_within_or_same),
    f(">>", &[Inet, Inet], Bool, has_within),
    f("network_sup", &[Inet, Inet], Bool, has_within),
    f(">>=", &[Inet, Inet], Bool, has_within_or_same),
    f("network_supeq", &[Inet, Inet], Bool, has_within_or_same),
    f("&&", &[Inet, Inet], Bool, overlaps),
    f("network_overlap", &[Inet, Inet], Bool, overlaps),
    f("&", &[Inet, Inet], Inet, and),
    f("inetand", &[Inet, Inet], Inet, and),
    f("|", &[Inet, Inet], Inet, or),
    f("inetor", &[Inet, Inet], Inet, or),
    f("~", &[Inet], Inet, not),
    f("inetnot", &[Inet], Inet, not),
    f("+", &[Inet, Int8], Inet, plus),
    f("inetpl", &[Inet, Int8], Inet, plus),
    f("+", &[Int8, Inet], Inet, plus_of),
    f("int8pl_inet", &[Int8, Inet], Inet, plus_of),
    f("-", &[Inet, Int8], Inet, minus),
    f("inetmi_int8", &[Inet, Int8], Inet, minus),
    f("-", &[Inet, Inet], Int8, difference),
    f("inetmi", &[Inet, Inet], Int8, difference),
    f("abbrev", &[Inet], Text, |args, _| {
        let address = address(args[0])?;
        shown(|out| address.write(false, out))
    }),
    f("abbrev", &[Cidr], Text, |args, _| {
        let address = address(args[0])?;
        shown(|out| address.write_short(out))
    }),
    f("broadcast", &[Inet], Inet, |args, _| of(address(args[0])?.broadcast())),
    f("family", &[Inet], Int4, |args, _| Ok(Datum::Int(if address(args[0])?.is_v6 { 6 } else { 4 }))),
    f("host", &[Inet], Text, |args, _| {
        let address = address(args[0])?;
        shown(|out| address.write_host(out))
    }),
    f("hostmask", &[Inet], Inet, |args, _| of(address(args[0])?.hostmask())),
    f("masklen", &[Inet], Int4, |args, _| Ok(Datum::Int(i64::from(address(args[0])?.bits)))),
    f("netmask", &[Inet], Inet, |args, _| of(address(args[0])?.netmask())),
    f("network", &[Inet], Cidr, |args, _| of(address(args[0])?.network())),
    f("set_masklen", &[Inet, Int4], Inet, |args, _| of(address(args[0])?.with_bits(int(args[1])?)?)),
    f("set_masklen", &[Cidr, Int4], Cidr, |args, _| of(address(args[0])?.with_bits(int(args[1])?)?.network())),
    f("text", &[Inet], Text, |args, _| {
        let address = address(args[0])?;
        shown(|out| address.write(true, out))
    }),
    f("inet_same_family", &[Inet, Inet], Bool, |args, _| {
        Ok(Datum::Bool(address(args[0])?.is_v6 == address(args[1])?.is_v6))
    }),
    f("inet_merge", &[Inet, Inet], Cidr, |args, _| of(address(args[0])?.merged(address(args[1])?)?)),
    f("&", &[MacAddr, MacAddr], MacAddr, |args, _| joined(args, |a, b| a & b)),
    f("|", &[MacAddr, MacAddr], MacAddr, |args, _| joined(args, |a, b| a | b)),
    f("~", &[MacAddr], MacAddr, inverted),
    f("macaddr_and", &[MacAddr, MacAddr], MacAddr, |args, _| joined(args, |a, b| a & b)),
    f("macaddr_or", &[MacAddr, MacAddr], MacAddr, |args, _| joined(args, |a, b| a | b)),
    f("macaddr_not", &[MacAddr], MacAddr, inverted),
    f("trunc", &[MacAddr], MacAddr, |args, _| of_bytes(&mac(args[0])?.truncated().0)),
    f("&", &[MacAddr8, MacAddr8], MacAddr8, |args, _| joined(args, |a, b| a & b)),
    f("|", &[MacAddr8, MacAddr8], MacAddr8, |args, _| joined(args, |a, b| a | b)),
    f("~", &[MacAddr8], MacAddr8, inverted),
    f("macaddr8_and", &[MacAddr8, MacAddr8], MacAddr8, |args, _| joined(args, |a, b| a & b)),
    f("macaddr8_or", &[MacAddr8, MacAddr8], MacAddr8, |args, _| joined(args, |a, b| a | b)),
    f("macaddr8_not", &[MacAddr8], MacAddr8, inverted),
    f("trunc", &[MacAddr8], MacAddr8, |args, _| of_bytes(&mac8(args[0])?.truncated().0)),
    f("macaddr8_set7bit", &[MacAddr8], MacAddr8, |args, _| of_bytes(&mac8(args[0])?.with_seventh_bit().0)),
    f("macaddr8", &[MacAddr], MacAddr8, |args, _| of_bytes(&mac(args[0])?.widened().0)),
    f("macaddr", &[MacAddr8], MacAddr, |args, _| of_bytes(&mac8(args[0])?.narrowed()?.0)),
];
