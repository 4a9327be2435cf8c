//! How large databases and relations are, and sizes as texts.
//!
//! All relations of a database are in one file, so that a relation's size is that of its pages.

use colibri_catalog::{
    ObjectId, Relation,
    cluster::{Authority, ObjectKind, Privileges},
};
use colibri_types::{
    Datum, Env, Error, Numeric, Result, SqlState,
    Type::{self, Int8, Name, Oid, RegClass, Text},
    functions::{Function, f, int, text},
    pieces,
};

use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;
use crate::system::names::Found;

/// The numbers of the tablespaces that every server has.
const DEFAULT_TABLESPACE: i64 = 1663;
const GLOBAL_TABLESPACE: i64 = 1664;

/// Bytes of the pages of spaces.
fn space_bytes(names: &Surroundings, space: u32) -> Result<i64> {
    let Some(engine) = &names.engine else { return Ok(0) };
    let size = engine.space_size(colibri_txn::SpaceId(space))?;
    Ok(size.map_or(0, |size| size.bytes) as i64)
}

/// Bytes of a relation's own pages, and of its indexes'.
fn relation_bytes(names: &Surroundings, id: ObjectId) -> Result<Option<(i64, i64)>> {
    Ok(match names.relation(id) {
        Some(Found::User { relation: Relation::Table(table), .. }) => {
            let mut indexes = 0;
            for index in &table.indexes {
                indexes += space_bytes(names, index.space)?;
            }
            Some((space_bytes(names, table.space)?, indexes))
        }
        Some(Found::User { relation: Relation::Index(_, index), .. }) => Some((space_bytes(names, index.space)?, 0)),
        Some(_) => Some((0, 0)),
        None => None,
    })
}

fn sized(args: &[&Datum], env: &Env, choose: fn((i64, i64)) -> i64) -> Result<Datum> {
    let bytes = relation_bytes(env.names(), int(args[0])? as u32)?;
    Ok(bytes.map_or(Datum::Null, |bytes| Datum::Int(choose(bytes))))
}

fn own_size(args: &[&Datum], env: &Env) -> Result<Datum> {
    match args.get(1) {
        // There is one file for all; maps of free space and visibility there are not.
        Some(Datum::Text(fork)) if fork != "main" => Ok(Datum::Int(0)),
        _ => sized(args, env, |(own, _)| own),
    }
}

fn indexes_size(args: &[&Datum], env: &Env) -> Result<Datum> {
    sized(args, env, |(_, indexes)| indexes)
}

fn total_size(args: &[&Datum], env: &Env) -> Result<Datum> {
    sized(args, env, |(own, indexes)| own + indexes)
}

/// Bytes of a database's file.
fn bytes_of(names: &Surroundings, database: &str) -> i64 {
    match (&names.engine, &names.cluster) {
        (Some(engine), _) if engine.name() == database => {
            let Some(store) = engine.local_store() else { return 0 };
            let data = store.database().path().join("data");
            std::fs::metadata(data).map_or(0, |data| data.len() as i64)
        }
        (_, Some(cluster)) => cluster.database_bytes(database) as i64,
        _ => 0,
    }
}

