//! Sessions, locks, counters, settings: the present activity. It is counted where it happens, and
//! read by queries.

use std::net::IpAddr;

use colibri_catalog::{CATALOG_SPACE, cluster::SessionInfo, store_error::InSql as _};
use colibri_txn::{LockMode, LockName};
use colibri_types::{Array, Datum, Env, Result, Type, network::Address, pulse};

use super::{Fill, NULL, Rows, array, flag, int, oid, relations, text, text_or_null};
use crate::session::advisory;
use crate::session::two_phase::About;
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_stat_activity", sessions),
    ("pg_locks", locks),
    ("pg_cursors", cursors),
    ("pg_prepared_statements", prepared),
    ("pg_prepared_xacts", prepared_transactions),
    ("pg_settings", settings),
    ("pg_stat_database", databases),
    ("pg_stat_all_tables", all_tables),
    ("pg_stat_user_tables", user_tables),
    ("pg_stat_all_indexes", all_indexes),
    ("pg_stat_user_indexes", user_indexes),
    ("pg_stat_statements", statements),
];

fn database_number(names: &Surroundings, name: &str) -> Datum {
    names.databases().iter().find(|database| database.name == name).map_or(NULL, |database| oid(database.oid))
}

/// Where a client is, as an `inet`.
pub(crate) fn address(ip: IpAddr) -> Datum {
    let address = match ip {
        IpAddr::V4(ip) => Address { is_v6: false, bits: 32, value: u128::from(u32::from(ip)) << 96 },
        IpAddr::V6(ip) => Address { is_v6: true, bits: 128, value: u128::from(ip) },
    };
    Datum::Bytes(address.to_bytes())
}

/// What is known of the session itself.
pub(crate) fn own(env: &Env) -> Option<SessionInfo> {
    let names = env.names();
    names.cluster.as_ref()?.sessions().into_iter().find(|session| session.pid == names.pid)
}

/// What is shown in place of another user's statement.
const HIDDEN: &str = "<insufficient privilege>";

fn sessions(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let Some(cluster) = &names.cluster else { return Ok(()) };
    let roles = names.roles();
    for session in cluster.sessions() {
        session_row(env, &session, roles.named(&session.user).map(|role| role.oid), rows)?;
    }
    Ok(())
}

fn session_row(env: &Env, session: &SessionInfo, role: Option<u32>, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    // Other users' statements may contain secrets.
    let seen = names.authority.as_ref().is_some_and(|authority| role.is_some_and(|role| authority.has_role(role)));
    let shown = |value: Datum| if seen { value } else { NULL };
    let time = |us: Option<i64>| us.map_or(NULL, Datum::Timestamp);
    let (wait_type, wait) = session.waits_for.map(colibri_catalog::cluster::Waits::event).unzip();
    rows.push([
        database_number(names, &session.database),
        text(&session.database),
        int(session.pid),
        NULL,
        role.map_or(NULL, oid),
        text(&session.user),
        text(&session.application_name),
        shown(session.client.map_or(NULL, |client| address(client.ip()))),
        NULL,
        shown(session.client.map_or(int(-1), |client| int(client.port()))),
        shown(Datum::Timestamp(session.connected_us)),
        shown(time(session.transaction_us)),
        shown(time(session.query_us)),
        shown(Datum::Timestamp(session.state_us)),
        shown(text_or_null(wait_type)),
        shown(text_or_null(wait)),
        shown(text(session.state.name())),
        NULL,
        NULL,
        NULL,
        text(if seen { &session.query } else { HIDDEN }),
        text("client backend"),
    ])
}

/// The relation that a space belongs to, and whether it is an index.
fn relation_of_space(names: &Surroundings, space: u32) -> Option<u32> {
    names.catalog.tables().inspect(|_| pulse::look()).find_map(|table| {
        if table.space == space {
            return Some(table.id);
        }
        table.indexes.iter().find(|index| index.space == space).map(|index| index.id)
    })
}

fn prepared_transactions(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let Some(engine) = &names.engine else { return Ok(()) };
    let roles = names.roles();
    for prepared in engine.store().prepared().in_sql()? {
        let about = About::read(&prepared.about)?;
        rows.push([
            int(prepared.number as u32),
            text(&prepared.name),
            Datum::Timestamp(about.time_us),
            text(&roles.name_of(about.owner)),
            text(engine.name()),
        ])?;
    }
    Ok(())
}

fn cursors(env: &Env, rows: &mut Rows) -> Result<()> {
    for cursor in env.names().listed.cursors.lock().iter() {
        rows.push([
            text(&cursor.name),
            text(&cursor.statement),
            Datum::Bool(cursor.is_holdable),
            Datum::Bool(cursor.is_binary),
            Datum::Bool(cursor.is_scrollable),
            Datum::Timestamp(cursor.declared_us),
        ])?;
    }
    Ok(())
}

fn prepared(env: &Env, rows: &mut Rows) -> Result<()> {
    for statement in env.names().listed.prepared.lock().iter() {
        let types = statement.types.iter().map(|ty| oid(ty.oid())).collect();
        rows.push([
            text(&statement.name),
            text(&statement.statement),
            Datum::Timestamp(statement.prepared_us),
            Datum::Array(Array::new(Type::RegType, types).into()),
            Datum::Bool(statement.from_sql),
            int(0),
            int(0),
        ])?;
    }
    Ok(())
}

