//! Queries as text: one statement, or several that are one transaction unless they say otherwise.

use std::sync::Arc;
use std::time::Instant;

use colibri_sql::wire::Format;
use colibri_sql::{Datum, Error, Prepared, ResultColumn, Rows, TransactionState};

use super::repeat::Unit;
use super::replica::reads;
use super::{Client, End, Failure, OUT_BYTES};
use crate::protocol::backend;
use crate::protocol::frontend::Formats;
use crate::registry::{Query, shown};

impl Client {
    /// Runs a Query message.
    pub(super) async fn query(&mut self, text: String) -> Result<(), End> {
        let began = self.begins(Query::Text(shown(&text).to_owned()));
        let ran = match self.before_query() {
            Ok(()) => self.run_text(&text, began).await,
            Err(error) => Err(error.into()),
        };
        if self.is_refused_here(&ran) {
            return Box::pin(self.run_at_leader()).await;
        }
        let done = match ran {
            Err(Failure::Error(error)) => {
                // None of the statements of a text with a syntax error has run.
                self.session().fail_block();
                self.tell(&error);
                self.portals.fail();
                // The implicit block of the text is rolled back.
                match self.end_implicit_block().await {
                    Ok(()) => Ok(()),
                    Err(Failure::Error(error)) => return Err(End::Fatal(error)),
                    Err(Failure::End(end)) => return Err(end),
                }
            }
            Err(Failure::End(end)) => Err(end),
            Ok(()) => Ok(()),
        };
        self.ends(began, &text);
        done?;
        self.after_transaction();
        self.ready().await
    }

    async fn run_text(&mut self, text: &str, began: Instant) -> Result<(), Failure> {
        if reads(text.as_bytes()) {
            self.begin_to_read().await?;
        }
        if let Some((prepared, values)) = self.session().prepare_simple(text) {
            return self.run_one(&prepared, values, began, true).await;
        }
        let parts = self.within_limit(began, |session| session.split_at_work(text))?;
        if parts.is_empty() {
            self.end_implicit_block().await?;
            backend::empty_query(&mut self.link.out);
            return Ok(());
        }
        self.is_text_at_work = true;
        // Behind a pointer: what it needs would be part of each idle connection.
        let ran = Box::pin(self.run_parts(text, &parts, began)).await;
        self.is_text_at_work = false;
        ran
    }