/// `pg_database_size`: of a database that the user may connect to.
fn database_size(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let mut databases = names.databases().into_iter();
    let found = match args[0] {
        Datum::Text(name) => {
            let found = databases.find(|database| database.name == *name);
            let no_such = || Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist"));
            Some(found.ok_or_else(no_such)?)
        }
        number => {
            let number = int(number)?;
            databases.find(|database| i64::from(database.oid) == number)
        }
    };
    let Some(database) = found else { return Ok(Datum::Null) };
    let authority = names.authority.as_deref().cloned().unwrap_or_else(Authority::superuser);
    if !authority.may(Privileges::CONNECT, ObjectKind::Database, database.owner, database.acl.as_ref()) {
        let message = format!("permission denied for database {}", database.name);
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    Ok(Datum::Int(bytes_of(names, &database.name)))
}

/// `pg_tablespace_size`: all databases are in the default one.
fn tablespace_size(args: &[&Datum], env: &Env) -> Result<Datum> {
    let number = match args[0] {
        Datum::Text(name) => match name.as_str() {
            "pg_default" => DEFAULT_TABLESPACE,
            "pg_global" => GLOBAL_TABLESPACE,
            _ => {
                let message = format!("tablespace \"{name}\" does not exist");
                return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
            }
        },
        number => int(number)?,
    };
    let names = env.names();
    Ok(match number {
        DEFAULT_TABLESPACE => {
            Datum::Int(names.databases().iter().map(|database| bytes_of(names, &database.name)).sum())
        }
        GLOBAL_TABLESPACE => Datum::Int(0),
        _ => Datum::Null,
    })
}

// ---- texts ----

const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
/// Bytes of which a text is no longer written in bytes.
const BYTES_MAX: i128 = 10 * 1024;

fn pretty(mut size: i128) -> String {
    // As PostgreSQL does: a unit is left once it has more than 10 of the next one, and rounded half
    // up.
    let mut unit = 0;
    let mut half = false;
    while unit + 1 < UNITS.len() && size.abs() >= if unit == 0 { BYTES_MAX } else { 20 * 1024 - 1 } {
        size /= if unit == 0 { 512 } else { 1024 };
        half = true;
        unit += 1;
    }
    if half {
        size = if size < 0 { (size - 1) / 2 } else { (size + 1) / 2 };
    }
    format!("{size} {}", UNITS[unit])
}

fn pretty_numeric(args: &[&Datum], _: &Env) -> Result<Datum> {
    let Datum::Numeric(size) = &args[0] else { return Err(Error::internal("a size is not numeric")) };
    match size.trunc(0)?.to_i128_rounded() {
        Some(whole) if whole.abs() >= BYTES_MAX => Ok(Datum::text(&pretty(whole))),
        Some(_) => Ok(Datum::text(&format!("{size} bytes"))),
        // More than 128 bits have, or no number.
        None => {
            let petabytes = size.div_truncated(&Numeric::from(1_i128 << 50))?;
            Ok(Datum::text(&format!("{petabytes} PB")))
        }
    }
}

/// `pg_size_bytes`: a number, and perhaps a unit behind it.
fn bytes(args: &[&Datum], _: &Env) -> Result<Datum> {
    let given = text(args[0])?;
    let invalid = || Error::new(SqlState::BAD_PARAMETER, format!("invalid size: \"{given}\""));
    let is_blank = |byte: u8| byte.is_ascii_whitespace() || byte == b'\x0b';
    let start = pieces::count_at_start(given.as_bytes(), is_blank)?;
    let size = &given[start..];
    let size = &size[..size.len() - pieces::count_at_end(size.as_bytes(), is_blank)?];
    let digits = |from: usize| {
        let count = pieces::count_at_start(&size.as_bytes()[from..], |byte| byte.is_ascii_digit())?;
        Ok::<usize, Error>(from + count)
    };
    let sign = usize::from(size.starts_with(['+', '-']));
    let mut end = digits(sign)?;
    let mut count = end - sign;
    if size[end..].starts_with('.') {
        let fraction = digits(end + 1)?;
        count += fraction - end - 1;
        end = fraction;
    }
    if count == 0 {
        return Err(invalid());
    }
    if size[end..].starts_with(['e', 'E']) {
        let from = end + 1 + usize::from(size[end + 1..].starts_with(['+', '-']));
        let after = digits(from)?;
        // Without digits it is the beginning of a unit.
        end = if after > from { after } else { end };
    }
    let number = Numeric::parse(&size[..end])?;
    let unit = &size[end + pieces::count_at_start(&size.as_bytes()[end..], is_blank)?..];
    let power = match UNITS.iter().position(|known| known.eq_ignore_ascii_case(unit)) {
        Some(power) => power as u32,
        None if unit.is_empty() => 0,
        None => {
            return Err(invalid()
                .detail(format!("Invalid size unit: \"{unit}\"."))
                .hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        }
    };
    let all = number.mul(&Numeric::from(1024_i128.pow(power)))?.to_i64_rounded();
    all.map(Datum::Int).ok_or_else(|| Error::new(SqlState("22003"), "bigint out of range"))
}

pub(super) const TABLE: &[Function] = &[
    f("pg_relation_size", &[RegClass], Int8, own_size).stable(),
    f("pg_relation_size", &[RegClass, Text], Int8, own_size).stable(),
    f("pg_table_size", &[RegClass], Int8, own_size).stable(),
    f("pg_indexes_size", &[RegClass], Int8, indexes_size).stable(),
    f("pg_total_relation_size", &[RegClass], Int8, total_size).stable(),
    f("pg_database_size", &[Oid], Int8, database_size).volatile(),
    f("pg_database_size", &[Name], Int8, database_size).volatile(),
    f("pg_tablespace_size", &[Oid], Int8, tablespace_size).volatile(),
    f("pg_tablespace_size", &[Name], Int8, tablespace_size).volatile(),
    f("pg_size_pretty", &[Int8], Text, |a, _| Ok(Datum::text(&pretty(i128::from(int(a[0])?))))),
    f("pg_size_pretty", &[Type::Numeric], Text, pretty_numeric),
    f("pg_size_bytes", &[Text], Int8, bytes),
];
