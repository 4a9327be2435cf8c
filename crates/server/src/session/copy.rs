//! COPY from and to the client.
//!
//! Data are passed on in pieces as they lie in the buffer, so that a message of any length takes no
//! more memory than any other.

use std::time::Instant;

use colibri_runtime::spawn_blocking;
use colibri_sql::{Awaited, CompactString, Copy, CopyFrom, CopyTo, Error, Progress, SqlState};

use super::copy_file::{self, File};
use super::drive::Turn;
use super::{Client, End, Failure, OUT_BYTES, unexpected};
use crate::protocol::frontend::{self, HEADER_BYTES, Header};
use crate::protocol::{Reader, backend};

/// Bytes that COPY FROM takes at once.
const PIECE_BYTES: usize = 64 << 10;

/// What a client sends during COPY FROM.
enum Piece {
    /// Data of this many bytes, which lie in the buffer.
    Data(usize),
    Done,
    Fail(String),
}

impl Client {
    /// Runs a COPY in either direction; gives its command tag.
    pub(super) async fn copy(&mut self, text: String, began: Instant) -> Result<CompactString, Failure> {
        let mut turn = self.turn(began);
        // Beginning a COPY may wait for a change of the table, which blocks its thread.
        let begun = self.elsewhere(None, move |session| session.copy(&text)).await?;
        self.heed_cancel();
        match begun? {
            Copy::From(copy) => self.copy_from(copy, &mut turn).await,
            Copy::To(copy) => self.copy_to(copy, &mut turn).await,
        }
    }

