//! Running a transaction again that conflicts, if its client cannot notice.
//!
//! A transaction without an explicit BEGIN, or one that came as one text from BEGIN to COMMIT, is
//! known as a whole at its end. If it fails because of other transactions (40001, 40P01), and no
//! answer of it was sent yet, it is rolled back and run again: the same statements with the same
//! parameters, whose answers replace the earlier ones. Statements that are transactions by
//! themselves are run again by the session, without any of this.
//!
//! Invariants
//! - A unit begins and ends between transactions: nothing in it has committed.
//! - A repeated unit changes nothing outside of its transaction, and no byte was sent since it
//!   began. So a unit's answers have at most [`super::OUT_BYTES`].

use std::sync::Arc;
use std::time::Instant;

use colibri_runtime::budget;
use colibri_sql::{Datum, Error, Prepared, Running, TransactionState};

use super::drive::Turn;
use super::{Client, End, Failure};
use crate::protocol::frontend::Formats;

/// The most attempts of a transaction. After them its client gets the error.
const TRIES_MAX: u32 = 1_000;
/// Parameters that are kept for another run, in bytes as they came.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A unit: statements that may be run again.
pub(super) struct Unit {
    /// Where its answers begin in the bytes to send.
    out_from: usize,
    /// [`Client::sent`] when it began.
    sent: u64,
    tries: u32,
    /// It began between two transactions, and has done nothing that cannot be repeated.
    is_repeatable: bool,
    /// [`colibri_sql::Session::lasting_changes`] when it began.
    lasting_changes: u64,
    /// Its statements so far, if they came by the extended protocol.
    runs: Vec<Run>,
    kept_bytes: usize,
}

/// A statement as it was executed.
struct Run {
    prepared: Arc<Prepared>,
    /// Set when the statement ends: until then it has the parameters itself.
    params: Vec<Datum>,
    formats: Formats,
    /// Where its answer lies in what is to be sent. In front of it are those to messages that do
    /// not run anything.
    from: usize,
    to: usize,
}

impl Unit {
    /// Marks the unit as one that cannot be repeated from here on.
    pub(super) fn cannot_repeat(&mut self) {
        self.is_repeatable = false;
        self.runs = Vec::new();
    }
}

impl Client {
    /// Begins a unit.
    pub(super) fn unit(&mut self) -> Unit {
        Unit {
            out_from: self.link.out.len(),
            sent: self.sent,
            tries: 0,
            is_repeatable: self.session().state() == TransactionState::Idle,
            lasting_changes: self.session().lasting_changes(),
            runs: Vec::new(),
            kept_bytes: 0,
        }
    }

    /// Whether a failed unit may be run again. If so, it is rolled back, and its answers are
    /// removed.
    pub(super) async fn takes_back(
        &mut self,
        unit: &mut Unit,
        error: &Error,
        turn: &mut Turn,
    ) -> Result<bool, Failure> {
        let is_unseen = unit.is_repeatable && unit.sent == self.sent;
        let session = self.session();
        if session.deadlock_stays(error) || session.lasting_changes() != unit.lasting_changes {
            return Ok(false);
        }
        if !error.is_retryable() || !is_unseen || unit.tries >= TRIES_MAX {
            return Ok(false);
        }
        unit.tries += 1;
        self.shared.counts.repeated.add(1);
        self.session().take_back_block();
        self.link.out.truncate(unit.out_from);
        // The conflicting transaction may need this thread.
        budget::yield_now().await;
        self.rest(turn).await?;
        self.heed_cancel();
        Ok(true)
    }

    /// Sends answers that were held back to be sent in one write, as a wait begins. Answers of a
    /// unit that may be run again stay.
    pub(super) async fn tell_held_back(&mut self) -> Result<(), End> {
        let out_from = self.unit.as_ref().filter(|unit| unit.is_repeatable).map(|unit| unit.out_from);
        if !self.is_flush_due || self.is_text_at_work || out_from.is_some_and(|from| self.link.out.len() > from) {
            return Ok(());
        }
        self.flush().await?;
        let sent = self.sent;
        if let Some(unit) = &mut self.unit {
            (unit.out_from, unit.sent) = (0, sent);
        }
        Ok(())
    }