fn locks(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let Some(engine) = &names.engine else { return Ok(()) };
    let database = database_number(names, engine.name());
    for lock in engine.store().locks() {
        let advisory =
            [(advisory::BY_ONE, 1), (advisory::BY_TWO, 2)].into_iter().find(|(space, _)| *space == lock.space);
        let in_catalog = lock.space == CATALOG_SPACE;
        let relation = if in_catalog { None } else { relation_of_space(names, lock.space.0) };
        let LockName(name) = lock.name;
        let number = lock.name.number(lock.space);
        let (kind, class, object, part) = match advisory {
            Some((_, part)) => ("advisory", oid((number >> 32) as u32), oid(number as u32), int(part)),
            // Row locks are known by a hash of the key only.
            None if in_catalog => ("object", oid(relations::PG_CLASS), oid((name ^ (name >> 32)) as u32), NULL),
            None => ("tuple", NULL, oid((name ^ (name >> 32)) as u32), NULL),
        };
        let transaction = format!("{}", lock.owner.0);
        rows.push([
            text(kind),
            database.clone(),
            relation.map_or(NULL, oid),
            NULL,
            NULL,
            NULL,
            NULL,
            class,
            object,
            part,
            text(&transaction),
            engine.session_of(lock.owner).map_or(NULL, int),
            text(match lock.mode {
                // PostgreSQL's modes with the same conflicts.
                LockMode::KeyShare => "RowShareLock",
                LockMode::Share => "ShareLock",
                LockMode::NoKeyUpdate => "ShareRowExclusiveLock",
                LockMode::Exclusive => "ExclusiveLock",
                LockMode::Add => "RowExclusiveLock",
            }),
            flag(lock.granted),
            flag(false),
            NULL,
        ])?;
    }
    Ok(())
}

fn settings(env: &Env, rows: &mut Rows) -> Result<()> {
    for known in crate::session::settings_for_catalog(env) {
        let setting = text(&known.value);
        let default = text(&known.default);
        rows.push([
            text(known.name),
            setting,
            text_or_null(known.unit),
            text("Settings"),
            text(""),
            NULL,
            text(known.context),
            text(known.kind),
            text(known.source.name()),
            text_or_null(known.min.as_deref()),
            text_or_null(known.max.as_deref()),
            known.words.map_or(NULL, |words| array(Type::Text, words.into_iter().map(Datum::text))),
            default.clone(),
            default,
            NULL,
            NULL,
            flag(false),
        ])?;
    }
    Ok(())
}

fn databases(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let sessions = names.cluster.as_ref().map(|cluster| cluster.sessions()).unwrap_or_default();
    for database in names.databases() {
        // Each engine has its own counters: those of other databases are read there.
        let here = names.engine.as_ref().filter(|engine| engine.name() == database.name);
        let counters = here.map(|engine| engine.store().counters());
        let count = |value: Option<u64>| value.map_or(NULL, |value| int(value as i64));
        let connected = sessions.iter().filter(|session| session.database == database.name).count();
        let mut row: [Datum; 28] = std::array::from_fn(|_| NULL);
        row[0] = oid(database.oid);
        row[1] = text(&database.name);
        row[2] = int(connected as i64);
        row[3] = count(counters.as_ref().map(|counters| counters.commits));
        row[4] = count(here.map(|engine| engine.activity().rolled_back()));
        let files = here.map(|engine| engine.temp_files());
        row[12] = count(counters.as_ref().map(|counters| counters.conflicts));
        row[13] = count(files.map(|files| files.files));
        row[14] = count(files.map(|files| files.bytes));
        row[15] = count(counters.as_ref().map(|counters| counters.deadlocks));
        rows.push(row)?;
    }
    Ok(())
}

fn all_tables(env: &Env, rows: &mut Rows) -> Result<()> {
    user_tables(env, rows)
}

fn user_tables(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in relations::sorted_tables(names) {
        let (entries, _) = relations::figures(names, table.space)?;
        let mut row: [Datum; 23] = std::array::from_fn(|_| NULL);
        row[0] = oid(table.id);
        row[1] = text(&table.schema);
        row[2] = text(&table.name);
        row[11] = int(entries as i64);
        // There are no dead rows.
        row[12] = int(0);
        rows.push(row)?;
    }
    Ok(())
}

fn all_indexes(env: &Env, rows: &mut Rows) -> Result<()> {
    user_indexes(env, rows)
}

fn user_indexes(env: &Env, rows: &mut Rows) -> Result<()> {
    for table in relations::sorted_tables(env.names()) {
        for index in relations::table_indexes(&table) {
            rows.push([
                oid(table.id),
                oid(index.id),
                text(&table.schema),
                text(&table.name),
                text(&index.name),
                NULL,
                NULL,
                NULL,
            ])?;
        }
    }
    Ok(())
}

fn statements(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let Some(engine) = &names.engine else { return Ok(()) };
    let database = database_number(names, engine.name());
    let roles = names.roles();
    for statement in engine.activity().statements() {
        let role = roles.named(&statement.user).map(|role| role.oid);
        let seen = names.authority.as_ref().is_some_and(|authority| role.is_some_and(|role| authority.has_role(role)));
        let ms = |ns: u64| Datum::Float(ns as f64 / 1e6);
        rows.push([
            role.map_or(NULL, oid),
            database.clone(),
            flag(true),
            if seen { int(statement.id) } else { NULL },
            text(if seen { &statement.text } else { HIDDEN }),
            int(statement.plans as i64),
            int(statement.calls as i64),
            ms(statement.total_ns),
            ms(statement.min_ns),
            ms(statement.max_ns),
            ms(statement.total_ns.checked_div(statement.calls).unwrap_or(0)),
            int(statement.rows as i64),
            int(statement.conflicts as i64),
        ])?;
    }
    Ok(())
}
