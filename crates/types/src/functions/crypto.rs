//! What PostgreSQL has in the extensions `uuid-ossp` and `pgcrypto`: UUIDs by name and by time,
//! digests, random bytes.
//!
//! The UUIDs of time have random nodes: nothing tells which machine made one.

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::bytes::hashed;
use super::{Function, bytes, f, int, text};
use crate::env::clock_us;
use crate::error::{Error, Result, SqlState};
use crate::types::Type::{Bytea, Int4, Text, Uuid};
use crate::value::Datum;

/// Random bytes at most that are asked for at once, as in `pgcrypto`.
const RANDOM_BYTES_MAX: i64 = 1024;
/// From the epoch of UUIDs, 1582-10-15, to that of timestamps here, in units of 100 ns.
const EPOCH_100NS: i64 = 131_659_776_000_000_000;
/// The last group of the UUIDs of names that name spaces: DNS, URL, OID and X.500.
const NAME_SPACE: [u8; 16] = *b"\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8";

pub(super) fn fill_random(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out)
        .map_err(|error| Error::new(SqlState::INTERNAL, format!("could not generate random values: {error}")))
}

/// A UUID of these bytes, marked with its version.
fn marked(mut bytes: [u8; 16], version: u8) -> Datum {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Datum::Uuid(bytes)
}

fn of_time() -> Result<Datum> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes)?;
    let ticks = (clock_us() * 10 + fastrand::i64(0..10)).saturating_add(EPOCH_100NS) as u64;
    bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((ticks >> 48) as u16).to_be_bytes());
    // A node of this kind is no machine's.
    bytes[10] |= 1;
    Ok(marked(bytes, 1))
}

fn uuid(value: &Datum) -> Result<[u8; 16]> {
    match value {
        Datum::Uuid(uuid) => Ok(*uuid),
        other => Err(Error::internal(format_args!("{other:?} is no UUID"))),
    }
}

fn of_name<D: Digest>(args: &[&Datum], version: u8) -> Result<Datum> {
    let mut named = uuid(args[0])?.to_vec();
    named.extend_from_slice(text(args[1])?.as_bytes());
    let hash = hashed::<D>(&named)?;
    let first = hash.as_slice().first_chunk::<16>().copied();
    first.map(|bytes| marked(bytes, version)).ok_or_else(|| Error::internal("a hash is too short"))
}

const fn name_space(number: u8) -> Datum {
    let mut bytes = NAME_SPACE;
    bytes[3] += number;
    Datum::Uuid(bytes)
}

/// The name of an algorithm, of those that it has.
fn hash_name(algorithm: &str) -> String {
    let name = algorithm.to_ascii_lowercase();
    match name.strip_prefix("sha-").or_else(|| name.strip_prefix("sha2-")) {
        Some("1") if name.starts_with("sha2") => name,
        Some(bits) => format!("sha{bits}"),
        None => name,
    }
}

/// Hashes with the algorithm of a name; `None` if there is none.
fn digest(algorithm: &str, data: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(Some(match hash_name(algorithm).as_str() {
        "md5" => hashed::<Md5>(data)?.to_vec(),
        "sha1" => hashed::<Sha1>(data)?.to_vec(),
        "sha224" => hashed::<Sha224>(data)?.to_vec(),
        "sha256" => hashed::<Sha256>(data)?.to_vec(),
        "sha384" => hashed::<Sha384>(data)?.to_vec(),
        "sha512" => hashed::<Sha512>(data)?.to_vec(),
        _ => return Ok(None),
    }))
}

fn no_such_hash(algorithm: &str) -> Error {
    let message = format!("Cannot use \"{}\": No such hash algorithm", algorithm.to_ascii_lowercase());
    Error::new(SqlState::BAD_PARAMETER, message)
}

fn digested(data: &[u8], algorithm: &Datum) -> Result<Datum> {
    let algorithm = text(algorithm)?;
    let hash = digest(algorithm, data)?.ok_or_else(|| no_such_hash(algorithm))?;
    Ok(Datum::Bytes(hash.into()))
}

/// HMAC: the hash of a key with one padding and of the hash of the key with another one and the
/// data.
fn keyed(data: &[u8], key: &[u8], algorithm: &Datum) -> Result<Datum> {
    let algorithm = text(algorithm)?;
    let hash = |data: &[u8]| digest(algorithm, data)?.ok_or_else(|| no_such_hash(algorithm));
    let block = if matches!(hash_name(algorithm).as_str(), "sha384" | "sha512") { 128 } else { 64 };
    let mut key = if key.len() > block { hash(key)? } else { key.to_vec() };
    key.resize(block, 0);
    let padded = |padding: u8, data: &[u8]| {
        let mut all: Vec<u8> = key.iter().map(|byte| byte ^ padding).collect();
        all.extend_from_slice(data);
        hash(&all)
    };
    Ok(Datum::Bytes(padded(0x5c, &padded(0x36, data)?)?.into()))
}

fn random_bytes(count: &Datum) -> Result<Datum> {
    let count = int(count)?;
    if !(1..=RANDOM_BYTES_MAX).contains(&count) {
        return Err(Error::new(SqlState("39000"), "Length not in range"));
    }
    let mut bytes = vec![0; count as usize];
    fill_random(&mut bytes)?;
    Ok(Datum::Bytes(bytes.into()))
}

pub(super) const TABLE: &[Function] = &[
    f("uuid_generate_v1", &[], Uuid, |_, _| of_time()).volatile(),
    f("uuid_generate_v1mc", &[], Uuid, |_, _| of_time()).volatile(),
    f("uuid_generate_v3", &[Uuid, Text], Uuid, |a, _| of_name::<Md5>(a, 3)),
    f("uuid_generate_v4", &[], Uuid, |_, _| {
        let mut bytes = [0; 16];
        fill_random(&mut bytes)?;
        Ok(marked(bytes, 4))
    })
    .volatile(),
    f("uuid_generate_v5", &[Uuid, Text], Uuid, |a, _| of_name::<Sha1>(a, 5)),
    f("uuid_nil", &[], Uuid, |_, _| Ok(Datum::Uuid([0; 16]))),
    f("uuid_ns_dns", &[], Uuid, |_, _| Ok(name_space(0))),
    f("uuid_ns_url", &[], Uuid, |_, _| Ok(name_space(1))),
    f("uuid_ns_oid", &[], Uuid, |_, _| Ok(name_space(2))),
    f("uuid_ns_x500", &[], Uuid, |_, _| Ok(name_space(4))),
    f("digest", &[Text, Text], Bytea, |a, _| digested(text(a[0])?.as_bytes(), a[1])),
    f("digest", &[Bytea, Text], Bytea, |a, _| digested(bytes(a[0])?, a[1])),
    f("hmac", &[Text, Text, Text], Bytea, |a, _| keyed(text(a[0])?.as_bytes(), text(a[1])?.as_bytes(), a[2])),
    f("hmac", &[Bytea, Bytea, Text], Bytea, |a, _| keyed(bytes(a[0])?, bytes(a[1])?, a[2])),
    f("gen_random_bytes", &[Int4], Bytea, |a, _| random_bytes(a[0])).volatile(),
];
