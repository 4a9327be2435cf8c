//! Messages to clients, appended to a buffer that is sent later.

use colibri_sql::client_values;
use colibri_sql::encoding::Encoding;
use colibri_sql::wire::{self, Format};
use colibri_sql::{
    ColumnType, Datum, Env, Error, Modifier, Notice, Notification, ResultColumn, SqlState, TransactionState, Type,
};

use super::frontend::Formats;

/// Messages in the order in which they are to be sent.
///
/// The functions that append take what they need and no more, so that they can be used for what is
/// built up elsewhere.
pub(crate) type Out = Vec<u8>;

/// Appends a message whose body `write` appends.
fn message(out: &mut Out, kind: u8, write: impl FnOnce(&mut Out)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    // A body is never longer than what is kept in memory for one row, which `i32` holds.
    let length = i32::try_from(out.len() - at).unwrap_or(i32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn string(out: &mut Out, text: &str) {
    // A zero byte would end the string early.
    out.extend(text.bytes().filter(|&byte| byte != 0));
    out.push(0);
}

/// A text in the client's encoding. What has to arrive has question marks for what that lacks.
fn string_in(encoding: Encoding, out: &mut Out, text: &str) {
    match encoding.is_as_here() {
        true => string(out, text),
        false => {
            out.extend(encoding.encode_lossy(text).iter().filter(|&&byte| byte != 0));
            out.push(0);
        }
    }
}

fn i16(out: &mut Out, value: usize) {
    // There are at most 1,664 columns and 65,535 parameters.
    out.extend_from_slice(&(value as u16).to_be_bytes());
}

fn i32(out: &mut Out, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn authentication_ok(out: &mut Out) {
    message(out, b'R', |out| i32(out, 0));
}

/// Names the ways to log in that the client may choose from.
pub(crate) fn authentication_sasl(out: &mut Out, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        i32(out, 10);
        mechanisms.iter().for_each(|mechanism| string(out, mechanism));
        out.push(0);
    });
}

pub(crate) fn authentication_sasl_continue(out: &mut Out, data: &str) {
    message(out, b'R', |out| {
        i32(out, 11);
        out.extend_from_slice(data.as_bytes());
    });
}

pub(crate) fn authentication_sasl_final(out: &mut Out, data: &str) {
    message(out, b'R', |out| {
        i32(out, 12);
        out.extend_from_slice(data.as_bytes());
    });
}

pub(crate) fn parameter_status(out: &mut Out, name: &str, value: &str) {
    message(out, b'S', |out| {
        string(out, name);
        string(out, value);
    });
}

pub(crate) fn backend_key(out: &mut Out, pid: i32, key: &[u8]) {
    message(out, b'K', |out| {
        i32(out, pid);
        out.extend_from_slice(key);
    });
}

/// NegotiateProtocolVersion: names the supported version, and the options that are not supported.
pub(crate) fn negotiate_version(out: &mut Out, unknown: &[&str]) {
    message(out, b'v', |out| {
        i32(out, 0);
        i32(out, unknown.len() as i32);
        unknown.iter().for_each(|option| string(out, option));
    });
}

pub(crate) fn ready(out: &mut Out, state: TransactionState) {
    let state = match state {
        TransactionState::Idle => b'I',
        TransactionState::Open => b'T',
        TransactionState::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, state]);
}

pub(crate) fn parse_complete(out: &mut Out) {
    out.extend_from_slice(b"1\0\0\0\x04");
}

pub(crate) fn bind_complete(out: &mut Out) {
    out.extend_from_slice(b"2\0\0\0\x04");
}

pub(crate) fn close_complete(out: &mut Out) {
    out.extend_from_slice(b"3\0\0\0\x04");
}

pub(crate) fn no_data(out: &mut Out) {
    out.extend_from_slice(b"n\0\0\0\x04");
}

pub(crate) fn empty_query(out: &mut Out) {
    out.extend_from_slice(b"I\0\0\0\x04");
}

pub(crate) fn portal_suspended(out: &mut Out) {
    out.extend_from_slice(b"s\0\0\0\x04");
}

pub(crate) fn command_complete(out: &mut Out, tag: &str) {
    message(out, b'C', |out| string(out, tag));
}

pub(crate) fn parameter_description(out: &mut Out, types: impl ExactSizeIterator<Item = u32>) {
    message(out, b't', |out| {
        i16(out, types.len());
        types.for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
    });
}