    async fn copy_from(&mut self, mut copy: CopyFrom, turn: &mut Turn) -> Result<CompactString, Failure> {
        let taken = match copy.file().map(str::to_owned) {
            Some(name) => self.take_file(&mut copy, name, turn).await,
            None => {
                backend::copy_in(&mut self.link.out, copy.columns(), copy.is_binary());
                self.take_copy(&mut copy, turn).await
            }
        };
        if let Err(failure) = taken {
            self.session().copy_cancel(&mut copy);
            return Err(failure);
        }
        loop {
            let (back, finished) = self
                .elsewhere(None, move |session| {
                    let finished = session.copy_finish(&mut copy);
                    (copy, finished)
                })
                .await?;
            copy = back;
            match finished.map_err(|error| self.why_canceled(error, turn))? {
                Progress::Wait(wait) => {
                    if let Err(failure) = self.wait_for(wait, turn).await {
                        self.session().copy_cancel(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Fetch(wait) => {
                    if let Err(failure) = self.wait_fetched(wait, turn).await {
                        self.session().copy_cancel(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Sleep(until) => {
                    if let Err(failure) = self.sleep_until(until, turn).await {
                        self.session().copy_cancel(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Commits(turn) => self.wait_to_commit(turn).await,
                Progress::Done(completion) => {
                    self.owe(completion.ticket);
                    return Ok(completion.tag);
                }
                Progress::Rows | Progress::Yield => {}
            }
        }
    }

    /// Takes the data of a COPY FROM until the client says that they are complete.
    async fn take_copy(&mut self, copy: &mut CopyFrom, turn: &mut Turn) -> Result<(), Failure> {
        self.flush().await?;
        loop {
            match self.copy_piece().await? {
                Piece::Data(bytes) => {
                    let Self { link, session, .. } = self;
                    let session = session.as_mut().expect("it is away only while its task waits for it");
                    let pushed = session.copy_push(copy, &link.inbox.unread()[..bytes]);
                    link.inbox.take(bytes);
                    self.pushed(copy, pushed, turn).await?;
                }
                Piece::Done => return Ok(()),
                Piece::Fail(why) => {
                    return Err(Error::new(SqlState::CANCELED, format!("COPY from stdin failed: {why}")).into());
                }
            }
        }
    }

    /// Waits until data that were pushed are taken.
    async fn pushed(
        &mut self,
        copy: &mut CopyFrom,
        pushed: Result<Option<Awaited>, Error>,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let mut wait = pushed?;
        while let Some(awaited) = wait {
            match awaited {
                Awaited::Lock(lock) => self.wait_for(lock, turn).await?,
                Awaited::Fetch(fetch) => self.wait_fetched(fetch, turn).await?,
            }
            wait = self.session().copy_push(copy, &[])?;
        }
        self.rest(turn).await
    }

    /// Takes the data of a COPY FROM from a file of the server.
    async fn take_file(&mut self, copy: &mut CopyFrom, name: String, turn: &mut Turn) -> Result<(), Failure> {
        let mut file = on_disk(move || copy_file::open(&name)).await?;
        loop {
            let (back, piece) = on_disk(move || file.read().map(|piece| (file, piece))).await?;
            file = back;
            if piece.is_empty() {
                return Ok(());
            }
            self.heed_cancel();
            let pushed = self.session().copy_push(copy, &piece);
            self.pushed(copy, pushed, turn).await?;
        }
    }

    /// Waits for what comes next.
    async fn copy_piece(&mut self) -> Result<Piece, Failure> {
        loop {
            if self.copy_left > 0 {
                match self.link.inbox.unread().len() {
                    0 => {
                        self.more(None, false).await?;
                        if self.member().is_cancelled() {
                            let message = "canceling statement due to user request";
                            return Err(Error::new(SqlState::CANCELED, message).into());
                        }
                    }
                    there => {
                        let bytes = there.min(self.copy_left).min(PIECE_BYTES);
                        self.copy_left -= bytes;
                        return Ok(Piece::Data(bytes));
                    }
                }
                continue;
            }
            let bytes_max = self.shared.options.message_bytes_max;
            let header = frontend::header(self.link.inbox.unread(), bytes_max).map_err(End::Fatal)?;
            let Some(Header { kind, body_bytes }) = header else {
                self.more(None, false).await?;
                continue;
            };
            if kind == b'd' {
                self.link.inbox.take(HEADER_BYTES);
                self.copy_left = body_bytes;
                continue;
            }
            if self.link.inbox.unread().len() < HEADER_BYTES + body_bytes {
                self.more(None, false).await?;
                continue;
            }
            match kind {
                b'c' => {
                    self.link.inbox.take(HEADER_BYTES + body_bytes);
                    return Ok(Piece::Done);
                }
                b'f' => {
                    let why = Reader::new(&self.link.inbox.unread()[HEADER_BYTES..HEADER_BYTES + body_bytes])
                        .string()
                        .map(str::to_owned);
                    self.link.inbox.take(HEADER_BYTES + body_bytes);
                    return Ok(Piece::Fail(why?));
                }
                // Clients of the extended protocol send these before they know that there is a
                // COPY.
                b'S' | b'H' => self.link.inbox.take(HEADER_BYTES + body_bytes),
                b'X' => return Err(End::Closed.into()),
                other => return Err(unexpected(other, "during COPY from stdin").into()),
            }
        }
    }

    async fn copy_to(&mut self, mut copy: CopyTo, turn: &mut Turn) -> Result<CompactString, Failure> {
        let mut file = match copy.file().map(str::to_owned) {
            Some(name) => match on_disk(move || copy_file::create(&name)).await {
                Ok(file) => Some(file),
                Err(failure) => {
                    self.session().fail_copy(&mut copy);
                    return Err(failure);
                }
            },
            None => {
                backend::copy_out(&mut self.link.out, copy.columns(), copy.is_binary());
                None
            }
        };
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        loop {
            let progress = self.session().copy_rows(&mut copy, &mut bytes, &mut ends, turn.budget_rows);
            let progress = progress.map_err(|error| self.why_canceled(error, turn))?;
            match progress {
                Progress::Wait(wait) => {
                    if let Err(failure) = self.wait_for(wait, turn).await {
                        self.session().fail_copy(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Fetch(wait) => {
                    if let Err(failure) = self.wait_fetched(wait, turn).await {
                        self.session().fail_copy(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Sleep(until) => {
                    if let Err(failure) = self.sleep_until(until, turn).await {
                        self.session().fail_copy(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Commits(turn) => self.wait_to_commit(turn).await,
                // The rows are complete, and may be sent once the outcome of the transaction is
                // known.
                Progress::Rows if copy.holds_rows() => {}
                Progress::Rows | Progress::Yield => {
                    let sent = match self.give_copy(&mut file, &mut bytes, &mut ends).await {
                        Ok(()) => self.rest(turn).await,
                        Err(failure) => Err(failure),
                    };
                    if let Err(failure) = sent {
                        self.session().fail_copy(&mut copy);
                        return Err(failure);
                    }
                }
                Progress::Done(completion) => {
                    self.owe(completion.ticket);
                    self.give_copy(&mut file, &mut bytes, &mut ends).await?;
                    if file.is_none() {
                        backend::copy_done(&mut self.link.out);
                    }
                    return Ok(completion.tag);
                }
            }
        }
    }

    /// Writes rows to the file, or sends them.
    async fn give_copy(
        &mut self,
        file: &mut Option<File>,
        bytes: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failure> {
        let Some(mut open) = file.take() else { return Ok(self.send_copy(bytes, ends).await?) };
        ends.clear();
        let rows = std::mem::take(bytes);
        *file = Some(on_disk(move || open.write(&rows).map(|()| open)).await?);
        Ok(())
    }

    /// Sends rows, each in a message of its own, as clients expect that take them apart.
    async fn send_copy(&mut self, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<(), End> {
        let mut from = 0;
        for &end in ends.iter() {
            backend::copy_data(&mut self.link.out, &bytes[from..end]);
            from = end;
            if self.link.out.len() >= OUT_BYTES {
                self.flush().await?;
            }
        }
        // The header of the binary format is sent with the first row.
        bytes.drain(..from);
        ends.clear();
        Ok(())
    }
}

/// Runs what may wait for a disk where no session waits for it.
async fn on_disk<T: Send + 'static>(run: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Failure> {
    match spawn_blocking(run).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Error::internal("a file was given up").into()),
    }
}
