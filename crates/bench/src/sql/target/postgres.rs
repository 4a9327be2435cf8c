//! PostgreSQL, and whatever speaks its protocol: a connection is a socket on Colibri's runtime,
//! with all messages of a batch in one write.
//!
//! | module | holds |
//! | --- | --- |
//! | `address` | `postgres://` |
//! | `stream` | a TCP or Unix socket |
//! | `messages` | what the server says |
//!
//! Statements are prepared when a connection is made, and described: integers and times then go in
//! binary, everything else as text. A batch is Bind and Execute for each call, `BEGIN` and `COMMIT`
//! among them, and one Sync behind all: if one fails, the server skips the rest and rolls back the
//! open transaction.
//!
//! The caller of a batch decides how long it may take. A statement that is sent by itself (to load,
//! to check) may take as long as it needs; an index on a large table may take hours. If there is no
//! answer for long, another connection sends the server a small query. Only if that has no answer
//! either does the server count as stopped.
//!
//! Not here: TLS.

mod address;
mod messages;
mod stream;

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use colibri::sql::engine::rows_of_tag;
use colibri_runtime::timeout;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;

pub(crate) use address::Address;
use messages::{Message, Reader};
use stream::Stream;

use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{
    BEGIN, BEGIN_READ_ONLY, Batch, Boxed, COMMIT, Cell, Connection, Counts, Failure, Place, Session, Table, Target,
    Values,
};

/// Types by their numbers in PostgreSQL's catalogue.
mod oid {
    pub(super) const INT8: u32 = 20;
    pub(super) const INT2: u32 = 21;
    pub(super) const INT4: u32 = 23;
    pub(super) const TIMESTAMP: u32 = 1114;
    pub(super) const TIMESTAMPTZ: u32 = 1184;
    pub(super) const NUMERIC: u32 = 1700;
}

/// How long connecting, logging in and preparing may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// A statement that is sent by itself may be silent for so long before anybody asks whether the
/// server is there.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(30);

/// What PostgreSQL counts; versions that have it elsewhere, and other servers, do not tell. Its
/// processes report about once a second, so of a run of a few seconds these are a guess.
const LOG_FLUSHES: &str = "SELECT wal_sync FROM pg_stat_wal";
/// Log, and pages from its buffers.
const WRITTEN_BYTES: &str = "SELECT (w.wal_bytes + (b.buffers_checkpoint + b.buffers_clean + b.buffers_backend) *                              current_setting('block_size')::int8)::int8 FROM pg_stat_wal AS w, pg_stat_bgwriter AS b";
const READ_BYTES: &str = "SELECT (sum(blks_read) * current_setting('block_size')::int8)::int8 FROM pg_stat_database";
const DISK_BYTES: &str = "SELECT (pg_database_size(current_database()) + (SELECT sum(size) FROM pg_ls_waldir()))::int8";

const TEXT_FORMAT: i16 = 0;
const BINARY_FORMAT: i16 = 1;

/// A type whose values go in binary.
fn format_of(ty: u32) -> i16 {
    match ty {
        oid::INT2 | oid::INT4 | oid::INT8 | oid::TIMESTAMP | oid::TIMESTAMPTZ => BINARY_FORMAT,
        _ => TEXT_FORMAT,
    }
}

/// A server.
pub(crate) struct Postgres {
    address: Arc<Address>,
    patience: Duration,
}

impl Postgres {
    /// # Errors
    /// What is wrong with the address.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        Ok(Self { address: Arc::new(Address::parse(url)?), patience: PATIENCE_DEFAULT })
    }

    /// The same with another time for which a statement that is sent by itself may be silent.
    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// A server that accepts a connection and does not answer counts as absent.
    async fn open(&self, statements: &[String]) -> Result<Server, Failure> {
        let limit = CONNECT_LIMIT.min(self.patience);
        let no_answer = |_| Failure::connection(false, "the server does not answer");
        timeout(limit, open_unhurried(&self.address, self.patience, statements)).await.map_err(no_answer)?
    }
}