/// Names of columns have question marks for what the client's encoding lacks.
pub(crate) fn row_description(out: &mut Out, columns: &[ResultColumn], formats: &Formats, encoding: Encoding) {
    message(out, b'T', |out| {
        i16(out, columns.len());
        for (index, column) in columns.iter().enumerate() {
            let (table, number) = column.origin.unwrap_or((0, 0));
            string_in(encoding, out, &column.name);
            out.extend_from_slice(&table.to_be_bytes());
            out.extend_from_slice(&number.to_be_bytes());
            let (oid, modifier) = match column.ty {
                // The modifier of rows tells which relation's they are.
                ColumnType { ty: Type::Record, modifier: Modifier(rows), .. } => {
                    (u32::try_from(rows).unwrap_or(Type::Record.oid()), Modifier::NONE.0)
                }
                // Of a domain clients are told the type that it is over.
                ColumnType { ty, modifier, domain: _ } => (ty.oid(), modifier.0),
            };
            out.extend_from_slice(&oid.to_be_bytes());
            out.extend_from_slice(&column.ty.ty.length().to_be_bytes());
            i32(out, modifier);
            i16(out, usize::from(formats.of(index) == Format::Binary));
        }
    });
}

/// Appends a row. `scratch` is room that is used and left empty.
///
/// # Errors
/// 22P05 if the client's encoding lacks a character. Nothing is appended then.
pub(crate) fn data_row(
    out: &mut Out,
    row: &[Datum],
    columns: &[ResultColumn],
    formats: &Formats,
    env: &Env,
    scratch: &mut String,
) -> Result<(), Error> {
    let (start, encoding) = (out.len(), env.client_encoding);
    let is_converted = !encoding.is_as_here();
    let mut done = Ok(());
    message(out, b'D', |out| {
        i16(out, columns.len());
        for (index, (value, column)) in row.iter().zip(columns).enumerate() {
            if value.is_null() {
                i32(out, -1);
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            let format = formats.of(index);
            wire::write(column.ty, format, value, env, scratch, out);
            if is_converted && !out[at + 4..].is_ascii() {
                match client_values::encode_value(encoding, column.ty.ty, format, &out[at + 4..]) {
                    Ok(None) => {}
                    Ok(Some(encoded)) => {
                        out.truncate(at + 4);
                        out.extend_from_slice(&encoded);
                    }
                    Err(error) => done = Err(error),
                }
            }
            let length = i32::try_from(out.len() - at - 4).unwrap_or(i32::MAX);
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    });
    if done.is_err() {
        out.truncate(start);
    }
    done
}

pub(crate) fn copy_in(out: &mut Out, columns: usize, is_binary: bool) {
    copy_response(out, b'G', columns, is_binary);
}

pub(crate) fn copy_out(out: &mut Out, columns: usize, is_binary: bool) {
    copy_response(out, b'H', columns, is_binary);
}

fn copy_response(out: &mut Out, kind: u8, columns: usize, is_binary: bool) {
    message(out, kind, |out| {
        out.push(is_binary.into());
        i16(out, columns);
        (0..columns).for_each(|_| i16(out, is_binary.into()));
    });
}

pub(crate) fn copy_data(out: &mut Out, bytes: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(bytes));
}

pub(crate) fn copy_done(out: &mut Out) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// An error: `ERROR` ends a statement, `FATAL` a session.
pub(crate) fn error(out: &mut Out, severity: &str, error: &Error, encoding: Encoding) {
    message(out, b'E', |out| fields(out, severity, error, encoding));
}

pub(crate) fn notice(out: &mut Out, notice: &Notice, encoding: Encoding) {
    message(out, b'N', |out| fields(out, notice.severity.name(), &notice.report, encoding));
}

/// What another session has notified of.
pub(crate) fn notification(out: &mut Out, notification: &Notification, encoding: Encoding) {
    message(out, b'A', |out| {
        i32(out, notification.session);
        string_in(encoding, out, &notification.channel);
        string_in(encoding, out, &notification.payload);
    });
}

/// The file and the routine of PostgreSQL from which an error comes, of errors that drivers know by
/// that: pgjdbc and asyncpg prepare a statement again then.
fn routine_of(error: &Error) -> Option<(&'static str, &'static str)> {
    let report = error.report();
    let is_outdated = report.state == SqlState::FEATURE_NOT_SUPPORTED
        && &*report.message == "cached plan must not change result type";
    is_outdated.then_some(("plancache.c", "RevalidateCachedQuery"))
}

fn fields(out: &mut Out, severity: &str, error: &Error, encoding: Encoding) {
    let report = error.report();
    let SqlState(code) = report.state;
    let position = report.position.map(|position| position.to_string());
    let routine = routine_of(error);
    let fields = [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(code)),
        (b'M', Some(&*report.message)),
        (b'D', report.detail.as_deref()),
        (b'H', report.hint.as_deref()),
        (b'P', position.as_deref()),
        (b'W', report.context.as_deref()),
        (b's', report.schema.as_deref()),
        (b't', report.table.as_deref()),
        (b'c', report.column.as_deref()),
        (b'd', report.data_type.as_deref()),
        (b'n', report.constraint.as_deref()),
        (b'F', routine.map(|(file, _)| file)),
        (b'L', routine.map(|_| "0")),
        (b'R', routine.map(|(_, routine)| routine)),
    ];
    for (field, text) in fields {
        if let Some(text) = text {
            out.push(field);
            string_in(encoding, out, text);
        }
    }
    out.push(0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use colibri_sql::{CompactString, Type};

    use super::*;

    #[test]
    fn lengths_count_themselves_and_not_the_kind() {
        let mut out = Out::new();
        command_complete(&mut out, "SELECT 1");
        assert_eq!(out, b"C\0\0\0\x0dSELECT 1\0");
    }

    #[test]
    fn a_row_has_values_in_the_formats_asked_for() {
        let column =
            |name: &str, ty: Type| ResultColumn { name: CompactString::new(name), ty: ty.into(), origin: None };
        let columns = [column("a", Type::Int4), column("b", Type::Text), column("c", Type::Int2)];
        let formats = Formats::Each([Format::Binary, Format::Text, Format::Text].as_slice().into());
        let mut out = Out::new();
        let row = [Datum::Int(7), Datum::Null, Datum::Int(-12)];
        data_row(&mut out, &row, &columns, &formats, &Env::default(), &mut String::new()).unwrap();
        assert_eq!(out, b"D\0\0\0\x19\0\x03\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\0\0\x03-12");
        out.clear();
        row_description(&mut out, &columns[..1], &formats, Encoding::UTF8);
        assert_eq!(out, b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01");
    }

    #[test]
    fn texts_are_in_the_clients_encoding() {
        let column = |ty: Type| ResultColumn { name: CompactString::new("\u{e9}"), ty: ty.into(), origin: None };
        let columns = [column(Type::Text), column(Type::Bytea), column(Type::Int4)];
        let latin = Encoding::named("LATIN1").unwrap();
        let (env, mut out) = (Env { client_encoding: latin, ..Env::default() }, Out::new());
        let formats = Formats::All(Format::Binary);
        let row = [Datum::text("\u{e9}"), Datum::Bytes([0xc3, 0xa9].into()), Datum::Int(0xe9)];
        data_row(&mut out, &row, &columns, &formats, &env, &mut String::new()).unwrap();
        assert_eq!(out[7..], *b"\0\0\0\x01\xe9\0\0\0\x02\xc3\xa9\0\0\0\x04\0\0\0\xe9");
        out.clear();
        let lacking = data_row(&mut out, &[Datum::text("\u{20ac}")], &columns, &formats, &env, &mut String::new());
        assert_eq!(lacking.unwrap_err().state().0, "22P05");
        assert!(out.is_empty());
        row_description(&mut out, &columns[..1], &formats, latin);
        assert_eq!(out[7..9], *b"\xe9\0");
        out.clear();
        error(&mut out, "ERROR", &Error::new(SqlState::SYNTAX_ERROR, "\u{e9}\u{20ac}"), latin);
        assert_eq!(out[26..30], *b"M\xe9?\0");
    }

    #[test]
    fn an_error_has_its_fields_and_no_zeros_in_them() {
        let mut out = Out::new();
        let report = Error::new(SqlState::SYNTAX_ERROR, "a\0b").at(3).hint("h");
        error(&mut out, "ERROR", &report, Encoding::UTF8);
        assert_eq!(&out[5..], b"SERROR\0VERROR\0C42601\0Mab\0Hh\0P3\0\0");
    }
}
