//! What the owner tells a guest.
//!
//! ```text
//! reply := state: u8 | has settings: u8 | [texts of settings] | notices: u32 count, each | kind: u8 | body
//! ```

use std::sync::Arc;

use colibri_sql::portable::{self, Names, ShownSettings};
use colibri_sql::{Env, Notice, Notification, ResultColumn, Rows, Severity, SqlState, TransactionState};

use super::frame::{Reader, Writer, damaged};
use crate::sql::row::Column;
use crate::sql::running::RowBlock;
use crate::sql::{Error, Result, Statement};

/// The kind of a frame that says that notifications have arrived; it is no reply.
pub(super) const RING: u8 = 1;
/// The kind of a frame with a reply.
pub(super) const REPLY: u8 = 0;

const DONE: u8 = 0;
const FAILED: u8 = 1;
const PREPARED: u8 = 2;
const ROWS: u8 = 3;
const END: u8 = 4;
const TEXT: u8 = 5;
const COUNT: u8 = 6;
const NOTIFICATIONS: u8 = 7;
const COPY: u8 = 8;
const DATA: u8 = 9;

/// What the owner says.
pub(super) enum Told {
    Done,
    Failed(Error),
    /// A statement: numbers of its parameters' types, its columns.
    Prepared(Statement),
    /// Rows; their columns, the first time; the command tag, if they are the last.
    Rows {
        block: RowBlock,
        has_columns: bool,
        tag: Option<String>,
    },
    /// The end; the columns, if they were not told.
    End {
        columns: Option<Arc<[Column]>>,
        tag: String,
    },
    Text(String),
    Count(u64),
    Notifications(Vec<Arc<Notification>>),
    /// A COPY has begun; whether it takes data.
    Copy(bool),
    /// Data of a COPY; the rows at its end.
    Data(Vec<u8>, Option<u64>),
}

/// What the guest reads.
pub(in crate::sql) enum Reply {
    Done,
    Failed(Error),
    Prepared { params: Vec<u32>, columns: Arc<[Column]>, gives_rows: bool },
    Rows { columns: Option<Arc<[Column]>>, rows: Rows, tag: Option<String> },
    End { columns: Option<Arc<[Column]>>, tag: String },
    Text(String),
    Count(u64),
    Notifications(Vec<Arc<Notification>>),
    Copy(bool),
    Data(Vec<u8>, Option<u64>),
}

/// What comes with every reply.
pub(super) struct Status {
    pub(super) state: TransactionState,
    /// If they have changed.
    pub(super) settings: Option<ShownSettings>,
    pub(super) notices: Vec<Notice>,
}

fn put_error(error: &Error, out: &mut Writer) {
    let report = error.report();
    out.text(report.state.0);
    out.text(&report.message);
    out.optional(report.detail.as_deref());
    out.optional(report.hint.as_deref());
    out.optional(report.context.as_deref());
    out.u32(report.position.unwrap_or(0));
    for name in [&report.schema, &report.table, &report.column, &report.data_type, &report.constraint] {
        out.optional(name.as_deref());
    }
}

fn take_error(from: &mut Reader<'_>) -> Result<Error> {
    let state = SqlState::of(from.text()?);
    let mut error = Error::new(state, from.text()?);
    if let Some(detail) = from.optional()? {
        error = error.detail(detail);
    }
    if let Some(hint) = from.optional()? {
        error = error.hint(hint);
    }
    if let Some(context) = from.optional()? {
        error = error.context(context);
    }
    match from.u32()? {
        0 => {}
        position => error = error.moved_to(position),
    }
    let mut name = || from.optional().map(|name| name.map(str::to_owned));
    Ok(error.with_names(name()?, name()?, name()?, name()?, name()?))
}

const SEVERITIES: [Severity; 5] = [Severity::Debug, Severity::Log, Severity::Notice, Severity::Warning, Severity::Info];
const STATES: [TransactionState; 3] = [TransactionState::Idle, TransactionState::Open, TransactionState::Failed];

/// The place of a value in a list that has all of them.
fn place<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|other| other == value).unwrap_or(0) as u8
}

fn put_columns(columns: &[Column], out: &mut Writer) {
    out.count(columns.len());
    for column in columns {
        let ty = portable::portable_type(column.column.ty);
        out.text(column.name());
        out.text(column.type_name());
        out.u32(column.type_oid());
        out.u32(ty.ty.code());
        out.u32(ty.modifier.0 as u32);
    }
}

fn take_columns(from: &mut Reader<'_>) -> Result<Arc<[Column]>> {
    let count = from.count()?;
    (0..count)
        .map(|_| {
            let (name, type_name, oid) = (from.text()?, from.text()?, from.u32()?);
            let ty = portable::column_type_of(from.u32()?, from.i32()?).ok_or_else(damaged)?;
            let column = ResultColumn { name: name.into(), ty, origin: None };
            Ok(Column::of_other_process(name, type_name, oid, column))
        })
        .collect()
}