async fn open_unhurried(address: &Arc<Address>, patience: Duration, statements: &[String]) -> Result<Server, Failure> {
    let stream = Stream::connect(address)
        .await
        .map_err(|e| Failure::connection(false, format!("cannot connect ({e}): does a server listen there?")))?;
    let mut server = Server::new(stream, Arc::clone(address), patience);
    server.log_in(address).await?;
    if !statements.is_empty() {
        server.prepare(statements).await?;
    }
    Ok(server)
}

/// Whether the server answers another connection within that time. A refusal of the connection
/// counts as an answer.
async fn answers(address: &Arc<Address>, within: Duration) -> bool {
    let connecting = open_unhurried(address, within, &[]);
    match timeout(within, connecting).await {
        Ok(Ok(_)) => true,
        Ok(Err(failure)) => failure.is_answer(),
        Err(_) => false,
    }
}

impl Target for Postgres {
    fn name(&self) -> String {
        self.address.to_string()
    }

    fn about(&self) -> Boxed<'_, String> {
        Box::pin(async move {
            let Ok(mut server) = self.open(&[]).await else { return "unknown".to_owned() };
            let mut parts = Vec::new();
            for (label, sql) in [
                ("", "SELECT version()"),
                ("synchronous_commit=", "SHOW synchronous_commit"),
                ("fsync=", "SHOW fsync"),
                ("shared_buffers=", "SHOW shared_buffers"),
                ("default isolation: ", "SHOW default_transaction_isolation"),
            ] {
                let Ok(table) = server.query(sql).await else { continue };
                if let Some(text) = table.answer().text(0, 0) {
                    let text = String::from_utf8_lossy(text);
                    // Of the version, who built it and with what does not matter.
                    let text = text.split(" on ").next().unwrap_or_default();
                    parts.push(format!("{label}{text}"));
                }
            }
            parts.join(", ")
        })
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn counts(&self) -> Boxed<'_, Counts> {
        Box::pin(async move {
            let Ok(mut server) = self.open(&[]).await else { return Counts::default() };
            Counts {
                log_flushes: server.number(LOG_FLUSHES).await,
                written_bytes: server.number(WRITTEN_BYTES).await,
                read_bytes: server.number(READ_BYTES).await,
                disk_bytes: server.number(DISK_BYTES).await,
            }
        })
    }

    fn connect<'a>(&'a self, statements: &'a [String]) -> Boxed<'a, Result<Session, Failure>> {
        Box::pin(async move { Ok(Session::new(self.open(statements).await?)) })
    }
}

/// A statement that the server has, and what its parameters and columns are.
#[derive(Debug, Default)]
struct Prepared {
    name: String,
    params: Vec<u32>,
    param_formats: Vec<i16>,
    columns: Vec<u32>,
    column_formats: Vec<i16>,
}

/// What a run is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Calls are out, and answers come.
    Calls,
    /// A call failed, and the open transaction is being rolled back.
    TakingBack,
    /// Nothing can come of it any more.
    Broken,
}

/// A connection to a server.
struct Server {
    stream: Stream,
    out: BytesMut,
    written: usize,
    reader: Reader,
    prepared: Vec<Prepared>,
    stage: Stage,
    /// The first error of the current run.
    failure: Option<Failure>,
    /// Whether the current run commits something.
    commits: bool,
    /// Where the transaction stood when the server was ready last.
    status: u8,
    /// Columns of the rows that are coming, outside of batches.
    columns: Vec<u32>,
    /// For asking whether the server is there, and after how long a silence.
    address: Arc<Address>,
    patience: Duration,
}

/// Where the transaction stands when the server is ready.
const OUTSIDE: u8 = b'I';

impl Server {
    fn new(stream: Stream, address: Arc<Address>, patience: Duration) -> Self {
        Self {
            stream,
            out: BytesMut::with_capacity(16 << 10),
            written: 0,
            reader: Reader::default(),
            prepared: Vec::new(),
            stage: Stage::Idle,
            failure: None,
            commits: false,
            status: OUTSIDE,
            columns: Vec::new(),
            address,
            patience,
        }
    }

