//! Statistics of blocks, of the log and of replication, as PostgreSQL lists them.
//!
//! What is not counted here is NULL, and what does not exist has no rows: there are no caches to
//! hit, since pages are memory, and no background writer, archiver or replica.

use colibri_types::{Datum, Env, Result};

use super::{Fill, NULL, Rows, flag, int, oid, relations, text};
use crate::surroundings::Names as _;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_statio_all_tables", |env, rows| tables(env, rows, Which::All)),
    ("pg_statio_user_tables", |env, rows| tables(env, rows, Which::User)),
    ("pg_statio_sys_tables", |env, rows| tables(env, rows, Which::System)),
    ("pg_statio_all_indexes", indexes),
    ("pg_statio_user_indexes", indexes),
    ("pg_statio_all_sequences", sequences),
    ("pg_statio_user_sequences", sequences),
    ("pg_stat_sys_tables", |env, rows| tables(env, rows, Which::System)),
    ("pg_stat_xact_all_tables", |env, rows| tables(env, rows, Which::All)),
    ("pg_stat_xact_user_tables", |env, rows| tables(env, rows, Which::User)),
    ("pg_stat_xact_sys_tables", |env, rows| tables(env, rows, Which::System)),
    ("pg_stat_archiver", |_, rows| one_row(rows)),
    ("pg_stat_bgwriter", |_, rows| one_row(rows)),
    ("pg_stat_wal", |_, rows| one_row(rows)),
    ("pg_stat_gssapi", gssapi),
    ("pg_stat_ssl", ssl),
    ("pg_stat_database_conflicts", conflicts),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    User,
    System,
}

/// Number, schema and name of each table, and nothing counted.
fn tables(env: &Env, rows: &mut Rows, which: Which) -> Result<()> {
    if which != Which::User {
        for table in super::tables().filter(|table| !table.is_view) {
            rows.push([oid(table.oid), text(table.schema), text(table.name)])?;
        }
    }
    if which != Which::System {
        for table in relations::sorted_tables(env.names()) {
            rows.push([oid(table.id), text(&table.schema), text(&table.name)])?;
        }
    }
    Ok(())
}

fn indexes(env: &Env, rows: &mut Rows) -> Result<()> {
    for table in relations::sorted_tables(env.names()) {
        for index in relations::table_indexes(&table) {
            let names = [text(&table.schema), text(&table.name), text(&index.name)];
            let [schema, name, index_name] = names;
            rows.push([oid(table.id), oid(index.id), schema, name, index_name])?;
        }
    }
    Ok(())
}

fn sequences(env: &Env, rows: &mut Rows) -> Result<()> {
    for sequence in relations::sorted_sequences(env.names()) {
        rows.push([oid(sequence.id), text(&sequence.schema), text(&sequence.name)])?;
    }
    Ok(())
}

/// Views that always have one row.
fn one_row(rows: &mut Rows) -> Result<()> {
    rows.push([NULL])?;
    Ok(())
}

/// There are no such logins.
fn gssapi(env: &Env, rows: &mut Rows) -> Result<()> {
    for session in env.names().cluster.as_ref().map(|cluster| cluster.sessions()).unwrap_or_default() {
        rows.push([int(session.pid), flag(false), NULL, flag(false)])?;
    }
    Ok(())
}

/// How each session's connection is encrypted.
fn ssl(env: &Env, rows: &mut Rows) -> Result<()> {
    for session in env.names().cluster.as_ref().map(|cluster| cluster.sessions()).unwrap_or_default() {
        let encryption = session.encryption.as_ref();
        let bits = encryption.map_or(NULL, |encryption| int(encryption.bits));
        let version = super::text_or_null(encryption.map(|encryption| encryption.version));
        let cipher = super::text_or_null(encryption.map(|encryption| &*encryption.cipher));
        rows.push([int(session.pid), flag(encryption.is_some()), version, cipher, bits])?;
    }
    Ok(())
}

/// These have rows on a replica only.
fn conflicts(env: &Env, rows: &mut Rows) -> Result<()> {
    for database in env.names().databases() {
        let none = || Datum::Int(0);
        rows.push([oid(database.oid), text(&database.name), none(), none(), none(), none(), none()])?;
    }
    Ok(())
}
