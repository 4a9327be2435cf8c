//! Statements of which several parts write: INSERT, UPDATE and DELETE in WITH.
//!
//! The main part runs first. What it reads of another part has that part run to its end, whose
//! RETURNING is kept as the rows of a WITH query are. Parts that nobody has read run behind it,
//! from the last one to the first, as in PostgreSQL.
//!
//! All parts read what there was before the statement: the transaction keeps what entries were
//! ([`colibri_txn::Transaction::keep_old`]). Writing itself, and what is checked of a row, sees
//! what has been written so far ([`Exec::seeing_all`]).
//!
//! Invariants: each part runs once, to its end, whether its rows are read or not. Of two parts that
//! change the same row, the one that comes later passes it by. References are checked when all
//! parts have run, for one part after the other; actions of foreign keys are carried out then. The
//! main part gives its rows before that. The session sends them to the client when the statement
//! has ended.

use colibri_types::Result;

use super::operator::{Operator, Run};
use super::triggers::fire_rows;
use super::{Batch, Exec, Statement, Step};
use crate::explain::Usage;
use crate::plan::Node;

/// How far the statement has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Beginning,
    Main,
    /// So many of the parts may not have run.
    Parts(usize),
    Finishing,
    Over,
}

/// Whether a part may take rows away, or change their keys.
pub(super) fn takes_away(part: &Node) -> bool {
    match part {
        Node::Shared { input, .. } => takes_away(input),
        Node::Insert(insert) => insert.on_conflict.is_some(),
        Node::Update(_) | Node::Delete(_) | Node::Merge(_) => true,
        _ => false,
    }
}

/// A statement with its parts at work.
pub(super) struct PartsRun {
    main: Run,
    /// Readers of the parts, in the order of WITH.
    parts: Vec<Run>,
    /// A part may take rows away, or change their keys.
    takes_away: bool,
    phase: Phase,
    /// What a part gives that nobody reads.
    unread: Batch,
}

impl PartsRun {
    pub(super) fn new(main: Run, parts: Vec<Run>, takes_away: bool) -> Self {
        Self { main, parts, takes_away, phase: Phase::Beginning, unread: Batch::new() }
    }

    fn forget(&mut self) {
        self.phase = Phase::Beginning;
        self.unread = std::mem::take(&mut self.unread).kept();
    }
}

impl Operator for PartsRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Beginning => {
                    ex.statement.has_parts = true;
                    ex.statement.takes_away = self.takes_away;
                    // Within another statement its parts see what the others have written.
                    if !ex.statement.is_inner {
                        ex.txn.keep_old();
                        ex.txn.see_old(true);
                    }
                    self.phase = Phase::Main;
                }
                Phase::Main => match self.main.step(ex, out)? {
                    Step::Done => self.phase = Phase::Parts(self.parts.len()),
                    step => return Ok(step),
                },
                Phase::Parts(0) => self.phase = Phase::Finishing,
                Phase::Parts(left) => match self.parts[left - 1].step(ex, &mut self.unread)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Rows => {}
                    Step::Done => self.phase = Phase::Parts(left - 1),
                },
                Phase::Finishing => {
                    let Some(mut effects) = ex.statement.effects.pop_front() else {
                        self.phase = Phase::Over;
                        continue;
                    };
                    out.reset(0);
                    let settled = ex.seeing_all(|ex| {
                        let is_settled = effects.settle(ex)?;
                        if is_settled {
                            fire_rows(ex, effects.fired_mut())?;
                        }
                        Ok(is_settled)
                    });
                    if !matches!(settled, Ok(true)) {
                        ex.statement.effects.push_front(effects);
                    }
                    match settled {
                        Ok(true) => {}
                        Ok(false) => return Ok(Step::Yield),
                        Err(error) => return ex.interrupted(error, out),
                    }
                }
                Phase::Over => return Ok(Step::Done),
            }
        }
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget();
        self.main.rewind(ex);
        self.parts.iter_mut().for_each(|part| part.rewind(ex));
    }

    fn reset(&mut self) {
        self.forget();
        self.main.reset();
        self.parts.iter_mut().for_each(Run::reset);
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        None
    }

    fn affected(&self) -> Option<u64> {
        self.main.affected()
    }
}