    fn broken(&mut self, what: impl std::fmt::Display) -> Failure {
        self.stage = Stage::Broken;
        let failure = Failure::connection(self.commits, what.to_string());
        // A server that goes down says so before the socket does.
        match self.failure.take() {
            Some(first) if self.commits => first.while_committing(),
            Some(first) => first,
            None => failure,
        }
    }

    /// Writes what is left to write, as far as the socket takes it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while self.written < self.out.len() {
            match ready!(self.stream.poll_write(cx, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.out.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// The next message, which lies in the reader. Goes on writing meanwhile, so that a server
    /// which waits for room to write is read from.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, Failure>> {
        loop {
            match self.reader.next() {
                Ok(Some(message)) => return Poll::Ready(Ok(message)),
                Ok(None) => {}
                Err(reason) => return Poll::Ready(Err(self.broken(reason))),
            }
            if let Poll::Ready(Err(e)) = self.poll_write(cx) {
                return Poll::Ready(Err(self.broken(format!("cannot write: {e}"))));
            }
            let room = self.reader.room();
            match ready!(self.stream.poll_read(cx, room)) {
                Ok(0) => return Poll::Ready(Err(self.broken("the server closed the connection"))),
                Ok(count) => self.reader.filled(count),
                Err(e) => return Poll::Ready(Err(self.broken(format!("cannot read: {e}")))),
            }
        }
    }

    async fn message(&mut self) -> Result<Message, Failure> {
        std::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    /// The next message of an answer to something that was sent by itself.
    async fn message_unless_it_hangs(&mut self) -> Result<Message, Failure> {
        self.unless_it_hangs(Self::poll_message).await?
    }

    /// Waits for as long as the server answers anybody.
    async fn unless_it_hangs<T>(
        &mut self,
        mut poll: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Failure> {
        loop {
            // What is polled keeps where it is in the connection: nothing is lost with the future.
            let (patience, address) = (self.patience, Arc::clone(&self.address));
            let waiting = std::future::poll_fn(|cx| poll(self, cx));
            if let Ok(done) = timeout(patience, waiting).await {
                return Ok(done);
            }
            if !answers(&address, patience.min(CONNECT_LIMIT)).await {
                self.stage = Stage::Broken;
                return Err(Failure::hangs(patience));
            }
        }
    }

    /// The one number that a query gives; nothing if this server does not know it.
    async fn number(&mut self, sql: &str) -> Option<u64> {
        let table = self.query(sql).await.ok()?;
        table.answer().decimal(0, 0, 0)?.try_into().ok()
    }

    fn encode<T>(&mut self, encode: impl FnOnce(&mut BytesMut) -> std::io::Result<T>) -> Result<T, Failure> {
        encode(&mut self.out).map_err(|e| Failure::answer(format!("a message cannot be written: {e}")))
    }

    // ---- logging in ----

    async fn log_in(&mut self, address: &Address) -> Result<(), Failure> {
        let parameters = [
            ("user", address.user.as_str()),
            ("database", address.database.as_str()),
            ("client_encoding", "UTF8"),
            ("application_name", "colibri bench"),
        ];
        self.encode(|out| frontend::startup_message(parameters, out))?;
        let password = address.password.as_bytes().to_vec();
        let mut scram = None;
        loop {
            let message = self.message().await?;
            let body = self.reader.body(&message).to_vec();
            match message.tag {
                b'R' => self.authenticate(&body, address, &password, &mut scram)?,
                b'E' => return Err(messages::failure(&body)),
                b'Z' => return Ok(()),
                // Parameters, a key for cancelling, notices.
                _ => {}
            }
        }
    }

    fn authenticate(
        &mut self,
        body: &[u8],
        address: &Address,
        password: &[u8],
        scram: &mut Option<ScramSha256>,
    ) -> Result<(), Failure> {
        let refused = |what: &str| Failure::sql("28000", what.to_owned());
        let (kind, rest) = body.split_at_checked(4).ok_or_else(|| refused("a short message"))?;
        match u32::from_be_bytes([kind[0], kind[1], kind[2], kind[3]]) {
            0 => Ok(()),
            3 => self.encode(|out| frontend::password_message(password, out)),
            5 => {
                let salt = rest.try_into().map_err(|_| refused("a short salt"))?;
                let hash = md5_hash(address.user.as_bytes(), password, salt);
                self.encode(|out| frontend::password_message(hash.as_bytes(), out))
            }
            10 => {
                if !rest.split(|&byte| byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(refused("the server wants an authentication that this client does not know"));
                }
                let exchange = ScramSha256::new(password, ChannelBinding::unsupported());
                let message = exchange.message().to_vec();
                *scram = Some(exchange);
                self.encode(|out| frontend::sasl_initial_response(SCRAM_SHA_256, &message, out))
            }
            11 => {
                let exchange = scram.as_mut().ok_or_else(|| refused("SCRAM out of turn"))?;
                exchange.update(rest).map_err(|e| refused(&e.to_string()))?;
                let message = exchange.message().to_vec();
                self.encode(|out| frontend::sasl_response(&message, out))
            }
            12 => {
                let exchange = scram.as_mut().ok_or_else(|| refused("SCRAM out of turn"))?;
                exchange.finish(rest).map_err(|e| refused(&e.to_string()))
            }
            other => Err(refused(&format!("the server wants authentication {other}, which this client does not know"))),
        }
    }

    // ---- preparing ----

    async fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        for (index, text) in statements.iter().enumerate() {
            let name = format!("s{index}");
            self.encode(|out| {
                frontend::parse(&name, text, [], out)?;
                frontend::describe(b'S', &name, out)
            })?;
            self.prepared.push(Prepared { name, ..Prepared::default() });
        }
        self.out_sync();
        let mut index = 0;
        let mut failure = None;
        loop {
            let message = self.message().await?;
            let body = self.reader.body(&message);
            match message.tag {
                b't' => self.prepared[index].params = messages::parameter_types(body),
                b'T' => {
                    self.prepared[index].columns = messages::column_types(body);
                    index += 1;
                }
                b'n' => index += 1,
                b'E' => {
                    let text = statements.get(index).map_or("", String::as_str);
                    failure = Some(messages::failure(body).doing(text));
                }
                b'Z' => break,
                _ => {}
            }
        }
        for prepared in &mut self.prepared {
            prepared.param_formats = prepared.params.iter().map(|&ty| format_of(ty)).collect();
            prepared.column_formats = prepared.columns.iter().map(|&ty| format_of(ty)).collect();
        }
        failure.map_or(Ok(()), Err)
    }

    fn out_sync(&mut self) {
        frontend::sync(&mut self.out);
    }

    // ---- batches ----

    fn write_calls(&mut self, batch: &Batch) -> Result<(), Failure> {
        for (index, call) in batch.calls().iter().enumerate() {
            let Some(prepared) = self.prepared.get(usize::from(call.statement.0)) else {
                return Err(Failure::answer("a statement that was not prepared"));
            };
            let (values, types) = (batch.values(), &prepared.params);
            let mut types = types.iter().copied();
            let bound = frontend::bind(
                "",
                &prepared.name,
                prepared.param_formats.iter().copied(),
                batch.params(index).iter().copied(),
                |cell, out| write_cell(cell, types.next().unwrap_or_default(), values, out),
                prepared.column_formats.iter().copied(),
                &mut self.out,
            );
            if bound.is_err() {
                return Err(Failure::answer("a parameter that the statement does not take"));
            }
            frontend::execute("", 0, &mut self.out)
                .map_err(|e| Failure::answer(format!("a message cannot be written: {e}")))?;
            // Outside of a transaction each statement is one.
            let begins = matches!(call.statement, BEGIN | BEGIN_READ_ONLY);
            self.commits |= call.statement == COMMIT || (index == 0 && self.status == OUTSIDE && !begins);
        }
        self.out_sync();
        Ok(())
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>> {
        loop {
            let message = ready!(self.poll_message(cx))?;
            let body = self.reader.body(&message);
            match message.tag {
                b'2' if self.stage == Stage::Calls => drop(batch.begin_answer()),
                b'D' if self.stage == Stage::Calls => {
                    let call = batch.answers().saturating_sub(1);
                    let statement = batch.calls().get(call).map_or(0, |call| usize::from(call.statement.0));
                    let columns = self.prepared.get(statement).map_or(&[][..], |prepared| &prepared.columns);
                    messages::row(body, columns, &mut batch.last_answer());
                }
                b'C' if self.stage == Stage::Calls && batch.answers() > 0 => {
                    let tag = messages::text(body);
                    batch.last_answer().affected(rows_of_tag(tag));
                }
                b'E' => {
                    let failure = messages::failure(body);
                    self.failure.get_or_insert(failure);
                }
                b'Z' => {
                    self.status = body.first().copied().unwrap_or(OUTSIDE);
                    if self.failure.is_none() || self.status == OUTSIDE {
                        self.stage = Stage::Idle;
                        return Poll::Ready(self.failure.take().map_or(Ok(()), Err));
                    }
                    // The first failure is what the caller hears of; this one cannot fail.
                    self.stage = Stage::TakingBack;
                    frontend::query("ROLLBACK", &mut self.out).map_err(|e| self.broken(e))?;
                }
                // Parameters, notices, parsed, no data.
                _ => {}
            }
        }
    }

    // ---- one by one ----

    /// Reads to the end of a statement that was sent by itself.
    async fn finish(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        let mut failure = None;
        loop {
            let message = self.message_unless_it_hangs().await?;
            let body = self.reader.body(&message);
            match message.tag {
                b'T' => self.columns = messages::column_types(body),
                b'D' => messages::text_row(body, &self.columns, &mut batch.last_answer()),
                b'C' => {
                    let rows = rows_of_tag(messages::text(body));
                    batch.last_answer().affected(rows);
                }
                b'E' => {
                    failure.get_or_insert_with(|| messages::failure(body));
                }
                b'Z' => return failure.map_or(Ok(()), Err),
                _ => {}
            }
        }
    }
}

/// Writes a parameter as the type of the statement's parameter wants it.
fn write_cell(
    cell: Cell,
    ty: u32,
    values: &Values,
    out: &mut BytesMut,
) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
    match (cell, ty) {
        (Cell::Null, _) => return Ok(IsNull::Yes),
        (Cell::Int(value), oid::INT2) => out.extend_from_slice(&i16::try_from(value)?.to_be_bytes()),
        (Cell::Int(value), oid::INT4) => out.extend_from_slice(&i32::try_from(value)?.to_be_bytes()),
        (Cell::Int(value) | Cell::Time(value), oid::INT8 | oid::TIMESTAMP | oid::TIMESTAMPTZ) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Cell::Int(value), _) => push_decimal(out, value, 0),
        (Cell::Decimal { mantissa, scale }, ty) if format_of(ty) == TEXT_FORMAT => push_decimal(out, mantissa, scale),
        (Cell::Text { start, bytes }, ty) if format_of(ty) == TEXT_FORMAT => {
            out.extend_from_slice(values.bytes(start, bytes));
        }
        (cell, ty) => return Err(format!("{cell:?} for a parameter of type {ty}").into()),
    }
    Ok(IsNull::No)
}

/// An exact number as text.
fn push_decimal(out: &mut BytesMut, mantissa: i64, scale: u8) {
    let mut digits = [b'0'; 32];
    let mut at = digits.len();
    let (mut rest, mut place) = (mantissa.unsigned_abs(), 0);
    while rest > 0 || place <= scale {
        if place == scale && scale > 0 {
            at -= 1;
            digits[at] = b'.';
        }
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        place += 1;
    }
    if mantissa < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

impl Connection for Server {
    fn poll_run(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>> {
        if self.stage == Stage::Broken {
            return Poll::Ready(Err(self.broken("the connection is broken")));
        }
        if self.stage == Stage::Idle {
            batch.clear_answers();
            self.commits = false;
            self.failure = None;
            if let Err(failure) = self.write_calls(batch) {
                self.stage = Stage::Broken;
                return Poll::Ready(Err(failure));
            }
            self.stage = Stage::Calls;
            if let Poll::Ready(Err(e)) = self.poll_write(cx) {
                return Poll::Ready(Err(self.broken(format!("cannot write: {e}"))));
            }
        }
        self.poll_answers(cx, batch)
    }

    fn is_broken(&self) -> bool {
        self.stage != Stage::Idle
    }

    fn query<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<Table, Failure>> {
        Box::pin(async move {
            self.encode(|out| frontend::query(sql, out))?;
            let mut batch = Batch::default();
            batch.begin_answer();
            self.finish(&mut batch).await?;
            Ok(Table::new(batch))
        })
    }

    fn copy_begin<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            self.encode(|out| frontend::query(sql, out))?;
            let mut failure = None;
            loop {
                let message = self.message_unless_it_hangs().await?;
                match message.tag {
                    b'G' => return Ok(()),
                    b'E' => failure = Some(messages::failure(self.reader.body(&message))),
                    b'Z' => return Err(failure.unwrap_or_else(|| Failure::answer("no COPY began"))),
                    _ => {}
                }
            }
        })
    }