/// A reply as a frame.
///
/// # Errors
/// It is too large, or a value has no text.
pub(super) fn frame(told: &Told, status: &Status, env: &Env) -> Result<Vec<u8>> {
    let mut out = Writer::new(REPLY);
    out.u8(place(&STATES, &status.state));
    out.u8(status.settings.is_some().into());
    if let Some(settings) = &status.settings {
        out.count(settings.values().len());
        settings.values().iter().for_each(|value| out.text(value));
    }
    out.count(status.notices.len());
    for notice in &status.notices {
        out.u8(place(&SEVERITIES, &notice.severity));
        put_error(&notice.report, &mut out);
    }
    match told {
        Told::Done => out.u8(DONE),
        Told::Failed(error) => {
            out.u8(FAILED);
            put_error(error, &mut out);
        }
        Told::Prepared(statement) => {
            out.u8(PREPARED);
            out.count(statement.params());
            (0..statement.params()).filter_map(|place| statement.param_oid(place)).for_each(|oid| out.u32(oid));
            put_columns(statement.columns(), &mut out);
            out.u8(statement.gives_rows().into());
        }
        Told::Rows { block, has_columns, tag } => {
            out.u8(ROWS);
            out.optional(tag.as_deref());
            out.u8((*has_columns).into());
            if *has_columns {
                put_columns(block.columns(), &mut out);
            }
            block.write_portable(env, out.raw())?;
        }
        Told::End { columns, tag } => {
            out.u8(END);
            out.text(tag);
            out.u8(columns.is_some().into());
            if let Some(columns) = columns {
                put_columns(columns, &mut out);
            }
        }
        Told::Text(text) => {
            out.u8(TEXT);
            out.text(text);
        }
        Told::Count(count) => {
            out.u8(COUNT);
            out.u64(*count);
        }
        Told::Notifications(told) => {
            out.u8(NOTIFICATIONS);
            out.count(told.len());
            for told in told {
                out.u32(told.session as u32);
                out.text(&told.channel);
                out.text(&told.payload);
            }
        }
        Told::Copy(takes_data) => {
            out.u8(COPY);
            out.u8((*takes_data).into());
        }
        Told::Data(bytes, rows) => {
            out.u8(DATA);
            out.u8(rows.is_some().into());
            out.u64(rows.unwrap_or(0));
            out.bytes(bytes);
        }
    }
    out.finish()
}

/// Reads a reply from a frame without its length and kind.
///
/// # Errors
/// 08P01 or XX001 if it is none.
pub(super) fn read(frame: &[u8], names: &Names) -> Result<(Status, Reply)> {
    let mut from = Reader(frame);
    let state = *STATES.get(usize::from(from.u8()?)).ok_or_else(damaged)?;
    let settings = match from.u8()? {
        0 => None,
        _ => {
            let count = from.count()?;
            let values = (0..count).map(|_| from.text().map(str::to_owned)).collect::<Result<_>>()?;
            Some(ShownSettings::from_values(values).ok_or_else(damaged)?)
        }
    };
    let count = from.count()?;
    let notices = (0..count)
        .map(|_| {
            let severity = *SEVERITIES.get(usize::from(from.u8()?)).ok_or_else(damaged)?;
            Ok(Notice { severity, report: take_error(&mut from)? })
        })
        .collect::<Result<_>>()?;
    let status = Status { state, settings, notices };
    let reply = match from.u8()? {
        DONE => Reply::Done,
        FAILED => Reply::Failed(take_error(&mut from)?),
        PREPARED => {
            let count = from.count()?;
            let params = (0..count).map(|_| from.u32()).collect::<Result<_>>()?;
            Reply::Prepared { params, columns: take_columns(&mut from)?, gives_rows: from.u8()? != 0 }
        }
        ROWS => {
            let tag = from.optional()?.map(str::to_owned);
            let columns = if from.u8()? == 0 { None } else { Some(take_columns(&mut from)?) };
            return Ok((status, Reply::Rows { columns, rows: portable::read_rows(from.0, names)?, tag }));
        }
        END => {
            let tag = from.text()?.to_owned();
            Reply::End { columns: if from.u8()? == 0 { None } else { Some(take_columns(&mut from)?) }, tag }
        }
        TEXT => Reply::Text(from.text()?.to_owned()),
        COUNT => Reply::Count(from.u64()?),
        NOTIFICATIONS => {
            let count = from.count()?;
            let told = (0..count).map(|_| {
                let (session, channel, payload) = (from.i32()?, from.text()?.into(), from.text()?.into());
                Ok(Arc::new(Notification { session, channel, payload }))
            });
            Reply::Notifications(told.collect::<Result<_>>()?)
        }
        COPY => Reply::Copy(from.u8()? != 0),
        DATA => {
            let (is_end, rows) = (from.u8()? != 0, from.u64()?);
            Reply::Data(from.bytes()?.to_vec(), is_end.then_some(rows))
        }
        _ => return Err(damaged()),
    };
    if from.0.is_empty() { Ok((status, reply)) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let settings = ["Europe/Berlin", "SQL, DMY", "iso_8601", "0", "escape"].map(str::to_owned).to_vec();
        let report = Error::new(SqlState::WARNING, "a notice").hint("a hint");
        Status {
            state: TransactionState::Failed,
            settings: ShownSettings::from_values(settings),
            notices: vec![Notice { severity: Severity::Info, report }],
        }
    }

    #[test]
    fn an_error_arrives_with_all_that_it_says() {
        let error = Error::new(SqlState::of("XY123"), "wrong")
            .detail("very")
            .hint("be right")
            .context("line 3")
            .at(7)
            .about("public", "birds", Some("grams"), Some("birds_grams_check"));
        let frame = frame(&Told::Failed(error.clone()), &status(), &Env::default()).unwrap();
        let (read_status, reply) = read(&frame[5..], &Names::default()).unwrap();
        let Reply::Failed(read_error) = reply else { panic!("another reply") };
        assert_eq!(format!("{read_error:?}"), format!("{error:?}"));
        assert_eq!(read_status.state, TransactionState::Failed);
        assert_eq!(read_status.settings, status().settings);
        assert_eq!(format!("{:?}", read_status.notices), format!("{:?}", status().notices));
        for end in 5..frame.len() {
            assert!(read(&frame[5..end], &Names::default()).is_err(), "{end} of {}", frame.len());
        }
    }
}