    /// Records a statement of the current unit that is about to run, if there is a unit.
    pub(super) fn note_run(&mut self, prepared: &Arc<Prepared>, bytes: usize, formats: &Formats) {
        let (from, sent) = (self.link.out.len(), self.sent);
        let Some(unit) = self.unit.as_mut().filter(|unit| unit.is_repeatable) else { return };
        unit.kept_bytes += bytes;
        if !prepared.is_repeatable() || unit.kept_bytes > KEPT_BYTES_MAX || unit.sent != sent {
            return unit.cannot_repeat();
        }
        let (prepared, formats) = (Arc::clone(prepared), formats.clone());
        unit.runs.push(Run { prepared, params: Vec::new(), formats, from, to: from });
    }

    /// The statement noted last is over, and these were its parameters.
    pub(super) fn note_params(&mut self, running: Option<&mut Running>) {
        if let Some(run) = self.unit.as_mut().and_then(|unit| unit.runs.last_mut()) {
            run.params = running.map(Running::take_params).unwrap_or_default();
        }
    }

    /// The statement noted last is done, and its answer ends here.
    pub(super) fn note_done(&mut self) {
        let to = self.link.out.len();
        if let Some(run) = self.unit.as_mut().and_then(|unit| unit.runs.last_mut()) {
            run.to = to;
        }
    }

    /// Runs the current unit again, as long as it fails because of other transactions; with
    /// `commit`, the end of the transaction included. Returns the error if repeating does not help.
    pub(super) async fn repeat(&mut self, mut error: Error, commit: bool) -> Result<(), Failure> {
        let unit = self.unit.take().filter(|_| error.is_retryable());
        let Some(mut unit) = unit else { return Err(error.into()) };
        let parts = self.parts(&unit);
        let mut turn = self.turn(Instant::now());
        while self.takes_back(&mut unit, &error, &mut turn).await? {
            match self.repeat_once(&unit, &parts, commit).await {
                Err(Failure::Error(again)) => error = again,
                Err(end) => return Err(end),
                Ok(ends) => {
                    // Where the answers lie now, for the next time.
                    for (run, (from, to)) in unit.runs.iter_mut().zip(ends) {
                        (run.from, run.to) = (from, to);
                    }
                    self.unit = Some(unit);
                    return Ok(());
                }
            }
        }
        Err(error.into())
    }

    /// The bytes to send between the answers of a unit's statements, and after them.
    fn parts(&self, unit: &Unit) -> Vec<Vec<u8>> {
        let out = &self.link.out;
        if unit.sent != self.sent || !unit.is_repeatable {
            return Vec::new();
        }
        let mut at = unit.out_from;
        let mut parts = Vec::with_capacity(unit.runs.len() + 1);
        for run in &unit.runs {
            parts.push(out[at..run.from].to_vec());
            at = run.to;
        }
        // A failed statement is followed by the rows that it gave before the failure.
        let is_last_done = unit.runs.last().is_none_or(|run| run.to > run.from);
        parts.push(if is_last_done { out[at..].to_vec() } else { Vec::new() });
        parts
    }

    async fn repeat_once(
        &mut self,
        unit: &Unit,
        parts: &[Vec<u8>],
        commit: bool,
    ) -> Result<Vec<(usize, usize)>, Failure> {
        let mut places = Vec::with_capacity(unit.runs.len());
        for (run, before) in unit.runs.iter().zip(parts) {
            self.link.out.extend_from_slice(before);
            // Nothing between them has ended the transaction, or the unit would have been over.
            self.session().begin_implicit_block();
            let from = self.link.out.len();
            self.run_whole(run).await?;
            places.push((from, self.link.out.len()));
        }
        self.link.out.extend_from_slice(parts.last().map_or(&[], Vec::as_slice));
        if commit {
            self.end_implicit_block().await?;
        }
        Ok(places)
    }

    async fn run_whole(&mut self, run: &Run) -> Result<(), Failure> {
        let mut running = Some(self.session().start(&run.prepared, run.params.clone())?);
        self.heed_cancel();
        let mut turn = self.turn(Instant::now());
        let mut rows = colibri_sql::Rows::default();
        loop {
            let tag = self.advance(&mut running, &mut rows, &mut turn).await?;
            self.send_rows(&rows, &run.prepared, &run.formats).await?;
            rows.clear();
            if let Some(tag) = tag {
                self.complete(&run.prepared, Some(&tag));
                return Ok(());
            }
        }
    }
}
