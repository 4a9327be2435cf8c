//! The functions of C for databases, connections, statements, COPY and what others say.
#![allow(unsafe_code, reason = "names that programs of C link to")]

use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::Duration;

use embedded::sql::arrow::ArrowArrayStream;

use super::connection::{self, CONNECTIONS, Conn};
use super::database::{ColibriOptions, DATABASES, Db, database_of};
use super::statement::{self, STATEMENTS, Stmt};
use super::{arrow, connection::cancel};
use crate::fault::{self, ColibriError, OK};
use crate::handles::Handle;
use crate::pointers::{bytes, give, give_if_wanted, guard, path, read_if_given, terminated, text, wanted};

/// `colibri_notification`
#[repr(C)]
pub(crate) struct ColibriNotification {
    session: i32,
    channel: *const c_char,
    payload: *const c_char,
}

/// The library's version.
#[unsafe(no_mangle)]
extern "C" fn colibri_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What is known of this thread's last failure.
#[unsafe(no_mangle)]
extern "C" fn colibri_last_error() -> *const ColibriError {
    fault::last_error()
}

// ---- databases ----

#[unsafe(no_mangle)]
extern "C" fn colibri_open(dir: *const c_char, options: *const ColibriOptions, db: *mut *mut Db) -> c_int {
    guard(|| {
        wanted(db)?;
        let opened = Db::open(path(dir)?, read_if_given(options))?;
        give(db, DATABASES.add(opened)?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_close(db: *mut Db) -> c_int {
    guard(|| {
        drop(DATABASES.remove_copied(Handle::of(db))?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_fresh(db: *mut Db, fresh: *mut *mut Db) -> c_int {
    guard(|| {
        wanted(fresh)?;
        let made = Db::of(database_of(Handle::of(db))?.fresh()?);
        give(fresh, DATABASES.add(made)?.as_pointer())?;
        Ok(OK)
    })
}

// ---- connections ----

#[unsafe(no_mangle)]
extern "C" fn colibri_connect(db: *mut Db, user: *const c_char, conn: *mut *mut Conn) -> c_int {
    guard(|| {
        wanted(conn)?;
        let user = if user.is_null() { None } else { Some(text(user, usize::MAX)?) };
        give(conn, connection::connect(Handle::of(db), user)?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_disconnect(conn: *mut Conn) -> c_int {
    guard(|| connection::disconnect(Handle::of(conn)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_cancel(conn: *mut Conn) -> c_int {
    guard(|| cancel(Handle::of(conn)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_execute(conn: *mut Conn, sql: *const c_char) -> c_int {
    guard(|| {
        let sql = text(sql, usize::MAX)?;
        CONNECTIONS.with(Handle::of(conn), |conn| conn.batch(sql))?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_transaction_state(conn: *mut Conn, state: *mut c_int) -> c_int {
    guard(|| {
        give(state, CONNECTIONS.with(Handle::of(conn), Conn::transaction_state)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_fd(conn: *mut Conn, fd: *mut c_int) -> c_int {
    guard(|| {
        give(fd, CONNECTIONS.with(Handle::of(conn), Conn::descriptor)?)?;
        Ok(OK)
    })
}

// ---- statements ----

#[unsafe(no_mangle)]
extern "C" fn colibri_prepare(
    conn: *mut Conn,
    sql: *const c_char,
    sql_bytes: usize,
    statement: *mut *mut Stmt,
) -> c_int {
    guard(|| {
        wanted(statement)?;
        let prepared = statement::prepare(Handle::of(conn), text(sql, sql_bytes)?)?;
        give(statement, prepared.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_finalize(statement: *mut Stmt) -> c_int {
    guard(|| statement::finalize(Handle::of(statement)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_step(statement: *mut Stmt) -> c_int {
    let me = Handle::of(statement);
    guard(|| STATEMENTS.with(me, |statement| statement.step(me, false)))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_step_async(statement: *mut Stmt) -> c_int {
    let me = Handle::of(statement);
    guard(|| STATEMENTS.with(me, |statement| statement.step(me, true)))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_store(statement: *mut Stmt) -> c_int {
    let me = Handle::of(statement);
    guard(|| STATEMENTS.with(me, |statement| statement.store(me)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_reset(statement: *mut Stmt) -> c_int {
    let me = Handle::of(statement);
    guard(|| STATEMENTS.with(me, |statement| statement.reset(me)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_arrow(statement: *mut Stmt, stream: *mut ArrowArrayStream) -> c_int {
    guard(|| {
        wanted(stream)?;
        give(stream, STATEMENTS.with(Handle::of(statement), arrow::stream_of)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_tag(statement: *mut Stmt, tag: *mut *const c_char, affected: *mut u64) -> c_int {
    guard(|| {
        STATEMENTS.with(Handle::of(statement), |statement| {
            let Some(known) = statement.tag() else {
                give_if_wanted(tag, ptr::null());
                give_if_wanted(affected, 0);
                return Ok(fault::NOT_FOUND);
            };
            give_if_wanted(tag, known.as_ptr());
            give_if_wanted(affected, embedded::sql::rows_affected(&known.to_string_lossy()));
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_column_count(statement: *mut Stmt, count: *mut u32) -> c_int {
    guard(|| {
        let columns = STATEMENTS.with(Handle::of(statement), |statement| Ok(statement.statement().columns().len()))?;
        give(count, columns as u32)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_column(
    statement: *mut Stmt,
    column: u32,
    name: *mut *const c_char,
    type_name: *mut *const c_char,
    type_oid: *mut u32,
) -> c_int {
    guard(|| {
        STATEMENTS.with(Handle::of(statement), |statement| {
            let (known_name, known_type, oid) = statement.names(column)?;
            give_if_wanted(name, known_name.as_ptr());
            give_if_wanted(type_name, known_type.as_ptr());
            give_if_wanted(type_oid, oid);
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_param_count(statement: *mut Stmt, count: *mut u32) -> c_int {
    guard(|| {
        let params = STATEMENTS.with(Handle::of(statement), |statement| Ok(statement.statement().params()))?;
        give(count, params as u32)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_param_type(statement: *mut Stmt, number: u32, type_oid: *mut u32) -> c_int {
    guard(|| {
        let oid = STATEMENTS.with(Handle::of(statement), |statement| {
            let place = (number as usize).checked_sub(1);
            place
                .and_then(|place| statement.statement().param_oid(place))
                .ok_or(fault::Fault::Misuse("the statement has no such parameter; the first is number 1"))
        })?;
        give(type_oid, oid)?;
        Ok(OK)
    })
}

// ---- COPY ----

#[unsafe(no_mangle)]
extern "C" fn colibri_copy_in(conn: *mut Conn, sql: *const c_char) -> c_int {
    guard(|| {
        let sql = text(sql, usize::MAX)?;
        CONNECTIONS.with(Handle::of(conn), |conn| conn.copy(sql, true))?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_copy_send(conn: *mut Conn, data: *const u8, length: usize) -> c_int {
    guard(|| {
        let data = bytes(data, length)?;
        CONNECTIONS.with(Handle::of(conn), |conn| conn.copy_send(data))?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_copy_done(conn: *mut Conn, rows: *mut u64) -> c_int {
    guard(|| {
        let copied = CONNECTIONS.with(Handle::of(conn), Conn::copy_done)?;
        give_if_wanted(rows, copied);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_copy_out(conn: *mut Conn, sql: *const c_char) -> c_int {
    guard(|| {
        let sql = text(sql, usize::MAX)?;
        CONNECTIONS.with(Handle::of(conn), |conn| conn.copy(sql, false))?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_copy_receive(conn: *mut Conn, data: *mut *const u8, length: *mut usize) -> c_int {
    guard(|| {
        wanted(data)?;
        wanted(length)?;
        CONNECTIONS.with(Handle::of(conn), |conn| {
            let received = conn.copy_receive()?;
            let code = if received.is_some() { fault::ROW } else { fault::DONE };
            let received = received.unwrap_or_default();
            give(data, received.as_ptr())?;
            give(length, received.len())?;
            Ok(code)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_copy_cancel(conn: *mut Conn) -> c_int {
    guard(|| {
        CONNECTIONS.with(Handle::of(conn), Conn::copy_cancel)?;
        Ok(OK)
    })
}

// ---- what others say ----

#[unsafe(no_mangle)]
extern "C" fn colibri_notified(conn: *mut Conn, patience_ms: u32, notification: *mut ColibriNotification) -> c_int {
    guard(|| {
        wanted(notification)?;
        CONNECTIONS.with(Handle::of(conn), |conn| {
            match conn.notification(Duration::from_millis(patience_ms.into()))? {
                None => Ok(fault::DONE),
                Some((session, channel, payload)) => {
                    let told = ColibriNotification { session, channel: channel.as_ptr(), payload: payload.as_ptr() };
                    give(notification, told)?;
                    Ok(fault::ROW)
                }
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_notice(conn: *mut Conn, notice: *mut *const ColibriError) -> c_int {
    guard(|| {
        wanted(notice)?;
        CONNECTIONS.with(Handle::of(conn), |conn| match conn.notice()? {
            None => Ok(fault::DONE),
            Some(told) => {
                give(notice, fault::tell(&told.report, told.severity.name()))?;
                Ok(fault::ROW)
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_setting(conn: *mut Conn, name: *const c_char, value: *mut c_char, value_bytes: usize) -> c_int {
    guard(|| {
        let name = terminated(name)?.to_string_lossy();
        let known = CONNECTIONS.with(Handle::of(conn), |conn| Ok(conn.connection()?.setting(&name)?))?;
        crate::pointers::fill(value, value_bytes, &known)?;
        Ok(OK)
    })
}
