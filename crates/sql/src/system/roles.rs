//! Roles, databases, tablespaces.

use colibri_catalog::cluster::{BOOTSTRAP_ROLE, Role};
use colibri_types::{Datum, Env, Result, Type};

use super::{Fill, NULL, Rows, array, flag, int, oid, relations, text, text_or_null};
use crate::surroundings::Names as _;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_shdescription", shared_descriptions),
    ("pg_authid", authids),
    ("pg_roles", roles),
    ("pg_user", users),
    ("pg_shadow", shadows),
    ("pg_group", groups),
    ("pg_auth_members", members),
    ("pg_database", databases),
    ("pg_tablespace", tablespaces),
    ("pg_db_role_setting", settings),
];

/// UTF8, as PostgreSQL numbers encodings.
pub(super) const UTF8: i64 = 6;
const DEFAULT_TABLESPACE: u32 = 1663;
/// What is shown in place of a password.
const HIDDEN: &str = "********";

fn until(role: &Role) -> Datum {
    role.valid_until_us.map_or(NULL, Datum::Timestamp)
}

/// Whether password verifiers may be shown.
fn sees_passwords(env: &Env) -> bool {
    env.names().authority.as_ref().is_some_and(|authority| authority.is_superuser())
}

fn refuse(env: &Env, table: &str) -> Result<()> {
    if sees_passwords(env) { Ok(()) } else { Err(colibri_types::Error::denied("table", table)) }
}

fn authids(env: &Env, rows: &mut Rows) -> Result<()> {
    let roles = env.names().roles();
    if roles.iter().any(|role| role.verifier.is_some()) {
        refuse(env, "pg_authid")?;
    }
    for role in roles.iter() {
        rows.push([
            oid(role.oid),
            text(&role.name),
            flag(role.superuser),
            flag(role.inherit),
            flag(role.createrole),
            flag(role.createdb),
            flag(role.login),
            flag(replicates(role)),
            flag(bypasses_security(role)),
            int(role.connection_limit),
            super::text_or_null(role.verifier.as_deref()),
            until(role),
        ])?;
    }
    Ok(())
}

fn replicates(role: &Role) -> bool {
    role.replication || role.oid == colibri_catalog::cluster::BOOTSTRAP_ROLE
}

fn bypasses_security(role: &Role) -> bool {
    role.bypassrls || role.oid == colibri_catalog::cluster::BOOTSTRAP_ROLE
}

fn roles(env: &Env, rows: &mut Rows) -> Result<()> {
    for role in env.names().roles().iter() {
        rows.push([
            text(&role.name),
            flag(role.superuser),
            flag(role.inherit),
            flag(role.createrole),
            flag(role.createdb),
            flag(role.login),
            flag(replicates(role)),
            int(role.connection_limit),
            text(HIDDEN),
            until(role),
            flag(bypasses_security(role)),
            settings_of_role(env, role.oid),
            oid(role.oid),
        ])?;
    }
    Ok(())
}

fn user_rows(env: &Env, rows: &mut Rows, password: impl Fn(&Role) -> Datum) -> Result<()> {
    for role in env.names().roles().iter().filter(|role| role.login) {
        rows.push([
            text(&role.name),
            oid(role.oid),
            flag(role.createdb),
            flag(role.superuser),
            flag(replicates(role)),
            flag(bypasses_security(role)),
            password(role),
            until(role),
            settings_of_role(env, role.oid),
        ])?;
    }
    Ok(())
}

fn users(env: &Env, rows: &mut Rows) -> Result<()> {
    user_rows(env, rows, |_| text(HIDDEN))
}

fn shadows(env: &Env, rows: &mut Rows) -> Result<()> {
    refuse(env, "pg_shadow")?;
    user_rows(env, rows, |role| super::text_or_null(role.verifier.as_deref()))
}

fn groups(env: &Env, rows: &mut Rows) -> Result<()> {
    let roles = env.names().roles();
    for group in roles.iter().filter(|role| !role.login) {
        let is_member = |role: &&Role| role.member_of.iter().any(|membership| membership.group == group.oid);
        let members = roles.iter().filter(is_member).map(|role| oid(role.oid));
        rows.push([text(&group.name), oid(group.oid), array(Type::Oid, members)])?;
    }
    Ok(())
}

fn members(env: &Env, rows: &mut Rows) -> Result<()> {
    for role in env.names().roles().iter() {
        for membership in &role.member_of {
            rows.push([oid(membership.group), oid(role.oid), oid(membership.grantor), flag(membership.admin)])?;
        }
    }
    Ok(())
}

fn databases(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for database in names.databases() {
        let icu = database.locale.as_ref().filter(|locale| locale.is_icu);
        rows.push([
            oid(database.oid),
            text(&database.name),
            oid(database.owner),
            int(UTF8),
            text(if database.locale.as_ref().is_some_and(|locale| locale.is_icu) { "i" } else { "c" }),
            flag(database.is_template),
            flag(database.allow_connections),
            int(database.connection_limit),
            oid(0),
            oid(0),
            oid(DEFAULT_TABLESPACE),
            text(database.locale.as_ref().map_or("C", |locale| &locale.collate)),
            text(database.locale.as_ref().map_or("C.UTF-8", |locale| &locale.ctype)),
            text_or_null(icu.and_then(|locale| locale.order.as_deref())),
            text_or_null(icu.map(|_| colibri_types::collation::VERSION)),
            relations::acl(database.acl.as_ref(), names),
        ])?;
    }
    Ok(())
}

/// As PostgreSQL keeps them: `name=value`.
fn settings_array(values: &[(String, String)]) -> Datum {
    array(Type::Text, values.iter().map(|(name, value)| text(&format!("{name}={value}"))))
}

/// The settings stored for a role in all databases.
fn settings_of_role(env: &Env, role: u32) -> Datum {
    let Some(cluster) = &env.names().cluster else { return NULL };
    let kept = cluster.kept_settings();
    let mine = kept.iter().find(|(whose, _)| whose.role == role && whose.database == 0);
    mine.map_or(NULL, |(_, values)| settings_array(values))
}

fn settings(env: &Env, rows: &mut Rows) -> Result<()> {
    let Some(cluster) = &env.names().cluster else { return Ok(()) };
    for (whose, values) in cluster.kept_settings().iter() {
        rows.push([oid(whose.database), oid(whose.role), settings_array(values)])?;
    }
    Ok(())
}

fn tablespaces(_: &Env, rows: &mut Rows) -> Result<()> {
    for (number, name) in [(DEFAULT_TABLESPACE, "pg_default"), (1664, "pg_global")] {
        rows.push([oid(number), text(name), oid(BOOTSTRAP_ROLE), NULL, NULL])?;
    }
    Ok(())
}

/// Comments on databases and roles.
fn shared_descriptions(env: &Env, rows: &mut Rows) -> Result<()> {
    const PG_DATABASE: u32 = 1262;
    const PG_AUTHID: u32 = 1260;
    let names = env.names();
    for database in names.databases() {
        if let Some(comment) = &database.comment {
            rows.push([oid(database.oid), oid(PG_DATABASE), text(comment)])?;
        }
    }
    for role in names.roles().iter() {
        if let Some(comment) = &role.comment {
            rows.push([oid(role.oid), oid(PG_AUTHID), text(comment)])?;
        }
    }
    Ok(())
}