    async fn run_parts(&mut self, text: &str, parts: &[&str], began: Instant) -> Result<(), Failure> {
        let mut turn = self.turn(began);
        let (mut unit, mut first) = (self.unit(), 0);
        let mut at = 0;
        while at < parts.len() {
            if parts.len() > 1 {
                // COMMIT ends a block, and the statements after it are in a new implicit block.
                self.session().begin_implicit_block();
            }
            let place = (parts.len() == 1, at + 1 == parts.len());
            match self.run_part(text, parts[at], began, place, &mut unit).await {
                Ok(()) => {
                    at += 1;
                    if self.session().state() == TransactionState::Idle {
                        (unit, first) = (self.unit(), at);
                    }
                }
                Err(Failure::Error(error)) if self.takes_back(&mut unit, &error, &mut turn).await? => at = first,
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    async fn run_part(
        &mut self,
        text: &str,
        part: &str,
        began: Instant,
        place: (bool, bool),
        unit: &mut Unit,
    ) -> Result<(), Failure> {
        // Positions are those in the whole text.
        let before = part.as_ptr().addr() - text.as_ptr().addr();
        let in_text = |error: Error| match error.report().position {
            Some(position) if before > 0 => error.moved_to(position + text[..before].chars().count() as u32),
            _ => error,
        };
        let done = self.run_part_alone(part, began, place, unit).await;
        done.map_err(|failure| match failure {
            Failure::Error(error) => Failure::Error(in_text(error)),
            end => end,
        })
    }

    async fn run_part_alone(
        &mut self,
        part: &str,
        began: Instant,
        (is_alone, is_last): (bool, bool),
        unit: &mut Unit,
    ) -> Result<(), Failure> {
        if reads(part.as_bytes()) {
            self.begin_to_read().await?;
        }
        // Of a text of one statement it is known by now that this does not go.
        let lifted = if is_alone { None } else { self.session().prepare_simple(part) };
        let (prepared, values) = match lifted {
            Some(lifted) => lifted,
            None => (self.within_limit(began, |session| session.prepare(part, &[]))?, Vec::new()),
        };
        if prepared.is_copy() {
            unit.cannot_repeat();
            let tag = self.copy(part.to_owned(), began).await?;
            return self.finish(&tag, is_last).await;
        }
        if !prepared.is_repeatable() {
            unit.cannot_repeat();
        }
        if prepared.is_empty() {
            if is_last && self.session().state() != TransactionState::Idle {
                self.end_implicit_block().await?;
            }
            backend::empty_query(&mut self.link.out);
            return Ok(());
        }
        let done = self.run_one(&prepared, values, began, is_last).await;
        if let Err(Failure::Error(_)) = &done {
            let Self { session, portals, .. } = self;
            portals.failed_query(prepared, session.as_ref().expect("it is away only while its task waits for it"));
        }
        done
    }

    /// Runs a statement to its end, and gives its rows as text.
    async fn run_one(
        &mut self,
        prepared: &Arc<Prepared>,
        values: Vec<Datum>,
        began: Instant,
        is_last: bool,
    ) -> Result<(), Failure> {
        let formats = Formats::All(if prepared.is_binary() { Format::Binary } else { Format::Text });
        let began_us = self.times.began_us;
        let mut running = Some(self.session().start_at(prepared, values, began_us)?);
        self.heed_cancel();
        let mut columns = prepared.columns();
        if prepared.is_query()
            && prepared.check_constants().is_ok()
            && let Some(columns) = columns.take()
        {
            let encoding = self.encoding();
            backend::row_description(&mut self.link.out, columns, &formats, encoding);
        }
        let mut turn = self.turn(began);
        let mut rows = self.session().spare_rows();
        loop {
            let tag = self.advance(&mut running, &mut rows, &mut turn).await?;
            if let Some(columns) = columns.take() {
                self.tell_notices();
                let encoding = self.encoding();
                backend::row_description(&mut self.link.out, columns, &formats, encoding);
            }
            if let Err(failure) = self.send_rows(&rows, prepared, &formats).await {
                if let Some(running) = &mut running {
                    self.session().fail(running);
                }
                return Err(failure);
            }
            rows.clear();
            if let Some(tag) = tag {
                self.session().keep_rows(rows);
                return self.finish(&tag, is_last).await;
            }
        }
    }

    pub(super) async fn send_rows(
        &mut self,
        rows: &Rows,
        prepared: &Prepared,
        formats: &Formats,
    ) -> Result<(), Failure> {
        // Notices that came while the rows were made are sent before them.
        self.tell_notices();
        let columns = self.session().columns_now(prepared).unwrap_or_default();
        for row in rows.iter() {
            self.send_row(row, &columns, formats)?;
            if self.link.out.len() >= OUT_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    pub(super) fn send_row(&mut self, row: &[Datum], columns: &[ResultColumn], formats: &Formats) -> Result<(), Error> {
        let Self { link, session, scratch, .. } = self;
        let session = session.as_ref().expect("it is away only while its task waits for it");
        backend::data_row(&mut link.out, row, columns, formats, session.env(), scratch)
    }

    /// Sends CommandComplete. For the last statement of a text it is sent when the text's implicit
    /// block has committed.
    async fn finish(&mut self, tag: &str, is_last: bool) -> Result<(), Failure> {
        if is_last && self.session().state() != TransactionState::Idle {
            self.end_implicit_block().await?;
        }
        self.tell_notices();
        backend::command_complete(&mut self.link.out, tag);
        Ok(())
    }
}