    fn copy_data<'a>(&'a mut self, bytes: &'a [u8]) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let data = frontend::CopyData::new(bytes)
                .map_err(|e| Failure::answer(format!("a piece of COPY is too long: {e}")))?;
            data.write(&mut self.out);
            // An error that the server has told meanwhile is read at the end.
            let written = self.unless_it_hangs(Self::poll_write).await?;
            written.map_err(|e| self.broken(format!("cannot write: {e}")))
        })
    }

    fn copy_end(&mut self) -> Boxed<'_, Result<u64, Failure>> {
        Box::pin(async move {
            frontend::copy_done(&mut self.out);
            let mut batch = Batch::default();
            batch.begin_answer();
            self.finish(&mut batch).await?;
            Ok(batch.answer(0).affected())
        })
    }
}

/// Parses a decimal of a server: digits, perhaps a sign and a point. Nothing if it is too long, or
/// something else.
fn decimal(text: &[u8]) -> Option<Cell> {
    let (digits, is_negative) = match text.strip_prefix(b"-") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (mut mantissa, mut scale, mut has_point) = (0_i64, 0_u8, false);
    for &byte in digits {
        match byte {
            b'.' if !has_point => has_point = true,
            b'0'..=b'9' => {
                mantissa = mantissa.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                scale += u8::from(has_point);
            }
            _ => return None,
        }
    }
    (!digits.is_empty()).then_some(Cell::Decimal { mantissa: if is_negative { -mantissa } else { mantissa }, scale })
}

/// Puts a value into an answer.
fn read_cell(bytes: &[u8], ty: u32, is_binary: bool, out: &mut AnswerWriter<'_>) {
    let cell = match (ty, is_binary) {
        (oid::INT2, true) => bytes.try_into().map(|bytes| Cell::Int(i16::from_be_bytes(bytes).into())).ok(),
        (oid::INT4, true) => bytes.try_into().map(|bytes| Cell::Int(i32::from_be_bytes(bytes).into())).ok(),
        (oid::INT8, true) => bytes.try_into().map(|bytes| Cell::Int(i64::from_be_bytes(bytes))).ok(),
        (oid::TIMESTAMP | oid::TIMESTAMPTZ, true) => {
            bytes.try_into().map(|bytes| Cell::Time(i64::from_be_bytes(bytes))).ok()
        }
        (oid::INT2 | oid::INT4 | oid::INT8, false) => {
            std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).map(Cell::Int)
        }
        (oid::NUMERIC, _) => decimal(bytes),
        _ => None,
    };
    match cell {
        Some(cell) => out.cell(cell),
        None => out.text(bytes),
    }
}

#[cfg(test)]
mod tests;
